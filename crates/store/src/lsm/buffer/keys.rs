//! Which keys a buffer certainly does not have: a bloom filter that keys are put into while others
//! ask it. A look-up of a key that is in a table passes the buffers by without a search in them,
//! each step of which waits for memory.
//!
//! All bits of a key lie in one word, so that putting it in is one atomic operation, and a question
//! touches one cache line.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::Relaxed;

use crate::lsm::files::memory::KEYS_PART;
use crate::lsm::memtable::zeros::zeros;
use crate::prefetch::prefetch_line;
use crate::sync::atomic::AtomicU64;

/// There is one word for each this many bytes of a full buffer: about one absent key in a hundred
/// is taken for one that may be there if entries take 100 bytes, and five if they take 50.
const BYTES_A_WORD: usize = KEYS_PART as usize * size_of::<AtomicU64>();
/// Right for buffers of up to 2 GiB.
const WORDS: RangeInclusive<usize> = 8..=4 << 20;

/// Keys, by their hashes.
pub(super) struct Keys {
    words: Box<[AtomicU64]>,
}

impl Keys {
    /// For a buffer that is full with `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        let words = (bytes_max / BYTES_A_WORD).clamp(*WORDS.start(), *WORDS.end());
        Self { words: zeros(words) }
    }

    /// The word of a key, and its bits there.
    fn place(&self, hash: u64) -> (&AtomicU64, u64) {
        let word = ((hash >> 32) * self.words.len() as u64) >> 32;
        let bits = 1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63);
        (&self.words[word as usize], bits)
    }

    /// Puts a key in. A thread that learns of its entry afterwards finds it here, too.
    pub(super) fn put(&self, hash: u64) {
        let (word, bits) = self.place(hash);
        // Most keys of a buffer that is overwritten are there already.
        if word.load(Relaxed) & bits != bits {
            word.fetch_or(bits, Relaxed);
        }
    }

    /// Has the processor fetch what tells about the key.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch_line(std::ptr::from_ref(self.place(hash).0).cast());
    }

    /// False if the key was surely not put in.
    pub(super) fn may_have(&self, hash: u64) -> bool {
        let (word, bits) = self.place(hash);
        word.load(Relaxed) & bits == bits
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsm::filter::hash;

    #[test]
    fn no_key_is_lost_and_few_others_are_found() {
        let count: u32 = if cfg!(miri) { 100 } else { 10_000 };
        let keys = Keys::new(100 * count as usize);
        let of = |number: u32| hash(&number.to_be_bytes());
        (0..count).for_each(|number| keys.put(of(number)));
        assert!((0..count).all(|number| keys.may_have(of(number))));
        let wrong = (count..11 * count).filter(|&number| keys.may_have(of(number))).count();
        assert!(wrong < 10 * count as usize / 40, "{wrong}");
    }

    #[test]
    fn a_small_one_works_too() {
        let keys = Keys::new(0);
        assert!(!keys.may_have(hash(b"a")));
        keys.put(hash(b"a"));
        assert!(keys.may_have(hash(b"a")));
        assert_eq!(keys.memory(), 64);
    }
}
