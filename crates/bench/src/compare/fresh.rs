//! What a process meets that has just begun: the time of its first pass over a store that is in the
//! system's cache, and the private memory that passes leave. A benchmark that repeats a pass in one
//! process sees neither.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::memory;
use super::model::Model;
use super::peer::Peer;
use super::reads::{self, Run, Wrong};
use super::spec::{Goal, Operation, Step};
use crate::engine::{Engine, Result, Table};

/// Passes after the first one that may leave memory, too.
const LATER: usize = 2;
/// Gets of one transaction that are many.
const MANY_GETS: u64 = 1_000_000;
/// The most KiB that may be left, whatever the number of entries and gets.
const MOST_KIB: f64 = 1024.0;

/// What is done in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fresh {
    /// One pass: its time.
    FirstPass,
    /// Some passes in one transaction: the most KiB of private memory that they have left.
    Gained,
}

/// What the process is told.
#[derive(clap::Args)]
pub(crate) struct Options {
    engine: Peer,
    folder: PathBuf,
    /// The step and the model, as JSON
    told: String,
}

/// What a process found: the first pass, and the KiB that were left by it and later ones.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Found {
    run: Run,
    gained: u64,
}

/// The value of a row, measured on a closed store.
pub(crate) fn measure(engine: &str, folder: &Path, step: &Step, model: &Model) -> Result<f64> {
    warm(folder)?;
    let output = Command::new(std::env::current_exe()?)
        .args(["fresh", engine])
        .arg(folder)
        .arg(serde_json::to_string(&(step, model))?)
        .output()?;
    let Found { run, gained } = serde_json::from_str(&memory::answer::<String>(&output)?)?;
    let expected = reads::expected(step, model, 0, run.operations);
    if run.sum != expected {
        return Err(Wrong(format!("the answers sum up to {}, not {expected}", run.sum)).into());
    }
    match step.fresh {
        Some(Fresh::Gained) => Ok(gained as f64),
        _ => Ok(run.nanos(model.entries())),
    }
}

/// Reads all files of a folder, so that they are in the system's cache.
fn warm(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.metadata()?.is_dir() {
            warm(&entry.path())?;
        } else {
            io::copy(&mut File::open(entry.path())?, &mut io::sink())?;
        }
    }
    Ok(())
}

/// Reads as it is told, and prints what it found.
pub(crate) fn main(options: &Options) -> Result<()> {
    println!("{}", serde_json::to_string(&options.engine.fresh(options)?)?);
    Ok(())
}

/// Opens the store and reads it in one transaction.
pub(crate) fn run<E: Engine>(options: &Options) -> Result<Found> {
    let (step, model): (Step, Model) = serde_json::from_str(&options.told)?;
    let later = if step.fresh == Some(Fresh::Gained) { LATER } else { 0 };
    let store = E::open(&options.folder, None)?;
    let table = Table { name: "table", duplicates: model.duplicates > 0 };
    store.read(table, |txn| {
        let before = memory::private()?;
        let run = reads::run(txn, &step, &model)?;
        let mut most = memory::private()?;
        for _ in 0..later {
            reads::run(txn, &step, &model)?;
            most = most.max(memory::private()?);
        }
        Ok(Found { run, gained: most.saturating_sub(before) })
    })
}

/// The rows that a step has besides its own: for scans the first pass and what passes leave, for
/// gets, where they are many, what those leave.
pub(crate) fn rows(step: &Step) -> Vec<Step> {
    let row = |fresh, words: &str, operations, goal| Step {
        name: format!("{}, {words}", step.name),
        operations,
        seconds: 3600.0,
        fresh: Some(fresh),
        goal,
        ..step.clone()
    };
    let first = || row(Fresh::FirstPass, "first pass of a process", 1, None);
    let most = Goal::value_at_most(MOST_KIB);
    let gained = |operations| row(Fresh::Gained, "memory gained", operations, Some(most));
    match step.operation {
        Operation::Scan | Operation::ScanPages => vec![first(), gained(1)],
        Operation::Get if step.operations >= MANY_GETS => vec![gained(MANY_GETS)],
        _ => Vec::new(),
    }
}
