//! Entries that are replaced and deleted where they stand, beside a list in order.

use std::collections::BTreeSet;

use super::*;
use crate::random;
use crate::tree::{Order, Snapshot, Store, Table, TableOptions};

type Pair = (Vec<u8>, Vec<u8>);

fn backwards(a: &[u8], b: &[u8]) -> Ordering {
    b.cmp(a)
}

/// A table, what it should hold, and the order of that.
struct Beside {
    table: Table,
    cursor: Cursor,
    pairs: Vec<Pair>,
    order: fn(&[u8], &[u8]) -> Ordering,
    random: u64,
}

impl Beside {
    fn below(&mut self, n: usize) -> usize {
        self.random =
            self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 33) as usize % n
    }

    fn place_of(&self, key: &[u8]) -> std::result::Result<usize, usize> {
        self.pairs.binary_search_by(|pair| (self.order)(&pair.0, key))
    }

    fn put(&mut self, txn: &mut WriteTxn, (key, value): Pair) {
        txn.put(self.table, &key, &value).unwrap();
        match self.place_of(&key) {
            Ok(at) => self.pairs[at].1 = value,
            Err(at) => self.pairs.insert(at, (key, value)),
        }
    }

    /// Puts an entry that is not there before the one that a search comes to; true if it was done
    /// in that one's leaf.
    fn put_before(&mut self, txn: &mut WriteTxn, (key, value): &Pair) -> bool {
        let Err(at) = self.place_of(key) else { return false };
        let found = self.cursor.seek_beside(txn, key).unwrap();
        let is_before = found.is_some_and(|(_, seen)| seen.is_gt());
        let done = is_before && self.cursor.put_before(txn, key, value).unwrap();
        if done {
            self.pairs.insert(at, (key.clone(), value.clone()));
            assert_eq!(self.cursor.rank(txn).unwrap(), Some(at as u64));
            assert_eq!(self.cursor.current(txn).unwrap().unwrap().key, key[..]);
        }
        done
    }

    /// A key like one that is given, or any, and a value; some are long.
    fn pair_near(&mut self, key: &[u8]) -> Pair {
        let mut key = key.to_vec();
        match self.below(8) {
            0 => key = format!("key {:05}", self.below(40_000)).into_bytes(),
            1 => key.push(b'0' + self.below(10) as u8),
            2 if key.len() > 9 => key.truncate(9),
            3 => {}
            _ => key[8] = b'0' + self.below(10) as u8,
        }
        let len = if self.below(60) == 0 { 3000 } else { self.below(12) };
        (key, vec![b'a' + self.below(3) as u8; len])
    }

    /// Replaces an entry, or sees that nothing has changed; true if it was done in its leaf.
    fn replace(&mut self, txn: &mut WriteTxn) -> bool {
        let at = self.below(self.pairs.len());
        let old = self.pairs[at].clone();
        self.cursor.seek(txn, &old.0).unwrap().unwrap();
        let (key, value) = self.pair_near(&old.0);
        let changes = txn.changes();
        assert!(self.cursor.put_if_here(txn, &old.1).unwrap());
        assert!(txn.changes() == changes || old.1.len() > 1000);
        let done = self.cursor.replace(txn, &key, &value).unwrap();
        if done {
            self.pairs.remove(at);
            let to = self.place_of(&key).expect_err("only its own key is replaced");
            self.pairs.insert(to, (key.clone(), value));
            assert_eq!(self.cursor.rank(txn).unwrap(), Some(to as u64));
        }
        let (stands, before) = if done { (key, at) } else { (old.0, at) };
        let entry = self.cursor.current(txn).unwrap().unwrap();
        assert_eq!(entry.key, stands[..], "{done}, from {before}");
        assert_eq!(txn.count(self.table).unwrap().keys, self.pairs.len() as u64);
        done
    }

    /// What a copy of a cursor gives next, and what another one gives before.
    fn around(cursor: &Cursor, txn: &WriteTxn) -> [Option<Vec<u8>>; 2] {
        let (mut on, mut back) = (cursor.clone(), cursor.clone());
        [on.next(txn), back.prev(txn)].map(|entry| entry.unwrap().map(|entry| entry.key.to_vec()))
    }

    /// Deletes a few neighbours, and sees where the cursor and others stand then; true if all of
    /// the leaf's entries but the one stayed where they were.
    fn delete(&mut self, txn: &mut WriteTxn) -> bool {
        let (len, at) = (self.pairs.len(), self.below(self.pairs.len() - 3));
        let (key, near) = (self.pairs[at].0.clone(), at + 1 + self.below(2));
        let (mut same, mut other) = (txn.cursor(self.table).unwrap(), self.cursor.clone());
        self.cursor.seek(txn, &key).unwrap().unwrap();
        same.seek(txn, &key).unwrap().unwrap();
        other.seek(txn, &self.pairs[near].0).unwrap().unwrap();
        assert!(self.cursor.delete(txn).unwrap());
        let stays = self.cursor.state == State::Before;
        assert!(!self.cursor.clone().delete(txn).unwrap());
        self.pairs.remove(at);
        assert_eq!(txn.count(self.table).unwrap().values, self.pairs.len() as u64);
        let before = at.checked_sub(1).map(|at| self.pairs[at].0.clone());
        let wanted = [Some(self.pairs[at].0.clone()), before];
        assert_eq!(Self::around(&self.cursor, txn), wanted);
        assert_eq!(Self::around(&same, txn), wanted);
        assert_eq!(other.rank(txn).unwrap(), Some(near as u64 - 1));
        assert_eq!(other.current(txn).unwrap().unwrap().key, self.pairs[near - 1].0[..]);
        assert!(txn.get(self.table, &key).unwrap().is_none());
        // Steps and deletes by turns.
        let more = if self.below(4) == 0 { self.below(60) } else { 0 };
        for _ in 0..more.min(self.pairs.len() - at) {
            assert_eq!(self.cursor.next(txn).unwrap().unwrap().key, self.pairs[at].0[..]);
            assert!(self.cursor.delete(txn).unwrap());
            self.pairs.remove(at);
        }
        // As many are put.
        while self.pairs.len() < len {
            let near = self.below(self.pairs.len());
            let pair = self.pair_near(&self.pairs[near].0.clone());
            if !self.put_before(txn, &pair) {
                self.put(txn, pair);
            }
        }
        stays
    }

    /// Compares all entries, and counts along a leaf.
    fn check(&mut self, txn: &WriteTxn) -> usize {
        let (mut counted, from) = (0, self.below(self.pairs.len()));
        let mut cursor = txn.cursor(self.table).unwrap();
        for (key, value) in &self.pairs {
            let entry = cursor.next(txn).unwrap().unwrap();
            assert!(entry.key == key[..] && entry.value == value[..]);
        }
        assert!(cursor.next(txn).unwrap().is_none());
        cursor.seek(txn, &self.pairs[from].0).unwrap().unwrap();
        for to in from..self.pairs.len() {
            let count = cursor.count_to(txn, &self.pairs[to].0).unwrap();
            assert!(count.is_none_or(|count| count == (to - from) as u64));
            counted += usize::from(count.is_some());
        }
        let rank = txn.rank(self.table, &self.pairs[from].0).unwrap();
        assert!(rank.keys == from as u64 && rank.found);
        counted
    }
}

/// Changes a table many times, and rolls some of that back: how often the change says that it was
/// done in its leaf, and how many entries of leaves were counted.
fn run(
    options: &TableOptions,
    order: fn(&[u8], &[u8]) -> Ordering,
    change: fn(&mut Beside, &mut WriteTxn) -> bool,
) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", options).unwrap();
    let cursor = txn.cursor(table).unwrap();
    let mut beside = Beside { table, cursor, pairs: Vec::new(), order, random: 7 };
    for i in 0..3000 {
        let key = format!("key {:05}", i * 11 % 40_000).into_bytes();
        beside.put(&mut txn, (key, vec![b'v'; i % 10]));
    }
    let (mut done, mut counted) = (0, 0);
    for round in 0..60 {
        let (savepoint, kept) = (txn.savepoint().unwrap(), beside.pairs.clone());
        done += (0..50).filter(|_| change(&mut beside, &mut txn)).count();
        counted += beside.check(&txn);
        if round % 3 == 0 {
            txn.rollback_to(savepoint).unwrap();
            beside.pairs = kept;
            counted += beside.check(&txn);
        }
        txn.release(savepoint).unwrap();
    }
    txn.commit().unwrap();
    assert!(store.check(&mut |_, _| {}).unwrap().problems.is_empty());
    (done, counted)
}

/// The same with several kinds of table.
fn run_all(change: fn(&mut Beside, &mut WriteTxn) -> bool) {
    let by_function = || TableOptions::new().order(Order::custom("backwards", backwards));
    for (options, order) in [
        (TableOptions::new(), <[u8]>::cmp as fn(&[u8], &[u8]) -> Ordering),
        (TableOptions::new().prefix_compression(false), <[u8]>::cmp),
        (by_function(), backwards),
        (by_function().prefix_compression(false), backwards),
    ] {
        let (done, counted) = run(&options, order, change);
        assert!(done > 1500 && counted > 1500, "{done}, {counted}");
    }
}

#[test]
fn entries_are_replaced_in_their_leaf_as_in_a_list() {
    run_all(Beside::replace);
}

#[test]
fn entries_are_deleted_at_a_cursor_as_from_a_list() {
    run_all(Beside::delete);
}

/// What the steps of copies of a cursor give: to the next pair, key and value, and the same back.
fn steps(cursor: &Cursor, txn: &WriteTxn) -> [Option<Pair>; 6] {
    let copies = [(); 6].map(|()| cursor.clone());
    let [mut next, mut prev, mut next_key, mut prev_key, mut next_value, mut prev_value] = copies;
    [
        next.next(txn),
        prev.prev(txn),
        next_key.next_key(txn),
        prev_key.prev_key(txn),
        next_value.next_value(txn),
        prev_value.prev_value(txn),
    ]
    .map(|entry| entry.unwrap().map(|entry| (entry.key.to_vec(), entry.value.to_vec())))
}

/// What they should give where a pair was, which is there no more.
fn steps_from(pairs: &BTreeSet<Pair>, (key, value): &Pair) -> [Option<Pair>; 6] {
    let at = (key.clone(), value.clone());
    let after_key = (key.iter().copied().chain([0]).collect::<Vec<u8>>(), Vec::new());
    let next = pairs.range(at.clone()..).next().cloned();
    let prev = pairs.range(..at).next_back().cloned();
    let of_key = |pair: &Option<Pair>| pair.clone().filter(|pair| pair.0 == *key);
    let next_key = pairs.range(after_key..).next().cloned();
    let prev_key = pairs.range(..(key.clone(), Vec::new())).next_back().cloned();
    [next.clone(), prev.clone(), next_key, prev_key, of_key(&next), of_key(&prev)]
}

/// Deletes pairs and keys of a table with duplicates where a cursor stands, at most `values` of
/// each of `keys`; returns how often the cursor has kept its place.
fn delete_among_values(options: &TableOptions, keys: usize, values: usize) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", options).unwrap();
    let (mut pairs, mut below, mut kept) = (BTreeSet::new(), random::indexes(5), 0);
    let mut cursor = txn.cursor(table).unwrap();
    for round in 0..6000 {
        while pairs.len() < keys * values / 2 {
            let text = |name: &str, n: usize| format!("{name} {n:08}").into_bytes();
            let pair = (text("key", below(keys)), text("value", below(values)));
            txn.put(table, &pair.0, &pair.1).unwrap();
            pairs.insert(pair);
        }
        let pair = pairs.iter().nth(below(pairs.len())).unwrap().clone();
        cursor.seek_pair(&txn, &pair.0, &pair.1).unwrap().unwrap();
        // A few neighbours, in one way or the other.
        for _ in 0..1 + below(4) {
            let entry = cursor.current(&txn).unwrap().unwrap();
            let pair = (entry.key.to_vec(), entry.value.to_vec());
            if below(20) == 0 {
                assert!(cursor.delete_key(&mut txn).unwrap());
                pairs.retain(|other| other.0 != pair.0);
            } else {
                assert!(cursor.delete(&mut txn).unwrap());
                assert!(pairs.remove(&pair));
            }
            kept += usize::from(cursor.state == State::Before);
            assert_eq!(steps(&cursor, &txn), steps_from(&pairs, &pair), "round {round}");
            assert_eq!(txn.count(table).unwrap().values, pairs.len() as u64);
            let moved = if below(2) == 0 { cursor.next(&txn) } else { cursor.prev(&txn) };
            if moved.unwrap().is_none() {
                break;
            }
        }
    }
    let mut all = txn.cursor(table).unwrap();
    for (key, value) in &pairs {
        let entry = all.next(&txn).unwrap().unwrap();
        assert!(entry.key == key[..] && entry.value == value[..]);
    }
    txn.commit().unwrap();
    assert!(store.check(&mut |_, _| {}).unwrap().problems.is_empty());
    kept
}

#[test]
fn values_are_deleted_at_a_cursor_as_from_a_set() {
    for options in [TableOptions::new(), TableOptions::new().prefix_compression(false)] {
        for (keys, values) in [(1, 2000), (3, 700), (40, 30), (400, 3)] {
            let kept = delete_among_values(&options.clone().duplicates(), keys, values);
            assert!(kept > 9000, "{keys} keys, {values} values: {kept}");
        }
    }
}

#[test]
fn nothing_is_replaced_by_a_key_that_may_belong_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new()).unwrap();
    for key in [b"b", b"d", b"f"] {
        txn.put(table, key, b"").unwrap();
    }
    let mut cursor = txn.cursor(table).unwrap();
    assert!(!cursor.replace(&mut txn, b"c", b"").unwrap(), "it stands nowhere");
    cursor.seek(&txn, b"d").unwrap();
    for key in [b"a", b"b", b"f", b"g"] {
        assert!(!cursor.replace(&mut txn, key, b"").unwrap());
        assert!(cursor.count_to(&txn, b"g").unwrap().is_none());
    }
    assert_eq!(cursor.count_to(&txn, b"f").unwrap(), Some(1));
    assert_eq!(cursor.count_to(&txn, b"d").unwrap(), Some(0));
    assert!(cursor.count_to(&txn, b"b").unwrap().is_none());
    assert!(cursor.replace(&mut txn, b"e", b"new").unwrap());
    assert!(txn.get(table, b"e").unwrap().unwrap() == b"new");
    assert!(txn.get(table, b"d").unwrap().is_none());
    for value in [b"own".to_vec(), b"longer".to_vec(), vec![7; 5000], b"new".to_vec()] {
        assert!(cursor.put_if_here(&mut txn, &value).unwrap());
        assert!(cursor.current(&txn).unwrap().unwrap().value == value[..]);
        assert_eq!(txn.get(table, b"e").unwrap().unwrap(), value[..]);
    }
    txn.put(table, b"f", b"other").unwrap();
    assert!(!cursor.put_if_here(&mut txn, b"newer").unwrap(), "its leaf has changed");
    let pairs = txn.create_table("pairs", &TableOptions::new().duplicates()).unwrap();
    let mut cursor = txn.cursor(pairs).unwrap();
    cursor.put(&mut txn, b"b", b"one").unwrap();
    assert!(!cursor.replace(&mut txn, b"b", b"two").unwrap());
    assert!(!cursor.put_if_here(&mut txn, b"one").unwrap());
}
