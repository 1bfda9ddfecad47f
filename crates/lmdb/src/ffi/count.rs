//! DLMDB's `mdb_count_*`, `mdb_range_count_*`, `mdb_*rank`, `mdb_cursor_list_dup`.

use std::ffi::{c_int, c_uint};

use super::{bytes_of, on_cursor, on_txn, store, tell};
use crate::abi::{MDB_BAD_TXN, Val};
use crate::code::Answer;
use crate::count::What;
use crate::cursor::{Cursor, Given};
use crate::handles::View;
use crate::place::Place;
use crate::txn::Txn;

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_count_all(
    txn: *mut Txn,
    dbi: c_uint,
    flags: c_uint,
    out: *mut u64,
) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_txn(txn, |txn| tell(out, || txn.count_all(dbi as usize, flags))) }
}

/// The functions that count in a range.
macro_rules! counting {
    ($($name:ident: $what:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                txn: *mut Txn,
                dbi: c_uint,
                low: *const Val,
                high: *const Val,
                flags: c_uint,
                out: *mut u64,
            ) -> c_int {
                // SAFETY: the promises of `ffi`.
                unsafe {
                    let (low, high) = (low.as_ref().map(bytes_of), high.as_ref().map(bytes_of));
                    on_txn(txn, |txn| {
                        tell(out, || {
                            txn.count_range(dbi as usize, What::$what, low, high, flags)
                        })
                    })
                }
            }
        )*
    };
}

counting! {
    mdb_count_range: PlainKeys;
    mdb_range_count_keys: Keys;
    mdb_range_count_values: Values;
}

/// Hands out a pair; either address may be null.
///
/// # Safety
/// The promises of `ffi`.
unsafe fn give(given: &Given, key: *mut Val, data: *mut Val) {
    // SAFETY: the promises of `ffi`.
    unsafe {
        if let Some(value) = given.key {
            store(key, value);
        }
        if let Some(value) = given.data {
            store(data, value);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_get_rank(
    txn: *mut Txn,
    dbi: c_uint,
    rank: u64,
    key: *mut Val,
    data: *mut Val,
) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_txn(txn, |txn| {
            let dbi = dbi as usize;
            let mut own = match txn.views.get(dbi).is_some_and(View::is_brief) {
                true => Some(std::mem::take(txn.arena.brief())),
                false => None,
            };
            let rank = |txn: &mut Txn| txn.get_rank(dbi, &mut Place::new(), rank);
            let given = txn.with_memory(own.as_mut(), rank);
            if let Some(own) = own {
                *txn.arena.brief() = own;
            }
            give(&given?, key, data);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_get_rank(
    cursor: *mut Cursor,
    rank: u64,
    key: *mut Val,
    data: *mut Val,
    flags: c_uint,
) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_cursor(cursor, MDB_BAD_TXN, |txn, this| {
            if flags != 0 {
                return Err(libc::EINVAL);
            }
            let (dbi, (place, own, _)) = (this.dbi, this.parts());
            give(&txn.with_memory(own, |txn| txn.get_rank(dbi, place, rank))?, key, data);
            Ok(())
        })
    }
}

/// Tells where a key or a pair stands.
///
/// # Safety
/// The promises of `ffi`.
unsafe fn key_rank(
    txn: &mut Txn,
    dbi: usize,
    key: *const Val,
    data: *const Val,
    rank: *mut u64,
) -> Answer {
    // SAFETY: the promises of `ffi`.
    unsafe {
        let key = key.as_ref().map(bytes_of).ok_or(libc::EINVAL)?;
        tell(rank, || txn.key_rank(dbi, key, data.as_ref().map(bytes_of)))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_get_key_rank(
    txn: *mut Txn,
    dbi: c_uint,
    key: *const Val,
    data: *const Val,
    rank: *mut u64,
) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_txn(txn, |txn| key_rank(txn, dbi as usize, key, data, rank)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_key_rank(
    cursor: *mut Cursor,
    key: *const Val,
    data: *const Val,
    flags: c_uint,
    rank: *mut u64,
) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_cursor(cursor, MDB_BAD_TXN, |txn, this| match flags {
            0 => key_rank(txn, this.dbi, key, data, rank),
            _ => Err(libc::EINVAL),
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cursor_list_dup(
    cursor: *mut Cursor,
    values: *mut *const Val,
    count: *mut usize,
) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_cursor(cursor, MDB_BAD_TXN, |txn, this| {
            if values.is_null() || count.is_null() {
                return Err(libc::EINVAL);
            }
            let (dbi, (place, own, list)) = (this.dbi, this.parts());
            txn.with_memory(own, |txn| txn.list_values(dbi, place, list))?;
            store(values, list.as_ptr());
            store(count, list.len());
            Ok(())
        })
    }
}
