//! Verifying a whole store: every page in use, every order and counter, and that each page is used
//! once or free. Works on a pinned snapshot, beside readers and writers, and trusts no byte: what
//! it finds it reports, and a damaged page never stops it. What holds of one tree is checked in
//! `walk`.

mod set;
mod walk;

pub(crate) use set::PageSet;

use super::catalog::Stored;
use super::free::{Pinned, is_held, pending_entry, pins_of, ready_entry};
use super::meta::{FreeRun, META_LEN, Meta};
use super::order::Form;
use super::page_ref::{FIRST_PAGE, PageNo, Run};
use super::pages::PageFile;
use super::recover::META_SLOTS;
use super::store::Inner;
use super::tree::Root;
use super::{CheckReport, ReadTxn, Store};
use crate::{Error, Result};
use walk::{Walk, Wanted};

/// At most this many problems are listed.
const PROBLEMS_MAX: usize = 1000;
/// Progress is reported after every this many pages.
const PROGRESS_PAGES: u64 = 256;

impl Store {
    /// Verifies every page in use: checksums, structure, orders, counters, and that each page is
    /// used once or free. Looks at the newest commit; others may read and write at the same time.
    /// The order of a table with custom orders is not checked, since their functions are not known
    /// here.
    ///
    /// `progress(done_pages, all_pages)` is called from time to time.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; damage is no error but stands in the report.
    pub fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<CheckReport> {
        let txn = self.begin_read()?;
        let meta = &txn.meta.meta;
        let mut checker = Checker::new(&self.inner.pages, meta, progress);
        for slot in 0..META_SLOTS {
            checker.meta_page(&self.inner, slot)?;
        }
        checker.trees(meta)?;
        checker.log(meta);
        checker.finish();
        checker.pins(self, &txn)?;
        Ok(checker.report)
    }
}

/// An error that names the first damaged page of a snapshot, if there is one.
pub(super) fn expect_sound(txn: &ReadTxn) -> Result<()> {
    let file = &txn.pages.file;
    let mut silent = |_: u64, _: u64| {};
    let mut checker = Checker::new(file, &txn.meta.meta, &mut silent);
    checker.trees(&txn.meta.meta)?;
    let reason = "damaged, or of a damaged part; `check` names all that is wrong";
    match checker.first_damaged {
        Some(no) => Err(file.corrupt(no, reason)),
        None => Ok(()),
    }
}

/// What one check knows.
struct Checker<'s> {
    file: &'s PageFile,
    end: PageNo,
    /// The number of the commit that is checked.
    txn: u64,
    used: PageSet,
    free: PageSet,
    /// The free runs; of those that are free for everyone both numbers are 0.
    runs: Vec<FreeRun>,
    /// Some pages could not be read or followed: what lies below them was not seen.
    has_gaps: bool,
    first_damaged: Option<PageNo>,
    report: CheckReport,
    progress: &'s mut dyn FnMut(u64, u64),
}

impl<'s> Checker<'s> {
    fn new(file: &'s PageFile, meta: &Meta, progress: &'s mut dyn FnMut(u64, u64)) -> Self {
        let mut used = PageSet::new(meta.end);
        used.insert_run(Run { start: 0, len: FIRST_PAGE });
        let free = PageSet::new(meta.end);
        let report = CheckReport::default();
        let (end, txn) = (meta.end, meta.txn);
        let (runs, has_gaps, first_damaged) = (Vec::new(), false, None);
        Self { file, end, txn, used, free, runs, has_gaps, first_damaged, report, progress }
    }

    /// Notes what is wrong with a page.
    fn problem(&mut self, whose: &str, no: PageNo, what: impl std::fmt::Display) {
        self.first_damaged.get_or_insert(no);
        if self.report.problems.len() < PROBLEMS_MAX {
            self.report.problems.push(format!("page {no} ({whose}): {what}"));
        }
    }

    /// Notes what is wrong with the store as a whole.
    fn general(&mut self, what: String) {
        if self.report.problems.len() < PROBLEMS_MAX {
            self.report.problems.push(what);
        }
    }

    /// An error is a problem to report, unless it is an interruption.
    fn failed(&mut self, whose: &str, no: PageNo, error: Error) -> Result<()> {
        match error {
            Error::Interrupted => return Err(error),
            Error::Corrupt { place, reason, .. } => {
                let page = match place {
                    crate::Place::Page(page) => PageNo::try_from(page).unwrap_or(no),
                    crate::Place::File | crate::Place::Byte(_) => no,
                };
                self.problem(whose, page, reason);
            }
            other => self.problem(whose, no, other),
        }
        self.has_gaps = true;
        Ok(())
    }

    /// Notes the use of a run; false if that cannot be.
    fn claim(&mut self, whose: &str, run: Run, used_by: PageNo) -> bool {
        let end = u64::from(run.start) + u64::from(run.len);
        if run.start < FIRST_PAGE || end > u64::from(self.end) {
            self.problem(
                whose,
                used_by,
                format_args!("refers to page {}, which does not exist", run.start),
            );
        } else if let Some(no) = self.used.insert_run(run) {
            self.problem(whose, no, format_args!("used twice, the second time by page {used_by}"));
        } else {
            self.told(u64::from(run.len));
            return true;
        }
        self.has_gaps = true;
        false
    }

    /// Counts pages that were read.
    fn told(&mut self, pages: u64) {
        let before = self.report.pages / PROGRESS_PAGES;
        self.report.pages += pages;
        if self.report.pages / PROGRESS_PAGES > before {
            (self.progress)(self.report.pages, u64::from(self.end));
        }
    }

    /// Checks a meta page: its record, and that nothing follows it. A record that is not in use may
    /// be damaged in a sound store: the power may have failed while it was written.
    fn meta_page(&mut self, store: &Inner, slot: u32) -> Result<()> {
        let whose = "meta record";
        let is_in_use = store.is_slot_in_use(slot);
        let mut bytes = vec![0; self.file.page_size()];
        if let Err(error) = self.file.read_run(Run { start: slot, len: 1 }, &mut bytes) {
            return self.failed(whose, slot, error);
        }
        let (record, behind) = bytes.split_at(META_LEN);
        if behind.iter().any(|byte| *byte != 0) {
            self.problem(whose, slot, "something stands behind its record");
        }
        let is_whole = Meta::decode(record, slot)
            .is_ok_and(|meta| meta.page_size as usize == self.file.page_size());
        // Others may be writing it just now.
        if is_whole || !self.is_still(&bytes, slot) {
            return Ok(());
        }
        if is_in_use && store.is_slot_in_use(slot) {
            self.problem(whose, slot, "its record is damaged");
        } else if record.iter().any(|byte| *byte != 0) {
            let what = "it holds no whole record: damaged, or cut off while it was written; \
                        nothing depends on it, and one of the next commits writes it anew";
            self.report.notes.push(format!("page {slot} ({whose}): {what}"));
        }
        Ok(())
    }

    /// Whether a page holds these bytes now as before.
    fn is_still(&self, bytes: &[u8], no: PageNo) -> bool {
        let mut again = vec![0; bytes.len()];
        self.file.read_run(Run { start: no, len: 1 }, &mut again).is_ok() && again == bytes
    }

    /// Walks all trees and notes what they say is free.
    fn trees(&mut self, meta: &Meta) -> Result<()> {
        let mut tables = Vec::new();
        self.own_tree("the catalog", &meta.catalog, &mut |name, record| {
            tables.push((name.to_vec(), record.to_vec()));
            true
        })?;
        for (name, record) in tables {
            self.table(&name, &record)?;
        }
        let mut ready = Vec::new();
        self.own_tree("the table of free pages", &meta.ready, &mut |key, value| {
            ready_entry(key, value).map(|run| ready.push(run)).is_some()
        })?;
        let mut pending = Vec::new();
        self.own_tree("the table of pages that will be free", &meta.pending, &mut |key, value| {
            pending_entry(key, value).map(|(_, runs)| pending.extend(runs)).is_some()
        })?;
        self.own_tree("the tree of pins", &meta.free.pins, &mut |_, record| {
            Pinned::decode(record).is_some()
        })?;
        self.free_total("ready", &ready, meta.free.ready);
        let runs: Vec<Run> = pending.iter().map(|free| free.run).collect();
        self.free_total("pending", &runs, meta.free.pending);
        let open = ready.into_iter().map(|run| FreeRun { run, birth: 0, freed: 0 });
        self.runs.extend(open.chain(meta.recent.iter().copied()));
        for at in 0..self.runs.len() {
            self.free_run(self.runs[at].run);
        }
        for free in pending {
            self.pending_run(&free);
            self.runs.push(free);
        }
        Ok(())
    }

    /// Walks the commits that have pins, and makes sure that none of their pages is free for
    /// others.
    fn pins(&mut self, store: &Store, newest: &ReadTxn) -> Result<()> {
        // A damaged tree of pins is reported already.
        let pins = pins_of(&newest.pages, newest.meta.meta.free.pins).unwrap_or_default();
        for (name, pinned) in pins {
            // Unless it was dropped since then.
            let Some(txn) = store.read_pin(&name)? else { continue };
            if txn.id() == pinned.commit {
                self.pinned(&format!("pin \"{}\"", name.escape_ascii()), &txn.meta.meta)?;
            }
        }
        Ok(())
    }

    fn pinned(&mut self, whose: &str, meta: &Meta) -> Result<()> {
        let mut silent = |_: u64, _: u64| {};
        let mut own = Checker::new(self.file, meta, &mut silent);
        own.trees(meta)?;
        let open = |free: &&FreeRun| !is_held(&[meta.txn], free.birth, free.freed);
        for free in self.runs.iter().filter(open) {
            if let Some(no) = own.used.first_in(free.run) {
                own.problem("free", no, "noted as free for others, but in use");
            }
        }
        for what in own.report.problems {
            self.general(format!("{whose}, {what}"));
        }
        Ok(())
    }

    fn own_tree(
        &mut self,
        whose: &str,
        root: &Root,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let wanted = Wanted { form: Form::PLAIN, key_size: 0, value_size: 0 };
        Walk::new(self, whose, wanted, Some(visit)).tree(root)?;
        Ok(())
    }

    fn table(&mut self, name: &[u8], record: &[u8]) -> Result<()> {
        let whose = format!("table \"{}\"", name.escape_ascii());
        let Some((root, stored)) = Stored::decode(record) else {
            self.has_gaps = true;
            self.general(format!(
                "the catalog's record of {whose} is none that this version knows"
            ));
            return Ok(());
        };
        let fixed = stored.is_fixed() || stored.has_integer_values();
        let wanted = Wanted {
            form: stored.stored_form(),
            key_size: if stored.has_integer_keys() { stored.key_size } else { 0 },
            value_size: if fixed { stored.value_size } else { 0 },
        };
        let count = Walk::new(self, &whose, wanted, None).tree(&root)?;
        self.report.entries += count.values;
        Ok(())
    }

    /// The pages of the log are in use, by it alone.
    fn log(&mut self, meta: &Meta) {
        let Some(place) = meta.log else { return };
        if let Some(no) = self.used.insert_run(place.run) {
            self.problem("the log", no, "in use already");
        } else if let Some(no) = self.free.first_in(place.run) {
            self.problem("the log", no, "noted as free");
        }
    }

    fn free_total(&mut self, which: &str, runs: &[Run], noted: u64) {
        let found: u64 = runs.iter().map(|run| u64::from(run.len)).sum();
        if found != noted {
            let what =
                format!("the newest commit counts {noted} {which} free pages, there are {found}");
            self.general(what);
        }
    }

    fn pending_run(&mut self, free: &FreeRun) {
        if free.birth > free.freed || free.freed > self.txn {
            let what = "noted as free since a commit that cannot be";
            self.problem("free", free.run.start, what);
        }
        self.free_run(free.run);
    }

    fn free_run(&mut self, run: Run) {
        let end = u64::from(run.start) + u64::from(run.len);
        if run.start < FIRST_PAGE || end > u64::from(self.end) {
            let what = format_args!("a free run of {} pages outside of the store", run.len);
            self.problem("free", run.start, what);
        } else if let Some(no) = self.free.insert_run(run) {
            self.problem("free", no, "noted as free twice");
        } else if let Some(no) = self.used.first_in(run) {
            self.problem("free", no, "noted as free, but in use");
        }
    }

    /// Looks for pages that are neither in use nor free.
    fn finish(&mut self) {
        let is_lost = |no: &PageNo| !self.used.contains(*no) && !self.free.contains(*no);
        let mut lost: Vec<Run> = Vec::new();
        for no in (FIRST_PAGE..self.end).filter(is_lost) {
            match lost.last_mut() {
                Some(run) if run.start + run.len == no => run.len += 1,
                _ => lost.push(Run { start: no, len: 1 }),
            }
        }
        if self.has_gaps && !lost.is_empty() {
            let pages: u64 = lost.iter().map(|run| u64::from(run.len)).sum();
            self.general(format!(
                "{pages} pages were not seen; they lie below damaged pages, or are lost"
            ));
        } else {
            for run in lost {
                let what = format_args!("lost: {} pages neither in use nor free", run.len);
                self.problem("nobody's", run.start, what);
            }
        }
        (self.progress)(u64::from(self.end), u64::from(self.end));
    }
}

#[cfg(test)]
mod planted_tests;
#[cfg(test)]
pub(crate) mod tests;
