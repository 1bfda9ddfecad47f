//! demo on a folder of the test's own: its count is find's, its answers agree.

use std::fs;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// A small tree with everything that could be miscounted: links, empty folders, names without an
/// extension, with several dots, and (on Unix) bytes that are no UTF-8.
fn tree() -> (Sandbox, u64) {
    let sandbox = Sandbox::new();
    let mut files = 0;
    for folder in ["tree/a", "tree/b/c/d", "tree/empty", "tree/b.d"] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    let mut file = |name: String| {
        sandbox.write(&name, &name);
        files += 1;
    };
    for n in 0..1200 {
        file(format!("tree/a/{n}.txt"));
    }
    for n in 0..300 {
        file(format!("tree/b/c/d/{n}.rs"));
    }
    for name in ["tree/top", "tree/.hidden", "tree/b/x.tar.gz", "tree/b/dot.", "tree/b.d/y.conf"] {
        file(name.to_owned());
    }
    #[cfg(unix)]
    {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::fs::symlink;
        let name = OsStr::from_bytes(b"tree/b/caf\xe9.\xff");
        fs::write(sandbox.path(name), "bytes").unwrap();
        files += 1;
        symlink(sandbox.path("tree/a"), sandbox.path("tree/link")).unwrap();
        symlink(sandbox.path("tree/top"), sandbox.path("tree/top-link.txt")).unwrap();
    }
    (sandbox, files)
}

fn answer<'a>(report: &'a Value, name: &str) -> &'a Value {
    let answers = report["answers"].as_array().unwrap();
    let found = answers.iter().find(|answer| answer["name"].as_str().unwrap().contains(name));
    &found.unwrap_or_else(|| panic!("{name} is not in {report}"))["value"]
}

#[test]
fn the_answers_agree_and_the_count_is_right() {
    let (sandbox, files) = tree();
    let report = sandbox.json(&["demo", "tree"]);
    assert_eq!(report["files"], files);
    assert_eq!(report["disagreements"], 0);
    assert_eq!(answer(&report, "files"), files);
    assert_eq!(answer(&report, "files under tree/a/"), 1200);
    assert_eq!(answer(&report, "distinct extensions"), if cfg!(unix) { 5 } else { 4 });
    let frequent = answer(&report, "most frequent");
    assert_eq!(frequent[0], serde_json::json!({"extension": "txt", "files": 1200}));
    assert_eq!(frequent[1], serde_json::json!({"extension": "rs", "files": 300}));
    assert_eq!(answer(&report, "samples")["samples"], 1000);
    for entry in report["answers"].as_array().unwrap() {
        assert!(entry["fast_ns"].is_u64() && entry["slow_ns"].is_u64(), "{entry}");
    }
}

#[cfg(unix)]
#[test]
fn the_count_is_that_of_find() {
    let (sandbox, _) = tree();
    let mut find = std::process::Command::new("find");
    let found = find.arg(sandbox.path("tree")).args(["-type", "f", "-print0"]).output().unwrap();
    let files = found.stdout.iter().filter(|byte| **byte == 0).count();
    let tree = sandbox.path("tree");
    let report = sandbox.json(&["demo", tree.to_str().unwrap()]);
    assert_eq!(report["files"], files);
}

#[test]
fn people_get_a_table() {
    let (sandbox, _) = tree();
    let run = sandbox.run(&["demo", "tree"]).is(0);
    assert_eq!(run.err, "");
    let out = run.text();
    for words in ["answers agree", "files under tree/a/", "1,200", "txt 1,200, rs 300"] {
        assert!(out.contains(words), "{words} is not in {out}");
    }
}

#[test]
fn the_store_is_kept_where_asked() {
    let (sandbox, files) = tree();
    sandbox.ok(&["demo", "tree", "--store", "kept"]);
    assert_eq!(sandbox.ok(&["count", "kept", "-t", "files"]), format!("{files}\n"));
    assert_eq!(
        sandbox.ok(&["count", "kept", "-t", "extensions", "--from", "rs", "--to", "rs"]),
        "300\n"
    );
    sandbox.check("kept");
    sandbox.run(&["demo", "tree", "--store", "kept"]).is(3).says("kept");
}

#[test]
fn empty_folders_files_and_missing_ones() {
    let (sandbox, _) = tree();
    let empty = sandbox.json(&["demo", "tree/empty"]);
    assert_eq!((&empty["files"], &empty["disagreements"]), (&0.into(), &0.into()));
    assert_eq!(sandbox.json(&["demo", "tree/top"])["files"], 1);
    sandbox.run(&["demo", "missing"]).is(3).says("missing");
}
