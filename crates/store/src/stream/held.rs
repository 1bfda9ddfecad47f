//! A snapshot together with the way through it, and pairs that keep their snapshot alive.

#![expect(unsafe_code, reason = "a way through a snapshot is kept together with it, argued below")]

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::batch::Batch;
use super::kept::{Kept, Lender};
use super::scan::{Ends, Position, Scan};
use super::source::{Item, Snapshot, Walk};
use crate::Result;
use crate::tree::{Bytes, ReadTxn, Snapshot as _, Table};

/// A snapshot, and the way through it.
///
/// The way borrows the snapshot. What makes this sound: the snapshot is in an allocation of its
/// own, which an `Arc` neither moves nor lends mutably; the way is dropped before that `Arc` (the
/// order of the fields); and a pair that the way gives leaves only together with a keeper of that
/// `Arc`, and lends its parts for no longer than it is borrowed itself.
pub(super) struct Held<S: Snapshot> {
    walk: S::Walk<'static>,
    snapshot: Lender<Arc<S>>,
}

impl<S: Snapshot> Held<S> {
    pub(super) fn new(snapshot: Arc<S>, scan: &Scan, ends: &Ends) -> Result<Self> {
        // SAFETY: the allocation of the `Arc` stays where it is, and lives as long as `snapshot`,
        // which `Held` keeps until after `walk` is dropped.
        let borrowed: &'static S = unsafe { &*Arc::as_ptr(&snapshot) };
        let walk = borrowed.walk(scan, ends)?;
        Ok(Self { walk, snapshot: Lender::new(snapshot) })
    }

    pub(super) fn snapshot(&self) -> &Arc<S> {
        &self.snapshot
    }

    pub(super) fn remaining(&self) -> Option<u64> {
        self.walk.remaining()
    }

    /// The last pair that was taken in the order of the keys, or backwards.
    pub(super) fn reached(&self, backwards: bool) -> Result<Option<Position>> {
        self.walk.reached(backwards)
    }

    /// The next pair, in the order of the keys or backwards.
    #[inline(always)]
    pub(super) fn next(&mut self, backwards: bool) -> Option<Result<Pair<S>>> {
        let item = if backwards { self.walk.next_back() } else { self.walk.next() };
        item.map(|item| item.map(|item| Pair { item, snapshot: self.snapshot.lend() }))
    }

    /// The next pair in the order of the keys, if that is quick to tell; `None` says nothing.
    #[inline(always)]
    pub(super) fn next_here(&mut self) -> Option<Pair<S>> {
        let item = self.walk.next_here()?;
        Some(Pair { item, snapshot: self.snapshot.lend() })
    }

    /// Fills a run with the next pairs: at most this many, and no further one after this many
    /// bytes. How many bytes these are, and whether it is over.
    ///
    /// If they are read for another thread, that one shall not wait for the disk when it looks at
    /// them: the system brings all of their bytes into memory.
    pub(super) fn fill(
        &mut self,
        run: &mut Run<S>,
        backwards: bool,
        (pairs, bytes): (usize, u64),
        (for_another, copies): (bool, bool),
    ) -> Result<(u64, bool)> {
        // What the way gives from here on is kept together with its snapshot, or copied.
        run.begin(&self.snapshot, copies);
        if run.snapshot.is_some() {
            let (items, limits, mut page) = (&mut run.items, (pairs, bytes), usize::MAX);
            return match for_another {
                true => self.walk.gather(backwards, items, limits, |item| touch(item, &mut page)),
                false => self.walk.gather(backwards, items, limits, |_| {}),
            };
        }
        let (copies, mut size) = (&mut run.copies, 0);
        while copies.len() < pairs && size < bytes {
            let Some(seen) = self.walk.see(backwards, |key, value| copies.push(key, value)) else {
                return Ok((size, true));
            };
            seen?;
            size = copies.bytes() as u64;
        }
        Ok((size, false))
    }

    /// Leaves out `n` pairs, and gives the next one.
    pub(super) fn nth(&mut self, backwards: bool, n: usize) -> Option<Result<Pair<S>>> {
        let item = if backwards { self.walk.nth_back(n) } else { self.walk.nth(n) };
        item.map(|item| item.map(|item| Pair { item, snapshot: self.snapshot.lend() }))
    }

    /// As [`Held::next`], but lends the pair to `see`, which cannot keep it.
    #[inline]
    pub(super) fn see<T>(
        &mut self,
        backwards: bool,
        see: impl FnOnce(Bytes<'_>, Bytes<'_>) -> T,
    ) -> Option<Result<T>> {
        self.walk.see(backwards, see)
    }
}

/// A key and its value, which stay readable as long as this is kept: also after the stream, the
/// transaction and the handle of the store are gone.
///
/// It keeps the snapshot that it was read from: pages of the store that the snapshot uses are not
/// used again before. [`Pair::to_owned`] copies.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// # let mut sink = hedgerow::stream::Sink::new(&store, "words")?;
/// # sink.put(b"ash", b"tree")?;
/// # sink.finish()?;
/// let pair = hedgerow::stream::Scan::new("words").pairs(&store)?.next().unwrap()?;
/// drop(store);
/// assert_eq!(pair.key(), b"ash");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pair<S: Snapshot> {
    item: S::Item<'static>,
    snapshot: Kept<Arc<S>>,
}

impl<S: Snapshot> Pair<S> {
    /// The key.
    #[inline]
    pub fn key(&self) -> Bytes<'_> {
        self.item.key()
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> Bytes<'_> {
        self.item.value()
    }

    pub(super) fn snapshot(&self) -> &S {
        &self.snapshot
    }

    /// A copy of key and value.
    pub fn to_owned(&self) -> (Vec<u8>, Vec<u8>) {
        (self.key().to_vec(), self.value().to_vec())
    }

    /// The number of the commit that it was read from.
    pub fn commit(&self) -> u64 {
        self.snapshot.commit()
    }
}

impl<S: Snapshot> fmt::Debug for Pair<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("key", &self.key()).field("value", &self.value()).finish()
    }
}

/// Some pairs of a stream, one after the other, which stay readable as long as this is kept: filled
/// by [`Pairs::fill`](super::Pairs::fill), or given by a [`RunStream`](super::RunStream).
///
/// In the tree engine it copies nothing, and keeps the snapshot as one [`Pair`] does. In the lsm
/// engine it has copies in one piece of memory, and keeps nothing of the store.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// # let mut sink = hedgerow::stream::Sink::new(&store, "n")?;
/// # for n in 0..9_u8 { sink.put(&[n], &[])?; }
/// # sink.finish()?;
/// let mut pairs = hedgerow::stream::Scan::new("n").pairs(&store)?;
/// let mut run = hedgerow::stream::Run::default();
/// pairs.fill(&mut run, 5, 1 << 20)?;
/// assert_eq!(run.len(), 5);
/// assert_eq!(run.get(4).unwrap().0, [4]);
/// run.each(1..3, |key, value| {
///     assert!(key == [1] || key == [2]);
///     Ok::<(), ()>(())
/// }).unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Run<S: Snapshot> {
    // Before the snapshot, which they may borrow.
    items: Vec<S::Item<'static>>,
    /// If it has none, the pairs are copies.
    snapshot: Option<Arc<S>>,
    copies: Batch,
}

impl<S: Snapshot> Default for Run<S> {
    fn default() -> Self {
        Self { items: Vec::new(), snapshot: None, copies: Batch::default() }
    }
}

impl<S: Snapshot> Run<S> {
    /// How many pairs it has.
    #[inline]
    pub fn len(&self) -> usize {
        if self.snapshot.is_some() { self.items.len() } else { self.copies.len() }
    }

    /// Whether it has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A pair, by its number from 0 on: the key and the value.
    #[inline]
    pub fn get(&self, n: usize) -> Option<(Bytes<'_>, Bytes<'_>)> {
        if self.snapshot.is_some() {
            let item = self.items.get(n)?;
            return Some((item.key(), item.value()));
        }
        let (key, value) = self.copies.get(n)?;
        Some((key.into(), value.into()))
    }

    /// All pairs in order.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = (Bytes<'_>, Bytes<'_>)> + DoubleEndedIterator {
        (0..self.len()).map(|n| self.get(n).unwrap_or_default())
    }

    /// Shows pairs, by their numbers, one after the other until `see` fails.
    ///
    /// # Errors
    /// That of `see`.
    #[inline(always)]
    pub fn each<E>(
        &self,
        numbers: Range<usize>,
        mut see: impl FnMut(Bytes<'_>, Bytes<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        if self.snapshot.is_some() {
            let items = self.items.get(numbers).unwrap_or_default();
            return items.iter().try_for_each(|item| see(item.key(), item.value()));
        }
        let copies = numbers.map_while(|n| self.copies.get(n));
        copies.into_iter().try_for_each(|(key, value)| see(key.into(), value.into()))
    }

    /// Without pairs, to take some of a snapshot: as they lie there, if it lends them and they
    /// shall not be copied all the same.
    fn begin(&mut self, snapshot: &Arc<S>, copies: bool) {
        self.clear();
        self.snapshot = (S::LENDS && !copies).then(|| Arc::clone(snapshot));
    }

    /// Without pairs and snapshot.
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.copies.clear();
        self.snapshot = None;
    }

    /// Makes room for as many pairs and bytes as another one has, where it has none yet.
    pub(super) fn reserve(&mut self, (items, copies, bytes): (usize, usize, usize)) {
        self.items.reserve(items);
        self.copies.reserve(copies, bytes);
    }

    /// How much room it needs: see [`Run::reserve`].
    pub(super) fn room(&self) -> (usize, usize, usize) {
        (self.items.len(), self.copies.len(), self.copies.bytes())
    }
}

/// The least bytes that a page of the system's memory has, and a page of a store too.
const PAGE: usize = 4096;

/// Reads a byte of each page in which a pair lies. `page` is the one that was read last.
#[inline(always)]
fn touch(item: &impl Item, page: &mut usize) {
    let ((_, rest), (value, more)) = (item.key().parts(), item.value().parts());
    let ends = (rest.as_ptr().addr() / PAGE, (value.as_ptr().addr() + value.len()) / PAGE);
    // As usual: the whole pair lies there; then what its key shares with others does too, or was
    // read with the first of them.
    if ends != (*page, *page) || !more.is_empty() {
        touch_all(item, page);
    }
}

#[inline(never)]
fn touch_all(item: &impl Item, page: &mut usize) {
    let ((shared, rest), (value, more)) = (item.key().parts(), item.value().parts());
    // The end of the key lies beside what was read to find it, and so is in the cache.
    for bytes in [rest, value, more, shared] {
        let Some(last) = bytes.len().checked_sub(1) else { continue };
        let start = bytes.as_ptr().addr();
        for next in start / PAGE..=(start + last) / PAGE {
            if next != *page {
                std::hint::black_box(bytes[(next * PAGE).saturating_sub(start)]);
                *page = next;
            }
        }
    }
}

/// The value of a key of a tree store, which stays readable as long as this is kept: also after the
/// transaction and the handle of the store are gone. It keeps its snapshot, as [`Pair`] does.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// # let mut sink = hedgerow::stream::Sink::new(&store, "words")?;
/// # sink.put(b"ash", b"tree")?;
/// # sink.finish()?;
/// use hedgerow::{stream::Value, tree::Snapshot};
/// let txn = std::sync::Arc::new(store.begin_read()?);
/// let table = txn.table("words")?;
/// let value = Value::get(&txn, table, b"ash")?.unwrap();
/// drop((txn, store));
/// assert_eq!(value.bytes(), b"tree");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Value {
    bytes: Bytes<'static>,
    // Dropped last: the bytes lie in it.
    _snapshot: Arc<ReadTxn>,
}

impl Value {
    /// The (first) value of a key; `None` if the key is absent.
    ///
    /// # Errors
    /// As [`Snapshot::get`](crate::tree::Snapshot::get).
    pub fn get(snapshot: &Arc<ReadTxn>, table: Table, key: &[u8]) -> Result<Option<Self>> {
        let snapshot = Arc::clone(snapshot);
        // SAFETY: the allocation of the `Arc` stays where it is, is never lent mutably while there
        // is a second `Arc` or this one, and lives as long as the value keeps it.
        let borrowed: &'static ReadTxn = unsafe { &*Arc::as_ptr(&snapshot) };
        let found = borrowed.get(table, key)?;
        Ok(found.map(|bytes| Self { bytes, _snapshot: snapshot }))
    }

    /// The value. It is in one piece, unless the table has duplicates.
    #[inline]
    pub fn bytes(&self) -> Bytes<'_> {
        self.bytes
    }
}

impl From<Pair<ReadTxn>> for Value {
    fn from(pair: Pair<ReadTxn>) -> Self {
        Self { bytes: pair.item.value, _snapshot: Arc::clone(&pair.snapshot) }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Value").field(&self.bytes).finish()
    }
}
