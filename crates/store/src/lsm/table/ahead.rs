//! Reading ahead of a cursor in a table: the piece that the cursor is in and, once it has gone on
//! for long enough, the next piece, which is read while the entries of this one are handed out.
//!
//! Pieces follow each other without a gap, so that a block may begin in one and end in the next.
//! The error of a failed early read is reported when the cursor comes to that piece, and not if it
//! never does. This module knows no entries.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::super::files::Handle;
use super::BlockPlace;
use crate::lsm::files::charge::Charge;
use crate::lsm::files::memory::Part;
use crate::lsm::files::piece::Piece;
use crate::os::aio::{Action, Begun, Buffer, Request};
use crate::{Error, Result};

/// This much is read ahead at first.
const BYTES_MIN: usize = 32 << 10;

/// What was read ahead of a table.
pub(super) struct Ahead {
    handle: Arc<Handle>,
    /// Blocks end before.
    end: u64,
    /// Whether everything is read from front to back.
    is_whole: bool,
    /// Whether the piece after the next one will probably be needed, too.
    is_steady: bool,
    here: Option<Here>,
    next: Option<Next>,
    /// The length of the next piece, and that of the longest one.
    bytes: usize,
    bytes_max: usize,
    charge: Charge,
}

/// The piece that the cursor is in.
struct Here {
    buffer: Buffer,
    /// Where its bytes stand in the file.
    at: Range<u64>,
}

/// The piece after it, which is on its way.
struct Next {
    read: Begun,
    /// Its range in the file.
    at: Range<u64>,
}

impl Here {
    /// The bytes from a place of the file on.
    fn from(&self, at: u64) -> Option<&[u8]> {
        let from = self.at.contains(&at).then(|| (at - self.at.start) as usize)?;
        self.buffer.get(from..(self.at.end - self.at.start) as usize)
    }
}

impl Next {
    fn len(&self) -> usize {
        (self.at.end - self.at.start) as usize
    }
}

impl Ahead {
    /// For a file whose blocks end before `end`, and of which everything is read if `is_whole`.
    pub(super) fn new(handle: &Arc<Handle>, end: u64, is_whole: bool) -> Self {
        let directory = handle.directory();
        let charge = Charge::new(Arc::downgrade(directory), Part::Buffers);
        let (bytes_max, handle) = (directory.budget.piece_bytes(), Arc::clone(handle));
        let here = None;
        let next = None;
        let bytes = 0;
        let is_steady = is_whole;
        let mut ahead =
            Self { handle, end, is_whole, is_steady, here, next, bytes, bytes_max, charge };
        ahead.clear();
        ahead
    }

    /// Begins anew in another file.
    pub(super) fn go_over(&mut self, handle: &Arc<Handle>, end: u64) {
        self.clear();
        (self.handle, self.end) = (Arc::clone(handle), end);
    }

    /// Takes over how far the cursor of the previous table has read ahead.
    pub(super) fn follow(&mut self, before: &Self) {
        (self.bytes, self.is_steady) = (before.bytes, before.is_steady);
    }

    /// Lets go of what was read: the cursor goes on somewhere else.
    pub(super) fn clear(&mut self) {
        // Memory is charged before something is read into it.
        if self.charge.is_some() {
            (self.here, self.next) = (None, None);
            self.charge.set(0);
        }
        self.is_steady = self.is_whole;
        self.bytes = if self.is_whole { self.bytes_max } else { BYTES_MIN.min(self.bytes_max) };
    }

    /// Whether all of a block is in the piece that the cursor is in.
    pub(super) fn holds(&self, place: BlockPlace) -> bool {
        let bytes = self.here.as_ref().and_then(|here| here.from(place.offset));
        bytes.is_some_and(|bytes| bytes.len() >= place.len as usize)
    }

    /// The bytes of a block, from the pieces that it spans.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn block(&mut self, place: BlockPlace) -> Result<Cow<'_, [u8]>> {
        let len = place.len as usize;
        if self.holds(place) {
            let bytes = self.here.as_ref().and_then(|here| here.from(place.offset));
            return Ok(bytes.map_or_else(Cow::default, |bytes| bytes[..len].into()));
        }
        let mut block = Vec::with_capacity(len);
        while block.len() < len {
            let (at, missing) = (place.offset + block.len() as u64, len - block.len());
            match self.here.as_ref().and_then(|here| here.from(at)) {
                Some(bytes) => block.extend_from_slice(&bytes[..bytes.len().min(missing)]),
                None => self.enter(at, missing)?,
            }
        }
        Ok(block.into())
    }

    /// Goes on to a piece that holds the byte at `at`.
    fn enter(&mut self, at: u64, missing: usize) -> Result<()> {
        let before = self.here.take();
        if let Some(before) = &before {
            // If blocks between the two came from the cache, the next ones may do so, too.
            self.is_steady = self.is_whole || before.at.end == at;
        }
        let mut spare = before.map(|here| here.buffer);
        // A read of a piece that the cursor leaves out ends here.
        let here = match self.next.take().filter(|next| next.at.contains(&at)) {
            Some(next) => self.land(next)?,
            None => self.read(at, missing, spare.take())?,
        };
        if !here.at.contains(&at) {
            let ended = std::io::ErrorKind::UnexpectedEof.into();
            return Err(Error::read(self.handle.path(), at, ended));
        }
        if self.is_steady && self.bytes == self.bytes_max {
            self.next = self.begin(here.at.end, here.buffer.capacity(), spare);
        }
        let next = self.next.as_ref().map_or(0, Next::len);
        self.charge.set(here.buffer.capacity() + next);
        self.here = Some(here);
        Ok(())
    }

    /// Reads a piece here and now.
    fn read(&mut self, at: u64, missing: usize, spare: Option<Buffer>) -> Result<Here> {
        let most = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
        let len = self.bytes.min(most).max(missing);
        self.bytes = self.bytes.max(len).saturating_mul(2).min(self.bytes_max);
        let span = Piece { handle: &self.handle, offset: at, len, grows: false }.span()?;
        let mut buffer = buffer(&mut self.charge, 0, span.len, spare);
        self.handle.directory().reads.ahead.fetch_add(1, Relaxed);
        let read = span.file.read_some(&mut buffer, span.offset);
        let count = read.map_err(|e| Error::io("read", self.handle.path(), e))?;
        Ok(Here { buffer, at: span.offset..span.offset + count as u64 })
    }

    /// Begins to read the piece that begins at `at`, beside another one; `None` if there is nothing
    /// more, or if the file cannot be opened, which is reported when the piece is needed.
    fn begin(&mut self, at: u64, beside: usize, spare: Option<Buffer>) -> Option<Next> {
        let most = usize::try_from(self.end.checked_sub(at)?).unwrap_or(usize::MAX);
        let len = self.bytes.min(most);
        let piece = Piece { handle: &self.handle, offset: at, len, grows: false };
        let span = if len > 0 { piece.span().ok()? } else { return None };
        let buffer = buffer(&mut self.charge, beside, span.len, spare);
        let directory = self.handle.directory();
        directory.reads.ahead.fetch_add(1, Relaxed);
        let (file, offset) = (span.file, span.offset);
        let request = Request { token: 0, action: Action::Read, file, offset, buffer };
        let read = directory.io.begin(request);
        Some(Next { read, at: offset..offset + span.len as u64 })
    }

    /// Waits for a piece that is on its way.
    fn land(&self, next: Next) -> Result<Here> {
        let done = next.read.wait();
        let count = done.result.map_err(|e| Error::io("read", self.handle.path(), e))?;
        Ok(Here { buffer: done.buffer, at: next.at.start..next.at.start + count as u64 })
    }
}

/// A buffer of this length besides others, which take `beside` bytes: the spare one, if it is long
/// enough. Memory for it is charged before it is allocated.
fn buffer(charge: &mut Charge, beside: usize, len: usize, spare: Option<Buffer>) -> Buffer {
    let spare = spare.filter(|buffer| buffer.capacity() >= len);
    charge.set(beside + spare.as_ref().map_or(len, Buffer::capacity));
    let mut buffer = spare.unwrap_or_else(|| Buffer::new(len));
    buffer.set_len(len);
    buffer
}

#[cfg(test)]
#[path = "ahead/tests.rs"]
mod tests;
