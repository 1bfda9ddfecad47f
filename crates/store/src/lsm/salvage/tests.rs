//! Stores of which one file at a time is damaged, cut or gone, beside what was in them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::Durability;
use crate::lsm::{Batch, KeyspaceOptions, Readable, Reader};
use crate::os::System;
use crate::os::sim::{Config, SimSystem};

const PATH: &str = "/d/store";
const NEW: &str = "/d/new";

type State = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;

fn options(system: &SimSystem) -> Options {
    let system = Arc::new(system.clone());
    Options::new().system(system).memtable_bytes(6000).segment_bytes(6000).table_bytes(3000)
}

/// A store of a killed process with deleted keys and ranges, moved values and a log, and what is
/// in it.
fn store() -> (SimSystem, State) {
    let system = SimSystem::new(1, Config::default());
    let db = options(&system).create(true).open(PATH).unwrap();
    let make = |name: &str, separation_threshold| {
        db.keyspace(name, KeyspaceOptions { separation_threshold, ..Default::default() }).unwrap()
    };
    let spaces = [make("apart", 16), make("inline", u32::MAX)];
    let put = |round: u32, every: usize, durability| {
        for number in (0..120_u32).step_by(every) {
            let mut batch = Batch::new();
            let value = format!("{round}/{number}/").repeat(9).into_bytes();
            for space in &spaces {
                batch.put(space, format!("key/{number:03}").as_bytes(), &value).unwrap();
            }
            db.write_with(batch, durability).unwrap();
        }
    };
    put(1, 1, Durability::Eventual);
    put(2, 2, Durability::Eventual);
    db.compact().unwrap();
    for space in &spaces {
        db.delete_range(space, b"key/030"..b"key/040").unwrap();
        db.delete(space, b"key/050").unwrap();
    }
    put(3, 5, Durability::Eventual);
    db.flush().unwrap();
    put(4, 7, Durability::Durable);
    db.delete(&spaces[0], b"key/051").unwrap();
    put(5, 31, Durability::Eventual);
    system.kill();
    drop(db);
    let system = system.restart_process();
    let state = state(&options(&system).open_read_only(PATH).unwrap());
    (system, state)
}

fn state(reader: &Reader) -> State {
    let mut state = State::new();
    for name in reader.keyspaces().unwrap() {
        let space = reader.find_keyspace(&name).unwrap().unwrap();
        for entry in reader.range(&space, ..).unwrap() {
            let (key, value) = entry.unwrap();
            state.insert((name.clone(), key), value);
        }
    }
    state
}

fn salvage(system: &SimSystem) -> (SalvageReport, State) {
    let report = options(system).salvage(PATH, NEW, &mut |_, _| Ok(())).unwrap();
    let reader = options(system).open_read_only(NEW).unwrap();
    assert!(reader.check().unwrap().is_sound());
    let state = state(&reader);
    assert_eq!(state.len() as u64, report.entries);
    (report, state)
}

/// How many keys are missing; there is none with another value that no loss is about. Keyspaces
/// whose names were lost count under the names that they had.
fn missing(found: State, expected: &State, report: &SalvageReport, place: &str) -> usize {
    let named = |name: Vec<u8>| match &name[..] {
        b"salvaged-1" => b"apart".to_vec(),
        b"salvaged-2" => b"inline".to_vec(),
        _ => name,
    };
    let found: State =
        found.into_iter().map(|((name, key), value)| ((named(name), key), value)).collect();
    let found = &found;
    if report.losses.is_empty() {
        assert!(found == expected, "{place}: nothing is said to be lost");
    }
    expected.iter().filter(|(key, value)| found.get(*key) != Some(value)).count()
}

#[test]
fn a_sound_store_comes_over() {
    let (system, expected) = store();
    let before: Vec<_> = system.files().iter().map(|path| system.content(path).unwrap()).collect();
    let (report, found) = salvage(&system);
    assert!(found == expected && report.losses.is_empty(), "{:?}", report.losses);
    let there = system.files().into_iter().filter(|path| path.starts_with(PATH));
    let behind: Vec<_> = there.map(|path| system.content(&path).unwrap()).collect();
    assert!(behind == before, "the old store was written to");
    let again = options(&system).salvage(PATH, NEW, &mut |_, _| Ok(()));
    assert!(matches!(again, Err(Error::Path { .. })), "something is there");
}

#[test]
fn one_byte_takes_what_it_is_in_and_is_told_of() {
    let (system, expected) = store();
    for path in system.files().into_iter().filter(|path| path.starts_with(PATH)) {
        let bytes = system.content(&path).unwrap();
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        for at in (0..end).step_by(end / 23 + 1) {
            let copy = system.killed_copy();
            copy.edit(&path, at as u64, &[bytes[at] ^ 0x40]).unwrap();
            let place = format!("byte {at} of {}", path.display());
            let (report, found) = salvage(&copy);
            // Nothing says how much there was of what the log does not hold yet.
            if path.ends_with("PENDING") {
                assert!(found.len() >= expected.len() - 4, "{place}");
                continue;
            }
            let missing = missing(found, &expected, &report, &place);
            // A data block has 8 KiB, of which these tables have one each.
            assert!(missing <= 40, "{place}: {missing} are missing");
            let named = report.losses.iter().any(|loss| loss.path == path);
            assert!(missing == 0 || named, "{place}: {:?}", report.losses);
        }
    }
}

#[test]
fn a_missing_or_empty_file_takes_what_was_in_it_only() {
    let (system, expected) = store();
    for path in system.files().into_iter().filter(|path| path.starts_with(PATH)) {
        for is_gone in [true, false] {
            let copy = system.killed_copy();
            match is_gone {
                true => copy.remove(&path).unwrap(),
                false => copy.open_data(&path, Open::Write, 0).unwrap().set_len(0).unwrap(),
            }
            let place = format!("{} (gone: {is_gone})", path.display());
            let is_pending = path.ends_with("PENDING");
            let told = match options(&copy).open_read_only(PATH) {
                Ok(reader) => reader.check().unwrap().damage.iter().map(Error::to_string).collect(),
                Err(error) => vec![error.to_string()],
            };
            let names_salvage = told.iter().any(|text| text.contains("hedgerow salvage"));
            assert!(is_pending || names_salvage, "{place}: {told:?}");
            let (report, found) = salvage(&copy);
            if is_pending {
                assert!(found.len() >= expected.len() - 4, "{place}");
                continue;
            }
            let missing = missing(found, &expected, &report, &place);
            let is_manifest = path.ends_with("MANIFEST");
            assert!(missing < expected.len() / 2, "{place}: {missing} are missing");
            assert!(!is_manifest || missing == 0, "{place}: {missing} are missing");
            assert!(!report.losses.is_empty(), "{place}: nothing is told");
        }
    }
}

/// A table that is cut has lost its deleted ranges, too: what they hid does not come back without a
/// word.
#[test]
fn what_comes_back_from_a_cut_table_is_told_of() {
    let system = SimSystem::new(1, Config::default());
    let db = options(&system).create(true).open(PATH).unwrap();
    let space = db.keyspace("space", KeyspaceOptions::default()).unwrap();
    for number in 0..120_u32 {
        db.put(&space, format!("key/{number:03}").as_bytes(), &[7; 50]).unwrap();
    }
    db.compact().unwrap();
    db.delete_range(&space, b"key/030"..b"key/040").unwrap();
    db.put(&space, b"key/100", b"new").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let expected = state(&options(&system).open_read_only(PATH).unwrap());
    assert_eq!(expected.len(), 110);
    let is_table = |path: &PathBuf| {
        let name = path.file_name().and_then(crate::lsm::files::parse);
        matches!(name, Some(Name::Table(_)))
    };
    let mut back = 0;
    let path = system.files().into_iter().filter(is_table).max().unwrap();
    for len in 0..system.content(&path).unwrap().len() {
        let copy = system.killed_copy();
        copy.open_data(&path, Open::Write, 0).unwrap().set_len(len as u64).unwrap();
        let (report, found) = salvage(&copy);
        for (key, _) in found.iter().filter(|(key, value)| expected.get(*key) != Some(value)) {
            back += 1;
            let covers = |loss: &Loss| {
                let after = loss.after.as_ref().is_none_or(|after| after <= key);
                after && loss.before.as_ref().is_none_or(|before| key <= before)
            };
            let losses = &report.losses;
            assert!(losses.iter().any(covers), "cut to {len}: {key:?}, {losses:?}");
        }
    }
    assert!(back > 0, "nothing came back");
}

/// The log has gone on in a segment that only the last record of the manifest names, and that
/// record is cut: the manifest before it is whole and names nothing that is missing.
#[test]
fn a_segment_that_only_a_lost_record_names_comes_over() {
    let system = SimSystem::new(1, Config::default());
    let options = || options(&system).memtable_bytes(1 << 20);
    let db = options().create(true).open(PATH).unwrap();
    let space = db.keyspace("space", KeyspaceOptions::default()).unwrap();
    let segments = || {
        let is_log = |path: &&PathBuf| path.extension().is_some_and(|kind| kind == "log");
        system.files().iter().filter(is_log).count()
    };
    let mut number = 0_u32;
    let mut put = || {
        let mut batch = Batch::new();
        batch.put(&space, &number.to_be_bytes(), &[7; 100]).unwrap();
        db.write_with(batch, Durability::Durable).unwrap();
        number += 1;
    };
    while segments() < 2 {
        put();
    }
    put();
    put();
    let expected = state(&{
        let copy = system.killed_copy();
        super::tests::options(&copy).open_read_only(PATH).unwrap()
    });
    system.kill();
    drop(db);
    let system = system.restart_process();
    let manifest = system.open_data(&Path::new(PATH).join("MANIFEST"), Open::Write, 0).unwrap();
    manifest.set_len(manifest.len().unwrap() - 3).unwrap();
    let (report, found) = salvage(&system);
    assert_eq!(found, expected);
    assert!(report.losses.iter().any(|loss| loss.reason.contains("last records")), "{report:?}");
}

#[test]
fn a_keyspace_without_a_name_gets_one() {
    let system = SimSystem::new(1, Config::default());
    let db = options(&system).create(true).open(PATH).unwrap();
    let space = db.keyspace("lost", Default::default()).unwrap();
    let first = system.files().into_iter().find(|path| path.extension().is_some()).unwrap();
    let at = system.content(&first).unwrap().windows(4).position(|bytes| bytes == b"lost").unwrap();
    db.put(&space, b"key", b"value").unwrap();
    db.close().unwrap();
    system.edit(&first, at as u64, b"x").unwrap();
    let (report, found) = salvage(&system);
    let key = (b"salvaged-1".to_vec(), b"key".to_vec());
    assert_eq!(found, State::from([(key, b"value".to_vec())]));
    assert_eq!((report.losses.len(), report.losses[0].count), (1, None));
}

#[test]
fn work_that_is_ended_leaves_nothing() {
    let (system, _) = store();
    let mut calls = 0;
    let ended = options(&system).salvage(PATH, NEW, &mut |_, _| {
        calls += 1;
        if calls > 3 { Err(Error::Interrupted) } else { Ok(()) }
    });
    assert!(matches!(ended, Err(Error::Interrupted)));
    assert!(system.files().iter().all(|path| !path.starts_with(NEW)));
    let db = options(&system).open(PATH).unwrap();
    let locked = options(&system.process()).salvage(PATH, NEW, &mut |_, _| Ok(()));
    assert!(matches!(locked, Err(Error::Locked { .. })));
    drop(db);
    let nothing = options(&system).salvage("/d/none", NEW, &mut |_, _| Ok(()));
    assert!(matches!(nothing, Err(Error::Path { .. })));
}
