//! The ready tree: free runs that no snapshot holds, by their start, neighbours joined; and in
//! memory, once they are asked for, their lengths.

use std::collections::BTreeSet;

use super::runs::Lengths;
use super::*;

/// How many entries of the ready tree one search looks at, at least.
const LOOKED_AT_MIN: usize = 64;
/// ... and for each page that a commit of many pages needs, where scattered ones are welcome: it
/// takes the longest runs, so that the disk has fewer pieces to write.
const LOOKED_AT_EACH: usize = 16;
/// It leaves this many pages, in the longest runs, to smaller commits.
const LEFT_PAGES: u32 = 256;
/// A run of this many pages is as good as any longer one.
const GOOD_RUN: u32 = 32;

/// The ready tree, and what a transaction knows of it.
pub(crate) struct Ready {
    pub(crate) tree: Tree,
    /// Its pages, not counting those in `taken`.
    pub(crate) pages: u64,
    /// Where the next search begins.
    pub(crate) hint: PageNo,
    /// Starts of runs that were taken and still stand in the tree.
    pub(super) taken: BTreeSet<PageNo>,
    /// The other runs by their length, once a run was looked for by that.
    pub(super) lengths: Option<Lengths>,
}

impl Ready {
    /// As a commit left it.
    pub(super) fn new(meta: &Meta) -> Self {
        Self {
            tree: Tree::new(meta.ready, Form::PLAIN),
            pages: meta.free.ready,
            hint: 0,
            taken: BTreeSet::new(),
            lengths: None,
        }
    }
}

impl FreeState {
    /// Takes runs of the ready tree, next fit; returns how many pages are still missing.
    pub(super) fn take_ready(
        &mut self,
        pages: &mut WritePages,
        missing: u32,
        scattered: bool,
    ) -> Result<u32> {
        if self.ready.pages == 0 {
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
        for (from, upper) in [(self.ready.hint, PageNo::MAX), (0, self.ready.hint)] {
            let taken = &self.ready.taken;
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
            self.ready.hint = last.start + last.len;
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
            if left > 0 {
                left = left.saturating_sub(run.len);
                self.take_run(*run);
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
            self.take_run(runs[i]);
            pages.space.pool.push(runs[i]);
        }
        left
    }

    /// Notes that a run of the ready tree is taken; it stands there until the commit.
    pub(super) fn take_run(&mut self, run: Run) {
        if self.ready.taken.insert(run.start) {
            self.ready.pages = self.ready.pages.saturating_sub(u64::from(run.len));
            self.note_length(run, false);
        }
    }

    /// Removes the runs that were taken from the ready tree.
    pub(super) fn remove_taken(&mut self, pages: &mut WritePages) -> Result<()> {
        for start in std::mem::take(&mut self.ready.taken) {
            if !delete_plain(pages, &mut self.ready.tree, &start.to_be_bytes())? {
                let what = "free pages that are not listed as free";
                return Err(pages.base.file.corrupt(start, what));
            }
        }
        Ok(())
    }

    /// The lowest of the ready runs of at least `len` pages. The first time all of the tree is
    /// read; from then on its lengths are known, also to the transactions that follow, until
    /// another process commits.
    pub(super) fn lowest_ready(&mut self, pages: &WritePages, len: u32) -> Result<Option<Run>> {
        if self.ready.pages < u64::from(len) {
            return Ok(None);
        }
        if self.ready.lengths.is_none() {
            let (mut lengths, taken) = (Lengths::default(), &self.ready.taken);
            self.scan_ready(pages, 0, &mut |run| {
                if !taken.contains(&run.start) {
                    lengths.insert(run);
                }
                true
            })?;
            self.ready.lengths = Some(lengths);
        }
        Ok(self.ready.lengths.as_ref().and_then(|lengths| lengths.lowest(len)))
    }

    /// Keeps the lengths in step with the tree, if they are known.
    fn note_length(&mut self, run: Run, is_there: bool) {
        if let Some(lengths) = &mut self.ready.lengths {
            if is_there { lengths.insert(run) } else { lengths.remove(run) }
        }
    }

    /// Removes a run from the ready tree for good.
    pub(super) fn delete_ready(&mut self, pages: &mut WritePages, run: Run) -> Result<()> {
        delete_plain(pages, &mut self.ready.tree, &run.start.to_be_bytes())?;
        self.ready.pages = self.ready.pages.saturating_sub(u64::from(run.len));
        self.note_length(run, false);
        Ok(())
    }

    /// Calls `f` with the runs of the ready tree from `from` on, until it returns false.
    pub(super) fn scan_ready(
        &self,
        pages: &WritePages,
        from: PageNo,
        f: &mut dyn FnMut(Run) -> bool,
    ) -> Result<()> {
        let (mut is_whole, end) = (true, pages.base.end);
        scan_plain(pages, &self.ready.tree, &from.to_be_bytes(), &mut |key, value| {
            let run = ready_entry(key, value).filter(|run| run.start + run.len <= end);
            is_whole = run.is_some();
            run.is_some_and(&mut *f)
        })?;
        if is_whole { Ok(()) } else { Err(damaged_entry(pages, &self.ready.tree)) }
    }

    /// Notes a run in the ready tree, joined with its neighbours there.
    pub(super) fn put_ready(&mut self, pages: &mut WritePages, run: Run) -> Result<()> {
        let before = self.ready_before(pages, run.start)?;
        let after = self.ready_from(pages, run.start)?;
        let end = run.start + run.len;
        if before.is_some_and(|b| b.start + b.len > run.start)
            || after.is_some_and(|a| a.start < end)
        {
            return Err(pages.base.file.corrupt(run.start, "a page that is free twice"));
        }
        let mut whole = run;
        if let Some(after) = after.filter(|after| after.start == end) {
            whole.len += after.len;
            self.delete_ready(pages, after)?;
        }
        if let Some(before) = before.filter(|before| before.start + before.len == run.start) {
            whole = Run { start: before.start, len: before.len + whole.len };
            // Its entry is written over.
            self.ready.pages = self.ready.pages.saturating_sub(u64::from(before.len));
            self.note_length(before, false);
        }
        self.ready.pages += u64::from(whole.len);
        self.note_length(whole, true);
        let len = whole.len.to_be_bytes();
        put_plain(pages, &mut self.ready.tree, &whole.start.to_be_bytes(), &len)
    }

    /// The last ready run that starts before `start`.
    pub(super) fn ready_before(&self, pages: &WritePages, start: PageNo) -> Result<Option<Run>> {
        let mut found = None;
        scan_plain_back(pages, &self.ready.tree, &(start - 1).to_be_bytes(), &mut |key, value| {
            found = ready_entry(key, value);
            false
        })?;
        Ok(found)
    }

    /// The first ready run that starts at or after `start`.
    pub(super) fn ready_from(&self, pages: &WritePages, start: PageNo) -> Result<Option<Run>> {
        let mut found = None;
        self.scan_ready(pages, start, &mut |run| {
            found = Some(run);
            false
        })?;
        Ok(found)
    }
}

/// An entry of the ready tree; `None` if no store wrote it.
pub(crate) fn ready_entry(key: &[u8], value: &[u8]) -> Option<Run> {
    let start = u32::from_be_bytes(key.try_into().ok()?);
    let len = u32::from_be_bytes(value.try_into().ok()?);
    start.checked_add(len)?;
    (len > 0 && start >= FIRST_PAGE).then_some(Run { start, len })
}
