//! What streams cost beside the raw loop of the same engine and LMDB's, in one run.
//!
//! Every pass is a first one: the store is opened anew for it, over a file that the system's cache
//! has. The passes take turns, and each figure is the median of the rounds. Every pass adds up the
//! lengths of keys and values, as the published benchmark of streamly-lmdb does; the sums must
//! agree.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use hedgerow::Durability;
use hedgerow::stream::{
    Batch, Cut, Item as _, Mode, OnReject, Part, Renewal, Run, Scan, Sink, Source, Target,
};
use hedgerow::tree::{Snapshot, Store, TableOptions};
use serde_json::json;

mod churn;
mod differences;
pub(crate) mod follow;
mod of_lsm;

use crate::compare::report::median;
use crate::data::Generator;
use crate::engine::{Engine, Promise, Reader, Result, Table, Writer};
use crate::engines::lmdb;

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// How many megabytes of keys and values each store has
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..100_000))]
    megabytes: u64,
    /// How many times each pass is made
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..100))]
    rounds: u32,
    /// How many pairs the store has of which 1,000 differ: by default those of the megabytes
    #[arg(long, value_parser = clap::value_parser!(u64).range(1_000..100_000_000))]
    differences: Option<u64>,
    /// Only some of the rows
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Group>,
}

impl Options {
    fn asks_for(&self, group: Group) -> bool {
        self.only.is_empty() || self.only.contains(&group)
    }
}

/// Rows that are measured together.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Group {
    /// The forms of reading, of the tree engine
    Reads,
    /// The same of the log-structured engine
    LsmReads,
    Parts,
    Differences,
    Churn,
    WakeUp,
    Writes,
    /// Sinks of the log-structured engine
    LsmWrites,
}

const TABLE: Table = Table { name: "pairs", duplicates: false };

/// Lengths of keys and values: a tiny pair, and the smallest and largest that streamly-lmdb
/// published.
const SIZES: [(usize, usize); 3] = [(16, 96), (160, 800), (480, 2400)];

/// Pairs of one size.
#[derive(Clone, Copy)]
struct Pairs {
    key: usize,
    value: usize,
    count: u64,
}

impl Pairs {
    fn name(self) -> String {
        format!("{}/{}", self.key, self.value)
    }

    /// The key of a number: in order, and different in its other bytes.
    fn key(self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&number.to_be_bytes());
        fill(number, self.key, out);
    }

    fn value(self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        fill(!number, self.value, out);
    }

    /// What every pass adds up to.
    fn bytes(self) -> u64 {
        self.count * (self.key + self.value) as u64
    }
}

fn fill(number: u64, len: usize, out: &mut Vec<u8>) {
    let mut random = Generator::new(number);
    while out.len() < len {
        let word = random.below(u64::MAX).to_le_bytes();
        out.extend_from_slice(&word[..word.len().min(len - out.len())]);
    }
}

/// What a row is held to.
#[derive(Clone, Copy)]
enum Goal {
    /// At most this much above the base, in the row's unit.
    Over(f64),
    /// At most, or at least, this many times the base.
    AtMost(f64),
    AtLeast(f64),
    /// At most this, whatever the base.
    Within(f64),
    None,
}

/// A figure beside the one that it is held against.
struct Row {
    name: String,
    unit: &'static str,
    base: f64,
    found: f64,
    goal: Goal,
}

impl Row {
    /// What the goal speaks of, and whether it is met.
    fn measured(&self) -> (String, Option<bool>) {
        let (over, times) = (self.found - self.base, self.found / self.base);
        match self.goal {
            Goal::Over(most) => (format!("{over:+.1} (goal {most:+})"), Some(over <= most)),
            Goal::AtMost(most) => (format!("{times:.2} x (goal <= {most})"), Some(times <= most)),
            Goal::AtLeast(least) => {
                // Less time is more.
                let times = self.base / self.found;
                (format!("{times:.2} x (goal >= {least})"), Some(times >= least))
            }
            Goal::Within(most) => (format!("(goal <= {most})"), Some(self.found <= most)),
            Goal::None => (String::new(), None),
        }
    }
}

/// One way to read all pairs, and the sum that it found.
type Pass<'p> = (&'static str, Goal, Box<dyn Fn() -> Result<u64> + 'p>);

/// Measures and prints.
pub(crate) fn main(options: &Options) -> Result<()> {
    let (rounds, asks) = (options.rounds, |group| options.asks_for(group));
    let mut rows = Vec::new();
    for (key, value) in SIZES {
        let count = (options.megabytes << 20) / (key + value) as u64;
        let pairs = Pairs { key, value, count };
        let folder = tempfile::tempdir()?;
        let path = folder.path();
        load(path, pairs)?;
        if asks(Group::Reads) {
            rows.extend(reads(path, pairs, rounds)?);
        }
        if asks(Group::LsmReads) {
            rows.extend(of_lsm::reads(&path.join("lsm"), pairs, rounds)?);
        }
        if (key, value) == SIZES[0] {
            rows.extend(of_small_pairs(path, pairs, options)?);
        }
    }
    if asks(Group::Writes) {
        rows.extend(writes(options)?);
    }
    if asks(Group::LsmWrites) {
        rows.extend(of_lsm::writes(options)?);
    }
    print!("{}", if options.json { to_json(&rows) } else { to_table(&rows)? });
    Ok(())
}

/// What is measured with one size of pairs.
fn of_small_pairs(path: &Path, pairs: Pairs, options: &Options) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if options.asks_for(Group::Parts) {
        rows.extend(parts(path, pairs, options.rounds)?);
    }
    if options.asks_for(Group::Differences) {
        match options.differences {
            None => rows.push(differences::row(path, pairs, options.rounds)?),
            Some(count) => {
                let (folder, pairs) = (tempfile::tempdir()?, Pairs { count, ..pairs });
                load_tree(&folder.path().join("tree"), pairs)?;
                rows.push(differences::row(folder.path(), pairs, options.rounds)?);
            }
        }
    }
    if options.asks_for(Group::Churn) {
        rows.extend(churn::rows(path, pairs)?);
    }
    if options.asks_for(Group::WakeUp) {
        rows.push(follow::wake_up(path)?);
    }
    Ok(rows)
}

fn load(folder: &Path, pairs: Pairs) -> Result<()> {
    load_tree(&folder.join("tree"), pairs)?;
    let other = lmdb::Client::<lmdb::Original>::open(&lmdb_folder(folder)?, None)?;
    other.write(TABLE, Promise::Unsynced, |txn| {
        each(pairs, |key, value| txn.append(key, value).map(|()| true)).map(drop)
    })
}

/// A new store of these pairs.
fn load_tree(path: &Path, pairs: Pairs) -> Result<()> {
    let store = Store::create(path)?;
    let mut sink = Sink::new(&store, TABLE.name)?.durability(Durability::Eventual);
    each(pairs, |key, value| Ok(sink.put(key, value)?))?;
    sink.finish()?;
    Ok(store.sync()?)
}

fn lmdb_folder(folder: &Path) -> Result<std::path::PathBuf> {
    let path = folder.join("lmdb");
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

/// The medians of passes that take turns, in nanoseconds.
fn time(passes: &[Pass<'_>], wanted: u64, rounds: u32) -> Result<Vec<f64>> {
    let mut times = vec![Vec::new(); passes.len()];
    for round in 0..rounds as usize {
        for turn in 0..passes.len() {
            let n = (turn + round) % passes.len();
            let (name, _, pass) = &passes[n];
            let start = Instant::now();
            let found = pass()?;
            times[n].push(start.elapsed().as_nanos() as f64);
            if found != wanted {
                return Err(format!("{name} found {found} bytes and not {wanted}").into());
            }
        }
    }
    Ok(times.iter().map(|times| median(times)).collect())
}

/// The forms of reading beside the raw loops.
fn reads(folder: &Path, pairs: Pairs, rounds: u32) -> Result<Vec<Row>> {
    let path = folder.join("tree");
    let other = lmdb_folder(folder)?;
    let open = || -> Result<Store> { Ok(Store::builder().read_only(true).open(&path)?) };
    let lmdb: Pass<'_> = ("LMDB's loop", Goal::None, Box::new(|| raw_of_lmdb(&other)));
    forms((&pairs.name(), pairs), (&open, &raw), Some(lmdb), rounds)
}

/// How a store is opened for a pass, and read without streams.
type Ways<'w, S> = (&'w dyn Fn() -> Result<S>, &'w dyn Fn(&S) -> Result<u64>);

/// The forms of reading a store beside its raw loop.
fn forms<S: Source>(
    (title, pairs): (&str, Pairs),
    (open, raw): Ways<'_, S>,
    other: Option<Pass<'_>>,
    rounds: u32,
) -> Result<Vec<Row>> {
    let scan = Scan::new(TABLE.name);
    let renewing = scan.clone().renewal(Renewal::never().pairs(1_000));
    let copies = if pairs.key < 480 { Goal::Over(70.0) } else { Goal::Over(150.0) };
    let mut passes: Vec<Pass<'_>> = vec![
        ("raw loop", Goal::None, Box::new(|| raw(&open()?))),
        ("borrowed", Goal::Over(2.0), Box::new(|| borrowed(&open()?, &scan))),
        ("owned", Goal::Over(12.0), Box::new(|| owned(&open()?, &scan))),
        ("owned, renewed every 1,000", Goal::None, Box::new(|| owned(&open()?, &renewing))),
        ("copies in batches", copies, Box::new(|| batched(&open()?, &scan))),
        ("asynchronous runs", Goal::Over(4.0), Box::new(|| asynchronous(&open()?, &scan))),
        ("asynchronous pairs", Goal::Over(20.0), Box::new(|| asynchronous_pairs(&open()?, &scan))),
    ];
    // How much two equal passes differ, beside which the goals are to be read.
    passes.push(("raw loop again", Goal::None, Box::new(|| raw(&open()?))));
    passes.extend(other);
    let times = time(&passes, pairs.bytes(), rounds)?;
    let of = |n: usize| times[n] / pairs.count as f64;
    let name = |n: usize| format!("{title} {}", passes[n].0);
    let row =
        |n: usize, base: f64, goal| Row { name: name(n), unit: "ns", base, found: of(n), goal };
    let mut rows: Vec<Row> = [1, 2, 4].iter().map(|&n| row(n, of(0), passes[n].1)).collect();
    // That much more than without.
    rows.insert(2, row(3, of(2), Goal::Over(1.0)));
    rows.extend([5, 6].map(|n| row(n, of(0), passes[n].1)));
    rows.extend((7..passes.len()).map(|n| row(n, of(0), Goal::None)));
    Ok(rows)
}

fn raw(store: &Store) -> Result<u64> {
    let txn = store.begin_read()?;
    let mut cursor = txn.cursor(txn.table(TABLE.name)?)?;
    let mut sum = 0;
    while let Some(entry) = cursor.next(&txn)? {
        sum += (entry.key.len() + entry.value.len()) as u64;
    }
    Ok(sum)
}

fn raw_of_lmdb(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    lmdb::Client::<lmdb::Original>::open(folder, None)?
        .read(TABLE, |txn| txn.scan(|key, value| sum += (key.len() + value.len()) as u64))?;
    Ok(sum)
}

fn borrowed<S: Source>(store: &S, scan: &Scan) -> Result<u64> {
    let txn = store.begin()?;
    let mut sum = 0;
    for entry in scan.walk(&txn)? {
        let entry = entry?;
        sum += (entry.key().len() + entry.value().len()) as u64;
    }
    Ok(sum)
}

fn owned<S: Source>(store: &S, scan: &Scan) -> Result<u64> {
    let mut sum = 0;
    for pair in scan.pairs(store)? {
        let pair = pair?;
        sum += (pair.key().len() + pair.value().len()) as u64;
    }
    Ok(sum)
}

fn sum_of(batch: &Batch) -> u64 {
    batch.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
}

fn batched<S: Source>(store: &S, scan: &Scan) -> Result<u64> {
    let mut batches = scan.batches(store, 1_024, 256 << 10)?;
    let (mut batch, mut sum) = (Batch::default(), 0);
    while batches.fill(&mut batch)? {
        sum += sum_of(&batch);
    }
    Ok(sum)
}

fn asynchronous<S: Source>(store: &S, scan: &Scan) -> Result<u64> {
    let mut stream = scan.stream(store)?;
    pollster::block_on(async {
        let mut sum = 0;
        let mut run = Run::default();
        while stream.fill(&mut run).await? {
            sum += run.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
        }
        Ok(sum)
    })
}

fn asynchronous_pairs<S: Source>(store: &S, scan: &Scan) -> Result<u64> {
    let mut stream = scan.stream(store)?.into_pairs();
    pollster::block_on(async {
        let mut sum = 0;
        while let Some(pair) = stream.next_pair().await? {
            sum += (pair.key().len() + pair.value().len()) as u64;
        }
        Ok(sum)
    })
}

/// Cutting into parts, and reading them by two threads.
fn parts(folder: &Path, pairs: Pairs, rounds: u32) -> Result<Vec<Row>> {
    let store = Store::open(folder.join("tree"))?;
    let scan = Scan::new(TABLE.name);
    let sum = |part: Part<Store>| -> Result<u64> {
        let mut pairs = part.pairs()?;
        let mut sum = 0;
        while let Some(bytes) = pairs.see(|key, value| (key.len() + value.len()) as u64)? {
            sum += bytes;
        }
        Ok(sum)
    };
    let by = |threads: usize| -> Result<u64> {
        let parts = scan.split(&store, threads)?;
        std::thread::scope(|scope| {
            let parts: Vec<_> =
                parts.into_iter().map(|part| scope.spawn(move || sum(part))).collect();
            let sums = parts.into_iter().map(|part| part.join().map_err(|_| "a thread died")?);
            sums.sum()
        })
    };
    let passes: Vec<Pass<'_>> = vec![
        ("one thread", Goal::None, Box::new(|| by(1))),
        ("two threads", Goal::None, Box::new(|| by(2))),
    ];
    let times = time(&passes, pairs.bytes(), rounds)?;
    let of = |n: usize| times[n] / pairs.count as f64;
    let (base, found) = (of(0), of(1));
    let two = Row { name: "two threads".into(), unit: "ns", base, found, goal: Goal::AtLeast(1.8) };
    let mut cuts = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        let parts = scan.split(&store, 64)?;
        cuts.push(start.elapsed().as_secs_f64() * 1e6);
        if parts.len() != 64 {
            return Err("split(64) did not make 64 parts".into());
        }
    }
    let (name, found) = ("split(64)".into(), median(&cuts));
    Ok(vec![two, Row { name, unit: "us", base: found, found, goal: Goal::Within(20.0) }])
}

/// The sink beside the loop of puts, and rejections beside the engine's own call.
fn writes(options: &Options) -> Result<Vec<Row>> {
    let create = |path: &Path| Ok(Store::create(path)?);
    let times = in_turns(options, &create, [&put_all, &sink_new], [&put_again, &sink_again])?;
    Ok(write_rows("", pairs_to_write(options), &times))
}

fn pairs_to_write(options: &Options) -> Pairs {
    let (key, value) = SIZES[1];
    Pairs { key, value, count: (options.megabytes << 20) / 4 / (key + value) as u64 }
}

/// A way to write pairs into a store; how many were stored.
type Writing<'w, S> = &'w dyn Fn(&S, Pairs) -> Result<u64>;

/// What each way takes, in nanoseconds: to write into a new store by a loop, by a sink, and then
/// the same pairs again, which are refused. Each of the two has a store of its own, which is closed
/// before the other begins, so that no thread of it works meanwhile; and each begins in turn.
fn in_turns<S>(
    options: &Options,
    create: &dyn Fn(&Path) -> Result<S>,
    new: [Writing<'_, S>; 2],
    again: [Writing<'_, S>; 2],
) -> Result<[Vec<f64>; 4]> {
    let pairs = pairs_to_write(options);
    let mut times = [const { Vec::new() }; 4];
    for turn in 0..2 * options.rounds as usize {
        let way = (turn + turn / 2) % 2;
        let folder = tempfile::tempdir()?;
        let store = create(&folder.path().join("store"))?;
        times[way].push(timed(&|| new[way](&store, pairs), pairs.count)?);
        times[2 + way].push(timed(&|| again[way](&store, pairs), 0)?);
    }
    Ok(times)
}

/// The rows of a loop of puts, a sink, a loop of puts that are refused and a sink that rejects.
fn write_rows(engine: &str, pairs: Pairs, times: &[Vec<f64>; 4]) -> Vec<Row> {
    let of = |n: usize| median(&times[n]) / pairs.count as f64;
    let row = |name: &str, n: usize, goal| {
        let name = format!("{engine}{} {name}", pairs.name());
        Row { name, unit: "ns", base: of(n - 1), found: of(n), goal }
    };
    vec![
        row("sink beside a loop of puts", 1, Goal::AtMost(1.02)),
        row("rejected pairs", 3, Goal::Over(50.0)),
    ]
}

/// How many nanoseconds it takes, if it answers what it should.
fn timed(run: &dyn Fn() -> Result<u64>, wanted: u64) -> Result<f64> {
    let start = Instant::now();
    let found = run()?;
    let time = start.elapsed().as_nanos() as f64;
    let wrong = || format!("{found} pairs and not {wanted}").into();
    (found == wanted).then_some(time).ok_or_else(wrong)
}

/// Calls `put` with each pair.
fn each(pairs: Pairs, mut put: impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<u64> {
    let (mut key, mut value, mut stored) = (Vec::new(), Vec::new(), 0);
    for number in 0..pairs.count {
        pairs.key(number, &mut key);
        pairs.value(number, &mut value);
        stored += u64::from(put(&key, &value)?);
    }
    Ok(stored)
}

fn put_all(store: &Store, pairs: Pairs) -> Result<u64> {
    let mut txn = store.begin_write()?;
    let table = txn.create_table(TABLE.name, &TableOptions::new())?;
    let stored = each(pairs, |key, value| Ok(txn.append(table, key, value).map(|()| true)?))?;
    txn.commit_with(Durability::Eventual)?;
    Ok(stored)
}

fn put_again(store: &Store, pairs: Pairs) -> Result<u64> {
    let mut txn = store.begin_write()?;
    let table = txn.table(TABLE.name)?;
    let stored = each(pairs, |key, value| Ok(txn.put_new(table, key, value)?.is_none()))?;
    txn.commit_with(Durability::Eventual)?;
    Ok(stored)
}

fn sink_new<T: Target>(store: &T, pairs: Pairs) -> Result<u64> {
    sink_all(store, pairs, Mode::Put)
}

fn sink_again<T: Target>(store: &T, pairs: Pairs) -> Result<u64> {
    sink_all(store, pairs, Mode::New)
}

fn sink_all<T: Target>(store: &T, pairs: Pairs, mode: Mode) -> Result<u64> {
    let sink = Sink::new(store, TABLE.name)?.mode(mode).on_reject(OnReject::Ignore);
    let mut sink = sink.cut(Cut::never()).durability(Durability::Eventual);
    let stored = each(pairs, |key, value| Ok(sink.put(key, value)?))?;
    sink.finish()?;
    Ok(stored)
}

fn to_json(rows: &[Row]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let (measured, met) = row.measured();
            json!({
                "name": row.name, "unit": row.unit, "base": row.base, "found": row.found,
                "measured": measured, "met": met,
            })
        })
        .collect();
    format!("{:#}\n", json!({ "rows": rows }))
}

fn to_table(rows: &[Row]) -> Result<String> {
    let mut out = String::new();
    writeln!(out, "{:44} {:>10} {:>10}      {:24}", "", "beside", "found", "")?;
    for row in rows {
        let (measured, met) = row.measured();
        let met = match met {
            Some(false) => "missed",
            _ => "",
        };
        let Row { name, unit, base, found, .. } = row;
        writeln!(out, "{name:44} {base:10.1} {found:10.1} {unit}   {measured:24} {met}")?;
    }
    Ok(out)
}
