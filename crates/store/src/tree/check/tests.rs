//! Check finds nothing wrong with what the engine wrote, and everything that is planted.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::*;
use crate::coding::put_u64;
use crate::tree::meta::META_LEN;
use crate::tree::page::{PageMut, seal};
use crate::tree::snapshot::sealed::Sealed;
use crate::tree::{Count, Duplicates, Order, Snapshot, TableOptions};

/// Numbers without a pattern.
pub(crate) fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

pub(crate) fn by_length() -> Order {
    Order::custom("length", |a, b| a.len().cmp(&b.len()).then(a.cmp(b)))
}

/// Tables of every kind.
pub(crate) fn kinds() -> Vec<(&'static str, TableOptions)> {
    let any = |order| Duplicates::Any { order };
    vec![
        ("plain", TableOptions::new()),
        ("reverse", TableOptions::new().order(Order::Reverse)),
        ("integer", TableOptions::new().order(Order::Integer)),
        ("custom", TableOptions::new().order(by_length())),
        ("long keys", TableOptions::new()),
        ("long reverse", TableOptions::new().order(Order::Reverse)),
        ("duplicates", TableOptions::new().duplicates()),
        ("fixed", TableOptions::new().fixed_duplicates(8)),
        ("reversed values", TableOptions::new().duplicates_in(any(Order::Reverse))),
        ("integer values", TableOptions::new().duplicates_in(any(Order::Integer))),
        ("custom values", TableOptions::new().duplicates_in(any(by_length()))),
        ("long duplicates", TableOptions::new().duplicates()),
        ("whole", TableOptions::new().prefix_compression(false)),
        ("whole duplicates", TableOptions::new().duplicates().prefix_compression(false)),
        ("dense", TableOptions::new().prefix_compression(false).aligned(false)),
        ("dense duplicates", {
            TableOptions::new().duplicates().prefix_compression(false).aligned(false)
        }),
        ("headless", {
            TableOptions::new().order(by_length()).prefix_compression(false).aligned(false)
        }),
        ("headless duplicates", {
            let options = TableOptions::new().order(by_length()).duplicates();
            options.prefix_compression(false).aligned(false)
        }),
    ]
}

/// Entry `n` of a table of this kind.
pub(crate) fn entry(kind: &str, n: u64) -> (Vec<u8>, Vec<u8>) {
    let r = mix(n);
    let spread = format!("key {:06}", r % 100_000).into_bytes();
    let few = format!("key {:03}", r % 17).into_bytes();
    match kind {
        "integer" => (r.to_le_bytes().to_vec(), vec![7; n as usize % 90]),
        "long keys" | "long reverse" => {
            let mut key = vec![b'k'; 700 + (r % 300) as usize];
            let at = if kind == "long keys" { 600 } else { 30 };
            key[at..at + 6].copy_from_slice(format!("{:06}", r % 100_000).as_bytes());
            key[0] = b'a' + (r % 3) as u8;
            *key.last_mut().unwrap() = b'a' + (r % 3) as u8;
            (key, vec![1; (r % 9000) as usize])
        }
        "fixed" | "integer values" => (few, r.to_le_bytes().to_vec()),
        "duplicates"
        | "reversed values"
        | "custom values"
        | "whole duplicates"
        | "dense duplicates"
        | "headless duplicates" => (few, format!("value {}", r % 10_000).into_bytes()),
        "long duplicates" => {
            let mut key = vec![b'd'; 900];
            key[0] = b'a' + (r % 5) as u8;
            (key, format!("a value of some length {:09}", r % 1_000_000).into_bytes())
        }
        _ if n.is_multiple_of(50) => (spread, vec![b'v'; (r % 60_000) as usize]),
        _ => (spread, format!("value {n}").into_bytes()),
    }
}

/// A store with tables of every kind, changed in a few commits.
pub(crate) fn filled(folder: &Path) -> Store {
    let store = Store::create(folder.join("store")).unwrap();
    for round in 0..6_u64 {
        let mut txn = store.begin_write().unwrap();
        for (kind, options) in kinds() {
            let table = txn.create_table(kind, &options).unwrap();
            for n in round * 700..(round + 1) * 700 {
                let (key, value) = entry(kind, n);
                txn.put(table, &key, &value).unwrap();
                if n % 3 == 0 {
                    let (key, value) = entry(kind, mix(n) % (n + 1));
                    txn.delete_pair(table, &key, &value).unwrap();
                }
                if n % 97 == 0 {
                    txn.delete(table, &entry(kind, mix(n) % (n + 1)).0).unwrap();
                }
            }
        }
        txn.commit().unwrap();
        let report = store.check(&mut |_, _| {}).unwrap();
        assert_eq!(report.problems, Vec::<String>::new(), "round {round}");
    }
    store
}

#[test]
fn places_in_tables_of_every_kind_are_those_of_a_scan() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let txn = store.begin_read().unwrap();
    for (kind, options) in kinds() {
        let table = txn.table_with(kind, &options).unwrap();
        let (mut keys, mut last) = (0, None);
        for (values, entry) in txn.range(table, ..).unwrap().enumerate() {
            let key = entry.unwrap().key.to_vec();
            if last.as_ref() == Some(&key) {
                continue;
            }
            let before = txn.count_range(table, ..&key[..]).unwrap();
            assert_eq!((before.keys, before.values), (keys, values as u64), "{kind} {key:?}");
            let rank = txn.rank(table, &key).unwrap();
            assert_eq!((rank.keys, rank.found), (keys, true), "{kind} {key:?}");
            assert!(txn.get(table, &key).unwrap().is_some(), "{kind} {key:?}");
            (keys, last) = (keys + 1, Some(key));
        }
        assert_eq!(txn.count(table).unwrap().keys, keys, "{kind}");
    }
}

/// The bytes of a store that was closed.
pub(crate) fn bytes_of_filled() -> Vec<u8> {
    static FILLED: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    let fill = || {
        let folder = tempfile::tempdir().unwrap();
        drop(filled(folder.path()));
        std::fs::read(folder.path().join("store")).unwrap()
    };
    FILLED.get_or_init(fill).clone()
}

/// A file of these bytes in a folder, in place of one that is there: the system's memory for that
/// one is used again, which takes a fraction of the time.
pub(crate) fn written(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("store");
    let mut file = File::options().write(true).create(true).truncate(false).open(&path).unwrap();
    file.write_all(bytes).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    path
}

/// What check says of a file of these bytes.
pub(crate) fn problems_of(bytes: &[u8]) -> Vec<String> {
    problems_in(tempfile::tempdir().unwrap().path(), bytes)
}

/// The same in a folder that many such files are written to.
fn problems_in(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let store = Store::open(written(folder, bytes)).unwrap();
    store.check(&mut |_, _| {}).unwrap().problems
}

pub(crate) const PAGE: usize = 4096;

pub(crate) fn metas(bytes: &[u8]) -> impl Iterator<Item = (u32, Meta)> {
    (0..3).filter_map(|slot| {
        let at = slot as usize * PAGE;
        Meta::decode(&bytes[at..at + META_LEN], slot).ok().map(|meta| (slot, meta))
    })
}

pub(crate) fn newest(bytes: &[u8]) -> Meta {
    metas(bytes).map(|(_, meta)| meta).max_by_key(|meta| meta.txn).unwrap()
}

/// Changes the newest record.
pub(crate) fn edit_meta(bytes: &mut [u8], edit: impl Fn(&mut Meta)) {
    let txn = newest(bytes).txn;
    let found: Vec<_> = metas(bytes).filter(|(_, meta)| meta.txn == txn).collect();
    for (slot, mut meta) in found {
        edit(&mut meta);
        let at = slot as usize * PAGE;
        bytes[at..at + META_LEN].copy_from_slice(&meta.encode(slot));
    }
}

pub(crate) fn page_mut(bytes: &mut [u8], no: PageNo) -> &mut [u8] {
    &mut bytes[no as usize * PAGE..(no as usize + 1) * PAGE]
}

/// Changes a page and repairs its checksum.
pub(crate) fn edit_page(bytes: &mut [u8], no: PageNo, edit: impl FnOnce(&mut [u8])) {
    let page = page_mut(bytes, no);
    edit(page);
    seal(page, no);
}

/// The root of a table.
pub(crate) fn root_of(bytes: &[u8], name: &str) -> Root {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    std::fs::write(&path, bytes).unwrap();
    let txn = Store::open(&path).unwrap().begin_read().unwrap();
    crate::tree::catalog::root_of(&txn.pages, &txn.catalog(), name.as_bytes()).unwrap().unwrap()
}

/// The page that is reached by these slots from the root.
pub(crate) fn page_at(bytes: &mut [u8], root: &Root, slots: &[usize]) -> PageNo {
    slots
        .iter()
        .fold(root.page.0, |no, slot| PageMut::new(page_mut(bytes, no)).view().child(*slot).0)
}

/// Exchanges heads and offsets of two slots.
pub(crate) fn swap_slots(page: &mut [u8], a: usize, b: usize) {
    let (heads, offsets, step) = {
        let editor = PageMut::new(page);
        let (view, heads) = (editor.view(), editor.view().heads_at());
        (heads, heads + (view.slot_len() - view.step()) * view.len(), view.step())
    };
    for i in 0..4 {
        page.swap(heads + 4 * a + i, heads + 4 * b + i);
    }
    for i in 0..step {
        page.swap(offsets + step * a + i, offsets + step * b + i);
    }
}

#[track_caller]
fn assert_named(bytes: &[u8], wanted: &str) {
    let problems = problems_of(bytes);
    assert!(problems.iter().any(|p| p.contains(wanted)), "{wanted:?} is not in {problems:#?}");
}

#[test]
fn stores_that_the_engine_wrote_are_clean() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let mut last = (0, 0);
    let report = store.check(&mut |done, all| last = (done, all)).unwrap();
    assert!(report.pages > 1000 && report.entries > 10_000, "{report:?}");
    assert_eq!(last.0, last.1);
    let mut txn = store.begin_write().unwrap();
    for (kind, options) in kinds() {
        let table = txn.create_table(kind, &options).unwrap();
        if kind.starts_with("long") {
            txn.clear_table(table).unwrap();
        } else {
            txn.drop_table(kind).unwrap();
        }
    }
    txn.commit().unwrap();
    assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
}

/// The bytes, edited.
pub(crate) fn with(clean: &[u8], edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = clean.to_vec();
    edit(&mut bytes);
    bytes
}

/// One leaf less: the entries of the others are there, and are counted.
#[test]
fn entries_of_sound_leaves_are_counted() {
    let report_of = |bytes: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        std::fs::write(&path, bytes).unwrap();
        Store::open(&path).unwrap().check(&mut |_, _| {}).unwrap()
    };
    let clean = bytes_of_filled();
    let whole = report_of(&clean);
    let root = root_of(&clean, "plain");
    let mut lost = Count::default();
    let damaged = with(&clean, |bytes| {
        let leaf = page_at(bytes, &root, &vec![0; usize::from(root.level)]);
        let page = page_mut(bytes, leaf);
        lost = PageMut::new(page).view().leaf_count(false);
        page[100] ^= 1;
    });
    let report = report_of(&damaged);
    assert!(lost.values > 0 && !report.problems.is_empty());
    assert_eq!(report.entries, whole.entries - lost.values);
}

#[test]
fn damage_inside_of_pages_is_named() {
    let clean = bytes_of_filled();
    assert_eq!(problems_of(&clean), Vec::<String>::new());
    let root = root_of(&clean, "plain");
    assert!(root.level > 0);
    let leaf_slots = vec![0; usize::from(root.level)];

    let counter = with(&clean, |bytes| {
        edit_page(bytes, root.page.0, |page| {
            PageMut::new(page).add_child_count(1, Count { keys: 1, values: 1 });
        });
    });
    assert_named(&counter, "below child 1");

    let order = with(&clean, |bytes| {
        let leaf = page_at(bytes, &root, &leaf_slots);
        edit_page(bytes, leaf, |page| swap_slots(page, 1, 2));
    });
    assert_named(&order, "the key of slot 2 is not after the one before");

    let head = with(&clean, |bytes| {
        let leaf = page_at(bytes, &root, &leaf_slots);
        edit_page(bytes, leaf, |page| {
            let at = PageMut::new(page).view().heads_at() + 4;
            page[at] ^= 1;
        });
    });
    assert_named(&head, "the head of slot 1");

    let separator = with(&clean, |bytes| {
        let mut slots = leaf_slots.clone();
        slots.pop();
        let branch = page_at(bytes, &root, &slots);
        edit_page(bytes, branch, |page| swap_slots(page, 1, 2));
    });
    assert_named(&separator, "before the separator that leads to it");
    assert_named(&separator, "is not after what stands before it");
}

#[test]
fn a_wrong_continues_flag_is_named() {
    let clean = bytes_of_filled();
    let fixed = root_of(&clean, "fixed");
    assert!(fixed.level > 0);
    let mut children = vec![0; usize::from(fixed.level)];
    let mut continued = None;
    for slot in 0..30 {
        *children.last_mut().unwrap() = slot;
        let mut bytes = clean.clone();
        let leaf = page_at(&mut bytes, &fixed, &children);
        if PageMut::new(page_mut(&mut bytes, leaf)).view().continues() {
            continued = Some(leaf);
            break;
        }
    }
    let leaf = continued.unwrap();
    let unsaid = with(&clean, |bytes| {
        edit_page(bytes, leaf, |page| {
            PageMut::new(page).set_flag(crate::tree::page::CONTINUES, false);
        });
    });
    assert_named(&unsaid, "goes on unsaid");
}

#[test]
fn wrong_use_of_pages_is_named() {
    let clean = bytes_of_filled();
    let root = root_of(&clean, "plain");
    let leaf_slots = vec![0; usize::from(root.level)];
    let txn = newest(&clean).txn;

    let twice = with(&clean, |bytes| {
        edit_page(bytes, root.page.0, |page| {
            let mut page = PageMut::new(page);
            let first = page.view().child(0);
            page.set_child(1, first);
        });
    });
    assert_named(&twice, "used twice");

    let lost = with(&clean, |bytes| edit_meta(bytes, |meta| meta.end += 1));
    let mut lost = lost;
    lost.resize(lost.len() + PAGE, 0);
    assert_named(&lost, "lost: 1 pages");

    let overlap = with(&clean, |bytes| {
        edit_meta(bytes, |meta| {
            let run = Run { start: root.page.0, len: 1 };
            meta.recent.push(FreeRun { run, birth: 0, freed: 0 });
        });
    });
    assert_named(&overlap, "noted as free, but in use");

    let birth = with(&clean, |bytes| {
        let leaf = page_at(bytes, &root, &leaf_slots);
        edit_page(bytes, leaf, |page| PageMut::new(page).set_birth(txn + 1));
    });
    assert_named(&birth, "written by commit");

    let ready = with(&clean, |bytes| edit_meta(bytes, |meta| meta.free.ready += 1));
    assert_named(&ready, "ready free pages");
    let catalog = with(&clean, |bytes| edit_meta(bytes, |meta| meta.catalog.count.keys += 1));
    assert_named(&catalog, "the catalog is said to have");
}

#[test]
fn wrong_counts_in_the_catalog_are_named() {
    let mut bytes = bytes_of_filled();
    let catalog = newest(&bytes).catalog;
    assert_eq!(catalog.level, 0);
    let wanted = ["keys", "values", "branch pages", "leaf pages", "overflow pages"];
    for (i, what) in wanted.into_iter().enumerate() {
        let clean = bytes.clone();
        edit_page(&mut bytes, catalog.page.0, |page| {
            let mut page = PageMut::new(page);
            let slot = 0;
            let len = page.view().record(slot).inline_value().len();
            let record = page.value_of_len(slot, len).unwrap();
            put_u64(record, 8 + 8 * i, 77_777);
        });
        assert_named(&bytes, &format!("is said to have 77777 {what}"));
        bytes = clean;
    }
}

#[test]
fn no_flipped_byte_in_a_used_page_is_missed() {
    let clean = bytes_of_filled();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(written(folder.path(), &clean)).unwrap();
    let txn = store.begin_read().unwrap();
    let meta = &txn.meta.meta;
    let mut ignore = |_, _| {};
    let mut checker = Checker::new(&store.inner.pages, meta, &mut ignore);
    checker.trees(meta).unwrap();
    let used: Vec<PageNo> =
        (FIRST_PAGE..meta.end).filter(|no| checker.used.contains(*no)).collect();
    let damaged = tempfile::tempdir().unwrap();
    for i in 0..60_u64 {
        let no = used[(mix(i) % used.len() as u64) as usize];
        let at = no as usize * PAGE + (mix(i + 1000) % PAGE as u64) as usize;
        let mut bytes = clean.clone();
        bytes[at] ^= 1 << (i % 8);
        assert!(!problems_in(damaged.path(), &bytes).is_empty(), "byte {at} of page {no}");
    }
}
