//! The order of an index: SQLite compares its records, by the collations of the connection that
//! asks. So a table of a store has no order of its own; each call says how it is to be compared.

#![expect(unsafe_code, reason = "SQLite's functions compare records by address")]

use std::cell::Cell;
use std::cmp::Ordering;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use hedgerow::tree::{Order, TableOptions};

/// The name under which stores keep this order.
const NAME: &str = "sqlite-record";

/// What is looked for in an index, and how it is compared: `HgProbe` in `hedgerow.c`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Probe {
    /// The record that is looked for as it is stored, or null if there is only `record`.
    pub(crate) key: *const u8,
    /// Its length in bytes.
    pub(crate) len: usize,
    /// The same, unpacked; null if `compare` needs none.
    record: *mut c_void,
    /// Compares a stored record with it.
    compare: Option<unsafe extern "C" fn(c_int, *const c_void, *mut c_void) -> c_int>,
    /// The columns of the index, to compare two stored records.
    info: *mut c_void,
}

/// Stands for a record that is looked for and has no bytes.
static UNPACKED: [u8; 1] = [0];

thread_local! {
    /// What this thread is looking for: on the stack of `with`, or null.
    static PROBE: Cell<*const Probe> = const { Cell::new(std::ptr::null()) };
}

unsafe extern "C" {
    /// Compares two stored records by the columns of an index.
    fn hg_compare(
        info: *mut c_void,
        a: *const c_void,
        a_len: c_int,
        b: *const c_void,
        b_len: c_int,
    ) -> c_int;
}

/// Runs `f` with the bytes by which the store looks for the probe.
pub(crate) fn with<R>(probe: &Probe, f: impl FnOnce(&[u8]) -> R) -> R {
    let key = if probe.key.is_null() {
        &UNPACKED[..]
    } else {
        // SAFETY: the caller in C says so, and the record stays where it is during the call.
        unsafe { std::slice::from_raw_parts(probe.key, probe.len) }
    };
    let probe = Probe { key: key.as_ptr(), ..*probe };
    let before = PROBE.replace(&raw const probe);
    let result = f(key);
    PROBE.set(before);
    result
}

/// Compares an entry with what is looked for.
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    // SAFETY: `with` runs, and has set it to a probe of its own.
    let Some(probe) = (unsafe { PROBE.get().as_ref() }) else { return a.cmp(b) };
    let (a_len, b_len) = (a.len() as c_int, b.len() as c_int);
    let result = match probe.compare {
        // SAFETY: `with` was called with a probe that lives until it returns.
        Some(compare) if b.as_ptr() == probe.key => unsafe {
            compare(a_len, a.as_ptr().cast(), probe.record)
        },
        _ if probe.info.is_null() => return a.cmp(b),
        // SAFETY: as above; the strings live during the call.
        _ => unsafe { hg_compare(probe.info, a.as_ptr().cast(), a_len, b.as_ptr().cast(), b_len) },
    };
    result.cmp(&0)
}

/// The options of the table of an index.
pub(crate) fn index_options() -> &'static TableOptions {
    static OPTIONS: OnceLock<TableOptions> = OnceLock::new();
    OPTIONS.get_or_init(|| {
        TableOptions::new().order(Order::custom(NAME, compare)).prefix_compression(false)
    })
}
