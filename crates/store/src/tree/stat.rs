//! The report on a store as a whole, and what a single snapshot holds.

use std::path::Path;

use super::free::{is_held, pending_entry, pending_key};
use super::meta::FreeRun;
use super::order::Form;
use super::page_ref::FIRST_PAGE;
use super::pins::{note_holder, pins};
use super::report::{Holders, StoreStat, TableStat};
use super::search::scan_plain;
use super::snapshot::sealed::Sealed;
use super::tree::Tree;
use super::{ReadTxn, Store, catalog};
use crate::{Result, observe};

/// Shows the freed runs of a commit that snapshots may still use, and others, until `see` says no.
/// Of those in the pending tree only ones that `snapshot` or a newer one holds.
fn for_each_freed(
    txn: &ReadTxn,
    snapshot: u64,
    see: &mut dyn FnMut(&FreeRun) -> bool,
) -> Result<()> {
    if !txn.meta.meta.recent.iter().all(&mut *see) {
        return Ok(());
    }
    let pending = Tree::new(txn.meta.meta.pending, Form::PLAIN);
    // A run stands under the newest snapshot that holds it.
    scan_plain(&txn.pages, &pending, &pending_key(snapshot, 0), &mut |key, value| {
        pending_entry(key, value).is_some_and(|(_, runs)| runs.iter().all(&mut *see))
    })
}

impl ReadTxn {
    /// How many pages of this snapshot the newest commit does not use any more: they cannot be used
    /// again before the snapshot is let go. Pages that another snapshot or a pin holds as well are
    /// among them.
    ///
    /// It takes a look at each piece of space that was freed since the snapshot and is still held
    /// by it or by a newer one; nothing else is read. 0 if nothing was committed since.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use hedgerow::tree::{Snapshot, TableOptions};
    /// let mut txn = store.begin_write()?;
    /// let table = txn.create_table("t", &TableOptions::new())?;
    /// txn.put(table, b"key", &[1; 100_000])?;
    /// txn.commit()?;
    /// let old = store.begin_read()?;
    /// assert_eq!(old.held_pages()?, 0);
    /// let mut txn = store.begin_write()?;
    /// let table = txn.table("t")?;
    /// txn.delete(table, b"key")?;
    /// txn.commit()?;
    /// assert!(old.held_pages()? * u64::from(store.page_size()) >= 100_000);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Store::begin_read`]; a damaged page.
    pub fn held_pages(&self) -> Result<u64> {
        self.held_up_to(u64::MAX).map(|(held, _)| held)
    }

    /// As [`ReadTxn::held_pages`], but looks no further once there are `most`; also at how many
    /// pieces of space it looked.
    pub(crate) fn held_up_to(&self, most: u64) -> Result<(u64, u32)> {
        let own = self.id();
        if self.store.latest_number() == own {
            return Ok((0, 0));
        }
        let newest = Self::begin(&self.store)?;
        let meta = &newest.meta.meta;
        let lens = meta.recent.iter().map(|freed| u64::from(freed.run.len));
        let all = lens.fold(meta.free.pending, u64::saturating_add);
        // Fewer pages than that are freed and not reused, held or not: nothing has to be read.
        if most < u64::MAX && all < most {
            return Ok((0, 1));
        }
        let (mut held, mut looks) = (0_u64, 0_u32);
        for_each_freed(&newest, own, &mut |freed| {
            looks = looks.saturating_add(1);
            if is_held(&[own], freed.birth, freed.freed) {
                held = held.saturating_add(u64::from(freed.run.len));
            }
            held < most
        })?;
        Ok((held, looks))
    }
}

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
        for_each_freed(&txn, 0, &mut |freed| {
            note(freed);
            true
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
        let stat = StoreStat {
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
        };
        told(&self.inner.pages.path, &stat);
        Ok(stat)
    }
}

/// Tells a report to what watches the store.
fn told(path: &Path, stat: &StoreStat) {
    let Holders { readers, pins } = &stat.holders;
    observe::state(path, "tree", None, || {
        [
            ("commit", stat.commit),
            ("durable_commit", stat.durable_commit),
            ("file_bytes", stat.file_bytes),
            ("pages", stat.pages),
            ("free_pages", stat.free_pages),
            ("pinned_pages", stat.pinned_pages),
            ("own_pages", stat.own_pages),
            ("tables", stat.tables),
            ("readers", readers.len() as u64),
            ("pins", pins.len() as u64),
        ]
    });
    observe::held_back(path, stat.pinned_pages, || {
        let oldest = readers.iter().min_by_key(|reader| reader.commit);
        let oldest = oldest.filter(|reader| stat.pinned_pages > 0 && reader.commit < stat.commit);
        oldest.map(|reader| (reader.process, reader.thread, reader.commit))
    });
}
