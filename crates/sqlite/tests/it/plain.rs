//! Plain tables of a store as virtual tables, beside ordinary tables with the same rows.

use hedgerow::tree::{Snapshot as _, Store, TableOptions};
use rusqlite::Connection;

use super::pair::{Pair, open, transcript};

/// A store with tables of text, of numbers, and of keys with several values.
fn store(path: &std::path::Path) -> Store {
    let store = Store::create(path).unwrap();
    let mut txn = store.begin_write().unwrap();
    let plain = TableOptions::new();
    let words = txn.create_table("words", &plain).unwrap();
    let numbers = txn.create_table("numbers", &plain).unwrap();
    let many = txn.create_table("many", &plain.clone().duplicates()).unwrap();
    for i in 0..500_u64 {
        let word = format!("word {:03}", i * 7 % 500);
        txn.put(words, word.as_bytes(), format!("value {i}").as_bytes()).unwrap();
        txn.put(numbers, &key(i as i64 * 3 - 300), &key(-(i as i64))).unwrap();
        txn.put(many, format!("k{:02}", i % 50).as_bytes(), format!("v{i:03}").as_bytes()).unwrap();
    }
    txn.commit().unwrap();
    store
}

fn key(number: i64) -> [u8; 8] {
    (number.cast_unsigned() ^ 1 << 63).to_be_bytes()
}

/// A connection to a store of SQL that has virtual tables over the other store, and ordinary tables
/// with the same rows, whose names begin with `o`.
fn both(pair: &Pair) -> (Connection, Store) {
    let path = pair.path("plain.hedgerow");
    let store = store(&path);
    let db = pair.open("hedgerow");
    db.execute_batch(&format!(
        "create virtual table words using hedgerow('{0}','words');
         create virtual table numbers using hedgerow('{0}','numbers',key=integer,value=integer);
         create virtual table many using hedgerow('{0}','many');
         create table owords(key text primary key, value text) without rowid;
         insert into owords select * from words;
         create table onumbers(key integer primary key, value integer) without rowid;
         insert into onumbers select * from numbers;
         create table omany(key text, value text, primary key(key,value)) without rowid;
         insert into omany select * from many",
        path.display()
    ))
    .unwrap();
    (db, store)
}

/// That a query gives the same on the ordinary tables.
fn same(db: &Connection, sql: &str) {
    let ordinary = ["words", "numbers", "many"]
        .iter()
        .fold(sql.to_owned(), |sql, name| sql.replace(name, &format!("o{name}")));
    let (mut ours, mut wanted) = (transcript(db, sql), transcript(db, &ordinary));
    // The last line counts what the connection has changed so far.
    ours.pop();
    wanted.pop();
    assert_eq!(ours, wanted, "{sql}");
    assert!(!ours.iter().any(|line| line.starts_with("error")), "{sql}: {ours:?}");
}

#[test]
fn rows_are_found_by_keys_of_every_kind() {
    let pair = Pair::new();
    let (db, _store) = both(&pair);
    same(&db, "select count(*), min(key), max(value) from words; select count(*) from many");
    let keys = ["'word 100'", "'word 1'", "''", "'zzz'", "'WORD 100'", "5", "null", "x'776f7264'"];
    for key in keys {
        for operator in ["=", "<", "<=", ">", ">=", "<>", "is"] {
            same(
                &db,
                &format!(
                    "select count(*), min(key), max(value) from words where key {operator} {key}"
                ),
            );
            same(&db, &format!("select count(*), max(value) from many where key {operator} {key}"));
        }
    }
    for key in ["-300", "0", "1", "2.5", "3.0", "'3'", "'x'", "1197", "9e18", "null", "x'00'"] {
        for operator in ["=", "<", "<=", ">", ">=", "<>"] {
            same(
                &db,
                &format!(
                    "select count(*), sum(key), sum(value) from numbers where key {operator} {key}"
                ),
            );
        }
    }
    for wheres in [
        "key between 30 and 90",
        "key between 90 and 30",
        "key>30 and key<90",
        "key>=30 and key<90",
        "key in (3,6,7,'9')",
        "key>5 and value<-150",
        "key=3 or key=6",
        "key<10 and key<=5 and key>-10",
    ] {
        same(&db, &format!("select * from numbers where {wheres} order by key"));
        same(&db, &format!("select key from numbers where {wheres} order by key desc"));
    }
    same(&db, "select key from words where key='WORD 007' collate nocase");
    same(&db, "select key from words where key>'WORD 490' collate nocase order by key");
    same(
        &db,
        "select n.key, w.value from numbers n join words w on w.key='word '||printf('%03d',n.key) order by 1",
    );
}

#[test]
fn orders_and_offsets_are_pushed_down_and_right() {
    let pair = Pair::new();
    let (db, _store) = both(&pair);
    for sort in [
        "key",
        "key desc",
        "key collate nocase",
        "value",
        "value desc",
        "key, value",
        "key desc, value",
    ] {
        for end in [
            "",
            "limit 7",
            "limit 7 offset 3",
            "limit 5 offset 498",
            "limit 5 offset 600",
            "limit -1 offset 490",
        ] {
            same(&db, &format!("select key, value from words order by {sort} {end}"));
            same(
                &db,
                &format!("select key, value from words where key>'word 200' order by {sort} {end}"),
            );
            same(
                &db,
                &format!(
                    "select key from words where key<'word 200' and key>='word 1' order by {sort} {end}"
                ),
            );
            let by = if sort.starts_with("key") && !sort.contains("value") {
                format!("{sort}, value")
            } else {
                sort.to_owned()
            };
            same(&db, &format!("select key, value from many order by {by}, key {end}"));
            same(&db, &format!("select distinct key from many order by key {end}"));
        }
    }
    for end in ["limit 7 offset 3", "limit 3 offset 100"] {
        for sort in ["key", "key desc"] {
            for low in ["30", "31", "'30'", "30.5"] {
                same(
                    &db,
                    &format!("select key from numbers where key>{low} order by {sort} {end}"),
                );
                same(
                    &db,
                    &format!(
                        "select key from numbers where key>={low} and value<-200 order by {sort} {end}"
                    ),
                );
            }
        }
    }
    let plan = |sql: &str| transcript(&db, &format!("explain query plan {sql}")).join("\n");
    assert!(!plan("select * from words order by key desc limit 3").contains("TEMP B-TREE"));
    assert!(plan("select * from words order by value").contains("TEMP B-TREE"));
    // A row deep inside is not walked to: the plan passes rows over by their number.
    let deep = plan("select key from words order by key limit 1 offset 400");
    assert!(deep.contains("VIRTUAL TABLE INDEX 8:"), "{deep}");
    let bounded = plan("select key from words where key>'a' order by key limit 1 offset 400");
    assert!(bounded.contains("VIRTUAL TABLE INDEX 26:"), "{bounded}");
    let filtered = plan("select key from words where value>'a' order by key limit 1 offset 400");
    assert!(filtered.contains("VIRTUAL TABLE INDEX 0:"), "{filtered}");
}

#[test]
fn functions_count_virtual_tables() {
    let pair = Pair::new();
    let (db, _store) = both(&pair);
    let one = |sql: &str| -> String { transcript(&db, &format!("select {sql}"))[0].clone() };
    assert_eq!(
        one("hedgerow_count('words'), hedgerow_count('many'), hedgerow_count('many','k07')"),
        "500|500|10"
    );
    assert_eq!(one("hedgerow_rank('words','word 100'), hedgerow_rank('numbers',0)"), "100|100");
    assert_eq!(one("hedgerow_rank('many','k01'), hedgerow_rank('many','k01','v101')"), "10|12");
    assert_eq!(one("hedgerow_nth('words',100), hedgerow_nth('numbers',0,1)"), "'word 100'|0");
    assert_eq!(one("hedgerow_nth('words',500)"), "NULL");
    assert!(
        one("hedgerow_rank('numbers','x')").contains("error: key is INTEGER"),
        "{}",
        one("hedgerow_rank('numbers','x')")
    );
    assert!(one("hedgerow_nth('words','x')").contains("error"));
    // The connection has not used the table before.
    let fresh = pair.open("hedgerow");
    assert_eq!(transcript(&fresh, "select hedgerow_count('many')")[0], "500");
}

#[test]
fn rows_are_put_changed_and_deleted() {
    let pair = Pair::new();
    let (db, store) = both(&pair);
    for sql in [
        "insert into words values('a','1'),('b',2); select * from words where key<'c'",
        "insert or replace into words values('a','new'); select * from words where key<'c'",
        "insert or ignore into words values('a','no'),('c','3'); select * from words where key<'d'",
        "update words set value='changed' where key between 'word 100' and 'word 120'",
        "update words set key='x'||key where key>'word 450'; select count(*) from words where key>'x'",
        "update words set key='xxx'||key where key>'x'; select max(key), count(*) from words",
        "delete from words where key like '%5'; select count(*), max(key) from words",
        "update numbers set key=key+100000, value=key where key%2=0",
        "insert into numbers select key+200000, value from numbers where key<0",
        "select count(*), sum(key), sum(value) from numbers",
        "insert into many values('k00','new'),('k99','v')",
        "update many set value=value||'!' where key='k01'; delete from many where value like 'v1%'",
        "update many set key='k50' where key='k02'; select key, value from many order by 1, 2",
        "delete from numbers where key<100000; select * from numbers order by key",
        "insert into numbers values('77', 1.0); select key, value from numbers where key=77",
    ] {
        same(&db, sql);
    }
    let refused = |sql: &str| transcript(&db, sql)[0].clone();
    assert!(refused("insert into words values('a','no')").contains("UNIQUE constraint failed"));
    assert!(refused("insert into words values(null,'no')").contains("NOT NULL constraint failed"));
    assert!(refused("insert into numbers values('x',1)").contains("key is INTEGER"));
    assert!(refused("insert into many values('k00','new')").contains("UNIQUE constraint failed"));
    // A statement that fails leaves nothing.
    assert!(refused("insert into words values('zz1','x'),('a','no')").contains("UNIQUE"));
    same(&db, "select count(*), max(key) from words");
    let txn = store.begin_read().unwrap();
    let words = txn.table("words").unwrap();
    assert_eq!(txn.get(words, b"a").unwrap().unwrap(), b"new"[..]);
    let count: i64 = db.query_row("select count(*) from words", [], |row| row.get(0)).unwrap();
    assert_eq!(txn.count(words).unwrap().keys, count as u64);
    drop(txn);
    store.check(&mut |_, _| {}).unwrap();
}

#[test]
fn numbers_without_a_sign_are_compared_with_negative_ones() {
    let pair = Pair::new();
    let db = pair.open("hedgerow");
    db.execute_batch(
        "create virtual table p using hedgerow('p', key=unsigned);
         insert into p values(0,'a'),(1,'b'),(9,'c')",
    )
    .unwrap();
    for (filter, wanted) in [
        ("key=-1", 0),
        ("key<-1", 0),
        ("key<=-9223372036854775808", 0),
        ("key between -5 and -2", 0),
        ("key between -5 and 1", 2),
        ("key>-1", 3),
        ("key>=-7 and key<9", 2),
        ("key in (-1,1)", 1),
    ] {
        for order in ["", "order by key desc", "order by key limit 9 offset 0"] {
            let sql = format!("select count(*) from (select * from p where {filter} {order})");
            assert_eq!(transcript(&db, &sql)[0], wanted.to_string(), "{sql}");
        }
    }
    db.execute_batch("delete from p where key<-1; update p set value='x' where key=-1").unwrap();
    assert_eq!(transcript(&db, "select group_concat(key||value) from p")[0], "'0a,1b,9c'");
}

#[test]
fn one_row_is_changed_by_a_key_of_another_type() {
    let pair = Pair::new();
    let (db, _store) = both(&pair);
    db.execute_batch(
        "insert into words values('7','a'),('07','b'),('7.0','c');
         insert into owords values('7','a'),('07','b'),('7.0','c'); create table n(i integer);
         insert into n values(7)",
    )
    .unwrap();
    for key in ["3", "6.0", "'9'", "' 12.0 '", "'1.5e1'", "x'33'", "6.5", "'a'", "9.3e18", "-3e0"] {
        same(&db, &format!("select * from numbers where key={key}"));
        same(&db, &format!("update numbers set value=value+1000 where key={key}"));
        same(&db, "select sum(value) from numbers");
        same(
            &db,
            &format!("delete from numbers where key={key}+3; delete from numbers where key={key}"),
        );
        same(&db, "select count(*), sum(key) from numbers");
    }
    for key in ["7", "7.0", "'07'", "x'37'", "(select i from n)"] {
        same(&db, &format!("update words set value=value||'x' where key={key}"));
        same(&db, "select * from words where key<'8' order by key");
    }
    same(&db, "select key from words, n where key=i order by key");
    same(&db, "delete from words where key=7; select key from words where key<'8'");
}

#[test]
fn numbers_become_the_texts_that_they_are_in_sql() {
    let pair = Pair::new();
    let db = pair.open("hedgerow");
    db.execute_batch(
        "create virtual table p using hedgerow('p');
         create table o(key text primary key, value text) without rowid",
    )
    .unwrap();
    for number in ["0.1+0.2", "1e21", "1e300", "9e999", "-9e999", "-0.5", "1e15", "123456789e-20"] {
        db.execute_batch(&format!(
            "insert into p values({number},{number}); insert into o values({number},{number})"
        ))
        .unwrap();
        let found = format!("select count(*) from p where key={number}");
        assert_eq!(transcript(&db, &found)[0], "1", "{number}");
    }
    let rows = "(select * from p except select * from o), (select * from o except select * from p)";
    assert_eq!(transcript(&db, &format!("select count(*) from {rows}"))[0], "0");
    assert_eq!(transcript(&db, "select hedgerow_count('p', 1e21)")[0], "1");
}

#[test]
fn texts_of_a_database_in_utf16_are_in_its_order() {
    let pair = Pair::new();
    let path = pair.path("plain.hedgerow");
    let store = store(&path);
    let mut txn = store.begin_write().unwrap();
    let words = txn.table("words").unwrap();
    // As UTF-16 with the low byte first these come before and among the letters.
    for word in ["\u{100}", "\u{2070}", "\u{3077}", "\u{1f600}", "\u{ffff}"] {
        txn.put(words, word.as_bytes(), b"x").unwrap();
    }
    txn.commit().unwrap();
    let db = pair.open("hedgerow");
    db.execute_batch(&format!(
        "pragma encoding='UTF-16le'; create table owords(key text primary key, value) without rowid;
         create virtual table words using hedgerow('{}','words');
         insert into owords select * from words",
        path.display()
    ))
    .unwrap();
    for key in ["'word 1'", "'a'", "char(8304)", "char(128512)"] {
        for operator in ["=", "<", "<=", ">", ">="] {
            same(&db, &format!("select count(*) from words where key {operator} {key}"));
        }
    }
    same(&db, "select key from words order by key limit 9 offset 1");
    same(&db, "select key from words order by key desc limit 9");
}

#[test]
fn savepoints_and_rollbacks_reach_the_other_store() {
    let pair = Pair::new();
    let (db, _store) = both(&pair);
    db.execute_batch(
        "begin; insert into words values('a','1'); savepoint s; insert into words values('b','2');
         delete from numbers; rollback to s; insert into words values('c','3'); release s; commit",
    )
    .unwrap();
    assert_eq!(transcript(&db, "select group_concat(key) from words where key<'d'")[0], "'a,c'");
    assert_eq!(transcript(&db, "select count(*) from numbers")[0], "500");
    db.execute_batch("begin; delete from words; rollback").unwrap();
    assert_eq!(transcript(&db, "select count(*) from words")[0], "502");
    // Another writer of that store makes the statement fail.
    let writer = open(&pair.path("plain.hedgerow"), "hedgerow");
    writer.execute_batch("begin immediate").unwrap();
    assert!(transcript(&db, "delete from words")[0].contains("locked"));
    writer.execute_batch("rollback").unwrap();
    db.execute_batch("delete from words where key='a'").unwrap();
}

#[test]
fn a_table_of_the_same_store_is_part_of_its_transactions() {
    let pair = Pair::new();
    let path = pair.path("hedgerow.db");
    let db = open(&path, "hedgerow");
    db.execute_batch(
        "create virtual table p using hedgerow('fruit', key=integer);
         create virtual table d using hedgerow('', 'sets', duplicates);
         create table log(n); create trigger r after insert on log begin
         insert into p values(new.n, 'logged'); end",
    )
    .unwrap();
    db.execute_batch("begin; insert into p values(1,'one'); insert into log values(7); savepoint s;
        insert into p values(2,'two'); insert into d values('a','x'),('a','y'); rollback to s; commit")
    .unwrap();
    assert_eq!(transcript(&db, "select * from p")[..2], ["1|'one'", "7|'logged'"]);
    assert_eq!(transcript(&db, "select count(*) from d")[0], "0");
    // A failing statement, and a whole transaction, take both along.
    assert!(transcript(&db, "insert into log values(8),(7)")[0].contains("UNIQUE"));
    db.execute_batch("begin; insert into log values(9); delete from p; rollback").unwrap();
    assert_eq!(transcript(&db, "select (select count(*) from log), count(*) from p")[0], "1|2");
    // While rows are read they are written.
    db.execute_batch("insert into p select key+10, value from p; update p set key=key+1").unwrap();
    assert_eq!(transcript(&db, "select group_concat(key) from p")[0], "'2,8,12,18'");
    assert_eq!(transcript(&db, "select hedgerow_rank('p',12), hedgerow_nth('p',3)")[0], "2|18");
    assert_eq!(transcript(&db, "pragma integrity_check")[0], "'ok'");

    // It is a table of the store like others, and stays when the virtual one is dropped.
    let store = Store::open(&path).unwrap();
    let txn = store.begin_read().unwrap();
    let fruit = txn.table("fruit").unwrap();
    assert_eq!(txn.get(fruit, &key(18)).unwrap().unwrap(), b"logged"[..]);
    drop(txn);
    db.execute_batch("drop table p").unwrap();
    assert!(store.begin_read().unwrap().table("fruit").is_ok());
    let refused = |sql: &str| transcript(&db, sql)[0].clone();
    assert!(
        refused("create virtual table x using hedgerow('sqlite/1')").contains("belongs to SQLite")
    );
    assert!(
        refused("create virtual table x using hedgerow('nowhere','t')").contains("could not open")
    );
    assert!(refused("create virtual table x using hedgerow()").contains("needs a table"));
    let native = pair.open("sqlite");
    let said = transcript(&native, "create virtual table x using hedgerow('t')")[0].clone();
    assert!(said.contains("the database is no store"), "{said}");
}

#[test]
fn a_scan_goes_on_after_commits() {
    let pair = Pair::new();
    let db = pair.open("hedgerow");
    db.execute_batch(
        "create virtual table p using hedgerow('fruit', key=integer); create table t(a);
         insert into p with recursive x(i) as (values(1) union all select i+1 from x where i<50)
         select i, 'v'||i from x",
    )
    .unwrap();
    for sort in ["asc", "desc"] {
        let mut scan = db.prepare(&format!("select key from p order by key {sort}")).unwrap();
        let mut rows = scan.query([]).unwrap();
        let mut seen = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let key: i64 = row.get(0).unwrap();
            seen.push(key);
            // A commit while the statement reads, also of the row that it is on.
            db.execute("insert into t values(?1)", [key]).unwrap();
            if key == 25 {
                db.execute("delete from p where key=25", []).unwrap();
                db.execute("insert or replace into p values(25,'again')", []).unwrap();
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (1..=50).collect::<Vec<_>>(), "{sort}");
    }
}

#[test]
fn other_bytes_than_declared_are_an_error() {
    let pair = Pair::new();
    let (db, _store) = both(&pair);
    let path = pair.path("plain.hedgerow");
    let make = format!(
        "create virtual table wrong using hedgerow('{}','many',key=integer)",
        path.display()
    );
    db.execute_batch(&make).unwrap();
    let said = transcript(&db, "select key from wrong")[0].clone();
    assert!(said.contains("no integer of SQL's"), "{said}");
}

#[test]
fn a_store_that_the_program_has_open_in_its_own_way_is_opened() {
    let pair = Pair::new();
    let path = pair.path("own.hedgerow");
    let options = Store::builder().durability(hedgerow::Durability::None).max_size(1 << 24);
    let store = options.create(&path).unwrap();
    let mut txn = store.begin_write().unwrap();
    let words = txn.create_table("words", &TableOptions::new()).unwrap();
    txn.put(words, b"ash", b"tree").unwrap();
    txn.commit().unwrap();

    let db = Connection::open(&path).unwrap();
    db.execute_batch("create table t(a); insert into t values(1)").unwrap();
    db.execute_batch("create virtual table words using hedgerow('words')").unwrap();
    assert_eq!(transcript(&db, "select * from words, t")[0], "'ash'|'tree'|1");
    assert!(store.begin_read().unwrap().table("sqlite/1").is_ok());

    // Of a store that is only read nothing but reading comes.
    drop((db, store));
    let store = Store::builder().read_only(true).open(&path).unwrap();
    assert!(Connection::open(&path).is_err_and(|e| !e.to_string().is_empty()));
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let db = Connection::open_with_flags(&path, flags).unwrap();
    assert_eq!(transcript(&db, "select * from words, t")[0], "'ash'|'tree'|1");
    drop(store);
}
