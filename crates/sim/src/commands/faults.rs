//! `sim faults`: arguments and reports.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use sim::faults::{FaultReport, FaultSettings, faults_seed};
use sim::lsm;

use super::{Engine, Runs, Seeds, over_seeds, seeds};

/// Lets every call to the system fail once, in turn, on a simulated disk.
#[derive(Args)]
pub(crate) struct Faults {
    /// The engine to test.
    #[arg(long, value_enum, default_value = "tree")]
    engine: Engine,
    /// Seeds, both ends included: `7` or `1..20`.
    #[arg(long, default_value = "1..4", value_parser = seeds)]
    seeds: Seeds,
    /// Operations of each seed.
    #[arg(long, default_value_t = 2000)]
    ops: usize,
    /// The first this many of them are also repeated with a full disk from each write on.
    #[arg(long, default_value_t = 1000)]
    full_disk_ops: usize,
    #[command(flatten)]
    runs: Runs,
}

impl Faults {
    pub(crate) fn run(&self) -> ExitCode {
        let settings = FaultSettings { ops: self.ops, full_disk_ops: self.full_disk_ops };
        let begin = Instant::now();
        let run = match self.engine {
            Engine::Tree => faults_seed,
            Engine::Lsm => lsm::faults::faults_seed,
        };
        let reports = over_seeds(&self.seeds, self.runs.jobs, |seed| run(seed, &settings));
        let seconds = begin.elapsed().as_secs_f64();
        if self.runs.json {
            print_json(self.engine, &reports, seconds);
        } else {
            print_text(&reports, seconds);
        }
        super::exit_code(reports.iter().all(|r| r.violations.is_empty()))
    }
}

fn sum(reports: &[FaultReport], of: impl Fn(&FaultReport) -> u64) -> u64 {
    reports.iter().map(of).sum()
}

fn by_kind(reports: &[FaultReport]) -> BTreeMap<&str, u64> {
    let mut kinds = BTreeMap::new();
    for (kind, count) in reports.iter().flat_map(|r| &r.faults) {
        *kinds.entry(kind.as_str()).or_default() += count;
    }
    kinds
}

fn print_json(engine: Engine, reports: &[FaultReport], seconds: f64) {
    let failing: Vec<&FaultReport> = reports.iter().filter(|r| !r.violations.is_empty()).collect();
    let failure = |r: &&FaultReport| {
        let (place, disagreement) = &r.violations[0];
        json!({"seed": r.seed, "place": place, "violation": disagreement.text})
    };
    super::print(&json!({
        "command": "faults",
        "engine": engine.name(),
        "seeds": reports.len(),
        "ops": sum(reports, |r| r.ops),
        "calls": sum(reports, |r| r.calls),
        "trials": sum(reports, |r| r.trials),
        "trials_with_full_disk": sum(reports, |r| r.full_disks),
        "trials_that_poisoned": sum(reports, |r| r.poisoned),
        "faults": by_kind(reports),
        "violations": sum(reports, |r| r.violations.len() as u64),
        "smallest_failing_seed": failing.first().map(|r| r.seed),
        "seconds": seconds,
        "failures": failing.iter().map(failure).collect::<Vec<_>>(),
    }));
}

fn print_text(reports: &[FaultReport], seconds: f64) {
    for report in reports {
        for (place, disagreement) in report.violations.iter().take(5) {
            println!("seed {}: {}\n  {place}", report.seed, disagreement.text);
        }
    }
    for (kind, count) in by_kind(reports) {
        println!("{count:>10} faults of {kind}");
    }
    println!(
        "{} seeds, {} operations, {} calls, {} trials ({} with a full disk, {} that poisoned), \
         {} violations, {seconds:.1} s",
        reports.len(),
        sum(reports, |r| r.ops),
        sum(reports, |r| r.calls),
        sum(reports, |r| r.trials),
        sum(reports, |r| r.full_disks),
        sum(reports, |r| r.poisoned),
        sum(reports, |r| r.violations.len() as u64),
    );
}
