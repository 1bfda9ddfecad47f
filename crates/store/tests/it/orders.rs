//! The orders of keys: each walks its table as a sort by the same rule would.

use std::cmp::Ordering;

use hedgerow::Error;
use hedgerow::tree::{Order, Snapshot, Store, TableOptions};

use crate::{Scratch, all, begin_with, numbers};

/// Puts keys in random order and compares the walk with a sort.
fn walk(order: Order, keys: &[Vec<u8>], sort: impl Fn(&[u8], &[u8]) -> Ordering) {
    let scratch = Scratch::new();
    let options = TableOptions::new().order(order);
    let (mut txn, table) = begin_with(&scratch.store, &options);
    for key in keys {
        txn.put(table, key, key).unwrap();
    }
    txn.commit().unwrap();
    let mut sorted = keys.to_vec();
    sorted.sort_by(|a, b| sort(a, b));
    sorted.dedup();
    let scratch = scratch.reopen(Store::builder());
    let txn = scratch.store.begin_read().unwrap();
    let table = txn.table_with("t", &options).unwrap();
    let walked: Vec<Vec<u8>> = all(&txn, table).into_iter().map(|(key, _)| key).collect();
    assert_eq!(walked, sorted);
    for (i, key) in sorted.iter().enumerate().step_by(7) {
        let rank = txn.rank(table, key).unwrap();
        assert_eq!((rank.keys, rank.values, rank.found), (i as u64, i as u64, true));
        assert_eq!(txn.get(table, key).unwrap().unwrap(), *key);
    }
    scratch.check();
}

fn strings() -> Vec<Vec<u8>> {
    numbers(5)
        .take(4000)
        .map(|n| {
            let len = (n >> 40) as usize % 12;
            n.to_be_bytes().repeat(2)[..len].iter().map(|b| b % 5).collect()
        })
        .collect()
}

#[test]
fn bytewise() {
    walk(Order::Bytewise, &strings(), <[u8]>::cmp);
}

#[test]
fn reverse() {
    walk(Order::Reverse, &strings(), |a, b| a.iter().rev().cmp(b.iter().rev()));
}

#[test]
fn integers() {
    let keys: Vec<Vec<u8>> =
        numbers(6).take(3000).map(|n| (n as u32 >> (n >> 60)).to_le_bytes().to_vec()).collect();
    let four = |a: &[u8]| u32::from_le_bytes(a.try_into().unwrap());
    walk(Order::Integer, &keys, |a, b| four(a).cmp(&four(b)));
    let keys: Vec<Vec<u8>> =
        numbers(7).take(3000).map(|n| (n >> (n >> 58)).to_le_bytes().to_vec()).collect();
    let eight = |a: &[u8]| u64::from_le_bytes(a.try_into().unwrap());
    walk(Order::Integer, &keys, |a, b| eight(a).cmp(&eight(b)));
}

#[test]
fn a_function_of_the_callers() {
    let compare = |a: &[u8], b: &[u8]| a.len().cmp(&b.len()).then_with(|| b.cmp(a));
    walk(Order::custom("short first", compare), &strings(), compare);
}

#[test]
fn integers_of_other_sizes_are_refused() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin_with(&scratch.store, &TableOptions::new().order(Order::Integer));
    for wrong in [0, 1, 3, 5, 7, 9, 16] {
        let key = vec![1; wrong];
        assert!(matches!(txn.put(table, &key, b""), Err(Error::Size { .. })), "{wrong} bytes");
    }
    txn.put(table, &7u32.to_le_bytes(), b"").unwrap();
    assert!(matches!(txn.put(table, &7u64.to_le_bytes(), b""), Err(Error::Size { .. })));
    assert_eq!(txn.count(table).unwrap().keys, 1);
}

#[test]
fn a_custom_order_needs_its_function() {
    let scratch = Scratch::new();
    let down =
        |name: &str| TableOptions::new().order(Order::custom(name, |a: &[u8], b: &[u8]| b.cmp(a)));
    let (mut txn, table) = begin_with(&scratch.store, &down("down"));
    for key in [b"a", b"c", b"b"] {
        txn.put(table, key, b"").unwrap();
    }
    txn.commit().unwrap();
    let scratch = scratch.reopen(Store::builder());
    let txn = scratch.store.begin_read().unwrap();
    assert!(matches!(txn.table("t"), Err(Error::TableOptions { .. })));
    assert!(matches!(txn.table_with("t", &down("up")), Err(Error::TableOptions { .. })));
    let table = txn.table_with("t", &down("down")).unwrap();
    let keys: Vec<u8> = all(&txn, table).iter().map(|(key, _)| key[0]).collect();
    assert_eq!(keys, b"cba");
}

#[test]
fn an_open_table_takes_other_functions() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    let scratch = Scratch::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let plain = Order::custom("o", |a: &[u8], b: &[u8]| a.cmp(b));
    let counting = Order::custom("o", move |a: &[u8], b: &[u8]| {
        counted.fetch_add(1, Relaxed);
        a.cmp(b)
    });
    let (mut txn, table) = begin_with(&scratch.store, &TableOptions::new().order(plain));
    txn.put(table, b"k", b"v").unwrap();
    txn.set_order_functions(table, &TableOptions::new().order(counting)).unwrap();
    assert_eq!(txn.get(table, b"k").unwrap().unwrap(), b"v");
    assert!(calls.load(Relaxed) > 0);
    let other = TableOptions::new().order(Order::custom("p", |a: &[u8], b: &[u8]| a.cmp(b)));
    assert!(matches!(txn.set_order_functions(table, &other), Err(Error::TableOptions { .. })));
}

/// A custom order may compare more than a page holds: keys are longer than in other tables.
#[test]
fn a_custom_order_takes_keys_of_any_length() {
    let scratch = Scratch::new();
    let by_length = Order::custom("by length", |a: &[u8], b: &[u8]| a.len().cmp(&b.len()));
    let options = TableOptions::new().order(by_length);
    let lengths = [3_usize, 600, 65_536, 3_000_000, 70_000, 1];
    let (mut txn, table) = begin_with(&scratch.store, &options);
    for length in lengths {
        txn.put(table, &vec![b'k'; length], b"v").unwrap();
    }
    txn.commit().unwrap();
    let txn = scratch.store.begin_read().unwrap();
    let table = txn.table_with("t", &options).unwrap();
    let found = all(&txn, table).into_iter().map(|(key, _)| key.len()).collect::<Vec<_>>();
    assert_eq!(found, [1, 3, 600, 65_536, 70_000, 3_000_000]);
    assert!(txn.get(table, &vec![b'x'; 70_000]).unwrap().is_some());
    scratch.check();
    drop(txn);
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.table_with("t", &options).unwrap();
    assert!(txn.delete(table, &vec![b'y'; 3_000_000]).unwrap());
    txn.commit().unwrap();
    scratch.check();
}

/// Serial numbers that wrap round are in no order once they span half of all numbers: there are
/// three of which each comes before the next one. A range that ends before it begins must not free
/// pages that are referred to: those would be given to other tables.
#[test]
fn an_order_that_is_none_leaves_the_store_whole() {
    let scratch = Scratch::new();
    let number = |key: &[u8]| u32::from_be_bytes(key.try_into().unwrap());
    let serial = move |a: &[u8], b: &[u8]| (number(a).wrapping_sub(number(b)) as i32).cmp(&0);
    let options = TableOptions::new().order(Order::custom("serial", serial));
    let (mut txn, table) = begin_with(&scratch.store, &options);
    for n in 0..5000_u32 {
        txn.put(table, &n.to_be_bytes(), &[7; 100]).unwrap();
    }
    txn.commit().unwrap();
    let (mut txn, table) = begin_with(&scratch.store, &options);
    let round = 4990_u32.to_be_bytes()..0x8000_1000_u32.to_be_bytes();
    let refused = txn.delete_range(table, round).unwrap_err();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    assert!(refused.to_string().contains("its keys have no order"), "{refused}");
    assert!(txn.commit().is_err(), "nothing of it stays");
    let (mut txn, table) = begin_with(&scratch.store, &options);
    let other = txn.create_table("other", &TableOptions::new()).unwrap();
    for n in 0..5000_u32 {
        txn.put(other, &n.to_be_bytes(), b"").unwrap();
    }
    assert_eq!(txn.count(table).unwrap().keys, 5000);
    txn.commit().unwrap();
    scratch.check();
}
