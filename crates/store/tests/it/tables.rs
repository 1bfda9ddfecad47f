//! Named tables: created, listed, renamed, cleared and dropped, their options kept and checked.

use std::collections::BTreeMap;

use hedgerow::Durability;
use hedgerow::Error;
use hedgerow::tree::{
    CopyOptions, Duplicates, Entry, Order, Snapshot, Store, Table, TableOptions, WriteTxn,
};

use crate::{Scratch, all, begin, begin_read, numbers, pair};

#[test]
fn tables_are_listed_in_the_order_of_their_names() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let many: Vec<String> = (0..500).map(|i| format!("table {i:03}")).collect();
    for name in many.iter().rev() {
        let table = txn.create_table(name, &TableOptions::new().user_flags(7)).unwrap();
        txn.put(table, name.as_bytes(), b"x").unwrap();
    }
    txn.commit().unwrap();
    let scratch = scratch.reopen(Store::builder());
    let txn = scratch.store.begin_read().unwrap();
    let tables = txn.tables().unwrap();
    let names: Vec<String> =
        tables.iter().map(|t| String::from_utf8(t.name.clone()).unwrap()).collect();
    assert_eq!(names, many);
    assert!(tables.iter().all(|t| t.count.keys == 1 && t.user_flags == 7 && !t.duplicates));
    assert_eq!(scratch.store.stat().unwrap().tables, 500);
}

#[test]
fn rename_clear_and_drop() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    for name in ["a", "b"] {
        let table = txn.create_table(name, &TableOptions::new()).unwrap();
        txn.put(table, b"k", name.as_bytes()).unwrap();
    }
    assert!(matches!(txn.rename_table("a", "b"), Err(Error::TableExists { .. })));
    assert!(matches!(txn.rename_table("x", "y"), Err(Error::NoTable { .. })));
    txn.rename_table("a", "c").unwrap();
    txn.commit().unwrap();

    let mut txn = scratch.store.begin_write().unwrap();
    assert!(matches!(txn.table("a"), Err(Error::NoTable { .. })));
    let c = txn.table("c").unwrap();
    assert_eq!(all(&txn, c), [pair("k", "a")]);
    txn.clear_table(c).unwrap();
    assert_eq!(all(&txn, c), []);
    txn.put(c, b"new", b"1").unwrap();
    assert!(txn.drop_table("b").unwrap());
    assert!(!txn.drop_table("b").unwrap());
    let again = txn.create_table("b", &TableOptions::new().duplicates()).unwrap();
    assert_eq!(all(&txn, again), []);
    txn.commit().unwrap();

    let scratch = scratch.reopen(Store::builder());
    let txn = scratch.store.begin_read().unwrap();
    assert_eq!(all(&txn, txn.table("c").unwrap()), [pair("new", "1")]);
    assert!(txn.table_info(txn.table("b").unwrap()).unwrap().duplicates);
    scratch.check();
}

#[test]
fn other_options_are_refused_by_name() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let options = TableOptions::new().order(Order::Reverse).fixed_duplicates(8);
    txn.create_table("t", &options).unwrap();
    txn.commit().unwrap();

    let mut txn = scratch.store.begin_write().unwrap();
    txn.create_table("t", &options).unwrap();
    for other in [
        TableOptions::new().order(Order::Bytewise).fixed_duplicates(8),
        TableOptions::new().order(Order::Reverse),
        TableOptions::new().order(Order::Reverse).fixed_duplicates(9),
    ] {
        match txn.create_table("t", &other) {
            Err(Error::TableOptions { name, reason }) => {
                assert_eq!(name, b"t");
                assert!(!reason.is_empty());
            }
            unexpected => panic!("{other:?} gives {unexpected:?}"),
        }
    }
    let info = txn.table_info(txn.table("t").unwrap()).unwrap();
    assert_eq!((info.order.as_str(), info.value_size), ("reverse", Some(8)));
}

#[test]
fn handles_of_another_transaction_are_refused() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let stale = txn.create_table("t", &TableOptions::new()).unwrap();
    txn.commit().unwrap();
    let mut txn = scratch.store.begin_write().unwrap();
    assert!(matches!(txn.get(stale, b"k"), Err(Error::WrongTransaction)));
    assert!(matches!(txn.put(stale, b"k", b"v"), Err(Error::WrongTransaction)));
    assert!(matches!(txn.cursor(stale), Err(Error::WrongTransaction)));
}

#[test]
fn calls_that_do_not_fit_the_kind_of_table() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let plain = txn.create_table("plain", &TableOptions::new()).unwrap();
    let many = Duplicates::Any { order: Order::Bytewise };
    let many = txn.create_table("many", &TableOptions::new().duplicates_in(many)).unwrap();
    assert!(matches!(txn.put_pair(plain, b"k", b"v"), Err(Error::WrongTable { .. })));
    assert!(matches!(txn.replace(many, b"k", b"v"), Err(Error::WrongTable { .. })));
    assert!(txn.value_writer(many, b"k", 4).is_err_and(|e| matches!(e, Error::WrongTable { .. })));
    assert!(matches!(txn.reserve(many, b"k", 60_000), Err(Error::WrongTable { .. })));
    assert_eq!(txn.count(many).unwrap().values, 0);
    // The first value of a key may be reserved, a second one has to show its bytes.
    txn.reserve(many, b"k", 4).unwrap().copy_from_slice(b"some");
    assert!(matches!(txn.reserve(many, b"k", 4), Err(Error::WrongTable { .. })));
    txn.put(many, b"k", b"more").unwrap();
    assert!(txn.contains_pair(many, b"k", b"some").unwrap());
    assert_eq!(txn.count(many).unwrap().values, 2);
}

#[test]
fn tables_are_found_without_being_opened() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    assert_eq!((txn.table_count(), txn.catalog_stat().depth), (0, 0));
    let order = Order::custom("backwards", |a: &[u8], b: &[u8]| b.cmp(a));
    txn.create_table("plain", &TableOptions::new().user_flags(9)).unwrap();
    let custom = txn.create_table("custom", &TableOptions::new().order(order)).unwrap();
    txn.put(custom, b"k", b"v").unwrap();
    assert_eq!(txn.find_table("custom").unwrap().unwrap().count.keys, 1);
    txn.commit().unwrap();
    let txn = scratch.store.begin_read().unwrap();
    assert_eq!((txn.table_count(), txn.catalog_stat().leaf_pages), (2, 1));
    let found = txn.find_table("custom").unwrap().unwrap();
    assert_eq!((found.order.as_str(), found.count.keys), ("custom(backwards)", 1));
    assert_eq!(txn.find_table("plain").unwrap().unwrap().user_flags, 9);
    assert!(txn.find_table("none").unwrap().is_none());
}

#[test]
fn a_delete_that_finds_nothing_is_no_commit() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    txn.create_table("t", &TableOptions::new().duplicates()).unwrap();
    txn.commit().unwrap();
    let before = scratch.store.stat().unwrap().commit;
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    assert!(!txn.delete(table, b"k").unwrap());
    assert!(!txn.delete_pair(table, b"k", b"v").unwrap());
    txn.commit().unwrap();
    assert_eq!(scratch.store.stat().unwrap().commit, before);
}

/// What a commit leaves open for the next transaction may not be seen where it is not right.
#[test]
fn tables_of_the_transaction_before_are_what_the_catalog_says() {
    let scratch = Scratch::new();
    let store = &scratch.store;
    let by_len = || TableOptions::new().order(Order::custom("len", |a, b| a.len().cmp(&b.len())));
    let mut txn = store.begin_write().unwrap();
    for name in ["kept", "dropped", "renamed"] {
        let table = txn.create_table(name, &TableOptions::new()).unwrap();
        txn.put(table, b"k", name.as_bytes()).unwrap();
    }
    txn.create_table("custom", &by_len()).unwrap();
    let mark = txn.savepoint().unwrap();
    txn.create_table("undone", &TableOptions::new()).unwrap();
    txn.rollback_to(mark).unwrap();
    txn.commit().unwrap();

    let mut txn = store.begin_write().unwrap();
    assert!(matches!(txn.table("custom"), Err(Error::TableOptions { .. })));
    assert!(matches!(txn.table("undone"), Err(Error::NoTable { .. })));
    let kept = txn.table("kept").unwrap();
    let duplicates = TableOptions::new().duplicates();
    assert!(matches!(txn.create_table("kept", &duplicates), Err(Error::TableOptions { .. })));
    txn.put(kept, b"l", b"2").unwrap();
    txn.commit().unwrap();

    // Given up: what it did to tables that stay open is not there.
    let mut txn = store.begin_write().unwrap();
    let table = txn.table("kept").unwrap();
    txn.put(table, b"m", b"3").unwrap();
    assert!(txn.drop_table("dropped").unwrap());
    drop(txn);
    let mut txn = store.begin_write().unwrap();
    let table = txn.table("kept").unwrap();
    assert_eq!(all(&txn, table), [pair("k", "kept"), pair("l", "2")]);
    assert!(txn.drop_table("dropped").unwrap());
    txn.rename_table("renamed", "new").unwrap();
    txn.commit().unwrap();

    let txn = store.begin_write().unwrap();
    assert!(matches!(txn.table("dropped"), Err(Error::NoTable { .. })));
    assert!(matches!(txn.table("renamed"), Err(Error::NoTable { .. })));
    let table = txn.table("new").unwrap();
    assert_eq!(all(&txn, table), [pair("k", "renamed")]);
}

/// Compaction moves pages of tables that the transaction before it had open, and the other way
/// round.
#[test]
fn compaction_between_transactions_moves_open_tables() {
    let scratch = Scratch::new();
    let store = &scratch.store;
    let mut expected = Vec::new();
    for round in 0..6_u32 {
        for part in 0..20_u32 {
            let (mut txn, table) = begin(store);
            for i in 0..50_u32 {
                let key = (i * 7919 + part * 613 + round).to_be_bytes();
                txn.put(table, &key, &[round as u8; 200]).unwrap();
                expected.push(key);
            }
            txn.commit_with(Durability::None).unwrap();
        }
        store.compact(&mut |_, _| {}).unwrap();
        let mut txn = store.begin_write().unwrap();
        let table = txn.table("t").unwrap();
        for key in expected.extract_if(.., |key| key[3] & 1 == 0) {
            txn.delete(table, &key).unwrap();
        }
        txn.commit_with(Durability::None).unwrap();
        expected.sort_unstable();
        expected.dedup();
        let (txn, table) = begin_read(store);
        let keys: Vec<Vec<u8>> = all(&txn, table).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, expected, "round {round}");
        scratch.check();
    }
}

/// Without prefix compression every key and value is one slice, whatever was done to the table, and
/// so it stays in copies.
#[test]
fn keys_and_values_without_prefix_compression_stand_in_one_piece() {
    let scratch = Scratch::new();
    let options = |kind: usize| {
        let options = TableOptions::new().prefix_compression(false);
        match kind {
            0 => options,
            1 => options.order(Order::Integer),
            2 => options.duplicates(),
            _ => options.fixed_duplicates(24),
        }
    };
    let entry = |kind: usize, n: u64| match kind {
        0 => (format!("/usr/share/{n:08}").into_bytes(), vec![b'v'; n as usize % 300]),
        1 => (n.to_le_bytes().to_vec(), vec![b'v'; n as usize % 9]),
        _ => {
            let key = format!("a common beginning {}", n % 7).into_bytes();
            (key, format!("another beginning {:06}", n % 1_000_000).into_bytes())
        }
    };
    let names = ["plain", "integer", "duplicates", "fixed"];
    for round in 0..4 {
        let mut txn = scratch.store.begin_write().unwrap();
        for (kind, name) in names.iter().enumerate() {
            let table = txn.create_table(name, &options(kind)).unwrap();
            for n in numbers(round).take(2_000).chain(0..200) {
                let (key, value) = entry(kind, n % 100_000);
                txn.put(table, &key, &value).unwrap();
                let (key, value) = entry(kind, n % 700);
                txn.delete_pair(table, &key, &value).unwrap();
            }
            assert!(are_whole(&txn, table) > 200);
        }
        txn.commit().unwrap();
        scratch.check();
    }
    let copy = scratch.beside("copy");
    for compact in [false, true] {
        scratch.store.copy_to(&copy, CopyOptions { compact }, &mut |_, _| {}).unwrap();
        let store = Store::open(&copy).unwrap();
        assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
        let (txn, old) = (store.begin_read().unwrap(), scratch.store.begin_read().unwrap());
        for name in names {
            let table = txn.table(name).unwrap();
            assert!(!txn.table_info(table).unwrap().prefix_compression);
            are_whole(&txn, table);
            assert!(all(&txn, table) == all(&old, old.table(name).unwrap()));
        }
        drop((txn, store));
        std::fs::remove_file(&copy).unwrap();
    }
}

/// Fails unless all entries of a table, forwards and backwards, stand in one piece each.
fn are_whole<S: Snapshot>(txn: &S, table: Table) -> usize {
    let is_whole =
        |entry: &Entry<'_>| entry.key.as_slice().is_some() && entry.value.as_slice().is_some();
    let (mut cursor, mut seen) = (txn.cursor(table).unwrap(), 0);
    while let Some(entry) = cursor.next(txn).unwrap() {
        assert!(is_whole(&entry), "{entry:?}");
        seen += 1;
    }
    let mut back = txn.cursor(table).unwrap();
    while let Some(entry) = back.prev(txn).unwrap() {
        assert!(is_whole(&entry), "{entry:?}");
        seen -= 1;
    }
    assert_eq!(seen, 0);
    txn.count(table).unwrap().values as usize
}

#[test]
fn who_asks_for_keys_in_one_piece_is_told_where_there_are_none() {
    let scratch = Scratch::new();
    let whole = TableOptions::new().prefix_compression(false);
    let mut txn = scratch.store.begin_write().unwrap();
    txn.create_table("shared", &TableOptions::new()).unwrap();
    txn.create_table("whole", &whole).unwrap();
    txn.commit().unwrap();
    let scratch = scratch.reopen(Store::builder());
    let txn = scratch.store.begin_read().unwrap();
    assert!(matches!(txn.table_with("shared", &whole), Err(Error::TableOptions { .. })));
    txn.table_with("whole", &TableOptions::new()).unwrap();
    txn.table_with("whole", &whole).unwrap();
    assert!(txn.find_table("shared").unwrap().unwrap().prefix_compression);
    assert!(!txn.find_table("whole").unwrap().unwrap().prefix_compression);
}

/// More tables than stay open from one transaction to the next.
#[test]
fn many_tables_are_found_by_their_names() {
    const TABLES: u32 = 100;
    let scratch = Scratch::new();
    let name = |number: u32| format!("table {number}");
    let holds = |txn: &WriteTxn, number: u32| {
        let table = txn.table(name(number)).unwrap();
        txn.get(table, b"key").unwrap().map(|value| value.to_vec())
    };
    let mut txn = scratch.store.begin_write().unwrap();
    for number in 0..TABLES {
        let table = txn.create_table(name(number), &TableOptions::new()).unwrap();
        txn.put(table, b"key", &number.to_be_bytes()).unwrap();
    }
    // Early and late ones are made anew, and are the old ones again.
    let place = txn.savepoint().unwrap();
    for number in [3, 16, 17, 70, 99] {
        assert!(txn.drop_table(name(number)).unwrap());
        assert!(txn.table(name(number)).is_err());
        let table = txn.create_table(name(number), &TableOptions::new()).unwrap();
        txn.put(table, b"key", b"new").unwrap();
        assert_eq!(holds(&txn, number).unwrap(), b"new");
    }
    txn.rename_table(name(20), "another").unwrap();
    txn.create_table(name(20), &TableOptions::new()).unwrap();
    assert_eq!(holds(&txn, 20), None);
    txn.rollback_to(place).unwrap();
    for number in 0..TABLES {
        assert_eq!(holds(&txn, number).unwrap(), number.to_be_bytes());
    }
    for number in [5, 50] {
        txn.drop_table(name(number)).unwrap();
        txn.create_table(name(number), &TableOptions::new()).unwrap();
        assert_eq!(holds(&txn, number), None);
    }
    txn.commit().unwrap();
    let txn = scratch.store.begin_read().unwrap();
    assert_eq!(txn.tables().unwrap().len(), TABLES as usize);
    for number in (0..TABLES).chain((0..TABLES).rev()) {
        let table = txn.table(name(number)).unwrap();
        let value = txn.get(table, b"key").unwrap().map(|value| value.to_vec());
        let expected = ![5, 50].contains(&number);
        assert_eq!(value, expected.then(|| number.to_be_bytes().to_vec()), "{number}");
    }
}

/// Which table has which name, beside a map: many are made, dropped and renamed under savepoints.
#[test]
fn names_of_many_tables_agree_with_a_map() {
    let scratch = Scratch::new();
    let name = |number: u64| format!("table {number}");
    let mut numbers = numbers(7);
    let mut below = |n: u64| numbers.next().unwrap() % n;
    let mut txn = scratch.store.begin_write().unwrap();
    // What is in the table of each number: which of the tables ever made it is.
    let mut model = BTreeMap::<u64, u64>::new();
    let mut saved = Vec::new();
    for made in 0..4_000_u64 {
        let number = below(60);
        match below(8) {
            0..=3 if !model.contains_key(&number) => {
                let table = txn.create_table(name(number), &TableOptions::new()).unwrap();
                txn.put(table, b"made", &made.to_be_bytes()).unwrap();
                model.insert(number, made);
            }
            4 => {
                let is_there = model.remove(&number).is_some();
                assert_eq!(txn.drop_table(name(number)).unwrap(), is_there);
            }
            5 => {
                let other = below(60);
                let can = model.contains_key(&number) && !model.contains_key(&other);
                assert_eq!(txn.rename_table(name(number), name(other)).is_ok(), can);
                if let (true, Some(made)) = (can, model.get(&number).copied()) {
                    model.remove(&number);
                    model.insert(other, made);
                }
            }
            6 if saved.len() < 4 => saved.push((txn.savepoint().unwrap(), model.clone())),
            7 if below(4) == 0 => {
                if let Some((savepoint, then)) = saved.pop() {
                    txn.rollback_to(savepoint).unwrap();
                    txn.release(savepoint).unwrap();
                    model = then;
                }
            }
            _ => {}
        }
        let number = below(60);
        let found = txn.table(name(number)).ok();
        let found = found.map(|table| txn.get(table, b"made").unwrap().unwrap().to_vec());
        assert_eq!(found, model.get(&number).map(|made| made.to_be_bytes().to_vec()), "{made}");
    }
}
