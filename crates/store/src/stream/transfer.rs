//! Moving pairs from one table to another in one transaction.

use std::ops::Bound;

use super::scan::Position;
use crate::key::KeyRange;
use crate::lsm::{Keyspace, Transaction};
use crate::tree::{Entry, Snapshot as _, Table, WriteTxn};
use crate::{Error, Result};

/// How many bytes of pairs are copied at a time: they cannot be borrowed while others are stored.
const BATCH_BYTES: usize = 256 << 10;

/// The ends of a range of keys.
type Ends<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

mod sealed {
    use super::{Ends, Position, Result};

    /// What moving pairs needs of a transaction.
    pub trait Sealed {
        /// A table of it.
        type Table<'t>: Copy;
        /// Whether two are the same.
        fn are_same(a: Self::Table<'_>, b: Self::Table<'_>) -> bool;
        /// Copies the next pairs of a range, of which `moved` were copied before, the last of them
        /// with the key `last`.
        fn copy(
            &self,
            from: Self::Table<'_>,
            keys: Ends<'_>,
            before: (u64, Option<&[u8]>),
            batch: &mut Vec<Position>,
        ) -> Result<()>;
        /// Stores a pair.
        fn put(&mut self, to: Self::Table<'_>, key: &[u8], value: &[u8]) -> Result<()>;
        /// Removes a range.
        fn remove(&mut self, from: Self::Table<'_>, keys: Ends<'_>) -> Result<()>;
    }
}

/// A transaction that can move pairs between its tables:
/// [`tree::WriteTxn`](crate::tree::WriteTxn), whose tables are [`tree::Table`](crate::tree::Table),
/// or [`lsm::Transaction`](crate::lsm::Transaction), whose tables are
/// [`&lsm::Keyspace`](crate::lsm::Keyspace).
pub trait Mover: sealed::Sealed {}

impl Mover for WriteTxn {}
impl Mover for Transaction {}

/// Takes pairs until they are a batch.
fn fill<P: Into<Position>>(
    pairs: impl Iterator<Item = Result<P>>,
    batch: &mut Vec<Position>,
) -> Result<()> {
    let mut bytes = 0;
    for pair in pairs {
        let pair = pair?.into();
        bytes += pair.key.len() + pair.value.as_ref().map_or(0, Vec::len);
        batch.push(pair);
        if bytes >= BATCH_BYTES {
            break;
        }
    }
    Ok(())
}

impl From<(Vec<u8>, Vec<u8>)> for Position {
    fn from((key, value): (Vec<u8>, Vec<u8>)) -> Self {
        Self { key, value: Some(value) }
    }
}

impl sealed::Sealed for WriteTxn {
    type Table<'t> = Table;

    fn are_same(a: Table, b: Table) -> bool {
        a == b
    }

    fn copy(
        &self,
        from: Table,
        keys: Ends<'_>,
        (moved, _): (u64, Option<&[u8]>),
        batch: &mut Vec<Position>,
    ) -> Result<()> {
        // The source is not changed meanwhile, so its pairs keep their positions.
        let rest = self.range(from, keys)?.skip(usize::try_from(moved).unwrap_or(usize::MAX));
        let copied = |entry: Entry<'_>| (entry.key.to_vec(), entry.value.to_vec());
        fill(rest.map(|entry| entry.map(copied)), batch)
    }

    fn put(&mut self, to: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(to, key, value)
    }

    fn remove(&mut self, from: Table, keys: Ends<'_>) -> Result<()> {
        self.delete_range(from, keys).map(drop)
    }
}

impl sealed::Sealed for Transaction {
    type Table<'t> = &'t Keyspace;

    fn are_same(a: &Keyspace, b: &Keyspace) -> bool {
        a.name() == b.name()
    }

    fn copy(
        &self,
        from: &Keyspace,
        (low, high): Ends<'_>,
        (_, last): (u64, Option<&[u8]>),
        batch: &mut Vec<Position>,
    ) -> Result<()> {
        fill(self.range(from, (last.map_or(low, Bound::Excluded), high))?, batch)
    }

    fn put(&mut self, to: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(to, key, value)
    }

    fn remove(&mut self, from: &Keyspace, keys: Ends<'_>) -> Result<()> {
        self.delete_range(from, keys)
    }
}

/// Moves the pairs of a range of keys from one table to another one of the same transaction; how
/// many there were. Pairs that are in the target already under the same keys are replaced, or, in a
/// table with duplicates, stay beside them.
///
/// Others see all of it or nothing, when the transaction commits. In the tree engine the memory
/// that it takes does not depend on the number of pairs; a transaction of the lsm engine keeps in
/// memory what it has written.
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
pub fn transfer<M: Mover>(
    txn: &mut M,
    from: M::Table<'_>,
    keys: impl KeyRange,
    to: M::Table<'_>,
) -> Result<u64> {
    if M::are_same(from, to) {
        return Err(Error::argument("pairs cannot be moved from a table to itself"));
    }
    let (low, high) = (keys.low().map(<[u8]>::to_vec), keys.high().map(<[u8]>::to_vec));
    let ends = || (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
    let (mut moved, mut last) = (0, None);
    loop {
        let mut batch: Vec<Position> = Vec::new();
        txn.copy(from, ends(), (moved, last.as_deref()), &mut batch)?;
        moved += batch.len() as u64;
        for Position { key, value } in &batch {
            txn.put(to, key, value.as_deref().unwrap_or_default())?;
        }
        let Some(pair) = batch.pop() else { break };
        last = Some(pair.key);
    }
    txn.remove(from, ends())?;
    Ok(moved)
}
