//! The beginnings of some keys of a block as numbers in a list, for blocks that are searched often:
//! most steps of a search need no more.

use std::ops::Range;

use super::{Block, Place, common};
use crate::lsm::entry::head;

/// The beginnings of keys of a block, in their order.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// Where in the block a key stands that begins with the bytes that all of them begin with.
    common: Range<usize>,
    /// Eight bytes of each after those, zeros after its end: numbers that order like them; and
    /// where its entry begins. Empty if they were not asked for, or if the keys make no sense.
    numbers: Box<[(u64, u32)]>,
}

impl Heads {
    /// Those of the keys at restarts. `None` if the restarts make no sense.
    pub(super) fn of_restarts(block: &Block) -> Option<Self> {
        let key = |index| Some(block.at_restart(index).ok()??.0);
        let (first, last) = (key(0)?, key(block.restarts.checked_sub(1)?)?);
        let len = common(first, last);
        let number = |index| {
            let key = key(index).filter(|key| key.starts_with(&first[..len]))?;
            Some((head(&key[len..]), block.restart(index) as u32))
        };
        let numbers: Option<Box<[(u64, u32)]>> = (0..block.restarts).map(number).collect();
        Some(Self { common: block.range_of(first, len), numbers: numbers? })
    }

    /// Those of all keys: one of them less than a search needs is read from the block then.
    pub(crate) fn of_all(block: &Block) -> Option<Self> {
        let first = block.at_restart(0).ok()??.0;
        let mut place = Place::default();
        place.last(block).ok()?;
        let len = common(first, place.entry(block)?.key);
        let mut numbers = Vec::new();
        place.first(block).ok()?;
        while let Some(entry) = place.entry(block) {
            let rest = entry.key.strip_prefix(&first[..len])?;
            numbers.push((head(rest), place.start as u32));
            place.next(block).ok()?;
        }
        Some(Self { common: block.range_of(first, len), numbers: numbers.into() })
    }

    /// How many of the keys are before `key` for certain, and how many may be. `None` if nothing is
    /// known. The block is the one from which they were taken.
    #[inline]
    pub(crate) fn around(&self, block: &Block, key: &[u8]) -> Option<(usize, usize)> {
        if self.numbers.is_empty() {
            return None;
        }
        let common = &block.bytes[self.common.clone()];
        let Some(rest) = key.strip_prefix(common) else {
            let side = if key < common { 0 } else { self.numbers.len() };
            return Some((side, side));
        };
        let head = head(rest);
        let low = self.numbers.partition_point(|number| number.0 < head);
        let same = self.numbers[low..].iter().take_while(|number| number.0 == head).count();
        Some((low, low + same))
    }

    /// Where the entry of a key begins; `None` after the last one.
    pub(crate) fn start(&self, index: usize) -> Option<usize> {
        self.numbers.get(index).map(|number| number.1 as usize)
    }

    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.numbers)
    }
}
