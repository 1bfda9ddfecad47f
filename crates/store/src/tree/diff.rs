//! What changed between two snapshots of a store: [`Diff`].
//!
//! # How
//!
//! Two ways lead through the two trees in key order. A page that both trees refer to holds the same
//! in both, so where both ways stand at the beginning of the same page, at whatever level, both
//! pass over all that is below it. Otherwise the higher one of the pages before which they stand is
//! opened. Where both stand on pairs, these are merged.
//!
//! No shared page is missed. Let one way come to a shared page first. It may open it, but stays at
//! its first pair, which is not given before the other way has passed all pairs that are less. Then
//! the other way stands before that page, or before one whose first child, or first child's first
//! child, it is; and opening these one by one it comes to the page itself. So the pages opened are
//! those that only one of the trees has, and in addition at most one for each level where the ways
//! do not come to a shared page at the same time. The separators of branches are not looked at.
//!
//! # Why the same page number means the same content
//!
//! A page that a published commit refers to is not written again as long as that commit is
//! protected (`free`): a transaction writes its changed pages, extents, the pages that it writes
//! early and those of the free-space trees to pages that no protected snapshot uses, and so do the
//! steps of compaction. Replaying the log writes pages of commits too, but only while the store has
//! no other user. Both snapshots are pinned while a [`Diff`] borrows them. The older one has been
//! protected since it was the newest commit, by a reader or by a pin with a name, so that none of
//! its pages was written since; if the newer one refers to one of them, its content is that which
//! the older one has. An extent is named by the number of its first page, and the same holds for
//! it.

use std::cmp::Ordering;
use std::iter::FusedIterator;
use std::ops::Bound;
use std::sync::Arc;

use super::catalog::OpenTable;
use super::order::{Form, KeyOrder};
use super::page::search::Side;
use super::page::{Record, ValueCell};
use super::pages::ReadPages;
use super::search::{key_bytes, value_bytes};
use super::snapshot::sealed::Sealed;
use super::tree::{Root, Tree};
use super::{Bytes, ReadTxn, Snapshot, Table};
use crate::{Error, Result};
use walk::Walk;

mod walk;

/// One difference between two snapshots of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'t> {
    /// The new snapshot has a key, in a table with duplicates a pair, that the old one lacks.
    Added {
        /// The key.
        key: Bytes<'t>,
        /// Its value.
        value: Bytes<'t>,
    },
    /// The old snapshot has a key, in a table with duplicates a pair, that the new one lacks.
    Removed {
        /// The key.
        key: Bytes<'t>,
        /// Its value.
        value: Bytes<'t>,
    },
    /// A key of a table without duplicates has another value.
    Changed {
        /// The key.
        key: Bytes<'t>,
        /// Its value in the old snapshot.
        old: Bytes<'t>,
        /// Its value in the new snapshot.
        new: Bytes<'t>,
    },
}

impl<'t> Change<'t> {
    /// The key.
    pub fn key(&self) -> Bytes<'t> {
        match self {
            Self::Added { key, .. } | Self::Removed { key, .. } | Self::Changed { key, .. } => *key,
        }
    }
}

/// A table that differs between two snapshots, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// Only the new snapshot has it.
    Added(Vec<u8>),
    /// Only the old snapshot has it.
    Removed(Vec<u8>),
    /// Both have it, and it was written to in between, or dropped and made anew. Its entries may be
    /// the same all the same.
    Changed(Vec<u8>),
}

impl TableChange {
    /// The table's name.
    pub fn name(&self) -> &[u8] {
        match self {
            Self::Added(name) | Self::Removed(name) | Self::Changed(name) => name,
        }
    }
}

/// Iterates over what changed in one table from an old snapshot to a new one, in the order of its
/// keys.
///
/// Pages that both snapshots share are not read: the cost is that of the changed pages, whatever
/// the size of the table. Pages moved by [`Store::compact`](crate::tree::Store::compact) count as
/// changed; no change is given for them, but they are read.
///
/// Keys and values borrow the two transactions. Under a custom order that takes different bytes for
/// equal, a key whose bytes differ is removed and added. Where the two tables of the name have
/// different orders, or only one has duplicates, all pairs of the old one are removed first and
/// then all of the new one added. An error ends the iteration.
///
/// ```
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// use hedgerow::tree::{Change, Diff, TableOptions};
/// let mut txn = store.begin_write()?;
/// let table = txn.create_table("fruit", &TableOptions::new())?;
/// txn.put(table, b"apple", b"1")?;
/// txn.put(table, b"pear", b"2")?;
/// txn.commit()?;
/// let old = store.begin_read()?;
/// let mut txn = store.begin_write()?;
/// let table = txn.create_table("fruit", &TableOptions::new())?;
/// txn.put(table, b"pear", b"3")?;
/// txn.commit()?;
/// let new = store.begin_read()?;
/// let changes = Diff::new(&old, &new, "fruit")?.collect::<hedgerow::Result<Vec<_>>>()?;
/// assert_eq!(changes.len(), 1);
/// assert!(matches!(changes[0], Change::Changed { key, .. } if key == b"pear"));
/// # Ok(()) }
/// ```
pub struct Diff<'t> {
    old: Walk<'t>,
    new: Walk<'t>,
    trees: [Tree; 2],
    /// Whether the pairs of one tree have no place among those of the other.
    is_apart: bool,
    high: Bound<Vec<u8>>,
    /// What comes before all else.
    pending: Option<Change<'t>>,
    /// Memory for a key or value in one piece.
    whole: Vec<u8>,
}

impl std::fmt::Debug for Diff<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Diff").field("pages_read", &self.pages_read()).finish_non_exhaustive()
    }
}

impl<'t> Diff<'t> {
    /// What changed in the table of a name from `old` to `new`. Where only one of them has it, all
    /// its pairs are added or removed.
    ///
    /// # Errors
    /// [`Error::Argument`] if the transactions are of different stores, or `old` of a later commit
    /// than `new`; [`Error::WrongTransaction`] if one was reset; [`Error::NoTable`] if neither has
    /// the table; [`Error::TableOptions`] for a custom order, unless both transactions have opened
    /// the table with its functions.
    pub fn new(old: &'t ReadTxn, new: &'t ReadTxn, name: impl AsRef<[u8]>) -> Result<Self> {
        let name = name.as_ref();
        let open = |txn: &ReadTxn| match txn.table(name) {
            Ok(table) => Ok(Some(table)),
            Err(Error::NoTable { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        let tables = (open(old)?, open(new)?);
        if tables == (None, None) {
            return Err(Error::NoTable { name: name.to_vec() });
        }
        Self::of_tables((old, tables.0), (new, tables.1))
    }

    /// What changed from a table of an old snapshot to one of a new snapshot, which may have
    /// another name; `None` stands for a table without entries.
    ///
    /// # Errors
    /// As [`Diff::new`]; [`Error::WrongTransaction`] for a handle of another transaction.
    pub fn of_tables(
        (old, old_table): (&'t ReadTxn, Option<Table>),
        (new, new_table): (&'t ReadTxn, Option<Table>),
    ) -> Result<Self> {
        check(old, new)?;
        let open = |txn: &'t ReadTxn, table: Option<Table>| -> Result<Option<&'t OpenTable>> {
            table.map(|table| txn.open_table(table)).transpose()
        };
        let (old_table, new_table) = (open(old, old_table)?, open(new, new_table)?);
        let is_apart = match (old_table, new_table) {
            (Some(old), Some(new)) => !old.stored.orders_as(&new.stored),
            _ => false,
        };
        let form = old_table.or(new_table).map_or(Form::PLAIN, |table| table.tree.form.clone());
        let tree = |table: Option<&OpenTable>| match table {
            Some(table) => table.tree.clone(),
            None => Tree::new(Root::EMPTY, form.clone()),
        };
        Ok(Self::of_trees(old, new, [tree(old_table), tree(new_table)], is_apart))
    }

    fn of_trees(old: &'t ReadTxn, new: &'t ReadTxn, trees: [Tree; 2], is_apart: bool) -> Self {
        Self {
            old: Walk::new(old.pages(), &trees[0]),
            new: Walk::new(new.pages(), &trees[1]),
            trees,
            is_apart,
            high: Bound::Unbounded,
            pending: None,
            whole: Vec::new(),
        }
    }

    /// The tables that differ, in bytewise order of their names. Their pages are not read.
    ///
    /// # Errors
    /// [`Error::Argument`] and [`Error::WrongTransaction`] as [`Diff::new`].
    pub fn tables(old: &'t ReadTxn, new: &'t ReadTxn) -> Result<Vec<TableChange>> {
        check(old, new)?;
        let changes = Self::of_trees(old, new, [old.catalog(), new.catalog()], false);
        let change = |change: Result<Change<'_>>| {
            Ok(match change? {
                Change::Added { key, .. } => TableChange::Added(key.to_vec()),
                Change::Removed { key, .. } => TableChange::Removed(key.to_vec()),
                Change::Changed { key, .. } => TableChange::Changed(key.to_vec()),
            })
        };
        changes.map(change).collect()
    }

    /// The same from the beginning, but only for keys in a range. Two descents of each tree, and no
    /// more pages than those of the range and of the next change after it.
    ///
    /// # Errors
    /// A damaged page; the interruption flag.
    pub fn within(mut self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Result<Self> {
        let [old, new] = &self.trees;
        (self.old, self.new) = (Walk::new(self.old.pages(), old), Walk::new(self.new.pages(), new));
        (self.high, self.pending) = (high.map(<[u8]>::to_vec), None);
        let (key, side) = match low {
            Bound::Unbounded => return Ok(self),
            Bound::Included(key) => (key, Side::First),
            Bound::Excluded(key) => (key, Side::Last),
        };
        if self.old.shared_level(&self.new).is_none() {
            self.old.seek(&old.form, key, side)?;
            self.new.seek(&new.form, key, side)?;
        }
        Ok(self)
    }

    /// How many pages of the two trees were read so far, those of long keys and values apart.
    pub fn pages_read(&self) -> u64 {
        self.old.opened() + self.new.opened()
    }

    /// The next change.
    fn step(&mut self) -> Result<Option<Change<'t>>> {
        if self.pending.is_some() {
            return Ok(self.pending.take());
        }
        loop {
            if let Some(level) = self.old.shared_level(&self.new) {
                self.old.leave(level)?;
                self.new.leave(level)?;
                continue;
            }
            let levels = (self.old.closed_level(), self.new.closed_level());
            if levels != (None, None) {
                if levels.0 >= levels.1 {
                    self.old.open()?;
                }
                if levels.1 >= levels.0 {
                    self.new.open()?;
                }
                continue;
            }
            if !self.is_apart {
                self.old.pass_same(&mut self.new)?;
            }
            let [old_tree, new_tree] = &self.trees;
            let old = Pair::within(&mut self.old, old_tree, &self.high)?;
            let new = Pair::within(&mut self.new, new_tree, &self.high)?;
            let change = match (old, new) {
                (None, None) => return Ok(None),
                (Some(old), None) => self.removed(&old)?,
                (None, Some(new)) => self.added(&new)?,
                (Some(old), Some(new)) => match self.compare(&old, &new)? {
                    Ordering::Less => self.removed(&old)?,
                    Ordering::Greater => self.added(&new)?,
                    Ordering::Equal => match self.both(&old, &new)? {
                        Some(change) => change,
                        None => continue,
                    },
                },
            };
            return Ok(Some(change));
        }
    }

    fn removed(&mut self, old: &Pair<'t>) -> Result<Change<'t>> {
        self.old.next()?;
        Ok(Change::Removed { key: old.key()?, value: old.value()? })
    }

    fn added(&mut self, new: &Pair<'t>) -> Result<Change<'t>> {
        self.new.next()?;
        Ok(Change::Added { key: new.key()?, value: new.value()? })
    }

    /// Pairs, or without duplicates keys, that are equal by their order.
    fn both(&mut self, old: &Pair<'t>, new: &Pair<'t>) -> Result<Option<Change<'t>>> {
        let form = &self.trees[0].form;
        let is_paired = form.values.is_some();
        // Other orders take nothing for equal but the same bytes.
        let is_custom = |order: &KeyOrder| matches!(order, KeyOrder::Custom(_));
        let may_differ = is_custom(&form.keys) || form.values.as_ref().is_some_and(is_custom);
        let is_same_key = !may_differ || is_same(old.key()?, new.key()?);
        let is_same_value = is_paired && !may_differ || old.has_value_of(new)?;
        if is_same_key && is_same_value {
            self.old.next()?;
            self.new.next()?;
            return Ok(None);
        }
        if is_same_key && !is_paired {
            self.old.next()?;
            self.new.next()?;
            let (key, old, new) = (new.key()?, old.value()?, new.value()?);
            return Ok(Some(Change::Changed { key, old, new }));
        }
        let removed = self.removed(old)?;
        self.pending = Some(self.added(new)?);
        Ok(Some(removed))
    }

    fn compare(&mut self, old: &Pair<'t>, new: &Pair<'t>) -> Result<Ordering> {
        if self.is_apart {
            return Ok(Ordering::Less);
        }
        let form = &self.trees[0].form;
        let mut compare = |order: &KeyOrder, a: Bytes<'_>, b: Bytes<'_>| match b.as_slice() {
            Some(b) => order.compare_bytes(&a, b),
            None => {
                b.copy_to(&mut self.whole);
                order.compare_bytes(&a, &self.whole)
            }
        };
        // An extent that both records name is the same key.
        let extent = old.record.key_extent();
        let keys = if extent.is_some() && extent == new.record.key_extent() {
            Ordering::Equal
        } else {
            compare(&form.keys, old.key()?, new.key()?)
        };
        match &form.values {
            Some(order) if keys.is_eq() => Ok(compare(order, old.value()?, new.value()?)),
            _ => Ok(keys),
        }
    }
}

/// Refuses snapshots between which there is no difference that could be told.
fn check(old: &ReadTxn, new: &ReadTxn) -> Result<()> {
    if old.unique() == 0 || new.unique() == 0 {
        return Err(Error::WrongTransaction);
    }
    if !Arc::ptr_eq(&old.store, &new.store) {
        return Err(Error::argument("the two snapshots are of different stores"));
    }
    if old.id() > new.id() {
        return Err(Error::argument("the old snapshot is of a later commit than the new one"));
    }
    Ok(())
}

/// A pair under one of the ways.
struct Pair<'t> {
    pages: &'t ReadPages,
    record: Record<'t>,
    value: ValueCell<'t>,
}

impl<'t> Pair<'t> {
    /// The pair under a way, which ends there if it is beyond the upper bound.
    fn within(walk: &mut Walk<'t>, tree: &Tree, high: &Bound<Vec<u8>>) -> Result<Option<Self>> {
        let Some((record, value)) = walk.at()? else { return Ok(None) };
        let pair = Self { pages: walk.pages(), record, value: record.value(value) };
        let is_within = match high {
            Bound::Unbounded => true,
            Bound::Included(high) => tree.form.keys.compare_bytes(&pair.key()?, high).is_le(),
            Bound::Excluded(high) => tree.form.keys.compare_bytes(&pair.key()?, high).is_lt(),
        };
        if !is_within {
            walk.end();
        }
        Ok(is_within.then_some(pair))
    }

    fn key(&self) -> Result<Bytes<'t>> {
        key_bytes(self.pages, &self.record)
    }

    fn value(&self) -> Result<Bytes<'t>> {
        value_bytes(self.pages, self.value)
    }

    /// Whether the values are the same; of long ones, those of one length are read unless it is one
    /// extent.
    fn has_value_of(&self, other: &Self) -> Result<bool> {
        match (self.value, other.value) {
            (ValueCell::Extent(a), ValueCell::Extent(b)) if a == b || a.len != b.len => Ok(a == b),
            _ => Ok(is_same(self.value()?, other.value()?)),
        }
    }
}

fn is_same(a: Bytes<'_>, b: Bytes<'_>) -> bool {
    match b.as_slice() {
        Some(whole) => a == *whole,
        None => a == b,
    }
}

impl<'t> Iterator for Diff<'t> {
    type Item = Result<Change<'t>>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.old.end();
            self.new.end();
            self.pending = None;
        }
        step.transpose()
    }
}

impl FusedIterator for Diff<'_> {}

#[cfg(test)]
#[path = "diff/tests.rs"]
mod tests;
