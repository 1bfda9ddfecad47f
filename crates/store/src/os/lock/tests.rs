//! The lock file between openers in one process, between real processes that are killed, and
//! with hostile contents.

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::super::children;
use super::super::system::Rights;
use super::*;

mod fork;

const PRIVATE: Rights<'_> = Rights::Mode(0o600);
const TRY: Option<Duration> = Some(Duration::ZERO);
/// Tells a child what to do, see [`child`].
const ROLE: &str = "HEDGEROW_TEST_LOCK_ROLE";
const LOCK_PATH: &str = "HEDGEROW_TEST_LOCK_PATH";

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    (folder, path)
}

fn opened(path: &Path) -> SharedLock {
    let lock = open(path, false, PRIVATE).unwrap();
    lock.publish_opened();
    lock
}

/// Runs [`child`] in a process of its own, and returns when it said that it is ready.
fn start(role: &str, path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "os::lock::tests::child", "--nocapture"])
        .env(ROLE, role)
        .env(LOCK_PATH, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut process = children::spawn(&mut command).unwrap();
    let out = std::io::BufReader::new(process.stdout.take().unwrap());
    let ready = out.lines().any(|line| line.unwrap().contains("ready"));
    assert!(ready, "the child ended before it was ready");
    process
}

fn kill(mut process: Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}

/// What a child process does; nothing in the run of all tests.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let path = PathBuf::from(std::env::var_os(LOCK_PATH).unwrap());
    let ready = || {
        println!("ready");
        std::io::stdout().flush().unwrap();
    };
    let lock = open(&path, false, PRIVATE).unwrap();
    match role.as_str() {
        "die while opening" => assert!(lock.is_first()),
        "write" => assert!(lock.lock_writer(None).unwrap()),
        "write and leave a child" => {
            assert!(lock.lock_writer(None).unwrap());
            fork::leave_a_child(|| drop(std::io::stdin().read_line(&mut String::new())));
        }
        "wait to write" => {
            ready();
            assert!(lock.lock_writer(None).unwrap());
        }
        "read" => {
            for snapshot in 0..100 {
                let slot = lock.take_slot().unwrap();
                lock.slot_word(slot).store(1000 + snapshot, Ordering::SeqCst);
            }
        }
        "exclude" => {
            ready();
            exclude(&lock)
        }
        "count" => {
            for _ in 0..2000 {
                assert!(lock.lock_writer(None).unwrap());
                let word = lock.word(0);
                let count = word.load(Ordering::Relaxed);
                std::hint::spin_loop();
                word.store(count + 1, Ordering::Relaxed);
                lock.unlock_writer();
            }
            return;
        }
        other => panic!("no such role: {other}"),
    }
    ready();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

#[test]
fn two_openers_in_one_process_are_two() {
    let (_folder, path) = folder();
    let first = open(&path, false, PRIVATE).unwrap();
    assert!(first.is_first());
    let in_between = std::thread::spawn({
        let path = path.clone();
        move || open(&path, false, PRIVATE).unwrap()
    });
    std::thread::sleep(Duration::from_millis(50));
    assert!(!in_between.is_finished(), "others wait until the opening is published");
    first.word(3).store(77, Ordering::SeqCst);
    first.publish_opened();
    let second = in_between.join().unwrap();
    assert!(!second.is_first() && !first.is_first());
    assert_eq!(second.word(3).load(Ordering::SeqCst), 77);
    assert!(first.lock_writer(TRY).unwrap());
    assert!(!second.lock_writer(TRY).unwrap() && !first.lock_writer(TRY).unwrap());
    let start = Instant::now();
    assert!(!second.lock_writer(Some(Duration::from_millis(60))).unwrap());
    assert!(start.elapsed() >= Duration::from_millis(60));
    second.unlock_writer();
    assert!(!second.lock_writer(TRY).unwrap(), "only the owner unlocks");
    drop(first);
    assert!(second.lock_writer(TRY).unwrap(), "closing gives the lock back");
    drop(second);
    let third = opened(&path);
    assert_eq!(third.word(3).load(Ordering::SeqCst), 0, "the first one resets the words");
}

#[test]
fn a_waiter_is_seen_and_woken() {
    let (_folder, path) = folder();
    let (owner, waiter) = (opened(&path), opened(&path));
    assert!(owner.lock_writer(TRY).unwrap());
    assert!(!owner.writer_is_wanted());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| waiter.lock_writer(None).unwrap());
        while !owner.writer_is_wanted() {
            std::thread::yield_now();
        }
        assert!(!waiter.writer_is_wanted(), "one's own threads do not count");
        owner.unlock_writer();
        assert!(waits.join().unwrap());
    });
    assert!(!owner.writer_is_wanted());
}

#[test]
fn slots_are_taken_given_back_and_grow() {
    let (_folder, path) = folder();
    let (one, two) = (opened(&path), opened(&path));
    let taken: Vec<u32> = (0..500)
        .map(|number| {
            let lock = if number % 2 == 0 { &one } else { &two };
            let slot = lock.take_slot().unwrap();
            assert_eq!(lock.slot_word(slot).load(Ordering::SeqCst), NOTHING);
            lock.slot_word(slot).store(number, Ordering::SeqCst);
            slot
        })
        .collect();
    let distinct: std::collections::BTreeSet<_> = taken.iter().collect();
    assert_eq!(distinct.len(), 500);
    for lock in [&one, &two] {
        let (readers, freed) = lock.readers();
        assert_eq!((readers.len(), freed), (500, 0));
        let mut sum = 0;
        lock.for_each_pinned(&mut |snapshot| sum += snapshot);
        assert_eq!(sum, 499 * 500 / 2);
        let me = &readers[0];
        assert_eq!(me.process, std::process::id());
        assert_eq!(me.thread, process::thread());
        assert!(process::now_unix_ns() - me.since_unix_ns < 60_000_000_000);
    }
    one.give_slot(taken[0]);
    one.give_slot(taken[1]);
    assert_eq!(two.readers().0.len(), 499, "only the owner gives a slot back");
    assert_eq!(one.take_slot().unwrap(), taken[0], "free slots are used again");
    drop(two);
    assert_eq!(one.readers().0.len(), 249);
}

#[test]
fn threads_take_distinct_slots() {
    let (_folder, path) = folder();
    let lock = opened(&path);
    let all: Vec<u32> = std::thread::scope(|scope| {
        let take = || (0..200).map(|_| lock.take_slot().unwrap()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 1600);
}

#[test]
fn a_killed_writer_loses_its_lock() {
    let (_folder, path) = folder();
    let lock = opened(&path);
    let writer = start("write", &path);
    assert!(!lock.lock_writer(Some(Duration::from_millis(50))).unwrap());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| lock.lock_writer(Some(Duration::from_secs(60))).unwrap());
        kill(writer);
        assert!(waits.join().unwrap());
    });
    lock.unlock_writer();
    assert!(lock.lock_writer(TRY).unwrap());
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_does_not_keep_its_dead_parent_alive() {
    let (_folder, path) = folder();
    let lock = opened(&path);
    let mut writer = start("write and leave a child", &path);
    // The writer's child lives until this is closed.
    let child_lives = writer.stdin.take();
    kill(writer);
    assert!(lock.lock_writer(Some(Duration::from_secs(60))).unwrap());
    assert_eq!(opened(&path).entry, 2, "the entry is not taken while the child has its byte");
    drop(child_lives);
}

#[test]
fn a_killed_waiter_is_forgotten() {
    let (_folder, path) = folder();
    let lock = opened(&path);
    assert!(lock.lock_writer(TRY).unwrap());
    let waiter = start("wait to write", &path);
    while !lock.writer_is_wanted() {
        std::thread::yield_now();
    }
    kill(waiter);
    assert!(!lock.writer_is_wanted());
    lock.unlock_writer();
    assert!(lock.lock_writer(TRY).unwrap());
}

#[test]
fn slots_of_a_killed_reader_are_freed() {
    let (_folder, path) = folder();
    let lock = opened(&path);
    let reader = start("read", &path);
    let (readers, freed) = lock.readers();
    assert_eq!((readers.len(), freed), (100, 0));
    assert!(readers.iter().all(|slot| slot.process == reader.id()));
    kill(reader);
    let mut pinned = 0;
    lock.for_each_pinned(&mut |_| pinned += 1);
    assert_eq!(pinned, 0);
    assert_eq!(lock.readers().1, 0, "the scan before has freed them");
    kill(start("read", &path));
    assert_eq!(lock.readers().1, 100);
}

#[test]
fn one_that_dies_while_opening_lets_the_next_one_be_first() {
    let (_folder, path) = folder();
    kill(start("die while opening", &path));
    assert!(open(&path, false, PRIVATE).unwrap().is_first());
    let living = start("read", &path);
    kill(living);
    assert!(open(&path, false, PRIVATE).unwrap().is_first(), "the dead do not count");
}

/// Takes the lock again and again, and ends if another process comes in while it has it.
fn exclude(lock: &SharedLock) -> ! {
    let me = u64::from(std::process::id());
    loop {
        let slot = lock.take_slot().unwrap();
        lock.slot_word(slot).store(me, Ordering::SeqCst);
        assert!(lock.lock_writer(None).unwrap());
        lock.word(1).store(me, Ordering::SeqCst);
        for _ in 0..100 {
            assert_eq!(lock.word(1).load(Ordering::SeqCst), me, "two have the lock");
        }
        lock.word(0).fetch_add(1, Ordering::SeqCst);
        lock.unlock_writer();
        lock.give_slot(slot);
    }
}

#[test]
fn processes_killed_at_random_break_nothing() {
    let (_folder, path) = folder();
    let lock = opened(&path);
    let mut children: Vec<Child> = (0..3).map(|_| start("exclude", &path)).collect();
    for round in 0..24_usize {
        let (victim, before) = (round % 3, lock.word(0).load(Ordering::SeqCst));
        std::thread::sleep(Duration::from_micros(round as u64 * 700 % 5000));
        let next = start("exclude", &path);
        kill(std::mem::replace(&mut children[victim], next));
        let end = Instant::now() + Duration::from_secs(60);
        while lock.word(0).load(Ordering::SeqCst) == before {
            assert!(Instant::now() < end, "nobody gets the lock any more");
            std::thread::yield_now();
        }
        let living: Vec<_> = children.iter().map(Child::id).collect();
        let (readers, _) = lock.readers();
        assert!(readers.iter().all(|reader| living.contains(&reader.process)));
    }
    for mut child in children {
        assert!(child.try_wait().unwrap().is_none(), "a child ended by itself");
        kill(child);
    }
    assert!(lock.lock_writer(TRY).unwrap());
    assert!(lock.readers().0.is_empty() && !lock.writer_is_wanted());
    assert!(lock.used() < SLOTS_MAX / 100, "slots of the dead are used again");
}

/// Runs several processes that add to a word under the lock.
fn start_and_count(path: &Path, processes: usize) -> u64 {
    let children: Vec<Child> = (0..processes)
        .map(|_| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["--exact", "os::lock::tests::child"])
                .env(ROLE, "count")
                .env(LOCK_PATH, path)
                .stdout(Stdio::null());
            children::spawn(&mut command).unwrap()
        })
        .collect();
    children.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
    processes as u64 * 2000
}

#[test]
fn the_lock_excludes_processes() {
    let (_folder, path) = folder();
    let lock = opened(&path);
    let expected = start_and_count(&path, 3);
    assert_eq!(lock.word(0).load(Ordering::SeqCst), expected);
}

#[test]
fn other_files_are_refused_and_half_made_ones_completed() {
    let _no_children = children::none();
    let (_folder, path) = folder();
    for content in [&b"some text that somebody wrote"[..], &[0xff; 100_000], b"hdg-lock\x02"] {
        std::fs::write(&path, content).unwrap();
        let error = open(&path, false, PRIVATE).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(std::fs::read(&path).unwrap(), content, "a refused file is left alone");
    }
    std::fs::remove_file(&path).unwrap();
    drop(opened(&path));
    let whole = std::fs::read(&path).unwrap();
    for blank in [0, 3, 5000, whole.len()] {
        std::fs::write(&path, vec![0; blank]).unwrap();
        assert!(opened(&path).take_slot().is_ok());
    }
    std::fs::write(&path, &whole[..16]).unwrap();
    assert!(opened(&path).take_slot().is_ok());
    // Zeros at the beginning alone do not make a lock file.
    let mut other = vec![0; 8192];
    other[4096..].fill(b'x');
    std::fs::write(&path, &other).unwrap();
    assert!(open(&path, false, PRIVATE).is_err());
    assert!(std::fs::read(&path).unwrap() == other);
}

/// Nothing of a lock file need be on the disk when the power is cut: any part of it may be missing.
#[test]
fn what_a_power_cut_leaves_of_a_lock_file_is_made_anew() {
    let _no_children = children::none();
    let (_folder, path) = folder();
    let lock = opened(&path);
    use_everything(&lock);
    let whole = std::fs::read(&path).unwrap();
    drop(lock);
    let mut state = 1_u64;
    let mut chance = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state >> 33
    };
    for round in 0..300 {
        let mut left = whole.clone();
        for sector in left.chunks_mut(512) {
            if chance() % 2 == 0 {
                sector.fill(0);
            }
        }
        left.truncate(if round % 2 == 0 { whole.len() } else { chance() as usize % whole.len() });
        // Children that other tests start have the old file open for a moment.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, &left).unwrap();
        let lock = opened(&path);
        assert!((0..100).all(|_| lock.take_slot().is_ok()), "round {round}");
        assert!(lock.lock_writer(TRY).unwrap());
    }
    // As long as a process has the file open, others must not replace its content.
    let lock = opened(&path);
    std::fs::write(&path, &whole[..5000]).unwrap();
    let error = open(&path, false, PRIVATE).err().unwrap();
    assert!(error.to_string().contains("shorter"), "{error}");
    std::fs::write(&path, &whole).unwrap();
    drop(lock);
}

/// LMDB writes its own table into a lock file of which it can lock the first byte.
#[test]
fn lmdb_keeps_away_from_a_lock_file_in_use_and_what_it_leaves_is_made_anew() {
    use super::super::unix::{bytes, calls};
    let _no_children = children::none();
    let (_folder, path) = folder();
    let lmdb = || std::fs::File::options().read(true).write(true).open(&path).unwrap();
    for len in [8, 8192, 5 << 20] {
        let mut table = vec![1; len];
        table[..8].copy_from_slice(&[0xde, 0xc0, 0xef, 0xbe, 1, 0, 1, 0]);
        if cfg!(target_endian = "big") {
            table[..4].reverse();
        }
        std::fs::write(&path, &table).unwrap();
        // A program of LMDB's has it open.
        let other = lmdb();
        bytes::share(&other, 0).unwrap();
        let refused = open(&path, false, PRIVATE).err().unwrap();
        assert!(refused.to_string().contains("has it open as LMDB's"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), table);
        drop(other);
        let locks = [opened(&path), opened(&path)];
        assert!(!locks[1].is_first());
        use_everything(&locks[0]);
        for lock in locks {
            assert!(!bytes::try_lock(&lmdb(), 0).unwrap());
            drop(lock);
        }
        assert!(bytes::try_lock(&lmdb(), 0).unwrap());
        assert!(calls::file_len(&lmdb()).unwrap() < 1 << 20);
    }
}

#[test]
fn hostile_contents_do_no_harm() {
    let (_folder, path) = folder();
    let len = {
        let lock = opened(&path);
        (0..100).for_each(|_| assert!(lock.take_slot().is_ok()));
        std::fs::metadata(&path).unwrap().len() as usize
    };
    let mut state = 1_u64;
    for round in 0..60_u64 {
        // The process joins first, so that nothing of the hostile contents is reset.
        let lock = opened(&path);
        let mut bytes = std::fs::read(&path).unwrap();
        for at in (16..len).step_by(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round | 1);
            let word = match round % 4 {
                0 => state,
                1 => u64::MAX,
                2 => state >> 62,
                _ => 1 << 32 | state >> 60,
            };
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        // In place, as another process would: the length must not change under the map.
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes[16..], 16).unwrap();
        use_everything(&lock);
        drop(opened(&path));
        drop(lock);
    }
    let lock = opened(&path);
    assert!(lock.lock_writer(TRY).unwrap(), "the next first opener makes it whole");
    assert_eq!(lock.readers().0.len(), 0);
}

fn use_everything(lock: &SharedLock) {
    let _ = lock.lock_writer(Some(Duration::from_millis(1))).unwrap();
    let _ = lock.writer_is_wanted();
    lock.unlock_writer();
    if let Ok(slot) = lock.take_slot() {
        lock.slot_word(slot).store(1, Ordering::SeqCst);
        lock.for_each_pinned(&mut |_| {});
        let _ = lock.readers();
        lock.give_slot(slot);
    }
}

/// A guest is in no shared table: it may open only when no other process has the store open, and
/// they only after it has closed.
#[test]
fn guests_and_others_keep_apart() {
    let (_folder, path) = folder();
    let other = opened(&path);
    let refused = file::guest(&path).err().unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
    drop(other);
    // Readers do not exclude each other, whether or not they may write the lock file.
    let reader = open(&path, true, PRIVATE).unwrap();
    reader.publish_opened();
    drop(file::guest(&path).unwrap());
    let writer = opened(&path);
    assert!(file::guest(&path).is_err());
    drop(writer);
    drop(file::guest(&path).unwrap());
    drop(reader);
    let guests = [file::guest(&path).unwrap(), file::guest(&path).unwrap()];
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| opened(&path));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waits.is_finished());
        // A process that only reads does not wait for guests.
        let reader = open(&path, true, PRIVATE).unwrap();
        reader.publish_opened();
        drop(reader);
        drop(guests);
        let other = waits.join().unwrap();
        assert!(file::guest(&path).is_err());
        drop(other);
    });
}

/// A lock file that was copied without its zeros gets its space back before it is mapped.
#[cfg(target_os = "linux")]
#[test]
fn a_lock_file_with_holes_is_filled() {
    use std::os::unix::fs::MetadataExt as _;
    let (_folder, path) = folder();
    drop(opened(&path));
    let len = std::fs::metadata(&path).unwrap().len();
    let identity = std::fs::read(&path).unwrap()[..16].to_vec();
    std::fs::write(&path, &identity).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len).unwrap();
    if std::fs::metadata(&path).unwrap().blocks() * 512 >= len {
        return; // A file system without holes.
    }
    let lock = opened(&path);
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= len);
    assert!(lock.lock_writer(TRY).unwrap());
    assert_eq!(std::fs::read(&path).unwrap()[..16], identity);
}

#[test]
fn who_may_only_read_is_a_guest() {
    // No process can make a file there, not even the superuser's.
    let path = Path::new("/sys/hedgerow-lock");
    assert!(open(path, false, PRIVATE).is_err());
    let lock = open(path, true, PRIVATE).unwrap();
    assert!(lock.is_first());
    lock.publish_opened();
    let slots: Vec<_> = (0..1000).map(|_| lock.take_slot().unwrap()).collect();
    lock.slot_word(slots[999]).store(5, Ordering::SeqCst);
    assert_eq!(lock.readers().0.len(), 1);
    assert!(lock.lock_writer(TRY).unwrap());
}
