//! The way from the root to a leaf.

use super::page::search::{LIKELY_BYTES, Side, branch_slot, likely_place};
use super::page::{MAX_LEVELS, Page};
use super::page_ref::PageRef;
use super::pages::Pages;
use super::tree::Tree;
use crate::Result;

/// One step: a page and the slot in it (of a branch the child, of a leaf the group).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) page: PageRef,
    pub(crate) slot: u32,
}

/// After this many neighbouring leaves the path is taken for a scan.
const SCAN_LEAVES: u64 = 3;

const MORE_LEAVES: &str = "more leaves below it than the store has pages";

/// The steps by level: `steps[0]` is the leaf, `steps[depth - 1]` the root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) steps: [Step; MAX_LEVELS],
    /// Number of levels; 0 for an empty tree.
    pub(crate) depth: usize,
    /// Leaves gone forward since the descent, less those gone back. In a sound tree they are fewer
    /// than its pages: so the way through a damaged one, where a page may be the child of several,
    /// has an end.
    pub(crate) moved: i64,
}

impl Path {
    pub(crate) const EMPTY: Self =
        Self { steps: [Step { page: PageRef::NONE, slot: 0 }; MAX_LEVELS], depth: 0, moved: 0 };

    /// Becomes the same path as another one: only its steps are copied, which are few.
    #[inline(always)]
    pub(crate) fn copy_from(&mut self, other: &Self) {
        (self.depth, self.moved) = (other.depth, other.moved);
        for (step, of) in self.steps.iter_mut().zip(&other.steps[..other.depth]) {
            *step = *of;
        }
    }

    /// Goes down from the root, `choose` naming the child of each branch. Leaves the leaf's slot
    /// at 0 and returns the leaf; `None` for an empty tree.
    #[inline(always)]
    pub(crate) fn descend<'p, P: Pages>(
        &mut self,
        pages: &'p P,
        tree: &Tree,
        choose: impl FnMut(Page<'p>) -> Result<usize>,
    ) -> Result<Option<Page<'p>>> {
        self.descend_with(pages, tree, choose, |_, _, _| {})
    }

    /// As [`Path::descend`], but calls `reach` for the last branch and the leaf before they are
    /// read, each with its parent, its slot there and its level; the pages above are in the
    /// processor's cache.
    #[inline(always)]
    fn descend_with<'p, P: Pages>(
        &mut self,
        pages: &'p P,
        tree: &Tree,
        mut choose: impl FnMut(Page<'p>) -> Result<usize>,
        reach: impl Fn(Page<'p>, usize, u8),
    ) -> Result<Option<Page<'p>>> {
        let mut at = tree.root.page;
        self.moved = 0;
        if at.is_none() {
            self.depth = 0;
            return Ok(None);
        }
        let mut level = tree.root.level;
        self.depth = usize::from(level) + 1;
        loop {
            let page = pages.page(at, level)?;
            if level == 0 {
                self.steps[0] = Step { page: at, slot: 0 };
                return Ok(Some(page));
            }
            let slot = choose(page)?;
            self.steps[usize::from(level)] = Step { page: at, slot: slot as u32 };
            at = page.child(slot);
            level -= 1;
            if level <= 1 {
                reach(page, slot, level);
            }
        }
    }

    /// As [`Path::seek`], to change what is on the way.
    #[inline(always)]
    pub(crate) fn seek_to_change<'p, P: Pages>(
        &mut self,
        pages: &'p P,
        tree: &Tree,
        key: &[u8],
        side: Side<'_>,
    ) -> Result<Option<Page<'p>>> {
        let choose = |page| branch_slot(pages, &tree.form, page, key, side);
        self.descend_with(pages, tree, choose, |branch, slot, level| {
            let child = branch.child(slot);
            if level == 0 || !child.is_changed() {
                pages.fetch_to_change(child, tree.front());
            }
        })
    }

    /// Goes down to the leaf where a pair stands or would stand.
    #[inline(always)]
    pub(crate) fn seek<'p, P: Pages>(
        &mut self,
        pages: &'p P,
        tree: &Tree,
        key: &[u8],
        side: Side<'_>,
    ) -> Result<Option<Page<'p>>> {
        let choose = |page| branch_slot(pages, &tree.form, page, key, side);
        self.descend_with(pages, tree, choose, |branch, slot, level| {
            if level == 0 {
                fetch_leaf(pages, tree, (branch, slot), key);
            }
        })
    }

    /// Whether the leaf is the last one of the tree.
    pub(crate) fn is_at_end<P: Pages>(&self, pages: &P) -> Result<bool> {
        for level in 1..self.depth {
            let step = self.steps[level];
            if step.slot as usize + 1 < pages.page(step.page, level as u8)?.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether enough neighbouring leaves were gone to that this is taken for a scan: then all that
    /// is below the last branch has been read ahead.
    #[inline(always)]
    pub(crate) fn is_scan(&self) -> bool {
        self.moved.unsigned_abs() >= SCAN_LEAVES
    }

    /// Notes that a cursor went on (or back) by some leaves below the last branch, to `leaf`.
    pub(crate) fn go_on(&mut self, leaves: isize, leaf: PageRef) {
        self.steps[0] = Step { page: leaf, slot: 0 };
        self.steps[1].slot = self.steps[1].slot.wrapping_add_signed(leaves as i32);
        self.moved += leaves as i64;
    }

    /// Goes on to the next leaf; `None` (and no change) at the end.
    #[inline(always)]
    pub(crate) fn next_leaf<'p, P: Pages>(&mut self, pages: &'p P) -> Result<Option<Page<'p>>> {
        pages.interrupted()?;
        for level in 1..self.depth {
            let page = pages.page(self.steps[level].page, level as u8)?;
            let slot = self.steps[level].slot as usize + 1;
            if slot < page.len() {
                let leaf = self.down(pages, level, page, slot, |_| 0)?;
                self.count_move(pages, 1)?;
                self.look_ahead(pages, level, true);
                if level == 1 && slot + 1 < page.len() {
                    // Of the leaf after this one, prefetch what is needed first; a long scan needs
                    // all of it.
                    match self.moved {
                        2.. => pages.fetch_next(page.child(slot + 1), false),
                        _ => pages.fetch(page.child(slot + 1), 0..leaf.front()),
                    }
                }
                return Ok(Some(leaf));
            }
        }
        Ok(None)
    }

    /// Goes back to the leaf before; `None` (and no change) at the beginning.
    pub(crate) fn previous_leaf<'p, P: Pages>(&mut self, pages: &'p P) -> Result<Option<Page<'p>>> {
        pages.interrupted()?;
        for level in 1..self.depth {
            let slot = self.steps[level].slot as usize;
            if slot > 0 {
                let page = pages.page(self.steps[level].page, level as u8)?;
                let leaf = self.down(pages, level, page, slot - 1, |page| page.len() - 1)?;
                self.count_move(pages, -1)?;
                self.look_ahead(pages, level, false);
                // Few keys in a leaf have many values, over which steps may pass.
                if level == 1 && slot > 1 && self.moved < -1 && leaf.len() >= FETCHED_KEYS_MIN {
                    pages.fetch_next(page.child(slot - 2), true);
                }
                return Ok(Some(leaf));
            }
        }
        Ok(None)
    }

    #[inline(always)]
    fn count_move<P: Pages>(&mut self, pages: &P, by: i64) -> Result<()> {
        self.moved += by;
        if self.moved.unsigned_abs() > pages.pages_max() {
            return Err(pages.corrupt(self.steps[self.depth - 1].page, MORE_LEAVES));
        }
        Ok(())
    }

    /// Goes down from a slot of the branch at `level`. A failure leaves the path as it was, so that
    /// the step can be tried again.
    #[inline(always)]
    fn down<'p, P: Pages>(
        &mut self,
        pages: &'p P,
        level: usize,
        page: Page<'p>,
        slot: usize,
        choose: impl Fn(Page<'_>) -> usize,
    ) -> Result<Page<'p>> {
        if level > 1 {
            return self.down_far(pages, level, page, slot, choose);
        }
        let at = page.child(slot);
        let leaf = pages.page(at, 0)?;
        self.steps[1].slot = slot as u32;
        self.steps[0] = Step { page: at, slot: choose(leaf) as u32 };
        Ok(leaf)
    }

    /// As [`Self::down`], through branches that are left for others.
    #[inline(never)]
    fn down_far<'p, P: Pages>(
        &mut self,
        pages: &'p P,
        level: usize,
        mut page: Page<'p>,
        mut slot: usize,
        choose: impl Fn(Page<'_>) -> usize,
    ) -> Result<Page<'p>> {
        let mut path = *self;
        path.steps[level].slot = slot as u32;
        for below in (0..level).rev() {
            let at = page.child(slot);
            page = pages.page(at, below as u8)?;
            slot = choose(page);
            path.steps[below] = Step { page: at, slot: slot as u32 };
        }
        *self = path;
        self.fetch_ahead(pages);
        Ok(page)
    }

    /// Has the other leaves of the level-1 branch that a scan will come to read in the background,
    /// if it is time to: it has come to a leaf by way of a branch of this level.
    #[inline(always)]
    fn look_ahead<P: Pages>(&self, pages: &P, level: usize, forward: bool) {
        let moved = self.moved.unsigned_abs();
        if moved == SCAN_LEAVES || (level > 1 && moved > SCAN_LEAVES) {
            self.read_ahead(pages, forward);
        }
    }

    #[cold]
    #[inline(never)]
    fn read_ahead<P: Pages>(&self, pages: &P, forward: bool) {
        let Step { page, slot } = self.steps[1];
        if let Ok(page) = pages.page(page, 1) {
            let slot = slot as usize;
            let rest = if forward { slot + 1..page.len() } else { 0..slot };
            pages.read_ahead(&mut rest.map(|i| page.child(i)));
        }
    }

    /// Has the next children of the level-1 branch fetched.
    fn fetch_ahead<P: Pages>(&self, pages: &P) {
        let step = self.steps[1];
        if let Ok(page) = pages.page(step.page, 1) {
            for i in step.slot as usize + 1..(step.slot as usize + 3).min(page.len()) {
                pages.prefetch(page.child(i));
            }
        }
    }
}

/// A scan backwards fetches leaves ahead if the last one has at least this many keys.
const FETCHED_KEYS_MIN: usize = 16;
/// About this many leaves stay in the processor's cache.
const FEW_LEAVES: u64 = 256;

/// Has the processor fetch what a search for a key will look at in a child of the last branch: its
/// beginning, and around the place where the record probably stands.
#[inline(always)]
pub(crate) fn fetch_leaf<P: Pages>(
    pages: &P,
    tree: &Tree,
    (branch, slot): (Page<'_>, usize),
    key: &[u8],
) {
    let (at, front) = (branch.child(slot), tree.front());
    pages.fetch(at, 0..front);
    if tree.root.leaf_pages <= FEW_LEAVES {
        return;
    }
    let place = likely_place(&tree.form.keys, (branch, slot), key, front, pages.page_size());
    if let Some(place) = place {
        pages.fetch(at, place..place + LIKELY_BYTES);
    }
}
