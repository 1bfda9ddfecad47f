//! Calls that may take long: the interpreter is let go, and Ctrl-C stops them.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use hedgerow::tree::Interrupt;
use pyo3::prelude::*;

/// How often a call that takes long looks for signals.
pub(crate) const ROUND: Duration = Duration::from_millis(50);

/// Work on more entries than these may take long.
pub(crate) const ENTRIES: u64 = 50_000;

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
