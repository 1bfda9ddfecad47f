//! Leaves: reading entries, and changing one group in place.

use super::build::{plain_len, put_plain, put_single};
use super::group::{GroupSize, put_group};
use super::{
    CONTINUES, Count, EXTENT_CELL, KEY_EXTENT_CELL, KNOWN_MAX, KeyCell, Page, PageMut, Record,
    ValueCell, code, length_len, put_extent, put_length, shift_offsets,
};
use crate::coding::{put_u16, put_u32};
use crate::tree::Bytes;
use crate::tree::order::{Form, KeyOrder};
use crate::tree::page_ref::ExtentRef;

impl<'a> Page<'a> {
    /// Whether the first group of the leaf goes on with the last key of the leaf before it.
    #[inline(always)]
    pub(crate) fn continues(self) -> bool {
        self.flags() & CONTINUES != 0
    }

    /// The keys and values of a leaf: a continuing group's key is counted where it began.
    pub(crate) fn leaf_count(self, duplicates: bool) -> Count {
        let n = self.len() as u64;
        if !duplicates {
            return Count { keys: n, values: n };
        }
        let values = self.values_before(self.len()) as u64;
        Count { keys: n - u64::from(self.continues()), values }
    }

    /// How many values stand in the groups of a leaf before `slot`.
    pub(crate) fn values_before(self, slot: usize) -> usize {
        let offsets = self.heads_at() + 4 * self.len();
        (0..slot).map(|i| self.values_at_offset(self.half(offsets + 2 * i))).sum()
    }

    /// How many values the record at an offset has; the usual ones, with short keys, looked at
    /// without decoding them.
    #[inline(always)]
    fn values_at_offset(self, at: usize) -> usize {
        let both = self.half(at);
        match (both & 0x80, both >> 8) {
            (0, code::GROUP_FIRST) if self.byte(at + 2) == code::GROUP_SECOND => {
                self.half(at + 3 + (both & 0xFF))
            }
            (0, 0..0x80) => 1,
            _ => self.record_at(at).value_count(),
        }
    }
}

impl<'a> Record<'a> {
    /// The value of a record that has one in the page.
    #[inline(always)]
    pub(crate) fn inline_value(&self) -> &'a [u8] {
        if self.value_code() >= code::FIRST {
            return &[];
        }
        self.page.slice(self.value_at(), self.value_code() as usize)
    }

    /// The extent of a record whose value stands in one.
    #[inline(always)]
    pub(crate) fn value_extent(&self) -> Option<ExtentRef> {
        (self.value_code() == code::EXTENT).then(|| self.page.extent_at(self.value_at()))
    }

    /// Value `i` of the record.
    #[inline(always)]
    pub(crate) fn value(&self, i: usize) -> ValueCell<'a> {
        match self.value_code() {
            code::EXTENT => ValueCell::Extent(self.page.extent_at(self.value_at())),
            code::GROUP => match self.group() {
                Some(group) => ValueCell::Inline(group.value(i)),
                None => ValueCell::Inline(Bytes::default()),
            },
            _ => ValueCell::Inline(Bytes::from(self.inline_value())),
        }
    }
}

/// The rest of a key after `shared` bytes, as it stands in a record.
#[derive(Clone, Copy)]
pub(crate) struct RestCell<'a> {
    pub(crate) rest: Bytes<'a>,
    pub(crate) extent: Option<ExtentRef>,
}

impl<'a> RestCell<'a> {
    /// Takes `shared` bytes off a key. Of a long key at most [`KNOWN_MAX`] more are kept.
    pub(crate) fn of(key: &KeyCell<'a>, shared: usize, order: &KeyOrder) -> Self {
        let len = key.known.len();
        // The keys of a damaged page need not have what they are said to share.
        let own = len.saturating_sub(shared);
        let shared = len - own;
        let keep = match key.extent {
            Some(_) => own.min(KNOWN_MAX),
            None => own,
        };
        let rest = match order {
            KeyOrder::Reverse => key.known.sub(len - shared - keep, len - shared),
            _ => key.known.sub(shared, shared + keep),
        };
        Self { rest, extent: key.extent }
    }

    /// The bytes that it takes in a record, its length included.
    pub(crate) fn len(&self) -> usize {
        match self.extent {
            Some(_) => 2 + KEY_EXTENT_CELL + self.rest.len(),
            None => length_len(self.rest.len()) + self.rest.len(),
        }
    }

    /// Writes length, code and rest. Returns where `behind` begins.
    pub(crate) fn put(&self, out: &mut [u8], at: usize, behind: u32) -> usize {
        let key = self.extent.map_or(self.rest.len() as u32, |_| code::EXTENT);
        let mut at = at + put_length(out, at, key);
        at += put_length(out, at, behind);
        if let Some(extent) = &self.extent {
            put_extent(out, at, extent);
            put_u16(out, at + EXTENT_CELL, self.rest.len() as u16);
            at += KEY_EXTENT_CELL;
        }
        self.rest.write(out, at);
        at + self.rest.len()
    }
}

/// What a leaf's record takes for one value, the key's part aside.
pub(crate) fn single_len(value: &ValueCell<'_>) -> usize {
    match value {
        ValueCell::Inline(bytes) => length_len(bytes.len()) + bytes.len(),
        ValueCell::Extent(_) => 2 + EXTENT_CELL,
    }
}

impl<'a> PageMut<'a> {
    /// Whether a new record of `len` bytes fits.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.view().free() >= len + super::slot_len(0, 0)
    }

    /// Opens slot `i` of a leaf for a record of `len` bytes with the given head; returns where the
    /// record stands. There must be room.
    fn open_slot(&mut self, i: usize, head: u32, len: usize) -> usize {
        let view = self.view();
        let (n, heads) = (view.len(), view.heads_at());
        let offsets = heads + 4 * n;
        // Offsets after slot i, then heads after it together with the offsets before it.
        self.bytes.copy_within(offsets + 2 * i..offsets + 2 * n, offsets + 2 * i + 6);
        self.bytes.copy_within(heads + 4 * i..offsets + 2 * i, heads + 4 * i + 4);
        put_u32(self.bytes, heads + 4 * i, head);
        self.set_len(n + 1);
        let at = self.grow_heap(len);
        put_u16(self.bytes, offsets + 4 + 2 * i, at as u16);
        at
    }

    /// Adds a record after all others; there must be room.
    #[inline(always)]
    pub(crate) fn push_plain(&mut self, head: u32, rest: &[u8], value: &[u8]) {
        let view = self.view();
        let (n, heads) = (view.len(), view.heads_at());
        let offsets = heads + 4 * n;
        self.bytes.copy_within(offsets..offsets + 2 * n, offsets + 4);
        put_u32(self.bytes, offsets, head);
        self.set_len(n + 1);
        let at = self.grow_heap(plain_len(rest.len(), value.len()));
        put_u16(self.bytes, offsets + 4 + 2 * n, at as u16);
        put_plain(self.bytes, at, rest, value);
    }

    /// Inserts a record of short parts at slot `i`; there must be room.
    #[inline(always)]
    pub(crate) fn insert_plain(&mut self, i: usize, head: u32, rest: &[u8], value: &[u8]) {
        let at = self.open_slot(i, head, plain_len(rest.len(), value.len()));
        put_plain(self.bytes, at, rest, value);
    }

    /// Inserts a record with one value at slot `i`; there must be room.
    pub(crate) fn insert_single(
        &mut self,
        i: usize,
        head: u32,
        key: &RestCell<'_>,
        value: &ValueCell<'_>,
    ) {
        let at = self.open_slot(i, head, key.len() + single_len(value));
        put_single(self.bytes, at, key, value);
    }

    /// Takes slot `i` of a leaf out, with its record.
    pub(crate) fn remove_slot(&mut self, i: usize) {
        let (at, len) = self.record_place(i);
        self.cut_heap(at, len);
        let view = self.view();
        let (n, heads) = (view.len(), view.heads_at());
        let offsets = heads + 4 * n;
        self.bytes.copy_within(heads + 4 * (i + 1)..offsets + 2 * i, heads + 4 * i);
        self.bytes.copy_within(offsets + 2 * (i + 1)..offsets + 2 * n, offsets + 2 * i - 4);
        self.set_len(n - 1);
    }

    pub(crate) fn record_place(&self, i: usize) -> (usize, usize) {
        let record = self.view().record(i);
        (record.at, record.len())
    }

    /// Takes the record of slot `i` out and opens room for another of `len` bytes in its place.
    pub(crate) fn replace_record(&mut self, i: usize, len: usize) -> usize {
        let (at, old) = self.record_place(i);
        if old == len {
            return at;
        }
        self.cut_heap(at, old);
        let at = self.grow_heap(len);
        let offsets = self.view().offsets_at();
        put_u16(self.bytes, offsets + 2 * i, at as u16);
        at
    }

    /// Whether slot `i` can be given a record of `len` bytes.
    pub(crate) fn has_room_instead(&self, i: usize, len: usize) -> bool {
        self.view().free() + self.record_place(i).1 >= len
    }

    /// Where the value of slot `i` stands, if it is in the page and `len` bytes long.
    pub(crate) fn value_of_len(&mut self, i: usize, len: usize) -> Option<&mut [u8]> {
        let record = self.view().record(i);
        let at = record.value_at();
        if record.value_code() < code::FIRST && record.value_code() as usize == len {
            Some(&mut self.bytes[at..at + len])
        } else {
            None
        }
    }

    /// As [`Self::value_of_len`], for as long as the page is borrowed.
    pub(crate) fn into_value_of_len(self, i: usize, len: usize) -> Option<&'a mut [u8]> {
        if i >= self.view().len() {
            return None;
        }
        let record = self.view().record(i);
        let (at, code) = (record.value_at(), record.value_code());
        if code < super::code::FIRST && code as usize == len {
            Some(&mut self.bytes[at..at + len])
        } else {
            None
        }
    }

    /// Names another extent, of the same pages, as the value of slot `i`.
    pub(crate) fn set_value_extent(&mut self, i: usize, extent: &ExtentRef) {
        let at = self.view().record(i).value_at();
        put_extent(self.bytes, at, extent);
    }

    /// Names another extent, of the same bytes, as the long key of slot `i`.
    pub(crate) fn set_key_extent(&mut self, i: usize, extent: &ExtentRef) {
        let at = self.view().record(i).data;
        put_extent(self.bytes, at, extent);
    }

    /// Replaces the one value of slot `i`. `scratch` keeps the key's rest on the way.
    pub(crate) fn replace_single(
        &mut self,
        i: usize,
        value: &ValueCell<'_>,
        scratch: &mut Vec<u8>,
    ) {
        let record = self.view().record(i);
        let extent = record.key_extent();
        scratch.clear();
        scratch.extend_from_slice(record.rest());
        let key = RestCell { rest: Bytes::from(&scratch[..]), extent };
        let at = self.replace_record(i, key.len() + single_len(value));
        put_single(self.bytes, at, &key, value);
    }

    /// Puts a value before value `at` of the group of slot `i`, which stays as it is otherwise.
    /// False, and no change, where it cannot: the slot has one value, the new one does not have
    /// what all share, values that had one length would no longer, or there is no room.
    fn put_in_group(&mut self, i: usize, at: usize, value: &[u8], order: &KeyOrder) -> bool {
        let view = self.view();
        let record = view.leaf_record(i);
        let Some(group) = record.group() else { return false };
        let Some(rest) = order.strip(value, group.shared()) else { return false };
        let (end, len) = (group.end_len(), rest.len());
        if group.stride().is_some_and(|stride| stride != len) || end + len > view.leaf_free() {
            return false;
        }
        let (start, from) = (self.bytes.len() - view.heap_len(), record.at);
        let (end_at, data_at) = (group.end_at(at), group.rest_at(at));
        let group_at = record.value_at();
        let count = group.count();
        let before = data_at - group.data();
        self.set_heap_len(self.bytes.len() - start + end + len);
        let offsets = self.view().offsets_at();
        let slots = 2 * self.view().len();
        // The records that stand before this one in the heap move with it.
        let by = ((end + len) as u16).wrapping_neg();
        shift_offsets(&mut self.bytes[offsets..offsets + slots], from + 1, by);
        self.bytes.copy_within(start..end_at, start - end - len);
        put_u16(self.bytes, group_at - end - len, (count + 1) as u16);
        if end > 0 {
            self.bytes.copy_within(end_at..data_at, end_at - len);
            let ends = &mut self.bytes[end_at - end - len..];
            put_u16(ends, 0, before as u16);
            raise_ends(&mut ends[..end * (count + 1 - at)], len as u16);
        }
        self.bytes[data_at - len..data_at].copy_from_slice(rest);
        true
    }

    /// Puts one value into the group of slot `i`, or takes one out; `aside` is scratch. Returns
    /// false (and changes nothing) if it does not fit.
    pub(crate) fn edit_group(
        &mut self,
        i: usize,
        edit: GroupEdit<'_>,
        form: &Form,
        aside: &mut Vec<u8>,
    ) -> bool {
        let Some(order) = &form.values else { return false };
        if let GroupEdit::Put(at, value) = edit
            && self.put_in_group(i, at, value, order)
        {
            return true;
        }
        // The new record is built aside: at most a page.
        aside.resize(self.bytes.len().max(aside.len()), 0);
        let len = {
            let record = self.view().record(i);
            let key = RestCell { rest: Bytes::from(record.rest()), extent: record.key_extent() };
            let size = edit.size(&record, form);
            let len = if size.count == 1 {
                key.len() + length_len(size.single()) + size.single()
            } else {
                key.len() + 2 + size.body()
            };
            if !self.has_room_instead(i, len) {
                return false;
            }
            if size.count == 1 {
                let at = key.put(aside, 0, size.single() as u32);
                for value in edit.values(&record) {
                    value.write(aside, at);
                }
            } else {
                let at = key.put(aside, 0, code::GROUP);
                put_group(aside, at, &size, order.is_reverse(), edit.values(&record));
            }
            len
        };
        let at = self.replace_record(i, len);
        self.bytes[at..at + len].copy_from_slice(&aside[..len]);
        true
    }
}

/// Adds `by` to the ends of values.
fn raise_ends(ends: &mut [u8], by: u16) {
    for raw in ends.as_chunks_mut::<2>().0 {
        *raw = u16::from_le_bytes(*raw).wrapping_add(by).to_le_bytes();
    }
}

/// One change of a group's values.
#[derive(Clone, Copy)]
pub(crate) enum GroupEdit<'v> {
    /// Put a value in before position `.0`.
    Put(usize, &'v [u8]),
    /// Leave the value at this position out.
    Cut(usize),
}

impl<'v> GroupEdit<'v> {
    /// The values after the change, in order.
    pub(crate) fn values<'p: 'v>(self, record: &Record<'p>) -> impl Iterator<Item = Bytes<'v>> {
        let record = *record;
        let n = record.value_count();
        let (put, total) = match self {
            Self::Put(..) => (true, n + 1),
            Self::Cut(_) => (false, n - 1),
        };
        (0..total).map(move |i| match self {
            Self::Put(at, value) if put && i == at => Bytes::from(value),
            Self::Put(at, _) => inline(&record, if i > at { i - 1 } else { i }),
            Self::Cut(at) => inline(&record, if i >= at { i + 1 } else { i }),
        })
    }

    fn size(self, record: &Record<'_>, form: &Form) -> GroupSize {
        let mut size = GroupSize::default();
        let mut first: Option<Bytes<'_>> = None;
        let n = record.value_count();
        // All values of a group share what its ends share; so only the ends are compared.
        let total = match self {
            Self::Put(..) => n + 1,
            Self::Cut(_) => n - 1,
        };
        for (i, value) in self.values(record).enumerate() {
            let shared = match &first {
                None => {
                    first = Some(value);
                    value.len()
                }
                Some(first) if i + 1 == total => form.shared_of_values(first, &value),
                Some(_) => usize::MAX,
            };
            size.push(value.len(), shared);
        }
        size
    }
}

fn inline<'a>(record: &Record<'a>, i: usize) -> Bytes<'a> {
    match record.value(i) {
        ValueCell::Inline(bytes) => bytes,
        ValueCell::Extent(_) => Bytes::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::build::{Pair, build_leaf};
    use super::super::{checked, seal};
    use super::*;

    const PAGE_SIZE: usize = 4096;
    const PAGE: u32 = 5;

    type Entries = Vec<(Vec<u8>, Vec<u8>)>;

    /// A leaf of sorted pairs.
    fn leaf(pairs: &Entries, form: &Form) -> Vec<u8> {
        let pairs: Vec<_> = pairs
            .iter()
            .enumerate()
            .map(|(i, (key, value))| Pair {
                key: KeyCell { known: Bytes::from(&key[..]), extent: None },
                value: ValueCell::Inline(Bytes::from(&value[..])),
                starts: i == 0 || pairs[i - 1].0 != *key,
            })
            .collect();
        let mut bytes = vec![0; PAGE_SIZE];
        build_leaf(&mut bytes, &pairs, form).unwrap();
        bytes
    }

    fn read(page: Page<'_>) -> Entries {
        let value = |record: &Record<'_>, i| match record.value(i) {
            ValueCell::Inline(bytes) => bytes.to_vec(),
            ValueCell::Extent(_) => panic!("a value in an extent"),
        };
        let records = (0..page.len()).map(|slot| page.leaf_record(slot));
        let pairs = records.flat_map(|record| {
            (0..record.value_count())
                .map(move |i| (record.key_cell().known.to_vec(), value(&record, i)))
        });
        pairs.collect()
    }

    /// Values of one length and of several, which share much or little, on both sides.
    fn value(random: &mut impl FnMut(usize) -> usize, kind: usize) -> Vec<u8> {
        let len = if kind & 1 == 0 { 6 } else { 4 + random(4) };
        let own: Vec<u8> = (0..len).map(|_| b'a' + random(3) as u8).collect();
        if kind & 2 == 0 { own } else { [b"shared", &own[..], b"shared"].concat() }
    }

    #[test]
    fn values_put_in_place_are_as_those_of_a_leaf_built_with_them() {
        let mut seed = 7_u64;
        let mut random = move |n: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % n
        };
        let (mut in_place, mut aside) = (0, Vec::new());
        for round in 0..400 {
            let order = if round % 2 == 0 { KeyOrder::Bytewise } else { KeyOrder::Reverse };
            let (keys, values) = (KeyOrder::Bytewise, Some(order.clone()));
            let form = Form { keys, values, whole: round % 5 == 0 };
            let mut pairs: Entries = (0..2 + random(20))
                .map(|_| (vec![b'k', random(4) as u8], value(&mut random, round / 2)))
                .collect();
            let sort = |pairs: &mut Entries| {
                pairs.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| order.compare(&a.1, &b.1)));
                pairs.dedup();
            };
            sort(&mut pairs);
            let mut bytes = leaf(&pairs, &form);
            for _ in 0..20 {
                let key = pairs[random(pairs.len())].0.clone();
                let new = value(&mut random, round / 2);
                if pairs.contains(&(key.clone(), new.clone())) {
                    continue;
                }
                let of_key = pairs.iter().filter(|pair| pair.0 == key);
                let at = of_key.filter(|pair| order.compare(&pair.1, &new).is_lt()).count();
                let mut keys: Vec<_> = pairs.iter().map(|pair| pair.0.clone()).collect();
                keys.dedup();
                let slot = keys.iter().position(|one| *one == key).unwrap();
                let mut page = PageMut::new(&mut bytes);
                in_place += usize::from(page.put_in_group(slot, at, &new, &order));
                let is_done = read(page.view()).len() > pairs.len();
                if !is_done {
                    assert!(page.edit_group(slot, GroupEdit::Put(at, &new), &form, &mut aside));
                }
                pairs.push((key, new));
                sort(&mut pairs);
                seal(&mut bytes, PAGE);
                let page = checked(&bytes, PAGE, 10).unwrap();
                assert_eq!(read(page), pairs);
                let built = leaf(&pairs, &form);
                assert_eq!(page.used(), checked_len(&built), "as compact as one that is built");
            }
        }
        assert!(in_place > 2000, "{in_place}");
    }

    fn checked_len(bytes: &[u8]) -> usize {
        PageMut::new(&mut bytes.to_vec()).view().used()
    }
}
