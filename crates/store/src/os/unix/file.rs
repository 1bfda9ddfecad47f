//! A data file of the real system: every call is one of the system, repeated until it is done.
#![expect(unsafe_code, reason = "some calls are not in rustix")]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
#[cfg(target_os = "linux")]
use std::sync::{Mutex, PoisonError};

use rustix::fs::{self, OFlags};

use super::super::file::{Access, DataFile, Map, Shared};
use super::super::map;
use super::calls::{
    WRITE_MAX, again, check_limit, file_len, fill_holes, len_of, read_all, read_some, sync,
    write_parts, write_zeros,
};
use super::evidence::evidence_of;

/// At most this many bytes are written by one call where it may be a long one: writes over units of
/// 64 to 256 KiB are the fastest, those of 1 MiB and of 32 KiB take a third and a tenth longer.
const APPEND_MAX: usize = 128 << 10;
/// Whether the process may write this far is checked for this many bytes more than are written.
const LIMIT_AHEAD: u64 = 1 << 20;

/// An open file of the system.
pub(super) struct RealFile {
    file: OwnedFd,
    /// The uptime evidence: neither the boot nor the mount of an open file ever changes.
    evidence: OnceLock<Option<[u8; 24]>>,
    /// Writes that end here, or before, were within the limit of the process.
    within_limit: AtomicU64,
    #[cfg(target_os = "linux")]
    ranges: map::RangeFlusher,
    #[cfg(target_os = "linux")]
    beside: Mutex<Beside>,
}

/// The file once more, for threads that flush it beside others: the system tells of a failed write
/// once through each descriptor.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct Beside {
    /// Opened once; `Some(None)` if it cannot be.
    file: Option<Option<OwnedFd>>,
    failure: Option<io::ErrorKind>,
}

#[cfg(target_os = "linux")]
impl Beside {
    fn sync(&mut self, file: &OwnedFd) -> io::Result<()> {
        if let Some(kind) = self.failure {
            return Err(kind.into());
        }
        let reopen = || {
            let name = format!("/proc/self/fd/{}", file.as_raw_fd());
            fs::open(name, OFlags::RDONLY | OFlags::CLOEXEC, fs::Mode::empty()).ok()
        };
        let another = self.file.get_or_insert_with(reopen);
        sync(another.as_ref().unwrap_or(file)).inspect_err(|e| self.failure = Some(e.kind()))
    }
}

impl RealFile {
    pub(super) fn new(file: OwnedFd) -> Self {
        Self {
            file,
            evidence: OnceLock::new(),
            within_limit: AtomicU64::new(0),
            #[cfg(target_os = "linux")]
            ranges: map::RangeFlusher::default(),
            #[cfg(target_os = "linux")]
            beside: Mutex::default(),
        }
    }

    fn write(&self, parts: &[io::IoSlice<'_>], offset: u64, call_max: usize) -> io::Result<()> {
        let end = offset.saturating_add(len_of(parts));
        if end > self.within_limit.load(Relaxed) {
            // A file that grows bit by bit does not ask each time.
            let ahead = end.saturating_add(LIMIT_AHEAD);
            let within = match check_limit(ahead) {
                Ok(()) => ahead,
                Err(_) => check_limit(end).map(|()| end)?,
            };
            self.within_limit.fetch_max(within, Relaxed);
        }
        write_parts(&self.file, parts, offset, call_max)
    }
}

impl DataFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        file_len(&self.file)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        read_all(&self.file, buffer, offset)
    }

    fn read_some(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_some(&self.file, buffer, offset)
    }

    fn write_at(&self, parts: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.write(parts, offset, WRITE_MAX)
    }

    #[cfg(target_os = "linux")]
    fn sync_range(&self, at: u64, len: usize, meanwhile: &mut dyn FnMut()) -> io::Result<()> {
        self.start_writeback(at, len as u64);
        meanwhile();
        loop {
            match self.ranges.flush(self.file.as_fd(), at, len) {
                Ok(true) => return Ok(()),
                Ok(false) => return self.sync(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if unsupported(&e) => return self.sync(),
                Err(e) => return Err(e),
            }
        }
    }

    fn append_at(&self, parts: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.write(parts, offset, APPEND_MAX)
    }

    #[cfg(target_os = "linux")]
    fn release(&self, offset: u64, len: u64) {
        // SAFETY: the call takes plain numbers and an open file. It only gives the system a hint,
        // so that its result does not matter. Unlike a call that waits for the pages to be written
        // it takes no error away from the flush that is to tell it.
        unsafe {
            let fd = self.file.as_raw_fd();
            libc::posix_fadvise(fd, offset as _, len as _, libc::POSIX_FADV_DONTNEED);
        }
    }

    #[cfg(target_os = "linux")]
    fn prefetch(&self, offset: u64, len: u64) {
        if len == 0 {
            // To the system that would be all the rest.
            return;
        }
        // SAFETY: the call takes plain numbers and an open file. It only gives the system a hint,
        // so that its result does not matter.
        unsafe {
            let fd = self.file.as_raw_fd();
            libc::posix_fadvise(fd, offset as _, len as _, libc::POSIX_FADV_WILLNEED);
        }
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, offset: u64, len: u64) {
        // SAFETY: the call takes plain numbers and an open file. It changes neither the file's
        // bytes nor its length, so that its result does not matter.
        unsafe {
            let fd = self.file.as_raw_fd();
            libc::fallocate(fd, libc::FALLOC_FL_KEEP_SIZE, offset as _, len as _);
        }
    }

    fn start_writeback(&self, offset: u64, len: u64) {
        #[cfg(target_os = "linux")]
        // SAFETY: the call takes plain numbers and an open file. It only gives the system a hint,
        // so that its result does not matter.
        unsafe {
            let (fd, flags) = (self.file.as_raw_fd(), libc::SYNC_FILE_RANGE_WRITE);
            libc::sync_file_range(fd, offset as _, len as _, flags);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, len);
    }

    fn sync(&self) -> io::Result<()> {
        sync(&self.file)
    }

    #[cfg(target_os = "linux")]
    fn sync_beside(&self) -> io::Result<()> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).sync(&self.file)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let old = self.len()?;
        if len <= old {
            return again(|| fs::ftruncate(&self.file, len));
        }
        write_zeros(&self.file, old, len).inspect_err(|_| {
            // The first error is the one to report; a tail of zeros that stays does no harm.
            let _ = again(|| fs::ftruncate(&self.file, old));
        })?;
        self.within_limit.fetch_max(len, Relaxed);
        Ok(())
    }

    fn map(&self, reserve: u64, access: Access) -> io::Result<Option<Map>> {
        map::reserve(self.file.as_fd(), self.len()?, reserve, access)
    }

    fn share(&self, len: usize) -> io::Result<Option<Box<dyn Shared>>> {
        if (len as u64) > self.len()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !writes_in_place(&self.file) {
            return Ok(None);
        }
        // What is touched through a map must have its place on the disk.
        fill_holes(&self.file, len as u64)?;
        map::share(self.file.as_fd(), len).map(Some)
    }

    fn uptime_evidence(&self) -> Option<[u8; 24]> {
        *self.evidence.get_or_init(|| evidence_of(self.file.as_fd()))
    }

    #[cfg(target_os = "linux")]
    fn set_direct(&self, direct: bool) -> bool {
        set_direct(&self.file, direct)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// Whether the system or the file system does not know a call or a flag.
#[cfg(target_os = "linux")]
fn unsupported(error: &io::Error) -> bool {
    let codes = [libc::ENOSYS, libc::EOPNOTSUPP, libc::EINVAL];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Whether a file keeps its places on the disk when it is changed. If it gets new ones (btrfs,
/// zfs), or is on a server, storing into a map of it may fail, which ends the process.
#[cfg(target_os = "linux")]
fn writes_in_place(file: &impl AsFd) -> bool {
    /// ext2 to ext4, XFS, tmpfs.
    const KINDS: [u32; 3] = [0xef53, 0x5846_5342, 0x0102_1994];
    fs::fstatfs(file).is_ok_and(|system| KINDS.contains(&(system.f_type as u32)))
}

/// It is not known.
#[cfg(not(target_os = "linux"))]
fn writes_in_place(_: &impl AsFd) -> bool {
    false
}

/// Turns the system's cache off or on for a file; whether it is off.
#[cfg(target_os = "linux")]
fn set_direct(file: &impl AsFd, direct: bool) -> bool {
    let Ok(flags) = fs::fcntl_getfl(file) else { return false };
    let flags = flags.difference(OFlags::DIRECT);
    if direct && fs::fcntl_setfl(file, flags | OFlags::DIRECT).is_ok() {
        return true;
    }
    // The cache is there for every file; a failure would show in the next unaligned read.
    let _ = fs::fcntl_setfl(file, flags);
    false
}
