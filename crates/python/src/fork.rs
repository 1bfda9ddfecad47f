//! After a fork, what the parent opened is the parent's: the child is refused.

use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::raise;

/// How many forks lie between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which something was opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Born(u32);

impl Born {
    pub(crate) fn now() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Refuses use in a child process.
    #[inline]
    pub(crate) fn check(self, py: Python<'_>) -> PyResult<()> {
        if self.is_here() {
            return Ok(());
        }
        raise(py, "LockedError", "a store cannot be used across a fork; open it in the child")
    }

    /// Whether this is the process in which it was opened.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self == Self::now()
    }

    /// Whether the end of a `with` statement is only to let an exception pass, such as the one by
    /// which a child process ends: what it inherited stays as it is.
    pub(crate) fn lets_pass(self, raised: &Bound<'_, PyTuple>) -> bool {
        !self.is_here() && raised.iter().any(|of| !of.is_none())
    }
}

/// What a store's objects are made of. In a child process after a fork it is left as it is: threads
/// and locks that it needs are not there.
pub(crate) struct Ours<T> {
    /// Until it is dropped.
    it: Option<T>,
    born: Born,
}

impl<T> Ours<T> {
    pub(crate) fn new(it: T) -> Self {
        Self { it: Some(it), born: Born::now() }
    }

    /// Refuses use in a child process.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.born.check(py)
    }
}

impl<T> std::ops::Deref for Ours<T> {
    type Target = Option<T>;

    fn deref(&self) -> &Option<T> {
        &self.it
    }
}

impl<T> std::ops::DerefMut for Ours<T> {
    fn deref_mut(&mut self) -> &mut Option<T> {
        &mut self.it
    }
}

impl<T> Drop for Ours<T> {
    fn drop(&mut self) {
        if !self.born.is_here() {
            mem::forget(self.it.take());
        }
    }
}

/// Called in the child after each fork.
#[pyfunction]
pub(crate) fn _forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Has Python call it.
pub(crate) fn watch(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let options = pyo3::types::PyDict::new(py);
    options.set_item("after_in_child", wrap_pyfunction!(_forked, module)?)?;
    py.import("os")?.getattr("register_at_fork")?.call((), Some(&options))?;
    Ok(())
}
