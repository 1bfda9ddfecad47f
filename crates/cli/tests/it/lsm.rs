//! The subcommands over stores of the engine lsm, which they know by their files; what that engine
//! does not have is said; and conversion between the engines.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::sandbox::{Sandbox, until};

/// A store "s" with fruits in its table "main".
fn fruits() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "--engine", "lsm", "s"]);
    let lines = "apple\t1\napricot\t2\nbanana\t3\ncherry\t4\n";
    sandbox.feed(&["load", "s", "--as", "lines"], lines.as_bytes()).is(0);
    sandbox
}

#[test]
fn a_store_is_made_with_its_tables() {
    let sandbox = Sandbox::new();
    let made = sandbox.json(&["create", "--engine", "lsm", "s"]);
    assert_eq!(made["engine"], "lsm");
    sandbox.run(&["create", "--engine", "lsm", "s"]).is(3).says("already");
    sandbox.ok(&["create", "s", "-t", "long", "--separate-from", "100"]);
    sandbox.ok(&["put", "s", "key", "value"]);
    sandbox.run(&["create", "s", "-t", "long"]).is(3).says("exists already");
    let tables = sandbox.json(&["tables", "s"]);
    let expected = json!([
        { "name": "long", "about_keys": 0, "separate_from": 100, "user_flags": 0 },
        { "name": "main", "about_keys": 1, "separate_from": 4096, "user_flags": 0 },
    ]);
    assert_eq!(tables, expected);
    sandbox.run(&["create", "--engine", "lsm", "t", "--page-size", "4096"]).is(2);
    sandbox.run(&["create", "s", "-t", "many", "--duplicates"]).is(3).says("one value a key");
    sandbox.run(&["create", "t", "--separate-from", "1"]).is(2).says("--engine lsm");
    sandbox.check("s");
}

/// A typed table keeps its types on the way to the other engine and back, and in a dump.
#[test]
fn the_types_of_a_table_go_along() {
    use hedgerow::lsm::{Options, TypedKeyspace};
    use hedgerow::tree::{Store, TypedTable};

    let sandbox = Sandbox::new();
    let store = Store::create(sandbox.path("s")).unwrap();
    let mut txn = store.begin_write().unwrap();
    let sizes = TypedTable::<String, u64>::create(&mut txn, "sizes").unwrap();
    sizes.put(&mut txn, "awk", 700).unwrap();
    txn.commit().unwrap();
    drop(store);
    sandbox.ok(&["convert", "--from", "s", "there"]);
    assert!(sandbox.ok(&["tables", "there"]).contains("flags 0x"));
    let dumped = sandbox.ok(&["dump", "there", "--all"]);
    sandbox.ok(&["create", "--engine", "lsm", "loaded"]);
    sandbox.feed(&["load", "loaded"], dumped.as_bytes()).is(0);
    for name in ["there", "loaded"] {
        let db = Options::new().open(sandbox.path(name)).unwrap();
        let sizes = TypedKeyspace::<String, u64>::open(&db, "sizes").unwrap();
        assert_eq!(sizes.get(&db, "awk").unwrap(), Some(700));
    }
    sandbox.ok(&["create", "there", "-t", "plain"]);
    let plain = dumped.replace("sizes", "plain");
    sandbox.feed(&["load", "there"], plain.as_bytes()).is(3).says("with the user flags 0x0, not");
    sandbox.ok(&["convert", "--from", "there", "back"]);
    let txn = Store::open(sandbox.path("back")).unwrap().begin_read().unwrap();
    let sizes = TypedTable::<String, u64>::open(&txn, "sizes").unwrap();
    assert_eq!(sizes.get(&txn, "awk").unwrap(), Some(700));
}

#[test]
fn entries_are_put_got_scanned_and_deleted() {
    let sandbox = fruits();
    assert_eq!(sandbox.ok(&["get", "s", "banana"]), "3\n");
    sandbox.run(&["put", "s", "banana", "9", "--new"]).is(1).says("there already");
    sandbox.ok(&["put", "s", "banana", "33"]);
    sandbox.feed(&["put", "s", "date", "-"], b"raw\0").is(0);
    assert_eq!(sandbox.run(&["get", "s", "date", "--raw"]).is(0).out, b"raw\0");
    assert_eq!(sandbox.json(&["get", "s", "date"]), json!({"found": true, "values": ["raw\\00"]}));
    let missing = sandbox.run(&["get", "s", "fig", "--json"]).is(1).json();
    assert_eq!(missing, json!({"found": false, "values": []}));
    sandbox.run(&["get", "s", "-t", "other", "x"]).is(3).says("the store's tables are: main");
    assert_eq!(sandbox.ok(&["scan", "s", "--prefix", "ap"]), "apple\t1\napricot\t2\n");
    assert_eq!(
        sandbox.ok(&["scan", "s", "--after", "apple", "--to", "banana", "--keys-only"]),
        "apricot\nbanana\n"
    );
    assert_eq!(sandbox.ok(&["scan", "s", "--reverse", "-n", "2", "--keys-only"]), "date\ncherry\n");
    let object = json!([{"key": "banana", "value": "33"}]);
    assert_eq!(sandbox.json(&["scan", "s", "--from", "b", "--before", "c"]), object);
    sandbox.ok(&["delete", "s", "banana"]);
    sandbox.run(&["delete", "s", "banana"]).is(1).says("not found");
    sandbox.run(&["delete", "s", "apple", "1"]).is(2).says("one value a key");
    sandbox.ok(&["delete", "s", "--prefix", "ap"]);
    sandbox.run(&["delete", "s", "--prefix", "ap"]).is(1);
    assert_eq!(sandbox.ok(&["scan", "s", "--keys-only"]), "cherry\ndate\n");
    sandbox.check("s");
}

#[test]
fn counts_are_estimates_and_only_when_asked_for() {
    let sandbox = fruits();
    sandbox.run(&["count", "s"]).is(3).says("--estimate");
    assert_eq!(sandbox.ok(&["count", "s", "--estimate"]), "4\n");
    assert_eq!(sandbox.json(&["count", "s", "--estimate", "--prefix", "ap"]), json!({"about": 2}));
    for tree_only in [&["rank", "s", "apple"][..], &["nth", "s", "1"], &["sample", "s", "2"]] {
        sandbox.run(tree_only).is(3).says("hedgerow convert");
    }
}

#[test]
fn a_store_is_described_checked_and_compacted() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "--engine", "lsm", "s"]);
    let lines: String = (0..5_000).map(|n| format!("{n:06}\tvalue {n}\n")).collect();
    sandbox.feed(&["load", "s", "--as", "lines"], lines.as_bytes()).is(0);
    let compacted = sandbox.json(&["compact", "s"]);
    let bytes = |when: &str| compacted[when].as_u64().unwrap();
    assert!(
        bytes("before") > 100_000 && (1..bytes("before")).contains(&bytes("after")),
        "{compacted}"
    );
    let stat = sandbox.json(&["stat", "s"]);
    assert_eq!(stat["engine"], "lsm");
    assert_eq!(stat["levels"][6]["entries"], 5_001, "and the name of the table");
    assert_eq!(stat["tables"][0]["name"], "main");
    let text = sandbox.ok(&["stat", "s"]);
    assert!(text.contains("level 6") && text.contains("engine          lsm"), "{text}");
    let page = sandbox.ok(&["stat", "s", "--html", "-"]);
    assert!(page.contains(">level 6: 1 table file, ") && page.contains("5,001 entries"), "{page}");
    assert!(page.contains(">main</h3>") && !page.contains("<text"), "{page}");
    let check = sandbox.json(&["check", "s"]);
    assert_eq!((&check["sound"], &check["entries"]), (&json!(true), &json!(5_001)));
    let table = std::fs::read_dir(sandbox.path("s")).unwrap().map(|file| file.unwrap().path());
    let table = table.filter(|path| path.extension().is_some_and(|kind| kind == "table"));
    let table = table.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let report = sandbox.run(&["check", "s", "--json"]).is(1).json();
    let problem = report["problems"][0].as_str().unwrap();
    assert!(problem.contains(table.file_name().unwrap().to_str().unwrap()), "{problem}");
}

#[test]
fn what_is_dumped_is_loaded() {
    let sandbox = fruits();
    sandbox.ok(&["put", "s", "-t", "other", "--create-table", "k\\00", "v\\ff"]);
    for portable in ["mdb", "lines", "csv", "jsonl"] {
        sandbox.ok(&["dump", "s", "dump", "--as", portable, "--force"]);
        sandbox.ok(&["create", "--engine", "lsm", portable]);
        let loaded = sandbox.json(&["load", portable, "dump", "--as", portable]);
        assert_eq!(loaded["entries"], 4);
        assert_eq!(sandbox.ok(&["scan", portable]), sandbox.ok(&["scan", "s"]));
    }
    sandbox.ok(&["dump", "s", "all", "--all"]);
    sandbox.ok(&["create", "--engine", "lsm", "t"]);
    sandbox.ok(&["load", "t", "all"]);
    assert_eq!(sandbox.ok(&["scan", "t", "-t", "other"]), "k\\00\tv\\ff\n");
    // A dump does not say which engine it is of.
    sandbox.ok(&["load", "tree", "all"]);
    assert_eq!(sandbox.ok(&["scan", "tree"]), sandbox.ok(&["scan", "s"]));
    assert_eq!(sandbox.ok(&["count", "tree"]), "4\n");
    let kept =
        sandbox.feed(&["load", "s", "--as", "lines", "--keep", "--json"], b"apple\t9\nfig\t5\n");
    assert_eq!(kept.is(0).json(), json!({"entries": 1, "kept": 1, "tables": 1}));
    assert_eq!(sandbox.ok(&["get", "s", "apple"]), "1\n");
}

#[test]
fn what_was_kept_and_committed_before_an_error_is_said() {
    let sandbox = fruits();
    let input = b"apple\tother\nfig\t5\nfig\t6\nnonsense\n";
    let run = sandbox.feed(&["load", "s", "--as", "lines", "--keep"], input).is(3);
    run.says("1 entries, up to line 2 of the input, are committed");
    assert_eq!(sandbox.ok(&["get", "s", "fig"]), "5\n");
}

#[test]
fn a_load_that_fails_leaves_no_table_without_entries() {
    let sandbox = fruits();
    let before = sandbox.ok(&["tables", "s"]);
    let bad = "fig\t1\nno value\n";
    let load = sandbox.feed(&["load", "s", "-t", "new", "--as", "lines"], bad.as_bytes());
    load.is(3).says("nothing of this input was committed; what was in the store before is");
    assert_eq!(sandbox.ok(&["tables", "s"]), before);
    // What was committed stays, with its table; and so do tables that were there.
    let (some, more) = ("fig\t1\n".repeat(300_000), "fig\t1\n");
    let load = ["load", "s", "-t", "new", "--as", "lines"];
    sandbox.feed(&load, format!("{some}no value\n").as_bytes()).is(3).says("are committed");
    sandbox.ok(&["create", "s", "--table", "empty"]);
    let bad = format!("{more}no value\n");
    sandbox.feed(&["load", "s", "-t", "empty", "--as", "lines"], bad.as_bytes()).is(3);
    let tables = sandbox.json(&["tables", "s"]);
    let names: Vec<_> = tables.as_array().unwrap().iter().map(|table| &table["name"]).collect();
    assert_eq!(names, ["empty", "main", "new"]);
}

#[test]
fn what_could_not_be_made_is_no_hindrance() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("s")).unwrap();
    sandbox.write("s/LOCK", "");
    sandbox.ok(&["create", "--engine", "lsm", "s"]);
    sandbox.check("s");
}

#[test]
fn tables_that_only_the_tree_has_are_refused() {
    let sandbox = fruits();
    sandbox.ok(&["create", "tree", "-t", "many", "--duplicates"]);
    sandbox.ok(&["put", "tree", "-t", "many", "a", "1"]);
    sandbox.ok(&["dump", "tree", "dump", "-t", "many"]);
    sandbox.run(&["load", "s", "dump"]).is(3).says("table many is another kind");
    sandbox.run(&["load", "s", "dump", "--as", "lines", "--order", "reverse"]).is(3);
    sandbox.run(&["convert", "--from", "tree", "new"]).is(3).says("table many is another kind");
    assert!(!sandbox.path("new").exists());
}

#[test]
fn stores_are_converted_both_ways() {
    let sandbox = Sandbox::new();
    let lines: String = (0..3_000).map(|n| format!("{n:06}\t{}\n", "v".repeat(n % 90))).collect();
    sandbox.feed(&["load", "tree", "--as", "lines"], lines.as_bytes()).is(0);
    sandbox.ok(&["put", "tree", "-t", "empty \\00 name", "--create-table", "a", "b"]);
    sandbox.ok(&["delete", "tree", "-t", "empty \\00 name", "a"]);
    let tables = json!({"tables": [
        {"name": "empty \\00 name", "values": 0}, {"name": "main", "values": 3_000},
    ]});
    assert_eq!(sandbox.json(&["convert", "--from", "tree", "lsm"]), tables);
    assert_eq!(sandbox.json(&["stat", "lsm"])["engine"], "lsm");
    assert_eq!(sandbox.ok(&["scan", "lsm"]), sandbox.ok(&["scan", "tree"]));
    assert_eq!(sandbox.json(&["convert", "--from", "lsm", "again"]), tables);
    assert_eq!(sandbox.ok(&["scan", "again"]), sandbox.ok(&["scan", "tree"]));
    assert_eq!(sandbox.ok(&["nth", "again", "1"]), "000001\tv\n");
    sandbox.check("lsm");
    sandbox.check("again");
    sandbox.run(&["convert", "--from", "tree", "lsm"]).is(3);
    sandbox.run(&["convert", "--from", "nothing", "new"]).is(3).says("no store at nothing");
    sandbox.run(&["convert", "new"]).is(2);
}

#[test]
fn a_copy_takes_what_is_new() {
    let sandbox = fruits();
    let copied = sandbox.json(&["copy", "s", "backup"]);
    assert_eq!(copied["copied_files"], copied["files"]);
    sandbox.ok(&["put", "s", "fig", "5"]);
    sandbox.ok(&["compact", "s"]);
    sandbox.ok(&["put", "s", "grape", "6"]);
    sandbox.ok(&["copy", "s", "backup"]);
    let again = sandbox.json(&["copy", "s", "backup"]);
    assert!(again["copied_bytes"].as_u64() < again["bytes"].as_u64(), "{again}");
    assert_eq!(sandbox.ok(&["scan", "backup"]), sandbox.ok(&["scan", "s"]));
    sandbox.check("backup");
    sandbox.ok(&["put", "backup", "date", "7"]);
    sandbox.run(&["copy", "s", "backup"]).is(3).says("opened as one since");
    sandbox.run(&["copy", "s", "-"]).is(2);
    sandbox.run(&["copy", "s", "t", "--compact"]).is(2);
}

/// Every subcommand that only reads, with what it needs besides.
const READING: [&[&str]; 9] = [
    &["get", "s", "apple"],
    &["scan", "s"],
    &["count", "s", "--estimate"],
    &["tables", "s"],
    &["stat", "s"],
    &["check", "s"],
    &["dump", "s", "-"],
    &["copy", "s", "../copy"],
    &["convert", "--from", "s", "../tree"],
];

/// What is in a folder, by name and content.
fn files(folder: &std::path::Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> =
        entries.map(|file| (file.file_name(), std::fs::read(file.path()).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn reading_writes_nothing() {
    let sandbox = fruits();
    let before = files(&sandbox.path("s"));
    for (number, arguments) in READING.into_iter().enumerate() {
        let targets = [format!("copy{number}"), format!("tree{number}")];
        let here = arguments.iter().map(|&argument| match argument {
            "../copy" => targets[0].as_str(),
            "../tree" => targets[1].as_str(),
            other => other,
        });
        sandbox.ok(&here.collect::<Vec<_>>());
        assert!(files(&sandbox.path("s")) == before, "{arguments:?} changed the store");
    }
    assert_eq!(sandbox.ok(&["scan", "copy7"]), sandbox.ok(&["scan", "s"]));
    assert_eq!(sandbox.ok(&["scan", "tree8"]), sandbox.ok(&["scan", "s"]));
}

#[test]
fn a_folder_that_may_not_be_written_is_read() {
    let sandbox = fruits();
    let mode = |name: &str, bits| {
        let bits = std::fs::Permissions::from_mode(bits);
        std::fs::set_permissions(sandbox.path(name), bits).unwrap();
    };
    for file in std::fs::read_dir(sandbox.path("s")).unwrap() {
        mode(&format!("s/{}", file.unwrap().file_name().to_str().unwrap()), 0o444);
    }
    mode("", 0o755);
    for has_lock in [true, false] {
        if !has_lock {
            std::fs::remove_file(sandbox.path("s/LOCK")).unwrap();
        }
        mode("s", 0o555);
        sandbox.guest(&["get", "s", "apple"]).is(0);
        let check = sandbox.guest(&["check", "s"]).is(0).text();
        assert!(check.contains("all is well"), "{check}");
        let put = sandbox.guest(&["put", "s", "apple", "2"]);
        put.is(3).says("ermission denied");
        mode("s", 0o755);
    }
}

/// A disk of its own, where the system lets us mount one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_read() {
    let sandbox = fruits();
    let script = r#"
        h=$1; mkdir disk; mount -t tmpfs -o size=6m none disk || exit 77
        cp -r s disk/s; cd disk
        fill() { dd if=/dev/zero of=$1 bs=4k || dd if=/dev/zero of=$1+ bs=1 || true; } 2>/dev/null
        long=$(printf %0100000d 1)
        set -e
        # An opening may find room in what it cuts off.
        for n in $(seq 60); do fill fill$n; $h put s k $long || break; done
        [ $n -lt 60 ]
        for n in 1 2 3; do
            ls s >../before
            if $h put s k $long; then exit 4; fi
            ls s >../behind; cmp ../before ../behind
        done
        mount -o remount,ro .
        [ "$($h get s apple)" = 1 ]
        $h scan s; $h count s --estimate; $h tables s; $h stat s; $h check s; $h dump s -
        $h copy s ../copy; $h convert --from s ../tree
        if $h put s k v; then exit 5; fi
        mount -o remount,rw .
        rm fill*
        $h put s k v
        [ "$($h get s k)" = v ]
    "#;
    let mut shell = std::process::Command::new("unshare");
    shell.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    shell.arg(env!("CARGO_BIN_EXE_hedgerow")).current_dir(sandbox.path(""));
    let Ok(output) = shell.output() else { return };
    let run = crate::sandbox::Run::from(output);
    if run.code == 77 || run.err.contains("unshare") {
        return; // No mounts for us.
    }
    run.is(0).says("make room").says("Read-only file system");
}

#[test]
fn a_damaged_store_is_salvaged() {
    let sandbox = fruits();
    let sound = sandbox.ok(&["salvage", "s", "sound"]);
    assert!(sound.contains("1 tables, 4 entries brought over: nothing was lost"), "{sound}");
    assert_eq!(sandbox.ok(&["scan", "sound"]), sandbox.ok(&["scan", "s"]));
    sandbox.run(&["salvage", "s", "sound"]).is(3).says("something is there already");
    sandbox.ok(&["compact", "s"]);
    sandbox.ok(&["put", "s", "fig", "5"]);
    let manifest = std::fs::read(sandbox.path("s/MANIFEST")).unwrap();
    sandbox.write("s/MANIFEST", "");
    sandbox.run(&["get", "s", "apple"]).is(3).says("hedgerow salvage");
    std::fs::remove_file(sandbox.path("s/MANIFEST")).unwrap();
    for arguments in [&["get", "s", "apple"][..], &["put", "s", "a", "1"], &["check", "s"]] {
        let run = sandbox.run(arguments).is(3).says("hedgerow salvage");
        assert!(!run.err.contains("hedgerow create"), "{}", run.err);
    }
    sandbox.run(&["create", "s", "--engine", "lsm"]).is(3);
    let report = sandbox.run(&["salvage", "s", "new", "--json"]).is(1).json();
    assert_eq!((&report["entries"], &report["complete"]), (&json!(5), &json!(false)));
    let lost = &report["lost"][0];
    assert!(lost["file"].as_str().unwrap().ends_with("MANIFEST"), "{report}");
    sandbox.write("s/MANIFEST", manifest);
    assert_eq!(sandbox.ok(&["scan", "new"]), sandbox.ok(&["scan", "s"]));
    sandbox.check("new");
    let told = sandbox.run(&["salvage", "none", "other"]).is(3);
    assert!(!sandbox.path("other").exists(), "{}", told.err);
}

/// Puts by a process each: the log goes on in one file.
#[test]
fn many_single_puts_leave_few_files() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "--engine", "lsm", "s"]);
    for number in 0..60 {
        sandbox.ok(&["put", "s", &number.to_string(), "value"]);
    }
    let files = std::fs::read_dir(sandbox.path("s")).unwrap().count();
    assert!(files <= 6, "{files} files");
    assert_eq!(sandbox.ok(&["scan", "s"]).lines().count(), 60);
    let stat = sandbox.json(&["stat", "s"]);
    assert!(stat["log_bytes"].as_u64().unwrap() > 60 * 40, "{stat}");
    sandbox.check("s");
}

/// A command that waits for a store that another process has open says which process that is.
#[test]
fn a_store_that_another_process_has_is_waited_for() {
    let sandbox = fruits();
    let db = hedgerow::lsm::Db::open(sandbox.path("s")).unwrap();
    sandbox.run(&["get", "s", "apple"]).is(3).says("open");
    let holder = format!("process {} has the store open; gave up", std::process::id());
    for arguments in [&["get", "s", "apple"][..], &["put", "s", "fig", "6"]] {
        let run = || sandbox.run(&[arguments, &["--timeout", "0.1"]].concat()).is(3);
        run().says("gave up");
        if cfg!(target_os = "linux") {
            // A child that another test makes has the file, too, until it runs its program.
            until("the command names its holder", || run().err.contains(&holder));
        }
    }
    let mut waits = sandbox.start(&["put", "s", "fig", "6", "--timeout", "60"]);
    let mut said = String::new();
    BufReader::new(waits.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("waiting for ") && said.contains("has the store open"), "{said}");
    db.close().unwrap();
    assert!(waits.wait().unwrap().success());
    assert_eq!(sandbox.ok(&["get", "s", "fig"]), "6\n");
}
