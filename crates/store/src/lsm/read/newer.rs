//! The keys of a range that were touched between two commits, in their order: those that the log
//! names (`touched`) or, where it does not say it, those of which memtables and tables have an
//! entry that is newer. Tables that hold nothing newer are not read.

use std::sync::Arc;

use super::range::{Part, Walk, Way};
use super::touched::{Touched, union};
use super::view::View;
use crate::Result;
use crate::lsm::buffer::BufferCursor;
use crate::lsm::entry::{KEYSPACE_BYTES, full_key};
use crate::lsm::levels::cursor::LevelCursor;
use crate::lsm::levels::version::LEVELS;
use crate::lsm::merge::{Merge, Source};
use crate::lsm::table::{Pace, TableCursor};

/// Where the keys come from that were put or deleted one by one.
enum Keys {
    Named(Arc<Touched>, usize),
    Stored(Merge),
}

/// The keys of a range that were touched.
pub(crate) struct Newer {
    old: View,
    at: u64,
    keyspace: u32,
    /// Full keys.
    bounds: (Vec<u8>, Vec<u8>),
    keys: Keys,
    /// The next of them.
    ahead: Option<Vec<u8>>,
    /// Deleted ranges that are left, the first one last.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// The way through the keys that the old view has in one of them, and the next of these.
    deleted: Option<Way>,
    deleted_ahead: Option<Vec<u8>>,
    is_begun: bool,
}

impl Newer {
    /// From what `old` sees to what `new` sees; between two full keys of a keyspace.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub(crate) fn new(
        (old, new): (View, &View),
        keyspace: u32,
        bounds: (Vec<u8>, Vec<u8>),
        touched: Option<Arc<Touched>>,
    ) -> Result<Self> {
        let (from, to) = &bounds;
        let (keys, ranges) = match touched {
            Some(touched) => {
                let ranges = touched.ranges(from, to).to_vec();
                (Keys::Named(touched, 0), ranges)
            }
            None => {
                let mut merge = Merge::new(sources(new, old.at)?);
                merge.seek(from, u64::MAX)?;
                (Keys::Stored(merge), union(deleted_ranges(new, old.at, (from, to))?))
            }
        };
        let cut = ranges.into_iter().map(|(a, b)| (a.max(from.clone()), b.min(to.clone())));
        let ranges = cut.filter(|(a, b)| a < b).rev().collect();
        let (ahead, deleted, deleted_ahead) = (None, None, None);
        let (at, is_begun) = (new.at, false);
        Ok(Self {
            old,
            at,
            keyspace,
            bounds,
            keys,
            ahead,
            ranges,
            deleted,
            deleted_ahead,
            is_begun,
        })
    }

    /// The next key, without its keyspace; `None` after the last one.
    ///
    /// # Errors
    /// If something cannot be read.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>> {
        if !self.is_begun {
            self.is_begun = true;
            self.ahead = self.next_written()?;
            self.deleted_ahead = self.next_deleted()?;
        }
        let (is_written, is_deleted) = match (&self.ahead, &self.deleted_ahead) {
            (None, None) => return Ok(None),
            (Some(a), Some(b)) => (a <= b, b <= a),
            (a, b) => (a.is_some(), b.is_some()),
        };
        let mut key = None;
        if is_written {
            let next = self.next_written()?;
            key = std::mem::replace(&mut self.ahead, next);
        }
        if is_deleted {
            let next = self.next_deleted()?;
            key = std::mem::replace(&mut self.deleted_ahead, next);
        }
        Ok(key)
    }

    /// The next key that was put or deleted.
    fn next_written(&mut self) -> Result<Option<Vec<u8>>> {
        let (from, to) = &self.bounds;
        let full = match &mut self.keys {
            Keys::Named(touched, at) => {
                let found = touched.keys(from, to).get(*at);
                *at += 1;
                found.cloned()
            }
            Keys::Stored(merge) => newer_key(merge, (self.old.at, self.at), to)?,
        };
        Ok(full.map(|mut full| full.split_off(KEYSPACE_BYTES)))
    }

    /// The next key that the old view has in a deleted range.
    fn next_deleted(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(way) = &mut self.deleted
                && let Some(key) = way.step(|key, _| key.into_owned())?
            {
                return Ok(Some(key));
            }
            let Some(range) = self.ranges.pop() else { return Ok(None) };
            let part = Part::keys_between(self.old.clone(), self.keyspace, range);
            self.deleted = Some(part.walk(false)?);
        }
    }
}

/// The next key before `to` of which there is an entry that is newer than `after`, but not than
/// `at`; the merge then stands after it.
fn newer_key(merge: &mut Merge, (after, at): (u64, u64), to: &[u8]) -> Result<Option<Vec<u8>>> {
    loop {
        let Some(entry) = merge.entry().filter(|entry| entry.key < to) else { return Ok(None) };
        if entry.seq > after && entry.seq <= at {
            let key = entry.key.to_vec();
            // Behind all of its versions.
            while merge.entry().is_some_and(|entry| entry.key == key) {
                merge.next()?;
            }
            return Ok(Some(key));
        }
        merge.next()?;
    }
}

/// What may hold entries that are newer than a sequence number.
fn sources(view: &View, after: u64) -> Result<Vec<Box<dyn Source>>> {
    let (current, mut sources) = (&view.current, Vec::<Box<dyn Source>>::new());
    sources.push(Box::new(BufferCursor::new(Arc::clone(&current.active))));
    for frozen in current.frozen.iter().filter(|frozen| frozen.last_seq > after) {
        sources.push(Box::new(BufferCursor::new(Arc::clone(&frozen.buffer))));
    }
    for level in 0..LEVELS {
        let tables = current.version.level(level).iter();
        let newer = tables.filter(|table| table.meta.seqs.1 > after).cloned().collect::<Vec<_>>();
        if level == 0 {
            for table in newer {
                sources.push(Box::new(TableCursor::new(table.open()?, Pace::Whole)));
            }
        } else if !newer.is_empty() {
            sources.push(Box::new(LevelCursor::new(Arc::new(newer), Pace::Whole)));
        }
    }
    Ok(sources)
}

/// The ranges that were deleted after a sequence number and have a part between two full keys.
fn deleted_ranges(
    view: &View,
    after: u64,
    bounds: (&[u8], &[u8]),
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let seqs = (after, view.at);
    let owned = |(from, to): (&[u8], &[u8])| (from.to_vec(), to.to_vec());
    let mut ranges = Vec::new();
    for buffer in view.current.buffers() {
        for pieces in buffer.pieces().iter() {
            ranges.extend(pieces.newer(seqs, bounds).map(owned));
        }
    }
    let tables = view.version().tables().map(|(_, table)| table);
    for table in tables.filter(|table| table.meta.ranges > 0 && table.meta.seqs.1 > after) {
        ranges.extend(table.open()?.pieces().newer(seqs, bounds).map(owned));
    }
    Ok(ranges)
}

/// The full keys between which a keyspace lies.
pub(crate) fn whole(keyspace: u32) -> (Vec<u8>, Vec<u8>) {
    (full_key(keyspace, &[]), full_key(keyspace + 1, &[]))
}
