//! Read transactions: taking, renewing and letting go of a snapshot. What they answer stands in
//! `snapshot`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::catalog::Opened;
use super::pages::ReadPages;
use super::store::{Inner, SnapshotMeta, WORD_LATEST, number_of};
use crate::Result;

/// What a reader slot's word says when it pins nothing.
pub(crate) const NOT_PINNED: u64 = u64::MAX;

/// A number that no other transaction of this process has: handles and cursors carry it.
pub(crate) fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// A snapshot of the store. Owned, `Send` and `Sync`; as cheap as a few loads and stores to begin.
pub struct ReadTxn {
    pub(crate) pages: ReadPages,
    pub(crate) meta: Arc<SnapshotMeta>,
    /// New at each begin and renewal; 0 while the transaction is reset.
    pub(crate) unique: u64,
    pub(crate) opened: Opened,
    slot: u32,
    // Last, so that it is dropped last.
    pub(crate) store: Arc<Inner>,
}

impl ReadTxn {
    pub(crate) fn begin(store: &Arc<Inner>) -> Result<Self> {
        store.check_process()?;
        let (meta, slot) = store.pin()?;
        Ok(Self {
            pages: ReadPages::new(Arc::clone(&store.pages), meta.meta.end),
            meta,
            unique: unique(),
            opened: Opened::default(),
            slot,
            store: Arc::clone(store),
        })
    }

    /// The number of the commit it reads.
    pub fn id(&self) -> u64 {
        self.meta.meta.txn
    }

    /// Pages of the store up to the end of the last one, of every kind and free.
    pub fn page_count(&self) -> u64 {
        u64::from(self.meta.meta.end)
    }

    /// Lets the snapshot go but keeps the slot, for a cheap [`ReadTxn::renew`]. Handles become
    /// invalid: until the renewal every use of the transaction is an
    /// [`Error::WrongTransaction`](crate::Error::WrongTransaction).
    pub fn reset(&mut self) {
        self.unique = 0;
        self.store.lock.slot_word(self.slot).store(NOT_PINNED, SeqCst);
    }

    /// Takes the newest snapshot.
    ///
    /// # Errors
    /// If the newest commit is another process's and its record cannot be read; the transaction is
    /// reset then.
    pub fn renew(&mut self) -> Result<()> {
        self.reset();
        self.store.check_process()?;
        let word = self.store.lock.slot_word(self.slot);
        let latest = self.store.lock.word(WORD_LATEST);
        let before = self.meta.meta.txn;
        loop {
            if number_of(latest.load(SeqCst)) != self.meta.meta.txn {
                let newest = self.store.newest();
                self.meta = newest.inspect_err(|_| word.store(NOT_PINNED, SeqCst))?;
            }
            word.store(self.meta.meta.txn, SeqCst);
            if number_of(latest.load(SeqCst)) == self.meta.meta.txn {
                break;
            }
        }
        self.pages.renew(self.meta.meta.end);
        // Where nothing was committed the tables are as they were, and need not be looked up again.
        match before == self.meta.meta.txn {
            true => self.opened.rest(),
            false => self.opened = Opened::default(),
        }
        self.unique = unique();
        Ok(())
    }
}

impl Drop for ReadTxn {
    fn drop(&mut self) {
        self.store.unpin(self.slot);
    }
}
