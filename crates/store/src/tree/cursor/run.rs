//! Steps over several entries of a leaf at once, cursors that go from one transaction to the next,
//! and leaves that stay where they are: what a caller needs that keeps the addresses of entries.

use super::{Cursor, Leaf, State};
use crate::Result;
use crate::tree::page::Page;
use crate::tree::{Bytes, Entry, Snapshot, Table};

#[doc(hidden)]
impl Cursor {
    /// Makes it a cursor of another transaction, or of another table, that stands nowhere: its
    /// memory is used again.
    ///
    /// # Errors
    /// As those of [`Snapshot::cursor`].
    pub fn rebind<S: Snapshot>(&mut self, txn: &S, table: Table) -> Result<()> {
        self.is_paired = txn.open_table(table)?.tree.form.values.is_some();
        (self.table, self.unique, self.changes) = (table, txn.unique(), txn.changes());
        (self.state, self.leaf, self.strayed) = (State::Nowhere, Leaf::NONE, 0);
        Ok(())
    }

    /// Makes up to `most` steps as [`Cursor::next`] does, but none from the leaf that the first one
    /// ends in to another, and calls `f` with each entry until it returns false. How many steps
    /// that were: 0 at the end.
    ///
    /// # Errors
    /// As those of [`Cursor::next`].
    #[inline(always)]
    pub fn next_run<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        most: usize,
        mut f: impl FnMut(&Self, &Entry<'t>) -> bool,
    ) -> Result<usize> {
        let Some(mut entry) = self.next(txn)? else { return Ok(0) };
        // Neither the transaction nor the leaf changes during this call.
        let page: Page<'t> = self.page();
        let shared = page.shared_of(self.leaf.shared);
        let mut count = 1;
        while f(self, &entry) && count < most && self.leaf.next < self.leaf.usual_end {
            let Some((rest, value)) = page.plain_record_of(self.leaf.next) else { break };
            self.leaf.next = self.leaf.next.wrapping_add(self.leaf.step);
            entry = Entry { key: Bytes::new(shared, rest), value: value.into() };
            count += 1;
        }
        if S::WRITES && count > 1 {
            self.save(&entry);
        }
        Ok(count)
    }

    /// The same with the steps of [`Cursor::prev`].
    ///
    /// # Errors
    /// As those of [`Cursor::prev`].
    #[inline(always)]
    pub fn prev_run<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        most: usize,
        mut f: impl FnMut(&Self, &Entry<'t>) -> bool,
    ) -> Result<usize> {
        let Some(mut entry) = self.prev(txn)? else { return Ok(0) };
        let page: Page<'t> = self.page();
        let shared = page.shared_of(self.leaf.shared);
        let is_usual = !self.is_paired && !self.leaf.usual_end.is_null();
        let first = page.first_offset_address();
        let mut count = 1;
        while f(self, &entry) && count < most && is_usual {
            let before = self.leaf.next.wrapping_sub(self.leaf.step);
            let at = before.wrapping_sub(self.leaf.step);
            if at < first {
                break;
            }
            let Some((rest, value)) = page.plain_record_of(at) else { break };
            self.leaf.next = before;
            entry = Entry { key: Bytes::new(shared, rest), value: value.into() };
            count += 1;
        }
        if S::WRITES && count > 1 {
            self.save(&entry);
        }
        Ok(count)
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

    /// Steps through a table in runs of all lengths, in both directions.
    fn walk<S: Snapshot>(txn: &S, table: Table, count: u32) {
        for most in [1, 2, 7, 32, 1000] {
            let mut cursor = txn.cursor(table).unwrap();
            let mut seen = Vec::new();
            let mut see = |_: &Cursor, entry: &Entry<'_>| {
                seen.push(entry.key.to_vec());
                true
            };
            while cursor.next_run(txn, most, &mut see).unwrap() > 0 {}
            assert!(seen.iter().map(Vec::as_slice).eq((0..count).map(key).collect::<Vec<_>>()));
            assert_eq!(cursor.current(txn).unwrap().unwrap().key, key(count - 1));
            let mut back = 1;
            loop {
                let run = cursor.prev_run(txn, most, |_, entry| {
                    back += 1;
                    assert_eq!(entry.key, key(count - back));
                    back % 5 > 0
                });
                match run.unwrap() {
                    0 => break,
                    steps => assert!(steps <= most),
                }
                assert_eq!(cursor.current(txn).unwrap().unwrap().key, key(count - back));
            }
            assert_eq!(back, count);
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
