//! How a failing tool ends, in the words of LMDB's tools: the call that failed, the code that
//! LMDB's interface gives for it, and its text.

use std::fmt::Display;
use std::path::Path;

use hedgerow::Error;

use crate::exit::Failure;

/// Why a tool ends with another exit code than 0, or early.
#[derive(Debug)]
pub(crate) enum Ending {
    /// It was asked for its version.
    Version,
    /// The arguments make no sense; what is wrong with them, where that can be said.
    Usage(Option<String>),
    /// This line is all there is to say.
    Said(String),
    /// The same, with the program's name in front.
    Complained(String),
    /// Nothing more is to be said.
    Silent,
}

impl Ending {
    /// An [`Ending::Usage`] with a complaint.
    pub(crate) fn usage(complaint: String) -> Self {
        Self::Usage(Some(complaint))
    }

    /// A file that could not be opened in place of standard input or output.
    pub(crate) fn reopen(path: &Path, error: &std::io::Error) -> Self {
        let text = Code::of_io(error).text;
        Self::Complained(format!("{}: reopen: {text}", path.display()))
    }

    /// A failed call of LMDB's interface, or what stands for it here.
    pub(crate) fn failed(call: &str, code: Code) -> Self {
        Self::Said(format!("{call} failed, error {} {}", code.number, code.text))
    }
}

impl From<Failure> for Ending {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Usage(message) | Failure::Other(message) => Self::Complained(message),
            #[cfg(feature = "sql")]
            Failure::Refused(message) => Self::Complained(message),
            Failure::Store(error) => Self::Complained(Code::of(&error).text),
            Failure::Interrupted(_) => Self::Complained("Interrupted system call".to_owned()),
            Failure::ClosedPipe => Self::Silent,
        }
    }
}

/// A code of LMDB's interface and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    pub(crate) number: i32,
    pub(crate) text: String,
}

/// Errors of the system that are given out without having come from it.
pub(crate) const EISDIR: i32 = 21;
const ENOENT: i32 = 2;
const EINTR: i32 = 4;
const ENOMEM: i32 = 12;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;

impl Code {
    /// No database of that name.
    pub(crate) fn not_found() -> Self {
        Self::lmdb(-30798, "MDB_NOTFOUND: No matching key/data pair found")
    }

    /// A key or value of a length that LMDB does not take.
    pub(crate) fn bad_size() -> Self {
        Self::lmdb(
            -30781,
            "MDB_BAD_VALSIZE: Unsupported size of key/DB name/data, or wrong DUPFIXED size",
        )
    }

    /// The file is there already.
    pub(crate) fn exists() -> Self {
        Self::system(EEXIST)
    }

    fn lmdb(number: i32, text: &str) -> Self {
        Self { number, text: text.to_owned() }
    }

    /// An error number of the system.
    pub(crate) fn system(number: i32) -> Self {
        Self::of_io(&std::io::Error::from_raw_os_error(number))
    }

    /// An error of the system.
    pub(crate) fn of_io(error: &std::io::Error) -> Self {
        // The store reports a missing folder in words of its own.
        if error.kind() == std::io::ErrorKind::NotFound && error.raw_os_error().is_none() {
            return Self::system(ENOENT);
        }
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default().to_owned();
        Self { number: error.raw_os_error().unwrap_or(5), text }
    }

    /// The code that our liblmdb gives for an error.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::Io { source, .. } => Self::of_io(source),
            Error::Path { .. } => Self::system(ENOENT),
            Error::Locked { .. } => Self::system(EBUSY),
            Error::ReadOnly => Self::system(EACCES),
            Error::Interrupted => Self::system(EINTR),
            Error::OutOfMemory => Self::system(ENOMEM),
            Error::NoTable { .. } => Self::not_found(),
            Error::Size { .. } => Self::bad_size(),
            // What follows the name of the code says more than LMDB's own text would.
            Error::NotAStore { .. } => Self::told(-30793, "MDB_INVALID", error),
            Error::Unsupported { .. } => Self::told(-30794, "MDB_VERSION_MISMATCH", error),
            Error::Corrupt { .. } => Self::told(-30796, "MDB_CORRUPTED", error),
            Error::Poisoned { .. } => Self::told(-30795, "MDB_PANIC", error),
            Error::StoreFull { .. } => Self::told(-30792, "MDB_MAP_FULL", error),
            Error::TableOptions { .. } | Error::WrongTable { .. } => {
                Self::told(-30784, "MDB_INCOMPATIBLE", error)
            }
            Error::CommitFailed { .. } => Self::told(-30782, "MDB_BAD_TXN", error),
            other => Self { number: EINVAL, text: other.to_string() },
        }
    }

    fn told(number: i32, name: &str, error: &dyn Display) -> Self {
        Self { number, text: format!("{name}: {error}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_system_stand_without_their_number() {
        let code = Code::system(ENOENT);
        assert_eq!((code.number, code.text.as_str()), (2, "No such file or directory"));
    }
}
