//! Writes of the log-structured engine that are made together.

use std::sync::{Arc, Mutex};

use hedgerow::Durability;
use hedgerow::lsm;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::keyspace::{Keyspace, Place};
use super::{Slot, lock};
use crate::errors::{OrRaise, closed};

/// Writes that are made together, or not at all.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct Batch {
    pub(super) slot: Arc<Slot>,
    pub(super) batch: Mutex<Option<lsm::Batch>>,
    pub(super) durability: Option<Durability>,
}

impl Batch {
    pub(super) fn write<R>(
        &self,
        py: Python<'_>,
        write: impl FnOnce(&mut lsm::Batch) -> hedgerow::Result<R>,
    ) -> PyResult<R> {
        self.slot.get(py)?;
        let result = lock(py, &self.batch).as_mut().map(write);
        match result {
            Some(result) => result.or_raise(py),
            None => closed(py, "the batch"),
        }
    }
}

#[pymethods]
impl Batch {
    /// The keyspace, to be written to in this batch; of a name, one of bytes.
    fn __getitem__(slf: &Bound<'_, Self>, keyspace: &Bound<'_, PyAny>) -> PyResult<Keyspace> {
        let place = Place::Batch(slf.clone().unbind());
        slf.get().slot.within(keyspace, place)
    }

    /// How many writes it has.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.write(py, |batch| Ok(batch.len()))
    }

    /// Makes the writes.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let held = self.slot.get(py)?;
        let db = held.db(py)?;
        let Some(batch) = lock(py, &self.batch).take() else { return closed(py, "the batch") };
        let write = || match self.durability {
            Some(durability) => db.write_with(batch, durability),
            None => db.write(batch),
        };
        py.detach(write).or_raise(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind, *_raised))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        _raised: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        match kind {
            None if lock(py, &self.batch).is_some() => self.commit(py),
            _ => {
                lock(py, &self.batch).take();
                Ok(())
            }
        }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match lock(py, &self.batch).as_ref() {
            Some(batch) => format!("<hedgerow.Batch of {} writes>", batch.len()),
            None => "<hedgerow.Batch, closed>".to_owned(),
        }
    }
}
