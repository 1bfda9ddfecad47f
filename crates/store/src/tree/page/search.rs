//! Finding a key inside one page: heads first, bytes only among equal heads.
//!
//! The heads are bisected down to a few cache lines and the rest counted four at a time. Counting
//! sorted numbers below a bound is the branch-free search of the page-layout measurements in
//! `docs/decisions`.

#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "four heads at a time by SSE2"))]

mod branches;

pub(crate) use branches::branch_slot;

use std::cmp::Ordering;
use std::ops::Range;

use super::group::Group;
use super::keys::{Keys, search_of};
use super::{Page, Record, code};
use crate::Result;
use crate::prefetch::LINE;
use crate::tree::bytes::{compare_back, compare_front};
use crate::tree::order::{Form, KeyOrder, head_of, head_of_reversed};
use crate::tree::page_ref::ExtentRef;

/// Where among the values of a key a search aims.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side<'k> {
    /// Before the first value.
    First,
    /// At this value.
    At(&'k [u8]),
    /// After the last value.
    Last,
}

/// Where a search reads the end of a key that is too long for its page.
pub(crate) trait Extents {
    /// The bytes of the extent that `reference` names, all pages of it checked.
    fn extent(&self, reference: &ExtentRef) -> Result<&[u8]>;
}

/// The window in which heads are counted instead of bisected.
const WINDOW: usize = 16;

/// How many of the `n` heads from slot `from` on are below `head`.
#[inline(always)]
fn below(page: Page<'_>, from: usize, n: usize, head: u32) -> usize {
    below_at(page, page.heads_at(), from, n, head)
}

/// How many of the `n` ascending numbers from number `from` on, of those that stand at `at`, are
/// below `bound`.
#[inline(always)]
pub(crate) fn below_at(page: Page<'_>, at: usize, from: usize, n: usize, bound: u32) -> usize {
    let (mut start, mut len) = (from, n);
    while len > WINDOW {
        let half = len / 2;
        if page.word(at + 4 * (start + half)) < bound {
            start += half + 1;
            len -= half + 1;
        } else {
            len = half;
        }
    }
    let end = start + len;
    if end >= WINDOW {
        // Whatever lies before `start` is below the bound, so the last WINDOW numbers before `end`
        // can be counted without looking where the window begins.
        let seen = end - WINDOW + count_window(page, at + 4 * (end - WINDOW), bound);
        // The bound by `start` matters for a damaged page only, whose numbers do not ascend.
        return seen.max(start) - from;
    }
    start - from + count_below(page, at + 4 * start, len, bound)
}

/// Counts the WINDOW numbers at `at` that are below `head`.
#[inline(always)]
fn count_window(page: Page<'_>, at: usize, head: u32) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        // SAFETY: SSE2 is part of the architecture; the WINDOW numbers lie inside the page.
        unsafe {
            let flip = _mm_set1_epi32(i32::MIN);
            let bound = _mm_xor_si128(_mm_set1_epi32(head as i32), flip);
            let is_below = |i: usize| {
                let four = _mm_loadu_si128(page.base.add(at + 16 * i).cast());
                _mm_cmplt_epi32(_mm_xor_si128(four, flip), bound)
            };
            // One bit a number; the numbers ascend, so those below come first.
            let low = _mm_packs_epi32(is_below(0), is_below(1));
            let high = _mm_packs_epi32(is_below(2), is_below(3));
            (!_mm_movemask_epi8(_mm_packs_epi16(low, high))).trailing_zeros() as usize
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    count_below(page, at, WINDOW, head)
}

/// Counts the `len` numbers at `at` that are below `head`.
#[inline(always)]
fn count_below(page: Page<'_>, at: usize, len: usize, head: u32) -> usize {
    let mut i = 0;
    let mut count = 0;
    #[cfg(target_arch = "x86_64")]
    if len >= 4 {
        use std::arch::x86_64::*;
        // SAFETY: SSE2 is part of the architecture; `at + 4 * len` lies inside the page.
        unsafe {
            let flip = _mm_set1_epi32(i32::MIN);
            let bound = _mm_xor_si128(_mm_set1_epi32(head as i32), flip);
            let mut sum = _mm_setzero_si128();
            while i + 4 <= len {
                let four = _mm_loadu_si128(page.base.add(at + 4 * i).cast());
                sum = _mm_sub_epi32(sum, _mm_cmplt_epi32(_mm_xor_si128(four, flip), bound));
                i += 4;
            }
            let pair = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b1110>(sum));
            let one = _mm_add_epi32(pair, _mm_shuffle_epi32::<0b01>(pair));
            count = _mm_cvtsi128_si32(one) as usize;
        }
    }
    while i < len {
        count += usize::from(page.word(at + 4 * i) < head);
        i += 1;
    }
    count
}

/// Compares the key of a record with `key`, of which `rest` is what follows the shared bytes.
#[inline(always)]
fn compare_record<P: Extents>(
    pages: &P,
    order: &KeyOrder,
    record: Record<'_>,
    key: &[u8],
    rest: &[u8],
) -> Result<Ordering> {
    if record.is_long_key() {
        return compare_long(pages, order, record, key, rest);
    }
    Ok(match order {
        KeyOrder::Bytewise => compare_front(record.rest(), rest),
        KeyOrder::Reverse => compare_back(record.rest(), rest),
        KeyOrder::Custom(by) => (by.compare)(record.rest(), key),
    })
}

/// The same for a key whose end stands in an extent: the known part decides where it can.
#[cold]
fn compare_long<P: Extents>(
    pages: &P,
    order: &KeyOrder,
    record: Record<'_>,
    key: &[u8],
    rest: &[u8],
) -> Result<Ordering> {
    let known = record.rest();
    let n = known.len().min(rest.len());
    let decided = match order {
        KeyOrder::Bytewise => known[..n].cmp(&rest[..n]),
        KeyOrder::Reverse => compare_back(&known[known.len() - n..], &rest[rest.len() - n..]),
        KeyOrder::Custom(_) => Ordering::Equal,
    };
    if decided != Ordering::Equal {
        return Ok(decided);
    }
    match record.key_extent() {
        Some(extent) => Ok(order.compare(pages.extent(&extent)?, key)),
        None => Ok(Ordering::Equal),
    }
}

/// What of `key` follows the page's shared bytes; or on which side of all keys of the page it is.
#[inline(always)]
fn strip<'k>(page: Page<'_>, order: &KeyOrder, key: &'k [u8]) -> Result<&'k [u8], Ordering> {
    let shared = page.shared();
    if shared.is_empty() {
        return Ok(key);
    }
    if let KeyOrder::Bytewise = order {
        // Short shared bytes, compared as one number.
        if let (Some(front), 1..=8) = (key.first_chunk::<8>(), shared.len()) {
            let behind = 64 - 8 * shared.len() as u32;
            let a = u64::from_be_bytes(*front) >> behind;
            let b = page.long(super::HEADER_LEN).swap_bytes() >> behind;
            return if a == b { Ok(&key[shared.len()..]) } else { Err(a.cmp(&b)) };
        }
        if let Some((front, rest)) = key.split_at_checked(shared.len())
            && is_equal(front, shared)
        {
            return Ok(rest);
        }
    }
    strip_other(shared, order, key)
}

/// Whether two strings of one length are equal, those of usual lengths in few instructions: both
/// ends of them, which overlap.
#[inline(always)]
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    match a.len() {
        9..=16 => {
            a.first_chunk::<8>() == b.first_chunk::<8>() && a.last_chunk::<8>() == b.last_chunk()
        }
        17..=32 => {
            a.first_chunk::<16>() == b.first_chunk::<16>() && a.last_chunk::<16>() == b.last_chunk()
        }
        _ => a == b,
    }
}

fn strip_other<'k>(shared: &[u8], order: &KeyOrder, key: &'k [u8]) -> Result<&'k [u8], Ordering> {
    let n = shared.len().min(key.len());
    let cut = key.len() - n;
    let (seen, rest) = match order {
        KeyOrder::Bytewise => (compare_front(&key[..n], &shared[..n]), &key[n..]),
        KeyOrder::Reverse => (compare_back(&key[cut..], &shared[shared.len() - n..]), &key[..cut]),
        KeyOrder::Custom(_) => return Ok(key),
    };
    match seen {
        Ordering::Equal if n == shared.len() => Ok(rest),
        Ordering::Equal => Err(Ordering::Less),
        unequal => Err(unequal),
    }
}

/// What follows the shared bytes in `key`, and its head, if that comes after the last key of a
/// leaf. `None` if it does not, or if the page alone cannot tell.
#[inline(always)]
pub(crate) fn behind_last<'k>(
    order: &KeyOrder,
    page: Page<'_>,
    key: &'k [u8],
) -> Option<(u32, &'k [u8])> {
    let rest = strip(page, order, key).ok()?;
    let (last, head) = (page.len() - 1, head_in(order, rest));
    // Heads that differ order the keys.
    let behind = head > page.head(last) || ties_behind(order, page.leaf_record(last), rest);
    behind.then_some((head, rest))
}

/// Whether a rest comes after the last record, whose head is not below that of the rest.
#[cold]
fn ties_behind(order: &KeyOrder, last: Record<'_>, rest: &[u8]) -> bool {
    let seen = match order {
        _ if last.is_long_key() => return false,
        KeyOrder::Bytewise => compare_front(last.rest(), rest),
        KeyOrder::Reverse => compare_back(last.rest(), rest),
        KeyOrder::Custom(by) => (by.compare)(last.rest(), rest),
    };
    seen.is_lt()
}

/// The head of what follows the shared bytes.
#[inline(always)]
pub(crate) fn head_in(order: &KeyOrder, rest: &[u8]) -> u32 {
    match order {
        KeyOrder::Bytewise => head_of(rest),
        KeyOrder::Reverse => head_of_reversed(rest),
        KeyOrder::Custom(_) => 0,
    }
}

/// What the heads of a leaf say about a key.
#[derive(Clone, Copy)]
pub(crate) struct Aim<'k> {
    /// No key before this slot is at or after it.
    pub(crate) slot: usize,
    /// What follows the shared bytes in the key; none if its place is known.
    rest: Option<&'k [u8]>,
}

impl Aim<'_> {
    /// Whether the record at the slot has to be looked at.
    #[inline(always)]
    pub(crate) fn asks_record(&self) -> bool {
        self.rest.is_some()
    }
}

/// Looks at the heads of a leaf. Under a custom order it may have none, and nothing is known.
#[inline(always)]
pub(crate) fn leaf_aim<'k>(order: &KeyOrder, page: Page<'_>, key: &'k [u8]) -> Aim<'k> {
    if let KeyOrder::Custom(_) = order {
        return Aim { slot: 0, rest: Some(key) };
    }
    let n = page.len();
    let rest = match strip(page, order, key) {
        Ok(rest) => rest,
        Err(Ordering::Less) => return Aim { slot: 0, rest: None },
        Err(_) => return Aim { slot: n, rest: None },
    };
    let head = head_in(order, rest);
    let slot = below(page, 0, n, head);
    let is_there = slot < n && page.head(slot) == head;
    Aim { slot, rest: is_there.then_some(rest) }
}

/// The first slot of a leaf whose key is at or after `key`, and whether it is equal.
#[inline(always)]
pub(crate) fn leaf_slot<P: Extents>(
    pages: &P,
    order: &KeyOrder,
    page: Page<'_>,
    key: &[u8],
) -> Result<(usize, bool)> {
    leaf_slot_from(pages, order, page, key, leaf_aim(order, page, key))
}

/// As [`leaf_slot`], for a key that is probably near the one at slot `from`, if the leaf has both a
/// key before it and one at or after it: it has no place in another leaf then. Else an end of the
/// leaf, without `true`.
///
/// Under a custom order, where each comparison calls a function, this is an exponential search
/// (Bentley and Yao, 1976): the distance from `from` is doubled until the key is passed.
#[inline]
pub(crate) fn leaf_slot_near<P: Extents>(
    pages: &P,
    order: &KeyOrder,
    page: Page<'_>,
    key: &[u8],
    from: usize,
) -> Result<(usize, bool)> {
    let KeyOrder::Custom(by) = order else { return leaf_slot(pages, order, page, key) };
    let n = page.len();
    if let Some(search) = search_of(by)
        && let Some(found) = Keys::of_leaf(page, 0..n, Some(from)).search(search, key)
    {
        return Ok(found);
    }
    let compare = |slot| compare_record(pages, order, page.leaf_record(slot), key, key);
    // The keys before `low` are before the one that is looked for, those from `high` on after it.
    let (mut low, mut high) = (0, n);
    let (mut at, mut distance) = (from.min(n - 1), 1);
    let is_forward = match compare(at)? {
        Ordering::Equal => return Ok((at, true)),
        Ordering::Less => true,
        Ordering::Greater => false,
    };
    loop {
        if is_forward {
            low = at + 1;
        } else {
            high = at;
        }
        if low == n || high == 0 {
            return Ok((low, false));
        }
        at = if is_forward { (at + distance).min(n - 1) } else { at.saturating_sub(distance) };
        distance *= 4;
        match compare(at)? {
            Ordering::Equal => return Ok((at, true)),
            seen if seen.is_lt() == is_forward => {}
            Ordering::Less => break low = at + 1,
            Ordering::Greater => break high = at,
        }
    }
    bisect_custom(pages, order, page, key, low..high)
}

/// The same, the heads having been looked at.
#[inline(always)]
pub(crate) fn leaf_slot_from<P: Extents>(
    pages: &P,
    order: &KeyOrder,
    page: Page<'_>,
    key: &[u8],
    aim: Aim<'_>,
) -> Result<(usize, bool)> {
    let Aim { slot, rest: Some(rest) } = aim else { return Ok((aim.slot, false)) };
    if let KeyOrder::Custom(_) = order {
        return bisect_custom(pages, order, page, key, 0..page.len());
    }
    if slot + 1 == page.len() || page.head(slot + 1) != page.head(slot) {
        let seen = compare_record(pages, order, page.leaf_record(slot), key, rest)?;
        return Ok((slot + usize::from(seen.is_lt()), seen.is_eq()));
    }
    bisect(pages, order, page, key, rest, slot..ties_end(page, slot))
}

/// The end of the slots from `slot` on that have the head of `slot`.
fn ties_end(page: Page<'_>, slot: usize) -> usize {
    let (n, head) = (page.len(), page.head(slot));
    match head.checked_add(1) {
        Some(next) => slot + below(page, slot, n - slot, next),
        None => n,
    }
}

/// Bisects among slots, given how the key of each compares with the one that is looked for.
#[inline(always)]
fn bisect_by(
    slots: Range<usize>,
    compare: impl Fn(usize) -> Result<Ordering>,
) -> Result<(usize, bool)> {
    let (mut low, mut high) = (slots.start, slots.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match compare(middle)? {
            Ordering::Less => low = middle + 1,
            Ordering::Equal => return Ok((middle, true)),
            Ordering::Greater => high = middle,
        }
    }
    Ok((low, false))
}

/// Bisects among slots whose heads are equal.
#[inline(never)]
fn bisect<P: Extents>(
    pages: &P,
    order: &KeyOrder,
    page: Page<'_>,
    key: &[u8],
    rest: &[u8],
    slots: Range<usize>,
) -> Result<(usize, bool)> {
    bisect_by(slots, |slot| compare_record(pages, order, page.leaf_record(slot), key, rest))
}

/// Bisects among slots of a leaf under a custom order.
#[inline(never)]
fn bisect_custom<P: Extents>(
    pages: &P,
    order: &KeyOrder,
    page: Page<'_>,
    key: &[u8],
    slots: Range<usize>,
) -> Result<(usize, bool)> {
    let KeyOrder::Custom(by) = order else { return Ok((slots.start, false)) };
    if let Some(search) = search_of(by)
        && let Some(found) = Keys::of_leaf(page, slots.clone(), None).search(search, key)
    {
        return Ok(found);
    }
    bisect_by(slots, |slot| match page.plain_record(slot) {
        Some((stored, _)) => Ok((by.compare)(stored, key)),
        None => compare_record(pages, order, page.leaf_record(slot), key, key),
    })
}

/// How many bytes of a leaf are fetched where a record probably stands.
pub(crate) const LIKELY_BYTES: usize = 12 * LINE;

/// The beginning of the [`LIKELY_BYTES`] of a leaf that probably contain the record of a key,
/// judging by the branch above; `None` if that says nothing. In most leaves records take the last
/// seven eighths of the page after the `front`, in the order of their keys; in one that has only
/// been appended to they stand the other way round, and are predicted in the middle only.
///
/// This is the step of an interpolation search (Peterson, 1957): a record is as far after the first
/// one of its leaf as its key is after the leaf's separator, relative to the next separator. A
/// search of the leaf waits for its heads and then for the record; a record that is fetched with
/// the heads is there already. If the guess is wrong, only a few instructions are lost.
#[inline(always)]
pub(crate) fn likely_place(
    order: &KeyOrder,
    (branch, slot): (Page<'_>, usize),
    key: &[u8],
    front: usize,
    page_size: usize,
) -> Option<usize> {
    // The first child has no separator, and what ends the last one stands in another branch.
    if !matches!(order, KeyOrder::Bytewise) || slot == 0 || slot + 1 >= branch.len() {
        return None;
    }
    // To take the head from the search of the branch is fewer instructions, and was slower.
    let head = head_of(key.get(branch.shared().len()..)?);
    let (low, high) = (branch.head(slot), branch.head(slot + 1));
    let records = page_size.saturating_sub(front) / 8 * 7;
    let (part, whole) = (head.saturating_sub(low), high.saturating_sub(low).max(1));
    let behind = u64::from(part) * records as u64 / u64::from(whole);
    let middle = page_size - records + records.min(behind as usize);
    Some((middle - LIKELY_BYTES / 2).min(page_size - LIKELY_BYTES))
}

/// Whether the separator of slot `i` is after the pair.
#[inline(always)]
fn is_after<P: Extents>(
    pages: &P,
    form: &Form,
    page: Page<'_>,
    i: usize,
    key: &[u8],
    rest: &[u8],
    side: Side<'_>,
) -> Result<bool> {
    let record = page.record(i);
    match compare_record(pages, &form.keys, record, key, rest)? {
        Ordering::Less => Ok(false),
        Ordering::Greater => Ok(true),
        Ordering::Equal => {
            // Equal keys: a separator without a value stands before all values of the key.
            let (Some(order), true) = (&form.values, record.value_code() > 0) else {
                return Ok(false);
            };
            Ok(match side {
                Side::First => true,
                Side::At(value) => order.compare(record.separator_value(), value).is_gt(),
                Side::Last => false,
            })
        }
    }
}

impl<'a> Record<'a> {
    /// The value part of a branch's separator; empty if it has none.
    pub(crate) fn separator_value(&self) -> &'a [u8] {
        let len = self.value.saturating_sub(1) as usize;
        self.page.slice(self.value_at(), len)
    }

    /// The group of values of a leaf's record, if it has more than one.
    #[inline(always)]
    pub(crate) fn group(&self) -> Option<Group<'a>> {
        (self.value == code::GROUP).then(|| Group::at(self.page, self.value_at()))
    }

    /// How many values a leaf's record has.
    #[inline(always)]
    pub(crate) fn value_count(&self) -> usize {
        self.group().map_or(1, |group| group.count())
    }
}

/// The first of a record's values that is at or after `value`, and whether it is equal.
pub(crate) fn value_slot(order: &KeyOrder, record: &Record<'_>, value: &[u8]) -> (usize, bool) {
    let Some(group) = record.group() else {
        return match order.compare(record.inline_value(), value) {
            Ordering::Less => (1, false),
            Ordering::Equal => (0, true),
            Ordering::Greater => (0, false),
        };
    };
    let (mut low, mut high) = (0, group.count());
    while low < high {
        let middle = low + (high - low) / 2;
        match order.compare_bytes(&group.value(middle), value) {
            Ordering::Less => low = middle + 1,
            Ordering::Equal => return (middle, true),
            Ordering::Greater => high = middle,
        }
    }
    (low, false)
}

#[cfg(test)]
mod tests {
    use super::is_equal;

    #[test]
    fn strings_that_differ_anywhere_are_not_equal() {
        for len in 0..70 {
            let mut bytes: Vec<u8> = (0..len).collect();
            let same = bytes.clone();
            assert!(is_equal(&bytes, &same));
            for at in 0..usize::from(len) {
                bytes[at] ^= 0x80;
                assert!(!is_equal(&bytes, &same), "{len}, {at}");
                bytes[at] ^= 0x80;
            }
        }
    }
}
