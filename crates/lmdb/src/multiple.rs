//! Blocks of values of a fixed size: MDB_GET_MULTIPLE and its neighbours. As in LMDB a block holds
//! those of the key's values that are in the cursor's page, and the cursor is left on the last of
//! them; no block is larger than a page of LMDB's.

use hedgerow::tree::Snapshot;

use crate::abi::*;
use crate::arena::Arena;
use crate::cursor::Given;
use crate::handles::View;
use crate::place::{Place, Stop};
use crate::txn::{Txn, on_body};

/// Bytes of values in a block: a page of 4 KiB without its header.
const BLOCK_BYTES: usize = 4096 - 16;

const NOTHING: Stop = Stop::Code(MDB_NOTFOUND);

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
        if view.table.is_none() || view.flags & MDB_DUPFIXED == 0 {
            return Err(Stop::Code(MDB_INCOMPATIBLE));
        }
        let arena = &mut self.arena;
        on_body!(&self.body, txn => {
            place.attach(txn, view.table)?;
            go_to_block(txn, place, op)?;
            let data = block(txn, place, arena)?;
            // Only a step gives the key.
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

/// Stands in the block that is to be given.
fn go_to_block<S: Snapshot>(txn: &S, place: &mut Place, op: u32) -> Result<(), Stop> {
    match op {
        op::NEXT_MULTIPLE => _ = place.next(txn, op::NEXT_DUP, true)?,
        op::PREV_MULTIPLE => {
            if !place.is_set() {
                place.last(txn)?;
            } else if place.is_on_no_value() {
                return Err(NOTHING);
            }
            let most = per_block(place.current(txn)?.value.len());
            // Where there is no block before the cursor stays.
            let mut before = place.clone();
            before.cursor_mut().ok_or(NOTHING)?.first_of_block(txn, most)?;
            before.prev(txn, op::PREV_DUP, true)?;
            *place = before;
        }
        _ => {}
    }
    Ok(())
}

/// The block in which the cursor stands; it then stands on the last value of it. Where the store
/// holds the values side by side they are handed out as they stand.
fn block<S: Snapshot>(txn: &S, place: &mut Place, arena: &mut Arena) -> Result<Val, Stop> {
    let most = per_block(place.current(txn)?.value.len());
    let cursor = place.cursor_mut().ok_or(NOTHING)?;
    let run = cursor.value_block(txn, most)?.ok_or(NOTHING)?;
    Ok(match run.packed() {
        Some(packed) => arena.stored(packed),
        None => {
            let mut values = Vec::new();
            run.append_to(&mut values);
            arena.join(&values, &[])
        }
    })
}
