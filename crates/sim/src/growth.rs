//! How long the file gets under values that are put, replaced and deleted again and again.
//!
//! This bound is checked after each transaction of each kind of work: the store is never longer
//! than one and a half times what it needs, plus a constant. It needs
//! - the pages in use, at the time when they were most;
//! - the pages that the two largest transactions changed, because a transaction writes beside what
//!   it replaces, and what it replaces is free after the next commit only;
//! - if there are readers, what snapshots older than the newest commit hold.
//!
//! The stores have no log: with a log, pages that were replaced since the last checkpoint come on
//! top.
//!
//! A kind of work ([`Kind`]) is data: a generator of steps. The same steps drive the
//! log-structured engine in [`crate::lsm::growth`].

use std::collections::VecDeque;
use std::sync::Arc;

use hedgerow::Durability;
use hedgerow::os::sim::{self, SimSystem};
use hedgerow::tree::{ReadTxn, Store, StoreStat, Table, TableOptions, WriteTxn};

use crate::rng::Rng;

/// The page size of all stores here.
pub(crate) const PAGE: u64 = 4096;
/// Pages besides those that the law multiplies: free-space trees, growth ahead of need.
const MORE_PAGES: u64 = 96;
/// The longest value.
const LONGEST: usize = 64 * PAGE as usize;
/// How many keys a kind of work has, where they are replaced.
const KEYS: u64 = 100;
/// After every this many transactions the store is checked.
const LOOK: u64 = 8;
/// How often the curve is drawn.
pub(crate) const POINTS: u64 = 20;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Values of 1 to 16 pages, several replaced in a transaction.
    Pages,
    /// Values of nothing up to 64 pages, a quarter each below 100 bytes, 1, 4 and 64 pages.
    Mixed,
    /// Put at the back, deleted at the front.
    Queue,
    /// One value at a time, of one to three pages; it is deleted when the next one has been put.
    Ring,
    /// Values that nested transactions put, replace, and take back.
    Nested,
    /// Values that get longer with time, and short again.
    Ramp,
    /// Nine of ten transactions touch one of ten keys.
    Hot,
    /// Long values beside a table with duplicates.
    Duplicates,
    /// A large transaction now and then, small ones in between.
    Bulk,
    /// Short values only.
    Short,
    /// Keys up to 40 kB.
    LongKeys,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Pages,
        Self::Mixed,
        Self::Queue,
        Self::Ring,
        Self::Nested,
        Self::Ramp,
        Self::Hot,
        Self::Duplicates,
        Self::Bulk,
        Self::Short,
        Self::LongKeys,
    ];

    /// That of a seed.
    pub fn of_seed(seed: u64) -> Self {
        Self::ALL[(seed % Self::ALL.len() as u64) as usize]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Mixed => "mixed",
            Self::Queue => "queue",
            Self::Ring => "ring",
            Self::Nested => "nested",
            Self::Ramp => "ramp",
            Self::Hot => "hot",
            Self::Duplicates => "duplicates",
            Self::Bulk => "bulk",
            Self::Short => "short",
            Self::LongKeys => "long-keys",
        }
    }
}

/// What a transaction does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Puts a value of a length.
    Put(Vec<u8>, usize),
    /// Deletes a key.
    Delete(Vec<u8>),
    /// Adds a value of a length to a key of a table with duplicates.
    Add(u64, usize),
    /// Deletes a key of the table with duplicates, with all its values.
    Clear(u64),
    /// Begins a nested transaction.
    Begin,
    /// Ends it and keeps what it did.
    Keep,
    /// Ends it and takes back what it did.
    Undo,
}

/// Makes the transactions of a kind of work.
pub struct Work {
    kind: Kind,
    rng: Rng,
    transaction: u64,
    queue: VecDeque<u64>,
}

impl Work {
    /// Work of a kind, from a seed.
    pub fn new(kind: Kind, seed: u64) -> Self {
        Self { kind, rng: Rng::new(seed, 57), transaction: 0, queue: VecDeque::new() }
    }

    /// The steps of the next transaction.
    pub fn next_transaction(&mut self) -> Vec<Step> {
        self.transaction += 1;
        match self.kind {
            Kind::Pages => self.replace(5, |rng| pages_long(rng.between(1, 16))),
            Kind::Mixed => self.replace(4, mixed),
            Kind::Queue => self.queue(),
            Kind::Ring => {
                let len = pages_long(self.rng.between(1, 3));
                let last = Step::Delete(key_of(self.transaction - 1));
                vec![Step::Put(key_of(self.transaction), len), last]
            }
            Kind::Nested => self.nested(),
            Kind::Ramp => {
                // Up to 48 pages and down again, in 2,000 transactions.
                let at = self.transaction % 2000;
                let pages = 1 + at.min(2000 - at) as usize * 48 / 1000;
                self.replace(3, move |rng| rng.between(1, pages * PAGE as usize))
            }
            Kind::Hot => {
                let keys = if self.rng.chance(9, 10) { KEYS / 10 } else { KEYS };
                let put = |rng: &mut Rng| Step::Put(key_of(rng.below(keys)), mixed(rng));
                (0..3).map(|_| put(&mut self.rng)).collect()
            }
            Kind::Duplicates => {
                let mut steps = self.replace(2, mixed);
                let key = self.rng.below(KEYS);
                let len = self.rng.between(1, 400);
                steps.extend((0..20).map(|_| Step::Add(key, len)));
                if self.rng.chance(1, 2) {
                    steps.push(Step::Clear(self.rng.below(KEYS)));
                }
                steps
            }
            Kind::Bulk if self.transaction.is_multiple_of(64) => {
                (0..KEYS / 2).map(|key| Step::Put(key_of(key * 2), mixed(&mut self.rng))).collect()
            }
            Kind::Bulk => self.replace(1, |rng| rng.between(0, 300)),
            Kind::Short => {
                let mut steps = Vec::new();
                for _ in 0..self.rng.pick(&[1, 10, 100]) {
                    let key = key_of(self.rng.below(100 * KEYS));
                    steps.push(match self.rng.chance(1, 3) {
                        true => Step::Delete(key),
                        false => Step::Put(key, self.rng.between(0, 300)),
                    });
                }
                steps
            }
            Kind::LongKeys => {
                let mut steps = Vec::new();
                for _ in 0..2 {
                    let number = self.rng.below(KEYS);
                    let mut key = vec![number as u8; self.rng.pick(&[30, 600, 5000, 40_000])];
                    key[0] = self.rng.below(4) as u8;
                    steps.push(match self.rng.chance(2, 5) {
                        true => Step::Delete(key),
                        false => Step::Put(key, mixed(&mut self.rng) / 4),
                    });
                }
                steps
            }
        }
    }

    /// Replaces `count` values, and deletes one now and then.
    fn replace(&mut self, count: usize, len: impl Fn(&mut Rng) -> usize) -> Vec<Step> {
        let rng = &mut self.rng;
        let step = |rng: &mut Rng| match rng.chance(1, 8) {
            true => Step::Delete(key_of(rng.below(KEYS))),
            false => Step::Put(key_of(rng.below(KEYS)), len(rng)),
        };
        (0..count).map(|_| step(rng)).collect()
    }

    fn queue(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for i in 0..self.rng.between(1, 4) as u64 {
            let number = 8 * self.transaction + i;
            self.queue.push_back(number);
            steps.push(Step::Put(key_of(number), mixed(&mut self.rng)));
        }
        while self.queue.len() > KEYS as usize {
            steps.extend(self.queue.pop_front().map(|number| Step::Delete(key_of(number))));
        }
        steps
    }

    /// One to eight nested transactions, some of them with one more inside.
    fn nested(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..self.rng.between(1, 8) {
            steps.push(Step::Begin);
            steps.extend(self.replace(2, mixed));
            if self.rng.chance(1, 3) {
                steps.push(Step::Begin);
                steps.extend(self.replace(2, mixed));
                steps.push(self.rng.pick(&[0, 1]).into());
                steps.extend(self.replace(1, mixed));
            }
            steps.push(self.rng.pick(&[0, 0, 1]).into());
        }
        steps
    }
}

impl From<usize> for Step {
    fn from(undo: usize) -> Self {
        if undo == 0 { Self::Keep } else { Self::Undo }
    }
}

/// A length that takes `pages` pages.
fn pages_long(pages: usize) -> usize {
    pages * PAGE as usize - 256
}

fn mixed(rng: &mut Rng) -> usize {
    let most = rng.pick(&[100, PAGE as usize, 4 * PAGE as usize, LONGEST]);
    rng.between(0, most)
}

fn key_of(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Pages that a transaction changes for its steps, in round figures: of long keys and values, and a
/// way from the root to a leaf for each step.
pub fn changed_pages(steps: &[Step]) -> u64 {
    let long = |len: usize| if len > PAGE as usize / 8 { len as u64 / PAGE + 1 } else { 0 };
    let pages = |step: &Step| match step {
        Step::Put(key, len) => long(key.len()) + long(*len) + 2,
        Step::Delete(_) | Step::Add(..) | Step::Clear(_) => 2,
        Step::Begin | Step::Keep | Step::Undo => 0,
    };
    4 + steps.iter().map(pages).sum::<u64>()
}

/// What the store was like after a number of transactions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    /// The transactions.
    pub transactions: u64,
    /// Pages in use.
    pub live: u64,
    /// Pages up to the end of the store.
    pub pages: u64,
    /// Free pages.
    pub free: u64,
    /// Free pages that a snapshot still holds.
    pub pinned: u64,
}

/// How a seed went.
#[derive(Clone, Debug)]
pub struct GrowthReport {
    /// The seed.
    pub seed: u64,
    /// What it did.
    pub kind: Kind,
    /// Whether there were readers.
    pub has_readers: bool,
    /// The curve.
    pub curve: Vec<Point>,
    /// The greatest length, in percent of what was needed then.
    pub percent: u64,
    /// What was wrong.
    pub violations: Vec<String>,
}

impl GrowthReport {
    /// The state of a seed that has not begun.
    pub(crate) fn new(seed: u64, kind: Kind, has_readers: bool) -> Self {
        Self { seed, kind, has_readers, curve: Vec::new(), percent: 0, violations: Vec::new() }
    }
}

/// Runs a seed for a number of transactions: the kind of work, durability and readers are the
/// seed's.
pub fn growth_seed(seed: u64, kind: Option<Kind>, transactions: u64) -> GrowthReport {
    let mut rng = Rng::new(seed, 58);
    let kind = kind.unwrap_or(Kind::of_seed(seed));
    let mut report = GrowthReport::new(seed, kind, rng.chance(1, 3));
    if let Err(error) = churn(rng, &mut report, transactions) {
        report.violations.push(error.to_string());
    }
    report
}

/// What the store needs, as the law has it.
#[derive(Default)]
struct Needed {
    live: u64,
    pinned: u64,
    /// The two largest transactions.
    changed: [u64; 2],
}

impl Needed {
    fn note_transaction(&mut self, pages: u64) {
        let [first, second] = &mut self.changed;
        if pages > *first {
            (*second, *first) = (*first, pages);
        } else if pages > *second {
            *second = pages;
        }
    }

    fn note(&mut self, point: &Point, has_readers: bool) {
        self.live = self.live.max(point.live);
        if has_readers {
            self.pinned = self.pinned.max(point.pinned);
        }
    }

    fn pages(&self) -> u64 {
        self.live + self.pinned + self.changed.iter().sum::<u64>()
    }
}

fn churn(mut rng: Rng, report: &mut GrowthReport, transactions: u64) -> hedgerow::Result<()> {
    let config = sim::Config { reserve: 1 << 30, ..sim::Config::default() };
    let disk = SimSystem::new(report.seed, config);
    let store = Store::builder().system(Arc::new(disk)).log_size(0).create("/disk/store")?;
    let (mut work, mut needed) = (Work::new(report.kind, report.seed), Needed::default());
    let mut held: Vec<ReadTxn> = Vec::new();
    // A seed is durable, not, or both in turns.
    let durability = rng.pick(&[
        &[Durability::Durable][..],
        &[Durability::None],
        &[Durability::Durable, Durability::None, Durability::Eventual],
    ]);
    for transaction in 1..=transactions {
        let steps = work.next_transaction();
        needed.note_transaction(changed_pages(&steps));
        let mut txn = store.begin_write()?;
        perform(&mut txn, &steps)?;
        txn.commit_with(rng.pick(durability))?;
        if report.has_readers {
            let most = rng.between(0, 3);
            held.truncate(held.len().min(most.max(1)));
            if rng.chance(1, 20) {
                held.push(store.begin_read()?);
            }
        }
        if transaction.is_multiple_of(LOOK) || transaction == transactions {
            look(&store.stat()?, transaction, transactions, &mut needed, report);
        }
    }
    drop(held);
    report.violations.extend(store.check(&mut |_, _| {})?.problems);
    Ok(())
}

/// Holds the store against the law.
fn look(
    stat: &StoreStat,
    transaction: u64,
    transactions: u64,
    needed: &mut Needed,
    report: &mut GrowthReport,
) {
    let tables = &stat.table_pages;
    let live = tables.branch_pages + tables.leaf_pages + tables.overflow_pages + stat.own_pages;
    let (free, pinned) = (stat.free_pages, stat.pinned_pages);
    let point = Point { transactions: transaction, live, pages: stat.pages, free, pinned };
    needed.note(&point, report.has_readers);
    let step = (transactions / POINTS / LOOK).max(1) * LOOK;
    if transaction.is_multiple_of(step) {
        report.curve.push(point);
    }
    report.percent = report.percent.max(100 * stat.pages / (needed.pages() + MORE_PAGES));
    let bound = needed.pages() * 3 / 2 + MORE_PAGES;
    if stat.pages > bound && report.violations.is_empty() {
        report.violations.push(format!(
            "after {transaction} transactions the store has {} pages, at most {bound}: {live} in \
             use (at most {}), {free} free, {pinned} pinned (at most {}); the largest transactions \
             changed {:?}",
            stat.pages, needed.live, needed.pinned, needed.changed
        ));
    }
}

/// Does the steps of a transaction.
fn perform(txn: &mut WriteTxn, steps: &[Step]) -> hedgerow::Result<()> {
    let values = txn.create_table("values", &TableOptions::new())?;
    let sets = txn.create_table("sets", &TableOptions::new().duplicates())?;
    let mut savepoints = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Begin => savepoints.push(txn.savepoint()?),
            Step::Keep => savepoints.pop().map_or(Ok(()), |savepoint| txn.release(savepoint))?,
            Step::Undo => {
                if let Some(savepoint) = savepoints.pop() {
                    txn.rollback_to(savepoint)?;
                    txn.release(savepoint)?;
                }
            }
            Step::Put(..) | Step::Delete(_) | Step::Add(..) | Step::Clear(_) => {
                change(txn, values, sets, step, i as u8)?;
            }
        }
    }
    Ok(())
}

fn change(
    txn: &mut WriteTxn,
    values: Table,
    sets: Table,
    step: &Step,
    fill: u8,
) -> hedgerow::Result<()> {
    match step {
        Step::Put(key, len) => txn.put(values, key, &vec![fill; *len]),
        Step::Delete(key) => txn.delete(values, key).map(|_| ()),
        Step::Add(key, len) => {
            let mut value = vec![fill; *len];
            value[0] = fill;
            txn.put(sets, &key.to_be_bytes(), &value)
        }
        Step::Clear(key) => txn.delete(sets, &key.to_be_bytes()).map(|_| ()),
        Step::Begin | Step::Keep | Step::Undo => Ok(()),
    }
}
