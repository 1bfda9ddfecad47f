//! Free space as compaction takes it: the lowest pages first. The transaction has no savepoints, so
//! that the trees of free space may be changed while it runs.

use super::*;

impl FreeState {
    /// Prepares a transaction that moves pages: what is free is noted in the ready tree, and the
    /// lowest pages are taken from there.
    pub(crate) fn begin_compaction(&mut self, pages: &mut WritePages) -> Result<()> {
        pages.space.lowest_first = true;
        self.release_pending(pages, usize::MAX)?;
        let recent = std::mem::take(&mut self.recent);
        let (mut ready, held): (Vec<_>, Vec<_>) = recent.into_iter().partition(|f| !self.holds(f));
        self.recent = held;
        for free in &mut ready {
            (free.birth, free.freed) = (0, 0);
        }
        join_neighbours(&mut ready);
        ready.into_iter().try_for_each(|free| self.put_ready(pages, free.run))
    }

    /// How many pages before `limit` are free, at most about `most`.
    pub(crate) fn low_pages(&self, pages: &WritePages, limit: PageNo, most: u32) -> Result<u32> {
        let mut sum = 0_u32;
        scan_plain(pages, &self.ready, &[], &mut |key, value| {
            let Some(run) = ready_entry(key, value).filter(|run| run.start < limit) else {
                return false;
            };
            if !self.taken.contains(&run.start) {
                sum = sum.saturating_add(run.len.min(limit - run.start));
            }
            sum < most
        })?;
        Ok(sum)
    }

    /// Takes the lowest runs of the ready tree; returns how many pages are still missing.
    pub(super) fn take_lowest(&mut self, pages: &mut WritePages, missing: u32) -> Result<u32> {
        let mut found = Vec::new();
        let mut left = missing;
        let taken = &self.taken;
        scan_plain(pages, &self.ready, &[], &mut |key, value| {
            let Some(run) = ready_entry(key, value) else { return false };
            if left > 0 && !taken.contains(&run.start) {
                left = left.saturating_sub(run.len);
                found.push(run);
            }
            left > 0
        })?;
        for run in found {
            self.take_run(pages, run);
        }
        Ok(left)
    }

    fn take_run(&mut self, pages: &mut WritePages, run: Run) {
        self.taken.insert(run.start);
        self.ready_pages = self.ready_pages.saturating_sub(u64::from(run.len));
        pages.space.pool.push(run);
    }

    /// Takes the lowest `len` free pages side by side that all lie before `limit`, if there are
    /// any.
    pub(crate) fn take_low(
        &mut self,
        pages: &mut WritePages,
        len: u32,
        limit: PageNo,
    ) -> Result<Option<PageNo>> {
        let fits = |run: &Run| run.len >= len && run.start + len <= limit;
        let mut best = pages.space.pool.iter().copied().filter(fits).min_by_key(|run| run.start);
        let taken = &self.taken;
        let mut in_tree = None;
        scan_plain(pages, &self.ready, &[], &mut |key, value| {
            in_tree =
                ready_entry(key, value).filter(|run| fits(run) && !taken.contains(&run.start));
            in_tree.is_none() && ready_entry(key, value).is_some_and(|run| run.start < limit)
        })?;
        if let Some(run) = in_tree.filter(|run| best.is_none_or(|best| run.start < best.start)) {
            self.take_run(pages, run);
            best = Some(run);
        }
        let Some(run) = best else { return Ok(None) };
        pages.space.pool.retain(|other| *other != run);
        if run.len > len {
            pages.space.pool.push(Run { start: run.start + len, len: run.len - len });
        }
        pages.base.forget(Run { start: run.start, len });
        Ok(Some(run.start))
    }
}
