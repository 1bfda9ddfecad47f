//! Savepoints and nested transactions: what is rolled back is gone without trace, and only that.

use hedgerow::Error;
use hedgerow::tree::{Snapshot, Store, TableOptions, WriteTxn};

use crate::{Scratch, all, begin, pair};

fn put(txn: &mut WriteTxn, key: &str, value: &str) {
    let table = txn.create_table("t", &TableOptions::new()).unwrap();
    txn.put(table, key.as_bytes(), value.as_bytes()).unwrap();
}

#[test]
fn a_savepoint_may_be_rolled_back_to_again_and_again() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    put(&mut txn, "a", "1");
    let savepoint = txn.savepoint().unwrap();
    for round in 0..50 {
        put(&mut txn, "a", "2");
        for i in 0..200 {
            put(&mut txn, &format!("key {round} {i}"), "x");
        }
        txn.rollback_to(savepoint).unwrap();
        let table = txn.table("t").unwrap();
        assert_eq!(all(&txn, table), [pair("a", "1")]);
    }
    put(&mut txn, "b", "3");
    txn.release(savepoint).unwrap();
    assert!(txn.rollback_to(savepoint).is_err());
    txn.commit().unwrap();
    let txn = scratch.store.begin_read().unwrap();
    assert_eq!(all(&txn, txn.table("t").unwrap()), [pair("a", "1"), pair("b", "3")]);
    scratch.check();
}

#[test]
fn inner_savepoints_go_with_outer_ones() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    put(&mut txn, "a", "1");
    let outer = txn.savepoint().unwrap();
    put(&mut txn, "b", "2");
    let inner = txn.savepoint().unwrap();
    put(&mut txn, "c", "3");
    txn.release(inner).unwrap();
    put(&mut txn, "d", "4");
    txn.rollback_to(outer).unwrap();
    assert!(txn.rollback_to(inner).is_err());
    let table = txn.table("t").unwrap();
    assert_eq!(all(&txn, table), [pair("a", "1")]);
}

#[test]
fn tables_created_and_dropped_are_rolled_back_too() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    put(&mut txn, "a", "1");
    txn.commit().unwrap();
    let mut txn = scratch.store.begin_write().unwrap();
    let savepoint = txn.savepoint().unwrap();
    assert!(txn.drop_table("t").unwrap());
    txn.create_table("new", &TableOptions::new()).unwrap();
    txn.rollback_to(savepoint).unwrap();
    assert!(matches!(txn.table("new"), Err(Error::NoTable { .. })));
    let table = txn.table("t").unwrap();
    assert_eq!(all(&txn, table), [pair("a", "1")]);
    txn.commit().unwrap();
    scratch.check();
}

#[test]
fn nested_transactions_commit_into_their_parent_or_leave_no_trace() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    put(&mut txn, "outer", "1");
    {
        let mut child = txn.begin_nested().unwrap();
        put(&mut child, "child", "2");
        {
            let mut grandchild = child.begin_nested().unwrap();
            put(&mut grandchild, "grandchild", "3");
            put(&mut grandchild, "outer", "4");
            grandchild.abort();
        }
        {
            let mut dropped = child.begin_nested().unwrap();
            put(&mut dropped, "dropped", "5");
        }
        child.commit().unwrap();
    }
    {
        let mut child = txn.begin_nested().unwrap();
        let table = child.table("t").unwrap();
        child.clear_table(table).unwrap();
        child.abort();
    }
    txn.commit().unwrap();
    let scratch = scratch.reopen(Store::builder());
    let txn = scratch.store.begin_read().unwrap();
    let expected = [pair("child", "2"), pair("outer", "1")];
    assert_eq!(all(&txn, txn.table("t").unwrap()), expected);
    scratch.check();
}

/// Rolling back must not lose pages: thousands of rounds stay in a small file.
#[test]
fn rolled_back_pages_are_used_again() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    put(&mut txn, "a", "1");
    for _ in 0..2000 {
        let savepoint = txn.savepoint().unwrap();
        let table = txn.table("t").unwrap();
        txn.put(table, b"large", &[1; 20_000]).unwrap();
        txn.rollback_to(savepoint).unwrap();
        txn.release(savepoint).unwrap();
    }
    txn.commit().unwrap();
    let bytes = scratch.store.stat().unwrap().file_bytes;
    assert!(bytes < 16 << 20, "the file has {bytes} bytes");
    scratch.check();
}

#[test]
fn values_that_are_replaced_where_they_stand_come_back() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    for i in 0..300_u32 {
        txn.put(table, &i.to_be_bytes(), b"before").unwrap();
    }
    let mut cursor = txn.cursor(table).unwrap();
    let mut other = txn.cursor(table).unwrap();
    let mut outer = txn.savepoint().unwrap();
    for round in 0..3 {
        for i in (0..300_u32).step_by(7) {
            other.seek(&txn, &(i + 1).to_be_bytes()).unwrap();
            cursor.seek(&txn, &i.to_be_bytes()).unwrap();
            for value in [&b"middle"[..], b"of another length", b"behind"] {
                cursor.put_current(&mut txn, value).unwrap();
                assert_eq!(cursor.current(&txn).unwrap().unwrap().value, value);
            }
            assert_eq!(cursor.next(&txn).unwrap().map(|entry| entry.value.to_vec()), {
                other.current(&txn).unwrap().map(|entry| entry.value.to_vec())
            });
        }
        match round {
            0 => txn.rollback_to(outer).unwrap(),
            1 => {
                txn.release(outer).unwrap();
                outer = txn.savepoint().unwrap();
            }
            _ => {}
        }
        let expected =
            |i: u32| if round > 0 && i.is_multiple_of(7) { b"behind" } else { b"before" };
        for i in 0..300_u32 {
            assert_eq!(txn.get(table, &i.to_be_bytes()).unwrap().unwrap(), expected(i));
        }
    }
    txn.commit().unwrap();
    scratch.check();
}

#[test]
fn a_savepoint_of_another_transaction_is_refused() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let other = txn.savepoint().unwrap();
    drop(txn);
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new()).unwrap();
    let own = txn.savepoint().unwrap();
    txn.put(table, b"key", b"value").unwrap();
    assert!(matches!(txn.rollback_to(other), Err(Error::Argument { .. })));
    assert!(matches!(txn.release(other), Err(Error::Argument { .. })));
    assert_eq!(txn.get(table, b"key").unwrap().unwrap(), b"value");
    txn.rollback_to(own).unwrap();
    assert_eq!(txn.get(table, b"key").unwrap(), None);
}

#[test]
fn a_nested_transaction_whose_place_was_left_is_not_committed() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    put(&mut txn, "a", "1");
    let outer = txn.savepoint().unwrap();
    let mut nested = txn.begin_nested().unwrap();
    nested.rollback_to(outer).unwrap();
    put(&mut nested, "b", "2");
    nested.commit().unwrap_err();
    txn.commit().unwrap_err();
}
