//! Where results go: standard output or a file, buffered. Where a reader of our output stops early
//! (`| head`), the command does, and only its exit code says so. A file appears under its name when
//! all of it is on stable storage, and never in place of a store, or of another file unless that
//! was asked for.

mod target;

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::exit::Failure;
use crate::signals;
use target::Target;

/// What is done if a file of that name exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It is left alone, and nothing is written.
    Keep,
    /// The new one takes its place, unless it belongs to a store.
    Replace,
}

/// The option of every subcommand that writes a file which is no store.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct ForceArg {
    /// Replace an existing file (never one of a store)
    #[arg(long)]
    force: bool,
}

impl ForceArg {
    /// What it says.
    pub(crate) fn existing(self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }
}

/// A buffered output. [`Output::finish`] must be called: a file that is not finished vanishes.
pub(crate) struct Output {
    writer: BufWriter<Box<dyn Write>>,
    name: String,
    is_terminal: bool,
    pending: Option<Pending>,
}

/// A file that is being written under a temporary name beside its own.
struct Pending {
    file: File,
    temporary: TempPath,
    path: PathBuf,
    existing: Existing,
    _left: signals::Left,
}

impl Output {
    /// Standard output.
    pub(crate) fn stdout() -> Self {
        let mut output = Self::new(Box::new(io::stdout()), "standard output".into());
        output.is_terminal = io::stdout().is_terminal();
        output
    }

    /// A new file; `-` is standard output.
    pub(crate) fn to(path: &Path, existing: Existing) -> Result<Self, Failure> {
        Self::try_to(path, existing).map_err(|error| Failure::io("write", path.display(), &error))
    }

    /// The same, with the system's error.
    pub(crate) fn try_to(path: &Path, existing: Existing) -> io::Result<Self> {
        match Target::of(path, existing)? {
            Target::Stdout => Ok(Self::stdout()),
            Target::Device => {
                // Opening a pipe waits for who reads it.
                let opened = signals::while_opening(|| File::options().write(true).open(path));
                let file = opened.map_err(|_| io::ErrorKind::Interrupted)??;
                Ok(Self::new(Box::new(file), path.display().to_string()))
            }
            Target::File { path, permissions } => {
                let (file, temporary) = target::create_beside(&path, permissions)?.into_parts();
                let mut output = Self::new(Box::new(file.try_clone()?), path.display().to_string());
                let _left = signals::Left::new(temporary.to_path_buf());
                output.pending = Some(Pending { file, temporary, path, existing, _left });
                Ok(output)
            }
        }
    }

    fn new(writer: Box<dyn Write>, name: String) -> Self {
        let writer = BufWriter::with_capacity(64 << 10, writer);
        Self { writer, name, is_terminal: false, pending: None }
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
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let result = self.writer.flush();
        self.checked(result)
    }

    /// Writes what is buffered, and gives a file its name.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        let mut result = self.writer.flush();
        if let Some(pending) = self.pending.take() {
            result = result.and_then(|()| pending.publish());
        }
        self.checked(result)
    }

    fn checked<T>(&self, result: io::Result<T>) -> Result<T, Failure> {
        result.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::io("write to", &self.name, &error),
        })
    }
}

impl Pending {
    fn publish(self) -> io::Result<()> {
        self.file.sync_all()?;
        let named = match self.existing {
            Existing::Keep => self.temporary.persist_noclobber(&self.path),
            Existing::Replace => self.temporary.persist(&self.path),
        };
        named.map_err(|refused| refused.error)?;
        File::open(target::folder(&self.path))?.sync_all()
    }
}
