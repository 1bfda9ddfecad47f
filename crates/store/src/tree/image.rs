//! Changed pages on their way to the file: giving them numbers, side by side and in key order, and
//! writing them in few large pieces. Shared by the commit and by early writing (`spill`).

use std::cmp::Reverse;
use std::io::IoSlice;

use super::free::{SMALL_PAGES, runs_for_commit};
use super::page::{PageMut, seal};
use super::page_ref::{PageNo, PageRef, Run};
use super::pages::{Buffer, PageFile, WritePages};
use super::tree::Tree;
use crate::Result;
use crate::checksum::Crc64;

/// How much one call of the system writes.
const PIECE_BYTES: usize = 512 << 10;
/// Pieces whose parts are this long on average are long values: no page of them is written by
/// itself while they live, so that the system's cache may keep them in long units.
const LONG_PART_BYTES: usize = 16 << 10;
/// Room for this many pages of a piece is taken at once.
const SLICES: usize = 128;
/// From this size on the system is asked to begin writing each piece at once, ...
const LARGE_BYTES: usize = 4 << 20;
/// ... if the piece is not short: scattered pages are better left to the flush, which sorts them.
const LARGE_PIECE_BYTES: usize = 64 << 10;
/// Where a flush comes next and at most this many pages are written, the disk works on each piece
/// while the others are still to come.
const BEGUN_PAGES: usize = 16;

/// Page numbers for changed pages: runs, of which the last one is used first.
pub(crate) struct Numbers {
    runs: Vec<Run>,
}

impl Numbers {
    /// Takes at least `need` numbers out of the pool, in as few runs as possible.
    pub(crate) fn take(pages: &mut WritePages, need: usize) -> Self {
        let mut runs = take_runs(pages, need);
        if need as u32 <= SMALL_PAGES {
            // A leaf may stand alone: what is above it is written by the next commit too, and so
            // keeps its places side by side.
            runs.sort_unstable_by_key(|run| Reverse((run.len, run.start)));
        } else {
            runs.sort_unstable_by_key(|run| Reverse(run.start));
        }
        Self { runs }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len as usize).sum()
    }

    fn next(&mut self) -> PageNo {
        let Some(run) = self.runs.last_mut() else {
            unreachable!("a commit brought fewer pages to the pool than it changed");
        };
        let no = run.start;
        run.start += 1;
        run.len -= 1;
        if run.len == 0 {
            self.runs.pop();
        }
        no
    }

    /// Gives back what was not used.
    pub(crate) fn give_back(mut self, pages: &mut WritePages) {
        if pages.space.pool.is_empty() {
            pages.space.pool = self.runs;
        } else {
            pages.space.pool.append(&mut self.runs);
        }
    }
}

/// Takes runs with at least `need` pages out of the pool, as few as possible; all there are if that
/// is what is needed, as in most small commits.
fn take_runs(pages: &mut WritePages, need: usize) -> Vec<Run> {
    let pool = &mut pages.space.pool;
    if pool.iter().map(|run| run.len as usize).sum::<usize>() == need {
        return std::mem::take(pool);
    }
    let chosen = runs_for_commit(pages, need as u32);
    let runs = chosen.iter().map(|i| pages.space.pool[*i]).collect();
    for i in chosen.iter().rev() {
        pages.space.pool.swap_remove(*i);
    }
    runs
}

/// Pages that have their numbers and checksums and wait for being written.
#[derive(Default)]
pub(crate) struct Image {
    pages: Vec<Numbered>,
}

/// A page with its number.
struct Numbered {
    no: PageNo,
    /// The page of the snapshot that it was a copy of; 0 if it was none.
    source: PageNo,
    page: Buffer,
}

impl Image {
    /// Makes room for this many pages.
    pub(crate) fn reserve(&mut self, pages: usize) {
        self.pages.reserve(pages);
    }

    /// Numbers all changed pages of a tree: its leaves from left to right, each branch after what
    /// is below it.
    pub(crate) fn add_tree(
        &mut self,
        pages: &mut WritePages,
        tree: &mut Tree,
        numbers: &mut Numbers,
    ) {
        if is_changed(tree.root.page) {
            tree.root.page = self.add_below(pages, tree.root.page, numbers, 1);
        }
    }

    /// Numbers page `at` and what is changed below it; `above` pages from the root down to it have
    /// no number yet.
    fn add_below(
        &mut self,
        pages: &mut WritePages,
        at: PageRef,
        numbers: &mut Numbers,
        above: usize,
    ) -> PageRef {
        let mut next = 0;
        // Where those are all that is left, no other child has changed.
        while pages.changed_pages() > above
            && let Some((i, child)) = pages.changed(at).changed_child(next)
        {
            let numbered = self.add_below(pages, child, numbers, above + 1);
            pages.change(at).set_child(i, numbered);
            next = i + 1;
        }
        let no = numbers.next();
        self.add_page(pages, at, no, false);
        PageRef(no)
    }

    /// Finishes one changed page as page `no`; nothing below it is changed any more.
    pub(crate) fn add_page(
        &mut self,
        pages: &mut WritePages,
        at: PageRef,
        no: PageNo,
        spilled: bool,
    ) {
        let txn = pages.txn;
        pages.base.forget(Run { start: no, len: 1 });
        if let Some((source, mut page)) = pages.number(at, no, spilled) {
            let mut changed = PageMut::new(page.bytes_mut());
            changed.tidy();
            changed.set_birth(txn);
            seal(page.bytes_mut(), no);
            self.pages.push(Numbered { no, source, page });
        }
    }

    /// Its pages are in the file.
    pub(crate) fn note_written(&self, file: &PageFile) {
        file.note_written(self.pages.iter().map(|page| page.no));
    }

    /// Takes the memory of its pages out of it.
    pub(crate) fn take_frames(&mut self) -> impl Iterator<Item = Buffer> {
        self.pages.drain(..).map(|page| page.page)
    }

    /// Each page: its number, that of the page of the snapshot that it was a copy of (0 if it was
    /// none), and its bytes.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (PageNo, PageNo, &[u8])> {
        self.pages.iter().map(|page| (page.no, page.source, page.page.bytes()))
    }

    /// How many bytes wait.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.first().map_or(0, |first| first.page.bytes().len()) * self.pages.len()
    }
}

fn is_changed(at: PageRef) -> bool {
    at.is_changed() && !at.is_none()
}

/// When pages that are written are flushed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// Long after all are written, or never.
    Later,
    /// As soon as all are written.
    Next,
}

/// The pages of an image together with new extents, in the order of the file.
pub(crate) struct Pieces<'p> {
    /// First page and bytes.
    pieces: Vec<(PageNo, &'p [u8])>,
    /// The page size as a power of two.
    shift: u32,
}

impl<'p> Pieces<'p> {
    pub(crate) fn new(image: &'p Image, pages: &'p WritePages) -> Self {
        let mut pieces: Vec<(PageNo, &[u8])> =
            image.pages().map(|(no, _, page)| (no, page)).collect();
        pieces.extend(pages.extents.iter());
        pieces.sort_unstable_by_key(|(no, _)| *no);
        Self { pieces, shift: pages.base.file.page_size().trailing_zeros() }
    }

    /// How many pages these bytes fill.
    fn pages_of(&self, bytes: usize) -> u32 {
        (bytes >> self.shift) as u32
    }

    /// The page after the last one.
    pub(crate) fn end(&self) -> PageNo {
        let last = self.pieces.last();
        last.map_or(0, |(no, bytes)| no + self.pages_of(bytes.len()))
    }

    /// How many pages they are.
    pub(crate) fn len(&self) -> usize {
        self.bytes() >> self.shift
    }

    pub(crate) fn bytes(&self) -> usize {
        self.pieces.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// The pages as runs, ascending.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (start, bytes) in &self.pieces {
            let len = self.pages_of(bytes.len());
            match runs.last_mut() {
                Some(last) if last.start + last.len == *start => last.len += len,
                _ => runs.push(Run { start: *start, len }),
            }
        }
        runs
    }

    /// CRC-64 of all bytes, in the order of [`Self::runs`].
    pub(crate) fn digest(&self) -> u64 {
        let mut digest = Crc64::new();
        for (_, bytes) in &self.pieces {
            digest.update(bytes);
        }
        digest.finish()
    }

    /// Writes them.
    pub(crate) fn write(&self, file: &PageFile, flush: Flush) -> Result<()> {
        let begun_from = match self.bytes() {
            LARGE_BYTES.. => LARGE_PIECE_BYTES,
            _ if flush == Flush::Next && self.len() <= BEGUN_PAGES => 0,
            _ => usize::MAX,
        };
        self.write_pieces(file, begun_from)
    }

    /// Writes them long before they are flushed; the disk may be told to begin.
    pub(crate) fn write_early(&self, file: &PageFile, begins: bool) -> Result<()> {
        self.write_pieces(file, if begins { LARGE_PIECE_BYTES } else { usize::MAX })
    }

    /// Writes them; the disk is told to begin with pieces of `begun_from` bytes and more at once.
    fn write_pieces(&self, file: &PageFile, begun_from: usize) -> Result<()> {
        let mut rest = &self.pieces[..];
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(rest.len().min(SLICES));
        while let Some((start, _)) = rest.first() {
            let (count, bytes) = self.piece(rest);
            let (now, later) = rest.split_at(count);
            slices.clear();
            slices.extend(now.iter().map(|(_, bytes)| IoSlice::new(bytes)));
            let offset = u64::from(*start) << self.shift;
            let written = if bytes >= count * LONG_PART_BYTES {
                file.file.append_at(&slices, offset)
            } else {
                file.file.write_at(&slices, offset)
            };
            written.map_err(|e| file.not_written("write pages to", *start, e))?;
            if bytes >= begun_from {
                file.file.start_writeback(offset, bytes as u64);
            }
            rest = later;
        }
        Ok(())
    }

    /// How many of `rest` go into one call: neighbours, up to the size of a piece. At least one.
    fn piece(&self, rest: &[(PageNo, &[u8])]) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        let mut next = rest[0].0;
        for (start, part) in rest {
            if *start != next || (count > 0 && bytes + part.len() > PIECE_BYTES) {
                break;
            }
            next = start + self.pages_of(part.len());
            bytes += part.len();
            count += 1;
        }
        (count, bytes)
    }
}
