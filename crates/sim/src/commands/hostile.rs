//! The subcommands `hostile` and `flips`: their arguments and reports.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use sim::hostile::supervise::{self, Summary};
use sim::hostile::{Templates, flips, targets};
use sim::lsm;

use super::{Engine, Seeds, exit_code, over_seeds, seeds};

/// Cases that one child runs before the next one begins.
const CASES_OF_A_CHILD: usize = 500;

/// The arguments of `hostile`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The engine to test.
    #[arg(long, value_enum, default_value = "tree")]
    engine: Engine,
    /// Seeds, both ends included: `7` or `1..20`.
    #[arg(long, default_value = "1..1000", value_parser = seeds)]
    seeds: Seeds,
    /// Children at a time; as many as the machine has processors if not given.
    #[arg(long)]
    jobs: Option<usize>,
    /// Prints one JSON object instead of a report for people.
    #[arg(long)]
    json: bool,
    /// Runs the cases in this process, in this folder, and prints a line for each.
    #[arg(long)]
    child: Option<PathBuf>,
}

/// The arguments of `flips`.
#[derive(Args)]
pub(crate) struct Flips {
    /// The engine to test.
    #[arg(long, value_enum, default_value = "tree")]
    engine: Engine,
    /// Bits to flip.
    #[arg(long, default_value_t = 100_000)]
    count: u64,
    /// The seed of the places.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prints one JSON object instead of a report for people.
    #[arg(long)]
    json: bool,
}

/// The arguments of `corpus`.
#[derive(Args)]
pub(crate) struct Corpus {
    /// Where a folder for each target is made.
    #[arg(default_value = "fuzz/corpus")]
    folder: PathBuf,
}

/// Runs the subcommand `corpus`.
pub(crate) fn corpus(arguments: &Corpus) -> ExitCode {
    for target in ["file", "pages", "keys"] {
        let folder = arguments.folder.join(target);
        let written = std::fs::create_dir_all(&folder).and_then(|()| {
            let mut seeds = targets::seeds(target).into_iter().enumerate();
            seeds.try_for_each(|(i, bytes)| std::fs::write(folder.join(format!("seed-{i}")), bytes))
        });
        if let Err(error) = written {
            return failed("write the corpus", error);
        }
    }
    ExitCode::SUCCESS
}

fn failed(doing: &str, error: impl std::fmt::Display) -> ExitCode {
    eprintln!("error: could not {doing}: {error}");
    ExitCode::FAILURE
}

/// Runs the subcommand `hostile`.
pub(crate) fn hostile(arguments: &Arguments) -> ExitCode {
    let Seeds(seeds) = &arguments.seeds;
    if let Some(folder) = &arguments.child {
        let run = match arguments.engine {
            Engine::Tree => supervise::child(seeds, folder),
            Engine::Lsm => supervise::lsm_child(seeds),
        };
        return match run {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed("run a case", error),
        };
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed("find this program", error),
    };
    let begin = Instant::now();
    let groups: Vec<&[u64]> = seeds.chunks(CASES_OF_A_CHILD).collect();
    let numbers = Seeds((0..groups.len() as u64).collect());
    let engine = arguments.engine.name();
    let run = |group| supervise::run(&program, engine, groups[group as usize]);
    let mut summary = Summary::default();
    for part in over_seeds(&numbers, arguments.jobs, run) {
        match part {
            Ok(part) => add(&mut summary, part),
            Err(error) => return failed("run a child", error),
        }
    }
    summary.findings.sort();
    print(engine, &summary, begin.elapsed().as_secs_f64(), arguments.json);
    exit_code(summary.findings.is_empty())
}

fn add(all: &mut Summary, more: Summary) {
    all.cases += more.cases;
    all.done += more.done;
    all.refused += more.refused;
    all.findings.extend(more.findings);
}

fn print(engine: &str, summary: &Summary, seconds: f64, as_json: bool) {
    let finding = |(seed, text): &(u64, String)| json!({"seed": seed, "finding": text});
    if as_json {
        super::print(&json!({
            "command": "hostile",
            "engine": engine,
            "cases": summary.cases,
            "answered": summary.done,
            "refused": summary.refused,
            "findings": summary.findings.len(),
            "smallest_failing_seed": summary.findings.first().map(|f| f.0),
            "seconds": seconds,
            "failures": summary.findings.iter().take(20).map(finding).collect::<Vec<_>>(),
        }));
        return;
    }
    for (seed, text) in summary.findings.iter().take(50) {
        println!("seed {seed}: {text}");
    }
    println!(
        "{} cases, {} calls answered, {} refused, {} findings, {seconds:.1} s",
        summary.cases,
        summary.done,
        summary.refused,
        summary.findings.len(),
    );
}

/// Runs the subcommand `flips`.
pub(crate) fn flips(arguments: &Flips) -> ExitCode {
    match arguments.engine {
        Engine::Tree => tree_flips(arguments),
        Engine::Lsm => lsm_flips(arguments),
    }
}

fn lsm_flips(arguments: &Flips) -> ExitCode {
    let begin = Instant::now();
    let report = match lsm::flips::run(arguments.seed, arguments.count) {
        Ok(report) => report,
        Err(error) => return failed("flip bits", error),
    };
    let seconds = begin.elapsed().as_secs_f64();
    let violations: Vec<_> = report.violations.iter().take(20).collect();
    if arguments.json {
        super::print(&json!({
            "command": "flips",
            "engine": arguments.engine.name(),
            "flips": report.flips,
            "cuts": report.cuts,
            "told": report.told,
            "like_torn_writes": report.torn,
            "harmless": report.harmless,
            "violations": report.violations.len(),
            "seconds": seconds,
            "failures": violations,
        }));
    } else {
        violations.iter().for_each(|violation| println!("{violation}"));
        println!(
            "{} flips and {} cuts: {} told of, {} like torn writes, {} harmless, {} violations, \
             {seconds:.1} s",
            report.flips,
            report.cuts,
            report.told,
            report.torn,
            report.harmless,
            report.violations.len(),
        );
    }
    exit_code(report.violations.is_empty())
}

fn tree_flips(arguments: &Flips) -> ExitCode {
    let begin = Instant::now();
    let run = || -> std::io::Result<flips::FlipReport> {
        let folder = tempfile::tempdir()?;
        let templates = Templates::new(folder.path()).map_err(std::io::Error::other)?;
        flips::run(&templates, folder.path(), arguments.seed, arguments.count)
    };
    let report = match run() {
        Ok(report) => report,
        Err(error) => return failed("flip bits", error),
    };
    let seconds = begin.elapsed().as_secs_f64();
    if arguments.json {
        super::print(&json!({
            "command": "flips",
            "engine": "tree",
            "flips": report.flips,
            "found": report.found,
            "seconds": seconds,
            "missed": report.missed,
        }));
    } else {
        for (page, byte, bit) in &report.missed {
            println!("missed: page {page}, byte {byte}, bit {bit}");
        }
        println!("{} of {} flips found, {seconds:.1} s", report.found, report.flips);
    }
    exit_code(report.found == report.flips)
}
