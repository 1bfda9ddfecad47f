//! Records of neighbouring leaves on their way into others, as bytes: copied whole where their page
//! shares what the new one does, and together where they lie side by side.
//!
//! The usual way of laying leaves out anew. It takes records with one value and a key that stands
//! in the page; all others go through the lists of [`build`](super::build). Pure functions over
//! data.

use std::ops::Range;

use super::build::{flags_of, head_of_rest, put_shared, put_slot};
use super::cell::{Behind, length_len, put_length};
use super::record::{pad2, padded, short_parts};
use super::size::cut_evenly;
use super::{
    Count, EXTENT_CELL, HEADER_LEN, KeyCell, Layout, Page, PageMut, RestCell, ValueCell, code,
    max_inline_key, pad4,
};
use crate::tree::Bytes;
use crate::tree::order::{Form, KeyOrder};

/// Why a page cannot be built: the records of a damaged one may lie over each other.
const TOO_LARGE: &str = "records that do not fit in a page, although they stood in one";

/// A sorted list of records.
pub(crate) struct Records<'a> {
    form: &'a Form,
    page_size: usize,
    sources: Vec<Source<'a>>,
    items: Vec<Item>,
}

/// Where records stand: in a page, or one alone.
struct Source<'a> {
    bytes: &'a [u8],
    /// What their keys share, and their rests do not have.
    shared: &'a [u8],
    /// The number of the first one.
    first: usize,
}

/// A record that stands in no page, with its whole key.
pub(crate) struct Alone {
    bytes: Vec<u8>,
    key_len: usize,
    key_at: usize,
    lengths: u16,
}

impl Alone {
    /// The record of a key that a page has whole.
    pub(crate) fn of(layout: Layout, key: &RestCell<'_>, value: &ValueCell<'_>) -> Self {
        let behind = Behind::of(layout, value);
        let mut bytes = vec![0; layout.record_len(key, behind)];
        let lengths = layout.put_single(&mut bytes, key, value);
        let key_len = key.rest.len();
        Self { bytes, key_len, key_at: layout.key_at(key, behind), lengths }
    }
}

/// A record.
#[derive(Clone, Copy)]
struct Item {
    source: u16,
    at: u16,
    len: u16,
    /// The length of its key's rest, and where that begins in the record.
    rest: u16,
    rest_at: u16,
    /// The bytes that tell its lengths, where slots have them.
    lengths: u16,
    head: u32,
    /// What the records up to and including this one take in one leaf with nothing shared.
    end: u32,
}

impl<'a> Records<'a> {
    /// An empty list for leaves of `form`; `None` if its keys may have several values.
    pub(crate) fn new(form: &'a Form, page_size: usize) -> Option<Self> {
        let (sources, items) = (Vec::with_capacity(5), Vec::with_capacity(128));
        form.values.is_none().then_some(Self { form, page_size, sources, items })
    }

    /// How many records there are.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Appends some records of a leaf. False, and the list is no longer usable, if one of them is
    /// not of the usual kind.
    pub(crate) fn add(&mut self, page: Page<'a>, slots: Range<usize>) -> bool {
        match page.layout() {
            Layout::Dense | Layout::Headless => self.add_dense(page, slots),
            Layout::Aligned => self.add_aligned(page, slots),
        }
    }

    /// Of a leaf without heads it takes what stands in their place, which no leaf gets.
    fn add_dense(&mut self, page: Page<'a>, slots: Range<usize>) -> bool {
        let (source, shared) = (self.sources.len() as u16, page.shared());
        let (offsets, slot_len) = (page.offsets_at(), self.form.layout().slot_len());
        self.sources.push(Source { bytes: page.bytes(), shared, first: self.items.len() });
        self.items.reserve(slots.len());
        let (mut end, mut is_usual) = (self.end(self.items.len()) as u32, true);
        let items = slots.map(|slot| {
            let record = page.record_at(page.half(offsets + 2 * slot));
            is_usual &= record.key < code::FIRST && record.value != code::GROUP;
            let behind =
                if record.value < code::FIRST { record.value as usize } else { EXTENT_CELL };
            let rest = record.key as usize;
            let len = record.data - record.at + rest + behind;
            let whole = shared.len() + rest;
            end += (slot_len + len + shared.len()) as u32;
            end += (length_len(whole) - length_len(rest)) as u32;
            let (at, len, rest) = (record.at as u16, len as u16, rest as u16);
            let rest_at = (record.data - record.at) as u16;
            let head = page.head(slot);
            Item { source, at, len, rest, rest_at, lengths: 0, head, end }
        });
        self.items.extend(items);
        is_usual
    }

    /// As [`Self::add_dense`]: nothing is shared, and the lengths are taken along.
    fn add_aligned(&mut self, page: Page<'a>, slots: Range<usize>) -> bool {
        let (source, shared) = (self.sources.len() as u16, page.shared());
        self.sources.push(Source { bytes: page.bytes(), shared, first: self.items.len() });
        self.items.reserve(slots.len());
        let (mut end, mut is_usual) = (self.end(self.items.len()) as u32, true);
        let (heads, offsets) = (page.heads_at(), page.offsets_at());
        let items = slots.map(|slot| {
            let (head, place) = (page.word(heads + 4 * slot), page.word(offsets + 4 * slot));
            let (at, len, rest, rest_at) = match short_parts(place) {
                Some((at, rest, value)) => (at, padded(pad2(rest) + value), rest, 0),
                None => {
                    let record = page.leaf_record_in(Layout::Aligned, slot);
                    is_usual &= record.key < code::FIRST && record.value != code::GROUP;
                    let behind = match record.value {
                        ..code::FIRST => record.value as usize,
                        _ => Layout::Aligned.extent_cell(),
                    };
                    let len = padded(record.value_at() - record.at + behind);
                    (record.at, len, record.key as usize, record.data - record.at)
                }
            };
            end += (Layout::Aligned.slot_len() + len) as u32;
            let (at, len, rest, rest_at) = (at as u16, len as u16, rest as u16, rest_at as u16);
            Item { source, at, len, rest, rest_at, lengths: (place >> 16) as u16, head, end }
        });
        self.items.extend(items);
        is_usual
    }

    /// Adds a record that stands alone, with its whole key as the rest.
    pub(crate) fn add_alone(&mut self, alone: &'a Alone) {
        let record = &alone.bytes[..];
        let end = self.end(self.items.len()) + self.form.layout().slot_len() + record.len();
        self.sources.push(Source { bytes: record, shared: &[], first: self.items.len() });
        let mut item = Item {
            source: (self.sources.len() - 1) as u16,
            at: 0,
            len: record.len() as u16,
            rest: alone.key_len as u16,
            rest_at: alone.key_at as u16,
            lengths: alone.lengths,
            head: 0,
            end: end as u32,
        };
        item.head = head_of_rest(&self.form.keys, &self.rest(&item));
        self.items.push(item);
    }

    /// What the first `n` records take in one leaf with nothing shared.
    fn end(&self, n: usize) -> usize {
        if n == 0 { 0 } else { self.items[n - 1].end as usize }
    }

    fn source(&self, item: &Item) -> &Source<'a> {
        &self.sources[usize::from(item.source)]
    }

    /// The rest of a record's key in its source.
    fn rest(&self, item: &Item) -> Bytes<'a> {
        let at = item.rest_at();
        Bytes::from(&self.source(item).bytes[at..at + usize::from(item.rest)])
    }

    /// The whole key of a record.
    pub(crate) fn key(&self, i: usize) -> Bytes<'a> {
        self.key_of(&self.items[i])
    }

    fn key_of(&self, item: &Item) -> Bytes<'a> {
        let (shared, (rest, _)) = (self.source(item).shared, self.rest(item).parts());
        match self.form.keys {
            KeyOrder::Reverse => Bytes::new(rest, shared),
            _ => Bytes::new(shared, rest),
        }
    }

    /// How many bytes the keys of some records share.
    fn shared(&self, range: &Range<usize>) -> usize {
        let (first, last) = (self.key(range.start), self.key(range.end - 1));
        self.form.shared_of_keys(&first, &last).min(max_inline_key(self.page_size))
    }

    /// The size of a leaf of some records; an upper bound.
    pub(crate) fn leaf_len(&self, range: Range<usize>) -> usize {
        let shared = self.shared(&range);
        let records = self.end(range.end) - self.end(range.start);
        // The keys of a damaged page may share less than their ends do.
        HEADER_LEN + pad4(shared) + records.saturating_sub(range.len() * shared)
    }

    /// Where to cut the list into `pages` leaves; see [`cut_evenly`].
    pub(crate) fn cut(&self, pages: usize) -> Option<Vec<usize>> {
        let fits = |part: Range<usize>| {
            // Padded shared bytes take at most three more than one record saves by them.
            let most = HEADER_LEN + 3 + self.end(part.end) - self.end(part.start);
            most <= self.page_size || self.leaf_len(part) <= self.page_size
        };
        cut_evenly(self.len(), pages, |n| self.end(n), fits)
    }

    /// Builds a leaf of some records. Returns its counters; an error if they do not fit.
    pub(crate) fn build(&self, range: Range<usize>, out: &mut [u8]) -> Result<Count, &'static str> {
        let mut page = PageMut::new(out);
        page.format(0, flags_of(self.form, 0));
        let (shared, n) = (self.shared(&range), range.len());
        let first = KeyCell { known: self.key(range.start), extent: None };
        put_shared(page.bytes, &self.form.keys, &first, shared);
        let heap = match self.form.layout() {
            Layout::Dense => self.put::<1, 2>(range, shared, page.bytes)?,
            Layout::Headless => self.put::<0, 2>(range, shared, page.bytes)?,
            Layout::Aligned => self.put::<1, 4>(range, shared, page.bytes)?,
        };
        page.set_len(n);
        page.set_heap_len(heap);
        page.clear_free();
        Ok(Count { keys: n as u64, values: n as u64 })
    }

    /// Writes heads, of which a record has one or none, slots and records, from the last one back,
    /// so that the first one stands at the lowest address: scans run forward. Returns the length of
    /// all records.
    fn put<const HEADS: usize, const STEP: usize>(
        &self,
        range: Range<usize>,
        shared: usize,
        out: &mut [u8],
    ) -> Result<usize, &'static str> {
        let (n, heads) = (range.len(), HEADER_LEN + pad4(shared));
        let behind = heads + (4 * HEADS + STEP) * n;
        let (arrays, records) = out.split_at_mut_checked(behind).ok_or(TOO_LARGE)?;
        let (heads, slots) = arrays[heads..].split_at_mut(4 * HEADS * n);
        let (heads, slots) = (heads.as_chunks_mut::<4>().0, slots.as_chunks_mut::<STEP>().0);
        let (mut end, mut to) = (records.len(), range.end);
        for source in self.sources.iter().rev() {
            let from = source.first.clamp(range.start, to);
            let own = from - range.start..to - range.start;
            let (items, out) = (&self.items[from..to], &mut records[..end]);
            let heads = &mut heads[HEADS * own.start..HEADS * own.end];
            let slots = &mut slots[own];
            let begin = if source.shared.len() == shared {
                source.copy_whole::<HEADS, STEP>(items, heads, slots, (behind, out))
            } else {
                source.recut::<HEADS, STEP>(
                    items,
                    heads,
                    slots,
                    (behind, out),
                    (&self.form.keys, shared),
                )
            };
            (end, to) = (begin.ok_or(TOO_LARGE)?, from);
        }
        Ok(records.len() - end)
    }
}

impl Source<'_> {
    /// Writes records to the end of `out`, which follows `before` bytes of the page, and the heads
    /// of their keys and their slots to two arrays of as many elements. Returns where the first one
    /// begins; `None` if there is no room. Their keys share as many bytes where they go, so that
    /// those that lie side by side are copied together.
    fn copy_whole<const HEADS: usize, const STEP: usize>(
        &self,
        items: &[Item],
        heads: &mut [[u8; 4]],
        slots: &mut [[u8; STEP]],
        (before, out): (usize, &mut [u8]),
    ) -> Option<usize> {
        let n = items.len();
        let (heads, slots) = (&mut heads[..HEADS * n], &mut slots[..n]);
        let mut end = out.len();
        // What is to be copied to `end`.
        let mut run = 0..0;
        for i in (0..n).rev() {
            let (start, len) = (usize::from(items[i].at), usize::from(items[i].len));
            if start + len != run.start {
                out[end..end + run.len()].copy_from_slice(&self.bytes[run]);
                run = start + len..start + len;
            }
            run.start = start;
            end = end.checked_sub(len)?;
            if HEADS > 0 {
                heads[i] = items[i].head.to_le_bytes();
            }
            put_slot(&mut slots[i], before + end, items[i].lengths);
        }
        out[end..end + run.len()].copy_from_slice(&self.bytes[run]);
        Some(end)
    }

    /// As [`Self::copy_whole`], with another number of the keys' bytes shared.
    fn recut<const HEADS: usize, const STEP: usize>(
        &self,
        items: &[Item],
        heads: &mut [[u8; 4]],
        slots: &mut [[u8; STEP]],
        (before, out): (usize, &mut [u8]),
        (order, shared): (&KeyOrder, usize),
    ) -> Option<usize> {
        let mut end = out.len();
        for (i, (item, slot)) in items.iter().zip(slots).enumerate().rev() {
            let rest_at = item.rest_at();
            let (start, value_at) = (usize::from(item.at), rest_at + usize::from(item.rest));
            let (old, value) = (
                &self.bytes[rest_at..value_at],
                &self.bytes[value_at..start + usize::from(item.len)],
            );
            let key_len = self.shared.len() + old.len();
            // A key of a damaged page may lack the bytes that it should share.
            let own = key_len - shared.min(key_len);
            let rest = match order {
                KeyOrder::Reverse => Bytes::new(old, self.shared).sub(0, own),
                _ => Bytes::new(self.shared, old).sub(key_len - own, key_len),
            };
            let code = &self.bytes[start + length_len(old.len())..rest_at];
            let len = length_len(own) + code.len() + own + value.len();
            let begin = end.checked_sub(len)?;
            let record = &mut out[begin..end];
            let to = put_length(record, 0, own as u32);
            // One or two bytes.
            record[to] = code[0];
            record[to + code.len() - 1] = code[code.len() - 1];
            rest.write(record, to + code.len());
            record[to + code.len() + own..].copy_from_slice(value);
            if HEADS > 0 {
                heads[i] = head_of_rest(order, &rest).to_le_bytes();
            }
            put_slot(slot, before + begin, item.lengths);
            end = begin;
        }
        Some(end)
    }
}

impl Item {
    /// Where the rest of its key begins in its source.
    #[inline(always)]
    fn rest_at(&self) -> usize {
        usize::from(self.at) + usize::from(self.rest_at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::RestCell;
    use super::super::build::build_leaf;
    use super::super::size::Pair;
    use super::super::{ValueCell, checked, seal};
    use super::*;
    use crate::tree::options::Compare;
    use crate::tree::order::{Custom, Leaves};
    use crate::tree::page_ref::ExtentRef;

    const PAGE_SIZE: usize = 4096;
    const PAGE: u32 = 5;

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as usize % n
        }

        fn bytes(&mut self, most: usize, kinds: usize) -> Vec<u8> {
            let len = self.below(most + 1);
            (0..len).map(|_| b'a' + self.below(kinds) as u8).collect()
        }
    }

    type Entries = Vec<(Vec<u8>, Option<Vec<u8>>)>;

    /// Sorted entries of which some have their value in an extent.
    fn entries(random: &mut Random, order: &KeyOrder) -> Entries {
        let kinds = 1 + random.below(4);
        let front = random.bytes(140, 2);
        let back = random.bytes(20, 2);
        let mut keys: Vec<_> = (0..1 + random.below(24))
            .map(|_| [&front[..], &random.bytes(9, kinds), &back].concat())
            .collect();
        keys.sort_by(|a, b| order.compare(a, b));
        keys.dedup();
        let value = |random: &mut Random| (random.below(8) > 0).then(|| random.bytes(150, 3));
        keys.into_iter().map(|key| (key, value(random))).collect()
    }

    fn pair((key, value): &(Vec<u8>, Option<Vec<u8>>)) -> Pair<'_> {
        let extent = ExtentRef { first: 7, len: 5000, sum: key.len() as u32 };
        let value = match value {
            Some(value) => ValueCell::Inline(Bytes::from(&value[..])),
            None => ValueCell::Extent(extent),
        };
        Pair { key: KeyCell { known: Bytes::from(&key[..]), extent: None }, value, starts: true }
    }

    /// Leaves of neighbouring parts of a list, the records of each in an order of its own.
    fn leaves(
        random: &mut Random,
        pairs: &[Pair<'_>],
        form: &Form,
    ) -> Vec<(Range<usize>, Vec<u8>)> {
        let (mut leaves, mut from) = (Vec::new(), 0);
        while from < pairs.len() {
            let to = from + 1 + random.below(10.min(pairs.len() - from));
            let mut late: Vec<_> = (from + 1..to.max(from + 2) - 1).collect();
            late.retain(|_| random.below(3) == 0);
            let early: Vec<_> =
                (from..to).filter(|i| !late.contains(i)).map(|i| pairs[i]).collect();
            let mut leaf = vec![0; PAGE_SIZE];
            build_leaf(&mut leaf, &early, form).unwrap();
            let mut page = PageMut::new(&mut leaf);
            for i in late {
                let shared = page.view().shared().len();
                let rest = RestCell::of(&pairs[i].key, shared, &form.keys);
                let head = head_of_rest(&form.keys, &rest.rest);
                page.insert_single(i - from, head, &rest, &pairs[i].value);
            }
            seal(&mut leaf, PAGE);
            leaves.push((from..to, leaf));
            from = to;
        }
        leaves
    }

    #[test]
    fn records_make_the_same_leaves_as_lists_of_entries() {
        let mut random = Random(42);
        let by: Compare = std::sync::Arc::new(|a: &[u8], b: &[u8]| b.cmp(a));
        for round in 0..3000 {
            let keys = match round % 3 {
                0 => KeyOrder::Bytewise,
                1 => KeyOrder::Reverse,
                _ => KeyOrder::Custom(Custom { compare: by.clone(), search: None }),
            };
            let kept = match (round % 5, &keys) {
                (0, _) => Leaves::Whole,
                (1, _) => Leaves::Aligned,
                (2, KeyOrder::Custom(_)) => Leaves::Headless,
                _ => Leaves::Compressed,
            };
            let form = Form { keys, values: None, leaves: kept };
            let entries = entries(&mut random, &form.keys);
            let pairs: Vec<_> = entries.iter().map(pair).collect();
            let leaves = leaves(&mut random, &pairs, &form);
            let mut records = Records::new(&form, PAGE_SIZE).unwrap();
            for (range, leaf) in &leaves {
                let page = checked(leaf, PAGE, 100).unwrap();
                assert!(records.add(page, 0..range.len()));
            }
            let from = random.below(pairs.len());
            let to = from + 1 + random.below(pairs.len() - from);
            let (mut seen, mut expected) = (vec![1; PAGE_SIZE], vec![2; PAGE_SIZE]);
            let count = build_leaf(&mut expected, &pairs[from..to], &form).ok();
            assert_eq!(records.build(from..to, &mut seen).ok(), count);
            if count.is_some() {
                seal(&mut seen, PAGE);
                seal(&mut expected, PAGE);
                assert!(seen == expected, "round {round}");
                let used = checked(&seen, PAGE, 100).unwrap().used();
                assert!(records.leaf_len(from..to) >= used, "round {round}");
            }
        }
    }
}
