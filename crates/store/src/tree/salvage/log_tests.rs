//! Stores after a power cut, whose newest commits stand in the redo log only.

use std::sync::Arc;

use super::*;
use crate::os::sim::{Config, CrashMode, SimSystem};
use crate::tree::check::tests::PAGE;
use crate::tree::log::RECORD_ALIGN;
use crate::tree::log::header::{MAGIC, MAGIC_OFFSET};
use crate::tree::{Snapshot, TableOptions};

const PATH: &str = "/disk/store";
const KEYS: u32 = 3000;

/// A store on a simulated disk, and which commit wrote each key last.
struct Logged {
    disk: SimSystem,
    store: Store,
    model: Vec<u32>,
    commits: u32,
}

impl Logged {
    fn new(seed: u64) -> Self {
        let disk = SimSystem::new(seed, Config::default());
        let builder = Store::builder().system(Arc::new(disk.clone())).log_size(4 << 20);
        let store = builder.open_or_create(PATH).unwrap();
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("t", &TableOptions::new()).unwrap();
        for key in 0..KEYS {
            txn.put(table, &key.to_be_bytes(), &value(0)).unwrap();
        }
        txn.commit().unwrap();
        Self { disk, store, model: vec![0; KEYS as usize], commits: 0 }
    }

    fn commit(&mut self, durability: Durability) {
        self.commits += 1;
        let mut txn = self.store.begin_write().unwrap();
        let table = txn.table("t").unwrap();
        for i in 0..12 {
            let key = (self.commits * 977 + i * 199) % KEYS;
            txn.put(table, &key.to_be_bytes(), &value(self.commits)).unwrap();
            self.model[key as usize] = self.commits;
        }
        txn.commit_with(durability).unwrap();
    }

    /// The bytes of the file after a power cut.
    fn cut(&self, seed: u64, mode: CrashMode) -> Vec<u8> {
        self.disk.crash(seed, mode).content(PATH.as_ref()).unwrap()
    }
}

fn value(commit: u32) -> Vec<u8> {
    let mut value = vec![commit as u8; 100];
    value[..4].copy_from_slice(&commit.to_be_bytes());
    value
}

/// What was salvaged: of each key the commit that wrote it, if it is there.
fn salvaged(bytes: &[u8]) -> (Vec<Option<u32>>, SalvageReport) {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    std::fs::write(&old, bytes).unwrap();
    let report = Store::salvage(&old, &new, &Interrupt::default(), &mut |_, _| {}).unwrap();
    assert_eq!(std::fs::read(&old).unwrap(), bytes, "the old file was written");
    let names = std::fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["new", "new-lock", "old"], "something was left");
    let store = Store::open(&new).unwrap();
    assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
    let txn = store.begin_read().unwrap();
    let found = |key: u32| {
        let table = txn.table("t").ok()?;
        let bytes = txn.get(table, &key.to_be_bytes()).unwrap()?.to_vec();
        let commit = u32::from_be_bytes(bytes[..4].try_into().unwrap());
        assert_eq!(bytes, value(commit));
        Some(commit)
    };
    ((0..KEYS).map(found).collect(), report)
}

fn all(model: &[u32]) -> Vec<Option<u32>> {
    model.iter().copied().map(Some).collect()
}

/// Whether a lost range covers a key.
fn is_told(report: &SalvageReport, key: u32) -> bool {
    let key = key.to_be_bytes();
    report.losses.iter().any(|loss| {
        let from = loss.from.as_deref().is_none_or(|from| &key[..] >= from);
        let to = loss.to.as_deref().is_none_or(|to| &key[..] <= to);
        loss.table == b"t" && from && to
    })
}

/// Where records of the log stand.
fn records(bytes: &[u8]) -> Vec<usize> {
    let places = (0..bytes.len()).step_by(RECORD_ALIGN as usize);
    let magic = MAGIC.to_le_bytes();
    places.filter(|at| bytes[at + MAGIC_OFFSET..].starts_with(&magic)).collect()
}

#[test]
fn what_stands_in_the_log_comes_over() {
    for (seed, mode) in (0..).zip(CrashMode::ALL) {
        let mut logged = Logged::new(seed);
        (0..150).for_each(|_| logged.commit(Durability::Durable));
        let bytes = logged.cut(seed, mode);
        let (found, report) = salvaged(&bytes);
        assert_eq!(report.losses, [], "{mode:?}");
        assert!(found == all(&logged.model), "{mode:?}: {report:?}");
        let log = report.log.unwrap();
        assert!(log.records > 20 && log.apart + log.unused == 0, "{mode:?}: {log:?}");
        assert_eq!(report.commit, Some(log.commit));
        assert_eq!(report.filled, None);
    }
}

#[test]
fn with_a_damaged_page_all_else_of_the_log_comes_over() {
    let mut logged = Logged::new(7);
    (0..150).for_each(|_| logged.commit(Durability::Durable));
    let clean = logged.cut(1, CrashMode::LoseAll);
    let sound = |no: &usize| {
        let page = &clean[no * PAGE..(no + 1) * PAGE];
        let page = crate::tree::page::checked(page, *no as u32, u32::MAX);
        page.is_ok_and(|page| page.is_leaf())
    };
    let leaves: Vec<usize> = (3..clean.len() / PAGE).filter(sound).collect();
    assert!(leaves.len() > 30);
    let mut lost = 0;
    for no in leaves.into_iter().step_by(9) {
        let mut bytes = clean.clone();
        bytes[no * PAGE + PAGE - 40] ^= 1;
        let (found, report) = salvaged(&bytes);
        assert!(report.log.is_some(), "page {no}: {report:#?}");
        for key in 0..KEYS {
            let is_there = found[key as usize] == Some(logged.model[key as usize]);
            lost += u32::from(!is_there);
            assert!(is_there || is_told(&report, key), "page {no}, key {key}: {report:?}");
        }
    }
    assert!(lost > 0 && lost < KEYS, "{lost} lost");
}

#[test]
fn with_the_durable_meta_record_damaged_the_log_comes_over() {
    for seed in 0..3 {
        let mut logged = Logged::new(seed);
        (0..60).for_each(|_| logged.commit(Durability::Durable));
        logged.store.sync().unwrap();
        let durable = logged.store.inner.durable_number();
        (0..60).for_each(|_| logged.commit(Durability::Durable));
        let mut bytes = logged.cut(seed, CrashMode::LoseAll);
        let mut damaged = 0;
        for slot in 0..3 {
            let meta = Meta::decode(&bytes[slot * PAGE..], slot as u32);
            if meta.is_ok_and(|meta| meta.txn == durable) {
                bytes[slot * PAGE..][..PAGE].fill(0);
                damaged += 1;
            }
        }
        assert!((1..3).contains(&damaged), "{damaged} meta records are of the durable commit");
        let (found, report) = salvaged(&bytes);
        let log = report.log.unwrap();
        assert!(log.records + log.apart > 40, "{log:?}");
        assert!(found == all(&logged.model), "{log:?} {:#?}", report.losses);
    }
}

#[test]
fn a_damaged_record_costs_no_commit_before_it() {
    for seed in 0..4 {
        let mut logged = Logged::new(seed);
        (0..40).for_each(|_| logged.commit(Durability::Durable));
        let (before, middle) = (logged.model.clone(), logged.store.inner.latest_number());
        (0..40).for_each(|_| logged.commit(Durability::Durable));
        let mut bytes = logged.cut(seed, CrashMode::LoseAll);
        let commit_of = |at: &usize| crate::coding::u64_at(&bytes[*at..], 16);
        let first = records(&bytes).into_iter().filter(|at| commit_of(at) > middle).min().unwrap();
        bytes[first + 80] ^= 0x55;
        let (found, report) = salvaged(&bytes);
        let log = report.log.clone().unwrap();
        assert!(log.records > 20 && log.apart + log.unused == 39, "{log:?}");
        let told = |loss: &Loss| loss.reason.contains("redo log is damaged after commit");
        assert!(report.losses.iter().any(told), "{:#?}", report.losses);
        for key in 0..KEYS as usize {
            let found = found[key].unwrap_or_else(|| panic!("key {key}: {:#?}", report.losses));
            assert!((before[key]..=logged.model[key]).contains(&found), "key {key}");
        }
    }
}

#[test]
fn what_an_unflushed_commit_lost_is_filled_with_the_durable_one() {
    for (seed, mode) in (0..).zip(CrashMode::ALL.into_iter().cycle().take(15)) {
        let mut logged = Logged::new(seed);
        (0..40).for_each(|_| logged.commit(Durability::Durable));
        let durable = logged.model.clone();
        (0..10).for_each(|_| logged.commit(Durability::None));
        let (found, report) = salvaged(&logged.cut(seed, mode));
        for key in 0..KEYS as usize {
            let range = durable[key]..=logged.model[key];
            let is_there = found[key].is_some_and(|found| range.contains(&found));
            assert!(is_there, "{mode:?}, key {key}: {:?} {range:?} {report:#?}", found[key]);
        }
    }
}
