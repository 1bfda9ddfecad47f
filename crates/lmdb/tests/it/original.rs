//! This library beside LMDB itself, as Debian packages it: a transcript of calls line by line, and
//! random calls for a few seconds. The programs are in `tests/c`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::{library, package};

/// LMDB's own library; where tests may not be skipped it must be there.
fn original() -> Option<PathBuf> {
    let places =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let found = places.iter().map(|place| Path::new(place).join("liblmdb.so.0"));
    let found = found.into_iter().find(|path| path.exists());
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "apt-get install liblmdb0");
    found
}

/// Compiles a program of `tests/c` against our header.
fn compile(name: &str, folder: &Path, libraries: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let output = Command::new("cc")
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(package().join("include"))
        .arg("-o")
        .arg(&program)
        .arg(package().join("tests/c").join(format!("{name}.c")))
        .args(libraries)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs the transcript with a library under the name that programs look for.
fn transcript(program: &Path, folder: &Path, library: &Path, side: &str) -> String {
    let home = folder.join(side);
    std::fs::create_dir_all(home.join("work")).unwrap();
    std::os::unix::fs::symlink(library, home.join("liblmdb.so.0")).unwrap();
    let output = Command::new(program)
        .arg(home.join("work"))
        .arg(side)
        .env("LD_LIBRARY_PATH", &home)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().last().unwrap_or_default();
    assert!(output.status.success(), "{side} ends with {} after: {last}", output.status);
    text
}

/// Runs a program that prints a line for each call with the original and with this library; `more`
/// are further arguments of the linker. The lines must match, and there must be at least `least` of
/// them.
fn lines_fit(name: &str, more: &[&str], least: usize, fits: impl Fn(&str, &str) -> bool) {
    let Some(original) = original() else { return };
    let folder = tempfile::tempdir().unwrap();
    let ours = library();
    let libraries = [&[ours.to_str().unwrap()], more].concat();
    let program = compile(name, folder.path(), &libraries);
    let theirs = transcript(&program, folder.path(), &original, "original");
    let ours = transcript(&program, folder.path(), &ours, "ours");
    let differing: Vec<String> = theirs
        .lines()
        .zip(ours.lines())
        .filter(|(theirs, ours)| !fits(theirs, ours))
        .map(|(theirs, ours)| format!("original: {theirs}\n    ours: {ours}"))
        .collect();
    assert!(differing.is_empty(), "{} lines differ:\n{}", differing.len(), differing.join("\n"));
    assert_eq!(theirs.lines().count(), ours.lines().count());
    assert!(theirs.lines().count() > least, "{} lines", theirs.lines().count());
}

#[test]
fn the_transcript_is_that_of_the_original() {
    lines_fit("transcript", &["-pthread"], 900, |theirs, ours| {
        theirs == ours && !theirs.contains(", not ")
    });
}

#[test]
fn misuse_is_answered_as_by_the_original_and_ends_nothing() {
    // These answer nothing, or have other ways to say so.
    let others = ["mdb_dbi_close(", "mdb_cmp(", "mdb_dcmp(", "mdb_env_copyfd(env, -1)"];
    // What the original does not have is looked for when it is called, and not before.
    lines_fit("misuse_table", &["-Wl,-z,lazy"], 220, |theirs, ours| {
        match theirs.strip_suffix(" dies") {
            None => theirs == ours,
            Some(call) if others.iter().any(|other| call.starts_with(other)) => ours != theirs,
            Some(call) => ours == format!("{call} EINVAL") || ours == format!("{call} BAD_TXN"),
        }
    });
}

#[test]
fn random_calls_are_answered_as_by_the_original() {
    let Some(original) = original() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compile("fuzz", folder.path(), &["-ldl"]);
    let output = Command::new(program)
        .args([original.as_path(), &library(), &folder.path().join("work")])
        .args(["--seeds", "1..300"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("no difference"), "{text}");
}

#[test]
fn files_get_no_longer_than_those_of_the_original() {
    let Some(original) = original() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compile("growth", folder.path(), &["-ldl"]);
    let output = Command::new(program)
        .args([original.as_path(), &library(), &folder.path().join("work")])
        .arg("10")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.lines().count() >= 14, "{text}");
}
