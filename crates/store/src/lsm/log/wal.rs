//! The write-ahead log: making a segment, adding groups to it, and what is done with it when it is
//! full. It knows no tables.

use std::io::{ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::held::Held;
use super::pending::Pending;
use super::segment::{Closed, GATHERED_BYTES_MAX, GROUP_HEADER_BYTES, Group, Identity};
use super::warm::Warm;
use crate::Durability;
use crate::canary::{Bug, is_planted};
use crate::lsm::files::append::{Advice, Trail};
use crate::lsm::files::cached::Blocks;
use crate::lsm::files::{Directory, Name};
use crate::os::DataFile;
use crate::sync::{Mutex, locked};
use crate::{Error, Result};

#[cfg(test)]
mod tests;

/// If flushes are frequent, this much after the end is filled with zeros in advance: then a flush
/// writes only data, and no change of the file's length and place.
const PREPARED_BYTES: u64 = 1 << 20;
/// A segment that is closed keeps zeros up to the next but one multiple of this.
const CLOSED_BYTES: u64 = 64 << 10;
/// Flushes come often if no more than this was written since the one before.
const OFTEN_BYTES: u64 = 64 << 10;

/// The operations of a group: how many there are, and their bytes.
pub(crate) type Body<'b> = (u32, &'b [u8]);

/// What a segment is held to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// At most about this much stays in the system's cache,
    pub(crate) window_bytes: u64,
    /// unless everything may.
    pub(crate) keeps: bool,
    /// No zeros are put beyond this length.
    pub(crate) segment_bytes: u64,
}

impl Bounds {
    pub(crate) fn new(directory: &Directory, segment_bytes: u64) -> Self {
        let window_bytes = directory.budget.written_bytes();
        Self { window_bytes, keeps: directory.is_cached, segment_bytes }
    }
}

/// A segment as a file that is written to.
pub(crate) struct SegmentFile {
    pub(crate) identity: Identity,
    pub(crate) file: Arc<dyn DataFile>,
    pub(crate) path: PathBuf,
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
    flushed: Arc<Mutex<Flushed>>,
    /// For how much of it the system was told that its cache need not hold it.
    released: u64,
}

impl Ended {
    /// Returns when all of it is on stable storage.
    ///
    /// # Errors
    /// If the system refuses. After a failed flush the content of the disk is unknown.
    pub(crate) fn flush(&self) -> Result<()> {
        // The system tells only one of two threads that flush a file at once of a failure.
        let mut flushed = locked(&self.flushed);
        let io = |e| Error::io("flush", &self.path, e);
        match *flushed {
            Flushed::Yes => return Ok(()),
            Flushed::Failed(kind) => return Err(io(kind.into())),
            Flushed::No if is_planted(Bug::SkippedFlush) => return Ok(()),
            Flushed::No => {}
        }
        let result = self.file.sync();
        *flushed = result.as_ref().map_or_else(|e| Flushed::Failed(e.kind()), |()| Flushed::Yes);
        result.map_err(io)
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

/// Whether a segment is on stable storage.
enum Flushed {
    No,
    Yes,
    /// The system has refused once: what it says later is not to be trusted.
    Failed(ErrorKind),
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
    /// The same, but nothing is reserved on a disk that has not plenty of room for it.
    pub(crate) fn sparing(mut self, has_plenty: impl FnOnce(u64) -> bool) -> Self {
        let reserves = self.advice.reserves();
        if reserves > 0 && !has_plenty(reserves) {
            self.advice.reserve_nothing();
        }
        self
    }

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
        segment: SegmentFile,
        at: u64,
        bounds: Bounds,
        held: Arc<Held>,
        mut pending: Option<Pending>,
    ) -> Self {
        let SegmentFile { identity, file, path } = segment;
        held.lock().begin(identity.number, at);
        if let Some(pending) = &mut pending {
            pending.begin(identity.number, at);
            pending.flushed(&identity, at);
        }
        let trail = Trail::new(at, bounds.window_bytes).keeping(bounds.keeps);
        let trail = trail.reserving(bounds.segment_bytes);
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
        let flushed = if self.flushed == len { Flushed::Yes } else { Flushed::No };
        let flushed = Arc::new(Mutex::new(flushed));
        let released = self.trail.released();
        Ended { number, len, last_seq, file, path, is_longer, flushed, released }
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// The file that is written to.
    pub(crate) fn path(&self) -> &Path {
        &self.path
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
        groups: &[Body<'_>],
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
    fn append_long(&mut self, groups: &[Body<'_>], mut seq: u64) -> Result<()> {
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
        // What is flushed is not noted: the segments before this one may not be.
        self.prepared = self.trail.written();
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

/// Makes a segment; it is on stable storage then, name included.
pub(crate) fn new_segment(
    directory: &Directory,
    number: u32,
    first_seq: u64,
) -> Result<SegmentFile> {
    let segment = begin_segment(directory, number, first_seq)?;
    let flushed = segment.file.sync().map_err(|e| Error::io("flush", &segment.path, e));
    let flushed = flushed.and_then(|()| directory.sync());
    flushed.inspect_err(|_| directory.give_up(&segment.path))?;
    Ok(segment)
}

/// Makes a segment and leaves it to the caller to flush it.
pub(crate) fn begin_segment(
    directory: &Directory,
    number: u32,
    first_seq: u64,
) -> Result<SegmentFile> {
    let identity = Identity { number, salt: directory.random(), first_seq };
    let (path, file) = directory.create(Name::Segment(number))?;
    let written = file.write_at(&[IoSlice::new(&identity.header())], 0);
    written.map_err(|e| {
        directory.give_up(&path);
        Error::io("write to", &path, e)
    })?;
    Ok(SegmentFile { identity, file, path })
}
