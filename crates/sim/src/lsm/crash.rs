//! Power cuts and kills of the log-structured engine: around every write and flush of a run, the
//! images that a loss at that point may leave.
//!
//! Each image must open, hold a prefix of the commits with every durable one in it (after the death
//! of the process: every one that was handed to the system), pass `check`, and take more commits:
//! the run goes on on it for a few operations, and many of these runs are cut as well.

use std::path::PathBuf;

use hedgerow::os::sim::SimSystem;

use super::ledger::{Ledger, Mark};
use super::run::{Runner, disk};
use super::{Config, Generator, Op};
use crate::crash::{CrashReport, CrashSettings, How, shrunk, sweep};
use crate::rng::Rng;
use crate::run::Outcome;

/// Where the store is.
const PATH: &str = "/store";

/// Runs one seed, looks at every image, and shrinks the run if one is wrong.
pub fn crash_seed(seed: u64, settings: &CrashSettings) -> CrashReport<Op> {
    let config = &Config::small(seed);
    let ops = Generator::brisk(config, Rng::new(seed, 40)).take(settings.ops).collect();
    let sweep = |ops: &[Op], images: usize| {
        let run = |disk: &SimSystem| {
            let mut runner = Runner::new(config, Some(disk.clone()), PathBuf::from(PATH))?;
            runner.run(&mut ops.iter().copied())?;
            let ledger = runner.end(true)?;
            Ok(Some((ledger.states.len() as u64 - 1, ledger)))
        };
        let start = Mark { returned: 0, handed: 0, durable: 0 };
        sweep(
            disk(seed),
            (seed, images),
            [41, 42],
            run,
            |report, (disk, ledger), cut, rng, place| {
                look(config, report, &Recorded { disk, ledger, start }, cut, rng, place)
            },
        )
    };
    shrunk(settings, ops, sweep, || config.describe())
}

/// A run of a store, and what holds before the first mark in its log.
struct Recorded<'r> {
    disk: &'r SimSystem,
    ledger: &'r Ledger,
    start: Mark,
}

/// Opens what a loss left, and goes on from there.
fn look(
    config: &Config,
    report: &mut CrashReport<Op>,
    run: &Recorded<'_>,
    (cut, how): (usize, How),
    rng: &mut Rng,
    place: &mut Vec<String>,
) -> Outcome {
    let (image, goes_on) = report.image(run.disk, (cut, how), rng, place);
    let mark = run.disk.last_mark(cut).map_or(run.start, Mark::unpack);
    let (path, loss) = (PathBuf::from(PATH), (mark, how != How::Kill));
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
    let cut = (rng.index(image.recorded() + 1), How::random(rng));
    look(config, report, &run, cut, rng, place)
}
