//! convert from and to databases of LevelDB: goes on after a kill, refuses what it should refuse,
//! and loses nothing. Databases of LevelDB are those that the command makes itself; convert.sh of
//! crates/leveldb has LevelDB's own.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{Run, Sandbox, until};

const TO: [&str; 5] = ["convert", "--from", "s", "--to-leveldb", "old"];
const FROM: [&str; 4] = ["convert", "--from-leveldb", "old", "new"];

/// One with a store "s" of about 30 MB that hardly can be compressed.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with(&[]);
    let mut random = 1_u64;
    let mut letter = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + (random >> 32) as u8 % 26)
    };
    let mut line = |n: u32| format!("{n:09}\t{}\n", (0..500).map(|_| letter()).collect::<String>());
    let lines: String = (0..60_000).map(&mut line).collect();
    sandbox.feed(&["load", "s", "--as", "lines"], lines.as_bytes()).is(0);
    sandbox
}

/// The entries of a table, as the command shows them.
fn entries(sandbox: &Sandbox, store: &str, table: &str) -> String {
    sandbox.ok(&["dump", store, "-t", table, "--as", "lines"])
}

/// Starts the command, and stops it by a signal as soon as something holds.
fn stopped(sandbox: &Sandbox, arguments: &[&str], signal: Signal, when: impl Fn() -> bool) -> Run {
    let mut child = sandbox.start(arguments);
    let patience = Instant::now() + Duration::from_secs(60);
    while !when() && child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < patience, "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    Run::from(child.wait_with_output().unwrap())
}

/// The files of a folder with what tells them from others of the same name.
fn files(folder: &Path) -> Vec<(PathBuf, u64, u64)> {
    let meta = |file: std::io::Result<fs::DirEntry>| {
        let file = file.unwrap();
        let meta = file.metadata().unwrap();
        (PathBuf::from(file.file_name()), meta.ino(), meta.len())
    };
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(meta).collect();
    files.sort();
    files
}

#[test]
fn a_conversion_to_leveldb_goes_on_after_a_kill() {
    let sandbox = sandbox();
    let list = sandbox.path("old.part/TABLES");
    let complete =
        || fs::read(&list).map_or(0, |list| list.iter().filter(|&&b| b == b'\n').count());
    for least in 1..=2 {
        let run = stopped(&sandbox, &TO, Signal::KILL, || complete() >= least);
        assert_eq!(run.code, -1, "it was too fast: {}", run.err);
        assert!(complete() >= least);
    }
    let kept = files(&sandbox.path("old.part/new"));
    let kept = &kept[..complete()];
    // A kept table that is not as it was is made anew, with those after it.
    let second = sandbox.path("old.part/new").join(&kept[1].0);
    let mut bytes = fs::read(&second).unwrap();
    bytes[100_000] ^= 1;
    fs::write(&second, bytes).unwrap();
    sandbox.ok(&TO);
    assert_eq!(files(&sandbox.path("old"))[0], kept[0], "the first table was kept");
    assert!(!sandbox.path("old.part").exists());
    assert!(!sandbox.path("old/TABLES").exists());
    sandbox.ok(&FROM);
    assert!(sandbox.path("new/lsm").is_dir(), "the engine that is the default");
    assert!(entries(&sandbox, "s", "main") == entries(&sandbox, "new", "leveldb"));
}

#[test]
fn a_conversion_from_leveldb_goes_on_after_a_kill() {
    let sandbox = sandbox();
    sandbox.ok(&TO);
    let before = files(&sandbox.path("old"));
    let log = sandbox.path("new.part/new/lsm/00000001.log");
    let arguments = [&FROM[..], &["--engine", "lsm"]].concat();
    let has_some = || fs::metadata(&log).is_ok_and(|meta| meta.len() > 4 << 20);
    let run = stopped(&sandbox, &arguments, Signal::KILL, has_some);
    assert_eq!(run.code, -1, "it was too fast: {}", run.err);
    sandbox.ok(&arguments);
    assert!(entries(&sandbox, "s", "main") == entries(&sandbox, "new", "leveldb"));
    assert_eq!(files(&sandbox.path("old")), before);
    assert!(!sandbox.path("new.part").exists());
}

/// Also one that had come to the comparison.
#[test]
fn a_conversion_that_was_interrupted_keeps_what_it_has() {
    let sandbox = sandbox();
    let current = sandbox.path("old.part/new/CURRENT");
    let run = stopped(&sandbox, &TO, Signal::INT, || current.exists());
    run.is(130).says("is kept in old.part: the same command goes on from there");
    let kept = files(&sandbox.path("old.part/new"));
    sandbox.ok(&TO);
    assert_eq!(files(&sandbox.path("old"))[0], kept[0]);
    let store = sandbox.path("new.part/new/data.hdg");
    let arguments = [&FROM[..], &["--engine", "tree"]].concat();
    let is_whole = || fs::metadata(&store).is_ok_and(|meta| meta.len() > 30 << 20);
    let run = stopped(&sandbox, &arguments, Signal::INT, is_whole);
    run.is(130).says("is kept in new.part: the same command goes on from there");
    assert!(store.exists());
    sandbox.ok(&arguments);
    assert!(entries(&sandbox, "s", "main") == entries(&sandbox, "new", "leveldb"));
}

#[test]
fn what_was_begun_with_something_else_is_left_alone() {
    let sandbox = Sandbox::with(&[("a", "1"), ("b", "2")]);
    sandbox.ok(&TO);
    let begun = |folder: &str| {
        fs::create_dir_all(sandbox.path(folder).join("new")).unwrap();
        sandbox.write(&format!("{folder}/SOURCE"), "another one");
        sandbox.write(&format!("{folder}/new/kept"), "");
    };
    begun("new.part");
    begun("back.part");
    let refused = |arguments: &[&str], part: &str| {
        let run =
            sandbox.run(arguments).is(3).says(&format!("{part} was begun with something else"));
        run.says("then: another one").says("remove that folder");
        assert!(sandbox.path(part).join("new/kept").exists());
    };
    refused(&FROM, "new.part");
    let back = ["convert", "--from", "s", "--to-leveldb", "back"];
    refused(&back, "back.part");
    fs::remove_dir_all(sandbox.path("back.part")).unwrap();
    // What has nothing yet is taken over.
    begun("back.part");
    fs::remove_dir_all(sandbox.path("back.part/new")).unwrap();
    sandbox.ok(&back);
    fs::remove_dir_all(sandbox.path("back")).unwrap();
    // A store that has changed is another source.
    let long: String = (1..900_u64).map(|n| n.wrapping_pow(11).to_string()).collect();
    sandbox.ok(&["put", "s", "long", &long]);
    sandbox.limited("-f 1", &back).is(3).says("back.part/new: file too large");
    sandbox.ok(&["put", "s", "c", "3"]);
    sandbox.run(&back).is(3).says("its source has changed since").says("then: the table main of ");
    // A folder of somebody else's.
    fs::remove_dir_all(sandbox.path("back.part")).unwrap();
    fs::create_dir(sandbox.path("back.part")).unwrap();
    sandbox.write("back.part/mine", "");
    sandbox.run(&back).is(3).says("back.part: there is a file, or a folder that is not empty");
    fs::remove_dir_all(sandbox.path("back.part")).unwrap();
    sandbox.ok(&back);
}

#[test]
fn two_commands_do_not_work_on_the_same_place() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    sandbox.ok(&TO);
    fs::create_dir(sandbox.path("new.part")).unwrap();
    let other = File::create(sandbox.path("new.part/SOURCE")).unwrap();
    other.lock().unwrap();
    let refused = || sandbox.run(&[&FROM[..], &["--timeout", "0.1"]].concat()).is(3);
    let holder = format!("process {} is at work in new.part", std::process::id());
    // A child that another test makes has the file, too, until it runs its program.
    until("the command names its holder", || refused().err.contains(&holder));
    // One that was killed may not be gone at once.
    let command = sandbox.start(&FROM);
    std::thread::sleep(Duration::from_millis(300));
    drop(other);
    Run::from(command.wait_with_output().unwrap()).is(0);
}

#[test]
fn sources_and_targets_that_do_not_fit_are_named() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    sandbox.ok(&TO);
    sandbox.ok(&FROM);
    sandbox.write("file", "");
    fs::create_dir(sandbox.path("empty")).unwrap();
    let refused = |arguments: &[&str], words: &str| {
        sandbox.run(&[&["convert"], arguments].concat()).is(3).says(words);
    };
    refused(
        &["--from-leveldb", "old", "new"],
        "new: there is a file, or a folder that is not empty",
    );
    refused(&["--from-leveldb", "old", "file"], "file: there is a file, or a folder");
    refused(&["--from-leveldb", "empty", "x"], "empty is no database of LevelDB: empty/CURRENT");
    refused(&["--from-leveldb", "file", "x"], "file is no database of LevelDB: file/CURRENT");
    refused(&["--from-leveldb", "none", "x"], "none/CURRENT: No such file");
    refused(&["--from-leveldb", "new", "x"], "new is a database of our library already");
    refused(&["--from", "old", "--to-leveldb", "x"], "old is a database of LevelDB already");
    refused(&["--from", "s", "--to-leveldb", "old"], "old: there is a file, or a folder");
    refused(&["--from", "s", "--to-leveldb", "x", "--table", "none"], "there is no table \"none\"");
    sandbox.ok(&["create", "s", "-t", "pairs", "--duplicates"]);
    refused(&["--from", "s", "--to-leveldb", "x", "--table", "pairs"], "pairs is of another kind");
    for arguments in [&["get", "old", "a"][..], &["create", "old"], &["check", "old"]] {
        sandbox.run(arguments).is(3).says("hedgerow convert --from-leveldb old NEW");
    }
    let both = ["convert", "--from-leveldb", "old", "--to-leveldb", "x"];
    sandbox.run(&both).is(2).says("cannot be used with");
    assert!(!sandbox.path("x").exists());
    assert!(!sandbox.path("x.part").exists());
    // Errors of our library name `salvage`.
    assert!(sandbox.path("new/lsm").exists());
    sandbox.ok(&["salvage", "new", "saved"]);
    let table = |store| entries(&sandbox, store, "leveldb");
    assert_eq!(table("saved"), table("new"));
    // A slash at the end of the target's name is none of its folder's.
    sandbox.ok(&["convert", "--from-leveldb", "old", "slash/"]);
    assert!(sandbox.path("slash/CURRENT").exists());
    assert!(!sandbox.path("slash/.part").exists());
}

#[test]
fn a_source_in_use_is_refused() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    sandbox.ok(&TO);
    let lock = File::create(sandbox.path("old/LOCK")).unwrap();
    fcntl_lock(&lock, FlockOperation::LockExclusive).unwrap();
    sandbox.run(&FROM).is(3).says("old is in use by a program");
    assert!(!sandbox.path("new.part").exists());
    drop(lock);
    sandbox.ok(&FROM);
}

#[test]
fn scarcity_is_an_error_and_the_same_command_goes_on() {
    let sandbox = sandbox();
    let kept = |part: &str| format!("is kept in {part}: the same command goes on from there");
    let limited = |arguments: &[&str], part: &str| {
        sandbox.limited("-f 1000", arguments).is(3).says("ulimit -f").says(&kept(part));
        sandbox.ok(arguments);
    };
    limited(&TO, "old.part");
    limited(&FROM, "new.part");
    fs::remove_dir_all(sandbox.path("new")).unwrap();
    limited(&[&FROM[..], &["--engine", "lsm"]].concat(), "new.part");
    // As a user that may not read all of the source, or not write.
    let mode = |name: &str, bits| {
        fs::set_permissions(sandbox.path(name), Permissions::from_mode(bits)).unwrap();
    };
    mode("", 0o755);
    fs::create_dir(sandbox.path("open")).unwrap();
    mode("open", 0o777);
    let to_open = ["convert", "--from-leveldb", "old", "open/new"];
    sandbox.guest(&["convert", "--from-leveldb", "old", "x"]).is(3).says("x.part: Permission");
    mode("old/000003.ldb", 0o000);
    sandbox.guest(&to_open).is(3).says("old/000003.ldb: Permission").says(&kept("open/new.part"));
    mode("old/000003.ldb", 0o644);
    sandbox.guest(&to_open).is(0);
    assert!(entries(&sandbox, "s", "main") == entries(&sandbox, "open/new", "leveldb"));
}

/// Also one that is copied to again, of which only what is new is copied.
#[test]
fn a_copy_of_our_folder_is_one() {
    let sandbox = Sandbox::with(&[("a", "1"), ("b", "2")]);
    sandbox.ok(&TO);
    for engine in ["tree", "lsm"] {
        let (new, copy) = (format!("new-{engine}"), format!("copy-{engine}"));
        sandbox.ok(&["convert", "--from-leveldb", "old", &new, "--engine", engine]);
        let answer = sandbox.json(&["copy", &new, &copy]);
        assert!(answer["bytes"].as_u64().unwrap() > 0, "{answer}");
        let current = |folder: &str| fs::read(sandbox.path(folder).join("CURRENT")).unwrap();
        assert_eq!(current(&copy), current(&new));
        assert_eq!(entries(&sandbox, &copy, "leveldb"), "a\t1\nb\t2\n");
        sandbox.ok(&["put", &new, "-t", "leveldb", "c", "3"]);
        let again = ["copy", new.as_str(), &copy];
        if engine == "lsm" {
            sandbox.ok(&again);
            assert_eq!(entries(&sandbox, &copy, "leveldb"), "a\t1\nb\t2\nc\t3\n");
        } else {
            sandbox.run(&again).is(3).says("not empty");
        }
        sandbox.ok(&["convert", "--from", &copy, "--to-leveldb", &format!("back-{engine}")]);
        // A folder with something else is left alone.
        fs::create_dir_all(sandbox.path("other")).unwrap();
        sandbox.write("other/kept", "");
        sandbox.run(&["copy", &new, "other"]).is(3).says("not empty");
        assert_eq!(fs::read_dir(sandbox.path("other")).unwrap().count(), 1);
    }
}
