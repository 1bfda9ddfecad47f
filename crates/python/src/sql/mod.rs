//! SQL on a store: SQLite whose tables live in stores does it, this hands values over.

mod columns;
mod rows;
mod turn;
mod values;

pub(crate) use rows::{Rows, RowsIterator};

use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hedgerow::tree;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyTuple;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection, ErrorCode, InterruptHandle, OpenFlags, Statement};
use sqlite as _;

use crate::errors::{closed, raise};
use crate::fork::Born;
use crate::long;
use crate::txn::{Writing, locked};
use rows::Found;
use turn::{Raised, Turn, signals};
use values::Parameters;

/// A connection of SQLite's to a store. Made by ``Store.connect``; used in a ``with`` statement, it
/// is closed at the end.
///
/// Each statement is a transaction of its own, unless there was a ``begin`` before. What SQL makes
/// are tables of SQLite's beside the store's own, which it sees as virtual tables: ``create virtual
/// table words using hedgerow('words')``. Any thread may use it; calls come one after the other.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct Sql {
    open: Mutex<Option<(Connection, Turn)>>,
    raised: Raised,
    stop: Stop,
    path: PathBuf,
    born: Born,
}

/// What ends a statement that runs.
struct Stop {
    sqlite: InterruptHandle,
    /// Whether a statement that waits for the writer's turn shall end.
    waiting: Arc<AtomicBool>,
}

impl Drop for Sql {
    fn drop(&mut self) {
        if !self.born.is_here() {
            mem::forget(locked(&self.open).take());
        }
    }
}

/// This many steps of SQLite's machine are made before signals are looked for.
const STEPS: i32 = 20_000;

/// SQLite itself waits no longer for the turn, which was free a moment ago.
const BUSY_MAX: Duration = Duration::from_millis(100);

/// This many sets of parameters are taken over at a time.
const MANY: usize = 1_000;

impl Sql {
    /// Opens a store once more. Statements wait for another writer as long as is said here.
    pub(crate) fn open(
        py: Python<'_>,
        store: tree::Store,
        writing: Writing,
        timeout: f64,
    ) -> PyResult<Self> {
        if store.is_in_memory() {
            let reason =
                "SQL needs a store in a file: copy this one with copy(path), and open that";
            return Err(PyValueError::new_err(reason));
        }
        let access = match store.is_read_only() {
            true => OpenFlags::SQLITE_OPEN_READ_ONLY,
            false => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        let timeout = Duration::try_from_secs_f64(timeout)
            .map_err(|_| PyValueError::new_err("the timeout is no time to wait"))?;
        // More than that SQLite does not wait.
        let timeout = timeout.min(Duration::from_secs(1 << 20));
        let path = store.path().to_path_buf();
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let (raised, mut last) = (Raised::default(), Instant::now());
        let opened = py.detach(|| Connection::open_with_flags(&path, flags)).and_then(|mut db| {
            db.busy_timeout(timeout.min(BUSY_MAX))?;
            let raised = Arc::clone(&raised);
            let look = move || {
                if !long::is_main_thread() || last.elapsed() < long::ROUND {
                    return false;
                }
                last = Instant::now();
                signals(&raised)
            };
            db.progress_handler(STEPS, Some(look))?;
            Ok(db)
        });
        match opened {
            Ok(db) => {
                let waiting = Arc::<AtomicBool>::default();
                let stop = Stop { sqlite: db.get_interrupt_handle(), waiting };
                let (signals, waiting) = (Arc::clone(&raised), Arc::clone(&stop.waiting));
                let turn = Turn { store, writing, timeout, raised: signals, waiting };
                let open = Mutex::new(Some((db, turn)));
                Ok(Self { open, raised, stop, path, born: Born::now() })
            }
            Err(error) => fail(py, &error),
        }
    }

    /// Whether this is the process in which it was opened.
    pub(crate) fn is_here(&self) -> bool {
        self.born.is_here()
    }

    fn lock<'a>(&'a self, py: Python<'_>) -> PyResult<MutexGuard<'a, Option<(Connection, Turn)>>> {
        self.born.check(py)?;
        Ok(self.open.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs a call of SQLite's; meanwhile other threads run.
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Connection, &Turn) -> rusqlite::Result<R> + Send,
    ) -> PyResult<R> {
        let mut open = self.lock(py)?;
        self.stop.waiting.store(false, Ordering::Relaxed);
        let result = open.as_mut().map(|(db, turn)| py.detach(|| call(db, turn)));
        drop(open);
        match result {
            None => closed(py, "the connection"),
            Some(Ok(result)) => Ok(result),
            Some(Err(error)) => match locked(&self.raised).take() {
                Some(raised) => Err(raised),
                None => fail(py, &error),
            },
        }
    }

    /// Runs a statement that leaves no transaction open.
    pub(crate) fn alone(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Rows> {
        let found = self.execute(py, sql, parameters)?;
        let was_left = self.run(py, |db, _| match db.is_autocommit() {
            true => Ok(false),
            false => db.execute_batch("rollback").map(|()| true),
        })?;
        if was_left {
            let reason = "a transaction of several statements needs a connection: Store.connect";
            return raise(py, "SqlError", reason);
        }
        Ok(found)
    }

    fn put_many(&self, py: Python<'_>, sql: &str, parameters: &Bound<'_, PyAny>) -> PyResult<u64> {
        let (mut given, mut changed) = (parameters.try_iter()?, 0);
        loop {
            let next = given.by_ref().take(MANY).map(|given| Parameters::new(Some(&given?)));
            let next = next.collect::<PyResult<Vec<_>>>()?;
            if next.is_empty() {
                return Ok(changed);
            }
            changed += self.run(py, |db, turn| {
                let (mut statement, before) = (single(db, sql)?, db.total_changes());
                turn.wait(db, &statement)?;
                for parameters in &next {
                    parameters.bind(&mut statement)?;
                    let mut rows = statement.raw_query();
                    while rows.next()?.is_some() {}
                }
                Ok(db.total_changes() - before)
            })?;
        }
    }
}

/// The one statement of a text.
fn single<'c>(db: &'c Connection, sql: &str) -> rusqlite::Result<Statement<'c>> {
    db.prepare(sql).map_err(|error| match Batch::new(db, sql).next() {
        // The first one is right: another one follows, which may need what that makes.
        Ok(Some(_)) => rusqlite::Error::MultipleStatement,
        _ => error,
    })
}

/// Runs statements, one after the other.
fn batch(db: &Connection, turn: &Turn, sql: &str) -> rusqlite::Result<()> {
    let mut batch = Batch::new(db, sql);
    while let Some(mut statement) = batch.next()? {
        turn.wait(db, &statement)?;
        let mut rows = statement.raw_query();
        while rows.next()?.is_some() {}
    }
    Ok(())
}

/// Raises what SQLite says.
fn fail<T>(py: Python<'_>, error: &rusqlite::Error) -> PyResult<T> {
    let code = error.sqlite_error_code();
    if code == Some(ErrorCode::ApiMisuse) {
        return raise(py, "SqlError", "there is no statement");
    }
    if matches!(error, rusqlite::Error::MultipleStatement) {
        let reason = "there is more than one statement: Sql.script runs them one after the other";
        return raise(py, "SqlError", reason);
    }
    let class = match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "LockedError",
        Some(ErrorCode::ReadOnly) => "ReadOnlyError",
        Some(ErrorCode::DiskFull) => "FullError",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => "DamagedError",
        Some(ErrorCode::SystemIoFailure) => "FileError",
        Some(ErrorCode::OperationInterrupted) => "InterruptedError",
        _ => "SqlError",
    };
    raise(py, class, &error.to_string())
}

#[pymethods]
impl Sql {
    /// Runs a statement and gives its rows. ``parameters`` are a sequence for ``?``, or a dict for
    /// ``:name``.
    #[pyo3(signature = (sql, parameters=None))]
    fn execute(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Rows> {
        let parameters = Parameters::new(parameters.filter(|given| !given.is_none()))?;
        let found = self.run(py, |db, turn| Found::of(db, turn, sql, &parameters))?;
        Ok(Rows::new(found))
    }

    /// Runs a statement once for each of many parameters, in one transaction unless one is open;
    /// answers how many rows it has changed.
    fn execute_many(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let is_own = self.run(py, |db, turn| match db.is_autocommit() {
            true => batch(db, turn, "begin immediate").map(|()| true),
            false => Ok(false),
        })?;
        let result = self.put_many(py, sql, parameters);
        if is_own {
            let end = if result.is_ok() { "commit" } else { "rollback" };
            let ended = self.run(py, |db, _| match db.is_autocommit() {
                // SQLite has ended it by itself.
                true => Ok(()),
                false => db.execute_batch(end).inspect_err(|_| drop(db.execute_batch("rollback"))),
            });
            if result.is_ok() {
                ended?;
            }
        }
        result
    }

    /// Runs statements, one after the other.
    fn script(&self, py: Python<'_>, sql: &str) -> PyResult<()> {
        self.run(py, |db, turn| batch(db, turn, sql))
    }

    /// Ends the statement that another thread runs just now, if there is one, with
    /// ``InterruptedError``. Does not wait for that.
    fn interrupt(&self, py: Python<'_>) -> PyResult<()> {
        self.born.check(py)?;
        self.stop.waiting.store(true, Ordering::Relaxed);
        self.stop.sqlite.interrupt();
        Ok(())
    }

    /// Closes it. A transaction that is open leaves no trace.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        let taken = self.lock(py)?.take();
        py.detach(|| drop(taken));
        Ok(())
    }

    /// Whether a transaction is open.
    #[getter]
    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        self.run(py, |db, _| Ok(!db.is_autocommit()))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        if self.born.lets_pass(raised) { Ok(()) } else { self.close(py) }
    }

    fn __repr__(&self) -> String {
        let path = self.path.display();
        // Another thread may be at work.
        let state = match self.open.try_lock() {
            Ok(open) if open.is_none() => ", closed",
            _ => "",
        };
        format!("<hedgerow.Sql of {path}{state}>")
    }
}
