//! The newest entries in memory, in order. Knows no file.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

use super::entry::Kind;

type Map = BTreeMap<(Vec<u8>, Reverse<u64>), (Kind, Vec<u8>)>;

/// The newest entries.
pub(crate) struct Memtable {
    map: RwLock<(Map, usize)>,
}

impl Memtable {
    pub(crate) fn new() -> Self {
        Self { map: RwLock::default() }
    }

    pub(crate) fn insert(&self, key: &[u8], seq: u64, kind: Kind, value: &[u8]) {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.1 += key.len() + value.len() + 64;
        map.0.insert((key.to_vec(), Reverse(seq)), (kind, value.to_vec()));
    }

    /// The newest entry of `key` that a reader at `at` sees.
    pub(crate) fn get(&self, key: &[u8], at: u64) -> Option<(u64, Kind, Vec<u8>)> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let mut range = map.0.range((key.to_vec(), Reverse(at))..);
        let ((found, Reverse(seq)), (kind, value)) = range.next()?;
        (found == key).then(|| (*seq, *kind, value.clone()))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.map.read().unwrap_or_else(PoisonError::into_inner).1
    }

    pub(crate) fn iter(&self) -> MemIter<'_> {
        MemIter { memtable: self, entry: None }
    }
}

type Found = (Vec<u8>, u64, Kind, Vec<u8>);

/// A place among the entries.
pub(crate) struct MemIter<'m> {
    memtable: &'m Memtable,
    entry: Option<Found>,
}

impl MemIter<'_> {
    fn find(&mut self, range: (Bound<(Vec<u8>, Reverse<u64>)>, Bound<(Vec<u8>, Reverse<u64>)>), back: bool) {
        let map = self.memtable.map.read().unwrap_or_else(PoisonError::into_inner);
        let mut range = map.0.range(range);
        let found = if back { range.next_back() } else { range.next() };
        self.entry = found.map(|(k, v)| (k.0.clone(), k.1.0, v.0, v.1.clone()));
    }

    pub(crate) fn seek(&mut self, key: &[u8], seq: u64) {
        self.find((Bound::Included((key.to_vec(), Reverse(seq))), Bound::Unbounded), false);
    }

    pub(crate) fn first(&mut self) {
        self.find((Bound::Unbounded, Bound::Unbounded), false);
    }

    pub(crate) fn last(&mut self) {
        self.find((Bound::Unbounded, Bound::Unbounded), true);
    }

    pub(crate) fn next(&mut self) {
        if let Some((key, seq, ..)) = self.entry.take() {
            self.find((Bound::Excluded((key, Reverse(seq))), Bound::Unbounded), false);
        }
    }

    pub(crate) fn prev(&mut self) {
        if let Some((key, seq, ..)) = self.entry.take() {
            self.find((Bound::Unbounded, Bound::Excluded((key, Reverse(seq)))), true);
        }
    }

    pub(crate) fn entry(&self) -> Option<(&[u8], u64, Kind, &[u8])> {
        self.entry.as_ref().map(|(key, seq, kind, value)| (&key[..], *seq, *kind, &value[..]))
    }
}
