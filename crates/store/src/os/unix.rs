//! The real system on Unix: files, their names, and the lock files.
//!
//! Every method here is one system call repeated until it is done. No policy lives here.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, Mode, OFlags};
use rustix::process::geteuid;

use super::file::DataFile;
use super::lock::SharedLock;
use super::lock::process::Token;
use super::system::{Open, Rights, System};
use super::{aio, lock};

pub(super) mod bytes;
pub(super) mod calls;
pub(super) mod evidence;
mod file;
mod in_memory;
#[cfg(test)]
mod tests;

use calls::{again, open_regular};
use file::RealFile;
pub(crate) use in_memory::MemorySystem;

/// The system's own files, maps and locks.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealSystem;

impl System for RealSystem {
    fn open_data(&self, path: &Path, how: Open, mode: u32) -> io::Result<Arc<dyn DataFile>> {
        let flags = match how {
            Open::Read => OFlags::RDONLY,
            Open::Write => OFlags::RDWR,
            Open::Create => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW,
        };
        let file = open_regular(path, flags, mode)?;
        Ok(Arc::new(RealFile::new(file)))
    }

    fn open_lock(
        &self,
        path: &Path,
        read_only: bool,
        rights: Rights<'_>,
    ) -> io::Result<Arc<SharedLock>> {
        Ok(Arc::new(lock::open(path, read_only, rights)?))
    }

    fn discard_lock(&self, path: &Path, is_gone: &dyn Fn() -> bool) -> io::Result<bool> {
        lock::discard(path, is_gone)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = again(|| fs::open(parent, flags, Mode::empty()))?;
        again(|| fs::fsync(&directory))
    }

    fn free_bytes(&self, path: &Path) -> Option<u64> {
        let system = fs::statvfs(path).ok().filter(|system| system.f_blocks > 0)?;
        // Some of it is left for root.
        let blocks = if geteuid().is_root() { system.f_bfree } else { system.f_bavail };
        Some(blocks.saturating_mul(system.f_frsize))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn create_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        again(|| fs::mkdir(path, Mode::from_raw_mode(mode as _)))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn lock_exclusive(&self, path: &Path, mode: u32) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW;
        let file = open_regular(path, flags, mode)?;
        Ok(bytes::try_lock(&file, 0)?.then(|| Held::boxed(file)))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let file = open_regular(path, OFlags::RDONLY | OFlags::NOFOLLOW, 0)?;
        Ok(bytes::try_share(&file, 0)?.then(|| Held::boxed(file)))
    }

    fn aio(&self, choice: aio::Choice) -> Arc<dyn aio::Io> {
        aio::open(choice)
    }
}

/// A file with a lock on its first byte.
struct Held {
    file: OwnedFd,
    /// The process that took the lock.
    owner: Token,
}

impl Held {
    fn boxed(file: OwnedFd) -> Box<dyn Send + Sync> {
        Box::new(Self { file, owner: Token::of_this() })
    }
}

impl Drop for Held {
    /// A child after a fork shares the open file, and the lock with it: closing the file here would
    /// not end the lock as long as the child lives, and what the child drops must not end it.
    fn drop(&mut self) {
        if self.owner.is_of_this() {
            // If it cannot be unlocked, the lock goes with the last process that has the file.
            let _ = bytes::unlock(&self.file, 0);
        }
    }
}
