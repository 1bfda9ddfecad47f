//! Functions for the C++ classes of this library, which it does not export. They are declared in
//! `cpp/inside.h`.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use super::batch::{DeleteFn, PutFn, each};
use super::iterator::Iterator;
use super::{boxed, bytes, drop_boxed, guard, text, thing};
use crate::db::Db;
use crate::engine::Snapshot;
use crate::folder;
use crate::lock::FileLock;
use crate::options::Options;

type Give = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

/// Shows the value of a key to `give`; 1 if it is there.
///
/// # Safety
/// Promises 1, 2 and 4; `give` takes the state.
#[unsafe(no_mangle)]
unsafe extern "C" fn inside_get(
    db: *const Db,
    snapshot: *const Snapshot,
    key: *const c_char,
    keylen: usize,
    state: *mut c_void,
    give: Give,
    errptr: *mut *mut c_char,
) -> c_int {
    // SAFETY: promises 1, 2 and 4.
    unsafe {
        let found = guard(errptr, || {
            thing(db, "database")?.get(snapshot.as_ref(), bytes(key, keylen)?, |value| {
                let Some(value) = value else { return false };
                give(state, value.as_ptr().cast::<c_char>(), value.len());
                true
            })
        });
        c_int::from(found == Some(true))
    }
}

/// An iterator over a snapshot, or the newest state where that is null; `verifies` says whether it
/// reads values with their keys.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn inside_iterate(
    db: *const Db,
    snapshot: *const Snapshot,
    verifies: bool,
) -> *mut Iterator {
    // SAFETY: promise 1.
    unsafe { boxed(Iterator::new(verifies, || thing(db, "database")?.place(snapshot.as_ref()))) }
}

/// Applies the bytes of a batch.
///
/// # Safety
/// Promises 1, 2 and 4.
#[unsafe(no_mangle)]
unsafe extern "C" fn inside_write(
    db: *const Db,
    sync: bool,
    batch: *const c_char,
    len: usize,
    errptr: *mut *mut c_char,
) {
    // SAFETY: promises 1, 2 and 4.
    unsafe {
        guard(errptr, || thing(db, "database")?.write_batch(bytes(batch, len)?, sync));
    }
}

/// Calls a function for each operation in the bytes of a batch.
///
/// # Safety
/// Promises 2 and 4; the functions take the state.
#[unsafe(no_mangle)]
unsafe extern "C" fn inside_each(
    batch: *const c_char,
    len: usize,
    state: *mut c_void,
    put: PutFn,
    deleted: DeleteFn,
    errptr: *mut *mut c_char,
) {
    // SAFETY: promises 2 and 4.
    unsafe {
        guard(errptr, || each(bytes(batch, len)?, state, Some(put), Some(deleted)));
    }
}

/// What a log's function is called with, by any thread.
struct LogState(*mut c_void);

// SAFETY: promise 3: loggers take lines of any thread.
unsafe impl Send for LogState {}
// SAFETY: as above.
unsafe impl Sync for LogState {}

impl LogState {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Has lines about the database go to a function.
///
/// # Safety
/// Promises 1 and 3; the function takes the state as long as the database is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn inside_set_log(options: *mut Options, state: *mut c_void, give: Give) {
    let state = LogState(state);
    let log = move |line: &str| {
        // SAFETY: the caller's function takes lines of any thread.
        unsafe { give(state.get(), line.as_ptr().cast::<c_char>(), line.len()) }
    };
    // SAFETY: promises 1 and 3.
    if let Some(options) = unsafe { options.as_mut() } {
        options.log = Some(Arc::new(log));
    }
}

/// Says that a database lies in memory, and the size of the cache that it is given.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn inside_set_hints(options: *mut Options, in_memory: bool, cache: usize) {
    // SAFETY: promises 1 and 3.
    if let Some(options) = unsafe { options.as_mut() } {
        options.in_memory = in_memory;
        if cache > 0 {
            options.cache = cache;
        }
    }
}

/// Locks a file; null and an error if that fails.
///
/// # Safety
/// Promises 2 and 4; the name ends in a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn inside_lock(name: *const c_char, errptr: *mut *mut c_char) -> *mut FileLock {
    // SAFETY: promises 2 and 4.
    unsafe {
        let taken = guard(errptr, || FileLock::take(&folder::path_of(text(name))?));
        taken.map_or(std::ptr::null_mut(), boxed)
    }
}

/// Gives a lock back.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn inside_unlock(lock: *mut FileLock) {
    // SAFETY: promise 1.
    unsafe { drop_boxed(lock) }
}
