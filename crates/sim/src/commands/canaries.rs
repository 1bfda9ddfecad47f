//! `sim canaries`: each tester against each planted bug, in processes of their own.
//!
//! Which bugs there are says the library's module `canary`; what a tester is says its subcommand.

use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

/// The variable that plants a bug.
const VARIABLE: &str = "HEDGEROW_CANARY";
/// The bugs.
const BUGS: [&str; 5] = [
    "skipped-flush",
    "reused-page",
    "counter-not-raised",
    "checksum-not-checked",
    "wrong-free-list",
];
/// The testers, each with arguments for a short run.
const TESTERS: [&[&str]; 3] = [
    &["crash", "--seeds", "1..24", "--shrink-seconds", "0"],
    &["model", "--ops", "20000", "--seeds", "1..4", "--shrink-seconds", "0"],
    &["faults", "--ops", "150", "--seeds", "1..2"],
];

/// Plants one bug after the other in the library; each must be caught by some tester in time.
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
    tester: &'static str,
    verdict: Verdict,
    time: Duration,
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
        // Without a bug no tester may complain: else what they catch would say nothing.
        for bug in [None].into_iter().chain(BUGS.map(Some)) {
            for arguments in TESTERS {
                match self.test(bug, arguments) {
                    Ok(run) => runs.push(run),
                    Err(e) => {
                        eprintln!("{} cannot be started: {e}", arguments[0]);
                        return ExitCode::FAILURE;
                    }
                }
            }
        }
        let sound = runs.iter().filter(|r| r.bug.is_none()).all(|r| r.verdict == Verdict::Missed);
        let caught =
            |bug| runs.iter().any(|run| run.bug == Some(bug) && run.verdict == Verdict::Caught);
        let missed: Vec<&str> = BUGS.into_iter().filter(|bug| !caught(*bug)).collect();
        self.report(&runs, &missed);
        super::exit_code(sound && missed.is_empty())
    }

    /// Runs a tester as a process.
    fn test(&self, bug: Option<&'static str>, arguments: &[&'static str]) -> std::io::Result<Run> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).arg("--json").env_remove(VARIABLE);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(bug) = bug {
            command.env(VARIABLE, bug);
        }
        let begin = Instant::now();
        let verdict = self.wait(command.spawn()?, begin)?;
        Ok(Run { bug, tester: arguments[0], verdict, time: begin.elapsed() })
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

    fn report(&self, runs: &[Run], missed: &[&str]) {
        if self.json {
            let run = |run: &Run| {
                json!({
                    "bug": run.bug,
                    "tester": run.tester,
                    "verdict": format!("{:?}", run.verdict).to_lowercase(),
                    "seconds": run.time.as_secs_f64(),
                })
            };
            let runs: Vec<_> = runs.iter().map(run).collect();
            println!("{}", json!({"command": "canaries", "missed": missed, "runs": runs}));
            return;
        }
        for run in runs {
            let (bug, time) = (run.bug.unwrap_or("no bug"), run.time.as_secs_f64());
            println!("{bug:<22} {:<7} {:?} after {time:.1} s", run.tester, run.verdict);
        }
        println!("{} of {} bugs caught", BUGS.len() - missed.len(), BUGS.len());
    }
}
