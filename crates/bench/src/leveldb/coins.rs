//! Coins as Bitcoin Core stores them: their keys and values, made of numbers, and a generator.

use std::hash::{BuildHasherDefault, Hasher};

/// Coins that are unspent by their number in the order of their making; 0 is a spent one.
pub(super) type Id = u64;

/// The SplitMix64 generator (Steele, Lea, Flood 2014).
pub(super) struct Random(pub(super) u64);

pub(super) fn mix(x: u64) -> u64 {
    let mut x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// From 0 to 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Core's number of a variable length: base 128, the highest digit first, one less for each digit.
fn push_number(bytes: &mut Vec<u8>, mut n: u64) {
    let mut digits = vec![(n & 0x7f) as u8];
    while n > 0x7f {
        n = (n >> 7) - 1;
        digits.push((n & 0x7f) as u8 | 0x80);
    }
    bytes.extend(digits.iter().rev());
}

/// The key of a coin: `id` is the number of its transaction and, in the low byte, of its output.
pub(super) fn key(id: Id) -> Vec<u8> {
    let (transaction, output) = (id >> 8, id & 0xff);
    let mut key = vec![b'C'];
    for part in 0..4_u64 {
        let number = transaction.wrapping_mul(4).wrapping_add(1).wrapping_add(part * 0x0123_4567);
        key.extend_from_slice(&mix(number).to_le_bytes());
    }
    push_number(&mut key, output);
    key
}

/// Where the part of a value begins that does not depend on the height.
pub(super) const FIXED_OFFSET: usize = 3;

/// The value of a coin that was made at a height, obfuscated as Core does.
pub(super) fn value(id: Id, height: u64) -> Vec<u8> {
    const AMOUNTS: [u64; 10] = [1, 2, 2, 3, 3, 4, 4, 5, 5, 6];
    const OBFUSCATION: [u8; 8] = [0x5a, 0x13, 0xc7, 0x88, 0x31, 0xee, 0x0b, 0x94];
    let mut random = Random(id ^ 0x00ab_cdef);
    let mut value = Vec::with_capacity(64);
    push_number(&mut value, height * 2);
    let amount = AMOUNTS[random.below(10) as usize] as usize;
    value.extend_from_slice(&random.next().to_le_bytes()[..amount]);
    let kind = random.unit();
    let script = match kind {
        _ if kind < 0.42 => 21,
        _ if kind < 0.72 => 23,
        _ if kind < 0.97 => 35,
        _ => 40 + random.below(60),
    };
    let end = value.len() + script as usize;
    while value.len() < end {
        value.extend_from_slice(&random.next().to_le_bytes());
    }
    value.truncate(end);
    for (index, byte) in value.iter_mut().enumerate() {
        *byte ^= OBFUSCATION[index & 7];
    }
    value
}

/// A hash of numbers that leaves them as they are, so that coins of one transaction stay together.
#[derive(Default)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        // The table takes its tag of the highest bits.
        self.0.rotate_right(7) ^ self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0 << 8 | u64::from(byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

pub(super) type Map<V> = std::collections::HashMap<Id, V, BuildHasherDefault<Identity>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coins_are_those_that_are_described() {
        assert_eq!(key(1 << 8).len(), 34);
        assert_eq!(key(1 << 8)[0], b'C');
        assert_ne!(key(1 << 8), key(2 << 8));
        let (first, second) = (value(256, 700_000), value(256, 700_100));
        assert_eq!(first[FIXED_OFFSET..], second[FIXED_OFFSET..]);
        assert!((3 + 1 + 21..3 + 6 + 100).contains(&first.len()));
        let mut number = Vec::new();
        push_number(&mut number, 0x80);
        assert_eq!(number, [0x80, 0x00]);
    }
}
