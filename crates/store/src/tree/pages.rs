//! Where pages come from: a snapshot reads them from the file, a write transaction also from its
//! own changed copies. Nothing here knows keys.
//!
//! A changed page has no page number before the commit: while the transaction runs, its parent
//! refers to it by a *slot* (a [`PageRef`] with the top bit set). The commit then numbers all
//! changed pages at once, side by side and in key order.

#![expect(unsafe_code, reason = "pages are read through a memory map")]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use super::page::{self, Page, PageMut};
use crate::os::{DataFile, Map};
use crate::sync::{Mutex, MutexGuard};
use crate::{Error, Result};

/// The number of a page in the file; pages are counted from 0.
pub(crate) type PageNo = u32;

/// The first page that is not a meta page.
pub(crate) const FIRST_PAGE: PageNo = 3;

/// The first page number that does not exist: numbers have 31 bits.
pub(crate) const PAGE_NO_END: u32 = 1 << 31;

/// A page: one in the file by number, or a changed one by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageRef(pub(crate) u32);

impl PageRef {
    const CHANGED: u32 = 1 << 31;
    /// No page: the root of an empty tree.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn slot(slot: usize) -> Self {
        Self(slot as u32 | Self::CHANGED)
    }

    #[inline(always)]
    pub(crate) fn is_changed(self) -> bool {
        self.0 & Self::CHANGED != 0
    }

    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }

    #[inline(always)]
    fn index(self) -> usize {
        (self.0 & !Self::CHANGED) as usize
    }
}

/// A run of neighbouring pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: PageNo,
    pub(crate) len: u32,
}

/// Pages that a transaction no longer refers to: used by the snapshots from `birth` up to (but not
/// including) the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) run: Run,
    pub(crate) birth: u64,
}

/// An open data file as pages, shared by all transactions of a store.
pub(crate) struct PageFile {
    pub(crate) file: Arc<dyn DataFile>,
    map: Option<Map>,
    base: *const u8,
    shift: u32,
    pub(crate) path: PathBuf,
    /// Tree pages that were validated, a bit each, and extent pages whose sum was verified. Apart,
    /// because a damaged file may use one page as both.
    checked: Vec<AtomicU64>,
    checked_extents: Vec<AtomicU64>,
    /// No word of the two from here on was ever set.
    checked_end: AtomicUsize,
    always_check: bool,
    /// Longer values are handed out unread.
    verified_max: u64,
    pub(crate) interrupt: Arc<AtomicBool>,
    /// Buffers for the next changed pages, of this write transaction and of later ones.
    spare: Mutex<Vec<Buffer>>,
}

/// Of how many bytes spare buffers are kept.
const SPARE_BYTES: usize = 256 << 10;

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
        // Zeroed memory from the allocator is not touched before it is used, so that the bitmap of
        // a 1 TiB reservation costs address space only.
        let (checked, checked_extents) = (zeroed_words(words), zeroed_words(words));
        let checked_end = AtomicUsize::new(0);
        let base = map.as_ref().map_or(std::ptr::null(), |m| m.base);
        Self {
            file,
            map,
            base,
            shift,
            path,
            checked,
            checked_extents,
            checked_end,
            always_check,
            verified_max: u64::MAX,
            interrupt,
            spare: Mutex::default(),
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

    fn spare(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(always)]
    pub(crate) fn page_size(&self) -> usize {
        1 << self.shift
    }

    /// Whether the file is read through a map (and not by positioned reads).
    pub(crate) fn is_mapped(&self) -> bool {
        self.map.is_some()
    }

    /// How many pages the map can ever show; without a map there is no limit but the number's.
    pub(crate) fn max_pages(&self) -> u32 {
        match &self.map {
            Some(map) => (map.reserved >> self.shift).min(u64::from(PAGE_NO_END)) as u32,
            None => PAGE_NO_END,
        }
    }

    /// Forgets which pages were checked: another process has written.
    pub(crate) fn forget_checked(&self) {
        let end = self.checked_end.load(Ordering::Relaxed);
        for word in self.checked[..end].iter().chain(&self.checked_extents[..end]) {
            word.store(0, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn is_checked(&self, no: PageNo) -> bool {
        match self.checked.get((no >> 6) as usize) {
            Some(word) => word.load(Ordering::Relaxed) >> (no & 63) & 1 != 0,
            None => false,
        }
    }

    fn set_checked(&self, no: PageNo) {
        self.set_bit(&self.checked, no);
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
            self.checked_end.fetch_max(at + 1, Ordering::Relaxed);
            word.fetch_or(1 << (no & 63), Ordering::Relaxed);
        }
    }

    /// Whether an extent's page needs no verification any more.
    pub(crate) fn is_extent_checked(&self, no: PageNo) -> bool {
        let word = self.checked_extents.get((no >> 6) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (no & 63) & 1 != 0)
    }

    pub(crate) fn set_extent_checked(&self, no: PageNo) {
        self.set_bit(&self.checked_extents, no);
    }

    /// The page will be written with other content by this process.
    fn forget(&self, no: PageNo) {
        for bits in [&self.checked, &self.checked_extents] {
            if let Some(word) = bits.get((no >> 6) as usize) {
                word.fetch_and(!(1 << (no & 63)), Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn corrupt(&self, no: PageNo, reason: &'static str) -> Error {
        Error::Corrupt { path: self.path.clone(), page: u64::from(no), reason }
    }

    pub(crate) fn interrupted(&self) -> Result<()> {
        if self.interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Reads pages by a positioned read, not through the map.
    pub(crate) fn read_run(&self, run: Run, buffer: &mut [u8]) -> Result<()> {
        self.file
            .read_at(buffer, u64::from(run.start) << self.shift)
            .map_err(|e| Error::io("read pages of", &self.path, e))
    }
}

fn zeroed_words(words: usize) -> Vec<AtomicU64> {
    let plain: Vec<u64> = vec![0; words];
    let mut plain = std::mem::ManuallyDrop::new(plain);
    // SAFETY: AtomicU64 has the same size, alignment (on every target with 64-bit atomics whose u64
    // is 8-aligned) and validity as u64; the layout of the allocation therefore stays the same.
    // Where the alignments differ (i686), the words are made one by one instead.
    unsafe {
        if align_of::<u64>() == align_of::<AtomicU64>() {
            Vec::from_raw_parts(plain.as_mut_ptr().cast(), words, plain.capacity())
        } else {
            std::mem::ManuallyDrop::drop(&mut plain);
            (0..words).map(|_| AtomicU64::new(0)).collect()
        }
    }
}

/// What the tree's algorithms read pages through.
pub(crate) trait Pages {
    /// The page `at`, which must be of the given level (0: leaf).
    fn page(&self, at: PageRef, level: u8) -> Result<Page<'_>>;
    /// The first `len` bytes of the extent that `reference` names, all pages of it checked.
    fn extent(&self, reference: &ExtentRef) -> Result<&[u8]>;
    /// `len` bytes from `offset` on in an extent, only the pages touched being checked.
    fn extent_part(&self, reference: &ExtentRef, offset: u64, out: &mut [u8]) -> Result<()>;
    /// The page size.
    fn page_size(&self) -> usize;
    /// `Err` if the interruption flag is raised.
    fn interrupted(&self) -> Result<()>;
    /// No tree has more pages than this.
    fn pages_max(&self) -> u64;
    /// An error that names a page.
    fn corrupt(&self, at: PageRef, reason: &'static str) -> Error;
    /// Asks the processor to fetch the beginning of a page.
    fn prefetch(&self, at: PageRef);
}

/// Names an extent: a run of pages that holds one long key or value.
///
/// The bytes stand at the start of the run, in one piece. Behind them, in the last bytes of the
/// run, stands the trailer: a CRC-32C for each page that holds bytes (those of the trailer itself,
/// from its first byte to the end of its page, are covered by `sum`), and the birth number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentRef {
    pub(crate) first: PageNo,
    /// Bytes.
    pub(crate) len: u32,
    /// CRC-32C of the trailer.
    pub(crate) sum: u32,
}

/// Runs that were read, by first page and number of pages.
#[derive(Default)]
struct Cache {
    runs: HashMap<(PageNo, u32), Box<[u8]>>,
    /// How many pages they are together.
    pages: u64,
}

impl Cache {
    /// Reads a run, unless it is known. `most`: so many pages may be kept.
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
    /// The first page number beyond the snapshot.
    pub(crate) end: PageNo,
    /// Pages read so far, where there is no map. Boxes are never dropped or moved while the
    /// snapshot lives, so that references into them stay valid.
    cache: Mutex<Cache>,
}

impl ReadPages {
    pub(crate) fn new(file: Arc<PageFile>, end: PageNo) -> Self {
        Self { file, end, cache: Mutex::default() }
    }

    /// Points at another snapshot; nothing handed out before is in use any more.
    pub(crate) fn renew(&mut self, end: PageNo) {
        self.end = end;
        *self.cache.get_mut().unwrap_or_else(PoisonError::into_inner) = Cache::default();
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
    }

    #[inline(always)]
    fn locate(&self, no: PageNo) -> Result<*const u8> {
        if self.file.is_checked(no) {
            // SAFETY: a checked page lies inside the map (its bit exists and was set after
            // `no < self.end` held for a snapshot whose pages all lie inside the file).
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
        if end > u64::from(self.end) || run.start < FIRST_PAGE {
            return Err(self.file.corrupt(run.start, "a page number beyond the end of the store"));
        }
        let len = (run.len as usize) << self.file.shift;
        if self.file.is_mapped() {
            // SAFETY: the run lies before `end`, so inside the file and the map, which lives as
            // long as `self.file`; pages of a live snapshot are not written.
            return Ok(unsafe {
                let base = self.file.base.add((run.start as usize) << self.file.shift);
                std::slice::from_raw_parts(base, len)
            });
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        // A tree page is read once; a page of an extent with all of it, with its trailer, and
        // alone.
        let bytes = cache.run(&self.file, run, 3 * u64::from(self.end))?;
        // SAFETY: boxes stay where they are until `renew` (which takes `&mut self`) or drop.
        Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) })
    }
}

impl Pages for ReadPages {
    #[inline(always)]
    fn page(&self, at: PageRef, level: u8) -> Result<Page<'_>> {
        let base = self.locate(at.0)?;
        // SAFETY: `locate` answers pages that passed `validate` only.
        let page = unsafe { Page::new(base, self.file.page_size()) };
        if page.level() == level {
            Ok(page)
        } else {
            Err(self.file.corrupt(at.0, "a page of another level than its parent says"))
        }
    }

    fn extent(&self, reference: &ExtentRef) -> Result<&[u8]> {
        super::extent::read_whole(self, reference)
    }

    fn extent_part(&self, reference: &ExtentRef, offset: u64, out: &mut [u8]) -> Result<()> {
        super::extent::read_part(self, reference, offset, out)
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

    #[cold]
    fn corrupt(&self, at: PageRef, reason: &'static str) -> Error {
        self.file.corrupt(at.0, reason)
    }

    #[inline(always)]
    fn prefetch(&self, at: PageRef) {
        if self.file.is_mapped() && at.0 < self.end {
            // SAFETY: the address lies in the map; prefetching reads nothing.
            unsafe { prefetch(self.file.base.add((at.0 as usize) << self.file.shift)) }
        }
    }
}

/// Fetches the first cache lines of a page.
///
/// # Safety
/// `base` must be an address inside an allocation or map of at least 256 bytes from there on.
#[inline(always)]
unsafe fn prefetch(base: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetch instructions do not fault; the offsets stay inside the page.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for at in (0..page::FETCHED).step_by(64) {
            _mm_prefetch::<_MM_HINT_T0>(base.add(at).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = base;
}

/// The bytes of one changed page.
pub(crate) struct Buffer(Box<[u8]>);

impl Buffer {
    /// A buffer of one page; zeroed, because its unused parts reach the file.
    pub(crate) fn new(len: usize) -> Result<Self> {
        // In pieces, as in `page::build::clear`.
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| Error::OutOfMemory)?;
        while bytes.len() < len {
            bytes.extend_from_slice(&[0; 1024]);
        }
        Ok(Self(bytes.into_boxed_slice()))
    }

    /// A copy of a page.
    pub(crate) fn copy_of(page: &[u8]) -> Result<Self> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(page.len()).map_err(|_| Error::OutOfMemory)?;
        page.chunks(1024).for_each(|piece| bytes.extend_from_slice(piece));
        Ok(Self(bytes.into_boxed_slice()))
    }

    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// A changed page.
struct Slot {
    /// `None`: the slot is unused.
    page: Option<Buffer>,
    /// The savepoint epoch in which `page` was last saved to the undo log or made.
    epoch: u32,
}

/// How to take back one step of a write transaction.
enum Undo {
    /// The page in the slot was this one.
    Image { slot: u32, page: Buffer, epoch: u32 },
    /// The slot was unused.
    Made { slot: u32 },
    /// The slot's page had been written to the file early, as this page.
    Spilled { slot: u32, no: PageNo, epoch: u32 },
    /// The run was taken from the pool for an extent.
    Taken { run: Run },
}

/// A mark in the undo log: how long the logs were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndoMark {
    undo: usize,
    freed: usize,
}

/// What takes changes back to a savepoint.
#[derive(Default)]
struct UndoLog {
    steps: Vec<Undo>,
    epoch: u32,
    savepoints: u32,
}

/// Where a write transaction takes new pages from.
pub(crate) struct Space {
    /// Free runs that may be written now.
    pub(crate) pool: Vec<Run>,
    /// If set, the lowest free pages are taken instead of those that lie side by side; those of the
    /// range last.
    pub(crate) lowest_first: Option<std::ops::Range<PageNo>>,
    /// The end of the store, the first page number that was never used, may not pass this.
    pub(crate) max_pages: u32,
    pub(crate) max_size: Option<u64>,
}

/// The pages of a write transaction: those of its snapshot, and its own changed copies of some.
pub struct WritePages {
    pub(crate) base: ReadPages,
    /// The number that the commit will have.
    pub(crate) txn: u64,
    slots: Vec<Slot>,
    unused: Vec<u32>,
    changed: usize,
    log: UndoLog,
    /// Pages of the snapshot (or written early by this transaction) that are no longer referred to.
    pub(crate) freed: Vec<Freed>,
    pub(crate) space: Space,
    /// Extents made by this transaction that are not in the file yet, by first page.
    pub(crate) extents: HashMap<PageNo, Box<[u8]>>,
    pub(crate) extent_bytes: usize,
    /// Memory for building records aside.
    pub(crate) scratch: Vec<u8>,
}

impl WritePages {
    pub(crate) fn new(base: ReadPages, txn: u64, max_pages: u32, max_size: Option<u64>) -> Self {
        Self {
            base,
            txn,
            slots: Vec::new(),
            unused: Vec::new(),
            changed: 0,
            log: UndoLog::default(),
            freed: Vec::new(),
            space: Space { pool: Vec::new(), lowest_first: None, max_pages, max_size },
            extents: HashMap::new(),
            extent_bytes: 0,
            scratch: Vec::new(),
        }
    }

    /// How many changed pages are in memory.
    pub(crate) fn changed_pages(&self) -> usize {
        self.changed
    }

    /// Bytes of memory that changed pages and new extents take.
    pub(crate) fn changed_bytes(&self) -> usize {
        self.changed * self.page_size() + self.extent_bytes
    }

    #[inline(always)]
    fn buffer(&self, at: PageRef) -> &Buffer {
        match &self.slots[at.index()].page {
            Some(buffer) => buffer,
            None => unreachable!("a reference to an unused slot"),
        }
    }

    /// The bytes of a changed page.
    #[inline(always)]
    pub(crate) fn changed(&self, at: PageRef) -> Page<'_> {
        let bytes = self.buffer(at).bytes();
        // SAFETY: changed pages are built by this module's callers only and are always well formed.
        unsafe { Page::new(bytes.as_ptr(), bytes.len()) }
    }

    /// A changed page for changing it further. It must have gone through [`Self::touch`] or
    /// [`Self::place`] since the last savepoint.
    #[inline(always)]
    pub(crate) fn change(&mut self, at: PageRef) -> PageMut<'_> {
        match &mut self.slots[at.index()].page {
            Some(buffer) => PageMut::new(buffer.bytes_mut()),
            None => unreachable!("a reference to an unused slot"),
        }
    }

    /// The value of a changed leaf's slot, for writing, if it is in the page and `len` bytes long.
    pub(crate) fn value_to_fill(
        &mut self,
        at: PageRef,
        slot: usize,
        len: usize,
    ) -> Option<&mut [u8]> {
        match &mut self.slots[at.index()].page {
            Some(buffer) => PageMut::new(buffer.bytes_mut()).into_value_of_len(slot, len),
            None => None,
        }
    }

    /// Makes `at` a changed page of this transaction that may be written: the same reference if it
    /// is one already, a copy otherwise.
    #[inline(always)]
    pub(crate) fn touch(&mut self, at: PageRef, level: u8) -> Result<PageRef> {
        if at.is_changed() && self.slots[at.index()].epoch == self.log.epoch {
            return Ok(at);
        }
        self.touch_slow(at, level)
    }

    #[cold]
    fn touch_slow(&mut self, at: PageRef, level: u8) -> Result<PageRef> {
        if at.is_changed() {
            if self.log.savepoints == 0 {
                self.slots[at.index()].epoch = self.log.epoch;
                return Ok(at);
            }
            let copy = Buffer::copy_of(self.buffer(at).bytes())?;
            let epoch = self.slots[at.index()].epoch;
            self.log.steps.push(Undo::Image { slot: at.index() as u32, page: copy, epoch });
            self.slots[at.index()].epoch = self.log.epoch;
            return Ok(at);
        }
        let page = self.base.page(at, level)?;
        let birth = page.birth();
        let bytes = page.bytes();
        let spare = self.base.file.spare().pop();
        let copy = match spare {
            Some(mut spare) => {
                let pieces = spare.bytes_mut().chunks_mut(1024).zip(bytes.chunks(1024));
                pieces.for_each(|(to, from)| to.copy_from_slice(from));
                spare
            }
            None => Buffer::copy_of(bytes)?,
        };
        self.free_run(Run { start: at.0, len: 1 }, birth);
        Ok(self.place(copy))
    }

    /// A buffer for a page that will be built whole. What is in it is of no meaning.
    pub(crate) fn new_buffer(&self) -> Result<Buffer> {
        let spare = self.base.file.spare().pop();
        match spare {
            Some(spare) => Ok(spare),
            None => Buffer::new(self.page_size()),
        }
    }

    /// Puts a newly built page in the place of `at`; the caller tells the parent.
    pub(crate) fn replace(&mut self, at: PageRef, level: u8, page: Buffer) -> Result<PageRef> {
        if !at.is_changed() {
            let birth = self.base.page(at, level)?.birth();
            self.free_run(Run { start: at.0, len: 1 }, birth);
            return Ok(self.place(page));
        }
        let (epoch, saved) = (self.log.epoch, self.log.savepoints > 0);
        let slot = &mut self.slots[at.index()];
        let old_epoch = std::mem::replace(&mut slot.epoch, epoch);
        if let Some(old) = slot.page.replace(page) {
            if saved && old_epoch != epoch {
                let slot = at.index() as u32;
                self.log.steps.push(Undo::Image { slot, page: old, epoch: old_epoch });
            } else {
                self.keep_spare(old);
            }
        }
        Ok(at)
    }

    /// Takes a newly built page in.
    pub(crate) fn place(&mut self, page: Buffer) -> PageRef {
        let epoch = self.log.epoch;
        let slot = match self.unused.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Slot { page: Some(page), epoch };
                slot
            }
            None => {
                self.slots.push(Slot { page: Some(page), epoch });
                (self.slots.len() - 1) as u32
            }
        };
        self.changed += 1;
        if self.log.savepoints > 0 {
            self.log.steps.push(Undo::Made { slot });
        }
        PageRef::slot(slot as usize)
    }

    /// Bounds what is let go of, in a damaged tree whose pages are the children of several others.
    pub(crate) fn check_freed(&self) -> Result<()> {
        if self.freed.len() as u64 <= self.pages_max() {
            return Ok(());
        }
        Err(self.corrupt(PageRef::NONE, "more pages are let go of than it has"))
    }

    /// Lets a page of the file go without reading it: its birth is then not known, and from the
    /// beginning is a safe answer.
    pub(crate) fn release_unread(&mut self, at: PageRef) -> Result<()> {
        self.check_freed()?;
        self.free_run(Run { start: at.0, len: 1 }, 0);
        Ok(())
    }

    /// Lets a page go that nothing refers to any more.
    pub(crate) fn release(&mut self, at: PageRef, level: u8) -> Result<()> {
        self.check_freed()?;
        if !at.is_changed() {
            let birth = self.base.page(at, level)?.birth();
            self.free_run(Run { start: at.0, len: 1 }, birth);
            return Ok(());
        }
        if let Some(page) = self.vacate(at) {
            let epoch = self.slots[at.index()].epoch;
            if self.log.savepoints > 0 {
                self.log.steps.push(Undo::Image { slot: at.index() as u32, page, epoch });
            } else {
                self.keep_spare(page);
            }
        }
        Ok(())
    }

    fn vacate(&mut self, at: PageRef) -> Option<Buffer> {
        let page = self.slots[at.index()].page.take()?;
        self.unused.push(at.index() as u32);
        self.changed -= 1;
        Some(page)
    }

    /// The bytes of an extent that this transaction made and that is not in the file yet.
    pub(crate) fn new_extent(&self, reference: &ExtentRef) -> Result<Option<&[u8]>> {
        let Some(bytes) = self.extents.get(&reference.first) else { return Ok(None) };
        let run = super::extent::run_of(reference, self.page_size());
        // A damaged page may refer to pages that were free.
        if bytes.len() == run.len as usize * self.page_size() {
            return Ok(Some(bytes));
        }
        Err(self.base.file.corrupt(reference.first, "a long value in pages that were free"))
    }

    /// Frees pages of the file.
    pub(crate) fn free_run(&mut self, run: Run, birth: u64) {
        if birth == self.txn && self.log.savepoints == 0 {
            // Nobody else has ever seen them: they can be written again at once.
            if let Some(bytes) = self.extents.remove(&run.start) {
                self.extent_bytes -= bytes.len();
            }
            self.space.pool.push(run);
        } else {
            self.freed.push(Freed { run, birth });
        }
    }

    /// Takes `pages` neighbouring pages from the pool or the end of the store.
    pub(crate) fn take_run(&mut self, pages: u32) -> Result<Run> {
        if let Some(at) = self.space.pool.iter().position(|run| run.len >= pages) {
            let run = Run { start: self.space.pool[at].start, len: pages };
            if self.space.pool[at].len == pages {
                self.space.pool.swap_remove(at);
            } else {
                self.space.pool[at].start += pages;
                self.space.pool[at].len -= pages;
            }
            return Ok(run);
        }
        let end = self.base.end.checked_add(pages).filter(|end| *end <= self.space.max_pages);
        let Some(end) = end else { return Err(self.store_full()) };
        let run = Run { start: self.base.end, len: pages };
        self.base.end = end;
        Ok(run)
    }

    /// The error of a store that may not grow.
    pub(crate) fn store_full(&self) -> Error {
        let all = u64::from(self.space.max_pages) << self.base.file.shift;
        Error::StoreFull { max_size: self.space.max_size.unwrap_or(all) }
    }

    /// Takes a run for an extent; a rollback gives it back.
    pub(crate) fn take_extent(&mut self, pages: u32) -> Result<Run> {
        let run = self.take_run(pages)?;
        self.base.forget(run);
        if self.log.savepoints > 0 {
            self.log.steps.push(Undo::Taken { run });
        }
        Ok(run)
    }

    /// The current epoch of the undo log: it changes with every savepoint and rollback.
    pub(crate) fn epoch(&self) -> u32 {
        self.log.epoch
    }

    /// Whether a savepoint is open.
    pub(crate) fn has_savepoints(&self) -> bool {
        self.log.savepoints > 0
    }

    /// Begins a savepoint. O(1).
    pub(crate) fn mark(&mut self) -> UndoMark {
        let mark = UndoMark { undo: self.log.steps.len(), freed: self.freed.len() };
        self.log.savepoints += 1;
        self.log.epoch += 1;
        mark
    }

    /// Forgets one savepoint. When it was the outermost, the undo log is dropped.
    pub(crate) fn release_mark(&mut self, savepoints: u32) {
        self.log.savepoints = savepoints;
        if savepoints == 0 {
            self.log.steps.clear();
        }
    }

    /// Undoes every change since `mark`, newest first. The mark stays.
    pub(crate) fn roll_back(&mut self, mark: &UndoMark) -> Result<()> {
        while self.log.steps.len() > mark.undo {
            match self.log.steps.pop() {
                Some(Undo::Image { slot, page, epoch }) => self.restore(slot, page, epoch),
                Some(Undo::Made { slot }) => {
                    self.vacate(PageRef::slot(slot as usize));
                }
                Some(Undo::Spilled { slot, no, epoch }) => {
                    let mut page = Buffer::new(self.page_size())?;
                    self.base.file.read_run(Run { start: no, len: 1 }, page.bytes_mut())?;
                    self.restore(slot, page, epoch);
                    self.space.pool.push(Run { start: no, len: 1 });
                }
                Some(Undo::Taken { run }) => {
                    if let Some(bytes) = self.extents.remove(&run.start) {
                        self.extent_bytes -= bytes.len();
                    }
                    self.space.pool.push(run);
                }
                None => break,
            }
        }
        self.freed.truncate(mark.freed);
        self.log.epoch += 1;
        Ok(())
    }

    fn restore(&mut self, slot: u32, page: Buffer, epoch: u32) {
        let at = &mut self.slots[slot as usize];
        if at.page.is_none() {
            self.changed += 1;
            if let Some(i) = self.unused.iter().rposition(|unused| *unused == slot) {
                self.unused.swap_remove(i);
            }
        }
        *at = Slot { page: Some(page), epoch };
    }

    /// Writes a changed page's fate at the commit or a spill: hands its buffer out for writing as
    /// page `no` and leaves the slot unused. The caller puts `no` in the parent.
    pub(crate) fn number(&mut self, at: PageRef, no: PageNo, spilled: bool) -> Option<Buffer> {
        let epoch = self.slots[at.index()].epoch;
        let page = self.vacate(at)?;
        if spilled && self.log.savepoints > 0 {
            self.log.steps.push(Undo::Spilled { slot: at.index() as u32, no, epoch });
        }
        Some(page)
    }

    /// Keeps a buffer for the next changed page.
    pub(crate) fn keep_spare(&mut self, buffer: Buffer) {
        let mut spare = self.base.file.spare();
        if spare.len() < SPARE_BYTES >> self.base.file.shift {
            spare.push(buffer);
        }
    }
}

impl Pages for WritePages {
    #[inline(always)]
    fn page(&self, at: PageRef, level: u8) -> Result<Page<'_>> {
        if at.is_changed() { Ok(self.changed(at)) } else { self.base.page(at, level) }
    }

    fn extent(&self, reference: &ExtentRef) -> Result<&[u8]> {
        match self.new_extent(reference)? {
            Some(bytes) => Ok(&bytes[..reference.len as usize]),
            None => self.base.extent(reference),
        }
    }

    fn extent_part(&self, reference: &ExtentRef, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.new_extent(reference)? {
            Some(bytes) => {
                let from = offset as usize;
                out.copy_from_slice(&bytes[from..from + out.len()]);
                Ok(())
            }
            None => self.base.extent_part(reference, offset, out),
        }
    }

    #[inline(always)]
    fn page_size(&self) -> usize {
        self.base.page_size()
    }

    #[inline]
    fn interrupted(&self) -> Result<()> {
        self.base.interrupted()
    }

    #[inline]
    fn pages_max(&self) -> u64 {
        u64::from(self.base.end) + self.changed as u64
    }

    #[cold]
    fn corrupt(&self, at: PageRef, reason: &'static str) -> Error {
        // Of a changed page only the file is known.
        let page = if at.is_changed() { u64::MAX } else { u64::from(at.0) };
        Error::Corrupt { path: self.base.file.path.clone(), page, reason }
    }

    #[inline(always)]
    fn prefetch(&self, at: PageRef) {
        if !at.is_changed() {
            self.base.prefetch(at);
        }
    }
}
