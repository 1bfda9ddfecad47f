//! Backups: a copy of the store at one moment in another directory. A later backup copies only what
//! is new.
//!
//! # How a backup is made
//!
//! 1. The moment is taken, and the existing backup is read. A file that both name is kept if its
//!    number, its length and the random salt that it was made with are the same. If a number names
//!    a different file there, it is a backup of another store, and is refused.
//! 2. Every other file is read and its checksums are verified, then it is copied, flushed, read
//!    again, and only then gets its name. Only one name may already be taken: that of the segment
//!    that was being written to at the last backup. The segment is longer now, and the existing
//!    backup reads the same part of it as before.
//! 3. The names are flushed, and the new manifest takes the place of the old one by a rename.
//! 4. Files that it does not name are removed.
//!
//! A stop at any point leaves the old backup or the new one; other files that are left are removed
//! by the next backup, or when the backup is opened as a store.

use std::path::Path;
use std::sync::Arc;

use super::checkpoint::{Moment, Part, Target, backup_in};
use super::db::Db;
use super::files::{Directory, Name};
use super::levels::manifest::Manifest;
use super::levels::table_file::TableFile;
use super::levels::version::Version;
use super::log::groups::Groups;
use super::merge::Source;
use super::table::{FOOTER_BYTES, Pace, TableCursor};
use crate::os::Open;
use crate::{Error, Result};

/// What a backup did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Tables and segments of the backup.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, files that were copied because they were not there yet.
    pub copied_files: u64,
    /// Their bytes.
    pub copied_bytes: u64,
}

impl Db {
    /// Backs the store up to a directory, as it is now, while it is in use. The first backup copies
    /// everything, later ones only what is new. Copied bytes are verified against their checksums,
    /// and read again from the copy. `progress` gets the number of copied bytes, and how many there
    /// are to copy.
    ///
    /// A directory holds one backup, the newest. To restore it, copy the directory and open the
    /// copy; or open the directory itself: it is then a store of its own, and no further backup can
    /// go there.
    ///
    /// The backup is on stable storage when this returns. If this fails, or the machine stops
    /// before, the previous backup is still there.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
    /// let people = db.keyspace("people", Default::default())?;
    /// db.put(&people, b"1", b"Ada")?;
    /// let report = db.backup(folder.path().join("backup"), &mut |_done, _total| {})?;
    /// assert_eq!(report.copied_files, report.files);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Path`] if there is a store in the directory, or a backup of another one;
    /// [`Error::NotAStore`] if other files are, or those of a store or backup that has lost its
    /// manifest, none of which is removed; [`Error::Corrupt`] if a file of this store is, by
    /// its name; [`Error::Io`] if the system refuses.
    pub fn backup(
        &self,
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<BackupReport> {
        back_up(&self.inner.directory, path.as_ref(), || self.inner.moment(), progress)
    }
}

/// Backs up a moment, which is taken when the place for it is there.
pub(crate) fn back_up(
    source: &Directory,
    path: &Path,
    moment: impl FnOnce() -> Result<Moment>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<BackupReport> {
    let target = Target::take(source, path)?;
    let before = backup_in(&target)?;
    target.begin()?;
    // Files of an interrupted backup are of no use.
    target.retain(|name| before.as_ref().is_some_and(|before| has(before, name)))?;
    let moment = moment()?;
    let version = moment.version_in(&target.directory)?;
    let (mut report, mut new) = (BackupReport::default(), Vec::new());
    for part in moment.parts(&version) {
        report.files += 1;
        report.bytes += part.len;
        if !is_there(source, &target.directory, before.as_ref(), &version, part)? {
            report.copied_files += 1;
            report.copied_bytes += part.len;
            new.push(part);
        }
    }
    let mut done = 0;
    progress(done, report.copied_bytes);
    for part in new {
        verify(&moment, part)?;
        target.copy(source, part)?;
        done += part.len;
        progress(done, report.copied_bytes);
    }
    target.directory.sync()?;
    Manifest::create_backup(&version, target.directory.random())?;
    target.retain(|name| has(&version, name))?;
    Ok(report)
}

/// Whether a version has a table or segment.
fn has(version: &Version, name: Name) -> bool {
    match name {
        Name::Table(number) => table(version, number).is_some(),
        Name::Segment(number) => version.segments().any(|s| s.identity.number == number),
        _ => false,
    }
}

fn table(version: &Version, number: u32) -> Option<&Arc<TableFile>> {
    version.tables().map(|(_, table)| table).find(|table| table.meta.number == number)
}

/// Whether the backup of before has a file already.
///
/// # Errors
/// [`Error::Path`] if it has another one of that number.
fn is_there(
    source: &Directory,
    directory: &Directory,
    before: Option<&Version>,
    version: &Version,
    part: Part,
) -> Result<bool> {
    let Some(before) = before else { return Ok(false) };
    let number = part.number();
    let other = || {
        let reason = "the backup there is one of another store; give this one another directory";
        Err(Error::Path { path: directory.path.clone(), reason })
    };
    let is_known = has(before, Name::Table(number)) || has(before, Name::Segment(number));
    if before.store != version.store || is_known && !has(before, part.name) {
        return other();
    }
    if !is_known {
        return Ok(false);
    }
    if let Name::Table(_) = part.name {
        let metas = [before, version].map(|v| table(v, number).map(|table| &table.meta));
        let footers = [source, directory].map(|of| footer(of, part));
        return match (metas[0] == metas[1], footers) {
            (_, [Err(error), _]) => Err(error),
            // It was removed or cut from outside.
            (true, [Ok(_), Err(_)]) => Ok(false),
            (true, [Ok(ours), Ok(theirs)]) if ours == theirs => Ok(true),
            _ => other(),
        };
    }
    let of = |v: &Version| v.segments().find(|s| s.identity.number == number).cloned();
    match (of(before), of(version)) {
        (Some(old), Some(new)) if old.identity == new.identity => {
            Ok(old.sealed == new.sealed && is_long_enough(directory, part))
        }
        _ => other(),
    }
}

/// The end of a table's file, which tells it from all others.
fn footer(directory: &Directory, part: Part) -> Result<[u8; FOOTER_BYTES]> {
    let path = directory.file(part.name);
    let file = directory.system.open_data(&path, Open::Read, 0);
    let file = file.map_err(|e| Error::io("open", &path, e))?;
    let mut bytes = [0; FOOTER_BYTES];
    let at = part.len.saturating_sub(FOOTER_BYTES as u64);
    file.read_at(&mut bytes, at).map_err(|e| Error::io("read", &path, e))?;
    Ok(bytes)
}

fn is_long_enough(directory: &Directory, part: Part) -> bool {
    let file = directory.system.open_data(&directory.file(part.name), Open::Read, 0);
    file.and_then(|file| file.len()).is_ok_and(|len| len >= part.len)
}

/// Reads a file of the store and verifies every checksum in it.
///
/// # Errors
/// [`Error::Corrupt`] with its name.
fn verify(moment: &Moment, part: Part) -> Result<()> {
    let (number, directory) = (part.number(), moment.version.directory());
    if let Name::Table(_) = part.name {
        let Some(file) = table(&moment.version, number) else { return Ok(()) };
        let mut cursor = TableCursor::new(file.open()?, Pace::Whole);
        cursor.first()?;
        while cursor.entry().is_some() {
            cursor.next()?;
        }
        return Ok(());
    }
    let segments = moment.version.segments();
    for segment in segments.filter(|segment| segment.identity.number == number) {
        let (file, path) = (segment.handle().file()?, segment.handle().path());
        segment.identity.verify(&*file, path)?;
        segment.remap()?;
        let end = segment.sealed.map_or(directory.held_of(part).0, |sealed| sealed.len);
        let mut groups = Groups::new(segment.identity, file, path, end)?;
        while groups.next()?.is_some() {}
        if !groups.is_at_end() {
            let what = "a group of the log is damaged";
            return Err(Error::corrupt_at(path, groups.position(), what));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "backup/tests.rs"]
mod tests;
