//! Statements on a store and on a file of SQLite's give the same.

#[test]
fn a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let db = rusqlite::Connection::open(format!("file:{}?engine=hedgerow", path.display())).unwrap();
    db.execute_batch("create table t(a integer primary key, b); insert into t values(1,'x'),(2,'y');").unwrap();
    let n: i64 = db.query_row("select count(*) from t", [], |r| r.get(0)).unwrap();
    assert_eq!(n, 2);
    drop(db);
    assert_eq!(hedgerow::identify(&path).unwrap(), Some(hedgerow::FileKind::Tree));
}
