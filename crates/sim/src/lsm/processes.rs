//! A real process that loads a store of the log-structured engine, killed with SIGKILL at random.
//!
//! The loader commits numbered keys, of each durability, and reports each commit that survives the
//! process by a line on its pipe. While it lives, the parent must not be let in. When it is dead,
//! the parent opens the store. That must take no longer than its log requires, and the store must
//! hold every reported commit, no gaps, no damage, and no orphaned file.
//!
//! With every other store a thread of the loader keeps a second store like the first one, or maps
//! in memory, and is killed with it. What it has left becomes the first store, without a gap and
//! without a repeat.
//!
//! Most stores stay small, since what a kill may damage does not depend on how much there is, and
//! then there are many kills: their loaders live shortly and delete old numbers, and after each
//! step the follower compares what it has with the first store at that commit. Some are left to
//! grow, so that there are long logs to open.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hedgerow::Durability;
use hedgerow::Error;
use hedgerow::lsm::{Batch, Db, Keyspace, KeyspaceOptions, Options, Readable};
use hedgerow::stream::{Replica, Scan, Source, Standby};
use hedgerow::tree;

use crate::mirror::{Mirror, Moment, is_like};
use crate::player::{Player, end_with_the_parent, say, told};
use crate::rng::Rng;

/// The keyspace.
const NUMBERS: &str = "numbers";
/// A store is loaded by this many loaders, one after the other, before a new store begins.
const LOADERS: u64 = 10;
/// The least numbers of a small store before old ones are deleted.
const KEPT: u64 = 300;
/// Opening a store with a shorter log takes what opening any store takes.
const TIMED_BYTES: u64 = 8 << 20;
/// How long a loader may take to commit, or the parent to be let in.
const STUCK: Duration = Duration::from_secs(60);

/// What a run is like.
#[derive(Clone, Copy, Debug)]
pub struct LoadSettings {
    /// The seed of the kills.
    pub seed: u64,
    /// How long it takes at most.
    pub time: Duration,
    /// It ends earlier when this many loaders that followed their store were killed.
    pub kills: Option<u64>,
}

/// How a run went.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Processes that were killed.
    pub kills: u64,
    /// How many of them followed their store.
    pub followed: u64,
    /// Steps of followers after which what they had was compared.
    pub steps: u64,
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
    /// It is left to grow.
    grows: bool,
    /// Values stand in the log, and so does it stay.
    separates: bool,
    /// Whether a second store is kept like it, and of which engine.
    follows: Option<Engine>,
}

/// Tells that after a step to this commit the second store was what the first one is there.
type Compared = fn(u64) -> Result<(), String>;

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
        let grows = rng.chance(1, 10);
        // A small store is to have many tables all the same.
        let memtable_bytes = if grows { memtable_bytes } else { memtable_bytes >> 4 };
        let separates = rng.chance(1, 3);
        let engine = if rng.chance(1, 2) { Engine::Tree } else { Engine::Lsm };
        Self { memtable_bytes, grows, separates, follows: rng.chance(1, 2).then_some(engine) }
    }

    /// What tells that a second store was compared with the first one; a large one is compared only
    /// when no step is left.
    fn compares(self, tell: Compared) -> Option<Compared> {
        (!self.grows).then_some(tell)
    }

    /// The longest that a loader lives once it has committed something, as a power of two
    /// microseconds.
    fn life(self, rng: &mut Rng) -> u32 {
        if self.grows { rng.between(17, 21) as u32 } else { rng.between(10, 17) as u32 }
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
    let kind = Kind::new(seed);
    let (db, space) = told("open", kind.open(path))?;
    let mut rng = Rng::new(seed ^ loader, 49);
    if let Some(engine) = kind.follows {
        let (db, path, in_memory) = (db.clone(), path.to_owned(), rng.chance(1, 3));
        std::thread::spawn(move || {
            let stopped = match in_memory && !kind.grows {
                true => follow_in_memory(&db),
                false => {
                    let compares = kind.compares(|commit| say(&format!("compared {commit}")));
                    engine.keep_up(&db, &path, Some(STUCK), compares)
                }
            };
            println!("the follower ended: {stopped:?}");
        });
    }
    let mut number = last(&db, &space)?;
    loop {
        let mut batch = Batch::new();
        for _ in 0..rng.between(1, 8) {
            number += 1;
            told("put", batch.put(&space, &number.to_be_bytes(), &value(number)))?;
        }
        if !kind.grows {
            // So that the follower has steps of few commits.
            if rng.chance(1, 4) {
                std::thread::sleep(Duration::from_micros(rng.below(1000)));
            }
            if number > KEPT && rng.chance(1, 30) {
                let old = (number - KEPT).to_be_bytes();
                told("delete_range", batch.delete_range(&space, ..&old[..]))?;
            }
        }
        let modes = [Durability::None, Durability::None, Durability::Eventual, Durability::Durable];
        let durability = if rng.chance(1, 4) { rng.pick(&modes) } else { Durability::None };
        told("write", db.write_with(batch, durability))?;
        if durability > Durability::None {
            say(&format!("committed {number}"))?;
        }
        if rng.chance(1, if kind.grows { 20_000 } else { 200 }) {
            told("compact", db.compact())?;
        }
    }
}

impl Engine {
    /// Makes the second store like the first one, until for `most` there is nothing to be done; and
    /// compares the two after each step, if it is told to.
    fn keep_up(
        self,
        db: &Db,
        path: &Path,
        most: Option<Duration>,
        compares: Option<Compared>,
    ) -> Result<(), String> {
        let path = path.with_file_name("second");
        match self {
            // What is committed survives being killed, which is all that happens here.
            Self::Tree => {
                let opened = tree::Store::builder().open_or_create(&path);
                let second = told("open the second store", opened)?;
                let standby = told("follow", Standby::new(db, "follower", &second))?;
                steps(db, &second, standby.durability(Durability::None), most, compares)
            }
            Self::Lsm => {
                let opened = Options::new().create(true).open(&path);
                let second = told("open the second store", opened)?;
                let standby = told("follow", Standby::new(db, "follower", &second))?;
                steps(db, &second, standby.durability(Durability::Eventual), most, compares)
            }
        }
    }
}

/// Makes steps until for `most` there is none; then the second store is what the first one is.
fn steps<T: Replica + Source<Snapshot: Moment>>(
    db: &Db,
    second: &T,
    mut standby: Standby<T, Db>,
    most: Option<Duration>,
    compares: Option<Compared>,
) -> Result<(), String> {
    while let Some(commit) = told("a step", standby.step(most))? {
        if let Some(tell) = compares {
            // The pin of the step that was made last, which is not said to be done.
            let first = db.read_pin("follower.next").filter(|first| first.id() == commit);
            let first = first.ok_or_else(|| format!("commit {commit} of a step is not pinned"))?;
            is_like(second, &first).map_err(|what| format!("commit {commit}: {what}"))?;
            tell(commit)?;
        }
    }
    told("done", standby.done())?;
    check_second(db, second)
}

/// Whether the second store has what the first one has, which may be more than memory holds.
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

/// Replays what changes into maps, and compares them with the store after each step.
fn follow_in_memory(db: &Db) -> Result<(), String> {
    let mut mirror = Mirror::new(db);
    while mirror.step(STUCK)? {
        say("compared a step")?;
    }
    Ok(())
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
    let is_enough = |report: &LoadReport| {
        let has_killed = settings.kills.is_some_and(|kills| report.followed >= kills);
        has_killed || Instant::now() >= end || !report.violations.is_empty()
    };
    while !is_enough(&report) {
        let seed = rng.next_u64();
        let store = Store { kind: Kind::new(seed), seed, path: folder.join("store") };
        let mut owed = 0;
        for loader in 0..LOADERS {
            let committed = store.load(loader, &mut rng, &mut report)?;
            owed = store.look(owed.max(committed), &mut report)?;
            if is_enough(&report) {
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
        let bits = self.kind.life(rng);
        std::thread::sleep(Duration::from_micros(rng.below(1 << bits)));
        match self.kind.open(&self.path) {
            Err(Error::Locked { .. }) => report.refused += 1,
            Err(other) => report.violations.push(format!("a second opener was told: {other}")),
            Ok(_) => report.violations.push("a second opener was let in".to_owned()),
        }
        let heard = told("kill", player.kill("loader", &mut report.violations))?;
        report.kills += 1;
        report.steps += heard.steps();
        report.commits += heard.lines() - heard.steps();
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
        // The last number; those before it are there from some number on, which is 1 unless old
        // ones are deleted.
        let mut number = None;
        for entry in told("scan", db.range(&space, ..))? {
            let (key, found) = told("next", entry)?;
            let is_first = number.is_none() && !self.kind.grows;
            let next = match <[u8; 8]>::try_from(&*key) {
                Ok(first) if is_first => u64::from_be_bytes(first),
                _ => number.unwrap_or(0) + 1,
            };
            if key != next.to_be_bytes() || found != value(next) {
                report.violations.push(format!("{next} is not what was committed"));
                return Ok(owed);
            }
            number = Some(next);
        }
        let number = number.unwrap_or(0);
        if number < owed {
            report.violations.push(format!("{owed} was told of, {number} is the last one there"));
        }
        if let Some(engine) = self.kind.follows {
            let most = Some(Duration::ZERO);
            let compares = self.kind.compares(|_| Ok(()));
            let followed = engine.keep_up(&db, &self.path, most, compares);
            report.violations.extend(followed.err());
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
