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
const DEPTH_MAX: u32 = 3;
/// This many lines of the log are shown.
const LOG_SHOWN: usize = 24;
/// After this many violations a seed ends.
const VIOLATIONS_MAX: usize = 20;
/// Address space of a simulated file.
const RESERVE_BYTES: u64 = 64 << 20;

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
    let config = Config::small(seed);
    let ops: Vec<Op> = Generator::brisk(&config, Rng::new(seed, 12)).take(settings.ops).collect();
    let mut report = sweep(&config, &ops, settings.images, VIOLATIONS_MAX);
    if let Some(first) = report.violations.first() {
        let kind = first.disagreement.kind();
        // More images at each place, since the right one may be another one in a shorter run.
        let fails = |ops: &[Op]| {
            let report = sweep(&config, ops, 3 * settings.images, VIOLATIONS_MAX);
            report.violations.iter().any(|violation| violation.disagreement.kind() == kind)
        };
        let ops = shrink(ops.clone(), settings.shrink_time, fails);
        report.shrunk = Some((config.describe(), ops));
    }
    report
}

/// Runs a list of operations and checks every image, up to `violations` violations.
fn sweep(config: &Config, ops: &[Op], images: usize, violations_max: usize) -> CrashReport {
    let report = CrashReport { seed: config.seed, ..CrashReport::default() };
    let mut sweep = Sweep { config, report, violations_max };
    let disk_config = sim::Config { reserve: RESERVE_BYTES, ..sim::Config::default() };
    let disk = SimSystem::new(config.seed, disk_config);
    let recorded = caught(|| {
        disk.record(true);
        let mut runner = Runner::on_disk(config, &disk)?;
        runner.run_on(&mut ops.iter().copied())?;
        Ok(runner.close())
    });
    match recorded {
        Ok(Some(ledger)) => {
            sweep.report.commits = ledger.commits();
            sweep.every_cut(&disk, &ledger, images);
        }
        Ok(None) => {}
        Err(disagreement) => {
            let (place, log) = ("before any cut".to_owned(), Vec::new());
            sweep.report.violations.push(Violation { place, log, disagreement });
        }
    }
    sweep.report
}

/// A recorded run, and how much of it was looked at.
struct Sweep<'c> {
    config: &'c Config,
    report: CrashReport,
    violations_max: usize,
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
#[derive(Clone, Copy, Debug)]
enum How {
    Cut(CrashMode),
    Kill,
}

impl How {
    fn random(rng: &mut Rng) -> Self {
        match rng.index(6) {
            5 => Self::Kill,
            mode => Self::Cut(CrashMode::ALL[mode]),
        }
    }

    fn loss(self) -> Loss {
        if matches!(self, Self::Kill) { Loss::Process } else { Loss::Power }
    }

    fn image(self, disk: &SimSystem, cut: usize, seed: u64) -> SimSystem {
        match self {
            Self::Cut(mode) => disk.image_at(cut, mode, seed),
            Self::Kill => disk.killed_at(cut),
        }
    }
}

impl Sweep<'_> {
    /// Looks at images of every place of the log: where nothing is on its way, a power cut is one
    /// like the other.
    fn every_cut(&mut self, disk: &SimSystem, ledger: &Ledger, images: usize) {
        let mut rng = Rng::new(self.config.seed, 11);
        let run = Recorded { disk, ledger, start: None };
        for cut in 0..=disk.recorded() {
            let images = if disk.is_settled_at(cut) { 1 } else { images };
            for _ in 0..images {
                if self.report.violations.len() >= self.violations_max {
                    return;
                }
                self.one_cut(&run, cut, &mut rng);
            }
        }
    }

    fn one_cut(&mut self, run: &Recorded<'_>, cut: usize, rng: &mut Rng) {
        let (how, seed) = (How::random(rng), rng.next_u64());
        let mut rng = Rng::new(seed, 13);
        let mut place = Vec::new();
        let looked = caught(|| self.look(run, (cut, how), &mut rng, &mut place));
        if let Err(disagreement) = looked {
            let place = place.join(", then ");
            let log = (cut.saturating_sub(LOG_SHOWN)..cut).filter_map(|at| run.disk.describe(at));
            let violation = Violation { place, log: log.collect(), disagreement };
            self.report.violations.push(violation);
        }
    }

    /// Opens what a loss left, and goes on from there.
    fn look(
        &mut self,
        run: &Recorded<'_>,
        (cut, how): (usize, How),
        rng: &mut Rng,
        place: &mut Vec<String>,
    ) -> Outcome {
        let event = || run.disk.describe(cut).unwrap_or_else(|| "the end".to_owned());
        let seed = rng.next_u64();
        place.push(format!("{how:?} at {cut} before {}, seed {seed}", event()));
        self.report.images += 1;
        self.report.nested += u64::from(place.len() > 1);
        self.report.killed += u64::from(how.loss() == Loss::Process);
        let image = how.image(run.disk, cut, seed);
        let goes_on = place.len() < DEPTH_MAX as usize && rng.chance(1, 2);
        if goes_on {
            image.record(true);
        }
        let mark = run.mark(cut);
        let opened = Runner::recovered(self.config, &image, run.ledger, mark, how.loss())?;
        let Some(mut runner) = opened else { return Ok(()) };
        let start = runner.ledger().map(|ledger| ledger.mark(0));
        let begin = std::iter::once(Op::Control(Control::BeginWrite));
        let few = rng.between(2, 14);
        let more = Generator::brisk_inside(self.config, Rng::new(rng.next_u64(), 14)).take(few);
        runner.run_on(&mut begin.chain(more))?;
        let ledger = if rng.chance(1, 2) { runner.close() } else { runner.die() };
        if let (Some(ledger), true) = (ledger, goes_on) {
            let run = Recorded { disk: &image, ledger: &ledger, start };
            let cut = rng.index(image.recorded() + 1);
            let how = How::random(rng);
            return self.look(&run, (cut, how), rng, place);
        }
        Ok(())
    }
}
