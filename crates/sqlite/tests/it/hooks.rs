//! The hook of the write-ahead log: a store has no log, and calls the hook all the same.

use std::sync::{Arc, Mutex};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, Error};

use super::pair::{ENGINES, Pair, transcript};

/// What the hook was told: the database and how much is in the log.
type Told = Arc<Mutex<Vec<(String, i32)>>>;

/// A hook that notes what it is told, and makes a checkpoint of the first database if the log has
/// grown to `most`.
fn note(told: &Told, most: i32) -> impl FnMut(&mut Wal, i32) -> rusqlite::Result<()> + use<> {
    let told = Arc::clone(told);
    move |wal, len| {
        let name = wal.name().to_str().unwrap().to_owned();
        let grown = name == "main" && len >= most;
        told.lock().unwrap().push((name, len));
        if grown { wal.checkpoint() } else { Ok(()) }
    }
}

/// A connection to a database that has a log, or says that it has one, with a second one attached.
fn open(pair: &Pair, engine: &str) -> Connection {
    let db = pair.open(engine);
    let other = pair.path(&format!("other-{engine}.db"));
    let attach = format!("attach 'file:{}?engine={engine}' as other", other.display());
    db.execute_batch(&attach).unwrap();
    for name in ["main", "other"] {
        let mode = format!("pragma {name}.journal_mode=wal");
        let mode: String = db.query_row(&mode, [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }
    db
}

#[test]
fn the_hook_of_the_log_is_called_after_commits() {
    let [stock, ours] = ENGINES.map(|engine| {
        let pair = Pair::new();
        let mut db = open(&pair, engine);
        let told = Told::default();
        db.wal_hook(Some(note(&told, i32::MAX))).unwrap();
        let mut all = Vec::new();
        for sql in [
            "create table t(a); create table other.u(a)",
            "insert into t values(1)",
            "begin; insert into t values(2); insert into t values(3)",
            "select * from t",
            "commit",
            "begin; insert into t values(4); rollback",
            "begin immediate; commit",
            "delete from t where a=100",
            "savepoint s; insert into t values(5); release s",
            "begin; insert into u values(1); insert into t values(6); commit",
            "insert into other.u values(2)",
            "insert into t select null from sqlite_schema where 0",
            "create temp table v(a); insert into v values(1)",
            "pragma user_version=7",
            "select count(*) from t; select count(*) from u",
            "drop table t",
        ] {
            all.push(transcript(&db, sql).join(";"));
            let calls = std::mem::take(&mut *told.lock().unwrap());
            assert!(calls.iter().all(|call| call.1 > 0), "{calls:?}");
            let names = calls.into_iter().map(|call| call.0);
            all.push(names.collect::<Vec<_>>().join(","));
        }
        all
    });
    assert_eq!(ours, stock);
    assert_eq!(ours.iter().filter(|names| *names == "main").count(), 5);
}

#[test]
fn a_hook_of_the_log_may_make_checkpoints_and_refuse() {
    let pair = Pair::new();
    let mut db = open(&pair, "hedgerow");
    db.execute_batch("create table t(a); pragma wal_checkpoint").unwrap();
    let told = Told::default();
    db.wal_hook(Some(note(&told, 3))).unwrap();
    for _ in 0..7 {
        db.execute_batch("insert into t values(1)").unwrap();
    }
    let lens = || std::mem::take(&mut *told.lock().unwrap()).into_iter().map(|call| call.1);
    assert_eq!(lens().collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3, 1]);
    let checkpoint: (i32, i32, i32) = db
        .query_row("pragma wal_checkpoint(truncate)", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!(checkpoint, (0, 0, 0));
    db.execute_batch("insert into t values(1)").unwrap();
    assert_eq!(lens().collect::<Vec<_>>(), [1]);
    // SQLite's own hook takes the place of this one.
    db.execute_batch("pragma wal_autocheckpoint=1; insert into t values(1)").unwrap();
    assert_eq!(lens().count(), 0);
    for engine in ENGINES {
        let pair = Pair::new();
        let mut db = open(&pair, engine);
        db.execute_batch("create table t(a)").unwrap();
        let refuse = |_: &mut Wal, _| Err(Error::InvalidQuery);
        db.wal_hook(Some(refuse)).unwrap();
        assert!(db.execute_batch("insert into t values(1)").is_err());
        db.wal_hook(None::<fn(&mut Wal, i32) -> rusqlite::Result<()>>).unwrap();
        assert_eq!(transcript(&db, "select count(*) from t")[0], "1");
    }
}
