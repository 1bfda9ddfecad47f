//! Groups are the keys of a sorted list with their values, from either end.

use std::collections::BTreeMap;

use super::*;
use crate::stream::Renewal;
use crate::tree::{Snapshot as _, Store, TableOptions};

type Model = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// A table of keys with 1 to 700 values, the longest runs over several pages.
fn store() -> (tempfile::TempDir, Store, Model) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.create_table("t", &TableOptions::new().duplicates()).unwrap();
    let mut model = Model::new();
    for key in 0..60_u8 {
        let count = if key % 20 == 7 { 700 } else { u32::from(key % 5) + 1 };
        for value in 0..count {
            let value = [&value.to_be_bytes()[..], &[key; 20]].concat();
            txn.put(table, &[key], &value).unwrap();
            model.entry(vec![key]).or_default().push(value);
        }
    }
    txn.commit().unwrap();
    (folder, store, model)
}

fn owned<S: Snapshot>(group: crate::Result<Group<S>>) -> (Vec<u8>, Vec<Vec<u8>>) {
    let group = group.unwrap();
    let values: Vec<Vec<u8>> = group.values().unwrap().map(|v| v.unwrap().to_vec()).collect();
    let backwards = group.values().unwrap().rev().map(|v| v.unwrap().to_vec());
    assert!(backwards.eq(values.iter().rev().cloned()));
    if let Some(len) = group.len().unwrap() {
        assert_eq!(len, values.len() as u64);
    }
    (group.key().to_vec(), values)
}

#[test]
fn groups_are_keys_with_their_values() {
    let (_folder, store, model) = store();
    let all: Vec<_> = model.into_iter().collect();
    let groups = |scan: &Scan| scan.groups(&store).unwrap().map(owned).collect::<Vec<_>>();
    assert!(groups(&Scan::new("t")) == all);
    let mut turned = groups(&Scan::new("t").reverse());
    turned.reverse();
    assert!(turned == all);
    let part = Scan::new("t").range(&[10][..]..&[40][..]).skip(5).limit(9);
    assert!(groups(&part) == all[15..24]);
    assert_eq!(part.groups(&store).unwrap().remaining(), Some(9));
    let mut both = Scan::new("t").groups(&store).unwrap();
    let (first, last) = (owned(both.next().unwrap()), owned(both.next_back().unwrap()));
    assert!((&first, &last) == (&all[0], &all[59]));
    assert!(owned(both.nth(3).unwrap()) == all[4]);
    assert_eq!(both.remaining(), Some(54));
}

#[test]
fn groups_renew_between_keys_and_go_on_by_token() {
    let (_folder, store, model) = store();
    let scan = Scan::new("t").renewal(Renewal::never().pairs(1));
    let mut groups = scan.groups(&store).unwrap();
    let mut token = None;
    for (n, (key, values)) in model.iter().enumerate().take(40) {
        let mut txn = store.begin_write().unwrap();
        let table = txn.table("t").unwrap();
        txn.put(table, key, b"new").unwrap();
        txn.commit().unwrap();
        // The first one was read at the beginning, every other one as it is now.
        let (found, now) = owned(groups.next().unwrap());
        assert_eq!((&found, now.len()), (key, values.len() + usize::from(n > 0)));
        if n == 30 {
            token = Some(groups.token().unwrap());
        }
    }
    let rest = Scan::resume(&token.unwrap(), &store).unwrap().groups(&store).unwrap();
    assert!(rest.map(|group| group.unwrap().key().to_vec()).eq((31..60).map(|n| vec![n])));
}

#[test]
fn a_store_without_duplicates_has_groups_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let db = crate::lsm::Options::new().create(true).open(folder.path().join("db")).unwrap();
    let space = db.keyspace("t", Default::default()).unwrap();
    (0..9_u8).for_each(|n| db.put(&space, &[n], &[n, n]).unwrap());
    let groups = Scan::new("t").groups(&db).unwrap().map(owned);
    assert!(groups.eq((0..9).map(|n| (vec![n], vec![vec![n, n]]))));
}
