//! What changes in a store of the tree engine, commit by commit: [`Follow`].

use std::ops::Bound;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::token::{parse_digits, sealed, unsealed, write_digits};
use crate::key::KeyRange;
use crate::tree::{Diff, ReadTxn, Snapshot, Store, TableChange};
use crate::{Error, Result};

/// The first byte of every mark: its form.
const FORM: u8 = 2;

/// After this many commits that change nothing of what is followed an empty step is given, so that
/// the commit before them need not be kept.
const COMMITS_KEPT: u64 = 1000;

/// Follows a store: first everything that it holds, then what each commit changes, without a gap
/// and without a repeat.
///
/// A [`Step`] leads from one commit to a later one, and is all or nothing: it shows the two moments
/// and what is different between them. Commits that were made while the follower was busy come as
/// one step. There is no log of changes: a step is a difference of two snapshots, which costs what
/// the changed pages cost, and a follower that is slow keeps one old snapshot, not a growing log.
///
/// # Going on later
///
/// A follower with a [name](Follow::named) goes on where it stopped, also after a restart or a
/// power cut. Two [pins](Store::pin) keep the commits that it needs: one of its name keeps the
/// commit to which its consumer has come, and `NAME.next` that to which the step leads that was
/// given last. Asking for the next step, or [`Follow::done`], says that the last one was dealt
/// with. If the process dies before, the same step is given again. A consumer that stores each
/// step's [`Mark`] together with what it makes of the step can [go on from there](Follow::resume),
/// and sees each change exactly once. Two followers of one name must not be at work at the same
/// time.
///
/// A follower without a name costs its store no commit, and cannot go on later.
///
/// ```
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// use hedgerow::stream::Follow;
/// use hedgerow::tree::{Change, TableOptions};
///
/// let mut follow = Follow::named(&store, "cache")?;
/// assert_eq!(follow.step(None)?.unwrap().from(), None);
///
/// let mut txn = store.begin_write()?;
/// let table = txn.create_table("fruit", &TableOptions::new())?;
/// txn.put(table, b"pear", b"3")?;
/// txn.commit()?;
///
/// let step = follow.step(None)?.unwrap();
/// let change = step.changes("fruit")?.next().unwrap()?;
/// assert!(matches!(change, Change::Added { key, .. } if key == b"pear"));
/// # Ok(()) }
/// ```
pub struct Follow {
    store: Store,
    name: Option<Name>,
    only: Option<Arc<Only>>,
    is_durable: bool,
    /// To where the consumer has come, or comes with the step that was given last.
    base: Option<Arc<ReadTxn>>,
    /// To where the step leads that is given again.
    again: Option<Arc<ReadTxn>>,
    /// Whether the last step has a pin that says that it is not dealt with.
    is_given: bool,
    /// The newest commit that was looked at.
    seen: u64,
}

/// The names of a follower's two pins.
struct Name {
    base: Vec<u8>,
    next: Vec<u8>,
}

impl Name {
    fn new(name: &[u8]) -> Self {
        Self { base: name.to_vec(), next: [name, b".next"].concat() }
    }
}

/// What is followed, if not the whole store.
struct Only {
    table: Vec<u8>,
    keys: (Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow").field("commit", &self.commit()).finish_non_exhaustive()
    }
}

impl Follow {
    fn new(store: &Store, name: Option<Name>) -> Self {
        Self {
            store: store.clone(),
            name,
            only: None,
            is_durable: false,
            base: None,
            again: None,
            is_given: false,
            seen: 0,
        }
    }

    /// Begins with everything that is in the store now.
    pub fn from_start(store: &Store) -> Self {
        Self::new(store, None)
    }

    /// Begins with what changes from now on.
    ///
    /// # Errors
    /// As [`Store::begin_read`].
    pub fn from_now(store: &Store) -> Result<Self> {
        let base = Some(Arc::new(store.begin_read()?));
        Ok(Self { base, ..Self::new(store, None) })
    }

    /// Goes on where a follower of this name stopped; if there was none, begins with everything
    /// that is in the store.
    ///
    /// # Errors
    /// As [`Store::read_pin`].
    pub fn named(store: &Store, name: impl AsRef<[u8]>) -> Result<Self> {
        let name = Name::new(name.as_ref());
        let base = store.read_pin(&name.base)?.map(Arc::new);
        let again = store.read_pin(&name.next)?.map(Arc::new);
        let is_given = again.is_some();
        Ok(Self { base, again, is_given, ..Self::new(store, Some(name)) })
    }

    /// Goes on after the step of a mark, which a named follower of this name has given.
    ///
    /// # Errors
    /// [`Error::TooOld`] if that commit is not kept; [`Error::Argument`] for a mark of another
    /// store.
    pub fn resume(mut self, mark: &Mark) -> Result<Self> {
        if mark.store != self.store.id() {
            return Err(Error::argument("the mark is one of another store"));
        }
        let is_at =
            |txn: &Option<Arc<ReadTxn>>| txn.as_ref().is_some_and(|t| t.id() == mark.commit);
        if is_at(&self.again) {
            self.base = self.again.take();
        } else if !is_at(&self.base) {
            let newest = || self.store.newest_commit();
            let oldest = self.base.as_ref().or(self.again.as_ref()).map_or_else(newest, |t| t.id());
            return Err(Error::TooOld { commit: mark.commit, oldest });
        }
        Ok(self)
    }

    /// Only what changes in one table, and there only keys of a range. Commits that change nothing
    /// of that give no step; but after 1,000 of them an empty one is given, so that the old commit
    /// is let go.
    pub fn only(mut self, table: impl AsRef<[u8]>, keys: impl KeyRange) -> Self {
        let keys = (keys.low().map(<[u8]>::to_vec), keys.high().map(<[u8]>::to_vec));
        self.only = Some(Arc::new(Only { table: table.as_ref().to_vec(), keys }));
        self
    }

    /// Gives a step only when the commit to which it leads is on stable storage, so that no power
    /// cut takes back what was seen. A follower with a name always does.
    pub fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// The next step, once there is one. Waits at most `most` (`None`: without limit) and answers
    /// `None` then; a writer of any process wakes it ([`Store::wait_for_commit`]).
    ///
    /// # Errors
    /// As [`Store::begin_read`]; with a name, as [`Store::pin`]; a damaged page. It can be asked
    /// again then.
    pub fn step(&mut self, most: Option<Duration>) -> Result<Option<Step>> {
        if let Some(new) = self.again.take() {
            let old = self.base.replace(Arc::clone(&new));
            return Ok(Some(self.step_between(old, new)));
        }
        let end = most.and_then(|most| Instant::now().checked_add(most));
        loop {
            if self.base.is_some() {
                let left = end.map(|end| end.saturating_duration_since(Instant::now()));
                if !self.store.wait_for_commit(self.seen.max(self.commit()), left)? {
                    return Ok(None);
                }
            }
            let new = Arc::new(self.store.begin_read()?);
            let step = self.step_between(self.base.clone(), new);
            if !step.is_empty()? || step.to() - self.commit() > COMMITS_KEPT {
                self.give(&step)?;
                return Ok(Some(step));
            }
            self.seen = step.to();
        }
    }

    fn step_between(&self, old: Option<Arc<ReadTxn>>, new: Arc<ReadTxn>) -> Step {
        Step { store: self.store.id(), old, new, only: self.only.clone() }
    }

    /// Notes that a step is given, and that all before it are dealt with.
    fn give(&mut self, step: &Step) -> Result<()> {
        match (&self.name, &step.old) {
            (None, _) if self.is_durable => self.store.sync()?,
            (None, _) => {}
            (Some(name), None) => self.store.change_pins(&[(&name.next, Some(&step.new))])?,
            (Some(name), Some(old)) => {
                let pins = [(&*name.base, Some(&**old)), (&*name.next, Some(&*step.new))];
                self.store.change_pins(&pins)?;
            }
        }
        self.is_given = self.name.is_some();
        self.base = Some(Arc::clone(&step.new));
        Ok(())
    }

    /// Says that the step that was given last was dealt with, so that it is not given again after a
    /// restart. Durable when this returns.
    ///
    /// # Errors
    /// As [`Store::pin`].
    pub fn done(&mut self) -> Result<()> {
        if let (Some(name), Some(base), true) = (&self.name, &self.base, self.is_given)
            && self.again.is_none()
        {
            self.store.change_pins(&[(&name.base, Some(base)), (&name.next, None)])?;
            self.is_given = false;
        }
        Ok(())
    }

    /// The number of the commit to which it has come; 0 before the first step.
    pub fn commit(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| base.id())
    }

    /// Forgets the follower of a name: lets the commits go that it needs. False if there is none.
    ///
    /// # Errors
    /// As [`Store::drop_pin`].
    pub fn forget(store: &Store, name: impl AsRef<[u8]>) -> Result<bool> {
        let name = Name::new(name.as_ref());
        Ok(store.drop_pin(&name.base)? | store.drop_pin(&name.next)?)
    }
}

/// What is different between two commits of a store; made by [`Follow::step`].
///
/// It keeps both commits readable for as long as it lives, and may be sent to another thread.
pub struct Step {
    store: [u8; 16],
    old: Option<Arc<ReadTxn>>,
    new: Arc<ReadTxn>,
    only: Option<Arc<Only>>,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("from", &self.from()).field("to", &self.to()).finish()
    }
}

impl Step {
    /// The number of the earlier commit; `None` if the step leads from an empty store.
    pub fn from(&self) -> Option<u64> {
        self.old.as_ref().map(|old| old.id())
    }

    /// The number of the later commit.
    pub fn to(&self) -> u64 {
        self.new.id()
    }

    /// The store at the earlier commit.
    pub fn before(&self) -> Option<&ReadTxn> {
        self.old.as_deref()
    }

    /// The store at the later commit.
    pub fn after(&self) -> &ReadTxn {
        &self.new
    }

    /// The store at both commits, to be kept for longer than the step.
    pub fn shared(&self) -> (Option<Arc<ReadTxn>>, Arc<ReadTxn>) {
        (self.old.clone(), Arc::clone(&self.new))
    }

    /// The tables that differ, in bytewise order of their names; only the one that is followed, if
    /// it is one.
    ///
    /// # Errors
    /// As [`Diff::tables`].
    pub fn tables(&self) -> Result<Vec<TableChange>> {
        let mut tables = match &self.old {
            Some(old) => Diff::tables(old, &self.new)?,
            None => self.new.tables()?.into_iter().map(|t| TableChange::Added(t.name)).collect(),
        };
        if let Some(only) = &self.only {
            tables.retain(|change| change.name() == only.table);
        }
        Ok(tables)
    }

    /// What is different in a table, in the order of its keys; only the keys that are followed.
    ///
    /// # Errors
    /// As [`Diff::new`]; [`Error::Argument`] for a table that is not followed.
    pub fn changes(&self, table: impl AsRef<[u8]>) -> Result<Diff<'_>> {
        let table = table.as_ref();
        if self.only.as_ref().is_some_and(|only| only.table != table) {
            return Err(Error::argument("another table is followed"));
        }
        let diff = match &self.old {
            Some(old) => Diff::new(old, &self.new, table)?,
            None => {
                let handle = self.new.table(table)?;
                Diff::of_tables((&self.new, None), (&self.new, Some(handle)))?
            }
        };
        let Some(only) = &self.only else { return Ok(diff) };
        let (low, high) = &only.keys;
        diff.within(low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice))
    }

    /// Where a follower has come that has dealt with this step.
    pub fn mark(&self) -> Mark {
        Mark { store: self.store, commit: self.to() }
    }

    /// Whether nothing of what is followed is different. The first step is never empty.
    fn is_empty(&self) -> Result<bool> {
        if self.old.is_none() {
            return Ok(false);
        }
        match &self.only {
            None => Ok(self.tables()?.is_empty()),
            Some(only) => match self.changes(&only.table) {
                Ok(mut changes) => Ok(changes.next().transpose()?.is_none()),
                Err(Error::NoTable { .. }) => Ok(true),
                Err(error) => Err(error),
            },
        }
    }
}

/// To which commit of which store a named follower has come: bytes that its consumer may keep with
/// what it makes of the steps, as [`Mark::to_bytes`] or, with `to_string` and `parse`, as
/// hexadecimal digits. See [`Follow::resume`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    store: [u8; 16],
    commit: u64,
}

impl Mark {
    /// The number of the commit.
    pub fn commit(&self) -> u64 {
        self.commit
    }

    /// The mark as bytes, with a checksum.
    pub fn to_bytes(&self) -> Vec<u8> {
        sealed([&[FORM][..], &self.store, &self.commit.to_le_bytes()].concat())
    }

    /// A mark from its bytes.
    ///
    /// # Errors
    /// [`Error::Argument`] if they are not those of a mark.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let body = unsealed(bytes, FORM)?;
        let (store, commit) = body.split_first_chunk::<16>().ok_or_else(no_mark)?;
        let commit = <[u8; 8]>::try_from(commit).map_err(|_| no_mark())?;
        Ok(Self { store: *store, commit: u64::from_le_bytes(commit) })
    }
}

fn no_mark() -> Error {
    Error::argument("the mark has a wrong length")
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_digits(&self.to_bytes(), f)
    }
}

impl FromStr for Mark {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_bytes(&parse_digits(text)?)
    }
}
