//! What a follower of an lsm store makes of the steps equals the store after each of them, however
//! it is stopped and whatever is written in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hedgerow::key::prefix;
use hedgerow::lsm::{Batch, Change, Db, KeyspaceOptions, Options, Readable, Snapshot};
use hedgerow::os::sim::{Config, CrashMode, SimSystem};
use hedgerow::stream::{Follow, Mark, Step};
use hedgerow::tree::TableChange;
use hedgerow::{Durability, Error};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;
/// The pairs of each keyspace.
type Content = BTreeMap<Vec<u8>, Pairs>;

const NOW: Option<Duration> = Some(Duration::ZERO);

fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

fn content(snapshot: &Snapshot) -> Content {
    let scan = |name: &[u8]| {
        let keyspace = snapshot.find_keyspace(name).unwrap().unwrap();
        snapshot.range(&keyspace, ..).unwrap().map(Result::unwrap).collect()
    };
    let names = snapshot.keyspaces().unwrap();
    names.into_iter().map(|name| (name.clone(), scan(&name))).collect()
}

/// A random batch, which may change nothing.
fn write(db: &Db, r: u64) {
    let name = format!("space {}", r % 3);
    if (r >> 8).is_multiple_of(16) {
        db.drop_keyspace(&name).unwrap();
    }
    let separation_threshold = if r.is_multiple_of(3) { 16 } else { 4096 };
    let space = db.keyspace(&name, KeyspaceOptions { separation_threshold }).unwrap();
    let mut batch = Batch::new();
    for n in 0..(r >> 16) % 12 {
        let r = mix(r.wrapping_add(n));
        let (key, value) = (format!("{:03}", r % 300), format!("{:20}", (r >> 20) % 50));
        match (r >> 32) % 40 {
            0 => batch.delete_range(&space, prefix(&key[..1])).unwrap(),
            1..14 => batch.delete(&space, key.as_bytes()).unwrap(),
            _ => batch.put(&space, key.as_bytes(), value.as_bytes()).unwrap(),
        }
    }
    let durability = [Durability::Durable, Durability::Eventual, Durability::None];
    db.write_with(batch, durability[(r >> 24) as usize % 3]).unwrap();
}

/// Applies a step, which must fit exactly unless the consumer has seen it before.
fn apply(content: &mut Content, step: &Step<Db>, is_repeated: bool) {
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
            match change.unwrap() {
                Change::Added { key, value } => {
                    assert!(pairs.insert(key, value).is_none() || is_repeated);
                }
                Change::Removed { key, value } => {
                    assert!(pairs.remove(&key) == Some(value) || is_repeated);
                }
                Change::Changed { key, old, new } => {
                    assert!(pairs.insert(key, new) == Some(old) || is_repeated);
                }
            }
        }
    }
}

#[test]
fn a_follower_has_what_the_store_has() {
    for seed in 0..8_u64 {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let options =
                Options::new().create(true).memtable_bytes(1 << 14).segment_bytes(1 << 14);
            options.memory_limit(4 << 20).open(folder.path().join("db")).unwrap()
        };
        let mut db = open();
        let is_named = seed % 2 == 1;
        let begin = |db: &Db| match is_named {
            true => Follow::named(db, "f").unwrap(),
            false => Follow::from_start(db),
        };
        let (mut follow, mut copy, mut mark) = (begin(&db), Content::new(), None);
        let mut repeated = 0;
        for round in 0..400 {
            let r = mix(seed << 32 | round);
            (0..r % 4).for_each(|n| write(&db, mix(r + n)));
            if (r >> 40).is_multiple_of(40) {
                db.compact().unwrap();
            }
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
                    db.close().unwrap();
                    db = open();
                }
                follow = begin(&db);
                if (r >> 20).is_multiple_of(2) {
                    follow = follow.resume(&mark.unwrap()).unwrap();
                    repeated = 0;
                }
            }
        }
        assert!(mark.is_some());
        assert!(db.check().unwrap().is_sound());
        assert_eq!(Follow::forget(&db, "f").unwrap(), is_named);
        assert_eq!(db.pins(), []);
    }
}

#[test]
fn a_part_is_followed_alone() {
    let folder = tempfile::tempdir().unwrap();
    let db = Options::new().create(true).open(folder.path().join("db")).unwrap();
    let mut follow = Follow::named(&db, "part").unwrap().only("space 1", prefix("1"));
    let (mut copy, mut steps, mut commits) = (Pairs::new(), 0, 0);
    for round in 0..800 {
        write(&db, mix(round));
        commits += 1;
        let Some(step) = follow.step(NOW).unwrap() else { continue };
        steps += 1;
        let there = content(step.after()).remove(&b"space 1"[..]).unwrap_or_default();
        let there = there.into_iter().filter(|(key, _)| key.starts_with(b"1")).collect::<Pairs>();
        let both =
            step.before().is_some_and(|before| content(before).contains_key(&b"space 1"[..]));
        if both && content(step.after()).contains_key(&b"space 1"[..]) {
            let mut own = Content::from([(b"space 1".to_vec(), copy)]);
            apply(&mut own, &step, false);
            copy = own.remove(&b"space 1"[..]).unwrap();
            assert!(copy == there, "round {round}");
        }
        copy = there;
        assert!(matches!(step.changes("space 0"), Err(Error::Argument { .. })));
    }
    assert!(steps > 60 && steps < commits / 2, "{steps} steps of {commits} commits");
}

#[test]
fn marks_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| Options::new().create(true).open(folder.path().join(name)).unwrap();
    let (db, other) = (open("db"), open("other"));
    let mut follow = Follow::named(&db, "f").unwrap();
    let first = follow.step(None).unwrap().unwrap().mark();
    write(&db, 3 | 5 << 16);
    let second = follow.step(None).unwrap().unwrap().mark();
    write(&db, 3 | 5 << 16 | 1 << 40);
    follow.step(None).unwrap().unwrap();
    drop(follow);
    let named = |db| Follow::named(db, "f").unwrap();
    assert!(named(&db).resume(&second).is_ok());
    let old = named(&db).resume(&first).unwrap_err();
    assert!(matches!(old, Error::TooOld { commit, oldest }
        if commit == first.commit() && oldest == second.commit()));
    assert!(matches!(named(&other).resume(&first), Err(Error::Argument { .. })));
}

#[test]
fn a_writer_wakes_a_follower() {
    let folder = tempfile::tempdir().unwrap();
    let db = Options::new().create(true).open(folder.path().join("db")).unwrap();
    std::thread::scope(|scope| {
        let followed = db.clone();
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
        (0..300).for_each(|round| write(&db, mix(round)));
        db.keyspace("end", Default::default()).unwrap();
        assert!(follower.join().unwrap() == content(&db.snapshot()));
    });
}

#[test]
fn a_named_follower_goes_on_after_a_power_cut() {
    const PATH: &str = "/disk/db";
    for seed in 0..3_u64 {
        let disk = SimSystem::new(seed, Config { reserve: 1 << 20, ..Config::default() });
        let open = |disk: &SimSystem| {
            let options =
                Options::new().create(true).memtable_bytes(1 << 12).segment_bytes(1 << 12);
            options.system(Arc::new(disk.clone())).open(PATH).unwrap()
        };
        disk.record(true);
        let db = open(&disk);
        // What the consumer has on its own disk at each moment.
        let mut states: Vec<(Option<Mark>, Content)> = vec![(None, Content::new())];
        let mut follow = Follow::named(&db, "f").unwrap();
        for round in 0..25 {
            let r = mix(seed << 32 | round);
            disk.mark(states.len() as u64 - 1);
            (0..1 + r % 3).for_each(|n| write(&db, mix(r + n)));
            let Some(step) = follow.step(NOW).unwrap() else { continue };
            let mut copy = states.last().unwrap().1.clone();
            apply(&mut copy, &step, false);
            states.push((Some(step.mark()), copy));
            disk.mark(states.len() as u64 - 1);
            if (r >> 8).is_multiple_of(3) {
                follow.done().unwrap();
            }
        }
        drop((follow, db));
        let first = (0..=disk.recorded()).find(|cut| disk.last_mark(*cut).is_some()).unwrap();
        for cut in first..=disk.recorded() {
            let r = mix(seed << 32 | cut as u64);
            let image = disk.image_at(cut, CrashMode::ALL[(r % 5) as usize], r);
            let db = open(&image);
            let (mark, mut copy) = states[disk.last_mark(cut).unwrap() as usize].clone();
            let mut follow = Follow::named(&db, "f").unwrap();
            if let Some(mark) = mark {
                follow = follow.resume(&mark).unwrap();
            }
            write(&db, mix(r) | 5 << 16);
            while let Some(step) = follow.step(NOW).unwrap() {
                apply(&mut copy, &step, false);
                assert!(copy == content(step.after()), "seed {seed}, cut {cut}");
            }
            assert!(copy == content(&db.snapshot()), "seed {seed}, cut {cut}");
        }
    }
}
