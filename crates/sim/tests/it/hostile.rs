//! A short run of hostile files and flipped bits, and the corpus of the fuzz targets.

use std::path::Path;
use std::process::Command;

use sim::hostile::targets::{self, seeds};
use sim::hostile::{Templates, flips, remember_panics, run_case};

/// The command line, with its children.
#[test]
fn a_few_hostile_files_do_no_harm() {
    // The second one calls pages free that are in use and cuts the file before them.
    for (seeds, cases) in [("1..30", 30), ("246..246", 1)] {
        let run = Command::new(env!("CARGO_BIN_EXE_sim"))
            .args(["hostile", "--seeds", seeds, "--json"])
            .output()
            .unwrap();
        let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        assert_eq!(report["findings"], 0, "{report}");
        assert_eq!(report["cases"], cases);
        assert!(report["refused"].as_u64() > Some(10 * cases / 3), "{report}");
        assert!(run.status.success());
    }
}

/// A seed is a case for ever.
#[test]
fn a_case_can_be_run_again() {
    remember_panics();
    let folder = tempfile::tempdir().unwrap();
    let templates = Templates::new(folder.path()).unwrap();
    let run = || run_case(&templates, 5, folder.path()).unwrap();
    let (first, again) = (run(), run());
    assert_eq!(first.changes, again.changes);
    assert_eq!((first.done, first.refused), (again.done, again.refused));
}

#[test]
fn flipped_bits_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let templates = Templates::new(folder.path()).unwrap();
    let report = flips::run(&templates, folder.path(), 1, 200).unwrap();
    assert_eq!((report.flips, report.found), (200, 200), "{:?}", report.missed);
}

/// A fuzz target.
type Target = fn(&[u8]);

/// The corpus, and what it begins with, through the functions that the fuzz targets call.
#[test]
fn the_corpus_does_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let all: [(&str, Target); 3] =
        [("file", targets::file), ("pages", targets::pages), ("keys", targets::keys)];
    for (name, target) in all {
        let files = std::fs::read_dir(corpus.join(name)).unwrap();
        let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        assert!(!files.is_empty(), "{name}");
        for file in files {
            target(&std::fs::read(file).unwrap());
        }
        seeds(name).iter().for_each(|bytes| target(bytes));
    }
}
