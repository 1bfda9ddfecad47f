//! The scripts of `testdata`, in the form of sqllogictest, on a file of SQLite's and on a store.
//! `examples/slt.rs` has written them; `SQL_SCRIPTS` names a folder of others.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};

use super::pair::{ENGINES, Pair};

/// A connection as the runner asks for it.
struct Side(Connection);

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".into(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => format!("{number:.3}"),
        ValueRef::Text(b"") => "(empty)".into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).replace(' ', "_"),
        ValueRef::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

impl DB for Side {
    type Error = rusqlite::Error;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, rusqlite::Error> {
        let mut statement = self.0.prepare(sql)?;
        let columns = statement.column_count();
        if columns == 0 {
            return Ok(DBOutput::StatementComplete(statement.execute([])? as u64));
        }
        let mut all = Vec::new();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let cells = (0..columns).map(|column| row.get_ref(column).map(shown));
            all.push(cells.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows: all })
    }
}

/// Runs a script on an engine.
fn run(script: &Path, engine: &str) -> Result<(), String> {
    let pair = Pair::new();
    let db = std::cell::Cell::new(Some(pair.open(engine)));
    let mut runner = Runner::new(|| {
        let side = db.take().map(Side);
        async { Ok::<_, rusqlite::Error>(side.unwrap()) }
    });
    runner.run_file(script).map_err(|error| format!("{engine}: {error}"))
}

fn scripts(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_script =
        |path: &PathBuf| path.extension().is_some_and(|kind| kind == "slt" || kind == "test");
    let mut found: Vec<_> = entries.filter(is_script).collect();
    found.sort();
    found
}

#[test]
fn scripts_give_what_they_say_on_both_engines() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let folder = std::env::var_os("SQL_SCRIPTS").map_or(own, PathBuf::from);
    let found = scripts(&folder);
    assert!(found.len() >= 15, "{} scripts", found.len());
    for script in found {
        for engine in ENGINES {
            run(&script, engine).unwrap();
        }
    }
}

#[test]
fn a_wrong_answer_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.slt");
    for text in [
        "statement ok\nCREATE TABLE t(a)\n\nquery T nosort\nSELECT COUNT(*) FROM t\n----\n1\n",
        "statement ok\nSELECT * FROM nothing\n",
        "statement error\nSELECT 1\n",
    ] {
        std::fs::write(&path, text).unwrap();
        for engine in ENGINES {
            assert!(run(&path, engine).is_err(), "{engine}: {text}");
        }
    }
}
