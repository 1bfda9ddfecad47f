//! The names of a store's keyspaces that were asked for: what of the catalog is in memory.

use std::collections::BTreeMap;

use super::keyspace::Keyspace;
use crate::sync::{Mutex, MutexGuard, locked};

/// The names that were looked up, and the store that they belong to.
pub(crate) struct Catalog {
    /// Tells the open stores of a process apart.
    pub(crate) store: u64,
    names: Mutex<Names>,
}

#[derive(Default)]
pub(super) struct Names {
    pub(super) known: BTreeMap<Vec<u8>, Keyspace>,
    /// The highest number of a keyspace that was dropped since the store was opened: snapshots may
    /// still see what was in it.
    pub(super) dropped: u32,
    /// The highest number that any keyspace has which a reader can see, once it was looked for.
    /// Only the holder of these names gives numbers, so it is looked for once.
    pub(super) highest: Option<u32>,
}

impl Catalog {
    pub(crate) fn new(store: u64) -> Self {
        Self { store, names: Mutex::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Names> {
        locked(&self.names)
    }
}
