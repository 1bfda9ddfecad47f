//! Compaction of churned stores: the file shrinks, everything is still there, readers read on.

use std::path::Path;

use super::*;
use crate::tree::check::tests::{entry, filled, kinds, mix};
use crate::tree::{ReadTxn, Snapshot, TableOptions};

type Dump = Vec<(Vec<u8>, Vec<u8>)>;

fn dump(txn: &ReadTxn, name: &str, options: &TableOptions) -> Dump {
    let table = txn.table_with(name, options).unwrap();
    txn.range(table, ..)
        .unwrap()
        .map(|entry| entry.map(|entry| (entry.key.to_vec(), entry.value.to_vec())).unwrap())
        .collect()
}

#[track_caller]
fn assert_clean(store: &Store) {
    assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
}

/// Bytes of the pages in use.
fn live_bytes(store: &Store) -> u64 {
    let stat = store.stat().unwrap();
    (stat.pages - stat.free_pages - stat.pinned_pages) * u64::from(stat.page_size)
}

fn key(n: u64) -> [u8; 8] {
    mix(n).to_be_bytes()
}

/// A store of which nine tenths were deleted, in an order without pattern. `long`: one of this many
/// values is long.
fn churned(folder: &Path, long: u64) -> Store {
    let store = Store::create(folder.join("store")).unwrap();
    for round in 0..10_u64 {
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("t", &TableOptions::new()).unwrap();
        for n in round * 6000..(round + 1) * 6000 {
            let len = if n % long == 0 { 1000 + mix(n) % 20_000 } else { mix(n) % 80 };
            txn.put(table, &key(n), &vec![n as u8; len as usize]).unwrap();
        }
        txn.commit().unwrap();
        let mut txn = store.begin_write().unwrap();
        let table = txn.table("t").unwrap();
        for n in (round * 6000..(round + 1) * 6000).filter(|n| n % 10 != 3) {
            txn.delete(table, &key(n)).unwrap();
        }
        txn.commit().unwrap();
    }
    store
}

#[test]
fn a_churned_store_shrinks_to_what_it_needs() {
    for long in [u64::MAX, 40, 5] {
        let folder = tempfile::tempdir().unwrap();
        let store = churned(folder.path(), long);
        let options = TableOptions::new();
        let wanted = dump(&store.begin_read().unwrap(), "t", &options);
        let before = store.stat().unwrap();
        let mut told = Vec::new();
        let report = store.compact(&mut |done, all| told.push((done, all))).unwrap();
        assert_clean(&store);
        assert_eq!(dump(&store.begin_read().unwrap(), "t", &options), wanted);
        let live = live_bytes(&store);
        let what = format!("{long}: {report:?}, live {live}, before {before:?}");
        assert_eq!(report.before, before.file_bytes, "{what}");
        assert!(report.after < report.before && report.moved_pages > 0, "{what}");
        assert!(report.after * 10 <= live * 11, "{what}");
        assert_eq!(report.after, store.stat().unwrap().file_bytes, "{what}");
        assert!(told.iter().all(|(done, all)| done <= all), "{told:?}");
        assert!(told.last().is_some_and(|(done, all)| done == all), "{told:?}");
        let again = store.compact(&mut |_, _| {}).unwrap();
        assert!(again.moved_pages < 100, "{again:?}");
        drop(store);
        let store = Store::open(folder.path().join("store")).unwrap();
        assert_clean(&store);
        assert_eq!(dump(&store.begin_read().unwrap(), "t", &options), wanted);
    }
}

#[test]
fn tables_of_every_kind_are_moved() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let mut txn = store.begin_write().unwrap();
    for (kind, options) in kinds() {
        let table = txn.create_table(kind, &options).unwrap();
        for n in (0..4200).filter(|n| n % 4 != 0) {
            txn.delete(table, &entry(kind, n).0).unwrap();
        }
    }
    txn.commit().unwrap();
    let all = |txn: &ReadTxn| -> Vec<Dump> {
        kinds().iter().map(|(kind, options)| dump(txn, kind, options)).collect()
    };
    let wanted = all(&store.begin_read().unwrap());
    // Opened anew the functions of custom orders are not known to the store.
    drop(store);
    let store = Store::open(folder.path().join("store")).unwrap();
    let report = store.compact(&mut |_, _| {}).unwrap();
    assert_clean(&store);
    assert_eq!(all(&store.begin_read().unwrap()), wanted);
    assert!(report.after * 10 <= live_bytes(&store) * 11, "{report:?} {}", live_bytes(&store));
}

/// Several times: how many pages are left to move, and where, depends on when the others write.
#[test]
fn a_reader_reads_on_and_others_write_meanwhile() {
    (0..5).for_each(|_| read_and_write_meanwhile());
}

fn read_and_write_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let store = churned(folder.path(), 50);
    let options = TableOptions::new();
    let wanted = dump(&store.begin_read().unwrap(), "t", &options);
    let reader = store.begin_read().unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..100_u64 {
                let mut txn = store.begin_write().unwrap();
                let table = txn.create_table("other", &TableOptions::new()).unwrap();
                txn.put(table, &n.to_be_bytes(), &vec![1; n as usize * 20]).unwrap();
                txn.commit().unwrap();
            }
        });
        let first = store.compact(&mut |_, _| {}).unwrap();
        assert_eq!(dump(&reader, "t", &options), wanted);
        writer.join().unwrap();
        assert!(first.after > 0);
    });
    assert_eq!(dump(&reader, "t", &options), wanted);
    assert_clean(&store);
    drop(reader);
    store.compact(&mut |_, _| {}).unwrap();
    assert_clean(&store);
    let txn = store.begin_read().unwrap();
    assert_eq!(dump(&txn, "t", &options), wanted);
    assert_eq!(txn.count(txn.table("other").unwrap()).unwrap().values, 100);
    let (len, live) = (store.stat().unwrap().file_bytes, live_bytes(&store));
    assert!(len * 10 <= live * 11, "{len} {live}");
}

#[test]
fn small_and_empty_stores_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    assert_eq!(store.compact(&mut |_, _| {}).unwrap().moved_pages, 0);
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new()).unwrap();
    txn.put(table, b"k", b"v").unwrap();
    txn.commit().unwrap();
    store.compact(&mut |_, _| {}).unwrap();
    assert_clean(&store);
    store.interrupt().set(true);
    assert!(matches!(store.compact(&mut |_, _| {}), Err(crate::Error::Interrupted)));
}

/// What is free in these stores is less than a commit needs that moves something.
#[test]
fn a_store_full_of_what_readers_hold_becomes_no_longer() {
    for commits in 1..40_u64 {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path().join("store")).unwrap();
        let readers: Vec<ReadTxn> = (0..commits)
            .map(|n| {
                let mut txn = store.begin_write().unwrap();
                let table = txn.create_table("t", &TableOptions::new()).unwrap();
                txn.put(table, &key(n), &vec![n as u8; 100 + 50 * n as usize]).unwrap();
                txn.commit().unwrap();
                store.begin_read().unwrap()
            })
            .filter(|txn| txn.id() % 3 != 0)
            .collect();
        let report = store.compact(&mut |_, _| {}).unwrap();
        assert!(report.after <= report.before, "{commits} commits: {report:?}");
        assert_clean(&store);
        drop(readers);
        let report = store.compact(&mut |_, _| {}).unwrap();
        assert!(report.after <= report.before, "{commits} commits: {report:?}");
        assert_clean(&store);
    }
}
