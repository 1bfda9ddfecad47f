//! The memory of a table: its layout, which the opening of [`super`] draws, and views of it.
#![expect(unsafe_code, reason = "views of shared memory")]

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::map::Region;
use crate::sync::atomic::{AtomicU32, AtomicU64};

/// As many processes can have one store open at the same time.
pub(in crate::os) const PROCESSES: usize = 1024;
/// As many reader slots can be taken at the same time.
pub(in crate::os) const SLOTS_MAX: u32 = 1 << 16;
/// The bytes before the reader slots.
pub(super) const FIXED_LEN: usize = size_of::<Fixed>();
/// The bytes of a table that has grown to its largest.
pub(super) const FULL_LEN: usize = FIXED_LEN + SLOTS_MAX as usize * size_of::<Reader>();
/// The mark of a process that has the store open for reading only.
pub(super) const ONLY_READS: u32 = 1;
/// A slot's pin while it pins nothing.
pub(super) const NOTHING: u64 = u64::MAX;

/// What identifies a lock file; see the layout above.
#[repr(C)]
pub(super) struct Header {
    pub(super) magic: AtomicU64,
    pub(super) version: AtomicU32,
    pub(super) layout: AtomicU32,
    pub(super) used: AtomicU32,
    rest: [AtomicU32; 11],
}

/// One process that has the store open.
#[repr(C)]
pub(in crate::os) struct Process {
    pub(super) state: AtomicU32,
    pub(super) generation: AtomicU32,
    pub(super) id: AtomicU32,
    /// [`ONLY_READS`], or that it may write.
    pub(super) access: AtomicU32,
    pub(super) start: AtomicU64,
    pub(super) namespace: AtomicU64,
    more: [AtomicU64; 4],
}

/// One reader slot: a cache line, so that readers on different cores do not disturb each other.
#[repr(C)]
pub(super) struct Reader {
    pub(super) pinned: AtomicU64,
    pub(super) owner: AtomicU64,
    pub(super) thread: AtomicU64,
    pub(super) since: AtomicU64,
    rest: [AtomicU64; 4],
}

/// The part of the table before the reader slots.
#[repr(C)]
pub(super) struct Fixed {
    pub(super) header: Header,
    pub(super) words: [AtomicU64; 8],
    pub(super) writer: AtomicU32,
    pub(super) bell: AtomicU32,
    pub(super) awaited: AtomicU32,
    rest: [AtomicU32; 13],
    pub(super) wanted: [AtomicU64; PROCESSES / 64],
    more: [AtomicU64; 472],
    pub(super) processes: [Process; PROCESSES],
}

const _: () = assert!(size_of::<Header>() == 64 && size_of::<Reader>() == 64);
const _: () = assert!(size_of::<Process>() == 64 && FIXED_LEN == 4096 + 64 * PROCESSES);
const _: () = assert!(std::mem::offset_of!(Fixed, processes) == 4096);

/// The memory that a table lies in. Possibly only a part of it is backed by a file so far.
pub(in crate::os) struct Memory {
    /// At least [`FULL_LEN`] bytes that may be read and written, and start at a page.
    region: Region,
}

impl Memory {
    /// Memory of this process.
    pub(in crate::os) fn private() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { region: Region::memory(FULL_LEN)? }))
    }

    /// The memory of a file, shared with all processes that map it.
    pub(super) fn of_file(file: BorrowedFd<'_>) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { region: Region::file_shared(file, FULL_LEN)? }))
    }

    pub(super) fn fixed(&self) -> &Fixed {
        // SAFETY: the region holds at least FULL_LEN bytes and starts at a page, so that `Fixed`
        // lies inside, aligned; it consists of atomic integers, which any bytes are a value of
        // and which others may change; the region lives as long as the borrow of `self`.
        unsafe { &*self.region.base().cast::<Fixed>() }
    }

    pub(super) fn reader(&self, slot: u32) -> &Reader {
        assert!(slot < SLOTS_MAX, "no reader slot {slot}");
        // SAFETY: as the slot is below SLOTS_MAX, it lies inside of the region's FULL_LEN bytes;
        // it is aligned, as the fixed part and every slot are multiples of 64 bytes; the rest is
        // as in `fixed`.
        unsafe {
            let readers = self.region.base().add(FIXED_LEN).cast::<Reader>();
            &*readers.add(slot as usize)
        }
    }

    /// Makes slots free, and pin nothing.
    pub(in crate::os) fn clear(&self, slots: std::ops::Range<u32>) {
        for slot in slots {
            let reader = self.reader(slot);
            reader.pinned.store(NOTHING, Ordering::SeqCst);
            reader.owner.store(0, Ordering::SeqCst);
        }
    }
}

/// A word that reads as 0 in a child after a fork, if the system has memory of that kind.
#[cfg(target_os = "linux")]
pub(super) fn wiped_word() -> Option<&'static std::sync::atomic::AtomicU64> {
    let region = Region::wiped_on_fork().ok()?;
    let word = region.base().cast();
    std::mem::forget(region);
    // SAFETY: the page is aligned, readable, writable and never unmapped, as its region was
    // forgotten; an atomic integer may have any bytes.
    Some(unsafe { &*word })
}
