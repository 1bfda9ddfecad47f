//! Cursors: moving from key to key, and along the values of one key.

use super::{Answer, Cursor, State};
use crate::Result;
use crate::tree::page::Page;
use crate::tree::page::group::ValueRun;
use crate::tree::page::search::Side;
use crate::tree::{Entry, Snapshot};

impl Cursor {
    /// Moves to the first value of the next key, or of the first key if the cursor stands nowhere.
    pub fn next_key<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.settle(txn)? == State::On {
            if self.ends_here() {
                return self.step_key(txn, true);
            }
            let here = self.path;
            match self.path.next_leaf(txn.pages())? {
                None => return Ok(None),
                // If the key continues in the next leaf, the next key comes after that.
                Some(page) if !page.continues() || page.len() > 1 => {
                    self.stand(txn, page, usize::from(page.continues()), false);
                    return self.give(txn);
                }
                Some(_) => self.path = here,
            }
        }
        let Some(key) = self.saved_key(txn)? else { return self.first(txn) };
        self.move_or_stay(txn, &key, Side::Last, false)
    }

    /// Moves to the last value of the previous key, or of the last key if the cursor stands
    /// nowhere.
    pub fn prev_key<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.settle(txn)? == State::On {
            if self.begins_here() {
                return self.step_key(txn, false);
            }
            // The last group of the leaf before has the key, too.
            let here = self.path;
            match self.path.previous_leaf(txn.pages())? {
                Some(page) if page.len() > 1 => {
                    self.stand(txn, page, page.len() - 2, true);
                    return self.give(txn);
                }
                _ => self.path = here,
            }
        }
        let Some(key) = self.saved_key(txn)? else { return self.last(txn) };
        self.move_or_stay(txn, &key, Side::First, true)
    }

    /// Moves to the next value of this key; `None` at its last one, where the cursor stays.
    pub fn next_value<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.settle(txn)? == State::On {
            if self.value + 1 < self.values {
                self.set_value(self.value + 1);
                return self.give(txn);
            }
            if self.ends_here() {
                return Ok(None);
            }
        }
        self.within_key(txn, |cursor| cursor.next(txn))
    }

    /// Moves to the previous value of this key; `None` at its first one, where the cursor stays.
    pub fn prev_value<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.settle(txn)? == State::On {
            if self.value > 0 {
                self.set_value(self.value - 1);
                return self.give(txn);
            }
            if self.begins_here() {
                return Ok(None);
            }
        }
        self.within_key(txn, |cursor| cursor.prev(txn))
    }

    /// Moves to the first value of this key.
    pub fn first_value<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.settle(txn)? == State::On && self.begins_here() {
            self.set_value(0);
            return self.give(txn);
        }
        let Some(key) = self.saved_key(txn)? else { return Ok(None) };
        self.within_key(txn, |cursor| cursor.seek_and_give(txn, &key, Side::First, false))
    }

    /// Moves to the last value of this key.
    pub fn last_value<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.settle(txn)? == State::On && self.ends_here() {
            self.set_value(self.values - 1);
            return self.give(txn);
        }
        let Some(key) = self.saved_key(txn)? else { return Ok(None) };
        self.within_key(txn, |cursor| cursor.seek_and_give(txn, &key, Side::Last, true))
    }

    /// Goes to the first value of the block of which [`Cursor::value_block`] gives all. False, and
    /// the cursor stays, if it stands on no entry.
    ///
    /// # Errors
    /// As those of [`Cursor::next`].
    pub fn first_of_block<S: Snapshot>(&mut self, txn: &S, most: usize) -> Result<bool> {
        if self.settle(txn)? != State::On || most == 0 {
            return Ok(false);
        }
        self.set_value(self.value - self.value % most);
        if S::WRITES {
            self.give(txn)?;
        }
        Ok(true)
    }

    /// The values of the key in the leaf, in blocks of at most `most` counted from the first one
    /// there: the block in which the cursor stands, which then stands on the last value of it. So
    /// every value is in one block only, and a block is where its leaf is. `None`, and the cursor
    /// stays, if it stands on no entry, on a long value, or if the values differ in length.
    ///
    /// # Errors
    /// As those of [`Cursor::next`].
    pub fn value_block<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        most: usize,
    ) -> Result<Option<ValueRun<'t>>> {
        if self.settle(txn)? != State::On || most == 0 {
            return Ok(None);
        }
        let page: Page<'t> = self.page();
        let record = page.leaf_record(self.slot);
        let first = self.value - self.value % most;
        let count = (self.values - first).min(most);
        let run = match record.group() {
            Some(group) => group.run(first, count),
            None => record.is_plain().then(|| ValueRun::of(record.inline_value())),
        };
        if run.is_some() {
            self.set_value(first + count - 1);
            if S::WRITES {
                self.give(txn)?;
            }
        }
        Ok(run)
    }

    /// How many values the current key has; 0 if the cursor stands nowhere.
    pub fn value_count<S: Snapshot>(&mut self, txn: &S) -> Result<u64> {
        if self.settle(txn)? == State::On && self.begins_here() && self.ends_here() {
            return Ok(self.values as u64);
        }
        match self.saved_key(txn)? {
            Some(key) => txn.count_values(self.table, &key),
            None => Ok(0),
        }
    }

    /// Whether the current key has one value; false if the cursor stands nowhere. Cheaper than to
    /// count them.
    pub fn has_one_value<S: Snapshot>(&mut self, txn: &S) -> Result<bool> {
        Ok(self.settle(txn)? == State::On && self.values == 1 && self.value_count(txn)? == 1)
    }

    /// Goes to a value of the group at whose slot the cursor is, also where it is on none.
    pub(super) fn step_to_value<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        value: usize,
    ) -> Answer<'t> {
        self.stand(txn, self.page(), self.slot, false);
        if value > 0 {
            self.set_value(value);
        }
        self.give(txn)
    }

    /// Seeks; where there is nothing the cursor stays as it is.
    fn move_or_stay<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
        side: Side<'_>,
        before: bool,
    ) -> Answer<'t> {
        let table = self.check(txn)?;
        let mut moved = self.clone();
        if moved.seek_side(txn, table, key, side, before)?.is_none() {
            return Ok(None);
        }
        *self = moved;
        self.give(txn)
    }

    /// Makes a step, and takes it back if it leads to another key.
    fn within_key<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        step: impl FnOnce(&mut Self) -> Answer<'t>,
    ) -> Answer<'t> {
        let Some(key) = self.saved_key(txn)? else { return Ok(None) };
        let mut moved = self.clone();
        match step(&mut moved)? {
            Some(entry) if entry.key == key[..] => {
                *self = moved;
                Ok(Some(entry))
            }
            _ => Ok(None),
        }
    }

    /// Whether the group under the cursor, which is on an entry, ends in this leaf.
    pub(super) fn ends_here(&self) -> bool {
        self.slot + 1 < self.page().len()
    }

    /// Whether the group under the cursor, which is on an entry, begins in this leaf.
    pub(super) fn begins_here(&self) -> bool {
        self.slot > 0 || !self.page().continues()
    }
}
