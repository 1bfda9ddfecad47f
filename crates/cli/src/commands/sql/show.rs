//! How rows are shown.

use rusqlite::types::ValueRef;

use crate::exit::Failure;
use crate::output::Output;

/// A way to show rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Mode {
    /// Columns below each other
    Table,
    /// Values with commas between them
    Csv,
    /// An array of objects for each statement
    Json,
    /// A line for each value
    Line,
    /// Values with bars between them
    List,
}

/// The rows that decide how wide the columns of a table are.
const MEASURED: usize = 1000;
/// The widest column that is made so.
const WIDEST: usize = 60;

/// Shows the rows of one statement.
pub(super) struct Printer<'o> {
    out: &'o mut Output,
    mode: Mode,
    headers: bool,
    names: Vec<String>,
    /// In a table: the first rows, and whether each value is a number.
    waiting: Option<Vec<Vec<(String, bool)>>>,
    widths: Vec<usize>,
    rows: u64,
}

impl<'o> Printer<'o> {
    pub(super) fn new(out: &'o mut Output, mode: Mode, headers: bool, names: Vec<String>) -> Self {
        let waiting = (mode == Mode::Table).then(Vec::new);
        Self { out, mode, headers, names, waiting, widths: Vec::new(), rows: 0 }
    }

    /// Shows a row.
    pub(super) fn row(&mut self, cells: &[ValueRef<'_>]) -> Result<(), Failure> {
        self.rows += 1;
        match self.mode {
            Mode::Table => self.table_row(cells),
            Mode::Csv => {
                if self.rows == 1 && self.headers {
                    let names: Vec<String> = self.names.iter().map(|name| csv(name)).collect();
                    writeln!(self.out, "{}", names.join(","))?;
                }
                let cells: Vec<String> = cells.iter().map(|cell| csv_cell(*cell)).collect();
                writeln!(self.out, "{}", cells.join(","))
            }
            Mode::List => {
                if self.rows == 1 && self.headers {
                    writeln!(self.out, "{}", self.names.join("|"))?;
                }
                let cells: Vec<String> = cells.iter().map(|cell| plain(*cell, "")).collect();
                writeln!(self.out, "{}", cells.join("|"))
            }
            Mode::Line => {
                let width = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
                if self.rows > 1 {
                    writeln!(self.out)?;
                }
                for (name, cell) in self.names.iter().zip(cells) {
                    writeln!(self.out, "{name:>width$} = {}", plain(*cell, "NULL"))?;
                }
                Ok(())
            }
            Mode::Json => {
                write!(self.out, "{}", if self.rows == 1 { "[" } else { ",\n" })?;
                for (at, (name, cell)) in self.names.iter().zip(cells).enumerate() {
                    let before = if at == 0 { '{' } else { ',' };
                    write!(self.out, "{before}{}:{}", quoted(name), json(*cell))?;
                }
                write!(self.out, "}}")
            }
        }
    }

    fn table_row(&mut self, cells: &[ValueRef<'_>]) -> Result<(), Failure> {
        let is_number =
            |cell: &ValueRef<'_>| matches!(cell, ValueRef::Integer(_) | ValueRef::Real(_));
        let row: Vec<_> =
            cells.iter().map(|cell| (in_a_line(&plain(*cell, "NULL")), is_number(cell))).collect();
        match &mut self.waiting {
            Some(waiting) => {
                waiting.push(row);
                if waiting.len() == MEASURED { self.release() } else { Ok(()) }
            }
            None => self.table_line(&row),
        }
    }

    /// Shows the rows that wait, as wide as they are.
    fn release(&mut self) -> Result<(), Failure> {
        let Some(waiting) = self.waiting.take() else { return Ok(()) };
        if waiting.is_empty() {
            return Ok(());
        }
        let width = |text: &String| text.chars().count().min(WIDEST);
        self.widths =
            self.names.iter().map(|name| if self.headers { width(name) } else { 0 }).collect();
        for row in &waiting {
            for (widest, (text, _)) in self.widths.iter_mut().zip(row) {
                *widest = width(text).max(*widest);
            }
        }
        if self.headers {
            let names: Vec<_> = self.names.iter().map(|name| (name.clone(), false)).collect();
            self.table_line(&names)?;
            let dashes =
                self.widths.iter().map(|width| ("-".repeat(*width), false)).collect::<Vec<_>>();
            self.table_line(&dashes)?;
        }
        waiting.iter().try_for_each(|row| self.table_line(row))
    }

    fn table_line(&mut self, row: &[(String, bool)]) -> Result<(), Failure> {
        let mut line = String::new();
        for ((text, is_number), width) in row.iter().zip(&self.widths) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            line += &match is_number {
                true => format!("{text:>width$}"),
                false => format!("{text:<width$}"),
            };
        }
        writeln!(self.out, "{}", line.trim_end())
    }

    /// Ends the rows of the statement, if it can have some.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.release()?;
        match self.mode {
            Mode::Json if self.rows == 0 => writeln!(self.out, "[]"),
            Mode::Json => writeln!(self.out, "]"),
            _ => Ok(()),
        }
    }
}

/// Bytes as SQL writes them.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}

/// A number as SQL reads it again.
pub(super) fn real(number: f64) -> String {
    match number {
        f64::INFINITY => "1e999".into(),
        f64::NEG_INFINITY => "-1e999".into(),
        number => format!("{number:?}"),
    }
}

/// A value as text.
pub(super) fn plain(cell: ValueRef<'_>, null: &str) -> String {
    match cell {
        ValueRef::Null => null.to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => real(number),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => hex(bytes),
    }
}

/// Without what would move the cursor of a terminal.
fn in_a_line(text: &str) -> String {
    match text.chars().any(char::is_control) {
        true => text.escape_debug().to_string(),
        false => text.to_owned(),
    }
}

/// A text as a field of CSV.
fn csv(text: &str) -> String {
    match text.is_empty() || text.contains(['"', ',', '\n', '\r']) || text.trim() != text {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// A value as a field: NULL is an empty one, and an empty text is quoted.
fn csv_cell(cell: ValueRef<'_>) -> String {
    if cell == ValueRef::Null { String::new() } else { csv(&plain(cell, "")) }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn json(cell: ValueRef<'_>) -> String {
    match cell {
        ValueRef::Null => "null".into(),
        ValueRef::Text(text) => quoted(&String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => quoted(&hex(bytes)),
        number => plain(number, ""),
    }
}
