//! Where the system has little to give, or other processes have what is needed: each time a message
//! and an exit code, never a signal or a wait without end, and nothing that was committed is lost.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use hedgerow::tree::Store;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{Run, Sandbox, until};

/// Lines for `load` of about `bytes` bytes.
fn lines(bytes: usize) -> String {
    (0..bytes / 100).map(|n| format!("{n:09}\t{n:0>89}\n")).collect()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_signal() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    sandbox.write("lines", lines(4 << 20));
    // In units of 512 bytes or of 1 KiB, as the shell has it.
    let load = sandbox.limited("-f 1000", &["load", "s", "--as", "lines", "lines"]);
    load.is(3).says("ulimit -f").says("nothing of this input was committed");
    sandbox.limited("-f 1000", &["put", "s", "b", "2"]).is(0);
    sandbox.limited("-f 10", &["create", "new"]).is(3).says("ulimit -f");
    assert_eq!(sandbox.ok(&["count", "s"]), "2\n");
    sandbox.check("s");
    sandbox.ok(&["load", "s", "--as", "lines", "lines"]);
    sandbox.check("s");
    let dump = sandbox.limited("-f 1000", &["dump", "s", "--as", "csv", "out"]);
    dump.is(3).says("could not write to out").says("ulimit -f");
    let names = std::fs::read_dir(sandbox.path("")).unwrap();
    assert!(names.flatten().all(|file| !file.path().to_string_lossy().ends_with(".part")));
    assert!(!sandbox.path("out").exists());
}

#[test]
fn few_open_files_are_an_error_or_enough() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    for files in 4..10 {
        let limit = format!("-n {files}");
        for arguments in [&["get", "s", "a"][..], &["put", "s", "a", "1"], &["check", "s"]] {
            let run = sandbox.limited(&limit, arguments);
            match run.code {
                0 => run.is(0),
                // The command could not even be loaded.
                127 => run,
                _ => run.is(3).says("Too many open files"),
            };
        }
    }
    sandbox.check("s");
}

#[cfg(target_os = "linux")]
#[test]
fn a_small_address_space_is_enough() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    sandbox.write("lines", lines(4 << 20));
    for arguments in [
        &["load", "s", "--as", "lines", "lines"][..],
        &["put", "s", "b", "2"],
        &["get", "s", "b"],
        &["check", "s"],
    ] {
        sandbox.limited("-v 300000", arguments).is(0);
    }
    sandbox.check("s");
}

/// A disk of its own, where the system lets us mount one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_room_mends_it() {
    let sandbox = Sandbox::with(&[]);
    sandbox.write("lines", lines(16 << 20));
    let script = r#"
        h=$1; mkdir disk; mount -t tmpfs -o size=4m none disk || exit 77
        set -e
        $h create disk/s
        $h put disk/s kept 1
        if $h load disk/s --as lines lines; then exit 1; fi
        [ "$(df --output=avail disk | tail -1)" -gt 0 ] # What did not come about takes no room.
        dd if=/dev/zero of=disk/fill bs=4k 2>/dev/null || true
        dd if=/dev/zero of=disk/more bs=1 2>/dev/null || true
        $h get disk/s kept
        $h check disk/s
        seq 1 2000 | while read n; do $h put disk/s $n $(printf %01000d $n) || exit 3; done &&
            exit 2 || echo full
        $h check disk/s
        rm disk/s-lock
        dd if=/dev/zero of=disk/last bs=4k 2>/dev/null || true
        if $h put disk/s k v; then exit 4; fi
        rm disk/fill disk/more disk/last
        $h put disk/s more 2
        $h get disk/s kept
        mount -o remount,size=64m disk
        $h load disk/s --as lines lines
        $h check disk/s
    "#;
    let mut shell = Command::new("unshare");
    shell.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    shell.arg(env!("CARGO_BIN_EXE_hedgerow")).current_dir(sandbox.path(""));
    let Ok(output) = shell.output() else { return };
    let run = Run::from(output);
    if run.code == 77 || run.err.contains("unshare") {
        return; // No mounts for us.
    }
    let run = run.is(0).says("No space left on device").says("make room");
    assert!(run.text().contains("full"));
}

/// Starts a command that holds the writer's lock until its standard input ends.
fn writer(sandbox: &Sandbox) -> Child {
    let child = sandbox.start(&["load", "s", "--as", "lines"]);
    let store = Store::open(sandbox.path("s")).unwrap();
    until("the load begins", || store.try_begin_write().unwrap().is_none());
    child
}

/// Whether a command catches the interruption: before that it ends it at once. True where the
/// system does not say.
fn catches_interruptions(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    // A thread waits for those that are blocked.
    let blocked = |text: String| {
        let signals = text.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
        u64::from_str_radix(signals.trim(), 16).ok()
    };
    let interruption = 1 << (Signal::INT.as_raw() - 1);
    status.ok().and_then(blocked).is_none_or(|signals| signals & interruption != 0)
}

/// Interrupts a command that waits, and sees that it ends.
fn interrupted(mut child: Child) {
    until("the command catches signals", || catches_interruptions(&child));
    std::thread::sleep(Duration::from_millis(300));
    if let Some(status) = child.try_wait().unwrap() {
        let output = child.wait_with_output().unwrap();
        panic!("the command did not wait: {status}, {}", Run::from(output).err);
    }
    signal(&child, Signal::INT);
    let patience = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    // What still waits would wait for ever.
    child.kill().unwrap();
    Run::from(child.wait_with_output().unwrap()).is(130).says("interrupted");
}

/// Opening a pipe waits until another process has its other end open.
#[test]
fn waiting_for_a_pipe_can_be_interrupted() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    assert!(Command::new("mkfifo").arg(sandbox.path("pipe")).status().unwrap().success());
    interrupted(sandbox.start(&["load", "s", "--as", "lines", "pipe"]));
    interrupted(sandbox.start(&["dump", "s", "pipe"]));
    sandbox.check("s");
}

#[cfg(feature = "sql")]
#[test]
fn waiting_for_statements_can_be_interrupted() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    interrupted(sandbox.start(&["sql", "s"]));
}

/// Whatever links lead to it: a file has one lock file, beside itself.
#[test]
fn a_store_that_is_reached_by_a_link_has_one_writer() {
    use std::os::unix::fs::symlink;

    let sandbox = Sandbox::with(&[("a", "1")]);
    std::fs::create_dir_all(sandbox.path("folder/deeper")).unwrap();
    symlink("s", sandbox.path("link")).unwrap();
    symlink("../link", sandbox.path("folder/link")).unwrap();
    symlink("../../s", sandbox.path("folder/deeper/data.hdg")).unwrap();
    let mut writer = writer(&sandbox);
    for store in ["link", "folder/link", "folder/deeper", "folder/deeper/data.hdg"] {
        let put = sandbox.run(&["put", store, "b", "2", "--timeout", "0.2"]);
        put.is(3).says("writes to the store");
        assert_eq!(sandbox.ok(&["get", store, "a"]), "1\n");
    }
    writer.stdin.take().unwrap().write_all(b"c\t3\n").unwrap();
    assert!(writer.wait().unwrap().success());
    sandbox.ok(&["put", "folder/link", "b", "2"]);
    assert_eq!(sandbox.ok(&["count", "s"]), "3\n");
    assert!(!sandbox.path("link-lock").exists() && !sandbox.path("folder/link-lock").exists());
    sandbox.run(&["create", "link"]).is(3).says("exists already");
}

#[test]
fn waiting_for_another_writer_can_be_interrupted() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    let mut writer = writer(&sandbox);
    for state in [Signal::CONT, Signal::STOP] {
        signal(&writer, state);
        interrupted(sandbox.start(&["put", "s", "b", "2"]));
        interrupted(sandbox.start(&["compact", "s"]));
        assert_eq!(sandbox.ok(&["get", "s", "a"]), "1\n", "readers do not wait");
    }
    signal(&writer, Signal::CONT);
    writer.stdin.take().unwrap().write_all(b"c\t3\n").unwrap();
    assert!(writer.wait().unwrap().success());
    assert_eq!(sandbox.ok(&["scan", "s"]), "a\t1\nc\t3\n");
    sandbox.check("s");
}

/// Also followers with a name, which write down how far they have come.
#[test]
fn followers_wait_for_another_writer_no_longer_than_they_may() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    sandbox.ok(&["follow", "s", "old", "--idle", "0"]);
    let mut writer = writer(&sandbox);
    let follow = |more: &[&str]| {
        sandbox.run(&[&["follow", "s", "--idle", "0", "--timeout", "0.2"], more].concat())
    };
    let copy = ["copy", "s", "copy", "--follow", "c", "--idle", "0", "--timeout", "0.2"];
    for refused in [follow(&["new"]), sandbox.run(&copy)] {
        refused.is(3).says("writes to the store; gave up after 0.2 s");
    }
    assert_eq!(follow(&["old"]).is(0).text(), "", "who has all that there is need not wait");
    assert!(follow(&[]).is(0).text().starts_with("main\t+\ta\t1\n"), "nor who has no name");
    writer.stdin.take().unwrap().write_all(b"c\t3\n").unwrap();
    assert!(writer.wait().unwrap().success());
    assert!(follow(&["new"]).is(0).text().starts_with("main\t+\ta\t1\nmain\t+\tc\t3\ncommit"));
    sandbox.run(&copy).is(0);
    assert_eq!(sandbox.ok(&["scan", "copy"]), "a\t1\nc\t3\n");
    sandbox.check("s");
}

#[test]
fn waiting_for_another_to_open_can_be_interrupted() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    let options = std::fs::OpenOptions::new().write(true).open(sandbox.path("s-lock"));
    let opening = options.unwrap();
    fcntl_lock(&opening, FlockOperation::LockExclusive).unwrap();
    for arguments in [&["get", "s", "a"][..], &["put", "s", "b", "2"]] {
        interrupted(sandbox.start(arguments));
    }
    drop(opening);
    assert_eq!(sandbox.ok(&["scan", "s"]), "a\t1\n");
}

/// Nothing protects the pages that a guest reads: it is refused while others may write them.
#[test]
fn who_may_only_read_does_not_read_beside_a_writer() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    sandbox.guest(&["--version"]).is(0);
    let mode = |name: &str, bits| {
        std::fs::set_permissions(sandbox.path(name), Permissions::from_mode(bits)).unwrap();
    };
    let get = || sandbox.guest(&["get", "s", "a"]);
    let writer = writer(&sandbox);
    for (name, bits) in [("s", 0o444), ("s-lock", 0o444), ("", 0o555)] {
        mode(name, bits);
    }
    get().is(3).says("another process has the store open");
    mode("s-lock", 0o000);
    get().is(3).says("may not even be read");
    mode("s-lock", 0o444);
    assert!(writer.wait_with_output().unwrap().status.success());
    assert_eq!(get().is(0).text(), "1\n");
    sandbox.guest(&["put", "s", "b", "2"]).is(3).says("Permission denied");
    mode("", 0o755);
    mode("s-lock", 0o600);
    std::fs::remove_file(sandbox.path("s-lock")).unwrap();
    mode("", 0o555);
    assert_eq!(get().is(0).text(), "1\n");
    mode("", 0o755);
}
