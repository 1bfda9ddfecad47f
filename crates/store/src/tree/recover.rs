//! Recovery: which of the three meta records of a file is the newest commit, and which is known to
//! be on stable storage. No tree is read here, and no log replayed (`log` does that where it is
//! needed), so that the choice costs the same for every size. [`choose`] decides over data; the
//! rest reads the data.
//!
//! # Why the choice is right
//!
//! The record of the last durable commit is never overwritten before a newer durable one is on
//! stable storage, and no page of its snapshot is. So there is always a record that can be taken,
//! and everything newer may be refused on the smallest doubt:
//!
//! - *flushed*: its pages were on stable storage before it was written. It is taken.
//! - *one flush*: record and pages were handed to the disk together, which may have kept any part
//!   of them. Its digest says whether all pages of it are there. All pages it refers to and did not
//!   write itself belong to commits that were durable before it.
//! - *unsynced*: it is taken only while the system's memory, in which everything written still
//!   stands, is the one it was written in.
//!
//! A record that is refused may be valid in form and have a greater number than the one taken; and
//! one that is taken may have been written by a process that died before its flush, so that it is
//! still on its way to the disk. Therefore the next writer flushes the file and removes what was
//! refused before it reuses pages (see `commit`), unless the last process that had the store open
//! has closed it ([`is_settled`]). No number is given twice.

use std::path::Path;

use super::meta::{Kind, LogPlace, META_LEN, Meta, Refusal};
use super::page_ref::Run;
use crate::canary::{Bug, is_planted};
use crate::checksum::Crc64;
use crate::coding::u64_at;
use crate::os::DataFile;
use crate::{Error, Place, Result};

/// The number of meta pages.
pub(crate) const META_SLOTS: u32 = 3;

/// What the meta pages of a file hold.
pub(crate) struct Found {
    pub(crate) metas: [Option<Meta>; META_SLOTS as usize],
    pub(crate) page_size: u32,
    /// The greatest commit number in any record, also in damaged ones.
    pub(crate) highest: u64,
}

impl Found {
    /// The store's id as far as a shared word holds it; 0 if no record can be read.
    pub(crate) fn id_word(&self) -> u64 {
        let meta = self.metas.iter().flatten().next();
        meta.map_or(0, |meta| u64_at(&meta.id, 0) | 1)
    }

    /// Whether a file of this length is what is left of a store whose making was cut off: its
    /// records tell of one without entries, and it is shorter than even that is.
    pub(crate) fn is_unmade(&self, len: u64) -> bool {
        let empty = u64::from(META_SLOTS) * u64::from(self.page_size);
        len < empty && self.metas.iter().flatten().all(|meta| meta.file_len() == empty)
    }
}

/// Which records count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The meta page of the newest commit.
    pub(crate) latest: u32,
    /// The meta page of the newest commit that was flushed, or looks as if it was: after the death
    /// of a process the record may be in the system's memory only.
    pub(crate) durable: u32,
}

/// Chooses among the records of a file. `evidence` is the system's present one, `verify` says
/// whether the pages of a commit of one flush have its digest. `None` if no record can be taken.
pub(crate) fn choose(
    metas: &[Option<Meta>; META_SLOTS as usize],
    evidence: Option<[u8; 24]>,
    verify: &mut dyn FnMut(&Meta) -> bool,
) -> Option<Choice> {
    let mut candidates: Vec<(u32, &Meta)> =
        (0..).zip(metas).filter_map(|(slot, meta)| Some((slot, meta.as_ref()?))).collect();
    // Of two records of one commit the flushed one is a later copy of the other, and of two flushed
    // ones that which shuts the log.
    let shuts = |meta: &Meta| meta.log.is_some_and(|place| !place.open);
    let rank = |meta: &Meta| (meta.txn, meta.kind == Kind::Flushed, shuts(meta));
    candidates.sort_by_key(|(_, meta)| std::cmp::Reverse(rank(meta)));
    let mut latest = None;
    for (slot, meta) in &candidates {
        let durable = match &meta.kind {
            Kind::Flushed => true,
            Kind::OneFlush { .. } => verify(meta),
            Kind::Unsynced { evidence: known } => {
                if latest.is_none() && known.is_some() && *known == evidence {
                    latest = Some(*slot);
                }
                false
            }
        };
        if durable {
            let latest = latest.unwrap_or(*slot);
            // The copy may be in the system's memory only; the original was flushed before it.
            let original = candidates.iter().find(|(_, other)| is_copy(meta, other));
            let durable = original.map_or(*slot, |(at, _)| *at);
            return Some(Choice { latest, durable });
        }
    }
    None
}

/// Whether one record is the copy of the other, durable one that was made when the store was
/// closed: it is flushed where the original was of one flush, and it shuts the log where that was
/// open.
pub(crate) fn is_copy(copy: &Meta, original: &Meta) -> bool {
    let is_later = match original.kind {
        Kind::OneFlush { .. } => original.kind != Kind::SPARE,
        Kind::Flushed => copy.log != original.log,
        Kind::Unsynced { .. } => false,
    };
    let shut = original.log.map(|place| LogPlace { open: false, ..place });
    is_later && copy.txn == original.txn && copy.kind == Kind::Flushed && copy.log == shut
}

/// Whether one record is the spare of the other, flushed one that was made when the store was
/// closed.
pub(crate) fn is_spare(spare: &Meta, original: &Meta) -> bool {
    spare.kind == Kind::SPARE && original.kind == Kind::Flushed && spare.txn == original.txn
}

/// Whether the file is as a process left it that closed the store and was the last one: then
/// nothing in it is to be flushed or removed before it is written to. The newest record is the copy
/// that was made at closing, or the original of a spare; it says that all of its commit is on
/// stable storage, and the other one is there, too. Both stay until a newer commit is durable.
///
/// Nor is any slot empty: from one a record was taken back whose flush failed, and until the next
/// flush the disk may still have it.
pub(crate) fn is_settled(found: &Found, choice: Choice) -> bool {
    if found.metas.iter().any(Option::is_none) {
        return false;
    }
    let record = |slot: u32| found.metas[slot as usize].as_ref();
    match (record(choice.latest), record(choice.durable)) {
        (Some(newest), Some(durable)) if newest.txn == found.highest => {
            let has_spare = || found.metas.iter().flatten().any(|meta| is_spare(meta, newest));
            is_copy(newest, durable) || newest == durable && has_spare()
        }
        _ => false,
    }
}

/// Reads the meta pages.
///
/// # Errors
/// [`Error::NotAStore`], [`Error::Unsupported`] or [`Error::Corrupt`] if none of them is usable.
pub(crate) fn read_metas(file: &dyn DataFile, path: &Path) -> Result<Found> {
    let len = file.len().map_err(|e| Error::io("read the length of", path, e))?;
    let read = |slot: u32, page_size: u32| -> Result<Result<Meta, Refusal>> {
        let offset = u64::from(slot) * u64::from(page_size);
        let wanted = len.saturating_sub(offset).min(META_LEN as u64) as usize;
        let mut bytes = vec![0; wanted];
        file.read_at(&mut bytes, offset).map_err(|e| Error::io("read", path, e))?;
        Ok(Meta::decode(&bytes, slot))
    };
    let first = read(0, 4096)?;
    if let Err(Refusal::Unsupported(reason)) = first {
        return Err(Error::Unsupported { path: path.into(), reason });
    }
    let page_size = match &first {
        Ok(meta) => meta.page_size,
        Err(refusal) => match probe_page_size(&read)? {
            Some(page_size) => page_size,
            None => return Err(refused(refusal.clone(), path)),
        },
    };
    let mut found = Found { metas: [None, None, None], page_size, highest: 0 };
    for (slot, place) in (0..META_SLOTS).zip(&mut found.metas) {
        match read(slot, page_size)? {
            Ok(meta) if meta.page_size == page_size => {
                found.highest = found.highest.max(meta.txn);
                *place = Some(meta);
            }
            Err(Refusal::Damaged { txn: Some(txn), .. }) => found.highest = found.highest.max(txn),
            _ => {}
        }
    }
    Ok(found)
}

/// Finds the page size by the other two records where the first one is damaged.
fn probe_page_size(
    read: &dyn Fn(u32, u32) -> Result<Result<Meta, Refusal>>,
) -> Result<Option<u32>> {
    for shift in 12..=16 {
        for slot in 1..META_SLOTS {
            if let Ok(meta) = read(slot, 1 << shift)?
                && meta.page_size == 1 << shift
            {
                return Ok(Some(meta.page_size));
            }
        }
    }
    Ok(None)
}

fn refused(refusal: Refusal, path: &Path) -> Error {
    let path = path.to_path_buf();
    match refusal {
        Refusal::NotAStore(reason) => Error::NotAStore { path, reason },
        Refusal::Unsupported(reason) => Error::Unsupported { path, reason },
        Refusal::Damaged { reason, .. } => Error::Corrupt { path, place: Place::Page(0), reason },
    }
}

/// What the first opener of a file does: reads the meta pages and chooses.
pub(crate) fn recover(file: &dyn DataFile, found: &Found, path: &Path) -> Result<Choice> {
    let len = file.len().map_err(|e| Error::io("read the length of", path, e))?;
    let mut verify = |meta: &Meta| match &meta.kind {
        // The length is flushed with the pages: free pages at the end may be missing.
        Kind::OneFlush { runs, digest } => {
            meta.file_len() <= len
                && (digest_of(file, runs, found.page_size).is_some_and(|sum| sum == *digest)
                    || is_planted(Bug::ChecksumNotChecked))
        }
        _ => false,
    };
    let choice = choose(&found.metas, file.uptime_evidence(), &mut verify);
    let reason = "none of its three meta records can be used";
    let choice = choice.ok_or_else(|| whole_file(path, reason))?;
    if found.is_unmade(len) {
        let reason = "its making was cut off and nothing is in it; create it anew, or remove it";
        return Err(whole_file(path, reason));
    }
    for slot in [choice.latest, choice.durable] {
        if found.metas[slot as usize].as_ref().is_some_and(|meta| meta.file_len() > len) {
            return Err(whole_file(path, "it is shorter than its newest commit says; cut off?"));
        }
    }
    Ok(choice)
}

fn whole_file(path: &Path, reason: &'static str) -> Error {
    Error::Corrupt { path: path.into(), place: Place::File, reason }
}

/// The digest of runs as they stand in the file; `None` if they cannot be read.
fn digest_of(file: &dyn DataFile, runs: &[Run], page_size: u32) -> Option<u64> {
    let mut digest = Crc64::new();
    let mut page = vec![0; page_size as usize];
    for run in runs {
        for no in run.start..run.start + run.len {
            file.read_at(&mut page, u64::from(no) * u64::from(page_size)).ok()?;
            digest.update(&page);
        }
    }
    Some(digest.finish())
}

#[cfg(test)]
mod tests {
    //! The planner, case by case.

    use super::*;

    const HERE: [u8; 24] = [1; 24];

    fn meta(txn: u64, kind: Kind) -> Option<Meta> {
        Some(Meta { txn, kind, ..Meta::empty(4096, [0; 16]) })
    }

    fn flushed(txn: u64) -> Option<Meta> {
        meta(txn, Kind::Flushed)
    }

    /// The digest says in these tests whether verification succeeds.
    fn one_flush(txn: u64, whole: bool) -> Option<Meta> {
        meta(txn, Kind::OneFlush { runs: Vec::new(), digest: if whole { 1 } else { 2 } })
    }

    fn spare(txn: u64) -> Option<Meta> {
        meta(txn, Kind::SPARE)
    }

    fn unsynced(txn: u64, evidence: Option<[u8; 24]>) -> Option<Meta> {
        meta(txn, Kind::Unsynced { evidence })
    }

    fn chosen(metas: [Option<Meta>; 3]) -> Option<(u32, u32)> {
        let mut verify = |m: &Meta| matches!(m.kind, Kind::OneFlush { digest: 0 | 1, .. });
        let choice = choose(&metas, Some(HERE), &mut verify)?;
        Some((choice.latest, choice.durable))
    }

    #[test]
    fn a_spare_has_the_digest_of_no_pages() {
        let Kind::OneFlush { runs, digest } = Kind::SPARE else { panic!("another kind") };
        assert_eq!((runs.len(), digest), (0, Crc64::new().finish()));
    }

    /// Hunts for a record that was taken back, but that the disk still has when the power is cut:
    /// an opening that flushes nothing must not find its place empty.
    #[test]
    fn a_closed_store_has_three_records() {
        let settled = |metas: [Option<Meta>; 3]| {
            let found = Found { metas, page_size: 4096, highest: 6 };
            is_settled(&found, Choice { latest: 0, durable: 0 })
        };
        assert!(settled([flushed(6), flushed(5), spare(6)]));
        assert!(!settled([flushed(6), None, spare(6)]));
        assert!(!settled([flushed(6), flushed(5), flushed(4)]));
    }

    #[test]
    fn the_newest_record_that_counts_is_taken() {
        let here = Some(HERE);
        let away = Some([2; 24]);
        let cases = [
            ("only one", [flushed(4), None, None], Some((0, 0))),
            ("newest flushed", [flushed(4), flushed(6), flushed(5)], Some((1, 1))),
            ("whole one flush", [flushed(4), one_flush(5, true), None], Some((1, 1))),
            ("torn one flush", [flushed(4), one_flush(5, false), None], Some((0, 0))),
            ("unsynced, same uptime", [flushed(4), unsynced(5, here), None], Some((1, 0))),
            ("unsynced, restarted", [flushed(4), unsynced(5, away), None], Some((0, 0))),
            ("unsynced, no evidence", [flushed(4), unsynced(5, None), None], Some((0, 0))),
            (
                "two unsynced: the older one no longer counts",
                [flushed(4), unsynced(5, here), unsynced(6, here)],
                Some((2, 0)),
            ),
            (
                "unsynced above a torn one flush",
                [flushed(4), one_flush(5, false), unsynced(6, here)],
                Some((2, 0)),
            ),
            (
                "a flushed copy of an unsynced record",
                [flushed(4), unsynced(6, here), flushed(6)],
                Some((2, 2)),
            ),
            (
                "a flushed copy of a record of one flush",
                [flushed(6), one_flush(6, true), flushed(5)],
                Some((0, 1)),
            ),
            (
                "a flushed copy below the newest",
                [flushed(4), flushed(5), unsynced(6, here)],
                Some((2, 1)),
            ),
            ("a spare of a flushed one", [flushed(6), None, spare(6)], Some((0, 0))),
            ("a spare alone", [flushed(4), None, spare(6)], Some((2, 2))),
            ("unsynced without a base", [None, unsynced(5, here), None], None),
            ("nothing", [None, None, None], None),
        ];
        for (name, metas, expected) in cases {
            assert_eq!(chosen(metas), expected, "{name}");
        }
    }
}
