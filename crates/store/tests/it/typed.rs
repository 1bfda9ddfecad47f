//! Typed tables over the whole engine, beside the standard library's ordered collections.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hedgerow::Durability;
use hedgerow::Error;
use hedgerow::tree::{Store, TableOptions, TypedMultimap, TypedTable};
use proptest::prelude::*;

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Store::builder().durability(Durability::None);
    let store = builder.open_or_create(folder.path().join("store")).expect("a new store");
    (folder, store)
}

#[test]
fn a_table_opens_only_with_its_types() {
    let (_folder, store) = store();
    let mut txn = store.begin_write().unwrap();
    TypedTable::<String, u64>::create(&mut txn, "typed").unwrap();
    TypedMultimap::<String, u64>::create(&mut txn, "multimap").unwrap();
    txn.create_table("plain", &TableOptions::new()).unwrap();

    // As often as one likes with the right types, created or opened.
    TypedTable::<String, u64>::create(&mut txn, "typed").unwrap();
    TypedTable::<String, u64>::open(&txn, "typed").unwrap();
    TypedMultimap::<String, u64>::open(&txn, "multimap").unwrap();

    let refused = |result: hedgerow::Result<()>| {
        assert!(matches!(result, Err(Error::TableOptions { .. })), "{result:?}");
    };
    refused(TypedTable::<String, u32>::open(&txn, "typed").map(drop));
    refused(TypedTable::<Vec<u8>, u64>::open(&txn, "typed").map(drop));
    refused(TypedTable::<String, u64>::open(&txn, "multimap").map(drop));
    refused(TypedMultimap::<String, u64>::open(&txn, "typed").map(drop));
    refused(TypedTable::<String, u64>::open(&txn, "plain").map(drop));
    refused(TypedTable::<u64, u64>::create(&mut txn, "typed").map(drop));
    refused(TypedMultimap::<u64, u64>::create(&mut txn, "multimap").map(drop));
    let missing = TypedTable::<u64, u64>::open(&txn, "missing");
    assert!(matches!(missing, Err(Error::NoTable { .. })));
}

#[test]
fn bytes_that_do_not_fit_the_types_are_an_error() {
    let (_folder, store) = store();
    let mut txn = store.begin_write().unwrap();
    let table = TypedTable::<u32, bool>::create(&mut txn, "table").unwrap();
    txn.put(table.table(), &[0, 0, 0, 1], &[7]).unwrap();
    txn.put(table.table(), &[0, 0, 2], &[1]).unwrap();
    assert!(matches!(table.get(&txn, 1), Err(Error::WrongTable { .. })));
    assert!(table.last(&txn).is_err());
    assert_eq!(table.get(&txn, 3).unwrap(), None);
}

#[test]
fn every_call_of_a_table() {
    let (_folder, store) = store();
    let mut txn = store.begin_write().unwrap();
    let table = TypedTable::<(String, i16), Option<String>>::create(&mut txn, "table").unwrap();
    assert_eq!(table.first(&txn).unwrap(), None);
    table.append(&mut txn, ("a", -1), None).unwrap();
    table.append(&mut txn, ("a", 1), Some("one")).unwrap();
    assert!(matches!(table.append(&mut txn, ("a", 0), None), Err(Error::NotLast)));
    assert_eq!(table.put_new(&mut txn, ("a", 1), None).unwrap(), Some(Some("one".to_string())));
    assert_eq!(table.put_new(&mut txn, ("b\0", 0), Some("")).unwrap(), None);
    assert_eq!(table.replace(&mut txn, ("a", -1), Some("minus")).unwrap(), Some(None));
    table.put(&mut txn, ("b", 5), None).unwrap();
    assert!(table.contains(&txn, ("b", 5)).unwrap());
    assert!(table.get_bytes(&txn, ("a", -1)).unwrap().is_some_and(|value| value == b"\x01minus"));

    let keys: Vec<_> = table.iter(&txn).unwrap().map(|entry| entry.unwrap().0).collect();
    let expected = [("a", -1), ("a", 1), ("b", 5), ("b\0", 0)].map(|(s, n)| (s.to_string(), n));
    assert_eq!(keys, expected);
    assert_eq!(table.last(&txn).unwrap().map(|(key, _)| key), expected.last().cloned());
    assert_eq!(table.nth(&txn, 2).unwrap(), Some((("b".to_string(), 5), None)));
    assert_eq!(table.nth(&txn, 4).unwrap(), None);
    let rank = table.rank(&txn, ("b", 4)).unwrap();
    assert_eq!((rank.keys, rank.found), (2, false));
    assert_eq!(table.count_range(&txn, ("a", 0)..=("b", 5)).unwrap(), 2);
    assert_eq!(table.delete_range(&mut txn, ..("b", 0)).unwrap(), 2);
    assert!(table.delete(&mut txn, ("b", 5)).unwrap());
    assert!(!table.delete(&mut txn, ("b", 5)).unwrap());
    assert_eq!(table.count(&txn).unwrap(), 1);
}

#[test]
fn every_call_of_a_multimap() {
    let (_folder, store) = store();
    let mut txn = store.begin_write().unwrap();
    let map = TypedMultimap::<i8, Reverse<u16>>::create(&mut txn, "map").unwrap();
    for (key, value) in [(1, 5), (-1, 7), (1, 500), (1, 5), (0, 0)] {
        let was_there = map.contains(&txn, key, Reverse(value)).unwrap();
        assert_eq!(map.put(&mut txn, key, Reverse(value)).unwrap(), !was_there);
    }
    assert_eq!(map.values(&txn, 1).unwrap(), [Reverse(500), Reverse(5)]);
    assert_eq!(map.values(&txn, 2).unwrap(), []);
    assert_eq!(map.first_value(&txn, 1).unwrap(), Some(Reverse(500)));
    assert_eq!(map.put_new(&mut txn, 1, Reverse(9)).unwrap(), Some(Reverse(500)));
    assert_eq!(map.first(&txn).unwrap(), Some((-1, Reverse(7))));
    assert_eq!(map.last(&txn).unwrap(), Some((1, Reverse(5))));
    let count = map.count(&txn).unwrap();
    assert_eq!((count.keys, count.values), (3, 4));
    let count = map.count_range(&txn, 0..).unwrap();
    assert_eq!((count.keys, count.values), (2, 3));
    assert_eq!(map.count_values(&txn, 1).unwrap(), 2);
    assert_eq!(map.nth(&txn, 3).unwrap(), Some((1, Reverse(5))));
    assert_eq!(map.nth_key(&txn, 1).unwrap(), Some((0, Reverse(0))));
    assert_eq!(map.rank(&txn, 1).unwrap().values, 2);
    let rank = map.rank_pair(&txn, 1, Reverse(6)).unwrap();
    assert_eq!((rank.values, rank.found), (3, false));
    assert!(map.delete_value(&mut txn, 1, Reverse(500)).unwrap());
    assert!(!map.delete_value(&mut txn, 1, Reverse(500)).unwrap());
    let deleted = map.delete_range(&mut txn, ..=0).unwrap();
    assert_eq!((deleted.keys, deleted.values), (2, 2));
    assert!(map.delete(&mut txn, 1).unwrap() && !map.contains_key(&txn, 1).unwrap());
}

/// Keys in which zeros, equal beginnings and neighbours are frequent.
fn key() -> impl Strategy<Value = (Vec<u8>, i64)> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()];
    (prop::collection::vec(byte, 0..4), prop_oneof![-2i64..=2, any::<i64>()])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_table_is_a_map(
        entries in prop::collection::vec((key(), any::<u32>()), 0..300),
        deleted in prop::collection::vec(key(), 0..30),
        (low, high) in (key(), key()),
    ) {
        let (_folder, store) = store();
        let mut txn = store.begin_write().unwrap();
        let table = TypedTable::<(Vec<u8>, i64), u32>::create(&mut txn, "table").unwrap();
        let mut model = BTreeMap::new();
        for (key, value) in entries {
            table.put(&mut txn, (&key.0, key.1), value).unwrap();
            model.insert(key, value);
        }
        for key in deleted {
            let expected = model.remove(&key).is_some();
            prop_assert_eq!(table.delete(&mut txn, (&key.0, key.1)).unwrap(), expected);
        }
        let all: Vec<_> = table.iter(&txn).unwrap().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(&all, &model.clone().into_iter().collect::<Vec<_>>());

        let (low, high) = if low <= high { (low, high) } else { (high, low) };
        let expected: Vec<_> = model.range(&low..&high).map(|(k, v)| (k.clone(), *v)).collect();
        let range = (low.0.as_slice(), low.1)..(high.0.as_slice(), high.1);
        let mut found: Vec<_> =
            table.range(&txn, range.clone()).unwrap().rev().collect::<Result<_, _>>().unwrap();
        found.reverse();
        prop_assert_eq!(table.count_range(&txn, range).unwrap(), expected.len() as u64);
        prop_assert_eq!(&found, &expected);
        let rank = table.rank(&txn, (&low.0, low.1)).unwrap();
        prop_assert_eq!(rank.keys, model.range(..&low).count() as u64);
        prop_assert_eq!(rank.found, model.contains_key(&low));
        prop_assert_eq!(table.nth(&txn, rank.keys).unwrap(), all.get(rank.keys as usize).cloned());
    }

    #[test]
    fn a_multimap_is_a_set_of_pairs(
        pairs in prop::collection::vec((-3i32..3, "[a\0]{0,4}"), 0..300),
    ) {
        let (_folder, store) = store();
        let mut txn = store.begin_write().unwrap();
        let map = TypedMultimap::<i32, String>::create(&mut txn, "map").unwrap();
        let mut model = BTreeSet::new();
        for (key, value) in pairs {
            prop_assert_eq!(map.put(&mut txn, key, &value).unwrap(), model.insert((key, value)));
        }
        let all: Vec<_> = map.iter(&txn).unwrap().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(all, model.iter().cloned().collect::<Vec<_>>());
        for key in -3..3 {
            let values = model.iter().filter(|(k, _)| *k == key).map(|(_, v)| v.clone());
            let values: Vec<_> = values.collect();
            prop_assert_eq!(map.count_values(&txn, key).unwrap(), values.len() as u64);
            prop_assert_eq!(map.values(&txn, key).unwrap(), values);
        }
    }
}
