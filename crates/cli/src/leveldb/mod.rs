//! Databases of LevelDB as files: reading one without opening it, and writing one. Nothing here
//! knows a store of ours.
//!
//! A folder has `CURRENT`, which names the manifest; the manifest, a log of edits that say which
//! sorted tables there are on which of seven levels; tables; and logs, with batches that are in no
//! table yet. An entry is a key, a sequence number, of which the highest one counts, and a value or
//! a deletion.
//!
//! | module | holds |
//! |---|---|
//! | `coding` | varints, checksums, keys with their numbers |
//! | `log` | the records of logs and manifests |
//! | `manifest` | edits: which tables there are |
//! | `block`, `table` | reading sorted tables |
//! | `compression` | what blocks may be compressed with |
//! | `rebuild` | which tables there are, where no manifest says it |
//! | `source` | a database as its live entries in order |
//! | `bloom`, `build` | writing sorted tables |
//! | `kept` | which tables are complete of a database that is being written |
//! | `target` | writing a database |
//! | `face` | the folders of our own library with LevelDB's interface |

mod block;
mod bloom;
mod build;
mod coding;
mod compression;
pub(crate) mod face;
mod kept;
mod log;
mod manifest;
mod rebuild;
pub(crate) mod source;
mod table;
pub(crate) mod target;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// The file that names the manifest.
pub(crate) const CURRENT: &str = "CURRENT";
/// The comparator that is used where a program gives none.
pub(crate) const BYTEWISE: &[u8] = b"leveldb.BytewiseComparator";

/// Whether a folder is a database of LevelDB.
pub(crate) fn is_database(folder: &Path) -> bool {
    fs::read(folder.join(CURRENT)).is_ok_and(|bytes| bytes.starts_with(b"MANIFEST-"))
}

/// Refuses a database of LevelDB where a store is meant.
pub(crate) fn check_not(path: &Path) -> Result<(), Failure> {
    if !is_database(path) {
        return Ok(());
    }
    let path = path.display();
    Err(Failure::other(format!(
        "{path} is a database of LevelDB; make a store of it with: hedgerow convert \
         --from-leveldb {path} NEW"
    )))
}

/// What is wrong in a file of LevelDB, from some byte on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    pub(crate) what: &'static str,
}

impl Damage {
    fn new(path: &Path, offset: u64, what: &'static str) -> Self {
        Self { path: path.to_path_buf(), offset, what }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, offset, what } = self;
        write!(f, "{} is damaged at byte {offset}: {what}", path.display())
    }
}

impl From<Damage> for Failure {
    fn from(damage: Damage) -> Self {
        Failure::other(format!("{damage}; --salvage leaves out what cannot be read"))
    }
}
