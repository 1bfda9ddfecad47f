//! A connection and how its results are shown; running scripts and single statements.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, ErrorCode};

use super::dot;
use super::plan;
use super::show::{Mode, Printer};
use super::split::{Splitter, Statement};
use crate::exit::Failure;
use crate::output::Output;
use crate::signals;
use crate::tell::tell;

/// Where a statement stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Argument,
    Input,
    Typed,
    File(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument => f.write_str("the argument"),
            Self::Input => f.write_str("standard input"),
            Self::Typed => f.write_str("the statement"),
            Self::File(name) => f.write_str(name),
        }
    }
}

/// Whether to go on after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    Quit,
}

/// A connection, and how its results are shown.
pub(super) struct Session {
    pub(super) db: Connection,
    pub(super) out: Output,
    pub(super) mode: Mode,
    pub(super) headers: bool,
    pub(super) timer: bool,
    /// How many files are being read, one from the other.
    pub(super) depth: usize,
    /// A statement runs, which Ctrl-C stops.
    is_running: Arc<AtomicBool>,
}

/// The message of an error, without the statement that it is about.
pub(super) fn message(error: &Error) -> String {
    match error {
        Error::SqlInputError { msg, .. } => msg.clone(),
        Error::SqliteFailure(_, Some(message)) => message.clone(),
        error => error.to_string(),
    }
}

/// A statement looks after this many steps of its program whether it is to end.
const STEPS: i32 = 1000;

impl Session {
    /// Shows the results of a connection; Ctrl-C stops the statement that runs, and if statements
    /// are typed nothing else.
    pub(super) fn new(mut db: Connection, mode: Mode, is_typed: bool) -> Result<Self, Failure> {
        let is_running = Arc::new(AtomicBool::new(false));
        let (handle, running) = (db.get_interrupt_handle(), Arc::clone(&is_running));
        signals::handle(Box::new(move || {
            if running.load(Ordering::SeqCst) {
                handle.interrupt();
            }
            is_typed
        }));
        // SQLite forgets an interruption that comes before the first step of a statement.
        db.progress_handler(STEPS, Some(signals::is_raised))
            .map_err(|error| Failure::other(message(&error)))?;
        let out = Output::stdout();
        Ok(Self { db, out, mode, headers: true, timer: false, depth: 0, is_running })
    }

    /// Runs the statements and commands of a text, up to the first one that fails.
    pub(super) fn script(&mut self, text: &str, place: &Place) -> Result<Then, Failure> {
        let mut splitter = Splitter::new();
        // A carriage return may be in a string.
        for line in text.split_inclusive('\n') {
            let line = line.strip_suffix('\n').unwrap_or(line);
            if self.line(&mut splitter, line, place)? == Then::Quit {
                return Ok(Then::Quit);
            }
        }
        if let Some(rest) = splitter.rest() {
            self.statement(&rest, place)?;
        }
        Ok(Then::GoOn)
    }

    /// Runs what was read of a file or of standard input.
    pub(super) fn script_of(&mut self, bytes: &[u8], place: &Place) -> Result<Then, Failure> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
            Failure::Refused(format!(
                "line {line} of {place} is not UTF-8, and nothing of it was run; other bytes can \
                 be written as CAST(x'ff' AS TEXT)"
            ))
        })?;
        self.script(text, place)
    }

    /// Takes a line, which may be a command, or end statements.
    pub(super) fn line(
        &mut self,
        splitter: &mut Splitter,
        line: &str,
        place: &Place,
    ) -> Result<Then, Failure> {
        if splitter.is_between() && line.starts_with('.') {
            splitter.skip();
            self.is_running.store(true, Ordering::SeqCst);
            let done = dot::run(self, line);
            self.is_running.store(false, Ordering::SeqCst);
            return done.map_err(|failure| match failure {
                Failure::Refused(message) if *place != Place::Typed => {
                    Failure::Refused(format!("{message}\n  line {} of {place}", splitter.lines()))
                }
                failure => failure,
            });
        }
        for statement in splitter.line(line) {
            self.statement(&statement, place)?;
        }
        Ok(Then::GoOn)
    }

    /// Runs a statement and shows what it gives.
    fn statement(&mut self, statement: &Statement, place: &Place) -> Result<(), Failure> {
        signals::check()?;
        let begun = Instant::now();
        self.is_running.store(true, Ordering::SeqCst);
        let done = self.run(&statement.text);
        self.is_running.store(false, Ordering::SeqCst);
        self.out.flush()?;
        match done {
            Ok(done) => done?,
            Err(error) => return Err(explained(&error, statement, place)),
        }
        if self.timer {
            tell!("{:.6} s", begun.elapsed().as_secs_f64());
        }
        Ok(())
    }

    /// The errors are those of SQLite's, and of the output.
    fn run(&mut self, sql: &str) -> rusqlite::Result<Result<(), Failure>> {
        let mut statement = self.db.prepare(sql)?;
        if statement.is_explain() == 2 && !matches!(self.mode, Mode::Json | Mode::Csv) {
            let steps =
                statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(3)?)))?;
            let steps = steps.collect::<rusqlite::Result<Vec<plan::Step>>>()?;
            let mut lines = plan::tree(&steps).into_iter();
            return Ok(lines.try_for_each(|line| writeln!(self.out, "{line}")));
        }
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let columns = names.len();
        let is_program =
            statement.is_explain() == 1 && !matches!(self.mode, Mode::Json | Mode::Csv);
        let mode = if is_program { Mode::Table } else { self.mode };
        let mut printer =
            (columns > 0).then(|| Printer::new(&mut self.out, mode, self.headers, names));
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let cells = (0..columns).map(|column| row.get_ref(column));
            let cells = cells.collect::<rusqlite::Result<Vec<ValueRef<'_>>>>()?;
            if let Some(printer) = &mut printer
                && let Err(failure) = printer.row(&cells)
            {
                return Ok(Err(failure));
            }
        }
        Ok(printer.map_or(Ok(()), Printer::finish))
    }

    /// Ends the output.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.out.finish()
    }
}

/// What went wrong, and where.
fn explained(error: &Error, statement: &Statement, place: &Place) -> Failure {
    if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
        return Failure::Interrupted(None);
    }
    let mut text = message(error);
    let offset = match error {
        Error::SqlInputError { offset, .. } => usize::try_from(*offset).ok(),
        _ => None,
    };
    let before = offset.and_then(|offset| statement.text.get(..offset));
    let line = statement.line + before.map_or(0, |before| before.matches('\n').count());
    if *place != Place::Typed && (*place != Place::Argument || line > 1) {
        text += &format!("\n  line {line} of {place}");
    }
    if let Some(before) = before {
        let begin = before.rfind('\n').map_or(0, |at| at + 1);
        let whole = statement.text[begin..].lines().next().unwrap_or_default();
        // Long lines are shown around the place.
        let ahead: Vec<char> = before[begin..].chars().collect();
        let skipped = ahead.len().saturating_sub(60);
        let shown: String = whole.chars().skip(skipped).take(78).collect();
        let mark = " ".repeat(ahead.len() - skipped);
        text += &format!("\n  {}\n  {mark}^", shown.replace('\t', " "));
    }
    Failure::Refused(text)
}
