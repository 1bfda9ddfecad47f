//! A table of a version: its file, what is known of it, and what finds its entries.

use std::sync::{Arc, OnceLock};

use crate::Result;
use crate::lsm::files::Handle;
use crate::lsm::files::cached::{Cached, table_key};
use crate::lsm::files::charge::Charge;
use crate::lsm::files::memory::Part;
use crate::lsm::read::fetch;
use crate::lsm::table::{Finder, Table, TableMeta};

/// A table of a version.
pub(crate) struct TableFile {
    pub(crate) meta: TableMeta,
    handle: Arc<Handle>,
    /// How many entries below it hides, once that was estimated.
    hidden: OnceLock<u64>,
    /// What finds its entries, where that is kept as long as the table.
    kept: OnceLock<KeptFinder>,
}

/// What finds the entries of a table, with the memory for it.
struct KeptFinder {
    finder: Arc<Finder>,
    _charge: Charge,
}

impl TableFile {
    pub(super) fn new(meta: TableMeta, handle: Arc<Handle>) -> Self {
        Self { meta, handle, hidden: OnceLock::new(), kept: OnceLock::new() }
    }

    /// An estimate of how many entries below it hides; 0 before it was estimated.
    pub(crate) fn hidden(&self) -> u64 {
        self.hidden.get().copied().unwrap_or(0)
    }

    pub(crate) fn is_estimated(&self) -> bool {
        self.hidden.get().is_some()
    }

    /// Notes an estimate; the first one counts.
    pub(crate) fn set_hidden(&self, entries: u64) {
        self.hidden.get_or_init(|| entries);
    }

    /// The table, open: what finds its blocks is in memory, or is read.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub(crate) fn open(&self) -> Result<Table> {
        Ok(Table::new(Arc::clone(&self.handle), self.finder()?))
    }

    /// What finds its entries, from memory or the disk.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub(crate) fn finder(&self) -> Result<Arc<Finder>> {
        if let Some(finder) = self.kept_finder() {
            return Ok(Arc::clone(finder));
        }
        let finder = fetch::finder(&self.handle, &self.meta)?;
        self.keep(&finder);
        Ok(finder)
    }

    /// The same, where it is kept as long as the table.
    #[inline]
    pub(crate) fn kept_finder(&self) -> Option<&Arc<Finder>> {
        self.kept.get().map(|kept| &kept.finder)
    }

    /// Keeps what finds its entries, if there is room for it. The cache need not keep it then.
    fn keep(&self, finder: &Arc<Finder>) {
        let directory = self.handle.directory();
        let bytes = finder.memory();
        if !directory.budget.has_room_for_finder(bytes as u64) {
            return;
        }
        let mut charge = Charge::new(Arc::downgrade(directory), Part::Finders);
        charge.set(bytes);
        let kept = KeptFinder { finder: Arc::clone(finder), _charge: charge };
        if self.kept.set(kept).is_ok() {
            directory.blocks.remove(table_key(self.meta.number));
        }
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Offers the cache the data blocks of a table that was written just now, where they stand in
    /// the map of its file: what was written is often read soon.
    pub(crate) fn offer_blocks(&self) {
        // What is wrong with it is an error of those who read it.
        if self.handle.mapped().is_some()
            && let Ok(table) = self.open()
        {
            table.offer_blocks();
        }
    }
}

impl Drop for TableFile {
    /// Lets go of what the cache has of a table that is removed: of what finds its blocks and,
    /// where they are in the map of its file, of the blocks. The disk has the room of a file only
    /// once no map of it is left.
    fn drop(&mut self) {
        if !self.handle.is_obsolete() || !self.handle.directory().is_ours() {
            return;
        }
        let (blocks, number) = (&self.handle.directory().blocks, self.meta.number);
        if self.handle.is_mapped() {
            let kept = self.kept_finder().cloned();
            let finder = kept.or_else(|| match blocks.peek(table_key(number)) {
                Some(Cached::Table(finder)) => Some(finder),
                _ => None,
            });
            match finder {
                Some(finder) => finder.keys().for_each(|key| blocks.remove(key)),
                None => blocks.remove_file(u64::from(number)),
            }
        }
        blocks.remove(table_key(number));
    }
}
