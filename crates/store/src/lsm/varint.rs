//! Numbers in as few bytes as they need, and a reader that never goes beyond its bytes: every byte
//! that comes from a disk in this engine is read through it. This module knows no file.

/// Appends a number: seven bits a byte, the lowest first; the top bit says that more follow.
pub(crate) fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends a byte string with its length before it.
pub(crate) fn push_bytes(bytes: &mut Vec<u8>, content: &[u8]) {
    push(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}

/// The number that these eight bytes begin with, the first byte lowest, and its length; `None` if
/// it does not end in them.
#[inline(always)]
pub(crate) fn short(bytes: u64) -> Option<(u64, usize)> {
    let ends = !bytes & 0x8080_8080_8080_8080;
    if ends == 0 {
        return None;
    }
    // All bits up to that of the first end.
    let bytes = bytes & (ends ^ (ends - 1));
    let pairs = (bytes & 0x007f_007f_007f_007f) | (bytes & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    let eight = (fours & 0x0000_0000_0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4;
    Some((eight, ends.trailing_zeros() as usize / 8 + 1))
}

/// Bytes that are read from the front. Every method answers `None` where the bytes end too early
/// or make no sense.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, len: bytes.len() }
    }

    /// How many bytes were read.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.len - self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A number that [`push`] wrote.
    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        if let Some((&first, rest)) = self.rest.split_first()
            && first < 0x80
        {
            self.rest = rest;
            return Some(u64::from(first));
        }
        match self.rest.first_chunk().and_then(|bytes| short(u64::from_le_bytes(*bytes))) {
            Some((number, len)) => {
                self.rest = &self.rest[len..];
                Some(number)
            }
            None => self.long_number(),
        }
    }

    /// One of several bytes, or none.
    fn long_number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A number that fits 32 bits.
    pub(crate) fn number_u32(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// A number that is a length in memory.
    #[inline]
    pub(crate) fn size(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    /// A byte string that [`push_bytes`] wrote.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.size()?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_is_read() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|&number| push(&mut bytes, number));
        push_bytes(&mut bytes, b"key");
        let mut reader = Reader::new(&bytes);
        assert!(numbers.iter().all(|&number| reader.number() == Some(number)));
        assert_eq!(reader.bytes(), Some(&b"key"[..]));
        assert!(reader.is_empty() && reader.position() == bytes.len());
        assert_eq!(reader.u8(), None);
    }

    /// Numbers of every length, at every distance from the end, are read as byte by byte.
    #[test]
    fn numbers_of_eight_bytes_at_once_are_those_of_one_at_a_time() {
        for bits in 0..64 {
            for number in [1_u64 << bits, (1 << bits) - 1, 0x9e37_79b9_7f4a_7c15 >> bits] {
                for behind in 0..9 {
                    let mut bytes = Vec::new();
                    push(&mut bytes, number);
                    let len = bytes.len();
                    bytes.resize(len + behind, 0xff);
                    let (mut one, mut other) = (Reader::new(&bytes), Reader::new(&bytes));
                    assert_eq!((one.number(), one.position()), (Some(number), len));
                    assert_eq!((other.long_number(), other.position()), (Some(number), len));
                }
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(Reader::new(&[0x80; 3]).number(), None, "ends too early");
        assert_eq!(Reader::new(&[0xff; 11]).number(), None, "has no end");
        let mut too_large = vec![0xff; 9];
        too_large.push(2);
        assert_eq!(Reader::new(&too_large).number(), None, "needs 65 bits");
        assert_eq!(Reader::new(&[5, 1, 2]).bytes(), None, "is longer than there is");
    }
}
