//! What only this library has, and what it refuses.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::original::original;
use crate::programs::{compile, library, package, run, succeed};

#[test]
fn functions_of_our_own_and_refusals() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cpp/own.cc", folder.path());
    for engine in ["tree", "lsm"] {
        let text = run(&program, &[], library(), engine);
        assert!(text.contains(&format!("engine {engine}")), "{text}");
        assert!(text.ends_with("done\n"), "{text}");
    }
}

#[test]
fn misuse_is_an_error_and_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("c/misuse.c", folder.path());
    for engine in ["tree", "lsm"] {
        assert_eq!(run(&program, &[], library(), engine), "done\n");
    }
}

/// Threads that write, read and iterate at once; each batch is seen as a whole or not at all.
#[test]
fn threads_see_whole_batches() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cpp/threads.cc", folder.path());
    for engine in ["tree", "lsm"] {
        assert_eq!(run(&program, &[], library(), engine), "");
    }
}

/// A child after a fork gives back what it inherited: nothing changes, and nothing hangs.
#[test]
fn children_after_a_fork_leave_their_parents_database_alone() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cpp/fork.cc", folder.path());
    for engine in ["tree", "lsm"] {
        let work = tempfile::tempdir().unwrap();
        let mut command = Command::new(&program);
        command.current_dir(work.path()).env("LD_LIBRARY_PATH", library());
        let output = command.env("HEDGEROW_LEVELDB_ENGINE", engine).output().unwrap();
        let (text, errors) = (output.stdout, output.stderr);
        let [text, errors] = [text, errors].map(|bytes| String::from_utf8(bytes).unwrap());
        // A panic in a child is told, though the interface of C lets none through.
        assert_eq!((text.as_str(), errors.as_str()), ("done\n", ""), "{engine}");
        assert!(output.status.success(), "{engine}: {}", output.status);
    }
}

/// A program is killed while it writes, and another one while it repairs, again and again: what was
/// told to be written is there, and batches are whole. `LEVELDB_KILLS` says how often.
#[test]
fn killed_programs_leave_whole_batches() {
    let kills = std::env::var("LEVELDB_KILLS").ok().and_then(|kills| kills.parse().ok());
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cpp/kills.cc", folder.path());
    for engine in ["tree", "lsm"] {
        let work = folder.path().join(engine);
        std::fs::create_dir(&work).unwrap();
        let command = |what: &str| {
            let mut command = Command::new(&program);
            command.arg(what).current_dir(&work).env("LD_LIBRARY_PATH", library());
            command.env("HEDGEROW_LEVELDB_ENGINE", engine);
            command
        };
        let mut last = 0;
        for kill in 0..kills.unwrap_or(8_u64) {
            let mut child = command("write").stdout(Stdio::piped()).spawn().unwrap();
            let mut out = BufReader::new(child.stdout.take().unwrap());
            let mut told = String::new();
            // Every other one has begun to write, however slow the machine is.
            if kill % 2 == 1 {
                out.read_line(&mut told).unwrap();
            }
            std::thread::sleep(Duration::from_millis(10 + kill * 37 % 150));
            child.kill().unwrap();
            out.read_to_string(&mut told).unwrap();
            child.wait().unwrap();
            let mut child = command("repair").spawn().unwrap();
            std::thread::sleep(Duration::from_micros(4_000 + kill * 3_701 % 60_000));
            child.kill().unwrap();
            assert_eq!(child.wait().unwrap().code(), None, "{engine}: a repair ended");
            let whole_lines = told.rsplit_once('\n').map_or("", |(lines, _)| lines);
            let told = whole_lines.lines().last().and_then(|number| number.parse::<u64>().ok());
            let found = String::from_utf8(succeed(&mut command("check")).stdout).unwrap();
            let found: u64 = found.trim().parse().unwrap();
            assert!(found >= told.unwrap_or(last), "{engine}: {found}, told {told:?}");
            last = found;
        }
        assert!(last > 0, "{engine} came to write nothing");
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
