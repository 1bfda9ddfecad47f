//! A second store that keeps up with a first one.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hedgerow::{lsm, stream, tree};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::errors::{OrRaise, closed};
use crate::fork::Born;
use crate::log::Log;
use crate::long;
use crate::store::{Store, durability_of};
use crate::txn::name_of;

/// The standby of either engine.
enum Kind {
    Tree(stream::Standby<tree::Store>),
    Log(stream::Standby<lsm::Db>),
}

impl Kind {
    fn step(&mut self, most: Option<Duration>) -> hedgerow::Result<Option<u64>> {
        match self {
            Self::Tree(standby) => standby.step(most),
            Self::Log(standby) => standby.step(most),
        }
    }

    fn done(&mut self) -> hedgerow::Result<()> {
        match self {
            Self::Tree(standby) => standby.done(),
            Self::Log(standby) => standby.done(),
        }
    }
}

/// Keeps a second store, a ``Store`` or a ``Log``, like a first one: at any time, also after a
/// power cut, it is what the first one was at some commit, and goes on from there.
///
/// ``name`` keeps in the first store what the second one needs. The second store must hold nothing
/// else and be written by nothing else. In a ``with`` statement it is closed at the end.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct Standby {
    standby: Mutex<Option<Kind>>,
    /// The second store, if threads of this process may write to it.
    target: Option<Py<Store>>,
    born: Born,
}

impl Drop for Standby {
    fn drop(&mut self) {
        if !self.born.is_here() {
            let standby = self.standby.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(standby.take());
        }
    }
}

impl Standby {
    fn lock<'a>(&'a self, py: Python<'_>) -> PyResult<MutexGuard<'a, Option<Kind>>> {
        self.born.check(py)?;
        if let Some(target) = &self.target {
            target.get().refuse_own(py)?;
        }
        Ok(self.standby.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Standby {
    #[new]
    #[pyo3(signature = (source, name, target, *, durability="durable"))]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, Store>,
        name: &Bound<'_, PyAny>,
        target: &Bound<'_, PyAny>,
        durability: &str,
    ) -> PyResult<Self> {
        let (first, name) = (source.get().get(py)?, name_of(name)?);
        let durability = durability_of(durability)?;
        let (kind, target) = if let Ok(store) = target.cast::<Store>() {
            let second = store.get().get(py)?;
            let made = py.detach(|| stream::Standby::new(&first, &name, &second)).or_raise(py)?;
            (Kind::Tree(made.durability(durability)), Some(store.clone().unbind()))
        } else if let Ok(log) = target.cast::<Log>() {
            let second = log.get().db(py)?;
            let made = py.detach(|| stream::Standby::new(&first, &name, &second)).or_raise(py)?;
            (Kind::Log(made.durability(durability)), None)
        } else {
            return Err(PyTypeError::new_err("the second store is a Store or a Log"));
        };
        Ok(Self { standby: Mutex::new(Some(kind)), target, born: Born::now() })
    }

    /// Takes the next step, once there is one, and answers the commit of the first store to which
    /// the second one has come; ``None`` if there is none for ``timeout`` seconds.
    #[pyo3(signature = (timeout=None))]
    fn step(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<u64>> {
        let mut guard = self.lock(py)?;
        let Some(standby) = guard.as_mut() else {
            drop(guard);
            return closed(py, "the standby");
        };
        let step = long::in_rounds(py, timeout, |most| standby.step(most));
        drop(guard);
        step
    }

    /// Takes all steps that there are, and lets the first store forget what they needed. Answers
    /// the commit to which the second one has come, or ``None`` if it had come so far before.
    fn catch_up(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let mut reached = None;
        while let Some(commit) = self.step(py, Some(0.0))? {
            reached = Some(commit);
        }
        self.done(py)?;
        Ok(reached)
    }

    /// Lets the first store forget what was needed for the last step. Durable when this returns.
    fn done(&self, py: Python<'_>) -> PyResult<()> {
        let mut guard = self.lock(py)?;
        let done = guard.as_mut().map(|standby| py.detach(|| standby.done()));
        drop(guard);
        done.unwrap_or(Ok(())).or_raise(py)
    }

    /// Ends it. The second store goes on from where it is when a new one is made.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let taken = self.lock(py)?.take();
        py.detach(|| drop(taken));
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind, error, trace))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        error: Option<&Bound<'_, PyAny>>,
        trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _ = (kind, error, trace);
        self.close(py)
    }
}
