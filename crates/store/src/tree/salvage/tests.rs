//! What can be read is copied, what cannot is reported: nothing is lost silently.

use std::collections::BTreeSet;

use super::*;
use crate::tree::check::tests::{
    PAGE, by_length, bytes_of_filled, edit_meta, edit_page, kinds, newest, page_at, page_mut,
    root_of, with,
};
use crate::tree::page::PageMut;
use crate::tree::{Snapshot, Table, TableOptions};

type Pairs = BTreeSet<(Vec<u8>, Vec<u8>)>;

/// All entries of a table.
fn pairs<S: Snapshot>(txn: &S, table: Table) -> Pairs {
    let mut cursor = txn.cursor(table).unwrap();
    std::iter::from_fn(|| cursor.next(txn).unwrap().map(|e| (e.key.to_vec(), e.value.to_vec())))
        .collect()
}

/// Every table of a store, with its entries.
fn contents(path: &Path) -> Vec<(String, Pairs)> {
    let txn = Store::open(path).unwrap().begin_read().unwrap();
    let entries = |(name, options)| match txn.table_with(name, &options) {
        Ok(table) => pairs(&txn, table),
        Err(Error::NoTable { .. }) => Pairs::new(),
        Err(error) => panic!("{name}: {error}"),
    };
    kinds().into_iter().map(|(name, options)| (name.to_owned(), entries((name, options)))).collect()
}

struct Case {
    folder: tempfile::TempDir,
    report: SalvageReport,
}

impl Case {
    /// Salvages a file of these bytes, which stays as it is.
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old");
        std::fs::write(&old, bytes).unwrap();
        let new = folder.path().join("new");
        let mut last = (0, 0);
        let mut told = |done, all| last = (done, all);
        let report = Store::salvage(&old, &new, &Interrupt::default(), &mut told).unwrap();
        assert_eq!(last.0, last.1);
        assert_eq!(std::fs::read(&old).unwrap(), bytes, "the old file was written");
        assert!(!folder.path().join("old-lock").exists());
        let check = Store::open(&new).unwrap().check(&mut |_, _| {}).unwrap();
        assert_eq!(check.problems, Vec::<String>::new());
        Self { folder, report }
    }

    fn contents(&self) -> Vec<(String, Pairs)> {
        contents(&self.folder.path().join("new"))
    }

    /// Every entry of `all` is there, or in a range that is said to be lost. Returns how many are
    /// not there.
    fn assert_told(&self, all: &[(String, Pairs)]) -> usize {
        let mut lost = 0;
        for ((name, before), (_, after)) in all.iter().zip(self.contents()) {
            assert!(after.is_subset(before), "{name}: entries that never were");
            for (key, _) in before.difference(&after) {
                lost += 1;
                let losses = &self.report.losses;
                let told = losses.iter().any(|loss| is_in(loss, name, key));
                assert!(told, "{name}: {key:?} is gone without a word: {losses:#?}");
            }
        }
        lost
    }
}

/// Whether a loss covers a key; the order of the tables that are damaged here is bytewise.
fn is_in(loss: &Loss, table: &str, key: &[u8]) -> bool {
    let from = loss.from.as_deref().is_none_or(|from| key >= from);
    let to = loss.to.as_deref().is_none_or(|to| key <= to);
    loss.table == table.as_bytes() && from && to
}

/// All entries of a store of these bytes.
fn contents_of(bytes: &[u8]) -> Vec<(String, Pairs)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    std::fs::write(&path, bytes).unwrap();
    contents(&path)
}

#[test]
fn everything_of_a_sound_store_comes_over() {
    let bytes = bytes_of_filled();
    let case = Case::new(&bytes);
    assert_eq!(case.report.losses, []);
    let all = contents_of(&bytes);
    assert!(case.contents() == all);
    assert_eq!(case.report.entries, all.iter().map(|(_, pairs)| pairs.len() as u64).sum::<u64>());
    assert_eq!(case.report.tables, kinds().len() as u64);
    assert_eq!(case.report.commit, Some(newest(&bytes).txn));
    let txn = Store::open(case.folder.path().join("new")).unwrap().begin_read().unwrap();
    let custom = txn.table_with("custom", &TableOptions::new().order(by_length())).unwrap();
    let (key, value) = all[3].1.first().unwrap();
    let found = txn.get(custom, key).unwrap().unwrap();
    assert_eq!(found, *value, "its order is that of its function");
}

#[test]
fn damaged_pages_of_every_kind_are_named() {
    let clean = bytes_of_filled();
    let all = contents_of(&clean);
    let root = root_of(&clean, "plain");
    let mut first = vec![0; usize::from(root.level)];
    let flip = |bytes: &mut Vec<u8>, no: u32| page_mut(bytes, no)[PAGE / 2] ^= 1;
    let mut damages: Vec<(&str, Vec<u8>)> = Vec::new();
    damages.push(("the root", with(&clean, |bytes| flip(bytes, root.page.0))));
    for slot in [0, 1, 5] {
        *first.last_mut().unwrap() = slot;
        damages.push((
            "a leaf",
            with(&clean, |bytes| {
                let leaf = page_at(bytes, &root, &first);
                flip(bytes, leaf);
            }),
        ));
    }
    damages.push((
        "a page in the place of another one",
        with(&clean, |bytes| {
            let (a, b) = (page_at(bytes, &root, &[0]), page_at(bytes, &root, &[1]));
            let page = page_mut(bytes, a).to_vec();
            edit_page(bytes, b, |to| to.copy_from_slice(&page));
        }),
    ));
    damages.push((
        "a child twice",
        with(&clean, |bytes| {
            edit_page(bytes, root.page.0, |page| {
                let mut page = PageMut::new(page);
                let child = page.view().child(0);
                page.set_child(1, child);
            });
        }),
    ));
    for (what, bytes) in damages {
        let case = Case::new(&bytes);
        let lost = case.assert_told(&all) as u64;
        let told: u64 = case.report.losses.iter().filter_map(|loss| loss.entries).sum();
        assert!(lost > 0 && told == lost, "{what}: {lost} lost, {told} told");
        let total: usize = all.iter().map(|(_, pairs)| pairs.len()).sum();
        // All that lay below the root is found.
        let found = if what == "the root" { root.count.values } else { 0 };
        assert_eq!(case.report.entries + lost, total as u64 + found, "{what}");
    }
}

#[test]
fn long_values_are_lost_one_by_one() {
    let clean = bytes_of_filled();
    let all = contents_of(&clean);
    let (key, value) = all[0].1.iter().max_by_key(|(_, value)| value.len()).unwrap();
    let at = clean.windows(64).position(|bytes| bytes.iter().all(|b| *b == b'v')).unwrap();
    let bytes = with(&clean, |bytes| {
        // Every page that holds only this letter belongs to a long value.
        let pages = (at / PAGE + 1..bytes.len() / PAGE)
            .filter(|no| bytes[no * PAGE..(no + 1) * PAGE].iter().all(|byte| *byte == b'v'))
            .collect::<Vec<_>>();
        pages.into_iter().for_each(|no| bytes[no * PAGE] ^= 1);
    });
    let case = Case::new(&bytes);
    let lost = case.assert_told(&all);
    assert_eq!(case.report.losses.len(), lost);
    let told = case.report.losses.iter().find(|loss| loss.from.as_ref() == Some(key));
    assert_eq!(told.unwrap().entries, Some(1), "a value of {} bytes", value.len());
}

#[test]
fn what_lay_below_a_lost_branch_is_found() {
    let clean = bytes_of_filled();
    let (all, mut found) = (contents_of(&clean), 0);
    for (kind, options) in kinds() {
        let root = root_of(&clean, kind);
        let is_custom = ["custom", "headless", "headless duplicates"].contains(&kind);
        if root.level == 0 || is_custom {
            continue;
        }
        let before = &all.iter().find(|(name, _)| name == kind).unwrap().1;
        let no = root.page.0;
        let case = Case::new(&with(&clean, |bytes| page_mut(bytes, no).fill(0)));
        case.assert_told(&all);
        let txn = Store::open(case.folder.path().join("new")).unwrap().begin_read().unwrap();
        let table = txn.table_with(format!("lost page {no}"), &options).unwrap();
        assert!(pairs(&txn, table) == *before, "{kind}");
        found += 1;
    }
    assert!(found > 10, "{found}");
}

/// A store that was salvaged before may have a table of the name that a lost branch would get.
#[test]
fn what_lay_below_a_lost_branch_stays_out_of_other_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    std::fs::write(&path, bytes_of_filled()).unwrap();
    let no = root_of(&bytes_of_filled(), "plain").page.0;
    let name = format!("lost page {no}");
    let (key, value) = contents(&path)[0].1.first().unwrap().clone();
    let own = Pairs::from([(key.clone(), b"own".to_vec())]);
    {
        let mut txn = Store::open(&path).unwrap().begin_write().unwrap();
        let table = txn.create_table(&name, &TableOptions::new()).unwrap();
        txn.put(table, &key, b"own").unwrap();
        txn.commit().unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(root_of(&bytes, "plain").page.0, no);
    let case = Case::new(&with(&bytes, |bytes| page_mut(bytes, no).fill(0)));
    let txn = Store::open(case.folder.path().join("new")).unwrap().begin_read().unwrap();
    assert!(pairs(&txn, txn.table(&name).unwrap()) == own, "its own entries, and no others");
    let found = pairs(&txn, txn.table(format!("{name}'")).unwrap());
    assert!(found.contains(&(key, value)));
}

/// Where nothing says which pages are free, the newest version of each is found.
#[test]
fn what_lay_below_a_lost_branch_is_found_without_the_trees_of_free_space() {
    let clean = bytes_of_filled();
    let before = &contents_of(&clean)[0].1;
    let (root, meta) = (root_of(&clean, "plain"), newest(&clean));
    let case = Case::new(&with(&clean, |bytes| {
        for page in [root.page, meta.ready.page, meta.pending.page] {
            if !page.is_none() {
                page_mut(bytes, page.0).fill(0);
            }
        }
    }));
    let txn = Store::open(case.folder.path().join("new")).unwrap().begin_read().unwrap();
    let table = txn.table(format!("lost page {}", root.page.0)).unwrap();
    let after = pairs(&txn, table);
    let missing = before.difference(&after).count();
    assert!(missing == 0 && case.report.losses.len() == 1, "{missing} {:?}", case.report.losses);
}

#[test]
fn without_meta_records_the_newest_catalog_is_found() {
    let clean = bytes_of_filled();
    let bytes = with(&clean, |bytes| bytes[..3 * PAGE].fill(0));
    let case = Case::new(&bytes);
    assert_eq!(case.report.commit, None);
    assert!(case.contents() == contents_of(&clean));
    let [loss] = &case.report.losses[..] else { panic!("{:#?}", case.report.losses) };
    assert!(loss.reason.contains("meta records"));
}

#[test]
fn without_a_catalog_the_trees_are_found() {
    let clean = bytes_of_filled();
    let all = contents_of(&clean);
    let catalog = newest(&clean).catalog.page.0;
    let bytes = with(&clean, |bytes| {
        page_mut(bytes, catalog)[PAGE - 1] ^= 1;
        // All records name the newest commit, so that no older one is read in its place.
        let newest = newest(bytes);
        for slot in 0..3 {
            let at = slot as usize * PAGE;
            let record = newest.encode(slot);
            bytes[at..at + record.len()].copy_from_slice(&record);
        }
        edit_meta(bytes, |_| {});
    });
    let case = Case::new(&bytes);
    assert!(case.report.losses.iter().any(|loss| loss.page == Some(u64::from(catalog))));
    // Under whatever name: each entry is in some table.
    let txn = Store::open(case.folder.path().join("new")).unwrap().begin_read().unwrap();
    let mut found = Pairs::new();
    for info in txn.tables().unwrap() {
        let options = kinds().into_iter().find(|(name, _)| name.as_bytes() == info.name);
        let table = match options {
            Some((_, options)) => txn.table_with(&info.name, &options),
            None => txn.table(&info.name),
        };
        found.append(&mut pairs(&txn, table.unwrap()));
    }
    for (name, pairs) in &all {
        let missing = pairs.difference(&found).count();
        assert!(missing == 0, "{name}: {missing} of {} entries are not found", pairs.len());
    }
}

#[test]
fn what_is_no_store_is_refused_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let salvage = || Store::salvage(&old, &new, &Interrupt::default(), &mut |_, _| {});
    assert!(matches!(salvage(), Err(Error::Path { .. })));
    std::fs::write(&old, vec![7; 50_000]).unwrap();
    assert!(matches!(salvage(), Err(Error::NotAStore { .. })));
    assert!(!new.exists());
    std::fs::write(&old, bytes_of_filled()).unwrap();
    std::fs::write(&new, b"something").unwrap();
    assert!(matches!(salvage(), Err(Error::Path { .. })));
    assert_eq!(std::fs::read(&new).unwrap(), b"something");
    std::fs::remove_file(&new).unwrap();
    let interrupt = Interrupt::default();
    interrupt.set(true);
    let stopped = Store::salvage(&old, &new, &interrupt, &mut |_, _| {});
    assert!(matches!(stopped, Err(Error::Interrupted)) && !new.exists());
}
