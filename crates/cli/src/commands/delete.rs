//! `delete`: removes a key, one value of a key, or a range of keys.

use std::ffi::OsString;

use hedgerow::tree::{Count, Snapshot};
use serde_json::json;

use crate::codec::FormatArgs;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::{self, TableArg};
use crate::range::RangeArgs;
use crate::wait;

/// Delete a key with its values, one value of a key, or a range of keys
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true)
    .args(["key", "from", "after", "to", "before", "prefix"]),
    override_usage = "hedgerow delete [OPTIONS] <STORE> <KEY> [VALUE]\n       \
        hedgerow delete [OPTIONS] <--from <KEY>|--after <KEY>|--to <KEY>|--before <KEY>|\
        --prefix <KEY>> <STORE>")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) table: TableArg,
    /// The key
    #[arg(allow_negative_numbers = true,
        conflicts_with_all = ["from", "after", "to", "before", "prefix"])]
    pub(super) key: Option<OsString>,
    /// Only this value of the key
    #[arg(requires = "key")]
    pub(super) value: Option<OsString>,
    #[command(flatten)]
    pub(super) range: RangeArgs,
    #[command(flatten)]
    pub(super) formats: FormatArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = args.table.store.write()?;
    let mut txn = wait::begin_write(&store)?;
    let table = open::table(&txn, &args.table.table)?;
    let deleted = match &args.key {
        None => {
            let keys = args.range.keys(&txn, table, args.formats.key())?;
            txn.delete_range(table, &keys)?
        }
        Some(key) => {
            let key = open::argument(key, args.formats.key(), "key")?;
            open::check_key(&txn, table, &key)?;
            let values = txn.count_values(table, &key)?;
            match &args.value {
                None => {
                    let found = txn.delete(table, &key)?;
                    Count { keys: found.into(), values }
                }
                Some(value) => {
                    let value = open::argument(value, args.formats.value(), "value")?;
                    let found = txn.delete_pair(table, &key, &value)?;
                    Count { keys: u64::from(found && values == 1), values: found.into() }
                }
            }
        }
    };
    txn.commit()?;
    let value = json!({ "deleted": json::count(deleted) });
    json::outcome(json, value, deleted.values > 0, "not found")
}
