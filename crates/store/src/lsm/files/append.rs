//! Writing a file once, from the front to the end: in large pieces, each of which is dropped from
//! the system's cache after it is written, so that written data does not push out data that is
//! read.

use std::io::IoSlice;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::charge::Charge;
use super::memory::Part;
use super::{Directory, Name};
use crate::os::DataFile;
use crate::{Error, Result};

/// A file that is being written.
pub(crate) struct Appender {
    /// To remove the file, if nothing comes of it.
    directory: Option<Arc<Directory>>,
    path: PathBuf,
    file: Arc<dyn DataFile>,
    /// What was not handed to the system yet.
    buffer: Vec<u8>,
    piece_bytes: usize,
    trail: Trail,
    charge: Charge,
    /// This much is left free on the disk.
    leaves: u64,
}

/// Where a file that is written from the front to the end is on its way to the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trail {
    /// How many bytes were handed to the system.
    written: u64,
    /// For how many bytes the system was told to begin writing to the disk.
    started: u64,
    /// For how many bytes the system was told that its cache need not hold them.
    released: u64,
    /// The length for which room on the disk was reserved in advance,
    reserved: u64,
    /// and the length for which it will be reserved in the end.
    length: u64,
    /// At most about this much stays in the system's cache,
    window: u64,
    /// unless everything may.
    keeps: bool,
}

/// Pieces of this length are written to the disk only when they are complete: a write to a piece on
/// its way to the disk would wait for the disk.
const WHOLE_BYTES: u64 = 64 << 10;
/// Room is reserved for this many windows at once.
const RESERVED_WINDOWS: u64 = 2;

impl Trail {
    /// Begins where the file has `written` bytes; room is found as it grows.
    pub(crate) fn new(written: u64, window: u64) -> Self {
        let started = written;
        let released = written;
        let window = window.max(2);
        Self { written, started, released, reserved: 0, length: 0, window, keeps: false }
    }

    /// The same for a file of a known length whose writers must not wait: room for it is reserved
    /// before it is needed.
    pub(crate) fn reserving(self, length: u64) -> Self {
        Self { length, ..self }
    }

    /// The same for a file that the system's cache may hold, if `keeps`.
    pub(crate) fn keeping(self, keeps: bool) -> Self {
        Self { keeps, ..self }
    }

    /// The length for which room on the disk was reserved.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// For how many bytes the system was told that they are not needed any more.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    /// The file was written up to `end`.
    pub(crate) fn advance(&mut self, end: u64) {
        self.written = end;
    }

    /// The hints that the system should get by now.
    pub(crate) fn due(&mut self) -> Option<Advice> {
        let piece = WHOLE_BYTES.min(self.window / 4).max(1);
        let whole = self.written - self.written % piece;
        if whole.saturating_sub(self.started) < self.window / 4 {
            return None;
        }
        let started = std::mem::replace(&mut self.started, whole);
        let mut advice = Advice { write: started..whole, release: 0..0, reserve: 0..0 };
        if !self.keeps && self.written - self.released >= self.window {
            // A page of the cache that extends beyond the end would stay.
            let end = self.written - self.window / 2;
            let end = end - end % piece;
            advice.release = std::mem::replace(&mut self.released, end)..end;
        }
        if self.reserved < self.length && self.written + self.window > self.reserved {
            let from = self.reserved.max(self.written);
            let end = (from + RESERVED_WINDOWS * self.window).min(self.length).max(from);
            advice.reserve = from..end;
            self.reserved = end;
        }
        Some(advice)
    }

    /// The file was flushed.
    pub(crate) fn finish(&mut self, file: &dyn DataFile) {
        // From the beginning: what was not on the disk when it was released before is now.
        if !self.keeps {
            file.release(0, self.written);
        }
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
    /// To have room on the disk before it is written.
    reserve: Range<u64>,
}

impl Advice {
    /// How many bytes of the disk it reserves.
    pub(crate) fn reserves(&self) -> u64 {
        self.reserve.end - self.reserve.start
    }

    /// Nothing is reserved: room is found as the file grows.
    pub(crate) fn reserve_nothing(&mut self) {
        self.reserve = 0..0;
    }

    pub(crate) fn tell(&self, file: &dyn DataFile) {
        self.begin(file);
        if !self.release.is_empty() {
            file.release(self.release.start, self.release.end - self.release.start);
        }
    }

    /// Gives the system all hints except which bytes are not needed any more; returns that one.
    pub(crate) fn begin(&self, file: &dyn DataFile) -> Range<u64> {
        if !self.reserve.is_empty() {
            file.reserve(self.reserve.start, self.reserve.end - self.reserve.start);
        }
        file.start_writeback(self.write.start, self.write.end - self.write.start);
        self.release.clone()
    }
}

impl Appender {
    /// Makes the file; of the disk, `leaves` bytes stay free.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn create(directory: &Arc<Directory>, name: Name, leaves: u64) -> Result<Self> {
        let (path, file) = directory.create(name)?;
        let budget = &directory.budget;
        let charge = Charge::new(Arc::downgrade(directory), Part::Buffers);
        let trail = Trail::new(0, budget.written_bytes()).keeping(directory.is_cached);
        let (buffer, piece_bytes) = (Vec::new(), budget.piece_bytes());
        let directory = Some(Arc::clone(directory));
        Ok(Self { directory, path, file, buffer, piece_bytes, trail, charge, leaves })
    }

    /// The directory of the file while it is being written.
    pub(crate) fn directory(&self) -> Option<&Arc<Directory>> {
        self.directory.as_ref()
    }

    /// The length of the file, with what was not handed to the system yet.
    pub(crate) fn len(&self) -> u64 {
        self.trail.written() + self.buffer.len() as u64
    }

    /// Adds bytes at the end. `beside` is the further memory that the caller has for the file; it
    /// is charged together with the buffer.
    ///
    /// # Errors
    /// If the system refuses to write.
    pub(crate) fn push(&mut self, parts: &[&[u8]], beside: usize) -> Result<()> {
        parts.iter().for_each(|part| self.buffer.extend_from_slice(part));
        if self.buffer.len() >= self.piece_bytes { self.write_out(beside) } else { Ok(()) }
    }

    fn write_out(&mut self, beside: usize) -> Result<()> {
        self.charge.set(self.buffer.capacity() + beside);
        if self.buffer.is_empty() {
            return Ok(());
        }
        let has_room = self.has_room();
        let written = has_room.and_then(|()| {
            self.file.append_at(&[IoSlice::new(&self.buffer)], self.trail.written())
        });
        written.map_err(|e| Error::io("write to", &self.path, e))?;
        self.trail.advance(self.len());
        self.trail.due().iter().for_each(|advice| advice.tell(&*self.file));
        self.buffer.clear();
        Ok(())
    }

    /// Whether enough stays free on the disk.
    fn has_room(&self) -> std::io::Result<()> {
        let leaves = self.leaves;
        let Some(directory) = self.directory.as_ref().filter(|_| leaves > 0) else { return Ok(()) };
        let free = directory.system.free_bytes(&directory.path);
        if free.is_none_or(|free| free >= leaves.saturating_add(self.buffer.len() as u64)) {
            return Ok(());
        }
        let reason = format!(
            "the disk is nearly full: less than the {leaves} bytes would be left free that \
             deleting needs"
        );
        Err(std::io::Error::new(std::io::ErrorKind::StorageFull, reason))
    }

    /// Ends the file, which is then on stable storage, except its name.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.write_out(0)?;
        self.file.sync().map_err(|e| Error::io("flush", &self.path, e))?;
        self.trail.finish(&*self.file);
        self.directory = None;
        Ok(self.trail.written())
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            directory.give_up(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1 << 20;

    /// Each byte is reported once, in order, and none of a piece that is still written to.
    #[test]
    fn only_whole_pieces_are_written_to_the_disk() {
        let (mut trail, mut told) = (Trail::new(64, WINDOW), 64);
        for end in (64..8 * WINDOW).step_by(1080) {
            trail.advance(end);
            let Some(advice) = trail.due() else { continue };
            assert_eq!((advice.write.start, advice.write.end % WHOLE_BYTES), (told, 0));
            assert!(advice.write.end <= end && advice.reserve.is_empty());
            assert!(advice.release.is_empty() || advice.release.end + WINDOW / 2 <= end);
            assert_eq!(advice.release.end % WHOLE_BYTES, 0);
            told = advice.write.end;
        }
        assert!(told > 7 * WINDOW);
    }

    /// Where the system's cache may hold a file, nothing of it is released.
    #[test]
    fn what_may_stay_is_not_released() {
        let mut trail = Trail::new(0, WINDOW).keeping(true);
        let mut written = 0;
        for end in (0..8 * WINDOW).step_by(1080) {
            trail.advance(end);
            let Some(advice) = trail.due() else { continue };
            assert!(advice.release.is_empty());
            written = advice.write.end;
        }
        assert!(written > 7 * WINDOW);
    }

    /// After the first piece, room is reserved before it is needed, and for no more than the file's
    /// final length.
    #[test]
    fn room_is_found_before_it_is_needed() {
        let length = 8 * WINDOW;
        let (mut trail, mut count) = (Trail::new(64, WINDOW).reserving(length), 0);
        for end in (64..length).step_by(1080) {
            trail.advance(end);
            let advice = trail.due();
            count += usize::from(advice.is_some_and(|advice| !advice.reserve.is_empty()));
            assert!(end < WINDOW / 2 || trail.reserved() > end);
            assert!(trail.reserved() <= length.min(end + 3 * WINDOW));
        }
        assert_eq!((trail.reserved(), count), (length, 4));
    }
}
