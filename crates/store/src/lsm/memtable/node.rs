//! The nodes of the skip list, each one piece of memory:
//!
//! ```text
//!   link n-1 | ... | link 0 | head of the key, height, kind, lengths, number | key | value
//!                           ^ a pointer to a node points here
//! ```
//!
//! Besides, a node is in the bucket of a hash: the bucket leads to the node that was put there
//! last, and each of them to the one that was there before it.
//!
//! A node never changes except its links and its mark. The fields that nearly every step of a
//! search needs are side by side: links, height and the first eight bytes of the key as a number.
//! This module knows the bytes of a node and not the list.
#![expect(unsafe_code, reason = "nodes of any length, in memory of their own")]

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::entry::{Entry, Kind, head};
use super::arena::{ALIGN, Arena};
use super::zeros::zeros;
use crate::prefetch::prefetch_line;
use crate::sync::atomic::{AtomicBool, AtomicPtr};

/// The most levels. With a quarter of the nodes of each level in the one above, that is right for
/// 16 million entries, and for more it is a little slower.
pub(super) const HEIGHT_MAX: usize = 12;

/// The fixed part of a node.
#[repr(C)]
struct Node {
    /// [`head`] of the key.
    key_head: u64,
    height: u8,
    kind: Kind,
    /// Its mark.
    is_old: AtomicBool,
    key_len: u32,
    seq: u64,
    /// The next node of its bucket; it never changes once the node is there.
    behind: AtomicPtr<Node>,
    value_len: u32,
}

/// Where the key begins: right after the last field, whatever padding the struct has.
const KEY_AT: usize = std::mem::offset_of!(Node, value_len) + size_of::<u32>();
const LINK: usize = size_of::<AtomicPtr<Node>>();

/// All nodes of one list, and its head: a node in all levels, before all others.
pub(super) struct Nodes {
    arena: Arena,
    head: NonNull<Node>,
    /// The last node that was set aside; its lowest link leads to the one before it.
    aside: AtomicPtr<Node>,
    /// The node that was put into each bucket last.
    buckets: Box<[AtomicPtr<Node>]>,
}

// SAFETY: threads share nodes, of which nothing changes that is not atomic, and the arena, which is
// made to be shared. `head`, `aside` and `buckets` point into the arena, which moves along; the
// latter two are atomic.
unsafe impl Send for Nodes {}
// SAFETY: as above.
unsafe impl Sync for Nodes {}

impl Nodes {
    /// None but the head, and this many buckets.
    pub(super) fn new(buckets: usize) -> Self {
        let arena = Arena::new();
        let head = make(&arena, HEIGHT_MAX, &[], 0, Kind::Tombstone, &[]);
        Self { arena, head, aside: AtomicPtr::new(ptr::null_mut()), buckets: zeros(buckets) }
    }

    /// The node before all others.
    pub(super) fn head(&self) -> NodeRef<'_> {
        NodeRef { at: self.head, arena: PhantomData }
    }

    /// The bytes of memory that are held for them.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.arena.held() + size_of_val(&*self.buckets)
    }

    /// A node in `height` levels that is not linked yet.
    pub(super) fn make(
        &self,
        height: usize,
        key: &[u8],
        seq: u64,
        kind: Kind,
        value: &[u8],
    ) -> NodeRef<'_> {
        NodeRef { at: make(&self.arena, height, key, seq, kind, value), arena: PhantomData }
    }

    /// Links `node` between two neighbours of a level. False if they are not neighbours any more.
    /// All three are nodes of this list: each list only knows its own nodes.
    pub(super) fn link<'m>(
        &'m self,
        level: usize,
        before: NodeRef<'m>,
        after: Option<NodeRef<'m>>,
        node: NodeRef<'m>,
    ) -> bool {
        let after = after.map_or(ptr::null_mut(), |after| after.at.as_ptr());
        // A thread that finds the node reads this through the exchange below.
        node.link(level).store(after, Ordering::Relaxed);
        let (won, lost) = (Ordering::Release, Ordering::Relaxed);
        before.link(level).compare_exchange(after, node.at.as_ptr(), won, lost).is_ok()
    }

    fn bucket(&self, hash: u64) -> &AtomicPtr<Node> {
        let at = ((hash >> 32) * self.buckets.len() as u64) >> 32;
        &self.buckets[at as usize]
    }

    /// Has the processor fetch the bucket of a hash.
    #[inline]
    pub(super) fn prefetch_bucket(&self, hash: u64) {
        prefetch_line(ptr::from_ref(self.bucket(hash)).cast());
    }

    /// The nodes in the bucket of a hash, the last one first.
    #[inline]
    pub(super) fn in_bucket(&self, hash: u64) -> impl Iterator<Item = NodeRef<'_>> {
        let last = NodeRef::of(self.bucket(hash).load(Ordering::Acquire));
        std::iter::successors(last, |node| node.behind())
    }

    /// Puts a node into the bucket of a hash, once. It is a node of this list, as for `link`.
    pub(super) fn put_in_bucket<'m>(&'m self, hash: u64, node: NodeRef<'m>) {
        let bucket = self.bucket(hash);
        let mut before = bucket.load(Ordering::Relaxed);
        loop {
            // A thread that finds the node reads this through the exchange below.
            node.fields().behind.store(before, Ordering::Relaxed);
            let (won, lost) = (Ordering::Release, Ordering::Relaxed);
            match bucket.compare_exchange(before, node.at.as_ptr(), won, lost) {
                Ok(_) => return,
                Err(other) => before = other,
            }
        }
    }

    /// Sets a node aside that is not linked yet. It is a node of this list, as for `link`.
    pub(super) fn set_aside<'m>(&'m self, node: NodeRef<'m>) {
        let mut before = self.aside.load(Ordering::Relaxed);
        loop {
            node.link(0).store(before, Ordering::Relaxed);
            let (won, lost) = (Ordering::Release, Ordering::Relaxed);
            match self.aside.compare_exchange(before, node.at.as_ptr(), won, lost) {
                Ok(_) => return,
                Err(other) => before = other,
            }
        }
    }

    /// The nodes that were set aside, the last one first; they are not aside any more. None of them
    /// is to be linked before the next one was taken.
    pub(super) fn take_aside(&self) -> impl Iterator<Item = NodeRef<'_>> {
        let last = NodeRef::of(self.aside.swap(ptr::null_mut(), Ordering::Acquire));
        std::iter::successors(last, |node| node.next(0))
    }
}

/// Writes a node into memory of its own.
fn make(
    arena: &Arena,
    height: usize,
    key: &[u8],
    seq: u64,
    kind: Kind,
    value: &[u8],
) -> NonNull<Node> {
    assert!((1..=HEIGHT_MAX).contains(&height), "a node of {height} levels");
    let key_len = u32::try_from(key.len()).expect("a key of at most u32::MAX bytes");
    let value_len = u32::try_from(value.len()).expect("a value of at most u32::MAX bytes");
    let links = (height * LINK).next_multiple_of(ALIGN);
    let value_at = KEY_AT + key.len();
    let memory = arena.take(links + (value_at + value.len()).max(size_of::<Node>()));
    // SAFETY: the piece is aligned to 8 bytes and so is `links`, which is enough for the fields and
    // the links. Its length was just computed as that of links and node, in which the parts lie one
    // after the other: the links end at `links`, the fields at `KEY_AT`, the key at `value_at`. The
    // struct may end after `KEY_AT`, so it is written first; the piece is at least as long. The
    // memory is not shared yet, and `key` and `value` lie elsewhere.
    unsafe {
        let node = memory.add(links).cast::<Node>();
        for level in 0..height {
            let link = node.cast::<AtomicPtr<Node>>().sub(level + 1);
            link.write(AtomicPtr::new(ptr::null_mut()));
        }
        let (key_head, height) = (head(key), height as u8);
        let (is_old, behind) = (AtomicBool::new(false), AtomicPtr::new(ptr::null_mut()));
        let fields = Node { key_head, height, kind, is_old, key_len, seq, behind, value_len };
        node.write(fields);
        let bytes = node.cast::<u8>();
        bytes.add(KEY_AT).copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
        bytes.add(value_at).copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
        node
    }
}

/// A node, for as long as its list lives.
///
/// Each one points to a node that `make` wrote: they come from `make` itself, or from a link, and
/// links hold nothing else. The pointer is good for the whole piece of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeRef<'m> {
    at: NonNull<Node>,
    arena: PhantomData<&'m Arena>,
}

// SAFETY: it is what a shared reference to a node would be: nodes do not change except their links,
// which are atomic, and live as long as the arena, which is shared by threads.
unsafe impl Send for NodeRef<'_> {}

impl<'m> NodeRef<'m> {
    /// The node to which a link leads.
    #[inline]
    fn of(link: *mut Node) -> Option<Self> {
        NonNull::new(link).map(|at| Self { at, arena: PhantomData })
    }

    /// The next node of a level.
    #[inline]
    pub(super) fn next(self, level: usize) -> Option<Self> {
        Self::of(self.link(level).load(Ordering::Acquire))
    }

    /// Has the processor fetch what a step of a search needs.
    #[inline]
    pub(super) fn prefetch(self) {
        prefetch_line(self.at.as_ptr().cast());
    }

    #[inline]
    fn fields(self) -> &'m Node {
        // SAFETY: an initialised node. Of its fields nothing changes that is not atomic, and it
        // lives as long as the arena, which is as long as 'm.
        unsafe { self.at.as_ref() }
    }

    /// The next node of its bucket.
    #[inline]
    fn behind(self) -> Option<Self> {
        // Whoever found this node through its bucket sees what was put there before it, too: each
        // exchange in `put_in_bucket` carries on what the ones before it released.
        Self::of(self.fields().behind.load(Ordering::Relaxed))
    }

    /// Whether it was marked as old.
    #[inline]
    pub(super) fn is_old(self) -> bool {
        // Relaxed: before an entry may be seen, all up to its number are in and have set their
        // marks, and whoever looks it up has read that number.
        self.fields().is_old.load(Ordering::Relaxed)
    }

    /// Marks it as old.
    pub(super) fn mark_old(self) {
        self.fields().is_old.store(true, Ordering::Relaxed);
    }

    /// How many levels it is in.
    #[inline]
    pub(super) fn height(self) -> usize {
        usize::from(self.fields().height)
    }

    #[inline]
    pub(super) fn seq(self) -> u64 {
        self.fields().seq
    }

    #[inline]
    pub(super) fn kind(self) -> Kind {
        self.fields().kind
    }

    /// [`head`] of the key.
    #[inline]
    pub(super) fn key_head(self) -> u64 {
        self.fields().key_head
    }

    #[inline]
    pub(super) fn key(self) -> &'m [u8] {
        // SAFETY: `key_len` bytes were written there and never change while the arena lives, which
        // is as long as 'm.
        unsafe {
            let len = (*self.at.as_ptr()).key_len as usize;
            slice::from_raw_parts(self.at.cast::<u8>().add(KEY_AT).as_ptr(), len)
        }
    }

    #[inline]
    pub(super) fn value(self) -> &'m [u8] {
        let at = KEY_AT + self.key().len();
        // SAFETY: as in `key`; the value follows it.
        unsafe {
            let len = (*self.at.as_ptr()).value_len as usize;
            slice::from_raw_parts(self.at.cast::<u8>().add(at).as_ptr(), len)
        }
    }

    /// The entry.
    #[inline]
    pub(crate) fn entry(self) -> Entry<'m> {
        Entry { key: self.key(), seq: self.seq(), kind: self.kind(), value: self.value() }
    }

    /// The link to the next node of a level in which this one is.
    #[inline]
    fn link(self, level: usize) -> &'m AtomicPtr<Node> {
        assert!(level < self.height(), "a level that the node is not in");
        // SAFETY: a node of this many levels has that many links in front of it, initialised and
        // aligned, and they are only used through references to atomics.
        unsafe { self.at.cast::<AtomicPtr<Node>>().sub(level + 1).as_ref() }
    }
}

/// Nodes that stay where they are as long as this value does: it keeps what has their list.
pub(crate) struct Kept<K> {
    keeper: Arc<K>,
    /// They live as long as the keeper: outside of this module they are only lent.
    nodes: Vec<NodeRef<'static>>,
}

impl<K> Kept<K> {
    /// None yet.
    pub(crate) fn new(keeper: Arc<K>) -> Self {
        Self { keeper, nodes: Vec::new() }
    }

    pub(crate) fn nodes(&self) -> &[NodeRef<'_>] {
        &self.nodes
    }

    /// Keeps the nodes that `find` makes of those that are kept.
    #[inline]
    pub(crate) fn change(
        &mut self,
        find: impl for<'k> FnOnce(&'k K, Vec<NodeRef<'k>>) -> Vec<NodeRef<'k>>,
    ) {
        let found = find(&self.keeper, std::mem::take(&mut self.nodes));
        // SAFETY: only a lifetime changes. `find` does not know for how long it borrows the keeper,
        // so that what it returns is good for as long as the keeper is there, which nobody can
        // change meanwhile. That is as long as `self`, and `nodes` lends them for no longer.
        self.nodes =
            unsafe { std::mem::transmute::<Vec<NodeRef<'_>>, Vec<NodeRef<'static>>>(found) };
    }
}
