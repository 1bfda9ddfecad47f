//! Following a store: steps from one commit to a later one.

use std::ops::Bound as End;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow::stream::{self, Mark};
use hedgerow::tree::{Store, TableChange};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict};

use crate::codec::{Codec, bytes_of};
use crate::diff::{self, Changes};
use crate::errors::{OrRaise, closed, raise};
use crate::fork::Born;
use crate::long;
use crate::order::Failures;
use crate::table::{KeyBounds, bounds};
use crate::txn::{Transaction, name_of, name_to};

/// Follows a store: an iterator over the steps from one commit to a later one, which waits for the
/// next. Made by ``Store.follow``.
///
/// A follower with a name goes on where it stopped, also after a restart: asking for the next step,
/// or ``done()``, says that the last one was dealt with. If the process dies before, the same step
/// is given again. A consumer that keeps each step's ``mark`` with what it makes of the step sees
/// each change exactly once.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct Follow {
    follow: Mutex<Option<stream::Follow>>,
    store: Store,
    failures: Arc<Failures>,
    /// The table that is followed, if it is one, and its keys.
    only: Option<(Vec<u8>, KeyBounds)>,
    born: Born,
}

/// The options of `follow`.
#[derive(Default)]
struct Asked<'py> {
    everything: bool,
    durable: bool,
    mark: Option<Bound<'py, PyAny>>,
    table: Option<Vec<u8>>,
    key: Option<Bound<'py, PyAny>>,
    start: Option<Bound<'py, PyAny>>,
    stop: Option<Bound<'py, PyAny>>,
    prefix: Option<Bound<'py, PyAny>>,
}

impl<'py> Asked<'py> {
    fn new(options: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        let mut asked = Self::default();
        for (name, value) in options.into_iter().flatten() {
            let name: String = name.extract()?;
            match &*name {
                "everything" => asked.everything = value.extract()?,
                "durable" => asked.durable = value.extract()?,
                _ if value.is_none() => {}
                "mark" => asked.mark = Some(value),
                "table" => asked.table = Some(name_of(&value)?),
                "key" => asked.key = Some(value),
                "start" => asked.start = Some(value),
                "stop" => asked.stop = Some(value),
                "prefix" => asked.prefix = Some(value),
                _ => {
                    let reason = format!("a follower has no option {name:?}");
                    return Err(PyTypeError::new_err(reason));
                }
            }
        }
        Ok(asked)
    }

    fn only(&self) -> PyResult<Option<(Vec<u8>, KeyBounds)>> {
        let (start, stop, prefix) = (self.start.as_ref(), self.stop.as_ref(), self.prefix.as_ref());
        match &self.table {
            Some(table) => {
                let codec = Codec::new(self.key.as_ref())?;
                Ok(Some((table.clone(), bounds(&codec, start, stop, prefix)?)))
            }
            None if start.or(stop).or(prefix).is_some() => {
                Err(PyTypeError::new_err("a range of keys is one of a table"))
            }
            None => Ok(None),
        }
    }
}

impl Follow {
    pub(crate) fn new(
        py: Python<'_>,
        store: Store,
        failures: Arc<Failures>,
        name: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let asked = Asked::new(options)?;
        let only = asked.only()?;
        let name = name.map(name_of).transpose()?;
        let mark = match &asked.mark {
            Some(mark) => Some(Mark::from_bytes(&bytes_of(mark)?).or_raise(py)?),
            None => None,
        };
        let make = || {
            let mut follow = match &name {
                Some(name) => stream::Follow::named(&store, name)?,
                None if asked.everything => stream::Follow::from_start(&store),
                None => stream::Follow::from_now(&store)?,
            };
            if let Some(mark) = &mark {
                follow = follow.resume(mark)?;
            }
            Ok(follow)
        };
        let mut follow = make().or_raise(py)?;
        if let Some((table, keys)) = &only {
            follow = follow.only(table, keys.clone());
        }
        if asked.durable {
            follow = follow.durable();
        }
        Ok(Self { follow: Mutex::new(Some(follow)), store, failures, only, born: Born::now() })
    }

    fn lock<'a>(&'a self, py: Python<'_>) -> PyResult<MutexGuard<'a, Option<stream::Follow>>> {
        self.born.check(py)?;
        Ok(self.follow.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Follow {
    /// The next step, once there is one; ``None`` if there is none for ``timeout`` seconds. Commits
    /// that were made in the meantime come as one step.
    #[pyo3(signature = (timeout=None))]
    fn step(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Step>> {
        let mut guard = self.lock(py)?;
        let Some(follow) = guard.as_mut() else {
            drop(guard);
            return closed(py, "the follower");
        };
        let step = long::in_rounds(py, timeout, |most| follow.step(most));
        drop(guard);
        let (store, failures) = (self.store.clone(), Arc::clone(&self.failures));
        Ok(step?.map(|step| Step { step, store, failures, only: self.only.clone() }))
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Step>> {
        self.step(py, None)
    }

    /// Says that the last step was dealt with, so that it is not given again after a restart.
    /// Durable when this returns.
    fn done(&self, py: Python<'_>) -> PyResult<()> {
        let mut guard = self.lock(py)?;
        let done = guard.as_mut().map(|follow| py.detach(|| follow.done()));
        drop(guard);
        done.unwrap_or(Ok(())).or_raise(py)
    }

    /// The number of the commit to which it has come; 0 before the first step.
    #[getter]
    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.lock(py)?.as_ref().map_or(0, stream::Follow::commit))
    }

    /// Lets the commit go that it keeps. What a name keeps stays.
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

/// What is different between two commits of a store. It keeps both readable. Made by ``Follow``.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct Step {
    step: stream::Step,
    store: Store,
    failures: Arc<Failures>,
    only: Option<(Vec<u8>, KeyBounds)>,
}

#[pymethods]
impl Step {
    /// The tables that differ, each with ``"added"``, ``"removed"`` or ``"changed"``.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        named(py, &py.detach(|| self.step.tables()).or_raise(py)?)
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
        Changes::new(py, self.step.shared(), table, diff::codecs(key, value)?, keys)
    }

    /// The store at the earlier commit; ``None`` if the step leads from an empty store.
    #[getter]
    fn before(&self) -> Option<Transaction> {
        let (before, _) = self.step.shared();
        before.map(|txn| Transaction::read(self.store.clone(), txn, Arc::clone(&self.failures)))
    }

    /// The store at the later commit.
    #[getter]
    fn after(&self) -> Transaction {
        let (_, after) = self.step.shared();
        Transaction::read(self.store.clone(), after, Arc::clone(&self.failures))
    }

    /// The number of the earlier commit; ``None`` if the step leads from an empty store.
    #[getter]
    fn since(&self) -> Option<u64> {
        self.step.from()
    }

    /// The number of the later commit.
    #[getter]
    fn commit(&self) -> u64 {
        self.step.to()
    }

    /// Where a follower has come that has dealt with this step: for ``Store.follow``.
    #[getter]
    fn mark<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.step.mark().to_bytes())
    }

    fn __repr__(&self) -> String {
        let from = self.step.from().map_or("nothing".to_owned(), |from| format!("commit {from}"));
        format!("<hedgerow.Step from {from} to commit {}>", self.step.to())
    }
}

/// Tables that differ, by their names.
pub(crate) fn named<'py>(py: Python<'py>, changes: &[TableChange]) -> PyResult<Bound<'py, PyDict>> {
    let tables = PyDict::new(py);
    for change in changes {
        let (name, what) = match change {
            TableChange::Added(name) => (name, "added"),
            TableChange::Removed(name) => (name, "removed"),
            TableChange::Changed(name) => (name, "changed"),
        };
        tables.set_item(name_to(py, name)?, what)?;
    }
    Ok(tables)
}
