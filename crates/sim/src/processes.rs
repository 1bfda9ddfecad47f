//! Real processes on one store: writers and readers, killed, stopped and forked at random.
//!
//! Each writer counts in a table of its own name, now and then twice in one transaction, and
//! reports each commit by a line on its pipe. A reader pins a snapshot, verifies all of it, and
//! lets it go, or holds it until it is killed. A follower keeps a second store like the first one,
//! or maps in memory, and after each step compares them with the first one at the commit to which
//! the step leads. The parent signals them at random, at any instruction: so also in each phase of
//! a commit. In between it kills all of them, opens the store as the only process, and demands
//! every commit that a writer has reported. There is no power cut here: a commit without a flush
//! promises to survive exactly this.

use std::ops::Bound;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hedgerow::Durability;
use hedgerow::stream::Standby;
use hedgerow::tree::{Snapshot, Store, TableOptions};

use crate::mirror::{Mirror, is_like};
use crate::player::{Player, end_with_the_parent, say, told};
use crate::rng::Rng;

/// How long a process may take to do something while it is not stopped, before a lock counts as
/// stuck.
const STUCK: Duration = Duration::from_secs(30);
/// The least keys of a writer's table before old ones are deleted.
const KEPT: u64 = 200;

/// What a run is like.
#[derive(Clone, Copy, Debug)]
pub struct ProcessSettings {
    /// The seed of the signals.
    pub seed: u64,
    /// How long it takes at most.
    pub time: Duration,
    /// It ends earlier when this many writers and this many followers were killed.
    pub kills: Option<u64>,
    /// Writers at a time.
    pub writers: usize,
    /// Readers at a time.
    pub readers: usize,
    /// Followers at a time.
    pub followers: usize,
}

impl ProcessSettings {
    fn players(&self) -> usize {
        self.writers + self.readers + self.followers
    }

    fn part_of(&self, place: usize) -> Part {
        match place {
            _ if place < self.writers => Part::Writer,
            _ if place < self.writers + self.readers => Part::Reader,
            _ => Part::Follower,
        }
    }
}

/// How a run went.
#[derive(Clone, Debug, Default)]
pub struct ProcessReport {
    /// Processes that were killed.
    pub kills: u64,
    /// Processes that were stopped and continued.
    pub stops: u64,
    /// Forks that a process made while it had the store open.
    pub forks: u64,
    /// Times that all were killed and the store was opened alone.
    pub lonely_openings: u64,
    /// Commits that writers told of.
    pub commits: u64,
    /// Snapshots that readers verified.
    pub snapshots: u64,
    /// Writers that were killed.
    pub writer_kills: u64,
    /// Followers that were killed, and steps that they made.
    pub follower_kills: u64,
    /// See `follower_kills`.
    pub steps: u64,
    /// What was wrong.
    pub violations: Vec<String>,
}

/// What a part of the run does: a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Commits.
    Writer,
    /// Verifies snapshots.
    Reader,
    /// Keeps a second store like the first one.
    Follower,
}

impl Part {
    /// Its name, as the subcommand has it.
    fn name(self) -> &'static str {
        match self {
            Self::Writer => "writer",
            Self::Reader => "reader",
            Self::Follower => "follower",
        }
    }
}

/// The parent.
struct Run<'r> {
    path: &'r Path,
    settings: ProcessSettings,
    rng: Rng,
    players: Vec<Option<(Part, Player)>>,
    /// The newest number of each writer's place that must be there.
    owed: Vec<u64>,
    report: ProcessReport,
}

/// Runs for a while in a folder.
///
/// # Errors
/// Errors of the system; what is wrong with the store is in the report.
pub fn run(folder: &Path, settings: ProcessSettings) -> Result<ProcessReport, String> {
    let path = folder.join("store");
    drop(told("create", Store::builder().create(&path))?);
    let mut run = Run {
        path: &path,
        settings,
        rng: Rng::new(settings.seed, 31),
        players: (0..settings.players()).map(|_| None).collect(),
        owed: vec![0; settings.writers],
        report: ProcessReport::default(),
    };
    let end = Instant::now() + settings.time;
    while Instant::now() < end && run.report.violations.is_empty() && !run.has_killed_enough() {
        told("a round", run.round())?;
        run.look()?;
    }
    Ok(run.report)
}

impl Run<'_> {
    fn has_killed_enough(&self) -> bool {
        let ProcessReport { writer_kills, follower_kills, .. } = self.report;
        self.settings.kills.is_some_and(|kills| writer_kills.min(follower_kills) >= kills)
    }

    /// All play for a while; some are killed and replaced, some are stopped; in the end all die.
    fn round(&mut self) -> std::io::Result<()> {
        for place in 0..self.players.len() {
            self.replace(place)?;
        }
        for _ in 0..self.rng.between(10, 60) {
            std::thread::sleep(Duration::from_micros(self.rng.below(12_000)));
            let place = self.rng.index(self.players.len());
            if self.rng.chance(1, 4) {
                self.stop(place)?;
            } else {
                self.replace(place)?;
            }
        }
        self.wait_for_everybody()?;
        for place in 0..self.players.len() {
            self.end(place)?;
        }
        Ok(())
    }

    fn end(&mut self, place: usize) -> std::io::Result<()> {
        let Some((part, player)) = self.players[place].take() else { return Ok(()) };
        let report = &mut self.report;
        let heard = player.kill(part.name(), &mut report.violations)?;
        report.kills += 1;
        report.forks += heard.forks();
        match part {
            Part::Writer => {
                report.commits += heard.lines();
                report.writer_kills += 1;
            }
            Part::Reader => report.snapshots += heard.lines(),
            Part::Follower => {
                report.steps += heard.steps();
                report.follower_kills += 1;
            }
        }
        if let Some(owed) = self.owed.get_mut(place) {
            *owed = heard.committed().max(*owed);
        }
        Ok(())
    }

    fn replace(&mut self, place: usize) -> std::io::Result<()> {
        self.end(place)?;
        let part = self.settings.part_of(place);
        let seed = self.rng.next_u64();
        let player = Player::start(self.path, part.name(), place as u64, seed)?;
        self.players[place] = Some((part, player));
        Ok(())
    }

    /// Stops a player for a moment; half of the time it dies stopped.
    fn stop(&mut self, place: usize) -> std::io::Result<()> {
        if let Some((_, player)) = &self.players[place] {
            player.signal("-STOP")?;
            self.report.stops += 1;
            std::thread::sleep(Duration::from_millis(self.rng.below(30)));
            if self.rng.chance(1, 2) {
                player.signal("-CONT")?;
            } else {
                self.replace(place)?;
            }
        }
        Ok(())
    }

    /// No process is stopped now: each must make progress, or a lock is stuck.
    fn wait_for_everybody(&mut self) -> std::io::Result<()> {
        let lines = |player: &Player| player.heard.lines();
        for (part, player) in self.players.iter_mut().flatten() {
            let (before, begin) = (lines(player), Instant::now());
            while lines(player) == before && !player.has_ended()? {
                if begin.elapsed() > STUCK {
                    let what = format!("a {} is stuck for {STUCK:?}", part.name());
                    self.report.violations.push(what);
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Opens the store alone: every commit that returned is there, no reader is left, every page is
    /// in use or free, and a writer may write.
    fn look(&mut self) -> Result<(), String> {
        self.report.lonely_openings += 1;
        let store = told("open alone", Store::open(self.path))?;
        let report = told("check", store.check(&mut |_, _| {}))?;
        self.report.violations.extend(report.problems);
        let readers = told("readers", store.readers())?;
        if !readers.is_empty() {
            self.report.violations.push(format!("readers are left: {readers:?}"));
        }
        let txn = told("begin_read", store.begin_read())?;
        for (place, owed) in self.owed.iter_mut().enumerate() {
            let found = counted(&txn, place)?;
            if found < *owed {
                let what = format!("writer {place} told of commit {owed}, {found} is there");
                self.report.violations.push(what);
            }
            *owed = found;
        }
        drop(txn);
        for place in self.settings.writers + self.settings.readers..self.settings.players() {
            follow_to_the_end(&store, place)?;
        }
        match told("try_begin_write", store.try_begin_write())? {
            Some(txn) => txn.abort(),
            None => self.report.violations.push("the writer's lock is stuck".to_owned()),
        }
        Ok(())
    }
}

fn table_name(place: usize) -> String {
    format!("writer {place}")
}

/// The number that a writer has come to, its table verified; 0 if it has written nothing.
fn counted(txn: &impl Snapshot, place: usize) -> Result<u64, String> {
    let Ok(table) = txn.table(table_name(place)) else { return Ok(0) };
    let mut numbers = Vec::new();
    for entry in told("range", txn.range(table, ..))? {
        let entry = told("next", entry)?;
        let number = <[u8; 8]>::try_from(&*entry.key.to_vec()).map_or(0, u64::from_be_bytes);
        if entry.value.to_vec() != value(number) {
            return Err(format!("writer {place}: the value of {number} is not its own"));
        }
        numbers.push(number);
    }
    let is_dense = numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let count = told("count", txn.count(table))?.keys;
    match numbers.last() {
        Some(last) if is_dense && count == numbers.len() as u64 => Ok(*last),
        Some(last) => Err(format!("writer {place}: {count} keys up to {last} have gaps")),
        None => Ok(0),
    }
}

/// What a writer stores with a number: now and then more than a page.
fn value(number: u64) -> Vec<u8> {
    let len = if number.is_multiple_of(37) { 9000 } else { number as usize % 300 };
    vec![number as u8; len]
}

/// Plays a part until it is killed, or until the parent is gone.
///
/// # Errors
/// What went wrong, for the parent to read.
pub fn play(path: &Path, part: Part, place: usize, seed: u64) -> Result<(), String> {
    end_with_the_parent();
    let mut rng = Rng::new(seed, 32);
    let store = told("open", Store::open(path))?;
    if part == Part::Follower {
        return if rng.chance(1, 2) { follow_on(&store, place) } else { follow_in_memory(&store) };
    }
    loop {
        match part {
            Part::Writer => write_some(&store, place, &mut rng)?,
            Part::Reader | Part::Follower => read_some(&store, &mut rng)?,
        }
        if rng.chance(1, 100) {
            fork(&store)?;
        }
    }
}

/// One transaction of a writer, and a line about it.
fn write_some(store: &Store, place: usize, rng: &mut Rng) -> Result<(), String> {
    let mut txn = told("begin_write", store.begin_write())?;
    let table = told("create_table", txn.create_table(table_name(place), &TableOptions::new()))?;
    let last = told("last", txn.nth(table, told("count", txn.count(table))?.keys.max(1) - 1))?;
    let key = last.map(|entry| entry.key.to_vec());
    let mut number = key.and_then(|k| k.try_into().ok()).map_or(0, u64::from_be_bytes);
    for _ in 0..rng.between(1, 20) {
        number += 1;
        told("put", txn.put(table, &number.to_be_bytes(), &value(number)))?;
    }
    if number > 2 * KEPT && rng.chance(1, 8) {
        let old = (number - KEPT).to_be_bytes();
        told(
            "delete_range",
            txn.delete_range(table, (Bound::Unbounded, Bound::Excluded(&old[..]))),
        )?;
    }
    let modes = [Durability::Durable, Durability::Eventual, Durability::None, Durability::None];
    if rng.chance(1, 20) {
        txn.abort();
        return Ok(());
    }
    told("commit", txn.commit_with(rng.pick(&modes)))?;
    say(&format!("committed {number}"))
}

/// Verifies all of one snapshot of a reader, and reports it by a line.
fn read_some(store: &Store, rng: &mut Rng) -> Result<(), String> {
    let txn = told("begin_read", store.begin_read())?;
    if rng.chance(1, 4) {
        std::thread::sleep(Duration::from_micros(rng.below(20_000)));
    }
    let tables = told("tables", txn.tables())?;
    for place in 0..tables.len() {
        counted(&txn, place)?;
    }
    say(&format!("verified {}", txn.id()))
}

/// The second store of a follower, and what keeps it like the first one.
fn standby(store: &Store, place: usize) -> Result<(Store, Standby<Store>), String> {
    let path = store.path().with_file_name(format!("copy {place}"));
    // The one before may have been killed while it made the second store.
    let second = told("open the second store", Store::builder().open_or_create(&path))?;
    let standby = told("follow", Standby::new(store, format!("follower {place}"), &second))?;
    // Its commits survive being killed, which is all that happens here.
    Ok((second, standby.durability(Durability::None)))
}

/// Makes steps, and compares the second store with the first one after each of them.
fn follow_on(store: &Store, place: usize) -> Result<(), String> {
    let (second, mut standby) = standby(store, place)?;
    loop {
        if let Some(commit) = told("a step", standby.step(Some(Duration::from_millis(50))))? {
            // The pin of the step that was made last, which is not said to be done.
            let pinned = told("read_pin", store.read_pin(format!("follower {place}.next")))?;
            let first = pinned.filter(|first| first.id() == commit);
            let first = first.ok_or_else(|| format!("commit {commit} of a step is not pinned"))?;
            is_like(&second, &first).map_err(|what| format!("commit {commit}: {what}"))?;
            say(&format!("compared {commit}"))?;
        }
        say("verified all")?;
    }
}

/// Replays what changes into maps, and compares them with the store after each step.
fn follow_in_memory(store: &Store) -> Result<(), String> {
    let mut mirror = Mirror::new(store);
    loop {
        let is_new = mirror.step(Duration::from_millis(50))?;
        say(if is_new { "compared a step" } else { "verified all" })?;
    }
}

/// Nobody else is there: what the follower has left becomes all of the store.
fn follow_to_the_end(store: &Store, place: usize) -> Result<(), String> {
    let (second, mut standby) = standby(store, place)?;
    while told("a last step", standby.step(Some(Duration::ZERO)))?.is_some() {}
    told("done", standby.done())?;
    let first = told("begin_read", store.begin_read())?;
    is_like(&second, &first).map_err(|what| format!("follower {place}: {what}"))?;
    let report = told("check", second.check(&mut |_, _| {}))?;
    match report.problems.first() {
        Some(problem) => Err(format!("follower {place}: {problem}")),
        None => Ok(()),
    }
}

/// A child of a process that has the store open: it must leave the store alone.
fn fork(store: &Store) -> Result<(), String> {
    let snapshot = told("begin_read", store.begin_read())?;
    // A shell inherits nothing that is open, but its start forks this process.
    told("fork", Command::new("true").stdin(Stdio::null()).status())?;
    drop(snapshot);
    say("forked 1")
}
