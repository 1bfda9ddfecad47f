//! What changed between two moments of a store: [`Diff`].
//!
//! The newer moment says which keys were touched since the older one: each entry has the sequence
//! number of its commit. What both see of these keys is then held against each other. Tables that
//! hold nothing newer are not read for that.

use std::collections::{BTreeMap, VecDeque};
use std::iter::FusedIterator;
use std::sync::Arc;

use super::catalog;
use super::db::Db;
use super::entry::full_range;
use super::keyspace::{CATALOG, Keyspace};
use super::read::newer::{Newer, whole};
use super::read::range::{Pair, Range};
use super::read::readable::Readable;
use super::read::readable::sealed::Sealed as _;
use super::read::snapshot::Snapshot;
use super::read::touched::{LogPlace, Touched};
use super::read::view::View;
use crate::key::KeyRange;
use crate::{Error, Result};

/// The values of this many keys are read together.
const KEYS: usize = 32;

/// One difference between two moments of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The new one has a key that the old one lacks.
    Added {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// The old one has a key that the new one lacks.
    Removed {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// A key has another value.
    Changed {
        /// The key.
        key: Vec<u8>,
        /// Its value in the old one.
        old: Vec<u8>,
        /// Its value in the new one.
        new: Vec<u8>,
    },
}

impl Change {
    /// The key.
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Added { key, .. } | Self::Removed { key, .. } | Self::Changed { key, .. } => key,
        }
    }

    fn between(key: Vec<u8>, old: Option<Vec<u8>>, new: Option<Vec<u8>>) -> Option<Self> {
        match (old, new) {
            (Some(old), Some(new)) if old == new => None,
            (Some(old), Some(new)) => Some(Self::Changed { key, old, new }),
            (Some(value), None) => Some(Self::Removed { key, value }),
            (None, Some(value)) => Some(Self::Added { key, value }),
            (None, None) => None,
        }
    }
}

/// A keyspace that differs between two moments, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyspaceChange {
    /// Only the new one has it.
    Added(Vec<u8>),
    /// Only the old one has it.
    Removed(Vec<u8>),
    /// Both have it, and it was written to in between, or dropped and made anew. Its entries may be
    /// the same all the same.
    Changed(Vec<u8>),
}

impl KeyspaceChange {
    /// The keyspace's name.
    pub fn name(&self) -> &[u8] {
        match self {
            Self::Added(name) | Self::Removed(name) | Self::Changed(name) => name,
        }
    }
}

/// Iterates over what changed in one keyspace from an old moment to a new one, in the order of its
/// keys.
///
/// The cost is that of the entries written in between, and of reading the tables in which they
/// stand by now, among older ones. An error ends the iteration.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// use hedgerow::lsm::{Change, Diff};
///
/// let people = db.keyspace("people", Default::default())?;
/// db.put(&people, b"1", b"Ada")?;
/// let old = db.snapshot();
/// db.put(&people, b"2", b"Grace")?;
/// let changes = Diff::new(&old, &db.snapshot(), "people")?.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(changes, [Change::Added { key: b"2".to_vec(), value: b"Grace".to_vec() }]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Diff {
    views: [View; 2],
    /// The keyspaces under the name; the same one, unless it was dropped and made anew.
    keyspaces: [Option<Keyspace>; 2],
    keys: (std::ops::Bound<Vec<u8>>, std::ops::Bound<Vec<u8>>),
    touched: Option<Arc<Touched>>,
    way: Option<Way>,
}

/// How the changes are found.
enum Way {
    /// In one keyspace that both have.
    Touched(Box<Newer>, Keyspace, VecDeque<Change>),
    /// Among all pairs of two that have nothing in common, or of one.
    Whole(Box<[Option<Range>; 2]>, [Option<Pair>; 2]),
    Over,
}

impl std::fmt::Debug for Diff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [old, new] = &self.views;
        f.debug_struct("Diff").field("from", &old.at).field("to", &new.at).finish_non_exhaustive()
    }
}

impl Diff {
    /// What changed in the keyspace of a name from `old` to `new`. Where only one of them has it,
    /// all its pairs are added or removed.
    ///
    /// # Errors
    /// [`Error::Argument`] if they are of different stores, or `old` of a later commit than `new`;
    /// [`Error::NoTable`] if neither has the keyspace; else as [`Readable::get`].
    pub fn new(old: &impl Readable, new: &impl Readable, name: impl AsRef<[u8]>) -> Result<Self> {
        Self::with(old, new, name.as_ref(), None)
    }

    /// The same, where it is known what was touched.
    pub(crate) fn with(
        old: &impl Readable,
        new: &impl Readable,
        name: &[u8],
        touched: Option<Arc<Touched>>,
    ) -> Result<Self> {
        let (views, store) = (views(old, new)?, new.store());
        let keyspaces =
            [catalog::find(&views[0], store, name)?, catalog::find(&views[1], store, name)?];
        if keyspaces.iter().all(Option::is_none) {
            return Err(Error::NoTable { name: name.to_vec() });
        }
        let keys = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        Ok(Self { views, keyspaces, keys, touched, way: None })
    }

    /// All pairs of a keyspace, as added ones.
    pub(crate) fn of_all(new: &impl Readable, name: &[u8]) -> Result<Self> {
        let view = new.view();
        let Some(keyspace) = catalog::find(&view, new.store(), name)? else {
            return Err(Error::NoTable { name: name.to_vec() });
        };
        let (views, keyspaces) = ([view.clone(), view], [None, Some(keyspace)]);
        let keys = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        Ok(Self { views, keyspaces, keys, touched: None, way: None })
    }

    /// Looks only at the keys of a range. This must be called before the first change is asked for.
    pub fn within(mut self, keys: impl KeyRange) -> Self {
        self.keys = (keys.low().map(<[u8]>::to_vec), keys.high().map(<[u8]>::to_vec));
        self
    }

    /// The keyspaces that differ, in bytewise order of their names.
    ///
    /// # Errors
    /// As [`Diff::new`].
    pub fn keyspaces(old: &impl Readable, new: &impl Readable) -> Result<Vec<KeyspaceChange>> {
        Self::keyspaces_with(old, new, None)
    }

    /// The same, where it is known what was touched.
    pub(crate) fn keyspaces_with(
        old: &impl Readable,
        new: &impl Readable,
        touched: Option<&Arc<Touched>>,
    ) -> Result<Vec<KeyspaceChange>> {
        let [old, new] = views(old, new)?;
        let all = |view: &View| {
            let pairs = Range::new(view.clone(), CATALOG, &..);
            pairs.collect::<Result<BTreeMap<Vec<u8>, Vec<u8>>>>()
        };
        let (before, mut after) = (all(&old)?, all(&new)?);
        let mut changes = Vec::new();
        for (name, record) in before {
            let Some(now) = after.remove(&name) else {
                changes.push(KeyspaceChange::Removed(name));
                continue;
            };
            let is_other = now != record;
            if is_other || was_touched(&old, &new, &name, touched)? {
                changes.push(KeyspaceChange::Changed(name));
            }
        }
        changes.extend(after.into_keys().map(KeyspaceChange::Added));
        changes.sort_unstable_by(|a, b| a.name().cmp(b.name()));
        Ok(changes)
    }

    /// A way through the changes.
    fn begin(&self) -> Result<Way> {
        let [old, new] = &self.views;
        if let [Some(before), Some(after)] = &self.keyspaces
            && before.id() == after.id()
        {
            let bounds = full_range(after.id(), &self.keys);
            let touched = self.touched.clone();
            let newer = Newer::new((old.clone(), new), after.id(), bounds, touched)?;
            return Ok(Way::Touched(Box::new(newer), after.clone(), VecDeque::new()));
        }
        let range = |view: &View, keyspace: &Option<Keyspace>| {
            let keyspace = keyspace.as_ref()?;
            Some(Range::new(view.clone(), keyspace.id(), &self.keys))
        };
        let [before, after] = &self.keyspaces;
        let mut ranges = [range(old, before), range(new, after)];
        let ahead = [step(&mut ranges[0])?, step(&mut ranges[1])?];
        Ok(Way::Whole(Box::new(ranges), ahead))
    }

    fn step(&mut self) -> Result<Option<Change>> {
        if self.way.is_none() {
            self.way = Some(self.begin()?);
        }
        match self.way.as_mut() {
            Some(Way::Touched(newer, keyspace, ready)) => {
                while ready.is_empty() {
                    let keys = some_keys(newer)?;
                    if keys.is_empty() {
                        return Ok(None);
                    }
                    let [old, new] = &self.views;
                    let (old, new) = (old.values(keyspace, &keys)?, new.values(keyspace, &keys)?);
                    let pairs = keys.into_iter().zip(old).zip(new);
                    ready.extend(pairs.filter_map(|((key, a), b)| Change::between(key, a, b)));
                }
                Ok(ready.pop_front())
            }
            Some(Way::Whole(ranges, ahead)) => next_of_all(ranges, ahead),
            Some(Way::Over) | None => Ok(None),
        }
    }
}

impl Iterator for Diff {
    type Item = Result<Change>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if !matches!(step, Ok(Some(_))) {
            self.way = Some(Way::Over);
        }
        step.transpose()
    }
}

impl FusedIterator for Diff {}

impl Db {
    /// What was touched from one snapshot to a later one, read from the log on from a place, which
    /// is moved; `None` if the log does not say it.
    pub(crate) fn touched(
        &self,
        (old, new): (&Snapshot, &Snapshot),
        place: &mut LogPlace,
    ) -> Option<Arc<Touched>> {
        // After a failed flush the log holds what no reader may see.
        self.inner.health.check().ok()?;
        let held = self.inner.directory.held.all();
        let view = new.view();
        Touched::find(view.version(), &held, (old.id(), new.id()), place).map(Arc::new)
    }
}

/// What both see.
fn views(old: &impl Readable, new: &impl Readable) -> Result<[View; 2]> {
    if old.store() != new.store() {
        return Err(Error::argument("the two moments are of different stores"));
    }
    let (old, new) = (old.view(), new.view());
    match old.at <= new.at {
        true => Ok([old, new]),
        false => Err(Error::argument("the first moment is later than the second one")),
    }
}

/// Whether anything was written to a keyspace that both have.
fn was_touched(
    old: &View,
    new: &View,
    name: &[u8],
    touched: Option<&Arc<Touched>>,
) -> Result<bool> {
    let Some(keyspace) = catalog::find(new, 0, name)? else { return Ok(false) };
    let (from, to) = whole(keyspace.id());
    if let Some(touched) = touched {
        let is_empty = touched.keys(&from, &to).is_empty() && touched.ranges(&from, &to).is_empty();
        return Ok(!is_empty);
    }
    let mut newer = Newer::new((old.clone(), new), keyspace.id(), (from, to), None)?;
    Ok(newer.next()?.is_some())
}

/// The next touched keys.
fn some_keys(newer: &mut Newer) -> Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    while keys.len() < KEYS
        && let Some(key) = newer.next()?
    {
        keys.push(key);
    }
    Ok(keys)
}

fn step(range: &mut Option<Range>) -> Result<Option<Pair>> {
    range.as_mut().and_then(Iterator::next).transpose()
}

/// The next difference of two ranges, of each of which the next pair is known.
fn next_of_all(
    [old, new]: &mut [Option<Range>; 2],
    [old_ahead, new_ahead]: &mut [Option<Pair>; 2],
) -> Result<Option<Change>> {
    loop {
        let (is_old, is_new) = match (&*old_ahead, &*new_ahead) {
            (None, None) => return Ok(None),
            (Some(a), Some(b)) => (a.0 <= b.0, b.0 <= a.0),
            (a, b) => (a.is_some(), b.is_some()),
        };
        let before = if is_old { std::mem::replace(old_ahead, step(old)?) } else { None };
        let after = if is_new { std::mem::replace(new_ahead, step(new)?) } else { None };
        let key = before.as_ref().or(after.as_ref()).map(|pair| pair.0.clone());
        let (before, after) = (before.map(|pair| pair.1), after.map(|pair| pair.1));
        let change = Change::between(key.unwrap_or_default(), before, after);
        if change.is_some() {
            return Ok(change);
        }
    }
}

#[cfg(test)]
#[path = "diff/tests.rs"]
mod tests;
