//! Long readers while writers churn: how long the file gets.
//!
//! The bound that is checked: a page stays in use only for a snapshot that a reader can still see.
//! So with at most `r` read transactions held at a time, and live data of `n` pages, the file holds
//! the newest and the newest durable commit and at most `r` older ones, all of them whole. That
//! takes `(r + 2) × n` pages, plus what the free space itself and growth ahead of need take,
//! however many commits are made. And each reader that holds pages is named.

use std::sync::Arc;

use hedgerow::Durability;
use hedgerow::os::sim::{self, SimSystem};
use hedgerow::tree::{ReadTxn, Store, TableOptions};

use crate::rng::Rng;

/// Entries of the table, all of which are overwritten again and again.
const ENTRIES: u64 = 2000;
/// Pages besides those of snapshots: catalog, free-space trees, growth ahead of need.
const MORE_PAGES: u64 = 400;

/// How a seed went.
#[derive(Clone, Debug, Default)]
pub struct ReadersReport {
    /// The seed.
    pub seed: u64,
    /// Commits that were made.
    pub commits: u64,
    /// Pages of the live data when they were most.
    pub live_pages: u64,
    /// Read transactions when they were most.
    pub held: u64,
    /// Pages of the file when they were most.
    pub file_pages: u64,
    /// The greatest part of the bound that the file took, in percent.
    pub percent_of_bound: u64,
    /// Of those, pages that were free at the end, and pages that a snapshot held.
    pub free_and_pinned: (u64, u64),
    /// Commits that the longest reader outlived.
    pub longest: u64,
    /// What was wrong.
    pub violations: Vec<String>,
}

/// Runs one seed for `commits` commits, with at most `held_max` read transactions at a time.
pub fn readers_seed(seed: u64, commits: u64, held_max: usize) -> ReadersReport {
    let mut report = ReadersReport { seed, ..ReadersReport::default() };
    if let Err(error) = churn(seed, commits, held_max, &mut report) {
        report.violations.push(error.to_string());
    }
    report
}

fn churn(
    seed: u64,
    commits: u64,
    held_max: usize,
    report: &mut ReadersReport,
) -> hedgerow::Result<()> {
    let disk = SimSystem::new(seed, sim::Config::default());
    let store = Store::builder().system(Arc::new(disk)).create("/disk/store")?;
    let mut rng = Rng::new(seed, 41);
    fill(&store)?;
    // The first one is held to the end.
    let mut held = Vec::new();
    if held_max > 0 {
        held.push(store.begin_read()?);
    }
    for commit in 0..commits {
        let mut txn = store.begin_write()?;
        let table = txn.create_table("t", &TableOptions::new())?;
        for _ in 0..rng.pick(&[1, 10, 100, 400]) {
            let key = rng.below(ENTRIES).to_be_bytes();
            let len = rng.between(100, 200);
            txn.put(table, &key, &vec![commit as u8; len])?;
        }
        txn.commit_with(rng.pick(&[Durability::Durable, Durability::None]))?;
        if rng.chance(1, 10) && held.len() > 1 {
            held.swap_remove(rng.between(1, held.len() - 1));
        }
        if rng.chance(1, 10) && held.len() < held_max {
            held.push(store.begin_read()?);
        }
        report.commits += 1;
        look(&store, &held, report)?;
    }
    if let (Some(first), newest) = (held.first(), store.begin_read()?) {
        report.longest = newest.id() - first.id();
    }
    let stat = store.stat()?;
    report.free_and_pinned = (stat.free_pages, stat.pinned_pages);
    drop(held);
    let left = store.readers()?;
    if !left.is_empty() {
        report.violations.push(format!("readers are left: {left:?}"));
    }
    let problems = store.check(&mut |_, _| {})?.problems;
    report.violations.extend(problems);
    Ok(())
}

fn fill(store: &Store) -> hedgerow::Result<()> {
    let mut txn = store.begin_write()?;
    let table = txn.create_table("t", &TableOptions::new())?;
    for key in 0..ENTRIES {
        txn.put(table, &key.to_be_bytes(), &[0; 150])?;
    }
    txn.commit()
}

/// Holds the file against its bound, and the list of readers against those that there are.
fn look(store: &Store, held: &[ReadTxn], report: &mut ReadersReport) -> hedgerow::Result<()> {
    let stat = store.stat()?;
    let live = &stat.table_pages;
    let live = live.branch_pages + live.leaf_pages + live.overflow_pages;
    report.live_pages = report.live_pages.max(live);
    let pages = stat.file_bytes / u64::from(stat.page_size);
    report.file_pages = report.file_pages.max(pages);
    // What was needed once is free now, and stays in the file.
    report.held = report.held.max(held.len() as u64);
    let bound = (report.held + 2) * report.live_pages + MORE_PAGES;
    report.percent_of_bound = report.percent_of_bound.max(100 * pages / bound);
    if pages > bound && report.violations.is_empty() {
        let what = format!(
            "after {} commits the file has {pages} pages ({} up to the end, {} free, {} pinned, {} \
             of its own), at most {bound} for {} readers of {live} pages; readers: {:?}",
            report.commits,
            stat.pages,
            stat.free_pages,
            stat.pinned_pages,
            stat.own_pages,
            report.held,
            stat.holders.readers,
        );
        report.violations.push(what);
    }
    let mut named: Vec<u64> = stat.holders.readers.iter().map(|reader| reader.commit).collect();
    let mut expected: Vec<u64> = held.iter().map(ReadTxn::id).collect();
    named.sort_unstable();
    expected.sort_unstable();
    let is_this = stat.holders.readers.iter().all(|reader| reader.process == std::process::id());
    if (named != expected || !is_this) && report.violations.is_empty() {
        let what = format!("readers of {expected:?} are listed as {:?}", stat.holders.readers);
        report.violations.push(what);
    }
    Ok(())
}
