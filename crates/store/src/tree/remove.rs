//! Taking entries out: one pair, one key, a range, a whole tree.

use std::ops::Bound;

use super::branches::{add_above, children_of, close_gap, lower_root};
use super::insert::{Place, locate, touch_path};
use super::page::build::{Child, build_branch, build_leaf};
use super::page::leaf::GroupEdit;
use super::page::search::{Side, branch_slot, leaf_slot};
use super::page::{CONTINUES, Page};
use super::page_ref::{ExtentRef, PageRef};
use super::pages::{Pages, WritePages};
use super::path::Path;
use super::rebalance::{Change, collect, shrink_leaf, to_merge};
use super::tree::{Root, Tree, lower};
use super::{Count, extent};
use crate::Result;

/// A count that, added, takes one away.
const MINUS_ONE: u64 = u64::MAX;

/// Deletes an entry of a plain tree; false if it was not there.
pub(crate) fn delete_plain(pages: &mut WritePages, tree: &mut Tree, key: &[u8]) -> Result<bool> {
    let mut place = locate(pages, tree, key, &[])?;
    let found = place.found;
    if found {
        delete_at(pages, tree, &mut place)?;
    }
    Ok(found)
}

/// Deletes the pair at a place where there is one. True if no leaf was laid out anew: the place is
/// then that between the neighbours.
pub(crate) fn delete_at(
    pages: &mut WritePages,
    tree: &mut Tree,
    place: &mut Place,
) -> Result<bool> {
    touch_path(pages, tree, &mut place.path)?;
    let leaf = place.path.steps[0].page;
    let record = pages.changed(leaf).record(place.slot);
    if record.value_count() > 1 && tree.form.values.is_some() {
        let mut scratch = std::mem::take(&mut pages.scratch);
        let edit = GroupEdit::Cut(place.value);
        let fits = pages.change(leaf).edit_group(place.slot, edit, &tree.form, &mut scratch);
        pages.scratch = scratch;
        if !fits {
            return Err(pages.corrupt(leaf, "a group of values that grows by losing one"));
        }
        lower(&mut tree.root.count.values, 1);
        let delta = Count { keys: 0, values: MINUS_ONE };
        return shrink_leaf(pages, tree, &mut place.path, delta);
    }
    remove_group(pages, tree, place)
}

/// Deletes the group at a place with all its values. The result is that of [`delete_at`].
pub(crate) fn delete_group_at(
    pages: &mut WritePages,
    tree: &mut Tree,
    place: &mut Place,
) -> Result<bool> {
    touch_path(pages, tree, &mut place.path)?;
    remove_group(pages, tree, place)
}

/// Takes an entry of short parts of a tree without duplicates out of its leaf, if the pages on the
/// way there are changed ones and the leaf neither goes nor is merged. False, and no change,
/// otherwise.
pub(crate) fn remove_in_leaf(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &Path,
    slot: usize,
) -> Result<bool> {
    let steps = &path.steps[..path.depth];
    if !steps.iter().all(|step| pages.is_touched(step.page)) {
        return Ok(false);
    }
    let page = pages.changed(path.steps[0].page);
    let Some(place) = page.plain_place(slot) else { return Ok(false) };
    let used = page.used() - page.slot_len() - place.1;
    if page.len() < 2 || to_merge(pages, path, used)?.is_some() {
        return Ok(false);
    }
    pages.change(path.steps[0].page).remove_plain(slot, place);
    lower(&mut tree.root.count.keys, 1);
    lower(&mut tree.root.count.values, 1);
    add_above(pages, path, 0, Count { keys: MINUS_ONE, values: MINUS_ONE });
    Ok(true)
}

/// Takes a group with all values of it out of its leaf.
fn remove_group(pages: &mut WritePages, tree: &mut Tree, place: &mut Place) -> Result<bool> {
    let leaf = place.path.steps[0].page;
    let page = pages.changed(leaf);
    let continuing = place.slot == 0 && page.continues();
    let is_last = place.slot + 1 == page.len();
    let extents = extents_of(page, place.slot);
    let values = page.record(place.slot).value_count() as u64;
    let mut goes_on = false;
    if tree.form.values.is_some() && is_last && !continuing {
        goes_on = begin_in_next(pages, tree, place)?;
    }
    free_extents(pages, tree, &extents)?;
    let mut page = pages.change(leaf);
    page.remove_slot(place.slot);
    if place.slot == 0 {
        page.set_flag(CONTINUES, false);
    }
    let keys = u64::from(!continuing);
    lower(&mut tree.root.count.values, values);
    lower(&mut tree.root.count.keys, u64::from(!continuing && !goes_on));
    let delta = Count { keys: keys.wrapping_neg(), values: values.wrapping_neg() };
    shrink_leaf(pages, tree, &mut place.path, delta)
}

/// If the key of the place's group, about to go, has more values in the next leaf, it begins there
/// from now on.
fn begin_in_next(pages: &mut WritePages, tree: &mut Tree, place: &mut Place) -> Result<bool> {
    let mut next = place.path;
    match next.next_leaf(pages)? {
        Some(page) if page.continues() => {}
        _ => return Ok(false),
    }
    touch_path(pages, tree, &mut next)?;
    pages.change(next.steps[0].page).set_flag(CONTINUES, false);
    add_above(pages, &next, 0, Count { keys: 1, values: 0 });
    Ok(true)
}

/// The extents that a group of a leaf refers to; nothing else refers to them.
fn extents_of(page: Page<'_>, slot: usize) -> [Option<ExtentRef>; 2] {
    let record = page.leaf_record(slot);
    [record.key_extent(), record.value_extent()]
}

fn free_extents(
    pages: &mut WritePages,
    tree: &mut Tree,
    extents: &[Option<ExtentRef>],
) -> Result<()> {
    for reference in extents.iter().flatten() {
        extent::free(pages, reference)?;
        let run = extent::run_of(reference, pages.page_size());
        tree.root.overflow_pages = tree.root.overflow_pages.saturating_sub(u64::from(run.len));
    }
    Ok(())
}

/// One end of a range of keys: all pairs at or after `key`, `side` of its values.
type End<'k> = Option<(&'k [u8], Side<'k>)>;

/// Deletes all entries whose keys lie in a range. Whole pages inside it are not read where the
/// tree has no extents.
pub(crate) fn delete_range(
    pages: &mut WritePages,
    tree: &mut Tree,
    low: Bound<&[u8]>,
    high: Bound<&[u8]>,
) -> Result<Count> {
    let before = tree.root.count;
    if tree.root.page.is_none() || is_empty_range(tree, low, high) {
        return Ok(Count::default());
    }
    let from = match low {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((key, Side::First)),
        Bound::Excluded(key) => Some((key, Side::Last)),
    };
    let to = match high {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((key, Side::Last)),
        Bound::Excluded(key) => Some((key, Side::First)),
    };
    let (root, level) = (tree.root.page, tree.root.level);
    match cut(pages, tree, root, level, from, to)? {
        Some((page, left)) => {
            tree.root.page = page;
            tree.root.count = left;
            lower_root(pages, tree)?;
            for end in [from, to].into_iter().flatten() {
                mend(pages, tree, end)?;
            }
        }
        None => tree.root = Root { overflow_pages: tree.root.overflow_pages, ..Root::EMPTY },
    }
    let after = tree.root.count;
    // The counters of a damaged tree may be anything.
    let keys = before.keys.wrapping_sub(after.keys);
    Ok(Count { keys, values: before.values.wrapping_sub(after.values) })
}

/// Whether the bounds cannot hold any key.
fn is_empty_range(tree: &Tree, low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
    match (low, high) {
        (Bound::Included(a), Bound::Included(b)) => tree.form.keys.compare(a, b).is_gt(),
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            tree.form.keys.compare(a, b).is_ge()
        }
        _ => false,
    }
}

/// Cuts the range out of the tree below `at`. Returns what is left of the page, if anything.
fn cut(
    pages: &mut WritePages,
    tree: &mut Tree,
    at: PageRef,
    level: u8,
    from: End<'_>,
    to: End<'_>,
) -> Result<Option<(PageRef, Count)>> {
    pages.interrupted()?;
    if level == 0 {
        return cut_leaf(pages, tree, at, from, to);
    }
    let page = pages.page(at, level)?;
    let first = match from {
        Some((key, side)) => branch_slot(pages, &tree.form, page, key, side)?,
        None => 0,
    };
    let last = match to {
        Some((key, side)) => branch_slot(pages, &tree.form, page, key, side)?,
        None => page.len() - 1,
    };
    if last < first {
        // Pages that are referred to would be freed.
        return Err(pages.corrupt(at, "a range ends before it begins: its keys have no order"));
    }
    let between: Vec<PageRef> = (first + 1..last).map(|i| page.child(i)).collect();
    let (first_page, last_page) = (page.child(first), page.child(last));
    // The ends come first: what they need is read before any page is freed.
    let kept_first = if first == last {
        cut(pages, tree, first_page, level - 1, from, to)?
    } else {
        cut(pages, tree, first_page, level - 1, from, None)?
    };
    let kept_last =
        if first == last { None } else { cut(pages, tree, last_page, level - 1, None, to)? };
    release_all(pages, tree, &between, level - 1)?;
    keep_children(pages, tree, at, level, (first, kept_first), (last, kept_last))
}

type Kept = Option<(PageRef, Count)>;

/// Writes the branch without the children between the two, and with what is left of those.
fn keep_children(
    pages: &mut WritePages,
    tree: &mut Tree,
    at: PageRef,
    level: u8,
    (first, kept_first): (usize, Kept),
    (last, kept_last): (usize, Kept),
) -> Result<Kept> {
    let page = pages.page(at, level)?;
    let all = children_of(page);
    let mut left: Vec<Child<'_>> = Vec::with_capacity(all.len());
    let mut gone: Vec<ExtentRef> = Vec::new();
    for (i, child) in all.into_iter().enumerate() {
        let kept = match i {
            _ if i < first || i > last => Some((child.page, child.count)),
            _ if i == first => kept_first,
            _ if i == last => kept_last,
            _ => None,
        };
        match kept {
            // The first child's separator is not stored.
            Some((page, count)) => {
                if left.is_empty() && i > 0 {
                    gone.extend(child.separator.extent);
                }
                left.push(Child { page, count, ..child });
            }
            None => gone.extend(child.separator.extent),
        }
    }
    if left.is_empty() {
        pages.release(at, level)?;
        lower(&mut tree.root.branch_pages, 1);
        free_separators(pages, &gone)?;
        return Ok(None);
    }
    let mut buffer = pages.new_buffer()?;
    let count = build_branch(buffer.bytes_mut(), &left, &tree.form, level)
        .map_err(|why| pages.corrupt(at, why))?;
    drop(left);
    let page = pages.replace(at, level, buffer)?;
    free_separators(pages, &gone)?;
    Ok(Some((page, count)))
}

/// Separators' extents are not counted as the tree's overflow pages.
fn free_separators(pages: &mut WritePages, gone: &[ExtentRef]) -> Result<()> {
    gone.iter().try_for_each(|reference| extent::free(pages, reference))
}

/// Cuts the range out of one leaf.
fn cut_leaf(
    pages: &mut WritePages,
    tree: &mut Tree,
    at: PageRef,
    from: End<'_>,
    to: End<'_>,
) -> Result<Kept> {
    let page = pages.page(at, 0)?;
    let slot = |end: End<'_>, open: usize| -> Result<usize> {
        let Some((key, side)) = end else { return Ok(open) };
        let (slot, found) = leaf_slot(pages, &tree.form.keys, page, key)?;
        Ok(slot + usize::from(found && matches!(side, Side::Last)))
    };
    let (start, end) = (slot(from, 0)?, slot(to, page.len())?);
    if start >= end {
        return Ok(Some((at, page.leaf_count(tree.form.values.is_some()))));
    }
    let gone: Vec<_> = (start..end).flat_map(|i| extents_of(page, i)).collect();
    if start == 0 && end == page.len() {
        pages.release(at, 0)?;
        lower(&mut tree.root.leaf_pages, 1);
        free_extents(pages, tree, &gone)?;
        return Ok(None);
    }
    let mut buffer = pages.new_buffer()?;
    let count = {
        let mut pairs = Vec::new();
        collect(page, Change::None, &mut pairs);
        let from = page.values_before(start);
        let to = page.values_before(end);
        pairs.drain(from..to);
        build_leaf(buffer.bytes_mut(), &pairs, &tree.form).map_err(|why| pages.corrupt(at, why))?
    };
    let page = pages.replace(at, 0, buffer)?;
    free_extents(pages, tree, &gone)?;
    Ok(Some((page, count)))
}

/// Lets neighbouring pages and all below them go. Leaves are read only if they may refer to
/// extents.
fn release_all(
    pages: &mut WritePages,
    tree: &mut Tree,
    children: &[PageRef],
    level: u8,
) -> Result<()> {
    let is_plain = level == 0 && tree.root.overflow_pages == 0;
    let is_unread = |at: &PageRef| is_plain && !at.is_changed();
    let unread = children.iter().copied().filter(is_unread);
    lower(&mut tree.root.leaf_pages, unread.clone().count() as u64);
    pages.release_unread(unread)?;
    let others = children.iter().filter(|at| !is_unread(at));
    others.copied().try_for_each(|at| release_below(pages, tree, at, level))
}

/// Lets a page and all below it go.
fn release_below(pages: &mut WritePages, tree: &mut Tree, at: PageRef, level: u8) -> Result<()> {
    if level == 0 {
        lower(&mut tree.root.leaf_pages, 1);
        let page = pages.page(at, 0)?;
        let gone: Vec<_> = (0..page.len()).flat_map(|i| extents_of(page, i)).collect();
        pages.release(at, 0)?;
        return free_extents(pages, tree, &gone);
    }
    pages.interrupted()?;
    let page = pages.page(at, level)?;
    let children: Vec<PageRef> = (0..page.len()).map(|i| page.child(i)).collect();
    let gone: Vec<ExtentRef> =
        (1..page.len()).filter_map(|i| page.record(i).key_extent()).collect();
    release_all(pages, tree, &children, level - 1)?;
    lower(&mut tree.root.branch_pages, 1);
    free_separators(pages, &gone)?;
    pages.release(at, level)
}

/// Lets all pages of a tree go.
pub(crate) fn clear(pages: &mut WritePages, tree: &mut Tree) -> Result<()> {
    if !tree.root.page.is_none() {
        let (root, level) = (tree.root.page, tree.root.level);
        release_all(pages, tree, &[root], level)?;
    }
    tree.root = Root::EMPTY;
    Ok(())
}

/// After a range went: the pages on the way to one of its ends may be too empty.
fn mend(pages: &mut WritePages, tree: &mut Tree, (key, side): (&[u8], Side<'_>)) -> Result<()> {
    let mut level = 0;
    while level < usize::from(tree.root.level) {
        let mut path = Path::EMPTY;
        path.seek(pages, tree, key, side)?;
        touch_path(pages, tree, &mut path)?;
        if level == 0 {
            shrink_leaf(pages, tree, &mut path, Count::default())?;
        } else {
            close_gap(pages, tree, &mut path, level)?;
        }
        level += 1;
    }
    Ok(())
}

/// Deletes a key with all its values; returns how many those were.
pub(crate) fn delete_key(pages: &mut WritePages, tree: &mut Tree, key: &[u8]) -> Result<u64> {
    if tree.form.values.is_none() {
        return Ok(u64::from(delete_plain(pages, tree, key)?));
    }
    let before = tree.root.count.values;
    match locate_whole(pages, tree, key)? {
        Some(mut place) => _ = delete_group_at(pages, tree, &mut place)?,
        None => {
            let range = Bound::Included(key);
            delete_range(pages, tree, range, range)?;
        }
    }
    // The counters of a damaged tree may be anything.
    Ok(before.wrapping_sub(tree.root.count.values))
}

/// The place of a key, if all its values surely stand in one leaf.
fn locate_whole(pages: &WritePages, tree: &Tree, key: &[u8]) -> Result<Option<Place>> {
    let mut place = Place::EMPTY;
    let Some(page) = place.path.seek_to_change(pages, tree, key, Side::First)? else {
        return Ok(None);
    };
    (place.slot, place.key_found) = leaf_slot(pages, &tree.form.keys, page, key)?;
    let begins = place.slot > 0 || !page.continues();
    let ends = place.slot + 1 < page.len();
    Ok((place.key_found && begins && ends).then_some(place))
}
