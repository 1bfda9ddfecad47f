//! Replaying the log: what no table holds goes into buffers. That is step 3 of `open`, and its form
//! for a reader, which may not write: a reader keeps in memory what an opener would put into tables
//! or add to a segment, and cuts nothing.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::load::{Job, Loader};
use crate::lsm::buffer::Buffer;
use crate::lsm::closing::Closing;
use crate::lsm::engine::FROZEN_MAX;
use crate::lsm::files::Name;
use crate::lsm::levels::manifest::Extent;
use crate::lsm::levels::run::{self, Numbers, Output, Rules};
use crate::lsm::levels::version::{Edit, Pinned, Sealed, Segment, Version};
use crate::lsm::log::groups::{Groups, PREFETCH_BYTES, Stretch};
use crate::lsm::log::pending::Remains;
use crate::lsm::log::segment::HEADER_BYTES;
use crate::lsm::log::wal::SegmentFile;
use crate::lsm::log::warm::Warm;
use crate::lsm::options::Options;
use crate::lsm::read::view::Frozen;
use crate::os::{DataFile, Open};
use crate::sync::atomic::AtomicU32;
use crate::{Error, Result};

/// This much of the log is rewritten at a time.
const REWRITE_BYTES: u64 = 1 << 20;
/// With a smaller buffer than this, one thread puts the log into it: what two have in hand would
/// take too much more.
pub(crate) const SHARED_BYTES_MIN: usize = 1 << 20;
/// The search for groups after a break reads at most this many times the bytes there.
const SEARCH_EFFORT: u64 = 4;

/// What may be done to the files of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Everything.
    Write,
    /// They are read.
    Read,
}

/// What the process before left beside tables and segments.
pub(super) struct Left {
    /// Groups that it had not written to the log yet.
    remains: Remains,
    /// Where edits can be added to the manifest.
    manifest: Option<Extent>,
    /// The segment that says that it closed the store.
    pub(super) closed: Option<ClosedLog>,
}

/// A segment that ends in the mark of a close.
pub(super) struct ClosedLog {
    pub(super) segment: SegmentFile,
    /// Where its groups end, and the sequence number of the last one; 0 if there is none.
    pub(super) end: u64,
    last_seq: u64,
    /// The manifest that the mark names.
    pub(super) manifest: Extent,
}

/// A segment that is being replayed.
struct Reading<'s> {
    segment: &'s Segment,
    path: &'s Path,
    file: Arc<dyn DataFile>,
    groups: Groups,
    /// How many of its bytes are known to have been on stable storage.
    flushed: u64,
    /// The sequence number after its last group, if there was one.
    next_seq: Option<u64>,
}

/// The log as it is replayed, and what came of it.
pub(super) struct Replay {
    memtable_bytes: usize,
    access: Access,
    pub(super) version: Version,
    pub(super) left: Left,
    loader: Loader,
    pub(super) active: Arc<Buffer>,
    /// Full buffers, the newest first.
    pub(super) frozen: Vec<Frozen>,
    /// How the log ends, and what went to tables.
    pub(super) edits: Vec<Edit>,
    /// Files that are to be flushed before a manifest says how they have ended.
    pub(super) unflushed: Vec<(PathBuf, Arc<dyn DataFile>)>,
    /// What the system's cache holds of the log now.
    pub(super) warm: Warm,
    pub(super) last_seq: u64,
    pub(super) next_file: u32,
}

/// The files that are there, among them all that the version names. That is to be known before
/// anything is removed: if the end of the manifest is lost, the files that it named seem to be
/// orphans.
///
/// # Errors
/// [`Error::Corrupt`] if a file is missing.
pub(super) fn files(version: &Version) -> Result<BTreeSet<Name>> {
    let there: BTreeSet<Name> = version.directory().names()?.into_iter().collect();
    let is_missing = |name: &Name| name.is_data() && !there.contains(name);
    if let Some(missing) = version.names().into_iter().find(is_missing) {
        let what = "the manifest names it, and it is not there";
        return Err(Error::corrupt_at(&version.directory().file(missing), 0, what));
    }
    Ok(there)
}

impl Replay {
    /// Begins to replay the log of a version, with the files that are there.
    pub(super) fn begin(
        options: &Options,
        (version, manifest): (Version, Option<Extent>),
        there: &BTreeSet<Name>,
        access: Access,
    ) -> Result<Self> {
        let directory = version.directory();
        let numbers = there.iter().filter_map(|&name| match name {
            Name::Segment(number) | Name::Table(number) => Some(number),
            _ => None,
        });
        // A number is not given twice while a file of that name may still be there.
        let next_file = numbers.max().map_or(1, |last| last.saturating_add(1));
        let next_file = next_file.max(version.next_file);
        let has_thread =
            directory.system.flushes_in_background() && options.memtable_bytes >= SHARED_BYTES_MIN;
        let loader = Loader::new(has_thread);
        let left = Left { remains: Remains::read(directory)?, manifest, closed: None };
        Ok(Self {
            memtable_bytes: options.memtable_bytes,
            access,
            left,
            loader,
            active: Arc::new(Buffer::new(options.memtable_bytes)),
            frozen: Vec::new(),
            edits: Vec::new(),
            unflushed: Vec::new(),
            warm: Warm::new(directory.is_cached),
            last_seq: version.flushed,
            next_file,
            version,
        })
    }

    /// Replays all segments.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the log is damaged, [`Error::Io`] if the system refuses.
    pub(super) fn run(&mut self) -> Result<()> {
        let logs: Vec<Segment> = self.version.log().cloned().collect();
        let mut files = Vec::with_capacity(logs.len());
        let how = if self.access == Access::Write { Open::Write } else { Open::Read };
        for segment in &logs {
            let path = segment.handle().path();
            let opened = self.version.directory().system.open_data(path, how, 0);
            let file = opened.map_err(|e| Error::io("open", path, e))?;
            // So that it is there when the ones before are read.
            file.prefetch(0, PREFETCH_BYTES);
            files.push(file);
        }
        // The first segment may begin with what is in tables.
        let mut next_seq = None;
        for (segment, file) in logs.iter().zip(files) {
            next_seq = self.replay_segment(segment, Arc::clone(&file), next_seq)?.or(next_seq);
            if self.access == Access::Write {
                let len = file.len().unwrap_or(0);
                let blocks = &self.version.directory().blocks;
                self.warm.keep(blocks, segment.identity.number, &file, 0..len);
            }
        }
        self.loader.order(Arc::clone(&self.active));
        self.loader.settle()?;
        self.check_pins()
    }

    /// Replays a segment, which must begin with `expected` unless nothing is known about that.
    /// Returns what the next segment must begin with, unless nothing of this one counts.
    fn replay_segment(
        &mut self,
        segment: &Segment,
        file: Arc<dyn DataFile>,
        expected: Option<u64>,
    ) -> Result<Option<u64>> {
        let path = segment.handle().path();
        segment.identity.verify(&*file, path)?;
        let len = file.len().map_err(|e| Error::io("ask for the length of", path, e))?;
        let end = segment.sealed.map_or(len, |sealed| sealed.len);
        let groups = Groups::new(segment.identity, Arc::clone(&file), path, end)?;
        let flushed = self.left.remains.flushed(&segment.identity).max(HEADER_BYTES as u64);
        let mut reading = Reading { segment, path, file, groups, flushed, next_seq: None };
        loop {
            reading.groups.reuse(self.loader.spare());
            let Some(stretch) = self.next_stretch(&mut reading)? else { break };
            let known = stretch.groups().map(|group| group.flushed).max();
            reading.flushed = reading.flushed.max(known.unwrap_or(0));
            let first = stretch.groups().next().map_or(0, |group| group.seq);
            let expected = reading.next_seq.or(expected);
            let expected = expected.unwrap_or(first.min(self.version.flushed + 1));
            if first != expected && reading.next_seq.is_none() && segment.sealed.is_none() {
                return self.leave_out(reading).map(|()| None);
            }
            self.load(&mut reading, stretch, expected)?;
        }
        let next_seq = reading.next_seq;
        let Some(sealed) = segment.sealed else {
            self.end(reading)?;
            return Ok(next_seq);
        };
        // A sealed segment without a group says nothing about the next one.
        let follows = next_seq.is_none_or(|next| next - 1 == sealed.last_seq);
        if !reading.groups.is_at_end() || !follows {
            let what = "a group of the log is damaged";
            return Err(Error::corrupt_at(path, reading.groups.position(), what));
        }
        Ok(next_seq)
    }

    /// The next groups: those in the segment, and after them those that were handed to the system
    /// and do not stand in it yet. An opener adds them to the segment, and a reader keeps them in
    /// memory.
    fn next_stretch(&self, reading: &mut Reading<'_>) -> Result<Option<Stretch>> {
        let Reading { segment, path, file, groups, .. } = reading;
        let stretch = groups.next_stretch()?;
        if stretch.is_some() || segment.sealed.is_some() {
            return Ok(stretch);
        }
        let at = groups.position();
        let more = self.left.remains.groups(&segment.identity, at);
        let end = at + more.len() as u64;
        if more.is_empty() {
            return Ok(None);
        }
        if self.access == Access::Write {
            let written = file.write_at(&[IoSlice::new(more)], at);
            written.map_err(|e| Error::io("write to", path, e))?;
            groups.extend(end);
            return groups.next_stretch();
        }
        let mut held = self.version.directory().held.lock();
        held.begin(segment.identity.number, at);
        held.push([more, &[]]);
        groups.pass(end);
        Ok(Some(Stretch::of(&segment.identity, at, more)))
    }

    /// Has groups put into the buffer, the first of which must begin with `expected`.
    fn load(&mut self, reading: &mut Reading<'_>, stretch: Stretch, expected: u64) -> Result<()> {
        let mut next_seq = expected;
        for group in stretch.groups() {
            if group.seq != next_seq {
                let what = "a group of the log is not the one that follows";
                return Err(Error::corrupt_at(reading.path, group.offset, what));
            }
            next_seq = group.last_seq() + 1;
        }
        reading.next_seq = Some(next_seq);
        self.last_seq = self.last_seq.max(next_seq - 1);
        self.loader.push(Job {
            buffer: Arc::clone(&self.active),
            stretch,
            segment: reading.segment.identity.number,
            path: reading.path.to_path_buf(),
            flushed: self.version.flushed,
        });
        if self.active.is_full(self.memtable_bytes) {
            self.freeze()?;
        }
        Ok(())
    }

    /// Ends a segment that the manifest does not call sealed, after its last group.
    fn end(&mut self, reading: Reading<'_>) -> Result<()> {
        // Nothing is cut after groups that make no sense.
        self.loader.settle()?;
        let Reading { segment, path, file, mut groups, flushed, next_seq } = reading;
        let (cut, last_seq) = (groups.position(), next_seq.map_or(0, |next| next - 1));
        if let Some(manifest) = self.left.manifest
            && groups.ends_with(&manifest.mark(self.last_seq))?
        {
            let (identity, path) = (segment.identity, path.to_path_buf());
            let segment = SegmentFile { identity, file, path };
            self.left.closed = Some(ClosedLog { segment, end: cut, last_seq, manifest });
            return Ok(());
        }
        if flushed > cut || !groups.is_at_end() && groups.is_damaged_here(SEARCH_EFFORT)? {
            let what = "a group of the log is damaged: groups behind it say it was whole";
            return Err(Error::corrupt_at(path, cut, what));
        }
        self.edits.push(end_of(segment.identity.number, cut, last_seq));
        if cut > HEADER_BYTES as u64 && self.access == Access::Write {
            // This is done even if the file ends there already: room may have been reserved for
            // more.
            file.set_len(cut).map_err(|e| Error::io("cut", path, e))?;
            rewrite(&*file, flushed..cut).map_err(|e| Error::io("write to", path, e))?;
            self.unflushed.push((path.to_path_buf(), file));
        }
        Ok(())
    }

    /// Leaves out a segment whose first group does not follow: the tail of the one before was lost,
    /// and so nothing here was ever durable. It is damage if a group says otherwise.
    fn leave_out(&mut self, reading: Reading<'_>) -> Result<()> {
        let Reading { segment, path, mut groups, mut flushed, .. } = reading;
        while let Some(group) = groups.next()? {
            flushed = flushed.max(group.flushed);
        }
        if flushed > HEADER_BYTES as u64 {
            let what = "the log is damaged: groups are missing before this segment, which says \
                        that they were whole";
            return Err(Error::corrupt_at(path, HEADER_BYTES as u64, what));
        }
        self.edits.push(Edit::RemoveSegment { number: segment.identity.number });
        Ok(())
    }

    /// What has a name was on stable storage before it got it.
    fn check_pins(&self) -> Result<()> {
        let is_lost = |pinned: &Pinned| pinned.seq > self.last_seq;
        if !self.version.pins.values().any(is_lost) {
            return Ok(());
        }
        let path = self.version.directory().file(Name::Manifest);
        let what = "a pin names a commit that neither tables nor the log hold";
        Err(Error::corrupt_at(&path, 0, what))
    }

    /// Ends a segment that says that it closed the store like all others.
    pub(super) fn cut_closed(&mut self, closed: ClosedLog) -> Result<()> {
        let ClosedLog { segment: SegmentFile { identity, file, path }, end, last_seq, .. } = closed;
        self.edits.push(end_of(identity.number, end, last_seq));
        file.set_len(end).map_err(|e| Error::io("cut", &path, e))?;
        self.unflushed.push((path, file));
        Ok(())
    }

    /// Goes on in another buffer. The full ones go to tables when the store is open, as far as
    /// writers may leave them to others then.
    fn freeze(&mut self) -> Result<()> {
        let empty = Arc::new(Buffer::new(self.memtable_bytes));
        let buffer = std::mem::replace(&mut self.active, empty);
        self.loader.order(Arc::clone(&buffer));
        self.frozen.insert(0, Frozen { buffer, last_seq: self.last_seq });
        match self.frozen.len() > FROZEN_MAX && self.access == Access::Write {
            true => self.write_table(),
            false => Ok(()),
        }
    }

    /// Writes everything to tables.
    pub(super) fn write_tables(&mut self) -> Result<()> {
        self.freeze()?;
        while !self.frozen.is_empty() {
            self.write_table()?;
        }
        Ok(())
    }

    /// Writes the oldest buffer to a table.
    fn write_table(&mut self) -> Result<()> {
        self.loader.settle()?;
        let Some(Frozen { buffer, last_seq }) = self.frozen.pop() else { return Ok(()) };
        let next_file = AtomicU32::new(self.next_file);
        let number = || next_file.fetch_add(1, Ordering::Relaxed);
        let output = Output {
            version: &self.version,
            rules: Rules { snapshots: self.readers(), is_last: false },
            table_bytes: u64::MAX,
            numbers: Numbers::new(&number),
            may_share: false,
            closing: &Closing::default(),
            leaves: 0,
        };
        let pieces = output.rules.pieces(&buffer.tombstones());
        let tables = run::write_tables(&output, &mut buffer.walk(), &pieces)?;
        self.next_file = next_file.load(Ordering::Relaxed);
        self.edits.extend(tables.into_iter().map(|meta| Edit::AddTable { level: 0, meta }));
        self.edits.push(Edit::Flushed { seq: last_seq });
        Ok(())
    }

    /// What readers will see: the commits that are kept under a name, and what there is.
    fn readers(&self) -> Vec<u64> {
        let pins = self.version.pins.values().map(|pinned| pinned.seq);
        // While the log is being read, of later commits nothing is in memory.
        let read = pins.filter(|&seq| seq < self.last_seq);
        let mut readers: Vec<u64> = read.chain([self.last_seq]).collect();
        readers.sort_unstable();
        readers.dedup();
        readers
    }
}

/// How the manifest says that a segment has ended.
fn end_of(number: u32, len: u64, last_seq: u64) -> Edit {
    match len > HEADER_BYTES as u64 {
        true => Edit::SealSegment { number, sealed: Sealed { len, last_seq, remap_len: 0 } },
        false => Edit::RemoveSegment { number },
    }
}

/// Writes to a place what stands there.
fn rewrite(file: &dyn DataFile, mut range: Range<u64>) -> std::io::Result<()> {
    let mut bytes = vec![0; range.end.saturating_sub(range.start).min(REWRITE_BYTES) as usize];
    while !range.is_empty() {
        let len = bytes.len().min((range.end - range.start) as usize);
        file.read_at(&mut bytes[..len], range.start)?;
        file.write_at(&[IoSlice::new(&bytes[..len])], range.start)?;
        range.start += len as u64;
    }
    Ok(())
}
