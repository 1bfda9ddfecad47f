//! Order statistics: counts, ranks, positions, samples and parts against a sorted list, also of
//! changes that are not committed.

use std::ops::Bound;

use hedgerow::tree::{CopyOptions, Count, Rank, Snapshot, Store, Table, TableOptions, WriteTxn};

use crate::{Scratch, begin, begin_with, numbers, owned};

/// Sorted distinct keys: even numbers below 40,000 without a pattern in their order of arrival.
fn fill(txn: &mut WriteTxn) -> (Table, Vec<[u8; 4]>) {
    let table = txn.create_table("t", &TableOptions::new()).unwrap();
    let mut keys: Vec<u32> = numbers(3).take(15_000).map(|n| (n % 20_000) as u32 * 2).collect();
    for key in &keys {
        txn.put(table, &key.to_be_bytes(), b"value").unwrap();
    }
    keys.sort_unstable();
    keys.dedup();
    (table, keys.into_iter().map(u32::to_be_bytes).collect())
}

#[test]
fn ranks_and_positions_are_inverse() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let (table, keys) = fill(&mut txn);
    for (i, key) in keys.iter().enumerate().step_by(13) {
        let i = i as u64;
        assert_eq!(owned(txn.nth(table, i).unwrap().unwrap()).0, key);
        assert_eq!(txn.rank(table, key).unwrap(), Rank { keys: i, values: i, found: true });
        let absent = (u32::from_be_bytes(*key) + 1).to_be_bytes();
        let rank = Rank { keys: i + 1, values: i + 1, found: false };
        assert_eq!(txn.rank(table, &absent).unwrap(), rank);
    }
    assert!(txn.nth(table, keys.len() as u64).unwrap().is_none());
    assert!(txn.nth(table, u64::MAX).unwrap().is_none());
}

#[test]
fn counts_of_ranges_with_every_kind_of_end() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let (table, keys) = fill(&mut txn);
    fn ends(key: &[u8; 4]) -> [Bound<&[u8; 4]>; 2] {
        [Bound::Included(key), Bound::Excluded(key)]
    }
    for n in numbers(9).take(300) {
        let low = ((n % 40_000) as u32).to_be_bytes();
        let high = ((n >> 32) as u32 % 40_000).to_be_bytes();
        for low in ends(&low).into_iter().chain([Bound::Unbounded]) {
            for high in ends(&high).into_iter().chain([Bound::Unbounded]) {
                let inside = |key: &&[u8; 4]| {
                    (match low {
                        Bound::Included(l) => *key >= l,
                        Bound::Excluded(l) => *key > l,
                        Bound::Unbounded => true,
                    }) && match high {
                        Bound::Included(h) => *key <= h,
                        Bound::Excluded(h) => *key < h,
                        Bound::Unbounded => true,
                    }
                };
                let expected = keys.iter().filter(inside).count() as u64;
                let found = txn
                    .count_range(table, (low.map(|k| k.as_slice()), high.map(|k| k.as_slice())))
                    .unwrap();
                assert_eq!(found, Count { keys: expected, values: expected });
            }
        }
    }
}

#[test]
fn samples_and_parts_are_even() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let (table, keys) = fill(&mut txn);
    let position =
        |key: Vec<u8>| keys.binary_search(&key.try_into().unwrap()).expect("a key of the table");
    for n in [1, 2, 7, 1000] {
        let sample: Vec<usize> =
            txn.sample(table, n).unwrap().into_iter().map(|e| position(owned(e).0)).collect();
        assert_eq!(sample.len(), n);
        for gap in sample.windows(2).map(|w| w[1] - w[0]) {
            assert!(gap == keys.len() / n || gap == keys.len() / n + 1);
        }
        let mut cuts: Vec<usize> =
            txn.split(table, n).unwrap().into_iter().map(|e| position(owned(e).0)).collect();
        assert_eq!(cuts.len(), n - 1);
        cuts.insert(0, 0);
        cuts.push(keys.len());
        for part in cuts.windows(2).map(|w| w[1] - w[0]) {
            assert!(part == keys.len() / n || part == keys.len() / n + 1);
        }
    }
    assert_eq!(txn.sample(table, 1_000_000).unwrap().len(), keys.len());
    let random = |seed| {
        let drawn = txn.sample_random(table, 500, seed).unwrap();
        drawn.into_iter().map(|e| position(owned(e).0)).collect::<Vec<_>>()
    };
    assert_eq!(random(1), random(1));
    assert_ne!(random(1), random(2));
    // 500 draws that all miss a quarter of the table would happen once in 10^60 times.
    for quarter in 0..4 {
        let range = keys.len() * quarter / 4..keys.len() * (quarter + 1) / 4;
        assert!(random(3).iter().any(|p| range.contains(p)));
    }
}

#[test]
fn pairs_of_a_table_with_duplicates() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin_with(&scratch.store, &TableOptions::new().duplicates());
    let mut pairs = Vec::new();
    for n in numbers(4).take(12_000) {
        let key = ((n % 60) as u16 * 2).to_be_bytes();
        let value = ((n >> 20) as u16).to_be_bytes();
        txn.put(table, &key, &value).unwrap();
        pairs.push((key, value));
    }
    pairs.sort_unstable();
    pairs.dedup();
    let keys_before = |key: &[u8; 2]| {
        let mut before: Vec<_> = pairs.iter().map(|p| p.0).filter(|k| k < key).collect();
        before.dedup();
        before.len() as u64
    };
    for n in numbers(5).take(300) {
        let (key, value) = (((n % 121) as u16).to_be_bytes(), ((n >> 20) as u16).to_be_bytes());
        let before = pairs.partition_point(|p| *p < (key, value)) as u64;
        let found = pairs.binary_search(&(key, value)).is_ok();
        let rank = Rank { keys: keys_before(&key), values: before, found };
        assert_eq!(txn.rank_pair(table, &key, &value).unwrap(), rank);
        let of_key = pairs.iter().filter(|p| p.0 == key).count() as u64;
        assert_eq!(txn.count_values(table, &key).unwrap(), of_key);
        let high = (key.as_slice(), value.as_slice());
        let count = txn.count_pairs(table, Bound::Unbounded, Bound::Excluded(high)).unwrap();
        assert_eq!(count, before);
        let count =
            txn.count_range(table, (Bound::Unbounded, Bound::Excluded(key.as_slice()))).unwrap();
        assert_eq!(count.keys, keys_before(&key));
        assert_eq!(count.values, pairs.partition_point(|p| p.0 < key) as u64);
    }
}

#[test]
fn counters_follow_rollbacks_and_deleted_ranges() {
    let scratch = Scratch::new();
    let mut txn = scratch.store.begin_write().unwrap();
    let (table, keys) = fill(&mut txn);
    let all = keys.len() as u64;
    let savepoint = txn.savepoint().unwrap();
    let middle = Bound::Included(keys[5000].as_slice());
    let deleted = txn.delete_range(table, (Bound::Unbounded, middle)).unwrap();
    assert_eq!(deleted.keys, 5001);
    assert_eq!(txn.count(table).unwrap().keys, all - 5001);
    assert_eq!(owned(txn.nth(table, 0).unwrap().unwrap()).0, keys[5001]);
    txn.rollback_to(savepoint).unwrap();
    assert_eq!(txn.count(table).unwrap().keys, all);
    assert_eq!(owned(txn.nth(table, 5001).unwrap().unwrap()).0, keys[5001]);
}

/// A leaf that is begun by an append guesses what its keys will share. Here that changes again and
/// again, so that the guess is too long and too short; counts are right at any time, and in the
/// end the leaves are as full as those of a copy that is filled anew.
#[test]
fn appends_count_and_fill_leaves_whatever_their_keys_share() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    let mut keys: Vec<String> = numbers(6)
        .take(400)
        .flat_map(|n| {
            let folder = format!("{:02}/{}", n % 20, "deep/".repeat((n >> 8) as usize % 12));
            (0..n >> 16 & 127).map(move |file| format!("{folder}{:02}/{file:03}", n >> 32 & 63))
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    for (i, key) in keys.iter().enumerate() {
        txn.append(table, key.as_bytes(), b"value").unwrap();
        if i % 97 == 0 {
            let middle = i / 2;
            let found = owned(txn.nth(table, middle as u64).unwrap().unwrap()).0;
            assert_eq!(found, keys[middle].as_bytes());
            let rank = txn.rank(table, key.as_bytes()).unwrap();
            assert_eq!((rank.keys, rank.found), (i as u64, true));
        }
    }
    txn.commit().unwrap();
    scratch.check();
    let leaves = |store: &Store| {
        let reader = store.begin_read().unwrap();
        reader.table_stat(reader.table("t").unwrap()).unwrap().leaf_pages
    };
    let copy = scratch.beside("copy");
    scratch.store.copy_to(&copy, CopyOptions { compact: true }, &mut |_, _| {}).unwrap();
    let (appended, anew) = (leaves(&scratch.store), leaves(&Store::open(&copy).unwrap()));
    assert!(anew > 50 && appended * 100 <= anew * 105, "{appended} leaves, {anew} anew");
}
