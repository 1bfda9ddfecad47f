//! Engine and model side by side: every answer is compared.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow::Durability;
use hedgerow::lsm::{Batch, Db, Keyspace, KeyspaceOptions, Readable, Snapshot};
use hedgerow::os::sim::{self, SimSystem};

use super::ledger::{Ledger, Mark, State};
use super::{Config, Generator, HELD, Op, SPACES, Write, random_write};
use crate::job::{SeedReport, Settings, in_folder, report_of};
use crate::rng::Rng;
use crate::run::{Disagreement, Outcome};

mod read;

/// A simulated disk whose files have this much address space.
pub(super) fn disk(seed: u64) -> SimSystem {
    SimSystem::new(seed, sim::Config { reserve: 4 << 20, ..sim::Config::default() })
}

/// A snapshot, the keyspaces as they were, and the model of it.
struct Held {
    snapshot: Snapshot,
    spaces: Vec<Keyspace>,
    state: State,
}

/// A store, its model, and what is held of both.
pub(super) struct Runner<'c> {
    config: &'c Config,
    disk: Option<SimSystem>,
    path: PathBuf,
    db: Option<Db>,
    spaces: Vec<Keyspace>,
    state: State,
    held: [Option<Held>; HELD],
    /// Checkpoints that were made.
    copies: u64,
    pub(super) ledger: Ledger,
    /// How far commits were when it was opened.
    pub(super) start: Mark,
}

fn ok<T>(what: &str, result: hedgerow::Result<T>) -> Outcome<T> {
    let error = |e| Disagreement { text: format!("{what}: the engine says {e}"), is_error: true };
    result.map_err(error)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, engine: &T, model: &T) -> Outcome {
    if engine == model {
        return Ok(());
    }
    let (mut engine, mut model) = (format!("{engine:?}"), format!("{model:?}"));
    engine.truncate(600);
    model.truncate(600);
    Err(format!("{what}: the engine says {engine}, the model {model}").into())
}

/// Puts a write into a batch or a transaction.
macro_rules! write_in {
    ($runner:expr, $target:expr, $write:expr) => {{
        let key = |key: u16| &$runner.config.keys[usize::from(key)][..];
        let space = &$runner.spaces[$write.space()];
        let written = match $write {
            Write::Put(_, at, value) => $target.put(space, key(at), &$runner.config.value(value)),
            Write::Delete(_, at) => $target.delete(space, key(at)),
            Write::DeleteRange(_, from, to) => {
                let to = to.map_or(Bound::Unbounded, |to| Bound::Excluded(key(to)));
                $target.delete_range(space, (Bound::Included(key(from)), to))
            }
        };
        ok("a write into a batch or a transaction", written)
    }};
}

type Entry = (Vec<u8>, Vec<u8>);

impl<'c> Runner<'c> {
    /// The ledger of a store that is not open yet.
    fn closed(config: &'c Config, disk: Option<SimSystem>, path: PathBuf, ledger: Ledger) -> Self {
        Self {
            config,
            disk,
            path,
            db: None,
            spaces: Vec::new(),
            state: State::default(),
            held: Default::default(),
            copies: 0,
            start: ledger.mark(),
            ledger,
        }
    }

    pub(super) fn new(config: &'c Config, disk: Option<SimSystem>, path: PathBuf) -> Outcome<Self> {
        let mut runner = Self::closed(config, disk, path, Ledger::of(State::default()));
        runner.open()?;
        Ok(runner)
    }

    /// Opens a store that was closed, and compares nothing.
    pub(super) fn resumed(
        config: &'c Config,
        disk: SimSystem,
        path: PathBuf,
        ledger: &Ledger,
    ) -> Outcome<Self> {
        let mut runner = Self::closed(config, Some(disk), path, ledger.clone());
        runner.state = ledger.states[ledger.returned].clone();
        runner.open()?;
        Ok(runner)
    }

    /// Opens what a loss of power, or else of the process, left: it must be a state from the one
    /// that had to survive to the one of the commit that had not returned yet.
    pub(super) fn recovered(
        config: &'c Config,
        disk: SimSystem,
        path: PathBuf,
        ledger: &Ledger,
        (mark, is_power): (Mark, bool),
    ) -> Outcome<Self> {
        let low = if is_power { mark.durable } else { mark.handed };
        let high = mark.returned + 1;
        let mut runner = Self::closed(config, Some(disk), path, ledger.clone());
        let db = runner.open_db(&runner.path)?;
        let found = runner.read(&db)?;
        let last = ledger.states.len() - 1;
        let allowed = &ledger.states[low..=high.min(last)];
        let entries = |state: &State| runner.expected(state);
        let Some(at) = allowed.iter().rposition(|state| entries(state) == found) else {
            let whole = ledger.states.iter().position(|state| entries(state) == found);
            let text = match whole {
                Some(at) => format!("commit {at} is the last one there, not {low} to {high}"),
                None => format!("what is there is no state after a commit from {low} to {high}"),
            };
            return Err(text.into());
        };
        // Until it is open, what was in the cache only may still be lost.
        let states = ledger.states[mark.durable..=low + at].to_vec();
        runner.state = ledger.states[low + at].clone();
        let handed = states.len() - 1;
        let durable = if is_power { handed } else { 0 };
        runner.ledger = Ledger { states, returned: handed, handed, durable };
        runner.start = runner.ledger.mark();
        runner.enter(db)?;
        runner.check()?;
        Ok(runner)
    }

    /// All entries, as the model has them.
    fn expected(&self, state: &State) -> Vec<Vec<Entry>> {
        let entry = |(&key, &value): (&u16, &u32)| {
            (self.config.keys[usize::from(key)].clone(), self.config.value(value))
        };
        state.0.iter().map(|space| space.iter().map(entry).collect()).collect()
    }

    /// All entries of keyspaces that exist already.
    fn read(&self, db: &Db) -> Outcome<Vec<Vec<Entry>>> {
        let names = ok("keyspaces", db.keyspaces())?;
        let mut found = Vec::new();
        for (name, _) in SPACES {
            let mut entries = Vec::new();
            if names.iter().any(|known| known == name.as_bytes()) {
                let space = ok("keyspace", db.keyspace(name, KeyspaceOptions::default()))?;
                let scan = ok("scan", db.range(&space, ..))?;
                entries = ok("scan", scan.collect::<Result<_, _>>())?;
            }
            found.push(entries);
        }
        Ok(found)
    }

    fn open_db(&self, path: &Path) -> Outcome<Db> {
        let options = match &self.disk {
            Some(disk) => self.config.options().system(Arc::new(disk.clone())),
            None => self.config.options(),
        };
        ok("open", options.open(path))
    }

    fn open(&mut self) -> Outcome {
        let db = self.open_db(&self.path)?;
        self.enter(db)
    }

    fn enter(&mut self, db: Db) -> Outcome {
        self.spaces.clear();
        for (name, separation_threshold) in SPACES {
            let space =
                db.keyspace(name, KeyspaceOptions { separation_threshold, ..Default::default() });
            self.spaces.push(ok("keyspace", space)?);
        }
        self.db = Some(db);
        self.all_is_durable()
    }

    /// Writes down in the disk's log how far commits are.
    fn note(&self) {
        if let Some(disk) = &self.disk {
            disk.mark(self.ledger.mark().pack());
        }
    }

    fn db(&self) -> Outcome<&Db> {
        self.db.as_ref().ok_or_else(|| "the store is not open".to_owned().into())
    }

    /// Ends the run as a process that closes its store, or dies.
    pub(super) fn end(mut self, closes: bool) -> Outcome<Ledger> {
        self.held = Default::default();
        if let (Some(disk), false) = (&self.disk, closes) {
            disk.kill();
        }
        if let (Some(db), true) = (self.db.take(), closes) {
            ok("close", db.close())?;
            self.all_is_durable()?;
        }
        Ok(self.ledger.clone())
    }

    /// Does operations one after the other.
    pub(super) fn run(&mut self, ops: &mut dyn Iterator<Item = Op>) -> Outcome {
        for op in ops {
            self.step(op)?;
        }
        Ok(())
    }

    /// Compares all entries, now and in held snapshots.
    pub(super) fn verify(&self) -> Outcome {
        let db = self.db()?;
        same("all entries", &self.read(db)?, &self.expected(&self.state))?;
        for Held { snapshot, spaces, state } in self.held.iter().flatten() {
            for (space, expected) in spaces.iter().zip(self.expected(state)) {
                let scan = ok("scan", snapshot.range(space, ..))?;
                let found: Vec<Entry> = ok("scan", scan.collect::<Result<_, _>>())?;
                same("all entries of a snapshot", &found, &expected)?;
            }
        }
        Ok(())
    }

    pub(super) fn is_open(&self) -> bool {
        self.db.is_some()
    }

    /// Whether the store refuses to write since something failed.
    pub(super) fn is_poisoned(&self) -> Outcome<bool> {
        match self.db()?.write_with(Batch::new(), Durability::None) {
            Ok(()) => Ok(false),
            Err(hedgerow::Error::Poisoned { .. }) => Ok(true),
            Err(other) => ok("write", Err(other)),
        }
    }

    pub(super) fn step(&mut self, op: Op) -> Outcome {
        match op {
            Op::Commit(write, durability) => self.commit(&[write], durability),
            Op::Batch(seed, durability) => {
                let mut rng = Rng::new(seed, 35);
                let count = rng.between(1, 12);
                let keys = self.config.keys.len();
                let writes: Vec<_> = (0..count).map(|_| random_write(&mut rng, keys)).collect();
                self.commit(&writes, durability)
            }
            Op::Transact(seed, durability) => self.transact(seed, durability),
            Op::Get(held, seed) => self.get(held, seed),
            Op::Scan(held, seed) => self.scan(held, seed),
            Op::Walk(held, seed) => self.walk(held, seed),
            Op::Hold(slot) => {
                let snapshot = self.db()?.snapshot();
                let (spaces, state) = (self.spaces.clone(), self.state.clone());
                self.held[usize::from(slot)] = Some(Held { snapshot, spaces, state });
                Ok(())
            }
            Op::Release(slot) => {
                self.held[usize::from(slot)] = None;
                Ok(())
            }
            Op::Flush => {
                ok("flush", self.db()?.flush())?;
                self.all_is_durable()
            }
            Op::Compact => {
                ok("compact", self.db()?.compact())?;
                self.all_is_durable()
            }
            Op::Sync => {
                ok("sync", self.db()?.sync())?;
                self.all_is_durable()
            }
            Op::Drop(space) => self.drop_space(usize::from(space)),
            Op::Checkpoint => self.checkpoint(),
            Op::Check => self.check(),
            Op::Reopen => self.reopen(),
        }
    }

    fn all_is_durable(&mut self) -> Outcome {
        self.ledger.promise(Durability::Durable);
        self.note();
        Ok(())
    }

    fn check(&self) -> Outcome {
        let report = ok("check", self.db()?.check())?;
        match report.damage.first() {
            None => Ok(()),
            Some(first) => Err(format!("check: {first}").into()),
        }
    }

    fn reopen(&mut self) -> Outcome {
        self.held = Default::default();
        if let Some(db) = self.db.take() {
            ok("close", db.close())?;
        }
        self.open()?;
        let found = self.read(self.db()?)?;
        same("all entries after opening again", &found, &self.expected(&self.state))
    }

    fn commit(&mut self, writes: &[Write], durability: Durability) -> Outcome {
        let (mut batch, mut state) = (Batch::new(), self.state.clone());
        for &write in writes {
            write_in!(self, batch, write)?;
            state.apply(write);
        }
        self.settle(state, durability, |db| db.write_with(batch, durability))
    }

    /// Commits what leads to a state.
    fn settle(
        &mut self,
        state: State,
        durability: Durability,
        write: impl FnOnce(&Db) -> hedgerow::Result<()>,
    ) -> Outcome {
        // Noted before the commit begins: it may survive although it never returns.
        self.ledger.states.push(state.clone());
        let written = ok("write", write(self.db()?));
        if written.is_err() && !self.is_poisoned()? {
            // What failed otherwise never comes back.
            self.ledger.states.pop();
        }
        written?;
        self.state = state;
        self.ledger.returned();
        self.ledger.promise(durability);
        self.note();
        Ok(())
    }

    /// A transaction, and sometimes a commit of others between its beginning and its end.
    fn transact(&mut self, seed: u64, durability: Durability) -> Outcome {
        let (mut rng, keys) = (Rng::new(seed, 39), self.config.keys.len());
        let mut transaction = self.db()?.transaction();
        let first = Write::Put(0, rng.index(keys) as u16, rng.next_u64() as u32);
        let (mut state, mut writes, mut touched) = (self.state.clone(), vec![first], Vec::new());
        write_in!(self, transaction, first)?;
        state.apply(first);
        touched.push(first);
        for _ in 0..rng.between(0, 8) {
            if rng.chance(1, 2) {
                let (space, key) = (rng.index(SPACES.len()), rng.index(keys) as u16);
                let text = &self.config.keys[usize::from(key)];
                let found = ok("get", transaction.get(&self.spaces[space], text))?;
                let value = state.0[space].get(&key).map(|&value| self.config.value(value));
                same("get in a transaction", &found, &value)?;
                touched.push(Write::Delete(space as u8, key));
            } else {
                let write = random_write(&mut rng, keys);
                write_in!(self, transaction, write)?;
                state.apply(write);
                writes.push(write);
                touched.push(write);
            }
        }
        let rival = rng.chance(1, 3).then(|| random_write(&mut rng, keys));
        if let Some(rival) = rival {
            self.commit(&[rival], durability)?;
            if touched.iter().any(|touched| touched.meets(rival)) {
                return match transaction.commit_with(durability) {
                    Err(hedgerow::Error::Conflict) => Ok(()),
                    other => same("a conflict", &ok("commit", other).is_ok(), &false),
                };
            }
        }
        let mut state = self.state.clone();
        writes.into_iter().for_each(|write| state.apply(write));
        self.settle(state, durability, |_| transaction.commit_with(durability))
    }

    /// Drops a keyspace and makes it anew, empty.
    fn drop_space(&mut self, space: usize) -> Outcome {
        let (name, separation_threshold) = SPACES[space];
        let mut state = self.state.clone();
        state.0[space].clear();
        self.settle(state, Durability::Durable, |db| db.drop_keyspace(name).map(drop))?;
        let stale = self.db()?.put(&self.spaces[space], b"key", b"value");
        if !matches!(stale, Err(hedgerow::Error::NoTable { .. })) {
            return Err("a dropped keyspace takes a value".to_owned().into());
        }
        let made = self
            .db()?
            .keyspace(name, KeyspaceOptions { separation_threshold, ..Default::default() });
        self.spaces[space] = ok("keyspace", made)?;
        Ok(())
    }

    /// Makes a checkpoint and reads it as a store of its own.
    fn checkpoint(&mut self) -> Outcome {
        self.copies += 1;
        let path = self.path.with_extension(self.copies.to_string());
        ok("checkpoint", self.db()?.checkpoint(&path))?;
        let copy = self.open_db(&path)?;
        same("all entries of a checkpoint", &self.read(&copy)?, &self.expected(&self.state))?;
        ok("close", copy.close())
    }
}

/// Runs one seed, and shrinks it if it fails.
pub fn run_seed(seed: u64, settings: &Settings) -> SeedReport<Op> {
    let config = Config::new(seed);
    let run = |ops: &mut dyn Iterator<Item = Op>| {
        in_folder(&settings.folder, |folder| {
            let disk = (!config.is_real).then(|| disk(seed));
            let mut runner = Runner::new(&config, disk, folder.join("store"))?;
            runner.run(ops)?;
            runner.check()?;
            runner.end(true).map(drop)
        })
    };
    report_of(seed, settings, || Generator::new(&config), run, || config.describe())
}
