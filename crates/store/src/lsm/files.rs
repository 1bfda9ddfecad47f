//! The files of a store: their names, and handles that open a file when it is first read and remove
//! it when nobody needs it any more; beside them the cache of what was read of tables.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use super::cache::Cache;
use super::table::Block;
use crate::os::{DataFile, Open, System};
use crate::sync::atomic::AtomicBool;
use crate::{Error, Result};

/// The log of edits.
pub(crate) const MANIFEST: &str = "MANIFEST";
/// The one that will take its place.
pub(crate) const MANIFEST_NEW: &str = "MANIFEST.new";
/// Who has the store open holds a lock on it.
pub(crate) const LOCK: &str = "LOCK";

/// The directory of a store.
pub(crate) struct Directory {
    pub(crate) system: Arc<dyn System>,
    pub(crate) path: PathBuf,
    /// Permission bits of new files.
    pub(crate) mode: u32,
    /// Blocks of tables that were read.
    pub(crate) blocks: Cache<Block, Unread>,
}

/// A block could not be read. Why, the next one learns who tries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unread;

/// What a file of the store holds, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Segment(u32),
    Table(u32),
    Manifest,
    ManifestNew,
    Lock,
    /// A file that is being copied to a checkpoint or backup; it is renamed when it is whole.
    Copy(u32),
}

/// The meaning of a name; `None` if it is none of ours.
pub(crate) fn parse(name: &OsStr) -> Option<Name> {
    let name = name.to_str()?;
    match name {
        MANIFEST => return Some(Name::Manifest),
        MANIFEST_NEW => return Some(Name::ManifestNew),
        LOCK => return Some(Name::Lock),
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
    }
}

/// Random bits; the standard library seeds its hash maps from the system's source.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

impl Directory {
    /// Another directory on the same system, of which little will be read.
    pub(crate) fn beside(&self, path: &Path) -> Self {
        let blocks = Cache::new(0, |block: &Block| block.memory() as u64);
        let (system, path) = (Arc::clone(&self.system), path.to_path_buf());
        Self { system, path, mode: self.mode, blocks }
    }

    pub(crate) fn file(&self, name: Name) -> PathBuf {
        self.path.join(file_name(name))
    }

    /// Makes a file, in place of one that a creator who died left behind.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn create(&self, name: Name) -> Result<(PathBuf, Arc<dyn DataFile>)> {
        let path = self.file(name);
        let make = || self.system.open_data(&path, Open::Create, self.mode);
        let made = match make() {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                self.system.remove(&path).and_then(|()| make())
            }
            made => made,
        };
        let file = made.map_err(|e| Error::io("create", &path, e))?;
        Ok((path, file))
    }

    /// Makes the names of new files durable.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn sync(&self) -> Result<()> {
        let inside = self.path.join(MANIFEST);
        self.system.sync_directory(&inside).map_err(|e| Error::io("flush", &self.path, e))
    }

    pub(crate) fn handle(self: &Arc<Self>, name: Name) -> Arc<Handle> {
        Arc::new(Handle {
            directory: Arc::clone(self),
            path: self.file(name),
            file: OnceLock::new(),
            obsolete: AtomicBool::new(false),
        })
    }
}

/// A table or a sealed segment. Versions share it.
pub(crate) struct Handle {
    directory: Arc<Directory>,
    path: PathBuf,
    file: OnceLock<Arc<dyn DataFile>>,
    /// No version that is still to come has it: who lets it go last removes it.
    obsolete: AtomicBool,
}

impl Handle {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Blocks of tables that were read.
    pub(crate) fn blocks(&self) -> &Cache<Block, Unread> {
        &self.directory.blocks
    }

    /// The file, opened for reading.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn file(&self) -> Result<&Arc<dyn DataFile>> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let opened = self.directory.system.open_data(&self.path, Open::Read, 0);
        let opened = opened.map_err(|e| Error::io("open", &self.path, e))?;
        // Two threads may open it at once; one of the two is used.
        Ok(self.file.get_or_init(|| opened))
    }

    /// Lets the file be removed when the last version with it is dropped.
    pub(crate) fn set_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire) {
            self.file.take();
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
        for name in numbered.into_iter().chain([Name::Manifest, Name::ManifestNew, Name::Lock]) {
            assert_eq!(parse(OsStr::new(&file_name(name))), Some(name));
        }
        for other in ["7.log", "00000007.sst", "MANIFEST.old", "x", "+0000007.log", ".log"] {
            assert_eq!(parse(OsStr::new(other)), None, "{other}");
        }
    }
}
