//! Several real processes on one store: this test binary runs itself again in the parts that
//! other processes play.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hedgerow::Durability;
use hedgerow::Error;
use hedgerow::lsm::{self, Readable as _};
use hedgerow::tree::{Snapshot, Store, TableOptions};

use crate::{Scratch, all, begin};

/// The variable that gives a child its role and its store.
const PART: &str = "HEDGEROW_TEST_PART";
const STORE: &str = "HEDGEROW_TEST_STORE";

/// Starts this binary again to play a part.
pub(crate) fn start(part: &str, store: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["processes::play_a_part", "--exact", "--ignored", "--nocapture"])
        .args(["--test-threads", "1"])
        .env(PART, part)
        .env(STORE, store)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for a line of a child that begins with `word`, and returns the rest of it.
pub(crate) fn line(child: &mut Child, word: &str) -> String {
    let stdout = child.stdout.take().unwrap();
    let mut lines = BufReader::new(stdout).lines();
    let found = lines
        .by_ref()
        .map(Result::unwrap)
        .find_map(|line| line.split(word).nth(1).map(|rest| rest.trim().to_owned()));
    // Goes on reading, so that the child never waits for us.
    std::thread::spawn(move || lines.for_each(drop));
    found.unwrap_or_else(|| panic!("the child ended without saying \"{word}\""))
}

/// Not a test of its own: the part that another test gave to this process.
#[test]
#[ignore = "a part that other tests start"]
fn play_a_part() {
    let part = std::env::var(PART).expect("other tests start this one, with a part to play");
    let path = PathBuf::from(std::env::var_os(STORE).unwrap());
    match part.as_str() {
        "count up" => count_up(&path, Durability::Durable),
        "count up unsynced" => count_up(&path, Durability::None),
        "hold a snapshot" => hold_a_snapshot(&path),
        "hold the writer" => hold_the_writer(&path),
        "make and put" => make_and_put(&path),
        "fork" => fork(&path),
        "fork with a log" => fork_with_a_log(&path),
        "spill" => crate::memory::spill(&path),
        "append" => crate::memory::append(&path),
        "idle" => crate::memory::idle(&path),
        other => panic!("no such part: {other}"),
    }
}

/// Commits 1, 2, 3 ... for ever, each in two tables at once.
fn count_up(path: &Path, durability: Durability) {
    let store = Store::open(path).unwrap();
    for i in 1u64.. {
        let mut txn = store.begin_write().unwrap();
        let last = txn.create_table("last", &TableOptions::new()).unwrap();
        let all = txn.create_table("all", &TableOptions::new()).unwrap();
        txn.put(last, b"last", &i.to_be_bytes()).unwrap();
        txn.put(all, &i.to_be_bytes(), &[i as u8; 300]).unwrap();
        txn.commit_with(durability).unwrap();
        if i == 20 {
            println!("counting");
        }
    }
}

/// Makes the store, unless another process was faster, and puts the process' number.
fn make_and_put(path: &Path) {
    let store = Store::builder().open_or_create(path).unwrap();
    let (mut txn, table) = begin(&store);
    txn.put(table, &std::process::id().to_be_bytes(), b"v").unwrap();
    txn.commit().unwrap();
}

/// Of processes that make a new store where one was removed that is still open, one does, and the
/// others join it; the old one goes on by itself.
#[test]
fn a_removed_store_that_is_still_open_does_not_hinder_a_new_one() {
    for _ in 0..5 {
        let scratch = Scratch::new();
        let count = |store: &Store| {
            let txn = store.begin_read().unwrap();
            all(&txn, txn.table("t").unwrap()).len()
        };
        let put = |key: &[u8]| {
            let (mut txn, table) = begin(&scratch.store);
            txn.put(table, key, b"v").unwrap();
            txn.commit().unwrap();
        };
        put(b"a");
        std::fs::remove_file(scratch.path()).unwrap();
        let makers = (0..6).map(|_| start("make and put", &scratch.path()));
        let mut makers: Vec<_> = makers.collect();
        put(b"b");
        assert!(makers.iter_mut().all(|maker| maker.wait().unwrap().success()));
        let new = Store::open(scratch.path()).unwrap();
        assert_eq!((count(&new), count(&scratch.store)), (6, 2));
        assert_eq!(new.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
        scratch.check();
    }
}

fn hold_a_snapshot(path: &Path) {
    let store = Store::open(path).unwrap();
    let txn = store.begin_read().unwrap();
    println!("holding {}", txn.id());
    std::thread::sleep(Duration::from_secs(600));
}

fn hold_the_writer(path: &Path) {
    let store = Store::open(path).unwrap();
    let (mut txn, table) = begin(&store);
    txn.put(table, b"never", b"committed").unwrap();
    println!("holding the writer");
    std::thread::sleep(Duration::from_secs(600));
}

/// Ends a child at whatever instruction it is.
fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The two tables of `count_up` agree, and hold at least `least` numbers.
fn assert_counted<S: Snapshot>(txn: &S) -> u64 {
    let last = txn.get(txn.table("last").unwrap(), b"last").unwrap().unwrap().to_vec();
    let last = u64::from_be_bytes(last.try_into().unwrap());
    let table = txn.table("all").unwrap();
    assert_eq!(txn.count(table).unwrap().keys, last);
    for (i, (key, value)) in (1..).zip(all(txn, table)) {
        assert_eq!(key, u64::to_be_bytes(i));
        assert_eq!(value, [i as u8; 300]);
    }
    last
}

#[test]
fn a_reader_follows_a_writer_in_another_process() {
    let scratch = Scratch::new();
    let mut child = start("count up", &scratch.path());
    line(&mut child, "counting");
    let mut seen = 0;
    for _ in 0..50 {
        let txn = scratch.store.begin_read().unwrap();
        let last = assert_counted(&txn);
        assert!(last >= seen.max(20));
        seen = last;
        std::thread::sleep(Duration::from_millis(2));
    }
    kill(child);
}

/// A writer that dies at any instruction loses no commit and leaves no lock.
#[test]
fn killed_writers_lose_no_commit() {
    for part in ["count up", "count up unsynced"] {
        let scratch = Scratch::new();
        for wait in 0..6 {
            let mut child = start(part, &scratch.path());
            line(&mut child, "counting");
            std::thread::sleep(Duration::from_millis(7 * wait));
            let before = {
                let txn = scratch.store.begin_read().unwrap();
                assert_counted(&txn)
            };
            kill(child);
            // Dropped again: the child must start from its own beginning.
            let mut txn = scratch.store.begin_write().unwrap();
            assert!(assert_counted(&txn) >= before);
            txn.drop_table("all").unwrap();
            txn.drop_table("last").unwrap();
            txn.commit().unwrap();
            scratch.check();
        }
    }
}

/// As above, but no other process has the store open: the next opener recovers it alone.
#[test]
fn a_store_opens_after_its_only_process_was_killed() {
    let scratch = Scratch::new();
    let path = scratch.path();
    let Scratch { store, folder: _folder } = scratch;
    drop(store);
    for part in ["count up", "count up unsynced"] {
        let mut child = start(part, &path);
        line(&mut child, "counting");
        std::thread::sleep(Duration::from_millis(15));
        kill(child);
        let store = Store::open(&path).unwrap();
        let mut txn = store.begin_write().unwrap();
        assert!(assert_counted(&txn) >= 20);
        txn.drop_table("all").unwrap();
        txn.drop_table("last").unwrap();
        txn.commit().unwrap();
        assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn the_lock_of_a_dead_writer_is_taken_over() {
    let scratch = Scratch::new();
    let mut child = start("hold the writer", &scratch.path());
    line(&mut child, "holding the writer");
    assert!(scratch.store.try_begin_write().unwrap().is_none());
    kill(child);
    let txn = scratch.store.begin_write().unwrap();
    assert!(txn.tables().unwrap().is_empty());
}

/// Nothing that waits for a writer of another process waits longer than its interruption flag is
/// down: neither a writer nor a sync, nor compaction.
#[test]
fn an_interruption_ends_the_wait_for_another_process() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    txn.create_table("unsynced", &TableOptions::new()).unwrap();
    txn.commit_with(Durability::None).unwrap();
    let mut child = start("hold the writer", &scratch.path());
    line(&mut child, "holding the writer");
    let (store, flag) = (&scratch.store, scratch.store.interrupt());
    let waits: [&(dyn Fn() -> hedgerow::Result<()> + Sync); 3] =
        [&|| store.begin_write().map(drop), &|| store.sync(), &|| {
            store.compact(&mut |_, _| {}).map(drop)
        }];
    for wait in waits {
        flag.set(false);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(wait);
            std::thread::sleep(Duration::from_millis(60));
            assert!(!waiting.is_finished());
            flag.set(true);
            assert!(matches!(waiting.join().unwrap(), Err(Error::Interrupted)));
        });
    }
    flag.set(false);
    kill(child);
    scratch.store.begin_write().unwrap().abort();
    scratch.store.sync().unwrap();
    scratch.check();
}

/// A reader in another process is seen and pins its pages; a dead one no longer.
#[test]
fn readers_are_visible_and_dead_ones_are_forgotten() {
    let scratch = Scratch::new();
    let mut child = start("hold a snapshot", &scratch.path());
    let commit: u64 = line(&mut child, "holding").parse().unwrap();
    let readers = scratch.store.readers().unwrap();
    assert_eq!(readers.len(), 1);
    assert_eq!((readers[0].process, readers[0].commit), (child.id(), commit));
    for i in 0..20u8 {
        let (mut txn, table) = begin(&scratch.store);
        txn.put(table, b"k", &vec![i; 50_000]).unwrap();
        txn.commit().unwrap();
    }
    kill(child);
    let end = Instant::now() + Duration::from_secs(60);
    while !scratch.store.readers().unwrap().is_empty() {
        assert!(Instant::now() < end, "the reader of a dead process is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    scratch.check();
}

/// A child that was forked must not use what it inherited: its parent's slots and locks.
#[test]
fn a_forked_child_is_refused() {
    let scratch = Scratch::new();
    let mut child = start("fork", &scratch.path());
    let told = line(&mut child, "the fork was refused:");
    assert_eq!(told, "true");
    assert!(child.wait().unwrap().success());
}

#[expect(unsafe_code, reason = "there is no safe way to fork")]
fn fork(path: &Path) {
    let store = Store::open(path).unwrap();
    let mut readers = [store.begin_read().unwrap(), store.begin_read().unwrap()];
    // SAFETY: the child only calls into the store, whose calls must answer at once in a fork, and
    // leaves by `_exit`; the allocator is usable after a fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = store.begin_read().is_err() && store.begin_write().is_err();
        let [first, second] = &mut readers;
        let refused = refused && first.renew().is_err() && second.refresh().is_err();
        first.reset();
        drop(readers);
        // SAFETY: ends the process without running the parent's destructors.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = -1;
    // SAFETY: `status` is a valid place to write to.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    store.begin_write().unwrap().abort();
    // What the child released belongs to the parent, which still has it.
    assert_eq!(store.readers().unwrap().len(), 2);
    drop(readers);
    assert_eq!(store.readers().unwrap().len(), 0);
    println!("the fork was refused: {}", libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
}

/// The same on the engine of logs: what a child inherited it can read, but it writes nothing and
/// removes nothing, neither by a call nor by dropping what it has. It does not hinder its parent.
#[test]
fn a_forked_child_leaves_a_store_of_logs_alone() {
    let scratch = Scratch::new();
    let mut child = start("fork with a log", &scratch.path().with_file_name("log"));
    let told = line(&mut child, "the child ended with");
    assert_eq!(told, "0");
    assert!(child.wait().unwrap().success());
}

/// Makes a child that does something and says by its status whether that is as it should be.
#[expect(unsafe_code, reason = "there is no safe way to fork")]
fn child(work: impl FnOnce() -> bool) -> libc::pid_t {
    // SAFETY: the child only calls into the store, whose calls must answer at once in a fork, and
    // leaves by `_exit`; the allocator is usable after a fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: takes a number; one that hangs ends by a signal.
        unsafe { libc::alarm(30) };
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let status = worked.map_or(2, |is_right| i32::from(!is_right));
        // SAFETY: ends the process without running the parent's destructors.
        unsafe { libc::_exit(status) };
    }
    child
}

/// The status with which a child ended; that of a signal is greater.
#[expect(unsafe_code, reason = "a call of the system")]
fn status_of(child: libc::pid_t) -> i32 {
    let mut status = -1;
    // SAFETY: `status` is a valid place to write to.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 256 + status }
}

/// Whether all calls that write are refused.
fn all_are_refused(db: &lsm::Db, space: &lsm::Keyspace, mut txn: lsm::Transaction) -> bool {
    txn.put(space, b"child", b"").unwrap();
    let refusals = [
        db.put(space, b"child", b""),
        db.sync(),
        db.flush(),
        db.compact(),
        db.checkpoint(db.path().with_file_name("copy")),
        db.pin("child").map(drop),
        db.keyspace("child", Default::default()).map(drop),
        txn.commit(),
        db.clone().close(),
    ];
    refusals.iter().all(|done| matches!(done, Err(Error::Locked { .. })))
}

fn fork_with_a_log(path: &Path) {
    let key = |n: u32| n.to_be_bytes();
    let options = lsm::Options::new().create(true).memory_limit(4 << 20);
    let db = options.durability(Durability::None).open(path).unwrap();
    let separated = lsm::KeyspaceOptions { separation_threshold: 100, ..Default::default() };
    let space = db.keyspace("space", separated).unwrap();
    let put = |letter| (0..2000).for_each(|n| db.put(&space, &key(n), &[letter; 500]).unwrap());
    put(b'a');
    db.compact().unwrap();
    let (old, mut cursor) = (db.snapshot(), db.cursor(&space).unwrap());
    cursor.first().unwrap().unwrap();
    put(b'b');
    // The snapshot and the cursor see what is in files that nothing else needs.
    db.compact().unwrap();
    let (keys, txn): (Vec<_>, _) = ((0..500).map(key).collect(), db.transaction());
    let is_there = |found: Vec<Option<Vec<u8>>>, letter| {
        found.iter().all(|value| value.as_deref() == Some(&[letter; 500]))
    };
    // From here on this thread has a queue of reads.
    assert!(is_there(db.multi_get(&space, &keys).unwrap(), b'b'));
    let names = || {
        let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = names();
    let sleeper = child(|| {
        std::thread::sleep(Duration::from_secs(20));
        true
    });
    let mut parts = Some((db, old, cursor, txn));
    let user = child(|| {
        let (db, old, cursor, txn) = parts.take().unwrap();
        let reads = is_there(db.multi_get(&space, &keys).unwrap(), b'b')
            && is_there(old.multi_get(&space, &keys).unwrap(), b'a')
            && db.range(&space, ..).unwrap().count() == 2000
            && old.range(&space, ..).unwrap().count() == 2000;
        let are_refused = all_are_refused(&db, &space, txn);
        drop((cursor, old, db));
        reads && are_refused
    });
    let used = status_of(user);
    assert_eq!(names(), before);
    let (db, old, mut cursor, txn) = parts.take().unwrap();
    assert!(is_there(old.multi_get(&space, &keys).unwrap(), b'a'));
    assert_eq!(cursor.last().unwrap().unwrap().key, key(1999));
    db.put(&space, b"parent", b"").unwrap();
    drop((cursor, old, txn));
    db.close().unwrap();
    // The other child still has all files open.
    let db = lsm::Options::new().open(path).unwrap();
    let space = db.keyspace("space", Default::default()).unwrap();
    assert_eq!(db.range(&space, ..).unwrap().count(), 2001);
    assert!(db.check().unwrap().is_sound());
    #[expect(unsafe_code, reason = "a call of the system")]
    // SAFETY: the call takes numbers; the process is a child that was not waited for.
    unsafe {
        libc::kill(sleeper, libc::SIGKILL)
    };
    println!("the child ended with {used}");
}
