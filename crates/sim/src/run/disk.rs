//! A run on a simulated disk: what the store may hold after a power cut or the death of its
//! process, at each place of the disk's log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow::Durability;
use hedgerow::Error;
use hedgerow::os::System;
use hedgerow::os::sim::SimSystem;
use hedgerow::tree::{Builder, Store};

use super::compare::{Disagreement, Outcome, ok, same};
use super::verify::lock_of;
use super::{Runner, Side, verify};
use crate::config::Config;
use crate::model::State;

/// The folder of the stores on their simulated disk.
const FOLDER: &str = "/disk";

/// The disk of a run.
pub(super) struct Disk {
    system: SimSystem,
    ledger: Ledger,
}

impl Disk {
    pub(super) fn builder(&self, config: &Config) -> Builder {
        on(config, &self.system)
    }

    pub(super) fn remove_store(&self, path: &Path) -> Outcome {
        for file in [lock_of(path), path.to_path_buf()] {
            match self.system.remove(&file) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    let text = format!("{} is not removed: {e}", file.display());
                    return Err(Disagreement { text, is_error: true });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn on(config: &Config, system: &SimSystem) -> Builder {
    config.builder().system(Arc::new(system.clone()))
}

fn store_path() -> PathBuf {
    Path::new(FOLDER).join("store")
}

/// What a store held after each of its commits, in their order.
#[derive(Clone, Debug)]
pub struct Ledger {
    commits: Vec<Committed>,
    /// The newest durable one; `None` before anything of the store is known to be durable.
    durable: Option<usize>,
    /// One that was begun and has not returned.
    begun: Option<Committed>,
}

#[derive(Clone, Debug)]
struct Committed {
    /// The number that the engine gave it. Commits that change no table, as those of compaction
    /// do, are not listed: their numbers lie between those of the others.
    id: u64,
    state: State,
}

/// How the run of a store ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The power was cut.
    Power,
    /// The process was killed, and the machine went on.
    Process,
}

/// Which commits there may be and must be at a place of the log, as positions in a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The newest one that was begun.
    begun: u64,
    /// The newest one that returned.
    finished: u64,
    /// The newest one that was said to be durable; `None` if not even the store was.
    durable: Option<u64>,
}

/// Bits of a position in a mark.
const POSITION_BITS: u32 = 21;

impl Mark {
    /// A mark from the log.
    pub fn unpack(word: u64) -> Self {
        let position = |at: u32| word >> (at * POSITION_BITS) & ((1 << POSITION_BITS) - 1);
        let durable = position(0).checked_sub(1);
        Self { begun: position(2), finished: position(1), durable }
    }

    fn pack(self) -> u64 {
        let durable = self.durable.map_or(0, |at| at + 1);
        (self.begun << POSITION_BITS | self.finished) << POSITION_BITS | durable
    }
}

impl Ledger {
    /// The state of a store that was just made, with its empty commit; `durable` if that was
    /// flushed.
    fn new(id: u64, state: State, durable: bool) -> Self {
        let durable = durable.then_some(0);
        Self { commits: vec![Committed { id, state }], durable, begun: None }
    }

    fn last(&self) -> usize {
        self.commits.len() - 1
    }

    /// Whether something was flushed or committed since the store was made.
    fn is_more_than_made(&self) -> bool {
        self.durable.is_some() || self.last() > 0
    }

    /// How many commits of tables there were.
    pub fn commits(&self) -> u64 {
        self.last() as u64
    }

    /// The mark of this place, with `begun` commits about to be written.
    pub fn mark(&self, begun: usize) -> Mark {
        let last = self.last();
        let [begun, finished] = [last + begun, last].map(|at| at as u64);
        Mark { begun, finished, durable: self.durable.map(|at| at as u64) }
    }

    /// Notes a commit. Those of one group share a number, and the last state counts.
    fn add(&mut self, id: u64, state: State) {
        match self.commits.last_mut() {
            Some(last) if last.id >= id => last.state = state,
            _ => self.commits.push(Committed { id, state }),
        }
    }

    /// The position of the commit that a store holds whose newest commit has this number.
    fn position(&self, id: u64) -> Option<usize> {
        self.commits.partition_point(|commit| commit.id <= id).checked_sub(1)
    }

    /// What there may be from the moment on at which a store was opened and held the commit at
    /// `found`: after a loss of power nothing else is left; after the loss of the process what was
    /// not durable may still be lost.
    fn reopened(&self, found: usize, durable: Option<u64>, loss: Loss) -> Self {
        let durable = match loss {
            Loss::Power => Some(found),
            Loss::Process => durable.map(|at| found.min(at as usize)),
        };
        let first = durable.unwrap_or(0);
        let commits = self.commits[first..=found].to_vec();
        Self { commits, durable: durable.map(|_| 0), begun: None }
    }

    /// What there may be after the store refused to go on: a commit that failed may be there.
    /// Where a flush failed, nothing that was not durable must be.
    pub fn after_failure(mut self) -> (Self, Mark) {
        let finished = self.durable.unwrap_or(0);
        if let Some(Committed { id, state }) = self.begun.take() {
            self.add(id, state);
        }
        let mark = Mark { finished: finished as u64, ..self.mark(0) };
        (self, mark)
    }
}

impl<'c> Runner<'c> {
    /// Creates the store of a run on a simulated disk.
    pub fn on_disk(config: &'c Config, system: &SimSystem) -> Outcome<Self> {
        let store = ok("create", on(config, system).create(store_path()))?;
        let committed = State::new(config.tables.len());
        let durable = config.durability != Durability::None;
        let ledger = Ledger::new(newest(&store)?, committed.clone(), durable);
        let mut runner = Self::with(config, FOLDER.into(), store, committed);
        runner.disk = Some(Disk { system: system.clone(), ledger });
        runner.note_begun(0);
        Ok(runner)
    }

    /// Opens the store that a loss left on a simulated disk, checks every page, and compares it
    /// with the commits that there may be by the mark of the place. `None` if there is no store and
    /// need not be one: if there is no mark, because its creation had not returned, or if nothing
    /// of it was durable.
    pub fn recovered(
        config: &'c Config,
        system: &SimSystem,
        ledger: &Ledger,
        mark: Option<Mark>,
        loss: Loss,
    ) -> Outcome<Option<Self>> {
        let may_be_gone = |mark: Mark| loss == Loss::Power && mark.durable.is_none();
        let runner = match Self::reopened(config, system, ledger, mark, loss) {
            Err(d) if d.is_error && mark.is_none_or(may_be_gone) => return Ok(None),
            other => other?,
        };
        runner.verify_pages()?;
        runner.verify_seen()?;
        Ok(Some(runner))
    }

    /// As [`Runner::recovered`], without a look at what the store holds.
    pub fn reopened(
        config: &'c Config,
        system: &SimSystem,
        ledger: &Ledger,
        mark: Option<Mark>,
        loss: Loss,
    ) -> Outcome<Self> {
        let store = ok("open", on(config, system).open(store_path()))?;
        same("page_size", store.page_size(), config.page_size)?;
        let id = newest(&store)?;
        let found = match (ledger.position(id), mark) {
            (Some(found), _) => found,
            // A store whose creation was cut may have any of its first, empty commits.
            (None, mark) if mark.is_none_or(|mark| mark.durable.is_none()) => 0,
            (None, _) => return Err(format!("holds commit {id}, which is too old").into()),
        };
        let mark = mark.unwrap_or_default();
        let durable = mark.durable.unwrap_or(0);
        let least = if loss == Loss::Power { durable } else { mark.finished };
        if !(least..=mark.begun).contains(&(found as u64)) {
            let (listed, last) = (ledger.commits[found].id, mark.begun);
            return Err(Disagreement::from(format!(
                "holds commit {found} (number {id}, listed {listed}), must be one from {least} to \
                 {last}"
            )));
        }
        let committed = ledger.commits[found].state.clone();
        let mut runner = Self::with(config, FOLDER.into(), store, committed);
        let mut ledger = ledger.reopened(found, mark.durable, loss);
        ledger.commits[0].id = ledger.commits[0].id.min(id);
        runner.disk = Some(Disk { system: system.clone(), ledger });
        Ok(runner)
    }

    /// Compares what a reader sees now with the newest commit that returned.
    pub fn verify_seen(&self) -> Outcome {
        let txn = ok("begin_read", self.store().begin_read())?;
        verify::walks(self.config, &txn, &mut Side::new(self.committed.clone()))
    }

    /// Begins a write transaction and drops it; whether the store refuses because it is poisoned.
    pub fn is_poisoned(&self) -> Outcome<bool> {
        match self.store().begin_write() {
            Err(Error::Poisoned { .. }) => Ok(true),
            other => ok("begin_write", other).map(|_| false),
        }
    }

    /// Whether the store is open; it is not after a reopening that failed.
    pub fn is_open(&self) -> bool {
        self.store.is_some()
    }

    /// Lets all held read transactions go, and counts those that the store still lists.
    pub fn readers_left(&mut self) -> Outcome<usize> {
        self.readers.fill_with(|| None);
        Ok(ok("readers", self.store().readers())?.len())
    }

    /// Ends the run: closes the store, and gives back what it held.
    pub fn close(mut self) -> Option<Ledger> {
        self.readers.clear();
        self.store = None;
        // After a failure only what was durable before counts.
        let _ = self.note_closed();
        self.disk.take().map(|disk| disk.ledger)
    }

    /// Ends the run as the death of its process does.
    pub fn die(mut self) -> Option<Ledger> {
        let disk = self.disk.take()?;
        disk.system.kill();
        Some(disk.ledger)
    }

    /// What the store held so far.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.disk.as_ref().map(|disk| &disk.ledger)
    }

    /// Notes the commit that is about to be written.
    pub(super) fn note_begin(&mut self, id: u64, state: &State) {
        if let Some(disk) = &mut self.disk {
            disk.ledger.begun = Some(Committed { id, state: state.clone() });
        }
        self.note_begun(1);
    }

    /// Notes that `count` commits are about to be written.
    pub(super) fn note_begun(&self, count: usize) {
        if let Some(disk) = &self.disk {
            disk.system.mark(disk.ledger.mark(count).pack());
        }
    }

    /// Notes commits that returned, by the numbers that they were given, and whether they are
    /// durable. What changed nothing did not become a commit and used no number.
    pub(super) fn note_commits(
        &mut self,
        commits: impl IntoIterator<Item = (u64, State)>,
        durable: bool,
    ) -> Outcome {
        if self.disk.is_none() {
            return Ok(());
        }
        let newest = newest(self.store())?;
        if let Some(disk) = &mut self.disk {
            for (id, state) in commits.into_iter().filter(|commit| commit.0 <= newest) {
                disk.ledger.add(id, state);
            }
            disk.ledger.begun = None;
            if durable {
                disk.ledger.durable = Some(disk.ledger.last());
            }
        }
        self.note_begun(0);
        Ok(())
    }

    /// Notes that the store was closed, which flushes what was committed. If a call to the system
    /// failed, the flush may have failed too, which cannot be reported: the run ends there.
    pub(super) fn note_closed(&mut self) -> Outcome {
        if self.disk.as_ref().is_some_and(|disk| !disk.system.failed().is_empty()) {
            let text = "closed after a call to the system failed".to_owned();
            return Err(Disagreement { text, is_error: true });
        }
        // A store that was never flushed nor written is no more durable for being closed.
        if self.disk.as_ref().is_some_and(|disk| disk.ledger.is_more_than_made()) {
            self.note_durable();
        }
        Ok(())
    }

    /// A commit that returned, but could not be looked at because the system failed, is there.
    pub fn settle_begun(&mut self) -> Outcome {
        let newest = newest(self.store())?;
        if let Some(disk) = &mut self.disk
            && let Some(begun) = disk.ledger.begun.take_if(|begun| begun.id <= newest)
        {
            disk.ledger.add(begun.id, begun.state);
        }
        Ok(())
    }

    /// Notes that everything so far is durable.
    pub(super) fn note_durable(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.ledger.durable = Some(disk.ledger.last());
        }
        self.note_begun(0);
    }
}

/// The number of a store's newest commit.
fn newest(store: &Store) -> Outcome<u64> {
    Ok(ok("begin_read", store.begin_read())?.id())
}
