//! `mdb_env_*`, `mdb_reader_*`, `mdb_version`, `mdb_strerror`.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{guard, store, tell};
use crate::abi::*;
use crate::code;
use crate::env::Env;

/// Runs a function on an environment; null is EINVAL.
///
/// # Safety
/// Promise 1 of `ffi`.
unsafe fn on_env(env: *const Env, run: impl FnOnce(&Env) -> code::Answer) -> c_int {
    // SAFETY: promise 1.
    match unsafe { env.as_ref() } {
        Some(env) => guard(|| run(env)),
        None => libc::EINVAL,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_version(
    major: *mut c_int,
    minor: *mut c_int,
    patch: *mut c_int,
) -> *const c_char {
    // SAFETY: promise 3 of `ffi`.
    unsafe {
        store(major, VERSION.0);
        store(minor, VERSION.1);
        store(patch, VERSION.2);
    }
    const TEXT: &CStr = match CStr::from_bytes_with_nul(
        concat!("LMDB 0.9.33: (Hedgerow ", env!("CARGO_PKG_VERSION"), ")\0").as_bytes(),
    ) {
        Ok(text) => text,
        Err(_) => c"LMDB 0.9.33: (Hedgerow)",
    };
    TEXT.as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_strerror(error: c_int) -> *const c_char {
    match code::text(error) {
        Some(text) => text.as_ptr(),
        // SAFETY: takes any number; the result is a string of the system's.
        None => unsafe { libc::strerror(error) },
    }
}

/// Beyond LMDB: what the newest failure in this thread was about, in full.
#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_last_error() -> *const c_char {
    code::last_error()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_create(result: *mut *const Env) -> c_int {
    if result.is_null() {
        return libc::EINVAL;
    }
    guard(|| {
        // SAFETY: promise 3 of `ffi`.
        unsafe { store(result, Arc::into_raw(Arc::new(Env::new()))) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_open(
    env: *const Env,
    path: *const c_char,
    flags: c_uint,
    mode: libc::mode_t,
) -> c_int {
    // SAFETY: the promises of `ffi`; a path ends with a zero.
    unsafe {
        on_env(env, |env| match path.is_null() {
            true => Err(libc::EINVAL),
            false => env.open(CStr::from_ptr(path), flags, mode),
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_close(env: *const Env) {
    if !env.is_null() {
        guard(|| {
            // SAFETY: `mdb_env_create` made the address of an `Arc`; the caller gives it up. What a
            // transaction that is still open needs lives on.
            let env = unsafe { Arc::from_raw(env) };
            env.close();
            drop(env);
            Ok(())
        });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_copy(env: *const Env, path: *const c_char) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { mdb_env_copy2(env, path, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_copy2(env: *const Env, path: *const c_char, flags: c_uint) -> c_int {
    // SAFETY: the promises of `ffi`; a path ends with a zero.
    unsafe {
        on_env(env, |env| match path.is_null() {
            true => Err(libc::EINVAL),
            false => env.copy(CStr::from_ptr(path), flags),
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_copyfd(env: *const Env, fd: c_int) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { mdb_env_copyfd2(env, fd, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_copyfd2(env: *const Env, fd: c_int, flags: c_uint) -> c_int {
    // SAFETY: the promises of `ffi`; the descriptor is the caller's, and stays open during the
    // call.
    unsafe {
        on_env(env, |env| {
            if fd < 0 {
                return Err(libc::EBADF);
            }
            env.copy_into(std::os::fd::BorrowedFd::borrow_raw(fd), flags)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_stat(env: *const Env, stat: *mut Stat) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_env(env, |env| tell(stat, || env.stat())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_info(env: *const Env, info: *mut EnvInfo) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_env(env, |env| tell(info, || env.info())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_sync(env: *const Env, force: c_int) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_env(env, |env| env.sync(force != 0)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_set_flags(env: *const Env, flags: c_uint, on: c_int) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_env(env, |env| env.set_flags(flags, on != 0)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_get_flags(env: *const Env, flags: *mut c_uint) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_env(env, |env| tell(flags, || Ok(env.visible_flags()))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_get_path(env: *const Env, path: *mut *const c_char) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_env(env, |env| tell(path, || Ok(env.path()))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_get_fd(env: *const Env, fd: *mut c_int) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_env(env, |env| tell(fd, || Ok(env.descriptor()))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_set_mapsize(env: *const Env, size: usize) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_env(env, |env| env.set_map_size(size)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_set_maxreaders(env: *const Env, most: c_uint) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_env(env, |env| env.set_max_readers(most)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_get_maxreaders(env: *const Env, most: *mut c_uint) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_env(env, |env| tell(most, || Ok(env.readers_max()))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_set_maxdbs(env: *const Env, most: c_uint) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_env(env, |env| env.set_max_dbs(most)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_get_maxkeysize(_env: *const Env) -> c_int {
    KEY_MAX as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_set_userctx(env: *const Env, context: *mut c_void) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_env(env, |env| {
            env.user_context().store(context, Ordering::Release);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_get_userctx(env: *const Env) -> *mut c_void {
    // SAFETY: the promises of `ffi`.
    let env = unsafe { env.as_ref() };
    env.map_or(std::ptr::null_mut(), |env| env.user_context().load(Ordering::Acquire))
}

/// LMDB calls the function when an assertion fails; here a failure is always a code.
#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_set_assert(env: *const Env, _function: Option<AssertFn>) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe { on_env(env, |_| Ok(())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_reader_list(
    env: *const Env,
    function: Option<MsgFn>,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the promises of `ffi`.
    let (Some(env), Some(function)) = (unsafe { env.as_ref() }, function) else { return -1 };
    let mut answer = 0;
    let failed = guard(|| {
        for line in env.reader_lines()? {
            let line = CString::new(line).unwrap_or_default();
            // SAFETY: the function takes a string and what the caller gave with it.
            answer = unsafe { function(line.as_ptr(), context) };
            if answer < 0 {
                break;
            }
        }
        Ok(())
    });
    if failed != 0 { failed } else { answer }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_reader_check(env: *const Env, dead: *mut c_int) -> c_int {
    // SAFETY: the promises of `ffi`.
    unsafe {
        on_env(env, |env| {
            store(dead, 0);
            store(dead, env.clear_dead_readers()? as c_int);
            Ok(())
        })
    }
}

/// DLMDB's: stops running calls of the environment. May be called in a signal handler.
#[unsafe(no_mangle)]
unsafe extern "C" fn mdb_env_set_interrupt(env: *const Env, on: c_int) -> c_int {
    // SAFETY: the promises of `ffi`.
    match unsafe { env.as_ref() }.and_then(|env| env.open.get()) {
        Some(opened) => {
            opened.newest().interrupt.set(on != 0);
            0
        }
        None => libc::EINVAL,
    }
}
