//! Finding what is still whole in the bytes of a table of which nothing else is known: blocks are
//! recognised by a checksum that covers their place. This module is pure and trusts no byte.

use super::super::entry::{KEY_BYTES_MAX, KEYSPACE_BYTES, Kind};
use super::super::tombstones::Tombstone;
use super::super::varint::Reader;
use super::block::{Block, RESTART_EVERY, TAIL_BYTES};
use super::{BlockPlace, FOOTER_BYTES, Footer};
use crate::coding::u32_at;

/// The search for blocks after damage reads at most this many entries for each byte.
const EFFORT: u64 = 16;

/// What is whole in a table.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Data blocks, in their order.
    pub(crate) blocks: Vec<BlockPlace>,
    pub(crate) ranges: Vec<Tombstone>,
    /// Where something is missing: in front of the block with that number, or after the last one.
    pub(crate) gaps: Vec<Gap>,
    /// Where range tombstones stood that cannot be read.
    pub(crate) lost_ranges: Option<u64>,
    /// The highest sequence number.
    pub(crate) last_seq: u64,
}

/// A part of a table that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) offset: u64,
    /// The number of the first block after it.
    pub(crate) block: usize,
}

/// A whole block.
enum Whole {
    Data {
        end: usize,
        last_seq: u64,
    },
    /// The index: where the data blocks end, as it says.
    Index {
        data_end: usize,
    },
    Ranges {
        end: usize,
        list: Vec<Tombstone>,
    },
}

/// Surveys the bytes of a table.
pub(crate) fn survey(number: u32, bytes: &[u8]) -> Survey {
    let at = bytes.len().saturating_sub(FOOTER_BYTES);
    let footer = bytes[at..].first_chunk().and_then(|footer| Footer::decode(footer, number).ok());
    let known = footer.map(|footer| {
        let others = [footer.ranges, footer.filter, footer.index].into_iter();
        let others = others.filter(|block| block.len > 0).map(|block| block.offset);
        others.fold(at as u64, u64::min) as usize
    });
    let mut walk = Walk { number, bytes, steps: EFFORT * bytes.len() as u64 };
    let (mut survey, end) = walk.blocks(known.unwrap_or(at));
    if let Some(footer) = footer {
        let lost = footer.ranges.len > 0 && survey.ranges.is_empty();
        match walk.ranges(footer.ranges.offset as usize).filter(|_| lost) {
            Some((_, list)) => survey.ranges = list,
            None => survey.lost_ranges = lost.then_some(footer.ranges.offset),
        }
    }
    let reached = survey.blocks.last().map_or(0, BlockPlace::end);
    // If the end is not known, something after the last one may be missing, too.
    let end = known.or(end).map_or(u64::MAX, |end| end as u64);
    // After the data blocks only a filter is required.
    survey.gaps.retain(|gap| gap.offset < end);
    if reached < end && survey.gaps.last().is_none_or(|gap| gap.offset < reached) {
        survey.gaps.push(Gap { offset: reached, block: survey.blocks.len() });
    }
    let of_ranges = survey.ranges.iter().map(|tombstone| tombstone.seq).max();
    survey.last_seq = survey.last_seq.max(of_ranges.unwrap_or(0));
    survey
}

struct Walk<'b> {
    number: u32,
    bytes: &'b [u8],
    /// How many more entries may be read.
    steps: u64,
}

impl Walk<'_> {
    /// Everything that is whole before `end`; where the data blocks end, if the index was found.
    fn blocks(&mut self, end: usize) -> (Survey, Option<usize>) {
        let mut survey = Survey::default();
        let mut at = 0;
        let mut broken = None;
        while at < end && self.steps > 0 {
            let Some(whole) = self.whole(at) else {
                broken.get_or_insert(at);
                at += 1;
                continue;
            };
            if let Some(offset) = broken.take() {
                survey.gaps.push(Gap { offset: offset as u64, block: survey.blocks.len() });
            }
            match whole {
                Whole::Data { end, last_seq } => {
                    let len = (end - at) as u32;
                    survey.blocks.push(BlockPlace { offset: at as u64, len });
                    survey.last_seq = survey.last_seq.max(last_seq);
                    at = end;
                }
                Whole::Ranges { end, list } => (survey.ranges, at) = (list, end),
                Whole::Index { data_end } => return (survey, Some(data_end)),
            }
        }
        (survey, None)
    }

    /// The whole block that begins at a place.
    fn whole(&mut self, at: usize) -> Option<Whole> {
        let ranges = self.ranges(at).map(|(end, list)| Whole::Ranges { end, list });
        ranges.or_else(|| self.entries(at))
    }

    /// The block of entries that begins there: these lead to its tail, whose checksum decides.
    fn entries(&mut self, at: usize) -> Option<Whole> {
        let mut reader = Reader::new(&self.bytes[at..]);
        let mut count = 0_u32;
        let mut key_len = 0;
        let mut last_seq = 0;
        let (mut first_seq, mut data_end) = (None, None);
        loop {
            let position = reader.position();
            if let Some(end) = self.tail(at, position, count.div_ceil(RESTART_EVERY), count) {
                return Some(match first_seq {
                    Some(0) => Whole::Index { data_end: data_end? },
                    _ => Whole::Data { end, last_seq },
                });
            }
            self.steps = self.steps.checked_sub(1)?;
            let shared = reader.size()?;
            let rest = reader.size()?;
            let value = reader.size()?;
            let tag = reader.number()?;
            Kind::from_byte((tag & 3) as u8)?;
            let shares_too_much =
                shared > key_len || count.is_multiple_of(RESTART_EVERY) && shared > 0;
            key_len = shared.checked_add(rest)?;
            if shares_too_much || key_len > KEYSPACE_BYTES + KEY_BYTES_MAX {
                return None;
            }
            reader.take(rest)?;
            let place = BlockPlace::decode(reader.take(value)?);
            data_end = place.map(|place| place.end() as usize);
            first_seq = first_seq.or(Some(tag >> 2));
            last_seq = last_seq.max(tag >> 2);
            count += 1;
        }
    }

    /// The block of range tombstones that begins there.
    fn ranges(&mut self, at: usize) -> Option<(usize, Vec<Tombstone>)> {
        let mut reader = Reader::new(self.bytes.get(at..)?);
        let mut list = Vec::new();
        loop {
            if let Some(end) = self.tail(at, reader.position(), 0, list.len() as u32) {
                return Some((end, list));
            }
            self.steps = self.steps.checked_sub(1)?;
            list.push(Tombstone::decode(&mut reader)?);
        }
    }

    /// The end of a block whose tail stands at `position`, if it is one with these numbers of
    /// restarts and entries.
    fn tail(&self, at: usize, position: usize, restarts: u32, count: u32) -> Option<usize> {
        let tail = at + position + 4 * restarts as usize;
        let numbers = self.bytes.get(tail..tail + TAIL_BYTES).filter(|_| count > 0)?;
        if (u32_at(numbers, 0), u32_at(numbers, 4)) != (restarts, count) {
            return None;
        }
        let end = tail + TAIL_BYTES;
        Block::open(self.bytes[at..end].to_vec(), self.number, at as u64).is_ok().then_some(end)
    }
}

#[cfg(test)]
#[path = "survey/tests.rs"]
mod tests;
