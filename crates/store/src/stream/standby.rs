//! A second store that keeps up with a first one: [`Standby`].

use std::time::Duration;

use super::follow::{Follow, Mark, Step};
use super::followed::{AsChange as _, Followed, Form};
use crate::lsm::{Batch, Db, Readable as _};
use crate::tree::{Change, Interrupt, Snapshot as _, Store, TableChange};
use crate::{Durability, Error, Result};

/// The table of the second store that says to which commit it has come, and its one key.
const MARK_TABLE: &[u8] = b"hedgerow.standby";
const MARK_KEY: &[u8] = b"mark";
/// In the lsm engine, what takes several commits is made in batches of about this many bytes.
const BATCH_BYTES: usize = 8 << 20;
/// A step with more changes than this takes several.
const STEP_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 256 << 20 };

mod sealed {
    use super::{Durability, Followed, Interrupt, Mark, Result, Step};

    /// What a standby needs of an engine.
    pub trait Sealed {
        /// To which commit the store has come; `None` if it has not come to one. Refuses a store
        /// that holds anything else.
        fn mark(&self) -> Result<Option<Mark>>;
        /// Makes a step, and notes its mark, in one commit; in the lsm engine the first step, and a
        /// large one, may take several, during which there is no mark. Ends
        /// with an error before the last one if the flag is raised.
        fn apply<S: Followed>(
            &self,
            step: &Step<S>,
            durability: Durability,
            interrupt: &Interrupt,
        ) -> Result<()>;
    }
}

/// A store that can keep up with another one: [`tree::Store`](crate::tree::Store) or
/// [`lsm::Db`](crate::lsm::Db).
pub trait Replica: sealed::Sealed {}

impl Replica for Store {}
impl Replica for Db {}

/// Keeps a second store like a first one, of whatever engines: a warm standby on the same machine.
///
/// The second store goes from one commit of the first to a later one, each time in a single commit
/// (but for what is said of the lsm engine below), and knows to which one it has come. So it is at
/// any time, also after a power cut of either, what the first one was at some commit, and it goes
/// on from there. It is to be written by nothing else; it may be read, copied and backed up.
/// Besides the tables of the first store it has one of its own, `hedgerow.standby`.
///
/// A store of the lsm engine takes tables of whatever order, the keys being ordered bytewise there,
/// but none with duplicates. A dropped table leaves an empty keyspace if the process dies just
/// then. One that was made anew with other user flags is not there until the step is made, and a
/// step with more than 256 MiB of changes is made in several commits; if either fails, the second
/// store begins with everything once more.
///
/// ```
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
/// # let second = hedgerow::tree::Store::create(folder.path().join("second"))?;
/// use std::time::Duration;
/// use hedgerow::stream::{Sink, Standby};
/// use hedgerow::tree::Snapshot;
///
/// let mut standby = Standby::new(&store, "second", &second)?;
/// let mut sink = Sink::new(&store, "fruit")?;
/// sink.put(b"pear", b"3")?;
/// sink.finish()?;
/// while standby.step(Some(Duration::ZERO))?.is_some() {}
/// let txn = second.begin_read()?;
/// assert_eq!(txn.get(txn.table("fruit")?, b"pear")?.unwrap(), b"3");
/// # Ok(()) }
/// ```
pub struct Standby<T: Replica, S: Followed = Store> {
    follow: Follow<S>,
    target: T,
    durability: Durability,
    interrupt: Interrupt,
    /// Whether the second store has what was given last.
    has_last: bool,
}

impl<T: Replica + Clone, S: Followed> Standby<T, S> {
    /// Makes `target` keep up with `source`, from nothing or from where it has come. In `source`,
    /// two pins of this name keep what is needed: see [`Follow`]. A new target takes the name over
    /// from one that had it before, and that one cannot go on.
    ///
    /// # Errors
    /// [`Error::Argument`] if the target holds tables and is not a standby, or one of another
    /// store; [`Error::TooOld`] if the source does not keep the commit to which it has come: make a
    /// new one; those of [`Follow::named`].
    pub fn new(source: &S, name: impl AsRef<[u8]>, target: &T) -> Result<Self> {
        let follow = Follow::named(source, name)?;
        let follow = match target.mark()? {
            Some(mark) => follow.resume(&mark)?,
            None => follow.anew(),
        };
        let (target, durability) = (target.clone(), Durability::Durable);
        Ok(Self { follow, target, durability, interrupt: Interrupt::default(), has_last: true })
    }

    /// What a commit of the second store promises; [`Durability::Durable`] unless this says
    /// otherwise. With less, a power cut may take the second store back to before a commit that the
    /// first one has let go, and then it has to be made anew.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Waits at most this long for its turn to write to the first store: see
    /// [`Follow::write_timeout`].
    pub fn write_timeout(mut self, most: Duration) -> Self {
        self.follow = self.follow.write_timeout(most);
        self
    }

    /// A flag that ends a step: raised by any thread, or a handler of a signal, it has the step
    /// return [`Error::Interrupted`], after at most one change more. Waiting for a step it does not
    /// end.
    pub fn interrupt(mut self, flag: Interrupt) -> Self {
        self.interrupt = flag;
        self
    }

    /// Makes the next step, once there is one, and answers the commit of the first store to which
    /// the second one has come. Waits at most `most` (`None`: without limit) and answers `None`
    /// then.
    ///
    /// # Errors
    /// As [`Follow::step`]; those of writing to the second store, which stays at the commit to
    /// which it had come; [`Error::WrongTable`] for a table that its engine cannot hold. After an
    /// error the standby is to be made anew, but for [`Error::Locked`] when
    /// [`Standby::write_timeout`] ends.
    pub fn step(&mut self, most: Option<Duration>) -> Result<Option<u64>> {
        let Some(step) = self.follow.step(most)? else { return Ok(None) };
        self.has_last = false;
        self.target.apply(&step, self.durability, &self.interrupt)?;
        self.has_last = true;
        Ok(Some(step.to()))
    }

    /// Lets the first store forget what was needed for the last step, if the second one has made
    /// it.
    ///
    /// # Errors
    /// As [`Follow::done`].
    pub fn done(&mut self) -> Result<()> {
        if self.has_last { self.follow.done() } else { Ok(()) }
    }
}

fn holds_more() -> Error {
    Error::argument("the second store holds tables, and is not the standby of another one")
}

/// The next change, unless the flag is raised.
fn uninterrupted<C>(interrupt: &Interrupt, change: Result<C>) -> Result<C> {
    if interrupt.is_set() { Err(Error::Interrupted) } else { change }
}

/// A name that the first store must not use.
fn check_name(name: &[u8]) -> Result<()> {
    match name == MARK_TABLE {
        true => Err(Error::argument("a standby of a standby has to be one of the first store")),
        false => Ok(()),
    }
}

impl sealed::Sealed for Store {
    fn mark(&self) -> Result<Option<Mark>> {
        let txn = self.begin_read()?;
        match txn.find_table(MARK_TABLE)? {
            Some(_) => {
                let mark = txn.get(txn.table(MARK_TABLE)?, MARK_KEY)?;
                mark.map(|mark| Mark::from_bytes(&mark.to_cow())).transpose()
            }
            None if txn.tables()?.is_empty() => Ok(None),
            None => Err(holds_more()),
        }
    }

    fn apply<S: Followed>(
        &self,
        step: &Step<S>,
        durability: Durability,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let mut txn = self.begin_write()?;
        for change in step.tables()? {
            let name = change.name();
            check_name(name)?;
            if matches!(change, TableChange::Removed(_)) {
                txn.drop_table(name)?;
                continue;
            }
            let Form { options, has_duplicates, value_size, .. } = step.form(name)?;
            let is_other = match txn.create_table(name, &options) {
                Err(Error::TableOptions { .. }) => true,
                made => txn.table_info(made?)?.value_size != value_size,
            };
            if is_other {
                // It was dropped and made anew: what both have in common is no change.
                txn.drop_table(name)?;
            }
            let table = txn.create_table(name, &options)?;
            for change in if is_other { step.whole(name)? } else { step.changes(name)? } {
                let change = uninterrupted(interrupt, change)?;
                match change.as_change() {
                    Change::Added { key, value } | Change::Changed { key, new: value, .. } => {
                        txn.put(table, &key.to_cow(), &value.to_cow())?;
                    }
                    Change::Removed { key, value } if has_duplicates => {
                        txn.delete_pair(table, &key.to_cow(), &value.to_cow())?;
                    }
                    Change::Removed { key, .. } => drop(txn.delete(table, &key.to_cow())?),
                }
            }
        }
        let table = txn.create_table(MARK_TABLE, &Default::default())?;
        txn.put(table, MARK_KEY, &step.mark().to_bytes())?;
        txn.commit_with(durability)
    }
}

impl sealed::Sealed for Db {
    fn mark(&self) -> Result<Option<Mark>> {
        let Some(keyspace) = self.find_keyspace(MARK_TABLE)? else {
            return if self.keyspaces()?.is_empty() { Ok(None) } else { Err(holds_more()) };
        };
        // While a step is made in several commits, the mark is empty.
        let mark = self.get(&keyspace, MARK_KEY)?.filter(|mark| !mark.is_empty());
        mark.map(|mark| Mark::from_bytes(&mark)).transpose()
    }

    fn apply<S: Followed>(
        &self,
        step: &Step<S>,
        durability: Durability,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let marks = self.keyspace(MARK_TABLE, Default::default())?;
        let is_first = step.from().is_none();
        if is_first {
            // What an earlier attempt has left goes first.
            self.put(&marks, MARK_KEY, b"")?;
            for name in self.keyspaces()?.iter().filter(|name| *name != MARK_TABLE) {
                self.drop_keyspace(name)?;
            }
        }
        let (mut batch, mut bytes, mut dropped) = (Batch::new(), 0, Vec::new());
        let mut in_parts = is_first;
        for change in step.tables()? {
            let name = change.name();
            check_name(name)?;
            if matches!(change, TableChange::Removed(_)) {
                batch.delete_range(&self.keyspace(name, Default::default())?, ..)?;
                dropped.push(name.to_vec());
                continue;
            }
            let Form { has_duplicates, keyspace: options, .. } = step.form(name)?;
            if has_duplicates {
                let reason = "the second store is of the engine lsm, which has no duplicates";
                return Err(Error::WrongTable { reason: reason.into() });
            }
            let mut keyspace = self.keyspace(name, options)?;
            let is_other = keyspace.options() != options;
            if is_other {
                // It was dropped and made anew, and a batch cannot do that. If this stops before
                // the batch is written, the second store begins with everything once more.
                self.put(&marks, MARK_KEY, b"")?;
                self.drop_keyspace(name)?;
                keyspace = self.keyspace(name, options)?;
            }
            for change in if is_other { step.whole(name)? } else { step.changes(name)? } {
                let change = uninterrupted(interrupt, change)?;
                let (key, value) = match change.as_change() {
                    Change::Added { key, value } | Change::Changed { key, new: value, .. } => {
                        (key, Some(value))
                    }
                    Change::Removed { key, .. } => (key, None),
                };
                let more = key.len() + value.as_ref().map_or(0, |value| value.len());
                let most = if in_parts { BATCH_BYTES } else { STEP_BYTES_MAX };
                if bytes > 0 && bytes + more > most {
                    if !in_parts {
                        self.put(&marks, MARK_KEY, b"")?;
                    }
                    self.write_with(std::mem::take(&mut batch), Durability::None)?;
                    (bytes, in_parts) = (0, true);
                }
                match &value {
                    Some(value) => batch.put(&keyspace, &key.to_cow(), &value.to_cow())?,
                    None => batch.delete(&keyspace, &key.to_cow())?,
                }
                bytes += more;
            }
        }
        batch.put(&marks, MARK_KEY, &step.mark().to_bytes())?;
        self.write_with(batch, durability)?;
        dropped.iter().try_for_each(|name| self.drop_keyspace(name).map(drop))
    }
}

#[cfg(test)]
#[path = "standby/tests.rs"]
mod tests;
