//! A short run of hostile files and flipped bits, and the corpus of the fuzz targets.

use std::path::Path;
use std::process::Command;

use sim::hostile::targets::{self, seeds};
use sim::hostile::{Templates, flips, remember_panics, run_case};
use sim::lsm;

/// The command line, with its children.
#[test]
fn a_few_hostile_files_do_no_harm() {
    // The second one calls pages free that are in use and cuts the file before them; the third one
    // has a child beyond its end, where a transaction has taken pages and not written them yet; the
    // names in the catalog of the fourth one are not in order, so that a walk by name went on for
    // ever.
    let alone = ["246..246", "3271..3271", "5688..5688"].map(|seed| (seed, 1));
    for (seeds, cases) in [("1..30", 30)].into_iter().chain(alone) {
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

/// The same of the log-structured engine.
#[test]
fn a_few_hostile_files_of_the_log_structured_engine_do_no_harm() {
    // In the second one a pointer says that its value has a gigabyte.
    for (seeds, cases, refused) in [("1..150", 150, Some(150)), ("557..557", 1, None)] {
        let run = Command::new(env!("CARGO_BIN_EXE_sim"))
            .args(["hostile", "--engine", "lsm", "--seeds", seeds, "--json"])
            .output()
            .unwrap();
        let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        assert_eq!(report["findings"], 0, "{report}");
        assert_eq!(report["cases"], cases);
        assert!(report["refused"].as_u64() > refused, "{report}");
        assert!(run.status.success());
    }
}

/// Damage of each kind of file is reported by name, or looks like a torn write.
#[test]
fn damage_of_the_log_structured_engine_is_noticed() {
    let report = lsm::flips::run(1, 400).unwrap();
    assert_eq!(report.violations, Vec::<String>::new());
    assert_eq!((report.flips, report.cuts), (400, 100));
    assert!(report.told > 400 && report.torn > 0, "{report:?}");
}

/// Each part of each file is found, and its checksum is made as the engine makes it.
#[test]
fn pieces_have_the_checksums_that_the_engine_gave_them() {
    let template = lsm::template::Template::new().unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    // What is pending has the checksums of the log.
    for (path, bytes) in template.files.iter().filter(|file| !lsm::template::is_pending(&file.0)) {
        let pieces = lsm::format::pieces(&lsm::template::name(path), bytes);
        let mut sealed = bytes.clone();
        pieces.iter().for_each(|piece| piece.seal(&mut sealed));
        assert!(sealed == *bytes, "{}", path.display());
        kinds.extend(pieces.iter().map(|piece| piece.what));
        let covered: usize = pieces.iter().map(|piece| piece.content.len() + 4).sum();
        assert_eq!(covered, bytes.len(), "{}", path.display());
    }
    assert_eq!(kinds.len(), 10, "{kinds:?}");
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
