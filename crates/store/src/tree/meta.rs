//! The meta record: what one commit is, in 4,096 bytes. Encoding and decoding only; which of the
//! three records of a file counts is decided in `recover`, and written in `commit`.
//!
//! Pages 0, 1 and 2 hold one record each, in their first 4,096 bytes whatever the page size:
//!
//! ```text
//! offset  bytes  content
//!      0      8  "HEDGEROW"
//!      8      4  format version
//!     12      1  page size as a power of two (12 to 16)
//!     13      1  kind: 1 flushed, 2 one flush, 3 unsynced
//!     14      1  1 if the uptime evidence is present
//!     15      1  zero
//!     16      8  feature bits; a bit that is not known is refused
//!     24      8  number of the commit
//!     32      4  end: the first page number that was never used
//!     36      4  the most pages that the store may have; zero: no maximum (feature bit 0)
//!     40     16  store id, random, the same for the life of the store
//!     56     24  uptime evidence (unsynced commits)
//!     80      8  pages in the ready tree
//!     88      8  pages in the pending tree
//!     96     48  root of the catalog
//!    144     48  root of the ready tree
//!    192     48  root of the pending tree
//!    240      4  number of runs
//!    244      4  number of recent free runs
//!    248      8  CRC-64 of all bytes of the runs, in their order (one flush)
//!    256      4  CRC-32C of the 256 bytes before, seeded with the number of the meta page
//!    260      4  zero
//!    264    512  runs written by the commit: start u32, length u32 each, at most 64
//!    776   3312  recent free runs: start u32, length u32, birth u64, freed u64 each, at most 138
//!   4016     48  root of the tree of pins (feature bit 2), where otherwise the last two of the
//!                recent free runs stand
//!   4088      4  zero
//!   4092      4  CRC-32C of the bytes from 260 to here, seeded with the number of the meta page
//!                (upper half of the seed) and the sum at 256 (lower half)
//! ```
//!
//! The second sum must not simply run over the first one and what it covers: the CRC of a message
//! followed by its own CRC is the same for every message, so that a record of which only the first
//! sectors were written would pass.

use super::page_ref::{FIRST_PAGE, PAGE_NO_END, Run};
use super::tree::Root;
use crate::checksum::crc32c;
use crate::coding::{put_u32, put_u64, u32_at, u64_at};
use crate::identify::TREE as MAGIC;

/// The bytes of a record.
pub(crate) const META_LEN: usize = 4096;

const VERSION: u32 = 1;
/// No format has a greater number: a record that says so is damaged, and others may be sound.
const VERSION_MAX: u32 = 0xffff;
/// The feature bit of a store that has a maximum size.
const FEATURE_MAX_PAGES: u64 = 1;
/// The feature bit of a store that has a log, in which there may be commits.
const FEATURE_LOG: u64 = 2;
/// The feature bit of a store that has pins: pages that are free for others are not, then.
const FEATURE_PINS: u64 = 4;
const KNOWN_FEATURES: u64 = FEATURE_MAX_PAGES | FEATURE_LOG | FEATURE_PINS;

/// The most runs that a commit of one flush may have written.
pub(crate) const RUNS_MAX: usize = 64;
/// The most pages of a commit of one flush: recovery reads them.
pub(crate) const ONE_FLUSH_PAGES: usize = 1024;
/// The most free runs that a record holds.
pub(crate) const RECENT_MAX: usize = (LOG_OFFSET - RECENT_OFFSET) / RECENT_LEN;

const ROOT_LEN: usize = 48;
const _: () = assert!(ROOT_LEN == Root::LEN);

pub(crate) const MAGIC_OFFSET: usize = 0;
const VERSION_OFFSET: usize = MAGIC_OFFSET + 8;
const PAGE_SHIFT_OFFSET: usize = VERSION_OFFSET + 4;
const KIND_OFFSET: usize = PAGE_SHIFT_OFFSET + 1;
const EVIDENCE_FLAG_OFFSET: usize = KIND_OFFSET + 1;
const FEATURES_OFFSET: usize = EVIDENCE_FLAG_OFFSET + 2;
const TXN_OFFSET: usize = FEATURES_OFFSET + 8;
const END_OFFSET: usize = TXN_OFFSET + 8;
const MAX_PAGES_OFFSET: usize = END_OFFSET + 4;
const ID_OFFSET: usize = MAX_PAGES_OFFSET + 4;
const EVIDENCE_OFFSET: usize = ID_OFFSET + 16;
const READY_PAGES_OFFSET: usize = EVIDENCE_OFFSET + 24;
const PENDING_PAGES_OFFSET: usize = READY_PAGES_OFFSET + 8;
const CATALOG_OFFSET: usize = PENDING_PAGES_OFFSET + 8;
const READY_OFFSET: usize = CATALOG_OFFSET + ROOT_LEN;
const PENDING_OFFSET: usize = READY_OFFSET + ROOT_LEN;
const RUN_COUNT_OFFSET: usize = PENDING_OFFSET + ROOT_LEN;
const RECENT_COUNT_OFFSET: usize = RUN_COUNT_OFFSET + 4;
const DIGEST_OFFSET: usize = RECENT_COUNT_OFFSET + 4;
const CORE_SUM_OFFSET: usize = DIGEST_OFFSET + 8;
const RUNS_OFFSET: usize = CORE_SUM_OFFSET + 8;
const RUN_LEN: usize = 8;
const RECENT_OFFSET: usize = RUNS_OFFSET + RUNS_MAX * RUN_LEN;
const RECENT_LEN: usize = 24;
const LOG_OFFSET: usize = RECENT_OFFSET + 137 * RECENT_LEN;
const LOG_LEN: usize = 24;
/// Where there are pins, the root of their tree takes the place of the last recent free runs.
const PINS_OFFSET: usize = LOG_OFFSET - ROOT_LEN;
const RECENT_MAX_WITH_PINS: usize = (PINS_OFFSET - RECENT_OFFSET) / RECENT_LEN;
const SUM_OFFSET: usize = META_LEN - 4;
const _: () = assert!(LOG_OFFSET + LOG_LEN <= SUM_OFFSET);
/// What stands in the low bits of the log's place, which is a multiple of 4,096.
const LOG_CHAINED: u64 = 1;
const LOG_OPEN: u64 = 2;
const LOG_FLAGS: u64 = 4095;
/// No log comes this far.
const LOG_AT_END: u64 = 1 << 56;

/// Where LMDB keeps its own magic number, and that number.
const LMDB_MAGIC_AT: usize = 16;
const LMDB_MAGIC: u32 = 0xBEEF_C0DE;

/// Pages that are free, or will be when no snapshot from `birth` up to (but not including) `freed`
/// is in use any more. Both are 0 where no snapshot can hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeRun {
    pub(crate) run: Run,
    pub(crate) birth: u64,
    pub(crate) freed: u64,
}

/// What a record says about how its commit reached the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All pages were on stable storage before the record was written.
    Flushed,
    /// Pages and record were flushed together: the record counts if its pages have this digest.
    OneFlush {
        /// The pages, in the order of the digest.
        runs: Vec<Run>,
        /// CRC-64 of their bytes.
        digest: u64,
    },
    /// Nothing was flushed: the record counts while the system's memory is that of the evidence.
    Unsynced {
        /// See [`crate::os::DataFile::uptime_evidence`].
        evidence: Option<[u8; 24]>,
    },
}

impl Kind {
    /// That of a record which stands in for a flushed one should that be damaged: of one flush, in
    /// which no pages were written.
    pub(crate) const SPARE: Self = Self::OneFlush { runs: Vec::new(), digest: 0 };
}

/// Where the redo log stands, and how far it goes; see [`super::log`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPlace {
    /// The pages of the ring.
    pub(crate) run: Run,
    /// Where the next record goes, counted over all rounds of the ring: a multiple of 4,096.
    pub(crate) at: u64,
    /// The sum of the record before, which the next one has in it.
    pub(crate) sum: u64,
    /// Whether this commit and all since the durable one are in the log, or it is the durable one.
    pub(crate) chained: bool,
    /// Whether records may follow a commit that was flushed.
    pub(crate) open: bool,
}

/// How many pages the two trees of free space hold, and whose pages are held besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreePages {
    pub(crate) ready: u64,
    pub(crate) pending: u64,
    /// The tree of pins.
    pub(crate) pins: Root,
}

/// One commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) page_size: u32,
    pub(crate) id: [u8; 16],
    /// The number of the commit.
    pub(crate) txn: u64,
    /// The first page number that was never used.
    pub(crate) end: u32,
    /// The store may not extend beyond this page; 0: no such bound.
    pub(crate) max_pages: u32,
    pub(crate) catalog: Root,
    /// Free pages that anyone may take.
    pub(crate) ready: Root,
    /// Free pages that some snapshot may still use.
    pub(crate) pending: Root,
    pub(crate) free: FreePages,
    pub(crate) kind: Kind,
    /// Free runs that are in neither tree.
    pub(crate) recent: Vec<FreeRun>,
    pub(crate) log: Option<LogPlace>,
}

/// Why bytes are not a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No store wrote them.
    NotAStore(String),
    /// Another version did.
    Unsupported(String),
    /// A store wrote them, but they are damaged (or were never written completely). The number is
    /// the commit's, where that much can be read.
    Damaged {
        /// What is wrong.
        reason: &'static str,
        /// The commit's number, if the first part of the record is whole.
        txn: Option<u64>,
    },
}

impl Meta {
    /// The record of an empty store.
    pub(crate) fn empty(page_size: u32, id: [u8; 16]) -> Self {
        Self {
            page_size,
            id,
            txn: 0,
            end: FIRST_PAGE,
            max_pages: 0,
            catalog: Root::EMPTY,
            ready: Root::EMPTY,
            pending: Root::EMPTY,
            free: FreePages { ready: 0, pending: 0, pins: Root::EMPTY },
            kind: Kind::Flushed,
            recent: Vec::new(),
            log: None,
        }
    }

    /// The record of a flushed copy of this commit without a log, whose pages are free there.
    pub(crate) fn without_log(&self) -> Self {
        let mut meta = Self { kind: Kind::Flushed, log: None, ..self.clone() };
        if let Some(LogPlace { run, .. }) = self.log {
            meta.recent.push(FreeRun { run, birth: 0, freed: 0 });
        }
        meta
    }

    /// The length that a file with this commit must have at least.
    pub(crate) fn file_len(&self) -> u64 {
        u64::from(self.end) * u64::from(self.page_size)
    }

    /// The maximum size in bytes that the store was given.
    pub(crate) fn max_size(&self) -> Option<u64> {
        let bytes = u64::from(self.max_pages) * u64::from(self.page_size);
        (bytes > 0).then_some(bytes)
    }

    /// The record as it stands in meta page `slot`.
    pub(crate) fn encode(&self, slot: u32) -> Box<[u8]> {
        let mut bytes = vec![0; META_LEN].into_boxed_slice();
        self.encode_into(&mut bytes, slot);
        bytes
    }

    /// Puts the record as it stands in meta page `slot` into the first [`META_LEN`] bytes of `out`,
    /// whatever these were.
    pub(crate) fn encode_into(&self, out: &mut [u8], slot: u32) {
        let has_pins = !self.free.pins.page.is_none();
        let most = if has_pins { RECENT_MAX_WITH_PINS } else { RECENT_MAX };
        assert!(self.recent.len() <= most, "more recent free runs than a record holds");
        let Some(out) = out.first_chunk_mut::<META_LEN>() else {
            unreachable!("room for less than a record");
        };
        // The list of free runs is what most of a record is, and need not be cleared first.
        out[..RECENT_OFFSET].fill(0);
        // In pieces, as in `page::build::clear`.
        let behind = &mut out[RECENT_OFFSET + self.recent.len() * RECENT_LEN..];
        behind.chunks_mut(1024).for_each(|piece| piece.fill(0));
        out[MAGIC_OFFSET..VERSION_OFFSET].copy_from_slice(MAGIC);
        put_u32(out, VERSION_OFFSET, VERSION);
        out[PAGE_SHIFT_OFFSET] = self.page_size.trailing_zeros() as u8;
        put_u64(out, TXN_OFFSET, self.txn);
        put_u32(out, END_OFFSET, self.end);
        let feature = |is_used: bool, bit: u64| if is_used { bit } else { 0 };
        let features = feature(self.max_pages > 0, FEATURE_MAX_PAGES);
        let features = features | feature(self.log.is_some(), FEATURE_LOG);
        put_u64(out, FEATURES_OFFSET, features | feature(has_pins, FEATURE_PINS));
        put_u32(out, MAX_PAGES_OFFSET, self.max_pages);
        out[ID_OFFSET..EVIDENCE_OFFSET].copy_from_slice(&self.id);
        put_u64(out, READY_PAGES_OFFSET, self.free.ready);
        put_u64(out, PENDING_PAGES_OFFSET, self.free.pending);
        self.catalog.encode(&mut out[CATALOG_OFFSET..READY_OFFSET]);
        self.ready.encode(&mut out[READY_OFFSET..PENDING_OFFSET]);
        self.pending.encode(&mut out[PENDING_OFFSET..RUN_COUNT_OFFSET]);
        self.encode_kind(out);
        put_u32(out, RECENT_COUNT_OFFSET, self.recent.len() as u32);
        let (places, _) = out[RECENT_OFFSET..SUM_OFFSET].as_chunks_mut::<RECENT_LEN>();
        for (place, free) in places.iter_mut().zip(&self.recent) {
            put_run(place, 0, free.run);
            put_u64(place, 8, free.birth);
            put_u64(place, 16, free.freed);
        }
        if has_pins {
            self.free.pins.encode(&mut out[PINS_OFFSET..LOG_OFFSET]);
        }
        if let Some(log) = &self.log {
            put_run(out, LOG_OFFSET, log.run);
            let flag = |yes: bool, flag: u64| if yes { flag } else { 0 };
            let flags = flag(log.chained, LOG_CHAINED) | flag(log.open, LOG_OPEN);
            put_u64(out, LOG_OFFSET + 8, log.at | flags);
            put_u64(out, LOG_OFFSET + 16, log.sum);
        }
        put_sums(out, slot);
    }

    fn encode_kind(&self, out: &mut [u8; META_LEN]) {
        match &self.kind {
            Kind::Flushed => out[KIND_OFFSET] = 1,
            Kind::OneFlush { runs, digest } => {
                assert!(runs.len() <= RUNS_MAX, "more runs than a record holds");
                out[KIND_OFFSET] = 2;
                put_u32(out, RUN_COUNT_OFFSET, runs.len() as u32);
                put_u64(out, DIGEST_OFFSET, *digest);
                for (i, run) in runs.iter().enumerate() {
                    put_run(out, RUNS_OFFSET + i * RUN_LEN, *run);
                }
            }
            Kind::Unsynced { evidence } => {
                out[KIND_OFFSET] = 3;
                if let Some(evidence) = evidence {
                    out[EVIDENCE_FLAG_OFFSET] = 1;
                    out[EVIDENCE_OFFSET..READY_PAGES_OFFSET].copy_from_slice(evidence);
                }
            }
        }
    }

    /// Reads the record of meta page `slot`.
    ///
    /// # Errors
    /// What is wrong with the bytes. No bytes make it panic.
    pub(crate) fn decode(bytes: &[u8], slot: u32) -> Result<Self, Refusal> {
        if bytes.len() < META_LEN || bytes[MAGIC_OFFSET..VERSION_OFFSET] != MAGIC[..] {
            return Err(foreign(bytes));
        }
        let version = u32_at(bytes, VERSION_OFFSET);
        if version > VERSION_MAX {
            return Err(damaged("the format version of a meta record is none", None));
        }
        if version != VERSION {
            return Err(Refusal::Unsupported(format!(
                "its format version is {version}, this build reads version {VERSION}"
            )));
        }
        if core_sum(bytes, slot) != u32_at(bytes, CORE_SUM_OFFSET) {
            return Err(damaged("the checksum of a meta record is wrong", None));
        }
        let txn = u64_at(bytes, TXN_OFFSET);
        if rest_sum(bytes, slot) != u32_at(bytes, SUM_OFFSET) {
            return Err(damaged("a meta record was written in part only", Some(txn)));
        }
        let unknown = u64_at(bytes, FEATURES_OFFSET) & !KNOWN_FEATURES;
        if unknown != 0 {
            return Err(Refusal::Unsupported(format!(
                "it uses features that this build does not know (bits {unknown:#x})"
            )));
        }
        Self::decode_content(bytes)
            .ok_or_else(|| damaged("a meta record holds impossible values", Some(txn)))
    }

    /// The fields of a record whose checksums are right; `None` if no store wrote them.
    fn decode_content(bytes: &[u8]) -> Option<Self> {
        let shift = bytes[PAGE_SHIFT_OFFSET];
        let end = u32_at(bytes, END_OFFSET);
        let txn = u64_at(bytes, TXN_OFFSET);
        if !(12..=16).contains(&shift) || !(FIRST_PAGE..=PAGE_NO_END).contains(&end) {
            return None;
        }
        // Two bits of the shared words are the slot.
        if txn >= 1 << 62 {
            return None;
        }
        let recent_count = u32_at(bytes, RECENT_COUNT_OFFSET) as usize;
        let has_pins = u64_at(bytes, FEATURES_OFFSET) & FEATURE_PINS != 0;
        if recent_count > if has_pins { RECENT_MAX_WITH_PINS } else { RECENT_MAX } {
            return None;
        }
        let mut recent = Vec::with_capacity(recent_count);
        for i in 0..recent_count {
            let at = RECENT_OFFSET + i * RECENT_LEN;
            let run = run_at(bytes, at, end)?;
            let (birth, freed) = (u64_at(bytes, at + 8), u64_at(bytes, at + 16));
            if birth > freed || freed > txn {
                return None;
            }
            recent.push(FreeRun { run, birth, freed });
        }
        let free = FreePages {
            ready: u64_at(bytes, READY_PAGES_OFFSET),
            pending: u64_at(bytes, PENDING_PAGES_OFFSET),
            pins: if has_pins { root_at(bytes, PINS_OFFSET, end)? } else { Root::EMPTY },
        };
        if free.ready.max(free.pending) > u64::from(end) {
            return None;
        }
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[ID_OFFSET..EVIDENCE_OFFSET]);
        Some(Self {
            page_size: 1 << shift,
            id,
            txn,
            end,
            max_pages: match u64_at(bytes, FEATURES_OFFSET) & FEATURE_MAX_PAGES {
                0 => 0,
                _ => u32_at(bytes, MAX_PAGES_OFFSET),
            },
            catalog: root_at(bytes, CATALOG_OFFSET, end)?,
            ready: root_at(bytes, READY_OFFSET, end)?,
            pending: root_at(bytes, PENDING_OFFSET, end)?,
            free,
            kind: decode_kind(bytes, end)?,
            recent,
            log: decode_log(bytes, end)?,
        })
    }
}

fn core_sum(bytes: &[u8], slot: u32) -> u32 {
    crc32c(u64::from(slot), &bytes[..CORE_SUM_OFFSET])
}

fn rest_sum(bytes: &[u8], slot: u32) -> u32 {
    let core = u64::from(u32_at(bytes, CORE_SUM_OFFSET));
    crc32c(u64::from(slot) << 32 | core, &bytes[CORE_SUM_OFFSET + 4..SUM_OFFSET])
}

fn put_sums(out: &mut [u8], slot: u32) {
    let core = core_sum(out, slot);
    put_u32(out, CORE_SUM_OFFSET, core);
    let rest = rest_sum(out, slot);
    put_u32(out, SUM_OFFSET, rest);
}

fn decode_kind(bytes: &[u8], end: u32) -> Option<Kind> {
    match bytes[KIND_OFFSET] {
        1 => Some(Kind::Flushed),
        2 => {
            let count = u32_at(bytes, RUN_COUNT_OFFSET) as usize;
            if count > RUNS_MAX {
                return None;
            }
            let runs = (0..count).map(|i| run_at(bytes, RUNS_OFFSET + i * RUN_LEN, end));
            let runs = runs.collect::<Option<Vec<_>>>()?;
            let pages: u64 = runs.iter().map(|run| u64::from(run.len)).sum();
            if pages > ONE_FLUSH_PAGES as u64 {
                return None;
            }
            Some(Kind::OneFlush { runs, digest: u64_at(bytes, DIGEST_OFFSET) })
        }
        3 => {
            let mut evidence = [0; 24];
            evidence.copy_from_slice(&bytes[EVIDENCE_OFFSET..READY_PAGES_OFFSET]);
            let present = bytes[EVIDENCE_FLAG_OFFSET] == 1;
            Some(Kind::Unsynced { evidence: present.then_some(evidence) })
        }
        _ => None,
    }
}

/// `None` if no store wrote it, `Some(None)` if there is no log.
fn decode_log(bytes: &[u8], end: u32) -> Option<Option<LogPlace>> {
    if u64_at(bytes, FEATURES_OFFSET) & FEATURE_LOG == 0 {
        return Some(None);
    }
    let run = run_at(bytes, LOG_OFFSET, end)?;
    let place = u64_at(bytes, LOG_OFFSET + 8);
    let (at, flags) = (place & !LOG_FLAGS, place & LOG_FLAGS);
    if at >= LOG_AT_END || flags > LOG_CHAINED | LOG_OPEN {
        return None;
    }
    let sum = u64_at(bytes, LOG_OFFSET + 16);
    let (chained, open) = (flags & LOG_CHAINED != 0, flags & LOG_OPEN != 0);
    Some(Some(LogPlace { run, at, sum, chained, open }))
}

fn put_run(out: &mut [u8], at: usize, run: Run) {
    put_u32(out, at, run.start);
    put_u32(out, at + 4, run.len);
}

/// A run that lies between the meta pages and `end`.
fn run_at(bytes: &[u8], at: usize, end: u32) -> Option<Run> {
    let run = Run { start: u32_at(bytes, at), len: u32_at(bytes, at + 4) };
    let behind = run.start.checked_add(run.len)?;
    (run.start >= FIRST_PAGE && run.len > 0 && behind <= end).then_some(run)
}

/// A root whose page lies between the meta pages and `end`, or of an empty tree.
fn root_at(bytes: &[u8], at: usize, end: u32) -> Option<Root> {
    let root = Root::decode(&bytes[at..at + Root::LEN])?;
    (root.page.is_none() || (FIRST_PAGE..end).contains(&root.page.0)).then_some(root)
}

fn damaged(reason: &'static str, txn: Option<u64>) -> Refusal {
    Refusal::Damaged { reason, txn }
}

/// What a file is whose first bytes are not ours.
fn foreign(bytes: &[u8]) -> Refusal {
    let lmdb = bytes.len() >= LMDB_MAGIC_AT + 4
        && [u32_at(bytes, LMDB_MAGIC_AT), u32_at(bytes, LMDB_MAGIC_AT).swap_bytes()]
            .contains(&LMDB_MAGIC);
    Refusal::NotAStore(if lmdb {
        "it is an LMDB data file; `hedgerow convert --from-lmdb` makes a store of it".into()
    } else if bytes.is_empty() {
        "it is empty; create a store under a new name, or remove it first".into()
    } else if bytes.len() < META_LEN {
        format!("it has {} bytes, less than the smallest store; check the path", bytes.len())
    } else if bytes.iter().all(|byte| *byte == 0) {
        "it begins with zeros; if its creation was cut off, remove it and create it anew".into()
    } else {
        "it does not begin with a meta record of a store; check the path".into()
    })
}

/// A commit as transactions see it.
pub(crate) struct SnapshotMeta {
    pub(crate) meta: Meta,
    /// The meta page that held it when it was read or written.
    pub(crate) slot: u32,
}

#[cfg(test)]
#[path = "meta/tests.rs"]
mod tests;
