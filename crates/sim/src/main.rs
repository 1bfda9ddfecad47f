//! The command line of the simulator: arguments, progress and reports; the work is the library's.

mod hostile_command;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::json;
use sim::config::Part;
use sim::crash::{CrashReport, crash_seed};
use sim::job::{SeedReport, Settings, run_seed, run_seeds};

/// Holds Hedgerow's engines against a reference model, and cuts their power.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Drives an engine and a model side by side through every operation.
    Model(Model),
    /// Cuts the power of a simulated disk after every write and flush of random transactions.
    Crash(Crash),
    /// Changes the structures of stores, repairs their checksums and makes every call.
    Hostile(hostile_command::Arguments),
    /// Writes the files that the corpora of the fuzz targets begin with.
    Corpus(hostile_command::Corpus),
    /// Flips single bits in pages in use: check must notice each.
    Flips(hostile_command::Flips),
}

#[derive(Clone, Copy, ValueEnum)]
enum Engine {
    Tree,
}

#[derive(Args)]
struct Model {
    /// The engine to test.
    #[arg(long, value_enum, default_value = "tree")]
    engine: Engine,
    /// Operations of each seed.
    #[arg(long, default_value_t = 200_000)]
    ops: u64,
    /// Seeds, both ends included: `7` or `1..20`.
    #[arg(long, default_value = "1..4", value_parser = seeds)]
    seeds: Seeds,
    /// Threads; as many as the machine has processors if not given.
    #[arg(long)]
    jobs: Option<usize>,
    /// Where the stores are made while they are tested.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
    /// How long to look for a shorter list of operations after a disagreement.
    #[arg(long, default_value_t = 120)]
    shrink_seconds: u64,
    /// Work on the store as a whole that is left out, to look at the rest alone.
    #[arg(long, value_enum, value_delimiter = ',')]
    without: Vec<Whole>,
    /// Prints one JSON object instead of a report for people.
    #[arg(long)]
    json: bool,
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

#[derive(Args)]
struct Crash {
    /// The engine to test.
    #[arg(long, value_enum, default_value = "tree")]
    engine: Engine,
    /// Seeds, both ends included: `7` or `1..20`.
    #[arg(long, default_value = "1..20", value_parser = seeds)]
    seeds: Seeds,
    /// Threads; as many as the machine has processors if not given.
    #[arg(long)]
    jobs: Option<usize>,
    /// Prints one JSON object instead of a report for people.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug)]
struct Seeds(Vec<u64>);

fn seeds(text: &str) -> Result<Seeds, String> {
    let number = |s: &str| s.parse::<u64>().map_err(|e| format!("\"{s}\" is no seed: {e}"));
    let seeds: Vec<u64> = match text.split_once("..") {
        Some((first, last)) => (number(first)?..=number(last)?).collect(),
        None => vec![number(text)?],
    };
    if seeds.is_empty() { Err("the range holds no seed".to_owned()) } else { Ok(Seeds(seeds)) }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A panic of the engine is a finding like any other: its text is printed with that, once.
    std::panic::set_hook(Box::new(|_| {}));
    match arguments.command {
        Command::Model(arguments) => model(&arguments),
        Command::Crash(arguments) => crash(&arguments),
        Command::Hostile(arguments) => hostile_command::hostile(&arguments),
        Command::Corpus(arguments) => hostile_command::corpus(&arguments),
        Command::Flips(arguments) => hostile_command::flips(&arguments),
    }
}

fn jobs(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

fn model(arguments: &Model) -> ExitCode {
    let Engine::Tree = arguments.engine;
    let Seeds(seeds) = &arguments.seeds;
    let settings = Settings {
        ops: arguments.ops,
        folder: arguments.folder.clone(),
        shrink_time: Duration::from_secs(arguments.shrink_seconds),
        without: arguments.without.iter().copied().map(Part::from).collect(),
    };
    let begin = Instant::now();
    let mut reports = Vec::with_capacity(seeds.len());
    run_seeds(
        seeds,
        jobs(arguments.jobs),
        |seed| run_seed(seed, &settings),
        |report| {
            reports.push(report);
            progress(reports.len(), seeds.len());
        },
    );
    reports.sort_by_key(|r| r.seed);
    if arguments.json {
        print_json(&reports, begin.elapsed());
    } else {
        print_text(&reports, begin.elapsed());
    }
    if reports.iter().all(|r| r.failure.is_none()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn crash(arguments: &Crash) -> ExitCode {
    let Engine::Tree = arguments.engine;
    let Seeds(seeds) = &arguments.seeds;
    let begin = Instant::now();
    let mut reports = Vec::with_capacity(seeds.len());
    run_seeds(seeds, jobs(arguments.jobs), crash_seed, |report| {
        reports.push(report);
        progress(reports.len(), seeds.len());
    });
    reports.sort_by_key(|r| r.seed);
    print_crashes(&reports, begin.elapsed(), arguments.json);
    if reports.iter().all(|r| r.violations.is_empty()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn print_crashes(reports: &[CrashReport], time: Duration, as_json: bool) {
    let images: u64 = reports.iter().map(|r| r.images).sum();
    let commits: u64 = reports.iter().map(|r| r.commits).sum();
    let failing: Vec<&CrashReport> = reports.iter().filter(|r| !r.violations.is_empty()).collect();
    let violations: usize = failing.iter().map(|r| r.violations.len()).sum();
    let rate = images as f64 / time.as_secs_f64();
    if as_json {
        let first = |r: &&CrashReport| json!({"seed": r.seed, "violation": r.violations[0]});
        println!(
            "{}",
            json!({
                "command": "crash",
                "engine": "tree",
                "seeds": reports.len(),
                "commits": commits,
                "images": images,
                "violations": violations,
                "smallest_failing_seed": failing.first().map(|r| r.seed),
                "seconds": time.as_secs_f64(),
                "images_per_second": rate,
                "failures": failing.iter().map(first).collect::<Vec<_>>(),
            })
        );
        return;
    }
    for report in &failing {
        println!("seed {}: {} violations", report.seed, report.violations.len());
        for violation in report.violations.iter().take(5) {
            println!("  {violation}");
        }
    }
    println!(
        "{} seeds, {commits} commits, {images} images, {violations} violations, {:.1} s, \
         {rate:.0} images/s",
        reports.len(),
        time.as_secs_f64(),
    );
    if let Some(report) = failing.first() {
        println!("smallest failing seed: {}", report.seed);
    }
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

fn print_text(reports: &[SeedReport], time: Duration) {
    for report in reports {
        let Some(failure) = &report.failure else { continue };
        println!("seed {}: {}", report.seed, failure.disagreement.0);
        println!("  after {} operations on {}", report.ops, failure.config);
        println!("  shrunk to {} operations: {}", failure.ops.len(), failure.shrunk.0);
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

fn print_json(reports: &[SeedReport], time: Duration) {
    let failures: Vec<_> = reports
        .iter()
        .filter_map(|r| Some((r, r.failure.as_ref()?)))
        .map(|(report, failure)| {
            json!({
                "seed": report.seed,
                "after_ops": report.ops,
                "disagreement": failure.disagreement.0,
                "config": failure.config,
                "shrunk_disagreement": failure.shrunk.0,
                "shrunk_ops": failure.ops.iter().map(|o| format!("{o:?}")).collect::<Vec<_>>(),
            })
        })
        .collect();
    let ops: u64 = reports.iter().map(|r| r.ops).sum();
    println!(
        "{}",
        json!({
            "command": "model",
            "engine": "tree",
            "seeds": reports.len(),
            "ops": ops,
            "disagreements": failures.len(),
            "seconds": time.as_secs_f64(),
            "ops_per_second": ops as f64 / time.as_secs_f64(),
            "slowest_seed_seconds":
                reports.iter().map(|r| r.time.as_secs_f64()).fold(0.0, f64::max),
            "failures": failures,
        })
    );
}
