//! What all handles and transactions of an open store share: the newest commit, the readers' slots,
//! and what one commit leaves for the next one.

use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::canary::{Bug, is_planted};
use crate::os::SharedLock;
use crate::sync::atomic::{AtomicBool, AtomicU32};
use crate::sync::{Mutex, locked};
use crate::tree::catalog::Opened;
use crate::tree::combine::Combiner;
use crate::tree::commit::SharedSlots;
use crate::tree::flush::Flusher;
use crate::tree::group::{Group, Queue, Wait};
use crate::tree::log::LogHints;
use crate::tree::meta::{FreeRun, META_LEN, Meta, SnapshotMeta};
use crate::tree::options::{Builder, Paths};
use crate::tree::page_ref::PageNo;
use crate::tree::pages::PageFile;
use crate::tree::recover::META_SLOTS;
use crate::tree::txn::WriteTxn;
use crate::tree::words::{
    NOT_PINNED, WORD_DURABLE, WORD_LATEST, WORD_POISON, number_of, slot_of, word_of,
};
use crate::{Durability, Error, Result};

/// How long a close waits for a transaction of another process before it makes commits durable
/// that are not: longer than most transactions take, and hardly noticed by an application.
const CLOSING: Duration = Duration::from_millis(100);

/// The wait of a close that begins now.
pub(super) fn wait_of_close() -> Wait {
    Wait::Until(Instant::now() + CLOSING)
}

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
    pub(crate) lock: Arc<SharedLock>,
    /// What ends the store's entry in the list of open files. Last, so that a new opening of the
    /// file begins when everything above is closed.
    pub(crate) registered: OnceLock<Box<dyn Send + Sync>>,
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
        lock: Arc<SharedLock>,
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
        while word != word_of(readers.newest.meta.txn, readers.newest.slot) {
            // Another process has committed, or has noted at closing that the log is shut.
            let slot = slot_of(word);
            let read = self.read_meta(slot);
            let now = latest.load(SeqCst);
            match read {
                Ok(meta) if meta.txn == number_of(word) => {
                    if meta.txn != readers.newest.meta.txn {
                        self.pages.forget_checked();
                    }
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
        let reason = "it has grown beyond the address space that this process has for it; open it \
                      again, or with `map(false)`";
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
        self.lock.for_each_pinned(|snapshot| protected.push(snapshot));
    }

    /// The store's own bytes, as its meta records have them.
    pub(super) fn id(&self) -> [u8; 16] {
        locked(&self.readers).newest.meta.id
    }

    /// The length of the data file.
    pub(crate) fn file_len(&self) -> Result<u64> {
        self.pages.len()
    }

    /// How many bytes the file system of the store has left, if it says so.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.options.system_in_use().free_bytes(&self.paths.data)
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
            // No caller is left to report a failure to. A process that keeps the writer's lock for
            // longer makes them durable later: by a durable commit, or when it closes the store.
            let flushed = if self.durable_number() < self.latest_number() {
                self.checkpoint(true, wait_of_close())
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
