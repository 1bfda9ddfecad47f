//! Counts, ranks and positions for the SQL functions of `src/c/ranks.c`.

#![expect(unsafe_code, reason = "the functions of a C interface, which get pointers")]

use std::ffi::c_int;

use hedgerow::tree::Snapshot as _;
use libsqlite3_sys as sys;

use crate::code::{Answer, code_of};
use crate::conn::{Conn, on_body};
use crate::cursor::{Row, Shape, parts, show};
use crate::order::{self, Probe};
use crate::rowid::key_of;
use crate::sums;

/// The code of an answer; a panic, which would be an error in this library, does not reach C.
fn code(f: impl FnOnce() -> Answer) -> c_int {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    caught.unwrap_or(Err(sys::SQLITE_INTERNAL)).err().unwrap_or(sys::SQLITE_OK)
}

/// Counts the entries of the tree of a root.
///
/// # Safety
/// The pointers are those of this library, or lead to where the result goes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hg_root_count(conn: *mut Conn, root: u32, to: *mut i64) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let (conn, to) = unsafe { (&mut *conn, &mut *to) };
        *to = conn.count_of(root)?.map_or(0, |count| i64::try_from(count).unwrap_or(i64::MAX));
        Ok(())
    })
}

/// How many entries of a tree come before what is looked for: a row, or if there is a probe an
/// entry of an index.
///
/// # Safety
/// As of `hg_root_count`; a probe lives during the call.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hg_root_rank(
    conn: *mut Conn,
    root: u32,
    probe: *const Probe,
    rowid: i64,
    to: *mut i64,
) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let (conn, to, probe) = unsafe { (&mut *conn, &mut *to, probe.as_ref()) };
        let Some(table) = conn.table(root, probe.is_some())? else {
            *to = 0;
            return Ok(());
        };
        let rank = |conn: &Conn, key: &[u8]| -> Answer<u64> {
            let rank = on_body!(&conn.body, txn => txn.rank(table, key));
            Ok(rank.map_err(|e| code_of(&e))?.keys)
        };
        let rank = match probe {
            Some(probe) => order::with(probe, |key| rank(conn, key))?,
            None => rank(conn, &key_of(rowid))?,
        };
        *to = i64::try_from(rank).unwrap_or(i64::MAX);
        Ok(())
    })
}

/// The entry of a tree with `n` before it; its bytes stay until the store is written to. Of a row
/// only the number counts: of a long one only the first page is read.
///
/// # Safety
/// As of `hg_root_count`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hg_root_nth(
    conn: *mut Conn,
    root: u32,
    is_index: c_int,
    n: i64,
    row: *mut Row,
    is_there: *mut c_int,
) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let (conn, row, is_there) = unsafe { (&mut *conn, &mut *row, &mut *is_there) };
        *is_there = 0;
        let is_index = is_index != 0;
        let (Some(table), Ok(n)) = (conn.table(root, is_index)?, u64::try_from(n)) else {
            return Ok(());
        };
        on_body!(&conn.body, txn => {
            let mut cursor = txn.cursor(table).map_err(|e| code_of(&e))?;
            cursor.give_fronts(txn, 0);
            if let Some(entry) = cursor.seek_nth(txn, n).map_err(|e| code_of(&e))? {
                let shape = Shape { is_index, is_complete: false };
                show(shape, &entry, parts(is_index, &entry)?, None, row, || None)?;
                *is_there = 1;
            }
        });
        Ok(())
    })
}

/// The checksum of an entry as a text, which ends with a zero byte: of the row of a number, or of
/// the entry at that position of an index. Empty where there is none.
///
/// # Safety
/// As of `hg_root_count`; `to` has room for 80 bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn hg_root_sum(
    conn: *mut Conn,
    root: u32,
    is_index: c_int,
    number: i64,
    to: *mut u8,
) -> c_int {
    code(|| {
        // SAFETY: as the caller says.
        let (conn, to) = unsafe { (&mut *conn, std::slice::from_raw_parts_mut(to, 80)) };
        to[0] = 0;
        let is_index = is_index != 0;
        let Some(table) = conn.table(root, is_index)? else { return Ok(()) };
        let text = on_body!(&conn.body, txn => {
            if is_index {
                let n = u64::try_from(number).map_err(|_| sys::SQLITE_MISUSE)?;
                match txn.nth(table, n).map_err(|e| code_of(&e))? {
                    Some(entry) => sums::text_of(parts(true, &entry)?.0)?,
                    None => None,
                }
            } else {
                match txn.get(table, &key_of(number)).map_err(|e| code_of(&e))? {
                    Some(value) => {
                        let value = value.as_slice().ok_or(sys::SQLITE_CORRUPT)?;
                        sums::text_of(&value[..sums::len_of(value)?])?
                    }
                    None => None,
                }
            }
        });
        if let Some(text) = text {
            let place = to.get_mut(..=text.len()).ok_or(sys::SQLITE_INTERNAL)?;
            place[..text.len()].copy_from_slice(text.as_bytes());
            place[text.len()] = 0;
        }
        Ok(())
    })
}
