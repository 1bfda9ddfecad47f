//! A typed table in which a key has any number of values, in their order.

use std::marker::PhantomData;
use std::ops::RangeBounds;

use super::{TypedRange, decode_entry};
use crate::key::KeyCode;
use crate::key::typed::{self, check, encode, encode_bounds, fingerprint, type_names};
use crate::tree::{Count, Rank, Snapshot, Table, TableOptions, WriteTxn};
use crate::{Error, Result};

const KIND: &str = typed::MULTIMAP;

/// A table from keys of type `K` to sets of values of type `V`, as seen by one transaction.
///
/// The values of a key are distinct and in order. If all values have the same width, they are
/// stored packed.
///
/// ```
/// use hedgerow::tree::{Store, TypedMultimap};
///
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("store");
/// let store = Store::create(&path)?;
/// let mut txn = store.begin_write()?;
/// let pages = TypedMultimap::<String, u32>::create(&mut txn, "index")?;
/// for (word, page) in [("oak", 12), ("elm", 7), ("oak", 3), ("oak", 12)] {
///     pages.put(&mut txn, word, page)?;
/// }
/// assert_eq!(pages.values(&txn, "oak")?, [3, 12]);
/// assert_eq!(pages.count(&txn)?.keys, 2);
/// assert_eq!(pages.count(&txn)?.values, 3);
/// # txn.commit() }
/// ```
pub struct TypedMultimap<K, V> {
    table: Table,
    types: PhantomData<fn() -> (K, V)>,
}

of_both!(TypedMultimap, KeyCode);

impl<K: KeyCode, V: KeyCode> TypedMultimap<K, V> {
    /// Opens the table of that name, or creates it if it does not exist.
    ///
    /// # Errors
    /// [`Error::TableOptions`] if it is there with other types.
    pub fn create(txn: &mut WriteTxn, name: impl AsRef<[u8]>) -> Result<Self> {
        let options = TableOptions::new().user_flags(fingerprint::<K, V>(KIND));
        let options = match <V as KeyCode>::FIXED_WIDTH {
            None | Some(0) => options.duplicates(),
            Some(width) => {
                let width = u32::try_from(width).map_err(|_| {
                    Error::argument(format!("values of {width} bytes are too long"))
                })?;
                options.fixed_duplicates(width)
            }
        };
        let table = txn.create_table(name, &options)?;
        Self::checked(txn, table)
    }

    /// All values of a key in order; none if the key is absent.
    pub fn values(&self, txn: &impl Snapshot, key: K::Ref<'_>) -> Result<Vec<V>> {
        let mut values = Vec::new();
        let mut failure = None;
        txn.for_each_value(self.table, &encode::<K>(key), |value| {
            match <V as KeyCode>::decode(&value.to_cow()) {
                Ok(value) => values.push(value),
                Err(error) => failure = Some(error),
            }
        })?;
        match failure {
            None => Ok(values),
            Some(error) => Err(error.into()),
        }
    }

    /// The first value of a key.
    pub fn first_value(&self, txn: &impl Snapshot, key: K::Ref<'_>) -> Result<Option<V>> {
        Ok(match txn.get(self.table, &encode::<K>(key))? {
            Some(value) => Some(<V as KeyCode>::decode(&value.to_cow())?),
            None => None,
        })
    }

    /// Whether a key is there.
    pub fn contains_key(&self, txn: &impl Snapshot, key: K::Ref<'_>) -> Result<bool> {
        Ok(txn.get(self.table, &encode::<K>(key))?.is_some())
    }

    /// Whether a key has a value.
    pub fn contains(
        &self,
        txn: &impl Snapshot,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<bool> {
        txn.contains_pair(self.table, &encode::<K>(key), &encode::<V>(value))
    }

    /// Adds a value to a key; false if it was there.
    pub fn put(&self, txn: &mut WriteTxn, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<bool> {
        txn.put_pair(self.table, &encode::<K>(key), &encode::<V>(value))
    }

    /// Adds a value to a key only if the key is absent; otherwise returns its first value.
    pub fn put_new(
        &self,
        txn: &mut WriteTxn,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<Option<V>> {
        Ok(match txn.put_new(self.table, &encode::<K>(key), &encode::<V>(value))? {
            Some(there) => Some(<V as KeyCode>::decode(&there.to_cow())?),
            None => None,
        })
    }

    /// Deletes one value of a key; false if it was not there.
    pub fn delete_value(
        &self,
        txn: &mut WriteTxn,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<bool> {
        txn.delete_pair(self.table, &encode::<K>(key), &encode::<V>(value))
    }

    /// Deletes all keys in a range with their values and returns how many they were.
    pub fn delete_range<'k>(
        &self,
        txn: &mut WriteTxn,
        keys: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<Count> {
        let (low, high) = encode_bounds::<K>(&keys);
        txn.delete_range(self.table, (low, high))
    }

    /// The number of keys and of values.
    pub fn count(&self, txn: &impl Snapshot) -> Result<Count> {
        txn.count(self.table)
    }

    /// The number of keys in a range and of their values; the cost depends on neither.
    pub fn count_range<'k>(
        &self,
        txn: &impl Snapshot,
        keys: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<Count> {
        let (low, high) = encode_bounds::<K>(&keys);
        txn.count_range(self.table, (low, high))
    }

    /// The number of values of a key.
    pub fn count_values(&self, txn: &impl Snapshot, key: K::Ref<'_>) -> Result<u64> {
        txn.count_values(self.table, &encode::<K>(key))
    }

    /// The key with exactly `n` distinct keys before it, and its first value.
    pub fn nth_key(&self, txn: &impl Snapshot, n: u64) -> Result<Option<(K, V)>> {
        txn.nth_key(self.table, n)?.map(decode_entry).transpose()
    }

    /// Where a pair stands or would stand.
    pub fn rank_pair(
        &self,
        txn: &impl Snapshot,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<Rank> {
        txn.rank_pair(self.table, &encode::<K>(key), &encode::<V>(value))
    }
}
