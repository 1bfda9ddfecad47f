//! The reader slots of a table: taking one, freeing what dead processes left, and which
//! slot pins what.

use std::io;
use std::sync::atomic::Ordering;

use super::memory::{NOTHING, PROCESSES, Reader, SLOTS_MAX};
use super::process::Care;
use super::{ReaderSlot, SharedLock};

impl SharedLock {
    /// How many slots have been in use so far; all of them can be touched.
    pub(super) fn used(&self) -> u32 {
        let used = self.fixed().header.used.load(Ordering::SeqCst);
        let known = self.known.load(Ordering::Acquire);
        if used <= known {
            return used;
        }
        // Another process made the table grow; or the number is damaged.
        let now = self.backing.slots().min(SLOTS_MAX);
        used.min(self.known.fetch_max(now, Ordering::AcqRel).max(now))
    }

    /// Whether the owner that a slot names is alive. `seen` remembers what was found.
    fn owner_is_alive(&self, owner: u64, seen: &mut Seen, care: Care) -> bool {
        if owner == self.owner {
            return true;
        }
        let index = (owner as u32 as usize).wrapping_sub(1);
        let Some(process) = self.fixed().processes.get(index) else {
            return false;
        };
        let generation = (owner >> 32) as u32;
        process.generation.load(Ordering::SeqCst) == generation
            && seen.is_alive(index, || self.entry_is_alive(index, process, care))
    }

    /// Frees a slot of a dead owner; false if another one was faster.
    fn reclaim(&self, reader: &Reader, dead: u64) -> bool {
        let order = Ordering::SeqCst;
        if reader.owner.compare_exchange(dead, self.owner, order, order).is_err() {
            return false;
        }
        reader.pinned.store(NOTHING, Ordering::SeqCst);
        reader.owner.store(0, Ordering::SeqCst);
        true
    }

    /// Takes a free slot in a range of those that can be touched.
    fn take_in(&self, range: std::ops::Range<u32>) -> Option<u32> {
        range.into_iter().find(|&slot| {
            let owner = &self.reader(slot).owner;
            owner.load(Ordering::Relaxed) == 0
                && owner
                    .compare_exchange(0, self.owner, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
        })
    }

    /// Takes one of the slots that were never used so far. The number in use grows first: a scan
    /// that begins after the slot was taken must reach it.
    fn take_unused(&self) -> Option<u32> {
        loop {
            let slot = self.used();
            if slot >= self.known.load(Ordering::Acquire) {
                return None;
            }
            self.fixed().header.used.fetch_max(slot + 1, Ordering::SeqCst);
            if let Some(slot) = self.take_in(slot..slot + 1) {
                return Some(slot);
            }
        }
    }

    /// Takes a slot that is free or that a dead owner left, or makes the table grow.
    pub(super) fn find_slot(&self) -> io::Result<u32> {
        let hint = self.hint.load(Ordering::Relaxed);
        let found = self.take_in(hint..self.used().max(hint)).or_else(|| self.take_unused());
        if let Some(slot) = found.or_else(|| self.take_in(0..self.used())) {
            return Ok(slot);
        }
        self.readers();
        loop {
            if let Some(slot) = self.take_in(0..self.used()).or_else(|| self.take_unused()) {
                return Ok(slot);
            }
            let known = self.known.load(Ordering::Acquire);
            let grown = self.backing.grow(known)?.min(SLOTS_MAX);
            if grown <= known {
                return Err(io::Error::other(format!("all {SLOTS_MAX} reader slots are taken")));
            }
            self.known.fetch_max(grown, Ordering::AcqRel);
        }
    }

    /// All slots of live processes that pin something now. Slots of dead processes are freed on
    /// the way; the number of those is the second result.
    pub(crate) fn readers(&self) -> (Vec<ReaderSlot>, usize) {
        let mut found = Vec::new();
        let mut freed = 0;
        let mut seen = Seen::new();
        for slot in 0..self.used() {
            let reader = self.reader(slot);
            let snapshot = reader.pinned.load(Ordering::SeqCst);
            let owner = reader.owner.load(Ordering::SeqCst);
            if owner == 0 {
                continue;
            }
            if !self.owner_is_alive(owner, &mut seen, Care::Full) {
                freed += usize::from(self.reclaim(reader, owner));
            } else if snapshot != NOTHING {
                let index = (owner as u32 as usize).wrapping_sub(1);
                let process = self.fixed().processes.get(index);
                found.push(ReaderSlot {
                    slot,
                    process: process.map_or(0, |process| process.id.load(Ordering::Relaxed)),
                    thread: reader.thread.load(Ordering::Relaxed),
                    snapshot,
                    since_unix_ns: reader.since.load(Ordering::Relaxed),
                });
            }
        }
        (found, freed)
    }

    /// Calls `f` with every pinned snapshot of a live process, cheaply (no allocation). Slots of
    /// dead processes are freed on the way.
    pub(crate) fn for_each_pinned(&self, mut f: impl FnMut(u64)) {
        let mut seen = Seen::new();
        for slot in 0..self.used() {
            let reader = self.reader(slot);
            let snapshot = reader.pinned.load(Ordering::SeqCst);
            if snapshot == NOTHING {
                continue;
            }
            let owner = reader.owner.load(Ordering::SeqCst);
            if owner == 0 {
                continue;
            }
            if self.owner_is_alive(owner, &mut seen, Care::Quick) {
                f(snapshot);
            } else if !self.reclaim(reader, owner) {
                // Freed by another and perhaps taken by a third: what it pins now counts.
                let snapshot = reader.pinned.load(Ordering::SeqCst);
                if snapshot != NOTHING {
                    f(snapshot);
                }
            }
        }
    }
}

/// Which processes were found alive in one scan: each is checked once. That a process was dead is
/// not remembered, since a living one may take its entry, and a slot, before the scan gets there.
struct Seen {
    alive: [u64; PROCESSES / 64],
}

impl Seen {
    fn new() -> Self {
        Self { alive: [0; PROCESSES / 64] }
    }

    fn is_alive(&mut self, index: usize, ask: impl FnOnce() -> bool) -> bool {
        let (group, bit) = (index / 64, 1 << (index % 64));
        if self.alive[group] & bit == 0 && ask() {
            self.alive[group] |= bit;
        }
        self.alive[group] & bit != 0
    }
}
