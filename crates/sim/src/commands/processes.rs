//! `sim processes` and the hidden `sim play`: arguments and reports.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::json;
use sim::processes::{Part, ProcessReport, ProcessSettings, play, run};

/// Lets real processes read and write one store, and kills, stops and forks them at random.
#[derive(Args)]
pub(crate) struct Processes {
    /// How long, in minutes.
    #[arg(long, conflicts_with = "seconds")]
    minutes: Option<u64>,
    /// How long, in seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Writers at a time.
    #[arg(long, default_value_t = 4)]
    writers: usize,
    /// Readers at a time.
    #[arg(long, default_value_t = 8)]
    readers: usize,
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
        let settings = ProcessSettings {
            seed: self.seed,
            time: Duration::from_secs(self.minutes.map_or(self.seconds, |m| 60 * m)),
            writers: self.writers,
            readers: self.readers,
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
            println!(
                "{}",
                json!({
                    "command": "processes",
                    "writers": self.writers,
                    "readers": self.readers,
                    "kills": report.kills,
                    "stops": report.stops,
                    "forks": report.forks,
                    "lonely_openings": report.lonely_openings,
                    "commits": report.commits,
                    "snapshots": report.snapshots,
                    "violations": report.violations,
                    "seconds": seconds,
                })
            );
            return;
        }
        report.violations.iter().for_each(|what| println!("{what}"));
        println!(
            "{} kills, {} stops, {} forks, {} openings alone, {} commits, {} snapshots, {} \
             violations, {seconds:.1} s",
            report.kills,
            report.stops,
            report.forks,
            report.lonely_openings,
            report.commits,
            report.snapshots,
            report.violations.len(),
        );
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Word {
    Writer,
    Reader,
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
        let part = match self.part {
            Word::Writer => Part::Writer,
            Word::Reader => Part::Reader,
        };
        if let Err(what) = play(&self.store, part, self.place, self.seed) {
            println!("{part:?} {}: {what}", self.place);
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }
}
