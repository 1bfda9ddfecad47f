//! Recovering from the log what no table holds: steps 3 and 4 of `open`, and their form for a
//! reader that may not write. The reader keeps in memory what an opener would put into tables or
//! add to a segment, and cuts nothing.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::replay::{Job, Replay};
use crate::lsm::buffer::Buffer;
use crate::lsm::closing::Closing;
use crate::lsm::engine::FROZEN_MAX;
use crate::lsm::files::{Directory, Name};
use crate::lsm::levels::manifest::{self, Extent};
use crate::lsm::levels::run::{self, Numbers, Output, Rules};
use crate::lsm::levels::version::{Edit, Pinned, Sealed, Segment, Version};
use crate::lsm::log::groups::{Groups, PREFETCH_BYTES, Stretch};
use crate::lsm::log::pending::Remains;
use crate::lsm::log::segment::{Closed, HEADER_BYTES, Identity};
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

/// What stands in more segments of the log goes to a table.
const LOGS_MAX: usize = 8;

/// What may be done to the files of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everything.
    Write,
    /// They are read.
    Read,
}

/// What the process before left beside tables and segments.
struct Left {
    /// What the log did not hold yet.
    remains: Remains,
    /// Where edits can be added to the manifest.
    manifest: Option<Extent>,
    /// Whether there are files that the manifest does not name.
    has_orphans: bool,
    /// The segment that says that it closed the store.
    closed: Option<ClosedLog>,
}

/// A segment that ends in the mark of a close.
pub(crate) struct ClosedLog {
    pub(crate) identity: Identity,
    pub(crate) file: Arc<dyn DataFile>,
    pub(crate) path: PathBuf,
    /// Its groups end here,
    pub(crate) end: u64,
    /// with this sequence number, if there are any.
    last_seq: u64,
}

/// Steps 3 and 4.
pub(crate) struct Recovery<'o> {
    options: &'o Options,
    access: Access,
    pub(crate) version: Version,
    pub(crate) buffer: Arc<Buffer>,
    /// Full ones, the newest first.
    pub(crate) frozen: Vec<Frozen>,
    replay: Replay,
    left: Left,
    /// How the log ends, and what went to tables.
    pub(crate) edits: Vec<Edit>,
    /// Files that are to be flushed before a manifest says how they have ended.
    pub(crate) unflushed: Vec<(PathBuf, Arc<dyn DataFile>)>,
    /// What the system's cache holds of the log now.
    pub(crate) warm: Warm,
    pub(crate) last_seq: u64,
    pub(crate) next_file: u32,
}

impl<'o> Recovery<'o> {
    /// # Errors
    /// [`Error::Corrupt`] if a file is missing.
    pub(crate) fn begin(
        options: &'o Options,
        (version, manifest): (Version, Option<Extent>),
        access: Access,
    ) -> Result<Self> {
        let directory = version.directory();
        let there: BTreeSet<Name> = directory.names()?.into_iter().collect();
        // Before anything is removed: if the end of the manifest is lost, the files that it named
        // seem to be orphans.
        let named = version.names();
        let is_missing = |name: &&Name| name.is_data() && !there.contains(name);
        if let Some(&missing) = named.iter().find(is_missing) {
            let what = "the manifest names it, and it is not there";
            return Err(Error::corrupt_at(&directory.file(missing), 0, what));
        }
        let has_orphans = there.iter().any(|name| !named.contains(name));
        if has_orphans && access == Access::Write {
            remove_unnamed(directory, &there)?;
        }
        let numbers = there.iter().filter_map(|&name| match name {
            Name::Segment(number) | Name::Table(number) => Some(number),
            _ => None,
        });
        // A number is not given twice while a file of that name may still be there.
        let next_file = numbers.max().map_or(1, |last| last.saturating_add(1));
        let next_file = next_file.max(version.next_file);
        let has_thread =
            directory.system.flushes_in_background() && options.memtable_bytes >= SHARED_BYTES_MIN;
        let (replay, edits) = (Replay::new(has_thread), Vec::new());
        let buffer = Arc::new(Buffer::new(options.memtable_bytes));
        let last_seq = version.flushed;
        let (frozen, unflushed, warm) = (Vec::new(), Vec::new(), Warm::new(directory.is_cached));
        let remains = Remains::read(directory)?;
        let left = Left { remains, manifest, has_orphans, closed: None };
        Ok(Self {
            options,
            access,
            version,
            buffer,
            frozen,
            replay,
            left,
            edits,
            unflushed,
            warm,
            last_seq,
            next_file,
        })
    }

    /// Reads what is not in tables yet.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the log is, [`Error::Io`] if the system refuses.
    pub(crate) fn replay(&mut self) -> Result<()> {
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
        // What the next segment must begin with; the first one may begin with what is in tables.
        let mut next = None;
        for (segment, file) in logs.iter().zip(files) {
            next = self.replay_segment(segment, Arc::clone(&file), next)?.or(next);
            if self.access == Access::Write {
                let len = file.len().unwrap_or(0);
                let blocks = &self.version.directory().blocks;
                self.warm.keep(blocks, segment.identity.number, &file, 0..len);
            }
        }
        self.replay.order(Arc::clone(&self.buffer));
        self.replay.settle()?;
        self.check_pins()
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

    /// Reads a segment; returns what the next one must begin with, unless nothing of this one
    /// counts.
    fn replay_segment(
        &mut self,
        segment: &Segment,
        file: Arc<dyn DataFile>,
        next: Option<u64>,
    ) -> Result<Option<u64>> {
        let path = segment.handle().path().to_path_buf();
        segment.identity.verify(&*file, &path)?;
        let len = file.len().map_err(|e| Error::io("ask for the length of", &path, e))?;
        let end = segment.sealed.map_or(len, |sealed| sealed.len);
        let mut groups = Groups::new(segment.identity, Arc::clone(&file), &path, end)?;
        let known = self.left.remains.flushed(&segment.identity);
        let (mut seq, mut flushed) = (None, known.max(HEADER_BYTES as u64));
        loop {
            groups.reuse(self.replay.spare());
            let Some(stretch) = self.next_stretch(segment, &*file, &mut groups)? else { break };
            let first = stretch.groups().next().map_or(0, |group| group.seq);
            let known = stretch.groups().map(|group| group.flushed).max();
            flushed = flushed.max(known.unwrap_or(0));
            let begun = seq.or(next).unwrap_or(first.min(self.version.flushed + 1));
            if first != begun && seq.is_none() && segment.sealed.is_none() {
                return self.leave_out(segment, groups, flushed).map(|()| None);
            }
            let end = follow(&stretch, begun).map_err(|offset| {
                let what = "a group of the log is not the one that follows";
                Error::corrupt_at(&path, offset, what)
            })?;
            seq = Some(end);
            self.last_seq = self.last_seq.max(end - 1);
            self.replay.push(Job {
                buffer: Arc::clone(&self.buffer),
                stretch,
                segment: segment.identity.number,
                path: path.clone(),
                flushed: self.version.flushed,
            });
            if self.buffer.is_full(self.options.memtable_bytes) {
                self.freeze()?;
            }
        }
        let last_seq = seq.map(|seq| seq - 1);
        match segment.sealed {
            // A segment that has ended without a group says nothing about the next one.
            Some(sealed) => {
                let follows = last_seq.is_none_or(|last_seq| last_seq == sealed.last_seq);
                if !groups.is_at_end() || !follows {
                    let what = "a group of the log is damaged";
                    return Err(Error::corrupt_at(&path, groups.position(), what));
                }
            }
            None => self.end(segment, groups, file, (flushed, last_seq.unwrap_or(0)))?,
        }
        Ok(seq)
    }

    /// The next groups: of the segment, and after them those that were handed to the system and do
    /// not stand in it yet. They are added to it, or kept in memory.
    fn next_stretch(
        &self,
        segment: &Segment,
        file: &dyn DataFile,
        groups: &mut Groups,
    ) -> Result<Option<Stretch>> {
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
            let path = segment.handle().path();
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

    /// What the mark of a close would say here.
    fn closed(&self) -> Option<Closed> {
        let Extent { salt, end, .. } = self.left.manifest?;
        let (manifest_salt, manifest_len) = (salt, end);
        Some(Closed { manifest_salt, manifest_len, last_seq: self.last_seq })
    }

    /// The segment in which the log goes on as it was left: the store was closed, nothing has
    /// changed since, and nothing is to be put in order.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn take_closed(&mut self) -> Result<Option<(ClosedLog, Extent)>> {
        let is_as_left = self.edits.is_empty()
            && self.frozen.is_empty()
            && !self.left.has_orphans
            && self.version.log().count() <= LOGS_MAX;
        let Some(closed) = self.left.closed.take() else { return Ok(None) };
        if let Some(manifest) = self.left.manifest.filter(|_| is_as_left) {
            return Ok(Some((closed, manifest)));
        }
        // It ends here, like all others.
        let ClosedLog { identity, file, path, end, last_seq } = closed;
        self.edits.push(end_of(identity.number, end, last_seq));
        file.set_len(end).map_err(|e| Error::io("cut", &path, e))?;
        self.unflushed.push((path, file));
        Ok(None)
    }

    /// Writes everything to a table if it stands in many segments, which are short then.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn fold(&mut self) -> Result<()> {
        if self.version.log().count() <= LOGS_MAX || self.last_seq == self.version.flushed {
            return Ok(());
        }
        self.freeze()?;
        while !self.frozen.is_empty() {
            self.write_table()?;
        }
        Ok(())
    }

    /// Ends a segment that the manifest does not call ended, after its last group. `flushed` bytes
    /// of it are known to be on stable storage, and `last_seq` is its last sequence number.
    fn end(
        &mut self,
        segment: &Segment,
        mut groups: Groups,
        file: Arc<dyn DataFile>,
        (flushed, last_seq): (u64, u64),
    ) -> Result<()> {
        // Nothing is cut after groups that make no sense.
        self.replay.settle()?;
        let path = segment.handle().path();
        let cut = groups.position();
        if self.access == Access::Write
            && let Some(closed) = self.closed()
            && groups.ends_with(&closed)?
        {
            let (identity, path, end) = (segment.identity, path.to_path_buf(), cut);
            self.left.closed = Some(ClosedLog { identity, file, path, end, last_seq });
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
    /// and so nothing here was ever durable. It is damage if a group says otherwise: the groups
    /// that were read say how much was flushed.
    fn leave_out(&mut self, segment: &Segment, mut groups: Groups, flushed: u64) -> Result<()> {
        let mut flushed = flushed;
        while let Some(group) = groups.next()? {
            flushed = flushed.max(group.flushed);
        }
        if flushed > HEADER_BYTES as u64 {
            let what = "the log is damaged: groups are missing before this segment, which says \
                        that they were whole";
            return Err(Error::corrupt_at(segment.handle().path(), HEADER_BYTES as u64, what));
        }
        self.edits.push(Edit::RemoveSegment { number: segment.identity.number });
        Ok(())
    }

    /// Goes on in another buffer. The full ones go to tables when the store is open, as far as
    /// writers may leave them to others then.
    fn freeze(&mut self) -> Result<()> {
        let empty = Arc::new(Buffer::new(self.options.memtable_bytes));
        let buffer = std::mem::replace(&mut self.buffer, empty);
        self.replay.order(Arc::clone(&buffer));
        self.frozen.insert(0, Frozen { buffer, last_seq: self.last_seq });
        match self.frozen.len() > FROZEN_MAX && self.access == Access::Write {
            true => self.write_table(),
            false => Ok(()),
        }
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

    /// Writes the oldest buffer to a table.
    fn write_table(&mut self) -> Result<()> {
        self.replay.settle()?;
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
}

/// Removes files that no record of the manifest has ever named: what a merge or a copy was writing
/// when its process ended. However much of the manifest's end a loss of power takes, none of them
/// comes to count; so it need not be written anew first, for which a full disk has no room.
fn remove_unnamed(directory: &Directory, there: &BTreeSet<Name>) -> Result<()> {
    let named = manifest::ever_named(directory)?;
    let is_unnamed = |name: &&Name| match name {
        Name::Segment(_) | Name::Table(_) => !named.contains(name),
        Name::Copy(_) => true,
        _ => false,
    };
    let mut unnamed = there.iter().filter(is_unnamed).peekable();
    if unnamed.peek().is_some() {
        // The manifest may stand in the place of one that named other files.
        directory.sync()?;
    }
    unnamed.for_each(|&name| directory.give_up(&directory.file(name)));
    Ok(())
}

/// How the manifest says that a segment has ended.
fn end_of(number: u32, len: u64, last_seq: u64) -> Edit {
    match len > HEADER_BYTES as u64 {
        true => Edit::SealSegment { number, sealed: Sealed { len, last_seq, remap_len: 0 } },
        false => Edit::RemoveSegment { number },
    }
}

/// The sequence number after groups, the first of which must begin with `seq`; the offset of the
/// first one that does not follow.
fn follow(stretch: &Stretch, seq: u64) -> Result<u64, u64> {
    let mut groups = stretch.groups();
    groups.try_fold(seq, |seq, group| match group.seq == seq {
        true => Ok(group.last_seq() + 1),
        false => Err(group.offset),
    })
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
