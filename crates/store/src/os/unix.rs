//! The real system on Unix: files, their flushes, and the byte-range locks of the lock file.
//!
//! Every method here is one system call repeated until it is done. No policy lives here.
#![expect(unsafe_code, reason = "some calls are not in rustix")]

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};

use super::{DataFile, Map, Open, Shared, SharedLock, System, aio, lock, map};

/// The system's own files, maps and locks.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealSystem;

/// As many parts go into one call as every system takes (IOV_MAX).
const PARTS_MAX: usize = 1024;
/// The same for bytes that are not written a second time.
const APPEND_MAX: usize = 1 << 20;
/// At most this many bytes are read by one call; systems refuse or cut what is longer than 2 GiB.
const READ_MAX: usize = 1 << 30;
/// At most this many bytes are written by one call, and longer writes are cut at multiples of it.
/// The page cache keeps what one call brings as one unit, if it begins and ends at such multiples.
/// A later write of one page costs by the size of the unit that it falls into: 2.1, 2.6, 6.4 and 21
/// microseconds for units of 4 KiB, 32 KiB, 512 KiB and 2 MiB; one of eight pages takes 3.8
/// microseconds if each is a unit, 1.6 if all are one (ext4, Linux 6.18).
const WRITE_MAX: usize = 32 << 10;
/// Whether the process may write this far is checked for this many bytes more than are written.
const LIMIT_AHEAD: u64 = 1 << 20;
/// The smallest piece of a file that devices read.
pub(super) const SECTOR: usize = 512;
/// What is written by one call where zeros are.
static ZEROS: [u8; WRITE_MAX] = [0; WRITE_MAX];

impl System for RealSystem {
    fn open_data(&self, path: &Path, how: Open, mode: u32) -> io::Result<Arc<dyn DataFile>> {
        let flags = match how {
            Open::Read => OFlags::RDONLY,
            Open::Write => OFlags::RDWR,
            Open::Create => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW,
        };
        let file = open_regular(path, flags, mode)?;
        Ok(Arc::new(RealFile {
            file,
            evidence: OnceLock::new(),
            within_limit: AtomicU64::new(0),
            #[cfg(target_os = "linux")]
            ranges: super::map::RangeFlusher::default(),
        }))
    }

    fn open_lock(
        &self,
        path: &Path,
        read_only: bool,
        mode: u32,
    ) -> io::Result<Arc<dyn SharedLock>> {
        Ok(Arc::new(lock::open(path, read_only, mode)?))
    }

    fn discard_lock(&self, path: &Path, is_gone: &dyn Fn() -> bool) -> io::Result<bool> {
        lock::discard(path, is_gone)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = again(|| fs::open(parent, flags, Mode::empty()))?;
        again(|| fs::fsync(&directory))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn create_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        again(|| fs::mkdir(path, Mode::from_raw_mode(mode as _)))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn lock_exclusive(&self, path: &Path, mode: u32) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW;
        let file = open_regular(path, flags, mode)?;
        Ok(bytes::try_lock(&file, 0)?.then(|| Box::new(file) as Box<dyn Send + Sync>))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let file = open_regular(path, OFlags::RDONLY | OFlags::NOFOLLOW, 0)?;
        Ok(bytes::try_share(&file, 0)?.then(|| Box::new(file) as Box<dyn Send + Sync>))
    }

    fn aio(&self, choice: aio::Choice) -> Arc<dyn aio::Io> {
        aio::open(choice)
    }
}

/// Opens a regular file; anything else that has the name is refused and never waited for.
pub(super) fn open_regular(path: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
    // Without NONBLOCK, opening a pipe would wait for its other end.
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match again(|| fs::open(path, flags, Mode::from_raw_mode(mode as _))) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            let message = "a regular file is needed here, and this is a symbolic link";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        other => other?,
    };
    let kind = FileType::from_raw_mode(fs::fstat(&file)?.st_mode);
    if kind != FileType::RegularFile {
        let message = format!("a regular file is needed here, and this is a {kind:?}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(file)
}

/// Whether the file is the one that has this name now.
pub(super) fn is_at(file: &impl AsFd, path: &Path) -> io::Result<bool> {
    let own = fs::fstat(file)?;
    match again(|| fs::stat(path)) {
        Ok(found) => Ok((found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Repeats a call that a signal interrupted.
fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// The length of a file.
pub(super) fn file_len(file: &impl AsFd) -> io::Result<u64> {
    Ok(fs::fstat(file)?.st_size as u64)
}

/// Writes all of `parts` from `offset` on, within the longest file that the process may write.
pub(super) fn write_all(
    file: &impl AsFd,
    parts: &[io::IoSlice<'_>],
    offset: u64,
) -> io::Result<()> {
    check_limit(offset.saturating_add(len_of(parts)))?;
    write_parts(file, parts, offset, WRITE_MAX)
}

/// Refuses to write beyond the longest file that the process may write. The system would do so by
/// a signal (SIGXFSZ) that ends the process, and signals belong to the program, not to a library.
pub(super) fn check_limit(end: u64) -> io::Result<()> {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(most) if end > most => Err(rustix::io::Errno::FBIG.into()),
        _ => Ok(()),
    }
}

fn len_of(parts: &[io::IoSlice<'_>]) -> u64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(part.len() as u64))
}

/// Whether the system or the file system does not know a call or a flag.
#[cfg(target_os = "linux")]
fn unsupported(error: &io::Error) -> bool {
    let codes = [libc::ENOSYS, libc::EOPNOTSUPP, libc::EINVAL];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

fn write_parts(
    file: &impl AsFd,
    parts: &[io::IoSlice<'_>],
    mut offset: u64,
    call_max: usize,
) -> io::Result<()> {
    let (mut first, mut skip) = (0, 0);
    advance(parts, &mut first, &mut skip, 0);
    let (mut call, end) = (Vec::new(), offset.saturating_add(len_of(parts)));
    while let Some(part) = parts.get(first) {
        let beyond = if end - offset > call_max as u64 { offset % call_max as u64 } else { 0 };
        let most = call_max - beyond as usize;
        // A single part is cheaper without a list.
        let written = if part.len() - skip >= most || first + 1 == parts.len() {
            let end = part.len().min(skip.saturating_add(most));
            again(|| rustix::io::pwrite(file, &part[skip..end], offset))?
        } else {
            one_call(&parts[first..], skip, most, &mut call);
            again(|| rustix::io::pwritev(file, &call, offset))?
        };
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        offset += written as u64;
        advance(parts, &mut first, &mut skip, written);
    }
    Ok(())
}

/// The next `most` bytes of `parts` after the first `skip`, or fewer if they are too many parts.
fn one_call<'p>(
    parts: &'p [io::IoSlice<'_>],
    skip: usize,
    most: usize,
    call: &mut Vec<io::IoSlice<'p>>,
) {
    call.clear();
    let (mut skip, mut left) = (skip, most);
    for part in parts.iter().take(PARTS_MAX) {
        let part = &part[skip..part.len().min(skip.saturating_add(left))];
        call.push(io::IoSlice::new(part));
        (skip, left) = (0, left - part.len());
        if left == 0 {
            break;
        }
    }
}

/// Moves a position in `parts` (a part, and bytes of it to skip) on by `count` bytes, and over
/// empty parts.
fn advance(parts: &[io::IoSlice<'_>], first: &mut usize, skip: &mut usize, mut count: usize) {
    while let Some(part) = parts.get(*first) {
        let left = part.len() - *skip;
        if left > count {
            *skip += count;
            return;
        }
        count -= left;
        *skip = 0;
        *first += 1;
    }
}

/// Writes zeros from `from` to `to`.
pub(super) fn write_zeros(file: &impl AsFd, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let part = (to - at).min(ZEROS.len() as u64) as usize;
        write_all(file, &[io::IoSlice::new(&ZEROS[..part])], at)?;
        at += part as u64;
    }
    Ok(())
}

/// Gives a file space for its first `len` bytes. A hole that is touched through a map while the
/// disk is full ends the process.
pub(super) fn fill_holes(file: &impl AsFd, len: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // If the system cannot report holes, there are none.
        if fs::seek(file, fs::SeekFrom::Hole(0)).is_ok_and(|hole| hole < len) {
            return match again(|| fs::fallocate(file, fs::FallocateFlags::empty(), 0, len)) {
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
                other => other,
            };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, len);
    Ok(())
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

/// Fills `buffer` from `offset`.
pub(super) fn read_all(file: &impl AsFd, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let end = buffer.len().min(READ_MAX);
        let count = again(|| rustix::io::pread(file, &mut buffer[..end], offset))?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[count..];
        offset += count as u64;
    }
    Ok(())
}

/// Fills `buffer` from `offset` as far as the file goes. If the file ends inside a sector, a short
/// count shows it: the next call would not begin at a multiple of a sector.
fn read_some(file: &impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        let end = buffer.len().min(filled + READ_MAX);
        let rest = &mut buffer[filled..end];
        let count = again(|| rustix::io::pread(file, &mut *rest, offset + filled as u64))?;
        filled += count;
        if !count.is_multiple_of(SECTOR) || count == 0 {
            break;
        }
    }
    Ok(filled)
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

/// Returns when the file's content and length are on stable storage.
pub(super) fn sync(file: &impl AsFd) -> io::Result<()> {
    #[cfg(target_vendor = "apple")]
    return again(|| fs::fcntl_fullfsync(file));
    #[cfg(not(target_vendor = "apple"))]
    again(|| fs::fdatasync(file))
}

struct RealFile {
    file: OwnedFd,
    /// The uptime evidence: neither the boot nor the mount of an open file ever changes.
    evidence: OnceLock<Option<[u8; 24]>>,
    /// Writes that end here, or before, were within the limit of the process.
    within_limit: AtomicU64,
    #[cfg(target_os = "linux")]
    ranges: super::map::RangeFlusher,
}

impl RealFile {
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
    fn write_durably(
        &self,
        bytes: &[u8],
        offset: u64,
        meanwhile: &mut dyn FnMut(),
    ) -> io::Result<()> {
        self.write_at(&[io::IoSlice::new(bytes)], offset)?;
        self.start_writeback(offset, bytes.len() as u64);
        meanwhile();
        loop {
            match self.ranges.flush(self.file.as_fd(), offset, bytes.len()) {
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

    fn map(&self, reserve: u64) -> io::Result<Option<Map>> {
        map::reserve(self.file.as_fd(), self.len()?, reserve, map::Access::Read)
    }

    #[cfg(target_os = "linux")]
    fn map_private(&self, reserve: u64) -> io::Result<Option<Map>> {
        map::reserve(self.file.as_fd(), self.len()?, reserve, map::Access::Private)
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

fn evidence_of(file: BorrowedFd<'_>) -> Option<[u8; 24]> {
    let boot = boot_id(&std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)?;
    let (mount, inode) = mount_and_inode(file)?;
    let mut evidence = [0; 24];
    evidence[..16].copy_from_slice(&boot);
    evidence[16..].copy_from_slice(&mix(mix(mount).wrapping_add(inode)).to_le_bytes());
    Some(evidence)
}

/// Parses the 32 hexadecimal digits of a boot identity, dashes left out.
fn boot_id(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|&digit| digit != '-').collect();
    (digits.len() == 32).then_some(())?;
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

/// What tells this mount of the file system from another one, and the file's number in it.
#[cfg(target_os = "linux")]
fn mount_and_inode(file: BorrowedFd<'_>) -> Option<(u64, u64)> {
    use rustix::fs::StatxFlags;
    /// STATX_MNT_ID_UNIQUE (Linux 6.8): unlike the older number it is never used again.
    const UNIQUE: u32 = 0x4000;
    for (wanted, tag) in [(UNIQUE, 1 << 63), (StatxFlags::MNT_ID.bits(), 1 << 62)] {
        let flags = StatxFlags::from_bits_retain(wanted) | StatxFlags::INO;
        match fs::statx(file, c"", AtFlags::EMPTY_PATH, flags) {
            Ok(found) if found.stx_mask & wanted != 0 => {
                return Some((found.stx_mnt_id ^ tag, found.stx_ino));
            }
            _ => {}
        }
    }
    let found = fs::fstat(file).ok()?;
    Some((found.st_dev as u64, found.st_ino as u64))
}

/// What tells this mount of the file system from another one, and the file's number in it.
#[cfg(not(target_os = "linux"))]
fn mount_and_inode(file: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let found = fs::fstat(file).ok()?;
    Some((found.st_dev as u64, found.st_ino as u64))
}

/// Spreads a number over 64 bits (the finaliser of SplitMix64).
pub(super) fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Locks on ranges of bytes that belong to an open file, not to a process as POSIX locks do: two
/// openers in one process exclude each other, and closing another descriptor loses nothing.
pub(super) mod bytes {
    use super::{AsFd, io};
    use std::os::fd::AsRawFd as _;

    #[cfg(target_vendor = "apple")]
    mod command {
        pub(super) const SET: libc::c_int = 90;
        pub(super) const SET_WAIT: libc::c_int = 91;
        pub(super) const GET: libc::c_int = 92;
    }
    #[cfg(not(target_vendor = "apple"))]
    mod command {
        pub(super) const SET: libc::c_int = libc::F_OFD_SETLK;
        pub(super) const SET_WAIT: libc::c_int = libc::F_OFD_SETLKW;
        pub(super) const GET: libc::c_int = libc::F_OFD_GETLK;
    }

    /// Locks one byte, waiting for it.
    pub(in super::super) fn lock(file: &impl AsFd, byte: u64) -> io::Result<()> {
        call(file, command::SET_WAIT, libc::F_WRLCK as _, byte, 1).map(drop)
    }

    /// Takes a shared lock on one byte, waiting while it is locked exclusively. This needs no right
    /// to write the file.
    pub(in super::super) fn share(file: &impl AsFd, byte: u64) -> io::Result<()> {
        call(file, command::SET_WAIT, libc::F_RDLCK as _, byte, 1).map(drop)
    }

    /// Locks one byte exclusively if it is not locked.
    pub(in super::super) fn try_lock(file: &impl AsFd, byte: u64) -> io::Result<bool> {
        attempt(file, libc::F_WRLCK as _, byte)
    }

    /// Takes a shared lock on one byte, unless it is locked exclusively. This needs no right to
    /// write the file.
    pub(in super::super) fn try_share(file: &impl AsFd, byte: u64) -> io::Result<bool> {
        attempt(file, libc::F_RDLCK as _, byte)
    }

    fn attempt(file: &impl AsFd, kind: libc::c_short, byte: u64) -> io::Result<bool> {
        match call(file, command::SET, kind, byte, 1) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Unlocks one byte.
    pub(in super::super) fn unlock(file: &impl AsFd, byte: u64) -> io::Result<()> {
        call(file, command::SET, libc::F_UNLCK as _, byte, 1).map(drop)
    }

    /// True if another open file has a lock in the range.
    pub(in super::super) fn is_locked(file: &impl AsFd, byte: u64, len: u64) -> io::Result<bool> {
        let found = call(file, command::GET, libc::F_WRLCK as _, byte, len)?;
        Ok(found != libc::F_UNLCK as libc::c_short)
    }

    /// One call of fcntl; returns the kind of lock that it left in the structure.
    fn call(
        file: &impl AsFd,
        command: libc::c_int,
        kind: libc::c_short,
        byte: u64,
        len: u64,
    ) -> io::Result<libc::c_short> {
        // SAFETY: the structure consists of integers, for which zeros are a value.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = kind;
        range.l_whence = libc::SEEK_SET as _;
        range.l_start = byte as _;
        range.l_len = len as _;
        loop {
            // SAFETY: the descriptor is open for the length of the borrow, and these commands
            // take a pointer to the structure that `range` is.
            let result = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, &mut range) };
            if result != -1 {
                return Ok(range.l_type);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

#[cfg(test)]
#[path = "unix/tests.rs"]
mod tests;
