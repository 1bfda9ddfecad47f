//! Free space as compaction takes it, and every transaction after the disk was full: the lowest
//! pages first. A transaction of compaction has no savepoints, so that the trees of free space may
//! be changed while it runs.

use std::ops::Range;

use super::*;
use crate::tree::pages::Pages;

impl FreeState {
    /// Prepares a transaction that has not changed anything: what is free is noted in the ready
    /// tree, and the lowest pages are taken from there, those in `avoid` only if there are no
    /// others.
    pub(crate) fn take_lowest_first(
        &mut self,
        pages: &mut WritePages,
        avoid: Range<PageNo>,
    ) -> Result<()> {
        pages.space.lowest_first = Some(avoid);
        self.release_pending(pages, usize::MAX)?;
        self.file_released(pages)?;
        self.join_recent(pages)
    }

    /// How many pages before `limit` are free, at most about `most`.
    pub(crate) fn low_pages(&self, pages: &WritePages, limit: PageNo, most: u32) -> Result<u32> {
        let mut sum = 0_u32;
        self.scan_ready(pages, 0, &mut |run| {
            if run.start >= limit {
                return false;
            }
            if !self.ready.taken.contains(&run.start) {
                sum = sum.saturating_add(run.len.min(limit - run.start));
            }
            sum < most
        })?;
        Ok(sum)
    }

    /// Takes the lowest runs of the ready tree; returns how many pages are still missing.
    pub(super) fn take_lowest(
        &mut self,
        pages: &mut WritePages,
        missing: u32,
        avoid: &Range<PageNo>,
    ) -> Result<u32> {
        let mut left = missing;
        for avoided in [false, true] {
            let mut found = Vec::new();
            let taken = &self.ready.taken;
            self.scan_ready(pages, 0, &mut |run| {
                if left == 0 {
                    return false;
                }
                if !taken.contains(&run.start) && avoid.contains(&run.start) == avoided {
                    left = left.saturating_sub(run.len);
                    found.push(run);
                }
                true
            })?;
            for run in found {
                self.take_run(run);
                pages.space.pool.push(run);
            }
        }
        Ok(left)
    }

    /// Takes the lowest `len` free pages side by side that all lie before `limit` and outside of
    /// the range to avoid, if there are any.
    pub(crate) fn take_low(
        &mut self,
        pages: &mut WritePages,
        len: u32,
        limit: PageNo,
    ) -> Result<Option<PageNo>> {
        let avoid = pages.space.lowest_first.clone().unwrap_or(0..0);
        let place = |run: Run| place_in(run, len, limit, &avoid);
        let in_pool =
            pages.space.pool.iter().filter_map(|run| Some((place(*run)?, *run))).min_by_key(key);
        let taken = &self.ready.taken;
        let mut in_tree = None;
        self.scan_ready(pages, 0, &mut |run| {
            if run.start >= limit {
                return false;
            }
            if !taken.contains(&run.start) {
                in_tree = place(run).map(|start| (start, run));
            }
            in_tree.is_none()
        })?;
        let Some((start, run)) = in_pool.into_iter().chain(in_tree).min_by_key(key) else {
            return Ok(None);
        };
        if in_tree == Some((start, run)) {
            self.take_run(run);
        }
        pages.space.pool.retain(|other| *other != run);
        let (behind, end) = (start + len, run.start + run.len);
        let rests = [(run.start, start), (behind, end)].into_iter().filter(|(from, to)| from < to);
        pages.space.pool.extend(rests.map(|(from, to)| Run { start: from, len: to - from }));
        pages.base.forget(Run { start, len });
        Ok(Some(start))
    }
}

fn key((start, _): &(PageNo, Run)) -> PageNo {
    *start
}

/// The first place in a run for `len` pages before `limit` and outside of `avoid`.
fn place_in(run: Run, len: u32, limit: PageNo, avoid: &Range<PageNo>) -> Option<PageNo> {
    let end = (run.start + run.len).min(limit);
    let fits = |start: PageNo, end: PageNo| end.checked_sub(start).is_some_and(|room| room >= len);
    if avoid.is_empty() {
        return fits(run.start, end).then_some(run.start);
    }
    if fits(run.start, end.min(avoid.start)) {
        return Some(run.start);
    }
    let behind = run.start.max(avoid.end);
    fits(behind, end).then_some(behind)
}

/// Of the ranges of `size` pages before `limit`, the one with the most free pages, and their
/// number. Only the ready tree of a commit is considered.
pub(crate) fn freest_range<P: Pages>(
    pages: &P,
    ready: &Tree,
    limit: PageNo,
    size: u32,
) -> Result<(Range<PageNo>, u32)> {
    let size = size.max(1);
    let mut free = vec![0_u32; (limit / size) as usize + 1];
    scan_plain(pages, ready, &[], &mut |key, value| {
        let Some(run) = ready_entry(key, value).filter(|run| run.start < limit) else {
            return false;
        };
        let end = (run.start + run.len).min(limit);
        for range in run.start / size..=(end - 1) / size {
            let (from, to) = (range * size, range.saturating_add(1).saturating_mul(size));
            let more = end.min(to) - run.start.max(from);
            // The runs of a damaged tree may overlap.
            free[range as usize] = free[range as usize].saturating_add(more);
        }
        true
    })?;
    let best = (0..free.len()).max_by_key(|i| free[*i]).unwrap_or(0);
    let start = best as u32 * size;
    Ok((start..start.saturating_add(size).min(limit), free[best]))
}
