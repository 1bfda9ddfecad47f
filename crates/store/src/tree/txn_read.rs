//! Read transactions: taking, renewing and letting go of a snapshot. What they answer stands in
//! `snapshot`.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::Snapshot;
use super::catalog::Opened;
use super::free::{Pinned, pins_of};
use super::meta::SnapshotMeta;
use super::order::Form;
use super::pages::ReadPages;
use super::snapshot::sealed::Sealed;
use super::store::Inner;
use super::tree::Tree;
use crate::Result;

/// A number that no other transaction of this process has: handles and cursors carry it. A thread
/// takes some at a time, so that short transactions of many threads do not wait for one counter.
pub(crate) fn unique() -> u64 {
    const AT_A_TIME: u64 = 64;
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static TAKEN: Cell<Range<u64>> = const { Cell::new(0..0) };
    }
    TAKEN.with(|taken| {
        let mut own = taken.take();
        let number = own.next().unwrap_or_else(|| {
            let first = NEXT.fetch_add(AT_A_TIME, Relaxed);
            own = first + 1..first + AT_A_TIME;
            first
        });
        taken.set(own);
        number
    })
}

/// A snapshot of the store. It is owned, `Send` and `Sync`, and beginning one costs only a few
/// loads and stores.
pub struct ReadTxn {
    pub(crate) pages: ReadPages,
    pub(crate) meta: Arc<SnapshotMeta>,
    /// New at each begin and renewal; 0 while the transaction is reset.
    pub(crate) unique: u64,
    /// What that was before the reset.
    unique_before: u64,
    pub(crate) opened: Opened,
    slot: u32,
    // Last, so that it is dropped last.
    pub(crate) store: Arc<Inner>,
}

impl ReadTxn {
    pub(crate) fn begin(store: &Arc<Inner>) -> Result<Self> {
        store.check_process()?;
        let (meta, slot, opened) = store.pin()?;
        Ok(Self {
            pages: ReadPages::new(Arc::clone(&store.pages), meta.meta.end),
            meta,
            unique: unique(),
            unique_before: 0,
            opened,
            slot,
            store: Arc::clone(store),
        })
    }

    /// The snapshots whose pages must not be written, ascending.
    pub(crate) fn protected(&self) -> Result<Vec<u64>> {
        let pins = pins_of(&self.pages, self.meta.meta.free.pins)?;
        let mut protected = pins.into_iter().map(|(_, pinned)| pinned.commit).collect();
        self.store.add_protected(&mut protected);
        protected.sort_unstable();
        Ok(protected)
    }

    /// Goes over from the newest commit to one that it has a pin of; false if the snapshot is no
    /// longer that of the newest commit: then it has to be renewed before it is used.
    pub(crate) fn go_to(&mut self, pinned: &Pinned) -> bool {
        let meta = pinned.meta(&self.meta.meta);
        if !self.store.move_slot(self.slot, self.meta.meta.txn, meta.txn) {
            return false;
        }
        self.pages.renew(meta.end);
        self.meta = Arc::new(SnapshotMeta { meta, slot: self.meta.slot });
        self.opened = Opened::default();
        self.unique = unique();
        true
    }

    /// The number of the commit it reads.
    pub fn id(&self) -> u64 {
        self.meta.meta.txn
    }

    /// Pages of the store up to the end of the last one, of every kind and free.
    pub fn page_count(&self) -> u64 {
        u64::from(self.meta.meta.end)
    }

    /// Those of [`ReadTxn::page_count`] that the snapshot does not use: free ones, and ones that
    /// only older snapshots use. Nothing is read for it.
    pub fn free_pages(&self) -> u64 {
        let meta = &self.meta.meta;
        let recent = meta.recent.iter().map(|freed| u64::from(freed.run.len));
        let free = meta.free.ready.saturating_add(meta.free.pending);
        recent.fold(free, u64::saturating_add).min(self.page_count())
    }

    /// Lets the snapshot go but keeps the slot, for a cheap [`ReadTxn::renew`]. Handles become
    /// invalid: until the renewal every use of the transaction is an
    /// [`Error::WrongTransaction`](crate::Error::WrongTransaction).
    pub fn reset(&mut self) {
        if self.invalidate() {
            self.store.rest(self.slot);
            self.pages.clear();
        }
    }

    /// Handles and cursors become invalid; says whether they were not.
    fn invalidate(&mut self) -> bool {
        let was_valid = self.unique != 0;
        if was_valid {
            self.unique_before = std::mem::take(&mut self.unique);
        }
        was_valid
    }

    /// Takes the newest snapshot. Earlier handles and cursors become invalid.
    ///
    /// # Errors
    /// If the newest commit is another process's and its record cannot be read, or it is larger
    /// than the address space that was reserved; and in a child process after a fork. The
    /// transaction is reset then.
    pub fn renew(&mut self) -> Result<()> {
        if self.refresh()? {
            // The tables are as they were, and need not be looked up again.
            self.opened.rest();
            self.pages.clear();
            self.unique = unique();
        }
        Ok(())
    }

    /// Takes the newest snapshot, as [`ReadTxn::renew`] does, and says whether it is the snapshot
    /// that the transaction had, also before a reset. If so, nothing was committed, and handles and
    /// cursors stay valid.
    ///
    /// ```
    /// # use hedgerow::tree::{Snapshot, Store, TableOptions};
    /// # let folder = tempfile::tempdir()?;
    /// # let store = Store::create(folder.path().join("store"))?;
    /// # let mut txn = store.begin_write()?;
    /// # txn.create_table("fruit", &TableOptions::new())?;
    /// # txn.commit()?;
    /// let mut reader = store.begin_read()?;
    /// let mut fruit = reader.table("fruit")?;
    /// for _ in 0..10 {
    ///     if !reader.refresh()? {
    ///         fruit = reader.table("fruit")?; // there is something new
    ///     }
    ///     assert!(reader.get(fruit, b"apple")?.is_none());
    ///     reader.reset(); // until the next look it keeps no pages from writers
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`ReadTxn::renew`].
    pub fn refresh(&mut self) -> Result<bool> {
        self.invalidate();
        self.store.check_process()?;
        let newer = self.store.pin_in(self.slot, &self.meta)?;
        let is_same = newer.is_none();
        if let Some(newer) = newer {
            self.pages.renew(newer.meta.end);
            self.opened = Opened::default();
            self.meta = newer;
        }
        self.unique = if is_same { self.unique_before } else { unique() };
        Ok(is_same)
    }
}

impl Sealed for ReadTxn {
    const WRITES: bool = false;
    type Source = ReadPages;

    #[inline(always)]
    fn pages(&self) -> &Self::Source {
        &self.pages
    }

    #[inline(always)]
    fn unique(&self) -> u64 {
        self.unique
    }

    #[inline(always)]
    fn changes(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn is_unchanged(&self, _: super::Table, _: u64) -> bool {
        true
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    #[inline(always)]
    fn opened(&self) -> &Opened {
        &self.opened
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn opened_mut(&mut self) -> &mut Opened {
        &mut self.opened
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn catalog(&self) -> Tree {
        Tree::new(self.meta.meta.catalog, Form::PLAIN)
    }
}

impl Snapshot for ReadTxn {}

impl Drop for ReadTxn {
    fn drop(&mut self) {
        let opened = std::mem::take(&mut self.opened);
        self.store.unpin(self.slot, self.meta.meta.txn, opened);
    }
}
