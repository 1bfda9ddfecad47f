//! Joins of streams by key.

use std::sync::{Arc, Mutex, PoisonError};

use hedgerow::stream::{self, Joined, Kind};
use hedgerow::tree::Interrupt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::{OrRaise, raise};
use crate::fork::Born;
use crate::long;
use crate::stream::Stream;
use crate::table::Codecs;

/// How many keys are read ahead the first time.
const FIRST: usize = 8;
/// How many keys are read ahead at most.
const MOST: usize = 256;

/// Keys of several streams with the value that each has, in the order of the keys: an iterator.
/// Made by ``union``, ``intersection`` and ``difference``.
#[pyclass(generic, module = "hedgerow")]
pub(crate) struct Join {
    join: Mutex<Option<stream::Join>>,
    /// Ends it while it looks for the next keys.
    interrupt: Interrupt,
    codecs: Vec<Arc<Codecs>>,
    /// What was read ahead, the next one last.
    waiting: Vec<Joined>,
    size: usize,
    born: Born,
}

impl Drop for Join {
    fn drop(&mut self) {
        if !self.born.is_here() {
            std::mem::forget(self.get().take());
        }
    }
}

impl Join {
    fn get(&mut self) -> &mut Option<stream::Join> {
        self.join.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&mut self, py: Python<'_>) -> PyResult<()> {
        let (size, interrupt) = (self.size, self.interrupt.clone());
        let Some(join) = self.get() else { return Ok(()) };
        let read = || join.take(size).collect::<hedgerow::Result<Vec<_>>>();
        self.waiting = long::run(py, Some(&interrupt), read)?.or_raise(py)?;
        self.waiting.reverse();
        self.size = (2 * size).min(MOST);
        py.check_signals()
    }
}

#[pymethods]
impl Join {
    #[new]
    fn new(py: Python<'_>, kind: &str, streams: Vec<Bound<'_, Stream>>) -> PyResult<Self> {
        let kind = match kind {
            "union" => Kind::Union,
            "intersection" => Kind::Intersection,
            "difference" => Kind::Difference,
            _ => {
                let reason = "a join is a \"union\", an \"intersection\" or a \"difference\"";
                return Err(PyValueError::new_err(reason));
            }
        };
        let (mut inputs, mut codecs) = (Vec::new(), Vec::<Arc<Codecs>>::new());
        for stream in streams {
            let mut stream = stream.try_borrow_mut()?;
            let Some((origin, of)) = stream.whole() else {
                return raise(py, "ArgumentError", "a join takes streams that have not begun");
            };
            if codecs.first().is_some_and(|first| !first.key.agrees(&of.key)) {
                return raise(py, "TableError", "a join takes streams with keys of one type");
            }
            codecs.push(Arc::clone(of));
            inputs.push(py.detach(|| origin.input()).or_raise(py)?);
        }
        let join = py.detach(|| stream::Join::new(kind, inputs)).or_raise(py)?;
        let interrupt = Interrupt::default();
        let join = Mutex::new(Some(join.interrupt(interrupt.clone())));
        let born = Born::now();
        Ok(Self { join, interrupt, codecs, waiting: Vec::new(), size: FIRST, born })
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyTuple>)>> {
        self.born.check(py)?;
        if self.waiting.is_empty() {
            self.fill(py)?;
        }
        let Some(Joined { key, values }) = self.waiting.pop() else { return Ok(None) };
        let Some(first) = self.codecs.first() else { return Ok(None) };
        let key = first.key.decode(py, (&*key).into())?;
        let values = values.iter().zip(&self.codecs).map(|(value, codecs)| match value {
            Some(value) => codecs.value.decode(py, (&**value).into()),
            None => Ok(py.None().into_bound(py)),
        });
        Ok(Some((key, PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)?)))
    }

    fn __repr__(&mut self) -> String {
        let (streams, is_over) = (self.codecs.len(), self.get().is_none());
        let state = if is_over { ", closed" } else { "" };
        format!("<hedgerow.Join of {streams} streams{state}>")
    }

    /// Ends it, and lets its snapshots go.
    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        self.born.check(py)?;
        self.waiting.clear();
        let taken = self.get().take();
        py.detach(|| drop(taken));
        Ok(())
    }
}
