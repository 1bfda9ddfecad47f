//! Power cuts and kills: random transactions of all kinds on the simulated disk, and around every
//! single write and flush, the images that a loss at that point may leave.
//!
//! Each image must open, hold a prefix of the commits with every durable one in it (after the
//! death of the process: every one that returned), and pass `check`. Then the run goes on on it
//! for a few transactions, and many of these runs are cut as well: so the losses fall also into
//! the recovery from losses. Where a cut comes before the store's creation was acknowledged, there
//! may be no store, but there must not be a panic or a wrong one.

use std::time::Duration;

use hedgerow::os::sim::{self, CrashMode, SimSystem};

use crate::config::Config;
use crate::generate::Generator;
use crate::job::caught;
use crate::op::{Control, Op};
use crate::rng::Rng;
use crate::run::{Disagreement, Ledger, Loss, Mark, Outcome, Runner};
use crate::shrink::shrink;

/// An image may be the image of an image, and so on, at most this many times.
const DEPTH_MAX: usize = 3;
/// This many lines of the log are shown.
const LOG_SHOWN: usize = 24;
/// After this many violations a seed ends.
const VIOLATIONS_MAX: usize = 20;

/// What all seeds of a run share.
#[derive(Clone, Copy, Debug)]
pub struct CrashSettings {
    /// Operations of each seed.
    pub ops: usize,
    /// Images at each place of the log where something is on its way to the disk.
    pub images: usize,
    /// How long to look for a shorter list of operations.
    pub shrink_time: Duration,
}

/// How a seed went.
#[derive(Debug)]
pub struct CrashReport<O = Op> {
    /// The seed.
    pub seed: u64,
    /// Images that were opened.
    pub images: u64,
    /// Of those, images of a run on another image.
    pub nested: u64,
    /// The number of images that are those of a killed process.
    pub killed: u64,
    /// Commits of the run.
    pub commits: u64,
    /// What was wrong, one for each image.
    pub violations: Vec<Violation>,
    /// What the seed chose, and the shortest list of operations that was found to end in the same
    /// violation as the first one, if there is one.
    pub shrunk: Option<(String, Vec<O>)>,
}

impl<O> Default for CrashReport<O> {
    fn default() -> Self {
        let violations = Vec::new();
        Self { seed: 0, images: 0, nested: 0, killed: 0, commits: 0, violations, shrunk: None }
    }
}

/// What is wrong with an image.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Where the run was cut, and how.
    pub place: String,
    /// What happened to the disk before the first cut, the last of it at the end.
    pub log: Vec<String>,
    /// What was found.
    pub disagreement: Disagreement,
}

/// Runs one seed, looks at every image, and shrinks the run if one is wrong.
pub fn crash_seed(seed: u64, settings: &CrashSettings) -> CrashReport {
    let config = &Config::small(seed);
    let ops = Generator::brisk(config, Rng::new(seed, 12)).take(settings.ops).collect();
    let sweep = |ops: &[Op], images: usize| {
        let run = |disk: &SimSystem| {
            let mut runner = Runner::on_disk(config, disk)?;
            runner.run_on(&mut ops.iter().copied())?;
            Ok(runner.close().map(|ledger| (ledger.commits(), ledger)))
        };
        sweep(
            disk(seed),
            (seed, images),
            [11, 13],
            run,
            |report, (disk, ledger), cut, rng, place| {
                look(config, report, &Recorded { disk, ledger, start: None }, cut, rng, place)
            },
        )
    };
    shrunk(settings, ops, sweep, || config.describe())
}

/// Looks for wrong images of a run with these operations by `sweep`, given how many to look at in
/// each place; and for a shorter list of operations that ends in the same violation as the first.
pub(crate) fn shrunk<O: Copy>(
    settings: &CrashSettings,
    ops: Vec<O>,
    sweep: impl Fn(&[O], usize) -> CrashReport<O>,
    describe: impl FnOnce() -> String,
) -> CrashReport<O> {
    let mut report = sweep(&ops, settings.images);
    if let Some(first) = report.violations.first() {
        let kind = first.disagreement.kind();
        // More images at each place, since the right one may be another one in a shorter run.
        let fails = |ops: &[O]| {
            let report = sweep(ops, 3 * settings.images);
            report.violations.iter().any(|violation| violation.disagreement.kind() == kind)
        };
        report.shrunk = Some((describe(), shrink(ops, settings.shrink_time, fails)));
    }
    report
}

/// Does `run` on a disk that records it, and looks at images of every place of the log: where
/// nothing is on its way, a power cut is one like the other. `run` answers how many commits it
/// made, and its ledger; the two `numbers` tell the random numbers of a seed apart.
pub(crate) fn sweep<O, L>(
    disk: SimSystem,
    (seed, images): (u64, usize),
    numbers: [u64; 2],
    run: impl FnOnce(&SimSystem) -> Outcome<Option<(u64, L)>>,
    mut look: impl FnMut(
        &mut CrashReport<O>,
        (&SimSystem, &L),
        (usize, How),
        &mut Rng,
        &mut Vec<String>,
    ) -> Outcome,
) -> CrashReport<O> {
    let mut report = CrashReport { seed, ..CrashReport::default() };
    disk.record(true);
    let (commits, ledger) = match caught(|| run(&disk)) {
        Ok(Some(run)) => run,
        Ok(None) => return report,
        Err(disagreement) => {
            let (place, log) = ("before any cut".to_owned(), Vec::new());
            report.violations.push(Violation { place, log, disagreement });
            return report;
        }
    };
    report.commits = commits;
    let mut rng = Rng::new(seed, numbers[0]);
    for cut in 0..=disk.recorded() {
        let images = if disk.is_settled_at(cut) { 1 } else { images };
        for _ in 0..images {
            if report.violations.len() >= VIOLATIONS_MAX {
                return report;
            }
            let (how, own, mut place) = (How::random(&mut rng), rng.next_u64(), Vec::new());
            let mut own = Rng::new(own, numbers[1]);
            let looked =
                caught(|| look(&mut report, (&disk, &ledger), (cut, how), &mut own, &mut place));
            if let Err(disagreement) = looked {
                let from = cut.saturating_sub(LOG_SHOWN);
                let log = (from..cut).filter_map(|at| disk.describe(at)).collect();
                let place = place.join(", then ");
                report.violations.push(Violation { place, log, disagreement });
            }
        }
    }
    report
}

/// A simulated disk whose files have this much address space.
pub(crate) fn disk(seed: u64) -> SimSystem {
    SimSystem::new(seed, sim::Config { reserve: 64 << 20, ..sim::Config::default() })
}

/// A run of a store and its log.
struct Recorded<'r> {
    disk: &'r SimSystem,
    ledger: &'r Ledger,
    /// What holds before the first mark in the log; `None` if there was no store.
    start: Option<Mark>,
}

impl Recorded<'_> {
    fn mark(&self, cut: usize) -> Option<Mark> {
        self.disk.last_mark(cut).map(Mark::unpack).or(self.start)
    }
}

/// What became of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Cut(CrashMode),
    Kill,
}

impl How {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        match rng.index(6) {
            5 => Self::Kill,
            mode => Self::Cut(CrashMode::ALL[mode]),
        }
    }

    fn loss(self) -> Loss {
        if matches!(self, Self::Kill) { Loss::Process } else { Loss::Power }
    }
}

impl<O> CrashReport<O> {
    /// What a loss leaves of a disk, and whether that is to be cut as well: then it is recorded.
    pub(crate) fn image(
        &mut self,
        disk: &SimSystem,
        (cut, how): (usize, How),
        rng: &mut Rng,
        place: &mut Vec<String>,
    ) -> (SimSystem, bool) {
        let event = disk.describe(cut).unwrap_or_else(|| "the end".to_owned());
        let seed = rng.next_u64();
        place.push(format!("{how:?} at {cut} before {event}, seed {seed}"));
        self.images += 1;
        self.nested += u64::from(place.len() > 1);
        self.killed += u64::from(how == How::Kill);
        let image = match how {
            How::Cut(mode) => disk.image_at(cut, mode, seed),
            How::Kill => disk.killed_at(cut),
        };
        let goes_on = place.len() < DEPTH_MAX && rng.chance(1, 2);
        if goes_on {
            image.record(true);
        }
        (image, goes_on)
    }
}

/// Opens what a loss left, and goes on from there.
fn look(
    config: &Config,
    report: &mut CrashReport,
    run: &Recorded<'_>,
    (cut, how): (usize, How),
    rng: &mut Rng,
    place: &mut Vec<String>,
) -> Outcome {
    let (image, goes_on) = report.image(run.disk, (cut, how), rng, place);
    let opened = Runner::recovered(config, &image, run.ledger, run.mark(cut), how.loss())?;
    let Some(mut runner) = opened else { return Ok(()) };
    let start = runner.ledger().map(|ledger| ledger.mark(0));
    let begin = std::iter::once(Op::Control(Control::BeginWrite));
    let few = rng.between(2, 14);
    let more = Generator::brisk_inside(config, Rng::new(rng.next_u64(), 14)).take(few);
    runner.run_on(&mut begin.chain(more))?;
    let ledger = if rng.chance(1, 2) { runner.close() } else { runner.die() };
    if let (Some(ledger), true) = (ledger, goes_on) {
        let run = Recorded { disk: &image, ledger: &ledger, start };
        let cut = (rng.index(image.recorded() + 1), How::random(rng));
        return look(config, report, &run, cut, rng, place);
    }
    Ok(())
}
