//! The statements that are measured: what each test runs, how often, and what is asked afterwards
//! to see that all engines have done the same.
//!
//! The first nineteen are the classes of SQLite's speed comparison, in its order; the others are
//! the kinds of statement of `speedtest1` that those have not.

/// How often the statements of a test run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Times {
    /// Once, or that many times.
    Fixed(u32),
    /// Once for each row of the load; for every tenth of them, and so on.
    Rows(u32),
}

/// A test.
#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    /// Run once before the others, and timed with them. `{n}` is the number of rows.
    pub(crate) before: &'static str,
    /// Run as often as it says, prepared once. ?1 counts from 1, ?2 is a number below 100,000 that
    /// looks random, ?3 that number in words, ?4 one of a kind that looks random.
    pub(crate) each: &'static [&'static str],
    pub(crate) times: Times,
    /// Run once after them, timed too.
    pub(crate) after: &'static str,
    /// What is asked afterwards, outside of the time.
    pub(crate) check: &'static str,
}

const T1: &str = "select count(*), sum(a), sum(b), sum(length(c)), min(c), max(c) from t1";
const T2: &str = "select count(*), sum(a), sum(b), sum(length(c)), min(c), max(c) from t2";
const BOTH: &str = "select count(*), sum(a), sum(b), sum(length(c)) from t1;
    select count(*), sum(a), sum(b), sum(length(c)) from t2;
    select count(*), sum(b) from t2 where b between 100 and 50000";
const W1: &str = "select count(*), sum(a), sum(b), sum(length(c)) from w1";
const Z1: &str = "select count(*), sum(a), sum(b), sum(length(c)) from z1;
    select a, b from z1 order by b, a limit 9; select a, c from z1 where b>50000 order by c limit 9";
const NOTHING: &str = "select count(*) from sqlite_schema";

const fn test(
    name: &'static str,
    before: &'static str,
    each: &'static [&'static str],
    times: Times,
    (after, check): (&'static str, &'static str),
) -> Test {
    Test { name, before, each, times, after, check }
}

/// A test of statements that only ask.
const fn ask(name: &'static str, each: &'static [&'static str], times: Times) -> Test {
    test(name, "", each, times, ("", NOTHING))
}

/// A test of statements in one transaction.
const fn change(
    name: &'static str,
    each: &'static [&'static str],
    times: Times,
    check: &'static str,
) -> Test {
    test(name, "begin", each, times, ("commit", check))
}

/// A test of one text that is run once.
const fn once(name: &'static str, text: &'static str, check: &'static str) -> Test {
    test(name, text, &[], Times::Fixed(0), ("", check))
}

use Times::{Fixed, Rows};

/// The classes of SQLite's speed comparison.
pub(crate) const CLASSES: [Test; 19] = [
    once(
        "create",
        "create table t1(a integer, b integer, c text);
         create table t2(a integer, b integer, c text);
         create table t3(a integer, b integer, c text)",
        NOTHING,
    ),
    test(
        "1000 INSERTs, a transaction each",
        "",
        &["insert into t1 values(?1,?2,?3)"],
        Fixed(1000),
        ("", T1),
    ),
    test(
        "100 UPDATEs, from reading to writing",
        "",
        &[
            "begin",
            "select count(*) from t1 where b=?2",
            "update t1 set b=b+1 where a=?1",
            "commit",
        ],
        Fixed(100),
        ("", T1),
    ),
    change("INSERTs in a transaction", &["insert into t2 values(?1,?2,?3)"], Rows(1), T2),
    ask("counts", &["select count(*) from t2"], Fixed(100)),
    ask(
        "100 SELECTs without an index",
        &["select count(*), avg(b) from t2 where b>=?1*100 and b<?1*100+1000"],
        Fixed(100),
    ),
    ask(
        "100 SELECTs with LIKE",
        &["select count(*), avg(b) from t2 where c like '%'||?3||'%'"],
        Fixed(100),
    ),
    once("two indexes", "create index i2a on t2(a); create index i2b on t2(b)", BOTH),
    ask(
        "5000 SELECTs by an index",
        &["select count(*), avg(b) from t2 where b>=?1*20 and b<?1*20+100"],
        Fixed(5000),
    ),
    change(
        "1000 UPDATEs without an index",
        &["update t1 set b=b*2 where a>=?1*10 and a<?1*10+10"],
        Fixed(1000),
        T1,
    ),
    change("UPDATEs by an index", &["update t2 set b=?2 where a=?1"], Rows(1), BOTH),
    change("UPDATEs of text", &["update t2 set c=?3 where a=?1"], Rows(1), T2),
    once(
        "INSERT from a SELECT",
        "begin; insert into t1 select b,a,c from t2; insert into t2 select b,a,c from t1; commit",
        BOTH,
    ),
    ask("counts again", &["select count(*) from t2", "select count(*) from t1"], Fixed(100)),
    once("DELETE without an index", "delete from t2 where c like '%fifty%'", BOTH),
    once("DELETE by an index", "delete from t2 where a>10 and a<20000", BOTH),
    once("a big INSERT after a DELETE", "insert into t2 select * from t1", BOTH),
    test(
        "a big DELETE and small INSERTs",
        "begin; delete from t1",
        &["insert into t1 values(?1,?2,?3)"],
        Fixed(3000),
        ("commit", BOTH),
    ),
    once("DROP", "drop table t1; drop table t2; drop table t3", NOTHING),
];

/// Other kinds of statement.
pub(crate) const KINDS: [Test; 28] = [
    test(
        "WITHOUT ROWID, in order",
        "begin; create table w1(a integer primary key, b integer, c text) without rowid",
        &["insert into w1 values(?1,?2,?3)"],
        Rows(1),
        ("commit", W1),
    ),
    test(
        "WITHOUT ROWID, text at random",
        "begin; create table w2(k text primary key, v integer) without rowid",
        &["insert into w2 values('key '||?4,?1)"],
        Rows(1),
        ("commit", "select count(*), sum(v), min(k), max(k) from w2"),
    ),
    test(
        "INSERT at random, two indexes",
        "begin; create table z1(a integer primary key, b integer, c text);
         create index z1b on z1(b); create index z1c on z1(c)",
        &["insert into z1 values(?4,?2,?3)"],
        Rows(1),
        ("commit", Z1),
    ),
    ask("SELECT by the key", &["select b, c from z1 where a=?4"], Rows(2)),
    ask("SELECT by a text key", &["select v from w2 where k='key '||?4"], Rows(2)),
    ask("SELECT by an index of text", &["select a from z1 where c=?3"], Rows(2)),
    ask(
        "ORDER BY without an index",
        &["select a, b, c from z1 where b between ?2 and ?2+20000 order by c||'' limit 20"],
        Fixed(20),
    ),
    ask(
        "ORDER BY an index",
        &["select b, c from z1 where b>=?2 order by b, a limit 100"],
        Fixed(2000),
    ),
    ask("ORDER BY the key, backwards", &["select count(*), sum(b) from (select b from z1 order by a desc limit {n})"], Fixed(5)),
    ask("full scan", &["select sum(b), max(length(c)) from z1"], Fixed(10)),
    ask("join of two", &["select count(*), sum(x.b) from z1 x join w1 y on y.a=x.b where x.b>?1"], Fixed(3)),
    ask(
        "join of four",
        &["select count(*) from z1 p, w1 q, z1 r, w2 s where q.a=p.b and r.b=q.b and s.k='key '||r.a
           and p.b between ?2 and ?2+2000"],
        Fixed(10),
    ),
    ask(
        "subqueries",
        &["select count(*) from z1 where b in (select b from w1 where a<5000)
           and exists (select 1 from w1 where w1.a=z1.b)"],
        Fixed(10),
    ),
    ask(
        "subqueries that depend on the row",
        &["select sum((select count(*) from z1 y where y.b between x.b and x.b+10)) from z1 x
           where x.b between ?2 and ?2+5000"],
        Fixed(20),
    ),
    ask("DISTINCT and GROUP BY", &["select count(distinct b%1000) from z1", "select b%10, count(*), max(c) from z1 group by 1"], Fixed(5)),
    ask("count(*)", &["select count(*) from z1"], Fixed(100)),
    ask("count of a range of an index", &["select count(*) from z1 where b between ?2/4 and ?2/4+50000"], Fixed(100)),
    ask(
        "OFFSET",
        &["select a from z1 order by a limit 5 offset {n}/2", "select a from z1 order by b limit 5 offset {n}/2"],
        Fixed(100),
    ),
    change("REPLACE", &["replace into z1 values(?4,?1,?3||'!')"], Rows(4), Z1),
    change("UPDATE of all rows", &["update z1 set b=b+1"], Fixed(1), Z1),
    change("DELETE at random", &["delete from z1 where a=?4"], Rows(10), Z1),
    once("ALTER TABLE ADD COLUMN", "alter table z1 add column d default 7; select sum(d) from z1", Z1),
    test(
        "load beyond the default cache",
        "begin; create table big(a integer primary key, b integer, c blob);
         create index bigb on big(b);
         with recursive x(i) as (values(1) union all select i+1 from x where i<{n}*2)
         insert into big select i*7919%2000003, i*104729%1000003, zeroblob(200+i%100) from x",
        &[],
        Fixed(0),
        ("commit", "select count(*), sum(a), sum(b), sum(length(c)) from big"),
    ),
    ask(
        "random SELECTs by an index, beyond the default cache",
        &["select a, length(c) from big where b>=?2*10 order by b limit 3"],
        Rows(2),
    ),
    ask("integrity_check", &["pragma integrity_check"], Fixed(1)),
    ask(
        "CTE",
        &["with recursive x(i) as (values(1) union all select i+1 from x where i<{n}*4)
           select count(*), sum(i) from x"],
        Fixed(3),
    ),
    ask(
        "CTE without repetitions",
        &["with recursive x(i) as (values(1) union select (i*61+1)%{n} from x limit {n})
           select count(*), sum(i) from x"],
        Fixed(3),
    ),
    once("VACUUM", "vacuum", Z1),
];

/// The test after which the size of the files is taken, and what it is called then.
pub(crate) const SIZES: [(&str, &str); 3] = [
    ("INSERTs in a transaction", "a table"),
    ("two indexes", "with two indexes"),
    ("load beyond the default cache", "all kinds of table"),
];

/// All tests in their order.
pub(crate) fn all() -> impl Iterator<Item = &'static Test> {
    CLASSES.iter().chain(&KINDS)
}

impl Times {
    /// How often, for that many rows.
    pub(crate) fn of(self, rows: u32) -> u32 {
        match self {
            Self::Fixed(times) => times,
            Self::Rows(part) => rows / part,
        }
    }
}

/// The values of the parameters of a test at one of its runs.
pub(crate) fn parameters(run: u32) -> (i64, i64, i64) {
    let mixed = u64::from(run).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33;
    // An odd factor maps the numbers below 2^32 onto themselves.
    let key = run.wrapping_mul(0x9E37_79B1);
    (i64::from(run), (mixed % 100_000) as i64, i64::from(key))
}

const ONES: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 10] =
    ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

/// A number below a million in words.
pub(crate) fn words(number: u64) -> String {
    match number {
        0..20 => ONES[number as usize].to_owned(),
        20..100 => match number % 10 {
            0 => TENS[number as usize / 10].to_owned(),
            one => format!("{} {}", TENS[number as usize / 10], ONES[one as usize]),
        },
        100..1000 => match number % 100 {
            0 => format!("{} hundred", words(number / 100)),
            rest => format!("{} hundred {}", words(number / 100), words(rest)),
        },
        _ => match number % 1000 {
            0 => format!("{} thousand", words(number / 1000)),
            rest => format!("{} thousand {}", words(number / 1000), words(rest)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_words() {
        assert_eq!(words(13_153), "thirteen thousand one hundred fifty three");
        assert_eq!(words(40_000), "forty thousand");
    }

    #[test]
    fn names_are_different_and_sizes_are_taken_after_tests() {
        let mut names: Vec<_> = all().map(|test| test.name).collect();
        assert!(SIZES.iter().all(|(name, _)| names.contains(name)));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn keys_are_one_of_a_kind() {
        let mut keys: Vec<_> = (1..=10_000).map(|run| parameters(run).2).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 10_000);
    }
}
