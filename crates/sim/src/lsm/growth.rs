//! How long the files of the log-structured engine get under values that are put, replaced and
//! deleted again and again: the steps of [`crate::growth`], checked against a bound of its own.
//!
//! Files are at most 1.4 times the live bytes, since the engine paces its writers, plus unfinished
//! work. That holds from the first table on: until then it is unknown how much the buffer hides,
//! and the log is kept whole until a buffer is full. Held snapshots keep whole segments and tables,
//! so there are none here.

use std::collections::HashMap;
use std::sync::Arc;

use hedgerow::Durability;
use hedgerow::lsm::{Batch, Db, Keyspace, KeyspaceOptions, Options};
use hedgerow::os::sim::{self, SimSystem};

use crate::growth::{GrowthReport, Kind, PAGE, POINTS, Point, Step, Work};
use crate::rng::Rng;

const MEMTABLE: u64 = 256 << 10;
const SEGMENT: u64 = 1 << 20;
/// What each entry takes besides its key and its value, in tables and segments.
const ENTRY: u64 = 64;
/// The sequence of steps has keys of two tables; here they are two keyspaces.
const SPACES: [&str; 2] = ["values", "sets"];

/// What should be in the store: the bytes of each entry.
#[derive(Default)]
struct Live {
    entries: HashMap<(usize, Vec<u8>), u64>,
    bytes: u64,
    most: u64,
}

impl Live {
    fn put(&mut self, space: usize, key: Vec<u8>, len: u64) {
        let bytes = key.len() as u64 + len + ENTRY;
        self.bytes += bytes;
        self.bytes -= self.entries.insert((space, key), bytes).unwrap_or(0);
        self.most = self.most.max(self.bytes);
    }

    fn delete(&mut self, space: usize, key: Vec<u8>) {
        self.bytes -= self.entries.remove(&(space, key)).unwrap_or(0);
    }
}

/// The most bytes that the files may have: of what lives, 1.4 times; the entries of three buffers
/// on their way to tables, with their part of the log, and what a merge writes beside its inputs; a
/// segment that is begun, one that is collected, and one that is written for it.
fn bound(live: &Live) -> u64 {
    live.most * 14 / 10 + 2 * 3 * MEMTABLE + 3 * SEGMENT
}

/// Runs a seed for a number of transactions: the kind of work is the seed's, unless it is given.
pub fn growth_seed(seed: u64, kind: Option<Kind>, transactions: u64) -> GrowthReport {
    let kind = kind.unwrap_or(Kind::of_seed(seed));
    let mut report = GrowthReport::new(seed, kind, false);
    if let Err(error) = churn(&mut report, transactions) {
        report.violations.push(error.to_string());
    }
    report
}

fn churn(report: &mut GrowthReport, transactions: u64) -> hedgerow::Result<()> {
    let mut rng = Rng::new(report.seed, 59);
    let config = sim::Config { reserve: 64 << 20, ..sim::Config::default() };
    let disk = SimSystem::new(report.seed, config);
    let options = Options::new()
        .create(true)
        .memory_limit(16 << 20)
        .memtable_bytes(MEMTABLE as usize)
        .segment_bytes(SEGMENT)
        .table_bytes(MEMTABLE)
        .system(Arc::new(disk));
    let db = options.open("/disk/store")?;
    let mut spaces = Vec::new();
    for name in SPACES {
        spaces.push(db.keyspace(name, KeyspaceOptions::default())?);
    }
    let (mut work, mut live) = (Work::new(report.kind, report.seed), Live::default());
    for transaction in 1..=transactions {
        let steps = kept(work.next_transaction());
        let durability = rng.pick(&[Durability::Durable, Durability::Eventual, Durability::None]);
        db.write_with(batch(&spaces, &steps, &mut live)?, durability)?;
        look(&db, transaction, transactions, &live, report);
    }
    report.violations.extend(db.check()?.damage.iter().map(ToString::to_string));
    db.close()
}

/// The steps of a transaction without those that it rolls back.
fn kept(steps: Vec<Step>) -> Vec<Step> {
    let (mut kept, mut begun) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            Step::Begin => begun.push(kept.len()),
            Step::Keep => drop(begun.pop()),
            Step::Undo => kept.truncate(begun.pop().unwrap_or(0)),
            other => kept.push(other),
        }
    }
    kept
}

fn batch(spaces: &[Keyspace], steps: &[Step], live: &mut Live) -> hedgerow::Result<Batch> {
    let mut batch = Batch::new();
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Put(key, len) => {
                batch.put(&spaces[0], key, &vec![i as u8; *len])?;
                live.put(0, key.clone(), *len as u64);
            }
            Step::Delete(key) => {
                batch.delete(&spaces[0], key)?;
                live.delete(0, key.clone());
            }
            Step::Add(key, len) => {
                // Without duplicates the number of the step becomes part of the key.
                let key = [key.to_be_bytes(), (i as u64).to_be_bytes()].concat();
                batch.put(&spaces[1], &key, &vec![i as u8; *len])?;
                live.put(1, key, *len as u64);
            }
            Step::Clear(key) => {
                let (from, to) = (key.to_be_bytes(), (key + 1).to_be_bytes());
                batch.delete_range(&spaces[1], &from..&to)?;
                let inside =
                    |(space, name): &&(usize, Vec<u8>)| *space == 1 && name.starts_with(&from);
                let gone: Vec<_> = live.entries.keys().filter(inside).cloned().collect();
                gone.into_iter().for_each(|(space, name)| live.delete(space, name));
            }
            Step::Begin | Step::Keep | Step::Undo => {}
        }
    }
    Ok(batch)
}

/// Holds the files against the law.
fn look(db: &Db, transaction: u64, transactions: u64, live: &Live, report: &mut GrowthReport) {
    let stat = db.stat();
    let (bytes, has_tables) = (stat.bytes(), stat.table_bytes() > 0);
    if transaction.is_multiple_of((transactions / POINTS).max(1)) {
        let (live, pages) = (live.bytes / PAGE, bytes / PAGE);
        let free = pages.saturating_sub(live);
        report.curve.push(Point { transactions: transaction, live, pages, free, pinned: 0 });
    }
    if !has_tables {
        return;
    }
    let bound = bound(live);
    report.percent = report.percent.max(100 * bytes / bound);
    if bytes > bound && report.violations.is_empty() {
        report.violations.push(format!(
            "after {transaction} transactions the files have {bytes} bytes, at most {bound}: {} \
             live (at most {})",
            live.bytes, live.most
        ));
    }
}
