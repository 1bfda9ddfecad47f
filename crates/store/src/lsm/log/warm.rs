//! The part of the log that the system's cache keeps until tables hold it. A store whose process
//! was killed then opens without reading that part from the disk.
//!
//! It takes no memory from other uses: the block cache lends its unused memory, a piece at a time,
//! and takes it back when a block needs the room. A piece that gets no memory is dropped at once.

use std::ops::Range;
use std::sync::Arc;

use crate::lsm::files::cache::BlockKey;
use crate::lsm::files::cached::Blocks;
use crate::os::DataFile;
use crate::sync::{Mutex, locked};

/// Pieces end at multiples of this.
const PIECE_BYTES: u64 = 128 << 10;
/// The system drops whole pages.
const PAGE_BYTES: u64 = 4096;
/// Blocks of a file have its number; pieces of it have this, too.
const PIECE_OF: u64 = 1 << 32;

/// The pieces of a store's log.
pub(crate) struct Warm {
    pieces: Mutex<Pieces>,
    /// The system's cache keeps what it wants to.
    is_off: bool,
}

#[derive(Default)]
struct Pieces {
    list: Vec<Piece>,
    /// Tables hold all segments before this one.
    needed_from: u32,
}

#[derive(Clone, Debug)]
struct Piece {
    segment: u32,
    range: Range<u64>,
}

impl Piece {
    fn key(&self) -> BlockKey {
        BlockKey { file: PIECE_OF | u64::from(self.segment), offset: self.range.start }
    }
}

/// A part of a file in the system's cache, which lets go of it when this is dropped.
struct Cached {
    file: Arc<dyn DataFile>,
    range: Range<u64>,
}

impl Drop for Cached {
    fn drop(&mut self) {
        self.file.release(self.range.start, self.range.end - self.range.start);
    }
}

impl Warm {
    /// For a store whose files the system's cache may hold, if `is_off`.
    pub(crate) fn new(is_off: bool) -> Self {
        Self { pieces: Mutex::default(), is_off }
    }

    /// Keeps a range of a segment that is written to the disk by now, as far as there is room.
    pub(crate) fn keep(
        &self,
        blocks: &Blocks,
        segment: u32,
        file: &Arc<dyn DataFile>,
        range: Range<u64>,
    ) {
        if self.is_off {
            return;
        }
        let mut pieces = locked(&self.pieces);
        if segment < pieces.needed_from {
            return drop(Cached { file: Arc::clone(file), range });
        }
        let mut start = range.start - range.start % PAGE_BYTES;
        while start < range.end {
            let end = range.end.min((start / PIECE_BYTES + 1) * PIECE_BYTES);
            let piece = Piece { segment, range: start..end };
            let cached = Cached { file: Arc::clone(file), range: start..end };
            blocks.lend(piece.key(), end - start, cached);
            pieces.list.push(piece);
            start = end;
        }
    }

    /// A segment was flushed. Pieces that were let go of before may not have been on the disk at
    /// that time, and so may still be in the cache; `rest`, which was not kept before, is kept now.
    pub(crate) fn finish(
        &self,
        blocks: &Blocks,
        segment: u32,
        file: &Arc<dyn DataFile>,
        rest: Range<u64>,
    ) {
        let is_gone = |piece: &mut Piece| piece.segment == segment && !blocks.has_lent(piece.key());
        for Piece { range, .. } in locked(&self.pieces).list.extract_if(.., is_gone) {
            drop(Cached { file: Arc::clone(file), range });
        }
        self.keep(blocks, segment, file, rest);
    }

    /// Tables hold all segments before this one: nothing of them is kept any more.
    pub(crate) fn let_go(&self, blocks: &Blocks, needed_from: u32) {
        let mut pieces = locked(&self.pieces);
        pieces.needed_from = needed_from;
        for piece in pieces.list.extract_if(.., |piece| piece.segment < needed_from) {
            blocks.take_back(piece.key());
        }
    }
}

#[cfg(test)]
#[path = "warm/tests.rs"]
mod tests;
