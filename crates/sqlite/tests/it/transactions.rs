//! Connections beside each other, cursors that go on through commits and rollbacks, blobs in parts.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::pair::{ENGINES, Pair, same, transcript};

fn code(result: rusqlite::Result<()>) -> i32 {
    match result {
        Err(rusqlite::Error::SqliteFailure(error, _)) => error.extended_code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reader_keeps_its_snapshot_beside_a_writer() {
    let pair = Pair::new();
    let (a, b) = (pair.open("hedgerow"), pair.open("hedgerow"));
    a.execute_batch("create table t(a); insert into t values(1)").unwrap();
    b.execute_batch("begin").unwrap();
    assert_eq!(transcript(&b, "select * from t")[0], "1");
    a.execute_batch("insert into t values(2)").unwrap();
    assert_eq!(transcript(&b, "select count(*) from t")[0], "1");
    // 517 is SQLITE_BUSY_SNAPSHOT: what was read is no longer the newest.
    assert_eq!(code(b.execute_batch("insert into t values(3)")), 517);
    b.execute_batch("rollback").unwrap();
    assert_eq!(transcript(&b, "select count(*) from t")[0], "2");
    b.execute_batch("insert into t values(3)").unwrap();
    assert_eq!(transcript(&a, "select count(*) from t")[0], "3");
}

#[test]
fn a_second_writer_is_told_to_wait() {
    let pair = Pair::new();
    let (mut a, b) = (pair.open("hedgerow"), pair.open("hedgerow"));
    a.execute_batch("create table t(a)").unwrap();
    b.busy_timeout(Duration::ZERO).unwrap();
    let txn = a.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    match b.execute_batch("begin immediate") {
        Err(rusqlite::Error::SqliteFailure(error, _)) => {
            assert_eq!(error.code, ErrorCode::DatabaseBusy);
        }
        other => panic!("{other:?}"),
    }
    txn.commit().unwrap();
    b.execute_batch("begin immediate; insert into t values(1); commit").unwrap();
}

/// It is waited for as long as was asked for, and not for as long as a flush may take.
#[test]
fn a_transaction_of_the_library_is_waited_for_as_one_of_a_connection() {
    let pair = Pair::new();
    let db = pair.open("hedgerow");
    db.execute_batch("create table t(a)").unwrap();
    let store = hedgerow::tree::Store::open(pair.path("hedgerow.db")).unwrap();
    let insert = || db.execute_batch("insert into t values(1)");
    for timeout in [0, 300].map(Duration::from_millis) {
        db.busy_timeout(timeout).unwrap();
        let txn = store.begin_write().unwrap();
        let begun = Instant::now();
        assert_eq!(code(insert()), rusqlite::ffi::SQLITE_BUSY);
        let waited = begun.elapsed();
        assert!(waited >= timeout && waited < Duration::from_secs(5), "{timeout:?}: {waited:?}");
        drop(txn);
        insert().unwrap();
    }
}

/// The most pages hold for the connection that has set them, and only for writing.
#[test]
fn a_file_gets_no_more_pages_than_its_connection_allows() {
    for engine in ENGINES {
        let pair = Pair::new();
        let (db, other) = (pair.open(engine), pair.open(engine));
        let number = |db: &Connection, sql| db.query_row(sql, [], |row| row.get::<_, i64>(0));
        let pages = || number(&db, "pragma page_count").unwrap();
        db.execute_batch("create table t(a integer primary key, b)").unwrap();
        assert_eq!(number(&db, "pragma max_page_count").unwrap(), 4_294_967_294, "{engine}");
        assert_eq!(number(&db, "pragma max_page_count=100").unwrap(), 100, "{engine}");
        let fill = |db: &Connection, begin: &str| {
            db.execute_batch(begin)?;
            let many = "with recursive n(i) as (values(1) union all select i+1 from n where i<999)
                insert into t(b) select zeroblob(700) from n; commit";
            db.execute_batch(many)
        };
        let put = "insert into t(b) values(zeroblob(700))";
        let puts_until_full = || {
            assert!((0..2000).any(|_| db.execute_batch(put).is_err()), "{engine}: never full");
        };
        puts_until_full();
        assert_eq!(code(db.execute_batch(put)), rusqlite::ffi::SQLITE_FULL, "{engine}");
        let full = pages();
        assert!((50..=100).contains(&full), "{engine}: {full}");
        // What was put is there, and so is what is put into one that is full in the middle.
        let rows = number(&db, "select count(*) from t").unwrap();
        assert_eq!(code(fill(&db, "begin immediate")), rusqlite::ffi::SQLITE_FULL, "{engine}");
        assert_eq!(number(&db, "select count(*) from t").unwrap(), rows, "{engine}");
        db.execute_batch("rollback").unwrap();
        // It is never less than there are, and can be raised in a transaction.
        assert_eq!(number(&db, "pragma max_page_count=7").unwrap(), full, "{engine}");
        fill(&db, "begin immediate; pragma max_page_count=1000").unwrap();
        assert!(pages() > 200, "{engine}");
        fill(&other, "begin").unwrap();
        // Others may have made it longer than this connection allows: it is not made longer.
        db.execute_batch("pragma max_page_count=1").unwrap();
        fill(&other, "begin").unwrap();
        let long = number(&other, "pragma page_count").unwrap();
        puts_until_full();
        assert_eq!(pages(), long, "{engine}");
        db.execute_batch("delete from t where a>500").unwrap();
        db.execute_batch("insert into t(b) values(1)").unwrap();
        assert_eq!(transcript(&db, "pragma integrity_check")[0], "'ok'", "{engine}");
    }
}

#[test]
fn who_only_reads_and_who_writes_may_open_in_any_order() {
    let pair = Pair::new();
    let writer = pair.open("hedgerow");
    writer.execute_batch("create table t(a); insert into t values(1)").unwrap();
    let only_reads = |path: &str| {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let db = Connection::open_with_flags(path, flags).unwrap();
        // 8 is SQLITE_READONLY.
        assert_eq!(code(db.execute_batch("insert into t values(2)")), 8);
        assert_eq!(code(db.execute_batch("create table u(a)")), 8);
        assert!(db.is_readonly("main").unwrap());
        db
    };
    let path = writer.path().unwrap().to_owned();
    let beside = only_reads(&path);
    writer.execute_batch("insert into t values(3)").unwrap();
    assert_eq!(transcript(&beside, "select sum(a) from t")[0], "4");
    drop((writer, beside));

    let first = only_reads(&path);
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("insert into t values(5)").unwrap();
    assert_eq!(transcript(&first, "select sum(a) from t")[0], "9");
}

#[test]
fn what_is_said_to_be_immutable_is_only_read() {
    let pair = Pair::new();
    for engine in ENGINES {
        let writer = pair.open(engine);
        writer.execute_batch("create table t(a); insert into t values(1)").unwrap();
        let path = writer.path().unwrap().to_owned();
        drop(writer);
        let db = Connection::open(format!("file:{path}?immutable=1")).unwrap();
        assert_eq!(transcript(&db, "select a from t")[0], "1", "{engine}");
        assert_eq!(code(db.execute_batch("insert into t values(2)")), 8, "{engine}");
        assert!(db.is_readonly("main").unwrap(), "{engine}");
    }
}

#[test]
fn writers_of_many_threads_wait_for_each_other() {
    let pair = Pair::new();
    pair.open("hedgerow").execute_batch("create table t(a); insert into t values(0)").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let db = pair.open("hedgerow");
                db.busy_timeout(Duration::from_secs(60)).unwrap();
                for _ in 0..50 {
                    db.execute_batch("begin immediate; update t set a=a+1; commit").unwrap();
                }
            });
        }
    });
    assert_eq!(transcript(&pair.open("hedgerow"), "select a from t")[0], "200");
}

/// A statement that reads goes on while others write, commit and roll back in its connection.
#[test]
fn a_statement_goes_on_through_the_writes_of_others() {
    let both = Pair::new().both().map(|db| {
        let mut all = Vec::new();
        db.execute_batch(
            "create table t(a integer primary key,b); create index i on t(b); create table u(x);
             with recursive n(x) as (values(1) union all select x+1 from n where x<300)
             insert into t select x,x*7%300 from n;",
        )
        .unwrap();
        for sql in [
            "select a,b from t",
            "select b from t where b>5 order by b",
            "select b,a from t order by b desc",
        ] {
            let mut statement = db.prepare(sql).unwrap();
            let mut rows = statement.query([]).unwrap();
            let mut n = 0;
            while let Some(row) = rows.next().unwrap() {
                all.push(row.get::<_, i64>(0).unwrap());
                n += 1;
                step(&db, n);
            }
        }
        all.push(db.query_row("select count(*)+sum(a)*7+sum(b) from t", [], |r| r.get(0)).unwrap());
        all
    });
    assert_eq!(both[1], both[0]);

    fn step(db: &Connection, n: i64) {
        let sql = match n % 6 {
            0 => format!("delete from t where a={}", n + 1),
            1 => format!("insert or ignore into t values({},{})", 1000 + n, n),
            2 => "begin; insert into u values(1); commit".to_owned(),
            3 => format!("savepoint s; update t set b=b+1 where a>{n}; rollback to s; release s"),
            4 => format!("update t set b=b where a={n}"),
            _ => return,
        };
        db.execute_batch(&sql).unwrap();
    }
}

#[test]
fn the_data_version_changes_with_the_commits_of_others() {
    for engine in ENGINES {
        let pair = Pair::new();
        let (a, b) = (pair.open(engine), pair.open(engine));
        let version = |db: &Connection| transcript(db, "pragma data_version")[0].clone();
        a.execute_batch("create table t(a)").unwrap();
        let (first, before) = (version(&a), version(&b));
        a.execute_batch("insert into t values(1)").unwrap();
        assert_eq!(version(&a), first, "{engine}");
        assert_ne!(version(&b), before, "{engine}");
    }
}

#[test]
fn a_blob_is_read_and_written_in_parts() {
    for engine in ENGINES {
        let pair = Pair::new();
        let db = pair.open(engine);
        db.execute_batch("create table t(a,b); insert into t values(1,zeroblob(100000))").unwrap();
        let name = rusqlite::MAIN_DB;
        let mut blob = db.blob_open(name, "t", "b", 1, false).unwrap();
        blob.seek(SeekFrom::Start(70_000)).unwrap();
        blob.write_all(b"in the middle").unwrap();
        blob.seek(SeekFrom::Start(69_999)).unwrap();
        let mut part = [1; 15];
        blob.read_exact(&mut part).unwrap();
        assert_eq!(&part, b"\0in the middle\0");
        // Another change of the row ends the blob.
        db.execute_batch("update t set a=2").unwrap();
        assert!(blob.read_exact(&mut part).is_err(), "{engine}");
        drop(blob);
        let sql = "select length(b),instr(b,'in the middle') from t";
        assert_eq!(transcript(&db, sql)[0], "100000|70001", "{engine}");
    }
}

#[test]
fn what_was_committed_is_there_in_another_process() {
    let pair = Pair::new();
    let path = pair.path("hedgerow.db");
    let db = pair.open("hedgerow");
    db.execute_batch("create table t(a); insert into t values(1)").unwrap();
    // A store that is open here is open there, too.
    let copy = pair.path("copy.db");
    hedgerow::tree::Store::open(&path)
        .unwrap()
        .copy_to(&copy, Default::default(), &mut |_, _| {})
        .unwrap();
    let copy = Connection::open(&copy).unwrap();
    assert_eq!(transcript(&copy, "select a from t; pragma integrity_check")[..2], ["1", "'ok'"]);
}

/// A table that was just filled is read while another one grows, until there is so much that pages
/// of both are written early, and their memory is used for others: not that of the rows that are
/// being read.
#[test]
fn rows_that_are_read_stay_while_pages_are_written_early() {
    let pair = Pair::new();
    for db in pair.both() {
        db.execute_batch(
            "create table a(x integer primary key, y text); create table b(x, y, z);
             create table c(k text primary key, y text) without rowid; create table many(i);
             with recursive n(i) as (values(1) union all select i+1 from n where i<240)
             insert into many select i from n;
             begin;
             with recursive n(i) as (values(1) union all select i+1 from n where i<11000)
             insert into a select i, printf('%0300d', i) from n;
             insert into b select x, y, zeroblob(600) from a cross join many
             where x between 10891 and 10950 order by x desc;
             insert into c select printf('%08d', x), y from a;
             insert into b select k+0, y, null from c;
             update a set y=y||'!' where x in (select x from b where x%3=0);",
        )
        .unwrap();
        let asked = "select count(*), sum(x), sum(cast(y as integer)=x), sum(length(y)) from b";
        assert_eq!(transcript(&db, asked)[0], "25400|217760700|25400|7620000");
        db.execute_batch("commit").unwrap();
        assert_eq!(transcript(&db, asked)[0], "25400|217760700|25400|7620000");
        let changed = "select count(*), sum(length(y)) from a where y like '%!'";
        assert_eq!(transcript(&db, changed)[0], "3666|1103466");
        assert_eq!(transcript(&db, "pragma integrity_check")[0], "'ok'");
    }
}

#[test]
fn rows_are_appended_after_the_last_one_whatever_became_of_it() {
    let pair = Pair::new();
    let both = pair.both();
    let many = "insert into t(b) values('b'); insert into t(b) values('c'); ";
    let script = [
        "create table t(a integer primary key, b); create table u(a integer primary key, b);
         create trigger w after insert on t when new.b='twice' begin
           insert into t(b) values('again'); insert into u values(new.a, 'seen'); end; begin; ",
        many,
        "delete from t where a=(select max(a) from t); insert into t(b) values('d'); ",
        "savepoint s; ",
        many,
        "rollback to s; insert into t(b) values('e'); select max(a) from t; ",
        "insert into t(b) values('twice'); insert into t(b) values('f'); select * from u; ",
        "insert into t values(1000,'g'); insert into t(b) values('h'); ",
        "update t set a=2000 where a=1001; insert into t(b) values('i'); ",
        "update t set b=b||'!' where a=2001; ",
        "insert into t(b) select b from t; select a, b from t order by a desc limit 4; ",
        "insert into t values(9223372036854775807,'last'); delete from t where b='last'; ",
        many,
        "delete from t; insert into t(b) values('k'); insert into t(b) values('l'); ",
        "commit; begin; ",
        many,
        "insert into t(b) values('m') returning a; rollback; ",
        many,
        "select * from t; pragma integrity_check",
    ];
    same(&both, &script.concat());
}
