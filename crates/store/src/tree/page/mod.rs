//! The layout of tree pages: the header that leaves and branches share, and the views on it.
//!
//! ```text
//! | offset | size | name            | meaning                                              |
//! |      0 |    4 | CHECKSUM_OFFSET | CRC-32C of the rest, started from the page's number  |
//! |      4 |    1 | KIND_OFFSET     | 1 leaf, 2 branch                                     |
//! |      5 |    1 | LEVEL_OFFSET    | 0 leaf, else distance to the leaves                  |
//! |      6 |    1 | FLAGS_OFFSET    | CONTINUES, REVERSED, VALUES_REVERSED, PAIRED, WHOLE  |
//! |      7 |    1 |                 | zero                                                 |
//! |      8 |    8 | BIRTH_OFFSET    | number of the commit that wrote the page             |
//! |     16 |    2 | COUNT_OFFSET    | n: groups of a leaf, children of a branch            |
//! |     18 |    2 | SHARED_OFFSET   | length of what all keys of the page share            |
//! |     20 |    2 | HEAP_OFFSET     | bytes of records at the end of the page              |
//! |     22 |    2 |                 | zero                                                 |
//! |     24 |      |                 | shared bytes, padded with zeros to a multiple of 4   |
//! |        |   4n |                 | heads: what follows the shared bytes, 4 bytes, as a  |
//! |        |      |                 | number that orders like the keys                     |
//! |        |      |                 | (branch only) 4n: children                           |
//! |        |      |                 | (branch only) running totals of keys, 4n on level 1,  |
//! |        |      |                 | else 8n; with PAIRED the values below likewise       |
//! |        |   2n |                 | offsets of the records                               |
//! |        |      |                 | free                                                 |
//! |        |      |                 | records, dense up to the end of the page             |
//! ```
//!
//! A record begins with two lengths, of the key's rest and of what follows it: one byte below 128,
//! else two with the first one's top bit set. Codes from [`code::FIRST`] on are no lengths: the key
//! stands in an extent, the value does, or a group of values follows.
//!
//! Shared bytes are the front of every key (or its tail, in a table ordered from the back:
//! REVERSED). Where the order is a caller's function nothing is shared and heads are zero. In a
//! WHOLE leaf nothing is shared either, by keys and by the values of a group.

#![expect(unsafe_code, reason = "views of validated pages read without bounds checks")]

pub(crate) mod branch;
pub(crate) mod build;
pub(crate) mod group;
pub(crate) mod leaf;
pub(crate) mod records;
pub(crate) mod search;
mod validate;

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::bytes::Joined;
use super::page_ref::{ExtentRef, PageNo};
use super::{Bytes, Count};
use crate::checksum::crc32c;
use crate::coding::{put_u16, put_u32, put_u64, u32_at};

/// The most levels that a tree can have; a page that says otherwise is damaged.
pub(crate) const MAX_LEVELS: usize = 32;

pub(crate) use validate::validate;

pub(crate) const CHECKSUM_OFFSET: usize = 0;
pub(crate) const KIND_OFFSET: usize = CHECKSUM_OFFSET + 4;
pub(crate) const LEVEL_OFFSET: usize = KIND_OFFSET + 1;
pub(crate) const FLAGS_OFFSET: usize = LEVEL_OFFSET + 1;
pub(crate) const BIRTH_OFFSET: usize = FLAGS_OFFSET + 2;
pub(crate) const COUNT_OFFSET: usize = BIRTH_OFFSET + 8;
pub(crate) const SHARED_OFFSET: usize = COUNT_OFFSET + 2;
pub(crate) const HEAP_OFFSET: usize = SHARED_OFFSET + 2;
/// Where the shared bytes begin.
pub(crate) const HEADER_LEN: usize = HEAP_OFFSET + 4;

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

/// Codes that stand where a record has a length.
pub(crate) mod code {
    /// Codes begin here; lengths in a page end before (a record is at most a quarter page).
    pub(crate) const FIRST: u32 = 0x7FF0;
    /// A group of several values follows.
    pub(crate) const GROUP: u32 = 0x7FFE;
    /// The same as it stands in a record.
    pub(crate) const GROUP_FIRST: usize = (0x80 | GROUP >> 8) as usize;
    pub(crate) const GROUP_SECOND: u8 = (GROUP & 0xFF) as u8;
    /// The key or value stands in an extent, named by an extent cell.
    pub(crate) const EXTENT: u32 = 0x7FFF;
}

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
#[derive(Clone, Copy)]
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
            && self.half(HEAP_OFFSET + 2) == 0
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

    #[inline(always)]
    pub(crate) fn head(self, i: usize) -> u32 {
        self.word(self.heads_at() + 4 * i)
    }

    /// Bytes for one slot in all arrays.
    #[inline(always)]
    pub(crate) fn slot_len(self) -> usize {
        slot_len(self.level(), self.flags())
    }

    /// Where the offsets of the records stand.
    #[inline(always)]
    fn offsets_at(self) -> usize {
        self.heads_at() + (self.slot_len() - 2) * self.len()
    }

    /// The record of slot `i` as raw pieces.
    #[inline(always)]
    pub(crate) fn record(self, i: usize) -> Record<'a> {
        let offset = if self.is_leaf() {
            self.half(self.heads_at() + 4 * self.len() + 2 * i)
        } else {
            self.half(self.offsets_at() + 2 * i)
        };
        self.record_at(offset)
    }

    /// The record of slot `i` of a page that is known to be a leaf.
    #[inline(always)]
    pub(crate) fn leaf_record(self, i: usize) -> Record<'a> {
        debug_assert!(self.is_leaf());
        self.record_at(self.half(self.heads_at() + 4 * self.len() + 2 * i))
    }

    /// Where in memory the offset of a leaf's group `i` stands; `i` may be the number of groups.
    #[inline(always)]
    pub(crate) fn offset_address(self, i: usize) -> *const u8 {
        self.base.wrapping_add(self.heads_at() + 4 * self.len() + 2 * i)
    }

    /// The key's rest and the value of a leaf's record whose offset stands at `address`, if both
    /// are in the record, alone, and the key's rest is short.
    #[inline(always)]
    pub(crate) fn plain_record_of(self, address: *const u8) -> Option<(&'a [u8], &'a [u8])> {
        let at = self.half(address as usize - self.base as usize);
        let both = self.half(at);
        if both & 0x8080 == 0 {
            let (key, value) = (both & 0xFF, both >> 8);
            return Some((self.slice(at + 2, key), self.slice(at + key + 2, value)));
        }
        let (key, value) = (both & 0xFF, (both & 0x7F00) | usize::from(self.byte(at + 2)));
        if key < 0x80 && value < code::FIRST as usize {
            return Some((self.slice(at + 3, key), self.slice(at + 3 + key, value)));
        }
        None
    }

    /// What [`Page::joinable_of`] needs to know of this page, a leaf. `None` if no record of it is
    /// joinable.
    #[inline(always)]
    pub(crate) fn joining(self) -> Option<Joining> {
        let shared = self.half(SHARED_OFFSET);
        if shared > Joining::SHARED * BLOCK || shared > 0 && self.is_reversed() {
            return None;
        }
        Some(match shared {
            // Nothing is copied.
            0 => Joining { shared, rest_max: 0x7F, rest_end_max: self.size },
            _ => {
                Joining { shared, rest_max: Joining::REST * BLOCK, rest_end_max: self.size - BLOCK }
            }
        })
    }

    /// The record whose offset stands at `address`, if [`Page::joined_of`] can give it. `joining`
    /// is this page's.
    #[inline(always)]
    pub(crate) fn joinable_of(self, joining: &Joining, address: *const u8) -> Option<Joinable> {
        let at = self.half(address as usize - self.base as usize);
        let both = self.half(at);
        let (mut value, mut from) = (both >> 8, at + 2);
        if both & 0x8000 != 0 {
            value = (both & 0x7F00) | usize::from(self.byte(from));
            from += 1;
            if value >= code::FIRST as usize {
                return None;
            }
        }
        let rest = both & 0xFF;
        let is_joinable = rest <= joining.rest_max && from + rest <= joining.rest_end_max;
        is_joinable.then_some(Joinable { from, rest, value })
    }

    /// Key and value of a record of this page that [`Page::joinable_of`] has found. `shared` is
    /// that of the page's [`Joining`].
    #[inline(always)]
    pub(crate) fn joined_of(
        self,
        shared: usize,
        record: Joinable,
        room: &mut [MaybeUninit<u8>; Joining::ROOM],
    ) -> (Joined<'a>, &'a [u8]) {
        let Joinable { from, rest, value } = record;
        let value = self.slice(from + rest, value);
        if shared == 0 {
            return (Joined::Stored(self.slice(from, rest)), value);
        }
        let to = room.as_mut_ptr().cast::<u8>();
        // SAFETY: a block after the rest is inside the page by `rest_end_max`, and so is one after
        // the shared bytes, since records follow them; both, and a block, have room.
        unsafe {
            copy_blocks::<{ Joining::SHARED }>(self.base.add(HEADER_LEN), to, shared);
            copy_blocks::<{ Joining::REST }>(self.base.add(from), to.add(shared), rest);
        }
        (Joined::Copied(shared + rest), value)
    }

    /// The shared bytes, whose number the caller knows.
    #[inline(always)]
    pub(crate) fn shared_of(self, len: usize) -> &'a [u8] {
        self.slice(HEADER_LEN, len)
    }

    /// The record of a leaf whose offset stands at `address`.
    #[inline(always)]
    pub(crate) fn leaf_record_of(self, address: *const u8) -> Record<'a> {
        self.record_at(self.half(address as usize - self.base as usize))
    }

    /// Value `i` of the record whose offset stands at `address`, if that has several and its key's
    /// rest is short.
    #[inline(always)]
    pub(crate) fn group_value_of(self, address: *const u8, i: usize) -> Option<Bytes<'a>> {
        let at = self.half(address as usize - self.base as usize);
        let both = self.half(at);
        match (both & 0x80, both >> 8) {
            (0, code::GROUP_FIRST) if self.byte(at + 2) == code::GROUP_SECOND => {
                Some(group::Group::at(self, at + 3 + (both & 0xFF)).value(i))
            }
            _ => None,
        }
    }

    /// Copies a key of which `rest`, which stands in this page, is the rest after `shared` bytes at
    /// the front; returns its length. `None` if that cannot be done in a few whole blocks: the key
    /// is long, `room` too short for a block more than that, or the rest at the page's end.
    #[inline(always)]
    pub(crate) fn join_key(
        self,
        shared: usize,
        rest: &[u8],
        room: &mut [MaybeUninit<u8>],
    ) -> Option<usize> {
        const SHARED: usize = Joining::SHARED;
        const REST: usize = Joining::REST;
        let len = shared + rest.len();
        let is_long = shared > SHARED * BLOCK || rest.len() > REST * BLOCK;
        if is_long || len + BLOCK > room.len() || !self.has_block_behind(rest) {
            return None;
        }
        let to = room.as_mut_ptr().cast::<u8>();
        // SAFETY: a block after the rest is inside the page, and so is one after the shared bytes,
        // since records follow them; a block after the key is inside `room`.
        unsafe {
            copy_blocks::<SHARED>(self.base.add(HEADER_LEN), to, shared);
            copy_blocks::<REST>(rest.as_ptr(), to.add(shared), rest.len());
        }
        Some(len)
    }

    /// As [`Page::join_key`] for any two strings that stand in this page.
    #[inline(always)]
    pub(crate) fn join(
        self,
        first: &[u8],
        second: &[u8],
        room: &mut [MaybeUninit<u8>],
    ) -> Option<usize> {
        const MOST: usize = 4;
        let len = first.len() + second.len();
        let is_long = first.len() > MOST * BLOCK || second.len() > MOST * BLOCK;
        let is_inside = self.has_block_behind(first) && self.has_block_behind(second);
        if is_long || len + BLOCK > room.len() || !is_inside {
            return None;
        }
        let to = room.as_mut_ptr().cast::<u8>();
        // SAFETY: a block after each string is inside the page, one after both inside `room`.
        unsafe {
            copy_blocks::<MOST>(first.as_ptr(), to, first.len());
            copy_blocks::<MOST>(second.as_ptr(), to.add(first.len()), second.len());
        }
        Some(len)
    }

    /// Whether a string in this page is followed by a block that is inside the page, too.
    #[inline(always)]
    fn has_block_behind(self, string: &[u8]) -> bool {
        let at = string.as_ptr() as usize - self.base as usize;
        at + string.len() + BLOCK <= self.size
    }

    /// A key of which the page's records hold the rest.
    #[inline(always)]
    pub(crate) fn whole_key(self, rest: &'a [u8]) -> Bytes<'a> {
        if self.is_reversed() {
            Bytes::new(rest, self.shared())
        } else {
            Bytes::new(self.shared(), rest)
        }
    }

    /// The record at a byte offset.
    #[inline(always)]
    pub(crate) fn record_at(self, offset: usize) -> Record<'a> {
        let both = self.half(offset);
        if both & 0x8080 == 0 {
            let (key, value) = ((both & 0xFF) as u32, (both >> 8) as u32);
            return Record { page: self, at: offset, key, value, data: offset + 2 };
        }
        if both & 0x80 == 0 {
            let value = (both & 0x7F00) as u32 | u32::from(self.byte(offset + 2));
            let key = (both & 0xFF) as u32;
            return Record { page: self, at: offset, key, value, data: offset + 3 };
        }
        let (key, n) = self.length(offset);
        let (value, m) = self.length(offset + n);
        Record { page: self, at: offset, key, value, data: offset + n + m }
    }

    /// A length or code, and the number of bytes that it takes.
    #[inline(always)]
    fn length(self, at: usize) -> (u32, usize) {
        let first = u32::from(self.byte(at));
        if first < 0x80 {
            (first, 1)
        } else {
            ((first & 0x7F) << 8 | u32::from(self.byte(at + 1)), 2)
        }
    }

    /// Bytes of the page that are in use.
    pub(crate) fn used(self) -> usize {
        self.heads_at() + self.slot_len() * self.len() + self.heap_len()
    }

    /// Bytes of the page that are free.
    #[inline(always)]
    pub(crate) fn free(self) -> usize {
        self.size - self.used()
    }

    /// Bytes of a page that is known to be a leaf that are free.
    #[inline(always)]
    pub(crate) fn leaf_free(self) -> usize {
        debug_assert!(self.is_leaf());
        self.size - self.heads_at() - slot_len(0, 0) * self.len() - self.heap_len()
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
        self.heads_at() + slot_len(0, 0) * self.len()
    }

    /// Where a leaf's record begins.
    #[inline(always)]
    pub(crate) fn record_offset(self, i: usize) -> usize {
        self.half(self.heads_at() + 4 * self.len() + 2 * i)
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
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instruction does not fault and reads nothing that the program sees.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.base.wrapping_add(at).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }

    fn extent_at(self, at: usize) -> ExtentRef {
        ExtentRef { first: self.word(at), len: self.word(at + 4), sum: self.word(at + 8) }
    }
}

/// The length of a cache line.
pub(crate) const LINE: usize = 64;
/// How much of a page is fetched before it is looked at.
pub(crate) const FETCHED: usize = 4 * LINE;

/// What [`copy_blocks`] copies at once.
const BLOCK: usize = 16;

/// What of a leaf decides whether, and how, [`Page::joined_of`] gives its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joining {
    /// Bytes that the keys share, at most `SHARED` blocks.
    shared: usize,
    /// The longest rest of a key.
    rest_max: usize,
    /// Where in the page the rest ends at the latest.
    rest_end_max: usize,
}

/// A record that a step can give with its key in one piece, by few block copies or none.
#[derive(Clone, Copy)]
pub(crate) struct Joinable {
    /// Where the key's rest stands.
    from: usize,
    /// The lengths of the rest and of the value, which follows it.
    rest: usize,
    value: usize,
}

impl Joining {
    /// Of no page.
    pub(crate) const NONE: Self = Self { shared: 0, rest_max: 0, rest_end_max: 0 };
    /// The most blocks of shared bytes, and of a rest that follows them.
    const SHARED: usize = 4;
    const REST: usize = 2;
    /// The room that a copied key needs, whatever its length.
    pub(crate) const ROOM: usize = (Self::SHARED + Self::REST + 1) * BLOCK;

    /// How many bytes the keys share.
    #[inline(always)]
    pub(crate) fn shared(&self) -> usize {
        self.shared
    }
}

/// Copies `len` bytes, at most `MOST` blocks, and less than a block more: short strings so take
/// fewer instructions than a call.
///
/// # Safety
/// `from` may be read, and `to` written, for a block more than `len` bytes; the two do not overlap.
#[inline(always)]
unsafe fn copy_blocks<const MOST: usize>(from: *const u8, to: *mut u8, len: usize) {
    for at in (0..MOST).map(|i| i * BLOCK) {
        if at > 0 && at >= len {
            break;
        }
        // SAFETY: the caller's promise: the string reaches into this block, or it is the first one.
        unsafe {
            let block = from.add(at).cast::<[u8; BLOCK]>().read();
            to.add(at).cast::<[u8; BLOCK]>().write(block);
        }
    }
}

/// Bytes for one slot in all arrays of a page.
#[inline(always)]
pub(crate) fn slot_len(level: u8, flags: u8) -> usize {
    if level == 0 {
        return 4 + 2;
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

/// One record of a page.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    page: Page<'a>,
    at: usize,
    /// The length of the key's rest, or [`code::EXTENT`].
    key: u32,
    /// What follows the key: a length or a code.
    value: u32,
    /// Where the key's rest begins.
    data: usize,
}

impl<'a> Record<'a> {
    #[inline(always)]
    pub(crate) fn is_long_key(&self) -> bool {
        self.key >= code::FIRST
    }

    /// Whether both key and value stand in the record, alone.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.key < code::FIRST && self.value < code::FIRST
    }

    /// What follows the shared bytes in the key; of a long key the known part of that.
    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        if self.is_long_key() {
            let known = self.page.half(self.data + EXTENT_CELL);
            return self.page.slice(self.data + KEY_EXTENT_CELL, known);
        }
        self.page.slice(self.data, self.key as usize)
    }

    #[inline(always)]
    fn key_len(&self) -> usize {
        if self.is_long_key() {
            KEY_EXTENT_CELL + self.page.half(self.data + EXTENT_CELL)
        } else {
            self.key as usize
        }
    }

    /// The extent of a long key.
    pub(crate) fn key_extent(&self) -> Option<ExtentRef> {
        self.is_long_key().then(|| self.page.extent_at(self.data))
    }

    #[inline(always)]
    pub(crate) fn key_cell(&self) -> KeyCell<'a> {
        KeyCell { known: self.page.whole_key(self.rest()), extent: self.key_extent() }
    }

    /// Where the part after the key begins.
    #[inline(always)]
    pub(crate) fn value_at(&self) -> usize {
        self.data + self.key_len()
    }

    /// The code or length of the part after the key.
    #[inline(always)]
    pub(crate) fn value_code(&self) -> u32 {
        self.value
    }

    /// Length of the whole record in bytes.
    pub(crate) fn len(&self) -> usize {
        let behind = if self.page.is_leaf() {
            match self.value {
                code::GROUP => group::Group::at(self.page, self.value_at()).len(),
                code::EXTENT => EXTENT_CELL,
                len => len as usize,
            }
        } else {
            self.value.saturating_sub(1) as usize
        };
        self.value_at() + behind - self.at
    }
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
        let offsets = view.offsets_at();
        let start = self.bytes.len() - heap;
        self.bytes.copy_within(start..at, start + len);
        self.set_heap_len(heap - len);
        shift_offsets(&mut self.bytes[offsets..offsets + 2 * n], at, len as u16);
    }

    /// Makes room for `len` bytes at the bottom of the heap; returns where.
    fn grow_heap(&mut self, len: usize) -> usize {
        let heap = self.view().heap_len() + len;
        self.set_heap_len(heap);
        self.bytes.len() - heap
    }
}

/// Adds `by` to every offset below `limit`, some at a time.
fn shift_offsets(offsets: &mut [u8], limit: usize, by: u16) {
    // Records begin inside the page, of at most 2^16 bytes.
    let limit = limit as u16;
    for raw in offsets.as_chunks_mut::<2>().0 {
        let offset = u16::from_le_bytes(*raw);
        let by = if offset < limit { by } else { 0 };
        *raw = offset.wrapping_add(by).to_le_bytes();
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

/// Writes a length or code; returns the number of bytes.
#[inline(always)]
pub(crate) fn put_length(out: &mut [u8], at: usize, length: u32) -> usize {
    if length < 0x80 {
        out[at] = length as u8;
        1
    } else {
        out[at] = 0x80 | (length >> 8) as u8;
        out[at + 1] = length as u8;
        2
    }
}

/// How many bytes a length takes.
#[inline(always)]
pub(crate) fn length_len(length: usize) -> usize {
    if length < 0x80 { 1 } else { 2 }
}

/// Writes an extent cell.
pub(crate) fn put_extent(out: &mut [u8], at: usize, extent: &ExtentRef) {
    put_u32(out, at, extent.first);
    put_u32(out, at + 4, extent.len);
    put_u32(out, at + 8, extent.sum);
}

/// The first four bytes of `rest` as a number that orders like it; shorter ones end in zeros.
#[inline(always)]
pub(crate) fn head_of(rest: &[u8]) -> u32 {
    if let Some(four) = rest.first_chunk::<4>() {
        return u32::from_be_bytes(*four);
    }
    let mut four = [0; 4];
    four[..rest.len()].copy_from_slice(rest);
    u32::from_be_bytes(four)
}

/// As [`head_of`], from the back.
#[inline(always)]
pub(crate) fn head_of_reversed(rest: &[u8]) -> u32 {
    if let Some(four) = rest.last_chunk::<4>() {
        return u32::from_le_bytes(*four);
    }
    let mut four = [0; 4];
    four[4 - rest.len()..].copy_from_slice(rest);
    u32::from_le_bytes(four)
}

/// Adds two counts. Those of a damaged page may be anything, so it wraps.
#[inline(always)]
pub(crate) fn add(a: Count, b: Count) -> Count {
    Count { keys: a.keys.wrapping_add(b.keys), values: a.values.wrapping_add(b.values) }
}
