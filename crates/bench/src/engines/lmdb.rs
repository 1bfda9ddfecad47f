//! The adapter of LMDB 0.9, compiled from its C source, and of Hedgerow's library with the same
//! interface: a small safe layer whose lifetimes keep LMDB's rules.
//!
//! The rules: a transaction ends before its environment, a cursor before its transaction; what a
//! read transaction hands out stays as long as the transaction. A write transaction hands out
//! nothing. Transactions hold raw pointers and so stay in one thread.
//!
//! Flags are those that most programs use, that is none; where memory is short `MDB_NORDAHEAD`, as
//! its documentation advises. An unsynced commit is `MDB_NOSYNC`, given
//! to its transaction. Compaction is a compacting copy that takes the store's place, the only way
//! there is.
#![expect(unsafe_code, reason = "LMDB is a C library")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::fs;
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use hedgerow::tree::Bytes;
use lmdb_master_sys as ffi;

use crate::engine::{
    Cursor, Engine, Missing, Paged, Pages, Promise, Reader, Result, Table, Writer,
};

/// The address range of an environment: more than any workload here fills.
const MAP_BYTES: usize = 32 << 30;

/// Declares the functions that are used of a library with LMDB's interface.
macro_rules! calls {
    ($($name:ident: $symbol:ident($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        /// The functions of a library with LMDB's interface.
        pub(crate) struct Calls {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
        }

        impl Calls {
            /// Those of LMDB.
            const LINKED: &'static Self = &Self { $($name: ffi::$symbol,)* };

            fn load(library: &libloading::Library) -> Result<Self> {
                Ok(Self {
                    // SAFETY: the type is the one that LMDB's header declares; the library is
                    // never unloaded.
                    $($name: *unsafe { library.get(stringify!($symbol).as_bytes()) }?,)*
                })
            }
        }
    };
}

calls! {
    env_create: mdb_env_create(*mut *mut ffi::MDB_env) -> c_int;
    env_set_mapsize: mdb_env_set_mapsize(*mut ffi::MDB_env, usize) -> c_int;
    env_set_maxdbs: mdb_env_set_maxdbs(*mut ffi::MDB_env, ffi::MDB_dbi) -> c_int;
    env_open: mdb_env_open(*mut ffi::MDB_env, *const c_char, c_uint, ffi::mdb_mode_t) -> c_int;
    env_close: mdb_env_close(*mut ffi::MDB_env);
    env_copy2: mdb_env_copy2(*mut ffi::MDB_env, *const c_char, c_uint) -> c_int;
    txn_begin: mdb_txn_begin(
        *mut ffi::MDB_env, *mut ffi::MDB_txn, c_uint, *mut *mut ffi::MDB_txn) -> c_int;
    txn_commit: mdb_txn_commit(*mut ffi::MDB_txn) -> c_int;
    txn_abort: mdb_txn_abort(*mut ffi::MDB_txn);
    dbi_open: mdb_dbi_open(
        *mut ffi::MDB_txn, *const c_char, c_uint, *mut ffi::MDB_dbi) -> c_int;
    stat: mdb_stat(*mut ffi::MDB_txn, ffi::MDB_dbi, *mut ffi::MDB_stat) -> c_int;
    get: mdb_get(
        *mut ffi::MDB_txn, ffi::MDB_dbi, *mut ffi::MDB_val, *mut ffi::MDB_val) -> c_int;
    put: mdb_put(
        *mut ffi::MDB_txn, ffi::MDB_dbi, *mut ffi::MDB_val, *mut ffi::MDB_val, c_uint) -> c_int;
    del: mdb_del(
        *mut ffi::MDB_txn, ffi::MDB_dbi, *mut ffi::MDB_val, *mut ffi::MDB_val) -> c_int;
    cursor_open: mdb_cursor_open(
        *mut ffi::MDB_txn, ffi::MDB_dbi, *mut *mut ffi::MDB_cursor) -> c_int;
    cursor_close: mdb_cursor_close(*mut ffi::MDB_cursor);
    cursor_get: mdb_cursor_get(
        *mut ffi::MDB_cursor, *mut ffi::MDB_val, *mut ffi::MDB_val, ffi::MDB_cursor_op) -> c_int;
    cursor_put: mdb_cursor_put(
        *mut ffi::MDB_cursor, *mut ffi::MDB_val, *mut ffi::MDB_val, c_uint) -> c_int;
    cursor_del: mdb_cursor_del(*mut ffi::MDB_cursor, c_uint) -> c_int;
}

/// A library with LMDB's interface.
pub(crate) trait Library: Sync + 'static {
    /// Its functions.
    fn calls() -> Result<&'static Calls>;
}

/// LMDB's own.
pub(crate) struct Original;

impl Library for Original {
    fn calls() -> Result<&'static Calls> {
        Ok(Calls::LINKED)
    }
}

/// Hedgerow's, which cargo leaves beside this program.
pub(crate) struct Ours;

impl Library for Ours {
    fn calls() -> Result<&'static Calls> {
        static LOADED: OnceLock<Calls> = OnceLock::new();
        if let Some(calls) = LOADED.get() {
            return Ok(calls);
        }
        let path = std::env::current_exe()?.with_file_name("liblmdb.so");
        // SAFETY: it has no constructors but those of the Rust library.
        let Ok(library) = (unsafe { libloading::Library::new(&path) }) else {
            let what = "is not there: `cargo build --release -p lmdb`, then run this again";
            return Err(Missing(format!("{} {what}", path.display())).into());
        };
        let library = std::mem::ManuallyDrop::new(library);
        Ok(LOADED.get_or_init({
            let calls = Calls::load(&library)?;
            || calls
        }))
    }
}

/// LMDB.
pub(crate) type Environment = Client<Original>;
/// Hedgerow through LMDB's interface.
pub(crate) type Face = Client<Ours>;

/// An open environment, and the handles of the tables used so far, which live as long as it.
pub(crate) struct Client<L> {
    calls: &'static Calls,
    raw: *mut ffi::MDB_env,
    tables: Mutex<Vec<(Table, ffi::MDB_dbi)>>,
    _library: PhantomData<L>,
}

// SAFETY: LMDB lets any thread use an environment. What is bound to a thread is a transaction, and
// those hold raw pointers, which keeps them in theirs. The list of handles has its lock.
unsafe impl<L: Library> Sync for Client<L> {}

/// A transaction of either kind, and its table.
struct Transaction<'e> {
    calls: &'static Calls,
    raw: *mut ffi::MDB_txn,
    table: ffi::MDB_dbi,
    _environment: PhantomData<&'e ()>,
}

/// A read transaction.
pub(crate) struct ReadTransaction<'e>(Transaction<'e>);

/// A write transaction.
pub(crate) struct WriteTransaction<'e> {
    txn: Transaction<'e>,
    /// The cursor that appends, once there is one: LMDB closes it with the transaction.
    appender: *mut ffi::MDB_cursor,
}

/// A cursor of a read or a write transaction.
pub(crate) struct Place<'t> {
    calls: &'static Calls,
    raw: *mut ffi::MDB_cursor,
    _transaction: PhantomData<&'t ()>,
}

/// The version of the library that is linked, as it says itself.
pub(crate) fn version() -> String {
    // SAFETY: the three pointers may be null; the string is static and ends with a zero.
    let text = unsafe {
        CStr::from_ptr(ffi::mdb_version(ptr::null_mut(), ptr::null_mut(), ptr::null_mut()))
    };
    text.to_string_lossy().into_owned()
}

/// Turns a return code other than success into an error that names the call.
#[inline(always)]
fn check(call: &'static str, code: i32) -> Result<()> {
    if code == 0 { Ok(()) } else { failed(call, code) }
}

/// As [`check`]; "not found" is false.
#[inline(always)]
fn check_found(call: &'static str, code: i32) -> Result<bool> {
    match code {
        0 => Ok(true),
        ffi::MDB_NOTFOUND => Ok(false),
        _ => failed(call, code).map(|()| false),
    }
}

#[cold]
fn failed(call: &'static str, code: i32) -> Result<()> {
    // SAFETY: any code is allowed; the string is static or of the C library and ends with a zero.
    let text = unsafe { CStr::from_ptr(ffi::mdb_strerror(code)) };
    Err(format!("LMDB: {call}: {} ({code})", text.to_string_lossy()).into())
}

/// A string as LMDB takes it. It only reads what an argument of this kind points to.
#[inline(always)]
fn argument(bytes: &[u8]) -> ffi::MDB_val {
    ffi::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast_mut().cast() }
}

/// Room for a string that LMDB hands out.
#[inline(always)]
fn room() -> ffi::MDB_val {
    ffi::MDB_val { mv_size: 0, mv_data: ptr::null_mut() }
}

/// The string that LMDB handed out.
///
/// # Safety
/// A call of LMDB has just filled `value` with success, and `'t` ends before the next write or the
/// end of its transaction.
#[inline(always)]
unsafe fn handed_out<'t>(value: ffi::MDB_val) -> Bytes<'t> {
    // SAFETY: as the caller says, LMDB points to `mv_size` bytes of a mapped page that is not
    // changed during `'t`.
    Bytes::from(unsafe { std::slice::from_raw_parts(value.mv_data.cast::<u8>(), value.mv_size) })
}

impl<L: Library> Client<L> {
    fn begin(&self, table: ffi::MDB_dbi, flags: u32) -> Result<Transaction<'_>> {
        let mut raw = ptr::null_mut();
        // SAFETY: the environment is open; no parent; `raw` takes the new handle.
        let code =
            unsafe { (self.calls.txn_begin)(self.raw, ptr::null_mut(), flags, &raw mut raw) };
        check("mdb_txn_begin", code)?;
        Ok(Transaction { calls: self.calls, raw, table, _environment: PhantomData })
    }

    /// The handle of a table, which is made if it is not there and `begin` lets that happen.
    fn table(&self, table: Table, begin: u32) -> Result<ffi::MDB_dbi> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, handle)) = tables.iter().find(|(known, _)| *known == table) {
            return Ok(*handle);
        }
        let name = CString::new(table.name)?;
        let kind = if table.duplicates { ffi::MDB_DUPSORT } else { 0 };
        let create = if begin == ffi::MDB_RDONLY { 0 } else { ffi::MDB_CREATE };
        let txn = self.begin(0, begin)?;
        let mut handle = 0;
        // SAFETY: the transaction is live, the name ends with a zero, `handle` takes the handle;
        // the lock keeps other transactions from opening one at the same time.
        let code = unsafe {
            (self.calls.dbi_open)(txn.raw, name.as_ptr(), kind | create, &raw mut handle)
        };
        check("mdb_dbi_open", code)?;
        txn.commit()?;
        tables.push((table, handle));
        Ok(handle)
    }
}

impl<L> Drop for Client<L> {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and all transactions borrow it, so none is left.
        unsafe { (self.calls.env_close)(self.raw) }
    }
}

impl<L: Library> Engine for Client<L> {
    type Reader<'e> = ReadTransaction<'e>;
    type Writer<'e> = WriteTransaction<'e>;

    fn open(folder: &Path, memory: Option<usize>) -> Result<Self> {
        let path = CString::new(folder.as_os_str().as_bytes())?;
        let flags = if memory.is_some() { ffi::MDB_NORDAHEAD } else { 0 };
        let (mut raw, calls) = (ptr::null_mut(), L::calls()?);
        // SAFETY: `raw` takes the new handle.
        check("mdb_env_create", unsafe { (calls.env_create)(&raw mut raw) })?;
        let environment = Self { calls, raw, tables: Mutex::default(), _library: PhantomData };
        // SAFETY: the handle is new and not open yet, which these three calls ask for; the path
        // ends with a zero. Dropping `environment` closes it also where opening fails.
        unsafe {
            check("mdb_env_set_mapsize", (calls.env_set_mapsize)(raw, MAP_BYTES))?;
            check("mdb_env_set_maxdbs", (calls.env_set_maxdbs)(raw, 8))?;
            check("mdb_env_open", (calls.env_open)(raw, path.as_ptr(), flags, 0o600))?;
        }
        Ok(environment)
    }

    #[inline(always)]
    fn read<T>(
        &self,
        table: Table,
        work: impl FnOnce(&ReadTransaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let table = self.table(table, ffi::MDB_RDONLY)?;
        work(&ReadTransaction(self.begin(table, ffi::MDB_RDONLY)?))
    }

    #[inline(always)]
    fn write<T>(
        &self,
        table: Table,
        promise: Promise,
        work: impl FnOnce(&mut WriteTransaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let flags = match promise {
            Promise::Durable => 0,
            Promise::Unsynced => ffi::MDB_NOSYNC,
        };
        let table = self.table(table, flags)?;
        let txn = self.begin(table, flags)?;
        let mut writer = WriteTransaction { txn, appender: ptr::null_mut() };
        let answer = work(&mut writer)?;
        writer.txn.commit()?;
        Ok(answer)
    }

    fn compact(self, folder: &Path) -> Result<Self> {
        let copy = folder.join("copy");
        fs::create_dir(&copy)?;
        let path = CString::new(copy.as_os_str().as_bytes())?;
        // SAFETY: the environment is open, the path ends with a zero.
        let code = unsafe { (self.calls.env_copy2)(self.raw, path.as_ptr(), ffi::MDB_CP_COMPACT) };
        check("mdb_env_copy2", code)?;
        drop(self);
        fs::rename(copy.join("data.mdb"), folder.join("data.mdb"))?;
        fs::remove_dir(copy)?;
        Self::open(folder, None)
    }
}

impl Transaction<'_> {
    fn commit(self) -> Result<()> {
        let (raw, calls) = (self.raw, self.calls);
        std::mem::forget(self);
        // SAFETY: the handle is live; it is freed here, also where it fails, and not dropped again.
        check("mdb_txn_commit", unsafe { (calls.txn_commit)(raw) })
    }

    fn raw_cursor(&self) -> Result<*mut ffi::MDB_cursor> {
        let mut raw = ptr::null_mut();
        // SAFETY: transaction and table are live; `raw` takes the new handle.
        let code = unsafe { (self.calls.cursor_open)(self.raw, self.table, &raw mut raw) };
        check("mdb_cursor_open", code)?;
        Ok(raw)
    }

    fn cursor(&self) -> Result<Place<'_>> {
        let raw = self.raw_cursor()?;
        Ok(Place { calls: self.calls, raw, _transaction: PhantomData })
    }

    fn stat(&self) -> Result<ffi::MDB_stat> {
        let mut stat = ffi::MDB_stat {
            ms_psize: 0,
            ms_depth: 0,
            ms_branch_pages: 0,
            ms_leaf_pages: 0,
            ms_overflow_pages: 0,
            ms_entries: 0,
        };
        // SAFETY: transaction and table are live; `stat` takes the answer.
        check("mdb_stat", unsafe { (self.calls.stat)(self.raw, self.table, &raw mut stat) })?;
        Ok(stat)
    }

    fn pages(&self) -> Result<Pages> {
        let stat = self.stat()?;
        if stat.ms_psize != 4096 {
            return Err(format!("LMDB uses pages of {} bytes here, not 4096", stat.ms_psize).into());
        }
        Ok(Pages {
            depth: u64::from(stat.ms_depth),
            branch: stat.ms_branch_pages as u64,
            leaf: stat.ms_leaf_pages as u64,
            overflow: stat.ms_overflow_pages as u64,
            entries: stat.ms_entries as u64,
        })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is live (a commit forgets this value), and all cursors borrow it.
        unsafe { (self.calls.txn_abort)(self.raw) }
    }
}

impl Paged for ReadTransaction<'_> {
    fn pages(&self) -> Result<Pages> {
        self.0.pages()
    }
}

impl Paged for WriteTransaction<'_> {
    fn pages(&self) -> Result<Pages> {
        self.txn.pages()
    }
}

impl Reader for ReadTransaction<'_> {
    type Cursor<'r>
        = Place<'r>
    where
        Self: 'r;

    #[inline(always)]
    fn get<T>(&self, key: &[u8], see: impl FnOnce(Bytes<'_>) -> T) -> Result<Option<T>> {
        let (mut key, mut value) = (argument(key), room());
        // SAFETY: transaction and table are live; the key is only read.
        let code =
            unsafe { (self.0.calls.get)(self.0.raw, self.0.table, &raw mut key, &raw mut value) };
        // SAFETY: `value` was filled; in a read transaction it stays as long as `self`.
        Ok(check_found("mdb_get", code)?.then(|| see(unsafe { handed_out(value) })))
    }

    fn cursor(&self) -> Result<Place<'_>> {
        self.0.cursor()
    }

    fn scan_back(&self, mut see: impl FnMut(Bytes<'_>, Bytes<'_>)) -> Result<()> {
        let mut place = self.0.cursor()?;
        let (mut key, mut value) = (room(), room());
        while place.step(&mut key, &mut value, ffi::MDB_PREV)? {
            // SAFETY: both were filled, in a read transaction that lives longer than the cursor.
            unsafe { see(handed_out(key), handed_out(value)) }
        }
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.0.stat()?.ms_entries as u64)
    }
}

impl Place<'_> {
    /// Moves and returns key and value; false at the end.
    #[inline(always)]
    fn step(
        &mut self,
        key: &mut ffi::MDB_val,
        value: &mut ffi::MDB_val,
        operation: ffi::MDB_cursor_op,
    ) -> Result<bool> {
        // SAFETY: the cursor is live; `key` is an argument or room for an answer, `value` is room.
        let code = unsafe { (self.calls.cursor_get)(self.raw, key, value, operation) };
        check_found("mdb_cursor_get", code)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is live, its transaction too, which this value borrows.
        unsafe { (self.calls.cursor_close)(self.raw) }
    }
}

impl Cursor for Place<'_> {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        let (mut key, mut value) = (room(), room());
        if !self.step(&mut key, &mut value, ffi::MDB_NEXT)? {
            return Ok(None);
        }
        // SAFETY: both were filled; cursors are handed out by read transactions only, which live
        // longer than `self`.
        Ok(Some(unsafe { (handed_out(key), handed_out(value)) }))
    }

    #[inline(always)]
    fn seek(&mut self, key: &[u8]) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        let (mut key, mut value) = (argument(key), room());
        if !self.step(&mut key, &mut value, ffi::MDB_SET_RANGE)? {
            return Ok(None);
        }
        // SAFETY: as in `next`; on success the key is LMDB's own.
        Ok(Some(unsafe { (handed_out(key), handed_out(value)) }))
    }

    #[inline(always)]
    fn each_value(&mut self, key: &[u8], mut visit: impl FnMut(Bytes<'_>)) -> Result<u64> {
        let (mut key, mut value) = (argument(key), room());
        let mut values = 0;
        let mut operation = ffi::MDB_SET;
        while self.step(&mut key, &mut value, operation)? {
            // SAFETY: `value` was filled, in a read transaction that lives longer than `self`.
            visit(unsafe { handed_out(value) });
            values += 1;
            operation = ffi::MDB_NEXT_DUP;
        }
        Ok(values)
    }
}

impl Writer for WriteTransaction<'_> {
    #[inline(always)]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (mut key, mut value) = (argument(key), argument(value));
        // SAFETY: transaction and table are live; without MDB_RESERVE both strings are only read.
        let code = unsafe {
            (self.txn.calls.put)(self.txn.raw, self.txn.table, &raw mut key, &raw mut value, 0)
        };
        check("mdb_put", code)
    }

    #[inline(always)]
    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.appender.is_null() {
            self.appender = self.txn.raw_cursor()?;
        }
        let (mut key, mut value) = (argument(key), argument(value));
        // SAFETY: the cursor lives as long as its transaction; without MDB_RESERVE both strings
        // are only read.
        let code = unsafe {
            (self.txn.calls.cursor_put)(
                self.appender,
                &raw mut key,
                &raw mut value,
                ffi::MDB_APPEND,
            )
        };
        check("mdb_cursor_put", code)
    }

    #[inline(always)]
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let mut key = argument(key);
        // SAFETY: transaction and table are live; the key is only read, no value is asked for.
        let code = unsafe {
            (self.txn.calls.del)(self.txn.raw, self.txn.table, &raw mut key, ptr::null_mut())
        };
        check_found("mdb_del", code).map(drop)
    }

    fn delete_range(&mut self, low: &[u8], high: &[u8]) -> Result<()> {
        let mut cursor = self.txn.cursor()?;
        let (mut key, mut value) = (argument(low), room());
        let mut operation = ffi::MDB_SET_RANGE;
        while cursor.step(&mut key, &mut value, operation)? {
            // SAFETY: `key` was filled by the step; it is looked at before the deletion.
            if unsafe { handed_out(key) }.cmp_slice(high).is_ge() {
                break;
            }
            // SAFETY: the cursor is live and stands on an entry.
            check("mdb_cursor_del", unsafe { (cursor.calls.cursor_del)(cursor.raw, 0) })?;
            // After a deletion this returns the entry that followed.
            operation = ffi::MDB_NEXT;
        }
        Ok(())
    }
}
