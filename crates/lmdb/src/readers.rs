//! The reader slots of an environment as LMDB gives them out: one a thread, kept until the thread
//! ends, or (MDB_NOTLS) one a transaction; and the limit on their number. The store's own table of
//! readers, which protects snapshots, stands behind this and has no limit.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::abi::{MDB_BAD_RSLOT, MDB_READERS_FULL};
use crate::code::Answer;

/// A slot that a thread or a transaction has.
pub(crate) struct Slot {
    /// Whether a transaction reads through it at this moment.
    is_busy: AtomicBool,
    /// The commit that it reads, as it is shown.
    id: AtomicU64,
    /// The thread that took it, as it is shown.
    thread: usize,
}

/// The slots of one environment.
#[derive(Default)]
pub(crate) struct Readers {
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    all: Vec<Arc<Slot>>,
    /// The most there ever were at a time.
    peak: usize,
}

/// The slot of a thread, given back when the thread ends.
struct Mine {
    readers: Weak<Readers>,
    slot: Arc<Slot>,
}

impl Drop for Mine {
    fn drop(&mut self) {
        if let Some(readers) = self.readers.upgrade() {
            readers.give(&self.slot);
        }
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
    pub(crate) fn take(&self, most: usize) -> Answer<Arc<Slot>> {
        let mut slots = self.locked();
        if slots.all.len() >= most {
            return Err(MDB_READERS_FULL);
        }
        let (is_busy, id) = (AtomicBool::new(true), AtomicU64::new(0));
        let slot = Arc::new(Slot { is_busy, id, thread: crate::ffi::this_thread() });
        slots.all.push(Arc::clone(&slot));
        slots.peak = slots.peak.max(slots.all.len());
        Ok(slot)
    }

    /// The slot of this thread, which must not be in use.
    pub(crate) fn take_mine(self: &Arc<Self>, most: usize) -> Answer<Arc<Slot>> {
        MINE.with_borrow_mut(|mine| {
            let of = |mine: &Mine| std::ptr::eq(mine.readers.as_ptr(), Arc::as_ptr(self));
            if let Some(mine) = mine.iter().find(|mine| of(mine)) {
                return match mine.slot.is_busy.swap(true, Ordering::AcqRel) {
                    true => Err(MDB_BAD_RSLOT),
                    false => Ok(Arc::clone(&mine.slot)),
                };
            }
            let slot = self.take(most)?;
            mine.retain(|mine| mine.readers.strong_count() > 0);
            mine.push(Mine { readers: Arc::downgrade(self), slot: Arc::clone(&slot) });
            Ok(slot)
        })
    }

    /// A line for each slot, also of those at rest.
    pub(crate) fn lines(&self, process: u32) -> Vec<String> {
        let line = |slot: &Arc<Slot>| {
            let thread = slot.thread;
            match slot.is_busy.load(Ordering::Acquire) {
                true => {
                    format!("{process:10} {thread:x} {}\n", slot.id.load(Ordering::Relaxed))
                }
                false => format!("{process:10} {thread:x} -\n"),
            }
        };
        self.locked().all.iter().map(line).collect()
    }

    /// Gives a slot back for good.
    pub(crate) fn give(&self, slot: &Arc<Slot>) {
        self.locked().all.retain(|other| !Arc::ptr_eq(other, slot));
    }
}

impl Slot {
    /// The transaction that read through it has ended or was reset.
    pub(crate) fn rest(&self) {
        self.is_busy.store(false, Ordering::Release);
    }

    /// The transaction that has it reads this commit.
    pub(crate) fn reads(&self, id: u64) {
        self.id.store(id, Ordering::Relaxed);
    }

    /// The transaction that owns it reads again.
    pub(crate) fn wake(&self) {
        self.is_busy.store(true, Ordering::Release);
    }
}
