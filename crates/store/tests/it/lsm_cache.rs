//! What the log-structured engine has in memory when a get comes: what was written or merged just
//! now, and what stands near to what was read, if there is room; and that answers do not depend on
//! it.

use std::path::Path;

use hedgerow::Durability;
use hedgerow::lsm::{Batch, Db, Keyspace, KeyspaceOptions, Options, Readable};

const COUNT: u64 = 20_000;

/// What is written at once makes so few tables that no merge begins by itself beside the gets: it
/// takes the blocks of the tables that it replaces out of the cache one by one, and a get that
/// comes then reads them.
fn open(path: &Path, memory: u64) -> (Db, Keyspace) {
    let options = Options::new().create(true).durability(Durability::None).memory_limit(memory);
    let options = options.memtable_bytes(1 << 20).table_bytes(512 << 10);
    let db = options.open(path).unwrap();
    let space = db.keyspace("space", KeyspaceOptions::default()).unwrap();
    (db, space)
}

/// Spread, so that neighbours of time are none of the key.
fn key(n: u64) -> [u8; 16] {
    let spread = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    *[spread, n.to_be_bytes()].concat().first_chunk().unwrap()
}

fn value(n: u64, round: u64) -> Vec<u8> {
    format!("{n} of {round}, {}", n * round).into_bytes()
}

/// Each key is written anew in each round, and every fifth one deleted in the last.
fn write(db: &Db, space: &Keyspace, round: u64) {
    let numbers: Vec<u64> = (0..COUNT).collect();
    for chunk in numbers.chunks(100) {
        let mut batch = Batch::new();
        for &n in chunk {
            match n % 5 == 0 && round == 2 {
                true => batch.delete(space, &key(n)).unwrap(),
                false => batch.put(space, &key(n), &value(n, round)).unwrap(),
            }
        }
        db.write(batch).unwrap();
    }
}

/// Gets all keys, and some that are not there; returns how many blocks were read.
fn verify(db: &Db, space: &Keyspace, round: u64) -> u64 {
    let before = db.stat().reads.blocks;
    for n in 0..COUNT {
        let expected = Some(value(n, round)).filter(|_| n % 5 != 0 || round != 2);
        assert_eq!(db.get(space, &key(n)).unwrap(), expected, "{n} in round {round}");
        let shown = db.get_with(space, &key(n), |value| value.map(<[u8]>::to_vec)).unwrap();
        assert_eq!(shown, expected);
        assert_eq!(db.get(space, &key(n)[..15]).unwrap(), None);
        assert_eq!(db.get(space, &key(n + COUNT)).unwrap(), None);
    }
    db.stat().reads.blocks - before
}

/// Hunts for gets that read from the disk what the store had in its hands just before.
#[test]
fn what_was_written_or_merged_is_in_memory() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let (db, space) = open(&folder.path().join("db"), 64 << 20);
    for round in 0..3 {
        write(&db, &space, round);
        db.flush().unwrap();
        assert_eq!(verify(&db, &space, round), 0, "after the flush of round {round}");
        db.compact().unwrap();
        assert_eq!(verify(&db, &space, round), 0, "after the merges of round {round}");
    }
    let stat = db.stat();
    let tables = stat.table_bytes();
    let kept = stat.memory.blocks;
    assert!(kept < 3 * tables, "{kept} bytes of tables of {tables}, some of which are gone");
}

/// Hunts for a store that reads one block after the other to get into memory, where there is room
/// for all of it.
#[test]
fn neighbours_are_read_together_while_there_is_room() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = folder.path().join("db");
    let (db, space) = open(&path, 64 << 20);
    write(&db, &space, 1);
    db.compact().unwrap();
    let blocks = db.stat().table_bytes() / (8 << 10);
    db.close().unwrap();
    let (db, space) = open(&path, 64 << 20);
    let reads = verify(&db, &space, 1);
    assert!((1..blocks / 2).contains(&reads), "{reads} reads of {blocks} blocks");
    assert_eq!(verify(&db, &space, 1), 0);
}

/// Where the system's cache may hold files, blocks stand in their maps: the memory limit is for
/// what finds them, so that a store several times as large is read once. Tables that are merged
/// away leave no map behind, which would keep their room on the disk.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[test]
fn blocks_in_maps_need_little_memory_and_go_with_their_tables() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = folder.path().join("db");
    let open = |is_cached: bool| {
        let options = Options::new().create(true).durability(Durability::None);
        let options = options.memory_limit(4 << 20).memtable_bytes(256 << 10);
        let db = options.table_bytes(128 << 10).system_cache(is_cached).open(&path).unwrap();
        let space = db.keyspace("space", KeyspaceOptions::default()).unwrap();
        (db, space)
    };
    let (db, space) = open(true);
    let long = |n: u64, round: u64| [value(n, round), vec![n as u8; 400]].concat();
    let verify = |db: &Db, space: &Keyspace, round: u64| {
        let before = db.stat().reads.blocks;
        for n in 0..COUNT {
            assert_eq!(db.get(space, &key(n)).unwrap(), Some(long(n, round)), "{n}");
        }
        db.stat().reads.blocks - before
    };
    for round in 0..3 {
        for n in 0..COUNT {
            db.put(&space, &key(n), &long(n, round)).unwrap();
        }
        db.compact().unwrap();
        verify(&db, &space, round);
        assert_eq!(verify(&db, &space, round), 0);
        let stat = db.stat();
        assert!(stat.table_bytes() > 2 * (4 << 20) && stat.memory.blocks < 4 << 20, "{stat:?}");
        let maps = maps_of(&path);
        assert!(!maps.is_empty() && !maps.iter().any(|map| map.contains("(deleted)")), "{maps:?}");
    }
    drop((space, db));
    let (db, space) = open(false);
    verify(&db, &space, 2);
    assert_eq!(maps_of(&path), [""; 0]);
}

/// The maps that this process has of tables of a store.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn maps_of(path: &Path) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let is_ours = |map: &&str| map.contains(path.to_str().unwrap()) && map.contains(".table");
    maps.lines().filter(is_ours).map(str::to_owned).collect()
}

/// Tells this test that it runs in a process that may have few files open.
const FEW_FILES: &str = "HEDGEROW_TEST_FEW_FILES";

/// A store may have more tables than the process may have files open, in both ways of reading.
#[test]
fn a_store_has_more_tables_than_files_may_be_open() {
    if std::env::var_os(FEW_FILES).is_none() {
        let name = std::thread::current().name().unwrap().to_owned();
        let status = std::process::Command::new("sh")
            .args(["-c", r#"ulimit -n 48 && exec "$0" --exact "$1""#])
            .arg(std::env::current_exe().unwrap())
            .arg(&name)
            .env(FEW_FILES, "")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    for is_cached in [false, true] {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let options = Options::new().create(true).durability(Durability::None);
        let options = options.memory_limit(4 << 20).memtable_bytes(128 << 10);
        let options = options.table_bytes(8 << 10).system_cache(is_cached);
        let db = options.open(folder.path().join("db")).unwrap();
        let space = db.keyspace("space", KeyspaceOptions::default()).unwrap();
        for round in 0..3 {
            write(&db, &space, round);
            verify(&db, &space, round);
            db.compact().unwrap();
            verify(&db, &space, round);
        }
        let tables: u64 = db.stat().levels.iter().map(|level| level.tables).sum();
        assert!(tables > 48, "{tables} tables");
        assert_eq!(db.range(&space, ..).unwrap().count() as u64, COUNT - COUNT / 5);
    }
}
