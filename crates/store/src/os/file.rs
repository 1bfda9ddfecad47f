//! A data file as the engines see it, and maps of it.

use std::io;
use std::sync::Arc;

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
    /// The same in long calls: for bytes of which no part is written by itself later, or in place
    /// of others that the file has.
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
    /// The same, for a thread beside which another one may flush the file: a failure is told to
    /// both, and to all that call this later.
    fn sync_beside(&self) -> io::Result<()> {
        self.sync()
    }
    /// Returns when a range inside of the file is on stable storage: it, and not what else was
    /// written. While the disk works on it, `meanwhile` is called.
    fn sync_range(&self, _: u64, _: usize, meanwhile: &mut dyn FnMut()) -> io::Result<()> {
        meanwhile();
        self.sync()
    }
    /// Cuts or extends (with zeros that are really allocated, so that a full disk is an error
    /// here and not later) the file to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Maps the file at a fixed address, reserving `reserve` bytes of address space (or the largest
    /// half, quarter, ... of it that is granted), so that growth needs no remapping. `None` where
    /// the reservation would be too small to be of use: then `read_at` serves. With 0 it maps the
    /// file as long as it is, which will not grow.
    ///
    /// A system without private maps gives one for reading.
    fn map(&self, reserve: u64, access: Access) -> io::Result<Option<Map>>;
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
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

/// What may be done with a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing but reading.
    Read,
    /// Writing is allowed, too, but neither the file nor other processes see it.
    Private,
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
