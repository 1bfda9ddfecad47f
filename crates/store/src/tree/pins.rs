//! Pins: commits that stay readable under a name, across closing and power cuts, until the name is
//! dropped.
//!
//! # Why a pinned commit stays as it is
//!
//! A pin is a record in the *tree of pins*, which the meta record names: the number of a commit,
//! its end and the root of its catalog. Each write transaction protects the commits whose pins
//! stand in the commit that it follows, as it protects those of readers (`free`), in whatever
//! process. The commit that gets a pin is the newest one at that time, and so protected in the
//! transaction that makes the pin; every later one finds the pin, until one follows the commit that
//! dropped it.
//!
//! That commit is durable before its writer's turn ends, so that no power cut brings a pin back
//! whose pages may have been written again. A pin is made by a durable commit too: when
//! [`Store::pin`] returns, the pin and the commit that it names are on stable storage.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::free::{PINS_MAX, Pinned, pins_of};
use super::group::{Turn, Wait};
use super::meta::FreeRun;
use super::{Pin, ReadTxn, Store};
use crate::Durability;
use crate::{Error, Result};

/// The longest name of a pin in bytes.
const NAME_MAX: usize = 128;

impl Store {
    /// Keeps the newest commit readable under a name, until [`Store::drop_pin`]; returns its
    /// number. Its pages are not used for anything else as long: a store that is written to grows
    /// by what changes. Durable when this returns. A store that has pins cannot be opened by builds
    /// that do not know of them. A copy of the store has no pins.
    ///
    /// As all that changes pins, it waits for its turn as [`Store::begin_write_alone`] does: in a
    /// thread that has a write transaction, for ever.
    ///
    /// # Errors
    /// [`Error::Argument`] if there is a pin of that name or there are 64 pins, and for a name that
    /// is empty or longer than 128 bytes; those of [`Store::begin_write`] and
    /// [`WriteTxn::commit`](crate::tree::WriteTxn::commit).
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use hedgerow::tree::{Snapshot, TableOptions};
    /// let mut txn = store.begin_write()?;
    /// let table = txn.create_table("fruit", &TableOptions::new())?;
    /// txn.put(table, b"apple", b"1")?;
    /// txn.commit()?;
    /// store.pin("before")?;
    /// let mut txn = store.begin_write()?;
    /// txn.drop_table("fruit")?;
    /// txn.commit()?;
    /// let before = store.read_pin("before")?.unwrap();
    /// assert_eq!(before.get(before.table("fruit")?, b"apple")?.unwrap(), b"1");
    /// drop(before);
    /// assert!(store.drop_pin("before")?);
    /// # Ok(()) }
    /// ```
    pub fn pin(&self, name: impl AsRef<[u8]>) -> Result<u64> {
        let name = name.as_ref();
        let turn = Turn::begin_alone(&self.inner)?;
        // There is no other writer: it stays the newest one.
        let newest = self.begin_read()?;
        if find(&newest, name)?.is_some() {
            return Err(Error::argument("there is a pin of that name"));
        }
        set_pins(turn, &newest, &[(name, Some(&newest))])?;
        Ok(newest.id())
    }

    /// Lets the commit go that was kept under a name; false if there is none. Read transactions of
    /// it stay as they are. Durable when this returns.
    ///
    /// # Errors
    /// Those of [`Store::begin_write`] and [`WriteTxn::commit`](crate::tree::WriteTxn::commit).
    pub fn drop_pin(&self, name: impl AsRef<[u8]>) -> Result<bool> {
        let name = name.as_ref();
        let turn = Turn::begin_alone(&self.inner)?;
        let newest = self.begin_read()?;
        let is_found = find(&newest, name)?.is_some();
        if is_found {
            set_pins(turn, &newest, &[(name, None)])?;
        }
        Ok(is_found)
    }

    /// Has each name keep the commit that a transaction reads, as [`Store::pin`] does with the
    /// newest one, and drops the pins of names without a transaction; all in one commit. A pin of a
    /// name that is there is moved.
    ///
    /// # Errors
    /// [`Error::Argument`] if there would be more than 64 pins, for a name that no pin can have,
    /// and for a transaction of another store; [`Error::WrongTransaction`] if one was reset; those
    /// of [`Store::pin`]. Nothing is changed then.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// let yesterday = store.begin_read()?;
    /// store.pin("old")?;
    /// store.change_pins(&[(b"yesterday", Some(&yesterday)), (b"old", None)])?;
    /// assert_eq!(store.pins()?[0].commit, yesterday.id());
    /// # Ok(()) }
    /// ```
    pub fn change_pins(&self, changes: &[(&[u8], Option<&ReadTxn>)]) -> Result<()> {
        let turn = Turn::begin_alone(&self.inner)?;
        let newest = self.begin_read()?;
        set_pins(turn, &newest, changes)
    }

    /// As [`Store::change_pins`], but waits at most `most` for its turn; [`Error::Locked`] then.
    pub(crate) fn change_pins_within(
        &self,
        changes: &[(&[u8], Option<&ReadTxn>)],
        most: Duration,
    ) -> Result<()> {
        let wait = Instant::now().checked_add(most).map_or(Wait::Ever, Wait::Until);
        let Some(turn) = Turn::begin_alone_within(&self.inner, wait)? else {
            let reason = match self.writer() {
                Some(process) => format!("process {process} writes to the store"),
                None => "another process or thread writes to the store".to_owned(),
            };
            return Err(Error::Locked { path: self.path().to_path_buf(), reason });
        };
        let newest = self.begin_read()?;
        set_pins(turn, &newest, changes)
    }

    /// The pins of the newest commit, in bytewise order of their names.
    ///
    /// # Errors
    /// Those of [`Store::stat`].
    pub fn pins(&self) -> Result<Vec<Pin>> {
        Ok(self.stat()?.holders.pins)
    }

    /// A snapshot of the commit that is kept under a name; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a damaged page; those of [`Store::begin_read`].
    pub fn read_pin(&self, name: impl AsRef<[u8]>) -> Result<Option<ReadTxn>> {
        let mut txn = self.begin_read()?;
        while let Some(pinned) = find(&txn, name.as_ref())? {
            if txn.go_to(&pinned) {
                return Ok(Some(txn));
            }
            txn.renew()?;
        }
        Ok(None)
    }
}

/// What [`Store::change_pins`] does in the writer's turn, in which `newest` is the newest commit.
fn set_pins(mut turn: Turn, newest: &ReadTxn, changes: &[(&[u8], Option<&ReadTxn>)]) -> Result<()> {
    let now = newest.store.options.system_in_use().now();
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let state = turn.state_mut();
    for (name, snapshot) in changes {
        let Some(snapshot) = snapshot else {
            state.free.delete_pin(&mut state.pages, name)?;
            continue;
        };
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(Error::argument("the name of a pin has 1 to 128 bytes"));
        }
        if snapshot.unique == 0 {
            return Err(Error::WrongTransaction);
        }
        if !Arc::ptr_eq(&snapshot.store, &newest.store) {
            return Err(Error::argument("the snapshot is one of another store"));
        }
        // Its reader protects it in this transaction as in those before.
        let meta = &snapshot.meta.meta;
        let (commit, end, catalog) = (meta.txn, meta.end, meta.catalog);
        let pinned = Pinned { commit, end, created: now.as_nanos() as u64, catalog };
        state.free.put_pin(&mut state.pages, name, &pinned)?;
    }
    if state.free.pin_count() > PINS_MAX {
        return Err(Error::argument("a store has at most 64 pins"));
    }
    turn.commit(Durability::Durable)
}

fn find(txn: &ReadTxn, name: &[u8]) -> Result<Option<Pinned>> {
    let pins = pins_of(&txn.pages, txn.meta.meta.free.pins)?;
    Ok(pins.into_iter().find(|(known, _)| known == name).map(|(_, pinned)| pinned))
}

/// The pins of a snapshot, of which no held pages are known yet.
pub(super) fn pins(txn: &ReadTxn) -> Result<Vec<Pin>> {
    let pins = pins_of(&txn.pages, txn.meta.meta.free.pins)?;
    let pin = |(name, pinned): (Vec<u8>, Pinned)| Pin {
        name,
        commit: pinned.commit,
        created: UNIX_EPOCH + Duration::from_nanos(pinned.created),
        held_pages: 0,
    };
    Ok(pins.into_iter().map(pin).collect())
}

/// Counts a freed run for the pin that alone holds it. `protected` is ascending.
pub(super) fn note_holder(pins: &mut [Pin], protected: &[u64], freed: &FreeRun) {
    let from = protected.partition_point(|snapshot| *snapshot < freed.birth);
    let to = protected.partition_point(|snapshot| *snapshot < freed.freed);
    if let Some([holder]) = protected.get(from..to)
        && let Some(pin) = pins.iter_mut().find(|pin| pin.commit == *holder)
    {
        pin.held_pages = pin.held_pages.saturating_add(u64::from(freed.run.len));
    }
}

#[cfg(test)]
#[path = "pins/tests.rs"]
mod tests;
