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
                Ok(Self { table: super::check::<K, V>(txn, table, KIND)?, types: PhantomData })
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
                txn.nth(self.table, n)?.map(super::decode_entry).transpose()
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
                write!(f, "{} ({:?})", super::type_names::<K, V>(KIND), self.table)
            }
        }
    };
}

mod multimap;
mod table;

use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

pub use multimap::TypedMultimap;
pub use table::TypedTable;

use super::{Entry, Range, Snapshot, Table};
use crate::checksum::crc32c;
use crate::key::{KeyCode, ValueCode};
use crate::{Error, Result};

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

/// The bytes of a key or value.
fn encode<T: ValueCode>(value: T::Ref<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(T::FIXED_WIDTH.unwrap_or(32));
    T::encode(value, &mut out);
    out
}

fn decode_entry<K: KeyCode, V: ValueCode>(entry: Entry<'_>) -> Result<(K, V)> {
    let key = <K as KeyCode>::decode(&entry.key.to_cow())?;
    Ok((key, V::decode(&entry.value.to_cow())?))
}

fn encode_bounds<'k, K: KeyCode>(
    keys: &impl RangeBounds<K::Ref<'k>>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let encoded = |bound: Bound<&K::Ref<'k>>| bound.map(|key| encode::<K>(*key));
    (encoded(keys.start_bound()), encoded(keys.end_bound()))
}

/// What is stored of the types of a table. Never 0, which is what an untyped table has.
fn fingerprint<K: KeyCode, V: ValueCode>(kind: &str) -> u32 {
    crc32c(0, type_names::<K, V>(kind).as_bytes()).max(1)
}

/// The user flags of a [`TypedTable`], or with `duplicates` a [`TypedMultimap`], whose types have
/// these [names](KeyCode::type_name): for callers that know types only when they run.
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
    let kind = if duplicates { "multimap" } else { "table" };
    crc32c(0, format!("{kind} {key} -> {value}").as_bytes()).max(1)
}

/// For example "table string -> u64".
fn type_names<K: KeyCode, V: ValueCode>(kind: &str) -> String {
    let mut names = format!("{kind} ");
    <K as KeyCode>::type_name(&mut names);
    names.push_str(" -> ");
    V::type_name(&mut names);
    names
}

/// Refuses a table that was made for other types.
fn check<K: KeyCode, V: ValueCode>(txn: &impl Snapshot, table: Table, kind: &str) -> Result<Table> {
    let info = txn.table_info(table)?;
    if info.user_flags == fingerprint::<K, V>(kind) {
        return Ok(table);
    }
    let was = if info.user_flags == 0 { "without types" } else { "for other types" };
    let reason = format!("it was created {was}, not as a {}", type_names::<K, V>(kind));
    Err(Error::TableOptions { name: info.name, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_tell_types_and_kinds_apart() {
        let all = [
            fingerprint::<String, u64>("table"),
            fingerprint::<String, u32>("table"),
            fingerprint::<Vec<u8>, u64>("table"),
            fingerprint::<String, u64>("multimap"),
            fingerprint::<(String, u64), ()>("table"),
            fingerprint::<(), (String, u64)>("table"),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(*a != 0 && !all[..i].contains(a), "fingerprint {i} is not its own");
        }
    }

    /// Stored in every typed table: it never changes.
    #[test]
    fn a_known_fingerprint() {
        assert_eq!(type_names::<String, u64>("table"), "table string -> u64");
        assert_eq!(fingerprint::<String, u64>("table"), crc32c(0, b"table string -> u64"));
    }

    #[test]
    fn bounds_are_encoded_as_keys_that_stand_alone() {
        let (low, high) = encode_bounds::<String>(&("a".."b\0"));
        assert_eq!(low, Bound::Included(b"a".to_vec()));
        assert_eq!(high, Bound::Excluded(b"b\0".to_vec()));
        let (low, high) = encode_bounds::<i16>(&(..=-1));
        assert_eq!((low, high), (Bound::Unbounded, Bound::Included(vec![0x7F, 0xFF])));
    }
}
