//! Transactions: a snapshot to read, or the changes of the one writer.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::ThreadId;

use hedgerow::Durability;
use hedgerow::tree::{self, Diff, ReadTxn, Snapshot, Store, TableInfo, WriteTxn};
use pyo3::prelude::*;
use pyo3::sync::RwLockExt;
use pyo3::types::{PyDict, PyIterator, PyList, PyString, PyTuple};

use crate::codec::{self, Codec, bytes_of};
use crate::diff::{self, Changes, named};
use crate::errors::{OrRaise, closed, raise};
use crate::fork::Born;
use crate::html;
use crate::long;
use crate::order::{self, Failures, Of, order_of};
use crate::table::{Codecs, Orders, Table, bounds};

/// What a transaction is.
pub(crate) enum State {
    Read(Arc<ReadTxn>, Store),
    Write(Box<WriteTxn>, Store),
    /// Nothing of the store is kept.
    Closed,
}

/// The thread that has the store's write transaction, if one of this process has.
pub(crate) type Writing = Arc<Mutex<Option<ThreadId>>>;

/// A transaction: one moment of the store to read, or changes to it. Made by ``Store.read`` and
/// ``Store.write``; used in a ``with`` statement.
///
/// It is a mapping from names to tables. Any thread may use it; calls of a write transaction come
/// one after the other.
#[pyclass(frozen, weakref, module = "hedgerow")]
pub(crate) struct Transaction {
    path: PathBuf,
    state: RwLock<State>,
    is_writer: bool,
    durability: Option<Durability>,
    /// Where it is noted that there is a write transaction, and the thread that began this one.
    writing: Option<(Writing, ThreadId)>,
    born: Born,
    failures: Arc<Failures>,
    /// How many failures this transaction knows of.
    failed: AtomicU64,
    /// What it had changed was undone because of one, of which the end is to tell.
    is_undone: AtomicBool,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs an expression over the snapshot of a transaction of either kind; meanwhile other threads
/// run. The result is Rust's alone.
macro_rules! look {
    ($txn:expr, $py:expr, |$snapshot:ident| $body:expr) => {{
        let (txn, py) = ($txn, $py);
        let guard = txn.look(py)?;
        let result = match &*guard {
            $crate::txn::State::Read(held, _) => {
                let $snapshot = &**held;
                Some(py.detach(|| $body))
            }
            $crate::txn::State::Write(held, _) => {
                let $snapshot = &**held;
                Some(py.detach(|| $body))
            }
            $crate::txn::State::Closed => None,
        };
        drop(guard);
        txn.passed(py)?;
        match result {
            Some(result) => $crate::errors::OrRaise::or_raise(result, py),
            None => $crate::errors::closed(py, "the transaction"),
        }
    }};
}
pub(crate) use look;

impl Transaction {
    pub(crate) fn read(store: Store, txn: Arc<ReadTxn>, failures: Arc<Failures>) -> Self {
        Self::new(store.path().to_path_buf(), State::Read(txn, store), None, failures)
    }

    /// A write transaction, what its commit promises, and where it is noted that there is one.
    pub(crate) fn write(
        store: Store,
        txn: WriteTxn,
        (durability, writing): (Option<Durability>, Writing),
        failures: Arc<Failures>,
    ) -> Self {
        let (path, state) = (store.path().to_path_buf(), State::Write(Box::new(txn), store));
        let writing = Some((writing, std::thread::current().id()));
        let mut made = Self::new(path, state, writing, failures);
        made.durability = durability;
        made
    }

    fn new(
        path: PathBuf,
        state: State,
        writing: Option<(Writing, ThreadId)>,
        failures: Arc<Failures>,
    ) -> Self {
        let failed = AtomicU64::new(failures.count());
        let (is_writer, state, born) = (writing.is_some(), RwLock::new(state), Born::now());
        let is_undone = AtomicBool::new(false);
        Self {
            path,
            state,
            is_writer,
            durability: None,
            writing,
            born,
            failures,
            failed,
            is_undone,
        }
    }

    /// Where functions of its orders note that they failed.
    pub(crate) fn failures(&self) -> &Arc<Failures> {
        &self.failures
    }

    /// To be asked after each call: raises what the function of an order has raised. A write
    /// transaction is undone then, since what it holds may not be in order.
    #[inline]
    pub(crate) fn passed(&self, py: Python<'_>) -> PyResult<()> {
        match self.failures.count() == self.failed.load(Ordering::Relaxed) {
            true => Ok(()),
            false => self.undo(py),
        }
    }

    #[cold]
    fn undo(&self, py: Python<'_>) -> PyResult<()> {
        self.failed.store(self.failures.count(), Ordering::Relaxed);
        if self.is_writer && !matches!(*self.look(py)?, State::Closed) {
            self.end(py, false)?;
            self.is_undone.store(true, Ordering::Relaxed);
        }
        Err(self.failures.last(py))
    }

    /// The state, to be read. Nothing of Python may run while it is held, except what makes bytes.
    #[inline]
    pub(crate) fn look<'a>(&'a self, py: Python<'_>) -> PyResult<RwLockReadGuard<'a, State>> {
        self.born.check(py)?;
        order::refuse_inside()?;
        Ok(self.state.read_py_attached(py).unwrap_or_else(PoisonError::into_inner))
    }

    /// The state, to be changed. The same holds.
    fn lock<'a>(&'a self, py: Python<'_>) -> PyResult<RwLockWriteGuard<'a, State>> {
        self.born.check(py)?;
        order::refuse_inside()?;
        Ok(self.state.write_py_attached(py).unwrap_or_else(PoisonError::into_inner))
    }

    /// The snapshot of a read transaction; `None` for a write transaction.
    #[inline]
    pub(crate) fn snapshot(&self, py: Python<'_>) -> PyResult<Option<Arc<ReadTxn>>> {
        match &*self.look(py)? {
            State::Read(txn, _) => Ok(Some(Arc::clone(txn))),
            State::Write(..) => Ok(None),
            State::Closed => closed(py, "the transaction"),
        }
    }

    /// The store.
    pub(crate) fn store(&self, py: Python<'_>) -> PyResult<Store> {
        match &*self.look(py)? {
            State::Read(_, store) | State::Write(_, store) => Ok(store.clone()),
            State::Closed => closed(py, "the transaction"),
        }
    }

    /// Changes the store; meanwhile other threads run. With `is_long` Ctrl-C stops it.
    pub(crate) fn change<R: Send>(
        &self,
        py: Python<'_>,
        is_long: bool,
        change: impl FnOnce(&mut WriteTxn) -> hedgerow::Result<R> + Send,
    ) -> PyResult<R> {
        let mut guard = self.lock(py)?;
        let result = match &mut *guard {
            State::Write(txn, store) => {
                let interrupt = is_long.then(|| store.interrupt());
                long::run(py, interrupt.as_ref(), || change(txn))
            }
            State::Read(..) => {
                drop(guard);
                return only_read(py);
            }
            State::Closed => {
                drop(guard);
                return closed(py, "the transaction");
            }
        };
        drop(guard);
        self.passed(py)?;
        result?.or_raise(py)
    }

    /// Changes the store while other threads wait: for what takes less than handing over to them.
    /// Nothing of Python's may run in `change`.
    pub(crate) fn change_here<R>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut WriteTxn) -> PyResult<R>,
    ) -> PyResult<R> {
        let mut guard = self.lock(py)?;
        let result = match &mut *guard {
            State::Write(txn, _) => change(txn),
            State::Read(..) => {
                drop(guard);
                return only_read(py);
            }
            State::Closed => {
                drop(guard);
                return closed(py, "the transaction");
            }
        };
        drop(guard);
        self.passed(py)?;
        result
    }

    /// Reads a write transaction; meanwhile other threads run.
    pub(crate) fn inspect<R: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&WriteTxn) -> hedgerow::Result<R> + Send,
    ) -> PyResult<R> {
        let guard = self.look(py)?;
        let result = match &*guard {
            State::Write(txn, _) => py.detach(|| look(txn)),
            State::Read(..) => Err(hedgerow::Error::WrongTransaction),
            State::Closed => {
                drop(guard);
                return closed(py, "the transaction");
            }
        };
        drop(guard);
        self.passed(py)?;
        result.or_raise(py)
    }

    /// Takes the state out; the transaction is closed then.
    fn take(&self, py: Python<'_>) -> PyResult<State> {
        Ok(std::mem::replace(&mut *self.lock(py)?, State::Closed))
    }

    /// The thread has no write transaction any more. The turn was given back before: what another
    /// thread has noted since stays.
    fn is_done(&self) {
        if let Some((writing, thread)) = &self.writing {
            locked(writing).take_if(|noted| noted == thread);
        }
    }

    fn end(&self, py: Python<'_>, commits: bool) -> PyResult<()> {
        if commits {
            self.passed(py)?;
        }
        let result = match self.take(py)? {
            State::Closed => return closed(py, "the transaction"),
            State::Read(txn, store) => {
                py.detach(|| drop((txn, store)));
                Ok(())
            }
            State::Write(txn, store) if commits => py.detach(|| {
                let result = match self.durability {
                    Some(durability) => txn.commit_with(durability),
                    None => txn.commit(),
                };
                drop(store);
                result
            }),
            State::Write(txn, store) => {
                py.detach(|| drop((txn, store)));
                Ok(())
            }
        };
        self.is_done();
        result.or_raise(py)
    }

    fn infos(&self, py: Python<'_>) -> PyResult<Vec<TableInfo>> {
        look!(self, py, |txn| txn.tables())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !matches!(self.state.get_mut(), Ok(State::Closed)) {
            self.is_done();
        }
    }
}

/// A read transaction is to be written to.
fn only_read<T>(py: Python<'_>) -> PyResult<T> {
    raise(py, "ReadOnlyError", "the transaction is for reading only; Store.write begins another")
}

/// A name of a table: text, or bytes.
pub(crate) fn name_of(name: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    match name.cast::<PyString>() {
        Ok(text) => Ok(text.to_str()?.as_bytes().to_vec()),
        Err(_) => match bytes_of(name) {
            Ok(bytes) => Ok(bytes.into_owned()),
            Err(_) => Err(codec::wrong("str or bytes for a name", name)),
        },
    }
}

/// A name as Python shows it: text where it is, else bytes.
pub(crate) fn name_to<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(name) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => Ok(pyo3::types::PyBytes::new(py, name).into_any()),
    }
}

#[pymethods]
impl Transaction {
    /// Opens a table; in a write transaction, makes it if there is none.
    ///
    /// ``key`` and ``value`` say what keys and values are: ``bytes`` (the default), ``memoryview``,
    /// ``str``, ``int``, ``float``, ``bool``, ``datetime``, or a tuple of these; or an object with
    /// ``dumps`` and ``loads``, such as ``json``. With ``duplicates`` a key has any number of
    /// values, in order.
    ///
    /// ``order`` is the order of the keys and ``value_order`` that of the values of a key:
    /// ``"reverse"`` compares bytes from their ends, ``"integer"`` as little-endian integers, and
    /// ``(name, function)`` orders as ``sorted(..., key=function)`` does. Only the name is stored:
    /// the same function has to be given each time, and it must not use the store. If it raises,
    /// the call that asked for it raises that, and a write transaction is undone and closed.
    #[pyo3(signature = (
        name, key=None, value=None, *, duplicates=false, order=None, value_order=None
    ))]
    fn table(
        slf: &Bound<'_, Self>,
        name: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        duplicates: bool,
        order: Option<&Bound<'_, PyAny>>,
        value_order: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Table> {
        let codecs = Arc::new(Codecs { key: Codec::new(key)?, value: Codec::new(value)? });
        let failures = slf.get().failures();
        let order = order_of(order, Of::Keys, &codecs, failures)?;
        let value_order = order_of(value_order, Of::Values, &codecs, failures)?;
        let orders = Orders { key: order, value: value_order };
        Table::open(slf, name_of(name)?, codecs, duplicates, orders, true)
    }

    /// An existing table of bytes.
    fn __getitem__(slf: &Bound<'_, Self>, name: &Bound<'_, PyAny>) -> PyResult<Table> {
        let name = name_of(name)?;
        let info = look!(slf.get(), slf.py(), |txn| txn.find_table(&name))?;
        let duplicates = info.is_some_and(|info| info.duplicates);
        let codecs = Arc::new(Codecs { key: Codec::Bytes, value: Codec::Bytes });
        Table::open(slf, name, codecs, duplicates, Orders::default(), false)
    }

    fn __contains__(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = name_of(name)?;
        Ok(look!(self, py, |txn| txn.find_table(&name))?.is_some())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(look!(self, py, |txn| Ok(txn.table_count()))? as usize)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.tables(py)?.try_iter()
    }

    /// The names of the tables, in order.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let infos = self.infos(py)?;
        let names = infos.iter().map(|info| name_to(py, &info.name));
        PyList::new(py, names.collect::<PyResult<Vec<_>>>()?)
    }

    /// Drops a table with all that it holds.
    fn __delitem__(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = name_of(name)?;
        let info = look!(self, py, |txn| txn.find_table(&bytes))?;
        let is_long = info.is_some_and(|info| info.count.values > long::ENTRIES);
        if self.change(py, is_long, |txn| txn.drop_table(&bytes))? {
            return Ok(());
        }
        Err(hedgerow::Error::NoTable { name: bytes }).or_raise(py)
    }

    /// Gives a table another name.
    fn rename(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        to: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (from, to) = (name_of(name)?, name_of(to)?);
        self.change(py, false, |txn| txn.rename_table(&from, &to))
    }

    /// What changed in a table since an older transaction of the store: keys, values before, values
    /// after. Pages that both share are not read.
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
        let (old, new) = diff::both(py, old.get().snapshot(py)?, self.snapshot(py)?)?;
        let codecs = diff::codecs(key, value)?;
        let keys = bounds(&codecs.key, start, stop, prefix)?;
        Changes::of_tree(py, (Some(old), new), name_of(name)?, codecs, keys)
    }

    /// The tables that differ from an older transaction of the store, each with ``"added"``,
    /// ``"removed"`` or ``"changed"``.
    fn changed_tables<'py>(
        &self,
        py: Python<'py>,
        old: &Bound<'_, Self>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (old, new) = diff::both(py, old.get().snapshot(py)?, self.snapshot(py)?)?;
        named(py, &py.detach(|| Diff::tables(&old, &new)).or_raise(py)?)
    }

    /// A place to go back to: used in a ``with`` statement it is a nested transaction, which an
    /// exception undoes.
    fn savepoint(slf: &Bound<'_, Self>) -> PyResult<Savepoint> {
        let place = slf.get().change(slf.py(), false, WriteTxn::savepoint)?;
        let is_open = AtomicBool::new(true);
        Ok(Savepoint { txn: slf.clone().unbind(), place, is_open })
    }

    /// Makes the changes part of the store. A read transaction ends.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, true)
    }

    /// Ends the transaction without a trace. Does nothing if it has ended.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.is_undone.store(false, Ordering::Relaxed);
        let is_closed = matches!(*self.look(py)?, State::Closed);
        if is_closed { Ok(()) } else { self.end(py, false) }
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        match *slf.get().look(slf.py())? {
            State::Closed => {}
            _ => return Ok(slf.clone()),
        }
        closed(slf.py(), "the transaction")
    }

    /// Commits; after an exception it aborts. ``ClosedError`` if there is nothing left to commit,
    /// since the function of an order raised and the transaction was undone.
    #[pyo3(signature = (kind, *raised))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        raised: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        if self.born.lets_pass(raised) {
            return Ok(());
        }
        if !matches!(*self.look(py)?, State::Closed) {
            return self.end(py, kind.is_none());
        }
        if kind.is_none() && self.is_undone.swap(false, Ordering::Relaxed) {
            let what = "the function of an order raised, and all that the transaction had changed \
                        was undone";
            return raise(py, "ClosedError", what);
        }
        Ok(())
    }

    /// The number of the commit that it reads, or will make.
    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<u64> {
        match &*self.look(py)? {
            State::Read(txn, _) => Ok(txn.id()),
            State::Write(txn, _) => Ok(txn.id()),
            State::Closed => closed(py, "the transaction"),
        }
    }

    /// Whether it can change the store.
    #[getter]
    fn is_writer(&self) -> bool {
        self.is_writer
    }

    /// What a notebook shows: the tables.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let title = html::escaped(&self.__repr__(py));
        Ok(format!("<div>{title}{}</div>", html::tables(&self.infos(py)?)))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let kind = if self.is_writer { "write" } else { "read" };
        let path = self.path.display();
        let Ok(state) = self.look(py) else { return format!("<{kind} transaction of {path}>") };
        match &*state {
            State::Read(txn, _) => format!("<{kind} transaction of {path}, commit {}>", txn.id()),
            State::Write(txn, _) => format!("<{kind} transaction of {path}, commit {}>", txn.id()),
            State::Closed => format!("<{kind} transaction of {path}, closed>"),
        }
    }
}

/// A place in a write transaction to go back to. In a ``with`` statement it is a nested
/// transaction: an exception undoes what was done inside.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct Savepoint {
    txn: Py<Transaction>,
    place: tree::Savepoint,
    is_open: AtomicBool,
}

#[pymethods]
impl Savepoint {
    /// Undoes everything since; the savepoint stays.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.txn.get().change(py, false, |txn| txn.rollback_to(self.place))
    }

    /// Forgets the savepoint, and later ones; the changes stay.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_open.swap(false, Ordering::AcqRel) {
            return raise(py, "ClosedError", "the savepoint is released");
        }
        self.txn.get().change(py, false, |txn| txn.release(self.place))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind, *raised))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        raised: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        if self.txn.get().born.lets_pass(raised) {
            return Ok(());
        }
        if !self.is_open.load(Ordering::Acquire) {
            return Ok(());
        }
        if kind.is_some() {
            // After the transaction's end nothing is left to undo: the exception counts.
            if matches!(*self.txn.get().look(py)?, State::Closed) {
                return Ok(());
            }
            self.rollback(py)?;
        }
        self.release(py)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = if self.is_open.load(Ordering::Acquire) { "" } else { ", released" };
        format!(
            "<hedgerow.Savepoint in a {}{state}>",
            self.txn.get().__repr__(py).trim_matches(['<', '>'])
        )
    }
}
