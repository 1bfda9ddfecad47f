//! The functions through which SQLite uses plain tables as virtual ones, and those through which
//! `ranks.c` counts them.

#![expect(unsafe_code, reason = "the functions of a C interface, which get pointers")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use libsqlite3_sys as sys;

use super::plan::best_index;
use super::scan::EQUAL;
use super::{Declaration, Outcome, Plain, Problem, Scan, Value};
use crate::conn::{Body, Conn};
use crate::opening::Mode;

#[expect(improper_ctypes, reason = "only this library looks at what the pointer leads to")]
unsafe extern "C" {
    /// The connection to the store of a database of SQLite's; null if it has none.
    fn hg_conn(db: *mut sys::sqlite3, name: *const c_char) -> *mut Conn;
    /// Whether a connection compares texts as UTF-8.
    fn hg_is_utf8(db: *mut sys::sqlite3) -> c_int;
}

/// A virtual table.
#[repr(C)]
struct Virtual {
    base: sys::sqlite3_vtab,
    db: *mut sys::sqlite3,
    /// The database of the connection that has the table.
    schema: CString,
    /// Another store; `None` for a table of the store of that database.
    other: Option<Arc<Other>>,
    plain: Plain,
}

/// A store that virtual tables of one connection of SQLite's share, and so its transactions.
struct Other {
    /// The connection of SQLite's, and the store.
    owner: (usize, [u8; 16]),
    inner: Mutex<Inner>,
}

/// The connection to such a store, and the cursors that are open.
struct Inner {
    conn: Conn,
    scans: usize,
}

impl Other {
    /// The connection of `db` to the store of a file.
    fn open(db: *mut sys::sqlite3, file: &str) -> Outcome<Arc<Self>> {
        static ALL: Mutex<Vec<Weak<Other>>> = Mutex::new(Vec::new());
        let open = |mode| Conn::open(Path::new(file), mode);
        // As SQLite does where it may not write.
        let opened = open(Mode::Write).or_else(|code| open(Mode::ReadOnly).map_err(|_| code));
        let conn = opened
            .map_err(|code| Problem::new(code, format!("could not open the store {file}")))?;
        let owner = (db as usize, conn.store().id());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        let known = all.iter().filter_map(Weak::upgrade).find(|other| other.owner == owner);
        Ok(known.unwrap_or_else(|| {
            let other = Arc::new(Self { owner, inner: Mutex::new(Inner { conn, scans: 0 }) });
            all.push(Arc::downgrade(&other));
            other
        }))
    }

    /// Runs something on the connection and its number of cursors.
    fn with<T>(&self, f: impl FnOnce(&mut Conn, &mut usize) -> T) -> T {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { conn, scans } = &mut *inner;
        f(conn, scans)
    }
}

/// A cursor of SQLite's on one.
#[repr(C)]
struct Walk {
    base: sys::sqlite3_vtab_cursor,
    scan: Scan,
}

impl Virtual {
    /// Runs something on the connection to the store, and the table.
    fn on<T>(&self, f: impl FnOnce(&mut Conn, &Plain) -> Outcome<T>) -> Outcome<T> {
        match &self.other {
            Some(other) => other.with(|conn, _| f(conn, &self.plain)),
            None => f(own(self.db, &self.schema)?, &self.plain),
        }
    }
}

/// The connection to the store of a database of SQLite's.
fn own<'c>(db: *mut sys::sqlite3, schema: &CStr) -> Outcome<&'c mut Conn> {
    // SAFETY: the handle lives as long as its virtual tables; nothing else uses the connection to
    // the store while SQLite calls these functions.
    unsafe { hg_conn(db, schema.as_ptr()).as_mut() }.ok_or_else(not_a_store)
}

fn not_a_store() -> Problem {
    Problem::error("the database is no store; name the file of one: hedgerow('file', 'table')")
}

/// A text as SQLite frees it.
fn text(text: &str) -> *mut c_char {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // SAFETY: both are strings that end with a zero.
    unsafe { sys::sqlite3_mprintf(c"%s".as_ptr(), text.as_ptr()) }
}

/// Runs a call; a panic, which would be an error in this library, does not reach C.
fn run<T>(f: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let caught = catch_unwind(AssertUnwindSafe(f));
    caught.unwrap_or_else(|_| Err(sys::SQLITE_INTERNAL.into()))
}

/// The same on a virtual table, which says what is wrong.
///
/// # Safety
/// The pointer is that of a [`Virtual`], to which nothing else refers.
unsafe fn on_table(
    table: *mut sys::sqlite3_vtab,
    f: impl FnOnce(&mut Virtual) -> Outcome,
) -> c_int {
    // SAFETY: as the caller says.
    let table = unsafe { &mut *table.cast::<Virtual>() };
    match run(|| f(table)) {
        Ok(()) => sys::SQLITE_OK,
        Err(problem) => {
            if let Some(said) = problem.text {
                // SAFETY: SQLite takes it away, or it is one of these texts.
                unsafe { sys::sqlite3_free(table.base.zErrMsg.cast()) };
                table.base.zErrMsg = text(&said);
            }
            problem.code
        }
    }
}

/// The same on a cursor and its table.
///
/// # Safety
/// The pointer is that of a [`Walk`] of a live table, to which nothing else refers.
unsafe fn on_walk(
    cursor: *mut sys::sqlite3_vtab_cursor,
    f: impl FnOnce(&mut Virtual, &mut Scan) -> Outcome,
) -> c_int {
    // SAFETY: as the caller says.
    let walk = unsafe { &mut *cursor.cast::<Walk>() };
    // SAFETY: SQLite has set it to the table that opened the cursor.
    unsafe { on_table(walk.base.pVtab, |table| f(table, &mut walk.scan)) }
}

/// A value of SQLite's.
///
/// # Safety
/// It lives during the call.
unsafe fn value<'v>(value: *mut sys::sqlite3_value) -> Value<'v> {
    // SAFETY: as the caller says; the bytes are asked for as what they are.
    unsafe {
        let bytes = |data: *const u8| {
            let len = sys::sqlite3_value_bytes(value);
            if data.is_null() { &[] } else { std::slice::from_raw_parts(data, len as usize) }
        };
        match sys::sqlite3_value_type(value) {
            sys::SQLITE_INTEGER => Value::Integer(sys::sqlite3_value_int64(value)),
            sys::SQLITE_FLOAT => {
                let number = sys::sqlite3_value_double(value);
                Value::Real(number, bytes(sys::sqlite3_value_text(value)))
            }
            sys::SQLITE_TEXT => Value::Text(bytes(sys::sqlite3_value_text(value))),
            sys::SQLITE_BLOB => Value::Blob(bytes(sys::sqlite3_value_blob(value).cast())),
            _ => Value::Null,
        }
    }
}

/// Values of SQLite's.
///
/// # Safety
/// There are as many, and they live during the call.
unsafe fn values<'v>(count: c_int, all: *mut *mut sys::sqlite3_value) -> Vec<Value<'v>> {
    // SAFETY: as the caller says.
    (0..count as usize).map(|at| unsafe { value(*all.add(at)) }).collect()
}

/// Gives a value to SQLite, which makes a copy.
///
/// # Safety
/// The context is that of the call.
unsafe fn give(context: *mut sys::sqlite3_context, value: Value<'_>) {
    let copy = sys::SQLITE_TRANSIENT();
    // SAFETY: as the caller says; lengths are those of the bytes.
    unsafe {
        match value {
            Value::Null => sys::sqlite3_result_null(context),
            Value::Integer(number) => sys::sqlite3_result_int64(context, number),
            Value::Real(number, _) => sys::sqlite3_result_double(context, number),
            Value::Text(bytes) => sys::sqlite3_result_text64(
                context,
                bytes.as_ptr().cast(),
                bytes.len() as u64,
                copy,
                sys::SQLITE_UTF8 as u8,
            ),
            Value::Blob(bytes) => {
                sys::sqlite3_result_blob64(
                    context,
                    bytes.as_ptr().cast(),
                    bytes.len() as u64,
                    copy,
                );
            }
        }
    }
}

/// Makes a virtual table, or connects to one.
unsafe fn connect(
    (db, count, arguments): (*mut sys::sqlite3, c_int, *const *const c_char),
    to: *mut *mut sys::sqlite3_vtab,
    error: *mut *mut c_char,
    makes: bool,
) -> c_int {
    let made = run(|| {
        let argument = |at: c_int| {
            // SAFETY: there are as many strings.
            unsafe { CStr::from_ptr(*arguments.add(at as usize)) }
        };
        let words = (3..count).map(|at| argument(at).to_str().unwrap_or("\u{fffd}"));
        let declared = Declaration::read(words)?;
        let schema = argument(1).to_owned();
        let other = declared.file.as_deref().map(|file| Other::open(db, file)).transpose()?;
        // SAFETY: the handle is that of the call.
        let is_utf8 = unsafe { hg_is_utf8(db) } != 0;
        let look = |conn: &mut Conn, makes| {
            reading(conn, |conn| Plain::open(conn, &declared, makes, is_utf8))
        };
        let plain = match &other {
            Some(other) => other.with(|conn, _| look(conn, false))?,
            None => look(own(db, &schema)?, makes)?,
        };
        let declaration = CString::new(plain.declaration()).unwrap_or_default();
        // SAFETY: the handle is that of the call; the text ends with a zero. The option says that
        // conflicts are treated as the statement asks.
        let code = unsafe {
            sys::sqlite3_vtab_config(db, sys::SQLITE_VTAB_CONSTRAINT_SUPPORT, 1_i32);
            sys::sqlite3_declare_vtab(db, declaration.as_ptr())
        };
        if code != sys::SQLITE_OK {
            return Err(code.into());
        }
        let base = sys::sqlite3_vtab { pModule: ptr::null(), nRef: 0, zErrMsg: ptr::null_mut() };
        Ok(Box::new(Virtual { base, db, schema, other, plain }))
    });
    match made {
        Ok(table) => {
            // SAFETY: it is where the table goes.
            unsafe { *to = Box::into_raw(table).cast() };
            sys::SQLITE_OK
        }
        Err(problem) => {
            if let Some(said) = problem.text {
                // SAFETY: it is where the message goes.
                unsafe { *error = text(&said) };
            }
            problem.code
        }
    }
}

/// Runs something in the transaction that there is, or in one that reads.
fn reading<T>(conn: &mut Conn, f: impl FnOnce(&mut Conn) -> Outcome<T>) -> Outcome<T> {
    let begins = matches!(conn.body, Body::None);
    if begins {
        conn.begin_read()?;
    }
    let done = f(conn);
    if begins {
        conn.end_read();
    }
    done
}

unsafe extern "C" fn x_create(
    db: *mut sys::sqlite3,
    _: *mut c_void,
    count: c_int,
    arguments: *const *const c_char,
    to: *mut *mut sys::sqlite3_vtab,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: the arguments are SQLite's.
    unsafe { connect((db, count, arguments), to, error, true) }
}

unsafe extern "C" fn x_connect(
    db: *mut sys::sqlite3,
    _: *mut c_void,
    count: c_int,
    arguments: *const *const c_char,
    to: *mut *mut sys::sqlite3_vtab,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: the arguments are SQLite's.
    unsafe { connect((db, count, arguments), to, error, false) }
}

unsafe extern "C" fn x_disconnect(table: *mut sys::sqlite3_vtab) -> c_int {
    // SAFETY: it is one of `connect`, and not used again.
    let table = unsafe { Box::from_raw(table.cast::<Virtual>()) };
    let _ = run(|| {
        drop(table);
        Ok(())
    });
    sys::SQLITE_OK
}

unsafe extern "C" fn x_best_index(
    table: *mut sys::sqlite3_vtab,
    info: *mut sys::sqlite3_index_info,
) -> c_int {
    // SAFETY: the arguments are SQLite's.
    unsafe { on_table(table, |table| best_index(&table.plain, info)) }
}

unsafe extern "C" fn x_open(
    table: *mut sys::sqlite3_vtab,
    to: *mut *mut sys::sqlite3_vtab_cursor,
) -> c_int {
    let base = sys::sqlite3_vtab_cursor { pVtab: table };
    // SAFETY: the arguments are SQLite's.
    unsafe {
        on_table(table, |table| {
            if let Some(other) = &table.other {
                other.with(|_, scans| *scans += 1);
            }
            *to = Box::into_raw(Box::new(Walk { base, scan: Scan::new() })).cast();
            Ok(())
        })
    }
}

unsafe extern "C" fn x_close(cursor: *mut sys::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: it is one of `x_open`, and not used again.
    let walk = unsafe { Box::from_raw(cursor.cast::<Walk>()) };
    // SAFETY: the table is live.
    unsafe {
        on_table(walk.base.pVtab, |table| {
            if let Some(other) = &table.other {
                other.with(|conn, scans| {
                    *scans -= 1;
                    if *scans == 0 && matches!(conn.body, Body::Read(_)) {
                        conn.end_read();
                    }
                });
            }
            Ok(())
        })
    }
}

unsafe extern "C" fn x_filter(
    cursor: *mut sys::sqlite3_vtab_cursor,
    plan: c_int,
    _: *const c_char,
    count: c_int,
    arguments: *mut *mut sys::sqlite3_value,
) -> c_int {
    // SAFETY: the arguments are SQLite's.
    unsafe {
        on_walk(cursor, |table, scan| {
            // SQLite compares texts that are numbers with numbers as such.
            if plan as u32 & EQUAL != 0 && table.plain.key_kind().is_number() {
                sys::sqlite3_value_numeric_type(*arguments);
            }
            let values = values(count, arguments);
            table.on(|conn, plain| {
                if matches!(conn.body, Body::None) {
                    conn.begin_read()?;
                }
                scan.begin(conn, plain, plan as u32, &values)
            })
        })
    }
}

unsafe extern "C" fn x_next(cursor: *mut sys::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: the arguments are SQLite's.
    unsafe { on_walk(cursor, |table, scan| table.on(|conn, plain| scan.next(conn, plain))) }
}

unsafe extern "C" fn x_eof(cursor: *mut sys::sqlite3_vtab_cursor) -> c_int {
    // SAFETY: the argument is SQLite's.
    let walk = unsafe { &*cursor.cast::<Walk>() };
    c_int::from(walk.scan.entry().is_none())
}

unsafe extern "C" fn x_column(
    cursor: *mut sys::sqlite3_vtab_cursor,
    context: *mut sys::sqlite3_context,
    column: c_int,
) -> c_int {
    // SAFETY: the arguments are SQLite's.
    unsafe {
        on_walk(cursor, |table, scan| match scan.entry() {
            Some(entry) => table.plain.column(entry, column as usize, |value| give(context, value)),
            None => Ok(()),
        })
    }
}

unsafe extern "C" fn x_rowid(_: *mut sys::sqlite3_vtab_cursor, _: *mut i64) -> c_int {
    // The tables are WITHOUT ROWID.
    sys::SQLITE_MISUSE
}

unsafe extern "C" fn x_update(
    table: *mut sys::sqlite3_vtab,
    count: c_int,
    arguments: *mut *mut sys::sqlite3_value,
    _: *mut i64,
) -> c_int {
    // SAFETY: the arguments are SQLite's.
    unsafe {
        on_table(table, |table| {
            let values = values(count, arguments);
            let replaces = sys::sqlite3_vtab_on_conflict(table.db) == sys::SQLITE_REPLACE;
            table.on(|conn, plain| match values[..] {
                [old] => plain.delete(conn, old),
                [Value::Null, _, key, value, ..] => plain.insert(conn, (key, value), replaces),
                [old, _, key, value, ..] => plain.update(conn, old, (key, value), replaces),
                _ => Err(sys::SQLITE_MISUSE.into()),
            })
        })
    }
}

/// A function about the transaction of another store, which its tables share: the first one that
/// is called does what there is to do. Of the own store SQLite takes care.
macro_rules! transaction {
    ($name:ident($($argument:ident),*), $conn:ident, $scans:ident => $run:expr) => {
        unsafe extern "C" fn $name(table: *mut sys::sqlite3_vtab $(, $argument: c_int)*) -> c_int {
            // SAFETY: the table is SQLite's.
            unsafe {
                on_table(table, |table| match &table.other {
                    Some(other) => other.with(|$conn, $scans| $run.map_err(Problem::from)),
                    None => Ok(()),
                })
            }
        }
    };
}

transaction!(x_begin(), conn, _scans => conn.begin_write());
transaction!(x_sync(), conn, scans => match conn.body {
    Body::Write(_) => conn.commit(*scans > 0),
    Body::Read(_) | Body::None => Ok(()),
});
transaction!(x_commit(), _conn, _scans => Ok::<(), Problem>(()));
transaction!(x_rollback(), conn, scans => match conn.body {
    Body::Write(_) => conn.roll_back(*scans > 0),
    Body::Read(_) | Body::None => Ok(()),
});
transaction!(x_savepoint(n), conn, _scans => conn.open_savepoints(n as usize + 1));
transaction!(x_release(n), conn, _scans => conn.release(n as usize));
transaction!(x_rollback_to(n), conn, _scans => conn.roll_back_to(n as isize));

unsafe extern "C" fn x_rename(_: *mut sys::sqlite3_vtab, _: *const c_char) -> c_int {
    sys::SQLITE_OK
}

/// The module, as `sqlite3_create_module` takes it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn hg_plain_module() -> *const sys::sqlite3_module {
    static MODULE: sys::sqlite3_module = sys::sqlite3_module {
        iVersion: 2,
        xCreate: Some(x_create),
        xConnect: Some(x_connect),
        xBestIndex: Some(x_best_index),
        xDisconnect: Some(x_disconnect),
        xDestroy: Some(x_disconnect),
        xOpen: Some(x_open),
        xClose: Some(x_close),
        xFilter: Some(x_filter),
        xNext: Some(x_next),
        xEof: Some(x_eof),
        xColumn: Some(x_column),
        xRowid: Some(x_rowid),
        xUpdate: Some(x_update),
        xBegin: Some(x_begin),
        xSync: Some(x_sync),
        xCommit: Some(x_commit),
        xRollback: Some(x_rollback),
        xFindFunction: None,
        xRename: Some(x_rename),
        xSavepoint: Some(x_savepoint),
        xRelease: Some(x_release),
        xRollbackTo: Some(x_rollback_to),
        xShadowName: None,
        xIntegrity: None,
    };
    &raw const MODULE
}

/// Answers a question about the order of a virtual table's entries: how many there are (0), the
/// rank of a key (1), the entry at a place (2), to the function that asked.
///
/// # Safety
/// The table is one of this module, and the values and the context are those of the call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hg_plain_ask(
    table: *mut sys::sqlite3_vtab,
    question: c_int,
    context: *mut sys::sqlite3_context,
    count: c_int,
    arguments: *mut *mut sys::sqlite3_value,
) {
    // SAFETY: as the caller says.
    let code = unsafe {
        on_table(table, |table| {
            let values = values(count, arguments);
            table.on(|conn, plain| {
                reading(conn, |conn| {
                    let number = match question {
                        0 => plain.count(conn, &values)?,
                        1 => plain.rank(conn, &values)?,
                        _ => return nth(conn, plain, &values, context),
                    };
                    give(context, Value::Integer(i64::try_from(number).unwrap_or(i64::MAX)));
                    Ok(())
                })
            })
        })
    };
    if code != sys::SQLITE_OK {
        // SAFETY: the table is live, and its message is a string, which is no longer needed.
        unsafe {
            let table = &mut *table;
            if table.zErrMsg.is_null() {
                sys::sqlite3_result_error_code(context, code);
            } else {
                sys::sqlite3_result_error(context, table.zErrMsg, -1);
                sys::sqlite3_free(table.zErrMsg.cast());
                table.zErrMsg = ptr::null_mut();
            }
        }
    }
}

/// Gives the entry at a place to SQLite: its key, or with 1 as second number its value.
///
/// # Safety
/// The context is that of the call.
unsafe fn nth(
    conn: &mut Conn,
    plain: &Plain,
    values: &[Value<'_>],
    context: *mut sys::sqlite3_context,
) -> Outcome {
    let (n, column) = match values {
        [Value::Integer(n)] => (*n, 0),
        [Value::Integer(n), Value::Integer(column)] => (*n, *column),
        _ => return Err(Problem::error("hedgerow_nth() takes a number")),
    };
    let entry = u64::try_from(n).ok().map(|n| plain.nth(conn, n)).transpose()?;
    let Some((key, value)) = entry.flatten() else { return Ok(()) };
    let column = usize::from(column != 0);
    // SAFETY: as the caller says.
    plain.column((&key, &value), column, |value| unsafe { give(context, value) })
}
