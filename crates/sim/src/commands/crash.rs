//! `sim crash`: arguments and reports.

use std::fmt::Debug;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use sim::crash::{CrashReport, CrashSettings, crash_seed};
use sim::lsm;

use super::{Engine, Runs, Seeds, over_seeds, seeds};

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
    /// How long to look for a shorter list of operations after a violation.
    #[arg(long, default_value_t = 60)]
    shrink_seconds: u64,
    #[command(flatten)]
    runs: Runs,
}

impl Crash {
    pub(crate) fn run(&self) -> ExitCode {
        let settings = CrashSettings {
            ops: self.ops,
            images: self.images,
            shrink_time: Duration::from_secs(self.shrink_seconds),
        };
        match self.engine {
            Engine::Tree => self.report(|seed| crash_seed(seed, &settings)),
            Engine::Lsm => self.report(|seed| lsm::crash::crash_seed(seed, &settings)),
        }
    }

    fn report<O: Debug + Send>(&self, run: impl Fn(u64) -> CrashReport<O> + Sync) -> ExitCode {
        let begin = Instant::now();
        let reports = over_seeds(&self.seeds, self.runs.jobs, run);
        let time = begin.elapsed();
        if self.runs.json {
            print_json(self.engine, &reports, time);
        } else {
            print_text(&reports, time);
        }
        super::exit_code(reports.iter().all(|r| r.violations.is_empty()))
    }
}

fn sum<O>(reports: &[CrashReport<O>], of: impl Fn(&CrashReport<O>) -> u64) -> u64 {
    reports.iter().map(of).sum()
}

fn print_json<O: Debug>(engine: Engine, reports: &[CrashReport<O>], time: Duration) {
    let images = sum(reports, |r| r.images);
    let failing: Vec<&CrashReport<O>> =
        reports.iter().filter(|r| !r.violations.is_empty()).collect();
    let failure = |r: &&CrashReport<O>| {
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
    super::print(&json!({
        "command": "crash",
        "engine": engine.name(),
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
    }));
}

fn print_text<O: Debug>(reports: &[CrashReport<O>], time: Duration) {
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
