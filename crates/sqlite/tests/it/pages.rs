//! What a database says of its pages. A program that keeps its database below a size compares that
//! with `page_count`, and asks for a file that is shortened: it deletes rows until there are fewer.

use rusqlite::Connection;

use super::pair::{ENGINES, Pair};

fn number(db: &Connection, pragma: &str) -> i64 {
    db.query_row(&format!("pragma {pragma}"), [], |row| row.get(0)).unwrap()
}

/// A table of 3,000 rows in a database that SQLite would shorten.
fn filled(pair: &Pair, engine: &str) -> Connection {
    let db = pair.open(engine);
    db.execute_batch(
        "pragma auto_vacuum=full; create table t(a integer primary key,b); create index i on t(b);
        with recursive n(x) as (values(1) union all select x+1 from n where x<3000)
        insert into t select x,'text '||x||zeroblob(50) from n",
    )
    .unwrap();
    db
}

#[test]
fn rows_that_are_deleted_leave_a_database_of_fewer_pages() {
    for engine in ENGINES {
        let pair = Pair::new();
        let db = filled(&pair, engine);
        let full = number(&db, "page_count");
        db.execute_batch("delete from t where a>100").unwrap();
        for db in [db, pair.open(engine)] {
            assert!(number(&db, "page_count") * 4 < full, "{engine}");
            assert_eq!(number(&db, "freelist_count"), 0, "{engine}");
            assert_eq!(number(&db, "auto_vacuum"), 1, "{engine}");
        }
    }
}

/// As caches do, which look at the number of pages inside of the transaction that adds an entry.
#[test]
fn a_table_that_is_kept_below_a_size_keeps_its_rows() {
    for engine in ENGINES {
        let pair = Pair::new();
        let db = filled(&pair, engine);
        let most = number(&db, "page_count") / 2;
        for a in 3001..4000 {
            db.execute_batch(&format!("begin; insert into t values({a},'new '||zeroblob(50))"))
                .unwrap();
            if number(&db, "page_count") > most {
                let oldest = "delete from t where a in (select a from t order by a limit 10)";
                db.execute_batch(oldest).unwrap();
            }
            db.execute_batch("commit").unwrap();
        }
        let rows: i64 = db.query_row("select count(*) from t", [], |row| row.get(0)).unwrap();
        assert!(rows > 500, "{engine}: {rows}");
    }
}

/// Without that the pages of a file are counted, as ever.
#[test]
fn a_database_that_is_not_shortened_counts_its_free_pages() {
    for engine in ENGINES {
        for mode in ["none", "incremental"] {
            let pair = Pair::new();
            let db = pair.open(engine);
            db.execute_batch(&format!(
                "pragma auto_vacuum={mode}; create table t(a); insert into t values(zeroblob(900000));
                delete from t; insert into t values(1); insert into t values(2)"
            ))
            .unwrap();
            assert!(number(&db, "page_count") > 150, "{engine} {mode}");
            assert!(number(&db, "freelist_count") > 100, "{engine} {mode}");
        }
    }
}
