//! The report on a store as a whole.

use super::free::{is_held, pending_entry};
use super::meta::FreeRun;
use super::order::Form;
use super::page_ref::FIRST_PAGE;
use super::pins::{note_holder, pins};
use super::report::{Holders, StoreStat, TableStat};
use super::search::scan_plain;
use super::snapshot::sealed::Sealed;
use super::tree::Tree;
use super::{Store, catalog};
use crate::Result;

impl Store {
    /// Pages, free space, tables and readers in numbers.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if the catalog cannot be read,
    /// [`Error::Locked`](crate::Error::Locked) after a fork.
    pub fn stat(&self) -> Result<StoreStat> {
        // Listed before the snapshot is taken, so that the snapshot is not among them.
        let readers = self.readers()?;
        let txn = self.begin_read()?;
        let meta = &txn.meta.meta;
        let protected = txn.protected()?;
        let (mut free, mut pinned) = (meta.free.ready, 0_u64);
        let mut pins = pins(&txn)?;
        let mut note = |freed: &FreeRun| {
            note_holder(&mut pins, &protected, freed);
            let held = is_held(&protected, freed.birth, freed.freed);
            let sum = if held { &mut pinned } else { &mut free };
            *sum = sum.saturating_add(u64::from(freed.run.len));
        };
        meta.recent.iter().for_each(&mut note);
        let pending = Tree::new(meta.pending, Form::PLAIN);
        scan_plain(&txn.pages, &pending, &[], &mut |key, value| {
            let entry = pending_entry(key, value);
            entry.is_some_and(|(_, runs)| {
                runs.iter().for_each(&mut note);
                true
            })
        })?;
        let roots = [&meta.catalog, &meta.ready, &meta.pending, &meta.free.pins];
        let own = roots.iter().map(|root| TableStat::of(root).pages());
        let log = meta.log.map_or(0, |place| u64::from(place.run.len));
        let own = own.fold(u64::from(FIRST_PAGE) + log, u64::saturating_add);
        let (mut tables, mut all) = (0, TableStat::default());
        catalog::for_each(&txn.pages, &txn.catalog(), |_, root, _| {
            tables += 1;
            all.add(&TableStat::of(&root));
        })?;
        Ok(StoreStat {
            page_size: self.page_size(),
            commit: meta.txn,
            durable_commit: if meta.log.is_some_and(|place| place.chained) {
                meta.txn
            } else {
                self.inner.durable_number()
            },
            file_bytes: self.inner.file_len()?,
            pages: u64::from(meta.end),
            free_pages: free,
            pinned_pages: pinned,
            own_pages: own,
            tables,
            table_pages: all,
            holders: Holders { readers, pins },
            max_size: meta.max_size(),
        })
    }
}
