//! The memtable: the newest entries, in order, in memory. A skip list whose nodes lie in an arena.
//!
//! Entries ascend by user key, bytewise, and the entries of one key descend by sequence number, so
//! that the first one at or after `(key, number)` is the newest that a snapshot of that number may
//! see. Nothing is ever changed or taken out: a deletion is an entry of its own.
//!
//! Any number of threads may insert and read at the same time. A reader only loads; it never waits
//! and is never made to begin anew. A writer that loses a race for a link tries that link again. A
//! node is linked into the lowest level first, and at that moment the entry is there; the levels
//! above only make it quicker to find. The memory of all nodes is given back at once, with the
//! memtable.
//!
//! A key is looked up by its hash and not through the list, each step of which waits for memory:
//! each entry is in the bucket of its hash, too. Of the entries of one key all but the newest are
//! marked as old, by the thread that links the later one of two neighbours. Threads may put them
//! into the bucket in another order; so a look-up that meets an old one goes through the list.
//!
//! This module knows no file and gives out no sequence numbers.

use std::cmp::Ordering as Order;
use std::sync::atomic::Ordering;

use super::entry::{Kind, head, heads, order};
use super::filter;
use crate::sync::atomic::AtomicU32;

mod arena;
mod node;
#[cfg(test)]
mod tests;
pub(in crate::lsm) mod zeros;

use node::{HEIGHT_MAX, Nodes};
pub(crate) use node::{Kept, NodeRef};

/// An entry: user key, sequence number, kind, and value (or what stands for it).
pub(crate) type MemEntry<'m> = (&'m [u8], u64, Kind, &'m [u8]);

/// A look-up goes this far in a bucket before it goes through the list: nobody who chooses keys of
/// one hash, or overwrites one key again and again, makes it go further.
const BUCKET_STEPS_MAX: usize = 16;
/// Putting nodes in order prefetches the node that is this many places ahead, and its bucket.
const AHEAD: usize = 6;
/// A search that is made in two parts goes down to this level first.
const AIMED: usize = 2;
/// An estimate counts this many nodes before it takes them as representative of the levels below.
const ESTIMATED_FROM: u64 = 256;

/// An ordered set of entries that grows.
pub(crate) struct Memtable {
    nodes: Nodes,
    /// No node is linked into a level above this one's number.
    height: AtomicU32,
}

/// Bytes of a key in a head.
const HEAD_BYTES: usize = size_of::<u64>();

/// A place in the order of entries.
#[derive(Clone, Copy)]
struct Target<'k> {
    /// [`head`](super::entry::head) of the key.
    key_head: u64,
    /// The same of the bytes after those, and of those after them.
    more: [u64; 2],
    key: &'k [u8],
    seq: u64,
}

impl<'k> Target<'k> {
    fn new(key: &'k [u8], seq: u64) -> Self {
        let [key_head, more @ ..] = heads(key);
        Self { key_head, more, key, seq }
    }

    /// The place of a node.
    fn of(node: NodeRef<'k>) -> Self {
        Self::new(node.key(), node.seq())
    }

    /// The order of two places.
    fn order(&self, other: &Self) -> Order {
        let keys = || order(self.key, other.key).then_with(|| other.seq.cmp(&self.seq));
        let heads = self.key_head.cmp(&other.key_head).then(self.more.cmp(&other.more));
        heads.then_with(keys)
    }

    /// How many levels the node of this place is in: one with probability 3/4, two with 3/16, and
    /// so on.
    fn height(&self) -> usize {
        // The finaliser of SplitMix64, over multiples of an odd number.
        let mut bits = self.key_head ^ self.seq.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        HEIGHT_MAX.min(1 + bits.trailing_zeros() as usize / 2)
    }

    /// The order of another key to this one, whose heads are the same.
    #[inline]
    fn order_of_rest(&self, key: &[u8]) -> Order {
        let after = |from: usize| head(key.get(from..).unwrap_or_default());
        let second = after(HEAD_BYTES);
        if second != self.more[0] {
            return second.cmp(&self.more[0]);
        }
        let third = after(2 * HEAD_BYTES);
        if third != self.more[1] { third.cmp(&self.more[1]) } else { order(key, self.key) }
    }

    /// Whether a node has the key of this place.
    #[inline]
    fn is_of_key(&self, node: NodeRef<'_>) -> bool {
        node.key_head() == self.key_head && node.key() == self.key
    }

    /// Whether a node comes before this place.
    #[inline]
    fn is_after(&self, node: NodeRef<'_>) -> bool {
        let head = node.key_head();
        if head != self.key_head {
            return head < self.key_head;
        }
        match self.order_of_rest(node.key()) {
            Order::Less => true,
            Order::Greater => false,
            Order::Equal => node.seq() > self.seq,
        }
    }
}

/// An entry in memory of its memtable that is not in the order yet.
pub(crate) struct Made<'m> {
    /// [`heads`] of the key: they are compared again and again.
    key_head: u64,
    more: [u64; 2],
    /// The key's.
    hash: u64,
    node: NodeRef<'m>,
}

impl<'m> Made<'m> {
    fn new(node: NodeRef<'m>, hash: u64) -> Self {
        let [key_head, more @ ..] = heads(node.key());
        Self { key_head, more, hash, node }
    }

    fn place(&self) -> Target<'m> {
        let (key, seq) = (self.node.key(), self.node.seq());
        Target { key_head: self.key_head, more: self.more, key, seq }
    }
}

/// The last node before a place in a level, and the first one not before it.
type Gap<'m> = (NodeRef<'m>, Option<NodeRef<'m>>);

impl Memtable {
    /// An empty one with this many buckets, of which there is at least one.
    pub(crate) fn new(buckets: usize) -> Self {
        Self { nodes: Nodes::new(buckets), height: AtomicU32::new(1) }
    }

    /// Puts an entry in; `hash` is the key's. It is found from then on, also by iterators that
    /// exist already. A pair of key and number is put in once; a second one of the same pair hides
    /// the first from `get`.
    ///
    /// # Panics
    ///
    /// When key or value have more than `u32::MAX` bytes.
    pub(crate) fn insert(&self, key: &[u8], hash: u64, seq: u64, kind: Kind, value: &[u8]) {
        self.nodes.prefetch_bucket(hash);
        let target = Target::new(key, seq);
        let node = self.nodes.make(target.height(), key, seq, kind, value);
        let listed = self.raise(node.height());
        self.link(&mut self.gaps(&target, listed), &target, node);
        self.nodes.put_in_bucket(hash, node);
    }

    /// Sets an entry aside that [`Memtable::put_in`] is to put in. Where many come at once that is
    /// quicker than one search for each.
    ///
    /// # Panics
    ///
    /// As [`Memtable::insert`].
    pub(crate) fn set_aside(&self, key: &[u8], seq: u64, kind: Kind, value: &[u8]) {
        let height = Target::new(key, seq).height();
        self.nodes.set_aside(self.nodes.make(height, key, seq, kind, value));
    }

    /// Puts in what was set aside, by one thread.
    pub(crate) fn put_in(&self) {
        let aside = self.nodes.take_aside();
        let made = aside.map(|node| Made::new(node, filter::hash(node.key())));
        let mut nodes: Vec<_> = made.collect();
        // As they were set aside, which may be their order already.
        nodes.reverse();
        self.insert_all(nodes);
    }

    /// An entry that is to be put in with others, by [`Memtable::insert_all`].
    ///
    /// # Panics
    ///
    /// As [`Memtable::insert`].
    pub(crate) fn make(
        &self,
        key: &[u8],
        hash: u64,
        seq: u64,
        kind: Kind,
        value: &[u8],
    ) -> Made<'_> {
        let height = Target::new(key, seq).height();
        Made::new(self.nodes.make(height, key, seq, kind, value), hash)
    }

    /// Puts entries of this memtable in, in their order, each from the place of the one before:
    /// that waits for memory less than a search for each.
    pub(crate) fn insert_all(&self, mut made: Vec<Made<'_>>) {
        made.sort_unstable_by(|a, b| a.place().order(&b.place()));
        let height = made.iter().map(|made| made.node.height()).max().unwrap_or(1);
        let listed = self.raise(height);
        let Some(first) = made.first() else { return };
        let mut gaps = self.gaps(&first.place(), listed);
        for (at, one) in made.iter().enumerate() {
            if let Some(later) = made.get(at + AHEAD) {
                later.node.prefetch();
                self.nodes.prefetch_bucket(later.hash);
            }
            let place = one.place();
            self.move_on(&mut gaps[..listed], &place);
            self.link(&mut gaps, &place, one.node);
            self.nodes.put_in_bucket(one.hash, one.node);
        }
    }

    /// Links a node into the gaps of its place in all its levels; they begin with it then.
    fn link<'m>(&'m self, gaps: &mut [Gap<'m>], place: &Target<'_>, node: NodeRef<'m>) {
        for (level, gap) in gaps.iter_mut().enumerate().take(node.height()) {
            while !self.nodes.link(level, gap.0, gap.1, node) {
                // Another thread linked a node there; ours still belongs after `gap.0`.
                *gap = walk(gap.0, level, place, None);
            }
            if level == 0 {
                mark_old(gap.0, Some(node));
                mark_old(node, gap.1);
            }
            gap.0 = node;
        }
    }

    /// Moves the gaps of all levels on to a place, none of which is after it: from the lowest level
    /// whose gap still holds the place.
    fn move_on<'m>(&'m self, gaps: &mut [Gap<'m>], place: &Target<'_>) {
        let holds = |gap: &Gap<'_>| gap.1.is_none_or(|next| !place.is_after(next));
        let top = gaps.iter().position(holds).unwrap_or(gaps.len());
        let mut above = gaps.get(top).map_or(self.nodes.head(), |gap| gap.0);
        for level in (0..top).rev() {
            let here = gaps[level].0;
            let is_further = above != self.nodes.head() && Target::of(above).is_after(here);
            let from = if here == self.nodes.head() || is_further { above } else { here };
            gaps[level] = walk(from, level, place, None);
            above = gaps[level].0;
        }
    }

    /// Has the processor fetch what a look-up of the key of that hash begins with.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.nodes.prefetch_bucket(hash);
    }

    /// The newest entry of a key whose number is at most `at`: its number, kind and value. `hash`
    /// is the key's. No thread is putting an entry of the key in that has such a number.
    pub(crate) fn get(&self, key: &[u8], hash: u64, at: u64) -> Option<(u64, Kind, &[u8])> {
        let node = self.newest(&Target::new(key, at), hash)?;
        Some((node.seq(), node.kind(), node.value()))
    }

    /// The node of the key of a place that comes first, from the place on.
    #[inline]
    fn newest(&self, target: &Target<'_>, hash: u64) -> Option<NodeRef<'_>> {
        let mut nodes = self.nodes.in_bucket(hash);
        let first = nodes.by_ref().take(BUCKET_STEPS_MAX).find(|&node| target.is_of_key(node));
        match first {
            Some(node) if node.seq() <= target.seq && !node.is_old() => Some(node),
            None if nodes.next().is_none() => None,
            _ => self.gap(target).1.filter(|&node| target.is_of_key(node)),
        }
    }

    /// About how many keys it adds from `from` on and before `to`, entries that delete taken off:
    /// counted in the highest level in which there are enough of them, each for four in the level
    /// below; exactly where there are few.
    pub(crate) fn estimate(&self, from: &[u8], to: &[u8]) -> i64 {
        let height = self.height.load(Ordering::Relaxed) as usize;
        let (begin, end) = (Target::new(from, u64::MAX), Target::new(to, u64::MAX));
        let gaps = self.gaps(&begin, height.max(1));
        let mut estimate = 0;
        for level in (0..height).rev() {
            let mut seen = 0;
            let mut sum = 0;
            let mut next = gaps[level].1;
            while let Some(node) = next.filter(|&node| end.is_after(node)) {
                seen += 1;
                sum += if node.kind() == Kind::Tombstone { -1 } else { 1 };
                next = node.next(level);
            }
            estimate = sum << (2 * level);
            if seen >= ESTIMATED_FROM {
                break;
            }
        }
        estimate
    }

    /// The bytes of memory that are held for it.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.bytes()
    }

    /// An iterator that stands nowhere.
    pub(crate) fn iter(&self) -> MemIter<'_> {
        self.iter_at(None)
    }

    /// An iterator that stands on a node of this memtable.
    pub(crate) fn iter_at<'m>(&'m self, at: Option<NodeRef<'m>>) -> MemIter<'m> {
        MemIter { memtable: self, at }
    }

    /// A node of the level [`AIMED`] before a place, the head perhaps: from there on a search waits
    /// for memory at nearly every step.
    pub(crate) fn aim(&self, key: &[u8], seq: u64) -> NodeRef<'_> {
        self.node_before(&Target::new(key, seq), AIMED)
    }

    /// The first node that does not come before a place, from where [`Memtable::aim`] led.
    pub(crate) fn land<'m>(
        &'m self,
        aimed: NodeRef<'m>,
        key: &[u8],
        seq: u64,
    ) -> Option<NodeRef<'m>> {
        gap_from(aimed, AIMED, &Target::new(key, seq)).1
    }

    /// Makes the list at least this high; returns its height. It seldom changes, and all threads
    /// read it.
    fn raise(&self, height: usize) -> usize {
        let listed = self.height.load(Ordering::Relaxed) as usize;
        if listed >= height {
            return listed;
        }
        height.max(self.height.fetch_max(height as u32, Ordering::Relaxed) as usize)
    }

    /// The last node before a place and the first one not before it, in the lowest level.
    #[inline]
    fn gap(&self, target: &Target<'_>) -> Gap<'_> {
        gap_from(self.nodes.head(), self.height.load(Ordering::Relaxed) as usize, target)
    }

    /// A node before a place, the head perhaps: in most cases about 4 to the power of `level` nodes
    /// before it.
    fn node_before(&self, target: &Target<'_>, level: usize) -> NodeRef<'_> {
        let mut gap = (self.nodes.head(), None);
        for level in (level..self.height.load(Ordering::Relaxed) as usize).rev() {
            gap = walk(gap.0, level, target, gap.1);
        }
        gap.0
    }

    /// The last node before a place and the first one not before it, in each of the lowest `height`
    /// levels.
    fn gaps(&self, target: &Target<'_>, height: usize) -> [Gap<'_>; HEIGHT_MAX] {
        let mut gap = (self.nodes.head(), None);
        let mut gaps = [gap; HEIGHT_MAX];
        for level in (0..height).rev() {
            gap = walk(gap.0, level, target, gap.1);
            gaps[level] = gap;
        }
        gaps
    }
}

/// Marks the second of two neighbours as old if it has the key of the first. (The head has the
/// empty key: a node of that one is looked up through the list.)
fn mark_old(before: NodeRef<'_>, after: Option<NodeRef<'_>>) {
    let is_same =
        |node: &NodeRef<'_>| node.key_head() == before.key_head() && node.key() == before.key();
    if let Some(after) = after.filter(is_same) {
        after.mark_old();
    }
}

/// The last node before a place and the first one not before it, in the lowest level, from a node
/// before it that is in the lowest `height` levels.
#[inline]
fn gap_from<'m>(from: NodeRef<'m>, height: usize, target: &Target<'_>) -> Gap<'m> {
    let mut gap = (from, None);
    for level in (0..height).rev() {
        gap = walk(gap.0, level, target, gap.1);
    }
    gap
}

/// Goes on in one level from a node before a place: the last node before it, and the next one,
/// which is not before it. `known` is a node of which that is known already, from the level above.
#[inline]
fn walk<'m>(
    from: NodeRef<'m>,
    level: usize,
    target: &Target<'_>,
    known: Option<NodeRef<'m>>,
) -> Gap<'m> {
    let mut before = from;
    loop {
        let next = before.next(level);
        if let Some(below) = level.checked_sub(1).and_then(|below| before.next(below)) {
            // If `next` is too far, this one is looked at next.
            below.prefetch();
        }
        match next {
            Some(node) if next != known && target.is_after(node) => before = node,
            _ => return (before, next),
        }
    }
}

/// Goes through the entries in both directions. It stands on an entry or nowhere, sees entries
/// that are put in after it was made, and never ends while it stands on one.
#[derive(Clone)]
pub(crate) struct MemIter<'m> {
    memtable: &'m Memtable,
    at: Option<NodeRef<'m>>,
}

impl<'m> MemIter<'m> {
    /// The node on which it stands.
    pub(crate) fn node(&self) -> Option<NodeRef<'m>> {
        self.at
    }

    /// The entry on which it stands.
    pub(crate) fn entry(&self) -> Option<MemEntry<'m>> {
        self.at.map(|node| (node.key(), node.seq(), node.kind(), node.value()))
    }

    /// Whether another one stands where it does.
    pub(crate) fn stands_with(&self, other: &Self) -> bool {
        self.at == other.at
    }

    /// Moves to the first entry that does not come before `(key, seq)`.
    pub(crate) fn seek(&mut self, key: &[u8], seq: u64) {
        self.at = self.memtable.gap(&Target::new(key, seq)).1;
    }

    /// Moves to the last entry that comes before `(key, seq)`.
    pub(crate) fn seek_before(&mut self, key: &[u8], seq: u64) {
        self.at = self.not_head(self.memtable.gap(&Target::new(key, seq)).0);
    }

    /// To the first entry.
    pub(crate) fn first(&mut self) {
        self.at = self.memtable.nodes.head().next(0);
    }

    /// To the last entry.
    pub(crate) fn last(&mut self) {
        let mut node = self.memtable.nodes.head();
        for level in (0..self.memtable.height.load(Ordering::Relaxed) as usize).rev() {
            while let Some(next) = node.next(level) {
                node = next;
            }
        }
        self.at = self.not_head(node);
    }

    /// Moves to the next entry; from nowhere it does not move.
    pub(crate) fn next(&mut self) {
        self.at = self.at.and_then(|node| node.next(0));
        if let Some(behind) = self.at.and_then(|node| node.next(0)) {
            behind.prefetch();
        }
    }

    /// One that stands on an entry from which steps lead to this one: over up to `most` entries,
    /// the last one counted, and over those that are put in between meanwhile. Steps back would
    /// cost a search each.
    pub(crate) fn some_before(&self, most: usize) -> Self {
        let mut earlier = self.clone();
        let Some(here) = self.at else { return earlier };
        // One node of four is in the next level, too.
        let level = most.max(1).ilog2() as usize / 2;
        let from = self.memtable.node_before(&Target::of(here), level);
        earlier.at = self.not_head(from).or_else(|| from.next(0));
        let mut end = earlier.clone();
        for _ in 1..most {
            if end.at == self.at {
                return earlier;
            }
            end.next();
        }
        while end.at.is_some() && end.at != self.at {
            earlier.next();
            end.next();
        }
        earlier
    }

    /// Moves to the previous entry; from nowhere it does not move. This costs a search: nodes have
    /// no links backwards.
    pub(crate) fn prev(&mut self) {
        if let Some(node) = self.at {
            self.seek_before(node.key(), node.seq());
        }
    }

    fn not_head(&self, node: NodeRef<'m>) -> Option<NodeRef<'m>> {
        (node != self.memtable.nodes.head()).then_some(node)
    }
}
