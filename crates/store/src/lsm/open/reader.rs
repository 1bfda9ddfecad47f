//! Stores that are only read: the log is replayed in memory, and nothing is written.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::replay::{Access, Replay, files};
use super::{new_store, no_store, unlisted};
use crate::lsm::backup::{self, BackupReport};
use crate::lsm::catalog;
use crate::lsm::check::{self, CheckReport};
use crate::lsm::checkpoint::{Moment, Tail};
use crate::lsm::files::{Directory, Name};
use crate::lsm::identity;
use crate::lsm::keyspace::Keyspace;
use crate::lsm::levels::manifest;
use crate::lsm::levels::version::{Edit, Version};
use crate::lsm::options::Options;
use crate::lsm::read::readable::Readable;
use crate::lsm::read::readable::sealed::Sealed;
use crate::lsm::read::view::{Current, Spare, View};
use crate::lsm::stat::{self, DbStat};
use crate::observe::{Done, Work, tell, within};
use crate::os::Open;
use crate::{Error, Result};

/// A store that is only read, as it was when it was opened.
///
/// Nothing is written for it: not to the store, and nowhere else. So it works on a full disk, on a
/// read-only mount or folder, and for a process that may not write. Everything that only the log
/// holds is put into memory: about as much as the writer had there.
///
/// Any number of readers have a store open at a time, in any number of processes, and none while a
/// [`Db`](crate::lsm::Db) has it. They see nothing that was committed after they were opened, since
/// nothing is.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("db");
/// use hedgerow::lsm::{Options, Readable};
///
/// let db = Options::new().create(true).open(&path)?;
/// let people = db.keyspace("people", Default::default())?;
/// db.put(&people, b"1", b"Ada")?;
/// assert!(Options::new().open_read_only(&path).is_err(), "a writer has it");
/// db.close()?;
///
/// let reader = Options::new().open_read_only(&path)?;
/// let other = Options::new().open_read_only(&path)?;
/// let people = reader.find_keyspace("people")?.unwrap();
/// assert_eq!(reader.get(&people, b"1")?.as_deref(), Some(&b"Ada"[..]));
/// assert!(Options::new().open(&path).is_err(), "readers have it");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader {
    view: View,
    /// Tells open stores apart.
    store: u64,
    /// How the log ends.
    tails: Vec<Tail>,
    /// Keeps writers out; `None` where there is no file to lock.
    _lock: Option<Box<dyn Send + Sync>>,
}

impl Options {
    /// Opens the store in a directory for reading only: see [`Reader`].
    ///
    /// If the folder can be written to, a lock keeps writers out. If the lock file is missing, none
    /// is made: then every file is opened at once, so that a later writer takes nothing away.
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open for writing, here or in another process; else as
    /// [`Options::open`], but that nothing is ever made.
    pub fn open_read_only(&self, path: impl AsRef<Path>) -> Result<Reader> {
        let path = path.as_ref();
        within(Work::LSM_OPEN, path, || self.read_at(path))
    }

    fn read_at(&self, path: &Path) -> Result<Reader> {
        let options = self.settled();
        let directory = options.directory(path);
        let listed = directory.system.list(&directory.path);
        let names = match listed {
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            listed => listed.map_err(|e| unlisted(&directory.path, e))?,
        };
        let lock = join(&directory)?;
        let Some(version) = manifest::read(&directory)? else {
            return Err(no_store(&directory, &names));
        };
        let reader = options.read(version, lock)?;
        if reader._lock.is_none() {
            keep_open(reader.view.version())?;
            // No writer has begun in the meantime.
            if join(&directory)?.is_some() {
                return Err(locked(&directory));
            }
        }
        let commit = Some(reader.view.at);
        tell(path, || Done { commit, ..Work::LSM_OPEN.done() });
        Ok(reader)
    }

    fn read(&self, version: Version, lock: Option<Box<dyn Send + Sync>>) -> Result<Reader> {
        let there = files(&version)?;
        let mut replay = Replay::begin(self, (version, None), &there, Access::Read)?;
        replay.run()?;
        let Replay { version, active, frozen, edits, last_seq, .. } = replay;
        let current = Arc::new(Current {
            active,
            frozen,
            version: Arc::new(version),
            spare: Spare::default(),
        });
        let tails = edits.iter().filter_map(|edit| match edit {
            Edit::SealSegment { number, sealed } => {
                Some(Tail { number: *number, len: sealed.len, last_seq: sealed.last_seq })
            }
            _ => None,
        });
        let (tails, view) = (tails.collect(), View { current, at: last_seq });
        Ok(Reader { view, store: new_store(), tails, _lock: lock })
    }
}

/// Joins the readers; `None` if the store has never been locked.
pub(crate) fn join(directory: &Directory) -> Result<Option<Box<dyn Send + Sync>>> {
    let path = directory.file(Name::Lock);
    match directory.system.lock_shared(&path) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => Err(locked(directory)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("lock", &path, e)),
    }
}

fn locked(directory: &Directory) -> Error {
    let reason = "the store is open for writing, here or in another process; while it is, nobody \
                  else reads it";
    Error::Locked { path: directory.file(Name::Lock), reason: reason.to_string() }
}

/// Whether a flush failed because nothing is ever written there.
fn is_read_only(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::InvalidInput)
}

/// Opens every file, so that it is there also when it has lost its name.
fn keep_open(version: &Version) -> Result<()> {
    let tables = version.tables().map(|(_, table)| table.handle());
    let segments = version.segments().map(|segment| segment.handle());
    version.directory().opened.keep_all();
    for handle in tables.chain(segments) {
        handle.file()?;
        handle.direct()?;
    }
    Ok(())
}

impl Sealed for Reader {
    fn store(&self) -> u64 {
        self.store
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn view(&self) -> View {
        self.view.clone()
    }
}

impl Readable for Reader {}

impl Reader {
    /// The directory.
    pub fn path(&self) -> &Path {
        &self.view.version().directory().path
    }

    /// The number of the newest commit, as [`Db::newest_commit`](crate::lsm::Db::newest_commit)
    /// tells it.
    pub fn newest_commit(&self) -> u64 {
        self.view.at
    }

    /// What no other store has, as [`Db::id`](crate::lsm::Db::id) tells it.
    ///
    /// # Errors
    /// [`Error::Argument`] if the store has none yet, since a reader makes nothing: it gets one
    /// when a store that is open for writing is asked. Else as [`Db::id`](crate::lsm::Db::id).
    pub fn id(&self) -> Result<[u8; 16]> {
        let reason = "the store has no identity yet, and one that is open for reading only gets \
                      none: have a token made once where it is open for writing";
        let none = || Error::argument(reason);
        identity::find(self.view.version().directory())?.ok_or_else(none)
    }

    /// The keyspace of that name, if there is one.
    ///
    /// # Errors
    /// As [`Readable::get`].
    pub fn find_keyspace(&self, name: impl AsRef<[u8]>) -> Result<Option<Keyspace>> {
        catalog::find(&self.view, self.store, name.as_ref())
    }

    /// The names of all keyspaces, in order.
    ///
    /// # Errors
    /// As [`Readable::get`].
    pub fn keyspaces(&self) -> Result<Vec<Vec<u8>>> {
        catalog::names(self.view.clone())
    }

    /// Reads and verifies everything.
    ///
    /// # Errors
    /// If the system refuses. Damage is not an error: it is in the report.
    pub fn check(&self) -> Result<CheckReport> {
        check::check(&self.view)
    }

    /// What the store consists of: with the segment that was written to, too.
    pub fn stat(&self) -> DbStat {
        let mut stat = stat::of_view(&self.view);
        let written: u64 = self.tails.iter().map(|tail| tail.len).sum();
        stat.segment_bytes += written;
        stat.log_bytes += written;
        stat
    }

    /// Flushes how the log ends, which the death of a process may have left in the system's cache
    /// only, so that a backup has nothing that the log may lose. Where nothing can be flushed
    /// nothing was written.
    fn flush_tails(&self) -> Result<()> {
        let directory = self.view.version().directory();
        let tails = self.tails.iter().map(|tail| Name::Segment(tail.number));
        for path in tails.chain([Name::Pending]).map(|name| directory.file(name)) {
            let file = directory.system.open_data(&path, Open::Read, 0);
            match file.and_then(|file| file.sync()) {
                Err(e) if is_read_only(&e) || e.kind() == ErrorKind::NotFound => {}
                flushed => flushed.map_err(|e| Error::io("flush", &path, e))?,
            }
        }
        Ok(())
    }

    /// Backs the store up to a directory, as [`Db::backup`](crate::lsm::Db::backup) does.
    ///
    /// # Errors
    /// As [`Db::backup`](crate::lsm::Db::backup).
    pub fn backup(
        &self,
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<BackupReport> {
        let (version, tails) = (Arc::clone(&self.view.current.version), self.tails.clone());
        let moment = || self.flush_tails().map(|()| Moment { version, tails });
        backup::back_up(self.view.version().directory(), path.as_ref(), moment, progress)
    }
}

#[cfg(test)]
#[path = "reader/tests.rs"]
mod tests;
