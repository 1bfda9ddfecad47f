//! `rank`: where a key or a pair stands.

use std::ffi::OsString;

use hedgerow::tree::Snapshot;
use serde_json::json;

use crate::codec::FormatArgs;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::{self, TableArg};

/// Print how many entries come before a key, or before one value of a key
///
/// If the key is absent, prints how many entries would come before it, and exits with 1.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) table: TableArg,
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub(super) key: OsString,
    /// One of its values
    pub(super) value: Option<OsString>,
    /// Count the distinct keys before it instead of the values
    #[arg(long)]
    pub(super) keys: bool,
    #[command(flatten)]
    pub(super) formats: FormatArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let key = open::argument(&args.key, args.formats.key(), "key")?;
    let value = args.value.as_ref();
    let value =
        value.map(|value| open::argument(value, args.formats.value(), "value")).transpose()?;
    let store = args.table.store.read()?;
    let txn = store.begin_read()?;
    let table = open::table(&txn, &args.table.table)?;
    open::check_key(&txn, table, &key)?;
    let rank = match &value {
        Some(value) => txn.rank_pair(table, &key, value)?,
        None => txn.rank(table, &key)?,
    };
    let value = json!({ "found": rank.found, "keys": rank.keys, "values": rank.values });
    json::answer(json, value, |out| {
        writeln!(out, "{}", if args.keys { rank.keys } else { rank.values })
    })?;
    Ok(if rank.found { Exit::Done } else { Exit::No })
}
