//! Memory stays within its budget: a transaction larger than it spills, a held reader pins only
//! what it reads.

use std::path::Path;

use hedgerow::tree::{Durability, Snapshot, Store, TableOptions};

use crate::{Scratch, numbers, processes};

/// Bytes that the spilling transaction writes, and the most memory that it may take for itself:
/// its budget and as much again and a little for the program.
const WRITTEN: u64 = 96 << 20;
const BUDGET: usize = 4 << 20;
const MOST: u64 = 24 << 20;

/// What is written early must be right, rolled back and committed alike.
#[test]
fn a_small_budget_changes_nothing_but_memory() {
    let scratch = Scratch::with(Store::builder().write_budget(64 << 10));
    for round in 0..3u8 {
        let mut txn = scratch.store.begin_write().unwrap();
        let table = txn.create_table("t", &TableOptions::new()).unwrap();
        for n in numbers(1).take(8000) {
            txn.put(table, &n.to_be_bytes(), &[round; 100]).unwrap();
        }
        let savepoint = txn.savepoint().unwrap();
        for n in numbers(1).take(8000).step_by(2) {
            assert!(txn.delete(table, &n.to_be_bytes()).unwrap());
        }
        txn.rollback_to(savepoint).unwrap();
        for n in numbers(1).take(8000) {
            assert_eq!(txn.get(table, &n.to_be_bytes()).unwrap().unwrap(), [round; 100]);
        }
        if round == 1 {
            txn.abort();
        } else {
            txn.commit().unwrap();
        }
        scratch.check();
    }
}

/// Measured in a process of its own, since tests of one process share their memory.
#[cfg(target_os = "linux")]
#[test]
fn a_transaction_larger_than_its_budget_spills() {
    let scratch = Scratch::new();
    let mut child = processes::start("spill", &scratch.path());
    let most: u64 = processes::line(&mut child, "peak of").parse().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(most < MOST, "{} MiB for a budget of {} MiB", most >> 20, BUDGET >> 20);
    let txn = scratch.store.begin_read().unwrap();
    let count = txn.count(txn.table("t").unwrap()).unwrap();
    assert_eq!(count.keys, WRITTEN / 1000);
    drop(txn);
    scratch.check();
}

/// The part of the process that is measured.
pub(crate) fn spill(path: &Path) {
    let store = Store::builder().write_budget(BUDGET).open(path).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new()).unwrap();
    let mut most = 0;
    for (i, n) in numbers(2).take((WRITTEN / 1000) as usize).enumerate() {
        txn.put(table, &n.to_be_bytes(), &[7; 990]).unwrap();
        if i % 1000 == 0 {
            most = most.max(own_memory());
        }
    }
    txn.commit().unwrap();
    println!("peak of {}", most.max(own_memory()));
}

/// Bytes of this process that are no part of a file.
fn own_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Unsynced commits that nobody reads do not make the file grow, and a forgotten reader pins the
/// pages of its own snapshot only.
#[test]
fn a_forgotten_reader_does_not_bloat_the_file() {
    let scratch = Scratch::with(Store::builder().durability(Durability::None));
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new()).unwrap();
    for i in 0..2000u32 {
        txn.put(table, &i.to_be_bytes(), &[1; 200]).unwrap();
    }
    txn.commit().unwrap();
    let reader = scratch.store.begin_read().unwrap();
    let before = scratch.store.stat().unwrap();
    for n in numbers(3).take(20_000) {
        let mut txn = scratch.store.begin_write().unwrap();
        let table = txn.table("t").unwrap();
        txn.put(table, &((n % 2000) as u32).to_be_bytes(), &[2; 200]).unwrap();
        txn.commit().unwrap();
    }
    let after = scratch.store.stat().unwrap();
    assert!(
        after.pages < 4 * before.pages + 100,
        "{} pages have become {} behind a reader",
        before.pages,
        after.pages
    );
    let table = reader.table("t").unwrap();
    assert_eq!(reader.get(table, &7u32.to_be_bytes()).unwrap().unwrap(), [1; 200]);
    drop(reader);
    scratch.check();
}

/// What is free in many small pieces is used by the transactions of a store that was opened anew,
/// instead of pages behind its end.
#[test]
fn scattered_free_pages_are_used_after_an_opening() {
    let scratch = Scratch::new();
    let write = |store: &Store, keys: &mut dyn Iterator<Item = u32>, delete: bool| {
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("t", &TableOptions::new()).unwrap();
        for key in keys {
            match delete {
                true => assert!(txn.delete(table, &key.to_be_bytes()).unwrap()),
                false => txn.put(table, &key.to_be_bytes(), &[7; 3000]).unwrap(),
            }
        }
        txn.commit().unwrap();
    };
    write(&scratch.store, &mut (0..1000), false);
    write(&scratch.store, &mut (0..1000).step_by(2), true);
    for key in 2000..2004 {
        write(&scratch.store, &mut std::iter::once(key), false);
    }
    let scratch = scratch.reopen(Store::builder());
    let before = scratch.store.stat().unwrap();
    assert!(before.free_pages > 450, "{before:?}");
    write(&scratch.store, &mut (3000..3400), false);
    let after = scratch.store.stat().unwrap();
    assert!(after.pages < before.pages + 40, "{} pages, then {}", before.pages, after.pages);
    scratch.check();
}
