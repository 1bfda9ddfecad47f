//! What open stores, snapshots and readers answer alike.

use super::cursor::Cursor;
use super::estimate;
use super::range::Range;
use super::search::{self, Value};
use crate::Result;
use crate::key::KeyRange;
use crate::lsm::entry::{full_range, with_full_key};
use crate::lsm::keyspace::Keyspace;

pub(crate) mod sealed {
    //! What the engine knows of a reader and its users do not.

    use crate::Result;
    use crate::lsm::keyspace::Keyspace;
    use crate::lsm::read::view::View;

    /// The inside of a reader.
    pub trait Sealed {
        /// The open store whose keyspaces it takes.
        #[doc(hidden)]
        fn store(&self) -> u64;
        /// What it sees at this moment.
        #[doc(hidden)]
        #[expect(private_interfaces, reason = "the trait is sealed")]
        fn view(&self) -> View;

        /// What it sees, if the keyspace is one of its store.
        #[doc(hidden)]
        #[expect(private_interfaces, reason = "the trait is sealed")]
        fn view_of(&self, keyspace: &Keyspace) -> Result<View> {
            keyspace.check(self.store())?;
            Ok(self.view())
        }
    }
}

impl Keyspace {
    /// Refuses a keyspace of another open store.
    pub(crate) fn check(&self, store: u64) -> Result<()> {
        match self.store() == store {
            true => Ok(()),
            false => Err(crate::Error::argument("the keyspace is one of another store")),
        }
    }
}

/// The reading interface that [`Db`](crate::lsm::Db), [`Snapshot`](crate::lsm::Snapshot) and
/// [`Reader`](crate::lsm::Reader) share.
///
/// A store answers each call as of the moment at which it is made; the others answer all calls as
/// of one moment. Every call may fail with [`Error::Corrupt`](crate::Error::Corrupt) or
/// [`Error::Io`](crate::Error::Io) if something cannot be read, and with
/// [`Error::Argument`](crate::Error::Argument) if the keyspace is one of another store.
pub trait Readable: sealed::Sealed {
    /// The value of a key.
    fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let view = self.view_of(keyspace)?;
        let value = with_full_key(keyspace.id(), key, |key| view.get(key))?;
        Ok(value.map(Value::into_vec))
    }

    /// Calls `see` with the value of a key, without copying the value, and returns its result.
    fn get_with<R>(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        see: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        let view = self.view_of(keyspace)?;
        let value = with_full_key(keyspace.id(), key, |key| view.get(key))?;
        Ok(search::show(value, see))
    }

    /// The values of several keys, in the order of `keys`, all as of one moment.
    fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.view_of(keyspace)?.values(keyspace, keys)
    }

    /// Calls `see` with the index of each key and its value, without copying the value: as they
    /// arrive, in no particular order, but all as of one moment. If it fails, `see` may have been
    /// called for some of them.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
    /// use hedgerow::lsm::Readable;
    ///
    /// let people = db.keyspace("people", Default::default())?;
    /// db.put(&people, b"1", b"Ada")?;
    /// let mut lens = [None; 2];
    /// db.multi_get_with(&people, &["1", "2"], |number, value| {
    ///     lens[number] = value.map(<[u8]>::len);
    /// })?;
    /// assert_eq!(lens, [Some(3), None]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
        see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.view_of(keyspace)?.show(keyspace, keys, see)
    }

    /// A cursor; it stands nowhere yet.
    fn cursor(&self, keyspace: &Keyspace) -> Result<Cursor> {
        Cursor::new(self.view_of(keyspace)?, keyspace.id())
    }

    /// Iterates over the entries whose keys lie in a range, from both ends.
    fn range(&self, keyspace: &Keyspace, keys: impl KeyRange) -> Result<Range> {
        Ok(Range::new(self.view_of(keyspace)?, keyspace.id(), &keys))
    }

    /// About how many keys lie in a range. It reads a few blocks of each table, and counts some of
    /// the entries in memory.
    ///
    /// It is exact for a few entries, where each key was written once. Overwritten and deleted keys
    /// are counted more than once, or not at all, until they are merged.
    fn estimate_count(&self, keyspace: &Keyspace, keys: impl KeyRange) -> Result<u64> {
        let (from, to) = full_range(keyspace.id(), &keys);
        estimate::keys(&self.view_of(keyspace)?, &from, &to)
    }
}
