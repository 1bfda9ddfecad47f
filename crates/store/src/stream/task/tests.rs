//! Asynchronous streams of both engines: what they give, how long it lives, and what it keeps.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Wake};
use std::time::{Duration, Instant};

use crate::lsm::{Db, Options};
use crate::stream::{AsyncSink, Run, RunPair, Scan, Sink, Snapshot, Source, Target, Values};
use crate::tree::{Snapshot as _, Store, TableOptions};

type Owned = (Vec<u8>, Vec<u8>);

/// Keys of several lengths that share their beginnings, and values that lie in the leaf, that need
/// pages of their own, or that are empty.
fn pair(n: u32) -> Owned {
    let key = [&b"some/folder/"[..], &n.to_be_bytes(), &vec![7; n as usize % 60]].concat();
    let len = [0, 100, 3_000, 20_000, 1, 150_000][n as usize % 6] / (1 + n as usize % 5);
    (key, vec![n as u8; len])
}

fn fill(target: &impl Target, pairs: u32) -> Vec<Owned> {
    let mut sink = Sink::new(target, "t").unwrap();
    let all: Vec<Owned> = (0..pairs).map(pair).collect();
    assert!(all.iter().all(|(key, value)| sink.put(key, value).unwrap()));
    sink.finish().unwrap();
    all
}

fn store(page_size: u32) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::builder().page_size(page_size).create(folder.path().join("store"));
    (folder, store.unwrap())
}

fn db() -> (tempfile::TempDir, Db) {
    let folder = tempfile::tempdir().unwrap();
    let db = Options::new().create(true).open(folder.path().join("db")).unwrap();
    (folder, db)
}

fn in_runs<S: Source>(source: &S, scan: &Scan) -> Vec<Owned> {
    let (mut stream, mut run) = (scan.stream(source).unwrap(), Run::default());
    let mut found = Vec::new();
    while pollster::block_on(stream.fill(&mut run)).unwrap() {
        assert!(!run.is_empty());
        found.extend(run.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    assert!(run.is_empty());
    found
}

fn in_pairs<S: Source>(source: &S, scan: &Scan) -> Vec<RunPair<S::Snapshot>> {
    let mut stream = scan.stream(source).unwrap().into_pairs();
    let mut found = Vec::new();
    while let Some(pair) = pollster::block_on(stream.next_pair()).unwrap() {
        found.push(pair);
    }
    assert!(pollster::block_on(stream.next_pair()).unwrap().is_none(), "it stays at its end");
    found
}

fn owned<S: Snapshot>(pairs: &[RunPair<S>]) -> Vec<Owned> {
    pairs.iter().map(RunPair::to_owned).collect()
}

fn gives_all(source: &impl Source, all: &[Owned]) {
    let backwards: Vec<Owned> = all.iter().rev().cloned().collect();
    let keys: Vec<Owned> = all.iter().map(|(key, _)| (key.clone(), Vec::new())).collect();
    let scan = Scan::new("t");
    for (scan, wanted) in [
        (scan.clone(), all),
        (scan.clone().reverse(), &backwards),
        (scan.clone().keys_only(), &keys),
        (scan.clone().skip(5).limit(100), &all[5..105]),
        (scan.clone().park_after(Duration::from_secs(60)), all),
        (scan.renewal(crate::stream::Renewal::never().pairs(100)), all),
    ] {
        assert!(in_runs(source, &scan) == wanted);
        assert!(owned(&in_pairs(source, &scan)) == wanted);
    }
}

#[test]
fn each_engine_gives_all() {
    for page_size in [4096, 65536] {
        let (_folder, store) = store(page_size);
        gives_all(&store, &fill(&store, 3_000));
    }
    let (_folder, db) = db();
    let all = fill(&db, 3_000);
    gives_all(&db, &all);
    db.compact().unwrap();
    gives_all(&db, &all);
}

#[test]
fn duplicates_are_given_one_by_one() {
    let (_folder, store) = store(4096);
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new().duplicates()).unwrap();
    let mut all = Vec::new();
    for (key, value) in (0..200_u16).flat_map(|key| (0..key % 40).map(move |value| (key, value))) {
        all.push((key.to_be_bytes().to_vec(), [b"value ", &value.to_be_bytes()[..]].concat()));
    }
    all.iter().for_each(|(key, value)| txn.put(table, key, value).unwrap());
    txn.commit().unwrap();
    assert_eq!(in_runs(&store, &Scan::new("t")), all);
    let first = Scan::new("t").values(Values::First);
    assert_eq!(owned(&in_pairs(&store, &first)).len(), 200 - 200_usize.div_ceil(40));
}

#[test]
fn pairs_outlive_the_stream_and_the_store() {
    let (folder, first) = store(4096);
    let (_folder, second) = db();
    let all = fill(&first, 2_500);
    fill(&second, 2_500);
    let (ours, theirs) = (in_pairs(&first, &Scan::new("t")), in_pairs(&second, &Scan::new("t")));
    let again = ours.clone();
    // Whatever is written later is not in what they keep.
    let mut txn = first.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    txn.clear_table(table).unwrap();
    txn.commit().unwrap();
    fill(&first, 10);
    drop((first, second));
    std::fs::remove_dir_all(folder.path().join("store")).ok();
    let of_another = std::thread::spawn(move || owned(&again)).join().unwrap();
    assert!(owned(&ours) == all && owned(&theirs) == all && of_another == all);
}

fn wait_for(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_snapshot_is_kept_as_long_as_something_of_it() {
    let (_folder, store) = store(4096);
    fill(&store, 20_000);
    let readers = || store.readers().unwrap().len();
    let mut stream = Scan::new("t").stream(&store).unwrap();
    let run = pollster::block_on(stream.next_run()).unwrap().unwrap();
    assert_eq!(readers(), 1);
    drop(stream);
    // The thread ends, and what waited in the queue is gone with it.
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(readers(), 1);
    drop(run);
    wait_for(|| readers() == 0);
    let mut stream = Scan::new("t").limit(9).stream(&store).unwrap().into_pairs();
    let mut last = None;
    while let Some(pair) = pollster::block_on(stream.next_pair()).unwrap() {
        last = Some(pair);
    }
    assert_eq!(readers(), 1);
    drop(last);
    wait_for(|| readers() == 0);
    drop(stream);
}

#[test]
fn a_parked_stream_keeps_nothing() {
    let (_folder, store) = store(4096);
    let all = fill(&store, 20_000);
    let scan = Scan::new("t").park_after(Duration::from_millis(20));
    let mut stream = scan.stream(&store).unwrap();
    let mut run = pollster::block_on(stream.next_run()).unwrap().unwrap();
    // The consumer has a run, others wait for it, and the thread waits for the consumer.
    wait_for(|| store.readers().unwrap().is_empty());
    let mut found = Vec::new();
    loop {
        found.extend(run.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
        if !pollster::block_on(stream.fill(&mut run)).unwrap() {
            break;
        }
    }
    assert!(found == all);
}

/// The threads of a stream and of a sink hold the store no longer than those: who closes it can
/// open it again, and a snapshot is given back.
#[test]
fn what_is_dropped_holds_nothing_of_its_store() {
    let (folder, mut db) = db();
    fill(&db, 3_000);
    for n in 0..20_u8 {
        let mut stream = Scan::new("t").stream(&db).unwrap();
        assert!(pollster::block_on(stream.next_run()).unwrap().is_some());
        drop(stream);
        db.close().unwrap();
        db = Db::open(folder.path().join("db")).unwrap();
        let sink = AsyncSink::new(Sink::new(&db, "u").unwrap(), 4).unwrap();
        let put = async { sink.put(vec![n], vec![]).await.await };
        assert!(pollster::block_on(put).unwrap());
        drop(sink);
        db.close().unwrap();
        db = Db::open(folder.path().join("db")).unwrap();
    }
    let (_folder, store) = store(4096);
    fill(&store, 3_000);
    for _ in 0..20 {
        let mut stream = Scan::new("t").stream(&store).unwrap();
        assert!(pollster::block_on(stream.next_run()).unwrap().is_some());
        drop(stream);
        assert!(store.readers().unwrap().is_empty());
    }
}

/// How often a task was woken.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_put_that_is_polled_again_and_again_is_woken_once() {
    let (_folder, store) = store(4096);
    fill(&store, 1);
    let sink = AsyncSink::new(Sink::new(&store, "t").unwrap(), 1).unwrap();
    // With the turn here the thread of the sink waits with the first pair; the second one fills the
    // queue.
    let turn = store.begin_write().unwrap();
    let put = |n| sink.put(pair(n).0, pair(n).1);
    let acks = [1, 2].map(|n| pollster::block_on(put(n)));
    let woken = Arc::new(Woken::default());
    let waker = Arc::clone(&woken).into();
    let mut third = pin!(put(3));
    for _ in 0..100 {
        assert!(third.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(turn);
    acks.into_iter().for_each(|ack| assert!(pollster::block_on(ack).unwrap()));
    assert!(pollster::block_on(async { third.await.await }).unwrap());
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
}
