//! The functions that the library exports, and nothing else that touches the caller's pointers.
//!
//! Each function does the same: it returns EINVAL for a null pointer where LMDB does, makes
//! references of the pointers, calls a safe method that decides, and stores its result. A panic
//! does not leave the library: it becomes MDB_PANIC, and the transaction is lost.
//!
//! What the callers promise is what `lmdb.h` says, and every function here relies on it:
//!
//! 1. An `MDB_env`, `MDB_txn` or `MDB_cursor` that is not null was made by this library and has not
//!    been closed, committed or aborted since.
//! 2. A transaction (and its cursors) is used by one thread at a time.
//! 3. An `MDB_val` names memory that may be read; every other pointer that is not null points to
//!    memory of its type that may be written.

#![expect(unsafe_code, reason = "the functions of a C interface")]

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{MDB_PANIC, Val};
use crate::code::Answer;
use crate::cursor::Cursor;
use crate::txn::{FAILED, Txn};

mod change;
pub(crate) mod compare;
mod count;
mod cursor;
mod data;
mod dbi;
mod env;
pub(crate) mod seat;
pub(crate) mod tracked;
mod txn;

/// The bytes that a value names; none for a null pointer.
///
/// A `Val` is made of a slice, or comes from a caller that promises (3); it is not kept beyond the
/// call.
#[inline(always)]
pub(crate) fn bytes_of(val: &Val) -> &[u8] {
    if val.data.is_null() {
        return &[];
    }
    // SAFETY: promise 3, or the slice it was made of.
    unsafe { std::slice::from_raw_parts(val.data.cast::<u8>().cast_const(), val.size) }
}

/// The calling thread, as LMDB shows it.
pub(crate) fn this_thread() -> usize {
    // SAFETY: the function takes nothing and touches no memory of the caller's.
    unsafe { libc::pthread_self() as usize }
}

/// The code for a result.
#[inline(always)]
fn code(answer: Answer) -> c_int {
    match answer {
        Ok(()) => 0,
        Err(code) => code,
    }
}

/// Runs a function of the interface.
#[inline(always)]
fn guard(run: impl FnOnce() -> Answer) -> c_int {
    catch_unwind(AssertUnwindSafe(|| code(run()))).unwrap_or(MDB_PANIC)
}

/// Runs a function on a transaction; null is EINVAL.
///
/// # Safety
/// Promises 1 and 2.
#[inline(always)]
unsafe fn on_txn(txn: *mut Txn, run: impl FnOnce(&mut Txn) -> Answer) -> c_int {
    // SAFETY: it is null or a transaction that lives (1) and that is not used elsewhere (2).
    let Some(txn) = (unsafe { txn.as_mut() }) else { return libc::EINVAL };
    match catch_unwind(AssertUnwindSafe(|| code(run(txn)))) {
        Ok(code) => code,
        Err(_) => {
            txn.flags |= FAILED;
            MDB_PANIC
        }
    }
}

/// Runs a function on a cursor and its transaction; null is EINVAL, and `ended` what is answered
/// for a reader's cursor whose transaction has ended.
///
/// # Safety
/// Promises 1 and 2.
#[inline(always)]
unsafe fn on_cursor(
    cursor: *mut Cursor,
    ended: c_int,
    run: impl FnOnce(&mut Txn, &mut Cursor) -> Answer,
) -> c_int {
    // SAFETY: it is null or a cursor that lives (1) and that is not used elsewhere (2), like its
    // transaction.
    unsafe {
        match cursor.as_mut() {
            Some(this) if this.txn.is_null() => ended,
            Some(this) => on_txn(this.txn, |txn| run(txn, this)),
            None => libc::EINVAL,
        }
    }
}

/// Stores an answer at the caller's address; a null address is EINVAL.
///
/// # Safety
/// Promise 3.
unsafe fn tell<T>(to: *mut T, ask: impl FnOnce() -> Answer<T>) -> Answer {
    if to.is_null() {
        return Err(libc::EINVAL);
    }
    let told = ask()?;
    // SAFETY: promise 3.
    unsafe { store(to, told) };
    Ok(())
}

/// Stores a result where the caller wants it.
///
/// # Safety
/// Promise 3.
#[inline(always)]
unsafe fn store<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: promise 3.
        unsafe { to.write(value) }
    }
}
