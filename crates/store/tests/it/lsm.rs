//! The log-structured engine on files of the system, with its threads: what the simulator, which
//! runs it on one thread, does not see.

use std::path::Path;
use std::time::{Duration, Instant};

use hedgerow::Durability;
use hedgerow::Error;
use hedgerow::key::prefix;
use hedgerow::lsm::{Batch, Db, Keyspace, KeyspaceOptions, Options, Readable};

/// Small sizes, so that little work goes through everything.
fn options() -> Options {
    Options::new()
        .create(true)
        .durability(Durability::None)
        .memtable_bytes(64 << 10)
        .segment_bytes(128 << 10)
        .table_bytes(64 << 10)
}

fn open(path: &Path) -> (Db, Keyspace) {
    let db = options().open(path).unwrap();
    let options = KeyspaceOptions { separation_threshold: 200, ..Default::default() };
    let space = db.keyspace("space", options).unwrap();
    (db, space)
}

fn value(n: u64) -> Vec<u8> {
    // Every fifth one is separated.
    let len = if n.is_multiple_of(5) { 300 } else { 20 };
    n.to_le_bytes().repeat(len / 8)
}

/// Hunts for a commit that is lost among those of other threads, or seen in part.
#[test]
fn threads_commit_at_once_and_readers_see_whole_batches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (db, space) = open(&path);
    let (db, space) = (&db, &space);
    const WRITERS: u64 = 4;
    const COMMITS: u64 = 400;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                for n in 0..COMMITS {
                    let mut batch = Batch::new();
                    for part in [b'a', b'b'] {
                        let key = [&[part], &writer.to_be_bytes()[..]].concat();
                        batch.put(space, &key, &n.to_be_bytes()).unwrap();
                        let own = [&key[..], &n.to_be_bytes()].concat();
                        batch.put(space, &own, &value(n)).unwrap();
                    }
                    let durable = n % 50 == 0;
                    let durability = if durable { Durability::Durable } else { Durability::None };
                    db.write_with(batch, durability).unwrap();
                }
            });
        }
        scope.spawn(move || {
            for _ in 0..300 {
                for writer in 0..WRITERS {
                    let keys =
                        [b'a', b'b'].map(|part| [&[part], &writer.to_be_bytes()[..]].concat());
                    let both = db.multi_get(space, &keys).unwrap();
                    assert_eq!(both[0], both[1], "two halves of a batch");
                }
            }
        });
    });
    let verify = |db: &Db, space: &Keyspace| {
        assert_eq!(db.range(space, ..).unwrap().count() as u64, 2 * WRITERS * (COMMITS + 1));
        for writer in 0..WRITERS {
            let key = [&b"a"[..], &writer.to_be_bytes()].concat();
            assert_eq!(db.get(space, &key).unwrap(), Some((COMMITS - 1).to_be_bytes().to_vec()));
            for n in 0..COMMITS {
                let own = [&key[..], &n.to_be_bytes()].concat();
                assert_eq!(db.get(space, &own).unwrap(), Some(value(n)), "{writer} {n}");
            }
        }
        let report = db.check().unwrap();
        assert!(report.is_sound(), "{:?}", report.damage);
    };
    verify(db, space);
    db.compact().unwrap();
    verify(db, space);
}

/// Hunts for a second opener that is let in, and for a lock that outlives its holder.
/// Zeros only: each key is the beginning of all later ones.
#[test]
fn keys_longer_than_tables_that_begin_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let zeros = vec![0; 200_000];
    let lens: Vec<usize> = (0..400).map(|n| n * 500).collect();
    let (db, space) = open(&path);
    for &len in lens.iter().step_by(2).chain(lens.iter().skip(1).step_by(2).rev()) {
        db.put(&space, &zeros[..len], &len.to_le_bytes()).unwrap();
    }
    let longest = vec![7; 1 << 20];
    db.put(&space, &longest, b"longest").unwrap();
    let longer = [&longest[..], &[7]].concat();
    assert!(matches!(db.put(&space, &longer, b""), Err(Error::Size { max: 1_048_576, .. })));
    let look = |db: &Db, space: &Keyspace| {
        let found = db.range(space, ..=zeros.as_slice()).unwrap();
        let found: Vec<usize> = found.map(|entry| entry.unwrap().0.len()).collect();
        assert_eq!(found, lens);
        for &len in lens.iter().step_by(7) {
            assert_eq!(db.get(space, &zeros[..len]).unwrap().unwrap(), len.to_le_bytes());
            assert!(db.get(space, &zeros[..len + 1]).unwrap().is_none());
        }
        assert_eq!(db.get(space, &longest).unwrap().unwrap(), b"longest");
    };
    look(&db, &space);
    db.close().unwrap();
    let (db, space) = open(&path);
    look(&db, &space);
    db.compact().unwrap();
    look(&db, &space);
    assert!(db.check().unwrap().is_sound());
}

#[test]
fn one_opener_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    assert!(matches!(Options::new().open(&path), Err(Error::Path { .. })));
    let (db, space) = open(&path);
    db.put(&space, b"key", b"value").unwrap();
    assert!(matches!(options().open(&path), Err(Error::Locked { .. })));
    drop(db);
    let (db, space) = open(&path);
    assert_eq!(db.get(&space, b"key").unwrap().as_deref(), Some(&b"value"[..]));
    std::fs::write(folder.path().join("letter"), "dear").unwrap();
    assert!(matches!(options().open(folder.path()), Err(Error::NotAStore { .. })));
}

/// Hunts for space that is not given back: garbage in tables and in segments.
#[test]
fn what_was_overwritten_and_deleted_gives_its_space_back() {
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = open(&folder.path().join("db"));
    let long = |n: u64| n.to_le_bytes().repeat(128);
    let count = 4_000_u64;
    for round in 0..3 {
        for n in 0..count {
            let n = n * 7 % count;
            db.put(&space, &n.to_be_bytes(), &long(n + round)).unwrap();
        }
    }
    db.delete_range(&space, ..&(count / 2).to_be_bytes()).unwrap();
    db.compact().unwrap();
    let live = count / 2 * (8 + 1024);
    let stat = db.stat();
    assert!(stat.bytes() * 100 <= live * 110, "{} of {live}: {stat:?}", stat.bytes());
    assert_eq!(stat.levels[6].entries, count / 2 + 1, "and the name of the keyspace");
    for n in count / 2..count {
        assert_eq!(db.get(&space, &n.to_be_bytes()).unwrap(), Some(long(n + 2)));
    }
    let files = std::fs::read_dir(db.path()).unwrap();
    let on_disk: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(on_disk * 100 <= live * 115, "{on_disk} of {live}");
}

/// The bytes of all files of a store.
fn bytes_on_disk(db: &Db) -> u64 {
    let files = std::fs::read_dir(db.path()).unwrap();
    // A file may go while the list is read.
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Hunts for space beyond the bound while half of a store is overwritten and half deleted, and
/// after that is compacted.
#[test]
fn space_stays_within_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    let db = options().open(folder.path().join("db")).unwrap();
    let space = db
        .keyspace("space", KeyspaceOptions { separation_threshold: 500, ..Default::default() })
        .unwrap();
    let (count, entry_bytes) = (24_000_u64, 16 + 1024);
    let key = |n: u64| (u128::from(n) << 64 | u128::from(n)).to_be_bytes();
    let value = |n: u64| n.to_le_bytes().repeat(128);
    let order = |n: u64| n * 7919 % count;
    let mut live = 0;
    let mut most = 0;
    let mut look = |live: u64, n: u64| {
        if n.is_multiple_of(500) && live > count / 3 {
            most = most.max(bytes_on_disk(&db) * 100 / (live * entry_bytes));
        }
    };
    for n in 0..count {
        db.put(&space, &key(order(n)), &value(n)).unwrap();
        live += 1;
        look(live, n);
    }
    for n in 0..count / 2 {
        db.put(&space, &key(order(n)), &value(n + 1)).unwrap();
        look(live, n);
    }
    for n in count / 2..count {
        db.delete(&space, &key(order(n))).unwrap();
        live -= 1;
    }
    // The threads in the background get their turns when the machine gives them some.
    assert!(most <= 170, "{most} % of what is there: {:?}", db.stat());
    // What was deleted is not known to be garbage while that stands in memory only. From then on
    // the store comes back to its bound by itself.
    db.flush().unwrap();
    let begun = Instant::now();
    while bytes_on_disk(&db) * 100 > live * entry_bytes * 140 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} of {live}", bytes_on_disk(&db));
        std::thread::sleep(Duration::from_millis(10));
    }
    db.compact().unwrap();
    let after = bytes_on_disk(&db) * 100 / (live * entry_bytes);
    assert!(after <= 110, "{after} % of what is there: {:?}", db.stat());
    for n in 0..count {
        let expected = (n < count / 2).then(|| value(n + 1));
        assert_eq!(db.get(&space, &key(order(n))).unwrap(), expected);
    }
}

/// Flips bytes of every file of a closed store: opening and reading give the same results as before
/// or an error that names the file; nothing panics.
#[test]
fn damage_is_told_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (db, space) = open(&path);
    for n in 0..300_u64 {
        db.put(&space, &n.to_be_bytes(), &value(n)).unwrap();
    }
    db.flush().unwrap();
    db.put(&space, b"in the log", b"only").unwrap();
    db.close().unwrap();
    let read = |path: &Path| -> hedgerow::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let db = Options::new().open(path)?;
        let space = db.keyspace("space", KeyspaceOptions::default())?;
        db.range(&space, ..)?.collect()
    };
    let whole = read(&path).unwrap();
    let copy = folder.path().join("copy");
    for file in std::fs::read_dir(&path).unwrap() {
        let name = file.unwrap().file_name();
        let bytes = std::fs::read(path.join(&name)).unwrap();
        for at in (0..bytes.len()).step_by(97.max(bytes.len() / 40)) {
            std::fs::create_dir(&copy).unwrap();
            for other in std::fs::read_dir(&path).unwrap() {
                let other = other.unwrap();
                std::fs::copy(other.path(), copy.join(other.file_name())).unwrap();
            }
            let mut changed = bytes.clone();
            changed[at] ^= 0x04;
            std::fs::write(copy.join(&name), changed).unwrap();
            match read(&copy) {
                Ok(found) => {
                    let is_prefix = found.iter().all(|entry| whole.contains(entry));
                    assert!(is_prefix && found.len() + 1 >= whole.len(), "{name:?} {at}");
                }
                Err(Error::Corrupt { path, .. } | Error::NotAStore { path, .. }) => {
                    assert_eq!(path, copy.join(&name), "at {at}");
                }
                Err(other) => panic!("{name:?} {at}: {other}"),
            }
            std::fs::remove_dir_all(&copy).unwrap();
        }
    }
}

/// Hunts for a get that reads more than the value, once what finds it was read: through the queue
/// and alone, for values of one sector and across several.
#[test]
fn a_get_reads_its_value_and_nothing_else() {
    // Folders of build results lie on disks, those of the system for temporary files often do not.
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = folder.path().join("db");
    let long = |n: u64| n.to_le_bytes().repeat(64 + (n % 700) as usize);
    let keys: Vec<[u8; 8]> = (0..3_000_u64).map(|n| (n * 7 % 3_000).to_be_bytes()).collect();
    let (db, space) = open(&path);
    for n in 0..3_000 {
        db.put(&space, &u64::to_be_bytes(n), &long(n)).unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    let (db, space) = open(&path);
    let scanned = db.range(&space, ..).unwrap().keys_only().map(Result::unwrap).count();
    assert_eq!(scanned, keys.len());
    let before = db.stat().reads;
    assert_eq!(before.values, 0, "a scan of keys reads no values");
    let (queued, alone) = keys.split_at(2_000);
    let values = db.multi_get(&space, queued).unwrap();
    let between = db.stat().reads;
    for (key, value) in queued.iter().zip(values) {
        assert_eq!(value, Some(long(u64::from_be_bytes(*key))));
    }
    for key in alone {
        let value = db.get(&space, key).unwrap();
        assert_eq!(value, Some(long(u64::from_be_bytes(*key))));
    }
    let after = db.stat().reads;
    assert_eq!((between.gets - before.gets, after.gets - between.gets), (2_000, 1_000));
    assert_eq!((between.values - before.values, after.values - between.values), (2_000, 1_000));
    // What the scan read ahead of itself it did not leave in the cache.
    assert!(after.blocks - before.blocks <= 8, "{after:?}");
    assert_eq!(after.others, before.others, "{after:?}");
    assert!(between.depth_max >= 32 && between.turns <= 1_000, "{between:?}");
    assert_eq!(db.multi_get(&space, &[b"absent"]).unwrap(), [None]);
}

/// Hunts for a value that is not found because it was not handed to the system yet.
#[test]
fn values_that_are_held_back_are_read() {
    const COUNT: u8 = 100;
    const INSIDE: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (db, space) = open(&path);
    let written = || {
        let files = std::fs::read_dir(&path).unwrap();
        // The engine may have removed a file in the meantime.
        let contents = files.map(|entry| std::fs::read(entry.unwrap().path()).unwrap_or_default());
        // Single such bytes may stand in what is random.
        let is_inside = |window: &&[u8]| **window == [0xa7; INSIDE];
        contents.map(|bytes| bytes.windows(INSIDE).filter(is_inside).count()).sum::<usize>()
    };
    (0..COUNT).for_each(|n| db.put(&space, &[n], &[0xa7; 300]).unwrap());
    let keys: Vec<[u8; 1]> = (0..COUNT).map(|n| [n]).collect();
    let check = |db: &Db, space: &Keyspace| {
        let is_right = |value: Option<Vec<u8>>| value.is_some_and(|value| value == [0xa7; 300]);
        assert!(keys.iter().all(|key| is_right(db.get(space, key).unwrap())));
        assert!(db.multi_get(space, &keys).unwrap().into_iter().all(is_right));
        let scanned: Vec<_> = db.range(space, ..).unwrap().map(Result::unwrap).collect();
        assert!(scanned.iter().map(|entry| entry.0[0]).eq(0..COUNT));
        assert!(scanned.into_iter().all(|entry| is_right(Some(entry.1))));
        let mut cursor = db.cursor(space).unwrap();
        let entry = cursor.seek(&[COUNT / 2]).unwrap();
        assert!(is_right(entry.map(|entry| entry.value().unwrap())));
    };
    check(&db, &space);
    assert_eq!(written(), 0, "it is held back");
    let snapshot = db.snapshot();
    db.sync().unwrap();
    assert!(written() >= usize::from(COUNT) * (300 - INSIDE + 1));
    check(&db, &space);
    assert_eq!(snapshot.get(&space, &[7]).unwrap().as_deref(), Some(&[0xa7; 300][..]));
    drop(snapshot);
    db.close().unwrap();
    let (db, space) = open(&path);
    check(&db, &space);
}

/// Hunts for an answer that is given twice, not at all or for another key, where values are shown
/// and not copied: keys that are there twice and keys that are not, in memory and on the disk.
#[test]
fn values_are_shown_as_they_are_copied() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let (db, space) = open(&folder.path().join("db"));
    let value = |n: u64| n.to_le_bytes().repeat(1 + (n % 90) as usize);
    for n in 0..2_000 {
        if n == 1_500 {
            db.compact().unwrap();
        }
        db.put(&space, &u64::to_be_bytes(2 * n), &value(n)).unwrap();
    }
    let wanted = |n: u64| n * 1_103_515_245 % 4_100;
    let snapshot = db.snapshot();
    db.delete_range(&space, &500_u64.to_be_bytes()..).unwrap();
    for batch in 0..20 {
        let mut numbers: Vec<u64> = (batch * 300..(batch + 1) * 300).map(wanted).collect();
        numbers[7] = numbers[200];
        let keys: Vec<[u8; 8]> = numbers.iter().map(|n| n.to_be_bytes()).collect();
        let expected = |end: u64| {
            let value = |n: &u64| (n.is_multiple_of(2) && *n < end).then(|| value(n / 2));
            numbers.iter().map(value).map(Some).collect::<Vec<_>>()
        };
        let mut shown = vec![None; keys.len()];
        let mut see = |number: usize, value: Option<&[u8]>| {
            let before = shown[number].replace(value.map(<[u8]>::to_vec));
            assert!(before.is_none(), "{number} is shown twice");
        };
        snapshot.multi_get_with(&space, &keys, &mut see).unwrap();
        assert_eq!(shown, expected(4_000));
        assert_eq!(
            snapshot.multi_get(&space, &keys).unwrap(),
            shown.into_iter().flatten().collect::<Vec<_>>()
        );
        let mut shown = vec![None; keys.len()];
        db.multi_get_with(&space, &keys, |number, value| {
            shown[number] = Some(value.map(<[u8]>::to_vec));
        })
        .unwrap();
        assert_eq!(shown, expected(500));
        for (key, expected) in keys.iter().zip(expected(4_000)) {
            let value = snapshot.get_with(&space, key, |value| value.map(<[u8]>::to_vec)).unwrap();
            assert_eq!(Some(value), expected);
        }
    }
}

/// Hunts for memory that was not charged: the parts add up to no more than the limit while entries
/// are written, merged, looked up and scanned, with far more data than that.
#[test]
fn the_memory_limit_is_kept() {
    const LIMIT: u64 = 6 << 20;
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let options = Options::new().create(true).durability(Durability::None).memory_limit(LIMIT);
    let db = options.open(folder.path().join("db")).unwrap();
    let options = KeyspaceOptions { separation_threshold: 200, ..Default::default() };
    let space = db.keyspace("space", options).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let long = |n: u64| n.to_le_bytes().repeat(if n.is_multiple_of(3) { 20 } else { 150 });
    let count = 20_000_u64;
    let (samples, log) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut samples, mut log) = (0, 0);
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let memory = db.stat().memory;
                assert!(memory.limit == LIMIT && memory.total() <= LIMIT, "{memory:?}");
                samples += 1;
                log = log.max(memory.log);
                std::thread::sleep(Duration::from_millis(1));
            }
            (samples, log)
        });
        for n in 0..count {
            db.put(&space, &(n * 7919 % count).to_be_bytes(), &long(n * 7919 % count)).unwrap();
        }
        db.compact().unwrap();
        for first in (0..count).step_by(500) {
            let keys: Vec<_> =
                (first..first + 500).map(|n| (n * 31 % count).to_be_bytes()).collect();
            let values = db.multi_get(&space, &keys).unwrap();
            for (key, value) in keys.iter().zip(values) {
                assert_eq!(value, Some(long(u64::from_be_bytes(*key))));
            }
        }
        let entries = db.range(&space, ..).unwrap().map(Result::unwrap);
        assert!(entries.eq((0..count).map(|n| (n.to_be_bytes().to_vec(), long(n)))));
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        watcher.join().unwrap()
    });
    let memory = db.stat().memory;
    assert!(samples > 10 && db.stat().bytes() > 2 * LIMIT, "{samples}");
    // As long as the log was needed and there was room.
    assert!(log > 0 && memory.log == 0, "{log} {memory:?}");
    assert!(memory.blocks + memory.values + memory.finders > LIMIT / 4, "{memory:?}");
}

/// Hunts for a scan that reads each value by itself, that reads values that were not asked for, or
/// that answers otherwise when it reads ahead: from both ends, of a part, before and after values
/// were collected.
#[test]
fn scans_read_ahead_what_they_come_to() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = folder.path().join("db");
    let count = 2_000_u64;
    let long = |n: u64| n.to_le_bytes().repeat(if n.is_multiple_of(4) { 4 } else { 128 });
    let (db, space) = open(&path);
    for round in 0..2 {
        for n in 0..count {
            let n = n * 7919 % count;
            db.put(&space, &n.to_be_bytes(), &long(n + round)).unwrap();
        }
    }
    let expected: Vec<_> = (0..count).map(|n| (n.to_be_bytes().to_vec(), long(n + 1))).collect();
    let check = || {
        let all = || db.range(&space, ..).unwrap();
        assert!(all().map(Result::unwrap).eq(expected.iter().cloned()));
        assert!(all().rev().map(Result::unwrap).eq(expected.iter().rev().cloned()));
        let part = db.range(&space, 300_u64.to_be_bytes()..1_700_u64.to_be_bytes()).unwrap();
        assert!(part.map(Result::unwrap).eq(expected[300..1_700].iter().cloned()));
        let part = db.range(&space, prefix([0, 0, 0, 0, 0, 0, 5])).unwrap().rev();
        assert!(part.map(Result::unwrap).eq(expected[1_280..1_536].iter().rev().cloned()));
        assert_eq!(all().take(3).map(Result::unwrap).collect::<Vec<_>>(), expected[..3]);
        let (mut both, mut wanted) = (all(), expected.iter().cloned());
        for n in 0..=count {
            let found = if n % 3 == 0 { both.next_back() } else { both.next() };
            let wanted = if n % 3 == 0 { wanted.next_back() } else { wanted.next() };
            assert_eq!(found.map(Result::unwrap), wanted);
        }
    };
    check();
    db.compact().unwrap();
    check();
    db.close().unwrap();
    let (db, space) = open(&path);
    let keys = db.range(&space, ..).unwrap().keys_only().map(|entry| entry.unwrap().0);
    assert!(keys.eq(expected.iter().map(|entry| entry.0.clone())));
    let before = db.stat().reads;
    assert_eq!((before.values, before.prefetched), (0, 0));
    let entries = db.range(&space, ..).unwrap().map(Result::unwrap);
    assert!(entries.eq(expected.iter().cloned()));
    let after = db.stat().reads;
    assert_eq!(after.values, 0);
    assert!(after.prefetched > 0 && after.prefetched < count / 5, "{after:?}");
    assert!(after.ahead > before.ahead || after.blocks < 40, "{after:?}");
}

/// Changes a byte in the middle of the one place of the store's files where `bytes` stand.
fn damage(path: &Path, bytes: &[u8]) {
    let mut changed = 0;
    for file in std::fs::read_dir(path).unwrap() {
        let file = file.unwrap().path();
        let mut content = std::fs::read(&file).unwrap();
        let Some(at) = content.windows(bytes.len()).position(|window| window == bytes) else {
            continue;
        };
        content[at + bytes.len() / 2] ^= 1;
        std::fs::write(&file, content).unwrap();
        changed += 1;
    }
    assert_eq!(changed, 1, "the value stands in one file");
}

/// Hunts for values that are read only when a scan comes to them, for damage that is told before
/// the scan comes to it or not at all, and for a store that cannot be closed while it reads.
#[test]
fn a_long_scan_reads_early_and_tells_late() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let count = 6_000_u64;
    let bad = count * 2 / 3 + 5;
    let long = |n: u64| n.to_le_bytes().repeat(40);
    for threshold in [200, 4096] {
        let path = folder.path().join(threshold.to_string());
        let open = || {
            let db = options().memory_limit(4 << 20).open(&path).unwrap();
            let options = KeyspaceOptions { separation_threshold: threshold, ..Default::default() };
            let space = db.keyspace("space", options).unwrap();
            (db, space)
        };
        let (db, space) = open();
        for n in 0..count {
            db.put(&space, &n.to_be_bytes(), &long(n)).unwrap();
        }
        db.compact().unwrap();
        // The last window of values was asked for before the scan came to it.
        let (mut last, mut asked) = (0, 0);
        for (n, entry) in (0..).zip(db.range(&space, ..).unwrap()) {
            assert_eq!(entry.unwrap(), (u64::to_be_bytes(n).to_vec(), long(n)));
            let prefetched = db.stat().reads.prefetched;
            if prefetched > asked {
                (last, asked) = (n, prefetched);
            }
        }
        assert!(last < count - 100, "{last}");
        assert_eq!(last > 0, threshold == 200);
        // The store goes while a scan is in the middle of what is read early, or before.
        let mut scan = db.range(&space, ..).unwrap();
        assert_eq!(scan.by_ref().take(3_000).filter(Result::is_ok).count(), 3_000);
        drop(db);
        let left = scan.map(Result::unwrap).map(|entry| entry.0);
        assert!(left.eq((3_000..count).map(|n: u64| n.to_be_bytes().to_vec())));
        for stop in [1_000, 2_345, 5_000] {
            let (db, space) = open();
            let mut scan = db.range(&space, ..).unwrap();
            assert_eq!(scan.by_ref().take(stop).filter(Result::is_ok).count(), stop);
            drop(scan);
            db.close().unwrap();
        }
        damage(&path, &long(bad));
        let (db, space) = open();
        let entries = db.range(&space, ..).unwrap().take_while(Result::is_ok).count() as u64;
        // Where values stand in blocks, a block is damaged as a whole.
        let most = if threshold == 200 { 0 } else { 40 };
        assert!((bad - most..=bad).contains(&entries), "{entries} before {bad}");
        let error = db.range(&space, ..).unwrap().find_map(Result::err).unwrap();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        let first = db.range(&space, ..).unwrap().take(entries as usize);
        assert!(first.filter(Result::is_ok).count() as u64 == entries);
    }
}

/// Everything that is in a folder: names, content, and when it was changed.
fn picture(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>, std::time::SystemTime)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .map(|path| {
            let changed = path.metadata().unwrap().modified().unwrap();
            (path.clone(), std::fs::read(&path).unwrap(), changed)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn readers_change_nothing_and_need_no_lock_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (db, space) = open(&path);
    for n in 0..5000_u64 {
        db.put(&space, &n.to_be_bytes(), &value(n)).unwrap();
    }
    assert!(matches!(options().open_read_only(&path), Err(Error::Locked { .. })));
    db.close().unwrap();
    let before = picture(&path);
    let readers = [0; 3].map(|_| options().open_read_only(&path).unwrap());
    for reader in &readers {
        let space = reader.find_keyspace("space").unwrap().unwrap();
        assert_eq!(reader.range(&space, ..).unwrap().count(), 5000);
        assert!(reader.check().unwrap().is_sound());
        assert_eq!(reader.get(&space, &7_u64.to_be_bytes()).unwrap(), Some(value(7)));
    }
    assert!(matches!(options().open(&path), Err(Error::Locked { .. })), "readers have it");
    drop(readers);
    assert!(picture(&path) == before);
    // Without a lock file no process is kept out, and the reader keeps what it needs.
    std::fs::remove_file(path.join("LOCK")).unwrap();
    let reader = options().open_read_only(&path).unwrap();
    assert!(!path.join("LOCK").exists());
    let (db, space) = open(&path);
    db.delete_range(&space, ..).unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let space = reader.find_keyspace("space").unwrap().unwrap();
    for entry in reader.range(&space, ..).unwrap() {
        let (key, found) = entry.unwrap();
        assert_eq!(found, value(u64::from_be_bytes(key.try_into().unwrap())));
    }
    assert_eq!(reader.range(&space, ..).unwrap().count(), 5000);
}
