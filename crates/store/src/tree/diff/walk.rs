//! A way through one tree, in key order, that opens a page only when it is asked to.

use crate::Result;
use crate::tree::order::Form;
use crate::tree::page::search::{Side, branch_slot, leaf_slot};
use crate::tree::page::{Page, Record};
use crate::tree::page_ref::PageRef;
use crate::tree::pages::{Pages, ReadPages};
use crate::tree::tree::Tree;

/// A page on the way, and the slot in it (of a branch the child, of a leaf the group).
#[derive(Clone, Copy)]
struct Step {
    page: PageRef,
    slot: usize,
}

/// A place in a tree: on a pair, or before a page that was not opened.
pub(super) struct Walk<'t> {
    pages: &'t ReadPages,
    /// By level, the root last. From `low` on they are the way; those above `low` are open.
    steps: Vec<Step>,
    low: usize,
    /// Whether the page at `low` is open too, which is a leaf then.
    is_open: bool,
    is_done: bool,
    /// The value under it of a group of `values`.
    value: usize,
    values: usize,
    /// How many pages were opened.
    opened: u64,
}

impl<'t> Walk<'t> {
    /// Before the root of a tree.
    pub(super) fn new(pages: &'t ReadPages, tree: &Tree) -> Self {
        let top = usize::from(tree.root.level);
        Self {
            pages,
            steps: vec![Step { page: tree.root.page, slot: 0 }; top + 1],
            low: top,
            is_open: false,
            is_done: tree.root.page.is_none(),
            value: 0,
            values: 0,
            opened: 0,
        }
    }

    pub(super) fn pages(&self) -> &'t ReadPages {
        self.pages
    }

    pub(super) fn opened(&self) -> u64 {
        self.opened
    }

    /// There is nothing more to come.
    pub(super) fn end(&mut self) {
        self.is_done = true;
    }

    /// The level of the page that comes next, if it was not opened.
    pub(super) fn closed_level(&self) -> Option<usize> {
        (!self.is_done && !self.is_open).then_some(self.low)
    }

    /// The highest level at which two ways stand at the same place of the same page. What follows
    /// in that page is the same for both.
    pub(super) fn shared_level(&self, other: &Self) -> Option<usize> {
        if self.is_done || other.is_done || self.value != other.value {
            return None;
        }
        let both = self.low.max(other.low);
        let top = self.steps.len().min(other.steps.len());
        let same = (0..top).take_while(|level| self.slot(*level) == other.slot(*level));
        same.skip(both).filter(|level| self.steps[*level].page == other.steps[*level].page).last()
    }

    /// Pages that were not opened are stood before.
    fn slot(&self, level: usize) -> usize {
        if level < self.low { 0 } else { self.steps[level].slot }
    }

    fn page(&self, level: usize) -> Result<Page<'t>> {
        self.pages.page(self.steps[level].page, level as u8)
    }

    /// Opens the page that comes next, and gives it. A sound tree has no more pages than the store;
    /// in a damaged one a page may be the child of several.
    fn read(&mut self) -> Result<Page<'t>> {
        self.pages.interrupted()?;
        self.opened += 1;
        if self.opened > self.pages.pages_max() {
            let reason = "more pages in a tree than in the store";
            return Err(self.pages.corrupt(self.steps[self.low].page, reason));
        }
        self.page(self.low)
    }

    /// Opens the page that comes next, to stand at its beginning.
    pub(super) fn open(&mut self) -> Result<()> {
        let page = self.read()?;
        if self.low == 0 {
            self.stand(page, 0);
        } else {
            self.go_down(page, 0);
        }
        Ok(())
    }

    /// Stands before a child of the branch at `low`.
    fn go_down(&mut self, page: Page<'t>, slot: usize) {
        self.steps[self.low].slot = slot;
        self.low -= 1;
        self.steps[self.low] = Step { page: page.child(slot), slot: 0 };
    }

    /// Stands on the first value of a group of the leaf.
    fn stand(&mut self, page: Page<'t>, slot: usize) {
        self.is_open = true;
        self.steps[0].slot = slot;
        (self.value, self.values) = (0, page.leaf_record(slot).value_count());
    }

    /// Goes on to what follows the page at `level`.
    pub(super) fn leave(&mut self, level: usize) -> Result<()> {
        (self.is_open, self.value) = (false, 0);
        for above in level + 1..self.steps.len() {
            let page = self.page(above)?;
            let slot = self.steps[above].slot + 1;
            if slot < page.len() {
                self.low = above;
                self.go_down(page, slot);
                return Ok(());
            }
        }
        self.is_done = true;
        Ok(())
    }

    /// The record, and the number of the value in it, under the way; `None` at the end, and before
    /// a page that was not opened.
    pub(super) fn at(&self) -> Result<Option<(Record<'t>, usize)>> {
        if self.is_done || !self.is_open {
            return Ok(None);
        }
        Ok(Some((self.page(0)?.leaf_record(self.steps[0].slot), self.value)))
    }

    /// Goes on to the next pair, or before the page that comes next.
    pub(super) fn next(&mut self) -> Result<()> {
        if self.value + 1 < self.values {
            self.value += 1;
            return Ok(());
        }
        let (page, slot) = (self.page(0)?, self.steps[0].slot + 1);
        if slot < page.len() {
            self.stand(page, slot);
            return Ok(());
        }
        self.leave(0)
    }

    /// Passes over the pairs that two ways have before them byte for byte, in one leaf of each; but
    /// not over the last pair of a leaf.
    pub(super) fn pass_same(&mut self, other: &mut Self) -> Result<()> {
        let is_on = |walk: &Self| walk.is_open && !walk.is_done && walk.value == 0;
        if !is_on(self) || !is_on(other) {
            return Ok(());
        }
        let (page, of_other) = (self.page(0)?, other.page(0)?);
        if page.shared() != of_other.shared() {
            return Ok(());
        }
        let (first, first_of_other) = (self.steps[0].slot, other.steps[0].slot);
        let left = (page.len() - first).min(of_other.len() - first_of_other);
        let is_same = |n: &usize| match page.plain_record(first + n) {
            Some(record) => of_other.plain_record(first_of_other + n) == Some(record),
            None => false,
        };
        let passed = (0..left.saturating_sub(1)).take_while(is_same).count();
        if passed > 0 {
            self.stand(page, first + passed);
            other.stand(of_other, first_of_other + passed);
        }
        Ok(())
    }

    /// Goes from before the root to the first pair whose key is at or after `key`, or with
    /// `Side::Last` to the first one after all pairs of that key.
    pub(super) fn seek(&mut self, form: &Form, key: &[u8], side: Side<'_>) -> Result<()> {
        if self.is_done {
            return Ok(());
        }
        while self.low > 0 {
            let page = self.read()?;
            self.go_down(page, branch_slot(self.pages, form, page, key, side)?);
        }
        let page = self.read()?;
        let (slot, is_found) = leaf_slot(self.pages, &form.keys, page, key)?;
        let slot = slot + usize::from(is_found && matches!(side, Side::Last));
        if slot < page.len() {
            self.stand(page, slot);
            return Ok(());
        }
        self.leave(0)
    }
}
