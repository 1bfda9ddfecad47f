//! Committing: threads that commit at the same time share one write and one flush.
//!
//! # How a commit is made
//!
//! 1. A thread puts its batch in line. If nobody leads, it leads: it takes those in line, up to
//!    a mebibyte, and goes on for all of them; the others wait.
//! 2. Room is made: a full buffer is frozen and the log goes on in a new segment.
//! 3. The batches are appended to the log, each as a group; one write. A crash before its end
//!    leaves a tail that is cut; what returned before stands in front of it. What a write that
//!    fails leaves is cut off at once, and the next commit stands in its place.
//! 4. If any of them is to be durable: one flush. After a failed one nobody knows what is on the
//!    disk, and nothing more is written until the store is opened anew.
//! 5. The operations go into the buffer, and then the last sequence number is published: readers
//!    see a batch wholly or not at all, and nothing that could still fail.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::batch::Batch;
use super::engine::{Inner, Writer};
use super::entry::SEQUENCE_END;
use super::options::Durability;
use super::wal::{GROUP_HEADER_BYTES, Group};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::{Error, Result};

/// A leader takes no more than this, but for the first batch.
const LEAD_BYTES_MAX: usize = 1 << 20;

/// A batch in line.
pub(crate) struct Waiter {
    batch: Batch,
    durability: Durability,
    outcome: Mutex<Option<Result<(), String>>>,
}

#[derive(Default)]
struct Line {
    waiting: Vec<Arc<Waiter>>,
    is_led: bool,
}

/// The line of batches.
#[derive(Default)]
pub(crate) struct Queue {
    line: Mutex<Line>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first ones in line.
    fn take(line: &mut Line) -> Vec<Arc<Waiter>> {
        let mut bytes = 0;
        let fits = |waiter: &Arc<Waiter>| {
            bytes += waiter.batch.body.len();
            bytes <= LEAD_BYTES_MAX
        };
        let count = line.waiting.iter().map(fits).take_while(|&fits| fits).count().max(1);
        line.waiting.drain(..count.min(line.waiting.len())).collect()
    }
}

/// The lead; whoever it leads learns the outcome when it is dropped, also by a panic.
struct Lead<'q> {
    queue: &'q Queue,
    group: Vec<Arc<Waiter>>,
    outcome: Result<(), String>,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut line = self.queue.lock();
        for waiter in &self.group {
            let mut outcome = waiter.outcome.lock().unwrap_or_else(PoisonError::into_inner);
            *outcome = Some(self.outcome.clone());
        }
        line.is_led = false;
        self.queue.changed.notify_all();
    }
}

impl Inner {
    /// Commits a batch.
    pub(crate) fn commit(&self, batch: Batch, durability: Durability) -> Result<()> {
        let waiter = Arc::new(Waiter { batch, durability, outcome: Mutex::new(None) });
        let mut line = self.queue.lock();
        line.waiting.push(Arc::clone(&waiter));
        loop {
            let outcome = waiter.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(outcome) = outcome {
                return outcome.map_err(|reason| Error::CommitFailed { reason });
            }
            if line.is_led {
                line = self.queue.changed.wait(line).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            line.is_led = true;
            let group = Queue::take(&mut line);
            drop(line);
            let outcome = Err("the thread that wrote it panicked".to_string());
            let mut lead = Lead { queue: &self.queue, group, outcome };
            let result = self.lead(&lead.group);
            lead.outcome = result.as_ref().map_err(ToString::to_string).copied();
            let is_ours = lead.group.iter().any(|led| Arc::ptr_eq(led, &waiter));
            drop(lead);
            if is_ours {
                return result;
            }
            line = self.queue.lock();
        }
    }

    /// Steps 2 to 5 of a commit.
    fn lead(&self, group: &[Arc<Waiter>]) -> Result<()> {
        let mut writer = self.writer();
        self.health.check()?;
        self.make_room(&mut writer, group.iter().map(|waiter| waiter.batch.body.len()).sum())?;
        let groups: Vec<(u32, &[u8])> =
            group.iter().map(|waiter| (waiter.batch.count, &waiter.batch.body[..])).collect();
        let first = writer.next_seq;
        let end = first + groups.iter().map(|group| u64::from(group.0)).sum::<u64>();
        if end > SEQUENCE_END {
            return Err(Error::argument("the store has used up its sequence numbers"));
        }
        let now =
            |waiter: &Arc<Waiter>| waiter.durability > Durability::None || waiter.batch.separates;
        let bodies = writer.log.append(&groups, first, group.iter().any(now));
        let bodies = bodies.inspect_err(|error| self.poison_if_broken(&writer, error))?;
        writer.next_seq = end;
        if group.iter().any(|waiter| waiter.durability == Durability::Durable) {
            self.flush_log(&mut writer)?;
        }
        let (active, segment) = (Arc::clone(&self.current().active), writer.log.identity().number);
        let mut seq = first;
        for ((count, body), body_offset) in groups.into_iter().zip(bodies) {
            let offset = body_offset - GROUP_HEADER_BYTES as u64;
            let is_whole = active.apply(segment, &Group { offset, seq, count, flushed: 0, body });
            debug_assert!(is_whole);
            seq += u64::from(count);
        }
        self.clock.visible.store(end - 1, Ordering::Release);
        Ok(())
    }

    /// A write or a flush of the log failed: whether commits can go on.
    fn poison_if_broken(&self, writer: &Writer, error: &Error) {
        if writer.log.is_broken() {
            self.health.poison(error);
        }
    }

    /// Hands everything to the system.
    pub(crate) fn write_out_log(&self, writer: &mut Writer) -> Result<()> {
        let written = writer.log.write_out();
        written.inspect_err(|error| self.poison_if_broken(writer, error))
    }

    /// Hands everything to stable storage.
    pub(crate) fn flush_log(&self, writer: &mut Writer) -> Result<()> {
        self.health.check()?;
        let flushed = writer.log.flush();
        flushed.inspect_err(|error| self.poison_if_broken(writer, error))
    }
}
