//! The command under the names of LMDB's tools, beside the tools themselves (Debian's lmdb-utils):
//! the same text loaded by both gives the same output and the same exit codes.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::sandbox::{Run, Sandbox};

/// Databases of the kinds that dumps know. (After one in print the original reads all that
/// follow as print, whatever their headers say.)
const INPUT: &str = "\
VERSION=3
format=bytevalue
database=pairs
type=btree
mapsize=1048576
duplicates=1
dupsort=1
dupfixed=1
integerdup=1
HEADER=END
 6b
 02000000
 6b
 00010000
 6b
 01000000
DATA=END
VERSION=3
format=bytevalue
database=led
type=btree
mapsize=1048576
duplicates=1
dupsort=1
dupfixed=1
integerdup=1
HEADER=END
 6b
 020000006162
 6b
 000100006162
 6b
 010000007879
DATA=END
VERSION=3
format=print
database=plain
type=btree
mapsize=1048576
maxreaders=126
db_pagesize=4096
HEADER=END
 a key
 a value with \\5c and \\00 and \\ff
 another
 
DATA=END
";

/// Whether the original tools are there; where tests may not be skipped they must be.
fn has_original() -> bool {
    let found = Path::new("/usr/bin/mdb_dump").exists();
    assert!(found || std::env::var_os("CI").is_none(), "apt-get install lmdb-utils");
    found
}

/// Both tools over folders with the same content: "theirs" and "ours".
struct Both {
    sandbox: Sandbox,
}

impl Both {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        for tool in ["stat", "dump", "load", "copy", "drop"] {
            let link = sandbox.path(format!("mdb_{tool}"));
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hedgerow"), link).unwrap();
        }
        for folder in ["theirs", "ours"] {
            std::fs::create_dir(sandbox.path(folder)).unwrap();
        }
        Self { sandbox }
    }

    /// With a database each; `None` without the original.
    fn with_input() -> Option<Self> {
        let both = has_original().then(Self::new)?;
        both.sandbox.write("input", INPUT);
        both.same("load", &["-f", "input", "{}"]);
        Some(both)
    }

    fn run(&self, program: &Path, folder: &str, arguments: &[&str]) -> Run {
        let arguments = arguments.iter().map(|argument| argument.replace("{}", folder));
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.sandbox.path("."));
        Run::from(command.stdin(Stdio::null()).output().unwrap())
    }

    fn ours(&self, tool: &str, arguments: &[&str]) -> Run {
        self.run(&self.sandbox.path(format!("mdb_{tool}")), "ours", arguments)
    }

    fn theirs(&self, tool: &str, arguments: &[&str]) -> Run {
        self.run(Path::new(&format!("/usr/bin/mdb_{tool}")), "theirs", arguments)
    }

    /// Runs both; they must print the same, except numbers that depend on the file's layout.
    #[track_caller]
    fn same(&self, tool: &str, arguments: &[&str]) -> String {
        let (theirs, ours) = (self.theirs(tool, arguments), self.ours(tool, arguments));
        assert_eq!(theirs.code, ours.code, "{tool} {arguments:?}: {} / {}", theirs.err, ours.err);
        // The original also warns of header lines that it writes itself.
        let is_silent = theirs.err.is_empty();
        assert!(
            theirs.code == 0 || is_silent == ours.err.is_empty(),
            "{} / {}",
            theirs.err,
            ours.err
        );
        let (theirs, ours) = (steady(&theirs.text()), steady(&ours.text()));
        assert_eq!(theirs, ours, "{tool} {arguments:?}");
        ours
    }
}

/// Without the numbers of pages and bytes that are each file's own.
fn steady(text: &str) -> String {
    let own = ["mapsize=", "  Map size:", "  Max pages:", "  Number of pages used:"];
    let lines = text.lines().filter(|line| !own.iter().any(|own| line.starts_with(own)));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn dumps_are_the_same() {
    let Some(both) = Both::with_input() else { return };
    let all = both.same("dump", &["-a", "{}"]);
    assert!(all.contains("integerdup=1\n") && all.contains("database=plain\n"), "{all}");
    both.same("dump", &["{}", "-s", "plain"]);
    both.same("dump", &["-s", "pairs", "{}"]);
    both.same("dump", &["-ps", "pairs", "{}"]);
    assert_eq!(both.same("dump", &["-l", "{}"]), "led\npairs\nplain\n");
    both.same("dump", &["-s", "none", "{}"]);
    both.same("dump", &["-a", "-s", "plain", "{}"]);
    both.same("dump", &["-a", "nowhere"]);
    both.same("dump", &["-x", "{}"]);
    both.same("dump", &[]);
    both.same("dump", &["-f", "out-{}", "-s", "plain", "{}"]);
    let written = |name| steady(&std::fs::read_to_string(both.sandbox.path(name)).unwrap());
    assert_eq!(written("out-theirs"), written("out-ours"));
}

/// The original's `mdb_load` sets the map size that a dump says, and puts 100 entries in each
/// transaction, in pages that it splits in the middle.
#[test]
fn a_dump_leaves_room_for_the_original() {
    if !has_original() {
        return;
    }
    let both = Both::new();
    let lines = (0..60_000).map(|number| format!("key {number:06}\nvalue {number}\n"));
    both.sandbox.write("lines", lines.collect::<String>());
    both.ours("load", &["-T", "-f", "lines", "{}"]).is(0);
    both.ours("dump", &["-f", "dumped", "{}"]).is(0);
    both.theirs("load", &["-f", "dumped", "{}"]).is(0);
    both.same("dump", &["{}"]);
}

#[test]
fn numbers_are_the_same() {
    let Some(both) = Both::with_input() else { return };
    let all = both.same("stat", &["-a", "{}"]);
    assert!(all.contains("Status of pairs\n") && all.contains("  Entries: 3\n"), "{all}");
    both.same("stat", &["{}"]);
    both.same("stat", &["-s", "plain", "{}"]);
    both.same("stat", &["-s", "none", "{}"]);
    both.same("stat", &["-as", "plain", "{}"]);
    both.same("stat", &["nowhere"]);
    // Each load of a header is a commit of the original's; ours is one for all.
    let ours = both.ours("stat", &["-ef", "{}"]).is(0).text();
    for line in ["  Map address: (nil)\n", "  Page size: 4096\n", "  Max readers: 126\n"] {
        assert!(ours.contains(line), "{ours}");
    }
    // Free pages are reported in the same lines; the numbers are each file's own.
    let words = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect()
    };
    let theirs = both.theirs("stat", &["-ef", "{}"]).text();
    assert_eq!(words(&ours), words(&theirs), "{ours}\n{theirs}");
    // The original prints the same and ends with 1, whatever the table holds.
    let readers = both.theirs("stat", &["-r", "{}"]).text();
    assert_eq!(both.ours("stat", &["-r", "{}"]).is(0).text(), readers);
    let readers = both.ours("stat", &["-rr", "{}"]).is(0).text();
    assert!(readers.contains("  0 stale readers cleared.\n"), "{readers}");
}

#[test]
fn loads_are_the_same() {
    let Some(both) = Both::with_input() else { return };
    both.sandbox.write("lines", "k1\nv1\nk\\00\n\\ff\n");
    both.same("load", &["-T", "-s", "lines", "-f", "lines", "{}"]);
    both.same("dump", &["-s", "lines", "{}"]);
    both.sandbox.write("more", "k1\nv2\nk2\nv2\n");
    both.same("load", &["-T", "-N", "-s", "lines", "-f", "more", "{}"]);
    both.same("dump", &["-ps", "lines", "{}"]);
    both.same("load", &["-T", "-s", "lines", "-f", "more", "{}"]);
    both.same("dump", &["-ps", "lines", "{}"]);
    both.same("load", &["-T", "-f", "more", "nowhere"]);
    both.same("load", &["-T", "-f", "missing", "{}"]);
    both.same("load", &["-T", "-f", "more", "-n", "file-{}"]);
    both.same("dump", &["-n", "file-{}"]);
    assert!(both.sandbox.path("file-ours").is_file());
    both.sandbox.write("odd", "VERSION=3\nformat=bytevalue\nHEADER=END\n 6\n 61\nDATA=END\n");
    both.sandbox.write("long", format!("{}\nvalue\n", "k".repeat(512)));
    both.same("load", &["-T", "-f", "long", "{}"]);
    both.sandbox.write("version", "VERSION=4\nHEADER=END\nDATA=END\n");
    both.same("load", &["-f", "version", "{}"]);
    // The original takes what is cut off for the end, and says so without failing.
    both.ours("load", &["-f", "odd", "{}"]).is(1).says("line 4");
}

#[test]
fn copies_and_drops() {
    let Some(both) = Both::with_input() else { return };
    for name in ["copy-ours", "copy-theirs", "small-ours", "small-theirs"] {
        std::fs::create_dir(both.sandbox.path(name)).unwrap();
    }
    both.same("copy", &["{}", "copy-{}"]);
    both.same("copy", &["{}", "copy-{}"]);
    both.same("copy", &["-c", "{}", "small-{}"]);
    both.same("copy", &["{}", "nowhere"]);
    both.same("copy", &["-x", "{}", "copy-{}"]);
    both.same("copy", &["nowhere", "copy-{}"]);
    both.same("dump", &["-a", "copy-{}"]);
    both.same("dump", &["-a", "small-{}"]);
    let streamed = both.ours("copy", &["{}"]).is(0).out;
    std::fs::write(both.sandbox.path("streamed"), streamed).unwrap();
    assert_eq!(both.ours("dump", &["-ln", "streamed"]).is(0).text(), "led\npairs\nplain\n");
    // Debian's package has no mdb_drop.
    both.ours("drop", &["-s", "plain", "{}"]).is(0);
    assert!(both.ours("stat", &["-s", "plain", "{}"]).is(0).text().contains("  Entries: 0\n"));
    both.ours("drop", &["-d", "-s", "plain", "{}"]).is(0);
    both.ours("stat", &["-s", "plain", "{}"]).is(1).says("MDB_NOTFOUND");
    both.ours("drop", &["-s", "none", "{}"]).is(1).says("MDB_NOTFOUND");
    both.ours("drop", &["{}"]).is(0);
    both.ours("dump", &["-l", "{}"]).is(1).says("does not contain multiple databases");
}

#[test]
fn wrong_paths_are_told_in_the_same_words() {
    let Some(both) = Both::with_input() else { return };
    both.sandbox.write("keys", "VERSION=3\nHEADER=END\n 00\n 00\nDATA=END\n");
    for folder in ["theirs-keys", "ours-keys"] {
        std::fs::create_dir(both.sandbox.path(folder)).unwrap();
    }
    both.same("load", &["-f", "keys", "{}-keys"]);
    for (tool, arguments) in [
        ("stat", &["nowhere"] as &[&str]),
        ("stat", &["-n", "{}"]),
        ("dump", &["nowhere"]),
        ("dump", &["-n", "{}"]),
        ("dump", &["-a", "{}-keys"]),
        ("load", &["-f", "input", "nowhere"]),
        ("load", &["-n", "-f", "input", "nowhere/file"]),
        ("copy", &["nowhere"]),
    ] {
        both.same(tool, arguments);
        let (theirs, ours) = (both.theirs(tool, arguments), both.ours(tool, arguments));
        // In front stand the program's own path and, from the original, warnings of header lines.
        let said = |run: &Run| {
            let last = run.err.lines().last().unwrap_or_default().replace("theirs", "ours");
            last.split(": ").last().map(str::to_owned)
        };
        assert_eq!(said(&theirs), said(&ours), "{tool} {arguments:?}");
    }
}

#[test]
fn the_flags_of_dlmdb_are_carried() {
    let both = Both::new();
    let header = "VERSION=3\nformat=print\ndatabase=ranks\ntype=btree\n";
    let flags = "duplicates=1\ndupsort=1\ncounted=1\nprefix_compression=1\n";
    both.sandbox.write("ranks", format!("{header}{flags}HEADER=END\n k\n v\nDATA=END\n"));
    both.ours("load", &["-f", "ranks", "{}"]).is(0);
    let dump = both.ours("dump", &["-a", "{}"]).is(0).text();
    assert!(dump.contains(flags), "{dump}");
    // And through the command's own dump and load.
    let dump = both.sandbox.ok(&["dump", "ours", "--all"]);
    both.sandbox.write("own", dump);
    std::fs::create_dir(both.sandbox.path("again")).unwrap();
    both.sandbox.ok(&["load", "again/data.mdb", "own"]);
    let again = both.ours("dump", &["-a", "again"]).is(0).text();
    assert!(again.contains(flags), "{again}");
}

#[test]
fn every_tool_tells_its_version_and_usage() {
    let both = Both::new();
    for tool in ["stat", "dump", "load", "copy", "drop"] {
        let version = both.ours(tool, &["-V"]).is(0).text();
        assert!(version.starts_with("LMDB 0.9."), "{version}");
        both.ours(tool, &["-?"]).is(1).says("usage: ");
        both.ours(tool, &[]).is(1).says("usage: ");
    }
}
