//! What every user does first: open, put, get, delete, commit, abort, open again.

use std::ops::Bound;

use hedgerow::Error;
use hedgerow::tree::{ReadTxn, Snapshot, Store, TableOptions, Update};

use crate::{Scratch, all, begin, begin_read, pair};

#[test]
fn what_was_committed_is_there_after_opening_again() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.create_table("fruit", &TableOptions::new()).unwrap();
    txn.put(table, b"apple", b"red").unwrap();
    txn.put(table, b"pear", b"green").unwrap();
    txn.put(table, b"apple", b"yellow").unwrap();
    assert!(txn.delete(table, b"pear").unwrap());
    assert!(!txn.delete(table, b"pear").unwrap());
    txn.commit().unwrap();

    let scratch = scratch.reopen(Store::builder());
    let txn = scratch.store.begin_read().unwrap();
    let table = txn.table("fruit").unwrap();
    assert_eq!(all(&txn, table), [pair("apple", "yellow")]);
    assert_eq!(txn.get(table, b"pear").unwrap(), None);
    scratch.check();
}

#[test]
fn what_was_not_committed_leaves_no_trace() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    txn.put(table, b"k", b"1").unwrap();
    txn.commit().unwrap();
    for explicit in [true, false] {
        let mut txn = scratch.store.begin_write().unwrap();
        let table = txn.table("t").unwrap();
        txn.put(table, b"k", b"2").unwrap();
        txn.create_table("other", &TableOptions::new()).unwrap();
        if explicit {
            txn.abort();
        } else {
            drop(txn);
        }
    }
    let txn = scratch.store.begin_read().unwrap();
    assert_eq!(all(&txn, txn.table("t").unwrap()), [pair("k", "1")]);
    assert!(matches!(txn.table("other"), Err(Error::NoTable { .. })));
}

#[test]
fn a_read_transaction_sees_one_commit_for_ever() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    txn.put(table, b"k", b"old").unwrap();
    txn.commit().unwrap();

    let mut reader = scratch.store.begin_read().unwrap();
    let old_id = reader.id();
    for i in 0..200u32 {
        let mut txn = scratch.store.begin_write().unwrap();
        let table = txn.table("t").unwrap();
        txn.put(table, b"k", &i.to_be_bytes()).unwrap();
        txn.put(table, &i.to_be_bytes(), &[7; 500]).unwrap();
        txn.commit().unwrap();
    }
    assert_eq!(all(&reader, reader.table("t").unwrap()), [pair("k", "old")]);

    let stale = reader.table("t").unwrap();
    reader.reset();
    assert!(matches!(reader.get(stale, b"k"), Err(Error::WrongTransaction)));
    reader.renew().unwrap();
    assert!(reader.id() > old_id);
    let table = reader.table("t").unwrap();
    assert_eq!(reader.count(table).unwrap().keys, 201);

    // Also if nothing was committed in between, and what is looked up again is known.
    let id = reader.id();
    reader.renew().unwrap();
    assert_eq!(reader.id(), id);
    assert!(matches!(reader.get(table, b"k"), Err(Error::WrongTransaction)));
    let table = reader.table("t").unwrap();
    assert_eq!(reader.count(table).unwrap().keys, 201);
    assert!(matches!(reader.table("other"), Err(Error::NoTable { .. })));
    let mut txn = scratch.store.begin_write().unwrap();
    txn.drop_table("t").unwrap();
    txn.commit().unwrap();
    reader.renew().unwrap();
    assert!(matches!(reader.table("t"), Err(Error::NoTable { .. })));
}

#[test]
fn a_refreshed_snapshot_keeps_its_handles_until_there_is_a_newer_one() {
    let scratch = Scratch::new();
    let put = |key: &[u8]| {
        let (mut txn, table) = begin(&scratch.store);
        txn.put(table, key, b"value").unwrap();
        txn.commit().unwrap();
    };
    put(b"a");
    let mut reader = scratch.store.begin_read().unwrap();
    let table = reader.table("t").unwrap();
    let mut cursor = reader.cursor(table).unwrap();
    assert!(cursor.first(&reader).unwrap().is_some());
    for reset in [false, true, false] {
        if reset {
            reader.reset();
            assert!(matches!(reader.get(table, b"a"), Err(Error::WrongTransaction)));
            assert!(matches!(cursor.next(&reader), Err(Error::WrongTransaction)));
        }
        assert!(reader.refresh().unwrap());
        assert_eq!(reader.get(table, b"a").unwrap().unwrap(), b"value");
        assert!(cursor.next(&reader).unwrap().is_none());
    }
    for reset in [false, true] {
        put(if reset { b"b" } else { b"c" });
        if reset {
            reader.reset();
        }
        let stale = reader.table("t").unwrap_or(table);
        assert!(!reader.refresh().unwrap());
        assert!(matches!(reader.get(stale, b"a"), Err(Error::WrongTransaction)));
        let table = reader.table("t").unwrap();
        assert_eq!(reader.count(table).unwrap().keys, if reset { 3 } else { 2 });
    }

    // An aborted change is none, and a reader that begins finds tables as they are, not as they
    // were when the one before it had them open.
    let mut txn = scratch.store.begin_write().unwrap();
    txn.drop_table("t").unwrap();
    txn.abort();
    assert!(reader.refresh().unwrap());
    drop(reader);
    put(b"d");
    let reader = scratch.store.begin_read().unwrap();
    assert_eq!(reader.count(reader.table("t").unwrap()).unwrap().keys, 4);
    assert!(matches!(reader.get(table, b"a"), Err(Error::WrongTransaction)));
}

#[test]
fn every_way_to_write_one_entry() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    assert_eq!(txn.put_new(table, b"a", b"1").unwrap(), None);
    assert_eq!(txn.put_new(table, b"a", b"2").unwrap().unwrap(), b"1");
    assert_eq!(txn.replace(table, b"a", b"3").unwrap(), Some(b"1".to_vec()));
    assert_eq!(txn.replace(table, b"b", b"4").unwrap(), None);
    txn.reserve(table, b"c", 3).unwrap().copy_from_slice(b"yes");
    txn.append(table, b"d", b"5").unwrap();
    assert!(matches!(txn.append(table, b"d", b"6"), Err(Error::NotLast)));
    assert!(matches!(txn.append(table, b"a", b"6"), Err(Error::NotLast)));
    txn.update(table, b"e", |old| {
        assert!(old.is_none());
        Update::Put(b"7".to_vec())
    })
    .unwrap();
    txn.update(table, b"b", |old| {
        assert_eq!(old.unwrap(), b"4");
        Update::Delete
    })
    .unwrap();
    txn.update(table, b"c", |_| Update::Keep).unwrap();
    let expected = [pair("a", "3"), pair("c", "yes"), pair("d", "5"), pair("e", "7")];
    assert_eq!(all(&txn, table), expected);
}

#[test]
fn ranges_from_both_ends() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    for letter in b'a'..=b'j' {
        txn.put(table, &[letter], b"").unwrap();
    }
    let mut range = txn.range(table, (Bound::Excluded(b"b"), Bound::Included(b"f"))).unwrap();
    let mut keys = Vec::new();
    while let Some(entry) = range.next() {
        keys.push(entry.unwrap().key.to_vec()[0]);
        if let Some(entry) = range.next_back() {
            keys.push(entry.unwrap().key.to_vec()[0]);
        }
    }
    assert_eq!(keys, b"cfde");
    assert!(range.next_back().is_none());
    let mut crossed = txn.range(table, (Bound::Included(b"f"), Bound::Excluded(b"b"))).unwrap();
    assert!(crossed.next().is_none() && crossed.next_back().is_none());
    let deleted = txn.delete_range(table, (Bound::Unbounded, Bound::Excluded(b"e"))).unwrap();
    assert_eq!(deleted.keys, 4);
    assert_eq!(txn.count(table).unwrap().keys, 6);
}

#[test]
fn sizes_at_the_limits() {
    let scratch = Scratch::new();
    let longest = scratch.store.max_key_size();
    assert_eq!(longest, 1 << 20);
    let (mut txn, table) = begin(&scratch.store);
    let key = vec![b'k'; longest];
    txn.put(table, b"", b"").unwrap();
    txn.put(table, &key, b"long").unwrap();
    let longer = vec![b'k'; longest + 1];
    match txn.put(table, &longer, b"") {
        Err(Error::Size { what: "key", len: 1_048_577, max: 1_048_576, .. }) => {}
        other => panic!("a key that is too long: {other:?}"),
    }
    txn.commit().unwrap();
    let (txn, table) = begin_read(&scratch.store);
    assert_eq!(txn.get(table, b"").unwrap().unwrap(), b"");
    assert_eq!(txn.get(table, &key).unwrap().unwrap(), b"long");
    assert_eq!(txn.get(table, &key[1..]).unwrap(), None);
    scratch.check();
}

/// Zeros only: each key is the beginning of all later ones, so that separators are long, too.
#[test]
fn keys_longer_than_pages_that_begin_alike() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    let zeros = vec![0; 200_000];
    let lens: Vec<usize> = (0..400).map(|n| n * 500).collect();
    for &len in lens.iter().step_by(2).chain(lens.iter().skip(1).step_by(2).rev()) {
        txn.put(table, &zeros[..len], &len.to_le_bytes()).unwrap();
    }
    txn.commit().unwrap();
    let (txn, table) = begin_read(&scratch.store);
    let found: Vec<usize> =
        txn.range(table, ..).unwrap().map(|entry| entry.unwrap().key.len()).collect();
    assert_eq!(found, lens);
    for len in lens {
        let value = txn.get(table, &zeros[..len]).unwrap().unwrap();
        assert_eq!(value, &len.to_le_bytes()[..]);
        assert!(txn.get(table, &zeros[..len + 1]).unwrap().is_none());
    }
    scratch.check();
}

#[test]
fn many_lookups_at_once() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    for i in (0..5000u32).step_by(2) {
        txn.put(table, &i.to_be_bytes(), &i.to_le_bytes()).unwrap();
    }
    let keys: Vec<[u8; 4]> = (0..5000u32).rev().map(u32::to_be_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(<[u8; 4]>::as_slice).collect();
    let mut found = Vec::new();
    txn.get_many(table, &keys, &mut found).unwrap();
    assert_eq!(found.len(), 5000);
    for (i, value) in (0..5000u32).rev().zip(found) {
        let expected = (i % 2 == 0).then(|| i.to_le_bytes().to_vec());
        assert_eq!(value.map(|v| v.to_vec()), expected);
    }
}

#[test]
fn the_interrupt_flag_stops_work_and_only_while_it_is_raised() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    for i in 0..20_000u32 {
        txn.put(table, &i.to_be_bytes(), b"value").unwrap();
    }
    txn.commit().unwrap();
    let interrupt = scratch.store.interrupt();
    interrupt.set(true);
    assert!(interrupt.is_set());
    assert!(matches!(scratch.store.check(&mut |_, _| {}), Err(Error::Interrupted)));
    interrupt.set(false);
    scratch.check();
}

#[test]
fn transactions_may_change_threads() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<ReadTxn>();
    is_send_and_sync::<Store>();
}
