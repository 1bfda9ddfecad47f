//! A process that writes SQL is killed: what it said was committed is there, each transaction as a
//! whole, and the store is sound.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use super::pair::{Pair, open, transcript};

/// The variable that makes a test the process that is killed: the path of its store.
const STORE: &str = "SQL_KILLED_STORE";

/// Writes transactions for ever, and says the number of each once it is committed.
fn write(path: &Path) {
    let db = open(path, "hedgerow");
    let next = "select coalesce(max(n),0)+1 from done";
    let mut n: i64 = db.query_row(next, [], |row| row.get(0)).unwrap();
    loop {
        db.execute_batch(&format!(
            "begin; insert into done values({n}); insert into t(b,c) with recursive x(i) as
             (values(1) union all select i+1 from x where i<20) select {n},
             hex(randomblob(i*9)) from x;
             delete from t where b={n}-30; update t set c='x'||c where b={n}-3; savepoint s;
             delete from t; rollback to s; commit"
        ))
        .unwrap();
        println!("committed {n}");
        std::io::stdout().flush().unwrap();
        n += 1;
    }
}

#[test]
fn a_killed_process_leaves_what_it_has_committed() {
    if let Some(path) = std::env::var_os(STORE) {
        write(Path::new(&path));
    }
    let pair = Pair::new();
    let path = pair.path("hedgerow.db");
    open(&path, "hedgerow")
        .execute_batch(
            "create table done(n integer primary key); create table t(a integer primary key,b,c);
             create index i on t(b); create unique index j on t(c,b desc)",
        )
        .unwrap();
    let mut last = 0;
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "kills::a_killed_process_leaves_what_it_has_committed",
                "--nocapture",
            ])
            .env(STORE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let committed = lines.map_while(Result::ok).filter_map(|line| {
            line.rsplit_once("committed ").and_then(|(_, n)| n.parse::<i64>().ok())
        });
        for n in committed.take(5 + 7 * round) {
            last = n;
        }
        child.kill().unwrap();
        child.wait().unwrap();

        let db = open(&path, "hedgerow");
        let found: i64 = db.query_row("select max(n) from done", [], |row| row.get(0)).unwrap();
        assert!(found >= last, "{found} is there and {last} was committed");
        let whole = "select count(*), count(distinct b), (select count(*) from done) from t";
        let kept = found.min(30);
        assert_eq!(transcript(&db, whole)[0], format!("{}|{kept}|{found}", kept * 20));
        assert_eq!(transcript(&db, "pragma integrity_check")[0], "'ok'");
    }
}
