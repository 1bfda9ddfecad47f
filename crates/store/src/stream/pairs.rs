//! Owned streams: pairs that keep their snapshot alive, renewal, and going on by position.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::held::{Held, Pair, Run};
use super::park;
use super::scan::{Ends, Scan};
use super::source::{Snapshot, Source};
use super::token::Token;
use crate::tree::Bytes;
use crate::{Error, Result};

/// What a stream comes to: see [`Pairs::event`].
pub enum Event<S: Snapshot> {
    /// The next pair.
    Pair(Pair<S>),
    /// The snapshot was exchanged: the pairs that follow are of a later moment.
    Renewed {
        /// The commit that was seen before.
        from: u64,
        /// The commit that is seen from here on.
        to: u64,
    },
}

impl<S: Snapshot> fmt::Debug for Event<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pair(pair) => f.debug_tuple("Pair").field(pair).finish(),
            Self::Renewed { from, to } => {
                f.debug_struct("Renewed").field("from", from).field("to", to).finish()
            }
        }
    }
}

/// The pairs of a store in order, from both ends; made by [`Scan::pairs`]. An error ends it.
///
/// Dropping it lets its snapshot go at once. It can be sent to another thread.
pub struct Pairs<S: Source> {
    own: Own<S>,
}

/// The state of a stream: its own, or shared with the thread that parks it.
enum Own<S: Source> {
    Alone(Box<Core<S>>),
    // In the order in which they must be dropped.
    Watched(park::Watched, Arc<Mutex<Core<S>>>),
}

pub(super) struct Core<S: Source> {
    source: S,
    scan: Scan,
    held: Option<Held<S::Snapshot>>,
    /// How far the stream had come when it took its snapshot.
    ends: Ends,
    /// The commit of the newest snapshot that it had, and of the one before while that has not been
    /// told.
    commit: u64,
    before: Option<u64>,
    /// What was given from the snapshot, and from where on the limits of the renewal count.
    given: Given,
    span: Span,
    used: Used,
    is_over: bool,
    /// After this many pairs of the snapshot it is looked whether it is to be exchanged.
    look_from: u64,
    look: Look,
}

/// What the thread that parks streams asks, if this one may be parked.
struct Used {
    /// When it was last asked for a pair.
    last: Instant,
    /// Whether the thread looks at it: it does not look at one that it has parked.
    is_watched: bool,
}

/// From where on the limits of a renewal count: when the snapshot was taken, or was found to be the
/// newest one still, and what had been given then.
#[derive(Clone, Copy)]
struct Span {
    since: Instant,
    given: Given,
}

/// When it was last looked how many pages the snapshot holds.
#[derive(Clone, Copy, Default)]
struct Look {
    /// The newest commit then.
    commit: u64,
    /// Before this moment it is not looked again.
    next: Option<Instant>,
}

/// Before another look a stream goes on for this long for each piece of space that the last one
/// looked at. Such a piece takes about a tenth of that.
const LOOK_TIME: Duration = Duration::from_nanos(100);

/// How many pairs, or pairs of how many bytes, are read at once for another thread: more of them
/// make the hop to that thread cheaper, fewer need less memory.
const RUN_PAIRS: usize = 2048;
const LENT_BYTES: u64 = 1 << 20;
const COPIED_BYTES: u64 = 256 << 10;

/// How much was given.
#[derive(Clone, Copy, Default)]
struct Given {
    pairs: u64,
    bytes: u64,
}

impl Given {
    #[inline]
    fn count(&mut self, key: Bytes<'_>, value: Bytes<'_>) {
        self.pairs += 1;
        self.bytes += (key.len() + value.len()) as u64;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside is right between any two steps.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Source> Pairs<S> {
    /// A stream; over a snapshot that is there already, or the newest one.
    pub(super) fn new(scan: Scan, source: S, snapshot: Option<Arc<S::Snapshot>>) -> Result<Self> {
        let snapshot = match snapshot {
            Some(snapshot) => snapshot,
            None => Arc::new(source.begin()?),
        };
        let (commit, ends) = (snapshot.commit(), scan.ends());
        let held = Held::new(snapshot, &scan, &ends)?;
        if let Some(pages) = scan.renewal.pages_max()
            && source.is_holding(held.snapshot(), pages)?.is_none()
        {
            let reason = "the lsm engine does not know how many pages a snapshot holds; its \
                          streams can be renewed by commits";
            return Err(Error::argument(reason));
        }
        let (park, since) = (scan.park, Instant::now());
        let core = Core {
            source,
            look_from: scan.renewal.pairs_to_look(),
            scan,
            held: Some(held),
            ends,
            commit,
            before: None,
            given: Given::default(),
            span: Span { since, given: Given::default() },
            used: Used { last: since, is_watched: park.is_some() },
            is_over: false,
            look: Look::default(),
        };
        let own = match park {
            None => Own::Alone(Box::new(core)),
            Some(time) => {
                let core = Arc::new(Mutex::new(core));
                Own::Watched(park::watch(&core, time)?, core)
            }
        };
        Ok(Self { own })
    }

    #[inline(always)]
    fn with<T>(&mut self, run: impl FnOnce(&mut Core<S>) -> T) -> T {
        match &mut self.own {
            Own::Alone(core) => run(core),
            Own::Watched(watched, core) => {
                let mut core = lock(core);
                core.used.last = Instant::now();
                let answer = run(&mut core);
                if core.held.is_some() && !core.used.is_watched {
                    core.used.is_watched = true;
                    watched.again();
                }
                answer
            }
        }
    }

    fn look<T>(&self, run: impl FnOnce(&Core<S>) -> T) -> T {
        match &self.own {
            Own::Alone(core) => run(core),
            Own::Watched(_, core) => run(&lock(core)),
        }
    }

    /// The next pair, or the place where the snapshot was exchanged. The iterator leaves these
    /// places out.
    ///
    /// # Errors
    /// As the store's reads. The stream has ended then.
    pub fn event(&mut self) -> Result<Option<Event<S::Snapshot>>> {
        self.with(|core| {
            core.prepare()?;
            if let Some(from) = core.before.take() {
                return Ok(Some(Event::Renewed { from, to: core.commit }));
            }
            Ok(core.step(false).transpose()?.map(Event::Pair))
        })
    }

    /// Calls `see` with the next pair, without a copy and without a guard, and returns its result;
    /// `None` after the last pair.
    ///
    /// # Errors
    /// As [`Pairs::event`].
    #[inline]
    pub fn see<T>(&mut self, see: impl FnOnce(Bytes<'_>, Bytes<'_>) -> T) -> Result<Option<T>> {
        self.with(|core| {
            core.prepare()?;
            core.see(see).transpose()
        })
    }

    /// Fills a run with the next pairs: at most this many, and after the first one no further one
    /// once it has this many bytes. It has none after the last pair. A snapshot that is to be
    /// exchanged for a newer one is exchanged between two runs.
    ///
    /// # Errors
    /// As [`Pairs::event`].
    pub fn fill(&mut self, run: &mut Run<S::Snapshot>, pairs: usize, bytes: u64) -> Result<()> {
        run.clear();
        self.with(|core| {
            core.prepare()?;
            core.fill(run, (pairs, bytes.max(1)), false)
        })
    }

    /// The same for a run that another thread will read, perhaps much later. If the stream may be
    /// parked, it has copies, so that it does not keep the snapshot that was given back then.
    pub(super) fn fill_for_another(&mut self, run: &mut Run<S::Snapshot>) -> Result<()> {
        run.clear();
        self.with(|core| {
            core.prepare()?;
            let copies = !S::Snapshot::LENDS || core.scan.park.is_some();
            let bytes = if copies { COPIED_BYTES } else { LENT_BYTES };
            core.fill(run, (RUN_PAIRS, bytes), true)
        })
    }

    /// Exactly how many pairs are left, in the tree engine, as of the snapshot. `None` in the lsm
    /// engine, and while the stream is parked.
    pub fn remaining(&self) -> Option<u64> {
        self.look(|core| match core.is_over {
            true => Some(0),
            false => core.held.as_ref()?.remaining(),
        })
    }

    /// How many pairs were given.
    pub fn given(&self) -> u64 {
        self.look(|core| core.ends.taken + core.given.pairs)
    }

    /// Which part of the pairs was given, from 0 to 1, where the engine can tell.
    pub fn fraction(&self) -> Option<f64> {
        let (given, left) = (self.given(), self.remaining()?);
        Some(if given + left == 0 { 1.0 } else { given as f64 / (given + left) as f64 })
    }

    /// The number of the commit that the stream sees, or saw before it was parked.
    pub fn commit(&self) -> u64 {
        self.look(|core| core.commit)
    }

    /// Whether it holds a snapshot at this moment.
    pub fn is_parked(&self) -> bool {
        self.look(|core| core.held.is_none())
    }

    /// Gives the snapshot back. The stream goes on with the newest one, after the last pair that it
    /// gave.
    ///
    /// # Errors
    /// As [`Pairs::event`]; then it keeps the snapshot.
    pub fn park(&mut self) -> Result<()> {
        self.with(Core::let_go)
    }

    /// How far it came: another stream, perhaps of another process, can go on from here.
    ///
    /// # Errors
    /// If the store's identity cannot be read.
    pub fn token(&self) -> Result<Token> {
        self.look(|core| {
            let id = core.source.store_id()?;
            Ok(Token::new(id, &core.scan, core.reached()?, core.commit))
        })
    }
}

impl<S: Source> Pairs<S> {
    #[inline(never)]
    fn next_slow(&mut self) -> Option<Result<Pair<S::Snapshot>>> {
        self.with(|core| match core.prepare() {
            Ok(()) => core.step(false),
            Err(error) => Some(Err(error)),
        })
    }
}

impl<S: Source> Core<S> {
    /// The next pair, if all is as usual: there is a snapshot that need not be looked at, and the
    /// pair is quick to tell. `None` says nothing.
    #[inline(always)]
    fn next_here(&mut self) -> Option<Pair<S::Snapshot>> {
        if self.is_over || self.scan.is_reverse || self.given.pairs >= self.look_from {
            return None;
        }
        let pair = self.held.as_mut()?.next_here()?;
        self.given.count(pair.key(), pair.value());
        Some(pair)
    }

    /// Has a snapshot, and one that is not too old.
    #[inline]
    fn prepare(&mut self) -> Result<()> {
        let is_early = self.given.pairs < self.look_from;
        let is_usual = self.held.is_some() && !self.is_over && is_early;
        if is_usual { Ok(()) } else { self.prepare_slowly() }
    }

    #[inline(never)]
    fn prepare_slowly(&mut self) -> Result<()> {
        if self.is_over {
            // Nothing follows, so nothing is held.
            return if self.held.is_some() { self.let_go() } else { Ok(()) };
        }
        if self.held.is_some() {
            if !self.is_due()? {
                return Ok(());
            }
            if self.source.newest_commit() == self.commit {
                // It is the newest one, and holds nothing that would be free without it.
                self.begin_span();
                return Ok(());
            }
        }
        self.is_over = true;
        self.let_go()?;
        let snapshot = Arc::new(self.source.begin()?);
        let commit = snapshot.commit();
        if commit != self.commit && self.before.is_none() {
            self.before = Some(self.commit);
        }
        self.commit = commit;
        self.begin_span();
        self.held = Some(Held::new(snapshot, &self.scan, &self.ends)?);
        self.is_over = false;
        Ok(())
    }

    /// The limits of the renewal count from here on.
    fn begin_span(&mut self) {
        self.span = Span { since: Instant::now(), given: self.given };
        self.look_from = self.given.pairs.saturating_add(self.scan.renewal.pairs_to_look());
    }

    fn is_due(&mut self) -> Result<bool> {
        if self.given.pairs < self.look_from {
            return Ok(false);
        }
        let commits = || self.source.newest_commit().saturating_sub(self.commit);
        let (renewal, span) = (&self.scan.renewal, &self.span);
        let given = (self.given.pairs - span.given.pairs, self.given.bytes - span.given.bytes);
        if renewal.is_due(given, || span.since.elapsed(), commits) {
            return Ok(true);
        }
        match renewal.pages_max() {
            Some(pages) => self.holds(pages),
            None => Ok(false),
        }
    }

    /// Whether the snapshot holds this many pages; false also if it is too early to look.
    fn holds(&mut self, pages: u64) -> Result<bool> {
        let newest = self.source.newest_commit();
        let Some(held) = &self.held else { return Ok(false) };
        // Without another commit it holds what it held.
        if newest == self.commit || newest == self.look.commit {
            return Ok(false);
        }
        let begin = Instant::now();
        if self.look.next.is_some_and(|next| begin < next) {
            return Ok(false);
        }
        let (holds, looks) = self.source.is_holding(held.snapshot(), pages)?.unwrap_or_default();
        self.look = Look { commit: newest, next: Some(begin + LOOK_TIME * looks) };
        Ok(holds)
    }

    /// The next pair from an end of the stream.
    #[inline(always)]
    fn step(&mut self, at_end: bool) -> Option<Result<Pair<S::Snapshot>>> {
        let backwards = self.scan.is_reverse != at_end;
        let pair = self.held.as_mut()?.next(backwards);
        match &pair {
            Some(Ok(pair)) => self.given.count(pair.key(), pair.value()),
            _ => self.is_over = true,
        }
        pair
    }

    /// The pair after `n` others, which count as given.
    fn nth(&mut self, n: usize) -> Option<Result<Pair<S::Snapshot>>> {
        let held = self.held.as_mut()?;
        let Some(left) = held.remaining() else {
            for _ in 0..n {
                if let Err(error) = self.step(false)? {
                    return Some(Err(error));
                }
            }
            return self.step(false);
        };
        let pair = held.nth(self.scan.is_reverse, n);
        self.given.pairs += left.min(n as u64);
        match &pair {
            Some(Ok(pair)) => self.given.count(pair.key(), pair.value()),
            _ => self.is_over = true,
        }
        pair
    }

    #[inline]
    fn see<T>(&mut self, see: impl FnOnce(Bytes<'_>, Bytes<'_>) -> T) -> Option<Result<T>> {
        let (given, backwards) = (&mut self.given, self.scan.is_reverse);
        let seen = self.held.as_mut()?.see(backwards, |key, value| {
            given.count(key, value);
            see(key, value)
        });
        self.is_over |= !matches!(seen, Some(Ok(_)));
        seen
    }

    fn fill(
        &mut self,
        run: &mut Run<S::Snapshot>,
        (pairs, bytes): (usize, u64),
        for_another: bool,
    ) -> Result<()> {
        let Some(held) = &mut self.held else { return Ok(()) };
        let copies = for_another && self.scan.park.is_some();
        let how = (for_another, copies);
        let size = match held.fill(run, self.scan.is_reverse, (pairs, bytes), how) {
            Ok((size, is_over)) => {
                self.is_over = is_over;
                size
            }
            Err(error) => {
                self.is_over = true;
                run.clear();
                return Err(error);
            }
        };
        self.given.pairs += run.len() as u64;
        self.given.bytes += size;
        Ok(())
    }

    /// Where it has come.
    fn reached(&self) -> Result<Ends> {
        let Some(held) = &self.held else { return Ok(self.ends.clone()) };
        let taken = self.ends.taken + self.given.pairs;
        let low = held.reached(false)?.or_else(|| self.ends.low.clone());
        let high = held.reached(true)?.or_else(|| self.ends.high.clone());
        Ok(Ends { low, high, taken, has_begun: true })
    }

    /// Lets the snapshot go.
    fn let_go(&mut self) -> Result<()> {
        self.ends = self.reached()?;
        (self.held, self.given) = (None, Given::default());
        Ok(())
    }
}

impl<S: Source> park::Idle for Core<S> {
    fn used(&self) -> Instant {
        self.used.last
    }

    fn park(&mut self) -> bool {
        // If it cannot be told how far it came, it stays.
        self.used.is_watched = self.let_go().is_err();
        !self.used.is_watched
    }
}

impl<S: Source> Iterator for Pairs<S> {
    type Item = Result<Pair<S::Snapshot>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Own::Alone(core) = &mut self.own
            && let Some(pair) = core.next_here()
        {
            return Some(Ok(pair));
        }
        self.next_slow()
    }

    /// Leaves out `n` pairs, in the tree engine without walking them.
    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        self.with(|core| match core.prepare() {
            Ok(()) => core.nth(n),
            Err(error) => Some(Err(error)),
        })
    }
}

impl<S: Source> DoubleEndedIterator for Pairs<S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.with(|core| match core.prepare() {
            Ok(()) => core.step(true),
            Err(error) => Some(Err(error)),
        })
    }
}

#[cfg(test)]
#[path = "pairs/tests.rs"]
mod tests;
