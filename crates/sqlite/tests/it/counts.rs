//! Counts of ranges and offsets, which a store answers by its counters: the answers are those of a
//! walk, and every kind of loop that only looks like one of these is walked.

use rusqlite::Connection;

use super::pair::{Pair, same};

/// A table of values of all kinds, with indexes of all kinds, and one without a rowid.
const SCHEMA: &str = "
    create table t(a integer primary key, b, c text collate nocase, d real, e);
    create index tb on t(b); create index tc on t(c desc); create index td on t(d, b desc);
    create index te on t(e) where e>10; create index tx on t(b+1);
    create unique index tu on t(a, c);
    create table r(a integer primary key, e);
    create table w(k, b integer, c collate rtrim, primary key(k, b desc)) without rowid;
    create index wc on w(c, b);
    insert into t with recursive x(i) as (values(1) union all select i+1 from x where i<1200)
      select i*5-4000, case i%11 when 0 then null when 1 then 'text'||i when 2 then x'00ff'||i
             when 3 then i/2.0 else i*7919%1009 end,
             case i%5 when 0 then 'Abc'||(i%40) when 1 then 'aBC'||(i%40) when 2 then null
             else 'z'||i end, i*1.5, i%60 from x;
    insert into r select a, e from t;
    insert into w select b, a, c||'  ' from t where b is not null;
    insert or ignore into w select -a, a, null from t;";

/// Bounds that a column may be compared with.
const BOUNDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "500",
    "500.5",
    "-500.25",
    "'abc7'",
    "'ABC7'",
    "'z2'",
    "'z2 '",
    "'7'",
    "'500'",
    "' 600 '",
    "'-300.5'",
    "'1e2'",
    "'500abc'",
    "''",
    "null",
    "x'00'",
    "9223372036854775807",
    "-9223372036854775808",
    "1e300",
    "-1e300",
    "3.0",
    "9.3e18",
    "-9.3e18",
    "1e999",
    "2000",
    "-2000",
];

const PLACES: &[(&str, &str)] = &[
    ("t", "a"),
    ("t", "rowid"),
    ("r", "a"),
    ("t", "b"),
    ("t", "c"),
    ("t", "d"),
    ("t", "b+1"),
    ("t", "+b"),
    ("t", "e>10 and e"),
    ("t", "d=300 and b"),
    ("w", "k"),
    ("w", "c"),
    ("w", "k=500 and b"),
];

fn counts(both: &[Connection; 2]) {
    for (table, place) in PLACES {
        for one in BOUNDS {
            for op in ["=", "<", "<=", ">", ">=", "is", "<>"] {
                same(both, &format!("select count(*) from {table} where {place} {op} {one}"));
            }
        }
        for pair in BOUNDS.windows(2).chain([&["0", "500"][..], &["500", "0"], &["-1", "1e300"]]) {
            let (low, high) = (pair[0], pair[1]);
            for filter in [
                format!("{place} between {low} and {high}"),
                format!("{place}>{low} and {place}<{high}"),
                format!("{place}>={high} and {place}<{low}"),
                format!("{place} in ({low},{high},'z2',5)"),
                format!("{place} between {low} and {high} and e<>3"),
            ] {
                if filter.contains("e<>3") && *table == "w" {
                    continue;
                }
                same(both, &format!("select count(*) from {table} where {filter}"));
                same(
                    both,
                    &format!(
                        "select count(distinct 1), count({place}) from {table} where {filter}"
                    ),
                );
            }
        }
    }
}

#[test]
fn counts_of_ranges_are_those_of_a_walk() {
    for encoding in ["UTF-8", "UTF-16le"] {
        let pair = Pair::new();
        let both = pair.both();
        same(&both, &format!("pragma encoding='{encoding}'; {SCHEMA}"));
        counts(&both);
    }
}

#[test]
fn counts_see_what_is_not_committed() {
    let pair = Pair::new();
    let both = pair.both();
    same(&both, SCHEMA);
    let count = "select count(*) from t where b between 100 and 600;
                 select count(*) from t where a>=-100 and a<900;
                 select count(*) from w where k>300";
    let mut seen = vec![same(&both, count)];
    for sql in [
        "begin; delete from t where b between 200 and 210",
        "savepoint s; delete from t where a%3=0; delete from w where b%2=0",
        "rollback to s",
        "insert into t(b,c) select b,c from t where b<400",
        "rollback",
    ] {
        same(&both, sql);
        seen.push(same(&both, count));
    }
    assert_ne!(seen[0][0], seen[1][0]);
    assert_eq!(seen[0][0], seen[5][0]);
}

/// Statements in which a count or an offset is a part of something else.
const PARTS: &[&str] = &[
    "select (select count(*) from t where b between o.b and o.b+50) from w o order by k,b limit 40",
    "select count(*) from w o join t on t.b between o.b and o.b+1",
    "select count(*) from w o left join t on t.b=o.b and t.a>0",
    "select count(*) from w o left join t on t.b between o.b and o.b+9",
    "select count(*) filter (where b>300) from t where b>200",
    "select count(*), count(*) from t where b>200",
    "select count(*), a from t where b>200",
    "select count(*)+1 from t where b>200 having count(*)>1",
    "select count(*) from t where b>200 or c>'k'",
    "select count(*) from t where b>200 and exists (select 1 from w where w.b=t.a)",
    "select b, count(*) from t where b>200 group by b order by b limit 20",
    "select count(*) from (select b from t where b>200 limit 50 offset 20)",
    "select count(*) from (select distinct b from t where b>200)",
    "select count(*) from (select b from t where b>900 union all select b from w where k>900)",
    "select count(*) over () from t where b>990 order by a limit 3",
    "select total from (select count(*) total from t where b>:x and b<900)",
    "select count(*) from t where a>(select min(a) from t) and a<=5",
    "select count(*) from t indexed by tb where b>100 and b<=100.5",
    "select count(*) from t where a in (select b from w) and b>5",
    "select count(*) from t where (d,b)>(300,5)",
    "select count(*) from t where c like 'abc1%'",
    "select count(*) from t where c glob 'z1*'",
    "select count(*) from t not indexed where b between 3 and 500",
    "select count(*) from t where b between 3 and 500 limit 1 offset 0",
    "with recursive n(i) as (values(0) union all select i+100 from n where i<1000)
     select i, (select count(*) from t where b>=i and b<i+100) from n",
    "select exists(select 1 from t where b>5000), not exists(select 1 from t where a<0)",
];

/// Walks of which rows are left out: `{n}` stands for how many.
const WALKS: &[&str] = &[
    "select a from t order by a limit 5 offset {n}",
    "select a, b from t order by a desc limit 5 offset {n}",
    "select a, b, c from t order by b limit 5 offset {n}",
    "select a, b, c from t order by b desc limit 5 offset {n}",
    "select a, c from t order by c limit 5 offset {n}",
    "select a, c from t where c>'b' order by c desc limit 5 offset {n}",
    "select a from t where a between -1000 and 1000 limit 5 offset {n}",
    "select a from t where a between -1000 and 1000 order by a desc limit 5 offset {n}",
    "select a, b from t where b>100 and b<=400 order by b limit 5 offset {n}",
    "select a, b from t where b>100 and b<=400 order by b desc limit 5 offset {n}",
    "select b from t where b>=100 and b<400 order by b desc limit 5 offset {n}",
    "select b from t where b>100 and e<30 order by b limit 5 offset {n}",
    "select distinct b from t order by b limit 5 offset {n}",
    "select k, b from w limit 5 offset {n}",
    "select k, b from w order by k desc, b limit 5 offset {n}",
    "select c from w where c>='a' order by c limit 5 offset {n}",
    "select a from t where a>3500 union all select k from w where k>900 limit 5 offset {n}",
    "select a from t where a>3500 union select k from w where k>900 limit 5 offset {n}",
    "select t.a, w.k from w, t where w.k>1000 and t.b>900 limit 5 offset {n}",
    "select t.a, w.k from w left join t on t.b=w.k where w.k>1000 limit 5 offset {n}",
    "select a from (select a from t order by a limit 900 offset {n}) order by a desc limit 3 offset 7",
    "select a from t where b in (5,7,9,11) order by b limit 5 offset {n}",
    "select a from t limit -1 offset {n}+1190",
    "select (select a from t order by a limit 1 offset {n}+o.rowid%7) from t o limit 9",
    "select max(a) from (select a from t limit 10 offset {n})",
];

#[test]
fn counts_and_offsets_within_other_statements() {
    let pair = Pair::new();
    let both = pair.both();
    same(&both, SCHEMA);
    for analyzed in [false, true] {
        if analyzed {
            same(&both, "analyze");
        }
        for sql in PARTS {
            same(&both, sql);
        }
        for walk in WALKS {
            for n in ["0", "1", "4", "5", "6", "50", "299", "999", "1199", "100000", "-3"] {
                same(&both, &walk.replace("{n}", n));
            }
        }
    }
    same(
        &both,
        "create table log(n); create trigger tr after delete on w begin
         insert into log select count(*) from t where b>=old.b;
         insert into log select a from t order by a limit 1 offset 100;
         delete from t where a=(select a from t order by b limit 1 offset 9); end;
         delete from w where k between 100 and 200; select * from log;
         insert into t(b) select b from t order by b limit 50 offset 700;
         update t set b=b+1 where a in (select a from t order by b desc limit 9 offset 30);
         delete from t where rowid in (select rowid from t limit 10 offset 55);
         select count(*), sum(b), sum(a) from t; pragma integrity_check",
    );
}

/// Whether the program of a statement has a call.
fn calls(db: &Connection, sql: &str, function: &str) -> bool {
    let mut statement = db.prepare(&format!("explain {sql}")).unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let operand: Option<String> = row.get(5).unwrap();
        if operand.is_some_and(|operand| operand.starts_with(function)) {
            return true;
        }
    }
    false
}

#[test]
fn which_loops_are_not_walked() {
    let pair = Pair::new();
    let [stock, ours] = pair.both();
    for db in [&stock, &ours] {
        db.execute_batch(SCHEMA).unwrap();
    }
    let counted = [
        "select count(*) from t where b between 5 and 9",
        "select count(*) from t where b>5",
        "select count(*) from t where b<='x'",
        "select count(*) from t where b=5",
        "select count(*) from t where c<'k'",
        "select count(*) from t where a>5",
        "select count(*) from t where a between 5 and 900",
        "select count(*) from w where k<5",
        "select count(*) from t where e>10",
    ];
    for sql in counted {
        assert!(calls(&ours, sql, "left_in_range"), "{sql}");
        assert!(!calls(&stock, sql, "left_in_range"), "{sql}");
    }
    for sql in ["select count(*) from t where b>5 and e<3", "select sum(a) from t where b>5"] {
        assert!(!calls(&ours, sql, "left_in_range"), "{sql}");
    }
    let skipped = [
        "select * from t limit 5 offset 50",
        "select * from t order by b desc limit 5 offset 50",
        "select b from t where b>5 and b<500 order by b limit 5 offset 50",
        "select * from w order by k limit 5 offset 50",
    ];
    for sql in skipped {
        assert!(calls(&ours, sql, "skip_in_range"), "{sql}");
        assert!(!calls(&stock, sql, "skip_in_range"), "{sql}");
    }
    for sql in
        ["select * from t where e<3 limit 5 offset 50", "select distinct b from t limit 5 offset 9"]
    {
        assert!(!calls(&ours, sql, "skip_in_range"), "{sql}");
    }
}
