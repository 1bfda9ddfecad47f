//! `sim growth`: arguments and reports.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use sim::growth::{GrowthReport, Kind, growth_seed};
use sim::lsm;

use super::{Engine, Runs, Seeds, over_seeds, seeds};

/// Replaces and deletes values of all lengths: the file must stay within a bound of what it needs.
#[derive(Args)]
pub(crate) struct Growth {
    /// The engine to test.
    #[arg(long, value_enum, default_value = "tree")]
    engine: Engine,
    /// Seeds, both ends included: `7` or `1..20`.
    #[arg(long, default_value = "1..22", value_parser = seeds)]
    seeds: Seeds,
    /// Transactions of each seed.
    #[arg(long, default_value_t = 2000)]
    transactions: u64,
    /// The kind of work, instead of the seed's.
    #[arg(long, value_parser = kind)]
    kind: Option<Kind>,
    /// Prints the curve of each seed: pages in use, of the store, free and pinned.
    #[arg(long)]
    curves: bool,
    #[command(flatten)]
    runs: Runs,
}

fn kind(name: &str) -> Result<Kind, String> {
    let names = || Kind::ALL.map(Kind::name).join(", ");
    let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| format!("no kind of work \"{name}\"; there are: {}", names()))
}

impl Growth {
    pub(crate) fn run(&self) -> ExitCode {
        let run = match self.engine {
            Engine::Tree => growth_seed,
            Engine::Lsm => lsm::growth::growth_seed,
        };
        let run = |seed| run(seed, self.kind, self.transactions);
        let reports = over_seeds(&self.seeds, self.runs.jobs, run);
        if self.runs.json {
            let all: Vec<_> = reports.iter().map(as_json).collect();
            super::print(&json!({"command": "growth", "engine": self.engine.name(), "seeds": all}));
        } else {
            reports.iter().for_each(|report| self.print(report));
        }
        super::exit_code(reports.iter().all(|r| r.violations.is_empty()))
    }

    fn print(&self, report: &GrowthReport) {
        let readers = if report.has_readers { ", with readers" } else { "" };
        println!(
            "seed {}: {}{readers}: at most {} % of what was needed",
            report.seed,
            report.kind.name(),
            report.percent
        );
        report.violations.iter().for_each(|what| println!("seed {}: {what}", report.seed));
        if self.curves {
            println!(
                "{:>14} {:>8} {:>8} {:>8} {:>8}",
                "transactions", "in use", "pages", "free", "pinned"
            );
            for at in &report.curve {
                println!(
                    "{:>14} {:>8} {:>8} {:>8} {:>8}",
                    at.transactions, at.live, at.pages, at.free, at.pinned
                );
            }
        }
    }
}

fn as_json(report: &GrowthReport) -> serde_json::Value {
    let curve: Vec<_> = report
        .curve
        .iter()
        .map(|at| {
            json!({
                "transactions": at.transactions,
                "live_pages": at.live,
                "pages": at.pages,
                "free_pages": at.free,
                "pinned_pages": at.pinned,
            })
        })
        .collect();
    json!({
        "seed": report.seed,
        "kind": report.kind.name(),
        "readers": report.has_readers,
        "percent_of_needed": report.percent,
        "curve": curve,
        "violations": report.violations,
    })
}
