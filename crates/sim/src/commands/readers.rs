//! `sim readers`: arguments and reports.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use sim::readers::{ReadersReport, readers_seed};

use super::{Runs, Seeds, over_seeds, seeds};

/// Holds snapshots while a writer churns: the file must stay within a bound, the readers be named.
#[derive(Args)]
pub(crate) struct Readers {
    /// Seeds, both ends included: `7` or `1..20`.
    #[arg(long, default_value = "1..4", value_parser = seeds)]
    seeds: Seeds,
    /// Commits of each seed.
    #[arg(long, default_value_t = 3000)]
    commits: u64,
    /// Read transactions that are held at the same time; the first one to the end.
    #[arg(long, default_value_t = 3)]
    held: usize,
    #[command(flatten)]
    runs: Runs,
}

impl Readers {
    pub(crate) fn run(&self) -> ExitCode {
        let run = |seed| readers_seed(seed, self.commits, self.held);
        let reports = over_seeds(&self.seeds, self.runs.jobs, run);
        if self.runs.json {
            let all: Vec<_> = reports.iter().map(as_json).collect();
            println!("{}", json!({"command": "readers", "seeds": all}));
        } else {
            reports.iter().for_each(print);
        }
        super::exit_code(reports.iter().all(|r| r.violations.is_empty()))
    }
}

fn as_json(report: &ReadersReport) -> serde_json::Value {
    json!({
        "seed": report.seed,
        "commits": report.commits,
        "live_pages": report.live_pages,
        "file_pages": report.file_pages,
        "free_pages": report.free_and_pinned.0,
        "pinned_pages": report.free_and_pinned.1,
        "percent_of_bound": report.percent_of_bound,
        "longest_reader_commits": report.longest,
        "violations": report.violations,
    })
}

fn print(report: &ReadersReport) {
    report.violations.iter().for_each(|what| println!("seed {}: {what}", report.seed));
    println!(
        "seed {}: {} commits, one reader for {} of them; {} live pages, {} pages of the file at \
         most, {} % of the bound; {} free and {} pinned in the end",
        report.seed,
        report.commits,
        report.longest,
        report.live_pages,
        report.file_pages,
        report.percent_of_bound,
        report.free_and_pinned.0,
        report.free_and_pinned.1,
    );
}
