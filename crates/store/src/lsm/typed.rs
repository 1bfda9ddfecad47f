//! Typed keyspaces: a keyspace of bytes seen through a pair of [`KeyCode`] and [`ValueCode`] types.
//!
//! Everything here is translation on top of the public interface of the engine. The types of a
//! keyspace are held as a fingerprint in its user flags, so that it cannot be opened as something
//! else by mistake.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use super::{
    Batch, Db, Keyspace, KeyspaceOptions, Range, Readable, Reader, Snapshot, Transaction,
    TransactionRange,
};
use crate::key::typed::{
    TABLE, check, decode_pair, encode, encode_bounds, encode_value, fingerprint, type_names,
};
use crate::key::{KeyCode, KeyRange, ValueCode};
use crate::{Error, Result};

mod sealed {
    //! Reading and writing bytes, whatever is read and written.

    use super::*;

    /// A key and its value.
    type Pair = (Vec<u8>, Vec<u8>);

    /// Reading.
    pub trait Reads {
        /// The entries of a range of keys.
        type Entries<'t>: DoubleEndedIterator<Item = Result<Pair>> + FusedIterator
        where
            Self: 't;

        /// The keyspace of a name.
        #[doc(hidden)]
        fn find(&self, name: &[u8]) -> Result<Option<Keyspace>>;
        /// Calls `see` with the value of a key.
        #[doc(hidden)]
        fn value<R>(
            &self,
            keyspace: &Keyspace,
            key: &[u8],
            see: impl FnOnce(Option<&[u8]>) -> R,
        ) -> Result<R>;
        /// The entries of a range of keys.
        #[doc(hidden)]
        fn entries(&self, keyspace: &Keyspace, keys: impl KeyRange) -> Result<Self::Entries<'_>>;
    }

    /// Writing.
    pub trait Writes {
        #[doc(hidden)]
        fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> Result<()>;
        #[doc(hidden)]
        fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<()>;
        #[doc(hidden)]
        fn delete_range(&mut self, keyspace: &Keyspace, keys: impl KeyRange) -> Result<()>;
    }
}

/// What a [`TypedKeyspace`] is read from: a [`Db`], a [`Snapshot`], a [`Reader`] or a
/// [`Transaction`].
///
/// ```
/// use hedgerow::lsm::{TypedKeyspace, TypedRead};
///
/// /// As of now, as of a moment, or as a transaction sees it.
/// fn total(sizes: &TypedKeyspace<String, u64>, from: &impl TypedRead) -> hedgerow::Result<u64> {
///     sizes.iter(from)?.map(|entry| entry.map(|(_, size)| size)).sum()
/// }
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// let sizes = TypedKeyspace::create(&db, "sizes", Default::default())?;
/// let mut txn = db.transaction();
/// sizes.put(&mut txn, "/usr/bin/awk", 700)?;
/// assert_eq!((total(&sizes, &txn)?, total(&sizes, &db)?), (700, 0));
/// # Ok::<(), hedgerow::Error>(())
/// ```
pub trait TypedRead: sealed::Reads {}

/// What a [`TypedKeyspace`] is written through: a [`Batch`] or a [`Transaction`].
///
/// ```
/// use hedgerow::lsm::{Batch, TypedKeyspace, TypedWrite};
///
/// type Names = TypedKeyspace<u32, String>;
///
/// fn rename(names: &Names, to: &mut impl TypedWrite, name: &str) -> hedgerow::Result<()> {
///     names.delete(to, 1)?;
///     names.put(to, 2, name)
/// }
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// let names = Names::create(&db, "names", Default::default())?;
/// let mut batch = Batch::new();
/// rename(&names, &mut batch, "Ada")?;
/// db.write(batch)?;
/// db.transact(10, |txn| rename(&names, txn, "Grace"))?;
/// assert_eq!(names.get(&db, 2)?.as_deref(), Some("Grace"));
/// # Ok::<(), hedgerow::Error>(())
/// ```
pub trait TypedWrite: sealed::Writes {}

macro_rules! readable {
    ($($reader:ident)*) => { $(
        impl sealed::Reads for $reader {
            type Entries<'t> = Range;

            fn find(&self, name: &[u8]) -> Result<Option<Keyspace>> {
                self.find_keyspace(name)
            }

            fn value<R>(
                &self,
                keyspace: &Keyspace,
                key: &[u8],
                see: impl FnOnce(Option<&[u8]>) -> R,
            ) -> Result<R> {
                self.get_with(keyspace, key, see)
            }

            fn entries(&self, keyspace: &Keyspace, keys: impl KeyRange) -> Result<Range> {
                self.range(keyspace, keys)
            }
        }

        impl TypedRead for $reader {}
    )* };
}

readable!(Db Snapshot Reader);

impl sealed::Reads for Transaction {
    type Entries<'t> = TransactionRange<'t>;

    fn find(&self, name: &[u8]) -> Result<Option<Keyspace>> {
        self.find_keyspace(name)
    }

    fn value<R>(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        see: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        Ok(see(self.get(keyspace, key)?.as_deref()))
    }

    fn entries(&self, keyspace: &Keyspace, keys: impl KeyRange) -> Result<TransactionRange<'_>> {
        self.range(keyspace, keys)
    }
}

impl TypedRead for Transaction {}

macro_rules! writable {
    ($($writer:ident)*) => { $(
        impl sealed::Writes for $writer {
            fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
                self.put(keyspace, key, value)
            }

            fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
                self.delete(keyspace, key)
            }

            fn delete_range(&mut self, keyspace: &Keyspace, keys: impl KeyRange) -> Result<()> {
                self.delete_range(keyspace, keys)
            }
        }

        impl TypedWrite for $writer {}
    )* };
}

writable!(Batch Transaction);

/// A keyspace from keys of type `K` to values of type `V`: the counterpart of
/// [`TypedTable`](crate::tree::TypedTable).
///
/// It is a handle on a [`Keyspace`] of an open store. Each call names what it reads from or writes
/// through: a store, a snapshot, a batch, a transaction.
///
/// ```
/// use hedgerow::lsm::{Batch, Options, TypedKeyspace};
///
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("db");
/// let db = Options::new().create(true).open(&path)?;
/// let sizes = TypedKeyspace::<String, u64>::create(&db, "sizes", Default::default())?;
/// let mut batch = Batch::new();
/// sizes.put(&mut batch, "/usr/bin/awk", 700)?;
/// sizes.put(&mut batch, "/usr/bin/sed", 100)?;
/// db.write(batch)?;
/// assert_eq!(sizes.get(&db, "/usr/bin/sed")?, Some(100));
/// assert_eq!(sizes.range(&db, "/usr/bin/b"..)?.count(), 1);
///
/// // Read, change and write back; again, if somebody else has changed it meanwhile.
/// db.transact(10, |txn| {
///     let size = sizes.get(txn, "/usr/bin/awk")?.unwrap_or_default();
///     sizes.put(txn, "/usr/bin/awk", size + 1)
/// })?;
/// assert_eq!(sizes.first(&db)?, Some(("/usr/bin/awk".to_string(), 701)));
///
/// assert!(TypedKeyspace::<u64, u64>::open(&db, "sizes").is_err());
/// # Ok(()) }
/// ```
pub struct TypedKeyspace<K, V> {
    keyspace: Keyspace,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: KeyCode, V: ValueCode> TypedKeyspace<K, V> {
    /// Opens the keyspace of that name, or creates it with these options, but for the user flags,
    /// if it does not exist.
    ///
    /// # Errors
    /// [`Error::TableOptions`] if it is there with other types; else as [`Db::keyspace`].
    pub fn create(db: &Db, name: impl AsRef<[u8]>, options: KeyspaceOptions) -> Result<Self> {
        let user_flags = fingerprint::<K, V>(TABLE);
        Self::checked(db.keyspace(name, KeyspaceOptions { user_flags, ..options })?)
    }

    /// Opens a keyspace that exists.
    ///
    /// # Errors
    /// [`Error::NoTable`] if it does not exist, [`Error::TableOptions`] if it has other types.
    pub fn open(from: &impl TypedRead, name: impl AsRef<[u8]>) -> Result<Self> {
        let name = name.as_ref();
        let keyspace = from.find(name)?;
        Self::checked(keyspace.ok_or_else(|| Error::NoTable { name: name.to_vec() })?)
    }

    fn checked(keyspace: Keyspace) -> Result<Self> {
        check::<K, V>(TABLE, keyspace.name(), keyspace.user_flags())?;
        Ok(Self { keyspace, types: PhantomData })
    }

    /// The underlying keyspace of bytes, for what has no typed form: cursors, many keys at once,
    /// estimates.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// The value of a key.
    pub fn get(&self, from: &impl TypedRead, key: K::Ref<'_>) -> Result<Option<V>> {
        let decoded = from.value(&self.keyspace, &encode::<K>(key), |value| value.map(V::decode));
        Ok(decoded?.transpose()?)
    }

    /// Whether a key is there.
    pub fn contains(&self, from: &impl TypedRead, key: K::Ref<'_>) -> Result<bool> {
        from.value(&self.keyspace, &encode::<K>(key), |value| value.is_some())
    }

    /// Stores a value, in place of the one that was there.
    pub fn put(&self, to: &mut impl TypedWrite, key: K::Ref<'_>, value: V::Ref<'_>) -> Result<()> {
        to.put(&self.keyspace, &encode::<K>(key), &encode_value::<V>(value)?)
    }

    /// Stores a value only if the key is absent; otherwise returns the value that is there.
    pub fn put_new(
        &self,
        txn: &mut Transaction,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<Option<V>> {
        let there = self.get(txn, key)?;
        if there.is_none() {
            self.put(txn, key, value)?;
        }
        Ok(there)
    }

    /// Stores a value and returns the one that was there.
    pub fn replace(
        &self,
        txn: &mut Transaction,
        key: K::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<Option<V>> {
        let old = self.get(txn, key)?;
        self.put(txn, key, value)?;
        Ok(old)
    }

    /// Deletes a key, which need not exist.
    pub fn delete(&self, to: &mut impl TypedWrite, key: K::Ref<'_>) -> Result<()> {
        to.delete(&self.keyspace, &encode::<K>(key))
    }

    /// Deletes all keys in a range. The cost does not depend on their number.
    pub fn delete_range<'k>(
        &self,
        to: &mut impl TypedWrite,
        keys: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<()> {
        to.delete_range(&self.keyspace, encode_bounds::<K>(&keys))
    }

    /// Iterates over the entries whose keys lie in a range, from both ends.
    pub fn range<'t, 'k, R: TypedRead>(
        &self,
        from: &'t R,
        keys: impl RangeBounds<K::Ref<'k>>,
    ) -> Result<TypedRange<R::Entries<'t>, K, V>> {
        let entries = from.entries(&self.keyspace, encode_bounds::<K>(&keys))?;
        Ok(TypedRange { entries, types: PhantomData })
    }

    /// Iterates over all entries, from both ends.
    pub fn iter<'t, R: TypedRead>(&self, from: &'t R) -> Result<TypedRange<R::Entries<'t>, K, V>> {
        self.range(from, ..)
    }

    /// The first key and its value.
    pub fn first(&self, from: &impl TypedRead) -> Result<Option<(K, V)>> {
        self.iter(from)?.next().transpose()
    }

    /// The last key and its value.
    pub fn last(&self, from: &impl TypedRead) -> Result<Option<(K, V)>> {
        self.iter(from)?.next_back().transpose()
    }
}

impl<K, V> Clone for TypedKeyspace<K, V> {
    fn clone(&self) -> Self {
        Self { keyspace: self.keyspace.clone(), types: PhantomData }
    }
}

impl<K: KeyCode, V: ValueCode> fmt::Debug for TypedKeyspace<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", type_names::<K, V>(TABLE), self.keyspace)
    }
}

/// The entries of a range of a typed keyspace in order, from both ends: an iterator.
///
/// Made by [`TypedKeyspace::range`] from a [`Range`] or a [`TransactionRange`].
///
/// ```
/// # use hedgerow::lsm::{Batch, TypedKeyspace};
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// let squares = TypedKeyspace::<i32, u64>::create(&db, "squares", Default::default())?;
/// let mut batch = Batch::new();
/// for n in -100..=100_i32 {
///     squares.put(&mut batch, n, n.unsigned_abs().pow(2).into())?;
/// }
/// db.write(batch)?;
/// let mut near = squares.range(&db, -2..3)?;
/// assert_eq!(near.next().transpose()?, Some((-2, 4)));
/// assert_eq!(near.next_back().transpose()?, Some((2, 4)));
/// assert_eq!(near.count(), 3);
/// # Ok::<(), hedgerow::Error>(())
/// ```
pub struct TypedRange<E, K, V> {
    entries: E,
    types: PhantomData<fn() -> (K, V)>,
}

fn decode<K: KeyCode, V: ValueCode>(entry: Result<(Vec<u8>, Vec<u8>)>) -> Result<(K, V)> {
    entry.and_then(|(key, value)| decode_pair(&key, &value))
}

impl<E, K: KeyCode, V: ValueCode> Iterator for TypedRange<E, K, V>
where
    E: Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>,
{
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next().map(decode)
    }
}

impl<E, K: KeyCode, V: ValueCode> DoubleEndedIterator for TypedRange<E, K, V>
where
    E: DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>)>>,
{
    fn next_back(&mut self) -> Option<Self::Item> {
        self.entries.next_back().map(decode)
    }
}

impl<E, K: KeyCode, V: ValueCode> FusedIterator for TypedRange<E, K, V> where
    E: FusedIterator<Item = Result<(Vec<u8>, Vec<u8>)>>
{
}
