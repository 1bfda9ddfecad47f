//! Committing. Several threads commit at the same time, each its own batch; durable batches share a
//! flush.
//!
//! # How a commit is made
//!
//! 1. The writer's lock is taken. A batch that puts something is refused if the disk is nearly full
//!    (`room`). A batch that names a dropped keyspace is refused, too, and so is a transaction that
//!    conflicts with a commit that it has not seen, or with a batch in front of it in the same
//!    group (`conflict`).
//! 2. Room is made: a full buffer is frozen, and the log leaves a full segment for the next one.
//! 3. The batch is appended to the log as a group, with the next sequence numbers. If it need not
//!    be durable, the log writes it together with later ones; until then the pending file holds it
//!    if it is to outlive the process. A crash during the write leaves a tail, which recovery cuts;
//!    commits that returned earlier stand before it. What a failed write leaves is cut off at once,
//!    and the next commit takes its place.
//! 4. If the batch is to be durable, the log is flushed. After a failed flush the content of the
//!    disk is unknown, and nothing more is written until the store is opened anew.
//! 5. The lock is given back. The operations go into the buffer that was active in step 3, beside
//!    those of other threads; nothing can fail any more.
//! 6. When all commits before it are published, its last sequence number is published: readers see
//!    all of a batch or nothing, and commits in the order of the log. A thread that is late
//!    publishes for those that wait for it, too. A buffer becomes a table only when everything in
//!    it is published.
//!
//! # Who does it
//!
//! A durable batch queues, and so does an asynchronous one; all others queue while the queue is not
//! empty. The first thread in the queue becomes the leader (`lead`): it takes batches from the
//! queue, up to a mebibyte, and does these steps for all of them with one write and one flush. The
//! other threads wait, or go on and get a callback. Before the leader applies its batches, the next
//! waiter becomes the leader. If only asynchronous batches are left, a thread of the pool leads.
//!
//! If background work is late, the committing thread is slowed down after its commit, so that no
//! other thread waits for it.

pub(crate) mod asking;
pub(crate) mod batch;
pub(crate) mod conflict;
mod lead;
pub(crate) mod logs;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod ranges;
pub(crate) mod reply;
mod room;
pub(crate) mod rotate;
pub(crate) mod transaction;

use std::sync::Arc;

use super::buffer::{Buffer, ENTRY_BYTES};
use super::engine::Inner;
use super::entry::SEQUENCE_END;
use super::log::segment::Group;
use super::log::wal::{Body, Notice};
use super::read::view::Current;
use crate::observe::{Done, Work, tell, within};
use crate::sync::MutexGuard;
use crate::{Durability, Error, Result};
use batch::Batch;
use conflict::{Changes, Footprint};
use logs::Writer;
use queue::{Refusal, Request, TooLittle, Waiter};

impl Inner {
    /// Commits a batch; with a footprint, only if nothing under it has changed since the batch was
    /// made.
    ///
    /// # Errors
    /// [`Error::Conflict`] if something under the footprint has changed; otherwise as
    /// [`Db::write`](super::Db::write).
    #[inline(always)]
    pub(crate) fn commit(
        &self,
        batch: Batch,
        durability: Durability,
        footprint: Option<Footprint>,
    ) -> Result<()> {
        // Put together where it is known whether there is a footprint, which is long to copy.
        self.commit_request(Request { batch, durability, footprint })
    }

    fn commit_request(&self, request: Request) -> Result<()> {
        self.check_process()?;
        // A commit must not overtake one that the same thread has queued before.
        if request.durability == Durability::Durable || self.queue.is_busy() {
            return self.commit_in_line(&Waiter::new(request, None));
        }
        within(Work::LSM_COMMIT, &self.directory.path, || self.commit_alone(&request))?;
        self.pace(&request);
        Ok(())
    }

    /// Commits a batch that is not durable, and no other with it.
    fn commit_alone(&self, request: &Request) -> Result<()> {
        let writer = self.writer();
        self.health.check()?;
        // Dropping the last reference to a version removes files: none is held while writing.
        if let Some(checks) = self.checks(&writer, [request].into_iter()) {
            checks.refusal(request, &Changes::default()).map_or(Ok(()), Err)?;
        }
        self.write(writer, &[request.body()], request.durability, || {})
    }

    /// Steps 2 to 6, for batches that are not refused. `unlocked` is called when the writer's lock
    /// has been given back.
    fn write(
        &self,
        mut writer: MutexGuard<'_, Writer>,
        bodies: &[Body<'_>],
        durability: Durability,
        unlocked: impl FnOnce(),
    ) -> Result<()> {
        self.make_room(&mut writer)?;
        let mut appended = self.append(&mut writer, bodies, durability)?;
        if durability == Durability::Durable
            && let Err(error) = self.settle_log(&mut writer, durability)
        {
            // The store is poisoned, and no reader may see the batches.
            appended.is_over = true;
            return Err(error);
        }
        drop(writer);
        unlocked();
        appended.observe(durability);
        appended.apply();
        Ok(())
    }

    /// Step 3.
    fn append<'a>(
        &'a self,
        writer: &mut Writer,
        bodies: &'a [Body<'a>],
        durability: Durability,
    ) -> Result<Appended<'a>> {
        let first = writer.next_seq;
        let end = first + bodies.iter().map(|body| u64::from(body.0)).sum::<u64>();
        if end > SEQUENCE_END {
            return Err(Error::argument("the store has used up its sequence numbers"));
        }
        let offset = writer.log.append(bodies, first, durability);
        let offset = offset.inspect_err(|error| self.poison_if_broken(writer, error))?;
        writer.next_seq = end;
        let added = |(count, body): &Body<'_>| body.len() + *count as usize * ENTRY_BYTES;
        writer.unlooked += bodies.iter().map(added).sum::<usize>() as u64;
        let (active, segment) = (Arc::clone(&writer.active), writer.log.identity().number);
        let notice = writer.log.notice();
        let notice = notice.map(|notice| notice.sparing(|bytes| self.has_plenty(writer, bytes)));
        let (inner, is_over) = (self, false);
        Ok(Appended { inner, bodies, active, segment, offset, first, end, notice, is_over })
    }

    /// After a failed write or flush: poisons the store if the log cannot go on.
    fn poison_if_broken(&self, writer: &Writer, error: &Error) {
        if writer.log.is_broken() {
            self.health.poison(error);
        }
    }

    /// Hands everything in the log to the system, or to stable storage: the ended segments first,
    /// since nothing in a later one may be durable without them.
    pub(crate) fn settle_log(&self, writer: &mut Writer, durability: Durability) -> Result<()> {
        let settled = match durability {
            Durability::None => Ok(()),
            Durability::Eventual => writer.log.write_out(),
            Durability::Durable => {
                self.health.check()?;
                self.flush_ended()?;
                writer.log.flush()
            }
        };
        settled.inspect_err(|error| self.poison_if_broken(writer, error))
    }

    /// Slows down the thread that has committed a batch while background work is late. What only
    /// deletes must not wait for room on a disk that is nearly full.
    fn pace(&self, request: &Request) {
        if self.background.is_short() && !request.puts() {
            return;
        }
        self.background.pace(request.batch.body.len(), u64::from(request.batch.count));
    }

    /// What step 1 compares requests with that are to be committed together; `None` if nothing can
    /// refuse them.
    fn checks<'r>(
        &self,
        writer: &Writer,
        mut requests: impl Iterator<Item = &'r Request> + Clone,
    ) -> Option<Checks> {
        let bytes = requests.clone().map(|request| request.batch.body.len() as u64).sum();
        let too_little = self.too_little(writer, bytes);
        let current = requests.any(Request::has_conditions).then(|| {
            // They are compared with everything that was appended before.
            self.clock.wait_for(writer.next_seq - 1);
            self.current()
        });
        let is_needed = too_little.is_some() || current.is_some();
        is_needed.then_some(Checks { too_little, current })
    }
}

/// What requests that are to be committed together are compared with.
struct Checks {
    /// Set if the disk is nearly full.
    too_little: Option<TooLittle>,
    /// The store as it is; `None` if no request depends on it.
    current: Option<Arc<Current>>,
}

impl Checks {
    /// Why a request may not be committed after those that make the `earlier` changes.
    fn refusal(&self, request: &Request, earlier: &Changes<'_>) -> Option<Refusal> {
        if let Some(too_little) = self.too_little.as_ref().filter(|some| some.refuses(request)) {
            return Some(Refusal::Full(too_little.clone()));
        }
        let current = self.current.as_ref()?;
        if let Some(keyspace) = request.batch.dropped() {
            return Some(Refusal::Dropped(keyspace.name().to_vec()));
        }
        let footprint = request.footprint.as_ref()?;
        if footprint.meets(earlier) {
            return Some(Refusal::Conflict);
        }
        match footprint.was_changed(current) {
            Ok(was_changed) => was_changed.then_some(Refusal::Conflict),
            Err(error) => Some(Refusal::Failed(error.to_string())),
        }
    }
}

/// Batches that are in the log and not published. They are published when this is dropped; if a
/// panic has kept them from being applied, the store is poisoned first.
struct Appended<'a> {
    inner: &'a Inner,
    bodies: &'a [Body<'a>],
    /// The buffer that they belong to.
    active: Arc<Buffer>,
    segment: u32,
    /// Where the first group begins.
    offset: u64,
    /// The sequence number of the first operation, and the one after the last.
    first: u64,
    end: u64,
    /// Hints about the log that the system should get.
    notice: Option<Notice>,
    /// Whether the batches were applied, or are never to be.
    is_over: bool,
}

impl Appended<'_> {
    /// Tells what the commit wrote.
    fn observe(&self, durability: Durability) {
        tell(&self.inner.directory.path, || {
            let way = if durability == Durability::Durable { "log" } else { "none" };
            let bytes = self.bodies.iter().map(|(_, body)| body.len() as u64).sum();
            let (commit, entries) = (Some(self.end - 1), Some(self.end - self.first));
            let (way, bytes) = (Some(way), Some(bytes));
            Done { way, commit, entries, bytes, ..Work::LSM_COMMIT.done() }
        });
    }

    /// Puts the batches into the buffer and publishes them: steps 5 and 6.
    fn apply(mut self) {
        let (mut seq, mut offset) = (self.first, self.offset);
        for &(count, body) in self.bodies {
            let group = Group { offset, seq, count, flushed: 0, body };
            let is_whole = self.active.apply(self.segment, &group);
            debug_assert!(is_whole);
            (seq, offset) = (seq + u64::from(count), group.end());
        }
        self.is_over = true;
        let (notice, inner) = (self.notice.take(), self.inner);
        drop(self);
        if let Some(notice) = notice.and_then(|notice| inner.background.leave(notice)) {
            notice.tell(&inner.logs.warm, &inner.directory.blocks);
        }
    }
}

impl Drop for Appended<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let reason = "a thread panicked while it applied a commit".to_string();
            self.inner.health.poison(&Error::CommitFailed { reason });
        }
        self.inner.clock.publish(self.first, self.end);
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
