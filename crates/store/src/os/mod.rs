//! The only door to the system: files, maps, queues of reads and writes, locks shared between
//! processes, and a simulated disk.
//!
//! This module knows bytes and files. It knows no pages and no keys.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::sync::atomic::AtomicU64;

#[cfg(unix)]
pub mod aio;
#[cfg(unix)]
mod lock;
#[cfg(unix)]
mod map;
mod memory;
#[cfg(unix)]
pub mod sim;
#[cfg(unix)]
mod unix;

#[cfg(unix)]
pub(crate) use map::Words;
#[cfg(target_os = "linux")]
pub(crate) use map::{lend, prefer_large_pages};
pub(crate) use memory::memory;
#[cfg(unix)]
pub use unix::RealSystem;

/// Locks on files are inherited by a child process until it runs its program. So tests that look
/// whether a lock is free keep other tests from making children.
#[cfg(all(test, unix))]
pub(crate) mod children {
    use std::io;
    use std::process::{Child, Command};
    use std::sync::{PoisonError, RwLock, RwLockReadGuard};

    static MADE: RwLock<()> = RwLock::new(());

    /// None are made while the answer lives.
    pub(crate) fn none() -> RwLockReadGuard<'static, ()> {
        MADE.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
        let _alone = MADE.write().unwrap_or_else(PoisonError::into_inner);
        command.spawn()
    }
}

/// The size of large pages of memory, to which they are also aligned.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// Asks the system to use large pages for this memory, where it has them.
#[cfg(not(target_os = "linux"))]
pub(crate) fn prefer_large_pages(_: &mut [std::mem::MaybeUninit<u8>]) {}

/// Lets the system take this memory when it needs it. False if the system does not support this.
#[cfg(not(target_os = "linux"))]
pub(crate) fn lend(_: &mut [std::mem::MaybeUninit<u8>]) -> bool {
    false
}

/// One open data file. All methods take `&self` and may be called from several threads.
///
/// The engine reads either through [`DataFile::map`] or, if that returns `None`, through
/// [`DataFile::read_at`]; it writes only through [`DataFile::write_at`].
#[expect(clippy::len_without_is_empty, reason = "the length of a file, not of a collection")]
pub trait DataFile: Send + Sync {
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset`; an end of file before it is full is an error.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Fills `buffer` from `offset` as far as the file goes; the number of bytes.
    fn read_some(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = (buffer.len() as u64).min(self.len()?.saturating_sub(offset)) as usize;
        if len > 0 {
            self.read_at(&mut buffer[..len], offset)?;
        }
        Ok(len)
    }
    /// Writes all of `parts`, one after the other, from `offset` on. Short writes and EINTR are
    /// repeated inside. The file grows if need be.
    fn write_at(&self, parts: &[io::IoSlice<'_>], offset: u64) -> io::Result<()>;
    /// Writes `bytes`, which must lie inside of the file, and returns when they are on stable
    /// storage: they, and not what else was written. While the disk works on them, `meanwhile` is
    /// called, if the write did not fail.
    fn write_durably(
        &self,
        bytes: &[u8],
        offset: u64,
        meanwhile: &mut dyn FnMut(),
    ) -> io::Result<()> {
        self.write_at(&[io::IoSlice::new(bytes)], offset)?;
        meanwhile();
        self.sync()
    }
    /// The same for bytes that are not written a second time: in long calls.
    fn append_at(&self, parts: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.write_at(parts, offset)
    }
    /// Lets the system's cache forget a range, except what is not on the disk yet. This is a hint:
    /// it never waits and never fails.
    fn release(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Asks the system to begin reading a range of the file into its cache, as far as the file
    /// goes. A hint: it does not wait for the bytes and never fails.
    fn prefetch(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Asks the system to reserve room on the disk for a range beyond the end, without moving the
    /// end, so that writes there need not wait for it. A hint: it never fails. Cutting the file
    /// gives it back.
    fn reserve(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Asks the system to begin writing a range back, up to the end if `len` is 0; never waits,
    /// never fails.
    fn start_writeback(&self, offset: u64, len: u64);
    /// Returns when everything written before, and the length, is on stable storage.
    fn sync(&self) -> io::Result<()>;
    /// Cuts or extends (with zeros that are really allocated, so that a full disk is an error
    /// here and not later) the file to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Maps the file read-only at a fixed address, reserving `reserve` bytes of address space (or
    /// the largest half, quarter, ... of it that is granted), so that growth needs no remapping.
    /// `None` where the reservation would be too small to be of use: then `read_at` serves.
    fn map(&self, reserve: u64) -> io::Result<Option<Map>>;
    /// As [`DataFile::map`], but the map may also be written to: only this process sees such
    /// writes, and the file is not changed. If the system has no such map, this gives one for
    /// reading.
    fn map_private(&self, reserve: u64) -> io::Result<Option<Map>> {
        self.map(reserve)
    }
    /// Shares the first `len` bytes, which must be there, with the system: what is stored in them
    /// is handed to the system as by a write, but without a call. `None` if the system does not
    /// support this.
    fn share(&self, len: usize) -> io::Result<Option<Box<dyn Shared>>> {
        let _ = len;
        Ok(None)
    }
    /// Evidence that what was written without a flush is still there: equal values mean that
    /// neither the machine nor the mount was restarted in between. `None` if there is no such
    /// evidence.
    fn uptime_evidence(&self) -> Option<[u8; 24]>;
    /// From now on reads and writes go past the system's cache, or through it again: past it, the
    /// address, the offset and the length of each must be multiples of 4,096 bytes, but that a read
    /// may begin before the end of the file and reach beyond. Says whether they go past it; false
    /// where the file system does not take that.
    fn set_direct(&self, direct: bool) -> bool {
        let _ = direct;
        false
    }
    /// The open file as the system knows it; `None` if it is not one of the system.
    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

/// The first bytes of a file, which the process and the system share.
pub trait Shared: Send + Sync {
    /// Stores bytes; panics unless all of them lie inside. If the process dies mid-store, only part
    /// of them may have been written.
    fn store(&mut self, offset: usize, bytes: &[u8]);
}

/// A read-only view of a file, valid up to the file's length, with address space to grow.
pub struct Map {
    /// The first byte.
    pub base: *const u8,
    /// The reserved length; only the part inside the file may be touched.
    pub reserved: u64,
    /// Unmaps on drop.
    pub owner: Arc<dyn Paging>,
}

/// Hints that the system can be given about a map. It may ignore them.
pub trait Paging: Send + Sync {
    /// Pages will be touched in no order, so that their neighbours are not worth reading.
    fn expect_random(&self) {}
    /// Begins to read a part of the file that will soon be touched, and does not wait for it.
    fn read_ahead(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// Shows the file again where something was written into a private map.
    fn show_file(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
}

/// How files are found, made and locked: the real system, or a simulated disk.
pub trait System: Send + Sync {
    /// Opens (or with `create`, makes: fails if it exists) a data file. `mode` are the permission
    /// bits of a new file.
    fn open_data(&self, path: &Path, how: Open, mode: u32) -> io::Result<Arc<dyn DataFile>>;
    /// Opens or makes the lock file beside it and joins the processes that share it.
    fn open_lock(&self, path: &Path, read_only: bool, mode: u32)
    -> io::Result<Arc<dyn SharedLock>>;
    /// Removes the lock file, whose users go on with it, if `is_gone` says that their data file is
    /// no longer there; nobody opens it meanwhile. False if it stays.
    fn discard_lock(&self, path: &Path, is_gone: &dyn Fn() -> bool) -> io::Result<bool> {
        let _ = (path, is_gone);
        Ok(false)
    }
    /// Flushes the directory that holds `path`, so that a new file's name is on stable storage.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Renames a file over another one, atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name, on the same file system; fails if there is a file of that name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes a directory whose parent exists; fails if there is one of that name.
    fn create_directory(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// The names of what is in a directory, in no particular order.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;
    /// Opens or makes a file and locks it for this opener alone, until the answer is dropped or the
    /// process dies. `None` if another opener has it, in this process or another one.
    fn lock_exclusive(&self, path: &Path, mode: u32) -> io::Result<Option<Box<dyn Send + Sync>>>;
    /// Locks an existing file, shared with other openers that do the same, until the answer is
    /// dropped or the process dies. `None` if it is locked exclusively. Writes nothing, and needs
    /// no right to write.
    fn lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn Send + Sync>>>;
    /// Where queues of reads and writes of its files come from. Unless a system has better ones
    /// they are served in order, in the calling thread.
    #[cfg(unix)]
    fn aio(&self, choice: aio::Choice) -> Arc<dyn aio::Io> {
        let _ = choice;
        Arc::new(aio::InOrder)
    }
    /// Whether a thread may flush soon after a commit that was not flushed. If not, a flush happens
    /// only when a caller asks for it.
    fn flushes_in_background(&self) -> bool {
        true
    }
}

/// How to open a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// For reading and writing; it must not exist.
    Create,
}

/// What processes that have the same store open share: a few words, a table of readers, the
/// writer's lock. It is stored in the lock file; every part of it survives the death of any process
/// at any instruction.
#[cfg_attr(shuttle, expect(private_interfaces, reason = "nobody else implements it there"))]
pub trait SharedLock: Send + Sync {
    /// True if no other live process had the file open when this one opened it: then this process
    /// alone chooses the meta page and calls [`SharedLock::publish_opened`]. While true, other
    /// openers wait inside `open_lock`.
    fn is_first(&self) -> bool;
    /// Ends the exclusive phase of opening.
    fn publish_opened(&self);
    /// A shared word by index 0..8 (latest commit, durable commit, ...).
    fn word(&self, index: usize) -> &AtomicU64;
    /// Takes the writer's lock, waiting at most `wait` (`None`: for ever; zero: try). Returns
    /// false if the time ran out. The lock of a process that died is taken over.
    fn lock_writer(&self, wait: Option<std::time::Duration>) -> io::Result<bool>;
    /// Gives the writer's lock back. Any thread of the process may do so.
    fn unlock_writer(&self);
    /// The number of the process that has the writer's lock; 0: one in a table of its own.
    fn writer(&self) -> Option<u32>;
    /// True if another process waits for the writer's lock.
    fn writer_is_wanted(&self) -> bool;
    /// Wakes all threads, of whatever process, that wait in [`SharedLock::wait_for_ring`]. Costs no
    /// system call where there are none.
    fn ring(&self);
    /// Sleeps until `is_there` answers true, which is asked after each ring; at most `most`
    /// (`None`: for ever). Returns whether it did. What is waited for must be stored in
    /// sequentially consistent order before the ring.
    fn wait_for_ring(&self, is_there: &dyn Fn() -> bool, most: Option<std::time::Duration>)
    -> bool;
    /// Takes a reader slot (the table grows); the slot pins nothing yet.
    fn take_slot(&self) -> io::Result<u32>;
    /// Notes that the calling thread begins to use a slot now, for [`SharedLock::readers`]. Costs
    /// no system call.
    fn touch_slot(&self, slot: u32);
    /// Gives a slot back.
    fn give_slot(&self, slot: u32);
    /// The word of a slot that says which snapshot it pins: `u64::MAX` for none.
    fn slot_word(&self, slot: u32) -> &AtomicU64;
    /// All slots of live processes that pin something now. Slots of dead processes are freed on
    /// the way; the number of those is the second result.
    fn readers(&self) -> (Vec<ReaderSlot>, usize);
    /// Calls `f` with every pinned snapshot of a live process, cheaply (no allocation). Slots of
    /// dead processes are freed on the way.
    fn for_each_pinned(&self, f: &mut dyn FnMut(u64));
    /// False in the child after a fork: its handles cannot be used.
    fn is_same_process(&self) -> bool;
}

/// One reader as seen in the table.
#[derive(Clone, Debug)]
pub struct ReaderSlot {
    /// The slot's number.
    pub slot: u32,
    /// The owner's process number.
    pub process: u32,
    /// The owner's thread number, as the system prints it.
    pub thread: u64,
    /// The snapshot.
    pub snapshot: u64,
    /// When it began, in nanoseconds of the wall clock since 1970.
    pub since_unix_ns: u64,
}
