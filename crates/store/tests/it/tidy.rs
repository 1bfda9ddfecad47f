//! The style as a test: every rule of CONTRIBUTING.md that a program can check, over all files.
//!
//! A rule is a function from a file to its problems, each with file and line; a planted fault
//! beside it shows that it finds something. It does not look at behaviour.

mod circles;
mod directions;
mod layout;
mod source;

use source::{Source, body, closing, workspace};

/// Lines of a file, but for tests in files of their own.
const FILE_LINES_MAX: usize = 600;
/// Lines of a function, from its `fn` to its last brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Named fields of a struct.
const STRUCT_FIELDS_MAX: usize = 12;
/// Columns of a line of Rust; rustfmt does not fold comments.
const COLUMNS_MAX: usize = 100;

/// Files that may say `unsafe`, and why. A `*` stands for any characters but `/`.
const UNSAFE: &[(&str, &str)] = &[
    ("crates/store/src/os/unix/bytes.rs", "system calls"),
    ("crates/store/src/os/unix/file.rs", "system calls"),
    ("crates/store/src/os/map.rs", "mapping a file into memory"),
    ("crates/store/src/os/mapped.rs", "bytes where the map of a file has them"),
    ("crates/store/src/os/lock/memory.rs", "words shared with other processes in the lock file"),
    ("crates/store/src/os/lock/tests/fork.rs", "forking a process that has a lock file open"),
    ("crates/store/src/os/aio/buffer.rs", "aligned memory that is lent to the system"),
    ("crates/store/src/os/aio/ring.rs", "memory and descriptors that the system uses on its own"),
    ("crates/store/src/os/aio/tests.rs", "a filter of system calls in a child process"),
    ("crates/store/src/os/sim/memory.rs", "a map of the simulated disk"),
    ("crates/store/src/prefetch.rs", "instructions that fetch memory"),
    ("crates/store/src/tree/page/mod.rs", "views of a page after its check"),
    ("crates/store/src/tree/page/join.rs", "blocks copied inside a page"),
    ("crates/store/src/tree/page/search.rs", "views of a page after its check"),
    ("crates/store/src/tree/pages.rs", "pages borrowed from the map"),
    ("crates/store/src/tree/pages/changed.rs", "views of changed pages"),
    ("crates/store/src/tree/pages/frames.rs", "memory for changed pages"),
    ("crates/store/src/tree/combine.rs", "functions that borrow from a thread that waits"),
    ("crates/store/src/tree/cursor.rs", "steps inside a page after its check"),
    ("crates/store/src/tree/cursor/ahead.rs", "the same, the transaction lent for many of them"),
    ("crates/store/src/stream/held.rs", "a snapshot and the way through it"),
    ("crates/store/src/stream/kept.rs", "a value that its last keeper frees"),
    ("crates/store/src/lsm/memtable/arena.rs", "memory that is given back all at once"),
    ("crates/store/src/lsm/memtable/node.rs", "nodes of any length in the arena"),
    ("crates/store/src/lsm/memtable/zeros.rs", "memory that begins as zeros"),
    ("crates/leveldb/src/ffi/*.rs", "the functions of a C interface, which get pointers"),
    ("crates/lmdb/src/ffi/*.rs", "the functions of a C interface, which get pointers"),
    ("crates/lmdb/src/abi.rs", "types of the caller's functions"),
    ("crates/lmdb/src/arena.rs", "memory that is handed out to C"),
    ("crates/python/src/arrow.rs", "the structs of pointers of the Arrow C data interface"),
    ("crates/python/src/buffer.rs", "values that Python reads in place"),
    ("crates/python/src/strings.rs", "an iterator on Python's C interface"),
    ("crates/sqlite/src/ffi.rs", "the functions of a C interface, which get pointers"),
    ("crates/sqlite/src/order.rs", "SQLite's functions compare records by address"),
    ("crates/sqlite/src/rank.rs", "the functions of a C interface, which get pointers"),
    ("crates/sqlite/src/plain/module.rs", "the functions of a virtual table, which get pointers"),
    ("crates/sqlite/src/plain/plan.rs", "the plan of a query, a structure of C's"),
    ("crates/python/src/mdb/*.rs", "the C interface of LMDB, ours, which gets pointers"),
    ("crates/bench/src/engines/*.rs", "the C interfaces of other engines"),
    ("crates/bench/src/engines/beyond/rocksdb.rs", "the C interface of RocksDB"),
    ("crates/cli/src/lmdb.rs", "the C interface of LMDB"),
    ("crates/cli/tests/it/lmdb.rs", "the C interface of LMDB"),
    ("fuzz/fuzz_targets/c_interface.rs", "calls of a C interface"),
    ("crates/store/tests/it/processes.rs", "forking a process that has a store open"),
];

/// Words that no file may hold, in pieces, so that this one does not hold them.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "finish it, or open an issue"),
    (concat!("FIX", "ME"), "fix it, or open an issue"),
    (concat!("XX", "X"), "say what it is"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/wo", "rk/"), "a path of one machine"),
];

/// Applies a rule to all files that it is for.
fn hold(rule: impl Fn(&Source) -> Vec<String>) {
    let problems: Vec<String> = workspace().iter().flat_map(rule).collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

fn opening(source: &Source) -> Vec<String> {
    if !source.is_rust() || source.text.starts_with("//! ") {
        return Vec::new();
    }
    vec![source.problem(1, "a file opens with `//!`: what it holds and what it may not")]
}

#[test]
fn every_file_opens_by_saying_what_it_holds() {
    hold(opening);
    assert_eq!(opening(&Source::new("a.rs", "// A file.\n")).len(), 1);
}

fn file_size(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if !source.is_rust() || source.is_test() || lines <= FILE_LINES_MAX {
        return Vec::new();
    }
    vec![source.problem(1, format!("{lines} lines, at most {FILE_LINES_MAX}"))]
}

#[test]
fn files_are_short() {
    hold(file_size);
    let long = "fn f() {}\n".repeat(FILE_LINES_MAX + 1);
    assert_eq!(file_size(&Source::new("a.rs", &long)).len(), 1);
    assert_eq!(file_size(&Source::new("a/tests.rs", &long)), [""; 0]);
}

fn function_size(source: &Source) -> Vec<String> {
    let mut problems = Vec::new();
    for start in source.words("fn") {
        let Some(end) = body(&source.code, start).and_then(|open| closing(&source.code, open))
        else {
            continue;
        };
        let (first, last) = (source.line(start), source.line(end));
        let lines = last - first + 1;
        if lines > FUNCTION_LINES_MAX {
            let what = format!("a function of {lines} lines, at most {FUNCTION_LINES_MAX}");
            problems.push(source.problem(first, what));
        }
    }
    problems
}

#[test]
fn functions_are_short() {
    hold(function_size);
    let body = "    let _ = '{';\n".repeat(FUNCTION_LINES_MAX - 1);
    let long = format!("trait T {{ fn g(&self); }}\nfn f(a: [u8; 2]) {{\n{body}}}\n");
    assert_eq!(
        function_size(&Source::new("a.rs", &long)),
        ["a.rs:2: a function of 71 lines, at most 70"]
    );
}

/// Colons at the first level of the braces, not counting `::`.
fn fields(code: &str) -> usize {
    let mut depth = 0i32;
    let mut count = 0;
    let bytes = code.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth -= 1,
            b':' if depth == 1 => {
                let beside = [bytes.get(at.wrapping_sub(1)), bytes.get(at + 1)];
                count += usize::from(!beside.contains(&Some(&b':')));
            }
            _ => {}
        }
    }
    count
}

fn struct_size(source: &Source) -> Vec<String> {
    let mut problems = Vec::new();
    for start in source.words("struct") {
        let Some(open) = body(&source.code, start) else { continue };
        let Some(end) = closing(&source.code, open) else { continue };
        let count = fields(&source.code[open..=end]);
        if count > STRUCT_FIELDS_MAX {
            let what = format!("a struct of {count} fields, at most {STRUCT_FIELDS_MAX}");
            problems.push(source.problem(source.line(start), what));
        }
    }
    problems
}

#[test]
fn structs_are_small() {
    hold(struct_size);
    let field = "    /// Its: text.\n    pub(crate) a: std::vec::Vec<[u8; 2]>,\n";
    let with = |n| format!("struct A;\nstruct S<T: Copy> {{\n{}}}\n", field.repeat(n));
    assert_eq!(struct_size(&Source::new("a.rs", &with(STRUCT_FIELDS_MAX))), [""; 0]);
    assert_eq!(struct_size(&Source::new("a.rs", &with(STRUCT_FIELDS_MAX + 1))).len(), 1);
}

fn width(source: &Source) -> Vec<String> {
    let mut problems = Vec::new();
    for (i, line) in source.text.lines().enumerate().filter(|_| source.is_rust()) {
        let columns = line.chars().count();
        // What cannot be folded: an address, or a string.
        if columns > COLUMNS_MAX && !line.contains("http") && !line.contains('"') {
            problems
                .push(source.problem(i + 1, format!("{columns} columns, at most {COLUMNS_MAX}")));
        }
    }
    problems
}

#[test]
fn lines_are_short() {
    hold(width);
    assert_eq!(width(&Source::new("a.rs", &format!("// {}", "a".repeat(COLUMNS_MAX)))).len(), 1);
    let settings = std::fs::read_to_string(source::root().join("rustfmt.toml")).unwrap();
    assert!(settings.contains(&format!("max_width = {COLUMNS_MAX}")), "rustfmt.toml: max_width");
}

/// Whether a path fits a pattern with at most one `*`.
fn fits(path: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => path == pattern,
        Some((front, back)) => path
            .strip_prefix(front)
            .and_then(|rest| rest.strip_suffix(back))
            .is_some_and(|middle| !middle.contains('/')),
    }
}

fn unsafe_code(source: &Source) -> Vec<String> {
    if !source.is_rust() || UNSAFE.iter().any(|(pattern, _)| fits(&source.path, pattern)) {
        return Vec::new();
    }
    let what = "`unsafe` outside of the files that tests/it/tidy.rs names";
    source.words("unsafe").map(|at| source.problem(source.line(at), what)).collect()
}

#[test]
fn unsafe_code_stays_in_the_named_files() {
    hold(unsafe_code);
    let text = "#![expect(unsafe_code)]\n\nunsafe { f() }";
    assert_eq!(unsafe_code(&Source::new("crates/store/src/tree/page/search.rs", text)), [""; 0]);
    let problems = unsafe_code(&Source::new("crates/store/src/tree/rank.rs", text));
    assert!(problems.len() == 1 && problems[0].starts_with("crates/store/src/tree/rank.rs:3: "));
}

fn forbidden_words(source: &Source) -> Vec<String> {
    let mut problems = Vec::new();
    for (i, line) in source.text.lines().enumerate() {
        for (word, advice) in FORBIDDEN {
            let stands = line.match_indices(word).any(|(at, _)| {
                let joined = |letter: char| source::is_word(letter) || ".-*/".contains(letter);
                let before = line[..at].chars().next_back();
                let after = line[at + word.len()..].chars().next();
                !before.is_some_and(joined)
                    && (word.ends_with('/') || !after.is_some_and(source::is_word))
            });
            if stands {
                problems.push(source.problem(i + 1, format!("\"{word}\": {advice}")));
            }
        }
    }
    problems
}

#[test]
fn nothing_is_left_undone_and_no_machine_is_named() {
    hold(forbidden_words);
    for (word, _) in FORBIDDEN {
        let text = format!("see it:\n({word} here)");
        assert_eq!(forbidden_words(&Source::new("a.md", &text)).len(), 1, "{word}");
        assert_eq!(forbidden_words(&Source::new("a.md", &format!("a{word}"))), [""; 0]);
    }
}

fn test_binaries(sources: &[Source]) -> Vec<String> {
    let roots = sources.iter().filter_map(|source| {
        let (package, inside) = source.path.split_once("/tests/")?;
        let is_root = !inside.contains('/') && inside.ends_with(".rs");
        let is_main = inside.split('/').count() == 2 && inside.ends_with("/main.rs");
        (package.starts_with("crates/") && (is_root || is_main)).then_some((package, source))
    });
    let mut seen: Vec<&str> = Vec::new();
    let mut problems = Vec::new();
    for (package, source) in roots {
        if seen.contains(&package) {
            problems.push(source.problem(1, "a second test binary; make it a module of the first"));
        }
        seen.push(package);
    }
    problems
}

#[test]
fn a_package_has_one_test_binary() {
    let problems = test_binaries(&workspace());
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
    let two = ["crates/a/tests/it/main.rs", "crates/a/tests/b.rs", "crates/c/tests/it/d/main.rs"];
    assert_eq!(test_binaries(&two.map(|path| Source::new(path, ""))).len(), 1);
}
