//! What a read and a write transaction answer alike.

use std::ops::Bound;

use super::{Bytes, Cursor, Order, TableStat};
use crate::Result;

/// A table as seen by one transaction: a small handle, valid in that transaction only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    pub(crate) index: u32,
    pub(crate) txn: u32,
}

/// A key and one of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'t> {
    /// The key.
    pub key: Bytes<'t>,
    /// The value.
    pub value: Bytes<'t>,
}

/// A number of distinct keys and of values; the same in a table without duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Distinct keys.
    pub keys: u64,
    /// Values, that is pairs of a key and a value.
    pub values: u64,
}

/// Where a key or a pair stands, or would stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// How many distinct keys come before the key.
    pub keys: u64,
    /// How many pairs come before the key's first value (or before the pair asked for).
    pub values: u64,
    /// Whether it is there.
    pub found: bool,
}

/// A table's name, options and size.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// Its name.
    pub name: Vec<u8>,
    /// The order of its keys; a custom order shows the stored name.
    pub order: String,
    /// Whether keys may have several values.
    pub duplicates: bool,
    /// The fixed size of the values of a key, where the table has one.
    pub value_size: Option<u32>,
    /// The order of the values of a key.
    pub value_order: String,
    /// The caller's own bits.
    pub user_flags: u32,
    /// Its entries.
    pub count: Count,
}

/// The reading half of a transaction, of both kinds.
///
/// Keys, values and entries that are handed out borrow the transaction: of a [`super::ReadTxn`]
/// they live as long as it, of a [`super::WriteTxn`] until its next write.
#[allow(unused_variables)]
pub trait Snapshot: sealed::Sealed + Sized {
    /// Opens a table. Custom orders are looked up with [`Snapshot::table_with`].
    fn table(&self, name: impl AsRef<[u8]>) -> Result<Table> {
        unimplemented!()
    }
    /// Opens a table, giving the functions of its custom orders; all options are checked.
    fn table_with(&self, name: impl AsRef<[u8]>, options: &super::TableOptions) -> Result<Table> {
        unimplemented!()
    }
    /// All tables in bytewise order of their names.
    fn tables(&self) -> Result<Vec<TableInfo>> {
        unimplemented!()
    }
    /// Name, options and size of a table.
    fn table_info(&self, table: Table) -> Result<TableInfo> {
        unimplemented!()
    }
    /// The order of a table's keys.
    fn order(&self, table: Table) -> Result<Order> {
        unimplemented!()
    }
    /// Pages by kind, depth, fill of a table.
    fn table_stat(&self, table: Table) -> Result<TableStat> {
        unimplemented!()
    }

    /// The value of a key; its first one if it has several.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        unimplemented!()
    }
    /// Whether a pair is there.
    fn contains_pair(&self, table: Table, key: &[u8], value: &[u8]) -> Result<bool> {
        unimplemented!()
    }
    /// The (first) values of many keys; their cache misses overlap. `found` is cleared first.
    fn get_many<'t>(
        &'t self,
        table: Table,
        keys: &[&[u8]],
        found: &mut Vec<Option<Bytes<'t>>>,
    ) -> Result<()> {
        unimplemented!()
    }
    /// Calls `f` with every value of a key in order; returns how many there were.
    fn for_each_value<'t>(
        &'t self,
        table: Table,
        key: &[u8],
        f: impl FnMut(Bytes<'t>),
    ) -> Result<u64> {
        unimplemented!()
    }
    /// A reader over one large value.
    fn value_reader(&self, table: Table, key: &[u8]) -> Result<Option<ValueReader<'_>>> {
        unimplemented!()
    }

    /// A cursor; it stands nowhere yet.
    fn cursor(&self, table: Table) -> Result<Cursor> {
        unimplemented!()
    }
    /// Iterates over the entries whose keys lie in a range, from both ends.
    fn range<'t, 'k>(
        &'t self,
        table: Table,
        low: Bound<&'k [u8]>,
        high: Bound<&'k [u8]>,
    ) -> Result<Range<'t, Self>> {
        unimplemented!()
    }

    /// All entries of a table.
    fn count(&self, table: Table) -> Result<Count> {
        unimplemented!()
    }
    /// The entries whose keys lie in a range. Two descents.
    fn count_range(&self, table: Table, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<Count> {
        unimplemented!()
    }
    /// The entries between two pairs (key, value).
    fn count_pairs(
        &self,
        table: Table,
        low: Bound<(&[u8], &[u8])>,
        high: Bound<(&[u8], &[u8])>,
    ) -> Result<u64> {
        unimplemented!()
    }
    /// How many values a key has.
    fn count_values(&self, table: Table, key: &[u8]) -> Result<u64> {
        unimplemented!()
    }
    /// The entry with exactly `n` entries before it.
    fn nth(&self, table: Table, n: u64) -> Result<Option<Entry<'_>>> {
        unimplemented!()
    }
    /// The first entry of the key with exactly `n` distinct keys before it.
    fn nth_key(&self, table: Table, n: u64) -> Result<Option<Entry<'_>>> {
        unimplemented!()
    }
    /// Where a key stands or would stand.
    fn rank(&self, table: Table, key: &[u8]) -> Result<Rank> {
        unimplemented!()
    }
    /// Where a pair stands or would stand.
    fn rank_pair(&self, table: Table, key: &[u8], value: &[u8]) -> Result<Rank> {
        unimplemented!()
    }
    /// `n` entries at even distances (all entries, if there are no more than `n`).
    fn sample(&self, table: Table, n: usize) -> Result<Vec<Entry<'_>>> {
        unimplemented!()
    }
    /// `n` entries drawn at random, with repetition, from a seed.
    fn sample_random(&self, table: Table, n: usize, seed: u64) -> Result<Vec<Entry<'_>>> {
        unimplemented!()
    }
    /// At most `n - 1` entries that cut the table into `n` parts whose numbers of entries differ by
    /// at most one: part `i` begins with the `i`-th of them.
    fn split(&self, table: Table, n: usize) -> Result<Vec<Entry<'_>>> {
        unimplemented!()
    }
}

/// Iterates over a range of entries from both ends.
pub struct Range<'t, S> {
    _txn: &'t S,
}
impl<'t, S: Snapshot> Iterator for Range<'t, S> {
    type Item = Result<Entry<'t>>;
    fn next(&mut self) -> Option<Self::Item> {
        unimplemented!()
    }
}
impl<S: Snapshot> DoubleEndedIterator for Range<'_, S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        unimplemented!()
    }
}
/// Reads one large value in parts (`io::Read` and `io::Seek`), checking only the pages it touches.
pub struct ValueReader<'t> {
    _p: &'t (),
}
#[allow(missing_docs)]
impl ValueReader<'_> {
    pub fn len(&self) -> u64 {
        unimplemented!()
    }
}
pub(crate) mod sealed {
    pub trait Sealed {}
    impl Sealed for super::super::ReadTxn {}
    impl Sealed for super::super::WriteTxn {}
}
impl Snapshot for super::ReadTxn {}
impl Snapshot for super::WriteTxn {}
