//! Free space: which pages a transaction may write, and where those that it frees are noted.
//!
//! # Concept
//!
//! A page is used by the snapshots from its *birth* (the commit that wrote it) up to, but not
//! including, the commit that *freed* it. The protected snapshots are the newest commit, the newest
//! durable one, each one that a reader has pinned, and each one that has a pin with a name. A freed
//! run may be written again exactly if no protected snapshot lies in its interval; so one forgotten
//! reader holds the pages of its own snapshot, not all that were freed since.
//!
//! Free runs are noted in three places:
//!
//! - `recent`, a short list in the meta record: small commits change nothing else;
//! - the *ready* tree (start → length): runs that no snapshot holds, neighbours joined;
//! - the *pending* tree (holder → runs, several an entry): runs that some snapshot holds, under the
//!   newest one that does. When the holder has gone, its runs become ready or move to their next
//!   older holder, so that a run is looked at once for each of its holders, not at each commit.
//!   Small commits look only when they run short of pages, and take those of one entry: what lies
//!   scattered is used again one by one, and never passes through the ready tree.
//!
//! # The trees that describe free space use it
//!
//! Changing one of the two trees copies pages of it: pages are needed and pages are freed. Two
//! rules keep that in bounds. The trees change only inside a commit, and in compaction, which has
//! no savepoints; what a running transaction takes from the ready tree is remembered in
//! [`Ready::taken`], what it releases of the pending tree in [`Released`], and both are removed
//! from the trees then, so that rolling back to a savepoint never has to undo a change of free
//! space.
//! And [`FreeState::settle`] repeats "take what is needed, note what was freed" until nothing is
//! left to do: a page of the trees is copied at most once a transaction, so each round has less to
//! do than the one before.

use super::insert::put_plain;
use super::meta::{FreeRun, Meta, RECENT_MAX};
use super::order::Form;
use super::page_ref::{FIRST_PAGE, Freed, PageNo, Run};
use super::pages::{Pages, WritePages};
use super::remove::delete_plain;
use super::search::{scan_plain, scan_plain_back};
use super::tree::Tree;
use crate::canary::{Bug, is_planted};
use crate::{Error, Result};
use freed::{join_freed, sort_freed};
use pending::{PENDING_RUNS, Pending, Released};
pub(crate) use pending::{pending_entry, pending_key, pending_runs};
use pins::Pins;
pub(crate) use pins::{PINS_MAX, Pinned, pins_of};
use plan::{choose_runs, lowest_runs, numbering_runs, spare_runs};
use ready::Ready;
pub(crate) use ready::ready_entry;
use recent::{Recent, join_neighbours, note_open};
pub(crate) use runs::Runs;

/// From this many pages on, a commit first joins what was freed with its neighbours.
const JOINED_PAGES: u32 = 256;
/// A commit of more pages takes runs as they come: otherwise it would leave only single pages to
/// others.
const CHOOSY_PAGES: u32 = 4096;
/// The most runs that may stay in the pool when a commit is done; they go to the recent list.
const LEFTOVER_MAX: usize = 24;
/// After this many rounds of settling, space is taken from the end of the store only.
const ROUNDS_WITH_TREES: usize = 6;
/// A commit of at most this many pages is small: pages that the next commit writes again are placed
/// side by side.
pub(crate) const SMALL_PAGES: u32 = 16;
/// This many of the longest free runs stay in the recent list when the others are filed, for the
/// next small commits.
const KEPT_RUNS: usize = 40;
/// The recent list is filed when it would be longer than this: each commit goes through all of it.
const RECENT_FULL: usize = 96;
const _: () = assert!(KEPT_RUNS + LEFTOVER_MAX + 1 < RECENT_FULL && RECENT_FULL <= RECENT_MAX);
/// A larger commit looks at this many pending runs at least.
const RELEASED_MIN: usize = 256;
/// If a small commit takes pages from the end of the store, this many more become free there for
/// the next ones, but at most an eighth of the store.
const SMALL_AHEAD: u32 = 32;
/// The least number of bytes for which the end of the store is lowered.
const LOWER_END_BYTES: u64 = 1 << 20;

/// The free space of a write transaction.
pub(crate) struct FreeState {
    pub(crate) ready: Ready,
    pub(crate) pending: Pending,
    pub(crate) recent: Recent,
    pub(crate) pins: Pins,
    /// Whether this transaction has looked for room for extents.
    has_looked: bool,
    /// The protected snapshots, ascending.
    protected: Vec<u64>,
    /// The commit that this one follows, and the page after the last one that it wrote.
    newest: u64,
    behind: PageNo,
}

/// True if a protected snapshot uses pages of the interval. `protected` is ascending.
pub(crate) fn is_held(protected: &[u64], birth: u64, freed: u64) -> bool {
    newest_holder(protected, birth, freed).is_some()
}

/// The newest protected snapshot that uses pages of the interval.
pub(crate) fn newest_holder(protected: &[u64], birth: u64, freed: u64) -> Option<u64> {
    let below = protected.partition_point(|snapshot| *snapshot < freed);
    let newest = *protected.get(below.checked_sub(1)?)?;
    (newest >= birth && !is_planted(Bug::ReusedPage)).then_some(newest)
}

fn pool_pages(pages: &WritePages) -> u64 {
    pages.space.pool.iter().map(|run| u64::from(run.len)).sum()
}

impl FreeState {
    /// The free space as a commit left it; see [`Self::begin`].
    pub(crate) fn new(meta: &Meta) -> Self {
        Self {
            ready: Ready::new(meta),
            pending: Pending::new(meta),
            recent: Recent::new(&meta.recent),
            pins: Pins::new(meta),
            has_looked: false,
            protected: Vec::new(),
            newest: meta.txn,
            behind: 0,
        }
    }

    /// Begins a transaction that follows commit `newest`, under the snapshots that `protect` adds
    /// to a list and those of the pins, which are loaded.
    pub(crate) fn begin(
        &mut self,
        newest: u64,
        hints: (PageNo, PageNo),
        protect: impl FnOnce(&mut Vec<u64>),
    ) {
        let last = std::mem::replace(&mut self.newest, newest);
        (self.ready.hint, self.behind) = hints;
        self.ready.taken.clear();
        self.pending.released = Released::default();
        self.has_looked = false;
        self.protected.clear();
        protect(&mut self.protected);
        self.protected.extend_from_slice(self.pins.commits());
        self.protected.sort_unstable();
        self.protected.dedup();
        self.recent.begin(last, &self.protected);
    }

    /// Whether snapshots older than the newest commit are protected.
    pub(crate) fn has_snapshots(&self) -> bool {
        self.protected.len() > 1
    }

    /// Sees to it that at least `want` pages are open or in the pool, for pages that are written
    /// early. Changes no tree.
    pub(crate) fn refill(&mut self, pages: &mut WritePages, want: u32) -> Result<()> {
        let open = pages.space.open.pages().min(u64::from(want)) as u32;
        self.refill_with(pages, want - open, want - open)
    }

    /// As [`Self::refill`], where only `hot` of the pages need to lie side by side.
    fn refill_with(&mut self, pages: &mut WritePages, want: u32, hot: u32) -> Result<()> {
        let have = pool_pages(pages);
        if have >= u64::from(want) {
            return Ok(());
        }
        self.take(pages, want - have as u32, hot)
    }

    /// Adds `missing` pages to the pool: from the recent list, from the ready tree, from the end.
    /// Of a small commit `hot` of them should lie side by side: the roots and the catalog, which
    /// the next commit writes again.
    fn take(&mut self, pages: &mut WritePages, missing: u32, hot: u32) -> Result<()> {
        let fresh = self.release_recent();
        if missing <= SMALL_PAGES && self.take_hot_and_cold(pages, missing, hot, fresh) {
            return Ok(());
        }
        let scattered = self.is_scattered(pages, missing);
        let left = self.take_recent(pages, missing, scattered, fresh);
        let left = if left == 0 { 0 } else { self.take_ready(pages, left, scattered)? };
        extend_end(pages, left)?;
        if left > 0 && left <= SMALL_PAGES {
            self.extend_ahead(pages);
        }
        Ok(())
    }

    /// Whether enough pages are free to use them however scattered they are.
    fn is_scattered(&self, pages: &WritePages, missing: u32) -> bool {
        let mut free = self.ready.pages + self.recent_ready_pages();
        if missing <= SMALL_PAGES && !self.is_all_pending_held() {
            // A small commit looks at few of these; without them the store would grow for ever.
            free += self.pending.pages;
        }
        let is_full = end_after(pages, missing, pages.space.usual_end()).is_err();
        is_full || free > u64::from(pages.base.end) / 4
    }

    /// Makes free pages at the end of the store, so that the next small commits find theirs side by
    /// side.
    fn extend_ahead(&mut self, pages: &mut WritePages) {
        let start = pages.base.end;
        let room = pages.space.usual_end().saturating_sub(start);
        let len = SMALL_AHEAD.min(start / 8).min(room);
        if len > 0 && pages.space.lowest_first.is_none() {
            pages.base.end += len;
            note_open(&mut self.recent.open, Run { start, len });
        }
    }

    /// How many pages can still be had: the pool, what is free, and the end of the store.
    pub(crate) fn room_pages(&self, pages: &WritePages) -> u64 {
        let behind = pages.space.max_pages.saturating_sub(pages.base.end);
        let open = pool_pages(pages) + pages.space.open.pages();
        let free = self.ready.pages + self.recent_ready_pages() + open;
        free + u64::from(behind)
    }

    fn holds(&self, free: &FreeRun) -> bool {
        is_held(&self.protected, free.birth, free.freed)
    }

    /// The first part of a commit: frees what this transaction made and dropped, gives back what
    /// holders let go, and puts about `need` pages into the pool, side by side if possible. `need`
    /// is a generous estimate: if there is no room for it, less may be enough, and if not,
    /// [`FreeState::settle`] reports it.
    pub(crate) fn begin_commit(
        &mut self,
        pages: &mut WritePages,
        need: u32,
        hot: u32,
    ) -> Result<()> {
        self.close_room(pages);
        if need > SMALL_PAGES {
            let work = (4 * pages.freed.len()).max(2 * need as usize).max(RELEASED_MIN);
            self.release_pending(pages, work)?;
            self.remove_taken(pages)?;
            if (JOINED_PAGES..=CHOOSY_PAGES).contains(&need) && self.is_scattered(pages, need) {
                self.join_recent(pages)?;
            }
        } else if self.is_short_of_gaps() {
            self.release_pending(pages, PENDING_RUNS)?;
        }
        self.remove_taken(pages)?;
        self.file_released(pages)?;
        self.lower_end(pages)?;
        match self.refill_with(pages, need, hot) {
            Err(Error::StoreFull { .. }) => self.refill(pages, pages.changed_pages() as u32)?,
            other => other?,
        }
        check_pool(pages)
    }

    /// Lowers the end of the store if many free pages stand there.
    fn lower_end(&mut self, pages: &mut WritePages) -> Result<()> {
        let old_end = pages.base.end;
        let most = self.recent.pages() + self.ready.pages;
        if most < u64::from(old_end) / 4 && pages.space.lowest_first.is_none() {
            return Ok(());
        }
        let (mut end, mut in_tree) = (old_end, Vec::new());
        loop {
            let let_go = self.recent.held.iter().filter(|free| !self.holds(free));
            let mut recent =
                self.recent.open.iter().rev().copied().chain(let_go.map(|free| free.run));
            if let Some(run) = recent.find(|run| run.start + run.len == end) {
                end = run.start;
                continue;
            }
            match self.ready_before(pages, end)? {
                Some(run) if run.start + run.len == end => {
                    in_tree.push(run);
                    end = run.start;
                }
                _ => break,
            }
        }
        let gain = old_end - end;
        let bytes = u64::from(gain) * pages.base.file.page_size() as u64;
        let is_worth_it = gain >= old_end / 4 && bytes >= LOWER_END_BYTES;
        if gain == 0 || !is_worth_it && pages.space.lowest_first.is_none() {
            return Ok(());
        }
        for run in in_tree {
            self.delete_ready(pages, run)?;
        }
        self.recent.open.retain(|run| run.start < end);
        self.recent.held.retain(|free| free.run.start < end);
        self.ready.hint = self.ready.hint.min(end);
        pages.base.end = end;
        Ok(())
    }

    /// The second part of a commit: brings the free space to rest. Afterwards the pool holds a page
    /// for each changed page, and all that was freed will fit into the recent list.
    pub(crate) fn settle(&mut self, pages: &mut WritePages) -> Result<()> {
        for round in 0.. {
            pages.space.pool.extend(pages.space.open.drain());
            join_neighbours(&mut pages.space.pool);
            self.remove_taken(pages)?;
            let need = pages.changed_pages() as u64;
            let have = pool_pages(pages);
            if have < need {
                let missing = (need - have) as u32;
                if round < ROUNDS_WITH_TREES {
                    self.take(pages, missing, 0)?;
                } else {
                    extend_end(pages, missing)?;
                }
                continue;
            }
            join_freed(&mut pages.freed);
            check_pool(pages)?;
            let spare = match pages.space.pool.len() {
                0..=LEFTOVER_MAX => Vec::new(),
                _ => spare_runs(&pages.space.pool, &runs_for_commit(pages, need as u32)),
            };
            let left = spare.len().max(pages.space.pool.len().min(LEFTOVER_MAX));
            if spare.len() > LEFTOVER_MAX {
                self.file_spare(pages, &spare)?;
            } else if self.recent.len() + pages.freed.len() + left + 1 > RECENT_FULL {
                self.file(pages)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Moves the recent list and what was freed into the two trees.
    fn file(&mut self, pages: &mut WritePages) -> Result<()> {
        let txn = pages.txn;
        let mut ready = std::mem::take(&mut self.recent.open);
        let mut freed = std::mem::take(&mut self.recent.held);
        freed.extend(std::mem::take(&mut pages.freed).into_iter().map(|f| freed_run(f, txn)));
        let (held, let_go): (Vec<_>, Vec<_>) = freed.into_iter().partition(|f| self.holds(f));
        ready.extend(let_go.into_iter().map(|free| free.run));
        join_neighbours(&mut ready);
        ready.sort_by_key(|run| std::cmp::Reverse(run.len));
        let mut filed = ready.split_off(ready.len().min(KEPT_RUNS));
        filed.sort_by_key(|run| run.start);
        for run in filed {
            self.put_ready(pages, run)?;
        }
        ready.sort_by_key(|run| run.start);
        self.recent.open = ready;
        let held = held
            .into_iter()
            .filter_map(|f| Some((newest_holder(&self.protected, f.birth, f.freed)?, f)))
            .collect();
        self.put_pending(pages, held)
    }

    /// Moves what is free of the recent list into the ready tree, where it joins its neighbours.
    fn join_recent(&mut self, pages: &mut WritePages) -> Result<()> {
        self.release_recent();
        let open = std::mem::take(&mut self.recent.open);
        open.into_iter().try_for_each(|run| self.put_ready(pages, run))
    }

    /// Moves runs of the pool that the commit will not use into the ready tree.
    fn file_spare(&mut self, pages: &mut WritePages, spare: &[usize]) -> Result<()> {
        let gone: Vec<Run> = spare.iter().rev().map(|i| pages.space.pool.swap_remove(*i)).collect();
        for run in gone {
            self.put_ready(pages, run)?;
        }
        Ok(())
    }

    /// The last part of a commit, when every changed page has its number: what is left goes to the
    /// recent list.
    pub(crate) fn finish_commit(&mut self, pages: &mut WritePages) {
        let txn = pages.txn;
        if is_planted(Bug::WrongFreeList) {
            pages.freed.pop();
        }
        // The newest commit holds them all.
        self.recent.held.extend(pages.freed.drain(..).map(|freed| freed_run(freed, txn)));
        for run in pages.space.pool.drain(..) {
            note_open(&mut self.recent.open, run);
        }
    }
}

fn damaged_entry(pages: &WritePages, tree: &Tree) -> Error {
    pages.corrupt(tree.root.page, "an entry of the free-space trees that no store wrote")
}

/// Makes sure that no page is free twice, and that none of the pages freed by this transaction was
/// free already: wrong free space in a damaged file must not cost pages that are known to be in
/// use.
fn check_pool(pages: &mut WritePages) -> Result<()> {
    let (pool, freed) = (&mut pages.space.pool, &mut pages.freed);
    pool.sort_unstable_by_key(|run| run.start);
    sort_freed(freed);
    let mut freed = freed.iter().map(|freed| freed.run).peekable();
    let mut pool = pool.iter().copied().peekable();
    let mut behind = 0;
    loop {
        let next = match (pool.peek(), freed.peek()) {
            (Some(a), Some(b)) if b.start < a.start => freed.next(),
            (None, _) => freed.next(),
            _ => pool.next(),
        };
        let Some(run) = next else { return Ok(()) };
        if run.start < behind {
            return Err(pages.base.file.corrupt(run.start, "free, and in use or free again"));
        }
        behind = run.start + run.len;
    }
}

fn freed_run(freed: Freed, txn: u64) -> FreeRun {
    FreeRun { run: freed.run, birth: freed.birth, freed: txn }
}

/// The runs of the pool from which a commit numbers `need` pages.
pub(crate) fn runs_for_commit(pages: &WritePages, need: u32) -> Vec<usize> {
    match &pages.space.lowest_first {
        Some(avoid) => lowest_runs(&pages.space.pool, need, avoid),
        None => numbering_runs(&pages.space.pool, need),
    }
}

/// The end of the store after `more` pages were added to it, if it may not pass `most`.
fn end_after(pages: &WritePages, more: u32, most: PageNo) -> Result<PageNo> {
    let end = pages.base.end.checked_add(more).filter(|end| *end <= most);
    end.ok_or_else(|| pages.store_full())
}

fn extend_end(pages: &mut WritePages, more: u32) -> Result<()> {
    if more > 0 {
        let start = pages.base.end;
        pages.base.end = end_after(pages, more, pages.space.end_limit())?;
        pages.space.pool.push(Run { start, len: more });
    }
    Ok(())
}

#[path = "free/extents.rs"]
mod extents;
#[path = "free/freed.rs"]
mod freed;
#[path = "free/low.rs"]
pub(crate) mod low;
#[path = "free/pending.rs"]
mod pending;
#[path = "free/pins.rs"]
mod pins;
#[path = "free/plan.rs"]
mod plan;
#[path = "free/ready.rs"]
mod ready;
#[path = "free/recent.rs"]
mod recent;
#[path = "free/runs.rs"]
mod runs;

#[cfg(test)]
#[path = "free/tests.rs"]
mod tests;
