//! The recent list: free runs that stand in the meta record. Small commits take their pages from
//! it.

use super::*;

/// A free run of at most this many pages is a gap, which takes pages that need no neighbours.
const GAP_PAGES: u32 = 2;
/// With fewer of them in the recent list a small commit looks for more.
const GAPS_MIN: usize = 8;

/// Free runs that are in neither tree.
///
/// Each commit goes through them. So those that may be written stand apart from those that a
/// snapshot may hold, of which most commits look at the ones that the commit before has freed only:
/// see [`FreeState::release_recent`].
#[derive(Default)]
pub(crate) struct Recent {
    /// Runs that no snapshot holds: ascending, neighbours joined.
    pub(super) open: Vec<Run>,
    /// Runs that a snapshot held when they were looked at last.
    pub(super) held: Vec<FreeRun>,
    /// The protected snapshots of this transaction.
    protected: Vec<u64>,
    /// Whether this transaction has looked at what is held, and whether it is to look at all of it.
    is_looked_at: bool,
    looks_at_all: bool,
}

impl Recent {
    /// The list of a record.
    pub(super) fn new(list: &[FreeRun]) -> Self {
        let (open, held): (Vec<FreeRun>, Vec<FreeRun>) =
            list.iter().partition(|free| free.freed == 0);
        let mut open = open.into_iter().map(|free| free.run).collect();
        join_neighbours(&mut open);
        Self { open, held, ..Self::default() }
    }

    /// A transaction begins under these snapshots; the one before followed commit `last`.
    pub(super) fn begin(&mut self, last: u64, protected: &[u64]) {
        let stays = |before: &u64| *before == last || protected.binary_search(before).is_ok();
        let all_stay = self.protected.iter().all(stays);
        self.looks_at_all = !(std::mem::take(&mut self.is_looked_at) && all_stay);
        self.protected.clear();
        self.protected.extend_from_slice(protected);
    }

    /// How many runs they are.
    pub(super) fn len(&self) -> usize {
        self.open.len() + self.held.len()
    }

    /// How many pages they have.
    pub(super) fn pages(&self) -> u64 {
        let held = self.held.iter().map(|free| u64::from(free.run.len)).sum::<u64>();
        held + self.open.iter().map(|run| u64::from(run.len)).sum::<u64>()
    }

    /// Puts the list, as a record has it, in the place of what `list` has.
    pub(crate) fn copy_to(&self, list: &mut Vec<FreeRun>) {
        list.clear();
        list.extend(self.open.iter().map(|run| FreeRun { run: *run, birth: 0, freed: 0 }));
        list.extend_from_slice(&self.held);
    }
}

/// Adds a run to an ascending list, joined with its neighbours there; where it stands.
pub(super) fn note_open(open: &mut Vec<Run>, run: Run) -> usize {
    let at = open.partition_point(|other| other.start < run.start);
    let joins = |a: &Run, b: &Run| a.start + a.len == b.start;
    let with_next = open.get(at).is_some_and(|next| joins(&run, next));
    let with_last = at > 0 && joins(&open[at - 1], &run);
    match (with_last, with_next) {
        (true, true) => open[at - 1].len += run.len + open.remove(at).len,
        (true, false) => open[at - 1].len += run.len,
        (false, true) => open[at] = Run { start: run.start, len: run.len + open[at].len },
        (false, false) => open.insert(at, run),
    }
    if with_last { at - 1 } else { at }
}

/// Sorts runs and joins neighbours.
pub(super) fn join_neighbours(runs: &mut Vec<Run>) {
    // They come as two or three ascending lists, which a stable sort merges.
    runs.sort_by_key(|run| run.start);
    runs.dedup_by(|next, before| {
        let joins = before.start + before.len == next.start;
        if joins {
            before.len += next.len;
        }
        joins
    });
}

/// What a small commit takes: indices of runs and how many pages of each.
#[derive(Default)]
struct Taken {
    runs: [(usize, u32); SMALL_PAGES as usize],
    len: usize,
}

impl Taken {
    /// Adds a run; a commit of few pages has no more of them.
    fn add(&mut self, at: usize, pages: u32) {
        self.runs[self.len] = (at, pages);
        self.len += 1;
    }

    fn ascending(&mut self) -> &[(usize, u32)] {
        let taken = &mut self.runs[..self.len];
        taken.sort_unstable();
        taken
    }
}

impl FreeState {
    pub(super) fn recent_ready_pages(&self) -> u64 {
        let let_go = self.recent.held.iter().filter(|free| !self.holds(free));
        let ready = let_go.map(|free| free.run).chain(self.recent.open.iter().copied());
        ready.map(|run| u64::from(run.len)).sum()
    }

    /// Free pages that a protected snapshot still uses.
    pub(crate) fn held_pages(&self) -> u64 {
        let held = self.recent.held.iter().filter(|free| self.holds(free));
        self.pending.pages + held.map(|free| u64::from(free.run.len)).sum::<u64>()
    }

    /// Takes the pages of a small commit from the recent list: `hot` of them from one run, the
    /// others from the shortest runs. So pages that the next commit writes again stay together, and
    /// pages that last fill the gaps. Returns false, taking nothing, if there are not enough gaps.
    pub(super) fn take_hot_and_cold(
        &mut self,
        pages: &mut WritePages,
        need: u32,
        hot: u32,
        fresh: Option<usize>,
    ) -> bool {
        let is_long = fresh.is_some_and(|at| self.recent.open[at].len >= need);
        if is_long || hot >= need || pages.space.lowest_first.is_some() {
            return false;
        }
        let hot_at = if hot > 0 { self.choose_recent(fresh, hot) } else { None };
        if hot > 0 && hot_at.is_none() {
            return false;
        }
        let mut cold = need - hot;
        let mut taken = Taken::default();
        hot_at.into_iter().for_each(|at| taken.add(at, hot));
        for len in 1..=GAP_PAGES {
            let gaps = self.recent.open.iter().enumerate();
            let gaps = gaps.filter(|(at, run)| run.len == len && Some(*at) != hot_at);
            for (at, _) in gaps.take(cold.div_ceil(len) as usize) {
                taken.add(at, cold.min(len));
                cold = cold.saturating_sub(len);
            }
        }
        if cold > 0 {
            return false;
        }
        // From the back, so that what is still to be taken stays where it is.
        for (at, len) in taken.ascending().iter().rev() {
            self.cut_recent(pages, *at, 0, *len);
        }
        true
    }

    /// Takes runs of the recent list; returns how many pages are still missing.
    pub(super) fn take_recent(
        &mut self,
        pages: &mut WritePages,
        missing: u32,
        scattered: bool,
        fresh: Option<usize>,
    ) -> u32 {
        if pages.space.lowest_first.is_none()
            && let Some(at) = self.choose_recent(fresh, missing)
        {
            // A run that begins where the last commit ended is begun in its middle: so the pages of
            // that commit, once they are free, have free pages after them.
            let run = self.recent.open[at];
            let half = run.len / 2;
            let is_behind = run.start == self.behind && run.len - half >= missing;
            self.cut_recent(pages, at, if is_behind { half } else { 0 }, missing);
            return 0;
        }
        let runs = &self.recent.open;
        let mut chosen = match &pages.space.lowest_first {
            Some(avoid) => lowest_runs(runs, missing, avoid),
            None => choose_runs(runs, missing, scattered),
        };
        chosen.sort_unstable();
        let mut left = missing;
        for at in chosen.into_iter().rev() {
            left = left.saturating_sub(self.recent.open[at].len);
            self.cut_recent(pages, at, 0, u32::MAX);
        }
        left
    }

    /// Opens the runs of the recent list that no snapshot holds any more; of those that are free
    /// since the commit before, the longest.
    ///
    /// If the only snapshot that has gone is the one before the newest, only pages that the newest
    /// commit has freed can have become free: everything else that it held is held by another
    /// snapshot, too.
    pub(super) fn release_recent(&mut self) -> Option<usize> {
        let (newest, protected) = (self.newest, &self.protected);
        let Recent { open, held, is_looked_at, looks_at_all, .. } = &mut self.recent;
        let is_let_go = |free: &FreeRun| !is_held(protected, free.birth, free.freed);
        *is_looked_at = true;
        if std::mem::take(looks_at_all) {
            for free in held.extract_if(.., |free| free.freed != newest && is_let_go(free)) {
                note_open(open, free.run);
            }
        }
        let mut longest: Option<Run> = None;
        for free in held.extract_if(.., |free| free.freed == newest && is_let_go(free)) {
            let at = note_open(open, free.run);
            if longest.is_none_or(|longest| open[at].len >= longest.len) {
                longest = Some(open[at]);
            }
        }
        longest.and_then(|run| open.binary_search_by_key(&run.start, |open| open.start).ok())
    }

    /// The one run of the recent list that is best for `need` pages, if one is long enough: what is
    /// free since the commit before, so that small commits alternate between two places; else the
    /// shortest.
    pub(super) fn choose_recent(&self, fresh: Option<usize>, need: u32) -> Option<usize> {
        let open = &self.recent.open;
        if let Some(at) = fresh.filter(|at| open[*at].len >= need) {
            return Some(at);
        }
        let enough = open.iter().enumerate().filter(|(_, run)| run.len >= need);
        enough.min_by_key(|(_, run)| run.len).map(|(at, _)| at)
    }

    /// Takes up to `len` pages of a run of the recent list, after its first `skip` pages.
    pub(super) fn cut_recent(&mut self, pages: &mut WritePages, at: usize, skip: u32, len: u32) {
        let open = &mut self.recent.open;
        let run = open[at];
        let len = len.min(run.len - skip);
        pages.space.pool.push(Run { start: run.start + skip, len });
        let (behind, rest) = (run.start + skip + len, run.len - skip - len);
        match (skip, rest) {
            (0, 0) => drop(open.remove(at)),
            (0, rest) => open[at] = Run { start: behind, len: rest },
            (skip, 0) => open[at].len = skip,
            (skip, rest) => {
                open[at].len = skip;
                open.insert(at + 1, Run { start: behind, len: rest });
            }
        }
    }

    /// Whether too few gaps are left, so that a small commit looks for more.
    pub(super) fn is_short_of_gaps(&self) -> bool {
        let mut gaps = self.recent.open.iter().filter(|run| run.len <= GAP_PAGES);
        gaps.nth(GAPS_MIN - 1).is_none()
    }
}
