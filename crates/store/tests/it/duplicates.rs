//! Keys of several values: pairs added and deleted, runs over many pages, fixed sizes, both orders.

use hedgerow::Error;
use hedgerow::tree::{Duplicates, Order, Snapshot, TableOptions, TypedMultimap};

use crate::{Scratch, all, begin_with, numbers, owned, pair};

#[test]
fn pairs_come_and_go_one_by_one() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin_with(&scratch.store, &TableOptions::new().duplicates());
    for (key, value) in [("b", "2"), ("a", "9"), ("b", "1"), ("b", "3")] {
        assert!(txn.put_pair(table, key.as_bytes(), value.as_bytes()).unwrap());
    }
    assert!(!txn.put_pair(table, b"b", b"2").unwrap());
    txn.put(table, b"b", b"2").unwrap();
    let expected = [pair("a", "9"), pair("b", "1"), pair("b", "2"), pair("b", "3")];
    assert_eq!(all(&txn, table), expected);
    assert_eq!(txn.get(table, b"b").unwrap().unwrap(), b"1");
    assert_eq!(txn.put_new(table, b"b", b"0").unwrap().unwrap(), b"1");
    assert!(txn.contains_pair(table, b"b", b"3").unwrap());
    assert!(!txn.contains_pair(table, b"b", b"0").unwrap());
    assert!(txn.delete_pair(table, b"b", b"2").unwrap());
    assert!(!txn.delete_pair(table, b"b", b"2").unwrap());
    assert_eq!(txn.count_values(table, b"b").unwrap(), 2);
    assert!(txn.delete(table, b"b").unwrap());
    assert_eq!(all(&txn, table), [pair("a", "9")]);
}

/// A run that spans many leaves must answer like a short one.
#[test]
fn a_run_over_many_pages() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin_with(&scratch.store, &TableOptions::new().duplicates());
    let mut values: Vec<Vec<u8>> =
        numbers(1).take(20_000).map(|n| format!("value {n:020}").into_bytes()).collect();
    txn.put(table, b"before", b"x").unwrap();
    txn.put(table, b"next", b"x").unwrap();
    for value in &values {
        assert!(txn.put_pair(table, b"key", value).unwrap());
    }
    values.sort();
    let mut seen = Vec::new();
    let told = txn.for_each_value(table, b"key", |v| seen.push(v.to_vec())).unwrap();
    assert_eq!(told, 20_000);
    assert_eq!(seen, values);
    let count = txn.count(table).unwrap();
    assert_eq!((count.keys, count.values), (3, 20_002));
    assert_eq!(txn.count_values(table, b"key").unwrap(), 20_000);
    for i in (0..20_000).step_by(997) {
        assert_eq!(owned(txn.nth(table, i + 1).unwrap().unwrap()).1, values[i as usize]);
        let rank = txn.rank_pair(table, b"key", &values[i as usize]).unwrap();
        assert_eq!((rank.keys, rank.values, rank.found), (1, i + 1, true));
    }
    assert_eq!(owned(txn.nth_key(table, 2).unwrap().unwrap()), pair("next", "x"));
    txn.commit().unwrap();
    scratch.check();

    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    for value in values.iter().step_by(2) {
        assert!(txn.delete_pair(table, b"key", value).unwrap());
    }
    assert_eq!(txn.count_values(table, b"key").unwrap(), 10_000);
    assert!(txn.delete(table, b"key").unwrap());
    assert_eq!(all(&txn, table), [pair("before", "x"), pair("next", "x")]);
    txn.commit().unwrap();
    scratch.check();
}

#[test]
fn values_of_one_size() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let told = TableOptions::new().fixed_duplicates(4);
    let first_decides = Duplicates::Fixed { size: None, order: Order::Integer };
    let first_decides = TableOptions::new().duplicates_in(first_decides);
    for (name, options) in [("told", told), ("first decides", first_decides)] {
        let table = txn.create_table(name, &options).unwrap();
        for i in (0..3000u32).rev() {
            txn.put(table, b"k", &i.to_le_bytes()).unwrap();
        }
        let wrong = txn.put(table, b"k", b"12345678");
        assert!(matches!(wrong, Err(Error::Size { what: "value", len: 8, min: 4, max: 4 })));
        assert_eq!(txn.count_values(table, b"k").unwrap(), 3000);
        assert_eq!(txn.table_info(table).unwrap().value_size, Some(4));
    }
    let table = txn.table("first decides").unwrap();
    let mut expected = 0;
    txn.for_each_value(table, b"k", |value| {
        assert_eq!(value, expected_bytes(expected));
        expected += 1;
    })
    .unwrap();
}

fn expected_bytes(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

#[test]
fn values_in_an_order_of_their_own() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let order = Order::custom("down", |a: &[u8], b: &[u8]| b.cmp(a));
    let options = TableOptions::new().duplicates_in(Duplicates::Any { order });
    let table = txn.create_table("t", &options).unwrap();
    for value in ["1", "22", "3"] {
        txn.put(table, b"k", value.as_bytes()).unwrap();
    }
    assert_eq!(all(&txn, table), [pair("k", "3"), pair("k", "22"), pair("k", "1")]);
}

#[test]
fn a_value_takes_the_place_of_one_that_the_function_takes_for_equal() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let order = Order::custom("letter", |a: &[u8], b: &[u8]| a.first().cmp(&b.first()));
    let options = TableOptions::new().duplicates_in(Duplicates::Any { order });
    let table = txn.create_table("t", &options).unwrap();
    for value in ["a1", "c1", "b1", "c", "b22", "b22"] {
        txn.put(table, b"k", value.as_bytes()).unwrap();
    }
    txn.put(table, b"one", b"x").unwrap();
    txn.put(table, b"one", b"xyz").unwrap();
    assert!(!txn.put_pair(table, b"k", b"a2").unwrap());
    let wanted = [pair("k", "a2"), pair("k", "b22"), pair("k", "c"), pair("one", "xyz")];
    assert_eq!(all(&txn, table), wanted);
    assert_eq!(txn.count(table).unwrap().values, 4);
}

#[test]
fn values_that_are_too_long_are_refused() {
    let scratch = Scratch::new();
    let longest = scratch.store.max_duplicate_size();
    let (mut txn, table) = begin_with(&scratch.store, &TableOptions::new().duplicates());
    for fill in [b'a', b'b', b'c'] {
        txn.put(table, b"k", &vec![fill; longest]).unwrap();
    }
    let result = txn.put(table, b"k", &vec![b'a'; longest + 1]);
    assert!(matches!(result, Err(Error::Size { what: "value", .. })));
    assert_eq!(txn.count_values(table, b"k").unwrap(), 3);
    txn.commit().unwrap();
    scratch.check();
}

/// A table that takes none of its values is refused when it is made, not with the first value.
#[test]
fn a_fixed_size_that_no_value_can_have_is_refused() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let most = scratch.store.max_duplicate_size() as u32;
    for size in [most + 1, u32::MAX] {
        let refused = txn.create_table("t", &TableOptions::new().fixed_duplicates(size));
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Argument { .. }), "{refused}");
        assert!(refused.to_string().contains("at most 512"), "{refused}");
    }
    assert!(TypedMultimap::<u32, [u8; 513]>::create(&mut txn, "t").is_err());
    let table = txn.create_table("t", &TableOptions::new().fixed_duplicates(most)).unwrap();
    txn.put(table, b"key", &vec![1; most as usize]).unwrap();
    txn.commit().unwrap();
}
