//! The adapter of SQLite: a small safe layer over the system's library.
//!
//! Settings: a table `WITHOUT ROWID`, write-ahead log, `synchronous=FULL` for durable commits and
//! `OFF` for others, a cache of 4 GiB if none is asked for, memory map of all of it, prepared
//! statements. Each transaction takes a connection out of a pool.
#![expect(unsafe_code, reason = "a C library")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::{ptr, slice};

use hedgerow::tree::Bytes;

use super::library::{self, functions};
use crate::engine::{Cursor, Engine, Promise, Reader, Result, Table, Unsupported, Writer};

/// The default size of the cache in bytes.
const CACHE: usize = 4 << 30;
const ROW: c_int = 100;
const DONE: c_int = 101;
/// Read and write, create, a connection for one thread at a time.
const OPEN_FLAGS: c_int = 0x2 | 0x4 | 0x8000;

type Handle = *mut c_void;

functions! {
    open_v2: fn(*const c_char, *mut Handle, c_int, *const c_char) -> c_int;
    close_v2: fn(Handle) -> c_int;
    busy_timeout: fn(Handle, c_int) -> c_int;
    errmsg: fn(Handle) -> *const c_char;
    prepare_v2: fn(Handle, *const c_char, c_int, *mut Handle, *mut *const c_char) -> c_int;
    finalize: fn(Handle) -> c_int;
    bind_blob: fn(Handle, c_int, *const u8, c_int, isize) -> c_int;
    step: fn(Handle) -> c_int;
    reset: fn(Handle) -> c_int;
    column_blob: fn(Handle, c_int) -> *const u8;
    column_bytes: fn(Handle, c_int) -> c_int;
    column_int64: fn(Handle, c_int) -> i64;
}

/// The statements of a connection, in the order of [`STATEMENTS`].
#[derive(Clone, Copy)]
enum Statement {
    Get,
    From,
    Len,
    Put,
    Delete,
    DeleteRange,
    Begin,
    BeginWrite,
    Commit,
    Rollback,
    SyncFull,
    SyncOff,
}

const STATEMENTS: [&CStr; 12] = [
    c"SELECT v FROM t WHERE k = ?",
    c"SELECT k, v FROM t WHERE k >= ? ORDER BY k",
    c"SELECT count(*) FROM t",
    c"INSERT OR REPLACE INTO t VALUES (?, ?)",
    c"DELETE FROM t WHERE k = ?",
    c"DELETE FROM t WHERE k >= ? AND k < ?",
    c"BEGIN",
    c"BEGIN IMMEDIATE",
    c"COMMIT",
    c"ROLLBACK",
    c"PRAGMA synchronous = FULL",
    c"PRAGMA synchronous = OFF",
];

/// A connection with its statements. Used by one thread at a time.
struct Connection {
    raw: Handle,
    statements: Vec<Handle>,
}

// SAFETY: SQLite lets a connection wander between threads that use it one after the other, which
// the pool sees to.
unsafe impl Send for Connection {}

/// A database file and the connections that are not in use.
pub(crate) struct Database {
    functions: Functions,
    path: CString,
    cache: usize,
    idle: Mutex<Vec<Connection>>,
}

impl Database {
    fn check(&self, raw: Handle, code: c_int) -> Result<()> {
        if matches!(code, 0 | ROW | DONE) {
            return Ok(());
        }
        // SAFETY: the connection is live; the message ends with a zero.
        let text = unsafe { CStr::from_ptr((self.functions.errmsg)(raw)) };
        Err(format!("SQLite: {} ({code})", text.to_string_lossy()).into())
    }

    fn prepare(&self, raw: Handle, text: &CStr) -> Result<Handle> {
        let mut statement = ptr::null_mut();
        // SAFETY: the connection is live, the text ends with a zero, `statement` takes the handle.
        let code = unsafe {
            let rest = ptr::null_mut();
            (self.functions.prepare_v2)(raw, text.as_ptr(), -1, &raw mut statement, rest)
        };
        self.check(raw, code)?;
        Ok(statement)
    }

    /// Runs a statement once, whatever it returns.
    fn execute(&self, raw: Handle, text: &str) -> Result<()> {
        let statement = self.prepare(raw, &CString::new(text)?)?;
        // SAFETY: the statement is new and live.
        let code = unsafe {
            let code = (self.functions.step)(statement);
            (self.functions.finalize)(statement);
            code
        };
        self.check(raw, code)
    }

    /// A connection out of the pool, or a new one.
    fn take(&self) -> Result<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let mut raw = ptr::null_mut();
        // SAFETY: the path ends with a zero; `raw` takes the handle, also where it fails.
        let code = unsafe {
            let path = self.path.as_ptr();
            (self.functions.open_v2)(path, &raw mut raw, OPEN_FLAGS, ptr::null())
        };
        self.check(raw, code)?;
        // SAFETY: the connection is live.
        unsafe { (self.functions.busy_timeout)(raw, 60_000) };
        self.execute(raw, "PRAGMA page_size = 4096")?;
        self.execute(raw, "PRAGMA journal_mode = WAL")?;
        self.execute(raw, &format!("PRAGMA cache_size = -{}", self.cache >> 10))?;
        self.execute(raw, "PRAGMA mmap_size = 34359738368")?;
        self.execute(
            raw,
            "CREATE TABLE IF NOT EXISTS t (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID",
        )?;
        let statements = STATEMENTS.iter().map(|text| self.prepare(raw, text));
        Ok(Connection { raw, statements: statements.collect::<Result<_>>()? })
    }

    fn give_back(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    fn close(&self, connection: &Connection) {
        // SAFETY: the handles are live, and not used elsewhere.
        unsafe {
            for statement in &connection.statements {
                (self.functions.finalize)(*statement);
            }
            (self.functions.close_v2)(connection.raw);
        }
    }

    fn with<T>(&self, begin: Statement, work: impl FnOnce(&On<'_>) -> Result<T>) -> Result<T> {
        let on = On { database: self, connection: self.take()? };
        on.run(begin, &[])?;
        let answer = work(&on);
        let ended =
            on.run(if answer.is_ok() { Statement::Commit } else { Statement::Rollback }, &[]);
        self.give_back(on.connection);
        ended.and(answer)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).split_off(0);
        idle.iter().for_each(|connection| self.close(connection));
    }
}

impl Engine for Database {
    type Reader<'e> = On<'e>;
    type Writer<'e> = Changing<'e>;

    fn open(folder: &Path, memory: Option<usize>) -> Result<Self> {
        let library = library::load(&["libsqlite3.so.0", "libsqlite3.so"], "libsqlite3-0")?;
        let functions = Functions::load(library, "sqlite3")?;
        let path = CString::new(folder.join("data.db").as_os_str().as_bytes())?;
        let cache = memory.unwrap_or(CACHE);
        Ok(Self { functions, path, cache, idle: Mutex::default() })
    }

    fn read<T>(&self, _table: Table, work: impl FnOnce(&On<'_>) -> Result<T>) -> Result<T> {
        self.with(Statement::Begin, work)
    }

    fn write<T>(
        &self,
        table: Table,
        promise: Promise,
        work: impl FnOnce(&mut Changing<'_>) -> Result<T>,
    ) -> Result<T> {
        if table.duplicates {
            return Err(Unsupported("several values of a key").into());
        }
        let connection = self.take()?;
        let mut changing = Changing(On { database: self, connection });
        let durable = promise == Promise::Durable;
        let sync = if durable { Statement::SyncFull } else { Statement::SyncOff };
        changing.0.run(sync, &[])?;
        changing.0.run(Statement::BeginWrite, &[])?;
        let answer = work(&mut changing)?;
        changing.0.run(Statement::Commit, &[])?;
        self.give_back(changing.0.connection);
        Ok(answer)
    }

    fn compact(self, _folder: &Path) -> Result<Self> {
        let connection = self.take()?;
        self.execute(connection.raw, "VACUUM")?;
        self.execute(connection.raw, "PRAGMA wal_checkpoint(TRUNCATE)")?;
        self.give_back(connection);
        Ok(self)
    }
}

/// A transaction on its connection.
pub(crate) struct On<'d> {
    database: &'d Database,
    connection: Connection,
}

impl On<'_> {
    /// Binds and makes the first step; true if there is a row.
    fn start(&self, statement: Statement, strings: &[&[u8]]) -> Result<bool> {
        let functions = &self.database.functions;
        let raw = self.connection.statements[statement as usize];
        for (at, string) in (1..).zip(strings) {
            let len = c_int::try_from(string.len())?;
            // SAFETY: the statement is live and reset; it is stepped only while the strings live,
            // or bound anew before (0 says that they are not copied).
            let code = unsafe { (functions.bind_blob)(raw, at, string.as_ptr(), len, 0) };
            self.database.check(self.connection.raw, code)?;
        }
        self.step(raw)
    }

    fn step(&self, raw: Handle) -> Result<bool> {
        // SAFETY: the statement is live.
        let code = unsafe { (self.database.functions.step)(raw) };
        self.database.check(self.connection.raw, code)?;
        Ok(code == ROW)
    }

    fn reset(&self, statement: Statement) {
        // SAFETY: the statement is live.
        unsafe { (self.database.functions.reset)(self.connection.statements[statement as usize]) };
    }

    /// Runs a statement without results.
    fn run(&self, statement: Statement, strings: &[&[u8]]) -> Result<()> {
        let done = self.start(statement, strings);
        self.reset(statement);
        done.map(drop)
    }

    /// A column of the row that a statement stands on.
    fn column(&self, statement: Statement, column: c_int) -> &[u8] {
        let raw = self.connection.statements[statement as usize];
        // SAFETY: the statement stands on a row; the bytes stay until it is moved.
        unsafe {
            let bytes = (self.database.functions.column_blob)(raw, column);
            let len = (self.database.functions.column_bytes)(raw, column);
            if bytes.is_null() { &[] } else { slice::from_raw_parts(bytes, len as usize) }
        }
    }
}

impl Reader for On<'_> {
    type Cursor<'r>
        = Rows<'r>
    where
        Self: 'r;

    fn get<T>(&self, key: &[u8], see: impl FnOnce(Bytes<'_>) -> T) -> Result<Option<T>> {
        let found = self.start(Statement::Get, &[key]);
        let seen = matches!(found, Ok(true)).then(|| see(self.column(Statement::Get, 0).into()));
        self.reset(Statement::Get);
        found.map(|_| seen)
    }

    fn cursor(&self) -> Result<Rows<'_>> {
        Ok(Rows { on: self, low: Vec::new(), began: false })
    }

    fn len(&self) -> Result<u64> {
        self.start(Statement::Len, &[])?;
        let raw = self.connection.statements[Statement::Len as usize];
        // SAFETY: the statement stands on a row.
        let len = unsafe { (self.database.functions.column_int64)(raw, 0) };
        self.reset(Statement::Len);
        Ok(u64::try_from(len)?)
    }
}

/// The rows from a key on; there is one cursor a transaction.
pub(crate) struct Rows<'r> {
    on: &'r On<'r>,
    /// What the statement is bound to.
    low: Vec<u8>,
    began: bool,
}

impl Rows<'_> {
    fn row(&self, there: bool) -> Option<(Bytes<'_>, Bytes<'_>)> {
        let column = |column| self.on.column(Statement::From, column).into();
        there.then(|| (column(0), column(1)))
    }

    fn start(&mut self) -> Result<bool> {
        self.on.reset(Statement::From);
        self.began = true;
        self.on.start(Statement::From, &[&self.low])
    }
}

impl Cursor for Rows<'_> {
    fn next(&mut self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        let there = if self.began {
            self.on.step(self.on.connection.statements[Statement::From as usize])?
        } else {
            self.start()?
        };
        Ok(self.row(there))
    }

    fn seek(&mut self, key: &[u8]) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        self.on.reset(Statement::From);
        self.low.clear();
        self.low.extend_from_slice(key);
        let there = self.start()?;
        Ok(self.row(there))
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        self.on.reset(Statement::From);
    }
}

/// A write transaction.
pub(crate) struct Changing<'d>(On<'d>);

impl Writer for Changing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.run(Statement::Put, &[key, value])
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.0.run(Statement::Delete, &[key])
    }

    fn delete_range(&mut self, low: &[u8], high: &[u8]) -> Result<()> {
        self.0.run(Statement::DeleteRange, &[low, high])
    }
}
