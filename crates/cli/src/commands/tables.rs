//! `tables`: lists the tables of a store.

use hedgerow::tree::{Snapshot, TableInfo};
use serde_json::Value;

use crate::codec::shown;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::StoreArg;

/// List the tables with their sizes and options
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = args.store.read()?;
    let tables = store.begin_read()?.tables()?;
    let width = tables.iter().map(|info| shown(&info.name).len()).max().unwrap_or(0);
    let line = |info: &TableInfo| {
        let (name, keys, values) = (shown(&info.name), info.count.keys, info.count.values);
        format!("{name:width$}  {keys:>12} keys  {values:>12} values  {}", kind(info))
    };
    json::list(json, &tables, |info| Value::Object(json::table(info)), line)
}

/// A table's options in words.
pub(crate) fn kind(info: &TableInfo) -> String {
    let mut words = vec![format!("order {}", info.order)];
    if info.duplicates {
        words.push(match info.value_size {
            Some(size) => format!("duplicates of {size} bytes"),
            None => "duplicates".to_owned(),
        });
        words.push(format!("values {}", info.value_order));
    }
    if !info.prefix_compression {
        words.push("no prefix compression".to_owned());
    }
    if info.user_flags != 0 {
        words.push(format!("flags {:#x}", info.user_flags));
    }
    words.join(", ")
}
