//! How the command ends: its exit codes, and failures with the message that a person gets.

use std::io;
use std::process::ExitCode;

use crate::tell::tell;

/// The exit codes, as the man page gives them.
pub(crate) const CODES: [(&str, &str); 6] = [
    ("0", "done"),
    (
        "1",
        "not found; the key of `put --new` is there already; `check` or `copy` found damage; \
         `salvage` or `convert --salvage` lost something, `dump --skip-damaged` left something \
         out; an answer of `demo` differs; a statement of `sql` failed",
    ),
    ("2", "wrong usage"),
    ("3", "the store or the system refused"),
    ("130", "interrupted (Ctrl-C); everything that was committed is kept"),
    (
        "141",
        "the reader of standard output (`| head`) left before the end, where the command stops",
    ),
];

/// The same for `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
    0  done
    1  not found; the key of `put --new` is there already; `check` or `copy` found damage;
       `salvage` or `convert --salvage` lost something, `dump --skip-damaged` left something
       out; an answer of `demo` differs; a statement of `sql` failed
    2  wrong usage
    3  the store or the system refused
  130  interrupted (Ctrl-C); everything that was committed is kept
  141  the reader of standard output (`| head`) left before the end, where the command stops";

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// The answer is no: not found, already there, damaged, different.
    No = 1,
    /// Wrong usage.
    Usage = 2,
    /// The store or the system refused.
    Failed = 3,
    /// Stopped by Ctrl-C.
    Interrupted = 130,
    /// Standard output was closed: as a shell shows a program that SIGPIPE ended.
    ClosedPipe = 141,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a subcommand stopped before its end.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments make no sense together or cannot be read.
    Usage(String),
    /// The store refused.
    Store(hedgerow::Error),
    /// The answer is no, and why.
    #[cfg(feature = "sql")]
    Refused(String),
    /// The system refused, or the input is not what it should be.
    Other(String),
    /// Ctrl-C, and what is worth saying about it.
    Interrupted(Option<String>),
    /// The reader of our standard output has closed it.
    ClosedPipe,
}

impl Failure {
    /// A [`Failure::Usage`].
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// A [`Failure::Other`].
    pub(crate) fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }

    /// A failed system call on a file: "could not {doing} {name}: ...", and what to do about it.
    pub(crate) fn io(doing: &str, name: impl std::fmt::Display, error: &io::Error) -> Self {
        let advice = match error.kind() {
            io::ErrorKind::StorageFull => "; make room there and try again",
            io::ErrorKind::FileTooLarge => {
                "; raise the limit on the size of files (ulimit -f) and try again"
            }
            _ => "",
        };
        Self::Other(format!("could not {doing} {name}: {error}{advice}"))
    }

    /// Adds a sentence to the message, if there is one to add to.
    pub(crate) fn and(self, sentence: &str) -> Self {
        match self {
            Self::Usage(message) => Self::Usage(format!("{message}\n{sentence}")),
            Self::Store(error) => Self::Other(format!("{error}\n{sentence}")),
            #[cfg(feature = "sql")]
            Self::Refused(message) => Self::Refused(format!("{message}\n{sentence}")),
            Self::Other(message) => Self::Other(format!("{message}\n{sentence}")),
            Self::Interrupted(_) => Self::Interrupted(Some(sentence.to_owned())),
            Self::ClosedPipe => Self::ClosedPipe,
        }
    }

    /// Tells the person on standard error and gives the exit code.
    pub(crate) fn report(self) -> Exit {
        match self {
            Self::Usage(message) => {
                tell!("error: {message}\nFor more information, try '--help'.");
                Exit::Usage
            }
            Self::Store(error) => {
                tell!("error: {error}");
                Exit::Failed
            }
            Self::Other(message) => {
                tell!("error: {message}");
                Exit::Failed
            }
            #[cfg(feature = "sql")]
            Self::Refused(message) => {
                tell!("error: {message}");
                Exit::No
            }
            Self::Interrupted(note) => {
                tell!("interrupted");
                if let Some(note) = note {
                    tell!("{note}");
                }
                Exit::Interrupted
            }
            Self::ClosedPipe => Exit::ClosedPipe,
        }
    }
}

impl From<hedgerow::Error> for Failure {
    fn from(error: hedgerow::Error) -> Self {
        match error {
            hedgerow::Error::Interrupted => Self::Interrupted(None),
            error => Self::Store(error),
        }
    }
}
