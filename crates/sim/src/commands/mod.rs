//! The subcommands, one file each: arguments and reports. The work is the library's.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::ValueEnum;
use sim::job::run_seeds;

pub(crate) mod canaries;
pub(crate) mod compaction;
pub(crate) mod crash;
pub(crate) mod faults;
pub(crate) mod growth;
pub(crate) mod hostile;
pub(crate) mod model;
pub(crate) mod processes;
pub(crate) mod readers;

/// The engines that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    Tree,
    Lsm,
}

impl Engine {
    /// Its name, as it is given.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Lsm => "lsm",
        }
    }
}

/// A list of seeds.
#[derive(Clone, Debug)]
pub(crate) struct Seeds(pub(crate) Vec<u64>);

/// `7`, or `1..20` with both ends included.
pub(crate) fn seeds(text: &str) -> Result<Seeds, String> {
    let number = |s: &str| s.parse::<u64>().map_err(|e| format!("\"{s}\" is no seed: {e}"));
    let seeds: Vec<u64> = match text.split_once("..") {
        Some((first, last)) => (number(first)?..=number(last)?).collect(),
        None => vec![number(text)?],
    };
    if seeds.is_empty() { Err("the range holds no seed".to_owned()) } else { Ok(Seeds(seeds)) }
}

/// How seeds are run, and what is printed.
#[derive(clap::Args)]
pub(crate) struct Runs {
    /// Threads; as many as the machine has processors if not given.
    #[arg(long)]
    pub(crate) jobs: Option<usize>,
    /// Prints one JSON object instead of a report for people.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints a report as JSON.
pub(crate) fn print(report: &serde_json::Value) {
    println!("{report}");
}

/// Runs all seeds on `jobs` threads (by default one for each processor), and returns their reports
/// in the order of the seeds.
pub(crate) fn over_seeds<R: Send>(
    Seeds(seeds): &Seeds,
    jobs: Option<usize>,
    run: impl Fn(u64) -> R + Sync,
) -> Vec<R> {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let mut reports = Vec::with_capacity(seeds.len());
    run_seeds(
        seeds,
        jobs.unwrap_or_else(processors),
        |seed| (seed, run(seed)),
        |report| {
            reports.push(report);
            progress(reports.len(), seeds.len());
        },
    );
    reports.sort_by_key(|(seed, _)| *seed);
    reports.into_iter().map(|(_, report)| report).collect()
}

/// Success if all is well.
pub(crate) fn exit_code(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How far we are, on a terminal only.
fn progress(done: usize, all: usize) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let end = if done == all { "\n" } else { "" };
        // Progress that cannot be shown is no reason to stop.
        let _ = write!(stderr, "\r{done} of {all} seeds{end}");
    }
}
