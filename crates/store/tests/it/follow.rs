//! What a follower makes of the steps equals the store after each of them, however it is stopped
//! and whatever is written in between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hedgerow::key::prefix;
use hedgerow::os::sim::{Config, CrashMode, SimSystem};
use hedgerow::stream::{Follow, Mark, Step};
use hedgerow::tree::{Bytes, Change, ReadTxn, Snapshot, Store, TableChange, TableOptions};
use hedgerow::{Durability, Error};

type Pairs = BTreeSet<(Vec<u8>, Vec<u8>)>;
/// The pairs of each table.
type Content = BTreeMap<Vec<u8>, Pairs>;

/// After this many commits of other tables a follower of one gives an empty step.
const COMMITS_KEPT: u64 = 1000;

const TABLES: [(&str, bool); 3] = [("plain", false), ("pairs", true), ("other", false)];

fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

fn content(txn: &ReadTxn) -> Content {
    let scan = |name: &[u8]| {
        let entries = txn.range(txn.table(name).unwrap(), ..).unwrap();
        entries.map(|e| e.map(|e| (e.key.to_vec(), e.value.to_vec())).unwrap()).collect()
    };
    txn.tables().unwrap().into_iter().map(|t| (t.name.clone(), scan(&t.name))).collect()
}

/// A random transaction, which may change nothing.
fn write(store: &Store, r: u64) {
    let mut txn = store.begin_write().unwrap();
    let (name, duplicates) = TABLES[(r % 3) as usize];
    if (r >> 8).is_multiple_of(16) && txn.table(name).is_ok() {
        txn.drop_table(name).unwrap();
    }
    let options = TableOptions::new();
    let options = if duplicates { options.duplicates() } else { options };
    let table = txn.create_table(name, &options).unwrap();
    for n in 0..(r >> 16) % 12 {
        let r = mix(r.wrapping_add(n));
        let (key, value) = (format!("{:03}", r % 300), format!("{}", (r >> 20) % 50));
        if (r >> 32).is_multiple_of(3) {
            txn.delete(table, key.as_bytes()).unwrap();
        } else {
            txn.put(table, key.as_bytes(), value.as_bytes()).unwrap();
        }
    }
    let durability = [Durability::Durable, Durability::Eventual, Durability::None];
    txn.commit_with(durability[(r >> 24) as usize % 3]).unwrap();
}

/// Applies a step, which must fit exactly unless the consumer has seen it before.
fn apply(content: &mut Content, step: &Step, is_repeated: bool) {
    for change in step.tables().unwrap() {
        match &change {
            TableChange::Removed(name) => {
                assert!(content.remove(name).is_some() || is_repeated);
                continue;
            }
            TableChange::Added(name) => {
                assert!(content.insert(name.clone(), Pairs::new()).is_none() || is_repeated);
            }
            TableChange::Changed(_) => {}
        }
        let pairs = content.get_mut(change.name()).unwrap();
        for change in step.changes(change.name()).unwrap() {
            let pair = |key: Bytes<'_>, value: Bytes<'_>| (key.to_vec(), value.to_vec());
            match change.unwrap() {
                Change::Added { key, value } => {
                    assert!(pairs.insert(pair(key, value)) || is_repeated);
                }
                Change::Removed { key, value } => {
                    assert!(pairs.remove(&pair(key, value)) || is_repeated);
                }
                Change::Changed { key, old, new } => {
                    assert!(pairs.remove(&pair(key, old)) || is_repeated);
                    assert!(pairs.insert(pair(key, new)) || is_repeated);
                }
            }
        }
    }
}

const NOW: Option<Duration> = Some(Duration::ZERO);

#[test]
fn a_follower_has_what_the_store_has() {
    for seed in 0..8_u64 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let mut store = Store::builder().page_size(4096).create(&path).unwrap();
        let is_named = seed % 2 == 1;
        let begin = |store: &Store| match is_named {
            true => Follow::named(store, "f").unwrap(),
            false => Follow::from_start(store),
        };
        let (mut follow, mut copy, mut mark) = (begin(&store), Content::new(), None);
        let mut repeated = 0;
        for round in 0..400 {
            let r = mix(seed << 32 | round);
            (0..r % 4).for_each(|n| write(&store, mix(r + n)));
            let Some(step) = follow.step(NOW).unwrap() else { continue };
            let is_repeated = std::mem::take(&mut repeated) > 0;
            apply(&mut copy, &step, is_repeated);
            assert!(copy == content(step.after()), "seed {seed}, round {round}");
            mark = Some(step.mark());
            if is_named && (r >> 8).is_multiple_of(8) {
                if (r >> 12).is_multiple_of(2) {
                    follow.done().unwrap();
                } else {
                    repeated = 1;
                }
                drop((follow, step));
                if (r >> 16).is_multiple_of(2) {
                    drop(store);
                    store = Store::open(&path).unwrap();
                }
                follow = begin(&store);
                if (r >> 20).is_multiple_of(2) {
                    follow = follow.resume(&mark.unwrap()).unwrap();
                    repeated = 0;
                }
            }
        }
        assert!(mark.is_some());
        let report = store.check(&mut |_, _| {}).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        assert_eq!(Follow::forget(&store, "f").unwrap(), is_named);
        assert_eq!(store.pins().unwrap(), []);
    }
}

#[test]
fn a_part_is_followed_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let mut follow = Follow::named(&store, "part").unwrap().only("plain", prefix("1"));
    let (mut copy, mut steps, mut commits) = (Pairs::new(), 0, 0);
    for round in 0..1500 {
        write(&store, mix(round));
        commits += 1;
        let Some(step) = follow.step(NOW).unwrap() else { continue };
        steps += 1;
        let mut own = Content::from([(b"plain".to_vec(), std::mem::take(&mut copy))]);
        if step.after().table("plain").is_ok() {
            for change in step.changes("plain").unwrap() {
                assert!(change.unwrap().key().to_vec().starts_with(b"1"));
            }
            if step.from().is_some() && step.before().unwrap().table("plain").is_ok() {
                apply(&mut own, &step, false);
            }
        }
        let there = content(step.after()).remove(&b"plain"[..]).unwrap_or_default();
        let there = there.into_iter().filter(|(key, _)| key.starts_with(b"1")).collect::<Pairs>();
        copy = own.remove(&b"plain"[..]).unwrap_or_default();
        if step.from().is_none() {
            copy.clone_from(&there);
        }
        assert!(copy == there, "round {round}");
        assert!(matches!(step.changes("pairs"), Err(Error::Argument { .. })));
    }
    assert!(steps > 100 && steps < commits / 2, "{steps} steps of {commits} commits");
    // Pins that nothing needs any more move on by themselves.
    let pin = store.pins().unwrap()[0].commit;
    let write_other = |n: u64| {
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("else", &TableOptions::new()).unwrap();
        txn.put(table, b"n", &n.to_le_bytes()).unwrap();
        txn.commit_with(Durability::None).unwrap();
    };
    (0..COMMITS_KEPT + 10).for_each(write_other);
    assert_eq!(follow.step(NOW).unwrap().unwrap().changes("plain").unwrap().count(), 0);
    assert!(follow.step(NOW).unwrap().is_none());
    follow.done().unwrap();
    assert!(store.pins().unwrap()[0].commit > pin + COMMITS_KEPT);
}

#[test]
fn marks_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let other = Store::create(folder.path().join("other")).unwrap();
    let mut follow = Follow::named(&store, "f").unwrap();
    let first = follow.step(None).unwrap().unwrap().mark();
    assert_eq!(first.to_string().parse::<Mark>().unwrap(), first);
    write(&store, 3 | 5 << 16);
    let second = follow.step(None).unwrap().unwrap().mark();
    write(&store, 3 | 5 << 16 | 1 << 40);
    follow.step(None).unwrap().unwrap();
    drop(follow);
    let named = |store| Follow::named(store, "f").unwrap();
    assert!(named(&store).resume(&second).is_ok());
    let old = named(&store).resume(&first).unwrap_err();
    assert!(matches!(old, Error::TooOld { commit, oldest }
        if commit == first.commit() && oldest == second.commit()));
    assert!(matches!(named(&other).resume(&first), Err(Error::Argument { .. })));
    let mut bytes = first.to_bytes();
    assert_eq!(Mark::from_bytes(&bytes).unwrap(), first);
    for at in 0..bytes.len() {
        bytes[at] ^= 1;
        assert!(matches!(Mark::from_bytes(&bytes), Err(Error::Argument { .. })), "byte {at}");
        bytes[at] ^= 1;
    }
    assert!(matches!("12".parse::<Mark>(), Err(Error::Argument { .. })));
    assert!(matches!("1".parse::<Mark>(), Err(Error::Argument { .. })));
}

#[test]
fn a_writer_wakes_a_follower() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::create(&path).unwrap();
    let followed = Store::open(&path).unwrap();
    std::thread::scope(|scope| {
        let follower = scope.spawn(move || {
            let mut follow = Follow::from_start(&followed).durable();
            let mut copy = Content::new();
            while !copy.contains_key(&b"end"[..]) {
                let step = follow.step(None).unwrap().unwrap();
                apply(&mut copy, &step, false);
                assert!(copy == content(step.after()));
            }
            copy
        });
        (0..300).for_each(|round| write(&store, mix(round)));
        let mut txn = store.begin_write().unwrap();
        txn.create_table("end", &TableOptions::new()).unwrap();
        txn.commit().unwrap();
        assert!(follower.join().unwrap() == content(&store.begin_read().unwrap()));
    });
}

#[test]
fn a_named_follower_goes_on_after_a_power_cut() {
    const PATH: &str = "/disk/store";
    for seed in 0..3_u64 {
        let disk = SimSystem::new(seed, Config::default());
        let builder =
            |disk: &SimSystem| Store::builder().page_size(4096).system(Arc::new(disk.clone()));
        disk.record(true);
        let store = builder(&disk).create(Path::new(PATH)).unwrap();
        // What the consumer has on its own disk at each moment.
        let mut states: Vec<(Option<Mark>, Content)> = vec![(None, Content::new())];
        let mut follow = Follow::named(&store, "f").unwrap();
        for round in 0..25 {
            let r = mix(seed << 32 | round);
            disk.mark(states.len() as u64 - 1);
            (0..1 + r % 3).for_each(|n| write(&store, mix(r + n)));
            let Some(step) = follow.step(NOW).unwrap() else { continue };
            let mut copy = states.last().unwrap().1.clone();
            apply(&mut copy, &step, false);
            states.push((Some(step.mark()), copy));
            disk.mark(states.len() as u64 - 1);
            if (r >> 8).is_multiple_of(3) {
                follow.done().unwrap();
            }
        }
        drop(follow);
        let first = (0..=disk.recorded()).find(|cut| disk.last_mark(*cut).is_some()).unwrap();
        for cut in first..=disk.recorded() {
            let r = mix(seed << 32 | cut as u64);
            let image = disk.image_at(cut, CrashMode::ALL[(r % 5) as usize], r);
            let store = builder(&image).open(PATH).unwrap();
            let (mark, mut copy) = states[disk.last_mark(cut).unwrap() as usize].clone();
            let mut follow = Follow::named(&store, "f").unwrap();
            if let Some(mark) = mark {
                follow = follow.resume(&mark).unwrap();
            }
            write(&store, mix(r) | 5 << 16);
            while let Some(step) = follow.step(NOW).unwrap() {
                apply(&mut copy, &step, false);
                assert!(copy == content(step.after()), "seed {seed}, cut {cut}");
            }
            assert!(copy == content(&store.begin_read().unwrap()), "seed {seed}, cut {cut}");
        }
    }
}
