//! Functions that share commits: each has its answer, and failures stay with those that failed.
//! Those of the combiner alone need no store, so that Miri runs them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::*;
use crate::Durability;
use crate::os::sim::{Config, SimSystem};
use crate::tree::{Snapshot, Store, TableOptions, WriteTxn};

/// The store's maximum size.
const BYTES_MAX: u64 = 4 << 20;

fn store() -> Store {
    let disk = SimSystem::new(0, Config::default());
    let builder = Store::builder().system(Arc::new(disk)).max_size(BYTES_MAX);
    let store = builder.create("/disk/store").unwrap();
    store.write(|txn| txn.create_table("t", &TableOptions::new()).map(drop)).unwrap();
    store
}

fn put(txn: &mut WriteTxn, key: &[u8]) -> Result<()> {
    let table = txn.table("t")?;
    txn.put(table, key, b"")
}

fn keys(store: &Store) -> Vec<Vec<u8>> {
    let txn = store.begin_read().unwrap();
    let table = txn.table("t").unwrap();
    let mut cursor = txn.cursor(table).unwrap();
    let mut keys = Vec::new();
    while let Some(entry) = cursor.next(&txn).unwrap() {
        keys.push(entry.key.to_vec());
    }
    keys
}

/// Has the functions of `count` threads stand in one commit: the first one leads and waits in its
/// own commit until the others have left theirs, and does something then. What each call answered.
fn at_once_after<T: Send>(
    store: &Store,
    count: usize,
    last: impl Fn() + Sync,
    call: impl Fn(usize) -> T + Sync,
) -> Vec<std::thread::Result<T>> {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            store.write(|_| {
                barrier.wait();
                while locked(&store.inner.combiner.waiting).jobs.len() < count {
                    std::thread::yield_now();
                }
                last();
                Ok::<_, Error>(())
            })
        });
        barrier.wait();
        let call = &call;
        let others: Vec<_> = (0..count).map(|i| scope.spawn(move || call(i))).collect();
        let _ = first.join().unwrap();
        others.into_iter().map(|thread| thread.join()).collect()
    })
}

fn at_once<T: Send>(
    store: &Store,
    count: usize,
    call: impl Fn(usize) -> T + Sync,
) -> Vec<std::thread::Result<T>> {
    at_once_after(store, count, || (), call)
}

#[test]
fn functions_that_come_together_are_one_commit() {
    let store = store();
    let before = store.begin_read().unwrap().id();
    let ids =
        at_once(&store, 8, |i| store.write(|txn| put(txn, &[i as u8]).map(|()| txn.id())).unwrap());
    let ids: Vec<u64> = ids.into_iter().map(|id| id.unwrap()).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && *id > before), "{ids:?} after {before}");
    assert_eq!(keys(&store).len(), 8);
    assert!(!locked(&store.inner.combiner.waiting).is_led);
}

#[test]
fn who_fails_or_panics_leaves_no_trace_in_the_others() {
    let store = store();
    let answers = at_once(&store, 6, |i| {
        store.write(|txn| {
            put(txn, &[i as u8])?;
            match i {
                1 => Err(Error::argument("mine")),
                2 => panic!("planned"),
                // It leaves a savepoint open.
                3 => txn.savepoint().map(drop),
                // Writes until one fails half-way, and does not look at that.
                4 => {
                    let table = txn.table("t")?;
                    let value = [0; 1 << 10];
                    let puts = (0..BYTES_MAX / 512).map(|n| n.to_be_bytes());
                    let failed = puts.map(|key| txn.put(table, &key, &value)).find(Result::is_err);
                    assert!(matches!(failed, Some(Err(Error::StoreFull { .. }))), "{failed:?}");
                    Ok(())
                }
                _ => Ok(()),
            }
        })
    });
    for (i, answer) in answers.into_iter().enumerate() {
        match (i, answer) {
            (1, Ok(Err(Error::Argument { .. }))) | (2, Err(_)) => {}
            // The failure is reported although the function did not look at it.
            (4, Ok(Err(_))) => {}
            (1 | 2 | 4, other) => panic!("{i}: {other:?}"),
            (_, answer) => answer.unwrap().unwrap(),
        }
    }
    assert_eq!(keys(&store), [[0], [3], [5]]);
}

#[test]
fn one_alone_that_fails_commits_nothing() {
    let store = store();
    let before = store.begin_read().unwrap().id();
    let answer: Result<()> = store.write(|txn| {
        put(txn, b"a")?;
        Err(Error::Interrupted)
    });
    assert!(matches!(answer, Err(Error::Interrupted)));
    assert!(
        catch_unwind(AssertUnwindSafe(|| store.write(|_| -> Result<()> { panic!() }))).is_err()
    );
    assert_eq!(store.begin_read().unwrap().id(), before);
    store.write(|txn| put(txn, b"b")).unwrap();
    assert_eq!(keys(&store), [b"b"]);
}

#[test]
fn all_are_told_that_the_commit_failed() {
    let store = store();
    let interrupt = store.interrupt();
    let called = AtomicUsize::new(0);
    let answers = at_once_after(
        &store,
        4,
        || interrupt.set(true),
        |i| {
            store.write(|txn| {
                called.fetch_add(1, SeqCst);
                // Nothing is read or written that would notice the flag before the commit does.
                Ok::<_, Error>((i, txn.id()))
            })
        },
    );
    assert_eq!(called.load(SeqCst), 4);
    for answer in answers {
        let error = answer.unwrap().unwrap_err();
        assert!(matches!(error, Error::CommitFailed { .. } | Error::Interrupted), "{error}");
    }
    interrupt.set(false);
    store.write(|txn| put(txn, b"a")).unwrap();
    assert_eq!(keys(&store), [b"a"]);
}

#[test]
fn many_threads_lose_nothing() {
    let store = store();
    let (threads, each) = (16, 200);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let store = &store;
            scope.spawn(move || {
                for i in 0..each {
                    let key = [thread as u8, i as u8];
                    let durability = [Durability::Durable, Durability::None][thread % 2];
                    store.write_with(durability, |txn| put(txn, &key)).unwrap();
                }
            });
        }
    });
    assert_eq!(keys(&store).len(), threads * each);
}

/// Threads add numbers that they have on their own stacks to a list.
#[test]
fn a_combiner_runs_what_borrows_from_its_callers() {
    let (threads, each) = (4, if cfg!(miri) { 5 } else { 500 });
    let combiner = Combiner::<Vec<u64>>::new();
    let list = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (combiner, list) = (&combiner, &list);
            scope.spawn(move || {
                for i in 0..each {
                    let (number, mut seen) = (thread * 1000 + i, 0);
                    let mut work = |list: &mut Vec<u64>| {
                        list.push(number);
                        seen = list.len();
                        true
                    };
                    let commit = &mut |jobs: &mut [Job<Vec<u64>>]| {
                        let mut list = locked(list);
                        jobs.iter_mut().for_each(|job| assert!(job.call(&mut list)));
                        Ok(())
                    };
                    combiner.run(&mut work, commit).unwrap();
                    assert_eq!(locked(list)[seen - 1], number);
                }
            });
        }
    });
    let mut list = list.into_inner().unwrap();
    list.sort_unstable();
    let all = (0..threads).flat_map(|thread| (0..each).map(move |i| thread * 1000 + i));
    assert_eq!(list, all.collect::<Vec<_>>());
}

#[test]
fn a_leader_that_panics_leaves_nobody_waiting() {
    let combiner = Combiner::<()>::new();
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        let leader = scope.spawn(|| {
            combiner.run(&mut |()| true, &mut |_| {
                barrier.wait();
                while locked(&combiner.waiting).jobs.is_empty() {
                    std::thread::yield_now();
                }
                panic!("planned");
            })
        });
        barrier.wait();
        let other = combiner.run(&mut |()| true, &mut |_| Ok(()));
        assert!(matches!(other, Err(Error::CommitFailed { .. })), "{other:?}");
        assert!(leader.join().is_err());
    });
    let again = combiner.run(&mut |()| true, &mut |jobs| {
        let stay = jobs.iter_mut().filter_map(|job| job.call(&mut ()).then_some(())).count();
        if stay == 1 { Ok(()) } else { Err(Error::Interrupted) }
    });
    assert!(again.is_ok(), "{again:?}");
}
