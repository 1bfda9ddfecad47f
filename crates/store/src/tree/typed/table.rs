//! A typed table in which a key has one value.

use std::marker::PhantomData;
use std::ops::RangeBounds;

use super::{TypedRange, decode_entry};
use crate::Result;
use crate::key::typed::{
    self, check, encode, encode_bounds, encode_value, fingerprint, type_names,
};
use crate::key::{KeyCode, ValueCode};
use crate::tree::{Bytes, Rank, Snapshot, Table, TableOptions, WriteTxn};

const KIND: &str = typed::TABLE;

/// A table from keys of type `K` to values of type `V`, as seen by one transaction.
///
/// It is a small handle on a [`Table`]; each call names the transaction.
///
/// ```
/// use hedgerow::tree::{Snapshot, Store, TypedTable};
///
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("store");
/// let store = Store::create(&path)?;
/// let mut txn = store.begin_write()?;
/// let sizes = TypedTable::<String, u64>::create(&mut txn, "sizes")?;
/// sizes.put(&mut txn, "/usr/bin/awk", 700)?;
/// sizes.put(&mut txn, "/usr/bin/sed", 100)?;
/// txn.commit()?;
///
/// let txn = store.begin_read()?;
/// let sizes = TypedTable::<String, u64>::open(&txn, "sizes")?;
/// assert_eq!(sizes.get(&txn, "/usr/bin/sed")?, Some(100));
/// assert_eq!(sizes.count_range(&txn, "/usr/bin/b"..)?, 1);
/// assert!(TypedTable::<u64, u64>::open(&txn, "sizes").is_err());
/// # Ok(()) }
/// ```
pub struct TypedTable<K, V> {
    table: Table,
    types: PhantomData<fn() -> (K, V)>,
}

of_both!(TypedTable, ValueCode);

impl<K: KeyCode, V: ValueCode> TypedTable<K, V> {
    /// Opens the table of that name, or creates it if it does not exist.
    ///
    /// # Errors
    /// [`Error::TableOptions`](crate::Error::TableOptions) if it is there with other types.
    pub fn create(txn: &mut WriteTxn, name: impl AsRef<[u8]>) -> Result<Self> {
        let options = TableOptions::new().user_flags(fingerprint::<K, V>(KIND));
        let table = txn.create_table(name, &options)?;
        Self::checked(txn, table)
    }

    /// The value of a key.
    pub fn get(&self, txn: &impl Snapshot, key: K::Ref<'_>) -> Result<Option<V>> {
        Ok(match self.get_bytes(txn, key)? {
            Some(value) => Some(V::decode(&value.to_cow())?),
            None => None,
        })
    }

    /// The encoded value of a key, borrowed from the transaction: for large values.
    pub fn get_bytes<'t>(
        &self,
        txn: &'t impl Snapshot,
        key: K::Ref<'_>,
    ) -> Result<Option<Bytes<'t>>> {
        txn.get(self.table, &encode::<K>(key))
    }

    /// Whether a key is there.
    pub fn contains(&self, txn: &impl Snapshot, key: K::Ref<'_>) -> Result<bool> {
        Ok(self.get_bytes(txn, key)?.is_some())
    }

    /// Stores a value, in place of the one that was there.
    pub fn put(&self, txn: &mut WriteTxn, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<()> {
        txn.put(self.table, &encode::<K>(key), &encode_value::<V>(value)?)
    }

    /// Stores a value only if the key is absent; otherwise returns the value that is there.
    pub fn put_new(
        &self,
        txn: &mut WriteTxn,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<Option<V>> {
        Ok(match txn.put_new(self.table, &encode::<K>(key), &encode_value::<V>(value)?)? {
            Some(there) => Some(V::decode(&there.to_cow())?),
            None => None,
        })
    }

    /// Stores a value and returns the one that was there.
    pub fn replace(
        &self,
        txn: &mut WriteTxn,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<Option<V>> {
        Ok(match txn.replace(self.table, &encode::<K>(key), &encode_value::<V>(value)?)? {
            Some(old) => Some(V::decode(&old)?),
            None => None,
        })
    }

    /// Stores an entry that must come after the last one.
    ///
    /// # Errors
    /// [`Error::NotLast`](crate::Error::NotLast) if it does not.
    pub fn append(&self, txn: &mut WriteTxn, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<()> {
        txn.append(self.table, &encode::<K>(key), &encode_value::<V>(value)?)
    }

    /// Deletes all keys in a range and returns how many they were.
    pub fn delete_range<'k>(
        &self,
        txn: &mut WriteTxn,
        keys: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<u64> {
        let (low, high) = encode_bounds::<K>(&keys);
        Ok(txn.delete_range(self.table, (low, high))?.keys)
    }

    /// The number of entries.
    pub fn count(&self, txn: &impl Snapshot) -> Result<u64> {
        Ok(txn.count(self.table)?.keys)
    }

    /// The number of entries in a range; the cost does not depend on it.
    pub fn count_range<'k>(
        &self,
        txn: &impl Snapshot,
        keys: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<u64> {
        let (low, high) = encode_bounds::<K>(&keys);
        Ok(txn.count_range(self.table, (low, high))?.keys)
    }
}
