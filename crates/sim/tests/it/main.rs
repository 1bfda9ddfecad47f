//! A short run of the model, so that the default tests hold the engine against it.

use std::time::Duration;

use sim::job::{Failure, Settings, run_seed};

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
