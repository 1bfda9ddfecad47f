//! Checksums of rows: `PRAGMA row_checksum`, the column of the same name, and what a damaged row
//! does.

use std::path::Path;

use hedgerow::tree::{Snapshot as _, Store};
use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags, params};

use super::pair::{Pair, open, transcript};

const KINDS: [&str; 3] = ["fast", "sha3", "blake3"];

/// The first value of the first row, as a text.
fn one(db: &Connection, sql: &str) -> String {
    transcript(db, sql).swap_remove(0)
}

/// How many rows of a table carry a checksum of a kind.
fn carrying(db: &Connection, table: &str, kind: &str) -> i64 {
    let sql = format!("select count(*) from {table} where row_checksum like '{kind}:%'");
    db.query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn store(pair: &Pair, kind: &str) -> Connection {
    let db = pair.open("hedgerow");
    assert_eq!(one(&db, &format!("pragma row_checksum={kind}")), format!("'{kind}'"));
    assert_eq!(db.prepare("pragma row_checksum").unwrap().column_name(0), Ok("row_checksum"));
    db
}

/// The key of a row in its tree.
fn key(rowid: i64) -> [u8; 8] {
    (rowid.cast_unsigned() ^ 1 << 63).to_be_bytes()
}

/// Changes the value of a row through the store, whose pages then have checksums that are right.
fn damage(path: &Path, root: u32, rowid: i64, change: impl FnOnce(&mut Vec<u8>)) {
    let store = Store::open(path).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.table(format!("sqlite/{root}")).unwrap();
    let mut value = txn.get(table, &key(rowid)).unwrap().unwrap().to_vec();
    change(&mut value);
    txn.put(table, &key(rowid), &value).unwrap();
    txn.commit().unwrap();
}

#[test]
fn entries_that_are_derived_from_rows_carry_the_fast_one() {
    let pair = Pair::new();
    let db = pair.open("hedgerow");
    db.execute_batch(
        "create table t(a integer primary key,b unique,c); create index i on t(c);
         create table w(k primary key,v) without rowid; create index j on w(v);
         insert into t values(1,2,3); insert into w values(1,2)",
    )
    .unwrap();
    let asked = "select substr(hedgerow_row_checksum('i',3,1),1,5),
        substr(hedgerow_row_checksum('sqlite_autoindex_t_1',2),1,5),
        substr(hedgerow_row_checksum('j',2,1),1,5), substr(hedgerow_row_checksum('w',1),1,5)";
    assert_eq!(one(&db, asked), "NULL|NULL|NULL|NULL");
    let expected = "'fast:'|'fast:'|'fast:'|'sha3:'";
    db.execute_batch("pragma row_checksum=sha3; update t set b=b+1,c=c+1; delete from w; vacuum")
        .unwrap();
    db.execute_batch("update t set b=b-1,c=c-1; insert into w values(1,2)").unwrap();
    assert_eq!(one(&db, asked), expected);
    db.execute_batch("pragma row_checksum=off; vacuum").unwrap();
    assert_eq!(one(&db, asked), "NULL|NULL|NULL|NULL");
    db.execute_batch("pragma row_checksum=sha3; vacuum").unwrap();
    assert_eq!(one(&db, asked), expected);
    db.execute_batch("drop index i; drop index j; create index i on t(c); create index j on w(v)")
        .unwrap();
    assert_eq!(one(&db, asked), expected);
    db.execute_batch("reindex").unwrap();
    assert_eq!(one(&db, asked), expected);
    let mut copy = open(&pair.path("copy"), "hedgerow");
    Backup::new(&db, &mut copy).unwrap().step(-1).unwrap();
    assert_eq!(one(&copy, asked), expected);
    let path = pair.path("into");
    db.execute_batch(&format!("vacuum into 'file:{}?engine=hedgerow'", path.display())).unwrap();
    assert_eq!(one(&open(&path, "hedgerow"), asked), expected);
    assert_eq!(one(&db, "pragma integrity_check"), "'ok'");
}

#[test]
fn every_kind_is_stored_read_and_checked() {
    for (kind, digits) in KINDS.into_iter().zip([16, 64, 64]) {
        let pair = Pair::new();
        let db = store(&pair, kind);
        db.execute_batch(
            "create table t(a integer primary key,b,c); create index i on t(b);
             create table w(k primary key,v) without rowid; create index j on w(v);
             with recursive n(x) as (values(1) union all select x+1 from n where x<3000)
             insert into t select x*2-3000,x%100,'text '||x from n;
             insert into w select c,b from t; update t set c=c||'!' where b<10;
             delete from t where b=50; replace into w values('text 7',null);",
        )
        .unwrap();
        for (table, rows) in [("t", 2970), ("w", 3000), ("sqlite_schema", 4)] {
            assert_eq!(carrying(&db, table, kind), rows, "{kind} {table}");
        }
        let form = format!("select distinct length(row_checksum)-length('{kind}:') from t");
        assert_eq!(one(&db, &form), digits.to_string());
        assert_eq!(one(&db, "select count(distinct row_checksum) from t"), "2970");
        assert_eq!(transcript(&db, "select * from w where k='text 7'")[0], "'text 7'|NULL");
        assert_eq!(one(&db, "pragma integrity_check"), "'ok'");
        let other = pair.open("hedgerow");
        assert_eq!(one(&other, "pragma row_checksum"), format!("'{kind}'"));
        assert_eq!(one(&other, "pragma main.row_checksum"), format!("'{kind}'"));
        assert_eq!(one(&other, "select sum(length(c)),count(b) from t"), "25934|2970");
        assert_eq!(one(&other, "select count(*) from t where b between 20 and 29"), "300");
        db.execute_batch("pragma row_checksum=off; update t set b=b+1 where a>0").unwrap();
        assert_eq!(
            one(&db, "select count(row_checksum), min(a), max(a) from t where a>0"),
            "0|2|3000"
        );
        assert_eq!(carrying(&db, "t", kind), 1485);
        assert_eq!(one(&db, "pragma integrity_check"), "'ok'");
        db.execute_batch("vacuum").unwrap();
        assert_eq!(carrying(&db, "t", kind) + carrying(&db, "w", kind), 0);
        assert_eq!(one(&db, "pragma integrity_check"), "'ok'");
    }
}

#[test]
fn tables_that_were_there_before_get_theirs_row_by_row_or_by_vacuum() {
    let pair = Pair::new();
    let db = pair.open("hedgerow");
    db.execute_batch(
        "create table t(a,b); create index i on t(b); create table w(k,l,primary key(l,k))
         without rowid; with recursive n(x) as (values(1) union all select x+1 from n where x<500)
         insert into t select x,'text '||x from n; insert into w select a,b from t;",
    )
    .unwrap();
    assert_eq!(one(&db, "pragma row_checksum"), "'off'");
    assert_eq!(one(&db, "select count(row_checksum) from t"), "0");
    db.execute_batch("pragma row_checksum=sha3").unwrap();
    assert_eq!(one(&db, "select count(row_checksum) from t"), "0");
    db.execute_batch("update t set a=a where a<=100; insert into t values(501,'new')").unwrap();
    assert_eq!(carrying(&db, "t", "sha3"), 101);
    db.execute_batch("pragma row_checksum=fast; update t set a=a where row_checksum is null")
        .unwrap();
    assert_eq!((carrying(&db, "t", "sha3"), carrying(&db, "t", "fast")), (101, 400));
    let before = transcript(&db, "select * from t; select * from w; select b from t order by b");
    db.execute_batch("vacuum").unwrap();
    let after = transcript(&db, "select * from t; select * from w; select b from t order by b");
    assert_eq!(before[..1000], after[..1000]);
    assert_eq!((carrying(&db, "t", "fast"), carrying(&db, "w", "fast")), (501, 500));
    assert_eq!(one(&db, "pragma integrity_check"), "'ok'");
    db.execute_batch("insert into w values(1,'x'); delete from t where a%2=0").unwrap();
    assert_eq!(one(&db, "pragma integrity_check"), "'ok'");
}

/// How many bytes the numbers of a store take.
fn meta_len(path: &Path) -> usize {
    let store = Store::open(path).unwrap();
    let txn = store.begin_read().unwrap();
    let table = txn.table("sqlite/meta").unwrap();
    txn.get(table, b"meta").unwrap().unwrap().len()
}

#[test]
fn a_store_without_them_is_as_it_was_and_one_of_a_later_version_is_refused() {
    let pair = Pair::new();
    let path = pair.path("hedgerow.db");
    let db = pair.open("hedgerow");
    db.execute_batch("create table t(a); insert into t values(1); pragma row_checksum=off")
        .unwrap();
    drop(db);
    assert_eq!(meta_len(&path), 68);
    let db = pair.open("hedgerow");
    db.execute_batch("pragma row_checksum=blake3; insert into t values(2)").unwrap();
    drop(db);
    assert_eq!(meta_len(&path), 72);
    let db = pair.open("hedgerow");
    db.execute_batch("pragma row_checksum=off; vacuum").unwrap();
    drop(db);
    assert_eq!(meta_len(&path), 68);

    let store = Store::open(&path).unwrap();
    let mut txn = store.begin_write().unwrap();
    let table = txn.table("sqlite/meta").unwrap();
    let mut meta = txn.get(table, b"meta").unwrap().unwrap().to_vec();
    meta.extend([4, 0, 0, 0]);
    txn.put(table, b"meta", &meta).unwrap();
    txn.commit().unwrap();
    drop(store);
    let db = Connection::open(&path).unwrap();
    assert!(one(&db, "select * from t").contains("not a database"));
}

#[test]
fn a_flipped_byte_is_found_where_it_is_read() {
    for kind in KINDS {
        let pair = Pair::new();
        let db = store(&pair, kind);
        db.execute_batch(
            "create table t(a,b); create index i on t(a);
             with recursive n(x) as (values(1) union all select x+1 from n where x<100)
             insert into t select x,'text '||x from n;",
        )
        .unwrap();
        drop(db);
        let path = pair.path("hedgerow.db");
        damage(&path, 2, 40, |value| *value.last_mut().unwrap() ^= 1);
        let db = pair.open("hedgerow");
        let error = "row 40 of t (tree 2) does not match its checksum";
        for sql in [
            "select b from t",
            "select * from t where rowid=40",
            "update t set b=1",
            "select a from t where rowid between 30 and 50",
            "create index j on t(b)",
            "begin; delete from t where b='text 1'",
        ] {
            let said = transcript(&db, sql);
            assert!(said.iter().any(|line| line.contains(error)), "{kind} {sql}: {said:?}");
            if !db.is_autocommit() {
                db.execute_batch("rollback").unwrap();
            }
        }
        let failed = db.query_row("select b from t where rowid=40", [], |_| Ok(())).unwrap_err();
        let code = failed.sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::DatabaseCorrupt));
        // Other rows can be read, and what is not read is not looked at.
        assert_eq!(one(&db, "select count(*),sum(rowid) from t"), "100|5050");
        assert_eq!(one(&db, "select count(b) from t where rowid<>40 and rowid<40"), "39");
        let said = transcript(&db, "pragma integrity_check");
        let expected = "Tree 2: row 40 does not match its checksum";
        assert!(said.iter().any(|line| line.contains(expected)), "{said:?}");
        db.execute_batch("pragma row_checksum=off").unwrap();
        assert!(db.execute_batch("vacuum").is_err());
        db.execute_batch(&format!("pragma row_checksum={kind}")).unwrap();
        let into = format!("vacuum into 'file:{}?engine=hedgerow'", pair.path("copy").display());
        assert!(db.execute_batch(&into).is_err());
        assert!(one(&db, "select row_checksum from t where rowid=40").contains(kind));
        db.execute_batch("drop index i; delete from t where rowid=40").unwrap();
        assert_eq!(one(&db, "select count(b) from t"), "99");
        assert_eq!(one(&db, "pragma integrity_check"), "'ok'");
    }
}

#[test]
fn a_damaged_entry_of_an_index_and_a_lost_checksum_are_found() {
    let pair = Pair::new();
    let db = store(&pair, "fast");
    db.execute_batch(
        "create table w(k text primary key,v) without rowid; insert into w values('a',1),('b',2);
         create table t(a); insert into t values('x'),('y');",
    )
    .unwrap();
    drop(db);
    let path = pair.path("hedgerow.db");
    damage(&path, 3, 2, |value| drop(value.drain(..9)));
    let store = Store::open(&path).unwrap();
    let mut txn = store.begin_write().unwrap();
    // The order of an index is of no weight here: there is one way in which its entries are put.
    let order = hedgerow::tree::Order::custom("sqlite-record", |a, b| a.cmp(b));
    let options = hedgerow::tree::TableOptions::new().order(order).prefix_compression(false);
    let table = txn.table_with("sqlite/2", &options).unwrap();
    let mut cursor = txn.cursor(table).unwrap();
    let entry = cursor.first(&txn).unwrap().unwrap();
    let mut sum = entry.value.to_vec();
    sum[3] ^= 0x10;
    cursor.put_current(&mut txn, &sum).unwrap();
    txn.commit().unwrap();
    drop(store);
    let db = pair.open("hedgerow");
    let error = "error: an entry of w (tree 2) does not match its checksum";
    assert_eq!(one(&db, "select v from w where k='a'"), error);
    assert_eq!(one(&db, "select v from w where k='b'"), "2");
    assert_eq!(one(&db, "select a from t where rowid=1"), "'x'");
    let error = "error: row 2 of t (tree 3) does not match its checksum";
    assert_eq!(one(&db, "select a from t where rowid=2"), error);
    let said = transcript(&db, "pragma integrity_check").join(" ");
    assert!(said.contains("Tree 2: entry 1 does not") && said.contains("Tree 3: row 2 does not"));
}

#[test]
fn long_rows_and_blobs_that_are_written_in_parts_keep_theirs_right() {
    for kind in KINDS {
        let pair = Pair::new();
        let db = store(&pair, kind);
        db.execute_batch(
            "create table t(a,b); insert into t values(1,zeroblob(300000));
             insert into t values(2,randomblob(3000)); insert into t values(3,zeroblob(50));",
        )
        .unwrap();
        let sums = "select group_concat(row_checksum) from t";
        let before = one(&db, sums);
        for (rowid, at, text) in [(1, 299_000, "late"), (2, 1000, "middle"), (3, 0, "early")] {
            let mut blob = db.blob_open("main", "t", "b", rowid, false).unwrap();
            for i in 0..3 {
                blob.write_at(text.as_bytes(), at + i * 9).unwrap();
                let mut read = vec![0; text.len()];
                blob.read_at_exact(&mut read, at + i * 9).unwrap();
                assert_eq!(read, text.as_bytes());
            }
        }
        assert_ne!(one(&db, sums), before);
        assert_eq!(carrying(&db, "t", kind), 3);
        // Within a transaction that has changed the row it is read from a copy of its beginning.
        db.execute_batch("begin; update t set a=a+10").unwrap();
        assert_eq!(one(&db, "select sum(length(b)),sum(a) from t"), "303050|36");
        assert_eq!(one(&db, "select hex(substr(b,299001,4)) from t where a=11"), "'6C617465'");
        db.execute_batch("commit").unwrap();
        assert_eq!(one(&db, "pragma integrity_check"), "'ok'");
        drop(db);
        damage(&pair.path("hedgerow.db"), 2, 1, |value| value[200_000] ^= 4);
        let db = pair.open("hedgerow");
        let wrong = "row 1 of t (tree 2) does not match its checksum";
        assert!(one(&db, "select a from t where rowid=1").contains(wrong));
        let mut blob = db.blob_open("main", "t", "b", 2, false).unwrap();
        let moved = blob.reopen(1).and_then(|()| blob.write_at(b"x", 3).map(|_| ()));
        assert!(moved.is_err(), "a damaged row does not get a checksum that is right");
        drop(blob);
        assert!(one(&db, "pragma integrity_check").contains("row 1 does not match"));
    }
}

#[test]
fn the_setting_is_part_of_transactions() {
    let pair = Pair::new();
    let db = pair.open("hedgerow");
    let other = pair.open("hedgerow");
    db.execute_batch("create table t(a)").unwrap();
    db.execute_batch(
        "begin; pragma row_checksum=fast; insert into t values(1); savepoint s;
         pragma row_checksum=sha3; insert into t values(2); rollback to s; insert into t values(3)",
    )
    .unwrap();
    assert_eq!(one(&db, "pragma row_checksum"), "'fast'");
    assert_eq!(one(&other, "pragma row_checksum"), "'off'");
    assert_eq!((carrying(&db, "t", "fast"), carrying(&db, "t", "sha3")), (2, 0));
    db.execute_batch("rollback").unwrap();
    assert_eq!(one(&db, "pragma row_checksum"), "'off'");
    db.execute_batch("insert into t values(4)").unwrap();
    assert_eq!(one(&db, "select count(*),count(row_checksum) from t"), "1|0");
    db.execute_batch("begin; pragma row_checksum=blake3; insert into t values(5); commit").unwrap();
    assert_eq!(one(&other, "pragma row_checksum"), "'blake3'");
    other.execute_batch("insert into t values(6)").unwrap();
    assert_eq!(carrying(&db, "t", "blake3"), 2);
    let said = one(&db, "pragma row_checksum=md5");
    assert!(said.contains("off, fast, sha3 or blake3"), "{said}");
    drop((db, other));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = Connection::open_with_flags(pair.path("hedgerow.db"), flags).unwrap();
    assert_eq!(one(&reader, "pragma row_checksum"), "'blake3'");
    assert!(one(&reader, "pragma row_checksum=off").contains("readonly"));
    assert_eq!(one(&reader, "select sum(a) from t"), "15");
    let file = pair.open("sqlite");
    assert_eq!(one(&file, "pragma row_checksum"), "'off'");
    assert!(one(&file, "pragma row_checksum=fast").contains("only a store"));
    assert_eq!(one(&file, "pragma row_checksum=off"), "'off'");
}

#[test]
fn a_cursor_goes_on_while_the_setting_changes() {
    let pair = Pair::new();
    let db = store(&pair, "sha3");
    db.execute_batch(
        "create table t(a); with recursive n(x) as (values(1) union all select x+1 from n
         where x<300) insert into t select x from n;",
    )
    .unwrap();
    let mut statement = db.prepare("select a from t").unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut sum = 0;
    for i in 0.. {
        let Some(row) = rows.next().unwrap() else { break };
        sum += row.get::<_, i64>(0).unwrap();
        if i % 10 == 0 {
            let kind = ["off", "fast", "sha3", "blake3"][i / 10 % 4];
            db.execute_batch(&format!("pragma row_checksum={kind}")).unwrap();
            db.execute("update t set a=a where rowid=?1", params![i as i64 + 20]).unwrap();
        }
    }
    assert_eq!(sum, 45150);
    assert_eq!(one(&db, "pragma integrity_check"), "'ok'");
}

/// A store with tables of which some rows carry checksums.
fn with_tables() -> (Pair, Connection) {
    let pair = Pair::new();
    let db = store(&pair, "fast");
    db.execute_batch(
        "create table t(a,b); insert into t values(1,10),(2,20),(3,30); create index i on t(a);
         create table own(a,row_checksum); insert into own values(1,'mine');
         create table w(k,l,v,primary key(l,k)) without rowid; insert into w values(1,2,3),(4,5,6);
         create table odd(rowid,oid); insert into odd values(7,8);
         create view x as select a,t.row_checksum s from t;
         pragma row_checksum=off; insert into t values(4,40); pragma row_checksum=fast;",
    )
    .unwrap();
    (pair, db)
}

#[test]
fn the_column_can_be_asked_for_wherever_a_column_can() {
    let (_pair, db) = with_tables();
    let asked = [
        ("select * from t where a=1", "1|10"),
        ("select count(row_checksum),count(*) from t", "3|4"),
        ("select a from t where row_checksum is null", "4"),
        ("select a from t where a>0 and row_checksum is null order by a", "4"),
        ("select length(row_checksum) from t where a=2", "21"),
        ("select length(max(row_checksum)) from t", "21"),
        ("select count(*) from (select row_checksum,count(*) from t group by row_checksum)", "4"),
        ("select count(*) from (select distinct row_checksum from t)", "4"),
        ("select a from t order by row_checksum limit 1", "4"),
        ("select count(y.row_checksum) from t z left join t y on y.a=z.a+1", "2"),
        ("select count(*) from t y join t z on y.row_checksum=z.row_checksum", "3"),
        ("select count(*) from t z left join t y on y.row_checksum=z.row_checksum", "4"),
        ("select main.t.row_checksum=t.row_checksum from t where a=3", "1"),
        ("select (select row_checksum from own where own.a=t.a) from t where a=1", "'mine'"),
        ("select row_checksum from own", "'mine'"),
        ("select count(s) from x", "3"),
        ("select count(*) from w where row_checksum like 'fast:%'", "2"),
        ("select count(*) from w y where y.row_checksum>''", "2"),
        ("select count(row_checksum) from odd", "1"),
        ("select a from t where row_checksum=(select row_checksum from t where a=2)", "2"),
        ("select exists(select 1 from own where t.row_checksum>'') from t where a=1", "1"),
        ("select 'q' as row_checksum from t where row_checksum='q' and a=1", "'q'"),
        ("with c as (select a,row_checksum r from t) select count(r) from c", "3"),
        ("select hedgerow_row_checksum('t',2)=row_checksum from t where a=2", "1"),
        ("select hedgerow_row_checksum('w',5,4)=row_checksum from w where k=4", "1"),
        ("select hedgerow_row_checksum('t',99)", "NULL"),
        ("select sum(row_checksum is null) over (order by a) from t limit 1", "0"),
    ];
    for (sql, answer) in asked {
        assert_eq!(one(&db, sql), answer, "{sql}");
    }
}

#[test]
fn the_column_is_no_other_one_and_has_no_other_name() {
    let (_pair, db) = with_tables();
    for sql in [
        "select y.row_checksum from (select * from t) y",
        "update t set row_checksum=1",
        "select row_checksum from (values(1))",
        "create index k on t(row_checksum)",
        "insert into t(row_checksum) values(1)",
    ] {
        let said = one(&db, sql);
        assert!(said.contains("no such column") || said.contains("has no column"), "{sql}: {said}");
    }
    assert!(one(&db, "select row_checksum from t,w").contains("ambiguous"));
    let columns = db.prepare("select a,row_checksum from t").unwrap();
    assert!(columns.column_names().eq(["a", "row_checksum"]));
    drop(columns);
    db.execute_batch("update t set b=b where row_checksum is null; alter table t rename to r")
        .unwrap();
    assert_eq!(one(&db, "select count(s) from x"), "4");
    db.execute_batch(
        "alter table r rename column a to z; create table p(id integer primary key);
        insert into p values(5); create view y as select row_checksum from p;
        alter table p rename column id to number",
    )
    .unwrap();
    assert_eq!(one(&db, "select length(row_checksum) from y"), "21");
    assert_eq!(
        one(&db, "select sql from sqlite_schema where name='y'"),
        "'CREATE VIEW y as select row_checksum from p'"
    );
    let said = one(&Pair::new().open("sqlite"), "select row_checksum from sqlite_schema");
    assert!(said.contains("no such column"));
}

#[test]
fn a_copy_keeps_what_its_source_says() {
    const CONTENT: &str =
        "create table t(a,b); create index i on t(b); create table w(k primary key)
        without rowid; insert into t values(1,2),(3,4); insert into w values('x');";
    let pair = Pair::new();
    let db = store(&pair, "sha3");
    db.execute_batch(CONTENT).unwrap();
    let path = pair.path("copy");
    for engine in ["hedgerow", "sqlite"] {
        let path = path.with_extension(engine);
        db.execute_batch(&format!("vacuum into 'file:{}?engine={engine}'", path.display()))
            .unwrap();
        let copy = open(&path, engine);
        assert_eq!(one(&copy, "select sum(a),sum(b) from t"), "4|6");
        assert_eq!(one(&copy, "pragma integrity_check"), "'ok'");
        if engine == "sqlite" {
            assert_eq!(one(&copy, "pragma row_checksum"), "'off'");
            continue;
        }
        assert_eq!(one(&copy, "pragma row_checksum"), "'sha3'");
        assert_eq!((carrying(&copy, "t", "sha3"), carrying(&copy, "w", "sha3")), (2, 1));
    }
    // A backup onto a store: from a store it brings the setting along, from a file it does not.
    let mut copy = open(&pair.path("backup"), "hedgerow");
    copy.execute_batch("pragma row_checksum=fast; create table old(a)").unwrap();
    Backup::new(&db, &mut copy).unwrap().step(-1).unwrap();
    assert_eq!(one(&copy, "pragma row_checksum"), "'sha3'");
    assert_eq!(carrying(&copy, "t", "sha3"), 2);
    let file = pair.open("sqlite");
    file.execute_batch(CONTENT).unwrap();
    copy.execute_batch("pragma row_checksum=blake3").unwrap();
    Backup::new(&file, &mut copy).unwrap().step(-1).unwrap();
    assert_eq!(one(&copy, "pragma row_checksum"), "'blake3'");
    assert_eq!((carrying(&copy, "t", "blake3"), carrying(&copy, "w", "blake3")), (2, 1));
    assert_eq!(one(&copy, "pragma integrity_check"), "'ok'");
    // An attached store has its own.
    let attach = format!("attach '{}' as other", path.with_extension("hedgerow").display());
    copy.execute_batch(&attach).unwrap();
    assert_eq!(one(&copy, "pragma other.row_checksum"), "'sha3'");
    copy.execute_batch("insert into other.t select * from main.t").unwrap();
    assert_eq!(carrying(&copy, "other.t", "sha3"), 4);
    assert_eq!(
        one(
            &copy,
            "select count(*) from main.t y, other.t z
        where y.row_checksum<z.row_checksum"
        ),
        "8"
    );
}
