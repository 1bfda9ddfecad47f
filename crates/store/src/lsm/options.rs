//! Every option of a store, and the durability of commits.

use std::fmt;
use std::sync::Arc;

use crate::os::System;

/// What a commit promises when it returns. A crash leaves in every mode a *prefix* of the commits:
/// if one survives, all before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// It is handed to the system with a later commit, with [`Db::sync`](super::Db::sync), or at
    /// the close: it may be lost with the process.
    None,
    /// It is handed to the system: it survives the death of the process, and may be lost with the
    /// machine.
    Buffered,
    /// It is on stable storage.
    Durable,
}

/// How a store is opened.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("db");
/// use hedgerow::lsm::{Durability, Options};
///
/// let db = Options::new().create(true).durability(Durability::Buffered).open(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) create: bool,
    pub(crate) durability: Durability,
    pub(crate) memtable_bytes: usize,
    pub(crate) segment_bytes: u64,
    pub(crate) table_bytes: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) system: Option<SystemHandle>,
}

/// The system a store runs on; only tests set another one than the real one.
#[derive(Clone)]
pub(crate) struct SystemHandle(pub(crate) Arc<dyn System>);

impl fmt::Debug for SystemHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("system")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            create: false,
            durability: Durability::Durable,
            memtable_bytes: 32 << 20,
            segment_bytes: 64 << 20,
            table_bytes: 32 << 20,
            cache_bytes: 64 << 20,
            system: None,
        }
    }
}

impl Options {
    /// The options that a store has unless told.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a store is created where there is none. No, unless told.
    pub fn create(mut self, yes: bool) -> Self {
        self.create = yes;
        self
    }

    /// The durability of commits that do not choose one: [`Durability::Durable`], unless told.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How many bytes of new entries are kept in memory before they go to a table: 32 MiB, unless
    /// told. While they go there, up to three times as much is in memory.
    pub fn memtable_bytes(mut self, bytes: usize) -> Self {
        self.memtable_bytes = bytes.max(1);
        self
    }

    /// How long a log segment becomes: 64 MiB, unless told.
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes.max(1);
        self
    }

    /// How long a table becomes: 32 MiB, unless told.
    pub fn table_bytes(mut self, bytes: u64) -> Self {
        self.table_bytes = bytes.max(1);
        self
    }

    /// How many bytes of what was read are kept in memory: what finds the blocks of tables, blocks,
    /// and separated values. 64 MiB, unless told.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Runs on another system than the real one: a simulated disk.
    #[doc(hidden)]
    pub fn system(mut self, system: Arc<dyn System>) -> Self {
        self.system = Some(SystemHandle(system));
        self
    }
}
