//! `mdb_dbi_*`, `mdb_stat`, `mdb_drop`, `mdb_set_*`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::{guard, on_txn, store, tell};
use crate::abi::*;
use crate::env::Env;
use crate::txn::Txn;

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_dbi_open(
    txn: *mut Txn,
    name: *const c_char,
    flags: c_uint,
    dbi: *mut c_uint,
) -> c_int {
    // SAFETY: the promises of `ffi`; a name is a string that ends with a zero.
    unsafe {
        let name = (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes());
        on_txn(txn, |txn| tell(dbi, || Ok(txn.open_database(name, flags)? as c_uint)))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_dbi_close(env: *const Env, dbi: c_uint) {
    // SAFETY: the promises of `ffi`.
    let Some(env) = (unsafe { env.as_ref() }) else { return };
    guard(|| {
        env.handles.change().close(dbi as usize);
        Ok(())
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_dbi_flags(txn: *mut Txn, dbi: c_uint, flags: *mut c_uint) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_txn(txn, |txn| {
            store(flags, txn.database_flags(dbi as usize)?);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_stat(txn: *mut Txn, dbi: c_uint, stat: *mut Stat) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_txn(txn, |txn| tell(stat, || txn.stat(dbi as usize))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_drop(txn: *mut Txn, dbi: c_uint, delete: c_int) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_txn(txn, |txn| match delete {
            0 | 1 => txn.drop_database(dbi as usize, delete == 1),
            _ => Err(libc::EINVAL),
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_set_compare(txn: *mut Txn, dbi: c_uint, function: Option<CmpFn>) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_txn(txn, |txn| txn.set_functions(dbi as usize, |all| all.keys = function)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_set_dupsort(txn: *mut Txn, dbi: c_uint, function: Option<CmpFn>) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_txn(txn, |txn| txn.set_functions(dbi as usize, |all| all.values = function)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_set_relfunc(txn: *mut Txn, dbi: c_uint, function: Option<RelFn>) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_txn(txn, |txn| {
            txn.view(dbi as usize)?;
            if let Some(handle) = txn.env.handles.change().get_mut(dbi as usize) {
                handle.functions.relocate = function;
            }
            Ok(())
        })
    }
}

/// The context goes with a function that is never called.
#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_set_relctx(txn: *mut Txn, dbi: c_uint, _context: *mut c_void) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_txn(txn, |txn| txn.view(dbi as usize).map(|_| ())) }
}

/// The environment of an address, as its owners share it; borrowed.
///
/// # Safety
/// Promise 1 of `ffi`, as long as what is answered is used.
pub(super) unsafe fn shared(env: *const Env) -> Option<ManuallyDrop<Arc<Env>>> {
    if env.is_null() {
        return None;
    }
    // SAFETY: `mdb_env_create` made the address of an `Arc`, and `mdb_env_close` has not taken it
    // back (1); this one is not dropped.
    Some(ManuallyDrop::new(unsafe { Arc::from_raw(env) }))
}
