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

impl PageFile {
    /// The error of something that was to write from page `at` on. If the disk had no room for it,
    /// that page and those after it may have no place there.
    pub(crate) fn not_written(&self, doing: &'static str, at: PageNo, error: io::Error) -> Error {
        let is_full = matches!(
            error.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
        );
        if is_full {
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
        let len = self.file.len().map_err(|e| Error::io("read the length of", &self.path, e))?;
        let zeros = vec![0; ROOM_PAGES << self.shift];
        let grows = self.file.write_at(&[IoSlice::new(&zeros)], len).is_ok();
        // What was written of them is given back; a file that stays longer is no failure.
        let _ = self.file.set_len(len);
        if !grows {
            return Ok(Some(from));
        }
        self.no_room_from.store(PageNo::MAX, Relaxed);
        Ok(None)
    }
}
