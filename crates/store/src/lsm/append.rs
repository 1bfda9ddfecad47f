//! Writing a file once, from the front to the end: in large pieces, behind which the system's cache
//! is emptied, so that what is written does not push out what is read.

use std::io::IoSlice;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::files::{Directory, Name};
use super::memory::{Charge, Part};
use crate::os::DataFile;
use crate::{Error, Result};

/// A file that is being written.
pub(crate) struct Appender {
    path: PathBuf,
    file: Arc<dyn DataFile>,
    /// What was not handed to the system yet.
    buffer: Vec<u8>,
    piece_bytes: usize,
    trail: Trail,
    charge: Charge,
}

/// Where a file that is written from the front to the end is on its way to the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trail {
    /// So much was handed to the system.
    written: u64,
    /// It was told to begin writing so much to the disk.
    started: u64,
    /// So much its cache need not hold any more.
    released: u64,
    /// At most about so much stays in its cache.
    window: u64,
}

impl Trail {
    /// Begins where the file has `written` bytes.
    pub(crate) fn new(written: u64, window: u64) -> Self {
        Self { written, started: written, released: written, window: window.max(2) }
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// The file was written up to `end`.
    pub(crate) fn advance(&mut self, end: u64) {
        self.written = end;
    }

    /// What the system should be told by now.
    pub(crate) fn due(&mut self) -> Option<Advice> {
        if self.written - self.started < self.window / 4 {
            return None;
        }
        let started = std::mem::replace(&mut self.started, self.written);
        let mut advice = Advice { write: started..self.written, release: 0..0 };
        if self.written - self.released >= self.window {
            let end = self.written - self.window / 2;
            advice.release = std::mem::replace(&mut self.released, end)..end;
        }
        Some(advice)
    }

    /// The file was flushed.
    pub(crate) fn finish(&mut self, file: &dyn DataFile) {
        // From the beginning: what was not on the disk when it was released before is now.
        file.release(0, self.written);
        (self.started, self.released) = (self.written, self.written);
    }
}

/// Where a file should be on its way to the disk. To tell the system takes a while.
#[derive(Clone, Debug)]
pub(crate) struct Advice {
    /// To be written to the disk from now on.
    write: Range<u64>,
    /// Not needed in the system's cache any more.
    release: Range<u64>,
}

impl Advice {
    pub(crate) fn tell(&self, file: &dyn DataFile) {
        file.start_writeback(self.write.start, self.write.end - self.write.start);
        if !self.release.is_empty() {
            file.release(self.release.start, self.release.end - self.release.start);
        }
    }
}

impl Appender {
    /// Makes the file.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn create(directory: &Arc<Directory>, name: Name) -> Result<Self> {
        let (path, file) = directory.create(name)?;
        let budget = &directory.budget;
        let charge = Charge::new(Arc::downgrade(directory), Part::Buffers);
        let trail = Trail::new(0, budget.written_bytes());
        let (buffer, piece_bytes) = (Vec::new(), budget.piece_bytes());
        Ok(Self { path, file, buffer, piece_bytes, trail, charge })
    }

    /// The length of the file, with what was not handed to the system yet.
    pub(crate) fn len(&self) -> u64 {
        self.trail.written() + self.buffer.len() as u64
    }

    /// Adds bytes at the end. `beside` says how much memory the caller has for the file besides;
    /// it is charged with the buffer.
    ///
    /// # Errors
    /// If the system refuses to write.
    pub(crate) fn push(&mut self, parts: &[&[u8]], beside: usize) -> Result<()> {
        parts.iter().for_each(|part| self.buffer.extend_from_slice(part));
        match self.buffer.len() >= self.piece_bytes {
            true => self.write_out(beside),
            false => Ok(()),
        }
    }

    fn write_out(&mut self, beside: usize) -> Result<()> {
        self.charge.set(self.buffer.capacity() + beside);
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = self.file.append_at(&[IoSlice::new(&self.buffer)], self.trail.written());
        written.map_err(|e| Error::io("write to", &self.path, e))?;
        self.trail.advance(self.len());
        self.trail.due().iter().for_each(|advice| advice.tell(&*self.file));
        self.buffer.clear();
        Ok(())
    }

    /// Ends the file, which is on stable storage then, but for its name.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.write_out(0)?;
        self.file.sync().map_err(|e| Error::io("flush", &self.path, e))?;
        self.trail.finish(&*self.file);
        Ok(self.trail.written())
    }
}
