//! Batches of writes.

use std::ffi::{c_char, c_void};

use super::{boxed, bytes, drop_boxed, guard};
use crate::batch::{self, Batch, Op};
use crate::status::Result;

/// `leveldb_writebatch_t`.
pub(super) struct WriteBatch(pub(super) Batch);

pub(super) type PutFn =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize);
pub(super) type DeleteFn = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

/// Changes a batch, if there is one. What does not fit is left out, as there is nobody to tell.
///
/// # Safety
/// Promises 1 and 3.
unsafe fn change(batch: *mut WriteBatch, change: impl FnOnce(&mut Batch) -> Result<()>) {
    // SAFETY: promises 1 and 3.
    unsafe {
        if let Some(WriteBatch(batch)) = batch.as_mut() {
            guard(std::ptr::null_mut(), || change(batch));
        }
    }
}

/// An empty batch.
#[unsafe(no_mangle)]
extern "C" fn leveldb_writebatch_create() -> *mut WriteBatch {
    boxed(WriteBatch(Batch::new()))
}

/// Takes a batch back.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writebatch_destroy(batch: *mut WriteBatch) {
    // SAFETY: promise 1.
    unsafe { drop_boxed(batch) }
}

/// Empties a batch.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writebatch_clear(batch: *mut WriteBatch) {
    // SAFETY: promises 1 and 3.
    unsafe {
        change(batch, |batch| {
            batch.clear();
            Ok(())
        });
    }
}

/// Adds a value.
///
/// # Safety
/// Promises 1 to 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writebatch_put(
    batch: *mut WriteBatch,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    // SAFETY: promises 1 to 3.
    unsafe {
        change(batch, |batch| {
            batch.add(Op { key: bytes(key, klen)?, value: Some(bytes(val, vlen)?) })
        });
    }
}

/// Adds a deletion.
///
/// # Safety
/// Promises 1 to 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writebatch_delete(
    batch: *mut WriteBatch,
    key: *const c_char,
    klen: usize,
) {
    // SAFETY: promises 1 to 3.
    unsafe {
        change(batch, |batch| batch.add(Op { key: bytes(key, klen)?, value: None }));
    }
}

/// Calls a function for each operation, in order.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writebatch_iterate(
    batch: *const WriteBatch,
    state: *mut c_void,
    put: Option<PutFn>,
    deleted: Option<DeleteFn>,
) {
    // SAFETY: promises 1 and 3.
    unsafe {
        if let Some(WriteBatch(batch)) = batch.as_ref() {
            guard(std::ptr::null_mut(), || each(batch.bytes(), state, put, deleted));
        }
    }
}

/// Adds the operations of another batch, which may be the same one.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writebatch_append(
    destination: *mut WriteBatch,
    source: *const WriteBatch,
) {
    // SAFETY: promises 1 and 3; the copy keeps the two apart.
    unsafe {
        let Some(source) = source.as_ref().map(|source| source.0.clone()) else { return };
        change(destination, |batch| {
            batch.append(&source);
            Ok(())
        });
    }
}

/// Calls a function for each operation in the bytes of a batch.
///
/// # Safety
/// The functions take the state.
pub(super) unsafe fn each(
    bytes: &[u8],
    state: *mut c_void,
    put: Option<PutFn>,
    deleted: Option<DeleteFn>,
) -> Result<()> {
    for op in batch::ops(bytes)? {
        let Op { key, value } = op?;
        let at = key.as_ptr().cast::<c_char>();
        // SAFETY: the caller's functions, with strings that stand in the batch.
        unsafe {
            match (value, put, deleted) {
                (Some(value), Some(put), _) => {
                    put(state, at, key.len(), value.as_ptr().cast::<c_char>(), value.len());
                }
                (None, _, Some(deleted)) => deleted(state, at, key.len()),
                _ => {}
            }
        }
    }
    Ok(())
}
