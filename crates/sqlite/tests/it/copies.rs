//! Copies between stores and files of SQLite's, both ways.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::pair::{ENGINES, Pair, open, transcript};

const CONTENT: &str = "create table t(a integer primary key,b,c collate nocase);
    create index i on t(b desc,c); create unique index j on t(c);
    create table w(k,l,v,primary key(l,k)) without rowid; create view x as select * from t;
    with recursive n(x) as (values(1) union all select x+1 from n where x<2000)
    insert into t select x*3-3000,x%100,'text '||x from n;
    insert into w select b,a,zeroblob(a%50) from t; insert into t values(99999,zeroblob(200000),'');
    create table gone(a); drop table gone; pragma user_version=12; pragma application_id=34;
    create trigger g after delete on t begin delete from w where k=old.b; end;";
const QUESTIONS: &str = "select count(*),sum(a),sum(length(b)),max(c) from t;
    select count(*),sum(length(v)),min(l) from w; select a from t where b=7 order by c limit 3;
    select * from w order by l desc limit 2; pragma user_version; pragma application_id;
    select type,name,sql from sqlite_schema order by name; pragma integrity_check";

fn questions(db: &Connection) -> Vec<String> {
    let mut answers = transcript(db, QUESTIONS);
    answers.pop();
    answers
}

fn filled(pair: &Pair, engine: &str) -> Connection {
    let db = pair.open(engine);
    db.execute_batch(CONTENT).unwrap();
    db
}

#[test]
fn vacuum_into_goes_both_ways() {
    for from in ENGINES {
        for to in ENGINES {
            let pair = Pair::new();
            let db = filled(&pair, from);
            let path = pair.path("copy.db");
            let sql = format!("vacuum into 'file:{}?engine={to}'", path.display());
            db.execute_batch(&sql).unwrap();
            assert_eq!(questions(&db), questions(&open(&path, to)), "{from} to {to}");
            assert!(db.execute_batch(&sql).is_err(), "it exists already");
        }
    }
}

/// What is in files that `VACUUM INTO` must not write to.
const TARGETS: [&str; 4] = [
    "create table other(y); insert into other values('precious')",
    "create table t(a); insert into t values('precious')",
    "create view other as select 'precious' as y",
    "create table gone(a); drop table gone",
];

/// Asserts that a file that is there, and what is in it, stays as it is.
fn assert_refused(db: &Connection, path: &Path, engine: &str) {
    let look = "select name from sqlite_schema; pragma user_version; pragma integrity_check;
        select * from other; select * from t";
    let before = transcript(&open(path, engine), look);
    for name in [
        path.display().to_string(),
        format!("file:{}?engine=hedgerow", path.display()),
        format!("file:{}?mode=ro", path.display()),
    ] {
        let said = transcript(db, &format!("vacuum into '{name}'"));
        assert_eq!(said[0], "error: output file already exists", "{engine} {name}");
    }
    assert_eq!(transcript(&open(path, engine), look), before);
}

#[test]
fn vacuum_into_writes_to_nothing_that_is_there() {
    for from in ENGINES {
        for to in ENGINES {
            let pair = Pair::new();
            let db = filled(&pair, from);
            for (i, content) in TARGETS.iter().enumerate() {
                let path = pair.path(&format!("target{i}.db"));
                let target = open(&path, to);
                target.execute_batch(&format!("{content}; pragma user_version=99")).unwrap();
                assert_refused(&db, &path, to);
                drop(target);
                assert_refused(&db, &path, to);
            }
            let own = pair.path(&format!("{from}.db"));
            assert_refused(&db, &own, from);
            // An empty file is as good as none, and the connection opens others as before.
            let empty = pair.path("empty.db");
            std::fs::write(&empty, "").unwrap();
            let name = format!("file:{}?engine={to}", empty.display());
            db.execute_batch(&format!("vacuum into '{name}'; attach '{name}' as copy")).unwrap();
            assert_eq!(transcript(&db, "select count(*) from copy.t")[0], "2001");
            assert_eq!(questions(&open(&empty, to)), questions(&pair.open(from)));
        }
    }
}

#[test]
fn a_backup_goes_both_ways_and_replaces_what_was_there() {
    for from in ENGINES {
        for to in ENGINES {
            let pair = Pair::new();
            let db = filled(&pair, from);
            let mut copy = open(&pair.path("copy.db"), to);
            copy.execute_batch(
                "create table old(a); create index olds on old(a); insert into old values(1)",
            )
            .unwrap();
            let other = open(&pair.path("copy.db"), to);
            assert_eq!(transcript(&other, "select a from old")[0], "1");
            let backup = Backup::new(&db, &mut copy).unwrap();
            backup.step(-1).unwrap();
            drop(backup);
            assert_eq!(questions(&db), questions(&copy), "{from} to {to}");
            assert_eq!(questions(&db), questions(&other), "{from} to {to}");
            copy.execute_batch("delete from t where a>0; create table more(x)").unwrap();
            assert_eq!(transcript(&copy, "pragma integrity_check")[0], "'ok'");
        }
    }
}

/// A step of no pages is how programs learn how long their bar of progress has to be.
#[test]
fn a_backup_says_how_much_there_is_to_copy() {
    for from in ENGINES {
        for to in ENGINES {
            let pair = Pair::new();
            let db = filled(&pair, from);
            let mut copy = open(&pair.path("copy.db"), to);
            let backup = Backup::new(&db, &mut copy).unwrap();
            assert_eq!(backup.step(0), Ok(StepResult::More), "{from} to {to}");
            let begun = backup.progress();
            assert!(begun.pagecount > 0, "{from} to {to}");
            assert_eq!(begun.remaining, begun.pagecount, "{from} to {to}");
            assert_eq!(backup.step(-1), Ok(StepResult::Done), "{from} to {to}");
            let done = backup.progress();
            assert_eq!((done.pagecount, done.remaining), (begun.pagecount, 0), "{from} to {to}");
        }
    }
}

#[test]
fn a_backup_waits_for_a_transaction_of_its_source() {
    for from in ENGINES {
        for to in ENGINES {
            let pair = Pair::new();
            let mut db = filled(&pair, from);
            let mut copy = open(&pair.path("copy.db"), to);
            let words = "not committed";
            db.execute_batch(&format!("begin; insert into t values(100000,0,'{words}')")).unwrap();
            // An image has what its connection sees.
            let image = db.serialize("main").unwrap();
            assert!(image.windows(words.len()).any(|part| part == words.as_bytes()), "{from}");
            drop(image);
            let backup = Backup::new(&db, &mut copy).unwrap();
            assert_eq!(backup.step(-1), Ok(StepResult::Busy), "{from} to {to}");
            db.execute_batch("rollback").unwrap();
            assert_eq!(backup.step(-1), Ok(StepResult::Done), "{from} to {to}");
            drop(backup);
            assert_eq!(questions(&db), questions(&copy), "{from} to {to}");
        }
    }
}

#[test]
fn a_store_goes_into_memory_and_back() {
    let pair = Pair::new();
    let mut db = filled(&pair, "hedgerow");
    let mut memory = Connection::open_in_memory().unwrap();
    Backup::new(&db, &mut memory).unwrap().step(-1).unwrap();
    assert_eq!(questions(&db), questions(&memory));
    db.execute_batch("delete from t; drop table w").unwrap();
    Backup::new(&memory, &mut db).unwrap().step(-1).unwrap();
    assert_eq!(questions(&db), questions(&memory));
}

#[test]
fn a_file_is_what_it_is_and_a_new_one_what_is_asked_for() {
    let pair = Pair::new();
    let path = pair.path("hedgerow.db");
    drop(filled(&pair, "hedgerow"));
    let db = Connection::open(&path).unwrap();
    assert_eq!(transcript(&db, "pragma engine")[0], "'hedgerow'");
    assert_eq!(transcript(&db, "select count(*) from t")[0], "2001");

    let db = Connection::open(pair.path("new.db")).unwrap();
    assert_eq!(transcript(&db, "pragma engine")[0], "'sqlite'");
    assert_eq!(transcript(&db, "pragma engine=hedgerow")[0], "'hedgerow'");
    db.execute_batch("create table t(a); insert into t values(1)").unwrap();
    drop(db);
    let db = Connection::open(pair.path("new.db")).unwrap();
    assert_eq!(transcript(&db, "pragma engine; select * from t")[..2], ["'hedgerow'", "1"]);
    assert!(transcript(&db, "pragma engine=sqlite")[0].starts_with("error: "));
    assert!(transcript(&db, "pragma engine=other")[0].contains("no engine"));

    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags("file:/memory?vfs=memdb", flags).unwrap();
    let said = &transcript(&db, "pragma engine=hedgerow")[0];
    assert!(said.contains("VFS \"memdb\""), "{said}");
}
