//! Where keys and values of tables without prefix compression stand in memory.

use std::collections::BTreeMap;
use std::ops::Range;

use hedgerow::tree::{Bytes, CopyOptions, Snapshot, Store, Table, TableOptions};

use crate::{begin_read, begin_with};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    /// Some bytes, as many as a number of the range times `unit`.
    fn bytes(&mut self, units: Range<usize>, unit: usize) -> Vec<u8> {
        let len = (units.start + self.below(units.len())) * unit;
        let seed = self.below(1 << 24) as u32;
        (0..len).map(|i| seed.rotate_left(i as u32 * 7) as u8 ^ i as u8).collect()
    }
}

#[track_caller]
fn assert_aligned(part: Bytes<'_>, unit: usize, what: &str) {
    let whole = part.as_slice().expect("in one piece");
    let address = whole.as_ptr() as usize;
    // Nothing is read of an empty string.
    assert!(whole.is_empty() || address.is_multiple_of(unit), "{what}: {address:x}");
}

/// All entries, both ways, and each by its key.
fn assert_same(txn: &impl Snapshot, table: Table, model: &Model, unit: usize) {
    let mut cursor = txn.cursor(table).unwrap();
    for (key, value) in model {
        let entry = cursor.next(txn).unwrap().unwrap();
        assert!(entry.key == key[..] && entry.value == value[..]);
        assert_aligned(entry.key, unit, "a key");
        assert_aligned(entry.value, unit, "a value");
        assert_aligned(txn.get(table, key).unwrap().unwrap(), unit, "a value by its key");
    }
    assert!(cursor.next(txn).unwrap().is_none());
    let mut cursor = txn.cursor(table).unwrap();
    for (key, value) in model.iter().rev() {
        let entry = cursor.prev(txn).unwrap().unwrap();
        assert!(entry.key == key[..] && entry.value == value[..]);
        assert_aligned(entry.value, unit, "a value from the back");
    }
    assert_eq!(txn.count(table).unwrap().keys, model.len() as u64);
}

/// Puts, replaces and removes entries whose keys and values have lengths in units of `unit` bytes.
fn churn(page_size: u32, unit: usize, keys: Range<usize>, values: &[Range<usize>]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::builder().page_size(page_size).create(&path).unwrap();
    let options = TableOptions::new().prefix_compression(false);
    let (mut model, mut random) = (Model::new(), Random(unit as u64));
    for round in 0..12 {
        let (mut txn, table) = begin_with(&store, &options);
        for _ in 0..400 {
            let lengths = values[random.below(values.len())].clone();
            let (key, value) = (random.bytes(keys.clone(), unit), random.bytes(lengths, unit));
            let old = model.keys().nth(random.below(model.len().max(1))).cloned();
            match (random.below(5), old) {
                (0, Some(old)) => {
                    assert!(txn.delete(table, &old).unwrap());
                    model.remove(&old);
                }
                (1, Some(old)) => {
                    txn.put(table, &old, &value).unwrap();
                    model.insert(old, value);
                }
                _ => {
                    txn.put(table, &key, &value).unwrap();
                    model.insert(key, value);
                }
            }
        }
        if round % 3 == 0 {
            assert_same(&txn, table, &model, unit);
        }
        txn.commit().unwrap();
        let txn = store.begin_read().unwrap();
        assert_same(&txn, txn.table("t").unwrap(), &model, unit);
    }
    assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
    drop(store);
    let store = Store::open(&path).unwrap();
    let copy = folder.path().join("copy");
    store.copy_to(&copy, CopyOptions { compact: true }, &mut |_, _| {}).unwrap();
    for store in [store, Store::open(&copy).unwrap()] {
        let txn = store.begin_read().unwrap();
        assert_same(&txn, txn.table("t").unwrap(), &model, unit);
        drop(txn);
        assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn keys_and_values_stand_at_even_addresses() {
    // Lengths that a slot tells, that a record tells, and of extents; keys of both kinds, too.
    churn(4096, 2, 1..20, &[0..60, 60..520, 500..1000, 1000..4000]);
    churn(65_536, 2, 1..150, &[0..200, 200..9000]);
}

#[test]
fn keys_and_values_of_multiples_of_8_bytes_stand_at_such_addresses() {
    churn(4096, 8, 1..3, &[0..4, 1..3]);
    churn(4096, 8, 2..64, &[0..17, 15..130, 120..250, 250..900]);
    churn(65_536, 8, 1..200, &[0..129, 120..5000]);
}

#[test]
fn entries_of_any_lengths_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let (mut txn, table) = begin_with(&store, &TableOptions::new().prefix_compression(false));
    let (mut model, mut random) = (Model::new(), Random(5));
    for len in (0..2100).chain((0..2100).rev()) {
        let mut key = vec![b'k'; 1 + (len * 7) % 560];
        key[0] = len as u8;
        let value = random.bytes(len..len + 1, 1);
        txn.put(table, &key, &value).unwrap();
        model.insert(key, value);
    }
    txn.commit().unwrap();
    let (txn, table) = begin_read(&store);
    for (key, value) in &model {
        let found = txn.get(table, key).unwrap().unwrap();
        assert!(found == value[..]);
        assert_aligned(found, 2, "a value");
    }
    assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn an_empty_value_of_the_empty_key_is_an_entry_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let (mut model, mut random) = (Model::new(), Random(9));
    for _ in 0..300 {
        let (mut txn, table) = begin_with(&store, &TableOptions::new().prefix_compression(false));
        for _ in 0..4 {
            // Few keys, the empty one among them, and values that are often empty.
            let (key, value) = (
                {
                    let unit = 1 + random.below(2);
                    random.bytes(0..2, unit)
                },
                random.bytes(0..3, 20),
            );
            let value = if random.below(2) == 0 { Vec::new() } else { value };
            if random.below(3) == 0 {
                assert_eq!(txn.delete(table, &key).unwrap(), model.remove(&key).is_some());
            } else {
                txn.put(table, &key, &value).unwrap();
                model.insert(key, value);
            }
        }
        assert_same(&txn, table, &model, 1);
        txn.commit().unwrap();
        assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn values_of_a_key_stand_at_such_addresses_too() {
    for (unit, lengths) in [(2, 0..30), (2, 3..4), (8, 1..2), (8, 0..5)] {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path().join("store")).unwrap();
        let options = TableOptions::new().duplicates().prefix_compression(false);
        let mut random = Random(lengths.end as u64);
        let mut model = BTreeMap::<Vec<u8>, std::collections::BTreeSet<Vec<u8>>>::new();
        for _ in 0..10 {
            let (mut txn, table) = begin_with(&store, &options);
            for _ in 0..500 {
                let key = (random.below(20) as u64).to_be_bytes().to_vec();
                let value = random.bytes(lengths.clone(), unit);
                if random.below(4) == 0 {
                    let removed = txn.delete_pair(table, &key, &value).unwrap();
                    let values = model.entry(key).or_default();
                    assert_eq!(removed, values.remove(&value));
                } else {
                    txn.put(table, &key, &value).unwrap();
                    model.entry(key).or_default().insert(value);
                }
            }
            txn.commit().unwrap();
            let (txn, table) = begin_read(&store);
            let mut cursor = txn.cursor(table).unwrap();
            for (key, value) in model.iter().flat_map(|(k, all)| all.iter().map(move |v| (k, v))) {
                let entry = cursor.next(&txn).unwrap().unwrap();
                assert!(entry.key == key[..] && entry.value == value[..]);
                assert_aligned(entry.value, unit, "one of several values");
            }
            assert!(cursor.next(&txn).unwrap().is_none());
        }
        assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn tables_as_they_were_made_before_are_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let dense = TableOptions::new().prefix_compression(false).aligned(false);
    let whole = TableOptions::new().prefix_compression(false);
    for (round, options) in [dense, whole.clone(), whole].into_iter().enumerate() {
        let store = Store::builder().open_or_create(&path).unwrap();
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("dense", &options).unwrap();
        for n in 0..1000 {
            txn.put(table, format!("{round} {n}").as_bytes(), b"value").unwrap();
        }
        txn.commit().unwrap();
        let report = store.check(&mut |_, _| {}).unwrap();
        assert_eq!((report.problems, report.entries), (Vec::new(), 1000 * (round as u64 + 1)));
        let copy = folder.path().join(format!("copy {round}"));
        store.copy_to(&copy, CopyOptions { compact: true }, &mut |_, _| {}).unwrap();
        let report = Store::open(&copy).unwrap().check(&mut |_, _| {}).unwrap();
        assert_eq!((report.problems, report.entries), (Vec::new(), 1000 * (round as u64 + 1)));
    }
}
