//! The redo log: a ring of pages in the data file, into which durable commits of scattered pages
//! are written so that only the log has to be flushed.
//!
//! # Concept
//!
//! A durable commit has to wait until the disk has all of its pages, and a disk takes as long for
//! 1,000 scattered pages as for many thousand neighbouring ones. So such a commit writes its pages
//! as an unsynced one does, and besides one *record* into the log, of which just those bytes are
//! flushed. A record holds the new meta record and, of each page that the commit wrote, what tells
//! it apart from the page that it replaces: a few hundred bytes, as a rule. The pages themselves
//! reach the disk when the system likes, or at the next *checkpoint*, which is what
//! [`sync`](super::store::Inner::sync) does: the file is flushed, and the newest commit becomes the
//! durable one.
//!
//! After a power cut the first opener *replays* the log: it takes the durable commit D and makes
//! from it, record by record, the pages of the commits that follow ([`replay`]). That is possible
//! because no page of D is written before a newer commit is durable, and every other page that a
//! record builds on was written by a record before it. It may be done any number of times: a power
//! cut meanwhile changes nothing. After the mere death of a process the pages are in the system's
//! cache, and at most the record of a commit that it was about to publish is replayed.
//!
//! # Invariants
//!
//! 1. A record follows directly the one before it: it names the commit that it follows and has the
//!    checksum of that one's record. So the log ends where a record does not fit, and what a ring
//!    held in an earlier round is never taken for a record.
//! 2. A commit whose predecessors since D are not all in the log cannot be in it either (the place
//!    in the meta record is not *chained* then): its pages are flushed, and it becomes D.
//! 3. Records after D are overwritten only when a newer commit is durable.
//! 4. Records follow D only if D's meta record says that they may (it is *open*). A clean close
//!    adds a copy of it that is shut, so that an opening needs no look at the log; the next durable
//!    commit is then flushed, whether the copy has reached the disk or not.
//! 5. What a writer that died left after the newest commit is removed before anything is written
//!    ([`cut_tail`]): a commit that was never seen must not come back after others were made.

pub(crate) mod delta;
mod moved;
pub(crate) mod replay;
mod ring;

use std::sync::atomic::Ordering::SeqCst;

use super::image::{Image, Pieces};
use super::meta::{LogPlace, Meta};
use super::page_ref::Run;
use super::pages::Pages;
use super::state::WriteState;
use super::store::Inner;
use super::words::{DIRTY, WORD_DIRTY, WORD_DURABLE, WORD_NUMBER, slot_of};
use crate::canary::{Bug, is_planted};
use crate::checksum::Crc64;
use crate::coding::{put_u32, put_u64, u64_at};
use crate::sync::locked;
use crate::{Error, Result};
use delta::put_delta;
use moved::Index;
use ring::{LONG_RING_BYTES, make_ring, wanted_bytes};
pub(crate) use ring::{RECORD_ALIGN, Ring};

/// No ring is made before this many commits of this process would have gained by it, nor for a
/// store that is shorter than the shortest ring.
const GAINED_MIN: u32 = 32;
/// After there was no room for a ring, it is tried again when this many more would have gained.
const REFUSED: u32 = 1024;
/// No short ring is used before this many commits of this process would have gained by it: a close
/// flushes what is in the log, which is more than a few commits gain.
const USED_MIN: u32 = 4;
/// A commit of more pages, or of more bytes in long values, flushes its pages.
const PAGES_MAX: usize = 4096;
const EXTENT_BYTES_MAX: usize = 64 << 10;
/// A record is worth its while up to this part of the pages that need not be flushed then.
const RECORD_PART: usize = 2;
/// A page of which more than this part differs from the one that it was copied from is looked for
/// in its neighbours as well.
const DELTA_PART: usize = 4;
/// At most this many neighbouring pages are looked for together.
const LAID_OUT_MAX: usize = 16;

/// After a quarter of the pages, and this many, it is seen how long the record will be.
const TELLING_MIN: usize = 32;

/// The head of a record, and of each of its entries: the meta record, made from zeros, and pages.
pub(crate) mod header {
    pub(crate) const MAGIC_OFFSET: usize = 0;
    pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"HDGREDO\x01");
    pub(crate) const LENGTH_OFFSET: usize = 8;
    pub(crate) const PAGES_OFFSET: usize = 12;
    pub(crate) const COMMIT_OFFSET: usize = 16;
    pub(crate) const FOLLOWS_OFFSET: usize = 24;
    pub(crate) const PLACE_OFFSET: usize = 32;
    pub(crate) const BEFORE_OFFSET: usize = 40;
    pub(crate) const SUM_OFFSET: usize = 48;
    pub(crate) const ENTRIES_OFFSET: usize = 56;
    /// Before each delta: the page, the one that it is made from (0: zeros), the delta's length.
    pub(crate) const ENTRY_LEN: usize = 12;
    /// A bit of that length: it is not a delta that follows but a list of parts of old pages.
    pub(crate) const MOVED: u32 = 1 << 31;
}

/// What this process knows of the log.
#[derive(Default)]
pub(crate) struct LogHints {
    /// Memory for records.
    bytes: Vec<u8>,
    /// The shared word of the durable commit, and the place in its meta record.
    durable: Option<(u64, Option<LogPlace>)>,
    /// How many commits would have gained by a log.
    gained: u32,
    /// As many have to gain after there was no room for one.
    put_off: u32,
}

impl LogHints {
    /// Whether at least so many commits would have gained by a log, and it is not put off.
    fn gains(&self, least: u32) -> bool {
        self.gained >= least.max(self.put_off)
    }

    /// Notes that a ring was made, or that there was no room for it.
    fn note_ring(&mut self, is_made: bool) {
        (self.gained, self.put_off) = match is_made {
            true => (0, 0),
            false => (self.gained, self.gained.saturating_add(REFUSED)),
        };
    }
}

/// How a commit gets to stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By its record in the log, which is flushed. Its pages are not.
    Log,
    /// Its pages are flushed.
    Flush,
    /// Not now: by a later flush, or a later commit.
    Later,
}

impl Way {
    /// As events of observers call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Flush => "flush",
            Self::Later => "none",
        }
    }
}

/// The way of a commit, of which [`Way::Log`] depends on whether there is a log with room. A commit
/// of a few scattered pages gains by a log; one whose pages stand side by side is flushed as fast,
/// and so is one that is larger than its record would be worth, as one that is mostly new long
/// values is: the record has them in full. A log that was just made, or let go, takes no record.
pub(crate) fn way(
    store: &Inner,
    state: &WriteState,
    pieces: &Pieces<'_>,
    (durable, ring): (bool, Ring),
) -> Way {
    if !durable {
        return Way::Later;
    }
    let pages = &state.pages;
    let is_plain = !pages.early.written && pages.space.lowest_first.is_none();
    let long = pages.extents.bytes();
    let fits = is_small(pieces.len(), long);
    let is_worth_it = RECORD_PART * long <= pieces.bytes();
    // Of a map that its user writes to, the page that another one replaces is not that of the file.
    let has_log = store.options.log_size != Some(0) && !store.options.writable_map;
    let may = has_log && ring == Ring::Stays;
    let is_logged = may && is_plain && fits && is_worth_it && pieces.len() > 1;
    if is_logged { Way::Log } else { Way::Flush }
}

/// Whether a commit of so many pages, and so many bytes in long values, may go into the log.
fn is_small(pages: usize, long: usize) -> bool {
    pages <= PAGES_MAX && long <= EXTENT_BYTES_MAX
}

/// The place that a meta record notes for a commit which is not in the log.
pub(crate) fn place_of(place: Option<LogPlace>, durable: bool, meta: &Meta) -> Option<LogPlace> {
    match durable {
        true => place.map(|place| place.restarted(&meta.id, meta.txn)),
        false => place.map(|place| place.left_out()),
    }
}

/// That of a commit whose pages were flushed after it was published: what follows it in the log
/// goes on following it.
pub(crate) fn place_at_checkpoint(meta: &Meta, closing: bool) -> Option<LogPlace> {
    let place = meta.log?;
    let place = if place.chained { place } else { place.restarted(&meta.id, meta.txn) };
    Some(LogPlace { open: !closing, ..place })
}

/// Writes the record of a commit, calls `write_pages` while the disk works on it, and waits until
/// it is on stable storage. False, and nothing is written, if the log cannot take it. The caller
/// has the turn of the meta pages.
///
/// # Errors
/// Where `write_pages` fails, the record is taken back. A failed write of the log poisons the
/// store: what the log holds then is not known.
pub(crate) fn append(
    store: &Inner,
    state: &WriteState,
    image: &Image,
    meta: &mut Meta,
    write_pages: &mut dyn FnMut() -> Result<()>,
) -> Result<bool> {
    let mut bytes = std::mem::take(&mut locked(&store.hints.log).bytes);
    let prepared = prepare(store, state, image, meta, &mut bytes)?;
    if let Some((offset, after)) = prepared {
        meta.log = Some(after);
        store.lock.word(WORD_NUMBER).fetch_max(meta.txn, SeqCst);
        store.lock.word(WORD_DIRTY).store(DIRTY, SeqCst);
        let mut pages = Ok(());
        store.write_durably(&bytes, offset, &mut || pages = write_pages())?;
        if let Err(error) = pages {
            store.write_durably(&[0; RECORD_ALIGN as usize], offset, &mut || ())?;
            return Err(error);
        }
    }
    let is_flushed = store.durable_number() == store.latest_number();
    let is_all_durable = is_flushed || store.is_newest_in_log()?;
    let mut hints = locked(&store.hints.log);
    hints.bytes = bytes;
    // After commits that are not durable a log is of no use.
    let gains = prepared.is_none() && is_all_durable;
    hints.gained = hints.gained.saturating_add(gains.into());
    Ok(prepared.is_some())
}

/// Builds the record of a commit; where it goes in the file, and the place after it. `None` if the
/// log cannot take it.
fn prepare(
    store: &Inner,
    state: &WriteState,
    image: &Image,
    meta: &Meta,
    bytes: &mut Vec<u8>,
) -> Result<Option<(u64, LogPlace)>> {
    let newest = store.newest()?;
    let follows = |place: &LogPlace| place.chained && place.open;
    let Some(place) = newest.meta.log.filter(follows) else { return Ok(None) };
    let Some(durable) = durable_place(store)? else { return Ok(None) };
    let page_size = state.pages.page_size() as u64;
    if !durable.open || durable.run != place.run || is_early(store, place.ring_bytes(page_size)) {
        return Ok(None);
    }
    let most = (image.bytes() + state.pages.extents.bytes()) as u64 / RECORD_PART as u64;
    let room_for = |len: u64| place.room_for(len, durable.at, page_size).filter(|_| len <= most);
    let is_whole = build(bytes, (&place, newest.meta.txn), meta, &entries(image, state), |len| {
        room_for(len).is_some()
    });
    let len = bytes.len() as u64;
    let Some(at) = room_for(len).filter(|_| is_whole) else { return Ok(None) };
    let sum = finish(bytes, at);
    let behind = LogPlace { at: (at + len).next_multiple_of(RECORD_ALIGN), sum, ..place };
    Ok(Some((place.offset(at, page_size), behind)))
}

/// Whether this process has not yet made as many commits as make a short ring worth its while.
fn is_early(store: &Inner, ring: u64) -> bool {
    let is_short = ring < LONG_RING_BYTES && store.options.log_size.is_none();
    is_short && locked(&store.hints.log).gained < USED_MIN
}

/// A page of a record.
struct Entry<'p> {
    no: u32,
    /// The page that it was copied from and that page's bytes, if there is one.
    source: Option<(u32, &'p [u8])>,
    new: &'p [u8],
}

/// Puts a record together, but for its place and its sum. False, and it is not whole, if it will
/// hardly have a length that fits.
fn build(
    out: &mut Vec<u8>,
    (place, follows): (&LogPlace, u64),
    meta: &Meta,
    entries: &[Entry<'_>],
    fits: impl Fn(u64) -> bool,
) -> bool {
    out.clear();
    out.resize(header::ENTRIES_OFFSET, 0);
    put_u64(out, header::MAGIC_OFFSET, header::MAGIC);
    put_u32(out, header::PAGES_OFFSET, 1 + entries.len() as u32);
    put_u64(out, header::COMMIT_OFFSET, meta.txn);
    put_u64(out, header::FOLLOWS_OFFSET, follows);
    put_u64(out, header::BEFORE_OFFSET, place.sum);
    put_delta_entry(out, &Entry { no: 0, source: None, new: &meta.encode(0) });
    let is_whole = put_entries(out, entries, fits);
    let len = out.len() as u32;
    put_u32(out, header::LENGTH_OFFSET, len);
    is_whole
}

/// The pages of a commit: those of its trees from left to right, and its long values.
fn entries<'p>(image: &'p Image, state: &'p WriteState) -> Vec<Entry<'p>> {
    let old = |no| state.pages.base.run(Run { start: no, len: 1 }).ok();
    let pages = image.pages().map(|(no, source, new)| {
        let source = if source == 0 { None } else { old(source).map(|page| (source, page)) };
        Entry { no, source, new }
    });
    let page_size = state.pages.page_size();
    let long = state.pages.extents.iter().flat_map(|(first, whole)| {
        let pages = (first..).zip(whole.chunks(page_size));
        pages.map(|(no, new)| Entry { no, source: None, new })
    });
    pages.chain(long).collect()
}

/// Adds entries: by what tells each page apart from the one that it was copied from, if that is
/// little, else by where its parts stood before. False, and the rest is left out, if it seems that
/// the record will have no length that fits.
fn put_entries(out: &mut Vec<u8>, entries: &[Entry<'_>], fits: impl Fn(u64) -> bool) -> bool {
    let mut laid_out = 0..0;
    for (i, entry) in entries.iter().enumerate() {
        // The pages that follow may take less than those so far, but hardly less than three
        // quarters of that.
        let tells = i >= TELLING_MIN && 4 * i >= entries.len() && laid_out.is_empty();
        let (len, left) = (out.len() as u64, (entries.len() - i) as u64);
        if tells && !fits(len + len * left / i as u64 * 3 / 4) {
            return false;
        }
        let start = out.len();
        put_delta_entry(out, entry);
        let is_short = out.len() - start <= entry.new.len() / DELTA_PART;
        if !is_short {
            out.truncate(start);
            laid_out.end = i + 1;
        }
        if is_short || laid_out.len() == LAID_OUT_MAX {
            put_laid_out(out, entries, &laid_out);
            laid_out = i + 1..i + 1;
        }
    }
    put_laid_out(out, entries, &laid_out);
    true
}

/// Adds pages whose records were laid out anew: these stood in the old pages of the same leaves.
fn put_laid_out(out: &mut Vec<u8>, entries: &[Entry<'_>], range: &std::ops::Range<usize>) {
    if range.is_empty() {
        return;
    }
    let entries = &entries[range.clone()];
    let index = Index::new(entries.iter().filter_map(|entry| entry.source).collect());
    for entry in entries {
        let start = out.len();
        out.resize(start + header::ENTRY_LEN, 0);
        index.put_parts(out, entry.new);
        finish_entry(out, start, (entry.no, 0), header::MOVED);
    }
}

fn put_delta_entry(out: &mut Vec<u8>, entry: &Entry<'_>) {
    let start = out.len();
    out.resize(start + header::ENTRY_LEN, 0);
    put_delta(out, entry.source.map(|(_, old)| old), entry.new);
    finish_entry(out, start, (entry.no, entry.source.map_or(0, |(source, _)| source)), 0);
}

/// Fills in the head of an entry that is the last one so far.
fn finish_entry(out: &mut [u8], start: usize, (no, source): (u32, u32), kind: u32) {
    let len = (out.len() - start - header::ENTRY_LEN) as u32;
    let entry = &mut out[start..];
    put_u32(entry, 0, no);
    put_u32(entry, 4, source);
    put_u32(entry, 8, len | kind);
}

/// Fills in the place and the sum.
fn finish(record: &mut [u8], at: u64) -> u64 {
    put_u64(record, header::PLACE_OFFSET, at);
    let sum = sum_of(record);
    put_u64(record, header::SUM_OFFSET, sum);
    sum
}

/// CRC-64 of a record but for its sum.
fn sum_of(record: &[u8]) -> u64 {
    let mut sum = Crc64::new();
    sum.update(&record[..header::SUM_OFFSET]);
    sum.update(&record[header::ENTRIES_OFFSET..]);
    sum.finish()
}

/// Whether half of the ring is taken by records after the durable commit: a checkpoint is due.
pub(crate) fn is_half_full(store: &Inner, place: &LogPlace) -> bool {
    let ring = place.ring_bytes(store.pages.page_size() as u64);
    let known = locked(&store.hints.log).durable;
    let first = known.and_then(|(_, durable)| Some(durable?.at));
    ring >= LONG_RING_BYTES && first.is_none_or(|first| place.at - first.min(place.at) > ring / 2)
}

/// The place in the meta record of the durable commit.
fn durable_place(store: &Inner) -> Result<Option<LogPlace>> {
    let word = store.lock.word(WORD_DURABLE).load(SeqCst);
    if let Some((known, place)) = locked(&store.hints.log).durable
        && known == word
    {
        return Ok(place);
    }
    let place = store.read_meta(slot_of(word))?.log;
    locked(&store.hints.log).durable = Some((word, place));
    Ok(place)
}

/// Before a commit: lets the ring go in a compaction, and where the disk was full; where the pages
/// will be flushed anyway, makes one, or a longer one, if it is time to. The caller writes the
/// place in the meta record.
pub(crate) fn change_ring(store: &Inner, state: &mut WriteState, durable: bool) -> Result<Ring> {
    let compacts = state.pages.space.lowest_first.is_some();
    if !durable && !compacts {
        return Ok(Ring::Stays);
    }
    let old = store.newest()?.meta.log;
    let run = match wanted_pages(store, state, old).filter(|_| !compacts) {
        Some(pages) => {
            let run = make_ring(&mut state.pages, pages)?;
            locked(&store.hints.log).note_ring(run.is_some());
            run
        }
        None => None,
    };
    if run.is_none() && !compacts {
        return Ok(Ring::Stays);
    }
    if let Some(old) = old {
        // As old as any: a reader of an older commit may be copying it.
        state.pages.free_run(old.run, 0)?;
    }
    Ok(run.map_or(Ring::Gone, Ring::New))
}

/// How many pages a ring should have, if it is time for a new one, and not in a large commit.
fn wanted_pages(store: &Inner, state: &WriteState, old: Option<LogPlace>) -> Option<u32> {
    let page_size = state.pages.page_size() as u64;
    let least = if store.options.log_size.is_some() { 1 } else { GAINED_MIN };
    let gains = locked(&store.hints.log).gains(least);
    let bytes = u64::from(state.pages.base.end) * page_size;
    let wanted = wanted_bytes(store.options.log_size, bytes, state.pages.space.max_size);
    let has = old.map_or(0, |place| place.ring_bytes(page_size));
    let is_small = is_small(state.pages.changed_pages(), state.pages.extents.bytes());
    let is_due = is_small && gains && wanted > 0 && 2 * has <= wanted;
    is_due.then_some((wanted / page_size) as u32)
}

/// Removes a record after that of the newest commit: it is of a writer that died before it
/// published. The caller has the writer's lock, and has flushed the file, so that the disk has the
/// heads that are read here.
pub(crate) fn cut_tail(store: &Inner) -> Result<()> {
    let Some(place) = store.newest()?.meta.log else { return Ok(()) };
    let page_size = store.pages.page_size() as u64;
    let zeros = [0; RECORD_ALIGN as usize];
    let first = durable_place(store)?.map_or(place.at, |durable| durable.at);
    for at in [place.at, place.next_round(page_size)] {
        let is_free = at + RECORD_ALIGN - first.min(at) <= place.ring_bytes(page_size);
        let mut head = [0; header::ENTRIES_OFFSET];
        let offset = place.offset(at, page_size);
        let read = store.pages.file.read_at(&mut head, offset);
        read.map_err(|e| Error::io("read the log of", &store.pages.path, e))?;
        // What an earlier round of the ring left names another place.
        let is_record = u64_at(&head, header::MAGIC_OFFSET) == header::MAGIC
            && u64_at(&head, header::PLACE_OFFSET) == at;
        if is_free && is_record {
            store.write_durably(&zeros, offset, &mut || ())?;
        }
    }
    Ok(())
}

impl Inner {
    /// Writes bytes, calls `meanwhile`, and waits until the bytes are on stable storage. A failure
    /// poisons the store, and takes back what is not durable: the flush may have been told that
    /// other pages could not be written. The caller has the writer's lock.
    fn write_durably(&self, bytes: &[u8], offset: u64, meanwhile: &mut dyn FnMut()) -> Result<()> {
        let file = &self.pages.file;
        let written = file.write_at(&[std::io::IoSlice::new(bytes)], offset);
        let written = written.and_then(|()| {
            if is_planted(Bug::SkippedFlush) {
                meanwhile();
                return Ok(());
            }
            file.sync_range(offset, bytes.len(), meanwhile)
        });
        written.map_err(|e| {
            let error = self.poison(Error::io("write the log of", &self.pages.path, e));
            self.retract(true);
            error
        })
    }
}

#[cfg(test)]
mod tests;
