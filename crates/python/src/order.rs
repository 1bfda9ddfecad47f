//! Orders of keys and values by functions of Python.

use std::cell::Cell;
use std::cmp::Ordering as Place;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hedgerow::tree::{Bytes, Order};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::codec::Codec;
use crate::table::Codecs;
use crate::txn::locked;

/// What the functions of a store's orders have raised. An order has no way to fail: what called it
/// looks here afterwards.
#[derive(Default)]
pub(crate) struct Failures {
    count: AtomicU64,
    last: Mutex<Option<PyErr>>,
}

impl Failures {
    /// How many there were.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// The last one.
    pub(crate) fn last(&self, py: Python<'_>) -> PyErr {
        let last = locked(&self.last).as_ref().map(|error| error.clone_ref(py));
        last.unwrap_or_else(|| PyRuntimeError::new_err("the function of an order has failed"))
    }

    fn note(&self, error: PyErr) {
        *locked(&self.last) = Some(error);
        self.count.fetch_add(1, Ordering::Release);
    }
}

/// How many threads are in a function of an order; a thread knows of itself.
static ORDERING: AtomicU64 = AtomicU64::new(0);
thread_local! {
    static IS_ORDERING: Cell<bool> = const { Cell::new(false) };
}

/// Refuses a call that the function of an order makes: the store waits for that function.
#[inline]
pub(crate) fn refuse_inside() -> PyResult<()> {
    match ORDERING.load(Ordering::Relaxed) > 0 && IS_ORDERING.get() {
        false => Ok(()),
        true => Err(PyRuntimeError::new_err("the function of an order uses a transaction")),
    }
}

/// Notes that this thread is in a function of an order.
struct Inside;

impl Inside {
    fn new() -> Self {
        ORDERING.fetch_add(1, Ordering::Relaxed);
        IS_ORDERING.set(true);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        IS_ORDERING.set(false);
        ORDERING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is ordered.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    Keys,
    Values,
}

impl Of {
    fn codec(self, codecs: &Codecs) -> &Codec {
        match self {
            Self::Keys => &codecs.key,
            Self::Values => &codecs.value,
        }
    }
}

/// What `order=` or `value_order=` says: `"reverse"`, `"integer"`, or a name and a function as
/// `sorted` takes it.
pub(crate) fn order_of(
    given: Option<&Bound<'_, PyAny>>,
    of: Of,
    codecs: &Arc<Codecs>,
    failures: &Arc<Failures>,
) -> PyResult<Option<Order>> {
    let Some(given) = given.filter(|given| !given.is_none()) else { return Ok(None) };
    if let Ok(name) = given.cast::<PyString>() {
        return match (name.to_str()?, of.codec(codecs).is_plain()) {
            ("bytewise", _) => Ok(Some(Order::Bytewise)),
            ("reverse", true) => Ok(Some(Order::Reverse)),
            ("integer", true) => Ok(Some(Order::Integer)),
            _ => Err(unknown()),
        };
    }
    let (name, key): (String, Bound<'_, PyAny>) = given.extract().map_err(|_| unknown())?;
    if !key.is_callable() {
        return Err(unknown());
    }
    let (key, codecs, failures) = (key.unbind(), Arc::clone(codecs), Arc::clone(failures));
    let compare = move |a: &[u8], b: &[u8]| {
        Python::attach(|py| {
            let _inside = Inside::new();
            place(py, of.codec(&codecs), &key, (a, b)).unwrap_or_else(|error| {
                failures.note(error);
                a.cmp(b)
            })
        })
    };
    Ok(Some(Order::custom(name, compare)))
}

/// Which of two comes first.
fn place(py: Python<'_>, codec: &Codec, key: &Py<PyAny>, both: (&[u8], &[u8])) -> PyResult<Place> {
    let place_of = |bytes: &[u8]| key.bind(py).call1((codec.decode(py, Bytes::from(bytes))?,));
    let (a, b) = (place_of(both.0)?, place_of(both.1)?);
    a.compare(b)
}

fn unknown() -> PyErr {
    PyTypeError::new_err(
        "an order is \"reverse\" or \"integer\" (of bytes), or a name and a function such as \
         sorted takes for its key",
    )
}
