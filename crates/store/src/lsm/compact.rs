//! What to compact next: a pure function of the version. Doing it is `run`'s.

use std::sync::Arc;

use super::table::{Bounds, TableMeta};
use super::version::{LEVELS, TableFile, Version};

/// The last level.
pub(crate) const BOTTOM: usize = LEVELS - 1;
/// Each level may hold so many times what the one above it does.
const FANOUT: u64 = 10;
/// So many tables in level 0 are merged.
pub(crate) const LEVEL0_TABLES: usize = 4;

/// Sizes that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// A level above the last one begins to be used when it would hold this much.
    pub(crate) level_bytes_min: u64,
}

/// Tables that are merged, and where the result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// From this level.
    pub(crate) from: usize,
    /// These of its tables.
    pub(crate) upper: Vec<u32>,
    /// To this level; the same one if tables are only rewritten.
    pub(crate) to: usize,
    /// These of its tables, which overlap.
    pub(crate) lower: Vec<u32>,
    /// Whether nothing older lies below: deleted keys need not be remembered.
    pub(crate) is_last: bool,
}

fn bytes(tables: &[Arc<TableFile>]) -> u64 {
    tables.iter().map(|table| table.meta.bytes).sum()
}

fn numbers<'a>(tables: impl Iterator<Item = &'a Arc<TableFile>>) -> Vec<u32> {
    tables.map(|table| table.meta.number).collect()
}

/// How many bytes each level may hold: a tenth of what the one below holds, so that at most about
/// a ninth of the store is what newer entries hide. The last one takes any amount.
fn targets(version: &Version) -> [u64; LEVELS] {
    let mut targets = [u64::MAX; LEVELS];
    let mut below = bytes(version.level(BOTTOM));
    for level in (1..BOTTOM).rev() {
        targets[level] = below / FANOUT;
        below = targets[level];
    }
    targets
}

/// The level that level 0 is merged into: the first one that holds something, or that is due to.
fn base(version: &Version, sizes: &Sizes) -> usize {
    let targets = targets(version);
    let is_used = |&level: &usize| {
        !version.level(level).is_empty() || targets[level] >= sizes.level_bytes_min
    };
    (1..BOTTOM).find(is_used).unwrap_or(BOTTOM)
}

/// What should be merged now; `None` if everything is as it should be.
pub(crate) fn choose(version: &Version, sizes: &Sizes) -> Option<Plan> {
    let targets = targets(version);
    // In hundredths: from 100 on a level holds more than it should.
    let level0 = (version.level(0).len() * 100 / LEVEL0_TABLES) as u64;
    let score = |level: usize| match level {
        0 => level0,
        _ => {
            let target = targets[level].max(sizes.level_bytes_min / FANOUT).max(1);
            bytes(version.level(level)).saturating_mul(100) / target
        }
    };
    let (worst, from) = (0..BOTTOM).map(|level| (score(level), level)).max_by_key(|s| s.0)?;
    match (worst >= 100, from) {
        (false, _) => None,
        (true, 0) => level0_plan(version, sizes),
        (true, _) => {
            let table =
                version.level(from).iter().min_by_key(|table| cost(version, from, table))?;
            Some(plan(version, from, vec![Arc::clone(table)], from + 1))
        }
    }
}

/// How many bytes must be merged for each byte that moves down, in hundredths; less where deleted
/// keys wait to be forgotten.
fn cost(version: &Version, level: usize, table: &TableFile) -> u64 {
    let overlap = version.level(level + 1).iter();
    let overlap = overlap.filter(|other| other.meta.bounds.overlaps(&table.meta.bounds));
    let overlap: u64 = overlap.map(|other| other.meta.bytes).sum();
    let forgotten = (table.meta.tombstones + table.meta.ranges).saturating_mul(64);
    overlap.saturating_mul(100) / (table.meta.bytes + forgotten).max(1)
}

fn level0_plan(version: &Version, sizes: &Sizes) -> Option<Plan> {
    let upper = version.level(0).to_vec();
    (!upper.is_empty()).then(|| plan(version, 0, upper, base(version, sizes)))
}

fn plan(version: &Version, from: usize, upper: Vec<Arc<TableFile>>, to: usize) -> Plan {
    let around = Bounds::around(upper.iter().map(|table| &table.meta.bounds));
    let overlaps = |table: &&Arc<TableFile>| {
        around.as_ref().is_some_and(|around| table.meta.bounds.overlaps(around))
    };
    let lower: Vec<_> = version.level(to).iter().filter(overlaps).collect();
    let whole = Bounds::around(lower.iter().map(|table| &table.meta.bounds));
    let whole = match (&around, whole) {
        (Some(around), Some(whole)) => Some(around.join(&whole)),
        (around, whole) => whole.or_else(|| around.clone()),
    };
    let below = (to + 1..LEVELS).flat_map(|level| version.level(level));
    let mut below = below.map(|table| &table.meta.bounds);
    let is_last = !below.any(|bounds| whole.as_ref().is_some_and(|whole| whole.overlaps(bounds)));
    let lower = numbers(lower.into_iter());
    Plan { from, upper: numbers(upper.iter()), to, lower, is_last }
}

/// What a full compaction does next, until there is one level and nothing in it that could be left
/// out. `may_forget(table)` says whether entries that were kept for snapshots, or deletions, could
/// be left out now.
pub(crate) fn choose_full(
    version: &Version,
    may_forget: impl Fn(&TableMeta) -> bool,
) -> Option<Plan> {
    let from = (0..BOTTOM).find(|&level| !version.level(level).is_empty());
    match from {
        Some(0) => Some(plan(version, 0, version.level(0).to_vec(), next_used(version, 1))),
        Some(from) => {
            let table = version.level(from).first()?;
            Some(plan(version, from, vec![Arc::clone(table)], next_used(version, from + 1)))
        }
        None => {
            let table = version.level(BOTTOM).iter().find(|table| may_forget(&table.meta))?;
            let upper = vec![table.meta.number];
            Some(Plan { from: BOTTOM, upper, to: BOTTOM, lower: Vec::new(), is_last: true })
        }
    }
}

fn next_used(version: &Version, from: usize) -> usize {
    (from..BOTTOM).find(|&level| !version.level(level).is_empty()).unwrap_or(BOTTOM)
}

/// How long a writer of so many bytes waits, in microseconds, when the merging of level 0 is so
/// many tables behind: nothing at first, then more and more, never for ever.
pub(crate) fn delay_us(level0_tables: usize, bytes: usize) -> u64 {
    let behind = level0_tables.saturating_sub(2 * LEVEL0_TABLES) as u64;
    // 64 MB/s at one table behind, half as much for each one more.
    let us_per_kib = 16_u64.saturating_mul(1 << behind.saturating_sub(1).min(8));
    if behind == 0 { 0 } else { (bytes as u64 / 1024).saturating_mul(us_per_kib).min(100_000) }
}

#[cfg(test)]
#[path = "compact/tests.rs"]
mod tests;
