//! What `sqlite3_file_control` answers for a store: what it answers for a file of SQLite's.
//! `tests/controls.py` asks the questions that `rusqlite` does not ask.

use rusqlite::{Connection, FileControl, MAIN_DB, OpenFlags};

use super::pair::{ENGINES, Pair};

/// The code of an answer, and what was answered.
macro_rules! ask {
    ($db:expr, $question:ident, $value:expr) => {{
        let mut value = $value;
        let code = match $db.file_control(Some(MAIN_DB), FileControl::$question(&mut value)) {
            Ok(()) => 0,
            Err(rusqlite::Error::SqliteFailure(error, _)) => error.extended_code,
            Err(other) => panic!("{other:?}"),
        };
        (stringify!($question), code, i64::from(value))
    }};
}

type Answer = (&'static str, i32, i64);

fn of_files(db: &Connection) -> Vec<Answer> {
    vec![
        ask!(db, SizeHint, 1_000_000),
        ask!(db, ChunkSize, 65_536),
        ask!(db, ChunkSize, 0),
        ask!(db, SizeLimit, -1),
        ask!(db, LockTimeout, 100),
        ask!(db, HasMoved, -1),
        ask!(db, ReserveBytes, -1),
        ask!(db, ReserveBytes, 16),
        ask!(db, ReserveBytes, -1),
        ask!(db, ReserveBytes, 0),
    ]
}

fn of_switches(db: &Connection) -> Vec<Answer> {
    let mut all = Vec::new();
    for value in [-1, 1, -1, 0, -1, 5, -1] {
        all.push(ask!(db, PersistWal, value));
        all.push(ask!(db, PowerSafeOverwrite, value));
    }
    for value in [-1, 4096, -1, i64::MAX, -1, 0, -1] {
        all.push(ask!(db, MMapSize, value));
    }
    all
}

#[test]
fn a_store_answers_as_a_file_does() {
    let pair = Pair::new();
    let [stock, ours] = pair.both().map(|db| {
        let mut all = of_switches(&db);
        db.execute_batch("create table t(a); insert into t values(1)").unwrap();
        all.extend(of_switches(&db));
        all.extend(of_files(&db));
        all
    });
    assert_eq!(ours, stock);
    // Another connection has switches of its own.
    let [stock, ours] = pair.both().map(|db| of_switches(&db));
    assert_eq!(ours, stock);
}

#[test]
fn the_switch_for_overwriting_comes_from_the_uri() {
    let pair = Pair::new();
    for db in pair.both() {
        db.execute_batch("create table t(a)").unwrap();
    }
    for psow in ["0", "1"] {
        let [stock, ours] = ENGINES.map(|engine| {
            let path = pair.path(&format!("{engine}.db"));
            let uri = format!("file:{}?psow={psow}", path.display());
            let db = Connection::open_with_flags(uri, OpenFlags::default()).unwrap();
            ask!(db, PowerSafeOverwrite, -1)
        });
        assert_eq!(ours, stock);
    }
}

#[test]
fn a_file_that_was_renamed_or_removed_has_moved() {
    let [stock, ours] = ENGINES.map(|engine| {
        let pair = Pair::new();
        let db = pair.open(engine);
        db.execute_batch("create table t(a)").unwrap();
        let path = pair.path(&format!("{engine}.db"));
        let other = pair.path("other.db");
        let mut all = vec![ask!(db, HasMoved, -1)];
        std::fs::rename(&path, &other).unwrap();
        all.push(ask!(db, HasMoved, -1));
        std::fs::write(&path, "another one").unwrap();
        all.push(ask!(db, HasMoved, -1));
        std::fs::rename(&other, &path).unwrap();
        all.push(ask!(db, HasMoved, -1));
        std::fs::remove_file(&path).unwrap();
        all.push(ask!(db, HasMoved, -1));
        all
    });
    assert_eq!(ours, stock);
    assert_eq!(ours.iter().map(|answer| answer.2).collect::<Vec<_>>(), [0, 1, 1, 0, 1]);
}

#[test]
fn a_new_database_has_a_version_of_its_data() {
    let pair = Pair::new();
    for db in pair.both() {
        let (_, code, version) = ask!(db, DataVersion, 0);
        assert!(code == 0 && version != 0, "{version}");
    }
}

#[test]
fn the_version_of_the_data_tells_of_every_commit() {
    let [stock, ours] = ENGINES.map(|engine| {
        let pair = Pair::new();
        let (one, two) = (pair.open(engine), pair.open(engine));
        one.execute_batch("create table t(a)").unwrap();
        let version = |db: &Connection| {
            db.query_row("select count(*) from t", [], |_| Ok(())).unwrap();
            ask!(db, DataVersion, 0)
        };
        let mut changes = Vec::new();
        let mut last = [version(&one), version(&two)];
        for (db, sql) in [
            (&one, "select 1 from t"),
            (&one, "insert into t values(1)"),
            (&two, "insert into t values(2)"),
            (&two, "begin; insert into t values(3); rollback"),
            (&one, "update t set a=a+1"),
        ] {
            db.execute_batch(sql).unwrap();
            let next = [version(&one), version(&two)];
            changes.push((0..2).map(|i| next[i] != last[i]).collect::<Vec<_>>());
            last = next;
        }
        changes
    });
    assert_eq!(ours, stock);
}
