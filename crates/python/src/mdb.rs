//! The C interface of `crates/lmdb` as objects of Python, for `hedgerow/lmdb.py`, which makes
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
        .get_or_try_init(py, || py.import("hedgerow.lmdb")?.getattr("_error").map(Bound::unbind))
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

/// An environment.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct MdbEnv {
    /// Null once it is closed.
    pointer: RwLock<Pointer>,
    /// Transactions that have not ended.
    live: AtomicUsize,
    born: Born,
}

impl MdbEnv {
    fn lock<'a>(&'a self, py: Python<'_>) -> PyResult<RwLockReadGuard<'a, Pointer>> {
        self.born.check(py)?;
        let guard = self.pointer.read_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        if guard.get().is_null() { fail(py, "closed", 0) } else { Ok(guard) }
    }

    /// Calls the interface; meanwhile other threads run.
    fn call(
        &self,
        py: Python<'_>,
        what: &str,
        call: impl FnOnce(*mut c_void) -> c_int + Send,
    ) -> PyResult<()> {
        let guard = self.lock(py)?;
        let pointer = *guard;
        let code = py.detach(move || call(pointer.get()));
        drop(guard);
        check(py, what, code)
    }
}

impl Drop for MdbEnv {
    fn drop(&mut self) {
        let pointer = self.pointer.get_mut().unwrap_or_else(PoisonError::into_inner);
        if self.born.is_here() && !pointer.get().is_null() {
            // SAFETY: transactions keep the environment, so there is none.
            unsafe { mdb_env_close(pointer.get()) };
        }
    }
}

fn c_path(path: &std::path::Path) -> PyResult<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// A line of the list of readers.
unsafe extern "C" fn tell(line: *const c_char, context: *mut c_void) -> c_int {
    // SAFETY: the interface hands a string, and the context that `readers` gave it.
    let (line, lines) = unsafe { (CStr::from_ptr(line), &mut *context.cast::<String>()) };
    lines.push_str(&line.to_string_lossy());
    0
}

#[pymethods]
impl MdbEnv {
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        flags: c_uint,
        mode: c_uint,
        map_size: usize,
        max_readers: c_uint,
        max_dbs: c_uint,
    ) -> PyResult<Self> {
        let path = c_path(&path)?;
        let mut pointer = Pointer(null_mut());
        // SAFETY: a place for the pointer.
        check(py, "mdb_env_create", unsafe { mdb_env_create(&raw mut pointer.0) })?;
        let env =
            Self { pointer: RwLock::new(pointer), live: AtomicUsize::new(0), born: Born::now() };
        // SAFETY: the environment was made above, and is not open yet.
        let set = |env| unsafe { mdb_env_set_mapsize(env, map_size) };
        env.call(py, "mdb_env_set_mapsize", set)?;
        // SAFETY: as above.
        let set = |env| unsafe { mdb_env_set_maxreaders(env, max_readers) };
        env.call(py, "mdb_env_set_maxreaders", set)?;
        // SAFETY: as above.
        env.call(py, "mdb_env_set_maxdbs", |env| unsafe { mdb_env_set_maxdbs(env, max_dbs) })?;
        // SAFETY: as above; the path ends with a null.
        let open = |env| unsafe { mdb_env_open(env, path.as_ptr(), flags, mode) };
        let name = path.to_string_lossy();
        env.call(py, &name, open)?;
        Ok(env)
    }

    /// Closes it; false if it has transactions.
    fn close(&self, py: Python<'_>) -> PyResult<bool> {
        self.born.check(py)?;
        let mut guard = self.pointer.write_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        if self.live.load(Ordering::Acquire) > 0 {
            return Ok(false);
        }
        let pointer = std::mem::replace(&mut *guard, Pointer(null_mut()));
        if !pointer.get().is_null() {
            // SAFETY: nobody else uses it, and it has no transaction.
            py.detach(move || unsafe { mdb_env_close(pointer.get()) });
        }
        Ok(true)
    }

    fn set_mapsize(&self, py: Python<'_>, size: usize) -> PyResult<()> {
        // SAFETY: the environment is open; so below.
        self.call(py, "mdb_env_set_mapsize", |env| unsafe { mdb_env_set_mapsize(env, size) })
    }

    fn copy(&self, py: Python<'_>, path: PathBuf, flags: c_uint) -> PyResult<()> {
        let path = c_path(&path)?;
        // SAFETY: the path ends with a null.
        self.call(py, "mdb_env_copy2", |env| unsafe { mdb_env_copy2(env, path.as_ptr(), flags) })
    }

    fn copyfd(&self, py: Python<'_>, fd: c_int, flags: c_uint) -> PyResult<()> {
        // SAFETY: a number that is no descriptor is an error.
        self.call(py, "mdb_env_copyfd2", |env| unsafe { mdb_env_copyfd2(env, fd, flags) })
    }

    fn sync(&self, py: Python<'_>, force: bool) -> PyResult<()> {
        // SAFETY: the environment is open.
        self.call(py, "mdb_env_sync", |env| unsafe { mdb_env_sync(env, force.into()) })
    }

    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut stat = Stat::default();
        // SAFETY: a place for the numbers.
        self.call(py, "mdb_env_stat", |env| unsafe { mdb_env_stat(env, &raw mut stat) })?;
        stat_of(py, &stat)
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let guard = self.lock(py)?;
        let mut info = Info {
            map_addr: null_mut(),
            map_size: 0,
            last_pgno: 0,
            last_txnid: 0,
            max_readers: 0,
            num_readers: 0,
        };
        // SAFETY: the environment is open, and there is a place for the numbers.
        let code = unsafe { mdb_env_info(guard.get(), &raw mut info) };
        drop(guard);
        check(py, "mdb_env_info", code)?;
        let dict = PyDict::new(py);
        for (name, value) in [
            ("map_addr", info.map_addr as usize),
            ("map_size", info.map_size),
            ("last_pgno", info.last_pgno),
            ("last_txnid", info.last_txnid),
            ("max_readers", info.max_readers as usize),
            ("num_readers", info.num_readers as usize),
        ] {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    fn flags(&self, py: Python<'_>) -> PyResult<c_uint> {
        let mut flags = 0;
        // SAFETY: a place for the number.
        self.call(py, "mdb_env_get_flags", |env| unsafe {
            mdb_env_get_flags(env, &raw mut flags)
        })?;
        Ok(flags)
    }

    fn max_key_size(&self, py: Python<'_>) -> PyResult<c_int> {
        let guard = self.lock(py)?;
        // SAFETY: the environment is open.
        Ok(unsafe { mdb_env_get_maxkeysize(guard.get()) })
    }

    fn readers(&self, py: Python<'_>) -> PyResult<String> {
        let mut lines = String::new();
        // SAFETY: `tell` takes the context for what it is.
        self.call(py, "mdb_reader_list", |env| unsafe {
            mdb_reader_list(env, tell, (&raw mut lines).cast()).min(0)
        })?;
        Ok(lines)
    }

    fn reader_check(&self, py: Python<'_>) -> PyResult<c_int> {
        let mut dead = 0;
        // SAFETY: a place for the number.
        self.call(py, "mdb_reader_check", |env| unsafe { mdb_reader_check(env, &raw mut dead) })?;
        Ok(dead)
    }

    fn close_db(&self, py: Python<'_>, dbi: c_uint) -> PyResult<()> {
        let guard = self.lock(py)?;
        // SAFETY: the environment is open.
        unsafe { mdb_dbi_close(guard.get(), dbi) };
        Ok(())
    }

    /// Begins a transaction; waits for other writers.
    fn begin(
        slf: &Bound<'_, Self>,
        parent: Option<&Bound<'_, MdbTxn>>,
        writes: bool,
    ) -> PyResult<MdbTxn> {
        let (py, env) = (slf.py(), slf.get());
        let flags = if writes { 0 } else { READ_ONLY };
        let guard = env.lock(py)?;
        let family = parent.map(|parent| parent.get().lock(py)).transpose()?;
        let above = family.as_ref().map_or(Pointer(null_mut()), |family| family.pointer);
        let (pointer, mut begun) = (*guard, Pointer(null_mut()));
        let code = py.detach(|| {
            let mut txn = null_mut();
            // SAFETY: environment and parent are locked, and there is a place for the pointer.
            let code = unsafe { mdb_txn_begin(pointer.get(), above.get(), flags, &raw mut txn) };
            begun = Pointer(txn);
            code
        });
        if code == 0 {
            env.live.fetch_add(1, Ordering::AcqRel);
            if let Some(parent) = parent {
                parent.get().children.fetch_add(1, Ordering::AcqRel);
            }
        }
        drop((family, guard));
        check(py, "mdb_txn_begin", code)?;
        let state = Mutex::new(State { pointer: begun, cursors: Vec::new(), resets: 0 });
        let parent = parent.map(|parent| parent.clone().unbind());
        let (env, children) = (slf.clone().unbind(), AtomicUsize::new(0));
        Ok(MdbTxn { state, env, parent, children })
    }
}

/// What a transaction has.
struct State {
    /// Null once it has ended.
    pointer: Pointer,
    /// Its cursors, by their numbers; null where one is closed.
    cursors: Vec<Pointer>,
    /// How often it was reset: cursors of before are closed.
    resets: u64,
}

impl State {
    fn close_cursors(&mut self) {
        for cursor in self.cursors.drain(..).filter(|cursor| !cursor.get().is_null()) {
            // SAFETY: the cursor is open, and its transaction has not ended.
            unsafe { mdb_cursor_close(cursor.get()) };
        }
    }
}

/// A transaction. A child has to end before its parent.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct MdbTxn {
    state: Mutex<State>,
    env: Py<MdbEnv>,
    parent: Option<Py<MdbTxn>>,
    /// Children that have not ended: until then it does not end either.
    children: AtomicUsize,
}

impl MdbTxn {
    fn lock<'a>(&'a self, py: Python<'_>) -> PyResult<MutexGuard<'a, State>> {
        self.env.get().born.check(py)?;
        let guard = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        if guard.pointer.get().is_null() { fail(py, "closed", 0) } else { Ok(guard) }
    }

    fn call(
        &self,
        py: Python<'_>,
        what: &str,
        call: impl FnOnce(*mut c_void) -> c_int + Send,
    ) -> PyResult<()> {
        let guard = self.lock(py)?;
        let pointer = guard.pointer;
        let code = py.detach(move || call(pointer.get()));
        drop(guard);
        check(py, what, code)
    }
}

impl MdbTxn {
    /// Closes the cursors and ends the transaction, as `end` does.
    fn end<R>(&self, state: &mut State, end: impl FnOnce(*mut c_void) -> R) -> R {
        state.close_cursors();
        let result = end(std::mem::replace(&mut state.pointer, Pointer(null_mut())).get());
        self.env.get().live.fetch_sub(1, Ordering::AcqRel);
        if let Some(parent) = &self.parent {
            parent.get().children.fetch_sub(1, Ordering::AcqRel);
        }
        result
    }

    /// Whether a child has not ended.
    fn has_children(&self) -> bool {
        self.children.load(Ordering::Acquire) > 0
    }
}

impl Drop for MdbTxn {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.env.get().born.is_here() && !state.pointer.get().is_null() {
            // SAFETY: the transaction has not ended, nobody else has it, and children keep it.
            self.end(&mut state, |txn| unsafe { mdb_txn_abort(txn) });
        }
    }
}

#[pymethods]
impl MdbTxn {
    fn id(&self, py: Python<'_>) -> PyResult<usize> {
        let guard = self.lock(py)?;
        // SAFETY: the transaction has not ended; so below.
        Ok(unsafe { mdb_txn_id(guard.pointer.get()) })
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let mut guard = self.lock(py)?;
        if self.has_children() {
            drop(guard);
            return fail(py, "mdb_txn_commit", BAD_TXN);
        }
        let state = &mut *guard;
        // SAFETY: the transaction has not ended, and ends here whatever is answered.
        let code = py.detach(move || self.end(state, |txn| unsafe { mdb_txn_commit(txn) }));
        drop(guard);
        check(py, "mdb_txn_commit", code)
    }

    /// Ends it; nothing happens if it has ended.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.env.get().born.check(py)?;
        let mut guard = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        if guard.pointer.get().is_null() {
            return Ok(());
        }
        if self.has_children() {
            drop(guard);
            return fail(py, "mdb_txn_abort", BAD_TXN);
        }
        let state = &mut *guard;
        // SAFETY: the transaction has not ended.
        py.detach(move || self.end(state, |txn| unsafe { mdb_txn_abort(txn) }));
        Ok(())
    }

    /// Lets the snapshot of a read transaction go, for `renew`; its cursors are closed.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        let mut guard = self.lock(py)?;
        guard.close_cursors();
        guard.resets += 1;
        // SAFETY: the transaction has not ended.
        unsafe { mdb_txn_reset(guard.pointer.get()) };
        Ok(())
    }

    fn renew(&self, py: Python<'_>) -> PyResult<()> {
        // SAFETY: the transaction has not ended.
        self.call(py, "mdb_txn_renew", |txn| unsafe { mdb_txn_renew(txn) })
    }

    fn open_db(&self, py: Python<'_>, name: Option<&[u8]>, flags: c_uint) -> PyResult<c_uint> {
        let name = name.map(CString::new).transpose()?;
        let name = Pointer(name.as_ref().map_or(null_mut(), |n| n.as_ptr().cast_mut().cast()));
        let mut dbi = 0;
        // SAFETY: the name ends with a null, and there is a place for the number.
        self.call(py, "mdb_dbi_open", |txn| unsafe {
            mdb_dbi_open(txn, name.get().cast(), flags, &raw mut dbi)
        })?;
        Ok(dbi)
    }

    fn db_flags(&self, py: Python<'_>, dbi: c_uint) -> PyResult<c_uint> {
        let mut flags = 0;
        // SAFETY: a place for the number.
        self.call(py, "mdb_dbi_flags", |txn| unsafe { mdb_dbi_flags(txn, dbi, &raw mut flags) })?;
        Ok(flags)
    }

    fn stat<'py>(&self, py: Python<'py>, dbi: c_uint) -> PyResult<Bound<'py, PyDict>> {
        let mut stat = Stat::default();
        // SAFETY: a place for the numbers.
        self.call(py, "mdb_stat", |txn| unsafe { mdb_stat(txn, dbi, &raw mut stat) })?;
        stat_of(py, &stat)
    }

    fn drop(&self, py: Python<'_>, dbi: c_uint, delete: bool) -> PyResult<()> {
        // SAFETY: the transaction has not ended.
        self.call(py, "mdb_drop", |txn| unsafe { mdb_drop(txn, dbi, delete.into()) })
    }

    /// The (first) value of a key, or nothing.
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        dbi: c_uint,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (py, key) = (key.py(), bytes_of(key)?);
        let (guard, mut found) = (self.lock(py)?, Found(Val::EMPTY));
        let (txn, bytes) = (guard.pointer, &*key);
        let code = py.detach(|| {
            let (found, key) = (&mut found, Val::of(bytes));
            // SAFETY: the transaction is locked; the key is there, and a place for the value.
            unsafe { mdb_get(txn.get(), dbi, &raw const key, &raw mut found.0) }
        });
        // SAFETY: the call has set the value, and the transaction is still locked.
        let value = (code == 0).then(|| unsafe { found.0.copy(py) });
        drop(guard);
        match code {
            NOTFOUND => Ok(None),
            code => check(py, "mdb_get", code).map(|()| value),
        }
    }

    /// Stores a pair; false if it is there and the flags forbid that.
    fn put(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        dbi: c_uint,
        flags: c_uint,
    ) -> PyResult<bool> {
        let (py, key, value) = (key.py(), bytes_of(key)?, bytes_of(value)?);
        let guard = self.lock(py)?;
        let (txn, key, value) = (guard.pointer, &*key, &*value);
        // SAFETY: the transaction is locked; key and value are there. Without MDB_RESERVE, which
        // is not passed on, nothing is written to the value.
        let code = py.detach(|| unsafe {
            let (key, mut value) = (Val::of(key), Val::of(value));
            mdb_put(txn.get(), dbi, &raw const key, &raw mut value, flags & !0x10000)
        });
        drop(guard);
        match code {
            KEYEXIST => Ok(false),
            code => check(py, "mdb_put", code).map(|()| true),
        }
    }

    /// Removes a key, or a pair; false if it is not there.
    #[pyo3(signature = (key, value, dbi))]
    fn delete(
        &self,
        key: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        dbi: c_uint,
    ) -> PyResult<bool> {
        let (py, key) = (key.py(), bytes_of(key)?);
        let value = value.map(bytes_of).transpose()?;
        let guard = self.lock(py)?;
        let (txn, key, value) = (guard.pointer, &*key, value.as_deref());
        // SAFETY: the transaction is locked; key and value are there.
        let code = py.detach(|| unsafe {
            let (key, value) = (Val::of(key), value.map(Val::of));
            let value = value.as_ref().map_or(null(), |value| &raw const *value);
            mdb_del(txn.get(), dbi, &raw const key, value)
        });
        drop(guard);
        match code {
            NOTFOUND => Ok(false),
            code => check(py, "mdb_del", code).map(|()| true),
        }
    }

    fn cursor(slf: &Bound<'_, Self>, dbi: c_uint) -> PyResult<MdbCursor> {
        let py = slf.py();
        let mut guard = slf.get().lock(py)?;
        let mut cursor = null_mut();
        // SAFETY: the transaction is locked, and there is a place for the pointer.
        let code = unsafe { mdb_cursor_open(guard.pointer.get(), dbi, &raw mut cursor) };
        if code != 0 {
            drop(guard);
            return fail(py, "mdb_cursor_open", code);
        }
        let number = guard.cursors.iter().position(|cursor| cursor.get().is_null());
        let number = number.unwrap_or(guard.cursors.len());
        if number == guard.cursors.len() {
            guard.cursors.push(Pointer(cursor));
        } else {
            guard.cursors[number] = Pointer(cursor);
        }
        let resets = guard.resets;
        drop(guard);
        Ok(MdbCursor { txn: slf.clone().unbind(), number, resets, is_open: Mutex::new(true) })
    }
}

/// A cursor.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct MdbCursor {
    txn: Py<MdbTxn>,
    /// Its number among the cursors of the transaction.
    number: usize,
    /// How often the transaction had been reset.
    resets: u64,
    is_open: Mutex<bool>,
}

/// What is told of a pair.
fn told<'py>(
    py: Python<'py>,
    what: c_int,
    key: impl FnOnce() -> Bound<'py, PyBytes>,
    value: impl FnOnce() -> Bound<'py, PyBytes>,
) -> PyResult<Bound<'py, PyAny>> {
    match what {
        1 => Ok(key().into_any()),
        2 => Ok(value().into_any()),
        3 => Ok((key(), value()).into_pyobject(py)?.into_any()),
        _ => Ok(true.into_pyobject(py)?.to_owned().into_any()),
    }
}

impl MdbCursor {
    /// The transaction, locked, and the cursor.
    fn lock<'a>(&'a self, py: Python<'_>) -> PyResult<(MutexGuard<'a, State>, Pointer)> {
        let guard = self.txn.get().lock(py)?;
        let is_open = *self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        match guard.cursors.get(self.number).copied() {
            Some(cursor) if is_open && guard.resets == self.resets && !cursor.get().is_null() => {
                Ok((guard, cursor))
            }
            _ => {
                drop(guard);
                fail(py, "closed", 0)
            }
        }
    }

    fn shut(&self, state: &mut State) {
        let mut is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *is_open)
            && state.resets == self.resets
            && let Some(cursor) = state.cursors.get_mut(self.number)
            && !cursor.get().is_null()
        {
            // SAFETY: the cursor is open, and its transaction has not ended.
            unsafe { mdb_cursor_close(cursor.get()) };
            *cursor = Pointer(null_mut());
        }
    }
}

impl Drop for MdbCursor {
    fn drop(&mut self) {
        let txn = self.txn.get();
        if txn.env.get().born.is_here() {
            // Whoever holds the lock for long ends the transaction, and with it the cursor, or
            // uses another cursor of it; then this one is closed with the transaction.
            if let Ok(mut state) = txn.state.try_lock() {
                self.shut(&mut state);
            }
        }
    }
}

#[pymethods]
impl MdbCursor {
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let txn = self.txn.get();
        txn.env.get().born.check(py)?;
        let mut guard = txn.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        self.shut(&mut guard);
        Ok(())
    }

    /// Moves, and tells: with `what` 0 only that there is a pair, with 1 its key, with 2 its value,
    /// with 3 both; `None` if there is none.
    #[pyo3(signature = (op, what, key=None, value=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        op: c_int,
        what: c_int,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = key.map(bytes_of).transpose()?;
        let value = value.map(bytes_of).transpose()?;
        let (guard, cursor) = self.lock(py)?;
        let given = |bytes: Option<&[u8]>| Found(bytes.map_or(Val::EMPTY, Val::of));
        let (mut at, mut data) = (given(key.as_deref()), given(value.as_deref()));
        let code = py.detach(|| {
            let (at, data) = (&mut at, &mut data);
            // SAFETY: the cursor's transaction is locked, and there are places for key and value.
            unsafe { mdb_cursor_get(cursor.get(), &raw mut at.0, &raw mut data.0, op) }
        });
        let pair = if code == 0 {
            // SAFETY: the call has set both, and the transaction is still locked.
            let (key, value) = (|| unsafe { at.0.copy(py) }, || unsafe { data.0.copy(py) });
            Some(told(py, what, key, value)?)
        } else {
            None
        };
        drop(guard);
        match code {
            NOTFOUND => Ok(None),
            // It stands nowhere, or on a pair that was deleted.
            EINVAL if op == GET_CURRENT => Ok(None),
            code => check(py, "mdb_cursor_get", code).map(|()| pair),
        }
    }

    /// The (first) pairs of many keys that are there: keys, or pairs.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'_, PyAny>,
        op: c_int,
        what: c_int,
    ) -> PyResult<Bound<'py, PyList>> {
        let found = PyList::empty(py);
        for key in keys.try_iter()? {
            if let Some(pair) = self.get(py, op, what, Some(&key?), None)? {
                found.append(pair)?;
            }
        }
        Ok(found)
    }

    fn put(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        flags: c_uint,
    ) -> PyResult<bool> {
        let (py, key, value) = (key.py(), bytes_of(key)?, bytes_of(value)?);
        let (guard, cursor) = self.lock(py)?;
        let (key, value) = (&*key, &*value);
        // SAFETY: the cursor's transaction is locked; key and value are there. Without MDB_RESERVE
        // and MDB_MULTIPLE, which are not passed on, nothing else is read or written.
        let code = py.detach(|| unsafe {
            let (key, mut value) = (Val::of(key), Val::of(value));
            mdb_cursor_put(cursor.get(), &raw const key, &raw mut value, flags & !0x90000)
        });
        drop(guard);
        match code {
            KEYEXIST => Ok(false),
            code => check(py, "mdb_cursor_put", code).map(|()| true),
        }
    }

    /// Stores pairs; how many were given, and how many stored.
    fn put_many(&self, pairs: &Bound<'_, PyAny>, flags: c_uint) -> PyResult<(usize, usize)> {
        let (mut given, mut stored) = (0, 0);
        for pair in pairs.try_iter()? {
            let pair = pair?;
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair
                .cast::<PyTuple>()?
                .extract()
                .map_err(|_| PyTypeError::new_err("a pair is a tuple of a key and a value"))?;
            given += 1;
            stored += usize::from(self.put(&key, &value, flags)?);
        }
        Ok((given, stored))
    }

    fn delete(&self, py: Python<'_>, flags: c_uint) -> PyResult<()> {
        let (guard, cursor) = self.lock(py)?;
        // SAFETY: the cursor's transaction is locked.
        let code = py.detach(move || unsafe { mdb_cursor_del(cursor.get(), flags) });
        drop(guard);
        check(py, "mdb_cursor_del", code)
    }

    fn count(&self, py: Python<'_>) -> PyResult<usize> {
        let (guard, cursor) = self.lock(py)?;
        let mut count = 0;
        // SAFETY: the cursor's transaction is locked, and there is a place for the number.
        let code = unsafe { mdb_cursor_count(cursor.get(), &raw mut count) };
        drop(guard);
        check(py, "mdb_cursor_count", code).map(|()| count)
    }
}
