//! Pins: commits that stay readable under a name, across closing and power cuts, until the name is
//! dropped.
//!
//! # Why a pinned commit stays readable
//!
//! A pin is a sequence number in the manifest. While the store is open it counts as a snapshot that
//! is held, so no merge leaves out what it sees; opening counts it again before the first merge. It
//! gets its name while a snapshot of it is held: in between nothing can be left out either. Before
//! the manifest has the name the log is flushed, so that no power cut takes back what is pinned. If
//! it is not known whether the manifest has the name, since writing it failed, the commit counts as
//! pinned until the store is closed.

use std::time::{Duration, Instant, UNIX_EPOCH};

use super::db::Db;
use super::levels::version::{Edit, Pinned};
use super::read::snapshot::Snapshot;
use super::stat::Pin;
use crate::Durability;
use crate::sync::locked;
use crate::{Error, Result};

/// The most pins of a store.
const PINS_MAX: usize = 64;
/// The longest name of a pin in bytes.
const NAME_MAX: usize = 128;

impl Db {
    /// Keeps the newest commit readable under a name, until [`Db::drop_pin`]; returns its number.
    /// What it sees stays on the disk as long: a store that is written to grows by what is
    /// overwritten and deleted. Durable when this returns. A store that has pins cannot be opened
    /// by builds that do not know of them. A backup and a checkpoint have none.
    ///
    /// # Errors
    /// [`Error::Argument`] if there is a pin of that name or there are 64 pins, and for a name that
    /// is empty or longer than 128 bytes; else as [`Db::write`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
    /// use hedgerow::lsm::Readable;
    ///
    /// let people = db.keyspace("people", Default::default())?;
    /// db.put(&people, b"1", b"Ada")?;
    /// db.pin("before")?;
    /// db.delete(&people, b"1")?;
    /// let before = db.read_pin("before").unwrap();
    /// assert_eq!(before.get(&people, b"1")?.as_deref(), Some(&b"Ada"[..]));
    /// assert!(db.drop_pin("before")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pin(&self, name: impl AsRef<[u8]>) -> Result<u64> {
        let (name, snapshot) = (name.as_ref(), self.snapshot());
        let _turn = locked(&self.inner.turns.pinning);
        if self.inner.current().version.pins.contains_key(name) {
            return Err(Error::argument("there is a pin of that name"));
        }
        self.set_pins(&[(name, Some(&snapshot))])?;
        Ok(snapshot.id())
    }

    /// Lets the commit go that was kept under a name; false if there is none. Snapshots of it stay
    /// as they are. Durable when this returns.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn drop_pin(&self, name: impl AsRef<[u8]>) -> Result<bool> {
        let name = name.as_ref();
        let _turn = locked(&self.inner.turns.pinning);
        let is_found = self.inner.current().version.pins.contains_key(name);
        if is_found {
            self.set_pins(&[(name, None)])?;
        }
        Ok(is_found)
    }

    /// Has each name keep the commit that a snapshot sees, as [`Db::pin`] does with the newest one,
    /// and drops the pins of names without a snapshot; all at once. A pin of a name that is there
    /// is moved.
    ///
    /// # Errors
    /// [`Error::Argument`] if there would be more than 64 pins, for a name that no pin can have,
    /// and for a snapshot of another store; else as [`Db::pin`]. Nothing is changed then.
    pub fn change_pins(&self, changes: &[(&[u8], Option<&Snapshot>)]) -> Result<()> {
        let _turn = locked(&self.inner.turns.pinning);
        self.set_pins(changes)
    }

    /// The pins, in bytewise order of their names.
    pub fn pins(&self) -> Vec<Pin> {
        self.inner.current().version.pins.iter().map(Pin::new).collect()
    }

    /// A snapshot of the commit that is kept under a name; `None` if there is none.
    pub fn read_pin(&self, name: impl AsRef<[u8]>) -> Option<Snapshot> {
        // As long as this is held, nobody lets it go.
        let _turn = locked(&self.inner.turns.pinning);
        let pinned = self.inner.current().version.pins.get(name.as_ref()).copied()?;
        Some(Snapshot::at(&self.inner, pinned.seq))
    }

    /// Waits until there is a newer commit than that of a number, at most `most` (`None`: without
    /// limit); whether there is one. Only this process can make one while it has the store open.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
    /// use std::time::Duration;
    /// let seen = db.newest_commit();
    /// assert!(!db.wait_for_commit(seen, Some(Duration::from_millis(1))));
    /// db.keyspace("one more commit", Default::default())?;
    /// assert!(db.wait_for_commit(seen, None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_for_commit(&self, commit: u64, most: Option<Duration>) -> bool {
        let end = most.and_then(|most| Instant::now().checked_add(most));
        self.inner.clock.wait_until(commit.saturating_add(1), end)
    }

    /// What [`Db::change_pins`] does in its turn.
    fn set_pins(&self, changes: &[(&[u8], Option<&Snapshot>)]) -> Result<()> {
        let (inner, before) = (&self.inner, self.inner.current().version.pins.clone());
        let (mut after, mut edits) = (before.clone(), Vec::new());
        let now = inner.directory.system.now();
        let created = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        for &(name, snapshot) in changes {
            if name.is_empty() || name.len() > NAME_MAX {
                return Err(Error::argument("the name of a pin has 1 to 128 bytes"));
            }
            let name = name.to_vec();
            match snapshot {
                Some(snapshot) if !snapshot.is_of(inner) => {
                    return Err(Error::argument("the snapshot is one of another store"));
                }
                Some(snapshot) => {
                    let pinned = Pinned { seq: snapshot.id(), created };
                    after.insert(name.clone(), pinned);
                    edits.push(Edit::SetPin { name, pinned });
                }
                None if after.remove(&name).is_some() => edits.push(Edit::DropPin { name }),
                None => {}
            }
        }
        if after.len() > PINS_MAX {
            return Err(Error::argument("a store has at most 64 pins"));
        }
        if edits.is_empty() {
            return Ok(());
        }
        inner.settle(Durability::Durable)?;
        after.values().for_each(|pinned| inner.clock.pin_at(pinned.seq));
        inner.install(edits, |_| {})?;
        before.values().for_each(|pinned| inner.clock.unpin(pinned.seq));
        Ok(())
    }
}

#[cfg(test)]
#[path = "pins/tests.rs"]
mod tests;
