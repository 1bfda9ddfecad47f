//! Typed keyspaces over the whole log-structured engine, beside the standard library's ordered map.

use std::collections::BTreeMap;
use std::path::Path;

use hedgerow::lsm::{Batch, Db, Options, TypedKeyspace};
use hedgerow::stream::Standby;
use hedgerow::tree::{Store, TableOptions, TypedTable, type_flags};
use hedgerow::{Durability, Error};
use proptest::prelude::*;

fn options() -> Options {
    let options = Options::new().create(true).durability(Durability::None);
    options.memtable_bytes(16 << 10).segment_bytes(64 << 10).table_bytes(16 << 10)
}

fn db() -> (tempfile::TempDir, Db) {
    let folder = tempfile::tempdir().unwrap();
    let db = options().open(folder.path().join("db")).unwrap();
    (folder, db)
}

fn create<K, V>(db: &Db, name: &str) -> hedgerow::Result<TypedKeyspace<K, V>>
where
    K: hedgerow::key::KeyCode,
    V: hedgerow::key::ValueCode,
{
    TypedKeyspace::create(db, name, Default::default())
}

fn refused<T: std::fmt::Debug>(result: hedgerow::Result<T>) {
    assert!(matches!(result, Err(Error::TableOptions { .. })), "{result:?}");
}

/// A few opening calls that are granted and a few that are not, of a store with the keyspaces
/// "typed" and "plain".
fn opens_only_with_its_types(from: &impl hedgerow::lsm::TypedRead) {
    TypedKeyspace::<String, u64>::open(from, "typed").unwrap();
    refused(TypedKeyspace::<String, u32>::open(from, "typed"));
    refused(TypedKeyspace::<Vec<u8>, u64>::open(from, "typed"));
    refused(TypedKeyspace::<String, u64>::open(from, "plain"));
    let missing = TypedKeyspace::<u64, u64>::open(from, "missing");
    assert!(matches!(missing, Err(Error::NoTable { name }) if name == b"missing"));
}

#[test]
fn a_keyspace_opens_only_with_its_types() {
    let (folder, db) = db();
    let path = folder.path().join("db");
    let typed = create::<String, u64>(&db, "typed").unwrap();
    db.put(typed.keyspace(), b"key", &[0; 8]).unwrap();
    db.keyspace("plain", Default::default()).unwrap();
    create::<String, u64>(&db, "typed").unwrap();
    assert_eq!(typed.keyspace().user_flags(), type_flags(false, "string", "u64"));
    refused(create::<u64, u64>(&db, "typed"));
    refused(create::<u64, u64>(&db, "plain"));
    let error = create::<u64, u64>(&db, "typed").unwrap_err().to_string();
    let expected = "table \"typed\" has other options: it was created for other types, not as a \
                    table u64 -> u64";
    assert_eq!(error, expected);
    opens_only_with_its_types(&db);
    opens_only_with_its_types(&db.snapshot());
    opens_only_with_its_types(&db.transaction());
    assert_eq!(db.keyspaces().unwrap(), [b"plain".to_vec(), b"typed".to_vec()]);

    db.compact().unwrap();
    assert!(db.check().unwrap().is_sound());
    db.close().unwrap();
    opens_only_with_its_types(&Options::new().open_read_only(&path).unwrap());
    let db = options().open(&path).unwrap();
    opens_only_with_its_types(&db);
    db.backup(folder.path().join("copy"), &mut |_, _| {}).unwrap();
    opens_only_with_its_types(&options().open(folder.path().join("copy")).unwrap());
}

#[test]
fn a_dropped_keyspace_leaves_its_name_to_other_types() {
    let (folder, db) = db();
    let old = create::<String, u64>(&db, "x").unwrap();
    let before = db.snapshot();
    assert!(db.drop_keyspace("x").unwrap());
    assert!(matches!(TypedKeyspace::<String, u64>::open(&db, "x"), Err(Error::NoTable { .. })));
    let mut batch = Batch::new();
    old.put(&mut batch, "a", 1).unwrap();
    assert!(matches!(db.write(batch), Err(Error::NoTable { .. })));
    db.keyspace("x", Default::default()).unwrap();
    refused(TypedKeyspace::<String, u64>::open(&db, "x"));
    db.drop_keyspace("x").unwrap();
    create::<i8, ()>(&db, "x").unwrap();
    refused(TypedKeyspace::<String, u64>::open(&db, "x"));
    TypedKeyspace::<String, u64>::open(&before, "x").unwrap();
    drop(before);
    db.close().unwrap();
    let db = options().open(folder.path().join("db")).unwrap();
    TypedKeyspace::<i8, ()>::open(&db, "x").unwrap();
}

#[test]
fn types_come_over_where_a_store_is_rescued_or_followed() {
    let (folder, db) = db();
    let beside = |name: &str| folder.path().join(name);
    let typed = create::<String, u64>(&db, "typed").unwrap();
    db.keyspace("plain", Default::default()).unwrap();
    let mut batch = Batch::new();
    (0..2_000).for_each(|n| typed.put(&mut batch, &n.to_string(), n).unwrap());
    db.write(batch).unwrap();

    let second = options().open(beside("second")).unwrap();
    Standby::new(&db, "s", &second).unwrap().step(Some(std::time::Duration::ZERO)).unwrap();
    opens_only_with_its_types(&second);
    let tree = Store::create(beside("tree")).unwrap();
    Standby::new(&db, "t", &tree).unwrap().step(Some(std::time::Duration::ZERO)).unwrap();
    let txn = tree.begin_read().unwrap();
    let table = TypedTable::<String, u64>::open(&txn, "typed").unwrap();
    assert_eq!(table.count(&txn).unwrap(), 2_000);
    drop(txn);

    let (tree, third) = (Store::create(beside("first")).unwrap(), beside("third"));
    let mut txn = tree.begin_write().unwrap();
    TypedTable::<String, u64>::create(&mut txn, "typed").unwrap();
    txn.create_table("plain", &TableOptions::new()).unwrap();
    txn.commit().unwrap();
    let third = options().open(third).unwrap();
    Standby::new(&tree, "t", &third).unwrap().step(Some(std::time::Duration::ZERO)).unwrap();
    opens_only_with_its_types(&third);

    db.close().unwrap();
    let report = salvage(&beside("db"), &beside("rescued"));
    assert_eq!((report.entries, report.keyspaces), (2_000, 2));
    let rescued = options().open(beside("rescued")).unwrap();
    opens_only_with_its_types(&rescued);
    let typed = TypedKeyspace::<String, u64>::open(&rescued, "typed").unwrap();
    assert_eq!(typed.get(&rescued, "1999").unwrap(), Some(1_999));
}

fn salvage(from: &Path, to: &Path) -> hedgerow::lsm::SalvageReport {
    Options::new().salvage(from, to, &mut |_, _| Ok(())).unwrap()
}

#[test]
fn bytes_that_do_not_fit_the_types_are_an_error() {
    let (_folder, db) = db();
    let space = create::<u32, bool>(&db, "space").unwrap();
    db.put(space.keyspace(), &[0, 0, 0, 1], &[7]).unwrap();
    db.put(space.keyspace(), &[0, 0, 2], &[1]).unwrap();
    assert!(matches!(space.get(&db, 1), Err(Error::WrongTable { .. })));
    assert!(space.contains(&db, 1).unwrap());
    assert!(space.last(&db).is_err());
    assert_eq!(space.get(&db, 3).unwrap(), None);
}

#[test]
fn every_call() {
    let (_folder, db) = db();
    let space = create::<(String, i16), Option<String>>(&db, "space").unwrap();
    assert_eq!(space.first(&db).unwrap(), None);
    let mut txn = db.transaction();
    space.put(&mut txn, ("a", -1), None).unwrap();
    space.put(&mut txn, ("a", 1), Some("one")).unwrap();
    assert_eq!(space.put_new(&mut txn, ("a", 1), None).unwrap(), Some(Some("one".to_string())));
    assert_eq!(space.put_new(&mut txn, ("b\0", 0), Some("")).unwrap(), None);
    assert_eq!(space.replace(&mut txn, ("a", -1), Some("minus")).unwrap(), Some(None));
    assert_eq!(space.replace(&mut txn, ("b", 5), None).unwrap(), None);
    assert!(space.contains(&txn, ("b", 5)).unwrap() && !space.contains(&db, ("b", 5)).unwrap());
    let expected = [("a", -1), ("a", 1), ("b", 5), ("b\0", 0)].map(|(s, n)| (s.to_string(), n));
    let keys: Vec<_> = space.iter(&txn).unwrap().map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, expected);
    txn.commit().unwrap();

    let before = db.snapshot();
    let keys: Vec<_> = space.iter(&db).unwrap().rev().map(|entry| entry.unwrap().0).collect();
    assert!(keys.iter().eq(expected.iter().rev()));
    assert_eq!(space.get(&db, ("a", -1)).unwrap(), Some(Some("minus".to_string())));
    assert_eq!(space.last(&db).unwrap().map(|(key, _)| key), expected.last().cloned());
    assert_eq!(space.range(&db, ("a", 0)..=("b", 5)).unwrap().count(), 2);
    let mut batch = Batch::new();
    space.delete_range(&mut batch, ..("b", 0)).unwrap();
    space.delete(&mut batch, ("b", 5)).unwrap();
    space.delete(&mut batch, ("b", 6)).unwrap();
    db.write(batch).unwrap();
    assert_eq!(space.iter(&db).unwrap().count(), 1);
    assert_eq!(space.iter(&before).unwrap().count(), 4);
    let mut txn = db.transaction();
    space.delete_range(&mut txn, ..).unwrap();
    assert_eq!(space.last(&txn).unwrap(), None);
}

/// Keys in which zeros, equal beginnings and neighbours are frequent.
fn key() -> impl Strategy<Value = (Vec<u8>, i64)> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()];
    (prop::collection::vec(byte, 0..4), prop_oneof![-2i64..=2, any::<i64>()])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_keyspace_is_a_map(
        entries in prop::collection::vec((key(), any::<u32>()), 0..300),
        deleted in prop::collection::vec(key(), 0..30),
        (low, high) in (key(), key()),
    ) {
        let (_folder, db) = db();
        let space = create::<(Vec<u8>, i64), u32>(&db, "space").unwrap();
        let (mut batch, mut txn) = (Batch::new(), db.transaction());
        let mut model = BTreeMap::new();
        for (key, value) in entries {
            space.put(&mut batch, (&key.0, key.1), value).unwrap();
            space.put(&mut txn, (&key.0, key.1), value).unwrap();
            model.insert(key, value);
        }
        for key in deleted {
            space.delete(&mut batch, (&key.0, key.1)).unwrap();
            space.delete(&mut txn, (&key.0, key.1)).unwrap();
            model.remove(&key);
        }
        let expected: Vec<_> = model.clone().into_iter().collect();
        let all: Vec<_> = space.iter(&txn).unwrap().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(&all, &expected);
        drop(txn);
        db.write(batch).unwrap();
        let all: Vec<_> = space.iter(&db).unwrap().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(&all, &expected);
        for (key, value) in &expected {
            prop_assert_eq!(space.get(&db, (&key.0, key.1)).unwrap(), Some(*value));
        }

        let (low, high) = if low <= high { (low, high) } else { (high, low) };
        let expected: Vec<_> = model.range(&low..&high).map(|(k, v)| (k.clone(), *v)).collect();
        let range = (low.0.as_slice(), low.1)..(high.0.as_slice(), high.1);
        let mut found: Vec<_> =
            space.range(&db, range).unwrap().rev().collect::<Result<_, _>>().unwrap();
        found.reverse();
        prop_assert_eq!(&found, &expected);
    }
}
