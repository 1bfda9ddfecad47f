//! Where results go: standard output or a file, buffered. A reader of our output who leaves early
//! (`| head`) is no error.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use crate::exit::Failure;

/// A buffered output. [`Output::finish`] must be called: what is still buffered when it is dropped
/// is written too, but its failure goes unheard.
pub(crate) struct Output {
    writer: BufWriter<Box<dyn Write>>,
    name: String,
    is_terminal: bool,
}

impl Output {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        let mut output = Self::new(Box::new(io::stdout()), "standard output".into());
        output.is_terminal = io::stdout().is_terminal();
        output
    }

    /// A file that is made or overwritten; `-` is standard output.
    pub(crate) fn to(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::stdout());
        }
        let file =
            File::create(path).map_err(|error| Failure::io("create", path.display(), &error))?;
        Ok(Self::new(Box::new(file), path.display().to_string()))
    }

    fn new(writer: Box<dyn Write>, name: String) -> Self {
        Self { writer: BufWriter::with_capacity(64 << 10, writer), name, is_terminal: false }
    }

    /// Whether a person sees it at once.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let result = self.writer.write_all(bytes);
        self.checked(result)
    }

    /// What `write!` and `writeln!` call.
    pub(crate) fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> Result<(), Failure> {
        let result = self.writer.write_fmt(arguments);
        self.checked(result)
    }

    /// Copies all of `reader`.
    pub(crate) fn copy(&mut self, reader: &mut dyn io::Read) -> Result<u64, Failure> {
        let result = io::copy(reader, &mut self.writer);
        self.checked(result)
    }

    /// Writes what is buffered.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        let result = self.writer.flush();
        self.checked(result)
    }

    fn checked<T>(&self, result: io::Result<T>) -> Result<T, Failure> {
        result.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::io("write to", &self.name, &error),
        })
    }
}
