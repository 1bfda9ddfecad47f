//! The log-structured engine at one moment.

use std::mem;
use std::sync::{Arc, Mutex};

use hedgerow::lsm::{self, Diff, Reader};
use hedgerow::tree::TableChange;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::keyspace::{Keyspace, Place};
use super::{Held, lock, names_to};
use crate::diff::{self, Changes, named};
use crate::errors::{OrRaise, closed};
use crate::fork::Born;
use crate::table::{Codecs, bounds};
use crate::txn::{locked, name_of};

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
    moment: Mutex<Option<(Arc<Held>, Moment)>>,
    born: Born,
}

impl Snapshot {
    pub(super) fn new(held: Arc<Held>, moment: Moment) -> Self {
        Self { moment: Mutex::new(Some((held, moment))), born: Born::now() }
    }

    /// Of a moment of a store that is open for writing.
    pub(crate) fn of(held: &Arc<Held>, snapshot: Arc<lsm::Snapshot>) -> Self {
        Self::new(Arc::clone(held), Moment::Snapshot(snapshot))
    }

    /// The keyspace of a name as it was.
    fn find(slf: &Bound<'_, Self>, name: Vec<u8>, codecs: Arc<Codecs>) -> PyResult<Keyspace> {
        let (py, (_held, moment)) = (slf.py(), slf.get().get(slf.py())?);
        let found = moment!(&moment, |at| py.detach(|| at.find_keyspace(&name))).or_raise(py)?;
        match found {
            Some(handle) => {
                Ok(Keyspace { place: Place::Snapshot(slf.clone().unbind()), handle, codecs })
            }
            None => Err(hedgerow::Error::NoTable { name }).or_raise(py),
        }
    }

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
    /// The keyspace as it was; of a name, one of bytes.
    fn __getitem__(slf: &Bound<'_, Self>, keyspace: &Bound<'_, PyAny>) -> PyResult<Keyspace> {
        match keyspace.cast::<Keyspace>() {
            Ok(keyspace) => Ok(keyspace.get().within(Place::Snapshot(slf.clone().unbind()))),
            Err(_) => Self::find(slf, name_of(keyspace)?, Arc::new(diff::codecs(None, None)?)),
        }
    }

    fn __contains__(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let ((_held, moment), name) = (self.get(py)?, name_of(name)?);
        Ok(moment!(&moment, |at| py.detach(|| at.find_keyspace(&name))).or_raise(py)?.is_some())
    }

    /// A keyspace as it was, also one that was dropped since. ``key`` and ``value`` are as those of
    /// ``Log.keyspace``.
    #[pyo3(signature = (name, key=None, value=None))]
    fn keyspace(
        slf: &Bound<'_, Self>,
        name: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Keyspace> {
        Self::find(slf, name_of(name)?, Arc::new(diff::codecs(key, value)?))
    }

    /// The names of the keyspaces that there were, in order.
    fn keyspaces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (_held, moment) = self.get(py)?;
        let names = moment!(&moment, |at| py.detach(|| at.keyspaces())).or_raise(py)?;
        names_to(py, &names)
    }

    /// What changed in a keyspace since an older snapshot of the store: keys, values before, values
    /// after.
    #[pyo3(signature = (old, name, key=None, value=None, *, start=None, stop=None, prefix=None))]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
    fn diff(
        &self,
        py: Python<'_>,
        old: &Bound<'_, Self>,
        name: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Changes> {
        let (name, codecs) = (name_of(name)?, diff::codecs(key, value)?);
        let keys = bounds(&codecs.key, start, stop, prefix)?;
        let ((_before, old), (_after, new)) = (old.get().get(py)?, self.get(py)?);
        let found = moment!(&old, |old| moment!(&new, |new| {
            py.detach(|| Diff::new(&**old, &**new, &name))
        }));
        Ok(Changes::of_log(found.or_raise(py)?.within(keys), codecs))
    }

    /// The keyspaces that differ from an older snapshot of the store, each with ``"added"``,
    /// ``"removed"`` or ``"changed"``; in one that changed all may be as it was.
    fn changed_keyspaces<'py>(
        &self,
        py: Python<'py>,
        old: &Bound<'_, Self>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let ((_before, old), (_after, new)) = (old.get().get(py)?, self.get(py)?);
        let found = moment!(&old, |old| moment!(&new, |new| {
            py.detach(|| Diff::keyspaces(&**old, &**new))
        }));
        let changes: Vec<_> = found.or_raise(py)?.into_iter().map(TableChange::from).collect();
        named(py, &changes)
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

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        if self.born.lets_pass(raised) { Ok(()) } else { self.close(py) }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.id(py) {
            Ok(id) => format!("<hedgerow.Snapshot of commit {id}>"),
            Err(_) => "<hedgerow.Snapshot, closed>".to_owned(),
        }
    }
}
