//! The adapter of Hedgerow's tree engine: translation only.

use std::ops::Bound;
use std::path::Path;

use hedgerow::Durability;
use hedgerow::tree::{self, Bytes, Snapshot, Store, TableOptions};

use crate::engine::{Cursor, Engine, Paged, Pages, Promise, Reader, Result, Table, Writer};

/// A transaction of either kind with its table.
pub(crate) struct On<T> {
    txn: T,
    table: tree::Table,
}

/// The options of a table.
fn options(table: Table) -> TableOptions {
    let plain = TableOptions::new();
    if table.duplicates { plain.duplicates() } else { plain }
}

fn durability(promise: Promise) -> Durability {
    match promise {
        Promise::Durable => Durability::Durable,
        Promise::Unsynced => Durability::None,
    }
}

/// Does something in a table of a transaction, which is made if it is not there.
#[inline(always)]
fn on<T>(
    txn: &mut tree::WriteTxn,
    table: Table,
    work: impl FnOnce(&mut On<&mut tree::WriteTxn>) -> Result<T>,
) -> Result<T> {
    let table = match txn.table(table.name) {
        Ok(table) => table,
        Err(hedgerow::Error::NoTable { .. }) => txn.create_table(table.name, &options(table))?,
        Err(error) => return Err(error.into()),
    };
    work(&mut On { txn, table })
}

impl Engine for Store {
    type Reader<'e> = On<tree::ReadTxn>;
    type Writer<'e> = On<&'e mut tree::WriteTxn>;

    fn open(folder: &Path, memory: Option<usize>) -> Result<Self> {
        let builder = memory.into_iter().fold(Store::builder(), tree::Builder::write_budget);
        Ok(builder.open_or_create(folder)?)
    }

    #[inline(always)]
    fn read<T>(
        &self,
        table: Table,
        work: impl FnOnce(&On<tree::ReadTxn>) -> Result<T>,
    ) -> Result<T> {
        let txn = self.begin_read()?;
        let table = Snapshot::table(&txn, table.name)?;
        work(&On { txn, table })
    }

    #[inline(always)]
    fn write<T>(
        &self,
        table: Table,
        promise: Promise,
        work: impl FnOnce(&mut On<&mut tree::WriteTxn>) -> Result<T>,
    ) -> Result<T> {
        let mut txn = self.begin_write()?;
        txn.expect_durability(durability(promise));
        let answer = on(&mut txn, table, work)?;
        txn.commit_with(durability(promise))?;
        Ok(answer)
    }

    #[inline(always)]
    fn write_beside<T: Send>(
        &self,
        table: Table,
        promise: Promise,
        work: impl FnOnce(&mut On<&mut tree::WriteTxn>) -> Result<T> + Send,
    ) -> Result<T> {
        self.write_with(durability(promise), |txn| on(txn, table, work))
    }

    fn compact(self, _folder: &Path) -> Result<Self> {
        Store::compact(&self, &mut |_, _| {})?;
        Ok(self)
    }
}

impl Paged for On<tree::ReadTxn> {
    fn pages(&self) -> Result<Pages> {
        pages_of(&self.txn, self.table)
    }
}

impl Paged for On<&mut tree::WriteTxn> {
    fn pages(&self) -> Result<Pages> {
        pages_of(self.txn, self.table)
    }
}

fn pages_of(txn: &impl Snapshot, table: tree::Table) -> Result<Pages> {
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
    on: &'r On<tree::ReadTxn>,
    cursor: tree::Cursor,
}

impl Reader for On<tree::ReadTxn> {
    type Cursor<'r> = Place<'r>;

    #[inline(always)]
    fn get<T>(&self, key: &[u8], see: impl FnOnce(Bytes<'_>) -> T) -> Result<Option<T>> {
        Ok(self.txn.get(self.table, key)?.map(see))
    }

    fn cursor(&self) -> Result<Place<'_>> {
        Ok(Place { on: self, cursor: self.txn.cursor(self.table)? })
    }

    fn len(&self) -> Result<u64> {
        Ok(self.txn.count(self.table)?.values)
    }

    #[inline(always)]
    fn get_many(&self, keys: &[&[u8]], see: impl FnMut(Option<Bytes<'_>>)) -> Result<()> {
        let mut found = Vec::with_capacity(keys.len());
        self.txn.get_many(self.table, keys, &mut found)?;
        found.into_iter().for_each(see);
        Ok(())
    }

    /// A page at a time: the steps inside a page are the caller's own code.
    #[inline(always)]
    fn scan(&self, mut see: impl FnMut(Bytes<'_>, Bytes<'_>)) -> Result<()> {
        let mut cursor = self.txn.cursor(self.table)?;
        while let Some(first) = cursor.next(&self.txn)? {
            see(first.key, first.value);
            while let Some(entry) = cursor.next_here(&self.txn) {
                see(entry.key, entry.value);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn nth<T>(&self, n: u64, see: impl FnOnce(Bytes<'_>, Bytes<'_>) -> T) -> Result<Option<T>> {
        Ok(self.txn.nth(self.table, n)?.map(|entry| see(entry.key, entry.value)))
    }

    fn sample(&self, n: u64, mut see: impl FnMut(Bytes<'_>, Bytes<'_>)) -> Result<()> {
        for entry in self.txn.sample(self.table, usize::try_from(n)?)? {
            see(entry.key, entry.value);
        }
        Ok(())
    }

    fn page(
        &self,
        from: &[u8],
        skip: u64,
        take: u64,
        mut see: impl FnMut(Bytes<'_>, Bytes<'_>),
    ) -> Result<()> {
        let range = self.txn.range(self.table, from..)?;
        for entry in range.skip(usize::try_from(skip)?).take(usize::try_from(take)?) {
            let entry = entry?;
            see(entry.key, entry.value);
        }
        Ok(())
    }

    fn iterated(&self, from: &[u8]) -> Result<u64> {
        let range = self.txn.range(self.table, from..)?;
        Ok(range.count() as u64)
    }

    #[inline(always)]
    fn rank(&self, key: &[u8]) -> Result<u64> {
        Ok(self.txn.rank(self.table, key)?.values)
    }

    #[inline(always)]
    fn count_range(&self, low: &[u8], high: &[u8]) -> Result<u64> {
        let (low, high) = (Bound::Included(low), Bound::Excluded(high));
        Ok(self.txn.count_range(self.table, (low, high))?.values)
    }

    #[inline(always)]
    fn count_keys(&self, low: &[u8], high: &[u8]) -> Result<u64> {
        let (low, high) = (Bound::Included(low), Bound::Excluded(high));
        Ok(self.txn.count_range(self.table, (low, high))?.keys)
    }
}

impl Cursor for Place<'_> {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        Ok(self.cursor.next(&self.on.txn)?.map(|entry| (entry.key, entry.value)))
    }

    #[inline(always)]
    fn seek(&mut self, key: &[u8]) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        let entry = self.cursor.seek_at_or_after(&self.on.txn, key)?;
        Ok(entry.map(|entry| (entry.key, entry.value)))
    }

    #[inline(always)]
    fn each_value(&mut self, key: &[u8], visit: impl FnMut(Bytes<'_>)) -> Result<u64> {
        Ok(self.on.txn.for_each_value(self.on.table, key, visit)?)
    }
}

impl Writer for On<&mut tree::WriteTxn> {
    #[inline(always)]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.txn.put(self.table, key, value)?)
    }

    #[inline(always)]
    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.txn.append(self.table, key, value)?)
    }

    #[inline(always)]
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.txn.delete(self.table, key)?;
        Ok(())
    }

    fn delete_range(&mut self, low: &[u8], high: &[u8]) -> Result<()> {
        self.txn.delete_range(self.table, (Bound::Included(low), Bound::Excluded(high)))?;
        Ok(())
    }
}
