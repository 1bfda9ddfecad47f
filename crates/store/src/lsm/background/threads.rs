//! The background threads: one writes buffers to tables, one compacts and collects, one seals
//! segments of the log and makes the next one.

use std::io;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use super::THREADS;
use crate::Error;
use crate::lsm::engine::Inner;
use crate::lsm::levels::pace::Unmerged;

/// What a thread does until it is told to stop.
type Work = fn(&Inner);

const WORKS: [(&str, Work); THREADS] =
    [("hedgerow-flush", flusher), ("hedgerow-merge", merger), ("hedgerow-log", logger)];

impl Inner {
    /// From now on the threads are started when there is work for one of them, if the store is to
    /// have some: a store that is only open, or that little is written to, takes none.
    pub(crate) fn offer_threads(self: &Arc<Self>) {
        if self.background.is_on() {
            let store = Arc::downgrade(self);
            self.background.start_by(Box::new(move |number| start(&store, number)));
        }
    }

    /// Ends them: a merge or a collection at once, and other work when it is done. If merging and
    /// collecting are far behind, a piece of that is done, too: in a store that is only open for
    /// short times, none might ever be.
    pub(crate) fn stop_threads(&self) {
        self.background.pool.stop();
        if !self.background.standing().behind(Unmerged::default()).is_far() {
            self.turns.closing.begin();
        }
        for thread in self.background.stop() {
            // A thread that panicked has nothing left to do.
            let _ = thread.join();
        }
    }
}

/// Starts the thread of a number.
pub(super) fn start(store: &Weak<Inner>, number: usize) -> io::Result<JoinHandle<()>> {
    let (name, work) = WORKS[number];
    let shared = store.upgrade().ok_or(io::ErrorKind::NotFound)?;
    std::thread::Builder::new().name(name.to_string()).spawn(move || {
        let _noted = NotedPanic { inner: &shared, name };
        work(&shared);
    })
}

/// Dropped by a panic it says so, and poisons the store: what the thread has left half done is not
/// known, and writers would wait for ever for what it was to do.
struct NotedPanic<'i> {
    inner: &'i Inner,
    name: &'static str,
}

impl Drop for NotedPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = format!("the thread {} panicked", self.name);
            self.inner.health.poison(&Error::CommitFailed { reason: reason.clone() });
            self.inner.background.note_panic(reason);
        }
    }
}

fn flusher(inner: &Inner) {
    let background = &inner.background;
    while background.next(&background.changed, |state| std::mem::take(&mut state.flush)) {
        background.note(inner.flush_frozen());
    }
}

fn logger(inner: &Inner) {
    let background = &inner.background;
    let (mut is_due, mut told) = (false, Vec::new());
    while background.next(&background.log_changed, |state| {
        is_due = std::mem::take(&mut state.log);
        told = std::mem::take(&mut state.notices);
        is_due || !told.is_empty()
    }) {
        let (warm, blocks) = (&inner.logs.warm, &inner.directory.blocks);
        told.drain(..).for_each(|notice| notice.tell(warm, blocks));
        if is_due {
            background.note(inner.make_spare().and_then(|()| inner.seal_ended()));
        }
    }
}

fn merger(inner: &Inner) {
    let background = &inner.background;
    while background.next(&background.changed, |state| std::mem::take(&mut state.merge)) {
        loop {
            match inner.merge_once() {
                Ok(true) if !background.is_stopped() => {}
                result => break background.note(result.map(drop)),
            }
        }
    }
}
