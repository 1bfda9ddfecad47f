//! Reports: what a store, a table, its readers look like; what check, copy and compact found and
//! did.

use std::time::SystemTime;

use super::page_ref::PageRef;
use super::pages::Pages;
use super::tree::Root;
use super::{Count, search};
use crate::Result;

/// A table in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStat {
    /// Its entries.
    pub count: Count,
    /// Levels: 0 for an empty table, 1 where the root is a leaf.
    pub depth: u32,
    /// Branch pages.
    pub branch_pages: u64,
    /// Leaf pages.
    pub leaf_pages: u64,
    /// Overflow pages (long values and keys; not those of the few long keys that stand in
    /// branches).
    pub overflow_pages: u64,
}

/// The pages of a table by level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableShape {
    /// The leaves first, the root last; empty for an empty table.
    pub levels: Vec<LevelShape>,
    /// The page size in bytes.
    pub page_size: u32,
}

/// The pages of one level of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelShape {
    /// Pages.
    pub pages: u64,
    /// Keys of leaves (one whose values go on in the next leaf counts in both), children of
    /// branches.
    pub entries: u64,
    /// Bytes in use, of `pages` times the page size.
    pub used_bytes: u64,
}

impl TableShape {
    /// Walks a tree.
    pub(crate) fn of<P: Pages>(pages: &P, root: &Root) -> Result<Self> {
        let page_size = pages.page_size() as u32;
        if root.page.is_none() {
            return Ok(Self { levels: Vec::new(), page_size });
        }
        let mut levels = vec![LevelShape::default(); usize::from(root.level) + 1];
        search::for_each_page(pages, root.page, root.level, &mut |_: PageRef, page| {
            if let Some(level) = levels.get_mut(usize::from(page.level())) {
                level.pages += 1;
                level.entries += page.len() as u64;
                level.used_bytes += page.used() as u64;
            }
            Ok(())
        })?;
        Ok(Self { levels, page_size })
    }
}

/// A store in numbers.
#[derive(Clone, Debug, Default)]
pub struct StoreStat {
    /// The page size in bytes.
    pub page_size: u32,
    /// The newest commit's number.
    pub commit: u64,
    /// The newest commit known to be on stable storage.
    pub durable_commit: u64,
    /// The length of the data file in bytes.
    pub file_bytes: u64,
    /// Pages in use up to the end of the last one, of every kind and free.
    pub pages: u64,
    /// Pages that are free for the next transaction.
    pub free_pages: u64,
    /// Pages that are freed but still seen by some snapshot.
    pub pinned_pages: u64,
    /// Pages of the catalog and of the free-space tables.
    pub own_pages: u64,
    /// Number of tables.
    pub tables: u64,
    /// All tables together (`depth` is the largest).
    pub table_pages: TableStat,
    /// What keeps freed pages from being used.
    pub holders: Holders,
    /// The maximum size in bytes that is kept in the store
    /// ([`Store::set_max_size`](super::Store::set_max_size)).
    pub max_size: Option<u64>,
}

/// What keeps pages of older commits.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    /// Live read transactions.
    pub readers: Vec<Reader>,
    /// The pins ([`Store::pin`](super::Store::pin)), in bytewise order of their names.
    pub pins: Vec<Pin>,
}

/// A commit that stays readable under a name until that is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Its name.
    pub name: Vec<u8>,
    /// The number of the commit.
    pub commit: u64,
    /// When the pin was made, by the clock of the system.
    pub created: SystemTime,
    /// Pages that would be free without this pin: no other pin, reader or newer commit uses them.
    pub held_pages: u64,
}

/// What [`Store::salvage`](super::Store::salvage) brought over, and what it could not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// The commit that was read, if a meta record of it was found.
    pub commit: Option<u64>,
    /// What was made of the redo log, if it holds commits that no meta record counts for.
    pub log: Option<LogReport>,
    /// The commit that a normal opening would find, if a newer one was read; and how many of the
    /// entries are of this one, since the newer one lost what stood in their place.
    pub filled: Option<(u64, u64)>,
    /// Tables copied, including partly copied ones.
    pub tables: u64,
    /// Entries copied.
    pub entries: u64,
    /// What was lost; empty if nothing was.
    pub losses: Vec<Loss>,
}

/// What a salvage made of the redo log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// Commits that follow the durable one without a gap, and were replayed.
    pub records: u64,
    /// The last commit that was replayed.
    pub commit: u64,
    /// Later commits after a gap that were replayed as far as their pages fit.
    pub apart: u64,
    /// Later commits that were not, because they build on a damaged one.
    pub unused: u64,
}

/// Part of a store that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// The table; empty for the catalog.
    pub table: Vec<u8>,
    /// The key with which the lost range begins; `None`: the table's beginning.
    pub from: Option<Vec<u8>>,
    /// The key before which it ends; `None`: the table's end. The same as `from` where one entry
    /// was lost.
    pub to: Option<Vec<u8>>,
    /// How many entries were lost, by the counters above them, if there are any.
    pub entries: Option<u64>,
    /// The page that could not be read.
    pub page: Option<u64>,
    /// What is wrong with it.
    pub reason: String,
}

impl Loss {
    /// A loss that concerns the store as a whole.
    pub(crate) fn of_store(reason: &str) -> Self {
        Self { reason: reason.to_owned(), ..Self::default() }
    }

    /// A table of which nothing was brought over.
    pub(crate) fn of_table(name: &[u8]) -> Self {
        Self { table: name.to_vec(), ..Self::default() }
    }
}

/// A live read transaction.
#[derive(Clone, Debug)]
pub struct Reader {
    /// The process.
    pub process: u32,
    /// The thread that began it, as the system prints it.
    pub thread: u64,
    /// The commit that it reads.
    pub commit: u64,
    /// Its age.
    pub age: std::time::Duration,
}

/// What [`Store::check`](super::Store::check) found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Pages that were read.
    pub pages: u64,
    /// Entries that were read.
    pub entries: u64,
    /// What is wrong, one sentence each with the page number; empty if all is well. The list is
    /// cut after 1,000.
    pub problems: Vec<String>,
    /// What is worth knowing but does not damage anything in use.
    pub notes: Vec<String>,
}

/// How [`Store::copy_to`](super::Store::copy_to) copies.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyOptions {
    /// Leave out free pages and fill pages anew.
    pub compact: bool,
}

/// What [`Store::compact`](super::Store::compact) did.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompactReport {
    /// The file's length before, in bytes.
    pub before: u64,
    /// The file's length after, in bytes.
    pub after: u64,
    /// Pages that were moved.
    pub moved_pages: u64,
    /// Steps (commits) that it took.
    pub steps: u64,
}

impl TableStat {
    /// What a root record says.
    pub(crate) fn of(root: &Root) -> Self {
        let depth = if root.page.is_none() { 0 } else { u32::from(root.level) + 1 };
        Self {
            count: root.count,
            depth,
            branch_pages: root.branch_pages,
            leaf_pages: root.leaf_pages,
            overflow_pages: root.overflow_pages,
        }
    }

    pub(crate) fn pages(&self) -> u64 {
        self.branch_pages.saturating_add(self.leaf_pages).saturating_add(self.overflow_pages)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.depth = self.depth.max(other.depth);
        let sums = [
            (&mut self.count.keys, other.count.keys),
            (&mut self.count.values, other.count.values),
            (&mut self.branch_pages, other.branch_pages),
            (&mut self.leaf_pages, other.leaf_pages),
            (&mut self.overflow_pages, other.overflow_pages),
        ];
        // Whatever a damaged catalog says.
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
    }
}
