//! A cursor over the entries of a level, table by table.

use std::sync::Arc;

use super::table_file::TableFile;
use super::version::Tables;
use crate::Result;
use crate::lsm::entry::Limit;
use crate::lsm::merge::Source;
use crate::lsm::table::{Pace, Run, TableCursor};

/// A place among the entries of tables that ascend and do not overlap.
pub(crate) struct LevelCursor {
    tables: Tables,
    at: usize,
    cursor: Option<TableCursor>,
    pace: Pace,
}

impl LevelCursor {
    pub(crate) fn new(tables: Tables, pace: Pace) -> Self {
        Self { tables, at: 0, cursor: None, pace }
    }

    /// To that table, if there is one, and to a place in it.
    fn enter(&mut self, at: usize, f: impl Fn(&mut TableCursor) -> Result<()>) -> Result<()> {
        let Some(table) = self.tables.get(at) else {
            self.cursor = None;
            return Ok(());
        };
        match &mut self.cursor {
            Some(cursor) if self.at != at => cursor.go_over(table.open()?),
            Some(_) => {}
            None => self.cursor = Some(TableCursor::new(table.open()?, self.pace)),
        }
        self.at = at;
        self.cursor.as_mut().map_or(Ok(()), f)
    }

    fn skip_forward(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|cursor| !cursor.is_entry()) {
            let Some(table) = self.tables.get(self.at + 1) else {
                self.cursor = None;
                return Ok(());
            };
            let cursor = TableCursor::new(table.open()?, self.pace);
            self.at += 1;
            let before = self.cursor.replace(cursor);
            if let (Some(cursor), Some(before)) = (&mut self.cursor, before) {
                cursor.first_behind(before)?;
            }
        }
        Ok(())
    }

    fn skip_back(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|cursor| !cursor.is_entry()) {
            let before = self.at.checked_sub(1).unwrap_or(usize::MAX);
            self.enter(before, TableCursor::last)?;
        }
        Ok(())
    }
}

/// Whether a table has no entry that is newer.
fn is_older(table: &TableFile, seq: u64) -> bool {
    table.meta.seqs.1 <= seq
}

impl Source for LevelCursor {
    fn aim(&mut self, key: &[u8]) -> Result<()> {
        let at = self.tables.partition_point(|table| table.meta.bounds.is_before(key));
        self.enter(at, |cursor| cursor.aim(key))
    }

    fn approach(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.as_mut().map_or(Ok(()), |cursor| cursor.approach(key))
    }

    fn land(&mut self, key: &[u8], seq: u64) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.land(key, seq)?;
        self.skip_forward()
    }

    fn first(&mut self) -> Result<()> {
        self.enter(0, TableCursor::first)?;
        self.skip_forward()
    }

    fn last(&mut self) -> Result<()> {
        self.enter(self.tables.len().wrapping_sub(1), TableCursor::last)?;
        self.skip_back()
    }

    fn next(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next()?;
        if cursor.is_entry() { Ok(()) } else { self.skip_forward() }
    }

    fn prev(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.prev()?;
        if cursor.is_entry() { Ok(()) } else { self.skip_back() }
    }

    #[inline]
    fn entry(&self) -> Option<crate::lsm::entry::Entry<'_>> {
        self.cursor.as_ref()?.entry()
    }

    /// Tables that have nothing else are passed without a look into them.
    fn pass(&mut self, end: &[u8], seq: u64) -> Result<()> {
        let Some(rest) = self.tables.get(self.at..) else { return Ok(()) };
        let is_passed =
            |table: &&Arc<TableFile>| is_older(table, seq) && table.meta.bounds.is_before(end);
        let passed = rest.iter().take_while(is_passed).count();
        if passed > 0 && self.cursor.is_some() {
            self.enter(self.at + passed, TableCursor::first)?;
        }
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.pass(end, seq)?;
        self.skip_forward()
    }

    fn pass_back(&mut self, start: &[u8], seq: u64) -> Result<()> {
        let Some(rest) = self.tables.get(..=self.at) else { return Ok(()) };
        let is_passed = |table: &&Arc<TableFile>| {
            is_older(table, seq) && table.meta.bounds.first.as_slice() >= start
        };
        let passed = rest.iter().rev().take_while(is_passed).count();
        if passed > 0 && self.cursor.is_some() {
            self.enter(self.at.checked_sub(passed).unwrap_or(usize::MAX), TableCursor::last)?;
        }
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.pass_back(start, seq)?;
        self.skip_back()
    }

    fn is_other(&self) -> bool {
        self.cursor.as_ref().is_some_and(TableCursor::is_other)
    }

    fn run(&self, forward: bool, limit: &Limit<'_>) -> Option<Run> {
        self.cursor.as_ref()?.run(forward, limit)
    }

    fn rest(&mut self) {
        if let Some(cursor) = &mut self.cursor {
            cursor.rest();
        }
    }

    fn leave_run(&mut self, run: &Run) {
        if let Some(cursor) = &mut self.cursor {
            cursor.leave_run(run);
        }
    }
}
