//! A thread that flushes what was written without waiting for the disk, now and then: a power loss
//! takes no more than that. LevelDB leaves it to the system, which does it after some seconds, too.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long after the first write that is not flushed the flush begins.
pub(super) const DELAY: Duration = Duration::from_secs(5);

/// The thread, which begins with the first such write and ends with the database.
pub(super) struct Flusher {
    shared: Arc<Shared>,
    flush: Arc<Flush>,
    delay: Duration,
    /// The process that has the thread: a child after a fork has none.
    process: u32,
}

type Flush = dyn Fn() -> hedgerow::Result<()> + Send + Sync;

#[derive(Default)]
struct Shared {
    /// Whether something was written since the last flush began.
    is_due: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    thread: Option<JoinHandle<()>>,
    has_ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is due and the delay is over; false at the end.
    fn wait(&self, delay: Duration) -> bool {
        let idle = |state: &mut State| !state.has_ended && !self.is_due.load(SeqCst);
        let waited = self.changed.wait_while(self.lock(), idle);
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        let goes_on = |state: &mut State| !state.has_ended;
        let waited = self.changed.wait_timeout_while(state, delay, goes_on);
        !waited.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }
}

impl Flusher {
    /// `flush` makes durable what was written before the call. It keeps what it needs of the store
    /// open, so the flusher goes before the store does.
    pub(super) fn new(
        delay: Duration,
        flush: impl Fn() -> hedgerow::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let process = std::process::id();
        Self { shared: Arc::default(), flush: Arc::new(flush), delay, process }
    }

    /// Notes that something was written.
    #[inline]
    pub(super) fn note(&self) {
        if !self.shared.is_due.load(SeqCst) {
            self.begin();
        }
    }

    #[cold]
    fn begin(&self) {
        self.shared.is_due.store(true, SeqCst);
        let mut state = self.shared.lock();
        if state.thread.is_none() {
            let (shared, flush, delay) =
                (Arc::clone(&self.shared), Arc::clone(&self.flush), self.delay);
            let work = move || {
                while shared.wait(delay) {
                    shared.is_due.store(false, SeqCst);
                    // After a failure the store takes no more writes, which their callers see.
                    let _ = flush();
                }
            };
            // Where there is no thread to be had, the close flushes.
            state.thread =
                std::thread::Builder::new().name("leveldb-flush".into()).spawn(work).ok();
        }
        drop(state);
        self.shared.changed.notify_one();
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            // The thread and its lock are the parent's. Its copy of the handle is never dropped.
            return std::mem::forget(Arc::clone(&self.shared));
        }
        let thread = {
            let mut state = self.shared.lock();
            state.has_ended = true;
            state.thread.take()
        };
        self.shared.changed.notify_one();
        if let Some(thread) = thread {
            // A panic in it is one of a flush: there is nobody to tell.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use hedgerow::Durability;
    use hedgerow::tree::{Store, TableOptions};

    use super::*;

    #[test]
    fn what_is_written_becomes_durable_without_a_call() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path().join("store")).unwrap();
        let flushed = store.clone();
        let flusher = Flusher::new(Duration::from_millis(5), move || flushed.sync());
        for name in ["a", "b", "c"] {
            let mut txn = store.begin_write().unwrap();
            txn.create_table(name, &TableOptions::new()).unwrap();
            txn.commit_with(Durability::None).unwrap();
            let commit = store.newest_commit();
            assert!(store.stat().unwrap().durable_commit < commit);
            flusher.note();
            let begin = Instant::now();
            while store.stat().unwrap().durable_commit < commit {
                assert!(begin.elapsed() < Duration::from_secs(60));
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(Flusher::new(DELAY, || Ok(())));
    }
}
