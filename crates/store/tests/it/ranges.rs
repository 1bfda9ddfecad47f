//! Ranges from both ends: what is skipped, counted or stepped over against a vector of the same
//! entries, and no page read that need not be.

use std::ops::Bound;

use hedgerow::Error;
use hedgerow::tree::{Snapshot, Store, Table, TableOptions, TypedTable, WriteTxn};

use crate::{Owned, Scratch, begin, begin_read, numbers, owned};

type Ends<'e> = (Bound<&'e [u8]>, Bound<&'e [u8]>);

/// A table with duplicates, some keys of which have more values than a leaf holds.
fn fill(txn: &mut WriteTxn) -> Table {
    let table = txn.create_table("t", &TableOptions::new().duplicates()).unwrap();
    for n in numbers(5).take(20_000) {
        let key = ((n % 700) as u32).to_be_bytes();
        let value = if n % 700 < 3 { (n >> 32) as u32 % 4_000 } else { (n >> 32) as u32 % 40 };
        txn.put(table, &key, &value.to_be_bytes()).unwrap();
    }
    table
}

fn all<'t>(range: impl Iterator<Item = hedgerow::Result<hedgerow::tree::Entry<'t>>>) -> Vec<Owned> {
    range.map(|entry| owned(entry.unwrap())).collect()
}

/// One of several things that are asked of both.
fn step<I: DoubleEndedIterator>(iterator: &mut I, n: u64) -> Option<I::Item> {
    let by = ((n >> 8) % [2, 30, 900, 9_000][(n >> 4) as usize % 4]) as usize;
    match n % 4 {
        0 => iterator.next(),
        1 => iterator.next_back(),
        2 => iterator.nth(by),
        _ => iterator.nth_back(by),
    }
}

fn same_steps<S: Snapshot>(txn: &S, table: Table, (low, high): Ends<'_>, seed: u64) {
    let mut range = txn.range(table, (low, high)).unwrap();
    let mut list = all(txn.range(table, (low, high)).unwrap()).into_iter();
    for n in numbers(seed) {
        let (found, wanted) = (step(&mut range, n), step(&mut list, n));
        assert_eq!(found.map(|entry| owned(entry.unwrap())), wanted);
        assert_eq!((range.len(), range.size_hint()), (list.len(), list.size_hint()));
        if list.len() == 0 {
            break;
        }
    }
    assert!(range.next().is_none() && range.next_back().is_none() && range.nth(1).is_none());
}

#[test]
fn steps_of_every_kind_are_those_of_a_list() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = fill(&mut txn);
    let (low, high) = (100_u32.to_be_bytes(), 600_u32.to_be_bytes());
    let ends: [Ends<'_>; 6] = [
        (Bound::Unbounded, Bound::Unbounded),
        (Bound::Included(&low), Bound::Included(&high)),
        (Bound::Excluded(&low), Bound::Excluded(&high)),
        (Bound::Included(&high), Bound::Unbounded),
        (Bound::Unbounded, Bound::Excluded(&low)),
        (Bound::Included(&high), Bound::Excluded(&low)),
    ];
    for (index, ends) in (0..).zip(ends) {
        (0..6).for_each(|seed| same_steps(&txn, table, ends, 100 * index + seed));
    }
    txn.commit().unwrap();
    let (txn, table) = begin_read(&scratch.store);
    for (index, ends) in (0..).zip(ends) {
        (0..6).for_each(|seed| same_steps(&txn, table, ends, 100 * index + seed + 50));
    }
}

#[test]
fn adapters_of_the_standard_library_skip_and_count() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = fill(&mut txn);
    let list = all(txn.range(table, ..).unwrap());
    let range = || txn.range(table, ..).unwrap();
    assert_eq!(range().count(), list.len());
    assert_eq!(range().last().map(|entry| owned(entry.unwrap())), list.last().cloned());
    assert_eq!(all(range().skip(3_000).take(100)), list[3_000..3_100]);
    let stepped: Vec<_> = list.iter().step_by(777).cloned().collect();
    assert_eq!(all(range().step_by(777)), stepped);
    let back: Vec<_> = list.iter().rev().skip(2_500).step_by(333).cloned().collect();
    assert_eq!(all(range().rev().skip(2_500).step_by(333)), back);
    let from_behind: Vec<_> = list.iter().skip(40).step_by(50).rev().cloned().collect();
    assert_eq!(all(range().skip(40).step_by(50).rev()), from_behind);
}

#[test]
fn typed_ranges_do_likewise() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = TypedTable::<u64, String>::create(&mut txn, "typed").unwrap();
    for n in 0..5_000 {
        table.put(&mut txn, n, &format!("value {n}")).unwrap();
    }
    let range = || table.range(&txn, 100..4_900).unwrap();
    assert_eq!((range().len(), range().count()), (4_800, 4_800));
    let number =
        |entry: Option<hedgerow::Result<(u64, String)>>| entry.map(|entry| entry.unwrap().0);
    assert_eq!(number(range().nth(1_000)), Some(1_100));
    assert_eq!(number(range().nth_back(1_000)), Some(3_899));
    assert_eq!(number(range().last()), Some(4_899));
    assert_eq!(number(range().rev().step_by(100).next_back()), Some(199));
    assert_eq!(number(range().nth(4_800)), None);
}

/// What is damaged in between is never looked at.
#[test]
fn pages_that_are_passed_by_are_not_read() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    for n in 0..20_000_u32 {
        txn.append(table, &n.to_be_bytes(), format!("value {n:06}").as_bytes()).unwrap();
    }
    txn.commit().unwrap();
    let path = scratch.path();
    let Scratch { store, folder } = scratch;
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    let found = bytes.windows(12).position(|window| window == b"value 005000").unwrap();
    bytes[found] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let store = Store::open(&path).unwrap();
    let (txn, table) = begin_read(&store);
    let range = || txn.range(table, ..).unwrap();
    assert_eq!(range().count(), 20_000);
    assert_eq!(all(range().skip(15_000).take(1))[0].0, 15_000_u32.to_be_bytes());
    assert_eq!(all(range().rev().skip(19_000).take(1))[0].0, 999_u32.to_be_bytes());
    // In the damaged leaf, stepped to or gone to.
    let mut walked = range();
    let errors = walked.by_ref().filter(|entry| matches!(entry, Err(Error::Corrupt { .. })));
    assert_eq!(errors.count(), 1);
    assert!(walked.next().is_none(), "an error ends it");
    let mut skipped = range();
    assert!(matches!(skipped.nth(5_000), Some(Err(Error::Corrupt { .. }))));
    assert_eq!(skipped.len(), 0);
    drop(folder);
}
