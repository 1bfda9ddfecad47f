//! Cursors: every step, both ways, and cursors that stay right while others write.

use std::collections::BTreeMap;

use hedgerow::Error;
use hedgerow::tree::{Cursor, Entry, Order, Snapshot, Table, TableOptions, WriteTxn};

use crate::{Owned, Scratch, begin, begin_with, numbers, owned, pair};

/// A result of a step, copied.
fn seen(step: hedgerow::Result<Option<Entry<'_>>>) -> Option<Owned> {
    step.unwrap().map(owned)
}

/// A table with duplicates: a -> 1; b -> 1, 2, 3; d -> 1, 2.
fn letters(txn: &mut WriteTxn) -> Table {
    let table = txn.create_table("t", &TableOptions::new().duplicates()).unwrap();
    for (key, value) in [("a", "1"), ("b", "1"), ("b", "2"), ("b", "3"), ("d", "1"), ("d", "2")] {
        txn.put(table, key.as_bytes(), value.as_bytes()).unwrap();
    }
    table
}

#[test]
fn steps_by_pair_by_key_and_by_value() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = letters(&mut txn);
    let txn = &txn;
    let mut cursor = txn.cursor(table).unwrap();
    assert_eq!(seen(cursor.next(txn)), Some(pair("a", "1")));
    assert_eq!(seen(cursor.next(txn)), Some(pair("b", "1")));
    assert_eq!(seen(cursor.next_value(txn)), Some(pair("b", "2")));
    assert_eq!(seen(cursor.last_value(txn)), Some(pair("b", "3")));
    assert_eq!(seen(cursor.next_value(txn)), None);
    assert_eq!(seen(cursor.current(txn)), Some(pair("b", "3")));
    assert_eq!(cursor.value_count(txn).unwrap(), 3);
    assert_eq!(seen(cursor.first_value(txn)), Some(pair("b", "1")));
    assert_eq!(seen(cursor.prev_value(txn)), None);
    assert_eq!(seen(cursor.next_key(txn)), Some(pair("d", "1")));
    assert_eq!(seen(cursor.next_key(txn)), None);
    assert_eq!(seen(cursor.prev_key(txn)), Some(pair("b", "3")));
    assert_eq!(seen(cursor.prev_key(txn)), Some(pair("a", "1")));
    assert_eq!(seen(cursor.prev_key(txn)), None);
    assert_eq!(seen(cursor.last(txn)), Some(pair("d", "2")));
    assert_eq!(seen(cursor.next(txn)), None);
    assert_eq!(seen(cursor.prev(txn)), Some(pair("d", "1")));
    assert_eq!(seen(cursor.first(txn)), Some(pair("a", "1")));
    assert_eq!(seen(cursor.prev(txn)), None);
    let mut fresh = txn.cursor(table).unwrap();
    assert_eq!(seen(fresh.prev(txn)), Some(pair("d", "2")));
}

#[test]
fn seeks() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = letters(&mut txn);
    let txn = &txn;
    let mut cursor = txn.cursor(table).unwrap();
    assert_eq!(seen(cursor.seek(txn, b"b")), Some(pair("b", "1")));
    assert_eq!(seen(cursor.seek(txn, b"c")), None);
    assert_eq!(seen(cursor.seek_at_or_after(txn, b"c")), Some(pair("d", "1")));
    assert_eq!(seen(cursor.seek_at_or_after(txn, b"e")), None);
    assert_eq!(seen(cursor.seek_at_or_before(txn, b"c")), Some(pair("b", "3")));
    assert_eq!(seen(cursor.seek_at_or_before(txn, b"")), None);
    assert_eq!(seen(cursor.seek_pair(txn, b"b", b"2")), Some(pair("b", "2")));
    assert_eq!(seen(cursor.seek_pair(txn, b"b", b"4")), None);
    assert_eq!(seen(cursor.seek_value_at_or_after(txn, b"b", b"25")), Some(pair("b", "3")));
    assert_eq!(seen(cursor.seek_value_at_or_after(txn, b"b", b"4")), None);
    assert_eq!(seen(cursor.seek_nth(txn, 4)), Some(pair("d", "1")));
    assert_eq!(seen(cursor.prev(txn)), Some(pair("b", "3")));
    assert_eq!(seen(cursor.seek_nth(txn, 6)), None);
}

#[test]
fn an_empty_table_has_nothing_at_either_end() {
    let scratch = Scratch::new();
    let (txn, table) = begin(&scratch.store);
    let mut cursor = txn.cursor(table).unwrap();
    assert_eq!(seen(cursor.first(&txn)), None);
    assert_eq!(seen(cursor.last(&txn)), None);
    assert_eq!(seen(cursor.next(&txn)), None);
    assert_eq!(seen(cursor.prev(&txn)), None);
}

#[test]
fn deleting_while_walking_forgets_nothing() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    for i in 0..5000u32 {
        txn.put(table, &i.to_be_bytes(), &[1; 60]).unwrap();
    }
    let mut cursor = txn.cursor(table).unwrap();
    let mut visited = 0;
    while let Some((key, _)) = seen(cursor.next(&txn)) {
        let number = u32::from_be_bytes(key.try_into().unwrap());
        assert_eq!(number, visited);
        visited += 1;
        if number % 3 != 0 {
            assert!(cursor.delete(&mut txn).unwrap());
        }
    }
    assert_eq!(visited, 5000);
    assert_eq!(txn.count(table).unwrap().keys, 1667);
    txn.commit().unwrap();
    scratch.check();
}

#[test]
fn after_its_own_delete_a_cursor_is_before_the_next_entry() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = letters(&mut txn);
    let mut cursor = txn.cursor(table).unwrap();
    cursor.seek_pair(&txn, b"b", b"2").unwrap();
    assert!(cursor.delete(&mut txn).unwrap());
    assert_eq!(seen(cursor.current(&txn)), Some(pair("b", "3")));
    cursor.seek(&txn, b"b").unwrap();
    assert!(cursor.delete_key(&mut txn).unwrap());
    assert_eq!(seen(cursor.next(&txn)), Some(pair("d", "1")));
    assert_eq!(seen(cursor.prev(&txn)), Some(pair("a", "1")));
}

/// A cursor whose entry another one deleted stands between its neighbours.
#[test]
fn a_cursor_outlives_its_entry() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = letters(&mut txn);
    for forward in [true, false] {
        let mut cursor = txn.cursor(table).unwrap();
        cursor.seek_pair(&txn, b"b", b"2").unwrap();
        assert!(txn.delete_pair(table, b"b", b"2").unwrap());
        if forward {
            assert_eq!(seen(cursor.next(&txn)), Some(pair("b", "3")));
        } else {
            assert_eq!(seen(cursor.prev(&txn)), Some(pair("b", "1")));
        }
        txn.put(table, b"b", b"2").unwrap();
    }
}

/// Splits and merges below a cursor must not move it.
#[test]
fn a_cursor_stays_on_its_entry_while_pages_split_and_merge() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    txn.put(table, &5000u32.to_be_bytes(), b"here").unwrap();
    let mut cursor = txn.cursor(table).unwrap();
    cursor.first(&txn).unwrap();
    let here = (5000u32.to_be_bytes().to_vec(), b"here".to_vec());
    for i in (0..10_000u32).filter(|i| *i != 5000) {
        txn.put(table, &i.to_be_bytes(), &[2; 40]).unwrap();
        if i % 500 == 0 {
            assert_eq!(seen(cursor.current(&txn)), Some(here.clone()));
        }
    }
    for i in (0..10_000u32).filter(|i| !(4999..=5001).contains(i)) {
        assert!(txn.delete(table, &i.to_be_bytes()).unwrap());
        if i % 500 == 0 {
            assert_eq!(seen(cursor.current(&txn)), Some(here.clone()));
        }
    }
    assert_eq!(seen(cursor.next(&txn)).unwrap().0, 5001u32.to_be_bytes());
    assert_eq!(seen(cursor.prev(&txn)), Some(here));
    assert_eq!(seen(cursor.prev(&txn)).unwrap().0, 4999u32.to_be_bytes());
}

#[test]
fn writing_at_the_cursor() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = letters(&mut txn);
    let mut cursor = txn.cursor(table).unwrap();
    cursor.put(&mut txn, b"c", b"7").unwrap();
    assert_eq!(seen(cursor.current(&txn)), Some(pair("c", "7")));
    cursor.put_current(&mut txn, b"8").unwrap();
    assert_eq!(seen(cursor.current(&txn)), Some(pair("c", "8")));
    assert_eq!(txn.count_values(table, b"c").unwrap(), 1);
    assert_eq!(seen(cursor.prev(&txn)), Some(pair("b", "3")));
    cursor.put_current(&mut txn, b"0").unwrap();
    assert_eq!(seen(cursor.current(&txn)), Some(pair("b", "0")));
    assert_eq!(seen(cursor.next(&txn)), Some(pair("b", "1")));
}

#[test]
fn a_cursor_belongs_to_its_transaction() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = letters(&mut txn);
    let mut cursor = txn.cursor(table).unwrap();
    cursor.first(&txn).unwrap();
    txn.commit().unwrap();
    let mut txn = scratch.store.begin_write().unwrap();
    assert!(matches!(cursor.next(&txn), Err(Error::WrongTransaction)));
    assert!(matches!(cursor.delete(&mut txn), Err(Error::WrongTransaction)));
    let reader = scratch.store.begin_read().unwrap();
    assert!(matches!(cursor.current(&reader), Err(Error::WrongTransaction)));
}

/// The leaf under a cursor goes away when the transaction changes it; no step may look at it.
#[test]
fn a_cursor_steps_both_ways_over_leaves_that_split_and_join() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    txn.put(table, &500u32.to_be_bytes(), &[1; 300]).unwrap();
    let mut cursor = txn.cursor(table).unwrap();
    assert_eq!(cursor.seek(&txn, &500u32.to_be_bytes()).unwrap().unwrap().value.len(), 300);
    for i in (0..500u32).rev() {
        txn.put(table, &i.to_be_bytes(), &[1; 300]).unwrap();
        txn.put(table, &(1000 - i).to_be_bytes(), &[1; 300]).unwrap();
        assert_eq!(cursor.prev(&txn).unwrap().unwrap().key, i.to_be_bytes());
    }
    for i in 0..1000u32 {
        assert!(txn.delete(table, &i.to_be_bytes()).unwrap());
        assert_eq!(cursor.next(&txn).unwrap().unwrap().key, (i + 1).to_be_bytes());
    }
}

/// Entries of all kinds that a leaf knows, sorted: short and long keys and values; where there may
/// be several values of a key also groups of up to 40, some of them over two leaves.
fn every_kind(duplicates: bool, reverse: bool) -> Vec<Owned> {
    let mut entries = Vec::new();
    for n in numbers(5).take(2000) {
        let key = match n % 50 {
            0 => vec![b'k'; 600 + n as usize % 100],
            _ => format!("{}/{:03}", n % 7, n >> 40 & 1023).into_bytes(),
        };
        let values = if duplicates && n % 3 == 0 { n >> 8 & 63 } else { 1 };
        let most = if duplicates { 200 } else { 5000 };
        for value in 0..values {
            let len = (n >> 16).wrapping_mul(value + 1) % if n % 11 == 0 { most } else { 100 };
            let text = format!("{value:02}{}", "v".repeat(len as usize));
            entries.push((key.clone(), text.into_bytes()));
        }
    }
    let order = |key: &[u8]| {
        let mut key = key.to_vec();
        if reverse {
            key.reverse();
        }
        key
    };
    entries.sort_by_key(|(key, value)| (order(key), value.clone()));
    entries.dedup_by(|next, kept| next.0 == kept.0 && (!duplicates || next.1 == kept.1));
    entries
}

/// Walks up and down, each stretch of another length, and compares every step with the list.
fn walk<S: Snapshot>(txn: &S, table: Table, entries: &[Owned]) {
    let mut cursor = txn.cursor(table).unwrap();
    let mut at = None;
    for n in numbers(8).take(200) {
        let forward = n % 2 == 0;
        for _ in 0..n >> 8 & if forward { 511 } else { 255 } {
            let (step, to) = if forward {
                (seen(cursor.next(txn)), at.map_or(0, |at: usize| at + 1))
            } else {
                (seen(cursor.prev(txn)), at.unwrap_or(entries.len()).wrapping_sub(1))
            };
            assert_eq!(step.as_ref(), entries.get(to), "{forward} from {at:?}");
            at = if step.is_some() { Some(to) } else { at };
        }
        assert_eq!(seen(cursor.current(txn)).as_ref(), at.and_then(|at| entries.get(at)));
    }
}

/// Most steps take a short way; none may be missed or made twice where they do not.
#[test]
fn steps_lead_over_every_kind_of_entry() {
    for (duplicates, order) in [
        (false, Order::Bytewise),
        (false, Order::Reverse),
        (true, Order::Bytewise),
        (true, Order::Reverse),
    ] {
        let entries = every_kind(duplicates, matches!(order, Order::Reverse));
        let plain = TableOptions::new().order(order);
        let options = if duplicates { plain.duplicates() } else { plain };
        let scratch = Scratch::new();
        let (mut txn, table) = begin_with(&scratch.store, &options);
        for (key, value) in &entries {
            txn.put(table, key, value).unwrap();
        }
        assert!(txn.table_stat(table).unwrap().leaf_pages > 10);
        walk(&txn, table, &entries);
        txn.commit().unwrap();
        let reader = scratch.store.begin_read().unwrap();
        walk(&reader, reader.table("t").unwrap(), &entries);
    }
}

/// Keys whose values fill parts of leaves, whole leaves and many leaves.
fn runs(txn: &mut WriteTxn) -> (Table, Vec<Owned>) {
    let table = txn.create_table("runs", &TableOptions::new().duplicates()).unwrap();
    let mut flat = Vec::new();
    for (key, values) in [(1, 3), (2, 1), (3, 400), (4, 1), (5, 60), (6, 2000), (7, 1)] {
        for value in 0..values {
            let entry = (format!("key {key}"), format!("value {value:04}"));
            txn.put(table, entry.0.as_bytes(), entry.1.as_bytes()).unwrap();
            flat.push(pair(&entry.0, &entry.1));
        }
    }
    (table, flat)
}

/// Every step from every pair, against a list.
fn walk_runs<S: Snapshot>(txn: &S, table: Table, flat: &[Owned]) {
    for (at, (key, _)) in flat.iter().enumerate() {
        let of_key = |i: &usize| flat[*i].0 == *key;
        let first = (0..=at).rev().take_while(of_key).last();
        let last = (at..flat.len()).take_while(of_key).last();
        let (first, last) = (first.unwrap(), last.unwrap());
        let on = |i: Option<usize>| i.and_then(|i| flat.get(i)).cloned();
        let from = || {
            let mut cursor = txn.cursor(table).unwrap();
            cursor.seek_nth(txn, at as u64).unwrap();
            cursor
        };
        assert_eq!(seen(from().next_key(txn)), on(Some(last + 1)), "next key from {at}");
        assert_eq!(seen(from().prev_key(txn)), on(first.checked_sub(1)), "previous key from {at}");
        assert_eq!(seen(from().next_value(txn)), on((at < last).then_some(at + 1)), "{at}");
        assert_eq!(seen(from().prev_value(txn)), on((at > first).then(|| at - 1)), "{at}");
        assert_eq!(seen(from().first_value(txn)), on(Some(first)), "first value from {at}");
        assert_eq!(seen(from().last_value(txn)), on(Some(last)), "last value from {at}");
        assert_eq!(from().value_count(txn).unwrap() as usize, last - first + 1);
    }
}

#[test]
fn steps_inside_and_across_runs_of_values() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let (table, flat) = runs(&mut txn);
    walk_runs(&txn, table, &flat);
    txn.commit().unwrap();
    let txn = scratch.store.begin_read().unwrap();
    walk_runs(&txn, txn.table("runs").unwrap(), &flat);
}

#[test]
fn a_seek_says_whether_it_met_the_key() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = letters(&mut txn);
    let mut cursor = txn.cursor(table).unwrap();
    let found = |found: Option<(Entry<'_>, bool)>| found.map(|(entry, met)| (owned(entry), met));
    assert_eq!(found(cursor.seek_near(&txn, b"b").unwrap()), Some((pair("b", "1"), true)));
    assert_eq!(found(cursor.seek_near(&txn, b"c").unwrap()), Some((pair("d", "1"), false)));
    assert_eq!(found(cursor.seek_near(&txn, b"e").unwrap()), None);
}

#[test]
fn a_cursor_knows_whether_its_entry_is_still_there() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = letters(&mut txn);
    let mut cursor = txn.cursor(table).unwrap();
    assert!(!cursor.is_on_entry(&txn).unwrap());
    cursor.seek_pair(&txn, b"b", b"2").unwrap();
    txn.put(table, b"b", b"15").unwrap();
    assert!(cursor.is_on_entry(&txn).unwrap());
    txn.delete_pair(table, b"b", b"2").unwrap();
    assert!(!cursor.is_on_entry(&txn).unwrap());
    assert_eq!(cursor.last_key(), b"b");
    assert_eq!(seen(cursor.current(&txn)), Some(pair("b", "3")));
    // Placed without a search, which the next step makes.
    cursor.stand_on(&txn, b"d", b"1").unwrap();
    assert_eq!(seen(cursor.next(&txn)), Some(pair("d", "2")));
    cursor.append(&mut txn, b"d", b"9").unwrap();
    assert_eq!(seen(cursor.current(&txn)), Some(pair("d", "9")));
    assert!(matches!(cursor.append(&mut txn, b"a", b"9"), Err(Error::NotLast)));
}

/// The keys of a model after, or before, that of a cursor.
fn beyond(model: &BTreeMap<u32, u32>, at: Option<u32>, forward: bool) -> Option<(u32, u32)> {
    let pair = |(key, value): (&u32, &u32)| (*key, *value);
    match (at, forward) {
        (None, true) => model.first_key_value().map(pair),
        (None, false) => model.last_key_value().map(pair),
        (Some(at), true) => model.range(at + 1..).next().map(pair),
        (Some(at), false) => model.range(..at).next_back().map(pair),
    }
}

/// A table, what it should hold, and a cursor of it that should be at a key.
struct Walked {
    table: Table,
    model: BTreeMap<u32, u32>,
    cursor: Cursor,
    at: Option<u32>,
}

impl Walked {
    fn step(&mut self, txn: &WriteTxn, forward: bool) {
        let expected = beyond(&self.model, self.at, forward);
        let step = if forward { self.cursor.next(txn) } else { self.cursor.prev(txn) }.unwrap();
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().unwrap());
        let found = step.map(|e| (number(&e.key.to_vec()), number(&e.value.to_vec())));
        assert_eq!(found, expected);
        self.at = expected.map_or(self.at, |(key, _)| Some(key));
        let rank = self.at.filter(|at| self.model.contains_key(at));
        let rank = rank.map(|at| self.model.range(..at).count() as u64);
        assert_eq!(self.cursor.rank(txn).unwrap(), rank);
    }

    /// One change at the cursor.
    fn change(&mut self, txn: &mut WriteTxn, random: &mut impl FnMut(u32) -> u32) {
        let value =
            |number: u32, len: u32| [&number.to_be_bytes()[..], &vec![7; len as usize]].concat();
        let is_on = self.at.is_some_and(|at| self.model.contains_key(&at));
        match (random(4), self.at) {
            (0, Some(at)) if is_on => {
                let (number, len) = (random(1000), random(3) * 20);
                self.cursor.put_current(txn, &value(number, len)).unwrap();
                self.model.insert(at, number);
            }
            (1, Some(at)) => {
                assert_eq!(self.cursor.delete(txn).unwrap(), is_on);
                self.model.remove(&at);
            }
            (2, Some(at)) => {
                let key = (at + random(5)).saturating_sub(2);
                let is_there = self.model.contains_key(&key);
                let value = value(1, random(60));
                if self.cursor.put_near(txn, &key.to_be_bytes(), &value).unwrap() {
                    assert!(!is_there);
                    self.model.insert(key, 1);
                    self.at = Some(key);
                }
            }
            _ => {
                let key = random(3000);
                txn.put(self.table, &key.to_be_bytes(), &value(2, random(60))).unwrap();
                self.model.insert(key, 2);
            }
        }
    }
}

#[test]
fn cursors_of_tables_that_change_in_turn_stay_where_they_are() {
    let reversed = |a: &[u8], b: &[u8]| a.cmp(b);
    for seed in 0..20_u64 {
        let mut state = seed;
        let mut random = move |n: u32| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) as u32) % n
        };
        let scratch = Scratch::new();
        let mut txn = scratch.store.begin_write().unwrap();
        let orders = [Order::Bytewise, Order::custom("bytes", reversed)];
        let mut all = orders.map(|order| {
            let name = format!("{order:?}");
            let table = txn.create_table(name, &TableOptions::new().order(order)).unwrap();
            let cursor = txn.cursor(table).unwrap();
            Walked { table, model: BTreeMap::new(), cursor, at: None }
        });
        let mut saved = None;
        for _ in 0..4000 {
            let which = &mut all[random(2) as usize];
            match random(40) {
                0 => {
                    let models = all.each_ref().map(|walked| walked.model.clone());
                    saved = Some((txn.savepoint().unwrap(), models));
                }
                1 => {
                    if let Some((savepoint, models)) = saved.take() {
                        txn.rollback_to(savepoint).unwrap();
                        for (walked, model) in all.iter_mut().zip(models) {
                            walked.model = model;
                        }
                    }
                }
                2..20 => which.step(&txn, true),
                20..25 => which.step(&txn, false),
                _ => which.change(&mut txn, &mut random),
            }
        }
        for walked in &all {
            let entries = txn.range(walked.table, ..).unwrap().count();
            assert_eq!(entries, walked.model.len(), "{seed}");
        }
        txn.commit().unwrap();
    }
}

/// Numbers that look random.
fn mix(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// Looks for keys near each other and far from each other, and compares with a sorted map.
fn seek_beside_in<S: Snapshot>(txn: &S, table: Table, keys: &BTreeMap<u64, ()>, seed: &mut u64) {
    let key_of = |number: u64| number.to_be_bytes();
    let mut cursor = txn.cursor(table).unwrap();
    let mut at = 0;
    for _ in 0..3000 {
        at = match mix(seed) % 8 {
            0 => mix(seed) % 40_000,
            1 => at.saturating_sub(mix(seed) % 50),
            2 => 50_000,
            _ => at + mix(seed) % 20,
        };
        let expected = keys.range(at..).next().or_else(|| keys.iter().next_back());
        let expected = expected.map(|(&number, ())| (number, number.cmp(&at)));
        let found = cursor.seek_beside(txn, &key_of(at)).unwrap();
        let found = found.map(|(entry, order)| {
            (u64::from_be_bytes(entry.key.to_vec().try_into().unwrap()), order)
        });
        assert_eq!(found, expected, "{at}");
        if mix(seed).is_multiple_of(3)
            && let Some((number, _)) = expected
        {
            let next = keys.range(number + 1..).next().map(|(&next, ())| key_of(next).to_vec());
            assert_eq!(seen(cursor.next(txn)).map(|(key, _)| key), next, "after {number}");
        }
    }
}

#[test]
fn a_seek_beside_finds_the_same_from_everywhere() {
    let scratch = Scratch::new();
    let mut seed = 1;
    for (name, order) in [
        ("bytewise", Order::Bytewise),
        ("custom", Order::custom("numbers", |a: &[u8], b: &[u8]| a.cmp(b))),
    ] {
        for whole in [false, true] {
            let mut txn = scratch.store.begin_write().unwrap();
            let options = TableOptions::new().order(order.clone()).prefix_compression(!whole);
            let name = format!("{name} {whole}");
            let table = txn.create_table(&name, &options).unwrap();
            let mut keys = BTreeMap::new();
            seek_beside_in(&txn, table, &keys, &mut seed);
            for round in 0..4 {
                for _ in 0..1 + round * 1500 {
                    let number = mix(&mut seed) % 40_000;
                    txn.put(table, &number.to_be_bytes(), b"value").unwrap();
                    keys.insert(number, ());
                }
                seek_beside_in(&txn, table, &keys, &mut seed);
            }
            txn.commit().unwrap();
            let txn = scratch.store.begin_read().unwrap();
            let table = txn.table_with(&name, &options).unwrap();
            seek_beside_in(&txn, table, &keys, &mut seed);
        }
    }
}

/// A writer's cursor stays right when its table, or another one, is written to between its steps,
/// also where a transaction outgrows its memory and pages are written early.
#[test]
fn a_step_of_a_writer_sees_what_was_written_and_outlives_early_writes() {
    let scratch = Scratch::with(hedgerow::tree::Store::builder().write_budget(1 << 20));
    let mut txn = scratch.store.begin_write().unwrap();
    let walked = txn.create_table("walked", &TableOptions::new()).unwrap();
    let other = txn.create_table("other", &TableOptions::new()).unwrap();
    let key_of = |number: u32| number.to_be_bytes();
    for number in (0..20_000).step_by(2) {
        txn.put(walked, &key_of(number), &[7; 40]).unwrap();
    }
    let mut cursor = txn.cursor(walked).unwrap();
    let (mut expected, mut steps) = (0, 0);
    while let Some(entry) = cursor.next(&txn).unwrap() {
        assert_eq!(entry.key, key_of(expected));
        assert_eq!(entry.value, [7; 40]);
        let here = expected;
        expected += 2;
        match steps % 5 {
            // The next entry is one that was put a moment ago, or is gone.
            0 => {
                txn.put(walked, &key_of(here + 1), &[7; 40]).unwrap();
                expected = here + 1;
            }
            1 => {
                txn.delete(walked, &key_of(expected)).unwrap();
                expected += 2;
            }
            2 => txn.put(other, &key_of(here), &[1; 3000]).unwrap(),
            _ => {}
        }
        if expected % 2 == 1 {
            assert_eq!(seen(cursor.next(&txn)).unwrap().0, key_of(expected));
            expected += 1;
        }
        steps += 1;
    }
    assert!(expected >= 20_000, "the walk ended before {expected}");
}
