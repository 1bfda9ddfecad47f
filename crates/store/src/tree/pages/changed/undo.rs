//! The undo log of a write transaction, which takes its changes back to a savepoint.

use std::collections::HashMap;

use super::{Slot, WritePages};
use crate::Result;
use crate::tree::page_ref::{PageNo, PageRef, Run};
use crate::tree::pages::Buffer;

/// How to take back one step of a write transaction.
pub(super) enum Undo {
    /// The page in the slot was this one.
    Image { slot: u32, page: Buffer, epoch: u32 },
    /// The slot was unused.
    Made { slot: u32 },
    /// The slot's page had been written to the file early, as this page.
    Spilled { slot: u32, no: PageNo, epoch: u32 },
    /// The run was taken for an extent.
    Taken { run: Run },
    /// The run of an extent that was made since the innermost savepoint was given back.
    Given { run: Run },
}

/// Pages of this transaction that it let go of while a savepoint was open that may need them.
pub(super) struct Own {
    pub(super) run: Run,
    /// The epoch in which the run was taken, if it is that of an extent.
    pub(super) made: Option<u32>,
}

/// A mark in the undo log: how long the logs were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndoMark {
    pub(crate) undo: usize,
    freed: usize,
    own: usize,
    joined: u64,
}

/// What takes changes back to a savepoint.
#[derive(Default)]
pub(super) struct UndoLog {
    pub(super) steps: Vec<Undo>,
    pub(super) epoch: u32,
    /// For each open savepoint the epoch that began with it, and the length of `own` at that time.
    pub(super) savepoints: Vec<(u32, usize)>,
    /// How many pages were joined to a freed run as they were let go of.
    pub(super) joined: u64,
    /// Pages that this transaction made and let go of, for as long as a rollback may want them.
    pub(super) own: Vec<Own>,
    /// When extents were made while a savepoint was open.
    pub(super) made: HashMap<PageNo, u32>,
}

impl UndoLog {
    /// Whether no open savepoint may want what was made in an epoch.
    pub(super) fn is_recent(&self, made: Option<u32>) -> bool {
        self.savepoints.last().is_none_or(|(begun, _)| made.is_some_and(|made| made >= *begun))
    }
}

impl WritePages {
    /// The current epoch of the undo log: it changes with every savepoint and rollback.
    pub(crate) fn epoch(&self) -> u32 {
        self.log.epoch
    }

    /// Whether a savepoint is open.
    pub(crate) fn has_savepoints(&self) -> bool {
        !self.log.savepoints.is_empty()
    }

    /// Begins a savepoint. O(1).
    pub(crate) fn mark(&mut self) -> UndoMark {
        let undo = self.log.steps.len();
        let freed = self.freed.len();
        let own = self.log.own.len();
        let mark = UndoMark { undo, freed, own, joined: self.log.joined };
        self.log.epoch += 1;
        self.log.savepoints.push((self.log.epoch, own));
        mark
    }

    /// Forgets all but the first `savepoints` savepoints, of which the next one began at length
    /// `undo` of the log. Pages made and let go of since the last one that stays may be written
    /// again, and of pages that it can bring back already no second image is kept: so a transaction
    /// of many savepoints needs no more memory than the pages that it changes. If none stays, the
    /// undo log is dropped.
    pub(crate) fn release_mark(&mut self, savepoints: u32, undo: usize) -> Result<()> {
        self.log.savepoints.truncate(savepoints as usize);
        match self.log.savepoints.last() {
            Some((begun, _)) => {
                // What the slot held was made or kept since that savepoint began.
                let is_second =
                    |step: &mut Undo| matches!(step, Undo::Image { epoch, .. } if *epoch >= *begun);
                self.log.steps.extract_if(undo.., is_second).for_each(drop);
            }
            None => {
                self.log.steps.clear();
                self.log.made.clear();
            }
        }
        let since = self.log.savepoints.last().map_or(0, |(_, own)| *own);
        let own = self.log.own.split_off(since);
        for Own { run, made } in own {
            match self.log.is_recent(made) {
                true => self.give_back(run)?,
                false => self.log.own.push(Own { run, made }),
            }
        }
        Ok(())
    }

    /// Undoes every change since `mark`, newest first. The mark stays.
    pub(crate) fn roll_back(&mut self, mark: &UndoMark) -> Result<()> {
        while self.log.steps.len() > mark.undo {
            match self.log.steps.pop() {
                Some(Undo::Image { slot, page, epoch }) => self.restore(slot, page, epoch),
                Some(Undo::Made { slot }) => {
                    self.vacate(PageRef::slot(slot as usize));
                }
                Some(Undo::Spilled { slot, no, epoch }) => {
                    let run = Run { start: no, len: 1 };
                    let mut page = self.new_buffer()?;
                    self.base.file.read_run(run, page.bytes_mut())?;
                    self.restore(slot, page, epoch);
                    self.open_run(run)?;
                }
                Some(Undo::Taken { run }) => {
                    self.extents.remove(run.start);
                    self.log.made.remove(&run.start);
                    self.open_run(run)?;
                }
                Some(Undo::Given { run }) => {
                    if !self.space.open.remove(run) {
                        return Err(self.base.file.corrupt(run.start, "a page that is used twice"));
                    }
                }
                None => break,
            }
        }
        self.freed.truncate(mark.freed);
        self.log.own.truncate(mark.own);
        self.log.joined = mark.joined;
        self.log.epoch += 1;
        Ok(())
    }

    fn restore(&mut self, slot: u32, page: Buffer, epoch: u32) {
        let at = &mut self.slots[slot as usize];
        if at.page.is_none() {
            self.changed += 1;
            if let Some(i) = self.unused.iter().rposition(|unused| *unused == slot) {
                self.unused.swap_remove(i);
            }
        }
        *at = Slot { page: Some(page), epoch, source: 0 };
    }
}
