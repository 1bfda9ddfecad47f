//! How SQLite finds rows of a plain table: which of a query's constraints the table answers by its
//! order, and what that costs.

#![expect(unsafe_code, reason = "the plan of a query is a structure of C's")]

use std::ffi::{CStr, c_int};
use std::ptr;

use libsqlite3_sys as sys;

use super::scan::{BACKWARDS, EQUAL, HIGH, HIGH_OPEN, LOW, LOW_OPEN, OFFSET};
use super::{Kind, Outcome, Plain};

/// Whether a constraint compares as the table orders: keys of text only without a collation.
fn is_bytewise(info: *mut sys::sqlite3_index_info, at: usize) -> bool {
    // SAFETY: the plan is that of the call, and has the constraint; the answer is a string.
    let collation = unsafe { sys::sqlite3_vtab_collation(info, at as c_int) };
    // SAFETY: as above.
    collation.is_null() || unsafe { CStr::from_ptr(collation) } == c"BINARY"
}

/// Whether the other side of a constraint is a constant that compares exactly as bytes do.
fn is_exact(info: *mut sys::sqlite3_index_info, at: usize, plain: &Plain) -> bool {
    let mut value = ptr::null_mut();
    // SAFETY: the plan is that of the call, and has the constraint.
    let is_known = unsafe { sys::sqlite3_vtab_rhs_value(info, at as c_int, &raw mut value) };
    // SAFETY: a value that is known lives during the call.
    is_known == sys::SQLITE_OK && plain.key_kind().takes(unsafe { sys::sqlite3_value_type(value) })
}

/// Chooses how rows are found.
pub(super) fn best_index(plain: &Plain, raw: *mut sys::sqlite3_index_info) -> Outcome {
    // SAFETY: the plan is that of the call.
    let info = unsafe { &mut *raw };
    let count = info.nConstraint as usize;
    // SAFETY: there are as many constraints.
    let constraints = unsafe { slice(info.aConstraint, count) };
    // SAFETY: there are as many usages, and nothing else refers to them.
    let usage = |at: usize| unsafe { &mut *info.aConstraintUsage.add(at) };
    let (mut plan, mut used, mut exact) = (0, 0, 0);
    for (bit, open, [closed, opened]) in COMPARISONS {
        let found = constraints.iter().enumerate().find(|(at, constraint)| {
            let operator = i32::from(constraint.op);
            constraint.usable != 0
                && constraint.iColumn == 0
                && (operator == closed || operator == opened)
                && (plain.is_ordered() || bit == EQUAL && plain.is_bytewise())
                && plan & EQUAL == 0
                && is_bytewise(raw, *at)
        });
        let Some((at, constraint)) = found else { continue };
        used += 1;
        plan |= bit;
        if bit != EQUAL && i32::from(constraint.op) == opened {
            plan |= open;
        }
        let is_exact = is_exact(raw, at, plain);
        exact += usize::from(is_exact);
        (usage(at).argvIndex, usage(at).omit) = (used, u8::from(is_exact));
    }
    // SAFETY: there are as many terms.
    let orders = unsafe { slice(info.aOrderBy, info.nOrderBy as usize) };
    let is_sorted = match orders {
        [] => true,
        // No two rows have the same key, so that other terms decide nothing.
        [first, rest @ ..] => {
            plain.is_ordered() && first.iColumn == 0 && (rest.is_empty() || !plain.has_duplicates())
        }
    };
    if is_sorted && let Some(first) = orders.first() {
        info.orderByConsumed = 1;
        plan |= if first.desc != 0 { BACKWARDS } else { 0 };
    }
    let is = |op: u8, wanted| i32::from(op) == wanted;
    let others = constraints.iter().filter(|constraint| {
        !is(constraint.op, sys::SQLITE_INDEX_CONSTRAINT_LIMIT)
            && !is(constraint.op, sys::SQLITE_INDEX_CONSTRAINT_OFFSET)
    });
    let offset = constraints.iter().position(|constraint| {
        constraint.usable != 0 && is(constraint.op, sys::SQLITE_INDEX_CONSTRAINT_OFFSET)
    });
    // Rows may be passed over unseen if none of them would be left out.
    if let Some(at) = offset.filter(|_| is_sorted && others.count() == exact) {
        plan |= OFFSET;
        (usage(at).argvIndex, usage(at).omit) = (used + 1, 1);
    }
    // A text key may be compared with a number, to which several may be equal.
    let is_unique = !plain.has_duplicates() && (exact > 0 || plain.key_kind() != Kind::Text);
    estimate(info, plan, is_unique);
    info.idxNum = plan as c_int;
    Ok(())
}

/// What a comparison of the key is to a plan: its bit, the bit of an open bound, the operators with
/// the key itself and without it.
const COMPARISONS: [(u32, u32, [c_int; 2]); 3] = [
    (EQUAL, 0, [sys::SQLITE_INDEX_CONSTRAINT_EQ; 2]),
    (LOW, LOW_OPEN, [sys::SQLITE_INDEX_CONSTRAINT_GE, sys::SQLITE_INDEX_CONSTRAINT_GT]),
    (HIGH, HIGH_OPEN, [sys::SQLITE_INDEX_CONSTRAINT_LE, sys::SQLITE_INDEX_CONSTRAINT_LT]),
];

/// An array of C's, which may be null if it is empty.
///
/// # Safety
/// It has as many members, and nothing changes them during the call.
unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    // SAFETY: as the caller says.
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, count) } }
}

/// How many rows a plan may give; `is_unique` says that no two have the same key.
fn estimate(info: &mut sys::sqlite3_index_info, plan: u32, is_unique: bool) {
    let rows = match plan & (EQUAL | LOW | HIGH) {
        EQUAL => {
            if is_unique {
                info.idxFlags |= sys::SQLITE_INDEX_SCAN_UNIQUE;
            }
            1
        }
        0 => 1_000_000,
        LOW | HIGH => 300_000,
        _ => 100_000,
    };
    info.estimatedRows = rows;
    info.estimatedCost = rows as f64 + 10.0;
}
