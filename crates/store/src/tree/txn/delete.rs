//! Deleting entries: a key, a pair, a range.

use super::WriteTxn;
use crate::Result;
use crate::key::KeyRange;
use crate::tree::insert::{Place, locate};
use crate::tree::pages::Pages as _;
use crate::tree::path::Path;
use crate::tree::remove::{delete_at, delete_group_at, delete_key, delete_range, remove_in_leaf};
use crate::tree::snapshot::sealed::Sealed;
use crate::tree::{Count, Snapshot, Table};

impl WriteTxn {
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

    /// Deletes the pair at a place of a table where nothing was changed since the place was found,
    /// and says whether the place, between the neighbours, is still right then. `None`, and no
    /// change, if it has to be found again.
    pub(crate) fn delete_here(&mut self, table: Table, place: &mut Place) -> Result<Option<bool>> {
        if !self.leaves_places() {
            return Ok(None);
        }
        self.begin_delete()?;
        self.change(table, |pages, open| {
            open.tail = None;
            delete_at(pages, &mut open.tree, place).map(Some)
        })
    }

    /// As [`WriteTxn::delete_here`], but deletes a key, all values of which are at that place.
    pub(crate) fn delete_key_here(
        &mut self,
        table: Table,
        place: &mut Place,
    ) -> Result<Option<bool>> {
        if !self.leaves_places() {
            return Ok(None);
        }
        self.begin_delete()?;
        self.change(table, |pages, open| {
            open.tail = None;
            delete_group_at(pages, &mut open.tree, place).map(Some)
        })
    }

    /// Deletes the entry of a slot of a leaf of a table without duplicates, where nothing was
    /// changed since the path there was found. False, and no change, if more than that leaf and the
    /// counters above it has to be changed.
    #[inline(always)]
    pub(crate) fn delete_in_leaf(
        &mut self,
        table: Table,
        path: &Path,
        slot: usize,
    ) -> Result<bool> {
        if !self.leaves_places() {
            return Ok(false);
        }
        let state = self.turn.state_mut();
        state.pages.interrupted()?;
        let (pages, open) = state.change(table.index as usize)?;
        if !remove_in_leaf(pages, &mut open.tree, path, slot)? {
            return Ok(false);
        }
        open.tail = None;
        self.changes += 1;
        open.changed_at = self.changes;
        Ok(true)
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
            let mut place = locate(pages, &open.tree, key, value)?;
            let found = place.found;
            if found {
                delete_at(pages, &mut open.tree, &mut place)?;
            }
            Ok(found)
        })
    }

    /// Deletes all entries whose keys lie in a range. The cost is proportional to the pages
    /// touched; pages that lie wholly inside the range are not read, if the table has no long
    /// values.
    pub fn delete_range(&mut self, table: Table, keys: impl KeyRange) -> Result<Count> {
        self.open_table(table)?;
        self.begin_delete()?;
        self.change(table, |pages, open| {
            open.tail = None;
            delete_range(pages, &mut open.tree, keys.low(), keys.high())
        })
    }
}
