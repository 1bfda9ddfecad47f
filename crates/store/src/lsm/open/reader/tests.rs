//! Reading stores as a crash left them, on a disk to which nothing can be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::Durability;
use crate::lsm::{Batch, Db, KeyspaceOptions};
use crate::os::sim::{Config, Fault, Kept, SimSystem};

const PATH: &str = "/d/store";

fn options(system: &SimSystem) -> Options {
    let system = Arc::new(system.clone());
    Options::new().system(system).memtable_bytes(4000).segment_bytes(4000)
}

fn key(number: u32) -> Vec<u8> {
    format!("key/{number:03}").into_bytes()
}

/// Values of which half are separated.
fn value(number: u32) -> Vec<u8> {
    vec![number as u8; if number.is_multiple_of(2) { 20 } else { 200 }]
}

fn put(db: &Db, numbers: std::ops::Range<u32>, durability: Durability) {
    let options = KeyspaceOptions { separation_threshold: 100, ..Default::default() };
    let space = db.keyspace("space", options).unwrap();
    for number in numbers {
        let mut batch = Batch::new();
        batch.put(&space, &key(number), &value(number)).unwrap();
        db.write_with(batch, durability).unwrap();
    }
}

/// A store of a process that was killed, with tables, several segments of the log, and groups that
/// the log does not hold yet; how many keys it has.
fn killed() -> (SimSystem, u32) {
    let system = SimSystem::new(1, Config::default());
    let db = options(&system).create(true).open(PATH).unwrap();
    put(&db, 0..200, Durability::Durable);
    let space = db.find_keyspace("space").unwrap().unwrap();
    db.delete_range(&space, &key(50)..&key(60)).unwrap();
    put(&db, 200..206, Durability::Eventual);
    system.kill();
    drop(db);
    (system.restart_process(), 206)
}

fn files(system: &SimSystem) -> BTreeMap<PathBuf, Vec<u8>> {
    let content = |path: PathBuf| {
        let content = system.content(&path).unwrap();
        (path, content)
    };
    system.files().into_iter().map(content).collect()
}

fn expected(keys: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let there = (0..keys).filter(|number| !(50..60).contains(number));
    there.map(|number| (key(number), value(number))).collect()
}

fn read(reader: &Reader) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let space = reader.find_keyspace("space")?.expect("the keyspace is there");
    reader.range(&space, ..)?.collect()
}

#[test]
fn a_full_disk_is_read_and_no_attempt_to_write_leaves_anything() {
    let (system, keys) = killed();
    system.set_capacity(Some(system.used()));
    let before = files(&system);
    for _ in 0..3 {
        let error = options(&system).open(PATH).err().expect("there is no room");
        assert!(matches!(error, Error::Io { .. }), "{error}");
        let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&files(&system)), names(&before), "a file was left");
    }
    let before = files(&system);
    let readers = [0; 3].map(|_| options(&system.process()).open_read_only(PATH).unwrap());
    for reader in &readers {
        assert_eq!(read(reader).unwrap(), expected(keys));
        let space = reader.find_keyspace("space").unwrap().unwrap();
        assert_eq!(reader.get(&space, &key(205)).unwrap(), Some(value(205)));
        assert_eq!(reader.get(&space, &key(55)).unwrap(), None);
        let some = [key(3), key(55), key(201)];
        let values = reader.multi_get(&space, &some).unwrap();
        assert_eq!(values, [Some(value(3)), None, Some(value(201))]);
        let report = reader.check().unwrap();
        assert!(report.is_sound(), "{:?}", report.damage);
        assert!(report.entries >= expected(keys).len() as u64, "those of the log count");
        assert_eq!(reader.keyspaces().unwrap(), [b"space".to_vec()]);
        assert!(reader.stat().last_seq >= u64::from(keys));
    }
    drop(readers);
    assert_eq!((files(&system), system.open_handles()), (before, 0));
    system.set_capacity(None);
    let db = options(&system).open(PATH).unwrap();
    let space = db.find_keyspace("space").unwrap().unwrap();
    assert_eq!(
        db.range(&space, ..).unwrap().map(Result::unwrap).collect::<Vec<_>>(),
        expected(keys)
    );
}

#[test]
fn writers_and_readers_keep_each_other_out() {
    let (system, keys) = killed();
    let reader = options(&system).open_read_only(PATH).unwrap();
    let other = options(&system.process()).open_read_only(PATH).unwrap();
    let refused = options(&system.process()).open(PATH).err();
    assert!(matches!(refused, Some(Error::Locked { .. })));
    drop((reader, other));
    let db = options(&system).open(PATH).unwrap();
    let refused = options(&system.process()).open_read_only(PATH).err();
    assert!(matches!(refused, Some(Error::Locked { .. })));
    db.close().unwrap();
    let reader = options(&system).open_read_only(PATH).unwrap();
    assert_eq!(read(&reader).unwrap(), expected(keys));
    let space = options(&system).open_read_only(PATH).unwrap().find_keyspace("space").unwrap();
    let foreign = reader.get(&space.unwrap(), b"x");
    assert!(matches!(foreign, Err(Error::Argument { .. })), "a handle of another opening");
}

#[test]
fn a_reader_backs_up_what_only_the_log_and_the_pending_file_hold() {
    let (system, keys) = killed();
    let reader = options(&system).open_read_only(PATH).unwrap();
    let report = reader.backup("/d/copy", &mut |_, _| {}).unwrap();
    assert_eq!(report.files, report.copied_files);
    drop(reader);
    let copy = options(&system).open_read_only("/d/copy").unwrap();
    assert_eq!(read(&copy).unwrap(), expected(keys));
    assert!(copy.check().unwrap().is_sound());
    drop(copy);
    let again = options(&system).open_read_only(PATH).unwrap();
    assert_eq!(again.backup("/d/copy", &mut |_, _| {}).unwrap().copied_files, 0);
}

#[test]
fn whatever_call_fails_nothing_is_changed() {
    let (system, keys) = killed();
    let before = files(&system);
    for nth in 1.. {
        let calls = system.all_calls();
        system.fail_any(nth, 1, Fault::io(Kept::None));
        let outcome = options(&system).open_read_only(PATH).and_then(|reader| read(&reader));
        system.heal();
        assert_eq!((files(&system) == before, system.open_handles()), (true, 0));
        match outcome {
            Ok(read) => assert_eq!(read, expected(keys)),
            Err(error) => assert!(error.to_string().contains(PATH), "{error}"),
        }
        if system.all_calls() - calls < nth {
            break;
        }
    }
}

#[test]
fn where_there_is_no_store_none_is_made() {
    let system = SimSystem::new(1, Config::default());
    let missing = options(&system).create(true).open_read_only("/d/none").err();
    assert!(matches!(missing, Some(Error::Path { .. })), "{missing:?}");
    assert!(system.files().is_empty());
    let (system, _) = killed();
    crate::os::System::remove(&system, &PathBuf::from(PATH).join("MANIFEST")).unwrap();
    let before = files(&system);
    for error in [
        options(&system).open_read_only(PATH).err(),
        options(&system).open(PATH).err(),
        options(&system).create(true).open(PATH).err(),
    ] {
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("hedgerow salvage") && !text.contains("create"), "{text}");
    }
    assert_eq!(files(&system), before);
}
