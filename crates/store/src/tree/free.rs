//! Free space: which pages a transaction may write, and where those that it frees are noted.
//!
//! # Concept
//!
//! A page is used by the snapshots from its *birth* (the commit that wrote it) up to, but not
//! including, the commit that *freed* it. The protected snapshots are the newest commit, the newest
//! durable one, and each one that a reader has pinned. A freed run may be written again exactly if
//! no protected snapshot lies in its interval; so one forgotten reader holds the pages of its own
//! snapshot, not all that were freed since.
//!
//! Free runs are noted in three places:
//!
//! - `recent`, a short list in the meta record: small commits change nothing else;
//! - the *ready* tree (start → length): runs that nobody holds, neighbours joined;
//! - the *pending* tree (holder → runs, several an entry): runs that some snapshot holds, under the
//!   newest one that does. When the holder has gone, its runs become ready or move to their next
//!   older holder, so that a run is looked at once for each of its holders, not at each commit.
//!   Small commits look only when they run short of pages, and take those of one entry: what lies
//!   scattered is used again one by one, and never passes through the ready tree.
//!
//! # The trees that describe free space use it
//!
//! Changing one of the two trees copies pages of it: pages are needed and pages are freed. Two
//! rules keep that in bounds. The trees change only inside a commit, or, if no savepoint is open,
//! before pages are written early or a long value finds its place ([`FreeState::release_early`]);
//! what a running transaction takes from the ready tree is remembered in `taken` and removed from
//! the tree then, so that rolling back to a savepoint never has to undo a change of free space. And
//! [`FreeState::settle`] repeats "take what is needed, note what was freed" until nothing is left
//! to do: a page of the trees is copied at most once a transaction, so each round has less to do
//! than the one before.

use std::collections::BTreeSet;

use super::insert::put_plain;
use super::meta::{FreeRun, Meta, RECENT_MAX};
use super::pages::{FIRST_PAGE, Freed, PageNo, Pages, Run, WritePages};
use super::remove::delete_plain;
use super::search::{scan_plain, scan_plain_back};
use super::tree::{Form, Tree};
use crate::canary::{Bug, is_planted};
use crate::{Error, Result};
use pending::PENDING_RUNS;
pub(crate) use pending::{pending_entry, pending_runs};
use recent::{Recent, join_neighbours, note_open};

/// How many entries of the ready tree one search looks at, at least.
const LOOKED_AT_MIN: usize = 64;
/// ... and for each page that a commit of many pages needs, where scattered ones are welcome: it
/// takes the longest runs, so that the disk has fewer pieces to write.
const LOOKED_AT_EACH: usize = 16;
/// A commit of so many pages is worth it that what was freed is joined with its neighbours first.
const JOINED_PAGES: u32 = 256;
/// One of more pages takes runs as they come: it would leave nothing but single pages to others.
const CHOOSY_PAGES: u32 = 4096;
/// So many pages in the longest runs it leaves to smaller commits.
const LEFT_PAGES: u32 = 256;
/// A run of this many pages is as good as any longer one.
const GOOD_RUN: u32 = 32;
/// The most runs that may stay in the pool when a commit is done; they go to the recent list.
const LEFTOVER_MAX: usize = 24;
/// After so many rounds of settling, space is taken from the end of the store only.
const ROUNDS_WITH_TREES: usize = 6;
/// A commit of so many pages is small: what the next one writes again stands side by side.
pub(crate) const SMALL_PAGES: u32 = 16;
/// The pieces of a commit that are looked for one by one.
const LOOKS: usize = 4;
/// So many of the longest free runs stay in the recent list when the others are filed: small
/// commits go on where they are.
const KEPT_RUNS: usize = 40;
/// The recent list is filed when it would be longer than this: each commit goes through all of it.
const RECENT_FULL: usize = 96;
const _: () = assert!(KEPT_RUNS + LEFTOVER_MAX + 1 < RECENT_FULL && RECENT_FULL <= RECENT_MAX);
/// A larger commit looks at so many pending runs at least.
const RELEASED_MIN: usize = 256;
/// Where a small commit takes pages from the end of the store, so many more become free there for
/// the next ones; at most an eighth of the store.
const SMALL_AHEAD: u32 = 32;
/// The least number of bytes for which the end of the store is lowered.
const LOWER_END_BYTES: u64 = 1 << 20;

/// The free space of a write transaction.
pub(crate) struct FreeState {
    pub(crate) ready: Tree,
    pub(crate) pending: Tree,
    pub(crate) recent: Recent,
    /// Pages in the ready tree, not counting those in `taken`.
    pub(crate) ready_pages: u64,
    pub(crate) pending_pages: u64,
    /// Where the next search of the ready tree begins.
    pub(crate) hint: PageNo,
    /// Whether pages were written before the commit.
    pub(crate) written_early: bool,
    /// Starts of runs that were taken from the ready tree and still stand in it.
    taken: BTreeSet<PageNo>,
    /// The protected snapshots, ascending.
    protected: Vec<u64>,
    /// The snapshots under which runs stand in the pending tree, if all of them were protected when
    /// it was last looked through.
    holders: Option<Vec<u64>>,
    /// The commit that this one follows, and the page behind the last one that it wrote.
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

/// Indices of the runs to take for `need` pages: the shortest one that is long enough, else the
/// longest one and what is best for the rest, if they are few. Empty if what is there would be too
/// scattered.
fn choose_runs(runs: &[Run], need: u32, scattered: bool) -> Vec<usize> {
    let pieces_max = if scattered { usize::MAX } else { (need / 8).max(1) as usize };
    let (mut left, mut chosen) = (need, Vec::new());
    // Few pieces usually do, each found by a look at all runs.
    while left > 0 && chosen.len() < pieces_max.min(LOOKS) {
        let Some(next) = best_run(runs, &chosen, left) else { break };
        left = left.saturating_sub(runs[next].len);
        chosen.push(next);
    }
    if left > 0 && chosen.len() < pieces_max {
        let mut rest: Vec<usize> = (0..runs.len()).filter(|i| !chosen.contains(i)).collect();
        rest.sort_by_key(|i| std::cmp::Reverse(runs[*i].len));
        for i in rest.into_iter().take(pieces_max - chosen.len()) {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(runs[i].len);
            chosen.push(i);
        }
    }
    if left == 0 || scattered { chosen } else { Vec::new() }
}

/// The shortest run of at least `need` pages, else the longest one, but those that are `chosen`.
fn best_run(runs: &[Run], chosen: &[usize], need: u32) -> Option<usize> {
    let mut best: Option<(usize, u32)> = None;
    for (i, run) in runs.iter().enumerate() {
        let is_better = match best {
            None => true,
            Some((_, len)) if len >= need => (need..len).contains(&run.len),
            Some((_, len)) => run.len > len,
        };
        if is_better && !chosen.contains(&i) {
            best = Some((i, run.len));
        }
    }
    best.map(|(i, _)| i)
}

/// Indices, ascending, of the runs with the lowest pages, as many as are needed for `need` pages;
/// those that begin in `avoid` last.
fn lowest_runs(runs: &[Run], need: u32, avoid: &std::ops::Range<PageNo>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_unstable_by_key(|i| (avoid.contains(&runs[*i].start), runs[*i].start));
    let mut sum = 0_u32;
    let mut chosen: Vec<usize> = Vec::new();
    for i in order {
        if sum >= need {
            break;
        }
        sum = sum.saturating_add(runs[i].len);
        chosen.push(i);
    }
    chosen.sort_unstable();
    chosen
}

fn pool_pages(pages: &WritePages) -> u64 {
    pages.space.pool.iter().map(|run| u64::from(run.len)).sum()
}

impl FreeState {
    /// The free space as a commit left it; see [`Self::begin`].
    pub(crate) fn new(meta: &Meta) -> Self {
        Self {
            ready: Tree::new(meta.ready, Form::PLAIN),
            pending: Tree::new(meta.pending, Form::PLAIN),
            recent: Recent::new(&meta.recent),
            ready_pages: meta.ready_pages,
            pending_pages: meta.pending_pages,
            hint: 0,
            written_early: false,
            taken: BTreeSet::new(),
            protected: Vec::new(),
            holders: None,
            newest: meta.txn,
            behind: 0,
        }
    }

    /// Begins a transaction that follows commit `newest`, under the snapshots that `protect` adds
    /// to a list.
    pub(crate) fn begin(
        &mut self,
        newest: u64,
        hints: (PageNo, PageNo),
        protect: impl FnOnce(&mut Vec<u64>),
    ) {
        let last = std::mem::replace(&mut self.newest, newest);
        (self.hint, self.behind) = hints;
        self.written_early = false;
        self.taken.clear();
        self.protected.clear();
        protect(&mut self.protected);
        self.protected.sort_unstable();
        self.protected.dedup();
        self.recent.begin(last, &self.protected);
    }

    /// Puts at least `want` pages into the pool, for extents and for pages that are written early.
    /// Changes no tree.
    pub(crate) fn refill(&mut self, pages: &mut WritePages, want: u32) -> Result<()> {
        self.refill_with(pages, want, want)
    }

    /// As [`Self::refill`], while no savepoint is open: what holders let go is looked at first.
    pub(crate) fn refill_early(&mut self, pages: &mut WritePages, want: u32) -> Result<()> {
        let missing = u64::from(want).saturating_sub(pool_pages(pages));
        if missing > self.recent_ready_pages() {
            self.release_early(pages, (2 * missing as usize).max(RELEASED_MIN))?;
        }
        self.refill(pages, want)
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

    /// Whether so many pages are free that they are used however scattered they are.
    fn is_scattered(&self, pages: &WritePages, missing: u32) -> bool {
        let mut free = self.ready_pages + self.recent_ready_pages();
        if missing <= SMALL_PAGES && !self.is_all_pending_held() {
            // A small commit looks at few of these; without them the store would grow for ever.
            free += self.pending_pages;
        }
        free > u64::from(pages.base.end) / 4 || end_after(pages, missing).is_err()
    }

    /// Makes free pages at the end of the store, so that the next small commits find theirs side by
    /// side.
    fn extend_ahead(&mut self, pages: &mut WritePages) {
        let start = pages.base.end;
        let room = pages.space.max_pages.saturating_sub(start);
        let len = SMALL_AHEAD.min(start / 8).min(room);
        if len > 0 && pages.space.lowest_first.is_none() {
            pages.base.end += len;
            note_open(&mut self.recent.open, Run { start, len });
        }
    }

    /// How many pages can still be had: the pool, what is free, and the end of the store.
    pub(crate) fn room_pages(&self, pages: &WritePages) -> u64 {
        let behind = pages.space.max_pages.saturating_sub(pages.base.end);
        let free = self.ready_pages + self.recent_ready_pages() + pool_pages(pages);
        free + u64::from(behind)
    }

    fn holds(&self, free: &FreeRun) -> bool {
        is_held(&self.protected, free.birth, free.freed)
    }

    /// Takes runs of the ready tree, next fit; returns how many pages are still missing.
    fn take_ready(&mut self, pages: &mut WritePages, missing: u32, scattered: bool) -> Result<u32> {
        if self.ready_pages == 0 {
            return Ok(missing);
        }
        if let Some(avoid) = pages.space.lowest_first.clone() {
            return self.take_lowest(pages, missing, &avoid);
        }
        let good = missing.min(GOOD_RUN);
        // A large transaction may look at as many runs as it needs pages: that costs less than the
        // pages themselves, and else its file would only ever grow.
        let is_choosy = scattered && (SMALL_PAGES + 1..=CHOOSY_PAGES).contains(&missing);
        let each = if is_choosy { LOOKED_AT_EACH } else { 1 };
        let most = LOOKED_AT_MIN.max(missing as usize * each);
        let mut looked_at: Vec<Run> = Vec::new();
        let mut sum = 0;
        for (from, upper) in [(self.hint, PageNo::MAX), (0, self.hint)] {
            let taken = &self.taken;
            self.scan_ready(pages, from, &mut |run| {
                if run.start >= upper {
                    return false;
                }
                if !taken.contains(&run.start) {
                    looked_at.push(run);
                    sum += if run.len >= good { run.len.min(missing) } else { 0 };
                }
                sum < missing && looked_at.len() < most
            })?;
            if sum >= missing || looked_at.len() >= most {
                break;
            }
        }
        if let Some(last) = looked_at.last() {
            self.hint = last.start + last.len;
        }
        if scattered && missing <= SMALL_PAGES {
            return Ok(self.take_best(pages, missing, &looked_at));
        }
        // Good runs first, or the longest.
        let worth = |run: &Run| if is_choosy { run.len.min(good) } else { (run.len / good).min(1) };
        looked_at.sort_by_key(|run| std::cmp::Reverse(worth(run)));
        if is_choosy && missing >= JOINED_PAGES {
            let mut sum = 0;
            let is_left = |run: &&Run| {
                sum += run.len;
                sum <= LEFT_PAGES
            };
            let left = looked_at.iter().take_while(is_left).count();
            looked_at.rotate_left(left);
        }
        let mut left = missing;
        for run in looked_at.iter().filter(|run| scattered || run.len >= good) {
            if left > 0 && self.taken.insert(run.start) {
                left = left.saturating_sub(run.len);
                self.ready_pages = self.ready_pages.saturating_sub(u64::from(run.len));
                pages.space.pool.push(*run);
            }
        }
        Ok(left)
    }

    /// Takes the runs of the ready tree that are best for a small commit; returns how many pages
    /// are still missing.
    fn take_best(&mut self, pages: &mut WritePages, missing: u32, runs: &[Run]) -> u32 {
        let mut left = missing;
        for i in choose_runs(runs, missing, true) {
            left = left.saturating_sub(runs[i].len);
            self.take_run(pages, runs[i]);
        }
        left
    }

    /// The first part of a commit: frees what this transaction made and dropped, gives back what
    /// holders let go, and puts about `need` pages into the pool, side by side if possible. That is
    /// more than surely needed: where there is no room for it, what is there will be enough, or
    /// [`FreeState::settle`] says that it is not.
    pub(crate) fn begin_commit(
        &mut self,
        pages: &mut WritePages,
        need: u32,
        hot: u32,
    ) -> Result<()> {
        drop_own(pages);
        self.remove_taken(pages)?;
        if need > SMALL_PAGES {
            let work = (4 * pages.freed.len()).max(2 * need as usize).max(RELEASED_MIN);
            self.release_pending(pages, work)?;
            if (JOINED_PAGES..=CHOOSY_PAGES).contains(&need) && self.is_scattered(pages, need) {
                self.join_recent(pages)?;
            }
        } else if self.is_short_of_gaps() {
            self.release_pending(pages, PENDING_RUNS)?;
        }
        self.lower_end(pages)?;
        match self.refill_with(pages, need, hot) {
            Err(Error::StoreFull { .. }) => self.refill(pages, pages.changed_pages() as u32)?,
            other => other?,
        }
        check_pool(pages)
    }

    /// Before pages are written early: gives back what holders let go, so that a transaction larger
    /// than memory takes the place of the one before instead of growing the file. Only without
    /// savepoints, because a rollback does not undo changes of the free space.
    pub(crate) fn release_early(&mut self, pages: &mut WritePages, work: usize) -> Result<()> {
        if pages.has_savepoints() || self.pending_pages == 0 {
            return Ok(());
        }
        // Runs that were taken must leave the tree first: they may not be joined with others.
        self.remove_taken(pages)?;
        self.release_pending(pages, work)
    }

    /// Removes the runs that were taken from the ready tree.
    fn remove_taken(&mut self, pages: &mut WritePages) -> Result<()> {
        if self.taken.is_empty() {
            return Ok(());
        }
        for start in std::mem::take(&mut self.taken) {
            if !delete_plain(pages, &mut self.ready, &start.to_be_bytes())? {
                return Err(pages
                    .base
                    .file
                    .corrupt(start, "free pages that are not listed as free"));
            }
        }
        Ok(())
    }

    /// Calls `f` with the runs of the ready tree from `from` on, until it answers false.
    fn scan_ready(
        &self,
        pages: &WritePages,
        from: PageNo,
        f: &mut dyn FnMut(Run) -> bool,
    ) -> Result<()> {
        let (mut is_whole, end) = (true, pages.base.end);
        scan_plain(pages, &self.ready, &from.to_be_bytes(), &mut |key, value| {
            let run = ready_entry(key, value).filter(|run| run.start + run.len <= end);
            is_whole = run.is_some();
            run.is_some_and(&mut *f)
        })?;
        if is_whole { Ok(()) } else { Err(damaged_entry(pages, &self.ready)) }
    }

    /// Notes a run in the ready tree, joined with its neighbours there.
    fn put_ready(&mut self, pages: &mut WritePages, run: Run) -> Result<()> {
        self.ready_pages += u64::from(run.len);
        let (mut start, mut end) = (run.start, run.start + run.len);
        let before = self.ready_before(pages, start)?;
        let after = self.ready_from(pages, start)?;
        if before.is_some_and(|b| b.start + b.len > start) || after.is_some_and(|a| a.start < end) {
            return Err(pages.base.file.corrupt(run.start, "a page that is free twice"));
        }
        if let Some(after) = after.filter(|after| after.start == end) {
            end += after.len;
            delete_plain(pages, &mut self.ready, &after.start.to_be_bytes())?;
        }
        if let Some(before) = before.filter(|before| before.start + before.len == start) {
            start = before.start;
        }
        let len = (end - start).to_be_bytes();
        put_plain(pages, &mut self.ready, &start.to_be_bytes(), &len)
    }

    /// The last ready run that starts before `start`.
    fn ready_before(&self, pages: &WritePages, start: PageNo) -> Result<Option<Run>> {
        let mut found = None;
        scan_plain_back(pages, &self.ready, &(start - 1).to_be_bytes(), &mut |key, value| {
            found = ready_entry(key, value);
            false
        })?;
        Ok(found)
    }

    /// The first ready run that starts at or after `start`.
    fn ready_from(&self, pages: &WritePages, start: PageNo) -> Result<Option<Run>> {
        let mut found = None;
        self.scan_ready(pages, start, &mut |run| {
            found = Some(run);
            false
        })?;
        Ok(found)
    }

    /// Lowers the end of the store if many free pages stand there.
    fn lower_end(&mut self, pages: &mut WritePages) -> Result<()> {
        let old_end = pages.base.end;
        let most = self.recent.pages() + self.ready_pages;
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
            delete_plain(pages, &mut self.ready, &run.start.to_be_bytes())?;
            self.ready_pages = self.ready_pages.saturating_sub(u64::from(run.len));
        }
        self.recent.open.retain(|run| run.start < end);
        self.recent.held.retain(|free| free.run.start < end);
        self.hint = self.hint.min(end);
        pages.base.end = end;
        Ok(())
    }

    /// The second part of a commit: brings the free space to rest. Afterwards the pool holds a page
    /// for each changed page, and all that was freed will fit into the recent list.
    pub(crate) fn settle(&mut self, pages: &mut WritePages) -> Result<()> {
        for round in 0.. {
            drop_own(pages);
            join_pool(pages);
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

/// Pages that this transaction wrote early and dropped again: nobody else ever saw them.
fn drop_own(pages: &mut WritePages) {
    let txn = pages.txn;
    if pages.freed.iter().all(|freed| freed.birth != txn) {
        return;
    }
    for freed in std::mem::take(&mut pages.freed) {
        if freed.birth == txn {
            if let Some(bytes) = pages.extents.remove(&freed.run.start) {
                pages.extent_bytes -= bytes.len();
            }
            pages.space.pool.push(freed.run);
        } else {
            pages.freed.push(freed);
        }
    }
}

fn damaged_entry(pages: &WritePages, tree: &Tree) -> Error {
    pages.corrupt(tree.root.page, "an entry of the free-space trees that no store wrote")
}

/// Makes sure that nothing is free twice, and nothing that this transaction has just let go of:
/// what a damaged file says of its free space may not cost pages that are known to be in use.
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

/// Sorts the pool and joins neighbours.
fn join_pool(pages: &mut WritePages) {
    join_neighbours(&mut pages.space.pool);
}

/// From how many on freed runs are sorted digit by digit.
const MANY_FREED: usize = 512;
/// The bits of such a digit.
const DIGIT: u32 = 11;

/// Sorts freed runs by where they start; many of them, as a range or a table leaves them, by the
/// digits of that number, the lowest first.
fn sort_freed(freed: &mut Vec<Freed>) {
    if freed.is_sorted_by_key(|freed| freed.run.start) {
        return;
    }
    if freed.len() < MANY_FREED {
        return freed.sort_unstable_by_key(|freed| freed.run.start);
    }
    let most = freed.iter().map(|freed| freed.run.start).max().unwrap_or(0);
    let mut sorted = freed.clone();
    for shift in (0..PageNo::BITS).step_by(DIGIT as usize).take_while(|shift| most >> shift > 0) {
        let digit = |freed: &Freed| (freed.run.start >> shift) as usize & ((1 << DIGIT) - 1);
        let mut places = [0_u32; 1 << DIGIT];
        freed.iter().for_each(|freed| places[digit(freed)] += 1);
        let mut before = 0;
        for place in &mut places {
            before += std::mem::replace(place, before);
        }
        for freed in freed.iter() {
            let place = &mut places[digit(freed)];
            sorted[*place as usize] = *freed;
            *place += 1;
        }
        std::mem::swap(freed, &mut sorted);
    }
}

fn join_freed(freed: &mut Vec<Freed>) {
    sort_freed(freed);
    freed.dedup_by(|next, before| {
        let joins =
            before.run.start + before.run.len == next.run.start && before.birth == next.birth;
        if joins {
            before.run.len += next.run.len;
        }
        joins
    });
}

fn freed_run(freed: Freed, txn: u64) -> FreeRun {
    FreeRun { run: freed.run, birth: freed.birth, freed: txn }
}

/// The runs of the pool from which `need` pages are numbered, in ascending order of their starts.
fn numbering_runs(pool: &[Run], need: u32) -> Vec<usize> {
    let mut chosen = choose_runs(pool, need, true);
    chosen.sort_unstable();
    chosen
}

/// The runs of the pool from which a commit numbers `need` pages.
pub(crate) fn runs_for_commit(pages: &WritePages, need: u32) -> Vec<usize> {
    match &pages.space.lowest_first {
        Some(avoid) => lowest_runs(&pages.space.pool, need, avoid),
        None => numbering_runs(&pages.space.pool, need),
    }
}

/// The other runs of the pool, in ascending order of their indices.
fn spare_runs(pool: &[Run], chosen: &[usize]) -> Vec<usize> {
    (0..pool.len()).filter(|i| chosen.binary_search(i).is_err()).collect()
}

/// The end of the store after `more` pages were added to it.
fn end_after(pages: &WritePages, more: u32) -> Result<PageNo> {
    let end = pages.base.end.checked_add(more).filter(|end| *end <= pages.space.max_pages);
    end.ok_or_else(|| pages.store_full())
}

fn extend_end(pages: &mut WritePages, more: u32) -> Result<()> {
    if more > 0 {
        let start = pages.base.end;
        pages.base.end = end_after(pages, more)?;
        pages.space.pool.push(Run { start, len: more });
    }
    Ok(())
}

/// An entry of the ready tree; `None` if no store wrote it.
pub(crate) fn ready_entry(key: &[u8], value: &[u8]) -> Option<Run> {
    let start = u32::from_be_bytes(key.try_into().ok()?);
    let len = u32::from_be_bytes(value.try_into().ok()?);
    start.checked_add(len)?;
    (len > 0 && start >= FIRST_PAGE).then_some(Run { start, len })
}

#[path = "free/low.rs"]
pub(crate) mod low;
#[path = "free/pending.rs"]
mod pending;
#[path = "free/recent.rs"]
mod recent;

#[cfg(test)]
#[path = "free/tests.rs"]
mod tests;
