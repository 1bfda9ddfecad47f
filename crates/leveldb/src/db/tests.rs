//! Databases on both engines beside a map that does the same; what only this library can be asked.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::engine::{Here, Move, Str};

fn options(kind: Kind) -> Options {
    Options { create: true, engine: Some(kind), ..Options::default() }
}

fn name(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

fn put(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut batch = batch::Batch::new();
    batch.add(Op { key, value: Some(value) }).unwrap();
    batch.bytes().to_vec()
}

fn get(db: &Db, at: Option<&Snapshot>, key: &[u8]) -> Option<Vec<u8>> {
    db.get(at, key, |value| value.map(<[u8]>::to_vec)).unwrap()
}

/// All entries forwards, and that backwards they are the same.
fn entries(db: &Db, at: Option<&Snapshot>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let walk = |from: Move<'_>, step: Move<'_>| {
        let mut place = db.place(at).unwrap();
        let mut found = Vec::new();
        let mut here = place.go(from).unwrap();
        while let Some(Here { key, value }) = here {
            let read = place.value().unwrap();
            assert!(value.is_none_or(|here| copy(here) == copy(read)));
            found.push((copy(key), copy(read)));
            here = place.go(step).unwrap();
        }
        found
    };
    let forwards = walk(Move::First, Move::Next);
    let mut backwards = walk(Move::Last, Move::Prev);
    backwards.reverse();
    assert_eq!(forwards, backwards);
    forwards
}

/// What a string for C names.
fn copy(string: Str) -> Vec<u8> {
    crate::ffi::copy_for_tests(string)
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % n
    }

    fn string(&mut self, most: u64) -> Vec<u8> {
        (0..self.below(most)).map(|_| b'a' + self.below(3) as u8).collect()
    }
}

#[test]
fn random_batches_are_what_a_map_makes_of_them() {
    for kind in [Kind::Tree, Kind::Lsm] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        let mut random = Random(kind as u64 + 7);
        let mut model = BTreeMap::new();
        let mut db = Db::open(name(&path), &options(kind)).unwrap();
        for round in 0..60 {
            let (before, model_before) = (db.snapshot().unwrap(), model.clone());
            let mut batch = batch::Batch::new();
            for _ in 0..random.below(40) {
                let (key, value) = (random.string(6), random.string(30));
                let is_put = random.below(3) > 0;
                batch.add(Op { key: &key, value: is_put.then_some(value.as_slice()) }).unwrap();
                match is_put {
                    true => model.insert(key, value),
                    false => model.remove(&key),
                };
            }
            db.write_batch(batch.bytes(), round % 5 == 0).unwrap();
            let expected: Vec<_> = model.clone().into_iter().collect();
            assert_eq!(entries(&db, None), expected);
            let then: Vec<_> = model_before.into_iter().collect();
            assert_eq!(entries(&db, Some(&before)), then);
            let key = random.string(6);
            assert_eq!(get(&db, None, &key), model.get(&key).cloned());
            let mut place = db.place(None).unwrap();
            let sought = place.go(Move::Seek(&key)).unwrap().map(|here| copy(here.key));
            assert_eq!(sought.as_ref(), model.range(key..).next().map(|(key, _)| key));
            assert_eq!(db.count().unwrap(), model.len() as u64);
            if round % 20 == 7 {
                drop(before);
                drop(place);
                drop(db);
                db = Db::open(name(&path), &Options::default()).unwrap();
                assert_eq!(db.kind(), kind);
            }
        }
        db.check().unwrap();
        db.compact(true);
        db.backup(name(&home.path().join("copy"))).unwrap();
        let copy = Db::open(name(&home.path().join("copy")), &Options::default()).unwrap();
        assert_eq!(entries(&copy, None), entries(&db, None));
    }
}

/// A place that is made after another one was given back, which may be made of that, sees what was
/// written meanwhile, and stands nowhere; others go on to see what they saw.
#[test]
fn places_see_the_state_of_the_moment_in_which_they_are_made() {
    for kind in [Kind::Tree, Kind::Lsm] {
        let home = tempfile::tempdir().unwrap();
        let db = Db::open(name(&home.path().join("db")), &options(kind)).unwrap();
        let seek = |place: &mut Place, key: &[u8]| {
            let here = place.go(Move::Seek(key)).unwrap().map(|here| copy(here.key));
            here.map(|key| (key, copy(place.value().unwrap())))
        };
        let mut held = Vec::new();
        for round in 0..40_u8 {
            let value = vec![round; 9000 * usize::from(round % 3)];
            db.write_batch(&put(&[b'k', round % 5], &value), false).unwrap();
            for _ in 0..2 {
                let mut place = db.place(None).unwrap();
                let expected = (vec![b'k', round % 5], value.clone());
                assert_eq!(seek(&mut place, &expected.0), Some(expected.clone()), "{kind:?}");
                held.push((place, expected));
            }
            // A snapshot is let go before the place in it.
            let snapshot = db.snapshot().unwrap();
            let mut place = db.place(Some(&snapshot)).unwrap();
            drop(snapshot);
            assert_eq!(seek(&mut place, &[b'k', round % 5]).unwrap().1, value);
            for (place, expected) in &mut held {
                assert_eq!(seek(place, &expected.0).as_ref(), Some(&*expected), "{kind:?}");
            }
            if held.len() > 12 {
                held.drain(..11);
            }
        }
    }
}

/// Places that were given back keep no old pages: what they saw has room for other values.
#[test]
fn a_place_that_was_given_back_holds_no_state() {
    const LEN: usize = 1 << 20;
    let home = tempfile::tempdir().unwrap();
    let db = Db::open(name(&home.path().join("db")), &options(Kind::Tree)).unwrap();
    let write = |key: u8, byte: u8| db.write_batch(&put(&[key], &vec![byte; LEN]), true).unwrap();
    let file = home.path().join("db").join(folder::TREE[0]);
    let size = || fs::metadata(&file).unwrap().len() as usize;
    let seen: Vec<_> = (0..8).map(|round| (write(0, round), db.place(None).unwrap())).collect();
    let grown = size();
    assert!(grown > 8 * LEN, "{grown}");
    drop(seen);
    (1..6).for_each(|key| write(key, 0));
    assert!(size() < grown + 2 * LEN, "{grown} bytes became {}", size());
}

#[test]
fn refusals_are_worded_as_leveldb_words_them() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let shown = path.display();
    let open = |options: &Options| Db::open(name(&path), options).map(drop);
    let refusal = |options: &Options| open(options).unwrap_err().to_string();
    let plain = Options::default();
    let expected =
        format!("Invalid argument: {shown}: does not exist (create_if_missing is false)");
    assert_eq!(refusal(&plain), expected);
    open(&options(Kind::Tree)).unwrap();
    let exists = Options { error_if_exists: true, ..plain.clone() };
    let expected = format!("Invalid argument: {shown}: exists (error_if_exists is true)");
    assert_eq!(refusal(&exists), expected);
    let backwards = |a: &[u8], b: &[u8]| b.cmp(a);
    let comparator = Comparator { name: b"back".to_vec(), compare: Some(Arc::new(backwards)) };
    let other = Options { comparator, ..options(Kind::Lsm) };
    let expected = "Invalid argument: leveldb.BytewiseComparator does not match existing comparator \
                    : back";
    assert_eq!(refusal(&other), expected);
    let held = Db::open(name(&path), &plain).unwrap();
    assert_eq!(refusal(&plain), format!("IO error: lock {shown}/LOCK: already held by process"));
    drop(held);
    destroy(name(&path)).unwrap();
    assert!(!path.exists());
    destroy(name(&path)).unwrap();
    // Only the tree has such orders, whatever was chosen.
    let db = Db::open(name(&path), &other).unwrap();
    assert_eq!(db.kind(), Kind::Tree);
    db.write_batch(&put(b"a", b""), false).unwrap();
    db.write_batch(&put(b"b", b""), false).unwrap();
    assert_eq!(entries(&db, None)[0].0, b"b");
    assert!(db.approximate_size(b"b", b"a") > 0 && db.approximate_size(b"a", b"b") == 0);
}

/// A database and its copy, as those of LevelDB, can be read by whom the mask of the process lets.
#[test]
fn files_have_the_permissions_of_leveldbs() {
    use std::os::unix::fs::PermissionsExt as _;
    fn look(path: &Path, kind: Kind, mask: u32) {
        for entry in fs::read_dir(path).unwrap() {
            let (path, meta) =
                entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
            let wanted = if meta.is_dir() { 0o755 } else { 0o644 };
            assert_eq!(meta.permissions().mode() & 0o777, wanted & mask, "{kind:?}: {path:?}");
            if meta.is_dir() {
                look(&path, kind, mask);
            }
        }
    }
    let home = tempfile::tempdir().unwrap();
    let all = home.path().join("all");
    fs::create_dir(&all).unwrap();
    // What the mask of the process leaves.
    let mask = all.metadata().unwrap().permissions().mode();
    for kind in [Kind::Tree, Kind::Lsm] {
        let home = tempfile::tempdir().unwrap();
        let (path, copy) = (home.path().join("db"), home.path().join("copy"));
        for _ in 0..2 {
            let db = Db::open(name(&path), &options(kind)).unwrap();
            db.write_batch(&put(b"key", &[0; 100_000]), true).unwrap();
            db.compact(true);
            look(home.path(), kind, mask);
        }
        crate::repair::repair(name(&path), &options(kind)).unwrap();
        Db::open(name(&path), &options(kind)).unwrap().backup(name(&copy)).unwrap();
        drop(Db::open(name(&copy), &options(kind)).unwrap());
        look(home.path(), kind, mask);
    }
}

/// About as much as was written, wherever it is: in memory, in the log, in tables.
#[test]
fn sizes_count_what_is_in_no_table_yet() {
    let key = |n: u32| format!("{n:06}").into_bytes();
    for (kind, count, len) in
        [(Kind::Tree, 4000, 100), (Kind::Lsm, 4000, 100), (Kind::Lsm, 400, 9000)]
    {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        let options = Options { write_buffer: 64 << 10, ..options(kind) };
        let open = || Db::open(name(&path), &options).unwrap();
        let db = open();
        for n in 0..count {
            // What does not compress.
            let mut random = Random(u64::from(n) + 1);
            let value: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
            db.write_batch(&put(&key(n), &value), false).unwrap();
        }
        let written = u64::from(count) * (len + 6);
        let look = |db: &Db| {
            let size = |from, to| db.approximate_size(&key(from), &key(to));
            let (all, half) = (size(0, count), size(count / 4, count * 3 / 4));
            let what = format!("{kind:?}: {all} and {half} of {written}");
            assert!(all > written / 2 && all < written * 2, "{what}");
            assert!(half > all / 4 && half < all * 3 / 4, "{what}");
            assert_eq!(size(count + 1, count + 2), 0);
        };
        look(&db);
        drop(db);
        let db = open();
        look(&db);
        db.compact(true);
        look(&db);
    }
}

#[test]
fn properties_are_those_of_leveldb_and_no_others() {
    for kind in [Kind::Tree, Kind::Lsm] {
        let home = tempfile::tempdir().unwrap();
        let db = Db::open(name(&home.path().join("db")), &options(kind)).unwrap();
        db.write_batch(&put(b"key", &[0; 100_000]), false).unwrap();
        db.compact(true);
        let known = ["stats", "sstables", "approximate-memory-usage", "num-files-at-level6"];
        for property in known {
            let name = format!("leveldb.{property}");
            assert!(db.property(name.as_bytes()).is_some_and(|text| !text.is_empty()), "{name}");
        }
        for unknown in ["num-files-at-level7", "num-files-at-level", "num-files-at-level+1", "x"] {
            assert_eq!(db.property(format!("leveldb.{unknown}").as_bytes()), None);
        }
        assert!(db.approximate_size(b"a", b"z") > 0);
    }
}
