//! The entries ahead of a cursor in its leaf, for callers that cannot afford to check at each step
//! whether the cursor still stands where it did.

#![expect(unsafe_code, reason = "it keeps the address of a leaf that it borrows")]

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::Cursor;
use crate::tree::ReadTxn;
use crate::tree::bytes::Joined;
use crate::tree::page::{Joinable, Joining, Layout, Page};

/// Room for the key that [`Step::joined`] gives.
pub type KeyRoom = [MaybeUninit<u8>; Joining::ROOM];

/// The entries after a [`Cursor`] in its leaf. It borrows the transaction, which therefore neither
/// ends nor is renewed, and steps by itself; [`Cursor::follow`] then moves the cursor to its place.
#[derive(Clone, Copy, Debug)]
pub struct Ahead<'t> {
    /// Where the offset of the next entry stands, and the end of the offsets; null, with nothing
    /// ahead.
    next: *const u8,
    end: *const u8,
    /// The end, in an ALIGNED leaf; else null.
    stored_end: *const u8,
    /// The end, in another leaf; else null.
    dense_end: *const u8,
    base: *const u8,
    size: usize,
    joining: Joining,
    borrowed: PhantomData<&'t ReadTxn>,
}

impl<'t> Ahead<'t> {
    /// Nothing, ahead of no cursor.
    pub const NONE: Self = Self {
        next: std::ptr::null(),
        end: std::ptr::null(),
        stored_end: std::ptr::null(),
        dense_end: std::ptr::null(),
        base: std::ptr::null(),
        size: 0,
        joining: Joining::NONE,
        borrowed: PhantomData,
    };

    /// Whether it is what lies, or lay, ahead in a leaf.
    #[inline(always)]
    pub fn is_of_leaf(&self) -> bool {
        !self.base.is_null()
    }

    /// Makes it nothing.
    #[inline(always)]
    pub fn forget(&mut self) {
        (self.base, self.end) = (Self::NONE.base, Self::NONE.end);
        (self.stored_end, self.dense_end) = (Self::NONE.end, Self::NONE.end);
    }

    /// Whether there is surely no further step.
    #[inline(always)]
    pub fn is_done(&self) -> bool {
        self.next >= self.end
    }

    /// Whether [`Ahead::step_stored`] is the step to the next key, which stands in one piece.
    #[inline(always)]
    pub fn is_stored(&self) -> bool {
        self.next < self.stored_end
    }

    /// Steps to the next key of an ALIGNED leaf, and gives key and value. `None` if there is no
    /// such key ahead, or the step is not a simple one.
    #[inline(always)]
    pub fn step_stored(&mut self) -> Option<(&'t [u8], &'t [u8])> {
        if !self.is_stored() {
            return None;
        }
        // SAFETY: as in `step`.
        let page: Page<'t> = unsafe { Page::new(self.base, self.size) };
        let pair = page.plain_record_in(Layout::Aligned, self.next)?;
        self.next = self.next.wrapping_add(Layout::Aligned.step());
        Some(pair)
    }

    /// Steps on in another leaf, as [`Cursor::next_joined`] does. `None` if the step is not a
    /// simple one: the cursor can do it once it has followed.
    #[inline(always)]
    pub fn step(&mut self) -> Option<Step<'t>> {
        if self.next >= self.dense_end {
            return None;
        }
        // SAFETY: it is not done, so it was made by `Cursor::ahead` of a leaf: a page that a read
        // transaction borrowed for `'t` has handed out.
        let page: Page<'t> = unsafe { Page::new(self.base, self.size) };
        let record = page.joinable_of(&self.joining, self.next)?;
        self.next = self.next.wrapping_add(Layout::Dense.step());
        Some(Step { page, shared: self.joining.shared(), record })
    }
}

/// An entry to which a step has led.
#[derive(Clone, Copy)]
pub struct Step<'t> {
    page: Page<'t>,
    shared: usize,
    record: Joinable,
}

impl<'t> Step<'t> {
    /// Its key in one piece, where it stands or copied to the beginning of `room`, and its value.
    #[inline(always)]
    pub fn joined(self, room: &mut KeyRoom) -> (Joined<'t>, &'t [u8]) {
        self.page.joined_of(self.shared, self.record, room)
    }
}

#[doc(hidden)]
impl Cursor {
    /// What lies ahead of the cursor in its leaf, if there is something that usual steps lead to.
    #[inline(always)]
    pub fn ahead<'t>(&self, txn: &'t ReadTxn) -> Option<Ahead<'t>> {
        let leaf = &self.leaf;
        if leaf.next >= leaf.usual_end || !self.has_leaf(txn) {
            return None;
        }
        let joining = self.page().joining()?;
        let none = std::ptr::null();
        Some(Ahead {
            next: leaf.next,
            end: leaf.usual_end,
            stored_end: if leaf.dense_end.is_null() { leaf.usual_end } else { none },
            dense_end: leaf.dense_end,
            base: leaf.base,
            size: leaf.size,
            joining,
            borrowed: PhantomData,
        })
    }

    /// Goes to where steps ahead have led. No effect if the cursor has been moved to another leaf,
    /// or further, since.
    #[inline(always)]
    pub fn follow(&mut self, ahead: &Ahead<'_>) {
        let leaf = &mut self.leaf;
        // The same leaf, and what is in between are places of this cursor's, too.
        if leaf.base == ahead.base && leaf.usual_end == ahead.end && leaf.next < ahead.next {
            leaf.next = ahead.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Order, Snapshot, Store, Table, TableOptions};

    type Pair = (Vec<u8>, Vec<u8>);

    /// Entries whose keys share their first `front` bytes and have `rests` more, with values of 0
    /// to 200 bytes.
    fn entries(front: usize, rests: std::ops::Range<usize>) -> Vec<Pair> {
        let key = |i: usize| {
            let mut key = vec![b'='; front];
            key.extend(format!("{i:03}").bytes());
            key.resize(front + rests.start + i * 7 % rests.len(), b'.');
            key
        };
        (0..400).map(|i| (key(i), vec![i as u8; i * 11 % 201])).collect()
    }

    /// A string whose copy stands at the beginning of `room`.
    fn whole(string: Joined<'_>, room: &KeyRoom) -> Vec<u8> {
        match string {
            Joined::Stored(whole) => whole.to_vec(),
            Joined::Copied(len) => {
                // SAFETY: the test has written the whole room.
                room[..len].iter().map(|byte| unsafe { byte.assume_init() }).collect()
            }
        }
    }

    /// Steps through a table, ahead in a leaf where that can be; how many steps that were.
    fn walk(txn: &ReadTxn, table: Table, expected: &[Pair]) -> usize {
        let mut cursor = txn.cursor(table).unwrap();
        let (mut ahead, mut quick) = (Ahead::NONE, 0);
        for (i, (key, value)) in expected.iter().enumerate() {
            if let Some(pair) = ahead.step_stored() {
                assert_eq!(pair, (&key[..], &value[..]), "{i}");
                quick += 1;
            } else if let Some(step) = ahead.step() {
                let mut room = [MaybeUninit::new(0xEE); Joining::ROOM];
                let pair = step.joined(&mut room);
                assert_eq!((&whole(pair.0, &room), pair.1), (key, value.as_slice()), "{i}");
                quick += 1;
            } else {
                cursor.follow(&ahead);
                let entry = cursor.next(txn).unwrap().unwrap();
                assert!(entry.key == *key && entry.value == *value, "{i}: {entry:?}");
                ahead = cursor.ahead(txn).unwrap_or(Ahead::NONE);
            }
            if i % 5 == 0 {
                cursor.follow(&ahead);
                assert_eq!(cursor.current(txn).unwrap().unwrap().key, *key, "{i}");
            }
        }
        assert!(ahead.step().is_none());
        cursor.follow(&ahead);
        assert!(cursor.next(txn).unwrap().is_none());
        quick
    }

    #[test]
    fn steps_ahead_are_those_of_the_cursor() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path().join("store")).unwrap();
        let mut expected = Vec::new();
        for front in [0, 1, 15, 16, 17, 40, 63, 64, 65, 100] {
            for rests in [3..4, 4..40, 120..140] {
                expected.push((format!("{front} {rests:?}"), entries(front, rests)));
            }
        }
        let mut txn = store.begin_write().unwrap();
        for (name, entries) in &expected {
            let table = txn.create_table(name, &TableOptions::new()).unwrap();
            entries.iter().for_each(|(key, value)| txn.put(table, key, value).unwrap());
        }
        txn.commit().unwrap();
        let txn = store.begin_read().unwrap();
        for (name, entries) in &expected {
            let quick = walk(&txn, txn.table(name).unwrap(), entries);
            // Keys that a leaf shares more of than is copied, or with longer rests, are not quick.
            match name.as_str() {
                "16 3..4" | "0 3..4" | "40 3..4" => assert!(quick > 300, "{name}: {quick}"),
                "65 3..4" | "100 120..140" => assert_eq!(quick, 0, "{name}"),
                _ => {}
            }
        }
    }

    #[test]
    fn steps_over_keys_in_one_piece_are_quick_in_every_order() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path().join("store")).unwrap();
        let mut entries = entries(70, 4..40);
        for order in [Order::Bytewise, Order::Reverse] {
            if matches!(order, Order::Reverse) {
                entries.sort_by(|a, b| a.0.iter().rev().cmp(b.0.iter().rev()));
            }
            let options = TableOptions::new().order(order).prefix_compression(false);
            let mut txn = store.begin_write().unwrap();
            let table = txn.create_table(format!("{options:?}"), &options).unwrap();
            entries.iter().for_each(|(key, value)| txn.put(table, key, value).unwrap());
            txn.commit().unwrap();
            let txn = store.begin_read().unwrap();
            let quick = walk(&txn, txn.table(format!("{options:?}")).unwrap(), &entries);
            assert!(quick > 300, "{options:?}: {quick}");
        }
    }

    #[test]
    fn nothing_is_ahead_where_steps_are_not_as_usual() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path().join("store")).unwrap();
        let mut txn = store.begin_write().unwrap();
        let reversed = TableOptions::new().order(Order::Reverse);
        let tables = [("reversed", reversed), ("duplicates", TableOptions::new().duplicates())];
        for (name, options) in &tables {
            let table = txn.create_table(name, options).unwrap();
            for value in [b"1", b"2"] {
                txn.put(table, b"a=", value).unwrap();
            }
            txn.put(table, b"b=", b"3").unwrap();
        }
        txn.commit().unwrap();
        let mut txn = store.begin_read().unwrap();
        for (name, _) in &tables {
            let table = txn.table(name).unwrap();
            let mut cursor = txn.cursor(table).unwrap();
            assert!(cursor.ahead(&txn).is_none(), "{name}, nowhere");
            cursor.next(&txn).unwrap();
            assert!(cursor.ahead(&txn).is_none(), "{name}");
        }
        let table = txn.table("duplicates").unwrap();
        let mut cursor = txn.cursor(table).unwrap();
        cursor.last_value(&txn).unwrap();
        cursor.seek_pair(&txn, b"a=", b"2").unwrap();
        assert!(cursor.ahead(&txn).is_some());
        txn.reset();
        assert!(cursor.ahead(&txn).is_none());
        txn.renew().unwrap();
        assert!(cursor.ahead(&txn).is_none());
    }
}
