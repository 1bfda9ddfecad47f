//! Short runs of the testers, so that the default tests hold the engine against them.

mod compaction;
mod hostile;

use std::process::Command;
use std::time::Duration;

use sim::crash::{CrashSettings, crash_seed};
use sim::faults::{FaultSettings, faults_seed};
use sim::growth;
use sim::job::{Failure, Settings, run_seed};
use sim::lsm;
use sim::readers::readers_seed;

/// Hunts for any answer of the engine that a sorted list would not give.
#[test]
fn a_few_seeds_agree() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        ops: 20_000,
        folder: folder.path().to_path_buf(),
        shrink_time: Duration::from_secs(30),
        without: Vec::new(),
    };
    for seed in 101..=106 {
        let report = run_seed(seed, &settings);
        if let Some(Failure { disagreement, config, ops, shrunk }) = report.failure {
            panic!(
                "seed {seed}: {}\non {config}\nshrunk to {ops:#?}\n{}",
                disagreement.text, shrunk.text
            );
        }
        assert_eq!(report.ops, 20_000);
    }
}

/// Hunts for a commit that a power cut or a kill takes back or tears.
#[test]
fn a_few_seeds_survive_power_cuts() {
    let settings = CrashSettings { ops: 150, images: 2, shrink_time: Duration::from_secs(5) };
    let mut images = 0;
    for seed in 101..=108 {
        let report = crash_seed(seed, &settings);
        assert!(report.images > 25, "seed {seed}: {} images", report.images);
        images += report.images;
        if let Some(first) = report.violations.first() {
            let (place, text) = (&first.place, &first.disagreement.text);
            panic!("seed {seed}: {place}: {text}\n{:#?}", report.shrunk);
        }
    }
    assert!(images > 1000, "{images} images");
}

/// Hunts for free space that is not found again: with it the files would only ever grow.
#[test]
fn files_stay_within_what_they_need() {
    let engines = [growth::growth_seed, lsm::growth::growth_seed];
    for (engine, seed) in engines.into_iter().flat_map(|engine| (1..=11).map(move |s| (engine, s)))
    {
        let report = engine(seed, None, 600);
        assert_eq!(report.violations, Vec::<String>::new(), "seed {seed}, {:?}", report.kind);
        assert!(report.curve.len() > 10, "{report:?}");
    }
}

/// The same two hunts in the log-structured engine.
#[test]
fn a_few_seeds_of_the_log_structured_engine() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, shrink_time) = (folder.path().to_path_buf(), Duration::from_secs(10));
    let settings = Settings { ops: 4_000, folder, shrink_time, without: Vec::new() };
    for seed in 101..=104 {
        let report = lsm::run::run_seed(seed, &settings);
        if let Some(Failure { disagreement, ops, shrunk, .. }) = report.failure {
            panic!("seed {seed}: {}\nshrunk to {ops:#?}\n{}", disagreement.text, shrunk.text);
        }
        assert_eq!(report.ops, 4_000);
    }
    let settings = CrashSettings { ops: 80, images: 2, shrink_time };
    let mut images = 0;
    for seed in 101..=104 {
        let report = lsm::crash::crash_seed(seed, &settings);
        images += report.images;
        if let Some(first) = report.violations.first() {
            let (place, text) = (&first.place, &first.disagreement.text);
            panic!("seed {seed}: {place}: {text}\n{:#?}", report.shrunk);
        }
    }
    assert!(images > 2000, "{images} images");
}

/// Hunts for an error of the system that is not told, or that does harm.
#[test]
fn a_few_seeds_survive_faults() {
    let settings = FaultSettings { ops: 60, full_disk_ops: 60 };
    for seed in 101..=104 {
        let report = faults_seed(seed, &settings);
        assert!(report.trials > 50 && report.full_disks > 0, "seed {seed}: {report:?}");
        if let Some((place, disagreement)) = report.violations.first() {
            panic!("seed {seed}: {}\n{place}", disagreement.text);
        }
    }
}

/// The same in the log-structured engine.
#[test]
fn a_few_seeds_of_the_log_structured_engine_survive_faults() {
    let settings = FaultSettings { ops: 24, full_disk_ops: 24 };
    for seed in 101..=102 {
        let report = lsm::faults::faults_seed(seed, &settings);
        assert!(report.trials > 100 && report.full_disks > 0, "seed {seed}: {report:?}");
        if let Some((place, disagreement)) = report.violations.first() {
            panic!("seed {seed}: {}\n{place}", disagreement.text);
        }
    }
}

/// Hunts for pages that are held for no reader.
#[test]
fn a_long_reader_holds_no_more_than_it_sees() {
    let report = readers_seed(101, 300, 3);
    assert_eq!(report.violations, Vec::<String>::new());
    assert!(report.longest >= 300);
}

/// Hunts for a lock that stays with the dead.
#[test]
fn processes_are_killed() {
    let run = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(["processes", "--seconds", "2", "--writers", "2", "--readers", "2", "--json"])
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{report}");
    assert!(!report.contains("\"kills\":0,"), "{report}");
}

/// Hunts for a commit that is lost with its process, and for a second opener that is let in.
#[test]
fn loaders_are_killed() {
    let run = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(["processes", "--engine", "lsm", "--seconds", "2", "--json"])
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert!(run.status.success(), "{report}");
    assert_ne!(report["kills"], 0, "{report}");
    assert_eq!(report["kills"], report["second_openers_refused"], "{report}");
}
