//! Orders given by the program: C functions that compare two strings.

use std::cmp::Ordering;

use crate::abi::{CmpFn, Val};

/// The order of a C function.
pub(crate) fn by(function: CmpFn) -> impl Fn(&[u8], &[u8]) -> Ordering + Send + Sync + 'static {
    move |a: &[u8], b: &[u8]| {
        let (a, b) = (Val::new(a.as_ptr(), a.len()), Val::new(b.as_ptr(), b.len()));
        // SAFETY: the function takes two strings, as the program promised when it gave it; both
        // live while it runs, and it may only read them.
        unsafe { function(&a, &b) }.cmp(&0)
    }
}

/// The order of values by the integer of 4 bytes with which each begins.
pub(crate) fn leading(a: &[u8], b: &[u8]) -> Ordering {
    let integer = |value: &[u8]| value.first_chunk().copied().map(u32::from_ne_bytes);
    integer(a).cmp(&integer(b))
}
