//! Long values of which only parts are read.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, Error, ErrorCode, MAIN_DB, params_from_iter};

use super::fuzz::Random;
use super::pair::{Pair, same, transcript};

/// A value of any kind, often a long one.
fn value(random: &mut Random) -> Value {
    let len = match random.below(8) {
        0 => return Value::Null,
        1 => return Value::Integer(random.below(1 << 40) as i64 - 1000),
        2 => return Value::Real(random.below(1000) as f64 / 4.0),
        3 => random.below(200),
        // Around what is read at once, and what SQLite keeps.
        4 => random.between(3900, 4200),
        5 => random.between(32_000, 33_500),
        6 => random.between(4000, 50_000),
        _ => random.between(60_000, 300_000),
    };
    let seed = random.below(1000);
    let bytes = (0..len).map(|i| b'a' + ((i * i / 7 + i / 4096 * 5 + seed) % 26) as u8).collect();
    if random.below(2) == 0 {
        return Value::Blob(bytes);
    }
    Value::Text(String::from_utf8(bytes).unwrap())
}

/// What is asked of a column.
fn part(random: &mut Random, column: &str) -> String {
    match random.below(8) {
        0 => column.to_owned(),
        1 => format!("length({column})"),
        2 => format!("typeof({column})"),
        3 => format!("octet_length({column})"),
        4 => format!("substr({column},{},40)", random.below(70_000)),
        5 => format!("substr({column},-40)"),
        6 => format!("{column} is null"),
        _ => format!("substr({column},1,20)||substr({column},-20)"),
    }
}

const COLUMNS: [&str; 8] = ["id", "a", "b", "c", "d", "e", "f", "g"];

fn parts(random: &mut Random, table: &str) -> String {
    let count = random.between(1, 5);
    let all: Vec<_> = (0..count)
        .map(|_| {
            let column = random.pick(&COLUMNS);
            part(random, &format!("{table}.{column}"))
        })
        .collect();
    all.join(",")
}

fn question(random: &mut Random) -> String {
    let (one, two) = (random.pick(&COLUMNS), random.pick(&COLUMNS));
    let some = parts(random, "t");
    match random.below(7) {
        0 => format!("select {some} from t order by id"),
        1 => format!("select {some} from t order by {one},id desc"),
        2 => format!("select count(distinct {one}),max({two}),min({one}) from t"),
        3 => format!(
            "select group_concat(coalesce(substr({one},2,9),'-')||coalesce(substr({two},-3),'+'))
             from t"
        ),
        4 => format!("select count(*) from t join t y on t.{one}=y.{two}"),
        5 => format!(
            "select {some},(select {} from t y where y.id=t.id+1) from t where t.{one}>='e'
             order by t.id",
            part(random, &format!("y.{two}"))
        ),
        _ => format!("select {some} from t where id={}", random.below(12)),
    }
}

fn change(random: &mut Random) -> String {
    let (one, two) = (random.pick(&COLUMNS[1..]), random.pick(&COLUMNS[1..]));
    let rows = format!("id%{}=0", random.between(1, 4));
    match random.below(9) {
        0 => format!("update t set {one}={two} where {rows}"),
        1 => format!("update t set {one}={two},{two}={one} where {rows}"),
        2 => format!("update t set {one}=substr({two},{}) where {rows}", random.below(40_000)),
        3 => format!(
            "update t set {one}=(select {two} from t y where y.id=t.id-1) where {rows}
             returning id,length({one}),substr({one},-9)"
        ),
        4 => "insert or replace into t select id+1,b,a,d,c,f,e,g from t where id%5=1".into(),
        5 => format!("delete from t where id={}", random.below(12)),
        6 => format!(
            "insert into u select {one},{two} from t where {rows}; select count(distinct a),
             count(distinct b),sum(length(a)) from u; delete from u"
        ),
        7 => "update t set g=coalesce(g,1) where id in (select id from t where length(b)>9)".into(),
        _ => random.pick(&["begin", "commit", "rollback", "savepoint s", "rollback to s"]).into(),
    }
}

/// Rows with several long columns and short ones between them, which are asked for in any order, in
/// transactions that write and outside.
#[test]
fn parts_of_random_rows_are_as_in_a_file_of_sqlite() {
    for seed in 0..6 {
        let mut random = Random(seed);
        let pair = Pair::new();
        let both = pair.both();
        let schema = "create table t(id integer primary key,a,b,c,d,e,f,g); create table u(a,b);
            create temp trigger r after update of c on t when new.id%3=0 begin
              update t set g=substr(new.c,3,5)||substr(old.c,-5)||length(b) where id=new.id; end";
        same(&both, schema);
        for _ in 0..150 {
            if random.below(3) == 0 {
                let id = random.below(12) as i64;
                let row: Vec<_> = std::iter::once(Value::Integer(id))
                    .chain((0..7).map(|_| value(&mut random)))
                    .collect();
                for db in &both {
                    let put = "insert or replace into t values(?,?,?,?,?,?,?,?)";
                    db.execute(put, params_from_iter(&row)).unwrap();
                }
            }
            let sql =
                if random.below(3) == 0 { change(&mut random) } else { question(&mut random) };
            let [stock, ours] = both.each_ref().map(|db| transcript(db, &sql));
            assert!(ours == stock, "seed {seed}: {sql}");
        }
        for db in &both {
            let _ = db.execute_batch("commit");
        }
        same(&both, "pragma integrity_check; select count(*) from t");
    }
}

/// Damages all pages of a file that hold nothing but one byte again and again.
fn damage(path: &Path, byte: u8) -> usize {
    let mut file = std::fs::read(path).unwrap();
    let pages = file.chunks_mut(4096).filter(|page| page.iter().all(|b| *b == byte));
    let count = pages.map(|page| page[2000] ^= 1).count();
    std::fs::write(path, file).unwrap();
    count
}

/// Whether a statement says that the store is damaged.
fn fails(db: &Connection, sql: &str) -> bool {
    let failed = match db.prepare(sql) {
        Ok(mut statement) => statement.query([]).and_then(|mut rows| {
            while rows.next()?.is_some() {}
            Ok(())
        }),
        Err(error) => Err(error),
    };
    match failed {
        Ok(()) => false,
        Err(Error::SqliteFailure(error, _)) if error.code == ErrorCode::DatabaseCorrupt => true,
        Err(other) => panic!("{sql}: {other}"),
    }
}

/// Of a long value all pages are damaged but the first one and the last ones: what reads only these
/// has its answer, and what reads any other page is told that it is damaged.
#[test]
fn what_is_not_asked_for_of_a_long_value_is_not_read() {
    let pair = Pair::new();
    let db = pair.open("hedgerow");
    db.execute_batch(
        "pragma row_checksum=off; create table t(id integer primary key,a,b,c);
         insert into t select value,'first',replace(hex(zeroblob(500000)),'0','#'),'last'
           from json_each('[1,2,3]');
         update t set b=cast(b as blob) where id=2; insert into t values(4,'short','x','y')",
    )
    .unwrap();
    drop(db);
    let path = pair.path("hedgerow.db");
    assert!(damage(&path, b'#') >= 3 * 240);
    let db = pair.open("hedgerow");
    let light = [
        "select id,a,c from t",
        "select typeof(b),length(cast(a as blob)),octet_length(b) from t",
        "select sum(length(b)) from t where id=2",
        "select c from t where id=3",
        "select a from t order by id desc",
        "select max(a),min(c) from t where id>1",
        "select hedgerow_nth('t',0),hedgerow_nth('t',2)",
    ];
    let heavy = [
        "select b from t where id=1",
        "select length(b) from t where id=1",
        "select max(b) from t",
        "select substr(b,5,1) from t",
        "select * from t order by id desc",
        "update t set a='other' where id=2",
        "create table u as select * from t",
        "create index i on t(b)",
    ];
    for begin in ["begin", "begin immediate", "begin; insert into t values(5,1,2,3)"] {
        db.execute_batch(begin).unwrap();
        for sql in light {
            assert!(!fails(&db, sql), "{sql}");
        }
        for sql in heavy {
            assert!(fails(&db, sql), "{sql}");
        }
        for sql in light {
            assert!(!fails(&db, sql), "{sql}");
        }
        let mut blob = db.blob_open(MAIN_DB, "t", "b", 2, true).unwrap();
        let mut part = [0; 100];
        for (from, is_right) in [(3, true), (500_000, false), (999_900, true), (4000, false)] {
            blob.seek(SeekFrom::Start(from)).unwrap();
            assert_eq!(blob.read_exact(&mut part).is_ok_and(|()| part == [b'#'; 100]), is_right);
        }
        // It says what has failed before.
        assert!(blob.close().is_err());
        db.execute_batch("rollback").unwrap();
    }
    let said = transcript(&db, "pragma integrity_check");
    assert!(said[0].contains("the checksum of a page of a long value is wrong"), "{said:?}");
    assert!(said[0].contains("Tree 2: some of its entries cannot be read"), "{said:?}");
    db.execute_batch("delete from t where id in (1,2)").unwrap();
    assert!(fails(&db, "select b from t") && !fails(&db, "select b from t where id=4"));
    db.execute_batch("delete from t where id=3").unwrap();
    assert_eq!(transcript(&db, "pragma integrity_check")[0], "'ok'");
}

/// Rows that a transaction has written: SQLite keeps a long column that it has read, and has to be
/// told when another row, or the same one with other bytes, has taken its place.
#[test]
fn long_columns_of_rows_that_a_transaction_has_written_are_told_apart() {
    let pair = Pair::new();
    let both = pair.both();
    let ask = "
        select group_concat(substr(b,1,1)) from t;
        select group_concat(substr(a,1,1)||substr(b,-1)||substr(c,1,1)) from t;
        select max(b)=(select b from t where id=4),min(c)=(select c from t where id=1) from t;
        select count(distinct b),count(distinct c) from t;
        select count(*) from t x join t y on x.b=y.b;
        select sum((select substr(y.b,1,1)=char(96+x.id) from t y where y.id=x.id)) from t x;";
    same(
        &both,
        "create table t(id integer primary key,a,b,c); create table v(b); begin;
         insert into t with recursive n(i) as (values(1) union all select i+1 from n where i<4)
           select i,'x',replace(hex(zeroblob(50000)),'0',char(96+i)),
             cast(replace(hex(zeroblob(25000)),'0',char(64+i)) as blob) from n",
    );
    same(&both, ask);
    same(
        &both,
        "insert into v select b from t; select group_concat(substr(b,1,1)) from v;
         update t set a=b; select group_concat(substr(a,1,1)) from t;
         update t set b=replace(b,'b','y') where id=2;
         update t set a=c,c=b where (select count(distinct substr(b,1,1)) from t)=4;
         create temp trigger r after update on t begin
           insert into v select old.b||new.b||(select b from t where id=new.id); end;
         update t set b=b||'!'; select rowid,length(b),substr(b,100000,3),substr(b,-2) from v",
    );
    same(&both, ask);
    same(&both, "commit");
    same(&both, ask);
    same(&both, "select group_concat(substr(b,1,1)) from v; pragma integrity_check");
}
