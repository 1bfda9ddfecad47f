//! What the redo log holds, for a salvage: its records are replayed as at an opening, but the pages
//! that they make stand in a file of their own, over the old one, which is only read.

use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Old, has_catalog};
use crate::os::{Access, DataFile, Map, Open, RealSystem, System};
use crate::sync::{Mutex, locked};
use crate::tree::log::replay::{followed, redo, redo_rest};
use crate::tree::meta::{Kind, LogPlace, Meta};
use crate::tree::{LogReport, Loss};
use crate::{Error, Result};

/// A file with some pages in place of those of another one.
struct Layered {
    below: Arc<dyn DataFile>,
    /// These pages, each at its place.
    above: Arc<dyn DataFile>,
    page_size: u64,
    pages: Mutex<BTreeSet<u64>>,
}

impl Layered {
    /// Makes a file at `path` for the pages, which has no name any more when this returns.
    fn over(below: &Arc<dyn DataFile>, page_size: u32, path: &Path) -> Result<Self> {
        let above = RealSystem.open_data(path, Open::Create, 0o600);
        let above = above.map_err(|e| Error::io("make", path, e))?;
        RealSystem.remove(path).map_err(|e| Error::io("remove", path, e))?;
        let below = Arc::clone(below);
        Ok(Self { below, above, page_size: page_size.into(), pages: Mutex::new(BTreeSet::new()) })
    }
}

impl DataFile for Layered {
    fn len(&self) -> io::Result<u64> {
        let last = locked(&self.pages).last().map_or(0, |last| (last + 1) * self.page_size);
        Ok(self.below.len()?.max(last))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let pages = locked(&self.pages);
        let end = (offset + buffer.len() as u64).div_ceil(self.page_size);
        if pages.range(offset / self.page_size..end).next().is_none() {
            return self.below.read_at(buffer, offset);
        }
        let (mut rest, mut at) = (buffer, offset);
        while !rest.is_empty() {
            let len = (self.page_size - at % self.page_size).min(rest.len() as u64);
            let (part, after) = rest.split_at_mut(len as usize);
            let is_made = pages.contains(&(at / self.page_size));
            let file = if is_made { &self.above } else { &self.below };
            file.read_at(part, at)?;
            (rest, at) = (after, at + len);
        }
        Ok(())
    }

    /// Takes whole pages only.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.above.write_at(parts, offset)?;
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let first = offset / self.page_size;
        locked(&self.pages).extend(first..first + len.div_ceil(self.page_size));
        Ok(())
    }

    fn start_writeback(&self, _: u64, _: u64) {}

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn map(&self, _: u64, _: Access) -> io::Result<Option<Map>> {
        Ok(None)
    }

    fn uptime_evidence(&self) -> Option<[u8; 24]> {
        None
    }
}

/// The old file with pages of the log in place, and the commit that these make.
pub(super) struct Made {
    pub(super) file: Arc<dyn DataFile>,
    pub(super) newest: Meta,
}

/// What the log makes of the old file.
#[derive(Default)]
pub(super) struct Replayed {
    /// What a normal opening would find, if there is anything: the durable commit, or the last one
    /// of those that follow it in the log.
    pub(super) opened: Option<Made>,
    /// Newer commits that stand in the log after a gap.
    pub(super) rest: Option<Made>,
    pub(super) report: Option<LogReport>,
    pub(super) loss: Option<Loss>,
}

/// Replays the log of the old file. `scratch` is a path for a file.
pub(super) fn replayed(old: &Old, scratch: &Path) -> Result<Replayed> {
    let mut all = Replayed::default();
    let mut report = LogReport::default();
    let mut failure = None;
    if let Some(trusted) = &old.trusted {
        let mut file = Arc::clone(&old.file.file);
        let mut newest = trusted.clone();
        if let Some(place) = followed(trusted) {
            let layered = Layered::over(&file, trusted.page_size, scratch)?;
            let redone = redo(&layered, &old.file.path, trusted, place);
            file = Arc::new(layered);
            (report.records, failure, newest) = (redone.records, redone.failure, redone.newest);
        }
        all.opened = Some(Made { file, newest });
    }
    if let Some(place) = ring(old) {
        let (made, later) = rest(old, &all, place, scratch)?;
        report.unused = later;
        if let Some((made, records)) = made {
            (report.apart, report.unused) = (records, later.saturating_sub(records));
            all.rest = Some(made);
        }
    }
    let newest = all.rest.iter().chain(&all.opened).next();
    report.commit = newest.map_or(0, |made| made.newest.txn);
    let is_damaged = failure.is_some() || report.apart + report.unused > 0;
    if is_damaged {
        all.loss = Some(loss(&report, failure, all.opened.as_ref()));
    }
    all.report = (is_damaged || report.records > 0).then_some(report);
    Ok(all)
}

/// The ring of the log that may hold records after a gap: not where the newest commit is known from
/// the system's cache, which no log precedes.
fn ring(old: &Old) -> Option<LogPlace> {
    let is_cached = |meta: &Meta| matches!(meta.kind, Kind::Unsynced { .. });
    match &old.trusted {
        Some(trusted) if is_cached(trusted) => None,
        _ => old.metas.iter().find_map(|meta| meta.log),
    }
}

/// Replays what stands after a gap, if it makes a commit whose tables can be found: that, and the
/// number of its records; also how many whole records there are.
fn rest(
    old: &Old,
    all: &Replayed,
    place: LogPlace,
    scratch: &Path,
) -> Result<(Option<(Made, u64)>, u64)> {
    let Some(any) = all.opened.as_ref().map(|made| &made.newest).or(old.metas.first()) else {
        return Ok((None, 0));
    };
    // Without a commit that counts, every record may be of use.
    let txn = all.opened.as_ref().map_or(0, |made| made.newest.txn);
    let newest = Meta { txn, ..any.clone() };
    let below = all.opened.as_ref().map_or(&old.file.file, |made| &made.file);
    let layered = Layered::over(below, newest.page_size, scratch)?;
    let Some((redone, later)) = redo_rest(&layered, &old.file.path, &newest, place) else {
        return Ok((None, 0));
    };
    let made = Made { file: Arc::new(layered), newest: redone.newest };
    let is_of_use = has_catalog(&old.with(&made.file), &made.newest)?;
    Ok((is_of_use.then_some((made, redone.records)), later))
}

/// What is to be said of a log that could not be replayed as one.
fn loss(report: &LogReport, failure: Option<Error>, opened: Option<&Made>) -> Loss {
    let after = opened
        .map_or("no commit that counts".to_owned(), |made| format!("commit {}", made.newest.txn));
    let why = failure.map_or(String::new(), |error| format!(": {error}"));
    let (apart, unused) = (report.apart, report.unused);
    Loss::of_store(&format!(
        "the redo log is damaged after {after}{why}; of later commits in it {apart} were used as \
         far as their pages fit, {unused} were not"
    ))
}

/// Where the file with the pages of the log is made.
pub(super) fn scratch_of(new: &Path) -> PathBuf {
    let mut path = new.as_os_str().to_owned();
    path.push("-redo");
    path.into()
}
