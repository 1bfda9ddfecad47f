//! `sim processes` and the hidden `sim play`: arguments and reports.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::Engine;
use sim::lsm;
use sim::lsm::processes::{LoadReport, LoadSettings};
use sim::processes::{Part, ProcessReport, ProcessSettings, play, run};

/// Lets real processes read and write one store, and kills, stops and forks them at random.
#[derive(Args)]
pub(crate) struct Processes {
    /// The engine to test; with `lsm` one process at a time has the store open.
    #[arg(long, value_enum, default_value = "tree")]
    engine: Engine,
    /// How long at most, in minutes.
    #[arg(long, conflicts_with = "seconds")]
    minutes: Option<u64>,
    /// Ends when this many writers and this many followers were killed.
    #[arg(long)]
    kills: Option<u64>,
    /// How long at most, in seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Writers at a time.
    #[arg(long, default_value_t = 4)]
    writers: usize,
    /// Readers at a time.
    #[arg(long, default_value_t = 8)]
    readers: usize,
    /// Followers at a time (tree only).
    #[arg(long, default_value_t = 2)]
    followers: usize,
    /// The seed of the signals; when they arrive is up to the machine.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the store is made.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    folder: PathBuf,
    /// Prints one JSON object instead of a report for people.
    #[arg(long)]
    json: bool,
}

impl Processes {
    pub(crate) fn run(&self) -> ExitCode {
        match self.engine {
            Engine::Tree => self.run_tree(),
            Engine::Lsm => self.run_lsm(),
        }
    }

    fn time(&self) -> Duration {
        Duration::from_secs(self.minutes.map_or(self.seconds, |m| 60 * m))
    }

    fn run_lsm(&self) -> ExitCode {
        let settings = LoadSettings { seed: self.seed, time: self.time(), kills: self.kills };
        let begin = Instant::now();
        let folder = tempfile::tempdir_in(&self.folder).map_err(|e| e.to_string());
        let report = folder.and_then(|folder| lsm::processes::run(folder.path(), settings));
        let report = report
            .unwrap_or_else(|what| LoadReport { violations: vec![what], ..LoadReport::default() });
        self.print_lsm(&report, begin.elapsed().as_secs_f64());
        super::exit_code(report.violations.is_empty())
    }

    fn print_lsm(&self, report: &LoadReport, seconds: f64) {
        let open_seconds_max = report.open_time_max.as_secs_f64();
        if self.json {
            super::print(&json!({
                "command": "processes",
                "engine": self.engine.name(),
                "kills": report.kills,
                "followers": report.followed,
                "follower_steps": report.steps,
                "commits": report.commits,
                "second_openers_refused": report.refused,
                "log_bytes": report.log_bytes,
                "open_seconds_per_gb_of_log": report.seconds_per_gb(),
                "open_seconds_max": open_seconds_max,
                "violations": report.violations,
                "seconds": seconds,
            }));
            return;
        }
        report.violations.iter().for_each(|what| println!("{what}"));
        println!(
            "{} kills, {} of them of followers, {} steps compared, {} commits told of, {} second \
             openers refused, {} MB of log opened at {:.2} s per GB, {open_seconds_max:.2} s at \
             most, {} violations, {seconds:.1} s",
            report.kills,
            report.followed,
            report.steps,
            report.commits,
            report.refused,
            report.log_bytes / 1_000_000,
            report.seconds_per_gb().unwrap_or(0.0),
            report.violations.len(),
        );
    }

    fn run_tree(&self) -> ExitCode {
        let settings = ProcessSettings {
            seed: self.seed,
            time: self.time(),
            kills: self.kills,
            writers: self.writers,
            readers: self.readers,
            followers: self.followers,
        };
        let begin = Instant::now();
        let folder = tempfile::tempdir_in(&self.folder).map_err(|e| e.to_string());
        let report = folder.and_then(|folder| run(folder.path(), settings));
        let report = report.unwrap_or_else(|what| ProcessReport {
            violations: vec![what],
            ..ProcessReport::default()
        });
        self.print(&report, begin.elapsed());
        super::exit_code(report.violations.is_empty())
    }

    fn print(&self, report: &ProcessReport, time: Duration) {
        let seconds = time.as_secs_f64();
        if self.json {
            super::print(&json!({
                "command": "processes",
                "writers": self.writers,
                "readers": self.readers,
                "kills": report.kills,
                "stops": report.stops,
                "forks": report.forks,
                "lonely_openings": report.lonely_openings,
                "commits": report.commits,
                "snapshots": report.snapshots,
                "followers": self.followers,
                "writer_kills": report.writer_kills,
                "follower_kills": report.follower_kills,
                "follower_steps": report.steps,
                "violations": report.violations,
                "seconds": seconds,
            }));
            return;
        }
        report.violations.iter().for_each(|what| println!("{what}"));
        println!(
            "{} kills ({} of writers, {} of followers), {} stops, {} forks, {} openings alone, {} \
             commits, {} snapshots, {} steps of followers, {} violations, {seconds:.1} s",
            report.kills,
            report.writer_kills,
            report.follower_kills,
            report.stops,
            report.forks,
            report.lonely_openings,
            report.commits,
            report.snapshots,
            report.steps,
            report.violations.len(),
        );
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Word {
    Writer,
    Reader,
    Follower,
    /// For the log-structured engine.
    Loader,
}

/// Plays a part in `processes`.
#[derive(Args)]
pub(crate) struct Play {
    part: Word,
    #[arg(long)]
    place: usize,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    store: PathBuf,
}

impl Play {
    pub(crate) fn run(&self) -> ExitCode {
        let play = |part| play(&self.store, part, self.place, self.seed);
        let (name, played) = match self.part {
            Word::Writer => ("writer", play(Part::Writer)),
            Word::Reader => ("reader", play(Part::Reader)),
            Word::Follower => ("follower", play(Part::Follower)),
            Word::Loader => {
                let place = self.place as u64;
                ("loader", lsm::processes::play(&self.store, self.seed, place))
            }
        };
        if let Err(what) = played {
            println!("{name} {}: {what}", self.place);
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }
}
