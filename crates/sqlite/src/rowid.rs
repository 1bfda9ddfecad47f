//! Keys of rows: their numbers, big-endian with the sign bit flipped, so that they order as their
//! keys do.

use hedgerow::tree::Bytes;
use hedgerow::tree::raw::Passed;
use libsqlite3_sys as sys;

use crate::code::Answer;

const SIGN: u64 = 1 << 63;

/// The key of a row.
pub(crate) fn key_of(rowid: i64) -> [u8; 8] {
    (rowid.cast_unsigned() ^ SIGN).to_be_bytes()
}

/// At most eight bytes as a number.
#[inline(always)]
fn u64_of(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_be_bytes([a, b]).into(),
        [a, b, c] => u32::from_be_bytes([0, a, b, c]).into(),
        _ => match (bytes.first_chunk(), bytes.last_chunk()) {
            // The two overlap where there are fewer than eight.
            (Some(first), Some(last)) => {
                let front = u64::from(u32::from_be_bytes(*first));
                front << (8 * (bytes.len() - 4)) | u64::from(u32::from_be_bytes(*last))
            }
            _ => 0,
        },
    }
}

/// The row that a key belongs to.
#[inline]
pub(crate) fn rowid_of(key: &Bytes<'_>) -> Answer<i64> {
    let (first, second) = key.parts();
    let number = match first.len() + second.len() {
        8 if second.len() == 8 => u64_of(second),
        8 => u64_of(first) << (8 * second.len()) | u64_of(second),
        _ => return Err(sys::SQLITE_CORRUPT),
    };
    Ok((number ^ SIGN).cast_signed())
}

/// What the keys of the rows of a leaf begin with.
#[derive(Clone, Copy)]
pub(crate) struct Front {
    /// The front as a number, with room for the rest.
    number: u64,
    /// Which bits belong to the rest.
    mask: u64,
    /// How many bytes the rest has.
    rest: usize,
}

impl Front {
    /// That of no leaf.
    pub(crate) const NONE: Self = Self { number: 0, mask: 0, rest: usize::MAX };

    /// The row that an entry belongs to; all are of one leaf.
    #[inline(always)]
    pub(crate) fn rowid(&mut self, passed: &Passed<'_>) -> Answer<i64> {
        if passed.rest.len() != self.rest {
            *self = Self::of(passed.shared, passed.rest)?;
        }
        Ok(((self.number | passed.tail & self.mask) ^ SIGN).cast_signed())
    }

    #[inline(never)]
    fn of(shared: &[u8], rest: &[u8]) -> Answer<Self> {
        let rowid = rowid_of(&Bytes::new(shared, rest))?;
        let mask = match rest.len() {
            len @ 0..8 => (1 << (8 * len)) - 1,
            _ => u64::MAX,
        };
        let number = (rowid.cast_unsigned() ^ SIGN) & !mask;
        Ok(Self { number, mask, rest: rest.len() })
    }
}
