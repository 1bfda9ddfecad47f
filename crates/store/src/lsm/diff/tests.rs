//! A difference is what two scans differ in, however it is found and wherever the entries stand.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::super::{Batch, KeyspaceOptions, Options};
use super::*;
use crate::Durability;
use crate::os::sim::{Config, SimSystem};
use crate::random::Random;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

const NAMES: [&str; 3] = ["a", "b", "c"];

fn content(snapshot: &Snapshot, name: &str) -> Option<Content> {
    let keyspace = snapshot.find_keyspace(name).unwrap()?;
    Some(snapshot.range(&keyspace, ..).unwrap().map(Result::unwrap).collect())
}

/// What two scans differ in, in a range.
fn naive(old: &Content, new: &Content, from: &[u8], to: &[u8]) -> Vec<Change> {
    let keys: std::collections::BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
    let is_in = |key: &&&Vec<u8>| key.as_slice() >= from && key.as_slice() < to;
    let change =
        |key: &Vec<u8>| Change::between(key.clone(), old.get(key).cloned(), new.get(key).cloned());
    keys.iter().filter(is_in).filter_map(|key| change(key)).collect()
}

fn agree(db: &Db, old: &Snapshot, new: &Snapshot, place: &mut LogPlace, what: &str) -> bool {
    let touched = db.touched((old, new), place);
    let by_log = touched.is_some();
    for touched in [touched, None] {
        let all = Diff::keyspaces_with(old, new, touched.as_ref()).unwrap();
        for name in NAMES {
            let (before, after) = (content(old, name), content(new, name));
            let found = all.iter().find(|change| change.name() == name.as_bytes());
            match (&before, &after) {
                (None, None) => assert!(found.is_none(), "{what}"),
                (None, _) => assert!(matches!(found, Some(KeyspaceChange::Added(_))), "{what}"),
                (_, None) => assert!(matches!(found, Some(KeyspaceChange::Removed(_))), "{what}"),
                (a, b) if a != b => {
                    assert!(matches!(found, Some(KeyspaceChange::Changed(_))), "{what}");
                }
                _ => {}
            }
            if before.is_none() && after.is_none() {
                assert!(matches!(Diff::new(old, new, name), Err(Error::NoTable { .. })));
                continue;
            }
            let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
            let diff = || Diff::with(old, new, name.as_bytes(), touched.clone()).unwrap();
            let changes: Vec<_> = diff().map(Result::unwrap).collect();
            assert_eq!(changes, naive(&before, &after, b"", b"~"), "{what}, {name}");
            let (from, to): (&[u8], &[u8]) = (b"02", b"05");
            let part = diff().within((Bound::Included(from), Bound::Excluded(to)));
            let part: Vec<_> = part.map(Result::unwrap).collect();
            assert_eq!(part, naive(&before, &after, from, to), "{what}, {name}, a part");
        }
    }
    by_log
}

fn write(db: &Db, random: &mut Random) {
    let name = NAMES[random.below(3) as usize];
    if random.below(25) == 0 {
        db.drop_keyspace(name).unwrap();
        return;
    }
    let options = KeyspaceOptions { separation_threshold: 20, ..Default::default() };
    let keyspace = db.keyspace(name, options).unwrap();
    let mut batch = Batch::new();
    for _ in 0..1 + random.below(8) {
        let key = format!("{:02}{}", random.below(8), random.below(12));
        match random.below(12) {
            0 => {
                let to = format!("{:02}", random.below(9));
                batch.delete_range(&keyspace, key.as_bytes()..to.as_bytes()).unwrap();
            }
            1..4 => batch.delete(&keyspace, key.as_bytes()).unwrap(),
            _ => {
                let value = vec![b'a' + random.below(3) as u8; random.below(40) as usize];
                batch.put(&keyspace, key.as_bytes(), &value).unwrap();
            }
        }
    }
    let durability = [Durability::Durable, Durability::Eventual, Durability::None];
    db.write_with(batch, durability[random.below(3) as usize]).unwrap();
}

#[test]
fn a_difference_is_that_of_two_scans() {
    let mut by_log = [0; 2];
    for seed in 0..12 {
        let (mut random, mut place) = (Random(seed), LogPlace::default());
        let system = SimSystem::new(seed, Config { reserve: 1 << 20, ..Config::default() });
        let open = || {
            let options =
                Options::new().create(true).memtable_bytes(1 << 12).segment_bytes(1 << 12);
            options.table_bytes(1 << 11).system(Arc::new(system.clone())).open("/d/db").unwrap()
        };
        let (mut db, mut base) = (open(), "old");
        db.pin(base).unwrap();
        let mut old = db.read_pin(base);
        for round in 0..60 {
            (0..random.below(20)).for_each(|_| write(&db, &mut random));
            match random.below(12) {
                0 => db.flush().unwrap(),
                1 => db.compact().unwrap(),
                2 => {
                    drop(old);
                    place = LogPlace::default();
                    db.close().unwrap();
                    db = open();
                    old = db.read_pin(base);
                }
                _ => {}
            }
            let new = db.snapshot();
            let before = old.as_ref().unwrap();
            let what = format!("seed {seed}, round {round}");
            by_log[usize::from(agree(&db, before, &new, &mut place, &what))] += 1;
            if random.below(3) > 0 {
                let next = if base == "old" { "new" } else { "old" };
                let names = [base.as_bytes(), next.as_bytes()];
                db.change_pins(&[(names[0], None), (names[1], Some(&new))]).unwrap();
                (base, old) = (next, Some(new));
            }
        }
        assert!(db.check().unwrap().is_sound());
    }
    assert!(by_log.iter().all(|&count| count > 100), "{by_log:?}");
}

#[test]
fn two_moments_must_fit() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| Options::new().create(true).open(folder.path().join(name)).unwrap();
    let (db, other) = (open("db"), open("other"));
    let old = db.snapshot();
    db.keyspace("a", Default::default()).unwrap();
    let refused = [Diff::new(&db, &old, "a"), Diff::new(&old, &other, "a")];
    assert!(refused.iter().all(|refused| matches!(refused, Err(Error::Argument { .. }))));
    assert_eq!(Diff::new(&old, &db, "a").unwrap().count(), 0);
}
