//! A look at every page of a file, whatever refers to it: where neither meta records nor catalog
//! say what is in use.

use std::collections::{BTreeMap, BTreeSet};

use super::walk::Walker;
use super::{Found, name_of_lost};
use crate::tree::catalog::Stored;
use crate::tree::free::{pending_runs, ready_entry};
use crate::tree::order::{Form, Leaves};
use crate::tree::page::build::flags_of;
use crate::tree::page::{
    self, ALIGNED, CONTINUES, HEADLESS, PAIRED, Page, REVERSED, VALUES_REVERSED, WHOLE, code,
};
use crate::tree::page_ref::{FIRST_PAGE, PageNo, PageRef, Run};
use crate::tree::pages::PageFile;
use crate::tree::tree::Root;
use crate::{Error, Result};

/// How much is read at a time.
const PIECE_BYTES: usize = 1 << 20;
/// The page size is first guessed from a sample of this many bytes.
const PROBED_BYTES: u64 = 4 << 20;
/// At most this many of the newest trees are examined for a later version of another one.
const VERSIONS_MAX: usize = 64;
/// At most this many of the newest catalogs are compared.
const CATALOGS_MAX: usize = 16;

/// What of a sound tree page is kept.
struct Seen {
    level: u8,
    birth: u64,
    flags: u8,
    children: Vec<PageNo>,
    /// Records of tables, if the page is a leaf that holds nothing else.
    records: Vec<(Vec<u8>, Root, Stored)>,
    /// Whether it is a leaf of a free-space tree.
    is_free_space: bool,
    /// Whether a key of it has several values.
    has_groups: bool,
}

/// All sound tree pages of a file.
pub(super) struct Scan {
    pages: BTreeMap<PageNo, Seen>,
    /// Pages of catalogs.
    catalogs: BTreeSet<PageNo>,
    /// Pages that another one refers to.
    children: BTreeSet<PageNo>,
}

/// Finds the page size with which most pages are sound, of a sample from all over the file; of all
/// pages, if none of the sample is: tree pages may be few among long values.
pub(super) fn probe_page_size(open: &dyn Fn(u32) -> PageFile) -> Result<PageFile> {
    for sample in [PROBED_BYTES, u64::MAX] {
        let mut best = None;
        for shift in 12..=16 {
            let file = open(1 << shift);
            let sound = sound_pages(&file, sample >> shift)?;
            if sound > 0 && best.as_ref().is_none_or(|(most, _)| sound > *most) {
                best = Some((sound, file));
            }
        }
        if let Some((_, file)) = best {
            return Ok(file);
        }
    }
    Err(Error::NotAStore {
        path: open(4096).path,
        reason: "neither its meta records nor any page of it are those of a store".to_owned(),
    })
}

/// How many of about `most` pages, evenly spread, are sound.
fn sound_pages(file: &PageFile, most: u64) -> Result<u64> {
    let end = super::page_count(file)?;
    let step = u64::from(end).div_ceil(most.max(1)).max(1) as usize;
    let mut bytes = vec![0; file.page_size()];
    let mut sound = 0;
    for no in (FIRST_PAGE..end).step_by(step) {
        file.interrupted()?;
        let read = file.read_run(Run { start: no, len: 1 }, &mut bytes);
        sound += u64::from(read.is_ok() && page::checked(&bytes, no, end).is_ok());
    }
    Ok(sound)
}

impl Scan {
    /// Looks at all pages.
    pub(super) fn new(walker: &mut Walker<'_>) -> Result<Self> {
        let page_size = walker.file.page_size();
        let at_once = (PIECE_BYTES / page_size) as u32;
        let mut bytes = vec![0; PIECE_BYTES];
        let mut pages = BTreeMap::new();
        for start in (FIRST_PAGE..walker.end).step_by(at_once as usize) {
            let len = at_once.min(walker.end - start);
            let piece = &mut bytes[..len as usize * page_size];
            // If a part of the disk cannot be read, the pages around it still can.
            if walker.file.read_run(Run { start, len }, piece).is_err() {
                read_singly(walker.file, start, piece);
            }
            for (no, bytes) in (start..).zip(piece.chunks_exact(page_size)) {
                if let Ok(page) = page::checked(bytes, no, walker.end) {
                    pages.insert(no, Seen::of(page, walker.end));
                }
            }
            walker.told(u64::from(len))?;
        }
        let (catalogs, children) = (BTreeSet::new(), BTreeSet::new());
        let mut scan = Self { pages, catalogs, children };
        scan.relate();
        Ok(scan)
    }

    /// The child `no` of a page, if it is one that page can have had.
    fn child(&self, parent: &Seen, no: PageNo) -> Option<&Seen> {
        let child = self.pages.get(&no)?;
        (child.level + 1 == parent.level && child.birth <= parent.birth).then_some(child)
    }

    /// The pages of a level, written by commit `newest` or before, that may be those of a table,
    /// each with the commit that wrote it.
    pub(super) fn pages_of(&self, level: u8, newest: u64, form: &Form) -> Vec<(PageNo, u64)> {
        let flags = flags_of(form, level);
        let may = |(no, seen): &(&PageNo, &Seen)| {
            seen.level == level
                && seen.birth <= newest
                && seen.flags & !CONTINUES == flags
                && !seen.is_free_space
                && !self.catalogs.contains(*no)
        };
        self.pages.iter().filter(may).map(|(no, seen)| (*no, seen.birth)).collect()
    }

    /// Finds out which pages are those of catalogs, and which are children.
    fn relate(&mut self) {
        let mut by_level: Vec<(u8, PageNo)> =
            self.pages.iter().map(|(no, seen)| (seen.level, *no)).collect();
        by_level.sort_unstable();
        for (_, no) in by_level {
            let Some(seen) = self.pages.get(&no) else { continue };
            let mut own = seen.children.clone();
            own.retain(|child| self.child(seen, *child).is_some());
            let above = own.iter().any(|child| self.catalogs.contains(child));
            if !seen.records.is_empty() || above {
                self.catalogs.insert(no);
            }
            self.children.extend(own);
        }
    }

    fn root_of(&self, no: PageNo, seen: &Seen) -> Root {
        Root { page: PageRef(no), level: seen.level, ..Root::EMPTY }
    }

    /// The newest catalog whose tables can all be found, or else the one of which most tables can;
    /// with the commit that wrote it.
    pub(super) fn newest_catalog(&self) -> Option<(Root, u64)> {
        let mut roots: Vec<(PageNo, &Seen)> = self
            .catalogs
            .iter()
            .filter(|no| !self.children.contains(no))
            .filter_map(|no| Some((*no, self.pages.get(no)?)))
            .collect();
        roots.sort_by_key(|(_, seen)| std::cmp::Reverse((seen.birth, seen.level)));
        let score = |(no, seen): &(PageNo, &Seen)| {
            let records = self.records_below(*no);
            let sound = records.iter().filter(|root| self.is_sound(root, seen.birth)).count();
            (sound == records.len(), sound)
        };
        let all: Vec<_> = roots.iter().take(CATALOGS_MAX).map(|root| (score(root), root)).collect();
        let whole = all.iter().find(|((is_whole, _), _)| *is_whole);
        let (_, (no, seen)) =
            whole.or_else(|| all.iter().rev().max_by_key(|((_, sound), _)| *sound))?;
        Some((self.root_of(*no, seen), seen.birth))
    }

    /// The roots of the tables in a catalog.
    fn records_below(&self, no: PageNo) -> Vec<Root> {
        let Some(seen) = self.pages.get(&no) else { return Vec::new() };
        let own = seen.records.iter().map(|(_, root, _)| *root);
        let children = seen.children.iter().filter(|child| self.child(seen, **child).is_some());
        own.chain(children.flat_map(|child| self.records_below(*child))).collect()
    }

    /// Whether a root record leads to a page that was written by commit `newest` or before.
    fn is_sound(&self, root: &Root, newest: u64) -> bool {
        root.page.is_none()
            || self
                .pages
                .get(&root.page.0)
                .is_some_and(|seen| seen.level == root.level && seen.birth <= newest)
    }

    /// Pages that no other one refers to, the newest first, except those of catalogs.
    fn tree_roots(&self) -> Vec<(PageNo, &Seen)> {
        let mut roots: Vec<(PageNo, &Seen)> = self
            .pages
            .iter()
            .map(|(no, seen)| (*no, seen))
            .filter(|(no, _)| !self.children.contains(no) && !self.catalogs.contains(no))
            .collect();
        roots.sort_by_key(|(_, seen)| std::cmp::Reverse(seen.birth));
        roots
    }

    /// The newest tree that still has pages in common with this one: a later version of it.
    fn newest_version(&self, roots: &[(PageNo, &Seen)], old: &Root, birth: u64) -> (Root, u64) {
        let mut own = BTreeSet::new();
        self.gather(old.page.0, &mut own);
        let later = roots.iter().take(VERSIONS_MAX).find(|(no, seen)| {
            let mut all = BTreeSet::new();
            self.gather(*no, &mut all);
            seen.birth > birth && !all.is_disjoint(&own)
        });
        later.map_or((*old, birth), |(no, seen)| (self.root_of(*no, seen), seen.birth))
    }

    /// Replaces the trees of tables by their newest versions, if the catalog is not the newest.
    pub(super) fn renew(&self, tables: &mut [Found], is_last: bool) {
        let roots = if is_last { Vec::new() } else { self.tree_roots() };
        for found in tables {
            (found.root, found.newest) = self.newest_version(&roots, &found.root, found.newest);
        }
    }

    /// Adds the tables that only older copies of catalog pages name, in the newest version of their
    /// trees that can be found.
    pub(super) fn add_older_tables(&self, tables: &mut Vec<Found>) {
        let mut known: BTreeSet<Vec<u8>> = tables.iter().map(|found| found.name.clone()).collect();
        let mut leaves: Vec<&Seen> =
            self.pages.values().filter(|seen| !seen.records.is_empty()).collect();
        leaves.sort_by_key(|seen| std::cmp::Reverse(seen.birth));
        let roots = self.tree_roots();
        for seen in leaves {
            for (name, root, stored) in &seen.records {
                if self.is_sound(root, seen.birth) && known.insert(name.clone()) {
                    let (root, newest) = self.newest_version(&roots, root, seen.birth);
                    let (name, stored) = (name.clone(), stored.clone());
                    tables.push(Found { name, root, stored, newest });
                }
            }
        }
    }

    /// Adds the trees that nothing names, each under the number of its root; of several versions of
    /// a tree the newest.
    pub(super) fn add_nameless_tables(&self, tables: &mut Vec<Found>) {
        let mut known = BTreeSet::new();
        for found in tables.iter() {
            self.gather(found.root.page.0, &mut known);
        }
        for (no, seen) in self.tree_roots() {
            let mut own = BTreeSet::new();
            self.gather(no, &mut own);
            let any =
                |is: fn(&Seen) -> bool| own.iter().any(|no| self.pages.get(no).is_some_and(is));
            if any(|seen| seen.is_free_space) || !own.is_disjoint(&known) {
                continue;
            }
            let has_groups = any(|seen| seen.has_groups);
            let (reverse, values) = (seen.flags & REVERSED != 0, seen.flags & VALUES_REVERSED != 0);
            let duplicates = has_groups || values || seen.flags & PAIRED != 0;
            let name = name_of_lost(no, tables);
            let leaves = match any(|seen| seen.flags & WHOLE != 0) {
                _ if any(|seen| seen.flags & ALIGNED != 0) => Leaves::Aligned,
                _ if any(|seen| seen.flags & HEADLESS != 0) => Leaves::Headless,
                true => Leaves::Whole,
                false => Leaves::Compressed,
            };
            let stored = Stored::guessed(reverse, duplicates.then_some(values), leaves);
            tables.push(Found { name, root: self.root_of(no, seen), stored, newest: seen.birth });
            known.append(&mut own);
        }
    }

    /// Adds a page and all below it.
    fn gather(&self, no: PageNo, all: &mut BTreeSet<PageNo>) {
        let Some(seen) = self.pages.get(&no) else { return };
        if all.insert(no) {
            let children = seen.children.iter().filter(|child| self.child(seen, **child).is_some());
            children.for_each(|child| self.gather(*child, all));
        }
    }
}

/// Reads pages one by one; an unreadable page becomes zeros, which are no valid page.
fn read_singly(file: &PageFile, start: PageNo, piece: &mut [u8]) {
    for (no, bytes) in (start..).zip(piece.chunks_exact_mut(file.page_size())) {
        if file.read_run(Run { start: no, len: 1 }, bytes).is_err() {
            bytes.fill(0);
        }
    }
}

impl Seen {
    fn of(page: Page<'_>, end: PageNo) -> Self {
        let slots = 0..page.len();
        let is_leaf = page.is_leaf();
        let children =
            if is_leaf { Vec::new() } else { slots.clone().map(|i| page.child(i).0).collect() };
        let has_groups = is_leaf
            && (page.flags() & CONTINUES != 0
                || slots.clone().any(|i| page.record(i).value_code() == code::GROUP));
        Self {
            level: page.level(),
            birth: page.birth(),
            flags: page.flags(),
            children,
            records: table_records(page).unwrap_or_default(),
            is_free_space: is_leaf && is_free_space(page, end),
            has_groups,
        }
    }
}

/// The entries of a plain leaf whose keys and values stand in it.
fn plain_entries(page: Page<'_>) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    if !page.is_leaf() || page.flags() != 0 {
        return None;
    }
    let entry = |i: usize| {
        let record = page.record(i);
        let plain = record.is_plain();
        plain.then(|| (record.key_cell().known.to_vec(), record.inline_value().to_vec()))
    };
    (0..page.len()).map(entry).collect()
}

/// The records of a leaf of the catalog; `None` if it is none.
fn table_records(page: Page<'_>) -> Option<Vec<(Vec<u8>, Root, Stored)>> {
    let decoded = |(name, record): (Vec<u8>, Vec<u8>)| {
        let (root, stored) = Stored::decode(&record)?;
        Some((name, root, stored))
    };
    plain_entries(page)?.into_iter().map(decoded).collect()
}

/// Whether all entries are runs inside of the store that do not overlap.
fn is_free_space(page: Page<'_>, end: PageNo) -> bool {
    let Some(entries) = plain_entries(page) else { return false };
    let ready = |(key, value): &(Vec<u8>, Vec<u8>)| ready_entry(key, value);
    let pending = |(key, value): &(Vec<u8>, Vec<u8>)| pending_runs(key, value);
    let inside = |run: &Run| run.start + run.len <= end;
    let apart = |runs: &[Run]| runs.windows(2).all(|two| two[0].start + two[0].len < two[1].start);
    let runs: Option<Vec<Run>> = entries.iter().map(ready).collect();
    if let Some(runs) = runs {
        return runs.iter().all(inside) && apart(&runs);
    }
    let runs: Option<Vec<Vec<Run>>> = entries.iter().map(pending).collect();
    runs.is_some_and(|runs| runs.iter().flatten().all(inside))
}
