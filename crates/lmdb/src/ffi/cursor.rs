//! `mdb_cursor_*`.

use std::ffi::{c_int, c_uint};

use super::{bytes_of, on_txn, store};
use crate::abi::*;
use crate::code::Answer;
use crate::cursor::{Cursor, Given};
use crate::handles::View;
use crate::place::Place;
use crate::txn::{BLOCKED, Body, Txn};

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_open(
    txn: *mut Txn,
    dbi: c_uint,
    result: *mut *mut Cursor,
) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_txn(txn, |this| {
            let dbi = dbi as usize;
            let known = this.views.get(dbi).is_some_and(|view| view.state & View::VALID != 0);
            if result.is_null() || !known {
                return Err(libc::EINVAL);
            }
            this.check()?;
            let is_writing = this.flags & MDB_RDONLY == 0;
            if dbi == 0 && is_writing {
                return Err(libc::EINVAL);
            }
            let (place, saved) = (Place::new(), Vec::new());
            let cursor = Box::into_raw(Box::new(Cursor { txn, dbi, place, saved, is_writing }));
            this.cursors.add(cursor);
            store(result, cursor);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_close(cursor: *mut Cursor) {
    // SAFETY: the promises of `ffi`; the cursor was made by `mdb_cursor_open`, and leaves the list
    // of its transaction before it is let go.
    unsafe {
        let Some(this) = cursor.as_ref() else { return };
        if !this.saved.is_empty() {
            // The parent's transaction closes it.
            return;
        }
        on_txn(this.txn, |txn| {
            txn.cursors.remove(cursor);
            Ok(())
        });
        drop(Box::from_raw(cursor));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_renew(txn: *mut Txn, cursor: *mut Cursor) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        let Some(this) = cursor.as_mut() else { return libc::EINVAL };
        on_txn(txn, |next| {
            let known = next.views.get(this.dbi).is_some_and(|view| view.state & View::VALID != 0);
            if !known || this.is_writing || next.flags & MDB_RDONLY == 0 {
                return Err(libc::EINVAL);
            }
            if next.flags & BLOCKED != 0 {
                return Err(MDB_BAD_TXN);
            }
            if this.txn == txn {
                next.cursors.remove(cursor);
            } else if let Some(last) = this.txn.as_mut() {
                last.cursors.remove(cursor);
            }
            next.cursors.add(cursor);
            this.txn = txn;
            this.place = Place::new();
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_txn(cursor: *const Cursor) -> *mut Txn {
    // SAFETY: the promises of `ffi`.
    unsafe { cursor.as_ref().map_or(std::ptr::null_mut(), |cursor| cursor.txn) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_dbi(cursor: *const Cursor) -> c_uint {
    // SAFETY: the promises of `ffi`.
    unsafe { cursor.as_ref().map_or(0, |cursor| cursor.dbi as c_uint) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_get(
    cursor: *mut Cursor,
    key: *mut Val,
    data: *mut Val,
    op: c_uint,
) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        let Some(this) = cursor.as_mut() else { return libc::EINVAL };
        let Some(txn) = this.txn.as_mut() else { return MDB_BAD_TXN };
        // The step inside a leaf, where nothing can panic.
        if op == op::NEXT
            && txn.may_step(&this.place)
            && let (Body::Read(read), Some(place)) = (&txn.body, this.place.cursor_mut())
            && let Some((joined, value)) = place.next_joined(read, txn.arena.room())
        {
            store(key, txn.arena.joined(joined));
            store(data, Val::new(value.as_ptr(), value.len()));
            return 0;
        }
        get_slow(cursor, key, data, op)
    }
}

/// Every other call.
///
/// # Safety
/// The promises of `ffi`; the cursor is not null and has a transaction.
#[inline(never)]
unsafe fn get_slow(cursor: *mut Cursor, key: *mut Val, data: *mut Val, op: c_uint) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        let this = &mut *cursor;
        on_txn(this.txn, |txn| {
            let takes_key = matches!(op, op::SET | op::SET_KEY | op::SET_RANGE);
            let given = match txn.cursor_here(&mut this.place, op) {
                None => {
                    let wanted = key.as_ref().filter(|_| takes_key).map(bytes_of);
                    txn.cursor_usual(this.dbi, &mut this.place, op, wanted)
                }
                given => given,
            };
            if let Some(pair) = given {
                let (whole_key, value) = pair?;
                if op != op::SET {
                    store(key, whole_key);
                }
                store(data, value);
                return Ok(());
            }
            let given = get_any(txn, this, key, data, op)?;
            if let Some(value) = given.key {
                store(key, value);
            }
            if let Some(value) = given.data {
                store(data, value);
            }
            Ok(())
        })
    }
}

/// What a call of any kind gives.
///
/// # Safety
/// The promises of `ffi`.
unsafe fn get_any(
    txn: &mut Txn,
    this: &mut Cursor,
    key: *const Val,
    data: *const Val,
    op: c_uint,
) -> Answer<Given> {
    txn.check()?;
    // Only these read what is given; elsewhere it need not name anything.
    let takes_pair = matches!(op, op::GET_BOTH | op::GET_BOTH_RANGE);
    let takes_key = takes_pair || matches!(op, op::SET | op::SET_KEY | op::SET_RANGE);
    // SAFETY: the promises of `ffi`.
    let (key, data) = unsafe { (key.as_ref(), data.as_ref()) };
    let key = key.filter(|_| takes_key).map(bytes_of);
    let data = data.map(|data| if takes_pair { bytes_of(data) } else { &[] });
    txn.cursor_get(this.dbi, &mut this.place, op, key, data)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_put(
    cursor: *mut Cursor,
    key: *const Val,
    data: *mut Val,
    flags: c_uint,
) -> c_int {
    // SAFETY: the promises of `ffi`; with MDB_MULTIPLE `data` names two values.
    unsafe {
        let (Some(this), Some(key)) = (cursor.as_mut(), key.as_ref()) else {
            return libc::EINVAL;
        };
        on_txn(this.txn, |txn| {
            if let Some(data) = data.as_ref()
                && let Some(done) =
                    txn.cursor_put_usual(this.dbi, &mut this.place, bytes_of(key), data, flags)
            {
                return done;
            }
            if flags & MDB_MULTIPLE != 0 {
                return put_multiple(txn, this, key, data, flags & !MDB_MULTIPLE);
            }
            txn.check_write()?;
            let Some(data) = data.as_mut() else { return Err(libc::EINVAL) };
            txn.cursor_put(this.dbi, &mut this.place, bytes_of(key), data, flags)
        })
    }
}

/// Puts several values of one size; the second `Val` says how many, and is told how many were put.
///
/// # Safety
/// `data` is null or names two values; the first one the size of a value and where they stand.
unsafe fn put_multiple(
    txn: &mut Txn,
    this: &mut Cursor,
    key: &Val,
    data: *mut Val,
    flags: c_uint,
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
    for done in 0..count {
        let mut one = Val { data: from.wrapping_byte_add(done * first.size), ..*first };
        txn.cursor_put(this.dbi, &mut this.place, &key, &mut one, flags)?;
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
        let Some(this) = cursor.as_mut() else { return libc::EINVAL };
        on_txn(this.txn, |txn| {
            txn.check_write()?;
            txn.cursor_delete(this.dbi, &mut this.place, cursor, flags)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_count(cursor: *mut Cursor, count: *mut usize) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        let (Some(this), false) = (cursor.as_mut(), count.is_null()) else {
            return libc::EINVAL;
        };
        on_txn(this.txn, |txn| {
            txn.check()?;
            store(count, txn.cursor_count(this.dbi, &mut this.place)? as usize);
            Ok(())
        })
    }
}
