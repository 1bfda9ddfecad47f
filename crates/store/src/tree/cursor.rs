//! Cursors: a place in a table, detached from the transaction's borrow.

use super::{Entry, Snapshot, WriteTxn};
use crate::Result;

/// A place in one table of one transaction. Every call names the transaction; a cursor used with
/// another one answers [`Error::WrongTransaction`](crate::Error::WrongTransaction). It stays right
/// when the table is changed through the transaction or another cursor.
#[derive(Clone, Debug)]
pub struct Cursor {}

#[allow(unused_variables, missing_docs)]
impl Cursor {
    pub fn first<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    pub fn last<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    /// Next pair; the first one if the cursor stands nowhere. At the end: `None`, the cursor stays.
    pub fn next<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    pub fn prev<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    /// First value of the next key.
    pub fn next_key<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    /// Last value of the previous key.
    pub fn prev_key<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    /// Next value of this key.
    pub fn next_value<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    pub fn prev_value<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    pub fn first_value<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    pub fn last_value<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    pub fn current<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    /// Exactly this key.
    pub fn seek<'t, S: Snapshot>(&mut self, txn: &'t S, key: &[u8]) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    /// First entry whose key is at or after `key`.
    pub fn seek_at_or_after<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
    ) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    /// Last entry whose key is at or before `key`.
    pub fn seek_at_or_before<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
    ) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    pub fn seek_pair<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    /// This key, first value at or after `value`.
    pub fn seek_value_at_or_after<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    /// The entry with `n` entries before it.
    pub fn seek_nth<'t, S: Snapshot>(&mut self, txn: &'t S, n: u64) -> Result<Option<Entry<'t>>> {
        unimplemented!()
    }
    /// Number of values of the current key.
    pub fn value_count<S: Snapshot>(&mut self, txn: &S) -> Result<u64> {
        unimplemented!()
    }
    /// Replaces the value at the cursor (with duplicates: deletes the pair and puts the new one).
    pub fn put_current(&mut self, txn: &mut WriteTxn, value: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// Puts an entry and stands on it.
    pub fn put(&mut self, txn: &mut WriteTxn, key: &[u8], value: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// Deletes the pair at the cursor; `next` then gives its successor.
    pub fn delete(&mut self, txn: &mut WriteTxn) -> Result<bool> {
        unimplemented!()
    }
    /// Deletes the key at the cursor with all values.
    pub fn delete_key(&mut self, txn: &mut WriteTxn) -> Result<bool> {
        unimplemented!()
    }
}
