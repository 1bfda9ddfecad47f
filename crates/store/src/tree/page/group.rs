//! Several values of one key inside a leaf.
//!
//! ```text
//! count u16, shared length u16, stride u16 | shared bytes | ends u16 x count, if stride is VARIED
//! | what follows (or precedes, VALUES_REVERSED) the shared bytes in each value, side by side
//! ```
//!
//! If all values of a group have one length, the stride is what each takes, and no ends are stored.
//! In an ALIGNED leaf two bytes of zero follow the stride. Unless all values have one length, a
//! byte of zero follows each value of an odd length, and the ends are padded to a multiple of 8.

use super::record::pad2;
use super::{Bytes, Layout, Page, VALUES_REVERSED};
use crate::coding::put_u16;

/// The stride of a group whose values have different lengths.
pub(crate) const VARIED: usize = 0xFFFF;
/// Count, shared length, stride.
pub(crate) const GROUP_HEADER: usize = 6;

impl Layout {
    /// What stands before the shared bytes of a group.
    #[inline(always)]
    pub(crate) fn group_header(self) -> usize {
        match self {
            Self::Dense | Self::Headless => GROUP_HEADER,
            Self::Aligned => GROUP_HEADER + 2,
        }
    }

    /// How many bytes the ends of `count` values take.
    #[inline(always)]
    pub(crate) fn ends_len(self, count: usize) -> usize {
        match self {
            Self::Dense | Self::Headless => 2 * count,
            Self::Aligned => (2 * count).next_multiple_of(8),
        }
    }

    /// What a value of a group takes where the values have different lengths.
    #[inline(always)]
    pub(crate) fn padded(self, len: usize) -> usize {
        match self {
            Self::Dense | Self::Headless => len,
            Self::Aligned => pad2(len),
        }
    }
}

/// A view of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a> {
    page: Page<'a>,
    count: usize,
    stride: usize,
    shared: &'a [u8],
    /// Where the ends stand, or would.
    ends: usize,
    /// Where the values stand.
    data: usize,
    /// What a value's end is rounded up to a multiple of, less 1, to tell the next one's beginning.
    pad: usize,
}

impl<'a> Group<'a> {
    /// The group at a byte offset of a page.
    #[inline(always)]
    pub(crate) fn at(page: Page<'a>, at: usize) -> Self {
        if page.is_aligned() {
            return Self::aligned(page, at);
        }
        let count = page.half(at);
        let shared = page.half(at + 2);
        let stride = page.half(at + 4);
        let ends = at + GROUP_HEADER + shared;
        let data = if stride == VARIED { ends + 2 * count } else { ends };
        let shared = page.slice(at + GROUP_HEADER, shared);
        Self { page, count, stride, shared, ends, data, pad: 0 }
    }

    /// The group at a byte offset of an ALIGNED leaf.
    #[inline(always)]
    pub(crate) fn aligned(page: Page<'a>, at: usize) -> Self {
        let (count, stride) = (page.half(at), page.half(at + 4));
        let ends = at + Layout::Aligned.group_header();
        let ends_len = if stride == VARIED { Layout::Aligned.ends_len(count) } else { 0 };
        Self { page, count, stride, shared: &[], ends, data: ends + ends_len, pad: 1 }
    }

    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// What all values share.
    pub(crate) fn shared(&self) -> &'a [u8] {
        self.shared
    }

    /// What each value has besides that in bytes, if that is the same for all.
    pub(crate) fn stride(&self) -> Option<usize> {
        (self.stride != VARIED).then_some(self.stride)
    }

    /// Where the end of value `i` stands, or would; of a group without ends where its value does.
    pub(crate) fn end_at(&self, i: usize) -> usize {
        if self.stride == VARIED { self.ends + 2 * i } else { self.rest_at(i) }
    }

    /// Where the values stand.
    pub(crate) fn data(&self) -> usize {
        self.data
    }

    /// Where the rest of value `i` stands; `i` may be the number of values.
    pub(crate) fn rest_at(&self, i: usize) -> usize {
        match self.stride {
            VARIED => self.data + self.start(i),
            stride => self.data + i * stride,
        }
    }

    /// Where the rest of value `i` begins in those of different lengths.
    #[inline(always)]
    fn start(&self, i: usize) -> usize {
        match i {
            0 => 0,
            _ => (self.page.half(self.ends + 2 * (i - 1)) + self.pad) & !self.pad,
        }
    }

    /// What value `i` has besides the shared bytes.
    #[inline(always)]
    pub(crate) fn rest(&self, i: usize) -> &'a [u8] {
        if self.stride != VARIED {
            return self.page.slice(self.data + i * self.stride, self.stride);
        }
        let start = self.start(i);
        self.page.slice(self.data + start, self.page.half(self.ends + 2 * i) - start)
    }

    /// Value `i`.
    #[inline(always)]
    pub(crate) fn value(&self, i: usize) -> Bytes<'a> {
        let rest = self.rest(i);
        if self.page.flags() & VALUES_REVERSED != 0 {
            Bytes::new(rest, self.shared)
        } else {
            Bytes::new(self.shared, rest)
        }
    }

    /// `count` values from value `from` on, if all of the group have one length.
    pub(crate) fn run(&self, from: usize, count: usize) -> Option<ValueRun<'a>> {
        let rests = match self.stride {
            VARIED => return None,
            stride => self.page.slice(self.data + from * stride, count * stride),
        };
        let is_reversed = self.page.flags() & VALUES_REVERSED != 0;
        Some(ValueRun { shared: self.shared, rests, count, is_reversed })
    }

    /// Length of the group in bytes.
    pub(crate) fn len(&self) -> usize {
        let values =
            if self.stride != VARIED { self.count * self.stride } else { self.start(self.count) };
        let header = if self.pad == 0 { GROUP_HEADER } else { GROUP_HEADER + 2 };
        header + self.shared.len() + (self.data - self.ends) + values
    }
}

/// Neighbouring values of one key, all of one length.
#[derive(Clone, Copy, Debug)]
pub struct ValueRun<'t> {
    shared: &'t [u8],
    rests: &'t [u8],
    count: usize,
    /// Whether the shared bytes are the last ones.
    is_reversed: bool,
}

impl<'t> ValueRun<'t> {
    /// A value alone.
    pub(crate) fn of(value: &'t [u8]) -> Self {
        Self { shared: &[], rests: value, count: 1, is_reversed: false }
    }

    /// How many values there are; not 0.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The values side by side, if they are stored so.
    pub fn packed(&self) -> Option<&'t [u8]> {
        self.shared.is_empty().then_some(self.rests)
    }

    /// Adds the values to the end of `buffer`, side by side.
    pub fn append_to(&self, buffer: &mut Vec<u8>) {
        let own = self.rests.len() / self.count;
        if self.shared.is_empty() {
            buffer.extend_from_slice(self.rests);
        } else if own + self.shared.len() <= WORD {
            self.append_words(buffer, own);
        } else {
            for i in 0..self.count {
                let (first, second) = self.parts(&self.rests[i * own..(i + 1) * own]);
                buffer.extend_from_slice(first);
                buffer.extend_from_slice(second);
            }
        }
    }

    fn parts<'p>(&'p self, rest: &'p [u8]) -> (&'p [u8], &'p [u8]) {
        if self.is_reversed { (rest, self.shared) } else { (self.shared, rest) }
    }

    /// As [`ValueRun::append_to`] for values that fit into a word: put together there.
    fn append_words(&self, buffer: &mut Vec<u8>, own: usize) {
        let (own_by, shared_by) =
            if self.is_reversed { (0, 8 * own) } else { (8 * self.shared.len(), 0) };
        let shared = word_at(self.shared, 0).unbounded_shl(shared_by as u32);
        // Integers in few instructions, since their lengths are known here.
        match (own, own + self.shared.len()) {
            (1, 8) => append_fixed::<1, 8>(self.rests, own_by, shared, buffer),
            (2, 8) => append_fixed::<2, 8>(self.rests, own_by, shared, buffer),
            (3, 8) => append_fixed::<3, 8>(self.rests, own_by, shared, buffer),
            (4, 8) => append_fixed::<4, 8>(self.rests, own_by, shared, buffer),
            (1, 4) => append_fixed::<1, 4>(self.rests, own_by, shared, buffer),
            (2, 4) => append_fixed::<2, 4>(self.rests, own_by, shared, buffer),
            (_, len) => {
                for i in 0..self.count {
                    let rest = word_at(&self.rests[i * own..(i + 1) * own], 0);
                    let value = rest.wrapping_shl(own_by as u32) | shared;
                    buffer.extend_from_slice(&value.to_le_bytes()[..len]);
                }
            }
        }
    }
}

/// How many values are put together before they are added to a buffer.
const TOGETHER: usize = 64;

/// Adds values of `LEN` bytes, of which `OWN` stand in `rests`, to be moved up by `own_by` bits,
/// and the others in `shared`.
#[inline(never)]
fn append_fixed<const OWN: usize, const LEN: usize>(
    rests: &[u8],
    own_by: usize,
    shared: u64,
    buffer: &mut Vec<u8>,
) {
    let mut values = [[0; LEN]; TOGETHER];
    for rests in rests.as_chunks::<OWN>().0.chunks(TOGETHER) {
        for (value, rest) in values.iter_mut().zip(rests) {
            let mut word = [0; WORD];
            word[..OWN].copy_from_slice(rest);
            let word = u64::from_le_bytes(word).wrapping_shl(own_by as u32) | shared;
            value.copy_from_slice(&word.to_le_bytes()[..LEN]);
        }
        buffer.extend_from_slice(values[..rests.len()].as_flattened());
    }
}

const WORD: usize = size_of::<u64>();

/// The bytes from `at` on as a little-endian number; those that are not there are zero.
#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    if let Some(word) = bytes.get(at..at + WORD).and_then(|word| word.first_chunk()) {
        return u64::from_le_bytes(*word);
    }
    let mut word = [0; WORD];
    let rest = bytes.get(at..).unwrap_or_default();
    word[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(word)
}

/// What a group of values would take: fed value by value, in order.
#[derive(Clone, Copy, Default)]
pub(crate) struct GroupSize {
    pub(crate) count: usize,
    /// What all values share, in bytes.
    pub(crate) shared: usize,
    total: usize,
    /// The same with each value padded to an even length.
    padded: usize,
    first_len: usize,
    varied: bool,
}

impl GroupSize {
    /// Adds a value of `len` bytes that shares `shared` bytes with the group's first value.
    pub(crate) fn push(&mut self, len: usize, shared: usize) {
        if self.count == 0 {
            (self.shared, self.first_len) = (len, len);
        } else {
            // The length matters for a damaged page only.
            self.shared = self.shared.min(shared).min(len);
            self.varied |= len != self.first_len;
        }
        self.count += 1;
        self.total += len;
        self.padded += pad2(len);
    }

    /// Bytes of the body of a group of two and more values.
    pub(crate) fn body(&self, layout: Layout) -> usize {
        let ends = if self.varied { layout.ends_len(self.count) } else { 0 };
        let total = match layout {
            Layout::Aligned if self.varied => self.padded,
            _ => self.total,
        };
        layout.group_header() + self.shared + ends + total - self.count * self.shared
    }

    pub(crate) fn stride(&self) -> usize {
        if self.varied { VARIED } else { self.first_len - self.shared }
    }

    /// The length of a single value.
    pub(crate) fn single(&self) -> usize {
        self.first_len
    }
}

/// Writes a group of values at `at`; `values` gives them in order.
pub(crate) fn put_group<'v>(
    layout: Layout,
    out: &mut [u8],
    at: usize,
    size: &GroupSize,
    reversed: bool,
    values: impl Iterator<Item = Bytes<'v>>,
) {
    put_u16(out, at, size.count as u16);
    put_u16(out, at + 2, size.shared as u16);
    put_u16(out, at + 4, size.stride() as u16);
    let header = layout.group_header();
    out[at + GROUP_HEADER..at + header].fill(0);
    let ends = at + header + size.shared;
    let data = if size.varied { ends + layout.ends_len(size.count) } else { ends };
    if size.varied {
        out[ends + 2 * size.count..data].fill(0);
    }
    let mut end = data;
    for (i, value) in values.enumerate() {
        if i == 0 {
            let shared = if reversed {
                value.sub(value.len() - size.shared, value.len())
            } else {
                value.sub(0, size.shared)
            };
            shared.write(out, at + header);
        }
        let rest = if reversed {
            value.sub(0, value.len() - size.shared)
        } else {
            value.sub(size.shared, value.len())
        };
        rest.write(out, end);
        end += rest.len();
        if size.varied {
            put_u16(out, ends + 2 * i, (end - data) as u16);
            let padded = data + layout.padded(end - data);
            out[end..padded].fill(0);
            end = padded;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_gives_what_its_values_are_one_by_one() {
        for (own, shared) in [(1, 7), (3, 5), (8, 0), (2, 2), (0, 4), (4, 9), (20, 3), (5, 0)] {
            for (count, is_reversed) in [(1, false), (1, true), (7, false), (7, true)] {
                let bytes: Vec<u8> = (1..=200).collect();
                let (shared, rests) = (&bytes[..shared], &bytes[30..30 + own * count]);
                let run = ValueRun { shared, rests, count, is_reversed };
                let expected: Vec<u8> = (0..count)
                    .flat_map(|i| {
                        let rest = &rests[i * own..(i + 1) * own];
                        if is_reversed { [rest, shared].concat() } else { [shared, rest].concat() }
                    })
                    .collect();
                let mut got = b"before".to_vec();
                run.append_to(&mut got);
                assert_eq!(got, [b"before", &expected[..]].concat(), "{run:?}");
                assert_eq!(run.packed().is_some(), shared.is_empty());
            }
        }
    }
}
