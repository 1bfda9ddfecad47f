//! The pending file: what commits have handed to the system and the log does not hold yet. A commit
//! of [`Durability::Buffered`](super::Durability) has to outlive its process; to store it in memory
//! that is shared with the system does that as well as a write to the log, for a tenth of the time.
//! The log gets many commits by one write.
//!
//! ```text
//!   0   segment (4)   the segment of the log in which the bytes will stand
//!   8   offset (8)    where the first one will stand
//!   64  groups        one behind the other, as they will stand there
//! ```
//!
//! Nothing here is ever flushed, and nothing says how many groups there are, or whether the first
//! lines are of the same moment as the groups: the checksum of a group starts from its segment's
//! salt and its place there, so that one that passes is what its writer wanted in this place. Only
//! groups of commits that succeed are put here, and only as long as the log does not hold them.

use std::io::ErrorKind;

use super::files::{Directory, Name};
use super::wal::{GATHERED_BYTES_MAX, Identity};
use crate::coding::{put_u32, put_u64, u32_at, u64_at};
use crate::os::{Open, Shared};
use crate::{Error, Result};

pub(crate) const SEGMENT_OFFSET: usize = 0;
pub(crate) const OFFSET_OFFSET: usize = 8;
pub(crate) const GROUPS_OFFSET: usize = 64;
/// The log lets no more than this gather, and one more commit of at most as much.
const PENDING_BYTES: usize = GROUPS_OFFSET + 2 * GATHERED_BYTES_MAX;

/// The file, as the writer of the log has it.
pub(crate) struct Pending {
    shared: Box<dyn Shared>,
    /// So many bytes of what is held back are in it.
    count: usize,
}

impl Pending {
    /// `None` where it cannot be had: then the log is written to for each commit. What was in it
    /// must be in the log.
    pub(crate) fn open(directory: &Directory) -> Option<Self> {
        let path = directory.file(Name::Pending);
        let file = match directory.system.open_data(&path, Open::Write, 0) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                directory.system.open_data(&path, Open::Create, directory.mode)
            }
            opened => opened,
        };
        let file = file.ok()?;
        if file.len().ok()? < PENDING_BYTES as u64 {
            file.set_len(PENDING_BYTES as u64).ok()?;
        }
        let shared = file.share(PENDING_BYTES).ok().flatten()?;
        Some(Self { shared, count: 0 })
    }

    /// The log holds all before that place.
    pub(crate) fn begin(&mut self, segment: u32, offset: u64) {
        let mut header = [0; OFFSET_OFFSET + 8];
        put_u32(&mut header, SEGMENT_OFFSET, segment);
        put_u64(&mut header, OFFSET_OFFSET, offset);
        self.shared.store(0, &header);
        self.count = 0;
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
        Ok(Self(bytes))
    }

    /// The whole groups that come next in a segment, the log of which ends at `end`.
    pub(crate) fn groups(&self, identity: &Identity, end: u64) -> &[u8] {
        let Some(header) = self.0.get(..GROUPS_OFFSET) else { return &[] };
        let before = end.checked_sub(u64_at(header, OFFSET_OFFSET));
        let known = before.filter(|_| u32_at(header, SEGMENT_OFFSET) == identity.number);
        let from =
            known.and_then(|before| usize::try_from(before).ok()?.checked_add(GROUPS_OFFSET));
        let rest = from.and_then(|from| self.0.get(from..)).unwrap_or_default();
        let mut count = 0;
        while let Some(len) = identity.whole_group(end + count as u64, &rest[count..]) {
            count += len;
        }
        &rest[..count]
    }
}

#[cfg(test)]
#[path = "pending/tests.rs"]
mod tests;
