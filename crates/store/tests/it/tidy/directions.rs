//! The directions between rooms: which module of the library may name which other one, and which
//! package may depend on which.

use super::source::{Source, body, closing, is_word};

/// The modules that use only each other.
const LEAVES: &[&str] = &[
    "coding",
    "checksum",
    "error",
    "durability",
    "canary",
    "sync",
    "identify",
    "observe",
    "prefetch",
    "random",
];

/// Each room of the library and, beside the leaves, the rooms that it may use.
const ROOMS: &[(&str, &[&str])] = &[
    ("coding", &[]),
    ("checksum", &[]),
    ("error", &[]),
    ("durability", &[]),
    ("canary", &[]),
    ("sync", &[]),
    ("identify", &[]),
    ("observe", &[]),
    ("prefetch", &[]),
    ("random", &[]),
    ("os", &[]),
    ("key", &[]),
    ("cursor", &["key"]),
    ("tree", &["os", "key", "cursor"]),
    ("lsm", &["os", "key", "cursor"]),
    ("stream", &["tree", "lsm", "key", "cursor"]),
];

/// What the crate's root exports itself, and where it comes from.
const EXPORTS: &[(&str, &str)] =
    &[("Error", "error"), ("Place", "error"), ("Result", "error"), ("Durability", "durability")];

/// Each package and the packages of this workspace that it may depend on.
const PACKAGES: &[(&str, &[&str])] = &[
    // Only tests use `scripts`.
    ("scripts", &[]),
    ("hedgerow", &["scripts", "hedgerow-derive"]),
    ("hedgerow-derive", &[]),
    // SQL is what a package with other build needs gives: it is linked, and not called.
    ("hedgerow-cli", &["hedgerow", "scripts", "sqlite"]),
    ("leveldb", &["hedgerow", "scripts"]),
    ("lmdb", &["hedgerow", "scripts"]),
    // `hedgerow.lmdb` is a program on the C interface, which the module brings along.
    ("hedgerow-python", &["hedgerow", "lmdb-in-python", "sqlite"]),
    ("lmdb-in-python", &["hedgerow"]),
    ("sqlite", &["hedgerow"]),
    ("bench", &["hedgerow", "sqlite"]),
    ("sim", &["hedgerow"]),
];

/// Packages that may use `hedgerow::os`, which is not part of the public interface.
const USES_OS: &[&str] = &[
    "crates/sim/",
    "crates/sqlite/src/power.rs",
    "crates/leveldb/src/engine/power.rs",
    "crates/bench/src/larger_than_memory/queues.rs",
];

const LIBRARY: &str = "crates/store/src/";

/// The module path of a file of the library: `tree/page/mod.rs` is `["tree", "page"]`.
fn module_path(path: &str) -> Option<Vec<&str>> {
    let mut parts: Vec<&str> =
        path.strip_prefix(LIBRARY)?.strip_suffix(".rs")?.split('/').collect();
    if matches!(parts.last(), Some(&"mod" | &"lib")) {
        parts.pop();
    }
    Some(parts)
}

/// How many inline modules (`mod tests { ... }`) a place lies in.
fn inline_depth(source: &Source, at: usize) -> usize {
    let holds = |start: usize| {
        let open = body(&source.code, start)?;
        Some((open..=closing(&source.code, open)?).contains(&at))
    };
    source.words("mod").filter(|&start| holds(start) == Some(true)).count()
}

/// The names that follow a path's beginning: one, or several in braces.
fn names(code: &str) -> Vec<&str> {
    let word = |text: &'_ str| text.find(|c| !is_word(c)).unwrap_or(text.len());
    let trimmed = code.trim_start();
    let Some(inside) = trimmed.strip_prefix('{') else { return vec![&trimmed[..word(trimmed)]] };
    let end = closing(trimmed, 0).map_or(inside.len(), |end| end - 1);
    let mut depth = 0;
    let items = inside[..end].split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    items
        .map(str::trim_start)
        .filter(|item| !item.is_empty())
        .map(|item| &item[..word(item)])
        .collect()
}

/// Every name of the crate's root that the file uses, with its place.
fn uses(source: &Source) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for at in source.words("crate") {
        if let Some(rest) = source.code[at + "crate".len()..].strip_prefix("::") {
            found.extend(names(rest).into_iter().map(|name| (at, name)));
        }
    }
    let Some(depth) = module_path(&source.path).map(|path| path.len()) else { return found };
    for at in source.words("super") {
        if source.code[..at].ends_with("super::") {
            continue;
        }
        let mut rest = &source.code[at..];
        let mut steps = 0;
        while let Some(after) = rest.strip_prefix("super::") {
            steps += 1;
            rest = after;
        }
        if steps == depth + inline_depth(source, at) {
            found.extend(names(rest).into_iter().map(|name| (at, name)));
        }
    }
    found
}

fn room_directions(source: &Source) -> Vec<String> {
    let Some(path) = module_path(&source.path) else { return Vec::new() };
    let Some(own) = path.first() else { return Vec::new() };
    let Some((_, allowed)) = ROOMS.iter().find(|(room, _)| room == own) else {
        return vec![source.problem(1, format!("`{own}` is not in the list of rooms"))];
    };
    let mut problems = Vec::new();
    for (at, name) in uses(source) {
        let exported = EXPORTS.iter().find(|(export, _)| *export == name);
        let room = exported.map_or(name, |(_, room)| room);
        if room != *own && !LEAVES.contains(&room) && !allowed.contains(&room) {
            let what = format!("`{own}` may not use `{room}`");
            problems.push(source.problem(source.line(at), what));
        }
    }
    problems
}

fn os_users(source: &Source) -> Vec<String> {
    let inside = source.path.starts_with("crates/store/");
    if !source.is_rust() || inside || USES_OS.iter().any(|path| source.path.starts_with(path)) {
        return Vec::new();
    }
    let starts = source.words("hedgerow").filter(|at| {
        let rest = source.code[at + "hedgerow".len()..].strip_prefix("::");
        rest.is_some_and(|rest| names(rest).contains(&"os"))
    });
    let what = "`hedgerow::os` is not part of the public interface";
    starts.map(|at| source.problem(source.line(at), what)).collect()
}

/// The dependencies that a manifest names, with their lines.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (i, line) in manifest.lines().enumerate() {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            inside = section.ends_with("dependencies");
            if let Some((_, name)) = section.split_once("dependencies.") {
                found.push((i + 1, name));
            }
        } else if inside {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            found.push((i + 1, name));
        }
    }
    found
}

fn package_directions(source: &Source) -> Vec<String> {
    if !source.path.starts_with("crates/") || !source.path.ends_with("/Cargo.toml") {
        return Vec::new();
    }
    let name = source.text.lines().find_map(|line| line.strip_prefix("name = "));
    let name = name.unwrap_or_default().trim_matches('"');
    let Some((_, allowed)) = PACKAGES.iter().find(|(package, _)| *package == name) else {
        return vec![source.problem(1, format!("`{name}` is not in the list of packages"))];
    };
    let ours = |name: &str| PACKAGES.iter().any(|(package, _)| *package == name);
    let wrong = dependencies(&source.text).into_iter();
    let wrong = wrong.filter(|(_, other)| ours(other) && !allowed.contains(other));
    wrong
        .map(|(line, other)| source.problem(line, format!("`{name}` may not use `{other}`")))
        .collect()
}

#[test]
fn rooms_use_only_what_lies_below() {
    super::hold(room_directions);
    let faults = [
        ("os/unix.rs", "use crate::tree::Store;"),
        ("tree/rank.rs", "use crate::{Error, lsm::{Db, os}, key};"),
        ("checksum.rs", "use super::os::DataFile;"),
        ("tree/page/mod.rs", "mod tests {\n    use super::super::super::stream::Scan;\n}"),
        ("attic.rs", ""),
    ];
    for (path, text) in faults {
        let problems = room_directions(&Source::new(&format!("{LIBRARY}{path}"), text));
        assert_eq!(problems.len(), 1, "{path}: {problems:?}");
    }
    let fine = "use crate::{Error, os};\nuse super::super::checksum::crc32c;\n\
                mod tests {\n    use super::super::Snapshot;\n}\n// crate::lsm";
    assert_eq!(room_directions(&Source::new(&format!("{LIBRARY}tree/rank.rs"), fine)), [""; 0]);
}

#[test]
fn packages_use_only_the_library() {
    super::hold(package_directions);
    let manifest = "[package]\nname = \"sim\"\n\n[dependencies]\nhedgerow.workspace = true\n\
                    bench = { path = \"../bench\" }\n\n[dev-dependencies.hedgerow-cli]\n";
    let problems = package_directions(&Source::new("crates/sim/Cargo.toml", manifest));
    assert_eq!(
        problems,
        [
            "crates/sim/Cargo.toml:6: `sim` may not use `bench`",
            "crates/sim/Cargo.toml:8: `sim` may not use `hedgerow-cli`",
        ]
    );
}

#[test]
fn only_the_simulator_reaches_below_the_public_interface() {
    super::hold(os_users);
    let text = "use hedgerow::{tree, os::Open};";
    assert_eq!(os_users(&Source::new("crates/cli/src/main.rs", text)).len(), 1);
    assert_eq!(os_users(&Source::new("crates/sim/src/main.rs", text)), [""; 0]);
}
