//! Power cuts: random transactions on the simulated disk, and after every single write and flush
//! of theirs the images that a cut at that point may leave.
//!
//! Each image must open, hold a prefix of the commits with every durable one in it, pass `check`,
//! and take another durable commit. Where the cut comes before the store's creation was
//! acknowledged, there may be no store, but there must not be a panic or a wrong one.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hedgerow::os::sim::{Config, CrashMode, SimSystem};
use hedgerow::tree::{Builder, Durability, Snapshot, Store, TableOptions, WriteTxn};

use crate::job::panic_message;
use crate::rng::Rng;

/// Where the store is on its simulated disk.
const PATH: &str = "/disk/store";

/// How a seed went.
#[derive(Debug)]
pub struct CrashReport {
    /// The seed.
    pub seed: u64,
    /// Images that were opened.
    pub images: u64,
    /// Commits of the run.
    pub commits: u64,
    /// What was wrong, one sentence for each image.
    pub violations: Vec<String>,
}

/// What the store holds after a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    /// The number of the commit, stored with it.
    commit: u32,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    pairs: BTreeSet<(Vec<u8>, Vec<u8>)>,
}

/// A run on the simulated disk, recorded.
struct Run {
    disk: SimSystem,
    builder: Builder,
    rng: Rng,
    /// What the store holds after each commit; the first one is the empty store.
    contents: Vec<Content>,
    durable: u32,
}

/// Runs one seed and looks at every image.
pub fn crash_seed(seed: u64) -> CrashReport {
    let mut report = CrashReport { seed, images: 0, commits: 0, violations: Vec::new() };
    let recorded = caught(|| Run::record(seed));
    let run = match recorded {
        Ok(run) => run,
        Err(what) => {
            report.violations.push(format!("before any cut: {what}"));
            return report;
        }
    };
    report.commits = run.contents.len() as u64 - 1;
    let mut rng = Rng::new(seed, 11);
    for cut in 0..=run.disk.recorded() {
        let mode = rng.pick(&CrashMode::ALL);
        let cut_seed = rng.next_u64();
        report.images += 1;
        if let Err(what) = caught(|| run.look_at(cut, mode, cut_seed)) {
            let event = run.disk.describe(cut).unwrap_or_else(|| "the end".to_owned());
            report
                .violations
                .push(format!("cut {cut} before {event}, {mode:?}, seed {cut_seed}: {what}"));
        }
    }
    report
}

/// The result of `f`; a panic is a violation too.
fn caught<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f))
        .unwrap_or_else(|panic| Err(format!("panic: {}", panic_message(&*panic))))
}

/// An error of the engine as a violation.
fn told<T>(doing: &str, result: hedgerow::Result<T>) -> Result<T, String> {
    result.map_err(|e| format!("{doing}: {e}"))
}

impl Run {
    /// Creates a store and commits random transactions, all of it recorded.
    fn record(seed: u64) -> Result<Self, String> {
        let mut rng = Rng::new(seed, 10);
        let map = rng.chance(2, 3);
        let disk = SimSystem::new(seed, Config { map, ..Config::default() });
        disk.record(true);
        let builder = Store::builder()
            .page_size(rng.pick(&[4096, 4096, 16_384]))
            .write_budget(rng.pick(&[64 << 10, 256 << 20]));
        let mut run = Self { disk, builder, rng, contents: vec![Content::default()], durable: 0 };
        let mut store = told("create", run.on(&run.disk).create(PATH))?;
        run.mark(0);
        for _ in 0..run.rng.between(8, 40) {
            run.transaction(&store)?;
            match run.rng.index(40) {
                0..4 => {
                    told("sync", store.sync())?;
                    run.durable = run.newest();
                    run.mark(run.newest());
                }
                4 => {
                    told("compact", store.compact(&mut |_, _| {}))?;
                }
                5 => {
                    drop(store);
                    store = told("open", run.on(&run.disk).open(PATH))?;
                }
                _ => {}
            }
        }
        Ok(run)
    }

    /// A builder on a disk.
    fn on(&self, disk: &SimSystem) -> Builder {
        self.builder.clone().system(Arc::new(disk.clone()))
    }

    fn newest(&self) -> u32 {
        self.contents.len() as u32 - 1
    }

    /// Notes in the log that commit `begun` may be on the disk, and which ones must be.
    fn mark(&self, begun: u32) {
        self.disk.mark(u64::from(begun) << 32 | u64::from(self.durable));
    }

    /// One random transaction.
    fn transaction(&mut self, store: &Store) -> Result<(), String> {
        let mut txn = told("begin_write", store.begin_write())?;
        let mut content = self.contents.last().cloned().unwrap_or_default();
        content.commit += 1;
        self.changes(&mut txn, &mut content)?;
        if self.rng.chance(1, 8) {
            txn.abort();
            return Ok(());
        }
        let durability =
            self.rng.pick(&[Durability::Durable, Durability::Eventual, Durability::None]);
        self.mark(content.commit);
        told("commit", txn.commit_with(durability))?;
        if durability == Durability::Durable {
            self.durable = content.commit;
        }
        self.mark(content.commit);
        self.contents.push(content);
        Ok(())
    }

    /// Random changes, the number of the commit among them.
    fn changes(&mut self, txn: &mut WriteTxn, content: &mut Content) -> Result<(), String> {
        let rng = &mut self.rng;
        let entries = told("create_table", txn.create_table("entries", &TableOptions::new()))?;
        let pairs =
            told("create_table", txn.create_table("pairs", &TableOptions::new().duplicates()))?;
        let number = content.commit.to_be_bytes();
        told("put", txn.put(entries, b"commit", &number))?;
        for _ in 0..rng.pick(&[1, 3, 20, 150]) {
            let key = format!("/usr/share/{:04}", rng.below(900)).into_bytes();
            match rng.index(12) {
                0..6 => {
                    let len = rng.pick(&[0, 8, 60, 700, 9000]);
                    let value = rng.bytes(len);
                    told("put", txn.put(entries, &key, &value))?;
                    content.entries.insert(key, value);
                }
                6..8 => {
                    told("delete", txn.delete(entries, &key))?;
                    content.entries.remove(&key);
                }
                8 => {
                    let key = format!("/usr/share/{:04}", rng.below(4)).into_bytes();
                    told("delete", txn.delete(pairs, &key))?;
                    content.pairs.retain(|(k, _)| *k != key);
                }
                _ => {
                    let key = format!("/usr/share/{:04}", rng.below(4)).into_bytes();
                    let value = format!("value {:05}", rng.below(5000)).into_bytes();
                    told("put", txn.put(pairs, &key, &value))?;
                    content.pairs.insert((key, value));
                }
            }
        }
        Ok(())
    }

    /// Opens what a power cut left and says what is wrong with it.
    fn look_at(&self, cut: usize, mode: CrashMode, seed: u64) -> Result<(), String> {
        let disk = self.disk.image_at(cut, mode, seed);
        let mark = self.disk.last_mark(cut);
        let store = match (self.on(&disk).open(PATH), mark) {
            (Ok(store), _) => store,
            // The creation was not acknowledged yet.
            (Err(_), None) => return Ok(()),
            (Err(e), Some(_)) => return Err(format!("does not open: {e}")),
        };
        let report = told("check", store.check(&mut |_, _| {}))?;
        if let Some(problem) = report.problems.first() {
            return Err(format!("{} problems, first: {problem}", report.problems.len()));
        }
        let found = read(&store)?;
        let (newest, durable) = mark.map_or((0, 0), |m| ((m >> 32) as u32, m as u32));
        if found.commit < durable || found.commit > newest {
            return Err(format!(
                "holds commit {}, must be one from {durable} to {newest}",
                found.commit
            ));
        }
        if self.contents.get(found.commit as usize).is_some_and(|c| *c != found) {
            return Err(format!("does not hold what commit {} left", found.commit));
        }
        drop(store);
        self.write_to(&disk)
    }

    /// Commits once more to an image, cuts its power as well, and reads the commit back.
    fn write_to(&self, disk: &SimSystem) -> Result<(), String> {
        let store = told("second open", self.on(disk).open(PATH))?;
        let mut txn = told("begin_write", store.begin_write())?;
        let table = told("create_table", txn.create_table("entries", &TableOptions::new()))?;
        told("put", txn.put(table, b"after the cut", b"written"))?;
        told("commit", txn.commit_with(Durability::Durable))?;
        let disk = disk.crash(1, CrashMode::LoseAll);
        let store = told("open after a second cut", self.on(&disk).open(PATH))?;
        let txn = told("begin_read", store.begin_read())?;
        let table = told("table", txn.table("entries"))?;
        match told("get", txn.get(table, b"after the cut"))? {
            Some(value) if value == b"written" => Ok(()),
            _ => Err("a durable commit to the image was lost".to_owned()),
        }
    }
}

/// Reads all that a store holds.
fn read(store: &Store) -> Result<Content, String> {
    let txn = told("begin_read", store.begin_read())?;
    let mut content = Content::default();
    let names: Vec<Vec<u8>> = told("tables", txn.tables())?.into_iter().map(|t| t.name).collect();
    for name in names {
        let table = told("table", txn.table(&name))?;
        let range = txn.range(table, std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        for entry in told("range", range)? {
            let entry = told("next of a range", entry)?;
            let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
            if name == b"pairs" {
                content.pairs.insert((key, value));
            } else if key == b"commit" {
                let number = value.try_into().map_err(|_| "the commit's number is damaged")?;
                content.commit = u32::from_be_bytes(number);
            } else {
                content.entries.insert(key, value);
            }
        }
    }
    Ok(content)
}
