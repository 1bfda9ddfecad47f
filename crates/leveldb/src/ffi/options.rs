//! Options: of opening, of reading, of writing.

use std::ffi::{c_char, c_int};

use super::callbacks::{Cache, Env, FilterPolicy, GivenComparator, Logger};
use super::{boxed, drop_boxed};
use crate::engine::Snapshot;
use crate::options::Options;

/// `leveldb_readoptions_t`.
#[derive(Default)]
pub(super) struct ReadOptions {
    pub(super) snapshot: Option<*const Snapshot>,
    pub(super) verify_checksums: bool,
}

/// `leveldb_writeoptions_t`.
#[derive(Default)]
pub(super) struct WriteOptions {
    pub(super) sync: bool,
}

/// Changes options, if there are any.
///
/// # Safety
/// Promises 1 and 3.
unsafe fn change<T>(options: *mut T, change: impl FnOnce(&mut T)) {
    // SAFETY: promises 1 and 3.
    if let Some(options) = unsafe { options.as_mut() } {
        change(options);
    }
}

/// Options with LevelDB's defaults.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_create() -> *mut Options {
    boxed(Options::default())
}

/// Takes options back.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_options_destroy(options: *mut Options) {
    // SAFETY: promise 1.
    unsafe { drop_boxed(options) }
}

/// The order of keys; null is bytewise order.
///
/// # Safety
/// Promises 1 and 3; the comparator lives as long as databases opened with it.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_options_set_comparator(
    options: *mut Options,
    comparator: *const GivenComparator,
) {
    // SAFETY: promises 1 and 3.
    unsafe {
        let comparator = comparator.as_ref().map(GivenComparator::in_rust).unwrap_or_default();
        change(options, |options| options.comparator = comparator);
    }
}

/// Filters have no meaning here.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_filter_policy(_: *mut Options, _: *mut FilterPolicy) {}

/// Whether a database that is not there is made.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_options_set_create_if_missing(options: *mut Options, yes: u8) {
    // SAFETY: promises 1 and 3.
    unsafe { change(options, |options| options.create = yes != 0) }
}

/// Whether one that is there is refused.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_options_set_error_if_exists(options: *mut Options, yes: u8) {
    // SAFETY: promises 1 and 3.
    unsafe { change(options, |options| options.error_if_exists = yes != 0) }
}

/// Every page is checked when it is first read, whatever is asked for.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_paranoid_checks(_: *mut Options, _: u8) {}

/// C programs know one environment.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_env(_: *mut Options, _: *mut Env) {}

/// C programs cannot make a logger.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_info_log(_: *mut Options, _: *mut Logger) {}

/// How much memory new entries take in the log-structured engine, about.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_options_set_write_buffer_size(options: *mut Options, size: usize) {
    // SAFETY: promises 1 and 3.
    unsafe { change(options, |options| options.write_buffer = size) }
}

/// Has no meaning here.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_max_open_files(_: *mut Options, _: c_int) {}

/// The size of the cache is a hint for the log-structured engine.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_options_set_cache(options: *mut Options, cache: *const Cache) {
    // SAFETY: promises 1 and 3.
    unsafe {
        if let Some(cache) = cache.as_ref() {
            change(options, |options| options.cache = cache.capacity);
        }
    }
}

/// Has no meaning here.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_block_size(_: *mut Options, _: usize) {}

/// Has no meaning here.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_block_restart_interval(_: *mut Options, _: c_int) {}

/// Has no meaning here.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_max_file_size(_: *mut Options, _: usize) {}

/// Has no meaning here.
#[unsafe(no_mangle)]
extern "C" fn leveldb_options_set_compression(_: *mut Options, _: c_int) {}

/// Options of reading: the newest state.
#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_create() -> *mut ReadOptions {
    boxed(ReadOptions::default())
}

/// Takes options back.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_readoptions_destroy(options: *mut ReadOptions) {
    // SAFETY: promise 1.
    unsafe { drop_boxed(options) }
}

/// Whether an iterator reads each value together with its key. Checksums are verified in any case
/// whenever something is first read.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_readoptions_set_verify_checksums(options: *mut ReadOptions, yes: u8) {
    // SAFETY: promises 1 and 3.
    unsafe { change(options, |options| options.verify_checksums = yes != 0) }
}

/// The system's cache decides for itself.
#[unsafe(no_mangle)]
extern "C" fn leveldb_readoptions_set_fill_cache(_: *mut ReadOptions, _: u8) {}

/// The state that is read; null is the newest one.
///
/// # Safety
/// Promises 1 and 3; the snapshot is not released while these options are used.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_readoptions_set_snapshot(
    options: *mut ReadOptions,
    snapshot: *const Snapshot,
) {
    let snapshot = (!snapshot.is_null()).then_some(snapshot);
    // SAFETY: promises 1 and 3.
    unsafe { change(options, |options| options.snapshot = snapshot) }
}

/// Options of writing: without waiting for the disk.
#[unsafe(no_mangle)]
extern "C" fn leveldb_writeoptions_create() -> *mut WriteOptions {
    boxed(WriteOptions::default())
}

/// Takes options back.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writeoptions_destroy(options: *mut WriteOptions) {
    // SAFETY: promise 1.
    unsafe { drop_boxed(options) }
}

/// Whether a write is on stable storage when it returns.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_writeoptions_set_sync(options: *mut WriteOptions, yes: u8) {
    // SAFETY: promises 1 and 3.
    unsafe { change(options, |options| options.sync = yes != 0) }
}

/// Frees what the library has handed out.
///
/// # Safety
/// It is null or was allocated by `malloc`.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_free(at: *mut c_char) {
    // SAFETY: the caller's promise.
    unsafe { libc::free(at.cast()) }
}

/// The version of LevelDB whose interface this is.
#[unsafe(no_mangle)]
extern "C" fn leveldb_major_version() -> c_int {
    1
}

/// The second part of that version.
#[unsafe(no_mangle)]
extern "C" fn leveldb_minor_version() -> c_int {
    23
}
