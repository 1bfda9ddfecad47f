//! The lock on a file that keeps a second opener out: other processes by a lock of the system, this
//! one by a list of names, since the system's lock does not hold within a process.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, fcntl_lock};

use crate::folder::FILE_MODE;
use crate::status::{Code, Result, Status, reason_of};

/// The names that this process has locked.
static HELD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(crate) struct FileLock {
    path: PathBuf,
    /// Some until it is dropped.
    file: Option<File>,
    /// The process that has the system's lock, which a child after a fork does not have.
    process: u32,
}

impl FileLock {
    /// Locks a file, which is made if it is not there.
    ///
    /// # Errors
    /// If it is locked already, or the system refuses.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        // The same file by another name must not be opened a second time: to close that one would
        // end the system's lock.
        let name = full(path);
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if held.contains(&name) {
            let message = format!("lock {}: already held by process", path.display());
            return Err(Status::new(Code::IoError, message));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(path).map_err(|error| Status::io(path, &error))?;
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| {
            let reason = reason_of(&io::Error::from(errno));
            Status::new(Code::IoError, format!("lock {}: {reason}", path.display()))
        })?;
        held.insert(name.clone());
        Ok(Self { path: name, file: Some(file), process: std::process::id() })
    }
}

/// The name of a file whose folder may have several.
fn full(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| match folder.as_os_str().is_empty() {
        true => Path::new(".").canonicalize().ok(),
        false => folder.canonicalize().ok(),
    });
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let mut held = match std::process::id() == self.process {
            true => Some(HELD.lock().unwrap_or_else(PoisonError::into_inner)),
            // Another thread of the parent may have had the list at the fork.
            false => HELD.try_lock().ok(),
        };
        // Closed before another thread can open it: closing ends every lock of the process on it.
        self.file = None;
        if let Some(held) = &mut held {
            held.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_the_lock_whatever_its_folder_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        let path = folder.path().join("LOCK");
        let lock = FileLock::take(&path).unwrap();
        for name in [&path, &link.join("LOCK")] {
            let refusal = FileLock::take(name).unwrap_err();
            let expected = format!("IO error: lock {}: already held by process", name.display());
            assert_eq!(refusal.to_string(), expected);
        }
        drop(lock);
        drop(FileLock::take(&path).unwrap());
        let missing = FileLock::take(&folder.path().join("none/LOCK")).unwrap_err();
        assert!(missing.message.ends_with("none/LOCK: No such file or directory"));
    }
}
