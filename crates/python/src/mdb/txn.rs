//! Transactions.

use super::*;

/// What a transaction has.
pub(super) struct State {
    /// Null once it has ended.
    pub(super) pointer: Pointer,
    /// Its cursors, by their numbers; null where one is closed.
    pub(super) cursors: Vec<Pointer>,
    /// How often it was reset: cursors of before are closed.
    pub(super) resets: u64,
}

impl State {
    pub(super) fn close_cursors(&mut self) {
        for cursor in self.cursors.drain(..).filter(|cursor| !cursor.get().is_null()) {
            // SAFETY: the cursor is open, and its transaction has not ended.
            unsafe { mdb_cursor_close(cursor.get()) };
        }
    }
}

/// A transaction. A child has to end before its parent.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct MdbTxn {
    pub(super) state: Mutex<State>,
    pub(super) env: Py<MdbEnv>,
    pub(super) parent: Option<Py<MdbTxn>>,
    /// Children that have not ended: until then it does not end either.
    pub(super) children: AtomicUsize,
}

impl MdbTxn {
    pub(super) fn lock<'a>(&'a self, py: Python<'_>) -> PyResult<MutexGuard<'a, State>> {
        self.env.get().born.check(py)?;
        let guard = self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        if guard.pointer.get().is_null() { fail(py, "closed", 0) } else { Ok(guard) }
    }

    pub(super) fn call(
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
    pub(super) fn end<R>(&self, state: &mut State, end: impl FnOnce(*mut c_void) -> R) -> R {
        state.close_cursors();
        let result = end(std::mem::replace(&mut state.pointer, Pointer(null_mut())).get());
        self.env.get().live.fetch_sub(1, Ordering::AcqRel);
        if let Some(parent) = &self.parent {
            parent.get().children.fetch_sub(1, Ordering::AcqRel);
        }
        result
    }

    /// Whether a child has not ended.
    pub(super) fn has_children(&self) -> bool {
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
