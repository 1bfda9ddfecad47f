//! `sim canaries`: each tester against each planted bug, in processes of their own.
//!
//! The library's module `canary` lists the bugs; the testers are subcommands.

use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::Engine;

/// The variable that plants a bug.
const VARIABLE: &str = "HEDGEROW_CANARY";
/// A tester of an engine, with arguments for a short run.
#[derive(Clone, Copy, Debug)]
struct Tester {
    engine: Engine,
    name: &'static str,
    arguments: &'static [&'static str],
    /// The bugs that it must catch; others it may.
    catches: &'static [&'static str],
}

/// Which tester must catch which bug.
const TESTERS: [Tester; 7] = [
    Tester {
        engine: Engine::Tree,
        name: "crash",
        arguments: &["--seeds", "1..24", "--shrink-seconds", "0"],
        catches: &[
            "skipped-flush",
            "reused-page",
            "counter-not-raised",
            "checksum-not-checked",
            "wrong-free-list",
            "short-replay",
            "unchained-record",
            "log-freed-early",
        ],
    },
    Tester {
        engine: Engine::Tree,
        name: "model",
        arguments: &["--ops", "20000", "--seeds", "1..4", "--shrink-seconds", "0"],
        catches: &["reused-page", "counter-not-raised", "wrong-free-list"],
    },
    Tester {
        engine: Engine::Tree,
        name: "faults",
        arguments: &["--ops", "150", "--seeds", "1..2"],
        catches: &["skipped-flush", "reused-page", "wrong-free-list"],
    },
    Tester {
        engine: Engine::Lsm,
        name: "crash",
        arguments: &["--seeds", "1..6", "--ops", "60", "--images", "2", "--shrink-seconds", "0"],
        catches: &[
            "skipped-flush",
            "checksum-not-checked",
            "tombstone-dropped",
            "orphan-removed-early",
        ],
    },
    Tester {
        engine: Engine::Lsm,
        name: "model",
        arguments: &["--ops", "3000", "--seeds", "1..8", "--shrink-seconds", "0"],
        catches: &["sequence-repeated", "snapshot-not-served"],
    },
    Tester {
        engine: Engine::Lsm,
        name: "faults",
        arguments: &["--ops", "40", "--seeds", "1..2"],
        catches: &["skipped-flush", "remains-not-cut"],
    },
    Tester {
        engine: Engine::Lsm,
        name: "flips",
        arguments: &["--count", "1000"],
        catches: &["checksum-not-checked"],
    },
];

/// Plants one bug after the other in the library; each tester must catch those it is there for.
/// Needs a build with the feature `canary`.
#[derive(Args)]
pub(crate) struct Canaries {
    /// The time that a tester has, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Prints one JSON object instead of a report for people.
    #[arg(long)]
    json: bool,
}

/// What a tester made of a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Caught,
    Missed,
    /// Not done in time.
    Late,
}

struct Run {
    bug: Option<&'static str>,
    tester: Tester,
    verdict: Verdict,
    time: Duration,
}

impl Run {
    /// Without a bug no tester may complain: else what they catch would say nothing.
    fn is_as_it_must_be(&self) -> bool {
        self.verdict == if self.bug.is_some() { Verdict::Caught } else { Verdict::Missed }
    }
}

impl Canaries {
    pub(crate) fn run(&self) -> ExitCode {
        if !cfg!(feature = "canary") {
            eprintln!(
                "this build has no bug to plant; use `cargo run --release -p sim --features \
                 canary -- canaries`"
            );
            return ExitCode::from(2);
        }
        let mut runs = Vec::new();
        for tester in TESTERS {
            let bugs = tester.catches.iter().copied().map(Some);
            for bug in [None].into_iter().chain(bugs) {
                match self.test(bug, tester) {
                    Ok(run) => runs.push(run),
                    Err(e) => {
                        eprintln!("{} cannot be started: {e}", tester.name);
                        return ExitCode::FAILURE;
                    }
                }
            }
        }
        self.report(&runs);
        super::exit_code(runs.iter().all(Run::is_as_it_must_be))
    }

    /// Runs a tester as a process.
    fn test(&self, bug: Option<&'static str>, tester: Tester) -> std::io::Result<Run> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([tester.name, "--engine", tester.engine.name(), "--json"]);
        command.args(tester.arguments).env_remove(VARIABLE);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(bug) = bug {
            command.env(VARIABLE, bug);
        }
        let begin = Instant::now();
        let verdict = self.wait(command.spawn()?, begin)?;
        Ok(Run { bug, tester, verdict, time: begin.elapsed() })
    }

    /// Waits until a tester is done; one that dies has found something too.
    fn wait(&self, mut child: Child, begin: Instant) -> std::io::Result<Verdict> {
        while begin.elapsed() < Duration::from_secs(self.seconds) {
            if let Some(status) = child.try_wait()? {
                return Ok(if status.success() { Verdict::Missed } else { Verdict::Caught });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill()?;
        child.wait()?;
        Ok(Verdict::Late)
    }

    fn report(&self, runs: &[Run]) {
        let wrong = runs.iter().filter(|run| !run.is_as_it_must_be()).count();
        if self.json {
            let run = |run: &Run| {
                json!({
                    "engine": run.tester.engine.name(),
                    "tester": run.tester.name,
                    "bug": run.bug,
                    "verdict": format!("{:?}", run.verdict).to_lowercase(),
                    "as_it_must_be": run.is_as_it_must_be(),
                    "seconds": run.time.as_secs_f64(),
                })
            };
            let runs: Vec<_> = runs.iter().map(run).collect();
            println!("{}", json!({"command": "canaries", "wrong": wrong, "runs": runs}));
            return;
        }
        for run in runs {
            let (engine, tester) = (run.tester.engine.name(), run.tester.name);
            let (bug, time) = (run.bug.unwrap_or("no bug"), run.time.as_secs_f64());
            let remark = if run.is_as_it_must_be() { "" } else { "   WRONG" };
            let verdict = format!("{:?}", run.verdict);
            println!("{engine:<5} {tester:<7} {bug:<22} {verdict:<7} {time:>5.1} s{remark}");
        }
        println!("{} runs, {wrong} not as they must be", runs.len());
    }
}
