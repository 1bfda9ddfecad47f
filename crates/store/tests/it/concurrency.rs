//! Many threads on one store: no commit is lost, no reader sees half of one.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hedgerow::Durability;
use hedgerow::Error;
use hedgerow::tree::{ReadTxn, Snapshot, Store, Table, TableOptions, WriteTxn};

use crate::{Scratch, all, begin, begin_read, numbers};

/// Threads that commit durably at the same time share flushes; each of their commits is there.
#[test]
fn group_commit_keeps_every_commit() {
    const THREADS: u8 = 8;
    const COMMITS: u32 = 200;
    let scratch = Scratch::new();
    let barrier = Barrier::new(usize::from(THREADS));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (store, barrier) = (scratch.store.clone(), &barrier);
            scope.spawn(move || {
                barrier.wait();
                for i in 0..COMMITS {
                    let (mut txn, table) = begin(&store);
                    let mut key = vec![number];
                    key.extend(i.to_be_bytes());
                    txn.put(table, &key, b"x").unwrap();
                    txn.commit_with(Durability::Durable).unwrap();
                }
            });
        }
    });
    let stat = scratch.store.stat().unwrap();
    assert_eq!(stat.durable_commit, stat.commit);
    let scratch = scratch.reopen(Store::builder());
    let (txn, table) = begin_read(&scratch.store);
    assert_eq!(txn.count(table).unwrap().keys, u64::from(THREADS) * u64::from(COMMITS));
    let keys: Vec<Vec<u8>> = all(&txn, table).into_iter().map(|e| e.0).collect();
    let expected: Vec<Vec<u8>> = (0..THREADS)
        .flat_map(|t| (0..COMMITS).map(move |i| [&[t][..], &i.to_be_bytes()].concat()))
        .collect();
    assert_eq!(keys, expected);
    scratch.check();
}

const ACCOUNTS: u32 = 500;

fn total(txn: &ReadTxn, table: Table) -> u64 {
    all(txn, table).iter().map(|(_, v)| u64::from_be_bytes(v[..8].try_into().unwrap())).sum()
}

/// Money moves between accounts while readers add it up: the sum never changes.
#[test]
fn readers_see_whole_commits_only() {
    let scratch = Scratch::with(Store::builder().durability(Durability::Eventual));
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.create_table("accounts", &TableOptions::new()).unwrap();
    for i in 0..ACCOUNTS {
        txn.put(table, &i.to_be_bytes(), &1000u64.to_be_bytes()).unwrap();
    }
    txn.commit().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            let (store, done) = (scratch.store.clone(), &done);
            scope.spawn(move || {
                let mut txn = store.begin_read().unwrap();
                while !done.load(Ordering::Relaxed) {
                    let table = txn.table("accounts").unwrap();
                    assert_eq!(total(&txn, table), u64::from(ACCOUNTS) * 1000);
                    txn.reset();
                    txn.renew().unwrap();
                }
            });
        }
        for n in numbers(1).take(3000) {
            let mut txn = scratch.store.begin_write().unwrap();
            let table = txn.table("accounts").unwrap();
            let from = (n as u32 % ACCOUNTS).to_be_bytes();
            let to = ((n >> 32) as u32 % ACCOUNTS).to_be_bytes();
            for (account, up) in [(from, false), (to, true)] {
                let value = txn.get(table, &account).unwrap().unwrap().to_vec();
                let value = u64::from_be_bytes(value[..8].try_into().unwrap());
                let value = if up { value + 1 } else { value - 1 };
                // Values grow and shrink, so that pages split and merge.
                let mut value = value.to_be_bytes().to_vec();
                value.resize(8 + (n % 300) as usize, 0);
                txn.put(table, &account, &value).unwrap();
            }
            txn.commit().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    scratch.check();
}

/// One read transaction may serve many threads.
#[test]
fn threads_share_a_read_transaction() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    for i in 0..20_000u32 {
        txn.put(table, &i.to_be_bytes(), &i.to_le_bytes()).unwrap();
    }
    txn.commit().unwrap();
    let (txn, table) = begin_read(&scratch.store);
    thread::scope(|scope| {
        for seed in 0..4 {
            let txn = &txn;
            scope.spawn(move || {
                for n in numbers(seed).take(20_000) {
                    let i = (n % 20_000) as u32;
                    let value = txn.get(table, &i.to_be_bytes()).unwrap().unwrap();
                    assert_eq!(value, i.to_le_bytes());
                    assert_eq!(txn.rank(table, &i.to_be_bytes()).unwrap().keys, u64::from(i));
                }
            });
        }
    });
}

/// A write transaction may be begun in one thread and committed in another.
#[test]
fn a_write_transaction_changes_threads() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    thread::spawn(move || {
        txn.put(table, b"k", b"v").unwrap();
        txn.commit().unwrap();
    })
    .join()
    .unwrap();
    let txn = scratch.store.begin_write().unwrap();
    assert_eq!(txn.get(txn.table("t").unwrap(), b"k").unwrap().unwrap(), b"v");
}

/// Threads that wait for their turn go when they are interrupted; the others come in turn.
#[test]
fn an_interruption_ends_the_wait_for_another_thread() {
    let scratch = Scratch::new();
    let first = scratch.store.begin_write().unwrap();
    let waits = |store: Store| move || store.begin_write().map(WriteTxn::abort);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..4).map(|_| scope.spawn(waits(scratch.store.clone()))).collect();
        thread::sleep(Duration::from_millis(50));
        assert!(waiting.iter().all(|thread| !thread.is_finished()));
        scratch.store.interrupt().set(true);
        for thread in waiting {
            assert!(matches!(thread.join().unwrap(), Err(Error::Interrupted)));
        }
        scratch.store.interrupt().set(false);
        let next = scope.spawn(waits(scratch.store.clone()));
        thread::sleep(Duration::from_millis(50));
        assert!(!next.is_finished(), "the turn is still the first one's");
        first.abort();
        next.join().unwrap().unwrap();
    });
    scratch.check();
}

/// A transaction that is a commit of its own is done when committing returns, whether or not others
/// wait.
#[test]
fn a_transaction_of_its_own_waits_for_nobody() {
    let scratch = Scratch::new();
    let store = &scratch.store;
    let (begun, done) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        let mut first = store.begin_write_alone().unwrap();
        let table = first.create_table("t", &TableOptions::new()).unwrap();
        first.put(table, b"a", b"1").unwrap();
        scope.spawn(|| {
            begun.wait();
            let second = store.begin_write_alone().unwrap();
            // The first commit returns while this transaction is open.
            while !done.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            assert!(second.table("t").is_ok());
        });
        begun.wait();
        // Time for the other thread to queue.
        thread::sleep(std::time::Duration::from_millis(50));
        first.commit().unwrap();
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(store.clear_dead_readers().unwrap(), 0);
}

#[test]
fn who_waits_for_a_writer_learns_which_and_gives_up_in_time() {
    use std::time::Instant;
    let scratch = Scratch::new();
    assert_eq!(scratch.store.writer(), None);
    let txn = scratch.store.begin_write().unwrap();
    assert_eq!(scratch.store.writer(), Some(std::process::id()));
    let begun = Instant::now();
    let waited = std::thread::scope(|scope| {
        let wait = || scratch.store.begin_write_within(Duration::from_millis(300));
        scope.spawn(move || wait().unwrap().is_none()).join().unwrap()
    });
    assert!(waited, "the turn was had beside another writer");
    let alone = || scratch.store.begin_write_alone_within(Duration::from_millis(1));
    let waited =
        std::thread::scope(|scope| scope.spawn(move || alone().unwrap().is_none()).join().unwrap());
    assert!(waited, "the turn was had beside another writer");
    assert!((Duration::from_millis(290)..Duration::from_secs(20)).contains(&begun.elapsed()));
    drop(txn);
    assert!(scratch.store.begin_write_within(Duration::from_secs(20)).unwrap().is_some());
    assert!(scratch.store.begin_write_within(Duration::ZERO).unwrap().is_some());
    assert!(scratch.store.begin_write_alone_within(Duration::from_secs(20)).unwrap().is_some());
    assert!(scratch.store.begin_write_within(Duration::MAX).unwrap().is_some());
}

/// A transaction that commits and reads on sees its own commit, also while other threads wait to
/// write.
#[test]
fn a_commit_that_reads_on_sees_itself() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    txn.create_table("t", &TableOptions::new()).unwrap();
    txn.commit().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let store = &scratch.store;
            scope.spawn(move || {
                for i in 0..100 {
                    let mut txn = store.begin_write().unwrap();
                    let table = txn.table("t").unwrap();
                    let value = (thread * 1000 + i).to_be_bytes();
                    txn.put(table, b"last", &value).unwrap();
                    let txn = txn.commit_and_read(Durability::Eventual).unwrap();
                    let table = txn.table("t").unwrap();
                    assert_eq!(txn.get(table, b"last").unwrap().unwrap(), value);
                }
            });
        }
    });
    scratch.check();
}
