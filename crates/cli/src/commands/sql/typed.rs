//! Statements that a person types: with line editing, and a history that stays.

use std::path::{Path, PathBuf};

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::session::{Place, Session, Then};
use super::split::Splitter;
use crate::exit::Failure;

/// Where the history is kept, if there is a place for it.
fn history() -> Option<PathBuf> {
    let folder = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let folder =
        folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    let folder = folder.join("hedgerow");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("sql-history"))
}

fn refused(error: &ReadlineError) -> Failure {
    Failure::other(format!("could not read what is typed: {error}"))
}

/// Reads a line. The editor lives no longer: while it does, signals are its own, and Ctrl-C would
/// not stop a statement.
fn read_line(prompt: &str, history: Option<&Path>) -> Result<String, ReadlineError> {
    let mut editor = DefaultEditor::new()?;
    if let Some(history) = history {
        // There is none the first time.
        let _ = editor.load_history(history);
    }
    editor.readline(prompt)
}

/// Adds what was typed to the history.
fn remember(typed: String, history: Option<&Path>) {
    if let (Some(history), Ok(mut editor)) = (history, DefaultEditor::new()) {
        let _ = editor.load_history(history);
        let _ = editor.add_history_entry(typed);
        let _ = editor.save_history(history);
    }
}

/// Reads and runs until the end of the input, or `.quit`.
pub(super) fn run(session: &mut Session, path: &Path) -> Result<(), Failure> {
    let history = history();
    let version = rusqlite::version();
    writeln!(session.out, "{}: SQLite {version}; .help lists commands", path.display())?;
    session.out.flush()?;
    let mut splitter = Splitter::new();
    let mut typed = String::new();
    loop {
        let prompt = if splitter.is_between() { "sql> " } else { "...> " };
        let line = match read_line(prompt, history.as_deref()) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                splitter.clear();
                typed.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(refused(&error)),
        };
        typed = if typed.is_empty() { line.clone() } else { format!("{typed}\n{line}") };
        let done = session.line(&mut splitter, &line, &Place::Typed);
        session.out.flush()?;
        if splitter.is_between() {
            remember(std::mem::take(&mut typed), history.as_deref());
        }
        match done {
            Ok(Then::GoOn) => {}
            Ok(Then::Quit) => return Ok(()),
            Err(failure @ (Failure::ClosedPipe | Failure::Usage(_))) => return Err(failure),
            Err(failure) => {
                failure.report();
                splitter = Splitter::new();
            }
        }
    }
}
