//! Where input comes from: standard input or a file. Waiting for standard input ends at Ctrl-C.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::exit::Failure;
use crate::signals;

/// An input that counts what was read of it.
pub(crate) struct Input {
    reader: Box<dyn Read>,
    done: Arc<AtomicU64>,
    /// What messages call it.
    pub(crate) name: String,
    /// Its length in bytes, where that is known.
    pub(crate) length: Option<u64>,
    /// It once more, if it is a regular file.
    #[cfg(feature = "columns")]
    pub(crate) regular: Option<File>,
}

impl Input {
    /// Opens a file; `-` is standard input.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        // Opening a pipe waits for who writes to it.
        let opened = signals::while_opening(|| Self::try_open(path))?;
        opened.map_err(|error| Failure::io("open", path.display(), &error))
    }

    /// The same, with the system's error.
    pub(crate) fn try_open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            let name = "standard input".to_owned();
            return Ok(Self::new(Box::new(Stdin), name, None));
        }
        let file = File::open(path)?;
        let meta = file.metadata()?;
        let name = path.display().to_string();
        Ok(match meta.is_file() {
            true => {
                #[cfg(feature = "columns")]
                let regular = Some(file.try_clone()?);
                let input = Self::new(Box::new(file), name, Some(meta.len()));
                #[cfg(feature = "columns")]
                let input = Self { regular, ..input };
                input
            }
            false => Self::new(Box::new(Waited(file)), name, None),
        })
    }

    fn new(reader: Box<dyn Read>, name: String, length: Option<u64>) -> Self {
        Self {
            reader,
            done: Arc::default(),
            name,
            length,
            #[cfg(feature = "columns")]
            regular: None,
        }
    }

    /// A counter of the bytes that were read, which may outlive the input's being lent to a parser.
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.done.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Reads all of standard input.
pub(crate) fn read_stdin() -> Result<Vec<u8>, Failure> {
    let mut all = Vec::new();
    let result = Stdin.read_to_end(&mut all);
    signals::check()?;
    result.map_err(|error| Failure::io("read", "standard input", &error))?;
    Ok(all)
}

/// Whether the process was begun without a standard input. Rust puts the null device in its place,
/// open for reading and writing; who means that one opens it for reading.
pub(crate) fn was_closed() -> bool {
    use rustix::fs::{OFlags, fcntl_getfl, fstat, stat};

    let stdin = io::stdin();
    let is_null = fstat(&stdin).is_ok_and(|input| {
        stat("/dev/null")
            .is_ok_and(|null| (input.st_rdev, input.st_ino) == (null.st_rdev, null.st_ino))
    });
    is_null && fcntl_getfl(&stdin).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR)
}

/// Standard input that gives up waiting once the command was asked to stop.
struct Stdin;

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        wait_for(&io::stdin())?;
        io::stdin().lock().read(buffer)
    }
}

/// A pipe, or the like, likewise.
struct Waited(File);

impl Read for Waited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        wait_for(&self.0)?;
        self.0.read(buffer)
    }
}

/// A blocked `read` is resumed by the system after a signal, so we wait in short steps beside the
/// flag instead.
fn wait_for(input: &impl std::os::fd::AsFd) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let step = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    loop {
        if signals::is_raised() {
            return Err(io::Error::other("interrupted"));
        }
        let mut waiting = [PollFd::new(input, PollFlags::IN)];
        match poll(&mut waiting, Some(&step)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
