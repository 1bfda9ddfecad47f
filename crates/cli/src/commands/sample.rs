//! `sample`: entries at even distances, or at random.

use hedgerow::tree::Snapshot;

use super::scan::Printer;
use crate::codec::FormatArgs;
use crate::exit::{Exit, Failure};
use crate::open::{self, TableArg};

/// Print a sample of the entries: at even distances, or drawn at random
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) table: TableArg,
    /// How many entries
    pub(super) number: usize,
    /// Draw them at random, with repetition
    #[arg(long)]
    pub(super) random: bool,
    /// The seed of the random numbers: the same seed draws the same entries
    #[arg(long, default_value_t = 1, requires = "random")]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) formats: FormatArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = args.table.store.read()?;
    let txn = store.begin_read()?;
    let table = open::table_to_walk(&txn, &open::info(&txn, &args.table.table)?)?;
    let entries = match args.random {
        true => txn.sample_random(table, args.number, args.seed)?,
        false => txn.sample(table, args.number)?,
    };
    let mut printer = Printer::new(json, args.formats, false);
    entries.iter().try_for_each(|entry| printer.print(entry))?;
    printer.finish()
}
