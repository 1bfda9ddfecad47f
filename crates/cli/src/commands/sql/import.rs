//! `.import`: the rows of a CSV file become rows of a table, all or none of them.

use std::fs::File;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord};
use rusqlite::{Connection, params_from_iter};

use super::session::message;
use crate::exit::Failure;
use crate::portable::quotes::Closed;
use crate::signals;

/// A name as SQL writes it.
pub(super) fn name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Puts the rows of a file into a table, after the first `skipped` ones. A table that does not
/// exist is made, with columns that the next row names.
pub(super) fn run(
    db: &Connection,
    file: &Path,
    table: &str,
    skipped: usize,
) -> Result<(), Failure> {
    let refused = |what: String| Failure::Refused(format!("{}: {what}", file.display()));
    let sql = |error: rusqlite::Error| refused(message(&error));
    db.execute_batch("SAVEPOINT hedgerow_import").map_err(sql)?;
    let done = fill(db, file, table, skipped);
    match &done {
        Ok(()) => db.execute_batch("RELEASE hedgerow_import").map_err(sql)?,
        // Nothing of the file stays; what failed is reported, whatever this says.
        Err(_) => {
            let _ = db.execute_batch("ROLLBACK TO hedgerow_import; RELEASE hedgerow_import");
        }
    }
    done
}

fn fill(db: &Connection, file: &Path, table: &str, skipped: usize) -> Result<(), Failure> {
    let refused = |what: String| Failure::Refused(format!("{}: {what}", file.display()));
    let sql = |error: rusqlite::Error| refused(message(&error));
    let input = File::open(file).map_err(|error| refused(error.to_string()))?;
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(Closed::new(input, b','));
    let mut rows = reader.records();
    let mut next = || -> Result<Option<StringRecord>, Failure> {
        rows.next().transpose().map_err(|error| refused(error.to_string()))
    };
    for _ in 0..skipped {
        next()?;
    }
    let is_there = "SELECT count(*) FROM pragma_table_info(?1)";
    let columns: u32 = db.query_row(is_there, [table], |row| row.get(0)).map_err(sql)?;
    let mut columns = columns as usize;
    if columns == 0 {
        let Some(names) = next()? else { return Err(refused("has no row to name columns".into())) };
        let names: Vec<String> =
            names.iter().map(|column| format!("{} TEXT", name(column))).collect();
        columns = names.len();
        let create = format!("CREATE TABLE {}({})", name(table), names.join(", "));
        db.execute_batch(&create).map_err(sql)?;
    }
    let marks = vec!["?"; columns].join(",");
    let insert = format!("INSERT INTO {} VALUES({marks})", name(table));
    let mut insert = db.prepare(&insert).map_err(sql)?;
    while let Some(row) = next()? {
        signals::check()?;
        let line = row.position().map_or(0, csv::Position::line);
        if row.len() != columns {
            let what =
                format!("line {line} has {} values, and {table} {columns} columns", row.len());
            return Err(refused(what));
        }
        let done = insert.execute(params_from_iter(row.iter()));
        done.map_err(|error| refused(format!("line {line}: {}", message(&error))))?;
    }
    Ok(())
}
