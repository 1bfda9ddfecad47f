//! A filter that says which keys a table certainly does not hold: a blocked bloom filter over
//! 64-bit hashes of its keys.
//!
//! All bits of a key lie in one block of 64 bytes, so that a probe touches one cache line. With ten
//! bits a key, about one absent key in a hundred is taken for one that may be there.
//!
//! # The bytes
//!
//! ```text
//!   block 0 | block 1 | ... | block n-1 | kind = 1 | probes | 0 | 0
//!   64 bytes each, n >= 1               | one byte each
//! ```
//!
//! The key of hash `h` belongs to block `((h >> 32) * n) >> 32`. Its bits there are given by the
//! numbers `h * M`, `h * M * M`, ... (64 bits, what does not fit is dropped), `probes` of them: of
//! each the top nine bits are a place, bit `place % 8` of byte `place / 8`. `M` is
//! 0x9e37_79b9_7f4a_7c15. `h` is [`hash`] of the key.
//!
//! This module knows hashes and bytes; it knows no table and no order.

use crate::prefetch::prefetch_line;

/// Bits a key that a table is given unless its owner says otherwise.
pub(crate) const BITS_PER_KEY: u32 = 10;

/// The bytes of a block: a cache line.
const BLOCK: usize = 64;
/// The bytes after the blocks.
const FOOTER: usize = 4;
/// The layout on this page.
const KIND: u8 = 1;
/// More probes than this find hardly anything more.
const PROBES_MAX: u32 = 12;
/// An odd number near 2^64 over the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a key, the same on every machine: part of the format.
///
/// Over the key in pieces of 16 bytes, the last one filled up with zeros: `state = fold(a ^ S,
/// b ^ state)`, where `a` and `b` are the halves of a piece as little-endian numbers and `fold` is
/// the exclusive or of the two halves of a product. At first `state` is the length times `M`; in
/// the end it is `fold(state ^ T, M)`.
pub(crate) fn hash(key: &[u8]) -> u64 {
    const S: u64 = 0xa076_1d64_78bd_642f;
    const T: u64 = 0xe703_7ed1_a0b4_28db;
    let mut state = (key.len() as u64).wrapping_mul(MULTIPLIER);
    let mut take = |both: u128| state = fold(both as u64 ^ S, (both >> 64) as u64 ^ state);
    let (whole, rest) = key.as_chunks::<16>();
    whole.iter().for_each(|part| take(u128::from_le_bytes(*part)));
    if !rest.is_empty() {
        take(filled_up(rest));
    }
    fold(state ^ T, MULTIPLIER)
}

/// Less than sixteen bytes, filled up with zeros, as a little-endian number.
#[inline]
fn filled_up(bytes: &[u8]) -> u128 {
    let bits = 8 * bytes.len() as u32;
    // Both ends, which may overlap.
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let last = u128::from(u64::from_le_bytes(*last)) << (bits - 64);
        return u128::from(u64::from_le_bytes(*first)) | last;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let last = u64::from(u32::from_le_bytes(*last)) << (bits - 32);
        return u128::from(u64::from(u32::from_le_bytes(*first)) | last);
    }
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

/// The two halves of a product, joined by exclusive or.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The filter of the keys of these hashes, with about this many bits for each.
pub(crate) fn build(hashes: &[u64], bits_per_key: u32) -> Vec<u8> {
    // As many probes as halve the bits, less one or two, since blocks are filled unevenly.
    let probes = (bits_per_key * 6 / 10).clamp(1, PROBES_MAX);
    let bits = hashes.len() * bits_per_key as usize;
    let blocks = bits.div_ceil(BLOCK * 8).clamp(1, u32::MAX as usize);
    let mut bytes = vec![0; blocks * BLOCK];
    for &hash in hashes {
        let start = block_of(hash, blocks) * BLOCK;
        let block = &mut bytes[start..start + BLOCK];
        for place in places(hash, probes) {
            block[place / 8] |= 1 << (place % 8);
        }
    }
    bytes.extend([KIND, probes as u8, 0, 0]);
    bytes
}

/// A block where a question touches one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Line([u8; BLOCK]);

/// A filter of bytes of any origin.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    blocks: Box<[Line]>,
    probes: u32,
}

impl Filter {
    /// Takes bytes for a filter. `None` if they are none, or one of a kind that this build does not
    /// know: then nothing is known about any key.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let (rest, &[kind, probes, 0, 0]) = bytes.split_last_chunk::<FOOTER>()? else {
            return None;
        };
        let (blocks, excess) = rest.as_chunks::<BLOCK>();
        let probes = u32::from(probes);
        let fits = kind == KIND
            && excess.is_empty()
            && (1..=u32::MAX as usize).contains(&blocks.len())
            && (1..=PROBES_MAX).contains(&probes);
        fits.then(|| Self { blocks: blocks.iter().map(|block| Line(*block)).collect(), probes })
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.blocks)
    }

    /// Has the processor fetch what tells about the key of this hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let block = &self.blocks[block_of(hash, self.blocks.len())];
        prefetch_line(block.0.as_ptr());
    }

    /// False if the key of this hash is surely not among those that the filter was built of.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let block = &self.blocks[block_of(hash, self.blocks.len())];
        places(hash, self.probes).all(|place| block.0[place / 8] & (1 << (place % 8)) != 0)
    }
}

/// The block that a key belongs to: less than `blocks`.
fn block_of(hash: u64, blocks: usize) -> usize {
    (((hash >> 32) * blocks as u64) >> 32) as usize
}

/// The bits of a key in its block, each less than 512.
fn places(hash: u64, probes: u32) -> impl Iterator<Item = usize> {
    let next = |number: &u64| Some(number.wrapping_mul(MULTIPLIER));
    std::iter::successors(next(&hash), next)
        .map(|number| (number >> 55) as usize)
        .take(probes as usize)
}

#[cfg(test)]
mod tests {
    //! No key is lost, few absent keys are taken for present, and no bytes do harm.

    use proptest::prelude::*;

    use super::*;

    /// Keys as programs make them: numbers that ascend.
    fn hashes(numbers: std::ops::Range<u64>) -> Vec<u64> {
        numbers.map(|number| hash(&number.to_be_bytes())).collect()
    }

    #[test]
    fn the_layout_does_not_change() {
        assert_eq!(hash(b""), 0x0850_f979_4d51_08b4);
        assert_eq!(hash(b"hedgerow"), 0x9c87_d0e0_dcd6_0607);
        assert_eq!(hash(b"a key of more than sixteen bytes"), 0xebd8_1ca5_9abe_ee74);
        let bytes = build(&[0x0123_4567_89ab_cdef], BITS_PER_KEY);
        let set: Vec<usize> =
            (0..512).filter(|place| bytes[place / 8] & (1 << (place % 8)) != 0).collect();
        assert_eq!(set, [25, 108, 152, 214, 253, 417]);
        assert_eq!(bytes[BLOCK..], [1, 6, 0, 0]);
    }

    #[test]
    fn what_is_filled_up_are_these_bytes() {
        let bytes: Vec<u8> = (1..16).map(|byte| byte * 17).collect();
        for len in 0..bytes.len() {
            let mut filled = [0; 16];
            filled[..len].copy_from_slice(&bytes[..len]);
            assert_eq!(filled_up(&bytes[..len]), u128::from_le_bytes(filled));
        }
    }

    #[test]
    fn few_absent_keys_are_taken_for_present_ones() {
        let count: u64 = if cfg!(miri) { 500 } else { 100_000 };
        for (bits, most) in [(6, 0.08), (10, 0.0125), (16, 0.0025), (20, 0.0012)] {
            let bytes = build(&hashes(0..count), bits);
            assert!(bytes.len() as u64 <= count * u64::from(bits) / 8 + 64 + 4);
            let filter = Filter::new(&bytes).unwrap();
            assert!(hashes(0..count).into_iter().all(|hash| filter.may_contain(hash)));
            let absent = hashes(count..3 * count);
            let wrong = absent.iter().filter(|hash| filter.may_contain(**hash)).count();
            let rate = wrong as f64 / absent.len() as f64;
            if !cfg!(miri) {
                assert!((most / 5.0..most).contains(&rate), "{bits} bits a key: {rate}");
            }
        }
    }

    #[test]
    fn a_filter_of_nothing_holds_nothing() {
        let bytes = build(&[], BITS_PER_KEY);
        assert!(
            hashes(0..100).into_iter().all(|hash| !Filter::new(&bytes).unwrap().may_contain(hash))
        );
    }

    #[test]
    fn bytes_that_are_no_filter_are_refused() {
        let bytes = build(&hashes(0..100), BITS_PER_KEY);
        assert!(Filter::new(&bytes[1..]).is_none());
        assert!(Filter::new(&bytes[bytes.len() - FOOTER..]).is_none());
        for (at, byte) in [(4, 2), (3, 0), (3, 13), (2, 1), (1, 1)] {
            let mut changed = bytes.clone();
            let place = changed.len() - at;
            changed[place] = byte;
            assert!(Filter::new(&changed).is_none(), "byte {at} from the end is {byte}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 8 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn no_bytes_do_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..300), hash: u64) {
            if let Some(filter) = Filter::new(&bytes) {
                filter.may_contain(hash);
            }
            bytes.truncate(bytes.len() / BLOCK * BLOCK);
            bytes.extend([KIND, hash as u8, 0, 0]);
            if let Some(filter) = Filter::new(&bytes) {
                filter.may_contain(hash);
            }
        }

        #[test]
        fn no_key_is_lost(
            keys in prop::collection::vec(any::<Vec<u8>>(), 0..80),
            bits in 1..30_u32,
        ) {
            let hashes: Vec<u64> = keys.iter().map(|key| hash(key)).collect();
            let bytes = build(&hashes, bits);
            let filter = Filter::new(&bytes).unwrap();
            prop_assert!(hashes.into_iter().all(|hash| filter.may_contain(hash)));
        }
    }
}
