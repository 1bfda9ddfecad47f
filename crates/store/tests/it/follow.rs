//! What a follower makes of the steps equals the store after each of them, however it is stopped
//! and whatever is written in between: in both engines.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hedgerow::key::prefix;
use hedgerow::lsm::{self, Batch, Db, KeyspaceOptions, Options, Readable};
use hedgerow::os::sim::{Config, CrashMode, SimSystem};
use hedgerow::stream::{AsChange as _, Follow, Followed, Mark, Step};
use hedgerow::tree::{Bytes, Change, ReadTxn, Snapshot, Store, TableChange, TableOptions};
use hedgerow::{Durability, Error};

type Pairs = BTreeSet<(Vec<u8>, Vec<u8>)>;
/// The pairs of each table.
type Content = BTreeMap<Vec<u8>, Pairs>;

/// After this many commits of other tables a follower of one gives an empty step.
const COMMITS_KEPT: u64 = 1000;

const DURABILITIES: [Durability; 3] = [Durability::Durable, Durability::Eventual, Durability::None];
const NOW: Option<Duration> = Some(Duration::ZERO);

fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// A store of an engine.
trait Subject: Followed {
    /// Two tables that are written to.
    const TABLES: [&str; 2];
    /// Address space of a simulated file.
    const RESERVE: u64;

    /// The store in a folder, which is made if there is none.
    fn open(folder: &Path) -> Self;
    /// A store on a simulated disk, which is made or there already.
    fn on(disk: &SimSystem, is_new: bool) -> Self;
    /// Another handle, opened anew where a process can have two.
    fn again(&self) -> Self;
    fn content(snapshot: &Self::Snapshot) -> Content;
    fn now(&self) -> Content;
    /// A random transaction, which may change nothing.
    fn write(&self, r: u64);
    fn make_table(&self, name: &str);
    /// What else may happen between commits.
    fn settle(&self);
    /// Checks it, and that it has no pins.
    fn check_all(&self);
    fn close(self);
}

impl Subject for Store {
    const TABLES: [&str; 2] = ["plain", "pairs"];
    const RESERVE: u64 = 256 << 20;

    fn open(folder: &Path) -> Self {
        let (builder, path) = (Store::builder().page_size(4096), folder.join("store"));
        if path.exists() { builder.open(path).unwrap() } else { builder.create(path).unwrap() }
    }

    fn on(disk: &SimSystem, is_new: bool) -> Self {
        let builder = Store::builder().page_size(4096).system(Arc::new(disk.clone()));
        let path = Path::new("/disk/store");
        if is_new { builder.create(path).unwrap() } else { builder.open(path).unwrap() }
    }

    fn again(&self) -> Self {
        Store::open(self.path()).unwrap()
    }

    fn content(txn: &ReadTxn) -> Content {
        let scan = |name: &[u8]| {
            let entries = txn.range(txn.table(name).unwrap(), ..).unwrap();
            entries.map(|e| e.map(|e| (e.key.to_vec(), e.value.to_vec())).unwrap()).collect()
        };
        txn.tables().unwrap().into_iter().map(|t| (t.name.clone(), scan(&t.name))).collect()
    }

    fn now(&self) -> Content {
        Self::content(&self.begin_read().unwrap())
    }

    fn write(&self, r: u64) {
        const ALL: [(&str, bool); 3] = [("plain", false), ("pairs", true), ("other", false)];
        let mut txn = self.begin_write().unwrap();
        let (name, duplicates) = ALL[(r % 3) as usize];
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
        txn.commit_with(DURABILITIES[(r >> 24) as usize % 3]).unwrap();
    }

    fn make_table(&self, name: &str) {
        self.write_with(Durability::Durable, |txn| {
            txn.create_table(name, &TableOptions::new()).map(drop)
        })
        .unwrap();
    }

    fn settle(&self) {}

    fn check_all(&self) {
        let report = self.check(&mut |_, _| {}).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        assert_eq!(self.pins().unwrap(), []);
    }

    fn close(self) {}
}

impl Subject for Db {
    const TABLES: [&str; 2] = ["space 1", "space 0"];
    const RESERVE: u64 = 1 << 20;

    fn open(folder: &Path) -> Self {
        let options = Options::new().create(true).memtable_bytes(1 << 14).segment_bytes(1 << 14);
        options.memory_limit(4 << 20).open(folder.join("db")).unwrap()
    }

    fn on(disk: &SimSystem, _is_new: bool) -> Self {
        let options = Options::new().create(true).memtable_bytes(1 << 12).segment_bytes(1 << 12);
        options.system(Arc::new(disk.clone())).open("/disk/db").unwrap()
    }

    fn again(&self) -> Self {
        self.clone()
    }

    fn content(snapshot: &lsm::Snapshot) -> Content {
        let scan = |name: &[u8]| {
            let keyspace = snapshot.find_keyspace(name).unwrap().unwrap();
            snapshot.range(&keyspace, ..).unwrap().map(Result::unwrap).collect()
        };
        let names = snapshot.keyspaces().unwrap();
        names.into_iter().map(|name| (name.clone(), scan(&name))).collect()
    }

    fn now(&self) -> Content {
        Self::content(&self.snapshot())
    }

    fn write(&self, r: u64) {
        let name = format!("space {}", r % 3);
        if (r >> 8).is_multiple_of(16) {
            self.drop_keyspace(&name).unwrap();
        }
        let separation_threshold = if r.is_multiple_of(3) { 16 } else { 4096 };
        let space = self
            .keyspace(&name, KeyspaceOptions { separation_threshold, ..Default::default() })
            .unwrap();
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
        self.write_with(batch, DURABILITIES[(r >> 24) as usize % 3]).unwrap();
    }

    fn make_table(&self, name: &str) {
        self.keyspace(name, KeyspaceOptions::default()).unwrap();
    }

    fn settle(&self) {
        self.compact().unwrap();
    }

    fn check_all(&self) {
        assert!(self.check().unwrap().is_sound());
        assert_eq!(self.pins(), []);
    }

    fn close(self) {
        Db::close(self).unwrap();
    }
}

/// Applies a step, which must fit exactly unless the consumer has seen it before.
fn apply<S: Followed>(content: &mut Content, step: &Step<S>, is_repeated: bool) {
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
            match change.unwrap().as_change() {
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

#[test]
fn a_follower_has_what_the_store_has() {
    has_what_the_store_has::<Store>();
    has_what_the_store_has::<Db>();
}

fn has_what_the_store_has<S: Subject>() {
    for seed in 0..8_u64 {
        let folder = tempfile::tempdir().unwrap();
        let mut store = S::open(folder.path());
        let is_named = seed % 2 == 1;
        let begin = |store: &S| match is_named {
            true => Follow::named(store, "f").unwrap(),
            false => Follow::from_start(store),
        };
        let (mut follow, mut copy, mut mark) = (begin(&store), Content::new(), None);
        let mut repeated = 0;
        for round in 0..400 {
            let r = mix(seed << 32 | round);
            (0..r % 4).for_each(|n| store.write(mix(r + n)));
            if (r >> 40).is_multiple_of(40) {
                store.settle();
            }
            let Some(step) = follow.step(NOW).unwrap() else { continue };
            let is_repeated = std::mem::take(&mut repeated) > 0;
            apply(&mut copy, &step, is_repeated);
            assert!(copy == S::content(step.after()), "seed {seed}, round {round}");
            mark = Some(step.mark());
            if is_named && (r >> 8).is_multiple_of(8) {
                if (r >> 12).is_multiple_of(2) {
                    follow.done().unwrap();
                } else {
                    repeated = 1;
                }
                drop((follow, step));
                if (r >> 16).is_multiple_of(2) {
                    store.close();
                    store = S::open(folder.path());
                }
                follow = begin(&store);
                if (r >> 20).is_multiple_of(2) {
                    follow = follow.resume(&mark.unwrap()).unwrap();
                    repeated = 0;
                }
            }
        }
        assert!(mark.is_some());
        assert_eq!(Follow::forget(&store, "f").unwrap(), is_named);
        store.check_all();
    }
}

#[test]
fn a_part_is_followed_alone() {
    part_is_followed_alone::<Store>();
    part_is_followed_alone::<Db>();
}

fn part_is_followed_alone<S: Subject>() {
    let folder = tempfile::tempdir().unwrap();
    let store = S::open(folder.path());
    let [part, other] = S::TABLES;
    let mut follow = Follow::named(&store, "part").unwrap().only(part, prefix("1"));
    let (mut own, mut steps, mut commits) = (Content::new(), 0, 0);
    for round in 0..1500 {
        store.write(mix(round));
        commits += 1;
        let Some(step) = follow.step(NOW).unwrap() else { continue };
        steps += 1;
        apply(&mut own, &step, false);
        let mut there = S::content(step.after());
        there.retain(|name, _| name == part.as_bytes());
        there.values_mut().for_each(|pairs| pairs.retain(|(key, _)| key.starts_with(b"1")));
        assert!(own == there, "round {round}");
        assert!(matches!(step.changes(other), Err(Error::Argument { .. })));
    }
    assert!(steps > 60 && steps < commits / 2, "{steps} steps of {commits} commits");
}

/// Pins that nothing needs any more move on by themselves.
#[test]
fn a_follower_of_a_part_keeps_no_old_commit() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    store.make_table("plain");
    let mut follow = Follow::named(&store, "part").unwrap().only("plain", prefix("1"));
    follow.step(NOW).unwrap();
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
    marks_of_are_checked::<Store>();
    marks_of_are_checked::<Db>();
}

fn marks_of_are_checked<S: Subject>() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [store, other] = [0, 1].map(|n: usize| S::open(folders[n].path()));
    let mut follow = Follow::named(&store, "f").unwrap();
    let first = follow.step(None).unwrap().unwrap().mark();
    assert_eq!(first.to_string().parse::<Mark>().unwrap(), first);
    store.write(3 | 5 << 16);
    let second = follow.step(None).unwrap().unwrap().mark();
    store.write(3 | 5 << 16 | 1 << 40);
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
    writer_wakes_a_follower::<Store>();
    writer_wakes_a_follower::<Db>();
}

fn writer_wakes_a_follower<S: Subject>() {
    let folder = tempfile::tempdir().unwrap();
    let store = S::open(folder.path());
    let followed = store.again();
    std::thread::scope(|scope| {
        let follower = scope.spawn(move || {
            let mut follow = Follow::from_start(&followed).durable();
            let mut copy = Content::new();
            while !copy.contains_key(&b"end"[..]) {
                let step = follow.step(None).unwrap().unwrap();
                apply(&mut copy, &step, false);
                assert!(copy == S::content(step.after()));
            }
            copy
        });
        (0..300).for_each(|round| store.write(mix(round)));
        store.make_table("end");
        assert!(follower.join().unwrap() == store.now());
    });
}

#[test]
fn a_follower_waits_for_other_writers_as_long_as_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let short = Duration::from_millis(1);
    let mut follow = Follow::named(&store, "cache").unwrap().write_timeout(short);
    follow.step(None).unwrap().unwrap();
    follow.done().unwrap();
    store.make_table("t");
    let (commit, writer) = (follow.commit(), store.begin_write().unwrap());
    let refused = |answer: Result<(), Error>| {
        let error = answer.unwrap_err();
        assert!(matches!(error, Error::Locked { .. }), "{error}");
        assert!(error.to_string().contains("writes to the store"), "{error}");
    };
    refused(follow.step(Some(Duration::ZERO)).map(drop));
    refused(follow.step(None).map(drop));
    assert_eq!(follow.commit(), commit);
    drop(writer);
    assert_eq!(follow.step(None).unwrap().unwrap().from(), Some(commit));
    let writer = store.begin_write().unwrap();
    refused(follow.done());
    drop(writer);
    follow.done().unwrap();
    assert_eq!(store.pins().unwrap().len(), 1);
}

#[test]
fn a_named_follower_goes_on_after_a_power_cut() {
    goes_on_after_a_power_cut::<Store>();
    goes_on_after_a_power_cut::<Db>();
}

fn goes_on_after_a_power_cut<S: Subject>() {
    for seed in 0..3_u64 {
        let disk = SimSystem::new(seed, Config { reserve: S::RESERVE, ..Config::default() });
        disk.record(true);
        let store = S::on(&disk, true);
        // What the consumer has on its own disk at each moment.
        let mut states: Vec<(Option<Mark>, Content)> = vec![(None, Content::new())];
        let mut follow = Follow::named(&store, "f").unwrap();
        for round in 0..25 {
            let r = mix(seed << 32 | round);
            disk.mark(states.len() as u64 - 1);
            (0..1 + r % 3).for_each(|n| store.write(mix(r + n)));
            let Some(step) = follow.step(NOW).unwrap() else { continue };
            let mut copy = states.last().unwrap().1.clone();
            apply(&mut copy, &step, false);
            states.push((Some(step.mark()), copy));
            disk.mark(states.len() as u64 - 1);
            if (r >> 8).is_multiple_of(3) {
                follow.done().unwrap();
            }
        }
        drop((follow, store));
        let first = (0..=disk.recorded()).find(|cut| disk.last_mark(*cut).is_some()).unwrap();
        for cut in first..=disk.recorded() {
            let r = mix(seed << 32 | cut as u64);
            let image = disk.image_at(cut, CrashMode::ALL[(r % 5) as usize], r);
            let store = S::on(&image, false);
            let (mark, mut copy) = states[disk.last_mark(cut).unwrap() as usize].clone();
            let mut follow = Follow::named(&store, "f").unwrap();
            if let Some(mark) = mark {
                follow = follow.resume(&mark).unwrap();
            }
            store.write(mix(r) | 5 << 16);
            while let Some(step) = follow.step(NOW).unwrap() {
                apply(&mut copy, &step, false);
                assert!(copy == S::content(step.after()), "seed {seed}, cut {cut}");
            }
            assert!(copy == store.now(), "seed {seed}, cut {cut}");
        }
    }
}
