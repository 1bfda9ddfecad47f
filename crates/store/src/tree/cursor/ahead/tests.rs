//! Steps ahead and back are those of the cursor.

use super::*;
use crate::tree::{Order, Snapshot, Store, Table, TableOptions};

type Pair = (Vec<u8>, Vec<u8>);

/// Entries whose keys share their first `front` bytes and have `rests` more, with values of 0
/// to 200 bytes.
fn entries(front: usize, rests: std::ops::Range<usize>) -> Vec<Pair> {
    let key = |i: usize| {
        let mut key = vec![b'='; front];
        key.extend(format!("{i:03}").bytes());
        key.resize(front + rests.start + i * 7 % rests.len(), b'.');
        key
    };
    (0..400).map(|i| (key(i), vec![i as u8; i * 11 % 201])).collect()
}

/// A step ahead, if there is a quick one, and whether it led to another leaf.
fn step(ahead: &mut Ahead<'_>) -> Option<(Pair, bool)> {
    let pair = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
    if let Some(short) = ahead.step_short(|key, value| pair((key, value))) {
        return Some((short, false));
    }
    if let Some(stored) = ahead.step_stored() {
        return Some((pair(stored), false));
    }
    if let Some(stored) = ahead.next_stored_leaf(|key, value| (key, value)) {
        return Some((pair(stored), true));
    }
    let mut room = [MaybeUninit::new(0xEE); Joining::ROOM];
    let (joined, in_leaf) = match ahead.step() {
        Some(step) => (step.joined(&mut room), false),
        None => (ahead.next_leaf(&mut room)?, true),
    };
    Some(((whole(joined.0, &room), joined.1.to_vec()), in_leaf))
}

/// The same back.
fn step_back(ahead: &mut Ahead<'_>) -> Option<(Pair, bool)> {
    let pair = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    if let Some(short) = ahead.back_short(pair) {
        return Some((short, false));
    }
    if let Some((key, value)) = ahead.back_stored() {
        return Some((pair(key, value), false));
    }
    if let Some(stored) = ahead.back_stored_leaf(pair) {
        return Some((stored, true));
    }
    let mut room = [MaybeUninit::new(0xEE); Joining::ROOM];
    let (joined, in_leaf) = match ahead.back() {
        Some(step) => (step.joined(&mut room), false),
        None => (ahead.back_leaf(&mut room)?, true),
    };
    Some(((whole(joined.0, &room), joined.1.to_vec()), in_leaf))
}

/// As [`walk`], from the end; now and then it turns round for some steps.
fn walk_back(txn: &ReadTxn, table: Table, expected: &[Pair]) -> [usize; 2] {
    let mut cursor = txn.cursor(table).unwrap();
    let (mut beside, mut quick) = (Ahead::NONE, [0; 2]);
    let (mut at, mut steps) = (expected.len(), 0);
    while at > 0 {
        at -= 1;
        steps += 1;
        let (key, value) = &expected[at];
        if let Some((pair, to_leaf)) = step_back(&mut beside) {
            assert_eq!((&pair.0, &pair.1), (key, value), "{at}");
            quick[usize::from(to_leaf)] += 1;
        } else {
            cursor.follow(&mut beside);
            let entry = cursor.prev(txn).unwrap().unwrap();
            assert!(entry.key == *key && entry.value == *value, "{at}: {entry:?}");
            beside = cursor.behind(txn).unwrap_or(Ahead::NONE);
        }
        if steps % 5 == 0 {
            cursor.follow(&mut beside);
            assert_eq!(cursor.current(txn).unwrap().unwrap().key, *key, "{at}");
        }
        let turned = if steps % 7 == 0 { steps % 4 } else { 0 };
        for _ in 0..turned {
            let Some((pair, _)) = step(&mut beside) else { break };
            at += 1;
            assert_eq!(pair, expected[at], "{at}, forwards");
        }
        if steps % 55 == 54 && at > 0 {
            cursor.follow(&mut beside);
            at -= 1;
            assert_eq!(cursor.prev(txn).unwrap().unwrap().key, expected[at].0, "{at}");
            beside = cursor.behind(txn).unwrap_or(Ahead::NONE);
        }
    }
    assert!(step_back(&mut beside).is_none());
    cursor.follow(&mut beside);
    assert!(cursor.prev(txn).unwrap().is_none());
    quick
}

/// Steps through a table, ahead where that can be; how many steps that were inside of leaves,
/// and how many to another one.
fn walk(txn: &ReadTxn, table: Table, expected: &[Pair]) -> [usize; 2] {
    let mut cursor = txn.cursor(table).unwrap();
    let (mut ahead, mut quick) = (Ahead::NONE, [0; 2]);
    for (i, (key, value)) in expected.iter().enumerate() {
        if let Some((pair, to_leaf)) = step(&mut ahead) {
            assert_eq!((&pair.0, &pair.1), (key, value), "{i}");
            quick[usize::from(to_leaf)] += 1;
        } else {
            cursor.follow(&mut ahead);
            let entry = cursor.next(txn).unwrap().unwrap();
            assert!(entry.key == *key && entry.value == *value, "{i}: {entry:?}");
            ahead = cursor.ahead(txn).unwrap_or(Ahead::NONE);
        }
        if i % 5 == 0 {
            cursor.follow(&mut ahead);
            assert_eq!(cursor.current(txn).unwrap().unwrap().key, *key, "{i}");
        }
        if i % 55 == 54 {
            cursor.follow(&mut ahead);
            assert_eq!(cursor.prev(txn).unwrap().unwrap().key, expected[i - 1].0, "{i}");
            assert_eq!(cursor.next(txn).unwrap().unwrap().key, *key, "{i}");
            ahead = cursor.ahead(txn).unwrap_or(Ahead::NONE);
        }
    }
    assert!(step(&mut ahead).is_none());
    cursor.follow(&mut ahead);
    assert!(cursor.next(txn).unwrap().is_none());
    quick
}

#[test]
fn steps_ahead_are_those_of_the_cursor() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let mut expected = Vec::new();
    for front in [0, 1, 15, 16, 17, 40, 63, 64, 65, 100] {
        for rests in [3..4, 4..40, 120..140] {
            expected.push((format!("{front} {rests:?}"), entries(front, rests)));
        }
    }
    let mut txn = store.begin_write().unwrap();
    for (name, entries) in &expected {
        let table = txn.create_table(name, &TableOptions::new()).unwrap();
        entries.iter().for_each(|(key, value)| txn.put(table, key, value).unwrap());
    }
    txn.commit().unwrap();
    let txn = store.begin_read().unwrap();
    for (name, entries) in &expected {
        let table = txn.table(name).unwrap();
        let quick = [walk(&txn, table, entries), walk_back(&txn, table, entries)];
        // Keys that a leaf shares more of than is copied, or with longer rests, are not quick.
        match name.as_str() {
            "16 3..4" | "0 3..4" | "40 3..4" => {
                let are_quick = |quick: &[usize; 2]| quick[0] > 300 && quick[1] > 3;
                assert!(quick.iter().all(are_quick), "{name}: {quick:?}");
            }
            "65 3..4" | "100 120..140" => assert_eq!(quick, [[0; 2]; 2], "{name}"),
            _ => {}
        }
    }
}

#[test]
fn steps_over_keys_in_one_piece_are_quick_in_every_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let mut entries = entries(70, 4..40);
    for order in [Order::Bytewise, Order::Reverse] {
        if matches!(order, Order::Reverse) {
            entries.sort_by(|a, b| a.0.iter().rev().cmp(b.0.iter().rev()));
        }
        let options = TableOptions::new().order(order).prefix_compression(false);
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table(format!("{options:?}"), &options).unwrap();
        entries.iter().for_each(|(key, value)| txn.put(table, key, value).unwrap());
        txn.commit().unwrap();
        let txn = store.begin_read().unwrap();
        let table = txn.table(format!("{options:?}")).unwrap();
        for quick in [walk(&txn, table, &entries), walk_back(&txn, table, &entries)] {
            assert!(quick[0] > 300 && quick[1] > 3, "{options:?}: {quick:?}");
        }
    }
}

#[test]
fn nothing_is_ahead_where_steps_are_not_as_usual() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let mut txn = store.begin_write().unwrap();
    let reversed = TableOptions::new().order(Order::Reverse);
    let tables = [("reversed", reversed), ("duplicates", TableOptions::new().duplicates())];
    for (name, options) in &tables {
        let table = txn.create_table(name, options).unwrap();
        for value in [b"1", b"2"] {
            txn.put(table, b"a=", value).unwrap();
        }
        txn.put(table, b"b=", b"3").unwrap();
    }
    txn.commit().unwrap();
    let mut txn = store.begin_read().unwrap();
    for (name, _) in &tables {
        let table = txn.table(name).unwrap();
        let mut cursor = txn.cursor(table).unwrap();
        assert!(cursor.ahead(&txn).is_none(), "{name}, nowhere");
        cursor.next(&txn).unwrap();
        assert!(cursor.ahead(&txn).is_none(), "{name}");
    }
    let table = txn.table("duplicates").unwrap();
    let mut cursor = txn.cursor(table).unwrap();
    cursor.last_value(&txn).unwrap();
    cursor.seek_pair(&txn, b"a=", b"2").unwrap();
    assert!(cursor.ahead(&txn).is_some());
    txn.reset();
    assert!(cursor.ahead(&txn).is_none());
    txn.renew().unwrap();
    assert!(cursor.ahead(&txn).is_none());
}

#[test]
fn steps_back_stop_at_a_key_of_several_values() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    for is_compressed in [true, false] {
        let options = TableOptions::new().duplicates().prefix_compression(is_compressed);
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table(format!("{is_compressed}"), &options).unwrap();
        for (key, value) in [("a", "0"), ("b", "1"), ("b", "2"), ("c", "3"), ("d", "4")] {
            txn.put(table, key.as_bytes(), value.as_bytes()).unwrap();
        }
        txn.commit().unwrap();
        let txn = store.begin_read().unwrap();
        let mut cursor = txn.cursor(txn.table(format!("{is_compressed}")).unwrap()).unwrap();
        cursor.last(&txn).unwrap();
        let mut beside = cursor.behind(&txn).unwrap();
        assert_eq!(step_back(&mut beside), Some(((b"c".to_vec(), b"3".to_vec()), false)));
        assert_eq!(step_back(&mut beside), None, "to several values");
        cursor.follow(&mut beside);
        assert_eq!(cursor.prev(&txn).unwrap().unwrap().value, b"2");
        let mut beside = cursor.behind(&txn).unwrap();
        assert_eq!(step_back(&mut beside), None, "among several values");
        cursor.follow(&mut beside);
        assert_eq!(cursor.prev(&txn).unwrap().unwrap().value, b"1");
        assert!(cursor.behind(&txn).is_none(), "not the last of several values");
        assert_eq!(cursor.prev(&txn).unwrap().unwrap().value, b"0");
    }
}
