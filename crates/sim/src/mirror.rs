//! What a store holds as maps in memory, replayed from what a follower is told, and compared with
//! the store itself at each commit to which a step leads.

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow::lsm::{self, Readable as _};
use hedgerow::stream::{AsChange as _, Follow, Followed, Source};
use hedgerow::tree::{self, Change, Snapshot as _, TableChange};

use crate::player::told;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;
/// The pairs of each table, by its name.
pub(crate) type Tables = BTreeMap<Vec<u8>, Pairs>;

/// A store at one moment, of whatever engine.
pub(crate) trait Moment {
    /// All that it holds.
    fn all(&self) -> hedgerow::Result<Tables>;
}

impl Moment for tree::ReadTxn {
    fn all(&self) -> hedgerow::Result<Tables> {
        let tables = self.tables()?.into_iter();
        let pairs = |name: &[u8]| -> hedgerow::Result<Pairs> {
            let entries = self.range(self.table(name)?, ..)?;
            entries.map(|entry| entry.map(|e| (e.key.to_vec(), e.value.to_vec()))).collect()
        };
        tables.map(|info| pairs(&info.name).map(|pairs| (info.name, pairs))).collect()
    }
}

impl Moment for lsm::Snapshot {
    fn all(&self) -> hedgerow::Result<Tables> {
        let pairs = |name: &[u8]| -> hedgerow::Result<Pairs> {
            let Some(keyspace) = self.find_keyspace(name)? else { return Ok(Pairs::new()) };
            self.range(&keyspace, ..)?.collect()
        };
        self.keyspaces()?.into_iter().map(|name| pairs(&name).map(|pairs| (name, pairs))).collect()
    }
}

/// Whether a second store holds what the first one does, beside its mark.
pub(crate) fn is_like(
    second: &impl Source<Snapshot: Moment>,
    first: &impl Moment,
) -> Result<(), String> {
    let first = told("scan", first.all())?;
    let copy = told("begin", second.begin())?;
    let mut copy = told("scan", copy.all())?;
    copy.remove(&b"hedgerow.standby"[..]);
    compare(&first, &copy)
}

/// What is different between what a store holds and what a follower made of it; one place of it.
fn compare(store: &Tables, made: &Tables) -> Result<(), String> {
    if store == made {
        return Ok(());
    }
    let none = Pairs::new();
    for name in store.keys().chain(made.keys()) {
        let table = String::from_utf8_lossy(name);
        let (here, there) = (store.get(name), made.get(name));
        if here.is_none() != there.is_none() {
            return Err(format!(
                "only {} has \"{table}\"",
                ["the store", "the copy"][usize::from(here.is_none())]
            ));
        }
        let (here, there) = (here.unwrap_or(&none), there.unwrap_or(&none));
        let keys = here.keys().chain(there.keys());
        if let Some(key) = keys.into_iter().find(|&key| here.get(key) != there.get(key)) {
            let lens = [here.get(key), there.get(key)].map(|value| value.map(Vec::len));
            return Err(format!("\"{table}\": the values of {key:?} have the lengths {lens:?}"));
        }
    }
    Ok(())
}

/// A follower that keeps what the store holds in memory.
pub(crate) struct Mirror<S: Followed> {
    follow: Follow<S>,
    tables: Tables,
}

impl<S: Followed<Snapshot: Moment>> Mirror<S> {
    /// One that has nothing yet.
    pub(crate) fn new(store: &S) -> Self {
        Self { follow: Follow::from_start(store), tables: Tables::new() }
    }

    /// Replays the next step, once there is one, and compares; false if there is none in this time.
    pub(crate) fn step(&mut self, most: Duration) -> Result<bool, String> {
        let Some(step) = told("a step", self.follow.step(Some(most)))? else { return Ok(false) };
        let wrong = |what| format!("from {:?} to {}: {what}", step.from(), step.to());
        for change in told("tables", step.tables())? {
            let name = change.name();
            if matches!(change, TableChange::Removed(_)) {
                self.tables.remove(name);
                continue;
            }
            let pairs = self.tables.entry(name.to_vec()).or_default();
            for change in told("changes", step.changes(name))? {
                replay(pairs, told("a change", change)?.as_change()).map_err(wrong)?;
            }
        }
        let store = told("read the store", step.after().all())?;
        compare(&store, &self.tables).map_err(wrong).map(|()| true)
    }
}

/// Makes a change, which must be one of what is there.
fn replay(pairs: &mut Pairs, change: Change<'_>) -> Result<(), String> {
    let (key, old, new) = match change {
        Change::Added { key, value } => (key, None, Some(value)),
        Change::Removed { key, value } => (key, Some(value), None),
        Change::Changed { key, old, new } => (key, Some(old), Some(new)),
    };
    let key = key.to_vec();
    let there = match new {
        Some(new) => pairs.insert(key.clone(), new.to_vec()),
        None => pairs.remove(&key),
    };
    match there == old.map(|old| old.to_vec()) {
        true => Ok(()),
        false => Err(format!("a change of {key:?} is not one of what was there")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_something_else_is_found() {
        let mut pairs = Pairs::new();
        let added = Change::Added { key: b"k"[..].into(), value: b"1"[..].into() };
        assert!(replay(&mut pairs, added).is_ok());
        assert!(replay(&mut pairs, added).is_err());
        let removed = Change::Removed { key: b"k"[..].into(), value: b"2"[..].into() };
        assert!(replay(&mut pairs, removed).is_err());
        assert!(replay(&mut pairs, removed).is_err());
    }

    #[test]
    fn what_a_copy_lacks_or_has_more_is_found() {
        let tables = |pairs: &[(&[u8], &[u8])]| -> Tables {
            let pairs = pairs.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            [(b"t".to_vec(), pairs)].into()
        };
        let store = tables(&[(b"a", b"1"), (b"b", b"2")]);
        assert!(compare(&store, &store.clone()).is_ok());
        for copy in [
            tables(&[(b"a", b"1")]),
            tables(&[(b"a", b"1"), (b"b", b"3")]),
            tables(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"")]),
            Tables::new(),
        ] {
            assert!(compare(&store, &copy).is_err() && compare(&copy, &store).is_err());
        }
    }
}
