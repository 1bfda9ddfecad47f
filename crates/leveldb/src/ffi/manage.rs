//! Removing and repairing databases that are not open.

use std::ffi::c_char;

use super::{guard, text, thing};
use crate::db;
use crate::options::Options;
use crate::repair;

/// Removes a database: only files of this library.
///
/// # Safety
/// Promises 1, 2 and 4; the name ends in a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_destroy_db(
    _: *const Options,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    // SAFETY: promises 1, 2 and 4.
    unsafe {
        guard(errptr, || db::destroy(text(name)));
    }
}

/// Brings what can be read of a damaged database over to new files.
///
/// # Safety
/// Promises 1, 2 and 4; the name ends in a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_repair_db(
    options: *const Options,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    // SAFETY: promises 1, 2 and 4.
    unsafe {
        guard(errptr, || repair::repair(text(name), thing(options, "options")?));
    }
}
