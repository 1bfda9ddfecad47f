//! Full disks, and stores of a maximum size.

use super::*;

#[test]
fn a_full_disk_is_an_error_and_nothing_is_lost() {
    let (system, store) = fresh();
    let (mut model, mut random) = (Model::new(), Random(9));
    commit(&store, Durability::Durable, &mut model, &mut random, (300, 500));
    let used: usize = system.files().iter().map(|file| system.content(file).unwrap().len()).sum();
    system.set_capacity(Some(used as u64 + 8192));
    let mut turn = begin(&store);
    change(&mut turn, &mut model.clone(), &mut random, 5000, 5000);
    assert!(matches!(turn.commit(Durability::Durable), Err(Error::Io { .. })));
    assert_eq!(newest_content(&store), model);
    system.set_capacity(None);
    commit(&store, Durability::Durable, &mut model, &mut random, (5000, 5000));
    assert_eq!(newest_content(&store), model);
    check_space(&store);
}

/// Also where commits are not flushed, and the durable one is much older, and by processes of which
/// each deletes one. Once there is room the file grows again.
#[test]
fn on_a_full_disk_entries_can_be_deleted_one_by_one() {
    for (durability, per_process) in [
        (Durability::None, u32::MAX),
        (Durability::None, 1),
        (Durability::Durable, u32::MAX),
        (Durability::Durable, 1),
    ] {
        let system = SimSystem::new(1, Config::default());
        let builder = builder(&system).durability(durability);
        let mut store = builder.create(PATH).unwrap();
        system.set_capacity(Some(2 << 20));
        let commits = (0..10_000).take_while(|n| put_twenty(&store, *n).is_ok()).count() as u32;
        assert!(commits > 100 && commits < 10_000, "{durability:?}: {commits}");
        for n in 0..20 * commits {
            if n % per_process == per_process - 1 {
                drop(store);
                store = builder.open(PATH).unwrap();
            }
            let deleted = write(&store, |txn, table| txn.delete(table, &scattered(n)).map(|_| ()));
            let of = 20 * commits;
            assert!(deleted.is_ok(), "{durability:?}, {per_process}: {n} of {of}: {deleted:?}");
        }
        assert!(put_twenty(&store, 0).is_ok(), "what was deleted has left room");
        system.set_capacity(None);
        (0..2 * commits).for_each(|n| put_twenty(&store, n).unwrap());
        assert!(store.inner.file_len().unwrap() > 2 << 20);
        assert!(begin(&store).state().pages.space.lowest_first.is_none());
        let report = store.check(&mut |_, _| {}).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
    }
}

fn write(
    store: &Store,
    work: impl FnOnce(&mut WriteTxn, Table) -> crate::Result<()>,
) -> crate::Result<()> {
    let mut txn = store.begin_write()?;
    let table = txn.create_table("t", &TableOptions::new())?;
    work(&mut txn, table).and_then(|()| txn.commit())
}

fn scattered(n: u32) -> [u8; 4] {
    n.wrapping_mul(0x9e37_79b9).to_be_bytes()
}

fn put_twenty(store: &Store, n: u32) -> crate::Result<()> {
    let mut keys = 20 * n..20 * (n + 1);
    write(store, |txn, table| keys.try_for_each(|n| txn.put(table, &scattered(n), &[7; 200])))
}

/// Also while transactions on a full disk take the lowest free pages.
#[test]
fn the_power_fails_at_any_point_on_a_full_disk() {
    let (system, store) = fresh();
    let (mut model, mut random) = (Model::new(), Random(9));
    commit(&store, Durability::Durable, &mut model, &mut random, (3000, 2000));
    (0..40).for_each(|_| commit(&store, Durability::None, &mut model, &mut random, (20, 2000)));
    let used: usize = system.files().iter().map(|file| system.content(file).unwrap().len()).sum();
    system.set_capacity(Some(used as u64 + 8192));
    let mut turn = begin(&store);
    change(&mut turn, &mut model.clone(), &mut random, 5000, 5000);
    assert!(matches!(turn.commit(Durability::None), Err(Error::Io { .. })));
    store.sync().unwrap();
    system.record(true);
    let mut states = vec![model.clone()];
    system.mark(0);
    for round in 0..60 {
        let (mut turn, mut next) = (begin(&store), model.clone());
        assert!(turn.state().pages.space.lowest_first.is_some());
        change(&mut turn, &mut next, &mut random, 1 + round % 5, 2000);
        let durability = if random.below(3) == 0 { Durability::Durable } else { Durability::None };
        if turn.commit(durability).is_ok() {
            states.push(next.clone());
            model = next;
            if durability == Durability::Durable {
                system.mark(states.len() as u64 - 1);
            }
        }
    }
    assert!(states.len() > 50, "{}", states.len());
    drop(store);
    system.mark(states.len() as u64 - 1);
    for cut in 0..=system.recorded() {
        let mode = CrashMode::ALL[cut % 5];
        let durable = system.last_mark(cut).unwrap_or(0) as usize;
        let store = opened(&system.image_at(cut, mode, cut as u64));
        let found = newest_content(&store);
        let at = states.iter().rposition(|state| *state == found);
        assert!(at >= Some(durable), "cut {cut} {mode:?}: {at:?}, durable {durable}");
        check_space(&store);
    }
}

/// Whether the disk has room for a part of the log, or for all of it and not for the commit.
#[test]
fn on_a_full_disk_no_log_is_made() {
    for room in [64, 256, 1000, 1024, 1040, 1100, 1280, 1500] {
        let system = SimSystem::new(1, Config::default());
        let store = builder(&system).log_size(0).create(PATH).unwrap();
        let (mut model, mut random) = (Model::new(), Random(9));
        commit(&store, Durability::Durable, &mut model, &mut random, (3000, 2000));
        (0..40).for_each(|_| commit(&store, Durability::None, &mut model, &mut random, (20, 2000)));
        drop(store);
        let store = builder(&system).log_size(1 << 20).open(PATH).unwrap();
        let used: usize = system.files().iter().map(|f| system.content(f).unwrap().len()).sum();
        system.set_capacity(Some(used as u64 + (room << 10)));
        for n in 0..30 {
            let (mut turn, mut next) = (begin(&store), model.clone());
            change(&mut turn, &mut next, &mut random, 5, 2000);
            let committed = turn.commit(Durability::Durable);
            assert!(committed.is_ok(), "{room} KiB, commit {n}: {committed:?}");
            model = next;
        }
        assert_eq!(newest_content(&store), model);
        check_space(&store);
        let has_log = store.inner.newest().unwrap().meta.log.is_some();
        assert_eq!(has_log, room == 1500, "{room} KiB");
    }
}

#[test]
fn the_maximum_size_is_kept() {
    let system = SimSystem::new(1, Config::default());
    let store = builder(&system).max_size(64 * 4096).create(PATH).unwrap();
    let mut turn = begin(&store);
    change(&mut turn, &mut Model::new(), &mut Random(1), 20_000, 20_000);
    assert!(matches!(turn.commit(Durability::Durable), Err(Error::StoreFull { .. })));
    assert!(store.inner.file_len().unwrap() <= 64 * 4096);
}

#[test]
fn a_full_store_can_be_emptied_one_by_one() {
    for pages in 11..48 {
        let system = SimSystem::new(1, Config::default());
        let store = builder(&system).max_size(pages * 4096).create(PATH).unwrap();
        let write = |work: &mut dyn FnMut(&mut WriteTxn, Table) -> crate::Result<()>| {
            let mut txn = store.begin_write().unwrap();
            txn.leave_pages(WriteTxn::LAST_PAGES);
            let table = txn.create_table("t", &TableOptions::new()).unwrap();
            work(&mut txn, table).and_then(|()| txn.commit())
        };
        let put =
            |n: &u32| write(&mut |txn, table| txn.put(table, &scattered(*n), &[7; 200])).is_ok();
        let count = (0..10_000).take_while(put).count() as u32;
        assert!(count > 0 && count < 10_000, "{pages} pages: {count}");
        for n in 0..count {
            let deleted = write(&mut |txn, table| txn.delete(table, &scattered(n)).map(|_| ()));
            assert!(deleted.is_ok(), "{pages} pages, {n} of {count}: {deleted:?}");
        }
        assert!(store.inner.file_len().unwrap() <= pages * 4096);
        check_space(&store);
    }
}

#[test]
fn a_store_that_was_emptied_is_cut() {
    let (_, store) = fresh();
    let (mut model, mut random) = (Model::new(), Random(9));
    let mut turn = begin(&store);
    for key in 0..16_000_u32 {
        let state = turn.state_mut();
        let (key, value) = (key.to_be_bytes(), [7; 900]);
        put_plain(&mut state.pages, &mut state.catalog, &key, &value).unwrap();
        model.insert(key.to_vec(), value.to_vec());
    }
    turn.commit(Durability::Durable).unwrap();
    let long = store.inner.file_len().unwrap();
    let mut turn = begin(&store);
    for key in model.keys() {
        let state = turn.state_mut();
        delete_plain(&mut state.pages, &mut state.catalog, key).unwrap();
    }
    turn.commit(Durability::Durable).unwrap();
    for _ in 0..10 {
        commit(&store, Durability::Durable, &mut Model::new(), &mut random, (1, 1));
        check_space(&store);
    }
    let short = store.inner.file_len().unwrap();
    assert!(short < long / 2, "{long} bytes, then {short}");
}
