//! Hidden garbage: entries of which a newer table has another version of the key. Until a merge
//! brings the two together, the older one counts as needed, and so does its value.
//!
//! How many older entries a table hides is estimated from a sample of its blocks, once. The sum
//! over a version is a pure function.

use super::table_file::TableFile;
use super::version::{BOTTOM, Version};
use crate::Result;
use crate::lsm::closing::Closing;
use crate::lsm::entry::Kind;
use crate::lsm::filter;
use crate::lsm::merge::Source;
use crate::lsm::table::{Pace, TableCursor};

/// This many blocks of a table are sampled, and this many entries of each.
const SAMPLE_BLOCKS: u32 = 12;
const SAMPLE_ENTRIES: usize = 16;

/// What a version holds, by estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Bytes of tables, and of segments as far as tables point to them.
    pub(crate) bytes: u64,
    /// Of these, bytes of entries that newer ones hide.
    pub(crate) hidden_bytes: u64,
}

impl Survey {
    pub(crate) fn new(version: &Version) -> Self {
        let bytes = version.pointed_bytes();
        let hidden: u64 = version.tables().map(|(_, table)| table.hidden()).sum();
        Self { bytes, hidden_bytes: version.entry_bytes().saturating_mul(hidden).min(bytes) }
    }

    /// What would be left if everything were merged.
    pub(crate) fn needed_bytes(&self) -> u64 {
        self.bytes - self.hidden_bytes
    }
}

/// Estimates for tables that were not looked at yet, until the store is being closed. A table that
/// cannot be read hides nothing: a reader that needs it learns why.
pub(crate) fn estimate(version: &Version, closing: &Closing) {
    for (level, table) in version.tables() {
        if closing.check().is_err() {
            return;
        }
        if level < BOTTOM && !table.is_estimated() {
            table.set_hidden(hidden_entries(version, table).unwrap_or(0));
        }
    }
}

/// How many entries below a table it hides.
fn hidden_entries(version: &Version, table: &TableFile) -> Result<u64> {
    let open = table.open()?;
    let step = (open.blocks() / SAMPLE_BLOCKS).max(1);
    let mut cursor = TableCursor::new(open, Pace::Searching);
    let (mut looked, mut hiding) = (0_u64, 0_u64);
    cursor.first()?;
    while cursor.entry().is_some() {
        for _ in 0..SAMPLE_ENTRIES {
            let Some(entry) = cursor.entry() else { break };
            looked += 1;
            hiding += u64::from(hides(version, table, entry.key, entry.seq)?);
            cursor.next()?;
        }
        cursor.skip_blocks(step)?;
    }
    let points = table.meta.entries.saturating_mul(hiding).checked_div(looked).unwrap_or(0);
    Ok(points + covered_entries(version, table)?)
}

/// Whether an older entry of the key, with something in it, lies below.
fn hides(version: &Version, table: &TableFile, key: &[u8], seq: u64) -> Result<bool> {
    let Some(before) = seq.checked_sub(1) else { return Ok(false) };
    let hash = filter::hash(key);
    let around = |level: usize| {
        let tables = version.level(level);
        tables.get(tables.partition_point(|other| other.meta.bounds.is_before(key)))
    };
    for other in version.level(0).iter().chain((1..=BOTTOM).filter_map(around)) {
        let is_below = other.meta.number != table.meta.number && other.meta.seqs.0 <= before;
        if !is_below || !other.meta.bounds.contains(key) {
            continue;
        }
        let other = other.open()?;
        if !other.may_hold(hash) {
            continue;
        }
        let mut cursor = TableCursor::new(other, Pace::Searching);
        cursor.seek(key, before)?;
        if let Some(entry) = cursor.entry().filter(|entry| entry.key == key) {
            return Ok(entry.kind != Kind::Tombstone);
        }
    }
    Ok(false)
}

/// Entries of older tables that lie as a whole in a deleted range.
fn covered_entries(version: &Version, table: &TableFile) -> Result<u64> {
    if table.meta.ranges == 0 {
        return Ok(0);
    }
    let table = table.open()?;
    let pieces = table.pieces();
    let is_covered = |other: &TableFile| {
        let (bounds, newest) = (&other.meta.bounds, other.meta.seqs.1);
        let cover = |key: &[u8]| pieces.cover(key, u64::MAX) > newest;
        other.meta.ranges == 0 && cover(&bounds.first) && cover(&bounds.last)
    };
    let covered = version.tables().filter(|(_, other)| is_covered(other));
    Ok(covered.map(|(_, other)| other.meta.entries).sum())
}
