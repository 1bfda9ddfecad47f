//! Pinned commits stay as they were, whatever is written, moved, closed or cut off, and their
//! space comes back when they are let go.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::os::sim::{Config, CrashMode, SimSystem};
use crate::tree::check::tests::mix;
use crate::tree::{Change, CopyOptions, Diff, Snapshot, TableOptions};

type Content = Vec<(Vec<u8>, Vec<u8>)>;

fn scan(txn: &ReadTxn) -> Content {
    let Ok(table) = txn.table("t") else { return Content::new() };
    let entries = txn.range(table, ..).unwrap();
    entries.map(|e| e.map(|e| (e.key.to_vec(), e.value.to_vec())).unwrap()).collect()
}

fn expect_sound(store: &Store, what: &str) {
    let report = store.check(&mut |_, _| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new(), "{what}");
}

/// Changes about `count` entries, some of which are long.
fn write(store: &Store, r: u64, count: u64, durability: Durability) {
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new()).unwrap();
    for n in 0..count {
        let r = mix(r.wrapping_add(n));
        let key = format!("key {:04}", r % 2000).into_bytes();
        match (r >> 32) % 8 {
            0 => {
                txn.delete(table, &key).unwrap();
            }
            1 => txn.put(table, &key, &vec![r as u8; (r >> 40) as usize % 9000]).unwrap(),
            _ => txn.put(table, &key, &vec![r as u8; (r >> 40) as usize % 100]).unwrap(),
        }
    }
    txn.commit_with(durability).unwrap();
}

fn durability(r: u64) -> Durability {
    [Durability::Durable, Durability::Eventual, Durability::None][r as usize % 3]
}

/// What is pinned, by name.
type Model = BTreeMap<String, (u64, Content)>;

/// Compares the pins with the model.
fn compare(store: &Store, model: &Model, what: &str) {
    let pins = store.pins().unwrap();
    let names: Vec<_> = pins.iter().map(|pin| String::from_utf8_lossy(&pin.name)).collect();
    assert!(names.iter().eq(model.keys()), "{what}: {names:?}");
    for (pin, (commit, content)) in pins.iter().zip(model.values()) {
        assert_eq!(pin.commit, *commit, "{what}");
        let txn = store.read_pin(&pin.name).unwrap().unwrap();
        assert_eq!(txn.id(), *commit, "{what}");
        assert!(scan(&txn) == *content, "{what}: {:?}", pin.name);
    }
    assert!(store.read_pin("no such pin").unwrap().is_none());
}

/// One random step.
fn step(store: &Store, model: &mut Model, held: &mut Vec<(ReadTxn, Content)>, r: u64) {
    match r % 14 {
        0 | 1 if model.len() < 6 => {
            let name = format!("pin {:03}", (r >> 8) % 1000);
            let content = scan(&store.begin_read().unwrap());
            match store.pin(&name) {
                Ok(commit) => assert!(model.insert(name, (commit, content)).is_none()),
                Err(error) => {
                    assert!(matches!(error, Error::Argument { .. }) && model.contains_key(&name));
                }
            }
        }
        2 if !model.is_empty() => {
            let at = (r >> 8) as usize % model.len();
            let name = model.keys().nth(at).unwrap().clone();
            assert!(store.drop_pin(&name).unwrap());
            assert!(!store.drop_pin(&name).unwrap());
            model.remove(&name);
        }
        12 => {
            let txn = store.begin_read().unwrap();
            let content = scan(&txn);
            held.push((txn, content));
            if held.len() > 3 {
                held.swap_remove((r >> 8) as usize % held.len());
            }
        }
        13 if !held.is_empty() && (model.len() < 6 || (r >> 20).is_multiple_of(2)) => {
            // A commit that is not the newest one any more, under a new name or one that is there.
            let (txn, content) = &held[(r >> 8) as usize % held.len()];
            let name = match model.keys().nth((r >> 30) as usize % 6) {
                Some(name) => name.clone(),
                None => format!("held {:03}", (r >> 40) % 1000),
            };
            store.change_pins(&[(name.as_bytes(), Some(txn))]).unwrap();
            model.insert(name, (txn.id(), content.clone()));
        }
        3 if (r >> 8).is_multiple_of(5) => {
            store.compact(&mut |_, _| {}).unwrap();
        }
        _ => write(store, r, [1, 5, 60][(r >> 8) as usize % 3], durability(r >> 16)),
    }
}

#[test]
fn pinned_commits_stay_as_they_were() {
    for seed in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let builder = || Store::builder().page_size(4096).map(seed != 2);
        let mut store = builder().create(&path).unwrap();
        let (mut model, mut held) = (Model::new(), Vec::new());
        for round in 0..300 {
            let r = mix(seed << 32 | round);
            let what = format!("seed {seed}, round {round}");
            if (r >> 24).is_multiple_of(20) {
                held.clear();
                drop(store);
                store = builder().open(&path).unwrap();
            }
            step(&store, &mut model, &mut held, r);
            if round % 5 == 0 {
                compare(&store, &model, &what);
                expect_sound(&store, &what);
            }
        }
    }
}

#[test]
fn compaction_moves_the_tree_of_pins() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::builder().page_size(4096).create(folder.path().join("store")).unwrap();
    store.pin("empty").unwrap();
    for r in 0..20 {
        write(&store, r, 500, Durability::Durable);
        store.pin("full").unwrap();
        store.drop_pin("full").unwrap();
    }
    let mut txn = store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    txn.clear_table(table).unwrap();
    txn.commit().unwrap();
    let pages = compacted(&store) / 4096;
    // A step of compaction needs up to 64 pages for itself.
    assert!(pages < 80, "{pages} pages for a tree of pins");
    expect_sound(&store, "compacted");
    assert_eq!(scan(&store.read_pin("empty").unwrap().unwrap()), []);
}

/// The bytes of the file after everything that is free was given back.
fn compacted(store: &Store) -> u64 {
    store.compact(&mut |_, _| {}).unwrap().after
}

#[test]
fn space_comes_back_when_a_pin_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::builder().page_size(4096).create(folder.path().join("store")).unwrap();
    (0..4).for_each(|r| write(&store, r, 2000, Durability::None));
    let before = compacted(&store);
    let old = scan(&store.begin_read().unwrap());
    store.pin("old").unwrap();
    assert_eq!(store.pins().unwrap()[0].held_pages, 0);
    // All of it is written anew, over and over.
    for r in 0..30 {
        let mut txn = store.begin_write().unwrap();
        txn.drop_table("t").unwrap();
        txn.commit_with(Durability::None).unwrap();
        write(&store, r, 6000, Durability::None);
    }
    store.sync().unwrap();
    let pins = store.pins().unwrap();
    // The pin holds its own pages, and none of those that came and went since.
    let bytes = pins[0].held_pages * 4096;
    assert!(bytes > before / 2 && bytes <= before, "{bytes} bytes held of {before}");
    let with_pin = compacted(&store);
    assert!(with_pin > before + before / 2 && with_pin < 3 * before, "{with_pin}, {before}");
    assert!(scan(&store.read_pin("old").unwrap().unwrap()) == old);
    expect_sound(&store, "with a pin");

    store.drop_pin("old").unwrap();
    let without = compacted(&store);
    let stat = store.stat().unwrap();
    let used = (stat.table_pages.pages() + stat.own_pages) * 4096;
    assert!(without < used + used / 10, "{without} bytes, {used} in use, {with_pin} before");
    assert_eq!(stat.pinned_pages, 0);
    expect_sound(&store, "without a pin");
}

#[test]
fn a_snapshot_of_a_pin_outlives_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::builder().page_size(4096).create(folder.path().join("store")).unwrap();
    write(&store, 1, 2000, Durability::None);
    store.pin("p").unwrap();
    let old = store.read_pin("p").unwrap().unwrap();
    let content = scan(&old);
    store.drop_pin("p").unwrap();
    (2..20).for_each(|r| write(&store, r, 1000, Durability::None));
    assert!(scan(&old) == content);
    // Its differences to the newest commit lead there.
    let new = store.begin_read().unwrap();
    let mut map: BTreeMap<_, _> = content.into_iter().collect();
    for change in Diff::new(&old, &new, "t").unwrap() {
        match change.unwrap() {
            Change::Added { key, value } => {
                assert!(map.insert(key.to_vec(), value.to_vec()).is_none())
            }
            Change::Removed { key, value } => {
                assert_eq!(map.remove(&key.to_vec()).unwrap(), value.to_vec())
            }
            Change::Changed { key, old, new } => {
                assert_eq!(map.insert(key.to_vec(), new.to_vec()).unwrap(), old.to_vec());
            }
        }
    }
    assert!(map.into_iter().eq(scan(&new)));
}

#[test]
fn names_and_numbers_of_pins_have_limits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::builder().page_size(4096).create(&path).unwrap();
    assert!(matches!(store.pin(""), Err(Error::Argument { .. })));
    assert!(matches!(store.pin([b'n'; NAME_MAX + 1]), Err(Error::Argument { .. })));
    let name = |i: u64| format!("{i:0>128}");
    for i in 0..PINS_MAX {
        write(&store, i, 20, Durability::None);
        store.pin(name(i)).unwrap();
    }
    assert!(matches!(store.pin("one more"), Err(Error::Argument { .. })));
    expect_sound(&store, "with all pins");
    // Copies have no pins, and nothing of theirs.
    for compact in [false, true] {
        let copy = folder.path().join(format!("copy {compact}"));
        store.copy_to(&copy, CopyOptions { compact }, &mut |_, _| {}).unwrap();
        let copy = Store::open(&copy).unwrap();
        assert_eq!(copy.pins().unwrap(), []);
        expect_sound(&copy, "the copy");
        assert!(scan(&copy.begin_read().unwrap()) == scan(&store.begin_read().unwrap()));
    }
    drop(store);
    let reader = Store::builder().read_only(true).open(&path).unwrap();
    assert_eq!(reader.pins().unwrap().len() as u64, PINS_MAX);
    assert!(reader.read_pin(name(7)).unwrap().is_some());
    assert!(matches!(reader.drop_pin(name(7)), Err(Error::ReadOnly)));
}

const PATH: &str = "/disk/store";

fn open(disk: &SimSystem) -> Store {
    Store::builder().page_size(4096).system(Arc::new(disk.clone())).open(PATH).unwrap()
}

fn create(disk: &SimSystem) -> Store {
    let builder = Store::builder().page_size(4096).system(Arc::new(disk.clone()));
    builder.create(Path::new(PATH)).unwrap()
}

#[test]
fn pins_hold_in_all_processes() {
    let disk = SimSystem::new(1, Config::default());
    let stores = [create(&disk), open(&disk)];
    let (mut model, mut held) = (Model::new(), [Vec::new(), Vec::new()]);
    for round in 0..300 {
        let r = mix(round);
        let side = (r >> 40) as usize % 2;
        step(&stores[side], &mut model, &mut held[side], r);
        if round % 10 == 0 {
            compare(&stores[(r >> 41) as usize % 2], &model, &format!("round {round}"));
            expect_sound(&stores[0], &format!("round {round}"));
        }
    }
}

/// After a power cut at any time each pin that is there is whole, and those are there whose making
/// has returned, unless their dropping has begun.
#[test]
fn pins_outlive_power_cuts() {
    for seed in 0..3 {
        let disk = SimSystem::new(seed, Config::default());
        disk.record(true);
        let store = create(&disk);
        // The pins that there must be, and those that there may be, after each step.
        let mut known: BTreeMap<String, Content> = BTreeMap::new();
        let mut there: Vec<Vec<String>> = vec![Vec::new()];
        let mut held = (store.begin_read().unwrap(), Content::new());
        for n in 0..30_u64 {
            let r = mix(seed << 32 | n);
            disk.mark(there.len() as u64 - 1);
            let mut names = there.last().unwrap().clone();
            if n % 4 == 2 {
                let name = format!("{n:02}");
                if n % 3 == 0 {
                    store.change_pins(&[(name.as_bytes(), Some(&held.0))]).unwrap();
                    known.insert(name.clone(), held.1);
                } else {
                    known.insert(name.clone(), scan(&store.begin_read().unwrap()));
                    store.pin(&name).unwrap();
                }
                let newest = store.begin_read().unwrap();
                let content = scan(&newest);
                held = (newest, content);
                names.push(name);
            } else if n % 7 == 5 && !names.is_empty() {
                store.drop_pin(names.remove(r as usize % names.len())).unwrap();
            } else {
                write(&store, r, 12, durability(r));
            }
            there.push(names);
        }
        disk.mark(there.len() as u64 - 1);
        let first = (0..=disk.recorded()).find(|cut| disk.last_mark(*cut).is_some()).unwrap();
        for cut in (first..=disk.recorded()).step_by(2) {
            let r = mix(seed << 32 | cut as u64);
            let image = disk.image_at(cut, CrashMode::ALL[(r % 5) as usize], r);
            let store = open(&image);
            let what = format!("seed {seed}, cut {cut}, {r}");
            let step = disk.last_mark(cut).unwrap() as usize;
            let (before, after) = (&there[step], there.get(step + 1).unwrap_or(&there[step]));
            let look = |what: &str| {
                let pins = store.pins().unwrap();
                let names: Vec<_> =
                    pins.iter().map(|pin| String::from_utf8(pin.name.clone()).unwrap()).collect();
                assert!(names == *before || names == *after, "{what}: {names:?}");
                for name in names {
                    let txn = store.read_pin(&name).unwrap().unwrap();
                    assert!(scan(&txn) == known[&name], "{what}: {name}");
                }
                expect_sound(&store, what);
            };
            look(&what);
            (0..3).for_each(|n| write(&store, mix(r + n), 12, Durability::Durable));
            look(&format!("{what}, later"));
        }
    }
}
