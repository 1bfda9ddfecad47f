//! A database twice: on a file of SQLite's, and on a store. With `SQL_ROW_CHECKSUM` the rows of
//! stores carry checksums of that kind, in all tests.

use std::path::PathBuf;

use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, OpenFlags};
use tempfile::TempDir;

pub(crate) const ENGINES: [&str; 2] = ["sqlite", "hedgerow"];

/// A folder with a file of each engine.
pub(crate) struct Pair {
    folder: TempDir,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Opens a connection to the file of an engine.
    pub(crate) fn open(&self, engine: &str) -> Connection {
        open(&self.path(&format!("{engine}.db")), engine)
    }

    /// Both connections.
    pub(crate) fn both(&self) -> [Connection; 2] {
        ENGINES.map(|engine| self.open(engine))
    }
}

/// Opens a file, as a new one with an engine.
pub(crate) fn open(path: &std::path::Path, engine: &str) -> Connection {
    let uri = format!("file:{}?engine={engine}", path.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(uri, flags).unwrap();
    let found: String = db.query_row("PRAGMA engine", [], |row| row.get(0)).unwrap();
    assert_eq!(found, engine);
    if engine == "hedgerow"
        && let Ok(kind) = std::env::var("SQL_ROW_CHECKSUM")
    {
        db.execute_batch(&format!("PRAGMA row_checksum={kind}")).unwrap();
    }
    // Tests write much and lose nothing.
    db.execute_batch("PRAGMA synchronous=OFF").unwrap();
    db
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".into(),
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => format!("{value:?}"),
        ValueRef::Text(value) => format!("'{}'", String::from_utf8_lossy(value)),
        ValueRef::Blob(value) => format!("x{}:{:02x?}", value.len(), &value[..value.len().min(9)]),
    }
}

/// Runs one statement: its rows, or its error.
fn run(statement: &mut rusqlite::Statement<'_>, to: &mut Vec<String>) {
    let columns = statement.column_count();
    let mut rows = match statement.query([]) {
        Ok(rows) => rows,
        Err(error) => return to.push(format!("error: {error}")),
    };
    loop {
        match rows.next() {
            Ok(Some(row)) => {
                let all = (0..columns).map(|i| text(row.get_ref(i).unwrap()));
                to.push(all.collect::<Vec<_>>().join("|"));
            }
            Ok(None) => return,
            Err(error) => return to.push(format!("error: {error}")),
        }
    }
}

/// What statements give: rows and errors.
pub(crate) fn transcript(db: &Connection, sql: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut batch = Batch::new(db, sql);
    loop {
        match batch.next() {
            Ok(Some(mut statement)) => run(&mut statement, &mut all),
            Ok(None) => break,
            Err(error) => {
                all.push(format!("error: {error}"));
                break;
            }
        }
    }
    all.push(format!("changes {} last {}", db.total_changes(), db.last_insert_rowid()));
    all
}

/// Runs statements on both and asserts that they give the same, which is handed out.
pub(crate) fn same(both: &[Connection; 2], sql: &str) -> Vec<String> {
    let [stock, ours] = both.each_ref().map(|db| transcript(db, sql));
    assert_eq!(ours, stock, "hedgerow and sqlite on: {sql}");
    ours
}
