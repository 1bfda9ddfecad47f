//! Stores that lie in memory: they are as other stores are, and leave nothing behind but copies.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hedgerow::lsm::{Db, Options, Readable};
use hedgerow::tree::{CopyOptions, Snapshot, Store, TableOptions};
use hedgerow::{Durability, Error};

use crate::{all, begin, begin_read, numbers, pair};

/// One test at a time makes such stores, since their files are counted.
static TURN: Mutex<()> = Mutex::new(());

/// How many files without a name this process has open.
fn nameless_files() -> usize {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let links = listed.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|to| to.to_string_lossy().contains("memfd:hedgerow")).count()
}

/// Waits until no flush in the background reads: where its thread gets no processor for a while,
/// the pages of all commits meanwhile are kept for it.
fn wait_for_flush(store: &Store) {
    let begun = Instant::now();
    while !store.readers().unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "a flush in memory takes a minute");
        std::thread::yield_now();
    }
}

#[test]
fn a_tree_in_memory_keeps_what_it_is_given_and_reuses_its_room() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create_in_memory().unwrap();
    let (mut model, mut drawn, mut most) = (BTreeMap::new(), numbers(1), 0);
    for round in 0..400_u64 {
        let kinds = [Durability::Durable, Durability::Eventual, Durability::None];
        wait_for_flush(&store);
        let (mut txn, table) = begin(&store);
        for i in 0..50 {
            let key = (drawn.next().unwrap() % 2000).to_be_bytes();
            if i % 3 == 0 {
                assert_eq!(txn.delete(table, &key).unwrap(), model.remove(&key).is_some());
            } else {
                let value = vec![round as u8; (i as usize * 37) % 9000];
                txn.put(table, &key, &value).unwrap();
                model.insert(key, value);
            }
        }
        txn.commit_with(kinds[round as usize % kinds.len()]).unwrap();
        let bytes = store.stat().unwrap().file_bytes;
        if round == 200 {
            most = bytes;
        }
    }
    let bytes = store.stat().unwrap().file_bytes;
    assert!(bytes <= most + most / 4, "{most} bytes after 200 commits, {bytes} after 400");
    assert!(store.check(&mut |_, _| {}).unwrap().problems.is_empty());

    let (held, seen) = begin_read(&store);
    let (mut txn, table) = begin(&store);
    txn.clear_table(table).unwrap();
    txn.put(table, b"the last", b"one").unwrap();
    txn.commit().unwrap();
    let stored: Vec<_> = model.into_iter().map(|(key, value)| (key.to_vec(), value)).collect();
    assert!(all(&held, seen) == stored);
    drop(held);

    for compact in [false, true] {
        let path = folder.path().join(format!("copy {compact}"));
        store.copy_to(&path, CopyOptions { compact }, &mut |_, _| {}).unwrap();
        let copy = Store::open(&path).unwrap();
        let (txn, table) = begin_read(&copy);
        assert_eq!(all(&txn, table), [pair("the last", "one")]);
    }
    drop(store);
    assert_eq!(nameless_files(), 0);
}

#[test]
fn stores_in_memory_know_nothing_of_each_other_and_have_a_limit() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let stores: Vec<_> = (0..3).map(|_| Store::create_in_memory().unwrap()).collect();
    for (i, store) in stores.iter().enumerate() {
        let name = format!("table {i}");
        store.write(|txn| txn.create_table(&name, &TableOptions::new()).map(drop)).unwrap();
        let txn = store.begin_read().unwrap();
        assert_eq!(txn.tables().unwrap().len(), 1);
        assert!(txn.table(&name).is_ok());
    }
    let small = Store::builder().max_size(256 << 10).create_in_memory().unwrap();
    let put = |len| {
        let (mut txn, table) = begin(&small);
        txn.put(table, b"key", &vec![1; len])?;
        txn.commit()
    };
    let full = put(300 << 10);
    assert!(matches!(full, Err(Error::StoreFull { .. })), "{full:?}");
    put(30 << 10).unwrap();
    let refused = Store::builder().read_only(true).create_in_memory();
    assert!(matches!(refused, Err(Error::Argument { .. })));
    assert!(Store::open(":memory:").is_err(), "nothing of that name is on the disk");
}

#[test]
fn an_lsm_store_in_memory_merges_its_tables_and_can_be_backed_up() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let db = Options::new().memory_limit(8 << 20).create_in_memory().unwrap();
    let space = db.keyspace("s", Default::default()).unwrap();
    let mut model = BTreeMap::new();
    for (i, number) in (0..60_000_u64).zip(numbers(2)) {
        let key = (number % 20_000).to_be_bytes();
        if i % 5 == 0 {
            db.delete(&space, &key).unwrap();
            model.remove(&key);
        } else {
            let value = vec![i as u8; (i as usize * 7) % 400];
            db.put(&space, &key, &value).unwrap();
            model.insert(key, value);
        }
    }
    let is_counted = cfg!(target_os = "linux");
    assert!(nameless_files() > 3 || !is_counted, "there are tables and a log");
    db.compact().unwrap();
    let (backup, checkpoint) = (folder.path().join("backup"), folder.path().join("checkpoint"));
    db.backup(&backup, &mut |_, _| {}).unwrap();
    db.checkpoint(&checkpoint).unwrap();
    for db in [db, Db::open(&checkpoint).unwrap(), Db::open(&backup).unwrap()] {
        let space = db.keyspace("s", Default::default()).unwrap();
        for n in 0..20_000_u64 {
            let key = n.to_be_bytes();
            let stored = db.get(&space, &key).unwrap();
            assert_eq!(stored.as_deref(), model.get(&key).map(Vec::as_slice));
        }
    }
    assert_eq!(nameless_files(), 0);
}
