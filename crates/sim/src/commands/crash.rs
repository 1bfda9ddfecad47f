//! `sim crash`: arguments and reports.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use sim::crash::{CrashReport, CrashSettings, crash_seed};

use super::{Engine, Seeds, over_seeds, seeds};

/// Cuts the power of a simulated disk, and kills its processes, around every write and flush of
/// random transactions.
#[derive(Args)]
pub(crate) struct Crash {
    /// The engine to test.
    #[arg(long, value_enum, default_value = "tree")]
    engine: Engine,
    /// Seeds, both ends included: `7` or `1..20`.
    #[arg(long, default_value = "1..20", value_parser = seeds)]
    seeds: Seeds,
    /// Operations of each seed.
    #[arg(long, default_value_t = 250)]
    ops: usize,
    /// Images at each write and flush.
    #[arg(long, default_value_t = 3)]
    images: usize,
    /// Threads; as many as the machine has processors if not given.
    #[arg(long)]
    jobs: Option<usize>,
    /// How long to look for a shorter list of operations after a violation.
    #[arg(long, default_value_t = 60)]
    shrink_seconds: u64,
    /// Prints one JSON object instead of a report for people.
    #[arg(long)]
    json: bool,
}

impl Crash {
    pub(crate) fn run(&self) -> ExitCode {
        let Engine::Tree = self.engine;
        let settings = CrashSettings {
            ops: self.ops,
            images: self.images,
            shrink_time: Duration::from_secs(self.shrink_seconds),
        };
        let begin = Instant::now();
        let mut reports = over_seeds(&self.seeds, self.jobs, |seed| crash_seed(seed, &settings));
        reports.sort_by_key(|r| r.seed);
        let time = begin.elapsed();
        if self.json {
            print_json(&reports, time);
        } else {
            print_text(&reports, time);
        }
        super::exit_code(reports.iter().all(|r| r.violations.is_empty()))
    }
}

fn sum(reports: &[CrashReport], of: impl Fn(&CrashReport) -> u64) -> u64 {
    reports.iter().map(of).sum()
}

fn print_json(reports: &[CrashReport], time: Duration) {
    let images = sum(reports, |r| r.images);
    let failing: Vec<&CrashReport> = reports.iter().filter(|r| !r.violations.is_empty()).collect();
    let failure = |r: &&CrashReport| {
        let first = &r.violations[0];
        let shrunk = r.shrunk.as_ref();
        json!({
            "seed": r.seed,
            "place": first.place,
            "log": first.log,
            "violation": first.disagreement.text,
            "config": shrunk.map(|(config, _)| config),
            "shrunk_ops": shrunk.map(|(_, ops)| -> Vec<String> {
                ops.iter().map(|op| format!("{op:?}")).collect()
            }),
        })
    };
    println!(
        "{}",
        json!({
            "command": "crash",
            "engine": "tree",
            "seeds": reports.len(),
            "commits": sum(reports, |r| r.commits),
            "images": images,
            "images_of_runs_on_images": sum(reports, |r| r.nested),
            "images_of_killed_processes": sum(reports, |r| r.killed),
            "violations": sum(reports, |r| r.violations.len() as u64),
            "smallest_failing_seed": failing.first().map(|r| r.seed),
            "seconds": time.as_secs_f64(),
            "images_per_second": images as f64 / time.as_secs_f64(),
            "failures": failing.iter().map(failure).collect::<Vec<_>>(),
        })
    );
}

fn print_text(reports: &[CrashReport], time: Duration) {
    for report in reports.iter().filter(|r| !r.violations.is_empty()) {
        println!("seed {}: {} violations", report.seed, report.violations.len());
        for violation in report.violations.iter().take(5) {
            println!("  {}: {}", violation.place, violation.disagreement.text);
            violation.log.iter().for_each(|event| println!("    {event}"));
        }
        let Some((config, ops)) = &report.shrunk else { continue };
        println!("  on {config}\n  shrunk to {} operations:", ops.len());
        ops.iter().for_each(|op| println!("    {op:?}"));
    }
    let images = sum(reports, |r| r.images);
    println!(
        "{} seeds, {} commits, {images} images ({} of runs on images, {} of killed processes), \
         {} violations, {:.1} s, {:.0} images/s",
        reports.len(),
        sum(reports, |r| r.commits),
        sum(reports, |r| r.nested),
        sum(reports, |r| r.killed),
        sum(reports, |r| r.violations.len() as u64),
        time.as_secs_f64(),
        images as f64 / time.as_secs_f64(),
    );
    if let Some(report) = reports.iter().find(|r| !r.violations.is_empty()) {
        println!("smallest failing seed: {}", report.seed);
    }
}
