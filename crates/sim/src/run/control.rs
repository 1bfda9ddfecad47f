//! Transactions, readers, tables, and the store as a whole.

use hedgerow::tree::{Savepoint, WriteTxn};

use super::compare::{Kind, Outcome, ok, refused, same};
use super::{Reader, Runner, Side, table_name, verify};
use crate::config::Part;
use crate::model::State;
use crate::op::{Control, View};
use crate::rng::Rng;

/// Most savepoints of a level: the model keeps a state for each.
const SAVEPOINTS: usize = 6;

impl Runner<'_> {
    /// What can be done while there is no write transaction.
    pub(super) fn control_outside(&mut self, control: Control) -> Outcome {
        match control {
            Control::Reopen => self.reopen(),
            Control::Check => self.check(),
            // With a write transaction of this thread's open it would wait for itself.
            Control::Sync => {
                ok("sync", self.store().sync())?;
                self.note_durable();
                Ok(())
            }
            Control::Compact if !self.config.without.contains(&Part::Compact) => {
                let report = ok("compact", self.store().compact(&mut |_, _| {}))?;
                same("whether compact made the file longer", report.after > report.before, false)
            }
            other => self.control_anywhere(other),
        }
    }

    /// What can be done in a write transaction.
    pub(super) fn control_inside(
        &mut self,
        txn: &mut WriteTxn,
        side: &mut Side,
        savepoints: &mut Vec<(Savepoint, State)>,
        control: Control,
    ) -> Outcome {
        match control {
            Control::Savepoint if savepoints.len() < SAVEPOINTS => {
                let savepoint = ok("savepoint", txn.savepoint())?;
                savepoints.push((savepoint, side.state.clone()));
                Ok(())
            }
            Control::RollbackTo(back) => {
                let Some(kept) = savepoints.len().checked_sub(usize::from(back)) else {
                    return Ok(());
                };
                let Some((savepoint, state)) = kept.checked_sub(1).map(|i| &savepoints[i]) else {
                    return Ok(());
                };
                ok("rollback_to", txn.rollback_to(*savepoint))?;
                side.state = state.clone();
                savepoints.truncate(kept);
                Ok(())
            }
            Control::Release(back) => {
                let first = savepoints.len().checked_sub(usize::from(back) + 1);
                let Some(first) = first else { return Ok(()) };
                ok("release", txn.release(savepoints[first].0))?;
                savepoints.truncate(first);
                Ok(())
            }
            Control::TryBeginWrite => {
                let second = ok("try_begin_write", self.store().try_begin_write())?;
                same("whether there is a second writer", second.is_some(), false)
            }
            Control::Tables(View::Writer) => verify::tables(txn, &side.state),
            Control::Create(table) => self.ensure_table(txn, side, table).map(|_| ()),
            Control::DropTable(table) => drop_table(txn, side, table),
            Control::Rename(table, other) => rename(txn, side, table, other),
            Control::Clear(table) => {
                let Some(handle) = side.handle(self.config, txn, table)? else { return Ok(()) };
                ok("clear_table", txn.clear_table(handle))?;
                if let Some(model) = side.state.table_mut(table) {
                    model.delete(0..model.len());
                }
                Ok(())
            }
            other => self.control_anywhere(other),
        }
    }

    /// What can be done at any time.
    fn control_anywhere(&mut self, control: Control) -> Outcome {
        match control {
            Control::BeginRead(slot) => {
                let txn = ok("begin_read", self.store().begin_read())?;
                let side = Side::new(self.committed.clone());
                self.readers[usize::from(slot)] = Some(Reader { txn, side, reset: false });
                Ok(())
            }
            Control::EndRead(slot) => {
                let Some(mut reader) = self.readers[usize::from(slot)].take() else {
                    return Ok(());
                };
                if reader.reset {
                    return Ok(());
                }
                // A walk is cheap, the counters are not: those of one in eight.
                if self.done.is_multiple_of(8) {
                    let mut rng = Rng::new(self.done, 5);
                    return verify::state(self.config, &reader.txn, &mut reader.side, &mut rng);
                }
                verify::scans(self.config, &reader.txn, &mut reader.side)
            }
            Control::Reset(slot) => {
                if let Some(reader) = &mut self.readers[usize::from(slot)] {
                    reader.txn.reset();
                    reader.reset = true;
                }
                Ok(())
            }
            Control::Renew(slot) => {
                if let Some(reader) = &mut self.readers[usize::from(slot)] {
                    let before = reader.txn.id();
                    // If the snapshot is the same, handles and cursors stay valid, also over a
                    // reset.
                    if self.done.is_multiple_of(2) {
                        let stays = ok("refresh", reader.txn.refresh())?;
                        same("whether a snapshot stays", stays, reader.txn.id() == before)?;
                        if !stays {
                            reader.side = Side::new(self.committed.clone());
                        }
                    } else {
                        ok("renew", reader.txn.renew())?;
                        reader.side = Side::new(self.committed.clone());
                    }
                    reader.reset = false;
                }
                Ok(())
            }
            Control::Tables(View::Reader(slot)) => match &self.readers[usize::from(slot)] {
                Some(Reader { txn, side, reset: false }) => verify::tables(txn, &side.state),
                _ => Ok(()),
            },
            Control::Copy(compact) => self.copy(compact),
            Control::Stat => self.stat(),
            _ => Ok(()),
        }
    }

    /// Closes everything and opens the store again.
    pub(super) fn reopen(&mut self) -> Outcome {
        self.readers.fill_with(|| None);
        self.stale = None;
        let path = self.folder.join("store");
        // Half of the time a second handle keeps the store open while the first one is closed.
        if self.done.is_multiple_of(2) {
            self.store = None;
            self.note_closed()?;
        }
        self.store = Some(ok("open", self.builder().open(&path))?);
        self.note_closed()?;
        same("page_size after open", self.store().page_size(), self.config.page_size)
    }

    fn stat(&mut self) -> Outcome {
        if self.config.without.contains(&Part::Stat) {
            return Ok(());
        }
        let stat = ok("stat", self.store().stat())?;
        same("tables of stat", stat.tables, self.committed.count() as u64)?;
        let values: usize = self.committed.tables.iter().flatten().map(|t| t.len()).sum();
        same("values of stat", stat.table_pages.count.values, values as u64)?;
        let live = self.readers.iter().flatten().filter(|r| !r.reset).count();
        // The store pins a snapshot of its own while it flushes in the background.
        let seen = [stat.holders.readers.len(), ok("readers", self.store().readers())?.len()];
        same("readers", seen.iter().all(|n| (live..=live + 1).contains(n)), true)
    }
}

fn drop_table(txn: &mut WriteTxn, side: &mut Side, table: u8) -> Outcome {
    let renamed = side.state.table(table).is_some_and(|t| t.renamed);
    let dropped = ok("drop_table", txn.drop_table(table_name(table, renamed)))?;
    same("drop_table", dropped, side.state.table(table).is_some())?;
    if let Some(slot) = side.state.tables.get_mut(usize::from(table)) {
        *slot = None;
    }
    Ok(())
}

/// Renames a table to its other name; or tries to give it the name of another one.
fn rename(txn: &mut WriteTxn, side: &mut Side, table: u8, other: Option<u8>) -> Outcome {
    let Some(model) = side.state.table(table) else {
        let result = txn.rename_table(table_name(table, false), table_name(table, true));
        return refused("rename of a table that is not there", result, Kind::NoTable);
    };
    let old = table_name(table, model.renamed);
    if let Some(other) = other.filter(|o| *o != table)
        && let Some(taken) = side.state.table(other)
    {
        let result = txn.rename_table(&old, table_name(other, taken.renamed));
        return refused("rename to a name that is taken", result, Kind::TableExists);
    }
    ok("rename_table", txn.rename_table(&old, table_name(table, !model.renamed)))?;
    if let Some(model) = side.state.table_mut(table) {
        model.renamed = !model.renamed;
    }
    Ok(())
}
