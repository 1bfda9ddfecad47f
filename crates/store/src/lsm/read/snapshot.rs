//! Reading at one moment: the newest view, and the snapshots that users hold.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::cursor::{Cursor, Scan};
use super::search::{self};
use super::view::View;
use crate::Result;
use crate::lsm::engine::Inner;
use crate::lsm::entry::full_key;
use crate::lsm::keyspace::Keyspace;

impl View {
    /// Everything that is committed. The files are taken first: a merge that ended before knew of
    /// no later reader than this one.
    pub(crate) fn now(inner: &Inner) -> Self {
        let current = inner.current();
        Self { current, at: inner.clock.visible.load(Ordering::Acquire) }
    }
}

/// The store as it was when the snapshot was taken. Holding a snapshot keeps what it sees on the
/// disk.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// let people = db.keyspace("people", Default::default())?;
/// db.put(&people, b"1", b"Ada")?;
/// let before = db.snapshot();
/// db.delete(&people, b"1")?;
/// assert_eq!(before.get(&people, b"1")?.as_deref(), Some(&b"Ada"[..]));
/// assert_eq!(db.get(&people, b"1")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Snapshot {
    inner: Arc<Inner>,
    seq: u64,
}

impl Snapshot {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        let seq = inner.clock.pin();
        Self { inner, seq }
    }

    fn view(&self) -> View {
        View { current: self.inner.current(), at: self.seq }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::Io`] if it cannot be read, [`Error::Argument`] if the
    /// keyspace is one of another store.
    ///
    /// [`Error::Damaged`]: crate::Error::Damaged
    /// [`Error::Io`]: crate::Error::Io
    /// [`Error::Argument`]: crate::Error::Argument
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(keyspace, key, |value| value.map(<[u8]>::to_vec))
    }

    /// Calls `see` with the value of a key, without copying the value, and returns its result.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_with<R>(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        see: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        self.inner.check(keyspace)?;
        let value = self.view().get(&full_key(keyspace.id(), key))?;
        Ok(search::show(value, see))
    }

    /// The values of several keys, in the order of `keys`.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.inner.check(keyspace)?;
        self.view().values(keyspace, keys)
    }

    /// Calls `see` with the index of each key and its value, without copying the value: as they
    /// arrive, in no particular order.
    ///
    /// # Errors
    /// As [`Snapshot::get`]; `see` may have been called for some of them.
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
        see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.inner.check(keyspace)?;
        self.view().show(keyspace, keys, see)
    }

    /// A cursor, which moves both ways.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn cursor(&self, keyspace: &Keyspace) -> Result<Cursor> {
        self.inner.check(keyspace)?;
        Cursor::new(self.view(), keyspace.id())
    }

    /// An iterator over the entries of a keyspace in order.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn scan(&self, keyspace: &Keyspace) -> Result<Scan> {
        self.cursor(keyspace).map(Scan::new)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.inner.clock.unpin(self.seq);
    }
}
