//! The reader slots of an environment as LMDB gives them out: one for each thread, kept until the
//! thread ends, or (MDB_NOTLS) one for each transaction; and the limit on their number. The store's
//! own table of readers, which protects snapshots, is separate and has no limit.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use crate::abi::{MDB_BAD_RSLOT, MDB_READERS_FULL};
use crate::code::Answer;
use crate::ffi::seat::Seat;
use crate::txn::Txn;

/// A slot that a thread or a transaction has.
#[derive(Default)]
pub(crate) struct Slot {
    seat: Seat,
    /// The commit that it reads, as it is shown.
    id: AtomicU64,
    /// The thread that took it, as it is shown.
    thread: AtomicUsize,
}

/// A slot that was taken, and the transaction that waits in it.
pub(crate) type Taken = (Arc<Slot>, Option<Box<Txn>>);

/// The slots of one environment.
#[derive(Default)]
pub(crate) struct Readers {
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    /// The slots that a thread or a transaction has.
    all: Vec<Arc<Slot>>,
    /// The slots that transactions have given back.
    free: Vec<Arc<Slot>>,
    /// The most there ever were at a time.
    peak: usize,
}

/// How often closing the environment tries to lock the list of slots. It is held for a moment only,
/// but in a child process after a fork perhaps by a thread that does not exist there.
const TRIES: u32 = 10_000;

/// The slot of a thread, given back when the thread ends.
struct Mine {
    readers: Weak<Readers>,
    slot: Arc<Slot>,
}

impl Drop for Mine {
    fn drop(&mut self) {
        if let Some(readers) = self.readers.upgrade() {
            readers.give(&self.slot, true);
        }
        self.slot.seat.clear();
    }
}

thread_local! {
    static MINE: RefCell<Vec<Mine>> = const { RefCell::new(Vec::new()) };
}

impl Readers {
    fn locked(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most slots that were in use at a time.
    pub(crate) fn peak(&self) -> usize {
        self.locked().peak
    }

    /// A slot for a transaction of its own.
    pub(crate) fn take(&self, most: usize) -> Answer<Taken> {
        let slot = {
            let mut slots = self.locked();
            if slots.all.len() >= most {
                return Err(MDB_READERS_FULL);
            }
            let slot = slots.free.pop().unwrap_or_default();
            slots.all.push(Arc::clone(&slot));
            slots.peak = slots.peak.max(slots.all.len());
            slot
        };
        slot.thread.store(crate::ffi::this_thread(), Ordering::Relaxed);
        let waiting = slot.wake()?;
        Ok((slot, waiting))
    }

    /// The slot of this thread, which must not be in use.
    pub(crate) fn take_mine(self: &Arc<Self>, most: usize) -> Answer<Taken> {
        MINE.with_borrow_mut(|mine| {
            let of = |mine: &Mine| std::ptr::eq(mine.readers.as_ptr(), Arc::as_ptr(self));
            if let Some(mine) = mine.iter().find(|mine| of(mine)) {
                let waiting = mine.slot.wake()?;
                return Ok((Arc::clone(&mine.slot), waiting));
            }
            let taken = self.take(most)?;
            mine.retain(|mine| mine.readers.strong_count() > 0);
            mine.push(Mine { readers: Arc::downgrade(self), slot: Arc::clone(&taken.0) });
            Ok(taken)
        })
    }

    /// A line for each slot, also of those at rest.
    pub(crate) fn lines(&self, process: u32) -> Vec<String> {
        let line = |slot: &Arc<Slot>| {
            let thread = slot.thread.load(Ordering::Relaxed);
            match slot.seat.is_busy() {
                true => {
                    format!("{process:10} {thread:x} {}\n", slot.id.load(Ordering::Relaxed))
                }
                false => format!("{process:10} {thread:x} -\n"),
            }
        };
        self.locked().all.iter().map(line).collect()
    }

    /// Gives a slot back; unless its thread has ended, the next transaction may take it.
    pub(crate) fn give(&self, slot: &Arc<Slot>, thread_has_ended: bool) {
        let mut slots = self.locked();
        let found = slots.all.iter().position(|other| Arc::ptr_eq(other, slot));
        // In a child process after a fork it may be the parent's.
        if let Some(place) = found {
            let slot = slots.all.swap_remove(place);
            if !thread_has_ended {
                slots.free.push(slot);
            }
        }
    }

    /// Lets the transactions go that wait in the slots: each of them keeps the environment open.
    pub(crate) fn clear(&self) {
        for _ in 0..TRIES {
            let slots = match self.slots.try_lock() {
                Ok(slots) => slots,
                Err(TryLockError::Poisoned(slots)) => slots.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    std::thread::yield_now();
                    continue;
                }
            };
            slots.all.iter().chain(&slots.free).for_each(|slot| slot.seat.clear());
            return;
        }
    }
}

impl Slot {
    /// The transaction that read through it was reset, or has ended and is given to wait there.
    pub(crate) fn rest(&self, txn: Option<Box<Txn>>) {
        self.seat.leave(txn);
    }

    /// The transaction that has it reads this commit.
    pub(crate) fn reads(&self, id: u64) {
        self.id.store(id, Ordering::Relaxed);
    }

    /// A transaction reads through the slot from now on; returns the transaction that waits in it.
    pub(crate) fn wake(&self) -> Answer<Option<Box<Txn>>> {
        self.seat.enter().map_err(|()| MDB_BAD_RSLOT)
    }
}
