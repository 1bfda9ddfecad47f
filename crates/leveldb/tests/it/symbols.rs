//! What the library exports, beside LevelDB itself; where functions stand that are called by their
//! place.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::original::original;
use crate::programs::{SONAME, compile, library, run, succeed};

/// The names that a library exports.
fn exported(library: &Path) -> BTreeSet<String> {
    let output = succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect()
}

#[test]
fn every_name_of_the_original_is_there() {
    let Some(original) = original() else { return };
    let (theirs, ours) = (exported(&original.join(SONAME)), exported(&library().join(SONAME)));
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(theirs.len() >= 263, "{} names", theirs.len());
    // Of others it exports few: its own, and what headers make.
    let more: Vec<_> = ours.difference(&theirs).filter(|name| !name.contains("edgerow")).collect();
    assert!(more.len() <= 3, "{more:#?}");
}

#[test]
fn programs_ask_for_the_library_by_its_name() {
    let output = succeed(Command::new("readelf").arg("-d").arg(library().join(SONAME)));
    assert!(String::from_utf8_lossy(&output.stdout).contains("soname: [libleveldb.so.1d]"));
}

#[test]
fn virtual_functions_stand_where_programs_call_them() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cpp/slots.cc", folder.path());
    assert_eq!(run(&program, &[], library(), "tree"), "");
}
