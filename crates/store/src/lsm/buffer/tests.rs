//! Range tombstones of a buffer: readers at every moment see what a list says, and neither memory
//! nor time grows with the square of their number.

use std::collections::BTreeMap;

use super::*;
use crate::Durability;
use crate::lsm::{Batch, Db, Keyspace, Options, Readable};
use crate::os::sim::{Config, SimSystem};
use crate::random;

fn store() -> (Db, Keyspace) {
    let system = SimSystem::new(1, Config { reserve: 1 << 20, ..Config::default() });
    let options = Options::new().create(true).durability(Durability::None);
    let db = options.system(Arc::new(system)).open("/d/store").unwrap();
    let space = db.keyspace("space", Default::default()).unwrap();
    (db, space)
}

/// All layers, as they are now.
fn layers(db: &Db) -> Arc<Layers> {
    db.inner.current().active.pieces()
}

fn nested(n: u32) -> std::ops::Range<[u8; 4]> {
    (n * 100).to_be_bytes()..(u32::MAX - n * 100).to_be_bytes()
}

#[test]
fn snapshots_between_deleted_ranges_see_what_was_there() {
    let (db, space) = store();
    let mut random = random::numbers(3);
    let (mut there, mut moments) = (BTreeMap::new(), Vec::new());
    for round in 0..300_u32 {
        let mut batch = Batch::new();
        for _ in 0..1 + random(4) {
            let key = random(60) as u8;
            if random(3) > 0 {
                batch.put(&space, &[key], &round.to_be_bytes()).unwrap();
                there.insert(key, round);
            } else {
                let end = key + 1 + random(20) as u8;
                batch.delete_range(&space, [key]..[end]).unwrap();
                there.retain(|old, _| !(key..end).contains(old));
            }
        }
        db.write(batch).unwrap();
        if random(3) == 0 {
            moments.push((db.snapshot(), there.clone()));
        }
    }
    let check = || {
        for (snapshot, expected) in &moments {
            let read = snapshot.range(&space, ..).unwrap().map(Result::unwrap);
            let expected = expected.iter().map(|(key, n)| (vec![*key], n.to_be_bytes().to_vec()));
            assert!(read.eq(expected));
            let get = |key: u8| snapshot.get(&space, &[key]).unwrap();
            assert!((0..90).all(|key| get(key).is_some() == {
                let mut keys = snapshot.range(&space, [key]..=[key]).unwrap();
                keys.next().is_some()
            }));
        }
    };
    assert!(layers(&db).len() > 1, "there are several layers");
    check();
    db.flush().unwrap();
    check();
}

#[test]
fn ranges_of_a_batch_are_cut_once() {
    const RANGES: u32 = 20_000;
    let (db, space) = store();
    db.put(&space, &[0x80, 0, 0, 0], b"gone").unwrap();
    let mut batch = Batch::new();
    for n in 0..RANGES {
        batch.delete_range(&space, nested(n)).unwrap();
    }
    batch.put(&space, &[0x80, 0, 0, 1], b"there").unwrap();
    db.write(batch).unwrap();
    let weight: usize = layers(&db).iter().map(|pieces| pieces.weight()).sum();
    assert!(weight <= 2 * RANGES as usize, "{weight} numbers over {RANGES} ranges");
    assert_eq!(db.range(&space, ..).unwrap().count(), 1);
    db.flush().unwrap();
    assert_eq!(db.range(&space, ..).unwrap().count(), 1);
}

#[test]
fn ranges_one_by_one_are_a_few_layers() {
    let (db, space) = store();
    for n in 0..1000_u32 {
        let key = n.wrapping_mul(2_654_435_761).to_be_bytes();
        db.delete_range(&space, key..=key).unwrap();
        assert!(layers(&db).len() <= 12, "{n}: {} layers", layers(&db).len());
    }
    let (db, space) = store();
    for n in 0..1000 {
        db.delete_range(&space, nested(n)).unwrap();
        assert!(layers(&db).len() <= 40, "{n}: {} layers", layers(&db).len());
        let weight: usize = layers(&db).iter().map(|pieces| pieces.weight()).sum();
        assert!(weight <= 128 * (n as usize + 32), "{n}: {weight} numbers");
    }
}
