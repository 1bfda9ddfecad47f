//! The sizes of keys and values that a table takes.

use crate::tree::catalog::{OpenTable, Stored};
use crate::tree::order::KeyOrder;
use crate::{Error, Result};

/// The longest key in bytes.
pub(crate) const KEY_MAX: usize = 1 << 20;

/// The longest key of a table that is ordered by a function of the caller's.
const CUSTOM_KEY_MAX: usize = 1 << 30;

/// The longest key of a table in bytes.
#[inline(always)]
pub(crate) fn key_max(order: &KeyOrder) -> usize {
    if matches!(order, KeyOrder::Custom(_)) { CUSTOM_KEY_MAX } else { KEY_MAX }
}

/// The refusal of a length.
#[cold]
pub(super) fn size(what: &'static str, len: usize, min: u64, max: u64) -> Error {
    Error::Size { what, len: len as u64, min, max }
}

/// Checks the length of a value of a table without duplicates.
#[inline(always)]
pub(super) fn check_plain_len(len: u64) -> Result<()> {
    let max = u64::from(u32::MAX);
    if len > max { Err(Error::Size { what: "value", len, min: 0, max }) } else { Ok(()) }
}

/// Checks a key before it is written.
#[inline(always)]
pub(super) fn check_key(open: &OpenTable, key: &[u8]) -> Result<()> {
    if key.len() > KEY_MAX && key.len() > key_max(&open.tree.form.keys) {
        return Err(size("key", key.len(), 0, key_max(&open.tree.form.keys) as u64));
    }
    if open.stored.has_integer_keys() {
        check_integer("key", key.len(), open.stored.key_size)
    } else {
        Ok(())
    }
}

/// Checks a value of a table with duplicates before it is written.
pub(super) fn check_duplicate(stored: &Stored, value: &[u8], most: u64) -> Result<()> {
    if value.len() as u64 > most {
        return Err(size("value", value.len(), 0, most));
    }
    if stored.has_integer_values() {
        return check_integer("value", value.len(), stored.value_size);
    }
    if stored.is_fixed() && stored.value_size != 0 && stored.value_size as usize != value.len() {
        let exact = u64::from(stored.value_size);
        return Err(size("value", value.len(), exact, exact));
    }
    Ok(())
}

/// Integers have 4 or 8 bytes, all of one table the same.
fn check_integer(what: &'static str, len: usize, fixed: u32) -> Result<()> {
    let right = if fixed == 0 { len == 4 || len == 8 } else { len == fixed as usize };
    if right {
        return Ok(());
    }
    let (min, max) = if fixed == 0 { (4, 8) } else { (u64::from(fixed), u64::from(fixed)) };
    Err(size(what, len, min, max))
}

/// Fixes the sizes that the first entry of a table decides.
#[inline(always)]
pub(super) fn note_sizes(open: &mut OpenTable, key: &[u8], value: &[u8]) {
    if open.stored.key_size == 0 && open.stored.has_integer_keys() {
        open.stored.key_size = key.len() as u32;
    }
    if open.stored.value_size == 0 && (open.stored.is_fixed() || open.stored.has_integer_values()) {
        open.stored.value_size = value.len() as u32;
    }
}
