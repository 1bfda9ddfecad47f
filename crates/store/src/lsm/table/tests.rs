//! Tables answer as a sorted list does, in both directions, and name every changed byte.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::entry::{Entry, Kind, compare};
use super::super::files::{Directory, Name};
use super::super::filter;
use super::super::merge::Source;
use super::super::tombstones::Tombstone;
use super::*;
use crate::Error;
use crate::lsm::files::cached::Cached;
use crate::lsm::files::memory::Budget;
use crate::lsm::read::fetch::Wanted;
use crate::os::System;
use crate::os::sim::{self, SimSystem};

type Owned = (Vec<u8>, u64, Vec<u8>);

/// Some keys have many versions that are long enough to fill several blocks.
fn entries() -> Vec<Owned> {
    let mut all = Vec::new();
    for n in 0..60_u64 {
        let versions = if n % 7 == 0 { 40 } else { 1 + n % 3 };
        for version in (0..versions).rev() {
            let key = format!("key{:03}{}", n * 2, "x".repeat((n % 5) as usize * 50)).into_bytes();
            all.push((key, 1 + version * 3, vec![n as u8; (version % 4) as usize * 200]));
        }
    }
    all
}

fn write(entries: &[Owned], blocks: u64) -> (SimSystem, Arc<Directory>, TableMeta) {
    let system = SimSystem::new(1, sim::Config::default());
    let budget = Budget::new(blocks, 0);
    let directory = Directory::new(Arc::new(system.clone()), PathBuf::from("/d"), 0o600, budget);
    directory.system.create_directory(&directory.path, 0o700).unwrap();
    let directory = Arc::new(directory);
    let mut builder = TableBuilder::new(&directory, 5, 0).unwrap();
    for (key, seq, value) in entries {
        builder.add(Entry { key, seq: *seq, kind: Kind::Inline, value }, false).unwrap();
    }
    let tombstone = Tombstone { start: b"key050".to_vec(), end: b"key9".to_vec(), seq: 700 };
    let meta = builder.finish(&[tombstone]).unwrap();
    (system, directory, meta)
}

fn open(directory: &Arc<Directory>, meta: &TableMeta) -> crate::Result<Table> {
    let handle = directory.handle(Name::Table(5));
    let finder = Finder::read(&handle, meta)?;
    Ok(Table::new(handle, Arc::new(finder)))
}

fn owned(cursor: &TableCursor) -> Option<Owned> {
    cursor.entry().map(|entry| (entry.key.to_vec(), entry.seq, entry.value.to_vec()))
}

/// What the search for a key finds.
fn get(
    directory: &Arc<Directory>,
    meta: &TableMeta,
    key: &[u8],
    at: u64,
) -> Option<(u64, Kind, Vec<u8>)> {
    let handle = directory.handle(Name::Table(5));
    let finder = Finder::read(&handle, meta).unwrap();
    if !finder.may_hold(filter::hash(key)) {
        return None;
    }
    let number = finder.number_of(&handle, key).unwrap();
    let mut site = finder.site(&handle, number).unwrap();
    while let Some(here) = site {
        let Cached::Block(block) = Wanted::Block(here).get(&directory.blocks).unwrap() else {
            panic!("another thing than the block that was wanted")
        };
        match look(&block, key, at).unwrap() {
            Look::Found((seq, kind, value)) => return Some((seq, kind, value.to_vec())),
            Look::Absent => return None,
            Look::Next => site = finder.behind(&here).unwrap(),
        }
    }
    None
}

#[test]
fn a_table_is_the_list_that_it_was_made_of() {
    let list = entries();
    for (cache, pace) in [(2 << 20, Pace::Searching), (0, Pace::Searching), (1 << 20, Pace::Whole)]
    {
        let (_, directory, meta) = write(&list, cache);
        assert_eq!((meta.entries, meta.ranges, meta.seqs), (list.len() as u64, 1, (1, 700)));
        assert!(meta.bounds.excludes_last && meta.bounds.last == b"key9");
        let table = open(&directory, &meta).unwrap();
        assert_eq!(table.pieces().cover(b"key07", 1000), 700);
        let mut cursor = TableCursor::new(table.clone(), pace);
        cursor.first().unwrap();
        for entry in &list {
            assert_eq!(owned(&cursor).as_ref(), Some(entry));
            cursor.next().unwrap();
        }
        assert!(cursor.entry().is_none());
        cursor.last().unwrap();
        for entry in list.iter().rev() {
            assert_eq!(owned(&cursor).as_ref(), Some(entry));
            cursor.prev().unwrap();
        }
        for (key, _, _) in &list {
            for at in [0, 1, 2, 50, 118, 1000] {
                let first = list.iter().find(|e| compare((&e.0, e.1), (key, at)).is_ge());
                cursor.seek(key, at).unwrap();
                assert_eq!(owned(&cursor).as_ref(), first);
                let found = get(&directory, &meta, key, at);
                let expected =
                    first.filter(|e| e.0 == *key).map(|e| (e.1, Kind::Inline, e.2.clone()));
                assert_eq!(found, expected);
            }
            let absent = [key, &b"!"[..]].concat();
            assert_eq!(get(&directory, &meta, &absent, 1000), None);
        }
    }
}

/// A byte that changed is an error that names the file, wherever it is; never a panic, and never
/// another answer.
#[test]
fn every_changed_byte_is_named() {
    let list: Vec<Owned> = entries().into_iter().take(70).collect();
    let (system, directory, meta) = write(&list, 0);
    let path = directory.file(Name::Table(5));
    let whole = system.content(&path).unwrap();
    for (at, &byte) in whole.iter().enumerate() {
        system.edit(&path, at as u64, &[byte ^ 0x10]).unwrap();
        let read = || {
            let mut cursor = TableCursor::new(open(&directory, &meta)?, Pace::Searching);
            cursor.first()?;
            while cursor.entry().is_some() {
                cursor.next()?;
            }
            Ok(())
        };
        match read() {
            Err(Error::Corrupt { path: named, .. }) => assert_eq!(named, path),
            other => panic!("byte {at}: {other:?}"),
        }
        system.edit(&path, at as u64, &[byte]).unwrap();
    }
    for len in [0, 1, FOOTER_BYTES as u64, meta.bytes - 1] {
        let file = system.open_data(&path, crate::os::Open::Write, 0).unwrap();
        file.set_len(len).unwrap();
        assert!(matches!(open(&directory, &meta), Err(Error::Corrupt { .. })));
    }
}
