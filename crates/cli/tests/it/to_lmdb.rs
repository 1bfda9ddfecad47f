//! convert --to-lmdb: LMDB's own tools (Debian's lmdb-utils) find in the new environment what the
//! store has, and change it; back again it is the same store.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{Run, Sandbox};

/// Tables of every kind: a name, and the lines that a dump's header has for it.
const KINDS: [(&str, &[&str]); 8] = [
    ("main", &[]),
    ("any", &["dupsort=1"]),
    ("ends", &["reversekey=1"]),
    ("fixed", &["dupsort=1", "dupfixed=1"]),
    ("integers", &["integerkey=1"]),
    ("numbers", &["dupsort=1", "dupfixed=1", "integerdup=1"]),
    ("plain", &[]),
    ("tails", &["dupsort=1", "reversedup=1"]),
];

/// The pairs of each table, as a dump writes them; the main one's name is empty.
type Pairs = BTreeMap<String, Vec<String>>;

/// Whether the original tools are there; where tests may not be skipped they must be.
fn has_original() -> bool {
    let found = Path::new("/usr/bin/mdb_stat").exists();
    assert!(found || std::env::var_os("CI").is_none(), "apt-get install lmdb-utils");
    found
}

/// Runs one of LMDB's own tools, which must succeed.
#[track_caller]
fn original(sandbox: &Sandbox, tool: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(format!("/usr/bin/mdb_{tool}"));
    command.args(arguments).current_dir(sandbox.path(""));
    Run::from(command.output().unwrap()).is(0).text()
}

/// Entry number `n` of a table: of those with several values a key has from one to thousands.
fn entry(name: &str, n: u32) -> (Vec<u8>, Vec<u8>) {
    let digits = |n: u32| format!("{n:07}").into_bytes();
    // 1, 2, 4, 8, ... values a key, and over again.
    let key = (n % 16_383 + 1).ilog2() + n / 16_383 * 16;
    let value = n.wrapping_mul(0x9E37_79B1);
    match name {
        "integers" => (n.to_ne_bytes().to_vec(), digits(n)),
        "any" => (digits(key), [digits(value), vec![b'v'; n as usize % 80]].concat()),
        "fixed" => (digits(key), value.to_be_bytes().to_vec()),
        "numbers" => (digits(key), u64::from(value).to_ne_bytes().to_vec()),
        "tails" => (digits(key), value.to_string().into_bytes()),
        _ => (digits(n), vec![b'v'; n as usize % 50 + long(n)]),
    }
}

/// How long a value is that needs pages of its own; 0 of others.
fn long(n: u32) -> usize {
    match n {
        999 => 3 << 20,
        n if n.is_multiple_of(503) => 3000 + n as usize % 9000,
        _ => 0,
    }
}

/// A dump of tables, each of which has the entries of these numbers.
fn dump(counts: std::ops::Range<u32>) -> String {
    let mut text = String::new();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for (name, flags) in KINDS {
        text.push_str("VERSION=3\nformat=bytevalue\n");
        if name != "main" {
            writeln!(text, "database={name}").unwrap();
        }
        text.push_str("type=btree\nmapsize=1073741824\n");
        flags.iter().for_each(|flag| writeln!(text, "{flag}").unwrap());
        text.push_str("HEADER=END\n");
        for n in counts.clone() {
            let (key, value) = entry(name, n);
            writeln!(text, " {}\n {}", hex(&key), hex(&value)).unwrap();
        }
        text.push_str("DATA=END\n");
    }
    text
}

/// What a dump has, without the records of named databases in the main one.
fn pairs(dump: &str) -> Pairs {
    let (mut pairs, mut name) = (Pairs::new(), String::new());
    let mut lines = dump.lines();
    while let Some(line) = lines.next() {
        match line.split_once('=') {
            Some(("VERSION", _)) => name = String::new(),
            Some(("database", named)) => name = named.to_owned(),
            Some(("HEADER", _)) => {
                let of_table = pairs.entry(name.clone()).or_default();
                while let Some(key) = lines.next().filter(|line| line.starts_with(' ')) {
                    let name = String::from_utf8_lossy(&unhex(key)).into_owned();
                    let value = lines.next().unwrap();
                    if !KINDS.iter().any(|(table, _)| *table == name) {
                        of_table.push(format!("{key}{value}"));
                    }
                }
            }
            _ => {}
        }
    }
    pairs
}

fn unhex(line: &str) -> Vec<u8> {
    let digits = line.trim().as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// What LMDB's own tool finds in an environment.
fn found(sandbox: &Sandbox, folder: &str) -> Pairs {
    let mut all = pairs(&original(sandbox, "dump", &["-a", folder]));
    all.append(&mut pairs(&original(sandbox, "dump", &[folder])));
    all
}

/// What a store has.
fn ours(sandbox: &Sandbox, store: &str) -> Pairs {
    pairs(&sandbox.ok(&["dump", store, "--all"]))
}

#[track_caller]
fn same(a: &Pairs, b: &Pairs) {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (name, pairs) in a {
        assert!(*pairs == b[name], "{name} differs");
    }
}

#[test]
fn tables_of_all_kinds_are_found_by_lmdb() {
    if !has_original() {
        return;
    }
    for count in [0, 1, 2, 1000, 50_000] {
        let sandbox = Sandbox::new();
        sandbox.feed(&["load", "s"], dump(0..count).as_bytes()).is(0);
        let report = sandbox.json(&["convert", "--from", "s", "--to-lmdb", "new"]);
        assert_eq!(report["tables"].as_array().unwrap().len(), KINDS.len());
        let source = ours(&sandbox, "s");
        same(&found(&sandbox, "new"), &source);
        let stat = original(&sandbox, "stat", &["-ae", "new"]);
        for (name, _) in &KINDS[1..] {
            let (_, of_table) = stat.split_once(&format!("Status of {name}\n")).unwrap();
            let entries = of_table.split("Entries: ").nth(1).unwrap().lines().next().unwrap();
            assert_eq!(entries, source[*name].len().to_string(), "{name}");
        }
        assert_eq!(source["numbers"].len(), count as usize);
        // Back again, and once more there: nothing is lost on the way.
        sandbox.ok(&["convert", "--from-lmdb", "new", "back"]);
        sandbox.ok(&["convert", "--from", "back", "--to-lmdb", "again"]);
        let data = |folder: &str| fs::read(sandbox.path(folder).join("data.mdb")).unwrap();
        assert!(data("new") == data("again"), "{count}");
        if count > 0 {
            same(&ours(&sandbox, "back"), &source);
            let orders = sandbox.json(&["tables", "back"]);
            let text = orders.to_string();
            assert!(text.contains("\"reverse\"") && text.contains("\"integer\""), "{text}");
        }
        let left: Vec<_> = fs::read_dir(sandbox.path("again")).unwrap().collect();
        assert_eq!(left.len(), 1, "only data.mdb");
    }
}

#[test]
fn all_pages_are_counted() {
    if !has_original() {
        return;
    }
    let sandbox = Sandbox::new();
    let lines: String = (0..30_000).map(|n| format!("{n:06}\t{}\n", "v".repeat(long(n)))).collect();
    for table in ["main", "other"] {
        sandbox.feed(&["load", "s", "-t", table, "--as", "lines"], lines.as_bytes()).is(0);
    }
    sandbox.ok(&["convert", "--from", "s", "--to-lmdb", "new"]);
    let stat = original(&sandbox, "stat", &["-aef", "new"]);
    let number = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let sum = |what: &str| stat.lines().filter(|line| line.contains(what)).map(number).sum();
    let (pages, free): (u64, u64) = (sum("Number of pages used:"), sum("Free pages:"));
    let counted: u64 = ["Branch pages:", "Leaf pages:", "Overflow pages:"].map(sum).iter().sum();
    assert_eq!((counted + 2, free), (pages, 0), "{stat}");
    let bytes = fs::metadata(sandbox.path("new/data.mdb")).unwrap().len();
    assert_eq!(bytes, pages * 4096);
    assert!(sum("Map size:") >= bytes && sum("Map size:") < bytes + (1 << 20), "{stat}");
}

#[test]
fn lmdb_adds_to_what_was_written() {
    if !has_original() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.feed(&["load", "s"], dump(0..3000).as_bytes()).is(0);
    sandbox.ok(&["convert", "--from", "s", "--to-lmdb", "new"]);
    let more = dump(3000..20_000);
    sandbox.write("more", &more);
    original(&sandbox, "load", &["-f", "more", "new"]);
    sandbox.feed(&["load", "s", "-"], more.as_bytes()).is(0);
    same(&found(&sandbox, "new"), &ours(&sandbox, "s"));
}

#[test]
fn a_store_of_the_other_engine_is_converted() {
    if !has_original() {
        return;
    }
    let sandbox = Sandbox::with(&[("a", "1"), ("b", ""), ("c", "3")]);
    sandbox.feed(&["load", "s", "-t", "plain", "--as", "lines"], b"x\ty\n").is(0);
    sandbox.ok(&["convert", "--from", "s", "lsm"]);
    let text = sandbox.ok(&["convert", "--from", "lsm", "--to-lmdb", "new"]);
    assert!(text.starts_with("main: 3 entries on both sides, hash "), "{text}");
    same(&found(&sandbox, "new"), &ours(&sandbox, "s"));
    // Another table as the main database.
    let arguments = ["convert", "--from", "s", "--to-lmdb", "x", "--main-table", "plain"];
    sandbox.ok(&arguments);
    assert_eq!(pairs(&original(&sandbox, "dump", &["-s", "main", "x"]))["main"].len(), 3);
    let arguments = ["convert", "--from", "s", "y", "--main-table", "plain"];
    sandbox.run(&arguments).is(2).says("--main-table is for");
}

#[test]
fn what_lmdb_cannot_hold_is_named_and_nothing_is_left() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    let refused = |store: &str, words: &str| {
        let run = sandbox.run(&["convert", "--from", store, "--to-lmdb", "new"]).is(3);
        run.says("LMDB cannot h").says(words);
        assert!(!sandbox.path("new").exists() && !sandbox.path("new.part").exists());
    };
    let long = "k".repeat(512);
    let load = |store: &str, table: &str, line: &str| {
        sandbox.feed(&["load", store, "-t", table, "--as", "lines"], line.as_bytes()).is(0);
    };
    load("long", "keys", &format!("{long}\tv\n"));
    refused("long", &format!("\"{long}\" of the table keys: it has more than 511 bytes"));
    load("empty", "keys", "\tv\n");
    refused("empty", "the key \"\" of the table keys: it is empty");
    sandbox.ok(&["create", "pairs", "-t", "several", "--duplicates"]);
    load("pairs", "several", &format!("a\t{long}\n"));
    refused("pairs", "the key \"a\" of the table several");
    load("clash", "name", "a\tb\n");
    load("clash", "main", "name\tb\n");
    refused("clash", "the key \"name\" of the table main: a table has this name");
    sandbox.ok(&["create", "zero", "-t", "a\\00b"]);
    refused("zero", "a\\00b\": it has a zero byte");
    let flags = "VERSION=3\nhedgerow_user_flags=7\nHEADER=END\nDATA=END\n";
    sandbox.feed(&["load", "flags"], flags.as_bytes()).is(0);
    refused("flags", "the table main: it has user flags (0x7)");
    // Targets and sources.
    let convert = |from: &str, to: &str, words: &str| {
        sandbox.run(&["convert", "--from", from, "--to-lmdb", to]).is(3).says(words);
    };
    convert("s", "long", "long: there is a file, or a folder that is not empty");
    convert("none", "new", "there is no store at none");
    sandbox.run(&["convert", "--to-lmdb", "new"]).is(2);
    sandbox.ok(&["convert", "--from", "s", "--to-lmdb", "lmdb"]);
    convert("lmdb", "new", "LMDB data file");
    assert!(!sandbox.path("new").exists() && !sandbox.path("new.part").exists());
}

#[test]
fn a_conversion_that_was_killed_begins_anew() {
    let sandbox = Sandbox::new();
    let line = |n: u32| format!("{n:09}\t{}\n", "value ".repeat(80));
    let lines: String = (0..60_000).map(line).collect();
    sandbox.feed(&["load", "s", "--as", "lines"], lines.as_bytes()).is(0);
    let convert = ["convert", "--from", "s", "--to-lmdb", "new"];
    let limited = sandbox.limited("-f 1000", &convert).is(3);
    limited.says("ulimit -f");
    assert!(!sandbox.path("new.part").exists());
    let data = sandbox.path("new.part/new/data.mdb");
    for signal in [Signal::INT, Signal::KILL] {
        let mut child = sandbox.start(&convert);
        while fs::metadata(&data).map_or(0, |meta| meta.len()) < 4 << 20 {
            assert!(child.try_wait().unwrap().is_none(), "it was too fast");
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let run = Run::from(child.wait_with_output().unwrap());
        assert_eq!(run.code, if signal == Signal::INT { 130 } else { -1 }, "{}", run.err);
        assert_eq!(sandbox.path("new.part").exists(), signal == Signal::KILL);
    }
    assert!(!sandbox.path("new").exists());
    sandbox.ok(&convert);
    assert!(!sandbox.path("new.part").exists());
    sandbox.ok(&["convert", "--from-lmdb", "new", "back"]);
    let sum = |store: &str| sandbox.run(&["dump", store, "out", "--force", "--sum"]).is(0).err;
    assert_eq!(sum("s"), sum("back"));
}
