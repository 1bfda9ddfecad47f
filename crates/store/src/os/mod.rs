//! The only door to the system: files, maps, queues of reads and writes, locks shared between
//! processes, and a simulated disk.
//!
//! This module knows bytes and files. It knows no pages and no keys.

pub mod aio;
mod file;
mod lock;
mod map;
mod mapped;
mod memory;
pub mod sim;
mod system;
mod unix;

pub use file::{Access, DataFile, Map, Paging, Shared};
pub(crate) use lock::process::Token;
pub use lock::{ReaderSlot, SharedLock};
pub(crate) use map::Words;
#[cfg(target_os = "linux")]
pub(crate) use map::{lend, prefer_large_pages};
pub(crate) use mapped::{Bytes, Mapped};
pub(crate) use memory::{memory, open_files_max};
pub use system::{Open, Rights, System};
pub(crate) use unix::MemorySystem;
pub use unix::RealSystem;

/// The name of a store that lies in memory, in what is told of it.
pub(crate) const IN_MEMORY: &str = ":memory:";

/// Whether a file cannot be opened because too many are.
pub(crate) fn is_one_too_many(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
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

/// Locks on files are inherited by a child process until it runs its program. So tests that look
/// whether a lock is free keep other tests from making children.
#[cfg(test)]
pub(crate) mod children {
    use std::io;
    use std::process::{Child, Command};
    use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

    static MADE: RwLock<()> = RwLock::new(());

    /// None are made while the answer lives.
    pub(crate) fn none() -> RwLockReadGuard<'static, ()> {
        MADE.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who makes one holds the answer meanwhile.
    pub(crate) fn making() -> RwLockWriteGuard<'static, ()> {
        MADE.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
        let _making = making();
        command.spawn()
    }
}
