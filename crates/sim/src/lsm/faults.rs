//! Every call to the system fails once, in the log-structured engine: a few random operations at a
//! time on the simulated disk, again and again, each time with another call failing, once or from
//! there on for ever, or with a full disk.
//!
//! An error that names the store must come back, or the call must have been one that the store can
//! do without; whatever fails, the run goes on to the end of its operations. When the fault is
//! gone, readers and held snapshots must see what they saw before, and the store must accept
//! commits again without being reopened, unless a flush or a write failed (it may then be
//! poisoned). Nothing may be left open. Then the store is opened again, on the same machine or
//! after a power cut: it must hold every commit that has to be there, pass `check`, and take more.

use std::path::PathBuf;

use hedgerow::os::sim::{CrashMode, Operation, SimSystem};

use super::ledger::Ledger;
use super::run::{Runner, disk};
use super::still;
use super::{Config, Generator, Op};
use crate::faults::{FaultReport, FaultSettings, Script, VIOLATIONS_MAX, nothing_is_open, scripts};
use crate::job::caught;
use crate::rng::Rng;
use crate::run::{Disagreement, Outcome};

/// A step of the run, which is repeated with each of its calls failing, has this many operations.
const STEP_OPS: usize = 8;
/// A disk with less room than this is tried.
const ROOM_BYTES: u64 = 4000;
/// Where the store is.
const PATH: &str = "/store";

/// Runs one seed.
pub fn faults_seed(seed: u64, settings: &FaultSettings) -> FaultReport {
    let config = Config::small(seed);
    let report = FaultReport { seed, ..FaultReport::default() };
    let mut hunt = Hunt { config: &config, rng: Rng::new(seed, 44), report };
    let run = caught(|| hunt.run(settings));
    hunt.report.with(run)
}

/// One in this many stores is also read without writing to it, and salvaged.
const STILL_EVERY: u64 = 3;

struct Hunt<'c> {
    config: &'c Config,
    rng: Rng,
    report: FaultReport,
}

impl<'c> Hunt<'c> {
    fn run(&mut self, settings: &FaultSettings) -> Outcome {
        let mut disk = disk(self.config.seed);
        let created = Runner::new(self.config, Some(disk.clone()), PathBuf::from(PATH))?;
        let mut ledger = created.end(true)?.closed();
        let stream = Generator::brisk(self.config, Rng::new(self.config.seed, 45));
        let ops: Vec<Op> = stream.take(settings.ops).collect();
        for step in ops.chunks(STEP_OPS) {
            let after = disk.killed_copy();
            let mut runner = self.resume(&after, &ledger)?;
            runner.run(&mut step.iter().copied())?;
            let next = runner.end(true)?.closed();
            self.report.ops += step.len() as u64;
            self.report.calls += after.all_calls();
            let full_disk = self.report.ops <= settings.full_disk_ops as u64;
            for script in scripts(&mut self.rng, &after, full_disk.then_some(ROOM_BYTES)) {
                if self.report.violations.len() >= VIOLATIONS_MAX {
                    return Ok(());
                }
                self.trial(&disk, &ledger, step, script);
            }
            (disk, ledger) = (after, next);
        }
        Ok(())
    }

    fn resume(&self, disk: &SimSystem, ledger: &Ledger) -> Outcome<Runner<'c>> {
        Runner::resumed(self.config, disk.clone(), PathBuf::from(PATH), ledger)
    }

    fn trial(&mut self, disk: &SimSystem, ledger: &Ledger, step: &[Op], script: Script) {
        self.report.trials += 1;
        self.report.full_disks += u64::from(!matches!(script, Script::Call { .. }));
        let disk = disk.killed_copy();
        script.arm(&disk);
        let mut log = Vec::new();
        if let Err(disagreement) = caught(|| self.fail(&disk, ledger, step, &mut log)) {
            let failed = disk.failed();
            let place =
                format!("{script:?}, failed: {failed:?}, in the step {step:?}, told: {log:#?}");
            self.report.violations.push((place, disagreement));
        }
    }

    /// Runs the step on a disk that fails, and looks at what that leaves.
    fn fail(
        &mut self,
        disk: &SimSystem,
        ledger: &Ledger,
        step: &[Op],
        told: &mut Vec<String>,
    ) -> Outcome {
        let ledger = match self.resume(disk, ledger) {
            Ok(mut runner) => {
                for &op in step {
                    if runner.is_open() {
                        due(disk, runner.step(op), told)?;
                    }
                }
                self.report.mend(disk);
                let is_poisoned = self.goes_on(disk, &mut runner)?;
                self.report.poisoned += u64::from(is_poisoned);
                let closes = !is_poisoned && self.rng.chance(1, 2);
                runner.end(closes)?
            }
            Err(disagreement) => {
                self.report.mend(disk);
                due(disk, Err(disagreement), told)?;
                ledger.clone()
            }
        };
        nothing_is_open(disk)?;
        self.again(disk, &ledger)
    }

    /// After the fault: readers see what was committed, and commits are taken, unless the store is
    /// poisoned, for which a flush or a write must have failed.
    fn goes_on(&mut self, disk: &SimSystem, runner: &mut Runner<'_>) -> Outcome<bool> {
        let poisons = |kind: &Operation| matches!(kind, Operation::Sync | Operation::Write);
        if !runner.is_open() {
            return Ok(false);
        }
        let place = |d: Disagreement| d.in_the("after the fault");
        runner.verify().map_err(place)?;
        let is_poisoned = runner.is_poisoned().map_err(place)?;
        if is_poisoned && !disk.failed().iter().any(poisons) {
            return Err("poisoned, though neither a flush nor a write failed".to_owned().into());
        }
        if !is_poisoned {
            runner.run(&mut self.few().into_iter()).map_err(place)?;
            runner.verify().map_err(place)?;
        }
        Ok(is_poisoned)
    }

    /// A few operations.
    fn few(&mut self) -> Vec<Op> {
        Generator::brisk(self.config, Rng::new(self.rng.next_u64(), 46)).take(6).collect()
    }

    /// Opens the store again, on the same machine or after a power cut, goes on, and cuts the power
    /// once more.
    fn again(&mut self, disk: &SimSystem, ledger: &Ledger) -> Outcome {
        let seed = self.rng.next_u64();
        let mode = self.rng.pick(&CrashMode::ALL);
        let is_power = self.rng.chance(1, 2);
        let disk = if is_power { disk.crash(seed, mode) } else { disk.killed_copy() };
        let lost = if is_power { "the power" } else { "the process" };
        let place = |d: Disagreement| d.in_the(format_args!("after {lost} was lost"));
        if seed.is_multiple_of(STILL_EVERY) {
            let options =
                |disk: &SimSystem| self.config.options().system(std::sync::Arc::new(disk.clone()));
            let agreed = still::agree(&disk, std::path::Path::new(PATH), options);
            agreed.map_err(|text| place(text.into()))?;
        }
        let few = self.few();
        let mark = (ledger.mark_of_failures(), is_power);
        let path = PathBuf::from(PATH);
        let runner = Runner::recovered(self.config, disk.clone(), path.clone(), ledger, mark);
        let mut runner = runner.map_err(place)?;
        runner.run(&mut few.into_iter()).map_err(place)?;
        let ledger = runner.end(false).map_err(place)?;
        let mark = (ledger.mark_of_failures(), true);
        let disk = disk.crash(seed, mode);
        let again = Runner::recovered(self.config, disk, path, &ledger, mark);
        let runner = again.map_err(|d| place(d).in_the("and then the power"))?;
        runner.end(true).map(drop)
    }
}

/// What the error of a full disk says, and that of one that is nearly full, where no call failed.
const FULL: [&str; 2] = ["os error 28", "the disk is nearly full"];

/// An error is due if a call failed, or the disk is full, and says where.
fn due(disk: &SimSystem, result: Outcome, told: &mut Vec<String>) -> Outcome {
    let is_full = |text: &str| FULL.iter().any(|full| text.contains(full));
    match result {
        Err(d) if d.is_error && (!disk.failed().is_empty() || is_full(&d.text)) => {
            told.push(d.text.clone());
            match d.text.contains(PATH) {
                true => Ok(()),
                false => Err(d.in_the("an error that does not say where")),
            }
        }
        other => other,
    }
}
