//! Making the file shorter while it is in use: pages from its end are moved into free space further
//! to the front, so that the end becomes free and is cut.
//!
//! # How
//!
//! If `f` pages of a store that ends at `end` are free, what is in use fits before `end - f`. Steps
//! need some room themselves, for copies of branches and of the catalog: `limit` is a little after
//! that. A *pass* walks all trees once and copies each page from `limit` on, with the branches
//! above it, as any other change would; the commit numbers the copies from the lowest free page on.
//! A pass consists of *steps*, each a commit of about [`STEP_PAGES`] pages, between which others
//! read and write; it goes on where it stopped by table and position. Changes by others in between
//! do no more harm than that a page is moved in vain or not at all.
//!
//! Long values need neighbouring pages. They are moved first, before single pages fill the gaps;
//! and where they find no room, a part of the store that is mostly free is cleared for them.
//!
//! Pages that a step leaves are free one commit later, if no reader holds them. Passes are repeated
//! as long as each makes the store notably shorter, so that a long reader only ends the work early.
//!
//! A step needs a few pages itself. It may not take them beyond the end that the store had at
//! first: if it finds no others, as in a store full of pages that readers hold, the work is over.
//!
//! The first step lets the ring of the redo log go; later commits make a new one.
//!
//! Steps are commits without flush, followed by a `sync`: such a commit is never handed to another
//! transaction, which would find tables opened here without the functions of their orders.

mod pass;

use std::ops::Range;

use super::commit::trim;
use super::free::is_held;
use super::free::low::freest_range;
use super::group::Turn;
use super::order::Form;
use super::page_ref::{PAGE_NO_END, PageNo, PageRef};
use super::state::WriteState;
use super::tree::Tree;
use super::{CompactReport, Store};
use crate::Durability;
use crate::observe::{Done, Work, tell, within};
use crate::{Error, Result};
use pass::{Pass, Plan};

/// About this many pages are moved in one commit.
const STEP_PAGES: u32 = 1024;
/// Pages of a step that are kept for the catalog, the free-space trees and paths to moved pages.
const RESERVE_PAGES: u32 = 64;
/// This many steps that find no room end a pass.
const IDLE_STEPS_MAX: u32 = 2;
/// At most this many parts of the store are cleared for long values in one pass.
const RANGES_MAX: u32 = 16;
/// The upper bound of passes: a store that changes all the time would need more and more.
const PASSES_MAX: u32 = 32;

impl Store {
    /// Moves pages towards the front in small commits and cuts the file, while others read and
    /// write. Ends when nothing more is gained; a reader of an old snapshot, which holds pages,
    /// makes it end early. The file is never longer afterwards, except for what others write at the
    /// same time. It waits for writers as [`Store::begin_write`] does: in a thread that has a write
    /// transaction, for ever.
    ///
    /// `progress(done_pages, all_pages)` is called after each step; the second is an estimate.
    ///
    /// # Errors
    /// [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::Io`](crate::Error::Io),
    /// [`Error::Interrupted`](crate::Error::Interrupted): what was done until then stays.
    pub fn compact(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<CompactReport> {
        self.inner.check_writable()?;
        let before = self.inner.file_len()?;
        let mut report = CompactReport { before, after: before, ..CompactReport::default() };
        let mut all = 0;
        let path = &self.inner.pages.path;
        let passes = || self.passes(&mut report, &mut all, progress);
        match within(Work::TREE_COMPACT, path, passes) {
            Ok(()) | Err(Error::StoreFull { .. }) => {}
            Err(e) => return Err(e),
        }
        trim_alone(self)?;
        report.after = self.inner.file_len()?;
        let (moved_pages, steps) = (Some(report.moved_pages), Some(report.steps));
        tell(path, || Done { moved_pages, steps, ..Work::TREE_COMPACT.done() });
        progress(all, all);
        Ok(report)
    }

    /// Passes until nothing more is gained. `all` is the estimate of pages to move.
    fn passes(
        &self,
        report: &mut CompactReport,
        all: &mut u64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        for _ in 0..PASSES_MAX {
            // Frees what earlier commits left, and shows what others hold.
            self.settle(report)?;
            let (end, limit) = self.limit()?;
            if end - limit <= slack(end) {
                break;
            }
            *all = (*all).max(report.moved_pages + u64::from(end - limit));
            self.pass(limit, report, &mut |done| progress(done.min(*all), *all))?;
            self.settle(report)?;
            let (now, _) = self.limit()?;
            if now + slack(end) >= end {
                break;
            }
        }
        Ok(())
    }

    /// The end of the store, and where it could be: half of what is not worth a pass is left to the
    /// steps, which otherwise would have no page to move the last ones to.
    fn limit(&self) -> Result<(PageNo, PageNo)> {
        let txn = self.begin_read()?;
        let meta = &txn.meta.meta;
        let protected = txn.protected()?;
        let ready = meta.recent.iter().filter(|f| !is_held(&protected, f.birth, f.freed));
        let recent: u64 = ready.map(|free| u64::from(free.run.len)).sum();
        let free = meta.free.ready.saturating_add(recent).min(u64::from(meta.end));
        let fits = meta.end - free as u32;
        Ok((meta.end, meta.end.min(fits + slack(meta.end) / 2)))
    }

    /// Two commits that change nothing: pages that are left by the last step become free, and the
    /// end of the store is lowered over them.
    fn settle(&self, report: &mut CompactReport) -> Result<()> {
        for _ in 0..2 {
            self.step(report, 0..0, &mut |_, _| Ok(()))?;
        }
        Ok(())
    }

    /// Moves all that lies from `limit` on, as far as there is room.
    fn pass(
        &self,
        limit: PageNo,
        report: &mut CompactReport,
        told: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let high =
            Plan { from: limit..PAGE_NO_END, limit, avoid: 0..0, extents: true, pages: false };
        // Long values need neighbouring pages: they choose first.
        let mut stuck = self.walk(Pass::new(high.clone()), report, told)?;
        for _ in 0..RANGES_MAX {
            let (left, longest) = stuck;
            if left == 0 {
                break;
            }
            self.settle(report)?;
            let Some(range) = self.range_to_clear(limit, longest)? else { break };
            let (from, avoid) = (range.clone(), range);
            let clear = Plan { from, limit: PAGE_NO_END, avoid, extents: true, pages: true };
            self.walk(Pass::new(clear), report, told)?;
            self.settle(report)?;
            stuck = self.walk(Pass::new(high.clone()), report, told)?;
            if stuck.0 >= left {
                break;
            }
        }
        self.walk(Pass::new(Plan { extents: false, pages: true, ..high }), report, told)?;
        Ok(())
    }

    /// One walk over all trees, in steps. Returns how many pages of extents found no room, and the
    /// most of one of them.
    fn walk(
        &self,
        mut pass: Pass,
        report: &mut CompactReport,
        told: &mut dyn FnMut(u64),
    ) -> Result<(u64, u32)> {
        let mut idle = 0;
        while !pass.is_complete() && idle < IDLE_STEPS_MAX {
            let before = report.moved_pages;
            self.step(report, pass.avoid(), &mut |state, moved| pass.step(state, moved))?;
            idle = if report.moved_pages == before { idle + 1 } else { 0 };
            told(report.moved_pages);
        }
        Ok((pass.stuck, pass.longest))
    }

    /// A range before `limit` with many free pages, but scattered: emptied it takes long values.
    fn range_to_clear(&self, limit: PageNo, longest: u32) -> Result<Option<Range<PageNo>>> {
        let txn = self.begin_read()?;
        let ready = Tree::new(txn.meta.meta.ready, Form::PLAIN);
        let size = (limit / 8).max(longest.saturating_mul(4)).min(limit);
        let (range, free) = freest_range(&txn.pages, &ready, limit, size)?;
        Ok((free > size / 16).then_some(range))
    }

    /// One commit, made durable. `work` adds what it moved to its argument.
    /// [`Error::StoreFull`]: it would make the store longer than it was at first.
    fn step(
        &self,
        report: &mut CompactReport,
        avoid: Range<PageNo>,
        work: &mut dyn FnMut(&mut WriteState, &mut u64) -> Result<()>,
    ) -> Result<()> {
        self.inner.pages.interrupted()?;
        let mut turn = Turn::begin_alone(&self.inner)?;
        let state = turn.state_mut();
        // A step moves pages by the records of the catalog, and opens tables that it has moved.
        state.forget_tables();
        let first_end = report.before / self.inner.pages.page_size() as u64;
        let most = state.pages.base.end.max(first_end.min(u64::from(PAGE_NO_END)) as PageNo);
        state.pages.space.max_pages = state.pages.space.max_pages.min(most);
        state.pages.space.last_pages = 0;
        state.free.take_lowest_first(&mut state.pages, avoid)?;
        let mut moved = 0;
        work(state, &mut moved)?;
        touch_catalog(state)?;
        turn.commit(Durability::None)?;
        self.inner.sync()?;
        report.moved_pages += moved;
        report.steps += 1;
        Ok(())
    }
}

/// A gain of this many pages is not worth a pass.
fn slack(end: PageNo) -> PageNo {
    4 + end / 50
}

/// Makes a commit of a step that changes nothing else: only commits bring free space forward.
fn touch_catalog(state: &mut WriteState) -> Result<()> {
    let root = &mut state.catalog.root;
    if !root.page.is_none() {
        root.page = state.pages.touch(root.page, root.level)?;
    }
    debug_assert!(root.page == PageRef::NONE || root.page.is_changed());
    Ok(())
}

/// Cuts the file, no other writer being at work.
fn trim_alone(store: &Store) -> Result<()> {
    store.sync()?;
    let turn = Turn::begin_alone(&store.inner)?;
    let trimmed = trim(&turn.store);
    drop(turn);
    trimmed
}

#[cfg(test)]
mod tests;
