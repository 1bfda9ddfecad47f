//! What following needs of an engine.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::source::sealed::Sealed;
use crate::lsm::{self, Db, KeyspaceChange, KeyspaceOptions};
use crate::tree::{
    self, Change, ReadTxn, Snapshot as _, Store, TableChange, TableInfo, TableOptions,
};
use crate::{Error, Result};

/// The keys that are followed.
pub(super) type Keys = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A change of whatever engine.
pub trait AsChange {
    /// As one that borrows it.
    fn as_change(&self) -> Change<'_>;
}

impl AsChange for Change<'_> {
    fn as_change(&self) -> Change<'_> {
        *self
    }
}

impl AsChange for lsm::Change {
    fn as_change(&self) -> Change<'_> {
        match self {
            Self::Added { key, value } => {
                Change::Added { key: key.as_slice().into(), value: value.as_slice().into() }
            }
            Self::Removed { key, value } => {
                Change::Removed { key: key.as_slice().into(), value: value.as_slice().into() }
            }
            Self::Changed { key, old, new } => Change::Changed {
                key: key.as_slice().into(),
                old: old.as_slice().into(),
                new: new.as_slice().into(),
            },
        }
    }
}

impl From<KeyspaceChange> for TableChange {
    fn from(change: KeyspaceChange) -> Self {
        match change {
            KeyspaceChange::Added(name) => Self::Added(name),
            KeyspaceChange::Removed(name) => Self::Removed(name),
            KeyspaceChange::Changed(name) => Self::Changed(name),
        }
    }
}

/// What a table is like, for the one that is to be like it.
pub(super) struct Form {
    pub(super) options: TableOptions,
    pub(super) has_duplicates: bool,
    /// How many bytes each duplicate has, if they have one size; 0 before the first one.
    pub(super) value_size: Option<u32>,
    pub(super) keyspace: KeyspaceOptions,
}

/// A store that can be followed: [`tree::Store`](crate::tree::Store) or
/// [`lsm::Db`](crate::lsm::Db). What is not described here only the followers call.
#[expect(private_interfaces, reason = "the trait is sealed")]
pub trait Followed: Sealed + Clone + Send + Sync + 'static {
    /// The store at one moment.
    type Snapshot: Send + Sync + 'static;
    /// A difference between two moments.
    type Change<'s>: AsChange;
    /// All differences of a table.
    type Changes<'s>: Iterator<Item = Result<Self::Change<'s>>>;
    #[doc(hidden)]
    type Trail: Default + Send + Sync;
    #[doc(hidden)]
    type Touched: Send + Sync;

    /// After this many commits that change nothing of what is followed an empty step is given, so
    /// that the commit before them need not be kept.
    #[doc(hidden)]
    const COMMITS_KEPT: u64;

    #[doc(hidden)]
    fn identity(&self) -> Result<[u8; 16]>;
    #[doc(hidden)]
    fn begin(&self) -> Result<Self::Snapshot>;
    #[doc(hidden)]
    fn newest(&self) -> u64;
    #[doc(hidden)]
    fn commit(snapshot: &Self::Snapshot) -> u64;
    #[doc(hidden)]
    fn wait(&self, commit: u64, most: Option<Duration>) -> Result<bool>;
    #[doc(hidden)]
    fn flush(&self) -> Result<()>;
    #[doc(hidden)]
    fn find_pin(&self, name: &[u8]) -> Result<Option<Self::Snapshot>>;
    /// Waits for its turn at most `most`.
    #[doc(hidden)]
    fn move_pins(
        &self,
        changes: &[(&[u8], Option<&Self::Snapshot>)],
        most: Option<Duration>,
    ) -> Result<()>;
    #[doc(hidden)]
    fn remove_pin(&self, name: &[u8]) -> Result<bool>;
    /// What is known of the way between two moments before it is walked.
    #[doc(hidden)]
    fn look(
        &self,
        trail: &mut Self::Trail,
        old: Option<&Self::Snapshot>,
        new: &Self::Snapshot,
    ) -> Self::Touched;
    #[doc(hidden)]
    fn tables(
        moments: (Option<&Self::Snapshot>, &Self::Snapshot),
        touched: &Self::Touched,
    ) -> Result<Vec<TableChange>>;
    #[doc(hidden)]
    fn changes<'s>(
        moments: (Option<&'s Self::Snapshot>, &'s Self::Snapshot),
        touched: &Self::Touched,
        table: &[u8],
        keys: Option<&Keys>,
    ) -> Result<Self::Changes<'s>>;
    #[doc(hidden)]
    fn form(snapshot: &Self::Snapshot, table: &[u8]) -> Result<Form>;
}

#[expect(private_interfaces, reason = "the trait is sealed")]
impl Followed for Store {
    type Snapshot = ReadTxn;
    type Change<'s> = Change<'s>;
    type Changes<'s> = tree::Diff<'s>;
    type Trail = ();
    type Touched = ();

    const COMMITS_KEPT: u64 = 1000;

    fn identity(&self) -> Result<[u8; 16]> {
        Ok(self.id())
    }

    fn begin(&self) -> Result<ReadTxn> {
        self.begin_read()
    }

    fn newest(&self) -> u64 {
        self.newest_commit()
    }

    fn commit(snapshot: &ReadTxn) -> u64 {
        snapshot.id()
    }

    fn wait(&self, commit: u64, most: Option<Duration>) -> Result<bool> {
        self.wait_for_commit(commit, most)
    }

    fn flush(&self) -> Result<()> {
        self.sync()
    }

    fn find_pin(&self, name: &[u8]) -> Result<Option<ReadTxn>> {
        self.read_pin(name)
    }

    fn move_pins(
        &self,
        changes: &[(&[u8], Option<&ReadTxn>)],
        most: Option<Duration>,
    ) -> Result<()> {
        match most {
            Some(most) => self.change_pins_within(changes, most),
            None => self.change_pins(changes),
        }
    }

    fn remove_pin(&self, name: &[u8]) -> Result<bool> {
        self.drop_pin(name)
    }

    fn look(&self, (): &mut (), _: Option<&ReadTxn>, _: &ReadTxn) {}

    fn tables((old, new): (Option<&ReadTxn>, &ReadTxn), (): &()) -> Result<Vec<TableChange>> {
        match old {
            Some(old) => tree::Diff::tables(old, new),
            None => Ok(new.tables()?.into_iter().map(|t| TableChange::Added(t.name)).collect()),
        }
    }

    fn changes<'s>(
        (old, new): (Option<&'s ReadTxn>, &'s ReadTxn),
        (): &(),
        table: &[u8],
        keys: Option<&Keys>,
    ) -> Result<tree::Diff<'s>> {
        let diff = match old {
            Some(old) => tree::Diff::new(old, new, table)?,
            None => {
                let handle = new.table(table)?;
                tree::Diff::of_tables((new, None), (new, Some(handle)))?
            }
        };
        let Some((low, high)) = keys else { return Ok(diff) };
        diff.within(low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice))
    }

    fn form(snapshot: &ReadTxn, table: &[u8]) -> Result<Form> {
        let handle = snapshot.table(table)?;
        let options = snapshot.table_options(handle)?;
        let TableInfo { duplicates, value_size, user_flags, .. } = snapshot.table_info(handle)?;
        let keyspace = KeyspaceOptions { user_flags, ..KeyspaceOptions::default() };
        Ok(Form { options, has_duplicates: duplicates, value_size, keyspace })
    }
}

/// Up to where a follower of an lsm store has read the log.
#[derive(Default)]
pub struct Trail(lsm::LogPlace);

/// What the log says of the way between two moments of an lsm store, if it says it.
pub struct Touched(Option<Arc<lsm::Touched>>);

#[expect(private_interfaces, reason = "the trait is sealed")]
impl Followed for Db {
    type Snapshot = lsm::Snapshot;
    type Change<'s> = lsm::Change;
    type Changes<'s> = lsm::Diff;
    type Trail = Trail;
    type Touched = Touched;

    /// A commit counts as many as it has operations.
    const COMMITS_KEPT: u64 = 100_000;

    fn identity(&self) -> Result<[u8; 16]> {
        self.id()
    }

    fn begin(&self) -> Result<lsm::Snapshot> {
        Ok(self.snapshot())
    }

    fn newest(&self) -> u64 {
        self.newest_commit()
    }

    fn commit(snapshot: &lsm::Snapshot) -> u64 {
        snapshot.id()
    }

    fn wait(&self, commit: u64, most: Option<Duration>) -> Result<bool> {
        Ok(self.wait_for_commit(commit, most))
    }

    fn flush(&self) -> Result<()> {
        self.sync()
    }

    fn find_pin(&self, name: &[u8]) -> Result<Option<lsm::Snapshot>> {
        Ok(self.read_pin(name))
    }

    /// Nobody has a turn for long.
    fn move_pins(
        &self,
        changes: &[(&[u8], Option<&lsm::Snapshot>)],
        _most: Option<Duration>,
    ) -> Result<()> {
        self.change_pins(changes)
    }

    fn remove_pin(&self, name: &[u8]) -> Result<bool> {
        self.drop_pin(name)
    }

    fn look(&self, trail: &mut Trail, old: Option<&lsm::Snapshot>, new: &lsm::Snapshot) -> Touched {
        Touched(old.and_then(|old| self.touched((old, new), &mut trail.0)))
    }

    fn tables(
        (old, new): (Option<&lsm::Snapshot>, &lsm::Snapshot),
        touched: &Touched,
    ) -> Result<Vec<TableChange>> {
        let Some(old) = old else {
            return Ok(new.keyspaces()?.into_iter().map(TableChange::Added).collect());
        };
        let changes = lsm::Diff::keyspaces_with(old, new, touched.0.as_ref())?;
        Ok(changes.into_iter().map(TableChange::from).collect())
    }

    fn changes<'s>(
        (old, new): (Option<&'s lsm::Snapshot>, &'s lsm::Snapshot),
        touched: &Touched,
        table: &[u8],
        keys: Option<&Keys>,
    ) -> Result<lsm::Diff> {
        let diff = match old {
            Some(old) => lsm::Diff::with(old, new, table, touched.0.clone())?,
            None => lsm::Diff::of_all(new, table)?,
        };
        Ok(match keys {
            Some(keys) => diff.within(keys.clone()),
            None => diff,
        })
    }

    fn form(snapshot: &lsm::Snapshot, table: &[u8]) -> Result<Form> {
        let keyspace = snapshot.find_keyspace(table)?;
        let keyspace = keyspace.ok_or_else(|| Error::NoTable { name: table.to_vec() })?;
        let options = TableOptions::new().user_flags(keyspace.user_flags());
        let keyspace = keyspace.options();
        Ok(Form { options, has_duplicates: false, value_size: None, keyspace })
    }
}
