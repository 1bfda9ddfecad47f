//! dump and load: every format there and back, options of tables, and what an error leaves.

use std::io::{Read as _, Write as _};

use crate::sandbox::{Sandbox, until};

const FORMATS: [&[&str]; 10] = [
    &["--as", "mdb"],
    &["--as", "mdb", "--print"],
    &["--as", "lines"],
    &["--as", "lines", "--format", "hex"],
    &["--as", "csv", "--format", "text"],
    &["--as", "csv", "--format", "raw"],
    &["--as", "csv", "--key-format", "base64", "--value-format", "hex"],
    &["--as", "jsonl"],
    &["--as", "jsonl", "--format", "text"],
    &["--as", "jsonl", "--value-format", "hex"],
];

/// A table "main" with every byte, commas, quotes, line ends, and empty values.
fn binary() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "s"]);
    let mut lines = String::new();
    for byte in 0..=255_u8 {
        lines.push_str(&format!("6b{byte:02x}0a2c22\t{byte:02x}0d0a09{byte:02x}5c\n"));
    }
    lines.push_str("656d707479\t\n");
    sandbox.feed(&["load", "s", "--as", "lines", "--format", "hex"], lines.as_bytes()).is(0);
    sandbox
}

fn scan(sandbox: &Sandbox, store: &str, table: &str) -> String {
    sandbox.ok(&["scan", store, "-t", table, "--format", "hex"])
}

#[test]
fn every_format_goes_there_and_back() {
    let sandbox = binary();
    let original = scan(&sandbox, "s", "main");
    assert_eq!(original.lines().count(), 257);
    for (index, arguments) in FORMATS.iter().enumerate() {
        let dump = sandbox.run(&[&["dump", "s"], *arguments].concat()).is(0).out;
        let store = format!("copy{index}");
        let without_print = arguments.iter().filter(|argument| **argument != "--print");
        let load: Vec<&str> = ["load", &store].into_iter().chain(without_print.copied()).collect();
        sandbox.feed(&load, &dump).is(0);
        assert_eq!(scan(&sandbox, &store, "main"), original, "{arguments:?}");
        sandbox.check(&store);
    }
}

#[test]
fn a_dump_and_a_load_of_the_same_entries_have_the_same_sum() {
    let sandbox = binary();
    let sum = "table main: 257 entries, checksum";
    let dumped = sandbox.run(&["dump", "s", "d.jsonl", "--as", "jsonl", "--sum"]).is(0).says(sum);
    for engine in ["tree", "lsm"] {
        sandbox.ok(&["create", engine, "--engine", engine]);
        let loaded = sandbox.run(&["load", engine, "d.jsonl", "--as", "jsonl", "--sum"]).is(0);
        assert_eq!(loaded.err, dumped.err);
        assert_eq!(sandbox.run(&["dump", engine, "--sum"]).is(0).err, dumped.err);
        sandbox.ok(&["put", engine, "another", "value"]);
        assert_ne!(sandbox.run(&["dump", engine, "--sum"]).is(0).err, dumped.err);
    }
    let told = sandbox.ok(&["load", "other", "d.jsonl", "--as", "jsonl", "--sum", "--json"]);
    assert!(told.contains(r#""sums":[{"checksum":""#), "{told}");
}

#[test]
fn files_do_as_well_as_pipes() {
    let sandbox = binary();
    sandbox.ok(&["dump", "s", "dump.txt"]);
    sandbox.ok(&["load", "copy", "dump.txt"]);
    assert_eq!(scan(&sandbox, "copy", "main"), scan(&sandbox, "s", "main"));
    sandbox.run(&["load", "copy", "missing.txt"]).is(3).says("missing.txt");
    sandbox.run(&["dump", "s", "missing/dump.txt"]).is(3).says("missing/dump.txt");
}

#[test]
fn json_asks_dump_for_json_lines() {
    let sandbox = Sandbox::with(&[("a", "1"), ("b", "2")]);
    let out = sandbox.ok(&["dump", "s", "--json"]);
    assert_eq!(out, "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",\"value\":\"2\"}\n");
}

#[test]
fn all_tables_keep_their_options() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    sandbox.ok(&["create", "s", "-t", "z-many", "--duplicates", "--value-order", "reverse"]);
    sandbox.ok(&["put", "s", "-t", "z-many", "k", "ab"]);
    sandbox.ok(&["put", "s", "-t", "z-many", "k", "ba"]);
    sandbox.ok(&["create", "s", "-t", "a-fixed", "--duplicates", "--value-size", "2"]);
    sandbox.ok(&["put", "s", "-t", "a-fixed", "k", "xy"]);
    sandbox.ok(&["create", "s", "-t", "numbers\\0a", "--order", "integer"]);
    sandbox.ok(&["put", "s", "-t", "numbers\\0a", "--format", "hex", "01000000", "00"]);
    let dump = sandbox.run(&["dump", "s", "--all"]).is(0).out;
    sandbox.feed(&["load", "copy"], &dump).is(0);
    assert_eq!(sandbox.json(&["tables", "copy"]), sandbox.json(&["tables", "s"]));
    for table in ["main", "z-many", "a-fixed", "numbers\\0a"] {
        assert_eq!(scan(&sandbox, "copy", table), scan(&sandbox, "s", table), "{table}");
    }
    sandbox.run(&["dump", "s", "--all", "--as", "csv"]).is(2);
    sandbox.run(&["dump", "s", "--all", "-t", "main"]).is(2);
}

#[test]
fn a_dump_of_mdb_dump_is_loaded() {
    let dump = "VERSION=3\nformat=print\ndatabase=many\ntype=btree\nmapsize=1048576\n\
                mapaddr=0x7f5200000000\nmaxreaders=126\nduplicates=1\ndupsort=1\ndupfixed=1\n\
                integerdup=1\ndb_pagesize=4096\nHEADER=END\n k\\5ck\n \\02\\00\\00\\00\n k\\5ck\n \
                \\01\\00\\00\\00\nDATA=END\n";
    let sandbox = Sandbox::new();
    sandbox.feed(&["load", "s"], dump.as_bytes()).is(0);
    let tables = sandbox.json(&["tables", "s"]);
    assert_eq!(tables[0]["name"], "many");
    assert_eq!(tables[0]["value_size"], 4);
    assert_eq!(tables[0]["value_order"], "integer");
    let values = sandbox.ok(&["get", "s", "-t", "many", "k\\\\k"]);
    assert_eq!(values, "\\01\\00\\00\\00\n\\02\\00\\00\\00\n");
}

#[test]
fn an_order_of_another_program_needs_one_of_ours() {
    let dump = "VERSION=3\nformat=print\ntype=btree\nhedgerow_order=by tail\nHEADER=END\n b\n 1\n \
                a\n 2\nDATA=END\n";
    let sandbox = Sandbox::new();
    sandbox.feed(&["load", "s"], dump.as_bytes()).is(3).says("by tail");
    sandbox.feed(&["load", "s", "--order", "bytewise"], dump.as_bytes()).is(0);
    assert_eq!(sandbox.ok(&["scan", "s"]), "a\t2\nb\t1\n");
}

#[test]
fn a_malformed_input_leaves_what_was_there() {
    let sandbox = Sandbox::with(&[("a", "old")]);
    for (format, input, line) in [
        ("lines", "a\tnew\nb\t1\nnonsense\n", "line 3"),
        ("lines", "a\tnew\nb\t\\zz\n", "line 2"),
        ("csv", "key,value\na,new\nb\n", "line 3"),
        ("csv", "key,value\na,new\nb,\"cut\nc,2\n", "opens a field in line 3 has no end"),
        ("jsonl", "{\"key\":\"a\",\"value\":\"new\"}\n{\n", "line 2"),
        ("mdb", "VERSION=3\nformat=print\nHEADER=END\n a\n new\n b\n", "line 6"),
        ("mdb", "nonsense\n", "line 1"),
    ] {
        let load = ["load", "s", "--as", format];
        sandbox.feed(&load, input.as_bytes()).is(3).says(line).says("nothing of this input");
        assert_eq!(sandbox.ok(&["scan", "s"]), "a\told\n", "{format}");
    }
    sandbox.check("s");
}

#[test]
fn what_was_committed_before_an_error_is_said_and_kept() {
    let sandbox = Sandbox::new();
    // A value of 1 MiB for each of 70 keys: more than one batch.
    let mut input = Vec::new();
    for key in 0..70 {
        input.extend_from_slice(format!("{key:04}\t").as_bytes());
        input.resize(input.len() + (1 << 20), b'v');
        input.push(b'\n');
    }
    input.extend_from_slice(b"nonsense\n");
    let run = sandbox.feed(&["load", "s", "--as", "lines"], &input).is(3).says("line 71");
    let kept: u64 = sandbox.ok(&["count", "s"]).trim().parse().unwrap();
    assert!((1..70).contains(&kept), "{kept}");
    run.says(&format!("{kept} entries, up to line {kept} of the input, are committed"));
    sandbox.check("s");
}

#[test]
fn a_new_store_goes_if_nothing_is_loaded_and_nobody_uses_it() {
    let sandbox = Sandbox::new();
    sandbox.feed(&["load", "s", "--as", "lines"], b"a\t1\nnonsense\n").is(3);
    assert!(!sandbox.path("s").exists() && !sandbox.path("s-lock").exists());

    let mut load = sandbox.start(&["load", "s", "--as", "lines"]);
    let mut input = load.stdin.take().unwrap();
    input.write_all(b"a\t1\n").unwrap();
    until("the store is there", || sandbox.run(&["stat", "s"]).code == 0);
    let mut put = sandbox.start(&["put", "s", "k", "v"]);
    let mut told = [0; 11];
    put.stderr.as_mut().unwrap().read_exact(&mut told).unwrap();
    assert_eq!(&told, b"waiting for");
    input.write_all(b"nonsense\n").unwrap();
    drop(input);
    assert_eq!(load.wait().unwrap().code(), Some(3));
    assert_eq!(put.wait().unwrap().code(), Some(0));
    assert_eq!(sandbox.ok(&["scan", "s"]), "k\tv\n");
}

#[test]
fn load_keeps_values_when_asked_and_puts_into_other_tables() {
    let sandbox = Sandbox::with(&[("a", "old")]);
    let input = b"a\tnew\nb\tnew\n";
    let loaded = sandbox.feed(&["load", "s", "--as", "lines", "--keep", "--json"], input).is(0);
    assert_eq!(loaded.json(), serde_json::json!({"entries": 1, "kept": 1, "tables": 1}));
    assert_eq!(sandbox.ok(&["scan", "s"]), "a\told\nb\tnew\n");
    let other = ["load", "s", "-t", "other", "--as", "lines", "--duplicates"];
    sandbox.feed(&other, b"a\t2\na\t1\n").is(0);
    assert_eq!(sandbox.ok(&["get", "s", "-t", "other", "a"]), "1\n2\n");
    let clash = ["load", "s", "-t", "main", "--as", "lines", "--duplicates"];
    sandbox.feed(&clash, b"a\t2\n").is(3).says("main");
}

#[test]
fn files_of_columns_go_there_and_back() {
    let sandbox = binary();
    let original = scan(&sandbox, "s", "main");
    for format in ["arrow", "parquet"] {
        let file = format!("{format}.file");
        sandbox.ok(&["dump", "s", &file, "--as", format]);
        for engine in ["tree", "lsm"] {
            let store = format!("{format} {engine}");
            sandbox.ok(&["create", &store, "--engine", engine]);
            sandbox.ok(&["load", &store, &file, "--as", format]);
            assert_eq!(scan(&sandbox, &store, "main"), original);
            // Through pipes, and from this engine.
            let dump = sandbox.run(&["dump", &store, "--as", format]).is(0).out;
            let again = format!("{store} again");
            sandbox.feed(&["load", &again, "--as", format], &dump).is(0);
            assert_eq!(scan(&sandbox, &again, "main"), original);
            sandbox.check(&again);
        }
        let cut = &std::fs::read(sandbox.path(&file)).unwrap()[..1000];
        sandbox.write("cut", cut);
        sandbox.run(&["load", "cut store", "cut", "--as", format]).is(3).says("cannot be read as");
        let named = ["load", "s", &file, "--as", format, "--key-field", "name"];
        sandbox.run(&named).is(3).says("a column \"name\" is wanted").says("\"key\" (Binary)");
        sandbox.run(&["dump", "s", "x", "--as", format, "--all"]).is(2);
        sandbox.run(&["load", "s", &file, "--as", format, "--whole"]).is(2);
    }
}

#[test]
fn files_of_columns_are_compressed_as_asked_for() {
    let sandbox = Sandbox::new();
    let lines: String = (0..5_000).map(|n| format!("key{n}\t{}\n", "value ".repeat(20))).collect();
    sandbox.feed(&["load", "s", "--as", "lines"], lines.as_bytes()).is(0);
    let original = scan(&sandbox, "s", "main");
    sandbox.ok(&["dump", "s", "plain", "--as", "arrow"]);
    let plain = std::fs::metadata(sandbox.path("plain")).unwrap().len();
    for (format, method) in [("arrow", "zstd"), ("arrow", "lz4"), ("parquet", "zstd")] {
        let file = format!("{format} {method}");
        sandbox.ok(&["dump", "s", &file, "--as", format, "--compression", method]);
        assert!(std::fs::metadata(sandbox.path(&file)).unwrap().len() < plain / 3, "{file}");
        let store = format!("{file} back");
        sandbox.ok(&["load", &store, &file, "--as", format]);
        assert_eq!(scan(&sandbox, &store, "main"), original);
    }
    let wrong = sandbox.run(&["dump", "s", "x", "--as", "arrow", "--compression", "snappy"]);
    wrong.is(2).says("cannot be compressed with snappy");
    let wrong = sandbox.run(&["dump", "s", "x", "--as", "csv", "--compression", "zstd"]);
    wrong.is(2).says("--as arrow and --as parquet");
    assert!(!sandbox.path("x").exists());
}

#[test]
fn columns_hold_duplicates_and_numbers() {
    let sandbox = Sandbox::new();
    let lines = "1\t1.5\n1\t2.5\n2\t-1.0\n18446744073709551615\t0.0\n";
    let formats = ["--key-format", "u64", "--value-format", "f64"];
    let load = [&["load", "s", "--as", "lines", "--duplicates"], &formats[..]].concat();
    sandbox.feed(&load, lines.as_bytes()).is(0);
    for format in ["arrow", "parquet"] {
        sandbox.ok(&[&["dump", "s", format, "--as", format], &formats[..]].concat());
        sandbox.ok(&["load", "copy", format, "--as", format, "--duplicates", "-t", format]);
        let scan = [&["scan", "copy", "-t", format], &formats[..]].concat();
        let back = sandbox.ok(&scan);
        assert_eq!(back, lines);
        let wrong = ["dump", "s", "wrong", "--as", format, "--key-format", "u32"];
        sandbox.run(&wrong).is(3).says("8 bytes that are no u32");
        assert!(!sandbox.path("wrong").exists());
    }
}
