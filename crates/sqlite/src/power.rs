//! Power cuts under SQL: connections over a simulated disk, whose power is cut at every point of a
//! run. What was committed before the cut has to be there, each transaction as a whole.

use std::cell::RefCell;
use std::sync::Arc;

use hedgerow::os::sim::{Config, CrashMode, SimSystem};
use hedgerow::tree::Builder;
use rusqlite::{Connection, OpenFlags};

thread_local! {
    /// The disk on which this thread opens stores.
    static DISK: RefCell<Option<SimSystem>> = const { RefCell::new(None) };
}

/// Opens stores on the disk of this thread, if it has one.
pub(crate) fn on_disk(builder: Builder) -> Builder {
    match DISK.with_borrow(Clone::clone) {
        Some(disk) => builder.system(Arc::new(disk)),
        None => builder,
    }
}

/// A connection to the store of a simulated disk.
fn connect(disk: &SimSystem, synchronous: &str) -> Connection {
    DISK.set(Some(disk.clone()));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags("file:/disk/store?engine=hedgerow", flags).unwrap();
    DISK.set(None);
    db.execute_batch(&format!("pragma synchronous={synchronous}")).unwrap();
    db
}

/// Everything that the database holds.
fn state(db: &Connection) -> String {
    let sql = "select coalesce((select group_concat(name||':'||sql,';') from sqlite_schema),'')";
    let schema: String = db.query_row(sql, [], |row| row.get(0)).unwrap();
    if !schema.contains("CREATE TABLE t(") {
        return schema;
    }
    let rows = "select count(*)||','||coalesce(sum(a*n),0)||','||coalesce(sum(length(b)),0)||','||
        coalesce(group_concat(n||b),'') from (select * from t order by a)";
    let rows: String = db.query_row(rows, [], |row| row.get(0)).unwrap();
    let by_index = "select count(*)||','||coalesce(sum(a),0) from t indexed by i where n>=0";
    let by_index: String = db.query_row(by_index, [], |row| row.get(0)).unwrap();
    format!("{schema}|{rows}|{by_index}")
}

/// The transaction of a number: rows, a savepoint that is rolled back, a changed schema.
fn transaction(n: u64) -> String {
    let schema = match n % 6 {
        2 => format!("create table extra{n}(x); insert into extra{n} values({n})"),
        5 => format!("drop table extra{}", n - 3),
        _ => String::new(),
    };
    format!(
        "begin; insert into t(n,b) with recursive x(i) as (values(1) union all select i+1 from x
           where i<{}) select {n}, hex(zeroblob(i*{})) from x;
         delete from t where n={n}-4; update t set b='u'||b where n={n}-1;
         savepoint s; delete from t; rollback to s; {schema}; commit",
        1 + n % 7,
        n * 31 % 200
    )
}

/// Runs transactions, notes the state after each, and looks at what cuts leave: one of these
/// states, and none before the last one that was flushed. With `flushes` each commit is, otherwise
/// each one after which that is asked for.
fn cut(seed: u64, synchronous: &str, flushes: bool) {
    let disk = SimSystem::new(seed, Config::default());
    disk.record(true);
    let db = connect(&disk, synchronous);
    let mut states = vec![state(&db)];
    db.execute_batch("create table t(a integer primary key, n int, b); create index i on t(n)")
        .unwrap();
    // Both statements are transactions.
    states.push("the table without its index".into());
    states.push(state(&db));
    if flushes {
        disk.mark(2);
    }
    for n in 1..=18 {
        db.execute_batch(&transaction(n)).unwrap();
        states.push(state(&db));
        if !flushes && n % 5 == 0 {
            db.execute_batch("pragma wal_checkpoint").unwrap();
        }
        if flushes || n % 5 == 0 {
            disk.mark(n + 2);
        }
    }
    drop(db);
    let cuts = disk.recorded();
    assert!(cuts > 60, "{cuts} points");
    let mut reached = Vec::new();
    for point in 0..=cuts {
        let mode = CrashMode::ALL[point % CrashMode::ALL.len()];
        let image = disk.image_at(point, mode, seed ^ point as u64);
        let least = disk.last_mark(point).unwrap_or(0) as usize;
        let db = connect(&image, synchronous);
        let checked: String = db.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(checked, "ok", "seed {seed}, point {point}");
        let schema = "select group_concat(name) from sqlite_schema";
        let names: Option<String> = db.query_row(schema, [], |row| row.get(0)).unwrap();
        let found = match names.as_deref() {
            Some("t") => 1,
            _ => {
                let found = state(&db);
                let place = states.iter().position(|state| *state == found);
                place.unwrap_or_else(|| {
                    panic!("seed {seed}, point {point}: no whole state: {found}")
                })
            }
        };
        // The first mark stands after two transactions.
        let most = match (flushes, least) {
            (true, 0) => 2,
            (true, least) => least + 1,
            (false, _) => states.len(),
        };
        let is_right = found >= least && found <= most;
        assert!(is_right, "seed {seed}, point {point}: {found} is there, {least} were committed");
        // It can be written to.
        db.execute_batch("create table after(x); insert into after values(1)").unwrap();
        reached.push(found);
    }
    reached.sort_unstable();
    reached.dedup();
    assert!(reached.len() > 3, "cuts leave only {reached:?}");
}

#[test]
fn a_power_cut_leaves_what_was_committed() {
    let seeds = std::env::var("SQL_CUT_SEEDS").map_or(2, |seeds| seeds.parse().unwrap());
    for seed in 1..=seeds {
        cut(seed, "full", true);
    }
}

#[test]
fn without_flushes_it_leaves_whole_transactions() {
    let seeds = std::env::var("SQL_CUT_SEEDS").map_or(2, |seeds| seeds.parse().unwrap());
    for seed in 1..=seeds {
        cut(seed, "off", false);
    }
}
