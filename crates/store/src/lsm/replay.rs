//! Putting what was read of the log into a buffer: a second thread does that while the first one
//! reads and verifies what follows. Neither waits for the other before there is nothing else to do:
//! where the second one is late, the first one does its work.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use super::buffer::Buffer;
use super::wal::Stretch;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::{Error, Result};

/// With more stretches waiting than this, who brings one puts it in himself.
const WAITING_MAX: usize = 2;
/// Memory of longer stretches is not kept for others.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Groups that are to be put into a buffer.
pub(crate) struct Job {
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) stretch: Stretch,
    /// The segment that they stand in, and its file.
    pub(crate) segment: u32,
    pub(crate) path: PathBuf,
    /// Groups that end at this sequence number, or before, stand in tables.
    pub(crate) flushed: u64,
}

impl Job {
    fn run(&self) -> Result<()> {
        let new = self.stretch.groups().filter(|group| group.last_seq() > self.flushed);
        let mut senseless = new.filter(|group| !self.buffer.apply(self.segment, group));
        senseless.next().map_or(Ok(()), |group| {
            let what = "the operations of a group make no sense";
            Err(Error::damaged(&self.path, group.offset, what))
        })
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// Whether the thread is at work.
    is_busy: bool,
    is_over: bool,
    /// Memory of stretches that are in.
    spare: Vec<Vec<u8>>,
    /// The first one.
    failure: Option<Error>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts groups into their buffer.
    fn run(&self, job: Job) {
        let result = job.run();
        let memory = job.stretch.into_memory();
        let mut state = self.lock();
        if memory.capacity() <= SPARE_BYTES_MAX {
            state.spare.push(memory);
        }
        if let Err(error) = result {
            state.failure.get_or_insert(error);
        }
    }

    /// What the thread does.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                state.is_busy = true;
                drop(state);
                let busy = Busy(self);
                self.run(job);
                drop(busy);
                state = self.lock();
            } else if state.is_over {
                return;
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// The thread is at work; it is not any more when this is dropped, also by a panic.
struct Busy<'s>(&'s Shared);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_busy = false;
        if std::thread::panicking() {
            let reason = "a thread panicked while it put the log into memory".to_string();
            state.failure.get_or_insert(Error::CommitFailed { reason });
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

/// Whoever puts groups into buffers.
pub(crate) struct Replay {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Replay {
    /// With a thread if there is to be one, and the system grants it.
    pub(crate) fn new(has_thread: bool) -> Self {
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("hedgerow-open".to_string());
        let start = || builder.spawn(move || theirs.work()).ok();
        let thread = has_thread.then(start).flatten();
        Self { shared, thread }
    }

    /// Has groups put into a buffer, sooner or later.
    pub(crate) fn push(&self, job: Job) {
        if self.thread.is_some() {
            let mut state = self.shared.lock();
            if state.waiting.len() < WAITING_MAX {
                state.waiting.push_back(job);
                drop(state);
                return self.shared.changed.notify_all();
            }
        }
        self.shared.run(job);
    }

    /// Memory for the next stretch.
    pub(crate) fn spare(&self) -> Vec<u8> {
        self.shared.lock().spare.pop().unwrap_or_default()
    }

    /// Returns when all are in.
    ///
    /// # Errors
    /// [`Error::Damaged`] if some make no sense.
    pub(crate) fn settle(&self) -> Result<()> {
        loop {
            let mut state = self.shared.lock();
            if let Some(job) = state.waiting.pop_front() {
                drop(state);
                self.shared.run(job);
                continue;
            }
            while state.is_busy {
                state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            return state.failure.take().map_or(Ok(()), Err);
        }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was noted.
            let _ = thread.join();
        }
    }
}
