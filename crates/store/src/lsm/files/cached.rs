//! What the cache of a store keeps, and how much was read past it.

use std::sync::Arc;

use super::cache::{BlockKey, Cache, CacheStats, Item};
use crate::lsm::table::{Block, Finder};
use crate::sync::atomic::AtomicU64;

/// Where in the file of a table its index and filter count as one block.
const TABLE_OFFSET: u64 = u64::MAX;

/// By what the cache knows the index and filter of a table.
pub(crate) fn table_key(number: u32) -> BlockKey {
    BlockKey { file: u64::from(number), offset: TABLE_OFFSET }
}

/// A block could not be read. The next thread that tries learns why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unread;

/// What the cache keeps.
#[derive(Clone)]
pub(crate) enum Cached {
    /// Index, filter and range tombstones of a table.
    Table(Arc<Finder>),
    /// A data block of a table.
    Block(Arc<Block>),
    /// A separated value.
    Value(Arc<[u8]>),
}

impl Item for Cached {
    fn weight(&self) -> u64 {
        match self {
            Self::Table(table) => table.memory() as u64,
            Self::Block(block) => block.memory() as u64,
            Self::Value(value) => value.len() as u64,
        }
    }

    fn kind(&self) -> usize {
        match self {
            Self::Table(_) => 0,
            Self::Block(_) => 1,
            Self::Value(_) => 2,
        }
    }

    /// A table finds many blocks, a block many values.
    fn credit(&self) -> u8 {
        2 - self.kind() as u8
    }

    /// A value finds nothing.
    fn is_tried(&self) -> bool {
        matches!(self, Self::Value(_))
    }

    fn enter(&self) {
        if let Self::Block(block) = self {
            block.stay().begin();
        }
    }

    fn leave(&self) {
        if let Self::Block(block) = self {
            block.stay().end();
        }
    }

    fn take_use(&self) -> bool {
        matches!(self, Self::Block(block) if block.stay().take_use())
    }
}

/// The cache of a store.
pub(crate) type Blocks = Cache<Cached, Unread>;

/// What the cache holds, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) tables: u64,
    pub(crate) blocks: u64,
    pub(crate) values: u64,
    /// What it has lent.
    pub(crate) lent: u64,
}

impl From<CacheStats> for Kept {
    fn from(stats: CacheStats) -> Self {
        let [tables, blocks, values] = stats.bytes;
        Self { tables, blocks, values, lent: stats.lent }
    }
}

/// Look-ups, and reads of the disk, so far.
#[derive(Default)]
pub(crate) struct ReadCounts {
    /// Keys that were looked up.
    pub(crate) gets: AtomicU64,
    /// Data blocks of tables.
    pub(crate) blocks: AtomicU64,
    /// Separated values.
    pub(crate) values: AtomicU64,
    /// Pieces of tables of several blocks: for scans and merges.
    pub(crate) ahead: AtomicU64,
    /// Pieces of segments of one or several values: for scans.
    pub(crate) prefetched: AtomicU64,
    /// Pieces of tables that are opened.
    pub(crate) others: AtomicU64,
    /// Calls of the system that served queues.
    pub(crate) turns: AtomicU64,
    /// The most reads that were in flight at a time in one thread.
    pub(crate) depth: AtomicU64,
}
