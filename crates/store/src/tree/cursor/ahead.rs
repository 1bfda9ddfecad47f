//! The entries ahead of a cursor in its leaf, for callers that cannot afford to check at each step
//! whether the cursor still stands where it did.

#![expect(unsafe_code, reason = "it keeps the address of a leaf that it borrows")]

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::{Cursor, Leaf, State};
use crate::prefetch::{LINE, prefetch_line};
use crate::tree::bytes::Joined;
use crate::tree::page::{Joinable, Joining, Layout, Page};
use crate::tree::page_ref::{PAGE_BYTES_MIN, PageRef};
use crate::tree::pages::PageFile;
use crate::tree::snapshot::sealed::Sealed;
use crate::tree::{ReadTxn, path};

/// Room for the key that [`Step::joined`] gives.
pub type KeyRoom = [MaybeUninit<u8>; Joining::ROOM];

/// The entries after and before a [`Cursor`] in its leaf and, in a longer scan, those of the leaves
/// beside it. It borrows the transaction, which therefore neither ends nor is renewed, and steps by
/// itself; [`Cursor::follow`] then moves the cursor to its place.
#[derive(Clone, Copy, Debug)]
pub struct Ahead<'t> {
    /// Where the offset of the next entry stands.
    next: *const u8,
    /// Where it stood when the cursor was last at the same place.
    followed: *const u8,
    /// The beginning of the offsets.
    begin: *const u8,
    /// The end of the offsets, in an ALIGNED leaf; else null, as with nothing ahead.
    stored_end: *const u8,
    /// The same in another leaf; else null.
    dense_end: *const u8,
    base: *const u8,
    size: usize,
    joining: Joining,
    leaves: Leaves<'t>,
    /// With the [`lines`] of an offset, that line of the page to which steps back lead next, to be
    /// fetched; of this page, if that one is not known or was fetched at once.
    fetched: *const u8,
    borrowed: PhantomData<&'t ReadTxn>,
}

/// From this many entries on the leaf before one is fetched line by line, a line each step: the
/// processor does not foresee that a lower page is read next, and would have to wait if it were to
/// fetch all lines at once.
const FETCHED_BY_STEPS: usize = PAGE_BYTES_MIN / LINE;

/// The leaves beside one, as far as they are children of the same branch.
#[derive(Clone, Copy)]
struct Leaves<'t> {
    /// Where the reference to the next leaf stands, and the beginning and the end of the branch's
    /// references; null, as `file` is nothing, if none is known.
    next: *const u8,
    begin: *const u8,
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
        begin: std::ptr::null(),
        end: std::ptr::null(),
        file: None,
        first: std::ptr::null(),
        leaf: std::ptr::null(),
        above: path::Step { page: PageRef::NONE, slot: 0 },
        unique: 0,
    };

    /// How many of them have been entered; less than none if the leaf is one before the first.
    #[inline(always)]
    fn entered(&self) -> isize {
        (self.next.addr() as isize - self.first.addr() as isize) / 4
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

    /// The same of the one before.
    #[inline(always)]
    fn enter_before(&self) -> Option<(Page<'t>, *const u8)> {
        let file = self.file?;
        let before = self.next.wrapping_sub(8);
        if before < self.begin || file.is_interrupted() {
            return None;
        }
        // SAFETY: as in `enter`: the reference before that to the leaf is not before the first.
        let page = file.checked_page(unsafe { reference(before) })?;
        Some((page, self.next.wrapping_sub(4)))
    }

    /// The leaf before one of `len` entries, if it is known and steps are to fetch it; where these
    /// are few it is fetched at once.
    #[inline(always)]
    fn fetched_by_steps(&self, len: usize) -> Option<*const u8> {
        let (file, before) = (self.file?, self.next.wrapping_sub(8));
        if before < self.begin {
            return None;
        }
        // SAFETY: as in `enter_before`.
        let at = unsafe { reference(before) };
        if len < FETCHED_BY_STEPS {
            file.fetch_next(at, true);
            return None;
        }
        Some(file.address_to_fetch(at))
    }

    /// Has entered a leaf: has the processor fetch the one after it.
    #[inline(always)]
    fn set_next(&mut self, next: *const u8) {
        self.next = next;
        if let Some(file) = self.file
            && next < self.end
        {
            // SAFETY: as in `enter`.
            file.fetch_next(unsafe { reference(next) }, false);
        }
    }
}

/// The address of an offset, times so much that the next offset is a line further.
#[inline(always)]
fn lines(offset: *const u8, layout: Layout) -> usize {
    offset.addr().wrapping_mul(LINE / layout.step())
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
        followed: std::ptr::null(),
        begin: std::ptr::null(),
        stored_end: std::ptr::null(),
        dense_end: std::ptr::null(),
        base: std::ptr::null(),
        size: 0,
        joining: Joining::NONE,
        leaves: Leaves::NONE,
        fetched: std::ptr::null(),
        borrowed: PhantomData,
    };

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

    /// Stands in a leaf of this layout, from where steps lead back.
    #[inline(always)]
    fn set_fetched(&mut self, page: Page<'t>, layout: Layout) {
        let fetched = self.leaves.fetched_by_steps(page.len()).unwrap_or(page.address());
        self.fetched = fetched.wrapping_sub(lines(self.begin, layout));
    }

    /// A step back has led to the entry whose offset stands before `here`: has a line of the leaf
    /// before fetched.
    #[inline(always)]
    fn fetch_line(&self, here: *const u8, layout: Layout) {
        prefetch_line(self.fetched.wrapping_add(lines(here, layout)));
    }

    /// The page, if it is an ALIGNED leaf.
    #[inline(always)]
    fn aligned_page(&self) -> Option<Page<'t>> {
        // SAFETY: as in `step`.
        (!self.stored_end.is_null()).then(|| unsafe { Page::new(self.base, self.size) })
    }

    /// Steps back to the key before in an ALIGNED leaf, if both keys have one value, and both
    /// values are short. Key and value go to `give`. `None`, and nothing done, elsewhere.
    #[inline(always)]
    pub fn back_short<R>(&mut self, give: impl FnOnce(&'t [u8], &'t [u8]) -> R) -> Option<R> {
        let page = self.aligned_page()?;
        let (here, before) = self.here_and_before(Layout::Aligned);
        if before < self.begin || !page.has_short_slot(here) || !page.has_short_slot(before) {
            return None;
        }
        self.next = here;
        self.fetch_line(here, Layout::Aligned);
        let (key, value) = page.short_record(before);
        Some(give(key, value))
    }

    /// The same if only the keys are short.
    #[inline(always)]
    pub fn back_stored(&mut self) -> Option<(&'t [u8], &'t [u8])> {
        let page = self.aligned_page()?;
        let (here, before) = self.here_and_before(Layout::Aligned);
        if before < self.begin {
            return None;
        }
        if self.is_at_start() {
            page.plain_record_in(Layout::Aligned, here)?;
        }
        let pair = page.plain_record_in(Layout::Aligned, before)?;
        self.next = here;
        self.fetch_line(here, Layout::Aligned);
        Some(pair)
    }

    /// Steps back from the first key of an ALIGNED leaf to the last one of the leaf before. `None`,
    /// and nothing done, as for [`Ahead::next_stored_leaf`].
    #[inline(always)]
    pub fn back_stored_leaf<R>(&mut self, give: impl FnOnce(&'t [u8], &'t [u8]) -> R) -> Option<R> {
        let (page, step) = (self.aligned_page()?, Layout::Aligned.step());
        let (here, _) = self.here_and_before(Layout::Aligned);
        if here != self.begin || !page.has_short_slot(here) {
            return None;
        }
        let (page, next) = self.leaves.enter_before()?;
        if !page.is_aligned_leaf() {
            return None;
        }
        // As in `next_stored_leaf`.
        let begin = page.first_aligned_offset_address();
        let end = begin.wrapping_add(step * page.len());
        let last = end.wrapping_sub(step);
        if !page.has_short_slot(last) {
            return None;
        }
        (self.begin, self.next, self.stored_end) = (begin, end, end);
        self.base = page.address();
        self.leaves.next = next;
        self.set_fetched(page, Layout::Aligned);
        let (key, value) = page.short_record(last);
        Some(give(key, value))
    }

    /// Steps back in another leaf, if both keys have one value. `None`, and nothing done, if not.
    #[inline(always)]
    pub fn back(&mut self) -> Option<Step<'t>> {
        let page = self.dense_page()?;
        let (here, before) = self.here_and_before(Layout::Dense);
        if before < self.begin {
            return None;
        }
        if self.is_at_start() {
            page.joinable_of(&self.joining, here)?;
        }
        let record = page.joinable_of(&self.joining, before)?;
        self.next = here;
        self.fetch_line(here, Layout::Dense);
        Some(Step { page, shared: self.joining.shared(), record })
    }

    /// Steps back from the first key of such a leaf to the last one of the leaf before. `None`, and
    /// nothing done, as for [`Ahead::next_leaf`].
    #[inline(always)]
    pub fn back_leaf(&mut self, room: &mut KeyRoom) -> Option<(Joined<'t>, &'t [u8])> {
        let (page, step) = (self.dense_page()?, Layout::Dense.step());
        let (here, _) = self.here_and_before(Layout::Dense);
        if here != self.begin {
            return None;
        }
        if self.is_at_start() {
            page.joinable_of(&self.joining, here)?;
        }
        let (page, next) = self.leaves.enter_before()?;
        if !page.is_leaf() || page.is_aligned() {
            return None;
        }
        let joining = page.joining()?;
        let begin = page.first_offset_address();
        let end = begin.wrapping_add(step * page.len());
        let record = page.joinable_of(&joining, end.wrapping_sub(step))?;
        (self.begin, self.next, self.dense_end) = (begin, end, end);
        (self.base, self.joining) = (page.address(), joining);
        self.leaves.next = next;
        self.set_fetched(page, Layout::Dense);
        Some(Step { page, shared: joining.shared(), record }.joined(room))
    }

    /// Whether no step has led away from where the cursor stands: perhaps on the last of several
    /// values. Steps lead to keys with one value.
    #[inline(always)]
    fn is_at_start(&self) -> bool {
        self.next == self.followed
    }

    /// The page, if it is a leaf but no ALIGNED one.
    #[inline(always)]
    fn dense_page(&self) -> Option<Page<'t>> {
        // SAFETY: as in `step`.
        self.is_of_dense_leaf().then(|| unsafe { Page::new(self.base, self.size) })
    }

    /// Whether the leaf is none of the ALIGNED ones.
    #[inline(always)]
    pub fn is_of_dense_leaf(&self) -> bool {
        !self.dense_end.is_null()
    }

    /// Copies what the keys of such a leaf share to the beginning of `room`.
    #[inline(always)]
    pub fn put_shared(&self, room: &mut KeyRoom) {
        if let Some(page) = self.dense_page() {
            page.put_shared(self.joining.shared(), room);
        }
    }

    /// Where the offset of the entry stands to which the last step led, and that of the one before.
    #[inline(always)]
    fn here_and_before(&self, layout: Layout) -> (*const u8, *const u8) {
        let step = layout.step();
        (self.next.wrapping_sub(step), self.next.wrapping_sub(2 * step))
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
        (self.begin, self.next) = (first, first.wrapping_add(Layout::Aligned.step()));
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
        (self.begin, self.next) = (first, first.wrapping_add(Layout::Dense.step()));
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

    /// The same, where `room` begins with what the keys of the leaf share: since
    /// [`Ahead::put_shared`], or a step to the leaf that was given it.
    #[inline(always)]
    pub fn joined_again(self, room: &mut KeyRoom) -> (Joined<'t>, &'t [u8]) {
        self.page.joined_again(self.shared, self.record, room)
    }
}

#[doc(hidden)]
impl Cursor {
    /// What lies ahead of the cursor in its leaf, if there is something that usual steps lead to,
    /// and in the leaves after it, if the cursor is on a longer way.
    #[inline(always)]
    pub fn ahead<'t>(&self, txn: &'t ReadTxn) -> Option<Ahead<'t>> {
        if self.leaf.next >= self.leaf.usual_end { None } else { self.beside(txn) }
    }

    /// The same for steps back.
    #[inline(always)]
    pub fn behind<'t>(&self, txn: &'t ReadTxn) -> Option<Ahead<'t>> {
        if self.leaf.usual_end.is_null() {
            return None;
        }
        let mut ahead = self.beside(txn)?;
        ahead.set_fetched(self.page(), self.leaf.layout());
        Some(ahead)
    }

    /// What lies beside a cursor that stands on the last value of a key.
    #[inline(always)]
    fn beside<'t>(&self, txn: &'t ReadTxn) -> Option<Ahead<'t>> {
        let leaf = &self.leaf;
        if !self.has_leaf(txn) {
            return None;
        }
        let (page, none) = (self.page(), std::ptr::null());
        let is_aligned = leaf.dense_end.is_null();
        if is_aligned && !page.is_at_aligned_address() {
            return None;
        }
        Some(Ahead {
            next: leaf.next,
            followed: leaf.next,
            begin: page.first_offset_address(),
            stored_end: if is_aligned { leaf.usual_end } else { none },
            dense_end: leaf.dense_end,
            base: leaf.base,
            size: leaf.size,
            joining: page.joining()?,
            leaves: if self.path.is_scan() { self.leaves_beside(txn) } else { Leaves::NONE },
            fetched: leaf.base,
            borrowed: PhantomData,
        })
    }

    /// The leaves beside the cursor's below the same branch.
    #[inline(never)]
    fn leaves_beside<'t>(&self, txn: &'t ReadTxn) -> Leaves<'t> {
        let (above, file) = (self.path.steps[1], &*txn.pages().file);
        let Some(branch) = file.checked_page(above.page).filter(|page| page.level() == 1) else {
            return Leaves::NONE;
        };
        let next = branch.child_address(above.slot as usize + 1);
        let (begin, end) = (branch.child_address(0), branch.child_address(branch.len()));
        let (leaf, unique) = (self.leaf.base, self.unique);
        Leaves { next, begin, end, file: Some(file), first: next, leaf, above, unique }
    }

    /// Goes to where the steps have led. No effect if the cursor has been moved since.
    #[inline(always)]
    pub fn follow(&mut self, ahead: &mut Ahead<'_>) {
        if ahead.leaves.next != ahead.leaves.first {
            return self.follow_far(ahead);
        }
        let end = if ahead.stored_end.is_null() { ahead.dense_end } else { ahead.stored_end };
        let leaf = &mut self.leaf;
        // The same leaf, and what is in between are places of this cursor's, too.
        if leaf.base == ahead.base && leaf.usual_end == end && leaf.next == ahead.followed {
            leaf.next = ahead.next;
            ahead.followed = ahead.next;
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
        ahead.followed = ahead.next;
    }
}

/// For tests that fill all of `room` first: a string whose copy stands at the beginning of `room`.
#[cfg(test)]
fn whole(string: Joined<'_>, room: &KeyRoom) -> Vec<u8> {
    match string {
        Joined::Stored(whole) => whole.to_vec(),
        Joined::Copied(len) => {
            // SAFETY: the test has written the whole room.
            room[..len].iter().map(|byte| unsafe { byte.assume_init() }).collect()
        }
    }
}

#[cfg(test)]
mod tests;
