//! Scripted faults: which operation fails, how, and what it did nevertheless.

use std::io;

use super::super::unix::evidence::mix;

/// Kinds of operation that can be counted and made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Opening or creating a data file, opening a lock file.
    Open,
    /// Reading (not through a map, which cannot fail).
    Read,
    /// Writing.
    Write,
    /// Flushing a file.
    Sync,
    /// Cutting or extending a file.
    SetLen,
    /// Flushing a folder.
    SyncDirectory,
    /// Removing, renaming or linking.
    Name,
    /// Asking for the length of a file.
    Length,
    /// Mapping a file.
    Map,
    /// Taking the writer's lock or a reader slot.
    Lock,
}

/// How many kinds there are.
const OPERATIONS: usize = Operation::Lock as usize + 1;

/// How much of a failed write reaches the cache, or of the pending writes of a failed sync the
/// disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kept {
    /// Nothing.
    None,
    /// The first part of a write; any sectors of pending writes.
    Some,
    /// Everything, though it was reported as failed.
    All,
}

/// One failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The system's error number.
    pub errno: i32,
    /// What a write or a sync does nevertheless.
    pub kept: Kept,
}

impl Fault {
    /// The medium failed.
    pub const fn io(kept: Kept) -> Self {
        Self { errno: libc::EIO, kept }
    }

    /// The disk is full.
    pub const fn full(kept: Kept) -> Self {
        Self { errno: libc::ENOSPC, kept }
    }

    pub(super) fn error(self) -> io::Error {
        io::Error::from_raw_os_error(self.errno)
    }
}

/// One line of the script: calls `from..until` of a kind, or of all kinds, fail.
struct Line {
    operation: Option<Operation>,
    from: u64,
    until: u64,
    fault: Fault,
}

impl Line {
    fn holds(&self, call: u64) -> bool {
        (self.from..self.until).contains(&call)
    }
}

/// The script, and how far the run is.
pub(super) struct Faults {
    calls: [u64; OPERATIONS],
    script: Vec<Line>,
    failed: Vec<Operation>,
    random: Random,
}

impl Faults {
    pub(super) fn new(seed: u64) -> Self {
        let (script, failed) = (Vec::new(), Vec::new());
        Self { calls: [0; OPERATIONS], script, failed, random: Random::new(seed) }
    }

    pub(super) fn calls(&self, operation: Operation) -> u64 {
        self.calls[operation as usize]
    }

    pub(super) fn all_calls(&self) -> u64 {
        self.calls.iter().sum()
    }

    pub(super) fn failed(&self) -> &[Operation] {
        &self.failed
    }

    pub(super) fn add(&mut self, operation: Operation, nth: u64, times: u64, fault: Fault) {
        let from = self.calls(operation).saturating_add(nth.max(1));
        self.push(Some(operation), from, times, fault);
    }

    pub(super) fn add_any(&mut self, nth: u64, times: u64, fault: Fault) {
        let from = self.all_calls().saturating_add(nth.max(1));
        self.push(None, from, times, fault);
    }

    fn push(&mut self, operation: Option<Operation>, from: u64, times: u64, fault: Fault) {
        self.script.push(Line { operation, from, until: from.saturating_add(times), fault });
    }

    pub(super) fn clear(&mut self) {
        self.script.clear();
    }

    /// Counts a call, and says whether it fails.
    pub(super) fn next(&mut self, operation: Operation) -> Option<Fault> {
        self.calls[operation as usize] += 1;
        let all = self.all_calls();
        let is_due = |line: &&Line| match line.operation {
            Some(kind) => kind == operation && line.holds(self.calls(kind)),
            None => line.holds(all),
        };
        let fault = self.script.iter().find(is_due).map(|line| line.fault);
        if fault.is_some() {
            self.failed.push(operation);
        }
        fault
    }

    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }
}

/// Numbers that look random and follow from a seed (SplitMix64).
#[derive(Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
