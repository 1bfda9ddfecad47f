//! A new file that is written from its beginning to its end.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};

use rustix::process::{Resource, getrlimit};

/// How many bytes are gathered before they are written.
const BUFFER_BYTES: usize = 1 << 18;

/// The file.
pub(crate) struct Appender {
    file: BufWriter<File>,
    at: u64,
    /// The longest file that the process may write: beyond it the system would end it by a signal.
    most: u64,
}

impl Appender {
    /// Over an empty file.
    pub(crate) fn new(file: File) -> Self {
        let most = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        Self { file: BufWriter::with_capacity(BUFFER_BYTES, file), at: 0, most }
    }

    /// How long the file is by now.
    pub(crate) fn bytes(&self) -> u64 {
        self.at
    }

    /// Adds bytes at its end.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.at + bytes.len() as u64;
        if end > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.file.write_all(bytes)?;
        self.at = end;
        Ok(())
    }

    /// The file, with all that was added.
    pub(crate) fn finish(self) -> io::Result<File> {
        self.file.into_inner().map_err(io::IntoInnerError::into_error)
    }
}
