//! The subcommands about a store as a whole: stat, check, copy, compact; and completions, man,
//! help.

use crate::sandbox::Sandbox;

fn filled() -> Sandbox {
    let sandbox = Sandbox::new();
    let lines: String = (0..20_000).map(|n| format!("/some/path/{n:06}\tvalue {n}\n")).collect();
    sandbox.feed(&["load", "s", "--as", "lines"], lines.as_bytes()).is(0);
    sandbox
}

#[test]
fn stat_counts_pages() {
    let sandbox = filled();
    let stat = sandbox.json(&["stat", "s"]);
    let table = &stat["tables"][0];
    assert_eq!(table["name"], "main");
    assert_eq!(table["values"], 20_000);
    assert!(table["leaf_pages"].as_u64().unwrap() > 50);
    assert!(table["depth"].as_u64().unwrap() >= 2);
    assert_eq!(stat["leaf_pages"], table["leaf_pages"]);
    let text = sandbox.ok(&["stat", "s"]);
    assert!(text.contains("page size       4096"), "{text}");
    assert!(text.contains("main: order bytewise"), "{text}");
}

#[test]
fn stat_shows_the_tree_level_by_level() {
    let sandbox = filled();
    sandbox.ok(&["create", "s", "--table", "empty"]);
    let stat = sandbox.json(&["stat", "s"]);
    let (empty, table) = (&stat["tables"][0], &stat["tables"][1]);
    assert_eq!(empty["name"], "empty");
    assert_eq!(empty["levels"].as_array().unwrap().len(), 0);
    assert!(empty["fill_percent"].is_null(), "{empty}");

    let levels = table["levels"].as_array().unwrap();
    assert_eq!(levels.len() as u64, table["depth"].as_u64().unwrap());
    let (root, leaves) = (levels.first().unwrap(), levels.last().unwrap());
    assert_eq!(root["pages"], 1);
    assert_eq!(leaves["level"], 0);
    assert_eq!(leaves["pages"], table["leaf_pages"]);
    assert_eq!(leaves["entries"], 20_000);
    let branches = levels.iter().rev().skip(1).map(|level| level["pages"].as_u64().unwrap());
    assert_eq!(branches.sum::<u64>(), table["branch_pages"].as_u64().unwrap());
    for pair in levels.windows(2) {
        assert_eq!(pair[0]["entries"], pair[1]["pages"], "a branch's children are the next level");
    }
    for level in levels {
        let used = level["used_bytes"].as_f64().unwrap();
        let percent = used / (level["pages"].as_f64().unwrap() * 4096.0) * 100.0;
        assert!((level["fill_percent"].as_f64().unwrap() - percent).abs() < 1e-6, "{level}");
        assert!(percent > 0.0 && percent <= 100.0, "{level}");
    }

    let fill = |value: &serde_json::Value| format!("{:.1} %", value.as_f64().unwrap());
    let text = sandbox.ok(&["stat", "s"]);
    let whole = format!("  fill          {}\n", fill(&table["fill_percent"]));
    assert!(text.contains(&whole), "{text}");
    let pages = &leaves["pages"];
    let fill = fill(&leaves["fill_percent"]);
    let row = format!("  level 0       pages {pages}, entries 20000, {fill} full\n");
    assert!(text.contains(&row), "{text}");
    let page = sandbox.ok(&["stat", "s", "--html", "-"]);
    assert!(page.contains("keys, ") && page.contains(&format!("{fill} full</span>")), "{page}");
}

#[test]
fn stat_draws_a_page_that_stands_alone() {
    let sandbox = filled();
    sandbox.ok(&["stat", "s", "--html", "stat.html"]);
    let page = std::fs::read_to_string(sandbox.path("stat.html")).unwrap();
    assert!(page.starts_with("<!doctype html>"), "{page}");
    assert!(page.contains("20,000 keys"), "{page}");
    for foreign in ["http", "src=", "href=", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert_eq!(sandbox.ok(&["stat", "s", "--html", "-"]).matches("<h1>").count(), 1);
}

#[test]
fn check_finds_a_flipped_byte() {
    let sandbox = filled();
    sandbox.check("s");
    assert_eq!(sandbox.json(&["check", "s"])["sound"], true);
    let mut bytes = std::fs::read(sandbox.path("s")).unwrap();
    let found = bytes.windows(6).position(|window| window == b"value ").unwrap();
    bytes[found] ^= 1;
    std::fs::write(sandbox.path("s"), bytes).unwrap();
    let out = sandbox.run(&["check", "s"]).is(1).text();
    assert!(out.contains("problem"), "{out}");
    let report = sandbox.run(&["check", "s", "--json"]).is(1).json();
    assert_eq!(report["sound"], false);
    assert!(!report["problems"].as_array().unwrap().is_empty());
}

#[test]
fn copies_hold_the_same() {
    let sandbox = filled();
    let original = sandbox.ok(&["scan", "s"]);
    sandbox.ok(&["copy", "s", "plain"]);
    let report = sandbox.json(&["copy", "s", "compact", "--compact"]);
    assert!(report["bytes"].as_u64().unwrap() > 100_000);
    let piped = sandbox.run(&["copy", "s", "-", "--compact"]).is(0).out;
    sandbox.write("piped", piped);
    for copy in ["plain", "compact", "piped"] {
        assert_eq!(sandbox.ok(&["scan", copy]), original);
        sandbox.check(copy);
    }
    sandbox.run(&["copy", "s", "plain"]).is(3).says("plain");
}

#[test]
fn compact_gives_space_back() {
    let sandbox = filled();
    sandbox.ok(&["delete", "s", "--before", "/some/path/019000"]);
    let before = std::fs::metadata(sandbox.path("s")).unwrap().len();
    let report = sandbox.json(&["compact", "s"]);
    let after = std::fs::metadata(sandbox.path("s")).unwrap().len();
    assert!(after < before, "{before} {after}");
    assert_eq!(report["after"], after);
    assert_eq!(sandbox.ok(&["count", "s"]), "1000\n");
    sandbox.check("s");
    assert!(sandbox.ok(&["compact", "s"]).contains("pages moved"));
}

#[test]
fn shells_complete_and_man_explains() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(sandbox.ok(&["completions", shell]).contains("hedgerow"), "{shell}");
    }
    let man = sandbox.ok(&["man"]);
    assert!(man.contains(".TH hedgerow 1") && man.contains("130"), "{man}");
    sandbox.ok(&["man", "--folder", "man"]);
    for page in ["hedgerow.1", "hedgerow-scan.1", "hedgerow-demo.1"] {
        assert!(sandbox.path("man").join(page).is_file(), "{page}");
    }
    sandbox.ok(&["man", "--folder", "man", "--force"]);
    sandbox.ok(&["man", "--folder", "share/man/man1"]);
    assert!(sandbox.path("share/man/man1/hedgerow.1").is_file());
    sandbox.run(&["man", "--folder", "man/hedgerow.1"]).is(3).says("the folder man/hedgerow.1");
}

#[test]
fn help_gives_the_exit_codes() {
    let sandbox = Sandbox::new();
    let help = sandbox.ok(&["--help"]);
    for words in ["Exit codes", "130", "put --new", "demo", "convert"] {
        assert!(help.contains(words), "{help}");
    }
    sandbox.run(&["nonsense"]).is(2);
    sandbox.run(&["count"]).is(2);
    assert!(sandbox.ok(&["--version"]).starts_with("hedgerow "));
}
