//! Order statistics. With two counters for each child, one descent finds the rank of a key or the
//! n-th entry, and two descents count the entries of a range.

use std::ops::Bound;

use super::page::search::{
    Aim, Side, branch_slot, leaf_aim, leaf_slot, leaf_slot_from, value_slot,
};
use super::page::{Page, add};
use super::page_ref::PageRef;
use super::pages::Pages;
use super::path::{Path, Step, fetch_leaf};
use super::tree::Tree;
use super::{Count, Rank};
use crate::Result;

/// A search on its way down, and the counts of what it has passed.
struct Descent<'k> {
    key: &'k [u8],
    side: Side<'k>,
    at: PageRef,
    /// How many keys and values stand before the page. The counters of a damaged tree may be
    /// anything, so the sums wrap.
    before: Count,
}

impl<'k> Descent<'k> {
    fn new(tree: &Tree, (key, side): End<'k>) -> Self {
        Self { key, side, at: tree.root.page, before: Count::default() }
    }

    /// Goes on to the child of the branch of this level.
    #[inline(always)]
    fn step<P: Pages>(&mut self, pages: &P, tree: &Tree, level: u8) -> Result<()> {
        let page = pages.page(self.at, level)?;
        let slot = branch_slot(pages, &tree.form, page, self.key, self.side)?;
        self.before = add(self.before, page.count_before(slot));
        self.at = page.child(slot);
        if level == 1 {
            fetch_leaf(pages, tree, (page, slot), self.key);
        }
        Ok(())
    }

    /// What the heads of the leaf say; the record that has to be looked at is fetched.
    #[inline(always)]
    fn aim<'p, P: Pages>(&self, pages: &'p P, tree: &Tree) -> Result<(Page<'p>, Aim<'k>)> {
        let page = pages.page(self.at, 0)?;
        let aim = leaf_aim(&tree.form.keys, page, self.key);
        if aim.asks_record() {
            page.fetch_record(aim.slot);
        }
        Ok((page, aim))
    }

    /// The rank, the key having been found at this slot of the leaf, or not.
    #[inline(always)]
    fn rank(&self, tree: &Tree, page: Page<'_>, (slot, found): (usize, bool)) -> Rank {
        let before = self.before;
        let Some(order) = &tree.form.values else {
            let behind = u64::from(found && matches!(self.side, Side::Last));
            let keys = before.keys.wrapping_add(slot as u64 + behind);
            return Rank { keys, values: keys, found };
        };
        let mut values = before.values.wrapping_add(page.values_before(slot) as u64);
        // A group that continues was counted as a key in an earlier leaf.
        let continuing = u64::from(page.continues());
        let passed = if slot == 0 { 0 } else { slot as u64 - continuing };
        let keys = before.keys.wrapping_add(passed);
        if !found {
            return Rank { keys, values, found: false };
        }
        let record = page.leaf_record(slot);
        let own = slot == 0 && continuing == 1;
        match self.side {
            Side::First => Rank { keys: keys.wrapping_sub(u64::from(own)), values, found: true },
            Side::At(value) => {
                let (at, found) = value_slot(order, &record, value);
                values = values.wrapping_add(at as u64);
                Rank { keys: keys.wrapping_sub(u64::from(own)), values, found }
            }
            Side::Last => {
                values = values.wrapping_add(record.value_count() as u64);
                Rank { keys: keys.wrapping_add(u64::from(!own)), values, found: true }
            }
        }
    }
}

/// How many keys and values stand before a pair; of the key itself none is counted before its
/// first value.
pub(crate) fn rank<P: Pages>(pages: &P, tree: &Tree, key: &[u8], side: Side<'_>) -> Result<Rank> {
    let mut descent = Descent::new(tree, (key, side));
    if descent.at.is_none() {
        return Ok(Rank { keys: 0, values: 0, found: false });
    }
    for level in (1..=tree.root.level).rev() {
        descent.step(pages, tree, level)?;
    }
    let page = pages.page(descent.at, 0)?;
    let found = leaf_slot(pages, &tree.form.keys, page, key)?;
    Ok(descent.rank(tree, page, found))
}

/// The ranks of two pairs. Both searches go down together, so that their cache misses overlap.
fn ranks<P: Pages>(pages: &P, tree: &Tree, first: End<'_>, second: End<'_>) -> Result<[Rank; 2]> {
    let mut first = Descent::new(tree, first);
    let mut second = Descent::new(tree, second);
    if first.at.is_none() {
        return Ok([Rank { keys: 0, values: 0, found: false }; 2]);
    }
    for level in (1..=tree.root.level).rev() {
        first.step(pages, tree, level)?;
        second.step(pages, tree, level)?;
    }
    let (first_page, first_aim) = first.aim(pages, tree)?;
    let (second_page, second_aim) = second.aim(pages, tree)?;
    let order = &tree.form.keys;
    let first_found = leaf_slot_from(pages, order, first_page, first.key, first_aim)?;
    let second_found = leaf_slot_from(pages, order, second_page, second.key, second_aim)?;
    let first = first.rank(tree, first_page, first_found);
    Ok([first, second.rank(tree, second_page, second_found)])
}

/// The rank of a key: of its first value. Also says whether it is there.
pub(crate) fn rank_key<P: Pages>(pages: &P, tree: &Tree, key: &[u8]) -> Result<Rank> {
    let mut rank = rank(pages, tree, key, Side::First)?;
    if !rank.found && tree.form.values.is_some() {
        rank.found = super::search::find(pages, tree, key)?.is_some();
    }
    Ok(rank)
}

/// An end of a range: entries before this key, or before the next key after it, are counted.
type End<'k> = (&'k [u8], Side<'k>);

/// The entries of the tree whose keys lie in a range.
pub(crate) fn count_range<P: Pages>(
    pages: &P,
    tree: &Tree,
    low: Bound<&[u8]>,
    high: Bound<&[u8]>,
) -> Result<Count> {
    let low = match low {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((key, Side::First)),
        Bound::Excluded(key) => Some((key, Side::Last)),
    };
    let high = match high {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((key, Side::Last)),
        Bound::Excluded(key) => Some((key, Side::First)),
    };
    let (from, to) = match (low, high) {
        (Some(low), Some(high)) => {
            let [low, high] = ranks(pages, tree, low, high)?;
            (low.count(), high.count())
        }
        (Some((key, side)), None) => (rank(pages, tree, key, side)?.count(), tree.root.count),
        (None, Some((key, side))) => (Count::default(), rank(pages, tree, key, side)?.count()),
        (None, None) => (Count::default(), tree.root.count),
    };
    // If the bounds are reversed, the saturating difference leaves nothing.
    Ok(Count {
        keys: to.keys.saturating_sub(from.keys),
        values: to.values.saturating_sub(from.values),
    })
}

impl Rank {
    fn count(self) -> Count {
        Count { keys: self.keys, values: self.values }
    }
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
        let count = page.value_count(slot);
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
