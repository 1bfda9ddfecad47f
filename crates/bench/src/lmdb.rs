//! The adapter of LMDB 0.9, compiled from its C source, and the one file of this package with
//! `unsafe` code: a small safe layer whose lifetimes keep LMDB's rules.
//!
//! The rules: a transaction ends before its environment, a cursor before its transaction; what a
//! read transaction hands out stays as long as the transaction. A write transaction hands out
//! nothing. Environment and transactions hold raw pointers and so stay in one thread.
#![expect(unsafe_code, reason = "LMDB is a C library")]

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use hedgerow::tree::Bytes;
use lmdb_master_sys as ffi;

use crate::engine::{Cursor, Engine, Pages, Reader, Result, Writer};

/// The address range of an environment: more than any workload here fills.
const MAP_BYTES: usize = 8 << 30;

/// An open environment.
pub(crate) struct Environment {
    raw: *mut ffi::MDB_env,
}

/// A transaction of either kind.
struct Transaction<'e> {
    raw: *mut ffi::MDB_txn,
    _environment: PhantomData<&'e Environment>,
}

/// A read transaction.
pub(crate) struct ReadTransaction<'e>(Transaction<'e>);

/// A write transaction.
pub(crate) struct WriteTransaction<'e>(Transaction<'e>);

/// A table in one transaction.
#[derive(Clone, Copy)]
pub(crate) struct Table(ffi::MDB_dbi);

/// A cursor of a read or a write transaction.
pub(crate) struct Place<'t> {
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
    // SAFETY: as the caller says, LMDB points to `mv_size` bytes of a mapped page that nobody
    // changes during `'t`.
    Bytes::from(unsafe { std::slice::from_raw_parts(value.mv_data.cast::<u8>(), value.mv_size) })
}

impl Environment {
    fn open_with(folder: &Path) -> Result<Self> {
        let path = CString::new(folder.as_os_str().as_bytes())?;
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` takes the new handle.
        check("mdb_env_create", unsafe { ffi::mdb_env_create(&raw mut raw) })?;
        let environment = Environment { raw };
        // SAFETY: the handle is new and not open yet, which these three calls ask for; the path
        // ends with a zero. Dropping `environment` closes it also where opening fails.
        unsafe {
            check("mdb_env_set_mapsize", ffi::mdb_env_set_mapsize(raw, MAP_BYTES))?;
            check("mdb_env_set_maxdbs", ffi::mdb_env_set_maxdbs(raw, 8))?;
            check("mdb_env_open", ffi::mdb_env_open(raw, path.as_ptr(), ffi::MDB_NOSYNC, 0o600))?;
        }
        Ok(environment)
    }

    fn begin(&self, flags: u32) -> Result<Transaction<'_>> {
        let mut raw = ptr::null_mut();
        // SAFETY: the environment is open; no parent; `raw` takes the new handle.
        let code = unsafe { ffi::mdb_txn_begin(self.raw, ptr::null_mut(), flags, &raw mut raw) };
        check("mdb_txn_begin", code)?;
        Ok(Transaction { raw, _environment: PhantomData })
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and all transactions borrow it, so none is left.
        unsafe { ffi::mdb_env_close(self.raw) }
    }
}

impl Engine for Environment {
    type Reader<'e> = ReadTransaction<'e>;
    type Writer<'e> = WriteTransaction<'e>;

    fn create(folder: &Path) -> Result<Self> {
        Self::open_with(folder)
    }

    fn open(folder: &Path) -> Result<Self> {
        Self::open_with(folder)
    }

    fn read(&self) -> Result<ReadTransaction<'_>> {
        self.begin(ffi::MDB_RDONLY).map(ReadTransaction)
    }

    fn write(&self) -> Result<WriteTransaction<'_>> {
        self.begin(0).map(WriteTransaction)
    }
}

impl Transaction<'_> {
    fn table(&self, name: &str, flags: u32) -> Result<Table> {
        let name = CString::new(name)?;
        let mut table = 0;
        // SAFETY: the transaction is live, the name ends with a zero, `table` takes the handle.
        let code = unsafe { ffi::mdb_dbi_open(self.raw, name.as_ptr(), flags, &raw mut table) };
        check("mdb_dbi_open", code)?;
        Ok(Table(table))
    }

    fn cursor(&self, table: Table) -> Result<Place<'_>> {
        let mut raw = ptr::null_mut();
        // SAFETY: transaction and table are live; `raw` takes the new handle.
        let code = unsafe { ffi::mdb_cursor_open(self.raw, table.0, &raw mut raw) };
        check("mdb_cursor_open", code)?;
        Ok(Place { raw, _transaction: PhantomData })
    }

    fn pages(&self, table: Table) -> Result<Pages> {
        let mut stat = ffi::MDB_stat {
            ms_psize: 0,
            ms_depth: 0,
            ms_branch_pages: 0,
            ms_leaf_pages: 0,
            ms_overflow_pages: 0,
            ms_entries: 0,
        };
        // SAFETY: transaction and table are live; `stat` takes the answer.
        check("mdb_stat", unsafe { ffi::mdb_stat(self.raw, table.0, &raw mut stat) })?;
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
        unsafe { ffi::mdb_txn_abort(self.raw) }
    }
}

impl Reader for ReadTransaction<'_> {
    type Table = Table;
    type Cursor<'r>
        = Place<'r>
    where
        Self: 'r;

    fn table(&self, name: &str) -> Result<Table> {
        self.0.table(name, 0)
    }

    #[inline(always)]
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        let (mut key, mut value) = (argument(key), room());
        // SAFETY: transaction and table are live; the key is only read.
        let code = unsafe { ffi::mdb_get(self.0.raw, table.0, &raw mut key, &raw mut value) };
        // SAFETY: `value` was filled; in a read transaction it stays as long as `self`.
        Ok(check_found("mdb_get", code)?.then(|| unsafe { handed_out(value) }))
    }

    fn cursor(&self, table: Table) -> Result<Place<'_>> {
        self.0.cursor(table)
    }

    fn pages(&self, table: Table) -> Result<Pages> {
        self.0.pages(table)
    }
}

impl Place<'_> {
    /// Moves and answers key and value; false at the end.
    #[inline(always)]
    fn step(
        &mut self,
        key: &mut ffi::MDB_val,
        value: &mut ffi::MDB_val,
        operation: ffi::MDB_cursor_op,
    ) -> Result<bool> {
        // SAFETY: the cursor is live; `key` is an argument or room for an answer, `value` is room.
        let code = unsafe { ffi::mdb_cursor_get(self.raw, key, value, operation) };
        check_found("mdb_cursor_get", code)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is live, its transaction too, which this value borrows.
        unsafe { ffi::mdb_cursor_close(self.raw) }
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
    type Table = Table;

    fn create_table(&mut self, name: &str, duplicates: bool) -> Result<Table> {
        let kind = if duplicates { ffi::MDB_DUPSORT } else { 0 };
        self.0.table(name, ffi::MDB_CREATE | kind)
    }

    #[inline(always)]
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let (mut key, mut value) = (argument(key), argument(value));
        // SAFETY: transaction and table are live; without MDB_RESERVE both strings are only read.
        let code = unsafe { ffi::mdb_put(self.0.raw, table.0, &raw mut key, &raw mut value, 0) };
        check("mdb_put", code)
    }

    #[inline(always)]
    fn append_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        table: Table,
        entries: impl Iterator<Item = (K, V)>,
    ) -> Result<()> {
        let cursor = self.0.cursor(table)?;
        for (key, value) in entries {
            let (mut key, mut value) = (argument(key.as_ref()), argument(value.as_ref()));
            // SAFETY: the cursor is live; without MDB_RESERVE both strings are only read.
            let code = unsafe {
                ffi::mdb_cursor_put(cursor.raw, &raw mut key, &raw mut value, ffi::MDB_APPEND)
            };
            check("mdb_cursor_put", code)?;
        }
        Ok(())
    }

    fn pages(&self, table: Table) -> Result<Pages> {
        self.0.pages(table)
    }

    fn commit(self) -> Result<()> {
        let raw = self.0.raw;
        std::mem::forget(self);
        // SAFETY: the handle is live; it is freed here, also where it fails, and not dropped again.
        check("mdb_txn_commit", unsafe { ffi::mdb_txn_commit(raw) })
    }
}
