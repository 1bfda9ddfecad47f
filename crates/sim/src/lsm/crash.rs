//! Power cuts and kills of the log-structured engine: around every write and flush of a run, the
//! images that a loss at that point may leave.
//!
//! Each image must open, hold a prefix of the commits with every durable one in it (after the death
//! of the process: every one that was handed to the system), pass `check`, and take more commits:
//! the run goes on on it for a few operations, and many of these runs are cut as well.

use std::path::PathBuf;

use hedgerow::os::sim::{self, CrashMode, SimSystem};

use super::ledger::{Ledger, Mark};
use super::run::{RESERVE_BYTES, Runner};
use super::{Config, Generator, Op};
use crate::crash::{CrashReport, CrashSettings, Violation};
use crate::job::caught;
use crate::rng::Rng;
use crate::run::Outcome;
use crate::shrink::shrink;

/// An image may be the image of an image, and so on, at most this many times.
const DEPTH_MAX: usize = 3;
/// This many lines of the log are shown.
const LOG_SHOWN: usize = 24;
/// After this many violations a seed ends.
const VIOLATIONS_MAX: usize = 20;
/// Where the store is.
const PATH: &str = "/store";

/// Runs one seed, looks at every image, and shrinks the run if one is wrong.
pub fn crash_seed(seed: u64, settings: &CrashSettings) -> CrashReport<Op> {
    let config = Config::small(seed);
    let ops: Vec<Op> = Generator::brisk(&config, Rng::new(seed, 40)).take(settings.ops).collect();
    let mut report = sweep(&config, &ops, settings.images);
    if let Some(first) = report.violations.first() {
        let kind = first.disagreement.kind();
        let fails = |ops: &[Op]| {
            let report = sweep(&config, ops, 3 * settings.images);
            report.violations.iter().any(|violation| violation.disagreement.kind() == kind)
        };
        let ops = shrink(ops.clone(), settings.shrink_time, fails);
        report.shrunk = Some((config.describe(), ops));
    }
    report
}

/// A run of a store, and what holds before the first mark in its log.
struct Recorded<'r> {
    disk: &'r SimSystem,
    ledger: &'r Ledger,
    start: Mark,
}

/// Runs a list of operations and looks at every image.
fn sweep(config: &Config, ops: &[Op], images: usize) -> CrashReport<Op> {
    let mut report = CrashReport { seed: config.seed, ..CrashReport::default() };
    let disk_config = sim::Config { reserve: RESERVE_BYTES, ..sim::Config::default() };
    let disk = SimSystem::new(config.seed, disk_config);
    let recorded = caught(|| {
        disk.record(true);
        let mut runner = Runner::new(config, Some(disk.clone()), PathBuf::from(PATH))?;
        runner.run(&mut ops.iter().copied())?;
        runner.end(true)
    });
    match recorded {
        Ok(ledger) => {
            report.commits = ledger.states.len() as u64 - 1;
            let start = Mark { returned: 0, handed: 0, durable: 0 };
            let run = Recorded { disk: &disk, ledger: &ledger, start };
            every_cut(config, &run, images, &mut report);
        }
        Err(disagreement) => {
            let (place, log) = ("before any cut".to_owned(), Vec::new());
            report.violations.push(Violation { place, log, disagreement });
        }
    }
    report
}

fn every_cut(config: &Config, run: &Recorded<'_>, images: usize, report: &mut CrashReport<Op>) {
    let mut rng = Rng::new(config.seed, 41);
    for cut in 0..=run.disk.recorded() {
        let images = if run.disk.is_settled_at(cut) { 1 } else { images };
        for _ in 0..images {
            if report.violations.len() >= VIOLATIONS_MAX {
                return;
            }
            let mut place = Vec::new();
            let seed = rng.next_u64();
            let looked =
                caught(|| look(config, run, cut, &mut Rng::new(seed, 42), &mut place, report));
            if let Err(disagreement) = looked {
                let from = cut.saturating_sub(LOG_SHOWN);
                let log = (from..cut).filter_map(|at| run.disk.describe(at)).collect();
                let place = place.join(", then ");
                report.violations.push(Violation { place, log, disagreement });
            }
        }
    }
}

/// Opens what a loss left, and goes on from there.
fn look(
    config: &Config,
    run: &Recorded<'_>,
    cut: usize,
    rng: &mut Rng,
    place: &mut Vec<String>,
    report: &mut CrashReport<Op>,
) -> Outcome {
    let seed = rng.next_u64();
    let mode = rng.index(CrashMode::ALL.len() + 1);
    let mode = CrashMode::ALL.get(mode);
    let event = run.disk.describe(cut).unwrap_or_else(|| "the end".to_owned());
    let how = mode.map_or("Kill".to_owned(), |mode| format!("{mode:?}"));
    place.push(format!("{how} at {cut} before {event}, seed {seed}"));
    report.images += 1;
    report.nested += u64::from(place.len() > 1);
    report.killed += u64::from(mode.is_none());
    let image = match mode {
        Some(&mode) => run.disk.image_at(cut, mode, seed),
        None => run.disk.killed_at(cut),
    };
    let goes_on = place.len() < DEPTH_MAX && rng.chance(1, 2);
    if goes_on {
        image.record(true);
    }
    let mark = run.disk.last_mark(cut).map_or(run.start, Mark::unpack);
    let path = PathBuf::from(PATH);
    let loss = (mark, mode.is_some());
    let mut runner = Runner::recovered(config, image.clone(), path, run.ledger, loss)?;
    let start = runner.start;
    let few = rng.between(2, 14);
    let more = Rng::new(rng.next_u64(), 43);
    runner.run(&mut Generator::brisk(config, more).take(few))?;
    let ledger = runner.end(rng.chance(1, 2))?;
    if !goes_on {
        return Ok(());
    }
    let run = Recorded { disk: &image, ledger: &ledger, start };
    let cut = rng.index(image.recorded() + 1);
    look(config, &run, cut, rng, place, report)
}
