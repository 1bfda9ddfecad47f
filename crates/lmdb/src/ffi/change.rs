//! `mdb_cursor_put` and `mdb_cursor_del`.

use std::ffi::{c_int, c_uint};

use super::{bytes_of, on_cursor};
use crate::abi::*;
use crate::cursor::Cursor;
use crate::txn::Txn;

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_put(
    cursor: *mut Cursor,
    key: *const Val,
    data: *mut Val,
    flags: c_uint,
) -> c_int {
    // SAFETY: the promises of `ffi`; with MDB_MULTIPLE `data` names two values.
    unsafe {
        on_cursor(cursor, libc::EACCES, |txn, this| {
            let Some(key) = key.as_ref() else { return Err(libc::EINVAL) };
            if let Some(data) = data.as_ref()
                && let Some(done) =
                    txn.cursor_put_usual(this.dbi, this.place(), bytes_of(key), data, flags)
            {
                return done;
            }
            if flags & MDB_MULTIPLE != 0 {
                return put_multiple(txn, this, key, data, flags & !MDB_MULTIPLE);
            }
            txn.check_write()?;
            let Some(data) = data.as_mut() else { return Err(libc::EINVAL) };
            txn.cursor_put(this.dbi, this.place(), bytes_of(key), data, flags)
        })
    }
}

/// Puts several values of one size; the second `Val` says how many, and gets the number that were
/// put.
///
/// # Safety
/// `data` is null or names two values; the first one the size of a value and where they stand.
unsafe fn put_multiple(
    txn: &mut Txn,
    this: &mut Cursor,
    key: &Val,
    data: *mut Val,
    mut flags: c_uint,
) -> Result<(), c_int> {
    if data.is_null() {
        return Err(libc::EINVAL);
    }
    let view = txn.prepared(this.dbi)?;
    if view.flags & MDB_DUPFIXED == 0 {
        return Err(MDB_INCOMPATIBLE);
    }
    // SAFETY: the caller's promise.
    let (first, counter) = unsafe { (&mut *data, &mut *data.add(1)) };
    let count = std::mem::take(&mut counter.size);
    txn.check_write()?;
    // Each of the puts may move what was given, if that stands in the store.
    let key = bytes_of(key).to_vec();
    let all = Val { size: first.size.saturating_mul(count), ..*first };
    let copy = if txn.arena.has_given() { bytes_of(&all).to_vec() } else { Vec::new() };
    let from = if copy.is_empty() { first.data } else { copy.as_ptr().cast_mut().cast() };
    let mut appends = flags & !MDB_APPENDDUP == 0;
    for done in 0..count {
        let mut one = Val { data: from.wrapping_byte_add(done * first.size), ..*first };
        appends = appends && txn.cursor_append_value(this.dbi, this.place(), &key, &one)?;
        if !appends {
            txn.cursor_put(this.dbi, this.place(), &key, &mut one, flags)?;
        }
        // These say where there may be a first value; the key has it now.
        flags &= !(MDB_APPEND | MDB_NOOVERWRITE);
        counter.size = done + 1;
        if done + 1 < count {
            first.data = first.data.wrapping_byte_add(first.size);
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_del(cursor: *mut Cursor, flags: c_uint) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_cursor(cursor, libc::EACCES, |txn, this| {
            txn.check_write()?;
            txn.cursor_delete(this.dbi, this.place(), cursor, flags)
        })
    }
}
