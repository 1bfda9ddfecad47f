//! Waiting for the turn to write: says after a while which process is being waited for, and gives
//! up after `--timeout`.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hedgerow::tree::{Store, WriteTxn};

use crate::exit::Failure;

/// After this long the user is told what is being waited for.
const SILENCE: Duration = Duration::from_secs(1);

/// How long this run of the command waits; for ever if nothing was said.
static TIMEOUT: OnceLock<Duration> = OnceLock::new();

/// Sets how long this run of the command waits.
pub(crate) fn set_timeout(timeout: Option<Duration>) {
    if let Some(timeout) = timeout {
        let _ = TIMEOUT.set(timeout);
    }
}

/// Reads a time in seconds.
pub(crate) fn parse_seconds(written: &str) -> Result<Duration, String> {
    let seconds = written.strip_suffix('s').unwrap_or(written).parse().ok();
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| "a number of seconds, such as 5 or 0.5".to_owned())
}

/// Begins a write transaction.
pub(crate) fn begin_write(store: &Store) -> Result<WriteTxn, Failure> {
    let begun = Instant::now();
    let left = || TIMEOUT.get().map(|timeout| timeout.saturating_sub(begun.elapsed()));
    let mut is_told = false;
    loop {
        let round = left().map_or(SILENCE, |left| left.min(SILENCE));
        if let Some(txn) = store.begin_write_within(round)? {
            return Ok(txn);
        }
        let writer = store.writer();
        if left() == Some(Duration::ZERO) {
            let waited = begun.elapsed().as_secs_f64();
            return Err(Failure::other(format!(
                "{} writes to the store; gave up after {waited:.1} s (--timeout)",
                name(writer)
            )));
        }
        if !std::mem::replace(&mut is_told, true) {
            eprintln!("waiting for {}, which writes to the store", name(writer));
        }
    }
}

fn name(writer: Option<u32>) -> String {
    match writer {
        Some(process) if process > 0 => format!("process {process}"),
        _ => "another process".to_owned(),
    }
}
