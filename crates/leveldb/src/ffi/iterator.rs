//! Iterators: places whose entry stands where the caller can read it without a call.

use std::ffi::c_char;

use super::{bytes, drop_boxed, guard, tell};
use crate::engine::{Here, Move, Place, Str};
use crate::status::{Result, Status};

/// `leveldb_iterator_t`.
#[repr(C)]
pub(super) struct Iterator {
    /// What the C++ class reads; see `cpp/inside.h`.
    shown: Shown,
    place: Option<Place>,
    status: Option<Status>,
    /// Whether a value that stands apart is read with its key: then an entry whose value is damaged
    /// is not shown, and else it is shown until its value is asked for.
    reads_values: bool,
}

/// The entry under an iterator.
#[repr(C)]
struct Shown {
    is_valid: bool,
    has_value: bool,
    key: Str,
    value: Str,
}

const NOTHING: Shown = Shown { is_valid: false, has_value: true, key: Str::NONE, value: Str::NONE };

impl Iterator {
    pub(super) fn new(reads_values: bool, make: impl FnOnce() -> Result<Place>) -> Self {
        let (place, status) = match make() {
            Ok(place) => (Some(place), None),
            Err(status) => (None, Some(status)),
        };
        Self { shown: NOTHING, place, status, reads_values }
    }

    #[inline(always)]
    fn go(&mut self, to: Move<'_>) -> Result<()> {
        // From nowhere no step leads anywhere.
        let is_step = matches!(to, Move::Next | Move::Prev);
        if is_step && !self.shown.is_valid {
            return Ok(());
        }
        let Some(place) = &mut self.place else { return Ok(()) };
        // After a failure, `on` shows nothing.
        match place.go(to)? {
            Some(Here { key, value }) => {
                let has_value = value.is_some();
                self.shown =
                    Shown { is_valid: true, has_value, key, value: value.unwrap_or(Str::NONE) };
            }
            None => self.shown = NOTHING,
        }
        if self.reads_values && !self.shown.has_value { self.read_value() } else { Ok(()) }
    }

    fn read_value(&mut self) -> Result<()> {
        if let Some(place) = &mut self.place {
            self.shown.value = place.value()?;
        }
        self.shown.has_value = true;
        Ok(())
    }
}

/// Runs something on an iterator, and keeps its failure for `leveldb_iter_get_error`.
///
/// # Safety
/// Promises 1 and 3.
#[inline]
unsafe fn on(at: *mut Iterator, run: impl FnOnce(&mut Iterator) -> Result<()>) {
    let mut failure = None;
    // SAFETY: promises 1 and 3.
    unsafe {
        let Some(iterator) = at.as_mut() else { return };
        let done = guard(std::ptr::null_mut(), || {
            if let Err(status) = run(iterator) {
                failure = Some(status);
            }
            Ok(())
        });
        if done.is_none() {
            failure = Some(Status::corruption("a step ended in a panic, which is a bug"));
        }
        if failure.is_some() {
            let Some(iterator) = at.as_mut() else { return };
            iterator.shown = NOTHING;
            iterator.status = failure;
        }
    }
}

/// Reads the value of the entry, which stands apart from its key.
///
/// # Safety
/// Promises 1 and 3.
#[cold]
#[inline(never)]
unsafe fn read_value(iterator: *mut Iterator) {
    // SAFETY: promises 1 and 3.
    unsafe { on(iterator, Iterator::read_value) }
}

/// Takes an iterator back.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_destroy(iterator: *mut Iterator) {
    // SAFETY: promise 1.
    unsafe { drop_boxed(iterator) }
}

/// Whether it stands at an entry.
///
/// # Safety
/// Promise 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_valid(iterator: *const Iterator) -> u8 {
    // SAFETY: promise 1.
    u8::from(unsafe { iterator.as_ref() }.is_some_and(|iterator| iterator.shown.is_valid))
}

/// Moves to the first entry.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_seek_to_first(iterator: *mut Iterator) {
    // SAFETY: promises 1 and 3.
    unsafe { on(iterator, |iterator| iterator.go(Move::First)) }
}

/// Moves to the last entry.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_seek_to_last(iterator: *mut Iterator) {
    // SAFETY: promises 1 and 3.
    unsafe { on(iterator, |iterator| iterator.go(Move::Last)) }
}

/// Moves to the first entry at or after a key.
///
/// # Safety
/// Promises 1 to 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_seek(iterator: *mut Iterator, k: *const c_char, len: usize) {
    // SAFETY: promises 1 to 3.
    unsafe {
        on(iterator, |iterator| iterator.go(Move::Seek(bytes(k, len)?)));
    }
}

/// Moves to the next entry.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_next(iterator: *mut Iterator) {
    // SAFETY: promises 1 and 3.
    unsafe { on(iterator, |iterator| iterator.go(Move::Next)) }
}

/// Moves to the entry before.
///
/// # Safety
/// Promises 1 and 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_prev(iterator: *mut Iterator) {
    // SAFETY: promises 1 and 3.
    unsafe { on(iterator, |iterator| iterator.go(Move::Prev)) }
}

/// The key, which stands there until the iterator moves.
///
/// # Safety
/// Promises 1 and 2.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_key(
    iterator: *const Iterator,
    klen: *mut usize,
) -> *const c_char {
    // SAFETY: promises 1 and 2.
    unsafe { hand_out(iterator.as_ref().map_or(Str::NONE, |iterator| iterator.shown.key), klen) }
}

/// The value, which stands there until the iterator moves.
///
/// # Safety
/// Promises 1 to 3.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_value(
    iterator: *mut Iterator,
    vlen: *mut usize,
) -> *const c_char {
    // SAFETY: promises 1 to 3.
    unsafe {
        if iterator.as_ref().is_some_and(|iterator| !iterator.shown.has_value) {
            read_value(iterator);
        }
        hand_out(iterator.as_ref().map_or(Str::NONE, |iterator| iterator.shown.value), vlen)
    }
}

/// The error that an iterator met, if it met one.
///
/// # Safety
/// Promises 1, 2 and 4.
#[unsafe(no_mangle)]
unsafe extern "C" fn leveldb_iter_get_error(iterator: *const Iterator, errptr: *mut *mut c_char) {
    // SAFETY: promises 1, 2 and 4.
    unsafe {
        if let Some(Iterator { status: Some(status), .. }) = iterator.as_ref() {
            tell(errptr, status);
        }
    }
}

/// Hands a string out by its two parts.
///
/// # Safety
/// Promise 2.
unsafe fn hand_out(string: Str, len: *mut usize) -> *const c_char {
    if !len.is_null() {
        // SAFETY: promise 2.
        unsafe { *len = string.len };
    }
    string.at.cast::<c_char>()
}
