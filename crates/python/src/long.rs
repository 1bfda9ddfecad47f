//! Calls that may take long: the interpreter is let go, and Ctrl-C stops them.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hedgerow::tree::Interrupt;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::errors::OrRaise;

/// How often a call that takes long looks for signals.
pub(crate) const ROUND: Duration = Duration::from_millis(50);

/// How long a round of waiting for other writers takes, at whose end signals are looked for. Each
/// begins at the end of their queue.
pub(crate) const TURN: Duration = Duration::from_millis(200);

/// Work on more entries than these may take long.
pub(crate) const ENTRIES: u64 = 50_000;

/// How many keys one call looks up; signals are looked for between two calls.
pub(crate) const KEYS: usize = 4096;

/// Whether Python handles signals in this thread.
pub(crate) fn is_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// Runs a call that may take long. Python handles signals in the main thread only, and cannot while
/// that runs the call: so there another thread runs it, and if a handler raises an exception, the
/// flag stops the call.
pub(crate) fn run<R: Send>(
    py: Python<'_>,
    interrupt: Option<&Interrupt>,
    call: impl FnOnce() -> R + Send,
) -> PyResult<R> {
    let Some(interrupt) = interrupt.filter(|_| is_main_thread()) else {
        return Ok(py.detach(call));
    };
    let mut raised = None;
    let result = py.detach(|| {
        std::thread::scope(|scope| {
            let (done, wait) = channel::<()>();
            let worker = scope.spawn(move || {
                let result = call();
                drop(done);
                result
            });
            while let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(ROUND) {
                if raised.is_none() {
                    raised = Python::attach(|py| py.check_signals()).err();
                    interrupt.set(raised.is_some());
                }
            }
            worker.join()
        })
    });
    if raised.is_some() {
        interrupt.set(false);
    }
    match (raised, result) {
        (Some(raised), _) => Err(raised),
        (None, Ok(result)) => Ok(result),
        (None, Err(panic)) => std::panic::resume_unwind(panic),
    }
}

/// Runs a call that may take long and that nothing stops. In the main thread another thread runs
/// it, and if a handler of a signal raises an exception, it goes on there by itself.
pub(crate) fn wait<R: Send + 'static>(
    py: Python<'_>,
    call: impl FnOnce() -> R + Send + 'static,
) -> PyResult<R> {
    if !is_main_thread() {
        return Ok(py.detach(call));
    }
    let (done, wait) = channel();
    let wait = Mutex::new(wait);
    let worker = std::thread::spawn(move || {
        // Nobody waits any more if this fails.
        let _ = done.send(call());
    });
    loop {
        // What the channel hands out is the result, or the news that the call has panicked.
        let next = || wait.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(ROUND);
        match py.detach(next) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => match py.detach(|| worker.join()) {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => return Err(PyRuntimeError::new_err("the call ended without a result")),
            },
        }
    }
}

/// Waits for something, at most `timeout` seconds: in rounds, so that signals are handled, and so
/// that a call that waits sees that what it waits for was closed. What raises the flag stops it
/// inside of a round, too.
pub(crate) fn in_rounds<R: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    interrupt: Option<&Interrupt>,
    mut wait: impl FnMut(Option<Duration>) -> hedgerow::Result<Option<R>> + Send,
) -> PyResult<Option<R>> {
    let time = timeout.map(Duration::try_from_secs_f64).transpose();
    let time = time.map_err(|_| PyValueError::new_err("the timeout is no time to wait"))?;
    let end = time.and_then(|time| Instant::now().checked_add(time));
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let most = left.map_or(2 * ROUND, |left| left.min(2 * ROUND));
        let found = run(py, interrupt, || wait(Some(most)))?.or_raise(py)?;
        if found.is_some() || left == Some(most) {
            return Ok(found);
        }
        py.check_signals()?;
    }
}
