//! A tree as a value: where its root is, how it is ordered, what it counts and how many pages it
//! has. The algorithms on it stand in `search`, `insert`, `remove`, `rank` and `cursor`.

use super::Count;
use super::order::Form;
use super::page::{HEADER_LEN, MAX_LEVELS};
use super::page_ref::{PAGE_BYTES_MIN, PageRef};
use crate::coding::{put_u32, put_u64, u32_at, u64_at};

/// No counter of a root record is larger: 2^31 pages of at most 2^16 bytes.
const COUNT_MAX: u64 = 1 << 47;

/// Root, counters and page counts of a tree, as they stand in the catalog and in meta pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    /// [`PageRef::NONE`] for an empty tree.
    pub(crate) page: PageRef,
    /// The level of the root page; 0 if it is a leaf or there is none.
    pub(crate) level: u8,
    pub(crate) count: Count,
    pub(crate) branch_pages: u64,
    pub(crate) leaf_pages: u64,
    pub(crate) overflow_pages: u64,
}

impl Root {
    /// The length of a root record in bytes.
    pub(crate) const LEN: usize = 48;

    pub(crate) const EMPTY: Self = Self {
        page: PageRef::NONE,
        level: 0,
        count: Count { keys: 0, values: 0 },
        branch_pages: 0,
        leaf_pages: 0,
        overflow_pages: 0,
    };

    /// Writes the record: page u32, level u32, keys, values, branch, leaf, overflow pages u64 each.
    pub(crate) fn encode(&self, out: &mut [u8]) {
        put_u32(out, 0, self.page.0);
        put_u32(out, 4, u32::from(self.level));
        put_u64(out, 8, self.count.keys);
        put_u64(out, 16, self.count.values);
        put_u64(out, 24, self.branch_pages);
        put_u64(out, 32, self.leaf_pages);
        put_u64(out, 40, self.overflow_pages);
    }

    /// Reads a record; `None` if no store can have written it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < Self::LEN {
            return None;
        }
        let page = PageRef(u32_at(bytes, 0));
        let level = u32_at(bytes, 4);
        if level as usize >= MAX_LEVELS || (page.is_changed() && !page.is_none()) {
            return None;
        }
        let numbers = [8, 16, 24, 32, 40].map(|at| u64_at(bytes, at));
        if numbers.iter().any(|number| *number > COUNT_MAX) {
            return None;
        }
        Some(Self {
            page,
            level: level as u8,
            count: Count { keys: u64_at(bytes, 8), values: u64_at(bytes, 16) },
            branch_pages: u64_at(bytes, 24),
            leaf_pages: u64_at(bytes, 32),
            overflow_pages: u64_at(bytes, 40),
        })
    }
}

/// Raises a counter. Those of a damaged tree may be anything, so it wraps.
#[inline(always)]
pub(crate) fn raise(counter: &mut u64, by: u64) {
    *counter = counter.wrapping_add(by);
}

/// Lowers a counter; see [`raise`].
#[inline(always)]
pub(crate) fn lower(counter: &mut u64, by: u64) {
    *counter = counter.wrapping_sub(by);
}

/// A tree.
#[derive(Clone)]
pub(crate) struct Tree {
    pub(crate) root: Root,
    pub(crate) form: Form,
    front: u32,
}

impl Tree {
    pub(crate) fn new(root: Root, form: Form) -> Self {
        let mut tree = Self { root, form, front: 0 };
        tree.note_leaves();
        tree
    }

    /// About how many bytes at the beginning of a leaf a search looks at before it comes to a
    /// record: header, heads and offsets of a leaf as full as they are on average.
    #[inline(always)]
    pub(crate) fn front(&self) -> usize {
        self.front as usize
    }

    /// Takes note of how full the leaves are on average, after some of them were laid out anew.
    pub(crate) fn note_leaves(&mut self) {
        let groups = self.root.count.keys / self.root.leaf_pages.max(1);
        let slot_len = self.form.layout().slot_len();
        let most = (PAGE_BYTES_MIN / slot_len) as u64;
        self.front = (HEADER_LEN + slot_len * groups.min(most) as usize) as u32;
    }
}
