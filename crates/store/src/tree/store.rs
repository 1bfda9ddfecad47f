//! An open store: beginning transactions, and questions about the store as a whole. What its
//! transactions share stands in `inner`, opening and creating in `open`, committing in `commit` and
//! `group`.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, SystemTime};

use super::group::{Turn, Wait};
use super::options::max_pages;
use super::txn::sizes::KEY_MAX;
use super::words::WORD_MAX_SIZE;
use super::{Builder, ReadTxn, Reader, WriteTxn};
#[cfg(doc)]
use crate::Error;
use crate::{Durability, Result};

mod inner;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use inner::Inner;

/// An open store. Cheap to clone; may be used from any number of threads.
///
/// When the last clone and the last transaction are dropped, the store is closed before `drop`
/// returns: what is not on stable storage yet is flushed, and the file may be removed or moved. If
/// another process has a transaction open that takes longer than 100 ms, `drop` does not wait for
/// it: commits without a flush become durable with the next durable commit of that process, or when
/// it closes the store.
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

impl Store {
    /// A handle of an open store.
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        inner.flusher.add_handle();
        Self { inner }
    }
}

impl Clone for Store {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.inner))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // The background thread owns the store during a flush. It is waited for, so that the
        // store is closed by the thread that drops its last handle, and not some time later.
        if !self.inner.lock.is_same_process() || !self.inner.flusher.remove_handle() {
            return;
        }
        // Transactions may keep the store open for long: what the thread had yet to flush. A
        // failure has poisoned the store; what a writer in another process keeps from becoming
        // durable now is seen to when the store is closed.
        if Arc::strong_count(&self.inner) > 1 {
            let _ = self.inner.checkpoint(false, inner::wait_of_close());
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// A flag that stops long work: raise it from any thread or a signal handler and running
/// operations of the store return [`Error::Interrupted`](crate::Error::Interrupted).
#[derive(Clone, Debug, Default)]
pub struct Interrupt(pub(crate) Arc<std::sync::atomic::AtomicBool>);

impl Interrupt {
    /// Raises or lowers the flag. Async-signal-safe.
    pub fn set(&self, raised: bool) {
        self.0.store(raised, Relaxed);
    }
    /// Whether it is raised.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }
}

impl Store {
    /// Tells all processes that have the store open of a size that the file may have. The greatest
    /// one counts, and it is forgotten when all of them have closed the store. It limits nothing by
    /// itself; see [`Store::shared_max_size`].
    pub fn share_max_size(&self, bytes: u64) {
        self.inner.lock.word(WORD_MAX_SIZE).fetch_max(bytes, SeqCst);
    }

    /// The greatest size that any process has shared, for a process that has no size of its own to
    /// set with [`WriteTxn::set_max_size`](crate::tree::WriteTxn::set_max_size).
    pub fn shared_max_size(&self) -> Option<u64> {
        Some(self.inner.lock.word(WORD_MAX_SIZE).load(SeqCst)).filter(|bytes| *bytes > 0)
    }

    /// Gives the store a maximum size, or takes it away: kept in the file, it holds for all
    /// processes, now and later, in addition to the limit that each of them was opened with
    /// ([`Builder::max_size`]). Whole pages count. Durable when this returns.
    ///
    /// # Errors
    /// [`Error::Argument`] if the store holds more than that; those of
    /// [`Store::begin_write`] and [`WriteTxn::commit`].
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// store.set_max_size(Some(64 << 20))?;
    /// assert_eq!(store.stat()?.max_size, Some(64 << 20));
    /// # Ok(()) }
    /// ```
    pub fn set_max_size(&self, bytes: Option<u64>) -> Result<()> {
        let mut txn = self.begin_write_alone()?;
        txn.keep_max_pages(bytes.map_or(0, |bytes| max_pages(bytes, self.page_size())))?;
        txn.commit_with(Durability::Durable)
    }

    /// How to open or create a store with other options than the default ones.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Creates a store with the default options; the path must not exist or be an empty folder.
    ///
    /// # Errors
    /// [`Error::Path`] if there is a store already.
    pub fn create(path: impl AsRef<Path>) -> Result<Store> {
        Builder::new().create(path)
    }

    /// Creates a store that lies in memory, with the default options: for tests, and for what
    /// nobody needs after the program has ended. See [`Builder::create_in_memory`].
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// use hedgerow::tree::{Snapshot, Store, TableOptions};
    /// let store = Store::create_in_memory()?;
    /// store.write(|txn| {
    ///     let table = txn.create_table("t", &TableOptions::new())?;
    ///     txn.put(table, b"key", b"value")
    /// })?;
    /// let txn = store.begin_read()?;
    /// assert_eq!(txn.get(txn.table("t")?, b"key")?.unwrap(), b"value"[..]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses.
    pub fn create_in_memory() -> Result<Store> {
        Builder::new().create_in_memory()
    }

    /// Opens a store that exists.
    ///
    /// # Errors
    /// [`Error::Path`] if there is none, [`Error::NotAStore`], [`Error::Unsupported`] or
    /// [`Error::Corrupt`] if the file is something else, newer, or damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        Builder::new().open(path)
    }

    /// Takes a snapshot of the newest commit.
    ///
    /// # Errors
    /// Rare errors of the system: no memory for the table of readers, a fork.
    pub fn begin_read(&self) -> Result<ReadTxn> {
        ReadTxn::begin(&self.inner)
    }

    /// Begins a write transaction. Waits for other writers, of this process and of others, until it
    /// gets its turn or the [interruption flag](Store::interrupt) is raised. A thread that already
    /// has a write transaction would wait for ever.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Poisoned`] after a failed flush, or [`Error::Interrupted`]
    /// while it waits.
    pub fn begin_write(&self) -> Result<WriteTxn> {
        match Turn::begin(&self.inner, Wait::Ever)? {
            Some(turn) => Ok(WriteTxn::new(turn)),
            None => unreachable!("a writer that waited came without its turn"),
        }
    }

    /// Begins a write transaction; `None` if there is another writer.
    ///
    /// # Errors
    /// As [`Store::begin_write`].
    pub fn try_begin_write(&self) -> Result<Option<WriteTxn>> {
        Ok(Turn::begin(&self.inner, Wait::No)?.map(WriteTxn::new))
    }

    /// Begins a write transaction; `None` if it does not get its turn within that time.
    ///
    /// # Errors
    /// As [`Store::begin_write`].
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use std::time::Duration;
    /// match store.begin_write_within(Duration::from_secs(1))? {
    ///     Some(txn) => txn.commit()?,
    ///     None => eprintln!("process {:?} writes", store.writer()),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn begin_write_within(&self, time: Duration) -> Result<Option<WriteTxn>> {
        let end = std::time::Instant::now().checked_add(time);
        let wait = end.map_or(Wait::Ever, Wait::Until);
        Ok(Turn::begin(&self.inner, wait)?.map(WriteTxn::new))
    }

    /// The number of the process that has a write transaction open now, which may be this one.
    pub fn writer(&self) -> Option<u32> {
        self.inner.lock.writer()
    }

    /// Whether a transaction of this process has the writer's turn. A flush in the background takes
    /// it for a short time, too.
    #[doc(hidden)]
    pub fn is_writing(&self) -> bool {
        self.inner.queue.is_writing()
    }

    /// Begins a write transaction that becomes a commit of its own: committing does not wait for a
    /// transaction of another thread, and the transaction does not see changes that another one has
    /// handed over. For callers whose threads may, inside of a transaction, wait for another
    /// thread's commit to return.
    ///
    /// # Errors
    /// As [`Store::begin_write`].
    pub fn begin_write_alone(&self) -> Result<WriteTxn> {
        Turn::begin_alone(&self.inner).map(WriteTxn::new)
    }

    /// As [`Store::begin_write_alone`]; `None` if it does not get its turn within that time.
    ///
    /// # Errors
    /// As [`Store::begin_write`].
    pub fn begin_write_alone_within(&self, time: Duration) -> Result<Option<WriteTxn>> {
        let end = std::time::Instant::now().checked_add(time);
        let wait = end.map_or(Wait::Ever, Wait::Until);
        Ok(Turn::begin_alone_within(&self.inner, wait)?.map(WriteTxn::new))
    }

    /// Frees the reader slots of processes that died, and returns how many there were. Writers do
    /// this from time to time by themselves.
    ///
    /// # Errors
    /// [`Error::Locked`] after a fork.
    pub fn clear_dead_readers(&self) -> Result<usize> {
        self.inner.check_process()?;
        Ok(self.inner.lock.readers().1)
    }

    /// Makes all commits so far durable. May wait for a writer of another process.
    ///
    /// # Errors
    /// [`Error::Io`] if the flush failed; the store takes no more writes then.
    /// [`Error::Interrupted`] while it waits.
    pub fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    /// How many threads of this process wait to begin a write transaction, so that a test can make
    /// them form a group of commits.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn writers_waiting(&self) -> usize {
        self.inner.queue.waiting()
    }

    /// The live read transactions of all processes, in no particular order.
    ///
    /// # Errors
    /// [`Error::Locked`] after a fork.
    pub fn readers(&self) -> Result<Vec<Reader>> {
        self.inner.check_process()?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (slots, _) = self.inner.lock.readers();
        let reader = |slot: crate::os::ReaderSlot| Reader {
            process: slot.process,
            thread: slot.thread,
            commit: slot.snapshot,
            age: now.saturating_sub(Duration::from_nanos(slot.since_unix_ns)),
        };
        Ok(slots.into_iter().map(reader).collect())
    }

    /// The flag that interrupts long operations on this store.
    pub fn interrupt(&self) -> Interrupt {
        Interrupt(Arc::clone(&self.inner.pages.interrupt))
    }

    /// The number of the newest commit, of this or another process.
    pub fn newest_commit(&self) -> u64 {
        self.inner.latest_number()
    }

    /// Sleeps until there is a newer commit than `commit`, of this or another process, at most
    /// `most` (`None`: without limit); returns whether there is one. A writer wakes all that wait,
    /// within some ten microseconds on Linux and a millisecond elsewhere; where no process waits,
    /// that costs it nothing.
    ///
    /// The newer commit may not be on stable storage yet: [`Store::sync`] waits for that.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use std::time::Duration;
    /// let seen = store.newest_commit();
    /// assert!(!store.wait_for_commit(seen, Some(Duration::from_millis(1)))?);
    /// store.pin("one more commit")?;
    /// assert!(store.wait_for_commit(seen, None)?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Locked`] after a fork; [`Error::Interrupted`] within a fifth of a second.
    pub fn wait_for_commit(&self, commit: u64, most: Option<Duration>) -> Result<bool> {
        self.inner.check_process()?;
        let is_newer = || self.inner.latest_number() > commit;
        let is_over = || is_newer() || self.inner.pages.interrupted().is_err();
        if self.inner.lock.wait_for_ring(&is_over, most) && !is_newer() {
            self.inner.pages.interrupted()?;
        }
        Ok(is_newer())
    }

    /// Sixteen random bytes that were drawn when the store was created: no other store has them,
    /// but its copies.
    pub fn id(&self) -> [u8; 16] {
        self.inner.id()
    }

    /// The data file; `:memory:`, which no file has to have, of a store that lies in memory.
    pub fn path(&self) -> &Path {
        &self.inner.paths.data
    }

    /// Whether the store lies in memory ([`Store::create_in_memory`]), and not in a file.
    pub fn is_in_memory(&self) -> bool {
        self.inner.options.is_in_memory()
    }

    /// The data file as the system knows it, open as long as the store, for programs that lock it
    /// or ask whether it is still the one at its path; `None` on a simulated disk.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.pages.file.descriptor()
    }

    /// The page size in bytes.
    pub fn page_size(&self) -> u32 {
        self.inner.pages.page_size() as u32
    }

    /// The maximum size with which the store was opened, if that was said.
    #[doc(hidden)]
    pub fn opened_max_size(&self) -> Option<u64> {
        self.inner.options.max_size
    }

    /// False in a child process after a fork: there the store has to be opened anew.
    #[inline]
    pub fn is_of_this_process(&self) -> bool {
        self.inner.lock.is_same_process()
    }

    /// Whether the store was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.inner.options.read_only
    }

    /// The longest key of a table in bytes; that of a table with a custom order may have a GiB.
    pub fn max_key_size(&self) -> usize {
        KEY_MAX
    }

    /// The longest value of a table with duplicates in bytes.
    pub fn max_duplicate_size(&self) -> usize {
        self.page_size() as usize / 8
    }
}
