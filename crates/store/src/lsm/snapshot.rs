//! Reading at one moment: views, and the snapshots that users hold.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::cursor::{Cursor, Scan};
use super::engine::{Current, Inner};
use super::entry::{KEYSPACE_BYTES, Kind, full_key};
use super::fetch::{self, Cached, Wanted};
use super::keyspace::Keyspace;
use super::search::{self, Open, Search, Separated, Value};
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
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let directory = self.version().directory();
        directory.reads.gets.fetch_add(1, Ordering::Relaxed);
        let open = Open::default();
        let mut search = Search::new(self, &open, key, 0);
        fetch::run_one(&directory.blocks, &mut search)?;
        Ok(search.into_value().1)
    }

    /// The values of several keys of a keyspace, each with the number of its key, as they come:
    /// their reads wait for the disk together.
    fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
        mut see: impl FnMut(usize, Option<Value>),
    ) -> Result<()> {
        let directory = self.version().directory();
        directory.reads.gets.fetch_add(keys.len() as u64, Ordering::Relaxed);
        // Neighbours find the same things, which are at hand then.
        let keys = FullKeys::in_order(keyspace.id(), keys);
        let open = Open::default();
        let searches = keys.iter().map(|(tag, key)| Search::new(self, &open, key, tag));
        fetch::run(directory, searches, |done| {
            let (tag, value) = done.into_value();
            see(tag, value);
        })
    }

    /// The same as a list in the order of the keys.
    pub(crate) fn values<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = vec![None; keys.len()];
        self.multi_get(keyspace, keys, |number, value| {
            values[number] = value.map(Value::into_vec)
        })?;
        Ok(values)
    }

    /// Shows the values of several entries.
    pub(crate) fn show<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
        mut see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.multi_get(keyspace, keys, |number, value| {
            search::show(value, |value| see(number, value));
        })
    }

    /// The value of an entry; `None` for a tombstone.
    pub(crate) fn value(&self, kind: Kind, value: &[u8]) -> Result<Option<Vec<u8>>> {
        match kind {
            Kind::Tombstone => Ok(None),
            Kind::Inline => Ok(Some(value.to_vec())),
            Kind::Separated => match search::separated(self, value)? {
                Separated::Held(value) => Ok(Some(value)),
                Separated::There(place) => {
                    match Wanted::Value(place).get(&self.version().directory().blocks)? {
                        Cached::Value(value) => Ok(Some(value.to_vec())),
                        Cached::Table(_) | Cached::Block(_) => Ok(None),
                    }
                }
            },
        }
    }
}

/// The full keys of several keys, one after the other in their order, each with its number.
struct FullKeys {
    bytes: Vec<u8>,
    /// The number of a key, and where it ends.
    ends: Vec<(usize, usize)>,
}

impl FullKeys {
    fn in_order<K: AsRef<[u8]>>(keyspace: u32, keys: &[K]) -> Self {
        // The beginning of a key as a number decides nearly always.
        let head = |key: &[u8]| {
            let mut first = [0; 8];
            let len = key.len().min(first.len());
            first[..len].copy_from_slice(&key[..len]);
            u64::from_be_bytes(first)
        };
        let mut order: Vec<(u64, usize)> =
            keys.iter().map(|key| head(key.as_ref())).zip(0..).collect();
        order.sort_unstable_by(|a, b| {
            let keys = || keys[a.1].as_ref().cmp(keys[b.1].as_ref());
            a.0.cmp(&b.0).then_with(keys)
        });
        let len = keys.iter().map(|key| KEYSPACE_BYTES + key.as_ref().len()).sum();
        let (mut bytes, mut ends) = (Vec::with_capacity(len), Vec::with_capacity(keys.len()));
        for (_, number) in order {
            bytes.extend_from_slice(&keyspace.to_be_bytes());
            bytes.extend_from_slice(keys[number].as_ref());
            ends.push((number, bytes.len()));
        }
        Self { bytes, ends }
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(number, end)| {
            let key = &self.bytes[start..end];
            start = end;
            (number, key)
        })
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
