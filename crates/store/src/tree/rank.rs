//! Order statistics: two counters a child and one descent answer where a key stands, which entry
//! is the n-th, and (two descents) how many entries lie in a range.

use std::ops::Bound;

use super::page::search::{Side, branch_slot, leaf_slot, value_slot};
use super::page::{Page, add};
use super::pages::{PageRef, Pages};
use super::path::{Path, Step};
use super::tree::Tree;
use super::{Count, Rank};
use crate::Result;

/// How many keys and values stand before a pair; of the key itself none is counted before its
/// first value. The counters of a damaged tree may be anything, so the sums wrap.
pub(crate) fn rank<P: Pages>(pages: &P, tree: &Tree, key: &[u8], side: Side<'_>) -> Result<Rank> {
    let mut before = Count::default();
    let mut at = tree.root.page;
    if at.is_none() {
        return Ok(Rank { keys: 0, values: 0, found: false });
    }
    let mut level = tree.root.level;
    while level > 0 {
        let page = pages.page(at, level)?;
        let slot = branch_slot(pages, &tree.form, page, key, side)?;
        before = add(before, page.count_before(slot));
        at = page.child(slot);
        level -= 1;
    }
    rank_in_leaf(pages, tree, pages.page(at, 0)?, key, side, before)
}

fn rank_in_leaf<P: Pages>(
    pages: &P,
    tree: &Tree,
    page: Page<'_>,
    key: &[u8],
    side: Side<'_>,
    before: Count,
) -> Result<Rank> {
    let (slot, found) = leaf_slot(pages, &tree.form.keys, page, key)?;
    let Some(order) = &tree.form.values else {
        let behind = u64::from(found && matches!(side, Side::Last));
        let keys = before.keys.wrapping_add(slot as u64 + behind);
        return Ok(Rank { keys, values: keys, found });
    };
    let mut values = before.values.wrapping_add(page.values_before(slot) as u64);
    // A group that continues was counted as a key in an earlier leaf.
    let continuing = u64::from(page.continues());
    let keys =
        if slot == 0 { before.keys } else { before.keys.wrapping_add(slot as u64 - continuing) };
    if !found {
        return Ok(Rank { keys, values, found: false });
    }
    let record = page.record(slot);
    let own = slot == 0 && continuing == 1;
    match side {
        Side::First => Ok(Rank { keys: keys.wrapping_sub(u64::from(own)), values, found: true }),
        Side::At(value) => {
            let (at, found) = value_slot(order, &record, value);
            values = values.wrapping_add(at as u64);
            Ok(Rank { keys: keys.wrapping_sub(u64::from(own)), values, found })
        }
        Side::Last => {
            values = values.wrapping_add(record.value_count() as u64);
            Ok(Rank { keys: keys.wrapping_add(u64::from(!own)), values, found: true })
        }
    }
}

/// The rank of a key: of its first value. Also says whether it is there.
pub(crate) fn rank_key<P: Pages>(pages: &P, tree: &Tree, key: &[u8]) -> Result<Rank> {
    let mut rank = rank(pages, tree, key, Side::First)?;
    if !rank.found && tree.form.values.is_some() {
        rank.found = super::search::find(pages, tree, key)?.is_some();
    }
    Ok(rank)
}

/// The entries of the tree whose keys lie in a range.
pub(crate) fn count_range<P: Pages>(
    pages: &P,
    tree: &Tree,
    low: Bound<&[u8]>,
    high: Bound<&[u8]>,
) -> Result<Count> {
    // Where the bounds stand the wrong way round nothing is left by the saturating difference.
    let from = match low {
        Bound::Unbounded => Count::default(),
        Bound::Included(key) => before(pages, tree, key, Side::First)?,
        Bound::Excluded(key) => before(pages, tree, key, Side::Last)?,
    };
    let to = match high {
        Bound::Unbounded => tree.root.count,
        Bound::Included(key) => before(pages, tree, key, Side::Last)?,
        Bound::Excluded(key) => before(pages, tree, key, Side::First)?,
    };
    Ok(Count {
        keys: to.keys.saturating_sub(from.keys),
        values: to.values.saturating_sub(from.values),
    })
}

fn before<P: Pages>(pages: &P, tree: &Tree, key: &[u8], side: Side<'_>) -> Result<Count> {
    let rank = rank(pages, tree, key, side)?;
    Ok(Count { keys: rank.keys, values: rank.values })
}

/// A pair as the end of a range.
pub(crate) type PairBound<'k> = Bound<(&'k [u8], &'k [u8])>;

/// The pairs between two pairs.
pub(crate) fn count_pairs<P: Pages>(
    pages: &P,
    tree: &Tree,
    low: PairBound<'_>,
    high: PairBound<'_>,
) -> Result<u64> {
    let end = |pair: (&[u8], &[u8]), behind: bool| -> Result<u64> {
        let rank = rank_pair(pages, tree, pair.0, pair.1)?;
        Ok(rank.values.wrapping_add(u64::from(behind && rank.found)))
    };
    let from = match low {
        Bound::Unbounded => 0,
        Bound::Included(pair) => end(pair, false)?,
        Bound::Excluded(pair) => end(pair, true)?,
    };
    let to = match high {
        Bound::Unbounded => tree.root.count.values,
        Bound::Included(pair) => end(pair, true)?,
        Bound::Excluded(pair) => end(pair, false)?,
    };
    Ok(to.saturating_sub(from))
}

/// The rank of a pair. In a tree without duplicates the value must match to be found.
pub(crate) fn rank_pair<P: Pages>(
    pages: &P,
    tree: &Tree,
    key: &[u8],
    value: &[u8],
) -> Result<Rank> {
    if tree.form.values.is_some() {
        let mut found = rank(pages, tree, key, Side::At(value))?;
        if !found.found {
            // The pair would stand in a leaf that need not hold its key: where that begins is
            // looked up apart.
            found.keys = rank(pages, tree, key, Side::First)?.keys;
        }
        return Ok(found);
    }
    let mut rank = rank(pages, tree, key, Side::First)?;
    rank.found = rank.found && super::search::contains_pair(pages, tree, key, value)?;
    Ok(rank)
}

/// How many values a key has.
pub(crate) fn count_values<P: Pages>(pages: &P, tree: &Tree, key: &[u8]) -> Result<u64> {
    let range = Bound::Included(key);
    Ok(count_range(pages, tree, range, range)?.values)
}

/// Where the `n`-th entry (by values) or the first value of the `n`-th key stands.
pub(crate) struct Nth<'p> {
    pub(crate) page: Page<'p>,
    pub(crate) slot: usize,
    pub(crate) value: usize,
}

/// Goes to the `n`-th entry; `None` if there are no more than `n`.
#[inline(always)]
pub(crate) fn nth<'p, P: Pages>(
    pages: &'p P,
    tree: &Tree,
    n: u64,
    by_keys: bool,
    mut on_way: impl FnMut(usize, Step),
) -> Result<Option<Nth<'p>>> {
    let total = if by_keys { tree.root.count.keys } else { tree.root.count.values };
    if n >= total {
        return Ok(None);
    }
    let mut left = n;
    let mut at: PageRef = tree.root.page;
    let mut level = tree.root.level;
    while level > 0 {
        let page = pages.page(at, level)?;
        let (slot, before) = page.child_of_nth(left, by_keys);
        on_way(usize::from(level), Step { page: at, slot: slot as u32 });
        left = left.wrapping_sub(before);
        at = page.child(slot);
        level -= 1;
    }
    let page = pages.page(at, 0)?;
    let (slot, value) = nth_in_leaf(tree, page, left, by_keys);
    on_way(0, Step { page: at, slot: slot as u32 });
    Ok((slot < page.len()).then_some(Nth { page, slot, value }))
}

/// Slot and value of the `left`-th entry of a leaf.
#[inline(always)]
fn nth_in_leaf(tree: &Tree, page: Page<'_>, left: u64, by_keys: bool) -> (usize, usize) {
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    if tree.form.values.is_none() {
        return (left, 0);
    }
    if by_keys {
        return (left.saturating_add(usize::from(page.continues())), 0);
    }
    let mut left = left;
    for slot in 0..page.len() {
        let count = page.record(slot).value_count();
        if left < count {
            return (slot, left);
        }
        left -= count;
    }
    (page.len(), 0)
}

/// Sets a path to the `n`-th entry.
pub(crate) fn seek_nth<'p, P: Pages>(
    pages: &'p P,
    tree: &Tree,
    n: u64,
    path: &mut Path,
) -> Result<Option<Nth<'p>>> {
    (path.depth, path.moved) = (usize::from(tree.root.level) + 1, 0);
    nth(pages, tree, n, false, |level, step| path.steps[level] = step)
}
