//! What the measurements ask of an engine: one small adapter implements this for each.
//!
//! Only traits and plain data. Keys and values pass as [`Bytes`], which a plain slice becomes for
//! free, so that no adapter has to copy. All calls are statically dispatched: an adapter that is
//! inlined adds next to nothing to the instructions counted.

use std::path::Path;

use hedgerow::tree::Bytes;

/// Any error, with its own words.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// A result of this package.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The pages of one table, in the engine's own words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Levels of the tree.
    pub(crate) depth: u64,
    /// Branch pages.
    pub(crate) branch: u64,
    /// Leaf pages.
    pub(crate) leaf: u64,
    /// Overflow pages.
    pub(crate) overflow: u64,
    /// Pairs of a key and a value.
    pub(crate) entries: u64,
}

/// An open store of one engine, with pages of 4 KiB and without flushes to the disk.
pub(crate) trait Engine: Sized {
    /// Its read transaction.
    type Reader<'e>: Reader
    where
        Self: 'e;
    /// Its write transaction.
    type Writer<'e>: Writer
    where
        Self: 'e;

    /// Makes a new store in an empty folder.
    fn create(folder: &Path) -> Result<Self>;
    /// Opens the store in a folder.
    fn open(folder: &Path) -> Result<Self>;
    /// Begins a read transaction.
    fn read(&self) -> Result<Self::Reader<'_>>;
    /// Begins the write transaction.
    fn write(&self) -> Result<Self::Writer<'_>>;
}

/// A read transaction.
pub(crate) trait Reader {
    /// A table's handle, valid in this transaction.
    type Table: Copy;
    /// A cursor of this transaction.
    type Cursor<'r>: Cursor
    where
        Self: 'r;

    /// Opens a table.
    fn table(&self, name: &str) -> Result<Self::Table>;
    /// The (first) value of a key.
    fn get(&self, table: Self::Table, key: &[u8]) -> Result<Option<Bytes<'_>>>;
    /// A cursor that stands before the first entry.
    fn cursor(&self, table: Self::Table) -> Result<Self::Cursor<'_>>;
    /// The pages and entries of a table.
    fn pages(&self, table: Self::Table) -> Result<Pages>;

    /// Reads all of a table, so that every page is in memory and has been looked at.
    fn warm(&self, table: Self::Table) -> Result<()> {
        let mut cursor = self.cursor(table)?;
        while cursor.next()?.is_some() {}
        Ok(())
    }
}

/// A place in a table.
pub(crate) trait Cursor {
    /// Steps to the next pair of a key and a value.
    fn next(&mut self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>>;
    /// Calls `visit` with every value of a key in order, the way that the engine does it best;
    /// returns how many there were.
    fn each_value(&mut self, key: &[u8], visit: impl FnMut(Bytes<'_>)) -> Result<u64>;
}

/// The order statistics of a read transaction, for the engines that have them.
pub(crate) trait Counting: Reader {
    /// The entry with exactly `n` entries before it.
    fn nth(&self, table: Self::Table, n: u64) -> Result<Option<(Bytes<'_>, Bytes<'_>)>>;
    /// How many entries come before a key.
    fn rank(&self, table: Self::Table, key: &[u8]) -> Result<u64>;
    /// How many distinct keys, and how many pairs, lie between two keys (the second not included).
    fn count_range(&self, table: Self::Table, low: &[u8], high: &[u8]) -> Result<(u64, u64)>;
}

/// A write transaction.
pub(crate) trait Writer {
    /// A table's handle, valid in this transaction.
    type Table: Copy;

    /// Opens a table, creating it if it is not there.
    fn create_table(&mut self, name: &str, duplicates: bool) -> Result<Self::Table>;
    /// Stores an entry, or adds a pair to a table with duplicates.
    fn put(&mut self, table: Self::Table, key: &[u8], value: &[u8]) -> Result<()>;
    /// Stores entries that come after all others, in order, the way that the engine does it best.
    fn append_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        table: Self::Table,
        entries: impl Iterator<Item = (K, V)>,
    ) -> Result<()>;
    /// The pages and entries of a table.
    fn pages(&self, table: Self::Table) -> Result<Pages>;
    /// Makes the changes visible.
    fn commit(self) -> Result<()>;
}
