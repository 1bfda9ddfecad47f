//! Copying what is still readable of a damaged store to a new one, and reporting what is not. The
//! old files are only read; nothing in them is trusted.
//!
//! 1. The manifest says which files are the store. If it cannot be read, every existing table and
//!    segment counts.
//! 2. Tables are surveyed (`table/survey`): whole blocks and range tombstones, and gaps between
//!    them.
//! 3. The log is read up to the damage and after it (`log`): entries that no table holds, and, of
//!    those that tables hold or held, the keys that lie in gaps.
//! 4. All of that is merged: of each key the newest counts, by its sequence number, unless it or a
//!    newer range says that the key was deleted. Separated values are found by length and checksum,
//!    which their pointers hold (`values`), wherever they stand now.
//!
//! If a gap held a deletion or a newer value, an older one may come back: gaps are named.

mod log;
mod values;

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::commit::batch::Batch;
use super::db::Db;
use super::entry::{KEYSPACE_BYTES, Kind};
use super::files::{Directory, Name};
use super::keyspace::{CATALOG, Keyspace, KeyspaceOptions, Record};
use super::levels::manifest;
use super::levels::version::Version;
use super::log::wal::{HEADER_BYTES, Identity};
use super::open::reader::join;
use super::options::Options;
use super::table::{Block, BlockPlace, Place, survey};
use super::tombstones::{Pieces, Tombstone};
use crate::Durability;
use crate::os::{DataFile, Open};
use crate::{Error, Result};
use log::LogReader;
use values::Values;

/// A batch is committed when it has this many bytes.
const BATCH_BYTES: usize = 1 << 20;
/// After this many entries the caller is asked whether to go on.
const STRIDE: u64 = 1 << 12;
/// What can be read of a file that cannot be read as a whole is found in pieces of this.
const SECTOR: usize = 4096;

/// What was copied, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Keyspaces of the new store.
    pub keyspaces: u64,
    /// Its entries.
    pub entries: u64,
    /// What is missing, and where.
    pub losses: Vec<Loss>,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The file.
    pub path: PathBuf,
    /// The offset in it from which on it cannot be read.
    pub offset: u64,
    /// What is wrong.
    pub reason: &'static str,
    /// How many entries or operations of the log are missing, where that is known.
    pub count: Option<u64>,
    /// Keyspace and key after which something is missing; `None`: from the first one on.
    pub after: Option<(Vec<u8>, Vec<u8>)>,
    /// Keyspace and key before which something is missing; `None`: up to the last one. The same as
    /// `after`: that key itself.
    pub before: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether `after` and `before` say something: the keys lost by damage in the log are unknown.
    pub has_keys: bool,
}

/// A loss in terms of full keys.
struct Lost {
    path: PathBuf,
    offset: u64,
    reason: &'static str,
    count: Option<u64>,
    keys: Option<Span>,
}

/// Full keys between two, of which neither is in it; or one key, if both are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    after: Option<Vec<u8>>,
    before: Option<Vec<u8>>,
}

impl Span {
    fn holds(&self, key: &[u8]) -> bool {
        self.after.as_deref().is_none_or(|after| after < key)
            && self.before.as_deref().is_none_or(|before| key < before)
    }

    fn meets(&self, tombstone: &Tombstone) -> bool {
        self.after.as_ref().is_none_or(|after| *after < tombstone.end)
            && self.before.as_ref().is_none_or(|before| tombstone.start < *before)
    }
}

/// An entry on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    key: Vec<u8>,
    seq: u64,
    kind: Kind,
    value: Vec<u8>,
}

/// A table as it was found.
struct Found {
    number: u32,
    file: Arc<dyn DataFile>,
    blocks: Vec<BlockPlace>,
}

impl Options {
    /// Copies everything that can still be read of the store at `old` to a new store at `new`, and
    /// reports what was lost. Files of the old store are never written, and none is made there.
    ///
    /// If only one file is damaged, everything else is copied. Readable entries whose keyspace
    /// cannot be determined go to a keyspace with a made-up name. A deletion that cannot be read
    /// deletes nothing: the deleted entry comes back, if it is still there.
    ///
    /// `progress(done, total)` gets bytes of files; an error from it ends the work.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    /// use hedgerow::lsm::{Options, Readable};
    ///
    /// let db = Options::new().create(true).open(&old)?;
    /// let people = db.keyspace("people", Default::default())?;
    /// db.put(&people, b"1", b"Ada")?;
    /// db.close()?;
    /// std::fs::remove_file(old.join("MANIFEST"))?;
    ///
    /// let report = Options::new().salvage(&old, &new, &mut |_, _| Ok(()))?;
    /// assert_eq!((report.entries, report.losses.len()), (1, 1));
    /// let db = Options::new().open(&new)?;
    /// let people = db.find_keyspace("people")?.unwrap();
    /// assert_eq!(db.get(&people, b"1")?.as_deref(), Some(&b"Ada"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Path`] if there is nothing at `old` or something at `new`, [`Error::Locked`] if the
    /// old store is open for writing, [`Error::Unsupported`] if a newer version wrote it,
    /// [`Error::Io`] if the system refuses. Damage is no error but in the report. After an error
    /// nothing is left at `new` but an empty folder.
    pub fn salvage(
        &self,
        old: impl AsRef<Path>,
        new: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<SalvageReport> {
        let directory = self.settled().directory(old.as_ref());
        let target = self.settled().directory(new.as_ref());
        check_empty(&target)?;
        let _lock = match directory.system.list(&directory.path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            _ => join(&directory)?,
        };
        let source = Source::read(&directory, progress)?;
        let saved = self.clone().create(true).open(new).and_then(|db| {
            let report = source.bring_over(&db, progress)?;
            db.close()?;
            Ok(report)
        });
        saved.inspect_err(|_| {
            // The caller gets the error; half a store is of no use.
            for name in target.names().unwrap_or_default() {
                target.give_up(&target.file(name));
            }
        })
    }
}

/// Refuses a place where something is.
fn check_empty(target: &Directory) -> Result<()> {
    let path = target.path.clone();
    match target.system.list(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(names) if names.is_empty() => Ok(()),
        Ok(_) => {
            let reason = "something is there already; give a folder that is new or empty";
            Err(Error::Path { path, reason })
        }
        Err(e) => Err(Error::io("list", &path, e)),
    }
}

/// The bytes of a file, zeros where it cannot be read.
fn read_lenient(file: &dyn DataFile, path: &Path) -> Result<Vec<u8>> {
    let len = file.len().map_err(|e| Error::io("ask for the length of", path, e))?;
    let mut bytes = vec![0; len as usize];
    if file.read_at(&mut bytes, 0).is_err() {
        for (number, sector) in bytes.chunks_mut(SECTOR).enumerate() {
            if file.read_at(sector, (number * SECTOR) as u64).is_err() {
                sector.fill(0);
            }
        }
    }
    Ok(bytes)
}

/// Everything that was read of the old store.
struct Source {
    tables: Vec<Found>,
    /// Of the log, in the order of entries.
    items: Vec<Item>,
    pieces: Pieces,
    values: Values,
    lost: Vec<Lost>,
}

impl Source {
    fn read(
        directory: &Arc<Directory>,
        progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<Self> {
        let names = directory.names().unwrap_or_default();
        let there: BTreeSet<Name> = names.into_iter().filter(|name| name.is_data()).collect();
        let mut lost = Vec::new();
        let version = read_manifest(directory, &mut lost)?;
        let version = version.filter(|version| is_current(version, &there, &mut lost));
        if there.is_empty() && version.is_none() {
            let reason = "there is no table and no log of a store here";
            return Err(Error::Path { path: directory.path.clone(), reason });
        }
        let mut survey = Survey { lost, ..Survey::default() };
        let (mut done, total) = (0, there.len() as u64);
        for &name in &there {
            progress(done, total)?;
            if let Name::Table(number) = name {
                survey.table(directory, version.as_ref(), number)?;
            }
            done += 1;
        }
        survey.missing(directory, version.as_ref(), &there);
        let Survey { tables, mut ranges, mut lost, gaps, last_seq } = survey;
        let flushed = version.as_ref().map_or(last_seq, |version| version.flushed);
        let mut reader = LogReader::new(directory, version.as_ref(), flushed, &gaps)?;
        for &name in &there {
            if let Name::Segment(number) = name {
                progress(total, total)?;
                reader.segment(number)?;
            }
        }
        let read = reader.finish();
        ranges.extend(read.ranges);
        lost.extend(read.lost);
        let items = read.items;
        let values = read.values;
        let pieces = Pieces::new(&ranges);
        Ok(Self { tables, items, pieces, values, lost })
    }

    /// Puts everything into a new store.
    fn bring_over(
        self,
        db: &Db,
        progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<SalvageReport> {
        let Self { tables, items, pieces, values, mut lost } = self;
        let mut target = Target::new(db);
        let (mut last, mut count) = (None, 0_u64);
        let mut merged = Merged::new(&tables, items);
        while let Some(item) = merged.next() {
            count += 1;
            if count.is_multiple_of(STRIDE) {
                progress(1, 1)?;
            }
            if last.as_ref() == Some(&item.key) {
                continue;
            }
            let is_deleted =
                item.kind == Kind::Tombstone || pieces.cover(&item.key, u64::MAX) > item.seq;
            if !is_deleted {
                match values.of(&item) {
                    Ok(value) => target.put(&item.key, value)?,
                    Err((path, offset, reason)) => {
                        let key = || Some(item.key.clone());
                        let keys = Some(Span { after: key(), before: key() });
                        lost.push(Lost { path, offset, reason, count: Some(1), keys });
                    }
                }
            }
            last = Some(item.key);
        }
        target.finish(lost)
    }
}

/// The version that the manifest describes, if it can be read.
fn read_manifest(directory: &Arc<Directory>, lost: &mut Vec<Lost>) -> Result<Option<Version>> {
    let path = directory.file(Name::Manifest);
    let (offset, reason) = match manifest::read(directory) {
        Ok(Some(version)) => return Ok(Some(version)),
        Ok(None) => (0, "it is missing; every table and segment that is there was looked at"),
        Err(error @ Error::Unsupported { .. }) => return Err(error),
        Err(Error::Corrupt { place: crate::Place::Byte(offset), reason, .. }) => (offset, reason),
        Err(_) => (0, "it cannot be read; every table and segment that is there was looked at"),
    };
    lost.push(Lost { path, offset, reason, count: None, keys: None });
    Ok(None)
}

/// Whether a manifest seems to be whole: if there are newer files that it does not name, and it
/// names missing files or one of the newer ones is a segment with groups, its last records are
/// missing.
fn is_current(version: &Version, there: &BTreeSet<Name>, lost: &mut Vec<Lost>) -> bool {
    let tables = version.tables().map(|(_, table)| Name::Table(table.meta.number));
    let segments = version.segments().map(|segment| Name::Segment(segment.identity.number));
    let named: BTreeSet<Name> = tables.chain(segments).collect();
    let is_new = |name: &Name| match name {
        Name::Table(number) | Name::Segment(number) => *number >= version.next_file,
        _ => false,
    };
    let mut newer = there.difference(&named).filter(|name| is_new(name)).peekable();
    let is_stale = newer.peek().is_some()
        && (!named.is_subset(there) || newer.any(|name| has_groups(version.directory(), name)));
    if is_stale {
        let path = version.directory().file(Name::Manifest);
        let reason = "its last records are missing; every table and segment that is there was \
                      looked at";
        lost.push(Lost { path, offset: 0, reason, count: None, keys: None });
    }
    !is_stale
}

/// Whether a file is a segment that begins with a whole group.
fn has_groups(directory: &Directory, name: &Name) -> bool {
    let Name::Segment(number) = *name else { return false };
    let path = directory.file(*name);
    let file = directory.system.open_data(&path, Open::Read, 0).ok();
    let bytes = file.and_then(|file| read_lenient(&*file, &path).ok()).unwrap_or_default();
    let groups = bytes.get(HEADER_BYTES..).unwrap_or_default();
    Identity::of(number, &bytes)
        .is_some_and(|identity| identity.whole_group(HEADER_BYTES as u64, groups).is_some())
}

/// What tables are found to hold.
#[derive(Default)]
struct Survey {
    tables: Vec<Found>,
    ranges: Vec<Tombstone>,
    lost: Vec<Lost>,
    /// Keys of which entries may be missing.
    gaps: Vec<Span>,
    last_seq: u64,
}

impl Survey {
    /// Surveys a table, if the version has it or is not known.
    fn table(
        &mut self,
        directory: &Directory,
        version: Option<&Version>,
        number: u32,
    ) -> Result<()> {
        let mut named = version.into_iter().flat_map(Version::tables);
        let named = named.find(|(_, table)| table.meta.number == number);
        let bounds = named.map(|(_, table)| &table.meta.bounds);
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
        if let Some(offset) = found.lost_ranges {
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
    fn missing(
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

/// The entries of a table, from its whole blocks.
struct TableWalk<'t> {
    table: &'t Found,
    next: usize,
    block: Option<Block>,
    place: Place,
}

impl Iterator for TableWalk<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(block) = &self.block
                && let Some(entry) = self.place.entry(block)
            {
                let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
                let item = Item { key, seq: entry.seq, kind: entry.kind, value };
                if self.place.next(block).is_err() {
                    self.block = None;
                }
                return Some(item);
            }
            let place = *self.table.blocks.get(self.next)?;
            self.next += 1;
            let mut bytes = vec![0; place.len as usize];
            // It was whole a moment ago.
            let read = self.table.file.read_at(&mut bytes, place.offset);
            let block = Block::open(bytes, self.table.number, place.offset);
            self.block = block.ok().filter(|_| read.is_ok());
            self.place = Place::default();
            if self.block.as_ref().is_some_and(|block| self.place.first(block).is_err()) {
                self.block = None;
            }
        }
    }
}

/// The next entry of a source: the smallest key first, of one key the newest.
struct Head {
    item: Item,
    source: usize,
}

impl Head {
    fn order(&self) -> (std::cmp::Reverse<&[u8]>, u64, usize) {
        (std::cmp::Reverse(&self.item.key), self.item.seq, self.source)
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// The entries of all sources in one order.
struct Merged<'t> {
    sources: Vec<Box<dyn Iterator<Item = Item> + 't>>,
    heads: BinaryHeap<Head>,
}

impl<'t> Merged<'t> {
    fn new(tables: &'t [Found], items: Vec<Item>) -> Self {
        let walk = |table| TableWalk { table, next: 0, block: None, place: Place::default() };
        let mut sources: Vec<Box<dyn Iterator<Item = Item> + 't>> =
            vec![Box::new(items.into_iter())];
        sources.extend(tables.iter().map(|table| Box::new(walk(table)) as Box<_>));
        let mut merged = Self { sources, heads: BinaryHeap::new() };
        (0..merged.sources.len()).for_each(|source| merged.pull(source));
        merged
    }

    fn pull(&mut self, source: usize) {
        self.heads.extend(self.sources[source].next().map(|item| Head { item, source }));
    }

    fn next(&mut self) -> Option<Item> {
        let Head { item, source } = self.heads.pop()?;
        self.pull(source);
        Some(item)
    }
}

/// The new store.
struct Target<'d> {
    db: &'d Db,
    /// Names and options by number, as far as the catalog came over.
    names: BTreeMap<u32, (Vec<u8>, KeyspaceOptions)>,
    spaces: BTreeMap<u32, Keyspace>,
    batch: Batch,
    bytes: usize,
    report: SalvageReport,
}

impl<'d> Target<'d> {
    fn new(db: &'d Db) -> Self {
        let names = BTreeMap::new();
        let spaces = BTreeMap::new();
        let batch = Batch::new();
        Self { db, names, spaces, batch, bytes: 0, report: SalvageReport::default() }
    }

    fn put(&mut self, key: &[u8], value: Vec<u8>) -> Result<()> {
        let Some((id, key)) = key.split_first_chunk::<KEYSPACE_BYTES>() else { return Ok(()) };
        let id = u32::from_be_bytes(*id);
        if id == CATALOG {
            // A record that makes no sense names nothing: its entries get a made-up name.
            if let Some(Record { id, options }) = Record::decode(&value) {
                self.names.insert(id, (key.to_vec(), options));
            }
            return Ok(());
        }
        let space = self.space(id)?;
        self.batch.put(&space, key, &value)?;
        self.bytes += key.len() + value.len();
        self.report.entries += 1;
        if self.bytes >= BATCH_BYTES { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<()> {
        self.bytes = 0;
        self.db.write_with(std::mem::take(&mut self.batch), Durability::None)
    }

    fn name(&self, id: u32) -> (Vec<u8>, KeyspaceOptions) {
        let made_up = || {
            let mut name = format!("salvaged-{id}");
            while self.names.values().any(|(taken, _)| taken == name.as_bytes()) {
                name.push('\'');
            }
            (name.into_bytes(), KeyspaceOptions::default())
        };
        self.names.get(&id).cloned().unwrap_or_else(made_up)
    }

    fn space(&mut self, id: u32) -> Result<Keyspace> {
        if let Some(space) = self.spaces.get(&id) {
            return Ok(space.clone());
        }
        let (name, options) = self.name(id);
        let space = self.db.keyspace(name, options)?;
        self.spaces.insert(id, space.clone());
        Ok(space)
    }

    /// Makes the keyspaces in which nothing is, and says in the user's terms what was lost.
    fn finish(mut self, lost: Vec<Lost>) -> Result<SalvageReport> {
        self.commit()?;
        let ids: Vec<u32> = self.names.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.space(id).map(drop))?;
        self.report.keyspaces = self.spaces.len() as u64;
        let place = |key: Vec<u8>| {
            let (id, key) = key.split_first_chunk::<KEYSPACE_BYTES>()?;
            let id = u32::from_be_bytes(*id);
            (id != CATALOG).then(|| (self.name(id).0, key.to_vec()))
        };
        let losses = lost.into_iter().map(|Lost { path, offset, reason, count, keys }| {
            let has_keys = keys.is_some();
            let (after, before) = keys.map_or((None, None), |span| (span.after, span.before));
            let (after, before) = (after.and_then(place), before.and_then(place));
            Loss { path, offset, reason, count, after, before, has_keys }
        });
        self.report.losses = join_losses(losses);
        Ok(self.report)
    }
}

/// Values of neighbouring keys that are lost for the same reason in the same file are one loss.
fn join_losses(losses: impl Iterator<Item = Loss>) -> Vec<Loss> {
    let mut joined: Vec<Loss> = Vec::new();
    for loss in losses {
        let is_value = |loss: &Loss| loss.count.is_some() && loss.has_keys;
        match joined.last_mut() {
            Some(last)
                if is_value(last)
                    && is_value(&loss)
                    && (&last.path, last.reason) == (&loss.path, loss.reason) =>
            {
                last.offset = last.offset.min(loss.offset);
                last.count = last.count.zip(loss.count).map(|(a, b)| a + b);
                last.before = loss.before;
            }
            _ => joined.push(loss),
        }
    }
    joined
}

#[cfg(test)]
mod tests;
