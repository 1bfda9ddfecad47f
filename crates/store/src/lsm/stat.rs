//! What a store consists of, in numbers.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::engine::Inner;
use super::files::Directory;
use super::files::cached::Kept;
use super::levels::version::{LEVELS, Pinned, Segment};
use super::read::view::View;
use crate::observe;
use crate::sync::atomic::AtomicU64;

/// A level of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStat {
    /// Tables.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their entries: deleted and hidden ones too.
    pub entries: u64,
    /// Of these, deletions of keys; plus deleted ranges.
    pub tombstones: u64,
}

/// The memory that a store takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStat {
    /// What it may take: [`Options::memory_limit`](super::Options::memory_limit).
    pub limit: u64,
    /// Entries that are not in tables yet.
    pub memtables: u64,
    /// Indexes, filters and range tombstones of tables, as far as the cache holds them.
    pub finders: u64,
    /// Data blocks of tables in the cache.
    pub blocks: u64,
    /// Separated values in the cache.
    pub values: u64,
    /// Lists of where collected values went.
    pub moved: u64,
    /// Buffers: of queues of reads, of read-ahead, of files that are being written.
    pub buffers: u64,
    /// The most that the system's cache holds of files that are being written.
    pub written: u64,
    /// The part of the log, not in tables yet, that the system's cache keeps for an opening after a
    /// kill, as long as nothing else needs the memory.
    pub log: u64,
    /// Not a part of the sum: about how many bytes the entries are that are not in tables yet, with
    /// their separated values, which are in the log only.
    pub entries: u64,
}

impl MemoryStat {
    /// The sum.
    pub fn total(&self) -> u64 {
        let Self { memtables, finders, blocks, values, moved, buffers, written, log, .. } = self;
        memtables + finders + blocks + values + moved + buffers + written + log
    }
}

/// What readers read since a store was opened: gets, scans and background work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadStat {
    /// How queues of reads are served: "ring", "threads" or "in order".
    pub back: &'static str,
    /// Whether files are read past the system's cache, which then holds none of them.
    pub is_direct: bool,
    /// Keys that were looked up.
    pub gets: u64,
    /// Blocks, values, indexes and filters that readers found in the cache.
    pub cache_hits: u64,
    /// Those that they had to read, or that another reader was reading.
    pub cache_misses: u64,
    /// Reads of a data block.
    pub blocks: u64,
    /// Reads of a separated value.
    pub values: u64,
    /// Reads of several blocks at once, for scans and merges.
    pub ahead: u64,
    /// Reads of one or several separated values for scans.
    pub prefetched: u64,
    /// Reads of indexes and filters.
    pub others: u64,
    /// Calls of the system that served queues of reads.
    pub turns: u64,
    /// The most reads that one thread had in flight.
    pub depth_max: u64,
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
}

impl Pin {
    pub(crate) fn new((name, pinned): (&Vec<u8>, &Pinned)) -> Self {
        let created = UNIX_EPOCH + Duration::from_secs(pinned.created);
        Self { name: name.clone(), commit: pinned.seq, created }
    }
}

/// What a store consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DbStat {
    /// Levels from the newest entries to the oldest; tables of level 0 overlap.
    pub levels: [LevelStat; LEVELS],
    /// Log segments and segments of collected values.
    pub segments: u64,
    /// Their bytes, without the one that is written to.
    pub segment_bytes: u64,
    /// Of these, bytes that tables point to.
    pub live_segment_bytes: u64,
    /// Of these, bytes of the segments that hold what no table does yet.
    pub log_bytes: u64,
    /// The memory that it takes.
    pub memory: MemoryStat,
    /// What was read since it was opened.
    pub reads: ReadStat,
    /// Held snapshots, pins aside.
    pub snapshots: u64,
    /// Commits that stay readable under a name.
    pub pins: Vec<Pin>,
    /// Entries of tables that only pins and snapshots still see.
    pub kept_entries: u64,
    /// The last sequence number of the newest commit; each operation takes one number.
    pub last_seq: u64,
    /// Why background work failed, if it did, until it is tried again, or a compaction goes well.
    pub failure: Option<String>,
}

impl DbStat {
    /// Bytes of all tables.
    pub fn table_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.bytes).sum()
    }

    /// Bytes of tables and segments, without the segment that is written to.
    pub fn bytes(&self) -> u64 {
        self.table_bytes() + self.segment_bytes
    }
}

pub(crate) fn stat(inner: &Inner) -> DbStat {
    let stat = DbStat {
        snapshots: inner.clock.snapshots().saturating_sub(inner.current().version.pins.len())
            as u64,
        failure: inner.background.failure(),
        ..of_view(&View::now(inner))
    };
    told(&inner.directory.path, &stat);
    stat
}

/// Tells a report to what watches the store.
fn told(path: &Path, stat: &DbStat) {
    observe::state(path, "lsm", None, || {
        [
            ("segments", stat.segments),
            ("segment_bytes", stat.segment_bytes),
            ("live_segment_bytes", stat.live_segment_bytes),
            ("log_bytes", stat.log_bytes),
            ("snapshots", stat.snapshots),
            ("pins", stat.pins.len() as u64),
            ("kept_entries", stat.kept_entries),
            ("last_seq", stat.last_seq),
        ]
    });
    for (i, level) in stat.levels.iter().enumerate() {
        let LevelStat { tables, bytes, entries, tombstones } = *level;
        observe::state(path, "lsm_levels", Some(i), || {
            [("tables", tables), ("bytes", bytes), ("entries", entries), ("tombstones", tombstones)]
        });
    }
    let MemoryStat {
        limit, memtables, finders, blocks, values, moved, buffers, written, log, ..
    } = stat.memory;
    observe::state(path, "lsm_memory", None, || {
        [
            ("limit", limit),
            ("memtables", memtables),
            ("finders", finders),
            ("blocks", blocks),
            ("values", values),
            ("moved", moved),
            ("buffers", buffers),
            ("written", written),
            ("log", log),
        ]
    });
    let reads = &stat.reads;
    observe::counts(path, "lsm_reads", || {
        [
            ("gets", reads.gets),
            ("cache_hits", reads.cache_hits),
            ("cache_misses", reads.cache_misses),
            ("blocks", reads.blocks),
            ("values", reads.values),
            ("ahead", reads.ahead),
            ("prefetched", reads.prefetched),
            ("others", reads.others),
            ("turns", reads.turns),
        ]
    });
}

/// The part that a read-only store knows.
pub(crate) fn of_view(view: &View) -> DbStat {
    let (current, version) = (&view.current, view.version());
    let mut stat = DbStat { last_seq: view.at, ..DbStat::default() };
    for (level, table) in version.tables() {
        let of_level = &mut stat.levels[level];
        of_level.tables += 1;
        of_level.bytes += table.meta.bytes;
        of_level.entries += table.meta.entries;
        of_level.tombstones += table.meta.tombstones + table.meta.ranges;
        stat.kept_entries += table.meta.shadowed;
    }
    for segment in version.segments() {
        stat.segments += 1;
        stat.segment_bytes += segment.bytes();
        stat.live_segment_bytes += version.live(segment.identity.number);
    }
    stat.pins = version.pins.iter().map(Pin::new).collect();
    stat.log_bytes = version.log().map(Segment::bytes).sum();
    stat.memory = MemoryStat {
        memtables: current.buffers().map(|buffer| buffer.memory() as u64).sum(),
        entries: current.buffers().map(|buffer| buffer.data_bytes()).sum(),
        ..memory(version.directory())
    };
    stat.reads = reads(version.directory());
    stat
}

/// What does not depend on the buffers.
fn memory(directory: &Directory) -> MemoryStat {
    let budget = &directory.budget;
    let ([buffers, moved, finders], kept) = budget.charged(|| Kept::from(directory.blocks.stats()));
    MemoryStat {
        limit: budget.limit(),
        finders: finders + kept.tables,
        blocks: kept.blocks,
        values: kept.values,
        moved,
        buffers,
        written: budget.all_written_bytes(),
        log: kept.lent,
        ..MemoryStat::default()
    }
}

fn reads(directory: &Directory) -> ReadStat {
    let (counts, cache) = (&directory.reads, directory.blocks.stats());
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    ReadStat {
        back: directory.io.back(),
        is_direct: directory.is_direct() == Some(true),
        gets: read(&counts.gets),
        cache_hits: cache.hits,
        cache_misses: cache.misses + cache.joined,
        blocks: read(&counts.blocks),
        values: read(&counts.values),
        ahead: read(&counts.ahead),
        prefetched: read(&counts.prefetched),
        others: read(&counts.others),
        turns: read(&counts.turns),
        depth_max: read(&counts.depth),
    }
}
