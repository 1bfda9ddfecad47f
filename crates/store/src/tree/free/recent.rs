//! The recent list: free runs that stand in the meta record. Small commits live from it.

use super::*;

/// A free run of at most this many pages is a gap, which takes pages that need no neighbours.
const GAP_PAGES: u32 = 2;
/// With fewer of them in the recent list a small commit looks for more.
const GAPS_MIN: usize = 8;

/// Sorts runs and joins neighbours that have the same interval.
pub(super) fn join_neighbours(runs: &mut Vec<FreeRun>) {
    // They come as two or three ascending lists, which a stable sort merges.
    runs.sort_by_key(|free| free.run.start);
    runs.dedup_by(|next, before| {
        let joins = before.run.start + before.run.len == next.run.start
            && (before.birth, before.freed) == (next.birth, next.freed);
        if joins {
            before.run.len += next.run.len;
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

/// Whether a run of the recent list is a gap that may be filled.
fn is_gap(free: &FreeRun) -> bool {
    free.freed == 0 && free.run.len <= GAP_PAGES
}

impl FreeState {
    /// Adds a run to the recent list, joined with its neighbours there.
    pub(super) fn note_recent(&mut self, free: FreeRun) {
        let recent = &mut self.recent;
        let at = recent.partition_point(|other| other.run.start < free.run.start);
        let joins = |a: &FreeRun, b: &FreeRun| {
            a.run.start + a.run.len == b.run.start && (a.birth, a.freed) == (b.birth, b.freed)
        };
        let with_next = recent.get(at).is_some_and(|next| joins(&free, next));
        let with_last = at > 0 && joins(&recent[at - 1], &free);
        match (with_last, with_next) {
            (true, true) => recent[at - 1].run.len += free.run.len + recent.remove(at).run.len,
            (true, false) => recent[at - 1].run.len += free.run.len,
            (false, true) => {
                recent[at].run = Run { len: free.run.len + recent[at].run.len, ..free.run };
            }
            (false, false) => recent.insert(at, free),
        }
    }

    pub(super) fn recent_ready_pages(&self) -> u64 {
        let ready = self.recent.iter().filter(|free| free.freed == 0 || !self.holds(free));
        ready.map(|free| u64::from(free.run.len)).sum()
    }

    /// Takes the pages of a small commit from the recent list: `hot` of them from one run, the
    /// others from the shortest runs. So what the next commit writes again stays together, and what
    /// stays behind fills the gaps. False, and nothing is taken, if there are not enough gaps.
    pub(super) fn take_hot_and_cold(
        &mut self,
        pages: &mut WritePages,
        need: u32,
        hot: u32,
        fresh: Option<usize>,
    ) -> bool {
        let is_long = fresh.is_some_and(|at| self.recent[at].run.len >= need);
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
            let gaps = self.recent.iter().enumerate();
            let gaps = gaps
                .filter(|(at, free)| is_gap(free) && free.run.len == len && Some(*at) != hot_at);
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
            // that commit, once they are free, have free pages behind them.
            let run = self.recent[at].run;
            let half = run.len / 2;
            let is_behind = run.start == self.behind && run.len - half >= missing;
            self.cut_recent(pages, at, if is_behind { half } else { 0 }, missing);
            return 0;
        }
        let free: Vec<usize> =
            (0..self.recent.len()).filter(|i| self.recent[*i].freed == 0).collect();
        let runs: Vec<Run> = free.iter().map(|i| self.recent[*i].run).collect();
        let mut chosen = match &pages.space.lowest_first {
            Some(avoid) => lowest_runs(&runs, missing, avoid),
            None => choose_runs(&runs, missing, scattered),
        };
        chosen.sort_unstable();
        let mut left = missing;
        for i in chosen.into_iter().rev() {
            left = left.saturating_sub(runs[i].len);
            self.cut_recent(pages, free[i], 0, u32::MAX);
        }
        left
    }

    /// Joins those of the recent list that nobody holds any more; of those that are free since the
    /// commit before, the longest.
    pub(super) fn release_recent(&mut self) -> Option<usize> {
        let (mut kept, mut fresh, mut is_fresh) = (0_usize, None::<usize>, false);
        for i in 0..self.recent.len() {
            let free = self.recent[i];
            if free.freed != 0 && self.holds(&free) {
                self.recent[kept] = free;
                kept += 1;
                continue;
            }
            let last = kept.checked_sub(1).map(|last| self.recent[last]);
            let joins = last.is_some_and(|last| {
                last.freed == 0 && last.run.start + last.run.len == free.run.start
            });
            if joins {
                self.recent[kept - 1].run.len += free.run.len;
            } else {
                self.recent[kept] = FreeRun { run: free.run, birth: 0, freed: 0 };
                kept += 1;
            }
            is_fresh = joins && is_fresh || free.freed == self.newest;
            let longest = fresh.map_or(0, |at| self.recent[at].run.len);
            if is_fresh && self.recent[kept - 1].run.len >= longest {
                fresh = Some(kept - 1);
            }
        }
        self.recent.truncate(kept);
        fresh
    }

    /// The one run of the recent list that is best for `need` pages, if one is long enough: what is
    /// free since the commit before, so that small commits alternate between two places; else the
    /// shortest.
    pub(super) fn choose_recent(&self, fresh: Option<usize>, need: u32) -> Option<usize> {
        if let Some(at) = fresh.filter(|at| self.recent[*at].run.len >= need) {
            return Some(at);
        }
        let free = self.recent.iter().enumerate().filter(|(_, free)| free.freed == 0);
        let enough = free.filter(|(_, free)| free.run.len >= need);
        enough.min_by_key(|(_, free)| free.run.len).map(|(at, _)| at)
    }

    /// Takes up to `len` pages of a run of the recent list, behind the first `skip` of it.
    pub(super) fn cut_recent(&mut self, pages: &mut WritePages, at: usize, skip: u32, len: u32) {
        let run = self.recent[at].run;
        let len = len.min(run.len - skip);
        let part = |start: PageNo, len| FreeRun { run: Run { start, len }, birth: 0, freed: 0 };
        pages.space.pool.push(Run { start: run.start + skip, len });
        let (behind, rest) = (run.start + skip + len, run.len - skip - len);
        match (skip, rest) {
            (0, 0) => drop(self.recent.remove(at)),
            (0, rest) => self.recent[at] = part(behind, rest),
            (skip, 0) => self.recent[at] = part(run.start, skip),
            (skip, rest) => {
                self.recent[at] = part(run.start, skip);
                self.recent.insert(at + 1, part(behind, rest));
            }
        }
    }

    /// Whether so few gaps are left that a small commit looks for more.
    pub(super) fn is_short_of_gaps(&self) -> bool {
        self.recent.iter().filter(|free| is_gap(free)).nth(GAPS_MIN - 1).is_none()
    }
}
