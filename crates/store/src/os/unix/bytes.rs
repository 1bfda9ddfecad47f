//! Locks on ranges of bytes that belong to an open file, not to a process as POSIX locks do: two
//! openers in one process exclude each other, and closing another descriptor loses nothing.
#![expect(unsafe_code, reason = "these calls are not in rustix")]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

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
pub(in crate::os) fn lock(file: &impl AsFd, byte: u64) -> io::Result<()> {
    call(file, command::SET_WAIT, libc::F_WRLCK as _, byte, 1).map(drop)
}

/// Takes a shared lock on one byte, waiting while it is locked exclusively. This needs no right
/// to write the file.
pub(in crate::os) fn share(file: &impl AsFd, byte: u64) -> io::Result<()> {
    call(file, command::SET_WAIT, libc::F_RDLCK as _, byte, 1).map(drop)
}

/// Locks one byte exclusively if it is not locked.
pub(in crate::os) fn try_lock(file: &impl AsFd, byte: u64) -> io::Result<bool> {
    attempt(file, libc::F_WRLCK as _, byte)
}

/// Takes a shared lock on one byte, unless it is locked exclusively. This needs no right to
/// write the file.
pub(in crate::os) fn try_share(file: &impl AsFd, byte: u64) -> io::Result<bool> {
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
pub(in crate::os) fn unlock(file: &impl AsFd, byte: u64) -> io::Result<()> {
    call(file, command::SET, libc::F_UNLCK as _, byte, 1).map(drop)
}

/// True if another open file has a lock in the range.
pub(in crate::os) fn is_locked(file: &impl AsFd, byte: u64, len: u64) -> io::Result<bool> {
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
