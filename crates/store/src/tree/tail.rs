//! The short way for sorted input: another entry after the last one of a table, where its leaf has
//! room. Everything else takes the long way through `insert`.

use std::cmp::Ordering;

use super::insert::{Place, inline_most};
use super::page::max_inline_key;
use super::page::search::behind_last;
use super::pages::{Pages, WritePages};
use super::path::Path;
use super::search::{key_bytes, value_bytes};
use super::tree::{Tree, raise};
use crate::Result;

/// The place after the last entry of a table while it is being appended to.
pub(crate) struct Tail {
    pub(crate) place: Place,
    /// How many leaves the tree had when this place was found, or when the filled leaves were last
    /// written early.
    pub(crate) leaves: u64,
    taken: Option<Taken>,
}

/// Which entries can be pushed: those that the checks of a table and its pages would let pass,
/// settled once for a whole run of them; none in a table with duplicates.
struct Taken {
    /// The epoch of the undo log in which every page of the path was made a changed one.
    epoch: u32,
    key_least: usize,
    key_most: usize,
    entry_most: usize,
}

impl Tail {
    /// The end of the tree as it is now; `None` for an empty one.
    pub(crate) fn find<P: Pages>(pages: &P, tree: &Tree) -> Result<Option<Self>> {
        let mut path = Path::EMPTY;
        let page = path.descend(pages, tree, |page| Ok(page.len() - 1))?;
        Ok(page.map(|page| {
            let place = Place { path, slot: page.len(), key_found: false, value: 0, found: false };
            Self { place, leaves: tree.root.leaf_pages, taken: None }
        }))
    }

    /// Moves the place after the last pair: to a new key, or to another value of the last one.
    /// False, and the place has no meaning, if the pair does not come after the last one.
    pub(crate) fn aim<P: Pages>(
        &mut self,
        pages: &P,
        tree: &Tree,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        let page = pages.page(self.place.path.steps[0].page, 0)?;
        let last = page.len() - 1;
        let record = page.leaf_record(last);
        let place = &mut self.place;
        match (tree.form.keys.compare_bytes(&key_bytes(pages, &record)?, key), &tree.form.values) {
            (Ordering::Less, _) => {
                (place.slot, place.key_found, place.value) = (last + 1, false, 0)
            }
            (Ordering::Equal, Some(order)) => {
                let count = record.value_count();
                let value_before = value_bytes(pages, record.value(count - 1))?;
                (place.slot, place.key_found, place.value) = (last, true, count);
                return Ok(order.compare_bytes(&value_before, value).is_lt());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Notes that the pages of the path are changed ones. `key_size` is 0 unless all keys of the
    /// table have one size.
    pub(crate) fn set_touched(&mut self, pages: &WritePages, tree: &Tree, key_size: usize) {
        let page_size = pages.page_size();
        let all = max_inline_key(page_size);
        let (key_least, key_most) = match (tree.form.values.is_none(), key_size) {
            // A value may belong to the last key, which is not the short way.
            (false, _) => (1, 0),
            (true, 0) => (0, all),
            (true, fixed) => (fixed, fixed),
        };
        let (epoch, entry_most) = (pages.epoch(), inline_most(page_size));
        self.taken = Some(Taken { epoch, key_least, key_most, entry_most });
    }

    /// Whether the pages of the path are changed ones.
    pub(crate) fn is_touched(&self, epoch: u32) -> bool {
        self.taken.as_ref().is_some_and(|taken| taken.epoch == epoch)
    }

    /// Whether an entry of these sizes can be pushed, if the leaf has room.
    #[inline(always)]
    pub(crate) fn takes(&self, epoch: u32, key: usize, value: usize) -> bool {
        self.taken.as_ref().is_some_and(|taken| {
            taken.epoch == epoch
                && (taken.key_least..=taken.key_most).contains(&key)
                && key + value <= taken.entry_most
        })
    }

    /// Adds a short entry after the last one. False, and no change, if it does not come after the
    /// last one or the leaf has no room as it is. The tail must take it.
    #[inline(always)]
    pub(crate) fn push(
        &self,
        pages: &mut WritePages,
        tree: &mut Tree,
        key: &[u8],
        value: &[u8],
    ) -> bool {
        let path = &self.place.path;
        let mut leaf = pages.change(path.steps[0].page);
        let page = leaf.view();
        let Some((head, rest)) = behind_last(&tree.form.keys, page, key) else { return false };
        if !leaf.push_plain(head, rest, value) {
            return false;
        }
        for step in &path.steps[1..path.depth] {
            pages.change(step.page).count_behind();
        }
        raise(&mut tree.root.count.keys, 1);
        raise(&mut tree.root.count.values, 1);
        true
    }
}
