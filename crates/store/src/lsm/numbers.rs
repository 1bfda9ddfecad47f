//! Maps keyed by file numbers, fast enough for a look-up for each entry of a table. The numbers are
//! our own, so an attacker cannot choose them to collide.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Something for each of some files.
pub(crate) type NumberMap<T> = HashMap<u32, T, BuildHasherDefault<NumberHasher>>;

/// Spreads a number over all bits.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

/// The golden ratio of 2⁶⁴: neighbours come to lie far from each other.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(32) ^ u64::from(number)).wrapping_mul(SPREAD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_own() {
        let map: NumberMap<u32> = (0..5000).chain([u32::MAX]).map(|n| (n, !n)).collect();
        assert!((0..5000).chain([u32::MAX]).all(|number| map.get(&number) == Some(&!number)));
        assert_eq!(map.get(&5000), None);
    }
}
