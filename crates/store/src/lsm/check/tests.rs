//! Tables whose blocks are whole, each by itself, and wrong about each other.

use std::path::PathBuf;

use super::super::files::{self, Name};
use super::super::table::{
    FILTER_LEN_OFFSET, FILTER_OFFSET, FOOTER_BYTES, FOOTER_SUM_OFFSET, RANGES_LEN_OFFSET, seal_raw,
};
use super::super::{Db, Options};
use super::*;
use crate::checksum::crc32c;
use crate::coding::{put_u32, u32_at, u64_at};
use crate::os::sim::{Config, SimSystem};

const KEYS: u32 = 40;

fn key(number: u32) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// A store with one table, which has keys and a deleted range.
fn store() -> (SimSystem, Db, PathBuf) {
    let system = SimSystem::new(1, Config::default());
    let options = Options::new().create(true).system(Arc::new(system.clone()));
    let db = options.open("/db").unwrap();
    let space = db.keyspace("space", Default::default()).unwrap();
    db.delete_range(&space, b"a"..b"b").unwrap();
    (0..KEYS).for_each(|number| db.put(&space, &key(number), b"value").unwrap());
    db.flush().unwrap();
    assert!(db.check().unwrap().is_sound());
    let is_table =
        |path: &PathBuf| matches!(path.file_name().and_then(files::parse), Some(Name::Table(_)));
    let path = system.files().into_iter().find(is_table).unwrap();
    (system, db, path)
}

/// The number of a table, by its name.
fn number(path: &std::path::Path) -> u32 {
    match path.file_name().and_then(files::parse) {
        Some(Name::Table(number)) => number,
        _ => panic!("{} is no table", path.display()),
    }
}

/// What a check finds, in words.
fn damage(db: &Db) -> Vec<String> {
    db.check().unwrap().damage.iter().map(ToString::to_string).collect()
}

/// Where the filter of a table stands.
fn filter_place(file: &[u8]) -> (u64, u32) {
    let footer = &file[file.len() - FOOTER_BYTES..];
    (u64_at(footer, FILTER_OFFSET), u32_at(footer, FILTER_LEN_OFFSET))
}

/// Look-ups would not find the keys, and scans would.
#[test]
fn a_filter_that_hides_keys_is_damage() {
    let (system, db, path) = store();
    let (offset, len) = filter_place(&system.content(&path).unwrap());
    // The table has the record of the keyspace, too.
    let others = vec![filter::hash(b"other"); KEYS as usize + 1];
    let wrong = filter::build(&others, filter::BITS_PER_KEY);
    let wrong = seal_raw(wrong, 0, number(&path), offset);
    assert_eq!(wrong.len(), len as usize);
    system.edit(&path, offset, &wrong).unwrap();
    let found = damage(&db);
    assert!(found.len() == 1 && found[0].contains("filter"), "{found:?}");
}

/// What was deleted would be back.
#[test]
fn deleted_ranges_that_are_missing_are_damage() {
    let (system, db, path) = store();
    let file = system.content(&path).unwrap();
    let at = file.len() - FOOTER_BYTES;
    let mut footer = file[at..].to_vec();
    put_u32(&mut footer, RANGES_LEN_OFFSET, 0);
    let sum = crc32c(u64::from(number(&path)), &footer[..FOOTER_SUM_OFFSET]);
    put_u32(&mut footer, FOOTER_SUM_OFFSET, sum);
    system.edit(&path, at as u64, &footer).unwrap();
    let found = damage(&db);
    assert!(found.len() == 1 && found[0].contains("deleted ranges"), "{found:?}");
}

/// What finds the entries is in memory when the file is damaged.
#[test]
fn the_file_is_checked_and_not_what_is_in_memory() {
    let (system, db, path) = store();
    let file = system.content(&path).unwrap();
    let (offset, _) = filter_place(&file);
    system.edit(&path, offset, &[file[offset as usize] ^ 1]).unwrap();
    assert_eq!(damage(&db).len(), 1);
}
