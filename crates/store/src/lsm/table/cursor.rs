//! A cursor over the entries of a table, block by block.

use std::sync::Arc;

use super::ahead::Ahead;
use super::block::{Block, Place, Rows, Run};
use super::{BlockPlace, Table};
use crate::Result;
use crate::lsm::entry::{Entry, Limit};
use crate::lsm::files::cached::Cached;
use crate::lsm::merge::{Source, pass_back_by_steps, pass_by_steps};

/// How a cursor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Block by block through the cache, and ahead once several follow each other.
    Searching,
    /// Everything from front to back, once: nothing of it is kept.
    Whole,
    /// The same for the last time, since other tables take the place of this one: what the cache
    /// has of it makes room for them.
    Last,
}

impl Pace {
    fn is_whole(self) -> bool {
        self != Self::Searching
    }
}

/// After this many consecutive blocks the next ones are read ahead.
const STEPS_MIN: u32 = 2;

/// A place among the entries of a table.
pub(crate) struct TableCursor {
    table: Table,
    pace: Pace,
    /// The number of the block.
    number: usize,
    /// It, and its number.
    block: Option<(usize, Arc<Block>)>,
    /// The place in the block, where it was sought;
    place: Place,
    /// where the block was entered from one beside it, its entries and the number of the one here.
    rows: Arc<Rows>,
    row: Option<usize>,
    /// How many consecutive blocks were loaded.
    steps: u32,
    ahead: Ahead,
}

impl TableCursor {
    pub(crate) fn new(table: Table, pace: Pace) -> Self {
        let ahead = Ahead::new(&table.handle, table.finder.data_end, pace.is_whole());
        let (place, rows) = (Place::default(), Arc::default());
        let (block, row) = (None, None);
        Self { table, pace, number: 0, block, place, rows, row, steps: 0, ahead }
    }

    /// Goes over to another table of the same store, in the memory that it has; it stands nowhere.
    pub(crate) fn go_over(&mut self, table: Table) {
        self.rest();
        self.ahead.go_over(&table.handle, table.finder.data_end);
        self.table = table;
    }

    /// Loads the block with that number; whether there is one.
    fn load(&mut self) -> Result<bool> {
        let number = self.number;
        if self.block.as_ref().is_some_and(|(loaded, _)| *loaded == number) {
            return Ok(true);
        }
        let is_ahead = self.pace.is_whole() || self.steps > STEPS_MIN;
        let block = match self.table.finder.at_hand(number) {
            Some(block) if !is_ahead => Some(block),
            at_hand => match self.table.place(number)? {
                Some(place) if is_ahead => Some(self.block_ahead(place, at_hand)?),
                Some(place) => Some(self.table.block(place, number)?),
                None => None,
            },
        };
        self.block = block.map(|block| (number, block));
        Ok(self.block.is_some())
    }

    /// A block that others follow.
    fn block_ahead(
        &mut self,
        place: BlockPlace,
        at_hand: Option<Arc<Block>>,
    ) -> Result<Arc<Block>> {
        // A place outside of the table is an error of this block alone.
        let site = self.table.site(place, self.number)?;
        let blocks = &self.table.handle.directory().blocks;
        match self.pace {
            Pace::Searching if !self.ahead.holds(place) => {
                if let Some(block) = at_hand {
                    return Ok(block);
                }
                if let Some(Cached::Block(block)) = blocks.peek(site.key()) {
                    site.put_at_hand(&block);
                    return Ok(block);
                }
            }
            Pace::Searching | Pace::Whole => {}
            Pace::Last => blocks.remove(site.key()),
        }
        let read = self.ahead.block(place)?;
        if self.pace.is_whole() {
            return site.open_own(read.into_owned().into()).map(Arc::new);
        }
        let block = Arc::new(site.open(read)?);
        // Other scans may follow. No block that was asked for leaves for it.
        let cached = || Some(Cached::Block(Arc::clone(&block)));
        blocks.offer(site.key(), block.memory() as u64, cached);
        site.put_at_hand(&block);
        Ok(block)
    }

    /// The next block is not the one after the last.
    fn jump(&mut self) {
        self.row = None;
        self.steps = 0;
        self.ahead.clear();
    }

    /// Moves to the first entry of the block that many blocks further.
    ///
    /// # Errors
    /// If the table cannot be read or is damaged.
    pub(crate) fn skip_blocks(&mut self, blocks: u32) -> Result<()> {
        self.number += blocks as usize;
        self.row = None;
        if self.load()? {
            self.step(Place::first)?;
        }
        Ok(())
    }

    /// Enters a block from the one before it, or from the one after it.
    fn enter(&mut self, forward: bool) -> Result<()> {
        let Some((_, block)) = &self.block else { return Ok(()) };
        if Arc::get_mut(&mut self.rows).is_none() {
            self.rows = Arc::default();
        }
        let step: usize = if forward { 1 } else { usize::MAX };
        let (next, finder) = (self.number.wrapping_add(step), &self.table.finder);
        finder.prefetch(next.wrapping_add(step));
        let ahead = finder.look_at_hand(next, |block| block.address());
        let is_filled = Arc::get_mut(&mut self.rows).is_some_and(|rows| rows.fill(block, ahead));
        let first = if forward { 0 } else { self.rows.len().wrapping_sub(1) };
        self.row = is_filled.then_some(first);
        match forward {
            _ if is_filled => Ok(()),
            true => self.step(Place::first),
            false => self.step(Place::last),
        }
    }

    /// Moves inside the block.
    fn step(&mut self, f: impl Fn(&mut Place, &Block) -> Result<(), &'static str>) -> Result<()> {
        let Some((number, block)) = &self.block else { return Ok(()) };
        let damage = |reason| self.table.finder.damage(&self.table.handle, *number, reason);
        f(&mut self.place, block).map_err(damage)
    }

    /// While the place is after its block: moves to the first entry of the next one.
    fn skip_forward(&mut self) -> Result<()> {
        while self.block.is_some() && !self.is_entry() {
            self.number += 1;
            self.steps = self.steps.saturating_add(1);
            if self.load()? {
                self.enter(true)?;
            }
        }
        Ok(())
    }

    fn skip_back(&mut self) -> Result<()> {
        while self.block.is_some() && !self.is_entry() {
            self.jump();
            let Some(before) = self.number.checked_sub(1) else {
                self.block = None;
                break;
            };
            self.number = before;
            if self.load()? {
                self.enter(false)?;
            }
        }
        Ok(())
    }

    /// Moves to the first entry, from the last one of the table before this one: both are read as
    /// one.
    ///
    /// # Errors
    /// If the table cannot be read or is damaged.
    pub(crate) fn first_behind(&mut self, before: Self) -> Result<()> {
        self.steps = before.steps;
        self.ahead.follow(&before.ahead);
        drop(before);
        self.enter_first()
    }

    /// To the first entry.
    fn enter_first(&mut self) -> Result<()> {
        self.number = 0;
        if self.load()? {
            self.step(Place::first)?;
        }
        self.skip_forward()
    }

    /// Whether it stands on an entry.
    #[inline]
    pub(crate) fn is_entry(&self) -> bool {
        match self.row {
            Some(row) => row < self.rows.len(),
            None => self.block.is_some() && self.place.is_entry(),
        }
    }

    /// Where the block of this place begins.
    pub(crate) fn block_offset(&self) -> u64 {
        let place = self.block.as_ref().and_then(|(number, _)| self.table.place(*number).ok()?);
        place.map_or(0, |place| place.offset)
    }
}

impl Source for TableCursor {
    fn aim(&mut self, key: &[u8]) -> Result<()> {
        self.jump();
        let before = self.table.finder.blocks_before(key);
        self.number = before.map_err(|reason| self.table.damaged(0, reason))?;
        self.table.finder.prefetch(self.number);
        Ok(())
    }

    fn approach(&mut self, key: &[u8]) -> Result<()> {
        self.load()?;
        if let Some((_, block)) = &self.block {
            block.prefetch_entry(key);
        }
        Ok(())
    }

    fn land(&mut self, key: &[u8], seq: u64) -> Result<()> {
        // The versions of a key may go on in the next block.
        while self.load()? {
            self.step(|place, block| place.seek(block, key, seq))?;
            if self.entry().is_some() {
                break;
            }
            self.number += 1;
        }
        Ok(())
    }

    fn first(&mut self) -> Result<()> {
        self.jump();
        self.enter_first()
    }

    fn last(&mut self) -> Result<()> {
        self.jump();
        self.number = self.table.finder.blocks().saturating_sub(1);
        if self.load()? {
            self.step(Place::last)?;
        }
        self.skip_back()
    }

    fn next(&mut self) -> Result<()> {
        match &mut self.row {
            Some(row) => *row += 1,
            None => self.step(Place::next)?,
        }
        if self.is_entry() { Ok(()) } else { self.skip_forward() }
    }

    fn prev(&mut self) -> Result<()> {
        match &mut self.row {
            Some(row) => *row = row.wrapping_sub(1),
            None => self.step(Place::prev)?,
        }
        if self.is_entry() { Ok(()) } else { self.skip_back() }
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        match (self.row, &self.block) {
            (Some(row), _) => self.rows.entry(row),
            (None, Some((_, block))) => self.place.entry(block),
            (None, None) => None,
        }
    }

    fn pass(&mut self, end: &[u8], seq: u64) -> Result<()> {
        if self.table.finder.newest > seq {
            return pass_by_steps(self, end, seq);
        }
        match self.entry() {
            Some(entry) if entry.key < end => self.seek(end, u64::MAX),
            _ => Ok(()),
        }
    }

    fn pass_back(&mut self, start: &[u8], seq: u64) -> Result<()> {
        if self.table.finder.newest > seq {
            return pass_back_by_steps(self, start, seq);
        }
        match self.entry() {
            Some(entry) if entry.key >= start => self.seek_before(start, u64::MAX),
            _ => Ok(()),
        }
    }

    fn is_other(&self) -> bool {
        self.row.is_some_and(|row| self.rows.is_other(row))
    }

    fn run(&self, forward: bool, limit: &Limit<'_>) -> Option<Run> {
        self.rows.run(self.row?, forward, limit)
    }

    fn rest(&mut self) {
        self.jump();
        self.block = None;
        if self.rows.len() > 0 {
            self.rows = Arc::default();
        }
    }

    fn leave_run(&mut self, run: &Run) {
        self.row = Some(run.at());
    }
}
