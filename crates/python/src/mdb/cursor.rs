//! Cursors.

use super::txn::State;
use super::*;
use crate::long::KEYS;

/// A cursor.
#[pyclass(frozen, module = "hedgerow")]
pub(crate) struct MdbCursor {
    pub(super) txn: Py<MdbTxn>,
    /// Its number among the cursors of the transaction.
    pub(super) number: usize,
    /// How often the transaction had been reset.
    pub(super) resets: u64,
    pub(super) is_open: Mutex<bool>,
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
    pub(super) fn lock<'a>(&'a self, py: Python<'_>) -> PyResult<(MutexGuard<'a, State>, Pointer)> {
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

    pub(super) fn shut(&self, state: &mut State) {
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
            // A thread that holds the lock for long ends the transaction, and with it the cursor,
            // or uses another cursor of it; then this one is closed with the transaction.
            if let Ok(mut state) = txn.state.try_lock() {
                self.shut(&mut state);
            }
        }
    }
}

/// Every so many keys lets the handlers of signals run, which may raise.
fn look_for_signals(py: Python<'_>, keys: usize) -> PyResult<()> {
    if keys % KEYS == KEYS - 1 { py.check_signals() } else { Ok(()) }
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
        for (i, key) in keys.try_iter()?.enumerate() {
            look_for_signals(py, i)?;
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
            look_for_signals(pairs.py(), given)?;
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
