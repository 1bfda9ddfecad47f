//! A pinned commit stays readable whatever happens to the store, and costs nothing once it is
//! dropped.

use std::sync::Arc;

use super::super::{Keyspace, Options, Readable};
use super::*;
use crate::os::sim::{self, CrashMode, Fault, Kept, Operation, SimSystem};

fn open(disk: &SimSystem) -> (Db, Keyspace) {
    let options = Options::new().create(true).memtable_bytes(1 << 12).segment_bytes(1 << 12);
    let db = options.system(Arc::new(disk.clone())).open("/d/db").unwrap();
    let options = super::super::KeyspaceOptions { separation_threshold: 32, ..Default::default() };
    let space = db.keyspace("space", options).unwrap();
    (db, space)
}

fn disk(seed: u64) -> SimSystem {
    SimSystem::new(seed, sim::Config { reserve: 1 << 20, ..sim::Config::default() })
}

/// Writes all keys with values of this round.
fn fill(db: &Db, space: &Keyspace, round: u8) {
    for key in 0..40_u8 {
        match key % 5 == round % 5 {
            true => db.delete(space, &[key]).unwrap(),
            false => db.put(space, &[key], &[round; 48][..usize::from(key) + 8]).unwrap(),
        }
    }
}

fn content(db: &impl Readable, space: &Keyspace) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.range(space, ..).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_pinned_commit_stays() {
    let disk = disk(1);
    let (mut db, mut space) = open(&disk);
    let mut kept = Vec::new();
    for round in 0..30_u8 {
        fill(&db, &space, round);
        if round % 10 == 3 {
            let name = vec![b'p', round];
            assert_eq!(db.pin(&name).unwrap(), db.newest_commit());
            kept.push((name, content(&db, &space)));
        }
        match round % 7 {
            1 => db.compact().unwrap(),
            2 => db.delete_range(&space, ..).unwrap(),
            4 => {
                db.close().unwrap();
                (db, space) = open(&disk);
            }
            _ => {}
        }
        for (name, expected) in &kept {
            let pinned = db.read_pin(name).unwrap();
            assert_eq!(&content(&pinned, &space), expected, "round {round}");
        }
    }
    db.compact().unwrap();
    let held = db.stat();
    assert_eq!((held.pins.len(), held.snapshots), (3, 0));
    assert!(held.kept_entries > 0);
    for (name, _) in &kept {
        assert!(db.drop_pin(name).unwrap());
        assert!(!db.drop_pin(name).unwrap() && db.read_pin(name).is_none());
    }
    db.compact().unwrap();
    let free = db.stat();
    assert_eq!((free.pins.len(), free.kept_entries), (0, 0));
    assert!(free.bytes() < held.bytes() / 2, "{} after {}", free.bytes(), held.bytes());
    assert!(db.check().unwrap().is_sound());
}

#[test]
fn no_power_cut_takes_back_what_is_pinned() {
    let disk = disk(2);
    disk.record(true);
    let (db, space) = open(&disk);
    let mut kept: Vec<Vec<(Vec<u8>, Vec<u8>)>> = Vec::new();
    for round in 0..8_u8 {
        fill(&db, &space, round);
        db.change_pins(&[(b"p", Some(&db.snapshot()))]).unwrap();
        kept.push(content(&db, &space));
        disk.mark(u64::from(round));
        fill(&db, &space, round + 100);
    }
    drop(db);
    for cut in 0..=disk.recorded() {
        let Some(mark) = disk.last_mark(cut) else { continue };
        let mode = CrashMode::ALL[cut % CrashMode::ALL.len()];
        let (db, space) = open(&disk.image_at(cut, mode, cut as u64));
        let pinned = content(&db.read_pin("p").unwrap(), &space);
        // The next one may have got its name already.
        let expected = &kept[mark as usize..kept.len().min(mark as usize + 2)];
        assert!(expected.contains(&pinned), "cut {cut}");
    }
}

#[test]
fn copies_have_no_pins_and_other_builds_are_told() {
    let disk = disk(3);
    let (db, space) = open(&disk);
    fill(&db, &space, 0);
    let feature = || disk.content(std::path::Path::new("/d/db/MANIFEST")).unwrap()[24];
    assert_eq!(feature(), 0);
    db.pin("p").unwrap();
    assert_eq!(feature(), 1);
    db.checkpoint("/d/copy").unwrap();
    db.backup("/d/backup", &mut |_, _| {}).unwrap();
    for path in ["/d/copy", "/d/backup"] {
        let copy = Options::new().system(Arc::new(disk.clone())).open(path).unwrap();
        assert_eq!(copy.pins(), []);
    }
    db.drop_pin("p").unwrap();
    assert_eq!(feature(), 0);
}

#[test]
fn what_cannot_be_pinned_is_refused() {
    let (one, two) = (disk(4), disk(5));
    let ((db, space), (other, _)) = (open(&one), open(&two));
    for name in [&b""[..], &[b'x'; 129]] {
        assert!(matches!(db.pin(name), Err(Error::Argument { .. })));
    }
    let foreign = other.snapshot();
    let refused = db.change_pins(&[(b"ok", Some(&db.snapshot())), (b"f", Some(&foreign))]);
    assert!(matches!(refused, Err(Error::Argument { .. })));
    assert_eq!(db.pins(), []);
    for n in 0..64_u8 {
        db.pin([n]).unwrap();
    }
    assert!(matches!(db.pin("more"), Err(Error::Argument { .. })));
    assert!(matches!(db.pin([1]), Err(Error::Argument { .. })));
    assert_eq!(db.pins().len(), 64);
    fill(&db, &space, 9);
}

#[test]
fn a_name_that_could_not_be_written_leaves_the_store_usable() {
    let disk = disk(6);
    let (db, space) = open(&disk);
    fill(&db, &space, 0);
    db.sync().unwrap();
    let before = content(&db, &space);
    disk.fail(Operation::Write, 1, 1, Fault::io(Kept::All));
    assert!(db.pin("p").is_err());
    fill(&db, &space, 1);
    assert_eq!(db.pins(), []);
    db.pin("p").unwrap();
    fill(&db, &space, 2);
    db.compact().unwrap();
    drop(db);
    let (db, space) = open(&disk);
    assert_ne!(content(&db.read_pin("p").unwrap(), &space), before);
    assert_eq!(db.pins().len(), 1);
}

/// A pin goes on to see a keyspace that was dropped, so another one must not get its number, also
/// after the store was opened again: the handles of the two would be the same.
#[test]
fn a_keyspace_that_only_a_pin_sees_keeps_its_number() {
    let disk = disk(5);
    let (db, space) = open(&disk);
    db.put(&space, b"key", b"old").unwrap();
    db.pin("before").unwrap();
    assert!(db.drop_keyspace("space").unwrap());
    db.close().unwrap();
    let options = Options::new().system(Arc::new(disk.clone()));
    let db = options.open("/d/db").unwrap();
    let other = db.keyspace("other", Default::default()).unwrap();
    db.put(&other, b"key", b"new").unwrap();
    let pinned = db.read_pin("before").unwrap();
    let space = pinned.find_keyspace("space").unwrap().unwrap();
    assert_ne!(space.id(), other.id());
    assert_eq!(pinned.get(&space, b"key").unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(db.get(&space, b"key").unwrap(), None);
    assert!(db.put(&space, b"key", b"lost").is_err());
    assert_eq!(pinned.get(&other, b"key").unwrap(), None);
    assert_eq!(db.get(&other, b"key").unwrap().as_deref(), Some(&b"new"[..]));
}

/// Numbers are given without a look at all names: that would be the same work again for each one.
#[test]
fn another_keyspace_costs_the_same_however_many_there_are() {
    let disk = disk(6);
    let options = Options::new().create(true).durability(Durability::None);
    let db = options.system(Arc::new(disk)).open("/d/db").unwrap();
    // Long names, so that they stand in many blocks.
    let name = |number: u32| number.to_be_bytes().repeat(50);
    let make = |number: u32| db.keyspace(name(number), Default::default()).unwrap();
    (0..4000).for_each(|number| drop(make(number)));
    db.flush().unwrap();
    let cost = |number: u32| {
        let looked = || {
            let reads = db.stat().reads;
            reads.cache_hits + reads.cache_misses + reads.blocks + reads.ahead
        };
        let before = looked();
        assert_eq!(make(number).id(), make(number - 1).id() + 1);
        looked() - before
    };
    assert!(cost(4000) < 10);
    db.inner.catalog.lock().highest = None;
    assert!(cost(4001) > 20, "a look at all names is seen here");
    assert!(cost(4002) < 10);
}
