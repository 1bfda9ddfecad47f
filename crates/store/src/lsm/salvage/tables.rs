//! The tables of a damaged store: their whole blocks, and between which keys something is missing.

use std::collections::BTreeSet;
use std::path::Path;

use super::found::{Found, Lost, Span, read_lenient};
use crate::lsm::files::{Directory, Name};
use crate::lsm::levels::version::Version;
use crate::lsm::table::{Block, BlockPlace, Place, survey};
use crate::lsm::tombstones::Tombstone;
use crate::os::Open;
use crate::{Error, Result};

/// What tables are found to hold.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) tables: Vec<Found>,
    pub(super) ranges: Vec<Tombstone>,
    pub(super) lost: Vec<Lost>,
    /// Keys of which entries may be missing.
    pub(super) gaps: Vec<Span>,
    pub(super) last_seq: u64,
}

impl Survey {
    /// Surveys a table, if the version has it or is not known.
    pub(super) fn table(
        &mut self,
        directory: &Directory,
        version: Option<&Version>,
        number: u32,
    ) -> Result<()> {
        let mut named = version.into_iter().flat_map(Version::tables);
        let named = named.find(|(_, table)| table.meta.number == number);
        let meta = named.map(|(_, table)| &table.meta);
        let bounds = meta.map(|meta| &meta.bounds);
        if version.is_some() && bounds.is_none() {
            return Ok(());
        }
        let path = directory.file(Name::Table(number));
        let file = directory.system.open_data(&path, Open::Read, 0);
        let file = file.map_err(|e| Error::io("open", &path, e))?;
        let bytes = read_lenient(&*file, &path)?;
        let found = survey(number, &bytes);
        for gap in &found.gaps {
            let before = gap.block.checked_sub(1).and_then(|before| found.blocks.get(before));
            let key =
                |place: Option<&BlockPlace>, is_last| edge_key(&bytes, number, *place?, is_last);
            let (after, before) = (key(before, true), key(found.blocks.get(gap.block), false));
            let after = after.or_else(|| bounds.and_then(|bounds| before_key(&bounds.first)));
            let before = before.or_else(|| bounds.map(|bounds| behind_key(&bounds.last)));
            self.lose(&path, gap.offset, "a part of a table is damaged", Span { after, before });
        }
        // If the end of the file is not there, only the manifest says that it had some.
        let had_some = meta.is_some_and(|meta| meta.ranges > 0 && found.ranges.is_empty());
        let reached = found.blocks.last().map_or(0, BlockPlace::end);
        if let Some(offset) = found.lost_ranges.or(had_some.then_some(reached)) {
            let (path, reason) = (path.clone(), "deleted ranges of keys: they may be back");
            self.lost.push(Lost { path, offset, reason, count: None, keys: None });
        }
        self.ranges.extend(found.ranges);
        self.last_seq = self.last_seq.max(found.last_seq);
        self.tables.push(Found { number, file, blocks: found.blocks });
        Ok(())
    }

    fn lose(&mut self, path: &Path, offset: u64, reason: &'static str, span: Span) {
        let (path, keys) = (path.to_path_buf(), Some(span.clone()));
        self.lost.push(Lost { path, offset, reason, count: None, keys });
        self.gaps.push(span);
    }

    /// Notes the missing files that the version names.
    pub(super) fn missing(
        &mut self,
        directory: &Directory,
        version: Option<&Version>,
        there: &BTreeSet<Name>,
    ) {
        let Some(version) = version else { return };
        for (_, table) in version.tables() {
            let (name, bounds) = (Name::Table(table.meta.number), &table.meta.bounds);
            if !there.contains(&name) {
                let (after, before) = (before_key(&bounds.first), behind_key(&bounds.last));
                let (path, reason) = (directory.file(name), "the table is missing");
                self.lose(&path, 0, reason, Span { after, before: Some(before) });
            }
        }
        for segment in version.log() {
            let name = Name::Segment(segment.identity.number);
            if !there.contains(&name) {
                let (path, reason) = (directory.file(name), "a segment of the log is missing");
                self.lost.push(Lost { path, offset: 0, reason, count: None, keys: None });
            }
        }
    }
}

/// A key before which nothing else lies that is not before `key` too, as near as need be.
fn before_key(key: &[u8]) -> Option<Vec<u8>> {
    let (&last, rest) = key.split_last()?;
    let mut before = rest.to_vec();
    if last > 0 {
        before.extend([last - 1, 0xff, 0xff, 0xff, 0xff]);
    }
    Some(before)
}

/// The first key after another one.
fn behind_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The first or the last key of a whole block.
fn edge_key(bytes: &[u8], number: u32, place: BlockPlace, is_last: bool) -> Option<Vec<u8>> {
    let bytes = bytes.get(place.offset as usize..place.end() as usize)?;
    let block = Block::open(bytes.to_vec(), number, place.offset).ok()?;
    let mut at = Place::default();
    let moved = if is_last { at.last(&block) } else { at.first(&block) };
    moved.ok()?;
    at.entry(&block).map(|entry| entry.key.to_vec())
}
