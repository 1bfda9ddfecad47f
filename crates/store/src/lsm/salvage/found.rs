//! What is found in a damaged store, and what is lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::lsm::entry::Kind;
use crate::lsm::table::BlockPlace;
use crate::lsm::tombstones::Tombstone;
use crate::os::DataFile;
use crate::{Error, Result};

/// What can be read of a file that cannot be read as a whole is found in pieces of this.
const SECTOR: usize = 4096;

/// A loss in terms of full keys.
pub(super) struct Lost {
    pub(super) path: PathBuf,
    pub(super) offset: u64,
    pub(super) reason: &'static str,
    pub(super) count: Option<u64>,
    pub(super) keys: Option<Span>,
}

/// Full keys between two, of which neither is in it; or one key, if both are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) after: Option<Vec<u8>>,
    pub(super) before: Option<Vec<u8>>,
}

impl Span {
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        self.after.as_deref().is_none_or(|after| after < key)
            && self.before.as_deref().is_none_or(|before| key < before)
    }

    pub(super) fn meets(&self, tombstone: &Tombstone) -> bool {
        self.after.as_ref().is_none_or(|after| *after < tombstone.end)
            && self.before.as_ref().is_none_or(|before| tombstone.start < *before)
    }
}

/// An entry on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) key: Vec<u8>,
    pub(super) seq: u64,
    pub(super) kind: Kind,
    pub(super) value: Vec<u8>,
}

/// A table as it was found.
pub(super) struct Found {
    pub(super) number: u32,
    pub(super) file: Arc<dyn DataFile>,
    pub(super) blocks: Vec<BlockPlace>,
}

/// The bytes of a file, zeros where it cannot be read.
pub(super) fn read_lenient(file: &dyn DataFile, path: &Path) -> Result<Vec<u8>> {
    let len = file.len().map_err(|e| Error::io("ask for the length of", path, e))?;
    let mut bytes = vec![0; len as usize];
    if file.read_at(&mut bytes, 0).is_err() {
        for (number, sector) in bytes.chunks_mut(SECTOR).enumerate() {
            if file.read_at(sector, (number * SECTOR) as u64).is_err() {
                sector.fill(0);
            }
        }
    }
    Ok(bytes)
}
