//! Updating the branches above pages that were laid out anew: replacing children, splitting,
//! merging and removing branches on the way up, and the counters.

use super::page::build::{Child, branch_len, build_branch};
use super::page::{HEADER_LEN, KeyCell, MAX_LEVELS, Page, Record, max_inline_key};
use super::page_ref::{ExtentRef, PageRef};
use super::pages::{Pages, WritePages};
use super::path::{Path, Step};
use super::tree::{Tree, lower, raise};
use super::{Bytes, Count, extent};
use crate::canary::{Bug, is_planted};
use crate::{Error, Result};

/// A separator on its way into a branch.
pub(crate) struct Separator {
    pub(crate) key: Vec<u8>,
    /// Where the whole key stands, if `key` is only the known part.
    pub(crate) extent: Option<ExtentRef>,
    pub(crate) value: Option<Vec<u8>>,
}

/// A child that takes part of the place of others.
pub(crate) struct NewChild {
    /// `None`: that of the first child it replaces.
    pub(crate) separator: Option<Separator>,
    pub(crate) page: PageRef,
    pub(crate) count: Count,
}

/// New children for old ones.
pub(crate) struct Swap {
    pub(crate) window: Window,
    pub(crate) new: Vec<NewChild>,
    /// The extent of an old separator that is still in use elsewhere.
    pub(crate) moved: Option<ExtentRef>,
}

/// Some neighbouring children of one branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) first: usize,
    pub(crate) len: usize,
}
/// The slot of the path in the branch above `level`; 0 if there is none.
pub(crate) fn slot_above(path: &Path, level: usize) -> usize {
    if level + 1 < path.depth { path.steps[level + 1].slot as usize } else { 0 }
}

impl Separator {
    /// Moves a key that is too long for a page into an extent.
    pub(crate) fn shorten_long(mut self, pages: &mut WritePages) -> Result<Self> {
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

    /// The most bytes that it takes in a branch that shares `shared` bytes.
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
    let is_done = match swap.new.len() < swap.window.len {
        true => close_in_place(pages, at, &swap),
        false => swap_in_place(pages, tree, at, &swap)?,
    };
    if is_done {
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

/// Takes a child out, or puts one in the place of two, without building the branch anew. False, and
/// no change, where more than that is to be done.
fn close_in_place(pages: &mut WritePages, at: PageRef, swap: &Swap) -> bool {
    let (page, Window { first, len }) = (pages.changed(at), swap.window);
    let (new, gone) = (&swap.new, first + len - 1);
    // A branch of one child is built.
    let is_usual = new.len() < 2 && new.len() + 1 == len && page.len() > 2;
    // The first child has no separator: where it goes, the second one loses its own.
    if !is_usual || page.record(gone.max(1)).is_long_key() {
        return false;
    }
    let mut page = pages.change(at);
    let counts = [new.first().map_or(Count::default(), |child| child.count), Count::default()];
    page.set_child_counts(first, counts[..len].iter().copied());
    if let [only] = &new[..] {
        page.set_child(first, only.page);
    }
    page.close_child(gone);
    true
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

/// Where to cut the children of a branch that is too full: in the middle, or before the last child
/// where the tree grows at its end.
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
    let limit = pages.page_size() * 9 / 10;
    let (a, b) = (pages.page(above.child(left), level)?, pages.page(above.child(left + 1), level)?);
    // What stands in both once is little.
    if a.used() + b.used() > limit + HEADER_LEN + a.shared().len() {
        return Ok(false);
    }
    let children = joined(pages, above, level, left)?;
    Ok(branch_len(&children, &tree.form, level, pages.page_size()) <= limit)
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
