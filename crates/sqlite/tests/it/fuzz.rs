//! Random statements on a store and on a file of SQLite's: same rows, same errors.
//!
//! `SQL_FUZZ_STATEMENTS` is how many there are, `SQL_FUZZ_SEED` where they begin. One in eight is
//! on tables of thousands of rows (`rows`).

mod rows;

use rusqlite::Connection;

use super::pair::{Pair, transcript};

/// At most this many statements follow each other on the same tables.
const AT_A_TIME: u64 = 500;
/// The same on many rows, each of which takes longer.
const ROWS_AT_A_TIME: u64 = 250;

/// A random number generator: SplitMix64 (Steele, Lea, Flood 2014).
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// One of those from `from` to `to`, the latter not among them.
    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }

    pub(super) fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }
}

/// The tables of a run: a rowid table, one with a text key, two without rowid.
const TABLES: [&str; 4] = ["t", "s", "w", "x"];
const COLUMNS: [&str; 4] = ["a", "b", "c", "d"];

fn schema(random: &mut Random) -> String {
    let mut collation = || random.pick(&["", "", " collate nocase", " collate rtrim"]);
    let (one, two, three) = (collation(), collation(), collation());
    let sort = random.pick(&["", " desc"]);
    let unique = random.pick(&["", "unique"]);
    format!(
        "create table t(a integer primary key, b{one}, c{two}, d);
         create table s(a text primary key, b, c{three}, d);
         create table w(a{two}, b, c, d, primary key(a, b{sort})) without rowid;
         create table x(a integer primary key{sort}, b, c{one}, d) without rowid;
         create index ti on t(b{sort}, c); create {unique} index tj on t(d, a);
         create index wi on w(c{sort}, d); create index xi on x(d) where b>2;"
    )
}

fn value(random: &mut Random) -> String {
    match random.below(16) {
        0 => "null".into(),
        1 => format!("{}", random.next() as i64),
        2 => format!("-{}", random.below(30)),
        3 => format!("{}.5", random.below(30)),
        4 => format!("x'{:04x}'", random.below(300)),
        5 => format!("zeroblob({})", random.below(6000)),
        6 => format!("replace(hex(zeroblob({})),'0','k')", random.below(3000)),
        14 => format!("{}", random.below(1000)),
        15 => format!("'text {}'", random.below(40)),
        7 | 8 => format!("'{}{}'", random.pick(&["a", "B", "b ", "Ab", ""]), random.below(9)),
        _ => format!("{}", random.below(40)),
    }
}

fn condition(random: &mut Random) -> String {
    let column = random.pick(&COLUMNS);
    let (one, two) = (value(random), value(random));
    match random.below(7) {
        0 => format!("{column}={one}"),
        1 => format!("{column}>{one}"),
        2 => format!("{column}<={one}"),
        3 => format!("{column} between {one} and {two}"),
        4 => format!("{column} in ({one},{two},3)"),
        5 => format!("{column} is null or {column}<{one}"),
        _ => format!("{column}>={one} and {}<{two}", random.pick(&COLUMNS)),
    }
}

fn select(random: &mut Random) -> String {
    let table = random.pick(&TABLES);
    let filter = condition(random);
    let (column, other) = (random.pick(&COLUMNS), random.pick(&COLUMNS));
    let sort = random.pick(&["", " desc"]);
    match random.below(8) {
        0 => format!("select count(*),sum(length(b)),min({column}),max({other}) from {table}"),
        1 => format!("select count(*) from {table} where {filter}"),
        2 => format!("select {column},count(*) from {table} group by {column} order by 1,2"),
        3 => format!(
            "select p.a,q.{column} from {table} p join {} q on p.{column}=q.{other}
             order by 1,2 limit 50",
            random.pick(&TABLES)
        ),
        4 => format!(
            "select {column} from {table} order by {column}{sort} limit 9 offset {}",
            random.below(60)
        ),
        5 => format!(
            "select {column},count(*) over () from (select {column} from {table} where {filter}
             order by {column}{sort} limit 30 offset {})",
            random.below(40)
        ),
        6 => format!(
            "with recursive n(n) as (values({0}) union all select n+1 from n where n<{0}+300)
             select n,(select count(*) from {table} where {column}=n),
               (select a from {1} where {column}=n order by a{sort} limit 1),
               (select sum(length(b)) from {table} where {column}='text '||n) from n",
            random.below(700),
            random.pick(&["t", "x"])
        ),
        _ => format!(
            "select a,b,c,d from {table} where {filter} order by {column}{sort},a,b,c,d
             limit 40"
        ),
    }
}

fn change(random: &mut Random) -> String {
    let table = random.pick(&TABLES);
    let filter = condition(random);
    let column = random.pick(&COLUMNS);
    let or = random.pick(&["", " or ignore", " or replace", " or fail", " or rollback"]);
    match random.below(9) {
        0 => format!("delete from {table} where {filter}"),
        1 => format!("update{or} {table} set {column}={} where {filter}", value(random)),
        2 => format!("update{or} {table} set d=d+1, b=a where {filter}"),
        // In an order: how many rows are in before one is refused must not depend on the plan.
        3 => format!(
            "insert{or} into {table} select a,c,b,d from {} where {filter}
             order by a,b,c,d limit 20",
            random.pick(&TABLES)
        ),
        4 => match random.below(9) {
            0 => format!("delete from {table}"),
            // Enough for several leaves.
            1 | 2 => {
                let (from, step) = (random.below(600), random.below(40) + 1);
                format!(
                    "insert{or} into {table} with recursive n(n) as
                       (values({from}) union all select n+1 from n where n<{from}+700)
                     select n, n/{step}, 'text '||n%{step}, n*7%1000 from n"
                )
            }
            3..6 => format!("delete from {table} where {column}%{}=0", random.below(3) + 2),
            _ => {
                format!("update{or} {table} set {column}={column}+1 where b%3={}", random.below(3))
            }
        },
        _ => {
            let rows: Vec<_> = (0..=random.below(3))
                .map(|_| {
                    let all: Vec<_> = (0..4).map(|_| value(random)).collect();
                    format!("({})", all.join(","))
                })
                .collect();
            format!("insert{or} into {table} values {}", rows.join(","))
        }
    }
}

/// The beginning or the end of a transaction or a part of one.
fn boundary(random: &mut Random) -> String {
    match random.below(8) {
        0 => "begin".into(),
        1 | 2 => "commit".into(),
        3 => "rollback".into(),
        4 | 5 => format!("savepoint s{}", random.below(3)),
        6 => format!("rollback to s{}", random.below(3)),
        _ => format!("release s{}", random.below(3)),
    }
}

fn statement(random: &mut Random) -> String {
    match random.below(40) {
        0..8 => boundary(random),
        8 => random.pick(&["reindex", "analyze", "pragma integrity_check", "vacuum"]).into(),
        9 => format!("create index if not exists n{0} on t({1})", random.below(2), COLUMNS[1]),
        10 => format!("drop index if exists n{}", random.below(2)),
        11 => "create table if not exists z as select * from t".into(),
        12 => "drop table if exists z".into(),
        13..=24 => select(random),
        _ => change(random),
    }
}

/// Statements on two connections of each engine, the second of which reads.
fn run(seed: u64, count: u64) {
    let mut random = Random(seed);
    let pair = Pair::new();
    let (first, second) = (pair.both(), pair.both());
    let mut script = vec![schema(&mut random)];
    for db in &first {
        db.execute_batch(&script[0]).unwrap();
    }
    let mut check = |both: &[Connection; 2], sql: &str| {
        script.push(sql.to_owned());
        let [stock, ours] = both.each_ref().map(|db| transcript(db, sql));
        assert_eq!(ours, stock, "seed {seed}, after: {}", script.join(";\n"));
    };
    for _ in 0..count {
        check(&first, &statement(&mut random));
        if first[0].is_autocommit() && random.below(10) == 0 {
            check(&second, &select(&mut random));
        }
    }
    check(&first, "commit");
    check(&first, "pragma integrity_check");
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn random_statements_give_the_same() {
    let seed = number("SQL_FUZZ_SEED", 1);
    let count = number("SQL_FUZZ_STATEMENTS", 4000);
    for run_seed in seed..seed + count.div_ceil(AT_A_TIME) {
        run(run_seed, AT_A_TIME);
    }
}

#[test]
fn random_statements_on_many_rows_give_the_same() {
    let seed = number("SQL_FUZZ_SEED", 1);
    let count = number("SQL_FUZZ_STATEMENTS", 2000) / 8;
    for run_seed in seed..seed + count.div_ceil(ROWS_AT_A_TIME) {
        rows::run(run_seed, ROWS_AT_A_TIME);
    }
}
