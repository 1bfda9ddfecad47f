//! The entries of all tables and of the log in one order: of a key the newest first.

use std::collections::BinaryHeap;

use super::found::{Found, Item};
use crate::lsm::table::{Block, Place};

/// The entries of a table, from its whole blocks.
struct TableWalk<'t> {
    table: &'t Found,
    next: usize,
    block: Option<Block>,
    place: Place,
}

impl Iterator for TableWalk<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(block) = &self.block
                && let Some(entry) = self.place.entry(block)
            {
                let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
                let item = Item { key, seq: entry.seq, kind: entry.kind, value };
                if self.place.next(block).is_err() {
                    self.block = None;
                }
                return Some(item);
            }
            let place = *self.table.blocks.get(self.next)?;
            self.next += 1;
            let mut bytes = vec![0; place.len as usize];
            // It was whole a moment ago.
            let read = self.table.file.read_at(&mut bytes, place.offset);
            let block = Block::open(bytes, self.table.number, place.offset);
            self.block = block.ok().filter(|_| read.is_ok());
            self.place = Place::default();
            if self.block.as_ref().is_some_and(|block| self.place.first(block).is_err()) {
                self.block = None;
            }
        }
    }
}

/// The next entry of a source: the smallest key first, of one key the newest.
struct Head {
    item: Item,
    source: usize,
}

impl Head {
    fn order(&self) -> (std::cmp::Reverse<&[u8]>, u64, usize) {
        (std::cmp::Reverse(&self.item.key), self.item.seq, self.source)
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// The entries of all sources in one order.
pub(super) struct Merged<'t> {
    sources: Vec<Box<dyn Iterator<Item = Item> + 't>>,
    heads: BinaryHeap<Head>,
}

impl<'t> Merged<'t> {
    pub(super) fn new(tables: &'t [Found], items: Vec<Item>) -> Self {
        let walk = |table| TableWalk { table, next: 0, block: None, place: Place::default() };
        let mut sources: Vec<Box<dyn Iterator<Item = Item> + 't>> =
            vec![Box::new(items.into_iter())];
        sources.extend(tables.iter().map(|table| Box::new(walk(table)) as Box<_>));
        let mut merged = Self { sources, heads: BinaryHeap::new() };
        (0..merged.sources.len()).for_each(|source| merged.pull(source));
        merged
    }

    fn pull(&mut self, source: usize) {
        self.heads.extend(self.sources[source].next().map(|item| Head { item, source }));
    }

    pub(super) fn next(&mut self) -> Option<Item> {
        let Head { item, source } = self.heads.pop()?;
        self.pull(source);
        Some(item)
    }
}
