//! Which file a tool's path means, and its databases: the table without a name is the main one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hedgerow::tree::{Snapshot, Store, TableInfo, TableStat};

use super::error::{Code, EISDIR, Ending};
use crate::open;
use crate::signals;

/// The name of the main database.
pub(crate) const MAIN: &[u8] = b"";
/// The longest key, and the longest of several values of a key, that LMDB takes.
pub(crate) const KEY_MAX: usize = 511;
/// What LMDB reports for an environment without a map size.
const MAP_SIZE_DEFAULT: u64 = 1 << 20;
/// How many times what is used is reported as map size, up to this much more; as by the library of
/// LMDB's interface.
const ROOM: u64 = 16;
const ROOM_MAX: u64 = 1 << 40;
/// How many readers LMDB has room for by default. Our table grows.
pub(crate) const READERS_MAX: u32 = 126;

/// What a tool will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// What is not there is made.
    Write,
}

/// The data file of a path: itself, or `data.mdb` in the folder that it is.
pub(crate) fn data_file(path: &OsStr, is_file: bool) -> PathBuf {
    let path = Path::new(path);
    if is_file { path.to_path_buf() } else { path.join("data.mdb") }
}

/// Opens the store of a path.
pub(crate) fn open(path: &OsStr, is_file: bool, access: Access) -> Result<Store, Ending> {
    let file = data_file(path, is_file);
    if is_file && file.is_dir() {
        return Err(Ending::failed("mdb_env_open", Code::system(EISDIR)));
    }
    let builder = Store::builder();
    let is_new =
        access == Access::Write && std::fs::metadata(&file).map_or(true, |found| found.len() == 0);
    let opened = match access {
        Access::Read => builder.read_only(true).open(&file),
        Access::Write if is_new => builder.create(&file),
        Access::Write => builder.open(&file),
    };
    let store = opened.map_err(|error| Ending::failed("mdb_env_open", Code::of(&error)))?;
    signals::attach(store.interrupt());
    Ok(store)
}

/// Names and sizes of all databases.
pub(crate) struct Databases {
    all: Vec<TableInfo>,
}

impl Databases {
    /// The databases of a snapshot.
    pub(crate) fn of<S: Snapshot>(txn: &S) -> hedgerow::Result<Self> {
        Ok(Self { all: txn.tables()? })
    }

    /// The main database, where something was ever put into it.
    pub(crate) fn main(&self) -> Option<&TableInfo> {
        self.all.iter().find(|info| info.name == MAIN)
    }

    /// The named ones, by name.
    pub(crate) fn named(&self) -> impl Iterator<Item = &TableInfo> {
        self.all.iter().filter(|info| info.name != MAIN)
    }

    /// The one of this name; an [`Ending`] as `mdb_open` gives it if there is none.
    pub(crate) fn find(&self, name: &[u8]) -> Result<&TableInfo, Ending> {
        let found = self.all.iter().find(|info| info.name == name && name != MAIN);
        found.ok_or_else(|| Ending::failed("mdb_open", Code::not_found()))
    }
}

/// Depth and pages of a database; the main one also counts the names of the others.
pub(crate) fn table_stat<S: Snapshot>(txn: &S, info: &TableInfo) -> hedgerow::Result<TableStat> {
    let table = open::table_to_walk(txn, info)?;
    txn.table_stat(table)
}

/// The map size to report: there is none. `mdb_load` gives it to the new environment, and LMDB
/// needs more room there than is used here: its pages may be half full, and nothing in them is
/// shared.
pub(crate) fn map_size(used_bytes: u64) -> u64 {
    let more = used_bytes.saturating_mul(ROOM - 1).min(ROOM_MAX);
    used_bytes.saturating_add(more).max(MAP_SIZE_DEFAULT)
}
