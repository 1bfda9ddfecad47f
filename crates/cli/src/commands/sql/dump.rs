//! `.dump`: SQL that makes a database anew.

use rusqlite::types::ValueRef;

use super::dot::texts;
use super::import::name;
use super::session::{Session, message};
use super::show::{hex, real};
use crate::exit::Failure;

/// A value as SQL reads it.
fn literal(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".into(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => real(number),
        ValueRef::Blob(bytes) => hex(bytes),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains(['\0', '\r']) => format!("'{}'", text.replace('\'', "''")),
            // What no literal can hold, or what not every program leaves in one.
            _ => format!("CAST({} AS TEXT)", hex(bytes)),
        },
    }
}

fn refused(error: &rusqlite::Error) -> Failure {
    Failure::Refused(message(error))
}

/// Prints the whole database, or one table with its indexes and triggers. It is that of one moment.
pub(super) fn run(session: &mut Session, table: Option<&str>) -> Result<(), Failure> {
    session.db.execute_batch("SAVEPOINT hedgerow_dump").map_err(|error| refused(&error))?;
    let done = all(session, table);
    let ended = session.db.execute_batch("RELEASE hedgerow_dump");
    done.and_then(|()| ended.map_err(|error| refused(&error)))
}

fn all(session: &mut Session, table: Option<&str>) -> Result<(), Failure> {
    let pattern = table.unwrap_or("%");
    writeln!(session.out, "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;")?;
    let sql = "SELECT name FROM sqlite_schema WHERE type='table' AND tbl_name LIKE ?1
               AND name NOT LIKE 'sqlite\\_stat%' ESCAPE '\\' ORDER BY rowid";
    let (mut virtuals, mut counters) = (Vec::new(), false);
    for table in texts(session, sql, pattern)? {
        let create = "SELECT coalesce(sql,'') FROM sqlite_schema WHERE type='table' AND name=?1";
        let create = texts(session, create, &table)?.concat();
        if table == "sqlite_sequence" {
            counters = true;
        } else if create.to_ascii_uppercase().starts_with("CREATE VIRTUAL") {
            virtuals.push((table, create));
        } else {
            writeln!(session.out, "{create};")?;
            rows(session, &table)?;
        }
    }
    if counters {
        writeln!(session.out, "DELETE FROM sqlite_sequence;")?;
        rows(session, "sqlite_sequence")?;
    }
    let others = "SELECT sql||';' FROM sqlite_schema WHERE type<>'table' AND sql IS NOT NULL
                  AND tbl_name LIKE ?1 ORDER BY type='view' DESC, rowid";
    for other in texts(session, others, pattern)? {
        writeln!(session.out, "{other}")?;
    }
    if !virtuals.is_empty() {
        // What such a table keeps in tables of its own is there already.
        writeln!(session.out, "PRAGMA writable_schema=ON;")?;
        for (table, create) in virtuals {
            let [table, create] =
                [table, create].map(|text| literal(ValueRef::Text(text.as_bytes())));
            writeln!(
                session.out,
                "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) \
                 VALUES('table',{table},{table},0,{create});"
            )?;
        }
        writeln!(session.out, "PRAGMA writable_schema=OFF;")?;
    }
    writeln!(session.out, "COMMIT;")
}

/// The rows of a table.
fn rows(session: &mut Session, table: &str) -> Result<(), Failure> {
    // Columns that are computed are not written.
    let sql = "SELECT name FROM pragma_table_xinfo(?1) WHERE hidden=0";
    let columns: Vec<String> =
        texts(session, sql, table)?.iter().map(|column| name(column)).collect();
    let list = columns.join(",");
    let (db, out) = (&session.db, &mut session.out);
    let select = db.prepare(&format!("SELECT {list} FROM {}", name(table)));
    let mut select = select.map_err(|error| refused(&error))?;
    let mut rows = select.query([]).map_err(|error| refused(&error))?;
    let table = name(table);
    while let Some(row) = rows.next().map_err(|error| refused(&error))? {
        let cells = (0..columns.len()).map(|at| row.get_ref(at).map(literal));
        let cells = cells.collect::<rusqlite::Result<Vec<_>>>().map_err(|error| refused(&error))?;
        writeln!(out, "INSERT INTO {table}({list}) VALUES({});", cells.join(","))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_again() {
        let text = |bytes: &'static [u8]| literal(ValueRef::Text(bytes));
        assert_eq!(text(b"it's"), "'it''s'");
        assert_eq!(text(b"a\0b"), "CAST(x'610062' AS TEXT)");
        assert_eq!(text(b"x\r\ny"), "CAST(x'780d0a79' AS TEXT)");
        assert_eq!(literal(ValueRef::Real(1.0)), "1.0");
        assert_eq!(literal(ValueRef::Real(f64::NEG_INFINITY)), "-1e999");
    }
}
