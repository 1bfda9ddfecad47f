//! Address space: reservations that a file grows under, shared memory, and pages a fork wipes.
//!
//! This file hands out pointers and lengths. It decides nothing about the bytes that they lead to.
#![expect(unsafe_code, reason = "mapping memory is what this file is for")]

use std::alloc::{Layout, handle_alloc_error};
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::{self, MapFlags, MprotectFlags, ProtFlags};

use super::file::{Access, Map, Paging, Shared};

/// Reservations smaller than this are not worth having: reading serves better.
#[cfg(target_pointer_width = "64")]
const RESERVE_MIN: u64 = 1 << 30;
/// Reservations smaller than this are not worth having: reading serves better.
#[cfg(not(target_pointer_width = "64"))]
const RESERVE_MIN: u64 = 64 << 20;

/// The files that are mapped with address space to grow share about this much of it, so that a
/// process may have thousands of them open, and space for everything else.
#[cfg(target_pointer_width = "64")]
const SHARED_BYTES: u64 = 8 << 40;
/// The files that are mapped with address space to grow share about this much of it.
#[cfg(not(target_pointer_width = "64"))]
const SHARED_BYTES: u64 = 2 << 30;
/// A file of a process that has many may grow at least to this many times its length.
const GROWS: u64 = 8;

/// How many files are mapped with address space to grow.
static GROWING: AtomicU64 = AtomicU64::new(0);

/// One of these files, as long as it is mapped.
struct Growing;

impl Growing {
    /// How much of `asked` bytes of address space another one gets that has `len`: the more there
    /// are, the less.
    fn part(asked: u64, len: u64) -> u64 {
        let part = SHARED_BYTES / (1 + GROWING.load(Relaxed));
        part.max(len.saturating_mul(GROWS)).max(RESERVE_MIN).min(asked)
    }

    fn new() -> Self {
        GROWING.fetch_add(1, Relaxed);
        Self
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        GROWING.fetch_sub(1, Relaxed);
    }
}

/// Asks the system to use large pages for this memory, where it has them. It may refuse.
#[cfg(target_os = "linux")]
pub(crate) fn prefer_large_pages(memory: &mut [MaybeUninit<u8>]) {
    let (base, len) = (memory.as_mut_ptr().cast(), memory.len());
    if cfg!(not(miri)) {
        // SAFETY: the range is the caller's, and what is in it stays.
        let _ = unsafe { mm::madvise(base, len, mm::Advice::LinuxHugepage) };
    }
}

/// Lets the system take this memory when it needs it, and only then: its content is gone once it
/// reads as zeros. Writing to it takes it back. False if the system does not support this.
#[cfg(target_os = "linux")]
pub(crate) fn lend(memory: &mut [MaybeUninit<u8>]) -> bool {
    let (base, len) = (memory.as_mut_ptr().cast(), memory.len());
    // SAFETY: the range is the caller's, and nothing is said of what is in it afterwards.
    cfg!(not(miri)) && unsafe { mm::madvise(base, len, mm::Advice::LinuxFree) }.is_ok()
}

/// A piece of address space that is given back on drop.
pub(super) struct Region {
    base: NonNull<u8>,
    len: usize,
    growing: Option<Growing>,
}

// SAFETY: a region is a range of addresses that no thread owns; what is done with its memory is
// `unsafe` at the place that does it.
unsafe impl Send for Region {}
// SAFETY: as above; `&Region` gives only the address and the length.
unsafe impl Sync for Region {}

impl Region {
    /// Maps the first `len` bytes of a file, whether or not it is that long, for reading.
    fn file_read_only(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Self::of_file(file, 0, len, ProtFlags::READ, MapFlags::SHARED)
    }

    /// The same, but that what is written there is seen by this process alone.
    fn file_private(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Self::of_file(file, 0, len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    }

    /// Maps the first `len` bytes of a file, whether or not it is that long, to share them with
    /// other processes.
    pub(super) fn file_shared(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Self::of_file(file, 0, len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)
    }

    fn of_file(
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        access: ProtFlags,
        kind: MapFlags,
    ) -> io::Result<Self> {
        let flags = kind | MapFlags::NORESERVE;
        // SAFETY: the address is left to the system, so that no other mapping is touched.
        let base = unsafe { mm::mmap(ptr::null_mut(), len, access, flags, file, offset)? };
        Self::granted(base, len)
    }

    /// Zeroed memory that may be read and written.
    pub(super) fn memory(len: usize) -> io::Result<Self> {
        Self::anonymous(len, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Address space without memory: touching it ends the process, as touching a mapped file beyond
    /// its end does. [`Region::reopen`] opens the first part of it.
    pub(super) fn closed(len: usize) -> io::Result<Self> {
        Self::anonymous(len, ProtFlags::empty())
    }

    fn anonymous(len: usize, access: ProtFlags) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the address is left to the system, so that no other mapping is touched.
        let base = unsafe { mm::mmap_anonymous(ptr::null_mut(), len, access, flags)? };
        Self::granted(base, len)
    }

    fn granted(base: *mut c_void, len: usize) -> io::Result<Self> {
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len, growing: None })
    }

    /// One page of memory that reads as zeros in a child after a fork.
    #[cfg(target_os = "linux")]
    pub(super) fn wiped_on_fork() -> io::Result<Self> {
        let region = Self::memory(page_size())?;
        let base = region.base.as_ptr().cast();
        // SAFETY: the range is the region's own, and no pointer into it exists yet.
        unsafe { mm::madvise(base, region.len, mm::Advice::LinuxWipeOnFork)? };
        Ok(region)
    }

    /// The first byte.
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The length in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The pages that hold the first `old` bytes were readable and writable; this makes exactly
    /// those that hold the first `new` bytes so. Pages that are opened hold zeros.
    ///
    /// # Safety
    /// The caller must ensure that the memory of closed pages is not used, neither now nor later
    /// without another call. If the call fails, the same holds for all pages after the shorter of
    /// the two lengths.
    pub(super) unsafe fn reopen(&self, old: usize, new: usize) -> io::Result<()> {
        let page = page_size();
        let [old, new] = [old, new].map(|len| len.next_multiple_of(page).min(self.len));
        let base = self.base.as_ptr();
        if new > old {
            let access = MprotectFlags::READ | MprotectFlags::WRITE;
            // SAFETY: both ends are at most the length of the region, so that the pointer and the
            // range lie in it.
            unsafe { mm::mprotect(base.add(old).cast(), new - old, access)? };
        } else if new < old {
            // SAFETY: as above; the caller promises that this part is not used.
            unsafe {
                let rest = base.add(new).cast();
                mm::mprotect(rest, old - new, MprotectFlags::empty())?;
                #[cfg(target_os = "linux")]
                mm::madvise(rest, old - new, mm::Advice::LinuxDontNeed)?;
            }
        }
        Ok(())
    }
}

impl Paging for Region {
    fn expect_random(&self) {
        // SAFETY: the range is the region's own, and what is in it stays.
        let _ = unsafe { mm::madvise(self.base.as_ptr().cast(), self.len, mm::Advice::Random) };
    }

    fn read_ahead(&self, offset: u64, len: u64) {
        let page = page_size() as u64;
        let start = offset / page * page;
        if let Some(end) = offset.checked_add(len)
            && end <= self.len as u64
        {
            // SAFETY: the range lies in the region, and what is in it stays.
            let _ = unsafe {
                let base = self.base.as_ptr().add(start as usize).cast();
                mm::madvise(base, (end - start) as usize, mm::Advice::WillNeed)
            };
        }
    }
}

/// A map of which parts may be written, which the process alone sees.
#[cfg(target_os = "linux")]
struct Private(Region);

#[cfg(target_os = "linux")]
impl Paging for Private {
    fn expect_random(&self) {
        self.0.expect_random();
    }

    fn read_ahead(&self, offset: u64, len: u64) {
        self.0.read_ahead(offset, len);
    }

    fn show_file(&self, offset: u64, len: u64) {
        let page = page_size() as u64;
        let start = offset / page * page;
        let end = offset.saturating_add(len).next_multiple_of(page).min(self.0.len as u64);
        if start < end {
            // SAFETY: the range lies in the region. The memory stays readable, and shows the file
            // again; of what is not in the file the engine has no references.
            let _ = unsafe {
                let base = self.0.base.as_ptr().add(start as usize).cast();
                mm::madvise(base, (end - start) as usize, mm::Advice::LinuxDontNeed)
            };
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range was granted to this region alone, and every reference into it was made
        // with the promise that it does not outlive the region. A failure would leave the range
        // mapped, which does no harm.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Flushes ranges of a file. The system has a call for that which takes an address, so a window of
/// the file is mapped. It stays: mapping and unmapping would wait for a flush of the whole file.
#[cfg(target_os = "linux")]
#[derive(Default)]
pub(super) struct RangeFlusher {
    window: Mutex<Option<(u64, Region)>>,
}

#[cfg(target_os = "linux")]
impl RangeFlusher {
    /// Windows begin at multiples of this, and are twice as long.
    const STEP: u64 = if cfg!(target_pointer_width = "64") { 64 << 20 } else { 4 << 20 };

    /// Returns when the pages of a range are on stable storage; they are not read or written. False
    /// if nothing was flushed because there is no window for it: the file system maps no files,
    /// there is no address space, or the range is too long.
    ///
    /// # Errors
    /// If the flush fails.
    pub(super) fn flush(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<bool> {
        let start = offset - offset % Self::STEP;
        let into = (offset - start) as usize;
        let whole = 2 * Self::STEP as usize;
        if into + len > whole {
            return Ok(false);
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.as_ref().is_none_or(|(first, _)| *first != start) {
            let (access, kind) = (ProtFlags::READ, MapFlags::SHARED);
            *window =
                Region::of_file(file, start, whole, access, kind).ok().map(|new| (start, new));
        }
        let Some((_, region)) = &*window else { return Ok(false) };
        let in_page = into % page_size();
        // SAFETY: the range is the region's own; flushing it changes no memory.
        unsafe {
            let base = region.base().add(into - in_page);
            mm::msync(base.cast(), in_page + len, mm::MsyncFlags::SYNC)?;
        }
        Ok(true)
    }
}

/// The first bytes of a file, to be stored into.
struct Stored(Region);

/// Shares the first `len` bytes of a file, which has them, with the system.
pub(super) fn share(file: BorrowedFd<'_>, len: usize) -> io::Result<Box<dyn Shared>> {
    let region = Region::file_shared(file, len)?;
    // So that storing never has to wait for the disk. The system may refuse.
    // SAFETY: the range is the region's own, and what is in it stays.
    let _ = unsafe { mm::mlock(region.base.as_ptr().cast(), len) };
    Ok(Box::new(Stored(region)))
}

impl Shared for Stored {
    fn store(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.0.len), "bytes behind the end of what is shared");
        // SAFETY: the range lies in the region, which is writable and of which no reference is ever
        // made; `&mut self` keeps other threads away.
        unsafe {
            let to = self.0.base.as_ptr().add(offset);
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }
}

/// Zeros that threads share and change. Untouched parts take no memory: that is why they do not
/// come from the allocator, which clears memory that it uses again, and are not in large pages.
pub(crate) struct Words {
    base: NonNull<AtomicU64>,
    len: usize,
    /// What `base` points to, if there are any.
    _region: Option<Region>,
}

// SAFETY: the words are atomic, and the region that holds them belongs to no thread.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Allocates `len` zeros. The process ends, as with the allocator, if it has no room for them.
    pub(crate) fn zeroed(len: usize) -> Self {
        let layout = Layout::array::<AtomicU64>(len).unwrap_or(Layout::new::<AtomicU64>());
        let room = |_| handle_alloc_error(layout);
        let region = (len > 0).then(|| Region::memory(layout.size()).unwrap_or_else(room));
        #[cfg(target_os = "linux")]
        if let Some(region) = &region {
            // SAFETY: the range is the region's own, and what is in it stays.
            let _ = unsafe {
                mm::madvise(region.base.as_ptr().cast(), region.len, mm::Advice::LinuxNoHugepage)
            };
        }
        let base = region.as_ref().map_or(NonNull::dangling(), |region| region.base.cast());
        Self { base, len, _region: region }
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the region, which begins at a page boundary, holds `self.len` zeroed words, lives
        // as long as `self`, and is used through this alone; without a region there are none.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

/// The system's page size in bytes.
fn page_size() -> usize {
    // SAFETY: the call takes and gives plain numbers.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(1 << 16)
}

/// True if less address space may be granted where this much was not.
fn is_too_long(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::EINVAL | libc::EOVERFLOW))
}

fn map(file: BorrowedFd<'_>, len: usize, access: Access) -> io::Result<Region> {
    match access {
        #[cfg(target_os = "linux")]
        Access::Private => Region::file_private(file, len),
        _ => Region::file_read_only(file, len),
    }
}

fn shown(region: Region, access: Access) -> Map {
    let (base, reserved) = (region.base().cast_const(), region.len as u64);
    let owner: Arc<dyn Paging> = match access {
        #[cfg(target_os = "linux")]
        Access::Private => Arc::new(Private(region)),
        _ => Arc::new(region),
    };
    Map { base, reserved, owner }
}

/// Maps a data file of `file_len` bytes under `reserve` bytes of address space, less where the
/// process has many such maps, or the largest half, quarter, ... of that which the system grants.
/// `None` if that is too little to be of use, or less than the file. With 0 bytes, the file as long
/// as it is.
pub(super) fn reserve(
    file: BorrowedFd<'_>,
    file_len: u64,
    reserve: u64,
    access: Access,
) -> io::Result<Option<Map>> {
    let page = page_size() as u64;
    let largest = (usize::MAX / 2) as u64;
    let (mut len, least) = match reserve {
        0 => (file_len.next_multiple_of(page), 1),
        _ => (Growing::part(reserve.min(largest), file_len) / page * page, RESERVE_MIN),
    };
    while len >= least && len >= file_len && len <= largest {
        match map(file, len as usize, access) {
            Ok(mut region) => {
                region.growing = (reserve > 0).then(Growing::new);
                return Ok(Some(shown(region, access)));
            }
            // A file system without maps.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(None),
            Err(error) if is_too_long(&error) => len = len / 2 / page * page,
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    //! Reservations are granted, halved and refused; a file grows under its map.

    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_file_grows_under_its_map() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 4096]).unwrap();
        let map = reserve(file.as_fd(), 4096, RESERVE_MIN, Access::Read).unwrap().unwrap();
        file.write_all(&[2; 4096]).unwrap();
        // SAFETY: the file holds 8,192 bytes.
        let bytes = unsafe { std::slice::from_raw_parts(map.base, 8192) };
        assert_eq!((bytes[0], bytes[4095], bytes[4096], bytes[8191]), (1, 1, 2, 2));
        assert_eq!(map.reserved, RESERVE_MIN);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_private_map_shows_the_file_until_it_is_written_and_again_when_asked() {
        use std::os::unix::fs::FileExt as _;
        let page = page_size();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; 2 * page]).unwrap();
        let map = reserve(file.as_fd(), 0, RESERVE_MIN, Access::Private).unwrap().unwrap();
        // SAFETY: both bytes lie in the file's two pages.
        let seen = || unsafe { [map.base.read_volatile(), map.base.add(page).read_volatile()] };
        assert_eq!(seen(), [1, 1]);
        file.write_all_at(&[2], 0).unwrap();
        assert_eq!(seen(), [2, 1]);
        // SAFETY: the map may be written, and no reference into it is there.
        unsafe { map.base.cast_mut().write_volatile(7) };
        file.write_all_at(&[3], 0).unwrap();
        file.write_all_at(&[3], page as u64).unwrap();
        assert_eq!(seen(), [7, 3]);
        let mut byte = [0];
        file.read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [3], "the file has nothing of it");
        map.owner.show_file(0, 1);
        assert_eq!(seen(), [3, 3]);
    }

    #[test]
    fn more_than_there_is_gets_halved() {
        let file = tempfile::tempfile().unwrap();
        let asked = (usize::MAX / 2) as u64;
        if let Some(map) = reserve(file.as_fd(), 0, asked, Access::Read).unwrap() {
            assert!(map.reserved < asked && map.reserved >= RESERVE_MIN);
        }
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn thousands_of_maps_leave_address_space_to_others() {
        const ASKED: u64 = 1 << 40;
        let file = tempfile::tempfile().unwrap();
        let map = |len| reserve(file.as_fd(), len, ASKED, Access::Read).unwrap().unwrap();
        let maps: Vec<Map> = (0..3_000).map(|_| map(0)).collect();
        let least = maps.iter().map(|map| map.reserved).min().unwrap();
        let all: u64 = maps.iter().map(|map| map.reserved).sum();
        assert!(least >= RESERVE_MIN && all < 64 << 40, "{least} {all}");
        assert!(map(30 << 30).reserved >= 240 << 30, "a long file may grow on");
        assert!(Region::memory(16 << 30).is_ok());
    }

    #[test]
    fn a_file_is_mapped_as_long_as_it_is() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 5000]).unwrap();
        let map = reserve(file.as_fd(), 5000, 0, Access::Read).unwrap().unwrap();
        assert_eq!(map.reserved, 5000_u64.next_multiple_of(page_size() as u64));
        // SAFETY: the file holds 5,000 bytes.
        assert_eq!(unsafe { std::slice::from_raw_parts(map.base, 5000) }, [1; 5000]);
        let empty = tempfile::tempfile().unwrap();
        assert!(reserve(empty.as_fd(), 0, 0, Access::Read).unwrap().is_none());
    }

    #[test]
    fn words_take_memory_where_they_are_touched() {
        use std::sync::atomic::Ordering::Relaxed;

        let words = Words::zeroed(1 << 24);
        words[1 << 23].store(7, Relaxed);
        assert_eq!((words.len(), words[0].load(Relaxed)), (1 << 24, 0));
        assert_eq!(words[1 << 23].load(Relaxed), 7);
        assert_eq!(words.get(1 << 24).map(|word| word.load(Relaxed)), None);
        // Memory that was changed and given back is not what the next ones get.
        drop(words);
        assert_eq!(Words::zeroed(1 << 24)[1 << 23].load(Relaxed), 0);
        assert!(Words::zeroed(0).is_empty());
    }

    #[test]
    fn too_little_is_refused() {
        let file = tempfile::tempfile().unwrap();
        let asked = |len, most| reserve(file.as_fd(), len, most, Access::Read).unwrap();
        assert!(asked(0, RESERVE_MIN / 2).is_none());
        assert!(asked(2 * RESERVE_MIN, RESERVE_MIN).is_none());
    }
}
