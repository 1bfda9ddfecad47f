//! Opening a store, which is also how it recovers, as one recipe; `recover` does what follows
//! the reading of the manifest.
//!
//! 1. The lock file keeps all other processes out.
//! 2. The manifest says which files are the store. A torn last record is an edit that was never
//!    acknowledged; files that only it names are orphans. Files that no record has ever named are
//!    removed at once, so that a full disk has room for the next steps.
//! 3. The log segments with anything that is not in tables are replayed into buffers (`replay`). A
//!    sealed segment, of which the manifest says where it ends, must be whole. The others, which
//!    are the last ones, may end in a tail that was being written. The pending file may have groups
//!    that come next, which are added first. Then the segment is cut at the first group that is not
//!    whole, unless a later group proves that this one was whole once. A segment that does not go
//!    on where the one before ends is left out: what is missing between them was not durable, so
//!    neither was this.
//!
//!    If the last segment ends in the mark of a close, the manifest is still the one that the mark
//!    names, and there is no file besides, then the log goes on there and nothing more is to be
//!    done.
//! 4. What was found may stand in the system's cache only, and where a flush failed the system may
//!    have forgotten that it does. So what was not known to be on stable storage is written once
//!    more. What stands in many segments goes to tables: else each process that dies would leave
//!    one.
//! 5. A new segment is made, and a new manifest that says all this. They are flushed together with
//!    the last segments, and the manifest takes the place of the old one by a rename. A crash
//!    before the rename leaves the old one, and this recipe begins anew.
//! 6. Files that the manifest does not name are removed.

pub(crate) mod load;
pub(crate) mod reader;
mod recover;
pub(crate) mod replay;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLock};

use super::background::Background;
use super::clock::Clock;
use super::commit::logs::{Logs, Writer};
use super::commit::queue::Queue;
use super::db::Db;
use super::engine::{Health, Inner, Turns};
use super::files::memory::Budget;
use super::files::{self, Directory, Name};
use super::levels::compact;
use super::levels::manifest::{self, Extent};
use super::levels::version::Version;
use super::log::pending::Pending;
use super::log::segment::HEADER_BYTES;
use super::log::wal::{Bounds, Log};
use super::names::Catalog;
use super::options::Options;
use super::read::view::{Current, Spare};
use crate::observe::{Done, Work, tell, within};
use crate::os::{IN_MEMORY, MemorySystem, Open, RealSystem, System};
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;
use crate::{Error, Result};
use recover::Recovered;
use replay::Replay;

impl Options {
    /// Opens the store in a directory; with [`Options::create`], makes it if there is none.
    ///
    /// Recovers after a crash. The time that this takes grows with the part of the log that is not
    /// in tables yet, which [`Options::memtable_bytes`] and [`Options::segment_bytes`] bound.
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open already, here or in another process, [`Error::Path`] if
    /// there is none, [`Error::NotAStore`] if the directory holds something else,
    /// [`Error::Unsupported`] if a newer version wrote it, [`Error::Corrupt`] if a file is not what
    /// it was, [`Error::Io`] if the system refuses.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Db> {
        self.open_at(path.as_ref(), false)
    }

    /// Opens the store in a directory, or makes it if there is none: as [`Options::open`] with
    /// [`Options::create`].
    ///
    /// # Errors
    /// As [`Options::open`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// use hedgerow::lsm::Options;
    /// let db = Options::new().memory_limit(64 << 20).open_or_create(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_or_create(&self, path: impl AsRef<Path>) -> Result<Db> {
        self.clone().create(true).open(path)
    }

    /// Makes a store where there is none: the directory must not exist, or be empty.
    ///
    /// # Errors
    /// [`Error::Path`] if there is a store already; else as [`Options::open`].
    pub fn create_new(&self, path: impl AsRef<Path>) -> Result<Db> {
        self.clone().create(true).open_at(path.as_ref(), true)
    }

    /// Makes a store that lies in memory and ends with the process, or when its last handle is
    /// dropped. Nobody else can open it. It is as every other store apart from that; a backup or a
    /// checkpoint of it lies in a directory and can be opened later. Its files take memory besides
    /// [`Options::memory_limit`]; [`create_in_memory`](crate::tree::Builder::create_in_memory) of
    /// the other engine says what they are.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses.
    pub fn create_in_memory(&self) -> Result<Db> {
        // What is in memory needs no second place there.
        let options = self.clone().system_cache(true).system(Arc::new(MemorySystem::default()));
        options.create_new(IN_MEMORY)
    }

    fn open_at(&self, path: &Path, is_new: bool) -> Result<Db> {
        within(Work::LSM_OPEN, path, || self.open_directory(path, is_new))
    }

    fn open_directory(&self, path: &Path, is_new: bool) -> Result<Db> {
        let options = self.settled();
        let directory = options.directory(path);
        let names = self.find_directory(&directory)?;
        let lock = take_lock(&directory)?;
        let found = match manifest::find(&directory)? {
            Some(_) if is_new => {
                let reason = "it exists already; open it, or choose another path";
                return Err(Error::Path { path: path.to_path_buf(), reason });
            }
            Some(found) => found,
            None if self.create && is_unborn(&directory, &names)? => {
                let mut version = Version::empty(Arc::clone(&directory));
                version.store = directory.random();
                (version, None)
            }
            None => return Err(no_store(&directory, &names)),
        };
        let inner = Arc::new(options.recover(found, lock)?);
        // Before the first commit looks whether there is room.
        inner.note(&inner.current().version);
        inner.offer_threads();
        if !inner.current().frozen.is_empty() {
            inner.background.wake();
        }
        if compact::level0_behind(&inner.current().version) > 0 {
            // Those before had no time for it.
            inner.background.made_room();
        }
        let commit = Some(inner.clock.visible.load(Ordering::Relaxed));
        tell(path, || Done { commit, ..Work::LSM_OPEN.done() });
        Ok(Db::new(inner))
    }

    /// The directory at a path.
    pub(crate) fn directory(&self, path: &Path) -> Arc<Directory> {
        let system: Arc<dyn System> = match &self.system {
            Some(system) => Arc::clone(&system.0),
            None => Arc::new(RealSystem),
        };
        let budget = Budget::new(self.memory_limit, self.memtable_bytes as u64);
        let directory = Directory::new(system, path.to_path_buf(), self.file_mode, budget);
        Arc::new(directory.cached(self.system_cache))
    }

    /// What is in the directory, which is made if it may be.
    fn find_directory(&self, directory: &Directory) -> Result<Vec<std::ffi::OsString>> {
        let (system, path) = (&directory.system, &directory.path);
        let list = || system.list(path);
        let listed = match list() {
            Err(e) if e.kind() == ErrorKind::NotFound && self.create => {
                let made = system.create_directory(path, directory.own_mode());
                made.map_err(|e| not_made(path, e))?;
                system.sync_directory(path).and_then(|()| list())
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return Err(no_store(directory, &[]));
            }
            listed => listed,
        };
        listed.map_err(|e| unlisted(path, e))
    }

    /// Recovers a store: what its handles share.
    fn recover(
        &self,
        found: (Version, Option<Extent>),
        lock: Box<dyn Send + Sync>,
    ) -> Result<Inner> {
        let flushed = found.0.flushed;
        let Recovered { replay, manifest, segment, at, next_seq } = recover::recover(self, found)?;
        let Replay { version, active, frozen, warm, last_seq, .. } = replay;
        let directory = Arc::clone(version.directory());
        if last_seq > flushed {
            let (entries, commit) = (Some(last_seq - flushed), Some(last_seq));
            tell(&directory.path, || Done { entries, commit, ..Work::LSM_REPLAY.done() });
        }
        let clock = Clock::new(last_seq, version.next_file);
        version.pins.values().for_each(|pinned| clock.pin_at(pinned.seq));
        let is_on = directory.system.flushes_in_background();
        let bounds = Bounds::new(&directory, self.segment_bytes);
        let (held, pending) = (Arc::clone(&directory.held), Pending::open(&directory));
        let writer = Writer {
            log: Log::new(segment, at, bounds, held, pending),
            next_seq,
            active: Arc::clone(&active),
            has_asked: false,
            unlooked: u64::MAX,
        };
        let (version, spare) = (Arc::new(version), Spare::default());
        let current = Current { active, frozen, version, spare };
        Ok(Inner {
            options: self.clone(),
            queue: Queue::default(),
            logs: Logs::new(writer, warm),
            current: RwLock::new(Arc::new(current)),
            manifest: Mutex::new(manifest),
            clock,
            health: Health::default(),
            background: Background::new(is_on),
            turns: Turns::default(),
            catalog: Catalog::new(new_store()),
            directory,
            _lock: lock,
        })
    }
}

/// Tells the open stores of a process apart.
pub(crate) fn new_store() -> u64 {
    static STORES: AtomicU64 = AtomicU64::new(1);
    STORES.fetch_add(1, Ordering::Relaxed)
}

/// Whether a directory holds only the remains of an unfinished creation: at most empty segments.
fn is_unborn(directory: &Directory, names: &[std::ffi::OsString]) -> Result<bool> {
    for name in names {
        match files::parse(name) {
            Some(Name::Segment(number)) => {
                let path = directory.file(Name::Segment(number));
                let file = directory.system.open_data(&path, Open::Read, 0);
                let len = file.and_then(|file| file.len());
                if len.map_err(|e| Error::io("look at", &path, e))? > HEADER_BYTES as u64 {
                    return Ok(false);
                }
            }
            Some(
                Name::ManifestNew | Name::Lock | Name::Pending | Name::Identity | Name::Copy(_),
            ) => {}
            Some(Name::Manifest | Name::Table(_)) | None => return Ok(false),
        }
    }
    Ok(true)
}

/// Why it is not known what is in a directory.
pub(crate) fn unlisted(path: &Path, error: std::io::Error) -> Error {
    if error.kind() != ErrorKind::NotADirectory {
        return Error::io("list", path, error);
    }
    let reason = "it is a file, and a store of the engine lsm is a directory; a store of the \
                  engine tree is a file: open it as one, or choose another path";
    Error::NotAStore { path: path.to_path_buf(), reason: reason.to_string() }
}

/// Why the directory of a new store could not be made.
fn not_made(path: &Path, error: std::io::Error) -> Error {
    let reason = "the folder above it is not there; make that first";
    let missing = || std::io::Error::new(ErrorKind::NotFound, reason);
    Error::io("make", path, if error.kind() == ErrorKind::NotFound { missing() } else { error })
}

/// Why there is no store to open.
pub(crate) fn no_store(directory: &Directory, names: &[std::ffi::OsString]) -> Error {
    let path = directory.path.clone();
    let is_store = |name: &std::ffi::OsString| files::parse(name).is_some_and(Name::is_data);
    let reason = match is_unborn(directory, names) {
        Err(error) => return error,
        Ok(true) => {
            let reason = "there is no store here; create one first";
            return Error::Path { path, reason };
        }
        Ok(false) if names.iter().any(is_store) => {
            "files of a store are there, and its MANIFEST is not; `hedgerow salvage` brings over \
             what they hold"
        }
        Ok(false) => "the directory has no manifest and holds other files",
    };
    Error::NotAStore { path, reason: reason.to_string() }
}

fn take_lock(directory: &Directory) -> Result<Box<dyn Send + Sync>> {
    let path = directory.file(Name::Lock);
    let taken = directory.system.lock_exclusive(&path, directory.mode);
    let reason = "the store is open already, here or in another process, for writing or for \
                  reading; one opener at a time, or several that only read";
    taken
        .map_err(|e| Error::io("lock", &path, e))?
        .ok_or_else(|| Error::Locked { path, reason: reason.to_string() })
}

#[cfg(test)]
mod tests;
