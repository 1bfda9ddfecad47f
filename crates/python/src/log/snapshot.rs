//! The log-structured engine at one moment.

use std::mem;
use std::sync::{Arc, Mutex};

use hedgerow::lsm::{self, Reader};
use pyo3::prelude::*;

use super::keyspace::{Keyspace, Place};
use super::{Held, lock};
use crate::errors::closed;
use crate::fork::Born;
use crate::txn::locked;

/// What is read: a snapshot, or a store that nobody changes while it is open.
#[derive(Clone)]
pub(super) enum Moment {
    Snapshot(Arc<lsm::Snapshot>),
    Reader(Arc<Reader>),
}

/// Runs an expression over either.
macro_rules! moment {
    ($moment:expr, |$readable:ident| $body:expr) => {
        match $moment {
            $crate::log::snapshot::Moment::Snapshot($readable) => $body,
            $crate::log::snapshot::Moment::Reader($readable) => $body,
        }
    };
}
pub(super) use moment;

/// A log-structured store at one moment.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct Snapshot {
    pub(super) moment: Mutex<Option<(Arc<Held>, Moment)>>,
    pub(super) born: Born,
}

impl Snapshot {
    pub(super) fn get(&self, py: Python<'_>) -> PyResult<(Arc<Held>, Moment)> {
        self.born.check(py)?;
        match &*lock(py, &self.moment) {
            Some(moment) => Ok(moment.clone()),
            None => closed(py, "the snapshot"),
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !self.born.is_here() {
            mem::forget(locked(&self.moment).take());
        }
    }
}

#[pymethods]
impl Snapshot {
    /// The keyspace as it was.
    fn __getitem__(slf: &Bound<'_, Self>, keyspace: &Bound<'_, Keyspace>) -> Keyspace {
        keyspace.get().within(Place::Snapshot(slf.clone().unbind()))
    }

    /// The number of the commit that it sees.
    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(match self.get(py)?.1 {
            Moment::Snapshot(snapshot) => snapshot.id(),
            Moment::Reader(reader) => reader.newest_commit(),
        })
    }

    /// Lets it go.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.born.check(py)?;
        let taken = lock(py, &self.moment).take();
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
