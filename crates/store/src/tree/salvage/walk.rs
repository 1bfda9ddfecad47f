//! One tree of a damaged store, page by page in key order: what can be read is handed on, what
//! cannot is noted with its bounds and with what the branch above counts.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use crate::tree::check::PageSet;
use crate::tree::order::{Form, KeyOrder};
use crate::tree::page::build::flags_of;
use crate::tree::page::{self, CONTINUES, Page, Record, ValueCell};
use crate::tree::page_ref::{ExtentRef, FIRST_PAGE, PageNo, Run};
use crate::tree::pages::PageFile;
use crate::tree::tree::Root;
use crate::tree::txn::sizes::key_max;
use crate::tree::{Bytes, Loss, SalvageReport, extent};
use crate::{Error, Result};

/// Progress is reported after every this many pages.
const PROGRESS_PAGES: u64 = 256;

/// Takes an entry; says why it is not wanted, if so.
pub(super) type Target<'t> = dyn FnMut(&[u8], &[u8]) -> Result<Option<String>> + 't;

/// Reads pages of the old file and keeps the report.
pub(super) struct Walker<'w> {
    pub(super) file: &'w PageFile,
    pub(super) end: PageNo,
    /// Pages that a tree has claimed: each belongs to one.
    pub(super) used: PageSet,
    /// A commit, and all pages that it uses: others of a newer tree must have been written since.
    pub(super) known: Option<(u64, Arc<PageSet>)>,
    /// Whether the tree that is walked is newer than that.
    is_newer: bool,
    done: u64,
    progress: &'w mut dyn FnMut(u64, u64),
    pub(super) report: SalvageReport,
    /// Branches of tables that could not be read.
    pub(super) lost_branches: Vec<LostBranch>,
}

/// A branch that could not be read.
pub(super) struct LostBranch {
    pub(super) table: Vec<u8>,
    pub(super) form: Form,
    pub(super) no: PageNo,
    pub(super) level: u8,
    /// The commit that wrote what refers to it.
    pub(super) newest: u64,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl LostBranch {
    fn place<'p>(&'p self, table: &'p [u8]) -> Place<'p> {
        let (from, to) = (self.from.clone(), self.to.clone());
        Place { table, form: &self.form, from, to, entries: None }
    }
}

/// Where in a tree one is.
struct Place<'p> {
    table: &'p [u8],
    form: &'p Form,
    /// The bounds of the keys: from the first one on, up to but not including the second.
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    /// What the branch above counts.
    entries: Option<u64>,
}

impl<'w> Walker<'w> {
    pub(super) fn new(
        file: &'w PageFile,
        end: PageNo,
        progress: &'w mut dyn FnMut(u64, u64),
    ) -> Self {
        let (used, report) = (PageSet::new(end), SalvageReport::default());
        let (known, is_newer, done, lost_branches) = (None, false, 0, Vec::new());
        Self { file, end, used, known, is_newer, done, progress, report, lost_branches }
    }

    pub(super) fn finish(self) -> SalvageReport {
        (self.progress)(u64::from(self.end), u64::from(self.end));
        self.report
    }

    pub(super) fn lose(&mut self, loss: Loss) {
        self.report.losses.push(loss);
    }

    /// Counts pages that were looked at.
    pub(super) fn told(&mut self, pages: u64) -> Result<()> {
        self.file.interrupted()?;
        let before = self.done / PROGRESS_PAGES;
        self.done += pages;
        if self.done / PROGRESS_PAGES > before {
            (self.progress)(self.done.min(u64::from(self.end)), u64::from(self.end));
        }
        Ok(())
    }

    /// Reads a page into `bytes`; says what is wrong with it if it is not one of this level that
    /// was written by commit `newest` or before.
    fn read<'b>(
        &self,
        bytes: &'b mut Vec<u8>,
        no: PageNo,
        level: u8,
        newest: u64,
    ) -> Result<Result<Page<'b>, String>> {
        if !(FIRST_PAGE..self.end).contains(&no) {
            return Ok(Err("it lies outside of the file".to_owned()));
        }
        bytes.resize(self.file.page_size(), 0);
        if let Err(error) = self.file.read_run(Run { start: no, len: 1 }, bytes) {
            return Ok(Err(error.to_string()));
        }
        let page = match page::checked(bytes, no, self.end) {
            Ok(page) => page,
            Err(reason) => return Ok(Err(reason.to_owned())),
        };
        if page.level() != level {
            return Ok(Err("of another level than its parent says".to_owned()));
        }
        if page.birth() > newest {
            return Ok(Err("it was written again since".to_owned()));
        }
        if let Some((txn, pages)) = self.known.as_ref().filter(|_| self.is_newer)
            && page.birth() <= *txn
            && !pages.contains(no)
        {
            return Ok(Err("an older page stands in its place".to_owned()));
        }
        Ok(Ok(page))
    }

    /// Whether a page is one of this level, written by commit `newest` or before.
    pub(super) fn is_readable(&self, no: PageNo, level: u8, newest: u64) -> Result<bool> {
        Ok(self.read(&mut Vec::new(), no, level, newest)?.is_ok())
    }

    /// Walks a tree that commit `newest` refers to.
    pub(super) fn tree(
        &mut self,
        table: &[u8],
        root: &Root,
        form: &Form,
        newest: u64,
        target: &mut Target<'_>,
    ) -> Result<()> {
        if root.page.is_none() {
            return Ok(());
        }
        self.is_newer = self.known.as_ref().is_some_and(|(txn, _)| newest > *txn);
        let entries = Some(root.count.values);
        let place = Place { table, form, from: None, to: None, entries };
        self.below(root.page.0, root.level, newest, &place, target)
    }

    fn lose_page(&mut self, place: &Place<'_>, no: PageNo, reason: String) {
        self.lose(Loss {
            table: place.table.to_vec(),
            from: place.from.clone(),
            to: place.to.clone(),
            entries: place.entries,
            page: Some(u64::from(no)),
            reason,
        });
    }

    /// Notes a page of a table that could not be read, if it is a branch.
    fn note_branch(&mut self, place: &Place<'_>, no: PageNo, level: u8, newest: u64) {
        if level > 0 && !place.table.is_empty() {
            let (table, form) = (place.table.to_vec(), place.form.clone());
            let (from, to) = (place.from.clone(), place.to.clone());
            self.lost_branches.push(LostBranch { table, form, no, level, newest, from, to });
        }
    }

    /// Walks what is found of a branch that is lost: page `no` and all below it, in the name of
    /// `table`.
    pub(super) fn orphan(
        &mut self,
        table: &[u8],
        no: PageNo,
        branch: &LostBranch,
        target: &mut Target<'_>,
    ) -> Result<()> {
        self.below(no, branch.level - 1, branch.newest, &branch.place(table), target)
    }

    /// The first and the last key that a page shows that may have been below a lost branch; `None`
    /// if it was not.
    pub(super) fn ends_of_orphan(
        &self,
        no: PageNo,
        branch: &LostBranch,
    ) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let mut bytes = Vec::new();
        let Ok(page) = self.read(&mut bytes, no, branch.level - 1, branch.newest)? else {
            return Ok(None);
        };
        // The first child of a branch has no separator.
        let first = usize::from(!page.is_leaf());
        if first >= page.len() || !self.is_between(page, &branch.place(&branch.table)) {
            return Ok(None);
        }
        let key = |slot| self.known_key(&page.record(slot), page.birth()).into_owned();
        Ok(Some((key(first), key(page.len() - 1))))
    }

    fn below(
        &mut self,
        no: PageNo,
        level: u8,
        newest: u64,
        place: &Place<'_>,
        target: &mut Target<'_>,
    ) -> Result<()> {
        self.told(1)?;
        let mut bytes = Vec::new();
        let page = match self.read(&mut bytes, no, level, newest)? {
            Ok(page) => page,
            Err(reason) => {
                self.lose_page(place, no, reason);
                self.note_branch(place, no, level, newest);
                return Ok(());
            }
        };
        if let Some(reason) = self.is_foreign(page, no, place) {
            self.lose_page(place, no, reason.to_owned());
            return Ok(());
        }
        if level == 0 {
            return self.leaf(page, no, place, target);
        }
        for i in 0..page.len() {
            let bound = |i: usize| -> Option<Vec<u8>> {
                Some(self.known_key(&page.record(i), page.birth()).into_owned())
            };
            let from = if i == 0 { place.from.clone() } else { bound(i) };
            let to = if i + 1 == page.len() { place.to.clone() } else { bound(i + 1) };
            let entries = Some(page.child_count(i).values);
            let child = Place { table: place.table, form: place.form, from, to, entries };
            self.below(page.child(i).0, level - 1, page.birth(), &child, target)?;
        }
        Ok(())
    }

    /// Why a sound page is not one of this place; claims it otherwise.
    fn is_foreign(
        &mut self,
        page: Page<'_>,
        no: PageNo,
        place: &Place<'_>,
    ) -> Option<&'static str> {
        let flags = if page.is_leaf() { page.flags() & !CONTINUES } else { page.flags() };
        if flags != flags_of(place.form, page.level()) {
            return Some("it is a page of another kind of table");
        }
        if page.is_leaf() && !self.is_between(page, place) {
            return Some("its keys do not lie between those around it");
        }
        if !self.used.insert(no) {
            return Some("another part of the store uses it too");
        }
        None
    }

    /// Whether the first and last key of a leaf, or separator of a branch, lie between the bounds.
    fn is_between(&self, page: Page<'_>, place: &Place<'_>) -> bool {
        let order = &place.form.keys;
        if matches!(order, KeyOrder::Custom(_)) {
            return true;
        }
        let key = |slot| self.known_key(&page.record(slot), page.birth());
        let first = usize::from(!page.is_leaf() && page.len() > 1);
        // A separator may be a pair, and then its key stands on both sides of it.
        let after = place.from.as_ref().is_none_or(|from| order.compare(&key(first), from).is_ge());
        let last = key(page.len() - 1);
        after && place.to.as_ref().is_none_or(|to| order.compare(&last, to) != Ordering::Greater)
    }

    /// A record's key; of one in an extent that cannot be read what the page itself knows.
    fn known_key<'p>(&self, record: &Record<'p>, newest: u64) -> Cow<'p, [u8]> {
        let cell = record.key_cell();
        let whole = cell.extent.and_then(|extent| self.extent(&extent, newest).ok());
        whole.map_or_else(|| cell.known.to_cow(), Cow::Owned)
    }

    /// The bytes of an extent.
    fn extent(&self, reference: &ExtentRef, newest: u64) -> Result<Vec<u8>> {
        let run = extent::run_of(reference, self.file.page_size());
        let end = u64::from(run.start) + u64::from(run.len);
        if run.start < FIRST_PAGE || end > u64::from(self.end) {
            return Err(self.file.corrupt(run.start, "a long value outside of the file"));
        }
        let mut bytes = Vec::new();
        match extent::inspect(self.file, reference, Some(&mut bytes))? {
            birth if birth > newest => Err(self.file.corrupt(run.start, "written again since")),
            _ => Ok(bytes),
        }
    }

    /// The same; an error is returned as text, unless it is an interruption.
    fn try_extent(&self, reference: &ExtentRef, newest: u64) -> Result<Result<Vec<u8>, String>> {
        match self.extent(reference, newest) {
            Ok(bytes) => Ok(Ok(bytes)),
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    fn leaf(
        &mut self,
        page: Page<'_>,
        no: PageNo,
        place: &Place<'_>,
        target: &mut Target<'_>,
    ) -> Result<()> {
        for slot in 0..page.len() {
            let record = page.record(slot);
            let cell = record.key_cell();
            let key = match &cell.extent {
                None => Ok(cell.known.to_vec()),
                Some(reference) if reference.len as usize > key_max(&place.form.keys) => {
                    Err("its key is too long".to_owned())
                }
                Some(reference) => self.try_extent(reference, page.birth())?,
            };
            match key {
                Ok(key) => self.values(page, no, &record, &key, place, target)?,
                Err(reason) => {
                    let known = Some(cell.known.to_vec());
                    let entries = Some(record.value_count() as u64);
                    let (from, to) = (known.clone(), known);
                    self.lose_page(&Place { from, to, entries, ..*place }, no, reason);
                }
            }
        }
        Ok(())
    }

    /// Hands the entries of one key on.
    fn values(
        &mut self,
        page: Page<'_>,
        no: PageNo,
        record: &Record<'_>,
        key: &[u8],
        place: &Place<'_>,
        target: &mut Target<'_>,
    ) -> Result<()> {
        for i in 0..record.value_count() {
            let taken = match record.value(i) {
                ValueCell::Inline(value) => hand_on(target, key, &value)?,
                ValueCell::Extent(reference) => match self.try_extent(&reference, page.birth())? {
                    Ok(value) => target(key, &value)?,
                    Err(reason) => Some(reason),
                },
            };
            if let Some(reason) = taken {
                let (from, to) = (Some(key.to_vec()), Some(key.to_vec()));
                self.lose_page(&Place { from, to, entries: Some(1), ..*place }, no, reason);
            }
        }
        Ok(())
    }
}

fn hand_on(target: &mut Target<'_>, key: &[u8], value: &Bytes<'_>) -> Result<Option<String>> {
    target(key, &value.to_cow())
}
