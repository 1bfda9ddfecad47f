//! What was handed to the system outlives the process, and nothing else comes back.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::Durability;
use crate::lsm::{Batch, Db, Keyspace, Options, Readable};
use crate::os::sim::{Config, CrashMode, Operation, SimSystem};
use crate::os::{DataFile, System};

const STORE: &str = "/d/store";

fn open(system: &SimSystem) -> (Db, Keyspace) {
    let options = Options::new().create(true).system(Arc::new(system.clone()));
    let db = options.open(STORE).unwrap();
    let space = db.keyspace("space", Default::default()).unwrap();
    (db, space)
}

fn put(db: &Db, space: &Keyspace, number: u32, durability: Durability) {
    let mut batch = Batch::new();
    batch.put(space, &number.to_be_bytes(), &[number as u8; 100]).unwrap();
    db.write_with(batch, durability).unwrap();
}

fn numbers(db: &Db, space: &Keyspace) -> Vec<u32> {
    let number = |key: &[u8]| u32::from_be_bytes(key.try_into().unwrap());
    db.range(space, ..).unwrap().map(|item| number(&item.unwrap().0)).collect()
}

fn pending(system: &SimSystem) -> Arc<dyn DataFile> {
    system.open_data(&Path::new(STORE).join("PENDING"), Open::Write, 0).unwrap()
}

#[test]
fn what_was_handed_over_outlives_the_process() {
    for map in [true, false] {
        let mut system = SimSystem::new(1, Config { map, ..Config::default() });
        for life in 0..4 {
            let (db, space) = open(&system);
            put(&db, &space, 3 * life, Durability::None);
            let writes = system.calls(Operation::Write);
            put(&db, &space, 3 * life + 1, Durability::Eventual);
            let written = system.calls(Operation::Write) - writes;
            assert_eq!(written, u64::from(!map), "without a write, where that is possible");
            put(&db, &space, 3 * life + 2, Durability::None);
            system = system.restart_process();
            drop(db);
            let (db, space) = open(&system);
            let handed = (0..=life).flat_map(|life| [3 * life, 3 * life + 1]);
            assert_eq!(numbers(&db, &space), Vec::from_iter(handed), "life {life}");
            system = system.restart_process();
            drop(db);
        }
    }
}

/// The log is written to now and then, segments end, and what is held may be any part of it.
#[test]
fn it_goes_on_where_the_log_ends() {
    let mut system = SimSystem::new(2, Config::default());
    for count in (0..3000).step_by(171) {
        let (db, space) = open(&system);
        for number in 0..count {
            put(&db, &space, number, Durability::Eventual);
        }
        system = system.restart_process();
        drop(db);
        let (db, space) = open(&system);
        assert_eq!(numbers(&db, &space), Vec::from_iter(0..count));
        system = system.restart_process();
        drop(db);
    }
}

#[test]
fn what_fails_its_checksum_does_not_come_back() {
    let system = SimSystem::new(3, Config::default());
    let (db, space) = open(&system);
    (0..9).for_each(|number| put(&db, &space, number, Durability::Eventual));
    let system = system.restart_process();
    drop(db);
    // Somewhere in the fifth group.
    let group = GROUPS_OFFSET as u64 + 4 * 150;
    pending(&system).write_at(&[std::io::IoSlice::new(&[0xff; 8])], group).unwrap();
    let (db, space) = open(&system);
    let found = numbers(&db, &space);
    assert!((3..6).contains(&found.len()), "{found:?}");
    assert_eq!(found, Vec::from_iter(0..found.len() as u32));
}

#[test]
fn a_file_that_makes_no_sense_is_none() {
    let system = SimSystem::new(4, Config::default());
    let (db, space) = open(&system);
    put(&db, &space, 1, Durability::Durable);
    drop(db);
    for len in [0, 1, GROUPS_OFFSET - 1, GROUPS_OFFSET, GROUPS_OFFSET + 1, 2 * PENDING_BYTES] {
        let file = pending(&system);
        file.set_len(0).unwrap();
        file.write_at(&[std::io::IoSlice::new(&vec![0xff; len])], 0).unwrap();
        let (db, space) = open(&system);
        assert_eq!(numbers(&db, &space), [1]);
        put(&db, &space, 1, Durability::Eventual);
        drop(db);
        let mut begin = vec![0; len.min(SEGMENT_OFFSET)];
        file.read_at(&mut begin, 0).unwrap();
        assert_eq!(begin, vec![0xff; begin.len()], "it may be somebody else's");
    }
}

/// A power cut may leave any of what was stored, in the file as in the log: a prefix is left.
#[test]
fn a_power_cut_leaves_a_prefix() {
    for seed in 0..200 {
        let system = SimSystem::new(seed, Config::default());
        let (db, space) = open(&system);
        let durable = seed as u32 % 7;
        (0..durable).for_each(|number| put(&db, &space, number, Durability::Durable));
        (durable..1200).for_each(|number| put(&db, &space, number, Durability::Eventual));
        let mode = CrashMode::ALL[seed as usize % CrashMode::ALL.len()];
        let after = system.crash(seed, mode);
        let (db, space) = open(&after);
        let found = numbers(&db, &space);
        assert!(found.len() >= durable as usize);
        assert_eq!(found, Vec::from_iter(0..found.len() as u32), "seed {seed}, {mode:?}");
    }
}

/// The log loses what a group in the pending file says was on stable storage.
#[test]
fn what_was_durable_is_missed() {
    let system = SimSystem::new(6, Config::default());
    let (db, space) = open(&system);
    put(&db, &space, 1, Durability::Durable);
    let (names, durable) = (system.list(Path::new(STORE)).unwrap(), 150);
    put(&db, &space, 2, Durability::Eventual);
    let system = system.restart_process();
    drop(db);
    let last = names.iter().filter(|name| name.to_string_lossy().ends_with(".log")).max().unwrap();
    let path = Path::new(STORE).join(last);
    let log = system.open_data(&path, Open::Write, 0).unwrap();
    log.set_len(durable).unwrap();
    let options = Options::new().system(Arc::new(system.clone()));
    let error = options.open(STORE).map(drop).unwrap_err();
    assert!(matches!(&error, Error::Corrupt { path: file, .. } if *file == path), "{error}");
}
