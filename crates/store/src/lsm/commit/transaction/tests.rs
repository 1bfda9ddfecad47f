//! Ranges of transactions are those of a map, also where most of it was deleted, and what was
//! deleted is not gone through again and again.

use std::collections::BTreeMap;

use super::*;
use crate::lsm::{KeyspaceOptions, Options};
use crate::random::Random;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// A store with this many keys.
fn filled(folder: &tempfile::TempDir, count: u64) -> (Db, Keyspace) {
    let db = Options::new().create(true).open(folder.path().join("db")).unwrap();
    let keys = db.keyspace("keys", KeyspaceOptions::default()).unwrap();
    (0..count).for_each(|number| db.put(&keys, &key(number), b"stored").unwrap());
    (db, keys)
}

/// What a range shows of the transaction, from one end.
fn shown(txn: &Transaction, keys: &Keyspace, ends: &[Vec<u8>; 2], back: bool) -> Vec<Vec<u8>> {
    let range = txn.range(keys, ends[0].as_slice()..ends[1].as_slice()).unwrap();
    let key = |entry: Result<(Vec<u8>, Vec<u8>)>| entry.unwrap().0;
    match back {
        false => range.take(3).map(key).collect(),
        true => range.rev().take(3).map(key).collect(),
    }
}

#[test]
fn ranges_are_those_of_a_map() {
    let folder = tempfile::tempdir().unwrap();
    let (db, keys) = filled(&folder, 300);
    let (mut random, mut was_bare) = (Random(9), false);
    for _ in 0..if cfg!(miri) { 1 } else { 20 } {
        let mut txn = db.transaction();
        let mut model: BTreeMap<Vec<u8>, ()> = (0..300).map(|number| (key(number), ())).collect();
        for _ in 0..400 {
            let from = random.below(300);
            let ends = [key(from), key(from + random.below(200))];
            match random.below(8) {
                0 => {
                    txn.put(&keys, &ends[0], b"own").unwrap();
                    model.insert(ends[0].clone(), ());
                }
                1 => {
                    let to = key(from + 20);
                    txn.delete_range(&keys, ends[0].as_slice()..to.as_slice()).unwrap();
                    model.retain(|at, ()| *at < ends[0] || *at >= to);
                }
                2..=5 => {
                    txn.delete(&keys, &ends[0]).unwrap();
                    model.remove(&ends[0]);
                }
                _ => {}
            }
            let inside = || model.range(ends[0].clone()..ends[1].clone()).map(|(at, ())| at);
            let first: Vec<_> = inside().take(3).cloned().collect();
            assert_eq!(shown(&txn, &keys, &ends, false), first);
            let last: Vec<_> = inside().rev().take(3).cloned().collect();
            assert_eq!(shown(&txn, &keys, &ends, true), last);
        }
        was_bare |= txn.bare.borrow().meets(&[], &[255]);
        let whole: Vec<_> = model.into_keys().collect();
        let all = txn.range(&keys, ..).unwrap().map(|entry| entry.unwrap().0);
        assert_eq!(all.collect::<Vec<_>>(), whole);
    }
    assert!(was_bare, "parts of ranges were not gone through again");
}

/// Hunts for transactions that take ever longer to take the next key of a queue.
#[test]
fn what_a_transaction_has_taken_from_a_queue_is_not_passed_again() {
    let folder = tempfile::tempdir().unwrap();
    let count = if cfg!(miri) { 100 } else { 2_000 };
    let (db, keys) = filled(&folder, count);
    for back in [false, true] {
        let mut txn = db.transaction();
        for taken in 0..count {
            let (view, all) = (txn.view(), ..);
            let way = OwnWay::new(&txn, &Part::new(view, keys.id(), &all), back).unwrap();
            let left = way.rest.count();
            assert!(left < BARE_MIN as usize, "{left} own changes are passed after {taken}");
            let mut range = txn.range(&keys, ..).unwrap();
            let next = if back { range.next_back() } else { range.next() };
            let next = next.unwrap().unwrap().0;
            assert_eq!(next, key(if back { count - 1 - taken } else { taken }));
            txn.delete(&keys, &next).unwrap();
        }
        assert!(txn.range(&keys, ..).unwrap().next().is_none());
        txn.put(&keys, &key(7), b"again").unwrap();
        assert_eq!(txn.range(&keys, ..).unwrap().next().unwrap().unwrap().0, key(7));
    }
}

/// What was not gone through again was seen all the same.
#[test]
fn a_key_among_those_that_were_taken_conflicts() {
    let folder = tempfile::tempdir().unwrap();
    let (db, keys) = filled(&folder, 100);
    let mut txn = db.transaction();
    for taken in 0..50 {
        assert_eq!(txn.range(&keys, ..).unwrap().next().unwrap().unwrap().0, key(taken));
        txn.delete(&keys, &key(taken)).unwrap();
    }
    let other = [&key(3)[..], b"between"].concat();
    db.put(&keys, &other, b"").unwrap();
    assert!(matches!(txn.commit(), Err(crate::Error::Conflict)));
}
