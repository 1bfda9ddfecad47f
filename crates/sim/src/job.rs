//! Seeds as jobs: one seed from its configuration to its shrunk disagreement, and many on threads.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::config::{Config, Part};
use crate::generate::Generator;
use crate::op::Op;
use crate::run::{Disagreement, Outcome, Runner};
use crate::shrink::shrink;

/// How a seed went.
#[derive(Debug)]
pub struct SeedReport<O = Op> {
    /// The seed.
    pub seed: u64,
    /// Operations that were done.
    pub ops: u64,
    /// How long they took.
    pub time: Duration,
    /// What went wrong.
    pub failure: Option<Failure<O>>,
}

/// A disagreement and how to get there.
#[derive(Debug)]
pub struct Failure<O = Op> {
    /// What engine and model disagree about.
    pub disagreement: Disagreement,
    /// What the seed chose.
    pub config: String,
    /// The shortest list of operations that was found to end in a disagreement.
    pub ops: Vec<O>,
    /// What that list ends in.
    pub shrunk: Disagreement,
}

/// Runs `f` in a fresh folder below `folder`. A panic of the engine is a disagreement too.
pub(crate) fn in_folder(folder: &Path, f: impl FnOnce(&Path) -> Outcome) -> Outcome {
    caught(|| {
        let folder = tempfile::tempdir_in(folder)
            .map_err(|e| Disagreement::from(format!("no folder for a store: {e}")))?;
        f(folder.path())
    })
}

/// The result of `f`; a panic of the engine is a disagreement too.
pub(crate) fn caught<T>(f: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(f))
        .unwrap_or_else(|panic| Err(format!("panic: {}", panic_message(&*panic)).into()))
}

/// The text of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_else(|| "without a message".to_owned())
}

/// What all seeds of a run share.
#[derive(Debug)]
pub struct Settings {
    /// Operations of each seed.
    pub ops: u64,
    /// Where stores are made.
    pub folder: PathBuf,
    /// How long to look for a shorter list of operations.
    pub shrink_time: Duration,
    /// What is left out.
    pub without: Vec<Part>,
}

/// Runs one seed, and shrinks it if it fails.
pub fn run_seed(seed: u64, settings: &Settings) -> SeedReport {
    let config = Config { without: settings.without.clone(), ..Config::new(seed) };
    let run = |ops: &mut dyn Iterator<Item = Op>| {
        in_folder(&settings.folder, |folder| Runner::new(&config, folder.into())?.run(ops))
    };
    report_of(seed, settings, || Generator::new(&config), run, || config.describe())
}

/// Runs the operations that a seed generates, and shrinks them if they fail.
pub(crate) fn report_of<O: Copy, G: Iterator<Item = O>>(
    seed: u64,
    settings: &Settings,
    generate: impl Fn() -> G,
    run: impl Fn(&mut dyn Iterator<Item = O>) -> Outcome,
    describe: impl FnOnce() -> String,
) -> SeedReport<O> {
    let begin = Instant::now();
    let mut taken = 0;
    let result = run(&mut generate().take(settings.ops as usize).inspect(|_| taken += 1));
    let time = begin.elapsed();
    let failure = result.err().map(|disagreement| {
        let kind = disagreement.kind();
        let run = |ops: &[O]| run(&mut ops.iter().copied());
        let failing: Vec<O> = generate().take(taken as usize).collect();
        let fails = |ops: &[O]| run(ops).is_err_and(|d| d.kind() == kind);
        let ops = shrink(failing, settings.shrink_time, fails);
        let shrunk = run(&ops).err().unwrap_or_else(|| disagreement.clone());
        Failure { disagreement, config: describe(), ops, shrunk }
    });
    SeedReport { seed, ops: taken, time, failure }
}

/// Runs seeds on `jobs` threads and hands each report to `done` as it comes.
pub fn run_seeds<R: Send>(
    seeds: &[u64],
    jobs: usize,
    run: impl Fn(u64) -> R + Sync,
    done: impl FnMut(R) + Send,
) {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(done);
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, seeds.len().max(1)) {
            scope.spawn(|| {
                while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = run(seed);
                    let mut done = done.lock().unwrap_or_else(|e| e.into_inner());
                    done(report);
                }
            });
        }
    });
}
