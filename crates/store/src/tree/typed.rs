//! Typed tables: a table of bytes seen through a pair of [`KeyCode`] and [`ValueCode`] types.
//!
//! Everything here is translation on top of the public interface of the engine; it decides nothing
//! about pages, order or counts. The types of a table are held as a fingerprint in the table's user
//! flags, so that it cannot be opened as something else by mistake.

/// What both kinds of typed table have, whose values are of these types.
macro_rules! of_both {
    ($table:ident, $value:ident) => {
        impl<K: KeyCode, V: $value> $table<K, V> {
            /// Opens a table that exists.
            ///
            /// # Errors
            /// [`Error::NoTable`](crate::Error::NoTable) if it does not exist,
            /// [`Error::TableOptions`](crate::Error::TableOptions) if it has other types.
            pub fn open(txn: &impl Snapshot, name: impl AsRef<[u8]>) -> Result<Self> {
                let table = txn.table(name)?;
                Self::checked(txn, table)
            }

            fn checked(txn: &impl Snapshot, table: Table) -> Result<Self> {
                let info = txn.table_info(table)?;
                check::<K, V>(KIND, &info.name, info.user_flags)?;
                Ok(Self { table, types: PhantomData })
            }

            /// The underlying table of bytes, for what has no typed form: cursors, samples,
            /// statistics.
            pub fn table(&self) -> Table {
                self.table
            }

            /// Deletes a key and what it has; false if it was not there.
            pub fn delete(&self, txn: &mut WriteTxn, key: K::Ref<'_>) -> Result<bool> {
                txn.delete(self.table, &encode::<K>(key))
            }

            /// Iterates over the entries whose keys lie in a range, from both ends.
            pub fn range<'t, 'k, S: Snapshot>(
                &self,
                txn: &'t S,
                keys: impl RangeBounds<K::Ref<'k>>,
            ) -> Result<TypedRange<'t, S, K, V>> {
                TypedRange::new(txn, self.table, keys)
            }

            /// Iterates over all entries, from both ends.
            pub fn iter<'t, S: Snapshot>(&self, txn: &'t S) -> Result<TypedRange<'t, S, K, V>> {
                self.range(txn, ..)
            }

            /// The first key, and its first value.
            pub fn first(&self, txn: &impl Snapshot) -> Result<Option<(K, V)>> {
                self.iter(txn)?.next().transpose()
            }

            /// The last key, and its last value.
            pub fn last(&self, txn: &impl Snapshot) -> Result<Option<(K, V)>> {
                self.iter(txn)?.next_back().transpose()
            }

            /// The entry with exactly `n` entries before it.
            pub fn nth(&self, txn: &impl Snapshot, n: u64) -> Result<Option<(K, V)>> {
                txn.nth(self.table, n)?.map(decode_entry).transpose()
            }

            /// Where a key stands or would stand.
            pub fn rank(&self, txn: &impl Snapshot, key: K::Ref<'_>) -> Result<Rank> {
                txn.rank(self.table, &encode::<K>(key))
            }
        }

        impl<K, V> Clone for $table<K, V> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<K, V> Copy for $table<K, V> {}

        impl<K: KeyCode, V: $value> std::fmt::Debug for $table<K, V> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{} ({:?})", type_names::<K, V>(KIND), self.table)
            }
        }
    };
}

mod multimap;
mod table;

use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::RangeBounds;

pub use multimap::TypedMultimap;
pub use table::TypedTable;

use super::{Entry, Range, Snapshot, Table};
use crate::Result;
use crate::key::typed::{MULTIMAP, TABLE, decode_pair, encode_bounds, flags};
use crate::key::{KeyCode, ValueCode};

/// Iterates over the entries of a typed table from both ends.
///
/// Made by [`TypedTable::range`] and [`TypedMultimap::range`]. Like [`Range`], it does not walk the
/// entries that it skips.
pub struct TypedRange<'t, S, K, V> {
    entries: Range<'t, S>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'t, S: Snapshot, K: KeyCode, V: ValueCode> TypedRange<'t, S, K, V> {
    fn new<'k>(txn: &'t S, table: Table, keys: impl RangeBounds<K::Ref<'k>>) -> Result<Self> {
        let (low, high) = encode_bounds::<K>(&keys);
        let entries = txn.range(table, (low, high))?;
        Ok(Self { entries, types: PhantomData })
    }
}

impl<S: Snapshot, K: KeyCode, V: ValueCode> Iterator for TypedRange<'_, S, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next().map(decode)
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        self.entries.nth(n).map(decode)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }

    fn count(self) -> usize {
        self.entries.count()
    }

    fn last(self) -> Option<Self::Item> {
        self.entries.last().map(decode)
    }
}

impl<S: Snapshot, K: KeyCode, V: ValueCode> DoubleEndedIterator for TypedRange<'_, S, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.entries.next_back().map(decode)
    }

    fn nth_back(&mut self, n: usize) -> Option<Self::Item> {
        self.entries.nth_back(n).map(decode)
    }
}

impl<S: Snapshot, K: KeyCode, V: ValueCode> ExactSizeIterator for TypedRange<'_, S, K, V> {}
impl<S: Snapshot, K: KeyCode, V: ValueCode> FusedIterator for TypedRange<'_, S, K, V> {}

fn decode<K: KeyCode, V: ValueCode>(entry: Result<Entry<'_>>) -> Result<(K, V)> {
    entry.and_then(decode_entry)
}

fn decode_entry<K: KeyCode, V: ValueCode>(entry: Entry<'_>) -> Result<(K, V)> {
    decode_pair(&entry.key.to_cow(), &entry.value.to_cow())
}

/// The user flags of a [`TypedTable`], or with `duplicates` a [`TypedMultimap`], whose types have
/// these [names](KeyCode::type_name): for callers that know types only when they run. A
/// [`TypedKeyspace`](crate::lsm::TypedKeyspace) of the same types has those of a `TypedTable`.
///
/// ```
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// use hedgerow::tree::{Snapshot, TypedTable, type_flags};
/// let mut txn = store.begin_write()?;
/// let table = TypedTable::<String, u64>::create(&mut txn, "sizes")?;
/// assert_eq!(txn.table_info(table.table())?.user_flags, type_flags(false, "string", "u64"));
/// # Ok(()) }
/// ```
pub fn type_flags(duplicates: bool, key: &str, value: &str) -> u32 {
    let kind = if duplicates { MULTIMAP } else { TABLE };
    flags(&format!("{kind} {key} -> {value}"))
}
