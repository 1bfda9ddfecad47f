//! Committing: threads that commit at the same time share one write and one flush.
//!
//! # How a commit is made
//!
//! 1. A thread puts its batch in line. If nobody leads, it leads: it takes those in line, up to
//!    a mebibyte, and goes on for all of them; the others wait, or go on and are called. Where
//!    only such are left in line, a thread of the pool leads.
//! 2. Batches that name a dropped keyspace are refused, and those of transactions under which
//!    others changed something, also in front of them in the same group. Room is made: a full
//!    buffer is frozen and the log goes on in a new segment.
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
use super::conflict::{Changes, Footprint};
use super::engine::{Current, Inner, Writer};
use super::entry::SEQUENCE_END;
use super::options::Durability;
use super::pool::{Reply, Task};
use super::wal::{GROUP_HEADER_BYTES, Group};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::{Error, Result};

/// A leader takes no more than this, but for the first batch.
const LEAD_BYTES_MAX: usize = 1 << 20;

/// Why a batch was not committed, for whoever waits for it.
#[derive(Clone)]
enum Refusal {
    /// The group that it was in failed.
    Failed(String),
    /// A keyspace that it names was dropped.
    Dropped(Vec<u8>),
    /// Others changed what its transaction read or wrote.
    Conflict,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Failed(reason) => Self::CommitFailed { reason },
            Refusal::Dropped(name) => Self::NoKeyspace { name },
            Refusal::Conflict => Self::Conflict,
        }
    }
}

/// A batch in line.
pub(crate) struct Waiter {
    batch: Batch,
    durability: Durability,
    /// What must not have changed.
    footprint: Option<Footprint>,
    outcome: Mutex<Option<Result<(), Refusal>>>,
    /// What is called with the outcome; `None`: a thread waits for it.
    reply: Mutex<Option<Reply<()>>>,
}

impl Waiter {
    /// Why it may not be committed to the store as it is, behind the changes in front of it.
    fn refusal(&self, current: &Current, earlier: &Changes<'_>) -> Option<Refusal> {
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

    fn new(
        batch: Batch,
        durability: Durability,
        footprint: Option<Footprint>,
        reply: Option<Reply<()>>,
    ) -> Arc<Self> {
        let (outcome, reply) = (Mutex::new(None), Mutex::new(reply));
        Arc::new(Self { batch, durability, footprint, outcome, reply })
    }

    fn has_thread(&self) -> bool {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Calls who is to be called, and is told already.
    fn call(&self) {
        let reply = self.reply.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(reply) = reply
            && let Some(outcome) = self.take_outcome()
        {
            reply.send(outcome.map_err(Error::from));
        }
    }

    fn take_outcome(&self) -> Option<Result<(), Refusal>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn tell(&self, outcome: Result<(), Refusal>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }
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
struct Lead<'i> {
    inner: &'i Inner,
    /// Those that are committed.
    group: Vec<Arc<Waiter>>,
    outcome: Result<(), Refusal>,
    /// Those of all that wait for a call, refused ones too.
    called: Vec<Arc<Waiter>>,
}

impl<'i> Lead<'i> {
    /// Takes the lead of the first ones in line.
    fn take(inner: &'i Inner, mut line: MutexGuard<'_, Line>) -> Self {
        line.is_led = true;
        let group = Queue::take(&mut line);
        drop(line);
        let called = group.iter().filter(|waiter| !waiter.has_thread()).cloned().collect();
        let outcome = Err(Refusal::Failed("the thread that wrote it panicked".to_string()));
        Self { inner, group, outcome, called }
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let queue = &self.inner.queue;
        let mut line = queue.lock();
        self.group.iter().for_each(|waiter| waiter.tell(self.outcome.clone()));
        line.is_led = false;
        // A thread that waits takes the lead; where none does, one is sent.
        let is_left = !line.waiting.is_empty() && !line.waiting.iter().any(|w| w.has_thread());
        drop(line);
        queue.changed.notify_all();
        if is_left {
            self.inner.ask_again(Task::Other(Box::new(Inner::lead_next)));
        }
        self.called.iter().for_each(|waiter| waiter.call());
    }
}

impl Inner {
    /// Commits a batch.
    pub(crate) fn commit(&self, batch: Batch, durability: Durability) -> Result<()> {
        self.wait(&Waiter::new(batch, durability, None, None))
    }

    /// Commits a batch if nobody changed what is under the footprint since it was made.
    ///
    /// # Errors
    /// [`Error::Conflict`] if somebody did; else as [`Inner::commit`].
    pub(crate) fn commit_if_unchanged(
        &self,
        batch: Batch,
        durability: Durability,
        footprint: Footprint,
    ) -> Result<()> {
        self.wait(&Waiter::new(batch, durability, Some(footprint), None))
    }

    /// Puts a batch in line and calls `reply` when it is committed or refused.
    pub(crate) fn ask_commit(
        self: &Arc<Self>,
        batch: Batch,
        durability: Durability,
        footprint: Option<Footprint>,
        reply: Reply<()>,
    ) {
        let mut line = self.queue.lock();
        line.waiting.push(Waiter::new(batch, durability, footprint, Some(reply)));
        let is_led = line.is_led;
        drop(line);
        if !is_led {
            self.ask(Task::Other(Box::new(Inner::lead_next)));
        }
    }

    /// Leads those in line, if nobody does.
    fn lead_next(&self) {
        let line = self.queue.lock();
        if !line.is_led && !line.waiting.is_empty() {
            // Whoever is led is told how it went.
            let _ = self.lead_group(Lead::take(self, line), None);
        }
    }

    /// Leads; what became of `ours`, if it was led.
    fn lead_group(&self, mut lead: Lead<'_>, ours: Option<&Arc<Waiter>>) -> Option<Result<()>> {
        let result = self.lead(&mut lead.group);
        lead.outcome = result.as_ref().map_err(|e| Refusal::Failed(e.to_string())).copied();
        let is_ours = |led: &Arc<Waiter>| ours.is_some_and(|ours| Arc::ptr_eq(led, ours));
        lead.group.iter().any(is_ours).then_some(result)
    }

    fn wait(&self, waiter: &Arc<Waiter>) -> Result<()> {
        let mut line = self.queue.lock();
        line.waiting.push(Arc::clone(waiter));
        loop {
            if let Some(outcome) = waiter.take_outcome() {
                return outcome.map_err(Error::from);
            }
            if line.is_led {
                line = self.queue.changed.wait(line).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if let Some(result) = self.lead_group(Lead::take(self, line), Some(waiter)) {
                return result;
            }
            line = self.queue.lock();
        }
    }

    /// Takes those out of a group that may not be committed, and tells them.
    fn refuse(&self, group: &mut Vec<Arc<Waiter>>) {
        let is_plain =
            |waiter: &Arc<Waiter>| waiter.footprint.is_none() && waiter.batch.dropped().is_none();
        if group.iter().all(is_plain) {
            return;
        }
        let (current, mut earlier) = (self.current(), Changes::default());
        let mut refusals = Vec::with_capacity(group.len());
        for waiter in group.iter() {
            let refusal = waiter.refusal(&current, &earlier);
            if refusal.is_none() {
                earlier.add(&waiter.batch.body);
            }
            refusals.push(refusal);
        }
        let mut refusals = refusals.into_iter();
        group.retain(|waiter| match refusals.next().flatten() {
            Some(refusal) => {
                waiter.tell(Err(refusal));
                false
            }
            None => true,
        });
    }

    /// Steps 2 to 5 of a commit.
    fn lead(&self, group: &mut Vec<Arc<Waiter>>) -> Result<()> {
        let mut writer = self.writer();
        self.health.check()?;
        self.refuse(group);
        if group.is_empty() {
            return Ok(());
        }
        let bytes = group.iter().map(|waiter| waiter.batch.body.len()).sum();
        let operations = group.iter().map(|waiter| u64::from(waiter.batch.count)).sum();
        self.make_room(&mut writer, bytes, operations)?;
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

#[cfg(test)]
mod tests {
    //! What a write that failed leaves behind.

    use super::super::{Db, Options};
    use super::*;
    use crate::os::sim::{self, Fault, Kept, Operation, SimSystem};

    /// Hunts for numbers that the log is said to hold although their write failed: a segment that
    /// lacks them would count as damaged.
    #[test]
    fn a_store_opens_after_a_write_that_failed() {
        for kept in [Kept::None, Kept::Some, Kept::All] {
            let config = sim::Config { reserve: 1 << 20, ..sim::Config::default() };
            let disk = SimSystem::new(1, config);
            let open = |disk: &SimSystem| -> Db {
                let options = Options::new().create(true).system(Arc::new(disk.clone()));
                options.open("/db").unwrap()
            };
            let db = open(&disk);
            let space = db.keyspace("space", Default::default()).unwrap();
            db.put(&space, b"before", b"").unwrap();
            disk.fail(Operation::Write, 1, 1, Fault::io(kept));
            assert!(db.put(&space, b"failed", b"").is_err());
            db.put(&space, b"behind", b"").unwrap();
            db.checkpoint("/twin").unwrap();
            drop(db);
            for path in ["/db", "/twin"] {
                let options = Options::new().system(Arc::new(disk.clone()));
                let db = options.open(path).unwrap();
                let space = db.keyspace("space", Default::default()).unwrap();
                assert!(db.get(&space, b"before").unwrap().is_some());
                assert!(db.get(&space, b"behind").unwrap().is_some());
                assert_eq!(db.get(&space, b"failed").unwrap(), None);
            }
        }
    }
}
