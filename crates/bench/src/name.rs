//! The engines whose pages and instructions are counted: their names and their adapters.

use std::path::Path;

use hedgerow::tree::Store;

use crate::engine::{Engine, Pages, Result};
use crate::engines::hollow::Hollow;
use crate::engines::lmdb::{Environment, Face, Library, Ours};
use crate::sizes::{self, Loading};
use crate::workload::{self, Workload};

/// An engine by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Name {
    Hedgerow,
    /// Hedgerow through its library with LMDB's interface.
    C,
    Lmdb,
    /// Does nothing: the cost of a loop and its key generator.
    #[value(hide = true)]
    Hollow,
}

impl Name {
    /// The engines whose pages are compared, ours first.
    pub(crate) const COMPARED: [Name; 2] = [Name::Hedgerow, Name::Lmdb];

    /// The wanted engines: all that are compared, or one.
    pub(crate) fn wanted(only: Option<Name>) -> Vec<Name> {
        only.map_or(Self::COMPARED.to_vec(), |name| vec![name])
    }

    /// The engines whose instructions are compared: all that are available, or the wanted one.
    pub(crate) fn counted(only: Option<Name>) -> Vec<Name> {
        let face = Ours::calls().is_ok().then_some(Name::C);
        let all = || [Some(Name::Hedgerow), face, Some(Name::Lmdb)].into_iter().flatten().collect();
        only.map_or_else(all, |name| vec![name])
    }

    /// As in the output and on the command line.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Hedgerow => "hedgerow",
            Self::C => "c",
            Self::Lmdb => "lmdb",
            Self::Hollow => "hollow",
        }
    }

    /// Whether it has the calls that a workload needs.
    pub(crate) fn can(self, workload: Workload) -> bool {
        match self {
            Self::Hedgerow | Self::Hollow => true,
            Self::C | Self::Lmdb => !workload.counts(),
        }
    }

    /// Loads a set of entries into a new store.
    pub(crate) fn load(self, loading: Loading) -> Result<Pages> {
        match self {
            Self::Hedgerow => sizes::load::<Store>(loading),
            Self::C => sizes::load::<Face>(loading),
            Self::Lmdb => sizes::load::<Environment>(loading),
            Self::Hollow => sizes::load::<Hollow>(loading),
        }
    }

    /// Fills a new store with what the workloads need.
    pub(crate) fn prepare(self, folder: &Path) -> Result<()> {
        match self {
            Self::Hedgerow => workload::prepare::<Store>(folder),
            Self::C => workload::prepare::<Face>(folder),
            Self::Lmdb => workload::prepare::<Environment>(folder),
            Self::Hollow => workload::prepare::<Hollow>(folder),
        }
    }

    /// Runs a workload on a prepared store and gives the sum of its answers to `end`.
    pub(crate) fn run(
        self,
        workload: Workload,
        operations: u64,
        folder: &Path,
        end: impl FnOnce(u64) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Hedgerow => {
                workload::run(&<Store as Engine>::open(folder, None)?, workload, operations, end)
            }
            Self::C => workload::run(&Face::open(folder, None)?, workload, operations, end),
            Self::Lmdb => {
                workload::run(&Environment::open(folder, None)?, workload, operations, end)
            }
            Self::Hollow => workload::run(&Hollow, workload, operations, end),
        }
    }

    /// Runs a workload that writes, commits it and looks everything up.
    pub(crate) fn verify_writes(
        self,
        workload: Workload,
        operations: u64,
        folder: &Path,
    ) -> Result<()> {
        match self {
            Self::Hedgerow => {
                let store = <Store as Engine>::open(folder, None)?;
                workload::verify_writes(&store, workload, operations)
            }
            Self::C => workload::verify_writes(&Face::open(folder, None)?, workload, operations),
            Self::Lmdb => {
                let store = Environment::open(folder, None)?;
                workload::verify_writes(&store, workload, operations)
            }
            Self::Hollow => Ok(()),
        }
    }
}
