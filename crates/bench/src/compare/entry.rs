//! The entries that stores are filled with: each made from a number, its word, so that any answer
//! of an engine can be checked. Knows no engine.
//!
//! Words are scrambled indexes: index order is random order, and a word leads back to its index.

/// How long keys and values are, and how many bytes at their beginning all have in common.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shape {
    /// Bytes of a key, at least 8 more than `key_shared` (16 more where that is not 0).
    pub(crate) key: usize,
    /// Bytes that all keys begin with; 16 hexadecimal digits follow where there are any.
    #[serde(default)]
    pub(crate) key_shared: usize,
    /// Bytes of a value, of the longest one where they differ.
    pub(crate) value: usize,
    /// Bytes of the shortest value, at least 8; 0: all are of the same length.
    #[serde(default)]
    pub(crate) value_least: usize,
    /// Bytes that all values begin with.
    #[serde(default)]
    pub(crate) value_shared: usize,
}

/// Bytes of the longest key.
pub(crate) const KEY_MAX: usize = 128;
/// How many bytes at the beginning of a value are its own; after them all values are alike.
const OWN_BYTES: usize = 4096;
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
/// `STEP` times this is 1.
const STEP_INVERSE: u64 = 0xF1DE_83E1_9937_733D;

/// The word of an index: one-to-one.
#[inline(always)]
pub(crate) fn word(index: u64) -> u64 {
    let mut word = index.wrapping_add(1).wrapping_mul(STEP);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// The index of a word.
pub(crate) fn index(mut word: u64) -> u64 {
    word = (word ^ (word >> 31) ^ (word >> 62)).wrapping_mul(0x3196_42B2_D24D_8EC3);
    word = (word ^ (word >> 27) ^ (word >> 54)).wrapping_mul(0x96DE_1B17_3F11_9089);
    word ^= (word >> 30) ^ (word >> 60);
    word.wrapping_mul(STEP_INVERSE).wrapping_sub(1)
}

/// The word of value `number` of a key; in a table without duplicates the number says how often
/// the value was replaced.
#[inline(always)]
pub(crate) fn value_word(key: u64, number: u64) -> u64 {
    let word = (key ^ number.wrapping_mul(STEP)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    word ^ (word >> 32)
}

impl Shape {
    /// How long the value of a value's word is: every length is as likely as any other.
    #[inline(always)]
    fn value_len(&self, word: u64) -> usize {
        match self.value_least {
            0 => self.value,
            least => {
                let lengths = (self.value - least + 1) as u128;
                least + ((u128::from(word.wrapping_mul(STEP)) * lengths) >> 64) as usize
            }
        }
    }
}

/// A key on the stack.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    bytes: [u8; KEY_MAX],
    len: usize,
}

impl AsRef<[u8]> for Key {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Writes words that follow from the first one; the first one in the order of its number.
#[inline(always)]
fn fill(bytes: &mut [u8], first: u64) {
    let mut chunks = bytes.chunks_exact_mut(8);
    let mut word = first;
    for chunk in &mut chunks {
        chunk.copy_from_slice(&word.to_be_bytes());
        word = word.wrapping_add(STEP);
    }
    let rest = chunks.into_remainder();
    rest.copy_from_slice(&word.to_be_bytes()[..rest.len()]);
}

/// Makes keys and values of one shape, in memory that it keeps.
pub(crate) struct Maker {
    shape: Shape,
    key: Key,
    value: Vec<u8>,
}

impl Maker {
    /// A maker of entries of a shape.
    pub(crate) fn new(shape: Shape) -> Self {
        let mut key = Key { bytes: [b'k'; KEY_MAX], len: shape.key };
        fill(&mut key.bytes[shape.key_shared..], 0);
        let mut value = vec![b'v'; shape.value];
        fill(&mut value[shape.value_shared..], STEP);
        Self { shape, key, value }
    }

    /// The key of a word; keys are in the order of their words.
    #[inline(always)]
    pub(crate) fn key(&mut self, word: u64) -> &[u8] {
        let Shape { key, key_shared, .. } = self.shape;
        let own = &mut self.key.bytes[key_shared..key];
        if key_shared == 0 {
            fill(own, word);
        } else {
            for (digit, at) in own.iter_mut().zip(0..16) {
                *digit = b"0123456789abcdef"[(word >> (60 - 4 * at)) as usize & 15];
            }
        }
        &self.key.bytes[..key]
    }

    /// As [`Maker::key`], by value.
    #[inline(always)]
    pub(crate) fn own_key(&mut self, word: u64) -> Key {
        self.key(word);
        self.key
    }

    /// The value of a value's word.
    #[inline(always)]
    pub(crate) fn value(&mut self, word: u64) -> &[u8] {
        let len = self.shape.value_len(word);
        let end = self.value.len().min(OWN_BYTES);
        fill(&mut self.value[self.shape.value_shared..end], word);
        &self.value[..len]
    }

    /// Key and value of their words.
    #[inline(always)]
    pub(crate) fn entry(&mut self, key: u64, value: u64) -> (&[u8], &[u8]) {
        self.key(key);
        let len = self.value(value).len();
        (&self.key.bytes[..self.shape.key], &self.value[..len])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_word_leads_back_to_its_index() {
        assert!((0..1000).chain([1 << 40, u64::MAX]).all(|i| index(word(i)) == i));
    }

    #[test]
    fn values_have_every_length_there_is() {
        let (key, key_shared, value_shared) = (16, 0, 0);
        let shape = Shape { key, key_shared, value: 40, value_least: 8, value_shared };
        let mut maker = Maker::new(shape);
        let lengths: BTreeSet<usize> = (0..1000).map(|i| maker.value(word(i)).len()).collect();
        assert_eq!(lengths, (8..=40).collect());
    }

    #[test]
    fn keys_and_values_are_in_the_order_of_their_words() {
        for (key_shared, value_shared) in [(0, 0), (16, 56)] {
            let (key, value, value_least) = (key_shared + 21, 80, 0);
            let shape = Shape { key, key_shared, value, value_least, value_shared };
            let mut maker = Maker::new(shape);
            let mut words: Vec<u64> = (0..1000).map(word).collect();
            words.sort_unstable();
            let keys: Vec<_> = words.iter().map(|word| maker.key(*word).to_vec()).collect();
            let values: Vec<_> = words.iter().map(|word| maker.value(*word).to_vec()).collect();
            assert!(keys.is_sorted() && values.is_sorted());
            assert!(keys.iter().all(|key| key.len() == key_shared + 21));
            assert!(keys.iter().all(|key| key[..key_shared] == keys[0][..key_shared]));
            assert!(values.iter().all(|value| value[..value_shared] == values[0][..value_shared]));
        }
    }
}
