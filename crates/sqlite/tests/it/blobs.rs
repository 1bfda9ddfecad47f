//! Blobs that are written in parts.

use std::io::{Seek as _, SeekFrom, Write as _};

use rusqlite::{Connection, MAIN_DB};

use super::pair::{Pair, same};

/// Writes into a blob in parts, in the transaction that makes it and in others, with savepoints.
#[test]
fn a_blob_is_written_in_parts_where_it_is() {
    const LEN: i64 = 3_000_000;
    let pair = Pair::new();
    let both = pair.both();
    let write = |db: &Connection, from: usize, byte: u8| {
        let mut blob = db.blob_open(MAIN_DB, "t", "x", 1, false).unwrap();
        for at in (from..LEN as usize - 5000).step_by(100_000) {
            blob.seek(SeekFrom::Start(at as u64)).unwrap();
            blob.write_all(&[byte; 5000]).unwrap();
        }
        blob.close().unwrap();
    };
    for db in &both {
        db.execute_batch("create table t(a integer primary key,x,y); begin").unwrap();
        db.execute("insert into t values(1,zeroblob(?1),'end')", [LEN]).unwrap();
        write(db, 0, b'a');
        write(db, 3000, b'b');
        db.execute_batch("commit").unwrap();
    }
    let look = "select x,y,length(x),hex(substr(x,2990,20)),hex(substr(x,107990,20)),
        length(replace(hex(x),'00','')) from t; pragma integrity_check";
    same(&both, look);
    let pages: i64 = both[1].query_row("pragma page_count", [], |row| row.get(0)).unwrap();
    assert!(pages < 1200, "the value is there once, in {pages} pages");
    for db in &both {
        write(db, 50_000, b'c');
        db.execute_batch("begin; savepoint one").unwrap();
        write(db, 60_000, b'd');
        db.execute_batch("savepoint two").unwrap();
        write(db, 1, b'e');
    }
    same(&both, look);
    same(&both, "rollback to two");
    same(&both, look);
    for db in &both {
        write(db, 2, b'f');
    }
    same(&both, "release one; commit");
    same(&both, look);
    same(&pair.both(), look);
    same(&both, "begin; update t set y='other'");
    for db in &both {
        write(db, 9, b'g');
    }
    same(&both, "rollback");
    same(&both, look);
}
