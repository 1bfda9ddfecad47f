//! The adapter of fjall: one keyspace of a database with its defaults, a cache of 4 GiB if none is
//! asked for. A write transaction is a batch; one that grows beyond 1,000 changes is written in
//! parts, only the last of which is durable, as programs load such stores. After loading everything
//! is compacted, which is not part of the time. "Unsynced" is its default, the system's cache.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use hedgerow::tree::Bytes;

use crate::engine::{Cursor, Engine, Promise, Reader, Result, Table, Unsupported, Writer};

/// The default size of the cache in bytes.
const CACHE: usize = 4 << 30;
/// Changes after which a batch is written.
const BATCH: usize = 1000;

/// A database and its only keyspace.
pub(crate) struct Store {
    database: Database,
    keyspace: Keyspace,
}

impl Engine for Store {
    type Reader<'e> = View<'e>;
    type Writer<'e> = Batch<'e>;

    fn open(folder: &Path, memory: Option<usize>) -> Result<Self> {
        let cache = memory.unwrap_or(CACHE) as u64;
        let database = Database::builder(folder.join("data")).cache_size(cache).open()?;
        let keyspace = database.keyspace("table", KeyspaceCreateOptions::default)?;
        Ok(Self { database, keyspace })
    }

    fn read<T>(&self, _table: Table, work: impl FnOnce(&View<'_>) -> Result<T>) -> Result<T> {
        work(&View { keyspace: &self.keyspace, snapshot: self.database.snapshot() })
    }

    fn write<T>(
        &self,
        table: Table,
        promise: Promise,
        work: impl FnOnce(&mut Batch<'_>) -> Result<T>,
    ) -> Result<T> {
        if table.duplicates {
            return Err(Unsupported("several values of a key").into());
        }
        let mut batch = Batch { store: self, batch: self.database.batch() };
        let answer = work(&mut batch)?;
        let durable = promise == Promise::Durable;
        batch.batch.durability(durable.then_some(PersistMode::SyncData)).commit()?;
        Ok(answer)
    }

    fn compact(self, _folder: &Path) -> Result<Self> {
        self.settle()?;
        Ok(self)
    }

    fn settle(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        Ok(self.keyspace.major_compact()?)
    }
}

/// A snapshot.
pub(crate) struct View<'e> {
    keyspace: &'e Keyspace,
    snapshot: Snapshot,
}

impl Reader for View<'_> {
    type Cursor<'r>
        = Iter<'r>
    where
        Self: 'r;

    fn get<T>(&self, key: &[u8], see: impl FnOnce(Bytes<'_>) -> T) -> Result<Option<T>> {
        Ok(self.snapshot.get(self.keyspace, key)?.map(|value| see((&*value).into())))
    }

    fn cursor(&self) -> Result<Iter<'_>> {
        Ok(Iter { view: self, iter: self.snapshot.iter(self.keyspace), at: None })
    }

    fn len(&self) -> Result<u64> {
        Ok(self.snapshot.len(self.keyspace)? as u64)
    }
}

/// An iterator from the last place that was sought, and the entry that it stands on.
pub(crate) struct Iter<'r> {
    view: &'r View<'r>,
    iter: fjall::Iter,
    at: Option<fjall::KvPair>,
}

impl Cursor for Iter<'_> {
    fn next(&mut self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        self.at = self.iter.next().map(fjall::Guard::into_inner).transpose()?;
        Ok(self.at.as_ref().map(|(key, value)| ((&**key).into(), (&**value).into())))
    }

    fn seek(&mut self, key: &[u8]) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        self.iter = self.view.snapshot.range(self.view.keyspace, key..);
        self.next()
    }
}

/// Changes that are written together.
pub(crate) struct Batch<'e> {
    store: &'e Store,
    batch: fjall::OwnedWriteBatch,
}

impl Batch<'_> {
    /// Writes the batch if it has grown large.
    fn changed(&mut self) -> Result<()> {
        if self.batch.len() > BATCH {
            std::mem::replace(&mut self.batch, self.store.database.batch()).commit()?;
        }
        Ok(())
    }
}

impl Writer for Batch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.batch.insert(&self.store.keyspace, key, value);
        self.changed()
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.batch.remove(&self.store.keyspace, key);
        self.changed()
    }

    /// One by one: there is no other way.
    fn delete_range(&mut self, low: &[u8], high: &[u8]) -> Result<()> {
        for entry in self.store.keyspace.range(low..high) {
            self.delete(&entry.key()?)?;
        }
        Ok(())
    }
}
