//! Collecting comes to an end where it gains nothing, and knows what it gained.

use super::*;
use crate::Durability;
use crate::lsm::files::Name;
use crate::lsm::{Batch, Db, Keyspace, KeyspaceOptions, Options, Readable};
use crate::os::sim::{Config, Fault, Kept, Operation, SimSystem};

/// Far more rounds than there are things to do.
const ROUNDS_MAX: usize = 50;

/// A store without background threads, with segments of this many bytes.
fn open(segment_bytes: u64) -> (Db, Keyspace) {
    // Hundreds of files, for all of which a 32-bit process has addresses.
    let system = SimSystem::new(1, Config { reserve: 1 << 20, ..Config::default() });
    let options = Options::new().create(true).segment_bytes(segment_bytes);
    let options = options.durability(Durability::Eventual).system(Arc::new(system));
    let db = options.open("/d/store").unwrap();
    let space = db
        .keyspace("space", KeyspaceOptions { separation_threshold: 1, ..Default::default() })
        .unwrap();
    (db, space)
}

/// Values of `len` bytes under these keys.
fn batch(space: &Keyspace, keys: &[u32], len: usize) -> Batch {
    let mut batch = Batch::new();
    for key in keys {
        batch.put(space, &key.to_be_bytes(), &vec![*key as u8; len]).unwrap();
    }
    batch
}

/// A store in whose segments every third value is garbage, and nothing was done about it.
fn with_garbage(segment_bytes: u64, count: u32, len: usize) -> (Db, Keyspace) {
    let (db, space) = open(segment_bytes);
    for key in (0..count).chain((0..count).step_by(2)) {
        db.write(batch(&space, &[key], len)).unwrap();
    }
    db.inner.flush().unwrap();
    (db, space)
}

/// What would be collected next, if it were tried.
fn chosen(db: &Db) -> (Arc<Version>, Vec<u32>) {
    let version = Arc::clone(&db.inner.current().version);
    let bounds = gc::Bounds::steady(&version, db.inner.options.segment_bytes);
    let victims = gc::choose(&version, &bounds);
    (version, victims)
}

/// Does what is due until nothing is; how many rounds that took.
fn settle(db: &Db) -> usize {
    let rounds = (0..ROUNDS_MAX).take_while(|_| db.inner.merge_once().unwrap()).count();
    assert!(rounds < ROUNDS_MAX, "it never rests");
    rounds
}

#[test]
fn collecting_what_is_mostly_surroundings_ends() {
    let (db, space) = with_garbage(100, 400, 8);
    // A segment for each value, whose header is longer than the value.
    for round in 0..3 {
        assert!(!chosen(&db).1.is_empty(), "round {round}: there seems to be garbage");
        assert!(settle(&db) > 0, "something has changed, so it is tried");
        assert_eq!(settle(&db), 0);
        db.write(batch(&space, &[500 + round], 8)).unwrap();
        db.inner.flush().unwrap();
    }
    assert_eq!(db.range(&space, ..).unwrap().count(), 403);
}

#[test]
fn what_writers_seal_meanwhile_hides_no_gain() {
    let (db, space) = with_garbage(8 << 10, 1000, 100);
    let (version, victims) = chosen(&db);
    assert!(!victims.is_empty());
    let bytes = |version: &Version| version.segments().map(Segment::bytes).sum::<u64>();
    let before = bytes(&version);
    // By one commit, so that nothing is done before it.
    db.write(batch(&space, &Vec::from_iter(2000..4000), 100)).unwrap();
    db.inner.flush().unwrap();
    assert!(db.inner.collect(version, victims).unwrap());
    assert!(bytes(&db.inner.current().version) > before);
    assert_eq!(db.range(&space, ..).unwrap().count(), 3000);
}

/// The files of a store whose few long values are overwritten again and again hold some segments of
/// garbage, however long that goes on and although their pointers would never fill a buffer; and
/// an opening reads no more of the log than these.
#[test]
fn long_values_that_are_overwritten_leave_their_segments() {
    const SEGMENT: u64 = 64 << 10;
    let system = Arc::new(SimSystem::new(1, Config { reserve: 1 << 20, ..Config::default() }));
    let options =
        Options::new().create(true).segment_bytes(SEGMENT).memtable_bytes(SEGMENT as usize);
    let options = options.durability(Durability::Eventual).system(system);
    let db = options.open("/d/store").unwrap();
    let space = db.keyspace("space", KeyspaceOptions::default()).unwrap();
    let (mut most, mut most_log) = (0, 0);
    for round in 0..40_u8 {
        for key in 0..20_u8 {
            db.put(&space, &[key], &[round; 8 << 10]).unwrap();
            let version = Arc::clone(&db.inner.current().version);
            most = most.max(version.segments().map(Segment::bytes).sum());
            most_log = most_log.max(version.log().map(Segment::bytes).sum());
        }
    }
    let live = 20 * (8 << 10);
    assert!(most <= live + 8 * SEGMENT, "{most} bytes for {live}");
    assert!(most_log <= 4 * SEGMENT, "{most_log} bytes of the log");
    let read = db.range(&space, ..).unwrap().map(Result::unwrap);
    assert_eq!(read.filter(|(_, value)| value[..] == [39; 8 << 10]).count(), 20);
}

/// Hunts for files that a merge has finished before it fails on a full disk, and that take room
/// there until the store is opened anew.
#[test]
fn a_merge_that_fails_leaves_no_files() {
    let disk = SimSystem::new(1, Config { reserve: 1 << 20, ..Config::default() });
    let options = Options::new().create(true).durability(Durability::Eventual);
    let options = options.memtable_bytes(8 << 10).table_bytes(8 << 10).segment_bytes(16 << 10);
    let db = options.system(Arc::new(disk.clone())).open("/d/store").unwrap();
    for separation_threshold in [u32::MAX, 64] {
        let of = KeyspaceOptions { separation_threshold, ..Default::default() };
        let space = db.keyspace(separation_threshold.to_string(), of).unwrap();
        for key in 0..600 {
            db.write(batch(&space, &[key, key / 2], 100)).unwrap();
        }
        let mut failed = 0;
        for room in (0..).step_by(1500) {
            db.delete(&space, &(room / 1500_u32).to_be_bytes()).unwrap();
            disk.set_capacity(Some(disk.used() + u64::from(room)));
            let is_done = db.compact().is_ok();
            disk.set_capacity(None);
            // If the manifest may name files of an edit that failed, it is written anew now.
            db.write(batch(&space, &[1000], 100)).unwrap();
            let version = Arc::clone(&db.inner.current().version);
            let (named, names) = (version.names(), db.inner.directory.names().unwrap());
            let stray: Vec<_> =
                names.iter().filter(|name| name.is_data() && !named.contains(name)).collect();
            assert!(stray.is_empty(), "{stray:?} with room for {room} bytes");
            if is_done {
                break;
            }
            failed += 1;
        }
        assert!(failed > 5, "{failed}");
        assert!(db.check().unwrap().is_sound());
    }
}

/// Hunts for a flush that fails in a process with too many open files, most of which its store only
/// reads.
#[test]
fn what_is_written_has_files_closed_that_are_read() {
    let disk = SimSystem::new(1, Config { reserve: 1 << 20, ..Config::default() });
    let options = Options::new().create(true).durability(Durability::Eventual);
    let db = options.system(Arc::new(disk.clone())).open("/d/store").unwrap();
    let space = db.keyspace("space", KeyspaceOptions::default()).unwrap();
    for operation in [Operation::Open, Operation::SyncDirectory] {
        for nth in 1..4 {
            db.write(batch(&space, &Vec::from_iter(0..100), 100)).unwrap();
            db.flush().unwrap();
            assert!(db.check().unwrap().is_sound());
            db.write(batch(&space, &Vec::from_iter(0..100), 100)).unwrap();
            disk.fail(operation, nth, 1, Fault { errno: libc::EMFILE, kept: Kept::None });
            db.flush().unwrap();
            disk.heal();
        }
    }
    assert!(disk.failed().len() > 3, "{:?}", disk.failed());
}

/// The tables and segments that are there, and those that the store knows.
fn files(inner: &Inner) -> [Vec<Name>; 2] {
    let known = inner.current().version.names().into_iter().collect();
    [inner.directory.names().unwrap(), known].map(|mut names: Vec<Name>| {
        names.retain(|name| name.is_data());
        names.sort_unstable();
        names
    })
}

/// Hunts for work that goes on while the store is being closed, and for files that it leaves.
#[test]
fn closing_ends_merging_and_collecting() {
    let (db, space) = with_garbage(8 << 10, 1000, 100);
    // A second table, so that the first one is not only moved.
    db.write(batch(&space, &[0], 100)).unwrap();
    db.inner.flush().unwrap();
    let (version, victims) = chosen(&db);
    assert!(!victims.is_empty());
    let before = files(&db.inner);
    db.inner.turns.closing.begin();
    let plan = compact::choose_full(&version, |_| true).unwrap();
    let merged = db.inner.run_plan(&version, &plan, Moves::NONE, true);
    let collected = db.inner.collect(version, victims);
    for result in [merged, collected.map(drop)] {
        assert!(matches!(result, Err(crate::Error::Interrupted)), "{result:?}");
    }
    assert_eq!(files(&db.inner), before);
    assert_eq!(db.range(&space, ..).unwrap().count(), 1000);
}

/// A store with this many tables of level 0, to be merged when it is being closed already: the
/// directory, and how many there are then.
fn closed(tables: u32) -> (tempfile::TempDir, usize) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new().create(true).durability(Durability::Eventual);
    let db: Db = options.open(folder.path().join("db")).unwrap();
    let space = db.keyspace("space", KeyspaceOptions::default()).unwrap();
    let inner = Arc::clone(&db.inner);
    let turn = inner.turns.merging.lock().unwrap();
    for table in 0..tables {
        db.write(batch(&space, &Vec::from_iter(table..table + 10), 10)).unwrap();
        db.flush().unwrap();
    }
    std::thread::scope(|scope| {
        let closed = scope.spawn(|| db.close());
        while !inner.background.is_stopped() {
            std::thread::yield_now();
        }
        drop(turn);
        closed.join().unwrap().unwrap();
    });
    let [there, known] = files(&inner);
    let stray = there.iter().filter(|name| !known.contains(name)).count();
    // The segment in which the log would go on is known, too.
    assert!(known.iter().all(|name| there.contains(name)) && stray == 0, "{there:?}, {known:?}");
    let count = inner.current().version.level(0).len();
    (folder, count)
}

/// Hunts for a close that waits until a merge is done. It is done when the store is opened again.
#[test]
fn a_merge_is_left_to_the_next_opening() {
    let (folder, count) = closed(30);
    assert_eq!(count, 30);
    let db = Db::open(folder.path().join("db")).unwrap();
    while db.stat().levels[0].tables >= 30 {
        std::thread::yield_now();
    }
    let space = db.find_keyspace("space").unwrap().unwrap();
    assert_eq!(db.range(&space, ..).unwrap().count(), 39);
}

/// Hunts for tables without end in a store that is only opened for short times.
#[test]
fn a_merge_that_is_far_behind_is_done_before_the_store_is_closed() {
    let (_folder, count) = closed(40);
    assert!(count < 40, "{count} tables");
}
