//! Both engines as the streams' tester needs them.

use std::collections::BTreeSet;
use std::path::Path;

use hedgerow::stream::{AsChange, Followed, Source, Target};
use hedgerow::tree::{Change, Diff, Snapshot as _, Store, TableOptions};
use hedgerow::{Durability, lsm};

use super::{Pair, TABLE};

/// An engine under test.
pub(super) trait Subject: Source + Target + Followed {
    fn open(path: &Path, duplicates: bool) -> hedgerow::Result<Self>;
    /// Stores and removes pairs in one commit; a pair without a value removes its key.
    fn write(&self, pairs: &[(Vec<u8>, Option<Vec<u8>>)]) -> hedgerow::Result<()>;
    /// Compares two moments otherwise than by streams.
    fn compare(
        old: &<Self as Source>::Snapshot,
        new: &<Self as Source>::Snapshot,
    ) -> hedgerow::Result<Changes>;
    /// Puts what is in memory where it stays, if the engine has such a thing.
    fn settle(&self, how: u64) -> hedgerow::Result<()>;
    const COUNTS: bool;
}

/// Pairs that are only in the older one of two moments, and only in the newer one.
pub(super) type Changes = (BTreeSet<Pair>, BTreeSet<Pair>);

impl Subject for Store {
    const COUNTS: bool = true;

    fn open(path: &Path, duplicates: bool) -> hedgerow::Result<Self> {
        if path.exists() {
            return Store::open(path);
        }
        let store = Store::builder().page_size(4096).create(path)?;
        let mut txn = store.begin_write()?;
        let options = TableOptions::new();
        txn.create_table(TABLE, &if duplicates { options.duplicates() } else { options })?;
        txn.commit()?;
        Ok(store)
    }

    fn write(&self, pairs: &[(Vec<u8>, Option<Vec<u8>>)]) -> hedgerow::Result<()> {
        let mut txn = self.begin_write()?;
        let table = txn.table(TABLE)?;
        for (key, value) in pairs {
            match value {
                Some(value) => txn.put(table, key, value)?,
                None => drop(txn.delete(table, key)?),
            }
        }
        txn.commit_with(Durability::None)
    }

    fn compare(
        old: &<Self as Source>::Snapshot,
        new: &<Self as Source>::Snapshot,
    ) -> hedgerow::Result<Changes> {
        changes(Diff::new(old, new, TABLE)?)
    }

    fn settle(&self, _: u64) -> hedgerow::Result<()> {
        Ok(())
    }
}

/// What differs, as sets.
pub(super) fn changes<C: AsChange>(
    all: impl Iterator<Item = hedgerow::Result<C>>,
) -> hedgerow::Result<Changes> {
    let mut changes = Changes::default();
    for change in all {
        match change?.as_change() {
            Change::Added { key, value } => {
                changes.1.insert((key.to_vec(), value.to_vec()));
            }
            Change::Removed { key, value } => {
                changes.0.insert((key.to_vec(), value.to_vec()));
            }
            Change::Changed { key, old, new } => {
                changes.0.insert((key.to_vec(), old.to_vec()));
                changes.1.insert((key.to_vec(), new.to_vec()));
            }
        }
    }
    Ok(changes)
}

impl Subject for lsm::Db {
    const COUNTS: bool = false;

    fn open(path: &Path, _: bool) -> hedgerow::Result<Self> {
        let options = lsm::Options::new().create(true).memory_limit(8 << 20);
        // Small enough that a run has many tables.
        let options = options.memtable_bytes(1 << 15).segment_bytes(1 << 15);
        let db = options.open(path)?;
        db.keyspace(TABLE, Default::default())?;
        Ok(db)
    }

    fn write(&self, pairs: &[(Vec<u8>, Option<Vec<u8>>)]) -> hedgerow::Result<()> {
        let keyspace = self.keyspace(TABLE, Default::default())?;
        let mut batch = lsm::Batch::new();
        for (key, value) in pairs {
            match value {
                Some(value) => batch.put(&keyspace, key, value)?,
                None => batch.delete(&keyspace, key)?,
            }
        }
        self.write_with(batch, Durability::None)
    }

    fn compare(
        old: &<Self as Source>::Snapshot,
        new: &<Self as Source>::Snapshot,
    ) -> hedgerow::Result<Changes> {
        changes(lsm::Diff::new(old, new, TABLE)?)
    }

    fn settle(&self, how: u64) -> hedgerow::Result<()> {
        if how.is_multiple_of(4) { self.compact() } else { self.flush() }
    }
}
