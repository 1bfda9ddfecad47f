//! What to compact next: a pure function of the version. `run` does the work.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::debt::Survey;
use super::table_file::TableFile;
use super::version::{BOTTOM, LEVELS, Version};
use crate::lsm::table::{Bounds, TableMeta};

/// Each level may hold this many times as much as the one above it.
const FANOUT: u64 = 10;
/// From this many tables on, or where most of it is deletions, level 0 is merged if it is this many
/// times as large as what it is merged with: a load that grows the store threefold writes its
/// tables anew one and a half times.
const LEVEL0_TABLES: usize = 4;
const LEVEL0_GROWTH: u64 = 2;
/// From this many tables on, level 0 is always merged; the limits are for tables with values and
/// for tables without: those are short, and one more costs a reader little.
const LEVEL0_TABLES_MAX: usize = 12;
const LEVEL0_TABLES_MAX_SEPARATED: usize = 24;
/// At this multiple of that number, in tenths, writers begin to wait.
const LEVEL0_TABLES_BEHIND: usize = 13;
/// Hidden entries may take this percentage of the needed bytes, and less while writers wait for
/// space: it is better to do work early than to do nothing.
const HIDDEN_PERCENT: u64 = 6;
const HIDDEN_PERCENT_PRESSED: u64 = 2;

/// Where there is little room on the disk a table takes no more than this part of it,
const TABLE_PART: u64 = 8;
/// or than this.
const TABLE_BYTES_MIN: u64 = 16 << 10;
/// A merge of one with those below it takes about this part;
const MERGE_PART: u64 = 2;
/// but for that no table is cut shorter than this.
const CUT_BYTES_MIN: u64 = 512;

/// Sizes that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// A level above the last one begins to be used when it would hold this much.
    pub(crate) level_bytes_min: u64,
    /// Less than this that newer entries hide is not worth a merge, nor are
    pub(crate) hidden_bytes_min: u64,
    /// this percentage of the needed bytes.
    pub(crate) hidden_percent: u64,
}

impl Sizes {
    /// For a store with tables and segments of these lengths.
    pub(crate) fn new(table_bytes: u64, segment_bytes: u64) -> Self {
        let level_bytes_min = table_bytes.saturating_mul(4);
        let (hidden_bytes_min, hidden_percent) = (segment_bytes / 4, HIDDEN_PERCENT);
        Self { level_bytes_min, hidden_bytes_min, hidden_percent }
    }

    /// The same while writers wait for space.
    pub(crate) fn pressed(self) -> Self {
        Self { hidden_percent: HIDDEN_PERCENT_PRESSED, ..self }
    }
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
    let least = level_bytes_min(version, sizes);
    let is_used = |&level: &usize| !version.level(level).is_empty() || targets[level] >= least;
    (1..BOTTOM).find(is_used).unwrap_or(BOTTOM)
}

/// If tables hold the values, merging level 0 with all of them temporarily takes their space once
/// more: then the levels above the last one are used earlier.
fn level_bytes_min(version: &Version, sizes: &Sizes) -> u64 {
    if is_inline(version) { sizes.level_bytes_min / 4 } else { sizes.level_bytes_min }
}

/// Whether tables hold most of the values.
fn is_inline(version: &Version) -> bool {
    let tables: u64 = version.tables().map(|(_, table)| table.meta.bytes).sum();
    tables > version.pointed_bytes() / 2
}

fn level0_tables_max(version: &Version) -> usize {
    if is_inline(version) { LEVEL0_TABLES_MAX } else { LEVEL0_TABLES_MAX_SEPARATED }
}

/// How many tables of level 0 should have been merged by now.
pub(crate) fn level0_behind(version: &Version) -> u64 {
    let most = level0_tables_max(version) * LEVEL0_TABLES_BEHIND / 10;
    version.level(0).len().saturating_sub(most) as u64
}

/// What should be merged now; `None` if everything is as it should be.
pub(crate) fn choose(version: &Version, sizes: &Sizes) -> Option<Plan> {
    let (targets, survey) = (targets(version), Survey::new(version));
    // In hundredths: from 100 on a level holds more than it should.
    let score = |level: usize| match level {
        0 => level0_score(version, sizes),
        _ => {
            let target = targets[level].max(level_bytes_min(version, sizes) / FANOUT).max(1);
            bytes(version.level(level)).saturating_mul(100) / target
        }
    };
    let too_much = survey.needed_bytes() / 100 * sizes.hidden_percent + sizes.hidden_bytes_min;
    let hiding = if survey.hidden_bytes > too_much {
        (0..BOTTOM).max_by_key(|&level| hidden(version.level(level)))
    } else {
        None
    };
    let (worst, fullest) = (0..BOTTOM).map(|level| (score(level), level)).max_by_key(|s| s.0)?;
    let from = if worst >= 100 { fullest } else { hiding? };
    if from == 0 {
        return level0_plan(version, sizes);
    }
    let cost = |table: &&Arc<TableFile>| cost(version, from, table, version.entry_bytes());
    let table = version.level(from).iter().min_by_key(cost)?;
    Some(plan(version, from, vec![Arc::clone(table)], from + 1))
}

/// How many entries tables hide.
fn hidden(tables: &[Arc<TableFile>]) -> u64 {
    tables.iter().map(|table| table.hidden()).sum()
}

/// Merging level 0 costs as much as what lies below it, and each of its tables is one more for
/// every reader to ask.
fn level0_score(version: &Version, sizes: &Sizes) -> u64 {
    let tables = version.level(0);
    let by_number = (tables.len() * 100 / level0_tables_max(version)) as u64;
    let sum = |of: fn(&TableMeta) -> u64| tables.iter().map(|table| of(&table.meta)).sum::<u64>();
    // Deletions only take time until they are merged.
    let is_emptied = 2 * sum(|meta| meta.tombstones) > sum(|meta| meta.entries);
    if tables.len() < LEVEL0_TABLES && !is_emptied {
        return by_number;
    }
    let below = bytes(version.level(base(version, sizes))).saturating_mul(LEVEL0_GROWTH).max(1);
    by_number.max(bytes(tables).saturating_mul(100) / below)
}

/// How many bytes must be merged for each byte that moves down or is forgotten, in hundredths.
fn cost(version: &Version, level: usize, table: &TableFile, entry_bytes: u64) -> u64 {
    let overlap = bytes(version.overlapping(level + 1, &table.meta.bounds));
    let leftovers = (table.meta.tombstones + table.meta.ranges).saturating_mul(64);
    let forgotten = leftovers.max(table.hidden().saturating_mul(entry_bytes));
    overlap.saturating_mul(100) / (table.meta.bytes + forgotten).max(1)
}

fn level0_plan(version: &Version, sizes: &Sizes) -> Option<Plan> {
    let upper = version.level(0).to_vec();
    (!upper.is_empty()).then(|| plan(version, 0, upper, base(version, sizes)))
}

fn plan(version: &Version, from: usize, upper: Vec<Arc<TableFile>>, to: usize) -> Plan {
    let around = Bounds::around(upper.iter().map(|table| &table.meta.bounds));
    let lower = around.as_ref().map_or(&[][..], |around| version.overlapping(to, around));
    let whole = Bounds::around(upper.iter().chain(lower).map(|table| &table.meta.bounds));
    let is_nothing =
        |level| whole.as_ref().is_none_or(|whole| version.overlapping(level, whole).is_empty());
    let is_last = (to + 1..LEVELS).all(is_nothing);
    Plan { from, upper: numbers(upper.iter()), to, lower: numbers(lower.iter()), is_last }
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

/// This plan, or one that leads the same way in smaller steps, if there may be too little room on
/// the disk for what this one writes before it removes anything, and another one fits.
pub(crate) fn fit(version: &Version, plan: Plan, room: u64) -> Plan {
    match read_bytes(version, &plan) > room {
        true => choose_small(version, room).unwrap_or(plan),
        false => plan,
    }
}

/// How many bytes a plan reads. It writes no more.
fn read_bytes(version: &Version, plan: &Plan) -> u64 {
    let read: BTreeSet<u32> = plan.upper.iter().chain(&plan.lower).copied().collect();
    let tables = version.tables().filter(|(_, table)| read.contains(&table.meta.number));
    tables.map(|(_, table)| table.meta.bytes).sum()
}

/// The smallest plan, if it reads at most so many bytes: moving a table down, or level 0 to a level
/// that holds nothing, from where its parts are moved down.
fn choose_small(version: &Version, room: u64) -> Option<Plan> {
    let moves = (1..BOTTOM).flat_map(|from| {
        let to = next_used(version, from + 1);
        let below = move |table: &TableFile| version.overlapping(to, &table.meta.bounds);
        let read = move |table: &TableFile| table.meta.bytes + bytes(below(table));
        version.level(from).iter().map(move |table| (read(table), from, to, table))
    });
    let smallest = moves.min_by_key(|(read, ..)| *read);
    let smallest =
        smallest.map(|(_, from, to, table)| plan(version, from, vec![Arc::clone(table)], to));
    let level0 = match (version.level(0), next_used(version, 1)) {
        ([], _) => None,
        (tables, first) => Some(plan(version, 0, tables.to_vec(), (first - 1).max(1))),
    };
    let plans = smallest.into_iter().chain(level0);
    let fitting = plans.map(|plan| (read_bytes(version, &plan), plan)).filter(|fit| fit.0 <= room);
    fitting.min_by_key(|fit| fit.0).map(|fit| fit.1)
}

/// How long the tables become that a plan writes: where there is little room on the disk, so short
/// that merging one with those below it takes a part of it only.
pub(crate) fn table_bytes(version: &Version, plan: &Plan, room: u64, most: u64) -> u64 {
    let most = most.min((room / TABLE_PART).max(TABLE_BYTES_MIN));
    let below = (plan.to + 1..LEVELS).map(|level| bytes(version.level(level))).max().unwrap_or(0);
    if below <= room {
        return most;
    }
    let read = u128::from(read_bytes(version, plan));
    let share = read * u128::from(room / MERGE_PART) / u128::from(below);
    most.min(u64::try_from(share).unwrap_or(u64::MAX).max(CUT_BYTES_MIN))
}

#[cfg(test)]
#[path = "compact/tests.rs"]
pub(in crate::lsm) mod tests;
