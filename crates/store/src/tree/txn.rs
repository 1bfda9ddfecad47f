//! Read and write transactions.

use std::ops::Bound;

use super::{Bytes, Count, Durability, Table, TableOptions};
use crate::Result;

/// A snapshot of the store. Owned, `Send` and `Sync`; as cheap as a few loads and stores to begin.
pub struct ReadTxn {}

/// The one write transaction. Dropped without commit it leaves no trace.
pub struct WriteTxn {}

/// A nested transaction: all of [`WriteTxn`]'s calls (it derefs to it), and gone without trace
/// unless committed.
pub struct Nested<'p> {
    _parent: &'p mut WriteTxn,
}

/// A mark in a write transaction to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {}

/// What [`WriteTxn::update`] does with an entry.
pub enum Update {
    /** leave as is */
    Keep,
    /** store */
    Put(Vec<u8>),
    /** remove */
    Delete,
}

/// Writes one large value in parts (`io::Write`); `finish` puts it.
pub struct ValueWriter<'t> {
    _txn: &'t mut WriteTxn,
}

#[allow(unused_variables, missing_docs)]
impl ReadTxn {
    /// The number of the commit it reads.
    pub fn id(&self) -> u64 {
        unimplemented!()
    }
    /// Lets the snapshot go but keeps the slot, for a cheap `renew`. Handles become invalid.
    pub fn reset(&mut self) {
        unimplemented!()
    }
    /// Takes the newest snapshot.
    pub fn renew(&mut self) -> Result<()> {
        unimplemented!()
    }
}

#[allow(unused_variables, missing_docs)]
impl WriteTxn {
    pub fn id(&self) -> u64 {
        unimplemented!()
    }
    /// Opens the table, creating it if it is not there; options are checked if it is.
    pub fn create_table(
        &mut self,
        name: impl AsRef<[u8]>,
        options: &TableOptions,
    ) -> Result<Table> {
        unimplemented!()
    }
    pub fn drop_table(&mut self, name: impl AsRef<[u8]>) -> Result<bool> {
        unimplemented!()
    }
    pub fn rename_table(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        unimplemented!()
    }
    /// Deletes all entries; costs the pages freed.
    pub fn clear_table(&mut self, table: Table) -> Result<()> {
        unimplemented!()
    }

    /// Stores a value (replacing the old one), or adds a pair to a table with duplicates.
    pub fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// Stores only if the key is absent; else returns the (first) value that is there.
    pub fn put_new(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<Option<Bytes<'_>>> {
        unimplemented!()
    }
    /// Adds a pair to a table with duplicates; false if it was there.
    pub fn put_pair(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<bool> {
        unimplemented!()
    }
    /// Stores and returns a copy of the value that was there. Not for tables with duplicates.
    pub fn replace(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        unimplemented!()
    }
    /// As `put`, but the entry must come after the last one (else `Error::NotLast`).
    pub fn append(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// Makes room for a value of `len` bytes and returns it for writing. Not for duplicates.
    pub fn reserve(&mut self, table: Table, key: &[u8], len: usize) -> Result<&mut [u8]> {
        unimplemented!()
    }
    /// Writes a value of `len` bytes in parts, never holding it in memory.
    pub fn value_writer(&mut self, table: Table, key: &[u8], len: u64) -> Result<ValueWriter<'_>> {
        unimplemented!()
    }
    /// Reads, decides and writes one entry in one descent.
    pub fn update(
        &mut self,
        table: Table,
        key: &[u8],
        f: impl FnOnce(Option<Bytes<'_>>) -> Update,
    ) -> Result<()> {
        unimplemented!()
    }
    /// Deletes a key with all its values; false if it was not there.
    pub fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool> {
        unimplemented!()
    }
    /// Deletes one value of a key.
    pub fn delete_pair(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<bool> {
        unimplemented!()
    }
    /// Deletes all entries whose keys lie in a range; whole pages go unread.
    pub fn delete_range(
        &mut self,
        table: Table,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
    ) -> Result<Count> {
        unimplemented!()
    }

    pub fn savepoint(&mut self) -> Savepoint {
        unimplemented!()
    }
    /// Undoes everything since; the savepoint stays.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        unimplemented!()
    }
    /// Forgets the savepoint (and later ones); the changes stay.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        unimplemented!()
    }
    pub fn begin_nested(&mut self) -> Result<Nested<'_>> {
        unimplemented!()
    }
    /// With the store's durability.
    pub fn commit(self) -> Result<()> {
        unimplemented!()
    }
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        unimplemented!()
    }
    pub fn abort(self) {
        unimplemented!()
    }
}

#[allow(unused_variables, missing_docs)]
impl Nested<'_> {
    pub fn commit(self) -> Result<()> {
        unimplemented!()
    }
    pub fn abort(self) {
        unimplemented!()
    }
}
impl std::ops::Deref for Nested<'_> {
    type Target = WriteTxn;
    fn deref(&self) -> &WriteTxn {
        self._parent
    }
}
impl std::ops::DerefMut for Nested<'_> {
    fn deref_mut(&mut self) -> &mut WriteTxn {
        self._parent
    }
}

#[allow(unused_variables, missing_docs)]
impl ValueWriter<'_> {
    /// Puts the entry; all `len` bytes must have been written.
    pub fn finish(self) -> Result<()> {
        unimplemented!()
    }
}
impl std::io::Write for ValueWriter<'_> {
    fn write(&mut self, _b: &[u8]) -> std::io::Result<usize> {
        unimplemented!()
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
