//! How long something lasts that waits for stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hedgerow::Error;
use hedgerow::tree::Interrupt;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::either::Either;
use crate::errors::{OrRaise, closed};
use crate::fork::Born;
use crate::log::Slot;
use crate::long;
use crate::store::Store;

/// A store of either engine, as Python has it.
pub(crate) type Of = Either<Py<Store>, Arc<Slot>>;

/// A step that is asked for with a timeout waits for other writers at least this long.
pub(crate) const TURN: Duration = Duration::from_secs(5);

/// How long something lasts that waits for stores: until it is closed, or one of them is.
pub(crate) struct Lasts {
    what: &'static str,
    is_over: AtomicBool,
    stores: Vec<Of>,
    born: Born,
}

impl Lasts {
    pub(crate) fn new(what: &'static str, stores: Vec<Of>) -> Self {
        Self { what, is_over: AtomicBool::new(false), stores, born: Born::now() }
    }

    /// Refuses use in a child process.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.born.check(py)
    }

    /// See [`Born::lets_pass`].
    pub(crate) fn lets_pass(&self, raised: &Bound<'_, PyTuple>) -> bool {
        self.born.lets_pass(raised)
    }

    /// Refuses to wait for a write transaction that this thread has itself.
    pub(crate) fn refuse_own(&self, py: Python<'_>) -> PyResult<()> {
        self.stores.iter().try_for_each(|store| match store {
            Either::Tree(store) => store.get().refuse_own(py),
            Either::Log(_) => Ok(()),
        })
    }

    /// Says that it is closed: a call that waits ends soon.
    pub(crate) fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.check(py)?;
        self.is_over.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether it is closed.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Whether nothing more comes.
    fn has_ended(&self) -> bool {
        let is_closed = |store: &Of| match store {
            Either::Tree(store) => store.get().closed(),
            Either::Log(slot) => slot.is_closed(),
        };
        self.is_over() || self.stores.iter().any(is_closed)
    }

    /// Waits, at most `timeout` seconds, and until it is over.
    pub(crate) fn wait<R: Send>(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        interrupt: Option<&Interrupt>,
        mut wait: impl FnMut(Option<Duration>) -> hedgerow::Result<Option<R>> + Send,
    ) -> PyResult<Option<R>> {
        self.check(py)?;
        let found = long::in_rounds(py, timeout, interrupt, |most| match self.has_ended() {
            true => Ok(Some(None)),
            false => Ok(wait(most)?.map(Some)),
        })?;
        match found {
            Some(None) if self.is_over() => closed(py, self.what),
            Some(None) => closed(py, "the store"),
            Some(found) => Ok(found),
            None => Ok(None),
        }
    }

    /// As [`Lasts::wait`], for what also waits for its turn to write, in rounds of its timeout: as
    /// long as `timeout` says, and at least `turn` (`None`: for ever). Then [`Error::Locked`] is
    /// raised.
    pub(crate) fn wait_and_write<R: Send>(
        &self,
        py: Python<'_>,
        (timeout, turn): (Option<f64>, Option<Duration>),
        interrupt: Option<&Interrupt>,
        mut wait: impl FnMut(Option<Duration>) -> hedgerow::Result<Option<R>> + Send,
    ) -> PyResult<Option<R>> {
        let (begun, mut left) = (Instant::now(), timeout);
        loop {
            let mut busy = None;
            let found = self.wait(py, left, interrupt, |most| {
                let (found, locked) = match wait(most) {
                    Err(error @ Error::Locked { .. }) => (Ok(None), Some(error)),
                    found => (found, None),
                };
                busy = locked;
                found
            })?;
            match busy {
                None => return Ok(found),
                Some(error) if turn.is_some_and(|turn| begun.elapsed() >= turn) => {
                    return Err(error).or_raise(py);
                }
                Some(_) => py.check_signals()?,
            }
            left = timeout.map(|timeout| (timeout - begun.elapsed().as_secs_f64()).max(0.0));
        }
    }

    /// Runs a call that waits for its turn to write, in rounds of its timeout, until it has it.
    pub(crate) fn write<R: Send>(
        &self,
        py: Python<'_>,
        mut call: impl FnMut() -> hedgerow::Result<R> + Send,
    ) -> PyResult<R> {
        loop {
            match py.detach(&mut call) {
                Err(Error::Locked { .. }) if self.has_ended() => return closed(py, self.what),
                Err(Error::Locked { .. }) => py.check_signals()?,
                done => return done.or_raise(py),
            }
        }
    }
}
