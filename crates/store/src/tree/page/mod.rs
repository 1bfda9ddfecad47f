//! The layout of tree pages: the header that leaves and branches share, and the views on it.
//!
//! ```text
//! | offset | size | name            | meaning                                              |
//! |      0 |    4 | CHECKSUM_OFFSET | CRC-32C of the rest, started from the page's number  |
//! |      4 |    1 | KIND_OFFSET     | 1 leaf, 2 branch                                     |
//! |      5 |    1 | LEVEL_OFFSET    | 0 leaf, else distance to the leaves                  |
//! |      6 |    1 | FLAGS_OFFSET    | CONTINUES, REVERSED, VALUES_REVERSED, PAIRED, WHOLE, |
//! |        |      |                 | ALIGNED, HEADLESS                                    |
//! |      7 |    1 |                 | zero                                                 |
//! |      8 |    8 | BIRTH_OFFSET    | number of the commit that wrote the page             |
//! |     16 |    2 | COUNT_OFFSET    | n: groups of a leaf, children of a branch            |
//! |     18 |    2 | SHARED_OFFSET   | length of what all keys of the page share            |
//! |     20 |    2 | HEAP_OFFSET     | bytes of records at the end of the page              |
//! |     22 |    2 | HOLE_OFFSET     | zero; in a changed leaf the newest of its holes      |
//! |     24 |      |                 | shared bytes, padded with zeros to a multiple of 4   |
//! |        |   4n |                 | (not HEADLESS) heads: what follows the shared bytes, |
//! |        |      |                 | 4 bytes, as a number that orders like the keys       |
//! |        |      |                 | (branch only) 4n: children                           |
//! |        |      |                 | (branch only) running totals of keys, 4n on level 1,  |
//! |        |      |                 | else 8n; with PAIRED the values below likewise       |
//! |        |   2n |                 | offsets of the records; in an ALIGNED leaf 4n, each  |
//! |        |      |                 | followed by the two bytes that tell its lengths      |
//! |        |      |                 | free                                                 |
//! |        |      |                 | records, dense up to the end of the page but for     |
//! |        |      |                 | holes                                                |
//! ```
//!
//! What a record is made of is told in [`record`], what a hole is in [`holes`].
//!
//! Shared bytes are the front of every key (or its tail, in a table ordered from the back:
//! REVERSED). Where the order is a caller's function nothing is shared and heads are zero. In a
//! WHOLE leaf nothing is shared either, by keys and by the values of a group. An ALIGNED leaf is a
//! WHOLE one whose keys and values stand at even addresses. A HEADLESS one is a WHOLE one without
//! heads, under an order that is a caller's function.

#![expect(unsafe_code, reason = "views of validated pages read without bounds checks")]

pub(crate) mod branch;
pub(crate) mod build;
pub(crate) mod cell;
mod cut;
pub(crate) mod group;
mod holes;
mod join;
pub(crate) mod keys;
pub(crate) mod leaf;
pub(crate) mod record;
pub(crate) mod records;
pub(crate) mod search;
pub(crate) mod size;
mod validate;

use std::marker::PhantomData;

use super::page_ref::{ExtentRef, PageNo};
use super::{Bytes, Count};
use crate::checksum::crc32c;
use crate::coding::{put_u16, put_u32, put_u64, u32_at};
use crate::prefetch::{LINE, prefetch_line};

/// The most levels that a tree can have; a page that says otherwise is damaged.
pub(crate) const MAX_LEVELS: usize = 32;

pub(crate) use cell::RestCell;
use join::shift_offsets;
pub(crate) use join::{Joinable, Joining};
pub(crate) use record::{Layout, Record, code};
pub(crate) use validate::validate;

pub(crate) const CHECKSUM_OFFSET: usize = 0;
pub(crate) const KIND_OFFSET: usize = CHECKSUM_OFFSET + 4;
pub(crate) const LEVEL_OFFSET: usize = KIND_OFFSET + 1;
pub(crate) const FLAGS_OFFSET: usize = LEVEL_OFFSET + 1;
pub(crate) const BIRTH_OFFSET: usize = FLAGS_OFFSET + 2;
pub(crate) const COUNT_OFFSET: usize = BIRTH_OFFSET + 8;
pub(crate) const SHARED_OFFSET: usize = COUNT_OFFSET + 2;
pub(crate) const HEAP_OFFSET: usize = SHARED_OFFSET + 2;
pub(crate) const HOLE_OFFSET: usize = HEAP_OFFSET + 2;
/// Where the shared bytes begin.
pub(crate) const HEADER_LEN: usize = HOLE_OFFSET + 2;

pub(crate) const KIND_LEAF: u8 = 1;
pub(crate) const KIND_BRANCH: u8 = 2;

/// The first group of the leaf goes on with the values of the last key of the leaf before it.
pub(crate) const CONTINUES: u8 = 1;
/// Keys are compared and shared from the back.
pub(crate) const REVERSED: u8 = 2;
/// Values of a key are compared and shared from the back.
pub(crate) const VALUES_REVERSED: u8 = 4;
/// A branch counts keys and values apart (the table has duplicates).
pub(crate) const PAIRED: u8 = 8;
/// A leaf whose keys and values stand in one piece: neither shares anything.
pub(crate) const WHOLE: u8 = 16;
/// A WHOLE leaf with the lengths of its records in the slots.
pub(crate) const ALIGNED: u8 = 32;
/// A WHOLE leaf without heads, under an order that is a caller's function.
pub(crate) const HEADLESS: u8 = 64;

/// The length of the cell that names a value's extent: first page, length, sum.
pub(crate) const EXTENT_CELL: usize = 12;
/// The length of a key's extent cell without the known bytes: as above, and their number.
pub(crate) const KEY_EXTENT_CELL: usize = EXTENT_CELL + 2;
/// How many bytes of a long key are kept in the page beside its extent cell.
pub(crate) const KNOWN_MAX: usize = 48;

/// The longest key that is kept in a page of this size whole.
pub(crate) fn max_inline_key(page_size: usize) -> usize {
    page_size / 8
}

/// The longest record of a leaf with one value: at least two fit in a page. A longer value has
/// pages of its own, and would take most of one here too.
pub(crate) fn max_inline_record(page_size: usize) -> usize {
    (page_size - HEADER_LEN - 64) / 2
}

/// Pads a length to a multiple of 4.
#[inline(always)]
pub(crate) fn pad4(len: usize) -> usize {
    (len + 3) & !3
}

/// A key as a page knows it: its bytes in two pieces, and where the whole stands if they are only
/// the known part of it (its front, or its tail where the order is from the back).
#[derive(Clone, Copy)]
pub(crate) struct KeyCell<'a> {
    pub(crate) known: Bytes<'a>,
    pub(crate) extent: Option<ExtentRef>,
}

/// A value as a page holds it.
#[derive(Clone, Copy)]
pub(crate) enum ValueCell<'a> {
    Inline(Bytes<'a>),
    Extent(ExtentRef),
}

/// A well-formed tree page: one that passed [`validate`], or one that this process built.
///
/// The views read without bounds checks: `validate` has shown that all they can reach lies inside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    base: *const u8,
    size: usize,
    bytes: PhantomData<&'a [u8]>,
}

/// A view of bytes that are page `no` of a store whose pages end before `end`, once they have
/// proved to be well formed.
pub(crate) fn checked(bytes: &[u8], no: PageNo, end: PageNo) -> Result<Page<'_>, &'static str> {
    validate(bytes, no, end)?;
    // SAFETY: the bytes are borrowed for the life of the view, and `validate` accepts them.
    Ok(unsafe { Page::new(bytes.as_ptr(), bytes.len()) })
}

impl<'a> Page<'a> {
    /// A view of a page.
    ///
    /// # Safety
    /// `base` points to `size` bytes that are initialised, not written during `'a`, and form a
    /// page for which [`validate`] returns `Ok` (its checksum aside).
    #[inline(always)]
    pub(crate) unsafe fn new(base: *const u8, size: usize) -> Self {
        Self { base, size, bytes: PhantomData }
    }

    #[inline(always)]
    fn byte(self, at: usize) -> u8 {
        debug_assert!(at < self.size);
        // SAFETY: inside the page by the type's invariant.
        unsafe { *self.base.add(at) }
    }

    #[inline(always)]
    fn half(self, at: usize) -> usize {
        debug_assert!(at + 2 <= self.size);
        // SAFETY: inside the page by the type's invariant.
        usize::from(u16::from_le(unsafe { self.base.add(at).cast::<u16>().read_unaligned() }))
    }

    #[inline(always)]
    fn word(self, at: usize) -> u32 {
        debug_assert!(at + 4 <= self.size);
        // SAFETY: inside the page by the type's invariant.
        u32::from_le(unsafe { self.base.add(at).cast::<u32>().read_unaligned() })
    }

    /// Whether the bytes of the lengths in a slot of an ALIGNED leaf, which is at an aligned
    /// address, have no top bit.
    #[inline(always)]
    pub(crate) fn has_short_slot(self, address: *const u8) -> bool {
        debug_assert!(address.addr().is_multiple_of(4));
        debug_assert!(address.addr() + 4 <= self.base.addr() + self.size);
        // SAFETY: inside the page by the type's invariant, and aligned, since headers and heads
        // take multiples of 4.
        let slot = unsafe { address.cast::<u32>().read_volatile() };
        slot & u32::from_ne_bytes([0, 0, 0x80, 0x80]) == 0
    }

    /// The parts of such a slot: where the record stands, and the bytes of its lengths. Each has a
    /// load of its own: the compiler would take them from one load, by four instructions more.
    #[inline(always)]
    fn short_slot(self, address: *const u8) -> (usize, usize, usize) {
        debug_assert!(self.has_short_slot(address));
        // SAFETY: as in `has_short_slot`.
        let (at, key, value) = unsafe {
            let at = address.cast::<u16>().read_volatile();
            (at, address.add(2).read_volatile(), address.add(3).read_volatile())
        };
        (usize::from(u16::from_le(at)), usize::from(key), usize::from(value))
    }

    #[inline(always)]
    fn long(self, at: usize) -> u64 {
        debug_assert!(at + 8 <= self.size);
        // SAFETY: inside the page by the type's invariant.
        u64::from_le(unsafe { self.base.add(at).cast::<u64>().read_unaligned() })
    }

    #[inline(always)]
    fn slice(self, at: usize, len: usize) -> &'a [u8] {
        debug_assert!(at + len <= self.size);
        // SAFETY: inside the page by the type's invariant.
        unsafe { std::slice::from_raw_parts(self.base.add(at), len) }
    }

    /// The eight bytes before the end of a part of a record of the page, as a big-endian number:
    /// the header alone is longer.
    #[inline(always)]
    pub(crate) fn number_before(self, part: &'a [u8]) -> u64 {
        let end = part.as_ptr().addr() + part.len() - self.base.addr();
        debug_assert!((HEADER_LEN..=self.size).contains(&end));
        self.long(end - 8).swap_bytes()
    }

    /// All bytes of the page.
    #[inline(always)]
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.slice(0, self.size)
    }

    /// Identifies the page in memory.
    #[inline(always)]
    pub(crate) fn address(self) -> *const u8 {
        self.base
    }

    /// Whether its numbers and records are aligned in memory, too.
    #[inline(always)]
    pub(crate) fn is_at_aligned_address(self) -> bool {
        self.base.addr().is_multiple_of(4)
    }

    #[inline(always)]
    pub(crate) fn level(self) -> u8 {
        self.byte(LEVEL_OFFSET)
    }

    #[inline(always)]
    pub(crate) fn is_leaf(self) -> bool {
        self.level() == 0
    }

    #[inline(always)]
    pub(crate) fn flags(self) -> u8 {
        self.byte(FLAGS_OFFSET)
    }

    /// Whether keys are compared and shared from the back.
    #[inline(always)]
    pub(crate) fn is_reversed(self) -> bool {
        self.flags() & REVERSED != 0
    }

    pub(crate) fn birth(self) -> u64 {
        self.long(BIRTH_OFFSET)
    }

    /// Whether the bytes of the header that have no meaning, and the padding, are zero.
    pub(crate) fn has_zeros(self) -> bool {
        let padding = HEADER_LEN + self.half(SHARED_OFFSET)..self.heads_at();
        self.byte(FLAGS_OFFSET + 1) == 0
            && self.half(HOLE_OFFSET) == 0
            && padding.into_iter().all(|at| self.byte(at) == 0)
    }

    /// Groups of a leaf, children of a branch.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.half(COUNT_OFFSET)
    }

    #[inline(always)]
    pub(crate) fn shared(self) -> &'a [u8] {
        self.slice(HEADER_LEN, self.half(SHARED_OFFSET))
    }

    #[inline(always)]
    pub(crate) fn heap_len(self) -> usize {
        self.half(HEAP_OFFSET)
    }

    #[inline(always)]
    pub(crate) fn heads_at(self) -> usize {
        HEADER_LEN + pad4(self.half(SHARED_OFFSET))
    }

    /// The head of slot `i`. Of a HEADLESS leaf, which nobody asks for heads but where the file is
    /// damaged, some bytes of the page: a record takes two at least, so that it has as many.
    #[inline(always)]
    pub(crate) fn head(self, i: usize) -> u32 {
        self.word(self.heads_at() + 4 * i)
    }

    #[inline(always)]
    pub(crate) fn has_heads(self) -> bool {
        self.flags() & HEADLESS == 0
    }

    /// Bytes of all heads of a leaf.
    #[inline(always)]
    fn heads_len(self) -> usize {
        const { assert!(HEADLESS >> 4 == 4) };
        (4 - usize::from((self.flags() & HEADLESS) >> 4)) * self.len()
    }

    /// Bytes for one slot in all arrays.
    #[inline(always)]
    pub(crate) fn slot_len(self) -> usize {
        slot_len(self.level(), self.flags())
    }

    /// From one record's offset to the next one's.
    #[inline(always)]
    pub(crate) fn step(self) -> usize {
        const { assert!(ALIGNED >> 4 == 2) };
        2 + usize::from((self.flags() & ALIGNED) >> 4)
    }

    /// Where the offsets of the records stand.
    #[inline(always)]
    fn offsets_at(self) -> usize {
        self.heads_at() + (self.slot_len() - self.step()) * self.len()
    }

    /// Where in memory the offset of a leaf's group `i` stands; `i` may be the number of groups.
    #[inline(always)]
    pub(crate) fn offset_address(self, i: usize) -> *const u8 {
        self.base.wrapping_add(self.leaf_offset_at(i))
    }

    /// The same of the first group.
    #[inline(always)]
    pub(crate) fn first_offset_address(self) -> *const u8 {
        self.base.wrapping_add(self.heads_at() + self.heads_len())
    }

    /// The same in an ALIGNED leaf, which has no shared bytes.
    #[inline(always)]
    pub(crate) fn first_aligned_offset_address(self) -> *const u8 {
        debug_assert!(self.is_aligned_leaf());
        self.base.wrapping_add(HEADER_LEN + 4 * self.len())
    }

    #[inline(always)]
    fn leaf_offset_at(self, i: usize) -> usize {
        self.heads_at() + self.heads_len() + self.step() * i
    }

    /// The same in a leaf of this layout.
    #[inline(always)]
    fn leaf_offset_in(self, layout: Layout, i: usize) -> usize {
        self.heads_at() + layout.head_len() * self.len() + layout.step() * i
    }

    /// The shared bytes, whose number the caller knows.
    #[inline(always)]
    pub(crate) fn shared_of(self, len: usize) -> &'a [u8] {
        self.slice(HEADER_LEN, len)
    }

    /// A key of which the page's records hold the rest.
    #[inline(always)]
    pub(crate) fn whole_key(self, rest: &'a [u8]) -> Bytes<'a> {
        let (first, second) = self.parts_of_key(rest);
        Bytes::new(first, second)
    }

    /// The same in its parts.
    #[inline(always)]
    pub(crate) fn parts_of_key(self, rest: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        if self.is_reversed() { (rest, self.shared()) } else { (self.shared(), rest) }
    }

    /// Bytes of the page that are in use, holes aside.
    pub(crate) fn used(self) -> usize {
        self.heads_at() + self.slot_len() * self.len() + self.heap_len() - self.holes_len()
    }

    /// Bytes of the page that are free, holes included.
    #[inline(always)]
    pub(crate) fn free(self) -> usize {
        self.size - self.used()
    }

    /// Bytes of a page that is known to be a leaf that are free in one piece.
    #[inline(always)]
    pub(crate) fn leaf_free(self) -> usize {
        debug_assert!(self.is_leaf());
        self.size - self.front() - self.heap_len()
    }

    /// Prefetches the heads and offsets of a leaf that lie after its beginning, which
    /// [`Pages::prefetch`](super::pages::Pages::prefetch) has prefetched.
    #[inline(always)]
    pub(crate) fn fetch_slots(self) {
        (FETCHED..self.front()).step_by(LINE).for_each(|at| self.fetch(at));
    }

    /// Where the heads and offsets of a leaf end.
    #[inline(always)]
    pub(crate) fn front(self) -> usize {
        self.leaf_offset_at(self.len())
    }

    /// Where a leaf's record begins.
    #[inline(always)]
    pub(crate) fn record_offset(self, i: usize) -> usize {
        self.half(self.leaf_offset_at(i))
    }

    /// Has the processor fetch the beginning of a leaf's record.
    #[inline(always)]
    pub(crate) fn fetch_record(self, i: usize) {
        let at = self.record_offset(i);
        self.fetch(at);
        self.fetch(at + LINE);
    }

    /// Has the processor fetch the cache line of a byte.
    #[inline(always)]
    fn fetch(self, at: usize) {
        prefetch_line(self.base.wrapping_add(at));
    }

    fn extent_at(self, at: usize) -> ExtentRef {
        ExtentRef { first: self.word(at), len: self.word(at + 4), sum: self.word(at + 8) }
    }
}

/// How much of a page is fetched before it is looked at.
pub(crate) const FETCHED: usize = 4 * LINE;

/// Bytes for one slot in all arrays of a page.
#[inline(always)]
pub(crate) fn slot_len(level: u8, flags: u8) -> usize {
    if level == 0 {
        return Layout::of(flags).slot_len();
    }
    let width = count_width(level);
    let counts = if flags & PAIRED != 0 { 2 * width } else { width };
    4 + 4 + counts + 2
}

/// The width of a branch's counters: a leaf holds less than 2^16 values, deeper ones need 64 bits.
#[inline(always)]
pub(crate) fn count_width(level: u8) -> usize {
    if level == 1 { 4 } else { 8 }
}

/// A page under construction or change.
pub(crate) struct PageMut<'a> {
    bytes: &'a mut [u8],
}

impl<'a> PageMut<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes }
    }

    /// The page for reading.
    #[inline(always)]
    pub(crate) fn view(&self) -> Page<'_> {
        // SAFETY: every method of this type leaves the page well formed, and it borrows `self`.
        unsafe { Page::new(self.bytes.as_ptr(), self.bytes.len()) }
    }

    pub(crate) fn set_birth(&mut self, txn: u64) {
        put_u64(self.bytes, BIRTH_OFFSET, txn);
    }

    /// Makes the page an empty one.
    pub(crate) fn format(&mut self, level: u8, flags: u8) {
        self.bytes[..HEADER_LEN].fill(0);
        self.bytes[KIND_OFFSET] = if level == 0 { KIND_LEAF } else { KIND_BRANCH };
        self.bytes[LEVEL_OFFSET] = level;
        self.bytes[FLAGS_OFFSET] = flags;
    }

    pub(crate) fn set_flag(&mut self, flag: u8, on: bool) {
        if on {
            self.bytes[FLAGS_OFFSET] |= flag;
        } else {
            self.bytes[FLAGS_OFFSET] &= !flag;
        }
    }

    fn set_len(&mut self, n: usize) {
        put_u16(self.bytes, COUNT_OFFSET, n as u16);
    }

    fn set_heap_len(&mut self, len: usize) {
        put_u16(self.bytes, HEAP_OFFSET, len as u16);
    }

    /// Takes the bytes `at..at + len` out of the heap and closes the gap.
    fn cut_heap(&mut self, at: usize, len: usize) {
        let view = self.view();
        let heap = view.heap_len();
        let n = view.len();
        let (offsets, step) = (view.offsets_at(), view.step());
        let start = self.bytes.len() - heap;
        self.bytes.copy_within(start..at, start + len);
        self.set_heap_len(heap - len);
        shift_offsets(&mut self.bytes[offsets..offsets + step * n], step, at, len as u16);
    }

    /// Makes room for `len` bytes at the bottom of the heap; returns where.
    fn grow_heap(&mut self, len: usize) -> usize {
        let heap = self.view().heap_len() + len;
        self.set_heap_len(heap);
        self.bytes.len() - heap
    }
}

/// Stores the checksum of a finished page that will be page `no`.
pub(crate) fn seal(bytes: &mut [u8], no: PageNo) {
    let sum = crc32c(u64::from(no), &bytes[KIND_OFFSET..]);
    put_u32(bytes, CHECKSUM_OFFSET, sum);
}

/// Whether a page's checksum is right for page `no`.
pub(crate) fn is_sealed(bytes: &[u8], no: PageNo) -> bool {
    u32_at(bytes, CHECKSUM_OFFSET) == crc32c(u64::from(no), &bytes[KIND_OFFSET..])
}

/// Writes an extent cell.
pub(crate) fn put_extent(out: &mut [u8], at: usize, extent: &ExtentRef) {
    put_u32(out, at, extent.first);
    put_u32(out, at + 4, extent.len);
    put_u32(out, at + 8, extent.sum);
}

/// Adds two counts. Those of a damaged page may be anything, so it wraps.
#[inline(always)]
pub(crate) fn add(a: Count, b: Count) -> Count {
    Count { keys: a.keys.wrapping_add(b.keys), values: a.values.wrapping_add(b.values) }
}
