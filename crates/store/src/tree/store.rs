//! An open store: what its transactions share, beginning transactions, and questions about the
//! store as a whole. Opening and creating stand in `open`, committing in `commit` and `group`.

use std::path::Path;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use super::catalog::Opened;
use super::combine::Combiner;
use super::commit::SharedSlots;
use super::flush::Flusher;
use super::group::{Group, Queue, Turn, Wait};
use super::log::LogHints;
use super::meta::{FreeRun, META_LEN, Meta, SnapshotMeta};
use super::options::{Paths, max_pages};
use super::page_ref::PageNo;
use super::pages::PageFile;
use super::recover::META_SLOTS;
use super::registry::Registered;
use super::txn::sizes::KEY_MAX;
use super::words::{
    NOT_PINNED, WORD_DURABLE, WORD_LATEST, WORD_MAX_SIZE, WORD_POISON, number_of, slot_of, word_of,
};
use super::{Builder, ReadTxn, Reader, WriteTxn};
use crate::Durability;
use crate::canary::{Bug, is_planted};
use crate::os::SharedLock;
use crate::sync::atomic::{AtomicBool, AtomicU32};
use crate::sync::{Mutex, locked};
use crate::{Error, Result};

/// What one commit of this process leaves for the next one, which would come out the same without.
#[derive(Default)]
pub(crate) struct Hints {
    /// The state of its transaction, by the number of the commit: other processes commit too.
    pub(crate) kept: Mutex<Option<Box<Group>>>,
    /// Where the next search for free space begins.
    pub(crate) free: AtomicU32,
    /// The page after the last one that was written.
    pub(crate) written: AtomicU32,
    /// Whether it was not durable, as the next one is expected not to be, either; before the first
    /// one, whether the store's durability is another.
    pub(crate) unsynced: AtomicBool,
    /// The meta pages, for records that are not flushed.
    pub(crate) slots: Mutex<SharedSlots>,
    /// The log.
    pub(crate) log: Mutex<LogHints>,
}

impl Hints {
    /// Notes a commit that is about to be published.
    pub(crate) fn note(&self, free: PageNo, written: PageNo, durable: bool) {
        self.free.store(free, Relaxed);
        self.written.store(written, Relaxed);
        self.unsynced.store(!durable, Relaxed);
    }
}

/// What all handles and transactions of an open store share.
pub(crate) struct Inner {
    pub(crate) options: Builder,
    pub(crate) paths: Paths,
    pub(crate) pages: Arc<PageFile>,
    pub(crate) queue: Queue<Box<Group>>,
    pub(crate) combiner: Combiner<WriteTxn>,
    /// Its holder may write meta pages, if the value says that this process has the writer's lock.
    pub(crate) meta_turn: Mutex<bool>,
    pub(crate) flusher: Flusher,
    pub(crate) hints: Hints,
    readers: Mutex<Readers>,
    poison: OnceLock<String>,
    pub(crate) lock: Arc<dyn SharedLock>,
    // Last, so that a new opening of the file begins when everything above is closed.
    pub(crate) registered: OnceLock<Registered>,
}

/// What beginning a read transaction needs.
struct Readers {
    /// The newest commit that this process knows.
    newest: Arc<SnapshotMeta>,
    /// Slots of the shared table that this process owns and does not use.
    rested: Vec<Rested>,
}

/// A reader's slot, and what the last one in it knew.
struct Rested {
    slot: u32,
    /// The number of the commit that it read.
    commit: u64,
    /// The tables that it had open.
    opened: Opened,
}

impl Inner {
    /// A store whose shared words are set. `newest` is any commit of it.
    pub(crate) fn new(
        options: Builder,
        paths: Paths,
        pages: Arc<PageFile>,
        lock: Arc<dyn SharedLock>,
        newest: SnapshotMeta,
    ) -> Self {
        let unsynced = options.durability != Durability::Durable;
        Self {
            options,
            paths,
            pages,
            queue: Queue::new(),
            combiner: Combiner::new(),
            meta_turn: Mutex::new(false),
            flusher: Flusher::default(),
            hints: Hints { unsynced: AtomicBool::new(unsynced), ..Hints::default() },
            readers: Mutex::new(Readers { newest: Arc::new(newest), rested: Vec::new() }),
            poison: OnceLock::new(),
            lock,
            registered: OnceLock::new(),
        }
    }

    /// The newest commit. Costs a load if this process made it or has seen it before.
    pub(crate) fn newest(&self) -> Result<Arc<SnapshotMeta>> {
        let mut readers = locked(&self.readers);
        let latest = self.lock.word(WORD_LATEST);
        let mut word = latest.load(SeqCst);
        while number_of(word) != readers.newest.meta.txn {
            // Another process has committed.
            let slot = slot_of(word);
            let read = self.read_meta(slot);
            let now = latest.load(SeqCst);
            match read {
                Ok(meta) if meta.txn == number_of(word) => {
                    self.pages.forget_checked();
                    readers.newest = Arc::new(SnapshotMeta { meta, slot });
                }
                // Two commits later the page may be written again while it is read.
                _ if now != word => {}
                Ok(_) => return Err(self.pages.corrupt(slot, "not the meta record it should be")),
                Err(error) => return Err(error),
            }
            word = now;
        }
        Ok(Arc::clone(&readers.newest))
    }

    /// The record in a meta page, for one that other processes may write.
    pub(crate) fn read_meta(&self, slot: u32) -> Result<Meta> {
        let mut bytes = vec![0; META_LEN];
        let offset = u64::from(slot) * self.pages.page_size() as u64;
        let read = self.pages.file.read_at(&mut bytes, offset);
        read.map_err(|e| Error::io("read a meta page of", &self.pages.path, e))?;
        let meta = Meta::decode(&bytes, slot)
            .map_err(|_| self.pages.corrupt(slot, "a meta record that cannot be read"))?;
        // Other processes write it, and the map must not be read beyond the end of the file.
        let fits = meta.page_size as usize == self.pages.page_size();
        if fits && meta.file_len() <= self.file_len()? {
            return Ok(meta);
        }
        Err(self.pages.corrupt(slot, "a meta record that does not fit the file"))
    }

    /// Takes over a commit of this process and makes it the newest one for all. Gives the list of
    /// free runs of the previous commit back if it is not being read.
    pub(crate) fn set_newest(&self, newest: SnapshotMeta) -> Vec<FreeRun> {
        let word = word_of(newest.meta.txn, newest.slot);
        // Under the lock, so that readers of this process never see one without the other.
        let mut readers = locked(&self.readers);
        let mut list = Vec::new();
        match Arc::get_mut(&mut readers.newest) {
            Some(place) => {
                list = std::mem::take(&mut place.meta.recent);
                *place = newest;
            }
            None => readers.newest = Arc::new(newest),
        }
        self.lock.word(WORD_LATEST).store(word, SeqCst);
        self.lock.ring();
        list
    }

    /// Pins the newest commit in the shared table of readers. Answers the slot, and the tables that
    /// an earlier reader of that commit has left open.
    pub(crate) fn pin(&self) -> Result<(Arc<SnapshotMeta>, u32, Opened)> {
        let (known, rested) = {
            let mut readers = locked(&self.readers);
            (Arc::clone(&readers.newest), readers.rested.pop())
        };
        let Rested { slot, commit, opened } = match rested {
            Some(rested) => rested,
            None => {
                let taken = self.lock.take_slot();
                let slot =
                    taken.map_err(|e| Error::io("take a reader slot in", &self.paths.lock, e))?;
                Rested { slot, commit: 0, opened: Opened::default() }
            }
        };
        match self.pin_in(slot, &known) {
            Ok(newer) => {
                let newest = newer.unwrap_or(known);
                let is_same = newest.meta.txn == commit;
                Ok((newest, slot, if is_same { opened } else { Opened::default() }))
            }
            Err(error) => {
                locked(&self.readers).rested.push(Rested { slot, commit, opened });
                Err(error)
            }
        }
    }

    /// Pins the newest commit in a slot; `None` if it is the one that the caller knows. After an
    /// error the slot pins nothing.
    pub(crate) fn pin_in(
        &self,
        slot: u32,
        known: &SnapshotMeta,
    ) -> Result<Option<Arc<SnapshotMeta>>> {
        let word = self.lock.slot_word(slot);
        let (mut number, mut newest) = (known.meta.txn, None);
        loop {
            if self.latest_number() != number {
                let found = self.newest().and_then(|newest| self.visible(newest));
                let found = found.inspect_err(|_| word.store(NOT_PINNED, SeqCst))?;
                number = found.meta.txn;
                newest = Some(found);
            }
            // A writer that publishes after this store sees the pin when it looks for pages to
            // reuse; one that published before it is seen by the load.
            word.store(number, SeqCst);
            if self.latest_number() == number || is_planted(Bug::UncheckedPin) {
                return Ok(newest);
            }
        }
    }

    /// Has a slot pin, in place of commit `from`, commit `to`, which a pin of `from` keeps. False
    /// if there is a newer commit than `from`: then that pin may be gone, and the caller has to
    /// look again before it reads anything.
    pub(crate) fn move_slot(&self, slot: u32, from: u64, to: u64) -> bool {
        // As in `pin_in`: a writer that publishes a commit without the pin after this store leaves
        // the next one to see the slot.
        self.lock.slot_word(slot).store(to, SeqCst);
        self.latest_number() == from
    }

    /// Refuses a commit of another process that is larger than what this process can see.
    pub(crate) fn visible(&self, newest: Arc<SnapshotMeta>) -> Result<Arc<SnapshotMeta>> {
        if newest.meta.end <= self.pages.max_pages() {
            return Ok(newest);
        }
        let reason = "it has grown beyond the address space that was reserved for it; open it with \
                      `map(false)`";
        Err(Error::Unsupported { path: self.pages.path.clone(), reason: reason.into() })
    }

    /// Lets the snapshot of a slot go; false in a child process after a fork, where it is the
    /// parent's.
    pub(crate) fn rest(&self, slot: u32) -> bool {
        let is_ours = self.lock.is_same_process();
        if is_ours {
            // A writer that sees it later reuses less.
            self.lock.slot_word(slot).store(NOT_PINNED, Release);
        }
        is_ours
    }

    /// Lets the snapshot of a commit go and keeps the slot, and the tables, for the next reader.
    pub(crate) fn unpin(&self, slot: u32, commit: u64, mut opened: Opened) {
        if self.rest(slot) {
            opened.rest();
            locked(&self.readers).rested.push(Rested { slot, commit, opened });
        }
    }

    /// The number of the newest commit.
    pub(crate) fn latest_number(&self) -> u64 {
        number_of(self.lock.word(WORD_LATEST).load(SeqCst))
    }

    /// The number of the newest commit on stable storage.
    pub(crate) fn durable_number(&self) -> u64 {
        number_of(self.lock.word(WORD_DURABLE).load(SeqCst))
    }

    /// Whether a meta page holds the newest or the newest durable commit.
    pub(crate) fn is_slot_in_use(&self, slot: u32) -> bool {
        [WORD_LATEST, WORD_DURABLE].iter().any(|w| slot_of(self.lock.word(*w).load(SeqCst)) == slot)
    }

    /// A meta page that holds neither of the two.
    pub(crate) fn free_slot(&self) -> u32 {
        (0..META_SLOTS).find(|slot| !self.is_slot_in_use(*slot)).unwrap_or(0)
    }

    /// Adds the snapshots whose pages must not be written to a list, but for those of the pins.
    pub(crate) fn add_protected(&self, protected: &mut Vec<u64>) {
        protected.extend([self.latest_number(), self.durable_number()]);
        self.lock.for_each_pinned(&mut |snapshot| protected.push(snapshot));
    }

    /// The length of the data file.
    pub(crate) fn file_len(&self) -> Result<u64> {
        let len = self.pages.file.len();
        len.map_err(|e| Error::io("read the length of", &self.pages.path, e))
    }

    /// Refuses use in a child process after a fork.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.lock.is_same_process() {
            return Ok(());
        }
        let reason = "a store cannot be used across a fork; open it in the child".into();
        Err(Error::Locked { path: self.paths.lock.clone(), reason })
    }

    /// Refuses writing where it is not allowed, or not any more.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.check_process()?;
        if let Some(reason) = self.poison.get() {
            return Err(Error::Poisoned { reason: reason.clone() });
        }
        if self.lock.word(WORD_POISON).load(SeqCst) != 0 {
            return Err(Error::Poisoned { reason: "in another process".into() });
        }
        Ok(())
    }

    /// Refuses all writing from now on, in every process; gives the failure back.
    pub(crate) fn poison(&self, error: Error) -> Error {
        self.lock.word(WORD_POISON).store(1, SeqCst);
        // A second failure is a consequence of the first.
        let _ = self.poison.set(error.to_string());
        error
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.lock.is_same_process() {
            return;
        }
        if self.check_writable().is_ok() {
            // The commits are in the system's cache already; this makes them survive a power cut.
            // No caller is left to report a failure to.
            let flushed = if self.durable_number() < self.latest_number() {
                self.checkpoint(true, Wait::Ever)
            } else {
                Ok(())
            };
            let _ = flushed.and_then(|()| self.note_clean_close());
        }
        for Rested { slot, .. } in locked(&self.readers).rested.drain(..) {
            self.lock.give_slot(slot);
        }
    }
}

/// An open store. Cheap to clone; may be used from any number of threads.
///
/// When the last clone and the last transaction are dropped, the store is closed before `drop`
/// returns: what is not on stable storage yet is flushed, and the file may be removed or moved.
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
        // store is closed by the one who drops its last handle, and not some time later.
        if !self.inner.lock.is_same_process() || !self.inner.flusher.remove_handle() {
            return;
        }
        // Transactions may keep the store open for long: what the thread had yet to flush. A
        // failure has poisoned the store.
        if Arc::strong_count(&self.inner) > 1 {
            let _ = self.inner.sync();
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
        locked(&self.inner.readers).newest.meta.id
    }

    /// The data file.
    pub fn path(&self) -> &Path {
        &self.inner.paths.data
    }

    /// The page size in bytes.
    pub fn page_size(&self) -> u32 {
        self.inner.pages.page_size() as u32
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

#[cfg(test)]
#[path = "store/tests.rs"]
mod tests;
