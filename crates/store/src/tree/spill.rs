//! Early writing: a write transaction that outgrows its budget of memory writes changed pages to
//! the file before its commit. They get their final numbers; if they are changed again, they are
//! copied like any other page. No reader knows them before the commit, and nothing is flushed.

use super::image::{Image, Pieces};
use super::pages::{PageRef, WritePages};
use super::state::WriteState;
use crate::Result;

/// So many bytes of pages are gathered before they are written.
const GATHERED_BYTES: usize = 512 << 10;

/// Writes new extents and changed pages, until at most `target` bytes of them are in memory or
/// only pages with changed children are left. Roots stay.
///
/// # Errors
/// Those of the file; the transaction can only be dropped then.
pub(crate) fn spill(state: &mut WriteState, target: usize) -> Result<()> {
    let pages = &mut state.pages;
    let excess = pages.changed_bytes().saturating_sub(target) / pages.base.file.page_size();
    state.free.release_early(pages, (2 * excess).max(256))?;
    state.free.refill(pages, excess.min(pages.changed_pages()) as u32)?;
    state.free.written_early = true;
    let mut spill = Spill { image: Image::default(), target };
    spill.write(pages)?;
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

struct Spill {
    image: Image,
    target: usize,
}

impl Spill {
    fn is_done(&self, pages: &WritePages) -> bool {
        pages.changed_bytes() <= self.target
    }

    /// Writes what is changed below the changed page `at`. True if nothing below it is changed
    /// then.
    fn below(&mut self, pages: &mut WritePages, at: PageRef, level: u8) -> Result<bool> {
        if level == 0 {
            return Ok(true);
        }
        let mut all = true;
        for i in 0..pages.changed(at).len() {
            let child = pages.changed(at).child(i);
            if !child.is_changed() {
                continue;
            }
            if self.is_done(pages) || !self.below(pages, child, level - 1)? {
                all = false;
                continue;
            }
            // The reference stays the same; the undo log learns what the page was.
            pages.touch(at, level)?;
            let no = pages.take_run(1)?.start;
            self.image.add_page(pages, child, no, true);
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
        Pieces::new(&image, pages).write(&pages.base.file)?;
        pages.extents.clear();
        pages.extent_bytes = 0;
        Ok(())
    }
}
