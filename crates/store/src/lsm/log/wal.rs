//! The write-ahead log's bytes: segments, groups of operations, and the end of a segment that was
//! being written when the power went. docs/format-lsm.md has the tables.
//!
//! A *segment* is a header and *groups*, one after the other. A group is a batch: its operations
//! apply all or not at all. Its checksum starts from the segment's random salt and the group's
//! place, so that bytes of another file, or of an earlier use of this place, never pass.
//!
//! This file decides what counts as written; it knows no tables.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::held::Held;
use super::pending::Pending;
use super::warm::Warm;
use crate::Durability;
use crate::canary::{Bug, is_planted};
use crate::checksum::crc32c;
use crate::coding::{put_u32, put_u64, u32_at, u64_at};
use crate::lsm::entry::{KEY_BYTES_MAX, KEYSPACE_BYTES, SEQUENCE_END};
use crate::lsm::files::append::{Advice, Trail};
use crate::lsm::files::cached::Blocks;
use crate::lsm::varint::{self, Reader};
use crate::os::DataFile;
use crate::sync::atomic::AtomicBool;
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

/// This much of a segment is read at once, and as much after it in the background.
const READ_BYTES: usize = 256 << 10;
pub(crate) const PREFETCH_BYTES: u64 = 4 * READ_BYTES as u64;
/// Unflushed groups gather in memory up to this many bytes before they are written.
pub(crate) const GATHERED_BYTES_MAX: usize = 64 << 10;
/// If flushes are frequent, this much after the end is filled with zeros in advance: then a flush
/// writes only data, and no change of the file's length and place.
const PREPARED_BYTES: u64 = 1 << 20;
/// A segment that is closed keeps zeros up to the next but one multiple of this.
const CLOSED_BYTES: u64 = 64 << 10;
/// Flushes come often if no more than this was written since the one before.
const OFTEN_BYTES: u64 = 64 << 10;

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

    fn is_whole(&self, offset: u64, group: &[u8]) -> bool {
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
fn group_len(header: &[u8], most: u64) -> Option<u64> {
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

/// Reads the groups of a segment from the front.
pub(crate) struct Groups {
    identity: Identity,
    file: Arc<dyn DataFile>,
    path: PathBuf,
    /// Nothing counts from here on.
    end: u64,
    at: u64,
    buffer: Vec<u8>,
    buffer_offset: u64,
    /// Memory for the next buffer.
    spare: Vec<u8>,
}

impl Groups {
    /// Reads up to `end`.
    pub(crate) fn new(
        identity: Identity,
        file: Arc<dyn DataFile>,
        path: &Path,
        end: u64,
    ) -> Result<Self> {
        let (path, at) = (path.to_path_buf(), HEADER_BYTES as u64);
        let len = file.len().map_err(|e| Error::io("ask for the length of", &path, e))?;
        if len < end {
            return Err(Error::corrupt_at(&path, len, "a log segment is shorter than it was"));
        }
        let (buffer, buffer_offset, spare) = (Vec::new(), 0, Vec::new());
        Ok(Self { identity, file, path, end, at, buffer, buffer_offset, spare })
    }

    /// Reads into memory that a stretch left, when more is needed.
    pub(crate) fn reuse(&mut self, memory: Vec<u8>) {
        self.spare = memory;
    }

    /// Where the next group begins: all before is whole.
    pub(crate) fn position(&self) -> u64 {
        self.at
    }

    /// Groups were added there, which end at `end`.
    pub(crate) fn extend(&mut self, end: u64) {
        self.end = self.end.max(end);
        self.buffer.clear();
    }

    /// Goes on at `at`: what stands before it in the log is known, and need not be here.
    pub(crate) fn pass(&mut self, at: u64) {
        self.extend(at);
        self.at = at;
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.end
    }

    /// Ensures that the bytes are in the buffer, which reaches beyond them; returns their place.
    fn load(&mut self, offset: u64, len: usize) -> Result<usize> {
        let buffer_end = self.buffer_offset + self.buffer.len() as u64;
        if offset < self.buffer_offset || offset + len as u64 > buffer_end {
            let size = (len.max(READ_BYTES) as u64).min(self.end - offset) as usize;
            if self.buffer.capacity() == 0 {
                self.buffer = std::mem::take(&mut self.spare);
            }
            self.buffer.resize(size, 0);
            let behind = offset + size as u64;
            self.file.prefetch(behind, PREFETCH_BYTES.min(self.end - behind));
            let read = self.file.read_at(&mut self.buffer, offset);
            read.map_err(|e| Error::io("read", &self.path, e))?;
            self.buffer_offset = offset;
        }
        Ok((offset - self.buffer_offset) as usize)
    }

    /// How long the next group says it is; 0 if there is none.
    pub(crate) fn next_len(&mut self) -> Result<u64> {
        if self.end - self.at < GROUP_HEADER_BYTES as u64 {
            return Ok(0);
        }
        let from = self.load(self.at, GROUP_HEADER_BYTES)?;
        let header = &self.buffer[from..from + GROUP_HEADER_BYTES];
        Ok(group_len(header, self.end - self.at).unwrap_or(0))
    }

    /// The next group; `None` at the end, and where what follows is no group.
    pub(crate) fn next(&mut self) -> Result<Option<Group<'_>>> {
        let at = self.at;
        let Some(end) = self.validate(at)? else { return Ok(None) };
        self.at = end;
        Ok(Some(group_of(&self.buffer, self.buffer_offset, (at, end))))
    }

    /// The next groups, as many as are read together anyway; `None` at the end, and where what
    /// follows is no group.
    pub(crate) fn next_stretch(&mut self) -> Result<Option<Stretch>> {
        let mut places = Vec::new();
        while let Some(end) = self.validate(self.at)? {
            places.push((self.at, end));
            self.at = end;
            if !self.has_read_next() {
                break;
            }
        }
        if places.is_empty() {
            return Ok(None);
        }
        let bytes = std::mem::take(&mut self.buffer);
        Ok(Some(Stretch { places, bytes, bytes_offset: self.buffer_offset }))
    }

    /// Whether what seems to be the next group is in the buffer.
    fn has_read_next(&self) -> bool {
        let from = (self.at - self.buffer_offset) as usize;
        let rest = self.buffer.get(from..).unwrap_or_default();
        rest.len() >= GROUP_HEADER_BYTES && u64_at(rest, GROUP_LEN_OFFSET) <= rest.len() as u64
    }

    /// The end of the group at `offset`, which is then in the buffer as a whole; `None` if there is
    /// none.
    fn validate(&mut self, offset: u64) -> Result<Option<u64>> {
        if self.end - offset < GROUP_HEADER_BYTES as u64 {
            return Ok(None);
        }
        let from = self.load(offset, GROUP_HEADER_BYTES)?;
        let header = &self.buffer[from..from + GROUP_HEADER_BYTES];
        let Some(len) = group_len(header, self.end - offset) else { return Ok(None) };
        let from = self.load(offset, len as usize)?;
        let is_whole = self.identity.is_whole(offset, &self.buffer[from..from + len as usize]);
        Ok(is_whole.then_some(offset + len))
    }

    /// After [`Groups::next`] answered `None` before the end: whether what lies there is damage,
    /// and not what a loss of power leaves. It is damage if a whole group follows that was written
    /// when this place was on stable storage already.
    ///
    /// Such a group may begin at any byte; no more is read for the search than `effort` times the
    /// rest.
    pub(crate) fn is_damaged_here(&mut self, effort: u64) -> Result<bool> {
        let broken = self.at;
        // Zeros that were put after the end are no group.
        let end = self.content_end()?;
        let mut budget = (end - broken).saturating_mul(effort);
        for offset in broken + 1..end.min(self.end.saturating_sub(GROUP_HEADER_BYTES as u64)) {
            let from = self.load(offset, GROUP_HEADER_BYTES)?;
            let len = u64_at(&self.buffer, from + GROUP_LEN_OFFSET);
            let flushed = u64_at(&self.buffer, from + GROUP_FLUSHED_OFFSET);
            if flushed <= broken || flushed > offset || len > self.end - offset || len > budget {
                continue;
            }
            budget -= len;
            if self.validate(offset)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether this mark of a close stands here, with nothing but zeros after it.
    pub(crate) fn ends_with(&mut self, closed: &Closed) -> Result<bool> {
        if self.end - self.at < MARK_BYTES as u64 {
            return Ok(false);
        }
        let from = self.load(self.at, MARK_BYTES)?;
        let there = self.identity.closed(self.at, &self.buffer[from..]);
        let is_it = there.as_ref() == Some(closed);
        Ok(is_it && self.content_end()? <= self.at + MARK_BYTES as u64)
    }

    /// The first byte from the present place on after which there are only zeros.
    fn content_end(&mut self) -> Result<u64> {
        let (mut end, mut offset) = (self.at, self.at);
        while offset < self.end {
            let len = (self.end - offset).min(READ_BYTES as u64) as usize;
            let from = self.load(offset, len)?;
            let content = content_len(&self.buffer[from..from + len]);
            end = if content > 0 { offset + content as u64 } else { end };
            offset += len as u64;
        }
        Ok(end)
    }
}

/// How many bytes there are before nothing but zeros follows.
fn content_len(bytes: &[u8]) -> usize {
    let is_empty = |piece: &&[u8]| piece.iter().fold(0, |all, byte| all | byte) == 0;
    let zeros: usize = bytes.rchunks(256).take_while(is_empty).map(<[u8]>::len).sum();
    let last = bytes[..bytes.len() - zeros].iter().rposition(|&byte| byte != 0);
    last.map_or(0, |last| last + 1)
}

/// The group of a place, in bytes that begin at `bytes_offset`. It was validated.
fn group_of(bytes: &[u8], bytes_offset: u64, (offset, end): (u64, u64)) -> Group<'_> {
    let bytes = &bytes[(offset - bytes_offset) as usize..(end - bytes_offset) as usize];
    Group {
        offset,
        seq: u64_at(bytes, GROUP_SEQ_OFFSET),
        count: u32_at(bytes, GROUP_COUNT_OFFSET),
        flushed: u64_at(bytes, GROUP_FLUSHED_OFFSET),
        body: &bytes[GROUP_HEADER_BYTES..],
    }
}

/// Groups that stand one after the other, as they were read.
pub(crate) struct Stretch {
    /// Where each begins and ends.
    places: Vec<(u64, u64)>,
    bytes: Vec<u8>,
    bytes_offset: u64,
}

impl Stretch {
    /// Whole groups of a segment, the first of which belongs at `offset`.
    pub(crate) fn of(identity: &Identity, offset: u64, bytes: &[u8]) -> Self {
        let (mut places, mut at) = (Vec::new(), 0);
        while let Some(group) = identity.whole_group(offset + at as u64, &bytes[at..]) {
            places.push((group.offset, group.end()));
            at = (group.end() - offset) as usize;
        }
        Self { places, bytes: bytes.to_vec(), bytes_offset: offset }
    }

    /// Their memory, to be used again.
    pub(crate) fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        self.places.iter().map(|&place| group_of(&self.bytes, self.bytes_offset, place))
    }
}

/// What a segment is held to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// At most about this much stays in the system's cache.
    pub(crate) window_bytes: u64,
    /// No zeros are put beyond this length.
    pub(crate) segment_bytes: u64,
}

/// A segment that is not written to any more, but that the manifest does not call ended yet.
#[derive(Clone)]
pub(crate) struct Ended {
    pub(crate) number: u32,
    pub(crate) len: u64,
    pub(crate) last_seq: u64,
    file: Arc<dyn DataFile>,
    path: PathBuf,
    /// Whether zeros stand after the end, or room was reserved for more.
    is_longer: bool,
    is_flushed: Arc<AtomicBool>,
    /// For how much of it the system was told that its cache need not hold it.
    released: u64,
}

impl Ended {
    /// Returns when all of it is on stable storage.
    ///
    /// # Errors
    /// If the system refuses. After a failed flush the content of the disk is unknown.
    pub(crate) fn flush(&self) -> Result<()> {
        if !self.is_flushed.load(Ordering::Acquire) && !is_planted(Bug::SkippedFlush) {
            self.file.sync().map_err(|e| Error::io("flush", &self.path, e))?;
            self.is_flushed.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// It was flushed: what the system's cache holds of it is kept as long as there is room.
    pub(crate) fn keep_warm(&self, warm: &Warm, blocks: &Blocks) {
        warm.finish(blocks, self.number, &self.file, self.released..self.len);
    }

    /// Cuts off what is after the end.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn trim(&self) -> Result<()> {
        match self.is_longer {
            true => self.file.set_len(self.len).map_err(|e| Error::io("cut", &self.path, e)),
            false => Ok(()),
        }
    }
}

/// The segment that is written to.
pub(crate) struct Log {
    identity: Identity,
    file: Arc<dyn DataFile>,
    path: PathBuf,
    /// Groups that were not written yet, and how many bytes of them there are.
    held: Arc<Held>,
    held_bytes: usize,
    /// Where those of them are that must outlive the process.
    pending: Option<Pending>,
    /// Where these will stand.
    trail: Trail,
    /// How much is on stable storage.
    flushed: u64,
    /// The length of the file, if zeros were put after the end, or the mark of a close.
    prepared: u64,
    bounds: Bounds,
    /// A flush failed, or what a failed write left could not be cut off: the content of the disk is
    /// unknown.
    broken: bool,
    /// The log goes on in another segment.
    is_ended: bool,
}

/// Hints about a segment that is being written to, which the system should get; giving them takes a
/// while.
pub(crate) struct Notice {
    segment: u32,
    file: Arc<dyn DataFile>,
    advice: Advice,
}

impl Notice {
    /// Tells it; what is on the disk is kept in the system's cache as long as there is room.
    pub(crate) fn tell(&self, warm: &Warm, blocks: &Blocks) {
        let range = self.advice.begin(&*self.file);
        warm.keep(blocks, self.segment, &self.file, range);
    }
}

impl Log {
    /// Writes to a segment from `at` on: all bytes before are on stable storage, and nothing that
    /// counts stands after. Bytes that are held back are put into `held`, and those that are to
    /// outlive the process also into `pending`, where nothing of another segment is left.
    pub(crate) fn new(
        identity: Identity,
        file: Arc<dyn DataFile>,
        path: PathBuf,
        bounds: Bounds,
        held: Arc<Held>,
        mut pending: Option<Pending>,
        at: u64,
    ) -> Self {
        held.lock().begin(identity.number, at);
        if let Some(pending) = &mut pending {
            pending.begin(identity.number, at);
            pending.flushed(&identity, at);
        }
        let trail = Trail::new(at, bounds.window_bytes).reserving(bounds.segment_bytes);
        let prepared = file.len().unwrap_or(at);
        let (held_bytes, flushed, broken, is_ended) = (0, at, false, false);
        Self {
            identity,
            file,
            path,
            held,
            held_bytes,
            pending,
            trail,
            flushed,
            prepared,
            bounds,
            broken,
            is_ended,
        }
    }

    /// For the next segment, when all of this one was written.
    pub(crate) fn take_pending(&mut self) -> Option<Pending> {
        self.pending.take()
    }

    /// Hints about the file that the system should get by now; giving them takes a while.
    pub(crate) fn notice(&mut self) -> Option<Notice> {
        let (segment, file) = (self.identity.number, Arc::clone(&self.file));
        self.trail.due().map(|advice| Notice { segment, file, advice })
    }

    /// What there is to know of it when nothing more is added; `last_seq` is the last sequence
    /// number in it.
    pub(crate) fn end_with(&mut self, last_seq: u64) -> Ended {
        self.is_ended = true;
        let (number, len) = (self.identity.number, self.end());
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        let is_longer = self.prepared.max(self.trail.reserved()) > len;
        let is_flushed = Arc::new(AtomicBool::new(self.flushed == len));
        let released = self.trail.released();
        Ended { number, len, last_seq, file, path, is_longer, is_flushed, released }
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// The end of the last group.
    pub(crate) fn end(&self) -> u64 {
        self.trail.written() + self.held_bytes as u64
    }

    /// Whether something failed after which nothing more may be written here.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Adds groups, the first of which begins with `seq`. Answers where the first one begins; the
    /// others follow. They are written to the segment if they are to be durable, or if enough have
    /// gathered; where they are to be handed to the system, they are in the pending file else.
    ///
    /// # Errors
    /// If the system refuses: then none of the groups is in the log, unless it is
    /// [broken](Self::is_broken) now.
    pub(crate) fn append(
        &mut self,
        groups: &[(u32, &[u8])],
        mut seq: u64,
        durability: Durability,
    ) -> Result<u64> {
        let start = self.end();
        let bytes: usize = groups.iter().map(|(_, body)| GROUP_HEADER_BYTES + body.len()).sum();
        if bytes > GATHERED_BYTES_MAX {
            return self.append_long(groups, seq).map(|()| start);
        }
        let (before, mut offset) = (self.held_bytes, start);
        for &(count, body) in groups {
            let group = Group { offset, seq, count, flushed: self.flushed, body };
            let header = self.identity.group_header(&group);
            self.held.lock().push([&header, body]);
            (offset, seq) = (group.end(), seq + u64::from(count));
        }
        self.held_bytes += bytes;
        let is_written = match durability {
            Durability::None => false,
            Durability::Eventual => self.pending.is_none(),
            Durability::Durable => true,
        };
        if is_written || self.held_bytes > GATHERED_BYTES_MAX {
            // What was held back before stays so if the write fails.
            self.write_out().inspect_err(|_| self.hold(before))?;
        } else if durability == Durability::Eventual
            && let Some(pending) = &mut self.pending
        {
            pending.add(&self.held.lock().bytes());
        }
        Ok(start)
    }

    /// Lets go of what is held after the first `bytes` bytes.
    fn hold(&mut self, bytes: usize) {
        self.held.lock().truncate(bytes);
        self.held_bytes = bytes;
    }

    /// Adds groups that are too long to be copied.
    fn append_long(&mut self, groups: &[(u32, &[u8])], mut seq: u64) -> Result<()> {
        let (mut headers, mut offset) = (Vec::new(), self.end());
        for &(count, body) in groups {
            let group = Group { offset, seq, count, flushed: self.flushed, body };
            headers.push(self.identity.group_header(&group));
            (offset, seq) = (group.end(), seq + u64::from(count));
        }
        let held = self.held.lock().bytes();
        let mut parts = vec![IoSlice::new(&held)];
        for (header, (_, body)) in headers.iter().zip(groups) {
            parts.extend([IoSlice::new(header), IoSlice::new(body)]);
        }
        let result = self.file.append_at(&parts, self.trail.written());
        drop(held);
        self.wrote(result, offset)
    }

    fn wrote(&mut self, result: std::io::Result<()>, end: u64) -> Result<()> {
        match result {
            Ok(()) => {
                self.held.lock().begin(self.identity.number, end);
                self.held_bytes = 0;
                self.pending.iter_mut().for_each(|p| p.begin(self.identity.number, end));
                self.trail.advance(end);
                Ok(())
            }
            Err(error) => {
                self.broken = self.cut_back().is_err();
                Err(Error::io("write to", &self.path, error))
            }
        }
    }

    /// Removes what a failed write may have left. It must be gone from the disk before something
    /// else is written there: a shorter group in front of its remains would bring them to life.
    fn cut_back(&mut self) -> std::io::Result<()> {
        if is_planted(Bug::RemainsNotCut) {
            return Ok(());
        }
        self.file.set_len(self.trail.written())?;
        self.file.sync()?;
        (self.flushed, self.prepared) = (self.trail.written(), self.trail.written());
        Ok(())
    }

    /// Hands everything to the system.
    ///
    /// # Errors
    /// If it refuses; what was held back still is, unless the log is [broken](Self::is_broken).
    pub(crate) fn write_out(&mut self) -> Result<()> {
        if self.held_bytes == 0 {
            return Ok(());
        }
        let held = self.held.lock().bytes();
        let result = self.file.append_at(&[IoSlice::new(&held)], self.trail.written());
        drop(held);
        self.wrote(result, self.end())
    }

    /// Returns when everything is on stable storage.
    ///
    /// # Errors
    /// If the system refuses. After a failed flush the content of the disk is unknown: the log is
    /// [broken](Self::is_broken).
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.write_out()?;
        let written = self.trail.written();
        if self.flushed < written && !is_planted(Bug::SkippedFlush) {
            self.prepare(written);
            let flushed = self.file.sync();
            self.broken |= flushed.is_err();
            flushed.map_err(|e| Error::io("flush", &self.path, e))?;
            self.flushed = written;
            self.pending.iter_mut().for_each(|pending| pending.flushed(&self.identity, written));
        }
        Ok(())
    }

    /// Says at the end of the log, all of which is on stable storage, that the store was closed. If
    /// that cannot be written, or is lost, the next opening does not learn it, and that is all.
    pub(crate) fn mark_closed(&self, closed: &Closed) {
        let end = self.end();
        if self.flushed != end || self.broken {
            return;
        }
        // An opening reads the zeros, too. They are cut seldom: what follows is flushed faster
        // where the file is as long as before.
        let kept = (end / CLOSED_BYTES + 2) * CLOSED_BYTES;
        if self.prepared > kept {
            let _ = self.file.set_len(kept);
        }
        let _ = self.file.write_at(&[IoSlice::new(&self.identity.mark(end, closed))], end);
    }

    /// Puts zeros after the end if flushes are frequent and there are none.
    fn prepare(&mut self, written: u64) {
        let is_often = written - self.flushed <= OFTEN_BYTES;
        let end = (written + PREPARED_BYTES).min(self.bounds.segment_bytes);
        // If there is no room for them, flushes only take longer.
        if is_often && written >= self.prepared && written < end && self.file.set_len(end).is_ok() {
            self.prepared = end;
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.is_ended {
            self.trail.finish(&*self.file);
        }
    }
}

#[cfg(test)]
#[path = "wal/tests.rs"]
mod tests;
