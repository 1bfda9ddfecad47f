//! Verifying everything: each block of each table, its filter and its deleted ranges, each group of
//! each segment, each value, and that they agree with each other. Damage does not stop it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entry::compare;
use super::filter;
use super::levels::table_file::TableFile;
use super::levels::version::{Segment, Version};
use super::log::groups::Groups;
use super::log::segment::Ops;
use super::merge::Source;
use super::read::view::View;
use super::table::{Bounds, Finder, Pace, Table, TableCursor, TableMeta};
use super::values::vlog;
use crate::{Error, Result};

/// What a check found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Tables that were read.
    pub tables: u64,
    /// Their entries, and those that only the log holds.
    pub entries: u64,
    /// Segments that were read.
    pub segments: u64,
    /// Separated values that were read.
    pub values: u64,
    /// Everything that is wrong, each with file and offset.
    pub damage: Vec<Error>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }

    /// Notes damage; other errors end the check.
    fn note(&mut self, result: Result<()>) -> Result<()> {
        match result {
            Err(error @ Error::Corrupt { .. }) => {
                self.damage.push(error);
                Ok(())
            }
            other => other,
        }
    }
}

pub(crate) fn check(view: &View) -> Result<CheckReport> {
    let version = view.version();
    let mut report = CheckReport::default();
    for (_, table) in version.tables() {
        report.tables += 1;
        let checked = check_table(version, table, &mut report);
        report.note(checked)?;
    }
    for segment in version.segments() {
        report.segments += 1;
        let checked = check_segment(segment);
        report.note(checked)?;
    }
    let buffers = view.current.buffers().map(|buffer| buffer.count(view.at));
    report.entries += buffers.sum::<u64>();
    Ok(report)
}

/// What a table was found to hold.
#[derive(Default)]
struct Counts {
    entries: u64,
    tombstones: u64,
    segments: BTreeMap<u32, u64>,
    last: Option<(Vec<u8>, u64)>,
}

fn check_table(version: &Version, table: &TableFile, report: &mut CheckReport) -> Result<()> {
    let path = table.handle().path();
    // What is in memory says nothing about the file.
    let finder = Arc::new(Finder::read(table.handle(), &table.meta)?);
    let opened = Table::new(Arc::clone(table.handle()), Arc::clone(&finder));
    let mut cursor = TableCursor::new(opened, Pace::Whole);
    let mut counts = Counts::default();
    cursor.first()?;
    while let Some(entry) = cursor.entry() {
        let damaged = |reason| Error::corrupt_at(path, cursor.block_offset(), reason);
        let (low, high) = table.meta.seqs;
        if !table.meta.bounds.contains(entry.key) || !(low..=high).contains(&entry.seq) {
            return Err(damaged("an entry lies outside of what its table is said to hold"));
        }
        let last = counts.last.as_ref().map(|(key, seq)| (key.as_slice(), *seq));
        if last.is_some_and(|last| compare(last, (entry.key, entry.seq)).is_ge()) {
            return Err(damaged("the entries of a table do not ascend"));
        }
        if last.is_none_or(|(key, _)| key != entry.key) && !finder.may_hold(filter::hash(entry.key))
        {
            return Err(damaged("the filter of a table hides a key that the table holds"));
        }
        counts.entries += 1;
        counts.tombstones += u64::from(entry.kind == super::entry::Kind::Tombstone);
        if entry.kind == super::entry::Kind::Separated {
            let pointer = entry.pointer().ok_or_else(|| damaged("an entry has no pointer"))?;
            *counts.segments.entry(pointer.segment).or_default() += 1;
            report.values += 1;
            let read = vlog::read_value(version, pointer).map(drop);
            report.note(read)?;
        }
        counts.last = Some((entry.key.to_vec(), entry.seq));
        cursor.next()?;
    }
    report.entries += counts.entries;
    let differs = differs(&table.meta, &counts).or_else(|| differs_in_ranges(&table.meta, &finder));
    differs.map_or(Ok(()), |reason| Err(Error::corrupt_at(path, 0, reason)))
}

/// What the manifest says otherwise of a table.
fn differs(meta: &TableMeta, counts: &Counts) -> Option<&'static str> {
    if (meta.entries, meta.tombstones) != (counts.entries, counts.tombstones) {
        return Some("a table does not hold as many entries as the manifest says");
    }
    let said = meta.references.iter().map(|reference| &reference.segment);
    if !said.eq(counts.segments.keys()) {
        return Some("a table points to other segments than the manifest says");
    }
    None
}

/// What the manifest says otherwise of the deleted ranges of a table.
fn differs_in_ranges(meta: &TableMeta, finder: &Finder) -> Option<&'static str> {
    if meta.ranges != finder.ranges() {
        return Some("a table does not hold as many deleted ranges as the manifest says");
    }
    let (low, high) = meta.seqs;
    let ranges = finder.pieces().within(&[], None, <[u64]>::to_vec);
    let is_inside = ranges.into_iter().all(|range| {
        let own = Bounds { first: range.start, last: range.end, excludes_last: true };
        (low..=high).contains(&range.seq) && meta.bounds.join(&own) == meta.bounds
    });
    (!is_inside).then_some("a deleted range lies outside of what its table is said to hold")
}

fn check_segment(segment: &Segment) -> Result<()> {
    let Some(sealed) = segment.sealed else { return Ok(()) };
    let (file, path) = (segment.handle().file()?, segment.handle().path());
    segment.identity.verify(&*file, path)?;
    segment.remap()?;
    let mut groups = Groups::new(segment.identity, file, path, sealed.len)?;
    while let Some(group) = groups.next()? {
        let offset = group.offset;
        let mut ops = Ops::new(group.body);
        let count = (&mut ops).count();
        if !ops.is_whole() || count != group.count as usize {
            let what = "the operations of a group make no sense";
            return Err(Error::corrupt_at(path, offset, what));
        }
    }
    if groups.is_at_end() {
        Ok(())
    } else {
        Err(Error::corrupt_at(path, groups.position(), "a group of the log is damaged"))
    }
}

#[cfg(test)]
#[path = "check/tests.rs"]
mod tests;
