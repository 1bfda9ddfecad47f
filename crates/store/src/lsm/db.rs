//! The store's public interface: it translates to calls of `engine`, `commit` and `snapshot`.

use std::path::Path;
use std::sync::Arc;

use super::background::Threads;
use super::check::{self, CheckReport};
use super::commit::batch::Batch;
use super::engine::Inner;
use super::entry::full_key;
use super::keyspace::Keyspace;
use super::options::{Durability, Options};
use super::read::cursor::{Cursor, Scan};
use super::read::estimate;
use super::read::search::{self, Value};
use super::read::snapshot::Snapshot;
use super::read::view::View;
use super::stat::{self, DbStat};
use crate::{Error, Result};

/// A store: a directory with a write-ahead log and sorted tables. See the [module](super).
///
/// A `Db` is shared between threads by reference; all methods take `&self`. Dropping it closes the
/// store, once all snapshots are dropped too.
pub struct Db {
    pub(crate) inner: Arc<Inner>,
    threads: Threads,
}

impl Inner {
    /// Refuses a keyspace of another store.
    pub(crate) fn check(&self, keyspace: &Keyspace) -> Result<()> {
        match keyspace.store() == self.catalog.store {
            true => Ok(()),
            false => Err(Error::argument("the keyspace is one of another store")),
        }
    }
}

impl Db {
    pub(crate) fn new(inner: Arc<Inner>, threads: Threads) -> Self {
        Self { inner, threads }
    }

    /// Opens the store in a directory.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open(path)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.inner.directory.path
    }

    /// Commits a batch with the store's durability.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::CommitFailed`] if the system refuses: then nothing of the batch is
    /// there, and unless a flush failed it never will be. [`Error::Poisoned`] if a flush failed
    /// earlier: open the store anew; what failed then may be there, as a whole.
    /// [`Error::NoKeyspace`] if a keyspace was dropped, [`Error::Argument`] if one is of another
    /// store.
    pub fn write(&self, batch: Batch) -> Result<()> {
        self.write_with(batch, self.inner.options.durability)
    }

    /// Commits a batch.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with(&self, batch: Batch, durability: Durability) -> Result<()> {
        match batch.store() {
            // It still promises what it says for the commits before it.
            None => self.inner.settle(durability),
            Some(store) if store == self.inner.catalog.store => {
                self.inner.commit(batch, durability)
            }
            Some(_) => Err(Error::argument("the batch names keyspaces of another store")),
        }
    }

    /// Puts a value under a key.
    ///
    /// # Errors
    /// As [`Db::write`], and as [`Batch::put`].
    pub fn put(&self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(keyspace, key, value)?;
        self.write(batch)
    }

    /// Deletes a key, which need not exist.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete(keyspace, key)?;
        self.write(batch)
    }

    /// Deletes all keys from `start` on that come before `end`; `None` means up to the last key.
    /// The cost does not depend on their number.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete_range(
        &self,
        keyspace: &Keyspace,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete_range(keyspace, start, end)?;
        self.write(batch)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.inner.check(keyspace)?;
        Ok(View::now(&self.inner).get(&full_key(keyspace.id(), key))?.map(Value::into_vec))
    }

    /// Calls `see` with the value of a key, without copying the value, and returns its result.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_with<R>(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        see: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        self.inner.check(keyspace)?;
        let value = View::now(&self.inner).get(&full_key(keyspace.id(), key))?;
        Ok(search::show(value, see))
    }

    /// The values of several keys, in the order of `keys`, all as of one moment.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.inner.check(keyspace)?;
        View::now(&self.inner).values(keyspace, keys)
    }

    /// Calls `see` with the index of each key and its value, without copying the value: as they
    /// arrive, in no particular order, but all as of one moment.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
    /// let people = db.keyspace("people", Default::default())?;
    /// db.put(&people, b"1", b"Ada")?;
    /// let mut lens = [None; 2];
    /// db.multi_get_with(&people, &["1", "2"], |number, value| {
    ///     lens[number] = value.map(<[u8]>::len);
    /// })?;
    /// assert_eq!(lens, [Some(3), None]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`]; `see` may have been called for some of them.
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
        see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.inner.check(keyspace)?;
        View::now(&self.inner).show(keyspace, keys, see)
    }

    /// A cursor, which moves both ways and sees the store as of now.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn cursor(&self, keyspace: &Keyspace) -> Result<Cursor> {
        self.inner.check(keyspace)?;
        Cursor::new(View::now(&self.inner), keyspace.id())
    }

    /// An iterator over the entries of a keyspace in order, as of now.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn scan(&self, keyspace: &Keyspace) -> Result<Scan> {
        self.cursor(keyspace).map(Scan::new)
    }

    /// About how many keys there are from `start` on and before `end`; `None` means up to the last
    /// one. It reads a few blocks of each table, and counts some of the entries in memory.
    ///
    /// It is exact for a few entries, where each key was written once. Overwritten and deleted keys
    /// are counted more than once, or not at all, until they are merged.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn estimate_count(
        &self,
        keyspace: &Keyspace,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<u64> {
        self.inner.check(keyspace)?;
        estimate::keys_of_space(&View::now(&self.inner), keyspace.id(), start, end)
    }

    /// The store as it is now, to be read later.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.inner))
    }

    /// Returns when everything that was committed is on stable storage.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses; [`Error::Poisoned`] from then on.
    pub fn sync(&self) -> Result<()> {
        self.inner.settle(Durability::Durable)
    }

    /// Writes everything in memory to tables.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    /// Merges all tables into one level and collects values: afterwards little is on the disk that
    /// neither a new reader nor a held snapshot sees. If a sixteenth of the log segments or more is
    /// garbage, separated values are also put in key order, so that scans read them in large
    /// pieces; otherwise they stay where they are, since every value would have to be written anew.
    ///
    /// # Errors
    /// As [`Db::write`]; what was merged before stays merged.
    pub fn compact(&self) -> Result<()> {
        self.inner.compact()
    }

    /// Reads and verifies everything.
    ///
    /// # Errors
    /// If the system refuses. Damage is not an error: it is in the report.
    pub fn check(&self) -> Result<CheckReport> {
        check::check(&View::now(&self.inner))
    }

    /// What the store consists of: with the segment that was written to, too.
    pub fn stat(&self) -> DbStat {
        stat::stat(&self.inner)
    }

    /// Closes the store: ends its threads and hands everything to stable storage.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn close(mut self) -> Result<()> {
        self.threads.stop(&self.inner);
        self.inner.close()
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        self.threads.stop(&self.inner);
        // A caller that wants to know of a failure calls `close`.
        let _ = self.inner.close();
    }
}
