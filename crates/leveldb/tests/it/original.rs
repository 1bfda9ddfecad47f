//! This library beside LevelDB itself, as Debian packages it: transcripts of calls, line by line.

use std::path::{Path, PathBuf};

use crate::programs::{SONAME, compile, library, run};

/// The folder of LevelDB's own library; where tests may not be skipped it must be there.
pub(crate) fn original() -> Option<PathBuf> {
    let places =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let found = places.iter().map(Path::new).find(|place| place.join(SONAME).exists());
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "apt-get install libleveldb1d");
    found.map(Path::to_path_buf)
}

/// Runs a program that prints a line for each call with the original and with this library, on both
/// engines; there must be at least `least` lines.
fn lines_fit(name: &str, arguments: &[String], least: usize) {
    let Some(original) = original() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compile(name, folder.path());
    let theirs = run(&program, arguments, &original, "");
    assert!(theirs.lines().count() >= least, "{} lines", theirs.lines().count());
    for engine in ["tree", "lsm"] {
        let ours = run(&program, arguments, library(), engine);
        let differing: Vec<String> = theirs
            .lines()
            .zip(ours.lines())
            .filter(|(theirs, ours)| theirs != ours)
            .map(|(theirs, ours)| format!("original: {theirs}\n    {engine}: {ours}"))
            .collect();
        let (count, first) = (differing.len(), &differing[..differing.len().min(20)]);
        assert!(differing.is_empty(), "{count} lines differ:\n{}", first.join("\n"));
        assert_eq!(theirs.lines().count(), ours.lines().count());
    }
}

#[test]
fn calls_of_c_are_answered_as_by_the_original() {
    lines_fit("c/transcript.c", &[], 480);
}

#[test]
fn calls_of_cpp_are_answered_as_by_the_original() {
    lines_fit("cpp/transcript.cc", &[], 380);
}

/// `LEVELDB_SEEDS` says of how many seeds; each makes a thousand calls.
#[test]
fn random_calls_are_answered_as_by_the_original() {
    let seeds = std::env::var("LEVELDB_SEEDS").unwrap_or_else(|_| "12".to_owned());
    lines_fit("c/random.c", &["1".to_owned(), seeds, "1000".to_owned()], 1000);
}
