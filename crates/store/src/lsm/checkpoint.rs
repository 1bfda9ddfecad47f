//! The files of a store at one moment, and how they get into another directory: checkpoints, and
//! what backups share with them.
//!
//! Tables and segments that have ended never change, so their names are all that a moment needs to
//! take; of the segment that is written to, it takes what is in it so far. The manifest of the
//! moment ends that segment there. It is written last, when every file that it names is on stable
//! storage: before that the directory is no store.

use std::io::{ErrorKind, IoSlice};
use std::path::Path;
use std::sync::Arc;

use super::db::Db;
use super::engine::Inner;
use super::files::{self, Directory, Name};
use super::levels::manifest::{self, Manifest};
use super::levels::version::{Edit, Sealed, Version};
use super::log::segment::HEADER_BYTES;
use crate::checksum::crc32c;
use crate::os::Open;
use crate::{Durability, Error, Result};

/// This many bytes are copied at once.
const COPY_BYTES: usize = 1 << 20;

/// The store at one moment. Its files stay while it is held.
pub(crate) struct Moment {
    pub(crate) version: Arc<Version>,
    /// The ends of the segments that the version does not call ended, if they count.
    pub(crate) tails: Vec<Tail>,
}

/// How a segment ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(crate) number: u32,
    pub(crate) len: u64,
    pub(crate) last_seq: u64,
}

impl Inner {
    /// What is committed now, as files. All of it is on stable storage: what a backup has of the
    /// log, the log has, whatever happens; else it might get other groups of the same length there.
    pub(crate) fn moment(&self) -> Result<Moment> {
        self.check_process()?;
        let mut writer = self.writer();
        self.settle_log(&mut writer, Durability::Durable)?;
        self.seal_ended()?;
        let (number, len) = (writer.log.identity().number, writer.log.end());
        let tail = Tail { number, len, last_seq: writer.next_seq - 1 };
        let version = Arc::clone(&self.current().version);
        Ok(Moment { version, tails: vec![tail] })
    }
}

/// A file of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: Name,
    pub(crate) len: u64,
    /// Whether it is a segment that was written to.
    pub(crate) is_tail: bool,
}

impl Part {
    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        match self.name {
            Name::Segment(number) | Name::Table(number) | Name::Copy(number) => number,
            Name::Manifest | Name::ManifestNew | Name::Lock | Name::Pending | Name::Identity => 0,
        }
    }
}

impl Directory {
    /// How much of a file is part of it, and the bytes after that, which are in memory.
    pub(crate) fn held_of(&self, part: Part) -> (u64, Vec<u8>) {
        let Name::Segment(number) = part.name else { return (part.len, Vec::new()) };
        let from = self.held.lock().begin_in(number).map_or(part.len, |at| at.min(part.len));
        let held = self.held.get(number, from, (part.len - from) as usize);
        held.map_or((part.len, Vec::new()), |held| (from, held))
    }
}

impl Moment {
    /// The end of a segment that the version does not call ended.
    pub(crate) fn tail(&self, number: u32) -> Option<Tail> {
        self.tails.iter().find(|tail| tail.number == number).copied()
    }

    /// The version of the moment in another directory.
    ///
    /// # Errors
    /// If the moment makes no sense.
    pub(crate) fn version_in(&self, directory: &Arc<Directory>) -> Result<Version> {
        let mut edits = self.version.file_edits();
        let unsealed = self.version.segments().filter(|segment| segment.sealed.is_none());
        edits.extend(unsealed.map(|segment| {
            let number = segment.identity.number;
            // A segment that was made in advance has no content yet.
            match self.tail(number).filter(|tail| tail.len > HEADER_BYTES as u64) {
                Some(Tail { len, last_seq, .. }) => {
                    let sealed = Sealed { len, last_seq, remap_len: 0 };
                    Edit::SealSegment { number, sealed }
                }
                None => Edit::RemoveSegment { number },
            }
        }));
        let mut version =
            Version::empty(Arc::clone(directory)).apply(&edits).map_err(|misfit| {
                Error::argument(format!("an edit does not fit the store: {misfit}"))
            })?;
        version.store = self.version.store;
        Ok(version)
    }

    /// The files of a version of this moment.
    pub(crate) fn parts(&self, version: &Version) -> Vec<Part> {
        let tables = version.tables().map(|(_, table)| Part {
            name: Name::Table(table.meta.number),
            len: table.meta.bytes,
            is_tail: false,
        });
        let segments = version.segments().map(|segment| {
            let number = segment.identity.number;
            let is_tail = self.tail(number).is_some();
            Part { name: Name::Segment(number), len: segment.bytes(), is_tail }
        });
        tables.chain(segments).collect()
    }
}

/// A directory that a store is put into. It is locked against other processes.
pub(crate) struct Target {
    pub(crate) directory: Arc<Directory>,
    _lock: Box<dyn Send + Sync>,
}

impl Target {
    /// The directory at `path`, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::Locked`] if a store in it is open, [`Error::NotAStore`] if other files are in it.
    pub(crate) fn take(source: &Directory, path: &Path) -> Result<Self> {
        let directory = Arc::new(source.for_copy(path));
        let system = &directory.system;
        match system.create_directory(path, directory.own_mode()) {
            Ok(()) => system.sync_directory(path).map_err(|e| Error::io("flush", path, e))?,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Error::io("create", path, e)),
        }
        let lock = directory.file(Name::Lock);
        let names = system.list(path).map_err(|e| Error::io("list", path, e))?;
        if names.iter().any(|name| files::parse(name).is_none()) {
            let reason = "the directory holds other files; give one of its own".to_string();
            return Err(Error::NotAStore { path: path.to_path_buf(), reason });
        }
        let taken = system.lock_exclusive(&lock, directory.mode);
        let taken = taken.map_err(|e| Error::io("lock", &lock, e))?;
        let reason = "a store there is open, here or in another process".to_string();
        let taken = taken.ok_or(Error::Locked { path: lock, reason })?;
        Ok(Self { directory, _lock: taken })
    }

    /// What is in it.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn names(&self) -> Result<Vec<Name>> {
        self.directory.names()
    }

    /// Begins to put a store here where there is none: as long as its manifest has not taken its
    /// place, what is here is of no use. What was here before without one is not ours to remove.
    ///
    /// # Errors
    /// [`Error::NotAStore`] if there are files of a store that has lost its manifest.
    pub(crate) fn begin(&self) -> Result<()> {
        let names = self.names()?;
        if names.contains(&Name::Manifest) || names.contains(&Name::ManifestNew) {
            return Ok(());
        }
        if let Some(&name) = names.iter().find(|name| name.is_data()) {
            let reason = "it belongs to a store whose MANIFEST is not there, and is not removed; \
                          give another directory, or bring over what is here with `hedgerow \
                          salvage`";
            let (path, reason) = (self.directory.file(name), reason.to_string());
            return Err(Error::NotAStore { path, reason });
        }
        self.directory.create(Name::ManifestNew)?;
        self.directory.sync()
    }

    /// Removes the tables, segments and copies that are not to be kept.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn retain(&self, keep: impl Fn(Name) -> bool) -> Result<()> {
        for name in self.names()? {
            let is_data = matches!(name, Name::Table(_) | Name::Segment(_) | Name::Copy(_));
            if is_data && !keep(name) {
                let path = self.directory.file(name);
                let removed = self.directory.system.remove(&path);
                removed.map_err(|e| Error::io("remove", &path, e))?;
            }
        }
        Ok(())
    }

    /// Makes a hard link to a file of the store that never changes; copies the file if the file
    /// system has no hard links.
    fn link(&self, source: &Directory, part: Part) -> Result<()> {
        let (from, to) = (source.file(part.name), self.directory.file(part.name));
        match self.directory.system.link(&from, &to) {
            Ok(()) => Ok(()),
            Err(_) => self.copy(source, part),
        }
    }

    /// Copies the beginning of a file, and reads it again; it gets its name, in place of another
    /// one's, when it is on stable storage.
    ///
    /// # Errors
    /// If the system refuses; [`Error::Corrupt`] if the copy reads otherwise than what was written.
    pub(crate) fn copy(&self, source: &Directory, part: Part) -> Result<()> {
        let from = source.file(part.name);
        let read = source.opening(|| source.system.open_data(&from, Open::Read, 0));
        let read = read.map_err(|e| Error::io("open", &from, e))?;
        let (path, written) = self.directory.create(Name::Copy(part.number()))?;
        let (len, held) = source.held_of(part);
        let from_both = |piece: &mut [u8], offset: u64| {
            let stored = len.saturating_sub(offset).min(piece.len() as u64) as usize;
            let (stored, rest) = piece.split_at_mut(stored);
            read.read_at(stored, offset)?;
            let behind = offset.saturating_sub(len) as usize;
            rest.copy_from_slice(&held[behind..behind + rest.len()]);
            Ok(())
        };
        let sum = each_piece(from_both, &from, part.len, |bytes, offset| {
            let result = written.write_at(&[IoSlice::new(bytes)], offset);
            result.map_err(|e| Error::io("write to", &path, e))
        })?;
        written.sync().map_err(|e| Error::io("flush", &path, e))?;
        let again = |piece: &mut [u8], offset| written.read_at(piece, offset);
        if each_piece(again, &path, part.len, |_, _| Ok(()))? != sum {
            let what = "a copy reads otherwise than what was written to it";
            return Err(Error::corrupt_at(&path, 0, what));
        }
        let to = self.directory.file(part.name);
        let renamed = self.directory.system.rename(&path, &to);
        renamed.map_err(|e| Error::io("rename", &path, e))
    }
}

/// Reads the first `len` bytes of a file piece by piece; their checksum.
fn each_piece(
    read: impl Fn(&mut [u8], u64) -> std::io::Result<()>,
    path: &Path,
    len: u64,
    mut f: impl FnMut(&[u8], u64) -> Result<()>,
) -> Result<u32> {
    let (mut buffer, mut offset, mut sum) = (vec![0; COPY_BYTES], 0, 0);
    while offset < len {
        let piece = &mut buffer[..(len - offset).min(COPY_BYTES as u64) as usize];
        read(piece, offset).map_err(|e| Error::io("read", path, e))?;
        sum = crc32c(u64::from(sum), piece);
        f(piece, offset)?;
        offset += piece.len() as u64;
    }
    Ok(sum)
}

impl Db {
    /// Makes a second store with the present content, in a directory that does not exist yet or is
    /// empty. This is fast and at first takes nearly no space, since files that never change are
    /// hard-linked. Only the newest part of the log is copied. On another file system, or one
    /// without hard links, everything is copied.
    ///
    /// Writers wait while the moment is taken, but not while files are linked and copied.
    /// Everything that was committed before the call is in it. It is on stable storage when this
    /// returns; if this fails, or the machine stops before, the directory holds no store, and may
    /// be used again. The two stores do not depend on each other: neither changes a file that both
    /// have.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
    /// # use hedgerow::lsm::{Db, Readable};
    /// let people = db.keyspace("people", Default::default())?;
    /// db.put(&people, b"1", b"Ada")?;
    /// db.checkpoint(folder.path().join("then"))?;
    /// db.delete(&people, b"1")?;
    ///
    /// let then = Db::open(folder.path().join("then"))?;
    /// let people = then.keyspace("people", Default::default())?;
    /// assert_eq!(then.get(&people, b"1")?.as_deref(), Some(&b"Ada"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Path`] if there is a store in the directory, [`Error::NotAStore`] if other files
    /// are; [`Error::Io`] if the system refuses.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        let (source, path) = (&self.inner.directory, path.as_ref());
        let target = Target::take(source, path)?;
        if target.names()?.contains(&Name::Manifest) {
            let reason = "there is a store already; a checkpoint goes to an empty directory";
            return Err(Error::Path { path: path.to_path_buf(), reason });
        }
        target.begin()?;
        target.retain(|_| false)?;
        let moment = self.inner.moment()?;
        let mut version = moment.version_in(&target.directory)?;
        // It goes its own way from here on: a backup of the one is none of the other.
        version.store = target.directory.random();
        for part in moment.parts(&version) {
            match part.is_tail {
                true => target.copy(source, part)?,
                false => target.link(source, part)?,
            }
        }
        target.directory.sync()?;
        Manifest::create(&version, target.directory.random()).map(drop)
    }
}

/// The version of a backup that is there already; `None` if there is none.
///
/// # Errors
/// [`Error::Path`] if the directory holds a store, or a backup that was opened as one.
pub(crate) fn backup_in(target: &Target) -> Result<Option<Version>> {
    let Some(version) = manifest::read(&target.directory)? else { return Ok(None) };
    match manifest::is_backup(&target.directory)? {
        true => Ok(Some(version)),
        false => {
            let path = target.directory.path.clone();
            let reason = "a store is there, or a backup that was opened as one since; give the \
                          backup another directory";
            Err(Error::Path { path, reason })
        }
    }
}
