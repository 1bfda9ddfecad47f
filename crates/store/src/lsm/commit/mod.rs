//! Committing. Several threads commit at the same time, each its own batch; durable batches share a
//! flush.
//!
//! # How a commit is made
//!
//! 1. The writer's lock is taken. A batch that puts something is refused if the disk is nearly full
//!    (`room`). So is one that names a dropped keyspace, and that of a transaction with a conflict,
//!    also with a batch in front of it in the same group. Room in memory is made: a full buffer is
//!    frozen, and a full segment of the log is left for the next one.
//! 2. The batch is appended to the log as a group, with the next sequence numbers. If it need not
//!    be durable it is written with later ones; until then it is in the pending file if it is to
//!    outlive the process. A crash before its end leaves a tail that is cut; commits that returned
//!    earlier stand before it. What a failed write leaves is cut off at once, and the next commit
//!    takes its place.
//! 3. If it is to be durable, everything is flushed. After a failed flush the content of the disk
//!    is unknown, and nothing more is written until the store is opened anew.
//! 4. The lock is given back. The operations go into the buffer that was the newest in step 2,
//!    beside those of other threads; nothing can fail any more.
//! 5. When all commits before it have been published, its last sequence number is published:
//!    readers see all of a batch or nothing, and commits in the order of the log. Who is late
//!    publishes for those that wait for it, too. A buffer becomes a table only when all that is to
//!    be in it was published.
//!
//! A durable batch queues, and so does an asynchronous one; all others queue while the queue is not
//! empty. If there is no leader, the batch's thread becomes the leader: it takes batches from the
//! queue, up to a mebibyte, and does these steps for all of them with one write and one flush. The
//! other threads wait, or go on and get a callback. Before step 4 the next waiter becomes the
//! leader. If only asynchronous batches are left, a thread of the pool leads.
//!
//! If background work is late, the committing thread is slowed down after its commit, so that no
//! other thread waits for it.

pub(crate) mod asking;
pub(crate) mod batch;
pub(crate) mod conflict;
pub(crate) mod logs;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod ranges;
pub(crate) mod reply;
mod room;
pub(crate) mod rotate;
pub(crate) mod transaction;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::buffer::{Buffer, ENTRY_BYTES};
use super::engine::Inner;
use super::entry::SEQUENCE_END;
use super::log::segment::Group;
use super::log::wal::Notice;
use crate::observe::{Done, Work, tell, within};
use crate::{Durability, Error, Result};
use batch::Batch;
use conflict::{Changes, Footprint};
use logs::Writer;
use pool::Task;
use queue::{Order, Refusal, Waiter, Word};
use reply::Reply;

/// The lead. It goes to the next waiter at the latest when this is dropped, also by a panic; the
/// waiters of the group learn the outcome then.
struct Lead<'i> {
    inner: &'i Inner,
    /// The waiter of the leader's own batch, which needs no message.
    ours: Option<&'i Arc<Waiter>>,
    /// Those that are committed.
    group: Vec<Arc<Waiter>>,
    outcome: Result<(), Refusal>,
    /// All waiters with a callback, refused ones too.
    called: Vec<Arc<Waiter>>,
    is_passed_on: bool,
}

impl<'i> Lead<'i> {
    /// Leads the first ones in line.
    fn take(inner: &'i Inner, ours: Option<&'i Arc<Waiter>>) -> Self {
        let group = inner.queue.take();
        let called = group.iter().filter(|waiter| !waiter.has_thread).cloned().collect();
        let outcome = Err(Refusal::Failed("the thread that wrote it panicked".to_string()));
        Self { inner, ours, group, outcome, called, is_passed_on: false }
    }

    fn is_ours(&self, waiter: &Arc<Waiter>) -> bool {
        self.ours.is_some_and(|ours| Arc::ptr_eq(waiter, ours))
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let queue = &self.inner.queue;
        let is_passed_on = self.is_passed_on || queue.pass_on();
        let tell = |waiter: &Arc<Waiter>| waiter.tell(Word::Outcome(self.outcome.clone()));
        self.group.iter().filter(|waiter| !self.is_ours(waiter)).for_each(tell);
        if !is_passed_on && !queue.leave() {
            self.inner.ask_again(Task::Other(Box::new(Inner::lead_next)));
        }
        self.called.iter().for_each(|waiter| waiter.call());
        // A batch without a waiting thread slows down no other thread.
        self.called.iter().for_each(|waiter| self.inner.pace(&waiter.order));
    }
}

/// Groups that stand in the log and are not published. They are when this is dropped: if they were
/// not applied, by a panic, the store is poisoned first.
struct Appended<'i> {
    inner: &'i Inner,
    /// The buffer they belong to.
    active: Arc<Buffer>,
    segment: u32,
    /// Where the first group begins.
    offset: u64,
    /// The sequence number of the first operation, and the one after the last.
    first: u64,
    end: u64,
    /// Hints about the log that the system should get.
    notice: Option<Notice>,
    is_done: bool,
}

impl Appended<'_> {
    /// Steps 4 and 5.
    fn apply(mut self, groups: &[(u32, &[u8])]) {
        let (mut seq, mut offset) = (self.first, self.offset);
        for &(count, body) in groups {
            let group = Group { offset, seq, count, flushed: 0, body };
            let is_whole = self.active.apply(self.segment, &group);
            debug_assert!(is_whole);
            (seq, offset) = (seq + u64::from(count), group.end());
        }
        self.is_done = true;
        let (notice, inner) = (self.notice.take(), self.inner);
        drop(self);
        if let Some(notice) = notice.and_then(|notice| inner.background.leave(notice)) {
            notice.tell(&inner.logs.warm, &inner.directory.blocks);
        }
    }

    /// Their flush failed: the store is poisoned, and no reader may see them.
    fn leave_out(mut self) {
        self.is_done = true;
    }
}

impl Drop for Appended<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let reason = "a thread panicked while it applied a commit".to_string();
            self.inner.health.poison(&Error::CommitFailed { reason });
        }
        self.inner.clock.publish(self.first, self.end);
    }
}

impl Inner {
    /// Commits a batch.
    pub(crate) fn commit(&self, batch: Batch, durability: Durability) -> Result<()> {
        self.commit_order(Order { batch, durability, footprint: None })
    }

    /// Commits a batch if nothing under the footprint has changed since it was made.
    ///
    /// # Errors
    /// [`Error::Conflict`] if something has; otherwise as [`Inner::commit`].
    pub(crate) fn commit_if_unchanged(
        &self,
        batch: Batch,
        durability: Durability,
        footprint: Footprint,
    ) -> Result<()> {
        self.commit_order(Order { batch, durability, footprint: Some(footprint) })
    }

    /// Puts a batch in line and calls `reply` when it is committed or refused.
    pub(crate) fn ask_commit(
        self: &Arc<Self>,
        batch: Batch,
        durability: Durability,
        footprint: Option<Footprint>,
        reply: Reply<()>,
    ) {
        if let Err(error) = self.check_process() {
            return reply.send(Err(error));
        }
        let order = Order { batch, durability, footprint };
        if self.queue.join(&Waiter::new(order, Some(reply))) {
            self.ask(Task::Other(Box::new(Inner::lead_next)));
        }
    }

    /// Leads those in line.
    fn lead_next(&self) {
        // The waiters are told the outcome.
        let _ = self.lead_group(None);
    }

    fn commit_order(&self, order: Order) -> Result<()> {
        self.check_process()?;
        // A commit must not overtake one that the same thread has queued before.
        if order.durability == Durability::Durable || self.queue.is_busy.load(Ordering::Acquire) {
            return self.wait(&Waiter::new(order, None));
        }
        within(Work::LSM_COMMIT, &self.directory.path, || self.commit_alone(&order))?;
        self.pace(&order);
        Ok(())
    }

    /// All steps for a batch that is not durable.
    fn commit_alone(&self, order: &Order) -> Result<()> {
        let mut writer = self.writer();
        self.health.check()?;
        self.refuse_put(&writer, order)?;
        if !order.is_plain() {
            self.clock.wait_for(writer.next_seq - 1);
            let refusal = order.refusal(&self.current(), &Changes::default());
            refusal.map_or(Ok(()), |refusal| Err(Error::from(refusal)))?;
        }
        let groups = [order.group()];
        let appended = self.append(&mut writer, &groups, order.durability)?;
        drop(writer);
        self.told(&appended, &groups, order.durability);
        appended.apply(&groups);
        Ok(())
    }

    /// Tells what a commit wrote.
    fn told(&self, appended: &Appended<'_>, groups: &[(u32, &[u8])], durability: Durability) {
        tell(&self.directory.path, || {
            let way = if durability == Durability::Durable { "log" } else { "none" };
            let bytes = groups.iter().map(|(_, body)| body.len() as u64).sum();
            let (commit, entries) = (Some(appended.end - 1), Some(appended.end - appended.first));
            let (way, bytes) = (Some(way), Some(bytes));
            Done { way, commit, entries, bytes, ..Work::LSM_COMMIT.done() }
        });
    }

    /// Slows down the thread that committed it; but what is only deleted must not wait for room.
    fn pace(&self, order: &Order) {
        if self.background.is_short() && !order.puts() {
            return;
        }
        self.background.pace(order.batch.body.len(), u64::from(order.batch.count));
    }

    /// Waits in the queue, and becomes the leader when it is told to.
    fn wait(&self, waiter: &Arc<Waiter>) -> Result<()> {
        let mut leads = self.queue.join(waiter);
        let result = loop {
            if leads && let Some(result) = self.lead_group(Some(waiter)) {
                break result;
            }
            match waiter.listen() {
                Word::Lead => leads = true,
                Word::Outcome(outcome) => break outcome.map_err(Error::from),
            }
        };
        self.pace(&waiter.order);
        result
    }

    /// Leads the first ones in line; what became of `ours`, if it was among them.
    fn lead_group<'i>(&'i self, ours: Option<&'i Arc<Waiter>>) -> Option<Result<()>> {
        let mut lead = Lead::take(self, ours);
        let path = &self.directory.path;
        let result = within(Work::LSM_COMMIT, path, || self.lead(&mut lead));
        lead.outcome = result.as_ref().map_err(|e| Refusal::Failed(e.to_string())).copied();
        lead.group.iter().any(|led| lead.is_ours(led)).then_some(result)
    }

    /// All steps for a group.
    fn lead(&self, lead: &mut Lead<'_>) -> Result<()> {
        let mut writer = self.writer();
        self.health.check()?;
        self.refuse_puts(&writer, &mut lead.group);
        self.refuse(&writer, &mut lead.group);
        if lead.group.is_empty() {
            return Ok(());
        }
        let led = lead.group.clone();
        let groups = led.iter().map(|waiter| waiter.order.group());
        let groups: Vec<(u32, &[u8])> = groups.filter(|(count, _)| *count > 0).collect();
        let durabilities = led.iter().map(|waiter| waiter.order.durability);
        let durability = durabilities.max().unwrap_or(Durability::None);
        if groups.is_empty() {
            return self.settle_log(&mut writer, durability);
        }
        let appended = self.append(&mut writer, &groups, durability)?;
        if durability == Durability::Durable
            && let Err(error) = self.flush_log(&mut writer)
        {
            appended.leave_out();
            return Err(error);
        }
        drop(writer);
        lead.is_passed_on = self.queue.pass_on();
        self.told(&appended, &groups, durability);
        appended.apply(&groups);
        Ok(())
    }

    /// Takes those out of a group that may not be committed, and tells them.
    fn refuse(&self, writer: &Writer, group: &mut Vec<Arc<Waiter>>) {
        if group.iter().all(|waiter| waiter.order.is_plain()) {
            return;
        }
        // All that was appended before is to be seen.
        self.clock.wait_for(writer.next_seq - 1);
        let (current, mut earlier) = (self.current(), Changes::default());
        let mut refusals = Vec::with_capacity(group.len());
        for waiter in group.iter() {
            let refusal = waiter.order.refusal(&current, &earlier);
            if refusal.is_none() {
                earlier.add(&waiter.order.batch.body);
            }
            refusals.push(refusal);
        }
        let mut refusals = refusals.into_iter();
        group.retain(|waiter| match refusals.next().flatten() {
            Some(refusal) => {
                waiter.tell(Word::Outcome(Err(refusal)));
                false
            }
            None => true,
        });
    }

    /// Makes room, and appends groups to the log.
    fn append(
        &self,
        writer: &mut Writer,
        groups: &[(u32, &[u8])],
        durability: Durability,
    ) -> Result<Appended<'_>> {
        self.make_room(writer)?;
        let first = writer.next_seq;
        let end = first + groups.iter().map(|group| u64::from(group.0)).sum::<u64>();
        if end > SEQUENCE_END {
            return Err(Error::argument("the store has used up its sequence numbers"));
        }
        let offset = writer.log.append(groups, first, durability);
        let offset = offset.inspect_err(|error| self.poison_if_broken(writer, error))?;
        writer.next_seq = end;
        let added = |(count, body): &(u32, &[u8])| body.len() + *count as usize * ENTRY_BYTES;
        writer.unlooked += groups.iter().map(added).sum::<usize>() as u64;
        let (active, segment) = (Arc::clone(&writer.active), writer.log.identity().number);
        let notice = writer.log.notice();
        let notice = notice.map(|notice| notice.sparing(|bytes| self.has_plenty(writer, bytes)));
        let is_done = false;
        Ok(Appended { inner: self, active, segment, offset, first, end, notice, is_done })
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
        self.flush_ended()?;
        let flushed = writer.log.flush();
        flushed.inspect_err(|error| self.poison_if_broken(writer, error))
    }
}

#[cfg(test)]
mod tests {
    //! What a failed write leaves.

    use super::super::{Db, Options};
    use super::*;
    use crate::lsm::Readable;
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

    /// Threads whose commits promise different things, transactions among them: each batch is seen
    /// wholly, in the order of its thread, and all are there when the store is opened again.
    #[test]
    fn threads_commit_side_by_side() {
        const COMMITS: u32 = 100;
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let options = Options::new().create(true).memory_limit(4 << 20).segment_bytes(1 << 14);
            let db = options.memtable_bytes(1 << 14).open(folder.path().join("db")).unwrap();
            let separated =
                super::super::KeyspaceOptions { separation_threshold: 40, ..Default::default() };
            let space = db.keyspace("space", separated).unwrap();
            (db, space)
        };
        let read = |db: &Db, space: &super::super::Keyspace, thread: u8| {
            let keys = [[thread, 0], [thread, 1]];
            let values = db.multi_get(space, &keys).unwrap();
            assert_eq!(values[0], values[1], "half of a batch");
            values[0].as_ref().map_or(0, |v| u32::from_be_bytes(*v.first_chunk().unwrap()))
        };
        let (db, space) = open();
        let kinds = [Durability::None, Durability::Eventual, Durability::Durable];
        std::thread::scope(|scope| {
            for thread in 0..6_u8 {
                let (db, space) = (&db, &space);
                scope.spawn(move || {
                    for number in 1..=COMMITS {
                        let mut value = vec![thread; usize::from(thread) * 10 + 4];
                        value[..4].copy_from_slice(&number.to_be_bytes());
                        let mut transaction = db.transaction();
                        for part in 0..2 {
                            transaction.put(space, &[thread, part], &value).unwrap();
                        }
                        transaction.commit_with(kinds[usize::from(thread) % 3]).unwrap();
                        assert_eq!(read(db, space, thread), number);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = [0; 6];
                    while last.iter().any(|&number| number < COMMITS) {
                        for (thread, last) in last.iter_mut().enumerate() {
                            let now = read(&db, &space, thread as u8);
                            assert!(now >= *last, "{now} behind {last}");
                            *last = now;
                        }
                    }
                });
            }
        });
        db.close().unwrap();
        let (db, space) = open();
        (0..6).for_each(|thread| assert_eq!(read(&db, &space, thread), COMMITS));
        assert!(db.check().unwrap().is_sound());
    }
}
