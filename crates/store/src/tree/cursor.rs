//! Cursors: a place in a table, detached from the transaction's borrow.

#![expect(unsafe_code, reason = "a cursor keeps the address of its leaf, argued below")]

use super::catalog::OpenTable;
use super::page::{Layout, Page};
use super::pages::Pages;
use super::path::Path;
use super::snapshot::sealed::Sealed;
use super::{Bytes, Entry, Snapshot, Table, search};
use crate::Result;

mod ahead;
mod among;
mod fronts;
mod joined;
mod run;
mod seek;
mod values;
mod write;

pub use ahead::{Ahead, KeyRoom, Step};
pub use among::Among;
use fronts::Habits;
pub use run::{Passed, Passing};

/// Where a cursor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nowhere yet.
    Nowhere,
    /// On an entry.
    On,
    /// The cursor stands where its entry was before it was deleted, between the neighbours. If the
    /// entry comes back the cursor is on it again.
    Gap,
    /// As in a gap; while the table does not change, the pair at the cursor's slot and value, or
    /// the first one after its leaf, is the next one.
    Before,
}

/// A place in one table of one transaction.
///
/// Every call names the transaction; a cursor that is used with another one returns
/// [`Error::WrongTransaction`](crate::Error::WrongTransaction). A cursor of a write transaction
/// stays right when the table is changed through the transaction or another cursor: if its entry is
/// deleted it stands between the neighbours, [`Cursor::next`] giving the one after it.
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
    /// The transaction, and its number of changes when the place was last right; 0 if the place is
    /// to be looked up.
    unique: u64,
    changes: u64,
    state: State,
    leaf: Leaf,
    /// A group of the leaf, its number of values, and the one under the cursor. Steps over groups
    /// of one value move `leaf.next` only: where that has gone on or back, the group before it is
    /// the cursor's, and has one value ([`Cursor::catch_up`]).
    slot: usize,
    values: usize,
    value: usize,
    path: Path,
    kept: Kept,
    /// Whether a key may have several values.
    is_paired: bool,
    habits: Habits,
}

/// The entry of a cursor, kept in write transactions to find the place again; the value only if
/// keys may have several.
#[derive(Clone, Debug)]
struct Kept {
    key: Vec<u8>,
    data: Vec<u8>,
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
    /// The same, but also null if keys share their ends: the usual step need not check for that.
    usual_end: *const u8,
    /// The same, but also null in an ALIGNED leaf.
    dense_end: *const u8,
    shared: usize,
    /// From one group's offset to the next one's.
    step: usize,
}

impl Leaf {
    const NONE: Self = Self {
        base: std::ptr::null(),
        size: 0,
        next: std::ptr::null(),
        end: std::ptr::null(),
        usual_end: std::ptr::null(),
        dense_end: std::ptr::null(),
        shared: 0,
        step: 0,
    };

    /// On the only or last value of a group.
    #[inline(always)]
    fn at(page: Page<'_>, slot: usize) -> Self {
        let (shared, step) = (page.shared().len(), page.step());
        let first = page.first_offset_address();
        let end = first.wrapping_add(step * page.len());
        let share_ends = shared > 0 && page.is_reversed();
        let is_aligned = step == Layout::Aligned.step();
        Self {
            base: page.address(),
            size: page.bytes().len(),
            next: first.wrapping_add(step * (slot + 1)),
            end,
            usual_end: if share_ends { std::ptr::null() } else { end },
            dense_end: if share_ends || is_aligned { std::ptr::null() } else { end },
            shared,
            step,
        }
    }

    /// The layout of the leaf.
    #[inline(always)]
    fn layout(&self) -> Layout {
        if self.step == Layout::Aligned.step() { Layout::Aligned } else { Layout::Dense }
    }

    /// No step leads straight to the next group any more.
    fn bar(&mut self) {
        (self.end, self.usual_end) = (std::ptr::null(), std::ptr::null());
        self.dense_end = std::ptr::null();
    }
}

// SAFETY: the address is followed only while the transaction that it belongs to is borrowed
// (`Cursor::stands`), and is only read through.
unsafe impl Send for Leaf {}
// SAFETY: as above.
unsafe impl Sync for Leaf {}

/// The result of a step.
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
            kept: Kept { key: Vec::new(), data: Vec::new() },
            is_paired,
            habits: Habits::NEW,
        })
    }

    /// The table that it is a cursor of.
    pub fn table(&self) -> Table {
        self.table
    }

    /// The key of the entry on which a cursor of a write transaction was placed last, even if the
    /// entry has been deleted since. It has no meaning in a read transaction.
    pub fn last_key(&self) -> &[u8] {
        &self.kept.key
    }

    /// Whether the cursor stands on an entry of `txn`, which has not changed since.
    #[inline(always)]
    fn stands<S: Sealed>(&self, txn: &S) -> bool {
        self.state == State::On && self.has_leaf(txn)
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
        let page = self.page();
        let entry = match page.plain_record(self.slot) {
            Some((rest, value)) => {
                let (first, second) = page.parts_of_key(rest);
                if S::WRITES && !self.is_paired {
                    Self::keep(&mut self.kept.key, page, first, second);
                    return Ok(Some(Entry { key: Bytes::new(first, second), value: value.into() }));
                }
                Entry { key: Bytes::new(first, second), value: value.into() }
            }
            None => {
                let (record, whole_max) = (page.leaf_record(self.slot), self.habits.whole_max);
                search::entry_or_front(txn.pages(), &record, self.value, whole_max)?
            }
        };
        if S::WRITES {
            self.save(&entry);
        }
        Ok(Some(entry))
    }

    /// Keeps the entry under the cursor, to find the place again.
    fn save(&mut self, entry: &Entry<'_>) {
        entry.key.copy_to(&mut self.kept.key);
        if self.is_paired {
            entry.value.copy_to(&mut self.kept.data);
        }
    }

    /// Keeps a string both parts of which stand in the page.
    #[inline(always)]
    fn keep(kept: &mut Vec<u8>, page: Page<'_>, first: &[u8], second: &[u8]) {
        kept.clear();
        match page.join(first, second, kept.spare_capacity_mut()) {
            // SAFETY: `len` bytes were written to the spare room of the vector, which is empty.
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
        self.values = if self.is_paired { page.value_count(slot) } else { 1 };
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

    /// Takes note of steps that moved only `leaf.next`. It may be called only for the cursor's own
    /// transaction, while the leaf is unchanged.
    #[inline(always)]
    fn catch_up(&mut self) {
        if self.state == State::On {
            let first = self.page().offset_address(0) as usize;
            // A step is 2 or 4.
            let slot = ((self.leaf.next as usize - first) >> (self.leaf.step / 2)) - 1;
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

    /// Moves to the next pair, or to the first one if the cursor stands nowhere. At the end it
    /// gives `None`, and the cursor stays on the last pair.
    ///
    /// # Errors
    /// A damaged page, the interruption flag, another transaction.
    #[inline(always)]
    pub fn next<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        match self.next_in_leaf(txn) {
            Some(entry) => Ok(Some(entry)),
            None => self.next_slow(txn),
        }
    }

    /// The next pair, if it is in the same leaf of a read transaction: the part of [`Cursor::next`]
    /// that reads no page, cannot fail and is short enough to be inlined. `None` says nothing about
    /// the table, and the cursor has not moved.
    #[inline(always)]
    pub fn next_here<'t, S: Snapshot>(&mut self, txn: &'t S) -> Option<Entry<'t>> {
        if S::WRITES {
            return None;
        }
        self.next_in_leaf(txn).or_else(|| self.next_in_aligned_leaf(txn))
    }

    /// The same in any transaction, but for ALIGNED leaves. A writer's cursor keeps the entry, to
    /// find the place again.
    #[inline(always)]
    pub(super) fn next_in_leaf<'t, S: Snapshot>(&mut self, txn: &'t S) -> Option<Entry<'t>> {
        let next = self.leaf.next;
        if next >= self.leaf.dense_end || !self.has_leaf(txn) {
            return None;
        }
        // The cursor stands on the last value of its group: the next entry begins the next one.
        let page: Page<'t> = self.page();
        let (rest, value) = page.plain_record_in(Layout::Dense, next)?;
        self.leaf.next = next.wrapping_add(Layout::Dense.step());
        let shared = page.shared_of(self.leaf.shared);
        let entry = Entry { key: Bytes::new(shared, rest), value: value.into() };
        if S::WRITES && !self.is_paired {
            Self::keep(&mut self.kept.key, page, shared, rest);
        } else if S::WRITES {
            self.save(&entry);
        }
        Some(entry)
    }

    /// The same for ALIGNED leaves.
    #[inline(never)]
    fn next_in_aligned_leaf<'t, S: Snapshot>(&mut self, txn: &'t S) -> Option<Entry<'t>> {
        let next = self.leaf.next;
        if next >= self.leaf.usual_end || !self.has_leaf(txn) {
            return None;
        }
        let page: Page<'t> = self.page();
        let (key, value) = page.plain_record_of(next)?;
        self.leaf.next = next.wrapping_add(page.step());
        let entry = Entry { key: key.into(), value: value.into() };
        if S::WRITES {
            self.save(&entry);
        }
        Some(entry)
    }

    /// Whether the leaf, if the cursor has one, is unchanged since `txn` handed it out.
    #[inline(always)]
    fn has_leaf<S: Sealed>(&self, txn: &S) -> bool {
        self.unique == txn.unique() && (!S::WRITES || txn.is_unchanged(self.table, self.changes))
    }

    /// The steps that are not as usual: to the next leaf, along the values of a group, over long
    /// entries, and all in tables whose keys share their ends.
    #[inline(never)]
    fn next_slow<'t, S: Snapshot>(&mut self, txn: &'t S) -> Answer<'t> {
        if let Some(entry) = self.next_in_aligned_leaf(txn) {
            return Ok(Some(entry));
        }
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
            if let Some((rest, value)) = page.plain_record(slot) {
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
            State::Before => self.step_out(txn),
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

    /// Moves to the previous pair, or to the last one if the cursor stands nowhere. At the
    /// beginning it gives `None`, and the cursor stays on the first pair.
    #[inline]
    pub fn prev<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        match self.prev_in_leaf(txn) {
            Some(entry) => Ok(Some(entry)),
            None => self.prev_slow(txn),
        }
    }

    /// The previous pair, if it is in the same leaf of a read transaction, and both keys have one
    /// value: the part of [`Cursor::prev`] that cannot fail. `None` says nothing about the table,
    /// and the cursor has not moved.
    #[inline(always)]
    fn prev_in_leaf<'t, S: Snapshot>(&mut self, txn: &'t S) -> Option<Entry<'t>> {
        let leaf = &self.leaf;
        let is_only_value = self.value == 0 && !leaf.usual_end.is_null();
        if S::WRITES || !is_only_value || !self.has_leaf(txn) {
            return None;
        }
        let page: Page<'t> = self.page();
        let (layout, here) = (leaf.layout(), leaf.next.wrapping_sub(leaf.step));
        let before = here.wrapping_sub(leaf.step);
        if before < page.first_offset_address() {
            return None;
        }
        let (rest, value) = page.plain_record_in(layout, before)?;
        let key = Bytes::new(page.shared_of(leaf.shared), rest);
        self.leaf.next = here;
        Some(Entry { key, value: value.into() })
    }

    #[inline(never)]
    fn prev_slow<'t, S: Snapshot>(&mut self, txn: &'t S) -> Answer<'t> {
        match self.settle(txn)? {
            State::Nowhere => self.last(txn),
            State::Gap => self.seek_saved(txn, true),
            State::On if self.value > 0 => {
                self.set_value(self.value - 1);
                self.give(txn)
            }
            State::Before if self.value > 0 => self.step_to_value(txn, self.value - 1),
            State::On | State::Before => self.step_key(txn, false),
        }
    }

    /// The entry after the one that was deleted at this place.
    fn step_out<'t, S: Snapshot>(&mut self, txn: &'t S) -> Answer<'t> {
        let page = self.page();
        if self.slot < page.len() {
            return self.step_to_value(txn, self.value);
        }
        let Some(page) = self.path.next_leaf(txn.pages())? else { return Ok(None) };
        self.stand(txn, page, 0, false);
        self.give(txn)
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
        let (key, data) = (std::mem::take(&mut self.kept.key), std::mem::take(&mut self.kept.data));
        let found = self.place(txn, table, &key, &data);
        (self.kept.key, self.kept.data) = (key, data);
        if !found? {
            self.leave(State::Gap);
            self.changes = txn.changes();
        }
        Ok(self.state)
    }

    fn check<'t, S: Snapshot>(&self, txn: &'t S) -> Result<&'t OpenTable> {
        if self.unique != txn.unique() {
            return Err(crate::Error::WrongTransaction);
        }
        txn.open_table(self.table)
    }

    /// The pair under the cursor. If it was deleted the cursor moves on to the next one; `None` if
    /// there is none, or if the cursor stands nowhere.
    pub fn current<'t, S: Snapshot>(&mut self, txn: &'t S) -> Result<Option<Entry<'t>>> {
        match self.settle(txn)? {
            State::Nowhere => Ok(None),
            State::Gap => self.seek_saved(txn, false),
            State::Before => self.step_out(txn),
            State::On => self.give(txn),
        }
    }

    /// A copy of the key under (or, deleted, last under) the cursor.
    fn saved_key<S: Snapshot>(&mut self, txn: &S) -> Result<Option<Vec<u8>>> {
        Ok(match self.settle(txn)? {
            State::Nowhere => None,
            State::Gap | State::Before => Some(self.kept.key.clone()),
            State::On => {
                let record = self.page().leaf_record(self.slot);
                Some(search::key_bytes(txn.pages(), &record)?.to_vec())
            }
        })
    }

    /// Copies the key under the cursor and, if keys may have several values, the value: enough to
    /// find the place again in another transaction. False if the cursor is on no entry.
    ///
    /// # Errors
    /// A damaged page, the interruption flag, another transaction.
    pub fn copy_entry<S: Snapshot>(
        &mut self,
        txn: &S,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        if self.settle(txn)? != State::On {
            return Ok(false);
        }
        let record = self.page().leaf_record(self.slot);
        search::key_bytes(txn.pages(), &record)?.copy_to(key);
        if self.is_paired {
            search::entry(txn.pages(), &record, self.value)?.value.copy_to(value);
        }
        Ok(true)
    }

    /// Whether a key of its table may have several values.
    pub fn has_duplicates(&self) -> bool {
        self.is_paired
    }

    /// Whether the cursor stands on an entry and nothing was changed since it came there, so that
    /// its place need not be looked up.
    pub fn is_here<S: Snapshot>(&self, txn: &S) -> bool {
        self.stands(txn)
    }

    /// Whether the cursor is on an entry whose bytes stay as they are, and where they are, for as
    /// long as the transaction goes on, whatever it writes: in a page that it has not changed. In a
    /// read transaction all do.
    pub fn is_on_lasting_entry<S: Snapshot>(&self, txn: &S) -> bool {
        self.stands(txn) && !txn.pages().is_own(self.path.steps[0].page, self.page())
    }

    /// Whether the entry on which the cursor was put last is still there.
    pub fn is_on_entry<S: Snapshot>(&mut self, txn: &S) -> Result<bool> {
        Ok(self.settle(txn)? == State::On)
    }
}
