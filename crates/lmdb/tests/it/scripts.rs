//! The scripts of `testdata`, through the C interface: a program in C runs the operations.

use std::path::Path;

use crate::programs::Program;

#[test]
fn the_c_interface_does_what_the_scripts_say() {
    let program = Program::of_file("script");
    // Keys have 1 to 511 bytes, as in LMDB.
    let lacks = &["empty-keys", "long-keys"];
    let make = |folder: &Path| {
        let mut command = program.command();
        let folder = folder.to_owned();
        command.current_dir(&folder);
        scripts::Program::start(&mut command, lacks, Some(Box::new(move || check(&folder))))
    };
    let run = scripts::run_all(make).unwrap_or_else(|e| panic!("{e}"));
    assert!(run >= 30, "{run} scripts");
}

fn check(folder: &Path) -> Result<Vec<String>, String> {
    let store = hedgerow::tree::Store::open(folder).map_err(|e| e.to_string())?;
    let report = store.check(&mut |_, _| {}).map_err(|e| e.to_string())?;
    let is_sound = report.problems.is_empty();
    Ok(if is_sound { vec!["sound".into()] } else { report.problems })
}
