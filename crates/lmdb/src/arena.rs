//! Memory for strings that the store does not hold in one piece: handed out by address and never
//! moved. A transaction's memory is freed when it ends; a cursor's is reused by its next call.

#![expect(unsafe_code, reason = "pieces are handed out by address")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;

use hedgerow::tree::Bytes;
use hedgerow::tree::raw::{Joined, KeyRoom};

use crate::abi::Val;

/// The first chunk; each next one is twice as long, up to [`CHUNK_MAX`].
const CHUNK_MIN: usize = 4 << 10;
/// What the system gives at once where it has pages of this size, as it is asked for in chunks of
/// it: a scan that fills chunk after chunk stops for one of them, and not for 512 small ones.
const CHUNK_MAX: usize = 2 << 20;
/// If at most this much is in use when a write begins, it is not freed.
const KEPT: usize = 64 << 10;

/// The memory.
pub(crate) struct Arena {
    /// The free part of the newest chunk; not null.
    free: *mut u8,
    left: usize,
    chunks: Vec<Chunk>,
    /// Chunks that were in use when the newest one was rewound: the caller may pass strings that it
    /// got then as arguments now.
    older: Vec<Chunk>,
    used: usize,
    /// Whether any address was handed out, of its own or of the store's.
    has_given: bool,
    /// A transaction's memory for strings that it hands out without a cursor, valid until the next
    /// such call.
    brief: Option<Box<Self>>,
}

/// One piece of the memory.
pub(crate) struct Chunk {
    base: *mut u8,
    layout: Layout,
}

impl Chunk {
    /// A chunk of `len` bytes, which is not 0.
    fn new(len: usize) -> Self {
        let align = if len == CHUNK_MAX { CHUNK_MAX } else { align_of::<u64>() };
        let Ok(layout) = Layout::from_size_align(len, align) else {
            handle_alloc_error(Layout::new::<u8>())
        };
        // SAFETY: the length is not 0.
        let base = unsafe { alloc(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        if align == CHUNK_MAX {
            // SAFETY: the memory is the chunk's; how the system keeps it changes nothing in it.
            // That it keeps it in small pages is no failure.
            unsafe { libc::madvise(base.cast(), len, libc::MADV_HUGEPAGE) };
        }
        Self { base, layout }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: `Chunk::new` allocated it with this layout; it is freed only here.
        unsafe { dealloc(self.base, self.layout) };
    }
}

// SAFETY: it is the only owner of its allocation; nothing is read through it.
unsafe impl Send for Chunk {}
// SAFETY: the chunks belong to the arena alone; what was handed out is the C caller's to keep in
// one thread at a time, as the interface says of transactions.
unsafe impl Send for Arena {}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

impl Arena {
    /// Without memory yet.
    pub(crate) const fn new() -> Self {
        Self {
            free: std::ptr::dangling_mut(),
            left: 0,
            chunks: Vec::new(),
            older: Vec::new(),
            used: 0,
            has_given: false,
            brief: None,
        }
    }

    /// Memory for what is handed out without a cursor until the next time; see [`Arena::rewind`].
    pub(crate) fn brief(&mut self) -> &mut Self {
        self.brief.get_or_insert_default()
    }

    /// Whether its transaction has handed out any address, so that what a caller names may stand in
    /// the store. Stays true when the memory is taken back.
    #[inline(always)]
    pub(crate) fn has_given(&self) -> bool {
        self.has_given
    }

    /// Addresses were handed out by others: a parent, a child, or room in the store itself.
    pub(crate) fn note_given(&mut self, has_given: bool) {
        self.has_given |= has_given;
    }

    /// A string in one piece: in its place if it is stored so, otherwise a copy.
    #[inline(always)]
    pub(crate) fn val(&mut self, bytes: Bytes<'_>) -> Val {
        match bytes.as_slice() {
            Some(whole) => self.stored(whole),
            None => self.copied(bytes),
        }
    }

    /// A string of the store's.
    #[inline(always)]
    pub(crate) fn stored(&mut self, whole: &[u8]) -> Val {
        self.has_given = true;
        Val::new(whole.as_ptr(), whole.len())
    }

    /// A copy of a string.
    #[inline(never)]
    pub(crate) fn copied(&mut self, bytes: Bytes<'_>) -> Val {
        let (first, second) = bytes.parts();
        self.join(first, second)
    }

    /// A copy of `first` followed by `second`.
    #[inline(always)]
    pub(crate) fn join(&mut self, first: &[u8], second: &[u8]) -> Val {
        self.has_given = true;
        let len = first.len() + second.len();
        let to = self.take(len);
        // SAFETY: `take` gives `len` bytes that are not used elsewhere; the sources are slices, and
        // not in them, since those are handed out only once.
        unsafe {
            std::ptr::copy_nonoverlapping(first.as_ptr(), to, first.len());
            std::ptr::copy_nonoverlapping(second.as_ptr(), to.add(first.len()), second.len());
        }
        Val::new(to, len)
    }

    /// `len` bytes. Their content is undefined.
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

    /// The memory that is free without growing, to be taken from its beginning by
    /// [`Arena::joined`].
    #[inline(always)]
    pub(crate) fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: `left` bytes from `free` on are in the newest chunk, and not in use. Without a
        // chunk there are none, and `free` is not null.
        unsafe { std::slice::from_raw_parts_mut(self.free.cast(), self.left) }
    }

    /// A string that is stored in one piece, or was written to the beginning of the room, which
    /// then ends after it.
    #[inline(always)]
    pub(crate) fn joined(&mut self, string: Joined<'_>) -> Val {
        self.has_given = true;
        self.short(string)
    }

    /// Room for a short string, unless [`Arena::make_room`] has something to do.
    #[inline(always)]
    pub(crate) fn key_room(&mut self) -> Option<&mut KeyRoom> {
        if self.left < size_of::<KeyRoom>() {
            return None;
        }
        // SAFETY: this many bytes from `free` on are in the newest chunk, and not in use.
        Some(unsafe { &mut *self.free.cast() })
    }

    /// As [`Arena::joined`], in a read transaction, whose strings no write is given.
    #[inline(always)]
    pub(crate) fn short(&mut self, string: Joined<'_>) -> Val {
        match string {
            Joined::Stored(whole) => Val::new(whole.as_ptr(), whole.len()),
            Joined::Copied(len) => {
                debug_assert!(len <= self.left);
                let at = self.free;
                self.left -= len;
                self.free = at.wrapping_add(len);
                Val::new(at, len)
            }
        }
    }

    /// Ensures that there is room for a short string.
    #[inline(always)]
    pub(crate) fn make_room(&mut self) {
        if self.left < size_of::<KeyRoom>() {
            self.grow(size_of::<KeyRoom>());
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, len: usize) {
        let last = self.chunks.last().map_or(CHUNK_MIN / 2, |chunk| chunk.layout.size());
        let size = (2 * last).min(CHUNK_MAX).max(len);
        let chunk = Chunk::new(size);
        self.used += size;
        (self.free, self.left) = (chunk.base, size);
        self.chunks.push(chunk);
    }

    /// Everything that was handed out becomes invalid, now or soon: the memory is taken back when
    /// there is much of it.
    #[inline(always)]
    pub(crate) fn renew(&mut self) {
        if self.used > KEPT {
            self.clear();
        }
    }

    /// Whatever was handed out may be written over from here on, though not before what the caller
    /// names now was read.
    #[inline(always)]
    pub(crate) fn rewind(&mut self) {
        if self.chunks.len() > 1 {
            self.keep_newest();
        }
        if let Some(chunk) = self.chunks.last() {
            (self.free, self.left) = (chunk.base, chunk.layout.size());
        }
    }

    /// The same memory, rewound.
    #[inline(always)]
    pub(crate) fn rewound(&mut self) -> &mut Self {
        self.rewind();
        self
    }

    #[cold]
    fn keep_newest(&mut self) {
        let newest = self.chunks.len() - 1;
        self.older = self.chunks.drain(..newest).collect();
    }

    /// Gives up the memory of the newest strings, which stay in it as long as it is kept.
    pub(crate) fn take_newest(&mut self) -> Option<Chunk> {
        (self.free, self.left) = (std::ptr::dangling_mut(), 0);
        self.chunks.pop()
    }

    /// Takes the memory back.
    #[cold]
    pub(crate) fn clear(&mut self) {
        *self = Self { has_given: self.has_given, ..Self::new() };
    }
}
