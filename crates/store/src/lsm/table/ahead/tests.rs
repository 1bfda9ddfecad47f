//! What is read early is what stands there, its failures are reported where they belong, and
//! nothing of it remains.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::super::super::entry::{Entry, Kind};
use super::super::super::files::{Directory, Name};
use super::super::super::merge::Source;
use super::super::{Finder, Pace, Table, TableBuilder, TableCursor};
use super::*;
use crate::lsm::files::memory::Budget;
use crate::os::aio::Threads;
use crate::os::sim::{Config, Fault, Kept, Operation, SimSystem};
use crate::os::{Open, System};

/// Pieces of 32 KiB, the shortest ones.
const PIECE: usize = BYTES_MIN;
/// About forty of them.
const ENTRIES: u64 = 1300;

fn value(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(if number % 97 == 50 { 6000 } else { 60 })
}

/// A table whose pieces are read early, by threads.
fn table() -> (SimSystem, Arc<Directory>, Table) {
    let system = SimSystem::new(1, Config::default());
    let (path, budget) = (PathBuf::from("/d"), Budget::new(1 << 20, 0));
    let mut directory = Directory::new(Arc::new(system.clone()), path, 0o600, budget);
    directory.io = Arc::new(Threads::new());
    directory.system.create_directory(&directory.path, 0o700).unwrap();
    let directory = Arc::new(directory);
    assert_eq!(directory.budget.piece_bytes(), PIECE);
    let mut builder = TableBuilder::new(&directory, 5, 0).unwrap();
    for number in 0..ENTRIES {
        let (key, value) = (number.to_be_bytes(), value(number));
        let entry = Entry { key: &key, seq: number + 1, kind: Kind::Inline, value: &value };
        builder.add(entry, false).unwrap();
    }
    let meta = builder.finish(&[]).unwrap();
    let handle = directory.handle(Name::Table(5));
    let finder = Finder::read(&handle, &meta).unwrap();
    (system, directory, Table::new(handle, Arc::new(finder)))
}

/// Goes on until the end or an error; how many entries there were.
fn go_on(cursor: &mut TableCursor, from: u64) -> (u64, Result<()>) {
    let mut number = from;
    while let Some(entry) = cursor.entry() {
        assert_eq!((entry.key, entry.value), (&number.to_be_bytes()[..], &value(number)[..]));
        number += 1;
        if let Err(error) = cursor.next() {
            return (number, Err(error));
        }
    }
    (number, Ok(()))
}

/// Moves on by `count` entries.
fn steps(cursor: &mut TableCursor, count: u64) {
    (0..count).for_each(|_| cursor.next().unwrap());
}

/// Waits until `count` reads were begun since `before`.
fn wait_for_reads(system: &SimSystem, before: u64, count: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    while system.calls(Operation::Read) < before + count {
        assert!(Instant::now() < until, "nothing is read early");
        std::thread::yield_now();
    }
}

fn charged(directory: &Directory) -> u64 {
    directory.budget.charged(|| ()).0[Part::Buffers as usize]
}

#[test]
fn the_next_piece_is_read_while_entries_are_handed_out() {
    let (system, directory, table) = table();
    let before = system.calls(Operation::Read);
    let mut cursor = TableCursor::new(table, Pace::Whole);
    cursor.first().unwrap();
    wait_for_reads(&system, before, 2);
    assert_eq!(charged(&directory), 2 * PIECE as u64);
    let (count, result) = go_on(&mut cursor, 0);
    result.unwrap();
    assert_eq!(count, ENTRIES);
    drop(cursor);
    assert_eq!((charged(&directory), system.open_handles()), (0, 0));
}

#[test]
fn a_search_reads_early_when_it_went_on_for_long() {
    let (system, directory, table) = table();
    let mut cursor = TableCursor::new(table, Pace::Searching);
    cursor.first().unwrap();
    let mut number = 0;
    while charged(&directory) == 0 {
        cursor.next().unwrap();
        number += 1;
    }
    assert!(number > 10, "{number}");
    let reads = system.calls(Operation::Read);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(system.calls(Operation::Read), reads, "most searches end soon");
    assert_eq!(charged(&directory), PIECE as u64);
    steps(&mut cursor, 200);
    assert!(charged(&directory) >= 2 * PIECE as u64);
    let (count, result) = go_on(&mut cursor, number + 200);
    result.unwrap();
    assert_eq!(count, ENTRIES);
    // And from any place, also in the middle of what is on its way.
    for from in (0..ENTRIES).step_by(111) {
        cursor.seek(&from.to_be_bytes(), u64::MAX).unwrap();
        for number in from..(from + 400).min(ENTRIES) {
            assert_eq!(cursor.entry().unwrap().key, number.to_be_bytes());
            cursor.next().unwrap();
        }
    }
}

#[test]
fn an_early_failure_is_told_when_the_cursor_comes_to_it() {
    for nth in [2, 3, 9] {
        let (system, _, table) = table();
        let mut cursor = TableCursor::new(table, Pace::Whole);
        system.fail(Operation::Read, nth, 1, Fault::io(Kept::None));
        let before = system.calls(Operation::Read);
        cursor.first().unwrap();
        let (count, result) = go_on(&mut cursor, 0);
        assert!(matches!(result, Err(Error::Io { .. })), "{result:?}");
        let read = system.calls(Operation::Read) - before;
        assert_eq!(read, nth, "nothing is read behind it");
        assert!(count > 0 && count < ENTRIES, "{count}");
        // It can be read the next time.
        cursor.seek(&count.to_be_bytes(), u64::MAX).unwrap();
        let (count, result) = go_on(&mut cursor, count);
        result.unwrap();
        assert_eq!(count, ENTRIES);
    }
}

#[test]
fn an_early_failure_that_nobody_comes_to_is_not_told() {
    let (system, _, table) = table();
    let mut cursor = TableCursor::new(table, Pace::Whole);
    let before = system.calls(Operation::Read);
    system.fail(Operation::Read, 2, 1, Fault::io(Kept::None));
    cursor.first().unwrap();
    wait_for_reads(&system, before, 2);
    steps(&mut cursor, 3);
    cursor.seek(&900_u64.to_be_bytes(), u64::MAX).unwrap();
    let (count, result) = go_on(&mut cursor, 900);
    result.unwrap();
    assert_eq!((count, system.failed()), (ENTRIES, vec![Operation::Read]));
}

#[test]
fn where_the_file_is_cut_short_the_cursor_says_so_there() {
    for pace in [Pace::Whole, Pace::Searching] {
        let (system, directory, table) = table();
        let path = directory.file(Name::Table(5));
        let file = system.open_data(&path, Open::Write, 0).unwrap();
        // Somewhere in a piece that is read early.
        let len = 20 * PIECE as u64 + 1000;
        file.set_len(len).unwrap();
        let mut cursor = TableCursor::new(table, pace);
        cursor.first().unwrap();
        let (count, result) = go_on(&mut cursor, 0);
        assert!(matches!(result, Err(Error::Corrupt { .. })), "{result:?}");
        assert!(len - cursor.block_offset() < 2 * PIECE as u64, "all before it was read");
        assert!(count > 500 && count < ENTRIES, "{count}");
    }
}

#[test]
fn a_cursor_that_is_dropped_leaves_nothing() {
    let (system, directory, table) = table();
    for stop in (0..ENTRIES).step_by(37) {
        let mut cursor = TableCursor::new(table.clone(), Pace::Whole);
        cursor.first().unwrap();
        steps(&mut cursor, stop);
        drop(cursor);
        assert_eq!(charged(&directory), 0);
    }
    drop(table);
    assert_eq!(system.open_handles(), 0);
    // The threads end with the directory.
    drop(Arc::into_inner(directory).unwrap());
}

#[test]
fn a_cursor_goes_to_another_thread_with_its_reads() {
    let (_, _, table) = table();
    let mut cursor = TableCursor::new(table, Pace::Whole);
    cursor.first().unwrap();
    let mut number = 0;
    while number < ENTRIES {
        (cursor, number) = std::thread::spawn(move || {
            let end = (number + 150).min(ENTRIES);
            for number in number..end {
                assert_eq!(cursor.entry().unwrap().value, value(number));
                cursor.next().unwrap();
            }
            (cursor, end)
        })
        .join()
        .unwrap();
    }
}
