//! `copy`: a hot copy of the newest snapshot.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow::Error;
use hedgerow::stream::{Followed, Replica, Standby};
use hedgerow::tree::{CopyOptions, Paths, Store};
use serde_json::json;

use super::follow::Waits;
use crate::exit::{Exit, Failure};
use crate::leveldb::face;
use crate::open::{Engine, Name, StoreArg, parse_name};
use crate::output::Output;
use crate::progress::{Progress, Unit};
use crate::tell::tell;
use crate::{json, open, signals, wait};

/// Copy a store while it is in use
///
/// A store of the engine lsm, which only one process can have open at a time, is copied to a
/// directory. If the directory holds an earlier copy of it, only what is new is copied. A folder of
/// our library with LevelDB's interface becomes another one.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
    /// The new file; `-` is standard output (engine lsm: a directory)
    pub(super) to: PathBuf,
    /// Leave out free pages and fill the others anew
    #[arg(long)]
    pub(super) compact: bool,
    /// Go on until Ctrl-C: make the target, which may be there from before, like the store after
    /// each commit. In the store, pins of this name keep what is needed to go on. From a store of
    /// the engine lsm, in which nobody commits meanwhile, it ends when the target is like it
    #[arg(long, value_name = "NAME", value_parser = parse_name, conflicts_with_all = ["compact", "even_damaged"])]
    pub(super) follow: Option<Name>,
    /// With --follow: the engine of a new target
    #[arg(long, value_enum, requires = "follow", default_value = "tree")]
    engine: Engine,
    /// With --follow: end when nothing was committed for this many seconds
    #[arg(long, value_name = "SECONDS", requires = "follow", value_parser = wait::parse_seconds)]
    idle: Option<Duration>,
    /// Copy damaged pages as they are
    #[arg(long, conflicts_with = "compact")]
    pub(super) even_damaged: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    if let Some(name) = &args.follow {
        let store = args.store.write()?;
        let waits = Waits { idle: args.idle, writer: &|| store.writer() };
        return keep_up(&store, &args, name, &waits, json);
    }
    let store = args.store.read()?;
    let copied = match args.to == Path::new("-") {
        true => to_stdout(&store, &args),
        false => {
            face::copied(&args.store.store, &args.to, Engine::Tree, |to| copy(&store, to, &args))
        }
    };
    if let Err(Failure::Store(error @ Error::Corrupt { .. })) = copied {
        tell!(
            "error: {error}\nnothing was copied; `hedgerow salvage` brings over what is sound, \
             --even-damaged copies pages as they are"
        );
        return Ok(Exit::No);
    }
    copied?;
    if json && args.to != Path::new("-") {
        let size = fs::metadata(Paths::of(&args.to).data).map(|meta| meta.len());
        let size = size.map_err(|error| Failure::io("look at", args.to.display(), &error))?;
        let value = json!({ "store": args.to.to_string_lossy(), "bytes": size });
        json::answer(json, value, |_| Ok(()))?;
    }
    Ok(Exit::Done)
}

/// Keeps the target like the store.
pub(super) fn keep_up<S: Followed>(
    store: &S,
    args: &Args,
    name: &Name,
    waits: &Waits<'_>,
    json: bool,
) -> Result<Exit, Failure> {
    let engine = if args.to.exists() { Engine::of(&args.to) } else { args.engine };
    match engine {
        Engine::Tree => {
            let target = open::write_or_create(Store::builder(), &args.to)?;
            follow(store, name, &target, waits, json)
        }
        Engine::Lsm => {
            let options = hedgerow::lsm::Options::new().create(true);
            follow(store, name, &options.open(&args.to)?, waits, json)
        }
    }
}

fn follow<T: Replica + Clone, S: Followed>(
    store: &S,
    Name(name): &Name,
    target: &T,
    waits: &Waits<'_>,
    json: bool,
) -> Result<Exit, Failure> {
    let mut standby = Standby::new(store, name, target)?.write_timeout(wait::round());
    let mut out = Output::stdout();
    loop {
        match wait::writing(waits.writer, || standby.step(waits.idle)) {
            Ok(Some(commit)) if json => writeln!(out, "{}", json!({ "commit": commit }))?,
            Ok(Some(commit)) => writeln!(out, "{commit}")?,
            Ok(None) => break,
            Err(Failure::Interrupted(_)) => break,
            Err(failure) => return Err(failure),
        }
        out.flush()?;
        if signals::is_raised() {
            break;
        }
    }
    signals::calm();
    wait::writing(waits.writer, || standby.done())?;
    out.finish()?;
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
