//! An open database: what LevelDB's calls do, on whichever engine.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::batch::{self, Op};
use crate::engine::{Engine, LEVELS, Place, Snapshot};
use crate::folder::{self, Content, Current, LOCK};
use crate::lock::FileLock;
use crate::options::{Comparator, Kind, Log, Options};
use crate::repair;
use crate::status::{Code, Result, Status};

/// A database. Iterators and snapshots may outlive it; the lock on its folder goes with it.
pub(crate) struct Db {
    engine: Engine,
    comparator: Comparator,
    log: Arc<Log>,
    // Last, so that it is given back once the engine is closed.
    _lock: FileLock,
}

impl Db {
    /// Opens the database in a folder, or makes it.
    pub(crate) fn open(name: &[u8], options: &Options) -> Result<Self> {
        let folder = folder::path_of(name)?;
        // What is wrong shows when the lock is taken.
        let _ = folder::create_folder(&folder);
        let lock = FileLock::take(&folder.join(LOCK))?;
        repair::settle(&folder)?;
        let engine = match folder::content(&folder)? {
            Content::Ours(current) => open(&folder, &current, options)?,
            Content::Nothing if !options.create => {
                let reason = "does not exist (create_if_missing is false)";
                return Err(refused(&folder, reason));
            }
            Content::Nothing => create(&folder, options)?,
        };
        let log = options.log.clone().unwrap_or_else(|| log_in(&folder));
        let version = env!("CARGO_PKG_VERSION");
        let kind = engine.kind().name();
        log(&format!("Hedgerow {version}, engine {kind}"));
        log("options that shape LevelDB's files have no meaning here: block_size, \
             block_restart_interval, max_file_size, max_open_files, compression, filter_policy");
        Ok(Self { engine, comparator: options.comparator.clone(), log, _lock: lock })
    }

    /// Applies all operations or none.
    pub(crate) fn write(&self, ops: &[Op<'_>], sync: bool) -> Result<()> {
        self.engine.write(ops, sync)
    }

    /// Applies the bytes of a batch.
    pub(crate) fn write_batch(&self, bytes: &[u8], sync: bool) -> Result<()> {
        let read = batch::ops(bytes)?;
        let mut ops = Vec::with_capacity(read.count_max());
        for op in read {
            ops.push(op?);
        }
        self.engine.write(&ops, sync)
    }

    /// Shows the value of a key, in a snapshot or now.
    #[inline]
    pub(crate) fn get<R>(
        &self,
        at: Option<&Snapshot>,
        key: &[u8],
        see: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        self.engine.get(at, key, see)
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        self.engine.snapshot()
    }

    pub(crate) fn place(&self, at: Option<&Snapshot>) -> Result<Place> {
        self.engine.place(at)
    }

    /// About how many bytes the entries from one key to another take; 0 where that is not known.
    pub(crate) fn approximate_size(&self, from: &[u8], to: &[u8]) -> u64 {
        if self.comparator.compare(from, to).is_ge() {
            return 0;
        }
        self.engine.bytes_between(from, to).unwrap_or(0)
    }

    /// Makes the files small. A failure has no caller: it goes to the log.
    pub(crate) fn compact(&self, all: bool) {
        if let Err(error) = self.engine.compact(all) {
            (self.log)(&format!("Compaction error: {error}"));
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.engine.kind()
    }

    pub(crate) fn count(&self) -> Result<u64> {
        self.engine.count()
    }

    /// Reads and verifies everything.
    ///
    /// # Errors
    /// The first problem.
    pub(crate) fn check(&self) -> Result<()> {
        let problems = self.engine.check()?;
        problems.iter().for_each(|problem| (self.log)(problem));
        problems.into_iter().next().map_or(Ok(()), |problem| Err(Status::corruption(problem)))
    }

    /// Makes a copy of the newest state, a database of its own, in a folder that is not there yet.
    pub(crate) fn backup(&self, name: &[u8]) -> Result<()> {
        let to = folder::path_of(name)?;
        folder::create_folder(&to).map_err(|error| Status::io(&to, &error))?;
        let current = current(self.engine.kind(), &self.comparator);
        current.announce(&to)?;
        self.engine.copy_to(&to)?;
        Current::publish(&to)
    }

    /// What a property says; `None` for an unknown one.
    pub(crate) fn property(&self, name: &[u8]) -> Option<String> {
        let name = std::str::from_utf8(name).ok()?.strip_prefix("leveldb.")?;
        if let Some(level) = name.strip_prefix("num-files-at-level") {
            let is_number = !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_digit());
            let level = level.parse::<usize>().ok().filter(|&level| is_number && level < LEVELS)?;
            return Some(self.engine.levels().ok()?[level].files.to_string());
        }
        match name {
            "stats" => self.stats().ok(),
            "sstables" => self.tables().ok(),
            "approximate-memory-usage" => Some(self.engine.memory().to_string()),
            _ => None,
        }
    }

    fn stats(&self) -> Result<String> {
        const MIB: f64 = (1 << 20) as f64;
        let mut text = String::from("                               Compactions\n");
        text.push_str("Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n");
        text.push_str(&"-".repeat(50));
        text.push('\n');
        let levels = self.engine.levels()?;
        for (level, of_level) in levels.iter().enumerate().filter(|(_, level)| level.files > 0) {
            let (files, size) = (of_level.files, of_level.bytes as f64 / MIB);
            // The engines do not measure what their background work takes.
            let _ = writeln!(text, "{level:3} {files:8} {size:8.0} {:9.0} {:8.0} {:9.0}", 0, 0, 0);
        }
        Ok(text)
    }

    fn tables(&self) -> Result<String> {
        let mut text = String::new();
        for (level, of_level) in self.engine.levels()?.iter().enumerate() {
            let _ = writeln!(text, "--- level {level} ---");
            if of_level.files > 0 {
                let _ = writeln!(text, " {} files of {} bytes", of_level.files, of_level.bytes);
            }
        }
        Ok(text)
    }
}

fn refused(folder: &Path, reason: &str) -> Status {
    Status::invalid(format!("{}: {reason}", folder.display()))
}

pub(crate) fn current(kind: Kind, comparator: &Comparator) -> Current {
    Current { kind, comparator: folder::escaped(&comparator.name) }
}

fn open(folder: &Path, current: &Current, options: &Options) -> Result<Engine> {
    if options.error_if_exists {
        return Err(refused(folder, "exists (error_if_exists is true)"));
    }
    let name = folder::escaped(&options.comparator.name);
    if name != current.comparator {
        let there = &current.comparator;
        let message = format!("{there} does not match existing comparator : {name}");
        return Err(Status::invalid(message));
    }
    Engine::open(current.kind, folder, options)
}

pub(crate) fn create(folder: &Path, options: &Options) -> Result<Engine> {
    let kind = options.kind().map_err(Status::invalid)?;
    current(kind, &options.comparator).announce(folder)?;
    let engine = Engine::create(kind, folder, options)?;
    Current::publish(folder)?;
    Ok(engine)
}

/// The log of a database whose program has none.
pub(crate) fn log_in(folder: &Path) -> Arc<Log> {
    let file = Mutex::new(folder::new_log(folder));
    Arc::new(move |line: &str| {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &mut *file {
            // There is no other place to say that the log cannot be written.
            let _ = writeln!(file, "{line}");
        }
    })
}

/// Removes a database: only files of ours, and the folder if it is empty then. One that is not
/// there is removed already.
pub(crate) fn destroy(name: &[u8]) -> Result<()> {
    let folder = folder::path_of(name)?;
    if !folder.is_dir() {
        return Ok(());
    }
    let lock = FileLock::take(&folder.join(LOCK))?;
    if let Err(error) = folder::content(&folder) {
        // What is damaged may be ours still.
        let is_ours = error.code == Code::Corruption && folder::engine_of(&folder)?.is_some();
        if !is_ours {
            return Err(error);
        }
    }
    folder::destroy(&folder)?;
    drop(lock);
    // Other files may be in it.
    let _ = fs::remove_dir(&folder);
    Ok(())
}

#[cfg(test)]
mod tests;
