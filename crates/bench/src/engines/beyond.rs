//! The interface for runs with data larger than memory, and the engines that implement it: small
//! keys, values of some length, every put and deletion a commit of its own, many threads.

use std::path::Path;

#[cfg(not(feature = "fjall"))]
use crate::engine::Missing;
use crate::engine::Result;

#[cfg(feature = "fjall")]
mod fjall;
mod lsm;
mod rocksdb;

/// The bytes of a key.
pub(crate) const KEY: usize = 16;
/// A key.
pub(crate) type Key = [u8; KEY];

/// An open store.
pub(crate) trait Store: Sync {
    /// Puts a value; `durable`: it is on stable storage when this returns.
    fn put(&self, key: &Key, value: &[u8], durable: bool) -> Result<()>;

    /// Deletes a key.
    fn delete(&self, key: &Key) -> Result<()>;

    /// Shows the value of a key.
    fn get(&self, key: &Key, see: &mut dyn FnMut(Option<&[u8]>)) -> Result<()>;

    /// Shows the values of keys in their order, the way that the engine does it best from one
    /// thread. `None`: it has no better way than one after the other, and needs many threads.
    fn get_many(
        &self,
        keys: &[Key],
        see: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Option<Result<()>>;

    /// Shows all entries in order.
    fn scan(&self, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;

    /// Merges and collects everything, and waits for it.
    fn compact(&self) -> Result<()>;
}

/// An engine with settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Values in the log; a commit is handed to the system
    Hedgerow,
    /// Values in the log; a commit is handed to the system with later ones
    HedgerowHeld,
    /// Values in the tables
    HedgerowInline,
    /// With its log
    Rocksdb,
    /// Without its log
    RocksdbNoLog,
    /// With values in files of their own, without its log
    Blobdb,
    /// Values in files of their own
    Fjall,
}

impl Kind {
    /// Its name in tables and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hedgerow => "hedgerow",
            Self::HedgerowHeld => "hedgerow-held",
            Self::HedgerowInline => "hedgerow-inline",
            Self::Rocksdb => "rocksdb",
            Self::RocksdbNoLog => "rocksdb-no-log",
            Self::Blobdb => "blobdb",
            Self::Fjall => "fjall",
        }
    }

    /// Opens the store in a folder, making it if it is not there. The engine is given a sixteenth
    /// of the memory for a memtable, and an eighth for what it caches. Ours takes one number for
    /// all of it: half of the memory, the rest being the program's.
    pub(crate) fn open(self, folder: &Path, memory: u64) -> Result<Box<dyn Store>> {
        let (memtable, cache) = (memory / 16, memory / 8);
        match self {
            Self::Hedgerow | Self::HedgerowHeld | Self::HedgerowInline => {
                Ok(Box::new(lsm::Store::open(self, folder, memory / 2)?))
            }
            Self::Rocksdb | Self::RocksdbNoLog | Self::Blobdb => {
                Ok(Box::new(rocksdb::Store::open(self, folder, memtable, cache)?))
            }
            #[cfg(feature = "fjall")]
            Self::Fjall => Ok(Box::new(fjall::Store::open(folder, memtable, cache)?)),
            #[cfg(not(feature = "fjall"))]
            Self::Fjall => Err(Missing("fjall needs a build with --features fjall".into()).into()),
        }
    }

    /// Whether it can be run here, or what is missing.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::Rocksdb | Self::RocksdbNoLog | Self::Blobdb => rocksdb::check(),
            #[cfg(not(feature = "fjall"))]
            Self::Fjall => Err(Missing("fjall needs a build with --features fjall".into()).into()),
            _ => Ok(()),
        }
    }
}
