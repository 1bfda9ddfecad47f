//! The entries that the engines are measured with: made from numbers by a seeded generator, the
//! same on every machine. Knows no engine.

/// A seeded generator of numbers (splitmix64).
pub(crate) struct Generator(u64);

impl Generator {
    /// The generator of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit` (at most 2^32), each about equally likely.
    #[inline(always)]
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        ((mix(self.0) >> 32) * limit) >> 32
    }

    /// Shuffles (Fisher-Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Scrambles a number; one-to-one, so that different numbers give different keys.
#[inline(always)]
fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[inline(always)]
fn hash(number: u64) -> u64 {
    mix(number.wrapping_mul(STEP).wrapping_add(STEP))
}

/// A key of 16 hashed bytes: they share no prefix and their order is random.
#[inline(always)]
pub(crate) fn random_key(index: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&hash(index).to_be_bytes());
    key[8..].copy_from_slice(&mix(index).to_be_bytes());
    key
}

/// Keys of 16 bytes that ascend with `index` (below 2^20) and look random otherwise: the first
/// twenty bits are the index, the others a hash. It is not inlined, so that it takes as many
/// instructions for every engine, and for none.
#[inline(never)]
pub(crate) fn ascending_key(index: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&(index << 44 | hash(index) >> 20).to_be_bytes());
    key[8..].copy_from_slice(&mix(index).to_be_bytes());
    key
}

/// A value of 64 bytes: one hashed word eight times.
#[inline(always)]
pub(crate) fn value(index: u64) -> [u8; 64] {
    let word = mix(index ^ 0x0076_616C_7565).to_le_bytes();
    let mut value = [0; 64];
    for part in value.chunks_exact_mut(8) {
        part.copy_from_slice(&word);
    }
    value
}

/// The first byte of [`value`].
pub(crate) fn first_byte_of_value(index: u64) -> u8 {
    value(index)[0]
}

/// A duplicate of 16 hashed bytes: value `number` of key `index`.
pub(crate) fn random_duplicate(index: u64, number: u64) -> [u8; 16] {
    random_key(index << 8 | number | 1 << 40)
}

/// A key of 16 bytes that all share and 16 hexadecimal digits of a hash.
pub(crate) fn prefixed_key(index: u64) -> Vec<u8> {
    format!("shared/prefix/16{:016x}", hash(index)).into_bytes()
}

/// A value of 64 bytes: 56 that all share and 8 hexadecimal digits, different for every number
/// below 2^32 and in random order.
pub(crate) fn prefixed_value(number: u64) -> Vec<u8> {
    let scrambled = (number as u32).wrapping_mul(0x9E37_79B1);
    format!("{:x<56}{scrambled:08x}", "shared/prefix/of/fifty-six/bytes/").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_order_are_as_said() {
        assert_eq!(prefixed_key(7).len(), 32);
        assert_eq!(prefixed_key(7)[..16], prefixed_key(8)[..16]);
        assert_eq!(prefixed_value(7).len(), 64);
        assert_eq!(prefixed_value(7)[..56], prefixed_value(8)[..56]);
        assert!((0..100_000).all(|index| ascending_key(index) < ascending_key(index + 1)));
    }

    #[test]
    fn keys_and_values_are_distinct() {
        let mut keys: Vec<_> = (0..200_000).map(random_key).collect();
        let mut values: Vec<_> = (0..200_000).map(prefixed_value).collect();
        keys.sort_unstable();
        values.sort_unstable();
        keys.dedup();
        values.dedup();
        assert_eq!((keys.len(), values.len()), (200_000, 200_000));
    }

    #[test]
    fn a_shuffle_keeps_the_items() {
        let mut items: Vec<u64> = (0..1000).collect();
        Generator::new(1).shuffle(&mut items);
        assert_ne!(items, (0..1000).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }
}
