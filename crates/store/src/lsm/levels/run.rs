//! Writing tables from sorted entries, which flushing a buffer and compacting have in common, and
//! leaving out entries that no reader can see any more.

use std::sync::Arc;

use super::compact::Plan;
use super::cursor::LevelCursor;
use super::table_file::TableFile;
use super::version::{Edit, Version};
use crate::Result;
use crate::lsm::closing::Closing;
use crate::lsm::entry::{Entry, Kind, Pointer};
use crate::lsm::files::Name;
use crate::lsm::merge::{Merge, Source};
use crate::lsm::numbers::NumberMap;
use crate::lsm::table::{Pace, TableBuilder, TableCursor, TableMeta};
use crate::lsm::tombstones::{Pieces, Tombstone};
use crate::lsm::values::moving::{Moves, Moving};
use crate::sync::{Mutex, locked};

/// What may be left out.
pub(crate) struct Rules {
    /// What readers see: sequence numbers of snapshots, ascending, the last one that of a new
    /// reader.
    pub(crate) snapshots: Vec<u64>,
    /// Whether nothing older lies below.
    pub(crate) is_last: bool,
}

impl Rules {
    /// The first reader that sees an entry; `None` if there is none yet.
    fn first_reader(&self, seq: u64) -> Option<usize> {
        let at = self.snapshots.partition_point(|&snapshot| snapshot < seq);
        (at < self.snapshots.len()).then_some(at)
    }

    /// Tombstones as these readers need them.
    pub(crate) fn pieces(&self, tombstones: &[Tombstone]) -> Pieces {
        Pieces::of_classes(tombstones, |seq| match self.first_reader(seq) {
            Some(reader) => reader as u64,
            // Later readers may see one of them, and not the next one.
            None => self.snapshots.len() as u64 + seq,
        })
    }

    /// Selects the tombstones that some reader needs, from tombstones over the same keys, newest
    /// first.
    fn needed(&self, seqs: &[u64]) -> Vec<u64> {
        let mut needed: Vec<u64> = Vec::new();
        let mut last = None;
        for &seq in seqs {
            let reader = self.first_reader(seq);
            let is_hidden = reader.is_some() && last == Some(reader);
            let is_forgotten = self.is_last && reader == Some(0);
            if !is_hidden && !is_forgotten {
                needed.push(seq);
            }
            last = Some(reader);
        }
        needed
    }
}

/// Which versions of the keys some reader sees, asked in the order of entries.
struct Sieve<'r> {
    rules: &'r Rules,
    pieces: &'r Pieces,
    key: Option<Vec<u8>>,
    /// The first reader of the version before, of the same key.
    reader: Option<usize>,
}

/// What becomes of an entry.
#[derive(PartialEq, Eq)]
enum Fate {
    Dropped,
    /// The newest version of its key.
    Kept,
    /// Kept for snapshots.
    Shadowed,
}

impl Sieve<'_> {
    fn judge(&mut self, entry: Entry<'_>) -> Fate {
        let is_newest = self.key.as_deref() != Some(entry.key);
        let before = if is_newest { None } else { self.reader };
        if is_newest {
            self.key.get_or_insert_default().clear();
            self.key.get_or_insert_default().extend_from_slice(entry.key);
        }
        let reader = self.rules.first_reader(entry.seq);
        self.reader = reader;
        let Some(reader) = reader else { return Fate::Kept };
        let is_hidden = before == Some(reader);
        let covered = self.pieces.cover(entry.key, self.rules.snapshots[reader]) > entry.seq;
        let forgotten = self.rules.is_last && reader == 0 && entry.kind == Kind::Tombstone;
        match (is_hidden || covered || forgotten, is_newest) {
            (true, _) => Fate::Dropped,
            (false, true) => Fate::Kept,
            (false, false) => Fate::Shadowed,
        }
    }
}

/// Where the tables go.
pub(crate) struct Output<'o> {
    pub(crate) version: &'o Version,
    pub(crate) rules: Rules,
    /// A table is closed when it has this many bytes; the versions of one key stay together.
    pub(crate) table_bytes: u64,
    pub(crate) numbers: Numbers<'o>,
    /// Whether another thread may do half of it.
    pub(crate) may_share: bool,
    /// Of the disk, this many bytes stay free.
    pub(crate) leaves: u64,
    pub(crate) closing: &'o Closing,
}

impl Output<'_> {
    /// Removes what was written, since the rest of it was not: on a full disk it would take room
    /// until the store is opened anew.
    fn give_up(&self) {
        let directory = self.version.directory();
        for &number in locked(&self.numbers.given).iter() {
            for name in [Name::Table(number), Name::Segment(number)] {
                directory.give_up(&directory.file(name));
            }
        }
    }
}

/// Gives numbers to the files that are written, and knows them.
pub(crate) struct Numbers<'n> {
    next: &'n (dyn Fn() -> u32 + Sync),
    given: Mutex<Vec<u32>>,
}

impl<'n> Numbers<'n> {
    /// None is given yet; `next` says which are free.
    pub(crate) fn new(next: &'n (dyn Fn() -> u32 + Sync)) -> Self {
        Self { next, given: Mutex::default() }
    }

    fn give(&self) -> u32 {
        let number = (self.next)();
        locked(&self.given).push(number);
        number
    }
}

/// Keys from the first one on, and before the second one.
#[derive(Clone, Copy)]
struct Span<'k>(Option<&'k [u8]>, Option<&'k [u8]>);

/// All keys.
const WHOLE: Span<'static> = Span(None, None);
/// With fewer bytes to be merged than this, one thread does it.
const SHARED_BYTES_MIN: u64 = 1 << 20;

/// The tables that are written, cut into ranges of keys.
struct Tables<'o> {
    output: &'o Output<'o>,
    pieces: &'o Pieces,
    open: Option<TableBuilder>,
    /// The range of keys of the open table begins here.
    low: Vec<u8>,
    done: Vec<TableMeta>,
    /// Segments that pointers name: the one in which the values stand now, if that is another.
    moved: NumberMap<Option<u32>>,
}

impl Tables<'_> {
    fn add(&mut self, entry: Entry<'_>, is_shadowed: bool) -> Result<()> {
        let is_full = |open: &TableBuilder| {
            open.bytes() >= self.output.table_bytes && open.last_key() != entry.key
        };
        if self.open.as_ref().is_some_and(is_full) {
            self.close(Some(entry.key))?;
        }
        let mut moved = [0; Pointer::BYTES];
        let entry = self.fold(entry, &mut moved)?;
        self.open()?.add(entry, is_shadowed)
    }

    /// The entry, pointing to where its value stands now.
    fn fold<'e>(
        &mut self,
        entry: Entry<'e>,
        bytes: &'e mut [u8; Pointer::BYTES],
    ) -> Result<Entry<'e>> {
        let Some(pointer) = entry.pointer() else { return Ok(entry) };
        let (named, version) = (pointer.segment, self.output.version);
        let now = || Some(version.stands_in(named)).filter(|&now| now != named);
        let Some(segment) = *self.moved.entry(named).or_insert_with(now) else { return Ok(entry) };
        match version.resolve(pointer)? {
            Some((_, offset)) => {
                *bytes = Pointer { segment, offset, ..pointer }.encode();
                Ok(Entry { value: bytes, ..entry })
            }
            None => Ok(entry),
        }
    }

    fn open(&mut self) -> Result<&mut TableBuilder> {
        match &mut self.open {
            Some(open) => Ok(open),
            empty => {
                let number = self.output.numbers.give();
                let (directory, leaves) = (self.output.version.directory(), self.output.leaves);
                Ok(empty.insert(TableBuilder::new(directory, number, leaves)?))
            }
        }
    }

    /// Ends the open table, whose keys end before `high`.
    fn close(&mut self, high: Option<&[u8]>) -> Result<()> {
        let needed = |seqs: &[u64]| self.output.rules.needed(seqs);
        let tombstones: Vec<Tombstone> = self.pieces.within(&self.low, high, needed);
        if self.open.is_some() || !tombstones.is_empty() {
            self.open()?;
        }
        if let Some(open) = self.open.take() {
            self.done.push(open.finish(&tombstones)?);
        }
        self.low = high.map(<[u8]>::to_vec).unwrap_or_default();
        Ok(())
    }
}

/// Writes what readers need of `source` and `pieces` to new tables, which are on stable storage
/// then, names included.
///
/// # Errors
/// If something cannot be read or written, or the store is being closed; nothing of it is left
/// then.
pub(crate) fn write_tables(
    output: &Output<'_>,
    source: &mut dyn Source,
    pieces: &Pieces,
) -> Result<Vec<TableMeta>> {
    let written = write(output, Moves::NONE, source, pieces, WHOLE);
    written.map(|(tables, _)| tables).inspect_err(|_| output.give_up())
}

/// Tables, and edits that add segments of values that have moved.
type Written = (Vec<TableMeta>, Vec<Edit>);

/// The same for some keys, and values that move to new segments; the edits add these.
fn write(
    output: &Output<'_>,
    moves: Moves<'_>,
    source: &mut dyn Source,
    pieces: &Pieces,
    Span(from, to): Span<'_>,
) -> Result<Written> {
    let mut sieve = Sieve { rules: &output.rules, pieces, key: None, reader: None };
    let low = from.unwrap_or_default().to_vec();
    let (done, moved) = (Vec::new(), NumberMap::default());
    let mut tables = Tables { output, pieces, open: None, low, done, moved };
    let number = || output.numbers.give();
    let mut moving = Moving::new(output.version, moves, output.leaves, &number);
    match from {
        Some(from) => source.seek(from, u64::MAX)?,
        None => source.first()?,
    }
    let is_inside = |entry: &Entry<'_>| to.is_none_or(|to| entry.key < to);
    while let Some(entry) = source.entry().filter(is_inside) {
        output.closing.check()?;
        let fate = sieve.judge(entry);
        let is_shadowed = fate == Fate::Shadowed;
        match fate {
            Fate::Dropped => {}
            _ if moving.is_idle() => tables.add(entry, is_shadowed)?,
            _ => moving.hold(entry, is_shadowed)?,
        }
        if moving.is_full() {
            moving.release(|entry, is_shadowed| tables.add(entry, is_shadowed))?;
        }
        source.next()?;
    }
    moving.release(|entry, is_shadowed| tables.add(entry, is_shadowed))?;
    tables.close(to)?;
    let values = moving.finish()?;
    if !tables.done.is_empty() {
        output.version.directory().sync()?;
    }
    Ok((tables.done, values))
}

/// The tables of a plan, in the order of their level.
fn pick(version: &Version, level: usize, numbers: &[u32]) -> Vec<Arc<TableFile>> {
    let numbers: NumberMap<()> = numbers.iter().map(|&number| (number, ())).collect();
    let tables = version.level(level).iter();
    tables.filter(|table| numbers.contains_key(&table.meta.number)).map(Arc::clone).collect()
}

/// Whether a plan only moves a table to a lower level, unchanged.
fn is_move(plan: &Plan, upper: &[Arc<TableFile>]) -> bool {
    let [table] = upper else { return false };
    let leftovers = table.meta.tombstones + table.meta.ranges + table.meta.shadowed;
    plan.lower.is_empty() && plan.from != plan.to && !(plan.is_last && leftovers > 0)
}

/// Carries out a plan, and moves values on the way; returns the edits for the manifest.
///
/// # Errors
/// As [`write_tables`].
pub(crate) fn compact(output: &Output<'_>, plan: &Plan, moves: Moves<'_>) -> Result<Vec<Edit>> {
    let version = output.version;
    let upper = pick(version, plan.from, &plan.upper);
    let lower = pick(version, plan.to, &plan.lower);
    let level = plan.to as u8;
    if is_move(plan, &upper) {
        return Ok(vec![Edit::MoveTable { number: plan.upper[0], level }]);
    }
    let mut tombstones = Vec::new();
    for table in upper.iter().chain(&lower).filter(|table| table.meta.ranges > 0) {
        tombstones.extend(table.open()?.pieces().within(&[], None, <[u64]>::to_vec));
    }
    let pieces = output.rules.pieces(&tombstones);
    let write = |span: Span<'_>| {
        let mut merge = Merge::new(sources(plan, &upper, &lower)?);
        write(output, moves, &mut merge, &pieces, span)
    };
    let middle =
        if output.may_share && moves.segments.is_empty() { middle(&upper, &lower)? } else { None };
    let written = match &middle {
        Some(middle) => share(&write, middle),
        None => write(WHOLE),
    };
    let (tables, values) = written.inspect_err(|_| output.give_up())?;
    let removed = plan.upper.iter().chain(&plan.lower);
    let removed = removed.map(|&number| Edit::RemoveTable { number });
    let added = tables.into_iter().map(|meta| Edit::AddTable { level, meta });
    Ok(removed.chain(values).chain(added).collect())
}

/// What a plan merges.
fn sources(
    plan: &Plan,
    upper: &[Arc<TableFile>],
    lower: &[Arc<TableFile>],
) -> Result<Vec<Box<dyn Source>>> {
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    if plan.from == 0 {
        for table in upper {
            sources.push(Box::new(TableCursor::new(table.open()?, Pace::Last)));
        }
    } else {
        sources.push(Box::new(LevelCursor::new(Arc::new(upper.to_vec()), Pace::Last)));
    }
    sources.push(Box::new(LevelCursor::new(Arc::new(lower.to_vec()), Pace::Last)));
    Ok(sources)
}

/// A key with about as many entries before it as after it; `None` if sharing the work is not worth
/// it.
fn middle(upper: &[Arc<TableFile>], lower: &[Arc<TableFile>]) -> Result<Option<Vec<u8>>> {
    let all = || upper.iter().chain(lower);
    if all().map(|table| table.meta.bytes).sum::<u64>() < SHARED_BYTES_MIN {
        return Ok(None);
    }
    if lower.len() > 1 {
        return Ok(Some(lower[lower.len() / 2].meta.bounds.first.clone()));
    }
    let largest = all().max_by_key(|table| table.meta.bytes);
    largest.map_or(Ok(None), |table| table.open()?.middle())
}

/// Has another thread write the keys before one, if the system grants it, and writes the others.
fn share(write: &(impl Fn(Span<'_>) -> Result<Written> + Sync), middle: &[u8]) -> Result<Written> {
    let (before, behind) = (Span(None, Some(middle)), Span(Some(middle), None));
    std::thread::scope(|scope| {
        let helper = std::thread::Builder::new().name("hedgerow-merge".to_string());
        let helper = helper.spawn_scoped(scope, || write(before)).ok();
        let behind = write(behind);
        let before = helper.map_or_else(
            || write(before),
            |helper| helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        );
        let ((mut tables, mut values), (more_tables, more_values)) = (before?, behind?);
        tables.extend(more_tables);
        values.extend(more_values);
        Ok((tables, values))
    })
}

/// Tables of which no reader sees anything, since all of their keys were deleted by newer ranges
/// that stand in other tables: they need no merging.
///
/// # Errors
/// If a table with range tombstones cannot be read.
pub(crate) fn hidden(version: &Version, readers: &[u64]) -> Result<Vec<u32>> {
    let Some(&oldest) = readers.first() else { return Ok(Vec::new()) };
    let mut tombstones = Vec::new();
    for (_, table) in version.tables().filter(|(_, table)| table.meta.ranges > 0) {
        tombstones.extend(table.open()?.pieces().within(&[], None, <[u64]>::to_vec));
    }
    if tombstones.is_empty() {
        return Ok(Vec::new());
    }
    let pieces = Pieces::of_classes(&tombstones, |seq| u64::from(seq > oldest));
    let is_hidden = |meta: &TableMeta| pieces.hide(&meta.bounds, meta.seqs.1, oldest);
    let tables = version.tables().map(|(_, table)| &table.meta);
    Ok(tables.filter(|meta| is_hidden(meta)).map(|meta| meta.number).collect())
}

#[cfg(test)]
#[path = "run/tests.rs"]
mod tests;
