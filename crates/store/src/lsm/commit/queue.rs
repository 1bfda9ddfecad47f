//! The line of batches that wait to be committed, and what their waiters are told.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::batch::Batch;
use super::conflict::{Changes, Footprint};
use super::reply::Reply;
use crate::lsm::read::view::Current;
use crate::sync::atomic::AtomicBool;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::{Durability, Error, Result};

/// A leader takes no more than this, except that it always takes one batch.
const LEAD_BYTES_MAX: usize = 1 << 20;

/// Why a batch was not committed, for its waiter.
#[derive(Clone)]
pub(super) enum Refusal {
    /// The group that it was in failed.
    Failed(String),
    /// A keyspace that it names was dropped.
    Dropped(Vec<u8>),
    /// Others changed what its transaction read or wrote.
    Conflict,
    /// The disk is nearly full.
    Full(TooLittle),
}

/// Less than is to be free on the disk would be left.
#[derive(Clone)]
pub(super) struct TooLittle {
    /// What it would be written to.
    pub(super) log: PathBuf,
    /// This much is to be free,
    pub(super) kept: u64,
    /// also after what only deletes.
    pub(super) is_for_all: bool,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Failed(reason) => Self::CommitFailed { reason },
            Refusal::Dropped(name) => Self::NoTable { name },
            Refusal::Conflict => Self::Conflict,
            Refusal::Full(TooLittle { log, kept, is_for_all }) => {
                let why = match is_for_all {
                    true => "what was deleted needs to go to tables; flush or compact the store",
                    false => "merging needs; what only deletes is still taken",
                };
                let reason = format!(
                    "the disk is nearly full: less than the {kept} bytes would be left free that \
                     {why}"
                );
                Self::io("write to", &log, std::io::Error::new(ErrorKind::StorageFull, reason))
            }
        }
    }
}

/// What is to be committed.
pub(super) struct Order {
    pub(super) batch: Batch,
    pub(super) durability: Durability,
    /// What must not have changed.
    pub(super) footprint: Option<Footprint>,
}

impl Order {
    /// Whether nothing can be against it.
    pub(super) fn is_plain(&self) -> bool {
        self.footprint.is_none() && self.batch.dropped().is_none()
    }

    /// Why it may not be committed to the store as it is, after the changes in front of it.
    pub(super) fn refusal(&self, current: &Current, earlier: &Changes<'_>) -> Option<Refusal> {
        if let Some(keyspace) = self.batch.dropped() {
            return Some(Refusal::Dropped(keyspace.name().to_vec()));
        }
        let footprint = self.footprint.as_ref()?;
        if footprint.meets(earlier) {
            return Some(Refusal::Conflict);
        }
        match footprint.was_changed(current) {
            Ok(was_changed) => was_changed.then_some(Refusal::Conflict),
            Err(error) => Some(Refusal::Failed(error.to_string())),
        }
    }

    /// What the log takes of it.
    pub(super) fn group(&self) -> (u32, &[u8]) {
        (self.batch.count, &self.batch.body)
    }
}

/// The message to a waiter.
pub(super) enum Word {
    /// To lead.
    Lead,
    /// What became of its batch.
    Outcome(Result<(), Refusal>),
}

/// A batch in line.
pub(super) struct Waiter {
    pub(super) order: Order,
    word: Mutex<Option<Word>>,
    told: Condvar,
    /// Whether a thread waits; else `reply` is called with the outcome.
    pub(super) has_thread: bool,
    reply: Mutex<Option<Reply<()>>>,
}

impl Waiter {
    pub(super) fn new(order: Order, reply: Option<Reply<()>>) -> Arc<Self> {
        let (has_thread, reply) = (reply.is_none(), Mutex::new(reply));
        let (word, told) = (Mutex::new(None), Condvar::default());
        Arc::new(Self { order, word, told, has_thread, reply })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Word>> {
        self.word.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, word: Word) {
        *self.lock() = Some(word);
        self.told.notify_one();
    }

    /// Waits for a word.
    pub(super) fn listen(&self) -> Word {
        let mut word = self.lock();
        loop {
            match word.take() {
                Some(word) => return word,
                None => word = self.told.wait(word).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Runs the callback of a waiter whose outcome is set.
    pub(super) fn call(&self) {
        let reply = self.reply.lock().unwrap_or_else(PoisonError::into_inner).take();
        let word = self.lock().take();
        if let (Some(reply), Some(Word::Outcome(outcome))) = (reply, word) {
            reply.send(outcome.map_err(Error::from));
        }
    }
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Arc<Waiter>>,
    is_led: bool,
}

/// The line of batches.
#[derive(Default)]
pub(crate) struct Queue {
    line: Mutex<Line>,
    /// Whether there is a waiter or a leader.
    pub(super) is_busy: AtomicBool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the queue. Returns whether there is no leader, so that the caller must provide one.
    pub(super) fn join(&self, waiter: &Arc<Waiter>) -> bool {
        let mut line = self.lock();
        line.waiting.push_back(Arc::clone(waiter));
        self.is_busy.store(true, Ordering::Release);
        !std::mem::replace(&mut line.is_led, true)
    }

    /// The first ones in line.
    pub(super) fn take(&self) -> Vec<Arc<Waiter>> {
        let mut line = self.lock();
        let mut bytes = 0;
        let fits = |waiter: &Arc<Waiter>| {
            bytes += waiter.order.batch.body.len();
            bytes <= LEAD_BYTES_MAX
        };
        let count = line.waiting.iter().map(fits).take_while(|&fits| fits).count().max(1);
        let count = count.min(line.waiting.len());
        line.waiting.drain(..count).collect()
    }

    /// Lets a thread in line lead; whether there is one.
    pub(super) fn pass_on(&self) -> bool {
        let next = self.lock().waiting.iter().find(|waiter| waiter.has_thread).cloned();
        next.as_ref().inspect(|next| next.tell(Word::Lead)).is_some()
    }

    /// Ends leading if the queue is empty. Returns whether it was.
    pub(super) fn leave(&self) -> bool {
        let mut line = self.lock();
        line.is_led = !line.waiting.is_empty();
        self.is_busy.store(line.is_led, Ordering::Release);
        !line.is_led
    }
}
