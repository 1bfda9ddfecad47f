//! The 51 probes: what SQL on another engine beneath SQLite got wrong most often. Each is a script
//! that gives on a store what it gives on a file of SQLite's.

use super::pair::{Pair, same};

/// Names and scripts. Every script begins with an empty database.
const PROBES: &[(&str, &str)] = &[
    (
        "basic",
        "create table t(a,b); insert into t values(1,'x'),(2,'y'),(NULL,x'00ff'),(2.5,'z');
      select * from t; select a,b from t where a>1 order by b desc; update t set b='w' where a=2;
      delete from t where a is null; select * from t; select typeof(a),typeof(b) from t",
    ),
    (
        "count",
        "create table t(a); select count(*) from t; insert into t values(1),(2),(3);
      select count(*),count(a),sum(a) from t; delete from t where a=2; select count(*) from t;
      delete from t; select count(*) from t",
    ),
    (
        "rollback",
        "create table t(a); insert into t values(1); begin; insert into t values(2);
      create table u(x); select count(*) from t; rollback; select * from t;
      select name from sqlite_schema; select * from u",
    ),
    (
        "statement rollback",
        "create table t(a integer primary key, b unique); begin;
      insert into t values(1,1); insert into t values(2,2),(3,1); insert into t select 4,4
      union all
      select 5,2; select * from t; commit; select * from t; pragma integrity_check",
    ),
    (
        "temp",
        "create temp table t(a); insert into t values(1),(2); create table u(a);
      insert into u select a*2 from t; select * from t,u; drop table t; select * from u",
    ),
    (
        "integrity check",
        "create table t(a,b); create index i on t(b); insert into t values(1,2),
      (3,4); pragma integrity_check; pragma quick_check; pragma integrity_check(t)",
    ),
    (
        "user_version",
        "pragma user_version=7; pragma user_version; begin; pragma user_version=8;
      rollback; pragma user_version",
    ),
    ("application_id", "pragma application_id=77; pragma application_id"),
    ("cache_size", "pragma cache_size=123; pragma cache_size"),
    (
        "synchronous",
        "pragma synchronous=1; pragma synchronous; create table t(a);
      insert into t values(1); pragma synchronous=2; insert into t values(2); select * from t",
    ),
    (
        "big blob",
        "create table t(a integer primary key, b); insert into t values(1,zeroblob(3000000)),
      (2,'x'),(3,randomblob(1000)); select a,length(b) from t; update t set b=b||'y' where a=1;
      select length(b),typeof(b) from t; select substr(b,2999990,20) from t where a=1; delete
      from t
      where a=1; select a from t; pragma integrity_check",
    ),
    (
        "drop",
        "create table t(a); create index i on t(a); insert into t values(1); drop index i;
      drop table t; create table t(b,c); select * from t; select name,rootpage>1 from
      sqlite_schema",
    ),
    (
        "reindex",
        "create table t(a,b); insert into t values(2,3),(1,4); create index i on t(a);
      reindex; reindex i; select a from t order by a; pragma integrity_check",
    ),
    (
        "alter",
        "create table t(a); insert into t values(1); alter table t add column b default 5;
      alter table t rename to u; alter table u rename column a to c; select * from u;
      alter table u drop column c; select * from u; select sql from sqlite_schema",
    ),
    (
        "cte",
        "with recursive c(x) as (values(1) union all select x+1 from c where x<1000)
      select count(*),sum(x) from c; create table t as with recursive c(x) as (values(1) union all
      select x*2 from c where x<100) select x from c; select * from t",
    ),
    (
        "order by",
        "create table t(a,b); insert into t values(3,'c'),(1,'a'),(2,'b');
      select * from t order by a; select * from t order by b desc limit 2;
      select * from t order by a limit 1 offset 1",
    ),
    (
        "scan update",
        "create table t(a integer primary key,b); insert into t values(1,1),(2,2),(3,3);
      update t set b=b*10; update t set a=a+100; select * from t; update t set a=a-1;
      select * from t",
    ),
    (
        "scan delete",
        "create table t(a,b); create index i on t(a); with recursive c(x) as (values(1)
      union all select x+1 from c where x<500) insert into t select x,x%7 from c;
      delete from t where b=3; select count(*),sum(a) from t; delete from t where a>100 and b<5;
      select count(*),sum(a) from t; pragma integrity_check",
    ),
    (
        "upsert",
        "create table t(a primary key,b); insert into t values(1,1); insert into t values(1,2)
      on conflict(a) do update set b=excluded.b+b; insert or replace into t values(1,9);
      insert or ignore into t values(1,10); select * from t",
    ),
    (
        "fts5",
        "create virtual table f using fts5(x); insert into f values('hello world'),('bye now');
      select * from f where f match 'hello'; insert into f(f) values('optimize'); delete from f
      where
      rowid=1; select * from f; insert into f(f) values('integrity-check')",
    ),
    (
        "rtree",
        "create virtual table r using rtree(id,x0,x1); insert into r values(1,0,10),(2,5,15),
      (3,20,30); select id from r where x1>=8 and x0<=12 order by id; delete from r where id=2;
      select count(*) from r",
    ),
    (
        "foreign keys",
        "pragma foreign_keys=1; create table p(a primary key); create table c(x references
      p on delete cascade); insert into p values(1),(2); insert into c values(1),(1),(2);
      insert into c values(3); delete from p where a=1; select * from c; pragma
      foreign_key_check",
    ),
    (
        "trigger",
        "create table t(a); create table log(x); create trigger tr after insert on t begin
      insert into log values(new.a); delete from t where a<new.a; end; insert into t values(5);
      insert into t values(7),(6); select * from t; select * from log",
    ),
    (
        "desc index",
        "create table t(a,b); create index i on t(a desc,b); insert into t values(1,2),(1,1),
      (3,0),(NULL,4),('x',5); select a,b from t order by a desc,b; select a from t where a>=1
      order by
      a; select a from t indexed by i where a<3",
    ),
    (
        "insert from itself",
        "create table t(a integer primary key,b); insert into t(b) values('a'),('b');
      insert into t(b) select b||a from t; insert into t(b) select b from t; select * from t",
    ),
    (
        "analyze",
        "create table t(a,b); create index i on t(a); create index j on t(b,a);
      with recursive c(x) as (values(1) union all select x+1 from c where x<300) insert into t
      select x%10,x from c; analyze; select * from sqlite_stat1 order by 1,2;
      select count(*) from sqlite_stat4; select count(*) from t where a=3 and b>100",
    ),
    (
        "schema change",
        "create table t(a); insert into t values(1); create view v as select a+1 as b from
      t; select * from v; drop view v; create index i on t(a); select * from t where a=1;
      pragma schema_version",
    ),
    (
        "between above",
        "create table t(a integer primary key,b); create index i on t(b);
      insert into t values(1,1),(2,2),(3,3),(4,4),(5,5); select * from t where a between 100
      and 200;
      select * from t where b between 100 and 200; update t set b=0 where a between 100 and 200;
      update t set b=0 where b between 100 and 200; select * from t",
    ),
    (
        "negative rowids",
        "create table t(a integer primary key); insert into t values(-5),(-1),(0),(3),
      (-9223372036854775808),(9223372036854775807); select * from t; select * from t where a
      between
      -5 and -1; select * from t where a<0 order by a desc; select max(a),min(a) from t",
    ),
    (
        "descending from a bound",
        "create table t(a integer primary key,b); create index i on t(b);
      insert into t values(1,1),(5,5),(9,9),(30,30); select a from t where a<=20 order by a desc;
      select b from t where b<=20 order by b desc; select a from t where a<9 order by a desc;
      select a from t where a<1 order by a desc; select b from t where b<0 order by b desc",
    ),
    (
        "update without rowid",
        "create table t(k primary key,v) without rowid; insert into t values('k',1),
      ('l',2); update t set v=5 where k='k'; select * from t; update t set k='m' where k='l';
      update t set v=v+1; select * from t; insert or replace into t values('k',100);
      select * from t; delete from t where k='m'; select * from t",
    ),
    (
        "savepoints",
        "create table t(a); savepoint one; insert into t values(1); savepoint two;
      insert into t values(2); rollback to two; insert into t values(3); release two;
      select * from t; rollback to one; select count(*) from t; insert into t values(4);
      release one;
      select * from t; begin; savepoint x; insert into t values(5); savepoint y; delete from t;
      rollback to x; select * from t; commit; select * from t",
    ),
    (
        "long index keys",
        "create table t(a,b); create index i on t(a); insert into t values(
      replace(hex(zeroblob(300)),'0','x'),1),(replace(hex(zeroblob(4000)),'0','y'),2),
      (replace(hex(zeroblob(100000)),'0','z'),3),('short',4); select b,length(a) from t order by a;
      select b from t where a=replace(hex(zeroblob(4000)),'0','y'); update t set a=a||'!';
      delete from t where b=3; select b,length(a) from t order by a desc; pragma integrity_check",
    ),
    (
        "long rows without rowid",
        "create table t(k primary key,v) without rowid;
      insert into t values(1,zeroblob(3000)),(2,zeroblob(100000)),(3,zeroblob(2000000));
      select k,length(v) from t; update t set v=v||'x' where k>1; select k,length(v) from t;
      delete from t where k=2; select k from t order by k desc; pragma integrity_check",
    ),
    (
        "vacuum",
        "create table t(a); with recursive c(x) as (values(1) union all select x+1 from c where
      x<2000) insert into t select x from c; delete from t where a>10; vacuum; select * from t;
      pragma integrity_check; begin; vacuum; rollback",
    ),
    (
        "window",
        "create table t(a); insert into t values(1),(2),(3); select sum(a) over (order by a) from
      t; select a,lag(a) over (order by a desc),rank() over (order by a) from t;
      select sum(a) over (rows between 1 preceding and 1 following) from t",
    ),
    ("page_size", "pragma page_size; create table t(a); pragma page_size"),
    (
        "wal",
        "pragma journal_mode=wal; create table t(a); pragma journal_mode; insert into t values(1);
      select * from t",
    ),
    ("auto_vacuum", "pragma auto_vacuum=1; create table t(a); pragma auto_vacuum"),
    ("mmap_size", "pragma mmap_size=1000000; pragma mmap_size"),
    (
        "secure_delete",
        "pragma secure_delete=1; pragma secure_delete; create table t(a);
      insert into t values(1); delete from t; select * from t",
    ),
    (
        "locking_mode",
        "pragma locking_mode; pragma locking_mode=exclusive; create table t(a);
      insert into t values(1); pragma locking_mode; pragma locking_mode=normal; select * from t",
    ),
    (
        "incremental_vacuum",
        "pragma auto_vacuum=2; create table t(a); insert into t
      values(zeroblob(100000)); pragma incremental_vacuum; pragma auto_vacuum; delete from t;
      select count(*) from t",
    ),
    (
        "nulls",
        "create table t(a,b); create unique index i on t(a,b); insert into t values(NULL,1),
      (NULL,1),(1,NULL),(1,NULL); select count(*) from t where a is null; select * from t order
      by a
      nulls last,b; select max(a),min(b) from t; insert into t values(2,2),(2,2)",
    ),
    (
        "collations",
        "create table t(a collate nocase,b collate rtrim); create unique index i on t(a);
      create index j on t(b); insert into t values('Abc','x  '),('aBD','x'),('B','y '); insert
      into t
      values('ABC',1); select a from t where a='abc'; select a from t where b='x' order by a;
      update t set a='abC' where a='ABC'; select a from t order by a; pragma integrity_check",
    ),
    (
        "generated columns",
        "create table t(a,b as (a*2) stored,c as (a+1)); create index i on t(c);
      insert into t(a) values(1),(2),(3); select * from t where c>2; update t set a=10 where a=2;
      select * from t; pragma integrity_check",
    ),
    (
        "autoincrement",
        "create table t(a integer primary key autoincrement,b); insert into t(b) values(1),
      (2); delete from t; insert into t(b) values(3); select * from t; select * from
      sqlite_sequence",
    ),
    (
        "partial and expression indexes",
        "create table t(a,b); create index i on t(b) where a>5;
      create index j on t(a+b); with recursive c(x) as (values(1) union all select x+1 from c where
      x<50) insert into t select x%11,x from c; select count(*) from t where a>5 and b<30;
      select a,b from t where a+b=20; delete from t where a+b>40; pragma integrity_check",
    ),
    (
        "or and in",
        "create table t(a integer primary key,b,c); create index i on t(b); create index j on
      t(c); with recursive x(n) as (values(1) union all select n+1 from x where n<200) insert
      into t
      select n,n%13,n%17 from x; select count(*) from t where b=3 or c=4; select a from t where
      b in
      (1,5,99) and c=2; select count(distinct b) from t; select b,count(*) from t group by b",
    ),
    (
        "returning",
        "create table t(a integer primary key,b); insert into t(b) values(7),(8) returning a,b;
      update t set b=b+1 returning b; delete from t where a=1 returning *; select * from t",
    ),
    (
        "dbstat and encoding",
        "pragma encoding; pragma encoding='UTF-16le'; create table t(a);
      insert into t values('grüße'); pragma encoding; select a,length(a),hex(a) from t;
      select count(*)>0 from sqlite_schema; pragma table_info(t)",
    ),
];

#[test]
fn the_probes_give_what_they_give_on_sqlite() {
    assert!(PROBES.len() >= 51, "{}", PROBES.len());
    let mut failures = Vec::new();
    for (name, sql) in PROBES {
        let outcome = std::panic::catch_unwind(|| same(&Pair::new().both(), sql));
        if outcome.is_err() {
            failures.push(*name);
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn an_attached_store_and_an_attached_file_take_part_in_a_transaction() {
    let pair = Pair::new();
    let both = pair.both();
    for (db, other) in both.iter().zip(["hedgerow", "sqlite"]) {
        let path = pair.path(&format!("attached-{other}.db"));
        let sql = format!("attach 'file:{}?engine={other}' as two", path.display());
        db.execute_batch(&sql).unwrap();
    }
    same(
        &both,
        "create table t(a); create table two.u(b); begin; insert into t values(1),(2); insert
        into u
         select a*10 from t; select * from t,u order by 1,2; commit; begin; delete from t;
         delete from
         u; rollback; select count(*) from t,u; insert into two.u values(5); select sum(b) from u;
         pragma two.integrity_check; detach two; select * from t",
    );
}
