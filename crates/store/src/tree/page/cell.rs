//! Records on their way into a page: what they take there, and how they are written. The opening of
//! [`record`](super::record) says how they stand.

use super::record::{Layout, code, pad2, padded, prefix_len, short};
use super::{EXTENT_CELL, KEY_EXTENT_CELL, KNOWN_MAX, KeyCell, ValueCell};
use crate::coding::put_u16;
use crate::tree::Bytes;
use crate::tree::order::KeyOrder;
use crate::tree::page_ref::ExtentRef;

/// What follows a key in a leaf's record: its length or code, and the bytes that it takes.
#[derive(Clone, Copy)]
pub(crate) struct Behind {
    code: u32,
    len: usize,
}

impl Behind {
    /// A value of `len` bytes.
    #[inline(always)]
    pub(crate) fn plain(len: usize) -> Self {
        Self { code: len as u32, len }
    }

    /// A group of values that takes `len` bytes.
    pub(crate) fn group(len: usize) -> Self {
        Self { code: code::GROUP, len }
    }

    /// What it takes in a dense record.
    pub(crate) fn dense_len(self) -> usize {
        length_len(self.code as usize) + self.len
    }

    /// One value.
    pub(crate) fn of(layout: Layout, value: &ValueCell<'_>) -> Self {
        match value {
            ValueCell::Inline(bytes) => Self::plain(bytes.len()),
            ValueCell::Extent(_) => Self { code: code::EXTENT, len: layout.extent_cell() },
        }
    }
}

/// Where the parts of an aligned record stand, from its beginning.
#[derive(Clone, Copy)]
struct Frame {
    /// The bytes of its slot for key and value.
    codes: u16,
    key_at: usize,
    value_at: usize,
    len: usize,
}

impl Frame {
    /// Of a record whose key takes `key_len` bytes.
    #[inline(always)]
    fn new(key: u32, key_len: usize, behind: Behind) -> Self {
        let (first, second) = (short_of(key), short_of(behind.code));
        let key_at = prefix_len(key, behind.code, first == short::LONG, second == short::LONG);
        let value_at = key_at + pad2(key_len);
        let len = padded(value_at + behind.len);
        Self { codes: (first | second << 8) as u16, key_at, value_at, len }
    }

    /// Writes what the record has besides key and value, which take as many bytes as those of
    /// [`Frame::new`], to its beginning in `out`.
    #[inline(always)]
    fn put(&self, out: &mut [u8], (key, key_len): (u32, usize), behind: Behind) {
        if self.key_at > 0 {
            self.put_prefix(out, key, behind.code);
        }
        if key_len % 2 == 1 {
            out[self.value_at - 1] = 0;
        }
        // Most records need no padding.
        let padding = self.value_at + behind.len..self.len;
        if !padding.is_empty() {
            out[padding].fill(0);
        }
    }

    #[inline(never)]
    fn put_prefix(&self, out: &mut [u8], key: u32, value: u32) {
        out[..self.key_at].fill(0);
        let mut at = 0;
        for (length, byte) in [(key, self.codes & 0xFF), (value, self.codes >> 8)] {
            if u32::from(byte) == short::LONG {
                put_u16(out, at, length as u16);
                at += 2;
            }
        }
    }
}

/// The byte of a slot that tells a length or code.
#[inline(always)]
fn short_of(length: u32) -> u32 {
    match length {
        0..short::STEPS => length,
        _ => other_short_of(length),
    }
}

fn other_short_of(length: u32) -> u32 {
    match length {
        code::GROUP => short::GROUP,
        code::EXTENT => short::EXTENT,
        short::STEPS..=short::LAST if length.is_multiple_of(short::STEP) => {
            short::STEPS + (length - short::STEPS) / short::STEP
        }
        _ => short::LONG,
    }
}

impl Layout {
    /// Bytes of a leaf's record of a key and a value of these lengths.
    #[inline(always)]
    pub(crate) fn plain_len(self, key: usize, value: usize) -> usize {
        match self {
            Self::Dense | Self::Headless => length_len(key) + length_len(value) + key + value,
            Self::Aligned => Frame::new(key as u32, key, Behind::plain(value)).len,
        }
    }

    /// Bytes of a leaf's record.
    pub(crate) fn record_len(self, key: &RestCell<'_>, behind: Behind) -> usize {
        match self {
            Self::Dense | Self::Headless => key.len() + behind.dense_len(),
            Self::Aligned => Frame::new(key.code(), key.stored_len(), behind).len,
        }
    }

    /// Where the key stands in a leaf's record.
    pub(crate) fn key_at(self, key: &RestCell<'_>, behind: Behind) -> usize {
        match self {
            Self::Dense | Self::Headless => {
                length_len(key.code() as usize) + length_len(behind.code as usize)
            }
            Self::Aligned => Frame::new(key.code(), key.stored_len(), behind).key_at,
        }
    }

    /// Writes a leaf's record of a key and a value to the beginning of `out`. Returns the bytes of
    /// its lengths.
    #[inline(always)]
    pub(crate) fn put_plain(self, out: &mut [u8], key: &[u8], value: &[u8]) -> u16 {
        let (key_at, value_at, codes) = match self {
            Self::Dense | Self::Headless => {
                let at = put_length(out, 0, key.len() as u32);
                let at = at + put_length(out, at, value.len() as u32);
                (at, at + key.len(), 0)
            }
            Self::Aligned => {
                let (length, behind) = (key.len() as u32, Behind::plain(value.len()));
                let frame = Frame::new(length, key.len(), behind);
                frame.put(out, (length, key.len()), behind);
                (frame.key_at, frame.value_at, frame.codes)
            }
        };
        out[key_at..key_at + key.len()].copy_from_slice(key);
        out[value_at..value_at + value.len()].copy_from_slice(value);
        codes
    }

    /// Writes a leaf's record but for what follows the key to the beginning of `out`. Returns where
    /// that belongs, and the bytes of its lengths.
    pub(crate) fn put_key(
        self,
        out: &mut [u8],
        key: &RestCell<'_>,
        behind: Behind,
    ) -> (usize, u16) {
        match self {
            Self::Dense | Self::Headless => (key.put(out, 0, behind.code), 0),
            Self::Aligned => {
                let frame = Frame::new(key.code(), key.stored_len(), behind);
                frame.put(out, (key.code(), key.stored_len()), behind);
                key.write(out, frame.key_at);
                (frame.value_at, frame.codes)
            }
        }
    }

    /// Writes a leaf's record with one value to the beginning of `out`. Returns the bytes of its
    /// lengths.
    pub(crate) fn put_single(
        self,
        out: &mut [u8],
        key: &RestCell<'_>,
        value: &ValueCell<'_>,
    ) -> u16 {
        let behind = Behind::of(self, value);
        let (at, codes) = self.put_key(out, key, behind);
        match value {
            ValueCell::Inline(bytes) => bytes.write(out, at),
            ValueCell::Extent(extent) => {
                super::put_extent(out, at, extent);
                out[at + EXTENT_CELL..at + behind.len].fill(0);
            }
        }
        codes
    }
}

/// The rest of a key after `shared` bytes, as it stands in a record.
#[derive(Clone, Copy)]
pub(crate) struct RestCell<'a> {
    pub(crate) rest: Bytes<'a>,
    pub(crate) extent: Option<ExtentRef>,
}

impl<'a> RestCell<'a> {
    /// Takes `shared` bytes off a key. Of a long key at most [`KNOWN_MAX`] more are kept.
    pub(crate) fn of(key: &KeyCell<'a>, shared: usize, order: &KeyOrder) -> Self {
        let len = key.known.len();
        // The keys of a damaged page need not have what they are said to share.
        let own = len.saturating_sub(shared);
        let shared = len - own;
        let keep = match key.extent {
            Some(_) => own.min(KNOWN_MAX),
            None => own,
        };
        let rest = match order {
            KeyOrder::Reverse => key.known.sub(len - shared - keep, len - shared),
            _ => key.known.sub(shared, shared + keep),
        };
        Self { rest, extent: key.extent }
    }

    /// Its length or code.
    fn code(&self) -> u32 {
        self.extent.map_or(self.rest.len() as u32, |_| code::EXTENT)
    }

    /// The bytes that it takes in a record, without its length.
    pub(crate) fn stored_len(&self) -> usize {
        self.extent.map_or(0, |_| KEY_EXTENT_CELL) + self.rest.len()
    }

    /// The bytes that it takes in a dense record, its length included.
    pub(crate) fn len(&self) -> usize {
        length_len(self.code() as usize) + self.stored_len()
    }

    /// Writes it; returns its end.
    fn write(&self, out: &mut [u8], mut at: usize) -> usize {
        if let Some(extent) = &self.extent {
            super::put_extent(out, at, extent);
            put_u16(out, at + EXTENT_CELL, self.rest.len() as u16);
            at += KEY_EXTENT_CELL;
        }
        self.rest.write(out, at);
        at + self.rest.len()
    }

    /// Writes length, code and rest of a dense record. Returns where `behind` begins.
    pub(crate) fn put(&self, out: &mut [u8], at: usize, behind: u32) -> usize {
        let at = at + put_length(out, at, self.code());
        let at = at + put_length(out, at, behind);
        self.write(out, at)
    }
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
