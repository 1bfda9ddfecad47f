//! Numbers in as few bytes as they need, and a reader that never goes beyond its bytes: every byte
//! that comes from a disk in this engine is read through it. Knows no file.

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
        self.long_number()
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
