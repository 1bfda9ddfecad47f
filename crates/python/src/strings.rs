//! Keys and values as `bytes`, one by one, for the least that Python asks for: an iterator that is
//! written on its C interface. Only for interpreters whose threads take turns.

#![expect(unsafe_code, reason = "the functions of an iterator get pointers")]

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::Arc;

use hedgerow::tree::{self, Bytes};
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::view::Batches;

/// What an iterator gives.
#[derive(Clone, Copy)]
enum Gives {
    Keys,
    Values,
    /// The value of the key that another iterator has given last.
    ValuesOfKeys,
}

/// A way through pairs.
///
/// It is used only by the thread that holds the interpreter. While that lets it go, which is while
/// pairs are read, `is_busy` keeps others out.
struct Way {
    is_busy: Cell<bool>,
    batches: UnsafeCell<Batches<tree::Store>>,
    joint: UnsafeCell<Joint>,
}

/// Room to put short strings of two pieces together. Neighbours have their first piece in common.
struct Joint {
    room: [u8; SHORT],
    first: *const u8,
    len: usize,
}

const SHORT: usize = 64;

impl Joint {
    fn new() -> Self {
        Self { room: [0; SHORT], first: null_mut(), len: 0 }
    }

    /// Two pieces in one, if they are short.
    #[inline(always)]
    fn put(&mut self, first: &[u8], second: &[u8]) -> Option<&[u8]> {
        let len = first.len() + second.len();
        let (front, back) = self.room.get_mut(..len)?.split_at_mut(first.len());
        // What lies at an address of a run stays the same, and `forget` is called after it.
        if self.first != first.as_ptr() || self.len != first.len() {
            front.copy_from_slice(first);
            (self.first, self.len) = (first.as_ptr(), first.len());
        }
        back.copy_from_slice(second);
        self.room.get(..len)
    }

    /// There is another run.
    fn forget(&mut self) {
        (self.first, self.len) = (null_mut(), 0);
    }
}

/// The iterator, as Python keeps it.
#[repr(C)]
struct Strings {
    base: ffi::PyObject,
    way: *const Way,
    gives: Gives,
}

/// A `bytes` object, or null with an exception.
///
/// # Safety
/// The thread holds the interpreter.
#[inline(always)]
unsafe fn object_of(joint: &mut Joint, bytes: Bytes<'_>) -> *mut ffi::PyObject {
    let make = |whole: &[u8]| {
        // SAFETY: the thread holds the interpreter, and Python copies the slice.
        unsafe { ffi::PyBytes_FromStringAndSize(whole.as_ptr().cast(), whole.len() as isize) }
    };
    match bytes.parts() {
        (whole, []) | ([], whole) => make(whole),
        (first, second) => match joint.put(first, second) {
            Some(whole) => make(whole),
            None => make(&bytes.to_cow()),
        },
    }
}

/// Reads the next pairs; false after the last one, `None` with an exception.
#[cold]
fn fill(way: &Way) -> Option<bool> {
    way.is_busy.set(true);
    let read = || {
        Python::attach(|py| {
            // SAFETY: until `is_busy` is false, nobody else looks at either of them.
            let (batches, joint) = unsafe { (&mut *way.batches.get(), &mut *way.joint.get()) };
            joint.forget();
            let filled = batches.refill(py);
            filled.map_err(|error| error.restore(py)).ok().map(|()| batches.has_next())
        })
    };
    let done = catch_unwind(AssertUnwindSafe(read));
    way.is_busy.set(false);
    done.unwrap_or_else(|_| {
        let failed = PyRuntimeError::new_err("reading the next pairs has panicked");
        Python::attach(|py| failed.restore(py));
        None
    })
}

#[cold]
fn refuse() -> *mut ffi::PyObject {
    let refused = PyRuntimeError::new_err("another thread is asking this iterator");
    Python::attach(|py| refused.restore(py));
    null_mut()
}

/// The next string; null at the end, or with an exception.
unsafe extern "C" fn next(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: Python calls it for the iterators that `make` made, which keep their way.
    let (way, gives) = unsafe {
        let object = &*object.cast::<Strings>();
        (&*object.way, object.gives)
    };
    if way.is_busy.get() {
        return refuse();
    }
    // SAFETY: this thread holds the interpreter, so that no other one is here, or in `fill`.
    let is_empty = unsafe { !(*way.batches.get()).has_next() };
    if is_empty && !matches!(gives, Gives::ValuesOfKeys) && !matches!(fill(way), Some(true)) {
        return null_mut();
    }
    // SAFETY: as above; nothing below lets the interpreter go.
    let (batches, joint) = unsafe { (&mut *way.batches.get(), &mut *way.joint.get()) };
    let pair = match gives {
        Gives::ValuesOfKeys => batches.last(),
        _ => batches.step(),
    };
    let string = pair.map(|(key, value)| if matches!(gives, Gives::Keys) { key } else { value });
    match string {
        // SAFETY: this thread holds the interpreter.
        Some(string) => unsafe { object_of(joint, string) },
        None => null_mut(),
    }
}

unsafe extern "C" fn free(object: *mut ffi::PyObject) {
    // SAFETY: Python calls it once for an iterator that `make` made, when nobody has it any more.
    // Instances of a type that was made at run time hold a reference to it.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        drop(Arc::from_raw((*object.cast::<Strings>()).way));
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

/// The type of the iterators.
fn kind(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static KIND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made = KIND.get_or_try_init(py, || {
        let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
        let iter: unsafe extern "C" fn(_) -> _ = ffi::PyObject_SelfIter;
        let next: unsafe extern "C" fn(_) -> _ = next;
        let free: unsafe extern "C" fn(_) = free;
        let mut slots = [
            slot(ffi::Py_tp_iter, iter as *mut c_void),
            slot(ffi::Py_tp_iternext, next as *mut c_void),
            slot(ffi::Py_tp_dealloc, free as *mut c_void),
            slot(0, null_mut()),
        ];
        let flags = ffi::Py_TPFLAGS_DEFAULT
            | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION
            | ffi::Py_TPFLAGS_IMMUTABLETYPE;
        let mut spec = ffi::PyType_Spec {
            name: c"hedgerow.Strings".as_ptr(),
            basicsize: size_of::<Strings>() as c_int,
            itemsize: 0,
            flags: flags as u32,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: the name is there for good; Python copies the rest.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec)) };
        made.map(Bound::unbind)
    })?;
    Ok(made.bind(py))
}

fn make<'py>(py: Python<'py>, way: &Arc<Way>, gives: Gives) -> PyResult<Bound<'py, PyAny>> {
    let kind = kind(py)?;
    // SAFETY: `kind` is a type whose instances begin as `Strings` does; the new one, which nobody
    // else has, is filled before it is handed out.
    unsafe {
        let made = ffi::PyType_GenericAlloc(kind.as_ptr().cast(), 0);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        let strings = made.as_ptr().cast::<Strings>();
        (&raw mut (*strings).way).write(Arc::into_raw(Arc::clone(way)));
        (&raw mut (*strings).gives).write(gives);
        Ok(made)
    }
}

impl Way {
    fn new(batches: Batches<tree::Store>) -> Arc<Self> {
        let (batches, joint) = (UnsafeCell::new(batches), UnsafeCell::new(Joint::new()));
        #[expect(clippy::arc_with_non_send_sync, reason = "who holds the interpreter uses it")]
        Arc::new(Self { is_busy: Cell::new(false), batches, joint })
    }
}

/// The keys of pairs.
pub(crate) fn keys(py: Python<'_>, batches: Batches<tree::Store>) -> PyResult<Bound<'_, PyAny>> {
    make(py, &Way::new(batches), Gives::Keys)
}

/// The values of pairs.
pub(crate) fn values(py: Python<'_>, batches: Batches<tree::Store>) -> PyResult<Bound<'_, PyAny>> {
    make(py, &Way::new(batches), Gives::Values)
}

/// The keys and the values of pairs, to be asked in turns, the keys first.
pub(crate) fn both(
    py: Python<'_>,
    batches: Batches<tree::Store>,
) -> PyResult<(Bound<'_, PyAny>, Bound<'_, PyAny>)> {
    let way = Way::new(batches);
    Ok((make(py, &way, Gives::Keys)?, make(py, &way, Gives::ValuesOfKeys)?))
}
