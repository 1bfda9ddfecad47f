//! `mdb_get`, `mdb_put`, `mdb_del`, `mdb_cmp`, `mdb_dcmp`.

use std::ffi::{c_int, c_uint};

use super::{bytes_of, on_txn};
use crate::abi::*;
use crate::data::Put;
use crate::txn::Txn;

/// The flags of `mdb_put`.
const PUT_FLAGS: u32 = MDB_NOOVERWRITE | MDB_NODUPDATA | MDB_RESERVE | MDB_APPEND | MDB_APPENDDUP;

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_get(txn: *mut Txn, dbi: c_uint, key: *const Val, data: *mut Val) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_txn(txn, |txn| {
            let (Some(key), false) = (key.as_ref(), data.is_null()) else {
                return Err(libc::EINVAL);
            };
            txn.get(dbi as usize, bytes_of(key), |value| data.write(value))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_put(
    txn: *mut Txn,
    dbi: c_uint,
    key: *const Val,
    data: *mut Val,
    flags: c_uint,
) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_txn(txn, |txn| {
            let (Some(key), Some(data)) = (key.as_ref(), data.as_mut()) else {
                return Err(libc::EINVAL);
            };
            if let Some(done) = txn.put_usual(dbi as usize, bytes_of(key), data, flags, None) {
                return done;
            }
            txn.view(dbi as usize)?;
            if flags & !PUT_FLAGS != 0 {
                return Err(libc::EINVAL);
            }
            txn.check_write()?;
            match txn.put(dbi as usize, bytes_of(key), *data, flags)? {
                Put::Done => Ok(()),
                Put::Reserved(address) => {
                    data.data = address.cast();
                    Ok(())
                }
                Put::Exists(old) => {
                    if let Some(old) = old {
                        *data = old;
                    }
                    Err(MDB_KEYEXIST)
                }
            }
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_del(
    txn: *mut Txn,
    dbi: c_uint,
    key: *const Val,
    data: *const Val,
) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_txn(txn, |txn| {
            let Some(key) = key.as_ref() else { return Err(libc::EINVAL) };
            txn.view(dbi as usize)?;
            txn.check_write()?;
            txn.delete(dbi as usize, bytes_of(key), data.as_ref().map(bytes_of), None)
        })
    }
}

/// Compares two strings as a database does; 0 if that is not possible.
///
/// # Safety
/// The promises of `ffi`.
unsafe fn compare(txn: *mut Txn, dbi: c_uint, a: *const Val, b: *const Val, values: bool) -> c_int {
    let mut order = 0;
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_txn(txn, |txn| {
            let (Some(a), Some(b)) = (a.as_ref(), b.as_ref()) else { return Err(libc::EINVAL) };
            order = txn.compare(dbi as usize, bytes_of(a), bytes_of(b), values)? as c_int;
            Ok(())
        });
    }
    order
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_cmp(txn: *mut Txn, dbi: c_uint, a: *const Val, b: *const Val) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { compare(txn, dbi, a, b, false) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_dcmp(txn: *mut Txn, dbi: c_uint, a: *const Val, b: *const Val) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { compare(txn, dbi, a, b, true) }
}
