//! What finds the entries of a table: its index and filter, as the cache keeps them. `read` reads
//! it from the file and searches with it.

use super::super::filter::Filter;
use super::super::tombstones::Pieces;
use super::block::{Block, Heads};

/// What finds the entries of a table. The cache keeps it, so it does not keep the file.
pub(crate) struct Finder {
    pub(super) number: u32,
    /// The length of the file without its footer: blocks end before.
    pub(super) end: u64,
    /// Where the data blocks end and what finds them begins.
    pub(super) data_end: u64,
    pub(super) index: Block,
    /// Those of all lines of the index.
    pub(super) lines: Heads<u64>,
    pub(super) filter: Option<Block>,
    pub(super) pieces: Pieces,
}

impl Finder {
    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.index.memory()
            + self.lines.memory()
            + self.filter.as_ref().map_or(0, Block::memory)
            + self.pieces.memory()
            + size_of::<Self>()
    }

    /// The range tombstones.
    pub(crate) fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// False if the table surely has no entry of the key with that hash.
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        let filter = self.filter.as_ref().and_then(|block| Filter::new(block.content()));
        filter.is_none_or(|filter| filter.may_contain(hash))
    }
}
