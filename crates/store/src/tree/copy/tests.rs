//! Copies open, are clean and equal the snapshot, also while others write; failures leave no trace.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::tree::check::tests::{entry, filled, kinds, mix};
use crate::tree::{Snapshot, TableOptions};

const COMPACT: CopyOptions = CopyOptions { compact: true };
const PLAIN: CopyOptions = CopyOptions { compact: false };

/// All entries of all tables.
fn dump(store: &Store) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let txn = store.begin_read().unwrap();
    let mut all = Vec::new();
    for info in txn.tables().unwrap() {
        let name = String::from_utf8(info.name).unwrap();
        let options = kinds().into_iter().find(|(kind, _)| *kind == name);
        let table = match options {
            Some((_, options)) => txn.table_with(&name, &options).unwrap(),
            None => txn.table(&name).unwrap(),
        };
        for entry in txn.range(table, ..).unwrap() {
            let entry = entry.unwrap();
            all.push((name.clone(), entry.key.to_vec(), entry.value.to_vec()));
        }
    }
    all
}

#[track_caller]
fn assert_clean(store: &Store) {
    assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn copies_equal_the_store_and_go_on_living() {
    for map in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        drop(filled(folder.path()));
        let store = Store::builder().map(map).open(folder.path().join("store")).unwrap();
        let wanted = dump(&store);
        for (name, options) in [("plain", PLAIN), ("compact", COMPACT)] {
            let path = folder.path().join(name);
            let mut told = (0, 0);
            store.copy_to(&path, options, &mut |done, all| told = (done, all)).unwrap();
            assert!(told.0 == told.1 && told.1 > 0, "{told:?}");
            let len = |path: &Path| std::fs::metadata(path).unwrap().len();
            let (copied, old) = (len(&path), len(&folder.path().join("store")));
            assert!(name == "plain" || copied < old, "{copied} and {old}");
            let copy = Store::open(&path).unwrap();
            assert_clean(&copy);
            assert_eq!(dump(&copy), wanted, "{name}");
            let infos = |store: &Store| format!("{:?}", store.begin_read().unwrap().tables());
            assert_eq!(infos(&copy), infos(&store));
            let mut txn = copy.begin_write().unwrap();
            for (kind, options) in kinds() {
                let table = txn.create_table(kind, &options).unwrap();
                for n in 0..300 {
                    let (key, value) = entry(kind, mix(n));
                    txn.put(table, &key, &value).unwrap();
                    txn.delete(table, &entry(kind, n).0).unwrap();
                }
            }
            txn.commit().unwrap();
            assert_clean(&copy);
        }
    }
}

#[test]
fn compact_copies_have_full_pages() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new()).unwrap();
    for n in 0..30_000 {
        txn.put(table, format!("{:08}", mix(n) % 100_000_000).as_bytes(), b"some value").unwrap();
    }
    txn.create_table("empty", &TableOptions::new()).unwrap();
    txn.commit().unwrap();
    store.copy_to(folder.path().join("copy"), COMPACT, &mut |_, _| {}).unwrap();
    let copy = Store::open(folder.path().join("copy")).unwrap();
    assert_clean(&copy);
    assert_eq!(dump(&copy), dump(&store));
    let txn = copy.begin_read().unwrap();
    let shape = txn.table_shape(txn.table("t").unwrap()).unwrap();
    assert!(shape.levels.len() > 1);
    let leaves = shape.levels[0];
    assert!(leaves.used_bytes * 100 > leaves.pages * 4096 * 97, "{shape:?}");
    let stat = copy.stat().unwrap();
    assert_eq!((stat.free_pages, stat.tables, stat.holders.readers.len()), (0, 2, 1));
    assert_eq!(stat.own_pages + leaves.pages + shape.levels[1].pages, stat.pages);
}

#[test]
fn copies_are_snapshots_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let mut txn = store.begin_write().unwrap();
                let table = txn.create_table("t", &TableOptions::new()).unwrap();
                // Every commit writes one number into all entries.
                for n in 0..400_u64 {
                    let mut value = vec![7; (mix(n + round) % 2000) as usize];
                    value.splice(0..0, round.to_be_bytes());
                    txn.put(table, &mix(n).to_be_bytes(), &value).unwrap();
                }
                txn.commit_with(crate::Durability::None).unwrap();
                round += 1;
            }
        });
        while store.begin_read().unwrap().table("t").is_err() {
            std::thread::yield_now();
        }
        for i in 0..12 {
            let path = folder.path().join(format!("copy {i}"));
            let options = CopyOptions { compact: i % 2 == 1 };
            store.copy_to(&path, options, &mut |_, _| {}).unwrap();
            let copy = Store::open(&path).unwrap();
            assert_clean(&copy);
            let entries = dump(&copy);
            assert_eq!(entries.len(), 400);
            assert!(entries.iter().all(|(_, _, value)| value[..8] == entries[0].2[..8]));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_clean(&store);
}

#[test]
fn a_copy_that_fails_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let before = names_in(folder.path());
    for options in [PLAIN, COMPACT] {
        let refused = store.copy_to(folder.path().join("store"), options, &mut |_, _| {});
        assert!(matches!(refused, Err(Error::Path { .. })), "{refused:?}");
        let interrupt = store.interrupt();
        let path = folder.path().join("copy");
        let stopped = store.copy_to(&path, options, &mut |_, _| interrupt.set(true));
        assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
        interrupt.set(false);
        assert_eq!(names_in(folder.path()), before);
    }
}

#[test]
fn a_file_that_was_put_there_meanwhile_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    for options in [PLAIN, COMPACT] {
        let path = folder.path().join("copy");
        let mut put = |_, _| std::fs::write(&path, "another's").unwrap();
        let error = store.copy_to(&path, options, &mut put).unwrap_err();
        assert!(error.to_string().contains("while the copy was made"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"another's");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(names_in(folder.path()), ["store", "store-lock"]);
    }
}

#[test]
fn a_stream_is_a_copy_from_front_to_back() {
    for map in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        drop(filled(folder.path()));
        let store = Store::builder().map(map).open(folder.path().join("store")).unwrap();
        let mut bytes = Vec::new();
        store.copy_into(&mut bytes).unwrap();
        let path = folder.path().join("streamed");
        std::fs::write(&path, &bytes).unwrap();
        let copy = Store::open(&path).unwrap();
        assert_clean(&copy);
        assert_eq!(dump(&copy), dump(&store));
        // Nothing was put beside the store.
        let expected = ["store", "store-lock", "streamed", "streamed-lock"];
        assert_eq!(names_in(folder.path()), expected);
    }
}

#[test]
fn a_stream_ends_where_it_cannot_be_written_or_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let mut room = [0; 20_000];
    assert!(matches!(store.copy_into(&mut room.as_mut_slice()), Err(Error::Io { .. })));
    store.interrupt().set(true);
    assert!(matches!(store.copy_into(&mut Vec::new()), Err(Error::Interrupted)));
    store.interrupt().set(false);
    assert!(store.copy_into(&mut Vec::new()).is_ok());
}

/// Flips a bit in every kind of place; a plain copy finds it, and leaves nothing.
#[test]
fn what_is_damaged_is_not_copied_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path()));
    let path = folder.path().join("store");
    let sound = std::fs::read(&path).unwrap();
    let (mut found, mut passed) = (0, 0);
    for at in (3 * 4096..sound.len()).step_by((sound.len() / 7) | 1) {
        let mut bytes = sound.clone();
        bytes[at] ^= 4;
        std::fs::write(&path, bytes).unwrap();
        let store = Store::open(&path).unwrap();
        let copy = folder.path().join("copy");
        match store.copy_to(&copy, PLAIN, &mut |_, _| {}) {
            Ok(()) => {
                passed += 1;
                assert_clean(&store);
                std::fs::remove_file(&copy).unwrap();
            }
            Err(Error::Corrupt { place: crate::Place::Page(page), .. }) => {
                found += 1;
                assert!(page < (sound.len() / 4096) as u64, "{page}");
                let is_trace = |name: &String| name == "copy" || name.ends_with(".part");
                assert!(!names_in(folder.path()).iter().any(is_trace));
            }
            Err(other) => panic!("{other}"),
        }
    }
    // A stream ends with the error, too; and what is damaged is copied where that is asked for.
    let mut bytes = sound.clone();
    bytes[4 * 4096 + 100] ^= 4;
    bytes[9 * 4096 + 100] ^= 4;
    std::fs::write(&path, &bytes).unwrap();
    let store = Store::open(&path).unwrap();
    assert!(store.copy_into(&mut Vec::new()).is_err());
    let even = folder.path().join("even");
    store.copy_even_damaged(&even, &mut |_, _| {}).unwrap();
    assert!(!Store::open(&even).unwrap().check(&mut |_, _| {}).unwrap().problems.is_empty());
    assert!(found > 2, "{found} found, {passed} in free pages");
}
