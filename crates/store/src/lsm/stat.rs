//! What a store consists of, in numbers.

use super::engine::Inner;
use super::version::{LEVELS, Segment};

/// A level of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStat {
    /// Tables.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their entries: deleted and hidden ones too.
    pub entries: u64,
    /// Of these, the ones that say that a key was deleted; and deleted ranges.
    pub tombstones: u64,
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
    /// Bytes of memory that entries take which are not in tables yet.
    pub memtable_bytes: u64,
    /// Bytes of memory that the indexes and filters of open tables take, and lists of moved values.
    pub index_bytes: u64,
    /// Bytes of memory that blocks of tables take in the cache.
    pub cache_bytes: u64,
    /// Blocks that readers found in the cache.
    pub cache_hits: u64,
    /// Blocks that readers had to read.
    pub cache_misses: u64,
    /// Held snapshots.
    pub snapshots: u64,
    /// Commits have sequence numbers up to this one; each operation takes one.
    pub last_seq: u64,
    /// Why work in the background failed, if it did.
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
    let current = inner.current();
    let version = &current.version;
    let mut stat = DbStat::default();
    for (level, table) in version.tables() {
        let of_level = &mut stat.levels[level];
        of_level.tables += 1;
        of_level.bytes += table.meta.bytes;
        of_level.entries += table.meta.entries;
        of_level.tombstones += table.meta.tombstones + table.meta.ranges;
        stat.index_bytes += table.memory() as u64;
    }
    for segment in version.segments() {
        stat.segments += 1;
        stat.segment_bytes += segment.bytes();
        stat.live_segment_bytes += version.live(segment.identity.number);
        stat.index_bytes += Segment::memory(segment) as u64;
    }
    let buffers = std::iter::once(&current.active).chain(current.frozen.iter().map(|f| &f.buffer));
    stat.memtable_bytes = buffers.map(|buffer| buffer.memory() as u64).sum();
    let cache = inner.directory.blocks.stats();
    (stat.cache_bytes, stat.cache_hits) = (cache.bytes, cache.hits);
    stat.cache_misses = cache.misses + cache.joined;
    stat.snapshots = inner.clock.snapshots() as u64;
    stat.last_seq = inner.clock.visible.load(std::sync::atomic::Ordering::Acquire);
    stat.failure = inner.background.failure();
    stat
}
