//! The adapter of redb: its tables of byte strings, translation only. A cache of 4 GiB if none is
//! asked for; "unsynced" is its `Durability::None`.

use std::path::Path;

use hedgerow::tree::Bytes;
use redb::{
    AccessGuard, Database, Durability, Range, ReadOnlyTable, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, TableDefinition,
};

use crate::engine::{Cursor, Engine, Promise, Reader, Result, Table, Unsupported, Writer};

/// The default size of the cache in bytes.
const CACHE: usize = 4 << 30;

type Slice = &'static [u8];

fn definition(table: Table) -> Result<TableDefinition<'static, Slice, Slice>> {
    if table.duplicates {
        // It has multimaps, whose transactions have other tables.
        return Err(Unsupported("several values of a key here").into());
    }
    Ok(TableDefinition::new(table.name))
}

impl Engine for Database {
    type Reader<'e> = ReadOnlyTable<Slice, Slice>;
    type Writer<'e> = redb::Table<'e, Slice, Slice>;

    fn open(folder: &Path, memory: Option<usize>) -> Result<Self> {
        let mut builder = Database::builder();
        builder.set_cache_size(memory.unwrap_or(CACHE));
        Ok(builder.create(folder.join("data.redb"))?)
    }

    fn read<T>(
        &self,
        table: Table,
        work: impl FnOnce(&ReadOnlyTable<Slice, Slice>) -> Result<T>,
    ) -> Result<T> {
        work(&self.begin_read()?.open_table(definition(table)?)?)
    }

    fn write<T>(
        &self,
        table: Table,
        promise: Promise,
        work: impl FnOnce(&mut redb::Table<'_, Slice, Slice>) -> Result<T>,
    ) -> Result<T> {
        let mut txn = self.begin_write()?;
        if promise == Promise::Unsynced {
            txn.set_durability(Durability::None)?;
        }
        let answer = work(&mut txn.open_table(definition(table)?)?)?;
        txn.commit()?;
        Ok(answer)
    }

    fn compact(mut self, _folder: &Path) -> Result<Self> {
        // Commits that are not durable yet count as transactions in progress.
        self.begin_write()?.commit()?;
        Database::compact(&mut self)?;
        Ok(self)
    }
}

/// A range from the last place that was sought, and the entry that it stands on.
pub(crate) struct Place<'r> {
    table: &'r ReadOnlyTable<Slice, Slice>,
    range: Range<'static, Slice, Slice>,
    at: Option<(AccessGuard<'static, Slice>, AccessGuard<'static, Slice>)>,
}

impl Reader for ReadOnlyTable<Slice, Slice> {
    type Cursor<'r> = Place<'r>;

    #[inline(always)]
    fn get<T>(&self, key: &[u8], see: impl FnOnce(Bytes<'_>) -> T) -> Result<Option<T>> {
        Ok(ReadableTable::get(self, key)?.map(|value| see(value.value().into())))
    }

    fn cursor(&self) -> Result<Place<'_>> {
        Ok(Place { table: self, range: self.range::<&[u8]>(..)?, at: None })
    }

    fn len(&self) -> Result<u64> {
        Ok(ReadableTableMetadata::len(self)?)
    }

    fn page(
        &self,
        from: &[u8],
        skip: u64,
        take: u64,
        mut see: impl FnMut(Bytes<'_>, Bytes<'_>),
    ) -> Result<()> {
        let range = self.range::<&[u8]>(from..)?;
        for entry in range.skip(usize::try_from(skip)?).take(usize::try_from(take)?) {
            let (key, value) = entry?;
            see(key.value().into(), value.value().into());
        }
        Ok(())
    }

    fn iterated(&self, from: &[u8]) -> Result<u64> {
        Ok(self.range::<&[u8]>(from..)?.count() as u64)
    }
}

impl Cursor for Place<'_> {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        self.at = self.range.next().transpose()?;
        Ok(self.at.as_ref().map(|(key, value)| (key.value().into(), value.value().into())))
    }

    #[inline(always)]
    fn seek(&mut self, key: &[u8]) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        self.range = self.table.range::<&[u8]>(key..)?;
        self.next()
    }
}

impl Writer for redb::Table<'_, Slice, Slice> {
    #[inline(always)]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(key, value)?;
        Ok(())
    }

    #[inline(always)]
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.remove(key)?;
        Ok(())
    }

    fn delete_range(&mut self, low: &[u8], high: &[u8]) -> Result<()> {
        Ok(self.retain_in(low..high, |_, _| false)?)
    }
}
