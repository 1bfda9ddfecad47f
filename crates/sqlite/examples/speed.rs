//! SQL on a store beside the same on files of SQLite's, whose journal is deleted after each
//! transaction or a write-ahead log: how long each kind of statement takes, every answer compared.
//!
//! `speed [--rows N] [--synchronous off|normal|full] [--folder F] [--only WORD] [--json]`
//!
//! The processor's time is that of the calling thread. A ratio is the time of a file of SQLite's
//! divided by that of the store: more than 1 where the store is faster.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use sqlite as _;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What is measured: a name, statements, and how often they are run. `{n}` is the number of rows,
/// `{i}` counts the runs.
const TESTS: &[(&str, &str, u32)] = &[
    (
        "create a table",
        "create table t(a integer primary key, b int, c text); insert into t values(-1,0,'')",
        1,
    ),
    ("insert, a transaction each", "insert into t(b,c) values({i}*7919%1009,'number '||{i})", 250),
    (
        "insert many",
        "delete from t; insert into t with recursive x(i) as (values(1) union all select i+1 from x
         where i<{n}) select i, i*7919%100003, 'some text for row '||i from x",
        1,
    ),
    ("count", "select count(*) from t", 20),
    ("select without an index", "select count(*), avg(b) from t where b>={i} and b<{i}+1000", 20),
    ("select like", "select count(*) from t where c like '%{i}9%'", 10),
    ("create an index of numbers", "create index tb on t(b)", 1),
    ("create an index of text", "create index tc on t(c)", 1),
    ("select a range of an index", "select count(*), sum(a) from t where b between {i}*17 and {i}*17+100", 2000),
    ("select by an index", "select c from t where c='some text for row '||({i}*13)", 2000),
    ("select by the key", "select b from t where a={i}*7", 2000),
    ("join", "select count(*) from t x join t y on y.a=x.b where y.b>5", 1),
    ("update without an index", "update t set c=c||'!' where b+0>={i}*10 and b+0<{i}*10+10", 20),
    ("update by an index", "update t set b=b+1 where a between {i}*20 and {i}*20+10", 1000),
    ("update all", "update t set b=b+1", 1),
    ("insert from a select", "insert into t select a+10000000, b, c from t", 1),
    ("delete without an index", "delete from t where c like '%77%'", 1),
    ("delete by an index", "delete from t where b between 1000 and 20000", 1),
    ("insert again", "insert into t select a+30000000, b, c from t where a<1000000", 1),
    (
        "insert at random",
        "create table w(k text primary key, v) without rowid; insert into w with recursive x(i) as
         (values(1) union all select i+1 from x where i<{n}/2) select 'key'||(i*7919%1000003), i from x",
        1,
    ),
    ("delete most", "delete from t where a%10<>0", 1),
    ("drop", "drop table t; drop table w", 1),
];

const SHAPES: [(&str, &str, &str); 3] = [
    ("hedgerow", "hedgerow", ""),
    ("wal", "sqlite", "pragma journal_mode=wal;"),
    ("delete", "sqlite", "pragma journal_mode=delete;"),
];

struct Options {
    rows: u64,
    synchronous: String,
    folder: PathBuf,
    only: String,
    json: bool,
}

fn options() -> Result<Options> {
    let mut options = Options {
        rows: 100_000,
        synchronous: "full".into(),
        folder: std::env::temp_dir(),
        only: String::new(),
        json: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--rows" => options.rows = value()?.parse()?,
            "--synchronous" => options.synchronous = value()?,
            "--folder" => options.folder = value()?.into(),
            "--only" => options.only = value()?,
            "--json" => options.json = true,
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    Ok(options)
}

fn open(folder: &Path, shape: &(&str, &str, &str), options: &Options) -> Result<Connection> {
    let (name, engine, pragmas) = shape;
    let uri = format!("file:{}?engine={engine}", folder.join(format!("{name}.db")).display());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(uri, flags)?;
    db.execute_batch(&format!("{pragmas} pragma synchronous={}", options.synchronous))?;
    Ok(db)
}

/// Nanoseconds that this thread has spent on a processor.
fn processor() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

/// What a statement gives, as text.
fn answer(db: &Connection, sql: &str, to: &mut String) -> Result<()> {
    for part in sql.split(';').filter(|part| !part.trim().is_empty()) {
        let mut statement = db.prepare(part)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                to.push_str(&format!("{:?},", row.get_ref(column)?));
            }
        }
    }
    Ok(())
}

/// Milliseconds by the clock and by the processor, and what was answered.
fn measure(db: &Connection, test: &(&str, &str, u32), rows: u64) -> Result<(f64, f64, String)> {
    let sql = test.1.replace("{n}", &rows.to_string());
    let mut given = String::new();
    let (clock, before) = (Instant::now(), processor());
    for i in 0..test.2 {
        answer(db, &sql.replace("{i}", &i.to_string()), &mut given)?;
    }
    let spent = processor().saturating_sub(before) as f64 / 1e6;
    Ok((clock.elapsed().as_secs_f64() * 1e3, spent, given))
}

fn main() -> Result<()> {
    let options = options()?;
    let folder = options.folder.join(format!("hedgerow-sql-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let result = run(&folder, &options);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn run(folder: &Path, options: &Options) -> Result<()> {
    let mut all = Vec::new();
    let mut products = [0.0; 2];
    let connections = SHAPES.iter().map(|shape| open(folder, shape, options));
    let connections = connections.collect::<Result<Vec<_>>>()?;
    if !options.json {
        println!("{:<28}{:>30}{:>15}{:>15}", "", "ms (processor)", "wal/ours", "delete/ours");
    }
    let mut counted = 0;
    for test in TESTS {
        let mut times = Vec::new();
        let mut answers: Vec<String> = Vec::new();
        for db in &connections {
            let (clock, spent, given) = measure(db, test, options.rows)?;
            times.push((clock, spent));
            answers.push(given);
        }
        if answers.iter().any(|other| *other != answers[0]) {
            return Err(format!("{}: the answers differ", test.0).into());
        }
        let ratios = [times[1].0 / times[0].0, times[2].0 / times[0].0];
        let of_processor = [times[1].1 / times[0].1, times[2].1 / times[0].1];
        all.push(json!({
            "test": test.0, "ms": times.iter().map(|time| time.0).collect::<Vec<_>>(),
            "processor_ms": times.iter().map(|time| time.1).collect::<Vec<_>>(),
            "ratios": ratios, "processor_ratios": of_processor,
        }));
        if !test.0.contains(&options.only) {
            continue;
        }
        counted += 1;
        products[0] += ratios[0].ln();
        products[1] += ratios[1].ln();
        if !options.json {
            println!(
                "{:<28}{:>16.2} ({:>10.2}){:>7.2} ({:>5.2}){:>7.2} ({:>5.2})",
                test.0,
                times[0].0,
                times[0].1,
                ratios[0],
                of_processor[0],
                ratios[1],
                of_processor[1]
            );
        }
    }
    let means = products.map(|product: f64| (product / f64::from(counted.max(1))).exp());
    let bytes = SHAPES.map(|(name, ..)| {
        std::fs::metadata(folder.join(format!("{name}.db"))).map_or(0, |meta| meta.len())
    });
    if options.json {
        let report = json!({
            "sqlite": rusqlite::version(), "rows": options.rows,
            "synchronous": options.synchronous, "engines": SHAPES.map(|shape| shape.0),
            "tests": all, "geometric_means": means, "bytes": bytes,
        });
        println!("{report:#}");
    } else {
        println!("geometric mean: {:.2} of wal, {:.2} of delete", means[0], means[1]);
    }
    Ok(())
}
