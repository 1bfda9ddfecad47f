//! A process of this program that plays a part, tells what it does on its pipe, and is killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// An error as text: this is about what happened, not about types.
pub(crate) fn told<T>(doing: &str, result: Result<T, impl std::fmt::Display>) -> Result<T, String> {
    result.map_err(|e| format!("{doing}: {e}"))
}

/// A player tells its parent something: "committed 7", "verified 7", "compared 7", "forked 1"; all
/// else is a complaint.
pub(crate) fn say(line: &str) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    told("say", writeln!(stdout, "{line}").and_then(|()| stdout.flush()))
}

/// Ends this process, a player, as soon as its parent is gone.
pub(crate) fn end_with_the_parent() {
    std::thread::spawn(|| {
        // The end of the pipe is the end of the parent.
        let _ = std::io::stdin().lines().count();
        std::process::exit(0);
    });
}

/// What a player told.
#[derive(Default)]
pub(crate) struct Heard {
    /// The newest number that it said it had committed.
    committed: AtomicU64,
    /// Lines of success.
    lines: AtomicU64,
    /// How many of these tell of a step of a follower that was compared.
    steps: AtomicU64,
    forks: AtomicU64,
    /// What it complained of.
    complaints: Mutex<Vec<String>>,
}

impl Heard {
    fn line(&self, line: &str) {
        match line.split_once(' ') {
            Some(("committed", number)) => {
                let number = number.parse().unwrap_or(0);
                self.committed.fetch_max(number, Ordering::SeqCst);
                self.lines.fetch_add(1, Ordering::SeqCst);
            }
            Some(("verified", _)) => {
                self.lines.fetch_add(1, Ordering::SeqCst);
            }
            Some(("compared", _)) => {
                self.lines.fetch_add(1, Ordering::SeqCst);
                self.steps.fetch_add(1, Ordering::SeqCst);
            }
            Some(("forked", _)) => {
                self.forks.fetch_add(1, Ordering::SeqCst);
            }
            _ => {
                let mut complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
                complaints.push(line.to_owned());
            }
        }
    }

    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::SeqCst)
    }

    pub(crate) fn lines(&self) -> u64 {
        self.lines.load(Ordering::SeqCst)
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::SeqCst)
    }

    pub(crate) fn forks(&self) -> u64 {
        self.forks.load(Ordering::SeqCst)
    }
}

/// A process that plays a part.
pub(crate) struct Player {
    child: Child,
    /// Its end is a sign to the player that the parent is gone.
    _stdin: Option<ChildStdin>,
    pub(crate) heard: Arc<Heard>,
    listener: Option<JoinHandle<()>>,
}

impl Player {
    /// Starts one, which plays this part on a store.
    pub(crate) fn start(path: &Path, part: &str, place: u64, seed: u64) -> std::io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["play", part, "--place", &place.to_string(), "--seed", &seed.to_string()])
            .arg("--store")
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let heard = Arc::<Heard>::default();
        let stdin = child.stdin.take();
        let listener = child.stdout.take().map(|stdout| {
            let heard = Arc::clone(&heard);
            std::thread::spawn(move || {
                // A line that was cut by a kill is none.
                let mut stdout = BufReader::new(stdout);
                let mut line = Vec::new();
                while stdout.read_until(b'\n', &mut line).is_ok_and(|_| line.ends_with(b"\n")) {
                    heard.line(String::from_utf8_lossy(&line).trim_end());
                    line.clear();
                }
            })
        });
        Ok(Self { child, _stdin: stdin, heard, listener })
    }

    pub(crate) fn signal(&self, name: &str) -> std::io::Result<()> {
        let id = self.child.id().to_string();
        Command::new("kill").args([name, &id]).status().map(|_| ())
    }

    pub(crate) fn has_ended(&mut self) -> std::io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Kills it, and hears out what it said before. What was wrong with it, its complaints among
    /// that, is added to a list.
    pub(crate) fn kill(
        mut self,
        part: impl std::fmt::Display,
        violations: &mut Vec<String>,
    ) -> std::io::Result<Arc<Heard>> {
        if self.has_ended()? {
            violations.push(format!("a {part} ended by itself"));
        }
        self.child.kill()?;
        self.child.wait()?;
        if let Some(listener) = self.listener.take() {
            // It returns nothing, and its panic would have been reported.
            let _ = listener.join();
        }
        let complaints = &self.heard.complaints;
        violations.append(&mut complaints.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(self.heard)
    }
}
