//! A folder of its own for each test, and the command run in it.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A temporary folder; the command runs in it, so that relative paths lie there.
pub(crate) struct Sandbox {
    folder: TempDir,
}

/// The results of a run of the command.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Sandbox {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// One with a store "s" that holds these entries in its table "main".
    pub(crate) fn with(entries: &[(&str, &str)]) -> Self {
        let sandbox = Self::new();
        sandbox.ok(&["create", "s"]);
        let lines: String =
            entries.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect();
        sandbox.feed(&["load", "s", "--as", "lines"], lines.as_bytes()).is(0);
        sandbox
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hedgerow"));
        command.args(arguments).current_dir(self.folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the command with pipes.
    pub(crate) fn start(&self, arguments: &[impl AsRef<OsStr>]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// Runs the command without input, in a shell that has called `ulimit` with this.
    #[cfg(unix)]
    pub(crate) fn limited(&self, limit: &str, arguments: &[&str]) -> Run {
        let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_hedgerow")]).args(arguments);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        Run::from(command.output().unwrap())
    }

    /// Runs a copy of the command as a user that may read only what all may read, and write
    /// nothing.
    #[cfg(unix)]
    pub(crate) fn guest(&self, arguments: &[&str]) -> Run {
        use std::os::unix::process::CommandExt;
        let copy = self.path("command");
        if !copy.exists() {
            // Copied by another process: if this one had the copy open for writing while another
            // test starts a child, that child would hold it open, and nothing could execute it.
            let mut cp = Command::new("cp");
            let copied = cp.arg(env!("CARGO_BIN_EXE_hedgerow")).arg(&copy).status().unwrap();
            assert!(copied.success());
        }
        let mut command = Command::new(copy);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        Run::from(command.output().unwrap())
    }

    /// Runs the command without input.
    pub(crate) fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Run {
        self.feed(arguments, b"")
    }

    /// Runs the command with this standard input.
    pub(crate) fn feed(&self, arguments: &[impl AsRef<OsStr>], input: &[u8]) -> Run {
        let mut child = self.start(arguments);
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // From a thread of its own, and not minding a command that does not read to the end.
        let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let run = Run::from(child.wait_with_output().unwrap());
        feeder.join().unwrap();
        run
    }

    /// Runs the command, which must succeed; its standard output.
    pub(crate) fn ok(&self, arguments: &[impl AsRef<OsStr>]) -> String {
        self.run(arguments).is(0).text()
    }

    /// Runs the command with --json, which must succeed.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[arguments, &["--json"]].concat()).is(0).json()
    }

    /// `check` must be content with the store.
    pub(crate) fn check(&self, store: &str) {
        let out = self.ok(&["check", store]);
        assert!(out.contains("all is well"), "{out}");
    }
}

/// Waits until something holds.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < patience, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let code = output.status.code().unwrap_or(-1);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        Self { code, out: output.stdout, err }
    }
}

impl Run {
    /// Must have ended with this exit code, and without a panic.
    #[track_caller]
    pub(crate) fn is(self, code: i32) -> Self {
        let out = String::from_utf8_lossy(&self.out);
        assert_eq!(self.code, code, "stderr: {}\nstdout: {out}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// Standard error must say this.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert!(self.err.contains(words), "\"{words}\" is not in: {}", self.err);
        self
    }

    /// Standard output as text.
    #[track_caller]
    pub(crate) fn text(self) -> String {
        String::from_utf8(self.out).unwrap()
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_slice(&self.out).unwrap()
    }
}
