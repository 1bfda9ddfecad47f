//! The extents of a write transaction that are not in the file yet.

use std::collections::HashMap;

use crate::tree::page_ref::PageNo;

/// Runs of pages in memory, by their first page.
#[derive(Default)]
pub(crate) struct NewExtents {
    runs: HashMap<PageNo, Box<[u8]>>,
    bytes: usize,
}

impl NewExtents {
    /// How many bytes they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn insert(&mut self, first: PageNo, run: Box<[u8]>) {
        self.bytes += run.len();
        self.runs.insert(first, run);
    }

    pub(crate) fn remove(&mut self, first: PageNo) {
        if let Some(run) = self.runs.remove(&first) {
            self.bytes -= run.len();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.bytes = 0;
    }

    pub(crate) fn get(&self, first: PageNo) -> Option<&[u8]> {
        self.runs.get(&first).map(|run| &run[..])
    }

    pub(crate) fn get_mut(&mut self, first: PageNo) -> Option<&mut [u8]> {
        self.runs.get_mut(&first).map(|run| &mut run[..])
    }

    /// First page and bytes of each, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PageNo, &[u8])> {
        self.runs.iter().map(|(first, run)| (*first, &run[..]))
    }
}
