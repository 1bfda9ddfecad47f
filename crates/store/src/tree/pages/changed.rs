//! The pages of a write transaction: those of its snapshot, changed copies of some in slots, and
//! the undo log that takes changes back to a savepoint.
//!
//! A changed page has no page number before the commit: while the transaction runs, its parent
//! refers to it by a *slot* (a [`PageRef`] with the top bit set). The commit then numbers all
//! changed pages at once, side by side and in key order.
#![expect(unsafe_code, reason = "changed pages are read without checks")]

use std::ops::Range;
use std::sync::Arc;

use super::super::free::Runs;
use super::super::page::{Page, PageMut};
use super::frames::Buffer;
use super::{NewExtents, PageFile, Pages, ReadPages};
use crate::prefetch::prefetch_range;
use crate::tree::meta::ONE_FLUSH_PAGES;
use crate::tree::page::search::Extents;
use crate::tree::page_ref::{ExtentRef, FIRST_PAGE, Freed, PAGE_BYTES_MIN, PageNo, PageRef, Run};
use crate::{Error, Place, Result};

mod space;
mod undo;

pub(crate) use space::LAST_PAGES;
use space::Space;
pub(crate) use undo::UndoMark;
use undo::{Undo, UndoLog};

/// The most changed pages of a transaction whose memory is kept for the next one.
const LIGHT_SLOTS: usize = 1024;
/// The most frames of written pages that are kept for the next transaction.
const SPARE_FRAMES: usize = 16;

impl PageFile {
    /// A buffer of one page. Its content is undefined.
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
    /// The page of the snapshot that it was copied from or takes the place of; 0 if there is none.
    source: PageNo,
}

/// What a write transaction writes before its commit.
#[derive(Default)]
pub(crate) struct Early {
    /// Whether it has written something.
    pub(crate) written: bool,
    /// Whether the commit is expected not to be durable. Then long values are written as they are
    /// put, straight from the caller's memory.
    pub(crate) unsynced: bool,
    /// Changed pages that are not written early, by the seats of the cursors that hold them.
    held: Vec<PageRef>,
}

impl Early {
    /// Has a changed page stay in memory, in place of the one that the seat held before.
    #[inline(always)]
    pub(crate) fn hold(&mut self, seat: usize, at: PageRef) {
        match self.held.get_mut(seat) {
            Some(held) => *held = at,
            None => self.seat(seat, at),
        }
    }

    #[cold]
    fn seat(&mut self, seat: usize, at: PageRef) {
        self.held.resize(seat, PageRef::NONE);
        self.held.push(at);
    }

    /// Whether a changed page has to stay in memory.
    pub(crate) fn is_held(&self, at: PageRef) -> bool {
        self.held.contains(&at)
    }
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
    pub(crate) extents: NewExtents,
    pub(crate) early: Early,
    /// Memory for building records aside.
    pub(crate) scratch: Vec<u8>,
    /// Frames that small transactions take and give back without asking for them.
    spare: Vec<Buffer>,
}

impl WritePages {
    /// The pages of no transaction; see [`Self::begin`].
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
            space: Space {
                pool: Vec::new(),
                open: Runs::default(),
                lowest_first: None,
                max_pages,
                last_pages: LAST_PAGES,
                adds: false,
                max_size,
                has_snapshots: false,
            },
            extents: NewExtents::default(),
            early: Early::default(),
            scratch: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Begins transaction `txn` on a snapshot that ends before page `end`.
    pub(crate) fn begin(&mut self, end: PageNo, txn: u64, max_pages: u32, max_size: Option<u64>) {
        self.base.renew(end);
        self.early = Early::default();
        self.txn = txn;
        (self.space.max_pages, self.space.max_size) = (max_pages, max_size);
        (self.space.last_pages, self.space.adds) = (LAST_PAGES, false);
    }

    /// After a commit: forgets the transaction, and keeps its memory for another one to begin with;
    /// false if that is much.
    pub(crate) fn rest(&mut self) -> bool {
        // What savepoints have kept for going back may have been more than what was changed.
        let is_little = self.slots.len() <= LIGHT_SLOTS && !self.base.file.frames.are_many();
        self.base.renew(FIRST_PAGE);
        self.slots.clear();
        self.unused.clear();
        self.changed = 0;
        self.log.steps.clear();
        self.log.savepoints.clear();
        self.log.own.clear();
        self.log.made.clear();
        (self.log.epoch, self.log.joined) = (0, 0);
        self.freed.clear();
        self.space.pool.clear();
        self.space.open = Runs::default();
        self.space.lowest_first = None;
        self.extents.clear();
        is_little
    }

    /// Whether long values stay in memory until the commit: that may be one which is the faster for
    /// it, by one flush or by a record in the log.
    pub(crate) fn long_values_wait(&self) -> bool {
        let early = self.early.unsynced || self.early.written;
        !early && self.extents.bytes() < ONE_FLUSH_PAGES * self.page_size()
    }

    /// How many changed pages are in memory.
    pub(crate) fn changed_pages(&self) -> usize {
        self.changed
    }

    /// Bytes of memory that changed pages and new extents take.
    pub(crate) fn changed_bytes(&self) -> usize {
        self.changed * self.page_size() + self.extents.bytes()
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
        prefetch_range(self.buffer(at).bytes().as_ptr(), bytes);
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
        value.ok_or_else(|| Error::Corrupt { path: path.clone(), place: Place::File, reason: lost })
    }

    /// Makes `at` a changed page of this transaction that may be written: the same reference if it
    /// is one already, a copy otherwise.
    #[inline(always)]
    pub(crate) fn touch(&mut self, at: PageRef, level: u8) -> Result<PageRef> {
        if self.is_touched(at) { Ok(at) } else { self.touch_slow(at, level) }
    }

    /// Whether a page is a changed one that may be written as it is.
    #[inline(always)]
    pub(crate) fn is_touched(&self, at: PageRef) -> bool {
        at.is_changed() && self.slots[at.index()].epoch == self.log.epoch
    }

    #[cold]
    fn touch_slow(&mut self, at: PageRef, level: u8) -> Result<PageRef> {
        if at.is_changed() {
            if self.log.savepoints.is_empty() {
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
        self.free_run(Run { start: at.0, len: 1 }, birth)?;
        Ok(self.place_for(copy, at.0))
    }

    /// A frame; one of those that were given back if there is one. Its content is undefined.
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

    /// A buffer for a page that will be built completely. Its content is undefined.
    pub(crate) fn new_buffer(&self) -> Result<Buffer> {
        self.base.file.new_buffer()
    }

    /// Puts a newly built page in the place of `at`; the caller tells the parent.
    pub(crate) fn replace(&mut self, at: PageRef, level: u8, page: Buffer) -> Result<PageRef> {
        if !at.is_changed() {
            let birth = self.base.page(at, level)?.birth();
            self.free_run(Run { start: at.0, len: 1 }, birth)?;
            return Ok(self.place_for(page, at.0));
        }
        let (epoch, saved) = (self.log.epoch, self.has_savepoints());
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
        self.place_for(page, 0)
    }

    /// Takes a page in for one of the snapshot.
    fn place_for(&mut self, page: Buffer, source: PageNo) -> PageRef {
        let new = Slot { page: Some(page), epoch: self.log.epoch, source };
        let slot = match self.unused.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                self.slots.push(new);
                (self.slots.len() - 1) as u32
            }
        };
        self.changed += 1;
        if self.has_savepoints() {
            self.log.steps.push(Undo::Made { slot });
        }
        PageRef::slot(slot as usize)
    }

    /// An upper bound of the pages freed, for a damaged tree in which a page may be the child of
    /// several.
    pub(crate) fn check_freed(&self) -> Result<()> {
        if self.freed.len() as u64 + self.log.joined <= self.pages_max() {
            return Ok(());
        }
        Err(self.corrupt(PageRef::NONE, "more pages are let go of than it has"))
    }

    /// Lets leaves of the file go without reading them, where only the newest commit can hold them.
    /// Where older snapshots are protected each one's birth is looked at: a page that were taken to
    /// be as old as any would stay for as long as one of these does.
    pub(crate) fn release_unread(&mut self, leaves: impl Iterator<Item = PageRef>) -> Result<()> {
        self.check_freed()?;
        // The earlier content may be what a savepoint goes back to.
        let first = self.freed.len();
        for at in leaves {
            // A damaged one is as old as any.
            let birth = if self.space.has_snapshots {
                self.base.page(at, 0).map_or(0, |page| page.birth())
            } else {
                0
            };
            let run = Run { start: at.0, len: 1 };
            match self.freed[first..].last_mut() {
                Some(last) if last.run.start + last.run.len == at.0 && last.birth == birth => {
                    last.run.len += 1;
                    self.log.joined += 1;
                }
                _ if birth == self.txn => self.free_run(run, birth)?,
                _ => self.freed.push(Freed { run, birth }),
            }
        }
        Ok(())
    }

    /// Lets a page go that nothing refers to any more.
    pub(crate) fn release(&mut self, at: PageRef, level: u8) -> Result<()> {
        self.check_freed()?;
        if !at.is_changed() {
            let birth = self.base.page(at, level)?.birth();
            self.free_run(Run { start: at.0, len: 1 }, birth)?;
            return Ok(());
        }
        if let Some(page) = self.vacate(at) {
            let epoch = self.slots[at.index()].epoch;
            if self.has_savepoints() {
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
        let Some(bytes) = self.extents.get(reference.first) else { return Ok(None) };
        let run = super::super::extent::run_of(reference, self.page_size());
        // A damaged page may refer to pages that were free.
        if bytes.len() == run.len as usize * self.page_size() {
            return Ok(Some(bytes));
        }
        Err(self.base.file.corrupt(reference.first, "a long value in pages that were free"))
    }

    /// Whether no open savepoint may want an extent of this transaction as it is.
    pub(crate) fn may_change_extent(&self, first: PageNo) -> bool {
        self.log.is_recent(self.log.made.get(&first).copied())
    }

    /// Writes a changed page's fate at the commit or a spill: hands its buffer out for writing as
    /// page `no`, with the number of the page of the snapshot whose place it takes, and leaves the
    /// slot unused. The caller puts `no` in the parent.
    pub(crate) fn number(
        &mut self,
        at: PageRef,
        no: PageNo,
        spilled: bool,
    ) -> Option<(PageNo, Buffer)> {
        let Slot { epoch, source, .. } = self.slots[at.index()];
        let page = self.vacate(at)?;
        if spilled && self.has_savepoints() {
            self.log.steps.push(Undo::Spilled { slot: at.index() as u32, no, epoch });
        }
        Some((source, page))
    }
}

impl Extents for WritePages {
    fn extent(&self, reference: &ExtentRef) -> Result<&[u8]> {
        match self.new_extent(reference)? {
            Some(bytes) => Ok(&bytes[..reference.len as usize]),
            None => self.base.extent(reference),
        }
    }
}

impl Pages for WritePages {
    #[inline(always)]
    fn page(&self, at: PageRef, level: u8) -> Result<Page<'_>> {
        if at.is_changed() { Ok(self.changed(at)) } else { self.base.page(at, level) }
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

    fn extent_front(&self, reference: &ExtentRef) -> Result<&[u8]> {
        match self.new_extent(reference)? {
            Some(bytes) => Ok(&bytes[..self.page_size()]),
            None => self.base.extent_front(reference),
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

    #[inline(always)]
    fn is_own(&self, at: PageRef, page: Page<'_>) -> bool {
        at.is_changed() || page.birth() == self.txn
    }

    #[cold]
    fn corrupt(&self, at: PageRef, reason: &'static str) -> Error {
        // For a changed page only the file is known.
        let place = if at.is_changed() { Place::File } else { Place::Page(u64::from(at.0)) };
        Error::Corrupt { path: self.base.file.path.clone(), place, reason }
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
    fn fetch_next(&self, at: PageRef, back: bool) {
        if at.is_changed() {
            self.fetch_changed(at, 0..PAGE_BYTES_MIN);
        } else {
            self.base.fetch_next(at, back);
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
