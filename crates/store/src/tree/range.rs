//! Iterating over a range of entries from both ends. Skipped or counted entries are not walked: one
//! descent finds any entry by its position.

use std::iter::FusedIterator;
use std::ops::Bound;

use super::page::search::Side;
use super::page_ref::PageRef;
use super::pages::Pages;
use super::{Bytes, Cursor, Entry, Snapshot, Table};
use crate::Result;
use crate::key::KeyRange;

/// At most this many entries are stepped over; beyond that one descent is cheaper.
const STEPS_MAX: usize = 24;

/// Iterates over a range of entries from both ends; knows how many are left.
///
/// `nth`, `nth_back`, `last` and `count`, and with them `skip` and `step_by`, cost one descent,
/// however many entries they pass. An error ends the iteration.
///
/// ```
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// use hedgerow::tree::{Snapshot, TableOptions};
/// let mut txn = store.begin_write()?;
/// let table = txn.create_table("numbers", &TableOptions::new())?;
/// for n in 0..10_000_u32 {
///     txn.append(table, &n.to_be_bytes(), b"")?;
/// }
/// let page: Vec<_> = txn.range(table, ..)?.skip(5_000).take(2).collect();
/// assert_eq!(page[0].as_ref().unwrap().key, 5_000_u32.to_be_bytes());
/// assert_eq!(txn.range(table, ..)?.rev().step_by(1_000).len(), 10);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Range<'t, S> {
    txn: &'t S,
    table: Table,
    front: Cursor,
    back: Cursor,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    /// How many entries of the range were passed from the front.
    passed: u64,
    left: u64,
    /// How many entries of the table stand before the range, once that was needed.
    before: Option<u64>,
    front_began: bool,
    back_began: bool,
}

impl<'t, S: Snapshot> Range<'t, S> {
    pub(super) fn new(txn: &'t S, table: Table, keys: &impl KeyRange) -> Result<Self> {
        let left = txn.count_range(table, keys)?.values;
        check_count(txn, left)?;
        Ok(Self {
            txn,
            table,
            front: txn.cursor(table)?,
            back: txn.cursor(table)?,
            low: keys.low().map(<[u8]>::to_vec),
            high: keys.high().map(<[u8]>::to_vec),
            passed: 0,
            left,
            before: None,
            front_began: false,
            back_began: false,
        })
    }

    /// The next entry, if it is in the same leaf: the part of `next` that is short enough to be
    /// inlined. `None` says nothing about the range, and nothing has changed.
    #[inline(always)]
    pub(crate) fn next_here(&mut self) -> Option<Entry<'t>> {
        if self.left == 0 {
            return None;
        }
        // Before the front has begun, its cursor stands on no leaf.
        let entry = self.front.next_in_leaf(self.txn)?;
        (self.passed, self.left) = (self.passed + 1, self.left - 1);
        Some(entry)
    }

    #[inline(never)]
    fn next_slow(&mut self) -> Option<Result<Entry<'t>>> {
        self.next_elsewhere()
    }

    /// The next entry, if it is not in the same leaf: the rest of `next`.
    #[inline(always)]
    pub(crate) fn next_elsewhere(&mut self) -> Option<Result<Entry<'t>>> {
        if self.left == 0 {
            return None;
        }
        let step = self.step();
        self.passed += 1;
        self.give(1, step)
    }

    /// Calls `take` with the next entries until it returns false: at most this many, and none from
    /// the leaf of the first one to another. How many these are: 0 after the last one.
    #[inline(always)]
    pub(crate) fn next_run(
        &mut self,
        most: u64,
        take: impl FnMut(&Entry<'t>) -> bool,
    ) -> Result<u64> {
        let most = most.min(self.left);
        if most == 0 {
            return Ok(0);
        }
        let taken = self.take_run(most, take);
        let taken = taken.inspect_err(|_| self.left = 0)?;
        (self.passed, self.left) = (self.passed + taken, self.left - taken);
        Ok(taken)
    }

    #[inline(always)]
    fn take_run(&mut self, most: u64, mut take: impl FnMut(&Entry<'t>) -> bool) -> Result<u64> {
        let Some(mut entry) = self.step()? else { return Ok(0) };
        let (mut taken, mut passing) = (1, self.front.passing::<_, false>(self.txn));
        while take(&entry) && taken < most {
            let Some(passed) = passing.as_mut().and_then(Iterator::next) else { break };
            let key = Bytes::new(passed.shared, passed.rest);
            entry = Entry { key, value: passed.value.into() };
            taken += 1;
        }
        if let Some(passing) = &passing {
            self.front.pass_to(self.txn, passing)?;
        }
        Ok(taken)
    }

    fn step(&mut self) -> Result<Option<Entry<'t>>> {
        if self.front_began {
            return self.front.next(self.txn);
        }
        self.front_began = true;
        match &self.low {
            Bound::Unbounded => self.front.first(self.txn),
            Bound::Included(key) => self.front.seek_and_give(self.txn, key, Side::First, false),
            Bound::Excluded(key) => self.front.seek_and_give(self.txn, key, Side::Last, false),
        }
    }

    fn step_back(&mut self) -> Result<Option<Entry<'t>>> {
        if self.back_began {
            return self.back.prev(self.txn);
        }
        self.back_began = true;
        match &self.high {
            Bound::Unbounded => self.back.last(self.txn),
            Bound::Included(key) => self.back.seek_and_give(self.txn, key, Side::Last, true),
            Bound::Excluded(key) => self.back.seek_and_give(self.txn, key, Side::First, true),
        }
    }

    /// Goes to the entry before which `n` of those that are left stand.
    fn jump(&mut self, n: u64) -> Result<Option<Entry<'t>>> {
        let at = self.before()?.wrapping_add(self.passed).wrapping_add(n);
        self.front_began = true;
        self.front.seek_nth(self.txn, at)
    }

    /// Goes to the entry that has `n` of the remaining entries after it.
    fn jump_back(&mut self, n: u64) -> Result<Option<Entry<'t>>> {
        let at = self.before()?.wrapping_add(self.passed).wrapping_add(self.left - 1 - n);
        self.back_began = true;
        self.back.seek_nth(self.txn, at)
    }

    fn before(&mut self) -> Result<u64> {
        if let Some(before) = self.before {
            return Ok(before);
        }
        let high = match &self.low {
            Bound::Unbounded => return Ok(0),
            Bound::Included(key) => Bound::Excluded(key.as_slice()),
            Bound::Excluded(key) => Bound::Included(key.as_slice()),
        };
        let before = self.txn.count_range(self.table, (Bound::Unbounded, high))?.values;
        self.before = Some(before);
        Ok(before)
    }

    /// Gives an entry, after which `taken` fewer are left; of an error it is the end.
    fn give(&mut self, taken: u64, found: Result<Option<Entry<'t>>>) -> Option<Result<Entry<'t>>> {
        self.left = if found.is_ok() { self.left - taken } else { 0 };
        found.transpose()
    }

    /// The last entry that was given from the front, or from the back; `None` if there is none yet.
    pub(crate) fn reached(&self, at_back: bool) -> Result<Option<Entry<'t>>> {
        let (cursor, has_begun) = match at_back {
            false => (&self.front, self.front_began),
            true => (&self.back, self.back_began),
        };
        if has_begun { cursor.clone().current(self.txn) } else { Ok(None) }
    }

    /// Whether a key may have several values.
    pub(crate) fn has_duplicates(&self) -> bool {
        self.front.has_duplicates()
    }

    fn left(&self) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX)
    }
}

/// The counters of a damaged table may claim anything, and no room must be reserved for that: a
/// store has no more entries than bytes.
fn check_count<S: Snapshot>(txn: &S, count: u64) -> Result<()> {
    let pages = txn.pages();
    if count > pages.pages_max().saturating_mul(pages.page_size() as u64) {
        let reason = "the counters promise more entries than the store has room for";
        return Err(pages.corrupt(PageRef::NONE, reason));
    }
    Ok(())
}

impl<'t, S: Snapshot> Iterator for Range<'t, S> {
    type Item = Result<Entry<'t>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.next_here() {
            Some(entry) => Some(Ok(entry)),
            None => self.next_slow(),
        }
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        if n >= self.left() {
            // It stands on the last entry then, for those that ask how far it came.
            let last = self.left.checked_sub(1)?;
            let found = self.jump(last);
            self.left = 0;
            return found.err().map(Err);
        }
        if n <= STEPS_MAX {
            for _ in 0..n {
                if let Err(error) = self.next()? {
                    return Some(Err(error));
                }
            }
            return self.next();
        }
        let found = self.jump(n as u64);
        self.passed += n as u64 + 1;
        self.give(n as u64 + 1, found)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left(), usize::try_from(self.left).ok())
    }

    fn count(self) -> usize {
        self.left()
    }

    fn last(mut self) -> Option<Self::Item> {
        self.next_back()
    }
}

impl<S: Snapshot> DoubleEndedIterator for Range<'_, S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let step = self.step_back();
        self.give(1, step)
    }

    fn nth_back(&mut self, n: usize) -> Option<Self::Item> {
        if n >= self.left() {
            let last = self.left.checked_sub(1)?;
            let found = self.jump_back(last);
            self.left = 0;
            return found.err().map(Err);
        }
        if n <= STEPS_MAX {
            for _ in 0..n {
                if let Err(error) = self.next_back()? {
                    return Some(Err(error));
                }
            }
            return self.next_back();
        }
        let found = self.jump_back(n as u64);
        self.give(n as u64 + 1, found)
    }
}

impl<S: Snapshot> ExactSizeIterator for Range<'_, S> {}
impl<S: Snapshot> FusedIterator for Range<'_, S> {}
