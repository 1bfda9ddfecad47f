//! A value of a snapshot as a buffer that Python reads in place: the only file here that hands out
//! addresses.

#![expect(unsafe_code, reason = "the buffer protocol is one of addresses")]

use std::ffi::c_int;

use hedgerow::stream::Value;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use crate::codec::joined;

/// A value that stays where it is as long as this object lives.
#[pyclass(frozen, module = "hedgerow")]
struct Buffer {
    value: Value,
}

#[pymethods]
impl Buffer {
    /// # Safety
    /// `view` is a buffer that Python asks to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let Some(bytes) = slf.get().value.bytes().as_slice() else {
            return Err(PyBufferError::new_err("the value is in two pieces"));
        };
        let len = bytes.len() as ffi::Py_ssize_t;
        let start = bytes.as_ptr().cast_mut().cast();
        // SAFETY: the bytes stay in place and unchanged as long as `Buffer` lives: the view takes a
        // reference to it, and is for reading only.
        match unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 1, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}

/// A `memoryview` of a value: without a copy, unless it is stored in two pieces.
pub(crate) fn view(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    let bytes = value.bytes();
    let exporter = match bytes.as_slice() {
        Some(_) => Bound::new(py, Buffer { value })?.into_any(),
        None => joined(py, bytes)?.into_any(),
    };
    Ok(PyMemoryView::from(&exporter)?.into_any())
}
