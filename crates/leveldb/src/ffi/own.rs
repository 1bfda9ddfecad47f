//! Functions of this library's own, declared in `leveldb/hedgerow.h`.

use std::ffi::{c_char, c_int};

use super::{guard, text, thing};
use crate::db::Db;
use crate::options::{Kind, Options};

/// Chooses the engine of a database that is made: "tree" or "lsm". 0 for another name, which
/// changes nothing.
///
/// # Safety
/// Promises 1 and 3; the name ends in a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn hedgerow_leveldb_options_set_engine(
    options: *mut Options,
    name: *const c_char,
) -> c_int {
    // SAFETY: promises 1 and 3.
    unsafe {
        let kind = std::str::from_utf8(text(name)).ok().and_then(Kind::of_name);
        match (options.as_mut(), kind) {
            (Some(options), Some(kind)) => {
                options.engine = Some(kind);
                1
            }
            _ => 0,
        }
    }
}

/// The name of a database's engine, which is not to be freed.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn hedgerow_leveldb_engine(db: *const Db) -> *const c_char {
    // SAFETY: promise 1.
    match unsafe { db.as_ref() }.map(Db::kind) {
        Some(Kind::Tree) => c"tree".as_ptr(),
        Some(Kind::Lsm) => c"lsm".as_ptr(),
        None => std::ptr::null(),
    }
}

/// How many entries there are: at once on the tree, by a scan of the keys on the other engine.
///
/// # Safety
/// Promises 1, 2 and 4.
#[unsafe(no_mangle)]
unsafe extern "C" fn hedgerow_leveldb_count(db: *const Db, errptr: *mut *mut c_char) -> u64 {
    // SAFETY: promises 1, 2 and 4.
    unsafe { guard(errptr, || thing(db, "database")?.count()) }.unwrap_or(0)
}

/// Reads and verifies everything; the first problem is an error.
///
/// # Safety
/// Promises 1, 2 and 4.
#[unsafe(no_mangle)]
unsafe extern "C" fn hedgerow_leveldb_check(db: *const Db, errptr: *mut *mut c_char) {
    // SAFETY: promises 1, 2 and 4.
    unsafe {
        guard(errptr, || thing(db, "database")?.check());
    }
}

/// Makes a copy of the newest state in a new folder, while the database is in use.
///
/// # Safety
/// Promises 1, 2 and 4; the name ends in a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn hedgerow_leveldb_backup(
    db: *const Db,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    // SAFETY: promises 1, 2 and 4.
    unsafe {
        guard(errptr, || thing(db, "database")?.backup(text(name)));
    }
}
