//! Merging several sorted sources into one. This module knows no file: a source may be a memtable,
//! a table or a level.

use std::cmp::Ordering;

use super::entry::{Entry, Limit, Start, compare};
use super::table::Run;
use crate::Result;

/// A place among sorted entries. Two sources never hold the same key with the same sequence number.
pub(crate) trait Source: Send {
    /// Finds out where to seek a key, and has the processor fetch what is looked at there: a
    /// [`Source::land`] at the same key follows. Where there are several sources, these wait for
    /// memory together.
    fn aim(&mut self, _key: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Looks at what was fetched, and has the processor fetch what is looked at last: between the
    /// other two.
    fn approach(&mut self, _key: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Moves to the first entry that is not before (`key`, `seq`): the newest one of `key` that a
    /// reader at `seq` sees, or one of a later key. It was aimed at `key` directly before.
    fn land(&mut self, key: &[u8], seq: u64) -> Result<()>;

    /// Moves there at once.
    fn seek(&mut self, key: &[u8], seq: u64) -> Result<()> {
        self.aim(key)?;
        self.approach(key)?;
        self.land(key, seq)
    }

    fn first(&mut self) -> Result<()>;
    fn last(&mut self) -> Result<()>;
    fn next(&mut self) -> Result<()>;
    fn prev(&mut self) -> Result<()>;
    /// The entry here; `None` before the first and after the last one.
    fn entry(&self) -> Option<Entry<'_>>;

    /// Moves on over entries whose keys come before `end` and whose numbers are lower than `seq`:
    /// over all that follow each other, or some of them.
    fn pass(&mut self, end: &[u8], seq: u64) -> Result<()> {
        pass_by_steps(self, end, seq)
    }

    /// Moves back over entries whose keys come not before `start` and whose numbers are lower than
    /// `seq`: over all that follow each other, or some of them.
    fn pass_back(&mut self, start: &[u8], seq: u64) -> Result<()> {
        pass_back_by_steps(self, start, seq)
    }

    /// Lets go of what takes memory, until it is moved to a place again.
    fn rest(&mut self) {}

    /// Whether the key here is known to be another one than that of the entry before.
    fn is_other(&self) -> bool {
        false
    }

    /// The entries that follow this one, in a direction, as far as they are at hand and their keys
    /// come before `limit` on the way.
    fn run(&self, _forward: bool, _limit: &Limit<'_>) -> Option<Run> {
        None
    }

    /// Moves to the place of a run that began here.
    fn leave_run(&mut self, _run: &Run) {}

    /// Moves to the last entry before (`key`, `seq`).
    fn seek_before(&mut self, key: &[u8], seq: u64) -> Result<()> {
        self.seek(key, seq)?;
        if self.entry().is_some() { self.prev() } else { self.last() }
    }
}

/// [`Source::pass`] entry by entry.
pub(crate) fn pass_by_steps<S: Source + ?Sized>(
    source: &mut S,
    end: &[u8],
    seq: u64,
) -> Result<()> {
    while source.entry().is_some_and(|entry| entry.key < end && entry.seq < seq) {
        source.next()?;
    }
    Ok(())
}

/// [`Source::pass_back`] entry by entry.
pub(crate) fn pass_back_by_steps<S: Source + ?Sized>(
    source: &mut S,
    start: &[u8],
    seq: u64,
) -> Result<()> {
    while source.entry().is_some_and(|entry| entry.key >= start && entry.seq < seq) {
        source.prev()?;
    }
    Ok(())
}

/// After so many versions of a key the rest of them is passed at once: where only a few follow,
/// stepping on is quicker.
pub(crate) const VERSIONS_MAX: u32 = 16;

/// The entries of all sources in one order.
#[derive(Default)]
pub(crate) struct Merge {
    sources: Vec<Box<dyn Source>>,
    /// The sources that stand on an entry, in the order of these entries: the first one's entry is
    /// the one here.
    order: Vec<Standing>,
    /// Whether all other sources stand after the entry here, or before it.
    forward: bool,
    /// The place, where it went on from that of the first source before the entry of another one.
    run: Option<Run>,
    /// A key that was left for the next one, if it is long.
    left: Vec<u8>,
    /// Where the last jump on this way began.
    jumped: Option<(Vec<u8>, u64)>,
}

/// A source that stands on an entry, with what nearly always tells the order of two entries.
#[derive(Clone, Copy)]
struct Standing {
    source: usize,
    key: Start,
    seq: u64,
}

impl Merge {
    pub(crate) fn new(sources: Vec<Box<dyn Source>>) -> Self {
        Self { sources, forward: true, ..Self::default() }
    }

    fn place(&self, source: usize) -> Option<(&[u8], u64)> {
        self.sources[source].entry().map(|entry| (entry.key, entry.seq))
    }

    fn standing(&self, source: usize) -> Option<Standing> {
        let entry = self.sources[source].entry()?;
        Some(Standing { source, key: Start::of(entry.key), seq: entry.seq })
    }

    /// Whether the entry of `a` comes before that of `b` on the way.
    #[inline(always)]
    fn is_ahead(&self, a: &Standing, b: &Standing) -> bool {
        if let Some(order) = a.key.order(&b.key) {
            // Of one key the newest version comes first.
            return order.then(b.seq.cmp(&a.seq)).is_lt() == self.forward;
        }
        self.is_long_ahead(a.source, b.source)
    }

    /// The same of two keys that are told apart by more than their beginnings.
    #[cold]
    fn is_long_ahead(&self, a: usize, b: usize) -> bool {
        match (self.place(a), self.place(b)) {
            (Some(a), Some(b)) => compare(a, b).is_lt() == self.forward,
            (here, _) => here.is_some(),
        }
    }

    /// Finds out in which order all sources come.
    fn arrange(&mut self) {
        self.order.clear();
        for source in 0..self.sources.len() {
            let Some(standing) = self.standing(source) else { continue };
            let at = self.order.partition_point(|other| self.is_ahead(other, &standing));
            self.order.insert(at, standing);
        }
    }

    /// Restores the order of the sources after the first one has moved.
    fn put_back(&mut self) {
        let Some(first) = self.order.first() else { return };
        let Some(moved) = self.standing(first.source) else {
            self.order.remove(0);
            return;
        };
        let mut at = 0;
        while let Some(next) = self.order.get(at + 1) {
            if self.is_ahead(&moved, next) {
                break;
            }
            self.order[at] = *next;
            at += 1;
        }
        self.order[at] = moved;
    }

    /// A way begins.
    fn set_out(&mut self, forward: bool) {
        (self.forward, self.jumped) = (forward, None);
    }

    fn all(&mut self, f: impl Fn(&mut dyn Source) -> Result<()>) -> Result<()> {
        self.order.clear();
        self.run = None;
        self.sources.iter_mut().try_for_each(|source| f(&mut **source))?;
        self.arrange();
        Ok(())
    }

    /// Moves the current source on, all others standing on the right side of it.
    fn step(&mut self, f: impl Fn(&mut dyn Source) -> Result<()>) -> Result<()> {
        self.leave_run();
        let Some(&Standing { source, .. }) = self.order.first() else { return Ok(()) };
        if let Err(error) = f(&mut *self.sources[source]) {
            self.order.clear();
            return Err(error);
        }
        self.put_back();
        Ok(())
    }

    /// Finds out which entries of the first source follow, up to `end`, which is short, before one
    /// of another source.
    pub(crate) fn look_ahead(&mut self, end: &[u8]) {
        let Some(first) = self.order.first() else { return };
        let mut limit = Limit::of(end);
        if let Some(next) = self.order.get(1) {
            let order = next.key.order(&limit.start);
            if order == Some(if self.forward { Ordering::Less } else { Ordering::Greater }) {
                let place = if next.key.has_rest() { self.place(next.source) } else { None };
                limit = Limit { start: next.key, key: place.map_or(&[], |(key, _)| key) };
            }
        }
        self.run = self.sources[first.source].run(self.forward, &limit);
    }

    /// Steps on in the direction of the last move, if it was looked ahead and the next entry is the
    /// only one of its key, neither a tombstone nor newer than `seen`; whether it did.
    #[inline(always)]
    pub(crate) fn skim(&mut self, seen: u64) -> bool {
        let forward = self.forward;
        self.run.as_mut().is_some_and(|run| run.skim(forward, seen))
    }

    /// The entry to which it skimmed.
    #[inline(always)]
    pub(crate) fn skimmed(&self) -> Option<Entry<'_>> {
        self.run.as_ref()?.entry()
    }

    /// Moves to the next entry of another key.
    pub(crate) fn next_key(&mut self) -> Result<()> {
        // No entry has this number.
        self.next_version(0)
    }

    /// Moves to the next entry of the same key whose number is not above `seq`, or else of another
    /// key.
    pub(crate) fn next_version(&mut self, seq: u64) -> Result<()> {
        let mut left = std::mem::take(&mut self.left);
        left.clear();
        let Some(here) = self.entry() else { return self.next() };
        let start = match (&self.run, self.order.first()) {
            (None, Some(first)) => first.key,
            _ => Start::of(here.key),
        };
        if start.has_rest() {
            left.extend_from_slice(here.key);
        }
        let moved = self.next_after(&start, &left, seq);
        self.left = left;
        moved
    }

    /// Moves on until the number is not above `seq` or the key is another one than that of this
    /// beginning, which is `key` if it has more.
    fn next_after(&mut self, start: &Start, key: &[u8], seq: u64) -> Result<()> {
        let mut versions = 0;
        loop {
            self.next()?;
            let Some(first) = self.order.first() else { return Ok(()) };
            let is_same = match first.key.order(start) {
                Some(order) => order.is_eq(),
                None => self.place(first.source).is_some_and(|(here, _)| here == key),
            };
            if !is_same || first.seq <= seq {
                return Ok(());
            }
            versions += 1;
            if versions == VERSIONS_MAX && self.may_jump() {
                return self.seek_version(seq);
            }
        }
    }

    /// Whether to jump on from here, in place of stepping. Each jump begins further on the way than
    /// the one before: where a damaged table has entries out of order, jumps could else lead back
    /// for ever.
    pub(crate) fn may_jump(&mut self) -> bool {
        let Some(here) = self.entry().map(|entry| (entry.key, entry.seq)) else { return false };
        let further = if self.forward { Ordering::Greater } else { Ordering::Less };
        let last = self.jumped.as_ref();
        if last.is_some_and(|(key, seq)| compare(here, (key, *seq)) != further) {
            return false;
        }
        self.jumped = Some((here.0.to_vec(), here.1));
        true
    }

    /// Seeks in one source after the other, each on its own shortest way: for a place behind many
    /// versions of its key, to which it jumps.
    pub(crate) fn jump_to(&mut self, key: &[u8], seq: u64) -> Result<()> {
        self.forward = true;
        self.all(|source| source.seek(key, seq))
    }

    /// Jumps back to the last entry before (`key`, `seq`).
    pub(crate) fn jump_before(&mut self, key: &[u8], seq: u64) -> Result<()> {
        self.forward = false;
        self.all(|source| source.seek_before(key, seq))
    }

    /// All sources go on from the key here to the place of `seq` among its versions.
    #[cold]
    fn seek_version(&mut self, seq: u64) -> Result<()> {
        let Some(key) = self.entry().map(|entry| entry.key.to_vec()) else { return Ok(()) };
        self.step_all(|source| match source.entry() {
            Some(entry) if entry.key == key && entry.seq > seq => source.seek(&key, seq),
            _ => Ok(()),
        })
    }

    /// Moves on over entries whose keys come before `end` and whose numbers are lower than `seq`,
    /// after a step forward: over all that follow each other, some of them, or none.
    pub(crate) fn pass(&mut self, end: &[u8], seq: u64) -> Result<()> {
        if self.may_jump() { self.step_all(|source| source.pass(end, seq)) } else { Ok(()) }
    }

    /// Moves back over entries whose keys come not before `start` and whose numbers are lower than
    /// `seq`, after a step back: over all that follow each other, some of them, or none.
    pub(crate) fn pass_back(&mut self, start: &[u8], seq: u64) -> Result<()> {
        if self.may_jump() { self.step_all(|source| source.pass_back(start, seq)) } else { Ok(()) }
    }

    /// Moves sources on in the direction of the last step.
    fn step_all(&mut self, f: impl Fn(&mut dyn Source) -> Result<()>) -> Result<()> {
        self.leave_run();
        let standing = std::mem::take(&mut self.order);
        standing.iter().try_for_each(|one| f(&mut *self.sources[one.source]))?;
        self.arrange();
        Ok(())
    }

    /// Lets go of what takes memory, until it is moved to a place again.
    pub(crate) fn rest(&mut self) {
        self.order.clear();
        (self.run, self.left, self.jumped) = (None, Vec::new(), None);
        self.sources.iter_mut().for_each(|source| source.rest());
    }

    /// The first source goes to where the run came.
    fn leave_run(&mut self) {
        if let (Some(run), Some(first)) = (self.run.take(), self.order.first()) {
            self.sources[first.source].leave_run(&run);
        }
    }

    /// Whether the entry here, where it was not looked ahead, is known to be the only one of its
    /// key.
    pub(crate) fn is_alone(&self) -> bool {
        let Some(first) = self.order.first() else { return false };
        let key = |standing: &Standing| self.place(standing.source).map(|(key, _)| key);
        let is_same = |next: &Standing| match next.key.order(&first.key) {
            Some(order) => order.is_eq(),
            None => key(next) == key(first),
        };
        self.sources[first.source].is_other() && !self.order.get(1).is_some_and(is_same)
    }

    /// Puts all other sources on the other side of the current entry.
    #[cold]
    fn turn(&mut self) -> Result<()> {
        self.leave_run();
        self.jumped = None;
        self.forward = !self.forward;
        let forward = self.forward;
        let Some(&Standing { source: current, .. }) = self.order.first() else { return Ok(()) };
        let Some((key, seq)) = self.place(current) else { return Ok(()) };
        let key = key.to_vec();
        self.order.clear();
        for source in (0..self.sources.len()).filter(|&source| source != current) {
            let source = &mut self.sources[source];
            if forward { source.seek(&key, seq)? } else { source.seek_before(&key, seq)? }
        }
        self.arrange();
        Ok(())
    }
}

impl Source for Merge {
    fn aim(&mut self, key: &[u8]) -> Result<()> {
        self.order.clear();
        self.run = None;
        // The last ones are the largest, so that they wait longest.
        self.sources.iter_mut().rev().try_for_each(|source| source.aim(key))
    }

    fn approach(&mut self, key: &[u8]) -> Result<()> {
        self.sources.iter_mut().try_for_each(|source| source.approach(key))
    }

    fn land(&mut self, key: &[u8], seq: u64) -> Result<()> {
        self.set_out(true);
        self.all(|source| source.land(key, seq))
    }

    fn seek_before(&mut self, key: &[u8], seq: u64) -> Result<()> {
        self.set_out(false);
        self.all(|source| source.seek_before(key, seq))
    }

    fn first(&mut self) -> Result<()> {
        self.set_out(true);
        self.all(|source| source.first())
    }

    fn last(&mut self) -> Result<()> {
        self.set_out(false);
        self.all(|source| source.last())
    }

    fn next(&mut self) -> Result<()> {
        if !self.forward {
            self.turn()?;
        }
        self.step(|source| source.next())
    }

    fn prev(&mut self) -> Result<()> {
        if self.forward {
            self.turn()?;
        }
        self.step(|source| source.prev())
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        match &self.run {
            Some(run) => run.entry(),
            None => self.sources[self.order.first()?.source].entry(),
        }
    }
}

#[cfg(test)]
mod tests;
