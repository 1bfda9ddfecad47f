//! The adapter of Hedgerow's tree engine: translation only.

use std::ops::Bound;
use std::path::Path;

use hedgerow::tree::{self, Bytes, Durability, Snapshot, Store, Table, TableOptions};

use crate::engine::{Counting, Cursor, Engine, Pages, Reader, Result, Writer};

impl Engine for Store {
    type Reader<'e> = tree::ReadTxn;
    type Writer<'e> = tree::WriteTxn;

    fn create(folder: &Path) -> Result<Self> {
        Ok(Store::create(folder)?)
    }

    fn open(folder: &Path) -> Result<Self> {
        Ok(Store::open(folder)?)
    }

    fn read(&self) -> Result<tree::ReadTxn> {
        Ok(self.begin_read()?)
    }

    fn write(&self) -> Result<tree::WriteTxn> {
        Ok(self.begin_write()?)
    }
}

/// A table's pages, asked of either kind of transaction.
fn pages(txn: &impl Snapshot, table: Table) -> Result<Pages> {
    let stat = txn.table_stat(table)?;
    Ok(Pages {
        depth: u64::from(stat.depth),
        branch: stat.branch_pages,
        leaf: stat.leaf_pages,
        overflow: stat.overflow_pages,
        entries: stat.count.values,
    })
}

/// A cursor with the transaction and the table that it belongs to.
pub(crate) struct Place<'r> {
    txn: &'r tree::ReadTxn,
    table: Table,
    cursor: tree::Cursor,
}

impl Reader for tree::ReadTxn {
    type Table = Table;
    type Cursor<'r> = Place<'r>;

    fn table(&self, name: &str) -> Result<Table> {
        Ok(Snapshot::table(self, name)?)
    }

    #[inline(always)]
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        Ok(Snapshot::get(self, table, key)?)
    }

    fn cursor(&self, table: Table) -> Result<Place<'_>> {
        Ok(Place { txn: self, table, cursor: Snapshot::cursor(self, table)? })
    }

    fn pages(&self, table: Table) -> Result<Pages> {
        pages(self, table)
    }
}

impl Cursor for Place<'_> {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        Ok(self.cursor.next(self.txn)?.map(|entry| (entry.key, entry.value)))
    }

    #[inline(always)]
    fn each_value(&mut self, key: &[u8], visit: impl FnMut(Bytes<'_>)) -> Result<u64> {
        Ok(self.txn.for_each_value(self.table, key, visit)?)
    }
}

impl Counting for tree::ReadTxn {
    #[inline(always)]
    fn nth(&self, table: Table, n: u64) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        Ok(Snapshot::nth(self, table, n)?.map(|entry| (entry.key, entry.value)))
    }

    #[inline(always)]
    fn rank(&self, table: Table, key: &[u8]) -> Result<u64> {
        Ok(Snapshot::rank(self, table, key)?.values)
    }

    #[inline(always)]
    fn count_range(&self, table: Table, low: &[u8], high: &[u8]) -> Result<(u64, u64)> {
        let (low, high) = (Bound::Included(low), Bound::Excluded(high));
        let count = Snapshot::count_range(self, table, low, high)?;
        Ok((count.keys, count.values))
    }
}

impl Writer for tree::WriteTxn {
    type Table = Table;

    fn create_table(&mut self, name: &str, duplicates: bool) -> Result<Table> {
        let plain = TableOptions::new();
        let options = if duplicates { plain.duplicates() } else { plain };
        Ok(tree::WriteTxn::create_table(self, name, &options)?)
    }

    #[inline(always)]
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(tree::WriteTxn::put(self, table, key, value)?)
    }

    #[inline(always)]
    fn append_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        table: Table,
        entries: impl Iterator<Item = (K, V)>,
    ) -> Result<()> {
        for (key, value) in entries {
            self.append(table, key.as_ref(), value.as_ref())?;
        }
        Ok(())
    }

    fn pages(&self, table: Table) -> Result<Pages> {
        pages(self, table)
    }

    fn commit(self) -> Result<()> {
        Ok(self.commit_with(Durability::None)?)
    }
}
