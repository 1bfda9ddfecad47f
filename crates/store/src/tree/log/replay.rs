//! Replaying the log: what the first opener does after a power cut, before anybody reads.
//!
//! 1. From the durable commit on, record after record is read as far as the chain goes.
//! 2. Of each record the pages are made from those that they replace, and written to their places.
//!    None of these is a page of the durable commit, so a power cut here only means to begin anew.
//! 3. Everything is flushed.
//! 4. The last record's meta record is written, as a flushed one, to a meta page that is not the
//!    durable commit's, and flushed. From here on it is the newest commit, and the durable one.

use std::io::IoSlice;
use std::path::Path;

use super::super::meta::{Kind, LogPlace, META_LEN, Meta};
use super::delta::apply_delta;
use super::moved::{apply_parts, sources};
use super::{RECORD_ALIGN, header, sum_of};
use crate::canary::{Bug, is_planted};
use crate::coding::{u32_at, u64_at};
use crate::observe::{self, Done, Work};
use crate::os::DataFile;
use crate::tree::page::{self, Page};
use crate::tree::page_ref::FIRST_PAGE;
use crate::{Error, Place, Result};

/// How much of the ring is read at a time, where the whole of it is looked through.
const PIECE: usize = 1 << 20;

/// The file, and how far the log was read.
struct Replay<'f> {
    file: &'f dyn DataFile,
    path: &'f Path,
    page_size: u64,
    /// Whether a store is salvaged: a page whose source cannot be read comes out damaged then, and
    /// takes the place only of a page that is older or damaged.
    salvages: bool,
    /// The commit that was read last, and the place after its record.
    newest: Meta,
    place: LogPlace,
}

/// Replays the records after the newest commit that has a meta record; false if there are none.
/// After a power cut that is the durable one. After the death of a process at most one can follow
/// that is in the system's cache: the process had written it, and not yet published its commit.
///
/// `slot` is a meta page that holds neither the newest commit nor the durable one. `progress` is
/// called after each record with the bytes of the log that were replayed, and the most that there
/// can be.
///
/// # Errors
/// [`Error::Corrupt`] if a record in the middle of the log is damaged, [`Error::Path`] if there are
/// records and the store is opened for reading only.
pub(crate) fn replay(
    file: &dyn DataFile,
    path: &Path,
    newest: &Meta,
    slot: u32,
    read_only: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<bool> {
    let is_cached = is_cached(newest);
    let Some(place) = followed(newest) else { return Ok(false) };
    let mut replay = Replay::new(file, path, newest, place);
    let mut count = 0;
    while let Some(record) = replay.next()? {
        if read_only && is_cached {
            return Ok(false);
        }
        if read_only {
            let reason = "its log must be replayed after a power cut; open it for writing once";
            return Err(Error::Path { path: path.into(), reason });
        }
        replay.redo(&record)?;
        count += 1;
        let ring = place.ring_bytes(replay.page_size);
        progress(replay.place.at.saturating_sub(place.at).min(ring), ring);
        if is_planted(Bug::ShortReplay) {
            break;
        }
    }
    if !is_cached {
        replay.check_end()?;
    }
    if count == 0 {
        return Ok(false);
    }
    let io = |doing| move |e| Error::io(doing, path, e);
    let log = Some(LogPlace { chained: true, open: true, ..replay.place });
    let meta = Meta { kind: Kind::Flushed, log, ..replay.newest };
    if file.len().map_err(io("read the length of"))? < meta.file_len() {
        file.set_len(meta.file_len()).map_err(io("extend"))?;
    }
    file.sync().map_err(io("flush"))?;
    let offset = u64::from(slot) * u64::from(meta.page_size);
    let written = file.write_at(&[IoSlice::new(&meta.encode(slot))], offset);
    written.map_err(io("write a meta page of"))?;
    if let Err(error) = file.sync() {
        // The system may show the record to the next opener though it never reaches the disk.
        let _ = file.write_at(&[IoSlice::new(&[0; META_LEN])], offset);
        return Err(io("flush")(error));
    }
    observe::tell(path, || Done {
        records: Some(count),
        commit: Some(meta.txn),
        ..Work::TREE_REPLAY.done()
    });
    Ok(true)
}

/// Whether the commit was published without a flush, and no power was lost since.
fn is_cached(newest: &Meta) -> bool {
    matches!(newest.kind, Kind::Unsynced { .. })
}

/// Where records that follow a commit begin, if there may be any.
pub(crate) fn followed(newest: &Meta) -> Option<LogPlace> {
    let is_cached = is_cached(newest);
    newest.log.filter(|place| if is_cached { place.chained } else { place.open })
}

/// What a salvage made of a log.
pub(crate) struct Redone {
    /// The commit of the last record that was replayed.
    pub(crate) newest: Meta,
    pub(crate) records: u64,
    /// Why a record was not replayed, if one was not.
    pub(crate) failure: Option<Error>,
}

/// Replays the records that follow the newest commit for a salvage, as far as they can be read.
/// Their pages are written to `file`, but no meta record is, and nothing is flushed.
pub(crate) fn redo(file: &dyn DataFile, path: &Path, newest: &Meta, place: LogPlace) -> Redone {
    Replay { salvages: true, ..Replay::new(file, path, newest, place) }.run()
}

/// As [`redo`], for what stands in the log after a gap: the newest records of which each follows
/// the one before it. Also says how many whole records newer than `newest` there are; `None` if
/// there are none.
pub(crate) fn redo_rest(
    file: &dyn DataFile,
    path: &Path,
    newest: &Meta,
    place: LogPlace,
) -> Option<(Redone, u64)> {
    let mut replay = Replay { salvages: true, ..Replay::new(file, path, newest, place) };
    let heads = replay.later().ok()?;
    let first = first_of_chain(&heads)?;
    replay.newest.txn = first.follows;
    replay.place = LogPlace { at: first.place, sum: first.before, ..place };
    Some((replay.run(), heads.len() as u64))
}

/// The record from which on each of the newest ones follows the one before it.
fn first_of_chain(heads: &[Head]) -> Option<&Head> {
    let mut newest_first: Vec<&Head> = heads.iter().collect();
    newest_first.sort_by_key(|head| std::cmp::Reverse(head.commit));
    let mut first = *newest_first.first()?;
    for head in newest_first.into_iter().skip(1) {
        if head.commit != first.follows || head.sum != first.before {
            break;
        }
        first = head;
    }
    Some(first)
}

/// Of the head of a record.
struct Head {
    commit: u64,
    follows: u64,
    place: u64,
    before: u64,
    sum: u64,
}

impl Head {
    fn of(record: &[u8]) -> Self {
        Self {
            commit: u64_at(record, header::COMMIT_OFFSET),
            follows: u64_at(record, header::FOLLOWS_OFFSET),
            place: u64_at(record, header::PLACE_OFFSET),
            before: u64_at(record, header::BEFORE_OFFSET),
            sum: u64_at(record, header::SUM_OFFSET),
        }
    }
}

impl<'f> Replay<'f> {
    fn new(file: &'f dyn DataFile, path: &'f Path, newest: &Meta, place: LogPlace) -> Self {
        let page_size = u64::from(newest.page_size);
        Self { file, path, page_size, salvages: false, newest: newest.clone(), place }
    }

    /// Replays as far as it goes.
    fn run(mut self) -> Redone {
        let mut records = 0;
        let failure = loop {
            let replayed = match self.next() {
                Ok(Some(record)) => self.redo(&record),
                Ok(None) => break None,
                Err(error) => Err(error),
            };
            match replayed {
                Ok(()) => records += 1,
                Err(error) => break Some(error),
            }
        };
        Redone { newest: self.newest, records, failure }
    }
}

impl Replay<'_> {
    /// The next record, if there is one.
    fn next(&self) -> Result<Option<Vec<u8>>> {
        match self.record_at(self.place.at)? {
            None => self.record_at(self.place.next_round(self.page_size)),
            found => Ok(found),
        }
    }

    fn read(&self, at: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let read = self.file.read_at(&mut bytes, self.place.offset(at, self.page_size));
        read.map_err(|e| Error::io("read the log of", self.path, e))?;
        Ok(bytes)
    }

    /// The record at a place, if it follows the last one.
    fn record_at(&self, at: u64) -> Result<Option<Vec<u8>>> {
        let head = self.read(at, header::ENTRIES_OFFSET)?;
        let follows = u64_at(&head, header::FOLLOWS_OFFSET) == self.newest.txn
            && u64_at(&head, header::BEFORE_OFFSET) == self.place.sum
            && u64_at(&head, header::PLACE_OFFSET) == at;
        if u64_at(&head, header::MAGIC_OFFSET) != header::MAGIC || !follows {
            return Ok(None);
        }
        let ring = self.place.ring_bytes(self.page_size);
        self.whole(&head, at, ring - at % ring)
    }

    /// The record with this head, if it is whole and no longer than the room that it has.
    fn whole(&self, head: &[u8], at: u64, room: u64) -> Result<Option<Vec<u8>>> {
        let len = u64::from(u32_at(head, header::LENGTH_OFFSET));
        if len < header::ENTRIES_OFFSET as u64 || len > room {
            return Ok(None);
        }
        let record = self.read(at, len as usize)?;
        let is_whole = sum_of(&record) == u64_at(&record, header::SUM_OFFSET);
        Ok((is_whole || is_planted(Bug::UnchainedRecord)).then_some(record))
    }

    /// Writes the pages of a record.
    fn redo(&mut self, record: &[u8]) -> Result<()> {
        let damaged = || self.damaged("a record of the log that no store wrote");
        let mut entries = &record[header::ENTRIES_OFFSET..];
        let mut meta = None;
        for _ in 0..u32_at(record, header::PAGES_OFFSET) {
            let (head, rest) = entries.split_at_checked(header::ENTRY_LEN).ok_or_else(damaged)?;
            let (no, source) = (u32_at(head, 0), u32_at(head, 4));
            let (len, kind) = (u32_at(head, 8) & !header::MOVED, u32_at(head, 8) & header::MOVED);
            let (delta, rest) = rest.split_at_checked(len as usize).ok_or_else(damaged)?;
            entries = rest;
            match &meta {
                None => meta = Some(self.meta_of(record, delta)?),
                Some(meta) => {
                    let page = self.page_of(source, kind, delta)?;
                    // Without a source the record has all of the page.
                    let is_sure = !self.salvages || source == 0 && kind != header::MOVED;
                    if is_sure || self.is_wanted(meta, no, &page)? {
                        self.write_page(meta, no, &page)?;
                    }
                }
            }
        }
        let at = u64_at(record, header::PLACE_OFFSET);
        let behind = (at + record.len() as u64).next_multiple_of(RECORD_ALIGN);
        self.newest = meta.ok_or_else(damaged)?;
        self.place = LogPlace { at: behind, sum: u64_at(record, header::SUM_OFFSET), ..self.place };
        Ok(())
    }

    fn meta_of(&self, record: &[u8], delta: &[u8]) -> Result<Meta> {
        let mut bytes = vec![0; META_LEN];
        let made = apply_delta(&mut bytes, delta).then(|| Meta::decode(&bytes, 0).ok()).flatten();
        let fits = |meta: &Meta| {
            meta.txn == u64_at(record, header::COMMIT_OFFSET)
                && meta.txn > self.newest.txn
                && meta.id == self.newest.id
                && meta.page_size == self.newest.page_size
        };
        made.filter(fits).ok_or_else(|| self.damaged("a record of the log without its commit"))
    }

    /// Makes a page of the one that it replaces, or of parts of several.
    fn page_of(&self, source: u32, kind: u32, delta: &[u8]) -> Result<Vec<u8>> {
        let damaged = || self.damaged("a page in a record of the log that no store wrote");
        let mut page = vec![0; self.page_size as usize];
        let made = if kind == header::MOVED {
            let (from, parts) = sources(delta).ok_or_else(damaged)?;
            let old = from.iter().map(|no| self.old_page(*no)).collect::<Result<Vec<_>>>()?;
            apply_parts(&mut page, &old, parts)
        } else {
            if source != 0 {
                page = self.old_page(source)?;
            }
            apply_delta(&mut page, delta)
        };
        made.then_some(page).ok_or_else(damaged)
    }

    /// Whether a page that was made of others is sound, or else what stands in its place is neither
    /// it nor a later one.
    fn is_wanted(&self, meta: &Meta, no: u32, made: &[u8]) -> Result<bool> {
        let there = self.old_page(no)?;
        let is_later = |page: Page<'_>| page.birth() >= meta.txn;
        let is_sound = page::checked(made, no, meta.end).is_ok();
        Ok(is_sound || !page::checked(&there, no, meta.end).is_ok_and(is_later))
    }

    fn old_page(&self, no: u32) -> Result<Vec<u8>> {
        let mut page = vec![0; self.page_size as usize];
        let read = self.file.read_at(&mut page, u64::from(no) * self.page_size);
        if let Err(error) = read {
            if !self.salvages {
                return Err(Error::io("read", self.path, error));
            }
            page.fill(0);
        }
        Ok(page)
    }

    fn write_page(&self, meta: &Meta, no: u32, page: &[u8]) -> Result<()> {
        let ring = self.place.run.start..self.place.run.start + self.place.run.len;
        if no < FIRST_PAGE || no >= meta.end || ring.contains(&no) {
            return Err(self.damaged("a page in a record of the log that no store wrote"));
        }
        let written = self.file.write_at(&[IoSlice::new(page)], u64::from(no) * self.page_size);
        written.map_err(|e| Error::io("write", self.path, e))
    }

    /// Makes sure that no record follows the end of the chain: a power cut tears the last one only.
    fn check_end(&self) -> Result<()> {
        match self.later()?[..] {
            [] => Ok(()),
            _ => Err(self.damaged("a damaged record in the middle of the log")),
        }
    }

    /// Whole records of later commits than the one that would come next.
    fn later(&self) -> Result<Vec<Head>> {
        let mut heads = Vec::new();
        let ring = self.place.ring_bytes(self.page_size);
        for from in (0..ring).step_by(PIECE) {
            let piece = self.read(from, PIECE.min((ring - from) as usize))?;
            for (at, block) in (from..).step_by(RECORD_ALIGN as usize).zip(blocks(&piece)) {
                let is_newer = u64_at(block, header::MAGIC_OFFSET) == header::MAGIC
                    && u64_at(block, header::COMMIT_OFFSET) > self.newest.txn
                    && u64_at(block, header::FOLLOWS_OFFSET) > self.newest.txn
                    && u64_at(block, header::PLACE_OFFSET) % ring == at;
                if is_newer && self.whole(block, at, ring - at)?.is_some() {
                    heads.push(Head::of(block));
                }
            }
        }
        Ok(heads)
    }

    fn damaged(&self, reason: &'static str) -> Error {
        let offset = self.place.offset(self.place.at, self.page_size);
        Error::Corrupt {
            path: self.path.into(),
            place: Place::Page(offset / self.page_size),
            reason,
        }
    }
}

fn blocks(piece: &[u8]) -> impl Iterator<Item = &[u8]> {
    piece.chunks(RECORD_ALIGN as usize)
}
