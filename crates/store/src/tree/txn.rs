//! The write transaction: its changes, and how they are rolled back or committed.

mod nested;
pub(crate) mod sizes;
mod value;

use std::ops::Bound;

pub use nested::Nested;
use sizes::{check_duplicate, check_key, check_plain_len, note_sizes, size};
use value::Sink;
pub use value::ValueWriter;

use super::catalog::{OpenTable, Opened};
use super::group::Turn;
use super::insert::{Place, fits_inline, locate, put_at, put_cell, touch_path};
use super::order::KeyOrder;
use super::page::ValueCell;
use super::page_ref::ExtentRef;
use super::pages::{Pages, WritePages};
use super::path::Path;
use super::remove::{clear, delete_at, delete_key, delete_range};
use super::snapshot::sealed::Sealed;
use super::state::{Savepoint, WriteState};
use super::tail::Tail;
use super::tree::{Tree, raise};
use super::txn::sizes::KEY_MAX;
use super::txn_read::unique;
use super::{Bytes, Count, Durability, Snapshot, Table, TableOptions, extent, search, spill};
use crate::{Error, Result};

/// This many pages of the room in the file are reserved for deletes and for the commit itself: a
/// full store can be emptied, and it is a put that finds the store full, not the commit.
const KEPT_PAGES: u64 = 16;

/// The one write transaction of a store. Dropped without [`WriteTxn::commit`] it leaves no trace.
///
/// Keys and values that it hands out borrow it, so that they are gone before its next write. If a
/// write fails half-way (a full disk, a damaged page) the transaction can only be dropped: every
/// later call returns [`Error::CommitFailed`]. Errors about arguments change nothing.
pub struct WriteTxn {
    turn: Turn,
    unique: u64,
    changes: u64,
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

/// What [`WriteTxn::update`] does with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Leave it as it is.
    Keep,
    /// Store this value.
    Put(Vec<u8>),
    /// Remove it.
    Delete,
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
    pub(crate) fn new(turn: Turn) -> Self {
        let mut txn = Self {
            turn,
            unique: unique(),
            changes: 0,
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
    /// default is 16. With fewer, a commit or a delete may find the store full.
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
        let behind = state.pages.space.max_pages.saturating_sub(state.pages.base.end);
        behind < state.pages.base.end
            && state.free.held_pages() > state.free.room_pages(&state.pages)
    }

    fn set_limit(&mut self) {
        let budget = self.turn.store.options.write_budget;
        let state = self.turn.state();
        let room = state.room_for(budget as u64, self.kept);
        let next = state.pages.changed_bytes() + spill::behind_bytes(budget);
        self.limit = usize::try_from(room).unwrap_or(usize::MAX).min(budget).min(next);
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

    /// Much is changed: some of it is written early, or there is no room for it in the file. That
    /// is said now, and not by the commit, so that the caller knows which write was too much.
    #[cold]
    fn make_space(&mut self, adds: bool) -> Result<()> {
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
        let result = match state.room_bytes(kept) <= changed {
            true => state.free.release_pending(&state.pages, usize::MAX).map(|_| ()),
            false => Ok(()),
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
        match open.stored.has_duplicates() {
            false => check_plain_len(value.len() as u64),
            true => check_duplicate(&open.stored, value, self.pages().page_size() as u64 / 8),
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
        let result = state.free.open_room(&mut state.pages, &wanted);
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

    /// The short way for sorted input, taken where the table is being appended to and the entry is
    /// a short one; false, and no change, otherwise. It makes no page, so that neither the budget
    /// nor the interruption flag need be looked at.
    #[inline(always)]
    fn push(&mut self, table: Table, key: &[u8], value: &[u8]) -> bool {
        if self.failed.is_some() || self.reserved.is_some() || table.txn != self.unique as u32 {
            return false;
        }
        let state = self.turn.state_mut();
        let Some(open) = state.tables.get_mut(table.index as usize) else { return false };
        let Some(tail) = &open.tail else { return false };
        let pushed = tail.takes(state.pages.epoch(), key.len(), value.len())
            && tail.push(&mut state.pages, &mut open.tree, key, value);
        self.changes += u64::from(pushed);
        pushed
    }

    /// Stores a value, replacing the old one. In a table with duplicates it adds a pair; if the
    /// pair is there already this has no effect, and if the caller's function takes another value
    /// for equal to this one, that value is replaced.
    ///
    /// # Errors
    /// [`Error::Size`]; [`Error::StoreFull`] and [`Error::Io`] when the file cannot grow.
    #[inline]
    pub fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        if self.push(table, key, value) {
            return Ok(());
        }
        self.check_entry(table, key, value)?;
        self.begin_change()?;
        self.make_room(key, value.len() as u64)?;
        self.change(table, |pages, open| {
            note_sizes(open, key, value);
            if open.tail.is_some() && append_at_tail(pages, open, key, value)? {
                return Ok(false);
            }
            let mut place = Place::EMPTY;
            place.locate(pages, &open.tree, key, value)?;
            let at_end = !place.found && is_last(pages, &place)?;
            let custom = matches!(open.tree.form.values, Some(KeyOrder::Custom(_)));
            let is_taken = custom && place.found;
            put_at(pages, &mut open.tree, &mut place, key, value)?;
            // Sorted input is noticed: the next entry is tried at the end first.
            if at_end {
                open.tail = Tail::find(pages, &open.tree)?;
            } else if open.tail.is_some() {
                open.tail = None;
            }
            Ok(is_taken)
        })
        .and_then(|is_taken| if is_taken { self.displace(table, key, value) } else { Ok(()) })
    }

    /// A value takes the place of the one that the table's function takes for it.
    #[cold]
    fn displace(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let mut cursor = self.cursor(table)?;
        let Some(there) = cursor.seek_pair(self, key, value)? else { return Ok(()) };
        if there.value == *value {
            return Ok(());
        }
        let (key, old) = (there.key.to_vec(), there.value.to_vec());
        self.delete_pair(table, &key, &old)?;
        self.put(table, &key, value)
    }

    /// Stores a value only if the key is absent; otherwise changes nothing and returns the (first)
    /// value of the key.
    pub fn put_new(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<Option<Bytes<'_>>> {
        self.check_entry(table, key, value)?;
        if self.get(table, key)?.is_some() {
            return self.get(table, key);
        }
        self.put(table, key, value)?;
        Ok(None)
    }

    /// Adds a pair to a table with duplicates; false if it was there.
    ///
    /// # Errors
    /// [`Error::WrongTable`] for a table without duplicates.
    pub fn put_pair(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.open_table(table)?.tree.form.values.is_none() {
            return Err(Error::WrongTable { reason: "the table has no duplicates" });
        }
        let before = self.count(table)?.values;
        self.put(table, key, value)?;
        Ok(self.count(table)?.values > before)
    }

    /// Stores a value and returns a copy of the old one.
    ///
    /// # Errors
    /// [`Error::WrongTable`] for a table with duplicates.
    pub fn replace(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check_single(table)?;
        let old = self.get(table, key)?.map(|old| old.to_vec());
        self.put(table, key, value)?;
        Ok(old)
    }

    fn check_single(&self, table: Table) -> Result<()> {
        match self.open_table(table)?.tree.form.values {
            None => Ok(()),
            Some(_) => Err(Error::WrongTable { reason: "the table has duplicates" }),
        }
    }

    /// As [`WriteTxn::put`], but the entry must come after the last one.
    ///
    /// # Errors
    /// [`Error::NotLast`] if it does not; nothing is changed then.
    #[inline]
    pub fn append(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        if self.push(table, key, value) {
            return Ok(());
        }
        self.check_entry(table, key, value)?;
        self.begin_change()?;
        self.make_room(key, value.len() as u64)?;
        self.change(table, |pages, open| {
            note_sizes(open, key, value);
            if open.tail.is_none() {
                open.tail = Tail::find(pages, &open.tree)?;
            }
            append_at_tail(pages, open, key, value)
        })
        .and_then(|done| if done { Ok(()) } else { self.append_first(table, key, value) })
    }

    /// Appends to an empty table.
    #[cold]
    fn append_first(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        if self.open_table(table)?.tree.root.count.values > 0 {
            return Err(Error::NotLast);
        }
        self.change(table, |pages, open| {
            let mut place = Place::EMPTY;
            put_at(pages, &mut open.tree, &mut place, key, value)?;
            open.tail = Tail::find(pages, &open.tree)?;
            Ok(())
        })
    }

    /// Makes room for a value of `len` bytes and returns it (zeros or old bytes) for writing. In a
    /// table with duplicates this is the first value of a key; a second one is put when its bytes
    /// are known, since they decide where it stands.
    ///
    /// # Errors
    /// [`Error::WrongTable`] in a table with duplicates for a key that is there, and for a value
    /// that is too long to stand beside others.
    pub fn reserve(&mut self, table: Table, key: &[u8], len: usize) -> Result<&mut [u8]> {
        if self.check_single(table).is_err() {
            return self.reserve_first(table, key, len);
        }
        check_key(self.open_table(table)?, key)?;
        check_plain_len(len as u64)?;
        self.begin_change()?;
        self.make_room(key, len as u64)?;
        let extent = self.change(table, |pages, open| {
            open.tail = None;
            note_sizes(open, key, &[]);
            reserve(pages, &mut open.tree, key, len)
        })?;
        let index = table.index as usize;
        if let Some(extent) = extent {
            self.reserved = Some(Reserved { index, key: key.to_vec() });
            let bytes = self.turn.state_mut().pages.extents.get_mut(&extent.first);
            return bytes.map(|bytes| &mut bytes[..len]).ok_or(Error::OutOfMemory);
        }
        let (pages, open) = self.turn.state_mut().change(index)?;
        let place = locate(pages, &open.tree, key, &[])?;
        let leaf = place.path.steps[0].page;
        pages.value_to_fill(leaf, place.slot, len)
    }

    /// [`WriteTxn::reserve`] in a table with duplicates.
    fn reserve_first(&mut self, table: Table, key: &[u8], len: usize) -> Result<&mut [u8]> {
        if !fits_inline(self.pages().page_size(), key.len(), len) || self.get(table, key)?.is_some()
        {
            let reason = "the table has duplicates: reserve only the first value of a key, and no \
                          long one";
            return Err(Error::WrongTable { reason });
        }
        let zeros = vec![0; len];
        self.put(table, key, &zeros)?;
        let (pages, open) = self.turn.state_mut().change(table.index as usize)?;
        open.tail = None;
        let place = locate(pages, &open.tree, key, &zeros)?;
        let leaf = place.path.steps[0].page;
        pages.value_to_fill(leaf, place.slot, len)
    }

    /// A reserved long value has its bytes now: its sums are computed and stored.
    fn finish_reserved(&mut self) -> Result<()> {
        let Some(Reserved { index, key }) = self.reserved.take() else { return Ok(()) };
        let (pages, open) = self.turn.state_mut().change(index)?;
        let result = reseal(pages, &mut open.tree, &key);
        self.note(result)
    }

    /// Writes a value of `len` bytes in parts, never holding it in memory.
    ///
    /// # Errors
    /// [`Error::WrongTable`] for a table with duplicates.
    pub fn value_writer(&mut self, table: Table, key: &[u8], len: u64) -> Result<ValueWriter<'_>> {
        self.check_single(table)?;
        check_key(self.open_table(table)?, key)?;
        check_plain_len(len)?;
        self.begin_change()?;
        self.make_room(key, len)?;
        let page_size = self.pages().page_size();
        let short = usize::try_from(len).is_ok_and(|len| fits_inline(page_size, key.len(), len));
        let sink = if short {
            Sink::Short(Vec::new())
        } else {
            let state = self.turn.state_mut();
            // What it writes is no part of what the commit writes and makes a digest of.
            state.free.written_early = true;
            let writer = extent::Writer::new(&mut state.pages, len);
            Sink::Long(self.note(writer)?)
        };
        Ok(ValueWriter { txn: self, table, key: key.to_vec(), len, sink: Some(sink) })
    }

    /// Reads one entry, lets `f` decide, and writes the entry. With duplicates `f` gets the first
    /// value, `Put` adds a value and `Delete` removes the first one.
    pub fn update(
        &mut self,
        table: Table,
        key: &[u8],
        f: impl FnOnce(Option<Bytes<'_>>) -> Update,
    ) -> Result<()> {
        let old = self.get(table, key)?;
        match f(old) {
            Update::Keep => Ok(()),
            Update::Put(value) => self.put(table, key, &value),
            Update::Delete => {
                let first = match &self.open_table(table)?.tree.form.values {
                    Some(_) => self.get(table, key)?.map(|first| first.to_vec()),
                    None => None,
                };
                match first {
                    Some(first) => self.delete_pair(table, key, &first).map(|_| ()),
                    None => self.delete(table, key).map(|_| ()),
                }
            }
        }
    }

    /// Deletes a key with all its values; false if it was not there.
    #[inline]
    pub fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool> {
        self.open_table(table)?;
        self.begin_delete()?;
        self.change(table, |pages, open| {
            open.tail = None;
            Ok(delete_key(pages, &mut open.tree, key)? > 0)
        })
    }

    /// Deletes one value of a key. In a table without duplicates it deletes the entry if its value
    /// is equal.
    pub fn delete_pair(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.open_table(table)?.tree.form.values.is_none() {
            let equal = self.contains_pair(table, key, value)?;
            return if equal { self.delete(table, key) } else { Ok(false) };
        }
        self.begin_delete()?;
        self.change(table, |pages, open| {
            open.tail = None;
            let place = locate(pages, &open.tree, key, value)?;
            let found = place.found;
            if found {
                delete_at(pages, &mut open.tree, place)?;
            }
            Ok(found)
        })
    }

    /// Deletes all entries whose keys lie in a range. The cost is proportional to the pages
    /// touched; pages that lie wholly inside the range are not read, if the table has no long
    /// values.
    pub fn delete_range(
        &mut self,
        table: Table,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
    ) -> Result<Count> {
        self.open_table(table)?;
        self.begin_delete()?;
        self.change(table, |pages, open| {
            open.tail = None;
            delete_range(pages, &mut open.tree, low, high)
        })
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

    /// Begins a nested transaction. It has all calls of this one, and leaves no trace unless it is
    /// committed.
    pub fn begin_nested(&mut self) -> Result<Nested<'_>> {
        let savepoint = self.savepoint()?;
        Ok(Nested { parent: self, savepoint, done: false })
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

    /// Drops the transaction; it leaves no trace.
    pub fn abort(self) {}
}

/// Whether a place is after all entries of the tree.
#[inline(always)]
fn is_last(pages: &WritePages, place: &Place) -> Result<bool> {
    if place.path.depth == 0 || place.key_found {
        return Ok(false);
    }
    // Most places are not at the end of their leaf.
    match place.slot == pages.page(place.path.steps[0].page, 0)?.len() {
        true => is_in_last_leaf(pages, &place.path),
        false => Ok(false),
    }
}

/// Whether the leaf of a path is the last one.
fn is_in_last_leaf(pages: &WritePages, path: &Path) -> Result<bool> {
    for level in 1..path.depth {
        let len = pages.page(path.steps[level].page, level as u8)?.len();
        if path.steps[level].slot as usize + 1 != len {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Appends where the table's tail stands, if the pair comes after the last one.
fn append_at_tail(
    pages: &mut WritePages,
    open: &mut OpenTable,
    key: &[u8],
    value: &[u8],
) -> Result<bool> {
    let Some(tail) = &mut open.tail else { return Ok(false) };
    if !tail.aim(pages, &open.tree, key, value)? {
        open.tail = None;
        return Ok(false);
    }
    if !tail.is_touched(pages.epoch()) {
        touch_path(pages, &mut open.tree, &mut tail.place.path)?;
    }
    let (leaves, noted) = (open.tree.root.leaf_pages, tail.leaves);
    put_at(pages, &mut open.tree, &mut tail.place, key, value)?;
    if open.tree.root.leaf_pages != leaves {
        open.tail = Tail::find(pages, &open.tree)?;
    }
    if let Some(tail) = &mut open.tail {
        tail.leaves = noted;
        tail.set_touched(pages, &open.tree, open.stored.key_size as usize);
    }
    Ok(true)
}

/// Puts a value of `len` bytes that the caller will fill; its extent if it has one.
fn reserve(
    pages: &mut WritePages,
    tree: &mut Tree,
    key: &[u8],
    len: usize,
) -> Result<Option<ExtentRef>> {
    let mut place = locate(pages, tree, key, &[])?;
    if fits_inline(pages.page_size(), key.len(), len) {
        let zeros = vec![0; len];
        put_cell(pages, tree, &mut place, key, ValueCell::Inline(Bytes::from(&zeros[..])))?;
        return Ok(None);
    }
    let extent = extent::reserve(pages, len)?;
    raise(&mut tree.root.overflow_pages, u64::from(extent::run_of(&extent, pages.page_size()).len));
    put_cell(pages, tree, &mut place, key, ValueCell::Extent(extent))?;
    Ok(Some(extent))
}

/// Computes the sums of a reserved value and stores them in its leaf.
fn reseal(pages: &mut WritePages, tree: &mut Tree, key: &[u8]) -> Result<()> {
    let mut place = locate(pages, tree, key, &[])?;
    if !place.found {
        return Ok(());
    }
    touch_path(pages, tree, &mut place.path)?;
    let leaf = place.path.steps[0].page;
    let Some(old) = pages.changed(leaf).leaf_record(place.slot).value_extent() else {
        return Ok(());
    };
    if let Some(new) = extent::reseal(pages, &old) {
        pages.change(leaf).set_value_extent(place.slot, &new);
    }
    Ok(())
}
