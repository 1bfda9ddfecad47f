//! `count`: how many entries a table or a range has.

use hedgerow::tree::Snapshot;

use crate::codec::FormatArgs;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::{self, TableArg};
use crate::range::RangeArgs;

/// Count the entries of a table or of a range, without reading them
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) table: TableArg,
    #[command(flatten)]
    pub(super) range: RangeArgs,
    /// Count distinct keys instead of values
    #[arg(long)]
    pub(super) keys: bool,
    /// Estimate the number, which is all that the engine lsm can do; the tree's answer is exact
    #[arg(long)]
    pub(super) estimate: bool,
    #[command(flatten)]
    pub(super) formats: FormatArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = args.table.store.read()?;
    let txn = store.begin_read()?;
    let count = if args.range.is_everything() {
        open::info(&txn, &args.table.table)?.count
    } else {
        let table = open::table(&txn, &args.table.table)?;
        let keys = args.range.keys(&txn, table, args.formats.key())?;
        txn.count_range(table, &keys)?
    };
    json::answer(json, json::count(count), |out| {
        writeln!(out, "{}", if args.keys { count.keys } else { count.values })
    })
}
