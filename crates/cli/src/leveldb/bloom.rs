//! The filter that LevelDB's Bloom policy makes of keys: bits, and one byte with the number of
//! probes, which are made of one hash by double hashing (Kirsch, Mitzenmacher: Less hashing, same
//! performance, ESA 2006).

/// The policy's name, as tables note it.
pub(super) const NAME: &[u8] = b"filter.leveldb.BuiltinBloomFilter2";

const BITS_PER_KEY: usize = 10;
const PROBES: u8 = 6;
const SEED: u32 = 0xbc9f_1d34;
const FACTOR: u32 = 0xc6a4_a793;

/// The hash of a key.
pub(super) fn hash(key: &[u8]) -> u32 {
    let mut hash = SEED ^ (key.len() as u32).wrapping_mul(FACTOR);
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        hash = hash.wrapping_add(u32::from_le_bytes(*word)).wrapping_mul(FACTOR);
        hash ^= hash >> 16;
    }
    for (index, &byte) in rest.iter().enumerate() {
        hash = hash.wrapping_add(u32::from(byte) << (8 * index));
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(FACTOR);
        hash ^= hash >> 24;
    }
    hash
}

/// Adds the filter of keys with these hashes.
pub(super) fn push(filter: &mut Vec<u8>, hashes: &[u32]) {
    let bytes = (hashes.len() * BITS_PER_KEY).max(64).div_ceil(8);
    let begin = filter.len();
    filter.resize(begin + bytes, 0);
    for &hash in hashes {
        let step = hash.rotate_right(17);
        let mut probe = hash;
        for _ in 0..PROBES {
            let bit = probe as usize % (bytes * 8);
            filter[begin + bit / 8] |= 1 << (bit % 8);
            probe = probe.wrapping_add(step);
        }
    }
    filter.push(PROBES);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_leveldb() {
        assert_eq!(hash(b""), 0xbc9f_1d34);
        assert_eq!(hash(&[0x62]), 0xef13_45c4);
        assert_eq!(hash(&[0xc3, 0x97]), 0x5b66_3814);
        assert_eq!(hash(&[0xe2, 0x99, 0xa5]), 0x323c_078f);
        assert_eq!(hash(&[0xe1, 0x80, 0xb9, 0x32]), 0xed21_633a);
    }
}
