//! What a stream reads, and how long it may hold a snapshot.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::batch::Batches;
use super::groups::Groups;
use super::pairs::Pairs;
use super::sample::{Sample, places};
use super::source::{Snapshot, Source};
use super::task::RunStream;
use super::token::Token;
use crate::Result;
use crate::key::{KeyRange, prefix};

/// So many parts can a stream be cut into: far more than there are threads to read them.
const PARTS_MAX: usize = 1 << 20;

/// Which values of a key a stream gives, in a table with duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// Each of them, as a pair of its own.
    #[default]
    Each,
    /// The first one of each key.
    First,
    /// The last one of each key.
    Last,
}

/// When a stream exchanges its snapshot for the newest one; without any limit, never: then it sees
/// one moment from its beginning to its end.
///
/// | a stream that is | asks for |
/// |---|---|
/// | consistent | [`Renewal::never`] |
/// | fresh | [`Renewal::fresh`] |
/// | consistent until it lags | [`Renewal::commits`], [`Renewal::pages`] |
/// | consistent for a while | [`Renewal::pairs`], [`Renewal::bytes`], [`Renewal::time`] |
///
/// A snapshot is exchanged between two pairs, as soon as one of the limits is reached, if there is
/// a newer commit then; if there is none, the limits count from there on. What it sees then is
/// another moment: [`Pairs::event`] tells where, and between which commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    pairs: Option<u64>,
    bytes: Option<u64>,
    time: Option<Duration>,
    commits: Option<u64>,
    pages: Option<u64>,
}

impl Renewal {
    /// Keeps the snapshot from the beginning to the end.
    pub fn never() -> Self {
        Self::default()
    }

    /// Exchanges it before the next pair, whenever there is a newer commit.
    pub fn fresh() -> Self {
        Self::never().commits(1)
    }

    /// Exchanges it after this number of pairs, at least one.
    pub fn pairs(mut self, pairs: u64) -> Self {
        self.pairs = Some(pairs.max(1));
        self
    }

    /// Exchanges it after this many bytes of keys and values.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Exchanges it after this time.
    pub fn time(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// Exchanges it once this number of commits were made since it was taken: the stream is
    /// consistent until it lags by that number.
    pub fn commits(mut self, commits: u64) -> Self {
        self.commits = Some(commits);
        self
    }

    /// Exchanges it once it keeps this number of pages, at least one, from being used again: those
    /// that it uses and the newest commit does not ([`ReadTxn::held_pages`]). So a stream holds no
    /// more of the file than this, and what one commit frees, however slowly it is read; beside a
    /// store that is not written to it is consistent from its beginning to its end. Pairs that the
    /// caller keeps hold theirs nevertheless.
    ///
    /// The stream looks after each commit, before the next pair. Mostly the look is at a number
    /// that the newest commit tells; what the snapshot holds is only counted when all that is held
    /// in the store, by any reader, is as much, and at most a tenth of the time is spent on that.
    ///
    /// Only the tree engine knows this: a stream of the lsm engine that asks for it is an
    /// [`Error::Argument`](crate::Error::Argument). A snapshot holds no files there.
    ///
    /// [`ReadTxn::held_pages`]: crate::tree::ReadTxn::held_pages
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use hedgerow::stream::{Event, Renewal, Scan, Sink};
    ///
    /// let fill = |byte: u8| -> hedgerow::Result<()> {
    ///     let mut sink = Sink::new(&store, "t")?;
    ///     for key in 0..100_u32 {
    ///         sink.put(&key.to_be_bytes(), &[byte; 1_000])?;
    ///     }
    ///     sink.finish().map(drop)
    /// };
    /// fill(1)?;
    /// let mut pairs = Scan::new("t").renewal(Renewal::never().pages(10)).pairs(&store)?;
    /// assert_eq!(pairs.next().unwrap()?.value(), [1; 1_000]);
    /// fill(2)?; // about 25 pages are free but for this stream
    /// assert!(matches!(pairs.event()?, Some(Event::Renewed { .. })));
    /// assert_eq!(pairs.next().unwrap()?.value(), [2; 1_000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pages(mut self, pages: u64) -> Self {
        self.pages = Some(pages.max(1));
        self
    }

    /// The number of pages that a snapshot may hold.
    pub(super) fn pages_max(&self) -> Option<u64> {
        self.pages
    }

    /// Whether one of the other limits is reached. What costs a call is asked for only if it
    /// matters.
    pub(super) fn is_due(
        &self,
        (pairs, bytes): (u64, u64),
        age: impl FnOnce() -> Duration,
        commits: impl FnOnce() -> u64,
    ) -> bool {
        self.pairs.is_some_and(|most| pairs >= most)
            || self.bytes.is_some_and(|most| bytes >= most)
            || self.time.is_some_and(|most| age() >= most)
            || self.commits.is_some_and(|most| commits() >= most)
    }

    /// After how many pairs it is to be looked whether one of the limits is reached.
    pub(super) fn pairs_to_look(&self) -> u64 {
        match *self {
            // Others may be reached at any time, but not before there was a pair.
            Self { bytes: None, time: None, commits: None, pages: None, pairs } => {
                pairs.unwrap_or(u64::MAX)
            }
            _ => 1,
        }
    }
}

/// A place between two pairs: after (or, backwards, before) this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The pair's key.
    pub key: Vec<u8>,
    /// The pair's value in a table with duplicates of which each is given; otherwise the key says
    /// it all.
    pub value: Option<Vec<u8>>,
}

/// How far a stream has come from either end of its range.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    /// The last pair that was taken in the order of the keys, and in the other order.
    pub(super) low: Option<Position>,
    pub(super) high: Option<Position>,
    /// How many pairs were taken.
    pub(super) taken: u64,
    /// Whether a snapshot was read: then the pairs to be skipped were, and count as reached.
    pub(super) has_begun: bool,
}

/// What a stream reads: see the [module](super).
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// use hedgerow::stream::{Renewal, Scan};
///
/// let files = db.keyspace("files", Default::default())?;
/// for name in ["bin/awk", "etc/fstab", "etc/hosts"] {
///     db.put(&files, name.as_bytes(), b"")?;
/// }
/// let scan = Scan::new("files").prefix("etc/").reverse().renewal(Renewal::never().pairs(1_000));
/// let names: Result<Vec<_>, _> = scan.pairs(&db)?.map(|p| p.map(|p| p.key().to_vec())).collect();
/// assert_eq!(names?, [&b"etc/hosts"[..], b"etc/fstab"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scan {
    pub(super) table: Vec<u8>,
    pub(super) keys: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    pub(super) is_reverse: bool,
    pub(super) skip: u64,
    pub(super) limit: Option<u64>,
    pub(super) keys_only: bool,
    pub(super) values: Values,
    pub(super) after: Option<Position>,
    /// The same for the other end.
    pub(super) until: Option<Position>,
    pub(super) renewal: Renewal,
    pub(super) park: Option<Duration>,
}

impl Scan {
    /// The name of what is read.
    pub fn table(&self) -> &[u8] {
        &self.table
    }

    /// All pairs of a table (of a keyspace, in the lsm engine) in order.
    pub fn new(table: impl AsRef<[u8]>) -> Self {
        Self {
            table: table.as_ref().to_vec(),
            keys: (Bound::Unbounded, Bound::Unbounded),
            is_reverse: false,
            skip: 0,
            limit: None,
            keys_only: false,
            values: Values::Each,
            after: None,
            until: None,
            renewal: Renewal::never(),
            park: None,
        }
    }

    /// Reads only the keys of a range.
    pub fn range(mut self, keys: impl KeyRange) -> Self {
        self.keys = (keys.low().map(<[u8]>::to_vec), keys.high().map(<[u8]>::to_vec));
        self
    }

    /// Reads only the keys that begin with some bytes.
    pub fn prefix(self, bytes: impl AsRef<[u8]>) -> Self {
        self.range(prefix(bytes))
    }

    /// Reads from the last pair to the first.
    pub fn reverse(mut self) -> Self {
        self.is_reverse = true;
        self
    }

    /// Passes over the first `n` pairs of the first snapshot. The tree engine goes there in one
    /// descent; the lsm engine walks.
    pub fn skip(mut self, n: u64) -> Self {
        self.skip = n;
        self
    }

    /// Gives at most `n` pairs, from whichever ends they are taken.
    pub fn limit(mut self, n: u64) -> Self {
        self.limit = Some(n);
        self
    }

    /// Gives empty values; those of the store are not read.
    pub fn keys_only(mut self) -> Self {
        self.keys_only = true;
        self
    }

    /// Chooses which values of a key are given.
    pub fn values(mut self, values: Values) -> Self {
        self.values = values;
        self
    }

    /// Reads only what comes after a place, in the direction of the stream; of a range, only what
    /// is in it.
    pub fn after(mut self, position: Position) -> Self {
        self.after = Some(position);
        self
    }

    /// Chooses when the snapshot is exchanged for a newer one. Borrowed streams cannot do it.
    pub fn renewal(mut self, renewal: Renewal) -> Self {
        self.renewal = renewal;
        self
    }

    /// Gives the snapshot back when for this time no pair was asked for. The stream goes on with
    /// the newest snapshot then, after the last pair that it gave. Guards that the caller still has
    /// keep theirs. Borrowed streams cannot do it.
    pub fn park_after(mut self, time: Duration) -> Self {
        self.park = Some(time);
        self
    }

    /// The rest of a stream of which a [`Token`] tells how far it came. Range, direction, limit and
    /// kind of values are those of that stream; renewal and parking are to be asked for anew.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) if the token is one of another store.
    pub fn resume<S: Source>(token: &Token, source: &S) -> Result<Self> {
        token.check(source)?;
        Ok(token.scan())
    }

    /// This scan from the place of a token on, if the token is one of a stream that read the same:
    /// for tokens that come from elsewhere and must not lead to another table, or outside of the
    /// range. Limit, renewal and parking are those of this scan; nothing is skipped.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// # let mut sink = hedgerow::stream::Sink::new(&store, "n")?;
    /// # for n in 0..9_u8 { sink.put(&[n], &[])?; }
    /// # sink.finish()?;
    /// use hedgerow::stream::Scan;
    ///
    /// let page = || Scan::new("n").range(&[2][..]..).limit(3);
    /// let mut first = page().pairs(&store)?;
    /// assert_eq!(first.by_ref().count(), 3);
    /// let token = first.token()?;
    /// let mut second = page().after_token(&token, &store)?.pairs(&store)?;
    /// assert_eq!(second.next().unwrap()?.key(), [5]);
    /// assert!(Scan::new("secrets").after_token(&token, &store).is_err());
    /// assert!(Scan::new("n").after_token(&token, &store).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) if the token is one of another store, table,
    /// range of keys, direction or kind of values.
    pub fn after_token<S: Source>(self, token: &Token, source: &S) -> Result<Self> {
        token.check(source)?;
        let theirs = token.scan();
        let is_same = (&self.table, &self.keys) == (&theirs.table, &theirs.keys)
            && (self.is_reverse, self.keys_only) == (theirs.is_reverse, theirs.keys_only)
            && self.values == theirs.values;
        if !is_same {
            let reason = "the token is one of a stream that read something else";
            return Err(crate::Error::argument(reason));
        }
        Ok(Self { skip: theirs.skip, after: theirs.after, until: theirs.until, ..self })
    }

    /// At most `n` pairs of one snapshot, drawn at random without repetition, in the order of the
    /// stream; the same seed draws the same places. The tree engine goes to each of them by its
    /// rank. Every `n`-th pair is had by [`Iterator::step_by`], which walks no others either.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// # let mut sink = hedgerow::stream::Sink::new(&store, "n")?;
    /// # for n in 0..100_u8 { sink.put(&[n], &[])?; }
    /// # sink.finish()?;
    /// use hedgerow::stream::Scan;
    ///
    /// let pairs: Vec<_> = Scan::new("n").sample(&store, 5, 1)?.collect::<Result<_, _>>()?;
    /// assert!(pairs.len() == 5 && pairs.is_sorted_by(|a, b| a.key() < b.key()));
    /// let every_tenth = Scan::new("n").pairs(&store)?.step_by(10).count();
    /// assert_eq!(every_tenth, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Scan::split`].
    pub fn sample<S: Source>(&self, source: &S, n: u64, seed: u64) -> Result<Sample<S>> {
        let scan = Self { renewal: Renewal::never(), park: None, ..self.clone() };
        let pairs = scan.pairs(source)?;
        let Some(all) = pairs.remaining() else {
            return Err(crate::Error::argument("only a store that counts can draw what it reads"));
        };
        Ok(Sample::new(pairs, places(all, n, seed)))
    }

    /// The pairs of a transaction or snapshot: borrowed from it, without a copy.
    ///
    /// # Errors
    /// [`Error::NoTable`](crate::Error::NoTable); and as its reads.
    pub fn walk<'t, S: Snapshot>(&self, snapshot: &'t S) -> Result<Walker<'t, S>> {
        let walk = snapshot.walk(self, &self.ends())?;
        Ok(Walker { walk, is_reverse: self.is_reverse })
    }

    /// The pairs of a store, each of which keeps its snapshot alive.
    ///
    /// # Errors
    /// [`Error::NoTable`](crate::Error::NoTable); and as the store's reads.
    pub fn pairs<S: Source>(&self, source: &S) -> Result<Pairs<S>> {
        Pairs::new(self.clone(), source.clone(), None)
    }

    /// The same of a snapshot of the store that the caller has already.
    ///
    /// # Errors
    /// As [`Scan::pairs`].
    pub fn pairs_of<S: Source>(&self, source: &S, snapshot: Arc<S::Snapshot>) -> Result<Pairs<S>> {
        Pairs::new(self.clone(), source.clone(), Some(snapshot))
    }

    /// The keys of a store, each with all of its values: the limit and what is skipped count keys.
    ///
    /// # Errors
    /// As [`Scan::pairs`].
    pub fn groups<S: Source>(&self, source: &S) -> Result<Groups<S>> {
        Groups::new(self, source)
    }

    /// The pairs in batches of at most this many pairs, and about this many bytes.
    ///
    /// # Errors
    /// As [`Scan::pairs`].
    pub fn batches<S: Source>(&self, source: &S, pairs: usize, bytes: usize) -> Result<Batches<S>> {
        Ok(Batches::new(self.pairs(source)?, pairs, bytes))
    }

    /// The pairs as a stream for any executor: a thread of its own reads ahead, and does all that
    /// may wait for the disk.
    ///
    /// In the tree engine nothing is copied, and what the stream gives keeps its snapshot alive,
    /// unless the stream [may be parked](Scan::park_after): then it gives copies.
    ///
    /// # Errors
    /// As [`Scan::pairs`], and [`Error::Io`](crate::Error::Io) if no thread can be had.
    pub fn stream<S: Source>(&self, source: &S) -> Result<RunStream<S::Snapshot>> {
        RunStream::new(self.pairs(source)?)
    }

    /// Cuts what is read into `n` parts of as many pairs, give or take one, over one snapshot: each
    /// can be read by another thread. Their order is that of the stream.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// # let mut sink = hedgerow::stream::Sink::new(&store, "n")?;
    /// # for n in 0..100_u32 { sink.put(&n.to_be_bytes(), &[1])?; }
    /// # sink.finish()?;
    /// use hedgerow::stream::Scan;
    ///
    /// let parts = Scan::new("n").split(&store, 4)?;
    /// let sums = std::thread::scope(|scope| {
    ///     let sum = |part: hedgerow::stream::Part<_>| -> hedgerow::Result<u64> {
    ///         part.pairs()?.map(|pair| Ok(u64::from(pair?.value().to_vec()[0]))).sum()
    ///     };
    ///     let threads = parts.into_iter().map(|part| scope.spawn(move || sum(part)));
    ///     let threads: Vec<_> = threads.collect();
    ///     threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Result<Vec<_>, _>>()
    /// })?;
    /// assert_eq!(sums, [25; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Scan::pairs`]; [`Error::Argument`](crate::Error::Argument) for the lsm engine, which
    /// does not count, and for more than 2²⁰ parts.
    pub fn split<S: Source>(&self, source: &S, n: usize) -> Result<Vec<Part<S>>> {
        let snapshot = Arc::new(source.begin()?);
        let Some(pairs) = self.walk(&*snapshot)?.remaining() else {
            return Err(crate::Error::argument("only a store that counts can split what it reads"));
        };
        if n > PARTS_MAX {
            return Err(crate::Error::argument(
                "what is read can be split into 2^20 parts at most",
            ));
        }
        let n = n as u64;
        let cut = |i: u64| (u128::from(pairs) * u128::from(i) / u128::from(n)) as u64;
        let part = |i| {
            let (from, to) = (cut(i), cut(i + 1));
            let scan = self.clone().skip(self.skip + from).limit(to - from);
            let scan = scan.renewal(Renewal::never());
            Part {
                scan: Self { park: None, ..scan },
                source: source.clone(),
                snapshot: Arc::clone(&snapshot),
            }
        };
        Ok((0..n).map(part).collect())
    }

    /// Whether the values are left empty.
    pub fn is_keys_only(&self) -> bool {
        self.keys_only
    }

    /// Where the stream begins.
    pub(super) fn ends(&self) -> Ends {
        let (after, until) = (self.after.clone(), self.until.clone());
        let (low, high) = if self.is_reverse { (until, after) } else { (after, until) };
        Ends { low, high, ..Ends::default() }
    }

    /// The places that were reached from either end. One that is not in the range, where a token or
    /// the caller has put it, leaves the range as it is.
    pub(super) fn inside<'e>(
        &self,
        ends: &'e Ends,
        compare: impl Fn(&[u8], &[u8]) -> Ordering,
    ) -> [Option<&'e Position>; 2] {
        let is_inside = |end: &Bound<Vec<u8>>, key: &[u8], inside: Ordering| match end {
            Bound::Unbounded => true,
            Bound::Included(end) => compare(key, end) != inside.reverse(),
            Bound::Excluded(end) => compare(key, end) == inside,
        };
        let Ends { low, high, .. } = ends;
        let low = low.as_ref().filter(|at| is_inside(&self.keys.0, &at.key, Ordering::Greater));
        let high = high.as_ref().filter(|at| is_inside(&self.keys.1, &at.key, Ordering::Less));
        [low, high]
    }

    /// How many pairs may still be given after `taken` ones.
    pub(super) fn left(&self, taken: u64) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(taken))
    }

    /// How many pairs are to be skipped.
    pub(super) fn to_skip(&self, ends: &Ends) -> u64 {
        if ends.has_begun { 0 } else { self.skip }
    }
}

/// A part of what a scan reads; made by [`Scan::split`].
pub struct Part<S: Source> {
    scan: Scan,
    source: S,
    snapshot: Arc<S::Snapshot>,
}

impl<S: Source> Part<S> {
    /// Its pairs.
    ///
    /// # Errors
    /// As [`Scan::pairs`].
    pub fn pairs(self) -> Result<Pairs<S>> {
        self.scan.pairs_of(&self.source, self.snapshot)
    }
}

/// The pairs of a transaction or snapshot in the direction of a scan; made by [`Scan::walk`].
pub struct Walker<'t, S: Snapshot + 't> {
    walk: S::Walk<'t>,
    is_reverse: bool,
}

impl<'t, S: Snapshot> Walker<'t, S> {
    /// How many pairs are left, where the engine can tell.
    pub fn remaining(&self) -> Option<u64> {
        super::source::Walk::remaining(&self.walk)
    }
}

impl<'t, S: Snapshot> Iterator for Walker<'t, S> {
    type Item = Result<S::Item<'t>>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_reverse { self.walk.next_back() } else { self.walk.next() }
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        if self.is_reverse { self.walk.nth_back(n) } else { self.walk.nth(n) }
    }
}

impl<S: Snapshot> DoubleEndedIterator for Walker<'_, S> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.is_reverse { self.walk.next() } else { self.walk.next_back() }
    }
}
