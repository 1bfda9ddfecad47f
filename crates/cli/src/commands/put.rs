//! `put`: stores one entry.

use std::ffi::OsString;

use hedgerow::Error;
use hedgerow::tree::{Snapshot, Table, TableOptions, WriteTxn};
use serde_json::json;

use crate::codec::FormatArgs;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::json;
use crate::open::{self, MAIN, Name, TableArg};
use crate::wait;

/// Store a value under a key; in a table with duplicates, add it
///
/// The table "main" is made if it does not exist; others are made by `create` or with
/// --create-table.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) table: TableArg,
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub(super) key: OsString,
    /// The value; `-` takes the bytes of standard input as they are
    #[arg(allow_negative_numbers = true)]
    pub(super) value: OsString,
    /// Store only if the key (with duplicates: the pair) is absent; otherwise exit with 1
    #[arg(long)]
    pub(super) new: bool,
    /// Make the table, with default options, if it does not exist
    #[arg(long)]
    pub(super) create_table: bool,
    #[command(flatten)]
    pub(super) formats: FormatArgs,
}

impl Args {
    /// The key and the value.
    pub(super) fn pair(&self) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        let key = open::argument(&self.key, self.formats.key(), "key")?;
        let value = match self.value.as_encoded_bytes() {
            b"-" if input::was_closed() => {
                let what = "standard input is closed, so there is no value; an empty one is \"\"";
                return Err(Failure::usage(what));
            }
            b"-" => input::read_stdin()?,
            _ => open::argument(&self.value, self.formats.value(), "value")?,
        };
        Ok((key, value))
    }
}

/// What is said where the key is there.
pub(super) const PUT_NOTHING: &str = "the key is there already; nothing was changed";

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let (key, value) = args.pair()?;
    let store = args.table.store.write()?;
    let mut txn = wait::begin_write(&store)?;
    let create = args.create_table || args.table.table.0 == MAIN.as_bytes();
    let table = table(&mut txn, &args.table.table, create)?;
    let put = if !args.new {
        txn.put(table, &key, &value)?;
        true
    } else if txn.table_info(table)?.duplicates {
        txn.put_pair(table, &key, &value)?
    } else {
        txn.put_new(table, &key, &value)?.is_none()
    };
    txn.commit()?;
    json::outcome(json, json!({ "put": put }), put, PUT_NOTHING)
}

fn table(txn: &mut WriteTxn, name: &Name, create: bool) -> Result<Table, Failure> {
    match txn.table(&name.0) {
        Ok(table) => Ok(table),
        Err(Error::NoTable { .. }) if create => {
            Ok(txn.create_table(&name.0, &TableOptions::new())?)
        }
        Err(_) => open::table(txn, name),
    }
}
