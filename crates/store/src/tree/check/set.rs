//! A set of page numbers, as bits.

use crate::tree::page_ref::{PageNo, Run};

/// A set of pages of a store.
pub(crate) struct PageSet {
    words: Vec<u64>,
}

impl PageSet {
    /// An empty set of pages before `end`.
    pub(crate) fn new(end: PageNo) -> Self {
        Self { words: vec![0; end as usize / 64 + 1] }
    }

    /// Adds a page; false if it is in the set already (or not before the end).
    pub(crate) fn insert(&mut self, no: PageNo) -> bool {
        let Some(word) = self.words.get_mut(no as usize / 64) else { return false };
        let bit = 1 << (no % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Adds the pages of a run, up to the first one that is in the set already, which is returned.
    ///
    /// Stopping there bounds the work of all calls by the number of pages and of runs, whatever a
    /// damaged file says.
    pub(crate) fn insert_run(&mut self, run: Run) -> Option<PageNo> {
        (run.start..run.start.saturating_add(run.len)).find(|no| !self.insert(*no))
    }

    pub(crate) fn contains(&self, no: PageNo) -> bool {
        self.words.get(no as usize / 64).is_some_and(|word| word >> (no % 64) & 1 != 0)
    }

    /// The first page of a run that is in the set.
    pub(crate) fn first_in(&self, run: Run) -> Option<PageNo> {
        (run.start..run.start.saturating_add(run.len)).find(|no| self.contains(*no))
    }
}
