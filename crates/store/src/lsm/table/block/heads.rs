//! The beginnings of some keys of a block as numbers in a list, for blocks that are searched often:
//! most steps of a search need no more.

use std::ops::Range;

use super::{Block, Place, common};
use crate::lsm::entry::head;

/// The most bytes at the beginning of all keys that are copied.
const COPY: usize = 24;

/// The beginning of a key, zeros after its end: a number that orders like it.
pub(crate) trait Head: Copy + Ord {
    fn of(key: &[u8]) -> Self;

    /// How many bytes of the beginning are the same.
    fn same(self, other: Self) -> usize;
}

impl Head for u64 {
    fn of(key: &[u8]) -> Self {
        head(key)
    }

    fn same(self, other: Self) -> usize {
        (self ^ other).leading_zeros() as usize / 8
    }
}

impl Head for u32 {
    fn of(key: &[u8]) -> Self {
        (head(key) >> 32) as Self
    }

    fn same(self, other: Self) -> usize {
        (self ^ other).leading_zeros() as usize / 8
    }
}

/// The beginnings of keys of a block, in their order.
#[derive(Debug)]
pub(crate) struct Heads<H> {
    /// Where in the block a key stands that begins with the bytes that all of them begin with,
    common: Range<usize>,
    /// and a copy of these bytes, if they are few: to read them in the block takes longer.
    copy: [u8; COPY],
    /// The beginning of each after those; and where its entry begins. Empty if they were not asked
    /// for, or if the keys make no sense.
    numbers: Box<[(H, u32)]>,
}

impl<H> Default for Heads<H> {
    fn default() -> Self {
        Self { common: 0..0, copy: [0; COPY], numbers: Box::default() }
    }
}

impl<H: Head> Heads<H> {
    /// Those of the keys at restarts. `None` if the restarts make no sense.
    pub(super) fn of_restarts(block: &Block) -> Option<Self> {
        let key = |index| Some(block.at_restart(index).ok()??.0);
        let (first, last) = (key(0)?, key(block.restarts.checked_sub(1)?)?);
        let common = &first[..common(first, last)];
        let number =
            |index| Some((H::of(key(index)?.strip_prefix(common)?), block.restart(index) as u32));
        let numbers: Option<Box<[_]>> = (0..block.restarts).map(number).collect();
        Some(Self::new(block, common, numbers?))
    }

    /// Those of every so many keys. `None` if the entries make no sense.
    pub(crate) fn of_every(every: usize, block: &Block) -> Option<Self> {
        let first = block.at_restart(0).ok()??.0;
        let mut place = Place::default();
        place.last(block).ok()?;
        let common = &first[..common(first, place.entry(block)?.key)];
        let mut numbers = Vec::with_capacity(block.entries_max() / every + 1);
        let mut count = 0;
        place.first(block).ok()?;
        while let Some(entry) = place.entry(block) {
            if count % every == 0 {
                numbers.push((H::of(entry.key.strip_prefix(common)?), place.start as u32));
            }
            count += 1;
            place.next(block).ok()?;
        }
        Some(Self::new(block, common, numbers.into()))
    }

    /// `common` stands in the block.
    fn new(block: &Block, common: &[u8], numbers: Box<[(H, u32)]>) -> Self {
        let mut copy = [0; COPY];
        if let Some(copy) = copy.get_mut(..common.len()) {
            copy.copy_from_slice(common);
        }
        Self { common: block.place_of(common), copy, numbers }
    }

    /// What all of the keys begin with.
    #[inline]
    fn common<'b>(&'b self, block: &'b Block) -> &'b [u8] {
        let few = self.copy.get(..self.common.len());
        few.unwrap_or_else(|| block.at(&self.common))
    }

    /// How many of the keys are before `key` for certain, and how many may be. `None` if nothing is
    /// known. The block is the one from which they were taken.
    #[inline]
    pub(crate) fn around(&self, block: &Block, key: &[u8]) -> Option<(usize, usize)> {
        if self.numbers.is_empty() {
            return None;
        }
        let common = self.common(block);
        let Some(rest) = key.strip_prefix(common) else {
            let side = if key < common { 0 } else { self.numbers.len() };
            return Some((side, side));
        };
        let head = H::of(rest);
        let low = self.numbers.partition_point(|number| number.0 < head);
        let same = self.numbers[low..].iter().take_while(|number| number.0 == head).count();
        Some((low, low + same))
    }

    /// The last of the keys that is before `key` for certain: where its entry begins, and with how
    /// many bytes it and `key` both begin, if it has that many.
    #[inline]
    pub(super) fn before(&self, block: &Block, key: &[u8]) -> Option<(usize, usize)> {
        let common = self.common(block);
        let rest = key.strip_prefix(common)?;
        let head = H::of(rest);
        let at = self.numbers.partition_point(|number| number.0 < head).checked_sub(1)?;
        let (number, start) = self.numbers[at];
        Some((start as usize, common.len() + number.same(head)))
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Where the entry of a key begins; `None` after the last one.
    pub(crate) fn start(&self, index: usize) -> Option<usize> {
        self.numbers.get(index).map(|number| number.1 as usize)
    }

    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.numbers)
    }
}
