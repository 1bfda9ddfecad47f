//! The line of batches that wait to be committed, and what their waiters are told.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::batch::Batch;
use super::conflict::Footprint;
use super::reply::Reply;
use crate::lsm::log::segment::{OpKind, Ops};
use crate::lsm::log::wal::Body;
use crate::sync::atomic::AtomicBool;
use crate::sync::{Condvar, Mutex, locked};
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

/// A commit would leave less free on the disk than is kept free.
#[derive(Clone)]
pub(super) struct TooLittle {
    /// The segment that it would be written to.
    pub(super) log: PathBuf,
    /// How much is kept free.
    pub(super) kept: u64,
    /// Whether that is kept free by batches that only delete, too.
    pub(super) is_for_all: bool,
}

impl TooLittle {
    /// Whether there is too little for a batch. One without operations only asks for those before
    /// it to be durable.
    pub(super) fn refuses(&self, request: &Request) -> bool {
        request.puts() || self.is_for_all && request.batch.count > 0
    }
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

/// A batch that is to be committed.
pub(super) struct Request {
    pub(super) batch: Batch,
    pub(super) durability: Durability,
    /// What must not have changed.
    pub(super) footprint: Option<Footprint>,
}

impl Request {
    /// Whether it depends on the store that it may be committed.
    pub(super) fn has_conditions(&self) -> bool {
        self.footprint.is_some() || self.batch.dropped().is_some()
    }

    /// Whether it puts something.
    pub(super) fn puts(&self) -> bool {
        let is_put = |kind| matches!(kind, OpKind::Put | OpKind::PutSeparated);
        Ops::new(&self.batch.body).any(|op| is_put(op.kind))
    }

    /// What the log takes of it.
    pub(super) fn body(&self) -> Body<'_> {
        (self.batch.count, &self.batch.body)
    }
}

/// A message to a waiter.
pub(super) enum Message {
    /// It is to lead.
    Lead,
    /// What became of its batch.
    Outcome(Result<(), Refusal>),
}

/// A batch in line.
pub(super) struct Waiter {
    pub(super) request: Request,
    message: Mutex<Option<Message>>,
    told: Condvar,
    /// Whether a thread waits; else `reply` is called with the outcome.
    pub(super) has_thread: bool,
    reply: Mutex<Option<Reply<()>>>,
}

impl Waiter {
    pub(super) fn new(request: Request, reply: Option<Reply<()>>) -> Arc<Self> {
        let (has_thread, reply) = (reply.is_none(), Mutex::new(reply));
        let (message, told) = (Mutex::new(None), Condvar::default());
        Arc::new(Self { request, message, told, has_thread, reply })
    }

    pub(super) fn tell(&self, message: Message) {
        *locked(&self.message) = Some(message);
        self.told.notify_one();
    }

    /// Waits for a message.
    pub(super) fn wait(&self) -> Message {
        let mut message = locked(&self.message);
        loop {
            match message.take() {
                Some(message) => return message,
                None => message = self.told.wait(message).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Runs the callback of a waiter whose outcome is set.
    pub(super) fn call(&self) {
        let (reply, message) = (locked(&self.reply).take(), locked(&self.message).take());
        if let (Some(reply), Some(Message::Outcome(outcome))) = (reply, message) {
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
    is_busy: AtomicBool,
}

impl Queue {
    /// Whether there is a waiter or a leader.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Acquire)
    }

    /// Joins the queue. Returns whether there is no leader, so that the caller must provide one.
    pub(super) fn join(&self, waiter: &Arc<Waiter>) -> bool {
        let mut line = locked(&self.line);
        line.waiting.push_back(Arc::clone(waiter));
        self.is_busy.store(true, Ordering::Release);
        !std::mem::replace(&mut line.is_led, true)
    }

    /// The first ones in line.
    pub(super) fn take(&self) -> Vec<Arc<Waiter>> {
        let mut line = locked(&self.line);
        let mut bytes = 0;
        let fits = |waiter: &Arc<Waiter>| {
            bytes += waiter.request.batch.body.len();
            bytes <= LEAD_BYTES_MAX
        };
        let count = line.waiting.iter().map(fits).take_while(|&fits| fits).count().max(1);
        let count = count.min(line.waiting.len());
        line.waiting.drain(..count).collect()
    }

    /// Lets a thread in line lead; whether there is one.
    pub(super) fn pass_on(&self) -> bool {
        let next = locked(&self.line).waiting.iter().find(|waiter| waiter.has_thread).cloned();
        next.as_ref().inspect(|next| next.tell(Message::Lead)).is_some()
    }

    /// Ends leading if the queue is empty. Returns whether it was.
    pub(super) fn leave(&self) -> bool {
        let mut line = locked(&self.line);
        line.is_led = !line.waiting.is_empty();
        self.is_busy.store(line.is_led, Ordering::Release);
        !line.is_led
    }
}
