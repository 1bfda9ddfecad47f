//! Memory that is taken bit by bit by several threads and given back all at once.
//!
//! It knows bytes only: what is put into them is not dropped.
#![expect(unsafe_code, reason = "it hands out memory")]

use std::alloc::{self, Layout};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use crate::sync::atomic::{AtomicPtr, AtomicU64};

/// What every piece is aligned to.
pub(super) const ALIGN: usize = 8;
/// The length of the first chunk, header included. Each further one is as long as all before it,
/// so that at most half of what is held lies idle ...
const CHUNK_MIN: usize = 8 << 10;
/// ... but at most this long.
const CHUNK_MAX: usize = 1 << 20;
/// Longer pieces get a chunk of their own, lest the end of the present one is wasted.
const PIECE_MAX: usize = CHUNK_MAX / 8;

/// The beginning of a chunk; its bytes follow.
struct Chunk {
    /// The one that was made before it.
    before: *mut Chunk,
    /// Of the whole chunk.
    len: usize,
    /// How many bytes were requested, including the header's; more than `len` once it is full.
    used: AtomicU64,
}

const HEADER: usize = size_of::<Chunk>().next_multiple_of(ALIGN);

/// The memory. Chunks are made and linked without locks, and all live as long as the arena.
pub(super) struct Arena {
    /// The chunk from which pieces are taken, linked to the earlier ones; null at first.
    filling: AtomicPtr<Chunk>,
    /// Chunks of one piece each.
    single: AtomicPtr<Chunk>,
    held: AtomicU64,
}

impl Arena {
    pub(super) const fn new() -> Self {
        Self {
            filling: AtomicPtr::new(ptr::null_mut()),
            single: AtomicPtr::new(ptr::null_mut()),
            held: AtomicU64::new(0),
        }
    }

    /// The bytes that are held, used or not.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed) as usize
    }

    /// A piece of uninitialised memory of `len` bytes, aligned to [`ALIGN`], that is not used
    /// elsewhere and that lives as long as the arena. Its pointer may be used for the piece only.
    pub(super) fn take(&self, len: usize) -> NonNull<u8> {
        let len = len.next_multiple_of(ALIGN);
        if len > PIECE_MAX {
            return self.take_single(len);
        }
        loop {
            let chunk = self.filling.load(Ordering::Acquire);
            if let Some(chunk) = NonNull::new(chunk) {
                // SAFETY: a pointer in `filling` is null or a chunk of this arena, initialised
                // before it was published, and chunks are freed only by `drop`.
                if let Some(piece) = unsafe { piece_of(chunk, len) } {
                    return piece;
                }
            }
            let chunk_len = self.held().clamp(CHUNK_MIN, CHUNK_MAX).max(HEADER + len);
            let another = make(chunk_len, chunk);
            let (won, lost) = (Ordering::AcqRel, Ordering::Relaxed);
            if self.filling.compare_exchange(chunk, another.as_ptr(), won, lost).is_ok() {
                self.held.fetch_add(chunk_len as u64, Ordering::Relaxed);
            } else {
                // SAFETY: it was made by `make` just now, and no other thread has seen it.
                unsafe { free(another) };
            }
        }
    }

    fn take_single(&self, len: usize) -> NonNull<u8> {
        let chunk = make(HEADER + len, ptr::null_mut());
        self.held.fetch_add((HEADER + len) as u64, Ordering::Relaxed);
        let mut before = self.single.load(Ordering::Relaxed);
        loop {
            // SAFETY: the chunk was made just now and is not published yet: this thread alone has
            // it.
            unsafe { (*chunk.as_ptr()).before = before };
            let (won, lost) = (Ordering::Release, Ordering::Relaxed);
            match self.single.compare_exchange(before, chunk.as_ptr(), won, lost) {
                // SAFETY: the chunk is `HEADER + len` bytes long.
                Ok(_) => return unsafe { chunk.cast::<u8>().add(HEADER) },
                Err(other) => before = other,
            }
        }
    }
}

/// Takes `len` bytes, a multiple of [`ALIGN`], from the end of what is used of a chunk.
///
/// # Safety
///
/// `chunk` was made by [`make`] and is not freed.
unsafe fn piece_of(chunk: NonNull<Chunk>, len: usize) -> Option<NonNull<u8>> {
    // SAFETY: the header is initialised by `make`; of its fields `used` alone is changed once the
    // chunk is published, and that is atomic. No reference to the whole header is made, so that the
    // pointer stays valid for the bytes after it.
    let (used, chunk_len) = unsafe { (&(*chunk.as_ptr()).used, (*chunk.as_ptr()).len) };
    let start = used.fetch_add(len as u64, Ordering::Relaxed) as usize;
    if start > chunk_len || len > chunk_len - start {
        return None;
    }
    // SAFETY: in bounds, by the condition. Since `used` only grows, and by all that was ever given
    // out, no other caller gets any of these bytes.
    Some(unsafe { chunk.cast::<u8>().add(start) })
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, ALIGN).expect("a length that was computed without overflow")
}

/// A chunk of `len` bytes, header included, of which nothing is used.
fn make(len: usize, before: *mut Chunk) -> NonNull<Chunk> {
    // SAFETY: the length is not zero, since it includes the header's.
    let memory = unsafe { alloc::alloc(layout(len)) };
    let Some(chunk) = NonNull::new(memory.cast::<Chunk>()) else {
        alloc::handle_alloc_error(layout(len));
    };
    let used = AtomicU64::new(HEADER as u64);
    // SAFETY: the memory is long enough for the header and aligned for it.
    unsafe { chunk.write(Chunk { before, len, used }) };
    chunk
}

/// Frees a chunk.
///
/// # Safety
///
/// It was made by [`make`], is not freed yet, and neither it nor anything in it is used any more.
unsafe fn free(chunk: NonNull<Chunk>) {
    // SAFETY: the caller's word; the length is that which it was allocated with.
    unsafe {
        let len = (*chunk.as_ptr()).len;
        alloc::dealloc(chunk.as_ptr().cast(), layout(len));
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for list in [&self.filling, &self.single] {
            let mut next = list.load(Ordering::Relaxed);
            while let Some(chunk) = NonNull::new(next) {
                // SAFETY: each chunk is in one list, once; pieces are used only while the arena
                // lives, and its life ends here. The link to the next chunk is read before the
                // chunk is freed.
                unsafe {
                    next = (*chunk.as_ptr()).before;
                    free(chunk);
                }
            }
        }
    }
}
