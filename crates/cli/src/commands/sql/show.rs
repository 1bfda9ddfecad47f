//! How rows are shown.

use std::collections::HashSet;

use rusqlite::types::ValueRef;

use crate::codec::Format;
use crate::exit::Failure;
use crate::output::Output;
use crate::portable::jsonl::field;

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
        let names = if mode == Mode::Json { distinct(names) } else { names };
        Self { out, mode, headers, names, waiting, widths: Vec::new(), rows: 0 }
    }

    /// Shows a row.
    pub(super) fn row(&mut self, cells: &[ValueRef<'_>]) -> Result<(), Failure> {
        self.rows += 1;
        match self.mode {
            Mode::Table => self.table_row(cells),
            Mode::Csv => {
                if self.rows == 1 && self.headers {
                    let names: Vec<_> =
                        self.names.iter().map(|name| csv(name.as_bytes())).collect();
                    self.fields(&names, b',')?;
                }
                let cells: Vec<_> = cells.iter().map(|cell| csv_cell(*cell)).collect();
                self.fields(&cells, b',')
            }
            Mode::List => {
                if self.rows == 1 && self.headers {
                    writeln!(self.out, "{}", self.names.join("|"))?;
                }
                let cells: Vec<_> = cells.iter().map(|cell| bytes(*cell)).collect();
                self.fields(&cells, b'|')
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
                    let (name, value) = member(name, *cell);
                    write!(self.out, "{before}{}:{value}", quoted(&name))?;
                }
                write!(self.out, "}}")
            }
        }
    }

    /// Writes a line of fields.
    fn fields(&mut self, fields: &[Vec<u8>], between: u8) -> Result<(), Failure> {
        self.out.bytes(&fields.join(&between))?;
        self.out.bytes(b"\n")
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

/// Names of which no two are the same, which members of an object must not be. Later ones are
/// numbered, as SQLite does it for the columns of a table that a query makes.
fn distinct(names: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let numbered = |name: String| {
        let numbers = (1..).map(|number| format!("{name}:{number}"));
        let mut free = std::iter::once(name.clone()).chain(numbers);
        free.find(|free| seen.insert(free.clone())).unwrap_or(name)
    };
    names.into_iter().map(numbered).collect()
}

/// A value as a field; text as the bytes that it is, which need not be UTF-8.
fn bytes(cell: ValueRef<'_>) -> Vec<u8> {
    match cell {
        ValueRef::Text(text) => text.to_vec(),
        cell => plain(cell, "").into_bytes(),
    }
}

/// A text as a field of CSV.
fn csv(text: &[u8]) -> Vec<u8> {
    let asks = |byte: &u8| matches!(byte, b'"' | b',' | b'\n' | b'\r');
    let shown = String::from_utf8_lossy(text);
    if !text.is_empty() && !text.iter().any(asks) && shown.trim() == shown {
        return text.to_vec();
    }
    let parts: Vec<&[u8]> = text.split(|&byte| byte == b'"').collect();
    [b"\"", &parts.join(&b"\"\""[..])[..], b"\""].concat()
}

/// A value as a field: NULL is an empty one, and an empty text is quoted.
fn csv_cell(cell: ValueRef<'_>) -> Vec<u8> {
    if cell == ValueRef::Null { Vec::new() } else { csv(&bytes(cell)) }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A member of an object. Text that is no UTF-8 stands in base64 under another name, as elsewhere.
fn member(name: &str, cell: ValueRef<'_>) -> (String, String) {
    let value = match cell {
        ValueRef::Null => "null".into(),
        ValueRef::Text(text) => match field(name, text, Format::Utf8) {
            Ok((name, value)) => return (name, value.to_string()),
            Err(_) => quoted(&String::from_utf8_lossy(text)),
        },
        ValueRef::Blob(bytes) => quoted(&hex(bytes)),
        number => plain(number, ""),
    };
    (name.to_owned(), value)
}
