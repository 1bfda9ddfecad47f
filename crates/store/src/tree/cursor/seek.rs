//! Cursors: moving to an end, to a key, to a pair or to the n-th entry.

use std::cmp::Ordering;

use super::{Answer, Cursor, State};
use crate::Result;
use crate::tree::catalog::OpenTable;
use crate::tree::insert::locate;
use crate::tree::order::KeyOrder;
use crate::tree::page::Page;
use crate::tree::page::search::{Side, leaf_slot, leaf_slot_near, value_slot};
use crate::tree::pages::Pages;
use crate::tree::{Entry, Snapshot, rank, search};

/// After this many searches in vain near a cursor's place, keys are taken to be at random, and the
/// next [`PAUSE`] searches do not look there.
const STRAYED: u8 = 4;
const PAUSE: u8 = 32;

/// Whether a leaf begins with a key that was looked for in the leaf before it: the values of a key
/// may begin there, and a custom order may take the separator for another key than the entry.
#[cold]
fn begins_with<P: Pages>(pages: &P, order: &KeyOrder, leaf: Page<'_>, key: &[u8]) -> Result<bool> {
    let first = search::key_bytes(pages, &leaf.leaf_record(0))?;
    Ok(order.compare_bytes(&first, key).is_eq())
}

impl Cursor {
    /// Moves to the first pair and gives it.
    pub fn first<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.stand_at_end(txn, false)? { self.give(txn) } else { Ok(None) }
    }

    /// Moves to the last pair and gives it.
    pub fn last<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.stand_at_end(txn, true)? { self.give(txn) } else { Ok(None) }
    }

    /// Moves to the first pair, or with `last` to the last one, as [`Cursor::first`] and
    /// [`Cursor::last`] do, but does not give it. False if there is none.
    ///
    /// # Errors
    /// As theirs.
    pub fn move_to_end<S: Snapshot>(&mut self, txn: &S, last: bool) -> Result<bool> {
        let is_there = self.stand_at_end(txn, last)?;
        if S::WRITES && is_there {
            self.give(txn)?;
        }
        Ok(is_there)
    }

    /// Moves to the first value of exactly this key. If the key is not found, the cursor stands
    /// nowhere.
    pub fn seek<'t, S: Snapshot>(&mut self, txn: &'t S, key: &[u8]) -> Result<Option<Entry<'t>>> {
        match self.seek_near(txn, key)? {
            Some((entry, true)) => Ok(Some(entry)),
            _ => {
                self.leave(State::Nowhere);
                Ok(None)
            }
        }
    }

    /// Moves to the first pair whose key is at or after `key`, and says whether its key equals
    /// `key` (by the table's order, which may take different bytes for equal).
    pub fn seek_near<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
    ) -> Result<Option<(Entry<'t>, bool)>> {
        let table = self.check(txn)?;
        self.leave(State::Nowhere);
        let Some(exact) = self.seek_side(txn, table, key, Side::First, false)? else {
            return Ok(None);
        };
        Ok(self.give(txn)?.map(|entry| (entry, exact)))
    }

    /// Moves to the first pair whose key is at or after `key`, or if there is none to the last one,
    /// and says how its key compares with `key`. `None` in an empty table.
    ///
    /// Keys that are asked for in about their order are looked for near the cursor first, which
    /// spares most of the search.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use std::cmp::Ordering;
    ///
    /// use hedgerow::tree::{Snapshot, TableOptions};
    /// let mut txn = store.begin_write()?;
    /// let table = txn.create_table("t", &TableOptions::new())?;
    /// for key in [b"b", b"d"] {
    ///     txn.put(table, key, b"")?;
    /// }
    /// let mut cursor = txn.cursor(table)?;
    /// let (entry, order) = cursor.seek_beside(&txn, b"c")?.unwrap();
    /// assert!(entry.key == b"d" && order == Ordering::Greater);
    /// let (entry, order) = cursor.seek_beside(&txn, b"e")?.unwrap();
    /// assert!(entry.key == b"d" && order == Ordering::Less);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A damaged page, the interruption flag, another transaction.
    pub fn seek_beside<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
    ) -> Result<Option<(Entry<'t>, Ordering)>> {
        let table = self.check(txn)?;
        if let Some(seen) = self.seek_in_leaf(txn, table, key)? {
            return Ok(self.give(txn)?.map(|entry| (entry, seen)));
        }
        self.leave(State::Nowhere);
        let order = &table.tree.form.keys;
        let seen = match self.seek_side(txn, table, key, Side::First, false)? {
            Some(true) => Ordering::Equal,
            Some(false) if self.stand_on_equal_before(txn, order, key)? => Ordering::Equal,
            Some(false) => Ordering::Greater,
            None if self.path.depth == 0 => return Ok(None),
            None => self.stand_on_last(txn)?,
        };
        Ok(self.give(txn)?.map(|entry| (entry, seen)))
    }

    /// Where a search has ended at the beginning of a leaf, on an entry after the key: stands on
    /// the last entry of the leaf before, if that is equal to the key. True if it does.
    ///
    /// A custom order may take the beginning of keys for equal to all keys that begin so. Then a
    /// separator is equal as well, and the search has gone to the leaf after it, also where the
    /// entry that the separator was made of is gone and another one that is equal stands before it.
    fn stand_on_equal_before<S: Snapshot>(
        &mut self,
        txn: &S,
        order: &KeyOrder,
        key: &[u8],
    ) -> Result<bool> {
        if self.slot > 0 || !matches!(order, KeyOrder::Custom(_)) {
            return Ok(false);
        }
        let mut path = self.path;
        let Some(page) = path.previous_leaf(txn.pages())? else { return Ok(false) };
        let last = page.len() - 1;
        let stored = search::key_bytes(txn.pages(), &page.leaf_record(last))?;
        if order.compare_bytes(&stored, key).is_ne() {
            return Ok(false);
        }
        self.path = path;
        self.stand(txn, page, last, true);
        Ok(true)
    }

    /// Stands on the last pair of the leaf where a search has ended, after all entries.
    fn stand_on_last<S: Snapshot>(&mut self, txn: &S) -> Result<Ordering> {
        let page = txn.pages().page(self.path.steps[0].page, 0)?;
        self.stand(txn, page, page.len() - 1, true);
        Ok(Ordering::Less)
    }

    /// As [`Cursor::seek_beside`], if that ends in the leaf where the cursor is; else the cursor
    /// has not moved.
    fn seek_in_leaf<S: Snapshot>(
        &mut self,
        txn: &S,
        table: &OpenTable,
        key: &[u8],
    ) -> Result<Option<Ordering>> {
        let is_somewhere = matches!(self.state, State::On | State::Before);
        if self.is_paired || !is_somewhere || !self.has_leaf(txn) {
            return Ok(None);
        }
        if self.habits.strayed >= STRAYED {
            self.habits.strayed += 1;
            if self.habits.strayed < STRAYED + PAUSE {
                return Ok(None);
            }
            self.habits.strayed = STRAYED - 1;
        }
        self.catch_up();
        let page = self.page();
        if page.len() == 0 {
            return Ok(None);
        }
        let (slot, is_equal) =
            leaf_slot_near(txn.pages(), &table.tree.form.keys, page, key, self.slot)?;
        let is_here = is_equal || slot > 0 && slot < page.len();
        if is_here {
            self.habits.strayed = 0;
            self.stand(txn, page, slot, false);
            return Ok(Some(if is_equal { Ordering::Equal } else { Ordering::Greater }));
        }
        if slot > 0 && self.path.is_at_end(txn.pages())? {
            self.habits.strayed = 0;
            return self.stand_on_last(txn).map(Some);
        }
        self.habits.strayed += 1;
        Ok(None)
    }

    /// Moves to the first pair whose key is at or after `key`.
    pub fn seek_at_or_after<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
    ) -> Result<Option<Entry<'t>>> {
        self.seek_and_give(txn, key, Side::First, false)
    }

    /// Moves to the last pair whose key is at or before `key`.
    pub fn seek_at_or_before<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
    ) -> Result<Option<Entry<'t>>> {
        self.seek_and_give(txn, key, Side::Last, true)
    }

    /// Moves to exactly this pair. If it is not found, the cursor stands nowhere.
    pub fn seek_pair<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Entry<'t>>> {
        let table = self.check(txn)?;
        self.leave(State::Nowhere);
        if !self.place(txn, table, key, value)? {
            return Ok(None);
        }
        match self.give(txn)? {
            // Without duplicates only the key was looked for.
            Some(entry) if table.tree.form.values.is_some() || entry.value == *value => {
                Ok(Some(entry))
            }
            _ => {
                self.leave(State::Nowhere);
                Ok(None)
            }
        }
    }

    /// Moves to the first value of this key that is at or after `value`.
    pub fn seek_value_at_or_after<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Entry<'t>>> {
        let table = self.check(txn)?;
        let duplicates = table.tree.form.values.is_some();
        let side = if duplicates { Side::At(value) } else { Side::First };
        match self.seek_and_give(txn, key, side, false)? {
            Some(entry)
                if table.tree.form.keys.compare_bytes(&entry.key, key).is_eq()
                    && (duplicates || entry.value.cmp_slice(value).is_ge()) =>
            {
                Ok(Some(entry))
            }
            _ => {
                self.leave(State::Nowhere);
                Ok(None)
            }
        }
    }

    /// Moves to the pair with exactly `n` pairs before it.
    pub fn seek_nth<'t, S: Snapshot>(&mut self, txn: &'t S, n: u64) -> Result<Option<Entry<'t>>> {
        let table = self.check(txn)?;
        self.leave(State::Nowhere);
        match rank::seek_nth(txn.pages(), &table.tree, n, &mut self.path)? {
            Some(nth) => {
                self.stand(txn, nth.page, nth.slot, false);
                self.set_value(nth.value);
                self.give(txn)
            }
            None => Ok(None),
        }
    }

    /// How many pairs stand before the one under the cursor; `None` if it stands on none. It looks
    /// at the pages of its way down only.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use hedgerow::tree::{Snapshot, TableOptions};
    /// let mut txn = store.begin_write()?;
    /// let table = txn.create_table("t", &TableOptions::new())?;
    /// for key in [b"a", b"b", b"c"] {
    ///     txn.put(table, key, b"")?;
    /// }
    /// let mut cursor = txn.cursor(table)?;
    /// assert_eq!(cursor.rank(&txn)?, None);
    /// cursor.seek(&txn, b"c")?;
    /// assert_eq!(cursor.rank(&txn)?, Some(2));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A damaged page, another transaction.
    pub fn rank<S: Snapshot>(&mut self, txn: &S) -> Result<Option<u64>> {
        if self.settle(txn)? != State::On {
            return Ok(None);
        }
        let own = if self.is_paired { self.page().values_before(self.slot) } else { self.slot };
        let mut before = (own + self.value) as u64;
        for level in 1..self.path.depth {
            let step = self.path.steps[level];
            let page = txn.pages().page(step.page, level as u8)?;
            // The counters of a damaged tree may be anything.
            before = before.wrapping_add(page.count_before(step.slot as usize).values);
        }
        Ok(Some(before))
    }

    /// How many entries there are from the one that the cursor is on to a key, that of the key not
    /// among them, if the leaf of the cursor, to which it came last, has an entry at or after the
    /// key. `None` if it has none, or if the key is before all of the leaf.
    ///
    /// # Errors
    /// A damaged page, another transaction.
    #[doc(hidden)]
    pub fn count_to<S: Snapshot>(&mut self, txn: &S, key: &[u8]) -> Result<Option<u64>> {
        if self.is_paired || !self.stands(txn) {
            return Ok(None);
        }
        self.catch_up();
        let (order, page) = (&self.check(txn)?.tree.form.keys, self.page());
        let (slot, _) = leaf_slot_near(txn.pages(), order, page, key, self.slot)?;
        Ok((self.slot..page.len()).contains(&slot).then(|| (slot - self.slot) as u64))
    }

    /// Seeks, and gives the entry found; if there is none the cursor stands nowhere.
    pub(crate) fn seek_and_give<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
        side: Side<'_>,
        before: bool,
    ) -> Answer<'t> {
        let table = self.check(txn)?;
        self.leave(State::Nowhere);
        match self.seek_side(txn, table, key, side, before)? {
            Some(_) => self.give(txn),
            None => Ok(None),
        }
    }

    /// The pair at or after (backwards: before) the entry that was deleted.
    pub(super) fn seek_saved<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        backwards: bool,
    ) -> Answer<'t> {
        let table = txn.open_table(self.table)?;
        let (key, data) = (std::mem::take(&mut self.kept.key), std::mem::take(&mut self.kept.data));
        let side = if table.tree.form.values.is_some() { Side::At(&data) } else { Side::First };
        let state = self.state;
        let found = match self.seek_side(txn, table, &key, side, backwards) {
            Ok(Some(_)) => return self.give(txn),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        (self.kept.key, self.kept.data) = (key, data);
        self.leave(state);
        found
    }

    /// Stands on the first pair at or after (`key`, `side`), or with `before` on the last one
    /// before it, and says whether the key was found. `None` (and the cursor is anywhere) if there
    /// is none.
    pub(super) fn seek_side<S: Snapshot>(
        &mut self,
        txn: &S,
        table: &OpenTable,
        key: &[u8],
        side: Side<'_>,
        before: bool,
    ) -> Result<Option<bool>> {
        let (pages, tree) = (txn.pages(), &table.tree);
        let Some(mut page) = self.path.seek(pages, tree, key, side)? else { return Ok(None) };
        let (mut slot, mut found) = leaf_slot(pages, &tree.form.keys, page, key)?;
        let mut value = 0;
        if found {
            let record = page.leaf_record(slot);
            value = match (side, &tree.form.values) {
                (Side::First, _) => 0,
                (Side::Last, _) | (Side::At(_), None) => record.value_count(),
                (Side::At(value), Some(order)) => value_slot(order, &record, value).0,
            };
            if value == record.value_count() {
                (slot, value) = (slot + 1, 0);
            }
        }
        if before {
            return Ok(self.stand_before(txn, page, slot, value)?.then_some(found));
        }
        if slot == page.len() {
            let Some(next) = self.path.next_leaf(pages)? else { return Ok(None) };
            (page, slot) = (next, 0);
            found = found || begins_with(pages, &tree.form.keys, page, key)?;
        }
        self.stand(txn, page, slot, false);
        if value > 0 {
            self.set_value(value);
        }
        Ok(Some(found))
    }

    /// Stands on the pair before value `value` of group `slot`.
    fn stand_before<S: Snapshot>(
        &mut self,
        txn: &S,
        page: Page<'_>,
        slot: usize,
        value: usize,
    ) -> Result<bool> {
        if value > 0 {
            self.stand(txn, page, slot, false);
            self.set_value(value - 1);
            return Ok(true);
        }
        if slot > 0 {
            self.stand(txn, page, slot - 1, true);
            return Ok(true);
        }
        let Some(page) = self.path.previous_leaf(txn.pages())? else { return Ok(false) };
        self.stand(txn, page, page.len() - 1, true);
        Ok(true)
    }

    /// Stands on the first or last pair. The cursor of a write transaction has yet to save it.
    #[inline(always)]
    fn stand_at_end<S: Snapshot>(&mut self, txn: &S, last: bool) -> Result<bool> {
        let table = self.check(txn)?;
        self.leave(State::Nowhere);
        let end = |page: Page<'_>| if last { page.len() - 1 } else { 0 };
        let Some(page) = self.path.descend(txn.pages(), &table.tree, |page| Ok(end(page)))? else {
            return Ok(false);
        };
        self.stand(txn, page, end(page), last);
        Ok(true)
    }

    /// Stands on a pair (in a table without duplicates: on a key), if it is there.
    pub(super) fn place<S: Snapshot>(
        &mut self,
        txn: &S,
        table: &OpenTable,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        let place = locate(txn.pages(), &table.tree, key, value)?;
        if !place.found {
            return Ok(false);
        }
        self.path = place.path;
        let page = txn.pages().page(self.path.steps[0].page, 0)?;
        self.stand(txn, page, place.slot, false);
        self.set_value(place.value);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Order, Store, TableOptions};

    /// Keys of three bytes, of which a shorter one is equal to all that begin so.
    fn by_front(a: &[u8], b: &[u8]) -> Ordering {
        let len = a.len().min(b.len());
        a[..len].cmp(&b[..len])
    }

    #[test]
    fn a_beginning_is_found_on_either_side_of_a_separator() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path().join("store")).unwrap();
        let mut txn = store.begin_write().unwrap();
        let options = TableOptions::new().order(Order::custom("front", by_front));
        let table = txn.create_table("t", &options).unwrap();
        let key = |i: u16, last: u8| [i.to_be_bytes()[0], i.to_be_bytes()[1], last];
        let count = 3000;
        (0..count).for_each(|i| txn.put(table, &key(i, 100), b"value").unwrap());
        // Separators stay what they are, and entries come to their other side.
        for last in [50, 150] {
            for i in 0..count {
                let mut cursor = txn.cursor(table).unwrap();
                cursor.seek_beside(&txn, &i.to_be_bytes()).unwrap();
                assert!(cursor.delete(&mut txn).unwrap());
                txn.put(table, &key(i, last), b"value").unwrap();
            }
            let mut cursor = txn.cursor(table).unwrap();
            for step in [1, 7, 1013] {
                for i in (0..count).map(|i| (u32::from(i) * step % u32::from(count)) as u16) {
                    let (entry, seen) =
                        cursor.seek_beside(&txn, &i.to_be_bytes()).unwrap().unwrap();
                    assert_eq!((entry.key.to_vec(), seen), (key(i, last).into(), Ordering::Equal));
                }
            }
        }
    }
}
