//! Rows that are appended, a statement each: where an index ends is known without a search, until
//! something else changes the index.

use super::pair::{Pair, same};

const SCHEMA: &str = "
    create table w(a integer, b text, c, primary key(a, b)) without rowid;
    create table d(k text collate nocase, v, primary key(k desc)) without rowid;
    create table u(a integer primary key, b unique, c); create index uc on u(c, b);";

const LOOK: &str = "
    select count(*), sum(a), max(a), min(a), sum(length(b)) from w;
    select * from w order by a desc, b desc limit 7;
    select count(*), max(a), max(b), sum(c) from u; select b, a from u order by b desc limit 5;
    select c, b from u order by c desc, b desc limit 5;
    select k, v from d order by k limit 5; select count(*), sum(v) from d";

/// Statement number `n` of a kind.
fn statement(kind: u64, n: u64) -> String {
    match kind {
        0..12 => format!("insert into w values({n},'row',{n})"),
        12..15 => format!("insert into w values({},'x{n}',0)", n / 3),
        15 => "delete from w where a=(select max(a) from w)".into(),
        16 => "insert into w select max(a), 'again', 1 from w".into(),
        17 => format!("insert or replace into w values({n},'row',1)"),
        18 => format!(
            "savepoint s; insert into w values({n},'gone',1); insert into w values({n}+1,'gone',1);
             rollback to s; insert into w values({n},'stays',1); release s"
        ),
        19 => format!("insert or ignore into w values({},'row',2)", n - 1),
        20 => format!(
            "insert into w with recursive x(i) as
               (values({n}) union all select i+1 from x where i<{n}+30) select i,'many',i from x"
        ),
        21 => "update w set a=a+1 where a=(select max(a) from w)".into(),
        22 if n.is_multiple_of(7) => "delete from w where a%5=1".into(),
        23 if n.is_multiple_of(11) => "delete from w".into(),
        24 => format!("insert into w values({n},'row',1),({n},'row',2)"),
        25 => format!("insert into w values(999999,'end',{n}); delete from w where a=999999"),
        26 => "select a, b, c from w where a>=(select max(a)-2 from w) order by a desc, b".into(),
        27 => format!("insert into w values({n},'y',1) on conflict do update set c=c+1"),
        28..36 => format!("insert into u values({n},{n},{n}%7)"),
        36 => "insert into u(b, c) select max(b)+1, 1 from u".into(),
        37 => format!("insert or replace into u values({n}+1,{n},3)"),
        38 => "delete from u where b=(select max(b) from u)".into(),
        39 => format!("insert into u values({n},null,{n}),({n}+1,null,{n})"),
        40..48 => format!("insert into d values('K{:08}',{n})", 99_999_999 - n),
        48 => "delete from d where k=(select min(k) from d)".into(),
        49 => format!("insert into d values('k{:08}',{n})", 99_999_998 - n),
        _ => "select 1".into(),
    }
}

#[test]
fn rows_are_appended_as_on_files_of_sqlite() {
    let pair = Pair::new();
    let both = pair.both();
    same(&both, SCHEMA);
    let mut seed = 1_u64;
    let mut below = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    let mut n = 10;
    for _ in 0..60 {
        same(&both, "begin");
        for at in 0..60 {
            n += below(3);
            same(&both, &statement(below(51), n));
            if at % 20 == 7 {
                same(&both, LOOK);
            }
        }
        same(&both, if below(4) == 0 { "rollback" } else { "commit" });
        same(&both, LOOK);
    }
    same(&both, "pragma integrity_check");
}
