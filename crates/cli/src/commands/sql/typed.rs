//! Statements that a person types: with line editing, and a history that stays.

use std::path::{Path, PathBuf};

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::session::{Place, Session, Then};
use super::split::Splitter;
use crate::exit::Failure;
use crate::signals;

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

/// What reads lines, and the history of what was typed. One editor serves a whole session: it has
/// read ahead what was pasted.
struct Typing {
    editor: DefaultEditor,
    history: Option<PathBuf>,
}

impl Typing {
    fn new() -> Result<Self, ReadlineError> {
        let (mut editor, history) = (DefaultEditor::new()?, history());
        if let Some(history) = &history {
            // There is none the first time.
            let _ = editor.load_history(history);
        }
        Ok(Self { editor, history })
    }

    fn remember(&mut self, typed: &str) {
        let _ = self.editor.add_history_entry(typed);
        if let Some(history) = &self.history {
            let _ = self.editor.append_history(history);
        }
    }
}

/// Reads and runs until the end of the input, `.quit`, or a request to end that is not Ctrl-C.
pub(super) fn run(session: &mut Session, path: &Path) -> Result<(), Failure> {
    signals::keep_terminal();
    let mut typing = Typing::new().map_err(|error| refused(&error))?;
    let version = rusqlite::version();
    writeln!(session.out, "{}: SQLite {version}; .help lists commands", path.display())?;
    session.out.flush()?;
    let mut splitter = Splitter::new();
    let mut typed = String::new();
    loop {
        let prompt = if splitter.is_between() { "sql> " } else { "...> " };
        let line = match signals::while_opening(|| typing.editor.readline(prompt))? {
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
            typing.remember(&std::mem::take(&mut typed));
        }
        match done {
            Ok(Then::GoOn) => {}
            Ok(Then::Quit) => return Ok(()),
            Err(failure @ (Failure::ClosedPipe | Failure::Usage(_))) => return Err(failure),
            Err(failure) if signals::is_raised() => return Err(failure),
            Err(failure) => {
                failure.report();
                splitter = Splitter::new();
            }
        }
    }
}
