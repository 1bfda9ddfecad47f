//! Keys in one piece: the two parts of a key copied together, in a few whole blocks.

#![expect(unsafe_code, reason = "blocks that reach beyond a string, inside its page")]

use std::mem::MaybeUninit;

use super::{HEADER_LEN, Page, SHARED_OFFSET, code};
use crate::tree::bytes::Joined;

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

impl<'a> Page<'a> {
    /// What [`Page::joinable_of`] needs to know of this page, a leaf but no ALIGNED one. `None` if
    /// no record of it is joinable.
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
}
