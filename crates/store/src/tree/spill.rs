//! Early writing: a write transaction that outgrows its budget of memory, or that appends much,
//! writes changed pages to the file before its commit. They get their final numbers; if they are
//! changed again, they are copied like any other page. No reader knows them before the commit, and
//! nothing is flushed, but the system is asked to begin writing where a flush is expected.

use super::catalog::OpenTable;
use super::free::FreeState;
use super::image::{Image, Pieces};
use super::meta::ONE_FLUSH_PAGES;
use super::page_ref::{PageNo, PageRef};
use super::pages::{Pages, WritePages};
use super::state::WriteState;
use crate::Result;
use crate::observe::{Done, Work, tell};

/// This many bytes of pages are gathered before they are written.
const GATHERED_BYTES: usize = 512 << 10;

/// After this many bytes of filled leaves, or a quarter of the memory budget if that is less, an
/// append writes them.
const BEHIND_BYTES: usize = 1 << 20;

/// Writes new extents and changed pages, until at most `target` bytes of them are in memory or
/// only pages with changed children are left. Roots stay.
///
/// # Errors
/// The errors of the file; the transaction can only be dropped then.
pub(crate) fn spill(state: &mut WriteState, target: usize) -> Result<()> {
    let excess = state.pages.changed_bytes().saturating_sub(target) / state.pages.page_size();
    let pages = &mut state.pages;
    let mut spill = Spill::begin(pages, &mut state.free, excess, target)?;
    let trees = state.tables.iter_mut().map(|table| &table.tree);
    for tree in trees.chain([&state.catalog]) {
        if spill.is_done(pages) {
            break;
        }
        let root = tree.root.page;
        if root.is_changed() && !root.is_none() {
            spill.below(pages, root, tree.root.level)?;
        }
    }
    spill.write(pages)
}

/// Writes the new extents, if they are many and do not wait for the commit.
pub(crate) fn gathered(pages: &mut WritePages) -> Result<()> {
    if pages.extents.bytes() < GATHERED_BYTES || pages.long_values_wait() {
        return Ok(());
    }
    pages.early.written = true;
    write(&Image::default(), pages)
}

/// Writes pages that have numbers, and new extents. Where a flush is expected to follow, the disk
/// is told to begin, which takes a tenth of the time of an append.
fn write(image: &Image, pages: &mut WritePages) -> Result<()> {
    let pieces = Pieces::new(image, pages);
    pieces.write_early(&pages.base.file, !pages.early.unsynced)?;
    if pieces.len() > 0 {
        tell(&pages.base.file.path, || {
            let count = pieces.len() as u64;
            let bytes = Some(count * pages.page_size() as u64);
            Done { pages: Some(count), bytes, ..Work::TREE_SPILL.done() }
        });
    }
    pages.extents.clear();
    Ok(())
}

/// How many bytes of pages a transaction changes before [`behind`] is worth another look.
pub(crate) fn behind_bytes(budget: usize) -> usize {
    BEHIND_BYTES.min(budget / 4)
}

/// Writes the pages that appends to tables have filled, if they are many and the commit will be too
/// large for one flush anyway: all changed pages except the path to the last entry. Its memory is
/// used again while it is in the processor's cache, and the disk works while the next entries come.
///
/// # Errors
/// As those of [`spill`].
pub(crate) fn behind(state: &mut WriteState, budget: usize) -> Result<()> {
    let WriteState { pages, free, tables, .. } = state;
    if pages.changed_pages() <= ONE_FLUSH_PAGES && !pages.early.written {
        return Ok(());
    }
    for OpenTable { tree, tail, .. } in tables.iter_mut() {
        let Some(tail) = tail else { continue };
        let count = tree.root.leaf_pages.saturating_sub(tail.leaves) as usize;
        if count * pages.page_size() >= behind_bytes(budget) {
            tail.leaves = tree.root.leaf_pages;
            let mut spill = Spill::begin(pages, free, count, 0)?;
            spill.behind(pages, tree.root.page, tree.root.level)?;
            spill.write(pages)?;
        }
    }
    Ok(())
}

struct Spill {
    image: Image,
    /// The leaves in it. They are not validated when they are changed again; what a branch refers
    /// to is, since the store may have got shorter.
    leaves: Vec<PageNo>,
    target: usize,
}

impl Spill {
    /// Finds places for about this many pages, and writes new extents.
    fn begin(
        pages: &mut WritePages,
        free: &mut FreeState,
        count: usize,
        target: usize,
    ) -> Result<Self> {
        free.release_pending(pages, (2 * count).max(256))?;
        free.refill(pages, count.min(pages.changed_pages()) as u32)?;
        pages.early.written = true;
        let mut spill = Self { image: Image::default(), leaves: Vec::new(), target };
        spill.write(pages)?;
        Ok(spill)
    }

    fn is_done(&self, pages: &WritePages) -> bool {
        pages.changed_bytes() <= self.target
    }

    /// Writes what is changed below the changed page `at`. True if nothing below it is changed
    /// then.
    fn below(&mut self, pages: &mut WritePages, at: PageRef, level: u8) -> Result<bool> {
        if level == 0 {
            return Ok(true);
        }
        self.children(pages, at, level, usize::MAX)
    }

    /// Writes all that is changed below `at` but the path to the last entry.
    fn behind(&mut self, pages: &mut WritePages, at: PageRef, level: u8) -> Result<()> {
        if level == 0 || !at.is_changed() {
            return Ok(());
        }
        let last = pages.changed(at).len() - 1;
        self.children(pages, at, level, last)?;
        let child = pages.changed(at).child(last);
        self.behind(pages, child, level - 1)
    }

    /// Writes the changed ones of the first `most` children of `at`, and what is changed below
    /// them. True if none of them is changed then.
    fn children(
        &mut self,
        pages: &mut WritePages,
        at: PageRef,
        level: u8,
        most: usize,
    ) -> Result<bool> {
        let mut all = true;
        for i in 0..pages.changed(at).len().min(most) {
            let child = pages.changed(at).child(i);
            if !child.is_changed() {
                continue;
            }
            let is_kept = self.is_done(pages) || pages.early.is_held(child);
            if is_kept || !self.below(pages, child, level - 1)? {
                all = false;
                continue;
            }
            // The reference stays the same; the undo log learns what the page was.
            pages.touch(at, level)?;
            let no = pages.take_page()?;
            self.image.add_page(pages, child, no, true);
            if level == 1 {
                self.leaves.push(no);
            }
            pages.change(at).set_child(i, PageRef(no));
            if self.image.bytes() >= GATHERED_BYTES {
                self.write(pages)?;
            }
        }
        Ok(all)
    }

    /// Writes what was gathered, and new extents.
    fn write(&mut self, pages: &mut WritePages) -> Result<()> {
        let image = std::mem::take(&mut self.image);
        write(&image, pages)?;
        pages.base.file.note_written(self.leaves.drain(..));
        Ok(())
    }
}
