//! The tree engine as a source of streams.

use std::ops::Bound;

use super::scan::{Ends, Position, Scan, Values};
use super::source::{Item, Snapshot, Source, Walk};
use crate::Result;
use crate::tree::{Bytes, Cursor, Entry, Order, Range, ReadTxn, Snapshot as _, Store, Table};

impl Source for Store {
    type Snapshot = ReadTxn;

    fn begin(&self) -> Result<ReadTxn> {
        self.begin_read()
    }

    fn newest_commit(&self) -> u64 {
        Store::newest_commit(self)
    }

    fn is_holding(&self, snapshot: &ReadTxn, pages: u64) -> Result<Option<(bool, u32)>> {
        let (held, looks) = snapshot.held_up_to(pages)?;
        Ok(Some((held >= pages, looks)))
    }

    fn store_id(&self) -> Result<[u8; 16]> {
        Ok(self.id())
    }
}

impl Item for Entry<'_> {
    fn key(&self) -> Bytes<'_> {
        self.key
    }

    fn value(&self) -> Bytes<'_> {
        self.value
    }
}

impl Snapshot for ReadTxn {
    type Item<'t> = Entry<'t>;
    type Walk<'t> = TreeWalk<'t>;

    const LENDS: bool = true;

    fn commit(&self) -> u64 {
        self.id()
    }

    fn is_bytewise(&self, table: &[u8]) -> Result<bool> {
        let table = self.table(table)?;
        Ok(matches!(self.order(table)?, Order::Bytewise))
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn walk<'t>(&'t self, scan: &Scan, ends: &Ends) -> Result<TreeWalk<'t>> {
        let table = self.table(&scan.table)?;
        let each = scan.values == Values::Each && self.table_info(table)?.duplicates;
        let order = self.order(table)?;
        let [first, last] = scan.inside(ends, |a, b| order.compare(a, b));
        let (low, high) = (bound(&scan.keys.0, first, each), bound(&scan.keys.1, last, each));
        let mut passed = [None, None];
        let way = match scan.values {
            Values::Each => {
                let mut range = self.range(table, (low, high))?;
                if each {
                    pass(&mut range, false, pairs_up_to(self, table, first)?)?;
                    pass(&mut range, true, pairs_from(self, table, last)?)?;
                    passed = [range.reached(false)?, range.reached(true)?];
                }
                pass(&mut range, scan.is_reverse, scan.to_skip(ends))?;
                Way::Each(Box::new(range))
            }
            Values::First | Values::Last => {
                let mut keys = Keys::new(self, table, (low, high), scan.values == Values::Last)?;
                keys.pass(scan.is_reverse, scan.to_skip(ends))?;
                Way::Keys(Box::new(keys))
            }
        };
        Ok(TreeWalk { way, keys_only: scan.keys_only, left: scan.left(ends.taken), passed })
    }
}

/// A bound of what is left: without the key of the last pair, unless more of its pairs may follow.
fn bound<'k>(
    end: &'k Bound<Vec<u8>>,
    reached: Option<&'k Position>,
    each: bool,
) -> Bound<&'k [u8]> {
    match reached {
        Some(Position { key, value: Some(_) }) if each => Bound::Included(key),
        Some(Position { key, .. }) => Bound::Excluded(key),
        None => end.as_ref().map(Vec::as_slice),
    }
}

/// How many pairs of its key stand up to and including a pair, which need not be there any more.
fn pairs_up_to(txn: &ReadTxn, table: Table, pair: Option<&Position>) -> Result<u64> {
    let Some(Position { key, value: Some(value) }) = pair else { return Ok(0) };
    let rank = txn.rank_pair(table, key, value)?;
    Ok(rank.values + u64::from(rank.found) - txn.rank(table, key)?.values)
}

/// How many pairs of its key stand from a pair on, which need not be there any more.
fn pairs_from(txn: &ReadTxn, table: Table, pair: Option<&Position>) -> Result<u64> {
    let Some(Position { key, value: Some(value) }) = pair else { return Ok(0) };
    let before = txn.rank_pair(table, key, value)?.values - txn.rank(table, key)?.values;
    Ok(txn.count_values(table, key)? - before)
}

/// Leaves out pairs at an end.
fn pass(range: &mut Range<'_, ReadTxn>, at_back: bool, pairs: u64) -> Result<()> {
    let Some(last) = pairs.checked_sub(1) else { return Ok(()) };
    let last = usize::try_from(last).unwrap_or(usize::MAX);
    let passed = if at_back { range.nth_back(last) } else { range.nth(last) };
    passed.transpose().map(drop)
}

/// One value of each key of a range, from both ends.
struct Keys<'t> {
    txn: &'t ReadTxn,
    table: Table,
    /// Where either end stands; on a key that was taken, once it has begun.
    front: Cursor,
    back: Cursor,
    /// How many keys of the table come before the first one that is left, and how many are left.
    first: u64,
    left: u64,
    has_begun: (bool, bool),
    /// Whether keys were taken from either end, or left out there.
    is_moved: (bool, bool),
    takes_last: bool,
}

impl<'t> Keys<'t> {
    fn new(
        txn: &'t ReadTxn,
        table: Table,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        takes_last: bool,
    ) -> Result<Self> {
        let before = match low {
            Bound::Unbounded => 0,
            Bound::Included(key) => txn.count_range(table, ..key)?.keys,
            Bound::Excluded(key) => txn.count_range(table, ..=key)?.keys,
        };
        Ok(Self {
            txn,
            table,
            front: txn.cursor(table)?,
            back: txn.cursor(table)?,
            first: before,
            left: txn.count_range(table, (low, high))?.keys,
            has_begun: (false, false),
            is_moved: (false, false),
            takes_last,
        })
    }

    /// Leaves out keys at an end.
    fn pass(&mut self, at_back: bool, keys: u64) -> Result<()> {
        let keys = keys.min(self.left);
        if keys > 0 {
            self.left -= keys;
            // The next step begins with a descent to where it is then.
            match at_back {
                false => {
                    self.first += keys;
                    (self.has_begun.0, self.is_moved.0) = (false, true);
                }
                true => (self.has_begun.1, self.is_moved.1) = (false, true),
            }
        }
        Ok(())
    }

    /// The first pair of the key at a place of the table.
    fn key_at(&self, place: u64) -> Result<Option<Entry<'t>>> {
        self.txn.nth_key(self.table, place)
    }

    fn next(&mut self) -> Result<Option<Entry<'t>>> {
        if self.left == 0 {
            return Ok(None);
        }
        let entry = if self.has_begun.0 {
            self.front.next_key(self.txn)?
        } else {
            match self.key_at(self.first)? {
                Some(entry) => self.front.seek(self.txn, &entry.key.to_cow())?,
                None => None,
            }
        };
        (self.has_begun.0, self.is_moved.0) = (true, true);
        (self.first, self.left) = (self.first + 1, self.left - 1);
        match entry {
            Some(_) if self.takes_last => self.front.last_value(self.txn),
            entry => Ok(entry),
        }
    }

    /// A pair of the key at which an end stands.
    fn reached(&self, backwards: bool) -> Result<Option<Entry<'t>>> {
        let (cursor, has_begun, is_moved, place) = match backwards {
            false => (&self.front, self.has_begun.0, self.is_moved.0, self.first.wrapping_sub(1)),
            true => (&self.back, self.has_begun.1, self.is_moved.1, self.first + self.left),
        };
        match is_moved {
            true if has_begun => cursor.clone().current(self.txn),
            true => self.key_at(place),
            false => Ok(None),
        }
    }

    fn next_back(&mut self) -> Result<Option<Entry<'t>>> {
        if self.left == 0 {
            return Ok(None);
        }
        let entry = if self.has_begun.1 {
            self.back.prev_key(self.txn)?
        } else {
            match self.key_at(self.first + self.left - 1)? {
                Some(entry) => self.back.seek(self.txn, &entry.key.to_cow())?,
                None => None,
            }
        };
        (self.has_begun.1, self.is_moved.1) = (true, true);
        self.left -= 1;
        match entry {
            Some(_) if self.takes_last => self.back.last_value(self.txn),
            Some(_) => self.back.first_value(self.txn),
            None => Ok(None),
        }
    }
}

enum Way<'t> {
    Each(Box<Range<'t, ReadTxn>>),
    Keys(Box<Keys<'t>>),
}

/// The pairs that a scan finds in a read transaction, in the order of the keys.
pub struct TreeWalk<'t> {
    way: Way<'t>,
    keys_only: bool,
    left: u64,
    /// Where either end stands before the first pair is taken from it. That need not be the place
    /// that was reached before, whose pair may be gone.
    passed: [Option<Entry<'t>>; 2],
}

impl<'t> TreeWalk<'t> {
    /// Gives an entry. After an error there is nothing more.
    #[inline]
    fn give(&mut self, entry: Option<Result<Entry<'t>>>) -> Option<Result<Entry<'t>>> {
        match entry {
            Some(Ok(entry)) if self.keys_only => {
                Some(Ok(Entry { key: entry.key, value: Bytes::default() }))
            }
            Some(Err(error)) => {
                self.left = 0;
                Some(Err(error))
            }
            entry => entry,
        }
    }
}

impl<'t> Iterator for TreeWalk<'t> {
    type Item = Result<Entry<'t>>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        match self.next_here() {
            Some(entry) => Some(Ok(entry)),
            None => self.next_slow(),
        }
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        match self.leave_out(false, n as u64) {
            Ok(()) => self.next(),
            Err(error) => self.give(Some(Err(error))),
        }
    }
}

impl<'t> TreeWalk<'t> {
    #[inline(never)]
    fn next_slow(&mut self) -> Option<Result<Entry<'t>>> {
        self.left = self.left.checked_sub(1)?;
        let entry = match &mut self.way {
            // The first part of `next` was tried before.
            Way::Each(range) if !self.keys_only => {
                let entry = range.next_elsewhere();
                if matches!(entry, Some(Err(_))) {
                    self.left = 0;
                }
                return entry;
            }
            Way::Each(range) => range.next(),
            Way::Keys(keys) => keys.next().transpose(),
        };
        self.give(entry)
    }

    /// Leaves out pairs at an end: not more than are left.
    fn leave_out(&mut self, at_back: bool, pairs: u64) -> Result<()> {
        let pairs = pairs.min(self.left);
        self.left -= pairs;
        match &mut self.way {
            Way::Each(range) => pass(range, at_back, pairs),
            Way::Keys(keys) => keys.pass(at_back, pairs),
        }
    }
}

impl DoubleEndedIterator for TreeWalk<'_> {
    #[inline(never)]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let entry = match &mut self.way {
            Way::Each(range) => range.next_back(),
            Way::Keys(keys) => keys.next_back().transpose(),
        };
        self.give(entry)
    }

    fn nth_back(&mut self, n: usize) -> Option<Self::Item> {
        match self.leave_out(true, n as u64) {
            Ok(()) => self.next_back(),
            Err(error) => self.give(Some(Err(error))),
        }
    }
}

impl<'t> Walk<'t> for TreeWalk<'t> {
    type Given = Entry<'t>;

    /// As usual: the next pair is in the same leaf, and is given as it is.
    #[inline(always)]
    fn next_here(&mut self) -> Option<Entry<'t>> {
        let Way::Each(range) = &mut self.way else { return None };
        if self.left == 0 || self.keys_only {
            return None;
        }
        let entry = range.next_here()?;
        self.left -= 1;
        Some(entry)
    }

    /// Leaf by leaf, in the direction in which most streams are read.
    fn gather(
        &mut self,
        backwards: bool,
        pairs: &mut Vec<Entry<'t>>,
        (most, bytes): (usize, u64),
        mut see: impl FnMut(&Entry<'t>),
    ) -> Result<(u64, bool)> {
        let mut size = 0;
        while pairs.len() < most && size < bytes {
            let before = pairs.len();
            match &mut self.way {
                Way::Each(range) if !self.keys_only && !backwards => {
                    let take = |entry: &Entry<'t>| {
                        see(entry);
                        pairs.push(*entry);
                        size += entry.bytes();
                        size < bytes
                    };
                    let taken = range.next_run(self.left.min((most - before) as u64), take);
                    self.left = taken.as_ref().map_or(0, |taken| self.left - taken);
                    taken?;
                }
                _ => {
                    let next = if backwards { self.next_back() } else { self.next() };
                    let next = next.transpose()?;
                    next.iter().for_each(&mut see);
                    size += next.map_or(0, |entry| entry.bytes());
                    pairs.extend(next);
                }
            }
            if pairs.len() == before {
                return Ok((size, true));
            }
        }
        Ok((size, false))
    }

    #[inline]
    fn see<T>(
        &mut self,
        backwards: bool,
        see: impl FnOnce(Bytes<'_>, Bytes<'_>) -> T,
    ) -> Option<Result<T>> {
        let entry = if backwards { self.next_back() } else { self.next() };
        entry.map(|entry| entry.map(|entry| see(entry.key, entry.value)))
    }

    fn remaining(&self) -> Option<u64> {
        let left = match &self.way {
            Way::Each(range) => range.len() as u64,
            Way::Keys(keys) => keys.left,
        };
        Some(left.min(self.left))
    }

    fn reached(&self, backwards: bool) -> Result<Option<Position>> {
        let (entry, with_value) = match &self.way {
            Way::Each(range) => (range.reached(backwards)?, range.has_duplicates()),
            Way::Keys(keys) => (keys.reached(backwards)?, false),
        };
        let entry = entry.filter(|entry| self.passed[usize::from(backwards)] != Some(*entry));
        let position = |entry: Entry<'_>| {
            let value = with_value.then(|| entry.value.to_vec());
            Position { key: entry.key.to_vec(), value }
        };
        Ok(entry.map(position))
    }
}
