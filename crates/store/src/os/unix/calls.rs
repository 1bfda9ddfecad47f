//! System calls on files, each repeated until it is done. No policy lives here.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, FileType, Mode, OFlags};

/// As many parts go into one call as every system takes (IOV_MAX).
const PARTS_MAX: usize = 1024;
/// At most this many bytes are read by one call; systems refuse or cut what is longer than 2 GiB.
const READ_MAX: usize = 1 << 30;
/// At most this many bytes are written by one call, and longer writes are cut at multiples of it.
/// The page cache keeps what one call brings as one unit, if it begins and ends at such multiples.
/// A later write of one page costs by the size of the unit that it falls into: 2.1, 2.6, 6.4 and 21
/// microseconds for units of 4 KiB, 32 KiB, 512 KiB and 2 MiB; one of eight pages takes 3.8
/// microseconds if each is a unit, 1.6 if all are one (ext4, Linux 6.18).
pub(super) const WRITE_MAX: usize = 32 << 10;
/// The smallest piece of a file that devices read.
pub(in crate::os) const SECTOR: usize = 512;
/// What is written by one call where zeros are.
static ZEROS: [u8; WRITE_MAX] = [0; WRITE_MAX];

/// Opens a regular file; anything else that has the name is refused and never waited for.
pub(in crate::os) fn open_regular(path: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
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
pub(in crate::os) fn is_at(file: &impl AsFd, path: &Path) -> io::Result<bool> {
    let own = fs::fstat(file)?;
    match again(|| fs::stat(path)) {
        Ok(found) => Ok((found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Repeats a call that a signal interrupted.
pub(in crate::os) fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// The length of a file.
pub(in crate::os) fn file_len(file: &impl AsFd) -> io::Result<u64> {
    Ok(fs::fstat(file)?.st_size as u64)
}

/// Writes all of `parts` from `offset` on, within the longest file that the process may write.
pub(in crate::os) fn write_all(
    file: &impl AsFd,
    parts: &[io::IoSlice<'_>],
    offset: u64,
) -> io::Result<()> {
    check_limit(offset.saturating_add(len_of(parts)))?;
    write_parts(file, parts, offset, WRITE_MAX)
}

/// Refuses to write beyond the longest file that the process may write. The system would do so by
/// a signal (SIGXFSZ) that ends the process, and signals belong to the program, not to a library.
pub(in crate::os) fn check_limit(end: u64) -> io::Result<()> {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(most) if end > most => Err(rustix::io::Errno::FBIG.into()),
        _ => Ok(()),
    }
}

pub(in crate::os) fn len_of(parts: &[io::IoSlice<'_>]) -> u64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(part.len() as u64))
}

pub(in crate::os) fn write_parts(
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
        // A single part is cheaper without a list, and all parts without another one.
        let is_all = (first, skip) == (0, 0) && parts.len() <= PARTS_MAX;
        let written = if is_all && parts.len() > 1 && end - offset <= most as u64 {
            again(|| rustix::io::pwritev(file, parts, offset))?
        } else if part.len() - skip >= most || first + 1 == parts.len() {
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
pub(super) fn advance(
    parts: &[io::IoSlice<'_>],
    first: &mut usize,
    skip: &mut usize,
    mut count: usize,
) {
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
pub(in crate::os) fn write_zeros(file: &impl AsFd, from: u64, to: u64) -> io::Result<()> {
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
pub(in crate::os) fn fill_holes(file: &impl AsFd, len: u64) -> io::Result<()> {
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

/// Fills `buffer` from `offset`.
pub(in crate::os) fn read_all(
    file: &impl AsFd,
    mut buffer: &mut [u8],
    mut offset: u64,
) -> io::Result<()> {
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
pub(in crate::os) fn read_some(
    file: &impl AsFd,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
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

/// Returns when the file's content and length are on stable storage.
pub(in crate::os) fn sync(file: &impl AsFd) -> io::Result<()> {
    #[cfg(target_vendor = "apple")]
    return again(|| fs::fcntl_fullfsync(file));
    #[cfg(not(target_vendor = "apple"))]
    again(|| fs::fdatasync(file))
}
