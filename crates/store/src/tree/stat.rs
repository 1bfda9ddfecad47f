//! Reports: what a store, a table, its readers look like; what check, copy and compact found and did.

use super::Count;
use super::tree::Root;

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
    /// Overflow pages (long values and keys).
    pub overflow_pages: u64,
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
    /// All tables together (depth: the largest).
    pub table_pages: TableStat,
    /// Live read transactions.
    pub readers: Vec<Reader>,
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
