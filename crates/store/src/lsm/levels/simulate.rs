//! The planners at work on a store that does not exist: tables are lists of numbers, segments are
//! lengths, and reads and writes are only counted. Millions of operations take seconds, so that
//! curves of write and space amplification can be drawn and compared with bounds.
//!
//! `compact` and `gc` make all decisions, for versions as a real store has them; only their
//! execution is replaced. Background work is done at once, one step at a time.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use super::compact::{self, Plan, Sizes};
use super::debt::Survey;
use super::pace::Standing;
use super::version::{BOTTOM, Edit, Sealed, Version};
use crate::lsm::files::Directory;
use crate::lsm::files::memory::Budget;
use crate::lsm::log::segment::{HEADER_BYTES, Identity};
use crate::lsm::table::{Bounds, Reference, TableMeta};
use crate::lsm::values::remap::LINE_BYTES;
use crate::lsm::values::{arrange, gc};
use crate::os::RealSystem;
use crate::{Error, Result};

/// Bytes that stand around a key and its value in a segment: the group's header, the operation's,
/// the keyspace.
const FRAME_BYTES: u64 = 40;
/// What an entry takes in a table besides key and value or pointer: its header, the filter's bits,
/// its share of restarts and index.
const ENTRY_BYTES: u64 = 8;
/// What tables count around a key and its value in a segment.
const REFERENCE_BYTES: u64 = 64;
/// A pointer in a table.
const POINTER_BYTES: u64 = 20;
/// What an entry takes in a buffer besides key and value or pointer.
const NODE_BYTES: u64 = 40;
/// The memory of a store in memtables.
const MEMTABLES: u64 = 16;
/// A store with fewer segments than this may take more space than the bound says.
const SEGMENTS_MIN: u64 = 16;

/// What a simulated store is like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a key.
    pub key_bytes: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Whether values stand in segments; else in tables.
    pub separated: bool,
    /// As [`Options::memtable_bytes`](crate::lsm::Options::memtable_bytes).
    pub memtable_bytes: u64,
    /// As [`Options::segment_bytes`](crate::lsm::Options::segment_bytes).
    pub segment_bytes: u64,
    /// As [`Options::table_bytes`](crate::lsm::Options::table_bytes).
    pub table_bytes: u64,
}

/// The state of a store, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes of keys and values that were put and deleted.
    pub logical_bytes: u64,
    /// Bytes written to the device.
    pub written_bytes: u64,
    /// Bytes of the keys and values that are there.
    pub live_bytes: u64,
    /// Bytes of all files.
    pub space_bytes: u64,
    /// The most that it ever was in hundredths of the live bytes at that moment, work in progress
    /// included, since [`Simulation::forget_peak`]; while there were 16 segments' worth of them.
    pub space_percent_max: u64,
    /// Bytes in tables and segments that newer entries hide, by the planner's estimate.
    pub hidden_bytes: u64,
    /// Bytes that merges which are due would read when a buffer goes to a table, the last time.
    pub debt_bytes: u64,
    /// Tables of level 0 at that time.
    pub level0_tables: u64,
}

impl Tally {
    /// Bytes written for each that was put or deleted.
    pub fn write_amplification(&self) -> f64 {
        self.written_bytes as f64 / self.logical_bytes.max(1) as f64
    }

    /// Bytes of files for each that is there.
    pub fn space_amplification(&self) -> f64 {
        self.space_bytes as f64 / self.live_bytes.max(1) as f64
    }
}

/// An entry of a table: a key, and the segment of its value unless it is a tombstone or inline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    key: u32,
    seq: u64,
    is_put: bool,
    segment: u32,
}

/// A simulated store.
pub struct Simulation {
    shape: Shape,
    version: Version,
    standing: Standing,
    tables: HashMap<u32, Arc<Vec<Line>>>,
    buffer: BTreeMap<u32, Line>,
    /// What it takes, older versions of its keys included.
    buffered_bytes: u64,
    /// Operations in it.
    buffered: u64,
    /// The segment that is written to, and its length.
    active: (u32, u64),
    next_file: u32,
    seq: u64,
    /// Which keys are there.
    live: Vec<bool>,
    tally: Tally,
}

fn key_of(key: u32) -> Vec<u8> {
    key.to_be_bytes().to_vec()
}

impl Simulation {
    /// An empty store for keys below `keys`.
    ///
    /// # Errors
    /// None; it is the planners' edits that are checked.
    pub fn new(shape: Shape, keys: u32) -> Result<Self> {
        let budget = Budget::new(MEMTABLES * shape.memtable_bytes, shape.memtable_bytes);
        let nowhere = PathBuf::from("/nowhere");
        let directory = Directory::new(Arc::new(RealSystem), nowhere, 0, budget);
        let mut simulation = Self {
            shape,
            version: Version::empty(Arc::new(directory)),
            standing: Standing::default(),
            tables: HashMap::new(),
            buffer: BTreeMap::new(),
            buffered_bytes: 0,
            buffered: 0,
            active: (0, 0),
            next_file: 1,
            seq: 1,
            live: vec![false; keys as usize],
            tally: Tally::default(),
        };
        simulation.begin_segment(Vec::new())?;
        Ok(simulation)
    }

    fn new_number(&mut self) -> u32 {
        self.next_file += 1;
        self.next_file - 1
    }

    fn edit(&mut self, edits: &[Edit]) -> Result<()> {
        let misfit = |what| Error::argument(format!("a plan does not fit the version: {what}"));
        self.version = self.version.apply(edits).map_err(misfit)?;
        self.note();
        let there: Vec<u32> = self.version.tables().map(|(_, table)| table.meta.number).collect();
        self.tables.retain(|number, _| there.contains(number));
        Ok(())
    }

    fn begin_segment(&mut self, mut edits: Vec<Edit>) -> Result<()> {
        let number = self.new_number();
        edits.push(Edit::AddSegment(Identity { number, salt: 0, first_seq: self.seq }));
        self.active = (number, HEADER_BYTES as u64);
        self.edit(&edits)
    }

    /// Puts a value under a key.
    ///
    /// # Errors
    /// If a plan does not fit the version that it was made for.
    pub fn put(&mut self, key: u32) -> Result<()> {
        self.write(key, true)
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// As [`Simulation::put`].
    pub fn delete(&mut self, key: u32) -> Result<()> {
        self.write(key, false)
    }

    fn write(&mut self, key: u32, is_put: bool) -> Result<()> {
        let shape = self.shape;
        let value_bytes = if is_put { shape.value_bytes } else { 0 };
        let (logged, logical) =
            (FRAME_BYTES + shape.key_bytes + value_bytes, shape.key_bytes + value_bytes);
        self.tally.logical_bytes += logical;
        self.tally.written_bytes += logged;
        self.active.1 += logged;
        let was_live = std::mem::replace(&mut self.live[key as usize], is_put);
        let entry = shape.key_bytes + shape.value_bytes;
        self.tally.live_bytes += if is_put && !was_live { entry } else { 0 };
        self.tally.live_bytes -= if !is_put && was_live { entry } else { 0 };
        let segment = if is_put && shape.separated { self.active.0 } else { 0 };
        self.buffer.insert(key, Line { key, seq: self.seq, is_put, segment });
        self.seq += 1;
        let held = if shape.separated { POINTER_BYTES } else { shape.value_bytes };
        self.buffered_bytes += shape.key_bytes + held + NODE_BYTES;
        self.buffered += 1;
        let ends = self.active.1 >= shape.segment_bytes;
        let is_full = self.buffered_bytes >= shape.memtable_bytes
            || self.standing.may_hide_much(self.buffered);
        if is_full || ends {
            let (number, len) = self.active;
            let sealed = Sealed { len, last_seq: self.seq - 1, remap_len: 0 };
            self.begin_segment(vec![Edit::SealSegment { number, sealed }])?;
            self.note_space(0);
        }
        if is_full { self.flush() } else { Ok(()) }
    }

    /// Writes the buffer to a table, and does all work that is due then.
    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        (self.buffered_bytes, self.buffered) = (0, 0);
        let lines: Vec<Line> = std::mem::take(&mut self.buffer).into_values().collect();
        let mut edits = self.add_tables(0, lines, u64::MAX);
        edits.push(Edit::Flushed { seq: self.seq - 1 });
        self.edit(&edits)?;
        self.estimate();
        let sizes = Sizes::new(self.shape.table_bytes, self.shape.segment_bytes);
        let due = compact::choose(&self.version, &sizes);
        self.tally.debt_bytes = due.map_or(0, |plan| self.bytes_of(&plan));
        self.tally.level0_tables = self.version.level(0).len() as u64;
        loop {
            if let Some(plan) = compact::choose(&self.version, &sizes) {
                self.merge(&plan)?;
                self.estimate();
            } else if !self.collect(&gc::Bounds::steady(&self.version, self.shape.segment_bytes))? {
                return Ok(());
            }
        }
    }

    /// Bytes that a merge reads.
    fn bytes_of(&self, plan: &Plan) -> u64 {
        let is_in = |number: &u32| plan.upper.contains(number) || plan.lower.contains(number);
        let tables = self.version.tables().filter(|(_, table)| is_in(&table.meta.number));
        tables.map(|(_, table)| table.meta.bytes).sum()
    }

    /// Edits that add tables with these lines; their bytes are written.
    fn add_tables(&mut self, level: u8, lines: Vec<Line>, table_bytes: u64) -> Vec<Edit> {
        let mut edits = Vec::new();
        let per_table = (table_bytes / self.line_bytes(true)).max(1) as usize;
        for lines in lines.chunks(per_table) {
            let number = self.new_number();
            let meta = self.meta(number, lines);
            self.tally.written_bytes += meta.bytes;
            self.tables.insert(number, Arc::new(lines.to_vec()));
            edits.push(Edit::AddTable { level, meta });
        }
        edits
    }

    fn line_bytes(&self, is_put: bool) -> u64 {
        let value = match (is_put, self.shape.separated) {
            (false, _) => 0,
            (true, true) => POINTER_BYTES,
            (true, false) => self.shape.value_bytes,
        };
        self.shape.key_bytes + ENTRY_BYTES + value
    }

    fn meta(&self, number: u32, lines: &[Line]) -> TableMeta {
        let mut references: BTreeMap<u32, u64> = BTreeMap::new();
        for line in lines.iter().filter(|line| line.segment > 0) {
            let bytes = REFERENCE_BYTES + self.shape.key_bytes + self.shape.value_bytes;
            *references.entry(line.segment).or_default() += bytes;
        }
        let references = references.into_iter();
        let seqs = || lines.iter().map(|line| line.seq);
        let key = |line: Option<&Line>| line.map(|line| key_of(line.key)).unwrap_or_default();
        let (first, last) = (key(lines.first()), key(lines.last()));
        TableMeta {
            number,
            bytes: lines.iter().map(|line| self.line_bytes(line.is_put)).sum(),
            entries: lines.len() as u64,
            tombstones: lines.iter().filter(|line| !line.is_put).count() as u64,
            ranges: 0,
            shadowed: 0,
            seqs: (seqs().min().unwrap_or(0), seqs().max().unwrap_or(0)),
            bounds: Bounds { first, last, excludes_last: false },
            references: references.map(|(segment, bytes)| Reference { segment, bytes }).collect(),
        }
    }

    /// Does what a plan says.
    fn merge(&mut self, plan: &Plan) -> Result<()> {
        let [upper] = &plan.upper[..] else { return self.rewrite(plan) };
        let has_tombstones = self
            .version
            .tables()
            .any(|(_, table)| table.meta.number == *upper && table.meta.tombstones > 0);
        if plan.lower.is_empty() && plan.from != plan.to && !(plan.is_last && has_tombstones) {
            return self.edit(&[Edit::MoveTable { number: *upper, level: plan.to as u8 }]);
        }
        self.rewrite(plan)
    }

    fn rewrite(&mut self, plan: &Plan) -> Result<()> {
        let numbers = || plan.upper.iter().chain(&plan.lower);
        let mut lines: Vec<Line> = Vec::new();
        for number in numbers() {
            lines.extend(self.tables.get(number).into_iter().flat_map(|lines| lines.iter()));
        }
        lines.sort_unstable_by_key(|line| (line.key, u64::MAX - line.seq));
        lines.dedup_by_key(|line| line.key);
        lines.retain(|line| line.is_put || !plan.is_last);
        for line in lines.iter_mut().filter(|line| line.segment > 0) {
            line.segment = self.version.stands_in(line.segment);
        }
        let before = self.tally.written_bytes;
        let mut edits: Vec<Edit> = numbers().map(|&number| Edit::RemoveTable { number }).collect();
        edits.extend(self.add_tables(plan.to as u8, lines, self.shape.table_bytes));
        self.note_space(self.tally.written_bytes - before);
        self.edit(&edits)
    }

    /// Collects values in one round; returns whether there was something to collect.
    fn collect(&mut self, bounds: &gc::Bounds) -> Result<bool> {
        let mut victims = gc::choose(&self.version, bounds);
        let is_due = !victims.is_empty();
        while !victims.is_empty() {
            let most = self.shape.segment_bytes;
            let step = gc::next_step(&self.version, &mut victims, most);
            self.collect_step(&step)?;
        }
        Ok(is_due)
    }

    fn collect_step(&mut self, victims: &[u32]) -> Result<()> {
        let live: u64 = victims.iter().map(|&victim| self.version.live(victim)).sum();
        let count = live / (REFERENCE_BYTES + self.shape.key_bytes + self.shape.value_bytes);
        let moved = count * (FRAME_BYTES + self.shape.key_bytes + self.shape.value_bytes);
        let mut edits: Vec<Edit> =
            victims.iter().map(|&number| Edit::RemoveSegment { number }).collect();
        if moved > 0 {
            let remap_len = count * LINE_BYTES as u64;
            let identity = Identity { number: self.new_number(), salt: 0, first_seq: 0 };
            let len = moved + HEADER_BYTES as u64;
            let sealed = Sealed { len, last_seq: 0, remap_len };
            let origins = self.version.origins_in(victims);
            edits.push(Edit::AddValues { identity, sealed, origins });
            self.tally.written_bytes += len + remap_len;
            self.note_space(len + remap_len);
        }
        self.edit(&edits)
    }

    /// As `compact` does it: one level, and as little garbage as a collection leaves.
    ///
    /// # Errors
    /// As [`Simulation::put`].
    pub fn compact(&mut self) -> Result<()> {
        let (number, len) = self.active;
        let sealed = Sealed { len, last_seq: self.seq - 1, remap_len: 0 };
        self.begin_segment(vec![Edit::SealSegment { number, sealed }])?;
        self.flush()?;
        let begun = self.next_file;
        let may_forget = |meta: &TableMeta| meta.number < begun && meta.tombstones > 0;
        while let Some(plan) = compact::choose_full(&self.version, may_forget) {
            self.merge(&plan)?;
        }
        self.arrange()?;
        self.note_space(0);
        Ok(())
    }

    /// Writes segments anew as a full compaction does. Those that were not collected yet hold their
    /// values in the order in which they came.
    fn arrange(&mut self) -> Result<()> {
        let logs = self.version.segments().filter(|segment| segment.identity.first_seq > 0);
        let order = logs.map(|segment| (segment.identity.number, (1, 1))).collect();
        let mut left = arrange::choose(&self.version, &order);
        while !left.is_empty() {
            let most = self.shape.segment_bytes;
            let batch = arrange::next_batch(&self.version, &mut left, most, u64::MAX);
            for plan in arrange::plans(&self.version, &batch) {
                self.move_values(&plan, &batch)?;
            }
        }
        Ok(())
    }

    /// Writes tables anew, and the values that they point to in some segments.
    fn move_values(&mut self, plan: &Plan, segments: &[u32]) -> Result<()> {
        let mut lines: Vec<Line> = Vec::new();
        for number in &plan.upper {
            lines.extend(self.tables.get(number).into_iter().flat_map(|lines| lines.iter()));
        }
        let before = self.tally.written_bytes;
        let mut edits: Vec<Edit> =
            plan.upper.iter().map(|&number| Edit::RemoveTable { number }).collect();
        let value_bytes = FRAME_BYTES + self.shape.key_bytes + self.shape.value_bytes;
        let mut open: Option<(u32, u64)> = None;
        for line in lines.iter_mut().filter(|line| line.segment > 0) {
            line.segment = self.version.stands_in(line.segment);
            if !segments.contains(&line.segment) {
                continue;
            }
            if let Some(full) = open.take_if(|open| open.1 >= self.shape.segment_bytes) {
                edits.push(self.add_values(full));
            }
            let (number, len) = open.unwrap_or_else(|| (self.new_number(), HEADER_BYTES as u64));
            (line.segment, open) = (number, Some((number, len + value_bytes)));
        }
        if let Some(last) = open {
            edits.push(self.add_values(last));
        }
        edits.extend(self.add_tables(plan.to as u8, lines, self.shape.table_bytes));
        self.note_space(self.tally.written_bytes - before);
        self.edit(&edits)
    }

    /// The edit that adds a segment of values that moved; its bytes are written.
    fn add_values(&mut self, (number, len): (u32, u64)) -> Edit {
        self.tally.written_bytes += len;
        let sealed = Sealed { len, last_seq: 0, remap_len: 0 };
        let identity = Identity { number, salt: 0, first_seq: 0 };
        Edit::AddValues { identity, sealed, origins: Vec::new() }
    }

    /// Looks, exactly, at what a real store takes samples of.
    fn estimate(&mut self) {
        for (level, table) in self.version.tables() {
            if level == BOTTOM || table.is_estimated() {
                continue;
            }
            let lines = self.tables.get(&table.meta.number);
            let step = lines.map_or(1, |lines| lines.len() / 200 + 1);
            let sample = || lines.into_iter().flat_map(|lines| lines.iter().step_by(step));
            let hiding = sample().filter(|line| self.hides(line)).count() as u64;
            table.set_hidden(table.meta.entries * hiding / sample().count().max(1) as u64);
        }
        self.note();
    }

    fn note(&mut self) {
        self.standing = Standing::new(&self.version, self.shape.segment_bytes, &self.standing);
    }

    /// Whether an older entry of the key, with something in it, lies below.
    fn hides(&self, line: &Line) -> bool {
        let key = key_of(line.key);
        let holding = self.version.tables().filter(|(_, table)| table.meta.bounds.contains(&key));
        let found = holding.filter_map(|(_, table)| {
            let lines = self.tables.get(&table.meta.number)?;
            let at = lines.binary_search_by_key(&line.key, |line| line.key).ok()?;
            Some(lines[at])
        });
        let older = found.filter(|found| found.seq < line.seq).max_by_key(|found| found.seq);
        older.is_some_and(|older| older.is_put)
    }

    /// The bytes of all files.
    fn space(&self) -> u64 {
        let tables: u64 = self.version.tables().map(|(_, table)| table.meta.bytes).sum();
        let segments: u64 = self.version.segments().map(|segment| segment.bytes()).sum();
        tables + segments + self.active.1
    }

    /// Notes how much is on the disk together with `more` temporary bytes, unless the store is
    /// small compared with a segment.
    fn note_space(&mut self, more: u64) {
        if self.tally.live_bytes < SEGMENTS_MIN * self.shape.segment_bytes {
            return;
        }
        let percent = (self.space() + more) * 100 / self.tally.live_bytes.max(1);
        self.tally.space_percent_max = self.tally.space_percent_max.max(percent);
    }

    /// Starts measuring the peak of space anew.
    pub fn forget_peak(&mut self) {
        self.tally.space_percent_max = 0;
    }

    /// What the store has come to.
    pub fn tally(&self) -> Tally {
        let hidden_bytes = Survey::new(&self.version).hidden_bytes;
        Tally { space_bytes: self.space(), hidden_bytes, ..self.tally }
    }
}
