//! What a caller gives: comparators, and filters, which are not asked. Caches and environments.

use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::{allocated, boxed, drop_boxed, text};
use crate::options::{BYTEWISE, Comparator};

type Destructor = unsafe extern "C" fn(*mut c_void);
type CompareFn =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;
type NameFn = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type CreateFilterFn = unsafe extern "C" fn(
    *mut c_void,
    *const *const c_char,
    *const usize,
    c_int,
    *mut usize,
) -> *mut c_char;
type KeyMayMatchFn =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_uchar;

/// What a caller's functions are called with. They may be called by any thread.
#[derive(Clone, Copy)]
struct State(*mut c_void);

// SAFETY: promise 3: the caller's functions take it on any thread.
unsafe impl Send for State {}
// SAFETY: as above.
unsafe impl Sync for State {}

impl State {
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// `leveldb_comparator_t`.
pub(super) struct GivenComparator {
    state: State,
    destructor: Option<Destructor>,
    compare: Option<CompareFn>,
    name: Option<NameFn>,
}

impl GivenComparator {
    /// The order that its functions make.
    pub(super) fn in_rust(&self) -> Comparator {
        let (Some(compare), Some(name)) = (self.compare, self.name) else {
            return Comparator::default();
        };
        let state = self.state;
        // SAFETY: the caller's function gives a string of C.
        let name = unsafe { text(name(state.get())) }.to_vec();
        if name == BYTEWISE {
            return Comparator::default();
        }
        let compare = move |a: &[u8], b: &[u8]| -> Ordering {
            let (first, second) = (a.as_ptr().cast::<c_char>(), b.as_ptr().cast::<c_char>());
            // SAFETY: promise 3; both name as many bytes as is said.
            unsafe { compare(state.get(), first, a.len(), second, b.len()) }.cmp(&0)
        };
        Comparator { name, compare: Some(Arc::new(compare)) }
    }
}

/// A comparator of the caller's functions.
#[unsafe(no_mangle)]
extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Option<Destructor>,
    compare: Option<CompareFn>,
    name: Option<NameFn>,
) -> *mut GivenComparator {
    boxed(GivenComparator { state: State(state), destructor, compare, name })
}

/// Takes a comparator back, and has its state destroyed.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_comparator_destroy(comparator: *mut GivenComparator) {
    // SAFETY: promise 1; the destructor takes the state once.
    unsafe {
        if let Some(GivenComparator { state, destructor: Some(destructor), .. }) =
            comparator.as_ref()
        {
            destructor(state.get());
        }
        drop_boxed(comparator);
    }
}

/// `leveldb_filterpolicy_t`.
pub(super) struct FilterPolicy {
    state: State,
    destructor: Option<Destructor>,
}

/// A filter of the caller's functions, which are not called.
#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: Option<Destructor>,
    _create_filter: Option<CreateFilterFn>,
    _key_may_match: Option<KeyMayMatchFn>,
    _name: Option<NameFn>,
) -> *mut FilterPolicy {
    boxed(FilterPolicy { state: State(state), destructor })
}

/// A Bloom filter, which the engines do not need.
#[unsafe(no_mangle)]
extern "C" fn leveldb_filterpolicy_create_bloom(_bits_per_key: c_int) -> *mut FilterPolicy {
    boxed(FilterPolicy { state: State(std::ptr::null_mut()), destructor: None })
}

/// Takes a filter back, and has its state destroyed.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_filterpolicy_destroy(policy: *mut FilterPolicy) {
    // SAFETY: promise 1; the destructor takes the state once.
    unsafe {
        if let Some(FilterPolicy { state, destructor: Some(destructor) }) = policy.as_ref() {
            destructor(state.get());
        }
        drop_boxed(policy);
    }
}

/// `leveldb_cache_t`.
pub(super) struct Cache {
    pub(super) capacity: usize,
}

/// A cache of a size in bytes.
#[unsafe(no_mangle)]
extern "C" fn leveldb_cache_create_lru(capacity: usize) -> *mut Cache {
    boxed(Cache { capacity })
}

/// Takes a cache back.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_cache_destroy(cache: *mut Cache) {
    // SAFETY: promise 1.
    unsafe { drop_boxed(cache) }
}

/// `leveldb_env_t`: there is one kind.
pub(super) struct Env {
    // So that each has an address of its own.
    _place: u8,
}

/// `leveldb_logger_t`, of which there is none.
pub(super) struct Logger {
    _place: u8,
}

/// The environment of the system.
#[unsafe(no_mangle)]
extern "C" fn leveldb_create_default_env() -> *mut Env {
    boxed(Env { _place: 0 })
}

/// Takes an environment back.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_env_destroy(env: *mut Env) {
    // SAFETY: promise 1.
    unsafe { drop_boxed(env) }
}

/// A folder for tests, which is there afterwards; the caller frees the name.
#[unsafe(no_mangle)]
extern "C" fn leveldb_env_get_test_directory(_: *mut Env) -> *mut c_char {
    let folder = match std::env::var_os("TEST_TMPDIR").filter(|told| !told.is_empty()) {
        Some(told) => PathBuf::from(told),
        None => {
            let user = rustix::process::geteuid().as_raw();
            std::env::temp_dir().join(format!("leveldbtest-{user}"))
        }
    };
    // If it cannot be made, its users are told.
    let _ = fs::create_dir(&folder);
    let name = [folder.as_os_str().as_bytes(), b"\0"].concat();
    allocated(&name)
}
