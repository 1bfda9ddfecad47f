//! Stores whose data do not fit in memory: every engine in a process of its own, in a control group
//! that keeps it and the system's cache of its files small, beside what the device does without a
//! store. In each round all take turns, and reads take turns with those of the device; a ratio is
//! the median of the turns' ratios, so that a machine that is slower at times does not change it.

mod fio;
mod items;
mod plan;
mod queues;
mod reads;
mod steps;
mod worker;

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::compare::machine;
use crate::engine::{Missing, Result};
use crate::group::Group;
use plan::{Results, Row};
use queues::Device;
use steps::Step;
pub(crate) use steps::{Options as StepOptions, main as steps};

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Which rows of the table, all but `queues` unless said
    #[arg(long, value_enum, value_delimiter = ',')]
    rows: Vec<Row>,
    /// How many items; as many as fill four times the memory unless said
    #[arg(long)]
    items: Option<u64>,
    /// Bytes of memory for each engine, the system's cache of its files included
    #[arg(long)]
    limit: Option<u64>,
    /// Less memory, fewer items, one round: about three minutes
    #[arg(long)]
    quick: bool,
    /// Run also where no control group can be made: then the data may fit in memory
    #[arg(long)]
    no_group: bool,
    /// How often all is measured
    #[arg(long)]
    rounds: Option<u32>,
    /// How often a process is ended by force
    #[arg(long)]
    kills: Option<u32>,
    /// Seconds of each measurement that has no end of its own
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..600))]
    seconds: u64,
    /// Where the stores are made, on the device to measure; by default the system's folder for
    /// temporary files
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// The bytes of memory unless said, and those of a quick run.
const LIMIT: u64 = 256 << 20;
const LIMIT_QUICK: u64 = 128 << 20;
/// The data are this many times as large as the memory.
const TIMES: u64 = 4;
/// The file in which writes with a flush each go round.
const FLUSHED: u64 = 16 << 20;

/// Reading in order is measured before one in this many kills, in pieces of this length.
const KILLS_A_STREAM: u32 = 5;
/// After one in this many kills another one follows, and the system's cache is emptied.
const KILLS_A_COLD_ONE: u32 = 4;
const PIECE: u64 = 256 << 10;

/// What is measured, of what is asked for.
struct Session<'o> {
    options: &'o Options,
    rows: Vec<Row>,
    folder: PathBuf,
    items: u64,
    limit: u64,
    /// What the device is measured with, made when it first is.
    device: OnceCell<Device>,
}

/// Measures and reports.
pub(crate) fn main(options: &Options) -> Result<()> {
    let mut rows = options.rows.clone();
    if rows.is_empty() {
        let all = <Row as clap::ValueEnum>::value_variants().iter().copied();
        rows = all.filter(|row| *row != Row::Queues).collect();
    }
    let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let limit = options.limit.unwrap_or(if options.quick { LIMIT_QUICK } else { LIMIT });
    let items = options.items.unwrap_or((limit * TIMES).div_ceil(items::ITEM));
    let session = Session { options, rows, folder, items, limit, device: OnceCell::new() };
    session.check()?;
    let results = session.measure()?;
    let mut report = session.report(&results)?;
    if !options.json {
        print!("{}", session.table(&results));
    }
    if session.rows.contains(&Row::Queues) {
        report["queues"] = session.queues()?;
    }
    if options.json {
        println!("{report:#}");
    }
    Ok(())
}

impl Session<'_> {
    /// Says what is missing before anything is measured.
    fn check(&self) -> Result<()> {
        if !self.options.no_group {
            Group::new(self.limit).map(drop).map_err(|_| {
                let what = "no control group for memory can be made here (one has to be root, and \
                            /sys/fs/cgroup has to be writable); with --no-group all is run \
                            without, and the data may fit in memory";
                Missing(what.to_owned())
            })?;
        }
        if [Row::Get, Row::MultiGet, Row::Kill].iter().any(|row| self.rows.contains(row)) {
            fio::check()?;
        }
        plan::scenarios(&self.rows).iter().try_for_each(|scenario| scenario.kind.check())
    }

    fn group(&self) -> Result<Option<Group>> {
        if self.options.no_group { Ok(None) } else { Group::new(self.limit).map(Some) }
    }

    fn measure(&self) -> Result<Results> {
        let mut results = Results { items: self.items, limit: self.limit, ..Results::default() };
        let scenarios = plan::scenarios(&self.rows);
        let rounds = self.options.rounds.unwrap_or(if self.options.quick { 1 } else { 3 });
        for round in 0..rounds as usize {
            if self.rows.contains(&Row::Durable) {
                results.flushes.push(self.flushes()?);
            }
            for turn in 0..scenarios.len() {
                let scenario = scenarios[(round + turn) % scenarios.len()];
                worker::run(self, scenario, &mut results)?;
            }
        }
        if self.rows.contains(&Row::Kill) {
            let kills = self.options.kills.unwrap_or(if self.options.quick { 5 } else { 20 });
            for number in 0..kills {
                if number % KILLS_A_STREAM == 0 {
                    results.streams.push(self.stream()?);
                }
                results.openings.push(worker::kill(self, number, false)?);
                if number % KILLS_A_COLD_ONE == 0 {
                    results.cold_openings.push(worker::kill(self, number, true)?);
                }
            }
        }
        Ok(results)
    }

    /// What the device does without a store right before a step that is compared with it: random
    /// reads a second of a file as long as the items.
    fn probe(&self, step: Step) -> Result<f64> {
        let Some((depth, threads)) = step.beside() else { return Ok(0.0) };
        let time = Duration::from_secs(self.options.seconds) / 2;
        let load = reads::Load { depth, threads, time };
        Ok(fio::read(self.device()?.path(), load)?.reads_per_second)
    }

    /// How many bytes a second the device gives in order.
    fn stream(&self) -> Result<f64> {
        let time = Duration::from_secs(self.options.seconds) / 2;
        fio::read_in_order(self.device()?.path(), PIECE, time)
    }

    fn device(&self) -> Result<&Device> {
        if let Some(device) = self.device.get() {
            return Ok(device);
        }
        let bytes = (self.items * items::ITEM).next_multiple_of(1 << 20);
        let device = Device::new(&self.folder, bytes)?;
        Ok(self.device.get_or_init(|| device))
    }

    /// Writes of 4 KiB into written space, each with a flush, a second.
    fn flushes(&self) -> Result<f64> {
        let folder = tempfile::tempdir_in(&self.folder)?;
        let file = File::create_new(folder.path().join("flushed"))?;
        file.write_all_at(&vec![1; FLUSHED as usize], 0)?;
        file.sync_all()?;
        let (start, mut count) = (Instant::now(), 0_u64);
        while start.elapsed().as_secs() < self.options.seconds {
            let piece = [count as u8; 4096];
            file.write_all_at(&piece, count * piece.len() as u64 % FLUSHED)?;
            file.sync_data()?;
            count += 1;
        }
        Ok(count as f64 / start.elapsed().as_secs_f64())
    }

    fn queues(&self) -> Result<Value> {
        let rounds = self.options.rounds.unwrap_or(if self.options.quick { 1 } else { 5 });
        let bytes = (self.items * items::ITEM).next_multiple_of(1 << 20);
        let options = reads::Options { bytes, seconds: self.options.seconds, rounds };
        let (report, table) = reads::measured(&self.folder, &options)?;
        if !self.options.json {
            print!("\n{table}");
        }
        Ok(report)
    }

    fn report(&self, results: &Results) -> Result<Value> {
        let steps = results.steps.iter().map(|(key @ (kind, step), taken)| {
            let device = results.beside.get(key);
            json!({ "engine": kind.name(), "step": step, "rounds": taken, "device": device })
        });
        Ok(json!({
            "machine": machine::describe()?,
            "items": self.items,
            "limit": self.limit,
            "in_group": !self.options.no_group,
            "goals": results.lines(&self.rows).iter().map(plan::Line::json).collect::<Vec<_>>(),
            "steps": steps.collect::<Vec<_>>(),
            "flushes": results.flushes,
            "openings": results.openings,
            "streams": results.streams,
            "failures": results.failures.iter().map(|(_, what)| what).collect::<Vec<_>>(),
        }))
    }

    fn table(&self, results: &Results) -> String {
        let mut text = format!(
            "{} items of {} bytes, {} MiB of memory{}\n\n",
            self.items,
            items::ITEM,
            self.limit >> 20,
            if self.options.no_group { " not kept: no control group" } else { "" },
        );
        text +=
            "engine           step             seconds     a second  CPU us   written     space\n";
        for ((kind, step), taken) in &results.steps {
            let of = |f: fn(&steps::Taken) -> f64| {
                crate::compare::report::median(&taken.iter().map(f).collect::<Vec<_>>())
            };
            let logical = (self.items * items::ITEM) as f64;
            let _ = writeln!(
                text,
                "{:<16} {:<14} {:>9.2} {:>12.0} {:>7.2} {:>9.3} {:>9.3}",
                kind.name(),
                format!("{step:?}"),
                of(|taken| taken.seconds),
                of(steps::Taken::rate),
                of(|taken| taken.cpu_seconds * 1e6 / taken.operations.max(1) as f64),
                of(|taken| taken.written as f64) / logical,
                of(|taken| taken.space as f64) / logical,
            );
        }
        text +=
            "\nrow        goal                                                  value      bound\n";
        for line in results.lines(&self.rows) {
            let row = format!("{:?}", line.row);
            let sign = if line.is_least { ">=" } else { "<=" };
            let met = if line.is_met() { "met" } else { "missed" };
            let _ = writeln!(
                text,
                "{row:<10} {:<46} {:>12.2} {sign} {:<8} {met:<6} {}",
                line.what, line.value, line.goal, line.from
            );
        }
        for (_, failure) in &results.failures {
            let _ = writeln!(text, "{failure}");
        }
        text
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}
