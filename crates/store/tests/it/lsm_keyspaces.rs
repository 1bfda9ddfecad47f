//! Keyspaces of the log-structured engine come and go.

use std::path::Path;

use hedgerow::Durability;
use hedgerow::Error;
use hedgerow::lsm::{Batch, Db, Options, Readable};

fn open(path: &Path) -> Db {
    let options = Options::new().create(true).durability(Durability::None);
    let options = options.memtable_bytes(32 << 10).segment_bytes(64 << 10).table_bytes(32 << 10);
    options.open(path).unwrap()
}

fn fill(db: &Db, name: &str, value_bytes: usize) {
    let space = db.keyspace(name, Default::default()).unwrap();
    for n in 0..2_000_u32 {
        db.put(&space, &n.to_be_bytes(), &vec![7; value_bytes]).unwrap();
    }
}

#[test]
fn a_dropped_keyspace_is_gone_with_its_space() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = open(&path);
    fill(&db, "kept", 10);
    fill(&db, "inline", 300);
    fill(&db, "separated", 5_000);
    db.compact().unwrap();
    let before = db.stat().bytes();
    for name in ["inline", "separated"] {
        assert!(db.drop_keyspace(name).unwrap());
        assert!(!db.drop_keyspace(name).unwrap(), "it is gone already");
        assert!(db.find_keyspace(name).unwrap().is_none());
    }
    assert_eq!(db.keyspaces().unwrap(), [b"kept".to_vec()]);
    db.compact().unwrap();
    let after = db.stat().bytes();
    assert!(after * 20 < before, "{after} of {before} bytes are left");
    assert!(db.check().unwrap().is_sound());
    db.close().unwrap();
    let db = open(&path);
    assert_eq!(db.keyspaces().unwrap(), [b"kept".to_vec()]);
    let kept = db.find_keyspace("kept").unwrap().unwrap();
    assert_eq!(db.range(&kept, ..).unwrap().count(), 2_000);
    let anew = db.keyspace("inline", Default::default()).unwrap();
    assert_eq!(db.range(&anew, ..).unwrap().count(), 0, "one of the same name begins empty");
}

/// A table and its flushes for each would cost more than the keyspace. What is in tables, or much,
/// goes as before.
#[test]
fn small_keyspaces_that_come_and_go_make_no_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let open = || Options::new().create(true).durability(Durability::None).open(&path).unwrap();
    let tables = |db: &Db| db.stat().levels.iter().map(|level| level.tables).sum::<u64>();
    let db = open();
    for _ in 0..50 {
        let space = db.keyspace("small", Default::default()).unwrap();
        db.put(&space, b"key", b"value").unwrap();
        assert!(db.drop_keyspace("small").unwrap());
    }
    assert_eq!(tables(&db), 0);
    fill(&db, "large", 1_000);
    assert!(db.drop_keyspace("large").unwrap());
    assert_eq!(db.stat().memory.entries, 0, "its entries are still in memory");
    fill(&db, "flushed", 10);
    db.flush().unwrap();
    assert!(db.drop_keyspace("flushed").unwrap());
    assert_eq!(db.stat().memory.entries, 0, "what hides its table is in no table");
    db.close().unwrap();
    let db = open();
    assert!(db.keyspaces().unwrap().is_empty());
    let again = db.keyspace("small", Default::default()).unwrap();
    assert_eq!(db.range(&again, ..).unwrap().count(), 0);
}

/// Hunts for tables that are kept, or read again, although no reader can see anything in them.
#[test]
fn tables_under_deleted_ranges_go_without_being_merged() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("db"));
    fill(&db, "a", 300);
    db.compact().unwrap();
    let space = db.keyspace("a", Default::default()).unwrap();
    let snapshot = db.snapshot();
    let before = db.stat().bytes();
    db.delete_range(&space, ..).unwrap();
    db.flush().unwrap();
    assert_eq!(snapshot.range(&space, ..).unwrap().count(), 2_000, "the snapshot holds them");
    assert!(db.stat().bytes() >= before);
    drop(snapshot);
    db.drop_keyspace("a").unwrap();
    // A background thread may still be working.
    let begun = std::time::Instant::now();
    while db.stat().bytes() * 5 > before {
        assert!(begun.elapsed().as_secs() < 60, "{} of {before}", db.stat().bytes());
        std::thread::yield_now();
    }
}

#[test]
fn handles_of_a_dropped_keyspace_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("db"));
    let (old, kept) = (db.keyspace("x", Default::default()).unwrap(), "kept");
    let kept = db.keyspace(kept, Default::default()).unwrap();
    db.put(&old, b"key", b"old").unwrap();
    let snapshot = db.snapshot();
    let mut batch = Batch::new();
    batch.put(&kept, b"key", b"").unwrap();
    batch.put(&old, b"key", b"").unwrap();
    let mut txn = db.transaction();
    txn.put(&old, b"key", b"").unwrap();
    db.drop_keyspace("x").unwrap();
    assert!(matches!(db.put(&old, b"key", b""), Err(Error::NoTable { name }) if name == b"x"));
    assert!(matches!(db.write(batch), Err(Error::NoTable { .. })));
    assert!(matches!(txn.commit(), Err(Error::NoTable { .. })));
    assert_eq!(db.get(&kept, b"key").unwrap(), None, "nothing of the batch");
    assert_eq!(db.get(&old, b"key").unwrap(), None);
    let new = db.keyspace("x", Default::default()).unwrap();
    db.put(&new, b"key", b"new").unwrap();
    assert!(db.put(&old, b"key", b"").is_err(), "it is not the one of the same name");
    assert_eq!(snapshot.get(&old, b"key").unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(snapshot.get(&new, b"key").unwrap(), None, "it came later");
    assert_eq!(db.get(&new, b"key").unwrap().as_deref(), Some(&b"new"[..]));
}

/// What such a handle wrote would come back in the next keyspace that gets its number.
#[test]
fn handles_that_snapshots_gave_write_nothing_to_a_dropped_keyspace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = open(&path);
    let x = db.keyspace("x", Default::default()).unwrap();
    db.put(&x, b"key", b"old").unwrap();
    let snapshot = db.snapshot();
    let before = snapshot.find_keyspace("x").unwrap().unwrap();
    db.put(&before, b"key", b"new").unwrap();
    db.drop_keyspace("x").unwrap();
    let after = snapshot.find_keyspace("x").unwrap().unwrap();
    db.keyspace("x", Default::default()).unwrap();
    let beside = snapshot.find_keyspace("x").unwrap().unwrap();
    for handle in [before, after, beside] {
        assert!(matches!(db.put(&handle, b"ghost", b""), Err(Error::NoTable { .. })));
        assert_eq!(snapshot.get(&handle, b"key").unwrap().as_deref(), Some(&b"old"[..]));
    }
    drop(snapshot);
    db.drop_keyspace("x").unwrap();
    db.close().unwrap();
    let db = open(&path);
    let y = db.keyspace("y", Default::default()).unwrap();
    assert_eq!(db.range(&y, ..).unwrap().count(), 0);
}

/// Writers beside it are refused or stand before it: none of their entries comes back.
#[test]
fn nothing_is_written_behind_a_drop() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("db"));
    for round in 0..30_u32 {
        let space = db.keyspace("x", Default::default()).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..3_u32 {
                let (db, space) = (&db, &space);
                scope.spawn(move || {
                    for n in 0.. {
                        let key = [round, writer, n].map(u32::to_be_bytes).concat();
                        match db.put(space, &key, b"value") {
                            Ok(()) => {}
                            Err(Error::NoTable { .. }) => return,
                            Err(other) => panic!("{other}"),
                        }
                    }
                });
            }
            scope.spawn(|| {
                while db.range(&space, ..).unwrap().next().is_none() {}
                assert!(db.drop_keyspace("x").unwrap());
            });
        });
        assert_eq!(db.range(&space, ..).unwrap().count(), 0);
    }
}
