//! Counts, ranks and positions by SQL functions, beside the same counted by SQLite.

use rusqlite::Connection;

use super::pair::{Pair, open, transcript};

fn one(db: &Connection, sql: &str) -> rusqlite::Result<i64> {
    db.query_row(sql, [], |row| row.get(0))
}

/// That a function answers what a query does.
fn agree(db: &Connection, function: &str, query: &str) {
    let (found, wanted) = (one(db, &format!("select {function}")), one(db, query));
    assert_eq!(found.unwrap(), wanted.unwrap(), "{function} and {query}");
}

fn filled(db: &Connection) {
    db.execute_batch(
        "create table t(a integer primary key, b int, c text collate nocase, d);
         insert into t with recursive x(i) as (values(-50) union all select i+1 from x where i<949)
         select i*3, i*7919%101, 'Name '||char(97+i%7+(i%2)*-32), i%13 from x;
         create index tb on t(b); create index td on t(d desc, b); create unique index tc on t(c,a);
         create table w(k text, n int, v, primary key(k,n)) without rowid;
         insert into w select c, a, b from t; create index wv on w(v)",
    )
    .unwrap();
}

#[test]
fn ranks_and_counts_are_those_that_a_walk_finds() {
    let db = Pair::new().open("hedgerow");
    filled(&db);
    for a in [
        "-200",
        "-150",
        "0",
        "1",
        "3",
        "2844",
        "2847",
        "9000",
        "-9223372036854775808",
        "9223372036854775807",
    ] {
        agree(
            &db,
            &format!("hedgerow_rank('t',{a})"),
            &format!("select count(*) from t where a<{a}"),
        );
        agree(
            &db,
            &format!("hedgerow_count('t',{a})"),
            &format!("select count(*) from t where a={a}"),
        );
    }
    for b in ["-1", "0", "50", "'50'", "50.0", "50.5", "100", "'x'", "null", "x'00'"] {
        let [rank, count] = ["rank", "count"].map(|name| format!("hedgerow_{name}('tb',{b})"));
        let of = |operator: &str| format!("select count(*) from t where b{operator}{b}");
        if b == "null" {
            agree(&db, &rank, "select 0");
            agree(&db, &count, "select count(*) from t where b is null");
            continue;
        }
        agree(&db, &rank, &of("<"));
        agree(&db, &count, &of("="));
    }
    // A collation, several columns, a descending one.
    agree(&db, "hedgerow_count('tc','NAME C')", "select count(*) from t where c='name c'");
    agree(&db, "hedgerow_rank('tc','name c')", "select count(*) from t where c<'name c'");
    agree(&db, "hedgerow_count('td',5)", "select count(*) from t where d=5");
    agree(&db, "hedgerow_rank('td',5)", "select count(*) from t where d>5");
    agree(&db, "hedgerow_rank('td',5,40)", "select count(*) from t where d>5 or d=5 and b<40");
    agree(&db, "hedgerow_count('w','Name b')", "select count(*) from w where k='Name b'");
    agree(
        &db,
        "hedgerow_rank('w','Name b',300)",
        "select count(*) from w where (k,n)<('Name b',300)",
    );
    agree(&db, "hedgerow_count('main.wv')", "select count(*) from w");
    agree(&db, "hedgerow_count('t')", "select count(*) from t");
    // The entries of a range.
    agree(
        &db,
        "hedgerow_rank('tb',70)+hedgerow_count('tb',70)-hedgerow_rank('tb',20)",
        "select count(*) from t where b between 20 and 70",
    );
}

#[test]
fn places_are_those_of_an_ordered_select() {
    let db = Pair::new().open("hedgerow");
    filled(&db);
    for n in [0, 1, 499, 999] {
        for (name, query) in [
            ("t", "a from t order by a"),
            ("tb", "a from t order by b, a"),
            ("td", "a from t order by d desc, b, a"),
            ("tc", "a from t order by c, a"),
        ] {
            agree(
                &db,
                &format!("hedgerow_nth('{name}',{n})"),
                &format!("select {query} limit 1 offset {n}"),
            );
        }
        agree(
            &db,
            &format!("hedgerow_nth('w',{n},1)"),
            &format!("select n from w order by k,n limit 1 offset {n}"),
        );
        agree(
            &db,
            &format!("hedgerow_nth('td',{n},1)"),
            &format!("select b from t order by d desc,b limit 1 offset {n}"),
        );
    }
    for none in ["hedgerow_nth('t',1000)", "hedgerow_nth('t',-1)", "hedgerow_nth('tb',null)"] {
        agree(&db, &format!("{none} is null"), "select 1");
    }
    let row = "select b from t where a=hedgerow_nth('t',400)";
    assert_eq!(one(&db, row), one(&db, "select b from t order by a limit 1 offset 400"));
}

#[test]
fn they_see_the_transaction_and_the_newest_schema() {
    let pair = Pair::new();
    let [db, other] = [pair.open("hedgerow"), pair.open("hedgerow")];
    filled(&db);
    assert_eq!(one(&other, "select hedgerow_count('tb')").unwrap(), 1000);
    db.execute_batch("begin; delete from t where a<0").unwrap();
    assert_eq!(one(&db, "select hedgerow_rank('t',3)").unwrap(), 1);
    assert_eq!(one(&other, "select hedgerow_rank('t',3)").unwrap(), 51);
    db.execute_batch("commit; drop index tb; create index tb on w(v)").unwrap();
    assert_eq!(one(&other, "select hedgerow_count('tb')").unwrap(), 1000);
    assert_eq!(one(&other, "select hedgerow_count('t')").unwrap(), 950);
    // In a statement that writes, row by row.
    db.execute_batch("create table r(n); insert into r select hedgerow_rank('t',a) from t")
        .unwrap();
    assert_eq!(one(&db, "select count(distinct n)*1000+max(n) from r").unwrap(), 950_949);
    db.execute_batch("vacuum").unwrap();
    assert_eq!(transcript(&db, "pragma integrity_check")[0], "'ok'");
}

#[test]
fn names_of_other_databases_and_wrong_names() {
    let pair = Pair::new();
    let db = pair.open("hedgerow");
    filled(&db);
    let second = pair.path("second.db");
    open(&second, "hedgerow")
        .execute_batch("create table s(a); insert into s values(1),(2)")
        .unwrap();
    db.execute_batch(&format!(
        "attach '{}' as second; attach ':memory:' as plain; create table plain.p(a);
         create view v as select 1",
        second.display()
    ))
    .unwrap();
    assert_eq!(one(&db, "select hedgerow_count('s')*10+hedgerow_rank('second.s',2)").unwrap(), 21);
    for (wrong, what) in [
        ("hedgerow_count('nothing')", "no such table or index: nothing"),
        ("hedgerow_count('second.t')", "no such table or index: second.t"),
        ("hedgerow_count('p')", "not that of a table or an index in a store"),
        ("hedgerow_count('v')", "not that of a table or an index in a store"),
        ("hedgerow_rank('t','x')", "its rowid"),
        ("hedgerow_rank('tb')", "a name and a value are needed"),
        ("hedgerow_rank('tb',1,2,3)", "more values than the index has columns"),
        ("hedgerow_nth('t','x')", "a place is an integer"),
    ] {
        let error = one(&db, &format!("select {wrong}")).unwrap_err().to_string();
        assert!(error.contains(what), "{wrong}: {error}");
    }
}
