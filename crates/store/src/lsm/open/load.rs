//! Loading groups of the log into buffers: a second thread does that while the first one reads and
//! verifies the next groups. Neither waits for the other as long as there is other work: if the
//! second thread is late, the first one does its work. Entries are set aside as they come, and a
//! buffer that gets no more is put in order at once.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use crate::lsm::buffer::Buffer;
use crate::lsm::log::groups::Stretch;
use crate::sync::{Condvar, Mutex, MutexGuard, locked};
use crate::{Error, Result};

/// If more stretches than this are waiting, a thread that brings one puts it in itself.
const WAITING_MAX: usize = 2;
/// Memory of longer stretches is not kept for others.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// What is to be done.
enum Work {
    /// Groups are set aside.
    Groups(Job),
    /// What was set aside is put in order: when all before this is done.
    Order(Arc<Buffer>),
}

impl Work {
    /// Does the work; returns the memory that can be used again.
    fn run(self) -> (Result<()>, Option<Vec<u8>>) {
        match self {
            Self::Groups(job) => (job.run(), Some(job.stretch.into_memory())),
            Self::Order(buffer) => {
                buffer.put_in();
                (Ok(()), None)
            }
        }
    }
}

/// Groups that are to be set aside in a buffer.
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
        let mut senseless = new.filter(|group| !self.buffer.set_aside(self.segment, group));
        senseless.next().map_or(Ok(()), |group| {
            let what = "the operations of a group make no sense";
            Err(Error::corrupt_at(&self.path, group.offset, what))
        })
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    /// How many are in hand.
    running: usize,
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

impl State {
    /// The next one to do, which is in hand then. What is in hand already may belong to a buffer
    /// that is to be put in order.
    fn take(&mut self) -> Option<Work> {
        let is_free =
            self.running == 0 || self.waiting.front().is_some_and(|w| matches!(w, Work::Groups(_)));
        let work = if is_free { self.waiting.pop_front() } else { None };
        self.running += usize::from(work.is_some());
        work
    }
}

impl Shared {
    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Does some work that is in hand.
    fn run(&self, work: Work) {
        let _in_hand = InHand(self);
        let (result, memory) = work.run();
        let mut state = locked(&self.state);
        state.spare.extend(memory.filter(|memory| memory.capacity() <= SPARE_BYTES_MAX));
        if let Err(error) = result {
            state.failure.get_or_insert(error);
        }
    }

    /// What the thread does.
    fn work(&self) {
        let mut state = locked(&self.state);
        loop {
            if let Some(work) = state.take() {
                drop(state);
                self.run(work);
                state = locked(&self.state);
            } else if state.is_over {
                return;
            } else {
                state = self.wait(state);
            }
        }
    }
}

/// Work is in hand; it is not any more when this is dropped, also by a panic.
struct InHand<'s>(&'s Shared);

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        state.running -= 1;
        if std::thread::panicking() {
            let reason = "a thread panicked while it put the log into memory".to_string();
            state.failure.get_or_insert(Error::CommitFailed { reason });
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

/// The part of recovery that puts groups into buffers.
pub(crate) struct Loader {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Loader {
    /// With a thread if there is to be one, and the system grants it.
    pub(crate) fn new(has_thread: bool) -> Self {
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("hedgerow-open".to_string());
        let start = || builder.spawn(move || theirs.work()).ok();
        let thread = has_thread.then(start).flatten();
        Self { shared, thread }
    }

    /// Has groups set aside in a buffer, sooner or later.
    pub(crate) fn push(&self, job: Job) {
        let mut state = locked(&self.shared.state);
        if self.thread.is_none() || state.waiting.len() >= WAITING_MAX {
            state.running += 1;
            drop(state);
            return self.shared.run(Work::Groups(job));
        }
        self.leave(state, Work::Groups(job));
    }

    /// Has a buffer put in order that gets no more groups.
    pub(crate) fn order(&self, buffer: Arc<Buffer>) {
        self.leave(locked(&self.shared.state), Work::Order(buffer));
    }

    /// Leaves work to the thread, or to [`Loader::settle`].
    fn leave(&self, mut state: MutexGuard<'_, State>, work: Work) {
        state.waiting.push_back(work);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Memory for the next stretch.
    pub(crate) fn spare(&self) -> Vec<u8> {
        locked(&self.shared.state).spare.pop().unwrap_or_default()
    }

    /// Returns when all is done.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if groups make no sense.
    pub(crate) fn settle(&self) -> Result<()> {
        let mut state = locked(&self.shared.state);
        loop {
            if let Some(work) = state.take() {
                drop(state);
                self.shared.run(work);
                state = locked(&self.shared.state);
            } else if state.running > 0 {
                state = self.shared.wait(state);
            } else {
                return state.failure.take().map_or(Ok(()), Err);
            }
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        locked(&self.shared.state).is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was noted.
            let _ = thread.join();
        }
    }
}
