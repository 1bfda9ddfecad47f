//! Collecting values: which segments hold too little that is needed (a pure function of the
//! version), and bringing what is needed together, sorted by key.

use std::sync::Arc;

use super::debt::Survey;
use super::entry::{Pointer, compare};
use super::filter;
use super::memory::{Charge, Part};
use super::merge::Source;
use super::table::{Pace, TableCursor};
use super::values::ValueWriter;
use super::version::{Edit, LEVELS, Segment, TableFile, Version};
use super::wal::{Groups, Identity, OpKind, Ops};
use crate::canary::{Bug, is_planted};
use crate::{Error, Result};

/// When to collect, and how far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Segments may hold so many hundredths of what is needed in them, and
    pub(crate) percent_max: u64,
    /// so many bytes more.
    pub(crate) slack_bytes: u64,
    /// At most so many needed bytes are collected at once.
    pub(crate) batch_bytes: u64,
}

/// All files together may hold so many hundredths of what is needed in them; what surrounds keys
/// and values of a kibibyte takes eight more.
const PERCENT: u64 = 126;
/// Segments may hold so many hundredths of what is needed in them at least, since collecting what
/// is hardly garbage writes much.
const PERCENT_MIN: u64 = 107;
/// Segments that are there besides: the one that is written to, and what a collection writes before
/// it removes.
const SEGMENTS_BESIDES: u64 = 3;
/// Small amounts are not worth a new segment.
const SLACK_BYTES_MIN: u64 = 4096;

impl Bounds {
    /// While the store is written to. A collection takes little at a time, since until it is done
    /// its values are on the disk twice; and so are tables that are merged.
    pub(crate) fn steady(version: &Version, segment_bytes: u64) -> Self {
        let survey = Survey::new(version);
        let tables: u64 = version.tables().map(|(_, table)| table.meta.bytes).sum();
        let besides = 2 * tables + SEGMENTS_BESIDES.saturating_mul(segment_bytes);
        let all = (survey.needed_bytes() / 100).saturating_mul(PERCENT);
        let pointed = (survey.bytes - tables).max(1);
        let percent = u128::from(all.saturating_sub(besides)) * 100 / u128::from(pointed);
        let percent_max = percent.clamp(u128::from(PERCENT_MIN), u128::from(PERCENT)) as u64;
        let slack_bytes = (segment_bytes / 2).max(SLACK_BYTES_MIN);
        Self { percent_max, slack_bytes, batch_bytes: segment_bytes }
    }
}

/// Segments to collect next, those with the least needed bytes first; empty: nothing to do.
pub(crate) fn choose(version: &Version, bounds: &Bounds) -> Vec<u32> {
    let mut candidates: Vec<(u64, u64, u32)> = version
        .segments()
        .filter(|segment| segment.sealed.is_some_and(|sealed| sealed.last_seq <= version.flushed))
        .map(|segment| {
            let number = segment.identity.number;
            (version.live(number).min(segment.bytes()), segment.bytes(), number)
        })
        .collect();
    let total: u64 = candidates.iter().map(|candidate| candidate.1).sum();
    let live: u64 = candidates.iter().map(|candidate| candidate.0).sum();
    let allowed = (live / 100).saturating_mul(bounds.percent_max) + bounds.slack_bytes;
    if total <= allowed {
        return Vec::new();
    }
    // The share that is needed, ascending.
    candidates.sort_by(|a, b| {
        (u128::from(a.0) * u128::from(b.1)).cmp(&(u128::from(b.0) * u128::from(a.1)))
    });
    let (mut gained, mut taken) = (0, 0);
    let mut chosen = Vec::new();
    for (live, bytes, number) in candidates {
        let is_enough = total - gained <= allowed || taken >= bounds.batch_bytes;
        if is_enough || live >= bytes {
            break;
        }
        gained += bytes - live;
        taken += live;
        chosen.push(number);
    }
    chosen
}

/// What a value takes of memory besides its bytes and its key while it is collected.
const VALUE_BYTES: usize = 96;

/// A value of a segment, not known yet to be needed. Its bytes are in the chunk.
struct Candidate {
    seq: u64,
    /// Where it stands.
    segment: u32,
    offset: u64,
    /// Its key and behind it the value, in the bytes of the chunk.
    at: usize,
    key_len: usize,
    len: usize,
}

/// Values that were read together, from the front of segments.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    candidates: Vec<Candidate>,
}

impl Chunk {
    fn key(&self, candidate: &Candidate) -> &[u8] {
        &self.bytes[candidate.at..][..candidate.key_len]
    }

    fn value(&self, candidate: &Candidate) -> &[u8] {
        &self.bytes[candidate.at + candidate.key_len..][..candidate.len]
    }

    fn add(&mut self, key: &[u8], value: &[u8], (seq, segment, offset): (u64, u32, u64)) {
        let (at, key_len, len) = (self.bytes.len(), key.len(), value.len());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.candidates.push(Candidate { seq, segment, offset, at, key_len, len });
    }

    fn sort(&mut self) {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.sort_by(|a, b| compare((self.key(a), a.seq), (self.key(b), b.seq)));
        self.candidates = candidates;
    }

    fn memory(&self) -> usize {
        self.bytes.len() + self.candidates.len() * VALUE_BYTES
    }
}

/// Collects segments into a new one, which is on stable storage then, name included; answers the
/// edits that make it so.
///
/// The segments are read once, from the front to the end, as much at a time as the memory limit has
/// for it; of each such chunk the values that are needed are written in the order of keys.
///
/// # Errors
/// If something cannot be read or written or is damaged; what was written is an orphan then.
pub(crate) fn collect(version: &Version, victims: &[u32], identity: Identity) -> Result<Vec<Edit>> {
    let mut collection = Collection::new(version, identity);
    for victim in version.segments().filter(|s| victims.contains(&s.identity.number)) {
        collection.read(victim)?;
    }
    collection.write_chunk()?;
    let mut edits: Vec<Edit> =
        victims.iter().map(|&number| Edit::RemoveSegment { number }).collect();
    edits.extend(collection.finish()?);
    Ok(edits)
}

/// A collection at work.
struct Collection<'v> {
    version: &'v Version,
    entries: Entries<'v>,
    identity: Identity,
    chunk: Chunk,
    chunk_bytes: usize,
    /// Made for the first value that is needed.
    out: Option<ValueWriter>,
    /// Where values stand as tables say it, and now.
    lines: Vec<(u32, u64, u64)>,
    charge: Charge,
}

impl<'v> Collection<'v> {
    fn new(version: &'v Version, identity: Identity) -> Self {
        let directory = version.directory();
        let charge = Charge::new(Arc::downgrade(directory), Part::Buffers);
        let (entries, chunk) = (Entries::new(version), Chunk::default());
        let chunk_bytes = directory.budget.chunk_bytes();
        Self { version, entries, identity, chunk, chunk_bytes, out: None, lines: vec![], charge }
    }

    /// Goes through the groups of a segment.
    fn read(&mut self, victim: &Segment) -> Result<()> {
        let Some(sealed) = victim.sealed else { return Ok(()) };
        let (file, path) = (victim.handle().file()?, victim.handle().path());
        let number = victim.identity.number;
        let mut groups = Groups::new(victim.identity, Arc::clone(file), path, sealed.len)?;
        while let Some(group) = groups.next()? {
            let (offset, seq) = (group.body_offset(), group.seq);
            for (seq, op) in (seq..).zip(Ops::new(group.body)) {
                if op.kind == OpKind::PutSeparated {
                    let from = (seq, number, offset + op.value_at as u64);
                    self.chunk.add(op.key, op.value, from);
                }
            }
            if self.chunk.memory() >= self.chunk_bytes {
                self.write_chunk()?;
            }
        }
        // It was read once, for this.
        file.release(0, sealed.len);
        match groups.is_at_end() {
            true => Ok(()),
            false => {
                let what = "a group of the log is damaged";
                Err(Error::damaged(path, groups.position(), what))
            }
        }
    }

    /// Asks the tables about the values of the chunk, and writes those that are needed.
    fn write_chunk(&mut self) -> Result<()> {
        let mut chunk = std::mem::take(&mut self.chunk);
        let lines = self.lines.capacity() * size_of::<(u32, u64, u64)>();
        self.charge.set(chunk.memory() + lines);
        chunk.sort();
        self.entries.begin();
        for candidate in &chunk.candidates {
            let (key, place) = (chunk.key(candidate), (candidate.segment, candidate.offset));
            let Some(pointer) = self.entries.find(key, candidate.seq)? else { continue };
            let stands = self.version.resolve(pointer)?;
            if stands.is_none_or(|(s, at)| (s.identity.number, at) != place) {
                continue;
            }
            let out = match &mut self.out {
                Some(out) => out,
                empty => {
                    empty.insert(ValueWriter::create(self.version.directory(), self.identity)?)
                }
            };
            let now = out.add(key, candidate.seq, chunk.value(candidate))?;
            self.lines.push((pointer.segment, pointer.offset, now));
        }
        // Its memory is used again.
        chunk.bytes.clear();
        chunk.candidates.clear();
        self.chunk = chunk;
        Ok(())
    }

    /// The edit that adds the new segment, if there is one.
    fn finish(mut self) -> Result<Option<Edit>> {
        let Some(out) = self.out.take() else { return Ok(None) };
        let mut origins: Vec<u32> = self.lines.iter().map(|line| line.0).collect();
        origins.sort_unstable();
        origins.dedup();
        let sealed = out.finish(&mut self.lines)?;
        self.version.directory().sync()?;
        Ok(Some(Edit::AddValues { identity: self.identity, sealed, origins }))
    }
}

/// Tables that ascend, looked at in the order of keys.
struct Sought<'v> {
    tables: &'v [Arc<TableFile>],
    at: usize,
    /// A place in the table that is looked at, once it was asked.
    cursor: Option<TableCursor>,
}

impl Sought<'_> {
    /// The pointer of exactly this entry.
    fn find(&mut self, key: &[u8], seq: u64, hash: u64) -> Result<Option<Pointer>> {
        while self.tables.get(self.at).is_some_and(|table| table.meta.bounds.is_before(key)) {
            (self.at, self.cursor) = (self.at + 1, None);
        }
        let Some(TableFile { meta, .. }) = self.tables.get(self.at).map(|table| &**table) else {
            return Ok(None);
        };
        if !(meta.seqs.0..=meta.seqs.1).contains(&seq) || !meta.bounds.contains(key) {
            return Ok(None);
        }
        let cursor = match &mut self.cursor {
            Some(cursor) => cursor,
            empty => empty.insert(TableCursor::new(self.tables[self.at].open()?, Pace::Searching)),
        };
        if !cursor.table().may_hold(hash) {
            return Ok(None);
        }
        let newest = if is_planted(Bug::SnapshotNotServed) { u64::MAX } else { seq };
        cursor.seek(key, newest)?;
        let found = cursor.entry().filter(|entry| entry.key == key && entry.seq == seq);
        Ok(found.and_then(|entry| entry.pointer()))
    }
}

/// Looks for exact entries, in the order of keys.
struct Entries<'v>(Vec<Sought<'v>>);

impl<'v> Entries<'v> {
    fn new(version: &'v Version) -> Self {
        let alone = version.level(0).chunks(1);
        let levels = (1..LEVELS).map(|level| version.level(level));
        let sought = |tables| Sought { tables, at: 0, cursor: None };
        Self(alone.chain(levels).map(sought).collect())
    }

    /// Goes back to the first key.
    fn begin(&mut self) {
        self.0.iter_mut().for_each(|sought| (sought.at, sought.cursor) = (0, None));
    }

    /// The pointer of exactly this entry, if some table has it.
    fn find(&mut self, key: &[u8], seq: u64) -> Result<Option<Pointer>> {
        let hash = filter::hash(key);
        for sought in &mut self.0 {
            if let Some(pointer) = sought.find(key, seq, hash)? {
                return Ok(Some(pointer));
            }
        }
        Ok(None)
    }
}
