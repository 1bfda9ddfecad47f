//! Memory that a transaction owns, for strings that the store does not hold in one piece: handed
//! out by address, never moved, let go together.

#![expect(unsafe_code, reason = "pieces are handed out by address")]

use std::mem::MaybeUninit;

use hedgerow::tree::Bytes;

use crate::abi::Val;

/// The first chunk; each next one is twice as long, up to [`CHUNK_MAX`].
const CHUNK_MIN: usize = 4 << 10;
const CHUNK_MAX: usize = 1 << 20;
/// So much may be in use when a write begins without being let go.
const KEPT: usize = 64 << 10;

/// The longest part of a string that [`copy_short`] copies.
const SHORT_MAX: usize = 64;

/// The memory.
pub(crate) struct Arena {
    /// The free part of the newest chunk.
    free: *mut u8,
    left: usize,
    /// Written to by address only, which is why they are not boxes.
    chunks: Vec<Chunk>,
    used: usize,
    /// Lists that were handed out.
    lists: Vec<Box<[Val]>>,
}

struct Chunk {
    base: *mut u8,
    len: usize,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let bytes = self.base.cast::<MaybeUninit<u8>>();
        let slice = std::ptr::slice_from_raw_parts_mut(bytes, self.len);
        // SAFETY: `Arena::grow` took it from a box of this length; nobody else lets it go.
        drop(unsafe { Box::from_raw(slice) });
    }
}

// SAFETY: the chunks belong to the arena alone; what was handed out is the C caller's to keep in
// one thread at a time, as the interface says of transactions.
unsafe impl Send for Arena {}

impl Arena {
    /// Without memory yet.
    pub(crate) const fn new() -> Self {
        Self { free: std::ptr::null_mut(), left: 0, chunks: Vec::new(), used: 0, lists: Vec::new() }
    }

    /// A string in one piece: where it stands, if it does, else a copy.
    #[inline(always)]
    pub(crate) fn val(&mut self, bytes: Bytes<'_>) -> Val {
        let (first, second) = bytes.parts();
        if first.is_empty() {
            return Val::new(second.as_ptr(), second.len());
        }
        if second.is_empty() {
            return Val::new(first.as_ptr(), first.len());
        }
        self.join(first, second)
    }

    /// A copy of `first` followed by `second`.
    #[inline(always)]
    pub(crate) fn join(&mut self, first: &[u8], second: &[u8]) -> Val {
        let len = first.len() + second.len();
        let to = self.take(len);
        // SAFETY: `take` answers `len` bytes that nobody else has; the sources are slices, and not
        // in them, since those are handed out only once.
        unsafe {
            std::ptr::copy_nonoverlapping(first.as_ptr(), to, first.len());
            std::ptr::copy_nonoverlapping(second.as_ptr(), to.add(first.len()), second.len());
        }
        Val::new(to, len)
    }

    /// Keeps a list as long as what it names.
    pub(crate) fn keep(&mut self, list: Vec<Val>) -> &[Val] {
        self.used += list.len() * size_of::<Val>();
        self.lists.push(list.into_boxed_slice());
        self.lists.last().map_or(&[], |list| list)
    }

    /// `len` bytes. Their content is of no meaning.
    #[inline(always)]
    fn take(&mut self, len: usize) -> *mut u8 {
        if len > self.left {
            self.grow(len);
        }
        let at = self.free;
        self.left -= len;
        self.free = at.wrapping_add(len);
        at
    }

    /// As [`Arena::val`], in few instructions and without a call: `None`, and nothing taken, for a
    /// copy that is long or needs new memory.
    #[inline(always)]
    pub(crate) fn short_val(&mut self, bytes: Bytes<'_>) -> Option<Val> {
        let (first, second) = bytes.parts();
        if first.is_empty() {
            return Some(Val::new(second.as_ptr(), second.len()));
        }
        if second.is_empty() {
            return Some(Val::new(first.as_ptr(), first.len()));
        }
        let len = first.len() + second.len();
        if first.len() > SHORT_MAX || second.len() > SHORT_MAX || len > self.left {
            return None;
        }
        let to = self.take(len);
        // SAFETY: as in `join`; both parts are short ones.
        unsafe {
            copy_short(first.as_ptr(), to, first.len());
            copy_short(second.as_ptr(), to.add(first.len()), second.len());
        }
        Some(Val::new(to, len))
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, len: usize) {
        let last = self.chunks.last().map_or(CHUNK_MIN / 2, |chunk| chunk.len);
        let size = (2 * last).min(CHUNK_MAX).max(len);
        let base = Box::into_raw(Box::<[u8]>::new_uninit_slice(size)).cast();
        self.used += size;
        self.chunks.push(Chunk { base, len: size });
        (self.free, self.left) = (base, size);
    }

    /// Whatever was handed out is of no use from here on, or soon: the memory is taken back when
    /// there is much of it.
    #[inline(always)]
    pub(crate) fn renew(&mut self) {
        if self.used > KEPT {
            self.clear();
        }
    }

    /// Takes the memory back.
    #[cold]
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }
}

/// Copies up to [`SHORT_MAX`] bytes, without a call: both ends, which overlap.
///
/// # Safety
/// As of `copy_nonoverlapping`; `len` is from 1 to [`SHORT_MAX`].
#[inline(always)]
unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: each branch copies its size from the beginning and up to the end, and `len` is at
    // least that size; in the last one, from 1 to 3, the middle byte is the first or the last or
    // between them.
    unsafe {
        match len {
            33.. => copy_ends::<32>(from, to, len),
            16.. => copy_ends::<16>(from, to, len),
            8.. => copy_ends::<8>(from, to, len),
            4.. => copy_ends::<4>(from, to, len),
            _ => {
                let middle = len / 2;
                to.add(middle).write(from.add(middle).read());
                copy_ends::<1>(from, to, len);
            }
        }
    }
}

/// Copies `N` bytes from the beginning and `N` up to the end.
///
/// # Safety
/// As of `copy_nonoverlapping`; `len` is at least `N`.
#[inline(always)]
unsafe fn copy_ends<const N: usize>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: both stay inside of `len` bytes.
    unsafe {
        let first = from.cast::<[u8; N]>().read();
        let last = from.add(len - N).cast::<[u8; N]>().read();
        to.cast::<[u8; N]>().write(first);
        to.add(len - N).cast::<[u8; N]>().write(last);
    }
}
