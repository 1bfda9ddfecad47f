//! A tree of LMDB's, made from its first entry to its last one: leaves are written when they are
//! full, and branches over them. In memory is one page of each level.

use std::io;

use super::page::{Kind, Nodes, is_long};
use super::pages::Pages;

/// The root of an empty tree.
const NO_PAGE: u64 = u64::MAX;

/// What LMDB knows of a tree (`MDB_db`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The size of the values in pages of values of one size; of the free list's: of a page.
    pub(super) pad: u32,
    pub(super) flags: u16,
    pub(super) depth: u16,
    pub(super) branches: u64,
    pub(super) leaves: u64,
    pub(super) long_pages: u64,
    pub(super) entries: u64,
    pub(super) root: u64,
}

impl Record {
    /// Of an empty tree.
    pub(super) fn empty(flags: u16, pad: u32) -> Self {
        let (depth, branches, leaves, long_pages, entries) = (0, 0, 0, 0, 0);
        Self { pad, flags, depth, branches, leaves, long_pages, entries, root: NO_PAGE }
    }

    /// As it is stored.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.pad.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.flags.to_le_bytes());
        bytes.extend_from_slice(&self.depth.to_le_bytes());
        let numbers = [self.branches, self.leaves, self.long_pages, self.entries, self.root];
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes
    }
}

/// A branch that is being filled: the first key of each child, and its page.
#[derive(Default)]
struct Level {
    children: Vec<(Vec<u8>, u64)>,
    /// Only to see what fits.
    nodes: Nodes,
}

impl Level {
    fn of(child: (Vec<u8>, u64)) -> Self {
        let mut level = Self::default();
        level.push(child);
        level
    }

    fn push(&mut self, child: (Vec<u8>, u64)) {
        self.nodes.add_child(&child.0, child.1);
        self.children.push(child);
    }

    /// Writes it: as a child of the level above.
    fn write(mut self, pages: &mut Pages) -> io::Result<(Vec<u8>, u64)> {
        let (number, mut nodes) = (pages.next(), Nodes::new(None));
        for (at, (key, page)) in self.children.iter().enumerate() {
            // What comes before the second key is below the first child, whatever its key is.
            nodes.add_child(if at == 0 { &[] } else { key }, *page);
        }
        pages.append(&nodes.branch(number))?;
        Ok((self.children.swap_remove(0).0, number))
    }
}

/// The tree.
pub(super) struct Tree {
    record: Record,
    leaf: Nodes,
    /// The first key of the leaf.
    first: Vec<u8>,
    /// The branches from the lowest level on.
    levels: Vec<Level>,
}

impl Tree {
    /// Of nodes, or of keys of one size that stand side by side.
    pub(super) fn new(flags: u16, size: Option<usize>) -> Self {
        Self::begun(flags, size, Nodes::new(size), &[])
    }

    /// One that has something in its first leaf already.
    pub(super) fn begun(flags: u16, size: Option<usize>, leaf: Nodes, first: &[u8]) -> Self {
        let mut record = Record::empty(flags, size.unwrap_or(0) as u32);
        record.entries = leaf.len() as u64;
        Self { record, leaf, first: first.to_vec(), levels: Vec::new() }
    }

    /// Adds an entry, whose key comes after all others.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8], pages: &mut Pages) -> io::Result<()> {
        let bytes = value.len() as u32;
        if !is_long(key, value) {
            return self.put_node(key, (Kind::Value, bytes, value), 1, pages);
        }
        let (first, count) = pages.append_long(value)?;
        self.record.long_pages += count;
        self.put_node(key, (Kind::Long, bytes, &first.to_le_bytes()), 1, pages)
    }

    /// Adds a node that stands for `entries` entries.
    pub(super) fn put_node(
        &mut self,
        key: &[u8],
        (kind, bytes, data): (Kind, u32, &[u8]),
        entries: u64,
        pages: &mut Pages,
    ) -> io::Result<()> {
        if !self.leaf.fits(key.len(), data.len()) {
            self.end_leaf(pages)?;
        }
        if self.leaf.len() == 0 {
            self.first = key.to_vec();
        }
        self.leaf.add(key, kind, bytes, data);
        self.record.entries += entries;
        Ok(())
    }

    fn end_leaf(&mut self, pages: &mut Pages) -> io::Result<()> {
        let fresh = Nodes::new(self.leaf.size());
        let (number, mut leaf) = (pages.next(), std::mem::replace(&mut self.leaf, fresh));
        pages.append(&leaf.leaf(number))?;
        self.record.leaves += 1;
        let first = std::mem::take(&mut self.first);
        self.add_child(0, (first, number), pages)
    }

    /// Adds a page to the branch above it. LMDB wants two children of each branch at least: so the
    /// last one of a full branch goes to the next.
    fn add_child(&mut self, at: usize, child: (Vec<u8>, u64), pages: &mut Pages) -> io::Result<()> {
        let Some(level) = self.levels.get_mut(at) else {
            self.levels.push(Level::of(child));
            return Ok(());
        };
        if !level.nodes.fits(child.0.len(), 0)
            && let Some(last) = level.children.pop()
        {
            let full = std::mem::replace(level, Level::of(last));
            level.push(child);
            let full = full.write(pages)?;
            self.record.branches += 1;
            return self.add_child(at + 1, full, pages);
        }
        level.push(child);
        Ok(())
    }

    /// Writes what is left; what LMDB has to know of the tree.
    pub(super) fn finish(mut self, pages: &mut Pages) -> io::Result<Record> {
        if self.leaf.len() > 0 {
            self.end_leaf(pages)?;
        }
        let mut at = 0;
        while at < self.levels.len() {
            let is_top = at + 1 == self.levels.len();
            let level = std::mem::take(&mut self.levels[at]);
            if let ([(_, only)], true) = (&*level.children, is_top) {
                (self.record.root, self.record.depth) = (*only, at as u16 + 1);
                break;
            }
            let child = level.write(pages)?;
            self.record.branches += 1;
            self.add_child(at + 1, child, pages)?;
            at += 1;
        }
        Ok(self.record)
    }
}
