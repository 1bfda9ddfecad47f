//! Memory for changed pages: frames of a page each, cut from slabs.
//!
//! A large transaction changes pages all over its tables, so that nearly every step into a changed
//! page misses the processor's table of addresses. Slabs as large and aligned as the system's large
//! pages make that table reach further: a random load of 200 MB takes an eighth less time than with
//! frames from the allocator. A small transaction does with the first, small slab, which stays.
//!
//! The slabs of a large transaction stay with the process for the next one, of whatever store, as
//! memory that the system may take when it needs it. Requesting them anew costs clearing them, and
//! far more on a virtual machine whose host takes large pages back that are free for a while.
#![expect(unsafe_code, reason = "frames are parts of one allocation with an owner each")]

use std::alloc::{Layout, alloc, dealloc};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::sync::{Mutex, MutexGuard, locked};
use crate::{Error, Result, os};

/// The first slab, which small transactions do with.
const SMALL_BYTES: usize = 256 << 10;
/// Every other slab.
const LARGE_BYTES: usize = os::LARGE_PAGE;
/// How many slabs stay when all frames have come back.
const KEPT: usize = 2;

/// How many large slabs the process keeps that no store uses: as many as a transaction within the
/// usual budget of memory fills.
const IDLE_MOST: usize = (256 << 20) / LARGE_BYTES;

/// Large slabs that no store uses. No thread waits for this lock, since in a child of this process
/// the thread that held it may not exist: then slabs are requested from the system and given back
/// to it.
static IDLE: std::sync::Mutex<Vec<Slab>> = std::sync::Mutex::new(Vec::new());

/// The frames of a store, used or free.
pub(crate) struct Frames {
    page_size: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slabs: Vec<Slab>,
    /// Frames that came back; the last one is still in a cache.
    free: Vec<NonNull<u8>>,
    /// How many frames of the newest slab were handed out at least once.
    begun: usize,
    /// How many frames are handed out.
    used: usize,
}

// SAFETY: the pointers are the unused frames; they lead into the slabs beside them.
unsafe impl Send for State {}

impl Frames {
    pub(crate) fn new(page_size: usize) -> Arc<Self> {
        Arc::new(Self { page_size, state: Mutex::default() })
    }

    /// A frame for one page. Its content is undefined: building a page fills it completely.
    pub(crate) fn take(self: &Arc<Self>) -> Result<Buffer> {
        let mut state = self.state();
        let base = match state.free.pop() {
            Some(base) => base,
            None => state.begin(self.page_size)?,
        };
        state.used += 1;
        drop(state);
        Ok(Buffer { base, len: self.page_size as u32, frames: Arc::clone(self) })
    }

    /// Whether more memory is held than stays when all frames have come back.
    pub(crate) fn are_many(&self) -> bool {
        self.state().slabs.len() > KEPT
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn put_back(&self, base: NonNull<u8>) {
        let mut state = self.state();
        state.used -= 1;
        if state.used == 0 && state.slabs.len() > KEPT {
            state.shrink();
        } else {
            state.free.push(base);
        }
    }
}

impl State {
    /// A frame that was never used, zeroed: uninitialised memory must not be read.
    fn begin(&mut self, page_size: usize) -> Result<NonNull<u8>> {
        if self.slabs.last().is_none_or(|slab| (self.begun + 1) * page_size > slab.layout.size()) {
            let slab = if self.slabs.is_empty() { Slab::new(SMALL_BYTES) } else { Slab::large() };
            self.slabs.push(slab?);
            self.begun = 0;
        }
        let Some(slab) = self.slabs.last() else { return Err(Error::OutOfMemory) };
        let at = self.begun * page_size;
        // SAFETY: the frame lies in the slab, as was just ensured, and it is not in use yet.
        let frame = unsafe {
            let base = slab.base.add(at);
            std::slice::from_raw_parts_mut(base.as_ptr().cast::<MaybeUninit<u8>>(), page_size)
        };
        // In pieces, as in `page::build::clear`.
        for piece in frame.chunks_mut(1024) {
            piece.fill(MaybeUninit::new(0));
        }
        self.begun += 1;
        Ok(NonNull::from(frame).cast())
    }

    /// Gives back what a large transaction had; no frame is in use.
    fn shrink(&mut self) {
        self.slabs.truncate(1);
        self.free = Vec::new();
        self.begun = 0;
    }
}

/// One allocation. Its content is undefined, and may be uninitialised.
struct Slab {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a slab is the only owner of its memory.
unsafe impl Send for Slab {}

impl Slab {
    /// A large one, if possible one of those that are idle.
    fn large() -> Result<Self> {
        let idle = IDLE.try_lock().ok().and_then(|mut idle| idle.pop());
        idle.map_or_else(|| Self::new(LARGE_BYTES), Ok)
    }

    fn new(bytes: usize) -> Result<Self> {
        let layout = Layout::from_size_align(bytes, bytes).map_err(|_| Error::OutOfMemory)?;
        // SAFETY: the size is not zero.
        let base = unsafe { alloc(layout) };
        let base = NonNull::new(base).ok_or(Error::OutOfMemory)?;
        let mut slab = Self { base, layout };
        if bytes >= LARGE_BYTES {
            os::prefer_large_pages(slab.memory());
        }
        Ok(slab)
    }

    fn memory(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: allocated with this length; frames are cut from a slab only while it is borrowed
        // from its state, and the caller owns it, with no frame in use.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().cast(), self.layout.size()) }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        if self.layout.size() == LARGE_BYTES
            && let Ok(mut idle) = IDLE.try_lock()
            && idle.len() < IDLE_MOST
            && os::lend(self.memory())
        {
            idle.push(Self { base: self.base, layout: self.layout });
            return;
        }
        // SAFETY: allocated with this layout in `new`. Each buffer holds on to the frames that this
        // slab belongs to, and `shrink` is called while there is none.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// The bytes of one changed page: a frame, which goes back to the others on drop.
pub(crate) struct Buffer {
    base: NonNull<u8>,
    len: u32,
    frames: Arc<Frames>,
}

// SAFETY: a buffer is the only owner of its frame.
unsafe impl Send for Buffer {}
// SAFETY: `&Buffer` gives shared references to the frame's bytes only.
unsafe impl Sync for Buffer {}

impl Buffer {
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the frame has `len` bytes, all of them were written once, its slab lives as long
        // as `frames`, and the only owner of the frame is borrowed.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len as usize) }
    }

    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the owner is borrowed for changing.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len as usize) }
    }

    /// Fills the frame with a copy of a page.
    pub(crate) fn copy_from(&mut self, page: &[u8]) {
        // In pieces, as in `page::build::clear`.
        let pieces = self.bytes_mut().chunks_mut(2048).zip(page.chunks(2048));
        pieces.for_each(|(to, from)| to.copy_from_slice(from));
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.frames.put_back(self.base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames whose ends are seen to lie apart from each other.
    fn fill(frames: &Arc<Frames>, count: usize) -> Vec<Buffer> {
        let mut taken: Vec<Buffer> = (0..count).map(|_| frames.take().unwrap()).collect();
        for (i, frame) in (0_u64..).zip(&mut taken) {
            let bytes = frame.bytes_mut();
            bytes[..8].copy_from_slice(&i.to_le_bytes());
            bytes[frames.page_size - 8..].copy_from_slice(&(!i).to_le_bytes());
        }
        for (i, frame) in (0_u64..).zip(&taken) {
            let bytes = frame.bytes();
            assert_eq!(bytes.len(), frames.page_size);
            assert_eq!(bytes[..8], i.to_le_bytes());
            assert_eq!(bytes[frames.page_size - 8..], (!i).to_le_bytes());
        }
        taken
    }

    #[test]
    fn frames_do_not_overlap_and_come_back() {
        for page_size in [4096, 65536] {
            let frames = Frames::new(page_size);
            let many = SMALL_BYTES / page_size + 2 * LARGE_BYTES / page_size + 1;
            let mut taken = fill(&frames, many);
            assert_eq!(frames.state().slabs.len(), 4);
            taken.truncate(many / 2);
            taken.extend(fill(&frames, many - many / 2));
            assert_eq!(frames.state().slabs.len(), 4, "frames that came back are used first");
            drop(taken);
            assert_eq!(frames.state().slabs.len(), 1);
            drop(fill(&frames, 3));
            assert_eq!(frames.state().free.len(), 3);
        }
    }

    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "no memory is lent there")]
    #[test]
    fn large_slabs_stay_with_the_process_up_to_a_bound() {
        let idle = || IDLE.lock().unwrap();
        // Other tests may take it in between.
        let stays = || {
            let slab = Slab::large().unwrap();
            let base = slab.base;
            drop(slab);
            idle().iter().any(|slab| slab.base == base)
        };
        assert!((0..100).any(|_| stays()));
        drop((0..2 * IDLE_MOST).map(|_| Slab::new(LARGE_BYTES).unwrap()).collect::<Vec<_>>());
        assert!(idle().len() <= IDLE_MOST);
    }

    #[test]
    fn a_buffer_outlives_the_handle_of_its_frames() {
        let frames = Frames::new(4096);
        let mut page = frames.take().unwrap();
        page.copy_from(&[7; 4096]);
        drop(frames);
        assert_eq!(page.bytes(), [7; 4096]);
    }
}
