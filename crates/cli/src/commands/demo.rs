//! `demo`: indexes a folder of the user's into a store, asks questions that a store without
//! counters could only answer by walking, and compares each answer with such a walk.

mod index;
mod questions;
mod report;

use std::path::{Path, PathBuf};
use std::time::Instant;

use hedgerow::tree::Store;
use tempfile::TempDir;

use crate::exit::{Exit, Failure};
use crate::open;
use crate::output::Output;

/// Index a folder and show which questions a counting store answers
///
/// Every file under the folder goes into a table "files" (path -> size, time of change, kind) and a
/// table "extensions" (extension -> paths). Each answer is shown beside the time that it took and
/// beside the same answer found by walking with a cursor. Exits with 1 if any two differ.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The folder
    #[arg(default_value = "/usr")]
    folder: PathBuf,
    /// Keep the store here (it must not exist) instead of in a temporary place
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let place = Place::new(args.store)?;
    let store = open::create(Store::builder(), &place.store)?;
    let begun = Instant::now();
    let indexed = index::index(&args.folder, &store, place.temporary_folder())?;
    let index_time = begun.elapsed();
    let answers = questions::ask(&store, &indexed)?;
    let report = report::Report {
        folder: &args.folder,
        kept: place.kept(),
        indexed: &indexed,
        index_time,
        answers: &answers,
    };
    let mut out = Output::stdout();
    match json {
        true => report.json(&mut out)?,
        false => report.print(&mut out)?,
    }
    out.finish()?;
    Ok(if report.disagreements() == 0 { Exit::Done } else { Exit::No })
}

/// Where the store is; a temporary place vanishes with this value.
struct Place {
    store: PathBuf,
    temporary: Option<TempDir>,
}

impl Place {
    fn new(kept: Option<PathBuf>) -> Result<Self, Failure> {
        if let Some(store) = kept {
            return Ok(Self { store, temporary: None });
        }
        let folder = tempfile::Builder::new().prefix("hedgerow-demo-").tempdir();
        let folder = folder.map_err(|error| Failure::io("make", "a temporary folder", &error))?;
        Ok(Self { store: folder.path().join("store"), temporary: Some(folder) })
    }

    fn temporary_folder(&self) -> Option<&Path> {
        self.temporary.as_ref().map(TempDir::path)
    }

    fn kept(&self) -> Option<&Path> {
        self.temporary.is_none().then_some(&self.store)
    }
}
