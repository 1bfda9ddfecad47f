//! Where a write transaction takes new pages from, and where those go that it lets go of.

use super::WritePages;
use super::undo::{Own, Undo};
use crate::tree::free::Runs;
use crate::tree::page_ref::{Freed, PageNo, Run};
use crate::{Error, Result};

/// Only a transaction that deletes and adds nothing may take these last pages before the maximum
/// size: a delete needs new pages before it frees others, and would find none where a put has taken
/// the last.
pub(crate) const LAST_PAGES: u32 = 6;

/// Where a write transaction takes new pages from.
pub(crate) struct Space {
    /// Free runs that the pages of the commit, or those that are written early, are numbered from.
    pub(crate) pool: Vec<Run>,
    /// Free runs that extents are taken from, and what the transaction has made and let go of.
    pub(crate) open: Runs,
    /// If set, the lowest free pages are taken instead of those that lie side by side; those of the
    /// range last.
    pub(crate) lowest_first: Option<std::ops::Range<PageNo>>,
    /// The end of the store, the first page number that was never used, may not pass this, nor the
    /// last pages before it if the transaction adds something.
    pub(crate) max_pages: u32,
    pub(crate) last_pages: u32,
    pub(crate) adds: bool,
    pub(crate) max_size: Option<u64>,
    /// Whether snapshots older than the newest commit are protected.
    pub(crate) has_snapshots: bool,
}

impl Space {
    /// What the end of the store may not pass in a transaction that adds something.
    pub(crate) fn usual_end(&self) -> PageNo {
        self.max_pages.saturating_sub(self.last_pages)
    }

    /// What it may not pass in this one.
    pub(crate) fn end_limit(&self) -> PageNo {
        if self.adds { self.usual_end() } else { self.max_pages }
    }
}

impl WritePages {
    /// Frees pages of the file. Those that this transaction made may be written again at once,
    /// unless a savepoint is open that was there before them: no other transaction has ever seen
    /// them.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if they are free already, or say that they are of a later commit.
    pub(crate) fn free_run(&mut self, run: Run, birth: u64) -> Result<()> {
        if birth > self.txn {
            let reason = "a page of a commit that is yet to come";
            return Err(self.base.file.corrupt(run.start, reason));
        }
        if birth != self.txn {
            self.freed.push(Freed { run, birth });
            return Ok(());
        }
        let made = self.log.made.get(&run.start).copied();
        match self.log.is_recent(made) {
            true => self.give_back(run),
            false => {
                self.log.own.push(Own { run, made });
                Ok(())
            }
        }
    }

    /// Gives pages back that this transaction made, and that no savepoint may want.
    pub(super) fn give_back(&mut self, run: Run) -> Result<()> {
        self.extents.remove(run.start);
        if self.has_savepoints() {
            self.log.made.remove(&run.start);
            self.log.steps.push(Undo::Given { run });
        }
        self.open_run(run)
    }

    /// Notes pages that may be written.
    pub(crate) fn open_run(&mut self, run: Run) -> Result<()> {
        match self.space.open.insert(run) {
            Some(_) => Ok(()),
            None => Err(self.base.file.corrupt(run.start, "a page that is free twice")),
        }
    }

    /// Takes one page that may be written early.
    pub(crate) fn take_page(&mut self) -> Result<PageNo> {
        if let Some(run) = self.space.pool.last_mut() {
            let no = run.start;
            (run.start, run.len) = (run.start + 1, run.len - 1);
            if run.len == 0 {
                self.space.pool.pop();
            }
            return Ok(no);
        }
        Ok(self.take_run(1)?.start)
    }

    /// Takes neighbouring pages: the free run that fits best, otherwise pages at the end of the
    /// store, beginning with free ones just before the end.
    pub(crate) fn take_run(&mut self, pages: u32) -> Result<Run> {
        if let Some(run) = self.space.open.take(pages) {
            return Ok(run);
        }
        let end = self.base.end;
        let last = self.space.open.take_last(end).unwrap_or(Run { start: end, len: 0 });
        let more = pages - last.len;
        let new_end = end.checked_add(more).filter(|end| *end <= self.space.usual_end());
        let Some(new_end) = new_end else {
            if last.len > 0 {
                self.open_run(last)?;
            }
            return Err(self.store_full());
        };
        self.base.end = new_end;
        Ok(Run { start: last.start, len: pages })
    }

    /// Undoes [`Self::take_run`], before which the store's end was `end`.
    pub(crate) fn untake_run(&mut self, run: Run, end: PageNo) -> Result<()> {
        let len = run.len.min(end.saturating_sub(run.start));
        self.base.end = end;
        if len > 0 { self.open_run(Run { len, ..run }) } else { Ok(()) }
    }

    /// The error of a store that may not grow.
    pub(crate) fn store_full(&self) -> Error {
        let all = u64::from(self.space.max_pages) << self.base.file.shift;
        Error::StoreFull { max_size: self.space.max_size.unwrap_or(all) }
    }

    /// Takes a run for an extent; a rollback gives it back.
    pub(crate) fn take_extent(&mut self, pages: u32) -> Result<Run> {
        let run = self.take_run(pages)?;
        self.base.forget(run);
        if self.has_savepoints() {
            self.log.steps.push(Undo::Taken { run });
            self.log.made.insert(run.start, self.log.epoch);
        }
        Ok(run)
    }
}
