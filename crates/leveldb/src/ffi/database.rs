//! Databases: opening and closing, reading and writing, snapshots, properties.

use std::ffi::{c_char, c_int};

use super::iterator::Iterator;
use super::options::{ReadOptions, WriteOptions};
use super::{allocated, batch::WriteBatch, boxed, bytes, drop_boxed, guard, text, thing};
use crate::batch::Op;
use crate::db::Db;
use crate::engine::Snapshot;
use crate::options::Options;

/// The snapshot that options of reading name.
///
/// # Safety
/// Promise 1, also for the snapshot.
unsafe fn snapshot_of<'c>(options: *const ReadOptions) -> Option<&'c Snapshot> {
    // SAFETY: promise 1.
    unsafe { options.as_ref()?.snapshot.and_then(|snapshot| snapshot.as_ref()) }
}

/// Whether options of writing ask for stable storage.
///
/// # Safety
/// Promise 1.
unsafe fn is_sync(options: *const WriteOptions) -> bool {
    // SAFETY: promise 1.
    unsafe { options.as_ref() }.is_some_and(|options| options.sync)
}

/// Opens a database; null and an error if that fails.
///
/// # Safety
/// Promises 1, 2 and 4; the name ends in a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_open(
    options: *const Options,
    name: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut Db {
    // SAFETY: promises 1, 2 and 4.
    unsafe {
        let opened = guard(errptr, || Db::open(text(name), thing(options, "options")?));
        opened.map_or(std::ptr::null_mut(), boxed)
    }
}

/// Closes a database.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_close(db: *mut Db) {
    // SAFETY: promise 1.
    unsafe { drop_boxed(db) }
}

/// Puts a value under a key.
///
/// # Safety
/// Promises 1, 2 and 4.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_put(
    db: *mut Db,
    options: *const WriteOptions,
    key: *const c_char,
    keylen: usize,
    val: *const c_char,
    vallen: usize,
    errptr: *mut *mut c_char,
) {
    // SAFETY: promises 1, 2 and 4.
    unsafe {
        guard(errptr, || {
            let op = Op { key: bytes(key, keylen)?, value: Some(bytes(val, vallen)?) };
            thing(db, "database")?.write(&[op], is_sync(options))
        });
    }
}

/// Deletes a key, which need not be there.
///
/// # Safety
/// Promises 1, 2 and 4.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_delete(
    db: *mut Db,
    options: *const WriteOptions,
    key: *const c_char,
    keylen: usize,
    errptr: *mut *mut c_char,
) {
    // SAFETY: promises 1, 2 and 4.
    unsafe {
        guard(errptr, || {
            let op = Op { key: bytes(key, keylen)?, value: None };
            thing(db, "database")?.write(&[op], is_sync(options))
        });
    }
}

/// Applies a batch.
///
/// # Safety
/// Promises 1 to 4.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_write(
    db: *mut Db,
    options: *const WriteOptions,
    batch: *const WriteBatch,
    errptr: *mut *mut c_char,
) {
    // SAFETY: promises 1 to 4.
    unsafe {
        guard(errptr, || {
            let batch = thing(batch, "batch")?;
            thing(db, "database")?.write_batch(batch.0.bytes(), is_sync(options))
        });
    }
}

/// A copy of the value of a key, which the caller frees; null, and no error, if it is not there.
///
/// # Safety
/// Promises 1, 2 and 4.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_get(
    db: *mut Db,
    options: *const ReadOptions,
    key: *const c_char,
    keylen: usize,
    vallen: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    let copy = |value: Option<&[u8]>| value.map(|value| (allocated(value), value.len()));
    // SAFETY: promises 1, 2 and 4.
    unsafe {
        let found = guard(errptr, || {
            thing(db, "database")?.get(snapshot_of(options), bytes(key, keylen)?, copy)
        });
        let (at, len) = found.flatten().unwrap_or((std::ptr::null_mut(), 0));
        if let Some(vallen) = vallen.as_mut() {
            *vallen = len;
        }
        at
    }
}

/// An iterator over the newest state, or over a snapshot; it stands nowhere yet.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_create_iterator(
    db: *mut Db,
    options: *const ReadOptions,
) -> *mut Iterator {
    // SAFETY: promise 1.
    unsafe {
        let verifies = options.as_ref().is_some_and(|options| options.verify_checksums);
        boxed(Iterator::new(verifies, || thing(db, "database")?.place(snapshot_of(options))))
    }
}

/// The newest state, to be read later; null if it cannot be held.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_create_snapshot(db: *mut Db) -> *const Snapshot {
    // SAFETY: promise 1; errors are not handed out.
    unsafe {
        let snapshot = guard(std::ptr::null_mut(), || thing(db, "database")?.snapshot());
        snapshot.map_or(std::ptr::null(), |snapshot| boxed(snapshot).cast_const())
    }
}

/// Takes a snapshot back.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_release_snapshot(_: *mut Db, snapshot: *const Snapshot) {
    // SAFETY: promise 1.
    unsafe { drop_boxed(snapshot.cast_mut()) }
}

/// What a property says, for the caller to free; null for an unknown one.
///
/// # Safety
/// Promise 1; the name ends in a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_property_value(db: *mut Db, name: *const c_char) -> *mut c_char {
    // SAFETY: promise 1.
    unsafe {
        let found = guard(std::ptr::null_mut(), || Ok(thing(db, "database")?.property(text(name))));
        let value = found.flatten().map(|value| [value.as_bytes(), b"\0"].concat());
        value.map_or(std::ptr::null_mut(), |value| allocated(&value))
    }
}

/// About how many bytes each range of keys takes.
///
/// # Safety
/// Promises 1 and 2; each array has as many elements as is said.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_approximate_sizes(
    db: *mut Db,
    ranges: c_int,
    starts: *const *const c_char,
    start_lens: *const usize,
    limits: *const *const c_char,
    limit_lens: *const usize,
    sizes: *mut u64,
) {
    if starts.is_null() || start_lens.is_null() || limits.is_null() || limit_lens.is_null() {
        return;
    }
    if sizes.is_null() {
        return;
    }
    for index in 0..usize::try_from(ranges).unwrap_or(0) {
        // SAFETY: promises 1 and 2, and the arrays are that long.
        unsafe {
            let size = guard(std::ptr::null_mut(), || {
                let from = bytes(*starts.add(index), *start_lens.add(index))?;
                let to = bytes(*limits.add(index), *limit_lens.add(index))?;
                Ok(thing(db, "database")?.approximate_size(from, to))
            });
            *sizes.add(index) = size.unwrap_or(0);
        }
    }
}

/// Makes the files small; null is an open end.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_compact_range(
    db: *mut Db,
    start: *const c_char,
    _start_len: usize,
    limit: *const c_char,
    _limit_len: usize,
) {
    let all = start.is_null() && limit.is_null();
    // SAFETY: promise 1.
    unsafe {
        guard(std::ptr::null_mut(), || {
            thing(db, "database")?.compact(all);
            Ok(())
        });
    }
}
