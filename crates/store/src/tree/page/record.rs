//! Records: how a key, or what of it the page does not share, and what follows it stand in a page,
//! and how they are read; `cell` writes them.
//!
//! A *dense* record begins with two lengths, of the key's rest and of what follows it: one byte
//! below 128, else two with the first one's top bit set. Codes from [`code::FIRST`] on are no
//! lengths: the key stands in an extent, the value does, or a group of values follows.
//!
//! In an ALIGNED leaf each length has a byte beside the record's offset in its slot instead, so
//! that keys and values stand at even addresses, and at multiples of 8 where the lengths of all are
//! such:
//!
//! ```text
//! | byte        | means                                                        |
//! | 00 up to 7F | this length                                                  |
//! | 80 up to EF | 128, 136 and so on up to 1,016                               |
//! | F0          | the length stands in the record's prefix, as u16             |
//! | FE, FF      | a group of values, an extent                                 |
//!
//! prefix | key, padded to an even length | value | padding to an even length
//! ```
//!
//! The prefix has the lengths that its bytes do not tell, the key's first. It takes 8 bytes where
//! key and value have multiples of 8, else as many as it needs, none without such a length. What
//! names a value's extent takes 16 bytes. A record takes at least 2 bytes. All padding is zero.

use super::group::Group;
use super::{ALIGNED, EXTENT_CELL, HEADLESS, KEY_EXTENT_CELL, KeyCell, Page};
use crate::tree::Bytes;
use crate::tree::order::{Form, Leaves};
use crate::tree::page_ref::ExtentRef;

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

/// How the records of a page stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Side by side, each with its lengths.
    Dense,
    /// The same in a leaf without heads.
    Headless,
    /// At even addresses, their lengths in the slots.
    Aligned,
}

/// Bytes of an ALIGNED leaf's slots that are no lengths.
pub(crate) mod short {
    /// From here on lengths are told in steps of [`STEP`].
    pub(crate) const STEPS: u32 = 0x80;
    pub(crate) const STEP: u32 = 8;
    /// The longest length that a byte tells.
    pub(crate) const LAST: u32 = STEPS + STEP * (LONG - 1 - STEPS);
    /// The length stands in the record.
    pub(crate) const LONG: u32 = 0xF0;
    pub(crate) const GROUP: u32 = 0xFE;
    pub(crate) const EXTENT: u32 = 0xFF;
}

/// What a byte of a slot tells; of [`short::LONG`] nothing of meaning.
#[inline(always)]
pub(crate) fn length_of(byte: u32) -> u32 {
    match byte {
        0..short::STEPS => byte,
        short::GROUP => code::GROUP,
        short::EXTENT => code::EXTENT,
        _ => short::STEPS + short::STEP * (byte - short::STEPS),
    }
}

/// How long the prefix of a record with these lengths or codes is, of which some are long.
#[inline(always)]
pub(crate) fn prefix_len(key: u32, value: u32, long_key: bool, long_value: bool) -> usize {
    let needed = 2 * (usize::from(long_key) + usize::from(long_value));
    let is_eight = key.is_multiple_of(8) && (value >= code::FIRST || value.is_multiple_of(8));
    if needed > 0 && is_eight { 8 } else { needed }
}

/// What a record of `len` bytes takes in an ALIGNED leaf: never nothing, so that no two records
/// begin at the same place.
#[inline(always)]
pub(crate) fn padded(len: usize) -> usize {
    pad2(len).max(2)
}

/// Where the record of a slot of an ALIGNED leaf stands, and the lengths of its key and value, if
/// both are short.
#[inline(always)]
pub(super) fn short_parts(slot: u32) -> Option<(usize, usize, usize)> {
    let (at, key, value) = (slot & 0xFFFF, slot >> 16 & 0xFF, slot >> 24);
    let is_short = slot & 0x8080_0000 == 0;
    is_short.then_some((at as usize, key as usize, value as usize))
}

/// The next even number.
#[inline(always)]
pub(crate) fn pad2(len: usize) -> usize {
    (len + 1) & !1
}

/// How long a record of short lengths is; [`padded`] in numbers of which the processor adds several
/// at a time.
#[inline(always)]
pub(super) fn short_len(key: u32, value: u32) -> u32 {
    let len = (((key + 1) & !1) + value + 1) & !1;
    if len == 0 { 2 } else { len }
}

/// How many bytes of a key a comparison may be given ahead.
pub const AHEAD: usize = 24;

impl Form {
    /// How records stand in the leaves.
    #[inline(always)]
    pub(crate) fn layout(&self) -> Layout {
        match self.leaves {
            Leaves::Aligned => Layout::Aligned,
            Leaves::Headless => Layout::Headless,
            Leaves::Compressed | Leaves::Whole => Layout::Dense,
        }
    }
}

impl Layout {
    #[inline(always)]
    pub(crate) fn of(flags: u8) -> Self {
        match flags & (ALIGNED | HEADLESS) {
            0 => Self::Dense,
            HEADLESS => Self::Headless,
            _ => Self::Aligned,
        }
    }

    /// What a leaf's slot takes for a record besides the head: its offset, and the bytes of its
    /// lengths.
    #[inline(always)]
    pub(crate) fn step(self) -> usize {
        match self {
            Self::Dense | Self::Headless => 2,
            Self::Aligned => 4,
        }
    }

    /// What a leaf's slot takes for a head.
    #[inline(always)]
    pub(crate) fn head_len(self) -> usize {
        match self {
            Self::Dense | Self::Aligned => 4,
            Self::Headless => 0,
        }
    }

    /// What a leaf's slot takes.
    #[inline(always)]
    pub(crate) fn slot_len(self) -> usize {
        self.head_len() + self.step()
    }

    /// What names a value's extent.
    pub(crate) fn extent_cell(self) -> usize {
        match self {
            Self::Dense | Self::Headless => EXTENT_CELL,
            Self::Aligned => EXTENT_CELL + 4,
        }
    }
}

impl<'a> Page<'a> {
    /// Whether the lengths of its records stand in the slots.
    #[inline(always)]
    pub(crate) fn is_aligned(self) -> bool {
        self.flags() & ALIGNED != 0
    }

    /// Whether it is such a leaf.
    #[inline(always)]
    pub(crate) fn is_aligned_leaf(self) -> bool {
        self.is_leaf() && self.is_aligned()
    }

    /// How the records of a leaf stand.
    #[inline(always)]
    pub(crate) fn layout(self) -> Layout {
        Layout::of(self.flags())
    }

    /// The key's rest and the value of a leaf's record whose offset stands at `address`, if both
    /// are in the record, alone, and the key's rest is short.
    #[inline(always)]
    pub(crate) fn plain_record_of(self, address: *const u8) -> Option<(&'a [u8], &'a [u8])> {
        self.plain_record_in(self.layout(), address)
    }

    /// The same in a leaf of this layout.
    #[inline(always)]
    pub(crate) fn plain_record_in(
        self,
        layout: Layout,
        address: *const u8,
    ) -> Option<(&'a [u8], &'a [u8])> {
        let at = address as usize - self.base as usize;
        match layout {
            Layout::Dense | Layout::Headless => self.dense_plain_record(at),
            Layout::Aligned => self.aligned_plain_record(at),
        }
    }

    /// The same in an ALIGNED leaf at an aligned address; [`Page::has_short_slot`] of that slot.
    #[inline(always)]
    pub(crate) fn short_record(self, address: *const u8) -> (&'a [u8], &'a [u8]) {
        let (at, key, value) = self.short_slot(address);
        // The record begins at an even address, and the value at the next one after the key.
        let base = self.address().addr();
        let value_at = ((base + at + key + 1) & !1) - base;
        (self.slice(at, key), self.slice(value_at, value))
    }

    #[inline(always)]
    fn dense_plain_record(self, offset_at: usize) -> Option<(&'a [u8], &'a [u8])> {
        let at = self.half(offset_at);
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

    /// Where the key begins whose slot stands at an address in a leaf of this layout, and how long
    /// it is, if its record has short lengths.
    #[inline(always)]
    pub(super) fn key_place(self, layout: Layout, address: *const u8) -> Option<(usize, usize)> {
        let slot_at = address as usize - self.base as usize;
        match layout {
            Layout::Dense | Layout::Headless => {
                let at = self.half(slot_at);
                let both = self.half(at);
                (both & 0x8080 == 0).then_some((at + 2, both & 0xFF))
            }
            Layout::Aligned => {
                let (at, len, _) = short_parts(self.word(slot_at))?;
                Some((at, len))
            }
        }
    }

    /// What the page has from a place on, as much as a comparison is given ahead; `None` where it
    /// ends before.
    #[inline(always)]
    pub(super) fn ahead_at(self, at: usize) -> Option<&'a [u8; AHEAD]> {
        if at + AHEAD <= self.size { self.slice(at, AHEAD).first_chunk() } else { None }
    }

    /// The same where it ends before, with zeros after its end.
    pub(super) fn ahead_at_end(self, at: usize) -> [u8; AHEAD] {
        let mut ahead = [0; AHEAD];
        let last = self.slice(at, self.size - at);
        ahead[..last.len()].copy_from_slice(last);
        ahead
    }

    /// The key that [`Page::key_place`] has found.
    #[inline(always)]
    pub(super) fn short_key(self, at: usize, len: usize) -> &'a [u8] {
        self.slice(at, len)
    }

    #[inline(always)]
    fn aligned_plain_record(self, slot_at: usize) -> Option<(&'a [u8], &'a [u8])> {
        let slot = self.word(slot_at);
        let (mut at, key, byte) = ((slot & 0xFFFF) as usize, slot >> 16 & 0xFF, slot >> 24);
        let mut value = byte;
        if slot & 0x8080_0000 != 0 {
            if key >= short::STEPS || byte > short::LONG {
                return None;
            }
            value = length_of(byte);
            if byte == short::LONG {
                value = self.half(at) as u32;
                at += prefix_len(key, value, false, true);
            }
        }
        let (key, value) = (key as usize, value as usize);
        Some((self.slice(at, key), self.slice(at + pad2(key), value)))
    }

    /// The record of slot `i`.
    #[inline(always)]
    pub(crate) fn record(self, i: usize) -> Record<'a> {
        if self.is_leaf() {
            self.leaf_record(i)
        } else {
            self.record_at(self.half(self.offsets_at() + 2 * i))
        }
    }

    /// The record of slot `i` of a page that is known to be a leaf.
    #[inline(always)]
    pub(crate) fn leaf_record(self, i: usize) -> Record<'a> {
        debug_assert!(self.is_leaf());
        match self.layout() {
            Layout::Dense => self.leaf_record_in(Layout::Dense, i),
            Layout::Headless => self.leaf_record_in(Layout::Headless, i),
            Layout::Aligned => self.leaf_record_in(Layout::Aligned, i),
        }
    }

    /// The same in a leaf of this layout.
    #[inline(always)]
    pub(crate) fn leaf_record_in(self, layout: Layout, i: usize) -> Record<'a> {
        let at = self.leaf_offset_in(layout, i);
        match layout {
            Layout::Dense | Layout::Headless => self.record_at(self.half(at)),
            Layout::Aligned => self.aligned_record(self.word(at)),
        }
    }

    /// Key's rest and value of slot `i` of a leaf, if both are in the record, alone, and the key's
    /// rest is short.
    #[inline(always)]
    pub(crate) fn plain_record(self, i: usize) -> Option<(&'a [u8], &'a [u8])> {
        match self.layout() {
            Layout::Dense => self.dense_plain_record(self.leaf_offset_in(Layout::Dense, i)),
            Layout::Headless => self.dense_plain_record(self.leaf_offset_in(Layout::Headless, i)),
            Layout::Aligned => self.aligned_plain_record(self.leaf_offset_in(Layout::Aligned, i)),
        }
    }

    /// The record of a leaf whose offset stands at `address`.
    #[inline(always)]
    pub(crate) fn leaf_record_of(self, address: *const u8) -> Record<'a> {
        let at = address as usize - self.base as usize;
        if self.is_aligned() {
            self.aligned_record(self.word(at))
        } else {
            self.record_at(self.half(at))
        }
    }

    /// Value `i` of the record whose offset stands at `address`, if that has several and its key's
    /// rest is short.
    #[inline(always)]
    pub(crate) fn group_value_of(self, address: *const u8, i: usize) -> Option<Bytes<'a>> {
        let at = address as usize - self.base as usize;
        if self.is_aligned() {
            return Some(self.aligned_group_of(address)?.1.rest(i).into());
        }
        let at = self.half(at);
        let both = self.half(at);
        match (both & 0x80, both >> 8) {
            (0, code::GROUP_FIRST) if self.byte(at + 2) == code::GROUP_SECOND => {
                Some(Group::at(self, at + 3 + (both & 0xFF)).value(i))
            }
            _ => None,
        }
    }

    /// Key and values of the record of an ALIGNED leaf whose offset stands at `address`, if that
    /// has several values and its key is short.
    #[inline(always)]
    pub(crate) fn aligned_group_of(self, address: *const u8) -> Option<(&'a [u8], Group<'a>)> {
        let slot = self.word(address as usize - self.base as usize);
        let (at, key) = ((slot & 0xFFFF) as usize, slot >> 16 & 0xFF);
        if slot >> 24 != short::GROUP || key >= short::STEPS {
            return None;
        }
        let key = key as usize;
        Some((self.slice(at, key), Group::aligned(self, at + pad2(key))))
    }

    /// How many values slot `i` of a leaf has; the usual ones, with short keys, looked at without
    /// decoding the record.
    #[inline(always)]
    pub(crate) fn value_count(self, i: usize) -> usize {
        match self.layout() {
            Layout::Dense => self.dense_value_count(self.leaf_offset_in(Layout::Dense, i)),
            Layout::Headless => self.dense_value_count(self.leaf_offset_in(Layout::Headless, i)),
            Layout::Aligned => self.aligned_value_count(self.leaf_offset_in(Layout::Aligned, i)),
        }
    }

    #[inline(always)]
    fn dense_value_count(self, offset_at: usize) -> usize {
        let at = self.half(offset_at);
        let both = self.half(at);
        match (both & 0x80, both >> 8) {
            (0, code::GROUP_FIRST) if self.byte(at + 2) == code::GROUP_SECOND => {
                self.half(at + 3 + (both & 0xFF))
            }
            (0, 0..0x80) => 1,
            _ => self.record_at(at).value_count(),
        }
    }

    #[inline(always)]
    fn aligned_value_count(self, slot_at: usize) -> usize {
        let slot = self.word(slot_at);
        let (at, key) = ((slot & 0xFFFF) as usize, slot >> 16 & 0xFF);
        match (slot >> 24, key) {
            (short::GROUP, ..short::STEPS) => self.half(at + pad2(key as usize)),
            (short::GROUP, _) => self.aligned_record(slot).value_count(),
            _ => 1,
        }
    }

    /// How many values stand in the groups of a leaf before `slot`.
    pub(crate) fn values_before(self, slot: usize) -> usize {
        let first = self.leaf_offset_at(0);
        match self.layout() {
            Layout::Dense | Layout::Headless => {
                (0..slot).map(|i| self.dense_value_count(first + 2 * i)).sum()
            }
            Layout::Aligned => (0..slot).map(|i| self.aligned_value_count(first + 4 * i)).sum(),
        }
    }

    /// The dense record at a byte offset.
    #[inline(always)]
    pub(super) fn record_at(self, at: usize) -> Record<'a> {
        let both = self.half(at);
        if both & 0x8080 == 0 {
            let (key, value) = ((both & 0xFF) as u32, (both >> 8) as u32);
            let value_at = at + 2 + (both & 0xFF);
            return Record { page: self, at, key, value, data: at + 2, value_at };
        }
        if both & 0x80 == 0 {
            let value = (both & 0x7F00) as u32 | u32::from(self.byte(at + 2));
            let key = (both & 0xFF) as u32;
            let value_at = at + 3 + (both & 0xFF);
            return Record { page: self, at, key, value, data: at + 3, value_at };
        }
        let (key, n) = self.length(at);
        let (value, m) = self.length(at + n);
        let data = at + n + m;
        Record { page: self, at, key, value, data, value_at: self.key_end(data, key) }
    }

    /// Where the key's part of a record ends that begins at `at`, given its length or code.
    #[inline(always)]
    fn key_end(self, at: usize, key: u32) -> usize {
        match key {
            ..code::FIRST => at + key as usize,
            _ => at + KEY_EXTENT_CELL + self.half(at + EXTENT_CELL),
        }
    }

    /// The record of an ALIGNED leaf whose slot, without the head, is this.
    #[inline(always)]
    fn aligned_record(self, slot: u32) -> Record<'a> {
        let (at, first, second) = ((slot & 0xFFFF) as usize, slot >> 16 & 0xFF, slot >> 24);
        if first >= short::STEPS || second == short::LONG {
            return self.other_aligned_record(at, first, second);
        }
        let (key, value, value_at) = (first, length_of(second), at + pad2(first as usize));
        Record { page: self, at, key, value, data: at, value_at }
    }

    fn other_aligned_record(self, at: usize, first: u32, second: u32) -> Record<'a> {
        let (mut key, mut value, mut from) = (length_of(first), length_of(second), at);
        if first == short::LONG {
            key = self.half(from) as u32;
            from += 2;
        }
        if second == short::LONG {
            value = self.half(from) as u32;
        }
        let data = at + prefix_len(key, value, first == short::LONG, second == short::LONG);
        Record { page: self, at, key, value, data, value_at: pad2(self.key_end(data, key)) }
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
}

/// One record of a page.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(super) page: Page<'a>,
    pub(super) at: usize,
    /// The length of the key's rest, or [`code::EXTENT`].
    pub(super) key: u32,
    /// What follows the key: a length or a code.
    pub(super) value: u32,
    /// Where the key's rest begins.
    pub(super) data: usize,
    /// Where the part after the key begins.
    pub(super) value_at: usize,
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
        self.value_at
    }

    /// The code or length of the part after the key.
    #[inline(always)]
    pub(crate) fn value_code(&self) -> u32 {
        self.value
    }

    /// Length of the whole record, which is a plain one of a leaf of this layout.
    #[inline(always)]
    pub(super) fn plain_len(&self, layout: Layout) -> usize {
        let len = self.value_at() + self.value as usize - self.at;
        match layout {
            Layout::Dense | Layout::Headless => len,
            Layout::Aligned => padded(len),
        }
    }

    /// Length of the whole record in bytes.
    pub(crate) fn len(&self) -> usize {
        let behind = if self.page.is_leaf() {
            match self.value {
                code::GROUP => Group::at(self.page, self.value_at()).len(),
                code::EXTENT => self.page.layout().extent_cell(),
                len => len as usize,
            }
        } else {
            self.value.saturating_sub(1) as usize
        };
        let len = self.value_at() + behind - self.at;
        if self.page.is_aligned() { padded(len) } else { len }
    }
}
