//! The bytes of a write batch: eight bytes of a sequence number, four of a count, and a record for
//! each operation. Programs depend on their exact number. Little-endian.
//!
//! A record is a byte that says which operation it is, and one string (a deletion) or two (a
//! value): the length as a varint of 32 bits, and the bytes.

use crate::status::{Result, Status};

/// Where the count of operations stands.
const COUNT_OFFSET: usize = 8;
/// Where the records begin.
const RECORDS_OFFSET: usize = 12;

const DELETION: u8 = 0;
const VALUE: u8 = 1;

/// One operation: the value of a key, or none where the key is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op<'b> {
    pub(crate) key: &'b [u8],
    pub(crate) value: Option<&'b [u8]>,
}

/// A batch as it is filled.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; RECORDS_OFFSET] }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(RECORDS_OFFSET, 0);
    }

    /// Adds an operation.
    ///
    /// # Errors
    /// If a key or a value is longer than a length can say; the batch is as before.
    pub(crate) fn add(&mut self, op: Op<'_>) -> Result<()> {
        let too_long = |part: &[u8]| u32::try_from(part.len()).is_err();
        if too_long(op.key) || op.value.is_some_and(too_long) {
            return Err(Status::invalid("a key or value of 4 GiB or more"));
        }
        self.bytes.push(if op.value.is_some() { VALUE } else { DELETION });
        put_string(&mut self.bytes, op.key);
        if let Some(value) = op.value {
            put_string(&mut self.bytes, value);
        }
        self.set_count(self.count().wrapping_add(1));
        Ok(())
    }

    /// Adds the operations of another batch.
    pub(crate) fn append(&mut self, other: &Self) {
        self.set_count(self.count().wrapping_add(other.count()));
        self.bytes.extend_from_slice(&other.bytes[RECORDS_OFFSET..]);
    }

    fn count(&self) -> u32 {
        count_of(&self.bytes).unwrap_or(0)
    }

    fn set_count(&mut self, count: u32) {
        self.bytes[COUNT_OFFSET..RECORDS_OFFSET].copy_from_slice(&count.to_le_bytes());
    }
}

fn put_string(bytes: &mut Vec<u8>, string: &[u8]) {
    let mut left = string.len() as u32;
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes.extend_from_slice(string);
}

fn count_of(bytes: &[u8]) -> Option<u32> {
    let count = bytes.get(COUNT_OFFSET..RECORDS_OFFSET)?;
    Some(u32::from_le_bytes(count.try_into().ok()?))
}

/// The operations in the bytes of a batch, one after the other: an error ends them.
pub(crate) struct Ops<'b> {
    left: &'b [u8],
    found: u32,
    count: u32,
    has_ended: bool,
}

/// The operations in the bytes of a batch.
///
/// # Errors
/// If they are too few to hold a count.
pub(crate) fn ops(bytes: &[u8]) -> Result<Ops<'_>> {
    let too_small = || Status::corruption("malformed WriteBatch (too small)");
    let count = count_of(bytes).ok_or_else(too_small)?;
    Ok(Ops { left: &bytes[RECORDS_OFFSET..], found: 0, count, has_ended: false })
}

impl<'b> Ops<'b> {
    /// How many operations there should be, as far as there is room for them.
    pub(crate) fn count_max(&self) -> usize {
        (self.count as usize).min(self.left.len() / 2)
    }

    fn read(&mut self) -> Result<Op<'b>> {
        let (tag, rest) = self.left.split_first().unwrap_or((&VALUE, &[]));
        self.left = rest;
        let bad = |what: &str| Status::corruption(what);
        self.found = self.found.wrapping_add(1);
        match *tag {
            VALUE => {
                let key = self.string().ok_or_else(|| bad("bad WriteBatch Put"))?;
                let value = self.string().ok_or_else(|| bad("bad WriteBatch Put"))?;
                Ok(Op { key, value: Some(value) })
            }
            DELETION => {
                let key = self.string().ok_or_else(|| bad("bad WriteBatch Delete"))?;
                Ok(Op { key, value: None })
            }
            _ => Err(bad("unknown WriteBatch tag")),
        }
    }

    fn string(&mut self) -> Option<&'b [u8]> {
        let (len, rest) = varint(self.left)?;
        let (string, rest) = rest.split_at_checked(len as usize)?;
        self.left = rest;
        Some(string)
    }
}

/// A varint of 32 bits at the beginning of some bytes, and what follows it.
fn varint(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

impl<'b> Iterator for Ops<'b> {
    type Item = Result<Op<'b>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        if self.left.is_empty() {
            self.has_ended = true;
            let is_right = self.found == self.count;
            return (!is_right).then(|| Err(Status::corruption("WriteBatch has wrong count")));
        }
        let op = self.read();
        self.has_ended = op.is_err();
        Some(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put<'b>(key: &'b [u8], value: &'b [u8]) -> Op<'b> {
        Op { key, value: Some(value) }
    }

    fn read(bytes: &[u8]) -> Result<Vec<Op<'_>>> {
        ops(bytes)?.collect()
    }

    #[test]
    fn the_bytes_are_those_of_leveldb() {
        let mut batch = Batch::new();
        assert_eq!(batch.bytes().len(), 12);
        batch.add(put(b"k", b"vv")).unwrap();
        batch.add(Op { key: b"", value: None }).unwrap();
        let records = b"\x01\x01k\x02vv\x00\x00";
        let expected = [&[0; 8][..], &[2, 0, 0, 0], records].concat();
        assert_eq!(batch.bytes(), expected);
        let mut both = batch.clone();
        both.append(&batch);
        assert_eq!(both.bytes().len(), expected.len() + records.len());
        assert_eq!(read(both.bytes()).unwrap().len(), 4);
        batch.clear();
        assert_eq!(batch.bytes(), [0; 12]);
    }

    #[test]
    fn lengths_of_every_size_come_back() {
        for len in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152] {
            let long = vec![7; len];
            let mut batch = Batch::new();
            batch.add(put(&long, &long)).unwrap();
            assert_eq!(read(batch.bytes()).unwrap(), [put(&long, &long)]);
        }
    }

    #[test]
    fn damaged_bytes_are_refused_in_the_words_of_leveldb() {
        let refusal = |bytes: &[u8]| read(bytes).unwrap_err().message;
        assert_eq!(refusal(&[0; 11]), "malformed WriteBatch (too small)");
        let with = |records: &[u8]| [&[0; 8][..], &[1, 0, 0, 0], records].concat();
        assert_eq!(refusal(&with(b"\x01\x05k")), "bad WriteBatch Put");
        assert_eq!(refusal(&with(b"\x01\x01k")), "bad WriteBatch Put");
        assert_eq!(refusal(&with(b"\x00\x02k")), "bad WriteBatch Delete");
        assert_eq!(refusal(&with(b"\x00\xff\xff\xff\xff\xff\xff")), "bad WriteBatch Delete");
        assert_eq!(refusal(&with(b"\x02")), "unknown WriteBatch tag");
        assert_eq!(refusal(&with(b"")), "WriteBatch has wrong count");
        assert_eq!(refusal(&with(b"\x00\x00\x00\x00")), "WriteBatch has wrong count");
    }

    #[test]
    fn any_bytes_end_without_a_panic() {
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..40)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (seed >> 60) as u8
                })
                .collect();
            let _ = read(&bytes);
        }
    }
}
