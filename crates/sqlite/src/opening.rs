//! Which store a connection gets, and how it is opened.

use std::ffi::c_int;
use std::fs::File;
use std::path::Path;

use hedgerow::tree::Store;
use hedgerow::{Error, FileKind};
use libsqlite3_sys as sys;

use crate::code::{Answer, Code, code_of};

/// What is asked for: an existing store, or a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    ReadOnly,
    Write,
    Create,
    /// A new one, and none that is there.
    New,
}

impl Mode {
    /// What C asks for: 0 is to read only, 1 to write, 2 to create it if there is none, 3 to make
    /// one where there is none.
    pub(crate) fn of(mode: c_int) -> Self {
        match mode {
            0 => Self::ReadOnly,
            1 => Self::Write,
            2 => Self::Create,
            _ => Self::New,
        }
    }
}

/// What a file is, so far as the choice of an engine goes: nothing yet, a store, something else.
pub(crate) fn kind_of(path: &Path) -> Option<FileKind> {
    hedgerow::identify(path).ok().flatten()
}

/// Opens a store. All connections of a process share it, those that only read and those that
/// write, in whatever order they come: so it is opened for writing wherever that is possible, and C
/// lets no connection write that may not.
///
/// # Errors
/// `SQLITE_CANTOPEN` also if it is to be written to and only may be read, and if no more files may
/// be open.
pub(crate) fn open_store(path: &Path, mode: Mode) -> Answer<Store> {
    let builder = Store::builder().file_mode(0o644);
    #[cfg(test)]
    let builder = crate::power::on_disk(builder);
    // The program may have opened the store by itself, in its own way.
    let opened = match mode {
        Mode::ReadOnly => {
            builder.open_shared(path).or_else(|_| builder.read_only(true).open_shared(path))
        }
        Mode::Write => builder.open_shared(path),
        Mode::Create => match path.exists() {
            true => builder.open_shared(path).or_else(|_| builder.open_or_create(path)),
            false => builder.open_or_create(path),
        },
        Mode::New => builder.create(path),
    };
    opened.map_err(|error| code_of_opening(&error, path))
}

/// The code of an error of opening.
fn code_of_opening(error: &Error, path: &Path) -> Code {
    match error {
        Error::Locked { .. } if !is_writable(path) => sys::SQLITE_CANTOPEN,
        Error::Io { source, .. } if is_out_of_files(source) => sys::SQLITE_CANTOPEN,
        error => code_of(error),
    }
}

/// Whether this process, or the system, has as many files open as it may.
fn is_out_of_files(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Whether this process may write to a file.
fn is_writable(path: &Path) -> bool {
    File::options().append(true).open(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_finds_no_room_among_the_open_files_cannot_be_opened() {
        let refused = |code: i32| {
            let source = std::io::Error::from_raw_os_error(code);
            let error = Error::Io { doing: "open", path: "x".into(), source };
            code_of_opening(&error, Path::new("x"))
        };
        assert_eq!(refused(libc::EMFILE), sys::SQLITE_CANTOPEN);
        assert_eq!(refused(libc::ENFILE), sys::SQLITE_CANTOPEN);
        assert_eq!(refused(libc::EIO), sys::SQLITE_IOERR);
    }
}
