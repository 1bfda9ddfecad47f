//! Collecting values: which segments hold too little that is needed (a pure function of the
//! version), and bringing what is needed together, sorted by key.

use std::sync::Arc;

use super::append::Appender;
use super::debt::Survey;
use super::entry::Pointer;
use super::files::Name;
use super::filter;
use super::memory::{Charge, Part};
use super::merge::Source;
use super::table::{Pace, TableCursor};
use super::version::{Edit, Sealed, Segment, Version};
use super::vlog::{self, Remap};
use super::wal::{Group, Groups, Identity, OpKind, Ops, push_op};
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
/// Segments may hold so many hundredths of what is needed in them: at least, since collecting what
/// is hardly garbage writes much, and after a full compaction.
const PERCENT_MIN: u64 = 107;
const PERCENT_FULL: u64 = 100;
/// Segments that are there besides: the one that is written to, and what a collection writes before
/// it removes.
const SEGMENTS_BESIDES: u64 = 3;
/// A full collection writes about so many segments' worth of values at a time.
const SEGMENTS_FULL: u64 = 4;
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

    /// After everything was merged.
    pub(crate) fn full(segment_bytes: u64) -> Self {
        let batch_bytes = segment_bytes.saturating_mul(SEGMENTS_FULL);
        Self { percent_max: PERCENT_FULL, slack_bytes: SLACK_BYTES_MIN, batch_bytes }
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

/// What the list of where values went takes of memory for one of them, while it is written.
const LINE_BYTES: usize = 48;

/// A value that is needed.
struct Needed {
    key: Vec<u8>,
    seq: u64,
    /// As tables say it.
    pointer: Pointer,
    segment: u32,
    offset: u64,
}

/// Collects segments into a new one, which is on stable storage then, name included; answers the
/// edits that make it so.
///
/// # Errors
/// If something cannot be read or written or is damaged; what was written is an orphan then.
pub(crate) fn collect(version: &Version, victims: &[u32], identity: Identity) -> Result<Vec<Edit>> {
    let mut needed = Vec::new();
    for victim in version.segments().filter(|s| victims.contains(&s.identity.number)) {
        find_needed(version, victim, &mut needed)?;
    }
    let bytes = |needed: &Needed| needed.key.capacity() + size_of::<Needed>() + LINE_BYTES;
    let mut charge = Charge::new(Arc::downgrade(version.directory()), Part::Buffers);
    charge.set(needed.iter().map(bytes).sum());
    needed.sort_by(|a, b| a.key.cmp(&b.key).then(b.seq.cmp(&a.seq)));
    let mut edits: Vec<Edit> =
        victims.iter().map(|&number| Edit::RemoveSegment { number }).collect();
    if needed.is_empty() {
        return Ok(edits);
    }
    let sealed = write_values(version, &needed, identity)?;
    let mut origins: Vec<u32> = needed.iter().map(|needed| needed.pointer.segment).collect();
    origins.sort_unstable();
    origins.dedup();
    edits.push(Edit::AddValues { identity, sealed, origins });
    Ok(edits)
}

/// Goes through the groups of a segment and asks the tables about each value.
fn find_needed(version: &Version, victim: &Segment, needed: &mut Vec<Needed>) -> Result<()> {
    let Some(sealed) = victim.sealed else { return Ok(()) };
    let (file, path) = (victim.handle().file()?, victim.handle().path());
    let number = victim.identity.number;
    let mut groups = Groups::new(victim.identity, Arc::clone(file), path, sealed.len)?;
    while let Some(group) = groups.next()? {
        let mut ops = Ops::new(group.body);
        for (seq, op) in (group.seq..).zip(&mut ops) {
            if op.kind != OpKind::PutSeparated {
                continue;
            }
            let offset = group.body_offset() + op.value_at as u64;
            let Some(pointer) = find_entry(version, op.key, seq)? else { continue };
            let stands = version.resolve(pointer)?;
            if stands.is_some_and(|(s, at)| (s.identity.number, at) == (number, offset)) {
                let key = op.key.to_vec();
                needed.push(Needed { key, seq, pointer, segment: number, offset });
            }
        }
    }
    // It was read once, for this.
    file.release(0, sealed.len);
    match groups.is_at_end() {
        true => Ok(()),
        false => Err(Error::damaged(path, groups.position(), "a group of the log is damaged")),
    }
}

/// The pointer of exactly this entry, if some table has it.
fn find_entry(version: &Version, key: &[u8], seq: u64) -> Result<Option<Pointer>> {
    let tables = version.tables().map(|(_, table)| table);
    let may_have = |table: &&Arc<super::version::TableFile>| {
        let (low, high) = table.meta.seqs;
        (low..=high).contains(&seq) && table.meta.bounds.contains(key)
    };
    let hash = filter::hash(key);
    for table in tables.filter(may_have) {
        let table = table.open()?;
        if !table.may_hold(hash) {
            continue;
        }
        let mut cursor = TableCursor::new(table, Pace::Searching);
        let newest = if is_planted(Bug::SnapshotNotServed) { u64::MAX } else { seq };
        cursor.seek(key, newest)?;
        let found = cursor.entry().filter(|entry| entry.key == key && entry.seq == seq);
        if let Some(pointer) = found.and_then(|entry| entry.pointer()) {
            return Ok(Some(pointer));
        }
    }
    Ok(None)
}

/// Writes the values, each as a group of its own with the sequence number that it had, and behind
/// them where they stood.
fn write_values(version: &Version, needed: &[Needed], identity: Identity) -> Result<Sealed> {
    let directory = version.directory();
    let mut out = Appender::create(directory, Name::Segment(identity.number))?;
    out.push(&[&identity.header()], 0)?;
    let mut lines = Vec::with_capacity(needed.len());
    for Needed { key, seq, pointer, segment, offset } in needed {
        let at = Pointer { segment: *segment, offset: *offset, ..*pointer };
        let value = read_raw(version, at)?;
        let mut body = Vec::with_capacity(key.len() + value.len() + 16);
        push_op(&mut body, OpKind::PutSeparated, [key, &[]], [&value, &[]]);
        let group = Group { offset: out.len(), seq: *seq, count: 1, flushed: 0, body: &body };
        out.push(&[&identity.group_header(&group), &body], 0)?;
        lines.push((pointer.segment, pointer.offset, out.len() - value.len() as u64));
    }
    let len = out.len();
    let remap = Remap::encode(identity.salt, &mut lines);
    out.push(&[&remap], 0)?;
    out.finish()?;
    directory.sync()?;
    Ok(Sealed { len, last_seq: 0, remap_len: remap.len() as u64 })
}

/// The value that stands right there.
fn read_raw(version: &Version, at: Pointer) -> Result<Vec<u8>> {
    let segment = version.segments().find(|s| s.identity.number == at.segment);
    let Some(segment) = segment else {
        let path = version.directory().file(Name::Segment(at.segment));
        return Err(Error::damaged(&path, at.offset, "a segment is missing"));
    };
    let place = vlog::place(segment, at, at.offset);
    place.piece().read(|bytes| place.open(bytes).map(<[u8]>::to_vec))
}
