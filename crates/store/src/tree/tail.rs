//! The short way for sorted input: another entry behind the last one of a table, where its leaf has
//! room. Everything else takes the long way through `insert`.

use super::Count;
use super::insert::Place;
use super::page::search::{head_in, is_behind};
use super::pages::{Pages, WritePages};
use super::path::Path;
use super::tree::Tree;
use crate::Result;

/// The place behind the last entry of a table while it is being appended to.
pub(crate) struct Tail {
    pub(crate) place: Place,
    /// The epoch of the undo log in which every page of the path was made a changed one.
    touched_in: Option<u32>,
}

impl Tail {
    /// The end of the tree as it is now; `None` for an empty one.
    pub(crate) fn find<P: Pages>(pages: &P, tree: &Tree) -> Result<Option<Self>> {
        let mut path = Path::EMPTY;
        let page = path.descend(pages, tree, |page| Ok(page.len() - 1))?;
        Ok(page.map(|page| {
            let place = Place { path, slot: page.len(), key_found: false, value: 0, found: false };
            Self { place, touched_in: None }
        }))
    }

    /// Notes that the pages of the path are changed ones.
    pub(crate) fn set_touched(&mut self, epoch: u32) {
        self.touched_in = Some(epoch);
    }

    /// Whether the pages of the path may be written as they are.
    #[inline(always)]
    pub(crate) fn is_touched(&self, epoch: u32) -> bool {
        self.touched_in == Some(epoch)
    }

    /// Adds a short entry behind the last one. False, and no change, if it does not come after it
    /// or the leaf has no room as it is. The pages of the path must be changed ones.
    #[inline(always)]
    pub(crate) fn push(
        &self,
        pages: &mut WritePages,
        tree: &mut Tree,
        key: &[u8],
        value: &[u8],
    ) -> bool {
        let path = &self.place.path;
        let leaf = path.steps[0].page;
        let page = pages.changed(leaf);
        let Some(rest) = is_behind(&tree.form.keys, page, key) else { return false };
        // Two lengths of at most two bytes, and a slot.
        if rest.len() + value.len() + 4 + 6 > page.free() {
            return false;
        }
        let head = head_in(&tree.form.keys, rest);
        pages.change(leaf).push_plain(head, rest, value);
        let one = Count { keys: 1, values: 1 };
        for step in &path.steps[1..path.depth] {
            pages.change(step.page).add_child_count(step.slot as usize, one);
        }
        tree.root.count.keys += 1;
        tree.root.count.values += 1;
        true
    }
}
