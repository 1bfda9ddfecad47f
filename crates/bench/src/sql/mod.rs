//! SQL on a store beside the same on files of SQLite's, with a write-ahead log and with a journal
//! that is deleted after each transaction. SQLite is of the same source, compiled with the same
//! options, and not cut. Or stores without and with checksums of rows beside each other. Runs are
//! kept in a file and can be looked at later.

mod plan;
mod run;
mod runs;
mod session;
mod show;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::engine::Result;
use run::Run;

/// The engines, ours first.
const ENGINES: [&str; 3] = ["hedgerow", "wal", "delete"];

/// A store without checksums of rows, and with each kind of them.
const CHECKSUMS: [&str; 4] = ["hedgerow", "fast", "sha3", "blake3"];

/// What is asked for.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    earlier: Option<Earlier>,
    /// How many rows are loaded
    #[arg(long, default_value_t = 100_000,
        value_parser = clap::value_parser!(u32).range(100..100_000_000))]
    rows: u32,
    /// How many times everything is done, each time with new files
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..100))]
    rounds: u32,
    /// What a commit waits for
    #[arg(long, default_value = "full", value_parser = ["off", "normal", "full"])]
    synchronous: String,
    /// Measure stores with checksums of rows beside one without, in place of SQLite's files
    #[arg(long)]
    row_checksums: bool,
    /// The folder to work in; it is made if it does not exist
    #[arg(long)]
    folder: Option<PathBuf>,
    /// The file in which the run is kept
    #[arg(long, global = true, value_name = "FILE", default_value = DEFAULT_RUNS)]
    runs: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write a page of HTML
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

const DEFAULT_RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/record/sql-runs.jsonl");

#[derive(clap::Subcommand)]
enum Earlier {
    /// List, show, compare, export and merge earlier runs
    Runs(runs::Options),
}

/// What a run was asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Settings {
    rows: u32,
    rounds: u32,
    synchronous: String,
    /// Stores with checksums of rows are measured, no files of SQLite's.
    #[serde(default)]
    row_checksums: bool,
    /// It says on standard error how far it is.
    #[serde(skip)]
    tells: bool,
}

impl Settings {
    /// What is measured, first what the others are compared with.
    fn engines(&self) -> &'static [&'static str] {
        if self.row_checksums { &CHECKSUMS } else { &ENGINES }
    }
}

/// Measures, or answers what is asked of earlier runs.
pub(crate) fn main(options: &Options) -> Result<()> {
    if let Some(Earlier::Runs(asked)) = &options.earlier {
        return runs::main(&options.runs, asked);
    }
    let settings = Settings {
        rows: options.rows,
        rounds: options.rounds,
        synchronous: options.synchronous.clone(),
        row_checksums: options.row_checksums,
        tells: true,
    };
    let around = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&around)?;
    let folder = tempfile::tempdir_in(&around)?;
    let mut run = Run::begin(settings.clone())?;
    let done = session::run(&settings, folder.path());
    match &done {
        Ok((rows, sizes)) => (run.rows, run.sizes) = (rows.clone(), sizes.clone()),
        Err(error) => run.error = Some(error.to_string()),
    }
    runs::keep(&options.runs, &run)?;
    done?;
    if let Some(html) = &options.html {
        std::fs::write(html, show::page(std::slice::from_ref(&run))?)?;
    }
    match options.json {
        true => println!("{:#}", run.report()),
        false => print!("{}", show::table(&run)?),
    }
    Ok(())
}
