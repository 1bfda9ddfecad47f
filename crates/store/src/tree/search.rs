//! Looking entries up: single gets, batches whose cache misses overlap, and plain scans.

use super::page::search::{Side, branch_slot, leaf_aim, leaf_slot, leaf_slot_from, value_slot};
use super::page::{Page, Record, ValueCell};
use super::page_ref::{ExtentRef, PageRef};
use super::pages::Pages;
use super::path::{Path, fetch_leaf};
use super::tree::Tree;
use super::{Bytes, Entry};
use crate::Result;

/// This many bytes of the last branch are prefetched before it is searched: header, heads and
/// offsets of one that is three quarters full of short separators.
const BRANCH_FRONT: usize = 1024;

/// A leaf and a slot in it.
type Found<'p> = (Page<'p>, usize);

/// Finds the leaf and slot of a key.
#[inline(always)]
pub(crate) fn find<'p, P: Pages>(
    pages: &'p P,
    tree: &Tree,
    key: &[u8],
) -> Result<Option<Found<'p>>> {
    let mut at = tree.root.page;
    if at.is_none() {
        return Ok(None);
    }
    let mut level = tree.root.level;
    loop {
        let page = pages.page(at, level)?;
        if level == 0 {
            return find_in_leaf(pages, tree, page, key);
        }
        let slot = branch_slot(pages, &tree.form, page, key, Side::First)?;
        at = page.child(slot);
        level -= 1;
        // A search goes from line to line, each of which would be waited for.
        match level {
            0 => fetch_leaf(pages, tree, (page, slot), key),
            // The branches above are few, and in the processor's cache.
            1 => pages.fetch(at, 0..BRANCH_FRONT),
            _ => {}
        }
    }
}

/// Finds the slot of a key in the leaf that the descent ends in.
#[inline(always)]
fn find_in_leaf<'p, P: Pages>(
    pages: &'p P,
    tree: &Tree,
    page: Page<'p>,
    key: &[u8],
) -> Result<Option<Found<'p>>> {
    let at = leaf_slot(pages, &tree.form.keys, page, key)?;
    at_slot(pages, tree, page, key, at)
}

/// The descent aims before the key's first value, so that a key of a tree with duplicates may
/// stand at the very beginning of the next leaf; `find_in_next` handles that.
#[inline(always)]
fn at_slot<'p, P: Pages>(
    pages: &'p P,
    tree: &Tree,
    page: Page<'p>,
    key: &[u8],
    (slot, found): (usize, bool),
) -> Result<Option<Found<'p>>> {
    if found {
        return Ok(Some((page, slot)));
    }
    if slot == page.len() && tree.form.values.is_some() {
        return find_in_next(pages, tree, key);
    }
    Ok(None)
}

/// With duplicates a separator may be (key, value): all of the key's values then stand after it.
#[cold]
fn find_in_next<'p, P: Pages>(pages: &'p P, tree: &Tree, key: &[u8]) -> Result<Option<Found<'p>>> {
    let mut path = Path::EMPTY;
    path.seek(pages, tree, key, Side::First)?;
    let Some(page) = path.next_leaf(pages)? else { return Ok(None) };
    let (slot, found) = leaf_slot(pages, &tree.form.keys, page, key)?;
    Ok(found.then_some((page, slot)))
}

/// The bytes of a value.
#[inline(always)]
pub(crate) fn value_bytes<'p, P: Pages>(pages: &'p P, value: ValueCell<'p>) -> Result<Bytes<'p>> {
    match value {
        ValueCell::Inline(bytes) => Ok(bytes),
        ValueCell::Extent(extent) => Ok(Bytes::from(pages.extent(&extent)?)),
    }
}

/// The bytes of a record's key.
#[inline(always)]
pub(crate) fn key_bytes<'p, P: Pages>(pages: &'p P, record: &Record<'p>) -> Result<Bytes<'p>> {
    match record.key_extent() {
        None => Ok(record.key_cell().known),
        Some(extent) => Ok(Bytes::from(pages.extent(&extent)?)),
    }
}

/// The entry of value `i` of a record.
#[inline(always)]
pub(crate) fn entry<'p, P: Pages>(
    pages: &'p P,
    record: &Record<'p>,
    i: usize,
) -> Result<Entry<'p>> {
    Ok(Entry { key: key_bytes(pages, record)?, value: value_bytes(pages, record.value(i))? })
}

/// The same, but of a value that is longer than `whole_max` bytes, and so than a page, only what
/// stands in its first page.
#[inline(always)]
pub(crate) fn entry_or_front<'p, P: Pages>(
    pages: &'p P,
    record: &Record<'p>,
    i: usize,
    whole_max: u32,
) -> Result<Entry<'p>> {
    let value = match record.value(i) {
        ValueCell::Inline(bytes) => bytes,
        ValueCell::Extent(extent) => front_or_whole(pages, &extent, whole_max)?,
    };
    Ok(Entry { key: key_bytes(pages, record)?, value })
}

/// A long value, or what stands in its first page: see [`entry_or_front`].
#[inline(never)]
fn front_or_whole<'p, P: Pages>(
    pages: &'p P,
    extent: &ExtentRef,
    whole_max: u32,
) -> Result<Bytes<'p>> {
    let is_long = extent.len > whole_max;
    Ok(if is_long { pages.extent_front(extent)? } else { pages.extent(extent)? }.into())
}

/// The (first) value of a key.
#[inline]
pub(crate) fn get<'p, P: Pages>(
    pages: &'p P,
    tree: &Tree,
    key: &[u8],
) -> Result<Option<Bytes<'p>>> {
    let Some((page, slot)) = find(pages, tree, key)? else { return Ok(None) };
    match page.plain_record(slot) {
        Some((_, value)) => Ok(Some(value.into())),
        None => value_bytes(pages, page.leaf_record(slot).value(0)).map(Some),
    }
}

/// Whether a pair is there.
pub(crate) fn contains_pair<P: Pages>(
    pages: &P,
    tree: &Tree,
    key: &[u8],
    value: &[u8],
) -> Result<bool> {
    let Some(order) = &tree.form.values else {
        let found = get(pages, tree, key)?;
        return Ok(found.is_some_and(|bytes| bytes == *value));
    };
    let mut path = Path::EMPTY;
    let Some(page) = path.seek(pages, tree, key, Side::At(value))? else { return Ok(false) };
    let (slot, found) = leaf_slot(pages, &tree.form.keys, page, key)?;
    Ok(found && value_slot(order, &page.leaf_record(slot), value).1)
}

/// How many look-ups of a batch are in flight at a time.
const IN_FLIGHT: usize = 32;

/// Looks many keys up, level by level in groups, so that the cache misses of a group overlap.
pub(crate) fn get_many<'p, P: Pages>(
    pages: &'p P,
    tree: &Tree,
    keys: &[&[u8]],
    found: &mut Vec<Option<Bytes<'p>>>,
) -> Result<()> {
    found.clear();
    found.reserve(keys.len());
    if tree.root.page.is_none() {
        found.resize(keys.len(), None);
        return Ok(());
    }
    for group in keys.chunks(IN_FLIGHT) {
        pages.interrupted()?;
        let mut at = [tree.root.page; IN_FLIGHT];
        for level in (1..=tree.root.level).rev() {
            for (at, key) in at.iter_mut().zip(group) {
                let page = pages.page(*at, level)?;
                *at = page.child(branch_slot(pages, &tree.form, page, key, Side::First)?);
                pages.prefetch(*at);
            }
        }
        find_group(pages, tree, &at[..group.len()], group, found)?;
    }
    Ok(())
}

/// Looks the keys of a group up in their leaves, whose beginnings are being fetched: first what
/// else of the heads will be looked at is fetched, then the records.
fn find_group<'p, P: Pages>(
    pages: &'p P,
    tree: &Tree,
    leaves: &[PageRef],
    keys: &[&[u8]],
    found: &mut Vec<Option<Bytes<'p>>>,
) -> Result<()> {
    let order = &tree.form.keys;
    for at in leaves {
        pages.page(*at, 0)?.fetch_slots();
    }
    let mut aims = [None; IN_FLIGHT];
    for ((at, key), aim) in leaves.iter().zip(keys).zip(&mut aims) {
        let page = pages.page(*at, 0)?;
        let seen = leaf_aim(order, page, key);
        if seen.slot < page.len() {
            page.fetch_record(seen.slot);
        }
        *aim = Some((page, seen));
    }
    for ((page, aim), key) in aims.iter().flatten().zip(keys) {
        let at = leaf_slot_from(pages, order, *page, key, *aim)?;
        found.push(match at_slot(pages, tree, *page, key, at)? {
            Some((page, slot)) => Some(value_bytes(pages, page.leaf_record(slot).value(0))?),
            None => None,
        });
    }
    Ok(())
}

/// Calls `f` with all values of a key in order, whatever number of leaves they fill.
pub(crate) fn for_each_value<'p, P: Pages>(
    pages: &'p P,
    tree: &Tree,
    key: &[u8],
    mut f: impl FnMut(Bytes<'p>),
) -> Result<u64> {
    let (mut path, order) = (Path::EMPTY, &tree.form.keys);
    let Some(mut page) = path.seek(pages, tree, key, Side::First)? else { return Ok(0) };
    let (mut slot, mut found) = leaf_slot(pages, order, page, key)?;
    if slot == page.len() && tree.form.values.is_some() {
        // A separator may be (key, value): all of the key's values then stand after it.
        let Some(next) = path.next_leaf(pages)? else { return Ok(0) };
        page = next;
        (slot, found) = leaf_slot(pages, order, page, key)?;
    }
    if !found {
        return Ok(0);
    }
    let mut count = 0;
    loop {
        let record = page.leaf_record(slot);
        let values = record.value_count();
        match record.group() {
            Some(group) => (0..values).for_each(|i| f(group.value(i))),
            None => f(value_bytes(pages, record.value(0))?),
        }
        count += values as u64;
        // Only the last group of a leaf can go on in the next one.
        if slot + 1 < page.len() || tree.form.values.is_none() {
            return Ok(count);
        }
        match path.next_leaf(pages)? {
            Some(next) if next.continues() => (page, slot) = (next, 0),
            _ => return Ok(count),
        }
    }
}

/// Calls `f` with the entries of a plain tree from `from` on, until it returns false.
pub(crate) fn scan_plain<P: Pages>(
    pages: &P,
    tree: &Tree,
    from: &[u8],
    f: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<()> {
    let mut path = Path::EMPTY;
    let Some(mut page) = path.seek(pages, tree, from, Side::First)? else { return Ok(()) };
    let (mut slot, _) = leaf_slot(pages, &tree.form.keys, page, from)?;
    loop {
        while slot < page.len() {
            let entry = entry(pages, &page.leaf_record(slot), 0)?;
            if !f(&entry.key.to_cow(), &entry.value.to_cow()) {
                return Ok(());
            }
            slot += 1;
        }
        match path.next_leaf(pages)? {
            Some(next) => (page, slot) = (next, 0),
            None => return Ok(()),
        }
    }
}

/// Calls `f` with the entries of a plain tree from the last one at or before `from` backwards,
/// until it returns false.
pub(crate) fn scan_plain_back<P: Pages>(
    pages: &P,
    tree: &Tree,
    from: &[u8],
    f: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<()> {
    let mut path = Path::EMPTY;
    let Some(mut page) = path.seek(pages, tree, from, Side::First)? else { return Ok(()) };
    let (slot, found) = leaf_slot(pages, &tree.form.keys, page, from)?;
    let mut behind = slot + usize::from(found);
    loop {
        while behind > 0 {
            behind -= 1;
            let entry = entry(pages, &page.leaf_record(behind), 0)?;
            if !f(&entry.key.to_cow(), &entry.value.to_cow()) {
                return Ok(());
            }
        }
        match path.previous_leaf(pages)? {
            Some(previous) => (page, behind) = (previous, previous.len()),
            None => return Ok(()),
        }
    }
}

/// The pages of a tree in post-order (children before their parent), each with its level.
pub(crate) fn for_each_page<P: Pages>(
    pages: &P,
    at: PageRef,
    level: u8,
    f: &mut dyn FnMut(PageRef, Page<'_>) -> Result<()>,
) -> Result<()> {
    each_below(pages, at, level, &mut pages.pages_max(), f)
}

/// The same. `left` is an upper bound of the pages visited, for damaged trees, in which a page may
/// be the child of several.
fn each_below<P: Pages>(
    pages: &P,
    at: PageRef,
    level: u8,
    left: &mut u64,
    f: &mut dyn FnMut(PageRef, Page<'_>) -> Result<()>,
) -> Result<()> {
    pages.interrupted()?;
    let page = pages.page(at, level)?;
    let fewer = left.checked_sub(1);
    *left = fewer.ok_or_else(|| pages.corrupt(at, "more pages in a tree than in the store"))?;
    if level > 0 {
        for i in 0..page.len() {
            each_below(pages, page.child(i), level - 1, left, f)?;
        }
    }
    f(at, page)
}
