//! One tree under examination: pages in key order, each pair compared with the one before it, each
//! counter with what was found below.
//!
//! Walking in order makes every rule a local one: all pairs ascend, and each separator is greater
//! than the pair before it and not greater than the pair after it. That separators lie between
//! those further up follows, since no leaf is empty.

use std::cmp::Ordering;

use super::Checker;
use crate::Result;
use crate::tree::order::{Form, KeyOrder};
use crate::tree::page::build::flags_of;
use crate::tree::page::search::head_in;
use crate::tree::page::{self, CONTINUES, Page, Record, ValueCell, add, code};
use crate::tree::page_ref::{ExtentRef, PageNo, Run};
use crate::tree::tree::Root;
use crate::tree::txn::sizes::key_max;
use crate::tree::{Bytes, Count, extent};

/// What the entries of a tree must be like; a size of 0: any.
pub(super) struct Wanted {
    pub(super) form: Form,
    pub(super) key_size: u32,
    pub(super) value_size: u32,
}

/// Takes an entry; false if it is none that a store wrote.
pub(super) type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> bool;

/// A separator: what follows it must not be before it.
struct Fence {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

pub(super) struct Walk<'w, 's> {
    checker: &'w mut Checker<'s>,
    whose: &'w str,
    wanted: Wanted,
    visit: Option<Visit<'w>>,
    /// The pair before; its value only where the tree has duplicates.
    last_key: Vec<u8>,
    last_value: Vec<u8>,
    /// Whether there is a pair before, which is the one right before the next.
    has_last: bool,
    /// Whether pages between the pair before and the next one could not be read.
    has_gap: bool,
    fence: Option<Fence>,
    /// What was found.
    found: Root,
}

/// What lies below a page; `None` if not all of it could be read.
type Below = Option<Count>;

impl<'w, 's> Walk<'w, 's> {
    pub(super) fn new(
        checker: &'w mut Checker<'s>,
        whose: &'w str,
        wanted: Wanted,
        visit: Option<Visit<'w>>,
    ) -> Self {
        Self {
            checker,
            whose,
            wanted,
            visit,
            last_key: Vec::new(),
            last_value: Vec::new(),
            has_last: false,
            has_gap: false,
            fence: None,
            found: Root::EMPTY,
        }
    }

    fn problem(&mut self, no: PageNo, what: impl std::fmt::Display) {
        self.checker.problem(self.whose, no, what);
    }

    fn claim(&mut self, run: Run, used_by: PageNo) -> bool {
        self.checker.claim(self.whose, run, used_by)
    }

    fn has_duplicates(&self) -> bool {
        self.wanted.form.values.is_some()
    }

    /// Walks the whole tree. Returns the entries found, those of all leaves that could be read.
    pub(super) fn tree(mut self, root: &Root) -> Result<Count> {
        let mut whole = true;
        if !root.page.is_none() {
            let (no, level) = (root.page.0, root.level);
            let newest = self.checker.txn;
            let below = match self.claim(Run { start: no, len: 1 }, no) {
                true => self.below(no, level, newest)?,
                false => None,
            };
            whole = below.is_some();
        }
        if whole {
            self.compare_root(root);
        }
        Ok(self.found.count)
    }

    fn compare_root(&mut self, root: &Root) {
        let found = self.found;
        let pairs = [
            ("keys", root.count.keys, found.count.keys),
            ("values", root.count.values, found.count.values),
            ("branch pages", root.branch_pages, found.branch_pages),
            ("leaf pages", root.leaf_pages, found.leaf_pages),
            ("overflow pages", root.overflow_pages, found.overflow_pages),
        ];
        for (what, noted, found) in pairs {
            if noted != found {
                let whose = self.whose;
                let text = format!("{whose} is said to have {noted} {what}, it has {found}");
                self.checker.general(text);
            }
        }
    }

    /// Checks a page, which is claimed, and all below it.
    fn below(&mut self, no: PageNo, level: u8, newest: u64) -> Result<Below> {
        self.checker.file.interrupted()?;
        let mut bytes = vec![0; self.checker.file.page_size()];
        let read = self.checker.file.read_run(Run { start: no, len: 1 }, &mut bytes);
        if let Err(error) = read {
            self.checker.failed(self.whose, no, error)?;
            self.has_gap = true;
            return Ok(None);
        }
        let page = match page::checked(&bytes, no, self.checker.end) {
            Ok(page) if page.level() == level => page,
            other => {
                let what = other.err().unwrap_or("of another level than its parent says");
                self.problem(no, what);
                (self.checker.has_gaps, self.has_gap) = (true, true);
                return Ok(None);
            }
        };
        self.header(page, no, newest);
        if level > 0 {
            return self.branch(page, no);
        }
        self.found.leaf_pages += 1;
        for slot in 0..page.len() {
            self.group(page, no, slot)?;
        }
        let count = page.leaf_count(self.has_duplicates());
        self.found.count = add(self.found.count, count);
        Ok(Some(count))
    }

    fn header(&mut self, page: Page<'_>, no: PageNo, newest: u64) {
        if !page.has_zeros() {
            self.problem(no, "something stands in bytes that must be zero");
        }
        if page.birth() > newest {
            let what = format_args!("written by commit {}, but used since {newest}", page.birth());
            self.problem(no, what);
        }
        let mut flags = page.flags();
        if self.has_duplicates() && page.is_leaf() {
            flags &= !CONTINUES;
        }
        if flags != flags_of(&self.wanted.form, page.level()) {
            self.problem(no, format_args!("its flags {flags:#x} are not those of the table"));
        }
        if matches!(self.wanted.form.keys, KeyOrder::Custom(_)) && !page.shared().is_empty() {
            self.problem(no, "shares a prefix where the order allows none");
        }
    }

    fn branch(&mut self, page: Page<'_>, no: PageNo) -> Result<Below> {
        self.found.branch_pages += 1;
        if page.record(0).len() != 2 || page.head(0) != 0 {
            self.problem(no, "the first child has a separator");
        }
        let mut total = Some(Count::default());
        for i in 0..page.len() {
            if i > 0 {
                self.separator(page, no, i)?;
            }
            let child = page.child(i).0;
            let below = match self.claim(Run { start: child, len: 1 }, no) {
                true => self.below(child, page.level() - 1, page.birth())?,
                false => {
                    self.has_gap = true;
                    None
                }
            };
            if let Some(found) = below {
                self.counter(page, no, i, found);
            }
            total = total.zip(below).map(|(sum, more)| add(sum, more));
        }
        Ok(total)
    }

    fn counter(&mut self, page: Page<'_>, no: PageNo, i: usize, found: Count) {
        let noted = page.child_count(i);
        if noted != found {
            let what = format_args!(
                "counts {} keys and {} values below child {i} (page {}), there are {} and {}",
                noted.keys,
                noted.values,
                page.child(i).0,
                found.keys,
                found.values
            );
            self.problem(no, what);
        }
    }

    /// Checks separator `i` of a branch against the pair before it, and keeps it for the next one.
    fn separator(&mut self, page: Page<'_>, no: PageNo, i: usize) -> Result<()> {
        let record = page.record(i);
        self.fence = None;
        let Some(key) = self.whole_key(page, no, i, &record)? else { return Ok(()) };
        let value = (record.value_code() > 0).then(|| record.separator_value().to_vec());
        if value.is_some() && !self.has_duplicates() {
            self.problem(no, format_args!("separator {i} has a value"));
        }
        let key = key.to_vec();
        if self.has_last {
            let last = Bytes::from(&self.last_key[..]);
            let order = match self.compare_keys(&last, &key) {
                Ordering::Equal => match &value {
                    Some(value) => self.compare_values(&Bytes::from(&self.last_value[..]), value),
                    None => Ordering::Equal,
                },
                other => other,
            };
            if order != Ordering::Less && self.are_keys_known() {
                self.problem(no, format_args!("separator {i} is not after what stands before it"));
            }
        }
        self.fence = Some(Fence { key, value });
        Ok(())
    }

    fn are_keys_known(&self) -> bool {
        !matches!(self.wanted.form.keys, KeyOrder::Custom(_))
    }

    fn compare_keys(&self, a: &Bytes<'_>, b: &[u8]) -> Ordering {
        self.wanted.form.keys.compare_bytes(a, b)
    }

    /// If the order is not known, everything counts as ascending.
    fn compare_values(&self, a: &Bytes<'_>, b: &[u8]) -> Ordering {
        match &self.wanted.form.values {
            Some(KeyOrder::Custom(_)) | None => Ordering::Less,
            Some(order) => order.compare_bytes(a, b),
        }
    }

    /// The bytes of a record's key, its head checked; `None` if they cannot be read.
    fn whole_key<'p>(
        &mut self,
        page: Page<'p>,
        no: PageNo,
        slot: usize,
        record: &Record<'p>,
    ) -> Result<Option<std::borrow::Cow<'p, [u8]>>> {
        let cell = record.key_cell();
        let Some(reference) = cell.extent else {
            self.head(page, no, slot, head_in(&self.wanted.form.keys, record.rest()));
            return Ok(Some(cell.known.to_cow()));
        };
        if reference.len as usize > key_max(&self.wanted.form.keys) {
            self.problem(no, format_args!("the key of slot {slot} is too long"));
            return Ok(None);
        }
        let mut key = Vec::new();
        if !self.extent(no, &reference, page.birth(), Some(&mut key))? {
            return Ok(None);
        }
        let (shared, known) = (page.shared(), cell.known.to_vec());
        let reverse = page.is_reversed();
        let agrees = if reverse { key.ends_with(&known) } else { key.starts_with(&known) };
        if !agrees {
            self.problem(no, format_args!("the long key of slot {slot} is not the one it shows"));
            return Ok(Some(key.into()));
        }
        let rest = if reverse { &key[..key.len() - shared.len()] } else { &key[shared.len()..] };
        self.head(page, no, slot, head_in(&self.wanted.form.keys, rest));
        Ok(Some(key.into()))
    }

    fn head(&mut self, page: Page<'_>, no: PageNo, slot: usize, head: u32) {
        if page.has_heads() && page.head(slot) != head {
            self.problem(no, format_args!("the head of slot {slot} is not that of its key"));
        }
    }

    /// Claims and verifies an extent; false if it cannot be read.
    fn extent(
        &mut self,
        no: PageNo,
        reference: &ExtentRef,
        newest: u64,
        out: Option<&mut Vec<u8>>,
    ) -> Result<bool> {
        let run = extent::run_of(reference, self.checker.file.page_size());
        if !self.claim(run, no) {
            return Ok(false);
        }
        match extent::inspect(self.checker.file, reference, out) {
            Ok(birth) if birth > newest => {
                let what = format_args!("written by commit {birth}, but used since {newest}");
                self.problem(run.start, what);
                Ok(true)
            }
            Ok(_) => Ok(true),
            Err(error) => {
                self.checker.failed(self.whose, run.start, error)?;
                Ok(false)
            }
        }
    }

    /// Checks one group of a leaf.
    fn group(&mut self, page: Page<'_>, no: PageNo, slot: usize) -> Result<()> {
        let record = page.record(slot);
        if let Some(extent) = record.key_extent() {
            let run = extent::run_of(&extent, self.checker.file.page_size());
            self.found.overflow_pages += u64::from(run.len);
        }
        let Some(key) = self.whole_key(page, no, slot, &record)? else {
            (self.has_last, self.fence) = (false, None);
            self.has_gap = true;
            return self.values(page, no, slot, false);
        };
        if self.wanted.key_size != 0 && key.len() != self.wanted.key_size as usize {
            self.problem(no, format_args!("the key of slot {slot} has {} bytes", key.len()));
        }
        let continues = slot == 0 && page.continues();
        let same = self.place(no, slot, &key, continues);
        self.check_fence(no, &key, &record);
        self.last_key.clear();
        self.last_key.extend_from_slice(&key);
        (self.has_last, self.has_gap) = (true, false);
        self.values(page, no, slot, same)
    }

    /// Compares a key with the one before. True if the two are one key, whose values go on.
    fn place(&mut self, no: PageNo, slot: usize, key: &[u8], continues: bool) -> bool {
        if !self.has_last {
            if continues && !self.has_gap {
                self.problem(no, "goes on with a key although nothing is before it");
            }
            return false;
        }
        if !self.are_keys_known() {
            return continues && !self.has_gap;
        }
        let order = self.compare_keys(&Bytes::from(&self.last_key[..]), key);
        let goes_on = order == Ordering::Equal && slot == 0 && self.has_duplicates();
        if order == Ordering::Greater || order == Ordering::Equal && !goes_on {
            self.problem(no, format_args!("the key of slot {slot} is not after the one before"));
        } else if goes_on != continues && !self.has_gap {
            let what = if continues { "is said to go on" } else { "goes on unsaid" };
            self.problem(no, format_args!("{what} with the last key of the leaf before it"));
        }
        goes_on
    }

    /// The first pair after a separator must not be less than it.
    fn check_fence(&mut self, no: PageNo, key: &[u8], record: &Record<'_>) {
        let Some(fence) = self.fence.take() else { return };
        let mut order = self.compare_keys(&Bytes::from(key), &fence.key);
        if let (Ordering::Equal, Some(value), ValueCell::Inline(first)) =
            (order, &fence.value, record.value(0))
            && self.compare_values(&first, value) == Ordering::Less
            && !matches!(self.wanted.form.values, Some(KeyOrder::Custom(_)))
        {
            order = Ordering::Less;
        }
        if order == Ordering::Less && self.are_keys_known() {
            self.problem(no, "its first entry is before the separator that leads to it");
        }
    }

    /// Checks the values of a group. `same`: they continue the values of the previous group.
    fn values(&mut self, page: Page<'_>, no: PageNo, slot: usize, same: bool) -> Result<()> {
        let record = page.record(slot);
        if !self.has_duplicates() {
            return self.value(page, no, slot);
        }
        if record.value_code() == code::EXTENT {
            self.problem(no, format_args!("slot {slot} has a long value among duplicates"));
            return Ok(());
        }
        let size = self.wanted.value_size as usize;
        let mut has_last = same;
        for i in 0..record.value_count() {
            let ValueCell::Inline(value) = record.value(i) else { return Ok(()) };
            if size != 0 && value.len() != size {
                self.problem(
                    no,
                    format_args!("value {i} of slot {slot} has {} bytes", value.len()),
                );
            }
            let last = std::mem::take(&mut self.last_value);
            if has_last && self.compare_values(&value, &last) != Ordering::Greater {
                let what = format_args!("value {i} of slot {slot} is not after the one before");
                let is_known = !matches!(self.wanted.form.values, Some(KeyOrder::Custom(_)));
                if is_known {
                    self.problem(no, what);
                }
            }
            self.last_value = last;
            value.copy_to(&mut self.last_value);
            has_last = true;
        }
        Ok(())
    }

    /// Checks the one value of an entry of a plain tree, and shows the entry.
    fn value(&mut self, page: Page<'_>, no: PageNo, slot: usize) -> Result<()> {
        let record = page.record(slot);
        if record.value_code() == code::GROUP {
            self.problem(no, format_args!("slot {slot} has several values"));
            return Ok(());
        }
        if let Some(reference) = record.value_extent() {
            let run = extent::run_of(&reference, self.checker.file.page_size());
            self.found.overflow_pages += u64::from(run.len);
            self.extent(no, &reference, page.birth(), None)?;
        }
        let is_whole = self.has_last && record.value_extent().is_none();
        let shown = match &mut self.visit {
            Some(visit) => is_whole && visit(&self.last_key, record.inline_value()),
            None => true,
        };
        if !shown {
            self.checker.has_gaps = true;
            self.problem(no, format_args!("the entry of slot {slot} is none that a store wrote"));
        }
        Ok(())
    }
}
