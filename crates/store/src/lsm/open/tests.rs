//! What opening makes of segments of which the manifest does not say that they have ended, where
//! another one follows: the log goes on in it, or ends before it, or is damaged.

use std::path::PathBuf;

use super::super::engine::FROZEN_MAX;
use super::super::{Db, Keyspace};
use super::replay::SHARED_BYTES_MIN;
use super::*;
use crate::Durability;
use crate::lsm::{KeyspaceOptions, Readable};
use crate::os::sim::{Config, SimSystem};

fn open(system: &SimSystem) -> Result<(Db, Keyspace)> {
    let options = Options::new().create(true).segment_bytes(1 << 10);
    let options = options.durability(Durability::Eventual).system(Arc::new(system.clone()));
    let db = options.open("/d/store")?;
    let space = db.keyspace("space", Default::default())?;
    Ok((db, space))
}

fn segments(system: &SimSystem) -> Vec<PathBuf> {
    let is_log = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "log");
    let mut found: Vec<PathBuf> = system.files().into_iter().filter(is_log).collect();
    found.sort();
    found
}

/// A store whose log has just gone on in its last segment, with two commits there; how many commits
/// there are, and the first segment.
fn with_segments(number: usize, durability: Durability) -> (SimSystem, u32, PathBuf) {
    let system = SimSystem::new(1, Config::default());
    let (db, space) = open(&system).unwrap();
    let mut count = 0_u32;
    let mut put = || {
        let mut batch = super::super::Batch::new();
        batch.put(&space, &count.to_be_bytes(), &[7; 100]).unwrap();
        db.write_with(batch, durability).unwrap();
        count += 1;
    };
    while segments(&system).len() < number {
        put();
    }
    put();
    put();
    let first = segments(&system).remove(0);
    system.kill();
    drop(db);
    (system.restart_process(), count, first)
}

/// The commits that are there, which have to be a prefix.
fn survivors(system: &SimSystem) -> u32 {
    let (db, space) = open(system).unwrap();
    let keys: Vec<Vec<u8>> = db.range(&space, ..).unwrap().map(|entry| entry.unwrap().0).collect();
    let prefix: Vec<Vec<u8>> = (0..keys.len() as u32).map(|n| n.to_be_bytes().to_vec()).collect();
    assert_eq!(keys, prefix);
    assert!(db.check().unwrap().is_sound());
    keys.len() as u32
}

/// Changes a byte in the last group of a segment.
fn break_tail(system: &SimSystem, path: &Path) {
    let content = system.content(path).unwrap();
    let last = content.windows(100).rposition(|bytes| bytes == [7; 100]).unwrap();
    system.edit(path, last as u64, &[8]).unwrap();
}

#[test]
fn the_log_goes_on_in_the_next_segment() {
    for durability in [Durability::Eventual, Durability::Durable] {
        let (system, count, _) = with_segments(2, durability);
        assert_eq!(survivors(&system), count);
        assert_eq!(survivors(&system), count);
    }
}

#[test]
fn what_does_not_follow_a_lost_tail_is_left_out() {
    let (system, count, first) = with_segments(2, Durability::Eventual);
    break_tail(&system, &first);
    let left = survivors(&system);
    // The broken group, that which began the second segment, and two after it.
    assert_eq!(left, count - 4);
    assert_eq!(survivors(&system), left);
}

#[test]
fn a_lost_tail_that_was_durable_is_damage() {
    let (system, _, first) = with_segments(2, Durability::Durable);
    break_tail(&system, &first);
    let error = open(&system).err().unwrap();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

/// The last group of a log is damaged, or its file has lost its end: nothing that follows in the
/// log says that it was durable.
#[test]
fn a_log_that_ends_before_what_was_durable_is_damaged() {
    let cut = |system: &SimSystem, path: &Path| {
        let file = crate::os::System::open_data(system, path, Open::Write, 0).unwrap();
        file.set_len(file.len().unwrap().min(300)).unwrap();
    };
    for damage in [&break_tail as &dyn Fn(&SimSystem, &Path), &cut] {
        for closes in [false, true] {
            let mut system = SimSystem::new(1, Config::default());
            let (db, space) = open(&system).unwrap();
            for number in 0..6_u32 {
                let mut batch = super::super::Batch::new();
                batch.put(&space, &number.to_be_bytes(), &[7; 100]).unwrap();
                db.write_with(batch, Durability::Durable).unwrap();
            }
            if closes {
                db.close().unwrap();
            } else {
                system.kill();
                drop(db);
                system = system.restart_process();
            }
            damage(&system, &segments(&system)[0]);
            let error = open(&system).err().unwrap();
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
            // Without the file that remembers it, what is left is taken for all that there was.
            crate::os::System::remove(&system, Path::new("/d/store/PENDING")).unwrap();
            assert!(survivors(&system) < 6);
        }
    }
}

/// Files of all kinds have the permissions that were asked for, in copies, too.
#[test]
fn new_files_have_the_mode_that_was_asked_for() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for (file_mode, directory_mode) in [(None, 0o700), (Some(0o640), 0o750)] {
        let folder = tempfile::tempdir().unwrap();
        let all = folder.path().join("all");
        std::fs::create_dir(&all).unwrap();
        // What the mask of the process leaves.
        let mask = mode(&all);
        std::fs::remove_dir(&all).unwrap();
        let options = Options::new().create(true).memory_limit(4 << 20).segment_bytes(1 << 14);
        let options = file_mode.map_or(options.clone(), |mode| options.file_mode(mode));
        for round in 0..2_u32 {
            let db = options.open(folder.path().join("db")).unwrap();
            let separated = KeyspaceOptions { separation_threshold: 1000, ..Default::default() };
            let space = db.keyspace("space", separated).unwrap();
            db.id().unwrap();
            for number in 0..100_u32 {
                db.put(&space, &number.to_be_bytes(), &vec![7; 20 * number as usize]).unwrap();
            }
            db.compact().unwrap();
            db.put(&space, b"last", b"").unwrap();
            let copy = |name: &str| folder.path().join(format!("{name}{round}"));
            db.checkpoint(copy("twin")).unwrap();
            db.backup(copy("backup"), &mut |_, _| {}).unwrap();
            db.close().unwrap();
            options.salvage(folder.path().join("db"), copy("saved"), &mut |_, _| Ok(())).unwrap();
        }
        let mut seen = std::collections::BTreeSet::new();
        for store in folder.path().read_dir().unwrap() {
            let store = store.unwrap().path();
            assert_eq!(mode(&store), directory_mode & mask, "{store:?}");
            for file in store.read_dir().unwrap() {
                let file = file.unwrap().path();
                assert_eq!(mode(&file), file_mode.unwrap_or(0o600) & mask, "{file:?}");
                let name = file.file_name().and_then(files::parse).unwrap();
                seen.insert(format!("{name:?}").split('(').next().unwrap().to_owned());
            }
        }
        assert!(seen.len() >= 6, "{seen:?}");
    }
}

/// A log that is longer than the buffers may be: the oldest ones go to tables at once, the next
/// ones when others would, and nothing is lost or doubled however often that begins anew.
#[test]
fn a_long_log_is_put_into_several_buffers() {
    let (mut system, count, _) = with_segments(8, Durability::Eventual);
    for durability in [Durability::Eventual, Durability::Durable] {
        let options = Options::new().durability(durability).memtable_bytes(300);
        let db = options.system(Arc::new(system.clone())).open("/d/store").unwrap();
        let current = db.inner.current();
        assert_eq!(current.frozen.len(), FROZEN_MAX);
        assert!(!current.version.level(0).is_empty());
        assert!(current.frozen[0].last_seq > current.frozen[1].last_seq);
        assert!(current.frozen[1].last_seq > current.version.flushed);
        drop(current);
        system.kill();
        drop(db);
        system = system.restart_process();
        assert_eq!(survivors(&system), count);
    }
    let options = Options::new().memtable_bytes(300).system(Arc::new(system.clone()));
    let db = options.open("/d/store").unwrap();
    db.flush().unwrap();
    assert!(db.inner.current().frozen.is_empty());
    drop(db);
    assert_eq!(survivors(&system), count);
}

/// On the real system a second thread helps: nothing is missing in any of the buffers, whichever
/// thread put it there and in whatever order, also where keys were put twice and deleted.
#[test]
fn two_threads_put_a_log_into_buffers() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    let options = Options::new().create(true).durability(Durability::Eventual);
    let db = options.memory_limit(512 << 20).segment_bytes(1 << 20).open(&here).unwrap();
    let space = db.keyspace("space", Default::default()).unwrap();
    let count = 30_000_u32;
    let key = |n: u32| n.wrapping_mul(0x9e37_79b1).to_be_bytes();
    for n in 0..count {
        db.put(&space, &key(n), &[n.to_be_bytes(), [1; 4]].concat().repeat(10)).unwrap();
        if n % 3 == 0 {
            db.put(&space, &key(n / 2), &n.to_be_bytes()).unwrap();
        } else if n % 5 == 0 {
            db.delete(&space, &key(n / 4)).unwrap();
        }
    }
    let expected: Vec<_> = db.range(&space, ..).unwrap().map(Result::unwrap).collect();
    assert!(expected.len() > 20_000);
    // Nothing was flushed so far: the log is all that there is.
    std::fs::create_dir(&there).unwrap();
    for entry in std::fs::read_dir(&here).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), there.join(entry.file_name())).unwrap();
    }
    let options = Options::new().memtable_bytes(SHARED_BYTES_MIN);
    for _ in 0..2 {
        let copy = options.open(&there).unwrap();
        let space = copy.keyspace("space", Default::default()).unwrap();
        let found: Vec<_> = copy.range(&space, ..).unwrap().map(Result::unwrap).collect();
        assert!(found == expected, "{} entries of {}", found.len(), expected.len());
        assert!(copy.check().unwrap().is_sound());
    }
}

/// How often a file or the names in a directory were flushed while `f` ran.
fn flushes(system: &SimSystem, f: impl FnOnce()) -> usize {
    system.record(true);
    let before = system.recorded();
    f();
    let events = (before..system.recorded()).filter_map(|at| system.describe(at));
    let count = events.filter(|event| event.contains("sync")).count();
    system.record(false);
    count
}

/// A process for each put: one flush, and no file more.
#[test]
fn single_puts_cost_a_flush_and_no_file() {
    let system = SimSystem::new(1, Config::default());
    let put = |number: u32| {
        let options = Options::new().create(true).system(Arc::new(system.clone()));
        let db = options.open("/d/store").unwrap();
        let space = db.keyspace("space", Default::default()).unwrap();
        db.put(&space, &number.to_be_bytes(), b"value").unwrap();
        db.close().unwrap();
    };
    put(0);
    let files = system.files().len();
    for number in 1..300 {
        assert_eq!(flushes(&system, || put(number)), 1, "put {number}");
    }
    assert_eq!(system.files().len(), files);
    assert_eq!(survivors(&system), 300);
}

/// Processes that put something and die leave no more files than a few.
#[test]
fn processes_that_die_leave_few_files() {
    let mut system = SimSystem::new(1, Config::default());
    for number in 0..60_u32 {
        let (db, space) = open(&system).unwrap();
        db.put(&space, &number.to_be_bytes(), b"value").unwrap();
        system.kill();
        drop(db);
        system = system.restart_process();
        assert!(system.files().len() <= 20, "{:?}", system.files());
    }
    assert_eq!(survivors(&system), 60);
}

/// The log goes on in its segment only where everything is as it was at the close.
#[test]
fn a_mark_counts_only_where_nothing_has_changed() {
    let system = SimSystem::new(1, Config::default());
    let put = |number: u32| {
        let (db, space) = open(&system).unwrap();
        db.put(&space, &number.to_be_bytes(), b"value").unwrap();
        db.close().unwrap();
        segments(&system)
    };
    let before = put(0);
    assert_eq!(put(1), before, "as it was");
    let content = system.content(&before[0]).unwrap();
    let end = content.iter().rposition(|&byte| byte != 0).unwrap() as u64;
    system.edit(&before[0], end + 100, b"behind").unwrap();
    let after = put(2);
    assert_ne!(after, before, "something stands behind the mark");
    assert_eq!(put(3), after);
    let manifest = Path::new("/d/store/MANIFEST");
    let len = system.content(manifest).unwrap().len() as u64;
    system.edit(manifest, len, b"torn").unwrap();
    let last = put(4);
    assert_ne!(last, after, "the manifest has grown");
    assert_eq!(put(5), last);
    assert_eq!(survivors(&system), 6);
}

#[test]
fn a_file_is_no_directory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, b"text").unwrap();
    let refused = [
        Options::new().create(true).open(&path).map(drop),
        Options::new().open_read_only(&path).map(drop),
    ];
    for error in refused.map(Result::unwrap_err) {
        assert!(matches!(&error, Error::NotAStore { .. }), "{error}");
        assert!(error.to_string().contains("it is a file"), "{error}");
    }
}

#[test]
fn a_store_in_a_folder_that_is_missing_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("db");
    let refused = Options::new().create(true).open(&path).err().unwrap();
    let text = refused.to_string();
    assert!(text.starts_with("could not make "), "{text}");
    assert!(text.contains("the folder above it is not there; make that first"), "{text}");
    assert!(!folder.path().join("missing").exists());
}

#[test]
fn a_store_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let opened = Db::open(&path).err().unwrap();
    assert!(opened.to_string().ends_with("there is no store here; create one first"), "{opened}");
    std::fs::create_dir(&path).unwrap();
    let db = Db::create(&path).unwrap();
    let space = db.keyspace("space", Default::default()).unwrap();
    db.put(&space, b"key", b"value").unwrap();
    drop((space, db));
    let again = Db::create(&path).err().unwrap();
    assert!(matches!(again, Error::Path { .. }), "{again}");
    assert!(again.to_string().contains("it exists already"), "{again}");
    let db = Options::new().open_or_create(&path).unwrap();
    let space = db.find_keyspace("space").unwrap().unwrap();
    assert_eq!(db.get(&space, b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// Sizes that no file can have mean as long as can be.
#[test]
fn sizes_without_end_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new().segment_bytes(u64::MAX).table_bytes(u64::MAX);
    let options = options.memtable_bytes(usize::MAX).memory_limit(8 << 20);
    let db = options.create_new(folder.path().join("db")).unwrap();
    let space = db.keyspace("space", Default::default()).unwrap();
    for key in 0..100_u8 {
        for value in [vec![key; 10_000], vec![key; 100]] {
            db.put(&space, &[key, value.len() as u8], &value).unwrap();
        }
    }
    db.compact().unwrap();
    assert!(db.check().unwrap().damage.is_empty());
}

/// Hunts for an opening that finds no room for what it writes, since what a process was writing
/// when it was killed takes it.
#[test]
fn what_no_manifest_has_named_makes_room_for_an_opening() {
    let (system, count, _) = with_segments(3, Durability::Durable);
    let stray = ["77.table", "78.log", "79.copy"].map(|name| format!("/d/store/000000{name}"));
    for path in &stray {
        let file = crate::os::System::open_data(&system, Path::new(path), Open::Create, 0o600);
        file.unwrap().write_at(&[std::io::IoSlice::new(&[7; 4000])], 0).unwrap();
    }
    system.set_capacity(Some(system.used()));
    assert_eq!(survivors(&system), count);
    let left: Vec<PathBuf> = system.files();
    assert!(stray.iter().all(|path| !left.contains(&PathBuf::from(path))), "{left:?}");
}
