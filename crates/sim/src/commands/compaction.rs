//! `sim compaction`: arguments and reports.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use sim::compaction::{CompactionSettings, Curve, Tally, Workload, run, shape};

/// Draws curves of write and space amplification of the log-structured engine: its planners choose,
/// nothing is read or written.
#[derive(Args)]
pub(crate) struct Compaction {
    /// What is done after every key was put; everything, one after the other, if not given.
    #[arg(long, value_enum, value_delimiter = ',')]
    workload: Vec<Word>,
    /// Keys of the store, with 1 KiB under each.
    #[arg(long, default_value_t = 400_000)]
    keys: u32,
    /// Operations after the load.
    #[arg(long, default_value_t = 2_000_000)]
    ops: u64,
    /// Points of a curve.
    #[arg(long, default_value_t = 10)]
    points: u64,
    /// Values stand in tables and not in the log.
    #[arg(long)]
    inline: bool,
    /// The seed of the order of operations.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prints one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Word {
    Load,
    Uniform,
    Skewed,
    Sequential,
    Deletes,
    Halves,
}

impl From<Word> for Workload {
    fn from(word: Word) -> Self {
        match word {
            Word::Load => Self::Load,
            Word::Uniform => Self::Uniform,
            Word::Skewed => Self::Skewed,
            Word::Sequential => Self::Sequential,
            Word::Deletes => Self::Deletes,
            Word::Halves => Self::Halves,
        }
    }
}

impl Compaction {
    pub(crate) fn run(&self) -> ExitCode {
        let begin = Instant::now();
        let mut workloads: Vec<Workload> = self.workload.iter().copied().map(Into::into).collect();
        if workloads.is_empty() {
            workloads = Workload::ALL.to_vec();
        }
        let mut curves = Vec::new();
        for workload in workloads {
            let settings = CompactionSettings {
                workload,
                shape: shape(!self.inline),
                keys: self.keys,
                ops: self.ops,
                seed: self.seed,
                points: self.points,
            };
            match run(&settings) {
                Ok(curve) if self.json => curves.push(as_json(workload, &curve)),
                Ok(curve) => print(workload, &curve),
                Err(error) => {
                    eprintln!("error: {}: {error}", workload.name());
                    return ExitCode::FAILURE;
                }
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        if self.json {
            let values = if self.inline { "inline" } else { "separated" };
            super::print(&json!({
                "command": "compaction",
                "keys": self.keys,
                "values": values,
                "curves": curves,
                "seconds": seconds,
            }));
        } else {
            println!("{seconds:.1} s");
        }
        ExitCode::SUCCESS
    }
}

fn print(workload: Workload, curve: &Curve) {
    println!(
        "{:<12} {:>10} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8}",
        workload.name(),
        "operations",
        "written",
        "space",
        "at most",
        "hidden MB",
        "debt MB",
        "level 0"
    );
    print_point("loaded", 0, &curve.loaded);
    for (ops, tally) in &curve.points {
        print_point("", *ops, tally);
    }
    print_point("compacted", 0, &curve.compacted);
    println!();
}

fn print_point(name: &str, ops: u64, tally: &Tally) {
    let ops = if name.is_empty() { ops.to_string() } else { String::new() };
    println!(
        "{name:<12} {ops:>10} {:>8.3} {:>8.3} {:>8.2} {:>9.1} {:>9.1} {:>8}",
        tally.write_amplification(),
        tally.space_amplification(),
        tally.space_percent_max as f64 / 100.0,
        tally.hidden_bytes as f64 / 1e6,
        tally.debt_bytes as f64 / 1e6,
        tally.level0_tables,
    );
}

fn as_json(workload: Workload, curve: &Curve) -> Value {
    let point = |ops: u64, tally: &Tally| {
        json!({
            "ops": ops,
            "logical_bytes": tally.logical_bytes,
            "written_bytes": tally.written_bytes,
            "live_bytes": tally.live_bytes,
            "space_bytes": tally.space_bytes,
            "space_percent_max": tally.space_percent_max,
            "hidden_bytes": tally.hidden_bytes,
            "debt_bytes": tally.debt_bytes,
            "level0_tables": tally.level0_tables,
        })
    };
    json!({
        "workload": workload.name(),
        "loaded": point(0, &curve.loaded),
        "points": curve.points.iter().map(|(ops, tally)| point(*ops, tally)).collect::<Vec<_>>(),
        "compacted": point(0, &curve.compacted),
    })
}
