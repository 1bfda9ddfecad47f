//! Benchmarks of Hedgerow and other engines: workloads from files, rounds in which the engines take
//! turns step by step, every answer checked.
//!
//! `spec` says what to do, `model` what the answers must be, `reads` and `writes` do it with any
//! engine, `session` is one engine's store during the run, `report` prints the results.

pub(crate) mod beyond;
mod entry;
pub(crate) mod fresh;
mod html;
mod limit;
pub(crate) mod machine;
pub(crate) mod memory;
mod model;
mod peer;
mod reads;
pub(crate) mod report;
mod session;
mod spec;
#[cfg(test)]
mod tests;
mod writes;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use self::model::Model;
use self::peer::Peer;
use self::reads::Wrong;
use self::report::{Cell, Row};
use self::session::Session;
use self::spec::{Step, Workload};
use crate::engine::{Error, Result, Unsupported};

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The engines, the first one after hedgerow being what the others are divided by
    #[arg(long, value_delimiter = ',', default_value = "hedgerow,lmdb")]
    engines: Vec<Peer>,
    /// `all`, `quick` (within 4 minutes), the name of a workload, or a file like those
    #[arg(long, default_value = "quick")]
    workload: String,
    /// How often everything is done, in place of what the workload says
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Where the stores lie during the run; by default the system's folder for temporary files
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Keep the figures in crates/bench/record, by machine and date
    #[arg(long)]
    record: bool,
}

/// Measures and prints. Fails if an engine failed or gave a wrong answer.
pub(crate) fn main(options: &Options) -> Result<()> {
    let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    fs::create_dir_all(&folder)?;
    let mut rows = Vec::new();
    for mut workload in spec::choose(&options.workload)? {
        workload.rounds = options.rounds.unwrap_or(workload.rounds);
        eprintln!("{}: {}", workload.name, workload.about);
        rows.extend(Course::run(&workload, &options.engines, &folder)?);
    }
    publish(options, &rows)?;
    match report::faults(&rows) {
        faults if faults.is_empty() => Ok(()),
        faults => Err(faults.join("\n").into()),
    }
}

/// Prints and writes what was measured, in the ways that are asked for.
fn publish(options: &Options, rows: &[Row]) -> Result<()> {
    let machine = machine::describe()?;
    let json = report::to_json(rows, &machine);
    if options.json {
        print!("{json}");
    } else {
        print!("{}", report::to_table(rows, &options.engines)?);
    }
    if options.record {
        let file = machine::record(&options.workload)?;
        fs::write(&file, &json)?;
        eprintln!("recorded in {}", file.display());
    }
    if let Some(file) = &options.html {
        fs::write(file, html::page(rows, &options.engines, &machine.to_string())?)?;
    }
    Ok(())
}

/// One workload being done.
struct Course<'a> {
    workload: &'a Workload,
    engines: &'a [Peer],
    folder: &'a Path,
    start: Instant,
    /// For each step what each engine brought.
    cells: Vec<Vec<Cell>>,
    /// Engines that cannot go on.
    out: Vec<bool>,
}

impl<'a> Course<'a> {
    fn run(workload: &'a Workload, engines: &'a [Peer], folder: &'a Path) -> Result<Vec<Row>> {
        let cells = vec![vec![Cell::default(); engines.len()]; workload.steps.len()];
        let (start, out) = (Instant::now(), vec![false; engines.len()]);
        let mut course = Self { workload, engines, folder, start, cells, out };
        for round in 0..workload.rounds {
            course.round(round)?;
        }
        Ok(report::rows(workload, engines, course.cells))
    }

    /// All steps on new stores; step by step the engines take turns, another one first each time.
    fn round(&mut self, round: u32) -> Result<()> {
        let Workload { name, shape, keys, duplicates, steps, rounds, .. } = self.workload;
        let mut model = Model::new(*shape, *keys, *duplicates);
        let open = |peer: &Peer| peer.session(self.folder, self.workload);
        let mut sessions = self.engines.iter().map(open).collect::<Result<Vec<_>>>()?;
        for (at, step) in steps.iter().enumerate() {
            let seconds = self.start.elapsed().as_secs();
            eprintln!("{name}: round {} of {rounds}, {} ({seconds} s)", round + 1, step.name);
            let mut after = model.clone();
            session::advance(&mut after, step);
            for turn in 0..sessions.len() {
                let engine = (turn + round as usize + at) % sessions.len();
                if !self.out[engine] {
                    let session = sessions[engine].as_mut();
                    let done = take_turn(session, step, &model, &after);
                    self.note(at, engine, done, !session.lacks_rows());
                }
            }
            model = after;
        }
        Ok(())
    }

    /// Notes what an engine's turn has brought. `strict`: one that cannot change its store as the
    /// others have cannot go on.
    fn note(&mut self, at: usize, engine: usize, done: Result<f64>, strict: bool) {
        let cell = &mut self.cells[at][engine];
        match done {
            Ok(value) => cell.values.push(value),
            Err(error) if error.is::<Unsupported>() => {
                let changes = session::changes(self.workload.steps[at].operation);
                self.out[engine] = strict && changes;
            }
            Err(error) => {
                cell.fault = Some(fault(&error));
                self.out[engine] = true;
            }
        }
    }
}

/// What to say of a failure.
fn fault(error: &Error) -> String {
    if error.is::<Wrong>() { error.to_string() } else { format!("failed: {error}") }
}

/// Does a step and compares the store with the model, if the step has changed it.
fn take_turn(session: &mut dyn Session, step: &Step, model: &Model, after: &Model) -> Result<f64> {
    let value = session.run(step, model)?;
    if session::changes(step.operation) {
        session.verify(after)?;
    }
    Ok(value)
}
