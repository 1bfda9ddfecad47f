//! Optimistic transactions of the log-structured engine.

use std::mem;
use std::sync::{Arc, Mutex};

use hedgerow::Durability;
use hedgerow::lsm;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::keyspace::{Keyspace, Place};
use super::{Slot, lock};
use crate::errors::{OrRaise, closed};
use crate::txn::locked;

/// An optimistic transaction of a log-structured store.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct LogTransaction {
    pub(super) slot: Arc<Slot>,
    pub(super) txn: Mutex<Option<lsm::Transaction>>,
    pub(super) durability: Option<Durability>,
}

impl LogTransaction {
    pub(super) fn with<R: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&mut lsm::Transaction) -> hedgerow::Result<R> + Send,
    ) -> PyResult<R> {
        let _open = self.slot.get(py)?;
        let mut guard = lock(py, &self.txn);
        let result = guard.as_mut().map(|txn| py.detach(|| run(txn)));
        drop(guard);
        match result {
            Some(result) => result.or_raise(py),
            None => closed(py, "the transaction"),
        }
    }
}

impl Drop for LogTransaction {
    fn drop(&mut self) {
        if !self.slot.born.is_here() {
            mem::forget(locked(&self.txn).take());
        }
    }
}

#[pymethods]
impl LogTransaction {
    /// The keyspace as the transaction sees it; of a name, one of bytes.
    fn __getitem__(slf: &Bound<'_, Self>, keyspace: &Bound<'_, PyAny>) -> PyResult<Keyspace> {
        let place = Place::Transaction(slf.clone().unbind());
        slf.get().slot.within(keyspace, place)
    }

    /// Makes the writes, if nothing that was read has changed.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let _open = self.slot.get(py)?;
        let Some(txn) = lock(py, &self.txn).take() else { return closed(py, "the transaction") };
        let commit = || match self.durability {
            Some(durability) => txn.commit_with(durability),
            None => txn.commit(),
        };
        py.detach(commit).or_raise(py)
    }

    /// Ends it without a trace.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let _open = self.slot.get(py)?;
        let taken = lock(py, &self.txn).take();
        drop(taken);
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind, *raised))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        raised: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        if self.slot.born.lets_pass(raised) {
            return Ok(());
        }
        let is_open = lock(py, &self.txn).is_some();
        if kind.is_none() && is_open { self.commit(py) } else { self.abort(py) }
    }

    fn __repr__(&self, py: Python<'_>) -> &'static str {
        match lock(py, &self.txn).is_some() {
            true => "<hedgerow.LogTransaction>",
            false => "<hedgerow.LogTransaction, closed>",
        }
    }
}
