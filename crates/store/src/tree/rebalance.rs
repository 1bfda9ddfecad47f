//! Making room and closing gaps: the entries of a few neighbouring pages are laid out anew over as
//! many pages as they need, and the parent is told. Splits, shifts to a sibling, merges and the
//! removal of empty pages are all this one operation.
//!
//! A full leaf first shares with a sibling that has room; only if both are full are two or three
//! leaves made into three or four (the B*-tree of Knuth, volume 3, 6.2.4). Random inserts so fill
//! leaves to more than four fifths instead of the usual 69 %.

use super::Count;
use super::page::build::{
    Child, Pair, Sizes, branch_len, build_branch, build_leaf, build_leaf_sharing, put_single,
};
use super::page::leaf::{RestCell, single_len};
use super::page::records::Records;
use super::page::{KeyCell, Page, PageMut, Record, ValueCell, max_inline_key};
use super::pages::{Buffer, ExtentRef, PageRef, Pages, WritePages};
use super::path::{Path, Step};
use super::tree::{MAX_LEVELS, Tree, lower, raise};
use super::{Bytes, extent};
use crate::canary::{Bug, is_planted};
use crate::{Error, Result};

/// What is to be different in the leaf that is laid out anew.
#[derive(Clone, Copy)]
pub(crate) enum Change<'a> {
    /// Nothing.
    None,
    /// A pair as a group of its own before `slot`, or before value `value` of group `slot`.
    Insert { slot: usize, value: Option<usize>, pair: Pair<'a> },
    /// Another value for the only one of `slot`.
    Replace { slot: usize, value: ValueCell<'a> },
}

impl Change<'_> {
    /// Whether the change concerns this slot.
    #[inline(always)]
    fn is_at(&self, slot: usize) -> bool {
        match self {
            Self::None => false,
            Self::Insert { slot: at, .. } | Self::Replace { slot: at, .. } => *at == slot,
        }
    }
}

/// A separator on its way into a branch.
pub(crate) struct Separator {
    key: Vec<u8>,
    /// Where the whole key stands, if `key` is only the known part.
    extent: Option<ExtentRef>,
    value: Option<Vec<u8>>,
}

/// A child that takes part of the place of others.
pub(crate) struct NewChild {
    /// `None`: that of the first child it replaces.
    separator: Option<Separator>,
    page: PageRef,
    count: Count,
}

/// New children for old ones.
pub(crate) struct Swap {
    window: Window,
    new: Vec<NewChild>,
    /// The extent of an old separator that is still in use elsewhere.
    moved: Option<ExtentRef>,
}

/// Some neighbouring children of one branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    first: usize,
    len: usize,
}

/// A leaf that is fuller than this shares of its page is not worth sharing with.
const WORTH_SHARING: usize = 6;

/// Lays the leaf at the end of `path` out anew together with some of its siblings. All pages of the
/// path must be changed ones. `delta` is what the change adds to the counters. Unless the leaf is
/// known to be `full` it may turn out to have room, once its shared bytes are chosen anew.
pub(crate) fn spread_leaf(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &mut Path,
    change: Change<'_>,
    full: bool,
    delta: Count,
) -> Result<()> {
    let alone = Window { first: slot_above(path, 0), len: 1 };
    let at_end = is_at_end(pages, path, &change)?;
    let full = full && !(at_end && may_share_more(pages, tree, path, &change)?);
    let (window, wanted) = if !full && fits_alone(pages, tree, path, change)? {
        (alone, 1)
    } else if at_end {
        if let Change::Insert { value: None, pair, .. } = change {
            return add_leaf(pages, tree, path, &pair, delta);
        }
        (alone, 2)
    } else {
        choose_window(pages, path)?
    };
    let spread = lay_out(pages, tree, path, window, change, wanted)?;
    raise(&mut tree.root.leaf_pages, spread.len() as u64);
    lower(&mut tree.root.leaf_pages, window.len as u64);
    replace_children(pages, tree, path, 1, Swap { window, new: spread, moved: None }, delta)
}

/// Whether the leaf has room after all, once its shared bytes are chosen anew.
fn fits_alone(pages: &WritePages, tree: &Tree, path: &Path, change: Change<'_>) -> Result<bool> {
    let (at, page_size) = (path.steps[0].page, pages.page_size());
    let own = Alone::of(pages.page(at, 0)?, &change, tree);
    if let Some(records) = gather(pages, tree, &[at], at, &own)? {
        return Ok(records.leaf_len(0..records.len()) <= page_size);
    }
    let mut pairs = Vec::with_capacity(128);
    collect(pages.page(at, 0)?, change, &mut pairs);
    Ok(Sizes::new(&pairs, &tree.form, page_size).leaf_len(0..pairs.len()) <= page_size)
}

/// Whether the change adds a pair behind all others of the tree.
fn is_at_end(pages: &WritePages, path: &Path, change: &Change<'_>) -> Result<bool> {
    let Change::Insert { slot, value, .. } = change else { return Ok(false) };
    for level in 1..path.depth {
        let step = path.steps[level];
        if step.slot as usize + 1 != pages.page(step.page, level as u8)?.len() {
            return Ok(false);
        }
    }
    let leaf = pages.page(path.steps[0].page, 0)?;
    Ok(match value {
        None => *slot == leaf.len(),
        Some(at) => *slot + 1 == leaf.len() && *at == leaf.record(*slot).value_count(),
    })
}

/// Whether the keys of a leaf, with the one that is put behind them, share more than it has taken
/// off them: a leaf that was begun by [`add_leaf`] had to guess that.
fn may_share_more(
    pages: &WritePages,
    tree: &Tree,
    path: &Path,
    change: &Change<'_>,
) -> Result<bool> {
    let Change::Insert { pair, .. } = change else { return Ok(false) };
    let leaf = pages.page(path.steps[0].page, 0)?;
    let first = leaf.leaf_record(0).key_cell();
    let shared = tree.form.keys.shared(&first.known, &pair.key.known);
    Ok(shared.min(max_inline_key(pages.page_size())) > leaf.shared().len())
}

/// The slot of the path in the branch above `level`; 0 if there is none.
fn slot_above(path: &Path, level: usize) -> usize {
    if level + 1 < path.depth { path.steps[level + 1].slot as usize } else { 0 }
}

/// Which siblings a full leaf shares with, and over how many leaves.
fn choose_window(pages: &WritePages, path: &Path) -> Result<(Window, usize)> {
    if path.depth < 2 {
        return Ok((Window { first: 0, len: 1 }, 2));
    }
    let parent = pages.page(path.steps[1].page, 1)?;
    let at = path.steps[1].slot as usize;
    let free = |slot: usize| -> Result<usize> { Ok(pages.page(parent.child(slot), 0)?.free()) };
    let left = if at > 0 { free(at - 1)? } else { 0 };
    let right = if at + 1 < parent.len() { free(at + 1)? } else { 0 };
    if left.max(right) >= pages.page_size() / WORTH_SHARING {
        let first = if left >= right { at - 1 } else { at };
        return Ok((Window { first, len: 2 }, 2));
    }
    let first = at.saturating_sub(1);
    let len = (at + 2).min(parent.len()) - first;
    Ok((Window { first, len }, len + 1))
}

/// A leaf that was built, and its separator (none: that of the first leaf of the window).
type Built = (Option<Separator>, Buffer, Count);

const TOO_LARGE: &str = "an entry does not fit in a page";

/// Cuts the entries of the window's leaves, with the change made, into at least `wanted` leaves and
/// builds those. The window's leaves are released.
fn lay_out(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &Path,
    window: Window,
    change: Change<'_>,
    wanted: usize,
) -> Result<Vec<NewChild>> {
    let (old, changed) = (window_pages(pages, path, window)?, path.steps[0].page);
    let own = Alone::of(pages.page(changed, 0)?, &change, tree);
    let built = match gather(pages, tree, &old, changed, &own)? {
        Some(records) => build_records(pages, tree, &records, wanted, old[0])?,
        None => build_pairs(pages, tree, &old, changed, change, wanted)?,
    };
    let mut children = Vec::with_capacity(built.len());
    let mut old = old.into_iter();
    for (separator, buffer, count) in built {
        let separator = separator.map(|s| s.shorten_long(pages)).transpose()?;
        let page = match old.next() {
            Some(at) => pages.replace(at, 0, buffer)?,
            None => pages.place(buffer),
        };
        children.push(NewChild { separator, page, count });
    }
    for at in old {
        pages.release(at, 0)?;
    }
    Ok(children)
}

/// A change as a record that takes the place of some slots of its leaf.
struct Alone {
    record: Vec<u8>,
    key_len: usize,
    slots: std::ops::Range<usize>,
}

impl Alone {
    /// `None` if it is none of a record with one value and a key that stands in the page.
    fn of(page: Page<'_>, change: &Change<'_>, tree: &Tree) -> Option<Self> {
        let (key, value, slots) = match *change {
            Change::None => return Some(Self { record: Vec::new(), key_len: 0, slots: 0..0 }),
            Change::Insert { slot, value: None, pair } => (pair.key, pair.value, slot..slot),
            Change::Insert { .. } => return None,
            Change::Replace { slot, value } => {
                (page.leaf_record(slot).key_cell(), value, slot..slot + 1)
            }
        };
        if key.extent.is_some() {
            return None;
        }
        let (key_len, cell) = (key.known.len(), RestCell::of(&key, 0, &tree.form.keys));
        let mut record = vec![0; cell.len() + single_len(&value)];
        put_single(&mut record, 0, &cell, &value);
        Some(Self { record, key_len, slots })
    }
}

/// The records of some leaves, with the change `own` made in one of them; `None` if some are not
/// of the usual kind.
fn gather<'p>(
    pages: &'p WritePages,
    tree: &'p Tree,
    leaves: &[PageRef],
    changed: PageRef,
    own: &'p Option<Alone>,
) -> Result<Option<Records<'p>>> {
    let (Some(own), Some(mut records)) = (own, Records::new(&tree.form, pages.page_size())) else {
        return Ok(None);
    };
    for at in leaves {
        let page = pages.page(*at, 0)?;
        let all = 0..page.len();
        let usual = if *at != changed || own.record.is_empty() {
            records.add(page, all)
        } else {
            let before = records.add(page, 0..own.slots.start);
            records.add_alone(&own.record, own.key_len);
            before && records.add(page, own.slots.end..all.end)
        };
        if !usual {
            return Ok(None);
        }
    }
    Ok(Some(records))
}

/// Builds at least `wanted` leaves of records.
fn build_records(
    pages: &WritePages,
    tree: &Tree,
    records: &Records<'_>,
    wanted: usize,
    damaged: PageRef,
) -> Result<Vec<Built>> {
    let cuts = (wanted..=records.len()).find_map(|leaves| records.cut(leaves));
    let cuts = cuts.ok_or_else(|| Error::argument(TOO_LARGE))?;
    let mut built = Vec::with_capacity(cuts.len() + 1);
    let mut from = 0;
    for to in cuts.into_iter().chain([records.len()]) {
        let separator = (from > 0).then(|| {
            let key = shortest(&tree.form.keys, &records.key(from - 1), &records.key(from));
            Separator { key: key.to_vec(), extent: None, value: None }
        });
        let mut buffer = pages.new_buffer()?;
        let count = records.build(from..to, buffer.bytes_mut());
        built.push((separator, buffer, count.map_err(|why| pages.corrupt(damaged, why))?));
        from = to;
    }
    Ok(built)
}

/// Builds at least `wanted` leaves of whatever entries some leaves have, with the change made.
fn build_pairs(
    pages: &mut WritePages,
    tree: &mut Tree,
    old: &[PageRef],
    changed: PageRef,
    change: Change<'_>,
    wanted: usize,
) -> Result<Vec<Built>> {
    let mut built = Vec::with_capacity(wanted);
    let long = {
        let mut pairs = Vec::with_capacity(256);
        for at in old {
            let change = if *at == changed { change } else { Change::None };
            collect(pages.page(*at, 0)?, change, &mut pairs);
        }
        let sizes = Sizes::new(&pairs, &tree.form, pages.page_size());
        let cuts = (wanted..=pairs.len()).find_map(|leaves| sizes.cut(leaves));
        let cuts = cuts.ok_or_else(|| Error::argument(TOO_LARGE))?;
        let long = LongKeys::of(&pairs, &cuts);
        let mut from = 0;
        for to in cuts.into_iter().chain([pairs.len()]) {
            let separator = match from {
                0 => None,
                _ => Some(separate(pages, tree, &pairs[from - 1], &pairs[from])?),
            };
            let mut buffer = pages.new_buffer()?;
            let count = build_leaf(buffer.bytes_mut(), &pairs[from..to], &tree.form)
                .map_err(|why| pages.corrupt(old[0], why))?;
            built.push((separator, buffer, count));
            from = to;
        }
        long
    };
    for (leaf, shared) in &long.copied {
        let own = long.copy(pages, tree, shared)?;
        PageMut::new(built[*leaf].1.bytes_mut()).set_key_extent(0, &own);
    }
    long.free_dropped(pages, tree)?;
    Ok(built)
}

/// What becomes of the extents of long keys with several values: each leaf that has some of the
/// values refers to an extent of its own.
#[derive(Default)]
struct LongKeys {
    /// Leaves whose first group goes on with a key, and the extent that the leaf before keeps.
    copied: Vec<(usize, ExtentRef)>,
    /// Extents of groups that became part of the one before.
    dropped: Vec<ExtentRef>,
}

impl LongKeys {
    fn of(pairs: &[Pair<'_>], cuts: &[usize]) -> Self {
        let mut found = Self::default();
        if pairs.iter().all(|pair| pair.key.extent.is_none()) {
            return found;
        }
        let (mut leaf, mut kept) = (0, None);
        for (i, pair) in pairs.iter().enumerate() {
            let cut = cuts.get(leaf) == Some(&i);
            leaf += usize::from(cut);
            let Some(extent) = pair.key.extent else { continue };
            let begins = i == 0 || cut || pair.starts;
            if begins && kept == Some(extent) {
                found.copied.push((leaf, extent));
            } else if begins {
                // Cut again further on, it is of use after all.
                found.dropped.pop_if(|dropped| *dropped == extent);
                kept = Some(extent);
            } else if kept != Some(extent) && found.dropped.last() != Some(&extent) {
                found.dropped.push(extent);
            }
        }
        found
    }

    fn copy(
        &self,
        pages: &mut WritePages,
        tree: &mut Tree,
        shared: &ExtentRef,
    ) -> Result<ExtentRef> {
        let key = pages.extent(shared)?.to_vec();
        let own = extent::store(pages, &key)?;
        raise(
            &mut tree.root.overflow_pages,
            u64::from(extent::run_of(&own, pages.page_size()).len),
        );
        Ok(own)
    }

    fn free_dropped(&self, pages: &mut WritePages, tree: &mut Tree) -> Result<()> {
        for gone in &self.dropped {
            extent::free(pages, gone)?;
            lower(
                &mut tree.root.overflow_pages,
                u64::from(extent::run_of(gone, pages.page_size()).len),
            );
        }
        Ok(())
    }
}

/// The leaves of a window.
fn window_pages(pages: &WritePages, path: &Path, window: Window) -> Result<Vec<PageRef>> {
    if path.depth < 2 {
        return Ok(vec![path.steps[0].page]);
    }
    let parent = pages.page(path.steps[1].page, 1)?;
    Ok((window.first..window.first + window.len).map(|slot| parent.child(slot)).collect())
}

/// Adds the pairs of a leaf, changed, to a list.
pub(crate) fn collect<'a>(page: Page<'a>, change: Change<'a>, pairs: &mut Vec<Pair<'a>>) {
    for slot in 0..page.len() {
        let record = page.leaf_record(slot);
        let starts = slot > 0 || !page.continues();
        if record.is_plain() && !change.is_at(slot) {
            let value = ValueCell::Inline(Bytes::from(record.inline_value()));
            pairs.push(Pair { key: record.key_cell(), value, starts });
            continue;
        }
        match change {
            Change::Insert { slot: at, value: None, pair } if at == slot => {
                pairs.push(pair);
                collect_record(&record, true, None, pairs);
            }
            Change::Insert { slot: at, value: Some(value), pair } if at == slot => {
                collect_record(&record, starts, Some((value, pair)), pairs);
            }
            Change::Replace { slot: at, value } if at == slot => {
                pairs.push(Pair { key: record.key_cell(), value, starts });
            }
            _ => collect_record(&record, starts, None, pairs),
        }
    }
    if let Change::Insert { slot, value: None, pair } = change
        && slot == page.len()
    {
        pairs.push(pair);
    }
}

fn collect_record<'a>(
    record: &Record<'a>,
    mut starts: bool,
    insert: Option<(usize, Pair<'a>)>,
    pairs: &mut Vec<Pair<'a>>,
) {
    let key = record.key_cell();
    let n = record.value_count();
    let total = n + usize::from(insert.is_some());
    for i in 0..total {
        let value = match insert {
            Some((at, pair)) if at == i => pair.value,
            Some((at, _)) if at < i => record.value(i - 1),
            _ => record.value(i),
        };
        pairs.push(Pair { key, value, starts });
        starts = false;
    }
}

/// A pair behind all others gets a leaf of its own, and the full one stays full.
fn add_leaf(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &mut Path,
    pair: &Pair<'_>,
    delta: Count,
) -> Result<()> {
    let old = path.steps[0].page;
    let page = pages.changed(old);
    let last = page.leaf_record(page.len() - 1);
    let left = Pair { key: last.key_cell(), value: last.value(0), starts: true };
    let separator = separate(pages, tree, &left, pair)?;
    // Keys to come will share about as much with this one as it does with those of the full leaf.
    let first = page.leaf_record(0).key_cell();
    let most = tree.form.keys.shared(&first.known, &pair.key.known);
    let count = page.leaf_count(tree.form.values.is_some());
    let mut buffer = pages.new_buffer()?;
    let own = build_leaf_sharing(buffer.bytes_mut(), std::slice::from_ref(pair), &tree.form, most)
        .map_err(|why| pages.corrupt(old, why))?;
    let separator = separator.shorten_long(pages)?;
    let new = vec![
        NewChild { separator: None, page: old, count },
        NewChild { separator: Some(separator), page: pages.place(buffer), count: own },
    ];
    raise(&mut tree.root.leaf_pages, 1);
    let window = Window { first: slot_above(path, 0), len: 1 };
    replace_children(pages, tree, path, 1, Swap { window, new, moved: None }, delta)
}

/// The shortest separator between two neighbouring pairs.
fn separate(
    pages: &WritePages,
    tree: &Tree,
    left: &Pair<'_>,
    right: &Pair<'_>,
) -> Result<Separator> {
    use super::order::KeyOrder;
    let whole = |key: &KeyCell<'_>| -> Result<Vec<u8>> {
        match &key.extent {
            Some(extent) => Ok(pages.extent(extent)?.to_vec()),
            None => Ok(key.known.to_vec()),
        }
    };
    let right_key = whole(&right.key)?;
    if !right.starts {
        let order = tree.form.values.as_ref().unwrap_or(&KeyOrder::Bytewise);
        let (ValueCell::Inline(a), ValueCell::Inline(b)) = (left.value, right.value) else {
            return Err(Error::Argument { reason: "a long value among duplicates".to_owned() });
        };
        let value = shortest(order, &a, &b).to_vec();
        return Ok(Separator { key: right_key, extent: None, value: Some(value) });
    }
    let left_key = whole(&left.key)?;
    let key = shortest(&tree.form.keys, &Bytes::from(&left_key[..]), &Bytes::from(&right_key[..]));
    Ok(Separator { key: key.to_vec(), extent: None, value: None })
}

/// The shortest string that is after `left` and not after `right`.
pub(crate) fn shortest<'a>(
    order: &super::order::KeyOrder,
    left: &Bytes<'_>,
    right: &Bytes<'a>,
) -> Bytes<'a> {
    use super::order::KeyOrder;
    let len = right.len();
    let keep = (order.shared(left, right) + 1).min(len);
    match order {
        KeyOrder::Bytewise => right.sub(0, keep),
        KeyOrder::Reverse => right.sub(len - keep, len),
        KeyOrder::Custom(_) => *right,
    }
}

impl Separator {
    /// Moves a key that is too long for a page into an extent.
    fn shorten_long(mut self, pages: &mut WritePages) -> Result<Self> {
        if self.extent.is_none() && self.key.len() > max_inline_key(pages.page_size()) {
            self.extent = Some(extent::store(pages, &self.key)?);
        }
        Ok(self)
    }

    fn of(record: &Record<'_>) -> Self {
        let cell = record.key_cell();
        let value = (record.value_code() > 0).then(|| record.separator_value().to_vec());
        Self { key: cell.known.to_vec(), extent: cell.extent, value }
    }

    /// What it takes in a branch that shares `shared` bytes, at most.
    fn cell_len(&self, shared: usize) -> usize {
        self.key.len().saturating_sub(shared) + 4 + self.value.as_ref().map_or(0, Vec::len)
    }

    fn cell(&self) -> KeyCell<'_> {
        KeyCell { known: Bytes::from(&self.key[..]), extent: self.extent }
    }
}

/// Puts `new` in the place of the children of a window of the branch at `level`, splitting,
/// merging or removing branches on the way up; adds `delta` to the counters above.
pub(crate) fn replace_children(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &mut Path,
    mut level: usize,
    mut swap: Swap,
    delta: Count,
) -> Result<()> {
    loop {
        if level == path.depth {
            return new_root(pages, tree, path, swap.new);
        }
        let whole = swap.window.len == branch(pages, path, level)?.len();
        let shrinks = swap.new.len() < swap.window.len;
        let new = if swap.new.is_empty() && whole {
            // The branch would be empty: it goes too.
            let gone = dropped_extents(&children_of(branch(pages, path, level)?), &swap);
            free_extents(pages, &gone)?;
            pages.release(path.steps[level].page, level as u8)?;
            lower(&mut tree.root.branch_pages, 1);
            Vec::new()
        } else {
            match rebuild_branch(pages, tree, path, level, swap)? {
                None => {
                    add_above(pages, path, level, delta);
                    return if shrinks { close_gap(pages, tree, path, level) } else { Ok(()) };
                }
                Some(halves) => halves,
            }
        };
        let window = Window { first: slot_above(path, level), len: 1 };
        swap = Swap { window, new, moved: None };
        level += 1;
    }
}

fn branch<'p>(pages: &'p WritePages, path: &Path, level: usize) -> Result<Page<'p>> {
    pages.page(path.steps[level].page, level as u8)
}

/// Adds to the counters of the branches above `level`.
pub(crate) fn add_above(pages: &mut WritePages, path: &Path, level: usize, delta: Count) {
    if is_planted(Bug::CounterNotRaised) {
        return;
    }
    for step in &path.steps[level + 1..path.depth] {
        pages.change(step.page).add_child_count(step.slot as usize, delta);
    }
}

/// The tree's root was replaced by `new`.
fn new_root(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &mut Path,
    new: Vec<NewChild>,
) -> Result<()> {
    match &new[..] {
        [] => {
            tree.root.page = PageRef::NONE;
            tree.root.level = 0;
            return Ok(());
        }
        [only] => {
            tree.root.page = only.page;
            return Ok(());
        }
        _ => {}
    }
    let level = path.depth;
    if level + 1 >= MAX_LEVELS {
        return Err(Error::Argument { reason: "the tree has too many levels".to_owned() });
    }
    let children = new_children(&new, None);
    let mut buffer = pages.new_buffer()?;
    build_branch(buffer.bytes_mut(), &children, &tree.form, level as u8)
        .map_err(|why| pages.corrupt(tree.root.page, why))?;
    drop(children);
    tree.root.page = pages.place(buffer);
    tree.root.level = level as u8;
    raise(&mut tree.root.branch_pages, 1);
    path.steps[level] = Step { page: tree.root.page, slot: 0 };
    path.depth += 1;
    Ok(())
}

fn new_children<'n>(new: &'n [NewChild], first: Option<Child<'n>>) -> Vec<Child<'n>> {
    let none = KeyCell { known: Bytes::default(), extent: None };
    new.iter()
        .map(|child| {
            let (separator, value) = match (&child.separator, &first) {
                (Some(s), _) => (s.cell(), s.value.as_deref()),
                (None, Some(first)) => (first.separator, first.value),
                (None, None) => (none, None),
            };
            Child { separator, value, page: child.page, count: child.count }
        })
        .collect()
}

/// The children of a branch as a list.
pub(crate) fn children_of(page: Page<'_>) -> Vec<Child<'_>> {
    (0..page.len())
        .map(|i| {
            let record = page.record(i);
            let value = (record.value_code() > 0).then(|| record.separator_value());
            let separator = record.key_cell();
            Child { separator, value, page: page.child(i), count: page.child_count(i) }
        })
        .collect()
}

/// Writes the branch at `level` with the window replaced. If that does not fit, two branches are
/// built and returned for the level above.
fn rebuild_branch(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &Path,
    level: usize,
    swap: Swap,
) -> Result<Option<Vec<NewChild>>> {
    let at = path.steps[level].page;
    if swap.new.len() >= swap.window.len && swap_in_place(pages, tree, at, &swap)? {
        return Ok(None);
    }
    let page = branch(pages, path, level)?;
    let mut children = children_of(page);
    let dropped = dropped_extents(&children, &swap);
    let window = swap.window;
    let first = children[window.first];
    let range = window.first..window.first + window.len;
    children.splice(range, new_children(&swap.new, Some(first)));
    let page_size = pages.page_size();
    let mut buffer = pages.new_buffer()?;
    let corrupt = |why| pages.corrupt(at, why);
    if branch_len(&children, &tree.form, level as u8, page_size) <= page_size {
        build_branch(buffer.bytes_mut(), &children, &tree.form, level as u8).map_err(corrupt)?;
        drop(children);
        pages.replace(at, level as u8, buffer)?;
        free_extents(pages, &dropped)?;
        return Ok(None);
    }
    let appends = window.first + window.len == page.len();
    let cut = cut_branch(&children, tree, level as u8, page_size, appends);
    let right = &children[cut];
    let separator = Separator {
        key: right.separator.known.to_vec(),
        extent: right.separator.extent,
        value: right.value.map(<[u8]>::to_vec),
    };
    let count = build_branch(buffer.bytes_mut(), &children[..cut], &tree.form, level as u8)
        .map_err(corrupt)?;
    let mut other = pages.new_buffer()?;
    let other_count = build_branch(other.bytes_mut(), &children[cut..], &tree.form, level as u8)
        .map_err(corrupt)?;
    drop(children);
    let page = pages.replace(at, level as u8, buffer)?;
    let other = pages.place(other);
    raise(&mut tree.root.branch_pages, 1);
    free_extents(pages, &dropped)?;
    Ok(Some(vec![
        NewChild { separator: None, page, count },
        NewChild { separator: Some(separator), page: other, count: other_count },
    ]))
}

/// Replaces the window without building the branch anew, if the new separators have what the
/// others share and there is room. False, and no change, otherwise.
fn swap_in_place(pages: &mut WritePages, tree: &Tree, at: PageRef, swap: &Swap) -> Result<bool> {
    let page = pages.changed(at);
    let Window { first, len } = swap.window;
    let shared = page.shared();
    // What the heap grows by while one separator after the other is written.
    let mut growth = 0;
    for (i, separator) in (first..).zip(swap.new.iter().map(|child| &child.separator)).skip(1) {
        let Some(separator) = separator else { continue };
        if separator.extent.is_some() || tree.form.keys.strip(&separator.key, shared).is_none() {
            return Ok(false);
        }
        let old = if i < first + len { page.record(i).len() } else { 0 };
        growth += separator.cell_len(shared.len()).saturating_sub(old);
    }
    let slots = (swap.new.len() - len) * page.slot_len();
    let has_extents = (first + 1..first + len).any(|i| page.record(i).is_long_key());
    if has_extents || growth + slots > page.free() || page.len() < 2 {
        return Ok(false);
    }
    let mut page = pages.change(at);
    for (i, child) in (first..).zip(&swap.new) {
        let is_new = i >= first + len;
        if is_new {
            page.open_child(i);
        }
        if let (true, Some(separator)) = (i > first, &child.separator) {
            let value = separator.value.as_deref();
            page.set_separator(i, &separator.cell(), value, is_new, &tree.form.keys);
        }
        page.set_child(i, child.page);
    }
    page.set_child_counts(first, swap.new.iter().map(|child| child.count));
    Ok(true)
}

/// The extents of separators that are no longer referred to once the window is replaced.
fn dropped_extents(children: &[Child<'_>], swap: &Swap) -> Vec<ExtentRef> {
    let (window, empty) = (swap.window, swap.new.is_empty());
    // The first child's separator stays, unless nothing takes its place. What becomes the first
    // child of the branch needs no separator.
    let from = if empty { window.first } else { window.first + 1 };
    let end = window.first + window.len;
    let mut gone: Vec<_> = children[from..end].iter().filter_map(|c| c.separator.extent).collect();
    if empty && window.first == 0 {
        gone.extend(children.get(end).and_then(|child| child.separator.extent));
    }
    gone.retain(|extent| Some(*extent) != swap.moved);
    gone
}

fn free_extents(pages: &mut WritePages, extents: &[ExtentRef]) -> Result<()> {
    extents.iter().try_for_each(|gone| extent::free(pages, gone))
}

/// Where to cut the children of a branch that is too full: in the middle, or behind all but the
/// last where the tree grows at its end.
fn cut_branch(
    children: &[Child<'_>],
    tree: &Tree,
    level: u8,
    page_size: usize,
    appends: bool,
) -> usize {
    let fits = |part: &[Child<'_>]| branch_len(part, &tree.form, level, page_size) <= page_size;
    let last = children.len() - 1;
    if appends && last >= 2 && fits(&children[..last - 1]) {
        return last - 1;
    }
    let middle = children.len() / 2;
    // Separators differ in length: look for the cut nearest to the middle that fits on both sides.
    (0..middle)
        .flat_map(|d| [middle - d, middle + d])
        .find(|cut| *cut <= last && fits(&children[..*cut]) && fits(&children[*cut..]))
        .unwrap_or(middle)
}

/// After children went away: merges the branch at `level` with a sibling if both are small, and
/// lets the root go while it has a single child.
pub(crate) fn close_gap(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &mut Path,
    level: usize,
) -> Result<()> {
    let page = branch(pages, path, level)?;
    if level + 1 == path.depth {
        return lower_root(pages, tree);
    }
    if page.used() > pages.page_size() / 3 {
        return Ok(());
    }
    let above = branch(pages, path, level + 1)?;
    let at = path.steps[level + 1].slot as usize;
    let pairs = [at.checked_sub(1).map(|l| (l, at)), Some((at, at + 1))];
    for (left, right) in pairs.into_iter().flatten() {
        if right < above.len() && merges(pages, tree, above, level as u8, left)? {
            return merge_branches(pages, tree, path, level, left);
        }
    }
    Ok(())
}

/// The children of two neighbouring branches as one list.
fn joined<'p>(
    pages: &'p WritePages,
    above: Page<'p>,
    level: u8,
    left: usize,
) -> Result<Vec<Child<'p>>> {
    let mut children = children_of(pages.page(above.child(left), level)?);
    let mut right = children_of(pages.page(above.child(left + 1), level)?);
    let record = above.record(left + 1);
    right[0].separator = record.key_cell();
    right[0].value = (record.value_code() > 0).then(|| record.separator_value());
    children.append(&mut right);
    Ok(children)
}

fn merges(
    pages: &WritePages,
    tree: &Tree,
    above: Page<'_>,
    level: u8,
    left: usize,
) -> Result<bool> {
    let children = joined(pages, above, level, left)?;
    Ok(branch_len(&children, &tree.form, level, pages.page_size()) <= pages.page_size() * 9 / 10)
}

fn merge_branches(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &mut Path,
    level: usize,
    left: usize,
) -> Result<()> {
    let above = branch(pages, path, level + 1)?;
    let (a, b) = (above.child(left), above.child(left + 1));
    let children = joined(pages, above, level as u8, left)?;
    let moved = Separator::of(&above.record(left + 1)).extent;
    let mut buffer = pages.new_buffer()?;
    let count = build_branch(buffer.bytes_mut(), &children, &tree.form, level as u8)
        .map_err(|why| pages.corrupt(a, why))?;
    drop(children);
    let page = pages.replace(a, level as u8, buffer)?;
    pages.release(b, level as u8)?;
    lower(&mut tree.root.branch_pages, 1);
    let new = vec![NewChild { separator: None, page, count }];
    let window = Window { first: left, len: 2 };
    // The separator between the two went down into the merged branch: its extent lives on there.
    let swap = Swap { window, new, moved };
    replace_children(pages, tree, path, level + 1, swap, Count::default())
}

/// Lets the root go while it is a branch with one child.
pub(crate) fn lower_root(pages: &mut WritePages, tree: &mut Tree) -> Result<()> {
    while tree.root.level > 0 {
        let page = pages.page(tree.root.page, tree.root.level)?;
        if page.len() > 1 {
            break;
        }
        let child = page.child(0);
        pages.release(tree.root.page, tree.root.level)?;
        tree.root.page = child;
        tree.root.level -= 1;
        lower(&mut tree.root.branch_pages, 1);
    }
    Ok(())
}

/// After a removal: lets an empty leaf go, or merges a small one with a sibling.
pub(crate) fn shrink_leaf(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &mut Path,
    delta: Count,
) -> Result<()> {
    let page = pages.page(path.steps[0].page, 0)?;
    let at = slot_above(path, 0);
    if page.len() == 0 {
        pages.release(path.steps[0].page, 0)?;
        lower(&mut tree.root.leaf_pages, 1);
        let window = Window { first: at, len: 1 };
        let swap = Swap { window, new: Vec::new(), moved: None };
        return replace_children(pages, tree, path, 1, swap, delta);
    }
    if path.depth >= 2 && page.used() < pages.page_size() * 2 / 5 {
        let used = page.used();
        let parent = pages.page(path.steps[1].page, 1)?;
        let limit = pages.page_size() * 9 / 10;
        for slot in [at.checked_sub(1), Some(at + 1)].into_iter().flatten() {
            if slot < parent.len() && pages.page(parent.child(slot), 0)?.used() + used <= limit {
                let window = Window { first: slot.min(at), len: 2 };
                return merge_leaves(pages, tree, path, window, delta);
            }
        }
    }
    add_above(pages, path, 0, delta);
    Ok(())
}

fn merge_leaves(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &mut Path,
    window: Window,
    delta: Count,
) -> Result<()> {
    let merged = lay_out(pages, tree, path, window, Change::None, 1)?;
    raise(&mut tree.root.leaf_pages, merged.len() as u64);
    lower(&mut tree.root.leaf_pages, window.len as u64);
    replace_children(pages, tree, path, 1, Swap { window, new: merged, moved: None }, delta)
}
