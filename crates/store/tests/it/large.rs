//! Large things: values of many pages, in parts and at once, long keys, a bulk load, a file that
//! shrinks again.

use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;

use hedgerow::Durability;
use hedgerow::tree::{CopyOptions, Snapshot, Store, TableOptions, WriteTxn};

use crate::{Scratch, all, begin, begin_read, numbers};

fn content(len: usize, seed: u64) -> Vec<u8> {
    numbers(seed).flat_map(u64::to_le_bytes).take(len).collect()
}

#[test]
fn values_around_every_bound_of_a_page() {
    for page in [4096, 16_384, 65_536] {
        let scratch = Scratch::with(Store::builder().page_size(page));
        let page = page as usize;
        let (mut txn, table) = begin(&scratch.store);
        let mut lens: Vec<usize> = [1, 2, 3, 4, 8]
            .iter()
            .flat_map(|part| (page / part).saturating_sub(70)..page / part + 3)
            .step_by(3)
            .collect();
        lens.extend([2 * page - 1, 2 * page, 10 * page + 1, 1 << 20]);
        lens.sort_unstable();
        lens.dedup();
        for &len in &lens {
            txn.put(table, &(len as u32).to_be_bytes(), &content(len, len as u64)).unwrap();
        }
        txn.commit().unwrap();
        let (txn, table) = begin_read(&scratch.store);
        let read = all(&txn, table);
        assert_eq!(read.len(), lens.len());
        for (&len, (key, value)) in lens.iter().zip(read) {
            assert_eq!(key, (len as u32).to_be_bytes());
            assert!(value == content(len, len as u64), "value of {len} bytes, pages of {page}");
        }
        scratch.check();
    }
}

#[test]
fn long_values_do_not_wait_for_a_commit_that_is_not_durable() {
    let scratch = Scratch::with(Store::builder().durability(Durability::None));
    let file_len = || std::fs::metadata(scratch.store.path()).unwrap().len() as usize;
    let value = |key: u32, round: u64| {
        let len = 2_500 + key as usize * 977 % 30_000;
        content(len, u64::from(key) << 8 | round)
    };
    let bytes = |round| (0..100).map(|key| value(key, round).len()).sum::<usize>();
    let put = |txn: &mut WriteTxn, table, keys: Range<u32>, round| {
        for key in keys {
            txn.put(table, &key.to_be_bytes(), &value(key, round)).unwrap();
        }
    };
    let holds = |txn: &dyn Fn(u32) -> Vec<u8>, keys: Range<u32>, round| {
        keys.into_iter().all(|key| txn(key) == value(key, round))
    };

    let mut txn = scratch.store.begin_write().unwrap();
    txn.create_table("t", &TableOptions::new()).unwrap();
    txn.commit().unwrap();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    put(&mut txn, table, 0..100, 0);
    assert!(file_len() > bytes(0) / 2, "they are in the file before the commit");
    txn.commit().unwrap();

    // Pages that were let go of are written at once, also in what is taken back.
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    txn.clear_table(table).unwrap();
    put(&mut txn, table, 0..100, 1);
    txn.commit().unwrap();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    put(&mut txn, table, 0..50, 2);
    let savepoint = txn.savepoint().unwrap();
    put(&mut txn, table, 0..100, 3);
    let read = |key: u32| txn.get(table, &key.to_be_bytes()).unwrap().unwrap().to_vec();
    assert!(holds(&read, 0..100, 3));
    txn.rollback_to(savepoint).unwrap();
    put(&mut txn, table, 40..60, 4);
    txn.reserve(table, b"reserved", 9000).unwrap().fill(7);
    put(&mut txn, table, 60..70, 4);
    let read = |key: u32| txn.get(table, &key.to_be_bytes()).unwrap().unwrap().to_vec();
    assert!(holds(&read, 0..40, 2) && holds(&read, 40..70, 4) && holds(&read, 70..100, 1));
    // It may become durable all the same.
    txn.commit_with(Durability::Durable).unwrap();
    let mut lost = scratch.store.begin_write().unwrap();
    let table = lost.table("t").unwrap();
    put(&mut lost, table, 0..100, 5);
    drop(lost);

    scratch.check();
    let (txn, table) = begin_read(&scratch.store);
    let read = |key: u32| txn.get(table, &key.to_be_bytes()).unwrap().unwrap().to_vec();
    assert!(holds(&read, 0..40, 2) && holds(&read, 40..70, 4) && holds(&read, 70..100, 1));
    assert_eq!(txn.get(table, b"reserved").unwrap().unwrap().to_vec(), [7; 9000]);
}

#[test]
fn a_value_written_and_read_in_parts() {
    let scratch = Scratch::new();
    let whole = content(5_000_003, 1);
    let (mut txn, table) = begin(&scratch.store);
    let mut writer = txn.value_writer(table, b"large", whole.len() as u64).unwrap();
    for part in whole.chunks(70_001) {
        writer.write_all(part).unwrap();
    }
    writer.finish().unwrap();
    txn.commit().unwrap();

    let (txn, table) = begin_read(&scratch.store);
    assert!(txn.value_reader(table, b"absent").unwrap().is_none());
    let mut reader = txn.value_reader(table, b"large").unwrap().unwrap();
    assert_eq!(reader.len(), whole.len() as u64);
    let mut part = [0; 1000];
    for at in [4_999_000, 0, 4096, 1_234_567] {
        reader.seek(SeekFrom::Start(at as u64)).unwrap();
        reader.read_exact(&mut part).unwrap();
        assert_eq!(part, whole[at..at + 1000]);
    }
    reader.seek(SeekFrom::Start(0)).unwrap();
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    assert!(all == whole);
    scratch.check();
}

#[test]
fn an_unfinished_value_is_not_there() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    let mut writer = txn.value_writer(table, b"large", 100_000).unwrap();
    writer.write_all(&[1; 50_000]).unwrap();
    assert!(writer.finish().is_err());
    let mut writer = txn.value_writer(table, b"large", 10).unwrap();
    assert!(writer.write_all(&[1; 11]).is_err());
    drop(writer);
    assert!(txn.get(table, b"large").unwrap().is_none());
    txn.put(table, b"small", b"1").unwrap();
    txn.commit().unwrap();
    scratch.check();
}

#[test]
fn long_keys_that_share_long_prefixes() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    let prefix = content(60_000, 2);
    let mut keys: Vec<Vec<u8>> = numbers(3)
        .take(300)
        .map(|n| {
            let mut key = prefix[..(n % 60_000) as usize].to_vec();
            key.extend(n.to_be_bytes());
            key
        })
        .collect();
    for key in &keys {
        txn.put(table, key, &key[key.len() - 8..]).unwrap();
    }
    txn.commit().unwrap();
    keys.sort();
    let (txn, table) = begin_read(&scratch.store);
    let found: Vec<Vec<u8>> = all(&txn, table).into_iter().map(|e| e.0).collect();
    assert!(found == keys);
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(txn.rank(table, key).unwrap().keys, i as u64);
    }
    drop(txn);
    scratch.check();
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    for key in &keys {
        assert!(txn.delete(table, key).unwrap());
    }
    txn.commit().unwrap();
    scratch.check();
}

/// Sorted input is noticed: its pages are filled, not halved.
#[test]
fn sorted_input_fills_pages() {
    let pages = |sorted: bool| {
        let scratch = Scratch::new();
        let (mut txn, table) = begin(&scratch.store);
        for n in numbers(7).take(30_000).zip(0u64..) {
            let key = if sorted { n.1 } else { n.0 };
            txn.put(table, &key.to_be_bytes(), &[1; 50]).unwrap();
        }
        txn.commit().unwrap();
        let txn = scratch.store.begin_read().unwrap();
        txn.table_stat(txn.table("t").unwrap()).unwrap().leaf_pages
    };
    let full = 30_000 * 58 / 4096;
    assert!(pages(true) < full * 13 / 10, "{} pages, {full} would be full", pages(true));
    assert!(pages(true) < pages(false));
}

#[test]
fn deleting_compacting_and_copying_give_space_back() {
    let scratch = Scratch::new();
    let (mut txn, table) = begin(&scratch.store);
    for n in numbers(8).take(40_000) {
        txn.put(table, &n.to_be_bytes(), &[3; 200]).unwrap();
    }
    txn.commit().unwrap();
    let before = scratch.store.stat().unwrap().file_bytes;
    let mut txn = scratch.store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    let keys: Vec<Vec<u8>> = all(&txn, table).into_iter().map(|e| e.0).collect();
    for key in keys.iter().filter(|k| k[7] % 16 != 0) {
        txn.delete(table, key).unwrap();
    }
    txn.commit().unwrap();
    let entries = {
        let txn = scratch.store.begin_read().unwrap();
        all(&txn, txn.table("t").unwrap())
    };

    let copy = scratch.beside("copy");
    scratch.store.copy_to(&copy, CopyOptions { compact: true }, &mut |_, _| {}).unwrap();
    let copied = std::fs::metadata(&copy).unwrap().len();
    assert!(copied < before / 4, "the copy has {copied} of {before} bytes");
    let copy = Store::open(&copy).unwrap();
    let txn = copy.begin_read().unwrap();
    assert!(all(&txn, txn.table("t").unwrap()) == entries);

    let report = scratch.store.compact(&mut |_, _| {}).unwrap();
    assert_eq!(report.after, std::fs::metadata(scratch.path()).unwrap().len());
    assert!(report.after < before / 2, "{} of {before} bytes are left", report.after);
    let txn = scratch.store.begin_read().unwrap();
    assert!(all(&txn, txn.table("t").unwrap()) == entries);
    scratch.check();
}

/// A store with a value of 768 whole pages, and where in the file it begins.
fn one_long_value(path: &std::path::Path) -> usize {
    let store = Store::create(path).unwrap();
    let (mut txn, table) = begin(&store);
    txn.put(table, b"long", &[b'#'; 3 << 20]).unwrap();
    txn.commit().unwrap();
    drop(store);
    let file = std::fs::read(path).unwrap();
    let is_its = |page: &[u8]| page.iter().all(|byte| *byte == b'#');
    file.chunks(4096).position(is_its).unwrap() * 4096
}

/// Reads the long value of a store with another byte in the file: at once, and in parts.
fn read_damaged(damaged: usize, verified_max: u64) -> (bool, bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let start = one_long_value(&path);
    let mut file = std::fs::read(&path).unwrap();
    file[start + damaged] ^= 1;
    std::fs::write(&path, file).unwrap();
    let store = Store::builder().verify_values_up_to(verified_max).open(&path).unwrap();
    let problems = store.check(&mut |_, _| {}).unwrap().problems;
    assert!(!problems.is_empty());
    let (txn, table) = begin_read(&store);
    let at_once = match txn.get(table, b"long") {
        Ok(value) => value.unwrap().len() == 3 << 20,
        Err(hedgerow::Error::Corrupt { .. }) => false,
        Err(other) => panic!("{other}"),
    };
    let mut parts = txn.value_reader(table, b"long").unwrap().unwrap();
    (at_once, parts.read_to_end(&mut Vec::new()).is_ok())
}

#[test]
fn a_value_that_is_handed_out_unread_is_verified_at_its_end_only() {
    const MIDDLE: usize = 300 * 4096 + 7;
    const LAST: usize = 768 * 4096 - 1;
    const CHECKSUMS: usize = 769 * 4096 - 1;
    for damaged in [MIDDLE, LAST, CHECKSUMS] {
        assert_eq!(read_damaged(damaged, u64::MAX), (false, false));
        assert_eq!(read_damaged(damaged, 3 << 20), (false, false));
    }
    // Reading it in parts finds the damage.
    assert_eq!(read_damaged(MIDDLE, (3 << 20) - 1), (true, false));
    assert_eq!(read_damaged(LAST, 0), (false, false));
    assert_eq!(read_damaged(CHECKSUMS, 0), (false, false));
}

/// Writes parts into values, under savepoints and not, and holds them against a model.
fn write_parts(scratch: Scratch, durability: Durability) {
    const LEN: usize = 200_000;
    let mut numbers = numbers(7);
    let mut below = |most: usize| (numbers.next().unwrap() % most as u64) as usize;
    let (mut txn, table) = begin(&scratch.store);
    let mut model = content(LEN, 1);
    txn.put(table, b"old", &content(LEN, 2)).unwrap();
    txn.put(table, b"short", b"value").unwrap();
    txn.commit_with(durability).unwrap();
    let (mut txn, table) = begin(&scratch.store);
    assert!(!txn.write_part(table, b"old", 5, b"x").unwrap(), "of an earlier transaction");
    assert!(!txn.write_part(table, b"short", 1, b"x").unwrap());
    assert!(!txn.write_part(table, b"none", 0, b"x").unwrap());
    txn.put(table, b"long", &model).unwrap();
    assert!(!txn.write_part(table, b"long", LEN - 1, b"xy").unwrap(), "beyond its end");
    let mut saved = Vec::new();
    let mut in_place = 0;
    for step in 0..400_u64 {
        let at = below(LEN);
        let part = content((1 + below(9000)).min(LEN - at), step);
        if txn.write_part(table, b"long", at, &part).unwrap() {
            in_place += 1;
            model[at..at + part.len()].copy_from_slice(&part);
        } else {
            assert!(!saved.is_empty());
            model[at..at + part.len()].copy_from_slice(&part);
            txn.put(table, b"long", &model).unwrap();
            assert!(txn.write_part(table, b"long", at, &part).unwrap(), "it is a new one");
        }
        match below(20) {
            0 => saved.push((txn.savepoint().unwrap(), model.clone())),
            1 => {
                if let Some((savepoint, _)) = saved.pop() {
                    txn.release(savepoint).unwrap();
                }
            }
            2 => {
                if let Some((savepoint, before)) = saved.last() {
                    txn.rollback_to(*savepoint).unwrap();
                    model.clone_from(before);
                }
            }
            3 => txn.put(table, &step.to_be_bytes(), &content(30_000, step)).unwrap(),
            _ => {}
        }
        let value = txn.get(table, b"long").unwrap().unwrap();
        assert!(value == model[..], "after step {step}");
    }
    assert!(in_place > 200, "{in_place}");
    txn.commit_with(durability).unwrap();
    scratch.check();
    let scratch = scratch.reopen(Store::builder());
    let (txn, table) = begin_read(&scratch.store);
    assert!(txn.get(table, b"long").unwrap().unwrap() == model[..]);
    assert!(txn.get(table, b"old").unwrap().unwrap() == content(LEN, 2)[..]);
}

#[test]
fn parts_are_written_into_values_of_the_transaction() {
    for durability in [Durability::Durable, Durability::Eventual, Durability::None] {
        let options = Store::builder().durability(durability);
        write_parts(Scratch::with(options.clone()), durability);
        write_parts(Scratch::with(options.clone().map(false)), durability);
        write_parts(Scratch::with(options.clone().writable_map(true)), durability);
        write_parts(Scratch::with(options.write_budget(100_000)), durability);
    }
}
