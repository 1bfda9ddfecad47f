//! The names of a store's keyspaces: finding, making and dropping them, with their user flags. The
//! names are stored in keyspace 0.

use std::path::Path;
use std::sync::Arc;

use super::commit::batch::Batch;
use super::commit::transaction::Transaction;
use super::db::Db;
use super::engine::Inner;
use super::entry::full_key;
use super::keyspace::{
    CATALOG, KEYSPACES_MAX, Keyspace, KeyspaceOptions, NAME_BYTES_MAX, Record, USER_FLAGS,
};
use super::log::segment::{OpKind, push_op};
use super::names::Names;
use super::read::range::Range;
use super::read::readable::sealed::Sealed;
use super::read::snapshot::Snapshot;
use super::read::view::View;
use super::table::Bounds;
use crate::sync::locked;
use crate::{Error, Result};

/// Less than this in memory, with its separated values, stays there when a keyspace is dropped that
/// no table holds anything of: a table for each such drop would cost more than it gives back.
const LEFT_BYTES_MAX: u64 = 1 << 20;

impl Db {
    /// The keyspace of that name, which is created with these options if it does not exist. One
    /// that exists keeps the options that it was created with.
    ///
    /// # Errors
    /// [`Error::Size`] if the name is longer than 1,024 bytes; else as [`Db::write`].
    pub fn keyspace(&self, name: impl AsRef<[u8]>, options: KeyspaceOptions) -> Result<Keyspace> {
        let (name, mut names) = (name.as_ref(), self.inner.catalog.lock());
        if let Some(found) = self.inner.find(&mut names, name)? {
            return Ok(found);
        }
        let record = self.create_keyspace(&mut names, name, options)?;
        let keyspace = Keyspace::new(self.inner.catalog.store, name, record);
        names.known.insert(name.to_vec(), keyspace.clone());
        Ok(keyspace)
    }

    /// The keyspace of that name, if there is one.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`] if the names cannot be read.
    pub fn find_keyspace(&self, name: impl AsRef<[u8]>) -> Result<Option<Keyspace>> {
        self.inner.find(&mut self.inner.catalog.lock(), name.as_ref())
    }

    /// The names of all keyspaces, in order.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`] if they cannot be read.
    pub fn keyspaces(&self) -> Result<Vec<Vec<u8>>> {
        names(View::now(&self.inner))
    }

    /// Drops a keyspace: its name and all of its entries go in one commit. Returns whether there
    /// was one. The cost does not depend on the number of its entries.
    ///
    /// Earlier snapshots still see it, and keep its files on the disk. Otherwise tables that hold
    /// nothing else are removed at once, and its entries in other tables go when these are next
    /// merged, at the latest with [`Db::compact`]. A handle that is still held reads nothing, and a
    /// batch that names the keyspace fails with [`Error::NoTable`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
    /// let people = db.keyspace("people", Default::default())?;
    /// db.put(&people, b"1", b"Ada")?;
    /// assert!(db.drop_keyspace("people")?);
    /// assert!(db.find_keyspace("people")?.is_none());
    /// assert!(db.put(&people, b"1", b"Ada").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::write`]: then the keyspace is still there. Or as [`Db::flush`], which follows
    /// unless all of it is in memory, and little: then it is gone.
    pub fn drop_keyspace(&self, name: impl AsRef<[u8]>) -> Result<bool> {
        let (name, mut names) = (name.as_ref(), self.inner.catalog.lock());
        let Some(keyspace) = self.inner.find(&mut names, name)? else { return Ok(false) };
        let mut batch = Batch::new();
        let (start, end) = (full_key(keyspace.id(), &[]), full_key(keyspace.id() + 1, &[]));
        push_op(&mut batch.body, OpKind::DeleteRange, [&start, &[]], [&end, &[]]);
        push_op(&mut batch.body, OpKind::Delete, [&CATALOG.to_be_bytes(), name], [&[], &[]]);
        batch.count = 2;
        if keyspace.user_flags() != 0 {
            push_op(&mut batch.body, OpKind::Delete, [&USER_FLAGS.to_be_bytes(), name], [&[], &[]]);
            batch.count += 1;
        }
        // From here on batches that name the keyspace are refused, so that none can follow the
        // drop.
        keyspace.set_dropped(true);
        let committed = self.inner.commit(batch, self.inner.options.durability, None);
        committed.inspect_err(|_| keyspace.set_dropped(false))?;
        names.known.remove(name);
        names.dropped = names.dropped.max(keyspace.id());
        drop(names);
        if self.inner.may_give_back(&Bounds { first: start, last: end, excludes_last: true }) {
            self.inner.flush()?;
            self.inner.work()?;
        }
        Ok(true)
    }

    /// Writes a keyspace's record. Its number is above those of all that a reader can see.
    fn create_keyspace(
        &self,
        names: &mut Names,
        name: &[u8],
        options: KeyspaceOptions,
    ) -> Result<Record> {
        if name.len() > NAME_BYTES_MAX {
            let (len, max) = (name.len() as u64, NAME_BYTES_MAX as u64);
            return Err(Error::Size { what: "name of a keyspace", len, min: 0, max });
        }
        let highest = match names.highest {
            Some(highest) => highest,
            None => self.highest_keyspace()?.max(names.dropped),
        };
        names.highest = Some(highest);
        if highest >= KEYSPACES_MAX {
            return Err(Error::argument("the store has no number left for a keyspace"));
        }
        let record = Record { id: highest + 1, options };
        let mut batch = Batch::new();
        let key = [&CATALOG.to_be_bytes()[..], name];
        push_op(&mut batch.body, OpKind::Put, key, [&record.encode(), &[]]);
        batch.count = 1;
        if options.user_flags != 0 {
            push_user_flags(&mut batch, name, options.user_flags);
        }
        // It is not given again if the commit fails: nobody knows then what of it is there.
        names.highest = Some(record.id);
        self.inner.commit(batch, self.inner.options.durability, None)?;
        Ok(record)
    }

    /// The highest number of a keyspace that there is now, or was at a commit with a pin; 0 if none
    /// is. What was dropped before the store was opened, and no pin sees, is seen by nobody.
    fn highest_keyspace(&self) -> Result<u32> {
        // As long as this is held, no pin is set or dropped.
        let turn = &self.inner.turns.pinning;
        let _turn = locked(turn);
        let now = View::now(&self.inner);
        let pinned = now.version().pins.values().map(|pinned| pinned.seq);
        let moments: Vec<u64> = pinned.chain([now.at]).collect();
        let mut highest = 0;
        for at in moments {
            let view = View { current: Arc::clone(&now.current), at };
            for entry in Range::new(view, CATALOG, &..) {
                let record = Record::decode(&entry?.1).ok_or_else(|| damaged(self.path()))?;
                highest = highest.max(record.id);
            }
        }
        Ok(highest)
    }
}

impl Inner {
    /// Whether the disk may get room back if what is in memory goes to tables, now that everything
    /// in these bounds was deleted: from tables, those that are being made among them, or from the
    /// log.
    fn may_give_back(&self, bounds: &Bounds) -> bool {
        let current = self.current();
        let mut tables = current.version.tables();
        !current.frozen.is_empty()
            || current.active.data_bytes() >= LEFT_BYTES_MAX
            || tables.any(|(_, table)| table.meta.bounds.overlaps(bounds))
    }

    fn find(&self, names: &mut Names, name: &[u8]) -> Result<Option<Keyspace>> {
        if let Some(keyspace) = names.known.get(name) {
            return Ok(Some(keyspace.clone()));
        }
        let found = find(&View::now(self), self.catalog.store, name)?;
        if let Some(keyspace) = &found {
            names.known.insert(name.to_vec(), keyspace.clone());
        }
        Ok(found)
    }
}

impl Transaction {
    /// The keyspace of that name, if there is one at this moment: names are looked up beside the
    /// transaction.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`] if the names cannot be read.
    pub fn find_keyspace(&self, name: impl AsRef<[u8]>) -> Result<Option<Keyspace>> {
        self.inner.find(&mut self.inner.catalog.lock(), name.as_ref())
    }
}

impl Snapshot {
    /// The keyspace of that name, if there was one when the snapshot was taken. Writing to one that
    /// was dropped since is an error.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`] if the names cannot be read.
    pub fn find_keyspace(&self, name: impl AsRef<[u8]>) -> Result<Option<Keyspace>> {
        let name = name.as_ref();
        let Some(then) = find(&self.view(), self.store(), name)? else { return Ok(None) };
        // All handles of a keyspace learn together that it was dropped.
        let now = self.inner.find(&mut self.inner.catalog.lock(), name)?;
        Ok(now.filter(|now| now.id() == then.id()).or_else(|| {
            then.set_dropped(true);
            Some(then)
        }))
    }

    /// The names of all keyspaces that there were when the snapshot was taken, in order.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`] if they cannot be read.
    pub fn keyspaces(&self) -> Result<Vec<Vec<u8>>> {
        names(self.view())
    }
}

/// The names of all keyspaces, in order.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn names(view: View) -> Result<Vec<Vec<u8>>> {
    let names = Range::new(view, CATALOG, &..).keys_only();
    names.map(|entry| entry.map(|(name, _)| name)).collect()
}

/// The keyspace of that name, as one of this open store.
///
/// # Errors
/// If its record cannot be read.
pub(crate) fn find(view: &View, store: u64, name: &[u8]) -> Result<Option<Keyspace>> {
    let Some(bytes) = view.get(&full_key(CATALOG, name))? else { return Ok(None) };
    let path = &view.version().directory().path;
    let mut record = Record::decode(bytes.bytes()).ok_or_else(|| damaged(path))?;
    if let Some(flags) = view.get(&full_key(USER_FLAGS, name))? {
        record.options.user_flags = user_flags(flags.bytes()).ok_or_else(|| damaged(path))?;
    }
    Ok(Some(Keyspace::new(store, name, record)))
}

/// Has a batch keep the user flags of the keyspace of a name.
pub(crate) fn push_user_flags(batch: &mut Batch, name: &[u8], flags: u32) {
    let key = [&USER_FLAGS.to_be_bytes()[..], name];
    push_op(&mut batch.body, OpKind::Put, key, [&flags.to_le_bytes(), &[]]);
    batch.count += 1;
}

/// The user flags that are stored as these bytes.
pub(crate) fn user_flags(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_le_bytes)
}

fn damaged(path: &Path) -> Error {
    Error::corrupt_at(path, 0, "the record of a keyspace makes no sense")
}
