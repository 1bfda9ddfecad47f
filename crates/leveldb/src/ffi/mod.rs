//! The functions that the library exports, and nothing else that touches the caller's pointers.
//!
//! Each function makes references of pointers, calls the safe rest, and hands its result out. A
//! null pointer where there has to be a thing is an error, or nothing happens. A panic does not
//! leave the library: it becomes an error.
//!
//! What callers promise, and every function here relies on:
//!
//! 1. A pointer to a thing of this library that is not null was made by it and has not been
//!    destroyed or closed since.
//! 2. A pointer with a length names that many bytes that may be read; every other pointer that is
//!    not null points to memory of its type that may be written.
//! 3. An iterator, a batch and options are used by one thread at a time; a database, a snapshot and
//!    functions that the caller gives by any.
//! 4. What `errptr` points to is null or was allocated by `malloc`.

#![expect(unsafe_code, reason = "the functions of a C interface")]

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::{Code, Result, Status};

mod batch;
mod callbacks;
mod database;
mod inside;
mod iterator;
mod manage;
mod options;
mod own;

/// The bytes that a pointer and a length name; a null pointer may name none.
///
/// # Errors
/// If it is null and is said to name some, or if no memory is that long.
///
/// # Safety
/// Promise 2; they are not used after the call.
#[inline]
unsafe fn bytes<'c>(at: *const c_char, len: usize) -> Result<&'c [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if at.is_null() || len > isize::MAX as usize {
        return Err(missing("string"));
    }
    // SAFETY: promise 2.
    Ok(unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len) })
}

/// The bytes of a string of C, without the zero at its end.
///
/// # Safety
/// It is null or ends in a zero; it is not used after the call.
unsafe fn text<'c>(at: *const c_char) -> &'c [u8] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: it ends in a zero.
    unsafe { CStr::from_ptr(at) }.to_bytes()
}

/// Runs a function; `None` where it failed, and then the caller is told why.
///
/// # Safety
/// Promises 2 and 4 for `errptr`.
#[inline]
unsafe fn guard<T>(errptr: *mut *mut c_char, run: impl FnOnce() -> Result<T>) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Some(value),
        Ok(Err(status)) => {
            // SAFETY: handed on.
            unsafe { tell(errptr, &status) };
            None
        }
        Err(_) => {
            let status = Status::new(Code::IoError, "a call ended in a panic, which is a bug");
            // SAFETY: handed on.
            unsafe { tell(errptr, &status) };
            None
        }
    }
}

/// Hands an error out in place of the one before.
///
/// # Safety
/// Promises 2 and 4.
#[cold]
unsafe fn tell(errptr: *mut *mut c_char, status: &Status) {
    if errptr.is_null() {
        return;
    }
    let mut text = status.to_string().into_bytes();
    text.push(0);
    // SAFETY: promises 2 and 4.
    unsafe {
        libc::free((*errptr).cast::<c_void>());
        *errptr = allocated(&text);
    }
}

/// A copy of some bytes that the caller frees; null if there is no memory.
#[inline]
fn allocated(bytes: &[u8]) -> *mut c_char {
    // SAFETY: memory of at least one byte is asked for, and only written if it is there.
    unsafe {
        let copy = libc::malloc(bytes.len().max(1));
        if !copy.is_null() {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.cast::<u8>(), bytes.len());
        }
        copy.cast::<c_char>()
    }
}

/// A thing of this library, by its address.
///
/// # Safety
/// Promise 1.
#[inline]
unsafe fn thing<'c, T>(at: *const T, what: &str) -> Result<&'c T> {
    // SAFETY: promise 1.
    unsafe { at.as_ref() }.ok_or_else(|| missing(what))
}

#[cold]
fn missing(what: &str) -> Status {
    Status::invalid(format!("no {what} was given"))
}

/// Hands a thing out; [`drop_boxed`] takes it back.
fn boxed<T>(thing: T) -> *mut T {
    Box::into_raw(Box::new(thing))
}

/// Drops a thing that was handed out.
///
/// # Safety
/// Promise 1, and nothing of it is used afterwards.
unsafe fn drop_boxed<T>(at: *mut T) {
    if !at.is_null() {
        // SAFETY: it was made by `boxed`.
        let thing = unsafe { Box::from_raw(at) };
        // A panic would end the program.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(thing)));
    }
}

/// What a string names, for tests of the safe part.
#[cfg(test)]
pub(crate) fn copy_for_tests(string: crate::engine::Str) -> Vec<u8> {
    // SAFETY: tests look at it before the place moves.
    unsafe { bytes(string.at.cast::<c_char>(), string.len) }.unwrap().to_vec()
}
