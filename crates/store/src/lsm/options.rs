//! Every option of a store, and the durability of commits.

use std::fmt;
use std::sync::Arc;

use crate::Durability;
use crate::os::System;

/// A store needs at least this much memory.
const MEMORY_MIN: u64 = 4 << 20;
/// A segment or a table is no longer than this, whatever is asked for: sums of a few of them are
/// numbers.
const FILE_BYTES_MAX: u64 = 1 << 50;
/// Whether a buffer or a segment is full is checked after each of this many parts of it, but at
/// least once in this many bytes.
const LOOK_PART: u64 = 256;
const LOOK_BYTES_MAX: u64 = 16 << 10;

/// How a store is opened.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("db");
/// use hedgerow::Durability;
/// use hedgerow::lsm::Options;
///
/// let db = Options::new().create(true).durability(Durability::Eventual).open(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) create: bool,
    pub(crate) durability: Durability,
    pub(crate) memory_limit: u64,
    /// 0 for this one and the next two: by the memory limit.
    pub(crate) memtable_bytes: usize,
    pub(crate) segment_bytes: u64,
    pub(crate) table_bytes: u64,
    pub(crate) system_cache: bool,
    pub(crate) file_mode: u32,
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
            memory_limit: 256 << 20,
            memtable_bytes: 0,
            segment_bytes: 0,
            table_bytes: 0,
            system_cache: false,
            file_mode: 0o600,
            system: None,
        }
    }
}

impl Options {
    /// The default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a store is created where there is none. The default is no.
    pub fn create(mut self, yes: bool) -> Self {
        self.create = yes;
        self
    }

    /// The durability of commits that do not choose one. The default is [`Durability::Durable`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How many bytes of memory the store takes: by default 256 MiB, and at least 4 MiB.
    ///
    /// That covers everything: new entries, indexes and filters of tables, blocks and values that
    /// were read, buffers, and what the system's cache holds of files that are being written. If
    /// the values of a store are separated, a limit of about 5 % of its size is enough to find each
    /// value with one read.
    ///
    /// It does not cover batches, keys and values while they are handed over, and entries that a
    /// cursor holds after they went to tables. If files are not read past the system's cache, since
    /// the file system does not support that ([`ReadStat::is_direct`](super::ReadStat::is_direct))
    /// or [`Options::system_cache`] says so, the size of that cache is not limited.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = bytes.max(MEMORY_MIN);
        self
    }

    /// Whether the system's cache may hold what the store reads and writes, besides what it has in
    /// its own memory. The default is no: files are read past that cache, which then holds nothing
    /// twice, and leaves other programs what they have in it.
    ///
    /// With yes, blocks of tables are read once and then stand in maps of their files, so that the
    /// memory limit is for what finds them, about a seventh of their size; the blocks themselves
    /// stay as long as the machine has memory for them. For a store that is larger than its limit
    /// and smaller than the machine's memory. Separated values are read by a call of the system,
    /// those that the limit has no room for each time. What is durable, and when, is the same.
    ///
    /// A block is compared with its checksum when it is first read; one that was written since the
    /// store was opened, and one that the system let go of and reads again, is not. As with any map
    /// of a file, a disk that fails to read such a block again, or a program that shortens a table,
    /// ends the process by a signal (`SIGBUS`); what is wrong when a block is first read is an
    /// [`Error`](crate::Error).
    pub fn system_cache(mut self, yes: bool) -> Self {
        self.system_cache = yes;
        self
    }

    /// The permission bits of new files: by default `0o600`. A new directory may also be entered by
    /// those who may read it. Checkpoints and backups have the bits of their store.
    pub fn file_mode(mut self, mode: u32) -> Self {
        self.file_mode = mode;
        self
    }

    /// How many bytes of new entries are kept in memory before they go to a table: by default a
    /// sixteenth of the memory limit, and at most an eighth of it. While they are written, up to
    /// three times as much is in memory. They also go to a table when they take three segments of
    /// the log with their separated values ([`Options::segment_bytes`]).
    pub fn memtable_bytes(mut self, bytes: usize) -> Self {
        self.memtable_bytes = bytes.max(1);
        self
    }

    /// How long a log segment becomes: by default an eighth of the memory limit, but between 1 and
    /// 64 MiB. Garbage in a store is known and collected in steps of this size.
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes.max(1);
        self
    }

    /// How long a table becomes: by default a sixteenth of the memory limit, but at most 32 MiB.
    pub fn table_bytes(mut self, bytes: u64) -> Self {
        self.table_bytes = bytes.max(1);
        self
    }

    /// With the sizes that were left to the memory limit.
    pub(crate) fn settled(&self) -> Self {
        let limit = self.memory_limit;
        let or = |told: u64, otherwise: u64| if told == 0 { otherwise } else { told };
        let memtable_bytes = or(self.memtable_bytes as u64, limit / 16).min(limit / 8);
        Self {
            memtable_bytes: memtable_bytes as usize,
            segment_bytes: or(self.segment_bytes, (limit / 8).clamp(1 << 20, 64 << 20))
                .min(FILE_BYTES_MAX),
            table_bytes: or(self.table_bytes, (limit / 16).min(32 << 20)).min(FILE_BYTES_MAX),
            ..self.clone()
        }
    }

    /// After this many new bytes it is checked whether there is room: a small part of a full buffer
    /// or segment.
    pub(crate) fn look_bytes(&self) -> u64 {
        (self.segment_bytes.min(self.memtable_bytes as u64) / LOOK_PART).min(LOOK_BYTES_MAX)
    }

    /// Runs on another system than the real one: a simulated disk.
    #[doc(hidden)]
    pub fn system(mut self, system: Arc<dyn System>) -> Self {
        self.system = Some(SystemHandle(system));
        self
    }
}
