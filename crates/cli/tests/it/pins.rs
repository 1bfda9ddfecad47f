//! `pin` and `diff`: commits under a name, and what changed since.

use serde_json::json;

use crate::sandbox::Sandbox;

fn pinned() -> Sandbox {
    let sandbox = Sandbox::with(&[("apple", "1"), ("pear", "2"), ("plum", "3")]);
    let commit = sandbox.json(&["pin", "s", "monday"]);
    assert!(commit["commit"].as_u64().unwrap() > 0, "{commit}");
    sandbox.ok(&["put", "s", "pear", "4"]);
    sandbox.ok(&["delete", "s", "apple"]);
    sandbox.ok(&["put", "s", "quince", "5"]);
    sandbox.ok(&["create", "s", "--table", "other"]);
    sandbox.ok(&["put", "s", "--table", "other", "k", "v"]);
    sandbox
}

#[test]
fn pins_are_made_listed_and_dropped() {
    let sandbox = pinned();
    sandbox.run(&["pin", "s", "monday"]).is(3).says("there is a pin of that name");
    sandbox.ok(&["pin", "s", "tuesday"]);
    let list = sandbox.json(&["pin", "s", "--list"]);
    let names: Vec<_> = list.as_array().unwrap().iter().map(|pin| pin["name"].clone()).collect();
    assert_eq!(names, ["monday", "tuesday"]);
    assert!(list[0]["commit"].as_u64() < list[1]["commit"].as_u64(), "{list}");
    assert!(list[0]["held_pages"].as_u64().unwrap() > 0, "{list}");
    let text = sandbox.ok(&["pin", "s", "--list"]);
    assert!(text.starts_with("monday: commit ") && text.lines().count() == 2, "{text}");
    assert_eq!(sandbox.json(&["stat", "s"])["pins"][1]["name"], "tuesday");
    assert!(sandbox.ok(&["stat", "s"]).contains("pins            2\n  monday: commit "));
    sandbox.check("s");

    sandbox.ok(&["pin", "s", "monday", "--drop"]);
    sandbox.run(&["pin", "s", "monday", "--drop"]).is(1).says("not found");
    assert_eq!(sandbox.json(&["pin", "s", "tuesday", "--drop"]), json!({ "dropped": true }));
    assert_eq!(sandbox.json(&["pin", "s", "--list"]), json!([]));
    sandbox.run(&["pin", "s"]).is(2);
    sandbox.run(&["pin", "s", "--drop"]).is(2);
    sandbox.check("s");
}

#[test]
fn a_follower_goes_on_where_it_ended() {
    let sandbox = Sandbox::with(&[("apple", "1")]);
    let follow = |more: &[&str]| sandbox.ok(&[&["follow", "s", "--idle", "0"], more].concat());
    let first = follow(&["cache"]);
    let lines: Vec<_> = first.lines().collect();
    assert!(lines[0] == "main\t+\tapple\t1" && lines.len() == 2, "{first}");
    assert!(lines[1].starts_with("commit\t"), "{first}");
    assert_eq!(follow(&["cache"]), "");
    sandbox.ok(&["put", "s", "apple", "2"]);
    sandbox.ok(&["put", "s", "pear", "3"]);
    sandbox.ok(&["put", "s", "--table", "other", "k", "v", "--create-table"]);
    let second = follow(&["cache"]);
    let changes = "main\t-\tapple\t1\nmain\t+\tapple\t2\nmain\t+\tpear\t3\nother\t+\tk\tv\ncommit";
    assert!(second.starts_with(changes), "{second}");
    // The commit of the last mark is kept, the one before it is not.
    let mark = |output: &str| output.trim().rsplit('\t').next().unwrap().to_owned();
    assert_eq!(follow(&["cache", "--mark", &mark(&second)]), "");
    let old = sandbox.run(&["follow", "s", "cache", "--mark", &mark(&first), "--idle", "0"]);
    old.is(3).says("is not known any more");
    for wrong in ["00", "abc", "0123456789", &mark(&second)[2..]] {
        let refused = sandbox.run(&["follow", "s", "cache", "--mark", wrong]).is(2).says("mark ");
        assert!(!refused.err.contains("token"), "{}", refused.err);
    }
    for name in ["", &"n".repeat(124)] {
        sandbox.run(&["follow", "s", name]).is(3).says("of a follower has 1 to 123 bytes");
        sandbox.run(&["follow", "s", name, "--forget"]).is(3).says("of a follower has 1 to 123");
    }
    let longest = "n".repeat(123);
    follow(&[&longest]);
    sandbox.ok(&["follow", "s", &longest, "--forget"]);

    let part = follow(&["-t", "main", "--from", "b", "--json"]);
    let objects: Vec<serde_json::Value> =
        part.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 2, "{part}");
    assert_eq!((&objects[0]["key"], &objects[0]["change"]), (&json!("pear"), &json!("added")));
    assert!(objects[1]["commit"].as_u64().unwrap() > 0, "{part}");
    assert_eq!(follow(&["--from-now"]), "");
    sandbox.run(&["follow", "s", "--from", "b"]).is(2).says("--table");

    assert_eq!(sandbox.json(&["pin", "s", "--list"])[0]["name"], "cache");
    sandbox.ok(&["follow", "s", "cache", "--forget"]);
    sandbox.run(&["follow", "s", "cache", "--forget"]).is(1).says("no follower");
    assert_eq!(sandbox.json(&["pin", "s", "--list"]), json!([]));
    sandbox.check("s");
}

#[test]
fn a_copy_keeps_up() {
    let sandbox = Sandbox::with(&[("apple", "1")]);
    for (target, engine) in [("t", "tree"), ("l", "lsm")] {
        let copy = ["copy", "s", target, "--follow", target, "--engine", engine, "--idle", "0"];
        sandbox.ok(&copy);
        assert_eq!(sandbox.ok(&["scan", target]), sandbox.ok(&["scan", "s"]));
        sandbox.ok(&["put", "s", "pear", engine]);
        let told = sandbox.json(&copy);
        assert!(told["commit"].as_u64().unwrap() > 0, "{told}");
        assert_eq!(sandbox.ok(&["scan", target]), sandbox.ok(&["scan", "s"]));
        sandbox.check(target);
        assert_eq!(sandbox.ok(&copy), "");
    }
    sandbox.ok(&["create", "other"]);
    sandbox.ok(&["put", "other", "k", "v"]);
    let refused = sandbox.run(&["copy", "s", "other", "--follow", "o", "--idle", "0"]);
    refused.is(3).says("holds tables");
    sandbox.run(&["copy", "s", "t", "--idle", "0"]).is(2);
}

#[test]
fn diff_prints_what_changed() {
    let sandbox = pinned();
    let lines = "main\t-\tapple\t1\nmain\t-\tpear\t2\nmain\t+\tpear\t4\nmain\t+\tquince\t5\n";
    assert_eq!(sandbox.ok(&["diff", "s", "--pin", "monday", "--table", "main"]), lines);
    let all = sandbox.ok(&["diff", "s", "--pin", "monday"]);
    assert_eq!(all, format!("{lines}other\t+\tk\tv\n"));
    let changes = sandbox.json(&["diff", "s", "--pin", "monday", "-t", "main"]);
    let wanted = json!([
        { "table": "main", "change": "removed", "key": "apple", "value": "1" },
        { "table": "main", "change": "changed", "key": "pear", "old": "2", "new": "4" },
        { "table": "main", "change": "added", "key": "quince", "value": "5" },
    ]);
    assert_eq!(changes, wanted);

    sandbox.ok(&["pin", "s", "tuesday"]);
    sandbox.ok(&["put", "s", "zucchini", "6"]);
    let pins = ["--pin", "monday", "--pin", "tuesday"];
    assert_eq!(sandbox.ok(&[&["diff", "s"][..], &pins[..]].concat()), all);
    let last = sandbox.ok(&["diff", "s", "--pin", "tuesday"]);
    assert_eq!(last, "main\t+\tzucchini\t6\n");
    let turned = ["diff", "s", "--pin", "tuesday", "--pin", "monday"];
    sandbox.run(&turned).is(3).says("later commit");
    sandbox.run(&["diff", "s", "--pin", "sunday"]).is(3).says("there is no pin sunday");
    sandbox.run(&["diff", "s", "--pin", "monday", "-t", "none"]).is(3).says("none");
    sandbox.run(&["diff", "s"]).is(2);
}

#[test]
fn the_log_structured_engine_has_pins_and_followers_too() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "s", "--engine", "lsm"]);
    sandbox.ok(&["put", "s", "apple", "1"]);
    sandbox.ok(&["put", "s", "pear", "2"]);
    let commit = sandbox.json(&["pin", "s", "monday"]);
    assert!(commit["commit"].as_u64().unwrap() > 0, "{commit}");
    sandbox.run(&["pin", "s", "monday"]).is(3).says("there is a pin of that name");
    sandbox.ok(&["put", "s", "pear", "4"]);
    sandbox.ok(&["delete", "s", "apple"]);
    sandbox.ok(&["put", "s", "--table", "other", "k", "v", "--create-table"]);
    sandbox.ok(&["compact", "s"]);
    let lines = "main\t-\tapple\t1\nmain\t-\tpear\t2\nmain\t+\tpear\t4\n";
    assert_eq!(sandbox.ok(&["diff", "s", "--pin", "monday", "-t", "main"]), lines);
    let all = sandbox.ok(&["diff", "s", "--pin", "monday"]);
    assert_eq!(all, format!("{lines}other\t+\tk\tv\n"));
    sandbox.run(&["diff", "s", "--pin", "sunday"]).is(3).says("there is no pin sunday");
    assert!(sandbox.ok(&["pin", "s", "--list"]).starts_with("monday: commit "));
    let stat = sandbox.json(&["stat", "s"]);
    assert_eq!(stat["pins"][0]["name"], "monday");
    assert!(stat["kept_entries"].as_u64().unwrap() > 0, "{stat}");
    assert!(sandbox.ok(&["stat", "s"]).contains("\n  monday: commit "));

    let follow = |more: &[&str]| sandbox.ok(&[&["follow", "s"], more].concat());
    let first = follow(&["cache"]);
    assert!(first.starts_with("main\t+\tpear\t4\nother\t+\tk\tv\ncommit\t"), "{first}");
    assert_eq!(follow(&["cache"]), "");
    sandbox.ok(&["put", "s", "pear", "5"]);
    let second = follow(&["cache"]);
    assert!(second.starts_with("main\t-\tpear\t4\nmain\t+\tpear\t5\ncommit"), "{second}");
    let mark = |output: &str| output.trim().rsplit('\t').next().unwrap().to_owned();
    assert_eq!(follow(&["cache", "--mark", &mark(&second)]), "");
    let old = sandbox.run(&["follow", "s", "cache", "--mark", &mark(&first)]);
    old.is(3).says("is not known any more");
    assert_eq!(follow(&["-t", "main", "--from", "q"]).lines().count(), 1);
    sandbox.run(&["follow", "s", "--from", "b"]).is(2).says("--table");
    sandbox.ok(&["follow", "s", "cache", "--forget"]);
    sandbox.run(&["follow", "s", "cache", "--forget"]).is(1).says("no follower");
    assert_eq!(sandbox.json(&["pin", "s", "monday", "--drop"]), json!({ "dropped": true }));
    sandbox.run(&["pin", "s", "monday", "--drop"]).is(1).says("not found");
    assert_eq!(sandbox.json(&["pin", "s", "--list"]), json!([]));
    sandbox.check("s");
}

#[test]
fn a_copy_of_a_log_structured_store_keeps_up() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["create", "s", "--engine", "lsm"]);
    sandbox.ok(&["put", "s", "apple", "1"]);
    for (target, engine) in [("t", "tree"), ("l", "lsm")] {
        let copy = ["copy", "s", target, "--follow", target, "--engine", engine];
        sandbox.ok(&copy);
        assert_eq!(sandbox.ok(&["scan", target]), sandbox.ok(&["scan", "s"]));
        sandbox.ok(&["put", "s", "pear", engine]);
        sandbox.run(&["delete", "s", "apple"]);
        let told = sandbox.json(&copy);
        assert!(told["commit"].as_u64().unwrap() > 0, "{told}");
        assert_eq!(sandbox.ok(&["scan", target]), sandbox.ok(&["scan", "s"]));
        sandbox.check(target);
        assert_eq!(sandbox.ok(&copy), "");
    }
}
