//! Each request is answered exactly once, with any number of them in flight, from few threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use super::*;
use crate::lsm::{Options, Readable};
use crate::os::sim::{self, SimSystem};

fn store(folder: &tempfile::TempDir) -> (Db, Keyspace) {
    let options = Options::new().create(true).memtable_bytes(64 << 10);
    let db = options.open(folder.path().join("db")).unwrap();
    let space = db.keyspace("space", Default::default()).unwrap();
    (db, space)
}

fn batch(space: &Keyspace, n: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(space, &n.to_be_bytes(), &[n as u8; 100]).unwrap();
    batch
}

/// Threads of this process whose names begin so.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read(task.unwrap().path().join("comm")).ok());
    names.filter(|comm| comm.starts_with(name.as_bytes())).count()
}

#[test]
fn any_number_of_commits_and_reads_wait_on_few_threads() {
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = store(&folder);
    const COUNT: u64 = 3_000;
    let durability =
        |n: u64| if n.is_multiple_of(7) { Durability::Durable } else { Durability::None };
    let writes: Vec<_> =
        (0..COUNT).map(|n| db.write_async(batch(&space, n), durability(n))).collect();
    // A thread that waits for its own commit beside them.
    db.put(&space, b"beside", b"").unwrap();
    writes.into_iter().for_each(|write| pollster::block_on(write).unwrap());
    let reads: Vec<_> = (0..COUNT).map(|n| db.get_async(&space, &n.to_be_bytes())).collect();
    for (n, read) in (0..COUNT).zip(reads) {
        assert_eq!(pollster::block_on(read).unwrap(), Some(vec![n as u8; 100]));
    }
    if cfg!(target_os = "linux") {
        assert!((1..=8 * 16).contains(&threads("hedgerow-ask")), "at most eight a store");
    }
    let keys: Vec<_> = (0..50_u64).map(|n| (n * 2 * COUNT / 50).to_be_bytes().to_vec()).collect();
    let values = pollster::block_on(db.multi_get_async(&space, keys.clone())).unwrap();
    assert_eq!(values, db.multi_get(&space, &keys).unwrap());
    assert_eq!(values.iter().flatten().count(), 25);
}

/// Batches take effect in the order in which they were handed over.
#[test]
fn the_last_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = store(&folder);
    for round in 0..40_u64 {
        let write = |n: u64| {
            let mut batch = Batch::new();
            batch.put(&space, b"key", &n.to_be_bytes()).unwrap();
            db.write_async(batch, Durability::None)
        };
        let writes: Vec<_> = (0..50).map(|n| write(round * 50 + n)).collect();
        writes.into_iter().for_each(|write| pollster::block_on(write).unwrap());
        let last = (round * 50 + 49).to_be_bytes().to_vec();
        assert_eq!(db.get(&space, b"key").unwrap(), Some(last));
    }
}

#[test]
fn callbacks_are_called_once_and_may_ask_again() {
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = store(&folder);
    let db = Arc::new(db);
    let (told, answers) = mpsc::channel();
    let (again, keyspace) = (Arc::clone(&db), space.clone());
    db.write_then(batch(&space, 1), Durability::Eventual, move |written| {
        written.unwrap();
        let tell = told.clone();
        again.get_then(&keyspace, &1_u64.to_be_bytes(), move |value| tell.send(value).unwrap());
        again.multi_get_then(&keyspace, vec![vec![1]], move |values| {
            told.send(values.map(|mut values| values.remove(0))).unwrap();
        });
    });
    let mut found: Vec<_> = answers.iter().map(Result::unwrap).collect();
    found.sort();
    assert_eq!(found, [None, Some(vec![1; 100])]);
    // A callback that panics does no harm to others.
    db.write_then(batch(&space, 2), Durability::Eventual, |_| panic!("on purpose"));
    pollster::block_on(db.write_async(batch(&space, 3), Durability::Eventual)).unwrap();
    assert!(db.get(&space, &2_u64.to_be_bytes()).unwrap().is_some());
}

#[test]
fn what_is_refused_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = store(&folder);
    let other_folder = tempfile::tempdir().unwrap();
    let (other, theirs) = store(&other_folder);
    let refused = pollster::block_on(db.get_async(&theirs, b"key"));
    assert!(matches!(refused, Err(Error::Argument { .. })));
    let refused = pollster::block_on(db.write_async(batch(&theirs, 1), Durability::None));
    assert!(matches!(refused, Err(Error::Argument { .. })));
    drop(other);
    let mut txn = db.transaction();
    txn.get(&space, b"key").unwrap();
    txn.put(&space, b"key", b"ours").unwrap();
    db.put(&space, b"key", b"theirs").unwrap();
    assert!(matches!(
        pollster::block_on(txn.commit_async(Durability::Durable)),
        Err(Error::Conflict)
    ));
    let mut txn = db.transaction();
    txn.get(&space, b"key").unwrap();
    txn.put(&space, b"key", b"ours").unwrap();
    pollster::block_on(txn.commit_async(Durability::Durable)).unwrap();
    assert_eq!(db.stat().snapshots, 0, "what they saw is let go");
    pollster::block_on(db.transaction().commit_async(Durability::Durable)).unwrap();
    pollster::block_on(db.write_async(Batch::new(), Durability::Durable)).unwrap();
    db.drop_keyspace("space").unwrap();
    let refused = pollster::block_on(db.write_async(batch(&space, 1), Durability::None));
    assert!(matches!(refused, Err(Error::NoTable { .. })));
}

/// Transactions whose group has others in front of them that change what they read.
#[test]
fn one_of_two_in_a_group_conflicts() {
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = store(&folder);
    for round in 0..50_u64 {
        let transactions: Vec<_> = (0..4_u8)
            .map(|n| {
                let mut txn = db.transaction();
                txn.get(&space, b"key").unwrap();
                txn.put(&space, b"key", &[n, round as u8]).unwrap();
                txn
            })
            .collect();
        let commits: Vec<_> =
            transactions.into_iter().map(|txn| txn.commit_async(Durability::Durable)).collect();
        let done = commits.into_iter().map(pollster::block_on).filter(|done| done.is_ok()).count();
        assert_eq!(done, 1, "round {round}");
    }
}

/// Every earlier request is done and answered, also if a callback closes the store.
#[test]
fn closing_answers_everybody() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let (db, space) = store(&folder);
        let told = Arc::new(AtomicU64::new(0));
        for n in 0..200 {
            let told = Arc::clone(&told);
            db.write_then(batch(&space, n), Durability::None, move |done| {
                done.unwrap();
                told.fetch_add(1, Ordering::SeqCst);
            });
        }
        let reads: Vec<_> = (0..100_u64).map(|n| db.get_async(&space, &n.to_be_bytes())).collect();
        if round % 2 == 0 {
            db.close().unwrap();
        } else {
            let (tell, closed) = mpsc::channel();
            let db = Arc::new(std::sync::Mutex::new(Some(db)));
            let ours = Arc::clone(&db);
            let begin = db.lock().unwrap();
            if let Some(db) = &*begin {
                db.get_then(&space, b"", move |_| {
                    drop(ours.lock().unwrap().take());
                    tell.send(()).unwrap();
                });
            }
            drop(begin);
            closed.recv().unwrap();
        }
        for read in reads {
            drop(pollster::block_on(read).unwrap());
        }
        // The thread that closed the store does what is left, then.
        while told.load(Ordering::SeqCst) < 200 {
            std::thread::yield_now();
        }
        // It holds the store until it ends.
        while Options::new().open(folder.path().join("db")).is_err() {
            std::thread::yield_now();
        }
    }
}

/// If nothing may happen in the background, it is done at once.
#[test]
fn on_a_simulated_disk_answers_are_there_at_once() {
    let disk = SimSystem::new(1, sim::Config { reserve: 1 << 20, ..sim::Config::default() });
    let options = Options::new().create(true).system(Arc::new(disk));
    let db = options.open("/db").unwrap();
    let space = db.keyspace("space", Default::default()).unwrap();
    let mut written = db.write_async(batch(&space, 1), Durability::Durable);
    let mut read = db.get_async(&space, &1_u64.to_be_bytes());
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(Pin::new(&mut written).poll(&mut context), Poll::Ready(Ok(()))));
    assert!(matches!(Pin::new(&mut read).poll(&mut context), Poll::Ready(Ok(Some(_)))));
}
