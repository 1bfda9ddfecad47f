//! Collecting values: choosing segments with too few needed bytes (a pure function of the version),
//! and copying the needed values together, sorted by key.
//!
//! A round chooses segments, finds the needed values of all of them by one pass over the tables,
//! and collects them step by step, so that only the values of one step are on the disk twice.

use std::path::Path;
use std::sync::Arc;

use super::gather::ValueWriter;
use super::needed::{Needed, Stand};
use crate::lsm::closing::Closing;
use crate::lsm::entry::compare;
use crate::lsm::files::charge::Charge;
use crate::lsm::files::memory::Part;
use crate::lsm::files::{Directory, Name};
use crate::lsm::levels::debt::Survey;
use crate::lsm::levels::version::{Edit, Segment, Version};
use crate::lsm::log::groups::Groups;
use crate::lsm::log::segment::{Group, Identity, Op, OpKind, Ops};
use crate::{Error, Result};

/// When to collect, and how far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Segments may hold this percentage of the bytes needed in them, and
    pub(crate) percent_max: u64,
    /// this many bytes more.
    pub(crate) slack_bytes: u64,
    /// At most this many needed bytes are collected in a round; the place of each value is held in
    /// memory.
    pub(crate) round_bytes: u64,
}

/// All files together may hold this percentage of the bytes needed in them; the overhead of keys
/// and values of a kibibyte takes eight more.
const PERCENT: u64 = 126;
/// The lower bound of the percentage that segments may hold, since collecting segments with little
/// garbage writes much.
const PERCENT_MIN: u64 = 107;
/// While writers wait for space it is worth it.
const PERCENT_PRESSED: u64 = 103;
/// Additional segments: the one that is written to, and those that a collection writes before it
/// removes others.
const SEGMENTS_BESIDES: u64 = 3;
/// Small amounts are not worth a new segment.
const SLACK_BYTES_MIN: u64 = 4096;
/// A round collects enough to be worth one pass over the tables: this many segments, or this many
/// times the bytes of the tables.
const ROUND_SEGMENTS: u64 = 6;
const ROUND_TABLES: u64 = 2;

impl Bounds {
    /// While the store is written to.
    pub(crate) fn steady(version: &Version, segment_bytes: u64) -> Self {
        let survey = Survey::new(version);
        let tables: u64 = version.tables().map(|(_, table)| table.meta.bytes).sum();
        let besides = 2 * tables + SEGMENTS_BESIDES.saturating_mul(segment_bytes);
        let all = (survey.needed_bytes() / 100).saturating_mul(PERCENT);
        let pointed = (survey.bytes - tables).max(1);
        let percent = u128::from(all.saturating_sub(besides)) * 100 / u128::from(pointed);
        let percent_max = percent.clamp(u128::from(PERCENT_MIN), u128::from(PERCENT)) as u64;
        let slack_bytes = (segment_bytes / 2).max(SLACK_BYTES_MIN);
        let worth = (ROUND_TABLES * tables).max(ROUND_SEGMENTS.saturating_mul(segment_bytes));
        let values = version.directory().budget.chunk_bytes() / Stand::BYTES;
        let held = version.entry_bytes().saturating_mul(values as u64);
        let round_bytes = worth.min(held).max(segment_bytes);
        Self { percent_max, slack_bytes, round_bytes }
    }

    /// The same while writers wait for space.
    pub(crate) fn pressed(self) -> Self {
        Self { percent_max: PERCENT_PRESSED, ..self }
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
        let is_enough = total - gained <= allowed || taken >= bounds.round_bytes;
        if is_enough || live >= bytes {
            break;
        }
        gained += bytes - live;
        taken += live;
        chosen.push(number);
    }
    chosen
}

/// Takes those from the front of a list of victims that are collected next, into one segment: what
/// is needed of them is on the disk twice until they are removed.
pub(crate) fn next_step(version: &Version, victims: &mut Vec<u32>, most: u64) -> Vec<u32> {
    let mut taken = 0;
    let fits = |number: &&u32| {
        taken += version.live(**number);
        taken <= most
    };
    let count = victims.iter().take_while(fits).count().max(1);
    victims.drain(..count.min(victims.len())).collect()
}

/// The memory that a value takes while it is collected, besides its bytes and its key.
const VALUE_BYTES: usize = 96;

/// A value that is needed. Its bytes are in the chunk.
struct Candidate {
    seq: u64,
    /// Its place according to the table.
    origin: (u32, u64),
    /// Its key, followed by the value, in the bytes of the chunk.
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

    fn add(&mut self, Op { key, value, .. }: Op<'_>, seq: u64, origin: (u32, u64)) {
        let at = self.bytes.len();
        let key_len = key.len();
        let len = value.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.candidates.push(Candidate { seq, origin, at, key_len, len });
    }

    fn sort(&mut self) {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.sort_unstable_by(|a, b| compare((self.key(a), a.seq), (self.key(b), b.seq)));
        self.candidates = candidates;
    }

    fn memory(&self) -> usize {
        self.bytes.len() + self.candidates.len() * VALUE_BYTES
    }
}

/// Collects segments into a new one, which is then on stable storage, including its name; returns
/// the edits for the manifest. The needed values were determined before. Of the disk, `leaves`
/// bytes stay free.
///
/// The segments are read once, from the front to the end, as much at a time as the memory limit has
/// for it; the needed values of each such chunk are written in key order.
///
/// # Errors
/// If something cannot be read or written or is damaged, or the store is being closed; nothing of
/// it is left then.
pub(crate) fn collect(
    version: &Version,
    needed: &Needed,
    victims: &[u32],
    (identity, leaves): (Identity, u64),
    closing: &Closing,
) -> Result<Vec<Edit>> {
    let mut collection = Collection::new(version, identity, leaves);
    for victim in version.segments().filter(|s| victims.contains(&s.identity.number)) {
        collection.read(victim, needed.of(victim.identity.number), closing)?;
    }
    collection.write_chunk()?;
    let mut edits: Vec<Edit> =
        victims.iter().map(|&number| Edit::RemoveSegment { number }).collect();
    edits.extend(collection.finish()?);
    Ok(edits)
}

/// A collection at work.
struct Collection<'v> {
    directory: &'v Arc<Directory>,
    identity: Identity,
    /// Of the disk, this many bytes stay free.
    leaves: u64,
    chunk: Chunk,
    chunk_bytes: usize,
    /// Made for the first value that is needed.
    out: Option<ValueWriter>,
    /// The places of values according to tables, and their present places.
    lines: Vec<(u32, u64, u64)>,
    charge: Charge,
}

impl<'v> Collection<'v> {
    fn new(version: &'v Version, identity: Identity, leaves: u64) -> Self {
        let directory = version.directory();
        let charge = Charge::new(Arc::downgrade(directory), Part::Buffers);
        let (chunk, chunk_bytes) = (Chunk::default(), directory.budget.chunk_bytes());
        let (out, lines) = (None, Vec::new());
        Self { directory, identity, leaves, chunk, chunk_bytes, out, lines, charge }
    }

    /// Goes through the groups of a segment, of which these values are needed.
    fn read(&mut self, victim: &Segment, mut stands: &[Stand], closing: &Closing) -> Result<()> {
        let Some(sealed) = victim.sealed else { return Ok(()) };
        let (file, path) = (victim.handle().file()?, victim.handle().path());
        let mut groups = Groups::new(victim.identity, Arc::clone(&file), path, sealed.len)?;
        while let Some(group) = groups.next()? {
            closing.check()?;
            // A value without bytes may stand at the very end.
            let count = stands.iter().take_while(|stand| stand.offset <= group.end()).count();
            let (here, behind) = stands.split_at(count);
            stands = behind;
            self.take(&group, here).map_err(|at| not_there(path, at))?;
            if self.chunk.memory() >= self.chunk_bytes {
                self.write_chunk()?;
            }
        }
        // It was read once, for this.
        if !victim.handle().directory().is_cached {
            file.release(0, sealed.len);
        }
        match (groups.is_at_end(), stands.first()) {
            (true, None) => Ok(()),
            (true, Some(stand)) => Err(not_there(path, stand.offset)),
            (false, _) => {
                let what = "a group of the log is damaged";
                Err(Error::corrupt_at(path, groups.position(), what))
            }
        }
    }

    /// Takes the values of a group that stand at these places; the first place at which none does.
    fn take(&mut self, group: &Group<'_>, stands: &[Stand]) -> Result<(), u64> {
        let mut stands = stands.iter().peekable();
        let mut ops = (group.seq..).zip(Ops::new(group.body));
        while let Some(stand) = stands.peek() {
            let Some((seq, op)) = ops.next() else { return Err(stand.offset) };
            let is_it = group.body_offset() + op.value_at as u64 == stand.offset;
            if is_it && op.kind == OpKind::PutSeparated {
                self.chunk.add(op, seq, (stand.origin, stand.origin_offset));
                stands.next();
            }
        }
        Ok(())
    }

    /// Writes the values of the chunk.
    fn write_chunk(&mut self) -> Result<()> {
        let mut chunk = std::mem::take(&mut self.chunk);
        let lines = self.lines.capacity() * size_of::<(u32, u64, u64)>();
        self.charge.set(chunk.memory() + lines);
        chunk.sort();
        for candidate in &chunk.candidates {
            let out = match &mut self.out {
                Some(out) => out,
                empty => {
                    let made = ValueWriter::create(self.directory, self.identity, self.leaves);
                    empty.insert(made?)
                }
            };
            let now = out.add(chunk.key(candidate), candidate.seq, chunk.value(candidate))?;
            self.lines.push((candidate.origin.0, candidate.origin.1, now));
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
        let path = self.directory.file(Name::Segment(self.identity.number));
        self.directory.sync().inspect_err(|_| self.directory.give_up(&path))?;
        Ok(Some(Edit::AddValues { identity: self.identity, sealed, origins }))
    }
}

/// Where a table says that a value stands there is none.
fn not_there(path: &Path, offset: u64) -> Error {
    Error::corrupt_at(path, offset, "a table points to a value not there")
}

#[cfg(test)]
#[path = "gc/tests.rs"]
mod tests;
