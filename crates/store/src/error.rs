//! The one error type of the library: what went wrong, where, and what to do next.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A result of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong. Every message says what went wrong and where; no error means that data was
/// lost.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file.
    Io {
        /// What was being done, for example "write pages to".
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's own error.
        source: io::Error,
    },
    /// The file is not a Hedgerow store (it may be a text file, an LMDB file, or empty).
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What was found instead, and what to do.
        reason: String,
    },
    /// The file was written by a version or with features that this build does not know.
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Which version or feature.
        reason: String,
    },
    /// A part of a file does not hold what its checksum or its structure says it must.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Which part of it.
        place: Place,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The store is open elsewhere in a way that excludes this one.
    Locked {
        /// The lock file or store.
        path: PathBuf,
        /// Which process uses it, and in which way.
        reason: String,
    },
    /// A path that should be created exists already, or one that should be opened does not.
    Path {
        /// The path.
        path: PathBuf,
        /// Which of the two.
        reason: &'static str,
    },
    /// The store was opened read-only, or the transaction is.
    ReadOnly,
    /// The store reached the maximum size it was given, or the end of the address space that this
    /// process has for it ([`Builder::map`](crate::tree::Builder::map)).
    StoreFull {
        /// The limit in bytes.
        max_size: u64,
    },
    /// A write or a flush failed earlier; nothing more is written until the store is opened anew.
    Poisoned {
        /// The first failure.
        reason: String,
    },
    /// The flag of [`Interrupt`](crate::tree::Interrupt) was raised.
    Interrupted,
    /// No such table or keyspace, or it was dropped.
    NoTable {
        /// Its name.
        name: Vec<u8>,
    },
    /// What a [`Follow`](crate::stream::Follow) was to go on from is not kept any more: between it
    /// and what is kept there would be a gap. Begin anew from the store as it is.
    TooOld {
        /// The commit to go on from.
        commit: u64,
        /// The oldest commit from which one can go on.
        oldest: u64,
    },
    /// Something that an optimistic transaction read or wrote was changed by another commit since
    /// the transaction began. Nothing of it was written; begin it anew.
    Conflict,
    /// A table of that name exists already.
    TableExists {
        /// Its name.
        name: Vec<u8>,
    },
    /// The table was created with other options than the ones asked for.
    TableOptions {
        /// The table's name.
        name: Vec<u8>,
        /// Which option differs, and how.
        reason: String,
    },
    /// The operation does not fit the kind of table, for example a pair of a table without
    /// duplicates.
    WrongTable {
        /// Why.
        reason: Cow<'static, str>,
    },
    /// A handle or cursor of another transaction, or of one that was reset.
    WrongTransaction,
    /// A key or value is longer than the table takes, or not of its fixed size.
    Size {
        /// "key" or "value".
        what: &'static str,
        /// Its length in bytes.
        len: u64,
        /// The smallest length that is taken.
        min: u64,
        /// The largest length that is taken.
        max: u64,
    },
    /// An appended key (or pair) does not come after the last one.
    NotLast,
    /// A [`Sink`](crate::stream::Sink) rejected a pair, or takes no more.
    Rejected {
        /// The pair's key.
        key: Vec<u8>,
    },
    /// An argument that makes no sense.
    Argument {
        /// What is wrong with it.
        reason: String,
    },
    /// Memory could not be had.
    OutOfMemory,
    /// The group of commits that this one was part of could not be written.
    CommitFailed {
        /// The first failure.
        reason: String,
    },
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A page, counted from 0 in units of the page size.
    Page(u64),
    /// The file from this byte on.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Page(page) => write!(f, " at page {page}"),
            Self::Byte(offset) => write!(f, " at byte {offset}"),
        }
    }
}

impl Error {
    /// Wraps a system error with what was being done to which file.
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { doing, path: path.to_path_buf(), source }
    }

    /// An [`Error::Corrupt`] from some byte on.
    pub(crate) fn corrupt_at(path: &Path, offset: u64, reason: &'static str) -> Self {
        Self::Corrupt { path: path.to_path_buf(), place: Place::Byte(offset), reason }
    }

    /// A read of bytes that a sound file has failed: damage, where the file ends before them.
    pub(crate) fn read(path: &Path, offset: u64, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                Self::corrupt_at(path, offset, "the file ends before it")
            }
            _ => Self::io("read", path, source),
        }
    }

    /// An [`Error::Argument`].
    pub(crate) fn argument(reason: impl Into<String>) -> Self {
        Self::Argument { reason: reason.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, path, source } => {
                write!(f, "could not {doing} {}: {source}", path.display())?;
                advice(source.kind()).map_or(Ok(()), |advice| write!(f, "; {advice}"))
            }
            Self::NotAStore { path, reason } => {
                write!(f, "{} is not a Hedgerow store: {reason}", path.display())
            }
            Self::Unsupported { path, reason } => {
                write!(f, "{} cannot be opened by this version: {reason}", path.display())
            }
            Self::Corrupt { path, place, reason } => {
                write!(f, "{} is damaged{place}: {reason}", path.display())?;
                f.write_str(match place {
                    Place::File => "",
                    Place::Page(_) => "; `hedgerow check` lists all damage",
                    Place::Byte(_) => "; `hedgerow salvage` brings over what can still be read",
                })
            }
            Self::Locked { path, reason } => write!(f, "{} is locked: {reason}", path.display()),
            Self::Path { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::ReadOnly => f.write_str("the store is open for reading only"),
            Self::StoreFull { max_size } => {
                write!(f, "the store has reached its maximum size of {max_size} bytes")
            }
            Self::Poisoned { reason } => write!(
                f,
                "an earlier write failed ({reason}); close the store and open it again to go on"
            ),
            Self::Interrupted => f.write_str("interrupted"),
            Self::NoTable { name } => write!(f, "there is no table {}", Name(name)),
            Self::TooOld { commit, oldest } => write!(
                f,
                "what changed since commit {commit} is not known any more, only since commit \
                 {oldest}; begin anew from the store as it is"
            ),
            Self::Conflict => f.write_str(
                "the transaction conflicts with a commit that was made since it began; nothing of \
                 it was written: begin it anew",
            ),
            Self::TableExists { name } => write!(f, "a table {} exists already", Name(name)),
            Self::TableOptions { name, reason } => {
                write!(f, "table {} has other options: {reason}", Name(name))
            }
            Self::WrongTable { reason } => write!(f, "wrong kind of table: {reason}"),
            Self::WrongTransaction => {
                f.write_str("a table handle or cursor of another transaction was used")
            }
            Self::Size { what, len, min, max } => {
                write!(f, "a {what} of {len} bytes was given; the table takes {min} to {max}")
            }
            Self::NotLast => f.write_str("an appended entry must come after the last one"),
            Self::Rejected { key } => write!(f, "the pair of the key {} was not taken", Name(key)),
            Self::Argument { reason } => f.write_str(reason),
            Self::OutOfMemory => f.write_str("out of memory"),
            Self::CommitFailed { reason } => write!(f, "the commit failed: {reason}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The message has the system's own already: with it, a report of the whole chain would
            // say it twice.
            Self::Io { source, .. } => source.source(),
            _ => None,
        }
    }
}

/// What to do about a failure of the system that does not say it by itself.
fn advice(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("nothing that was committed is lost; make room there and try again")
        }
        io::ErrorKind::FileTooLarge => Some(
            "nothing that was committed is lost; raise the limit on the size of files \
             (ulimit -f) and try again",
        ),
        io::ErrorKind::ReadOnlyFilesystem => {
            Some("a store there can only be opened for reading; write a copy of it elsewhere")
        }
        _ => None,
    }
}

/// A table's name as a person reads it.
struct Name<'a>(&'a [u8]);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
