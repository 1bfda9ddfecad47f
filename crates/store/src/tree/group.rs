//! The writer's turn, and commits that share a flush.
//!
//! # Concept
//!
//! There is one writer at a time. Threads of this process queue for the turn; the thread that has
//! it takes the writer's lock that all processes share. Waiters are called first come first served;
//! but while the waiter that was called wakes up, another thread may take the turn, at most
//! [`PASSED_MAX`](queue::PASSED_MAX) times: waking takes longer than a small commit.
//!
//! A durable commit costs a flush, and a flush costs the same for one transaction as for a hundred.
//! So a thread that commits durably while others of its process wait does not write: it hands its
//! changed pages, unwritten, to the next one, which continues in them under a savepoint of its own,
//! and waits for the outcome. The last one of such a *group* writes and flushes for all.
//!
//! # Invariants
//!
//! 1. A group is one commit with one number: all members are published, or none.
//! 2. The group belongs to exactly one place: a [`Turn`], a waiter's seat, or [`finish`]. Wherever
//!    it is dropped, its members are told that it failed; no thread waits for ever.
//! 3. An aborted member leaves no trace: its savepoint is rolled back, then the group goes on.
//! 4. The writer's lock is held from the group's first member to its publication.
//! 5. A group with members that wait is always committed durably.
//!
//! # Why this way
//!
//! To let every thread write its own meta page and share only the flush would need a free meta page
//! for each; there are three, and two of them must stay. Merging changes of transactions that ran
//! at the same time would need locks on keys. Handing the pages on needs neither, and saves the
//! copies of the upper pages of the tree, which all members change. The price: a commit returns
//! only after the transactions that joined it are done. So a thread must not, while it writes, wait
//! for another thread's commit to return; that thread could not have begun a transaction of its own
//! either.

mod queue;

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use queue::Queue;
use queue::{Entry, ROUND};

use super::commit::{give_back, publish};
use super::page_ref::PageNo;
use super::state::WriteState;
use super::store::Inner;
use super::words::WORD_NUMBER;
use super::{ReadTxn, Savepoint};
use crate::Durability;
use crate::observe::{Work, within};
use crate::sync::{Condvar, Mutex, locked};
use crate::{Error, Result};

/// The most transactions of a group.
const MEMBERS_MAX: usize = 256;

/// Changed pages of one or more transactions that will be one commit.
pub(crate) struct Group {
    state: WriteState,
    members: Members,
    /// The commit that it follows.
    follows: u64,
}

/// The threads that wait for the outcome of their group.
#[derive(Default)]
struct Members(Vec<Arc<Outcome>>);

impl Members {
    fn tell(&mut self, result: &Result<()>) {
        for member in self.0.drain(..) {
            member.set(result.as_ref().map_err(ToString::to_string).copied());
        }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            let reason = "a later transaction of the group did not finish".to_string();
            self.tell(&Err(Error::CommitFailed { reason }));
        }
    }
}

/// What became of a group; its members wait for it.
#[derive(Default)]
struct Outcome {
    result: Mutex<Option<std::result::Result<(), String>>>,
    told: Condvar,
}

impl Outcome {
    fn set(&self, result: std::result::Result<(), String>) {
        *locked(&self.result) = Some(result);
        self.told.notify_all();
    }

    fn wait(&self) -> Result<()> {
        let mut result = locked(&self.result);
        loop {
            if let Some(result) = result.take() {
                return result.map_err(|reason| Error::CommitFailed { reason });
            }
            result = self.told.wait(result).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// How long a thread waits for the writer's turn.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    No,
    Until(Instant),
    /// Until the store is interrupted.
    Ever,
    /// The same, or its last handle is dropped by a thread that waits for this one: for the thread
    /// that flushes in the background.
    WhileOpen,
}

impl Wait {
    fn left(self) -> Duration {
        match self {
            Self::No => Duration::ZERO,
            Self::Until(end) => end.saturating_duration_since(Instant::now()),
            Self::Ever | Self::WhileOpen => Duration::MAX,
        }
    }

    /// Whether there is time left; an error if the store is interrupted.
    fn goes_on(self, store: &Inner) -> Result<bool> {
        let is_over = matches!(self, Self::WhileOpen) && store.flusher.is_stopping();
        if is_over || self.left().is_zero() {
            return Ok(false);
        }
        store.pages.interrupted()?;
        Ok(true)
    }
}

/// Ends the turn on drop: gives back the writer's lock, if it is held, and calls the next thread.
pub(crate) struct EndTurn<'s> {
    store: &'s Inner,
    locked: bool,
}

impl<'s> EndTurn<'s> {
    /// The calling thread has the turn; `locked` says whether also the lock.
    pub(crate) fn new(store: &'s Inner, locked: bool) -> Self {
        Self { store, locked }
    }

    /// Takes the lock that all processes share, waiting for it until the store is interrupted;
    /// false if it is taken when there is no time left.
    pub(crate) fn lock(&mut self, wait: Wait) -> Result<bool> {
        let store = self.store;
        loop {
            let lock = store.lock.lock_writer(Some(wait.left().min(ROUND)));
            self.locked = lock.map_err(|e| Error::io("lock", &store.paths.lock, e))?;
            if self.locked || !wait.goes_on(store)? {
                break;
            }
        }
        *locked(&store.meta_turn) = self.locked;
        Ok(self.locked)
    }
}

impl Drop for EndTurn<'_> {
    fn drop(&mut self) {
        if self.locked {
            *locked(&self.store.meta_turn) = false;
            self.store.lock.unlock_writer();
        }
        self.store.queue.leave();
    }
}

/// The writer's turn with the changed pages. Dropped without commit it leaves no trace.
pub(crate) struct Turn {
    /// `None` only after the end.
    group: Option<Box<Group>>,
    /// Where this transaction began in a group that it joined.
    mark: Option<Savepoint>,
    pub(crate) store: Arc<Inner>,
}

impl Turn {
    /// Waits for the turn and begins; `None` if another writer is at work and no time is left.
    pub(crate) fn begin(store: &Arc<Inner>, wait: Wait) -> Result<Option<Self>> {
        store.check_writable()?;
        let entry = match wait {
            Wait::No => store.queue.try_enter().then_some(Entry::Alone),
            wait => store.queue.enter(true, || wait.goes_on(store))?,
        };
        match entry {
            Some(Entry::Joined(mut group)) => {
                let mark = Some(group.state.savepoint());
                Ok(Some(Self { group: Some(group), mark, store: Arc::clone(store) }))
            }
            Some(Entry::Alone) => Self::first(store, wait),
            None => Ok(None),
        }
    }

    /// Waits for the turn and begins with nothing that another transaction has changed.
    pub(crate) fn begin_alone(store: &Arc<Inner>) -> Result<Self> {
        match Self::begin_alone_within(store, Wait::Ever)? {
            Some(turn) => Ok(turn),
            None => unreachable!("a writer that waited came without its turn"),
        }
    }

    /// As [`Turn::begin_alone`]; `None` if another writer is at work and no time is left.
    pub(crate) fn begin_alone_within(store: &Arc<Inner>, wait: Wait) -> Result<Option<Self>> {
        store.check_writable()?;
        if store.enter_alone(wait)? { Self::first(store, wait) } else { Ok(None) }
    }

    /// Begins; the calling thread has the turn.
    fn first(store: &Arc<Inner>, wait: Wait) -> Result<Option<Self>> {
        let mut end = EndTurn::new(store, false);
        if !end.lock(wait)? {
            return Ok(None);
        }
        let group = Some(first_group(store)?);
        store.queue.note_writing();
        std::mem::forget(end);
        let store = Arc::clone(store);
        Ok(Some(Self { group, mark: None, store }))
    }

    /// The pages, trees and free space of the transaction.
    #[inline(always)]
    pub(crate) fn state(&self) -> &WriteState {
        match &self.group {
            Some(group) => &group.state,
            None => unreachable!("a writer's turn that has ended"),
        }
    }

    /// The same, for changing it.
    #[inline(always)]
    pub(crate) fn state_mut(&mut self) -> &mut WriteState {
        match &mut self.group {
            Some(group) => &mut group.state,
            None => unreachable!("a writer's turn that has ended"),
        }
    }

    /// Commits. All savepoints of the caller's are released.
    pub(crate) fn commit(mut self, durability: Durability) -> Result<()> {
        let mark = self.mark.take();
        let Some(mut group) = self.group.take() else { return Ok(()) };
        let store = &self.store;
        let released = match mark {
            Some(mark) => group.state.release(mark),
            None => group.state.release_all(),
        };
        if let Err(error) = released {
            let _end = EndTurn::new(store, true);
            return Err(error);
        }
        if durability == Durability::Durable && may_share(store, &group) {
            let outcome = Arc::new(Outcome::default());
            group.members.0.push(Arc::clone(&outcome));
            match store.queue.hand_over(group) {
                None => return outcome.wait(),
                Some(mut back) => {
                    back.members.0.pop();
                    group = back;
                }
            }
        }
        finish(store, group, durability)
    }

    /// Commits and takes the snapshot of this commit before the turn ends. The group is not handed
    /// on; if it has members that wait, the snapshot is theirs, too.
    pub(crate) fn commit_and_read(mut self, durability: Durability) -> Result<ReadTxn> {
        self.mark = None;
        let Some(mut group) = self.group.take() else { return ReadTxn::begin(&self.store) };
        if let Err(error) = group.state.release_all() {
            let _end = EndTurn::new(&self.store, true);
            return Err(error);
        }
        let mut reader = None;
        finish_with(&self.store, group, durability, || reader = Some(ReadTxn::begin(&self.store)))?;
        reader.unwrap_or_else(|| ReadTxn::begin(&self.store))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(mut group) = self.group.take() else { return };
        if !self.store.lock.is_same_process() {
            // The turn, its lock and its waiters belong to the parent.
            std::mem::forget(std::mem::take(&mut group.members));
            return;
        }
        let Some(mark) = self.mark.take() else {
            let _end = EndTurn::new(&self.store, true);
            if is_changed(&group.state) {
                give_back(&self.store);
            }
            return;
        };
        let rolled_back = group.state.rollback_to(mark).and_then(|()| group.state.release(mark));
        match rolled_back {
            // What the others of the group committed is still to be written; they get the result.
            Ok(()) => drop(finish(&self.store, group, Durability::Durable)),
            Err(error) => {
                group.members.tell(&Err(error));
                drop(EndTurn::new(&self.store, true));
            }
        }
    }
}

impl Inner {
    /// Waits for the turn, and for no group; false if no time is left.
    pub(crate) fn enter_alone(&self, wait: Wait) -> Result<bool> {
        match self.queue.enter(false, || wait.goes_on(self))? {
            Some(Entry::Alone) => Ok(true),
            Some(Entry::Joined(_)) => {
                unreachable!("a thread that does not join was handed a group")
            }
            None => Ok(false),
        }
    }
}

/// A transaction that begins alone. The caller has the writer's lock.
fn first_group(store: &Inner) -> Result<Box<Group>> {
    store.check_writable()?;
    store.clean_in_turn()?;
    let no_room_from = store.pages.no_room_from(|| store.free_bytes())?;
    if no_room_from.is_some() {
        // Pages that only an older durable commit uses are given up.
        store.sync()?;
    }
    let latest = store.latest_number();
    let kept = locked(&store.hints.kept).take().filter(|kept| kept.follows == latest);
    let mut group = match kept {
        Some(group) => group,
        None => {
            let newest = store.newest()?;
            let state = WriteState::new(Arc::clone(&store.pages), &newest.meta);
            let (members, follows) = (Members::default(), newest.meta.txn);
            Box::new(Group { state, members, follows })
        }
    };
    let number = store.lock.word(WORD_NUMBER).load(SeqCst);
    let hints = (store.hints.free.load(SeqCst), store.hints.written.load(SeqCst));
    let follows = group.follows;
    let WriteState { kept, end, pages, free, .. } = &mut group.state;
    let (max_pages, max_size) = kept.limits(&store.pages, store.options.max_size);
    pages.begin(*end, number.max(follows) + 1, max_pages, max_size);
    pages.early.unsynced = store.hints.unsynced.load(Relaxed);
    free.load_pins(pages)?;
    free.begin(follows, hints, |protected| store.add_protected(protected));
    pages.space.has_snapshots = free.has_snapshots();
    if let Some(from) = no_room_from {
        free.take_lowest_first(pages, from..PageNo::MAX)?;
    }
    Ok(group)
}

/// Keeps what a group that was published leaves, for the next transaction to begin with.
fn keep(store: &Inner, mut group: Box<Group>) {
    group.follows = group.state.pages.txn;
    if group.state.rest() {
        *locked(&store.hints.kept) = Some(group);
    }
}

/// Whether the group may go on with the next thread instead of being written now.
fn may_share(store: &Inner, group: &Group) -> bool {
    group.members.0.len() + 1 < MEMBERS_MAX
        && group.state.pages.changed_bytes() < store.options.write_budget / 2
        && store.queue.next_joins()
        && !store.lock.writer_is_wanted()
}

/// Whether there is anything to write. A table's record changes with its pages only; a delete that
/// found nothing leaves a mark on the table and no page.
fn is_changed(state: &WriteState) -> bool {
    state.pages.changed_pages() > 0 || !state.pages.freed.is_empty() || state.kept.is_changed
}

/// Writes a group, ends the turn and tells the members.
fn finish(store: &Arc<Inner>, group: Box<Group>, durability: Durability) -> Result<()> {
    finish_with(store, group, durability, || {})
}

/// The same, with something to be done before the turn ends, if the commit is made.
fn finish_with(
    store: &Arc<Inner>,
    mut group: Box<Group>,
    durability: Durability,
    last: impl FnOnce(),
) -> Result<()> {
    let end = EndTurn::new(store, true);
    let durability = if group.members.0.is_empty() { durability } else { Durability::Durable };
    let mut members = std::mem::take(&mut group.members);
    let changed = is_changed(&group.state);
    let result = match store.check_writable() {
        Ok(()) if changed => within(Work::TREE_COMMIT, &store.pages.path, || {
            publish(store, &mut group.state, durability)
        }),
        other => other,
    };
    match (changed, &result) {
        (true, Ok(())) => keep(store, group),
        (true, Err(_)) => give_back(store),
        (false, _) => {}
    }
    if result.is_ok() {
        last();
    }
    drop(end);
    // A durable commit makes those before it durable, also if it changed nothing itself.
    let result = match result {
        Ok(()) if !changed && durability == Durability::Durable => match store.is_newest_in_log() {
            Ok(true) => Ok(()),
            Ok(false) => store.sync(),
            Err(error) => Err(error),
        },
        other => other,
    };
    members.tell(&result);
    if changed && result.is_ok() && durability == Durability::Eventual {
        store.flush_soon();
    }
    if changed && result.is_ok() && durability == Durability::Durable {
        store.checkpoint_when_due();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_reaches_its_waiter_from_before_and_after() {
        let outcome = Outcome::default();
        outcome.set(Ok(()));
        assert!(outcome.wait().is_ok());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| outcome.wait());
            outcome.set(Err("no".into()));
            let result = waiter.join().ok();
            assert!(matches!(result, Some(Err(Error::CommitFailed { reason })) if reason == "no"));
        });
    }

    /// What savepoints have kept for going back is not changed any more, but it is memory.
    #[test]
    fn memory_of_many_savepoints_goes_with_their_transaction() {
        let system = crate::os::sim::SimSystem::new(1, crate::os::sim::Config::default());
        let builder = crate::tree::Store::builder().system(Arc::new(system));
        let store = builder.create("/store").unwrap();
        for savepoints in [1, 4_000] {
            let mut txn = store.begin_write().unwrap();
            let table = txn.create_table("t", &crate::tree::TableOptions::new()).unwrap();
            for n in 0..savepoints {
                txn.savepoint().unwrap();
                txn.put(table, b"key", &[n as u8]).unwrap();
            }
            txn.commit().unwrap();
            let is_kept = locked(&store.inner.hints.kept).is_some();
            assert_eq!(is_kept, savepoints == 1, "{savepoints}");
        }
    }
}
