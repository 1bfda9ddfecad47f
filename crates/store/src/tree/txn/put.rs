//! Putting entries: anywhere, at the end, or where there is none yet.

use super::WriteTxn;
use super::sizes::note_sizes;
use crate::tree::catalog::OpenTable;
use crate::tree::insert::{Place, fits_inline, put_at, replace_in_leaf, replace_short, touch_path};
use crate::tree::order::KeyOrder;
use crate::tree::page::max_inline_key;
use crate::tree::page_ref::PageRef;
use crate::tree::pages::{Pages, WritePages};
use crate::tree::path::Path;
use crate::tree::snapshot::sealed::Sealed;
use crate::tree::tail::Tail;
use crate::tree::{Bytes, Snapshot, Table};
use crate::{Error, Result};

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

impl WriteTxn {
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
        if pushed {
            open.changed_at = self.changes;
        }
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
        let put = self.change(table, |pages, open| put_in(pages, open, key, value, false))?;
        if put == Put::IsTaken { self.displace(table, key, value) } else { Ok(()) }
    }

    /// As [`WriteTxn::put`] if the entry (without duplicates: an entry with that key) is not there;
    /// false, and no entry is changed, if it is.
    ///
    /// # Errors
    /// Those of [`WriteTxn::put`].
    #[doc(hidden)]
    #[inline]
    pub fn put_absent(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.push(table, key, value) {
            return Ok(true);
        }
        self.check_entry(table, key, value)?;
        self.begin_change()?;
        self.make_room(key, value.len() as u64)?;
        let put = self.change(table, |pages, open| put_in(pages, open, key, value, true))?;
        Ok(put != Put::IsThere)
    }

    /// As [`WriteTxn::put`] where that takes a few steps in memory: for a short entry after the
    /// last one of a table that is being appended to, while its page has room. False, and no
    /// change, otherwise. It never waits for anything.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// # let mut txn = store.begin_write()?;
    /// # let table = txn.create_table("t", &hedgerow::tree::TableOptions::new())?;
    /// for n in 0..1000_u32 {
    ///     let key = n.to_be_bytes();
    ///     if !txn.put_at_end(table, &key, b"value") {
    ///         txn.put(table, &key, b"value")?;
    ///     }
    /// }
    /// assert!(!txn.put_at_end(table, &7_u32.to_be_bytes(), b"is in the middle"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn put_at_end(&mut self, table: Table, key: &[u8], value: &[u8]) -> bool {
        self.push(table, key, value)
    }

    /// Replaces the value of a slot of a leaf of a table without duplicates, where nothing was
    /// changed since the leaf was found. False, and no change, if the leaf has to be made a changed
    /// page, has no room, or does not have all of the record.
    pub(crate) fn put_over(
        &mut self,
        table: Table,
        leaf: PageRef,
        slot: usize,
        value: &[u8],
    ) -> Result<bool> {
        if !self.leaves_places() {
            return Ok(false);
        }
        let state = self.turn.state_mut();
        state.pages.interrupted()?;
        let Some(open) = state.tables.get_mut(table.index as usize) else { return Ok(false) };
        // The table's own record is as it was when the leaf became a changed page.
        if !state.pages.is_touched(leaf) {
            return Ok(false);
        }
        if let Some(old) = state.pages.change(leaf).value_of_len(slot, value.len()) {
            old.copy_from_slice(value);
        } else if replace_short(&mut state.pages, leaf, slot, value) {
            open.tail = None;
        } else {
            return Ok(false);
        }
        self.changes += 1;
        open.changed_at = self.changes;
        Ok(true)
    }

    /// Puts an entry at a place of a table without duplicates, where nothing was changed since the
    /// place was found, and says whether the place is still right then. `None`, and no change, if
    /// it has to be found again or the entry is long.
    pub(crate) fn put_here(
        &mut self,
        table: Table,
        place: &mut Place,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<bool>> {
        let page_size = self.pages().page_size();
        let is_short = key.len() <= max_inline_key(page_size)
            && fits_inline(page_size, key.len(), value.len());
        if !is_short || !self.leaves_places() {
            return Ok(None);
        }
        if !place.found {
            self.check_entry(table, key, value)?;
        }
        self.begin_change()?;
        self.change(table, |pages, open| {
            open.tail = None;
            note_sizes(open, key, value);
            put_at(pages, &mut open.tree, place, key, value).map(Some)
        })
    }

    /// Puts an entry in place of that of a slot of a table without duplicates, at the other slot of
    /// the same leaf, where nothing was changed since the leaf was found. False, and no entry is
    /// changed, if there is no room or the new one is long.
    pub(crate) fn replace_here(
        &mut self,
        table: Table,
        path: &mut Path,
        slots: (usize, usize),
        (key, value): (&[u8], &[u8]),
    ) -> Result<bool> {
        let page_size = self.pages().page_size();
        let is_short = key.len() <= max_inline_key(page_size)
            && fits_inline(page_size, key.len(), value.len());
        if !is_short || !self.leaves_places() {
            return Ok(false);
        }
        self.check_entry(table, key, value)?;
        self.begin_change()?;
        self.change(table, |pages, open| {
            open.tail = None;
            note_sizes(open, key, value);
            replace_in_leaf(pages, &mut open.tree, path, slots, (key, value))
        })
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
            return Err(Error::WrongTable { reason: "the table has no duplicates".into() });
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
}

/// What became of an entry that was to be put.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Put {
    Done,
    /// It is there already, and nothing was changed.
    IsThere,
    /// The table's function takes the value that was there for this one, which is then still there.
    IsTaken,
}

/// Puts an entry into a table; with `absent` only if it is not there.
#[inline(always)]
fn put_in(
    pages: &mut WritePages,
    open: &mut OpenTable,
    key: &[u8],
    value: &[u8],
    absent: bool,
) -> Result<Put> {
    note_sizes(open, key, value);
    if open.tail.is_some() && append_at_tail(pages, open, key, value)? {
        return Ok(Put::Done);
    }
    let mut place = Place::EMPTY;
    place.locate(pages, &open.tree, key, value)?;
    if absent && place.found {
        return Ok(Put::IsThere);
    }
    let at_end = !place.found && is_last(pages, &place)?;
    let is_custom = matches!(open.tree.form.values, Some(KeyOrder::Custom(_)));
    let put = if is_custom && place.found { Put::IsTaken } else { Put::Done };
    put_at(pages, &mut open.tree, &mut place, key, value)?;
    // Sorted input is noticed: the next entry is tried at the end first.
    if at_end {
        open.tail = Tail::find(pages, &open.tree)?;
    } else if open.tail.is_some() {
        open.tail = None;
    }
    Ok(put)
}

/// Whether a place is after all entries of the tree.
#[inline(always)]
fn is_last(pages: &WritePages, place: &Place) -> Result<bool> {
    if place.path.depth == 0 || place.key_found {
        return Ok(false);
    }
    // Most places are not at the end of their leaf.
    if place.slot == pages.page(place.path.steps[0].page, 0)?.len() {
        is_in_last_leaf(pages, &place.path)
    } else {
        Ok(false)
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
