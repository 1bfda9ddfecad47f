//! The engines that can be compared: their names and their adapters.

use std::path::Path;

use hedgerow::tree::Store;

use super::limit::Limit;
use super::session::{Opened, Session};
use super::spec::Workload;
use super::{beyond, fresh, memory};
use crate::engine::{Engine, Result, Unsupported};
#[cfg(feature = "fjall")]
use crate::engines::fjall;
use crate::engines::level::{LevelDb, Of, RocksDb};
use crate::engines::lmdb::Environment;
use crate::engines::sqlite;

/// An engine by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Peer {
    Hedgerow,
    Lmdb,
    Redb,
    Rocksdb,
    Leveldb,
    Sqlite,
    /// What the machine itself allows
    Limit,
    #[cfg(feature = "fjall")]
    Fjall,
}

/// Calls a generic function with the engine's type.
macro_rules! with_engine {
    ($peer:expr, $call:ident($($argument:expr),*)) => {
        match $peer {
            Peer::Hedgerow => $call::<Store>($($argument),*),
            Peer::Lmdb => $call::<Environment>($($argument),*),
            Peer::Redb => $call::<redb::Database>($($argument),*),
            Peer::Rocksdb => $call::<Of<RocksDb>>($($argument),*),
            Peer::Leveldb => $call::<Of<LevelDb>>($($argument),*),
            Peer::Sqlite => $call::<sqlite::Database>($($argument),*),
            Peer::Limit => Err(Unsupported("store").into()),
            #[cfg(feature = "fjall")]
            Peer::Fjall => $call::<fjall::Store>($($argument),*),
        }
    };
}

fn open<E: Engine + 'static>(
    engine: &'static str,
    folder: &Path,
    workload: &Workload,
) -> Result<Box<dyn Session>> {
    Ok(Box::new(Opened::<E>::new(engine, folder, workload)?))
}

impl Peer {
    /// As on the command line.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Hedgerow => "hedgerow",
            Self::Lmdb => "lmdb",
            Self::Redb => "redb",
            Self::Rocksdb => "rocksdb",
            Self::Leveldb => "leveldb",
            Self::Sqlite => "sqlite",
            Self::Limit => "limit",
            #[cfg(feature = "fjall")]
            Self::Fjall => "fjall",
        }
    }

    /// A new store below a folder.
    pub(crate) fn session(self, folder: &Path, workload: &Workload) -> Result<Box<dyn Session>> {
        if self == Self::Limit {
            return Ok(Box::new(Limit::new(folder, workload)?));
        }
        with_engine!(self, open(self.text(), folder, workload))
    }

    /// Loads a store in this process.
    pub(crate) fn load(self, options: &memory::Options) -> Result<()> {
        use memory::load;
        with_engine!(self, load(options))
    }

    /// Reads a store in this process, which has just begun.
    pub(crate) fn fresh(self, options: &fresh::Options) -> Result<fresh::Found> {
        use fresh::run;
        with_engine!(self, run(options))
    }

    /// Gets a second of a store larger than memory, in this process.
    pub(crate) fn beyond(self, options: &beyond::Options) -> Result<f64> {
        use beyond::run;
        with_engine!(self, run(options))
    }
}
