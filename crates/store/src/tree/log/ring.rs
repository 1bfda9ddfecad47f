//! The ring of the log: how long it is, and where records stand in it.

use std::io::{self, IoSlice};
use std::sync::Arc;

use crate::checksum::Crc64;
use crate::tree::meta::LogPlace;
use crate::tree::page_ref::Run;
use crate::tree::pages::room::is_full;
use crate::tree::pages::{PageFile, Pages, WritePages};
use crate::{Error, Result};

/// Records begin at multiples of this, so that writing one never touches a sector of another.
pub(crate) const RECORD_ALIGN: u64 = 4096;
/// The ring is this part of the store, within bounds.
const RING_PART: u64 = 16;
/// A smaller store has a short ring, of one unit: the commit that finds it full flushes what a
/// checkpoint would, and that is little.
const SMALL_STORE_BYTES: u64 = 4 << 20;
/// Half of a ring of at least this length is enough for a checkpoint behind the writers.
pub(super) const LONG_RING_BYTES: u64 = 512 << 10;
const RING_BYTES_MAX: u64 = 64 << 20;
/// A ring is a multiple of this, which is one of every page size.
pub(super) const RING_UNIT: u64 = 64 << 10;
/// What a commit may write beside its changed pages and long values: free space and the catalog.
const MORE_PAGES: usize = 64;

impl LogPlace {
    /// The beginning of a new ring.
    pub(crate) fn of(run: Run) -> Self {
        Self { run, at: 0, sum: 0, chained: true, open: true }
    }

    /// The length of the ring.
    pub(super) fn ring_bytes(&self, page_size: u64) -> u64 {
        u64::from(self.run.len) * page_size
    }

    /// Where in the file the record at a place stands.
    pub(super) fn offset(&self, at: u64, page_size: u64) -> u64 {
        u64::from(self.run.start) * page_size + at % self.ring_bytes(page_size)
    }

    /// The beginning of the ring's next round, for what does not fit in this one.
    pub(super) fn next_round(&self, page_size: u64) -> u64 {
        self.at.next_multiple_of(self.ring_bytes(page_size))
    }

    /// Where a record of `len` bytes goes, if there is room before what stands from `first` on.
    pub(super) fn room_for(&self, len: u64, first: u64, page_size: u64) -> Option<u64> {
        let ring = self.ring_bytes(page_size);
        let len = len.next_multiple_of(RECORD_ALIGN);
        let fits_here = self.at % ring + len <= ring;
        let at = if fits_here { self.at } else { self.next_round(page_size) };
        let used = (at + len).checked_sub(first)?;
        (used <= ring).then_some(at)
    }

    /// That of a commit which is durable without the log: records may follow it, and nothing
    /// before it.
    pub(crate) fn restarted(&self, id: &[u8; 16], txn: u64) -> Self {
        let mut sum = Crc64::new();
        sum.update(id);
        sum.update(&txn.to_le_bytes());
        Self { sum: sum.finish(), chained: true, open: true, ..*self }
    }

    /// That of a commit which is neither durable nor in the log.
    pub(super) fn left_out(&self) -> Self {
        Self { chained: false, ..*self }
    }
}

/// What becomes of the ring in a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    /// What it was: there is the one of the commit before, or none.
    Stays,
    /// There is another one now.
    New(Run),
    /// Compaction has let it go, or a transaction on a full disk.
    Gone,
}

impl Ring {
    /// The place that the commit begins with, given that of the one before.
    pub(crate) fn place(self, before: Option<LogPlace>) -> Option<LogPlace> {
        match self {
            Self::Stays => before,
            Self::New(run) => Some(LogPlace::of(run)),
            Self::Gone => None,
        }
    }
}

/// Takes pages for a ring and writes them. `None`, and nothing is taken, if neither the store nor
/// the disk has room for them and for what the commit writes besides.
pub(super) fn make_ring(pages: &mut WritePages, len: u32) -> Result<Option<Run>> {
    let file = Arc::clone(&pages.base.file);
    let (end, file_len) = (pages.base.end, file.len()?);
    let run = match pages.take_run(len) {
        Err(Error::StoreFull { .. }) => return Ok(None),
        run => run?,
    };
    let is_filled = match fill_with_zeros(&file, run) {
        Ok(()) => true,
        Err(error) if is_full(&error) => false,
        Err(error) => return Err(Error::io("write the log of", &file.path, error)),
    };
    let long = pages.extents.bytes() / pages.page_size();
    if is_filled && file.can_grow(pages.changed_pages() + long + MORE_PAGES)? {
        return Ok(Some(run));
    }
    // A file that stays longer is no failure.
    let _ = file.file.set_len(file_len);
    pages.untake_run(run, end)?;
    Ok(None)
}

/// How long the ring of a store should be: what was asked for, or a part of the store.
pub(super) fn wanted_bytes(asked: Option<u64>, store_bytes: u64, max_size: Option<u64>) -> u64 {
    if let Some(bytes) = asked {
        return bytes - bytes % RING_UNIT;
    }
    if store_bytes >= SMALL_STORE_BYTES {
        let part = store_bytes / RING_PART;
        return part.clamp(LONG_RING_BYTES, RING_BYTES_MAX).next_power_of_two();
    }
    let has_room = max_size.is_none_or(|most| RING_UNIT < most / RING_PART);
    if has_room && store_bytes >= RING_UNIT { RING_UNIT } else { 0 }
}

/// Writes the ring once, so that writing records changes no more than bytes on the disk.
fn fill_with_zeros(file: &PageFile, run: Run) -> io::Result<()> {
    let page_size = file.page_size() as u64;
    let (start, len) = (u64::from(run.start) * page_size, u64::from(run.len) * page_size);
    let zeros = vec![0; (len as usize).min(512 << 10)];
    let mut done = 0;
    while done < len {
        let part = &zeros[..zeros.len().min((len - done) as usize)];
        file.file.write_at(&[IoSlice::new(part)], start + done)?;
        done += part.len() as u64;
    }
    Ok(())
}
