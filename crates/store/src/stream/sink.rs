//! Streams into a store: pairs in transactions of bounded size.

mod targets;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::scan::Position;
use crate::{Durability, Error, Result};

/// What a merging function answers: the value to store, or `None` to remove the key.
type Merge = Box<dyn FnMut(&[u8], Option<&[u8]>, &[u8]) -> Option<Vec<u8>> + Send>;
/// What is called with a rejected pair: whether the sink takes more.
type Call = Box<dyn FnMut(Rejected<'_>) -> Result<bool> + Send>;

/// What a [`Sink`] does with a pair.
#[derive(Default)]
#[non_exhaustive]
pub enum Mode {
    /// Stores it, in place of one with the same key (in a table with duplicates, beside it).
    #[default]
    Put,
    /// Stores it if its key (in a table with duplicates, the pair) is not there; else rejects it.
    New,
    /// Stores it if its key is there; else rejects it.
    Replace,
    /// Stores it if it comes after the last pair of the table; else rejects it.
    Append,
    /// Stores what a function makes of the key, the value that is there, and the new one; `None`
    /// removes the key. Not in tables with duplicates.
    Merge(Merge),
}

/// A pair that was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected<'p> {
    /// The key.
    pub key: &'p [u8],
    /// The value.
    pub value: &'p [u8],
    /// The (first) value that the key has, if there is one.
    pub old: Option<&'p [u8]>,
}

/// What a [`Sink`] does with rejected pairs.
#[derive(Default)]
#[non_exhaustive]
pub enum OnReject {
    /// Fails, and stores nothing more.
    #[default]
    Fail,
    /// Fails, unless the pair is there already just so.
    FailUnlessSame,
    /// Goes on.
    Ignore,
    /// Takes nothing more, but keeps what it has.
    Stop,
    /// Calls a function, which says whether the sink takes more.
    Call(Call),
}

/// After how much a [`Sink`] commits. Without any limit, once, at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pairs: u64,
    bytes: u64,
    time: Duration,
}

impl Default for Cut {
    /// Commits after 16 MiB.
    fn default() -> Self {
        Self::never().bytes(16 << 20)
    }
}

impl Cut {
    /// Commits only at the end: all or nothing.
    pub fn never() -> Self {
        Self { pairs: u64::MAX, bytes: u64::MAX, time: Duration::MAX }
    }

    /// Commits after this number of pairs.
    pub fn pairs(mut self, pairs: u64) -> Self {
        self.pairs = pairs;
        self
    }

    /// Commits after this many bytes of keys and values.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Commits after this time.
    pub fn time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }
}

/// What ends a [`Sink`] before its pairs do.
#[derive(Default)]
struct Stop {
    flag: Option<Arc<AtomicBool>>,
    at: Option<Instant>,
    /// Bytes that were taken since it was looked at.
    unseen: u64,
}

/// After this many bytes of pairs, about a page, a sink looks whether it is to stop.
const STOP_BYTES: u64 = 4096;

impl Stop {
    fn is_due(&mut self, bytes: u64) -> bool {
        self.unseen += bytes;
        if self.unseen < STOP_BYTES {
            return false;
        }
        self.unseen = 0;
        let is_raised = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        self.flag.as_ref().is_some_and(is_raised) || self.at.is_some_and(|at| Instant::now() >= at)
    }
}

/// What a [`Sink`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkReport {
    /// Pairs that were stored and committed.
    pub pairs: u64,
    /// Pairs that were rejected.
    pub rejected: u64,
    /// Commits.
    pub commits: u64,
    /// The last pair that was committed: everything up to it need not be written again.
    pub last: Option<Position>,
}

mod sealed {
    use super::{Mode, Rejected};
    use crate::{Durability, Result};

    /// What a sink needs of an engine.
    pub trait Sealed {
        /// A transaction on one table.
        type Txn: Send;
        /// Begins one, on a table that is made if it is not there.
        fn begin_txn(&self, table: &[u8], mode: &Mode) -> Result<Self::Txn>;
        /// Stores a pair, or shows that it is rejected; whether it was stored. `before` is the key
        /// of the last pair that was stored in the transaction, or empty.
        fn put(
            txn: &mut Self::Txn,
            mode: &mut Mode,
            before: &[u8],
            pair: (&[u8], &[u8]),
            rejected: &mut dyn FnMut(Rejected<'_>) -> Result<()>,
        ) -> Result<bool>;
        /// The value of a pair of the transaction, if it can be asked for later, by its key.
        fn value_of(txn: &Self::Txn, mode: &Mode, key: &[u8]) -> Result<Option<Vec<u8>>>;
        /// Whether that is so.
        fn tells_values(txn: &Self::Txn, mode: &Mode) -> bool;
        /// Commits.
        fn commit(&self, txn: Self::Txn, durability: Durability) -> Result<()>;
    }
}

/// A store that streams go into: [`tree::Store`](crate::tree::Store) or
/// [`lsm::Db`](crate::lsm::Db).
pub trait Target: sealed::Sealed + Clone {}

/// Takes pairs and stores them in transactions of bounded size.
///
/// Keys that come in order are appended, which is several times as fast. If the sink is dropped
/// before [`Sink::finish`], what was not committed is lost; what was is told by [`Sink::report`],
/// so that a load that was cut short can go on from there.
///
/// In the tree engine the sink is the store's writer from the first pair of each transaction to its
/// commit.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// use hedgerow::stream::{Cut, Mode, OnReject, Sink};
///
/// let mut twice = Vec::new();
/// let mut sink = Sink::new(&store, "words")?.mode(Mode::New).on_reject(OnReject::Ignore);
/// for word in ["ash", "elm", "ash"] {
///     if !sink.put(word.as_bytes(), b"")? {
///         twice.push(word);
///     }
/// }
/// let report = sink.finish()?;
/// assert_eq!((report.pairs, report.rejected, twice), (2, 1, vec!["ash"]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sink<T: Target> {
    target: T,
    table: Vec<u8>,
    mode: Mode,
    on_reject: OnReject,
    cut: Cut,
    durability: Durability,
    stop: Stop,
    open: Option<Open<T::Txn>>,
    report: SinkReport,
    is_over: bool,
}

/// A transaction and what is in it.
struct Open<Txn> {
    txn: Txn,
    pairs: u64,
    bytes: u64,
    since: Instant,
    last: Position,
}

impl<T: Target> Sink<T> {
    /// A sink into a table (a keyspace, in the lsm engine), which is made if it is not there.
    ///
    /// # Errors
    /// None so far: the store is first asked for something with the first pair.
    pub fn new(target: &T, table: impl AsRef<[u8]>) -> Result<Self> {
        Ok(Self {
            target: target.clone(),
            table: table.as_ref().to_vec(),
            mode: Mode::Put,
            on_reject: OnReject::Fail,
            cut: Cut::default(),
            durability: Durability::Durable,
            stop: Stop::default(),
            open: None,
            report: SinkReport::default(),
            is_over: false,
        })
    }

    /// Chooses what is done with a pair.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Chooses what is done with rejected pairs.
    pub fn on_reject(mut self, on_reject: OnReject) -> Self {
        self.on_reject = on_reject;
        self
    }

    /// Chooses after how much it commits.
    pub fn cut(mut self, cut: Cut) -> Self {
        self.cut = cut;
        self
    }

    /// Chooses what its commits promise.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Takes nothing more once this flag is raised, by any thread or a signal handler, but keeps
    /// what it has: [`Sink::is_over`] says so, and [`Sink::finish`] commits it. It is looked at
    /// after each 4 KiB of pairs. The store's own flag
    /// ([`Store::interrupt`](crate::tree::Store::interrupt)) does not wait for that, and fails the
    /// transaction.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
    ///
    /// let stop = Arc::new(AtomicBool::new(false));
    /// let mut sink = hedgerow::stream::Sink::new(&store, "pages")?.stop_flag(stop.clone());
    /// let mut number = 0_u32;
    /// while !sink.is_over() {
    ///     sink.put(&number.to_be_bytes(), &[0; 1_000])?;
    ///     number += 1;
    ///     stop.store(number >= 100, Ordering::Relaxed);
    /// }
    /// let last = sink.finish()?.last.unwrap().key;
    /// assert_eq!(last, (number - 1).to_be_bytes()); // a later run goes on after this one
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop_flag(mut self, flag: Arc<AtomicBool>) -> Self {
        self.stop.flag = Some(flag);
        self
    }

    /// Takes nothing more from this moment on, but keeps what it has; see [`Sink::stop_flag`].
    pub fn deadline(mut self, at: Instant) -> Self {
        self.stop.at = Some(at);
        self
    }

    /// Takes a pair; whether it was stored.
    ///
    /// # Errors
    /// Those of the engine's writes; [`Error::Rejected`] if the pair is rejected and that is a
    /// failure, or the sink takes nothing more. The pairs since the last commit are lost then.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.is_over {
            return Err(Error::Rejected { key: key.to_vec() });
        }
        let stored = self.put_in(key, value).inspect_err(|_| {
            (self.open, self.is_over) = (None, true);
        })?;
        self.is_over |= self.stop.is_due((key.len() + value.len()) as u64);
        if self.is_full() {
            self.commit()?;
        }
        Ok(stored)
    }

    /// Takes all pairs of an iterator, up to its first error, or until it [is
    /// over](Sink::is_over).
    ///
    /// # Errors
    /// As [`Sink::put`], and those of the iterator.
    pub fn extend<K: AsRef<[u8]>, V: AsRef<[u8]>, E: Into<Error>>(
        &mut self,
        pairs: impl IntoIterator<Item = Result<(K, V), E>>,
    ) -> Result<()> {
        for pair in pairs {
            let (key, value) = pair.map_err(Into::into)?;
            self.put(key.as_ref(), value.as_ref())?;
            if self.is_over {
                break;
            }
        }
        Ok(())
    }

    /// Whether it takes nothing more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn put_in(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(Open {
                txn: self.target.begin_txn(&self.table, &self.mode)?,
                pairs: 0,
                bytes: 0,
                since: Instant::now(),
                last: Position { key: Vec::new(), value: None },
            }),
        };
        let (on_reject, is_over) = (&mut self.on_reject, &mut self.is_over);
        let mut rejected = |pair: Rejected<'_>| {
            let failed = || Err(Error::Rejected { key: pair.key.to_vec() });
            match on_reject {
                OnReject::Fail => return failed(),
                OnReject::FailUnlessSame if pair.old != Some(pair.value) => return failed(),
                OnReject::FailUnlessSame | OnReject::Ignore => {}
                OnReject::Stop => *is_over = true,
                OnReject::Call(call) => *is_over = !call(pair)?,
            }
            Ok(())
        };
        let (mode, before) = (&mut self.mode, &open.last.key);
        let stored = T::put(&mut open.txn, mode, before, (key, value), &mut rejected)?;
        if stored {
            open.pairs += 1;
            open.bytes += (key.len() + value.len()) as u64;
            open.last.key.clear();
            open.last.key.extend_from_slice(key);
            if !T::tells_values(&open.txn, &self.mode) {
                let last = open.last.value.get_or_insert_default();
                last.clear();
                last.extend_from_slice(value);
            }
        } else {
            self.report.rejected += 1;
        }
        Ok(stored)
    }

    fn is_full(&self) -> bool {
        let Some(open) = &self.open else { return false };
        let Cut { pairs, bytes, time } = self.cut;
        open.pairs >= pairs
            || open.bytes >= bytes
            || (time < Duration::MAX && open.since.elapsed() >= time)
    }

    /// Commits what it has taken so far.
    ///
    /// # Errors
    /// Those of the engine's commit; the sink takes nothing more then.
    pub fn commit(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let value = match open.pairs {
            0 => Ok(None),
            _ => T::value_of(&open.txn, &self.mode, &open.last.key),
        };
        let committed = value.and_then(|value| {
            open.last.value = open.last.value.take().or(value);
            self.target.commit(open.txn, self.durability)
        });
        committed.inspect_err(|_| self.is_over = true)?;
        self.report.commits += 1;
        if open.pairs > 0 {
            self.report.pairs += open.pairs;
            self.report.last = Some(open.last);
        }
        Ok(())
    }

    /// What is committed.
    pub fn report(&self) -> &SinkReport {
        &self.report
    }

    /// Commits the rest.
    ///
    /// # Errors
    /// As [`Sink::commit`].
    pub fn finish(mut self) -> Result<SinkReport> {
        self.commit()?;
        Ok(self.report)
    }
}
