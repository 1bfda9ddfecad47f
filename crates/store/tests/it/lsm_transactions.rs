//! Optimistic transactions of the log-structured engine: what conflicts and what does not, compared
//! with a model; and that concurrent commits of threads are serializable.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow::Durability;
use hedgerow::Error;
use hedgerow::key::prefix;
use hedgerow::lsm::{Db, Keyspace, Options, Readable, Transaction};
use proptest::prelude::*;

fn open(folder: &tempfile::TempDir) -> (Db, Keyspace) {
    let options = Options::new().create(true).durability(Durability::None);
    let options = options.memtable_bytes(8 << 10).segment_bytes(16 << 10).table_bytes(8 << 10);
    let db = options.open(folder.path().join("db")).unwrap();
    let space = db.keyspace("space", Default::default()).unwrap();
    (db, space)
}

fn entries(scan: impl Iterator<Item = hedgerow::Result<(Vec<u8>, Vec<u8>)>>) -> Vec<(u8, u8)> {
    scan.map(|entry| entry.map(|(key, value)| (key[0], value[0])).unwrap()).collect()
}

#[test]
fn a_transaction_reads_its_own_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = open(&folder);
    for key in 1..=6 {
        db.put(&space, &[key], &[key]).unwrap();
    }
    let mut txn = db.transaction();
    txn.put(&space, &[3], &[33]).unwrap();
    txn.delete(&space, &[1]).unwrap();
    txn.delete_range(&space, [4]..[6]).unwrap();
    txn.put(&space, &[5], &[55]).unwrap();
    txn.put(&space, &[9], &[99]).unwrap();
    assert_eq!(txn.get(&space, &[4]).unwrap(), None);
    assert_eq!(txn.get(&space, &[5]).unwrap(), Some(vec![55]));
    let all = [(2, 2), (3, 33), (5, 55), (6, 6), (9, 99)];
    assert_eq!(entries(txn.range(&space, ..).unwrap()), all);
    let mut backwards = all;
    backwards.reverse();
    assert_eq!(entries(txn.range(&space, ..).unwrap().rev()), backwards);
    assert_eq!(entries(txn.range(&space, [3]..[6]).unwrap()), all[1..3]);
    assert_eq!(entries(txn.range(&space, prefix([5])).unwrap()), [(5, 55)]);
    assert_eq!(db.get(&space, &[3]).unwrap(), Some(vec![3]), "nobody else sees it yet");
    txn.commit().unwrap();
    assert_eq!(entries(db.range(&space, ..).unwrap()), all);
}

#[test]
fn two_who_read_what_the_other_wrote_do_not_both_commit() {
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = open(&folder);
    let (mut first, mut second) = (db.transaction(), db.transaction());
    first.get(&space, b"a").unwrap();
    second.get(&space, b"b").unwrap();
    first.put(&space, b"b", b"1").unwrap();
    second.put(&space, b"a", b"2").unwrap();
    first.commit().unwrap();
    assert!(matches!(second.commit(), Err(Error::Conflict)));
    assert_eq!(db.get(&space, b"a").unwrap(), None, "nothing of it was written");
}

#[test]
fn an_entry_that_appears_in_a_scanned_range_conflicts() {
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = open(&folder);
    for key in [10, 20, 30] {
        db.put(&space, &[key], b"x").unwrap();
    }
    // (the key that appears, whether that conflicts): the scan takes two of three entries, and
    // looks at the third.
    for (key, is_conflict) in [(5, true), (15, true), (25, true), (31, false)] {
        let mut txn = db.transaction();
        assert_eq!(txn.range(&space, ..).unwrap().take(2).count(), 2);
        txn.put(&space, &[200], b"x").unwrap();
        db.put(&space, &[key], b"new").unwrap();
        db.flush().unwrap();
        db.delete(&space, &[key]).unwrap();
        let committed = txn.commit();
        assert_eq!(matches!(committed, Err(Error::Conflict)), is_conflict, "{key}: {committed:?}");
    }
}

/// What the transaction wrote itself is found in its own memory: a range takes no more of the store
/// than it needs to know what comes next.
#[test]
fn own_writes_are_read_without_looking_behind_them() {
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = open(&folder);
    for key in [10, 20, 30, 40] {
        db.put(&space, &[key], b"x").unwrap();
    }
    for is_reverse in [false, true] {
        for (key, is_conflict) in [(5, !is_reverse), (25, false), (45, is_reverse)] {
            let mut txn = db.transaction();
            for key in [10, 20, 30, 40] {
                txn.put(&space, &[key], b"own").unwrap();
            }
            let mut range = txn.range(&space, ..).unwrap();
            let first = if is_reverse { range.next_back() } else { range.next() };
            assert_eq!(first.unwrap().unwrap().1, b"own");
            drop(range);
            db.put(&space, &[key], b"new").unwrap();
            db.delete(&space, &[key]).unwrap();
            let committed = txn.commit();
            assert_eq!(matches!(committed, Err(Error::Conflict)), is_conflict, "{key}");
        }
    }
}

/// Many keys and many ranges of one transaction, each beside the others.
#[test]
fn a_transaction_deletes_many_ranges_between_its_keys() {
    const MANY: u32 = 5_000;
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = open(&folder);
    for _ in 0..2 {
        for n in 0..MANY {
            db.put(&space, &(4 * n + 2).to_be_bytes(), b"deleted").unwrap();
        }
        let mut txn = db.transaction();
        for n in 0..MANY {
            txn.put(&space, &(4 * n).to_be_bytes(), b"x").unwrap();
            let (from, to) = ((4 * n + 1).to_be_bytes(), (4 * n + 3).to_be_bytes());
            txn.delete_range(&space, from..to).unwrap();
            assert_eq!(txn.get(&space, &(4 * n + 2).to_be_bytes()).unwrap(), None);
        }
        assert_eq!(txn.range(&space, ..).unwrap().count(), MANY as usize);
        txn.commit().unwrap();
        let keys = db.range(&space, ..).unwrap().map(|pair| pair.unwrap().0);
        assert!(keys.eq((0..MANY).map(|n| (4 * n).to_be_bytes().to_vec())));
    }
}

/// Changes that went to tables, were merged there, or lie under a range tombstone are still seen.
#[test]
fn changes_are_seen_wherever_they_went() {
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = open(&folder);
    db.put(&space, b"key", b"old").unwrap();
    let changes: [(&str, &dyn Fn()); 4] = [
        ("a table", &|| {
            db.put(&space, b"key", b"new").unwrap();
            db.flush().unwrap();
        }),
        ("a merged table", &|| {
            db.put(&space, b"key", b"new").unwrap();
            db.delete(&space, b"key").unwrap();
            db.compact().unwrap();
        }),
        ("a range", &|| db.delete_range(&space, b"k"..b"l").unwrap()),
        ("a merged range", &|| {
            db.delete_range(&space, ..).unwrap();
            db.compact().unwrap();
        }),
    ];
    for (name, change) in changes {
        for is_range in [false, true] {
            let mut txn = db.transaction();
            match is_range {
                true => drop(txn.range(&space, prefix(b"ke")).unwrap().count()),
                false => drop(txn.get(&space, b"key").unwrap()),
            }
            txn.put(&space, b"z", b"").unwrap();
            change();
            assert!(matches!(txn.commit(), Err(Error::Conflict)), "{name}, a range: {is_range}");
        }
    }
}

#[test]
fn a_closure_is_tried_again_but_not_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = open(&folder);
    let mut runs = 0;
    let mut meddle_until = |last: u32, txn: &mut Transaction| {
        runs += 1;
        txn.get(&space, b"key")?;
        if runs <= last {
            db.put(&space, b"key", b"theirs")?;
        }
        txn.put(&space, b"key", b"ours").map(|()| runs)
    };
    assert_eq!(db.transact(5, |txn| meddle_until(2, txn)).unwrap(), 3);
    assert_eq!(db.get(&space, b"key").unwrap().as_deref(), Some(&b"ours"[..]));
    let failed = db.transact(4, |txn| meddle_until(100, txn));
    assert!(matches!(failed, Err(Error::Conflict)));
    assert_eq!(runs, 3 + 4);
}

const KEYS: u8 = 12;

/// What a program of several transactions on one thread does next.
#[derive(Clone, Debug)]
enum Step {
    Get(usize, u8),
    Scan(usize, Range<u8>, bool),
    Put(usize, u8, u8),
    Delete(usize, u8),
    DeleteRange(usize, Range<u8>),
    Commit(usize),
    Plain(u8, Option<u8>),
    PlainRange(Range<u8>),
    Flush,
    Compact,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let slot = 0..3_usize;
    let range = (0..KEYS, 0..KEYS).prop_map(|(a, b)| a.min(b)..a.max(b));
    let step = prop_oneof![
        6 => (slot.clone(), 0..KEYS).prop_map(|(t, key)| Step::Get(t, key)),
        3 => (slot.clone(), range.clone(), any::<bool>())
            .prop_map(|(t, range, reverse)| Step::Scan(t, range, reverse)),
        6 => (slot.clone(), 0..KEYS, any::<u8>()).prop_map(|(t, key, v)| Step::Put(t, key, v)),
        2 => (slot.clone(), 0..KEYS).prop_map(|(t, key)| Step::Delete(t, key)),
        1 => (slot.clone(), range.clone()).prop_map(|(t, range)| Step::DeleteRange(t, range)),
        5 => slot.prop_map(Step::Commit),
        3 => (0..KEYS, any::<Option<u8>>()).prop_map(|(key, value)| Step::Plain(key, value)),
        1 => range.prop_map(Step::PlainRange),
        1 => Just(Step::Flush),
        1 => Just(Step::Compact),
    ];
    prop::collection::vec(step, 1..60)
}

type State = BTreeMap<u8, u8>;

/// A transaction of the model.
#[derive(Clone, Default)]
struct Shadow {
    state: State,
    footprint: BTreeSet<u8>,
    writes: Vec<(u8, Option<u8>)>,
    is_empty: bool,
    is_stale: bool,
}

impl Shadow {
    fn new(state: &State) -> Self {
        Self { state: state.clone(), is_empty: true, ..Self::default() }
    }

    fn write(&mut self, key: u8, value: Option<u8>) {
        self.footprint.insert(key);
        self.writes.push((key, value));
        apply(&mut self.state, key, value);
    }
}

fn apply(state: &mut State, key: u8, value: Option<u8>) {
    match value {
        Some(value) => drop(state.insert(key, value)),
        None => drop(state.remove(&key)),
    }
}

/// The store, the model, and three transactions of each.
struct Pair {
    db: Db,
    space: Keyspace,
    state: State,
    open: Vec<(Transaction, Shadow)>,
}

impl Pair {
    /// Another commit changed a key: transactions that looked at it will not commit.
    fn changed(&mut self, key: u8, value: Option<u8>) {
        apply(&mut self.state, key, value);
        self.open.iter_mut().for_each(|(_, shadow)| {
            // What it will look at later, it will not see either: its snapshot is older.
            shadow.is_stale |= shadow.footprint.contains(&key);
        });
    }

    fn step(&mut self, step: &Step, changed_since: &mut [BTreeSet<u8>; 3]) {
        let (db, space) = (&self.db, self.space.clone());
        match step.clone() {
            Step::Get(t, key) => {
                let (txn, shadow) = &mut self.open[t];
                let found = txn.get(&space, &[key]).unwrap().map(|value| value[0]);
                assert_eq!(found, shadow.state.get(&key).copied());
                shadow.look(key, &changed_since[t]);
            }
            Step::Scan(t, range, reverse) => {
                let (txn, shadow) = &mut self.open[t];
                let scan = txn.range(&space, [range.start]..[range.end]).unwrap();
                let found = if reverse { entries(scan.rev()) } else { entries(scan) };
                let mut expected: Vec<(u8, u8)> =
                    shadow.state.range(range.clone()).map(|(key, value)| (*key, *value)).collect();
                if reverse {
                    expected.reverse();
                }
                assert_eq!(found, expected);
                range.for_each(|key| shadow.look_in_range(key, &changed_since[t]));
            }
            Step::Put(t, key, value) => {
                self.open[t].0.put(&space, &[key], &[value]).unwrap();
                self.open[t].1.own(key, Some(value), &changed_since[t]);
            }
            Step::Delete(t, key) => {
                self.open[t].0.delete(&space, &[key]).unwrap();
                self.open[t].1.own(key, None, &changed_since[t]);
            }
            Step::DeleteRange(t, range) => {
                let (txn, shadow) = &mut self.open[t];
                txn.delete_range(&space, [range.start]..[range.end]).unwrap();
                range.for_each(|key| shadow.own(key, None, &changed_since[t]));
            }
            Step::Commit(t) => {
                let fresh = (db.transaction(), Shadow::default());
                let (txn, shadow) = std::mem::replace(&mut self.open[t], fresh);
                let committed = txn.commit();
                let is_conflict = !shadow.is_empty && shadow.is_stale;
                assert_eq!(matches!(committed, Err(Error::Conflict)), is_conflict);
                if !is_conflict {
                    committed.unwrap();
                    for &(key, value) in &shadow.writes {
                        self.changed(key, value);
                        changed_since.iter_mut().for_each(|keys| keys.extend([key]));
                    }
                }
                self.open[t] = (self.db.transaction(), Shadow::new(&self.state));
                changed_since[t].clear();
            }
            Step::Plain(key, value) => {
                match value {
                    Some(value) => db.put(&space, &[key], &[value]).unwrap(),
                    None => db.delete(&space, &[key]).unwrap(),
                }
                self.changed(key, value);
                changed_since.iter_mut().for_each(|keys| keys.extend([key]));
            }
            Step::PlainRange(range) => {
                db.delete_range(&space, [range.start]..[range.end]).unwrap();
                for key in range {
                    self.changed(key, None);
                    changed_since.iter_mut().for_each(|keys| keys.extend([key]));
                }
            }
            Step::Flush => db.flush().unwrap(),
            Step::Compact => db.compact().unwrap(),
        }
    }
}

impl Shadow {
    /// A key that is read: not where the transaction wrote it itself, which is watched already.
    fn look(&mut self, key: u8, changed: &BTreeSet<u8>) {
        self.look_in_range(key, changed);
    }

    fn look_in_range(&mut self, key: u8, changed: &BTreeSet<u8>) {
        self.footprint.insert(key);
        self.is_stale |= changed.contains(&key);
    }

    fn own(&mut self, key: u8, value: Option<u8>, changed: &BTreeSet<u8>) {
        self.look_in_range(key, changed);
        self.is_empty = false;
        self.write(key, value);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..Default::default()
    })]

    /// Three transactions at a time, and commits beside them: every answer, and exactly those
    /// conflicts that the model knows.
    #[test]
    fn transactions_are_those_of_the_model(steps in steps()) {
        let folder = tempfile::tempdir().unwrap();
        let (db, space) = open(&folder);
        let open = (0..3).map(|_| (db.transaction(), Shadow::new(&State::new()))).collect();
        let mut pair = Pair { db, space, state: State::new(), open };
        let mut changed_since = Default::default();
        for step in &steps {
            pair.step(step, &mut changed_since);
        }
        let all: Vec<(u8, u8)> = pair.state.iter().map(|(key, value)| (*key, *value)).collect();
        prop_assert_eq!(entries(pair.db.range(&pair.space, ..).unwrap()), all);
    }
}

/// What a committed transaction saw and did: versions by key; each write follows a version.
#[derive(Default)]
struct Trace {
    reads: Vec<(u8, u64)>,
    writes: Vec<(u8, u64)>,
}

/// A value is the number of the transaction that wrote it.
fn version(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |bytes| u64::from_le_bytes(bytes[..8].try_into().unwrap()))
}

fn random(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 33) % end
}

/// Reads some keys and a range, writes over some of what it read.
fn wander(
    txn: &mut Transaction,
    space: &Keyspace,
    id: u64,
    rng: &mut u64,
) -> hedgerow::Result<Trace> {
    let mut trace = Trace::default();
    let mut seen = BTreeMap::new();
    for _ in 0..1 + random(rng, 2) {
        let key = random(rng, u64::from(KEYS)) as u8;
        seen.insert(key, version(txn.get(space, &[key])?));
    }
    if random(rng, 3) == 0 {
        let from = random(rng, u64::from(KEYS) - 3) as u8;
        let mut range: BTreeMap<u8, u64> = (from..from + 3).map(|key| (key, 0)).collect();
        for entry in txn.range(space, [from]..[from + 3])? {
            let (key, value) = entry?;
            range.insert(key[0], version(Some(value)));
        }
        seen.extend(range);
    }
    for (&key, &before) in &seen {
        trace.reads.push((key, before));
        if random(rng, 2) == 0 {
            txn.put(space, &[key], &[id.to_le_bytes(), before.to_le_bytes()].concat())?;
            trace.writes.push((key, before));
        }
    }
    Ok(trace)
}

/// Threads commit transactions whose writes say which version they follow; from that, the order of
/// each pair is known without asking the store, and there must be an order in which they could have
/// run one by one.
#[test]
fn what_threads_commit_is_serializable() {
    const THREADS: u64 = 4;
    const EACH: u64 = 400;
    let folder = tempfile::tempdir().unwrap();
    let (db, space) = open(&folder);
    let traces = Mutex::new(BTreeMap::new());
    let conflicts = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, space, traces, conflicts) = (&db, &space, &traces, &conflicts);
            scope.spawn(move || {
                let mut rng = thread;
                for n in 0..EACH {
                    let id = 1 + thread * EACH + n;
                    let mut txn = db.transaction();
                    let trace = wander(&mut txn, space, id, &mut rng).unwrap();
                    let durable = n % 40 == 0;
                    let durability = if durable { Durability::Durable } else { Durability::None };
                    match txn.commit_with(durability) {
                        Ok(()) => drop(traces.lock().unwrap().insert(id, trace)),
                        Err(Error::Conflict) => drop(conflicts.fetch_add(1, Ordering::Relaxed)),
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    let traces = traces.into_inner().unwrap();
    assert!(traces.len() as u64 > THREADS * EACH / 10, "most of them conflict");
    assert!(conflicts.load(Ordering::Relaxed) > 0, "the threads never met");
    assert_serializable(&traces);
}

fn assert_serializable(traces: &BTreeMap<u64, Trace>) {
    let mut followers: BTreeMap<(u8, u64), u64> = BTreeMap::new();
    for (&id, trace) in traces {
        for &(key, before) in &trace.writes {
            let other = followers.insert((key, before), id);
            assert_eq!(other, None, "two wrote over the same version of key {key}");
        }
    }
    let mut after: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for (&id, trace) in traces {
        for &(key, seen) in &trace.reads {
            assert!(seen == 0 || traces.contains_key(&seen), "read of what was not committed");
            if seen != 0 {
                after.entry(seen).or_default().insert(id);
            }
            if let Some(&next) = followers.get(&(key, seen)).filter(|&&next| next != id) {
                after.entry(id).or_default().insert(next);
            }
        }
    }
    let mut waits: BTreeMap<u64, usize> = traces.keys().map(|&id| (id, 0)).collect();
    for &next in after.values().flatten() {
        *waits.get_mut(&next).unwrap() += 1;
    }
    let mut ready: Vec<u64> =
        waits.iter().filter(|wait| *wait.1 == 0).map(|wait| *wait.0).collect();
    let mut done = 0;
    while let Some(id) = ready.pop() {
        done += 1;
        for &next in after.get(&id).into_iter().flatten() {
            let wait = waits.get_mut(&next).unwrap();
            *wait -= 1;
            if *wait == 0 {
                ready.push(next);
            }
        }
    }
    assert_eq!(done, traces.len(), "transactions that come before each other in a circle");
}
