//! Functions that share commits: each has its answer, and failures stay with those that failed.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::*;
use crate::os::sim::{Config, SimSystem};
use crate::tree::{Snapshot, TableOptions};

fn store() -> Store {
    let disk = SimSystem::new(0, Config::default());
    let store = Store::builder().system(Arc::new(disk)).create("/disk/store").unwrap();
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
fn together_after<T: Send>(
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

fn together<T: Send>(
    store: &Store,
    count: usize,
    call: impl Fn(usize) -> T + Sync,
) -> Vec<std::thread::Result<T>> {
    together_after(store, count, || (), call)
}

#[test]
fn functions_that_come_together_are_one_commit() {
    let store = store();
    let before = store.begin_read().unwrap().id();
    let ids = together(&store, 8, |i| {
        store.write(|txn| put(txn, &[i as u8]).map(|()| txn.id())).unwrap()
    });
    let ids: Vec<u64> = ids.into_iter().map(|id| id.unwrap()).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && *id > before), "{ids:?} after {before}");
    assert_eq!(keys(&store).len(), 8);
    assert!(!locked(&store.inner.combiner.waiting).is_led);
}

#[test]
fn who_fails_or_panics_leaves_no_trace_in_the_others() {
    let store = store();
    let answers = together(&store, 6, |i| {
        store.write(|txn| {
            put(txn, &[i as u8])?;
            match i {
                1 => Err(Error::argument("mine")),
                2 => panic!("planned"),
                // An open savepoint, and an error that nobody looks at.
                3 => {
                    txn.savepoint()?;
                    let _ = txn.table("none");
                    Ok(())
                }
                _ => Ok(()),
            }
        })
    });
    for (i, answer) in answers.into_iter().enumerate() {
        match (i, answer) {
            (1, Ok(Err(Error::Argument { .. }))) | (2, Err(_)) => {}
            (1 | 2, other) => panic!("{i}: {other:?}"),
            (_, answer) => answer.unwrap().unwrap(),
        }
    }
    assert_eq!(keys(&store), [[0], [3], [4], [5]]);
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
    let answers = together_after(
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
    let (threads, each) = if cfg!(miri) { (3, 4) } else { (16, 200) };
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
