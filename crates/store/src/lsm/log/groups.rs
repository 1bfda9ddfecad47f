//! Reading the groups of a segment, and what counts of one that was being written when the power
//! went.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::segment::{
    Closed, GROUP_FLUSHED_OFFSET, GROUP_HEADER_BYTES, GROUP_LEN_OFFSET, Group, HEADER_BYTES,
    Identity, MARK_BYTES, group_len, group_of,
};
use crate::coding::u64_at;
use crate::os::DataFile;
use crate::{Error, Result};

/// This much of a segment is read at once, and as much after it in the background.
const READ_BYTES: usize = 256 << 10;
pub(crate) const PREFETCH_BYTES: u64 = 4 * READ_BYTES as u64;

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
