//! What finds the entries of a table: its index and filter, as the cache keeps them. `read` reads
//! it from the file and searches with it.

use std::sync::Arc;

use super::super::filter::Filter;
use super::super::tombstones::Pieces;
use super::at_hand::AtHand;
use super::block::{Block, Heads};

/// What finds the entries of a table. The cache keeps it, so it does not keep the file.
pub(crate) struct Finder {
    pub(super) number: u32,
    /// The highest sequence number in it.
    pub(super) newest: u64,
    /// The length of the file without its footer: blocks end before.
    pub(super) end: u64,
    /// Where the data blocks end and what finds them begins.
    pub(super) data_end: u64,
    pub(super) index: Block,
    /// Those of all lines of the index.
    pub(super) lines: Heads,
    pub(super) filter: Option<Filter>,
    pub(super) pieces: Pieces,
    /// How many range tombstones the file has: pieces that go on alike are one here.
    pub(super) ranges: u64,
    /// The data blocks that the cache has.
    pub(super) at_hand: Arc<AtHand>,
}

impl Finder {
    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.index.memory()
            + self.lines.memory()
            + self.filter.as_ref().map_or(0, Filter::memory)
            + self.pieces.memory()
            + self.at_hand.memory()
            + size_of::<Self>()
    }

    /// The range tombstones.
    pub(crate) fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// How many range tombstones the file has.
    pub(crate) fn ranges(&self) -> u64 {
        self.ranges
    }

    /// False if the table surely has no entry of the key with that hash.
    #[inline]
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// Has the processor fetch what tells whether it may have entries of the key with that hash.
    #[inline]
    pub(crate) fn prefetch_filter(&self, hash: u64) {
        if let Some(filter) = &self.filter {
            filter.prefetch(hash);
        }
    }

    /// False if it surely says nothing of the key with that hash, not even by a range tombstone.
    #[inline]
    pub(crate) fn may_concern(&self, hash: u64) -> bool {
        !self.pieces.is_empty() || self.may_hold(hash)
    }
}
