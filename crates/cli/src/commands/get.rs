//! `get`: prints the value, or all values, of a key.

use std::ffi::OsString;

use hedgerow::tree::Snapshot;
use serde_json::json;

use crate::codec::{Format, FormatArgs};
use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::{self, TableArg};
use crate::output::Output;

/// Print the value of a key (with duplicates: all of them, one on each line)
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) table: TableArg,
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub(super) key: OsString,
    /// Print the bytes of the (first) value as they are, without a line end
    #[arg(long, conflicts_with = "json")]
    pub(super) raw: bool,
    #[command(flatten)]
    pub(super) formats: FormatArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let key = open::argument(&args.key, args.formats.key(), "key")?;
    let store = args.table.store.read()?;
    let txn = store.begin_read()?;
    let table = open::table(&txn, &args.table.table)?;
    open::check_key(&txn, table, &key)?;
    let Some(first) = txn.get(table, &key)? else {
        return json::outcome(json, json!({ "found": false, "values": [] }), false, "not found");
    };
    let mut out = Output::stdout();
    if args.raw {
        let (head, tail) = first.parts();
        out.bytes(head)?;
        out.bytes(tail)?;
    } else {
        let mut values = Vec::new();
        txn.for_each_value(table, &key, |value| {
            values.push(value.to_vec());
        })?;
        print_values(&values, args.formats.value(), json, &mut out)?;
    }
    out.finish()?;
    Ok(Exit::Done)
}

/// Prints the values of a key.
pub(super) fn print_values(
    values: &[Vec<u8>],
    format: Format,
    json: bool,
    out: &mut Output,
) -> Result<(), Failure> {
    if json {
        // As in other objects: what is no UTF-8 is in base64, under another name.
        let is_text = || values.iter().all(|value| str::from_utf8(value).is_ok());
        let (name, format) = match format.is_plain() && !is_text() {
            true => ("values_base64", Format::Base64),
            false => ("values", format),
        };
        let shown: Result<Vec<String>, String> =
            values.iter().map(|value| format.encode(value)).collect();
        let shown = shown.map_err(|error| json::unshown("value", &error))?;
        return json::print(out, &json!({ "found": !values.is_empty(), (name): shown }));
    }
    for value in values {
        let mut line = Vec::new();
        json::add_value(value, format, &mut line)?;
        line.push(b'\n');
        out.bytes(&line)?;
    }
    Ok(())
}
