//! Power cuts and kills under both engines, as databases write to them: a simulated disk, which is
//! cut at every point of a run. Batches carry a number: the first ones of them have to be there,
//! each as a whole, with every one that was written durably, and after the death of the process
//! every one whose write had returned.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hedgerow::os::sim::{Config, CrashMode, SimSystem};
use hedgerow::tree::Store;

use super::*;

/// Keys that each batch writes anew.
const KEYS: u64 = 10;
const BATCHES: u64 = 60;

fn options() -> Options {
    Options { create: true, ..Options::default() }
}

fn open_lsm(disk: &SimSystem) -> Engine {
    // Small, so that tables are written and merged.
    let opening = hedgerow::lsm::Options::new().create(true).memory_limit(8 << 20);
    let opening = opening.system(Arc::new(disk.clone()));
    Engine::Lsm(lsm::Lsm::of(opening, Path::new("/store"), &options()).unwrap())
}

fn make(kind: Kind, disk: &SimSystem) -> Engine {
    if kind == Kind::Lsm {
        return open_lsm(disk);
    }
    let builder = Store::builder().system(Arc::new(disk.clone()));
    Engine::Tree(tree::Tree::make(builder, Path::new("/store"), &options()).unwrap())
}

fn open(kind: Kind, disk: &SimSystem) -> Engine {
    if kind == Kind::Lsm {
        return open_lsm(disk);
    }
    let store = Store::builder().system(Arc::new(disk.clone())).open("/store").unwrap();
    Engine::Tree(tree::Tree::new(store, &options()))
}

/// The batch of a number: some keys get it as their value, one of its own is added, and some values
/// are long.
fn write(engine: &Engine, number: u64, sync: bool) {
    let key = |n: u64| match n {
        KEYS => format!("log {number:06}").into_bytes(),
        n => format!("key {n}").into_bytes(),
    };
    let keys: Vec<Vec<u8>> = (0..=KEYS).map(key).collect();
    let value = number.to_string().into_bytes();
    let long = vec![b'v'; (number * 613 % 5000) as usize];
    let ops: Vec<Op<'_>> = keys
        .iter()
        .map(|key| Op { key, value: Some(if key.starts_with(b"key") { &value } else { &long }) })
        .collect();
    engine.write(&ops, sync).unwrap();
}

/// The number of the last batch that is there; every one before it is, and of each all or nothing.
fn last(engine: &Engine) -> u64 {
    let get = |key: &str| {
        let value = engine.get(None, key.as_bytes(), |value| value.map(<[u8]>::to_vec)).unwrap();
        value.map(|value| String::from_utf8(value).unwrap())
    };
    let number = get("key 0").map_or(0, |number| number.parse().unwrap());
    for key in 0..KEYS {
        let expected = (number > 0).then(|| number.to_string());
        assert_eq!(get(&format!("key {key}")), expected, "key {key}");
    }
    for batch in 1..=number {
        let long = get(&format!("log {batch:06}")).unwrap_or_else(|| panic!("no batch {batch}"));
        assert_eq!(long.len() as u64, batch * 613 % 5000);
    }
    let keys = if number > 0 { KEYS } else { 0 };
    assert_eq!(engine.count().unwrap(), number + keys);
    number
}

/// Writes batches, each seventh one durably, and marks in the disk's log what must not be lost
/// from there on: what is durable, or else every batch.
fn run(kind: Kind, seed: u64, only_durable: bool) -> (SimSystem, usize) {
    let disk = SimSystem::new(seed, Config::default());
    disk.record(true);
    let engine = make(kind, &disk);
    let begin = disk.recorded();
    for number in 1..=BATCHES {
        let sync = number % 7 == seed % 7;
        write(&engine, number, sync);
        if sync || !only_durable {
            disk.mark(number);
        }
        if number % 25 == 0 {
            engine.compact(true).unwrap();
        }
    }
    drop(engine);
    (disk, begin)
}

/// Looks at what a loss leaves at every point, and that it can be written to.
fn look(kind: Kind, seed: u64, only_durable: bool, image: impl Fn(&SimSystem, usize) -> SimSystem) {
    let (disk, begin) = run(kind, seed, only_durable);
    let mut reached = std::collections::BTreeSet::new();
    for point in begin..=disk.recorded() {
        let left = image(&disk, point);
        let least = disk.last_mark(point).unwrap_or(0);
        let engine = open(kind, &left);
        let found = last(&engine);
        assert!(found >= least, "{kind:?}, seed {seed}, point {point}: {found} of {least}");
        write(&engine, found + 1, true);
        assert_eq!(last(&engine), found + 1);
        reached.insert(found);
    }
    assert!(reached.len() > 5, "{kind:?}, seed {seed}: losses leave only {reached:?}");
    assert!(reached.contains(&BATCHES));
}

fn seeds() -> std::ops::RangeInclusive<u64> {
    let seeds = std::env::var("LEVELDB_CUT_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    1..=seeds.unwrap_or(2)
}

#[test]
fn a_power_cut_leaves_the_first_batches_and_every_durable_one() {
    for seed in seeds() {
        for kind in [Kind::Tree, Kind::Lsm] {
            look(kind, seed, true, |disk, point| {
                let mode = CrashMode::ALL[point % CrashMode::ALL.len()];
                disk.image_at(point, mode, seed ^ point as u64)
            });
        }
    }
}

#[test]
fn a_killed_process_leaves_every_batch_whose_write_has_returned() {
    for seed in seeds() {
        for kind in [Kind::Tree, Kind::Lsm] {
            look(kind, seed, false, SimSystem::killed_at);
        }
    }
}

/// What was written without a flush is flushed by and by, with no other call.
#[test]
fn a_power_cut_takes_only_what_was_written_lately() {
    let is_there_after_a_cut = |kind, disk: &SimSystem| {
        let left = disk.image_at(disk.recorded(), CrashMode::LoseAll, 1);
        last(&open(kind, &left)) == 1
    };
    let both = [Kind::Tree, Kind::Lsm].map(|kind| {
        let disk = SimSystem::new(1, Config::default());
        disk.record(true);
        let engine = make(kind, &disk);
        write(&engine, 1, false);
        assert!(!is_there_after_a_cut(kind, &disk), "{kind:?} flushes what need not be");
        (kind, disk, engine)
    });
    let begin = Instant::now();
    for (kind, disk, _engine) in &both {
        while !is_there_after_a_cut(*kind, disk) {
            assert!(begin.elapsed() < 10 * flusher::DELAY, "{kind:?} flushes nothing");
            std::thread::sleep(flusher::DELAY / 50);
        }
    }
}
