//! Branches: children and their counters.
//!
//! The counters are running totals: entry `i` says what lies below the children up to and including
//! child `i`. So a rank is one load a level and a position one bisection; in return an insertion
//! adds one to all totals from its child on, four or two at a time.

use super::build::head_of_rest;
use super::cell::{RestCell, length_len};
use super::join::add_to_all;
use super::search::below_at;
use super::{Count, KeyCell, PAIRED, Page, PageMut, count_width};
use crate::coding::{put_u16, put_u32, put_u64};
use crate::tree::Bytes;
use crate::tree::order::KeyOrder;
use crate::tree::page_ref::PageRef;

impl Page<'_> {
    #[inline(always)]
    fn children_at(self) -> usize {
        self.heads_at() + 4 * self.len()
    }

    #[inline(always)]
    fn keys_at(self) -> usize {
        self.heads_at() + 8 * self.len()
    }

    #[inline(always)]
    pub(crate) fn is_paired(self) -> bool {
        self.flags() & PAIRED != 0
    }

    /// Where the counters of values stand: those of keys, unless the two are apart.
    #[inline(always)]
    fn values_at(self) -> usize {
        if self.is_paired() {
            self.keys_at() + count_width(self.level()) * self.len()
        } else {
            self.keys_at()
        }
    }

    #[inline(always)]
    pub(crate) fn child(self, i: usize) -> PageRef {
        PageRef(self.word(self.children_at() + 4 * i))
    }

    /// Where in memory the reference to child `i` stands; `i` may be the number of children.
    pub(crate) fn child_address(self, i: usize) -> *const u8 {
        self.address().wrapping_add(self.children_at() + 4 * i)
    }

    /// The first child from `from` on that is a changed page, and its slot.
    pub(crate) fn changed_child(self, from: usize) -> Option<(usize, PageRef)> {
        if self.is_leaf() {
            return None;
        }
        let children = self.slice(self.children_at(), 4 * self.len());
        let (refs, _) = children.as_chunks::<4>();
        let is_changed = |child: &[u8; 4]| PageRef(u32::from_le_bytes(*child)).is_changed();
        let mut at = from;
        // Eight at a time: most have not changed.
        while let Some(eight) = refs.get(at..at + 8) {
            if eight.iter().fold(false, |any, child| any | is_changed(child)) {
                break;
            }
            at += 8;
        }
        let found = refs.get(at..)?.iter().position(is_changed)? + at;
        Some((found, PageRef(u32::from_le_bytes(refs[found]))))
    }

    /// What the totals at `at` say of the children before `i`.
    #[inline(always)]
    fn total(self, at: usize, i: usize) -> u64 {
        if i == 0 {
            return 0;
        }
        match self.level() {
            1 => u64::from(self.word(at + 4 * (i - 1))),
            _ => self.long(at + 8 * (i - 1)),
        }
    }

    /// What lies below child `i`.
    #[inline(always)]
    pub(crate) fn child_count(self, i: usize) -> Count {
        let (before, upto) = (self.count_before(i), self.count_before(i + 1));
        // A damaged page's totals may be anything.
        let keys = upto.keys.wrapping_sub(before.keys);
        Count { keys, values: upto.values.wrapping_sub(before.values) }
    }

    /// What lies below the children before `i`.
    #[inline(always)]
    pub(crate) fn count_before(self, i: usize) -> Count {
        let keys = self.total(self.keys_at(), i);
        let values = if self.is_paired() { self.total(self.values_at(), i) } else { keys };
        Count { keys, values }
    }

    /// The child below which entry number `n` stands (counting values or keys), and the number of
    /// entries of that kind before it. The last child, if there are fewer.
    #[inline(always)]
    pub(crate) fn child_of_nth(self, n: u64, by_keys: bool) -> (usize, u64) {
        let at = if by_keys { self.keys_at() } else { self.values_at() };
        let last = self.len() - 1;
        // The child is the first one whose total is beyond n.
        let child = if self.level() == 1 {
            let bound = u32::try_from(n).map_or(u32::MAX, |n| n.saturating_add(1));
            below_at(self, at, 0, last, bound)
        } else {
            let (mut low, mut high) = (0, last);
            while low < high {
                let middle = (low + high) / 2;
                if self.long(at + 8 * middle) <= n {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            low
        };
        (child, self.total(at, child))
    }
}

impl PageMut<'_> {
    /// Opens slot `i` in all arrays; child, counters and separator must be set.
    pub(crate) fn open_child(&mut self, i: usize) {
        let view = self.view();
        let n = view.len();
        let level = view.level();
        let flags = view.flags();
        let width = count_width(level);
        let counts = if flags & PAIRED != 0 { 2 } else { 1 };
        let heads = view.heads_at();
        // The arrays lie one after the other, with these widths of their elements. From the last
        // one on, each moves up by what those before it grow, and its upper part by one element
        // more.
        let widths = [4, 4, width, width * (counts - 1), 2];
        let mut end = heads + widths.iter().sum::<usize>() * n;
        let mut grown: usize = widths.iter().sum();
        for size in widths.into_iter().rev() {
            let start = end - size * n;
            let cut = start + size * i;
            self.bytes.copy_within(cut..end, cut + grown);
            grown -= size;
            self.bytes.copy_within(start..cut, start + grown);
            end = start;
        }
        self.set_len(n + 1);
        let view = self.view();
        let (offsets, before) = (view.offsets_at(), view.count_before(i));
        put_u16(self.bytes, offsets + 2 * i, 0);
        // Nothing lies below the new child yet.
        self.put_total(i, before);
    }

    /// Takes slot `i` out of all arrays, with its separator. The one after the first slot has none
    /// any more if that goes.
    pub(crate) fn close_child(&mut self, i: usize) {
        let (at, len) = self.record_place(i);
        self.cut_heap(at, len);
        let view = self.view();
        let (n, width, heads) = (view.len(), count_width(view.level()), view.heads_at());
        let values = if view.is_paired() { width } else { 0 };
        let (mut start, mut to) = (heads, heads);
        for size in [4, 4, width, values, 2] {
            let (cut, end) = (start + size * i, start + size * n);
            self.bytes.copy_within(start..cut, to);
            self.bytes.copy_within(cut + size..end, to + size * i);
            (start, to) = (end, to + size * (n - 1));
        }
        self.set_len(n - 1);
        if i == 0 {
            let none = KeyCell { known: Bytes::default(), extent: None };
            self.set_separator(0, &none, None, false, &KeyOrder::Bytewise);
        }
    }

    /// Gives slot `i`, which has none yet if it `is_new`, another separator. It must begin with the
    /// `shared` bytes of the page, and there must be room.
    pub(crate) fn set_separator(
        &mut self,
        i: usize,
        key: &KeyCell<'_>,
        value: Option<&[u8]>,
        is_new: bool,
        order: &KeyOrder,
    ) {
        let rest = RestCell::of(key, self.view().shared().len(), order);
        let code = value.map_or(0, |value| value.len() + 1);
        let value = value.unwrap_or_default();
        let len = rest.len() + length_len(code) + value.len();
        let at = match is_new {
            true => self.grow_heap(len),
            false => self.renew_separator(i, len),
        };
        let behind = rest.put(self.bytes, at, code as u32);
        self.bytes[behind..behind + value.len()].copy_from_slice(value);
        let (heads, offsets) = (self.view().heads_at(), self.view().offsets_at());
        put_u32(self.bytes, heads + 4 * i, head_of_rest(order, &rest.rest));
        put_u16(self.bytes, offsets + 2 * i, at as u16);
    }

    /// Takes the record of slot `i` out and opens room for another of `len` bytes.
    fn renew_separator(&mut self, i: usize, len: usize) -> usize {
        let (at, old) = self.record_place(i);
        if old == len {
            return at;
        }
        self.cut_heap(at, old);
        self.grow_heap(len)
    }

    #[inline(always)]
    pub(crate) fn set_child(&mut self, i: usize, child: PageRef) {
        let at = self.view().children_at() + 4 * i;
        put_u32(self.bytes, at, child.0);
    }

    /// Stores what lies below some children from `first` on, in the place of what did.
    pub(crate) fn set_child_counts(
        &mut self,
        first: usize,
        counts: impl ExactSizeIterator<Item = Count>,
    ) {
        let end = first + counts.len();
        let (mut total, old) = (self.view().count_before(first), self.view().count_before(end));
        for (i, count) in (first..).zip(counts) {
            total = super::add(total, count);
            self.put_total(i, total);
        }
        // All totals after them change by the same amount.
        let (keys, values) =
            (total.keys.wrapping_sub(old.keys), total.values.wrapping_sub(old.values));
        if end < self.view().len() && (keys, values) != (0, 0) {
            self.add_child_count(end, Count { keys, values });
        }
    }

    /// Stores the total up to and including child `i`, as it is built.
    pub(crate) fn put_total(&mut self, i: usize, total: Count) {
        let view = self.view();
        let keys = view.keys_at();
        let values = view.values_at();
        let level = view.level();
        put_count(self.bytes, keys, i, level, total.keys);
        if values != keys {
            put_count(self.bytes, values, i, level, total.values);
        }
    }

    /// Adds to (two's complement: or subtracts from) what lies below child `i`.
    #[inline(always)]
    pub(crate) fn add_child_count(&mut self, i: usize, by: Count) {
        let view = self.view();
        let n = view.len();
        let keys = view.keys_at();
        let values = view.values_at();
        let level = view.level();
        if by.keys != 0 || values == keys {
            add_from(self.bytes, keys, i..n, level, by.keys);
        }
        if values != keys {
            add_from(self.bytes, values, i..n, level, by.values);
        }
    }

    /// Adds one entry to what lies below the last child of a branch of a tree without duplicates:
    /// what an append does, and so in the fewest steps.
    #[inline(always)]
    pub(crate) fn count_behind(&mut self) {
        let view = self.view();
        let (totals, last) = (view.keys_at(), view.len() - 1);
        if view.level() == 1 {
            let at = totals + 4 * last;
            put_u32(self.bytes, at, view.word(at).wrapping_add(1));
        } else {
            let at = totals + 8 * last;
            put_u64(self.bytes, at, view.long(at).wrapping_add(1));
        }
    }
}

fn put_count(bytes: &mut [u8], at: usize, i: usize, level: u8, value: u64) {
    match level {
        1 => put_u32(bytes, at + 4 * i, value as u32),
        _ => put_u64(bytes, at + 8 * i, value),
    }
}

/// Adds `by` to the totals of a range of children.
#[inline(always)]
fn add_from(bytes: &mut [u8], at: usize, range: std::ops::Range<usize>, level: u8, by: u64) {
    if level == 1 {
        let totals = &mut bytes[at + 4 * range.start..at + 4 * range.end];
        add_to_all(totals.as_chunks_mut().0, by as u32);
    } else {
        for raw in bytes[at + 8 * range.start..at + 8 * range.end].as_chunks_mut::<8>().0 {
            *raw = u64::from_le_bytes(*raw).wrapping_add(by).to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::build::{Child, build_branch};
    use super::super::{PageMut, checked, seal};
    use super::*;
    use crate::tree::branches::children_of;
    use crate::tree::order::{Form, KeyOrder};

    #[test]
    fn a_child_that_is_closed_is_gone_from_all_arrays() {
        let paired = Form { values: Some(KeyOrder::Bytewise), ..Form::PLAIN };
        for (form, level) in [(&Form::PLAIN, 1), (&Form::PLAIN, 2), (&paired, 1), (&paired, 3)] {
            let keys: Vec<_> = (0..40_u32)
                .map(|i| vec![b'k'; 2 + i as usize % 7 + 9 * (i as usize / 7)])
                .collect();
            let is_paired = form.values.is_some();
            let children: Vec<_> = (0..40)
                .map(|i| {
                    let count = Count { keys: i as u64 + 1, values: 3 * i as u64 + 1 };
                    Child {
                        separator: KeyCell { known: Bytes::from(&keys[i][..]), extent: None },
                        value: (is_paired && i % 3 == 1).then_some(b"value"),
                        page: PageRef(i as u32 + 10),
                        count: if is_paired {
                            count
                        } else {
                            Count { values: count.keys, ..count }
                        },
                    }
                })
                .collect();
            for i in 0..40 {
                let mut bytes = vec![0; 4096];
                build_branch(&mut bytes, &children, form, level).unwrap();
                let mut page = PageMut::new(&mut bytes);
                // What lies below it was taken away before.
                page.set_child_counts(i, [Count::default()].into_iter());
                page.close_child(i);
                seal(&mut bytes, 5);
                let page = checked(&bytes, 5, 100).unwrap();
                let seen = children_of(page);
                let left = children.iter().enumerate().filter(|(at, _)| *at != i);
                assert_eq!(seen.len(), 39);
                // The first one has no separator.
                assert_eq!((page.record(0).len(), page.head(0)), (2, 0));
                for (at, (child, (_, expected))) in seen.iter().zip(left).enumerate() {
                    assert_eq!((child.page, child.count), (expected.page, expected.count));
                    assert!(at == 0 || child.separator.known == expected.separator.known);
                    assert!(at == 0 || child.value == expected.value);
                }
            }
        }
    }
}
