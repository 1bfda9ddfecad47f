//! The log-structured engine: a directory, keyspaces as mappings, batches, snapshots, and
//! optimistic transactions.

mod batch;
mod keyspace;
mod snapshot;
mod transaction;
mod walk;

pub(crate) use batch::Batch;
pub(crate) use keyspace::Keyspace;
pub(crate) use snapshot::Snapshot;
pub(crate) use transaction::LogTransaction;
pub(crate) use walk::LogWalk;

use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow::lsm::{self, Db, KeyspaceOptions, Options, Readable as _, Reader};
use hedgerow::stream;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::codec::Codec;
use crate::diff;
use crate::either::Either;
use crate::errors::{OfOption, OrRaise, closed, raise};
use crate::follow::{Asked, Follow};
use crate::fork::Born;
use crate::html;
use crate::lasts::Lasts;
use crate::long;
use crate::sink::{Sink, sink_of};
use crate::store::durability_of;
use crate::stream::{Stream, scan_of};
use crate::table::Codecs;
use crate::txn::{locked, name_of, name_to};
use keyspace::Place;
use snapshot::Moment;

/// The store, open for writing or for reading only.
pub(crate) enum Engine {
    Writer(Db),
    Reader(Arc<Reader>),
}

/// Runs an expression over either.
macro_rules! engine {
    ($engine:expr, |$store:ident| $body:expr) => {
        match $engine {
            $crate::log::Engine::Writer($store) => $body,
            $crate::log::Engine::Reader($store) => $body,
        }
    };
}
pub(crate) use engine;

/// An open store. In a child process after a fork it is left as it is: its threads are not there.
pub(crate) struct Held {
    engine: Option<Engine>,
    born: Born,
}

impl Held {
    fn engine(&self, py: Python<'_>) -> PyResult<&Engine> {
        self.born.check(py)?;
        match &self.engine {
            Some(engine) => Ok(engine),
            None => closed(py, "the store"),
        }
    }

    /// The store, to be written to.
    pub(crate) fn db(&self, py: Python<'_>) -> PyResult<&Db> {
        match self.engine(py)? {
            Engine::Writer(db) => Ok(db),
            Engine::Reader(_) => Err(hedgerow::Error::ReadOnly).or_raise(py),
        }
    }

    /// The store as it is now.
    fn moment(&self, py: Python<'_>) -> PyResult<Moment> {
        Ok(match self.engine(py)? {
            Engine::Writer(db) => Moment::Snapshot(Arc::new(db.snapshot())),
            Engine::Reader(reader) => Moment::Reader(Arc::clone(reader)),
        })
    }
}

/// Where the open store is, until it is closed. Keyspaces, batches and transactions do not keep it
/// open.
pub(crate) struct Slot {
    held: Mutex<Option<Arc<Held>>>,
    born: Born,
}

impl Slot {
    fn get(&self, py: Python<'_>) -> PyResult<Arc<Held>> {
        self.born.check(py)?;
        match &*locked(&self.held) {
            Some(held) => Ok(Arc::clone(held)),
            None => closed(py, "the store"),
        }
    }

    /// The store, to be written to.
    pub(crate) fn db(&self, py: Python<'_>) -> PyResult<Db> {
        self.get(py)?.db(py).cloned()
    }

    /// The keyspace of a name, if there is one.
    fn find(&self, py: Python<'_>, name: &[u8]) -> PyResult<Option<lsm::Keyspace>> {
        let held = self.get(py)?;
        let engine = held.engine(py)?;
        engine!(engine, |store| py.detach(|| store.find_keyspace(name))).or_raise(py)
    }

    /// A keyspace, or that of a name with keys and values of bytes, in a place.
    fn within(&self, keyspace: &Bound<'_, PyAny>, place: Place) -> PyResult<Keyspace> {
        if let Ok(keyspace) = keyspace.cast::<Keyspace>() {
            return Ok(keyspace.get().within(place));
        }
        let (py, name) = (keyspace.py(), name_of(keyspace)?);
        match self.find(py, &name)? {
            Some(handle) => {
                let codecs = Arc::new(diff::codecs(None, None)?);
                Ok(Keyspace { place, handle, codecs })
            }
            None => Err(hedgerow::Error::NoTable { name }).or_raise(py),
        }
    }

    /// Whether it is closed.
    pub(crate) fn is_closed(&self) -> bool {
        locked(&self.held).is_none()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.born.is_here() {
            mem::forget(self.engine.take());
        }
    }
}

fn lock<'a, T>(py: Python<'_>, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
    mutex.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
}

/// Names of keyspaces, as Python shows them.
fn names_to<'py>(py: Python<'py>, names: &[Vec<u8>]) -> PyResult<Bound<'py, PyList>> {
    let names = names.iter().map(|name| name_to(py, name));
    PyList::new(py, names.collect::<PyResult<Vec<_>>>()?)
}

/// A log-structured store: a directory, for many small durable writes and for more data than
/// memory. One process has it open, or any number of processes have it open for reading only.
///
/// ``Log(path)`` opens it, or makes it if there is none; with ``create=False`` it must exist. With
/// ``read_only=True`` nothing is ever written. ``memory_limit`` is how many bytes of memory it
/// takes, 256 MiB by default; with ``system_cache=True`` the system's cache may hold files, too.
#[pyclass(frozen, weakref, module = "hedgerow")]
pub(crate) struct Log {
    slot: Arc<Slot>,
    path: PathBuf,
}

/// The options that Python gives.
fn options(durability: Option<&str>, memory_limit: Option<Bound<'_, PyAny>>) -> PyResult<Options> {
    let mut options = Options::new();
    if let Some(durability) = durability {
        options = options.durability(durability_of(durability)?);
    }
    if let Some(bytes) = memory_limit {
        options = options.memory_limit(bytes.extract().of_option("memory_limit", &bytes)?);
    }
    Ok(options)
}

impl Log {
    fn around(engine: Engine, path: PathBuf) -> Self {
        let born = Born::now();
        let held = Mutex::new(Some(Arc::new(Held { engine: Some(engine), born })));
        Self { slot: Arc::new(Slot { held, born }), path }
    }

    /// Where the open store is.
    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    fn get(&self, py: Python<'_>) -> PyResult<Arc<Held>> {
        self.slot.get(py)
    }

    /// How long something lasts that waits for the store.
    fn lasts(&self, what: &'static str) -> Lasts {
        Lasts::new(what, vec![Either::Log(Arc::clone(&self.slot))])
    }

    /// Runs a call of a store that is open for writing; meanwhile other threads run.
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Db) -> hedgerow::Result<R> + Send,
    ) -> PyResult<R> {
        let held = self.get(py)?;
        let db = held.db(py)?;
        py.detach(|| call(db)).or_raise(py)
    }

    /// The same of a call that may take long. Ctrl-C ends the waiting for it.
    fn run_long<R: Send + 'static>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Engine) -> hedgerow::Result<R> + Send + 'static,
    ) -> PyResult<R> {
        let held = self.get(py)?;
        let call = move || match &held.engine {
            Some(engine) => call(engine),
            None => Err(hedgerow::Error::WrongTransaction),
        };
        long::wait(py, call)?.or_raise(py)
    }

    /// The same, of a store that is open for writing.
    fn write_long(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Db) -> hedgerow::Result<()> + Send + 'static,
    ) -> PyResult<()> {
        self.run_long(py, |engine| match engine {
            Engine::Writer(db) => call(db),
            Engine::Reader(_) => Err(hedgerow::Error::ReadOnly),
        })
    }
}

#[pymethods]
impl Log {
    #[new]
    #[pyo3(signature = (
        path, *, create=true, read_only=false, durability=None, memory_limit=None,
        system_cache=false
    ))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        create: bool,
        read_only: bool,
        durability: Option<&str>,
        memory_limit: Option<Bound<'_, PyAny>>,
        system_cache: bool,
    ) -> PyResult<Self> {
        let options = options(durability, memory_limit)?.create(create).system_cache(system_cache);
        let open = || match read_only {
            true => options.open_read_only(&path).map(|reader| Engine::Reader(Arc::new(reader))),
            false => options.open(&path).map(Engine::Writer),
        };
        Ok(Self::around(py.detach(open).or_raise(py)?, path))
    }

    /// Makes a store that lies in memory and ends with the process, or when it is closed.
    /// ``backup`` writes it into a directory.
    #[staticmethod]
    #[pyo3(signature = (*, durability=None, memory_limit=None))]
    fn create_in_memory(
        py: Python<'_>,
        durability: Option<&str>,
        memory_limit: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let options = options(durability, memory_limit)?;
        let db = py.detach(|| options.create_in_memory()).or_raise(py)?;
        Ok(Self::around(Engine::Writer(db), PathBuf::from(":memory:")))
    }

    /// Closes the store. What waits for it in other threads ends with ``ClosedError``. Snapshots,
    /// streams, sinks, followers and standbys that are still there keep it open for themselves
    /// until they are closed, and iterators until they have given all; keyspaces do not.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(held) = locked(&self.slot.held).take() else { return Ok(()) };
        let close = || match Arc::try_unwrap(held) {
            Ok(mut held) if held.born.is_here() => match held.engine.take() {
                Some(Engine::Writer(db)) => db.close(),
                _ => Ok(()),
            },
            Ok(_) => Ok(()),
            Err(held) => match &held.engine {
                Some(Engine::Writer(db)) if held.born.is_here() => db.sync(),
                _ => Ok(()),
            },
        };
        py.detach(close).or_raise(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().get(slf.py())?;
        Ok(slf)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// Opens a keyspace, and makes it if there is none, unless the store is only read. ``key`` and
    /// ``value`` are as those of ``Transaction.table``.
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
        let handle = match held.engine(py)? {
            Engine::Writer(db) => {
                let open = || db.keyspace(&name, KeyspaceOptions::default());
                py.detach(open).or_raise(py)?
            }
            Engine::Reader(_) => match self.slot.find(py, &name)? {
                Some(handle) => handle,
                None => return Err(hedgerow::Error::NoTable { name }).or_raise(py),
            },
        };
        Ok(Keyspace { place: Place::Now(Arc::clone(&self.slot)), handle, codecs })
    }

    /// The names of the keyspaces, in order.
    fn keyspaces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let held = self.get(py)?;
        let engine = held.engine(py)?;
        names_to(py, &engine!(engine, |store| py.detach(|| store.keyspaces())).or_raise(py)?)
    }

    /// Whether there is a keyspace of a name.
    fn __contains__(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.slot.find(py, &name_of(name)?)?.is_some())
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
        self.get(py)?.db(py)?;
        let (slot, batch) = (Arc::clone(&self.slot), Mutex::new(Some(lsm::Batch::new())));
        Ok(Batch { slot, batch, durability })
    }

    /// The store as it is now, or at the commit that ``pin`` names: ``snapshot[keyspace]`` reads
    /// it.
    #[pyo3(signature = (pin=None))]
    fn snapshot(&self, py: Python<'_>, pin: Option<&Bound<'_, PyAny>>) -> PyResult<Snapshot> {
        let held = self.get(py)?;
        let Some(name) = pin else {
            let moment = held.moment(py)?;
            return Ok(Snapshot::new(held, moment));
        };
        let (db, bytes) = (held.db(py)?, name_of(name)?);
        match py.detach(|| db.read_pin(&bytes)) {
            Some(snapshot) => Ok(Snapshot::of(&held, Arc::new(snapshot))),
            None => raise(py, "ArgumentError", &format!("there is no pin {}", name.repr()?)),
        }
    }

    /// Keeps the newest commit readable under a name until ``unpin``; answers its number. What it
    /// sees stays on the disk as long.
    fn pin(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<u64> {
        let name = name_of(name)?;
        self.run(py, |db| db.pin(&name))
    }

    /// Lets the commit go that was kept under a name; false if there is none.
    fn unpin(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = name_of(name)?;
        self.run(py, |db| db.drop_pin(&name))
    }

    /// The pins: names and numbers of commits.
    fn pins<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let held = self.get(py)?;
        let engine = held.engine(py)?;
        let stat = engine!(engine, |store| py.detach(|| store.stat()));
        let pins = PyDict::new(py);
        for pin in stat.pins {
            pins.set_item(name_to(py, &pin.name)?, pin.commit)?;
        }
        Ok(pins)
    }

    /// What changes from commit to commit, for ever: as ``Store.follow``, for a store that is open
    /// for writing. ``keyspace`` is another word for ``table``.
    #[pyo3(signature = (name=None, **options))]
    fn follow(
        &self,
        py: Python<'_>,
        name: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Follow> {
        let lasts = self.lasts("the follower");
        Follow::of_log(py, self.get(py)?, lasts, Asked::new(py, name, options)?)
    }

    /// Forgets the follower of a name, and lets the commits go that it needs; false if there is
    /// none.
    fn forget(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = name_of(name)?;
        self.run(py, |db| stream::Follow::forget(db, &name))
    }

    /// Waits until there is a newer commit than the one of this number, at most ``timeout``
    /// seconds; whether there is one.
    #[pyo3(signature = (commit, timeout=None))]
    fn wait(&self, py: Python<'_>, commit: u64, timeout: Option<f64>) -> PyResult<bool> {
        let held = self.get(py)?;
        let db = held.db(py)?;
        let wait = |most| Ok(db.wait_for_commit(commit, most).then_some(()));
        Ok(self.lasts("the store").wait(py, timeout, None, wait)?.is_some())
    }

    /// An optimistic transaction: ``txn[keyspace]`` reads and writes. If what it read was changed
    /// by another commit in between, committing raises ``ConflictError``, and nothing is written.
    #[pyo3(signature = (*, durability=None))]
    fn transaction(&self, py: Python<'_>, durability: Option<&str>) -> PyResult<LogTransaction> {
        let durability = durability.map(durability_of).transpose()?;
        let held = self.get(py)?;
        let txn = Mutex::new(Some(held.db(py)?.transaction()));
        Ok(LogTransaction { slot: Arc::clone(&self.slot), txn, durability })
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
        match self.get(py)?.engine(py)? {
            Engine::Writer(db) => Stream::of_log(py, db, &scan, codecs),
            Engine::Reader(reader) => Stream::of_reader(py, reader, &scan, codecs),
        }
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
        match held.engine(py)? {
            Engine::Writer(db) => {
                let scan = Stream::rest(py, db, token, options)?;
                Stream::of_log(py, db, &scan, codecs)
            }
            Engine::Reader(reader) => {
                let scan = Stream::rest(py, reader, token, options)?;
                Stream::of_reader(py, reader, &scan, codecs)
            }
        }
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
        self.write_long(py, Db::sync)
    }

    /// Writes what is in memory to tables.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.write_long(py, Db::flush)
    }

    /// Merges all tables and collects values. After Ctrl-C that goes on by itself.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        self.write_long(py, Db::compact)
    }

    /// Verifies the whole store: what is wrong, one sentence each.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let report = self.run_long(py, |engine| engine!(engine, |store| store.check()))?;
        Ok(report.damage.iter().map(ToString::to_string).collect())
    }

    /// Copies what is new since the last backup there, while the store is in use.
    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.run_long(py, move |engine| {
            engine!(engine, |store| store.backup(&path, &mut |_, _| {})).map(drop)
        })
    }

    /// The store in numbers.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let held = self.get(py)?;
        let engine = held.engine(py)?;
        let stat = engine!(engine, |store| py.detach(|| store.stat()));
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
        Ok(engine!(self.get(py)?.engine(py)?, |store| store.newest_commit()))
    }

    /// The directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether it is open for reading only.
    #[getter]
    fn read_only(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(matches!(self.get(py)?.engine(py)?, Engine::Reader(_)))
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.slot.is_closed()
    }

    fn __repr__(&self) -> String {
        let state = if self.closed() { ", closed" } else { "" };
        format!("<hedgerow.Log {}{state}>", self.path.display())
    }

    /// What a notebook shows: the keyspaces, and about how many keys they have.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let held = self.get(py)?;
        let engine = held.engine(py)?;
        let found = engine!(engine, |store| py.detach(|| -> hedgerow::Result<_> {
            let mut keyspaces = Vec::new();
            for name in store.keyspaces()? {
                if let Some(keyspace) = store.find_keyspace(&name)? {
                    keyspaces.push((name, store.estimate_count(&keyspace, ..)?));
                }
            }
            Ok((store.stat(), keyspaces))
        }));
        let (stat, keyspaces) = found.or_raise(py)?;
        Ok(html::log(&self.path, &stat, &keyspaces))
    }
}
