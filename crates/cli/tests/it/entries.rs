//! The subcommands about tables and entries: create, tables, put, get, delete, scan, count, rank,
//! nth, sample.

use serde_json::json;

use crate::sandbox::Sandbox;

/// Fruits in order, and a table of letters and numbers with duplicates.
fn fruits() -> Sandbox {
    let sandbox = Sandbox::with(&[
        ("apple", "1"),
        ("apricot", "2"),
        ("banana", "3"),
        ("cherry", "4"),
        ("citron", "5"),
        ("date", "6"),
    ]);
    sandbox.ok(&["create", "s", "--table", "many", "--duplicates"]);
    for (key, value) in [("a", "1"), ("a", "2"), ("b", "1"), ("c", "1"), ("c", "2"), ("c", "3")] {
        sandbox.ok(&["put", "s", "-t", "many", key, value]);
    }
    sandbox
}

#[test]
fn a_store_is_made_with_its_page_size() {
    let sandbox = Sandbox::new();
    let made = sandbox.json(&["create", "s", "--page-size", "16384"]);
    assert_eq!(made["page_size"], 16384);
    assert_eq!(sandbox.json(&["stat", "s"])["page_size"], 16384);
    sandbox.run(&["create", "s"]).is(3).says("s");
    sandbox.run(&["create", "t", "--page-size", "5000"]).is(3);
    sandbox.run(&["create", "s", "-t", "x", "--page-size", "4096"]).is(2).says("new store");
}

#[test]
fn tables_are_made_and_listed_with_their_options() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "s", "-t", "plain"]);
    sandbox.ok(&["create", "s", "-t", "numbers", "--order", "integer"]);
    sandbox.ok(&["create", "s", "-t", "ends", "--order", "reverse", "--duplicates"]);
    let fixed = ["--duplicates", "--value-size", "8", "--value-order", "integer"];
    sandbox.ok(&[&["create", "s", "-t", "fixed"], &fixed[..]].concat());
    sandbox.run(&["create", "s", "-t", "plain"]).is(3).says("exists already");
    let tables = sandbox.json(&["tables", "s"]);
    let names: Vec<_> = tables.as_array().unwrap().iter().map(|table| &table["name"]).collect();
    assert_eq!(names, ["ends", "fixed", "numbers", "plain"]);
    assert_eq!(tables[0]["order"], "reverse");
    assert_eq!(tables[0]["duplicates"], true);
    assert_eq!(tables[1]["value_size"], 8);
    assert_eq!(tables[1]["value_order"], "integer");
    assert_eq!(tables[2]["order"], "integer");
    assert_eq!(tables[3]["duplicates"], false);
    let text = sandbox.ok(&["tables", "s"]);
    assert_eq!(text.lines().count(), 4);
    assert!(text.contains("order integer"), "{text}");
}

#[test]
fn what_is_put_is_got() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "s"]);
    sandbox.ok(&["put", "s", "key", "value"]);
    assert_eq!(sandbox.ok(&["get", "s", "key"]), "value\n");
    sandbox.ok(&["put", "s", "key", "other"]);
    assert_eq!(sandbox.ok(&["get", "s", "key"]), "other\n");
    sandbox.run(&["put", "s", "key", "third", "--new"]).is(1).says("there already");
    sandbox.run(&["put", "s", "new", "third", "--new"]).is(0);
    assert_eq!(sandbox.json(&["get", "s", "new"]), json!({"found": true, "values": ["third"]}));
    sandbox.run(&["get", "s", "missing"]).is(1).says("not found");
    let missing = sandbox.run(&["get", "s", "missing", "--json"]).is(1).json();
    assert_eq!(missing, json!({"found": false, "values": []}));
    sandbox.check("s");
}

/// `get` shows a value in JSON as `scan` does, also one that is no text.
#[test]
fn a_value_that_is_no_text_is_base64_in_json() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "s", "--table", "main", "--duplicates"]);
    for value in ["plain", "\\ff\\00"] {
        sandbox.ok(&["put", "s", "key", value]);
    }
    for format in ["utf8", "raw"] {
        let found = sandbox.json(&["get", "s", "key", "--format", format]);
        assert_eq!(found, json!({"found": true, "values_base64": ["cGxhaW4=", "/wA="]}));
        let pairs = sandbox.json(&["scan", "s", "--format", format]);
        assert_eq!(pairs[1], json!({"key": "key", "value_base64": "/wA="}));
    }
    let text = sandbox.json(&["get", "s", "key"]);
    assert_eq!(text, json!({"found": true, "values": ["plain", "\\ff\\00"]}));
}

#[test]
fn values_come_from_standard_input_and_go_out_raw() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "s"]);
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    sandbox.feed(&["put", "s", "key", "-"], &bytes).is(0);
    assert_eq!(sandbox.run(&["get", "s", "key", "--raw"]).is(0).out, bytes);
    sandbox.feed(&["put", "s", "empty", "-"], b"").is(0);
    assert_eq!(sandbox.run(&["get", "s", "empty", "--raw"]).is(0).out, b"");
}

#[test]
fn keys_and_values_are_written_in_every_format() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "s"]);
    sandbox.ok(&["put", "s", "--key-format", "hex", "00ff5c", "a\\00\\\\"]);
    assert_eq!(sandbox.ok(&["scan", "s"]), "\\00\\ff\\\\\ta\\00\\\\\n");
    assert_eq!(sandbox.ok(&["scan", "s", "--format", "hex"]), "00ff5c\t61005c\n");
    assert_eq!(sandbox.ok(&["scan", "s", "--format", "base64"]), "AP9c\tYQBc\n");
    let mixed = ["get", "s", "AP9c", "--key-format", "base64", "--value-format", "hex"];
    assert_eq!(sandbox.ok(&mixed), "61005c\n");
}

#[test]
fn duplicates_are_added_listed_and_deleted_one_by_one() {
    let sandbox = fruits();
    assert_eq!(sandbox.ok(&["get", "s", "-t", "many", "c"]), "1\n2\n3\n");
    sandbox.run(&["put", "s", "-t", "many", "c", "2", "--new"]).is(1);
    sandbox.run(&["delete", "s", "-t", "many", "c", "9"]).is(1).says("not found");
    let deleted = sandbox.json(&["delete", "s", "-t", "many", "c", "2"]);
    assert_eq!(deleted["deleted"], json!({"keys": 0, "values": 1}));
    assert_eq!(sandbox.ok(&["get", "s", "-t", "many", "c"]), "1\n3\n");
    let deleted = sandbox.json(&["delete", "s", "-t", "many", "c"]);
    assert_eq!(deleted["deleted"], json!({"keys": 1, "values": 2}));
    sandbox.run(&["get", "s", "-t", "many", "c"]).is(1);
    sandbox.check("s");
}

#[test]
fn ranges_are_deleted() {
    let sandbox = fruits();
    let deleted = sandbox.json(&["delete", "s", "--prefix", "ap"]);
    assert_eq!(deleted["deleted"]["keys"], 2);
    sandbox.ok(&["delete", "s", "--after", "banana", "--to", "citron"]);
    assert_eq!(sandbox.ok(&["scan", "s", "--keys-only"]), "banana\ndate\n");
    sandbox.run(&["delete", "s"]).is(2);
    sandbox.run(&["delete", "s", "key", "--from", "a"]).is(2);
    assert_eq!(sandbox.ok(&["count", "s"]), "2\n");
    sandbox.check("s");
}

#[test]
fn scans_know_ranges_limits_and_directions() {
    let sandbox = fruits();
    let keys = |more: &[&str]| {
        let out = sandbox.ok(&[&["scan", "s", "--keys-only"], more].concat());
        out.lines().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(&[]), "apple apricot banana cherry citron date");
    assert_eq!(keys(&["--reverse", "-n", "2"]), "date citron");
    assert_eq!(keys(&["--limit", "0"]), "");
    assert_eq!(keys(&["--from", "banana", "--to", "citron"]), "banana cherry citron");
    assert_eq!(keys(&["--after", "banana", "--before", "citron"]), "cherry");
    assert_eq!(keys(&["--from", "b", "--limit", "2", "--reverse"]), "date citron");
    assert_eq!(keys(&["--prefix", "c"]), "cherry citron");
    assert_eq!(keys(&["--prefix", "x"]), "");
    assert_eq!(keys(&["--from", "d", "--to", "a"]), "");
    assert_eq!(sandbox.ok(&["scan", "s", "-n", "1"]), "apple\t1\n");
    let entries = sandbox.json(&["scan", "s", "--prefix", "ap"]);
    assert_eq!(entries, json!([{"key": "apple", "value": "1"}, {"key": "apricot", "value": "2"}]));
    assert_eq!(sandbox.json(&["scan", "s", "--prefix", "x"]), json!([]));
    sandbox.run(&["scan", "s", "--from", "a", "--after", "b"]).is(2);
    sandbox.run(&["scan", "s", "--prefix", "a", "--to", "b"]).is(2);
}

#[test]
fn keys_only_prints_a_key_with_duplicates_once() {
    let sandbox = fruits();
    for more in [&[][..], &["--from", "a"]] {
        let forward = sandbox.ok(&[&["scan", "s", "-t", "many", "--keys-only"], more].concat());
        assert_eq!(forward, "a\nb\nc\n");
        let scan = ["scan", "s", "-t", "many", "--keys-only", "--reverse", "-n", "2"];
        assert_eq!(sandbox.ok(&[&scan, more].concat()), "c\nb\n");
    }
    let all = sandbox.ok(&["scan", "s", "-t", "many", "--reverse", "-n", "4"]);
    assert_eq!(all, "c\t3\nc\t2\nc\t1\nb\t1\n");
}

#[test]
fn counts_and_ranks() {
    let sandbox = fruits();
    assert_eq!(sandbox.ok(&["count", "s"]), "6\n");
    assert_eq!(sandbox.ok(&["count", "s", "--prefix", "ap"]), "2\n");
    assert_eq!(sandbox.ok(&["count", "s", "--from", "b", "--before", "citron"]), "2\n");
    assert_eq!(sandbox.json(&["count", "s", "-t", "many"]), json!({"keys": 3, "values": 6}));
    assert_eq!(sandbox.ok(&["count", "s", "-t", "many", "--keys", "--after", "a"]), "2\n");
    assert_eq!(sandbox.ok(&["rank", "s", "cherry"]), "3\n");
    let absent = sandbox.run(&["rank", "s", "blueberry"]).is(1);
    assert_eq!(absent.text(), "3\n");
    assert_eq!(sandbox.ok(&["rank", "s", "-t", "many", "c", "2"]), "4\n");
    assert_eq!(sandbox.ok(&["rank", "s", "-t", "many", "c", "--keys"]), "2\n");
    let rank = sandbox.json(&["rank", "s", "-t", "many", "c"]);
    assert_eq!(rank, json!({"found": true, "keys": 2, "values": 3}));
}

#[test]
fn positions_and_samples() {
    let sandbox = fruits();
    assert_eq!(sandbox.ok(&["nth", "s", "0"]), "apple\t1\n");
    assert_eq!(sandbox.ok(&["nth", "s", "5"]), "date\t6\n");
    sandbox.run(&["nth", "s", "6"]).is(1).says("6");
    assert_eq!(sandbox.run(&["nth", "s", "6", "--json"]).is(1).json(), json!(null));
    assert_eq!(sandbox.ok(&["nth", "s", "-t", "many", "4"]), "c\t2\n");
    assert_eq!(sandbox.ok(&["nth", "s", "-t", "many", "2", "--keys"]), "c\t1\n");
    assert_eq!(sandbox.ok(&["sample", "s", "100"]).lines().count(), 6);
    assert_eq!(sandbox.ok(&["sample", "s", "3"]).lines().count(), 3);
    let drawn = ["sample", "s", "50", "--random", "--seed", "7"];
    let first = sandbox.ok(&drawn);
    assert_eq!(first.lines().count(), 50);
    assert_eq!(first, sandbox.ok(&drawn));
    assert_eq!(sandbox.json(&["sample", "s", "2"]).as_array().unwrap().len(), 2);
}

#[test]
fn prefixes_are_for_bytewise_tables() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "s", "--order", "reverse"]);
    sandbox.ok(&["put", "s", "ab", "1"]);
    sandbox.ok(&["put", "s", "ba", "2"]);
    assert_eq!(sandbox.ok(&["scan", "s", "--keys-only"]), "ba\nab\n");
    sandbox.run(&["count", "s", "--prefix", "a"]).is(2).says("bytewise");
}

#[test]
fn a_scan_goes_on_where_another_one_ended() {
    let entries = [("ash", "1"), ("beech", "2"), ("birch", "3"), ("elm", "4")];
    goes_on(&Sandbox::with(&entries));
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "s", "--engine", "lsm"]);
    for (key, value) in entries {
        sandbox.ok(&["put", "s", key, value]);
    }
    goes_on(&sandbox);
}

fn goes_on(sandbox: &Sandbox) {
    let part = |arguments: &[&str]| {
        let run = sandbox.run(&[&["scan", "s", "--token", "-n", "2"], arguments].concat()).is(0);
        let token = run.err.trim().to_string();
        (run.text(), token)
    };
    let (first, token) = part(&["--from", "b", "--keys-only"]);
    assert_eq!(first, "beech\nbirch\n");
    sandbox.ok(&["put", "s", "cedar", "5"]);
    let (second, token) = part(&["--resume", &token]);
    assert_eq!(second, "cedar\nelm\n");
    assert_eq!(part(&["--resume", &token]).0, "");

    let (first, token) = part(&["--reverse"]);
    assert_eq!(first, "elm\t4\ncedar\t5\n");
    assert_eq!(part(&["--resume", &token]).0, "birch\t3\nbeech\t2\n");

    sandbox.run(&["scan", "s", "--resume", &token, "--reverse"]).is(2);
    let resumed = |token: &str, table: &str| {
        sandbox.run(&["scan", "s", "-t", table, "--resume", token, "--token"])
    };
    resumed(&token, "main").is(0);
    resumed(&token, "other").is(2).says("the token is one of table main, not other");
    sandbox.ok(&["put", "s", "-t", "fruit", "fig", "1", "--create-table"]);
    let token = part(&["-t", "fruit"]).1;
    resumed(&token, "main").is(2).says("the token is one of table fruit, not main");
    sandbox.ok(&["scan", "s", "--resume", &token]);
    sandbox.run(&["scan", "s", "--resume", "12"]).is(2).says("token is damaged");
    sandbox.ok(&["create", "other"]);
    sandbox.run(&["scan", "other", "--resume", &token]).is(3).says("one of another store");
}
