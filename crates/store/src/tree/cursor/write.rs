//! Cursors: putting and deleting at the cursor's place.

use super::{Cursor, State};
use crate::tree::WriteTxn;
use crate::tree::insert::Place;
use crate::tree::snapshot::sealed::Sealed;
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
        self.note(txn, key, if table.tree.form.values.is_some() { value } else { &[] });
        Ok(())
    }

    /// Stands on an entry of the table, its place to be looked up.
    #[inline(always)]
    fn note(&mut self, txn: &WriteTxn, key: &[u8], value: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.data.clear();
        if !value.is_empty() {
            self.data.extend_from_slice(value);
        }
        self.leave(State::On);
        self.changes = txn.changes().wrapping_sub(1);
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
        let key = self.key.clone();
        if self.is_paired {
            let data = self.data.clone();
            txn.check_value(self.table, value)?;
            txn.delete_pair(self.table, &key, &data)?;
        } else if txn.put_here(self.table, self.place_here(), &key, value)? {
            return self.stand_on(txn, &key, value);
        }
        txn.put(self.table, &key, value)?;
        self.stand_on(txn, &key, value)
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
        let place = self.place_here();
        self.leave(State::Gap);
        if self.is_paired {
            return txn.delete_pair(self.table, &self.key, &self.data);
        }
        Ok(txn.delete_here(self.table, place)? || txn.delete(self.table, &self.key)?)
    }

    /// Deletes the key at the cursor with all its values.
    pub fn delete_key(&mut self, txn: &mut WriteTxn) -> Result<bool> {
        if self.settle(txn)? != State::On {
            return Ok(false);
        }
        self.leave(State::Gap);
        txn.delete(self.table, &self.key)
    }
}
