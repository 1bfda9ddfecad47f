//! Opening, beginning transactions, and the work on a store as a whole.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    Builder, CheckReport, CompactReport, CopyOptions, ReadTxn, Reader, StoreStat, WriteTxn,
};
use crate::Result;

/// An open store. Cheap to clone; may be used from any number of threads.
#[derive(Clone)]
pub struct Store {}

/// A flag that stops long work: raise it from any thread or a signal handler and running
/// operations of the store return [`Error::Interrupted`](crate::Error::Interrupted).
#[derive(Clone, Debug, Default)]
pub struct Interrupt(pub(crate) Arc<AtomicBool>);

impl Interrupt {
    /// Raises or lowers the flag. Async-signal-safe.
    pub fn set(&self, raised: bool) {
        self.0.store(raised, Ordering::Relaxed);
    }
    /// Whether it is raised.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[allow(unused_variables, missing_docs)]
impl Store {
    pub fn builder() -> Builder {
        Builder::new()
    }
    /// Creates a store with the default options; the path must not exist or be an empty folder.
    pub fn create(path: impl AsRef<Path>) -> Result<Store> {
        unimplemented!()
    }
    /// Opens a store that exists.
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        unimplemented!()
    }
    pub fn begin_read(&self) -> Result<ReadTxn> {
        unimplemented!()
    }
    /// Waits for other writers.
    pub fn begin_write(&self) -> Result<WriteTxn> {
        unimplemented!()
    }
    /// `None` if there is another writer.
    pub fn try_begin_write(&self) -> Result<Option<WriteTxn>> {
        unimplemented!()
    }
    /// Makes all commits so far durable.
    pub fn sync(&self) -> Result<()> {
        unimplemented!()
    }
    pub fn stat(&self) -> Result<StoreStat> {
        unimplemented!()
    }
    pub fn readers(&self) -> Result<Vec<Reader>> {
        unimplemented!()
    }
    /// Verifies every page in use, order, counters, that each page is used once or free.
    /// `progress(done_pages, all_pages)`.
    pub fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<CheckReport> {
        unimplemented!()
    }
    /// Hot copy of the newest snapshot to a new file. `progress(done_bytes, all_bytes)`.
    pub fn copy_to(
        &self,
        path: impl AsRef<Path>,
        options: CopyOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        unimplemented!()
    }
    /// Moves pages towards the front in small commits and cuts the file, while others read and write.
    pub fn compact(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<CompactReport> {
        unimplemented!()
    }
    pub fn interrupt(&self) -> Interrupt {
        unimplemented!()
    }
    /// The data file.
    pub fn path(&self) -> &Path {
        unimplemented!()
    }
    pub fn page_size(&self) -> u32 {
        unimplemented!()
    }
    pub fn is_read_only(&self) -> bool {
        unimplemented!()
    }
    /// Longest key of a table in bytes (65,535), longest value of a table with duplicates.
    pub fn max_key_size(&self) -> usize {
        unimplemented!()
    }
    pub fn max_duplicate_size(&self) -> usize {
        unimplemented!()
    }
}
