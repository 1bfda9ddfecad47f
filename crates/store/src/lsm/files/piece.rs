//! Pieces of files: where they stand, and reading one here and now, with the buffer of a thread
//! that reads one thing after the other.

use std::cell::Cell;
use std::sync::Arc;

use super::Handle;
use crate::os::DataFile;
use crate::os::aio::{ALIGN, Buffer};
use crate::{Error, Result};

/// Most blocks and small values fit, wherever they begin.
pub(in crate::lsm) const BUFFER_BYTES: usize = 16 << 10;

thread_local! {
    /// The buffer of this thread's single reads, while none of them has it.
    static BUFFER: Cell<Option<Buffer>> = const { Cell::new(None) };
}

/// A piece of a file.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'h> {
    pub(crate) handle: &'h Arc<Handle>,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    /// The file is still written to: what stands there may not have left the system's cache yet.
    pub(crate) grows: bool,
}

/// How a piece is asked for.
pub(crate) struct Span {
    pub(crate) file: Arc<dyn DataFile>,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

impl<'h> Piece<'h> {
    /// The pieces requested from the disk.
    pub(crate) fn span(&self) -> Result<Span> {
        let direct = if self.grows { None } else { self.handle.direct()? };
        let Some(file) = direct else {
            return Ok(Span { file: self.handle.file()?, offset: self.offset, len: self.len });
        };
        let offset = self.offset / ALIGN as u64 * ALIGN as u64;
        let len = ((self.offset - offset) as usize).saturating_add(self.len);
        Ok(Span { file, offset, len: len.next_multiple_of(ALIGN) })
    }

    /// The piece, in what was read of a span that began at `offset`.
    pub(crate) fn cut<'b>(&self, offset: u64, bytes: &'b [u8]) -> Result<&'b [u8]> {
        let from = (self.offset - offset) as usize;
        bytes.get(from..).and_then(|bytes| bytes.get(..self.len)).ok_or_else(|| {
            let ended = std::io::ErrorKind::UnexpectedEof.into();
            Error::read(self.handle.path(), self.offset, ended)
        })
    }

    /// Reads it here and now, and hands its bytes to `take`.
    ///
    /// # Errors
    /// If the system refuses, or the file ends before it.
    pub(crate) fn read<R>(&self, take: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
        let span = self.span()?;
        with_buffer(span.len, |buffer| {
            let read = span.file.read_some(buffer, span.offset);
            let count = read.map_err(|e| Error::io("read", self.handle.path(), e))?;
            take(self.cut(span.offset, &buffer[..count])?)
        })
    }
}

/// Calls `f` with a buffer of that length for a single read; its bytes are anything.
pub(crate) fn with_buffer<R>(len: usize, f: impl FnOnce(&mut Buffer) -> R) -> R {
    if len > BUFFER_BYTES {
        return f(&mut Buffer::new(len));
    }
    let kept = BUFFER.try_with(Cell::take).ok().flatten();
    let mut buffer = kept.unwrap_or_else(|| Buffer::new(BUFFER_BYTES));
    buffer.set_len(len);
    let result = f(&mut buffer);
    // A thread that ends has no place for it any more.
    let _ = BUFFER.try_with(|kept| kept.set(Some(buffer)));
    result
}
