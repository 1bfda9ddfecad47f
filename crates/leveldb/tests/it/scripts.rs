//! The scripts of `testdata`, through LevelDB's C interface, on both engines: a program in C runs
//! the operations.

use std::path::Path;
use std::process::Command;

use crate::programs::{compile, library};

#[test]
fn the_interface_of_leveldb_does_what_the_scripts_say() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("c/script.c", folder.path());
    // It has one table, and batches without reading in place of transactions.
    let lacks = &["tables", "transactions", "nested", "counts", "duplicates", "orders"];
    for engine in ["tree", "lsm"] {
        let make = |folder: &Path| {
            let mut command = Command::new(&program);
            command.current_dir(folder).env("LD_LIBRARY_PATH", library());
            command.env("HEDGEROW_LEVELDB_ENGINE", engine);
            scripts::Program::start(&mut command, lacks, None)
        };
        let run = scripts::run_all(make).unwrap_or_else(|e| panic!("{engine}: {e}"));
        assert!(run >= 18, "{engine}: {run} scripts");
    }
}
