//! Walks the table of docs/operations.md: each cell is a command, run on a store of that engine
//! with that trouble. No command that reads may change a file of the store.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{Run, Sandbox, until};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");

/// The columns, and the commands; what they write goes to `out`.
const COMMANDS: [(&str, &[&str]); 11] = [
    ("get", &["get", "s", "000100"]),
    ("scan", &["scan", "s"]),
    ("count", &["count", "s"]),
    ("tables", &["tables", "s"]),
    ("nth", &["nth", "s", "5"]),
    ("rank", &["rank", "s", "000100"]),
    ("stat", &["stat", "s"]),
    ("dump", &["dump", "s"]),
    ("check", &["check", "s"]),
    ("copy", &["copy", "s", "out/copy"]),
    ("salvage", &["salvage", "s", "out/saved"]),
];

/// Where a meta page says its version.
const VERSION: usize = 8;

/// How commands are run.
enum How {
    Plainly,
    /// As a user without the right to write.
    AsGuest,
    /// After these commands of a shell that may mount.
    Mounted(&'static str),
}

/// A store with trouble.
struct Case {
    sandbox: Sandbox,
    how: How,
    /// A process that writes to it, and is killed in the end.
    writer: Option<Child>,
}

impl Drop for Case {
    fn drop(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.kill().unwrap();
            writer.wait().unwrap();
        }
        self.mode("", 0o755);
        if self.sandbox.path("s").is_dir() {
            self.mode("s", 0o755);
        }
    }
}

const FULL: &str = "mount -t tmpfs -o size=8m none disk && cp -rT s disk/s && \
                    { cp s-lock disk/ || true; } && { cat /dev/zero >disk/fill || true; }";
const READ_ONLY: &str = "cp -rT s disk/s && mount --bind disk disk && \
                         mount -o remount,bind,ro disk";

impl Case {
    fn new(engine: &str) -> Self {
        let sandbox = Sandbox::new();
        sandbox.ok(&["create", "--engine", engine, "s"]);
        let name = |n| if n == 100 { "needle" } else { "value" };
        let line = |n| format!("{n:06}\t{} {n:0>90}\n", name(n));
        let lines: String = (0..2_000).map(line).collect();
        sandbox.feed(&["load", "s", "--as", "lines"], lines.as_bytes()).is(0);
        sandbox.ok(&["compact", "s"]);
        (0..4).for_each(|n| drop(sandbox.ok(&["put", "s", &format!("1{n}"), "late"])));
        std::fs::create_dir(sandbox.path("out")).unwrap();
        let case = Self { sandbox, how: How::Plainly, writer: None };
        case.mode("out", 0o777);
        case
    }

    fn mode(&self, name: &str, bits: u32) {
        std::fs::set_permissions(self.sandbox.path(name), Permissions::from_mode(bits)).unwrap();
    }

    fn is_tree(&self) -> bool {
        self.sandbox.path("s").is_file()
    }

    /// The files of the store.
    fn files(&self) -> Vec<PathBuf> {
        let path = self.sandbox.path("s");
        match path.is_dir() {
            true => std::fs::read_dir(path).unwrap().map(|file| file.unwrap().path()).collect(),
            false => vec![path],
        }
    }

    /// The longest one whose name ends so.
    fn longest(&self, end: &str) -> PathBuf {
        let has_end = |path: &PathBuf| path.to_str().unwrap().ends_with(end);
        let len = |path: &PathBuf| path.metadata().unwrap().len();
        self.files().into_iter().filter(has_end).max_by_key(len).unwrap()
    }

    fn edit(&self, path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(path).unwrap();
        edit(&mut bytes);
        std::fs::write(path, bytes).unwrap();
    }

    /// A writer that has the store open: of the tree, with its turn to write.
    fn start_writer(&mut self) {
        let arguments = ["load", "s", "--as", "lines", "--timeout", "60"];
        let mut command = self.sandbox.start(&arguments);
        std::io::Write::write_all(command.stdin.as_mut().unwrap(), b"zz\tnever\n").unwrap();
        if self.is_tree() {
            let store = hedgerow::tree::Store::open(self.sandbox.path("s")).unwrap();
            until("the load begins", || store.try_begin_write().unwrap().is_none());
        } else {
            until("the load begins", || self.sandbox.run(&["get", "s", "000100"]).code == 3);
        }
        assert!(command.try_wait().unwrap().is_none());
        self.writer = Some(command);
    }

    /// Makes the trouble.
    fn trouble(&mut self, trouble: &str) {
        let is_tree = self.is_tree();
        match trouble {
            "full disk" => self.how = How::Mounted(FULL),
            "read-only mount" => self.how = How::Mounted(READ_ONLY),
            "read-only folder" => {
                self.sandbox.guest(&["--version"]).is(0);
                self.files().iter().for_each(|path| {
                    std::fs::set_permissions(path, Permissions::from_mode(0o444)).unwrap();
                });
                if is_tree {
                    self.mode("s-lock", 0o444);
                } else {
                    self.mode("s", 0o555);
                }
                self.mode("", 0o555);
                self.how = How::AsGuest;
            }
            "damaged data" => {
                let path = self.longest(if is_tree { "s" } else { ".table" });
                self.edit(&path, |bytes| {
                    let at = bytes.windows(6).position(|window| window == b"needle").unwrap();
                    bytes[at] ^= 1;
                });
            }
            "damaged log or meta" if is_tree => {
                let path = self.sandbox.path("s");
                self.edit(&path, |bytes| {
                    (0..3).for_each(|page| bytes[page * 4096 + VERSION + 8] ^= 1)
                });
            }
            "damaged log or meta" => {
                let path = self.longest(".log");
                self.edit(&path, |bytes| {
                    let at = bytes.windows(4).position(|window| window == b"late").unwrap();
                    bytes[at] ^= 1;
                });
            }
            "missing file" if is_tree => std::fs::remove_file(self.sandbox.path("s")).unwrap(),
            "missing file" => std::fs::remove_file(self.longest(".table")).unwrap(),
            "killed writer" => {
                self.start_writer();
                let mut writer = self.writer.take().unwrap();
                writer.kill().unwrap();
                writer.wait().unwrap();
            }
            "stopped writer" => {
                self.start_writer();
                kill_process(Pid::from_child(self.writer.as_ref().unwrap()), Signal::STOP).unwrap();
            }
            "other engine" => {
                let other = Self::new(if is_tree { "lsm" } else { "tree" });
                let from = if is_tree { other.longest("MANIFEST") } else { other.longest("s") };
                let to = if is_tree { self.sandbox.path("s") } else { self.longest("MANIFEST") };
                std::fs::copy(from, to).unwrap();
            }
            "other version" => self.raise_version(),
            other => panic!("docs/operations.md: no such trouble: {other}"),
        }
    }

    /// Has the store say that a later version of the format wrote it.
    fn raise_version(&self) {
        if self.is_tree() {
            let path = self.sandbox.path("s");
            return self.edit(&path, |bytes| {
                (0..3).for_each(|page| bytes[page * 4096 + VERSION] = 9);
            });
        }
        self.edit(&self.longest("MANIFEST"), |bytes| {
            bytes[VERSION] = 9;
            let sum = crc32c([0; 8].iter().chain(&bytes[..60]));
            bytes[60..64].copy_from_slice(&sum.to_le_bytes());
        });
    }

    /// Runs a command; `None` where that cannot be had here.
    fn run(&self, arguments: &[&str]) -> Option<Run> {
        match self.how {
            How::Plainly => Some(self.sandbox.run(arguments)),
            How::AsGuest => Some(self.sandbox.guest(arguments)),
            How::Mounted(mount) => self.mounted(mount, arguments),
        }
    }

    /// Runs a command on `disk/s`: a disk that has no room, or is read-only.
    fn mounted(&self, mount: &str, arguments: &[&str]) -> Option<Run> {
        let script = format!("{{ {mount}; }} >&2 2>/dev/null || exit 77; exec \"$0\" \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]);
        command.arg(env!("CARGO_BIN_EXE_hedgerow"));
        let inside = arguments.iter().map(|&word| if word == "s" { "disk/s" } else { word });
        command.args(inside).current_dir(self.sandbox.path("")).stdin(Stdio::null());
        let run = Run::from(command.output().ok()?);
        let is_refused = run.code == 77 || run.err.contains("unshare:");
        assert!(!is_refused || std::env::var_os("CI").is_none(), "no mounts: {}", run.err);
        (!is_refused).then_some(run)
    }

    /// What is in the store's files.
    fn content(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let read = |path: PathBuf| std::fs::read(&path).ok().map(|bytes| (path, bytes));
        self.files().into_iter().filter_map(read).collect()
    }
}

/// CRC-32C, bit by bit.
fn crc32c<'b>(bytes: impl Iterator<Item = &'b u8>) -> u32 {
    !bytes.fold(!0_u32, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| (sum >> 1) ^ (0x82f6_3b78 * (sum & 1)))
    })
}

/// What a cell says of a run.
fn outcome(run: &Run) -> &'static str {
    match run.code {
        0 => "reads",
        1 => "damage",
        3 => "refuses",
        _ => "fails",
    }
}

/// The rows of the table: engine, trouble, cells.
fn rows(text: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        let inside = line.trim().trim_matches('|');
        inside.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    let rows = text.lines().filter(|line| line.starts_with('|')).map(cells);
    rows.filter(|row| ["tree", "lsm"].contains(&row[0].as_str())).collect()
}

/// Runs every command of a row; what it should say.
fn walk(row: &[String]) -> Option<Vec<String>> {
    let mut case = Case::new(&row[0]);
    let usual: Vec<Run> =
        COMMANDS.iter().map(|(_, arguments)| case.sandbox.run(arguments)).collect();
    for name in ["out/copy", "out/saved"] {
        let path = case.sandbox.path(name);
        let is_folder = path.is_dir();
        let remove = if is_folder { std::fs::remove_dir_all } else { std::fs::remove_file };
        remove(&path).unwrap();
        std::fs::remove_file(case.sandbox.path(format!("{name}-lock"))).ok();
    }
    std::fs::create_dir(case.sandbox.path("disk")).unwrap();
    case.trouble(&row[1]);
    let before = case.content();
    let mut found = vec![row[0].clone(), row[1].clone()];
    for ((name, arguments), usual) in COMMANDS.iter().zip(&usual) {
        if usual.code != 0 {
            // The engine has no such command.
            found.push("-".to_owned());
            continue;
        }
        let run = case.run(arguments)?;
        let place = format!("{name} of {} with {}: {}", row[0], row[1], run.err);
        assert!(!run.err.contains("panicked") && run.code >= 0, "{place}");
        assert!(run.code != 3 || !run.err.trim().is_empty(), "{place}");
        let is_same = !["get", "scan", "count", "tables", "nth", "rank", "dump"].contains(name)
            || run.out == usual.out;
        assert!(run.code != 0 || is_same, "{place} reads something else");
        found.push(outcome(&run).to_owned());
    }
    assert!(case.content() == before, "{} with {}: files were changed", row[0], row[1]);
    Some(found)
}

fn the_rows_hold(engine: &str) {
    let text = std::fs::read_to_string(DOCUMENT).unwrap();
    let rows: Vec<_> = rows(&text).into_iter().filter(|row| row[0] == engine).collect();
    assert_eq!(rows.len(), 10, "ten troubles");
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|row| walk(row).filter(|found| found != row))
        .map(|found| format!("| {} |", found.join(" | ")))
        .collect();
    assert!(wrong.is_empty(), "docs/operations.md should say:\n{}", wrong.join("\n"));
}

/// A dump that stops at damage has given what comes before it, and says how to go on.
#[test]
fn what_comes_before_damage_is_dumped() {
    for (engine, next) in [("tree", "--skip-damaged"), ("lsm", "hedgerow salvage")] {
        let mut case = Case::new(engine);
        case.trouble("damaged data");
        for format in ["lines", "csv", "mdb"] {
            let run = case.sandbox.run(&["dump", "s", "--as", format]).is(3).says(next);
            let first: &[u8] = if format == "mdb" { b"303030303530" } else { b"000050" };
            assert!(run.out.windows(first.len()).any(|part| part == first), "{engine} {format}");
        }
    }
    let case = Case::new("lsm");
    case.sandbox.run(&["dump", "s", "--skip-damaged"]).is(2).says("hedgerow salvage");
}

#[test]
fn the_table_holds_for_trees() {
    the_rows_hold("tree");
}

#[test]
fn the_table_holds_for_log_structured_stores() {
    the_rows_hold("lsm");
}
