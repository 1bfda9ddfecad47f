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
    /// tried after the end of the file. The caller has the writer's lock.
    ///
    /// # Errors
    /// If the file's length cannot be asked for.
    pub(crate) fn no_room_from(&self) -> Result<Option<PageNo>> {
        let from = self.no_room_from.load(Relaxed);
        if from == PageNo::MAX {
            return Ok(None);
        }
        if !self.can_grow(ROOM_PAGES)? {
            return Ok(Some(from));
        }
        self.no_room_from.store(PageNo::MAX, Relaxed);
        Ok(None)
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
