//! What a transaction read and wrote, and whether others changed any of it since it began. All keys
//! are full keys; a range ends before its second one.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ranges::Ranges;
use crate::Result;
use crate::lsm::buffer::{Buffer, BufferCursor};
use crate::lsm::filter;
use crate::lsm::levels::table_file::TableFile;
use crate::lsm::log::segment::{OpKind, Ops};
use crate::lsm::merge::Source;
use crate::lsm::read::view::Current;
use crate::lsm::table::{Pace, TableCursor};
use crate::lsm::tombstones::Pieces;

/// Keys and ranges that a transaction depends on.
#[derive(Debug, Default)]
pub(crate) struct Footprint {
    /// The transaction saw everything up to this sequence number.
    pub(crate) at: u64,
    pub(crate) points: BTreeSet<Vec<u8>>,
    pub(crate) ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Footprint {
    /// Joins ranges that overlap, so that what lies in several of them is looked at once.
    pub(crate) fn join_ranges(&mut self) {
        if self.ranges.len() > 1 {
            let mut joined = Ranges::default();
            self.ranges.drain(..).for_each(|(from, to)| joined.add(from, to));
            self.ranges.extend(joined);
        }
    }

    /// Whether there is an entry newer than what the transaction saw, on any key or in any range.
    ///
    /// While the transaction holds its snapshot, every key that was changed since has such an entry
    /// or lies under such a range tombstone: merges leave out only entries that newer ones hide.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub(crate) fn was_changed(&self, current: &Current) -> Result<bool> {
        let frozen = current.frozen.iter().filter(|frozen| frozen.last_seq > self.at);
        for buffer in std::iter::once(&current.active).chain(frozen.map(|frozen| &frozen.buffer)) {
            if self.was_changed_in_buffer(buffer)? {
                return Ok(true);
            }
        }
        let tables = current.version.tables().map(|(_, table)| table);
        for table in tables.filter(|table| table.meta.seqs.1 > self.at) {
            if self.was_changed_in_table(table)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn was_changed_in_buffer(&self, buffer: &Arc<Buffer>) -> Result<bool> {
        let is_newer = |key: &Vec<u8>| {
            buffer.get(key, filter::hash(key), u64::MAX).is_some_and(|(seq, _, _)| seq > self.at)
        };
        let is_deleted = || buffer.pieces().iter().any(|pieces| self.is_under(pieces));
        if is_deleted() || self.points.iter().any(is_newer) {
            return Ok(true);
        }
        let mut cursor = BufferCursor::new(Arc::clone(buffer));
        self.has_newer(&mut cursor, |_, _| true)
    }

    fn was_changed_in_table(&self, table: &TableFile) -> Result<bool> {
        let open = table.open()?;
        if self.is_under(open.pieces()) {
            return Ok(true);
        }
        let bounds = &table.meta.bounds;
        let mut cursor = TableCursor::new(open.clone(), Pace::Searching);
        let may_have = |key: &&Vec<u8>| bounds.contains(key) && open.may_hold(filter::hash(key));
        for key in self.points.iter().filter(may_have) {
            cursor.seek(key, u64::MAX)?;
            if cursor.entry().is_some_and(|entry| entry.key == key && entry.seq > self.at) {
                return Ok(true);
            }
        }
        let touches =
            |from: &[u8], to: &[u8]| bounds.first.as_slice() < to && !bounds.is_before(from);
        self.has_newer(&mut cursor, touches)
    }

    /// Whether a source has a newer entry in one of the ranges that `touches` it.
    fn has_newer(
        &self,
        source: &mut dyn Source,
        touches: impl Fn(&[u8], &[u8]) -> bool,
    ) -> Result<bool> {
        for (from, to) in self.ranges.iter().filter(|(from, to)| touches(from, to)) {
            source.seek(from, u64::MAX)?;
            while let Some(entry) = source.entry().filter(|entry| entry.key < to.as_slice()) {
                if entry.seq > self.at {
                    return Ok(true);
                }
                source.next()?;
            }
        }
        Ok(false)
    }

    /// Whether a newer range tombstone lies over a key or a part of a range.
    fn is_under(&self, pieces: &Pieces) -> bool {
        if pieces.is_empty() {
            return false;
        }
        let newer =
            |seqs: &[u64]| seqs.iter().copied().filter(|&seq| seq > self.at).collect::<Vec<u64>>();
        self.points.iter().any(|key| pieces.cover(key, u64::MAX) > self.at)
            || self.ranges.iter().any(|(from, to)| !pieces.within(from, Some(to), newer).is_empty())
    }

    /// Whether changes that come right before it are on a key or in a range of it.
    pub(crate) fn meets(&self, changes: &Changes<'_>) -> bool {
        let is_changed = |key: &Vec<u8>| {
            let key = key.as_slice();
            changes.points.contains(key) || changes.ranges.has(key)
        };
        let has_changes = |(from, to): &(Vec<u8>, Vec<u8>)| {
            let (from, to) = (from.as_slice(), to.as_slice());
            from < to
                && (changes.points.range(from..to).next().is_some()
                    || changes.ranges.meets(from, to))
        };
        self.points.iter().any(is_changed) || self.ranges.iter().any(has_changes)
    }
}

/// What batches change.
#[derive(Default)]
pub(crate) struct Changes<'b> {
    points: BTreeSet<&'b [u8]>,
    ranges: Ranges<&'b [u8]>,
}

impl<'b> Changes<'b> {
    /// Adds the operations of a batch.
    pub(crate) fn add(&mut self, body: &'b [u8]) {
        for op in Ops::new(body) {
            match op.kind {
                OpKind::DeleteRange => self.ranges.add(op.key, op.value),
                OpKind::Put | OpKind::PutSeparated | OpKind::Delete => {
                    self.points.insert(op.key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsm::log::segment::push_op;

    /// A commit must not go through the same keys once for each range that has them.
    #[test]
    fn what_lies_in_several_ranges_is_looked_at_once() {
        let range = |from: u8, to: u8| (vec![from], vec![to]);
        let mut footprint = Footprint::default();
        for n in 0..100 {
            footprint.ranges.extend([range(n, 150), range(200, 210 + n % 7), range(180, 180)]);
        }
        footprint.join_ranges();
        assert_eq!(footprint.ranges, [range(0, 150), range(200, 216)]);
        footprint.join_ranges();
        assert_eq!(footprint.ranges.len(), 2);
    }

    #[test]
    fn a_footprint_meets_what_is_on_its_keys_and_in_its_ranges() {
        let mut body = Vec::new();
        push_op(&mut body, OpKind::Put, [b"0000", b"k"], [b"value", b""]);
        push_op(&mut body, OpKind::DeleteRange, [b"0000", b"p"], [b"0000", b"t"]);
        let mut changes = Changes::default();
        changes.add(&body);
        let point = |key: &[u8]| Footprint { points: [key.to_vec()].into(), ..Default::default() };
        let range = |from: &[u8], to: &[u8]| Footprint {
            ranges: vec![(from.to_vec(), to.to_vec())],
            ..Default::default()
        };
        for (met, footprint) in [
            (true, point(b"0000k")),
            (false, point(b"0000l")),
            (true, point(b"0000p")),
            (false, point(b"0000t")),
            (true, range(b"0000", b"0000l")),
            (false, range(b"0000", b"0000k")),
            (true, range(b"0000s", b"0000z")),
            (false, range(b"0000t", b"0000z")),
            (false, range(b"0000k", b"0000k")),
            (false, Footprint::default()),
        ] {
            assert_eq!(footprint.meets(&changes), met, "{footprint:?}");
        }
        assert!(!point(b"0000k").meets(&Changes::default()));
    }
}
