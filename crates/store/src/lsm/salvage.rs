//! Copying what is still readable of a damaged store to a new one, and reporting what is not. The
//! old files are only read; nothing in them is trusted.
//!
//! 1. The manifest says which files are the store. If it cannot be read, every existing table and
//!    segment counts.
//! 2. Tables are surveyed (`tables`, `table/survey`): whole blocks and range tombstones, and gaps
//!    between them.
//! 3. The log is read up to the damage and after it (`log`): entries that no table holds, and, of
//!    those that tables hold or held, the keys that lie in gaps.
//! 4. All of that is merged (`merged`): of each key the newest counts, by its sequence number,
//!    unless it or a newer range says that the key was deleted. Separated values are found by
//!    length and checksum, which their pointers hold (`values`), wherever they stand now.
//!
//! If a gap held a deletion or a newer value, an older one may come back: gaps are named.

mod found;
mod log;
mod merged;
mod tables;
mod target;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::db::Db;
use super::entry::Kind;
use super::files::{Directory, Name};
use super::levels::manifest;
use super::levels::version::Version;
use super::log::segment::{HEADER_BYTES, Identity};
use super::open::reader::join;
use super::options::Options;
use super::tombstones::Pieces;
use crate::os::Open;
use crate::{Error, Result};
use found::{Found, Item, Lost, Span, read_lenient};
use log::LogReader;
use merged::Merged;
use tables::Survey;
use target::Target;
use values::Values;

/// After this many entries the caller is asked whether to go on.
const STRIDE: u64 = 1 << 12;
/// What was copied, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Keyspaces of the new store.
    pub keyspaces: u64,
    /// Its entries.
    pub entries: u64,
    /// What is missing, and where.
    pub losses: Vec<Loss>,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The file.
    pub path: PathBuf,
    /// The offset in it from which on it cannot be read.
    pub offset: u64,
    /// What is wrong.
    pub reason: &'static str,
    /// How many entries or operations of the log are missing, where that is known.
    pub count: Option<u64>,
    /// Keyspace and key after which something is missing; `None`: from the first one on.
    pub after: Option<(Vec<u8>, Vec<u8>)>,
    /// Keyspace and key before which something is missing; `None`: up to the last one. The same as
    /// `after`: that key itself.
    pub before: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether `after` and `before` say something: the keys lost by damage in the log are unknown.
    pub has_keys: bool,
}

impl Options {
    /// Copies everything that can still be read of the store at `old` to a new store at `new`, and
    /// reports what was lost. Files of the old store are never written, and none is made there.
    ///
    /// If only one file is damaged, everything else is copied. Readable entries whose keyspace
    /// cannot be determined go to a keyspace with a made-up name. A deletion that cannot be read
    /// deletes nothing: the deleted entry comes back, if it is still there.
    ///
    /// `progress(done, total)` gets bytes of files; an error from it ends the work.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    /// use hedgerow::lsm::{Options, Readable};
    ///
    /// let db = Options::new().create(true).open(&old)?;
    /// let people = db.keyspace("people", Default::default())?;
    /// db.put(&people, b"1", b"Ada")?;
    /// db.close()?;
    /// std::fs::remove_file(old.join("MANIFEST"))?;
    ///
    /// let report = Options::new().salvage(&old, &new, &mut |_, _| Ok(()))?;
    /// assert_eq!((report.entries, report.losses.len()), (1, 1));
    /// let db = Options::new().open(&new)?;
    /// let people = db.find_keyspace("people")?.unwrap();
    /// assert_eq!(db.get(&people, b"1")?.as_deref(), Some(&b"Ada"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Path`] if there is nothing at `old` or something at `new`, [`Error::Locked`] if the
    /// old store is open for writing, [`Error::Unsupported`] if a newer version wrote it,
    /// [`Error::Io`] if the system refuses. Damage is no error but in the report. After an error
    /// nothing is left at `new` but an empty folder.
    pub fn salvage(
        &self,
        old: impl AsRef<Path>,
        new: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<SalvageReport> {
        let directory = self.settled().directory(old.as_ref());
        let target = self.settled().directory(new.as_ref());
        check_empty(&target)?;
        let _lock = match directory.system.list(&directory.path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            _ => join(&directory)?,
        };
        let source = Source::read(&directory, progress)?;
        let saved = self.clone().create(true).open(new).and_then(|db| {
            let report = source.bring_over(&db, progress)?;
            db.close()?;
            Ok(report)
        });
        saved.inspect_err(|_| {
            // The caller gets the error; half a store is of no use.
            for name in target.names().unwrap_or_default() {
                target.give_up(&target.file(name));
            }
        })
    }
}

/// Refuses a place where something is.
fn check_empty(target: &Directory) -> Result<()> {
    let path = target.path.clone();
    match target.system.list(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(names) if names.is_empty() => Ok(()),
        Ok(_) => {
            let reason = "something is there already; give a folder that is new or empty";
            Err(Error::Path { path, reason })
        }
        Err(e) => Err(Error::io("list", &path, e)),
    }
}

/// Everything that was read of the old store.
struct Source {
    tables: Vec<Found>,
    /// Of the log, in the order of entries.
    items: Vec<Item>,
    pieces: Pieces,
    values: Values,
    lost: Vec<Lost>,
}

impl Source {
    fn read(
        directory: &Arc<Directory>,
        progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<Self> {
        let names = directory.names().unwrap_or_default();
        let there: BTreeSet<Name> = names.into_iter().filter(|name| name.is_data()).collect();
        let mut lost = Vec::new();
        let version = read_manifest(directory, &mut lost)?;
        let version = version.filter(|version| is_current(version, &there, &mut lost));
        if there.is_empty() && version.is_none() {
            let reason = "there is no table and no log of a store here";
            return Err(Error::Path { path: directory.path.clone(), reason });
        }
        let mut survey = Survey { lost, ..Survey::default() };
        let (mut done, total) = (0, there.len() as u64);
        for &name in &there {
            progress(done, total)?;
            if let Name::Table(number) = name {
                survey.table(directory, version.as_ref(), number)?;
            }
            done += 1;
        }
        survey.missing(directory, version.as_ref(), &there);
        let Survey { tables, mut ranges, mut lost, gaps, last_seq } = survey;
        let flushed = version.as_ref().map_or(last_seq, |version| version.flushed);
        let mut reader = LogReader::new(directory, version.as_ref(), flushed, &gaps)?;
        for &name in &there {
            if let Name::Segment(number) = name {
                progress(total, total)?;
                reader.segment(number)?;
            }
        }
        let read = reader.finish();
        ranges.extend(read.ranges);
        lost.extend(read.lost);
        let items = read.items;
        let values = read.values;
        let pieces = Pieces::newest(&ranges);
        Ok(Self { tables, items, pieces, values, lost })
    }

    /// Puts everything into a new store.
    fn bring_over(
        self,
        db: &Db,
        progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<SalvageReport> {
        let Self { tables, items, pieces, values, mut lost } = self;
        let mut target = Target::new(db);
        let (mut last, mut count) = (None, 0_u64);
        let mut merged = Merged::new(&tables, items);
        while let Some(item) = merged.next() {
            count += 1;
            if count.is_multiple_of(STRIDE) {
                progress(1, 1)?;
            }
            if last.as_ref() == Some(&item.key) {
                continue;
            }
            let is_deleted =
                item.kind == Kind::Tombstone || pieces.cover(&item.key, u64::MAX) > item.seq;
            if !is_deleted {
                match values.of(&item) {
                    Ok(value) => target.put(&item.key, value)?,
                    Err((path, offset, reason)) => {
                        let key = || Some(item.key.clone());
                        let keys = Some(Span { after: key(), before: key() });
                        lost.push(Lost { path, offset, reason, count: Some(1), keys });
                    }
                }
            }
            last = Some(item.key);
        }
        target.finish(lost)
    }
}

/// The version that the manifest describes, if it can be read.
fn read_manifest(directory: &Arc<Directory>, lost: &mut Vec<Lost>) -> Result<Option<Version>> {
    let path = directory.file(Name::Manifest);
    let (offset, reason) = match manifest::read(directory) {
        Ok(Some(version)) => return Ok(Some(version)),
        Ok(None) => (0, "it is missing; every table and segment that is there was looked at"),
        Err(error @ Error::Unsupported { .. }) => return Err(error),
        Err(Error::Corrupt { place: crate::Place::Byte(offset), reason, .. }) => (offset, reason),
        Err(_) => (0, "it cannot be read; every table and segment that is there was looked at"),
    };
    lost.push(Lost { path, offset, reason, count: None, keys: None });
    Ok(None)
}

/// Whether a manifest seems to be whole: if there are newer files that it does not name, and it
/// names missing files or one of the newer ones is a segment with groups, its last records are
/// missing.
fn is_current(version: &Version, there: &BTreeSet<Name>, lost: &mut Vec<Lost>) -> bool {
    let tables = version.tables().map(|(_, table)| Name::Table(table.meta.number));
    let segments = version.segments().map(|segment| Name::Segment(segment.identity.number));
    let named: BTreeSet<Name> = tables.chain(segments).collect();
    let is_new = |name: &Name| match name {
        Name::Table(number) | Name::Segment(number) => *number >= version.next_file,
        _ => false,
    };
    let mut newer = there.difference(&named).filter(|name| is_new(name)).peekable();
    let is_stale = newer.peek().is_some()
        && (!named.is_subset(there) || newer.any(|name| has_groups(version.directory(), name)));
    if is_stale {
        let path = version.directory().file(Name::Manifest);
        let reason = "its last records are missing; every table and segment that is there was \
                      looked at";
        lost.push(Lost { path, offset: 0, reason, count: None, keys: None });
    }
    !is_stale
}

/// Whether a file is a segment that begins with a whole group.
fn has_groups(directory: &Directory, name: &Name) -> bool {
    let Name::Segment(number) = *name else { return false };
    let path = directory.file(*name);
    let file = directory.system.open_data(&path, Open::Read, 0).ok();
    let bytes = file.and_then(|file| read_lenient(&*file, &path).ok()).unwrap_or_default();
    let groups = bytes.get(HEADER_BYTES..).unwrap_or_default();
    Identity::of(number, &bytes)
        .is_some_and(|identity| identity.whole_group(HEADER_BYTES as u64, groups).is_some())
}
