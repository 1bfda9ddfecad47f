//! The C interface of `crates/lmdb` as objects of Python, for `hedgerow/lmdb/`, which makes
//! py-lmdb's interface of them.
//!
//! An object holds a pointer as long as it lives, and nothing is called with a pointer that has
//! ended: a transaction is used under its lock, keeps its environment, and closes its cursors
//! before it ends; an environment is closed only when it has no transaction.

#![expect(unsafe_code, reason = "the interface of C gets pointers")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use lmdb as _;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock, RwLockExt};
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

mod cursor;
mod env;
mod txn;

pub(crate) use cursor::MdbCursor;
pub(crate) use env::MdbEnv;
pub(crate) use txn::MdbTxn;

use crate::codec::bytes_of;
use crate::fork::Born;

/// `MDB_val`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Val {
    size: usize,
    data: *const c_void,
}

/// `MDB_stat`.
#[repr(C)]
#[derive(Default)]
struct Stat {
    psize: c_uint,
    depth: c_uint,
    branch_pages: usize,
    leaf_pages: usize,
    overflow_pages: usize,
    entries: usize,
}

/// `MDB_envinfo`.
#[repr(C)]
struct Info {
    map_addr: *mut c_void,
    map_size: usize,
    last_pgno: usize,
    last_txnid: usize,
    max_readers: c_uint,
    num_readers: c_uint,
}

unsafe extern "C" {
    fn mdb_version(major: *mut c_int, minor: *mut c_int, patch: *mut c_int) -> *const c_char;
    fn mdb_strerror(code: c_int) -> *const c_char;
    fn mdb_env_create(env: *mut *mut c_void) -> c_int;
    fn mdb_env_open(env: *mut c_void, path: *const c_char, flags: c_uint, mode: c_uint) -> c_int;
    fn mdb_env_copy2(env: *mut c_void, path: *const c_char, flags: c_uint) -> c_int;
    fn mdb_env_copyfd2(env: *mut c_void, fd: c_int, flags: c_uint) -> c_int;
    fn mdb_env_stat(env: *mut c_void, stat: *mut Stat) -> c_int;
    fn mdb_env_info(env: *mut c_void, info: *mut Info) -> c_int;
    fn mdb_env_sync(env: *mut c_void, force: c_int) -> c_int;
    fn mdb_env_close(env: *mut c_void);
    fn mdb_env_get_flags(env: *mut c_void, flags: *mut c_uint) -> c_int;
    fn mdb_env_set_mapsize(env: *mut c_void, size: usize) -> c_int;
    fn mdb_env_set_maxreaders(env: *mut c_void, readers: c_uint) -> c_int;
    fn mdb_env_set_maxdbs(env: *mut c_void, dbs: c_uint) -> c_int;
    fn mdb_env_get_maxkeysize(env: *mut c_void) -> c_int;
    fn mdb_reader_list(
        env: *mut c_void,
        tell: unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int,
        context: *mut c_void,
    ) -> c_int;
    fn mdb_reader_check(env: *mut c_void, dead: *mut c_int) -> c_int;
    fn mdb_txn_begin(
        env: *mut c_void,
        parent: *mut c_void,
        flags: c_uint,
        txn: *mut *mut c_void,
    ) -> c_int;
    fn mdb_txn_id(txn: *mut c_void) -> usize;
    fn mdb_txn_commit(txn: *mut c_void) -> c_int;
    fn mdb_txn_abort(txn: *mut c_void);
    fn mdb_txn_reset(txn: *mut c_void);
    fn mdb_txn_renew(txn: *mut c_void) -> c_int;
    fn mdb_dbi_open(
        txn: *mut c_void,
        name: *const c_char,
        flags: c_uint,
        dbi: *mut c_uint,
    ) -> c_int;
    fn mdb_dbi_flags(txn: *mut c_void, dbi: c_uint, flags: *mut c_uint) -> c_int;
    fn mdb_dbi_close(env: *mut c_void, dbi: c_uint);
    fn mdb_stat(txn: *mut c_void, dbi: c_uint, stat: *mut Stat) -> c_int;
    fn mdb_drop(txn: *mut c_void, dbi: c_uint, delete: c_int) -> c_int;
    fn mdb_get(txn: *mut c_void, dbi: c_uint, key: *const Val, data: *mut Val) -> c_int;
    fn mdb_put(
        txn: *mut c_void,
        dbi: c_uint,
        key: *const Val,
        data: *mut Val,
        flags: c_uint,
    ) -> c_int;
    fn mdb_del(txn: *mut c_void, dbi: c_uint, key: *const Val, data: *const Val) -> c_int;
    fn mdb_cursor_open(txn: *mut c_void, dbi: c_uint, cursor: *mut *mut c_void) -> c_int;
    fn mdb_cursor_close(cursor: *mut c_void);
    fn mdb_cursor_get(cursor: *mut c_void, key: *mut Val, data: *mut Val, op: c_int) -> c_int;
    fn mdb_cursor_put(cursor: *mut c_void, key: *const Val, data: *mut Val, flags: c_uint)
    -> c_int;
    fn mdb_cursor_del(cursor: *mut c_void, flags: c_uint) -> c_int;
    fn mdb_cursor_count(cursor: *mut c_void, count: *mut usize) -> c_int;
}

const KEYEXIST: c_int = -30799;
const NOTFOUND: c_int = -30798;
const BAD_TXN: c_int = -30782;
const EINVAL: c_int = 22;
const READ_ONLY: c_uint = 0x20000;
const GET_CURRENT: c_int = 4;

/// A pointer of the interface, which threads hand to each other under a lock.
#[derive(Clone, Copy)]
struct Pointer(*mut c_void);

// SAFETY: the interface lets any thread use its objects, one at a time, which their locks see to;
// readers belong to transactions (MDB_NOTLS), and a writer's lock to its transaction.
unsafe impl Send for Pointer {}
// SAFETY: as above.
unsafe impl Sync for Pointer {}

impl Pointer {
    /// The pointer; a closure that calls this takes the whole of `self`.
    fn get(self) -> *mut c_void {
        self.0
    }
}

impl Val {
    const EMPTY: Self = Self { size: 0, data: null() };

    fn of(bytes: &[u8]) -> Self {
        Self { size: bytes.len(), data: bytes.as_ptr().cast() }
    }

    /// A copy of what the interface has handed out.
    ///
    /// # Safety
    /// The value has to be one that a call has set, and its transaction unchanged since.
    unsafe fn copy(self, py: Python<'_>) -> Bound<'_, PyBytes> {
        if self.size == 0 {
            return PyBytes::new(py, &[]);
        }
        // SAFETY: the caller says that the bytes are there.
        PyBytes::new(py, unsafe { std::slice::from_raw_parts(self.data.cast(), self.size) })
    }
}

/// A value on its way out of a call during which other threads run.
#[derive(Clone, Copy)]
struct Found(Val);

// SAFETY: it is only looked at by the thread that made the call, under the transaction's lock.
unsafe impl Send for Found {}

/// The exception of `hedgerow.lmdb` for a code; 0: something that was closed is used.
fn fail<T>(py: Python<'_>, what: &str, code: c_int) -> PyResult<T> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made = MAKE
        .get_or_try_init(py, || {
            py.import("hedgerow.lmdb._errors")?.getattr("_error").map(Bound::unbind)
        })
        .and_then(|make| make.bind(py).call1((what, code)));
    Err(made.map_or_else(|failure| failure, PyErr::from_value))
}

fn check(py: Python<'_>, what: &str, code: c_int) -> PyResult<()> {
    if code == 0 { Ok(()) } else { fail(py, what, code) }
}

fn stat_of<'py>(py: Python<'py>, stat: &Stat) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in [
        ("psize", stat.psize as usize),
        ("depth", stat.depth as usize),
        ("branch_pages", stat.branch_pages),
        ("leaf_pages", stat.leaf_pages),
        ("overflow_pages", stat.overflow_pages),
        ("entries", stat.entries),
    ] {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

/// The version of the interface.
#[pyfunction]
pub(crate) fn mdb_version_of() -> (c_int, c_int, c_int) {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: three places for numbers.
    unsafe { mdb_version(&raw mut major, &raw mut minor, &raw mut patch) };
    (major, minor, patch)
}

/// What a code means.
#[pyfunction]
pub(crate) fn mdb_message(code: c_int) -> String {
    // SAFETY: the interface answers a string that stays, or none.
    let text = unsafe {
        let text = mdb_strerror(code);
        (!text.is_null()).then(|| CStr::from_ptr(text))
    };
    text.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}
