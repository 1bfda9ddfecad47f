//! A store of the log-structured engine with something of everything in its files: inline and
//! separated values, deleted keys and ranges, tables of several levels, a collected segment, a
//! manifest of several records and with a pin, and a log that ends where the process died.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow::Durability;
use hedgerow::Result;
use hedgerow::lsm::{Batch, Db, Keyspace, KeyspaceOptions, Options, Readable};
use hedgerow::os::sim::SimSystem;

use super::run::disk;

/// Where the store is.
pub const PATH: &str = "/store";
/// Keyspaces and their separation thresholds.
pub const SPACES: [(&str, u32); 2] = [("separated", 16), ("inline", u32::MAX)];
/// Keys of each keyspace have numbers below this.
const KEYS: u32 = 120;
/// Commits after the last flush; each puts one key of the first keyspace.
const TAIL: u32 = 12;

/// Fewer zeros at the end of a segment may belong to what was written.
const AHEAD_MIN: usize = 64;

/// What a key should have.
pub type Expected = (usize, Vec<u8>, Option<Vec<u8>>);

/// The store, of which copies are damaged.
pub struct Template {
    disk: SimSystem,
    /// Each key that was ever put, with its value if it still exists.
    pub expected: Vec<Expected>,
    /// Keys and values of the last commits, in their order, which stand only in the log.
    pub tail: Vec<(Vec<u8>, Vec<u8>)>,
    /// Each file that is not empty, without the zeros that stand ahead of the end of the log, and
    /// what stands after the pending groups.
    pub files: Vec<(PathBuf, Vec<u8>)>,
}

/// Options with which little data makes many files.
pub fn options(disk: &SimSystem) -> Options {
    let system = Arc::new(disk.clone());
    Options::new().system(system).memtable_bytes(6000).segment_bytes(6000).table_bytes(3000)
}

fn key(number: u32) -> Vec<u8> {
    format!("key/{number:05}").into_bytes()
}

fn value(number: u32, round: u32) -> Vec<u8> {
    format!("{round}/{number}/").repeat(8 + number as usize % 7).into_bytes()
}

/// Puts every `every`-th key of both keyspaces.
fn fill(db: &Db, spaces: &[Keyspace], round: u32, every: usize) -> Result<()> {
    for number in (0..KEYS).step_by(every) {
        let mut batch = Batch::new();
        for space in spaces {
            batch.put(space, &key(number), &value(number, round))?;
        }
        db.write_with(batch, Durability::Eventual)?;
    }
    Ok(())
}

impl Template {
    /// Makes the store.
    ///
    /// # Errors
    /// The engine's; there is no reason for any.
    pub fn new() -> Result<Self> {
        let disk = disk(1);
        let db = options(&disk).create(true).open(PATH)?;
        let make = |(name, separation_threshold)| {
            db.keyspace(name, KeyspaceOptions { separation_threshold, ..Default::default() })
        };
        let spaces: Vec<Keyspace> = SPACES.into_iter().map(make).collect::<Result<_>>()?;
        fill(&db, &spaces, 1, 1)?;
        fill(&db, &spaces, 2, 2)?;
        db.compact()?;
        fill(&db, &spaces, 3, 5)?;
        for space in &spaces {
            db.delete_range(space, &key(30)..&key(40))?;
            db.delete(space, &key(50))?;
        }
        db.flush()?;
        fill(&db, &spaces, 4, 11)?;
        // The ranges above may have gone with a merge.
        db.delete_range(&spaces[0], &key(60)..&key(62))?;
        db.flush()?;
        db.pin("before the tail")?;
        let mut tail = Vec::new();
        for number in 0..TAIL {
            let (key, value) = (format!("tail/{number:02}").into_bytes(), value(number, 5));
            let mut batch = Batch::new();
            batch.put(&spaces[0], &key, &value)?;
            let is_durable = number % 4 == 0;
            let durability = if is_durable { Durability::Durable } else { Durability::Eventual };
            db.write_with(batch, durability)?;
            tail.push((key, value));
        }
        let mut expected = Vec::new();
        for (at, space) in spaces.iter().enumerate() {
            for number in 0..KEYS {
                let found = db.get(space, &key(number))?;
                expected.push((at, key(number), found));
            }
        }
        disk.kill();
        drop(db);
        let disk = disk.process();
        let files = disk.files().into_iter().filter_map(|path| {
            let bytes = written(&path, disk.content(&path).ok()?);
            (!bytes.is_empty()).then_some((path, bytes))
        });
        let files = files.filter(|(path, _)| path.starts_with(PATH)).collect();
        Ok(Self { disk, expected, tail, files })
    }

    /// A machine with the store on its disk.
    pub fn disk(&self) -> SimSystem {
        self.disk.killed_copy()
    }
}

/// What was written to a file. After the end of the log there are zeros, and after the pending
/// groups old ones, which mean nothing and cannot be damaged.
fn written(path: &Path, mut bytes: Vec<u8>) -> Vec<u8> {
    if is_pending(path) {
        bytes.truncate(super::format::pending_end(&bytes));
    }
    let zeros = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
    if path.extension().is_some_and(|kind| kind == "log") && zeros >= AHEAD_MIN {
        bytes.truncate(bytes.len() - zeros);
    }
    bytes
}

/// Whether the last commits may stand in this file and nowhere else.
pub fn ends_the_log(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "log") || is_pending(path)
}

/// Whether it holds groups that the log does not hold yet, or once did not.
pub fn is_pending(path: &Path) -> bool {
    path.ends_with("PENDING")
}

/// The name of a file.
pub fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
