//! What is done by whole blocks: keys in one piece, the two parts of a key copied together; offsets
//! of records that move, shifted together.

#![expect(unsafe_code, reason = "blocks that reach beyond a string, inside its page")]

use std::mem::MaybeUninit;

use super::{HEADER_LEN, Page, SHARED_OFFSET, code};
use crate::tree::bytes::Joined;

/// What [`copy_blocks`] copies at once.
const BLOCK: usize = 16;

/// What of a leaf decides whether, and how, [`Page::joined_of`] gives its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining {
    /// Bytes that the keys share, at most `SHARED` blocks.
    shared: usize,
    /// The longest rest of a key.
    rest_max: usize,
    /// Where in the page the rest ends at the latest.
    rest_end_max: usize,
}

/// A record that a step can give with its key in one piece, by few block copies or none.
#[derive(Clone, Copy)]
pub(crate) struct Joinable {
    /// Where the key's rest stands.
    from: usize,
    /// The lengths of the rest and of the value, which follows it.
    rest: usize,
    value: usize,
}

impl Joining {
    /// Of no page.
    pub(crate) const NONE: Self = Self { shared: 0, rest_max: 0, rest_end_max: 0 };
    /// The most blocks of shared bytes, and of a rest that follows them.
    const SHARED: usize = 4;
    const REST: usize = 2;
    /// The room that a copied key needs, whatever its length.
    pub(crate) const ROOM: usize = (Self::SHARED + Self::REST + 1) * BLOCK;

    /// How many bytes the keys share.
    #[inline(always)]
    pub(crate) fn shared(&self) -> usize {
        self.shared
    }
}

/// Copies `len` bytes, at most `MOST` blocks, and less than a block more: short strings so take
/// fewer instructions than a call.
///
/// # Safety
/// `from` may be read, and `to` written, for a block more than `len` bytes; the two do not overlap.
#[inline(always)]
unsafe fn copy_blocks<const MOST: usize>(from: *const u8, to: *mut u8, len: usize) {
    for at in (0..MOST).map(|i| i * BLOCK) {
        if at > 0 && at >= len {
            break;
        }
        // SAFETY: the caller's promise: the string reaches into this block, or it is the first one.
        unsafe {
            let block = from.add(at).cast::<[u8; BLOCK]>().read();
            to.add(at).cast::<[u8; BLOCK]>().write(block);
        }
    }
}

impl<'a> Page<'a> {
    /// What [`Page::joinable_of`] needs to know of this page, a leaf but no ALIGNED one. `None` if
    /// no record of it is joinable.
    #[inline(always)]
    pub(crate) fn joining(self) -> Option<Joining> {
        let shared = self.half(SHARED_OFFSET);
        if shared > Joining::SHARED * BLOCK || shared > 0 && self.is_reversed() {
            return None;
        }
        Some(match shared {
            // Nothing is copied.
            0 => Joining { shared, rest_max: 0x7F, rest_end_max: self.size },
            _ => {
                Joining { shared, rest_max: Joining::REST * BLOCK, rest_end_max: self.size - BLOCK }
            }
        })
    }

    /// The record whose offset stands at `address`, if [`Page::joined_of`] can give it. `joining`
    /// is this page's.
    #[inline(always)]
    pub(crate) fn joinable_of(self, joining: &Joining, address: *const u8) -> Option<Joinable> {
        let at = self.half(address as usize - self.base as usize);
        let both = self.half(at);
        let (mut value, mut from) = (both >> 8, at + 2);
        if both & 0x8000 != 0 {
            value = (both & 0x7F00) | usize::from(self.byte(from));
            from += 1;
            if value >= code::FIRST as usize {
                return None;
            }
        }
        let rest = both & 0xFF;
        let is_joinable = rest <= joining.rest_max && from + rest <= joining.rest_end_max;
        is_joinable.then_some(Joinable { from, rest, value })
    }

    /// Key and value of a record of this page that [`Page::joinable_of`] has found. `shared` is
    /// that of the page's [`Joining`].
    #[inline(always)]
    pub(crate) fn joined_of(
        self,
        shared: usize,
        record: Joinable,
        room: &mut [MaybeUninit<u8>; Joining::ROOM],
    ) -> (Joined<'a>, &'a [u8]) {
        if shared > 0 {
            self.put_shared(shared, room);
        }
        self.joined_again(shared, record, room)
    }

    /// Copies what the keys share to the beginning of `room`.
    #[inline(always)]
    pub(crate) fn put_shared(self, shared: usize, room: &mut [MaybeUninit<u8>; Joining::ROOM]) {
        debug_assert!(shared <= Joining::SHARED * BLOCK);
        let to = room.as_mut_ptr().cast::<u8>();
        // SAFETY: a block after the shared bytes is inside the page, since records follow them, and
        // both have room.
        unsafe { copy_blocks::<{ Joining::SHARED }>(self.base.add(HEADER_LEN), to, shared) };
    }

    /// As [`Page::joined_of`], where what the keys share is in `room` already.
    #[inline(always)]
    pub(crate) fn joined_again(
        self,
        shared: usize,
        record: Joinable,
        room: &mut [MaybeUninit<u8>; Joining::ROOM],
    ) -> (Joined<'a>, &'a [u8]) {
        let Joinable { from, rest, value } = record;
        let value = self.slice(from + rest, value);
        if shared == 0 {
            return (Joined::Stored(self.slice(from, rest)), value);
        }
        let to = room.as_mut_ptr().cast::<u8>();
        // SAFETY: a block after the rest is inside the page by `rest_end_max`; the rest, and a
        // block, have room after the shared bytes.
        unsafe { copy_blocks::<{ Joining::REST }>(self.base.add(from), to.add(shared), rest) };
        (Joined::Copied(shared + rest), value)
    }

    /// Copies a key of which `rest`, which stands in this page, is the rest after `shared` bytes at
    /// the front; returns its length. `None` if that cannot be done in a few whole blocks: the key
    /// is long, `room` too short for a block more than that, or the rest at the page's end.
    #[inline(always)]
    pub(crate) fn join_key(
        self,
        shared: usize,
        rest: &[u8],
        room: &mut [MaybeUninit<u8>],
    ) -> Option<usize> {
        const SHARED: usize = Joining::SHARED;
        const REST: usize = Joining::REST;
        let len = shared + rest.len();
        let is_long = shared > SHARED * BLOCK || rest.len() > REST * BLOCK;
        if is_long || len + BLOCK > room.len() || !self.has_block_behind(rest) {
            return None;
        }
        let to = room.as_mut_ptr().cast::<u8>();
        // SAFETY: a block after the rest is inside the page, and so is one after the shared bytes,
        // since records follow them; a block after the key is inside `room`.
        unsafe {
            copy_blocks::<SHARED>(self.base.add(HEADER_LEN), to, shared);
            copy_blocks::<REST>(rest.as_ptr(), to.add(shared), rest.len());
        }
        Some(len)
    }

    /// As [`Page::join_key`] for any two strings that stand in this page.
    #[inline(always)]
    pub(crate) fn join(
        self,
        first: &[u8],
        second: &[u8],
        room: &mut [MaybeUninit<u8>],
    ) -> Option<usize> {
        const MOST: usize = 4;
        let len = first.len() + second.len();
        let is_long = first.len() > MOST * BLOCK || second.len() > MOST * BLOCK;
        let is_inside = self.has_block_behind(first) && self.has_block_behind(second);
        if is_long || len + BLOCK > room.len() || !is_inside {
            return None;
        }
        let to = room.as_mut_ptr().cast::<u8>();
        // SAFETY: a block after each string is inside the page, one after both inside `room`.
        unsafe {
            copy_blocks::<MOST>(first.as_ptr(), to, first.len());
            copy_blocks::<MOST>(second.as_ptr(), to.add(first.len()), second.len());
        }
        Some(len)
    }

    /// Whether a string in this page is followed by a block that is inside the page, too.
    #[inline(always)]
    fn has_block_behind(self, string: &[u8]) -> bool {
        let at = string.as_ptr() as usize - self.base as usize;
        at + string.len() + BLOCK <= self.size
    }
}

/// Adds `by` to every offset below `limit`, many at a time. An offset stands every `step` bytes.
pub(super) fn shift_offsets(offsets: &mut [u8], step: usize, limit: usize, by: u16) {
    // Records begin inside the page, of at most 2^16 bytes.
    let limit = limit as u16;
    // Every second number of an ALIGNED leaf tells lengths, and stays.
    let other = if step == 2 { by } else { 0 };
    let by = [by, other, by, other, by, other, by, other];
    let (eights, rest) = offsets.as_chunks_mut::<2>().0.as_chunks_mut::<8>();
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        unsafe { shift_sixteens(eights, limit, by) };
    } else {
        eights.iter_mut().for_each(|eight| shift_eight(eight, limit, by));
    }
    #[cfg(not(target_arch = "x86_64"))]
    eights.iter_mut().for_each(|eight| shift(eight, limit, by));
    shift(rest, limit, by);
}

/// Adds the numbers of `by` to those of at most eight offsets that are below `limit`.
fn shift(offsets: &mut [[u8; 2]], limit: u16, by: [u16; 8]) {
    for (raw, by) in offsets.iter_mut().zip(by) {
        let offset = u16::from_le_bytes(*raw);
        *raw = offset.wrapping_add(if offset < limit { by } else { 0 }).to_le_bytes();
    }
}

/// The same for eight at once.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn shift_eight(eight: &mut [[u8; 2]; 8], limit: u16, by: [u16; 8]) {
    use std::arch::x86_64::*;
    let at = eight.as_mut_ptr().cast::<__m128i>();
    // SAFETY: SSE2 is part of the architecture; the arrays are read and written as they are long.
    unsafe {
        let by = _mm_loadu_si128(by.as_ptr().cast());
        let offsets = _mm_loadu_si128(at);
        // Nothing is left of the limit without an offset that is not below it.
        let left = _mm_subs_epu16(_mm_set1_epi16(limit.cast_signed()), offsets);
        let stays = _mm_cmpeq_epi16(left, _mm_setzero_si128());
        _mm_storeu_si128(at, _mm_add_epi16(offsets, _mm_andnot_si128(stays, by)));
    }
}

/// The same, twice eight at once.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn shift_sixteens(eights: &mut [[[u8; 2]; 8]], limit: u16, by: [u16; 8]) {
    use std::arch::x86_64::*;
    let (pairs, rest) = eights.as_chunks_mut::<2>();
    // SAFETY: the array is read as it is long.
    let both = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(by.as_ptr().cast()) });
    let limits = _mm256_set1_epi16(limit.cast_signed());
    for pair in pairs {
        let at = pair.as_mut_ptr().cast::<__m256i>();
        // SAFETY: the two arrays are read and written as they are long.
        let offsets = unsafe { _mm256_loadu_si256(at) };
        let left = _mm256_subs_epu16(limits, offsets);
        let stays = _mm256_cmpeq_epi16(left, _mm256_setzero_si256());
        let shifted = _mm256_add_epi16(offsets, _mm256_andnot_si256(stays, both));
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(at, shifted) };
    }
    rest.iter_mut().for_each(|eight| shift_eight(eight, limit, by));
}

/// Adds `by` to every number of four bytes, many at a time.
#[inline(always)]
pub(super) fn add_to_all(numbers: &mut [[u8; 4]], by: u32) {
    #[cfg(target_arch = "x86_64")]
    if numbers.len() >= 8 && is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        return unsafe { add_to_eights(numbers, by) };
    }
    add_to_each(numbers, by);
}

#[inline(always)]
fn add_to_each(numbers: &mut [[u8; 4]], by: u32) {
    for raw in numbers {
        *raw = u32::from_le_bytes(*raw).wrapping_add(by).to_le_bytes();
    }
}

/// The same, eight at once.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_to_eights(numbers: &mut [[u8; 4]], by: u32) {
    use std::arch::x86_64::*;
    let (eights, rest) = numbers.as_chunks_mut::<8>();
    let all = _mm256_set1_epi32(by.cast_signed());
    for eight in eights {
        let at = eight.as_mut_ptr().cast::<__m256i>();
        // SAFETY: the eight numbers are read and written as they are long.
        unsafe { _mm256_storeu_si256(at, _mm256_add_epi32(_mm256_loadu_si256(at), all)) };
    }
    add_to_each(rest, by);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_added_to_alike_however_many_there_are() {
        for len in 0..70_u32 {
            let numbers = (0..len).map(|i| i.wrapping_mul(0x9E37_79B1));
            let mut seen: Vec<_> = numbers.clone().map(u32::to_le_bytes).collect();
            add_to_all(&mut seen, u32::MAX - len);
            let wanted = numbers.map(|n| n.wrapping_add(u32::MAX - len).to_le_bytes());
            assert!(seen.into_iter().eq(wanted));
        }
    }

    #[test]
    fn offsets_are_shifted_alike_however_many_there_are() {
        let mut seed = 1_u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 48) as u16
        };
        for round in 0..2000 {
            let (limit, by) = (random(), random());
            let numbers: Vec<u16> = (0..round % 70).map(|_| random()).collect();
            let step = if round % 3 == 0 { 4 } else { 2 };
            let shifted = numbers.iter().enumerate().map(|(i, number)| {
                let moves = *number < limit && (step == 2 || i % 2 == 0);
                number.wrapping_add(if moves { by } else { 0 }).to_le_bytes()
            });
            let shifted: Vec<u8> = shifted.flatten().collect();
            let bytes = || numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
            let mut seen = bytes();
            shift_offsets(&mut seen, step, limit.into(), by);
            assert_eq!(seen, shifted);
            // Of a processor with fewer instructions.
            #[cfg(target_arch = "x86_64")]
            if let Some(eight) = bytes().as_chunks_mut::<2>().0.first_chunk_mut::<8>() {
                let other = if step == 2 { by } else { 0 };
                shift_eight(eight, limit, [by, other, by, other, by, other, by, other]);
                assert_eq!(eight.as_flattened(), &shifted[..16]);
            }
        }
    }
}
