//! The store's public interface: it translates to calls of `engine`, `commit` and `snapshot`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::check::{self, CheckReport};
use super::commit::batch::Batch;
use super::engine::Inner;
use super::identity;
use super::keyspace::Keyspace;
use super::options::Options;
use super::read::readable::Readable;
use super::read::readable::sealed::Sealed;
use super::read::snapshot::Snapshot;
use super::read::view::View;
use super::stat::{self, DbStat};
use crate::Durability;
use crate::key::KeyRange;
use crate::observe::{Work, tell, within};
use crate::{Error, Result};

/// A store: a directory with a write-ahead log and sorted tables. See the [module](super).
///
/// A `Db` is a handle: it is shared between threads by reference or as a clone. Dropping the last
/// one closes the store, once all snapshots are dropped too.
///
/// In a child process after a fork nothing of it writes: commits and all else that would are
/// [`Error::Locked`], and dropping it leaves the parent's store as it is. Reads find what was there
/// at the fork, but one may wait for ever if a thread of the parent was just then reading, too, or
/// merging. The child can open the store once the parent has closed it.
#[derive(Clone)]
pub struct Db {
    pub(crate) inner: Arc<Inner>,
    open: Arc<Open>,
}

/// Closes the store when the last handle goes.
struct Open(Arc<Inner>);

impl Open {
    fn close(&self) -> Result<()> {
        self.0.check_process()?;
        self.0.stop_threads();
        self.0.close()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.0.directory.is_ours() {
            // It stays in memory: what drops with it gives back what is the parent's, or waits for
            // a lock that one of the parent's threads had.
            return std::mem::forget(Arc::clone(&self.0));
        }
        // A caller that wants to know of a failure calls `Db::close`.
        let _ = self.close();
    }
}

impl Db {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { open: Arc::new(Open(Arc::clone(&inner))), inner }
    }

    /// Creates a store with the default options; the directory must not exist, or be empty.
    ///
    /// # Errors
    /// As [`Options::create_new`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("db");
    /// use hedgerow::lsm::Db;
    /// drop(Db::create(&path)?);
    /// assert!(Db::create(&path).is_err());
    /// let db = Db::open(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().create_new(path)
    }

    /// Makes a store that lies in memory, with the default options: for tests, and for what nobody
    /// needs after the program has ended. See [`Options::create_in_memory`].
    ///
    /// ```
    /// use hedgerow::lsm::{Db, Readable};
    /// let db = Db::create_in_memory()?;
    /// let people = db.keyspace("people", Default::default())?;
    /// db.put(&people, b"1", b"Ada")?;
    /// assert_eq!(db.get(&people, b"1")?.as_deref(), Some(&b"Ada"[..]));
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the system refuses.
    pub fn create_in_memory() -> Result<Self> {
        Options::new().create_in_memory()
    }

    /// Opens the store in a directory, with the default options.
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
    /// there, and unless a flush failed it never will be. [`Error::Io`] also if the batch puts
    /// something and the disk is nearly full; one that only deletes is still taken.
    /// [`Error::Poisoned`] if a flush failed earlier: open the store anew; what failed then may be
    /// there, as a whole.
    /// [`Error::NoTable`] if a keyspace was dropped, [`Error::Argument`] if one is of another
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
                self.inner.commit(batch, durability, None)
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

    /// Deletes all keys of a range. The cost does not depend on their number.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete_range(&self, keyspace: &Keyspace, keys: impl KeyRange) -> Result<()> {
        let mut batch = Batch::new();
        batch.delete_range(keyspace, keys)?;
        self.write(batch)
    }

    /// The number of the newest commit: of its last operation, each of which has a number of its
    /// own.
    pub fn newest_commit(&self) -> u64 {
        self.inner.clock.visible.load(Ordering::Acquire)
    }

    /// Sixteen random bytes that were drawn when they were first asked for, and are kept in the
    /// file `IDENTITY`: no other store has them, but its copies.
    ///
    /// # Errors
    /// [`Error::Io`] if that file cannot be read or written, [`Error::Corrupt`] if it holds
    /// something else.
    pub fn id(&self) -> Result<[u8; 16]> {
        identity::of(&self.inner.directory)
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
        let path = &self.inner.directory.path;
        within(Work::LSM_COMPACT, path, || self.inner.compact())?;
        self.inner.background.went_well();
        tell(path, || Work::LSM_COMPACT.done());
        Ok(())
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

    /// Closes the store: ends its threads and hands everything to stable storage. It does not wait
    /// for a merge in the background: that ends where it is, and is begun anew when the store is
    /// open again and written to. Only if merging is far behind is one done before. While there are
    /// other clones of the handle, everything that was committed is handed to stable storage, and
    /// the store stays open: so a [`Db::compact`] that another thread has called is done first.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn close(self) -> Result<()> {
        let Self { inner, open } = self;
        match Arc::into_inner(open) {
            Some(open) => open.close(),
            None => inner.settle(Durability::Durable),
        }
    }
}

impl Sealed for Db {
    fn store(&self) -> u64 {
        self.inner.catalog.store
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn view(&self) -> View {
        View::now(&self.inner)
    }
}

impl Readable for Db {}
