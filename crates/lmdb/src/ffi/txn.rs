//! `mdb_txn_*`.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use super::dbi::shared;
use super::{guard, on_txn, store};
use crate::abi::*;
use crate::env::Env;
use crate::txn::{BLOCKED, Txn};

/// The flags of `mdb_txn_begin`.
const BEGIN_FLAGS: u32 = MDB_NOMETASYNC | MDB_NOSYNC | MDB_RDONLY;

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_txn_begin(
    env: *mut Env,
    parent: *mut Txn,
    flags: c_uint,
    result: *mut *mut Txn,
) -> c_int {
    guard(|| {
        // SAFETY: the promises of `ffi`.
        let (env, parent) = unsafe { (shared(env).ok_or(libc::EINVAL)?, parent.as_mut()) };
        if result.is_null() {
            return Err(libc::EINVAL);
        }
        let flags = flags & BEGIN_FLAGS;
        if env.flags() & MDB_RDONLY & !flags != 0 {
            return Err(libc::EACCES);
        }
        let Some(parent) = parent else {
            let txn = Box::into_raw(Txn::begin(&env, flags)?);
            // SAFETY: promise 3.
            unsafe { store(result, txn) };
            return Ok(());
        };
        if !Arc::ptr_eq(&parent.env, &env) {
            return Err(libc::EINVAL);
        }
        let together = flags | parent.flags | env.flags() & MDB_WRITEMAP;
        if together & (MDB_RDONLY | MDB_WRITEMAP | BLOCKED) != 0 {
            let reads = parent.flags & MDB_RDONLY != 0;
            return Err(if reads { libc::EINVAL } else { MDB_BAD_TXN });
        }
        let child = Box::into_raw(Box::new(parent.begin_child(together)?));
        parent.family.child = child;
        // SAFETY: it was made a moment ago; promise 3.
        unsafe {
            (*child).family.parent = parent;
            (*child).cursors.belong_to(child);
            store(result, child);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_txn_env(txn: *const Txn) -> *const Env {
    // SAFETY: the promises of `ffi`.
    unsafe { txn.as_ref().map_or(std::ptr::null(), |txn| Arc::as_ptr(&txn.env)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_txn_id(txn: *mut Txn) -> usize {
    // SAFETY: the promises of `ffi`.
    unsafe {
        // A parent lends its body to its child, whose number is the same.
        let mut txn = txn;
        while let Some(child) = txn.as_ref().map(|txn| txn.family.child).filter(|c| !c.is_null()) {
            txn = child;
        }
        txn.as_ref().map_or(0, |txn| txn.id() as usize)
    }
}

/// Ends a transaction, its children first, and lets it go.
///
/// # Safety
/// The promises of `ffi`; the address is not null, and not used any more.
unsafe fn end(address: *mut Txn, commit: bool) -> Result<(), c_int> {
    // SAFETY: the transaction was made by `mdb_txn_begin` from a box, and is freed once: here.
    // Parent and child are different boxes, and alive while they name each other.
    unsafe {
        if (*address).has_ended() {
            return Err(libc::EINVAL);
        }
        let mut txn = Box::from_raw(address);
        let mut result = Ok(());
        if !txn.family.child.is_null() {
            result = end(txn.family.child, commit);
        }
        let commit = commit && result.is_ok();
        let Some(parent) = txn.family.parent.as_mut() else {
            txn.cursors.end();
            let ended = match commit {
                true => txn.commit(),
                false => {
                    txn.end(false);
                    Ok(())
                }
            };
            Txn::wait(txn);
            return result.and(ended);
        };
        let mut kept = false;
        if commit {
            let committed = txn.commit_child(parent);
            kept = committed.is_ok();
            result = result.and(committed);
        }
        if !kept && let Err(code) = txn.abort_child() {
            parent.flags |= crate::txn::FAILED;
            result = result.and(Err(code));
        }
        txn.cursors.end_child(!kept);
        txn.cursors.belong_to(parent);
        parent.take_back(&mut txn);
        result
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_txn_commit(txn: *mut Txn) -> c_int {
    if txn.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: the promises of `ffi`; the caller gives the transaction up.
    guard(|| unsafe { end(txn, true) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_txn_abort(txn: *mut Txn) {
    if !txn.is_null() {
        // SAFETY: as above.
        guard(|| unsafe { end(txn, false) });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_txn_reset(txn: *mut Txn) {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_txn(txn, |txn| {
            if txn.flags & MDB_RDONLY != 0 {
                txn.reset();
            }
            Ok(())
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_txn_renew(txn: *mut Txn) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_txn(txn, Txn::renew) }
}
