//! Keys with all of their values: [`Groups`].

use std::ops::Bound;
use std::sync::Arc;

use super::held::Pair;
use super::pairs::Pairs;
use super::scan::{Scan, Values, Walker};
use super::source::{Item as _, Snapshot, Source};
use super::token::Token;
use crate::Result;
use crate::tree::Bytes;

/// The keys of a store in order, each with its values, from both ends; made by [`Scan::groups`].
///
/// It renews and gives back its snapshot as [`Pairs`] does, between two keys: all values of a key
/// are those of one moment.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// use hedgerow::stream::Scan;
/// use hedgerow::tree::TableOptions;
///
/// let mut txn = store.begin_write()?;
/// let tags = txn.create_table("tags", &TableOptions::new().duplicates())?;
/// for (file, tag) in [("a", "old"), ("a", "red"), ("b", "new")] {
///     txn.put(tags, file.as_bytes(), tag.as_bytes())?;
/// }
/// txn.commit()?;
/// let group = Scan::new("tags").groups(&store)?.next().unwrap()?;
/// assert_eq!((group.key().to_vec(), group.len()?), (b"a".to_vec(), Some(2)));
/// let values: Result<Vec<_>, _> = group.values()?.collect();
/// assert!(values?.iter().map(|value| value.to_vec()).eq([b"old", b"red"]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Groups<S: Source> {
    firsts: Pairs<S>,
    table: Arc<[u8]>,
}

impl<S: Source> Groups<S> {
    pub(super) fn new(scan: &Scan, source: &S) -> Result<Self> {
        let table = scan.table.as_slice().into();
        let firsts = scan.clone().values(Values::First).pairs(source)?;
        Ok(Self { firsts, table })
    }

    /// How many keys are left, where the engine can tell; exact as long as the snapshot is not
    /// exchanged.
    pub fn remaining(&self) -> Option<u64> {
        self.firsts.remaining()
    }

    /// The number of the commit that it sees.
    pub fn commit(&self) -> u64 {
        self.firsts.commit()
    }

    /// Gives the snapshot back until the next key is asked for.
    ///
    /// # Errors
    /// As [`Pairs::park`].
    pub fn park(&mut self) -> Result<()> {
        self.firsts.park()
    }

    /// How far it has come: [`Scan::resume`], followed by [`Scan::groups`], goes on there.
    ///
    /// # Errors
    /// As [`Pairs::token`].
    pub fn token(&self) -> Result<Token> {
        self.firsts.token()
    }

    fn group(
        &self,
        first: Option<Result<Pair<S::Snapshot>>>,
    ) -> Option<Result<Group<S::Snapshot>>> {
        let table = || Arc::clone(&self.table);
        first.map(|first| first.map(|first| Group { first, table: table() }))
    }
}

impl<S: Source> Iterator for Groups<S> {
    type Item = Result<Group<S::Snapshot>>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.firsts.next();
        self.group(first)
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        let first = self.firsts.nth(n);
        self.group(first)
    }
}

impl<S: Source> DoubleEndedIterator for Groups<S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let first = self.firsts.next_back();
        self.group(first)
    }
}

/// A key and its values, which stay readable as long as this is kept, as a [`Pair`] does.
pub struct Group<S: Snapshot> {
    first: Pair<S>,
    table: Arc<[u8]>,
}

impl<S: Snapshot> std::fmt::Debug for Group<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("key", &self.key()).finish_non_exhaustive()
    }
}

impl<S: Snapshot> Group<S> {
    /// The key.
    pub fn key(&self) -> Bytes<'_> {
        self.first.key()
    }

    /// The number of the commit that it was read from.
    pub fn commit(&self) -> u64 {
        self.first.commit()
    }

    /// The values in their order, from both ends.
    ///
    /// # Errors
    /// As the store's reads.
    pub fn values(&self) -> Result<GroupValues<'_, S>> {
        let key = self.key().to_vec();
        let scan =
            Scan::new(&self.table).range((Bound::Included(&key[..]), Bound::Included(&key[..])));
        Ok(GroupValues(scan.walk(self.first.snapshot())?))
    }

    /// How many values there are, where the engine can tell without reading them.
    ///
    /// # Errors
    /// As [`Group::values`].
    pub fn len(&self) -> Result<Option<u64>> {
        Ok(self.values()?.0.remaining())
    }

    /// Whether there is no value: never.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// The values of a key; made by [`Group::values`].
pub struct GroupValues<'g, S: Snapshot + 'g>(Walker<'g, S>);

/// A value of a key.
pub struct GroupValue<'g, S: Snapshot + 'g>(S::Item<'g>);

impl<'g, S: Snapshot> GroupValue<'g, S> {
    /// Its bytes.
    pub fn bytes(&self) -> Bytes<'_> {
        self.0.value()
    }

    /// A copy.
    pub fn to_vec(&self) -> Vec<u8> {
        self.0.value().to_vec()
    }
}

impl<'g, S: Snapshot> Iterator for GroupValues<'g, S> {
    type Item = Result<GroupValue<'g, S>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|item| item.map(GroupValue))
    }
}

impl<S: Snapshot> DoubleEndedIterator for GroupValues<'_, S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|item| item.map(GroupValue))
    }
}

#[cfg(test)]
#[path = "groups/tests.rs"]
mod tests;
