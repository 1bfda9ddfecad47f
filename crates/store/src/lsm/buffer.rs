//! The newest entries, in memory: a memtable and its range tombstones. This module knows no file.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use super::entry::{Entry, Kind, Pointer, value_sum};
use super::files::memory::BUCKETS_PART;
use super::filter;
use super::log::segment::{Group, OpKind, Ops};
use super::memtable::{Kept, MemIter, Memtable, NodeRef};
use super::merge::Source;
use super::tombstones::{Pieces, Tombstone};
use crate::Result;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use crate::sync::{Mutex, locked};
use keys::Keys;

mod keys;

/// There is one bucket for each this many bytes of a full buffer: for each entry, if these are
/// short.
const BYTES_A_BUCKET: usize = BUCKETS_PART as usize * size_of::<usize>();
/// Right for buffers of up to 2 GiB.
const BUCKETS: RangeInclusive<usize> = 8..=16 << 20;
/// With more range tombstones than this the buffer counts as full: each look-up goes through their
/// layers.
const TOMBSTONES_MAX: usize = 1024;
/// Two layers become one if they have no more sequence numbers than this. Where many ranges lie
/// over each other, the pieces of one layer would have as many as the square of their number.
const LAYER_SEQS_MAX: usize = 4096;
/// If a reader passes this many deleted keys in one step, the buffer goes to a table before it is
/// full: there the values are left out that the deletions hide, and a merge leaves out these, too.
/// The first keys of a queue would else be sought behind ever more that were taken from it.
pub(crate) const PASSED_MAX: u32 = 4096;
/// What an entry takes besides key and value.
pub(crate) const ENTRY_BYTES: usize = 48;
/// What a range tombstone takes besides its keys.
const TOMBSTONE_BYTES: usize = 256;
/// A group with this many operations is put in in the order of its keys.
const MANY: u32 = 32;
/// A cursor that goes back finds this many entries at first, and twice as many each time it goes
/// on, up to ...
const CHUNK_MIN: usize = 2;
/// ... this many.
const CHUNK_MAX: usize = 32;

/// The newest entries and range tombstones.
pub(crate) struct Buffer {
    points: Memtable,
    /// The keys of the points.
    keys: Keys,
    /// About how many bytes the entries take.
    bytes: AtomicU64,
    /// The bytes of the separated values that they point to.
    separated: AtomicU64,
    ranges: Mutex<Vec<Tombstone>>,
    /// How many of these there are.
    ranges_len: AtomicU32,
    /// `ranges`, cut; readers take them.
    pieces: RwLock<Arc<Layers>>,
    /// Whether a reader had to pass many deleted keys.
    is_passed: AtomicBool,
}

/// Range tombstones: what lies over a key is the newest that any of the layers has over it. A layer
/// is at first one group of the log. The last ones become one when they have come to be as long as
/// each other, so that each range is cut anew a few times only, and there are few layers.
type Layers = Vec<Arc<Pieces>>;

impl Buffer {
    /// An empty one, which is full with about `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let buckets = (bytes_max / BYTES_A_BUCKET).clamp(*BUCKETS.start(), *BUCKETS.end());
        let points = Memtable::new(buckets);
        let (bytes, separated) = (AtomicU64::new(0), AtomicU64::new(0));
        let (ranges, ranges_len) = (Mutex::default(), AtomicU32::new(0));
        let (keys, pieces) = (Keys::new(bytes_max), RwLock::default());
        let is_passed = AtomicBool::new(false);
        Self { points, keys, bytes, separated, ranges, ranges_len, pieces, is_passed }
    }

    /// Does what a group of the log says; values that are separated stand in `segment`. `false` if
    /// the group makes no sense.
    pub(crate) fn apply(&self, segment: u32, group: &Group<'_>) -> bool {
        if group.count < MANY {
            return self.apply_by(segment, group, |key, hash, seq, kind, value| {
                self.points.insert(key, hash, seq, kind, value);
            });
        }
        let mut made = Vec::new();
        let is_whole = self.apply_by(segment, group, |key, hash, seq, kind, value| {
            made.push(self.points.make(key, hash, seq, kind, value));
        });
        self.points.insert_all(made);
        is_whole
    }

    /// The same, but that no entry is found before [`Buffer::put_in`].
    pub(crate) fn set_aside(&self, segment: u32, group: &Group<'_>) -> bool {
        self.apply_by(segment, group, |key, _, seq, kind, value| {
            self.points.set_aside(key, seq, kind, value);
        })
    }

    /// Puts in what was set aside.
    pub(crate) fn put_in(&self) {
        self.points.put_in();
    }

    fn apply_by(
        &self,
        segment: u32,
        group: &Group<'_>,
        mut put: impl FnMut(&[u8], u64, u64, Kind, &[u8]),
    ) -> bool {
        let mut ops = Ops::new(group.body);
        let (mut seq, mut bytes, mut separated) = (group.seq, 0, 0);
        let mut ranges = Vec::new();
        let mut put = |key: &[u8], seq, kind, value: &[u8]| {
            let hash = filter::hash(key);
            self.keys.put(hash);
            put(key, hash, seq, kind, value);
        };
        for op in &mut ops {
            let value = if op.kind == OpKind::Put { op.value.len() } else { Pointer::BYTES };
            bytes += op.key.len() + value + ENTRY_BYTES;
            match op.kind {
                OpKind::Put => put(op.key, seq, Kind::Inline, op.value),
                OpKind::PutSeparated => {
                    separated += op.value.len();
                    let offset = group.body_offset() + op.value_at as u64;
                    let (len, sum) = (op.value.len() as u32, value_sum(op.value));
                    let pointer = Pointer { segment, offset, len, sum }.encode();
                    put(op.key, seq, Kind::Separated, &pointer);
                }
                OpKind::Delete => put(op.key, seq, Kind::Tombstone, &[]),
                OpKind::DeleteRange => {
                    let (start, end) = (op.key.to_vec(), op.value.to_vec());
                    ranges.push(Tombstone { start, end, seq });
                }
            }
            seq += 1;
        }
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if !ranges.is_empty() {
            self.delete_ranges(ranges);
        }
        if separated > 0 {
            self.separated.fetch_add(separated as u64, Ordering::Relaxed);
        }
        ops.is_whole() && seq == group.seq + u64::from(group.count)
    }

    /// Adds those of one group: a reader sees all of them or none.
    fn delete_ranges(&self, tombstones: Vec<Tombstone>) {
        let mut last = Arc::new(Pieces::newest(&tombstones));
        let mut ranges = locked(&self.ranges);
        ranges.extend(tombstones);
        let mut layers = Layers::clone(&self.pieces());
        while let Some(before) = layers.pop_if(|before| may_join(before, &last)) {
            last = Arc::new(before.join(&last));
        }
        layers.push(last);
        *self.pieces.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(layers);
        // Whoever sees that there are some finds them.
        self.ranges_len.store(ranges.len() as u32, Ordering::Release);
    }

    /// The range tombstones, as they are now, in layers.
    pub(crate) fn pieces(&self) -> Arc<Layers> {
        Arc::clone(&self.pieces.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same, if there are any.
    pub(crate) fn some_pieces(&self) -> Option<Arc<Layers>> {
        (self.ranges() > 0).then(|| self.pieces())
    }

    /// The range tombstones, in the order in which they came.
    pub(crate) fn tombstones(&self) -> Vec<Tombstone> {
        locked(&self.ranges).clone()
    }

    /// The newest range tombstone over a key that a reader at `at` sees; 0 if there is none. If
    /// there are no range tombstones at all, reading threads share nothing that changes.
    pub(crate) fn cover(&self, key: &[u8], at: u64) -> u64 {
        if self.ranges() == 0 {
            return 0;
        }
        self.pieces().iter().map(|pieces| pieces.cover(key, at)).max().unwrap_or(0)
    }

    /// Bytes of memory that are held for it.
    pub(crate) fn memory(&self) -> usize {
        self.points.bytes() + self.keys.memory() + self.ranges() * TOMBSTONE_BYTES
    }

    /// About how many bytes what is in it takes, in a table, too.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) as usize + self.ranges() * TOMBSTONE_BYTES
    }

    /// About how many bytes its entries take, with the separated values that they point to.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.bytes() as u64 + self.separated.load(Ordering::Relaxed)
    }

    /// How many range tombstones there are.
    fn ranges(&self) -> usize {
        self.ranges_len.load(Ordering::Acquire) as usize
    }

    /// About how many keys it adds from the full key `from` on and before `to`; negative if more
    /// were deleted.
    pub(crate) fn estimate(&self, from: &[u8], to: &[u8]) -> i64 {
        self.points.estimate(from, to)
    }

    /// Whether it should be written to a table, if it may take at most `bytes_max` bytes.
    pub(crate) fn is_full(&self, bytes_max: usize) -> bool {
        self.ranges() >= TOMBSTONES_MAX
            || self.bytes() >= bytes_max
            || self.is_passed.load(Ordering::Relaxed)
    }

    /// A reader had to pass many deleted keys: in a table they would take less, or nothing.
    pub(crate) fn note_passed(&self) {
        self.is_passed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces().is_empty() && {
            let mut iter = self.points.iter();
            iter.first();
            iter.entry().is_none()
        }
    }

    /// How many entries a reader at `at` sees of it: of one key all versions.
    pub(crate) fn count(&self, at: u64) -> u64 {
        let (mut iter, mut count) = (self.points.iter(), 0);
        iter.first();
        while let Some(entry) = iter.entry() {
            count += u64::from(entry.1 <= at);
            iter.next();
        }
        count
    }

    /// Its entries, none of which is copied.
    pub(crate) fn walk(&self) -> MemIter<'_> {
        self.points.iter()
    }

    /// Has the processor fetch what a look-up of the key of that hash begins with.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.keys.prefetch(hash);
        self.points.prefetch(hash);
    }

    /// The newest entry of `key` that a reader at `at` sees, range tombstones left aside. `hash` is
    /// the key's, as filters have it.
    pub(crate) fn get(&self, key: &[u8], hash: u64, at: u64) -> Option<(u64, Kind, &[u8])> {
        if self.keys.may_have(hash) { self.points.get(key, hash, at) } else { None }
    }
}

/// Whether a layer becomes one with the one behind it, which has grown to its length.
fn may_join(before: &Pieces, behind: &Pieces) -> bool {
    let (before, behind) = (before.weight(), behind.weight());
    before <= 2 * behind && before + behind <= LAYER_SEQS_MAX
}

impl Source for MemIter<'_> {
    fn land(&mut self, key: &[u8], seq: u64) -> Result<()> {
        Self::seek(self, key, seq);
        Ok(())
    }

    fn first(&mut self) -> Result<()> {
        Self::first(self);
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        Self::last(self);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        Self::next(self);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        Self::prev(self);
        Ok(())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.node().map(NodeRef::entry)
    }
}

/// A place among the entries of a buffer that keeps the buffer. Entries that are added later are
/// newer than what its reader sees.
pub(crate) struct BufferCursor {
    /// The node here and some beside it: of those before a node several are found at a time, since
    /// each step back costs a search.
    nodes: Kept<Buffer>,
    /// Which of them is the one here.
    at: usize,
    /// How many it finds next.
    most: usize,
}

/// The only node in a list, or none.
fn only<'m>(mut nodes: Vec<NodeRef<'m>>, node: Option<NodeRef<'m>>) -> Vec<NodeRef<'m>> {
    nodes.clear();
    nodes.extend(node);
    nodes
}

impl BufferCursor {
    pub(crate) fn new(buffer: Arc<Buffer>) -> Self {
        Self { nodes: Kept::new(buffer), at: 0, most: CHUNK_MIN }
    }

    /// Goes to one node.
    fn go(
        &mut self,
        find: impl for<'k> FnOnce(&'k Memtable, &[NodeRef<'k>]) -> Option<NodeRef<'k>>,
    ) {
        self.at = 0;
        self.nodes.change(|buffer, nodes| {
            let found = find(&buffer.points, &nodes);
            only(nodes, found)
        });
    }

    /// Goes to the node to which `go` leads, and finds some before it.
    fn go_back(&mut self, go: impl FnOnce(&mut MemIter<'_>)) {
        let most = self.most;
        self.nodes.change(|buffer, mut nodes| {
            let mut last = buffer.points.iter_at(nodes.first().copied());
            go(&mut last);
            nodes.clear();
            let mut iter = last.some_before(most);
            while let Some(node) = iter.node() {
                nodes.push(node);
                if iter.stands_with(&last) {
                    break;
                }
                iter.next();
            }
            nodes
        });
        self.at = self.nodes.nodes().len().saturating_sub(1);
    }
}

impl BufferCursor {
    /// It has passed so many deleted entries at once.
    fn note_passed(&mut self, passed: u32) {
        if passed >= PASSED_MAX {
            self.nodes.change(|buffer, nodes| {
                buffer.note_passed();
                nodes
            });
        }
    }
}

impl Source for BufferCursor {
    fn aim(&mut self, key: &[u8]) -> Result<()> {
        self.go(|points, _| Some(points.aim(key, u64::MAX)));
        Ok(())
    }

    fn land(&mut self, key: &[u8], seq: u64) -> Result<()> {
        self.most = CHUNK_MIN;
        self.go(|points, nodes| points.land(*nodes.first()?, key, seq));
        Ok(())
    }

    /// Where a key has many versions, those that are newer than `seq` are not walked along, as they
    /// are from where [`Source::aim`] leads.
    fn seek(&mut self, key: &[u8], seq: u64) -> Result<()> {
        self.most = CHUNK_MIN;
        self.go(|points, _| {
            let mut iter = points.iter();
            iter.seek(key, seq);
            iter.node()
        });
        Ok(())
    }

    fn first(&mut self) -> Result<()> {
        self.most = CHUNK_MIN;
        self.go(|points, _| {
            let mut iter = points.iter();
            iter.first();
            iter.node()
        });
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        self.most = CHUNK_MIN;
        self.go_back(|iter| iter.last());
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if self.at + 1 < self.nodes.nodes().len() {
            self.at += 1;
        } else {
            self.go(|points, nodes| {
                let mut iter = points.iter_at(nodes.last().copied());
                iter.next();
                iter.node()
            });
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.at > 0 {
            self.at -= 1;
        } else {
            self.most = (2 * self.most).min(CHUNK_MAX);
            self.go_back(|iter| iter.prev());
        }
        Ok(())
    }

    fn pass(&mut self, end: &[u8], seq: u64) -> Result<()> {
        let mut passed = 0;
        while self.entry().is_some_and(|entry| entry.key < end && entry.seq < seq) {
            self.next()?;
            passed += 1;
        }
        self.note_passed(passed);
        Ok(())
    }

    fn pass_back(&mut self, start: &[u8], seq: u64) -> Result<()> {
        let mut passed = 0;
        while self.entry().is_some_and(|entry| entry.key >= start && entry.seq < seq) {
            self.prev()?;
            passed += 1;
        }
        self.note_passed(passed);
        Ok(())
    }

    fn rest(&mut self) {
        self.go(|_, _| None);
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.nodes.nodes().get(self.at).map(|node| node.entry())
    }
}

#[cfg(test)]
#[path = "buffer/tests.rs"]
mod tests;
