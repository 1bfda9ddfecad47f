//! The files of a store: their names, and handles that open a file when it is first read and remove
//! it when it is not needed any more; and the cache of what was read.

pub(crate) mod append;
pub(crate) mod cache;
pub(crate) mod cached;
pub(crate) mod charge;
pub(crate) mod memory;
pub(crate) mod opened;
pub(crate) mod piece;
pub(crate) mod queue;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use super::log::held::Held;
use crate::os::aio::{ALIGN, Buffer, Choice, Io};
use crate::os::{
    DataFile, Mapped, Open, RealSystem, System, Token, is_one_too_many, open_files_max,
};
use crate::sync::atomic::AtomicBool;
use crate::{Error, Result};
use cached::{Blocks, ReadCounts};
use memory::Budget;
use opened::{Opened, Place};

/// The log of edits.
pub(crate) const MANIFEST: &str = "MANIFEST";
/// The one that will take its place.
pub(crate) const MANIFEST_NEW: &str = "MANIFEST.new";
/// The process that has the store open holds a lock on it.
pub(crate) const LOCK: &str = "LOCK";
/// Groups that were handed to the system and are not in the log yet.
pub(crate) const PENDING: &str = "PENDING";
const IDENTITY: &str = "IDENTITY";

/// A store has this part of the files that the process may have open.
const OPEN_FILES_PART: usize = 2;

/// The directory of a store.
pub(crate) struct Directory {
    pub(crate) system: Arc<dyn System>,
    pub(crate) path: PathBuf,
    /// Permission bits of new files.
    pub(crate) mode: u32,
    /// What was read of tables and segments.
    pub(crate) blocks: Blocks,
    /// What of the log was not written yet.
    pub(crate) held: Arc<Held>,
    pub(crate) budget: Budget,
    /// Where queues of reads come from.
    pub(crate) io: Arc<dyn Io>,
    pub(crate) reads: ReadCounts,
    /// Whether files are read past the system's cache: found out once.
    is_direct: OnceLock<bool>,
    /// Whether the system's cache may hold what is read and written: then it is never read past.
    pub(crate) is_cached: bool,
    /// Files that are open for reading.
    pub(crate) opened: Opened,
    /// The process that opened the store.
    process: Token,
}

/// What a file of the store holds, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    Segment(u32),
    Table(u32),
    Manifest,
    ManifestNew,
    Lock,
    Pending,
    /// What tells the store from others; made when it is first asked for.
    Identity,
    /// A file that is being copied to a checkpoint or backup; it is renamed when it is whole.
    Copy(u32),
}

impl Name {
    /// Whether what is in it makes up a store.
    pub(crate) fn is_data(self) -> bool {
        matches!(self, Self::Segment(_) | Self::Table(_))
    }
}

/// The meaning of a name; `None` if it is none of ours.
pub(crate) fn parse(name: &OsStr) -> Option<Name> {
    let name = name.to_str()?;
    match name {
        MANIFEST => return Some(Name::Manifest),
        MANIFEST_NEW => return Some(Name::ManifestNew),
        LOCK => return Some(Name::Lock),
        PENDING => return Some(Name::Pending),
        IDENTITY => return Some(Name::Identity),
        _ => {}
    }
    let (digits, kind) = name.split_once('.')?;
    let number: u32 = digits.parse().ok()?;
    let kind = match kind {
        "log" => Name::Segment(number),
        "table" => Name::Table(number),
        "copy" => Name::Copy(number),
        _ => return None,
    };
    (name == file_name(kind)).then_some(kind)
}

fn file_name(name: Name) -> String {
    match name {
        Name::Segment(number) => format!("{number:08}.log"),
        Name::Table(number) => format!("{number:08}.table"),
        Name::Copy(number) => format!("{number:08}.copy"),
        Name::Manifest => MANIFEST.to_string(),
        Name::ManifestNew => MANIFEST_NEW.to_string(),
        Name::Lock => LOCK.to_string(),
        Name::Pending => PENDING.to_string(),
        Name::Identity => IDENTITY.to_string(),
    }
}

impl Directory {
    /// Random bits.
    pub(crate) fn random(&self) -> u64 {
        self.system.random()
    }

    /// A directory for a copy of the store, of which little will be read.
    pub(crate) fn for_copy(&self, path: &Path) -> Self {
        let system = match self.system.is_memory() {
            true => Arc::new(RealSystem),
            false => Arc::clone(&self.system),
        };
        Self::new(system, path.to_path_buf(), self.mode, Budget::new(1 << 20, 0))
    }

    /// A directory of that system.
    pub(crate) fn new(system: Arc<dyn System>, path: PathBuf, mode: u32, budget: Budget) -> Self {
        let io = system.aio(Choice::Auto);
        let (blocks, reads) = (Blocks::new(budget.rest()), ReadCounts::default());
        let (held, is_direct) = (Arc::default(), OnceLock::new());
        let opened = Opened::new(open_files_max() / OPEN_FILES_PART);
        let (is_cached, process) = (false, Token::of_this());
        Self {
            system,
            path,
            mode,
            blocks,
            held,
            budget,
            io,
            reads,
            is_direct,
            is_cached,
            opened,
            process,
        }
    }

    /// False in a child process after a fork: the files, and the threads, are those of its parent.
    #[inline]
    pub(crate) fn is_ours(&self) -> bool {
        self.process.is_of_this()
    }

    /// Its own permission bits, when it is made.
    pub(crate) fn own_mode(&self) -> u32 {
        self.mode | (self.mode & 0o444) >> 2
    }

    /// The same; the system's cache may hold what is read and written, if `is_cached`.
    pub(crate) fn cached(self, is_cached: bool) -> Self {
        Self { is_cached, ..self }
    }

    pub(crate) fn file(&self, name: Name) -> PathBuf {
        self.path.join(file_name(name))
    }

    /// Does something that opens a file. If the process has too many open, some that the store
    /// reads are closed first, or some of all stores: they are opened again when they are needed.
    pub(crate) fn opening<R>(&self, open: impl Fn() -> std::io::Result<R>) -> std::io::Result<R> {
        let mut opened = open();
        for close in [Opened::close_some, Opened::close_some_of_all] {
            if opened.as_ref().is_err_and(is_one_too_many) && close(&self.opened) {
                opened = open();
            }
        }
        opened
    }

    /// Makes a file, in place of one that was left by a crash.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn create(&self, name: Name) -> Result<(PathBuf, Arc<dyn DataFile>)> {
        let path = self.file(name);
        let make = || self.opening(|| self.system.open_data(&path, Open::Create, self.mode));
        let made = match make() {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                self.system.remove(&path).and_then(|()| make())
            }
            made => made,
        };
        let file = made.map_err(|e| Error::io("create", &path, e))?;
        Ok((path, file))
    }

    /// Removes a file whose making failed: on a full disk it would take room. If it cannot be
    /// removed now it is an orphan, which the next opening removes.
    pub(crate) fn give_up(&self, path: &Path) {
        let _ = self.system.remove(path);
    }

    /// The names of what is in it.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn names(&self) -> Result<Vec<Name>> {
        let names = self.system.list(&self.path).map_err(|e| Error::io("list", &self.path, e))?;
        Ok(names.iter().filter_map(|name| parse(name)).collect())
    }

    /// Makes the names of new files durable.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn sync(&self) -> Result<()> {
        let inside = self.path.join(MANIFEST);
        let flushed = self.opening(|| self.system.sync_directory(&inside));
        flushed.map_err(|e| Error::io("flush", &self.path, e))
    }

    pub(crate) fn handle(self: &Arc<Self>, name: Name) -> Arc<Handle> {
        Arc::new(Handle {
            directory: Arc::clone(self),
            path: self.file(name),
            file: Arc::default(),
            direct: Arc::default(),
            map: OnceLock::new(),
            obsolete: AtomicBool::new(false),
        })
    }

    /// Whether files of this directory are read past the system's cache: if the system accepts
    /// that, and a read of `file` shows that it really works.
    fn takes_direct(&self, file: &dyn DataFile) -> bool {
        *self.is_direct.get_or_init(|| {
            !self.is_cached && file.set_direct(true) && {
                let works = file.read_some(&mut Buffer::new(ALIGN), 0).is_ok();
                file.set_direct(false);
                works
            }
        })
    }

    /// Whether files are read past the system's cache; `None` before the first one is.
    pub(crate) fn is_direct(&self) -> Option<bool> {
        self.is_direct.get().copied()
    }
}

/// A table or a sealed segment. Versions share it.
pub(crate) struct Handle {
    directory: Arc<Directory>,
    path: PathBuf,
    file: Arc<Place>,
    /// The file once more, read past the system's cache.
    direct: Arc<Place>,
    /// The file in a map, where the system's cache may hold it; `None` where it is not mapped.
    map: OnceLock<Option<Arc<Mapped>>>,
    /// No later version has it: dropping the last reference removes it.
    obsolete: AtomicBool,
}

impl Handle {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    fn open(&self) -> Result<Arc<dyn DataFile>> {
        let open = || self.directory.system.open_data(&self.path, Open::Read, 0);
        self.directory.opening(open).map_err(|e| Error::io("open", &self.path, e))
    }

    /// The file, opened for reading.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn file(&self) -> Result<Arc<dyn DataFile>> {
        match self.file.get() {
            Some(file) => Ok(file),
            None => Ok(self.directory.opened.keep(&self.file, self.open()?)),
        }
    }

    /// The length of the file.
    ///
    /// # Errors
    /// If the system does not say.
    pub(crate) fn len(&self) -> Result<u64> {
        let file = self.direct()?.map_or_else(|| self.file(), Ok)?;
        file.len().map_err(|e| Error::io("ask for the length of", &self.path, e))
    }

    /// The file, opened for reading past the system's cache: `None` where that is not taken. It
    /// takes offsets, lengths and memory that are aligned.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn direct(&self) -> Result<Option<Arc<dyn DataFile>>> {
        if self.directory.is_direct() == Some(false) {
            return Ok(None);
        }
        if let Some(file) = self.direct.get() {
            return Ok(Some(file));
        }
        let opened = self.open()?;
        let is_direct = self.directory.takes_direct(&*opened) && opened.set_direct(true);
        Ok(is_direct.then(|| self.directory.opened.keep(&self.direct, opened)))
    }

    /// The file in a map: `None` where the system's cache is not to hold what is read, or where
    /// there are no maps. It must be whole.
    pub(crate) fn mapped(&self) -> Option<&Arc<Mapped>> {
        if !self.directory.is_cached {
            return None;
        }
        self.map.get_or_init(|| Mapped::of(&*self.file().ok()?)).as_ref()
    }

    /// Whether it is in a map.
    pub(crate) fn is_mapped(&self) -> bool {
        self.map.get().is_some_and(Option::is_some)
    }

    /// Whether the file is removed with the last reference.
    pub(crate) fn is_obsolete(&self) -> bool {
        self.obsolete.load(Ordering::Acquire)
    }

    /// Lets the file be removed when the last version with it is dropped.
    pub(crate) fn set_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_obsolete() && self.directory.is_ours() {
            self.file.close();
            self.direct.close();
            self.map.take();
            // What cannot be removed now is an orphan, which the next opening removes.
            let _ = self.directory.system.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_they_are_made() {
        let numbered = [Name::Segment(7), Name::Table(123_456_789), Name::Copy(1)];
        let others = [Name::Manifest, Name::ManifestNew, Name::Lock, Name::Pending, Name::Identity];
        for name in numbered.into_iter().chain(others) {
            assert_eq!(parse(OsStr::new(&file_name(name))), Some(name));
        }
        for other in ["7.log", "00000007.sst", "MANIFEST.old", "x", "+0000007.log", ".log"] {
            assert_eq!(parse(OsStr::new(other)), None, "{other}");
        }
    }
}
