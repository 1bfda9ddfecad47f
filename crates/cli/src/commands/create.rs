//! `create`: makes a store, or a table in one that exists.

use hedgerow::Error;
use hedgerow::tree::{Snapshot, Store};
use serde_json::json;

use crate::codec::shown;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::numbers::{parse_size, parse_small_size};
use crate::open::{self, Engine, MAIN, Name, StoreArg};
use crate::table_flags::TableFlags;
use crate::wait;

/// Make a store; with --table, make a table, in a new store or in one that exists
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
    /// The engine of a new store
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub(super) engine: Option<Engine>,
    /// Values of at least this many bytes stay in the log (engine lsm; default 4096)
    #[arg(long, value_name = "BYTES", value_parser = parse_small_size)]
    pub(super) separate_from: Option<u32>,
    /// Page size in bytes: a power of two from 4096 to 65536
    #[arg(long, value_name = "BYTES", value_parser = parse_small_size)]
    pub(super) page_size: Option<u32>,
    /// The file never grows beyond this, for any process; `limit` changes it
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(super) max_size: Option<u64>,
    /// The table to make, in the text format [default, if an option for tables is given: main]
    #[arg(short, long, value_name = "NAME", value_parser = open::parse_name)]
    pub(super) table: Option<Name>,
    #[command(flatten)]
    pub(super) flags: TableFlags,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    if args.separate_from.is_some() {
        return Err(Failure::usage("--separate-from is for --engine lsm"));
    }
    let main = || args.flags.any().then(|| Name(MAIN.into()));
    let name = args.table.clone().or_else(main);
    let exists = args.store.store.is_file() || has_store(&args.store.store);
    let store = match &name {
        Some(_) if exists => {
            if args.page_size.is_some() || args.max_size.is_some() {
                return Err(Failure::usage(
                    "--page-size and --max-size are for a new store; this one exists",
                ));
            }
            open::write_or_create(Store::builder(), &args.store.store)?
        }
        _ => new_store(&args)?,
    };
    if let Some(name) = &name {
        let mut txn = wait::begin_write(&store)?;
        if txn.tables()?.iter().any(|info| info.name == name.0) {
            return Err(Error::TableExists { name: name.0.clone() }.into());
        }
        txn.create_table(&name.0, &args.flags.options())?;
        txn.commit()?;
    }
    let table = name.map(|name| shown(&name.0));
    let (path, page_size) = (store.path().display().to_string(), store.page_size());
    let value = json!({ "store": path, "page_size": page_size, "table": table });
    json::answer(json, value, |_| Ok(()))
}

fn new_store(args: &Args) -> Result<Store, Failure> {
    let mut builder = Store::builder();
    if let Some(bytes) = args.page_size {
        builder = builder.page_size(bytes);
    }
    if let Some(bytes) = args.max_size {
        builder = builder.max_size(bytes);
    }
    open::create(builder, &args.store.store)
}

/// Whether a folder holds anything; an empty one takes a new store.
fn has_store(path: &std::path::Path) -> bool {
    path.read_dir().is_ok_and(|mut entries| entries.next().is_some())
}
