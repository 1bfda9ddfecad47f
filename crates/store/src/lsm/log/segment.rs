//! The bytes of a segment of the log: its header, groups of operations, the mark of a close. Pure
//! functions over data; docs/format-lsm.md has the tables.
//!
//! A *segment* is a header and *groups*, one after the other. A group is a batch: its operations
//! apply all or not at all. Its checksum starts from the segment's random salt and the group's
//! place, so that bytes of another file, or of an earlier use of this place, never pass.

use std::path::Path;

use crate::canary::{Bug, is_planted};
use crate::checksum::crc32c;
use crate::coding::{put_u32, put_u64, u32_at, u64_at};
use crate::lsm::entry::{KEY_BYTES_MAX, KEYSPACE_BYTES, SEQUENCE_END};
use crate::lsm::varint::{self, Reader};
use crate::os::DataFile;
use crate::{Error, Result};

/// The header of a segment.
pub(crate) const MAGIC_OFFSET: usize = 0;
pub(crate) const VERSION_OFFSET: usize = 8;
pub(crate) const NUMBER_OFFSET: usize = 12;
pub(crate) const SALT_OFFSET: usize = 16;
pub(crate) const FIRST_SEQ_OFFSET: usize = 24;
pub(crate) const HEADER_SUM_OFFSET: usize = 60;
/// The first group stands here.
pub(crate) const HEADER_BYTES: usize = 64;

const MAGIC: [u8; 8] = *b"HEDGELOG";
const VERSION: u32 = 1;

/// The header of a group.
pub(crate) const GROUP_SUM_OFFSET: usize = 0;
pub(crate) const GROUP_COUNT_OFFSET: usize = 4;
pub(crate) const GROUP_LEN_OFFSET: usize = 8;
pub(crate) const GROUP_SEQ_OFFSET: usize = 16;
pub(crate) const GROUP_FLUSHED_OFFSET: usize = 24;
/// The operations begin here.
pub(crate) const GROUP_HEADER_BYTES: usize = 32;

/// The mark of a close, which stands after the last group.
pub(crate) const MARK_SUM_OFFSET: usize = 0;
pub(crate) const MARK_COUNT_OFFSET: usize = 4;
pub(crate) const MARK_MANIFEST_LEN_OFFSET: usize = 8;
pub(crate) const MARK_MANIFEST_SALT_OFFSET: usize = 16;
pub(crate) const MARK_SEQ_OFFSET: usize = 24;
pub(crate) const MARK_BYTES: usize = 32;

/// Unflushed groups gather in memory up to this many bytes before they are written.
pub(crate) const GATHERED_BYTES_MAX: usize = 64 << 10;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum OpKind {
    /// Puts a value that the memtable and tables hold themselves.
    Put = 1,
    /// Puts a value that stays here, where tables point to.
    PutSeparated = 2,
    /// Deletes the key.
    Delete = 3,
    /// Deletes from the key up to, but not including, the value.
    DeleteRange = 4,
}

/// One operation of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op<'a> {
    pub(crate) kind: OpKind,
    /// The full key.
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Where the value begins, from the beginning of the body.
    pub(crate) value_at: usize,
}

/// Appends an operation to the body of a group.
pub(crate) fn push_op(body: &mut Vec<u8>, kind: OpKind, key: [&[u8]; 2], value: [&[u8]; 2]) {
    body.push(kind as u8);
    varint::push(body, (key[0].len() + key[1].len()) as u64);
    varint::push(body, (value[0].len() + value[1].len()) as u64);
    [key[0], key[1], value[0], value[1]].iter().for_each(|part| body.extend_from_slice(part));
}

/// The operations of a body; ends early where the body makes no sense, see [`Ops::is_whole`].
pub(crate) struct Ops<'a> {
    reader: Reader<'a>,
}

impl<'a> Ops<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Self { reader: Reader::new(body) }
    }

    /// After the last operation: whether all of the body was read.
    pub(crate) fn is_whole(&self) -> bool {
        self.reader.is_empty()
    }

    fn read(reader: &mut Reader<'a>) -> Option<Op<'a>> {
        let kind = match reader.u8()? {
            1 => OpKind::Put,
            2 => OpKind::PutSeparated,
            3 => OpKind::Delete,
            4 => OpKind::DeleteRange,
            _ => return None,
        };
        let (key_len, value_len) = (reader.size()?, reader.size()?);
        let key = reader.take(key_len)?;
        let value_at = reader.position();
        let value = reader.take(value_len)?;
        let key_fits = (KEYSPACE_BYTES..=KEYSPACE_BYTES + KEY_BYTES_MAX).contains(&key_len);
        let value_fits = match kind {
            OpKind::Put | OpKind::PutSeparated => u32::try_from(value_len).is_ok(),
            OpKind::Delete => value_len == 0,
            OpKind::DeleteRange => key < value,
        };
        (key_fits && value_fits).then_some(Op { kind, key, value, value_at })
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = Op<'a>;

    fn next(&mut self) -> Option<Op<'a>> {
        let mut ahead = self.reader.clone();
        let op = Self::read(&mut ahead)?;
        self.reader = ahead;
        Some(op)
    }
}

/// What identifies a segment, as the manifest and its header say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) number: u32,
    pub(crate) salt: u64,
    /// The sequence number of the first operation in it.
    pub(crate) first_seq: u64,
}

impl Identity {
    pub(crate) fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[MAGIC_OFFSET..VERSION_OFFSET].copy_from_slice(&MAGIC);
        put_u32(&mut header, VERSION_OFFSET, VERSION);
        put_u32(&mut header, NUMBER_OFFSET, self.number);
        put_u64(&mut header, SALT_OFFSET, self.salt);
        put_u64(&mut header, FIRST_SEQ_OFFSET, self.first_seq);
        let sum = crc32c(u64::from(self.number), &header[..HEADER_SUM_OFFSET]);
        put_u32(&mut header, HEADER_SUM_OFFSET, sum);
        header
    }

    /// Holds the header of a segment against what the manifest says of it.
    pub(crate) fn verify(&self, file: &dyn DataFile, path: &Path) -> Result<()> {
        let mut header = [0; HEADER_BYTES];
        let len = file.len().map_err(|e| Error::io("ask for the length of", path, e))?;
        if len < HEADER_BYTES as u64 {
            return Err(Error::corrupt_at(path, len, "a log segment ends inside its header"));
        }
        file.read_at(&mut header, 0).map_err(|e| Error::io("read", path, e))?;
        match header == self.header() {
            true => Ok(()),
            false => Err(Error::corrupt_at(path, 0, "not the log segment that the manifest names")),
        }
    }

    /// What the checksum of the group at `offset` starts from.
    fn seed(&self, offset: u64) -> u64 {
        self.salt.wrapping_add(offset)
    }

    /// The header of a group at `offset` with this body.
    pub(crate) fn group_header(&self, group: &Group<'_>) -> [u8; GROUP_HEADER_BYTES] {
        let mut header = [0; GROUP_HEADER_BYTES];
        put_u32(&mut header, GROUP_COUNT_OFFSET, group.count);
        put_u64(&mut header, GROUP_LEN_OFFSET, (GROUP_HEADER_BYTES + group.body.len()) as u64);
        put_u64(&mut header, GROUP_SEQ_OFFSET, group.seq);
        put_u64(&mut header, GROUP_FLUSHED_OFFSET, group.flushed);
        let sum = self.group_sum(group.offset, &header, group.body);
        put_u32(&mut header, GROUP_SUM_OFFSET, sum);
        header
    }

    /// What the header of a segment says; `None` if it is damaged.
    pub(crate) fn of(number: u32, bytes: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let (salt, first_seq) = (u64_at(header, SALT_OFFSET), u64_at(header, FIRST_SEQ_OFFSET));
        let identity = Self { number, salt, first_seq };
        (identity.header() == *header).then_some(identity)
    }

    /// The length of the group with which these bytes may begin, which stand at `offset`; `None` if
    /// they surely do not.
    pub(crate) fn likely_group(&self, offset: u64, bytes: &[u8]) -> Option<usize> {
        let header = bytes.get(..GROUP_HEADER_BYTES)?;
        let len = group_len(header, bytes.len() as u64)?;
        (u64_at(header, GROUP_FLUSHED_OFFSET) <= offset).then_some(len as usize)
    }

    /// The group that stands at `offset`, and with which these bytes begin, if it is whole.
    pub(crate) fn whole_group<'b>(&self, offset: u64, bytes: &'b [u8]) -> Option<Group<'b>> {
        let len = group_len(bytes.get(..GROUP_HEADER_BYTES)?, bytes.len() as u64)?;
        let is_whole = self.is_whole(offset, &bytes[..len as usize]);
        is_whole.then(|| group_of(bytes, offset, (offset, offset + len)))
    }

    /// What is put after the last group, at `offset`, when the store is closed. No group has a
    /// count of 0.
    pub(crate) fn mark(&self, offset: u64, closed: &Closed) -> [u8; MARK_BYTES] {
        let mut mark = [0; MARK_BYTES];
        put_u64(&mut mark, MARK_MANIFEST_LEN_OFFSET, closed.manifest_len);
        put_u64(&mut mark, MARK_MANIFEST_SALT_OFFSET, closed.manifest_salt);
        put_u64(&mut mark, MARK_SEQ_OFFSET, closed.last_seq);
        let sum = crc32c(self.seed(offset), &mark[MARK_COUNT_OFFSET..]);
        put_u32(&mut mark, MARK_SUM_OFFSET, sum);
        mark
    }

    /// What the mark of a close says that stands at `offset`, and with which these bytes begin.
    pub(crate) fn closed(&self, offset: u64, bytes: &[u8]) -> Option<Closed> {
        let mark: &[u8; MARK_BYTES] = bytes.first_chunk()?;
        let closed = Closed {
            manifest_len: u64_at(mark, MARK_MANIFEST_LEN_OFFSET),
            manifest_salt: u64_at(mark, MARK_MANIFEST_SALT_OFFSET),
            last_seq: u64_at(mark, MARK_SEQ_OFFSET),
        };
        (self.mark(offset, &closed) == *mark).then_some(closed)
    }

    pub(super) fn is_whole(&self, offset: u64, group: &[u8]) -> bool {
        let (header, body) = group.split_at(GROUP_HEADER_BYTES);
        let sum = self.group_sum(offset, header, body);
        sum == u32_at(header, GROUP_SUM_OFFSET) || is_planted(Bug::ChecksumNotChecked)
    }

    fn group_sum(&self, offset: u64, header: &[u8], body: &[u8]) -> u32 {
        let head = crc32c(self.seed(offset), &header[GROUP_COUNT_OFFSET..GROUP_HEADER_BYTES]);
        crc32c(u64::from(head) << 32 | offset & 0xffff_ffff, body)
    }
}

/// The length of a group according to its header, at most `most` bytes; `None` if it makes no
/// sense.
pub(super) fn group_len(header: &[u8], most: u64) -> Option<u64> {
    let (len, seq) = (u64_at(header, GROUP_LEN_OFFSET), u64_at(header, GROUP_SEQ_OFFSET));
    let fits = (GROUP_HEADER_BYTES as u64..=most).contains(&len);
    let is_one = fits && seq < SEQUENCE_END && u32_at(header, GROUP_COUNT_OFFSET) > 0;
    is_one.then_some(len)
}

/// A group as it stands in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group<'a> {
    /// Where its header begins.
    pub(crate) offset: u64,
    /// The sequence number of its first operation.
    pub(crate) seq: u64,
    /// How many operations it has; each takes the next sequence number.
    pub(crate) count: u32,
    /// How much of the segment was known to be on stable storage when the group was written.
    pub(crate) flushed: u64,
    pub(crate) body: &'a [u8],
}

impl Group<'_> {
    /// Where its body begins.
    pub(crate) fn body_offset(&self) -> u64 {
        self.offset + GROUP_HEADER_BYTES as u64
    }

    /// The sequence number of its last operation.
    pub(crate) fn last_seq(&self) -> u64 {
        self.seq + u64::from(self.count) - 1
    }

    /// The first byte after it.
    pub(crate) fn end(&self) -> u64 {
        self.body_offset() + self.body.len() as u64
    }
}

/// What the mark of a close says: everything before it was on stable storage, and so was the
/// manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) manifest_salt: u64,
    pub(crate) manifest_len: u64,
    /// The last sequence number that was given.
    pub(crate) last_seq: u64,
}

/// The group of a place, in bytes that begin at `bytes_offset`. It was validated.
pub(super) fn group_of(bytes: &[u8], bytes_offset: u64, (offset, end): (u64, u64)) -> Group<'_> {
    let bytes = &bytes[(offset - bytes_offset) as usize..(end - bytes_offset) as usize];
    Group {
        offset,
        seq: u64_at(bytes, GROUP_SEQ_OFFSET),
        count: u32_at(bytes, GROUP_COUNT_OFFSET),
        flushed: u64_at(bytes, GROUP_FLUSHED_OFFSET),
        body: &bytes[GROUP_HEADER_BYTES..],
    }
}
