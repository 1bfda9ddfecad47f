//! Moving pairs from one table to another in one transaction.

use super::scan::Position;
use crate::key::KeyRange;
use crate::tree::{Snapshot as _, Table, WriteTxn};
use crate::{Error, Result};

/// How many bytes of pairs are copied at a time: they cannot be borrowed while others are stored.
const BATCH_BYTES: usize = 256 << 10;

/// Moves the pairs of a range of keys from one table to another one of the same transaction; how
/// many there were. Pairs that are in the target already under the same keys are replaced, or, in a
/// table with duplicates, stay beside them.
///
/// Others see all of it or nothing, when the transaction commits. The memory that it takes does not
/// depend on the number of pairs.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// use hedgerow::{stream, tree::{Snapshot, TableOptions}};
///
/// let mut txn = store.begin_write()?;
/// let queue = txn.create_table("queue", &TableOptions::new())?;
/// let done = txn.create_table("done", &TableOptions::new())?;
/// for job in 0..10_u8 {
///     txn.put(queue, &[job], b"job")?;
/// }
/// assert_eq!(stream::transfer(&mut txn, queue, ..&[4][..], done)?, 4);
/// assert_eq!((txn.count(queue)?.keys, txn.count(done)?.keys), (6, 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Argument`] if both are the same table; those of the engine's writes. After an error the
/// transaction may have stored some of the pairs in the target, and all are still in the source.
pub fn transfer(txn: &mut WriteTxn, from: Table, keys: impl KeyRange, to: Table) -> Result<u64> {
    if from == to {
        return Err(Error::argument("pairs cannot be moved from a table to itself"));
    }
    let (low, high) = (keys.low().map(<[u8]>::to_vec), keys.high().map(<[u8]>::to_vec));
    let ends = || (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
    let mut batch: Vec<Position> = Vec::new();
    let mut moved = 0;
    loop {
        batch.clear();
        let mut bytes = 0;
        // The source is not changed meanwhile, so its pairs keep their positions.
        for entry in txn.range(from, ends())?.skip(usize::try_from(moved).unwrap_or(usize::MAX)) {
            let entry = entry?;
            bytes += entry.key.len() + entry.value.len();
            batch.push(Position { key: entry.key.to_vec(), value: Some(entry.value.to_vec()) });
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        if batch.is_empty() {
            break;
        }
        moved += batch.len() as u64;
        for Position { key, value } in &batch {
            txn.put(to, key, value.as_deref().unwrap_or_default())?;
        }
    }
    txn.delete_range(from, ends())?;
    Ok(moved)
}
