//! The entries ahead of a cursor in its leaf, for callers that cannot afford to check at each step
//! whether the cursor still stands where it did.

#![expect(unsafe_code, reason = "it keeps the address of a leaf that it borrows")]

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::{Cursor, Leaf, State};
use crate::tree::bytes::Joined;
use crate::tree::page::{Joinable, Joining, Layout, Page};
use crate::tree::page_ref::PageRef;
use crate::tree::pages::PageFile;
use crate::tree::snapshot::sealed::Sealed;
use crate::tree::{ReadTxn, path};

/// Room for the key that [`Step::joined`] gives.
pub type KeyRoom = [MaybeUninit<u8>; Joining::ROOM];

/// The entries after a [`Cursor`] in its leaf and, in a longer scan, in the leaves after it. It
/// borrows the transaction, which therefore neither ends nor is renewed, and steps by itself;
/// [`Cursor::follow`] then moves the cursor to its place.
#[derive(Clone, Copy, Debug)]
pub struct Ahead<'t> {
    /// Where the offset of the next entry stands.
    next: *const u8,
    /// The end of the offsets, in an ALIGNED leaf; else null, as with nothing ahead.
    stored_end: *const u8,
    /// The same in another leaf; else null.
    dense_end: *const u8,
    base: *const u8,
    size: usize,
    joining: Joining,
    leaves: Leaves<'t>,
    borrowed: PhantomData<&'t ReadTxn>,
}

/// The leaves after one, as far as they are children of the same branch.
#[derive(Clone, Copy)]
struct Leaves<'t> {
    /// Where the reference to the next leaf stands, and the end of the branch's references; null,
    /// as `file` is nothing, if none is known.
    next: *const u8,
    end: *const u8,
    file: Option<&'t PageFile>,
    /// Where `next` was at first.
    first: *const u8,
    /// Where the cursor stood then: its leaf, the step above it, and the number of its transaction.
    leaf: *const u8,
    above: path::Step,
    unique: u64,
}

impl<'t> Leaves<'t> {
    const NONE: Self = Self {
        next: std::ptr::null(),
        end: std::ptr::null(),
        file: None,
        first: std::ptr::null(),
        leaf: std::ptr::null(),
        above: path::Step { page: PageRef::NONE, slot: 0 },
        unique: 0,
    };

    /// How many of them have been entered.
    #[inline(always)]
    fn entered(&self) -> usize {
        (self.next.addr() - self.first.addr()) / 4
    }

    /// The next one, if there is one, it has been looked at before, and nobody wants a stop; the
    /// next one is then to be the one after it. Has the processor fetch that one.
    #[inline(always)]
    fn enter(&self) -> Option<(Page<'t>, *const u8)> {
        let file = self.file?;
        if self.next >= self.end || file.is_interrupted() {
            return None;
        }
        // SAFETY: it is one of the references of a branch of the transaction that is borrowed.
        let page = file.checked_page(unsafe { reference(self.next) })?;
        Some((page, self.next.wrapping_add(4)))
    }

    /// Has entered a leaf: has the processor fetch the one after it.
    #[inline(always)]
    fn set_next(&mut self, next: *const u8) {
        self.next = next;
        if let Some(file) = self.file
            && next < self.end
        {
            // SAFETY: as in `enter`.
            file.fetch_next(unsafe { reference(next) });
        }
    }
}

/// The reference to a page that stands at an address.
///
/// # Safety
/// Four bytes there may be read.
#[inline(always)]
unsafe fn reference(address: *const u8) -> PageRef {
    // SAFETY: the caller's promise.
    PageRef(u32::from_le_bytes(unsafe { address.cast::<[u8; 4]>().read() }))
}

impl std::fmt::Debug for Leaves<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaves").field("next", &self.next).field("end", &self.end).finish()
    }
}

impl<'t> Ahead<'t> {
    /// Nothing, ahead of no cursor.
    pub const NONE: Self = Self {
        next: std::ptr::null(),
        stored_end: std::ptr::null(),
        dense_end: std::ptr::null(),
        base: std::ptr::null(),
        size: 0,
        joining: Joining::NONE,
        leaves: Leaves::NONE,
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
        (self.base, self.stored_end) = (Self::NONE.base, Self::NONE.stored_end);
        self.dense_end = Self::NONE.dense_end;
        (self.leaves.next, self.leaves.first) = (Leaves::NONE.next, Leaves::NONE.first);
        self.leaves.file = None;
    }

    /// Whether [`Ahead::step_stored`] is the step to the next key, which stands in one piece.
    #[inline(always)]
    pub fn is_stored(&self) -> bool {
        self.next < self.stored_end
    }

    /// Whether [`Ahead::step`] is the step to the next key.
    #[inline(always)]
    pub fn is_dense(&self) -> bool {
        self.next < self.dense_end
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

    /// The same if the value is short, too. Key and value go to `give`.
    #[inline(always)]
    pub fn step_short<R>(&mut self, give: impl FnOnce(&'t [u8], &'t [u8]) -> R) -> Option<R> {
        let next = self.next;
        if !self.is_stored() {
            return None;
        }
        // SAFETY: as in `step`.
        let page: Page<'t> = unsafe { Page::new(self.base, self.size) };
        if !page.has_short_slot(next) {
            return None;
        }
        self.next = next.wrapping_add(Layout::Aligned.step());
        let (key, value) = page.short_record(next);
        Some(give(key, value))
    }

    /// Steps on in another leaf, as [`Cursor::next_joined`] does. `None` if the step is not a
    /// simple one: the cursor can do it once it has followed.
    #[inline(always)]
    pub fn step(&mut self) -> Option<Step<'t>> {
        if !self.is_dense() {
            return None;
        }
        // SAFETY: it is not done, so its leaf is a page that a read transaction borrowed for `'t`
        // has handed out.
        let page: Page<'t> = unsafe { Page::new(self.base, self.size) };
        let record = page.joinable_of(&self.joining, self.next)?;
        self.next = self.next.wrapping_add(Layout::Dense.step());
        Some(Step { page, shared: self.joining.shared(), record })
    }

    /// Steps from the end of an ALIGNED leaf to the first key of the next one. Key and value go to
    /// `give`. `None`, and nothing done, if no such leaf is known, or anything about it or its
    /// first entry is not as usual.
    #[inline(always)]
    pub fn next_stored_leaf<R>(&mut self, give: impl FnOnce(&'t [u8], &'t [u8]) -> R) -> Option<R> {
        if self.next != self.stored_end {
            return None;
        }
        let (page, after) = self.leaves.enter()?;
        if !page.is_aligned_leaf() {
            return None;
        }
        // It stands in the same map as the leaf before, and is aligned as that is.
        let first = page.first_aligned_offset_address();
        if !page.has_short_slot(first) {
            return None;
        }
        self.next = first.wrapping_add(Layout::Aligned.step());
        self.stored_end = first.wrapping_add(Layout::Aligned.step() * page.len());
        self.base = page.address();
        self.leaves.set_next(after);
        let (key, value) = page.short_record(first);
        Some(give(key, value))
    }

    /// The same from the end of another leaf to the first key of one, in one piece as
    /// [`Step::joined`] gives it.
    #[inline(always)]
    pub fn next_leaf(&mut self, room: &mut KeyRoom) -> Option<(Joined<'t>, &'t [u8])> {
        if self.next != self.dense_end {
            return None;
        }
        let (page, after) = self.leaves.enter()?;
        if !page.is_leaf() || page.is_aligned() {
            return None;
        }
        let (joining, first) = (page.joining()?, page.first_offset_address());
        let record = page.joinable_of(&joining, first)?;
        self.next = first.wrapping_add(Layout::Dense.step());
        self.dense_end = first.wrapping_add(Layout::Dense.step() * page.len());
        (self.base, self.joining) = (page.address(), joining);
        self.leaves.set_next(after);
        Some(Step { page, shared: joining.shared(), record }.joined(room))
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
    /// What lies ahead of the cursor in its leaf, if there is something that usual steps lead to,
    /// and in the leaves after it, if the cursor is on a longer way.
    #[inline(always)]
    pub fn ahead<'t>(&self, txn: &'t ReadTxn) -> Option<Ahead<'t>> {
        let leaf = &self.leaf;
        if leaf.next >= leaf.usual_end || !self.has_leaf(txn) {
            return None;
        }
        let (page, none) = (self.page(), std::ptr::null());
        let is_aligned = leaf.dense_end.is_null();
        if is_aligned && !page.is_at_aligned_address() {
            return None;
        }
        Some(Ahead {
            next: leaf.next,
            stored_end: if is_aligned { leaf.usual_end } else { none },
            dense_end: leaf.dense_end,
            base: leaf.base,
            size: leaf.size,
            joining: page.joining()?,
            leaves: if self.path.is_scan() { self.leaves_ahead(txn) } else { Leaves::NONE },
            borrowed: PhantomData,
        })
    }

    /// The leaves after the cursor's below the same branch.
    #[inline(never)]
    fn leaves_ahead<'t>(&self, txn: &'t ReadTxn) -> Leaves<'t> {
        let (above, file) = (self.path.steps[1], &*txn.pages().file);
        let Some(branch) = file.checked_page(above.page).filter(|page| page.level() == 1) else {
            return Leaves::NONE;
        };
        let next = branch.child_address(above.slot as usize + 1);
        let end = branch.child_address(branch.len());
        let (leaf, unique) = (self.leaf.base, self.unique);
        Leaves { next, end, file: Some(file), first: next, leaf, above, unique }
    }

    /// Goes to where steps ahead have led. No effect if the cursor has been moved to another leaf,
    /// or further, since.
    #[inline(always)]
    pub fn follow(&mut self, ahead: &mut Ahead<'_>) {
        if ahead.leaves.next != ahead.leaves.first {
            return self.follow_far(ahead);
        }
        let end = if ahead.stored_end.is_null() { ahead.dense_end } else { ahead.stored_end };
        let leaf = &mut self.leaf;
        // The same leaf, and what is in between are places of this cursor's, too.
        if leaf.base == ahead.base && leaf.usual_end == end && leaf.next < ahead.next {
            leaf.next = ahead.next;
        }
    }

    /// The same where they have led to another leaf.
    #[inline(never)]
    fn follow_far(&mut self, ahead: &mut Ahead<'_>) {
        let leaves = &mut ahead.leaves;
        let is_there = self.unique == leaves.unique && self.leaf.base == leaves.leaf;
        if !is_there || self.state != State::On || self.path.steps[1] != leaves.above {
            return;
        }
        // SAFETY: the transaction is borrowed, in whose branch the reference to the leaf that was
        // entered last stands before the one to the next.
        let last = unsafe { reference(leaves.next.wrapping_sub(4)) };
        self.path.go_on(leaves.entered(), last);
        // SAFETY: as in `Ahead::step`; the leaf stays what it is while the cursor's transaction,
        // which is that one, goes on.
        let page = unsafe { Page::new(ahead.base, ahead.size) };
        let step = page.step();
        let slot = (ahead.next.addr() - page.first_offset_address().addr()) / step - 1;
        self.leaf = Leaf::at(page, slot);
        (self.slot, self.values, self.value) = (slot, 1, 0);
        // The next time it is followed from here.
        (leaves.first, leaves.leaf, leaves.above) = (leaves.next, ahead.base, self.path.steps[1]);
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

    /// A step ahead, if there is a quick one, and whether it led to another leaf.
    fn step(ahead: &mut Ahead<'_>) -> Option<(Pair, bool)> {
        let pair = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
        if let Some(short) = ahead.step_short(|key, value| pair((key, value))) {
            return Some((short, false));
        }
        if let Some(stored) = ahead.step_stored() {
            return Some((pair(stored), false));
        }
        if let Some(stored) = ahead.next_stored_leaf(|key, value| (key, value)) {
            return Some((pair(stored), true));
        }
        let mut room = [MaybeUninit::new(0xEE); Joining::ROOM];
        let (joined, in_leaf) = match ahead.step() {
            Some(step) => (step.joined(&mut room), false),
            None => (ahead.next_leaf(&mut room)?, true),
        };
        Some(((whole(joined.0, &room), joined.1.to_vec()), in_leaf))
    }

    /// Steps through a table, ahead where that can be; how many steps that were inside of leaves,
    /// and how many to another one.
    fn walk(txn: &ReadTxn, table: Table, expected: &[Pair]) -> [usize; 2] {
        let mut cursor = txn.cursor(table).unwrap();
        let (mut ahead, mut quick) = (Ahead::NONE, [0; 2]);
        for (i, (key, value)) in expected.iter().enumerate() {
            if let Some((pair, to_leaf)) = step(&mut ahead) {
                assert_eq!((&pair.0, &pair.1), (key, value), "{i}");
                quick[usize::from(to_leaf)] += 1;
            } else {
                cursor.follow(&mut ahead);
                let entry = cursor.next(txn).unwrap().unwrap();
                assert!(entry.key == *key && entry.value == *value, "{i}: {entry:?}");
                ahead = cursor.ahead(txn).unwrap_or(Ahead::NONE);
            }
            if i % 5 == 0 {
                cursor.follow(&mut ahead);
                assert_eq!(cursor.current(txn).unwrap().unwrap().key, *key, "{i}");
            }
            if i % 55 == 54 {
                cursor.follow(&mut ahead);
                assert_eq!(cursor.prev(txn).unwrap().unwrap().key, expected[i - 1].0, "{i}");
                assert_eq!(cursor.next(txn).unwrap().unwrap().key, *key, "{i}");
                ahead = cursor.ahead(txn).unwrap_or(Ahead::NONE);
            }
        }
        assert!(step(&mut ahead).is_none());
        cursor.follow(&mut ahead);
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
                "16 3..4" | "0 3..4" | "40 3..4" => {
                    assert!(quick[0] > 300 && quick[1] > 3, "{name}: {quick:?}");
                }
                "65 3..4" | "100 120..140" => assert_eq!(quick, [0; 2], "{name}"),
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
            assert!(quick[0] > 300 && quick[1] > 3, "{options:?}: {quick:?}");
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
