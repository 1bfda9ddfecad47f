//! One number for memory: what the parts of a store take of it, and what is left for the cache.
//!
//! ```text
//! memory limit = memtables, written pages     set aside when the store is opened
//!              + buffers, moved values,       charged as they are made
//!                some indexes and filters
//!              + cache                        the rest; it shrinks when something is charged
//! ```
//!
//! Written pages are what the system's cache holds of files that are being written. This module
//! knows numbers only.

use crate::sync::{Mutex, locked};

/// The active memtable, and those that wait for their tables.
const MEMTABLES: u64 = 3;
/// The memory of a memtable grows in chunks: what of it is not used yet is no more than what is,
/// and no more than this.
const CHUNK_MAX: u64 = 1 << 20;
/// The filter of a memtable's keys takes one byte for each this many of the memtable.
pub(in crate::lsm) const KEYS_PART: u64 = 64;
/// And so do the buckets of its entries.
pub(in crate::lsm) const BUCKETS_PART: u64 = 16;
/// This many files are written at a time: the log, a flush, a merge or a collection.
const WRITERS: u64 = 3;

/// What is charged as it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Buffers of queues, of read-ahead and of files that are being written.
    Buffers,
    /// Lists of where collected values went.
    Moved,
    /// Indexes and filters that are kept as long as their tables.
    Finders,
}

pub(in crate::lsm) const PARTS: usize = 3;
/// Indexes and filters may be kept with their tables up to this part of the limit; those of other
/// tables are the cache's.
const FINDERS_PART: u64 = 8;

/// The memory of a store.
pub(crate) struct Budget {
    limit: u64,
    memtable_bytes: u64,
    pub(in crate::lsm) charged: Mutex<[u64; PARTS]>,
}

impl Budget {
    /// For a store that may take `limit` bytes, with memtables of `memtable_bytes` each.
    pub(crate) fn new(limit: u64, memtable_bytes: u64) -> Self {
        Self { limit, memtable_bytes, charged: Mutex::default() }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// One writer's share of the system's cache: what it wrote before this much is on the disk.
    pub(crate) fn written_bytes(&self) -> u64 {
        (self.limit / 64).clamp(128 << 10, 4 << 20)
    }

    /// The same for all of them.
    pub(crate) fn all_written_bytes(&self) -> u64 {
        WRITERS * self.written_bytes()
    }

    /// The length of one large read or write.
    pub(crate) fn piece_bytes(&self) -> usize {
        (self.limit / 256).clamp(32 << 10, 1 << 20) as usize
    }

    /// How much of a segment that is collected is in memory at a time.
    pub(crate) fn chunk_bytes(&self) -> usize {
        (self.limit / 8).clamp(32 << 10, 64 << 20) as usize
    }

    /// How many bytes of values a scan reads together; a long one has as many on their way.
    pub(crate) fn window_bytes(&self) -> usize {
        (self.limit / 64).clamp(32 << 10, 4 << 20) as usize
    }

    /// How many reads a thread has in flight, each with a buffer of `buffer_bytes` bytes.
    pub(crate) fn depth(&self, buffer_bytes: usize) -> usize {
        (self.limit / 32 / buffer_bytes as u64).clamp(4, 128) as usize
    }

    /// What is charged to buffers and to moved values, and the result of `f` at the same moment.
    pub(crate) fn charged<R>(&self, f: impl FnOnce() -> R) -> ([u64; PARTS], R) {
        let charged = locked(&self.charged);
        (*charged, f())
    }

    /// Whether this many bytes more of indexes and filters may be kept with their tables.
    pub(crate) fn has_room_for_finder(&self, bytes: u64) -> bool {
        let kept = self.charged(|| ()).0[Part::Finders as usize];
        kept.saturating_add(bytes) <= self.limit / FINDERS_PART
    }

    /// What is left for the cache.
    pub(crate) fn rest(&self) -> u64 {
        self.rest_of(&locked(&self.charged))
    }

    pub(in crate::lsm) fn rest_of(&self, charged: &[u64; PARTS]) -> u64 {
        let found_by = self.memtable_bytes / KEYS_PART + self.memtable_bytes / BUCKETS_PART;
        let memtable = self.memtable_bytes + self.memtable_bytes.min(CHUNK_MAX) + found_by;
        let aside = MEMTABLES * memtable + self.all_written_bytes();
        let taken = charged.iter().fold(aside, |sum, bytes| sum.saturating_add(*bytes));
        self.limit.saturating_sub(taken)
    }
}
