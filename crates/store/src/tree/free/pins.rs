//! The tree of pins: by name, the commits that stay readable until they are let go by that name.
//! The snapshots of these commits are protected like those that readers have pinned.

use super::*;
use crate::coding::{put_u32, put_u64, u32_at, u64_at};
use crate::tree::tree::Root;

/// The length of a record in bytes.
const PIN_LEN: usize = 20 + Root::LEN;
/// The most pins of a store: each transaction goes through all of them.
pub(crate) const PINS_MAX: u64 = 64;

/// What a pin keeps: a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pinned {
    /// Its number.
    pub(crate) commit: u64,
    /// The first page number that it did not use.
    pub(crate) end: PageNo,
    /// When the pin was made, in nanoseconds since 1970.
    pub(crate) created: u64,
    /// The root of its catalog.
    pub(crate) catalog: Root,
}

impl Pinned {
    /// The record: commit u64, time u64, end u32, root of the catalog.
    pub(crate) fn encode(&self) -> [u8; PIN_LEN] {
        let mut bytes = [0; PIN_LEN];
        put_u64(&mut bytes, 0, self.commit);
        put_u64(&mut bytes, 8, self.created);
        put_u32(&mut bytes, 16, self.end);
        self.catalog.encode(&mut bytes[20..]);
        bytes
    }

    /// Reads a record; `None` if no store wrote it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != PIN_LEN {
            return None;
        }
        Some(Self {
            commit: u64_at(bytes, 0),
            created: u64_at(bytes, 8),
            end: u32_at(bytes, 16),
            catalog: Root::decode(&bytes[20..])?,
        })
    }

    /// The meta record of a store that is nothing but this commit.
    pub(crate) fn meta(&self, newest: &Meta) -> Meta {
        // All its pages are in use or held, so that none lies beyond the present end.
        let (txn, end) = (self.commit, self.end.min(newest.end));
        let catalog = self.catalog;
        Meta { txn, end, catalog, ..Meta::empty(newest.page_size, newest.id) }
    }
}

/// The tree of pins, and what a transaction knows of it.
pub(crate) struct Pins {
    pub(crate) tree: Tree,
    /// The commits that they pin, once the tree was read.
    commits: Option<Vec<u64>>,
}

impl Pins {
    /// As a commit left it.
    pub(super) fn new(meta: &Meta) -> Self {
        Self { tree: Tree::new(meta.free.pins, Form::PLAIN), commits: None }
    }

    pub(super) fn commits(&self) -> &[u64] {
        self.commits.as_deref().unwrap_or_default()
    }
}

/// All pins of a commit with their names, in bytewise order of these.
pub(crate) fn pins_of<P: Pages>(pages: &P, root: Root) -> Result<Vec<(Vec<u8>, Pinned)>> {
    let (mut pins, mut is_whole) = (Vec::new(), true);
    scan_plain(pages, &Tree::new(root, Form::PLAIN), &[], &mut |name, record| {
        match Pinned::decode(record) {
            Some(pinned) => pins.push((name.to_vec(), pinned)),
            None => is_whole = false,
        }
        is_whole
    })?;
    if is_whole {
        return Ok(pins);
    }
    Err(pages.corrupt(root.page, "an entry of the tree of pins that no store wrote"))
}

impl FreeState {
    /// Reads which commits are pinned, before a transaction begins. Where the one before it has
    /// left the list, nothing is read.
    pub(crate) fn load_pins(&mut self, pages: &WritePages) -> Result<()> {
        if self.pins.commits.is_none() {
            let pins = pins_of(pages, self.pins.tree.root)?;
            self.pins.commits = Some(pins.into_iter().map(|(_, pinned)| pinned.commit).collect());
        }
        Ok(())
    }

    /// Adds a pin. Its commit is the newest one, and so protected in this transaction anyway.
    pub(crate) fn put_pin(
        &mut self,
        pages: &mut WritePages,
        name: &[u8],
        pinned: &Pinned,
    ) -> Result<()> {
        self.pins.commits = None;
        put_plain(pages, &mut self.pins.tree, name, &pinned.encode())
    }

    /// How many pins there are.
    pub(crate) fn pin_count(&self) -> u64 {
        self.pins.tree.root.count.keys
    }

    /// Removes a pin; false if there is none of that name. Its commit stays protected in this
    /// transaction.
    pub(crate) fn delete_pin(&mut self, pages: &mut WritePages, name: &[u8]) -> Result<bool> {
        self.pins.commits = None;
        delete_plain(pages, &mut self.pins.tree, name)
    }
}
