//! `salvage` from outside: what is lost is named, in words and as JSON, and the exit code says so.

use crate::sandbox::Sandbox;

fn filled() -> Sandbox {
    let sandbox = Sandbox::new();
    let lines: String = (0..5000).map(|n| format!("/some/path/{n:06}\tvalue {n}\n")).collect();
    sandbox.feed(&["load", "s", "--as", "lines"], lines.as_bytes()).is(0);
    sandbox
}

#[test]
fn a_sound_store_comes_over_whole() {
    let sandbox = filled();
    let out = sandbox.ok(&["salvage", "s", "new"]);
    assert!(out.contains("5000 entries brought over: nothing was lost"), "{out}");
    assert_eq!(sandbox.ok(&["scan", "s"]), sandbox.ok(&["scan", "new"]));
    sandbox.check("new");
    assert_eq!(sandbox.json(&["salvage", "s", "again"])["complete"], true);
    sandbox.run(&["salvage", "s", "new"]).is(3).says("exists already");
    sandbox.run(&["salvage", "absent", "other"]).is(3).says("no store");
}

#[test]
fn what_is_lost_is_named() {
    let sandbox = filled();
    let mut bytes = std::fs::read(sandbox.path("s")).unwrap();
    let found = bytes.windows(10).position(|window| window == b"value 2500").unwrap();
    bytes[found] ^= 1;
    sandbox.write("s", &bytes);
    let out = sandbox.run(&["salvage", "s", "new"]).is(1).text();
    assert!(out.contains("of table main from key /some/path/002"), "{out}");
    assert!(out.contains("the checksum is wrong"), "{out}");
    let report = sandbox.run(&["salvage", "s", "again", "--json"]).is(1).json();
    assert_eq!(report["complete"], false);
    let [loss] = &report["lost"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!(loss["table"], "main");
    let (lost, kept) = (loss["entries"].as_u64().unwrap(), report["entries"].as_u64().unwrap());
    assert!(lost > 0 && lost + kept == 5000, "{report}");
    let (from, to) = (loss["from"].as_str().unwrap(), loss["to"].as_str().unwrap());
    assert!(from <= "/some/path/002500" && "/some/path/002500" < to, "{report}");
    sandbox.check("new");
    assert_eq!(std::fs::read(sandbox.path("s")).unwrap(), bytes);
}
