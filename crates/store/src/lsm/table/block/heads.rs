//! The beginnings of some keys of a block as numbers in a list, for blocks that are searched often:
//! most steps of a search need no more.

use std::ops::Range;

use super::{Block, Place, common};
use crate::lsm::entry::head;

/// The most bytes at the beginning of all keys that are copied.
const COPY: usize = 24;
/// One in this many keys has a mark.
const EVERY: usize = 2;
/// So many bytes of a key count, after those that all keys begin with.
const BYTES: usize = size_of::<i32>();

/// What all keys of a block begin with.
#[derive(Debug, Default)]
struct Common {
    /// Where it stands in the block,
    at: Range<usize>,
    /// and a copy, if it is short: to read it in the block takes longer.
    copy: [u8; COPY],
}

impl Common {
    /// `bytes` stand in the block.
    fn new(block: &Block, bytes: &[u8]) -> Self {
        let mut copy = [0; COPY];
        if let Some(copy) = copy.get_mut(..bytes.len()) {
            copy.copy_from_slice(bytes);
        }
        Self { at: block.place_of(bytes), copy }
    }

    #[inline]
    fn of<'b>(&'b self, block: &'b Block) -> &'b [u8] {
        let few = self.copy.get(..self.at.len());
        few.unwrap_or_else(|| block.at(&self.at))
    }
}

/// The beginnings of keys of a block, in their order.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    common: Common,
    /// The beginning of each after those; and where its entry begins. Empty if they were not asked
    /// for, or if the keys make no sense.
    numbers: Box<[(u64, u32)]>,
}

impl Heads {
    /// Those of the keys at restarts. `None` if the restarts make no sense.
    pub(super) fn of_restarts(block: &Block) -> Option<Self> {
        let key = |index| Some(block.at_restart(index).ok()??.0);
        let (first, last) = (key(0)?, key(block.restarts.checked_sub(1)?)?);
        let common = &first[..common(first, last)];
        let number =
            |index| Some((head(key(index)?.strip_prefix(common)?), block.restart(index) as u32));
        let numbers: Option<Box<[_]>> = (0..block.restarts).map(number).collect();
        Some(Self { common: Common::new(block, common), numbers: numbers? })
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
                numbers.push((head(entry.key.strip_prefix(common)?), place.start() as u32));
            }
            count += 1;
            place.next(block).ok()?;
        }
        Some(Self { common: Common::new(block, common), numbers: numbers.into() })
    }

    /// How many of the keys are before `key` for certain, and how many may be. `None` if nothing is
    /// known. The block is the one from which they were taken.
    #[inline]
    pub(crate) fn around(&self, block: &Block, key: &[u8]) -> Option<(usize, usize)> {
        if self.numbers.is_empty() {
            return None;
        }
        let common = self.common.of(block);
        let Some(rest) = key.strip_prefix(common) else {
            let side = if key < common { 0 } else { self.numbers.len() };
            return Some((side, side));
        };
        let head = head(rest);
        let low = self.numbers.partition_point(|number| number.0 < head);
        let same = self.numbers[low..].iter().take_while(|number| number.0 == head).count();
        Some((low, low + same))
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

/// The beginnings of every second key of a block, in a form that is searched without branches: for
/// blocks that are looked into again and again.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    common: Common,
    /// The beginning of each after those. They are numbers with a sign, which compare in groups.
    heads: Box<[i32]>,
    /// Where its entry begins. There are none if the keys make no sense, or the block is long.
    starts: Box<[u16]>,
}

/// A number that orders like these bytes.
fn number(bytes: [u8; BYTES]) -> i32 {
    (u32::from_be_bytes(bytes) ^ 1 << 31) as i32
}

impl Marks {
    /// Those of a block. `None` if the entries make no sense, or the block is long.
    pub(super) fn of(block: &Block) -> Option<Self> {
        u16::try_from(block.end).ok()?;
        let first = block.at_restart(0).ok()??.0;
        let mut place = Place::default();
        place.last(block).ok()?;
        let common = &first[..common(first, place.entry(block)?.key)];
        let many = block.entries_max() / EVERY + 1;
        let (mut heads, mut starts) = (Vec::with_capacity(many), Vec::with_capacity(many));
        let (mut bytes, mut at, mut count) = ([0; BYTES], 0, 0_usize);
        while at < block.end {
            let header = block.header(at)?;
            let (shared, rest) = (header.shared, &block.bytes[header.rest]);
            // What is not shared of the common beginning must be there again.
            let rest_at = match common.get(shared..) {
                Some(missing) => rest.strip_prefix(missing).map(|rest| (0, rest))?,
                None => (shared - common.len(), rest),
            };
            if let (from, rest) = rest_at
                && from < BYTES
            {
                let len = rest.len().min(BYTES - from);
                bytes[from..from + len].copy_from_slice(&rest[..len]);
                bytes[from + len..].fill(0);
            }
            if count % EVERY == 0 {
                heads.push(number(bytes));
                starts.push(at as u16);
            }
            count += 1;
            at = header.value.end;
        }
        let common = Common::new(block, common);
        Some(Self { common, heads: heads.into(), starts: starts.into() })
    }

    /// The last of the keys that is before `key` for certain: where its entry begins, and with how
    /// many bytes it and `key` both begin, if it has that many.
    #[inline]
    pub(super) fn before(&self, block: &Block, key: &[u8]) -> Option<(usize, usize)> {
        let common = self.common.of(block);
        let rest = key.strip_prefix(common)?;
        let head = number(((head(rest) >> 32) as u32).to_be_bytes());
        // All are compared, several at a time: that takes less time than to wait for each.
        let before: u32 = self.heads.iter().map(|&other| u32::from(other < head)).sum();
        let at = (before as usize).checked_sub(1)?;
        let (other, start) = (*self.heads.get(at)?, *self.starts.get(at)?);
        let same = (other ^ head).leading_zeros() as usize / 8;
        Some((start.into(), common.len() + same))
    }

    /// Bytes of memory that those of a block take at most.
    pub(super) fn memory(block: &Block) -> usize {
        (block.entries_max() / EVERY + 1) * (size_of::<i32>() + size_of::<u16>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsm::entry::{Entry, Kind};
    use crate::lsm::table::block::BlockBuilder;

    fn block(keys: &[Vec<u8>]) -> Block {
        let mut builder = BlockBuilder::default();
        for key in keys {
            builder.add(Entry { key, seq: 1, kind: Kind::Inline, value: b"value" });
        }
        Block::open(builder.finish(3, 77), 3, 77).unwrap()
    }

    /// It is the last one in the list whose key, cut to a few bytes, is before the other one.
    #[test]
    fn the_mark_before_a_key_is_that_of_a_list() {
        let mut state = 5_u64;
        let mut random = move |end: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % end
        };
        for round in 0..60 {
            let key = |random: &mut dyn FnMut(u64) -> u64| {
                let mut key = vec![7; round % 30];
                key.extend((0..random(9)).map(|_| random(3) as u8 * 127));
                key
            };
            let mut keys: Vec<_> = (0..1 + random(100)).map(|_| key(&mut random)).collect();
            keys.sort();
            let block = block(&keys);
            let marks = Marks::of(&block).unwrap();
            let all = common(&keys[0], keys.last().unwrap());
            let cut = |key: &[u8]| {
                let mut cut = key[all..].to_vec();
                cut.resize(cut.len().max(BYTES), 0);
                cut.truncate(BYTES);
                cut
            };
            let sought: Vec<_> = (0..50).map(|_| key(&mut random)).collect();
            for key in sought.iter().chain(&keys) {
                let Some((start, same)) = marks.before(&block, key) else {
                    let is_outside = !key.starts_with(&keys[0][..all]);
                    assert!(is_outside || cut(&keys[0]) >= cut(key));
                    continue;
                };
                let at = (0..keys.len()).step_by(EVERY).rfind(|&at| cut(&keys[at]) < cut(key));
                let mut place = Place::default();
                place.nth(&block, at.unwrap() as u32).unwrap();
                assert_eq!(start, place.start());
                let both = common(&cut(&keys[at.unwrap()]), &cut(key));
                assert_eq!(same, all + both);
            }
        }
    }

    #[test]
    fn keys_in_no_order_have_no_marks() {
        let keys = [&b"key1"[..], b"key5", b"abc", b"key7"].map(<[u8]>::to_vec);
        assert!(Marks::of(&block(&keys)).is_none());
        assert!(Marks::of(&block(&[])).is_none());
        let long: Vec<_> = (0..9_000_u32).map(|n| n.to_be_bytes().to_vec()).collect();
        assert!(Marks::of(&block(&long)).is_none(), "places in it need more bits");
    }
}
