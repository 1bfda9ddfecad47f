//! The directions between the files of a room: which layer of an engine may use which, and how many
//! files use each other in a circle.
//!
//! A file uses another one where a name that it imports, or a path that begins with `crate`,
//! `super`, `self` or a module of its own, comes from there. A name that a file only hands on
//! (`pub use`) counts as one of the file that it comes from. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, is_word, without_tests, workspace};

/// The most files of each room that use each other in a circle. To be lowered where it has become
/// fewer, and never to be raised.
const CIRCLES: &[(&str, usize)] = &[("key", 0), ("os", 2), ("tree", 7), ("lsm", 3)];

/// The files and folders of an engine in layers, the lowest one first: each uses only what is in
/// its own layer or below.
const LAYERS: &[(&str, &[&[&str]])] = &[("tree", TREE), ("lsm", LSM)];

const TREE: &[&[&str]] = &[
    &["bytes", "entry", "options", "order", "page_ref", "words"],
    &["page"],
    &["free/runs", "meta", "recover", "tree"],
    &["extent", "pages"],
    &["path", "rank", "report", "search"],
    &["branches", "catalog", "insert", "rebalance", "remove", "tail"],
    &["free", "image", "spill", "state"],
    &["cursor", "range", "snapshot"],
    &["combine", "commit", "flush", "group", "log", "registry", "store", "txn", "txn_read"],
    &["any_txn", "cursor/ahead", "cursor/write"],
    &["check", "compact", "copy", "diff", "open", "pins", "salvage", "stat", "typed"],
];

const LSM: &[&[&str]] = &[
    &[
        "closing", "entry", "filter", "keyspace", "memtable", "names", "numbers", "options",
        "varint",
    ],
    &["clock", "files/cache", "files/memory", "log/held", "merge", "table", "tombstones"],
    &["files", "identity"],
    &[
        "log",
        "read/fetch",
        "table/ahead",
        "table/build",
        "table/cursor",
        "table/read",
        "values/place",
    ],
    &[
        "buffer",
        "commit/batch",
        "commit/ranges",
        "levels/table_file",
        "levels/version",
        "values/remap",
    ],
    &["levels", "values"],
    &["read"],
    &["check", "commit/conflict", "open/load"],
    &["background", "commit", "engine"],
    &["open/recover", "open/replay", "read/snapshot", "stat"],
    &["db"],
    &["catalog", "checkpoint", "commit/asking", "commit/transaction", "open", "pins"],
    &["backup", "diff", "open/reader", "salvage"],
    &["typed"],
];

const LIBRARY: &str = "crates/store/src/";

/// The name of a module from the crate's root on.
type Name = Vec<String>;

/// A file of the library as what it names.
struct Module {
    imports: Vec<Import>,
    /// The modules that it declares.
    children: BTreeSet<String>,
    /// Every path, also of one name, that stands in its code.
    paths: BTreeSet<Vec<String>>,
}

/// A name that a file imports.
struct Import {
    /// The path as it is written.
    path: Vec<String>,
    /// The name that it has here; `*` for all of a module.
    name: String,
    /// Whether others may import it from here.
    is_handed_on: bool,
}

/// All files of the library.
struct Library(BTreeMap<Name, Module>);

fn parts(path: &str) -> Vec<String> {
    path.split("::").map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
}

/// The paths of a tree of imports, `a::{b, c as d}`, each with the name that it gives.
fn expand(front: &str, tree: &str, is_handed_on: bool, found: &mut Vec<Import>) {
    let tree = tree.trim();
    if let Some((head, inside)) = tree.split_once('{') {
        let inside = inside.trim_end().strip_suffix('}').unwrap_or(inside);
        let mut depth = 0;
        let items = inside.split(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        });
        let front = format!("{front}{}", head.trim());
        items.for_each(|item| expand(&front, item, is_handed_on, found));
    } else if !tree.is_empty() {
        let (path, renamed) = match tree.split_once(" as ") {
            Some((path, name)) => (path, Some(name.trim().to_string())),
            None => (tree, None),
        };
        let mut path = parts(&format!("{front}{path}"));
        if path.len() > 1 {
            path.pop_if(|last| last == "self");
        }
        let name = renamed.or_else(|| path.last().cloned()).unwrap_or_default();
        found.push(Import { path, name, is_handed_on });
    }
}

impl Module {
    fn new(source: &Source) -> Self {
        let mut code = without_tests(source);
        let mut imports = Vec::new();
        while let Some(at) = word(&code, "use") {
            let end = code[at..].find(';').map_or(code.len(), |end| at + end);
            let before = code[..at].trim_end();
            let is_handed_on = before.ends_with("pub") || before.ends_with(')');
            expand("", &code[at + "use".len()..end], is_handed_on, &mut imports);
            code.replace_range(at..end, "");
        }
        let pieces = code.split(|c| !is_word(c) && c != ':');
        let paths = pieces.map(parts).filter(|path| !path.is_empty()).collect();
        let declared = code.split("mod ").skip(1).filter_map(|rest| rest.split_once(';'));
        let children = declared.map(|(name, _)| name).filter(|name| name.chars().all(is_word));
        Self { imports, children: children.map(str::to_string).collect(), paths }
    }
}

/// Where a word stands first.
fn word(code: &str, word: &str) -> Option<usize> {
    let mut places = code.match_indices(word).map(|(at, _)| at);
    places.find(|&at| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

impl Library {
    fn new(sources: &[Source]) -> Self {
        let files = sources.iter().filter(|source| !source.is_test()).filter_map(|source| {
            let path = source.path.strip_prefix(LIBRARY)?.strip_suffix(".rs")?;
            let mut name: Name = path.split('/').map(str::to_string).collect();
            name.pop_if(|last| last == "mod" || last == "lib");
            Some((name, Module::new(source)))
        });
        Self(files.collect())
    }

    /// A path as one from the crate's root; `None` if it names nothing of this crate.
    fn path_from_root(&self, within: &Name, path: &[String]) -> Option<Vec<String>> {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let first = path.first()?;
        let base: &[String] = match first.as_str() {
            "crate" => &[],
            "super" => within.get(..within.len().checked_sub(ups)?)?,
            "self" => within,
            _ if self.0.get(within)?.children.contains(first) => within,
            _ => return None,
        };
        let skipped = match first.as_str() {
            "crate" | "self" => 1,
            _ => ups,
        };
        Some([base, &path[skipped..]].concat())
    }

    /// The file that a path from the root leads to, through names that files hand on.
    fn file_of(&self, path: &[String], steps: usize) -> Name {
        let len = (0..=path.len()).rev().find(|&len| self.0.contains_key(&path[..len]));
        let len = len.unwrap_or(0);
        let within = path[..len].to_vec();
        if let (Some(module), Some(name), true) = (self.0.get(&within), path.get(len), steps > 0) {
            let handed_on = module.imports.iter().find(|import| import.name == *name);
            let from = handed_on.and_then(|import| self.path_from_root(&within, &import.path));
            if let Some(from) = from {
                return self.file_of(&[&from[..], &path[len + 1..]].concat(), steps - 1);
            }
        }
        within
    }

    /// The files that a file uses.
    fn used_by(&self, name: &Name, module: &Module) -> BTreeSet<Name> {
        let imported = |given: &String| module.imports.iter().find(|i| i.name == *given);
        let named = module.paths.iter().filter_map(|path| match imported(&path[0]) {
            Some(import) => self.path_from_root(name, &[&import.path, &path[1..]].concat()),
            None if path.len() > 1 => self.path_from_root(name, path),
            None => None,
        });
        let own = module.imports.iter().filter(|import| !import.is_handed_on);
        // A module that is imported is no use of it: the paths through it are.
        let own = own.filter_map(|import| self.path_from_root(name, &import.path));
        let own = own.filter(|path| !self.0.contains_key(path));
        let mut used: BTreeSet<Name> =
            named.chain(own).map(|path| self.file_of(&path, 8)).collect();
        used.remove(name);
        used
    }

    /// What each file of a room uses of it.
    fn room(&self, room: &str) -> BTreeMap<Name, BTreeSet<Name>> {
        let inside = |name: &Name| name.first().is_some_and(|first| first == room);
        let files = self.0.iter().filter(|(name, _)| inside(name));
        let uses = files.map(|(name, module)| {
            let used = self.used_by(name, module);
            (name.clone(), used.into_iter().filter(inside).collect())
        });
        uses.collect()
    }
}

/// All that a file uses, by itself or through others.
fn reached(graph: &BTreeMap<Name, BTreeSet<Name>>, from: &Name) -> BTreeSet<Name> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        for used in graph.get(name).into_iter().flatten() {
            if found.insert(used.clone()) {
                open.push(used);
            }
        }
    }
    found
}

/// The files that use each other in the largest circle.
fn largest_circle(graph: &BTreeMap<Name, BTreeSet<Name>>) -> Vec<String> {
    let reached: BTreeMap<&Name, _> =
        graph.keys().map(|name| (name, reached(graph, name))).collect();
    let circles = reached.iter().map(|(name, below)| {
        let back = |other: &&Name| reached.get(other).is_some_and(|b| b.contains(*name));
        let around = below.iter().filter(back);
        around.map(|name| name.join("/")).collect::<Vec<_>>()
    });
    circles.max_by_key(Vec::len).unwrap_or_default()
}

fn circle_problems(library: &Library, room: &str, most: usize) -> Vec<String> {
    let circle = largest_circle(&library.room(room));
    match circle.len() {
        len if len > most => {
            vec![format!("{room}: {len} files in a circle, at most {most}: {}", circle.join(", "))]
        }
        len if len < most => vec![format!("{room}: {len} files in a circle; lower the {most}")],
        _ => Vec::new(),
    }
}

/// The layer of a file: that of the longest entry that names it or a folder above it.
fn layer(layers: &[&[&str]], name: &Name) -> Option<usize> {
    let path = name[1..].join("/");
    let fits = |entry: &str| path == entry || path.starts_with(&format!("{entry}/"));
    let all = layers.iter().enumerate();
    let entries = all.flat_map(|(at, layer)| layer.iter().map(move |entry| (at, entry)));
    let fitting = entries.filter(|(_, entry)| fits(entry));
    fitting.max_by_key(|(_, entry)| entry.len()).map(|(at, _)| at)
}

fn layer_problems(library: &Library, room: &str, layers: &[&[&str]]) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, used) in library.room(room).iter().filter(|(name, _)| name.len() > 1) {
        let Some(own) = layer(layers, name) else {
            problems.push(format!("{} is in no layer", name.join("/")));
            continue;
        };
        let above = used.iter().filter(|other| layer(layers, other).is_some_and(|at| at > own));
        let say = |other: &Name| format!("{} may not use {}", name.join("/"), other.join("/"));
        problems.extend(above.map(say));
    }
    problems
}

#[test]
fn no_more_files_than_these_use_each_other_in_a_circle() {
    let library = Library::new(&workspace());
    let problems: Vec<String> =
        CIRCLES.iter().flat_map(|(room, most)| circle_problems(&library, room, *most)).collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn files_of_an_engine_use_only_their_layer_and_those_below() {
    let library = Library::new(&workspace());
    let problems: Vec<String> =
        LAYERS.iter().flat_map(|(room, layers)| layer_problems(&library, room, layers)).collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn circles_and_wrong_directions_are_found() {
    let files = [
        ("a/mod.rs", "mod low;\nmod high;\nmod top;\npub use high::High;"),
        ("a/low.rs", "use super::{High as Up, top};\nfn f(a: Up) {}"),
        ("a/high.rs", "fn f() { crate::a::top::go() }\n#[cfg(test)]\nmod tests { use super::x; }"),
        ("a/top.rs", "use std::fmt;\nuse super::low::Low;\npub struct Top(Low);"),
    ];
    let sources = files.map(|(path, text)| Source::new(&format!("{LIBRARY}{path}"), text));
    let library = Library::new(&sources);
    assert_eq!(largest_circle(&library.room("a")), ["a/high", "a/low", "a/top"]);
    assert_eq!(circle_problems(&library, "a", 2).len(), 1);
    assert_eq!(circle_problems(&library, "a", 4).len(), 1);
    assert_eq!(circle_problems(&library, "a", 3), [""; 0]);
    let layers: &[&[&str]] = &[&["low"], &["high", "top"]];
    assert_eq!(layer_problems(&library, "a", layers), ["a/low may not use a/high"]);
    assert_eq!(layer_problems(&library, "a", &[&["low", "high"]]), ["a/top is in no layer"]);
}
