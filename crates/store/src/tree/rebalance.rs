//! Making room and closing gaps: the entries of a few neighbouring leaves are laid out anew over as
//! many leaves as they need, and the branch above is told ([`branches`](super::branches)). Splits,
//! shifts to a sibling, merges and the removal of empty leaves are all this one operation.
//!
//! A full leaf first shares with a sibling that has room; only if both are full are two or three
//! leaves made into three or four (the B*-tree of Knuth, volume 3, 6.2.4). Random inserts so fill
//! leaves to more than four fifths instead of the usual 69 %.

use super::branches::{NewChild, Separator, Swap, Window, add_above, replace_children, slot_above};
use super::page::build::{build_leaf, build_leaf_sharing};
use super::page::records::{Alone, Records};
use super::page::search::Extents;
use super::page::size::{Pair, Sizes};
use super::page::{KeyCell, Page, PageMut, Record, RestCell, ValueCell, max_inline_key};
use super::page_ref::{ExtentRef, PAGE_BYTES_MIN, PageRef};
use super::pages::{Buffer, Pages, WritePages};
use super::path::Path;
use super::tree::{Tree, lower, raise};
use super::{Bytes, Count, extent};
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

/// A full leaf that would win less than this share of its page stays as it is.
const WORTH_LAYING_OUT: usize = 16;

/// A leaf that is fuller than this shares of its page is not worth sharing with.
const WORTH_SHARING: usize = 7;

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
    fetch_siblings(pages, path, window)?;
    let parts = if at_end { Parts::Appended(wanted) } else { Parts::Even(wanted) };
    let spread = lay_out(pages, tree, path, window, change, parts)?;
    raise(&mut tree.root.leaf_pages, spread.len() as u64);
    lower(&mut tree.root.leaf_pages, window.len as u64);
    tree.note_leaves();
    replace_children(pages, tree, path, 1, Swap { window, new: spread, moved: None }, delta)
}

/// Whether the leaf has room after all, once its shared bytes are chosen anew.
fn fits_alone(pages: &WritePages, tree: &Tree, path: &Path, change: Change<'_>) -> Result<bool> {
    let (at, page_size) = (path.steps[0].page, pages.page_size());
    let own = Own::of(pages.page(at, 0)?, &change, tree);
    if let Some(records) = gather(pages, tree, &[at], at, &own)? {
        return Ok(records.leaf_len(0..records.len()) <= page_size);
    }
    let mut pairs = Vec::with_capacity(128);
    collect(pages.page(at, 0)?, change, &mut pairs);
    Ok(Sizes::new(&pairs, &tree.form, page_size).leaf_len(0..pairs.len()) <= page_size)
}

/// Whether the change adds a pair after all others of the tree.
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

/// Whether the keys of a leaf, with the one that is added after them, share so many bytes more than
/// the leaf stores as shared that laying it out anew is worth it: a leaf that was begun by
/// [`add_leaf`] had to guess that.
fn may_share_more(
    pages: &WritePages,
    tree: &Tree,
    path: &Path,
    change: &Change<'_>,
) -> Result<bool> {
    let Change::Insert { pair, .. } = change else { return Ok(false) };
    let leaf = pages.page(path.steps[0].page, 0)?;
    let first = leaf.leaf_record(0).key_cell();
    let shared = tree.form.shared_of_keys(&first.known, &pair.key.known);
    let shared = shared.min(max_inline_key(pages.page_size()));
    let more = shared.saturating_sub(leaf.shared().len()) * leaf.len();
    Ok(more >= pages.page_size() / WORTH_LAYING_OUT)
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

/// Has the processor fetch the leaves that are laid out anew with the one at the end of `path`:
/// nearly all of their bytes are read, and neither is likely to be in a cache.
fn fetch_siblings(pages: &WritePages, path: &Path, window: Window) -> Result<()> {
    let own = slot_above(path, 0);
    if window.len > 1 {
        let parent = pages.page(path.steps[1].page, 1)?;
        let siblings = (window.first..window.first + window.len).filter(|slot| *slot != own);
        siblings.for_each(|slot| pages.fetch(parent.child(slot), 0..PAGE_BYTES_MIN));
    }
    Ok(())
}

/// A leaf that was built, and its separator (none: that of the first leaf of the window).
type Built = (Option<Separator>, Buffer, Count);

const TOO_LARGE: &str = "an entry does not fit in a page";

/// Into how many leaves, at least, entries are laid out.
#[derive(Clone, Copy)]
enum Parts {
    /// All about as full as each other.
    Even(usize),
    /// The same, but a value that was added after all others leaves the leaf before full.
    Appended(usize),
}

/// Cuts the entries of the window's leaves, with the change made, and builds the leaves. The
/// window's leaves are released.
fn lay_out(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &Path,
    window: Window,
    change: Change<'_>,
    parts: Parts,
) -> Result<Vec<NewChild>> {
    let (old, changed) = (window_pages(pages, path, window)?, path.steps[0].page);
    let own = Own::of(pages.page(changed, 0)?, &change, tree);
    let built = match gather(pages, tree, &old, changed, &own)? {
        Some(records) => build_records(pages, tree, &records, parts, old[0])?,
        None => build_pairs(pages, tree, &old, changed, change, parts)?,
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

/// A change as a record, or none, that takes the place of some slots of its leaf.
struct Own {
    record: Option<Alone>,
    slots: std::ops::Range<usize>,
}

impl Own {
    /// `None` if it is none of a record with one value and a key that stands in the page.
    fn of(page: Page<'_>, change: &Change<'_>, tree: &Tree) -> Option<Self> {
        let (key, value, slots) = match *change {
            Change::None => return Some(Self { record: None, slots: 0..0 }),
            Change::Insert { slot, value: None, pair } => (pair.key, pair.value, slot..slot),
            Change::Insert { .. } => return None,
            Change::Replace { slot, value } => {
                (page.leaf_record(slot).key_cell(), value, slot..slot + 1)
            }
        };
        if key.extent.is_some() {
            return None;
        }
        let cell = RestCell::of(&key, 0, &tree.form.keys);
        Some(Self { record: Some(Alone::of(tree.form.layout(), &cell, &value)), slots })
    }
}

/// The records of some leaves, with the change `own` made in one of them; `None` if some are not
/// of the usual kind.
fn gather<'p>(
    pages: &'p WritePages,
    tree: &'p Tree,
    leaves: &[PageRef],
    changed: PageRef,
    own: &'p Option<Own>,
) -> Result<Option<Records<'p>>> {
    let (Some(own), Some(mut records)) = (own, Records::new(&tree.form, pages.page_size())) else {
        return Ok(None);
    };
    for at in leaves {
        let page = pages.page(*at, 0)?;
        let all = 0..page.len();
        let usual = match &own.record {
            Some(alone) if *at == changed => {
                let before = records.add(page, 0..own.slots.start);
                records.add_alone(alone);
                before && records.add(page, own.slots.end..all.end)
            }
            _ => records.add(page, all),
        };
        if !usual {
            return Ok(None);
        }
    }
    Ok(Some(records))
}

/// Builds leaves of records.
fn build_records(
    pages: &WritePages,
    tree: &Tree,
    records: &Records<'_>,
    parts: Parts,
    damaged: PageRef,
) -> Result<Vec<Built>> {
    let (Parts::Even(wanted) | Parts::Appended(wanted)) = parts;
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

/// Builds leaves of whatever entries some leaves have, with the change made.
fn build_pairs(
    pages: &mut WritePages,
    tree: &mut Tree,
    old: &[PageRef],
    changed: PageRef,
    change: Change<'_>,
    parts: Parts,
) -> Result<Vec<Built>> {
    let (Parts::Even(wanted) | Parts::Appended(wanted)) = parts;
    let mut built = Vec::with_capacity(wanted);
    let long = {
        let mut pairs = Vec::with_capacity(256);
        for at in old {
            let change = if *at == changed { change } else { Change::None };
            collect(pages.page(*at, 0)?, change, &mut pairs);
        }
        let sizes = Sizes::new(&pairs, &tree.form, pages.page_size());
        let appended = match parts {
            Parts::Appended(2) => sizes.cut_appended(),
            _ => None,
        };
        let even = || (wanted..=pairs.len()).find_map(|leaves| sizes.cut(leaves));
        let cuts = appended.or_else(even).ok_or_else(|| Error::argument(TOO_LARGE))?;
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

/// A pair after all others gets a leaf of its own, and the full one stays full.
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
    let most = tree.form.shared_of_keys(&first.known, &pair.key.known);
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
    let right_key = whole_key(pages, &right.key)?;
    if !right.starts {
        let order = tree.form.values.as_ref().unwrap_or(&KeyOrder::Bytewise);
        let (ValueCell::Inline(a), ValueCell::Inline(b)) = (left.value, right.value) else {
            return Err(Error::Argument { reason: "a long value among duplicates".to_owned() });
        };
        let value = shortest(order, &a, &b).to_vec();
        return Ok(Separator { key: right_key.to_vec(), extent: None, value: Some(value) });
    }
    let left_key = whole_key(pages, &left.key)?;
    let key = shortest(&tree.form.keys, &left_key, &right_key).to_vec();
    Ok(Separator { key, extent: None, value: None })
}

/// The bytes of a key, wherever it stands.
fn whole_key<'p>(pages: &'p WritePages, key: &KeyCell<'p>) -> Result<Bytes<'p>> {
    match &key.extent {
        Some(extent) => pages.extent(extent).map(Bytes::from),
        None => Ok(key.known),
    }
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

/// A leaf of which `used` bytes are used and the sibling with which it is to be merged: if the leaf
/// is less than two fifths full, and the sibling has room.
#[inline(always)]
pub(crate) fn to_merge(pages: &WritePages, path: &Path, used: usize) -> Result<Option<Window>> {
    match path.depth >= 2 && used < pages.page_size() * 2 / 5 {
        true => with_room(pages, path, used),
        false => Ok(None),
    }
}

/// A leaf and a sibling that have room in one leaf.
fn with_room(pages: &WritePages, path: &Path, used: usize) -> Result<Option<Window>> {
    let (at, parent) = (slot_above(path, 0), pages.page(path.steps[1].page, 1)?);
    let limit = pages.page_size() * 9 / 10;
    for slot in [at.checked_sub(1), Some(at + 1)].into_iter().flatten() {
        if slot < parent.len() && pages.page(parent.child(slot), 0)?.used() + used <= limit {
            return Ok(Some(Window { first: slot.min(at), len: 2 }));
        }
    }
    Ok(None)
}

/// After a removal: lets an empty leaf go, or merges a small one with a sibling. True if neither
/// was done.
pub(crate) fn shrink_leaf(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &mut Path,
    delta: Count,
) -> Result<bool> {
    let page = pages.page(path.steps[0].page, 0)?;
    if page.len() == 0 {
        pages.release(path.steps[0].page, 0)?;
        lower(&mut tree.root.leaf_pages, 1);
        let window = Window { first: slot_above(path, 0), len: 1 };
        let swap = Swap { window, new: Vec::new(), moved: None };
        return replace_children(pages, tree, path, 1, swap, delta).map(|()| false);
    }
    if let Some(window) = to_merge(pages, path, page.used())? {
        return merge_leaves(pages, tree, path, window, delta).map(|()| false);
    }
    add_above(pages, path, 0, delta);
    Ok(true)
}

fn merge_leaves(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &mut Path,
    window: Window,
    delta: Count,
) -> Result<()> {
    let merged = lay_out(pages, tree, path, window, Change::None, Parts::Even(1))?;
    raise(&mut tree.root.leaf_pages, merged.len() as u64);
    lower(&mut tree.root.leaf_pages, window.len as u64);
    replace_children(pages, tree, path, 1, Swap { window, new: merged, moved: None }, delta)
}
