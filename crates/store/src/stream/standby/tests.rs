//! A second store is like the first one after each step, on either engine, however it is stopped.

use super::*;
use crate::lsm::{KeyspaceOptions, Options};
use crate::stream::Sink;
use crate::tree::{Duplicates, Order, TableOptions, mix};

type Content = Vec<(Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>)>;

const NOW: Option<Duration> = Some(Duration::ZERO);

fn of_tree(store: &Store) -> Content {
    let txn = store.begin_read().unwrap();
    let tables = txn.tables().unwrap().into_iter().filter(|t| t.name != MARK_TABLE);
    let pairs = |name: &[u8]| {
        let entries = txn.range(txn.table(name).unwrap(), ..).unwrap();
        entries.map(|e| e.map(|e| (e.key.to_vec(), e.value.to_vec())).unwrap()).collect()
    };
    tables.map(|t| (t.name.clone(), pairs(&t.name))).collect()
}

fn of_lsm(db: &Db) -> Content {
    let names = db.keyspaces().unwrap().into_iter().filter(|name| name != MARK_TABLE);
    let pairs = |name: &[u8]| {
        let keyspace = db.find_keyspace(name).unwrap().unwrap();
        db.range(&keyspace, ..).unwrap().map(Result::unwrap).collect()
    };
    names.map(|name| (name.clone(), pairs(&name))).collect()
}

/// A table by number: each of another kind, some of which change their kind.
fn options(number: u64, r: u64, plain: bool) -> TableOptions {
    let options = TableOptions::new().user_flags(number as u32);
    match number {
        _ if plain => options,
        1 => options.duplicates(),
        2 if r.is_multiple_of(2) => options.duplicates(),
        3 => options.order(Order::Reverse).prefix_compression(false),
        _ => options,
    }
}

fn write(store: &Store, r: u64, plain: bool) {
    let mut txn = store.begin_write().unwrap();
    let number = r % 4;
    let name = format!("table {number}");
    if (r >> 8).is_multiple_of(12) && txn.table(&name).is_ok() {
        txn.drop_table(&name).unwrap();
    }
    let table = match txn.table(&name) {
        Ok(table) => table,
        Err(_) => txn.create_table(&name, &options(number, r >> 9, plain)).unwrap(),
    };
    for n in 0..(r >> 16) % 12 {
        let r = mix(r.wrapping_add(n));
        let (key, value) = (format!("{:03}", r % 200), format!("{}", (r >> 20) % 50));
        match (r >> 32) % 3 {
            0 => drop(txn.delete(table, key.as_bytes()).unwrap()),
            _ => txn.put(table, key.as_bytes(), value.as_bytes()).unwrap(),
        }
    }
    txn.commit_with(Durability::None).unwrap();
}

#[test]
fn a_tree_keeps_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("second");
    let first = Store::create(folder.path().join("first")).unwrap();
    let mut second = Store::create(&path).unwrap();
    let mut standby = Standby::new(&first, "s", &second).unwrap();
    for round in 0..600_u64 {
        let r = mix(round);
        (0..r % 4).for_each(|n| write(&first, mix(r + n), false));
        match standby.step(NOW).unwrap() {
            Some(commit) => {
                assert!(commit <= first.newest_commit());
                assert!(of_tree(&second) == of_tree(&first), "round {round}");
            }
            None => assert!(of_tree(&second) == of_tree(&first), "round {round}, no step"),
        }
        if (r >> 20).is_multiple_of(10) {
            if (r >> 30).is_multiple_of(2) {
                standby.done().unwrap();
            }
            drop((standby, second));
            second = Store::open(&path).unwrap();
            standby = Standby::new(&first, "s", &second).unwrap();
        }
    }
    assert_eq!(second.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_log_structured_store_keeps_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("second");
    let first = Store::create(folder.path().join("first")).unwrap();
    let open = || Options::new().create(true).open(&path).unwrap();
    (0..50).for_each(|r| write(&first, mix(r), true));
    let mut second = open();
    // A first copy that was given up leaves a part, which is no standby yet.
    let marks = second.keyspace(MARK_TABLE, Default::default()).unwrap();
    second.put(&marks, MARK_KEY, b"").unwrap();
    let part = second.keyspace("left", Default::default()).unwrap();
    second.put(&part, b"k", b"v").unwrap();
    let mut standby = Standby::new(&first, "s", &second).unwrap();
    for round in 0..200_u64 {
        let r = mix(round);
        (0..r % 4).for_each(|n| write(&first, mix(r + n), true));
        standby.step(NOW).unwrap();
        assert!(of_lsm(&second) == of_tree(&first), "round {round}");
        if (r >> 20).is_multiple_of(20) {
            drop((standby, second));
            second = open();
            standby = Standby::new(&first, "s", &second).unwrap().durability(Durability::Eventual);
        }
    }
    let mut txn = first.begin_write().unwrap();
    txn.create_table("pairs", &TableOptions::new().duplicates()).unwrap();
    txn.commit().unwrap();
    assert!(matches!(standby.step(NOW), Err(Error::WrongTable { .. })));
}

#[test]
fn only_a_standby_or_an_empty_store_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let create = |name: &str| Store::create(folder.path().join(name)).unwrap();
    let (first, second, other) = (create("first"), create("second"), create("other"));
    write(&second, 5 << 16, true);
    assert!(matches!(Standby::new(&first, "s", &second), Err(Error::Argument { .. })));
    Standby::new(&first, "s", &other).unwrap().step(None).unwrap();
    assert!(matches!(Standby::new(&second, "s", &other), Err(Error::Argument { .. })));
    Follow::forget(&first, "s").unwrap();
    assert!(matches!(Standby::new(&first, "s", &other), Err(Error::TooOld { .. })));
    // What is a standby itself has no standby.
    let third = create("third");
    let refused = Standby::new(&other, "s", &third).unwrap().step(None);
    assert!(matches!(refused, Err(Error::Argument { .. })));
    assert_eq!(of_tree(&third), []);
}

/// A batch of an lsm store, which may drop keyspaces and make them anew.
fn write_lsm(db: &Db, r: u64) {
    let name = format!("table {}", r % 4);
    if (r >> 8).is_multiple_of(12) {
        db.drop_keyspace(&name).unwrap();
    }
    let keyspace = db.keyspace(&name, Default::default()).unwrap();
    let mut batch = Batch::new();
    for n in 0..(r >> 16) % 12 {
        let r = mix(r.wrapping_add(n));
        let (key, value) = (format!("{:03}", r % 200), format!("{}", (r >> 20) % 50));
        match (r >> 32) % 3 {
            0 => batch.delete(&keyspace, key.as_bytes()).unwrap(),
            _ => batch.put(&keyspace, key.as_bytes(), value.as_bytes()).unwrap(),
        }
    }
    db.write_with(batch, Durability::None).unwrap();
}

#[test]
fn a_log_structured_store_is_kept_up_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("first");
    let open = || Options::new().create(true).memtable_bytes(1 << 14).open(&path).unwrap();
    let mut first = open();
    let tree = Store::create(folder.path().join("tree")).unwrap();
    let lsm = Options::new().create(true).open(folder.path().join("lsm")).unwrap();
    let to_tree = |first: &Db| Standby::new(first, "t", &tree).unwrap();
    let to_lsm = |first: &Db| Standby::new(first, "l", &lsm).unwrap();
    let mut standbys = (to_tree(&first), to_lsm(&first));
    for round in 0..300_u64 {
        let r = mix(round);
        (0..r % 4).for_each(|n| write_lsm(&first, mix(r + n)));
        standbys.0.step(NOW).unwrap();
        standbys.1.step(NOW).unwrap();
        let now = of_lsm(&first);
        assert!(of_tree(&tree) == now && of_lsm(&lsm) == now, "round {round}");
        if (r >> 20).is_multiple_of(20) {
            if (r >> 30).is_multiple_of(2) {
                standbys.0.done().unwrap();
            }
            drop((standbys, first));
            first = open();
            standbys = (to_tree(&first), to_lsm(&first));
        }
    }
    assert!(lsm.check().unwrap().is_sound() && first.check().unwrap().is_sound());
}

/// Hunts for a first store that forgets what the second one has not got.
#[test]
fn a_step_that_failed_is_not_dealt_with() {
    let folder = tempfile::tempdir().unwrap();
    let create = |name: &str| Store::create(folder.path().join(name)).unwrap();
    let (first, second) = (create("first"), create("second"));
    let mut standby = Standby::new(&first, "s", &second).unwrap();
    standby.step(NOW).unwrap();
    for round in 0..40 {
        write(&first, mix(round), false);
    }
    second.interrupt().set(true);
    assert!(matches!(standby.step(NOW), Err(Error::Interrupted)));
    second.interrupt().set(false);
    standby.done().unwrap();
    let mut standby = Standby::new(&first, "s", &second).unwrap();
    while standby.step(NOW).unwrap().is_some() {}
    assert!(of_tree(&second) == of_tree(&first));
}

#[test]
fn a_flag_ends_a_step_and_a_new_standby_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let mut sink = crate::stream::Sink::new(&store, "table").unwrap();
    (0..1000u32).for_each(|n| assert!(sink.put(&n.to_be_bytes(), b"value").unwrap()));
    sink.finish().unwrap();
    let second = Store::create(folder.path().join("second")).unwrap();
    let third = Options::new().create(true).open(folder.path().join("third")).unwrap();
    let flag = Interrupt::default();
    flag.set(true);

    let mut standby = Standby::new(&store, "second", &second).unwrap().interrupt(flag.clone());
    assert!(matches!(standby.step(NOW), Err(Error::Interrupted)));
    assert!(of_tree(&second).is_empty());
    let mut standby = Standby::new(&store, "third", &third).unwrap().interrupt(flag.clone());
    assert!(matches!(standby.step(NOW), Err(Error::Interrupted)));

    flag.set(false);
    let mut standby = Standby::new(&store, "second", &second).unwrap().interrupt(flag.clone());
    while standby.step(NOW).unwrap().is_some() {}
    let mut standby = Standby::new(&store, "third", &third).unwrap().interrupt(flag);
    while standby.step(NOW).unwrap().is_some() {}
    assert_eq!((of_tree(&second), of_lsm(&third)), (of_tree(&store), of_tree(&store)));
}

/// Hunts for a second store that has only what changed since another one was made.
#[test]
fn a_new_store_under_a_name_in_use_begins_with_everything() {
    let folder = tempfile::tempdir().unwrap();
    let first = Store::create(folder.path().join("first")).unwrap();
    let more = |r: u64| (r..r + 5).for_each(|r| write(&first, mix(r), true));
    for (round, is_done) in [(0, false), (1, true), (2, false)] {
        let create = |name: &str| Store::create(folder.path().join(format!("{name}{round}")));
        let (second, third) = (create("second").unwrap(), create("third").unwrap());
        let path = folder.path().join(format!("fourth{round}"));
        let fourth = Options::new().create(true).open(&path).unwrap();
        for n in 0..2 {
            more(round * 20 + n * 5);
            let mut standby = Standby::new(&first, "s", &second).unwrap();
            standby.step(NOW).unwrap().unwrap();
            if is_done {
                standby.done().unwrap();
            }
        }
        more(round * 20 + 10);
        let mut standby = Standby::new(&first, "s", &third).unwrap();
        while standby.step(NOW).unwrap().is_some() {}
        assert!(of_tree(&third) == of_tree(&first), "round {round}");
        let mut standby = Standby::new(&first, "s", &fourth).unwrap();
        while standby.step(NOW).unwrap().is_some() {}
        assert!(of_lsm(&fourth) == of_tree(&first), "round {round}");
        // The name is that of the new one now.
        assert!(matches!(Standby::new(&first, "s", &second), Err(Error::TooOld { .. })));
        Follow::forget(&first, "s").unwrap();
    }
}

/// Hunts for pairs that a table which was made anew has in common with the one before it.
#[test]
fn a_table_that_was_made_anew_in_another_form_has_all_its_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let create = |name: &str| Store::create(folder.path().join(name)).unwrap();
    let (first, second) = (create("first"), create("second"));
    let mut standby = Standby::new(&first, "s", &second).unwrap();
    let fixed = Duplicates::Fixed { size: None, order: Order::Bytewise };
    let forms = [
        TableOptions::new(),
        TableOptions::new().user_flags(7),
        TableOptions::new().user_flags(7).prefix_compression(false),
        TableOptions::new().duplicates(),
        TableOptions::new().duplicates_in(fixed),
    ];
    for (round, form) in (0..).zip(&forms) {
        let mut txn = first.begin_write().unwrap();
        txn.drop_table("t").unwrap();
        let table = txn.create_table("t", form).unwrap();
        for key in 0..300_u32 {
            txn.put(table, &key.to_be_bytes(), b"same").unwrap();
        }
        txn.put(table, b"round", &[round; 4]).unwrap();
        txn.commit().unwrap();
        standby.step(NOW).unwrap().unwrap();
        assert!(of_tree(&second) == of_tree(&first), "round {round}");
        let options = |store: &Store| {
            let txn = store.begin_read().unwrap();
            let options = txn.table_options(txn.table("t").unwrap()).unwrap();
            format!("{options:?}")
        };
        assert_eq!(options(&second), options(&first));
    }
}

/// Hunts for a size of duplicates that outlives the table which had it.
#[test]
fn a_table_that_was_made_anew_takes_duplicates_of_another_size() {
    let folder = tempfile::tempdir().unwrap();
    let create = |name: &str| Store::create(folder.path().join(name)).unwrap();
    let (first, second) = (create("first"), create("second"));
    let mut standby = Standby::new(&first, "s", &second).unwrap();
    let fixed = Duplicates::Fixed { size: None, order: Order::Bytewise };
    let fixed = TableOptions::new().duplicates_in(fixed);
    for values in [&[&b"four"[..]][..], &[], &[b"eightbit", b"eightbyt"]] {
        let mut txn = first.begin_write().unwrap();
        txn.drop_table("t").unwrap();
        txn.create_table("t", &fixed).unwrap();
        txn.commit().unwrap();
        standby.step(NOW).unwrap();
        let mut txn = first.begin_write().unwrap();
        let table = txn.table("t").unwrap();
        values.iter().for_each(|value| txn.put(table, b"key", value).unwrap());
        txn.commit().unwrap();
        standby.step(NOW).unwrap();
        assert!(of_tree(&second) == of_tree(&first));
    }
}

/// Hunts for a keyspace of the second store that stays as it was before it was made anew.
#[test]
fn a_keyspace_that_was_made_anew_has_the_new_flags() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| Options::new().create(true).open(folder.path().join(name)).unwrap();
    let (first, second) = (open("first"), open("second"));
    let mut standby = Standby::new(&first, "s", &second).unwrap();
    for flags in [1, 2, 0] {
        first.drop_keyspace("t").unwrap();
        let options = KeyspaceOptions { user_flags: flags, ..KeyspaceOptions::default() };
        let keyspace = first.keyspace("t", options).unwrap();
        first.put(&keyspace, b"same", b"value").unwrap();
        standby.step(NOW).unwrap().unwrap();
        assert!(of_lsm(&second) == of_lsm(&first) && !of_lsm(&first)[0].1.is_empty());
        assert_eq!(second.find_keyspace("t").unwrap().unwrap().user_flags(), flags);
    }
    // A step that fails leaves a second store that begins anew.
    first.drop_keyspace("t").unwrap();
    let options = KeyspaceOptions { user_flags: 7, ..KeyspaceOptions::default() };
    let keyspace = first.keyspace("t", options).unwrap();
    first.put(&keyspace, b"same", b"value").unwrap();
    let flag = Interrupt::default();
    flag.set(true);
    let mut standby = standby.interrupt(flag.clone());
    assert!(matches!(standby.step(NOW), Err(Error::Interrupted)));
    flag.set(false);
    let mut standby = Standby::new(&first, "s", &second).unwrap();
    while standby.step(NOW).unwrap().is_some() {}
    assert!(of_lsm(&second) == of_lsm(&first));
}

/// Hunts for a step that does not fit in a batch, and for a store that stays at half of one.
#[test]
fn a_large_step_is_made_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let first = Store::create(folder.path().join("first")).unwrap();
    let second = Options::new().create(true).open(folder.path().join("second")).unwrap();
    let fill = |byte: u8| {
        let mut sink = Sink::new(&first, "t").unwrap();
        for key in 0..3 * BATCH_BYTES as u32 / 1000 {
            assert!(sink.put(&key.to_be_bytes(), &[byte; 1000]).unwrap());
        }
        sink.finish().unwrap();
    };
    fill(1);
    let standby = || Standby::new(&first, "s", &second).unwrap();
    let mut latest = standby();
    while latest.step(NOW).unwrap().is_some() {}
    fill(2);
    assert!(latest.step(NOW).unwrap().is_some());
    assert!(of_lsm(&second) == of_tree(&first));
    // It fails at the second table, when parts of the first one are there.
    fill(3);
    let mut txn = first.begin_write().unwrap();
    txn.create_table("u", &TableOptions::new().duplicates()).unwrap();
    txn.commit().unwrap();
    assert!(matches!(latest.step(NOW), Err(Error::WrongTable { .. })));
    let keyspace = second.find_keyspace("t").unwrap().unwrap();
    assert_eq!(second.get(&keyspace, &[0; 4]).unwrap().unwrap()[..], [3; 1000]);
    assert!(sealed::Sealed::mark(&second).unwrap().is_none());
    let mut txn = first.begin_write().unwrap();
    txn.drop_table("u").unwrap();
    txn.commit().unwrap();
    let mut latest = standby();
    while latest.step(NOW).unwrap().is_some() {}
    assert!(of_lsm(&second) == of_tree(&first));
}
