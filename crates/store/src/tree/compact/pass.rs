//! One pass of compaction over all trees, in steps: which pages are moved, and where a step goes
//! on.

use std::ops::Range;

use super::{RESERVE_PAGES, STEP_PAGES};
use crate::Result;
use crate::tree::catalog::{OpenTable, Stored};
use crate::tree::extent;
use crate::tree::free::FreeState;
use crate::tree::page::{MAX_LEVELS, Record};
use crate::tree::page_ref::{ExtentRef, PageNo, PageRef};
use crate::tree::pages::{Pages, WritePages};
use crate::tree::search::scan_plain;
use crate::tree::state::WriteState;
use crate::tree::tree::Root;

/// How much of a long value is moved at a time.
const PART_BYTES: usize = 512 << 10;

/// Where the next step begins.
enum Next {
    /// In the first table, or in this one, at the noted position.
    Table(Option<Vec<u8>>),
    /// With the catalog and the free-space trees.
    Own,
    Nowhere,
}

/// What is moved, and where to.
#[derive(Clone)]
pub(super) struct Plan {
    /// Pages in this range are moved.
    pub(super) from: Range<PageNo>,
    /// Before this page.
    pub(super) limit: PageNo,
    /// Extents do not go into this range if there is other room.
    pub(super) avoid: Range<PageNo>,
    /// Whether extents are moved.
    pub(super) extents: bool,
    /// Whether tree pages are moved.
    pub(super) pages: bool,
}

pub(super) struct Pass {
    plan: Plan,
    next: Next,
    /// The slots, by level, with which to go on in the next tree.
    position: [usize; MAX_LEVELS],
    /// Pages of extents for which there was no room, and the most of one of them.
    pub(super) stuck: u64,
    pub(super) longest: u32,
}

impl Pass {
    pub(super) fn new(plan: Plan) -> Self {
        let (next, position) = (Next::Table(None), [0; MAX_LEVELS]);
        Self { plan, next, position, stuck: 0, longest: 0 }
    }

    /// The range of pages that a step does not fill.
    pub(super) fn avoid(&self) -> Range<PageNo> {
        self.plan.avoid.clone()
    }

    pub(super) fn is_complete(&self) -> bool {
        matches!(self.next, Next::Nowhere)
    }

    /// Moves as many pages as there is room for. The caller commits.
    pub(super) fn step(&mut self, state: &mut WriteState, moved: &mut u64) -> Result<()> {
        let most = STEP_PAGES + RESERVE_PAGES;
        let room = state.free.low_pages(&state.pages, self.plan.limit, most)?.min(most);
        // With little room a few pages are moved, whose old places are room for the next step.
        let room = if room > 2 * RESERVE_PAGES { room - RESERVE_PAGES } else { room / 2 };
        let changed = state.pages.changed_pages() as u32;
        let mut mover = Mover {
            plan: self.plan.clone(),
            most: changed + room,
            taken: 0,
            moved: 0,
            stuck: 0,
            longest: self.longest,
            position: self.position,
            goes_on: true,
            is_full: room == 0,
            left: 2 * state.pages.pages_max(),
        };
        self.tables(state, &mut mover)?;
        if let (Next::Own, false) = (&self.next, mover.is_full) {
            self.own_trees(state, &mut mover)?;
        }
        self.position = mover.position;
        self.stuck += mover.stuck;
        self.longest = mover.longest;
        *moved += mover.moved;
        Ok(())
    }

    fn tables(&mut self, state: &mut WriteState, mover: &mut Mover) -> Result<()> {
        while let (Next::Table(from), false) = (&self.next, mover.is_full) {
            let Some((name, record)) = next_record(state, from.as_deref())? else {
                self.next = Next::Own;
                mover.begin();
                return Ok(());
            };
            if from.as_ref() != Some(&name) {
                // Another one than that in which the step before stopped.
                mover.begin();
            }
            if let Some((root, stored)) = Stored::decode(&record) {
                let mut new = root;
                mover.tree(&mut state.pages, &mut state.free, &mut new)?;
                if new != root {
                    state.tables.add(OpenTable::moved(&name, stored, new))?;
                }
            }
            let mut name = name;
            if !mover.is_full {
                // The least name after it.
                name.push(0);
                mover.begin();
            }
            self.next = Next::Table(Some(name));
        }
        Ok(())
    }

    /// The catalog, the trees of free space and the tree of pins: small ones, at once.
    fn own_trees(&mut self, state: &mut WriteState, mover: &mut Mover) -> Result<()> {
        let (pages, free) = (&mut state.pages, &mut state.free);
        mover.tree(pages, free, &mut state.catalog.root)?;
        let mut ready = free.ready.tree.root;
        mover.tree(pages, free, &mut ready)?;
        free.ready.tree.root = ready;
        let mut pending = free.pending.tree.root;
        mover.tree(pages, free, &mut pending)?;
        free.pending.tree.root = pending;
        let mut pins = free.pins.tree.root;
        mover.tree(pages, free, &mut pins)?;
        free.pins.tree.root = pins;
        self.next = Next::Nowhere;
        Ok(())
    }
}

/// The first entry of the catalog at or after a name.
fn next_record(state: &WriteState, from: Option<&[u8]>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let from = from.unwrap_or_default();
    let mut found = None;
    scan_plain(&state.pages, &state.catalog, from, &mut |name, record| {
        found = Some((name.to_vec(), record.to_vec()));
        false
    })?;
    match found {
        // The walk would not end.
        Some((name, _)) if *name < *from => {
            let reason = "the names in the catalog are not in order";
            Err(state.pages.corrupt(state.catalog.root.page, reason))
        }
        found => Ok(found),
    }
}

/// Moves pages of trees within one step.
struct Mover {
    plan: Plan,
    /// At most this many pages may be changed.
    most: u32,
    /// Pages taken for extents.
    taken: u32,
    moved: u64,
    /// As in [`Pass`].
    stuck: u64,
    longest: u32,
    position: [usize; MAX_LEVELS],
    /// Whether `position` is still to be followed.
    goes_on: bool,
    /// The step is complete.
    is_full: bool,
    /// At most this many more pages may be visited: a bound for damaged trees, in which a page may
    /// be the child of several.
    left: u64,
}

impl Mover {
    /// The next tree is walked from its beginning.
    fn begin(&mut self) {
        self.position = [0; MAX_LEVELS];
        self.goes_on = false;
    }

    /// Whether a page is to be moved, and is still in its old place.
    fn is_due(&self, at: PageRef) -> bool {
        !at.is_changed() && self.plan.from.contains(&at.0)
    }

    /// Whether pages of the tree's leaves must be read to find extents.
    fn reads_leaves(&self, root: &Root) -> bool {
        self.plan.extents && root.overflow_pages > 0
    }

    fn tree(
        &mut self,
        pages: &mut WritePages,
        free: &mut FreeState,
        root: &mut Root,
    ) -> Result<()> {
        if root.page.is_none() {
            return Ok(());
        }
        let leaves = self.reads_leaves(root);
        root.page = self.below(pages, free, root.page, root.level, leaves)?;
        Ok(())
    }

    fn touch(&mut self, pages: &mut WritePages, at: PageRef, level: u8) -> Result<PageRef> {
        self.moved += u64::from(self.is_due(at));
        pages.touch(at, level)
    }

    /// Moves what is to be moved of a page and below it. Returns its new place.
    fn below(
        &mut self,
        pages: &mut WritePages,
        free: &mut FreeState,
        mut at: PageRef,
        level: u8,
        leaves: bool,
    ) -> Result<PageRef> {
        pages.interrupted()?;
        let fewer = self.left.checked_sub(1);
        self.left =
            fewer.ok_or_else(|| pages.corrupt(at, "more pages in trees than in the store"))?;
        if level > 0 {
            at = self.children(pages, free, at, level, leaves)?;
        }
        if self.plan.extents {
            at = self.own_extents(pages, free, at, level)?;
        }
        if self.plan.pages && self.is_due(at) && !self.is_full {
            at = self.touch(pages, at, level)?;
        }
        Ok(at)
    }

    fn children(
        &mut self,
        pages: &mut WritePages,
        free: &mut FreeState,
        mut at: PageRef,
        level: u8,
        leaves: bool,
    ) -> Result<PageRef> {
        let len = pages.page(at, level)?.len();
        let place = usize::from(level);
        let start = if self.goes_on { self.position[place] } else { 0 };
        self.goes_on &= level > 1 && start < len;
        for i in start..len {
            self.is_full |= pages.changed_pages() as u32 + self.taken >= self.most;
            if self.is_full {
                self.position[place] = i;
                self.position[..place].fill(0);
                break;
            }
            let old = pages.page(at, level)?.child(i);
            let new = if level > 1 || leaves {
                self.below(pages, free, old, level - 1, leaves)?
            } else if self.plan.pages && self.is_due(old) {
                self.touch(pages, old, 0)?
            } else {
                old
            };
            if new != old {
                at = self.touch(pages, at, level)?;
                pages.change(at).set_child(i, new);
            }
            if self.is_full {
                // What is below is not done.
                self.position[place] = i;
                break;
            }
        }
        Ok(at)
    }

    /// Moves the extents that a page refers to.
    fn own_extents(
        &mut self,
        pages: &mut WritePages,
        free: &mut FreeState,
        mut at: PageRef,
        level: u8,
    ) -> Result<PageRef> {
        let page = pages.page(at, level)?;
        let found: Vec<(usize, bool, ExtentRef)> = (0..page.len())
            .flat_map(|i| self.due_extents(pages, i, &page.record(i), level))
            .collect();
        for (i, is_key, old) in found {
            let Some(new) = self.extent(pages, free, &old)? else { continue };
            at = self.touch(pages, at, level)?;
            let mut page = pages.change(at);
            if is_key { page.set_key_extent(i, &new) } else { page.set_value_extent(i, &new) }
        }
        Ok(at)
    }

    /// The extents of a record that are to be moved.
    fn due_extents(
        &self,
        pages: &WritePages,
        i: usize,
        record: &Record<'_>,
        level: u8,
    ) -> impl Iterator<Item = (usize, bool, ExtentRef)> + use<> {
        let (from, page_size) = (self.plan.from.clone(), pages.page_size());
        let value = if level == 0 { record.value_extent() } else { None };
        let both = [(i, true, record.key_extent()), (i, false, value)];
        both.into_iter().filter_map(move |(i, is_key, extent)| {
            let extent = extent?;
            let run = extent::run_of(&extent, page_size);
            let overlaps = run.start < from.end && run.start + run.len > from.start;
            overlaps.then_some((i, is_key, extent))
        })
    }

    /// Copies an extent to free pages; `None` if there is no room for it.
    fn extent(
        &mut self,
        pages: &mut WritePages,
        free: &mut FreeState,
        old: &ExtentRef,
    ) -> Result<Option<ExtentRef>> {
        let run = extent::run_of(old, pages.page_size());
        let Some(first) = free.take_low(pages, run.len, self.plan.limit)? else {
            self.stuck += u64::from(run.len);
            self.longest = self.longest.max(run.len);
            return Ok(None);
        };
        pages.early.written = true;
        let mut writer = extent::Writer::at(first, u64::from(old.len), pages.page_size());
        let mut part = vec![0; PART_BYTES.min(old.len as usize)];
        while writer.left() > 0 {
            let n = writer.left().min(part.len() as u64) as usize;
            let at = u64::from(old.len) - writer.left();
            pages.extent_part(old, at, &mut part[..n])?;
            writer.write(&pages.base.file, &part[..n])?;
        }
        let new = writer.finish(&pages.base.file, pages.txn)?;
        extent::free(pages, old)?;
        self.taken += run.len;
        self.moved += u64::from(run.len);
        Ok(Some(new))
    }
}
