//! What processes share about a store that they have open, as the engines see it.

use std::io;
use std::time::Duration;

use crate::sync::atomic::AtomicU64;

/// What processes that have the same store open share: a few words, a table of readers, the
/// writer's lock. It is stored in the lock file; every part of it survives the death of any process
/// at any instruction.
#[cfg_attr(shuttle, expect(private_interfaces, reason = "nobody else implements it there"))]
pub trait SharedLock: Send + Sync {
    /// True if no other live process had the file open when this one opened it: then this process
    /// alone chooses the meta page and calls [`SharedLock::publish_opened`]. While true, other
    /// openers wait inside `open_lock`.
    fn is_first(&self) -> bool;
    /// Ends the exclusive phase of opening.
    fn publish_opened(&self);
    /// A shared word by index 0..8 (latest commit, durable commit, ...).
    fn word(&self, index: usize) -> &AtomicU64;
    /// Takes the writer's lock, waiting at most `wait` (`None`: for ever; zero: try). Returns
    /// false if the time ran out. The lock of a process that died is taken over.
    fn lock_writer(&self, wait: Option<Duration>) -> io::Result<bool>;
    /// Gives the writer's lock back. Any thread of the process may do so.
    fn unlock_writer(&self);
    /// The number of the process that has the writer's lock; 0: one in a table of its own.
    fn writer(&self) -> Option<u32>;
    /// True if another process waits for the writer's lock.
    fn writer_is_wanted(&self) -> bool;
    /// Wakes all threads, of whatever process, that wait in [`SharedLock::wait_for_ring`]. Costs no
    /// system call where there are none.
    fn ring(&self);
    /// Sleeps until `is_there` answers true, which is asked after each ring; at most `most`
    /// (`None`: for ever). Returns whether it did. What is waited for must be stored in
    /// sequentially consistent order before the ring.
    fn wait_for_ring(&self, is_there: &dyn Fn() -> bool, most: Option<Duration>) -> bool;
    /// Takes a reader slot (the table grows); the slot pins nothing yet.
    fn take_slot(&self) -> io::Result<u32>;
    /// Notes that the calling thread begins to use a slot now, for [`SharedLock::readers`]. Costs
    /// no system call.
    fn touch_slot(&self, slot: u32);
    /// Gives a slot back.
    fn give_slot(&self, slot: u32);
    /// The word of a slot that says which snapshot it pins: `u64::MAX` for none.
    fn slot_word(&self, slot: u32) -> &AtomicU64;
    /// All slots of live processes that pin something now. Slots of dead processes are freed on
    /// the way; the number of those is the second result.
    fn readers(&self) -> (Vec<ReaderSlot>, usize);
    /// Calls `f` with every pinned snapshot of a live process, cheaply (no allocation). Slots of
    /// dead processes are freed on the way.
    fn for_each_pinned(&self, f: &mut dyn FnMut(u64));
    /// False in the child after a fork: its handles cannot be used.
    fn is_same_process(&self) -> bool;
}

/// One reader as seen in the table.
#[derive(Clone, Debug)]
pub struct ReaderSlot {
    /// The slot's number.
    pub slot: u32,
    /// The owner's process number.
    pub process: u32,
    /// The owner's thread number, as the system prints it.
    pub thread: u64,
    /// The snapshot.
    pub snapshot: u64,
    /// When it began, in nanoseconds of the wall clock since 1970.
    pub since_unix_ns: u64,
}
