//! A database as its live entries in order of their keys, read without opening it: nothing in its
//! folder is written. Its lock is held as a reader's, so that no program opens it meanwhile.
//!
//! Tables of level 0 overlap, those of another level do not; logs are read into memory. All are
//! merged, the highest sequence number of each key counts, and keys whose last word is a deletion
//! are left out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, fcntl_lock};

use super::block::Entries;
use super::coding::{Kind, Reader, parts_of};
use super::manifest::{Manifest, TableFile};
use super::table::{Problem, Table};
use super::{BYTEWISE, CURRENT, Damage, log, rebuild};
use crate::codec::shown;
use crate::exit::Failure;

/// Where the count of a batch stands, and its records begin.
const COUNT_OFFSET: usize = 8;

/// What is done with a key, a value, and how many bytes of tables were read so far.
pub(crate) type See<'s> = dyn FnMut(&[u8], &[u8], u64) -> Result<(), Failure> + 's;

/// A part that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) damage: Damage,
    /// The keys between which entries may be missing; `None` is an end, or that it is not known.
    pub(crate) after: Option<Vec<u8>>,
    pub(crate) until: Option<Vec<u8>>,
}

/// A database that is read.
pub(crate) struct Database {
    folder: PathBuf,
    manifest: Manifest,
    /// What is in logs: of each key the newest word.
    logged: BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)>,
    /// What could not be read so far; without salvage the first damage is an error.
    lost: Vec<Lost>,
    salvage: bool,
    _lock: Option<File>,
}

fn refused(doing: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::io(doing, path.display(), error)
}

impl Database {
    /// Reads what a folder has beside its tables.
    ///
    /// # Errors
    /// If it is no database of LevelDB, is in use, has an order of its own, or, without `salvage`,
    /// is damaged.
    pub(crate) fn open(folder: &Path, salvage: bool) -> Result<Self, Failure> {
        let lock = lock(folder)?;
        let mut lost = Vec::new();
        let manifest = match read_manifest(folder) {
            Ok(manifest) => manifest,
            Err(Problem::Damage(Damage { path, what, .. })) if !rebuild::has_files(folder) => {
                let (folder, path) = (folder.display(), path.display());
                return Err(Failure::other(format!(
                    "{folder} is no database of LevelDB: {path}: {what}"
                )));
            }
            Err(Problem::Damage(damage)) if salvage => {
                lost.push(Lost { damage, after: None, until: None });
                rebuild::manifest(folder).map_err(|e| refused("list", folder, &e))?
            }
            Err(Problem::Damage(damage)) => return Err(damage.into()),
            Err(Problem::Io(path, error)) => return Err(refused("read", &path, &error)),
        };
        if manifest.comparator != BYTEWISE {
            return Err(Failure::other(format!(
                "{} is in the order \"{}\", which is a function of the program that made it; only \
                 bytewise order can be converted",
                folder.display(),
                shown(&manifest.comparator)
            )));
        }
        let (logged, folder) = (BTreeMap::new(), folder.to_path_buf());
        let mut database = Self { folder, manifest, logged, lost, salvage, _lock: lock };
        database.read_logs()?;
        Ok(database)
    }

    /// The bytes of all tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.manifest.tables.values().map(|table| table.bytes).sum()
    }

    /// What could not be read so far.
    pub(crate) fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// What tells this state of the database from others.
    pub(crate) fn identity(&self) -> String {
        let Manifest { next_file, last_sequence, tables, .. } = &self.manifest;
        let in_logs = self.logged.values().map(|(sequence, _)| *sequence);
        let newest = in_logs.fold(*last_sequence, u64::max);
        let (tables, logged) = (tables.len(), self.logged.len());
        format!("entry {newest}, file {next_file}, {tables} tables, {logged} keys in logs")
    }

    /// Logs that are in no table, the oldest first.
    fn read_logs(&mut self) -> Result<(), Failure> {
        let entries = fs::read_dir(&self.folder).map_err(|e| refused("list", &self.folder, &e))?;
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(|e| refused("list", &self.folder, &e))?.file_name();
            let Some((number, "log")) = name.to_str().and_then(rebuild::parse) else { continue };
            let Manifest { log_number, previous_log, .. } = self.manifest;
            if number >= log_number || previous_log != 0 && number == previous_log {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        for number in numbers {
            let path = self.folder.join(format!("{number:06}.log"));
            let bytes = fs::read(&path).map_err(|e| refused("read", &path, &e))?;
            let records = log::read(&path, &bytes);
            for damage in records.damage {
                self.lose(damage, None, None)?;
            }
            for (at, record) in records.whole {
                if self.read_batch(&record).is_none() {
                    let damage = Damage::new(&path, at, "a batch that makes no sense");
                    self.lose(damage, None, None)?;
                }
            }
        }
        Ok(())
    }

    fn read_batch(&mut self, record: &[u8]) -> Option<()> {
        let (head, records) = record.split_at_checked(COUNT_OFFSET)?;
        let first = Reader(head).u64()?;
        let mut reader = Reader(records);
        let count = reader.u32()?;
        for index in 0..u64::from(count) {
            let sequence = first.checked_add(index)?;
            let kind = reader.byte()?;
            let key = reader.string()?.to_vec();
            let value = match kind {
                1 => Some(reader.string()?.to_vec()),
                0 => None,
                _ => return None,
            };
            let newest = self.logged.entry(key).or_insert((sequence, None));
            if newest.0 <= sequence {
                *newest = (sequence, value);
            }
        }
        reader.0.is_empty().then_some(())
    }

    /// Notes a loss; without salvage it is an error.
    fn lose(
        &mut self,
        damage: Damage,
        after: Option<Vec<u8>>,
        until: Option<Vec<u8>>,
    ) -> Result<(), Failure> {
        if !self.salvage {
            return Err(damage.into());
        }
        let lost = Lost { damage, after, until };
        // A second reading meets the same.
        if !self.lost.contains(&lost) {
            self.lost.push(lost);
        }
        Ok(())
    }

    /// Calls `see` with each live entry whose key comes after `after`, in order, and with how many
    /// bytes of tables were read so far.
    ///
    /// # Errors
    /// Those of `see`, and of reading.
    pub(crate) fn for_each(
        &mut self,
        after: Option<&[u8]>,
        see: &mut See<'_>,
    ) -> Result<(), Failure> {
        let mut merged = Merged::new(self, after)?;
        let mut last: Option<Vec<u8>> = after.map(<[u8]>::to_vec);
        while let Some(entry) = merged.next(self)? {
            if last.as_ref().is_some_and(|last| *last >= entry.key) {
                continue;
            }
            if let Some(value) = &entry.value {
                see(&entry.key, value, merged.read_bytes)?;
            }
            last = Some(entry.key);
        }
        Ok(())
    }

    fn table_path(&self, number: u64) -> PathBuf {
        let path = self.folder.join(format!("{number:06}.ldb"));
        // The name until 2013.
        let old = self.folder.join(format!("{number:06}.sst"));
        if !path.exists() && old.exists() { old } else { path }
    }
}

/// Reads the manifest that `CURRENT` names.
fn read_manifest(folder: &Path) -> Result<Manifest, Problem> {
    let path = folder.join(CURRENT);
    let damage = |what| Problem::Damage(Damage::new(&path, 0, what));
    let current = fs::read(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if folder.exists() => damage("the file is not there"),
        io::ErrorKind::NotADirectory => damage("the file is not there"),
        _ => Problem::Io(path.clone(), error),
    })?;
    let name = std::str::from_utf8(&current).ok().and_then(|name| name.strip_suffix('\n'));
    let name = name.filter(|name| matches!(rebuild::parse(name), Some((_, "manifest"))));
    let path = folder.join(name.ok_or_else(|| damage("it names no manifest"))?);
    let bytes = fs::read(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Problem::Damage(Damage::new(&path, 0, "the file is not there")),
        _ => Problem::Io(path.clone(), error),
    })?;
    Manifest::read(&path, &bytes).map_err(Problem::Damage)
}

/// The lock of a database, taken as a reader's; none where there is no such file.
fn lock(folder: &Path) -> Result<Option<File>, Failure> {
    let path = folder.join("LOCK");
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => return Ok(None),
            _ => return Err(refused("open", &path, &error)),
        },
    };
    match fcntl_lock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(Some(file)),
        Err(_) => {
            let folder = folder.display();
            Err(Failure::other(format!("{folder} is in use by a program; close it first")))
        }
    }
}

/// The newest word on a key in one source.
struct Entry {
    key: Vec<u8>,
    sequence: u64,
    value: Option<Vec<u8>>,
}

/// Tables that do not overlap, one after the other; each is opened when it is its turn.
struct Chain {
    tables: VecDeque<TableFile>,
    open: Option<(Table, usize, Option<Entries>)>,
    after: Option<Vec<u8>>,
    /// The last key that was read.
    last: Option<Vec<u8>>,
}

impl Chain {
    fn new(tables: Vec<TableFile>, after: Option<&[u8]>) -> Self {
        let after = after.map(<[u8]>::to_vec);
        Self { tables: tables.into(), open: None, last: None, after }
    }

    /// Whether nothing up to a key of a table is wanted.
    fn is_passed(&self, largest: &[u8]) -> bool {
        let key = parts_of(largest).map(|(key, ..)| key);
        matches!((&self.after, key), (Some(after), Some(key)) if key <= after.as_slice())
    }

    fn next(&mut self, of: &mut Database, bytes: &mut u64) -> Result<Option<Entry>, Failure> {
        loop {
            if self.open.is_none() && !self.open_next(of)? {
                return Ok(None);
            }
            let Some((table, at, entries)) = &mut self.open else { continue };
            if let Some(open) = entries {
                let read = open.next().map(|pair| {
                    let entry = entry_of(pair?)?;
                    let is_next = self.last.as_ref().is_none_or(|last| *last <= entry.key);
                    is_next.then_some(entry).ok_or("keys that are not in their order")
                });
                match read {
                    Some(Ok(entry)) => {
                        self.last = Some(entry.key.clone());
                        return Ok(Some(entry));
                    }
                    Some(Err(what)) => {
                        let (_, place) = &table.blocks[*at - 1];
                        let damage = table.damage_at(place.offset, what);
                        let until = until(table, *at - 1);
                        *entries = None;
                        of.lose(
                            damage,
                            self.last.as_ref().or(self.after.as_ref()).cloned(),
                            until,
                        )?;
                    }
                    None => *entries = None,
                }
                continue;
            }
            let Some((largest, place)) = table.blocks.get(*at).cloned() else {
                self.open = None;
                continue;
            };
            *at += 1;
            *bytes += place.bytes;
            let key = parts_of(&largest).map(|(key, ..)| key);
            if matches!((&self.after, key), (Some(after), Some(key)) if key < after.as_slice()) {
                continue;
            }
            match table.entries(place) {
                Ok(read) => *entries = Some(read),
                Err(problem) => {
                    let until = until(table, *at - 1);
                    let last = self.last.as_ref().or(self.after.as_ref()).cloned();
                    lose_problem(of, problem, last, until)?;
                }
            }
        }
    }

    /// Opens the next table; false at the end.
    fn open_next(&mut self, of: &mut Database) -> Result<bool, Failure> {
        while let Some(file) = self.tables.pop_front() {
            if self.is_passed(&file.largest) {
                continue;
            }
            match Table::open(&of.table_path(file.number)) {
                Ok(table) => {
                    self.open = Some((table, 0, None));
                    return Ok(true);
                }
                Err(problem) => {
                    let key = |full: &[u8]| parts_of(full).map(|(key, ..)| key.to_vec());
                    lose_problem(of, problem, key(&file.smallest), key(&file.largest))?;
                }
            }
        }
        Ok(false)
    }
}

/// The key that ends a block.
fn until(table: &Table, block: usize) -> Option<Vec<u8>> {
    let (largest, _) = table.blocks.get(block)?;
    parts_of(largest).map(|(key, ..)| key.to_vec())
}

fn entry_of((full, value): (&[u8], &[u8])) -> Result<Entry, &'static str> {
    let (key, sequence, kind) = parts_of(full).ok_or("a key without a number")?;
    let value = (kind == Kind::Value).then(|| value.to_vec());
    Ok(Entry { key: key.to_vec(), sequence, value })
}

fn lose_problem(
    of: &mut Database,
    problem: Problem,
    after: Option<Vec<u8>>,
    until: Option<Vec<u8>>,
) -> Result<(), Failure> {
    match problem {
        Problem::Damage(damage) => of.lose(damage, after, until),
        Problem::Io(path, error) if error.kind() == io::ErrorKind::NotFound => {
            of.lose(Damage::new(&path, 0, "the file is not there"), after, until)
        }
        Problem::Io(path, error) => Err(refused("read", &path, &error)),
    }
}

/// A key at the front of a source: the order in which they come out.
type Head = Reverse<(Vec<u8>, Reverse<u64>, usize)>;

/// All sources in one order: by key, the newest word first.
struct Merged {
    chains: Vec<Chain>,
    heads: BinaryHeap<Head>,
    values: Vec<Option<Vec<u8>>>,
    /// The last key of the logs that came out.
    logged: Option<Vec<u8>>,
    read_bytes: u64,
}

impl Merged {
    fn new(of: &mut Database, after: Option<&[u8]>) -> Result<Self, Failure> {
        let mut levels: BTreeMap<usize, Vec<TableFile>> = BTreeMap::new();
        for ((level, _), table) in &of.manifest.tables {
            levels.entry(*level).or_default().push(table.clone());
        }
        let mut chains = Vec::new();
        for (level, mut tables) in levels {
            match level {
                0 => chains.extend(tables.into_iter().map(|table| Chain::new(vec![table], after))),
                _ => {
                    tables.sort_by(|a, b| a.smallest.cmp(&b.smallest));
                    chains.push(Chain::new(tables, after));
                }
            }
        }
        let values = vec![None; chains.len() + 1];
        let logged = after.map(<[u8]>::to_vec);
        let mut merged = Self { chains, heads: BinaryHeap::new(), values, logged, read_bytes: 0 };
        (0..=merged.chains.len()).try_for_each(|source| merged.pull(source, of))?;
        Ok(merged)
    }

    /// Takes the next entry of a source; the one after all chains is the logs.
    fn pull(&mut self, source: usize, of: &mut Database) -> Result<(), Failure> {
        let entry = match self.chains.get_mut(source) {
            Some(chain) => chain.next(of, &mut self.read_bytes)?,
            None => {
                use std::ops::Bound::{Excluded, Unbounded};
                let from = self.logged.as_deref().map_or(Unbounded, Excluded);
                let next = of.logged.range::<[u8], _>((from, Unbounded)).next();
                next.map(|(key, (sequence, value))| {
                    self.logged = Some(key.clone());
                    Entry { key: key.clone(), sequence: *sequence, value: value.clone() }
                })
            }
        };
        if let Some(Entry { key, sequence, value }) = entry {
            self.heads.push(Reverse((key, Reverse(sequence), source)));
            self.values[source] = value;
        }
        Ok(())
    }

    fn next(&mut self, of: &mut Database) -> Result<Option<Entry>, Failure> {
        let Some(Reverse((key, Reverse(sequence), source))) = self.heads.pop() else {
            return Ok(None);
        };
        let value = self.values[source].take();
        self.pull(source, of)?;
        Ok(Some(Entry { key, sequence, value }))
    }
}
