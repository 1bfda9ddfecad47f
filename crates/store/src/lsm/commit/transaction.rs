//! Optimistic transactions: they read a snapshot and their own writes, and learn at the commit
//! whether there was a conflict.

use std::cell::{Ref, RefCell};
use std::collections::{BTreeMap, btree_map};
use std::iter::FusedIterator;
use std::ops::{Bound, Range};
use std::sync::Arc;

use super::batch::Batch;
use super::conflict::Footprint;
use super::ranges::Ranges;
use super::reply::Reply;
use crate::Durability;
use crate::key::KeyRange;
use crate::lsm::db::Db;
use crate::lsm::engine::Inner;
use crate::lsm::entry::{KEYSPACE_BYTES, full_key, full_range};
use crate::lsm::keyspace::Keyspace;
use crate::lsm::read::range::{Ends, Part, Walk, Way, owned};
use crate::lsm::read::search::Value;
use crate::lsm::read::view::View;
use crate::lsm::read::window::Piece;
use crate::{Error, Result};

/// Reads and writes that apply together, as if no other commit had happened between its first read
/// and its own commit; or not at all.
///
/// A transaction reads the store as it was when it began, and its own writes. It waits for no other
/// transaction, and none waits for it. At the commit, everything that it read or wrote (keys that
/// were absent, and the ranges that it went through as [ranges](Transaction::range), too) must be
/// as it was when it began; if another commit changed any of it, this one fails with
/// [`Error::Conflict`], nothing of it is written, and the caller begins it anew. [`Db::transact`]
/// does so by itself. So committed transactions are serializable, in the order of their commits.
/// Plain [batches](Batch) are not checked, but transactions notice them.
///
/// A transaction that only read never fails at its commit: it saw the store at one moment.
///
/// Its writes, and the keys that it read, are kept in memory; while it lives it holds what it sees
/// on the disk, as a [`Snapshot`](crate::lsm::Snapshot) does. At the commit, looking for conflicts
/// costs a search in memory for each key; a range costs a walk through what is in memory of it, and
/// through those tables that were written since.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// # use hedgerow::Error;
/// # use hedgerow::lsm::Readable;
/// let accounts = db.keyspace("accounts", Default::default())?;
/// db.put(&accounts, b"Ada", b"10")?;
///
/// let mut first = db.transaction();
/// let mut second = db.transaction();
/// assert_eq!(first.get(&accounts, b"Ada")?.as_deref(), Some(&b"10"[..]));
/// assert_eq!(second.get(&accounts, b"Ada")?.as_deref(), Some(&b"10"[..]));
/// first.put(&accounts, b"Ada", b"11")?;
/// second.put(&accounts, b"Ada", b"12")?;
/// first.commit()?;
/// assert!(matches!(second.commit(), Err(Error::Conflict)));
/// assert_eq!(db.get(&accounts, b"Ada")?.as_deref(), Some(&b"11"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Transaction {
    pub(crate) inner: Arc<Inner>,
    footprint: RefCell<Footprint>,
    batch: Batch,
    writes: Writes,
    /// Full keys of which it sees none: a range that was found to begin with many deletions of its
    /// own is not gone through again.
    bare: RefCell<Ranges<Vec<u8>>>,
}

/// So many changes of its own in front of what a range shows are worth being remembered.
const BARE_MIN: u32 = 16;

/// What the batch will have done, by full key.
#[derive(Default)]
struct Writes {
    /// Where the value of a key stands in the batch; `None`: the key is deleted.
    points: BTreeMap<Vec<u8>, Option<Range<usize>>>,
    /// Ranges that were deleted before the points were written.
    ranges: Ranges<Vec<u8>>,
}

impl Writes {
    /// Whether they say something of a key.
    fn decide(&self, key: &[u8]) -> bool {
        self.points.contains_key(key) || self.ranges.has(key)
    }

    /// Deletes the keys of a range.
    fn delete_range(&mut self, from: Vec<u8>, to: Vec<u8>) {
        let both = (Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice()));
        let inside = self.points.range::<[u8], _>(both);
        let inside: Vec<Vec<u8>> = inside.map(|(key, _)| key.clone()).collect();
        for key in &inside {
            self.points.remove(key);
        }
        self.ranges.add(from, to);
    }
}

impl Db {
    /// Begins a transaction.
    pub fn transaction(&self) -> Transaction {
        let inner = Arc::clone(&self.inner);
        let at = inner.clock.pin();
        let footprint = RefCell::new(Footprint { at, ..Footprint::default() });
        let (batch, writes, bare) = (Batch::new(), Writes::default(), RefCell::default());
        Transaction { inner, footprint, batch, writes, bare }
    }

    /// Runs a transaction and commits it, with the store's durability. If it conflicts it is run
    /// again, at most `attempts` times in all. `run` may be called several times, so it must have
    /// no other effects. Its error may be one of the caller's own.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
    /// let counters = db.keyspace("counters", Default::default())?;
    /// let count = db.transact(10, |txn| {
    ///     let count = txn.get(&counters, b"visits")?.map_or(0, |bytes| bytes[0]) + 1;
    ///     txn.put(&counters, b"visits", &[count])?;
    ///     Ok::<_, hedgerow::Error>(count)
    /// })?;
    /// assert_eq!(count, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of `run`, and those of [`Transaction::commit`]; [`Error::Conflict`] if every
    /// attempt conflicted.
    pub fn transact<T, E: From<Error>>(
        &self,
        attempts: u32,
        mut run: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        for left in (0..attempts.max(1)).rev() {
            let mut txn = self.transaction();
            let answer = run(&mut txn)?;
            match txn.commit() {
                // The conflicting transaction has committed: in each round one makes progress.
                Err(Error::Conflict) if left > 0 => std::thread::yield_now(),
                other => return other.map(|()| answer).map_err(E::from),
            }
        }
        Err(Error::Conflict.into())
    }
}

impl Transaction {
    fn check(&self, keyspace: &Keyspace) -> Result<()> {
        keyspace.check(self.inner.catalog.store)
    }

    fn view(&self) -> View {
        View { current: self.inner.current(), at: self.footprint.borrow().at }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Readable::get`](crate::lsm::Readable::get).
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check(keyspace)?;
        let full = full_key(keyspace.id(), key);
        if let Some(own) = self.writes.points.get(&full) {
            return Ok(own.clone().map(|at| self.batch.body[at].to_vec()));
        }
        if self.writes.decide(&full) {
            return Ok(None);
        }
        let found = self.view().get(&full)?.map(Value::into_vec);
        self.footprint.borrow_mut().points.insert(full);
        Ok(found)
    }

    /// Iterates over the entries whose keys lie in a range, from both ends, with the changes of
    /// this transaction. Only the parts of the range that the iterator went through are checked for
    /// conflicts.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn range(&self, keyspace: &Keyspace, keys: impl KeyRange) -> Result<TransactionRange<'_>> {
        self.check(keyspace)?;
        let part = Part::new(self.view(), keyspace.id(), &keys);
        Ok(TransactionRange { txn: self, part, ends: Ends::default() })
    }

    /// Puts a value under a key.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        self.check(keyspace)?;
        self.batch.put(keyspace, key, value)?;
        let end = self.batch.body.len();
        self.wrote(full_key(keyspace.id(), key), Some(end - value.len()..end));
        Ok(())
    }

    /// Deletes a key, which need not exist.
    ///
    /// # Errors
    /// As [`Batch::delete`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
        self.check(keyspace)?;
        self.batch.delete(keyspace, key)?;
        self.wrote(full_key(keyspace.id(), key), None);
        Ok(())
    }

    fn wrote(&mut self, key: Vec<u8>, value: Option<Range<usize>>) {
        if value.is_some() {
            self.bare.get_mut().take_out(&key);
        }
        self.footprint.get_mut().points.insert(key.clone());
        self.writes.points.insert(key, value);
    }

    /// Deletes all keys of a range.
    ///
    /// # Errors
    /// As [`Batch::delete_range`].
    pub fn delete_range(&mut self, keyspace: &Keyspace, keys: impl KeyRange) -> Result<()> {
        self.check(keyspace)?;
        self.batch.delete_range(keyspace, &keys)?;
        let (from, to) = full_range(keyspace.id(), &keys);
        if from < to {
            self.footprint.get_mut().ranges.push((from.clone(), to.clone()));
            self.writes.delete_range(from, to);
        }
        Ok(())
    }

    /// Commits with the store's durability.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another commit changed what this transaction read or wrote; else as
    /// [`Db::write`].
    pub fn commit(self) -> Result<()> {
        let durability = self.inner.options.durability;
        self.commit_with(durability)
    }

    /// Commits.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_with(mut self, durability: Durability) -> Result<()> {
        if self.batch.is_empty() {
            return self.inner.settle(durability);
        }
        let (batch, footprint) = self.end();
        // What it sees stays held until the end: that is how changes since are known.
        self.inner.commit(batch, durability, Some(footprint))
    }

    /// The same without waiting.
    pub(crate) fn ask_commit(mut self, durability: Durability, reply: Reply<()>) {
        let inner = Arc::clone(&self.inner);
        if self.batch.is_empty() {
            return inner.ask_commit(Batch::new(), durability, None, reply);
        }
        let (batch, footprint) = self.end();
        let reply = Reply::new(move |answer| {
            drop(self);
            reply.send(answer);
        });
        inner.ask_commit(batch, durability, Some(footprint), reply);
    }

    /// What is to be committed.
    fn end(&mut self) -> (Batch, Footprint) {
        let at = self.footprint.get_mut().at;
        let mut footprint = self.footprint.replace(Footprint { at, ..Footprint::default() });
        footprint.join_ranges();
        (std::mem::take(&mut self.batch), footprint)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.inner.directory.is_ours() {
            self.inner.clock.unpin(self.footprint.get_mut().at);
        }
    }
}

/// The entries of a range of keys in order, from both ends, as a [`Transaction`] sees them: an
/// iterator.
pub struct TransactionRange<'t> {
    txn: &'t Transaction,
    part: Part,
    ends: Ends<OwnWay<'t>>,
}

impl TransactionRange<'_> {
    /// Leaves the values empty: separated ones are not read.
    pub fn keys_only(mut self) -> Self {
        self.part.leave_values();
        self
    }
}

impl Iterator for TransactionRange<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ends.next(|| OwnWay::new(self.txn, &self.part, false), owned)
    }
}

impl DoubleEndedIterator for TransactionRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.ends.next_back(|| OwnWay::new(self.txn, &self.part, true), owned)
    }
}

impl FusedIterator for TransactionRange<'_> {}

/// What the transaction did in a range, by full key.
type Own<'t> = btree_map::Range<'t, Vec<u8>, Option<Range<usize>>>;

/// A way through a range with the transaction's own writes, which notes how far it went.
struct OwnWay<'t> {
    txn: &'t Transaction,
    part: Part,
    backwards: bool,
    /// `None` after the last entry of the store.
    stored: Option<Way>,
    /// Own writes in the range that come after the next one.
    rest: Own<'t>,
    /// The next own write.
    own: Option<(&'t [u8], Option<Range<usize>>)>,
    /// The next entry of the store; one that the transaction has changed only says how far one is.
    theirs: Option<(Vec<u8>, Vec<u8>)>,
    /// Which range of the footprint is this one's.
    slot: usize,
    /// How many own changes there were in front of the first entry; `None` after that.
    passed: Option<u32>,
}

impl<'t> OwnWay<'t> {
    fn new(txn: &'t Transaction, part: &Part, backwards: bool) -> Result<Self> {
        let (from, to) = part.bounds();
        let start = if backwards { to } else { from };
        let mut footprint = txn.footprint.borrow_mut();
        footprint.ranges.push((start.to_vec(), start.to_vec()));
        let slot = footprint.ranges.len() - 1;
        drop(footprint);
        let bare = txn.bare.borrow();
        let (from, to) = match backwards {
            false => (bare.end_of(from).unwrap_or(from), to),
            true => (from, bare.start_before(to).unwrap_or(to)),
        };
        let both = (Bound::Included(from), Bound::Excluded(to.max(from)));
        let rest = txn.writes.points.range::<[u8], _>(both);
        let stored = Some(part.between(from, to).walk(backwards)?);
        drop(bare);
        let (part, own, theirs, passed) = (part.clone(), None, None, Some(0));
        let mut way = Self { txn, part, backwards, stored, rest, own, theirs, slot, passed };
        way.fetch_own();
        way.fetch()?;
        Ok(way)
    }

    /// Takes the next own write.
    fn fetch_own(&mut self) {
        let next = if self.backwards { self.rest.next_back() } else { self.rest.next() };
        self.own = next.map(|(key, value)| (key.as_slice(), value.clone()));
    }

    /// Takes the next entry of the store, and notes that it was looked at, with everything in front
    /// of it.
    fn fetch(&mut self) -> Result<()> {
        self.theirs = None;
        let Some(stored) = &mut self.stored else { return Ok(()) };
        match stored.step(owned)? {
            Some((key, value)) => {
                let full = full_key(self.part.keyspace(), &key);
                self.saw(Some(&full));
                self.theirs = Some((full, value));
            }
            None => {
                self.stored = None;
                self.saw(None);
            }
        }
        Ok(())
    }

    /// One of its own changes leaves nothing to show.
    fn pass(&mut self) {
        if let Some(passed) = &mut self.passed {
            *passed += 1;
        }
    }

    /// The next entry is that of a key; `None`: there is none.
    fn found(&mut self, key: Option<&[u8]>) {
        if self.passed.take().is_none_or(|passed| passed < BARE_MIN) {
            return;
        }
        let (from, to) = self.part.bounds();
        let (from, to) = match (key, self.backwards) {
            (Some(key), false) => (from.to_vec(), key.to_vec()),
            (Some(key), true) => ([key, &[0]].concat(), to.to_vec()),
            (None, _) => (from.to_vec(), to.to_vec()),
        };
        self.txn.bare.borrow_mut().add(from, to);
    }

    /// Everything up to and including a key was seen; `None`: everything.
    fn saw(&self, key: Option<&[u8]>) {
        let range = &mut self.txn.footprint.borrow_mut().ranges[self.slot];
        let (from, to) = self.part.bounds();
        match (key, self.backwards) {
            (Some(key), false) => range.1 = [key, &[0]].concat(),
            (Some(key), true) => range.0 = key.to_vec(),
            (None, false) => range.1 = to.to_vec(),
            (None, true) => range.0 = from.to_vec(),
        }
    }
}

impl Walk for OwnWay<'_> {
    fn step<T>(&mut self, see: impl FnOnce(Piece<'_>, Piece<'_>) -> T) -> Result<Option<T>> {
        loop {
            let own_is_next = match (&self.own, &self.theirs) {
                (Some((own, _)), Some((theirs, _))) => (*own < theirs.as_slice()) != self.backwards,
                (own, _) => own.is_some(),
            };
            if own_is_next {
                let own = self.own.take();
                self.fetch_own();
                if let Some((key, Some(at))) = own {
                    self.found(Some(key));
                    let value = &self.txn.batch.body[at];
                    let value = if self.part.with_values() { value } else { &[] };
                    return Ok(Some(see(key[KEYSPACE_BYTES..].into(), value.into())));
                }
                self.pass();
                continue;
            }
            let Some((mut key, value)) = self.theirs.take() else {
                self.found(None);
                return Ok(None);
            };
            self.fetch()?;
            if self.txn.writes.decide(&key) {
                self.pass();
            } else {
                self.found(Some(&key));
                key.drain(..KEYSPACE_BYTES);
                return Ok(Some(see(key.into(), value.into())));
            }
        }
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let footprint: Ref<'_, Footprint> = self.footprint.borrow();
        f.debug_struct("Transaction")
            .field("at", &footprint.at)
            .field("writes", &self.batch.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
