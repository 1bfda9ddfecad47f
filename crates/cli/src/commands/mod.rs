//! The subcommands, one file each: a struct of arguments and a `run`.

pub(crate) mod check;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod copy;
pub(crate) mod count;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod dump;
pub(crate) mod follow;
pub(crate) mod get;
pub(crate) mod limit;
pub(crate) mod load;
pub(crate) mod lsm;
pub(crate) mod man;
pub(crate) mod nth;
pub(crate) mod pin;
pub(crate) mod put;
pub(crate) mod rank;
pub(crate) mod salvage;
pub(crate) mod sample;
pub(crate) mod scan;
#[cfg(feature = "sql")]
pub(crate) mod sql;
pub(crate) mod stat;
pub(crate) mod tables;

use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::open::Engine;
use crate::{exit, wait};

/// Make, fill, query, check and move Hedgerow stores
#[derive(Parser, Debug)]
#[command(name = "hedgerow", version, after_help = exit::HELP, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Wait at most this many seconds for other writers, or for a log-structured store to be closed
    #[arg(long, global = true, value_name = "SECONDS", value_parser = wait::parse_seconds)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Demo(demo::Args),
    Create(create::Args),
    Tables(tables::Args),
    Put(put::Args),
    Get(get::Args),
    Delete(delete::Args),
    Scan(scan::Args),
    Count(count::Args),
    Rank(rank::Args),
    Nth(nth::Args),
    Sample(sample::Args),
    Stat(stat::Args),
    Check(check::Args),
    Salvage(salvage::Args),
    Copy(copy::Args),
    Compact(compact::Args),
    Limit(limit::Args),
    Pin(pin::Args),
    Diff(diff::Args),
    Follow(follow::Args),
    Dump(dump::Args),
    Load(load::Args),
    Convert(convert::Args),
    #[cfg(feature = "sql")]
    Sql(sql::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// The engine of the store that it works on.
    pub(crate) fn engine(&self) -> Engine {
        let store = match self {
            Self::Create(args) => match args.engine {
                Some(engine) => return engine,
                None => &args.store.store,
            },
            Self::Tables(args) => &args.store.store,
            Self::Put(args) => &args.table.store.store,
            Self::Get(args) => &args.table.store.store,
            Self::Delete(args) => &args.table.store.store,
            Self::Scan(args) => &args.store.store,
            Self::Count(args) => &args.table.store.store,
            Self::Rank(args) => &args.table.store.store,
            Self::Nth(args) => &args.table.store.store,
            Self::Sample(args) => &args.table.store.store,
            Self::Stat(args) => &args.store.store,
            Self::Check(args) => &args.store.store,
            Self::Salvage(args) => &args.old,
            Self::Copy(args) => &args.store.store,
            Self::Limit(args) => &args.store.store,
            Self::Compact(args) => &args.store.store,
            Self::Pin(args) => &args.store.store,
            Self::Diff(args) => &args.store.store,
            Self::Follow(args) => &args.store.store,
            Self::Dump(args) => &args.table.store.store,
            Self::Load(args) => &args.store.store,
            // SQL is for files.
            #[cfg(feature = "sql")]
            Self::Sql(_) => return Engine::Tree,
            // It is about two stores, and looks itself.
            Self::Convert(_) | Self::Demo(_) | Self::Completions(_) | Self::Man(_) => {
                return Engine::Tree;
            }
        };
        Engine::of(store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
