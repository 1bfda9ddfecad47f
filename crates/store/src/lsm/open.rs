//! Opening a store, as one recipe, which is also how it recovers.
//!
//! 1. The lock file keeps everybody else out.
//! 2. The manifest says which files are the store. A torn last record is the edit of somebody who
//!    never learned that it was made; what it would have named is an orphan.
//! 3. Log segments with anything that is not in tables are replayed into buffers. One of which the
//!    manifest says that it has ended must be whole. The others, the last ones, may end in a tail
//!    that was being written: it is cut at the first group that is not whole, unless a later one
//!    proves that it was whole once. A segment that does not go on where the one before ends is
//!    left out: what is missing between them was not durable, so neither was this. Before one is
//!    cut it gets the groups that come next, where the pending file has them.
//! 4. What was found may stand in the system's cache only, and where a flush failed the system may
//!    have forgotten that it does: what was not known to be on stable storage is written once more.
//!    The last segments end where they were cut.
//! 5. A new segment is made, and a new manifest that says all this; they are flushed, together with
//!    the last segments, and the manifest takes the place of the old one by a rename. A crash
//!    before it leaves the old one, and this recipe begins anew.
//! 6. Files that the manifest does not name are removed.

use std::collections::BTreeSet;
use std::io::{ErrorKind, IoSlice};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLock};

use super::background::{Background, Threads};
use super::buffer::Buffer;
use super::catalog::Catalog;
use super::commit::Queue;
use super::db::Db;
use super::engine::{
    Clock, Current, FROZEN_MAX, Frozen, Health, Inner, Turns, Writer, begin_segment,
};
use super::files::{self, Directory, Name, random};
use super::manifest::{self, Draft};
use super::memory::Budget;
use super::options::Options;
use super::pending::{Pending, Remains};
use super::replay::{Job, Replay};
use super::rotate::Logs;
use super::run::{self, Output, Rules};
use super::version::{Edit, Sealed, Segment, Version};
use super::wal::{Bounds, Groups, HEADER_BYTES, Log, PREFETCH_BYTES, Stretch};
use super::warm::Warm;
use crate::canary::{Bug, is_planted};
use crate::os::{DataFile, Open, RealSystem, System};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, AtomicU64};
use crate::{Error, Result};

/// Permission bits of new files and directories.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// So much of the log is written once more at a time.
const REWRITE_BYTES: u64 = 1 << 20;
/// With a smaller buffer than this, one thread puts the log into it: what two have in hand would
/// take too much more.
const SHARED_BYTES_MIN: usize = 1 << 20;
/// Search for groups behind a break: at most so many times the bytes there.
const SEARCH_EFFORT: u64 = 4;

impl Options {
    /// Opens the store in a directory; with [`Options::create`], makes it if there is none.
    ///
    /// What a crash left is put in order. The time it takes grows with the log that is not in
    /// tables yet, which [`Options::memtable_bytes`] bounds.
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open already, here or in another process, [`Error::Path`] if
    /// there is none, [`Error::NotAStore`] if the directory holds something else,
    /// [`Error::Unsupported`] if a newer version wrote it, [`Error::Damaged`] if a file is not what
    /// it was, [`Error::Io`] if the system refuses.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Db> {
        let path = path.as_ref();
        let system: Arc<dyn System> = match &self.system {
            Some(system) => Arc::clone(&system.0),
            None => Arc::new(RealSystem),
        };
        let options = self.settled();
        let budget = Budget::new(options.memory_limit, options.memtable_bytes as u64);
        let directory = Directory::new(system, path.to_path_buf(), FILE_MODE, budget);
        let directory = Arc::new(directory);
        let names = self.find_directory(&directory)?;
        let lock = take_lock(&directory)?;
        let version = match manifest::read(&directory)? {
            Some(version) => version,
            None if self.create && manifest::is_unborn(&names) => {
                let mut version = Version::empty(Arc::clone(&directory));
                version.store = random();
                version
            }
            None => return Err(no_store(path, &names)),
        };
        let inner = Arc::new(options.recover(version, lock)?);
        let threads = Threads::start(&inner)?;
        inner.background.wake();
        Ok(Db::new(inner, threads))
    }

    /// What is in the directory, which is made if it may be.
    fn find_directory(&self, directory: &Directory) -> Result<Vec<std::ffi::OsString>> {
        let (system, path) = (&directory.system, &directory.path);
        let list = || system.list(path);
        let listed = match list() {
            Err(e) if e.kind() == ErrorKind::NotFound && self.create => {
                let made = system.create_directory(path, DIRECTORY_MODE);
                made.and_then(|()| system.sync_directory(path)).and_then(|()| list())
            }
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(no_store(path, &[])),
            listed => listed,
        };
        listed.map_err(|e| Error::io("list", path, e))
    }

    fn recover(&self, version: Version, lock: Box<dyn Send + Sync>) -> Result<Inner> {
        let directory = Arc::clone(version.directory());
        let mut recovery = Recovery::begin(self, version)?;
        recovery.replay()?;
        let number = recovery.next_file;
        let Recovery { mut edits, mut unflushed, version, buffer, frozen, .. } = recovery;
        let Recovery { warm, last_seq, .. } = recovery;
        let is_repeated = is_planted(Bug::SequenceRepeated);
        let next_seq = if is_repeated { version.flushed } else { last_seq } + 1;
        let next_file = number + 1;
        let (identity, file, path) = begin_segment(&directory, number, next_seq)?;
        edits.push(Edit::AddSegment(identity));
        edits.push(Edit::NextFile { number: next_file });
        let manifest_path = directory.file(Name::Manifest);
        let misfit = |misfit| Error::damaged(&manifest_path, 0, misfit);
        let version = version.apply(&edits).map_err(misfit)?;
        if is_planted(Bug::OrphanRemovedEarly) {
            remove_orphans(&directory, &version)?;
        }
        let draft = Draft::write(&version, random(), false)?;
        unflushed.push((path.clone(), Arc::clone(&file)));
        flush(&unflushed, &draft)?;
        directory.sync()?;
        let manifest = draft.take_place()?;
        remove_orphans(&directory, &version)?;
        let active = Arc::clone(&buffer);
        let current = Current { active, frozen, version: Arc::new(version) };
        let is_on = directory.system.flushes_in_background();
        static STORES: AtomicU64 = AtomicU64::new(1);
        let store = STORES.fetch_add(1, Ordering::Relaxed);
        let window_bytes = directory.budget.written_bytes();
        let bounds = Bounds { window_bytes, segment_bytes: self.segment_bytes };
        let (held, pending) = (Arc::clone(&directory.held), Pending::open(&directory));
        let log = Log::new(identity, file, path, bounds, held, pending);
        let (has_asked, unlooked) = (false, u64::MAX);
        let writer = Writer { log, next_seq, active: buffer, has_asked, unlooked };
        Ok(Inner {
            options: self.clone(),
            queue: Queue::default(),
            logs: Logs::new(writer, warm),
            current: RwLock::new(Arc::new(current)),
            manifest: Mutex::new(manifest),
            clock: Clock::new(last_seq, next_file),
            health: Health::default(),
            background: Background::new(is_on),
            turns: Turns::default(),
            catalog: Catalog::new(store),
            directory,
            _lock: lock,
        })
    }
}

fn no_store(path: &Path, names: &[std::ffi::OsString]) -> Error {
    if manifest::is_unborn(names) {
        let reason = "there is no store here; create it with Options::create";
        return Error::Path { path: path.to_path_buf(), reason };
    }
    let reason = "the directory has no manifest and holds other files".to_string();
    Error::NotAStore { path: path.to_path_buf(), reason }
}

fn take_lock(directory: &Directory) -> Result<Box<dyn Send + Sync>> {
    let path = directory.file(Name::Lock);
    let taken = directory.system.lock_exclusive(&path, FILE_MODE);
    let reason = "the store is open already, here or in another process; one opener at a time";
    taken
        .map_err(|e| Error::io("lock", &path, e))?
        .ok_or_else(|| Error::Locked { path, reason: reason.to_string() })
}

/// Steps 3 and 4.
struct Recovery<'o> {
    options: &'o Options,
    version: Version,
    buffer: Arc<Buffer>,
    /// Full ones, the newest first.
    frozen: Vec<Frozen>,
    replay: Replay,
    /// What the log did not hold yet.
    remains: Remains,
    edits: Vec<Edit>,
    /// Files that are to be flushed before a manifest says how they have ended.
    unflushed: Vec<(PathBuf, Arc<dyn DataFile>)>,
    /// What the system's cache holds of the log now.
    warm: Warm,
    last_seq: u64,
    next_file: u32,
}

impl<'o> Recovery<'o> {
    fn begin(options: &'o Options, version: Version) -> Result<Self> {
        let directory = version.directory();
        let names = directory.system.list(&directory.path);
        let names = names.map_err(|e| Error::io("list", &directory.path, e))?;
        let there: BTreeSet<Name> = names.iter().filter_map(|name| files::parse(name)).collect();
        // Before anything is removed: where the end of the manifest is lost, what it named seems to
        // belong to nobody.
        let tables = version.tables().map(|(_, table)| Name::Table(table.meta.number));
        let segments = version.segments().map(|segment| Name::Segment(segment.identity.number));
        if let Some(missing) = tables.chain(segments).find(|name| !there.contains(name)) {
            let what = "the manifest names it, and it is not there";
            return Err(Error::damaged(&directory.file(missing), 0, what));
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
        let (buffer, last_seq) = (Arc::new(Buffer::new()), version.flushed);
        let (frozen, unflushed, warm) = (Vec::new(), Vec::new(), Warm::default());
        let remains = Remains::read(directory)?;
        Ok(Self {
            options,
            version,
            buffer,
            frozen,
            replay,
            remains,
            edits,
            unflushed,
            warm,
            last_seq,
            next_file,
        })
    }

    /// Reads what is not in tables yet.
    fn replay(&mut self) -> Result<()> {
        let logs: Vec<Segment> = self.version.log().cloned().collect();
        let mut files = Vec::with_capacity(logs.len());
        for segment in &logs {
            let path = segment.handle().path();
            let opened = self.version.directory().system.open_data(path, Open::Write, 0);
            let file = opened.map_err(|e| Error::io("open", path, e))?;
            // So that it is there when the ones before are read.
            file.prefetch(0, PREFETCH_BYTES);
            files.push(file);
        }
        // What the next segment must begin with; the first one may begin with what is in tables.
        let mut next = None;
        for (segment, file) in logs.iter().zip(files) {
            next = self.replay_segment(segment, Arc::clone(&file), next)?.or(next);
            let len = file.len().unwrap_or(0);
            let blocks = &self.version.directory().blocks;
            self.warm.keep(blocks, segment.identity.number, &file, 0..len);
        }
        self.replay.order(Arc::clone(&self.buffer));
        self.replay.settle()
    }

    /// Reads a segment; answers what the next one must begin with, unless nothing of this one
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
        let known = self.remains.flushed(&segment.identity);
        let (mut seq, mut flushed) = (None, known.max(HEADER_BYTES as u64));
        loop {
            groups.reuse(self.replay.spare());
            let Some(stretch) = groups.next_stretch()? else {
                match segment.sealed.is_none() && self.complete(segment, &*file, &mut groups)? {
                    true => continue,
                    false => break,
                }
            };
            let first = stretch.groups().next().map_or(0, |group| group.seq);
            let known = stretch.groups().map(|group| group.flushed).max();
            flushed = flushed.max(known.unwrap_or(0));
            let begun = seq.or(next).unwrap_or(first.min(self.version.flushed + 1));
            if first != begun && seq.is_none() && segment.sealed.is_none() {
                return self.leave_out(segment, groups, flushed).map(|()| None);
            }
            let end = follow(&stretch, begun).map_err(|offset| {
                let what = "a group of the log is not the one that follows";
                Error::damaged(&path, offset, what)
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
            // One that has ended without a group says nothing of what follows.
            Some(sealed) => {
                let follows = last_seq.is_none_or(|last_seq| last_seq == sealed.last_seq);
                if !groups.is_at_end() || !follows {
                    let what = "a group of the log is damaged";
                    return Err(Error::damaged(&path, groups.position(), what));
                }
            }
            None => self.end(segment, groups, file, (flushed, last_seq.unwrap_or(0)))?,
        }
        Ok(seq)
    }

    /// Adds the groups to a segment that were handed to the system and do not stand in it yet;
    /// whether there are any.
    fn complete(
        &self,
        segment: &Segment,
        file: &dyn DataFile,
        groups: &mut Groups,
    ) -> Result<bool> {
        let at = groups.position();
        let more = self.remains.groups(&segment.identity, at);
        if !more.is_empty() {
            let path = segment.handle().path();
            let written = file.write_at(&[IoSlice::new(more)], at);
            written.map_err(|e| Error::io("write to", path, e))?;
            groups.extend(at + more.len() as u64);
        }
        Ok(!more.is_empty())
    }

    /// Ends a segment, of which the manifest does not say so, behind its groups: so much of it is
    /// known to be on stable storage, and that is its last sequence number.
    fn end(
        &mut self,
        segment: &Segment,
        mut groups: Groups,
        file: Arc<dyn DataFile>,
        (flushed, last_seq): (u64, u64),
    ) -> Result<()> {
        // Nothing is cut behind groups that make no sense.
        self.replay.settle()?;
        let path = segment.handle().path();
        let cut = groups.position();
        if flushed > cut || !groups.is_at_end() && groups.is_damaged_here(SEARCH_EFFORT)? {
            let what = "a group of the log is damaged: groups behind it say it was whole";
            return Err(Error::damaged(path, cut, what));
        }
        self.edits.push(self.end_of(segment, cut, last_seq));
        if cut > HEADER_BYTES as u64 {
            // Also where it ends there already: room may have been found for more.
            file.set_len(cut).map_err(|e| Error::io("cut", path, e))?;
            rewrite(&*file, flushed..cut).map_err(|e| Error::io("write to", path, e))?;
            self.unflushed.push((path.to_path_buf(), file));
        }
        Ok(())
    }

    /// Leaves out a segment whose first group does not follow: the tail of the one before was lost,
    /// and so nothing here was ever durable. It is damage if a group says otherwise: those that
    /// were read say that so much was flushed.
    fn leave_out(&mut self, segment: &Segment, mut groups: Groups, flushed: u64) -> Result<()> {
        let mut flushed = flushed;
        while let Some(group) = groups.next()? {
            flushed = flushed.max(group.flushed);
        }
        if flushed > HEADER_BYTES as u64 {
            let what = "the log is damaged: groups are missing before this segment, which says that \
                        they were whole";
            return Err(Error::damaged(segment.handle().path(), HEADER_BYTES as u64, what));
        }
        self.edits.push(Edit::RemoveSegment { number: segment.identity.number });
        Ok(())
    }

    /// How the manifest says that a segment has ended.
    fn end_of(&self, segment: &Segment, len: u64, last_seq: u64) -> Edit {
        let number = segment.identity.number;
        match len > HEADER_BYTES as u64 {
            true => Edit::SealSegment { number, sealed: Sealed { len, last_seq, remap_len: 0 } },
            false => Edit::RemoveSegment { number },
        }
    }

    /// Goes on in another buffer. The full ones go to tables when the store is open, as far as
    /// writers may leave them to others then.
    fn freeze(&mut self) -> Result<()> {
        let buffer = std::mem::replace(&mut self.buffer, Arc::new(Buffer::new()));
        self.replay.order(Arc::clone(&buffer));
        self.frozen.insert(0, Frozen { buffer, last_seq: self.last_seq });
        match self.frozen.len() > FROZEN_MAX {
            true => self.write_table(),
            false => Ok(()),
        }
    }

    /// Writes the oldest buffer to a table.
    fn write_table(&mut self) -> Result<()> {
        self.replay.settle()?;
        let Some(Frozen { buffer, last_seq }) = self.frozen.pop() else { return Ok(()) };
        let next_file = AtomicU32::new(self.next_file);
        let output = Output {
            version: &self.version,
            rules: Rules { snapshots: vec![self.last_seq], is_last: false },
            table_bytes: u64::MAX,
            number: &|| next_file.fetch_add(1, Ordering::Relaxed),
            may_share: false,
        };
        let tables = run::write_tables(&output, &mut buffer.walk(), &buffer.pieces())?;
        self.next_file = next_file.load(Ordering::Relaxed);
        self.edits.extend(tables.into_iter().map(|meta| Edit::AddTable { level: 0, meta }));
        self.edits.push(Edit::Flushed { seq: last_seq });
        Ok(())
    }
}

/// The sequence number behind groups, the first of which must begin with `seq`; the offset of the
/// first one that does not follow.
fn follow(stretch: &Stretch, seq: u64) -> Result<u64, u64> {
    let mut groups = stretch.groups();
    groups.try_fold(seq, |seq, group| match group.seq == seq {
        true => Ok(group.last_seq() + 1),
        false => Err(group.offset),
    })
}

/// Flushes files, beside which a manifest was written. All of them are on their way to the disk
/// before it is waited for the first one: so the file system notes its changes for all together.
fn flush(files: &[(PathBuf, Arc<dyn DataFile>)], draft: &Draft) -> Result<()> {
    let all = files.iter().map(|(_, file)| file).chain([draft.file()]);
    all.for_each(|file| file.start_writeback(0, 0));
    files.iter().try_for_each(|(path, file)| file.sync().map_err(|e| Error::io("flush", path, e)))
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

/// Removes the files that the manifest does not name.
fn remove_orphans(directory: &Directory, version: &Version) -> Result<()> {
    let names = directory.system.list(&directory.path);
    let names = names.map_err(|e| Error::io("list", &directory.path, e))?;
    for name in names.iter().filter_map(|name| files::parse(name)) {
        let is_needed = match name {
            Name::Segment(number) => version.segments().any(|s| s.identity.number == number),
            Name::Table(number) => version.tables().any(|(_, t)| t.meta.number == number),
            Name::Manifest | Name::Lock | Name::Pending => true,
            Name::ManifestNew | Name::Copy(_) => false,
        };
        if !is_needed {
            let path = directory.file(name);
            directory.system.remove(&path).map_err(|e| Error::io("remove", &path, e))?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "open/tests.rs"]
mod tests;
