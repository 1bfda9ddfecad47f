//! Blocks of values of a fixed size: MDB_GET_MULTIPLE and its neighbours. LMDB hands out the values
//! of the page where the cursor stands, and leaves it on the last of them; here a block is as many
//! values as a page of it would hold, one behind the other.

use hedgerow::tree::{Snapshot, Table};

use crate::abi::*;
use crate::arena::Arena;
use crate::cursor::Given;
use crate::handles::View;
use crate::place::{Place, Stop};
use crate::txn::{Body, Txn, on_body};

/// Bytes of values in a block: a page of 4 KiB without its header.
const BLOCK_BYTES: usize = 4096 - 16;

impl Txn {
    /// A call of `mdb_cursor_get` for a block.
    pub(crate) fn get_multiple(
        &mut self,
        view: &View,
        place: &mut Place,
        op: u32,
        data: Option<&[u8]>,
    ) -> Result<Given, Stop> {
        if data.is_none() || op == op::GET_MULTIPLE && !place.is_set() {
            return Err(Stop::Code(libc::EINVAL));
        }
        let Some(table) = view.table.filter(|_| view.flags & MDB_DUPFIXED != 0) else {
            return Err(Stop::Code(MDB_INCOMPATIBLE));
        };
        let arena = &mut self.arena;
        on_body!(&self.body, txn => {
            place.attach(txn, view.table)?;
            begin(txn, table, place, op)?;
            let data = block(txn, place, arena)?;
            note_end(txn, place)?;
            // Only a step tells the key.
            let key = match op {
                op::GET_MULTIPLE => None,
                _ => Some(arena.val(place.current(txn)?.key)),
            };
            Ok(Given { key, data: Some(data) })
        })
    }
}

fn per_block(size: usize) -> usize {
    (BLOCK_BYTES / size.max(1)).max(1)
}

/// Stands where the block begins. Blocks are counted from the first value of the key, all of them
/// full but for the last: so a value is in one of them only, whichever way they are gone through.
fn begin<S: Snapshot>(txn: &S, table: Table, place: &mut Place, op: u32) -> Result<(), Stop> {
    let is_behind_block = op == op::NEXT_MULTIPLE && ends_block(txn, place)?;
    match op {
        op::NEXT_MULTIPLE => _ = place.next(txn, op::NEXT_DUP, true)?,
        op::PREV_MULTIPLE if !place.is_set() => _ = place.last(txn)?,
        op::PREV_MULTIPLE if place.is_on_no_value() => return Err(Stop::Code(MDB_NOTFOUND)),
        _ => {}
    }
    let entry = place.current(txn)?;
    if is_behind_block {
        return Ok(());
    }
    let most = per_block(entry.value.len()) as u64;
    let is_only = place.count(txn)? <= most;
    match op {
        op::PREV_MULTIPLE if is_only => return Err(Stop::Code(MDB_NOTFOUND)),
        op::PREV_MULTIPLE => {}
        _ if place.within_key(txn, true, false)?.value == entry.value || is_only => return Ok(()),
        _ => {}
    }
    let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
    let first = txn.rank(table, &key)?.values;
    let here = txn.rank_pair(table, &key, &value)?.values - first;
    let start = here - here % most;
    let start = match op {
        op::PREV_MULTIPLE => start.checked_sub(most).ok_or(Stop::Code(MDB_NOTFOUND))?,
        _ => start,
    };
    place.seek_nth(txn, first + start)?;
    Ok(())
}

/// Whether the cursor still stands where the last block ended, so that the next one begins right
/// behind it.
fn ends_block<S: Snapshot>(txn: &S, place: &mut Place) -> Result<bool, Stop> {
    if place.block_end.is_empty() || !place.is_plain() {
        return Ok(false);
    }
    let entry = place.current(txn)?;
    let end = place.block_end.split_at_checked(entry.key.len());
    Ok(end.is_some_and(|(key, value)| entry.key == *key && entry.value == *value))
}

/// The cursor stands where a block ended.
fn note_end<S: Snapshot>(txn: &S, place: &mut Place) -> Result<(), Stop> {
    let entry = place.current(txn)?;
    place.block_end.clear();
    entry.key.append_to(&mut place.block_end);
    entry.value.append_to(&mut place.block_end);
    Ok(())
}

/// The values from where the cursor stands on, at most a block; it then stands on the last one.
/// Where the store holds them side by side they are handed out as they stand.
fn block<S: Snapshot>(txn: &S, place: &mut Place, arena: &mut Arena) -> Result<Val, Stop> {
    let first = place.current(txn)?.value;
    let most = per_block(first.len());
    let Some(cursor) = place.cursor_mut() else { return Err(Stop::Code(MDB_NOTFOUND)) };
    let (mut values, mut count) = (Vec::new(), 0);
    while let Some(run) = cursor.value_run(txn, most - count)? {
        count += run.count();
        let is_last = count == most || cursor.next_value(txn)?.is_none();
        match run.packed() {
            Some(packed) if is_last && values.is_empty() => {
                return Ok(arena.val(packed.into()));
            }
            _ => {
                if !is_last && values.is_empty() {
                    values.reserve(most * first.len());
                }
                run.append_to(&mut values);
            }
        }
        if is_last {
            break;
        }
    }
    Ok(arena.join(&values, &[]))
}
