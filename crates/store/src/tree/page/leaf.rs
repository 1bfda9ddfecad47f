//! Leaves: reading entries, and changing one group in place.

use super::cell::Behind;
use super::cut::{OddEnd, odd_end, shift_ends};
use super::group::{GroupSize, put_group};
use super::{
    CONTINUES, Count, Layout, Page, PageMut, Record, RestCell, ValueCell, code, put_extent,
    shift_offsets,
};
use crate::coding::{put_u16, put_u32};
use crate::tree::Bytes;
use crate::tree::order::{Form, KeyOrder};
use crate::tree::page_ref::ExtentRef;

/// A key's rest is shorter whose length takes a byte.
const SHORT_REST: usize = 0x80;

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
}

impl Page<'_> {
    /// Where the record of slot `i` of a leaf stands, and how long it is, if it is one of short
    /// parts.
    #[inline(always)]
    pub(crate) fn plain_place(self, i: usize) -> Option<(usize, usize)> {
        let layout = self.layout();
        let record = self.leaf_record_in(layout, i);
        record.is_plain().then(|| (record.at, record.plain_len(layout)))
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

impl<'a> PageMut<'a> {
    /// Opens slot `i` of a leaf for a record of `len` bytes with the given head; returns where the
    /// record stands. There must be room.
    #[inline(always)]
    fn open_slot(&mut self, layout: Layout, i: usize, head: u32, len: usize) -> usize {
        let view = self.view();
        let (n, heads, step) = (view.len(), view.heads_at(), layout.step());
        let head_len = layout.head_len();
        let offsets = heads + head_len * n;
        // Offsets after slot i, then heads after it together with the offsets before it.
        let after = offsets + step * i;
        if i < n {
            self.bytes.copy_within(after..offsets + step * n, after + head_len + step);
        }
        if head_len > 0 {
            self.bytes.copy_within(heads + 4 * i..after, heads + 4 * i + 4);
            put_u32(self.bytes, heads + 4 * i, head);
        }
        self.set_len(n + 1);
        let at = self.grow_heap(len);
        put_u16(self.bytes, after + head_len, at as u16);
        at
    }

    /// Sets the bytes that tell the lengths of the record of slot `i`, where slots have them.
    #[inline(always)]
    fn set_lengths(&mut self, layout: Layout, i: usize, lengths: u16) {
        if layout == Layout::Aligned {
            let view = self.view();
            let at = view.leaf_offset_in(Layout::Aligned, i) + 2;
            put_u16(self.bytes, at, lengths);
        }
    }

    /// Adds a record of short parts after all others. False, and no change, if there is no room
    /// without closing holes.
    #[inline(always)]
    pub(crate) fn push_plain(&mut self, head: u32, rest: &[u8], value: &[u8]) -> bool {
        self.insert_dense(self.view().len(), head, rest, value)
    }

    /// Inserts a record of short parts at slot `i`. False, and no change, if there is no room.
    #[inline(always)]
    pub(crate) fn insert_plain(&mut self, i: usize, head: u32, rest: &[u8], value: &[u8]) -> bool {
        self.insert_dense(i, head, rest, value) || self.insert_tidied(i, head, rest, value)
    }

    /// The same where holes are not looked at.
    #[inline(always)]
    pub(super) fn insert_dense(&mut self, i: usize, head: u32, rest: &[u8], value: &[u8]) -> bool {
        match self.view().layout() {
            Layout::Dense => self.insert_plain_as(Layout::Dense, i, head, rest, value),
            Layout::Headless => self.insert_plain_as(Layout::Headless, i, head, rest, value),
            Layout::Aligned => self.insert_plain_as(Layout::Aligned, i, head, rest, value),
        }
    }

    /// The same in a leaf of this layout, which is known where this is compiled.
    #[inline(always)]
    fn insert_plain_as(
        &mut self,
        layout: Layout,
        i: usize,
        head: u32,
        rest: &[u8],
        value: &[u8],
    ) -> bool {
        let len = layout.plain_len(rest.len(), value.len());
        let view = self.view();
        let used = view.heads_at() + layout.slot_len() * (view.len() + 1) + view.heap_len() + len;
        if used > self.bytes.len() {
            return false;
        }
        let at = self.open_slot(layout, i, head, len);
        let lengths = layout.put_plain(&mut self.bytes[at..], rest, value);
        self.set_lengths(layout, i, lengths);
        true
    }

    /// Inserts a record with one value at slot `i`. False, and no change, if there is no room.
    pub(crate) fn insert_single(
        &mut self,
        i: usize,
        head: u32,
        key: &RestCell<'_>,
        value: &ValueCell<'_>,
    ) -> bool {
        let layout = self.view().layout();
        let len = layout.record_len(key, Behind::of(layout, value));
        let need = layout.slot_len() + len;
        if self.view().leaf_free() < need && !self.make_room(need) {
            return false;
        }
        let at = self.open_slot(layout, i, head, len);
        let lengths = layout.put_single(&mut self.bytes[at..], key, value);
        self.set_lengths(layout, i, lengths);
        true
    }

    /// Takes slot `i` of a leaf out, with its record.
    pub(crate) fn remove_slot(&mut self, i: usize) {
        let (at, len) = self.record_place(i);
        let layout = self.view().layout();
        self.close_slot(layout, i, at, len);
    }

    /// Takes slot `i` of a leaf out, whose record stands at that place.
    #[inline(always)]
    pub(crate) fn remove_plain(&mut self, i: usize, (at, len): (usize, usize)) {
        let layout = self.view().layout();
        self.close_slot(layout, i, at, len);
    }

    /// Takes slot `i` of a leaf out, and the `len` bytes of its record at `at`.
    #[inline(always)]
    fn close_slot(&mut self, layout: Layout, i: usize, at: usize, len: usize) {
        self.leave_hole(i, (at, len));
        let view = self.view();
        let (n, heads, step) = (view.len(), view.heads_at(), layout.step());
        let head_len = layout.head_len();
        let offsets = heads + head_len * n;
        let after = offsets + step * (i + 1);
        if head_len > 0 {
            self.bytes.copy_within(heads + 4 * (i + 1)..offsets + step * i, heads + 4 * i);
        }
        self.bytes.copy_within(after..offsets + step * n, offsets + step * i - head_len);
        self.set_len(n - 1);
    }

    pub(crate) fn record_place(&self, i: usize) -> (usize, usize) {
        let record = self.view().record(i);
        (record.at, record.len())
    }

    /// Takes the record of slot `i` of a leaf out and opens room for another of `len` bytes in its
    /// place. There must be room once the holes are closed.
    fn replace_record(&mut self, i: usize, len: usize) -> usize {
        let place = self.record_place(i);
        self.replace_record_at(i, place, len)
    }

    /// The same where the place of the record is known.
    #[inline(always)]
    fn replace_record_at(&mut self, i: usize, (at, old): (usize, usize), len: usize) -> usize {
        if old == len {
            return at;
        }
        self.leave_hole(i, (at, old));
        if self.view().leaf_free() < len {
            self.tidy();
        }
        let at = self.grow_heap(len);
        let offset_at = self.view().offsets_at() + self.view().step() * i;
        put_u16(self.bytes, offset_at, at as u16);
        at
    }

    /// Puts a record of short parts in place of that of slot `i`, and moves it to slot `to`. False,
    /// and no change, if there is no room, or if the old one has long parts.
    pub(crate) fn replace_plain(
        &mut self,
        i: usize,
        to: usize,
        head: u32,
        (rest, value): (&[u8], &[u8]),
    ) -> bool {
        let layout = self.view().layout();
        if !self.put_instead(layout, i, rest, value) {
            return false;
        }
        let (heads, offsets) = (self.view().heads_at(), self.view().leaf_offset_in(layout, 0));
        if layout.head_len() > 0 {
            put_u32(self.bytes, heads + 4 * i, head);
            self.move_slot(heads, 4, i, to);
        }
        self.move_slot(offsets, layout.step(), i, to);
        true
    }

    /// Puts a record of short parts in place of that of slot `i`, whose head stays. False, and no
    /// change, if there is no room, or if the old one has long parts.
    #[inline(always)]
    fn put_instead(&mut self, layout: Layout, i: usize, rest: &[u8], value: &[u8]) -> bool {
        let len = layout.plain_len(rest.len(), value.len());
        let Some(place) = self.view().plain_place(i) else { return false };
        if self.view().free() + place.1 < len {
            return false;
        }
        let at = self.replace_record_at(i, place, len);
        let lengths = layout.put_plain(&mut self.bytes[at..], rest, value);
        self.set_lengths(layout, i, lengths);
        true
    }

    /// Gives the record of slot `i` another short value. False, and no change, if there is no room,
    /// or if it has long parts.
    pub(crate) fn replace_plain_value(&mut self, i: usize, value: &[u8]) -> bool {
        let Some((rest, _)) = self.view().plain_record(i) else { return false };
        // Where the old record stands others may come to stand.
        let mut room = [0; SHORT_REST];
        let Some(own) = room.get_mut(..rest.len()) else { return false };
        own.copy_from_slice(rest);
        self.put_instead(self.view().layout(), i, own, value)
    }

    /// Moves an element of an array of them from place `i` to place `to`.
    fn move_slot(&mut self, array: usize, len: usize, i: usize, to: usize) {
        if i == to {
            return;
        }
        let between = array + len * i.min(to)..array + len * (i.max(to) + 1);
        let between = &mut self.bytes[between];
        if i < to {
            between.rotate_left(len);
        } else {
            between.rotate_right(len);
        }
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

    /// Replaces the one value of slot `i`. `scratch` keeps the key's rest on the way. False, and no
    /// change, if there is no room.
    pub(crate) fn replace_single(
        &mut self,
        i: usize,
        value: &ValueCell<'_>,
        scratch: &mut Vec<u8>,
    ) -> bool {
        let record = self.view().record(i);
        let extent = record.key_extent();
        scratch.clear();
        scratch.extend_from_slice(record.rest());
        let key = RestCell { rest: Bytes::from(&scratch[..]), extent };
        let layout = self.view().layout();
        let len = layout.record_len(&key, Behind::of(layout, value));
        let fits = self.has_room_instead(i, len);
        if fits {
            let at = self.replace_record(i, len);
            let lengths = layout.put_single(&mut self.bytes[at..], &key, value);
            self.set_lengths(layout, i, lengths);
        }
        fits
    }

    /// Puts a value before value `at` of the group of slot `i`, which stays as it is otherwise.
    /// False, and no change, where it cannot: the slot has one value, the new one does not have
    /// what all share, values that had one length would no longer, or there is no room.
    fn put_in_group(&mut self, i: usize, at: usize, value: &[u8], order: &KeyOrder) -> bool {
        // The holes before the record would move with it.
        self.tidy();
        let view = self.view();
        let record = view.leaf_record(i);
        let Some(group) = record.group() else { return false };
        let Some(rest) = order.strip(value, group.shared()) else { return false };
        let (layout, count) = (view.layout(), group.count());
        let (len, more) = match group.stride() {
            Some(stride) if stride != rest.len() => return false,
            Some(len) => (len, 0),
            None => {
                (layout.padded(rest.len()), layout.ends_len(count + 1) - layout.ends_len(count))
            }
        };
        let odd = odd_end(layout, &record, &group);
        let grows = match odd {
            None => more + len,
            Some(OddEnd { is_padded: true, .. }) => len - 1,
            Some(_) => len + 1,
        };
        if grows > view.leaf_free() {
            return false;
        }
        let (start, from) = (self.bytes.len() - view.heap_len(), record.at);
        let (end_at, data, data_at) = (group.end_at(at), group.data(), group.rest_at(at));
        let (group_at, is_varied) = (record.value_at(), group.stride().is_none());
        let ends = group.end_at(0)..group.end_at(0) + 2 * count;
        self.set_heap_len(self.bytes.len() - start + grows);
        let (offsets, step) = (self.view().offsets_at(), self.view().step());
        let slots = offsets..offsets + step * self.view().len();
        // The records that stand before this one in the heap move with it.
        shift_offsets(&mut self.bytes[slots], step, from + 1, (grows as u16).wrapping_neg());
        self.bytes.copy_within(start..end_at, start - grows);
        put_u16(self.bytes, group_at - grows, (count + 1) as u16);
        if is_varied {
            // The ends after the new one, which moves the rests after its own; the rests before.
            let end = end_at - grows;
            self.bytes.copy_within(end_at..ends.end, end + 2);
            shift_ends(&mut self.bytes[end + 2..ends.end - grows + 2], len as u16);
            self.bytes[ends.end - grows + 2..data - len].fill(0);
            self.bytes.copy_within(data..data_at, data - len);
            put_u16(self.bytes, end, (data_at - data + rest.len()) as u16);
        }
        let data_at = odd.map_or(data_at, |odd| self.move_odd(data_at, odd));
        let value = &mut self.bytes[data_at - len..data_at];
        value[..rest.len()].copy_from_slice(rest);
        value[rest.len()..].fill(0);
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
        let is_done = match edit {
            GroupEdit::Put(at, value) => self.put_in_group(i, at, value, order),
            GroupEdit::Cut(at) => self.cut_in_group(i, at, form),
        };
        if is_done {
            return true;
        }
        // The new record is built aside: at most a page.
        aside.resize(self.bytes.len().max(aside.len()), 0);
        let layout = self.view().layout();
        let (len, lengths) = {
            let record = self.view().record(i);
            let key = RestCell { rest: Bytes::from(record.rest()), extent: record.key_extent() };
            let size = edit.size(&record, form);
            let behind = match size.count {
                1 => Behind::plain(size.single()),
                _ => Behind::group(size.body(layout)),
            };
            let len = layout.record_len(&key, behind);
            if !self.has_room_instead(i, len) {
                return false;
            }
            let (at, lengths) = layout.put_key(aside, &key, behind);
            if size.count == 1 {
                edit.values(&record).for_each(|value| value.write(aside, at));
            } else {
                let values = edit.values(&record);
                put_group(layout, aside, at, &size, order.is_reverse(), values);
            }
            (len, lengths)
        };
        let at = self.replace_record(i, len);
        self.bytes[at..at + len].copy_from_slice(&aside[..len]);
        self.set_lengths(layout, i, lengths);
        true
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
mod tests;
