//! Whole tables and whole stores against the model: scans both ways, and every counter against
//! them.

use std::ops::Bound;

use hedgerow::tree::{CopyOptions, Rank, Snapshot, Store};

use super::compare::{Disagreement, Outcome, ok, same, same_entry};
use super::read::{Beside, count_of};
use super::{Runner, Side};
use crate::config::{Config, Part};
use crate::model::State;
use crate::op::Edge;
use crate::rng::Rng;

/// Walks a table from end to end, forward and backward.
pub(super) fn scan<S: Snapshot>(Beside { txn, handle, spec, model }: Beside<'_, S>) -> Outcome {
    let mut cursor = ok("cursor", txn.cursor(handle))?;
    for &pair in model.pairs() {
        same_entry("next of a scan", spec, cursor.next(txn), Some(pair))?;
    }
    same_entry("next behind the last entry", spec, cursor.next(txn), None)?;
    let mut cursor = ok("cursor", txn.cursor(handle))?;
    for &pair in model.pairs().iter().rev() {
        same_entry("prev of a scan", spec, cursor.prev(txn), Some(pair))?;
    }
    same_entry("prev before the first entry", spec, cursor.prev(txn), None)
}

/// Scans a table and holds every counter against the scan.
pub(super) fn counters<S: Snapshot>(at: Beside<'_, S>, rng: &mut Rng) -> Outcome {
    scan(at)?;
    let Beside { txn, handle, spec, model } = at;
    let all = count_of(model, 0..model.len());
    same("count", ok("count", txn.count(handle))?, all)?;
    let step = (model.len() / 2000).max(1);
    let mut keys = 0;
    for (position, pair) in model.pairs().iter().enumerate() {
        let is_first = position == 0 || model.pairs()[position - 1].key != pair.key;
        if position % step == 0 {
            same_entry("nth", spec, txn.nth(handle, position as u64), Some(*pair))?;
        }
        if !is_first {
            continue;
        }
        if keys % step == 0 {
            let rank = ok("rank", txn.rank(handle, spec.keys.get(pair.key)))?;
            let expected = Rank { keys: keys as u64, values: position as u64, found: true };
            same("rank", rank, expected)?;
            same_entry("nth_key", spec, txn.nth_key(handle, keys as u64), Some(*pair))?;
        }
        keys += 1;
    }
    same_entry("nth behind the end", spec, txn.nth(handle, model.len() as u64), None)?;
    same_entry("nth_key behind the end", spec, txn.nth_key(handle, keys as u64), None)?;
    random_ranges(at, rng)
}

fn random_ranges<S: Snapshot>(
    Beside { txn, handle, spec, model }: Beside<'_, S>,
    rng: &mut Rng,
) -> Outcome {
    let keys = spec.keys.len();
    for _ in 0..500 {
        let low = rng.index(keys);
        let high = rng.between(low, keys - 1);
        let (low, high) = (low as u32, high as u32);
        let (low_bytes, high_bytes) = (spec.keys.get(low), spec.keys.get(high));
        let found =
            txn.count_range(handle, (Bound::Included(low_bytes), Bound::Excluded(high_bytes)));
        let expected = count_of(model, model.range(Edge::Included(low), Edge::Excluded(high)));
        same("count_range", ok("count_range", found)?, expected)?;
    }
    Ok(())
}

/// Scans every table that a transaction sees.
pub(super) fn scans<S: Snapshot>(config: &Config, txn: &S, side: &mut Side) -> Outcome {
    each(config, txn, side, scan)
}

/// Walks every table that a transaction sees once, forward.
pub(super) fn walks<S: Snapshot>(config: &Config, txn: &S, side: &mut Side) -> Outcome {
    each(config, txn, side, walk)
}

/// Compares each table that a transaction sees in some way.
fn each<S: Snapshot>(
    config: &Config,
    txn: &S,
    side: &mut Side,
    mut compare: impl FnMut(Beside<'_, S>) -> Outcome,
) -> Outcome {
    tables(txn, &side.state)?;
    for (number, spec) in config.tables.iter().enumerate() {
        if let Some(handle) = side.handle(config, txn, number as u8)?
            && let Some(model) = side.state.table(number as u8)
        {
            let compared = compare(Beside { txn, handle, spec, model });
            compared.map_err(|d| d.in_the(format_args!("table {number}")))?;
        }
    }
    Ok(())
}

fn walk<S: Snapshot>(Beside { txn, handle, spec, model }: Beside<'_, S>) -> Outcome {
    let mut range = ok("range", txn.range(handle, ..))?;
    for &pair in model.pairs() {
        same_entry("next of a walk", spec, range.next().transpose(), Some(pair))?;
    }
    same_entry("next behind the last entry", spec, range.next().transpose(), None)
}

/// Compares every table that a transaction sees, and all of their counters.
pub(super) fn state<S: Snapshot>(
    config: &Config,
    txn: &S,
    side: &mut Side,
    rng: &mut Rng,
) -> Outcome {
    each(config, txn, side, |at| counters(at, rng))
}

/// Compares the list of tables.
pub(super) fn tables<S: Snapshot>(txn: &S, state: &State) -> Outcome {
    let found = ok("tables", txn.tables())?;
    let found: Vec<_> = found.into_iter().map(|t| (t.name, t.count, t.user_flags)).collect();
    let mut expected: Vec<_> = (0..)
        .zip(&state.tables)
        .filter_map(|(number, table)| Some((number, table.as_ref()?)))
        .map(|(number, table)| {
            let count = count_of(table, 0..table.len());
            (super::table_name(number, table.renamed), count, table.user_flags)
        })
        .collect();
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    same("tables", found, expected)
}

impl Runner<'_> {
    /// Compares everything that is committed, and every held snapshot.
    pub(super) fn verify_committed(&mut self) -> Outcome {
        let mut rng = Rng::new(self.config.seed, 3);
        let txn = ok("begin_read", self.store().begin_read())?;
        state(self.config, &txn, &mut Side::new(self.committed.clone()), &mut rng)?;
        for reader in self.readers.iter_mut().flatten().filter(|r| !r.reset) {
            state(self.config, &reader.txn, &mut reader.side, &mut rng)
                .map_err(|d| d.in_the("held snapshot"))?;
        }
        Ok(())
    }

    /// Checks every page.
    pub(super) fn check(&mut self) -> Outcome {
        if self.config.without.contains(&Part::Check) {
            return Ok(());
        }
        self.verify_pages()
    }

    /// Checks every page, whatever is left out of the run.
    pub(super) fn verify_pages(&self) -> Outcome {
        let report = ok("check", self.store().check(&mut |_, _| {}))?;
        same("problems of check", report.problems, Vec::new())
    }

    /// Copies the store and compares the copy.
    pub(super) fn copy(&mut self, compact: bool) -> Outcome {
        if self.config.without.contains(&Part::Copy) {
            return Ok(());
        }
        self.copies += 1;
        let path = self.folder.join(format!("copy {}", self.copies));
        if let Some(disk) = &self.disk {
            // A run that was cut may have left one.
            disk.remove_store(&path)?;
        }
        let options = CopyOptions { compact };
        ok("copy_to", self.store().copy_to(&path, options, &mut |_, _| {}))?;
        let copy: Store = ok("open of a copy", self.builder().open(&path))?;
        let txn = ok("begin_read", copy.begin_read())?;
        let mut rng = Rng::new(self.config.seed, 4);
        state(self.config, &txn, &mut Side::new(self.committed.clone()), &mut rng)
            .map_err(|d| d.in_the("copy"))?;
        drop(txn);
        if !self.config.without.contains(&Part::Check) {
            let report = ok("check of a copy", copy.check(&mut |_, _| {}))?;
            same("problems of check of a copy", report.problems, Vec::new())?;
        }
        drop(copy);
        match &self.disk {
            Some(disk) => disk.remove_store(&path),
            None => remove_store(&path),
        }
    }
}

/// Removes the files of a store.
fn remove_store(path: &std::path::Path) -> Outcome {
    // A copy that was never locked has no lock file.
    let _ = std::fs::remove_file(lock_of(path));
    std::fs::remove_file(path).map_err(|e| Disagreement::from(format!("no file of a copy: {e}")))
}

/// The lock file of a store.
pub(super) fn lock_of(path: &std::path::Path) -> std::path::PathBuf {
    let mut lock = path.as_os_str().to_owned();
    lock.push("-lock");
    lock.into()
}
