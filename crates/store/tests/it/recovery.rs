//! Power cuts, failing flushes and full disks, on the simulated disk: what was promised is there,
//! what is there is whole.

use std::sync::Arc;

use hedgerow::Durability;
use hedgerow::Error;
use hedgerow::os::sim::{Config, CrashMode, Fault, Kept, Operation, SimSystem};
use hedgerow::tree::{Snapshot, Store, TableOptions};

use crate::{begin, begin_read, numbers, owned};

const PATH: &str = "/disk/store";

fn create(disk: &SimSystem) -> Store {
    Store::builder().system(Arc::new(disk.clone())).create(PATH).unwrap()
}

fn open(disk: &SimSystem) -> hedgerow::Result<Store> {
    Store::builder().system(Arc::new(disk.clone())).open(PATH)
}

/// Commit `number` puts its number below a few keys that all commits share, and one of its own.
fn commit(store: &Store, number: u32, durability: Durability) -> hedgerow::Result<()> {
    let mut txn = store.begin_write()?;
    txn.expect_durability(durability);
    let table = txn.create_table("t", &TableOptions::new())?;
    for n in numbers(u64::from(number)).take(8) {
        txn.put(table, &[b'a' + (n % 26) as u8; 30], &vec![number as u8; (n >> 52) as usize])?;
    }
    for key in [b"last one".as_slice(), &number.to_be_bytes()] {
        txn.put(table, key, &number.to_be_bytes())?;
    }
    txn.commit_with(durability)
}

/// The number of the last commit in a store; fails if anything of it or before it is missing.
fn last(store: &Store) -> u32 {
    assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
    let txn = store.begin_read().unwrap();
    let Ok(table) = txn.table("t") else { return 0 };
    let number = |key: &[u8]| {
        let value = txn.get(table, key).unwrap().unwrap().to_vec();
        u32::from_be_bytes(value.try_into().unwrap())
    };
    let last = number(b"last one");
    for i in 1..=last {
        assert_eq!(number(&i.to_be_bytes()), i);
    }
    assert!(txn.get(table, &(last + 1).to_be_bytes()).unwrap().is_none());
    last
}

/// A power cut after every write and flush leaves a prefix with every durable commit in it.
#[test]
fn a_power_cut_at_any_time() {
    for seed in 0..4 {
        let disk = SimSystem::new(seed, Config::default());
        disk.record(true);
        let store = create(&disk);
        disk.mark(0);
        let mut durable = 0;
        for (number, n) in (1..=20u32).zip(numbers(seed)) {
            let durability = match n % 3 {
                0 => Durability::Durable,
                1 => Durability::Eventual,
                _ => Durability::None,
            };
            disk.mark(u64::from(number) << 32 | u64::from(durable));
            commit(&store, number, durability).unwrap();
            if durability == Durability::Durable {
                durable = number;
            }
            disk.mark(u64::from(number) << 32 | u64::from(durable));
        }
        for (cut, n) in (0..=disk.recorded()).zip(numbers(seed + 100)) {
            let mode = CrashMode::ALL[(n % 5) as usize];
            let image = disk.image_at(cut, mode, n);
            let what = || format!("seed {seed}, cut {cut} {:?}, {mode:?} {n}", disk.describe(cut));
            match (open(&image), disk.last_mark(cut)) {
                (Ok(store), mark) => {
                    let mark = mark.unwrap_or(0);
                    let found = last(&store);
                    assert!(u64::from(found) <= mark >> 32, "{}: holds {found}", what());
                    assert!(found >= mark as u32, "{}: holds {found}", what());
                    commit(&store, found + 1, Durability::Durable).unwrap();
                }
                // Before the creation was acknowledged there may be no store.
                (Err(_), None) => {}
                (Err(error), Some(_)) => panic!("{}: {error}", what()),
            }
        }
    }
}

/// A store that is made without a flush costs none before its first commit, and a durable commit
/// costs one of the file and one of its name; another process' commit does, too.
#[test]
fn a_store_is_made_without_a_flush() {
    let flushes =
        |disk: &SimSystem| [Operation::Sync, Operation::SyncDirectory].map(|op| disk.calls(op));
    let lazily = |disk: &SimSystem| {
        let builder = Store::builder().durability(Durability::None);
        builder.system(Arc::new(disk.clone())).create(PATH).unwrap()
    };
    let disk = SimSystem::new(3, Config::default());
    drop(lazily(&disk));
    assert_eq!(flushes(&disk), [0, 0], "made and closed");
    for first in [Durability::Durable, Durability::None] {
        let disk = SimSystem::new(3, Config::default());
        let store = lazily(&disk);
        commit(&store, 1, first).unwrap();
        let expected = if first == Durability::Durable { [1, 1] } else { [0, 0] };
        assert_eq!(flushes(&disk), expected, "{first:?}");
        let other = open(&disk.process()).unwrap();
        commit(&other, 2, Durability::Durable).unwrap();
        drop(store);
        assert_eq!(last(&open(&disk.crash(1, CrashMode::ALL[0])).unwrap()), 2);
    }
    for by_another in [false, true] {
        let disk = SimSystem::new(3, Config::default());
        let store = lazily(&disk);
        let other = by_another.then(|| open(&disk.process()).unwrap());
        for _ in 0..2 {
            other.as_ref().unwrap_or(&store).sync().unwrap();
            assert_eq!(flushes(&disk), [1, 1], "flushed once");
        }
        assert_eq!(last(&open(&disk.crash(1, CrashMode::ALL[0])).unwrap()), 0);
    }
}

/// After a power cut there is such a store, or none and one can be made, or what is there is
/// refused; never once a durable commit or a flush has returned.
#[test]
fn a_store_made_without_a_flush_is_there_from_the_first_one_on() {
    let mut outcomes = [0; 4];
    for seed in 0..40 {
        let disk = SimSystem::new(seed, Config::default());
        disk.record(true);
        let builder = || Store::builder().durability(Durability::None);
        let store = builder().system(Arc::new(disk.clone())).create(PATH).unwrap();
        let durability = [Durability::None, Durability::Durable];
        for number in 1..=3 {
            disk.mark(u64::from(number) << 32);
            commit(&store, number, durability[(seed >> (number - 1) & 1) as usize]).unwrap();
        }
        store.sync().unwrap();
        disk.mark(3 << 32 | 3);
        for (cut, n) in (0..=disk.recorded()).zip(numbers(seed + 100)) {
            let image = disk.image_at(cut, CrashMode::ALL[(n % 5) as usize], n);
            let mark = disk.last_mark(cut).unwrap_or(0);
            let made = builder().system(Arc::new(image.clone())).open_or_create(PATH);
            let outcome = match (made, mark as u32) {
                (Ok(store), least) => {
                    let found = last(&store);
                    assert!(
                        found >= least && u64::from(found) <= mark >> 32,
                        "seed {seed}, cut {cut}"
                    );
                    commit(&store, found + 1, Durability::Durable).unwrap();
                    usize::from(found > 0)
                }
                (Err(Error::NotAStore { .. }), 0) => 2,
                (Err(Error::Corrupt { .. }), 0) => 3,
                (Err(error), _) => panic!("seed {seed}, cut {cut}: {error:?}"),
            };
            outcomes[outcome] += 1;
        }
    }
    assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
}

/// A value that was written in parts is in the file before its commit is: a power cut during that
/// commit must not leave the commit without the value.
#[test]
fn a_value_written_in_parts_is_there_with_its_commit() {
    use std::io::Write as _;
    let disk = SimSystem::new(9, Config::default());
    let store = create(&disk);
    commit(&store, 1, Durability::Durable).unwrap();
    disk.record(true);
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("parts", &TableOptions::new()).unwrap();
    let mut writer = txn.value_writer(table, b"k", 9000).unwrap();
    writer.write_all(&[5; 9000]).unwrap();
    writer.finish().unwrap();
    txn.commit_with(Durability::Durable).unwrap();
    let mut found = 0;
    for cut in 0..=disk.recorded() {
        for (seed, mode) in (0..40).flat_map(|seed| CrashMode::ALL.map(|mode| (seed, mode))) {
            let store = open(&disk.image_at(cut, mode, seed)).unwrap();
            assert_eq!(last(&store), 1);
            let txn = store.begin_read().unwrap();
            let Ok(table) = txn.table("parts") else { continue };
            found += 1;
            assert!(txn.get(table, b"k").unwrap().unwrap() == [5; 9000]);
        }
    }
    assert!(found > 0);
}

/// A dead process, unlike a dead machine, loses nothing that it committed.
#[test]
fn a_killed_process_loses_no_commit() {
    for durability in [Durability::Durable, Durability::Eventual, Durability::None] {
        let disk = SimSystem::new(7, Config::default());
        let store = create(&disk);
        for number in 1..=10 {
            commit(&store, number, durability).unwrap();
        }
        let survivor = disk.restart_process();
        assert_eq!(last(&open(&survivor).unwrap()), 10);
        drop(store);
    }
}

/// What a process wrote and did not flush before it died looks as if it were on the disk. The next
/// opener must flush it before anything is built on it, and also the store's name, which its dead
/// creator may not have flushed.
#[test]
fn what_a_dead_process_did_not_flush_is_flushed_before_it_is_built_on() {
    let disk = SimSystem::new(8, Config::default());
    disk.record(true);
    let store = create(&disk);
    for (number, durability) in
        (1..=6).zip([Durability::None, Durability::Durable].into_iter().cycle())
    {
        commit(&store, number, durability).unwrap();
    }
    for cut in 0..=disk.recorded() {
        for by_sync in [false, true] {
            let machine = disk.killed_at(cut);
            // Its maker died before there was a store.
            let Ok(store) = open(&machine) else { continue };
            let found = last(&store);
            if by_sync {
                store.sync().unwrap();
            } else {
                commit(&store, found + 1, Durability::Durable).unwrap();
            }
            let least = if by_sync { found } else { found + 1 };
            for mode in CrashMode::ALL {
                let image = machine.crash(cut as u64, mode);
                let found = last(&open(&image).unwrap());
                assert_eq!(found, least, "killed before {:?}, then {mode:?}", disk.describe(cut));
            }
        }
    }
}

/// The first flush after an opening fails, and the system forgets what it was to write: also what a
/// dead process had written and not flushed. It must be written again before that process is gone
/// too and the power fails.
#[test]
fn a_failed_first_flush_does_not_lose_what_a_dead_process_wrote() {
    let disk = SimSystem::new(8, Config::default());
    disk.record(true);
    let store = create(&disk);
    for number in 1..=4 {
        commit(&store, number, Durability::Durable).unwrap();
    }
    for cut in 0..=disk.recorded() {
        let machine = disk.killed_at(cut);
        let Ok(store) = open(&machine) else { continue };
        let found = last(&store);
        machine.fail(Operation::Sync, 1, 1, Fault::io(Kept::None));
        assert!(commit(&store, found + 1, Durability::Durable).is_err());
        let machine = machine.restart_process();
        drop(store);
        let store = open(&machine).unwrap();
        let found = last(&store);
        commit(&store, found + 1, Durability::Durable).unwrap();
        let image = machine.crash(cut as u64, CrashMode::ALL[cut % CrashMode::ALL.len()]);
        let kept = last(&open(&image).unwrap());
        assert_eq!(kept, found + 1, "killed before {:?}", disk.describe(cut));
    }
}

/// After a failed flush nothing is certain: the commit is refused, and so is all that would
/// follow, until the store is opened anew.
#[test]
fn a_failing_flush_fails_the_commit_and_stops_the_store() {
    for kept in [Kept::None, Kept::Some, Kept::All] {
        let disk = SimSystem::new(3, Config::default());
        let store = create(&disk);
        for number in 1..=5 {
            commit(&store, number, Durability::Durable).unwrap();
        }
        disk.fail(Operation::Sync, 1, 1, Fault::io(kept));
        assert!(commit(&store, 6, Durability::Durable).is_err());
        match commit(&store, 7, Durability::Durable) {
            Err(Error::Poisoned { reason }) => assert!(!reason.is_empty()),
            other => panic!("expected Poisoned, not {other:?}"),
        }
        let image = disk.crash(1, CrashMode::Torn512);
        drop(store);
        let found = last(&open(&image).unwrap());
        assert!((5..=6).contains(&found), "holds {found}");
    }
}

/// A full disk is an error of the write that does not fit, and of nothing else.
#[test]
fn a_full_disk_loses_nothing() {
    let disk = SimSystem::new(4, Config::default());
    let store = create(&disk);
    for number in 1..=5 {
        commit(&store, number, Durability::Durable).unwrap();
    }
    disk.set_capacity(Some(store.stat().unwrap().file_bytes + (1 << 20)));
    let fill = || -> hedgerow::Result<()> {
        let mut txn = store.begin_write()?;
        let table = txn.create_table("fill", &TableOptions::new())?;
        for n in numbers(2).take(50_000) {
            txn.put(table, &n.to_be_bytes(), &[1; 400])?;
        }
        txn.commit_with(Durability::Durable)
    };
    let error = fill().unwrap_err();
    assert!(matches!(error, Error::Io { .. } | Error::StoreFull { .. }), "{error:?}");
    assert_eq!(last(&store), 5);
    disk.set_capacity(None);
    commit(&store, 6, Durability::Durable).unwrap();
    let image = disk.crash(1, CrashMode::LoseAll);
    assert_eq!(last(&open(&image).unwrap()), 6);
}

/// Where files cannot be mapped they are read, and a failing read is an error of that call only.
#[test]
fn a_failing_read_is_an_error_of_one_call() {
    let disk = SimSystem::new(5, Config { map: false, ..Config::default() });
    let store = create(&disk);
    let (mut txn, table) = begin(&store);
    for n in numbers(3).take(5000) {
        txn.put(table, &n.to_be_bytes(), &[1; 200]).unwrap();
    }
    txn.commit().unwrap();
    drop(store);
    let store = open(&disk).unwrap();
    let (txn, table) = begin_read(&store);
    let middle = owned(txn.nth(table, 2500).unwrap().unwrap()).0;
    drop(txn);
    drop(store);

    let store = open(&disk).unwrap();
    let (txn, table) = begin_read(&store);
    disk.fail(Operation::Read, 1, 1, Fault::io(Kept::None));
    match txn.get(table, &middle) {
        Err(Error::Io { .. }) => {}
        other => panic!("expected an error of the read, not {other:?}"),
    }
    assert!(txn.get(table, &middle).unwrap().is_some());
}

/// The steps of a walk over a table of `entries`, each tried again after a read that fails.
fn steps_with_failing_reads(disk: &SimSystem, nth: u64, entries: usize, forward: bool) -> u64 {
    let store = open(disk).unwrap();
    let txn = store.begin_read().unwrap();
    let mut cursor = txn.cursor(txn.table("t").unwrap()).unwrap();
    let mut failed = 0;
    for n in 0..entries {
        disk.heal();
        disk.fail(Operation::Read, nth, 1, Fault::io(Kept::None));
        let step = if forward { cursor.next(&txn) } else { cursor.prev(&txn) };
        let step = step.map(|entry| entry.map(|entry| entry.key.to_vec()));
        disk.heal();
        let step = step.or_else(|_| {
            failed += 1;
            let again = if forward { cursor.next(&txn) } else { cursor.prev(&txn) };
            again.map(|entry| entry.map(|entry| entry.key.to_vec()))
        });
        let wanted = if forward { n } else { entries - 1 - n } as u32;
        assert_eq!(step.unwrap(), Some(wanted.to_be_bytes().to_vec()), "fault {nth}");
    }
    failed
}

/// A read that fails in a step leaves the cursor where it was.
#[test]
fn a_step_can_be_tried_again() {
    let disk = SimSystem::new(5, Config { map: false, ..Config::default() });
    let store = create(&disk);
    let (mut txn, table) = begin(&store);
    for n in 0..3000_u32 {
        txn.put(table, &n.to_be_bytes(), &[1; 700]).unwrap();
    }
    let stat = txn.table_stat(table).unwrap();
    assert!(stat.depth >= 3, "{stat:?}");
    txn.commit().unwrap();
    drop(store);
    for nth in 1..=3 {
        for forward in [true, false] {
            let failed = steps_with_failing_reads(&disk, nth, 3000, forward);
            assert!(failed > 0, "fault {nth} never happened");
        }
    }
}
