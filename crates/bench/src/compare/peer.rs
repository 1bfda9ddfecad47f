//! The engines that can be compared: their names, and the adapters behind.

use std::path::Path;

use hedgerow::tree::Store;

use super::memory;
use super::session::{Opened, Session};
use super::spec::Workload;
use crate::engine::Result;
use crate::engines::lmdb::Environment;

/// An engine by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Peer {
    Hedgerow,
    Lmdb,
    Redb,
}

/// Calls a generic function with the engine's type.
macro_rules! with_engine {
    ($peer:expr, $engine:ident => $call:expr) => {
        match $peer {
            Peer::Hedgerow => {
                type $engine = Store;
                $call
            }
            Peer::Lmdb => {
                type $engine = Environment;
                $call
            }
            Peer::Redb => {
                type $engine = redb::Database;
                $call
            }
        }
    };
}

impl Peer {
    /// As on the command line.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Hedgerow => "hedgerow",
            Self::Lmdb => "lmdb",
            Self::Redb => "redb",
        }
    }

    /// A new store below a folder.
    pub(crate) fn session(self, folder: &Path, workload: &Workload) -> Result<Box<dyn Session>> {
        with_engine!(self, E => Ok(Box::new(Opened::<E>::new(self.text(), folder, workload)?)))
    }

    /// Loads a store in this process.
    pub(crate) fn load(self, options: &memory::Options) -> Result<()> {
        with_engine!(self, E => memory::load::<E>(options))
    }
}
