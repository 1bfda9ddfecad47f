//! Memory stays within its budget: a transaction larger than it spills, a held reader pins only
//! what it reads.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use hedgerow::Durability;
use hedgerow::lsm::{self, Readable as _};
use hedgerow::tree::{ReadTxn, Snapshot, Store, Table, TableOptions, WriteTxn};

use crate::{Scratch, begin, numbers, processes};

/// Bytes that a transaction writes, and the most memory that it may take for itself: the budget of
/// one that spills, as much again, and a little for the program.
const WRITTEN: u64 = 96 << 20;
const BUDGET: usize = 4 << 20;
const MOST: u64 = 24 << 20;

/// What is written early must be right, rolled back and committed alike.
#[test]
fn a_small_budget_changes_nothing_but_memory() {
    let scratch = Scratch::with(Store::builder().write_budget(64 << 10));
    for round in 0..3u8 {
        let (mut txn, table) = begin(&scratch.store);
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

/// Pages that an append has filled are written long before the commit; if they are changed again,
/// rolled back or read, it is as if they had not been.
#[test]
fn what_an_append_left_behind_may_still_change() {
    for budget in [64 << 10, 256 << 20] {
        let scratch = Scratch::with(Store::builder().write_budget(budget));
        let mut txn = scratch.store.begin_write().unwrap();
        let tables = ["a", "b"].map(|name| txn.create_table(name, &TableOptions::new()).unwrap());
        let append = |txn: &mut WriteTxn, keys: Range<u32>| {
            for key in keys {
                for table in tables {
                    txn.append(table, &key.to_be_bytes(), &[1; 500]).unwrap();
                }
            }
        };
        append(&mut txn, 0..10_000);
        let savepoint = txn.savepoint().unwrap();
        append(&mut txn, 10_000..20_000);
        for key in (0..20_000u32).step_by(97) {
            txn.put(tables[0], &key.to_be_bytes(), &[2; 400]).unwrap();
            assert!(txn.delete(tables[1], &key.to_be_bytes()).unwrap());
        }
        txn.rollback_to(savepoint).unwrap();
        assert!(txn.count(tables[0]).unwrap().keys == 10_000);
        append(&mut txn, 10_000..15_000);
        for key in (0..15_000u32).step_by(1001) {
            txn.put(tables[0], &key.to_be_bytes(), &[3; 700]).unwrap();
        }
        txn.commit().unwrap();
        let txn = scratch.store.begin_read().unwrap();
        for key in 0..15_000u32 {
            let expected: &[u8] = if key.is_multiple_of(1001) { &[3; 700] } else { &[1; 500] };
            assert_eq!(
                txn.get(tables_of(&txn)[0], &key.to_be_bytes()).unwrap().unwrap(),
                *expected
            );
        }
        assert!(tables_of(&txn).map(|table| txn.count(table).unwrap().keys) == [15_000; 2]);
        scratch.check();
    }
}

fn tables_of(txn: &ReadTxn) -> [Table; 2] {
    ["a", "b"].map(|name| txn.table(name).unwrap())
}

/// Measured in processes of their own, since tests of one process share their memory.
#[cfg(target_os = "linux")]
#[test]
fn a_transaction_larger_than_its_budget_spills() {
    assert_peak("spill", BUDGET);
}

/// Whatever its budget, an append holds on to little of what it has written.
#[cfg(target_os = "linux")]
#[test]
fn an_append_takes_little_memory() {
    assert_peak("append", 256 << 20);
}

#[cfg(target_os = "linux")]
fn assert_peak(role: &str, budget: usize) {
    let scratch = Scratch::new();
    let mut child = processes::start(role, &scratch.path());
    let most: u64 = processes::line(&mut child, "peak of").parse().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(most < MOST, "{} MiB for a budget of {} MiB", most >> 20, budget >> 20);
    let txn = scratch.store.begin_read().unwrap();
    let count = txn.count(txn.table("t").unwrap()).unwrap();
    assert_eq!(count.keys, WRITTEN / 1000);
    drop(txn);
    let len = std::fs::metadata(scratch.path()).unwrap().len();
    assert!(len < 2 * WRITTEN, "{} MiB of file for {} MiB", len >> 20, WRITTEN >> 20);
    scratch.check();
}

/// The parts of the processes that are measured.
pub(crate) fn spill(path: &Path) {
    load(path, BUDGET, numbers(2));
}

pub(crate) fn append(path: &Path) {
    load(path, 256 << 20, 0..);
}

fn load(path: &Path, budget: usize, keys: impl Iterator<Item = u64>) {
    let store = Store::builder().write_budget(budget).open(path).unwrap();
    let (mut txn, table) = begin(&store);
    let mut most = 0;
    for (i, n) in keys.take((WRITTEN / 1000) as usize).enumerate() {
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

/// Stores that are only open, and the most memory that one of them may take.
const IDLE: usize = 20;
const IDLE_MOST: u64 = 256 << 10;

/// A store of the other engine takes its threads when there is work for them, and memory when
/// something is put into it: programs have many stores open that they hardly use.
#[cfg(target_os = "linux")]
#[test]
fn an_idle_store_takes_no_thread_and_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = processes::start("idle", folder.path());
    let most: u64 = processes::line(&mut child, "peak of").parse().unwrap();
    assert!(child.wait().unwrap().success());
    let each = most / IDLE as u64;
    assert!(each < IDLE_MOST, "{} KiB for each store", each >> 10);
}

/// The part of the process that is measured.
pub(crate) fn idle(folder: &Path) {
    let options = lsm::Options::new().memtable_bytes(16 << 20).durability(Durability::None);
    let open = |n: usize| options.clone().open_or_create(folder.join(n.to_string())).unwrap();
    let begun = own_memory();
    let stores: Vec<_> = (0..IDLE).map(open).collect();
    let spaces: Vec<_> = stores.iter().map(|db| db.keyspace("k", Default::default())).collect();
    for (db, space) in stores.iter().zip(&spaces) {
        let space = space.as_ref().unwrap();
        db.put(space, b"a", b"1").unwrap();
        assert!(db.get(space, b"a").unwrap().is_some() && db.get(space, b"b").unwrap().is_none());
    }
    println!("peak of {}", own_memory() - begun);
    assert_threads(&[]);
    // From the first work on there are those of the store whose work it is.
    stores[0].flush().unwrap();
    assert_threads(&["hedgerow-flush", "hedgerow-log", "hedgerow-merge"]);
    drop(stores);
    assert_threads(&[]);
}

/// Waits until exactly these threads of the library are there. The system shows one that has been
/// started before that has given itself its name, and one that was joined for a moment more.
fn assert_threads(expected: &[&str]) {
    let begun = Instant::now();
    while own_threads() != expected {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{:?} instead of {expected:?}",
            own_threads()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The names of the threads that the library has started in this process.
fn own_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        // One that is just ending has none any more.
        let name = std::fs::read_to_string(task.unwrap().path().join("comm")).ok()?;
        Some(name.trim_end().to_owned()).filter(|name| name.starts_with("hedgerow-"))
    };
    let mut names: Vec<_> = tasks.filter_map(name).collect();
    names.sort_unstable();
    names
}

/// Unsynced commits that no reader holds do not make the file grow, and a forgotten reader pins the
/// pages of its own snapshot only.
#[test]
fn a_forgotten_reader_does_not_bloat_the_file() {
    let scratch = Scratch::with(Store::builder().durability(Durability::None));
    let (mut txn, table) = begin(&scratch.store);
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

/// Small commits of which now and then one is durable use what is free before the store grows,
/// though each of them looks at little of it.
#[test]
fn small_commits_use_what_those_before_the_last_durable_one_freed() {
    const KEYS: u32 = 20_000;
    let scratch = Scratch::new();
    let write = |keys: std::ops::Range<u32>, durability| {
        let (mut txn, table) = begin(&scratch.store);
        for key in keys {
            txn.put(table, &key.to_be_bytes(), &[7; 150]).unwrap();
        }
        txn.commit_with(durability).unwrap();
    };
    write(0..KEYS, Durability::Durable);
    let before = scratch.store.stat().unwrap();
    for commit in 0..15_000 {
        let key = commit * 7919 % KEYS;
        let durable = commit % 50 == 49;
        write(key..key + 1, if durable { Durability::Durable } else { Durability::None });
    }
    let after = scratch.store.stat().unwrap();
    let most = before.pages * 3 / 2;
    assert!(after.pages < most, "{} pages have become {}", before.pages, after.pages);
    scratch.check();
}

/// What is free in many small pieces is used by the transactions of a store that was opened anew,
/// instead of pages beyond its end.
#[test]
fn scattered_free_pages_are_used_after_an_opening() {
    let scratch = Scratch::new();
    let write = |store: &Store, keys: &mut dyn Iterator<Item = u32>, delete: bool| {
        let (mut txn, table) = begin(store);
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
