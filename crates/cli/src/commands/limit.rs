//! `limit`: the maximum size that is kept in a store.

use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::json;
use crate::numbers::parse_size;
use crate::open::StoreArg;

/// Show or change the maximum size of a store, which holds for all processes
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
    /// The new maximum in bytes, or as 4k, 10M, 2G; `none` removes it
    #[arg(value_parser = parse)]
    size: Option<MaxSize>,
}

/// A maximum size, or none.
#[derive(Clone, Copy, Debug)]
struct MaxSize(Option<u64>);

fn parse(written: &str) -> Result<MaxSize, String> {
    match written {
        "none" => Ok(MaxSize(None)),
        size => parse_size(size).map(|size| MaxSize(Some(size))),
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = match args.size {
        Some(MaxSize(size)) => {
            let store = args.store.write()?;
            drop(crate::wait::begin_write(&store)?);
            store.set_max_size(size)?;
            store
        }
        None => args.store.read()?,
    };
    let size = store.stat()?.max_size;
    json::answer(json, json!({ "max_size": size }), |out| match size {
        Some(size) => writeln!(out, "{size}"),
        None => writeln!(out, "none"),
    })
}
