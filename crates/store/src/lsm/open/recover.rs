//! Recovery as one recipe: what `open` does once the manifest was read.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::replay::{Access, ClosedLog, Replay, files};
use crate::canary::{Bug, is_planted};
use crate::lsm::files::{Directory, Name};
use crate::lsm::levels::manifest::{self, Draft, Extent, Manifest};
use crate::lsm::levels::version::{Edit, Version};
use crate::lsm::log::segment::HEADER_BYTES;
use crate::lsm::log::wal::{SegmentFile, begin_segment};
use crate::lsm::options::Options;
use crate::os::DataFile;
use crate::{Error, Result};

/// If the log has more segments than this, everything in it goes to tables.
const SEGMENTS_MAX: usize = 8;

/// A store that can be written to.
pub(super) struct Recovered {
    pub(super) replay: Replay,
    pub(super) manifest: Manifest,
    /// The segment in which the log goes on.
    pub(super) segment: SegmentFile,
    /// Where it goes on there, and with which sequence number.
    pub(super) at: u64,
    pub(super) next_seq: u64,
}

/// Recovers a store from what the manifest says: a version, and where edits can be added to it.
///
/// # Errors
/// [`Error::Corrupt`] if a file is missing or damaged, [`Error::Io`] if the system refuses.
pub(super) fn recover(
    options: &Options,
    (version, extent): (Version, Option<Extent>),
) -> Result<Recovered> {
    let directory = Arc::clone(version.directory());
    let there = files(&version)?;
    let has_orphans = !there.is_subset(&version.names());
    if has_orphans {
        remove_unnamed(&directory, &there)?;
    }
    let mut replay = Replay::begin(options, (version, extent), &there, Access::Write)?;
    let first_new = replay.next_file;
    let undo = |_: &Error| remove_new(&directory, first_new);
    replay.run().inspect_err(undo)?;
    let is_repeated = is_planted(Bug::SequenceRepeated);
    let next_seq = if is_repeated { replay.version.flushed } else { replay.last_seq } + 1;

    let is_in_order = !has_orphans
        && replay.edits.is_empty()
        && replay.frozen.is_empty()
        && replay.version.log().count() <= SEGMENTS_MAX;
    match replay.left.closed.take() {
        Some(ClosedLog { segment, end: at, manifest, .. }) if is_in_order => {
            let manifest = Manifest::resume(&directory, manifest)?;
            return Ok(Recovered { replay, manifest, segment, at, next_seq });
        }
        Some(closed) => replay.cut_closed(closed).inspect_err(undo)?,
        None => {}
    }

    let (segment, draft) = prepare(&mut replay, next_seq).inspect_err(undo)?;
    let manifest = draft.take_place()?;
    remove_orphans(&directory, &replay.version)?;
    Ok(Recovered { replay, manifest, segment, at: HEADER_BYTES as u64, next_seq })
}

/// Makes the segment in which the log goes on, and a manifest that takes the place of the one that
/// is there by a rename. All that it names is on stable storage then.
fn prepare(replay: &mut Replay, next_seq: u64) -> Result<(SegmentFile, Draft)> {
    let directory = Arc::clone(replay.version.directory());
    let has_entries = replay.last_seq > replay.version.flushed;
    if has_entries && replay.version.log().count() > SEGMENTS_MAX {
        replay.write_tables()?;
    }
    let number = replay.next_file;
    let segment = begin_segment(&directory, number, next_seq)?;
    replay.edits.push(Edit::AddSegment(segment.identity));
    replay.edits.push(Edit::NextFile { number: number + 1 });
    let manifest_path = directory.file(Name::Manifest);
    let misfit = |misfit| Error::corrupt_at(&manifest_path, 0, misfit);
    replay.version = replay.version.apply(&replay.edits).map_err(misfit)?;
    if is_planted(Bug::OrphanRemovedEarly) {
        remove_orphans(&directory, &replay.version)?;
    }
    let draft = Draft::write(&replay.version, directory.random(), false)?;
    replay.unflushed.push((segment.path.clone(), Arc::clone(&segment.file)));
    flush(&replay.unflushed, &draft)?;
    directory.sync()?;
    Ok((segment, draft.flushed()?))
}

/// Flushes files, beside which a manifest was written. All of them are on their way to the disk
/// before it is waited for the first one: so the file system notes its changes for all together.
fn flush(files: &[(PathBuf, Arc<dyn DataFile>)], draft: &Draft) -> Result<()> {
    let all = files.iter().map(|(_, file)| file).chain([draft.file()]);
    all.for_each(|file| file.start_writeback(0, 0));
    files.iter().try_for_each(|(path, file)| file.sync().map_err(|e| Error::io("flush", path, e)))
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

/// Removes what an opening that failed has made: files of numbers from `first` on. The manifest
/// names none of them.
fn remove_new(directory: &Directory, first: u32) {
    for name in directory.names().unwrap_or_default() {
        let is_new = match name {
            Name::Segment(number) | Name::Table(number) => number >= first,
            Name::ManifestNew => true,
            Name::Manifest | Name::Lock | Name::Pending | Name::Identity | Name::Copy(_) => false,
        };
        if is_new {
            directory.give_up(&directory.file(name));
        }
    }
}

/// Removes the files that the manifest does not name.
fn remove_orphans(directory: &Directory, version: &Version) -> Result<()> {
    let named = version.names();
    for name in directory.names()? {
        if !named.contains(&name) {
            let path = directory.file(name);
            directory.system.remove(&path).map_err(|e| Error::io("remove", &path, e))?;
        }
    }
    Ok(())
}
