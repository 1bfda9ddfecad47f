//! `sim model`: arguments and reports.

use std::fmt::Debug;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::json;
use sim::config::Part;
use sim::job::{SeedReport, Settings, run_seed};
use sim::{lsm, streams};

use super::{Engine, Runs, Seeds, over_seeds, seeds};

/// Drives an engine and a model side by side through every operation.
#[derive(Args)]
pub(crate) struct Model {
    /// The engine to test.
    #[arg(long, value_enum, default_value = "tree")]
    engine: Engine,
    /// Operations of each seed.
    #[arg(long, default_value_t = 200_000)]
    ops: u64,
    /// Seeds, both ends included: `7` or `1..20`.
    #[arg(long, default_value = "1..4", value_parser = seeds)]
    seeds: Seeds,
    /// Where the stores are made while they are tested.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
    /// How long to look for a shorter list of operations after a disagreement.
    #[arg(long, default_value_t = 120)]
    shrink_seconds: u64,
    /// Work on the store as a whole that is left out, to look at the rest alone (tree only).
    #[arg(long, value_enum, value_delimiter = ',')]
    without: Vec<Whole>,
    /// Drives streams, sinks and differences instead of the engine's own operations.
    #[arg(long, conflicts_with = "without")]
    streams: bool,
    #[command(flatten)]
    runs: Runs,
}
#[derive(Clone, Copy, ValueEnum)]
enum Whole {
    Check,
    Copy,
    Compact,
    Stat,
}

impl From<Whole> for Part {
    fn from(whole: Whole) -> Self {
        match whole {
            Whole::Check => Self::Check,
            Whole::Copy => Self::Copy,
            Whole::Compact => Self::Compact,
            Whole::Stat => Self::Stat,
        }
    }
}

impl Model {
    pub(crate) fn run(&self) -> ExitCode {
        let settings = Settings {
            ops: self.ops,
            folder: self.folder.clone(),
            shrink_time: Duration::from_secs(self.shrink_seconds),
            without: self.without.iter().copied().map(Part::from).collect(),
        };
        match self.engine {
            Engine::Tree if self.streams => self.report(|seed| streams::run_tree(seed, &settings)),
            Engine::Lsm if self.streams => self.report(|seed| streams::run_lsm(seed, &settings)),
            Engine::Tree => self.report(|seed| run_seed(seed, &settings)),
            Engine::Lsm => self.report(|seed| lsm::run::run_seed(seed, &settings)),
        }
    }

    fn report<O: Debug + Send>(&self, run: impl Fn(u64) -> SeedReport<O> + Sync) -> ExitCode {
        let begin = Instant::now();
        let reports = over_seeds(&self.seeds, self.runs.jobs, run);
        if self.runs.json {
            print_json(self.engine, &reports, begin.elapsed());
        } else {
            print_text(&reports, begin.elapsed());
        }
        super::exit_code(reports.iter().all(|r| r.failure.is_none()))
    }
}

fn print_text<O: Debug>(reports: &[SeedReport<O>], time: Duration) {
    for report in reports {
        let Some(failure) = &report.failure else { continue };
        println!("seed {}: {}", report.seed, failure.disagreement.text);
        println!("  after {} operations on {}", report.ops, failure.config);
        println!("  shrunk to {} operations: {}", failure.ops.len(), failure.shrunk.text);
        for op in failure.ops.iter().take(200) {
            println!("    {op:?}");
        }
        if failure.ops.len() > 200 {
            println!("    ... and {} more", failure.ops.len() - 200);
        }
    }
    let ops: u64 = reports.iter().map(|r| r.ops).sum();
    let failed = reports.iter().filter(|r| r.failure.is_some()).count();
    println!(
        "{} seeds, {ops} operations, {failed} disagreements, {:.1} s, {:.0} operations/s",
        reports.len(),
        time.as_secs_f64(),
        ops as f64 / time.as_secs_f64(),
    );
}

fn print_json<O: Debug>(engine: Engine, reports: &[SeedReport<O>], time: Duration) {
    let failures: Vec<_> = reports
        .iter()
        .filter_map(|r| Some((r, r.failure.as_ref()?)))
        .map(|(report, failure)| {
            json!({
                "seed": report.seed,
                "after_ops": report.ops,
                "disagreement": failure.disagreement.text,
                "config": failure.config,
                "shrunk_disagreement": failure.shrunk.text,
                "shrunk_ops": failure.ops.iter().map(|o| format!("{o:?}")).collect::<Vec<_>>(),
            })
        })
        .collect();
    let ops: u64 = reports.iter().map(|r| r.ops).sum();
    super::print(&json!({
        "command": "model",
        "engine": engine.name(),
        "seeds": reports.len(),
        "ops": ops,
        "disagreements": failures.len(),
        "seconds": time.as_secs_f64(),
        "ops_per_second": ops as f64 / time.as_secs_f64(),
        "slowest_seed_seconds":
            reports.iter().map(|r| r.time.as_secs_f64()).fold(0.0, f64::max),
        "failures": failures,
    }));
}
