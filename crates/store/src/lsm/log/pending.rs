//! The pending file: what commits have handed to the system and the log does not hold yet. A commit
//! of [`Durability::Eventual`](crate::Durability) has to outlive its process; to store it in
//! memory that is shared with the system does that as well as a write to the log, for a tenth of
//! the time. The log gets many commits by one write.
//!
//! ```text
//!   0   magic (8), version (4)
//!   12  segment (4)   the segment of the log in which the bytes will stand
//!   16  offset (8)    where the first one will stand
//!   24  flushed (8)   how much of the segment is on stable storage
//!   32  checksum (4)  of `flushed`; it starts from the segment's salt
//!   64  groups        one after the other, as they will stand there
//! ```
//!
//! The file is never flushed, and it does not say how many groups there are, or whether its header
//! is as new as the groups. The checksum of a group starts from its segment's salt and its place
//! there, so a group that passes is the one that its writer wanted in this place. Only groups of
//! commits that succeed are put here, and only as long as the log does not hold them.
//!
//! What was on stable storage once stays there. So a log that ends before `flushed` is damaged: a
//! loss of power does not leave it so.

use std::io::ErrorKind;

use super::segment::{GATHERED_BYTES_MAX, Identity};
use crate::checksum::crc32c;
use crate::coding::{put_u32, put_u64, u32_at, u64_at};
use crate::lsm::files::{Directory, Name};
use crate::os::{Open, Shared};
use crate::{Error, Result};

pub(crate) const MAGIC_OFFSET: usize = 0;
pub(crate) const VERSION_OFFSET: usize = 8;
pub(crate) const SEGMENT_OFFSET: usize = 12;
pub(crate) const OFFSET_OFFSET: usize = 16;
pub(crate) const FLUSHED_OFFSET: usize = 24;
pub(crate) const FLUSHED_SUM_OFFSET: usize = 32;
pub(crate) const GROUPS_OFFSET: usize = 64;

/// The bytes from [`FLUSHED_OFFSET`] to the end of the checksum.
const FLUSHED_BYTES: usize = FLUSHED_SUM_OFFSET + 4 - FLUSHED_OFFSET;

const MAGIC: [u8; 8] = *b"HEDGEPND";
const VERSION: u32 = 1;
/// The log lets no more than this gather, and one more commit of at most as much.
const PENDING_BYTES: usize = GROUPS_OFFSET + 2 * GATHERED_BYTES_MAX;

/// The beginning of the file: magic number and version. A version with another layout is recognised
/// by the manifest, too.
fn beginning() -> [u8; SEGMENT_OFFSET] {
    let mut bytes = [0; SEGMENT_OFFSET];
    bytes[MAGIC_OFFSET..VERSION_OFFSET].copy_from_slice(&MAGIC);
    put_u32(&mut bytes, VERSION_OFFSET, VERSION);
    bytes
}

/// How the file says how much of a segment is on stable storage.
fn flushed_bytes(identity: &Identity, flushed: u64) -> [u8; FLUSHED_BYTES] {
    let mut bytes = [0; FLUSHED_BYTES];
    put_u64(&mut bytes, 0, flushed);
    let sum = crc32c(identity.salt, &bytes[..FLUSHED_SUM_OFFSET - FLUSHED_OFFSET]);
    put_u32(&mut bytes, FLUSHED_SUM_OFFSET - FLUSHED_OFFSET, sum);
    bytes
}

/// The file, as the writer of the log has it.
pub(crate) struct Pending {
    shared: Box<dyn Shared>,
    /// How many of the bytes that are held back are in it.
    count: usize,
}

impl Pending {
    /// `None` if it is not available, or belongs to something else: then each commit is written to
    /// the log. Its former content must be in the log.
    pub(crate) fn open(directory: &Directory) -> Option<Self> {
        let path = directory.file(Name::Pending);
        let file = match directory.system.open_data(&path, Open::Write, 0) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                directory.system.open_data(&path, Open::Create, directory.mode)
            }
            opened => opened,
        };
        let file = file.ok()?;
        let mut begin = [0; SEGMENT_OFFSET];
        file.read_some(&mut begin, 0).ok()?;
        if begin != beginning() && begin != [0; SEGMENT_OFFSET] {
            return None;
        }
        if file.len().ok()? < PENDING_BYTES as u64 {
            file.set_len(PENDING_BYTES as u64).ok()?;
        }
        let mut shared = file.share(PENDING_BYTES).ok().flatten()?;
        shared.store(0, &beginning());
        Some(Self { shared, count: 0 })
    }

    /// The log holds all before that place.
    pub(crate) fn begin(&mut self, segment: u32, offset: u64) {
        let mut place = [0; OFFSET_OFFSET + 8 - SEGMENT_OFFSET];
        put_u32(&mut place, 0, segment);
        put_u64(&mut place, OFFSET_OFFSET - SEGMENT_OFFSET, offset);
        self.shared.store(SEGMENT_OFFSET, &place);
        self.count = 0;
    }

    /// Notes how much of a segment is on stable storage.
    pub(crate) fn flushed(&mut self, identity: &Identity, flushed: u64) {
        self.shared.store(FLUSHED_OFFSET, &flushed_bytes(identity, flushed));
    }

    /// Everything that the log does not hold yet is to be here.
    pub(crate) fn add(&mut self, held: &[u8]) {
        self.shared.store(GROUPS_OFFSET + self.count, &held[self.count..]);
        self.count = held.len();
    }
}

/// What is in the file when a store is opened.
#[derive(Default)]
pub(crate) struct Remains(Vec<u8>);

impl Remains {
    /// # Errors
    /// If there is such a file and it cannot be read.
    pub(crate) fn read(directory: &Directory) -> Result<Self> {
        let path = directory.file(Name::Pending);
        let file = match directory.system.open_data(&path, Open::Read, 0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            opened => opened.map_err(|e| Error::io("open", &path, e))?,
        };
        let mut bytes = vec![0; PENDING_BYTES];
        let read = file.read_some(&mut bytes, 0).map_err(|e| Error::io("read", &path, e))?;
        bytes.truncate(read);
        let is_ours = bytes.len() >= GROUPS_OFFSET && bytes.starts_with(&beginning());
        Ok(if is_ours { Self(bytes) } else { Self::default() })
    }

    /// Where the groups of a segment would stand in it, and the bytes there; `None` if it is of
    /// another segment.
    pub(crate) fn of(&self, identity: &Identity) -> Option<(u64, &[u8])> {
        let header = self.0.get(..GROUPS_OFFSET)?;
        let is_ours = u32_at(header, SEGMENT_OFFSET) == identity.number;
        is_ours.then(|| (u64_at(header, OFFSET_OFFSET), &self.0[GROUPS_OFFSET..]))
    }

    /// The whole groups that come next in a segment, the log of which ends at `end`.
    pub(crate) fn groups(&self, identity: &Identity, end: u64) -> &[u8] {
        let behind = |(offset, bytes): (u64, &'_ [u8])| {
            let from = usize::try_from(end.checked_sub(offset)?).ok()?;
            (from <= bytes.len()).then_some(GROUPS_OFFSET + from)
        };
        let Some(from) = self.of(identity).and_then(behind) else { return &[] };
        let (rest, mut count) = (&self.0[from..], 0);
        while let Some(group) = identity.whole_group(end + count as u64, &rest[count..]) {
            count += (group.end() - group.offset) as usize;
        }
        &rest[..count]
    }

    /// How much of a segment was on stable storage, according to the file and to the first group.
    pub(crate) fn flushed(&self, identity: &Identity) -> u64 {
        let first = self.of(identity).and_then(|(offset, bytes)| {
            identity.whole_group(offset, bytes).map(|group| group.flushed.min(offset))
        });
        let bytes = self.0.get(FLUSHED_OFFSET..FLUSHED_OFFSET + FLUSHED_BYTES);
        let noted = bytes.map(|bytes| (u64_at(bytes, 0), bytes));
        let noted = noted.filter(|&(noted, bytes)| flushed_bytes(identity, noted) == *bytes);
        first.unwrap_or(0).max(noted.map_or(0, |(noted, _)| noted))
    }
}

#[cfg(test)]
#[path = "pending/tests.rs"]
mod tests;
