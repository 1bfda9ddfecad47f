//! The beginnings of the keys of a block as numbers in a list, for the index of a table, which is
//! searched often: most steps of a search need no more.

use std::ops::Range;

use super::{Block, Place};
use crate::lsm::entry::{after, common, head};

/// The most bytes at the beginning of all keys that are copied.
const COPY: usize = 24;

/// What all keys of a block begin with.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// Where it stands in the block,
    at: Range<usize>,
    /// and a copy, if it is short: to read it in the block takes longer.
    copy: [u8; COPY],
}

impl Common {
    /// `bytes` stand in the block.
    pub(super) fn new(block: &Block, bytes: &[u8]) -> Self {
        let mut copy = [0; COPY];
        if let Some(copy) = copy.get_mut(..bytes.len()) {
            copy.copy_from_slice(bytes);
        }
        Self { at: block.place_of(bytes), copy }
    }

    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    #[inline]
    pub(super) fn of<'b>(&'b self, block: &'b Block) -> &'b [u8] {
        let few = self.copy.get(..self.at.len());
        few.unwrap_or_else(|| block.at(&self.at))
    }

    /// What follows it in a key that begins with it.
    #[inline]
    pub(super) fn after_in<'k>(&self, block: &Block, key: &'k [u8]) -> Option<&'k [u8]> {
        after(self.of(block), key)
    }
}

/// The beginnings of keys of a block, in their order.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    common: Common,
    /// The beginning of each after those. Empty if the keys make no sense.
    numbers: Box<[u64]>,
    /// Where the entry of each begins.
    starts: Box<[u32]>,
}

impl Heads {
    /// Those of all keys. `None` if the entries make no sense.
    pub(crate) fn of(block: &Block) -> Option<Self> {
        let first = block.at_restart(0).ok()??.0;
        let mut place = Place::default();
        place.last(block).ok()?;
        let common = &first[..common(first, place.entry(block)?.key)];
        let many = block.entries_max();
        let (mut numbers, mut starts) = (Vec::with_capacity(many), Vec::with_capacity(many));
        place.first(block).ok()?;
        while let Some(entry) = place.entry(block) {
            numbers.push(head(entry.key.strip_prefix(common)?));
            starts.push(place.start() as u32);
            place.next(block).ok()?;
        }
        let common = Common::new(block, common);
        Some(Self { common, numbers: numbers.into(), starts: starts.into() })
    }

    /// How many of the keys are before `key` for certain, and how many may be. `None` if nothing is
    /// known. The block is the one from which they were taken.
    #[inline]
    pub(crate) fn around(&self, block: &Block, key: &[u8]) -> Option<(usize, usize)> {
        if self.numbers.is_empty() {
            return None;
        }
        let Some(rest) = self.common.after_in(block, key) else {
            let is_before = key < self.common.of(block);
            let side = if is_before { 0 } else { self.numbers.len() };
            return Some((side, side));
        };
        let head = head(rest);
        let low = self.numbers.partition_point(|&number| number < head);
        let same = self.numbers[low..].iter().take_while(|&&number| number == head).count();
        Some((low, low + same))
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Where the entry of a key begins; `None` after the last one.
    pub(crate) fn start(&self, index: usize) -> Option<usize> {
        self.starts.get(index).map(|&start| start as usize)
    }

    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.numbers) + size_of_val(&*self.starts)
    }
}
