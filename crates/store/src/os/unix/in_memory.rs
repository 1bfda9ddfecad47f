//! Files in memory, for a store that ends with the process: their names are known here only.
//!
//! Such a file is one of the system without a name, so that it is mapped, read and written like any
//! other. It has no need to be flushed, and takes room only for what was written.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(not(target_os = "linux"))]
use rustix::fs::OFlags;

#[cfg(not(target_os = "linux"))]
use super::calls::open_regular;
use super::file::RealFile;
use crate::os::aio;
use crate::os::file::{Access, DataFile, Map, Shared};
use crate::os::lock::{self, SharedLock};
use crate::os::system::{Open, Rights, System};

/// The files of one store that lies in memory. Nobody else opens them.
#[derive(Default)]
pub(crate) struct MemorySystem {
    names: Mutex<Names>,
}

#[derive(Default)]
struct Names {
    files: BTreeMap<PathBuf, Arc<MemoryFile>>,
    folders: BTreeSet<PathBuf>,
}

impl MemorySystem {
    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    fn find(&self, path: &Path) -> io::Result<Arc<MemoryFile>> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl System for MemorySystem {
    fn open_data(&self, path: &Path, how: Open, _mode: u32) -> io::Result<Arc<dyn DataFile>> {
        let mut names = self.names();
        if how != Open::Create {
            return Ok(names.find(path)?);
        }
        if names.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = Arc::new(MemoryFile(RealFile::new(nameless_file()?)));
        names.files.insert(path.to_path_buf(), Arc::clone(&file));
        Ok(file)
    }

    fn open_lock(&self, _: &Path, _: bool, _: Rights<'_>) -> io::Result<Arc<SharedLock>> {
        Ok(Arc::new(lock::open_alone()?))
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names();
        names.find(path)?;
        names.files.remove(path);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names();
        let file = names.find(from)?;
        names.files.remove(from);
        names.files.insert(to.to_path_buf(), file);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names();
        let file = names.find(from)?;
        if names.files.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        names.files.insert(to.to_path_buf(), file);
        Ok(())
    }

    fn create_directory(&self, path: &Path, _mode: u32) -> io::Result<()> {
        let is_new = self.names().folders.insert(path.to_path_buf());
        if is_new { Ok(()) } else { Err(io::ErrorKind::AlreadyExists.into()) }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let names = self.names();
        if !names.folders.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = names.files.keys().filter(|name| name.parent() == Some(path));
        Ok(inside.filter_map(|name| name.file_name()).map(OsString::from).collect())
    }

    /// There is one opener.
    fn lock_exclusive(&self, _: &Path, _: u32) -> io::Result<Option<Box<dyn Send + Sync>>> {
        Ok(Some(Box::new(())))
    }

    /// There is one opener.
    fn lock_shared(&self, _: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        Ok(Some(Box::new(())))
    }

    fn aio(&self, choice: aio::Choice) -> Arc<dyn aio::Io> {
        aio::open(choice)
    }

    fn is_memory(&self) -> bool {
        true
    }
}

/// A file of memory.
#[cfg(target_os = "linux")]
fn nameless_file() -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, memfd_create};
    super::calls::again(|| memfd_create("hedgerow", MemfdFlags::CLOEXEC))
}

/// A temporary file whose name is removed at once.
#[cfg(not(target_os = "linux"))]
fn nameless_file() -> io::Result<OwnedFd> {
    let name = format!("hedgerow-{:016x}", crate::os::system::random());
    let path = std::env::temp_dir().join(name);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = open_regular(&path, flags, 0o600)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// A file of which nothing has to be brought to a disk.
struct MemoryFile(RealFile);

impl DataFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buffer, offset)
    }

    fn read_some(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_some(buffer, offset)
    }

    fn write_at(&self, parts: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.0.write_at(parts, offset)
    }

    fn start_writeback(&self, _: u64, _: u64) {}

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn map(&self, reserve: u64, access: Access) -> io::Result<Option<Map>> {
        self.0.map(reserve, access)
    }

    fn share(&self, len: usize) -> io::Result<Option<Box<dyn Shared>>> {
        self.0.share(len)
    }

    /// The file is there as long as anybody can ask.
    fn uptime_evidence(&self) -> Option<[u8; 24]> {
        Some([1; 24])
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }
}
