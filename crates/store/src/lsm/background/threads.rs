//! The background threads: one writes buffers to tables, one compacts and collects, one seals
//! segments of the log and makes the next one.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::lsm::engine::Inner;
use crate::lsm::levels::pace::Unmerged;
use crate::{Error, Result};

/// What a thread does until it is told to stop.
type Work = fn(&Inner);

/// The threads of a store.
pub(crate) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    /// Starts them, if the store is to have some.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn start(inner: &Arc<Inner>) -> Result<Self> {
        let mut threads = Self(Vec::new());
        if !inner.background.is_on() {
            return Ok(threads);
        }
        let works: [(&'static str, Work); 3] =
            [("hedgerow-flush", flusher), ("hedgerow-merge", merger), ("hedgerow-log", logger)];
        for (name, work) in works {
            let shared = Arc::clone(inner);
            let builder = std::thread::Builder::new().name(name.to_string());
            let started = builder.spawn(move || {
                let _noted = NotedPanic { inner: &shared, name };
                work(&shared);
            });
            match started {
                Ok(thread) => threads.0.push(thread),
                Err(e) => {
                    threads.stop(inner);
                    return Err(Error::io("start a thread for", &inner.directory.path, e));
                }
            }
        }
        Ok(threads)
    }

    /// In a child process after a fork, which has none of them: they go on in its parent.
    pub(crate) fn leave(&mut self) {
        self.0.drain(..).for_each(std::mem::forget);
    }

    /// Ends them: a merge or a collection at once, and other work when it is done. If merging and
    /// collecting are far behind, a piece of that is done, too: in a store that is only open for
    /// short times, none might ever be.
    pub(crate) fn stop(&mut self, inner: &Inner) {
        inner.background.pool.stop();
        if !inner.background.standing().behind(Unmerged::default()).is_far() {
            inner.turns.closing.begin();
        }
        inner.background.stop();
        for thread in self.0.drain(..) {
            // A thread that panicked has nothing left to do.
            let _ = thread.join();
        }
    }
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
