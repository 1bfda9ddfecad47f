//! Data files that are written, and read by LMDB; what LMDB cannot hold.

use std::fs::File;
use std::path::Path;

use super::{Refused, Table, Target, wrong_name};
use crate::lmdb::Environment;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Databases: a name (none for the main one), flags, entries.
type Databases = Vec<(Option<&'static str>, u16, Entries)>;

fn write(folder: &Path, databases: &Databases) {
    let mut target = Target::new(File::create(folder.join("data.mdb")).unwrap()).unwrap();
    for (name, flags, entries) in databases {
        let Some(name) = name else { continue };
        let mut table = Table::new(*flags);
        entries.iter().for_each(|(key, value)| target.put(&mut table, key, value).unwrap());
        target.end(name.as_bytes(), table).unwrap();
    }
    let given = databases.iter().find(|(name, ..)| name.is_none());
    let mut main = target.begin_main(given.map_or(0, |(_, flags, _)| *flags));
    for (key, value) in given.into_iter().flat_map(|(.., entries)| entries) {
        target.put_main(&mut main, key, value).unwrap();
    }
    target.finish(main).unwrap();
}

/// Writes the databases, and has LMDB read them.
#[track_caller]
fn there_and_back(databases: &Databases) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), databases);
    let environment = Environment::open(folder.path()).unwrap();
    let found = environment.databases().unwrap();
    for (name, flags, entries) in databases {
        let name = name.map(|name| name.as_bytes().to_vec());
        let Some(database) = found.iter().find(|database| database.name == name) else {
            assert!(name.is_none() && entries.is_empty(), "{name:?} is missing");
            continue;
        };
        assert_eq!(database.duplicates, flags & 0x04 != 0);
        assert_eq!(database.fixed_values, flags & 0x10 != 0);
        assert_eq!(database.entries, entries.len() as u64);
        let mut read = Entries::new();
        let mut take = |key: &[u8], value: &[u8]| {
            read.push((key.to_vec(), value.to_vec()));
            Ok(())
        };
        environment.for_each(database, &mut take).unwrap();
        assert!(read == *entries, "{name:?} differs");
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("{n:09}").into_bytes()
}

#[test]
fn any_number_of_entries() {
    for count in [0, 1, 2, 3, 200, 1000, 50_000] {
        let entries: Entries = (0..count).map(|n| (key(n), b"value".to_vec())).collect();
        there_and_back(&vec![(None, 0, entries.clone())]);
        there_and_back(&vec![(Some("one"), 0, entries), (None, 0, Entries::new())]);
    }
}

#[test]
fn values_of_all_lengths() {
    let lengths = (0..5000).chain([8175, 8176, 8177, 100_000, 3 << 20]);
    for key_bytes in [9, 10, 511] {
        let entry = |(n, bytes)| {
            let mut key = key(n);
            key.resize(key_bytes, b'k');
            (key, vec![n as u8; bytes])
        };
        there_and_back(&vec![(None, 0, (0..).zip(lengths.clone()).map(entry).collect())]);
    }
}

#[test]
fn long_keys_make_deep_trees() {
    let entry = |n| ([key(n), vec![b'k'; 502]].concat(), vec![b'v'; 1000]);
    there_and_back(&vec![(None, 0, (0..20_000).map(entry).collect())]);
}

/// Few values are in the node of their key, many in a tree; sizes from the smallest to the largest.
#[test]
fn several_values_of_a_key() {
    for bytes in [2, 3, 4, 8, 100, 511] {
        let value = |n: u32| {
            let mut value = vec![b'v'; bytes];
            let digits = n.to_be_bytes();
            let from = 4_usize.saturating_sub(bytes);
            value[..bytes.min(4)].copy_from_slice(&digits[from..]);
            value
        };
        let counts = (0..300).chain([1999, 2000, 5000, 60_000]).map(|count: u32| count.max(1));
        let of_key = |(n, count): (u32, u32)| (0..count).map(move |v| (key(n), value(v)));
        let entries: Entries = (0..).zip(counts).flat_map(of_key).collect();
        there_and_back(&vec![(Some("any"), 0x04, entries.clone()), (Some("same"), 0x14, entries)]);
    }
}

#[test]
fn single_bytes_as_values() {
    let entries: Entries = (0..=255).map(|byte| (b"k".to_vec(), vec![byte])).collect();
    there_and_back(&vec![(Some("any"), 0x04, entries.clone()), (Some("same"), 0x14, entries)]);
}

#[test]
fn integers_and_reversed_strings_come_in_their_orders() {
    let integers: Entries =
        (0..3000_u32).map(|n| (n.to_le_bytes().to_vec(), b"value".to_vec())).collect();
    let values: Entries =
        (0..3000_u64).map(|n| (b"k".to_vec(), n.to_le_bytes().to_vec())).collect();
    let led: Entries = (0..3000_u32)
        .map(|n| (b"k".to_vec(), [n.to_le_bytes().to_vec(), vec![!n as u8; 7]].concat()))
        .collect();
    let mut reversed: Entries = (0..3000_u32).map(|n| (key(n * 7), b"value".to_vec())).collect();
    reversed.sort_by(|(a, _), (b, _)| a.iter().rev().cmp(b.iter().rev()));
    let tails: Entries = reversed.iter().map(|(key, _)| (b"k".to_vec(), key.clone())).collect();
    there_and_back(&vec![
        (Some("integers"), 0x08, integers),
        (Some("values"), 0x34, values.clone()),
        (Some("free values"), 0x24, values),
        (Some("led"), 0x34, led),
        (Some("reversed"), 0x02, reversed.clone()),
        (Some("tails"), 0x44, tails),
        (None, 0x02, reversed),
    ]);
}

#[test]
fn names_stand_between_the_entries_of_the_main_database() {
    let entries = |keys: &[&str]| {
        keys.iter().map(|key| (key.as_bytes().to_vec(), vec![7; 48])).collect::<Entries>()
    };
    for main in [&["a", "n", "z"][..], &["n"], &["a", "b"], &["x", "y"], &[]] {
        there_and_back(&vec![
            (Some("o"), 0, entries(&["z"])),
            (Some("m"), 0, entries(&["a"])),
            (None, 0, entries(main)),
        ]);
    }
}

#[test]
fn what_lmdb_cannot_hold_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |flags: u16, entries: &[(&[u8], &[u8])]| {
        let file = File::create(folder.path().join("data.mdb")).unwrap();
        let (mut target, mut table) = (Target::new(file).unwrap(), Table::new(flags));
        let mut put = entries.iter().map(|(key, value)| target.put(&mut table, key, value));
        match put.find_map(Result::err) {
            Some(Refused::Entry(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let (longest, long) = ([b'k'; 511], [b'k'; 512]);
    assert_eq!(refused(0, &[(&longest, &long), (b"", b"v")]), "it is empty");
    assert!(refused(0, &[(&long, b"v")]).contains("511 bytes"));
    assert!(refused(0x04, &[(b"k", &longest), (b"l", &long)]).contains("511 bytes"));
    assert!(refused(0x04, &[(b"k", b""), (b"l", b""), (b"l", b"1")]).contains("empty"));
    assert!(refused(0x14, &[(b"k", b"1"), (b"k", b"22")]).contains("sizes"));
    assert!(refused(0x08, &[(b"abc", b"")]).contains("integer"));
    assert!(refused(0x08, &[(&[1; 4], b""), (&[2; 8], b"")]).contains("size"));
    assert!(refused(0, &[(b"b", b""), (b"a", b"")]).contains("come after"));
    assert!(refused(0, &[(b"b", b""), (b"b", b"")]).contains("come after"));
    assert!(refused(0x04, &[(b"b", b"2"), (b"b", b"1")]).contains("order"));
    assert_eq!(wrong_name(b"name"), None);
    for name in [&b""[..], b"zero\0byte", &long] {
        assert!(wrong_name(name).is_some());
    }
    // The name of a table as a key.
    let file = File::create(folder.path().join("data.mdb")).unwrap();
    let mut target = Target::new(file).unwrap();
    target.end(b"name", Table::new(0)).unwrap();
    let mut main = target.begin_main(0);
    target.put_main(&mut main, b"a", b"").unwrap();
    assert!(matches!(target.put_main(&mut main, b"name", b""), Err(Refused::Entry(_))));
}
