//! The log-structured engine: a directory, keyspaces as mappings, batches, snapshots, and
//! optimistic transactions.

use std::mem;
use std::ops::Bound as End;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow::Durability;
use hedgerow::lsm::{self, Db, KeyspaceOptions, Options, Readable};
use hedgerow::stream::Scan;
use hedgerow::tree::Bytes;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyList, PySlice};

use crate::codec::Codec;
use crate::diff;
use crate::errors::{OrRaise, closed};
use crate::fork::Born;
use crate::sink::{Sink, sink_of};
use crate::store::durability_of;
use crate::stream::{Stream, scan_of};
use crate::table::{Codecs, KeyBounds, bounds};
use crate::txn::{locked, name_of, name_to};
use crate::view::{Batches, Kind, give};

/// An open store. In a child process after a fork it is left as it is: its threads are not there.
struct Held {
    db: Option<Db>,
    born: Born,
}

impl Held {
    fn db(&self, py: Python<'_>) -> PyResult<&Db> {
        self.born.check(py)?;
        match &self.db {
            Some(db) => Ok(db),
            None => closed(py, "the store"),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.born.is_here() {
            mem::forget(self.db.take());
        }
    }
}

/// A log-structured store: a directory, for many small durable writes and for more data than
/// memory. One process has it open.
///
/// ``Log(path)`` opens it, or makes it if there is none; with ``create=False`` it must exist.
#[pyclass(frozen, weakref, module = "hedgerow")]
pub(crate) struct Log {
    held: Mutex<Option<Arc<Held>>>,
    path: PathBuf,
}

impl Log {
    fn get(&self, py: Python<'_>) -> PyResult<Arc<Held>> {
        match &*locked(&self.held) {
            Some(held) => {
                held.db(py)?;
                Ok(Arc::clone(held))
            }
            None => closed(py, "the store"),
        }
    }

    /// Runs a call of the store; meanwhile other threads run.
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Db) -> hedgerow::Result<R> + Send,
    ) -> PyResult<R> {
        let held = self.get(py)?;
        let db = held.db(py)?;
        py.detach(|| call(db)).or_raise(py)
    }
}

#[pymethods]
impl Log {
    #[new]
    #[pyo3(signature = (path, *, create=true, durability=None, memory_limit=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        create: bool,
        durability: Option<&str>,
        memory_limit: Option<u64>,
    ) -> PyResult<Self> {
        let mut options = Options::new().create(create);
        if let Some(durability) = durability {
            options = options.durability(durability_of(durability)?);
        }
        if let Some(bytes) = memory_limit {
            options = options.memory_limit(bytes);
        }
        let db = py.detach(|| options.open(&path)).or_raise(py)?;
        let held = Arc::new(Held { db: Some(db), born: Born::now() });
        Ok(Self { held: Mutex::new(Some(held)), path })
    }

    /// Closes the store. Snapshots and iterators that are still there keep it open for themselves.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(held) = locked(&self.held).take() else { return Ok(()) };
        let close = || match Arc::try_unwrap(held) {
            Ok(mut held) if held.born.is_here() => held.db.take().map_or(Ok(()), Db::close),
            Ok(_) => Ok(()),
            Err(held) => held.db.as_ref().map_or(Ok(()), Db::sync),
        };
        py.detach(close).or_raise(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().get(slf.py())?;
        Ok(slf)
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

    /// Opens a keyspace, and makes it if there is none. ``key`` and ``value`` are as those of
    /// ``Transaction.table``.
    #[pyo3(signature = (name, key=None, value=None))]
    fn keyspace(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Keyspace> {
        let codecs = Arc::new(Codecs { key: Codec::new(key)?, value: Codec::new(value)? });
        let (held, name) = (self.get(py)?, name_of(name)?);
        let handle = self.run(py, |db| db.keyspace(&name, KeyspaceOptions::default()))?;
        Ok(Keyspace { place: Place::Now(held), handle, codecs })
    }

    /// The names of the keyspaces, in order.
    fn keyspaces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = self.run(py, Db::keyspaces)?;
        let names = names.iter().map(|name| name_to(py, name));
        PyList::new(py, names.collect::<PyResult<Vec<_>>>()?)
    }

    /// Drops a keyspace with all that it holds; false if there is none.
    fn drop(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = name_of(name)?;
        self.run(py, |db| db.drop_keyspace(&name))
    }

    /// Writes that are made together: ``batch[keyspace]`` takes them, and the end of the ``with``
    /// statement makes all of them, or after an exception none.
    #[pyo3(signature = (*, durability=None))]
    fn batch(&self, py: Python<'_>, durability: Option<&str>) -> PyResult<Batch> {
        let durability = durability.map(durability_of).transpose()?;
        Ok(Batch { held: self.get(py)?, batch: Mutex::new(Some(lsm::Batch::new())), durability })
    }

    /// The store as it is now: ``snapshot[keyspace]`` reads it.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let held = self.get(py)?;
        let snapshot = Some(Arc::new(held.db(py)?.snapshot()));
        Ok(Snapshot { held, snapshot: Mutex::new(snapshot) })
    }

    /// An optimistic transaction: ``txn[keyspace]`` reads and writes. If what it read was changed
    /// by another commit in between, committing raises ``ConflictError``, and nothing is written.
    #[pyo3(signature = (*, durability=None))]
    fn transaction(&self, py: Python<'_>, durability: Option<&str>) -> PyResult<LogTransaction> {
        let durability = durability.map(durability_of).transpose()?;
        let held = self.get(py)?;
        let txn = Mutex::new(Some(held.db(py)?.transaction()));
        Ok(LogTransaction { held, txn, durability })
    }

    /// The pairs of a keyspace as a stream: as ``Store.scan``.
    #[pyo3(signature = (keyspace, key=None, value=None, **options))]
    fn scan(
        &self,
        py: Python<'_>,
        keyspace: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Stream> {
        let codecs = diff::codecs(key, value)?;
        let scan = scan_of(&name_of(keyspace)?, &codecs.key, options)?;
        Stream::of_log(py, self.get(py)?.db(py)?, &scan, codecs)
    }

    /// The rest of the stream of a token.
    #[pyo3(signature = (token, key=None, value=None, **options))]
    fn resume(
        &self,
        py: Python<'_>,
        token: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Stream> {
        let (held, codecs) = (self.get(py)?, diff::codecs(key, value)?);
        let scan = Stream::rest(py, held.db(py)?, token, options)?;
        Stream::of_log(py, held.db(py)?, &scan, codecs)
    }

    /// Takes pairs into a keyspace and commits them from time to time: as ``Store.sink``.
    #[pyo3(signature = (keyspace, key=None, value=None, **options))]
    fn sink(
        &self,
        py: Python<'_>,
        keyspace: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Sink> {
        let (held, codecs) = (self.get(py)?, diff::codecs(key, value)?);
        Ok(Sink::of_log(sink_of(py, held.db(py)?, &name_of(keyspace)?, options)?, codecs))
    }

    /// Hands all commits so far to stable storage.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, Db::sync)
    }

    /// Writes what is in memory to tables.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, Db::flush)
    }

    /// Merges all tables and collects values.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, Db::compact)
    }

    /// Verifies the whole store: what is wrong, one sentence each.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let report = self.run(py, Db::check)?;
        Ok(report.damage.iter().map(ToString::to_string).collect())
    }

    /// Copies what is new since the last backup there, while the store is in use.
    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.run(py, |db| db.backup(&path, &mut |_, _| {}).map(drop))
    }

    /// The store in numbers.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stat = self.run(py, |db| Ok(db.stat()))?;
        let dict = PyDict::new(py);
        for (name, value) in [
            ("bytes", stat.bytes()),
            ("table_bytes", stat.table_bytes()),
            ("segment_bytes", stat.segment_bytes),
            ("segments", stat.segments),
            ("memory", stat.memory.total()),
            ("memory_limit", stat.memory.limit),
            ("snapshots", stat.snapshots),
            ("newest_commit", stat.last_seq),
        ] {
            dict.set_item(name, value)?;
        }
        dict.set_item("failure", stat.failure)?;
        Ok(dict)
    }

    /// The number of the newest commit: of its last operation.
    #[getter]
    fn newest_commit(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, |db| Ok(db.newest_commit()))
    }

    /// The directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        locked(&self.held).is_none()
    }

    fn __repr__(&self) -> String {
        let state = if self.closed() { ", closed" } else { "" };
        format!("<hedgerow.Log {}{state}>", self.path.display())
    }
}

/// Writes that are made together, or not at all.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct Batch {
    held: Arc<Held>,
    batch: Mutex<Option<lsm::Batch>>,
    durability: Option<Durability>,
}

impl Batch {
    fn write<R>(
        &self,
        py: Python<'_>,
        write: impl FnOnce(&mut lsm::Batch) -> hedgerow::Result<R>,
    ) -> PyResult<R> {
        self.held.db(py)?;
        let result = lock(py, &self.batch).as_mut().map(write);
        match result {
            Some(result) => result.or_raise(py),
            None => closed(py, "the batch"),
        }
    }
}

fn lock<'a, T>(py: Python<'_>, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
    mutex.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl Batch {
    /// The keyspace, to be written to in this batch.
    fn __getitem__(slf: &Bound<'_, Self>, keyspace: &Bound<'_, Keyspace>) -> Keyspace {
        keyspace.get().within(Place::Batch(slf.clone().unbind()))
    }

    /// How many writes it has.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.write(py, |batch| Ok(batch.len()))
    }

    /// Makes the writes.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let db = self.held.db(py)?;
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

    #[pyo3(signature = (kind, error, trace))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        error: Option<&Bound<'_, PyAny>>,
        trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _ = (error, trace);
        match kind {
            None if lock(py, &self.batch).is_some() => self.commit(py),
            _ => {
                lock(py, &self.batch).take();
                Ok(())
            }
        }
    }
}

/// A log-structured store at one moment.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct Snapshot {
    held: Arc<Held>,
    snapshot: Mutex<Option<Arc<lsm::Snapshot>>>,
}

impl Snapshot {
    fn get(&self, py: Python<'_>) -> PyResult<Arc<lsm::Snapshot>> {
        self.held.db(py)?;
        match &*lock(py, &self.snapshot) {
            Some(snapshot) => Ok(Arc::clone(snapshot)),
            None => closed(py, "the snapshot"),
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !self.held.born.is_here() {
            mem::forget(locked(&self.snapshot).take());
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
        Ok(self.get(py)?.id())
    }

    /// Lets it go.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.held.db(py)?;
        let taken = lock(py, &self.snapshot).take();
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

/// An optimistic transaction of a log-structured store.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct LogTransaction {
    held: Arc<Held>,
    txn: Mutex<Option<lsm::Transaction>>,
    durability: Option<Durability>,
}

impl LogTransaction {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&mut lsm::Transaction) -> hedgerow::Result<R> + Send,
    ) -> PyResult<R> {
        self.held.db(py)?;
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
        if !self.held.born.is_here() {
            mem::forget(locked(&self.txn).take());
        }
    }
}

#[pymethods]
impl LogTransaction {
    /// The keyspace as the transaction sees it.
    fn __getitem__(slf: &Bound<'_, Self>, keyspace: &Bound<'_, Keyspace>) -> Keyspace {
        keyspace.get().within(Place::Transaction(slf.clone().unbind()))
    }

    /// Makes the writes, if nothing that was read has changed.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.held.db(py)?;
        let Some(txn) = lock(py, &self.txn).take() else { return closed(py, "the transaction") };
        let commit = || match self.durability {
            Some(durability) => txn.commit_with(durability),
            None => txn.commit(),
        };
        py.detach(commit).or_raise(py)
    }

    /// Ends it without a trace.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.held.db(py)?;
        let taken = lock(py, &self.txn).take();
        drop(taken);
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
        let _ = (error, trace);
        let is_open = lock(py, &self.txn).is_some();
        if kind.is_none() && is_open { self.commit(py) } else { self.abort(py) }
    }
}

/// Where the calls of a keyspace go.
enum Place {
    Now(Arc<Held>),
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
    place: Place,
    handle: lsm::Keyspace,
    codecs: Arc<Codecs>,
}

/// A write.
enum Write<'a> {
    Put(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
    DeleteRange(End<Vec<u8>>, End<Vec<u8>>),
}

impl Keyspace {
    fn within(&self, place: Place) -> Self {
        Self { place, handle: self.handle.clone(), codecs: Arc::clone(&self.codecs) }
    }

    fn unread<T>() -> PyResult<T> {
        Err(PyTypeError::new_err("a batch is only written"))
    }

    fn find<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, handle) = (key.py(), &self.handle);
        let key = self.codecs.key.encode(key)?;
        let found = match &self.place {
            Place::Now(held) => {
                let db = held.db(py)?;
                py.detach(|| db.get(handle, &key)).or_raise(py)?
            }
            Place::Snapshot(snapshot) => {
                let snapshot = snapshot.get().get(py)?;
                py.detach(|| snapshot.get(handle, &key)).or_raise(py)?
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
            Place::Now(held) => {
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

    /// The pairs, keys or values of a range.
    fn iterate<'py>(
        &self,
        py: Python<'py>,
        (low, high): KeyBounds,
        is_reverse: bool,
        kind: Kind,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (held, snapshot) = match &self.place {
            Place::Now(held) => (Arc::clone(held), Arc::new(held.db(py)?.snapshot())),
            Place::Snapshot(place) => (Arc::clone(&place.get().held), place.get().get(py)?),
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
        let db = held.db(py)?;
        let pairs = py.detach(|| scan.pairs_of(db, snapshot)).or_raise(py)?;
        let source = Source::Batches { batches: Some(Box::new(Batches::new(pairs))), held };
        Ok(Bound::new(py, self.iter(source, kind))?.into_any())
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
    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
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
        let (start, stop) = (slice.getattr("start")?, slice.getattr("stop")?);
        let (low, high) = bounds(&self.codecs.key, Some(&start), Some(&stop), None)?;
        self.write(py, Write::DeleteRange(low, high))
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
            Place::Now(held) => {
                let db = held.db(py)?;
                py.detach(|| db.multi_get(handle, &keys)).or_raise(py)?
            }
            Place::Snapshot(snapshot) => {
                let snapshot = snapshot.get().get(py)?;
                py.detach(|| snapshot.multi_get(handle, &keys)).or_raise(py)?
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
        for pair in pairs.try_iter()? {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
            let key = self.codecs.key.encode(&key)?;
            let value = self.codecs.value.encode(&value)?;
            match &self.place {
                Place::Now(_) => batch.put(&self.handle, &key, &value).or_raise(py)?,
                _ => self.write(py, Write::Put(&key, &value))?,
            }
        }
        match &self.place {
            Place::Now(held) => {
                let db = held.db(py)?;
                py.detach(|| db.write(batch)).or_raise(py)
            }
            _ => Ok(()),
        }
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
            Place::Now(held) => {
                let db = held.db(py)?;
                py.detach(|| db.estimate_count(&self.handle, keys)).or_raise(py)
            }
            Place::Snapshot(snapshot) => {
                let snapshot = snapshot.get().get(py)?;
                py.detach(|| snapshot.estimate_count(&self.handle, keys)).or_raise(py)
            }
            _ => Err(PyTypeError::new_err("only a store and a snapshot estimate")),
        }
    }

    /// Its name.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        name_to(py, self.handle.name())
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

/// What a transaction has yet to go through.
struct Left {
    low: End<Vec<u8>>,
    high: End<Vec<u8>>,
    is_reverse: bool,
    /// Pairs that were read and not given, the next one last.
    waiting: Vec<(Vec<u8>, Vec<u8>)>,
    is_over: bool,
}

/// Where an iterator's pairs come from.
enum Source {
    Batches { batches: Option<Box<Batches<Db>>>, held: Arc<Held> },
    Transaction { txn: Py<LogTransaction>, handle: lsm::Keyspace, left: Left },
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Self::Batches { batches, held } = self
            && !held.born.is_here()
        {
            mem::forget(batches.take());
        }
    }
}

/// Goes through a keyspace.
#[pyclass(generic, module = "hedgerow")]
pub(crate) struct LogWalk {
    source: Mutex<Source>,
    codecs: Arc<Codecs>,
    kind: Kind,
}

/// Reads the next pairs of a transaction.
fn refill(
    py: Python<'_>,
    txn: &LogTransaction,
    handle: &lsm::Keyspace,
    left: &mut Left,
) -> PyResult<()> {
    const AT_ONCE: usize = 64;
    let keys = (left.low.clone(), left.high.clone());
    let is_reverse = left.is_reverse;
    let mut read = txn.with(py, |txn| {
        let range = txn.range(handle, keys)?;
        match is_reverse {
            false => range.take(AT_ONCE).collect::<hedgerow::Result<Vec<_>>>(),
            true => range.rev().take(AT_ONCE).collect(),
        }
    })?;
    left.is_over = read.len() < AT_ONCE;
    if let Some((key, _)) = read.last() {
        let end = End::Excluded(key.clone());
        if is_reverse { left.high = end } else { left.low = end }
    }
    read.reverse();
    left.waiting = read;
    Ok(())
}

#[pymethods]
impl LogWalk {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.source.get_mut().unwrap_or_else(PoisonError::into_inner) {
            Source::Batches { batches, held } => {
                held.born.check(py)?;
                let Some(batches) = batches else { return Ok(None) };
                let Some((key, value)) = batches.next(py)? else { return Ok(None) };
                give(py, &self.codecs, self.kind, key, value).map(Some)
            }
            Source::Transaction { txn, handle, left } => {
                if left.waiting.is_empty() && !left.is_over {
                    refill(py, txn.get(), handle, left)?;
                }
                let Some((key, value)) = left.waiting.pop() else { return Ok(None) };
                let (key, value) = (Bytes::from(&*key), Bytes::from(&*value));
                give(py, &self.codecs, self.kind, key, value).map(Some)
            }
        }
    }
}
