//! What goes wrong: each mistake gets its exit code and a message that says what and where, and
//! nothing is lost.

use std::fs;
use std::io::Read;

use crate::sandbox::Sandbox;

#[test]
fn a_text_file_is_no_store() {
    let sandbox = Sandbox::new();
    sandbox.write("text", "this is a text file, not a store\n".repeat(1000));
    for arguments in [
        &["get", "text", "key"][..],
        &["put", "text", "key", "value"],
        &["scan", "text"],
        &["stat", "text"],
        &["check", "text"],
        &["dump", "text"],
        &["compact", "text"],
        &["copy", "text", "copy"],
        &["load", "text"],
    ] {
        sandbox.run(arguments).is(3).says("not a Hedgerow store");
    }
    assert!(fs::read_to_string(sandbox.path("text")).unwrap().starts_with("this is a text file"));
}

#[test]
fn a_file_that_is_known_is_called_by_its_name() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    sandbox.ok(&["create", "l", "--engine", "lsm"]);
    sandbox.write("shop.sqlite", [&b"SQLite format 3\0"[..], &[0; 4080]].concat());
    for (file, words) in [
        ("s-lock", "it is the lock file of a store"),
        ("l/MANIFEST", "it is a file of a store of the engine lsm: name its folder"),
        ("shop.sqlite", "`hedgerow sql` reads and writes it"),
    ] {
        sandbox.run(&["scan", file]).is(3).says("not a Hedgerow store").says(words);
        sandbox.run(&["put", file, "k", "v"]).is(3).says(words);
    }
}

#[test]
fn a_store_is_no_database_of_another_library() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    sandbox.ok(&["create", "l", "--engine", "lsm"]);
    for store in ["s", "l"] {
        for option in ["--from-lmdb", "--from-leveldb"] {
            let refused = sandbox.run(&["convert", option, store, "new"]).is(3);
            refused.says(&format!("{store} is a store already")).says("with --from");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_may_not_be_searched_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "l", "--engine", "lsm"]);
    let mode = |path: &str, mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(sandbox.path(path), permissions).unwrap();
    };
    mode("", 0o755);
    mode("l", 0o600);
    for arguments in [&["get", "l", "k"][..], &["put", "l", "k", "v"], &["check", "l"]] {
        sandbox.guest(arguments).is(3).says("could not open l: Permission denied");
    }
    mode("l", 0o700);
}

#[test]
fn an_empty_file_is_no_store() {
    let sandbox = Sandbox::new();
    sandbox.write("empty", "");
    sandbox.run(&["get", "empty", "key"]).is(3).says("empty");
}

#[test]
fn a_missing_store_comes_with_the_way_to_make_one() {
    let sandbox = Sandbox::new();
    for arguments in [&["get", "none", "key"][..], &["put", "none", "k", "v"], &["stat", "none"]] {
        sandbox.run(arguments).is(3).says("hedgerow create none");
    }
    assert!(!sandbox.path("none").exists());
}

#[test]
fn a_missing_table_comes_with_those_that_are_there() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    for arguments in [
        &["get", "s", "-t", "nope", "a"][..],
        &["scan", "s", "-t", "nope"],
        &["count", "s", "-t", "nope"],
        &["put", "s", "-t", "nope", "a", "1"],
        &["delete", "s", "-t", "nope", "a"],
        &["dump", "s", "-t", "nope"],
    ] {
        sandbox.run(arguments).is(3).says("nope").says("main");
    }
    sandbox.ok(&["put", "s", "-t", "nope", "a", "1", "--create-table"]);
    assert_eq!(sandbox.ok(&["get", "s", "-t", "nope", "a"]), "1\n");
}

#[test]
fn keys_that_cannot_be_read_are_wrong_usage() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    for arguments in [
        &["get", "s", "--format", "hex", "abc"][..],
        &["get", "s", "--format", "hex", "zz"],
        &["get", "s", "--format", "base64", "?"],
        &["get", "s", "back\\slash"],
        &["put", "s", "--value-format", "hex", "a", "1"],
        &["scan", "s", "--format", "hex", "--from", "x"],
    ] {
        sandbox.run(arguments).is(2).says("cannot be read");
    }
    assert_eq!(sandbox.ok(&["get", "s", "a"]), "1\n");
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "s", "--order", "integer"]);
    sandbox.run(&["put", "s", "abc", "value"]).is(3).says("3 bytes");
    sandbox.ok(&["create", "s", "-t", "fixed", "--duplicates", "--value-size", "4"]);
    sandbox.run(&["put", "s", "-t", "fixed", "key", "12345"]).is(3).says("5 bytes");
    sandbox.check("s");
}

#[test]
fn a_truncated_store_is_an_error() {
    let lines: String = (0..20_000).map(|n| format!("{n:08}\tvalue\n")).collect();
    let sandbox = Sandbox::new();
    sandbox.feed(&["load", "s", "--as", "lines"], lines.as_bytes()).is(0);
    let bytes = fs::read(sandbox.path("s")).unwrap();
    // Space may have been written ahead at the end, so a cut must go deep to take something away.
    sandbox.write("s", &bytes[..5 * 4096]);
    sandbox.run(&["scan", "s"]).is(3).says("s");
    let check = sandbox.run(&["check", "s"]);
    assert!(matches!(check.code, 1 | 3), "{}", check.code);
}

#[test]
fn a_reader_that_leaves_early_ends_the_command() {
    let lines: String = (0..50_000).map(|n| format!("{n:08}\tvalue\n")).collect();
    let sandbox = Sandbox::new();
    sandbox.feed(&["load", "s", "--as", "lines"], lines.as_bytes()).is(0);
    for arguments in [&["scan", "s"][..], &["scan", "s", "--json"], &["dump", "s"]] {
        let mut child = sandbox.start(arguments);
        let mut some = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(141), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

/// What the command does is no other where nobody hears what it says.
#[test]
fn messages_that_cannot_be_written_are_lost() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    for (arguments, code) in [
        (&["get", "s", "none"][..], 1),
        (&["get", "nothing", "a"], 3),
        (&["load", "s", "--as", "lines", "--sum"], 0),
    ] {
        let mut child = sandbox.start(arguments);
        drop(child.stderr.take());
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{arguments:?}");
    }
}

/// Where there is no standard input, there is no value.
#[cfg(unix)]
#[test]
fn a_closed_input_is_no_value() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    let put = |input: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("exec \"$0\" put s a - {input}")]);
        shell.arg(env!("CARGO_BIN_EXE_hedgerow")).current_dir(sandbox.path(""));
        crate::sandbox::Run::from(shell.output().unwrap())
    };
    put("<&-").is(2).says("standard input is closed");
    assert_eq!(sandbox.ok(&["get", "s", "a"]), "1\n");
    put("</dev/null").is(0);
    assert_eq!(sandbox.ok(&["get", "s", "a"]), "\n");
}

#[cfg(unix)]
#[test]
fn a_file_without_the_right_to_write_is_read_only() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::with(&[("a", "1")]);
    fs::set_permissions(sandbox.path("s"), fs::Permissions::from_mode(0o444)).unwrap();
    if fs::OpenOptions::new().write(true).open(sandbox.path("s")).is_ok() {
        // The superuser may write everything: then so may the command.
        sandbox.run(&["put", "s", "b", "2"]).is(0);
    } else {
        sandbox.run(&["put", "s", "b", "2"]).is(3).says("s");
    }
    assert_eq!(sandbox.ok(&["get", "s", "a"]), "1\n");
}

/// A command that is killed while it makes a store may leave a file with nothing in it.
#[test]
fn a_file_with_nothing_in_it_becomes_a_store() {
    let sandbox = Sandbox::with(&[("a", "1"), ("b", "2")]);
    let whole = sandbox.ok(&["dump", "s"]);
    sandbox.write("dumped", &whole);
    let makers: [&[&str]; 3] = [
        &["load", "new", "dumped"],
        &["copy", "s", "new", "--follow", "copy", "--idle", "0"],
        &["create", "new", "--table", "main"],
    ];
    for arguments in makers {
        sandbox.write("new", "");
        sandbox.ok(arguments);
        if arguments[0] != "create" {
            assert_eq!(sandbox.ok(&["dump", "new"]), whole, "{arguments:?}");
        }
        sandbox.check("new");
    }
    // What holds something else stays as it is.
    sandbox.write("new", "text");
    for arguments in makers {
        sandbox.run(arguments).is(3).says("new is not a Hedgerow store");
        assert_eq!(fs::read(sandbox.path("new")).unwrap(), b"text");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_load_stops_cleanly() {
    use std::io::Write;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process};

    let sandbox = Sandbox::with(&[("a", "old")]);
    let mut child = sandbox.start(&["load", "new", "--as", "lines"]);
    child.stdin.as_mut().unwrap().write_all(b"a\tnew\n").unwrap();
    // The store is made after the signals are caught, and then the load waits for more input.
    let patience = Instant::now() + Duration::from_secs(60);
    while !sandbox.path("new").exists() {
        assert!(Instant::now() < patience, "the load never began");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let _open = child.stdin.take();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(!sandbox.path("new").exists(), "nothing was committed");
    assert_eq!(sandbox.ok(&["get", "s", "a"]), "old\n");
}
