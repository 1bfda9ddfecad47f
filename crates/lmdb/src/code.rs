//! Errors of the engine as codes of LMDB, their texts, and the last failure of a thread in full.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_int};

use hedgerow::Error;

use crate::abi::*;

/// A code other than 0, as a function of the interface returns it.
pub(crate) type Code = c_int;
/// The result of most functions.
pub(crate) type Answer<T = ()> = Result<T, Code>;

thread_local! {
    /// What [`last_error`] gives out.
    static LAST: RefCell<CString> = RefCell::default();
}

/// The code of an error. Its full text is kept for [`last_error`].
#[cold]
pub(crate) fn code_of(error: &Error) -> Code {
    note(&error.to_string());
    match error {
        Error::Io { source, .. } => source.raw_os_error().unwrap_or_else(|| code_of_kind(source)),
        Error::NotAStore { .. } => MDB_INVALID,
        Error::Unsupported { .. } => MDB_VERSION_MISMATCH,
        Error::Corrupt { .. } => MDB_CORRUPTED,
        Error::Locked { .. } => libc::EBUSY,
        Error::Path { .. } => libc::ENOENT,
        Error::ReadOnly => libc::EACCES,
        Error::StoreFull { .. } => MDB_MAP_FULL,
        Error::Poisoned { .. } => MDB_PANIC,
        Error::Interrupted => libc::EINTR,
        Error::NoTable { .. } => MDB_NOTFOUND,
        Error::TableExists { .. } | Error::NotLast => MDB_KEYEXIST,
        Error::TableOptions { .. } | Error::WrongTable { .. } => MDB_INCOMPATIBLE,
        Error::WrongTransaction | Error::CommitFailed { .. } => MDB_BAD_TXN,
        Error::Size { .. } => MDB_BAD_VALSIZE,
        Error::OutOfMemory => libc::ENOMEM,
        _ => libc::EINVAL,
    }
}

/// The code of a failure that the engine puts in words of its own.
fn code_of_kind(error: &std::io::Error) -> Code {
    match error.kind() {
        std::io::ErrorKind::NotFound => libc::ENOENT,
        std::io::ErrorKind::ResourceBusy => libc::EBUSY,
        _ => libc::EIO,
    }
}

/// Whether an error says only that an argument does not fit: the transaction is as it was.
pub(crate) fn is_harmless(error: &Error) -> bool {
    matches!(
        error,
        Error::Size { .. }
            | Error::NotLast
            | Error::TableOptions { .. }
            | Error::WrongTable { .. }
            | Error::NoTable { .. }
            | Error::TableExists { .. }
            | Error::Argument { .. }
    )
}

/// Keeps a text for [`last_error`].
pub(crate) fn note(text: &str) {
    let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
    // While the thread ends, no caller is left to ask.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// The text of this thread's newest failure, valid until its next one.
pub(crate) fn last_error() -> *const std::ffi::c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The text of one of LMDB's codes; `None` for those of the system.
pub(crate) fn text(code: Code) -> Option<&'static CStr> {
    Some(match code {
        0 => c"Successful return: 0",
        MDB_KEYEXIST => c"MDB_KEYEXIST: Key/data pair already exists",
        MDB_NOTFOUND => c"MDB_NOTFOUND: No matching key/data pair found",
        MDB_PAGE_NOTFOUND => c"MDB_PAGE_NOTFOUND: Requested page not found",
        MDB_CORRUPTED => c"MDB_CORRUPTED: Located page was wrong type",
        MDB_PANIC => c"MDB_PANIC: Update of meta page failed or environment had fatal error",
        MDB_VERSION_MISMATCH => c"MDB_VERSION_MISMATCH: Database environment version mismatch",
        MDB_INVALID => c"MDB_INVALID: File is not an LMDB file",
        MDB_MAP_FULL => c"MDB_MAP_FULL: Environment mapsize limit reached",
        MDB_DBS_FULL => c"MDB_DBS_FULL: Environment maxdbs limit reached",
        MDB_READERS_FULL => c"MDB_READERS_FULL: Environment maxreaders limit reached",
        MDB_TLS_FULL => {
            c"MDB_TLS_FULL: Thread-local storage keys full - too many environments open"
        }
        MDB_TXN_FULL => c"MDB_TXN_FULL: Transaction has too many dirty pages - transaction too big",
        MDB_CURSOR_FULL => c"MDB_CURSOR_FULL: Internal error - cursor stack limit reached",
        MDB_PAGE_FULL => c"MDB_PAGE_FULL: Internal error - page has no more space",
        MDB_MAP_RESIZED => c"MDB_MAP_RESIZED: Database contents grew beyond environment mapsize",
        MDB_INCOMPATIBLE => c"MDB_INCOMPATIBLE: Operation and DB incompatible, or DB flags changed",
        MDB_BAD_RSLOT => c"MDB_BAD_RSLOT: Invalid reuse of reader locktable slot",
        MDB_BAD_TXN => c"MDB_BAD_TXN: Transaction must abort, has a child, or is invalid",
        MDB_BAD_VALSIZE => {
            c"MDB_BAD_VALSIZE: Unsupported size of key/DB name/data, or wrong DUPFIXED size"
        }
        MDB_BAD_DBI => c"MDB_BAD_DBI: The specified DBI handle was closed/changed unexpectedly",
        MDB_PROBLEM => c"MDB_PROBLEM: Unexpected problem - txn should abort",
        _ => return None,
    })
}
