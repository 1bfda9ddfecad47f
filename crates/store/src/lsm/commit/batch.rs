//! Batches: operations that apply together, in the form in which the log takes them.

use std::ops::Bound;

use crate::key::KeyRange;
use crate::lsm::entry::{KEY_BYTES_MAX, KEYSPACE_BYTES, full_range};
use crate::lsm::keyspace::Keyspace;
use crate::lsm::log::segment::{OpKind, push_op};
use crate::{Error, Result};

/// A batch may have at most this many bytes.
const BATCH_BYTES_MAX: usize = if cfg!(target_pointer_width = "64") { 4 << 30 } else { 1 << 30 };

/// Operations on any number of keyspaces, of which all apply or none, in the order in which they
/// were added.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// use hedgerow::lsm::{Batch, KeyspaceOptions, Readable};
///
/// let people = db.keyspace("people", KeyspaceOptions::default())?;
/// let by_name = db.keyspace("by name", KeyspaceOptions::default())?;
/// let mut batch = Batch::new();
/// batch.put(&people, b"1", b"Ada")?;
/// batch.put(&by_name, b"Ada", b"1")?;
/// db.write(batch)?;
/// assert_eq!(db.get(&by_name, b"Ada")?.as_deref(), Some(&b"1"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(crate) body: Vec<u8>,
    pub(crate) count: u32,
    /// The keyspaces that it names, by number, ascending.
    pub(crate) spaces: Vec<Keyspace>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a value under a key.
    ///
    /// # Errors
    /// [`Error::Size`] if the key or the value is too long, [`Error::Argument`] if the keyspace is
    /// one of another store than those before it, or the batch has grown too long.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        if u32::try_from(value.len()).is_err() {
            return Err(too_long("value", value.len(), u64::from(u32::MAX)));
        }
        let separates = value.len() as u64 >= u64::from(keyspace.separation_threshold());
        let kind = if separates { OpKind::PutSeparated } else { OpKind::Put };
        self.push(keyspace, kind, key, value)
    }

    /// Deletes a key, which need not exist.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
        check_key(key)?;
        self.push(keyspace, OpKind::Delete, key, &[])
    }

    /// Deletes all keys of a range. The cost does not depend on their number.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete_range(&mut self, keyspace: &Keyspace, keys: impl KeyRange) -> Result<()> {
        for bound in [keys.low(), keys.high()] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound {
                check_key(key)?;
            }
        }
        let (from, to) = full_range(keyspace.id(), &keys);
        if from >= to {
            return Ok(());
        }
        self.push(keyspace, OpKind::DeleteRange, &from[KEYSPACE_BYTES..], &to)
    }

    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it has no operation.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The store whose keyspaces it names.
    pub(crate) fn store(&self) -> Option<u64> {
        self.spaces.first().map(Keyspace::store)
    }

    /// A keyspace that it names and that was dropped.
    pub(crate) fn dropped(&self) -> Option<&Keyspace> {
        self.spaces.iter().find(|keyspace| keyspace.is_dropped())
    }

    fn push(&mut self, keyspace: &Keyspace, kind: OpKind, key: &[u8], value: &[u8]) -> Result<()> {
        if self.store().is_some_and(|store| store != keyspace.store()) {
            return Err(Error::argument("a batch cannot name keyspaces of two stores"));
        }
        let most = key.len() + value.len() + 32;
        if self.body.len().saturating_add(most) > BATCH_BYTES_MAX || self.count == u32::MAX {
            return Err(Error::argument(format!("a batch takes {BATCH_BYTES_MAX} bytes at most")));
        }
        if self.body.is_empty() {
            // A batch of one operation is as long as it needs to be.
            self.body.reserve_exact(most);
        }
        let id = keyspace.id().to_be_bytes();
        push_op(&mut self.body, kind, [&id, key], [value, &[]]);
        if let Err(at) = self.spaces.binary_search_by_key(&keyspace.id(), Keyspace::id) {
            self.spaces.insert(at, keyspace.clone());
        }
        self.count += 1;
        Ok(())
    }
}

fn too_long(what: &'static str, len: usize, max: u64) -> Error {
    Error::Size { what, len: len as u64, min: 0, max }
}

fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        Err(too_long("key", key.len(), KEY_BYTES_MAX as u64))
    } else {
        Ok(())
    }
}
