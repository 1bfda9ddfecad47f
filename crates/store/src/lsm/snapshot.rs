//! Reading at one moment: views, and the snapshots that users hold.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::cursor::{Cursor, Scan};
use super::engine::{Current, Inner};
use super::entry::{KEYSPACE_BYTES, Kind, full_key};
use super::fetch::{self, Cached};
use super::keyspace::Keyspace;
use super::search::{self, Open, Search};
use super::version::Version;
use crate::Result;

/// What a reader sees: files and buffers as they were, and entries up to a sequence number.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) current: Arc<Current>,
    pub(crate) at: u64,
}

impl View {
    /// Everything that is committed. The files are taken first: a merge that ended before knew of
    /// no later reader than this one.
    pub(crate) fn now(inner: &Inner) -> Self {
        let current = inner.current();
        Self { current, at: inner.clock.visible.load(Ordering::Acquire) }
    }

    pub(crate) fn version(&self) -> &Version {
        &self.current.version
    }

    /// The value of a full key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let directory = self.version().directory();
        directory.reads.gets.fetch_add(1, Ordering::Relaxed);
        let open = Open::default();
        let mut search = Search::new(self, &open, key, 0);
        fetch::run_one(&directory.blocks, &mut search)?;
        Ok(search.into_value().1)
    }

    /// The values of several keys of a keyspace: their reads wait for the disk together.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::new();
        values.resize_with(keys.len(), || None);
        let directory = self.version().directory();
        directory.reads.gets.fetch_add(keys.len() as u64, Ordering::Relaxed);
        // Neighbours find the same things, which are at hand then.
        let mut order: Vec<(&[u8], usize)> = keys.iter().map(AsRef::as_ref).zip(0..).collect();
        order.sort_unstable();
        let full = FullKeys::new(keyspace.id(), &order);
        let open = Open::default();
        let searches = order.iter().enumerate();
        let searches = searches.map(|(at, &(_, tag))| Search::new(self, &open, full.get(at), tag));
        fetch::run(directory, searches, |done| {
            let (tag, value) = done.into_value();
            values[tag] = value;
        })?;
        Ok(values)
    }

    /// The value of an entry; `None` for a tombstone.
    pub(crate) fn value(&self, kind: Kind, value: &[u8]) -> Result<Option<Vec<u8>>> {
        match kind {
            Kind::Tombstone => Ok(None),
            Kind::Inline => Ok(Some(value.to_vec())),
            Kind::Separated => {
                match search::separated(self, value)?.get(&self.version().directory().blocks)? {
                    Cached::Value(value) => Ok(Some(value.to_vec())),
                    Cached::Table(_) | Cached::Block(_) => Ok(None),
                }
            }
        }
    }
}

/// The full keys of several keys, one behind the other.
struct FullKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl FullKeys {
    fn new(keyspace: u32, keys: &[(&[u8], usize)]) -> Self {
        let len = keys.iter().map(|(key, _)| KEYSPACE_BYTES + key.len()).sum();
        let (mut bytes, mut ends) = (Vec::with_capacity(len), Vec::with_capacity(keys.len()));
        for (key, _) in keys {
            bytes.extend_from_slice(&keyspace.to_be_bytes());
            bytes.extend_from_slice(key);
            ends.push(bytes.len());
        }
        Self { bytes, ends }
    }

    fn get(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }
}

/// The store as it was when the snapshot was taken. Holding one keeps what it sees on the disk.
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
        self.inner.check(keyspace)?;
        self.view().get(&full_key(keyspace.id(), key))
    }

    /// The values of several keys, in their order.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.inner.check(keyspace)?;
        self.view().multi_get(keyspace, keys)
    }

    /// A place in a keyspace that moves both ways.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn cursor(&self, keyspace: &Keyspace) -> Result<Cursor> {
        self.inner.check(keyspace)?;
        Cursor::new(self.view(), keyspace.id())
    }

    /// The entries of a keyspace in order.
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
