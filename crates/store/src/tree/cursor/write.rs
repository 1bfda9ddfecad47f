//! Cursors: putting and deleting at the cursor's place.

use std::cmp::Ordering;

use super::{Cursor, Leaf, State};
use crate::tree::insert::Place;
use crate::tree::order::KeyOrder;
use crate::tree::page::search::leaf_slot_near;
use crate::tree::pages::Pages;
use crate::tree::snapshot::sealed::Sealed;
use crate::tree::{WriteTxn, search};
use crate::{Error, Result};

impl Cursor {
    /// Places the cursor on an existing entry, for example one that was just put (without its value
    /// if a key has only one). Its place is looked up by the next call that needs it: a cursor that
    /// only puts does not pay for it.
    ///
    /// # Errors
    /// A handle of another transaction.
    #[inline]
    pub fn stand_on(&mut self, txn: &WriteTxn, key: &[u8], value: &[u8]) -> Result<()> {
        let table = txn.open_table(self.table)?;
        self.note(key, if table.tree.form.values.is_some() { value } else { &[] });
        Ok(())
    }

    /// Stands on an entry of the table, its place to be looked up.
    #[inline(always)]
    fn note(&mut self, key: &[u8], value: &[u8]) {
        self.kept.key.clear();
        self.kept.key.extend_from_slice(key);
        self.kept.data.clear();
        if !value.is_empty() {
            self.kept.data.extend_from_slice(value);
        }
        self.leave(State::On);
        self.changes = 0;
    }

    /// Puts an entry and stands on it.
    pub fn put(&mut self, txn: &mut WriteTxn, key: &[u8], value: &[u8]) -> Result<()> {
        self.check(txn)?;
        txn.put(self.table, key, value)?;
        self.stand_on(txn, key, value)
    }

    /// As [`Cursor::put`] with [`WriteTxn::append`].
    pub fn append(&mut self, txn: &mut WriteTxn, key: &[u8], value: &[u8]) -> Result<()> {
        self.check(txn)?;
        txn.append(self.table, key, value)?;
        self.stand_on(txn, key, value)
    }

    /// Replaces the value at the cursor (with duplicates: deletes the pair and puts the new one).
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) if the cursor does not stand on an entry.
    pub fn put_current(&mut self, txn: &mut WriteTxn, value: &[u8]) -> Result<()> {
        if self.settle(txn)? != State::On {
            return Err(Error::argument("the cursor does not stand on an entry"));
        }
        if self.is_paired {
            let (key, data) = (self.kept.key.clone(), self.kept.data.clone());
            txn.check_value(self.table, value)?;
            txn.delete_pair(self.table, &key, &data)?;
            txn.put(self.table, &key, value)?;
            return self.stand_on(txn, &key, value);
        }
        self.put_value(txn, value)
    }

    /// As [`Cursor::put_current`], if the cursor stands on an entry and its leaf is unchanged; a
    /// value that is there already changes nothing. False, and no change, if it may be elsewhere,
    /// or in a table with duplicates.
    #[doc(hidden)]
    #[inline]
    pub fn put_if_here(&mut self, txn: &mut WriteTxn, value: &[u8]) -> Result<bool> {
        if self.is_paired || !self.stands(txn) {
            return Ok(false);
        }
        self.catch_up();
        if self.page().plain_record(self.slot).is_none_or(|(_, there)| there != value) {
            self.put_value(txn, value)?;
        }
        Ok(true)
    }

    /// Replaces the value of the entry under the cursor, the only one of its key.
    fn put_value(&mut self, txn: &mut WriteTxn, value: &[u8]) -> Result<()> {
        if txn.put_over(self.table, self.path.steps[0].page, self.slot, value)? {
            self.changes = txn.changes();
            return Ok(());
        }
        let mut place = self.place_here();
        match txn.put_here(self.table, &mut place, &self.kept.key, value)? {
            Some(true) => return self.stand_at(txn, &place),
            Some(false) => {}
            None => txn.put(self.table, &self.kept.key, value)?,
        }
        self.leave(State::On);
        self.changes = 0;
        Ok(())
    }

    /// Puts a new entry near the one on which the cursor stands, or stood before it was deleted,
    /// and stands on it: a search is spared if they are neighbours, and most of it if they are in
    /// one leaf. False, and no change, if its place may be elsewhere, if the key is there already,
    /// or in a table with duplicates.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use hedgerow::tree::{Snapshot, TableOptions};
    /// let mut txn = store.begin_write()?;
    /// let table = txn.create_table("t", &TableOptions::new())?;
    /// for key in [b"a", b"d", b"f"] {
    ///     txn.put(table, key, b"")?;
    /// }
    /// let mut cursor = txn.cursor(table)?;
    /// cursor.seek(&txn, b"d")?;
    /// assert!(cursor.put_near(&mut txn, b"e", b"")?);
    /// assert!(!cursor.put_near(&mut txn, b"g", b"")?); // perhaps in the next leaf
    /// assert_eq!(txn.count(table)?.keys, 4);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of [`WriteTxn::put`].
    pub fn put_near(&mut self, txn: &mut WriteTxn, key: &[u8], value: &[u8]) -> Result<bool> {
        let is_somewhere = matches!(self.state, State::On | State::Before);
        if self.is_paired || !is_somewhere || !self.has_leaf(txn) {
            return Ok(false);
        }
        self.catch_up();
        let Some(slot) = self.slot_near(txn, key)? else { return Ok(false) };
        self.put_in_slot(txn, slot, key, value)
    }

    /// Puts a new entry before the one on which the cursor stands, and stands on it: the caller has
    /// looked for its key, and this is the first entry after that. False, and no change, if its
    /// place may be in the leaf before, or in a table with duplicates.
    #[doc(hidden)]
    pub fn put_before(&mut self, txn: &mut WriteTxn, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.is_paired || !self.stands(txn) {
            return Ok(false);
        }
        self.catch_up();
        if self.slot == 0 {
            return Ok(false);
        }
        debug_assert_eq!(self.slot_near(txn, key).ok(), Some(Some(self.slot)), "another place");
        self.put_in_slot(txn, self.slot, key, value)
    }

    /// Puts a new entry at a slot of the leaf; false, and no change, if it has to be found again.
    fn put_in_slot(
        &mut self,
        txn: &mut WriteTxn,
        slot: usize,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        let mut place = Place { slot, key_found: false, found: false, ..self.place_here() };
        let Some(stays) = txn.put_here(self.table, &mut place, key, value)? else {
            return Ok(false);
        };
        self.note(key, &[]);
        if stays {
            self.stand_at(txn, &place)?;
        }
        Ok(true)
    }

    /// Puts an entry in place of the one at the cursor, and stands on it, if its place is in the
    /// same leaf: neither branches nor counters change then. False, and no entry is changed, if its
    /// place may be elsewhere, if the cursor stands on none, or in a table with duplicates.
    #[doc(hidden)]
    pub fn replace(&mut self, txn: &mut WriteTxn, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.is_paired || self.settle(txn)? != State::On {
            return Ok(false);
        }
        let page = self.page();
        let Some((rest, old)) = page.plain_record(self.slot) else { return Ok(false) };
        if old == value && page.whole_key(rest) == *key {
            return Ok(true);
        }
        let Some(to) = self.slot_instead(txn, key)? else { return Ok(false) };
        let slots = (self.slot, to);
        if !txn.replace_here(self.table, &mut self.path, slots, (key, value))? {
            return Ok(false);
        }
        self.note(key, &[]);
        let page = txn.pages().page(self.path.steps[0].page, 0)?;
        self.stand(txn, page, to, false);
        Ok(true)
    }

    /// The slot that a key has in place of the cursor's own, if that is surely in the same leaf.
    fn slot_instead(&self, txn: &WriteTxn, key: &[u8]) -> Result<Option<usize>> {
        let (order, page, own) = (&self.check(txn)?.tree.form.keys, self.page(), self.slot);
        let (slot, is_equal) = leaf_slot_near(txn.pages(), order, page, key, own)?;
        Ok(match slot {
            // Another entry with that key is not replaced.
            _ if is_equal => (slot == own).then_some(own),
            // Its own key bounds it on the one side, a neighbour on the other.
            _ if slot > own => (slot < page.len()).then_some(slot - 1),
            _ => (slot > 0).then_some(slot),
        })
    }

    /// The slot that a new key has in the cursor's leaf, if it is surely between two keys of that:
    /// one before the first or after the last may belong to another leaf. The neighbours of the
    /// cursor are looked at first, then the end of the leaf.
    fn slot_near(&self, txn: &WriteTxn, key: &[u8]) -> Result<Option<usize>> {
        let order = &self.check(txn)?.tree.form.keys;
        let page = self.page();
        let len = page.len();
        // The keys before `low` are before the new one, those from `high` on after it.
        let (mut low, mut high) = (0, len);
        let (mut at, mut looks) = (self.slot.min(len - 1), 0);
        while low < high {
            let seen = match (order, page.plain_record(at)) {
                (KeyOrder::Custom(by), Some((stored, _))) => (by.compare)(stored, key),
                _ => {
                    let record = page.leaf_record(at);
                    order.compare_bytes(&search::key_bytes(txn.pages(), &record)?, key)
                }
            };
            match seen {
                Ordering::Less => low = at + 1,
                Ordering::Greater => high = at,
                Ordering::Equal => return Ok(None),
            }
            looks += 1;
            at = match seen {
                Ordering::Less if looks == 1 => low,
                _ if looks == 1 => high.saturating_sub(1),
                _ if high == len => len - 1,
                _ if low == 0 => 0,
                _ => (low + high) / 2,
            };
        }
        Ok((low > 0 && high < len).then_some(low))
    }

    /// Stands at a place that a change has left right; the key is kept already.
    fn stand_at(&mut self, txn: &WriteTxn, place: &Place) -> Result<()> {
        self.path.copy_from(&place.path);
        let page = txn.pages().page(self.path.steps[0].page, 0)?;
        self.stand(txn, page, place.slot, false);
        Ok(())
    }

    /// The place of the entry on which the cursor stands.
    fn place_here(&self) -> Place {
        let (path, slot, value) = (self.path, self.slot, self.value);
        Place { path, slot, key_found: true, value, found: true }
    }

    /// Deletes the pair at the cursor; [`Cursor::next`] then gives its successor. False if the
    /// cursor does not stand on one.
    pub fn delete(&mut self, txn: &mut WriteTxn) -> Result<bool> {
        if self.settle(txn)? != State::On {
            return Ok(false);
        }
        if !self.is_paired && txn.delete_in_leaf(self.table, &self.path, self.slot)? {
            // The leaf is the same page; the next entry has come to the slot.
            self.leave(State::Before);
            self.changes = txn.changes();
            return Ok(true);
        }
        let mut place = self.place_here();
        self.leave(State::Gap);
        match txn.delete_here(self.table, &mut place)? {
            Some(true) => {
                // The leaf may have become another page.
                self.stand_before_slot(txn, &place)?;
                Ok(true)
            }
            Some(false) => Ok(true),
            None if self.is_paired => txn.delete_pair(self.table, &self.kept.key, &self.kept.data),
            None => txn.delete(self.table, &self.kept.key),
        }
    }

    /// Stands between the neighbours of an entry that was deleted.
    fn stand_before_slot(&mut self, txn: &WriteTxn, place: &Place) -> Result<()> {
        self.path.copy_from(&place.path);
        let page = txn.pages().page(self.path.steps[0].page, 0)?;
        let (mut slot, mut value) = (place.slot, place.value);
        // Behind the last value of a group is before the next group.
        if value > 0 && value >= page.value_count(slot) {
            (slot, value) = (slot + 1, 0);
        }
        self.leaf = Leaf::at(page, slot);
        (self.slot, self.values, self.value) = (slot, 0, value);
        self.leave(State::Before);
        self.changes = txn.changes();
        Ok(())
    }

    /// Deletes the key at the cursor with all its values.
    pub fn delete_key(&mut self, txn: &mut WriteTxn) -> Result<bool> {
        if self.settle(txn)? != State::On {
            return Ok(false);
        }
        let is_whole = self.begins_here() && self.ends_here();
        let mut place = self.place_here();
        self.leave(State::Gap);
        let deleted = match is_whole {
            true => txn.delete_key_here(self.table, &mut place)?,
            false => None,
        };
        match deleted {
            Some(true) => {
                place.value = 0;
                self.stand_before_slot(txn, &place)?;
                Ok(true)
            }
            Some(false) => Ok(true),
            None => txn.delete(self.table, &self.kept.key),
        }
    }

    /// Has the leaf under the cursor stay in memory where it is, whatever the transaction writes to
    /// other tables, until another one is held in its seat: seats are small numbers, one for each
    /// cursor. A write to the cursor's own table still changes it.
    #[doc(hidden)]
    #[inline(always)]
    pub fn hold(&self, txn: &mut WriteTxn, seat: usize) {
        txn.hold(seat, self.path.steps[0].page);
    }
}

#[cfg(test)]
mod tests;
