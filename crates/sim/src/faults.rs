//! Every call to the system fails once: random transactions on the simulated disk, a few at a time,
//! again and again, each time with another call failing, once or from there on for ever.
//!
//! An error must come back, or the call must have been one that the store can do without. After
//! that, readers must work, and writers too unless a flush or a write failed (the store may then be
//! poisoned), and nothing may be left open or pinned. Then the store is opened again, on the same
//! machine and after a power cut: it must hold every durable commit, pass `check`, and take more.

use std::collections::BTreeMap;

use hedgerow::os::sim::{CrashMode, Fault, Kept, Operation, SimSystem};

use crate::config::{Config, Part};
use crate::crash::disk;
use crate::generate::Generator;
use crate::job::caught;
use crate::op::{Commit, Control, Op};
use crate::rng::Rng;
use crate::run::{Disagreement, Ledger, Loss, Outcome, Runner};

/// A step of the run, which is repeated with each of its calls failing, has at least this many
/// operations.
const STEP_OPS: usize = 10;
/// After this many violations a seed ends.
pub(crate) const VIOLATIONS_MAX: usize = 20;
/// A disk with less room than this is tried.
const ROOM_BYTES: u64 = 40_000;
/// Error numbers: EIO, EINTR, ENOMEM, ENOSPC.
const ERRORS: [i32; 4] = [5, 4, 12, 28];

/// What all seeds of a run share.
#[derive(Clone, Copy, Debug)]
pub struct FaultSettings {
    /// Operations of each seed.
    pub ops: usize,
    /// Of these, the first ones are repeated with a full disk from each write on.
    pub full_disk_ops: usize,
}

/// How a seed went.
#[derive(Debug, Default)]
pub struct FaultReport {
    /// The seed.
    pub seed: u64,
    /// Operations of the run without faults.
    pub ops: u64,
    /// Calls to the system of the run without faults.
    pub calls: u64,
    /// Runs of a step with a fault.
    pub trials: u64,
    /// Of those, runs with a disk that is full from some write on.
    pub full_disks: u64,
    /// Faults that came to pass, by kind of call.
    pub faults: BTreeMap<String, u64>,
    /// Trials after which the store was poisoned.
    pub poisoned: u64,
    /// What was wrong: where, and what.
    pub violations: Vec<(String, Disagreement)>,
}

/// A fault to try.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Script {
    /// The n-th call fails, and all later ones, if it is for ever.
    Call { nth: u64, is_for_ever: bool, fault: Fault },
    /// From the n-th call of a kind on, the disk is full.
    FullFrom { kind: Operation, nth: u64, kept: Kept },
    /// This many bytes are left on the disk.
    Room(u64),
}

impl Script {
    pub(crate) fn arm(self, disk: &SimSystem) {
        match self {
            Self::Call { nth, is_for_ever, fault } => {
                disk.fail_any(nth, if is_for_ever { u64::MAX } else { 1 }, fault);
            }
            Self::FullFrom { kind, nth, kept } => disk.fail(kind, nth, u64::MAX, Fault::full(kept)),
            Self::Room(bytes) => disk.set_capacity(Some(disk.used() + bytes)),
        }
    }
}

/// Runs one seed.
pub fn faults_seed(seed: u64, settings: &FaultSettings) -> FaultReport {
    // A page that cannot be read is a problem for `check`, which is no error: it checks afterwards.
    let config = Config { without: vec![Part::Stat, Part::Check], ..Config::small(seed) };
    let rng = Rng::new(seed, 21);
    let report = FaultReport { seed, ..FaultReport::default() };
    let mut hunt = Hunt { config: &config, rng, report };
    let run = caught(|| hunt.run(settings));
    hunt.report.with(run)
}

impl FaultReport {
    /// With what the run without faults has come to.
    pub(crate) fn with(mut self, run: Outcome) -> Self {
        self.violations.extend(run.err().map(|found| ("without a fault".to_owned(), found)));
        self
    }

    /// Counts what failed; then the fault is gone.
    pub(crate) fn mend(&mut self, disk: &SimSystem) {
        for kind in disk.failed() {
            *self.faults.entry(format!("{kind:?}")).or_default() += 1;
        }
        disk.heal();
        disk.set_capacity(None);
    }
}

/// Nothing that the store opened may be open.
pub(crate) fn nothing_is_open(disk: &SimSystem) -> Outcome {
    match disk.open_handles() {
        0 => Ok(()),
        left => Err(format!("{left} files are left open").into()),
    }
}

/// Cuts a stream into steps: each begins with a transaction, or is the first one.
fn steps(ops: &[Op]) -> Vec<Vec<Op>> {
    let mut steps = vec![Vec::new()];
    for op in ops {
        let last = steps.len() - 1;
        if *op == Op::Control(Control::BeginWrite) && steps[last].len() >= STEP_OPS {
            steps.push(Vec::new());
        }
        let last = steps.len() - 1;
        // Which member of a group meets the fault would be left to chance.
        let is_group = matches!(op, Op::Control(Control::Commit(Commit::Group(..))));
        let durable = Op::Control(Control::Commit(Commit::Durable));
        steps[last].push(if is_group { durable } else { *op });
    }
    steps
}

/// What to try on a step that made the calls that `after` counted; also a full disk, if there is to
/// be one, with less than `room` bytes of room.
pub(crate) fn scripts(rng: &mut Rng, after: &SimSystem, room_bytes: Option<u64>) -> Vec<Script> {
    let mut scripts = Vec::new();
    let kept = |rng: &mut Rng| rng.pick(&[Kept::None, Kept::Some, Kept::All]);
    for nth in 1..=after.all_calls() {
        for is_for_ever in [false, true] {
            let fault = Fault { errno: rng.pick(&ERRORS), kept: kept(rng) };
            scripts.push(Script::Call { nth, is_for_ever, fault });
        }
    }
    if let Some(room_bytes) = room_bytes {
        for kind in [Operation::Write, Operation::SetLen] {
            for nth in 1..=after.calls(kind) {
                scripts.push(Script::FullFrom { kind, nth, kept: kept(rng) });
            }
        }
        scripts.push(Script::Room(rng.below(room_bytes)));
    }
    scripts
}

struct Hunt<'c> {
    config: &'c Config,
    rng: Rng,
    report: FaultReport,
}

impl Hunt<'_> {
    fn run(&mut self, settings: &FaultSettings) -> Outcome {
        let mut disk = disk(self.config.seed);
        let Some(mut ledger) = Runner::on_disk(self.config, &disk)?.close() else { return Ok(()) };
        let stream = Generator::brisk(self.config, Rng::new(self.config.seed, 22));
        let ops: Vec<Op> = stream.take(settings.ops).collect();
        for step in steps(&ops) {
            let after = disk.killed_copy();
            let mark = Some(ledger.mark(0));
            let mut runner = Runner::reopened(self.config, &after, &ledger, mark, Loss::Process)?;
            runner.run_on(&mut step.iter().copied())?;
            let Some(next) = runner.close() else { return Ok(()) };
            self.report.ops += step.len() as u64;
            self.report.calls += after.all_calls();
            let full_disk = self.report.ops <= settings.full_disk_ops as u64;
            for script in scripts(&mut self.rng, &after, full_disk.then_some(ROOM_BYTES)) {
                if self.report.violations.len() >= VIOLATIONS_MAX {
                    return Ok(());
                }
                self.trial(&disk, &ledger, &step, script);
            }
            (disk, ledger) = (after, next);
        }
        Ok(())
    }

    fn trial(&mut self, disk: &SimSystem, ledger: &Ledger, step: &[Op], script: Script) {
        self.report.trials += 1;
        self.report.full_disks += u64::from(!matches!(script, Script::Call { .. }));
        let disk = disk.killed_copy();
        script.arm(&disk);
        if let Err(disagreement) = caught(|| self.fail(&disk, ledger, step)) {
            let failed = disk.failed();
            let place = format!("{script:?}, failed: {failed:?}, in the step {step:?}");
            self.report.violations.push((place, disagreement));
        }
    }

    /// Runs the step on a disk that fails, and looks at what that leaves.
    fn fail(&mut self, disk: &SimSystem, ledger: &Ledger, step: &[Op]) -> Outcome {
        let mark = Some(ledger.mark(0));
        let opened = Runner::reopened(self.config, disk, ledger, mark, Loss::Process);
        let (ledger, mark) = match opened {
            Ok(mut runner) => {
                let result = runner.run_on(&mut step.iter().copied());
                self.report.mend(disk);
                due(disk, result)?;
                let is_poisoned = self.goes_on(disk, &mut runner)?;
                let close = self.rng.chance(1, 2);
                let ledger = if close && !is_poisoned { runner.close() } else { runner.die() };
                let Some(ledger) = ledger else { return Ok(()) };
                self.report.poisoned += u64::from(is_poisoned);
                let mark = ledger.mark(0);
                if is_poisoned { ledger.after_failure() } else { (ledger, mark) }
            }
            Err(disagreement) => {
                self.report.mend(disk);
                due(disk, Err(disagreement))?;
                (ledger.clone(), ledger.mark(0))
            }
        };
        nothing_is_open(disk)?;
        self.again(disk, &ledger, mark)
    }

    /// After the fault: readers see what was committed, and a writer may begin, unless the store is
    /// poisoned, for which a flush or a write must have failed.
    fn goes_on(&mut self, disk: &SimSystem, runner: &mut Runner<'_>) -> Outcome<bool> {
        let poisons = |kind: &Operation| {
            matches!(kind, Operation::Sync | Operation::SyncDirectory | Operation::Write)
        };
        let may_poison = disk.failed().iter().any(poisons);
        if !runner.is_open() {
            return Ok(may_poison);
        }
        let place = |d: Disagreement| d.in_the("after the fault");
        runner.verify_seen().map_err(place)?;
        match runner.readers_left().map_err(place)? {
            0 => {}
            left => return Err(format!("after the fault {left} readers are left").into()),
        }
        let is_poisoned = runner.is_poisoned().map_err(place)?;
        if is_poisoned && !may_poison {
            return Err("poisoned, though neither a flush nor a write failed".to_owned().into());
        }
        if !is_poisoned {
            runner.settle_begun().map_err(place)?;
            runner.run_on(&mut self.few().into_iter()).map_err(place)?;
            runner.verify_seen().map_err(place)?;
        }
        Ok(is_poisoned)
    }

    /// A transaction of a few operations.
    fn few(&mut self) -> Vec<Op> {
        let more = Generator::brisk_inside(self.config, Rng::new(self.rng.next_u64(), 23));
        let begin = Op::Control(Control::BeginWrite);
        let commit = Op::Control(Control::Commit(Commit::Durable));
        let inside = |op: &Op| !matches!(op, Op::Control(_));
        std::iter::once(begin).chain(more.filter(inside).take(4)).chain([commit]).collect()
    }

    /// Opens the store again, on the same machine or after a power cut, commits, and cuts the power
    /// once more.
    fn again(&mut self, disk: &SimSystem, ledger: &Ledger, mark: crate::run::Mark) -> Outcome {
        let seed = self.rng.next_u64();
        let mode = self.rng.pick(&CrashMode::ALL);
        // Where a flush failed and then also the reads and writes that write again what was
        // durable and take back what was not, only a restart of the machine shows what is on the
        // disk.
        let failed = disk.failed();
        let flush = failed.iter().position(|kind| *kind == Operation::Sync);
        let mends = |kind: &Operation| matches!(kind, Operation::Read | Operation::Write);
        let is_lost = flush.is_some_and(|at| failed[at..].iter().any(mends));
        let (disk, loss) = match is_lost || self.rng.chance(1, 2) {
            true => (disk.crash(seed, mode), Loss::Power),
            false => (disk.killed_copy(), Loss::Process),
        };
        let place = |d: Disagreement| d.in_the(format_args!("after {loss:?} was lost"));
        let opened = Runner::recovered(self.config, &disk, ledger, Some(mark), loss);
        let Some(mut runner) = opened.map_err(place)? else { return Ok(()) };
        runner.run_on(&mut self.few().into_iter()).map_err(place)?;
        let Some(ledger) = runner.die() else { return Ok(()) };
        let mark = Some(ledger.mark(0));
        let disk = disk.crash(seed, mode);
        let again = Runner::recovered(self.config, &disk, &ledger, mark, Loss::Power);
        again.map(|_| ()).map_err(|d| place(d).in_the("and then the power"))
    }
}

/// An error is due if a call failed.
fn due(disk: &SimSystem, result: Outcome) -> Outcome {
    match result {
        Err(d) if d.is_error && (!disk.failed().is_empty() || d.text.contains("os error 28")) => {
            Ok(())
        }
        other => other,
    }
}
