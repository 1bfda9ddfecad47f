//! Optimistic transactions: they read a snapshot and their own writes, and learn at the commit
//! whether there was a conflict.

use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::batch::Batch;
use super::conflict::Footprint;
use super::pool::{Reply, Task};
use crate::lsm::db::Db;
use crate::lsm::engine::Inner;
use crate::lsm::entry::{KEYSPACE_BYTES, end_of_prefix, full_key};
use crate::lsm::keyspace::Keyspace;
use crate::lsm::options::Durability;
use crate::lsm::read::cursor::{Cursor, Scan};
use crate::lsm::read::search::Value;
use crate::lsm::read::view::View;
use crate::{Error, Result};

/// Reads and writes that apply together, as if no other commit had happened between its first read
/// and its own commit; or not at all.
///
/// A transaction reads the store as it was when it began, and its own writes. It waits for no other
/// transaction, and none waits for it. At the commit, everything that it read or wrote (keys that
/// were absent, and the ranges that it went through in [scans](Transaction::scan), too) must be as
/// it was when it began; if another commit changed any of it, this one fails with
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
    inner: Arc<Inner>,
    footprint: RefCell<Footprint>,
    batch: Batch,
    writes: Writes,
}

/// What the batch will have done, by full key.
#[derive(Default)]
struct Writes {
    /// Where the value of a key stands in the batch; `None`: the key is deleted.
    points: BTreeMap<Vec<u8>, Option<Range<usize>>>,
    /// Ranges that were deleted before the points were written.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Writes {
    /// Whether they say something of a key.
    fn decide(&self, key: &[u8]) -> bool {
        let key = &key;
        self.points.contains_key(*key)
            || self.ranges.iter().any(|(from, to)| (from.as_slice()..to.as_slice()).contains(key))
    }
}

impl Db {
    /// Begins a transaction.
    pub fn transaction(&self) -> Transaction {
        let inner = Arc::clone(&self.inner);
        let at = inner.clock.pin();
        let footprint = RefCell::new(Footprint { at, ..Footprint::default() });
        Transaction { inner, footprint, batch: Batch::new(), writes: Writes::default() }
    }

    /// Runs a transaction and commits it, with the store's durability. If it conflicts it is run
    /// again, at most `attempts` times in all. `run` may be called several times, so it must have
    /// no other effects.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
    /// let counters = db.keyspace("counters", Default::default())?;
    /// let count = db.transact(10, |txn| {
    ///     let count = txn.get(&counters, b"visits")?.map_or(0, |bytes| bytes[0]) + 1;
    ///     txn.put(&counters, b"visits", &[count])?;
    ///     Ok(count)
    /// })?;
    /// assert_eq!(count, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of `run`, and those of [`Transaction::commit`]; [`Error::Conflict`] if every
    /// attempt conflicted.
    pub fn transact<T>(
        &self,
        attempts: u32,
        mut run: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut attempt = || {
            let mut txn = self.transaction();
            let answer = run(&mut txn)?;
            txn.commit().map(|()| answer)
        };
        for _ in 1..attempts {
            match attempt() {
                // The conflicting transaction has committed: in each round one makes progress.
                Err(Error::Conflict) => std::thread::yield_now(),
                other => return other,
            }
        }
        attempt()
    }
}

impl Transaction {
    fn view(&self) -> View {
        View { current: self.inner.current(), at: self.footprint.borrow().at }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Snapshot::get`](crate::lsm::Snapshot::get).
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.inner.check(keyspace)?;
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

    /// The entries of a keyspace in order, with the changes of this transaction. Only the part of
    /// the range that the scan went through is checked for conflicts.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn scan(&self, keyspace: &Keyspace) -> Result<TransactionScan<'_>> {
        self.inner.check(keyspace)?;
        let scan = Scan::new(Cursor::new(self.view(), keyspace.id())?);
        let bounds = (full_key(keyspace.id(), &[]), full_key(keyspace.id() + 1, &[]));
        Ok(TransactionScan::new(self, scan, bounds))
    }

    /// Puts a value under a key.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.check(keyspace)?;
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
        self.inner.check(keyspace)?;
        self.batch.delete(keyspace, key)?;
        self.wrote(full_key(keyspace.id(), key), None);
        Ok(())
    }

    fn wrote(&mut self, key: Vec<u8>, value: Option<Range<usize>>) {
        self.footprint.get_mut().points.insert(key.clone());
        self.writes.points.insert(key, value);
    }

    /// Deletes all keys from `start` on that come before `end`; `None` means up to the last key.
    ///
    /// # Errors
    /// As [`Batch::delete_range`].
    pub fn delete_range(
        &mut self,
        keyspace: &Keyspace,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.inner.check(keyspace)?;
        self.batch.delete_range(keyspace, start, end)?;
        let from = full_key(keyspace.id(), start);
        let to = end
            .map_or_else(|| full_key(keyspace.id() + 1, &[]), |end| full_key(keyspace.id(), end));
        if from < to {
            self.writes.points.retain(|key, _| *key < from || *key >= to);
            self.footprint.get_mut().ranges.push((from.clone(), to.clone()));
            self.writes.ranges.push((from, to));
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
        self.inner.commit_if_unchanged(batch, durability, footprint)
    }

    /// The same without waiting.
    pub(crate) fn ask_commit(mut self, durability: Durability, reply: Reply<()>) {
        let inner = Arc::clone(&self.inner);
        if self.batch.is_empty() {
            let settle = move |inner: &Inner| reply.send(inner.settle(durability));
            return inner.ask(Task::Other(Box::new(settle)));
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
        let footprint = self.footprint.replace(Footprint { at, ..Footprint::default() });
        (std::mem::take(&mut self.batch), footprint)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.inner.clock.unpin(self.footprint.get_mut().at);
    }
}

/// The entries of a keyspace, or a part of them, in order, as a [`Transaction`] sees them: an
/// iterator.
pub struct TransactionScan<'t> {
    txn: &'t Transaction,
    scan: Option<Scan>,
    /// Full keys.
    bounds: (Vec<u8>, Vec<u8>),
    reverse: bool,
    with_values: bool,
    /// Own writes in the range that are still to come, the next one at the end.
    own: Vec<(&'t [u8], Option<Range<usize>>)>,
    /// The next one of the store.
    theirs: Option<(Vec<u8>, Vec<u8>)>,
    /// Which range of the footprint is this one's; `None` before the first step.
    slot: Option<usize>,
}

impl<'t> TransactionScan<'t> {
    fn new(txn: &'t Transaction, scan: Scan, bounds: (Vec<u8>, Vec<u8>)) -> Self {
        Self {
            txn,
            scan: Some(scan),
            bounds,
            reverse: false,
            with_values: true,
            own: Vec::new(),
            theirs: None,
            slot: None,
        }
    }

    fn change(mut self, f: impl FnOnce(Scan) -> Scan) -> Self {
        self.scan = self.scan.map(f);
        self
    }

    fn full(&self, key: &[u8]) -> Vec<u8> {
        [&self.bounds.0[..KEYSPACE_BYTES], key].concat()
    }

    /// Leaves out what comes before `key`.
    pub fn from(mut self, key: &[u8]) -> Self {
        self.bounds.0 = self.full(key);
        self.change(|scan| scan.from(key))
    }

    /// Leaves out `key` and all keys after it.
    pub fn to(mut self, key: &[u8]) -> Self {
        self.bounds.1 = self.full(key);
        self.change(|scan| scan.to(key))
    }

    /// Gives only the keys that begin with `prefix`.
    pub fn prefix(mut self, prefix: &[u8]) -> Self {
        let full = self.full(prefix);
        // A keyspace's number has a successor: so its full keys have an end.
        self.bounds.1 = end_of_prefix(&full).unwrap_or_default();
        self.bounds.0 = full;
        self.change(|scan| scan.prefix(prefix))
    }

    /// Goes from the last key to the first.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self.change(Scan::reverse)
    }

    /// Leaves the values empty: separated ones are not read.
    pub fn keys_only(mut self) -> Self {
        self.with_values = false;
        self.change(Scan::keys_only)
    }

    /// Begins, if that was not done yet.
    fn begin(&mut self) -> Result<()> {
        if self.slot.is_some() {
            return Ok(());
        }
        let (from, to) = &self.bounds;
        if from < to {
            let own = self.txn.writes.points.range(from.clone()..to.clone());
            self.own = own.map(|(key, value)| (key.as_slice(), value.clone())).collect();
        }
        if !self.reverse {
            self.own.reverse();
        }
        let start =
            if self.reverse { (to.clone(), to.clone()) } else { (from.clone(), from.clone()) };
        let mut footprint = self.txn.footprint.borrow_mut();
        footprint.ranges.push(start);
        self.slot = Some(footprint.ranges.len() - 1);
        drop(footprint);
        self.fetch()
    }

    /// Takes the next entry of the store that the transaction left alone, and notes that it was
    /// looked at, with everything in front of it.
    fn fetch(&mut self) -> Result<()> {
        self.theirs = None;
        while let Some(scan) = &mut self.scan {
            let Some(entry) = scan.next().transpose()? else {
                self.scan = None;
                self.saw(None);
                return Ok(());
            };
            let full = self.full(&entry.0);
            self.saw(Some(&full));
            if !self.txn.writes.decide(&full) {
                self.theirs = Some((full, entry.1));
                return Ok(());
            }
        }
        Ok(())
    }

    /// The scan has seen everything up to and including a key; `None`: everything.
    fn saw(&self, key: Option<&[u8]>) {
        let Some(slot) = self.slot else { return };
        let range = &mut self.txn.footprint.borrow_mut().ranges[slot];
        match (key, self.reverse) {
            (Some(key), false) => range.1 = [key, &[0]].concat(),
            (Some(key), true) => range.0 = key.to_vec(),
            (None, false) => range.1.clone_from(&self.bounds.1),
            (None, true) => range.0.clone_from(&self.bounds.0),
        }
    }

    fn step(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.begin()?;
        loop {
            let own_is_next = match (self.own.last(), &self.theirs) {
                (Some((own, _)), Some((theirs, _))) => (*own < theirs.as_slice()) != self.reverse,
                (own, _) => own.is_some(),
            };
            if !own_is_next {
                let Some((mut key, value)) = self.theirs.take() else { return Ok(None) };
                self.fetch()?;
                key.drain(..KEYSPACE_BYTES);
                return Ok(Some((key, value)));
            }
            if let Some((key, Some(at))) = self.own.pop() {
                let value =
                    if self.with_values { self.txn.batch.body[at].to_vec() } else { vec![] };
                return Ok(Some((key[KEYSPACE_BYTES..].to_vec(), value)));
            }
        }
    }
}

impl Iterator for TransactionScan<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            (self.scan, self.theirs) = (None, None);
            self.own.clear();
        }
        step.transpose()
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
