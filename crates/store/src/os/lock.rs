//! The table that processes with the same store share: words, processes, the writer's lock,
//! readers.
//!
//! The table lies in memory that any of them may change at any time, and each may die at any
//! instruction. Nothing in it is trusted for bounds: damaged contents give wrong answers, never a
//! wild access or an endless loop. A [`Backing`] provides the memory and knows which processes are
//! alive: the lock file ([`open`]), private memory (of a guest, or of a store in memory), or the
//! simulated disk.
//!
//! ```text
//!      0  Header      magic, version, layout, slots used so far     64 bytes
//!     64  words       8 x u64                                       64 bytes
//!    128  writer      u32: the owner, a futex                        4 bytes
//!    132  bell        u32: counts its rings, a futex                 4 bytes
//!    136  awaited     u32: 1 if somebody waits for the bell         56 bytes
//!    192  wanted      one bit per process: waits for the writer    128 bytes
//!   4096  processes   1,024 x 64 bytes
//!  69632  readers     up to 65,536 x 64 bytes
//! ```
//!
//! **Owners.** A process entry has a generation, which grows each time the entry is taken. An owner
//! is named by both. So what a dead process left is known to be ownerless as soon as its entry is
//! taken anew, and before that by asking the backing whether the process is alive.
//!
//! **Writer's lock.** Free is 0. It is taken and taken over by compare-and-swap from the value that
//! was seen, so that of several processes that find a dead owner one wins. A waiter raises its
//! process' bit, looks again, then sleeps; an owner frees the word, then looks at the bits: one of
//! the two sees the other. Even if the owner dies in between, the waiters look again after
//! [`ROUND`].
//!
//! **Bell.** A waiter reads the count of rings, says that it waits, looks whether what it waits for
//! is there, then sleeps for as long as the count stays. Who rings has stored first what is waited
//! for, then looks whether somebody waits: one of the two sees the other. If a process dies before
//! it has rung, the waiters look again after [`BELL_ROUND`].
//!
//! **Reader slots.** Free is owner 0. A process that frees a dead owner's slot first makes itself
//! the owner, then clears the pin, then frees the slot. So two that do this at once cannot clear
//! the pin of a third that has taken the slot in between, and one that dies on the way leaves a
//! dead owner's slot again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use crate::sync::{Mutex, locked, now};

mod file;
pub(super) mod memory;
pub(super) mod process;
mod rights;
mod slots;
#[cfg(test)]
mod tests;

pub(super) use file::{discard, open, open_alone};
use memory::{Fixed, Memory, NOTHING, PROCESSES, Process, Reader, SLOTS_MAX};
use process::{Care, Identity};

/// How long a waiter sleeps before it looks whether the owner is still alive.
const ROUND: Duration = Duration::from_millis(20);
/// How long a waiter for the bell sleeps before it looks by itself.
const BELL_ROUND: Duration = Duration::from_millis(200);
/// The state of a process entry in use; any other value is a free one.
const LIVE: u32 = 1;
/// Bits of the writer's word that name the process entry, plus one; the rest is its generation.
const WRITER_ENTRY_BITS: u32 = 12;
const _: () = assert!(PROCESSES < 1 << WRITER_ENTRY_BITS);

/// What a table rests on: memory that can grow, and knowledge of which processes are alive.
pub(super) trait Backing: Send + Sync {
    /// How many reader slots have memory.
    fn slots(&self) -> u32;
    /// Gives memory to more slots than `have`, and says how many have it now. A new slot is free
    /// and pins nothing.
    fn grow(&self, have: u32) -> io::Result<u32>;
    /// Whether the process that took this entry, another one than this, is still alive.
    fn is_alive(&self, index: usize, process: &Process, care: Care) -> bool;
    /// Takes the entry for this opener, unless it is still held.
    fn try_join(&self, index: usize) -> io::Result<bool>;
    /// Lets the waiting openers go on.
    fn end_opening(&self);
    /// Gives the entry back.
    fn leave(&self, index: usize);
    /// False where this opener is not to touch the table any more.
    fn is_same_process(&self) -> bool;
    /// Refuses to take a lock or a slot where that is so.
    fn may_take(&self) -> io::Result<()> {
        if self.is_same_process() { Ok(()) } else { Err(not_ours()) }
    }
    /// What the table notes about the opener's process.
    fn identity(&self) -> Identity {
        process::this()
    }
}

/// One opener's view of what processes that have the same store open share: a few words, a table of
/// readers, the writer's lock. Every part of it survives the death of any process at any
/// instruction.
pub struct SharedLock {
    memory: Arc<Memory>,
    backing: Box<dyn Backing>,
    /// The index of this opener's process entry.
    entry: usize,
    /// The name of this opener in reader slots.
    owner: u64,
    /// The name of this opener in the writer's word.
    writer: u32,
    /// True from joining as the only one until the opening is published.
    first: AtomicBool,
    /// At least this many slots have memory.
    known: AtomicU32,
    /// The lowest slot that may be free.
    hint: AtomicU32,
    /// How many threads wait for the writer's lock through this opener.
    waiting: Mutex<u32>,
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

/// The name of an owner in a reader slot.
fn owner_name(entry: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | (entry as u64 + 1)
}

/// The name of an owner in the writer's word: of the generation, its low bits.
fn writer_name(entry: usize, generation: u32) -> u32 {
    generation << WRITER_ENTRY_BITS | (entry as u32 + 1)
}

impl SharedLock {
    /// Joins the processes that share a table. No other process may be joining at the same time.
    pub(super) fn join(memory: Arc<Memory>, backing: Box<dyn Backing>) -> io::Result<Self> {
        Self::join_for(memory, backing, 0)
    }

    /// The same; `access` says whether this opener only reads.
    fn join_for(memory: Arc<Memory>, backing: Box<dyn Backing>, access: u32) -> io::Result<Self> {
        let known = AtomicU32::new(backing.slots().min(SLOTS_MAX));
        let mut table = Self {
            memory,
            backing,
            entry: usize::MAX,
            owner: 0,
            writer: 0,
            first: AtomicBool::new(false),
            known,
            hint: AtomicU32::new(0),
            waiting: Mutex::new(0),
        };
        if !table.somebody_is_alive() {
            table.reset();
            table.first = AtomicBool::new(true);
        }
        table.take_entry(access)?;
        if !table.is_first() {
            table.backing.end_opening();
        }
        Ok(table)
    }

    fn somebody_is_alive(&self) -> bool {
        let mut all = self.fixed().processes.iter().enumerate();
        all.any(|(index, process)| self.entry_is_alive(index, process, Care::Full))
    }

    /// Clears what dead processes left. Generations stay: nothing old may be taken for new.
    fn reset(&self) {
        let fixed = self.fixed();
        for word in fixed.words.iter().chain(&fixed.wanted) {
            word.store(0, Ordering::Relaxed);
        }
        fixed.writer.store(0, Ordering::Relaxed);
        for process in &fixed.processes {
            process.state.store(0, Ordering::Relaxed);
        }
        self.memory.clear(0..self.known.load(Ordering::Relaxed));
        fixed.header.used.store(0, Ordering::SeqCst);
    }

    /// Takes a process entry that is free, or whose process is dead.
    fn take_entry(&mut self, access: u32) -> io::Result<()> {
        for index in 0..PROCESSES {
            let process = &self.fixed().processes[index];
            if self.entry_is_alive(index, process, Care::Full) || !self.backing.try_join(index)? {
                continue;
            }
            let generation = process.generation.load(Ordering::Relaxed).wrapping_add(1);
            let this = self.backing.identity();
            // From here on, what the entry's last process left is known to be ownerless.
            process.state.store(0, Ordering::SeqCst);
            process.generation.store(generation, Ordering::SeqCst);
            process.id.store(this.id, Ordering::Relaxed);
            process.access.store(access, Ordering::Relaxed);
            process.start.store(this.start, Ordering::Relaxed);
            process.namespace.store(this.namespace, Ordering::Relaxed);
            self.lower_wanted(index);
            process.state.store(LIVE, Ordering::SeqCst);
            self.entry = index;
            self.owner = owner_name(index, generation);
            self.writer = writer_name(index, generation);
            return Ok(());
        }
        let message = format!("{PROCESSES} processes have the store open, and no more can");
        Err(io::Error::other(message))
    }

    fn fixed(&self) -> &Fixed {
        self.memory.fixed()
    }

    /// The slot of that number, which must have memory: touching the map of a file beyond its end
    /// would end the process.
    fn reader(&self, slot: u32) -> &Reader {
        assert!(slot < self.known.load(Ordering::Relaxed), "no reader slot {slot}");
        self.memory.reader(slot)
    }

    fn entry_is_alive(&self, index: usize, process: &Process, care: Care) -> bool {
        process.state.load(Ordering::SeqCst) == LIVE
            && (index == self.entry || self.backing.is_alive(index, process, care))
    }

    /// Whether the owner that the writer's word names is alive.
    fn writer_is_alive(&self, writer: u32) -> bool {
        if writer == self.writer {
            return true;
        }
        let entry = writer & ((1 << WRITER_ENTRY_BITS) - 1);
        let index = (entry as usize).wrapping_sub(1);
        let Some(process) = self.fixed().processes.get(index) else {
            return false;
        };
        writer_name(index, process.generation.load(Ordering::SeqCst)) == writer
            && self.entry_is_alive(index, process, Care::Full)
    }

    /// Takes the writer's lock if it is free or its owner dead.
    fn try_lock_writer(&self) -> bool {
        let word = &self.fixed().writer;
        let seen = word.load(Ordering::SeqCst);
        (seen == 0 || !self.writer_is_alive(seen))
            && word.compare_exchange(seen, self.writer, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn raise_wanted(&self, index: usize) {
        self.fixed().wanted[index / 64].fetch_or(1 << (index % 64), Ordering::SeqCst);
    }

    fn lower_wanted(&self, index: usize) {
        self.fixed().wanted[index / 64].fetch_and(!(1 << (index % 64)), Ordering::SeqCst);
    }

    /// Counts a thread that begins or ends to wait, and shows the others whether there is one.
    fn count_waiting(&self, change: impl FnOnce(u32) -> u32) {
        let mut waiting = locked(&self.waiting);
        *waiting = change(*waiting);
        match *waiting {
            0 => self.lower_wanted(self.entry),
            _ => self.raise_wanted(self.entry),
        }
    }

    fn wait_for_writer(&self, wait: Option<Duration>) -> io::Result<bool> {
        let end = wait.and_then(|wait| now().checked_add(wait));
        loop {
            if !self.is_same_process() {
                return Err(not_ours());
            }
            if self.try_lock_writer() {
                return Ok(true);
            }
            let round = match end.map(|end| end.saturating_duration_since(now())) {
                Some(Duration::ZERO) => return Ok(false),
                Some(left) => left.min(ROUND),
                None => ROUND,
            };
            // This is done in each round: a process that saw the entry's last process dead may have
            // lowered the bit.
            self.raise_wanted(self.entry);
            let word = &self.fixed().writer;
            let seen = word.load(Ordering::SeqCst);
            if seen != 0 {
                process::wait(word, seen, round);
            }
        }
    }
}

impl SharedLock {
    /// True if no other live process had the file open when this one opened it: then this process
    /// alone chooses the meta page and calls [`SharedLock::publish_opened`]. While true, other
    /// openers wait inside `open_lock`.
    pub(crate) fn is_first(&self) -> bool {
        self.first.load(Ordering::Acquire)
    }

    /// Ends the exclusive phase of opening.
    pub(crate) fn publish_opened(&self) {
        if self.is_same_process() && self.first.swap(false, Ordering::AcqRel) {
            self.backing.end_opening();
        }
    }

    /// A shared word by index 0..8 (latest commit, durable commit, ...).
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        &self.fixed().words[index]
    }

    /// Takes the writer's lock, waiting at most `wait` (`None`: for ever; zero: try). Returns
    /// false if the time ran out. The lock of a process that died is taken over.
    pub(crate) fn lock_writer(&self, wait: Option<Duration>) -> io::Result<bool> {
        self.backing.may_take()?;
        if self.try_lock_writer() {
            return Ok(true);
        }
        if wait == Some(Duration::ZERO) {
            return Ok(false);
        }
        self.count_waiting(|waiting| waiting + 1);
        let result = self.wait_for_writer(wait);
        if self.is_same_process() {
            self.count_waiting(|waiting| waiting - 1);
        }
        result
    }

    /// Gives the writer's lock back. Any thread of the process may do so.
    pub(crate) fn unlock_writer(&self) {
        if !self.is_same_process() {
            return;
        }
        let (fixed, order) = (self.fixed(), Ordering::SeqCst);
        let freed = fixed.writer.compare_exchange(self.writer, 0, order, order).is_ok();
        if freed && fixed.wanted.iter().any(|bits| bits.load(Ordering::SeqCst) != 0) {
            process::wake_one(&fixed.writer);
        }
    }

    /// The number of the process that has the writer's lock; 0: one in a table of its own.
    pub(crate) fn writer(&self) -> Option<u32> {
        let writer = self.fixed().writer.load(Ordering::SeqCst);
        let entry = writer & ((1 << WRITER_ENTRY_BITS) - 1);
        let process = self.fixed().processes.get((entry as usize).wrapping_sub(1))?;
        (writer != 0 && self.writer_is_alive(writer)).then(|| process.id.load(Ordering::SeqCst))
    }

    /// True if another process waits for the writer's lock.
    pub(crate) fn writer_is_wanted(&self) -> bool {
        let fixed = self.fixed();
        for (group, bits) in fixed.wanted.iter().enumerate() {
            let mut bits = bits.load(Ordering::SeqCst);
            while bits != 0 {
                let index = group * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if index == self.entry {
                    continue;
                }
                if self.entry_is_alive(index, &fixed.processes[index], Care::Quick) {
                    return true;
                }
                self.lower_wanted(index);
            }
        }
        false
    }

    /// Wakes all threads, of whatever process, that wait in [`SharedLock::wait_for_ring`]. Costs no
    /// system call where there are none.
    pub(crate) fn ring(&self) {
        let fixed = self.fixed();
        if fixed.awaited.load(Ordering::SeqCst) != 0 {
            fixed.awaited.store(0, Ordering::SeqCst);
            fixed.bell.fetch_add(1, Ordering::SeqCst);
            process::wake_all(&fixed.bell);
        }
    }

    /// Sleeps until `is_there` answers true, which is asked after each ring; at most `most`
    /// (`None`: for ever). Returns whether it did. What is waited for must be stored in
    /// sequentially consistent order before the ring.
    pub(crate) fn wait_for_ring(
        &self,
        is_there: &dyn Fn() -> bool,
        most: Option<Duration>,
    ) -> bool {
        let end = most.and_then(|most| now().checked_add(most));
        loop {
            let fixed = self.fixed();
            let seen = fixed.bell.load(Ordering::SeqCst);
            fixed.awaited.store(1, Ordering::SeqCst);
            if is_there() {
                return true;
            }
            match end.map(|end| end.saturating_duration_since(now())) {
                Some(Duration::ZERO) => return false,
                left => {
                    process::wait(&fixed.bell, seen, left.unwrap_or(BELL_ROUND).min(BELL_ROUND))
                }
            }
        }
    }

    /// Takes a reader slot (the table grows); the slot pins nothing yet.
    pub(crate) fn take_slot(&self) -> io::Result<u32> {
        self.backing.may_take()?;
        let slot = self.find_slot()?;
        self.reader(slot).pinned.store(NOTHING, Ordering::SeqCst);
        self.hint.store(slot + 1, Ordering::Relaxed);
        self.touch_slot(slot);
        Ok(slot)
    }

    /// Notes that the calling thread begins to use a slot now, for [`SharedLock::readers`].
    fn touch_slot(&self, slot: u32) {
        let reader = self.reader(slot);
        reader.thread.store(process::thread(), Ordering::Relaxed);
        reader.since.store(process::now_unix_ns(), Ordering::Relaxed);
    }

    /// Gives a slot back.
    pub(crate) fn give_slot(&self, slot: u32) {
        if !self.is_same_process() {
            return;
        }
        let reader = self.reader(slot);
        if reader.owner.load(Ordering::Relaxed) == self.owner {
            reader.pinned.store(NOTHING, Ordering::SeqCst);
            reader.owner.store(0, Ordering::SeqCst);
            self.hint.fetch_min(slot, Ordering::Relaxed);
        }
    }

    /// The word of a slot that says which snapshot it pins: `u64::MAX` for none.
    pub(crate) fn slot_word(&self, slot: u32) -> &AtomicU64 {
        &self.reader(slot).pinned
    }

    /// False in the child after a fork: its handles cannot be used.
    pub(crate) fn is_same_process(&self) -> bool {
        self.backing.is_same_process()
    }
}

impl Drop for SharedLock {
    fn drop(&mut self) {
        if self.entry == usize::MAX || !self.is_same_process() {
            return;
        }
        for slot in 0..self.used() {
            self.give_slot(slot);
        }
        self.unlock_writer();
        self.lower_wanted(self.entry);
        self.fixed().processes[self.entry].state.store(0, Ordering::SeqCst);
        self.publish_opened();
        self.backing.leave(self.entry);
    }
}

/// The refusal for a process that only inherited the handle.
fn not_ours() -> io::Error {
    io::Error::other("the store was opened before a fork: open it anew in the child")
}
