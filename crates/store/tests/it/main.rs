//! The one test binary of the library: whole stores through the public interface.
//!
//! Each module begins with its reason to exist. What they share stands here: stores in folders of
//! their own, and short ways to fill and read tables.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::path::PathBuf;

use hedgerow::tree::{Builder, Entry, ReadTxn, Snapshot, Store, Table, TableOptions, WriteTxn};
use tempfile::TempDir;

mod alignment;
mod basic;
mod concurrency;
mod cursors;
mod duplicates;
mod examples;
mod failures;
mod files;
mod follow;
mod golden;
mod identify;
mod in_memory;
mod large;
mod lsm;
mod lsm_cache;
mod lsm_keyspaces;
mod lsm_transactions;
mod lsm_typed;
mod memory;
#[cfg(all(feature = "tracing", feature = "metrics"))]
mod observe;
mod orders;
mod processes;
mod ranges;
mod recovery;
mod rights;
mod savepoints;
#[cfg(shuttle)]
mod schedules;
mod scripts;
mod statistics;
mod tables;
mod tidy;
mod typed;
#[cfg(all(feature = "json", feature = "postcard"))]
mod typed_codecs;
#[cfg(feature = "derive")]
mod typed_derive;

/// A store in a folder that goes away with it.
struct Scratch {
    store: Store,
    folder: TempDir,
}

impl Scratch {
    /// A fresh store with the default options.
    fn new() -> Self {
        Self::with(Store::builder())
    }

    /// A fresh store with these options.
    fn with(builder: Builder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = builder.create(folder.path().join("store")).unwrap();
        Self { store, folder }
    }

    /// Where the store is.
    fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// A path beside the store.
    fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Closes the store and opens it again.
    fn reopen(self, builder: Builder) -> Self {
        let Self { store, folder } = self;
        drop(store);
        let store = builder.open(folder.path().join("store")).unwrap();
        Self { store, folder }
    }

    /// Fails unless every page is as it should be.
    fn check(&self) {
        assert_eq!(self.store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
    }
}

/// A write transaction and its table "t", which is made if it is not there.
fn begin(store: &Store) -> (WriteTxn, Table) {
    begin_with(store, &TableOptions::new())
}

/// The same, of a table with these options.
fn begin_with(store: &Store, options: &TableOptions) -> (WriteTxn, Table) {
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", options).unwrap();
    (txn, table)
}

/// A read transaction and its table "t".
fn begin_read(store: &Store) -> (ReadTxn, Table) {
    let txn = store.begin_read().unwrap();
    let table = txn.table("t").unwrap();
    (txn, table)
}

/// A copy of an entry.
type Owned = (Vec<u8>, Vec<u8>);

/// Copies an entry.
fn owned(entry: Entry<'_>) -> Owned {
    (entry.key.to_vec(), entry.value.to_vec())
}

/// An entry as the tests write it down.
fn pair(key: &str, value: &str) -> Owned {
    (key.into(), value.into())
}

/// All entries of a table.
fn all<S: Snapshot>(txn: &S, table: Table) -> Vec<Owned> {
    txn.range(table, ..).unwrap().map(|entry| owned(entry.unwrap())).collect()
}

/// Numbers without a pattern, the same ones in each run: SplitMix64.
fn numbers(mut state: u64) -> impl Iterator<Item = u64> {
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}
