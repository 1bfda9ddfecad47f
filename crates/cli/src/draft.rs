//! A new store that appears under its name when it is complete. Until then it has another name
//! beside it, and it is removed if it never gets complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use hedgerow::tree::{Builder, Paths, Store};
use hedgerow::{FileKind, identify};

use crate::exit::Failure;
use crate::open;
use crate::signals::Left;

/// A store that is being made.
pub(crate) struct Draft {
    /// Where it is made: a file, or the directory of a store of the engine lsm.
    path: PathBuf,
    wanted: PathBuf,
    _left: [Left; 2],
}

impl Draft {
    /// For a store that will be at `to`, where a folder holds its data file.
    pub(crate) fn tree(to: &Path) -> Result<Self, Failure> {
        Self::beside(free_file(to)?)
    }

    /// For the directory of a store of the engine lsm, which does not exist or is empty.
    pub(crate) fn lsm(to: &Path) -> Result<Self, Failure> {
        check_vacant(to)?;
        Self::beside(to.to_path_buf())
    }

    fn beside(wanted: PathBuf) -> Result<Self, Failure> {
        let mut path = wanted.clone().into_os_string();
        path.push(format!(".{}.part", std::process::id()));
        let path = PathBuf::from(path);
        let _left = [Left::new(path.clone()), Left::new(Paths::of(&path).lock)];
        Ok(Self { path, wanted, _left })
    }

    /// Where it is made.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name. It must not be open.
    pub(crate) fn publish(self) -> Result<(), Failure> {
        let refused = |error| Failure::io("give a name to", self.wanted.display(), &error);
        if !self.wanted.is_dir() && !is_free(&self.wanted) {
            return Err(refused(io::ErrorKind::AlreadyExists.into()));
        }
        fs::rename(&self.path, &self.wanted).map_err(refused)?;
        let folder = self.wanted.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new(".")));
        folder.and_then(|folder| folder.sync_all()).map_err(refused)
    }
}

impl Drop for Draft {
    /// What cannot be removed is left: the user is told of the first failure only.
    fn drop(&mut self) {
        match self.path.is_dir() {
            true => drop(fs::remove_dir_all(&self.path)),
            false => remove_tree(&self.path),
        }
    }
}

/// The data file of a store that will be at `to`, if it can be made there.
pub(crate) fn free_file(to: &Path) -> Result<PathBuf, Failure> {
    let Paths { data, lock } = Paths::of(to);
    if !is_free(&data) {
        return Err(exists(&data, "it exists already; choose another path"));
    }
    let is_lock = || matches!(identify(&lock), Ok(Some(FileKind::Lock | FileKind::Lmdb)));
    if !is_free(&lock) && !is_lock() {
        return Err(exists(&lock, "it is in the way of the store's lock file"));
    }
    Ok(data)
}

/// Whether a directory can be made at a path: nothing is there, or an empty folder.
pub(crate) fn check_vacant(path: &Path) -> Result<(), Failure> {
    let is_vacant = match path.read_dir() {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if is_vacant {
        return Ok(());
    }
    Err(exists(path, "there is a file, or a folder that is not empty, already"))
}

/// Whether a file can be made at a path: nothing is there, or an empty file.
fn is_free(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(meta) => meta.is_file() && meta.len() == 0,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn exists(path: &Path, reason: &'static str) -> Failure {
    hedgerow::Error::Path { path: path.to_path_buf(), reason }.into()
}

/// Removes a store that is not open.
pub(crate) fn remove_tree(data: &Path) {
    let paths = Paths::of(data);
    for path in [paths.data, paths.lock] {
        let _ = fs::remove_file(path);
    }
}

/// Creates the store of a draft.
pub(crate) fn create(draft: &Draft) -> Result<Store, Failure> {
    open::create(Builder::new(), draft.path())
}
