//! Walks through a store of several sources are those through a map, also by cursors that go on
//! with what others left.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::*;
use crate::lsm::read::readable::sealed::Sealed as _;
use crate::lsm::{Db, Keyspace, KeyspaceOptions, Options, Readable};
use crate::os::sim::{Config, SimSystem};
use crate::random::Random;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// Writes to both. Most keys are overwritten, some are deleted, alone or in ranges.
fn write(db: &Db, keys: &Keyspace, model: &mut Model, random: &mut Random, count: u64) {
    for _ in 0..count {
        // Some have very many versions.
        let hot = random.below(5) == 0;
        let at = key(if hot { 1_000 + random.below(3) } else { random.below(3_000) });
        if random.below(8) == 0 {
            db.delete(keys, &at).unwrap();
            model.remove(&at);
        } else {
            let value = vec![random.below(256) as u8; 10 + random.below(60) as usize];
            db.put(keys, &at, &value).unwrap();
            model.insert(at, value);
        }
    }
}

fn delete_range(db: &Db, keys: &Keyspace, model: &mut Model, (from, to): (u64, u64)) {
    let (from, to) = (key(from), key(to));
    db.delete_range(keys, &from[..]..&to[..]).unwrap();
    model.retain(|at, _| *at < from || *at >= to);
}

/// A cursor and a model take the same steps, most of them in one direction for a while.
fn walk(cursor: &mut Cursor, model: &Model, random: &mut Random, steps: u64) {
    let mut at: Option<Vec<u8>> = None;
    let mut forward = true;
    for _ in 0..steps {
        if random.below(150) == 0 {
            forward = !forward;
        }
        let to = if random.below(300) == 0 {
            let sought = key(random.below(3_000));
            let found = model.range(sought.clone()..).next();
            at = found.map(|(key, _)| key.clone());
            let entry = cursor.seek_at_or_after(&sought).unwrap();
            assert_eq!(entry.map(|entry| entry.key), found.map(|(key, _)| &key[..]));
            continue;
        } else if forward {
            let from = at.as_ref().map_or(Bound::Unbounded, |at| Bound::Excluded(at.clone()));
            model.range((from, Bound::Unbounded)).next()
        } else {
            let to = at.as_ref().map_or(Bound::Unbounded, |at| Bound::Excluded(at.clone()));
            model.range((Bound::Unbounded, to)).next_back()
        };
        let entry = if forward { cursor.next() } else { cursor.prev() };
        let entry = entry.unwrap().map(|entry| (entry.key.to_vec(), entry.value().unwrap()));
        assert_eq!(entry, to.map(|(key, value)| (key.clone(), value.clone())));
        match entry {
            Some((key, _)) => at = Some(key),
            None => forward = !forward,
        }
    }
}

#[test]
fn walks_are_those_of_a_map() {
    let folder = tempfile::tempdir().unwrap();
    let db = Options::new().create(true).open(folder.path().join("db")).unwrap();
    let keys = db.keyspace("b", KeyspaceOptions::default()).unwrap();
    // Neighbours of the keyspace are not seen.
    for other in ["a", "c"] {
        let other = db.keyspace(other, KeyspaceOptions::default()).unwrap();
        db.put(&other, b"", b"").unwrap();
        db.put(&other, b"key", b"").unwrap();
    }
    let (mut model, mut random) = (Model::new(), Random(7));
    let steps = if cfg!(miri) { 100 } else { 4_000 };
    let mut held = Vec::new();
    for round in 0..6 {
        write(&db, &keys, &mut model, &mut random, if cfg!(miri) { 50 } else { 2_500 });
        held.push((db.snapshot(), model.clone()));
        match round {
            1 => delete_range(&db, &keys, &mut model, (700, 740)),
            2 => delete_range(&db, &keys, &mut model, (1_500, 2_100)),
            4 => delete_range(&db, &keys, &mut model, (900, 1_700)),
            3 => db.compact().unwrap(),
            5 => {}
            _ => db.flush().unwrap(),
        }
        for _ in 0..2 {
            walk(&mut db.cursor(&keys).unwrap(), &model, &mut random, steps);
            for (snapshot, model) in &held {
                let (mut one, mut other) =
                    (snapshot.cursor(&keys).unwrap(), snapshot.cursor(&keys).unwrap());
                walk(&mut one, model, &mut random, steps / 4);
                walk(&mut other, model, &mut random, steps / 4);
            }
        }
    }
}

/// A cursor that goes on with what another one left sees what was written in between.
#[test]
fn what_is_left_hides_nothing_new() {
    let folder = tempfile::tempdir().unwrap();
    let db = Options::new().create(true).open(folder.path().join("db")).unwrap();
    let keys = db.keyspace("keys", KeyspaceOptions::default()).unwrap();
    db.put(&keys, b"1", b"").unwrap();
    db.put(&keys, b"2", b"").unwrap();
    let first = |db: &Db| {
        let mut cursor = db.cursor(&keys).unwrap();
        cursor.next().unwrap().map(|entry| entry.key.to_vec())
    };
    assert_eq!(first(&db).as_deref(), Some(&b"1"[..]));
    assert!(db.view_of(&keys).unwrap().current.spare.take::<Parts>().is_some());
    assert_eq!(first(&db).as_deref(), Some(&b"1"[..]));
    db.put(&keys, b"0", b"").unwrap();
    assert_eq!(first(&db).as_deref(), Some(&b"0"[..]));
    db.delete_range(&keys, ..b"2").unwrap();
    assert_eq!(first(&db).as_deref(), Some(&b"2"[..]));
    db.flush().unwrap();
    assert_eq!(first(&db).as_deref(), Some(&b"2"[..]));
}

/// Where there is room for it, what a scan has read is there for the next one.
#[test]
fn a_scan_leaves_what_it_read_to_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let name = ("keys", KeyspaceOptions::default());
    let db = Options::new().create(true).open(&path).unwrap();
    let keys = db.keyspace(name.0, name.1).unwrap();
    let (mut model, mut random) = (Model::new(), Random(5));
    write(&db, &keys, &mut model, &mut random, 20_000);
    db.compact().unwrap();
    drop((keys, db));

    let db = Options::new().open(&path).unwrap();
    let keys = db.keyspace(name.0, name.1).unwrap();
    let reads = |db: &Db| {
        let reads = db.stat().reads;
        reads.ahead + reads.blocks
    };
    let mut after = Vec::new();
    for forward in [true, true, false] {
        let mut cursor = db.cursor(&keys).unwrap();
        let mut step = || {
            let entry = if forward { cursor.next() } else { cursor.prev() };
            entry.unwrap().is_some()
        };
        let count = std::iter::from_fn(|| step().then_some(())).count();
        assert_eq!(count, model.len());
        after.push(reads(&db));
    }
    assert!(after[0] > 0 && after.iter().all(|reads| *reads == after[0]), "{after:?}");
}

/// Where the system's cache may hold files, none is read past it.
#[test]
fn the_systems_cache_is_not_passed_by_where_it_may_hold_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let options = || Options::new().create(true).system_cache(true);
    let open = || {
        let db = options().open(&path).unwrap();
        let keys = db.keyspace("keys", KeyspaceOptions::default()).unwrap();
        (db, keys)
    };
    let (mut model, mut random) = (Model::new(), Random(7));
    let (db, keys) = open();
    write(&db, &keys, &mut model, &mut random, 20_000);
    db.compact().unwrap();
    drop((keys, db));
    let (db, keys) = open();
    walk(&mut db.cursor(&keys).unwrap(), &model, &mut random, 3_000);
    for (key, value) in &model {
        assert_eq!(db.get(&keys, key).unwrap().as_ref(), Some(value));
    }
    let reads = db.stat().reads;
    assert!(reads.blocks + reads.ahead > 0 && !reads.is_direct);
}

/// Hunts for steps that take ever longer: the first keys of a queue, or the last ones of a stack,
/// stand behind all that were taken from it.
#[test]
fn many_deleted_keys_that_are_passed_in_memory_go_to_a_table() {
    // Without threads in the background, so that the work is done when a call returns.
    let system = Arc::new(SimSystem::new(1, Config::default()));
    let open = |path: &str| {
        let db = Options::new().create(true).system(system.clone()).open(path).unwrap();
        let keys = db.keyspace("keys", KeyspaceOptions::default()).unwrap();
        (db, keys)
    };
    let entries = |db: &Db| db.stat().levels.iter().map(|level| level.entries).sum::<u64>();
    for backward in [false, true] {
        let (db, keys) = open(if backward { "/stack" } else { "/queue" });
        let put = |from: u64, to: u64| {
            (from..to).for_each(|number| db.put(&keys, &key(number), &[7; 100]).unwrap());
        };
        let take = |from: u64, to: u64| {
            (from..to).for_each(|number| db.delete(&keys, &key(number)).unwrap());
        };
        let look = || {
            let mut cursor = db.cursor(&keys).unwrap();
            let found = if backward { cursor.last() } else { cursor.first() }.unwrap();
            found.map(|entry| entry.key.to_vec())
        };
        let many = u64::from(PASSED_MAX);
        put(0, many);
        take(0, many - 1);
        assert_eq!(look(), Some(key(many - 1)));
        // So much that it was looked whether there is room.
        put(many, 2 * many);
        assert_eq!(entries(&db), 0, "so few stay in memory");
        take(many - 1, 2 * many);
        assert_eq!(look(), None);
        put(2 * many, 4 * many);
        let stat = db.stat();
        assert!(stat.memory.entries < 4 * many * 100, "{stat:?}");
        // The deletions, and what was put before it was looked.
        assert!(entries(&db) < 3 * many, "what was deleted stands in tables: {stat:?}");
        assert_eq!(db.range(&keys, ..).unwrap().count() as u64, 2 * many);
        assert!(db.check().unwrap().is_sound());
    }
}

/// The same of keys that a deleted range hides.
#[test]
fn many_keys_that_a_deleted_range_hides_in_memory_go_to_a_table() {
    let system = Arc::new(SimSystem::new(1, Config::default()));
    for backward in [false, true] {
        let path = if backward { "/back" } else { "/front" };
        let db = Options::new().create(true).system(system.clone()).open(path).unwrap();
        let keys = db.keyspace("keys", KeyspaceOptions::default()).unwrap();
        let put = |from: u64, to: u64| {
            (from..to).for_each(|number| db.put(&keys, &key(number), &[7; 100]).unwrap());
        };
        let look = |count: u64| {
            let mut range = db.range(&keys, ..).unwrap().keys_only();
            let found = if backward { range.next_back() } else { range.next() };
            assert_eq!(found.is_some(), count > 0);
        };
        let many = u64::from(PASSED_MAX);
        for (count, goes) in [(many / 2, false), (2 * many, true)] {
            put(0, count);
            db.delete_range(&keys, ..).unwrap();
            look(0);
            // So much that it was looked whether there is room.
            put(count, count + many);
            look(many);
            assert_eq!(db.stat().levels[0].tables > 0, goes);
            db.delete_range(&keys, ..).unwrap();
        }
    }
}

/// A store of 20,000 keys of which a pin keeps what was deleted; the blocks that `look` reads.
fn blocks_read_of(delete: impl FnOnce(&Db, &Keyspace), look: impl FnOnce(&Db, &Keyspace)) -> u64 {
    let system = Arc::new(SimSystem::new(1, Config::default()));
    let open = || {
        let db = Options::new().create(true).system(system.clone()).open("/db").unwrap();
        let keys = db.keyspace("keys", KeyspaceOptions::default()).unwrap();
        (db, keys)
    };
    let (db, keys) = open();
    (0..20_000).for_each(|number| db.put(&keys, &key(number), &[7; 100]).unwrap());
    db.compact().unwrap();
    db.pin("before").unwrap();
    delete(&db, &keys);
    db.compact().unwrap();
    drop((keys, db));
    let (db, keys) = open();
    look(&db, &keys);
    let reads = db.stat().reads;
    reads.blocks + reads.ahead
}

/// Hunts for reads of a few keys that grow with all that was deleted behind them.
#[test]
fn what_was_deleted_outside_of_a_range_is_not_read() {
    let delete = |db: &Db, keys: &Keyspace| {
        (0..20_000).for_each(|number| db.delete(keys, &key(number)).unwrap());
    };
    let all = blocks_read_of(delete, |db, keys| {
        assert!(db.range(keys, ..).unwrap().next().is_none());
    });
    let front = blocks_read_of(delete, |db, keys| {
        assert!(db.range(keys, ..key(10).as_slice()).unwrap().next().is_none());
    });
    let back = blocks_read_of(delete, |db, keys| {
        assert!(db.range(keys, key(19_990).as_slice()..).unwrap().next_back().is_none());
    });
    assert!(all > 4 && front <= 2 && back <= 2, "{all} {front} {back}");
}

/// Hunts for steps that go through all that one deleted range hides.
#[test]
fn what_a_deleted_range_hides_is_not_read() {
    let last = key(20_000);
    let delete = |db: &Db, keys: &Keyspace| {
        db.put(keys, b"a", b"").unwrap();
        db.put(keys, &last, b"").unwrap();
        db.delete_range(keys, key(0).as_slice()..last.as_slice()).unwrap();
    };
    let forward = blocks_read_of(delete, |db, keys| {
        let range = db.range(keys, ..).unwrap().keys_only();
        assert_eq!(range.map(|entry| entry.unwrap().0).collect::<Vec<_>>(), [b"a", &last[..]]);
    });
    let back = blocks_read_of(delete, |db, keys| {
        let range = db.range(keys, ..).unwrap().keys_only().rev();
        assert_eq!(range.map(|entry| entry.unwrap().0).collect::<Vec<_>>(), [&last[..], b"a"]);
    });
    assert!(forward <= 4 && back <= 4, "{forward} {back}");
}
