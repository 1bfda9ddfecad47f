//! Updates of indexed columns: an entry that an index loses stays until the one comes that takes
//! its place, where nothing can look at the index in between.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::pair::{ENGINES, Pair, same};

/// A table with indexes of all kinds, one without a rowid, and one that refers to the first.
const SCHEMA: &str = "
    create table t(a integer primary key, b, c text, d integer, e);
    create index tb on t(b); create index tc on t(c desc, b); create unique index td on t(d);
    create index te on t(e) where e>20; create index tx on t(b+e);
    create table w(k text primary key, b, c collate nocase) without rowid;
    create index wb on w(b); create index wc on w(c, b);
    insert into t with recursive x(i) as (values(1) union all select i+1 from x where i<900)
      select i, i*7919%301, case i%4 when 0 then null else 'text '||(i%70) end, i*3, i%60 from x;
    insert into w select 'key '||(a*37%1009), b, c from t;";

const LOOK: &str = "
    pragma integrity_check;
    select count(*), sum(a), sum(b), sum(d), sum(e), sum(length(c)) from t;
    select a, b from t order by b, a; select a, c, b from t order by c desc, b, a;
    select a, d from t order by d; select a from t where e>20 order by e, a;
    select k, b from w order by b, k; select k, c from w order by c, b, k;
    select count(*) from t where b between 100 and 200";

/// Statements, each in a transaction of its own and inside of one that is rolled back.
const STATEMENTS: &[&str] = &[
    "update t set b=b",
    "update t set b=b+1",
    "update t set b=b-2 where b>50",
    "update t set b=b*7919%1013",
    "update t set b=b||'' where a%3=0",
    "update t set b=null where a%7=0",
    "update t set b=b*1.5 where typeof(b)='integer' and a%2",
    "update t set b=zeroblob(a%3*900) where a%90=1",
    "update t set b=300000000000*a where a%5=1",
    "update t set c=c, b=b",
    "update t set c=c||'!' where a between 100 and 300",
    "update t set c=substr(c,1,5)",
    "update t set d=d",
    "update t set d=d+1",
    "update t set d=-d",
    "update t set d=d+3",
    "update or ignore t set d=d+3, b=b+1 where a<100",
    "update or replace t set d=d+3, b=b+1 where a<100",
    "update or fail t set d=d+3, b=b+1 where a>100",
    "update or rollback t set d=d+3, b=b+1",
    "update t set e=e+1",
    "update t set e=e+30, b=b-30 where a%2=0",
    "update t set a=a+5000, b=b+1 where a%11=0",
    "update t set a=-a where b<50",
    "update t set b=(select count(*) from t u where u.b<t.b) where a<40",
    "update t set b=b+1 where b in (select b from t where a<20) returning a, b",
    "update t indexed by tb set b=b+1 where b>=10 and b<20",
    "update t set b=u.b from w u where u.k='key '||t.a",
    "insert into t(a,b,d) values(7,8,9),(5000,1,5000) on conflict do update set b=b+1, c='new'",
    "update w set b=b",
    "update w set b=b+1, c=c",
    "update w set c=upper(c)",
    "update w set k=k||'x' where b<20",
    "update w set b=b*7919%1013, c=c||b",
];

fn all_statements(both: &[Connection; 2]) {
    for sql in STATEMENTS {
        same(both, &format!("begin; {sql}; {sql}"));
        same(both, LOOK);
        same(both, "rollback");
        same(both, &format!("savepoint s; {sql}; savepoint r; {sql}; rollback to r; {sql}"));
        same(both, &format!("release s; {LOOK}"));
    }
}

#[test]
fn updates_of_indexes_are_those_of_sqlite() {
    let pair = Pair::new();
    let both = pair.both();
    same(&both, SCHEMA);
    all_statements(&both);
}

#[test]
fn triggers_and_foreign_keys_see_the_index_between_its_changes() {
    let pair = Pair::new();
    let both = pair.both();
    let also = "pragma foreign_keys=1; pragma recursive_triggers=1;
        create table log(what, n);
        create trigger before_t before update on t begin
          insert into log select 'before', count(*) from t where b between new.b and new.b+5; end;
        create trigger after_t after update of b on t when new.a%50=0 begin
          insert into log select 'after', count(*) from t where b between old.b and old.b+5;
          update w set b=b+1 where b=old.b; end;
        create table r(x integer primary key, d references t(d) on update cascade, y);
        create index rd on r(d); insert into r select a, d, b from t where a%10=0;
        create table s(x, d references t(d)); create index sd on s(d);
        insert into s select a, d from t where a%100=0;
        create table self(id integer primary key, up integer references self(id) on update cascade);
        create index self_up on self(up); insert into self select a, (a+1)/2 from t where a<200;";
    same(&both, &format!("{SCHEMA}{also}"));
    all_statements(&both);
    for sql in [
        "update self set up=id",
        "update self set id=id+1000",
        "update s set d=d+1",
        "update s set d=3",
        "update r set d=d, y=y+1",
        "update r set d=999999",
        "delete from s; update t set d=d+7000",
    ] {
        same(&both, sql);
        same(
            &both,
            "pragma integrity_check; select * from r order by d, x; select * from self
                     order by up, id; select * from s order by d, x; select * from log",
        );
    }
}

/// How many cursors of a statement are told that what is taken out is replaced.
fn told(db: &Connection, sql: &str) -> usize {
    let mut statement = db.prepare(&format!("explain {sql}")).unwrap();
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, String>(1)?, row.get::<_, i64>(2)?, row.get::<_, i64>(6)?))
    });
    let all = rows.unwrap().map(Result::unwrap);
    let told = all.filter(|(opcode, _, hints)| opcode == "OpenWrite" && hints & 1 != 0);
    // Some are opened twice.
    told.map(|(_, cursor, _)| cursor).collect::<BTreeSet<_>>().len()
}

#[test]
fn only_cursors_of_stores_whose_entries_are_replaced_are_told() {
    let pair = Pair::new();
    for engine in ENGINES {
        let db = pair.open(engine);
        db.execute_batch(SCHEMA).unwrap();
        let is_store = engine == "hedgerow";
        let count = |sql: &str| told(&db, sql);
        assert_eq!(count("update t set c='x' where a=1"), usize::from(is_store));
        assert_eq!(count("update w set b=1, c=2"), 2 * usize::from(is_store));
        assert_eq!(count("delete from t where a=5"), 0);
        // Other entries are taken out, too; or conditions stand in between.
        assert_eq!(count("update or replace t set d=5"), 0);
        assert_eq!(count("update t set e=5"), 0);
        db.execute_batch("create table parent(x primary key); pragma foreign_keys=1").unwrap();
        db.execute_batch("create table child(x references parent); create index cx on child(x)")
            .unwrap();
        assert_eq!(count("update child set x=1"), 0);
    }
}
