//! What went through a stream, in two numbers: [`PairSum`].

use crate::checksum::Crc64;

/// How many pairs there were, and their checksum: the CRC-64 (NVMe) over the length of each key in
/// 8 bytes, the least significant first, the key, the length of the value and the value. Pairs that
/// are the same in the same order have the same sum, by whatever way they came: through a stream, a
/// sink, or the files of columns that the command writes.
///
/// ```
/// use hedgerow::stream::PairSum;
///
/// let (mut sum, mut other) = (PairSum::new(), PairSum::new());
/// sum.add(b"ash", b"tree");
/// other.add(b"ashtree", b"");
/// assert_eq!((sum.pairs(), other.pairs()), (1, 1));
/// assert_ne!(sum.checksum(), other.checksum());
/// ```
#[derive(Clone, Debug)]
pub struct PairSum {
    pairs: u64,
    crc: Crc64,
}

impl PairSum {
    /// The sum of no pairs.
    pub fn new() -> Self {
        Self { pairs: 0, crc: Crc64::new() }
    }

    /// Adds a pair.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.pairs += 1;
        for part in [key, value] {
            self.crc.update(&(part.len() as u64).to_le_bytes());
            self.crc.update(part);
        }
    }

    /// How many pairs there were.
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// Their checksum.
    pub fn checksum(&self) -> u64 {
        self.crc.finish()
    }
}

impl Default for PairSum {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for PairSum {
    fn eq(&self, other: &Self) -> bool {
        (self.pairs, self.checksum()) == (other.pairs, other.checksum())
    }
}

impl Eq for PairSum {}

/// The number of pairs, and the checksum in hexadecimal digits.
impl std::fmt::Display for PairSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:016x}", self.pairs, self.checksum())
    }
}
