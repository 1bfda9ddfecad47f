//! The lock file that holds a table: how it is made and checked, how it grows, and which processes
//! are alive.
//!
//! Liveness is kept by the system: each opener holds a lock on one byte of the file, far beyond its
//! contents, which vanishes with the process however it ends. A child that inherited the open file
//! can keep that lock alive, so the process number is checked as well.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{OFlags, ftruncate};

use super::super::system::Rights;
use super::super::unix::{bytes, calls};
use super::memory::{
    FIXED_LEN, FULL_LEN, Fixed, Memory, ONLY_READS, PROCESSES, Process, Reader, SLOTS_MAX,
};
use super::process::{self, Care, Identity, Token};
use super::{Backing, SharedLock, rights};
use crate::identify::LOCK as MAGIC;
use crate::sync::{Mutex, locked};

/// What LMDB's lock files begin with.
const LMDB_MAGIC: u32 = 0xbeef_c0de;
/// Grows with every change of the layout or of what its parts mean.
const VERSION: u32 = 1;
/// Slots of a new lock file.
const SLOTS_NEW: u32 = 64;
/// Slots by which the table grows.
const SLOTS_MORE: u32 = 256;
/// The length of a new lock file.
const NEW_LEN: usize = FIXED_LEN + SLOTS_NEW as usize * size_of::<Reader>();
/// The byte that each process of LMDB locks as long as it has a store open. LMDB writes its own
/// table into any file in which this byte is not locked, whatever the file contains; so each of our
/// openers locks it.
const LMDB: u64 = 0;
/// Locked while one makes the file grow.
const GROWING: u64 = 1;
/// Locked while one opens.
const OPENING: u64 = 2;
/// At most this many times in a row a lock file is discarded while one opener waits for it.
const DISCARDED_MAX: u32 = 100;
/// The first of the bytes that openers hold, one for each process entry.
const ALIVE: u64 = 1 << 30;

/// Opens or makes the lock file and joins the processes that share it.
///
/// A read-only opener that may not write or make the file is a [`guest`], and so is one that finds
/// guests there.
pub(in super::super) fn open(
    path: &Path,
    read_only: bool,
    rights: Rights<'_>,
) -> io::Result<SharedLock> {
    let mut tries = 0;
    let file = loop {
        let file = match rights::open_or_make(path, rights) {
            Err(error) if read_only && is_denied(&error) => return guest(path),
            other => other?,
        };
        if read_only && !bytes::try_lock(&file, OPENING)? {
            // It is held either by guests, which a reader joins, or by an opener that may be about
            // to write.
            match guest(path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                other => return other,
            }
            bytes::lock(&file, OPENING)?;
        } else if !read_only {
            bytes::lock(&file, OPENING)?;
        }
        // It may have been discarded meanwhile. A file system that does not number its files always
        // says so.
        if calls::is_at(&file, path)? || tries == DISCARDED_MAX {
            break file;
        }
        tries += 1;
    };
    let is_unused = bytes::try_lock(&file, LMDB)?;
    if !is_unused {
        bytes::share(&file, LMDB)?;
    }
    if file_is_new(&file, is_unused)? {
        initialise(&file)?;
    } else {
        // The file may be a copy, with holes.
        calls::fill_holes(&file, calls::file_len(&file)?)?;
        rights::widen(&file, rights);
    }
    bytes::share(&file, LMDB)?;
    let memory = Memory::of_file(file.as_fd())?;
    let (this, token) = (process::this(), Token::of_this());
    let backing = Box::new(LockFile { file, growing: Mutex::new(()), this, token });
    SharedLock::join_for(memory, backing, if read_only { ONLY_READS } else { 0 })
}

/// Removes a lock file whose users have a data file open that is no longer there, if that
/// `is_gone`: from now on openers share another one. False if it stays.
///
/// The file is locked as by an opener meanwhile. So nobody makes the data file at the same time,
/// and a process that waits to open it finds out that it opened a file that was removed.
pub(in super::super) fn discard(path: &Path, is_gone: &dyn Fn() -> bool) -> io::Result<bool> {
    let file = match calls::open_regular(path, OFlags::RDWR | OFlags::NOFOLLOW, 0) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    bytes::lock(&file, OPENING)?;
    let may_go = calls::is_at(&file, path)? && is_gone();
    if may_go {
        std::fs::remove_file(path)?;
    }
    Ok(may_go)
}

/// Joins with a table in private memory: this opener sees no other process, and none sees it, so
/// that a writer would reuse the pages it reads. Therefore it is refused while processes that may
/// write have the store open, and later openers wait until it has closed the store, as they wait
/// for another opener. Without a lock file no other process can be known; a store in such a place
/// is assumed to be written by no process.
pub(super) fn guest(path: &Path) -> io::Result<SharedLock> {
    let file = match calls::open_regular(path, OFlags::RDONLY | OFlags::NOFOLLOW, 0) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) if is_denied(&error) => {
            let message = "it may not even be read, so that nobody knows whether another process \
                           writes the store; get the right to read it, or read a copy of the store";
            return Err(io::Error::new(error.kind(), message));
        }
        other => Some(other?),
    };
    // A file system without locks is assumed to be written by no process, too.
    let guard = file.filter(|file| bytes::share(file, OPENING).is_ok());
    if let Some(file) = &guard
        && somebody_may_write(file)?
    {
        let message = "another process has the store open and may write, and this one may not \
                       write the lock file, so that nobody would keep the pages that it reads; get \
                       the right to write the file, or read a copy of the store";
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
    }
    alone(guard)
}

/// Joins with a table in private memory where nobody else can have the store.
pub(in super::super) fn open_alone() -> io::Result<SharedLock> {
    alone(None)
}

fn alone(guard: Option<OwnedFd>) -> io::Result<SharedLock> {
    let (memory, slots) = (Memory::private()?, Mutex::new(SLOTS_NEW));
    let alone = Alone { memory: memory.clone(), slots, token: Token::of_this(), _guard: guard };
    SharedLock::join(memory, Box::new(alone))
}

/// Whether one of the processes that have the store open may write.
fn somebody_may_write(file: &OwnedFd) -> io::Result<bool> {
    if !bytes::is_locked(file, ALIVE, PROCESSES as u64)? {
        return Ok(false);
    }
    let at = std::mem::offset_of!(Fixed, processes) + std::mem::offset_of!(Process, access);
    for index in 0..PROCESSES {
        let mut access = [0; 4];
        calls::read_all(file, &mut access, (at + index * size_of::<Process>()) as u64)?;
        if u32::from_ne_bytes(access) != ONLY_READS
            && bytes::is_locked(file, ALIVE + index as u64, 1)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_denied(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// The bytes that open a lock file.
fn identity() -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_ne_bytes());
    bytes[12..].copy_from_slice(&(FULL_LEN as u32).to_ne_bytes());
    bytes
}

/// True if the file has to be initialised, false if it is a lock file. An unused file that is not a
/// complete lock file is emptied: either a power cut came before all of it was on the disk, or it
/// is LMDB's, left by an LMDB store in the same place or by LMDB's attempt to open this store.
fn file_is_new(file: &OwnedFd, is_unused: bool) -> io::Result<bool> {
    let len = calls::file_len(file)?;
    let mut head = [0; 16];
    let head_len = len.min(16) as usize;
    calls::read_all(file, &mut head[..head_len], 0)?;
    let ours = head == identity();
    if ours && len >= NEW_LEN as u64 {
        return Ok(false);
    }
    if len == 0 {
        return Ok(true);
    }
    let is_lmdb = head[..4] == LMDB_MAGIC.to_ne_bytes();
    let is_torn = || Ok::<_, io::Error>(ours || head == [0; 16] && lacks_its_head(file, len)?);
    if is_unused && (is_lmdb || is_torn()?) {
        ftruncate(file, 0)?;
        return Ok(true);
    }
    let found = if is_lmdb {
        "a program has it open as LMDB's".to_owned()
    } else if ours {
        "it is shorter than a lock file".to_owned()
    } else if head[..8] == *MAGIC {
        "it belongs to another version".to_owned()
    } else {
        "it is a file of another kind".to_owned()
    };
    let advice = "if no process has the store open, remove it and open the store again";
    Err(io::Error::new(io::ErrorKind::InvalidData, format!("{found}; {advice}")))
}

/// Whether a file that begins with zeros holds nothing else that a lock file may not: the part
/// before the processes is zeros, and so is the second half of every process and reader.
fn lacks_its_head(file: &OwnedFd, len: u64) -> io::Result<bool> {
    const HEAD: usize = std::mem::offset_of!(Fixed, processes);
    if len > FULL_LEN as u64 {
        return Ok(false);
    }
    let mut bytes = vec![0; len as usize];
    calls::read_all(file, &mut bytes, 0)?;
    let (head, entries) = bytes.split_at(bytes.len().min(HEAD));
    let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    let unused = |entry: &[u8]| is_zero(entry.get(size_of::<Reader>() / 2..).unwrap_or(&[]));
    Ok(is_zero(head) && entries.chunks(size_of::<Reader>()).all(unused))
}

/// Writes a new lock file. It is not flushed: the first opener after a power cut is alone, and
/// needs nothing of its content.
fn initialise(file: &OwnedFd) -> io::Result<()> {
    calls::write_zeros(file, 0, NEW_LEN as u64)?;
    calls::write_all(file, &[io::IoSlice::new(&identity())], 0)
}

/// A free slot that pins nothing: its first word is the pin.
const FREE_SLOT: [u8; size_of::<Reader>()] = {
    let mut slot = [0; size_of::<Reader>()];
    let mut at = 0;
    while at < size_of::<u64>() {
        slot[at] = 0xff;
        at += 1;
    }
    slot
};
const _: () = assert!(std::mem::offset_of!(Reader, pinned) == 0);

struct LockFile {
    file: OwnedFd,
    /// The lock on the file's byte does not exclude threads that share the open file.
    growing: Mutex<()>,
    this: Identity,
    token: Token,
}

impl LockFile {
    fn grow_locked(&self, have: u32) -> io::Result<u32> {
        let now = self.slots();
        if now > have || now >= SLOTS_MAX {
            return Ok(now);
        }
        let more = (now + SLOTS_MORE).min(SLOTS_MAX);
        let at = |slots: u32| (FIXED_LEN + slots as usize * size_of::<Reader>()) as u64;
        // Written, not only extended: a full disk is then an error here, and not a signal when the
        // slot is touched.
        let slots = FREE_SLOT.repeat((more - now) as usize);
        calls::write_all(&self.file, &[io::IoSlice::new(&slots)], at(now))?;
        Ok(more)
    }
}

impl Backing for LockFile {
    fn slots(&self) -> u32 {
        let len = calls::file_len(&self.file).unwrap_or(0);
        let slots = len.saturating_sub(FIXED_LEN as u64) / size_of::<Reader>() as u64;
        slots.min(u64::from(SLOTS_MAX)) as u32
    }

    fn grow(&self, have: u32) -> io::Result<u32> {
        let _growing = locked(&self.growing);
        bytes::lock(&self.file, GROWING)?;
        let result = self.grow_locked(have);
        bytes::unlock(&self.file, GROWING)?;
        result
    }

    fn is_alive(&self, index: usize, process: &Process, care: Care) -> bool {
        // If the system cannot tell, the process counts as alive: that costs space, not data.
        if !bytes::is_locked(&self.file, ALIVE + index as u64, 1).unwrap_or(true) {
            return false;
        }
        let identity = Identity {
            id: process.id.load(Ordering::Relaxed),
            start: process.start.load(Ordering::Relaxed),
            namespace: process.namespace.load(Ordering::Relaxed),
        };
        !process::is_dead(identity, self.this, care)
    }

    fn try_join(&self, index: usize) -> io::Result<bool> {
        debug_assert!(index < PROCESSES);
        bytes::try_lock(&self.file, ALIVE + index as u64)
    }

    fn end_opening(&self) {
        // Closing the file does it otherwise.
        let _ = bytes::unlock(&self.file, OPENING);
    }

    fn leave(&self, index: usize) {
        // Closing the file does it otherwise, unless a child inherited it.
        let _ = bytes::unlock(&self.file, ALIVE + index as u64);
    }

    fn is_same_process(&self) -> bool {
        self.token.is_of_this()
    }
}

/// Memory of this opener alone.
struct Alone {
    memory: Arc<Memory>,
    slots: Mutex<u32>,
    token: Token,
    /// The lock file, with the lock that keeps others from opening; closing it releases the lock.
    _guard: Option<OwnedFd>,
}

impl Backing for Alone {
    fn slots(&self) -> u32 {
        *locked(&self.slots)
    }

    fn grow(&self, have: u32) -> io::Result<u32> {
        let mut slots = locked(&self.slots);
        if *slots <= have {
            let more = (*slots + SLOTS_MORE).min(SLOTS_MAX);
            self.memory.clear(*slots..more);
            *slots = more;
        }
        Ok(*slots)
    }

    fn is_alive(&self, _index: usize, _process: &Process, _care: Care) -> bool {
        false
    }

    fn try_join(&self, _index: usize) -> io::Result<bool> {
        Ok(true)
    }

    fn end_opening(&self) {}

    fn leave(&self, _index: usize) {}

    fn is_same_process(&self) -> bool {
        self.token.is_of_this()
    }
}
