//! How long it takes to find what is different between two moments of a store.

use std::path::Path;
use std::time::Instant;

use hedgerow::Durability;
use hedgerow::tree::{Diff, Snapshot as _, Store};

use super::{Goal, Pairs, Row, TABLE, raw};
use crate::compare::report::median;
use crate::data::Generator;
use crate::engine::Result;

/// What changed in 1,000 places, beside two full scans.
pub(super) fn row(folder: &Path, pairs: Pairs, rounds: u32) -> Result<Row> {
    const CHANGES: u64 = 1_000;
    let store = Store::open(folder.join("tree"))?;
    let old = store.begin_read()?;
    let mut txn = store.begin_write()?;
    let table = txn.table(TABLE.name)?;
    let (mut key, mut random) = (Vec::new(), Generator::new(3));
    let mut changed = std::collections::BTreeSet::new();
    while (changed.len() as u64) < CHANGES.min(pairs.count) {
        let number = random.below(pairs.count);
        pairs.key(number, &mut key);
        txn.put(table, &key, b"changed")?;
        changed.insert(number);
    }
    txn.commit_with(Durability::Eventual)?;
    let new = store.begin_read()?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        let mut found = 0;
        for change in Diff::new(&old, &new, TABLE.name)? {
            change?;
            found += 1;
        }
        times.push(start.elapsed().as_secs_f64() * 1e3);
        if found != changed.len() {
            return Err(format!("{found} differences and not {}", changed.len()).into());
        }
    }
    let start = Instant::now();
    raw(&store)?;
    let base = 2.0 * start.elapsed().as_secs_f64() * 1e3;
    let name = format!("differences: {} in {}", changed.len(), pairs.count);
    Ok(Row { name, unit: "ms", base, found: median(&times), goal: Goal::Within(5.0) })
}
