//! A step of a follower: two moments of a store, and what is different between them.

use std::ops::Bound as End;
use std::sync::Arc;

use hedgerow::lsm::Db;
use hedgerow::stream;
use hedgerow::tree;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::diff::{self, Changes, named};
use crate::either::{Either, either};
use crate::errors::{OrRaise, raise};
use crate::fork::Ours;
use crate::log::{Held, Snapshot};
use crate::order::Failures;
use crate::table::KeyBounds;
use crate::txn::{Transaction, name_of};

/// What moments of a store of the tree engine are made with.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) store: tree::Store,
    pub(crate) failures: Arc<Failures>,
}

impl Home {
    fn moment(&self, txn: Arc<tree::ReadTxn>) -> Transaction {
        Transaction::read(self.store.clone(), txn, Arc::clone(&self.failures))
    }
}

/// The step of either engine.
pub(crate) type Found = Either<(stream::Step, Home), (stream::Step<Db>, Arc<Held>)>;

/// What is different between two commits of a store. It keeps both readable. Made by ``Follow``.
#[pyclass(frozen, generic, module = "hedgerow")]
pub(crate) struct Step {
    found: Ours<Found>,
    /// The table that is followed, if it is one, and its keys.
    only: Option<(Vec<u8>, KeyBounds)>,
}

impl Step {
    pub(crate) fn new(found: Found, only: Option<(Vec<u8>, KeyBounds)>) -> Self {
        Self { found: Ours::new(found), only }
    }

    fn get(&self, py: Python<'_>) -> PyResult<&Found> {
        self.found.check(py)?;
        match &*self.found {
            Some(found) => Ok(found),
            None => crate::errors::closed(py, "the step"),
        }
    }
}

#[pymethods]
impl Step {
    /// The tables that differ, each with ``"added"``, ``"removed"`` or ``"changed"``.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.get(py)?;
        named(py, &either!(found, |(step, _)| py.detach(|| step.tables())).or_raise(py)?)
    }

    /// What is different in a table: keys, values before, values after, as ``Transaction.diff``
    /// gives them. A follower of one table needs no name.
    #[pyo3(signature = (table=None, key=None, value=None))]
    fn changes(
        &self,
        py: Python<'_>,
        table: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Changes> {
        let table = table.filter(|table| !table.is_none()).map(name_of).transpose()?;
        let (table, keys) = match (table, &self.only) {
            (None, None) => return Err(PyTypeError::new_err("the changes of which table?")),
            (Some(table), None) => (table, (End::Unbounded, End::Unbounded)),
            (None, Some((only, keys))) => (only.clone(), keys.clone()),
            (Some(table), Some((only, keys))) if table == *only => (table, keys.clone()),
            (Some(_), Some(_)) => {
                return raise(py, "ArgumentError", "another table is followed");
            }
        };
        let codecs = diff::codecs(key, value)?;
        match self.get(py)? {
            Either::Tree((step, _)) => Changes::of_tree(py, step.shared(), table, codecs, keys),
            Either::Log((step, _)) => {
                let diff = py.detach(|| step.changes(&table)).or_raise(py)?;
                Ok(Changes::of_log(diff, codecs))
            }
        }
    }

    /// The store at the earlier commit: a read transaction, or a snapshot of a ``Log``; ``None`` if
    /// the step leads from an empty store.
    #[getter]
    fn before<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match self.get(py)? {
            Either::Tree((step, home)) => {
                let before = step.shared().0.map(|txn| Bound::new(py, home.moment(txn)));
                before.transpose()?.map(Bound::into_any)
            }
            Either::Log((step, held)) => {
                let before = step.shared().0;
                let before = before.map(|moment| Bound::new(py, Snapshot::of(held, moment)));
                before.transpose()?.map(Bound::into_any)
            }
        })
    }

    /// The store at the later commit.
    #[getter]
    fn after<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self.get(py)? {
            Either::Tree((step, home)) => Bound::new(py, home.moment(step.shared().1))?.into_any(),
            Either::Log((step, held)) => {
                Bound::new(py, Snapshot::of(held, step.shared().1))?.into_any()
            }
        })
    }

    /// The number of the earlier commit; ``None`` if the step leads from an empty store.
    #[getter]
    fn since(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(either!(self.get(py)?, |(step, _)| step.from()))
    }

    /// The number of the later commit.
    #[getter]
    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(either!(self.get(py)?, |(step, _)| step.to()))
    }

    /// Where a follower has come that has dealt with this step: for ``follow``.
    #[getter]
    fn mark<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &either!(self.get(py)?, |(step, _)| step.mark().to_bytes())))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (from, to) = (self.since(py)?, self.commit(py)?);
        let from = from.map_or("nothing".to_owned(), |from| format!("commit {from}"));
        Ok(format!("<hedgerow.Step from {from} to commit {to}>"))
    }
}
