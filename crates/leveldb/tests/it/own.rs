//! What only this library has, and what it refuses.

use std::process::Command;

use crate::original::original;
use crate::programs::{compile, library, package, run, succeed};

#[test]
fn functions_of_our_own_and_refusals() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cpp/own.cc", folder.path());
    for engine in ["tree", "lsm"] {
        let text = run(&program, library(), engine);
        assert!(text.contains(&format!("engine {engine}")), "{text}");
        assert!(text.ends_with("done\n"), "{text}");
    }
}

/// Threads that write, read and iterate at once; each batch is seen as a whole or not at all.
#[test]
fn threads_see_whole_batches() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cpp/threads.cc", folder.path());
    for engine in ["tree", "lsm"] {
        assert_eq!(run(&program, library(), engine), "");
    }
}

#[test]
fn a_database_of_leveldb_is_refused_and_left_alone() {
    let Some(original) = original() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cpp/foreign.cc", folder.path());
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let with = |library: &std::path::Path, what: &str| {
        let mut command = Command::new(&program);
        command.arg(what).current_dir(&work).env("LD_LIBRARY_PATH", library);
        String::from_utf8(succeed(&mut command).stdout).unwrap()
    };
    with(&original, "make");
    let refusals = with(library(), "use");
    assert_eq!(refusals.matches("hedgerow convert --from-leveldb").count(), 3, "{refusals}");
    assert_eq!(with(&original, "read"), "value\n");
}

/// The header of the C interface is one of C, without extensions.
#[test]
fn headers_are_for_both_languages() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("empty.c");
    let text = "#include \"leveldb/c.h\"\n#include \"leveldb/hedgerow.h\"\nint only;\n";
    std::fs::write(&source, text).unwrap();
    for (compiler, standard) in [("cc", "-std=c99"), ("c++", "-std=c++11"), ("c++", "-std=c++20")] {
        let mut command = Command::new(compiler);
        command.args([
            standard,
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-fsyntax-only",
            "-I",
        ]);
        succeed(command.arg(package().join("include")).arg(&source));
    }
}
