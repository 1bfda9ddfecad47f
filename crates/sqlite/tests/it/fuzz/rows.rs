//! Random statements on tables of thousands of rows, whose indexes have many leaves: rows change
//! their rowids, go and come again, and are asked for by the first columns of the indexes. The
//! branches of a store keep keys of entries that have moved.

use rusqlite::Connection;

use super::super::pair::{Pair, transcript};
use super::{Random, boundary};

/// Values that rows may have, and as many that none has.
const VALUES: u64 = 3000;

fn schema(random: &mut Random) -> String {
    let desc = random.pick(&["", " desc"]);
    let (update, delete) =
        (random.pick(&["cascade", "set null"]), random.pick(&["cascade", "set null"]));
    let text = random.pick(&["'u'||n", "n", "printf('%s, a text that is long: %05d', n%7, n)"]);
    format!(
        "pragma foreign_keys=on;
         create table s(i integer primary key, u);
         insert into s with recursive x(i) as (values(0) union all select i+1 from x
           where i<{VALUES}*2-1), y(i, n) as (select i, i*2111%({VALUES}*2) from x)
           select i, {text} from y;
         create index su on s(u);
         create table p(id integer primary key, u unique, a, b);
         create index pa on p(a{desc}, b); create index pu on p(u{desc}, b);
         create table c(id integer primary key,
           u references p(u) on update {update} on delete {delete}, n);
         create index cu on c(u);
         create table w(k, v, n, primary key(k, v{desc})) without rowid;
         create index wv on w(v, n);
         insert into p select i+10000, u, i%71, i/71 from s where i<{VALUES};
         insert into w select u, id, a from p; insert into c(u, n) select u, a from p"
    )
}

/// Rows of a residue class: a few, half of them, or most.
fn class(random: &mut Random, column: &str) -> String {
    let modulus = random.between(2, 11);
    let compare = random.pick(&["=", "=", "<>", ">="]);
    format!("abs({column})%{modulus}{compare}{}", random.below(modulus))
}

/// A number that rowids are changed by.
fn offset(random: &mut Random) -> i64 {
    let most = [10, 7000, 100_000][random.below(3) as usize];
    random.between(0, 2 * most) as i64 - most as i64
}

/// A question whose answer has a line.
fn ask(random: &mut Random) -> String {
    let s = random.pick(&["s indexed by su", "s not indexed"]);
    let not = random.pick(&["", "not "]);
    let filter = class(random, "i");
    match random.below(11) {
        0 => format!("select count(*),sum(i) from {s} where u {not}in (select u from p)"),
        1 => format!(
            "select count(*),sum(i) from {s} where u {not}in (select u from c where u is not null)"
        ),
        2 => format!("select count(*),sum(i) from {s} where (u,i%71) {not}in (select u,a from p)"),
        3 => format!("select count(*),sum(i) from {s} where u {not}in (select k from w)"),
        4 => format!("select count(*) from {s} where {not}exists (select 1 from w where k=u)"),
        5 => format!("select count(*),sum(p.id),sum(b) from {s} cross join p on p.u=s.u"),
        6 => format!(
            "select count(*),sum(id) from p where a {not}in (select i from s where {filter})"
        ),
        7 => format!("select count(*),sum(n) from w where v {not}in (select id from p)"),
        8 => format!(
            "select sum((select max(v) from w where k=s.u)),sum((select id from p where u=s.u)),
               sum((select min(id) from c where u=s.u)) from {s} where {filter}"
        ),
        9 => "select count(*),count(distinct u),sum(id),sum(a),sum(b) from p".into(),
        _ => "select count(*),count(distinct k),sum(v),sum(n) from w".into(),
    }
}

/// Rows that come, come again, or take the place of others.
fn insert(random: &mut Random) -> String {
    let (filter, offset) = (class(random, "i"), offset(random));
    let sort = random.pick(&["i", "i desc", "u"]);
    let or = random.pick(&["", " or ignore", " or replace", " or fail"]);
    let change = random.pick(&["b=b+1", "b=excluded.b,a=a-1", "id=excluded.id", "u=u,id=id-1"]);
    match random.below(6) {
        0 | 1 => format!(
            "insert{or} into p select i+{offset},u,i%71,i/71 from s where {filter} order by {sort}"
        ),
        2 => format!(
            "insert into p select i+{offset},u,i%71,i from s where {filter} order by {sort}
             on conflict(u) do update set {change} on conflict(id) do nothing"
        ),
        3 => format!(
            "insert{or} into w select u,i+{offset},i%13 from s where {filter} order by {sort}"
        ),
        4 => format!(
            "insert into w select u,i+{offset},i from s where {filter} order by {sort}
             on conflict(k,v) do update set v=v-{},n=n+1",
            random.below(9)
        ),
        _ => format!(
            "insert{or} into c(u,n) select u,i from s where {filter}{} order by {sort}",
            random.pick(&["", " and u in (select u from p)"])
        ),
    }
}

fn change(random: &mut Random) -> String {
    let (rows, keys) = (class(random, "id"), class(random, "v"));
    let offset = offset(random);
    let or = random.pick(&["", " or ignore", " or replace"]);
    match random.below(12) {
        0..3 => format!("update{or} p set id=id+{offset} where {rows}"),
        3 => format!("update{or} p set id=-id,b=b+1 where {rows}"),
        4 => format!("update{or} p set u=u||'.' where {rows}"),
        5 => format!("update{or} p set a=a+{},b=b-{} where {rows}", offset % 5, offset % 3),
        6 => format!("update{or} w set v=v+{offset} where {keys}"),
        7 => format!("update{or} c set id=id+{offset} where {rows}"),
        8 | 9 => format!("delete from p where {rows}"),
        10 => format!("delete from w where {keys}"),
        _ => format!("delete from {} where {rows}", random.pick(&["c", "p"])),
    }
}

fn statement(random: &mut Random) -> String {
    match random.below(60) {
        0..4 => boundary(random),
        4 => random.pick(&["pragma integrity_check", "vacuum", "pragma foreign_key_check"]).into(),
        5..17 => insert(random),
        17..30 => change(random),
        _ => ask(random),
    }
}

/// Statements on a connection of each engine.
pub(super) fn run(seed: u64, count: u64) {
    let mut random = Random(seed);
    let pair = Pair::new();
    let both = pair.both();
    let mut script = vec![schema(&mut random)];
    for db in &both {
        db.execute_batch(&script[0]).unwrap();
    }
    let mut check = |sql: &str| {
        script.push(sql.to_owned());
        let [stock, ours] = both.each_ref().map(|db| transcript(db, sql));
        assert_eq!(ours, stock, "seed {seed}, after: {}", script.join(";\n"));
    };
    for _ in 0..count {
        check(&statement(&mut random));
        // So that there is something to ask for.
        if is_small(&both[0]) {
            check("insert or ignore into p select i-9000,u,i%71,i/71 from s where i%4<>1");
        }
    }
    for sql in ["commit", "pragma integrity_check", "pragma foreign_key_check"] {
        check(sql);
    }
}

fn is_small(db: &Connection) -> bool {
    let count = db.query_row("select count(*) from p", [], |row| row.get::<_, i64>(0));
    count.unwrap() < 750
}
