//! `nth`: the entry at a position.

use hedgerow::tree::Snapshot;
use serde_json::Value;

use super::scan::Printer;
use crate::codec::FormatArgs;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::{self, TableArg};
use crate::output::Output;
use crate::tell::tell;

/// Print the entry that has exactly this many entries before it
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) table: TableArg,
    /// The position, counted from 0
    pub(super) position: u64,
    /// Count distinct keys instead of values
    #[arg(long)]
    pub(super) keys: bool,
    #[command(flatten)]
    pub(super) formats: FormatArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = args.table.store.read()?;
    let txn = store.begin_read()?;
    let table = open::table_to_walk(&txn, &open::info(&txn, &args.table.table)?)?;
    let entry = match args.keys {
        true => txn.nth_key(table, args.position)?,
        false => txn.nth(table, args.position)?,
    };
    if json {
        let mut out = Output::stdout();
        let value = entry.as_ref().map(|entry| json::entry(entry, args.formats)).transpose()?;
        json::print(&mut out, &value.unwrap_or(Value::Null))?;
        out.finish()?;
    } else if let Some(entry) = &entry {
        let mut printer = Printer::new(false, args.formats, false);
        printer.print(entry)?;
        printer.finish()?;
    } else {
        tell!("the table ends before position {}", args.position);
    }
    Ok(if entry.is_some() { Exit::Done } else { Exit::No })
}
