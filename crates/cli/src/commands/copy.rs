//! `copy`: a hot copy of the newest snapshot.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use hedgerow::Error;
use hedgerow::tree::{CopyOptions, Store};
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::StoreArg;
use crate::output::Output;
use crate::progress::{Progress, Unit};

/// Copy a store while it is in use
///
/// A store of the engine lsm, which only one process can have open at a time, is copied to a
/// directory. If the directory holds an earlier copy of it, only what is new is copied.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
    /// The new file; `-` is standard output (engine lsm: a directory)
    pub(super) to: PathBuf,
    /// Leave out free pages and fill the others anew
    #[arg(long)]
    pub(super) compact: bool,
    /// Copy damaged pages as they are
    #[arg(long, conflicts_with = "compact")]
    pub(super) even_damaged: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = args.store.read()?;
    let copied = match args.to == Path::new("-") {
        true => to_stdout(&store, &args),
        false => copy(&store, &args.to, &args),
    };
    if let Err(Failure::Store(error @ Error::Corrupt { .. })) = copied {
        eprintln!(
            "error: {error}\nnothing was copied; `hedgerow salvage` brings over what is sound, \
             --even-damaged copies pages as they are"
        );
        return Ok(Exit::No);
    }
    copied?;
    if json && args.to != Path::new("-") {
        let size = fs::metadata(&args.to).map(|meta| meta.len());
        let size = size.map_err(|error| Failure::io("look at", args.to.display(), &error))?;
        let mut out = Output::stdout();
        json::print(&mut out, &json!({ "store": args.to.to_string_lossy(), "bytes": size }))?;
        out.finish()?;
    }
    Ok(Exit::Done)
}

/// A copy is not written from its first byte to its last, so it goes through a temporary file.
fn to_stdout(store: &Store, args: &Args) -> Result<(), Failure> {
    let refused = |error| Failure::io("use", "a temporary folder", &error);
    let folder = tempfile::tempdir().map_err(refused)?;
    let path = folder.path().join("copy");
    copy(store, &path, args)?;
    let mut out = Output::stdout();
    out.copy(&mut File::open(&path).map_err(refused)?)?;
    out.finish()
}

fn copy(store: &Store, to: &Path, args: &Args) -> Result<(), Failure> {
    let progress = Progress::new("copying", Unit::Bytes, Some(0));
    let mut told = |done, total| progress.at_of(done, total);
    let copied = match args.even_damaged {
        true => store.copy_even_damaged(to, &mut told),
        false => store.copy_to(to, CopyOptions { compact: args.compact }, &mut told),
    };
    Ok(copied?)
}
