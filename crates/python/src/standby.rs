//! A second store that keeps up with a first one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow::Durability;
use hedgerow::stream::{self, Followed, Replica};
use hedgerow::tree::Interrupt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::either::Either;
use crate::errors::OrRaise;
use crate::fork::Ours;
use crate::lasts::{Lasts, Of, TURN};
use crate::log::Log;
use crate::long;
use crate::store::{Store, durability_of};
use crate::txn::{locked, name_of};

/// A standby, of and in whatever engines.
trait Keeps: Send {
    fn step(&mut self, most: Option<Duration>) -> hedgerow::Result<Option<u64>>;
    fn done(&mut self) -> hedgerow::Result<()>;
}

impl<T: Replica + Clone + Send, S: Followed> Keeps for stream::Standby<T, S> {
    fn step(&mut self, most: Option<Duration>) -> hedgerow::Result<Option<u64>> {
        Self::step(self, most)
    }

    fn done(&mut self) -> hedgerow::Result<()> {
        Self::done(self)
    }
}

/// Makes one.
fn keeps<T: Replica + Clone + Send + 'static, S: Followed>(
    source: &S,
    name: &[u8],
    target: &T,
    durability: Durability,
    interrupt: Interrupt,
) -> hedgerow::Result<Box<dyn Keeps>> {
    let standby = stream::Standby::new(source, name, target)?;
    let standby = standby.durability(durability).interrupt(interrupt).write_timeout(long::TURN);
    Ok(Box::new(standby))
}

/// A store of either engine, from Python's.
fn store_of(store: &Bound<'_, PyAny>) -> PyResult<Of> {
    if let Ok(store) = store.cast::<Store>() {
        Ok(Either::Tree(store.clone().unbind()))
    } else if let Ok(log) = store.cast::<Log>() {
        Ok(Either::Log(Arc::clone(log.get().slot())))
    } else {
        let found = store.get_type().name()?;
        Err(PyTypeError::new_err(format!("a standby is of and in a Store or a Log, not a {found}")))
    }
}

/// Keeps a second store like a first one; each is a ``Store`` or a ``Log``. At any time, also after
/// a power cut, the second one is what the first one was at some commit, and goes on from there.
///
/// ``name`` keeps in the first store what the second one needs. The second store must hold nothing
/// else and be written by nothing else. In a ``with`` statement it is closed at the end. After an
/// error, and after Ctrl-C, it is to be made anew.
///
/// Closing it, or one of the stores, ends a call that waits in another thread, with
/// ``ClosedError``.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct Standby {
    standby: Mutex<Ours<Box<dyn Keeps>>>,
    interrupt: Interrupt,
    lasts: Lasts,
    name: String,
}

#[pymethods]
impl Standby {
    #[new]
    #[pyo3(signature = (source, name, target, *, durability="durable"))]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        target: &Bound<'_, PyAny>,
        durability: &str,
    ) -> PyResult<Self> {
        let (first, second) = (store_of(source)?, store_of(target)?);
        let (name, durability) = (name_of(name)?, durability_of(durability)?);
        let interrupt = Interrupt::default();
        let how = (&*name, durability, interrupt.clone());
        let kept = match &first {
            Either::Tree(first) => Self::of(py, &first.get().get(py)?, how, &second),
            Either::Log(slot) => Self::of(py, &slot.db(py)?, how, &second),
        }?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let lasts = Lasts::new("the standby", vec![first, second]);
        Ok(Self { standby: Mutex::new(Ours::new(kept)), interrupt, lasts, name })
    }

    /// Takes the next step, once there is one, and answers the commit of the first store to which
    /// the second one has come; ``None`` if there is none for ``timeout`` seconds. It waits for
    /// other writers of the first store as a follower does.
    #[pyo3(signature = (timeout=None))]
    fn step(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<u64>> {
        self.take_step(py, timeout, Some(TURN))
    }

    /// Takes all steps that there are, and lets the first store forget what they needed. Answers
    /// the commit to which the second one has come, or ``None`` if it had come so far before.
    fn catch_up(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let mut reached = None;
        while let Some(commit) = self.take_step(py, Some(0.0), None)? {
            reached = Some(commit);
        }
        self.done(py)?;
        Ok(reached)
    }

    /// Lets the first store forget what was needed for the last step. Durable when this returns.
    fn done(&self, py: Python<'_>) -> PyResult<()> {
        self.lasts.check(py)?;
        self.lasts.refuse_own(py)?;
        let done = || match &mut **locked(&self.standby) {
            Some(standby) => standby.done(),
            None => Ok(()),
        };
        self.lasts.write(py, done)
    }

    /// Ends it. The second store goes on from where it is when a new one is made.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.lasts.end(py)?;
        py.detach(|| drop(locked(&self.standby).take()));
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        if self.lasts.lets_pass(raised) { Ok(()) } else { self.close(py) }
    }

    fn __repr__(&self) -> String {
        let state = if self.lasts.is_over() { ", closed" } else { "" };
        format!("<hedgerow.Standby {:?}{state}>", self.name)
    }
}

impl Standby {
    fn take_step(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        turn: Option<Duration>,
    ) -> PyResult<Option<u64>> {
        self.lasts.refuse_own(py)?;
        let times = (timeout, turn);
        self.lasts.wait_and_write(py, times, Some(&self.interrupt), |most| {
            match &mut **locked(&self.standby) {
                Some(standby) => standby.step(most),
                None => Ok(None),
            }
        })
    }

    /// The standby of a store in one of whatever engine.
    fn of<S: Followed>(
        py: Python<'_>,
        source: &S,
        (name, durability, interrupt): (&[u8], Durability, Interrupt),
        target: &Of,
    ) -> PyResult<Box<dyn Keeps>> {
        let kept = match target {
            Either::Tree(store) => {
                let target = store.get().get(py)?;
                py.detach(|| keeps(source, name, &target, durability, interrupt))
            }
            Either::Log(slot) => {
                let target = slot.db(py)?;
                py.detach(|| keeps(source, name, &target, durability, interrupt))
            }
        };
        kept.or_raise(py)
    }
}
