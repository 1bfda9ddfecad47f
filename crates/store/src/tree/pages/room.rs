//! What becomes of a store on a disk that was full.
//!
//! A small commit lengthens the file, so that the pages that it writes lie side by side, although
//! there are free ones inside. On a full disk that fails, and would fail again for the next commit,
//! one that only deletes included: after a write for which there was no room the transactions of
//! this process take the lowest free pages, until the file can grow again.

use std::io::{self, ErrorKind, IoSlice};
use std::sync::atomic::Ordering::Relaxed;

use super::PageFile;
use crate::tree::page_ref::PageNo;
use crate::{Error, Result};

/// The file can grow again if it can by this many pages.
const ROOM_PAGES: usize = 16;
/// Only where the file system has less room than this does a process look before its first write.
const NEARLY_FULL: u64 = 1 << 20;
/// Instead of the first page for which the disk had no room: this process has not looked yet.
pub(super) const NOT_LOOKED: PageNo = 0;

/// Whether a write failed because the disk has no room, or may give none.
pub(crate) fn is_full(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

impl PageFile {
    /// The error of something that was to write from page `at` on. If the disk had no room for it,
    /// that page and those after it may have no place there.
    pub(crate) fn not_written(&self, doing: &'static str, at: PageNo, error: io::Error) -> Error {
        if is_full(&error) {
            self.no_room_from.fetch_min(at, Relaxed);
        }
        Error::io(doing, &self.path, error)
    }

    /// The first page for which the disk had no room; `None` if it had, or has by now: that is
    /// tried after the end of the file. The first call asks for the free bytes of the file system.
    /// The caller has the writer's lock.
    ///
    /// # Errors
    /// If the file's length cannot be asked for.
    pub(crate) fn no_room_from(
        &self,
        free_bytes: impl FnOnce() -> Option<u64>,
    ) -> Result<Option<PageNo>> {
        let from = match self.no_room_from.load(Relaxed) {
            PageNo::MAX => return Ok(None),
            NOT_LOOKED if free_bytes().is_some_and(|free| free < NEARLY_FULL) => {
                (self.len()? >> self.shift) as PageNo
            }
            NOT_LOOKED => PageNo::MAX,
            from => from,
        };
        let has_room = from == PageNo::MAX || self.can_grow(ROOM_PAGES)?;
        self.no_room_from.store(if has_room { PageNo::MAX } else { from }, Relaxed);
        Ok((!has_room).then_some(from))
    }

    /// The length of the file.
    pub(crate) fn len(&self) -> Result<u64> {
        self.file.len().map_err(|e| Error::io("read the length of", &self.path, e))
    }

    /// Whether the file can grow by this many pages: they are written after its end, and given
    /// back. The caller has the writer's lock.
    ///
    /// # Errors
    /// If the file's length cannot be asked for.
    pub(crate) fn can_grow(&self, pages: usize) -> Result<bool> {
        let len = self.len()?;
        let zeros = vec![0; pages << self.shift];
        let grows = self.file.write_at(&[IoSlice::new(&zeros)], len).is_ok();
        // A file that stays longer is no failure.
        let _ = self.file.set_len(len);
        Ok(grows)
    }
}
