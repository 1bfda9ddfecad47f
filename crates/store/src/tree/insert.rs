//! Inserting one entry: find its place, make the path writable, change the leaf, update the
//! counters.

use super::Count;
use super::branches::add_above;
use super::order::KeyOrder;
use super::page::build::{build_leaf, flags_of, head_of_rest};
use super::page::leaf::GroupEdit;
use super::page::search::{Side, head_in, leaf_slot, value_slot};
use super::page::size::Pair;
use super::page::{
    CONTINUES, EXTENT_CELL, KeyCell, PageMut, RestCell, ValueCell, max_inline_key,
    max_inline_record,
};
use super::page_ref::PageRef;
use super::pages::{Pages, WritePages};
use super::path::Path;
use super::rebalance::{Change, spread_leaf};
use super::tree::{Tree, lower, raise};
use super::{Bytes, extent};
use crate::Result;

/// Where a pair stands in a tree, or would stand.
pub(crate) struct Place {
    pub(crate) path: Path,
    /// The group's slot in the leaf.
    pub(crate) slot: usize,
    /// Whether the key is in this leaf.
    pub(crate) key_found: bool,
    /// The value's position in the group.
    pub(crate) value: usize,
    /// Whether the pair (in a tree without duplicates: the key) is there.
    pub(crate) found: bool,
}

impl Place {
    /// The only place of an empty tree.
    pub(crate) const EMPTY: Self =
        Self { path: Path::EMPTY, slot: 0, key_found: false, value: 0, found: false };

    /// Goes to the place of a pair; of a key in a tree without duplicates. A place is filled where
    /// it is kept, because it is long.
    #[inline(always)]
    pub(crate) fn locate<P: Pages>(
        &mut self,
        pages: &P,
        tree: &Tree,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let side = if tree.form.values.is_some() { Side::At(value) } else { Side::First };
        let Some(page) = self.path.seek_to_change(pages, tree, key, side)? else {
            (self.slot, self.key_found, self.value, self.found) = (0, false, 0, false);
            return Ok(());
        };
        (self.slot, self.key_found) = leaf_slot(pages, &tree.form.keys, page, key)?;
        (self.value, self.found) = match &tree.form.values {
            Some(order) if self.key_found => value_slot(order, &page.record(self.slot), value),
            _ => (0, self.key_found),
        };
        Ok(())
    }
}

/// The place of a pair; of a key in a tree without duplicates.
pub(crate) fn locate<P: Pages>(pages: &P, tree: &Tree, key: &[u8], value: &[u8]) -> Result<Place> {
    let mut place = Place::EMPTY;
    place.locate(pages, tree, key, value)?;
    Ok(place)
}

/// Makes every page of the path a changed one, the root first.
pub(crate) fn touch_path(pages: &mut WritePages, tree: &mut Tree, path: &mut Path) -> Result<()> {
    for level in (0..path.depth).rev() {
        let old = path.steps[level].page;
        let page = pages.touch(old, level as u8)?;
        if page == old {
            continue;
        }
        if pages.changed(page).flags() & !CONTINUES != flags_of(&tree.form, level as u8) {
            return Err(pages.corrupt(old, "its flags are not those of its table"));
        }
        path.steps[level].page = page;
        if level + 1 == path.depth {
            tree.root.page = page;
        } else {
            let above = path.steps[level + 1];
            pages.change(above.page).set_child(above.slot as usize, page);
        }
    }
    Ok(())
}

/// Puts an entry of a plain tree, replacing the value that is there.
pub(crate) fn put_plain(
    pages: &mut WritePages,
    tree: &mut Tree,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    let mut place = locate(pages, tree, key, value)?;
    put_at(pages, tree, &mut place, key, value).map(|_| ())
}

/// Puts an entry at its place. A pair that is there already is left alone; in a tree without
/// duplicates its value is replaced. True if the place, whose pages are changed ones then, is
/// surely still that of the entry.
pub(crate) fn put_at(
    pages: &mut WritePages,
    tree: &mut Tree,
    place: &mut Place,
    key: &[u8],
    value: &[u8],
) -> Result<bool> {
    if tree.form.values.is_some() {
        if !place.found {
            add_pair(pages, tree, place, key, value)?;
        }
        return Ok(false);
    }
    let cell = value_cell(pages, tree, key, value)?;
    put_cell(pages, tree, place, key, cell)
}

/// The value as a leaf will hold it: in an extent if it is long.
fn value_cell<'v>(
    pages: &mut WritePages,
    tree: &mut Tree,
    key: &[u8],
    value: &'v [u8],
) -> Result<ValueCell<'v>> {
    if fits_inline(pages.page_size(), key.len(), value.len()) {
        return Ok(ValueCell::Inline(Bytes::from(value)));
    }
    let reference = extent::store(pages, value)?;
    raise(
        &mut tree.root.overflow_pages,
        u64::from(extent::run_of(&reference, pages.page_size()).len),
    );
    Ok(ValueCell::Extent(reference))
}

/// Whether a value stands beside its key in a leaf.
pub(crate) fn fits_inline(page_size: usize, key_len: usize, value_len: usize) -> bool {
    key_len.min(max_inline_key(page_size)) + value_len <= inline_most(page_size)
}

/// The most bytes that a key, as far as it stands in a leaf, and a value beside it have together.
pub(crate) fn inline_most(page_size: usize) -> usize {
    max_inline_record(page_size) - EXTENT_CELL - 8
}

/// Puts an entry of a tree without duplicates, its value prepared.
pub(crate) fn put_cell(
    pages: &mut WritePages,
    tree: &mut Tree,
    place: &mut Place,
    key: &[u8],
    value: ValueCell<'_>,
) -> Result<bool> {
    if place.path.depth == 0 {
        first_entry(pages, tree, key, value)?;
        return Ok(false);
    }
    touch_path(pages, tree, &mut place.path)?;
    if place.found {
        return replace_value(pages, tree, place, value);
    }
    let one = Count { keys: 1, values: 1 };
    let cell = key_cell(pages, tree, key)?;
    let stays = insert_group(pages, tree, place, key, cell, value, true, one)?;
    raise(&mut tree.root.count.keys, 1);
    raise(&mut tree.root.count.values, 1);
    Ok(stays)
}

/// The key as a new leaf record will hold it: in an extent if it is long.
fn key_cell<'k>(pages: &mut WritePages, tree: &mut Tree, key: &'k [u8]) -> Result<KeyCell<'k>> {
    let extent = if key.len() > max_inline_key(pages.page_size()) {
        let reference = extent::store(pages, key)?;
        raise(
            &mut tree.root.overflow_pages,
            u64::from(extent::run_of(&reference, pages.page_size()).len),
        );
        Some(reference)
    } else {
        None
    };
    Ok(KeyCell { known: Bytes::from(key), extent })
}

fn first_entry(
    pages: &mut WritePages,
    tree: &mut Tree,
    key: &[u8],
    value: ValueCell<'_>,
) -> Result<()> {
    let key = key_cell(pages, tree, key)?;
    let mut buffer = pages.new_buffer()?;
    build_leaf(buffer.bytes_mut(), &[Pair { key, value, starts: true }], &tree.form)
        .map_err(|why| pages.corrupt(tree.root.page, why))?;
    tree.root.page = pages.place(buffer);
    tree.root.level = 0;
    tree.root.leaf_pages = 1;
    tree.root.count = Count { keys: 1, values: 1 };
    Ok(())
}

/// Inserts a group of one value at the place's slot. The path is writable. True if the leaf had
/// room.
#[expect(clippy::too_many_arguments, reason = "an entry in all its parts")]
fn insert_group(
    pages: &mut WritePages,
    tree: &mut Tree,
    place: &mut Place,
    key: &[u8],
    cell: KeyCell<'_>,
    value: ValueCell<'_>,
    starts: bool,
    delta: Count,
) -> Result<bool> {
    let mut page = pages.change(place.path.steps[0].page);
    let rest = tree.form.keys.strip(key, page.view().shared());
    if let Some(rest) = rest
        && insert_in_leaf(&mut page, place.slot, &tree.form.keys, rest, &cell, &value)
    {
        if place.slot == 0 {
            page.set_flag(CONTINUES, !starts);
        }
        add_above(pages, &place.path, 0, delta);
        return Ok(true);
    }
    let pair = Pair { key: cell, value, starts };
    let change = Change::Insert { slot: place.slot, value: None, pair };
    spread_leaf(pages, tree, &mut place.path, change, rest.is_some(), delta).map(|()| false)
}

/// Inserts a group of one value into a leaf, where `rest` is what its key has besides the shared
/// bytes. False, and no change, if there is no room.
#[inline(always)]
fn insert_in_leaf(
    page: &mut PageMut<'_>,
    slot: usize,
    order: &KeyOrder,
    rest: &[u8],
    cell: &KeyCell<'_>,
    value: &ValueCell<'_>,
) -> bool {
    if let (None, ValueCell::Inline(value)) = (&cell.extent, value)
        && let Some(value) = value.as_slice()
    {
        return page.insert_plain(slot, head_in(order, rest), rest, value);
    }
    let rest = RestCell::of(cell, page.view().shared().len(), order);
    page.insert_single(slot, head_of_rest(order, &rest.rest), &rest, value)
}

/// Gives an entry of a tree without duplicates another value. True if the leaf had room.
fn replace_value(
    pages: &mut WritePages,
    tree: &mut Tree,
    place: &mut Place,
    value: ValueCell<'_>,
) -> Result<bool> {
    let leaf = place.path.steps[0].page;
    let record = pages.changed(leaf).record(place.slot);
    if let Some(old) = record.value_extent() {
        extent::free(pages, &old)?;
        lower(
            &mut tree.root.overflow_pages,
            u64::from(extent::run_of(&old, pages.page_size()).len),
        );
    }
    if let ValueCell::Inline(bytes) = &value {
        let mut page = pages.change(leaf);
        if let Some(old) = page.value_of_len(place.slot, bytes.len()) {
            bytes.write(old, 0);
            return Ok(true);
        }
    }
    if replace_in_place(pages, leaf, place.slot, &value) {
        return Ok(true);
    }
    let change = Change::Replace { slot: place.slot, value };
    spread_leaf(pages, tree, &mut place.path, change, true, Count::default()).map(|()| false)
}

/// Gives the entry of a slot another value; false, and no change, if its leaf has no room.
fn replace_in_place(
    pages: &mut WritePages,
    leaf: PageRef,
    slot: usize,
    value: &ValueCell<'_>,
) -> bool {
    let mut scratch = std::mem::take(&mut pages.scratch);
    let fits = pages.change(leaf).replace_single(slot, value, &mut scratch);
    pages.scratch = scratch;
    fits
}

/// Gives an entry of a changed leaf of a tree without duplicates another value. False, and no
/// change, if the old one or the new one does not stand in the leaf, or that has no room.
pub(crate) fn replace_short(
    pages: &mut WritePages,
    leaf: PageRef,
    slot: usize,
    value: &[u8],
) -> bool {
    let page = pages.changed(leaf);
    let Some((rest, _)) = page.plain_record(slot) else { return false };
    let key_len = page.shared().len() + rest.len();
    fits_inline(pages.page_size(), key_len, value.len())
        && pages.change(leaf).replace_plain_value(slot, value)
}

/// Puts an entry of short parts in place of that of a slot, at another slot of the leaf. False, and
/// no entry is changed, if there is no room.
pub(crate) fn replace_in_leaf(
    pages: &mut WritePages,
    tree: &mut Tree,
    path: &mut Path,
    (from, to): (usize, usize),
    (key, value): (&[u8], &[u8]),
) -> Result<bool> {
    touch_path(pages, tree, path)?;
    let mut page = pages.change(path.steps[0].page);
    let Some(rest) = tree.form.keys.strip(key, page.view().shared()) else { return Ok(false) };
    let head = head_in(&tree.form.keys, rest);
    Ok(page.replace_plain(from, to, head, (rest, value)))
}

/// Adds a pair that is not there to a tree with duplicates.
fn add_pair(
    pages: &mut WritePages,
    tree: &mut Tree,
    place: &mut Place,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    let cell = ValueCell::Inline(Bytes::from(value));
    if place.path.depth == 0 {
        return first_entry(pages, tree, key, cell);
    }
    touch_path(pages, tree, &mut place.path)?;
    raise(&mut tree.root.count.values, 1);
    if place.key_found {
        let delta = Count { keys: 0, values: 1 };
        return add_value(pages, tree, place, value, delta);
    }
    // The key's other values may stand at the end of the leaf before or the beginning of the next.
    let len = pages.changed(place.path.steps[0].page).len();
    let continues = place.slot == 0 && ends_before(pages, tree, &place.path, key)?;
    let mut behind =
        if place.slot == len { begins_behind(pages, tree, &place.path, key)? } else { None };
    if let Some(path) = &mut behind {
        // That leaf's first group now goes on with ours: its key is counted here.
        touch_path(pages, tree, path)?;
        pages.change(path.steps[0].page).set_flag(CONTINUES, true);
        add_above(pages, path, 0, Count { keys: u64::MAX, values: 0 });
        refresh(pages, tree, &mut place.path)?;
    }
    if !continues && behind.is_none() {
        raise(&mut tree.root.count.keys, 1);
    }
    let key_cell = key_cell(pages, tree, key)?;
    let delta = Count { keys: u64::from(!continues), values: 1 };
    insert_group(pages, tree, place, key, key_cell, cell, !continues, delta).map(|_| ())
}

/// Follows the path's slots down again: pages on it may have been copied since.
fn refresh(pages: &WritePages, tree: &Tree, path: &mut Path) -> Result<()> {
    let mut at = tree.root.page;
    for level in (0..path.depth).rev() {
        path.steps[level].page = at;
        if level > 0 {
            at = pages.page(at, level as u8)?.child(path.steps[level].slot as usize);
        }
    }
    Ok(())
}

/// Whether the leaf before the path's ends with `key`.
fn ends_before(pages: &WritePages, tree: &Tree, path: &Path, key: &[u8]) -> Result<bool> {
    let mut path = *path;
    let Some(page) = path.previous_leaf(pages)? else { return Ok(false) };
    Ok(leaf_slot(pages, &tree.form.keys, page, key)? == (page.len() - 1, true))
}

/// The path to the leaf after the path's leaf, if that begins with `key`.
fn begins_behind(pages: &WritePages, tree: &Tree, path: &Path, key: &[u8]) -> Result<Option<Path>> {
    let mut path = *path;
    let Some(page) = path.next_leaf(pages)? else { return Ok(None) };
    let found = leaf_slot(pages, &tree.form.keys, page, key)? == (0, true);
    Ok(found.then_some(path))
}

/// Adds a value to the group at the place.
fn add_value(
    pages: &mut WritePages,
    tree: &mut Tree,
    place: &mut Place,
    value: &[u8],
    delta: Count,
) -> Result<()> {
    let leaf = place.path.steps[0].page;
    let mut scratch = std::mem::take(&mut pages.scratch);
    let edit = GroupEdit::Put(place.value, value);
    let done = pages.change(leaf).edit_group(place.slot, edit, &tree.form, &mut scratch);
    if done {
        pages.scratch = scratch;
        add_above(pages, &place.path, 0, delta);
        return Ok(());
    }
    // The key's bytes are taken from the record; only the value is new.
    scratch.clear();
    let record = pages.changed(leaf).record(place.slot);
    record.key_cell().known.append_to(&mut scratch);
    let key = KeyCell { known: Bytes::from(&scratch[..]), extent: record.key_extent() };
    let pair = Pair { key, value: ValueCell::Inline(Bytes::from(value)), starts: false };
    let change = Change::Insert { slot: place.slot, value: Some(place.value), pair };
    let result = spread_leaf(pages, tree, &mut place.path, change, true, delta);
    pages.scratch = scratch;
    result
}
