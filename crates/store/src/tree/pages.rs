//! Where pages come from: a snapshot reads them from the file, a write transaction also from its
//! own changed copies (`changed`). Nothing here knows keys.

#![expect(unsafe_code, reason = "pages are read through a memory map")]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use super::page::search::Extents;
use super::page::{self, Page};
use super::page_ref::{ExtentRef, FIRST_PAGE, PAGE_BYTES_MIN, PAGE_NO_END, PageNo, PageRef, Run};
use crate::os::{self, DataFile, Map, Words};
use crate::prefetch::{LINE, prefetch, prefetch_lines, prefetch_range};
use crate::sync::{Mutex, locked};
use crate::{Error, Place, Result};

mod changed;
mod frames;
mod new_extents;
pub(crate) mod room;

pub(crate) use changed::{LAST_PAGES, UndoMark, WritePages};
pub(crate) use frames::Buffer;
use frames::Frames;
pub(crate) use new_extents::NewExtents;

/// Bytes of a file that fit into memory without a look at how much there is.
const SURELY_IN_MEMORY: u64 = 64 << 20;

/// Of a page that a scan back is to check next, this many bytes are fetched.
const UNCHECKED_FETCHED: usize = 1024;

/// An open data file as pages, shared by all transactions of a store.
pub(crate) struct PageFile {
    pub(crate) file: Arc<dyn DataFile>,
    map: Option<Map>,
    base: *const u8,
    shift: u32,
    pub(crate) path: PathBuf,
    checked: Checked,
    always_check: bool,
    /// Longer values are handed out unread.
    verified_max: u64,
    pub(crate) interrupt: Arc<AtomicBool>,
    /// Whether the file was once too long to stay in memory.
    beyond_memory: AtomicBool,
    /// Memory for changed pages, of this write transaction and of later ones.
    frames: Arc<Frames>,
    /// The first page for which the disk had no room; see `room`.
    no_room_from: AtomicU32,
}

/// What need not be checked again, a bit a page: tree pages that were validated, and extent pages
/// whose sum was verified. Apart, because a damaged file may use one page as both.
struct Checked {
    pages: Words,
    extents: Words,
    /// No word of the two from here on was ever set.
    end: AtomicUsize,
}

// SAFETY: `base` points into the read-only map that `map` keeps alive; it is only read.
unsafe impl Send for PageFile {}
// SAFETY: as above; the bitmap is atomic and the file's methods take `&self` from any thread.
unsafe impl Sync for PageFile {}

impl PageFile {
    pub(crate) fn new(
        file: Arc<dyn DataFile>,
        map: Option<Map>,
        page_size: u32,
        path: PathBuf,
        always_check: bool,
        interrupt: Arc<AtomicBool>,
    ) -> Self {
        let shift = page_size.trailing_zeros();
        let pages = map.as_ref().map_or(0, |m| (m.reserved >> shift).min(u64::from(PAGE_NO_END)));
        let words = pages.div_ceil(64) as usize;
        // The bits of a 1 TiB reservation cost address space only.
        let (pages, extents) = (Words::zeroed(words), Words::zeroed(words));
        let checked = Checked { pages, extents, end: AtomicUsize::new(0) };
        let base = map.as_ref().map_or(std::ptr::null(), |m| m.base);
        Self {
            file,
            map,
            base,
            shift,
            path,
            checked,
            always_check,
            verified_max: u64::MAX,
            interrupt,
            beyond_memory: AtomicBool::new(false),
            frames: Frames::new(page_size as usize),
            no_room_from: AtomicU32::new(room::NOT_LOOKED),
        }
    }

    /// Lets values that are longer be handed out without being read, where there is a map.
    pub(crate) fn verify_values_up_to(mut self, bytes: u64) -> Self {
        self.verified_max = bytes;
        self
    }

    /// Whether a value of this length is verified as a whole before it is handed out.
    pub(crate) fn is_verified_whole(&self, len: u32) -> bool {
        u64::from(len) <= self.verified_max || self.always_check || !self.is_mapped()
    }

    #[inline(always)]
    pub(crate) fn page_size(&self) -> usize {
        1 << self.shift
    }

    /// The address of a page in the map. It has no meaning without a map, or if there is no such
    /// page.
    #[inline(always)]
    fn address(&self, no: PageNo) -> *const u8 {
        self.base.wrapping_add((no as usize) << self.shift)
    }

    /// Whether the file is read through a map (and not by positioned reads).
    pub(crate) fn is_mapped(&self) -> bool {
        self.map.is_some()
    }

    /// Looks whether the file has grown beyond the memory there is. From then on the system must
    /// not read the neighbours of each page that is touched: they would drive out others before
    /// anyone needs them. Scans and batches say themselves what to read ahead.
    fn note_end(&self, end: PageNo) {
        let bytes = u64::from(end) << self.shift;
        if bytes >= SURELY_IN_MEMORY && !self.is_beyond_memory() && bytes > os::memory() / 2 {
            if let Some(map) = &self.map {
                map.owner.expect_random();
            }
            self.beyond_memory.store(true, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn is_beyond_memory(&self) -> bool {
        self.beyond_memory.load(Ordering::Relaxed)
    }

    /// Begins to read a run in the background.
    #[cold]
    pub(crate) fn read_ahead(&self, run: Run) {
        if let Some(map) = &self.map {
            let (start, len) = (u64::from(run.start), u64::from(run.len));
            map.owner.read_ahead(start << self.shift, len << self.shift);
        }
    }

    /// How many pages the map can ever show; without a map there is no limit but the number's.
    pub(crate) fn max_pages(&self) -> u32 {
        match &self.map {
            Some(map) => (map.reserved >> self.shift).min(u64::from(PAGE_NO_END)) as u32,
            None => PAGE_NO_END,
        }
    }

    /// Whether the file is that long by now.
    #[cold]
    fn holds_pages_before(&self, end: u64) -> bool {
        self.file.len().is_ok_and(|len| len >= end << self.shift)
    }

    /// Forgets which pages were checked: another process has written.
    pub(crate) fn forget_checked(&self) {
        let end = self.checked.end.load(Ordering::Relaxed);
        for word in self.checked.pages[..end].iter().chain(&self.checked.extents[..end]) {
            word.store(0, Ordering::Relaxed);
        }
        // Pages changed in a private map differ from what the file holds now.
        let pages = (end as u64 * 64).min(u64::from(PAGE_NO_END));
        self.show_file(Run { start: 0, len: pages as u32 });
    }

    /// Has a private map show the file again. Bytes that were handed out and changed there are
    /// dropped before other bytes come to stand in their place.
    fn show_file(&self, run: Run) {
        if let Some(map) = &self.map {
            let (start, len) = (u64::from(run.start), u64::from(run.len));
            map.owner.show_file(start << self.shift, len << self.shift);
        }
    }

    #[inline(always)]
    fn is_checked(&self, no: PageNo) -> bool {
        match self.checked.pages.get((no >> 6) as usize) {
            Some(word) => word.load(Ordering::Relaxed) >> (no & 63) & 1 != 0,
            None => false,
        }
    }

    /// The page `at`, if it was looked at or written before.
    #[inline(always)]
    pub(crate) fn checked_page(&self, at: PageRef) -> Option<Page<'_>> {
        // SAFETY: a checked page lies inside the map and the file (its bit exists, and was set
        // after `run` answered it or after it was written), and has passed `validate`.
        self.is_checked(at.0).then(|| unsafe { Page::new(self.address(at.0), self.page_size()) })
    }

    fn set_checked(&self, no: PageNo) {
        self.set_bit(&self.checked.pages, no);
    }

    /// Pages that this process has just built, sealed and written need no validation: the map shows
    /// what was written.
    pub(crate) fn note_written(&self, pages: impl Iterator<Item = PageNo>) {
        let most = self.max_pages();
        pages.filter(|no| *no < most).for_each(|no| self.set_checked(no));
    }

    fn set_bit(&self, bits: &[AtomicU64], no: PageNo) {
        let at = (no >> 6) as usize;
        if let Some(word) = bits.get(at)
            && !self.always_check
        {
            // Most often there is nothing to change, which a load says for less.
            if self.checked.end.load(Ordering::Relaxed) <= at {
                self.checked.end.fetch_max(at + 1, Ordering::Relaxed);
            }
            word.fetch_or(1 << (no & 63), Ordering::Relaxed);
        }
    }

    /// Whether an extent's page needs no verification any more.
    pub(crate) fn is_extent_checked(&self, no: PageNo) -> bool {
        let word = self.checked.extents.get((no >> 6) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (no & 63) & 1 != 0)
    }

    pub(crate) fn set_extent_checked(&self, no: PageNo) {
        self.set_bit(&self.checked.extents, no);
    }

    /// The page will be written with other content by this process.
    fn forget(&self, no: PageNo) {
        for bits in [&self.checked.pages, &self.checked.extents] {
            if let Some(word) = bits.get((no >> 6) as usize)
                && word.load(Ordering::Relaxed) >> (no & 63) & 1 != 0
            {
                word.fetch_and(!(1 << (no & 63)), Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn corrupt(&self, no: PageNo, reason: &'static str) -> Error {
        Error::Corrupt { path: self.path.clone(), place: Place::Page(u64::from(no)), reason }
    }

    #[inline(always)]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    pub(crate) fn interrupted(&self) -> Result<()> {
        if self.is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Has the processor fetch a page to which a scan will come, or a scan `back`. One that is
    /// still to be checked is read from its beginning on, which the processor foresees by itself;
    /// but on the way back not where it begins.
    #[inline(always)]
    pub(crate) fn fetch_next(&self, at: PageRef, back: bool) {
        if self.is_checked(at.0) {
            // Of a large page, only the beginning.
            prefetch_lines(self.address(at.0), PAGE_BYTES_MIN / LINE);
        } else if back && self.is_mapped() {
            prefetch_range(self.address(at.0), 0..UNCHECKED_FETCHED);
        }
    }

    /// Where a page stands in the map, to have some of it fetched.
    #[inline(always)]
    pub(crate) fn address_to_fetch(&self, at: PageRef) -> *const u8 {
        self.address(at.0)
    }

    /// Reads pages by a positioned read, not through the map.
    pub(crate) fn read_run(&self, run: Run, buffer: &mut [u8]) -> Result<()> {
        self.file
            .read_at(buffer, u64::from(run.start) << self.shift)
            .map_err(|e| Error::io("read pages of", &self.path, e))
    }
}

/// What the tree's algorithms read pages through.
pub(crate) trait Pages: Extents {
    /// The page `at`, which must be of the given level (0: leaf).
    fn page(&self, at: PageRef, level: u8) -> Result<Page<'_>>;
    /// `len` bytes from `offset` on in an extent, only the pages touched being checked.
    fn extent_part(&self, reference: &ExtentRef, offset: u64, out: &mut [u8]) -> Result<()>;
    /// The first page of an extent that is longer than a page, checked.
    fn extent_front(&self, reference: &ExtentRef) -> Result<&[u8]>;
    /// The page size.
    fn page_size(&self) -> usize;
    /// `Err` if the interruption flag is raised.
    fn interrupted(&self) -> Result<()>;
    /// No tree has more pages than this.
    fn pages_max(&self) -> u64;
    /// Whether this transaction has made or changed the page `at`, and may do so again: other pages
    /// stay as they are, and where they are, for as long as it goes on.
    fn is_own(&self, at: PageRef, page: Page<'_>) -> bool;
    /// An error that names a page.
    fn corrupt(&self, at: PageRef, reason: &'static str) -> Error;
    /// Has the beginning of a page fetched, from memory or from a file beyond memory.
    fn prefetch(&self, at: PageRef);
    /// Has the processor fetch bytes of a page that is about to be searched.
    fn fetch(&self, at: PageRef, bytes: Range<usize>);
    /// Has the processor fetch what a scan, or a scan `back`, will read of a page to which it will
    /// come.
    fn fetch_next(&self, at: PageRef, back: bool);
    /// Has the processor fetch all of a page that is about to be searched and copied; of one that
    /// was copied already the first `bytes`.
    fn fetch_to_change(&self, at: PageRef, bytes: usize);
    /// Has pages read in the background where the file is beyond memory; neighbours together.
    fn read_ahead(&self, pages: &mut dyn Iterator<Item = PageRef>);
}

/// Runs that were read, by first page and number of pages.
#[derive(Default)]
struct Cache {
    runs: HashMap<(PageNo, u32), Box<[u8]>>,
    /// How many pages they are together.
    pages: u64,
}

impl Cache {
    /// Reads a run, unless it is known. At most `most` pages are kept.
    fn run(&mut self, file: &PageFile, run: Run, most: u64) -> Result<&[u8]> {
        match self.runs.entry((run.start, run.len)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                self.pages += u64::from(run.len);
                if self.pages > most {
                    let reason = "long values that overlap: more is read than the store holds";
                    return Err(file.corrupt(run.start, reason));
                }
                let len = (run.len as usize) << file.shift;
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(len).map_err(|_| Error::OutOfMemory)?;
                bytes.resize(len, 0);
                let mut bytes = bytes.into_boxed_slice();
                file.read_run(run, &mut bytes)?;
                Ok(place.insert(bytes))
            }
        }
    }

    /// Drops what overlaps a run.
    fn forget(&mut self, run: Run) {
        let gone = run.start..run.start + run.len;
        self.runs.retain(|(start, len), _| {
            let stays = start + *len <= gone.start || *start >= gone.end;
            self.pages -= if stays { 0 } else { u64::from(*len) };
            stays
        });
    }
}

/// The pages of one snapshot.
pub struct ReadPages {
    pub(crate) file: Arc<PageFile>,
    /// The first page number beyond the snapshot; of a write transaction beyond what it has taken.
    pub(crate) end: PageNo,
    /// The file holds all pages before this one.
    reaches: PageNo,
    /// Pages read so far, where there is no map. Boxes are never dropped or moved while the
    /// snapshot lives, so that references into them stay valid.
    cache: Mutex<Cache>,
}

impl ReadPages {
    pub(crate) fn new(file: Arc<PageFile>, end: PageNo) -> Self {
        file.note_end(end);
        Self { file, end, reaches: end, cache: Mutex::default() }
    }

    /// Points at another snapshot; nothing handed out before is in use any more.
    pub(crate) fn renew(&mut self, end: PageNo) {
        self.file.note_end(end);
        (self.end, self.reaches) = (end, end);
        self.clear();
    }

    /// Gives up the pages that were read into memory; nothing handed out is in use any more.
    pub(crate) fn clear(&mut self) {
        let cache = self.cache.get_mut().unwrap_or_else(PoisonError::into_inner);
        if cache.pages > 0 {
            *cache = Cache::default();
        }
    }

    /// The pages of the run will be written with other content.
    pub(crate) fn forget(&mut self, run: Run) {
        let cache = self.cache.get_mut().unwrap_or_else(PoisonError::into_inner);
        if cache.pages > 0 {
            cache.forget(run);
        }
        for no in run.start..run.start + run.len {
            self.file.forget(no);
        }
        self.file.show_file(run);
    }

    #[inline(always)]
    fn locate(&self, no: PageNo) -> Result<*const u8> {
        if self.file.is_checked(no) {
            // SAFETY: a checked page lies inside the map and the file (its bit exists, and was set
            // after `run` answered it or after it was written).
            return Ok(unsafe { self.file.base.add((no as usize) << self.file.shift) });
        }
        self.locate_unchecked(no)
    }

    #[cold]
    fn locate_unchecked(&self, no: PageNo) -> Result<*const u8> {
        let bytes = self.run(Run { start: no, len: 1 })?;
        page::validate(bytes, no, self.end).map_err(|why| self.file.corrupt(no, why))?;
        if self.file.is_mapped() {
            self.file.set_checked(no);
        }
        Ok(bytes.as_ptr())
    }

    /// The bytes of a run, through the map or read into the cache; not checked.
    pub(crate) fn run(&self, run: Run) -> Result<&[u8]> {
        let end = u64::from(run.start) + u64::from(run.len);
        // Pages that a write transaction has taken beyond its snapshot may not be written yet.
        let is_inside = end <= u64::from(self.reaches)
            || end <= u64::from(self.end) && self.file.holds_pages_before(end);
        if !is_inside || run.start < FIRST_PAGE {
            return Err(self.file.corrupt(run.start, "a page number beyond the end of the store"));
        }
        let len = (run.len as usize) << self.file.shift;
        if self.file.is_mapped() {
            // SAFETY: the run lies inside the file, as was just seen, and inside the map, which
            // lives as long as `self.file`; pages of a live snapshot are not written.
            return Ok(unsafe {
                let base = self.file.base.add((run.start as usize) << self.file.shift);
                std::slice::from_raw_parts(base, len)
            });
        }
        let mut cache = locked(&self.cache);
        // A tree page is read once; a page of an extent with all of it, with its trailer, and
        // alone.
        let bytes = cache.run(&self.file, run, 3 * u64::from(self.end))?;
        // SAFETY: boxes stay where they are until `renew` (which takes `&mut self`) or drop.
        Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) })
    }
}

impl Extents for ReadPages {
    fn extent(&self, reference: &ExtentRef) -> Result<&[u8]> {
        super::extent::read_whole(self, reference)
    }
}

impl Pages for ReadPages {
    #[inline(always)]
    fn page(&self, at: PageRef, level: u8) -> Result<Page<'_>> {
        let base = self.locate(at.0)?;
        // SAFETY: `locate` only gives pages that passed `validate`.
        let page = unsafe { Page::new(base, self.file.page_size()) };
        if page.level() == level {
            Ok(page)
        } else {
            Err(self.file.corrupt(at.0, "a page of another level than its parent says"))
        }
    }

    fn extent_part(&self, reference: &ExtentRef, offset: u64, out: &mut [u8]) -> Result<()> {
        super::extent::read_part(self, reference, offset, out)
    }

    fn extent_front(&self, reference: &ExtentRef) -> Result<&[u8]> {
        super::extent::read_front(self, reference)
    }

    #[inline(always)]
    fn page_size(&self) -> usize {
        self.file.page_size()
    }

    #[inline]
    fn interrupted(&self) -> Result<()> {
        self.file.interrupted()
    }

    #[inline]
    fn pages_max(&self) -> u64 {
        u64::from(self.end)
    }

    #[inline(always)]
    fn is_own(&self, _: PageRef, _: Page<'_>) -> bool {
        false
    }

    #[cold]
    fn corrupt(&self, at: PageRef, reason: &'static str) -> Error {
        self.file.corrupt(at.0, reason)
    }

    #[inline(always)]
    fn prefetch(&self, at: PageRef) {
        if self.file.is_mapped() && at.0 < self.end {
            if self.file.is_beyond_memory() {
                self.file.read_ahead(Run { start: at.0, len: 1 });
            }
            prefetch::<{ page::FETCHED }>(self.file.address(at.0));
        }
    }

    #[inline(always)]
    fn fetch(&self, at: PageRef, bytes: Range<usize>) {
        prefetch_range(self.file.address(at.0), bytes);
    }

    #[inline(always)]
    fn fetch_next(&self, at: PageRef, back: bool) {
        self.file.fetch_next(at, back);
    }

    #[inline(always)]
    fn fetch_to_change(&self, at: PageRef, _: usize) {
        // Only the beginning of a large page is prefetched.
        prefetch::<PAGE_BYTES_MIN>(self.file.address(at.0));
    }

    fn read_ahead(&self, pages: &mut dyn Iterator<Item = PageRef>) {
        if !self.file.is_beyond_memory() {
            return;
        }
        let mut run = Run { start: 0, len: 0 };
        for at in pages.filter(|at| !at.is_changed() && at.0 < self.end) {
            if run.start + run.len == at.0 && run.len > 0 {
                run.len += 1;
                continue;
            }
            if run.len > 0 {
                self.file.read_ahead(run);
            }
            run = Run { start: at.0, len: 1 };
        }
        if run.len > 0 {
            self.file.read_ahead(run);
        }
    }
}

#[cfg(test)]
mod tests;
