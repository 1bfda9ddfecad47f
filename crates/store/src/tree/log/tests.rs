//! Where records go, and the log as a whole on a simulated disk.

use std::sync::Arc;

use super::ring::RING_UNIT;
use super::*;
use crate::Durability;
use crate::os::sim::{Config, CrashMode, SimSystem};
use crate::tree::{Snapshot, Store, TableOptions};

fn place(at: u64) -> LogPlace {
    LogPlace { at, ..LogPlace::of(Run { start: 10, len: 16 }) }
}

#[test]
fn a_record_stands_in_one_piece_before_what_must_stay() {
    let room = |at, len, first| place(at).room_for(len, first, 4096);
    assert_eq!(room(0, 100, 0), Some(0));
    assert_eq!(room(0, 65_536, 0), Some(0));
    assert_eq!(room(0, 65_537, 0), None);
    assert_eq!(room(61_440, 4096, 0), Some(61_440));
    // What does not fit in this round goes to the next one, if nothing stands there.
    assert_eq!(room(61_440, 4097, 0), None);
    assert_eq!(room(61_440, 4097, 8192), Some(65_536));
    assert_eq!(room(61_440, 8193, 8192), None);
    assert_eq!(room(65_536, 4096, 0), None);
    assert_eq!(room(65_536, 4096, 65_536), Some(65_536));
    assert_eq!(place(70_000 / 4096 * 4096).offset(69_632, 4096), 10 * 4096 + 4096);
}

#[test]
fn a_ring_for_which_there_is_no_room_is_put_off_and_the_old_one_used() {
    let mut hints = LogHints { gained: GAINED_MIN, ..LogHints::default() };
    assert!(hints.gains(GAINED_MIN));
    hints.note_ring(false);
    assert!(!hints.gains(GAINED_MIN) && hints.gained >= USED_MIN);
    hints.gained += REFUSED;
    assert!(hints.gains(GAINED_MIN));
    hints.note_ring(true);
    assert!(!hints.gains(1));
    hints.gained = GAINED_MIN;
    assert!(hints.gains(GAINED_MIN));
}

#[test]
fn a_ring_is_as_long_as_the_store_and_its_limit_allow() {
    const KIB: u64 = 1 << 10;
    let wanted = |store: u64, most: Option<u64>| {
        wanted_bytes(None, store * KIB, most.map(|most| most * KIB)) / KIB
    };
    let rings = [
        (32, 0),
        (63, 0),
        (64, 64),
        (1_024, 64),
        (4_095, 64),
        (4_096, 512),
        (16_384, 1_024),
        (1 << 21, 65_536),
    ];
    for (store, ring) in rings {
        assert_eq!(wanted(store, None), ring, "{store} KiB");
    }
    // Where the store may not become large, it has no ring before that is a small part of it.
    assert_eq!([1_024, 1_025].map(|most| wanted(500, Some(most))), [0, 64]);
    assert_eq!(wanted(5_000, Some(6_000)), 512);
    assert_eq!(wanted_bytes(Some(200 * KIB), 0, Some(KIB)), 192 * KIB);
}

#[test]
fn a_record_that_would_be_too_long_is_given_up() {
    let mut number = 1_u64;
    let mut next = || {
        number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (number >> 56) as u8
    };
    let pages: Vec<Vec<u8>> = (0..200).map(|_| (0..4096).map(|_| next()).collect()).collect();
    let entry = |no| Entry { no, source: None, new: &pages[no as usize] };
    let entries: Vec<Entry<'_>> = (0..200).map(entry).collect();
    let whole = 200 * 4096;
    let put = |most: u64| {
        let mut out = Vec::new();
        (put_entries(&mut out, &entries, |len| len <= most), out.len() as u64)
    };
    // Nothing of these pages stood anywhere before.
    let (is_whole, len) = put(2 * whole);
    assert!(is_whole && (whole..whole + whole / 100).contains(&len), "{len}");
    let (is_whole, len) = put(whole / 2);
    assert!(!is_whole && len < whole / 3, "{len}");
    // What nearly fits is seen later.
    let (is_whole, later) = put(whole * 9 / 10);
    assert!(!is_whole && later > len && later < whole, "{later}");
}

/// A store with a log, in which 2,000 keys stand.
fn filled(disk: &SimSystem, log: u64) -> Store {
    let builder = Store::builder().system(Arc::new(disk.clone())).log_size(log);
    let store = builder.open_or_create("/disk/store").unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new()).unwrap();
    for key in 0..2000_u32 {
        txn.put(table, &key.to_be_bytes(), &[0; 100]).unwrap();
    }
    txn.commit().unwrap();
    store
}

fn commit(store: &Store, number: u32, durability: Durability) {
    let mut txn = store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    for i in 0..10 {
        let key = (number * 977 + i * 199) % 2000;
        txn.put(table, &key.to_be_bytes(), &[number as u8; 100]).unwrap();
    }
    txn.put(table, b"last", &number.to_be_bytes()).unwrap();
    txn.commit_with(durability).unwrap();
}

/// The number of the last commit, all of whose entries must be there.
fn last(disk: &SimSystem, log: u64) -> u32 {
    let builder = Store::builder().system(Arc::new(disk.clone())).log_size(log);
    let store = builder.open("/disk/store").unwrap();
    assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
    let txn = store.begin_read().unwrap();
    let table = txn.table("t").unwrap();
    let last = txn
        .get(table, b"last")
        .unwrap()
        .map_or(0, |bytes| u32::from_be_bytes(bytes.to_vec().try_into().unwrap()));
    for i in 0..10 {
        let key = (last * 977 + i * 199) % 2000;
        let value = txn.get(table, &key.to_be_bytes()).unwrap().unwrap().to_vec();
        assert!(last == 0 || value == [last as u8; 100], "commit {last}, key {key}");
    }
    last
}

fn logged(store: &Store) -> bool {
    let newest = store.inner.newest().unwrap();
    newest.meta.txn > store.inner.durable_number() && newest.meta.log.is_some_and(|p| p.chained)
}

#[test]
fn durable_commits_in_the_log_survive_a_power_cut() {
    for (seed, mode) in (0..).zip(CrashMode::ALL.into_iter().cycle().take(15)) {
        let disk = SimSystem::new(seed, Config::default());
        let store = filled(&disk, 256 << 10);
        let mut in_log = 0;
        for number in 1..=60 {
            commit(&store, number, Durability::Durable);
            in_log += u32::from(logged(&store));
            if number % 7 == 0 {
                let after = disk.crash(seed * 100 + u64::from(number), mode);
                assert_eq!(last(&after, 256 << 10), number, "seed {seed}, {mode:?}");
            }
        }
        assert!(in_log > 40, "{in_log} commits went to the log");
        let after = disk.crash(seed, mode);
        drop(store);
        assert_eq!(last(&after, 256 << 10), 60);
        assert_eq!(last(&after, 0), 60, "opened once more");
        assert_eq!(last(&disk, 0), 60, "closed");
    }
}

/// In a short ring no checkpoint is made while commits follow each other: each that finds it full
/// flushes.
#[test]
fn a_small_store_has_a_short_ring() {
    for (seed, mode) in (0..).zip(CrashMode::ALL) {
        let disk = SimSystem::new(seed, Config::default());
        let builder = Store::builder().system(Arc::new(disk.clone()));
        let store = builder.create("/disk/store").unwrap();
        store.write(|txn| txn.create_table("t", &TableOptions::new()).map(drop)).unwrap();
        let put = |key: &[u8]| store.write(|txn| txn.put(txn.table("t")?, key, &[7; 500])).unwrap();
        put(b"key");
        let reopened = |disk: &SimSystem| {
            let store =
                Store::builder().system(Arc::new(disk.clone())).open("/disk/store").unwrap();
            assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
            let txn = store.begin_read().unwrap();
            txn.count(txn.table("t").unwrap()).unwrap().keys
        };
        let (mut in_log, mut flushed) = (0, 0);
        for number in 0..150_u32 {
            put(&number.to_be_bytes());
            let is_ring = store.inner.newest().unwrap().meta.log.is_some();
            in_log += u32::from(logged(&store));
            flushed += u32::from(is_ring && !logged(&store));
            if number % 11 == 0 {
                let after = disk.crash(seed * 1_000 + u64::from(number), mode);
                assert_eq!(reopened(&after), u64::from(number) + 2, "seed {seed}, {mode:?}");
            }
        }
        let ring = store.inner.newest().unwrap().meta.log.unwrap().ring_bytes(4096);
        assert_eq!(ring, RING_UNIT);
        assert!(in_log > 60 && (3..30).contains(&flushed), "{in_log}, {flushed}");
    }
}

/// A record would have the new long values in full, so that no ring is worth its room.
#[test]
fn commits_of_long_values_make_no_ring() {
    let disk = SimSystem::new(1, Config::default());
    let store = Store::builder().system(Arc::new(disk)).create("/disk/store").unwrap();
    store.write(|txn| txn.create_table("t", &TableOptions::new()).map(drop)).unwrap();
    let put = |len: usize| {
        let value = vec![7; len];
        store.write(|txn| txn.put(txn.table("t")?, b"key", &value)).unwrap();
    };
    let has_ring = || store.inner.newest().unwrap().meta.log.is_some();
    for _ in 0..10 * GAINED_MIN {
        put(40_000);
    }
    assert!(!has_ring());
    for _ in 0..2 * GAINED_MIN {
        put(400);
    }
    assert!(has_ring());
}

#[test]
fn commits_that_are_not_durable_may_stand_between() {
    let durabilities = [Durability::Durable, Durability::None, Durability::Durable];
    for (seed, mode) in (0..).zip(CrashMode::ALL) {
        let disk = SimSystem::new(seed, Config::default());
        let store = filled(&disk, 256 << 10);
        let mut durable = 0;
        for number in 1..=40 {
            let durability = durabilities[(number as usize / 5) % 3];
            commit(&store, number, durability);
            if durability == Durability::Durable {
                durable = number;
            }
            let after = disk.crash(u64::from(number), mode);
            let found = last(&after, 256 << 10);
            assert!((durable..=number).contains(&found), "{found}, {durable} to {number}");
        }
    }
}

#[test]
fn a_process_that_dies_leaves_its_log_to_the_next_one() {
    let disk = SimSystem::new(3, Config::default());
    let store = filled(&disk, 256 << 10);
    for number in 1..=20 {
        commit(&store, number, Durability::Durable);
    }
    let next = disk.restart_process();
    let store_again = {
        let builder = Store::builder().system(Arc::new(next.clone())).log_size(256 << 10);
        builder.open("/disk/store").unwrap()
    };
    for number in 21..=30 {
        commit(&store_again, number, Durability::Durable);
    }
    assert!(logged(&store_again));
    let after = next.crash(1, CrashMode::LoseAll);
    assert_eq!(last(&after, 0), 30);
    drop(store);
}

#[test]
fn a_damaged_record_in_the_middle_is_told() {
    let disk = SimSystem::new(4, Config::default());
    let store = filled(&disk, 1 << 20);
    for number in 1..=20 {
        commit(&store, number, Durability::Durable);
    }
    let newest = store.inner.newest().unwrap();
    let durable = durable_place(&store.inner).unwrap().unwrap();
    let place = newest.meta.log.unwrap();
    assert!(place.at > durable.at + 3 * RECORD_ALIGN);
    let after = disk.crash(1, CrashMode::LoseAll);
    let at = durable.offset(durable.at + 2 * RECORD_ALIGN, 4096) + 70;
    after.edit("/disk/store".as_ref(), at, &[0xa5; 9]).unwrap();
    let opened = Store::builder().system(Arc::new(after)).open("/disk/store");
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("in the middle of the log"), "{error}");
    drop(store);
}

#[test]
fn an_opening_tells_how_far_it_has_replayed() {
    let disk = SimSystem::new(6, Config::default());
    let store = filled(&disk, 1 << 20);
    (1..=30).for_each(|number| commit(&store, number, Durability::Durable));
    let after = disk.crash(1, CrashMode::LoseAll);
    let builder = Store::builder().system(Arc::new(after));
    let mut told = Vec::new();
    let mut progress = |done, most| told.push((done, most));
    let opened = builder.open_with_progress("/disk/store", &mut progress).unwrap();
    assert!(told.len() > 10, "{told:?}");
    assert!(told.is_sorted_by(|a, b| a.0 < b.0 && a.1 == b.1), "{told:?}");
    assert!(told.iter().all(|(done, most)| done <= most && *most == 1 << 20), "{told:?}");
    drop((opened, store));
}

#[test]
fn reading_only_says_what_to_do_before_it_is_replayed() {
    let disk = SimSystem::new(5, Config::default());
    let store = filled(&disk, 256 << 10);
    (1..=9).for_each(|number| commit(&store, number, Durability::Durable));
    let after = disk.crash(1, CrashMode::LoseAll);
    let builder = Store::builder().system(Arc::new(after.clone()));
    let error = builder.clone().read_only(true).open("/disk/store").unwrap_err().to_string();
    assert!(error.contains("open it for writing once"), "{error}");
    assert_eq!(last(&after, 0), 9);
    assert!(builder.read_only(true).open("/disk/store").is_ok());
    drop(store);
}
