//! The log of a damaged store: whole groups up to the damage and after it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::entry::{Kind, Pointer, value_sum};
use super::super::files::{Directory, Name};
use super::super::tombstones::Tombstone;
use super::found::{Item, Lost, Span, read_lenient};
use super::values::{Home, Values};
use crate::lsm::levels::version::{Sealed, Version};
use crate::lsm::log::pending::Remains;
use crate::lsm::log::segment::{Group, HEADER_BYTES, Identity, OpKind, Ops};
use crate::lsm::values::remap::Remap;
use crate::os::Open;
use crate::{Error, Result};

/// What the log holds that counts.
pub(super) struct Read {
    /// In the order of entries.
    pub(super) items: Vec<Item>,
    pub(super) ranges: Vec<Tombstone>,
    pub(super) values: Values,
    pub(super) lost: Vec<Lost>,
}

/// Reads segments, in the order of their numbers.
pub(super) struct LogReader<'d> {
    directory: &'d Directory,
    version: Option<&'d Version>,
    /// Tables hold, or held, everything up to this sequence number,
    flushed: u64,
    /// which counts for keys between these only.
    gaps: &'d [Span],
    remains: Remains,
    /// What the next group of the log must begin with.
    next_seq: u64,
    read: Read,
}

impl<'d> LogReader<'d> {
    pub(super) fn new(
        directory: &'d Arc<Directory>,
        version: Option<&'d Version>,
        flushed: u64,
        gaps: &'d [Span],
    ) -> Result<Self> {
        let values = Values::new(directory);
        let read = Read { items: Vec::new(), ranges: Vec::new(), values, lost: Vec::new() };
        // What cannot be read of it is not there.
        let remains = Remains::read(directory).unwrap_or_default();
        Ok(Self { directory, version, flushed, gaps, remains, next_seq: 0, read })
    }

    /// Reads a segment.
    pub(super) fn segment(&mut self, number: u32) -> Result<()> {
        let path = self.directory.file(Name::Segment(number));
        let file = self.directory.system.open_data(&path, Open::Read, 0);
        let file = file.map_err(|e| Error::io("open", &path, e))?;
        let bytes = read_lenient(&*file, &path)?;
        let mut segments = self.version.into_iter().flat_map(Version::segments);
        let segment = segments.find(|segment| segment.identity.number == number);
        let (known, sealed) = (segment.map(|s| s.identity), segment.and_then(|s| s.sealed));
        // A segment that is not named may still hold values.
        let is_log = segment.is_some() || self.version.is_none();
        let mut remap = None;
        match known.or_else(|| Identity::of(number, &bytes)) {
            Some(identity) if is_log => remap = self.groups(&identity, sealed, &path, &bytes),
            None if is_log && bytes.len() > HEADER_BYTES => {
                self.lose(&path, 0, "the header of a segment is damaged", None);
            }
            _ => {}
        }
        self.read.values.homes.insert(number, Home { path, file, remap });
        Ok(())
    }

    fn lose(&mut self, path: &Path, offset: u64, reason: &'static str, count: Option<u64>) {
        let path: PathBuf = path.to_path_buf();
        self.read.lost.push(Lost { path, offset, reason, count, keys: None });
    }

    /// Notes what is missing between a group of the log and those before it.
    fn follow(&mut self, path: &Path, group: &Group<'_>) {
        // Without a manifest the beginning of the log is unknown.
        let known = if self.version.is_some() { self.flushed + 1 } else { group.seq };
        let next = if self.next_seq == 0 { known } else { self.next_seq.max(self.flushed + 1) };
        if group.seq > next {
            let reason = "groups of the log before this one are missing";
            self.lose(path, group.offset, reason, Some(group.seq - next));
        }
        self.next_seq = self.next_seq.max(group.last_seq() + 1);
    }

    /// Takes all whole groups of a segment; returns the list of moved values in it.
    fn groups(
        &mut self,
        identity: &Identity,
        sealed: Option<Sealed>,
        path: &Path,
        bytes: &[u8],
    ) -> Option<Remap> {
        let content = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let end = sealed.map_or(content, |sealed| (sealed.len as usize).min(bytes.len()));
        // A segment of collected values holds no changes.
        let is_collected = sealed.is_some_and(|sealed| sealed.last_seq == 0);
        let may_be_collected = is_collected || sealed.is_none() && identity.first_seq == 0;
        let is_needed = sealed.is_none_or(|sealed| sealed.last_seq > self.flushed);
        if bytes.len() < HEADER_BYTES && is_needed {
            self.lose(path, bytes.len() as u64, "a segment ends inside its header", None);
        }
        let tail = |at: usize| Remap::decode(identity.salt, bytes.get(at..)?);
        let sealed_tail = sealed.filter(|s| s.remap_len > 0).map(|s| s.len as usize);
        let mut remap = sealed_tail.and_then(tail);
        let (mut at, mut budget) = (HEADER_BYTES, 16 * bytes.len());
        let mut last_seq = None;
        while at < end {
            if let Some(group) = identity.whole_group(at as u64, &bytes[at..]) {
                let is_log = self.version.is_some() || identity.first_seq != 0;
                if !is_collected && is_log {
                    self.follow(path, &group);
                }
                self.take(identity, &group, may_be_collected && remap.is_none());
                (at, last_seq) = (group.end() as usize, Some(group.last_seq()));
                continue;
            }
            if sealed.is_none() && identity.closed(at as u64, &bytes[at..]).is_some() {
                break;
            }
            if may_be_collected && sealed.is_none() {
                remap = tail(at);
                if remap.is_some() {
                    return remap;
                }
            }
            let next = next_group(identity, bytes, at, end, &mut budget);
            let reason = match (next, sealed) {
                (None, None) => "the end of a segment: damaged, or never written to its end",
                _ => "groups of the log are damaged: what they changed is not known",
            };
            let count = next.zip(last_seq).map(|((_, seq), last)| seq.saturating_sub(last + 1));
            let last_lost = next.map(|(_, seq)| seq.saturating_sub(1));
            let last_lost = last_lost.or(sealed.map(|sealed| sealed.last_seq));
            if !is_collected && last_lost.is_none_or(|seq| seq > self.flushed) {
                self.lose(path, at as u64, reason, count);
            }
            // That is told.
            self.next_seq = self.next_seq.max(next.map_or(0, |(_, seq)| seq));
            at = next.map_or(end, |(at, _)| at);
        }
        if sealed.is_some_and(|s| s.len > at as u64 && s.last_seq > self.flushed) {
            self.lose(path, at as u64, "a segment of the log is shorter than it was", None);
        }
        if sealed.is_none() {
            // Groups that stand there and not in an ended segment were never committed.
            self.pending(identity, path, at as u64);
        }
        remap
    }

    /// Takes the groups that were handed to the system and do not stand in a segment yet.
    fn pending(&mut self, identity: &Identity, path: &Path, end: u64) {
        let (at, bytes) = match self.remains.groups(identity, end) {
            [] => match self.remains.of(identity) {
                Some((at, _)) => (at, self.remains.groups(identity, at).to_vec()),
                None => return,
            },
            next => (end, next.to_vec()),
        };
        let mut from = 0;
        while let Some(group) = identity.whole_group(at + from as u64, &bytes[from..]) {
            self.follow(path, &group);
            self.take(identity, &group, false);
            from = (group.end() - at) as usize;
        }
        self.read.values.pending = Some((identity.number, at, bytes));
    }

    /// Takes the operations of a group that count.
    fn take(&mut self, identity: &Identity, group: &Group<'_>, notes_places: bool) {
        for (op, seq) in Ops::new(group.body).zip(group.seq..) {
            let (segment, offset) = (identity.number, group.body_offset() + op.value_at as u64);
            if notes_places {
                let place = (segment, offset);
                self.read.values.by_key.insert((op.key.to_vec(), seq), place);
            }
            let (key, is_new) = (op.key.to_vec(), seq > self.flushed);
            if op.kind == OpKind::DeleteRange {
                let range = Tombstone { start: key, end: op.value.to_vec(), seq };
                if is_new || self.gaps.iter().any(|gap| gap.meets(&range)) {
                    self.read.ranges.push(range);
                }
                continue;
            }
            if !is_new && !self.gaps.iter().any(|gap| gap.holds(&key)) {
                continue;
            }
            let (kind, value) = match op.kind {
                OpKind::Put => (Kind::Inline, op.value.to_vec()),
                OpKind::PutSeparated => {
                    let (len, sum) = (op.value.len() as u32, value_sum(op.value));
                    (Kind::Separated, Pointer { segment, offset, len, sum }.encode().to_vec())
                }
                OpKind::Delete | OpKind::DeleteRange => (Kind::Tombstone, Vec::new()),
            };
            self.read.items.push(Item { key, seq, kind, value });
        }
    }

    /// All that counts.
    pub(super) fn finish(mut self) -> Read {
        let order = |item: &Item| (item.key.clone(), std::cmp::Reverse(item.seq));
        self.read.items.sort_by_cached_key(order);
        self.read
    }
}

/// The first whole group after a place, and its sequence number.
fn next_group(
    identity: &Identity,
    bytes: &[u8],
    at: usize,
    end: usize,
    budget: &mut usize,
) -> Option<(usize, u64)> {
    (at + 1..end).find_map(|at| {
        let len = identity.likely_group(at as u64, &bytes[at..])?;
        *budget = budget.checked_sub(len)?;
        identity.whole_group(at as u64, &bytes[at..]).map(|group| (at, group.seq))
    })
}
