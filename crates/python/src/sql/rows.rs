//! The rows of a statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PySlice, PyTuple};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::columns;
use super::turn::Turn;
use super::values::{Parameters, to_python};
use crate::html;
use crate::places::place_of;

/// What a statement gives.
pub(super) struct Found {
    pub(super) columns: Vec<String>,
    /// One row after the other.
    pub(super) values: Vec<Value>,
    pub(super) len: usize,
    /// How many rows it has changed.
    changed: u64,
}

impl Found {
    /// Runs a statement.
    pub(super) fn of(
        db: &Connection,
        turn: &Turn,
        sql: &str,
        parameters: &Parameters,
    ) -> rusqlite::Result<Self> {
        let before = db.total_changes();
        let mut statement = super::single(db, sql)?;
        parameters.bind(&mut statement)?;
        turn.wait(db, &statement)?;
        let columns: Vec<String> = statement.column_names().map(Into::into).collect();
        let (mut values, mut len, mut rows) = (Vec::new(), 0, statement.raw_query());
        while let Some(row) = rows.next()? {
            for n in 0..columns.len() {
                values.push(row.get(n)?);
            }
            len += 1;
        }
        Ok(Self { columns, values, len, changed: db.total_changes() - before })
    }

    fn row<'py>(&self, py: Python<'py>, n: usize) -> PyResult<Bound<'py, PyTuple>> {
        let width = self.columns.len();
        let row = self.values.get(n * width..(n + 1) * width).unwrap_or_default();
        let row = row.iter().map(|value| to_python(py, value));
        PyTuple::new(py, row.collect::<PyResult<Vec<_>>>()?)
    }
}

/// The rows of a statement: a sequence of tuples, and an Arrow stream. All of them are in memory.
#[pyclass(frozen, sequence, module = "hedgerow")]
pub(crate) struct Rows {
    found: Arc<Found>,
}

impl Rows {
    pub(super) fn new(found: Found) -> Self {
        Self { found: Arc::new(found) }
    }
}

#[pymethods]
impl Rows {
    /// The names of the columns.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.found.columns)
    }

    /// How many rows the statement has inserted, changed or deleted.
    #[getter]
    fn changed(&self) -> u64 {
        self.found.changed
    }

    fn __len__(&self) -> usize {
        self.found.len
    }

    fn __iter__(&self) -> RowsIterator {
        RowsIterator { found: Arc::clone(&self.found), at: AtomicUsize::new(0) }
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let len = self.found.len;
        if let Ok(slice) = index.cast::<PySlice>() {
            let at = slice.indices(len as isize)?;
            let place = |n: usize| (at.start + n as isize * at.step) as usize;
            let rows = (0..at.slicelength).map(|n| self.found.row(py, place(n)));
            return Ok(PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)?.into_any());
        }
        let index = place_of(index)?;
        let index = if index < 0 { index.saturating_add_unsigned(len) } else { index };
        match usize::try_from(index).ok().filter(|index| *index < len) {
            Some(index) => Ok(self.found.row(py, index)?.into_any()),
            None => Err(PyIndexError::new_err("there are fewer rows")),
        }
    }

    /// The rows as a stream of the Arrow C data interface. A column is one of integers, floats,
    /// text or bytes, by what it holds; one that holds several of these is refused.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        columns::export(py, &self.found)
    }

    /// What a notebook shows: the first rows.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        const SHOWN: usize = 20;
        let rows = (0..self.found.len.min(SHOWN)).map(|n| html::cells(self.found.row(py, n)?));
        let names: Vec<String> =
            self.found.columns.iter().map(|name| html::escaped(name)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let grid = html::grid(&names, &rows.collect::<PyResult<Vec<_>>>()?);
        Ok(format!("<div>{} rows{grid}</div>", self.found.len))
    }

    fn __repr__(&self) -> String {
        format!("<{} rows of {}>", self.found.len, self.found.columns.join(", "))
    }
}

/// Goes through rows.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct RowsIterator {
    found: Arc<Found>,
    at: AtomicUsize,
}

#[pymethods]
impl RowsIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let step = |at| if at < self.found.len { Some(at + 1) } else { None };
        match self.at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(at) => self.found.row(py, at).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// How many rows are left.
    fn __length_hint__(&self) -> usize {
        self.found.len - self.at.load(Ordering::Relaxed)
    }
}
