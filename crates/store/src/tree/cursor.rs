//! Cursors: a place in a table, detached from the transaction's borrow.

#![expect(unsafe_code, reason = "a cursor keeps the address of its leaf, argued below")]

use super::catalog::OpenTable;
use super::page::Page;
use super::page::group::ValueRun;
use super::page::search::{Side, leaf_slot, value_slot};
use super::pages::Pages;
use super::path::Path;
use super::snapshot::sealed::Sealed;
use super::{Bytes, Entry, Snapshot, Table, WriteTxn, rank, search};
use crate::Result;

mod joined;

pub use joined::Joined;

/// Where a cursor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nowhere yet.
    Nowhere,
    /// On an entry.
    On,
    /// Where its entry was before it was deleted: between the neighbours. If the entry comes back
    /// the cursor is on it again.
    Gap,
}

/// A place in one table of one transaction.
///
/// Every call names the transaction; a cursor used with another one answers
/// [`Error::WrongTransaction`](crate::Error::WrongTransaction). A cursor of a write transaction
/// stays right when the table is changed through the transaction or another cursor: if its entry is
/// deleted it stands between the neighbours, [`Cursor::next`] giving the one behind.
///
/// ```
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// use hedgerow::tree::{Snapshot, TableOptions};
/// let mut txn = store.begin_write()?;
/// let table = txn.create_table("t", &TableOptions::new())?;
/// for key in [b"a", b"b", b"c"] {
///     txn.put(table, key, b"")?;
/// }
/// let mut cursor = txn.cursor(table)?;
/// assert_eq!(cursor.seek_at_or_after(&txn, b"b")?.unwrap().key, b"b");
/// assert_eq!(cursor.next(&txn)?.unwrap().key, b"c");
/// assert!(cursor.next(&txn)?.is_none());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Cursor {
    table: Table,
    /// The transaction, and its number of changes when the place was last right.
    unique: u64,
    changes: u64,
    state: State,
    leaf: Leaf,
    /// A group of the leaf, its number of values, and the one under the cursor. Steps over groups
    /// of one value move `leaf.next` only: where that has gone further, the group before it is the
    /// cursor's, and has one value ([`Cursor::catch_up`]).
    slot: usize,
    values: usize,
    value: usize,
    path: Path,
    /// The entry, kept in write transactions to find the place again; the value only if
    /// `is_paired`.
    key: Vec<u8>,
    data: Vec<u8>,
    /// Whether a key may have several values.
    is_paired: bool,
}

/// The leaf on which a cursor stands, and what every step needs of it.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    base: *const u8,
    size: usize,
    /// Where the offset of the next group stands.
    next: *const u8,
    /// The end of the offsets; null unless the cursor is on the last value of its group: so one
    /// comparison decides whether a step leads to the next group of this leaf.
    end: *const u8,
    /// The same, but null also where keys share their ends: the usual step need not ask for that.
    usual_end: *const u8,
    shared: usize,
}

impl Leaf {
    const NONE: Self = Self {
        base: std::ptr::null(),
        size: 0,
        next: std::ptr::null(),
        end: std::ptr::null(),
        usual_end: std::ptr::null(),
        shared: 0,
    };

    /// On the only or last value of a group.
    #[inline(always)]
    fn at(page: Page<'_>, slot: usize) -> Self {
        let end = page.offset_address(page.len());
        Self {
            base: page.address(),
            size: page.bytes().len(),
            next: page.offset_address(slot + 1),
            end,
            usual_end: if page.is_reversed() { std::ptr::null() } else { end },
            shared: page.shared().len(),
        }
    }

    /// No step leads straight to the next group any more.
    fn bar(&mut self) {
        (self.end, self.usual_end) = (std::ptr::null(), std::ptr::null());
    }
}

// SAFETY: the address is followed only while the transaction that it belongs to is borrowed
// (`Cursor::stands`), and is only read through.
unsafe impl Send for Leaf {}
// SAFETY: as above.
unsafe impl Sync for Leaf {}

/// What a step answers.
type Answer<'t> = Result<Option<Entry<'t>>>;

impl Cursor {
    pub(crate) fn new<S: Snapshot>(txn: &S, table: Table) -> Result<Self> {
        let is_paired = txn.open_table(table)?.tree.form.values.is_some();
        Ok(Self {
            table,
            unique: txn.unique(),
            changes: txn.changes(),
            state: State::Nowhere,
            leaf: Leaf::NONE,
            slot: 0,
            values: 0,
            value: 0,
            path: Path::EMPTY,
            key: Vec::new(),
            data: Vec::new(),
            is_paired,
        })
    }

    /// The table that it is a cursor of.
    pub fn table(&self) -> Table {
        self.table
    }

    /// The key of the entry on which a cursor of a write transaction was put last, also if that was
    /// deleted meanwhile. Of no meaning in a read transaction.
    pub fn last_key(&self) -> &[u8] {
        &self.key
    }

    /// Whether the cursor stands on an entry of `txn`, which has not changed since.
    #[inline(always)]
    fn stands<S: Sealed>(&self, txn: &S) -> bool {
        self.unique == txn.unique() && self.changes == txn.changes() && self.state == State::On
    }

    /// The leaf. Only to be called while `stands` holds for a transaction borrowed for `'t`.
    #[inline(always)]
    fn page<'t>(&self) -> Page<'t> {
        // SAFETY: the cursor stands, so the leaf is a page that the borrowed transaction handed out
        // and that has not been written or freed since (its number of changes is the same).
        unsafe { Page::new(self.leaf.base, self.leaf.size) }
    }

    /// The entry under the cursor.
    #[inline(always)]
    fn give<'t, S: Snapshot>(&mut self, txn: &'t S) -> Answer<'t> {
        let record = self.page().leaf_record(self.slot);
        let entry = search::entry(txn.pages(), &record, self.value)?;
        if S::WRITES {
            self.save(&entry);
        }
        Ok(Some(entry))
    }

    /// Keeps the entry under the cursor, to find the place again.
    fn save(&mut self, entry: &Entry<'_>) {
        entry.key.copy_to(&mut self.key);
        if self.is_paired {
            entry.value.copy_to(&mut self.data);
        }
    }

    /// Keeps a string both parts of which stand in the page.
    #[inline(always)]
    fn keep(kept: &mut Vec<u8>, page: Page<'_>, first: &[u8], second: &[u8]) {
        kept.clear();
        match page.join(first, second, kept.spare_capacity_mut()) {
            // SAFETY: so many bytes were written to the room behind the vector's end, which is its
            // beginning.
            Some(len) => unsafe { kept.set_len(len) },
            None => Self::keep_long(Bytes::new(first, second), kept),
        }
    }

    /// Keeps a string of any length, with room for others.
    #[cold]
    fn keep_long(string: Bytes<'_>, kept: &mut Vec<u8>) {
        kept.reserve(2 * string.len() + 64);
        string.copy_to(kept);
    }

    /// Stands on a group of a leaf; on its first value, or with `last` on its last one.
    #[inline]
    fn stand<S: Snapshot>(&mut self, txn: &S, page: Page<'_>, slot: usize, last: bool) {
        self.leaf = Leaf::at(page, slot);
        self.slot = slot;
        self.values = page.leaf_record(slot).value_count();
        self.state = State::On;
        self.changes = txn.changes();
        self.value = 0;
        if self.values > 1 {
            self.set_value(if last { self.values - 1 } else { 0 });
        }
    }

    /// Stands on another value of the group.
    #[inline(always)]
    fn set_value(&mut self, value: usize) {
        self.value = value;
        if value + 1 < self.values {
            self.leaf.bar();
        } else {
            self.leaf = Leaf::at(self.page(), self.slot);
        }
    }

    /// Takes note of the steps that moved `leaf.next` only. Only to be called for the cursor's own
    /// transaction, while the leaf is as it was.
    #[inline(always)]
    fn catch_up(&mut self) {
        if self.state == State::On {
            let first = self.page().offset_address(0) as usize;
            let slot = (self.leaf.next as usize - first) / 2 - 1;
            if slot != self.slot {
                (self.slot, self.values, self.value) = (slot, 1, 0);
            }
        }
    }

    /// No longer on an entry.
    fn leave(&mut self, state: State) {
        self.state = state;
        self.leaf.bar();
    }

    /// Next pair; the first one if the cursor stands nowhere. At the end: `None`, and the cursor
    /// stays on the last pair.
    ///
    /// # Errors
    /// A damaged page, the interruption flag, another transaction.
    #[inline(always)]
    pub fn next<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        match self.next_here(txn) {
            Some(entry) => Ok(Some(entry)),
            None => self.next_slow(txn),
        }
    }

    /// The next pair, where that is a step inside a leaf of a read transaction: the part of
    /// [`Cursor::next`] that reads no page, fails in no way and is short enough for a caller's own
    /// code. `None` says nothing about the table, and the cursor has not moved.
    #[inline(always)]
    pub fn next_here<'t, S: Snapshot>(&mut self, txn: &'t S) -> Option<Entry<'t>> {
        let next = self.leaf.next;
        if S::WRITES || next >= self.leaf.usual_end || self.unique != txn.unique() {
            return None;
        }
        // The cursor stands on the last value of its group: the next entry begins the next one.
        let page: Page<'t> = self.page();
        let (rest, value) = page.plain_record_of(next)?;
        self.leaf.next = next.wrapping_add(2);
        let key = Bytes::new(page.shared_of(self.leaf.shared), rest);
        Some(Entry { key, value: value.into() })
    }

    /// Whether the leaf, if the cursor has one, is as it was when `txn` handed it out.
    #[inline(always)]
    fn has_leaf<S: Sealed>(&self, txn: &S) -> bool {
        self.unique == txn.unique() && (!S::WRITES || self.changes == txn.changes())
    }

    /// The steps that are not as usual: to the next leaf, along the values of a group, over long
    /// entries, and all in tables whose keys share their ends.
    #[inline(never)]
    fn next_slow<'t, S: Snapshot>(&mut self, txn: &'t S) -> Answer<'t> {
        if !S::WRITES && self.stands(txn) {
            let (next, end) = (self.leaf.next, self.leaf.end);
            let (page, slot) = if next == end {
                let Some(page) = self.path.next_leaf(txn.pages())? else { return Ok(None) };
                (page, 0)
            } else if next < end {
                self.catch_up();
                (self.page(), self.slot + 1)
            } else {
                // On a value that is not the last one of its group.
                self.set_value(self.value + 1);
                return self.give(txn);
            };
            if let Some((rest, value)) = page.plain_record_of(page.offset_address(slot)) {
                self.leaf = Leaf::at(page, slot);
                (self.slot, self.values, self.value) = (slot, 1, 0);
                let key = page.whole_key(rest);
                return Ok(Some(Entry { key, value: value.into() }));
            }
            self.stand(txn, page, slot, false);
            return self.give(txn);
        }
        self.next_settled(txn)
    }

    /// The steps of write transactions, and those from nowhere and from gaps.
    #[inline(never)]
    fn next_settled<'t, S: Snapshot>(&mut self, txn: &'t S) -> Answer<'t> {
        match self.settle(txn)? {
            State::Nowhere => self.first(txn),
            State::Gap => self.seek_saved(txn, false),
            State::On if self.value + 1 < self.values => {
                self.set_value(self.value + 1);
                self.give(txn)
            }
            State::On => self.step_key(txn, true),
        }
    }

    /// The first value of the next group, or (backwards) the last one of the group before; groups
    /// that continue count as groups.
    fn step_key<'t, S: Snapshot>(&mut self, txn: &'t S, forward: bool) -> Answer<'t> {
        let page = self.page();
        if forward {
            if self.slot + 1 < page.len() {
                self.stand(txn, page, self.slot + 1, false);
                return self.give(txn);
            }
            let Some(page) = self.path.next_leaf(txn.pages())? else { return Ok(None) };
            self.stand(txn, page, 0, false);
            return self.give(txn);
        }
        if self.slot > 0 {
            self.stand(txn, page, self.slot - 1, true);
            return self.give(txn);
        }
        let Some(page) = self.path.previous_leaf(txn.pages())? else { return Ok(None) };
        self.stand(txn, page, page.len() - 1, true);
        self.give(txn)
    }

    /// Previous pair; the last one if the cursor stands nowhere. At the beginning: `None`, and the
    /// cursor stays on the first pair.
    #[inline]
    pub fn prev<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        // In a write transaction the leaf may be gone: `settle` finds the place again first.
        if !S::WRITES && self.stands(txn) {
            self.catch_up();
            if self.value == 0 && self.slot > 0 {
                self.stand(txn, self.page(), self.slot - 1, true);
                return self.give(txn);
            }
        }
        match self.settle(txn)? {
            State::Nowhere => self.last(txn),
            State::Gap => self.seek_saved(txn, true),
            State::On if self.value > 0 => {
                self.set_value(self.value - 1);
                self.give(txn)
            }
            State::On => self.step_key(txn, false),
        }
    }

    /// Makes the place right again after changes of the transaction.
    fn settle<S: Snapshot>(&mut self, txn: &S) -> Result<State> {
        if self.has_leaf(txn) {
            self.catch_up();
            return Ok(self.state);
        }
        let table = self.check(txn)?;
        if self.state == State::Nowhere {
            return Ok(self.state);
        }
        let (key, data) = (std::mem::take(&mut self.key), std::mem::take(&mut self.data));
        let found = self.place(txn, table, &key, &data);
        (self.key, self.data) = (key, data);
        if !found? {
            self.leave(State::Gap);
            self.changes = txn.changes();
        }
        Ok(self.state)
    }

    /// Stands on a pair (in a table without duplicates: on a key), if it is there.
    fn place<S: Snapshot>(
        &mut self,
        txn: &S,
        table: &OpenTable,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        let place = super::insert::locate(txn.pages(), &table.tree, key, value)?;
        if !place.found {
            return Ok(false);
        }
        self.path = place.path;
        let page = txn.pages().page(self.path.steps[0].page, 0)?;
        self.stand(txn, page, place.slot, false);
        self.set_value(place.value);
        Ok(true)
    }

    /// The pair at or after (backwards: before) the entry that was deleted.
    fn seek_saved<'t, S: Snapshot>(&mut self, txn: &'t S, backwards: bool) -> Answer<'t> {
        let table = txn.open_table(self.table)?;
        let (key, data) = (std::mem::take(&mut self.key), std::mem::take(&mut self.data));
        let side = if table.tree.form.values.is_some() { Side::At(&data) } else { Side::First };
        let state = self.state;
        let found = match self.seek_side(txn, table, &key, side, backwards) {
            Ok(true) => return self.give(txn),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        (self.key, self.data) = (key, data);
        self.leave(state);
        found
    }

    /// Stands on the first pair at or after (`key`, `side`), or with `before` on the last one
    /// before it. False (and the cursor is anywhere) if there is none.
    fn seek_side<S: Snapshot>(
        &mut self,
        txn: &S,
        table: &OpenTable,
        key: &[u8],
        side: Side<'_>,
        before: bool,
    ) -> Result<bool> {
        let (pages, tree) = (txn.pages(), &table.tree);
        let Some(mut page) = self.path.seek(pages, tree, key, side)? else { return Ok(false) };
        let (mut slot, found) = leaf_slot(pages, &tree.form.keys, page, key)?;
        let mut value = 0;
        if found {
            let record = page.leaf_record(slot);
            value = match (side, &tree.form.values) {
                (Side::First, _) => 0,
                (Side::Last, _) | (Side::At(_), None) => record.value_count(),
                (Side::At(value), Some(order)) => value_slot(order, &record, value).0,
            };
            if value == record.value_count() {
                (slot, value) = (slot + 1, 0);
            }
        }
        if before {
            return self.stand_before(txn, page, slot, value);
        }
        if slot == page.len() {
            match self.path.next_leaf(pages)? {
                Some(next) => (page, slot) = (next, 0),
                None => return Ok(false),
            }
        }
        self.stand(txn, page, slot, false);
        self.set_value(value);
        Ok(true)
    }

    /// Stands on the pair before value `value` of group `slot`.
    fn stand_before<S: Snapshot>(
        &mut self,
        txn: &S,
        page: Page<'_>,
        slot: usize,
        value: usize,
    ) -> Result<bool> {
        if value > 0 {
            self.stand(txn, page, slot, false);
            self.set_value(value - 1);
            return Ok(true);
        }
        if slot > 0 {
            self.stand(txn, page, slot - 1, true);
            return Ok(true);
        }
        let Some(page) = self.path.previous_leaf(txn.pages())? else { return Ok(false) };
        self.stand(txn, page, page.len() - 1, true);
        Ok(true)
    }

    /// Seeks, and gives what is there; where there is nothing the cursor stands nowhere.
    pub(crate) fn seek_and_give<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
        side: Side<'_>,
        before: bool,
    ) -> Answer<'t> {
        let table = self.check(txn)?;
        self.leave(State::Nowhere);
        if self.seek_side(txn, table, key, side, before)? { self.give(txn) } else { Ok(None) }
    }

    fn check<'t, S: Snapshot>(&self, txn: &'t S) -> Result<&'t OpenTable> {
        if self.unique != txn.unique() {
            return Err(crate::Error::WrongTransaction);
        }
        txn.open_table(self.table)
    }

    /// The first pair.
    pub fn first<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.stand_at_end(txn, false)? { self.give(txn) } else { Ok(None) }
    }

    /// The last pair.
    pub fn last<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.stand_at_end(txn, true)? { self.give(txn) } else { Ok(None) }
    }

    /// Goes to the first pair, or with `last` to the last one, as [`Cursor::first`] and
    /// [`Cursor::last`] do, without giving it. False if there is none.
    ///
    /// # Errors
    /// As theirs.
    pub fn move_to_end<S: Snapshot>(&mut self, txn: &S, last: bool) -> Result<bool> {
        let is_there = self.stand_at_end(txn, last)?;
        if S::WRITES && is_there {
            self.give(txn)?;
        }
        Ok(is_there)
    }

    /// Stands on the first or last pair. The cursor of a write transaction has yet to save it.
    #[inline(always)]
    fn stand_at_end<S: Snapshot>(&mut self, txn: &S, last: bool) -> Result<bool> {
        let table = self.check(txn)?;
        self.leave(State::Nowhere);
        let end = |page: Page<'_>| if last { page.len() - 1 } else { 0 };
        let Some(page) = self.path.descend(txn.pages(), &table.tree, |page| Ok(end(page)))? else {
            return Ok(false);
        };
        self.stand(txn, page, end(page), last);
        Ok(true)
    }

    /// The pair under the cursor. Where it was deleted the cursor moves on to the next one; `None`
    /// if there is none, or if the cursor stands nowhere.
    pub fn current<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        match self.settle(txn)? {
            State::Nowhere => Ok(None),
            State::Gap => self.seek_saved(txn, false),
            State::On => self.give(txn),
        }
    }

    /// A copy of the key under (or, deleted, last under) the cursor.
    fn saved_key<S: Snapshot>(&mut self, txn: &S) -> Result<Option<Vec<u8>>> {
        Ok(match self.settle(txn)? {
            State::Nowhere => None,
            State::Gap => Some(self.key.clone()),
            State::On => {
                let record = self.page().leaf_record(self.slot);
                Some(search::key_bytes(txn.pages(), &record)?.to_vec())
            }
        })
    }

    /// Whether the group under the cursor, which is on an entry, ends in this leaf.
    fn ends_here(&self) -> bool {
        self.slot + 1 < self.page().len()
    }

    /// Whether the group under the cursor, which is on an entry, begins in this leaf.
    fn begins_here(&self) -> bool {
        self.slot > 0 || !self.page().continues()
    }

    /// First value of the next key; of the first key if the cursor stands nowhere.
    pub fn next_key<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.settle(txn)? == State::On {
            if self.ends_here() {
                return self.step_key(txn, true);
            }
            let mut path = self.path;
            match path.next_leaf(txn.pages())? {
                None => return Ok(None),
                // Where the key goes on, the next one comes behind that.
                Some(page) if !page.continues() || page.len() > 1 => {
                    self.path = path;
                    self.stand(txn, page, usize::from(page.continues()), false);
                    return self.give(txn);
                }
                Some(_) => {}
            }
        }
        let Some(key) = self.saved_key(txn)? else { return self.first(txn) };
        self.move_or_stay(txn, &key, Side::Last, false)
    }

    /// Last value of the previous key; of the last key if the cursor stands nowhere.
    pub fn prev_key<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.settle(txn)? == State::On {
            if self.begins_here() {
                return self.step_key(txn, false);
            }
            // The last group of the leaf before has the key, too.
            let mut path = self.path;
            if let Some(page) = path.previous_leaf(txn.pages())?
                && page.len() > 1
            {
                self.path = path;
                self.stand(txn, page, page.len() - 2, true);
                return self.give(txn);
            }
        }
        let Some(key) = self.saved_key(txn)? else { return self.last(txn) };
        self.move_or_stay(txn, &key, Side::First, true)
    }

    /// Seeks; where there is nothing the cursor stays as it is.
    fn move_or_stay<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
        side: Side<'_>,
        before: bool,
    ) -> Answer<'t> {
        let table = self.check(txn)?;
        let mut moved = self.clone();
        if !moved.seek_side(txn, table, key, side, before)? {
            return Ok(None);
        }
        *self = moved;
        self.give(txn)
    }

    /// Next value of this key; `None` at its last one, where the cursor stays.
    pub fn next_value<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.settle(txn)? == State::On {
            if self.value + 1 < self.values {
                self.set_value(self.value + 1);
                return self.give(txn);
            }
            if self.ends_here() {
                return Ok(None);
            }
        }
        self.within_key(txn, |cursor| cursor.next(txn))
    }

    /// The value under the cursor and those behind it that its key has in the same leaf, at most
    /// `most`; the cursor then stands on the last of them. `None`, and the cursor stays, if it
    /// stands on no entry, on a long value, or if the values differ in length.
    ///
    /// # Errors
    /// As those of [`Cursor::next`].
    pub fn value_run<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        most: usize,
    ) -> Result<Option<ValueRun<'t>>> {
        if self.settle(txn)? != State::On || most == 0 {
            return Ok(None);
        }
        let page: Page<'t> = self.page();
        let record = page.leaf_record(self.slot);
        let count = (self.values - self.value).min(most);
        let run = match record.group() {
            Some(group) => group.run(self.value, count),
            None => record.is_plain().then(|| ValueRun::of(record.inline_value())),
        };
        if run.is_some() {
            self.set_value(self.value + count - 1);
            if S::WRITES {
                self.give(txn)?;
            }
        }
        Ok(run)
    }

    /// Previous value of this key; `None` at its first one, where the cursor stays.
    pub fn prev_value<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.settle(txn)? == State::On {
            if self.value > 0 {
                self.set_value(self.value - 1);
                return self.give(txn);
            }
            if self.begins_here() {
                return Ok(None);
            }
        }
        self.within_key(txn, |cursor| cursor.prev(txn))
    }

    /// Makes a step, and takes it back if it leads to another key.
    fn within_key<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        step: impl FnOnce(&mut Self) -> Answer<'t>,
    ) -> Answer<'t> {
        let Some(key) = self.saved_key(txn)? else { return Ok(None) };
        let mut moved = self.clone();
        match step(&mut moved)? {
            Some(entry) if entry.key == key[..] => {
                *self = moved;
                Ok(Some(entry))
            }
            _ => Ok(None),
        }
    }

    /// First value of this key.
    pub fn first_value<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.settle(txn)? == State::On && self.begins_here() {
            self.set_value(0);
            return self.give(txn);
        }
        let Some(key) = self.saved_key(txn)? else { return Ok(None) };
        self.within_key(txn, |cursor| cursor.seek_and_give(txn, &key, Side::First, false))
    }

    /// Last value of this key.
    pub fn last_value<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        if self.settle(txn)? == State::On && self.ends_here() {
            self.set_value(self.values - 1);
            return self.give(txn);
        }
        let Some(key) = self.saved_key(txn)? else { return Ok(None) };
        self.within_key(txn, |cursor| cursor.seek_and_give(txn, &key, Side::Last, true))
    }

    /// Exactly this key, its first value. Not found, the cursor stands nowhere.
    pub fn seek<'t, S: Snapshot>(&mut self, txn: &'t S, key: &[u8]) -> Result<Option<Entry<'t>>> {
        match self.seek_near(txn, key)? {
            Some((entry, true)) => Ok(Some(entry)),
            _ => {
                self.leave(State::Nowhere);
                Ok(None)
            }
        }
    }

    /// The first pair whose key is at or after `key`, and whether its key is the one asked for (by
    /// the table's order, which may take different bytes for equal).
    pub fn seek_near<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
    ) -> Result<Option<(Entry<'t>, bool)>> {
        let table = self.check(txn)?;
        let found = self.seek_and_give(txn, key, Side::First, false)?;
        let exact = |entry: &Entry<'t>| table.tree.form.keys.compare_bytes(&entry.key, key).is_eq();
        Ok(found.map(|entry| (entry, exact(&entry))))
    }

    /// Whether the entry on which the cursor was put last is still there.
    pub fn is_on_entry<S: Snapshot>(&mut self, txn: &S) -> Result<bool> {
        Ok(self.settle(txn)? == State::On)
    }

    /// The first pair whose key is at or after `key`.
    pub fn seek_at_or_after<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
    ) -> Result<Option<Entry<'t>>> {
        self.seek_and_give(txn, key, Side::First, false)
    }

    /// The last pair whose key is at or before `key`.
    pub fn seek_at_or_before<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
    ) -> Result<Option<Entry<'t>>> {
        self.seek_and_give(txn, key, Side::Last, true)
    }

    /// Exactly this pair.
    pub fn seek_pair<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Entry<'t>>> {
        let table = self.check(txn)?;
        self.leave(State::Nowhere);
        if !self.place(txn, table, key, value)? {
            return Ok(None);
        }
        match self.give(txn)? {
            // Without duplicates only the key was looked for.
            Some(entry) if table.tree.form.values.is_some() || entry.value == *value => {
                Ok(Some(entry))
            }
            _ => {
                self.leave(State::Nowhere);
                Ok(None)
            }
        }
    }

    /// This key, its first value at or after `value`.
    pub fn seek_value_at_or_after<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Entry<'t>>> {
        let table = self.check(txn)?;
        let duplicates = table.tree.form.values.is_some();
        let side = if duplicates { Side::At(value) } else { Side::First };
        match self.seek_and_give(txn, key, side, false)? {
            Some(entry)
                if table.tree.form.keys.compare_bytes(&entry.key, key).is_eq()
                    && (duplicates || entry.value.cmp_slice(value).is_ge()) =>
            {
                Ok(Some(entry))
            }
            _ => {
                self.leave(State::Nowhere);
                Ok(None)
            }
        }
    }

    /// The pair with exactly `n` pairs before it.
    pub fn seek_nth<'t, S: Snapshot>(&mut self, txn: &'t S, n: u64) -> Result<Option<Entry<'t>>> {
        let table = self.check(txn)?;
        self.leave(State::Nowhere);
        match rank::seek_nth(txn.pages(), &table.tree, n, &mut self.path)? {
            Some(nth) => {
                self.stand(txn, nth.page, nth.slot, false);
                self.set_value(nth.value);
                self.give(txn)
            }
            None => Ok(None),
        }
    }

    /// How many values the current key has; 0 if the cursor stands nowhere.
    pub fn value_count<S: Snapshot>(&mut self, txn: &S) -> Result<u64> {
        if self.settle(txn)? == State::On && self.begins_here() && self.ends_here() {
            return Ok(self.values as u64);
        }
        match self.saved_key(txn)? {
            Some(key) => txn.count_values(self.table, &key),
            None => Ok(0),
        }
    }

    /// Stands on an entry that is there, one that was just put for example (with the value left out
    /// where a key has one). Its place is looked up by the next call that needs it: a cursor that
    /// only puts does not pay for it.
    ///
    /// # Errors
    /// A handle of another transaction.
    #[inline]
    pub fn stand_on(&mut self, txn: &WriteTxn, key: &[u8], value: &[u8]) -> Result<()> {
        let table = txn.open_table(self.table)?;
        self.note(txn, key, if table.tree.form.values.is_some() { value } else { &[] });
        Ok(())
    }

    /// Stands on an entry of the table, its place to be looked up.
    #[inline(always)]
    fn note(&mut self, txn: &WriteTxn, key: &[u8], value: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.data.clear();
        if !value.is_empty() {
            self.data.extend_from_slice(value);
        }
        self.leave(State::On);
        self.changes = txn.changes().wrapping_sub(1);
    }

    /// Puts an entry and stands on it.
    pub fn put(&mut self, txn: &mut WriteTxn, key: &[u8], value: &[u8]) -> Result<()> {
        self.check(txn)?;
        txn.put(self.table, key, value)?;
        self.stand_on(txn, key, value)
    }

    /// As [`Cursor::put`] with [`WriteTxn::append`].
    pub fn append(&mut self, txn: &mut WriteTxn, key: &[u8], value: &[u8]) -> Result<()> {
        self.check(txn)?;
        txn.append(self.table, key, value)?;
        self.stand_on(txn, key, value)
    }

    /// Replaces the value at the cursor (with duplicates: deletes the pair and puts the new one).
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) if the cursor does not stand on an entry.
    pub fn put_current(&mut self, txn: &mut WriteTxn, value: &[u8]) -> Result<()> {
        if self.settle(txn)? != State::On {
            return Err(crate::Error::argument("the cursor does not stand on an entry"));
        }
        let key = self.key.clone();
        if txn.open_table(self.table)?.tree.form.values.is_some() {
            let data = self.data.clone();
            txn.check_value(self.table, value)?;
            txn.delete_pair(self.table, &key, &data)?;
        }
        txn.put(self.table, &key, value)?;
        self.stand_on(txn, &key, value)
    }

    /// Deletes the pair at the cursor; [`Cursor::next`] then gives its successor. False if the
    /// cursor does not stand on one.
    pub fn delete(&mut self, txn: &mut WriteTxn) -> Result<bool> {
        if self.settle(txn)? != State::On {
            return Ok(false);
        }
        self.leave(State::Gap);
        if txn.open_table(self.table)?.tree.form.values.is_some() {
            return txn.delete_pair(self.table, &self.key, &self.data);
        }
        txn.delete(self.table, &self.key)
    }

    /// Deletes the key at the cursor with all its values.
    pub fn delete_key(&mut self, txn: &mut WriteTxn) -> Result<bool> {
        if self.settle(txn)? != State::On {
            return Ok(false);
        }
        self.leave(State::Gap);
        txn.delete(self.table, &self.key)
    }
}
