//! The differences are those of two full scans, whatever was done in between, and cost what
//! changed.

use std::collections::HashMap;
use std::ops::Bound;
use std::rc::Rc;

use super::*;
use crate::Durability;
use crate::tree::check::tests::{entry, kinds, mix};
use crate::tree::{Builder, Order, Store, TableOptions, WriteTxn};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A change with bytes of its own: key, old value, new value.
type Told = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);

fn told(change: &Change<'_>) -> Told {
    match change {
        Change::Added { key, value } => (key.to_vec(), None, Some(value.to_vec())),
        Change::Removed { key, value } => (key.to_vec(), Some(value.to_vec()), None),
        Change::Changed { key, old, new } => (key.to_vec(), Some(old.to_vec()), Some(new.to_vec())),
    }
}

fn all(diff: Diff<'_>) -> Vec<Told> {
    diff.map(|change| told(&change.unwrap())).collect()
}

/// A table as a snapshot has it.
#[derive(Clone)]
struct Seen {
    options: TableOptions,
    table: Table,
    pairs: Rc<Pairs>,
}

/// A snapshot, and what full scans of its tables gave.
struct Kept {
    txn: ReadTxn,
    tables: HashMap<&'static str, Seen>,
}

impl Kept {
    fn new(store: &Store, options: &HashMap<&'static str, TableOptions>) -> Self {
        let txn = store.begin_read().unwrap();
        let mut tables = HashMap::new();
        for (name, options) in options {
            let Ok(table) = txn.table_with(name, options) else { continue };
            let entries = txn.range(table, ..).unwrap();
            let pairs = entries.map(|e| e.map(|e| (e.key.to_vec(), e.value.to_vec())).unwrap());
            let seen =
                Seen { options: options.clone(), table, pairs: Rc::new(pairs.collect::<Pairs>()) };
            tables.insert(*name, seen);
        }
        Self { txn, tables }
    }

    fn form(&self, name: &str) -> Option<Form> {
        let seen = self.tables.get(name)?;
        Some(self.txn.open_table(seen.table).unwrap().tree.form.clone())
    }
}

/// What a merge of two scans says.
fn expected(
    old: &Kept,
    new: &Kept,
    name: &str,
    within: &dyn Fn(&Form, &[u8]) -> bool,
) -> Vec<Told> {
    let pairs = |kept: &Kept| {
        let form = kept.form(name)?;
        let pairs = kept.tables[name].pairs.iter();
        Some(pairs.filter(|(key, _)| within(&form, key)).cloned().collect::<Pairs>())
    };
    let (a, b) = (pairs(old).unwrap_or_default(), pairs(new).unwrap_or_default());
    let removed = |(key, value): &(Vec<u8>, Vec<u8>)| (key.clone(), Some(value.clone()), None);
    let added = |(key, value): &(Vec<u8>, Vec<u8>)| (key.clone(), None, Some(value.clone()));
    let form = old.form(name).or(new.form(name)).unwrap();
    let is_apart = match (old.tables.get(name), new.tables.get(name)) {
        (Some(a), Some(b)) => format!("{:?}", a.options) != format!("{:?}", b.options),
        _ => false,
    };
    if is_apart {
        return a.iter().map(removed).chain(b.iter().map(added)).collect();
    }
    let (mut i, mut j, mut told) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        let order = match (a.get(i), b.get(j)) {
            (Some(a), Some(b)) => form.keys.compare(&a.0, &b.0).then_with(|| match &form.values {
                Some(values) => values.compare(&a.1, &b.1),
                None => Ordering::Equal,
            }),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        match order {
            Ordering::Less => told.push(removed(&a[i])),
            Ordering::Greater => told.push(added(&b[j])),
            Ordering::Equal if a[i].1 != b[j].1 => {
                told.push((a[i].0.clone(), Some(a[i].1.clone()), Some(b[j].1.clone())));
            }
            Ordering::Equal => {}
        }
        i += usize::from(order.is_le());
        j += usize::from(order.is_ge());
    }
    told
}

/// Compares the differences of one table between two snapshots, whole and within a range.
fn compare(old: &Kept, new: &Kept, name: &str, r: u64) -> usize {
    let (a, b) = (old.tables.get(name), new.tables.get(name));
    if a.is_none() && b.is_none() {
        assert!(matches!(Diff::new(&old.txn, &new.txn, name), Err(Error::NoTable { .. })));
        return 0;
    }
    let diff = || {
        let (a, b) = (a.map(|seen| seen.table), b.map(|seen| seen.table));
        Diff::of_tables((&old.txn, a), (&new.txn, b)).unwrap()
    };
    let found = all(diff());
    let found_all = expected(old, new, name, &|_, _| true);
    assert!(found == found_all, "{name}: {} changes, not {}", found.len(), found_all.len());
    let bound = |r: u64| {
        let pairs = a.or(b).map(|seen| Rc::clone(&seen.pairs)).unwrap();
        match pairs.get((mix(r) % (pairs.len() as u64 + 1)) as usize) {
            Some((key, _)) if r & 1 == 0 => Bound::Included(key.clone()),
            Some((key, _)) => Bound::Excluded(key.clone()),
            None => Bound::Unbounded,
        }
    };
    let (low, high) = (bound(r), bound(r >> 1));
    let is_within = |form: &Form, key: &[u8]| {
        let low = match &low {
            Bound::Included(low) => form.keys.compare(low, key).is_le(),
            Bound::Excluded(low) => form.keys.compare(low, key).is_lt(),
            Bound::Unbounded => true,
        };
        low && match &high {
            Bound::Included(high) => form.keys.compare(high, key).is_ge(),
            Bound::Excluded(high) => form.keys.compare(high, key).is_gt(),
            Bound::Unbounded => true,
        }
    };
    let slices = (low.as_ref().map(|k| &k[..]), high.as_ref().map(|k| &k[..]));
    let within = all(diff().within(slices.0, slices.1).unwrap());
    assert!(within == expected(old, new, name, &is_within), "{name} within {low:?}, {high:?}");
    found.len()
}

/// Compares the list of tables that differ.
fn compare_tables(old: &Kept, new: &Kept) {
    let told = Diff::tables(&old.txn, &new.txn).unwrap();
    for (name, _) in kinds() {
        let (a, b) = (old.tables.get(name), new.tables.get(name));
        let bytes = name.as_bytes().to_vec();
        match (a, b) {
            (Some(_), None) => assert!(told.contains(&TableChange::Removed(bytes))),
            (None, Some(_)) => assert!(told.contains(&TableChange::Added(bytes))),
            (Some(a), Some(b)) if a.pairs != b.pairs => {
                assert!(told.contains(&TableChange::Changed(bytes)), "{name}");
            }
            _ => {}
        }
    }
    if old.txn.id() == new.txn.id() {
        assert_eq!(told, []);
    }
}

/// A random change of a table.
fn change(txn: &mut WriteTxn, table: Table, kind: &str, r: u64) {
    let n = |r: u64| mix(r) % 1500;
    let (key, _) = entry(kind, n(r));
    let (_, value) = entry(kind, n(r + 1));
    match r % 16 {
        0..8 => txn.put(table, &key, &value).unwrap(),
        8 | 9 => {
            let (key, value) = entry(kind, n(r));
            txn.put(table, &key, &value).unwrap();
        }
        10..13 => {
            txn.delete_pair(table, &key, &entry(kind, n(r)).1).unwrap();
        }
        13 | 14 => {
            txn.delete(table, &key).unwrap();
        }
        _ => {
            // A few neighbours.
            let at = txn.rank(table, &key).unwrap().keys;
            let end = txn.nth_key(table, at + mix(r) % 40).unwrap().map(|e| e.key.to_vec());
            if let Some(end) = end {
                let range = (Bound::Included(&key[..]), Bound::Excluded(&end[..]));
                txn.delete_range(table, range).unwrap();
            }
        }
    }
}

/// A random transaction on some tables.
fn write(store: &Store, options: &mut HashMap<&'static str, TableOptions>, r: u64) {
    let mut txn = store.begin_write().unwrap();
    for (i, (kind, plain)) in kinds().into_iter().enumerate() {
        let r = mix(r.wrapping_add(i as u64 * 77));
        if !r.is_multiple_of(4) {
            continue;
        }
        match (r >> 8) % 24 {
            0 => {
                txn.drop_table(kind).unwrap();
                // Made anew, perhaps of another kind.
                let other = TableOptions::new().order(Order::custom("back", |a, b| b.cmp(a)));
                let is_other = kind == "plain" && (r >> 16).is_multiple_of(2);
                options.insert(kind, if is_other { other } else { plain });
                if (r >> 17).is_multiple_of(2) {
                    continue;
                }
            }
            1 => {
                if let Ok(table) = txn.table_with(kind, &options[kind]) {
                    txn.clear_table(table).unwrap();
                }
            }
            _ => {}
        }
        let table = txn.create_table(kind, &options[kind]).unwrap();
        let changes = [1, 3, 20, 300][(r >> 20) as usize % 4];
        for c in 0..changes {
            change(&mut txn, table, kind, mix(r.wrapping_add(c)));
        }
        if (r >> 24).is_multiple_of(8) {
            let mark = txn.savepoint().unwrap();
            (0..20).for_each(|c| change(&mut txn, table, kind, mix(r ^ c)));
            txn.rollback_to(mark).unwrap();
        }
    }
    txn.commit_with(Durability::Eventual).unwrap();
}

fn model(builder: &Builder, seed: u64, rounds: u64) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let store = builder.create(folder.path().join("store")).unwrap();
    let mut options: HashMap<_, _> = kinds().into_iter().collect();
    let mut kept = vec![Kept::new(&store, &options)];
    let mut changes = 0;
    for round in 0..rounds {
        let r = mix(seed + round);
        write(&store, &mut options, r);
        if r.is_multiple_of(40) {
            store.compact(&mut |_, _| {}).unwrap();
        }
        if kept.len() == 6 {
            kept.remove((r >> 8) as usize % 6);
        }
        kept.push(Kept::new(&store, &options));
        for pair in 0..3 {
            let r = mix(r ^ pair);
            let (i, j) = (r as usize % kept.len(), (r >> 20) as usize % kept.len());
            let (old, new) = (&kept[i.min(j)], &kept[i.max(j)]);
            compare_tables(old, new);
            for (name, _) in kinds() {
                changes += compare(old, new, name, mix(r));
            }
        }
    }
    changes
}

#[test]
fn differences_are_those_of_two_full_scans() {
    assert!(model(&Store::builder().page_size(4096), 1, 200) > 20_000);
}

#[test]
fn differences_of_pages_written_early_or_read_without_a_map_are_right() {
    let builder = Store::builder().page_size(4096).write_budget(1 << 16).map(false);
    assert!(model(&builder, 1000, 30) > 3_000);
}

fn filled(store: &Store, count: u32) {
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new()).unwrap();
    for n in 0..count {
        txn.append(table, &n.to_be_bytes(), b"a value").unwrap();
    }
    txn.commit().unwrap();
}

fn depth(txn: &ReadTxn) -> u64 {
    let table = txn.table("t").unwrap();
    u64::from(txn.table_stat(table).unwrap().depth)
}

#[test]
fn pages_read_grow_with_the_changes_and_not_with_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    filled(&store, 1_000_000);
    let old = store.begin_read().unwrap();
    let same = store.begin_read().unwrap();
    let mut none = Diff::new(&old, &same, "t").unwrap();
    assert!(none.next().is_none());
    assert_eq!(none.pages_read(), 0);

    let mut txn = store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    for n in 0..1000_u64 {
        let key = (mix(n) % 1_000_000) as u32;
        match n % 3 {
            0 => txn.put(table, &key.to_be_bytes(), b"another value").unwrap(),
            1 => txn.put(table, &[&key.to_be_bytes()[..], b"new"].concat(), b"").unwrap(),
            _ => assert!(txn.delete(table, &key.to_be_bytes()).is_ok()),
        }
    }
    txn.commit().unwrap();
    let new = store.begin_read().unwrap();
    let mut diff = Diff::new(&old, &new, "t").unwrap();
    let changes = diff.by_ref().count();
    assert!((990..=1000).contains(&changes), "{changes}");
    let (read, most) = (diff.pages_read(), 2 * 1000 * depth(&new) + 2);
    assert!(read <= most, "{read} pages, more than {most}");

    // A stretch of the table goes, one is put in its place, and one at the end.
    let mut txn = store.begin_write().unwrap();
    let table = txn.table("t").unwrap();
    let [low, high] = [300_000_u32, 600_000].map(u32::to_be_bytes);
    txn.delete_range(table, low..high).unwrap();
    for n in 0..1000_u32 {
        txn.put(table, &(400_000 + n).to_be_bytes(), b"").unwrap();
        txn.append(table, &(1_000_000 + n).to_be_bytes(), b"").unwrap();
    }
    txn.commit().unwrap();
    let newer = store.begin_read().unwrap();
    let mut diff = Diff::new(&new, &newer, "t").unwrap();
    assert!(diff.by_ref().count() > 300_000);
    let table = new.table("t").unwrap();
    let leaves = new.table_stat(table).unwrap().leaf_pages;
    // Three tenths of the leaves were removed.
    let (read, most) = (diff.pages_read(), leaves * 3 / 10 + 100);
    assert!(read <= most, "{read} pages, more than {most}");

    let few = Bound::Excluded(&700_000_u32.to_be_bytes()[..]);
    let mut range = Diff::new(&old, &new, "t").unwrap().within(Bound::Unbounded, few).unwrap();
    let in_range = range.by_ref().count() as u64;
    assert!(in_range > 600 && in_range < 800, "{in_range}");
    assert!(range.pages_read() < 2 * (in_range + 3) * depth(&new));
}

#[test]
fn snapshots_that_cannot_be_compared_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("a")).unwrap();
    let other = Store::create(folder.path().join("b")).unwrap();
    filled(&store, 10);
    filled(&other, 10);
    let (a, b) = (store.begin_read().unwrap(), other.begin_read().unwrap());
    assert!(matches!(Diff::new(&a, &b, "t"), Err(Error::Argument { .. })));
    let mut txn = store.begin_write().unwrap();
    txn.create_table("u", &TableOptions::new()).unwrap();
    txn.commit().unwrap();
    let mut later = store.begin_read().unwrap();
    assert!(matches!(Diff::new(&later, &a, "t"), Err(Error::Argument { .. })));
    assert!(matches!(Diff::new(&a, &later, "none"), Err(Error::NoTable { .. })));
    let table = a.table("t").unwrap();
    let wrong = Diff::of_tables((&a, Some(table)), (&later, Some(table)));
    assert!(matches!(wrong, Err(Error::WrongTransaction)));
    later.reset();
    assert!(matches!(Diff::new(&a, &later, "t"), Err(Error::WrongTransaction)));
    assert!(matches!(Diff::tables(&a, &later), Err(Error::WrongTransaction)));
}

#[test]
fn different_bytes_that_an_order_takes_for_equal_are_removed_and_added() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let no_case = |a: &[u8], b: &[u8]| a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase());
    let options = TableOptions::new().order(Order::custom("no case", no_case));
    let put = |keys: &[&str]| {
        let mut txn = store.begin_write().unwrap();
        txn.drop_table("t").unwrap();
        let table = txn.create_table("t", &options).unwrap();
        keys.iter().for_each(|key| txn.put(table, key.as_bytes(), b"").unwrap());
        txn.commit().unwrap();
        store.begin_read().unwrap()
    };
    let (old, new) = (put(&["a", "B", "c"]), put(&["a", "b", "C"]));
    let tables = [&old, &new].map(|txn| txn.table_with("t", &options).unwrap());
    let diff = Diff::of_tables((&old, Some(tables[0])), (&new, Some(tables[1]))).unwrap();
    let (empty, key) = (Some(Vec::new()), |key: &str| key.as_bytes().to_vec());
    let wanted = [
        (key("B"), empty.clone(), None),
        (key("b"), None, empty.clone()),
        (key("c"), empty.clone(), None),
        (key("C"), None, empty),
    ];
    assert_eq!(all(diff), wanted);
    // They have the table open now, with the function of its order.
    assert_eq!(Diff::new(&old, &new, "t").unwrap().count(), 4);
    let again = store.begin_read().unwrap();
    assert!(matches!(Diff::new(&old, &again, "t"), Err(Error::TableOptions { .. })));
}

#[test]
fn a_table_under_another_name_can_be_compared() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    filled(&store, 100_000);
    let old = store.begin_read().unwrap();
    let mut txn = store.begin_write().unwrap();
    txn.rename_table("t", "u").unwrap();
    let table = txn.table("u").unwrap();
    txn.put(table, b"new", b"").unwrap();
    txn.commit().unwrap();
    let new = store.begin_read().unwrap();
    let [from, to] = [TableChange::Removed(b"t".to_vec()), TableChange::Added(b"u".to_vec())];
    assert_eq!(Diff::tables(&old, &new).unwrap(), [from, to]);
    let (from, to) = (old.table("t").unwrap(), new.table("u").unwrap());
    let mut diff = Diff::of_tables((&old, Some(from)), (&new, Some(to))).unwrap();
    assert_eq!(diff.by_ref().count(), 1);
    assert!(diff.pages_read() < 20);
}
