//! Branches: children, their counters, and sums over them.

use super::build::head_of_cell;
use super::leaf::RestCell;
use super::search::{sum_longs, sum_words};
use super::{Count, KeyCell, PAIRED, Page, PageMut, count_width, length_len};
use crate::coding::{put_u16, put_u32, put_u64};
use crate::tree::order::KeyOrder;
use crate::tree::pages::PageRef;

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

    #[inline(always)]
    fn counter(self, at: usize, i: usize) -> u64 {
        if self.level() == 1 { u64::from(self.word(at + 4 * i)) } else { self.long(at + 8 * i) }
    }

    /// What lies below child `i`.
    #[inline(always)]
    pub(crate) fn child_count(self, i: usize) -> Count {
        let keys = self.counter(self.keys_at(), i);
        let values = if self.is_paired() { self.counter(self.values_at(), i) } else { keys };
        Count { keys, values }
    }

    /// What lies below the children before `i`, given what lies below all: the shorter side is
    /// summed.
    #[inline(always)]
    pub(crate) fn count_before(self, i: usize, total: Count) -> Count {
        let (len, level) = (self.len(), self.level());
        let at = self.heads_at() + 8 * len;
        let width = count_width(level);
        let behind = 2 * i > len;
        let (from, n) = if behind { (i, len - i) } else { (0, i) };
        let sum = |at: usize| match level {
            // Sums of one level-1 page fit 32 bits: fewer than 2^14 children of less than 2^16.
            1 => u64::from(sum_words(self, at + 4 * from, n)),
            _ => sum_longs(self, at + 8 * from, n),
        };
        let keys = sum(at);
        let values = if self.is_paired() { sum(at + width * len) } else { keys };
        if behind {
            let keys = total.keys.wrapping_sub(keys);
            return Count { keys, values: total.values.wrapping_sub(values) };
        }
        Count { keys, values }
    }

    /// The child below which entry number `n` stands (counting values or keys), and the number of
    /// entries of that kind before it. The last child, if there are not so many.
    #[inline(always)]
    pub(crate) fn child_of_nth(self, n: u64, by_keys: bool) -> (usize, u64) {
        let (len, level) = (self.len(), self.level());
        let mut at = self.heads_at() + 8 * len;
        if !by_keys && self.is_paired() {
            at += count_width(level) * len;
        }
        if level > 1 {
            return self.find_nth_long(at, len - 1, n);
        }
        // Past the end of 32 bits there is no such entry; the last child is answered.
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        let (i, before) = self.find_nth_short(at, len - 1, n);
        (i, u64::from(before))
    }

    /// Among 64-bit counters: blocks are summed, then one is walked.
    #[inline(always)]
    fn find_nth_long(self, at: usize, last: usize, n: u64) -> (usize, u64) {
        let (mut i, mut before) = (0, 0_u64);
        while i + 8 <= last {
            let next = before.wrapping_add(sum_longs(self, at + 8 * i, 8));
            if next > n {
                break;
            }
            (i, before) = (i + 8, next);
        }
        while i < last {
            let next = before.wrapping_add(self.long(at + 8 * i));
            if next > n {
                break;
            }
            (i, before) = (i + 1, next);
        }
        (i, before)
    }

    /// The same among 32-bit counters, of which there are more: large blocks, small blocks, steps.
    #[inline(always)]
    fn find_nth_short(self, at: usize, last: usize, n: u32) -> (usize, u32) {
        let (mut i, mut before) = (0, 0_u32);
        while i + 16 <= last {
            let next = before.wrapping_add(sum_words(self, at + 4 * i, 16));
            if next > n {
                break;
            }
            (i, before) = (i + 16, next);
        }
        while i + 4 <= last {
            let next = before.wrapping_add(sum_words(self, at + 4 * i, 4));
            if next > n {
                break;
            }
            (i, before) = (i + 4, next);
        }
        while i < last {
            let next = before.wrapping_add(self.word(at + 4 * i));
            if next > n {
                break;
            }
            (i, before) = (i + 1, next);
        }
        (i, before)
    }
}

impl PageMut<'_> {
    /// Takes the separator of slot `i` out of the heap; [`Self::set_separator`] must follow.
    pub(crate) fn clear_separator(&mut self, i: usize) {
        let (at, len) = self.record_place(i);
        self.cut_heap(at, len);
        let offsets = self.view().offsets_at();
        put_u16(self.bytes, offsets + 2 * i, 0);
    }

    /// Opens slot `i` in all arrays; child, counters and separator must be set.
    pub(crate) fn open_child(&mut self, i: usize) {
        let view = self.view();
        let (n, level, flags) = (view.len(), view.level(), view.flags());
        let width = count_width(level);
        let counts = if flags & PAIRED != 0 { 2 } else { 1 };
        let heads = view.heads_at();
        // The arrays one behind the other, with the widths of their elements: from the last one on
        // each moves up by what those before it grow, its upper part by one element more.
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
        let offsets = self.view().offsets_at();
        put_u16(self.bytes, offsets + 2 * i, 0);
    }

    /// Gives slot `i` (whose separator was cleared or never set) a separator. It must begin with
    /// the `shared` bytes of the page, and there must be room.
    pub(crate) fn set_separator(
        &mut self,
        i: usize,
        key: &KeyCell<'_>,
        value: Option<&[u8]>,
        shared: usize,
        order: &KeyOrder,
    ) {
        let rest = RestCell::of(key, shared, order);
        let code = value.map_or(0, |value| value.len() + 1);
        let value = value.unwrap_or_default();
        let at = self.grow_heap(rest.len() + length_len(code) + value.len());
        let behind = rest.put(self.bytes, at, code as u32);
        self.bytes[behind..behind + value.len()].copy_from_slice(value);
        let (heads, offsets) = (self.view().heads_at(), self.view().offsets_at());
        put_u32(self.bytes, heads + 4 * i, head_of_cell(order, &rest));
        put_u16(self.bytes, offsets + 2 * i, at as u16);
    }

    #[inline(always)]
    pub(crate) fn set_child(&mut self, i: usize, child: PageRef) {
        let at = self.view().children_at() + 4 * i;
        put_u32(self.bytes, at, child.0);
    }

    /// Stores what lies below child `i`.
    pub(crate) fn set_child_count(&mut self, i: usize, count: Count) {
        let view = self.view();
        let (keys, values, wide) = (view.keys_at(), view.values_at(), view.level() > 1);
        self.put_counter(keys, i, wide, count.keys);
        if values != keys {
            self.put_counter(values, i, wide, count.values);
        }
    }

    fn put_counter(&mut self, at: usize, i: usize, wide: bool, value: u64) {
        if wide {
            put_u64(self.bytes, at + 8 * i, value);
        } else {
            put_u32(self.bytes, at + 4 * i, value as u32);
        }
    }

    /// Adds to (two's complement: or subtracts from) what lies below child `i`.
    #[inline]
    pub(crate) fn add_child_count(&mut self, i: usize, by: Count) {
        let old = self.view().child_count(i);
        let keys = old.keys.wrapping_add(by.keys);
        let values = old.values.wrapping_add(by.values);
        self.set_child_count(i, Count { keys, values });
    }
}
