//! Keyspaces of the log-structured engine as mappings.

use std::borrow::Cow;
use std::ops::Bound as End;
use std::sync::{Arc, Mutex};

use hedgerow::lsm::{self, Readable};
use hedgerow::stream::Scan;
use hedgerow::tree::Bytes;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyCapsule, PyList, PySlice, PyTuple};

use super::batch::Batch;
use super::snapshot::{Moment, Snapshot, moment};
use super::transaction::LogTransaction;
use super::walk::{Left, LogWalk, Runs, Source};
use super::{Engine, Slot, engine};
use crate::arrow;
use crate::columns::Columns;
use crate::errors::{OrRaise, closed};
use crate::html;
use crate::long;
use crate::table::{Codecs, KeyBounds, bounds, instead, two};
use crate::txn::name_to;
use crate::view::{Batches, Kind};

/// Where the calls of a keyspace go.
pub(super) enum Place {
    Now(Arc<Slot>),
    Batch(Py<Batch>),
    Snapshot(Py<Snapshot>),
    Transaction(Py<LogTransaction>),
}

/// A keyspace of a log-structured store: a mapping from keys to values, in the order of the keys.
///
/// Made by ``Log.keyspace``, each call sees the store as it is, and each write is a commit of its
/// own. A batch, a snapshot and a transaction give it with ``[keyspace]`` as they see it.
#[pyclass(frozen, generic, module = "hedgerow")]
pub(crate) struct Keyspace {
    pub(super) place: Place,
    pub(super) handle: lsm::Keyspace,
    pub(super) codecs: Arc<Codecs>,
}

/// A write.
enum Write<'a> {
    Put(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
    DeleteRange(End<Vec<u8>>, End<Vec<u8>>),
}

impl Keyspace {
    pub(super) fn within(&self, place: Place) -> Self {
        Self { place, handle: self.handle.clone(), codecs: Arc::clone(&self.codecs) }
    }

    fn unread<T>() -> PyResult<T> {
        Err(PyTypeError::new_err("a batch is only written"))
    }

    fn find<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, handle) = (key.py(), &self.handle);
        let key = self.codecs.key.encode(key)?;
        let found = match &self.place {
            Place::Now(slot) => {
                let held = slot.get(py)?;
                let engine = held.engine(py)?;
                engine!(engine, |db| py.detach(|| db.get(handle, &key))).or_raise(py)?
            }
            Place::Snapshot(snapshot) => {
                let (_held, moment) = snapshot.get().get(py)?;
                moment!(&moment, |at| py.detach(|| at.get(handle, &key))).or_raise(py)?
            }
            Place::Transaction(txn) => txn.get().with(py, |txn| txn.get(handle, &key))?,
            Place::Batch(_) => return Self::unread(),
        };
        found.map(|value| self.codecs.value.decode(py, Bytes::from(&*value))).transpose()
    }

    /// Makes a write.
    fn write(&self, py: Python<'_>, write: Write<'_>) -> PyResult<()> {
        let handle = &self.handle;
        match &self.place {
            Place::Now(slot) => {
                let held = slot.get(py)?;
                let db = held.db(py)?;
                py.detach(|| match write {
                    Write::Put(key, value) => db.put(handle, key, value),
                    Write::Delete(key) => db.delete(handle, key),
                    Write::DeleteRange(low, high) => db.delete_range(handle, (low, high)),
                })
                .or_raise(py)
            }
            Place::Batch(batch) => batch.get().write(py, |batch| match write {
                Write::Put(key, value) => batch.put(handle, key, value),
                Write::Delete(key) => batch.delete(handle, key),
                Write::DeleteRange(low, high) => batch.delete_range(handle, (low, high)),
            }),
            Place::Transaction(txn) => txn.get().with(py, |txn| match write {
                Write::Put(key, value) => txn.put(handle, key, value),
                Write::Delete(key) => txn.delete(handle, key),
                Write::DeleteRange(low, high) => txn.delete_range(handle, (low, high)),
            }),
            Place::Snapshot(_) => Err(hedgerow::Error::ReadOnly).or_raise(py),
        }
    }

    /// Runs a call of a transaction; where each call is a commit, of one of its own, again and
    /// again until nothing else has changed in between what it reads.
    fn transact<R: Send>(
        &self,
        py: Python<'_>,
        mut call: impl FnMut(&mut lsm::Transaction) -> hedgerow::Result<R> + Send,
    ) -> PyResult<R> {
        let slot = match &self.place {
            Place::Now(slot) => slot,
            Place::Transaction(txn) => return txn.get().with(py, call),
            Place::Snapshot(_) => return Err(hedgerow::Error::ReadOnly).or_raise(py),
            Place::Batch(_) => return Self::unread(),
        };
        let held = slot.get(py)?;
        let db = held.db(py)?;
        loop {
            let result = py.detach(|| {
                let mut txn = db.transaction();
                let result = call(&mut txn)?;
                txn.commit().map(|()| result)
            });
            match result {
                Err(hedgerow::Error::Conflict) => py.check_signals()?,
                result => return result.or_raise(py),
            }
        }
    }

    /// The values of many keys at a moment; signals are looked for in between.
    fn look_up(
        &self,
        py: Python<'_>,
        moment: &Moment,
        keys: &[Cow<'_, [u8]>],
    ) -> PyResult<Vec<Option<Vec<u8>>>> {
        let (handle, mut found) = (&self.handle, Vec::with_capacity(keys.len()));
        for keys in keys.chunks(long::KEYS) {
            let values = moment!(moment, |at| py.detach(|| at.multi_get(handle, keys)));
            found.extend(values.or_raise(py)?);
            py.check_signals()?;
        }
        Ok(found)
    }

    /// All pairs of a range as a stream, of the store as it is here.
    fn export<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let (held, moment) = match &self.place {
            Place::Now(slot) => {
                let held = slot.get(py)?;
                let moment = held.moment(py)?;
                (held, moment)
            }
            Place::Snapshot(place) => place.get().get(py)?,
            _ => {
                let reason = "only a keyspace of a store or of a snapshot gives Arrow streams";
                return Err(PyTypeError::new_err(reason));
            }
        };
        let scan = Scan::new(self.handle.name());
        let columns = Columns::new(Some(&self.codecs.key), Some(&self.codecs.value));
        match (held.engine(py)?, moment) {
            (Engine::Writer(db), Moment::Snapshot(snapshot)) => {
                let pairs = py.detach(|| scan.pairs_of(db, snapshot)).or_raise(py)?;
                arrow::export(py, pairs, columns)
            }
            (_, Moment::Reader(reader)) => {
                let pairs = py.detach(|| scan.pairs(&reader)).or_raise(py)?;
                arrow::export(py, pairs, columns)
            }
            (Engine::Reader(_), Moment::Snapshot(_)) => closed(py, "the store"),
        }
    }

    /// The pairs, keys or values of a range.
    fn iterate<'py>(
        &self,
        py: Python<'py>,
        (low, high): KeyBounds,
        is_reverse: bool,
        kind: Kind,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (held, moment) = match &self.place {
            Place::Now(slot) => {
                let held = slot.get(py)?;
                let moment = held.moment(py)?;
                (held, moment)
            }
            Place::Snapshot(place) => place.get().get(py)?,
            Place::Transaction(txn) => {
                let left = Left { low, high, is_reverse, waiting: Vec::new(), is_over: false };
                let (txn, handle) = (txn.clone_ref(py), self.handle.clone());
                let source = Source::Transaction { txn, handle, left };
                return Ok(Bound::new(py, self.iter(source, kind))?.into_any());
            }
            Place::Batch(_) => return Self::unread(),
        };
        let mut scan = Scan::new(self.handle.name()).range((low, high));
        if is_reverse {
            scan = scan.reverse();
        }
        if kind == Kind::Keys {
            scan = scan.keys_only();
        }
        let runs = match (held.engine(py)?, moment) {
            (Engine::Writer(db), Moment::Snapshot(snapshot)) => {
                let pairs = py.detach(|| scan.pairs_of(db, snapshot)).or_raise(py)?;
                Runs::Snapshot(Box::new(Batches::new(pairs)))
            }
            (_, Moment::Reader(reader)) => {
                let snapshot = Arc::new(Arc::clone(&reader));
                let pairs = py.detach(|| scan.pairs_of(&reader, snapshot)).or_raise(py)?;
                Runs::Reader(Box::new(Batches::new(pairs)))
            }
            (Engine::Reader(_), Moment::Snapshot(_)) => return closed(py, "the store"),
        };
        let source = Source::Batches(Some((runs, held)));
        Ok(Bound::new(py, self.iter(source, kind))?.into_any())
    }

    /// The keys of a slice.
    fn keys_of(&self, slice: &Bound<'_, PySlice>) -> PyResult<KeyBounds> {
        if !slice.getattr("step")?.is_none() {
            return Err(PyTypeError::new_err("a range of keys has no step"));
        }
        let (start, stop) = (slice.getattr("start")?, slice.getattr("stop")?);
        bounds(&self.codecs.key, Some(&start), Some(&stop), None)
    }

    fn iter(&self, source: Source, kind: Kind) -> LogWalk {
        LogWalk { source: Mutex::new(source), codecs: Arc::clone(&self.codecs), kind }
    }

    fn range<'py>(
        &self,
        py: Python<'py>,
        (start, stop): (Option<&Bound<'py, PyAny>>, Option<&Bound<'py, PyAny>>),
        prefix: Option<&Bound<'py, PyAny>>,
        is_reverse: bool,
        kind: Kind,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keys = bounds(&self.codecs.key, start, stop, prefix)?;
        self.iterate(py, keys, is_reverse, kind)
    }
}

#[pymethods]
impl Keyspace {
    /// The value of a key, or the pairs of a slice of keys.
    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = key.cast::<PySlice>() {
            let keys = self.keys_of(slice)?;
            return self.iterate(key.py(), keys, false, Kind::Items);
        }
        self.find(key)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, key) = (key.py(), self.codecs.key.encode(key)?);
        let value = self.codecs.value.encode(value)?;
        self.write(py, Write::Put(&key, &value))
    }

    /// Removes a key, which need not be there, or the keys of a slice.
    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = key.py();
        let Ok(slice) = key.cast::<PySlice>() else {
            return self.write(py, Write::Delete(&self.codecs.key.encode(key)?));
        };
        let (low, high) = self.keys_of(slice)?;
        self.write(py, Write::DeleteRange(low, high))
    }

    /// The keys from the last one to the first.
    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.range(py, (None, None), None, true, Kind::Keys)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.find(key)?.is_some())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.range(py, (None, None), None, false, Kind::Keys)
    }

    /// The value of a key, or ``default``.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(key)?.or(default))
    }

    /// The values of many keys, all as of one moment, with many reads of the disk at a time.
    #[pyo3(signature = (keys, default=None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let given = keys.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        let keys = given.iter().map(|key| self.codecs.key.encode(key));
        let keys = keys.collect::<PyResult<Vec<_>>>()?;
        let handle = &self.handle;
        let found = match &self.place {
            Place::Now(slot) if keys.len() <= long::KEYS => {
                let held = slot.get(py)?;
                let engine = held.engine(py)?;
                engine!(engine, |db| py.detach(|| db.multi_get(handle, &keys))).or_raise(py)?
            }
            Place::Now(slot) => {
                let held = slot.get(py)?;
                let moment = held.moment(py)?;
                self.look_up(py, &moment, &keys)?
            }
            Place::Snapshot(snapshot) => {
                let (_held, moment) = snapshot.get().get(py)?;
                self.look_up(py, &moment, &keys)?
            }
            Place::Transaction(txn) => txn.get().with(py, |txn| {
                keys.iter().map(|key| txn.get(handle, key)).collect::<hedgerow::Result<Vec<_>>>()
            })?,
            Place::Batch(_) => return Self::unread(),
        };
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        let values = found.iter().map(|value| match value {
            Some(value) => self.codecs.value.decode(py, Bytes::from(&**value)),
            None => Ok(default.clone()),
        });
        PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
    }

    /// The pairs whose keys lie from ``start`` up to ``stop``, or begin with ``prefix``.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false))]
    fn items<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        prefix: Option<&Bound<'py, PyAny>>,
        reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.range(py, (start, stop), prefix, reverse, Kind::Items)
    }

    /// The keys that lie from ``start`` up to ``stop``, or begin with ``prefix``.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false))]
    fn keys<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        prefix: Option<&Bound<'py, PyAny>>,
        reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.range(py, (start, stop), prefix, reverse, Kind::Keys)
    }

    /// The values whose keys lie from ``start`` up to ``stop``, or begin with ``prefix``.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false))]
    fn values<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        prefix: Option<&Bound<'py, PyAny>>,
        reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.range(py, (start, stop), prefix, reverse, Kind::Values)
    }

    /// Puts all pairs of a mapping, or of an iterable of pairs, in one commit.
    fn update(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<()> {
        let pairs = match pairs.hasattr("keys")? {
            true => pairs.call_method0("items")?,
            false => pairs.clone(),
        };
        let mut batch = lsm::Batch::new();
        for (number, pair) in pairs.try_iter()?.enumerate() {
            if number % long::KEYS == 0 {
                py.check_signals()?;
            }
            let (key, value) = two(&pair?)?;
            let key = self.codecs.key.encode(&key)?;
            let value = self.codecs.value.encode(&value)?;
            match &self.place {
                Place::Now(_) => batch.put(&self.handle, &key, &value).or_raise(py)?,
                _ => self.write(py, Write::Put(&key, &value))?,
            }
        }
        match &self.place {
            Place::Now(slot) => {
                let held = slot.get(py)?;
                let db = held.db(py)?;
                py.detach(|| db.write(batch)).or_raise(py)
            }
            _ => Ok(()),
        }
    }

    /// The value of a key; an absent key gets ``default`` first, in the same commit as it is looked
    /// for.
    fn setdefault<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, bytes) = (key.py(), self.codecs.key.encode(key)?);
        let value = self.codecs.value.encode(&default)?;
        let found = self.transact(py, |txn| {
            let found = txn.get(&self.handle, &bytes)?;
            if found.is_none() {
                txn.put(&self.handle, &bytes, &value)?;
            }
            Ok(found)
        })?;
        match found {
            Some(found) => self.codecs.value.decode(py, Bytes::from(&*found)),
            None => Ok(default),
        }
    }

    /// Removes a key and answers its value, in one commit; ``KeyError`` if it is absent and there
    /// is no default.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err("pop takes a key and at most one default"));
        }
        let (py, bytes) = (key.py(), self.codecs.key.encode(key)?);
        while let Some(found) = self.transact(py, |txn| txn.get(&self.handle, &bytes))? {
            // What cannot be decoded stays, and so does what another one puts meanwhile.
            let value = self.codecs.value.decode(py, Bytes::from(&*found))?;
            let is_deleted = self.transact(py, |txn| {
                let is_same = txn.get(&self.handle, &bytes)?.as_deref() == Some(&*found);
                if is_same {
                    txn.delete(&self.handle, &bytes)?;
                }
                Ok(is_same)
            })?;
            if is_deleted {
                return Ok(value);
            }
        }
        instead(key, default)
    }

    /// Removes all keys, whatever their number, at the cost of one write.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.write(py, Write::DeleteRange(End::Unbounded, End::Unbounded))
    }

    /// All pairs as a stream of the C data interface of Arrow: as ``View.__arrow_c_stream__``.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        self.export(py)
    }

    /// What a notebook shows: the first pairs.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        const SHOWN: usize = 10;
        let title = html::escaped(&self.__repr__());
        if matches!(self.place, Place::Batch(_)) {
            return Ok(format!("<div>{title}</div>"));
        }
        let pairs = self.range(py, (None, None), None, false, Kind::Items)?;
        let rows = pairs
            .try_iter()?
            .take(SHOWN)
            .map(|pair| html::cells(pair?.try_iter()?.collect::<PyResult<Vec<_>>>()?));
        let grid = html::grid(&["key", "value"], &rows.collect::<PyResult<Vec<_>>>()?);
        Ok(format!("<div>{title}, the first pairs{grid}</div>"))
    }

    /// About how many keys lie from ``start`` up to ``stop``.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None))]
    fn estimate(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let keys = bounds(&self.codecs.key, start, stop, prefix)?;
        match &self.place {
            Place::Now(slot) => {
                let held = slot.get(py)?;
                let (engine, handle) = (held.engine(py)?, &self.handle);
                engine!(engine, |db| py.detach(|| db.estimate_count(handle, keys))).or_raise(py)
            }
            Place::Snapshot(snapshot) => {
                let ((_held, moment), handle) = (snapshot.get().get(py)?, &self.handle);
                moment!(&moment, |at| py.detach(|| at.estimate_count(handle, keys))).or_raise(py)
            }
            _ => Err(PyTypeError::new_err("only a store and a snapshot estimate")),
        }
    }

    /// Its name.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        name_to(py, self.handle.name())
    }

    /// What the keyspace refers to: an object with `dumps` and `loads` may refer to the keyspace.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.codecs.traverse(&visit)
    }

    fn __repr__(&self) -> String {
        let place = match &self.place {
            Place::Now(_) => "",
            Place::Batch(_) => " in a batch",
            Place::Snapshot(_) => " in a snapshot",
            Place::Transaction(_) => " in a transaction",
        };
        format!("<hedgerow.Keyspace {:?}{place}>", String::from_utf8_lossy(self.handle.name()))
    }
}
