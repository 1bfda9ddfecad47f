//! Steps over several entries of a leaf at once, cursors that go from one transaction to the next,
//! and leaves that stay where they are: what a caller needs that keeps the addresses of entries.

use super::{Cursor, Leaf, State};
use crate::tree::page::{Layout, Page};
use crate::tree::{Snapshot, Table};

/// An entry that a cursor passes: one value beside its key in a record.
#[derive(Clone, Copy, Debug)]
pub struct Passed<'t> {
    /// The bytes that all keys of the leaf begin with.
    pub shared: &'t [u8],
    /// The other bytes of the key.
    pub rest: &'t [u8],
    /// The last eight bytes of the key as a big-endian number, of which those before `rest` have no
    /// meaning.
    pub tail: u64,
    /// The value.
    pub value: &'t [u8],
}

/// Entries that a cursor passes on its way through a leaf, or with `BACK` on the way back.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'t, const BACK: bool> {
    page: Page<'t>,
    shared: &'t [u8],
    layout: Layout,
    /// Behind where the offset of the last group that was passed stands, and where that of the last
    /// one, or backwards the first one, does.
    next: *const u8,
    end: *const u8,
}

impl<'t, const BACK: bool> Iterator for Passing<'t, BACK> {
    type Item = Passed<'t>;

    #[inline(always)]
    fn next(&mut self) -> Option<Passed<'t>> {
        if self.left_in(self.layout) == 0 {
            return None;
        }
        let (passed, next) = self.record_in(self.layout, self.next)?;
        self.next = next;
        Some(passed)
    }
}

impl<'t, const BACK: bool> Passing<'t, BACK> {
    /// Fills places, each from the next entry, as far as there are entries; how many it has filled.
    /// `fill`, which is given `with` each time, should be one that is always inlined.
    ///
    /// # Errors
    /// Those of `fill`; the places before the one of the error are filled.
    #[inline(always)]
    pub fn fill<W, T, E>(
        &mut self,
        with: &mut W,
        places: &mut [T],
        fill: impl Fn(&mut W, &mut T, &Passed<'t>) -> Result<(), E>,
    ) -> Result<usize, E> {
        // A loop for each layout, so that what it needs stays in registers.
        match self.layout {
            Layout::Dense | Layout::Headless => self.fill_in(Layout::Dense, with, places, fill),
            Layout::Aligned => self.fill_in(Layout::Aligned, with, places, fill),
        }
    }

    #[inline(always)]
    fn fill_in<W, T, E>(
        &mut self,
        layout: Layout,
        with: &mut W,
        places: &mut [T],
        fill: impl Fn(&mut W, &mut T, &Passed<'t>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let (passing, mut at) = (*self, self.next);
        let most = passing.left_in(layout).min(places.len());
        let mut count = 0;
        for place in &mut places[..most] {
            let Some((passed, next)) = passing.record_in(layout, at) else { break };
            fill(with, place, &passed)?;
            (at, count) = (next, count + 1);
        }
        self.next = at;
        Ok(count)
    }

    /// How many entries there are after the one at `next`.
    #[inline(always)]
    fn left_in(&self, layout: Layout) -> usize {
        let (step, next, end) = (layout.step(), self.next.addr(), self.end.addr());
        let bytes = if BACK { next.saturating_sub(end + step) } else { end.saturating_sub(next) };
        bytes / step
    }

    /// The entry after the one at `next`, where there is one, and where that is.
    #[inline(always)]
    fn record_in(&self, layout: Layout, next: *const u8) -> Option<(Passed<'t>, *const u8)> {
        let step = layout.step();
        let (at, next) = if BACK {
            let next = next.wrapping_sub(step);
            (next.wrapping_sub(step), next)
        } else {
            (next, next.wrapping_add(step))
        };
        let (rest, value) = self.page.plain_record_in(layout, at)?;
        let tail = self.page.number_before(rest);
        Some((Passed { shared: self.shared, rest, tail, value }, next))
    }
}

#[doc(hidden)]
impl Cursor {
    /// Makes it a cursor of another transaction, or of another table, that stands nowhere: its
    /// memory is used again.
    ///
    /// # Errors
    /// As those of [`Snapshot::cursor`].
    pub fn rebind<S: Snapshot>(&mut self, txn: &S, table: Table) -> crate::Result<()> {
        self.is_paired = txn.open_table(table)?.tree.form.values.is_some();
        (self.table, self.unique, self.changes) = (table, txn.unique(), txn.changes());
        (self.state, self.leaf, self.habits.strayed) = (State::Nowhere, Leaf::NONE, 0);
        Ok(())
    }

    /// The entries after the one that the cursor stands on, or with `BACK` those before it, as far
    /// as they are usual ones of its leaf. The cursor does not move ([`Cursor::pass_to`]).
    #[inline(always)]
    pub fn passing<'t, S: Snapshot, const BACK: bool>(
        &mut self,
        txn: &'t S,
    ) -> Option<Passing<'t, BACK>> {
        // Backwards a step may lead to one of several values.
        if !self.stands(txn) || self.leaf.usual_end.is_null() || BACK && self.is_paired {
            return None;
        }
        let Leaf { next, usual_end, shared, .. } = self.leaf;
        let page: Page<'t> = self.page();
        let end = if BACK { page.offset_address(0) } else { usual_end };
        let (shared, layout) = (page.shared_of(shared), self.leaf.layout());
        Some(Passing { page, shared, layout, next, end })
    }

    /// Goes to the last entry that was passed, if any was.
    #[inline(always)]
    pub fn pass_to<S: Snapshot, const BACK: bool>(
        &mut self,
        txn: &S,
        passing: &Passing<'_, BACK>,
    ) -> crate::Result<()> {
        if passing.next == self.leaf.next || !self.stands(txn) {
            return Ok(());
        }
        self.leaf.next = passing.next;
        if S::WRITES {
            self.catch_up();
            self.give(txn)?;
        }
        Ok(())
    }

    /// Makes so many steps at once, if they lead to an entry of the same leaf of a table without
    /// duplicates. False, and the cursor has not moved, otherwise.
    ///
    /// # Errors
    /// A damaged page.
    pub fn pass_over<S: Snapshot>(
        &mut self,
        txn: &S,
        back: bool,
        steps: usize,
    ) -> crate::Result<bool> {
        if self.is_paired || !self.stands(txn) {
            return Ok(false);
        }
        self.catch_up();
        let page = self.page();
        let slot = if back { self.slot.checked_sub(steps) } else { self.slot.checked_add(steps) };
        let Some(slot) = slot.filter(|slot| *slot < page.len()) else { return Ok(false) };
        self.stand(txn, page, slot, back);
        if S::WRITES {
            self.give(txn)?;
        }
        Ok(true)
    }

    /// The last change of the transaction to the cursor's table, as a number: while that is the
    /// same, the table's entries are.
    #[inline(always)]
    pub fn last_change<S: Snapshot>(&self, txn: &S) -> u64 {
        txn.open_table(self.table).map_or(0, |open| open.changed_at)
    }

    /// Whether a part of the entry under the cursor stands in the page of its leaf, and that page
    /// is a changed one in memory: [`Cursor::hold`] keeps it there.
    #[inline(always)]
    pub fn is_in_changed_leaf(&self, bytes: &[u8]) -> bool {
        let at = bytes.as_ptr().addr().wrapping_sub(self.leaf.base.addr());
        self.path.steps[0].page.is_changed() && at < self.leaf.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Store, TableOptions, WriteTxn};

    fn key(i: u32) -> [u8; 4] {
        i.to_be_bytes()
    }

    /// A step, and then as many as there can be without another leaf, up to `most`; the keys.
    fn run<S: Snapshot, const BACK: bool>(
        txn: &S,
        cursor: &mut Cursor,
        most: usize,
    ) -> Vec<Vec<u8>> {
        let first = if BACK { cursor.prev(txn).unwrap() } else { cursor.next(txn).unwrap() };
        let Some(first) = first else { return Vec::new() };
        let mut keys = vec![first.key.to_vec()];
        let Some(mut passing) = cursor.passing::<S, BACK>(txn) else { return keys };
        while keys.len() < most {
            let Some(passed) = passing.next() else { break };
            let key = [passed.shared, passed.rest].concat();
            let known = passed.tail.to_be_bytes();
            assert!(known.ends_with(passed.rest));
            keys.push(key);
        }
        cursor.pass_to(txn, &passing).unwrap();
        assert_eq!(cursor.current(txn).unwrap().unwrap().key, keys.last().unwrap()[..]);
        keys
    }

    /// Steps through a table in runs of all lengths, in both directions.
    fn walk<S: Snapshot>(txn: &S, table: Table, count: u32) {
        for most in [1, 2, 7, 32, 1000] {
            let mut cursor = txn.cursor(table).unwrap();
            let mut seen = Vec::new();
            loop {
                let keys = run::<_, false>(txn, &mut cursor, most);
                if keys.is_empty() {
                    break;
                }
                seen.extend(keys);
            }
            assert!(seen.iter().map(Vec::as_slice).eq((0..count).map(key).collect::<Vec<_>>()));
            let mut back = vec![key(count - 1).to_vec()];
            loop {
                // Also runs that end before their leaf does.
                let keys = run::<_, true>(txn, &mut cursor, most.min(1 + back.len() % 50));
                if keys.is_empty() {
                    break;
                }
                back.extend(keys);
            }
            back.reverse();
            assert_eq!(back, seen);
        }
    }

    #[test]
    fn runs_are_the_steps_of_a_cursor() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path().join("store")).unwrap();
        let plain = TableOptions::new();
        let whole = TableOptions::new().prefix_compression(false);
        for (name, options) in [("plain", plain), ("whole", whole)] {
            let mut txn = store.begin_write().unwrap();
            let table = txn.create_table(name, &options).unwrap();
            for i in 0..1000 {
                let long = vec![b'v'; if i % 97 == 0 { 5000 } else { i as usize % 60 }];
                txn.put(table, &key(i), &long).unwrap();
            }
            walk(&txn, table, 1000);
            txn.commit().unwrap();
            let txn = store.begin_read().unwrap();
            walk(&txn, txn.table(name).unwrap(), 1000);
        }
    }

    #[test]
    fn passing_over_entries_is_as_many_steps() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path().join("store")).unwrap();
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("t", &TableOptions::new()).unwrap();
        (0..1000).for_each(|i| txn.put(table, &key(i), b"value").unwrap());
        let (mut cursor, mut passed) = (txn.cursor(table).unwrap(), 0);
        for i in 0..1000_u32 {
            for steps in [0, 1, 3, 40] {
                for back in [false, true] {
                    cursor.seek(&txn, &key(i)).unwrap();
                    let is_there = cursor.pass_over(&txn, back, steps as usize).unwrap();
                    let to = if back { i.wrapping_sub(steps) } else { i + steps };
                    let here = if is_there { to } else { i };
                    assert_eq!(cursor.current(&txn).unwrap().unwrap().key, key(here)[..]);
                    assert_eq!(cursor.last_key(), key(here));
                    passed += u32::from(is_there);
                }
            }
        }
        assert!((6000..8000).contains(&passed), "{passed}");
    }

    #[test]
    fn a_leaf_that_is_held_is_not_written_early() {
        let folder = tempfile::tempdir().unwrap();
        let builder = Store::builder().write_budget(1 << 20);
        let store = builder.create(folder.path().join("store")).unwrap();
        let mut txn = store.begin_write().unwrap();
        let first = txn.create_table("first", &TableOptions::new()).unwrap();
        let second = txn.create_table("second", &TableOptions::new()).unwrap();
        (0..300).for_each(|i| txn.put(first, &key(i), &[b'v'; 100]).unwrap());
        let mut held = txn.cursor(first).unwrap();
        let mut loose = txn.cursor(first).unwrap();
        let is_in_memory = |cursor: &mut Cursor, txn: &WriteTxn| {
            let value = cursor.current(txn).unwrap().unwrap().value.as_slice().unwrap();
            assert_eq!(value, [b'v'; 100]);
            (value.as_ptr(), cursor.is_in_changed_leaf(value))
        };
        held.seek(&txn, &key(50)).unwrap();
        loose.seek(&txn, &key(200)).unwrap();
        let (place, is_in) = is_in_memory(&mut held, &txn);
        assert!(is_in && is_in_memory(&mut loose, &txn).1);
        held.hold(&mut txn, 3);
        for i in 0..20_000_u32 {
            txn.put(second, &key(i.wrapping_mul(0x9E37_79B1)), &[b'w'; 100]).unwrap();
        }
        assert_eq!(is_in_memory(&mut held, &txn), (place, true));
        assert!(!is_in_memory(&mut loose, &txn).1);
        txn.commit().unwrap();
    }
}
