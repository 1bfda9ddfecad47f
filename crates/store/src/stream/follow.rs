//! What changes in a store, commit by commit: [`Follow`].

use std::ops::Bound;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::followed::Followed;
use super::token::{parse_digits, sealed, unsealed, write_digits};
use crate::key::KeyRange;
use crate::tree::{Store, TableChange};
use crate::{Error, Result};

/// The first byte of every mark: its form.
const FORM: u8 = 2;

/// What messages call it.
const WHAT: &str = "mark";

/// What the name of a follower's second pin has more than that of its first.
const NEXT: &[u8] = b".next";

/// The longest name of a follower in bytes: that of a pin leaves room for [`NEXT`].
const NAME_MAX: usize = 128 - NEXT.len();

/// Follows a store: first everything that it holds, then what each commit changes, without a gap
/// and without a repeat.
///
/// A [`Step`] leads from one commit to a later one, and is all or nothing: it shows the two moments
/// and what is different between them. Commits that were made while the follower was busy come as
/// one step. There is no log of changes: a step is a difference of two snapshots, which costs what
/// the changed pages cost (engine lsm: the changed entries), and a follower that is slow keeps one
/// old snapshot, not a growing log.
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
/// # Engines
///
/// Both engines are followed with the same meaning. A store of the tree engine wakes its followers
/// in whatever process a commit is made. A store of the lsm engine is open in one process at a
/// time, so its followers are woken by that one; what was committed by processes that had it open
/// since then comes with the first step after the store was opened.
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
pub struct Follow<S: Followed = Store> {
    store: S,
    /// Its identity, once that was asked for.
    id: Option<[u8; 16]>,
    name: Option<Name>,
    only: Option<Arc<Only>>,
    is_durable: bool,
    /// How long it waits for its turn to write.
    write_timeout: Option<Duration>,
    /// To where the consumer has come, or comes with the step that was given last.
    base: Option<Arc<S::Snapshot>>,
    /// To where the step leads that is given again.
    again: Option<Arc<S::Snapshot>>,
    /// Whether the last step has a pin that says that it is not dealt with.
    is_given: bool,
    /// The newest commit that was looked at.
    seen: u64,
    /// What makes the next look at the store cheap.
    trail: S::Trail,
}

/// The names of a follower's two pins.
struct Name {
    base: Vec<u8>,
    next: Vec<u8>,
}

impl Name {
    fn new(name: &[u8]) -> Result<Self> {
        if name.is_empty() || name.len() > NAME_MAX {
            let reason = format!("the name of a follower has 1 to {NAME_MAX} bytes");
            return Err(Error::argument(reason));
        }
        Ok(Self { base: name.to_vec(), next: [name, NEXT].concat() })
    }
}

/// What is followed, if not the whole store.
struct Only {
    table: Vec<u8>,
    keys: (Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl<S: Followed> std::fmt::Debug for Follow<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow").field("commit", &self.commit()).finish_non_exhaustive()
    }
}

impl<S: Followed> Follow<S> {
    fn new(store: &S, name: Option<Name>) -> Self {
        Self {
            store: store.clone(),
            id: None,
            name,
            only: None,
            is_durable: false,
            write_timeout: None,
            base: None,
            again: None,
            is_given: false,
            seen: 0,
            trail: S::Trail::default(),
        }
    }

    /// Begins with everything that is in the store now.
    pub fn from_start(store: &S) -> Self {
        Self::new(store, None)
    }

    /// Begins with what changes from now on.
    ///
    /// # Errors
    /// As [`Store::begin_read`].
    pub fn from_now(store: &S) -> Result<Self> {
        let base = Some(Arc::new(store.begin()?));
        Ok(Self { base, ..Self::new(store, None) })
    }

    /// Goes on where a follower of this name stopped; if there was none, begins with everything
    /// that is in the store.
    ///
    /// # Errors
    /// As [`Store::read_pin`]; [`Error::Argument`] for a name that is empty or longer than 123
    /// bytes.
    pub fn named(store: &S, name: impl AsRef<[u8]>) -> Result<Self> {
        let name = Name::new(name.as_ref())?;
        let base = store.find_pin(&name.base)?.map(Arc::new);
        let again = store.find_pin(&name.next)?.map(Arc::new);
        let is_given = again.is_some();
        Ok(Self { base, again, is_given, ..Self::new(store, Some(name)) })
    }

    /// Goes on after the step of a mark, which a named follower of this name has given.
    ///
    /// # Errors
    /// [`Error::TooOld`] if that commit is not kept; [`Error::Argument`] for a mark of another
    /// store.
    pub fn resume(mut self, mark: &Mark) -> Result<Self> {
        if mark.store != self.id()? {
            return Err(Error::argument("the mark is one of another store"));
        }
        let is_at = |held: &Option<Arc<S::Snapshot>>| {
            held.as_ref().is_some_and(|held| S::commit(held) == mark.commit)
        };
        if is_at(&self.again) {
            self.base = self.again.take();
        } else if !is_at(&self.base) {
            let newest = || self.store.newest();
            let held = self.base.as_ref().or(self.again.as_ref());
            let oldest = held.map_or_else(newest, |held| S::commit(held));
            return Err(Error::TooOld { commit: mark.commit, oldest });
        }
        Ok(self)
    }

    /// Begins with everything that is in the store, wherever a follower of its name has come: that
    /// one cannot go on.
    pub(super) fn anew(self) -> Self {
        Self { base: None, again: None, is_given: false, ..self }
    }

    /// Follows only what changes in one table, and there only keys of a range. Commits that change
    /// nothing of that give no step; but after 1,000 of them an empty one is given, so that the old
    /// commit is let go.
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

    /// Waits at most this long for its turn to write, which one with a name needs: then
    /// [`Follow::step`] and [`Follow::done`] return [`Error::Locked`], and can be called again.
    /// Without this it waits for other writers of a store of the tree engine as long as they take.
    pub fn write_timeout(mut self, most: Duration) -> Self {
        self.write_timeout = Some(most);
        self
    }

    /// The next step, once there is one. Waits at most `most` (`None`: without limit) and answers
    /// `None` then; a writer of any process wakes it ([`Store::wait_for_commit`]).
    ///
    /// A follower with a name moves its pins with each step, and waits for its turn to write as
    /// [`Store::pin`] does, whatever `most` says, or at most its [`Follow::write_timeout`]: without
    /// one, in a thread that has a write transaction of a store of the tree engine, for ever.
    ///
    /// # Errors
    /// As [`Store::begin_read`]; with a name, as [`Store::pin`]; a damaged page. It can be asked
    /// again then.
    pub fn step(&mut self, most: Option<Duration>) -> Result<Option<Step<S>>> {
        // What can fail does before anything is given away.
        self.id()?;
        if let Some(new) = self.again.take() {
            let old = self.base.replace(Arc::clone(&new));
            return self.step_between(old, new).map(Some);
        }
        let end = most.and_then(|most| Instant::now().checked_add(most));
        loop {
            if self.base.is_some() {
                let left = end.map(|end| end.saturating_duration_since(Instant::now()));
                if !self.store.wait(self.seen.max(self.commit()), left)? {
                    return Ok(None);
                }
            }
            let new = Arc::new(self.store.begin()?);
            let step = self.step_between(self.base.clone(), new)?;
            if !step.is_empty()? || step.to() - self.commit() > S::COMMITS_KEPT {
                self.give(&step)?;
                return Ok(Some(step));
            }
            self.seen = step.to();
        }
    }

    fn step_between(
        &mut self,
        old: Option<Arc<S::Snapshot>>,
        new: Arc<S::Snapshot>,
    ) -> Result<Step<S>> {
        let touched = self.store.look(&mut self.trail, old.as_deref(), &new);
        Ok(Step { store: self.id()?, old, new, only: self.only.clone(), touched })
    }

    fn id(&mut self) -> Result<[u8; 16]> {
        match self.id {
            Some(id) => Ok(id),
            None => Ok(*self.id.insert(self.store.identity()?)),
        }
    }

    /// Notes that a step is given, and that all before it are dealt with.
    fn give(&mut self, step: &Step<S>) -> Result<()> {
        match (&self.name, &step.old) {
            (None, _) if self.is_durable => self.store.flush()?,
            (None, _) => {}
            (Some(name), None) => {
                // The base may be that of a follower that had the name before.
                let pins = [(&*name.base, None), (&*name.next, Some(&*step.new))];
                self.store.move_pins(&pins, self.write_timeout)?;
            }
            (Some(name), Some(old)) => {
                let pins = [(&*name.base, Some(&**old)), (&*name.next, Some(&*step.new))];
                self.store.move_pins(&pins, self.write_timeout)?;
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
            let pins = [(&*name.base, Some(&**base)), (&*name.next, None)];
            self.store.move_pins(&pins, self.write_timeout)?;
            self.is_given = false;
        }
        Ok(())
    }

    /// The number of the commit to which it has come; 0 before the first step.
    pub fn commit(&self) -> u64 {
        self.base.as_ref().map_or(0, |base| S::commit(base))
    }

    /// Forgets the follower of a name: lets the commits go that it needs. False if there is none.
    ///
    /// # Errors
    /// As [`Store::drop_pin`]; [`Error::Argument`] for a name that no follower can have.
    pub fn forget(store: &S, name: impl AsRef<[u8]>) -> Result<bool> {
        let name = Name::new(name.as_ref())?;
        Ok(store.remove_pin(&name.base)? | store.remove_pin(&name.next)?)
    }
}

/// What is different between two commits of a store; made by [`Follow::step`].
///
/// It keeps both commits readable for as long as it lives, and may be sent to another thread.
pub struct Step<S: Followed = Store> {
    store: [u8; 16],
    old: Option<Arc<S::Snapshot>>,
    new: Arc<S::Snapshot>,
    only: Option<Arc<Only>>,
    touched: S::Touched,
}

impl<S: Followed> std::fmt::Debug for Step<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("from", &self.from()).field("to", &self.to()).finish()
    }
}

impl<S: Followed> Step<S> {
    /// The number of the earlier commit; `None` if the step leads from an empty store.
    pub fn from(&self) -> Option<u64> {
        self.old.as_ref().map(|old| S::commit(old))
    }

    /// The number of the later commit.
    pub fn to(&self) -> u64 {
        S::commit(&self.new)
    }

    /// The store at the earlier commit.
    pub fn before(&self) -> Option<&S::Snapshot> {
        self.old.as_deref()
    }

    /// The store at the later commit.
    pub fn after(&self) -> &S::Snapshot {
        &self.new
    }

    /// The store at both commits, to be kept for longer than the step.
    pub fn shared(&self) -> (Option<Arc<S::Snapshot>>, Arc<S::Snapshot>) {
        (self.old.clone(), Arc::clone(&self.new))
    }

    /// The tables that differ, in bytewise order of their names; only the one that is followed, if
    /// it is one.
    ///
    /// # Errors
    /// As [`tree::Diff::tables`](crate::tree::Diff::tables) and
    /// [`lsm::Diff::keyspaces`](crate::lsm::Diff::keyspaces).
    pub fn tables(&self) -> Result<Vec<TableChange>> {
        let mut tables = S::tables(self.moments(), &self.touched)?;
        if let Some(only) = &self.only {
            tables.retain(|change| change.name() == only.table);
        }
        Ok(tables)
    }

    /// What is different in a table, in the order of its keys; only the keys that are followed.
    ///
    /// # Errors
    /// As [`tree::Diff::new`](crate::tree::Diff::new) and
    /// [`lsm::Diff::new`](crate::lsm::Diff::new); [`Error::Argument`] for a table that is not
    /// followed.
    pub fn changes(&self, table: impl AsRef<[u8]>) -> Result<S::Changes<'_>> {
        let table = table.as_ref();
        if self.only.as_ref().is_some_and(|only| only.table != table) {
            return Err(Error::argument("another table is followed"));
        }
        let keys = self.only.as_ref().map(|only| &only.keys);
        S::changes(self.moments(), &self.touched, table, keys)
    }

    /// All pairs of a table of the later commit, as added ones.
    pub(super) fn whole(&self, table: &[u8]) -> Result<S::Changes<'_>> {
        S::changes((None, &self.new), &self.touched, table, None)
    }

    /// The store at both commits.
    fn moments(&self) -> (Option<&S::Snapshot>, &S::Snapshot) {
        (self.old.as_deref(), &self.new)
    }

    /// What a table of the later commit is like.
    pub(super) fn form(&self, table: &[u8]) -> Result<super::followed::Form> {
        S::form(&self.new, table)
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
        let body = unsealed(bytes, FORM, WHAT)?;
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
        Self::from_bytes(&parse_digits(text, WHAT)?)
    }
}
