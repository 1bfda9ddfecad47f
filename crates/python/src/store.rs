//! The store of the tree engine: opening it, beginning transactions, questions about the whole.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hedgerow::Durability;
use hedgerow::stream;
use hedgerow::tree::{self, Builder, CopyOptions, Snapshot};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::diff;
use crate::either::Either;
use crate::errors::{OfOption, OrRaise, closed, raise};
use crate::follow::{Asked, Follow};
use crate::html;
use crate::lasts::Lasts;
use crate::long;
use crate::order::Failures;
use crate::sink::{Sink, sink_of};
use crate::step::Home;
use crate::stream::{Stream, scan_of, takes};
use crate::table::{Orders, Table};
use crate::txn::{Transaction, Writing, locked, name_of, name_to};

/// A store: one file, read and written by any number of threads and processes.
///
/// ``Store(path)`` opens it, or makes it if there is none; ``Store.open`` and ``Store.create`` do
/// only the one. Used in a ``with`` statement, it is closed at the end.
#[pyclass(frozen, weakref, module = "hedgerow")]
pub(crate) struct Store {
    inner: Mutex<Option<tree::Store>>,
    path: PathBuf,
    writing: Writing,
    failures: Arc<Failures>,
    /// The connection for single statements, once there was one.
    sql: Mutex<Option<Py<crate::sql::Sql>>>,
}

/// How a store is opened.
#[derive(Clone, Copy)]
enum How {
    Open,
    Create,
    Either,
}

/// What `durability=` says.
pub(crate) fn durability_of(name: &str) -> PyResult<Durability> {
    match name {
        "durable" => Ok(Durability::Durable),
        "eventual" => Ok(Durability::Eventual),
        "none" => Ok(Durability::None),
        _ => Err(PyValueError::new_err("the durability is \"durable\", \"eventual\" or \"none\"")),
    }
}

/// The options of an opening, by their names.
fn builder(options: Option<&Bound<'_, PyDict>>) -> PyResult<Builder> {
    let mut builder = Builder::new();
    for (name, value) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        if value.is_none() {
            continue;
        }
        builder = match &*name {
            "read_only" => builder.read_only(value.extract().of_option(&name, &value)?),
            "durability" => {
                builder.durability(durability_of(value.extract().of_option(&name, &value)?)?)
            }
            "page_size" => builder.page_size(value.extract().of_option(&name, &value)?),
            "max_size" => builder.max_size(value.extract().of_option(&name, &value)?),
            "write_budget" => builder.write_budget(value.extract().of_option(&name, &value)?),
            "file_mode" => builder.file_mode(value.extract().of_option(&name, &value)?),
            "map" => builder.map(value.extract().of_option(&name, &value)?),
            _ => {
                let message = format!(
                    "a store has no option {name:?}: it has read_only, durability, page_size, \
                     max_size, write_budget, file_mode and map"
                );
                return Err(pyo3::exceptions::PyTypeError::new_err(message));
            }
        };
    }
    Ok(builder)
}

/// Which other process has the writer's turn, and what to do.
pub(crate) fn other_writer(store: &tree::Store) -> String {
    match store.writer() {
        Some(process) if process == std::process::id() => {
            "there is another writer, a thread of this process: end its transaction, or wait longer"
                .to_owned()
        }
        Some(process) => {
            format!(
                "there is another writer, process {process}: end its transaction, or wait longer"
            )
        }
        None => "there is another writer: end its transaction, or wait longer".to_owned(),
    }
}

impl Store {
    fn make(
        py: Python<'_>,
        path: PathBuf,
        options: Option<&Bound<'_, PyDict>>,
        how: How,
    ) -> PyResult<Self> {
        let builder = builder(options)?;
        let opened = py.detach(|| match how {
            How::Open => builder.open(&path),
            How::Create => builder.create(&path),
            How::Either => builder.open_or_create(&path),
        });
        opened.map(Self::around).or_raise(py)
    }

    fn around(store: tree::Store) -> Self {
        let path = store.path().to_path_buf();
        let (inner, writing) = (Mutex::new(Some(store)), Arc::new(Mutex::new(None)));
        Self { inner, path, writing, failures: Arc::default(), sql: Mutex::default() }
    }

    /// The open store.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<tree::Store> {
        match &*locked(&self.inner) {
            Some(store) => Ok(store.clone()),
            None => closed(py, "the store"),
        }
    }

    /// How long something lasts that waits for the store.
    pub(crate) fn lasts(slf: &Bound<'_, Self>, what: &'static str) -> Lasts {
        Lasts::new(what, vec![Either::Tree(slf.clone().unbind())])
    }

    /// Refuses to wait for a write transaction that this thread has itself.
    pub(crate) fn refuse_own(&self, py: Python<'_>) -> PyResult<()> {
        if *locked(&self.writing) != Some(std::thread::current().id()) {
            return Ok(());
        }
        let reason = "this thread has a write transaction already: end that first, or make a \
                      savepoint in it";
        raise(py, "LockedError", reason)
    }

    /// Waits for the writer's turn, in rounds: so that signals are handled, and so that the waiting
    /// ends when the store is closed.
    fn begin_write(
        &self,
        py: Python<'_>,
        store: &tree::Store,
        timeout: Option<Duration>,
    ) -> PyResult<Option<tree::WriteTxn>> {
        let end = timeout.and_then(|time| Instant::now().checked_add(time));
        // Each round begins at the end of the queue. Signals are handled in the main thread only.
        let round = if long::is_main_thread() { 4 * long::ROUND } else { 20 * long::ROUND };
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let wait = left.map_or(round, |left| left.min(round));
            let begun = py.detach(|| store.begin_write_alone_within(wait)).or_raise(py)?;
            if self.closed() {
                py.detach(|| drop(begun));
                return closed(py, "the store");
            }
            if begun.is_some() || left.is_some_and(|left| left <= wait) {
                return Ok(begun);
            }
            py.check_signals()?;
        }
    }
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (path, **options))]
    fn new(py: Python<'_>, path: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Self::make(py, path, options, How::Either)
    }

    /// Opens a store that exists.
    #[staticmethod]
    #[pyo3(signature = (path, **options))]
    fn open(py: Python<'_>, path: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Self::make(py, path, options, How::Open)
    }

    /// Makes a store where there is none.
    #[staticmethod]
    #[pyo3(signature = (path, **options))]
    fn create(
        py: Python<'_>,
        path: PathBuf,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Self::make(py, path, options, How::Create)
    }

    /// Makes a store that lies in memory and ends with the process, or when it is closed. ``copy``
    /// writes it into a file.
    #[staticmethod]
    #[pyo3(signature = (**options))]
    fn create_in_memory(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let builder = builder(options)?;
        py.detach(|| builder.create_in_memory()).map(Self::around).or_raise(py)
    }

    /// Closes the store. Transactions, iterators and buffers that are still there keep what they
    /// need of it. What waits in other threads for a commit, a step or a write transaction ends
    /// with ``ClosedError``; other calls that are under way there end as they would have.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let taken = locked(&self.inner).take();
        py.detach(|| drop(taken));
        let sql = locked(&self.sql).take();
        match sql {
            // After a fork it is the parent's.
            Some(sql) if sql.get().is_here() => sql.get().close(py),
            _ => Ok(()),
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().get(slf.py())?;
        Ok(slf)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// A transaction that reads the newest commit, or the one that ``pin`` names.
    #[pyo3(signature = (pin=None))]
    fn read(&self, py: Python<'_>, pin: Option<&Bound<'_, PyAny>>) -> PyResult<Transaction> {
        let store = self.get(py)?;
        let txn = match pin {
            None => py.detach(|| store.begin_read()).or_raise(py)?,
            Some(name) => {
                let bytes = name_of(name)?;
                match py.detach(|| store.read_pin(&bytes)).or_raise(py)? {
                    Some(txn) => txn,
                    None => {
                        return raise(
                            py,
                            "ArgumentError",
                            &format!("there is no pin {}", name.repr()?),
                        );
                    }
                }
            }
        };
        Ok(Transaction::read(store, Arc::new(txn), Arc::clone(&self.failures)))
    }

    /// The one write transaction. Waits for other writers, at most ``timeout`` seconds.
    ///
    /// ``durability`` says what this commit promises; by default what the store was opened with.
    #[pyo3(signature = (*, timeout=None, durability=None))]
    fn write(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        durability: Option<&str>,
    ) -> PyResult<Transaction> {
        let durability = durability.map(durability_of).transpose()?;
        let timeout = match timeout.map(Duration::try_from_secs_f64).transpose() {
            Ok(timeout) => timeout,
            Err(_) => return Err(PyValueError::new_err("the timeout is no time to wait")),
        };
        let (store, this) = (self.get(py)?, std::thread::current().id());
        self.refuse_own(py)?;
        let Some(txn) = self.begin_write(py, &store, timeout)? else {
            return raise(py, "LockedError", &other_writer(&store));
        };
        *locked(&self.writing) = Some(this);
        let kind = (durability, Arc::clone(&self.writing));
        Ok(Transaction::write(store, txn, kind, Arc::clone(&self.failures)))
    }

    /// Makes all commits so far durable.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.get(py)?;
        long::run(py, Some(&store.interrupt()), || store.sync())?.or_raise(py)
    }

    /// Copies the store while it is in use; with ``compact``, without free pages.
    #[pyo3(signature = (path, *, compact=false))]
    fn copy(&self, py: Python<'_>, path: PathBuf, compact: bool) -> PyResult<()> {
        let store = self.get(py)?;
        let options = CopyOptions { compact };
        let copy = || store.copy_to(&path, options, &mut |_, _| {});
        long::run(py, Some(&store.interrupt()), copy)?.or_raise(py)
    }

    /// Moves pages to the front of the file and cuts it. Answers its length before and after.
    fn compact(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let store = self.get(py)?;
        self.refuse_own(py)?;
        let compact = || store.compact(&mut |_, _| {});
        let report = long::run(py, Some(&store.interrupt()), compact)?.or_raise(py)?;
        Ok((report.before, report.after))
    }

    /// Verifies the whole store: what is wrong, one sentence each.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let store = self.get(py)?;
        let check = || store.check(&mut |_, _| {});
        Ok(long::run(py, Some(&store.interrupt()), check)?.or_raise(py)?.problems)
    }

    /// The store in numbers.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.get(py)?;
        let stat = py.detach(|| store.stat()).or_raise(py)?;
        let dict = PyDict::new(py);
        for (name, value) in [
            ("page_size", u64::from(stat.page_size)),
            ("commit", stat.commit),
            ("durable_commit", stat.durable_commit),
            ("file_bytes", stat.file_bytes),
            ("pages", stat.pages),
            ("free_pages", stat.free_pages),
            ("pinned_pages", stat.pinned_pages),
            ("tables", stat.tables),
            ("entries", stat.table_pages.count.values),
            ("branch_pages", stat.table_pages.branch_pages),
            ("leaf_pages", stat.table_pages.leaf_pages),
            ("overflow_pages", stat.table_pages.overflow_pages),
            ("readers", stat.holders.readers.len() as u64),
        ] {
            dict.set_item(name, value)?;
        }
        dict.set_item("max_size", stat.max_size)?;
        Ok(dict)
    }

    /// The pairs of a table as a stream: see ``Stream``.
    ///
    /// ``start``, ``stop``, ``prefix`` and ``reverse`` are as those of ``Table.items``; ``skip``
    /// and ``limit`` are numbers of pairs; ``values`` is ``"each"``, ``"first"`` or ``"last"`` of
    /// each key. The snapshot is exchanged for the newest one after ``renew_pairs``,
    /// ``renew_bytes``, ``renew_seconds`` or ``renew_commits``, and given back when for
    /// ``park_after`` seconds no pair was asked for.
    #[pyo3(signature = (table, key=None, value=None, **options))]
    fn scan(
        &self,
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Stream> {
        let codecs = diff::codecs(key, value)?;
        let scan = scan_of(&name_of(table)?, &codecs.key, options)?;
        Stream::of_tree(py, &self.get(py)?, &scan, codecs)
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
        let (store, codecs) = (self.get(py)?, diff::codecs(key, value)?);
        let scan = Stream::rest(py, &store, token, options)?;
        Stream::of_tree(py, &store, &scan, codecs)
    }

    /// Takes pairs into a table, which is made if there is none, and commits them from time to
    /// time: after ``pairs``, ``bytes`` or ``seconds``, by default after 16 MiB.
    ///
    /// ``mode`` is ``"put"``, ``"new"``, ``"replace"`` or ``"append"``; ``on_reject`` says what is
    /// done with a pair that this rejects: ``"fail"``, ``"fail unless same"``, ``"ignore"`` or
    /// ``"stop"``.
    #[pyo3(signature = (table, key=None, value=None, *, duplicates=false, **options))]
    fn sink(
        slf: &Bound<'_, Self>,
        table: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        duplicates: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Sink> {
        let (py, store) = (slf.py(), slf.get().get(slf.py())?);
        let name = name_of(table)?;
        let sink = sink_of(py, &store, &name, options)?;
        takes(
            py,
            py.detach(|| match store.begin_read()?.table(&name) {
                Err(hedgerow::Error::NoTable { .. }) => Ok(()),
                found => found.map(drop),
            }),
        )?;
        // The table is made with its types, or they are checked.
        let txn = Bound::new(py, slf.get().write(py, None, Some("none"))?)?;
        let codecs = Arc::new(diff::codecs(key, value)?);
        Table::open(&txn, name, codecs, duplicates, Orders::default(), true)?;
        txn.call_method0("commit")?;
        Ok(Sink::of_tree(sink, diff::codecs(key, value)?))
    }

    /// What changes from commit to commit, for ever: see ``Follow``.
    ///
    /// Without a name it begins with what changes from now on, or with ``everything`` that is
    /// there. With one it goes on where a follower of that name has stopped, or begins with
    /// everything; a ``mark`` of that follower says from where else. ``table``, ``start``, ``stop``
    /// and ``prefix`` say what is followed, if not the whole store, and ``key`` the type of those
    /// keys. With ``durable`` nothing is told before it is on stable storage, which a name always
    /// does.
    #[pyo3(signature = (name=None, **options))]
    fn follow(
        slf: &Bound<'_, Self>,
        name: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Follow> {
        let (py, this) = (slf.py(), slf.get());
        let home = Home { store: this.get(py)?, failures: Arc::clone(&this.failures) };
        Follow::of_tree(py, home, Self::lasts(slf, "the follower"), Asked::new(py, name, options)?)
    }

    /// Forgets the follower of a name, and lets the commits go that it needs; false if there is
    /// none.
    fn forget(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (store, name) = (self.get(py)?, name_of(name)?);
        self.refuse_own(py)?;
        drop(self.begin_write(py, &store, None)?);
        py.detach(|| stream::Follow::forget(&store, &name)).or_raise(py)
    }

    /// Waits until there is a newer commit than the one of this number, at most ``timeout``
    /// seconds; whether there is one.
    #[pyo3(signature = (commit, timeout=None))]
    fn wait(slf: &Bound<'_, Self>, commit: u64, timeout: Option<f64>) -> PyResult<bool> {
        let (py, store) = (slf.py(), slf.get().get(slf.py())?);
        let wait = |most| Ok(store.wait_for_commit(commit, most)?.then_some(()));
        let found = Self::lasts(slf, "the store").wait(py, timeout, None, wait)?;
        Ok(found.is_some())
    }

    /// Runs a statement of SQL and gives its rows, as in
    /// ``store.sql("select * from t where n > ?", [7])``.
    ///
    /// SQLite does it, on tables of its own that live in the store, and on the store's tables where
    /// these are made virtual tables. ``parameters`` are a sequence for ``?``, or a dict for
    /// ``:name``. Transactions of several statements need ``connect``.
    #[pyo3(signature = (sql, parameters=None))]
    fn sql(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<crate::sql::Rows> {
        self.get(py)?;
        let known = locked(&self.sql).as_ref().map(|sql| sql.clone_ref(py));
        let connection = match known {
            Some(connection) => connection,
            None => {
                let made = Py::new(py, self.connect(py, 5.0)?)?;
                locked(&self.sql).get_or_insert(made).clone_ref(py)
            }
        };
        connection.get().alone(py, sql, parameters)
    }

    /// A connection of SQLite's to the store: see ``Sql``. Its statements wait ``timeout`` seconds
    /// for another writer.
    #[pyo3(signature = (*, timeout=5.0))]
    fn connect(&self, py: Python<'_>, timeout: f64) -> PyResult<crate::sql::Sql> {
        crate::sql::Sql::open(py, self.get(py)?, Arc::clone(&self.writing), timeout)
    }

    /// Keeps the newest commit readable under a name until ``unpin``; answers its number.
    fn pin(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<u64> {
        let (store, name) = (self.get(py)?, name_of(name)?);
        self.refuse_own(py)?;
        drop(self.begin_write(py, &store, None)?);
        py.detach(|| store.pin(&name)).or_raise(py)
    }

    /// Lets the commit go that was kept under a name; false if there is none.
    fn unpin(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (store, name) = (self.get(py)?, name_of(name)?);
        self.refuse_own(py)?;
        drop(self.begin_write(py, &store, None)?);
        py.detach(|| store.drop_pin(&name)).or_raise(py)
    }

    /// The pins: names and numbers of commits.
    fn pins<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.get(py)?;
        let pins = PyDict::new(py);
        for pin in py.detach(|| store.pins()).or_raise(py)? {
            pins.set_item(name_to(py, &pin.name)?, pin.commit)?;
        }
        Ok(pins)
    }

    /// The live read transactions of all processes: process, thread, commit, age in seconds.
    fn readers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let store = self.get(py)?;
        let readers = py.detach(|| store.readers()).or_raise(py)?;
        let readers = readers.iter().map(|r| (r.process, r.thread, r.commit, r.age.as_secs_f64()));
        PyList::new(py, readers.collect::<Vec<_>>())
    }

    /// Raises the flag that stops calls that take long, in all threads, with
    /// ``InterruptedError``; ``interrupt(False)`` lowers it.
    #[pyo3(signature = (raised=true))]
    fn interrupt(&self, py: Python<'_>, raised: bool) -> PyResult<()> {
        self.get(py)?.interrupt().set(raised);
        Ok(())
    }

    /// The number of the newest commit.
    #[getter]
    fn newest_commit(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.get(py)?.newest_commit())
    }

    /// The data file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether it is closed.
    #[getter]
    pub(crate) fn closed(&self) -> bool {
        locked(&self.inner).is_none()
    }

    fn __repr__(&self) -> String {
        let path = self.path.display();
        match &*locked(&self.inner) {
            None => format!("<hedgerow.Store {path}, closed>"),
            Some(store) => format!("<hedgerow.Store {path}, commit {}>", store.newest_commit()),
        }
    }

    /// What a notebook shows.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let store = self.get(py)?;
        let found = py.detach(|| -> hedgerow::Result<_> {
            let (stat, txn) = (store.stat()?, store.begin_read()?);
            Ok((stat, txn.tables()?))
        });
        let (stat, tables) = found.or_raise(py)?;
        Ok(html::store(&self.path, &stat, &tables))
    }
}
