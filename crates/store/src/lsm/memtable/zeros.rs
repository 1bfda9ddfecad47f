//! Large tables of atomics that begin at zero. Their memory comes from the system as zeros: a part
//! of it is taken when something is first stored there, and a table that nothing is put into takes
//! next to none. This module knows nothing of what is stored.
#![expect(unsafe_code, reason = "memory that is all zeros as what it is a valid value of")]

use std::alloc::{self, Layout};

use crate::sync::atomic::{AtomicPtr, AtomicU64};

/// What may begin as zeros.
///
/// # Safety
///
/// Bytes that are all zero are a valid value of it.
pub(in crate::lsm) unsafe trait Zero {}

// SAFETY: it has the representation of a `u64`, of which all bytes are valid.
unsafe impl Zero for AtomicU64 {}
// SAFETY: it has the representation of a pointer, and this is the null pointer.
unsafe impl<T> Zero for AtomicPtr<T> {}

/// `count` of them, at zero.
pub(in crate::lsm) fn zeros<T: Zero>(count: usize) -> Box<[T]> {
    let layout = Layout::array::<T>(count).expect("a table that fits into memory");
    if layout.size() == 0 {
        return Box::default();
    }
    // SAFETY: the size is not zero.
    let memory = unsafe { alloc::alloc_zeroed(layout) }.cast::<T>();
    if memory.is_null() {
        alloc::handle_alloc_error(layout);
    }
    // SAFETY: the memory was just allocated as the box will free it, with the layout of that many
    // values; by the trait's word, zeros are valid ones.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, count)) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn all_are_zero_and_can_be_stored_to() {
        assert!(zeros::<AtomicU64>(0).is_empty());
        let numbers = zeros::<AtomicU64>(1000);
        assert!(numbers.iter().all(|number| number.load(Relaxed) == 0));
        numbers.iter().for_each(|number| number.store(u64::MAX, Relaxed));
        drop(numbers);
        let numbers = zeros::<AtomicU64>(1000);
        assert!(numbers.iter().all(|number| number.load(Relaxed) == 0), "memory that was used");
        assert!(zeros::<AtomicPtr<u8>>(9).iter().all(|pointer| pointer.load(Relaxed).is_null()));
    }
}
