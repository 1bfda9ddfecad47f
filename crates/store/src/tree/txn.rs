//! The write transaction: its changes, and how they are rolled back or committed.

mod delete;
mod nested;
mod put;
mod reserve;
pub(crate) mod sizes;
#[cfg(test)]
mod tests;
mod value;

pub use nested::Nested;
pub use put::Update;
use sizes::{KEY_MAX, check_duplicate, check_key, check_plain_len, size};
pub use value::ValueWriter;

use super::catalog::{OpenTable, Opened};
use super::group::Turn;
use super::insert::fits_inline;
use super::page_ref::PageRef;
use super::pages::{LAST_PAGES, Pages, WritePages};
use super::remove::clear;
use super::snapshot::sealed::Sealed;
use super::state::{Savepoint, WriteState};
use super::tree::Tree;
use super::txn_read::unique;
use super::{ReadTxn, Snapshot, Table, TableOptions, extent, search, spill};
use crate::{Durability, Error, Result};

/// This many pages of the room in the file are reserved for deletes and for the commit itself: a
/// full store can be emptied, and it is a put that finds the store full, not the commit.
const KEPT_PAGES: u64 = 16 + LAST_PAGES as u64;

/// The one write transaction of a store. Dropped without [`WriteTxn::commit`] it leaves no trace.
///
/// Keys and values that it hands out borrow it, so that they are gone before its next write. If a
/// write fails half-way (a full disk, a damaged page) the transaction can only be dropped: every
/// later call returns [`Error::CommitFailed`]. Errors about arguments change nothing.
pub struct WriteTxn {
    turn: Turn,
    unique: u64,
    /// How often something was changed, and one more.
    changes: u64,
    /// The last change that moved pages of any table: an early write of some, a rollback, a table
    /// that was dropped.
    moved_at: u64,
    /// Why only dropping the transaction, or rolling it back, is left; and its number, which is 0
    /// until then so that nothing half done is read.
    failed: Option<(String, u64)>,
    /// Fewer bytes of changed pages than these are looked at no closer: the budget of memory, the
    /// room in the file, or what may be worth writing early.
    limit: usize,
    /// A long value whose bytes the caller may still be writing.
    reserved: Option<Reserved>,
    /// How many pages of the room in the file puts leave.
    kept: u64,
}

struct Reserved {
    index: usize,
    key: Vec<u8>,
}

impl Sealed for WriteTxn {
    const WRITES: bool = true;
    type Source = WritePages;

    #[inline(always)]
    fn pages(&self) -> &Self::Source {
        &self.turn.state().pages
    }

    #[inline(always)]
    fn unique(&self) -> u64 {
        self.unique
    }

    #[inline(always)]
    fn changes(&self) -> u64 {
        self.changes
    }

    #[inline(always)]
    fn is_unchanged(&self, table: Table, since: u64) -> bool {
        since == self.changes || self.is_unchanged_since(table, since)
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    #[inline(always)]
    fn opened(&self) -> &Opened {
        &self.turn.state().tables
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn opened_mut(&mut self) -> &mut Opened {
        &mut self.turn.state_mut().tables
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn catalog(&self) -> Tree {
        self.turn.state().catalog.clone()
    }

    fn refusal(&self) -> Error {
        match &self.failed {
            Some((reason, _)) => Error::CommitFailed { reason: reason.clone() },
            None => Error::WrongTransaction,
        }
    }
}

impl Snapshot for WriteTxn {}

impl WriteTxn {
    /// Pages below the maximum size that only transactions may take that delete and add nothing.
    pub const LAST_PAGES: u64 = LAST_PAGES as u64;

    pub(crate) fn new(turn: Turn) -> Self {
        let mut txn = Self {
            turn,
            unique: unique(),
            changes: 1,
            moved_at: 1,
            failed: None,
            limit: 0,
            reserved: None,
            kept: KEPT_PAGES,
        };
        txn.set_limit();
        txn
    }

    /// Sets a maximum size of the file for this transaction, in place of the one that the store was
    /// opened with; `None` sets no maximum. The maximum that is kept in the store
    /// ([`Store::set_max_size`](crate::tree::Store::set_max_size)) still holds. The last call
    /// counts. Puts leave the last few pages to deletes and to the commit.
    pub fn set_max_size(&mut self, bytes: Option<u64>) {
        let WriteState { kept, pages, .. } = self.turn.state_mut();
        let (max_pages, max_size) = kept.limits(&pages.base.file, bytes);
        (pages.space.max_pages, pages.space.max_size) = (max_pages, max_size);
        self.set_limit();
    }

    /// Sets how many pages below the maximum size puts leave to deletes and to the commit; the
    /// default is 22. With fewer, a commit may find the store full. The last six
    /// ([`Self::LAST_PAGES`]) are left by every transaction that adds something, so that a delete
    /// still finds new pages for what it changes.
    pub fn leave_pages(&mut self, pages: u64) {
        self.kept = pages;
        self.set_limit();
    }

    /// Whether more free pages are held, by the durable commit or by readers, than are left to this
    /// transaction below its maximum size. After unflushed commits, a
    /// [`Store::sync`](crate::tree::Store::sync) gives the pages of the durable commit to the next
    /// transaction, which may otherwise find the store full.
    pub fn is_short_of_pages(&self) -> bool {
        let state = self.turn.state();
        let space = &state.pages.space;
        let behind = space.usual_end().saturating_sub(state.pages.base.end);
        if behind >= state.pages.base.end || !state.free.has_snapshots() {
            return false;
        }
        let last = u64::from(space.last_pages);
        state.free.held_pages() > state.free.room_pages(&state.pages).saturating_sub(last)
    }

    /// Whether nothing of a table has changed or moved since an earlier change of the transaction.
    fn is_unchanged_since(&self, table: Table, since: u64) -> bool {
        let open = self.turn.state().tables.get(table.index as usize);
        self.moved_at <= since && open.is_some_and(|open| open.changed_at <= since)
    }

    fn set_limit(&mut self) {
        let budget = self.turn.store.options.write_budget;
        let state = self.turn.state();
        let changed = state.pages.changed_bytes();
        // Roots and pages in use are not written early: that is not tried again with each change.
        let most = if changed < budget { budget } else { usize::MAX };
        let next = most.min(changed + spill::behind_bytes(budget));
        let room = state.room_for(next as u64, self.kept);
        self.limit = usize::try_from(room).unwrap_or(next);
    }

    /// The number that its commit will have.
    pub fn id(&self) -> u64 {
        self.turn.state().pages.txn
    }

    /// Pages of the store up to the end of the last one, of every kind and free, with what it has
    /// added so far.
    pub fn page_count(&self) -> u64 {
        u64::from(self.turn.state().pages.base.end)
    }

    /// What every write begins with that may add something.
    #[inline(always)]
    fn begin_change(&mut self) -> Result<()> {
        self.begin(true)
    }

    /// What every delete begins with.
    #[inline(always)]
    fn begin_delete(&mut self) -> Result<()> {
        self.begin(false)
    }

    #[inline(always)]
    fn begin(&mut self, adds: bool) -> Result<()> {
        if self.failed.is_some() || self.reserved.is_some() {
            self.begin_change_slow()?;
        }
        self.changes += 1;
        let state = self.turn.state_mut();
        state.pages.space.adds |= adds;
        state.pages.interrupted()?;
        if state.pages.changed_bytes() >= self.limit {
            self.make_space(adds)?;
        }
        Ok(())
    }

    #[cold]
    fn begin_change_slow(&mut self) -> Result<()> {
        self.check_failed()?;
        self.finish_reserved()
    }

    pub(crate) fn check_failed(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(_) => Err(self.refusal()),
        }
    }

    /// Whether a write of a short entry touches no more than the pages of its own table: a place in
    /// the table that was found before is then still right when the write has begun.
    #[inline(always)]
    fn leaves_places(&self) -> bool {
        self.failed.is_none()
            && self.reserved.is_none()
            && self.turn.state().pages.changed_bytes() < self.limit
    }

    /// Much is changed: some of it is written early, or there is no room for it in the file. That
    /// is said now, and not by the commit, so that the caller knows which write was too much.
    #[cold]
    fn make_space(&mut self, adds: bool) -> Result<()> {
        self.moved_at = self.changes;
        let budget = self.turn.store.options.write_budget;
        let result = spill::behind(self.turn.state_mut(), budget);
        self.note(result)?;
        if self.turn.state().pages.changed_bytes() > budget {
            self.spill()?;
        }
        let kept = if adds { self.kept } else { 0 };
        let state = self.turn.state_mut();
        // Extents have their place in the file already.
        let changed = (state.pages.changed_pages() * state.pages.page_size()) as u64;
        let result = if state.room_bytes(kept) <= changed {
            state.free.release_pending(&state.pages, usize::MAX).map(|_| ())
        } else {
            Ok(())
        };
        self.note(result)?;
        let state = self.turn.state();
        if state.room_bytes(kept) <= changed {
            let full = Err(state.pages.store_full());
            return self.note(full);
        }
        self.set_limit();
        Ok(())
    }

    /// See [`Cursor::hold`](crate::tree::Cursor::hold).
    #[inline(always)]
    pub(crate) fn hold(&mut self, seat: usize, at: PageRef) {
        self.turn.state_mut().pages.early.hold(seat, at);
    }

    #[cold]
    fn spill(&mut self) -> Result<()> {
        let budget = self.turn.store.options.write_budget;
        let state = self.turn.state_mut();
        for table in state.tables.iter_mut() {
            table.tail = None;
        }
        let result = spill::spill(state, budget / 2);
        self.note(result)
    }

    /// A failure inside a change leaves it half done: only dropping the transaction is left.
    #[inline(always)]
    fn note<R>(&mut self, result: Result<R>) -> Result<R> {
        if let Err(error) = &result {
            self.fail(error);
        }
        result
    }

    #[cold]
    fn fail(&mut self, error: &Error) {
        if self.failed.is_none() {
            self.failed = Some((error.to_string(), std::mem::take(&mut self.unique)));
        }
    }

    /// Changes a table. The arguments were checked: an error means that the change is half done.
    #[inline(always)]
    fn change<R>(
        &mut self,
        table: Table,
        f: impl FnOnce(&mut WritePages, &mut OpenTable) -> Result<R>,
    ) -> Result<R> {
        let state = self.turn.state_mut();
        let (pages, open) = state.change(table.index as usize)?;
        open.changed_at = self.changes;
        let result = f(pages, open);
        self.note(result)
    }

    /// Checks handle, key, value and transaction before a write.
    #[inline(always)]
    fn check_entry(&self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let open = self.open_table(table)?;
        check_key(open, key)?;
        self.check_value_in(open, value)
    }

    /// Checks a value before it is written.
    pub(crate) fn check_value(&self, table: Table, value: &[u8]) -> Result<()> {
        self.check_value_in(self.open_table(table)?, value)
    }

    #[inline(always)]
    fn check_value_in(&self, open: &OpenTable, value: &[u8]) -> Result<()> {
        if open.stored.has_duplicates() {
            check_duplicate(&open.stored, value, self.pages().page_size() as u64 / 8)
        } else {
            check_plain_len(value.len() as u64)
        }
    }

    /// Before a long key or value: finds space for it that is free already.
    #[inline(always)]
    fn make_room(&mut self, key: &[u8], len: u64) -> Result<()> {
        let page_size = self.pages().page_size();
        let short = usize::try_from(len).is_ok_and(|len| fits_inline(page_size, key.len(), len));
        if short && key.len() <= super::page::max_inline_key(page_size) {
            return Ok(());
        }
        self.make_room_for_extents(key, if short { 0 } else { len })
    }

    #[cold]
    fn make_room_for_extents(&mut self, key: &[u8], len: u64) -> Result<()> {
        let page_size = self.pages().page_size();
        let mut wanted = Vec::new();
        if len > 0 {
            wanted.push(extent::Plan::new(len, page_size).pages);
        }
        if key.len() > super::page::max_inline_key(page_size) {
            // Besides the record a separator may need it.
            let pages = extent::Plan::new(key.len() as u64, page_size).pages;
            wanted.extend([pages, pages]);
        }
        let state = self.turn.state_mut();
        let result = spill::gathered(&mut state.pages)
            .and_then(|()| state.free.open_room(&mut state.pages, &wanted));
        self.note(result)
    }

    /// Opens the table, or creates it if it does not exist; the options of an existing table are
    /// checked.
    ///
    /// # Errors
    /// [`Error::TableOptions`] if it exists with other options.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use hedgerow::tree::{Snapshot, TableOptions};
    /// let mut txn = store.begin_write()?;
    /// let words = txn.create_table("words", &TableOptions::new().duplicates())?;
    /// txn.put(words, b"tree", b"oak")?;
    /// txn.put(words, b"tree", b"ash")?;
    /// assert_eq!(txn.count(words)?.values, 2);
    /// txn.commit()?;
    /// # Ok(()) }
    /// ```
    pub fn create_table(
        &mut self,
        name: impl AsRef<[u8]>,
        options: &TableOptions,
    ) -> Result<Table> {
        let name = name.as_ref();
        if name.len() > KEY_MAX {
            return Err(size("key", name.len(), 0, KEY_MAX as u64));
        }
        // It may be there already, which a full store must be able to say.
        self.begin(false)?;
        let result = self.turn.state_mut().create_table(name, options);
        let index = match result {
            Err(error @ (Error::TableOptions { .. } | Error::Argument { .. })) => {
                return Err(error);
            }
            other => self.note(other)?,
        };
        Ok(self.handle(index))
    }

    /// Removes a table with all its entries, whatever its orders; false if there is none of that
    /// name. The cost is proportional to the pages freed.
    pub fn drop_table(&mut self, name: impl AsRef<[u8]>) -> Result<bool> {
        self.begin_delete()?;
        self.moved_at = self.changes;
        let result = self.turn.state_mut().drop_table(name.as_ref());
        self.note(result)
    }

    /// Gives a table another name, whatever its orders. Handles stay valid.
    ///
    /// # Errors
    /// [`Error::NoTable`]; [`Error::TableExists`] if the new name is taken.
    pub fn rename_table(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        if to.len() > KEY_MAX {
            return Err(size("key", to.len(), 0, KEY_MAX as u64));
        }
        self.begin_change()?;
        let state = self.turn.state();
        if search::get(&state.pages, &state.catalog, from)?.is_none() {
            return Err(Error::NoTable { name: from.to_vec() });
        }
        if search::get(&state.pages, &state.catalog, to)?.is_some() {
            return Err(Error::TableExists { name: to.to_vec() });
        }
        let result = self.turn.state_mut().rename_table(from, to);
        self.note(result)
    }

    /// Deletes all entries. The cost is proportional to the pages freed.
    pub fn clear_table(&mut self, table: Table) -> Result<()> {
        self.open_table(table)?;
        self.begin_delete()?;
        self.change(table, |pages, open| {
            open.tail = None;
            clear(pages, &mut open.tree)
        })
    }

    fn check_single(&self, table: Table) -> Result<()> {
        match self.open_table(table)?.tree.form.values {
            None => Ok(()),
            Some(_) => Err(Error::WrongTable { reason: "the table has duplicates".into() }),
        }
    }

    /// Opens a savepoint, in O(1).
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use hedgerow::tree::{Snapshot, TableOptions};
    /// let mut txn = store.begin_write()?;
    /// let table = txn.create_table("t", &TableOptions::new())?;
    /// let before = txn.savepoint()?;
    /// txn.put(table, b"k", b"v")?;
    /// txn.rollback_to(before)?;
    /// assert!(txn.get(table, b"k")?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn savepoint(&mut self) -> Result<Savepoint> {
        self.check_failed()?;
        self.finish_reserved()?;
        Ok(self.turn.state_mut().savepoint())
    }

    /// Undoes everything since the savepoint, which stays open. The cost is proportional to the
    /// pages touched since.
    ///
    /// # Errors
    /// [`Error::Argument`] if the savepoint was released.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.reserved = None;
        self.changes += 1;
        self.moved_at = self.changes;
        match self.turn.state_mut().rollback_to(savepoint) {
            Ok(()) => {}
            Err(error @ Error::Argument { .. }) => return Err(error),
            other => return self.note(other),
        }
        // What failed was after the savepoint, or this would have been refused.
        if let Some((_, unique)) = self.failed.take() {
            self.unique = unique;
        }
        Ok(())
    }

    /// Forgets the savepoint and later ones; the changes stay.
    ///
    /// # Errors
    /// [`Error::Argument`] if the savepoint was released already.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        self.turn.state_mut().release(savepoint)
    }

    /// Says how durable the commit will be, best before anything is put: what is written before the
    /// commit is arranged for that. Otherwise it is expected to be as durable as the last commit of
    /// this process, or as the store says. Whatever is said or expected, the commit keeps its
    /// promise; only its cost differs.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use hedgerow::{Durability, tree::TableOptions};
    /// let mut txn = store.begin_write()?;
    /// txn.expect_durability(Durability::None);
    /// let pictures = txn.create_table("pictures", &TableOptions::new())?;
    /// for n in 0..100_u32 {
    ///     txn.put(pictures, &n.to_be_bytes(), &[n as u8; 100_000])?;
    /// }
    /// txn.commit_with(Durability::None)?;
    /// # Ok(()) }
    /// ```
    pub fn expect_durability(&mut self, durability: Durability) {
        self.turn.state_mut().pages.early.unsynced = durability != Durability::Durable;
    }

    /// Commits with the store's durability.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::StoreFull`]: nothing was committed. After a failed flush every later
    /// write is refused ([`Error::Poisoned`]) until the store is opened anew.
    pub fn commit(self) -> Result<()> {
        let durability = self.turn.store.options.durability;
        self.commit_with(durability)
    }

    /// Commits with a durability of its own.
    ///
    /// # Errors
    /// As [`WriteTxn::commit`].
    pub fn commit_with(mut self, durability: Durability) -> Result<()> {
        self.check_failed()?;
        self.finish_reserved()?;
        self.pages().interrupted()?;
        self.turn.commit(durability)
    }

    /// Has this commit say how many pages the store may have; 0: any number.
    pub(crate) fn keep_max_pages(&mut self, max_pages: u32) -> Result<()> {
        let end = self.pages().base.end;
        if max_pages > 0 && max_pages < end {
            let held = u64::from(end) * self.pages().page_size() as u64;
            return Err(Error::argument(format!(
                "the store holds {held} bytes, more than that maximum; `compact` may make it \
                 smaller"
            )));
        }
        let kept = &mut self.turn.state_mut().kept;
        (kept.max_pages, kept.is_changed) = (max_pages, true);
        // Later members of this commit keep it, too.
        self.set_max_size(self.turn.store.options.max_size);
        Ok(())
    }

    /// Commits with a durability of its own and goes on reading: the snapshot is that of this
    /// commit, even if others wait to write.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use hedgerow::Durability;
    /// use hedgerow::tree::{Snapshot, TableOptions};
    /// let mut txn = store.begin_write()?;
    /// let table = txn.create_table("t", &TableOptions::new())?;
    /// txn.put(table, b"k", b"v")?;
    /// let txn = txn.commit_and_read(Durability::Durable)?;
    /// assert!(txn.get(txn.table("t")?, b"k")?.is_some());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`WriteTxn::commit`] and [`Store::begin_read`](crate::tree::Store::begin_read). If only
    /// the latter failed, the commit is made all the same.
    pub fn commit_and_read(mut self, durability: Durability) -> Result<ReadTxn> {
        self.check_failed()?;
        self.finish_reserved()?;
        self.pages().interrupted()?;
        self.turn.commit_and_read(durability)
    }

    /// Drops the transaction; it leaves no trace.
    pub fn abort(self) {}
}
