//! Blocks of values of a fixed size: MDB_GET_MULTIPLE and its neighbours. LMDB hands out the values
//! of a page; here a block is as many values as a page of it would hold, one behind the other.

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

/// Stands where the block begins.
fn begin<S: Snapshot>(txn: &S, table: Table, place: &mut Place, op: u32) -> Result<(), Stop> {
    match op {
        op::GET_MULTIPLE => {
            let size = place.current(txn)?.value.len();
            if place.count(txn)? as usize <= per_block(size) {
                place.within_key(txn, true, false)?;
            }
        }
        op::NEXT_MULTIPLE => {
            place.next(txn, op::NEXT_DUP, true)?;
        }
        _ => {
            if !place.is_set() {
                place.last(txn)?;
                place.block = 1;
            }
            let entry = place.current(txn)?;
            let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
            let first = txn.rank(table, &key)?.values;
            let here = txn.rank_pair(table, &key, &value)?.values + 1;
            let end = here.saturating_sub(place.block as u64);
            if end <= first {
                return Err(Stop::Code(MDB_NOTFOUND));
            }
            let start = end.saturating_sub(per_block(value.len()) as u64).max(first);
            place.seek_nth(txn, start)?;
        }
    }
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
                place.block = count;
                return Ok(arena.val(packed.into()));
            }
            _ => run.append_to(&mut values),
        }
        if is_last {
            break;
        }
    }
    place.block = count;
    Ok(arena.join(&values, &[]))
}
