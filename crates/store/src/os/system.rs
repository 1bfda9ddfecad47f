//! The system as the engines see it: how files are opened, named and locked.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::aio;
use super::file::DataFile;
use super::lock::SharedLock;

/// How files are found, made and locked: the real system, or a simulated disk.
pub trait System: Send + Sync {
    /// Opens (or with `create`, makes: fails if it exists) a data file. `mode` are the permission
    /// bits of a new file.
    fn open_data(&self, path: &Path, how: Open, mode: u32) -> io::Result<Arc<dyn DataFile>>;
    /// Opens or makes the lock file beside it and joins the processes that share it.
    fn open_lock(
        &self,
        path: &Path,
        read_only: bool,
        rights: Rights<'_>,
    ) -> io::Result<Arc<SharedLock>>;
    /// Removes the lock file, whose users go on with it, if `is_gone` says that their data file is
    /// no longer there; nobody opens it meanwhile. False if it stays.
    fn discard_lock(&self, path: &Path, is_gone: &dyn Fn() -> bool) -> io::Result<bool> {
        let _ = (path, is_gone);
        Ok(false)
    }
    /// Flushes the directory that holds `path`, so that a new file's name is on stable storage.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Renames a file over another one, atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name, on the same file system; fails if there is a file of that name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes a directory whose parent exists; fails if there is one of that name.
    fn create_directory(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// The names of what is in a directory, in no particular order.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;
    /// Opens or makes a file and locks it for this opener alone, until the answer is dropped or the
    /// process dies. `None` if another opener has it, in this process or another one.
    fn lock_exclusive(&self, path: &Path, mode: u32) -> io::Result<Option<Box<dyn Send + Sync>>>;
    /// Locks an existing file, shared with other openers that do the same, until the answer is
    /// dropped or the process dies. `None` if it is locked exclusively. Writes nothing, and needs
    /// no right to write.
    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>>;
    /// How many bytes this process may still write to the file system of a file or directory, if
    /// that is known.
    fn free_bytes(&self, path: &Path) -> Option<u64> {
        let _ = path;
        None
    }
    /// Where queues of reads and writes of its files come from. Unless a system has better ones
    /// they are served in order, in the calling thread.
    fn aio(&self, choice: aio::Choice) -> Arc<dyn aio::Io> {
        let _ = choice;
        Arc::new(aio::InOrder)
    }
    /// Whether a thread may flush soon after a commit that was not flushed. If not, a flush happens
    /// only when a caller asks for it.
    fn flushes_in_background(&self) -> bool {
        true
    }
    /// Whether files here end with the process, so that copies of a store go to the real system.
    fn is_memory(&self) -> bool {
        false
    }
    /// Random bits.
    fn random(&self) -> u64 {
        random()
    }
    /// The time that files note.
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// Who may do what with a lock file that is made.
#[derive(Clone, Copy)]
pub enum Rights<'f> {
    /// Permission bits, less what the process' mask takes.
    Mode(u32),
    /// Those who may with this data file. A lock file that is there gets the rights that it lacks,
    /// if this process may give them.
    Like(&'f dyn DataFile),
}

/// How to open a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// For reading and writing; it must not exist.
    Create,
}

/// Random bits; the standard library seeds its hash maps from the system's source.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
