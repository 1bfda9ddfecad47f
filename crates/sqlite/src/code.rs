//! Errors as SQLite's codes.

use std::ffi::c_int;
use std::io::ErrorKind;

use hedgerow::Error;
use libsqlite3_sys as sys;

/// A code of SQLite's other than `SQLITE_OK`.
pub(crate) type Code = c_int;

/// What the calls of this crate give.
pub(crate) type Answer<T = ()> = Result<T, Code>;

/// The code of an error.
pub(crate) fn code_of(error: &Error) -> Code {
    match error {
        Error::Io { source, .. } => match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => sys::SQLITE_FULL,
            ErrorKind::NotFound => sys::SQLITE_CANTOPEN,
            ErrorKind::PermissionDenied => sys::SQLITE_CANTOPEN,
            ErrorKind::OutOfMemory => sys::SQLITE_NOMEM,
            _ => sys::SQLITE_IOERR,
        },
        Error::NotAStore { .. } | Error::Unsupported { .. } => sys::SQLITE_NOTADB,
        Error::Corrupt { .. } | Error::NoTable { .. } => sys::SQLITE_CORRUPT,
        Error::Locked { .. } => sys::SQLITE_BUSY,
        Error::Path { .. } => sys::SQLITE_CANTOPEN,
        Error::ReadOnly => sys::SQLITE_READONLY,
        Error::StoreFull { .. } => sys::SQLITE_FULL,
        Error::Interrupted => sys::SQLITE_INTERRUPT,
        Error::Size { .. } => sys::SQLITE_TOOBIG,
        Error::OutOfMemory => sys::SQLITE_NOMEM,
        Error::Poisoned { .. } | Error::CommitFailed { .. } => sys::SQLITE_IOERR,
        _ => sys::SQLITE_INTERNAL,
    }
}
