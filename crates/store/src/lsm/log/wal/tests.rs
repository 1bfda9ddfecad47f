//! Groups are read as they were written; what is not whole ends a segment, or is damage.

use std::path::Path;

use super::super::groups::Groups;
use super::super::segment::{HEADER_BYTES, OpKind, Ops, push_op};
use super::*;
use crate::os::sim::{self, CrashMode, Fault, Kept, Operation, SimSystem};
use crate::os::{Open, System};

const PATH: &str = "/d/00000007.log";

fn segment() -> (SimSystem, Log) {
    let system = SimSystem::new(1, sim::Config::default());
    let identity = Identity { number: 7, salt: 99, first_seq: 5 };
    let file = system.open_data(Path::new(PATH), Open::Create, 0).unwrap();
    file.write_at(&[IoSlice::new(&identity.header())], 0).unwrap();
    let bounds = Bounds { window_bytes: 8 << 10, keeps: false, segment_bytes: 0 };
    let segment = SegmentFile { identity, file, path: PathBuf::from(PATH) };
    (system, Log::new(segment, HEADER_BYTES as u64, bounds, Arc::default(), None))
}

fn body(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    push_op(&mut body, OpKind::Put, [&[0, 0, 0, 1], key], [value, &[]]);
    body
}

fn groups(system: &SimSystem, log: &Log) -> Groups {
    let file = system.open_data(Path::new(PATH), Open::Read, 0).unwrap();
    let len = file.len().unwrap();
    Groups::new(log.identity(), file, Path::new(PATH), len).unwrap()
}

fn read(groups: &mut Groups) -> Vec<(u64, u32, u64)> {
    let mut found = Vec::new();
    while let Some(group) = groups.next().unwrap() {
        assert!(Ops::new(group.body).count() == group.count as usize);
        found.push((group.seq, group.count, group.flushed));
    }
    found
}

#[test]
fn groups_are_read_as_they_were_written() {
    let (system, mut log) = segment();
    let two = [body(b"b", b"2"), body(b"c", b"3")].concat();
    log.append(&[(1, &body(b"a", b"1"))], 5, Durability::None).unwrap();
    assert!(groups(&system, &log).is_at_end(), "it is held back");
    log.append(&[(2, &two), (1, &body(b"d", &[4; 9000]))], 6, Durability::Eventual).unwrap();
    log.flush().unwrap();
    let flushed = log.end();
    log.append(&[(1, &body(b"e", b""))], 9, Durability::Eventual).unwrap();
    let mut found = groups(&system, &log);
    let header = HEADER_BYTES as u64;
    assert_eq!(read(&mut found), [(5, 1, header), (6, 2, header), (8, 1, header), (9, 1, flushed)]);
    assert!(found.is_at_end());
}

/// A changed bit ends the segment there, and is distinguished from a torn tail if something was
/// flushed after it.
#[test]
fn a_changed_bit_is_an_end_or_damage() {
    let (system, mut log) = segment();
    for n in 0..3 {
        log.append(&[(1, &body(b"key", &[n; 40]))], 5 + u64::from(n), Durability::Eventual)
            .unwrap();
    }
    log.flush().unwrap();
    let flushed = log.end();
    log.append(&[(1, &body(b"last", b""))], 8, Durability::Eventual).unwrap();
    let whole = system.content(Path::new(PATH)).unwrap();
    for bit in HEADER_BYTES * 8..whole.len() * 8 {
        let byte = bit / 8;
        system.edit(Path::new(PATH), byte as u64, &[whole[byte] ^ 1 << (bit % 8)]).unwrap();
        let mut found = groups(&system, &log);
        let count = read(&mut found).len();
        assert!(count < 4 && !found.is_at_end(), "bit {bit}");
        let is_flushed = (byte as u64) < flushed;
        assert_eq!(found.is_damaged_here(4).unwrap(), is_flushed, "bit {bit}, {count} groups");
        system.edit(Path::new(PATH), byte as u64, &[whole[byte]]).unwrap();
    }
}

#[test]
fn groups_of_another_life_do_not_pass() {
    let (system, mut log) = segment();
    log.append(&[(1, &body(b"a", b"1"))], 5, Durability::Eventual).unwrap();
    let file = system.open_data(Path::new(PATH), Open::Read, 0).unwrap();
    let len = file.len().unwrap();
    let other = Identity { salt: 98, ..log.identity() };
    assert!(other.verify(&*file, Path::new(PATH)).is_err());
    let mut found = Groups::new(other, file, Path::new(PATH), len).unwrap();
    assert!(found.next().unwrap().is_none() && !found.is_damaged_here(4).unwrap());
}

#[test]
fn operations_that_make_no_sense_are_refused() {
    let mut backwards = Vec::new();
    push_op(&mut backwards, OpKind::DeleteRange, [&[0, 0, 0, 1], b"b"], [&[0, 0, 0, 1, b'a'], &[]]);
    let mut short = Vec::new();
    push_op(&mut short, OpKind::Put, [&[0, 0], b""], [b"v", &[]]);
    let whole = body(b"key", b"value");
    for bytes in [&backwards[..], &short, &[9, 4, 0, 0, 0, 0, 1], &whole[..whole.len() - 1]] {
        let mut ops = Ops::new(bytes);
        assert!(ops.next().is_none() && !ops.is_whole(), "{bytes:?}");
    }
}

/// If flushes are frequent the file is longer than the log, up to the length of a segment, and what
/// is after the end is no group.
#[test]
fn zeros_are_put_behind_the_end() {
    let (system, mut log) = segment();
    log.bounds.segment_bytes = 500;
    for n in 0..9 {
        log.append(&[(1, &body(b"key", &[n; 40]))], 5 + u64::from(n), Durability::Eventual)
            .unwrap();
        log.flush().unwrap();
        let len = system.content(Path::new(PATH)).unwrap().len() as u64;
        assert_eq!(len, log.end().max(500));
        let mut found = groups(&system, &log);
        assert_eq!(read(&mut found).len(), usize::from(n) + 1);
        assert!(found.is_at_end() || !found.is_damaged_here(4).unwrap());
    }
    let ended = log.end_with(13);
    ended.trim().unwrap();
    ended.flush().unwrap();
    assert_eq!(system.content(Path::new(PATH)).unwrap().len() as u64, log.end());
}

/// What a failed write leaves never takes effect: not even after a shorter group in its place,
/// which a power cut leaves.
#[test]
fn a_failed_write_is_cut_off() {
    let (system, mut log) = segment();
    log.append(&[(1, &body(b"a", b"1"))], 5, Durability::Eventual).unwrap();
    log.flush().unwrap();
    system.sync_directory(Path::new(PATH)).unwrap();
    system.fail(Operation::Write, 1, 1, Fault::io(Kept::All));
    let two = [(1, &body(b"b", b"2")[..]), (1, &body(b"c", b"3"))];
    assert!(log.append(&two, 6, Durability::Eventual).is_err());
    assert!(!log.is_broken());
    let flushed = log.end();
    log.append(&[(1, &body(b"d", b"4"))], 6, Durability::Eventual).unwrap();
    assert_eq!(read(&mut groups(&system, &log)), [(5, 1, 64), (6, 1, flushed)]);
    for seed in 0..100 {
        let disk = system.crash(seed, CrashMode::Torn512);
        let found = read(&mut groups(&disk, &log));
        assert!(found.len() <= 2 && found[0] == (5, 1, 64), "{found:?}");
    }
}

/// Nothing may be appended where the content of the disk is unknown.
#[test]
fn a_failed_flush_breaks_the_log() {
    let failing = |operations: &[Operation]| {
        let (system, mut log) = segment();
        log.append(&[(1, &body(b"a", b"1"))], 5, Durability::Eventual).unwrap();
        for &operation in operations {
            system.fail(operation, 1, 1, Fault::io(Kept::None));
        }
        let appended = log.append(&[(1, &body(b"b", b"2"))], 6, Durability::Eventual);
        assert!(appended.map(drop).and_then(|()| log.flush()).is_err());
        log.is_broken()
    };
    assert!(!failing(&[Operation::Write]));
    assert!(failing(&[Operation::Sync]));
    assert!(failing(&[Operation::Write, Operation::Sync]));
    assert!(failing(&[Operation::Write, Operation::SetLen]));
}
