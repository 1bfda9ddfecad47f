//! What is at the path where output is to go, and whether it may be replaced.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use hedgerow::tree::Paths;
use hedgerow::{FileKind, identify};
use tempfile::NamedTempFile;

use super::Existing;

/// Where output may go.
pub(super) enum Target {
    Stdout,
    /// A terminal, a pipe, or the like: it is written to as it is.
    Device,
    /// A file, links followed; with the permissions of the one that it will replace.
    File {
        path: PathBuf,
        permissions: Option<Permissions>,
    },
}

impl Target {
    /// Looks at the path. Whatever belongs to a store is refused.
    pub(super) fn of(path: &Path, existing: Existing) -> io::Result<Self> {
        if [Path::new("-"), Path::new("/dev/stdout")].contains(&path) {
            return Ok(Self::Stdout);
        }
        if let Some(store) = store_around(path) {
            return Err(refused(format!(
                "it would lie among the files of the store {}; choose another path",
                store.display()
            )));
        }
        let meta = match fs::metadata(path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::absent(path),
            Err(error) => return Err(error),
        };
        if meta.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
        }
        if is_stream(&meta) {
            return Ok(Self::Device);
        }
        let path = fs::canonicalize(path)?;
        if let Some(what) = of_store(&path)? {
            return Err(refused(format!("it is {what}; choose another path")));
        }
        match existing {
            Existing::Replace if meta.is_file() => {
                Ok(Self::File { path, permissions: Some(meta.permissions()) })
            }
            Existing::Replace => Ok(Self::Device),
            Existing::Keep => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "it exists already; choose another path, or replace it with --force",
            )),
        }
    }

    /// Nothing is there, or a link that leads nowhere.
    fn absent(path: &Path) -> io::Result<Self> {
        if path.is_symlink() {
            return Err(refused("it is a link that leads nowhere; remove it first".to_owned()));
        }
        fs::metadata(folder(path))?;
        Ok(Self::File { path: path.to_path_buf(), permissions: None })
    }
}

fn refused(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, reason)
}

/// The folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// A file under an unguessable name, beside the one that it will become.
pub(super) fn create_beside(
    path: &Path,
    permissions: Option<Permissions>,
) -> io::Result<NamedTempFile> {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part");
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder.tempfile_in(folder(path))?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    Ok(file)
}

/// The store of the engine lsm in whose directory a file would lie: it takes what lies there for
/// its own.
fn store_around(path: &Path) -> Option<&Path> {
    let folder = folder(path);
    let is_part = |name: &OsStr| {
        let name = Path::new(name);
        let is_wanted = name.extension().is_none_or(|kind| kind == "table" || kind == "log");
        is_wanted && matches!(identify(folder.join(name)), Ok(Some(FileKind::Lsm)))
    };
    let mut names = folder.read_dir().ok()?.flatten().map(|entry| entry.file_name());
    names.any(|name| is_part(&name)).then_some(folder)
}

/// What of a store a file is, by its content or by its place.
fn of_store(path: &Path) -> io::Result<Option<&'static str>> {
    if let Some(kind) = identify(path)? {
        return Ok(Some(match kind {
            FileKind::Tree => "a store",
            FileKind::Lock => "the lock file of a store",
            FileKind::Lmdb => "a database of LMDB",
            _ => "a file of a store",
        }));
    }
    Ok(is_lock_of_store(path).then_some("the lock file of a store"))
}

/// A lock file may be empty if no process has the store open.
fn is_lock_of_store(path: &Path) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    let is_beside =
        |data: &Path| Paths::of(data).lock == *path && matches!(identify(data), Ok(Some(_)));
    let plain = name.strip_suffix(b"-lock").and_then(|data| str::from_utf8(data).ok());
    let folder = folder(path);
    plain.is_some_and(|data| is_beside(Path::new(data)))
        || ["data.hdg", "data.mdb"].iter().any(|data| is_beside(&folder.join(data)))
}

/// Whether it is written to as it comes: a terminal, a pipe, a socket, the null device.
fn is_stream(meta: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = meta.file_type();
    kind.is_char_device() || kind.is_fifo() || kind.is_socket()
}
