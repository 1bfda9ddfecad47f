//! Waiting for other processes: for the turn to write, and for a store that only one process may
//! have open. Says after a while which process is being waited for, and gives up after `--timeout`.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hedgerow::tree::{Store, WriteTxn};
use hedgerow::{Error, Result as StoreResult};

use crate::exit::Failure;
use crate::signals;
use crate::tell::tell;

/// After this long the user is told what is being waited for.
const SILENCE: Duration = Duration::from_secs(1);

/// How long to wait before trying again to open a store that others have open.
const ROUND: Duration = Duration::from_millis(20);

/// How long a process that was killed may take to be gone.
const LEAVING: Duration = Duration::from_secs(3);

/// How long this run of the command waits; for ever if nothing was said.
static TIMEOUT: OnceLock<Duration> = OnceLock::new();

/// Sets how long this run of the command waits.
pub(crate) fn set_timeout(timeout: Option<Duration>) {
    if let Some(timeout) = timeout {
        let _ = TIMEOUT.set(timeout);
    }
}

/// How long this run of the command waits, if something was said.
#[cfg(feature = "sql")]
pub(crate) fn timeout() -> Option<Duration> {
    TIMEOUT.get().copied()
}

/// Reads a time in seconds.
pub(crate) fn parse_seconds(written: &str) -> Result<Duration, String> {
    let seconds = written.strip_suffix('s').unwrap_or(written).parse().ok();
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| "a number of seconds, such as 5 or 0.5".to_owned())
}

/// In how many rounds this run of the command waits for its turn to write; for ever if nothing was
/// said.
fn rounds() -> Option<u32> {
    TIMEOUT.get().map(|timeout| timeout.div_duration_f64(SILENCE).ceil().max(1.0) as u32)
}

/// How long such a round takes.
pub(crate) fn round() -> Duration {
    match (TIMEOUT.get(), rounds()) {
        (Some(timeout), Some(rounds)) => *timeout / rounds,
        _ => SILENCE,
    }
}

/// Makes a call that waits for its turn to write for a round, until it had it: it answers `None` if
/// it had not. `writer` is whom it waits for.
fn until<T>(
    writer: impl Fn() -> Option<u32>,
    mut call: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let mut waited = 0_u32;
    loop {
        if let Some(answer) = call()? {
            return Ok(answer);
        }
        waited = waited.saturating_add(1);
        let writer = name(writer());
        if rounds().is_some_and(|rounds| waited >= rounds) {
            let waited = (waited * round()).as_secs_f64();
            return Err(Failure::other(format!(
                "{writer} writes to the store; gave up after {waited:.1} s (--timeout)"
            )));
        }
        if waited == 1 {
            tell!("waiting for {writer}, which writes to the store");
        }
    }
}

/// Begins a write transaction.
pub(crate) fn begin_write(store: &Store) -> Result<WriteTxn, Failure> {
    until(|| store.writer(), || Ok(store.begin_write_within(round())?))
}

/// Makes a call that may write, and waits for its turn for a [`round`], until it had it.
pub(crate) fn writing<T>(
    writer: impl Fn() -> Option<u32>,
    mut call: impl FnMut() -> StoreResult<T>,
) -> Result<T, Failure> {
    until(writer, || match call() {
        Err(Error::Locked { .. }) => Ok(None),
        answer => Ok(Some(answer?)),
    })
}

/// Opens a log-structured store, which one process has open at a time, or several that read: with
/// `--timeout` waits until the others have closed it.
pub(crate) fn opening<T>(path: &Path, open: impl Fn() -> StoreResult<T>) -> Result<T, Failure> {
    opening_within(TIMEOUT.get().copied(), path, open)
}

/// As [`opening`], for a store that a process has left which was killed.
pub(crate) fn opening_left<T>(
    path: &Path,
    open: impl Fn() -> StoreResult<T>,
) -> Result<T, Failure> {
    opening_within(Some(patience()), path, open)
}

/// What `--timeout` says, or a moment: a process that was killed may not be gone at once.
fn patience() -> Duration {
    TIMEOUT.get().copied().unwrap_or(LEAVING)
}

fn opening_within<T>(
    patience: Option<Duration>,
    path: &Path,
    open: impl Fn() -> StoreResult<T>,
) -> Result<T, Failure> {
    let (begun, mut is_told) = (Instant::now(), false);
    loop {
        let result = signals::while_opening(&open)?;
        let (Err(Error::Locked { .. }), Some(timeout)) = (&result, patience) else {
            return Ok(result?);
        };
        let (waited, holder) = (begun.elapsed(), || name(holder(&path.join("LOCK"))));
        if waited >= timeout {
            let waited = waited.as_secs_f64();
            return Err(Failure::other(format!(
                "{} has the store open; gave up after {waited:.1} s (--timeout)",
                holder()
            )));
        }
        if waited >= SILENCE && !std::mem::replace(&mut is_told, true) {
            tell!("waiting for {}, which has the store open", holder());
        }
        std::thread::sleep(ROUND.min(timeout - waited));
        signals::check()?;
    }
}

/// Locks a file, by which one command at a time works in a folder; waits for another one with
/// [`patience`].
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), Failure> {
    let begun = Instant::now();
    let patience = patience();
    // Where the system has no such locks, nobody is kept away.
    while let Err(TryLockError::WouldBlock) = file.try_lock() {
        if begun.elapsed() >= patience {
            let (other, waited) = (name(holder(path)), begun.elapsed().as_secs_f64());
            let folder = path.parent().unwrap_or(path).display();
            return Err(Failure::other(format!(
                "{other} is at work in {folder}; gave up after {waited:.1} s (--timeout)"
            )));
        }
        std::thread::sleep(ROUND);
        signals::check()?;
    }
    Ok(())
}

/// Another process that holds a lock on a file, as far as the system shows it.
pub(crate) fn holder(file: &Path) -> Option<u32> {
    let file = file.canonicalize().ok()?;
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let has_lock = |process: &Path| {
        let opened = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let mut ours = opened.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == file));
        ours.any(|fd| {
            let about = std::fs::read_to_string(process.join("fdinfo").join(fd.file_name()));
            about.is_ok_and(|about| about.contains("lock:"))
        })
    };
    processes.filter(|process| has_lock(&process.path())).find_map(|process| {
        process.file_name().to_str()?.parse().ok().filter(|&number| number != std::process::id())
    })
}

fn name(writer: Option<u32>) -> String {
    match writer {
        Some(process) if process > 0 => format!("process {process}"),
        _ => "another process".to_owned(),
    }
}
