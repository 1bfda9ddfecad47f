//! A real process that loads a store of the log-structured engine, killed with SIGKILL at random.
//!
//! The loader commits numbered keys, of each durability, and reports each commit that survives the
//! process by a line on its pipe. While it lives, the parent must not be let in. When it is dead,
//! the parent opens the store. That must take no longer than its log requires, and the store must
//! hold every reported commit, no gaps, no damage, and no orphaned file.
//!
//! With every other store a thread of the loader keeps a second store like the first one, and is
//! killed with it. What it has left becomes the first store, without a gap and without a repeat.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hedgerow::Durability;
use hedgerow::Error;
use hedgerow::lsm::{Batch, Db, Keyspace, KeyspaceOptions, Options, Readable};
use hedgerow::stream::{Replica, Scan, Source, Standby};
use hedgerow::tree;

use crate::player::{Player, end_with_the_parent, say, told};
use crate::rng::Rng;

/// The keyspace.
const NUMBERS: &str = "numbers";
/// A store is loaded by this many loaders, one after the other, before a new store begins.
const LOADERS: u64 = 10;
/// Opening a store with a shorter log takes what opening any store takes.
const TIMED_BYTES: u64 = 8 << 20;
/// How long a loader may take to commit, or the parent to be let in.
const STUCK: Duration = Duration::from_secs(60);

/// What a run is like.
#[derive(Clone, Copy, Debug)]
pub struct LoadSettings {
    /// The seed of the kills.
    pub seed: u64,
    /// How long it takes.
    pub time: Duration,
}

/// How a run went.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Processes that were killed.
    pub kills: u64,
    /// How many of them followed their store.
    pub followed: u64,
    /// Commits that were told of.
    pub commits: u64,
    /// How often another opener was told that the store is locked.
    pub refused: u64,
    /// Bytes of the longer logs that were replayed, where all of the log was.
    pub log_bytes: u64,
    /// How long the openings of these took.
    pub open_time: Duration,
    /// The longest of all openings.
    pub open_time_max: Duration,
    /// What was wrong.
    pub violations: Vec<String>,
}

impl LoadReport {
    /// How long it took to open a store with a gigabyte of log, by these figures.
    pub fn seconds_per_gb(&self) -> Option<f64> {
        let gigabytes = self.log_bytes as f64 / 1e9;
        (self.log_bytes > 0).then(|| self.open_time.as_secs_f64() / gigabytes)
    }
}

/// What a store is like.
#[derive(Clone, Copy, Debug)]
struct Kind {
    memtable_bytes: usize,
    /// Values stand in the log, and so does it stay.
    separates: bool,
    /// Whether a second store is kept like it, and of which engine.
    follows: Option<Engine>,
}

/// The engine of a second store.
#[derive(Clone, Copy, Debug)]
enum Engine {
    Tree,
    Lsm,
}

impl Kind {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 47);
        let memtable_bytes = rng.pick(&[256 << 10, 4 << 20, 64 << 20]);
        let separates = rng.chance(1, 3);
        let engine = if rng.chance(1, 2) { Engine::Tree } else { Engine::Lsm };
        Self { memtable_bytes, separates, follows: rng.chance(1, 2).then_some(engine) }
    }

    fn open(self, path: &Path) -> hedgerow::Result<(Db, Keyspace)> {
        let options = Options::new().create(true).memtable_bytes(self.memtable_bytes);
        let db = options.segment_bytes(self.memtable_bytes as u64).open(path)?;
        let separation_threshold = if self.separates { 16 } else { u32::MAX };
        let space =
            db.keyspace(NUMBERS, KeyspaceOptions { separation_threshold, ..Default::default() })?;
        Ok((db, space))
    }
}

fn value(number: u64) -> Vec<u8> {
    Rng::new(number, 48).bytes(20 + number as usize * 7 % 1500)
}

/// The loader: commits numbers from the last one on until it is killed, or the parent is gone.
///
/// # Errors
/// What went wrong, for the parent to read.
pub fn play(path: &Path, seed: u64, loader: u64) -> Result<(), String> {
    end_with_the_parent();
    let (db, space) = told("open", Kind::new(seed).open(path))?;
    if let Some(engine) = Kind::new(seed).follows {
        let (db, path) = (db.clone(), path.to_owned());
        std::thread::spawn(move || {
            let stopped = engine.keep_up(&db, &path, Some(STUCK));
            println!("the follower ended: {stopped:?}");
        });
    }
    let mut number = last(&db, &space)?;
    let mut rng = Rng::new(seed ^ loader, 49);
    loop {
        let mut batch = Batch::new();
        for _ in 0..rng.between(1, 8) {
            number += 1;
            told("put", batch.put(&space, &number.to_be_bytes(), &value(number)))?;
        }
        let modes = [Durability::None, Durability::None, Durability::Eventual, Durability::Durable];
        let durability = if rng.chance(1, 4) { rng.pick(&modes) } else { Durability::None };
        told("write", db.write_with(batch, durability))?;
        if durability > Durability::None {
            say(&format!("committed {number}"))?;
        }
        if rng.chance(1, 20_000) {
            told("compact", db.compact())?;
        }
    }
}

impl Engine {
    /// Makes the second store like the first one, until for `most` there is nothing to be done.
    fn keep_up(self, db: &Db, path: &Path, most: Option<Duration>) -> Result<(), String> {
        let path = path.with_file_name("second");
        match self {
            // What is committed survives being killed, which is all that happens here.
            Self::Tree => {
                let opened = if path.exists() {
                    tree::Store::open(&path)
                } else {
                    tree::Store::create(&path)
                };
                let second = told("open the second store", opened)?;
                let standby = told("follow", Standby::new(db, "follower", &second))?;
                steps(standby.durability(Durability::None), most)?;
                check_second(db, &second)
            }
            Self::Lsm => {
                let opened = Options::new().create(true).open(&path);
                let second = told("open the second store", opened)?;
                let standby = told("follow", Standby::new(db, "follower", &second))?;
                steps(standby.durability(Durability::Eventual), most)?;
                check_second(db, &second)
            }
        }
    }
}

/// Makes steps until for `most` there is none.
fn steps<T: Replica + Clone>(
    mut standby: Standby<T, Db>,
    most: Option<Duration>,
) -> Result<(), String> {
    while told("a step", standby.step(most))?.is_some() {}
    told("done", standby.done())
}

/// Whether the second store has what the first one has.
fn check_second<T: Source>(db: &Db, second: &T) -> Result<(), String> {
    let (first, copy) = (Scan::new(NUMBERS).pairs(db), Scan::new(NUMBERS).pairs(second));
    let (mut first, mut copy) = (told("scan", first)?, told("scan", copy)?);
    loop {
        let of_first = told("next", first.next().transpose())?.map(|pair| pair.to_owned());
        let of_copy = told("next", copy.next().transpose())?.map(|pair| pair.to_owned());
        if of_first != of_copy {
            let keys = [of_first, of_copy].map(|pair| pair.map(|pair| pair.0));
            return Err(format!("the second store is not like the first one: {keys:?}"));
        }
        if of_first.is_none() {
            return Ok(());
        }
    }
}

/// The last number that is there.
fn last(db: &Db, space: &Keyspace) -> Result<u64, String> {
    let mut cursor = told("cursor", db.cursor(space))?;
    let entry = told("last", cursor.last())?;
    let key = entry.and_then(|entry| entry.key.try_into().ok());
    Ok(key.map_or(0, u64::from_be_bytes))
}

/// Runs for a while in a folder.
///
/// # Errors
/// Errors of the system; what is wrong with a store is in the report.
pub fn run(folder: &Path, settings: LoadSettings) -> Result<LoadReport, String> {
    let mut report = LoadReport::default();
    let mut rng = Rng::new(settings.seed, 50);
    let end = Instant::now() + settings.time;
    while Instant::now() < end && report.violations.is_empty() {
        let seed = rng.next_u64();
        let store = Store { kind: Kind::new(seed), seed, path: folder.join("store") };
        let mut owed = 0;
        for loader in 0..LOADERS {
            let committed = store.load(loader, &mut rng, &mut report)?;
            owed = store.look(owed.max(committed), &mut report)?;
            if Instant::now() >= end || !report.violations.is_empty() {
                break;
            }
        }
        told("remove", std::fs::remove_dir_all(folder))?;
        told("make a folder", std::fs::create_dir(folder))?;
    }
    Ok(report)
}

/// A store that is loaded again and again.
struct Store {
    kind: Kind,
    seed: u64,
    path: PathBuf,
}

impl Store {
    /// Lets a loader live for a moment; the last number that it told of.
    fn load(&self, loader: u64, rng: &mut Rng, report: &mut LoadReport) -> Result<u64, String> {
        let player = Player::start(&self.path, "loader", loader, self.seed);
        let mut player = told("start a loader", player)?;
        let begin = Instant::now();
        while player.heard.lines() == 0 && begin.elapsed() < STUCK {
            if told("wait", player.has_ended())? {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let bits = rng.between(17, 21);
        std::thread::sleep(Duration::from_micros(rng.below(1 << bits)));
        match self.kind.open(&self.path) {
            Err(Error::Locked { .. }) => report.refused += 1,
            Err(other) => report.violations.push(format!("a second opener was told: {other}")),
            Ok(_) => report.violations.push("a second opener was let in".to_owned()),
        }
        let heard = told("kill", player.kill("loader", &mut report.violations))?;
        report.kills += 1;
        report.commits += heard.lines();
        Ok(heard.committed())
    }

    /// Opens the store: what is there? Answers the last number.
    fn look(&self, owed: u64, report: &mut LoadReport) -> Result<u64, String> {
        let files = self.files()?;
        let logs = files.iter().filter(|(name, _)| name.ends_with(".log"));
        let log_bytes: u64 = logs.map(|(_, len)| len).sum();
        let begin = Instant::now();
        let opened = self.kind.open(&self.path);
        let time = begin.elapsed();
        report.open_time_max = report.open_time_max.max(time);
        if !self.kind.separates && log_bytes >= TIMED_BYTES {
            report.log_bytes += log_bytes;
            report.open_time += time;
        }
        let (db, space) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                report.violations.push(format!("it does not open: {error}"));
                return Ok(owed);
            }
        };
        let mut number = 0_u64;
        for entry in told("scan", db.range(&space, ..))? {
            let (key, found) = told("next", entry)?;
            number += 1;
            if key != number.to_be_bytes() || found != value(number) {
                report.violations.push(format!("{number} is not what was committed"));
                return Ok(owed);
            }
        }
        if number < owed {
            report.violations.push(format!("{owed} was told of, {number} is the last one there"));
        }
        if let Some(engine) = self.kind.follows {
            report.violations.extend(engine.keep_up(&db, &self.path, Some(Duration::ZERO)).err());
            report.followed += 1;
        }
        let checked = told("check", db.check())?;
        report.violations.extend(checked.damage.iter().map(ToString::to_string));
        Ok(number)
    }

    /// The files of the store and their lengths.
    fn files(&self) -> Result<Vec<(String, u64)>, String> {
        let mut files = Vec::new();
        for entry in told("list", std::fs::read_dir(&self.path))? {
            let entry = told("list", entry)?;
            let len = told("ask for a length", entry.metadata())?.len();
            files.push((entry.file_name().to_string_lossy().into_owned(), len));
        }
        Ok(files)
    }
}
