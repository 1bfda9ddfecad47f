//! Steps inside a leaf that give keys and values in one piece, for callers that need them so: they
//! read no page, cannot fail, and are short enough to be inlined.

use std::mem::MaybeUninit;

use super::{Cursor, Leaf, State};
use crate::tree::bytes::Joined;
use crate::tree::page::{Layout, Page};
use crate::tree::{Bytes, Snapshot};

#[doc(hidden)]
impl Cursor {
    /// As [`Cursor::next_here`], also in a write transaction, the key in one piece: where it
    /// stands, or copied to the beginning of `room`. `None` also where there is too little room,
    /// which is to be somewhat longer than the key.
    #[inline(always)]
    pub fn next_joined<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        room: &mut [MaybeUninit<u8>],
    ) -> Option<(Joined<'t>, &'t [u8])> {
        match self.leaf.layout() {
            Layout::Dense | Layout::Headless => self.next_joined_in(Layout::Dense, txn, room),
            Layout::Aligned => self.next_joined_in(Layout::Aligned, txn, room),
        }
    }

    #[inline(always)]
    fn next_joined_in<'t, S: Snapshot>(
        &mut self,
        layout: Layout,
        txn: &'t S,
        room: &mut [MaybeUninit<u8>],
    ) -> Option<(Joined<'t>, &'t [u8])> {
        let next = self.leaf.next;
        if next >= self.leaf.usual_end || !self.has_leaf(txn) {
            return None;
        }
        let pair = self.step_joined::<S>(layout, next, room)?;
        self.leaf.next = next.wrapping_add(layout.step());
        Some(pair)
    }

    /// As [`Cursor::next_joined`], to the previous pair.
    #[inline(always)]
    pub fn prev_joined<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        room: &mut [MaybeUninit<u8>],
    ) -> Option<(Joined<'t>, &'t [u8])> {
        match self.leaf.layout() {
            Layout::Dense | Layout::Headless => self.prev_joined_in(Layout::Dense, txn, room),
            Layout::Aligned => self.prev_joined_in(Layout::Aligned, txn, room),
        }
    }

    #[inline(always)]
    fn prev_joined_in<'t, S: Snapshot>(
        &mut self,
        layout: Layout,
        txn: &'t S,
        room: &mut [MaybeUninit<u8>],
    ) -> Option<(Joined<'t>, &'t [u8])> {
        let is_only_value = self.value == 0 && !self.leaf.usual_end.is_null();
        if !is_only_value || !self.has_leaf(txn) {
            return None;
        }
        // Two entries back the offset of the one before the cursor's stands, if there is one.
        let previous = self.leaf.next.wrapping_sub(2 * layout.step());
        if previous < self.page().first_offset_address() {
            return None;
        }
        let pair = self.step_joined::<S>(layout, previous, room)?;
        self.leaf.next = self.leaf.next.wrapping_sub(layout.step());
        Some(pair)
    }

    /// Key and value of the record whose offset stands at `offset` in the cursor's leaf, which has
    /// this layout, to which it is about to step. Only to be called while the leaf is that of a
    /// borrowed transaction.
    #[inline(always)]
    fn step_joined<'t, S: Snapshot>(
        &mut self,
        layout: Layout,
        offset: *const u8,
        room: &mut [MaybeUninit<u8>],
    ) -> Option<(Joined<'t>, &'t [u8])> {
        let page: Page<'t> = self.page();
        let (rest, value) = page.plain_record_in(layout, offset)?;
        let key = match self.leaf.shared {
            _ if layout == Layout::Aligned => Joined::Stored(rest),
            0 => Joined::Stored(rest),
            shared => Joined::Copied(page.join_key(shared, rest, room)?),
        };
        if S::WRITES {
            Self::keep(&mut self.kept.key, page, page.shared_of(self.leaf.shared), rest);
            if self.is_paired {
                self.keep_value(page, value.into());
            }
        }
        Some((key, value))
    }

    /// Keeps the value under the cursor, which stands in its leaf.
    #[inline(always)]
    fn keep_value(&mut self, page: Page<'_>, value: Bytes<'_>) {
        let (first, second) = match value.parts() {
            (whole, []) | ([], whole) => (whole, &whole[..0]),
            both => both,
        };
        Self::keep(&mut self.kept.data, page, first, second);
    }

    /// Where the offset of the group under the cursor stands.
    #[inline(always)]
    pub(super) fn offset_here(&self) -> *const u8 {
        self.leaf.next.wrapping_sub(self.leaf.step)
    }

    /// The leaf, while the cursor stands on an entry of it.
    #[inline(always)]
    fn leaf_here<'t, S: Snapshot>(&self, txn: &'t S) -> Option<Page<'t>> {
        (self.state == State::On && self.has_leaf(txn)).then(|| self.page())
    }

    /// Key and value under the cursor, if both stand in one piece in an ALIGNED leaf, the value
    /// alone.
    #[inline(always)]
    pub fn current_stored<'t, S: Snapshot>(&self, txn: &'t S) -> Option<(&'t [u8], &'t [u8])> {
        if self.leaf.layout() != Layout::Aligned {
            return None;
        }
        self.leaf_here(txn)?.plain_record_in(Layout::Aligned, self.offset_here())
    }

    /// Whether the key had another value in the same leaf when the cursor was put on this one.
    #[inline(always)]
    pub fn has_next_value(&self) -> bool {
        self.state == State::On && self.leaf.end.is_null()
    }

    /// Whether the key has another value before this one in the same leaf; only to be asked where
    /// the cursor stands on one of several.
    #[inline(always)]
    pub fn has_previous_value(&self) -> bool {
        self.value > 0
    }

    /// Whether the cursor stood among several values of a key, or nowhere, when it was last moved
    /// by more than steps inside of a leaf.
    #[inline(always)]
    pub fn was_among_values(&self) -> bool {
        self.values != 1
    }

    /// Moves to the next value of the key in an ALIGNED leaf, or with `back` to the one before,
    /// where that is a step inside the leaf, and gives key and value, which stand in one piece.
    /// `None` says nothing about the key, and the cursor has not moved.
    #[inline(always)]
    pub fn value_beside_stored<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        back: bool,
    ) -> Option<(&'t [u8], &'t [u8])> {
        let is_among = self.values > 1 && self.leaf.layout() == Layout::Aligned;
        if !is_among || !back && !self.has_next_value() {
            return None;
        }
        let page = self.leaf_here(txn)?;
        let (key, group) = page.aligned_group_of(self.offset_here())?;
        let value = if back { self.value.checked_sub(1)? } else { self.value + 1 };
        let found = group.rest(value);
        if S::WRITES {
            self.keep_value(page, found.into());
        }
        self.set_value(value);
        Some((key, found))
    }

    /// The next value of the key in one piece, as [`Cursor::next_joined`] gives keys, where that is
    /// a step inside a leaf. `None` says nothing about the key, and the cursor has not moved.
    #[inline(always)]
    pub fn next_value_joined<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        room: &mut [MaybeUninit<u8>],
    ) -> Option<Joined<'t>> {
        if !self.has_next_value() {
            return None;
        }
        let page = self.leaf_here(txn)?;
        let value = self.value + 1;
        let joined = self.value_joined::<S>(page, value, room)?;
        self.value = value;
        if value + 1 == self.values {
            self.leaf = Leaf::at(page, self.slot);
        }
        Some(joined)
    }

    /// As [`Cursor::next_value_joined`], the previous value.
    #[inline(always)]
    pub fn prev_value_joined<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        room: &mut [MaybeUninit<u8>],
    ) -> Option<Joined<'t>> {
        let page = self.leaf_here(txn)?;
        if !self.leaf.end.is_null() {
            self.catch_up();
        }
        let value = self.value.checked_sub(1)?;
        let joined = self.value_joined::<S>(page, value, room)?;
        self.value = value;
        self.leaf.bar();
        Some(joined)
    }

    /// The value under the cursor in one piece, as [`Cursor::next_value_joined`] gives others.
    #[inline(always)]
    pub fn current_joined<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        room: &mut [MaybeUninit<u8>],
    ) -> Option<Joined<'t>> {
        let page = self.leaf_here(txn)?;
        let offset = self.offset_here();
        let plain = match self.leaf.layout() {
            Layout::Dense | Layout::Headless => page.plain_record_in(Layout::Dense, offset),
            Layout::Aligned => page.plain_record_in(Layout::Aligned, offset),
        };
        if let Some((_, value)) = plain {
            return Some(Joined::Stored(value));
        }
        // Among several values no step has moved `leaf.next` only.
        self.value_joined::<S>(page, self.value, room)
    }

    /// A value of the group under the cursor, which has several.
    #[inline(always)]
    fn value_joined<'t, S: Snapshot>(
        &mut self,
        page: Page<'t>,
        value: usize,
        room: &mut [MaybeUninit<u8>],
    ) -> Option<Joined<'t>> {
        let found = page.group_value_of(self.offset_here(), value)?;
        let joined = Self::join(page, found, room)?;
        if S::WRITES {
            self.keep_value(page, found);
        }
        Some(joined)
    }

    /// Moves to the first value of the next group of the leaf (or, with `back`, to the last value
    /// of the group before), in a read transaction, and gives its key as [`Cursor::next_joined`]
    /// does. `None`, and the cursor has not moved, where there is none, or its key is long.
    #[inline(always)]
    pub fn next_group_joined<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        back: bool,
        room: &mut [MaybeUninit<u8>],
    ) -> Option<Joined<'t>> {
        if S::WRITES {
            return None;
        }
        let page = self.leaf_here(txn)?;
        let (slot, offset) = self.group_beside(page, back)?;
        let record = page.leaf_record_of(offset);
        if record.is_long_key() {
            return None;
        }
        let key = Self::join(page, page.whole_key(record.rest()), room)?;
        self.stand_in_group(page, slot, record.value_count(), back);
        Some(key)
    }

    /// The same in an ALIGNED leaf, where key and value stand in one piece: gives both. `None`, and
    /// the cursor has not moved, also where one of them is long.
    #[inline(always)]
    pub fn next_group_stored<'t, S: Snapshot>(
        &mut self,
        txn: &'t S,
        back: bool,
    ) -> Option<(&'t [u8], &'t [u8])> {
        if S::WRITES || self.leaf.layout() != Layout::Aligned {
            return None;
        }
        let page = self.leaf_here(txn)?;
        let (slot, offset) = self.group_beside(page, back)?;
        let Some((key, group)) = page.aligned_group_of(offset) else {
            let pair = page.plain_record_in(Layout::Aligned, offset)?;
            self.stand_in_group(page, slot, 1, back);
            return Some(pair);
        };
        self.stand_in_group(page, slot, group.count(), back);
        Some((key, group.rest(self.value)))
    }

    /// The slot of the next group of the leaf, or with `back` of the one before, and where its
    /// offset stands.
    #[inline(always)]
    fn group_beside(&self, page: Page<'_>, back: bool) -> Option<(usize, *const u8)> {
        let (first, next) = (page.first_offset_address(), self.leaf.next);
        let offset = if back { next.wrapping_sub(2 * self.leaf.step) } else { next };
        if offset < first {
            return None;
        }
        // A step is 2 or 4.
        let slot = (offset as usize - first as usize) >> (self.leaf.step / 2);
        (slot < page.len()).then_some((slot, offset))
    }

    /// Stands on the first value of a group of the leaf, or on the last one.
    #[inline(always)]
    fn stand_in_group(&mut self, page: Page<'_>, slot: usize, values: usize, last: bool) {
        let value = if last { values - 1 } else { 0 };
        (self.slot, self.values, self.value) = (slot, values, value);
        if value + 1 < values {
            self.leaf.next = page.first_offset_address().wrapping_add(self.leaf.step * (slot + 1));
            self.leaf.bar();
        } else {
            self.leaf = Leaf::at(page, slot);
        }
    }

    /// Whether the cursor is surely on the last value of its key: false where that is not seen
    /// without another page.
    #[inline(always)]
    pub fn is_on_last_value<S: Snapshot>(&self, txn: &S) -> bool {
        self.leaf.next < self.leaf.end && self.has_leaf(txn)
    }

    /// The key under the cursor in one piece, if that is short and the cursor stands on an entry.
    #[inline(always)]
    pub fn key_joined<'t, S: Snapshot>(
        &self,
        txn: &'t S,
        room: &mut [MaybeUninit<u8>],
    ) -> Option<Joined<'t>> {
        let page = self.leaf_here(txn)?;
        let record = page.leaf_record_of(self.offset_here());
        if record.is_long_key() {
            return None;
        }
        Self::join(page, page.whole_key(record.rest()), room)
    }

    /// A string that stands in a page, in one piece.
    #[inline(always)]
    fn join<'t>(
        page: Page<'t>,
        string: Bytes<'t>,
        room: &mut [MaybeUninit<u8>],
    ) -> Option<Joined<'t>> {
        let (first, second) = string.parts();
        Some(match (first.is_empty(), second.is_empty()) {
            (true, _) => Joined::Stored(second),
            (_, true) => Joined::Stored(first),
            _ => Joined::Copied(page.join(first, second, room)?),
        })
    }

    /// What tells the group under the cursor from the others of its table, while the cursor stands
    /// in a read transaction: as long as it is the same, so is the key.
    #[inline(always)]
    pub fn group_id(&self) -> usize {
        self.leaf.next as usize
    }
}
