//! Emptying a database by `VACUUM`, and when that is refused.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::pair::{Pair, same, transcript};

/// Empties a database by the recipe that SQLite documents for it.
fn reset(db: &Connection, vacuum: &str) -> Vec<String> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true).unwrap();
    let said = transcript(db, vacuum);
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false).unwrap();
    said
}

const FILL: &str = "
    create table t(a integer primary key, b unique); create index i on t(b, a);
    create view v as select a from t; create table w(k primary key, v) without rowid;
    create trigger g after insert on w begin insert into t(b) values(new.k); end;
    create virtual table f using fts5(x); insert into f values('one two');
    insert into t with recursive n(i) as (values(1) union all select i+1 from n where i<3000)
      select i, 'b'||i from n; insert into w values(1, 2); analyze;
    create table s(a integer primary key autoincrement); insert into s values(10);
    pragma user_version=7; pragma application_id=8";

const LOOK: &str = "
    select * from sqlite_schema; pragma user_version; pragma application_id;
    pragma encoding; pragma integrity_check; select * from t";

const FILL_AGAIN: &str = "
    create table t(x, y); create table u(a integer primary key, b); create index j on u(b);
    insert into u values(1, 'b1'),(5, 'b5'); select * from u where b='b5'; select * from t;
    select * from u where a>1; pragma integrity_check";

#[test]
fn vacuum_empties_a_database_that_is_reset() {
    let pair = Pair::new();
    let both = pair.both();
    same(&both, FILL);
    same(&both, "select count(*) from t where b between 'b1' and 'b3'; select * from w where k=1");
    let others = pair.both();
    same(&others, "select count(*) from t");
    let [stock, ours] = both.each_ref().map(|db| reset(db, "vacuum"));
    assert_eq!(ours, stock);
    same(&both, LOOK);
    same(&others, LOOK);
    same(&pair.both(), LOOK);
    same(&both, FILL_AGAIN);
    same(&others, "select * from t; select * from u order by b; drop table t");
    same(&both, "select * from t");
    // The version of the schema goes on where SQLite's begins anew: other connections notice.
    let db = pair.open("hedgerow");
    let version = |db: &Connection| transcript(db, "pragma schema_version")[0].parse::<i32>();
    let before = version(&db).unwrap();
    reset(&db, "vacuum");
    assert_eq!(version(&db), Ok(before + 1));
    let error = "error: no such table: u".to_owned();
    assert_eq!(transcript(&both[1], "select * from u")[0], error);
}

#[test]
fn what_cannot_be_vacuumed_is_not_reset() {
    let pair = Pair::new();
    let both = pair.both();
    same(&both, "create table t(a); insert into t values(1); pragma user_version=3; begin");
    let [stock, ours] = both.each_ref().map(|db| reset(db, "vacuum"));
    assert_eq!(ours, stock);
    same(&both, "rollback; select * from t; pragma user_version");
    // Another connection writes, and VACUUM does not wait for it.
    let others = pair.both();
    for db in both.iter().chain(&others) {
        db.busy_timeout(std::time::Duration::ZERO).unwrap();
    }
    same(&others, "begin immediate; insert into t values(2)");
    let [stock, ours] = both.each_ref().map(|db| reset(db, "vacuum"));
    assert_eq!(ours, stock);
    same(&both, "vacuum");
    same(&others, "commit; select * from t");
    same(&both, "select * from t; pragma user_version");
}

#[test]
fn an_attached_store_is_reset_and_what_is_not_sqlites_stays() {
    let pair = Pair::new();
    let db = pair.open("hedgerow");
    let path: &Path = &pair.path("other.db");
    let attach = format!("attach 'file:{}?engine=hedgerow' as other", path.display());
    db.execute_batch(&attach).unwrap();
    db.execute_batch(
        "pragma other.row_checksum=blake3; create table t(a); create table other.u(a);
         insert into t values(1); insert into u values(1);
         create virtual table other.p using hedgerow('plain'); insert into p values('k', 'v')",
    )
    .unwrap();
    reset(&db, "vacuum other");
    let left = transcript(
        &db,
        "select count(*) from other.sqlite_schema; select * from t; pragma other.row_checksum;
         create virtual table other.p using hedgerow('plain'); select * from p;
         create table other.u(a); insert into u values(2);
         select row_checksum like 'blake3:%' from u;
         pragma other.integrity_check",
    );
    assert_eq!(left[..6], ["0", "1", "'blake3'", "'k'|'v'", "1", "'ok'"]);
}

#[test]
fn vacuum_raises_the_version_of_the_schema() {
    let pair = Pair::new();
    let (both, others) = (pair.both(), pair.both());
    same(&both, "vacuum; pragma schema_version");
    same(&both, "create table t(a); insert into t values(1); create index i on t(a)");
    same(&others, "select a from t where a=1");
    same(&both, "pragma schema_version; vacuum; pragma schema_version; select a from t");
    same(&others, "select a from t where a=1; pragma schema_version; vacuum");
    same(&both, "select a from t where a=1; pragma schema_version; pragma integrity_check");
}
