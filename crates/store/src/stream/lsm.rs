//! The lsm engine as a source of streams.

use std::ops::Bound;
use std::sync::Arc;

use super::scan::{Ends, Position, Scan};
use super::source::{Item, Snapshot, Source, Walk};
use crate::lsm::{Db, Keyspace, Range, Readable, Reader, Snapshot as LsmSnapshot};
use crate::tree::Bytes;
use crate::{Error, Result};

impl Source for Db {
    type Snapshot = LsmSnapshot;

    fn begin(&self) -> Result<LsmSnapshot> {
        Ok(self.snapshot())
    }

    fn newest_commit(&self) -> u64 {
        Db::newest_commit(self)
    }

    fn is_holding(&self, _: &Self::Snapshot, _: u64) -> Result<Option<(bool, u32)>> {
        Ok(None)
    }

    fn store_id(&self) -> Result<[u8; 16]> {
        self.id()
    }
}

impl Item for (Vec<u8>, Vec<u8>) {
    fn key(&self) -> Bytes<'_> {
        self.0.as_slice().into()
    }

    fn value(&self) -> Bytes<'_> {
        self.1.as_slice().into()
    }
}

impl Snapshot for LsmSnapshot {
    type Item<'t> = (Vec<u8>, Vec<u8>);
    type Walk<'t> = LsmWalk;

    const LENDS: bool = false;

    fn commit(&self) -> u64 {
        self.id()
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn walk(&self, scan: &Scan, ends: &Ends) -> Result<LsmWalk> {
        LsmWalk::new(self, self.find_keyspace(&scan.table)?, scan, ends)
    }
}

impl Source for Arc<Reader> {
    type Snapshot = Self;

    fn begin(&self) -> Result<Self> {
        Ok(Self::clone(self))
    }

    fn newest_commit(&self) -> u64 {
        Reader::newest_commit(self)
    }

    fn is_holding(&self, _: &Self::Snapshot, _: u64) -> Result<Option<(bool, u32)>> {
        Ok(None)
    }

    fn store_id(&self) -> Result<[u8; 16]> {
        self.id()
    }
}

impl Snapshot for Arc<Reader> {
    type Item<'t> = (Vec<u8>, Vec<u8>);
    type Walk<'t> = LsmWalk;

    const LENDS: bool = false;

    fn commit(&self) -> u64 {
        Reader::newest_commit(self)
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn walk(&self, scan: &Scan, ends: &Ends) -> Result<LsmWalk> {
        LsmWalk::new(&**self, self.find_keyspace(&scan.table)?, scan, ends)
    }
}

impl LsmWalk {
    fn new(
        snapshot: &impl Readable,
        keyspace: Option<Keyspace>,
        scan: &Scan,
        ends: &Ends,
    ) -> Result<Self> {
        let Some(keyspace) = keyspace else {
            return Err(Error::NoTable { name: scan.table.clone() });
        };
        let [low, high] = scan.inside(ends, |a, b| a.cmp(b));
        let (low, high) = (bound(&scan.keys.0, low), bound(&scan.keys.1, high));
        let mut range = snapshot.range(&keyspace, (low, high))?;
        if scan.keys_only {
            range = range.keys_only();
        }
        for _ in 0..scan.to_skip(ends) {
            let passed = if scan.is_reverse { range.next_back() } else { range.next() };
            if passed.transpose()?.is_none() {
                break;
            }
        }
        Ok(Self { range, left: scan.left(ends.taken) })
    }
}

/// A bound of what is left.
fn bound<'k>(end: &'k Bound<Vec<u8>>, reached: Option<&'k Position>) -> Bound<&'k [u8]> {
    match reached {
        Some(Position { key, .. }) => Bound::Excluded(key),
        None => end.as_ref().map(Vec::as_slice),
    }
}

/// The pairs that a scan finds in a snapshot of the lsm engine, in the order of the keys.
pub struct LsmWalk {
    range: Range,
    left: u64,
}

impl Iterator for LsmWalk {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.range.next()
    }
}

impl DoubleEndedIterator for LsmWalk {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.range.next_back()
    }
}

impl Walk<'_> for LsmWalk {
    type Given = (Vec<u8>, Vec<u8>);

    #[inline]
    fn see<T>(
        &mut self,
        backwards: bool,
        see: impl FnOnce(Bytes<'_>, Bytes<'_>) -> T,
    ) -> Option<Result<T>> {
        self.left = self.left.checked_sub(1)?;
        self.range.see(backwards, |key, value| see(key.into(), value.into()))
    }

    /// Unknown: the engine does not count.
    fn remaining(&self) -> Option<u64> {
        None
    }

    fn reached(&self, backwards: bool) -> Result<Option<Position>> {
        let key = self.range.reached(backwards);
        Ok(key.map(|key| Position { key: key.to_vec(), value: None }))
    }
}
