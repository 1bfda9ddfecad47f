//! Deciding whether bytes are a well-formed page, so that the views may read without checks.
//!
//! Nothing here trusts a byte. What is not checked is only what the views do not rely on: that
//! keys ascend and that counters are right (`Store::check` looks at those).

use super::group::VARIED;
use super::record::{length_of, pad2, padded, prefix_len, short, short_len};
use super::{
    ALIGNED, CONTINUES, COUNT_OFFSET, EXTENT_CELL, FLAGS_OFFSET, HEADER_LEN, HEADLESS, HEAP_OFFSET,
    HOLE_OFFSET, KEY_EXTENT_CELL, KIND_BRANCH, KIND_LEAF, KIND_OFFSET, KNOWN_MAX, LEVEL_OFFSET,
    Layout, MAX_LEVELS, PAIRED, REVERSED, SHARED_OFFSET, VALUES_REVERSED, WHOLE, code, is_sealed,
    pad4, slot_len,
};
use crate::coding::{u16_at, u32_at};
use crate::tree::page_ref::{FIRST_PAGE, PageNo};

/// Checks the bytes of page `no` of a store whose pages end before `end`.
pub(crate) fn validate(bytes: &[u8], no: PageNo, end: PageNo) -> Result<(), &'static str> {
    if !is_sealed(bytes, no) {
        return Err("the checksum is wrong");
    }
    validate_structure(bytes, end)
}

/// Checks everything but the checksum.
fn validate_structure(bytes: &[u8], end: PageNo) -> Result<(), &'static str> {
    let level = bytes[LEVEL_OFFSET];
    let kind = if level == 0 { KIND_LEAF } else { KIND_BRANCH };
    if bytes[KIND_OFFSET] != kind || usize::from(level) >= MAX_LEVELS {
        return Err("not a tree page");
    }
    let flags = bytes[FLAGS_OFFSET];
    let allowed = if level == 0 { CONTINUES | WHOLE | ALIGNED | HEADLESS } else { PAIRED };
    let is_aligned = flags & ALIGNED != 0;
    let is_known = match flags & (ALIGNED | HEADLESS) {
        0 => true,
        ALIGNED | HEADLESS => flags & WHOLE != 0,
        _ => false,
    };
    if flags & !(allowed | REVERSED | VALUES_REVERSED) != 0 || !is_known {
        return Err("unknown page flags");
    }
    let n = usize::from(u16_at(bytes, COUNT_OFFSET));
    let shared = usize::from(u16_at(bytes, SHARED_OFFSET));
    if flags & WHOLE != 0 && shared > 0 {
        return Err(NOT_WHOLE);
    }
    let heads = HEADER_LEN + pad4(shared);
    let arrays_end = heads + n * slot_len(level, flags);
    let heap = usize::from(u16_at(bytes, HEAP_OFFSET));
    if u16_at(bytes, HOLE_OFFSET) != 0 {
        return Err("something stands in bytes that must be zero");
    }
    if n == 0 {
        return Err("an empty tree page");
    }
    if arrays_end + heap > bytes.len() {
        return Err("the parts of a page overlap");
    }
    if level > 0 {
        let children = &bytes[heads + 4 * n..heads + 8 * n];
        let outside = |child: &[u8]| !(FIRST_PAGE..end).contains(&u32_at(child, 0));
        if children.chunks_exact(4).any(outside) {
            return Err("a child beyond the end of the store");
        }
    }
    let start = bytes.len() - heap;
    if is_aligned {
        let slots = &bytes[arrays_end - 4 * n..arrays_end];
        if are_short(slots.as_chunks().0, start, bytes.len()) {
            return Ok(());
        }
        check_heap(bytes, slots, start, aligned_record_end)
    } else {
        let slots = &bytes[arrays_end - 2 * n..arrays_end];
        if level == 0 && are_short_dense(bytes, slots.as_chunks().0, start) {
            return Ok(());
        }
        check_heap(bytes, slots, start, record_end)
    }
}

/// Every record is well formed and the records fill the heap without gap or overlap. `STEP` bytes
/// of `slots` are a record's: its offset, and what `end` is given besides.
#[inline(always)]
fn check_heap<const STEP: usize>(
    bytes: &[u8],
    slots: &[u8],
    start: usize,
    end: impl Fn(&[u8], usize, &[u8; STEP]) -> Result<usize, &'static str>,
) -> Result<(), &'static str> {
    let slots = slots.as_chunks::<STEP>().0;
    let offset_of = |slot: &[u8; STEP]| usize::from(u16_at(slot, 0));
    // A page that was built whole has its records in order; those that were appended since stand
    // before them, in the opposite one. Then nothing more is to be looked at.
    let (mut at, mut built) = (start, slots);
    while let [others @ .., last] = built
        && offset_of(last) == at
    {
        (at, built) = (end(bytes, at, last)?, others);
    }
    let follows = |at, slot| if offset_of(slot) == at { end(bytes, at, slot).ok() } else { None };
    if built.iter().try_fold(at, follows) == Some(bytes.len()) {
        return Ok(());
    }
    let mut heap = Heap::new(start, bytes.len());
    for slot in slots {
        let at = offset_of(slot);
        if !(start..bytes.len() - 1).contains(&at) {
            return Err("a record outside of the page's heap");
        }
        heap.add(at, end(bytes, at, slot)?);
    }
    if heap.is_full() { Ok(()) } else { Err("a gap or overlap between records") }
}

/// The part of a page that its records shall fill.
struct Heap {
    start: usize,
    end: usize,
    /// Where records begin, a bit for each byte, and then as many bits for where they end.
    marks: Vec<u64>,
    /// The length of all records.
    sum: usize,
}

impl Heap {
    fn new(start: usize, end: usize) -> Self {
        let mut marks = vec![0; 2 * (end / 64 + 1)];
        // Another one would begin there.
        marks[end / 64] = 1 << (end % 64);
        Self { start, end, marks, sum: 0 }
    }

    /// Adds a record, which lies in the page.
    #[inline(always)]
    fn add(&mut self, at: usize, end: usize) {
        let half = self.marks.len() / 2;
        self.marks[at / 64] |= 1 << (at % 64);
        self.marks[half + end / 64] |= 1 << (end % 64);
        self.sum += end - at;
    }

    /// Whether the records fill it, and no byte is in two of them: each ends where another one
    /// begins, or at the end, and together they are as long as it is.
    #[inline(always)]
    fn is_full(&self) -> bool {
        let begins_at_start = self.marks[self.start / 64] >> (self.start % 64) & 1 != 0;
        let (begins, ends) = self.marks.split_at(self.marks.len() / 2);
        let marks = begins.iter().zip(ends);
        let is_chained = marks.fold(0, |open, (begins, ends)| open | ends & !begins) == 0;
        is_chained && begins_at_start && self.sum == self.end - self.start
    }
}

/// Whether the records of a leaf that is not ALIGNED are all short, with one value each, and fill
/// the heap from `start` on: those of a page that was built whole in the order of their slots, and
/// before them, in the opposite one, those that were appended since. None is looked at because of
/// another one, so that the processor looks at several of them at a time.
fn are_short_dense(bytes: &[u8], slots: &[[u8; 2]], start: usize) -> bool {
    let at = |slot: &[u8; 2]| usize::from(u16_at(slot, 0));
    let appends = |two: &[[u8; 2]]| at(&two[1]) < at(&two[0]);
    let count = slots.windows(2).position(appends).map_or(slots.len(), |last| last + 1);
    let (built, appended) = slots.split_at(count);
    let ([first, others @ ..], [before @ .., lowest]) = (built, slots) else { return false };
    let lowest = if appended.is_empty() { first } else { lowest };

    let (mut gaps, mut lengths) = (at(lowest) ^ start, 0);
    let mut is_inside = true;
    let mut chain = |slot: &[u8; 2], next: usize| match bytes.get(at(slot)..) {
        Some([key, value, ..]) => {
            lengths |= key | value;
            gaps |= (at(slot) + 2 + usize::from(*key) + usize::from(*value)) ^ next;
        }
        _ => is_inside = false,
    };
    built.iter().zip(others).for_each(|(slot, next)| chain(slot, at(next)));
    chain(&built[count - 1], bytes.len());
    if let [oldest, newer @ ..] = appended {
        chain(oldest, at(first));
        newer.iter().zip(&before[count..]).for_each(|(slot, next)| chain(slot, at(next)));
    }
    is_inside && gaps == 0 && lengths < 0x80
}

/// Whether the records of an ALIGNED leaf are all short and fill the heap from `start` to `end`.
/// The slots tell all of it.
fn are_short(slots: &[[u8; 4]], start: usize, end: usize) -> bool {
    let all = slots.iter().fold(0, |all, slot| all | u32::from_le_bytes(*slot));
    if all & LONG_SLOT != 0 {
        return false;
    }
    if are_short_in_turn(slots, start, end) {
        return true;
    }
    let mut heap = Heap::new(start, end);
    for record in slots.iter().map(Short::new) {
        let (at, next) = (record.at as usize, (record.at + record.len) as usize);
        if at < start || next > end {
            return false;
        }
        heap.add(at, next);
    }
    heap.is_full()
}

/// Whether they do so in the order of their slots or in the opposite one: the processor looks at
/// several of them at a time.
fn are_short_in_turn(slots: &[[u8; 4]], start: usize, end: usize) -> bool {
    let ([first, ..], [.., last]) = (slots, slots) else { return false };
    let (mut low, mut high) = (Short::new(first), Short::new(last));
    let is_turned = low.at > high.at;
    let gaps = if is_turned {
        (low, high) = (high, low);
        gaps(&slots[1..], slots)
    } else {
        gaps(slots, &slots[1..])
    };
    gaps == 0 && low.at as usize == start && (high.at + high.len) as usize == end
}

/// The bits of a slot that are set where key or value is not short.
const LONG_SLOT: u32 = short::STEPS << 16 | short::STEPS << 24;

/// Zero if each of the records ends where the one beside it in `nexts` begins.
#[inline(always)]
fn gaps(slots: &[[u8; 4]], nexts: &[[u8; 4]]) -> u32 {
    let pairs = slots.iter().zip(nexts);
    pairs.fold(0, |gaps, (slot, next)| {
        let (slot, next) = (Short::new(slot), Short::new(next));
        gaps | (slot.at + slot.len) ^ next.at
    })
}

/// Where a record of a short key and a short value begins, and how long it is.
#[derive(Clone, Copy)]
struct Short {
    at: u32,
    len: u32,
}

impl Short {
    #[inline(always)]
    fn new(slot: &[u8; 4]) -> Self {
        let word = u32::from_le_bytes(*slot);
        Self { at: word & 0xFFFF, len: short_len(word >> 16 & 0xFF, word >> 24) }
    }
}

const UNKNOWN: &str = "an unknown code in a record";
const TOO_LONG: &str = "a record reaches beyond its page";
const NOT_WHOLE: &str = "keys or values share bytes in a page that says that they do not";

/// Where the record at `at` ends.
#[inline(always)]
fn record_end(bytes: &[u8], at: usize, _: &[u8; 2]) -> Result<usize, &'static str> {
    let level = bytes[LEVEL_OFFSET];
    // The usual record of a leaf: short, with one value.
    if let Some([key @ 0..0x80, value @ 0..0x80, ..]) = bytes.get(at..)
        && level == 0
    {
        let end = at + 2 + usize::from(*key) + usize::from(*value);
        return if end > bytes.len() { Err(TOO_LONG) } else { Ok(end) };
    }
    other_record_end(bytes, at, level)
}

#[inline(never)]
fn other_record_end(bytes: &[u8], at: usize, level: u8) -> Result<usize, &'static str> {
    let (key, at) = length(bytes, at)?;
    let (value, at) = length(bytes, at)?;
    let at = key_end(bytes, at, key)?;
    let end = match value {
        _ if level > 0 && value < code::FIRST => at + value.saturating_sub(1) as usize,
        code::GROUP if level == 0 => group_end(bytes, at)?,
        code::EXTENT if level == 0 => at + EXTENT_CELL,
        len if len < code::FIRST => at + len as usize,
        _ => return Err(UNKNOWN),
    };
    if end > bytes.len() { Err(TOO_LONG) } else { Ok(end) }
}

/// Where the key's part of a record ends that begins at `at`, given its length or code.
fn key_end(bytes: &[u8], at: usize, key: u32) -> Result<usize, &'static str> {
    if key == code::EXTENT {
        let known = half(bytes, at + EXTENT_CELL)?;
        if known > KNOWN_MAX {
            return Err("more of a long key than a page keeps");
        }
        Ok(at + KEY_EXTENT_CELL + known)
    } else if key < code::FIRST {
        Ok(at + key as usize)
    } else {
        Err(UNKNOWN)
    }
}

/// Where the record at `at` of an ALIGNED leaf ends.
#[inline(always)]
fn aligned_record_end(bytes: &[u8], at: usize, slot: &[u8; 4]) -> Result<usize, &'static str> {
    let [key, value] = [u32::from(slot[2]), u32::from(slot[3])];
    if at % 2 == 1 {
        return Err("a record at an odd place in a page of aligned records");
    }
    if key < short::STEPS && value < short::STEPS {
        let end = at + padded(pad2(key as usize) + value as usize);
        return if end > bytes.len() { Err(TOO_LONG) } else { Ok(end) };
    }
    other_aligned_record_end(bytes, at, (key, value))
}

#[inline(never)]
fn other_aligned_record_end(
    bytes: &[u8],
    at: usize,
    (first, second): (u32, u32),
) -> Result<usize, &'static str> {
    let (mut prefix_at, mut lengths) = (at, [0; 2]);
    for (byte, length) in [first, second].into_iter().zip(&mut lengths) {
        *length = match byte {
            short::LONG => {
                prefix_at += 2;
                half(bytes, prefix_at - 2)? as u32
            }
            ..short::LONG | short::GROUP | short::EXTENT => length_of(byte),
            _ => return Err(UNKNOWN),
        };
        // Codes stand in the slot.
        if byte == short::LONG && *length >= code::FIRST {
            return Err(UNKNOWN);
        }
    }
    let [key, value] = lengths;
    let prefix = prefix_len(key, value, first == short::LONG, second == short::LONG);
    let value_at = pad2(key_end(bytes, at + prefix, key)?);
    let end = match value {
        code::GROUP => group_end(bytes, value_at)?,
        code::EXTENT => value_at + Layout::Aligned.extent_cell(),
        len => value_at + len as usize,
    };
    let end = at + padded(end - at);
    if end > bytes.len() { Err(TOO_LONG) } else { Ok(end) }
}

fn half(bytes: &[u8], at: usize) -> Result<usize, &'static str> {
    if at + 2 > bytes.len() {
        return Err(TOO_LONG);
    }
    Ok(usize::from(u16_at(bytes, at)))
}

fn length(bytes: &[u8], at: usize) -> Result<(u32, usize), &'static str> {
    match bytes.get(at..) {
        Some([short @ 0..0x80, ..]) => Ok((u32::from(*short), at + 1)),
        Some([high, low, ..]) => Ok((u32::from(high & 0x7F) << 8 | u32::from(*low), at + 2)),
        _ => Err(TOO_LONG),
    }
}

fn group_end(bytes: &[u8], at: usize) -> Result<usize, &'static str> {
    let count = half(bytes, at)?;
    let shared = half(bytes, at + 2)?;
    let stride = half(bytes, at + 4)?;
    if count < 2 {
        return Err("a group of less than two values");
    }
    if shared > 0 && bytes[FLAGS_OFFSET] & WHOLE != 0 {
        return Err(NOT_WHOLE);
    }
    let layout = Layout::of(bytes[FLAGS_OFFSET]);
    let ends = at + layout.group_header() + shared;
    // Values of a key differ, so that they cannot all be empty; and a page holds no more values
    // than it has bytes.
    if stride == 0 {
        return Err("a group of equal values");
    }
    if stride != VARIED {
        return Ok(ends + count * stride);
    }
    let data = ends + layout.ends_len(count);
    let mut last = 0;
    for i in 0..count {
        let end = half(bytes, ends + 2 * i)?;
        if end < last {
            return Err("the values of a group overlap");
        }
        last = layout.padded(end);
    }
    Ok(data + last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    #[test]
    fn the_length_of_a_short_record_is_that_of_any() {
        for key in 0..short::STEPS {
            for value in 0..short::STEPS {
                let any = padded(pad2(key as usize) + value as usize);
                assert_eq!(short_len(key, value) as usize, any, "{key} {value}");
            }
        }
    }

    /// Slots of records that fill the end of a page of 4096 bytes, where these begin.
    fn slots(random: &mut impl FnMut(usize) -> usize, turned: bool) -> (Vec<[u8; 4]>, usize) {
        let n = 1 + random(16);
        let lengths: Vec<_> = (0..n).map(|_| [random(0x80) as u8, random(0x80) as u8]).collect();
        let len = |&[key, value]: &[u8; 2]| short_len(key.into(), value.into()) as usize;
        let start = 4096 - lengths.iter().map(len).sum::<usize>();
        let mut at = start;
        let slots = lengths.iter().map(|lengths| {
            let [low, high] = (at as u16).to_le_bytes();
            at += len(lengths);
            [low, high, lengths[0], lengths[1]]
        });
        let mut slots: Vec<_> = slots.collect();
        if turned {
            slots.reverse();
        }
        (slots, start)
    }

    /// As [`check_heap`], by the records in their order.
    fn is_full(bytes: &[u8], slots: &[u8], start: usize) -> bool {
        let mut places: Vec<_> = slots.as_chunks().0.to_vec();
        places.sort_unstable_by_key(|slot| u16_at(slot, 0));
        let end = places.iter().try_fold(start, |at, slot| {
            let end = record_end(bytes, at, slot).ok();
            end.filter(|_| usize::from(u16_at(slot, 0)) == at)
        });
        end == Some(bytes.len())
    }

    #[test]
    fn records_that_fill_the_heap_in_any_order_are_known_and_others_are_not() {
        let mut random = random::indexes(1);
        let mut full = 0;
        for round in 0..4000 {
            let mut bytes = vec![0; if round % 3 == 0 { 65536 } else { 4096 }];
            let (mut slots, mut at) = (Vec::new(), bytes.len());
            for _ in 0..1 + random(16) {
                let lengths = [random(0x80) as u8, random(0x80) as u8];
                at -= 2 + usize::from(lengths[0]) + usize::from(lengths[1]);
                bytes[at..at + 2].copy_from_slice(&lengths);
                slots.push(at as u16);
            }
            for i in (1..slots.len()).rev() {
                slots.swap(i, random(i + 1));
            }
            match round % 8 {
                0 => slots[0] ^= 1 << random(16),
                1 => bytes[usize::from(slots[0])] ^= 1 << random(7),
                2 => slots[0] = slots[random(slots.len())],
                3 => at -= random(3),
                _ => {}
            }
            let slots: Vec<_> = slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
            let naive = is_full(&bytes, &slots, at);
            assert_eq!(check_heap(&bytes, &slots, at, record_end).is_ok(), naive, "{round}");
            full += usize::from(naive);
        }
        assert!((2000..2500).contains(&full), "{full}");
    }

    #[test]
    fn short_records_in_turn_are_known_and_others_are_not() {
        let mut random = random::indexes(1);
        let mut known = 0;
        for round in 0..4000 {
            let mut bytes = vec![0; 4096];
            let (count, built) = (1 + random(12), random(13));
            let len = |[key, value]: [u8; 2]| 2 + usize::from(key) + usize::from(value);
            let lengths: Vec<_> =
                (0..count).map(|_| [random(0x80) as u8, random(0x80) as u8]).collect();
            let built = built.clamp(1, count);
            let start = 4096 - lengths.iter().copied().map(len).sum::<usize>();
            // From the end: the built ones backwards, then the appended ones.
            let (mut at, mut slots) = (4096, vec![[0; 2]; count]);
            for i in (0..built).rev().chain(built..count) {
                at -= len(lengths[i]);
                bytes[at..at + 2].copy_from_slice(&lengths[i]);
                slots[i] = (at as u16).to_le_bytes();
            }
            let mut start = start;
            match round % 8 {
                0 => slots[random(count)][random(2)] ^= 1 << random(8),
                1 => bytes[random(100) + 3990] ^= 1 << random(8),
                2 => slots[0] = slots[random(count)],
                3 => start -= random(3),
                4 => slots.swap(random(count), 0),
                _ => {}
            }
            let flat = slots.as_flattened();
            let are_short = slots.iter().all(|slot| {
                let lengths = bytes.get(usize::from(u16_at(slot, 0))..).unwrap_or_default();
                matches!(lengths, [..0x80, ..0x80, ..])
            });
            let found = are_short_dense(&bytes, &slots, start);
            assert!(!found || are_short && is_full(&bytes, flat, start), "{round}: {slots:?}");
            assert!(found || round % 8 < 5, "{round}: {slots:?}");
            known += usize::from(found);
        }
        assert!((1900..3000).contains(&known), "{known}");
    }

    #[test]
    fn short_records_that_fill_the_heap_are_known_and_others_are_not() {
        let mut random = random::indexes(1);
        let mut page = [0; 4096];
        page[FLAGS_OFFSET] = ALIGNED | WHOLE;
        let is_full = |slots: &[[u8; 4]], start: usize| {
            let mut slots = slots.to_vec();
            slots.sort_unstable_by_key(|slot| u16_at(slot, 0));
            let end = slots.iter().try_fold(start, |at, slot| {
                let is_here = usize::from(u16_at(slot, 0)) == at;
                let is_short = slot[2] < 0x80 && slot[3] < 0x80;
                let end = aligned_record_end(&page, at, slot).ok();
                end.filter(|_| is_here && is_short)
            });
            end == Some(page.len())
        };
        let mut full = 0;
        for round in 0..4000 {
            let (mut slots, start) = slots(&mut random, round % 2 == 1);
            if round % 3 == 0 {
                let other = random(slots.len());
                slots.swap(0, other);
            }
            // A bit of a byte is another one, in half of the rounds.
            if round % 4 < 2 {
                let at = random(slots.len());
                slots[at][random(4)] ^= 1 << random(8);
            }
            let naive = is_full(&slots, start);
            assert_eq!(are_short(&slots, start, page.len()), naive, "{slots:?}");
            full += usize::from(naive);
        }
        assert!((1900..2200).contains(&full), "{full}");
    }
}
