//! Room for extents: long values and keys need pages side by side, and want them while the
//! transaction runs. Nothing here changes a tree, so that it works under savepoints, too.

use super::*;

/// How many pending runs the first extent of a transaction looks at.
const RELEASED_FIRST: usize = 256;
/// The most pending runs that one extent looks at before the store grows for it.
const RELEASED_MOST: usize = 4096;

impl FreeState {
    /// Ensures that the open runs have room for extents of these lengths, in this order, if there
    /// are such free runs at all.
    pub(crate) fn open_room(&mut self, pages: &mut WritePages, wanted: &[u32]) -> Result<()> {
        if !std::mem::replace(&mut self.has_looked, true) {
            self.release_recent();
            self.release_pending(pages, RELEASED_FIRST)?;
        }
        for run in std::mem::take(&mut pages.space.pool) {
            pages.open_run(run)?;
        }
        let mut taken = Vec::new();
        for len in wanted {
            self.open_run_of(pages, *len)?;
            // So that the next one does not count on it.
            if wanted.len() > 1 {
                taken.extend(pages.space.open.take(*len));
            }
        }
        taken.into_iter().try_for_each(|run| pages.open_run(run))
    }

    /// Opens a run of at least `len` pages: the lowest of those that are free, else one that is
    /// made of neighbours, else one that was held until now. If there is none, the store grows.
    fn open_run_of(&mut self, pages: &mut WritePages, len: u32) -> Result<()> {
        let mut work = RELEASED_FIRST;
        while !self.open_lowest(pages, len)? {
            self.open_neighbours(pages)?;
            if pages.space.open.lowest(len).is_some() {
                break;
            }
            if work > RELEASED_MOST || !self.release_pending(pages, work)? {
                break;
            }
            work *= 4;
        }
        Ok(())
    }

    /// Opens the lowest free run of at least `len` pages; false if there is none.
    fn open_lowest(&mut self, pages: &mut WritePages, len: u32) -> Result<bool> {
        let open = pages.space.open.lowest(len);
        // The list ascends.
        let recent = self.recent.open.iter().position(|run| run.len >= len);
        let recent_run = recent.map(|at| self.recent.open[at]);
        let ready = self.lowest_ready(pages, len)?;
        let all = [open, recent_run, ready];
        let lowest = all.into_iter().flatten().min_by_key(|run| run.start);
        if let Some(run) = lowest.filter(|run| Some(*run) != open) {
            match recent {
                Some(at) if lowest == recent_run => drop(self.recent.open.remove(at)),
                _ => self.take_run(run),
            }
            pages.open_run(run)?;
        }
        Ok(lowest.is_some())
    }

    /// Opens the recent list and the adjoining runs of the ready tree, so that neighbours that are
    /// noted in different places become one run.
    fn open_neighbours(&mut self, pages: &mut WritePages) -> Result<()> {
        for run in std::mem::take(&mut self.recent.open) {
            pages.open_run(run)?;
            if self.ready.pages == 0 {
                continue;
            }
            let end = run.start + run.len;
            let before = self.ready_before(pages, run.start)?;
            let before = before.filter(|before| before.start + before.len == run.start);
            let after = self.ready_from(pages, end)?.filter(|after| after.start == end);
            for touching in before.into_iter().chain(after) {
                if !self.ready.taken.contains(&touching.start) {
                    self.take_run(touching);
                    pages.open_run(touching)?;
                }
            }
        }
        Ok(())
    }

    /// At the commit: what is open and was not used goes to the recent list.
    pub(super) fn close_room(&mut self, pages: &mut WritePages) {
        if pages.space.open.is_empty() {
            return;
        }
        self.recent.open.extend(pages.space.open.drain());
        join_neighbours(&mut self.recent.open);
    }
}
