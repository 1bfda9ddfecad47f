//! The pages of a write transaction: those of its snapshot, changed copies of some in slots, and
//! the undo log that takes changes back to a savepoint.
//!
//! A changed page has no page number before the commit: while the transaction runs, its parent
//! refers to it by a *slot* (a [`PageRef`] with the top bit set). The commit then numbers all
//! changed pages at once, side by side and in key order.
#![expect(unsafe_code, reason = "changed pages are read without checks")]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::super::page::{Page, PageMut};
use super::frames::Buffer;
use super::{ExtentRef, FIRST_PAGE, Freed, PageFile, PageNo, PageRef, Pages, ReadPages, Run};
use crate::{Error, Result};

/// The most changed pages of a transaction whose memory is kept for the next one.
const LIGHT_SLOTS: usize = 1024;
/// The most frames of written pages that are kept for the next transaction.
const SPARE_FRAMES: usize = 16;

impl PageFile {
    /// A buffer of one page. What is in it is of no meaning.
    pub(crate) fn new_buffer(&self) -> Result<Buffer> {
        self.frames.take()
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
    joined: u64,
}

/// What takes changes back to a savepoint.
#[derive(Default)]
struct UndoLog {
    steps: Vec<Undo>,
    epoch: u32,
    savepoints: u32,
    /// How many pages were joined to a freed run as they were let go of.
    joined: u64,
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
    /// Frames that small transactions take and give back without asking for them.
    spare: Vec<Buffer>,
}

impl WritePages {
    /// Those of no transaction; see [`Self::begin`].
    pub(crate) fn new(file: Arc<PageFile>) -> Self {
        let (max_pages, max_size) = (0, None);
        Self {
            base: ReadPages::new(file, FIRST_PAGE),
            txn: 0,
            slots: Vec::new(),
            unused: Vec::new(),
            changed: 0,
            log: UndoLog::default(),
            freed: Vec::new(),
            space: Space { pool: Vec::new(), lowest_first: None, max_pages, max_size },
            extents: HashMap::new(),
            extent_bytes: 0,
            scratch: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Begins transaction `txn` on a snapshot that ends before page `end`.
    pub(crate) fn begin(&mut self, end: PageNo, txn: u64, max_pages: u32, max_size: Option<u64>) {
        self.base.renew(end);
        self.txn = txn;
        (self.space.max_pages, self.space.max_size) = (max_pages, max_size);
    }

    /// After a commit: forgets the transaction, and keeps its memory for another one to begin with;
    /// false if that is much.
    pub(crate) fn rest(&mut self) -> bool {
        let is_little = self.slots.len() <= LIGHT_SLOTS;
        self.base.renew(FIRST_PAGE);
        self.slots.clear();
        self.unused.clear();
        self.changed = 0;
        self.log.steps.clear();
        (self.log.epoch, self.log.savepoints) = (0, 0);
        self.freed.clear();
        self.log.joined = 0;
        self.space.pool.clear();
        self.space.lowest_first = None;
        self.extents.clear();
        self.extent_bytes = 0;
        is_little
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

    #[inline(always)]
    fn fetch_changed(&self, at: PageRef, bytes: Range<usize>) {
        super::prefetch_range(self.buffer(at).bytes().as_ptr(), bytes);
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

    /// The value of `len` bytes that was just put into a leaf's slot, for writing.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not there: in a damaged tree a key may be looked for elsewhere
    /// than it was put.
    pub(crate) fn value_to_fill(
        &mut self,
        at: PageRef,
        slot: usize,
        len: usize,
    ) -> Result<&mut [u8]> {
        let lost = "a key that was put is not found where it is looked for";
        if !at.is_changed() {
            return Err(self.corrupt(at, lost));
        }
        let value = match &mut self.slots[at.index()].page {
            Some(buffer) => PageMut::new(buffer.bytes_mut()).into_value_of_len(slot, len),
            None => None,
        };
        let path = &self.base.file.path;
        value.ok_or_else(|| Error::Corrupt { path: path.clone(), page: u64::MAX, reason: lost })
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
            let mut copy = self.take_frame()?;
            copy.copy_from(self.buffer(at).bytes());
            let epoch = self.slots[at.index()].epoch;
            self.log.steps.push(Undo::Image { slot: at.index() as u32, page: copy, epoch });
            self.slots[at.index()].epoch = self.log.epoch;
            return Ok(at);
        }
        let mut copy = self.take_frame()?;
        let page = self.base.page(at, level)?;
        let birth = page.birth();
        copy.copy_from(page.bytes());
        self.free_run(Run { start: at.0, len: 1 }, birth);
        Ok(self.place(copy))
    }

    /// A frame; one of those that were given back if there is one. What is in it is of no meaning.
    pub(crate) fn take_frame(&mut self) -> Result<Buffer> {
        match self.spare.pop() {
            Some(frame) => Ok(frame),
            None => self.new_buffer(),
        }
    }

    /// Keeps some frames for the next transaction.
    pub(crate) fn give_frames(&mut self, frames: impl Iterator<Item = Buffer>) {
        let room = SPARE_FRAMES.saturating_sub(self.spare.len());
        self.spare.extend(frames.take(room));
    }

    /// A buffer for a page that will be built whole. What is in it is of no meaning.
    pub(crate) fn new_buffer(&self) -> Result<Buffer> {
        self.base.file.new_buffer()
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
        if let Some(old) = slot.page.replace(page)
            && saved
            && old_epoch != epoch
        {
            let slot = at.index() as u32;
            self.log.steps.push(Undo::Image { slot, page: old, epoch: old_epoch });
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
        if self.freed.len() as u64 + self.log.joined <= self.pages_max() {
            return Ok(());
        }
        Err(self.corrupt(PageRef::NONE, "more pages are let go of than it has"))
    }

    /// Lets pages of the file go without reading them: their birth is then not known, and from the
    /// beginning is a safe answer.
    pub(crate) fn release_unread(&mut self, pages: impl Iterator<Item = PageRef>) -> Result<()> {
        self.check_freed()?;
        // What was there before may be what a savepoint goes back to.
        let first = self.freed.len();
        for at in pages {
            match self.freed[first..].last_mut() {
                Some(Freed { run, .. }) if run.start + run.len == at.0 => {
                    run.len += 1;
                    self.log.joined += 1;
                }
                _ => self.freed.push(Freed { run: Run { start: at.0, len: 1 }, birth: 0 }),
            }
        }
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
        let run = super::super::extent::run_of(reference, self.page_size());
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
        let (undo, freed) = (self.log.steps.len(), self.freed.len());
        let mark = UndoMark { undo, freed, joined: self.log.joined };
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
                    let mut page = self.new_buffer()?;
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
        self.log.joined = mark.joined;
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

    #[inline(always)]
    fn fetch(&self, at: PageRef, bytes: Range<usize>) {
        if at.is_changed() {
            self.fetch_changed(at, bytes);
        } else {
            self.base.fetch(at, bytes);
        }
    }

    #[inline(always)]
    fn fetch_to_change(&self, at: PageRef, bytes: usize) {
        if at.is_changed() {
            self.fetch_changed(at, 0..bytes);
        } else {
            self.base.fetch_to_change(at, bytes);
        }
    }

    fn read_ahead(&self, pages: &mut dyn Iterator<Item = PageRef>) {
        self.base.read_ahead(pages);
    }
}
