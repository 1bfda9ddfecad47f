//! The beginnings of the keys of a block as numbers in a list: most steps of a search need no more.
//! There are those of the index of a table, and those of a block that is looked into again and
//! again, which are searched without branches.

use std::ops::Range;

use super::{Block, From, Header, Place};
use crate::lsm::entry::{after, around, common, head};
use crate::prefetch::prefetch_range;

/// The most bytes at the beginning of all keys that are copied.
const COPY: usize = 24;
/// There are this many marks at most: one for each entry of a block where that is enough, else for
/// every second one, and so on.
const MANY: usize = 48;
/// The most bytes of entries that are fetched at a time.
const FETCHED: usize = 256;
/// How many bytes of a key count, after those that all keys begin with.
const BYTES: usize = size_of::<i32>();

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
        Some(around(&self.numbers, rest))
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

/// The beginnings of keys of a block that is looked into again, in their order.
#[derive(Debug)]
pub(super) struct Marks {
    common: Common,
    /// One in this many keys has a mark.
    every: u16,
    /// How many there are: none if the keys make no sense, or the block is long.
    len: u16,
    /// Where the entry of each begins.
    starts: [u16; MANY],
    /// The beginning of each after what is common. They are numbers with a sign, which compare in
    /// groups; those that are not there are as high as can be.
    heads: [i32; MANY],
}

impl Default for Marks {
    fn default() -> Self {
        let (starts, heads) = ([0; MANY], [i32::MAX; MANY]);
        Self { common: Common::default(), every: 1, len: 0, starts, heads }
    }
}

/// A number that orders like these bytes, the first one the highest.
fn number(bytes: u32) -> i32 {
    (bytes ^ 1 << 31) as i32
}

/// How many bytes of the first key the last key of a block begins with. `None` if the entries make
/// no sense.
fn common_of_ends(block: &Block, first: &[u8]) -> Option<usize> {
    let last = block.restarts.checked_sub(1)?;
    let (mut both, mut at, mut len) = (first.len(), block.restart(last), 0);
    while at < block.end {
        let Header { shared, rest, value, .. } = block.header(at)?;
        if shared > len {
            return None;
        }
        len = shared + rest.len();
        if shared < both {
            both = shared + common(&block.bytes[rest], &first[shared..both]);
        }
        at = value.end;
    }
    Some(both)
}

impl Marks {
    /// Those of a block. `None` if the entries make no sense, or the block is long.
    pub(super) fn of(block: &Block) -> Option<Self> {
        u16::try_from(block.end).ok()?;
        let first = block.at_restart(0).ok()??.0;
        // They ascend, so that all begin as the first and the last one do.
        let common = &first[..common_of_ends(block, first)?];
        let every = block.entries_max().div_ceil(MANY).max(1);
        let mut marks = Self { every: u16::try_from(every).ok()?, ..Self::default() };
        marks.common = Common::new(block, common);
        let (mut at, mut len, mut to_next, mut word) = (0, 0, 1, 0_u32);
        while at < block.end {
            let Header { shared, rest, value, .. } = block.header(at)?;
            if shared > len {
                return None;
            }
            len = shared + rest.len();
            let from = shared.saturating_sub(common.len());
            if from < BYTES {
                // What is not shared of the common beginning must be there again.
                let missing = common.get(shared..).unwrap_or_default();
                let again = block.bytes[rest.clone()].starts_with(missing);
                let start = again.then(|| rest.start + missing.len())?;
                // The tail of the block follows the last entry.
                let bytes = *block.bytes[start..].first_chunk()?;
                let beyond = u32::MAX.unbounded_shr(8 * (rest.end - start).min(BYTES) as u32);
                let own = u32::from_be_bytes(bytes) & !beyond;
                word = word & !(u32::MAX >> (8 * from)) | own >> (8 * from);
            }
            to_next -= 1;
            if to_next == 0 {
                marks.add(at as u16, number(word))?;
                to_next = every;
            }
            at = value.end;
        }
        Some(marks)
    }

    /// Adds one; `None` if there is no room for it, or it comes before the last one.
    fn add(&mut self, start: u16, head: i32) -> Option<()> {
        let at = usize::from(self.len);
        let before = at.checked_sub(1).map(|before| self.heads[before]);
        if before.is_some_and(|before| before > head) {
            return None;
        }
        *self.heads.get_mut(at)? = head;
        self.starts[at] = start;
        self.len += 1;
        Some(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The head of a key that begins as all of them do, and how many marks come before it.
    #[inline]
    fn before(&self, block: &Block, key: &[u8]) -> Option<(i32, usize)> {
        let head = number((head(self.common.after_in(block, key)?) >> 32) as u32);
        // All are compared, several at a time: that takes less time than to wait for each.
        let before: u32 = self.heads.iter().map(|&other| u32::from(other < head)).sum();
        Some((head, before as usize))
    }

    /// Has the processor fetch the entries among which a key is sought.
    #[inline]
    pub(super) fn prefetch(&self, block: &Block, key: &[u8]) {
        if let Some((_, before)) = self.before(block, key) {
            self.prefetch_at(block, before.saturating_sub(usize::from(self.every > 1)));
        }
    }

    /// Has the processor fetch what begins at a mark.
    #[inline]
    fn prefetch_at(&self, block: &Block, mark: usize) {
        let Some(&start) = self.starts.get(mark) else { return };
        let next = self.starts.get(mark + 1).filter(|_| mark + 1 < self.len.into());
        let len = next.map_or(FETCHED, |&next| usize::from(next.saturating_sub(start)));
        let len = len.clamp(1, FETCHED);
        prefetch_range(block.address().wrapping_add(start.into()), 0..len);
    }

    /// Where the search for a key begins: all entries before that come before it. `None` if the
    /// entry there makes no sense.
    #[inline]
    pub(super) fn begin(&self, block: &Block, key: &[u8]) -> Option<From> {
        let Some((head, before)) = self.before(block, key) else {
            let is_after = key > self.common.of(block);
            return Some(From::entry(if is_after { block.end } else { 0 }));
        };
        let Some(last) = before.checked_sub(1) else { return Some(From::entry(0)) };
        let same = (*self.heads.get(last)? ^ head).leading_zeros() as usize / 8;
        let known = self.common.len() + same;
        if self.every == 1 {
            // It is the one after that. Lengths were compared when the marks were made.
            let next = self.starts.get(last + 1).filter(|_| before < self.len.into());
            let at = next.map_or(block.end, |&start| start.into());
            return Some(From { at, len: usize::MAX, known });
        }
        // Those behind it are looked at next.
        self.prefetch_at(block, last);
        let header = block.header((*self.starts.get(last)?).into())?;
        let len = header.shared.checked_add(header.rest.len())?;
        Some(From { at: header.value.end, len, known: known.min(len) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsm::entry::{Entry, Kind};
    use crate::lsm::table::block::BlockBuilder;
    use crate::random;

    fn block(keys: &[Vec<u8>]) -> Block {
        let mut builder = BlockBuilder::default();
        for key in keys {
            builder.add(Entry { key, seq: 1, kind: Kind::Inline, value: b"value" });
        }
        Block::open(builder.finish(3, 77), 3, 77).unwrap()
    }

    /// The search begins after the last marked key that, cut to a few bytes, is before the other
    /// one: at the next entry, or after the mark.
    #[test]
    fn the_search_begins_where_that_in_a_list_does() {
        let mut random = random::numbers(5);
        for round in 0..if cfg!(miri) { 6 } else { 90 } {
            let key = |random: &mut dyn FnMut(u64) -> u64| {
                let mut key = vec![7; round % 30];
                key.extend((0..random(9)).map(|_| random(3) as u8 * 127));
                key
            };
            let mut keys: Vec<_> = (0..1 + random(130)).map(|_| key(&mut random)).collect();
            keys.sort();
            let block = block(&keys);
            let marks = Marks::of(&block).unwrap();
            assert_eq!(usize::from(marks.every), keys.len().div_ceil(MANY));
            assert_eq!(usize::from(marks.len), keys.len().div_ceil(marks.every.into()));
            let all = common(&keys[0], keys.last().unwrap());
            let cut = |key: &[u8]| {
                let mut cut = key[all..].to_vec();
                cut.resize(cut.len().max(BYTES), 0);
                cut.truncate(BYTES);
                cut
            };
            let start = |at: usize| {
                let mut place = Place::default();
                place.nth(&block, at as u32).unwrap();
                if at < keys.len() { place.start() } else { block.end }
            };
            let sought: Vec<_> = (0..50).map(|_| key(&mut random)).collect();
            for key in sought.iter().chain(&keys) {
                let From { at, len, known } = marks.begin(&block, key).unwrap();
                if !key.starts_with(&keys[0][..all]) {
                    assert_eq!(at, if *key < keys[0] { 0 } else { block.end });
                    continue;
                }
                let marked = (0..keys.len()).step_by(marks.every.into());
                let Some(last) = marked.rev().find(|&at| cut(&keys[at]) < cut(key)) else {
                    assert_eq!((at, known), (0, 0));
                    continue;
                };
                assert_eq!(at, start(last + 1));
                let both = common(&keys[last], key);
                assert!(len >= keys[last].len());
                assert!(known == both || known > both && both == keys[last].len());
            }
        }
    }

    #[test]
    fn keys_in_no_order_have_no_marks() {
        let keys = [&b"key1"[..], b"key5", b"abc", b"key7"].map(<[u8]>::to_vec);
        assert!(Marks::of(&block(&keys)).is_none());
        let keys = [&b"key1"[..], b"key5", b"key3", b"key7"].map(<[u8]>::to_vec);
        assert!(Marks::of(&block(&keys)).is_none());
        assert!(Marks::of(&block(&[])).is_none());
        let long: Vec<_> = (0..9_000_u32).map(|n| n.to_be_bytes().to_vec()).collect();
        assert!(Marks::of(&block(&long)).is_none(), "places in it need more bits");
    }
}
