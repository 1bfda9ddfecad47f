//! Environments.

use super::txn::State;
use super::*;

/// An environment.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct MdbEnv {
    /// Null once it is closed.
    pub(super) pointer: RwLock<Pointer>,
    /// Transactions that have not ended.
    pub(super) live: AtomicUsize,
    pub(super) born: Born,
}

impl MdbEnv {
    pub(super) fn lock<'a>(&'a self, py: Python<'_>) -> PyResult<RwLockReadGuard<'a, Pointer>> {
        self.born.check(py)?;
        let guard = self.pointer.read_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        if guard.get().is_null() { fail(py, "closed", 0) } else { Ok(guard) }
    }

    /// Calls the interface; meanwhile other threads run.
    pub(super) fn call(
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
