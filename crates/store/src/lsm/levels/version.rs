//! A version: which tables and segments a store consists of. It is immutable; an edit makes the
//! next version. This module is pure except for the handles of files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use super::table_file::TableFile;
use crate::Result;
use crate::lsm::entry::Pointer;
use crate::lsm::files::{Directory, Handle, Name};
use crate::lsm::log::segment::Identity;
use crate::lsm::numbers::NumberMap;
use crate::lsm::table::{Bounds, Lasts, TableMeta};
use crate::lsm::values::remap::Remap;

/// Levels: tables of level 0 overlap, the newest first; those of others ascend and do not.
pub(crate) const LEVELS: usize = 7;

/// The last level.
pub(crate) const BOTTOM: usize = LEVELS - 1;

/// The tables of a level: cursors share the list.
pub(crate) type Tables = Arc<Vec<Arc<TableFile>>>;

/// How a segment that is not written to any more ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    /// Its groups end here.
    pub(crate) len: u64,
    /// The highest sequence number that a log segment holds (values that were collected: 0).
    pub(crate) last_seq: u64,
    /// The number of bytes after the groups that say from where collected values came.
    pub(crate) remap_len: u64,
}

/// A segment of a version.
#[derive(Clone)]
pub(crate) struct Segment {
    pub(crate) identity: Identity,
    /// `None`: it is written to.
    pub(crate) sealed: Option<Sealed>,
    handle: Arc<Handle>,
    remap: Arc<OnceLock<Remap>>,
}

impl Segment {
    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Where values went that stood elsewhere before.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub(crate) fn remap(&self) -> Result<&Remap> {
        if let Some(remap) = self.remap.get() {
            return Ok(remap);
        }
        let read = Remap::read(self)?;
        Ok(self.remap.get_or_init(|| read))
    }

    /// The length of its file.
    pub(crate) fn bytes(&self) -> u64 {
        self.sealed.map_or(0, |sealed| sealed.len + sealed.remap_len)
    }
}

/// One change of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    AddTable {
        level: u8,
        meta: TableMeta,
    },
    RemoveTable {
        number: u32,
    },
    MoveTable {
        number: u32,
        level: u8,
    },
    /// A log segment to write to.
    AddSegment(Identity),
    SealSegment {
        number: u32,
        sealed: Sealed,
    },
    /// A segment of collected values; pointers to any of `origins` are looked up in its remap.
    AddValues {
        identity: Identity,
        sealed: Sealed,
        origins: Vec<u32>,
    },
    RemoveSegment {
        number: u32,
    },
    /// Everything up to this sequence number stands in tables.
    Flushed {
        seq: u64,
    },
    /// File numbers from here on were not given yet.
    NextFile {
        number: u32,
    },
    /// A commit stays readable under a name; one that was kept under it before is let go.
    SetPin {
        name: Vec<u8>,
        pinned: Pinned,
    },
    DropPin {
        name: Vec<u8>,
    },
}

impl Edit {
    /// The file that it adds to the store.
    pub(crate) fn adds(&self) -> Option<Name> {
        match self {
            Self::AddTable { meta, .. } => Some(Name::Table(meta.number)),
            Self::AddSegment(identity) | Self::AddValues { identity, .. } => {
                Some(Name::Segment(identity.number))
            }
            _ => None,
        }
    }
}

/// Edits that follow each other, without what later ones take back: a manifest holds far more of
/// them than there are tables, and to apply one takes as long as there are tables.
#[derive(Default)]
pub(crate) struct Net {
    edits: Vec<Option<Edit>>,
    /// Where a table is added.
    tables: NumberMap<usize>,
    flushed: u64,
    next_file: u32,
}

impl Net {
    /// Adds the next one. Tables are added before they are moved or removed.
    ///
    /// # Errors
    /// If it does not fit those before it.
    pub(crate) fn push(&mut self, edit: Edit) -> Result<(), Misfit> {
        match edit {
            Edit::AddTable { ref meta, .. } => {
                if self.tables.insert(meta.number, self.edits.len()).is_some() {
                    return Err("a table is added twice");
                }
                self.edits.push(Some(edit));
            }
            Edit::RemoveTable { number } => {
                let at = self.tables.remove(&number);
                self.edits[at.ok_or("a table is removed that is not there")?] = None;
            }
            Edit::MoveTable { number, level } => {
                let at = self.tables.get(&number).ok_or("a table is moved that is not there")?;
                if let Some(Edit::AddTable { level: now, .. }) = &mut self.edits[*at] {
                    *now = level;
                }
            }
            Edit::Flushed { seq } => self.flushed = self.flushed.max(seq),
            Edit::NextFile { number } => self.next_file = self.next_file.max(number),
            _ => self.edits.push(Some(edit)),
        }
        Ok(())
    }

    /// What is left of them.
    pub(crate) fn into_edits(self) -> Vec<Edit> {
        let numbers =
            [Edit::Flushed { seq: self.flushed }, Edit::NextFile { number: self.next_file }];
        self.edits.into_iter().flatten().chain(numbers).collect()
    }
}

/// A commit that stays readable under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pinned {
    /// The last sequence number of it.
    pub(crate) seq: u64,
    /// When it got its name: seconds since 1970.
    pub(crate) created: u64,
}

/// A level below the first one that has tables.
#[derive(Clone)]
struct Filled {
    level: usize,
    lasts: Lasts,
}

/// Which tables and segments there are.
#[derive(Clone)]
pub(crate) struct Version {
    directory: Arc<Directory>,
    levels: [Tables; LEVELS],
    /// The levels below the first one that have tables.
    filled: Vec<Filled>,
    /// Those of all levels with range tombstones.
    ranged: Vec<Arc<TableFile>>,
    segments: BTreeMap<u32, Segment>,
    /// Segments that are gone, and in which one their values stand that are pointed to.
    moved: BTreeMap<u32, u32>,
    /// Bytes of each segment that tables point to.
    live: BTreeMap<u32, u64>,
    /// Entries of all tables but tombstones, and bytes of tables with what they point to.
    entries: (u64, u64),
    pub(crate) flushed: u64,
    pub(crate) next_file: u32,
    /// Tells stores apart, checkpoints among them; other copies have the same.
    pub(crate) store: u64,
    /// Merges keep what these see.
    pub(crate) pins: BTreeMap<Vec<u8>, Pinned>,
}

/// An edit that does not fit the version.
pub(crate) type Misfit = &'static str;

impl Version {
    /// A version without files.
    pub(crate) fn empty(directory: Arc<Directory>) -> Self {
        Self {
            directory,
            levels: Default::default(),
            filled: Vec::new(),
            ranged: Vec::new(),
            segments: BTreeMap::new(),
            moved: BTreeMap::new(),
            live: BTreeMap::new(),
            entries: (0, 0),
            flushed: 0,
            next_file: 1,
            store: 0,
            pins: BTreeMap::new(),
        }
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// The names of the files that may be there.
    pub(crate) fn names(&self) -> BTreeSet<Name> {
        let tables = self.tables().map(|(_, table)| Name::Table(table.meta.number));
        let segments = self.segments.keys().map(|&number| Name::Segment(number));
        let others = [Name::Manifest, Name::Lock, Name::Pending, Name::Identity];
        tables.chain(segments).chain(others).collect()
    }

    pub(crate) fn level(&self, level: usize) -> &[Arc<TableFile>] {
        &self.levels[level]
    }

    /// The levels below the first one that have tables.
    pub(crate) fn filled(&self) -> impl Iterator<Item = usize> {
        self.filled.iter().map(|filled| filled.level)
    }

    /// The table that may have a key: of the `nth` level below the first one that has tables.
    /// `None` if there are fewer.
    #[inline]
    pub(crate) fn table_for(&self, nth: usize, key: &[u8]) -> Option<Option<&Arc<TableFile>>> {
        let Filled { level, lasts } = self.filled.get(nth)?;
        let tables = &self.levels[*level];
        let (mut at, may_be) = lasts.around(key);
        while at < may_be && tables[at].meta.bounds.is_before(key) {
            at += 1;
        }
        Some(tables.get(at))
    }

    /// The tables of a level below level 0 that overlap these bounds: they stand side by side.
    pub(crate) fn overlapping(&self, level: usize, bounds: &Bounds) -> &[Arc<TableFile>] {
        debug_assert!(level > 0);
        let tables = &self.levels[level];
        let start = tables.partition_point(|table| table.meta.bounds.is_before(&bounds.first));
        let rest = &tables[start..];
        &rest[..rest.partition_point(|table| !bounds.is_before(&table.meta.bounds.first))]
    }

    /// The list itself, to be shared.
    pub(crate) fn list(&self, level: usize) -> &Tables {
        &self.levels[level]
    }

    /// The tables with range tombstones.
    pub(crate) fn ranged(&self) -> &[Arc<TableFile>] {
        &self.ranged
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |t| (level, t)))
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.values()
    }

    /// The segments of the log that hold what is not in tables yet.
    pub(crate) fn log(&self) -> impl Iterator<Item = &Segment> {
        let is_needed = |s: &&Segment| s.sealed.is_none_or(|end| end.last_seq > self.flushed);
        self.segments().filter(is_needed)
    }

    /// Bytes of a segment that tables point to.
    pub(crate) fn live(&self, segment: u32) -> u64 {
        self.live.get(&segment).copied().unwrap_or(0)
    }

    /// The segment that now holds the values that this one held.
    pub(crate) fn stands_in(&self, segment: u32) -> u32 {
        self.moved.get(&segment).copied().unwrap_or(segment)
    }

    /// The segments that pointers of tables name whose values stand in these now.
    pub(crate) fn origins_in(&self, segments: &[u32]) -> Vec<u32> {
        let pointed =
            self.tables().map(|(_, table)| table).flat_map(|table| &table.meta.references);
        let mut origins: Vec<u32> = pointed
            .map(|reference| reference.segment)
            .filter(|&origin| segments.contains(&self.stands_in(origin)))
            .collect();
        origins.sort_unstable();
        origins.dedup();
        origins
    }

    /// Bytes of all tables, and of segments as far as these point to them.
    pub(crate) fn pointed_bytes(&self) -> u64 {
        self.entries.1
    }

    /// What an entry of a table that is no tombstone takes, with its value.
    pub(crate) fn entry_bytes(&self) -> u64 {
        self.entries.1 / self.entries.0.max(1)
    }

    /// Where a value stands now: its segment, and the offset in it. `None` if nowhere.
    ///
    /// # Errors
    /// If a list of moved values cannot be read or is damaged.
    pub(crate) fn resolve(&self, pointer: Pointer) -> Result<Option<(&Segment, u64)>> {
        match self.moved.get(&pointer.segment) {
            None => Ok(self.segments.get(&pointer.segment).map(|s| (s, pointer.offset))),
            Some(to) => {
                let Some(segment) = self.segments.get(to) else { return Ok(None) };
                let found = segment.remap()?.find(pointer.segment, pointer.offset);
                Ok(found.map(|offset| (segment, offset)))
            }
        }
    }

    /// The tables that edits have added to it.
    pub(crate) fn added(&self, edits: &[Edit]) -> impl Iterator<Item = &Arc<TableFile>> {
        let number = |edit: &Edit| match edit {
            Edit::AddTable { meta, .. } => Some(meta.number),
            _ => None,
        };
        let added: Vec<u32> = edits.iter().filter_map(number).collect();
        let tables = self.tables().map(|(_, table)| table);
        tables.filter(move |table| added.contains(&table.meta.number))
    }

    /// The version after the edits. Segments that are not needed any more are dropped on the way,
    /// and the origins of values to which nothing points: a pure function of what is left.
    ///
    /// # Errors
    /// If an edit does not fit, since it was not made for this version.
    pub(crate) fn apply(&self, edits: &[Edit]) -> Result<Self, Misfit> {
        let mut next = self.clone();
        next.remove_tables(edits)?;
        edits.iter().try_for_each(|edit| next.apply_one(edit))?;
        let adds = edits.iter().any(|edit| matches!(edit, Edit::AddTable { .. }));
        if adds && next.has_table_twice() {
            return Err("a table is added twice");
        }
        Arc::make_mut(&mut next.levels[0])
            .sort_by_key(|table| std::cmp::Reverse(table.meta.seqs.1));
        for level in &mut next.levels[1..] {
            let level = Arc::make_mut(level);
            level.sort_by(|a, b| a.meta.bounds.first.cmp(&b.meta.bounds.first));
            let overlap =
                |pair: &[Arc<TableFile>]| pair[0].meta.bounds.overlaps(&pair[1].meta.bounds);
            if level.windows(2).any(overlap) {
                return Err("tables of a level overlap");
            }
        }
        let ranged = next.tables().map(|(_, table)| table).filter(|table| table.meta.ranges > 0);
        next.ranged = ranged.cloned().collect();
        let filled = (1..LEVELS).filter(|&level| !next.levels[level].is_empty());
        let filled = filled.map(|level| {
            let lasts = next.levels[level].iter().map(|table| table.meta.bounds.last.as_slice());
            Filled { level, lasts: Lasts::of(lasts) }
        });
        next.filled = filled.collect();
        next.drop_unused();
        Ok(next)
    }

    /// Removes the tables that the edits remove: a merge may replace most of them.
    fn remove_tables(&mut self, edits: &[Edit]) -> Result<(), Misfit> {
        let number = |edit: &Edit| match edit {
            Edit::RemoveTable { number } => Some((*number, ())),
            _ => None,
        };
        let mut removed: NumberMap<()> = edits.iter().filter_map(number).collect();
        for level in &mut self.levels {
            if removed.is_empty() {
                break;
            }
            Arc::make_mut(level).retain(|table| removed.remove(&table.meta.number).is_none());
        }
        if removed.is_empty() { Ok(()) } else { Err("a table is removed that is not there") }
    }

    fn has_table_twice(&self) -> bool {
        let mut numbers: NumberMap<()> = NumberMap::default();
        let is_new = |number| numbers.insert(number, ()).is_none();
        !self.tables().map(|(_, table)| table.meta.number).all(is_new)
    }

    fn apply_one(&mut self, edit: &Edit) -> Result<(), Misfit> {
        match edit {
            Edit::AddTable { level, meta } => {
                let level =
                    self.levels.get_mut(usize::from(*level)).ok_or("there is no such level")?;
                let handle = self.directory.handle(Name::Table(meta.number));
                Arc::make_mut(level).push(Arc::new(TableFile::new(meta.clone(), handle)));
            }
            // All of them were removed before.
            Edit::RemoveTable { .. } => {}
            Edit::MoveTable { number, level } => {
                let moved = self.levels.iter_mut().find_map(|tables| {
                    let at = tables.iter().position(|table| table.meta.number == *number)?;
                    Some(Arc::make_mut(tables).remove(at))
                });
                let moved = moved.ok_or("a table is moved that is not there")?;
                let level =
                    self.levels.get_mut(usize::from(*level)).ok_or("there is no such level")?;
                Arc::make_mut(level).push(moved);
            }
            Edit::AddSegment(identity) => self.add_segment(*identity, None)?,
            Edit::SealSegment { number, sealed } => {
                let segment =
                    self.segments.get_mut(number).ok_or("a segment ends that is not there")?;
                if segment.sealed.replace(*sealed).is_some() {
                    return Err("a segment ends twice");
                }
            }
            Edit::AddValues { identity, sealed, origins } => {
                self.add_segment(*identity, Some(*sealed))?;
                self.moved.extend(origins.iter().map(|&origin| (origin, identity.number)));
            }
            Edit::RemoveSegment { number } => {
                self.segments.remove(number).ok_or("a segment is removed that is not there")?;
            }
            Edit::Flushed { seq } => self.flushed = self.flushed.max(*seq),
            Edit::NextFile { number } => self.next_file = self.next_file.max(*number),
            Edit::SetPin { name, pinned } => drop(self.pins.insert(name.clone(), *pinned)),
            Edit::DropPin { name } => {
                self.pins.remove(name).ok_or("a pin is dropped that is not there")?;
            }
        }
        Ok(())
    }

    fn add_segment(&mut self, identity: Identity, sealed: Option<Sealed>) -> Result<(), Misfit> {
        let handle = self.directory.handle(Name::Segment(identity.number));
        let segment = Segment { identity, sealed, handle, remap: Arc::default() };
        match self.segments.insert(identity.number, segment) {
            None => Ok(()),
            Some(_) => Err("a segment is added twice"),
        }
    }

    fn drop_unused(&mut self) {
        let mut pointed: NumberMap<u64> = NumberMap::default();
        for reference in
            self.tables().map(|(_, table)| table).flat_map(|table| &table.meta.references)
        {
            *pointed.entry(reference.segment).or_default() += reference.bytes;
        }
        let tables = self.tables().map(|(_, table)| table).map(|table| &table.meta);
        let (entries, bytes) =
            tables.fold((0, 0), |sum, meta| (sum.0 + meta.puts(), sum.1 + meta.bytes));
        self.entries = (entries, bytes + pointed.values().sum::<u64>());
        self.moved.retain(|origin, _| pointed.contains_key(origin));
        self.live.clear();
        for (segment, bytes) in pointed {
            let now = self.stands_in(segment);
            *self.live.entry(now).or_default() += bytes;
        }
        let (live, flushed) = (&self.live, self.flushed);
        self.segments.retain(|number, segment| {
            segment.sealed.is_none_or(|sealed| sealed.last_seq > flushed)
                || live.contains_key(number)
        });
    }

    /// Edits that make this version of an empty one.
    pub(crate) fn edits(&self) -> Vec<Edit> {
        let mut edits = self.file_edits();
        let pins = self.pins.iter();
        edits.extend(pins.map(|(name, &pinned)| Edit::SetPin { name: name.clone(), pinned }));
        edits
    }

    /// Edits that make this version of an empty one, but for the pins, which a copy does not have.
    pub(crate) fn file_edits(&self) -> Vec<Edit> {
        let mut edits =
            vec![Edit::NextFile { number: self.next_file }, Edit::Flushed { seq: self.flushed }];
        for (number, segment) in &self.segments {
            let identity = segment.identity;
            match segment.sealed {
                Some(sealed) if sealed.remap_len > 0 => {
                    let to = self.moved.iter().filter(|(_, to)| *to == number);
                    let origins = to.map(|(&origin, _)| origin).collect();
                    edits.push(Edit::AddValues { identity, sealed, origins });
                }
                sealed => {
                    edits.push(Edit::AddSegment(identity));
                    edits
                        .extend(sealed.map(|sealed| Edit::SealSegment { number: *number, sealed }));
                }
            }
        }
        edits.extend(
            self.tables().map(|(level, table)| Edit::AddTable {
                level: level as u8,
                meta: table.meta.clone(),
            }),
        );
        edits
    }

    /// Marks the files of this version that `next` does not have: dropping the last reference
    /// removes them.
    pub(crate) fn mark_obsolete(&self, next: &Self) {
        let kept: NumberMap<()> = next.tables().map(|(_, table)| (table.meta.number, ())).collect();
        for (_, table) in self.tables().filter(|(_, t)| !kept.contains_key(&t.meta.number)) {
            table.handle().set_obsolete();
        }
        for (number, segment) in &self.segments {
            if !next.segments.contains_key(number) {
                segment.handle.set_obsolete();
            }
        }
    }
}
