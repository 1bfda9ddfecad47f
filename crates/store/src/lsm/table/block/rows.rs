//! All entries of a block at once, for cursors that go through blocks: a step in either direction
//! only counts.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Block;
use crate::lsm::entry::{Entry, Kind, Limit};
use crate::prefetch::prefetch_range;

/// The keys of a block are put together if they do not take more bytes than this.
const KEYS_BYTES_MAX: usize = 1 << 16;
/// How many bytes are copied at once; there is as much room after the keys.
const PIECE: usize = 32;

/// The entries of a block.
#[derive(Default)]
pub(crate) struct Rows {
    block: Option<Arc<Block>>,
    /// The keys, one after the other, and some room.
    keys: Vec<u8>,
    rows: Vec<Row>,
}

/// An entry: where its key and its value begin and end.
#[derive(Clone, Copy)]
struct Row {
    key: (u32, u32),
    value: (u32, u32),
    tag: u64,
    /// Whether its key is another one than that of the entry before, which is in the block, too.
    is_other: bool,
}

impl Rows {
    /// Becomes the entries of a block, and has the processor fetch the block of which the bytes
    /// begin at `ahead`. `false` if the entries make no sense, or take too much memory: then there
    /// are none.
    pub(crate) fn fill(&mut self, block: &Arc<Block>, ahead: Option<*const u8>) -> bool {
        self.rows.clear();
        // Places in it are kept in 32 bits.
        let is_short = u32::try_from(block.end).is_ok();
        let is_filled = is_short && self.fill_from(block, ahead).is_some();
        if !is_filled {
            self.rows.clear();
        }
        self.block = is_filled.then(|| Arc::clone(block));
        is_filled
    }

    fn fill_from(&mut self, block: &Block, ahead: Option<*const u8>) -> Option<()> {
        let (mut at, mut last) = (0, 0..0);
        self.rows.reserve(block.entries_max());
        while at < block.end {
            let header = block.header(at)?;
            Kind::from_byte((header.tag & 3) as u8)?;
            let (from, shared, rest) = (last.end, header.shared, header.rest.len());
            if shared > last.len() || from > KEYS_BYTES_MAX {
                return None;
            }
            let len = shared + rest;
            if self.keys.len() < from + len.max(PIECE) + PIECE {
                self.keys.resize(2 * (from + len) + 16 * PIECE, 0);
            }
            // Of short keys more than is needed is copied: that takes less time.
            match self.keys[last.start..].first_chunk::<PIECE>().copied() {
                Some(piece) if shared <= PIECE => {
                    self.keys[from..from + PIECE].copy_from_slice(&piece)
                }
                _ => self.keys.copy_within(last.start..last.start + shared, from),
            }
            let rests = &block.bytes[header.rest.start..];
            copy(&mut self.keys[from + shared..], rests, rest);
            let (before, key) = (&self.keys[last.clone()], &self.keys[from..from + len]);
            // The first byte that is not shared nearly always tells them apart.
            let is_other =
                !self.rows.is_empty() && (key.get(shared) != before.get(shared) || key != before);
            last = from..from + len;
            let key = (from as u32, last.end as u32);
            let value = (header.value.start as u32, header.value.end as u32);
            self.rows.push(Row { key, value, tag: header.tag, is_other });
            if let Some(ahead) = ahead {
                // Blocks are about as long as each other. A few lines at a time do not have the
                // processor wait.
                prefetch_range(ahead, at..header.value.end);
            }
            at = header.value.end;
        }
        Some(())
    }

    /// How many entries there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    fn key(&self, row: &Row) -> &[u8] {
        &self.keys[row.key.0 as usize..row.key.1 as usize]
    }

    /// Whether the key of an entry is known to be another one than that of the entry before.
    pub(crate) fn is_other(&self, at: usize) -> bool {
        self.rows.get(at).is_some_and(|row| row.is_other)
    }

    /// The entries that follow one of them, in a direction, and whose keys come before `limit` on
    /// the way.
    pub(crate) fn run(
        self: &Arc<Self>,
        at: usize,
        forward: bool,
        limit: &Limit<'_>,
    ) -> Option<Run> {
        let (before, after) = (self.rows.get(..at)?, self.rows.get(at + 1..)?);
        let order = |row: &Row| limit.order(self.key(row));
        let left = if forward {
            if order(after.first()?).is_ge() {
                return None;
            }
            match order(after.last()?) {
                Ordering::Less => after.len(),
                _ => after.partition_point(|row| order(row).is_lt()),
            }
        } else {
            if order(before.last()?).is_le() {
                return None;
            }
            match order(before.first()?) {
                Ordering::Greater => before.len(),
                _ => before.len() - before.partition_point(|row| order(row).is_le()),
            }
        };
        Some(Run { rows: Arc::clone(self), at, left })
    }

    /// An entry by its number.
    #[inline(always)]
    pub(crate) fn entry(&self, at: usize) -> Option<Entry<'_>> {
        let (row, block) = (self.rows.get(at)?, self.block.as_ref()?);
        let kind = Kind::from_byte((row.tag & 3) as u8)?;
        let value = &block.bytes[row.value.0 as usize..row.value.1 as usize];
        Some(Entry { key: self.key(row), seq: row.tag >> 2, kind, value })
    }
}

/// Entries that follow each other on the way of a cursor, before one of another source.
#[derive(Clone)]
pub(crate) struct Run {
    rows: Arc<Rows>,
    /// The number of the entry here.
    at: usize,
    /// How many entries follow it.
    left: usize,
}

impl Run {
    #[inline(always)]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        self.rows.entry(self.at)
    }

    /// The number of the entry here among those of its block.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Moves to the next entry, if there is one and that is known to be the only version of its key
    /// and neither a tombstone nor newer than `seen`; whether it did.
    #[inline(always)]
    pub(crate) fn skim(&mut self, forward: bool, seen: u64) -> bool {
        if self.left == 0 {
            return false;
        }
        let (to, is_alone) = match forward {
            true => (self.at + 1, true),
            false => (self.at.wrapping_sub(1), self.rows.is_other(self.at)),
        };
        let Some(row) = self.rows.rows.get(to) else { return false };
        let is_seen = row.tag >> 2 <= seen && row.tag & 3 != Kind::Tombstone as u64;
        let is_plain = is_alone && row.is_other && is_seen;
        if is_plain {
            (self.at, self.left) = (to, self.left - 1);
        }
        is_plain
    }
}

/// Copies the first bytes of some to others: a piece at once, where there is room for it.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8], len: usize) {
    match (to.first_chunk_mut::<PIECE>(), from.first_chunk::<PIECE>()) {
        (Some(to), Some(from)) if len <= PIECE => *to = *from,
        _ => to[..len].copy_from_slice(&from[..len]),
    }
}

#[cfg(test)]
#[path = "rows/tests.rs"]
mod tests;
