//! Errors as LevelDB says them: a code and a message, which begins with the code's name.

use std::fmt;
use std::io;
use std::path::Path;

use hedgerow::Error;

pub(crate) type Result<T, E = Status> = std::result::Result<T, E>;

/// The kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// A file is not there; that a key is not there is no error here.
    NotFound,
    Corruption,
    NotSupported,
    InvalidArgument,
    IoError,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Status {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn corruption(message: impl Into<String>) -> Self {
        Self::new(Code::Corruption, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// A failure of the system at a file, worded as LevelDB words it.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        let code = if is_missing { Code::NotFound } else { Code::IoError };
        Self::new(code, format!("{}: {}", path.display(), reason_of(error)))
    }
}

/// The system's text for an error, without the number that Rust adds.
pub(crate) fn reason_of(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error") {
        Some(end) if error.raw_os_error().is_some() => text[..end].to_owned(),
        _ => text,
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.code {
            Code::NotFound => "NotFound",
            Code::Corruption => "Corruption",
            Code::NotSupported => "Not implemented",
            Code::InvalidArgument => "Invalid argument",
            Code::IoError => "IO error",
        };
        write!(f, "{kind}: {}", self.message)
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Corrupt { .. } | Error::NotAStore { .. } => Code::Corruption,
            Error::Unsupported { .. } => Code::NotSupported,
            Error::Size { .. } | Error::Argument { .. } | Error::TableOptions { .. } => {
                Code::InvalidArgument
            }
            _ => Code::IoError,
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_begin_as_those_of_leveldb_do() {
        let missing = io::Error::from_raw_os_error(2);
        let status = Status::io(Path::new("/a/LOCK"), &missing);
        assert_eq!(status.to_string(), "NotFound: /a/LOCK: No such file or directory");
        let text = Status::corruption("bad").to_string();
        assert_eq!(text, "Corruption: bad");
        let long = Status::from(Error::Size { what: "key", len: 70_000, min: 0, max: 65_535 });
        assert_eq!(long.code, Code::InvalidArgument);
    }
}
