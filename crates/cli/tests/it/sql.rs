//! `sql`: statements from arguments, from standard input and typed; commands; errors.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::tcgetattr;

use crate::sandbox::{Run, Sandbox};

const MAKE: &str = "create table t(a integer primary key, b text); create index i on t(b);
    insert into t values(1,'one'),(2,NULL),(30,'three, and more')";

fn filled() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok(&["sql", "s", MAKE]);
    sandbox
}

fn feed(sandbox: &Sandbox, arguments: &[&str], input: &str) -> Run {
    sandbox.feed(&[&["sql", "s"], arguments].concat(), input.as_bytes())
}

#[test]
fn a_new_file_is_a_store_and_rows_are_shown_in_many_ways() {
    let sandbox = filled();
    assert_eq!(&std::fs::read(sandbox.path("s")).unwrap()[..8], b"HEDGEROW");
    sandbox.check("s");
    let all = "select * from t";
    let shown = |arguments: &[&str]| sandbox.ok(&[&["sql", "s", all], arguments].concat());
    let table = "a   b\n--  ---------------\n 1  one\n 2  NULL\n30  three, and more\n";
    assert_eq!(shown(&[]), table);
    assert_eq!(shown(&["--csv"]), "a,b\n1,one\n2,\n30,\"three, and more\"\n");
    assert_eq!(shown(&["--mode", "list"]), "a|b\n1|one\n2|\n30|three, and more\n");
    assert!(shown(&["--mode", "line"]).starts_with("a = 1\nb = one\n\na = 2\nb = NULL\n"));
    let json: serde_json::Value = serde_json::from_str(&shown(&["--json"])).unwrap();
    assert_eq!(json[1], serde_json::json!({"a": 2, "b": null}));
    assert_eq!(sandbox.ok(&["sql", "s", "--json", "select * from t where a=9"]), "[]\n");
    let values = "select x'0aff' as x, 9223372036854775807 as y, 1e999 as z, 0.5 as r";
    let json = "[{\"x\":\"x'0aff'\",\"y\":9223372036854775807,\"z\":1e999,\"r\":0.5}]\n";
    assert_eq!(sandbox.ok(&["sql", "s", "--json", values]), json);
    // Each argument is one or more statements.
    let two = sandbox.ok(&["sql", "s", "--csv", "select 1 as x; select 2 as x", "select 3 as x"]);
    assert_eq!(two, "x\n1\nx\n2\nx\n3\n");
}

#[test]
fn no_value_is_lost_where_it_is_shown() {
    let sandbox = Sandbox::new();
    let text = "select cast(x'c3ff2c' as text) as t, 'plain' as u";
    let json: serde_json::Value = sandbox.json(&["sql", "s", text]);
    assert_eq!(json[0], serde_json::json!({"t_base64": "w/8s", "u": "plain"}));
    let shown = |mode: &str| sandbox.run(&["sql", "s", "--mode", mode, text]).is(0).out;
    assert_eq!(shown("csv"), b"t,u\n\"\xc3\xff,\",plain\n");
    assert_eq!(shown("list"), b"t|u\n\xc3\xff,|plain\n");
    // No two members of an object have one name.
    let twice = "select 1 as a, 2 as a, 3 as \"a:1\", 4 as a";
    let json = sandbox.ok(&["sql", "s", "--json", twice]);
    assert_eq!(json, "[{\"a\":1,\"a:1\":2,\"a:1:1\":3,\"a:2\":4}]\n");
    assert_eq!(sandbox.ok(&["sql", "s", "--csv", twice]), "a,a,a:1,a\n1,2,3,4\n");
}

#[test]
fn a_file_of_sqlite_stays_one() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["sql", "s", MAKE]);
    sandbox.ok(&["sql", "s", "vacuum into 'file:copy?engine=sqlite'"]);
    assert_eq!(&std::fs::read(sandbox.path("copy")).unwrap()[..6], b"SQLite");
    let engine = ["sql", "copy", "--csv", ".headers off", "pragma engine; select count(*) from t"];
    assert_eq!(sandbox.ok(&engine), "sqlite\n3\n");
}

#[test]
fn standard_input_holds_statements_and_commands() {
    let sandbox = filled();
    let script = "-- a comment; with a semicolon\n.mode csv\n.headers off\nselect\n  count(*)\nfrom t;\n\
        create trigger r after insert on t begin\n  insert into log values(new.a);\nend;\n\
        create table log(a); insert into t values(4,'four'); select a from log;\nselect 'last'";
    assert_eq!(feed(&sandbox, &[], script).is(0).text(), "3\n4\nlast\n");
    assert_eq!(feed(&sandbox, &[], ".quit\nselect 1;").is(0).text(), "");
    assert!(feed(&sandbox, &[], ".help").is(0).text().contains(".import"));
    feed(&sandbox, &[], ".timer on\nselect 1;").is(0).says(" s\n");
}

#[test]
fn an_error_says_what_and_where_and_ends_the_script() {
    let sandbox = filled();
    let script = "insert into t values(5,'five');\n\nselect a,\n  absent\nfrom t;\ninsert into t values(6,'')";
    let run = feed(&sandbox, &[], script).is(1);
    let said = "error: no such column: absent\n  line 4 of standard input\n    absent\n    ^\n";
    assert_eq!(run.err, said);
    let count = sandbox.ok(&["sql", "s", "--csv", "select count(*) as m from t where a in (5,6)"]);
    assert_eq!(count, "m\n1\n", "what came before is kept, and nothing came after");
    let run = sandbox.run(&["sql", "s", "insert into t values(1,'again')"]).is(1);
    assert_eq!(run.err, "error: UNIQUE constraint failed: t.a\n");
    // A transaction that an error ends is rolled back.
    feed(&sandbox, &[], "begin; delete from t; select * from nowhere; commit;").is(1);
    assert_eq!(sandbox.ok(&["sql", "s", "--csv", "select count(*) as n from t"]), "n\n4\n");
    feed(&sandbox, &[], "select 1;\n.nothing").is(1).says(".nothing is no command").says("line 2");
    sandbox.run(&["sql", "s", "--mode", "none", "select 1"]).is(2);
    sandbox
        .write("text", "this is no database, and long enough to be looked at as one. ".repeat(20));
    sandbox.run(&["sql", "text", "select 1"]).is(3).says("text").says("not a database");
    sandbox.ok(&["create", "--engine", "lsm", "log"]);
    sandbox.run(&["sql", "log", "select 1"]).is(3).says("SQL needs a store of the engine tree");
}

#[test]
fn commands_list_read_import_and_dump() {
    let sandbox = filled();
    sandbox.ok(&["sql", "s", "create view v as select a from t; create table u(x real, y)"]);
    assert_eq!(feed(&sandbox, &[], ".tables").is(0).text(), "t\nu\nv\n");
    assert_eq!(feed(&sandbox, &[], ".tables u%").is(0).text(), "u\n");
    let schema = feed(&sandbox, &[], ".schema t").is(0).text();
    assert!(schema.contains("CREATE TABLE t(a") && schema.contains("CREATE INDEX i"), "{schema}");

    sandbox.write("new file.csv", "name,\"the size\"\nash,30\n\"oak, old\",\"4\"\"0\"\n");
    feed(&sandbox, &[], ".import 'new file.csv' trees").is(0);
    let trees = ["sql", "s", "--json", "select * from trees where name like 'oak%'"];
    assert_eq!(sandbox.ok(&trees), "[{\"name\":\"oak, old\",\"the size\":\"4\\\"0\"}]\n");
    sandbox.write("rows.csv", "x,y\n1,a\n2.5,b\n");
    feed(&sandbox, &[], ".import --skip 1 rows.csv u").is(0);
    assert_eq!(sandbox.ok(&["sql", "s", "--csv", "select sum(x) as s from u"]), "s\n3.5\n");
    // A file with a bad row leaves nothing.
    sandbox.write("bad.csv", "7,c\n8\n");
    let run = feed(&sandbox, &[], ".import bad.csv u").is(1);
    run.says("bad.csv: line 2 has 1 values, and u 2 columns");
    feed(&sandbox, &[], ".import nothing.csv u").is(1).says("nothing.csv");
    assert_eq!(sandbox.ok(&["sql", "s", "--csv", "select count(*) as n from u"]), "n\n2\n");

    sandbox.write("inner.sql", "select 1/0 as x, 2 as y;\nselect wrong;");
    sandbox.write("outer.sql", ".mode csv\n.read inner.sql\nselect 3;");
    let run = feed(&sandbox, &[], ".read outer.sql").is(1);
    assert!(run.err.contains("line 2 of inner.sql"), "{}", run.err);
    assert_eq!(String::from_utf8(run.out).unwrap(), "x,y\n,2\n");
    sandbox.write("self.sql", ".read self.sql");
    feed(&sandbox, &[], ".read self.sql").is(1).says("is read by a file that it reads");
}

#[test]
fn bytes_of_a_script_stay_what_they_are() {
    let sandbox = filled();
    feed(&sandbox, &[], "insert into t values(40,'a\r\nb');\r\n.headers off\r\n").is(0);
    assert_eq!(
        sandbox.ok(&["sql", "s", "--csv", "select hex(b) as h from t where a=40"]),
        "h\n610D0A62\n"
    );
    let script = b"delete from t;\ninsert into t values(41,'\xff');";
    sandbox.feed(&["sql", "s"], script).is(1).says("line 2 of standard input is not UTF-8");
    sandbox.write("script", script);
    feed(&sandbox, &[], ".read script").is(1).says("line 2 of script is not UTF-8");
    assert_eq!(sandbox.ok(&["sql", "s", "--csv", "select count(*) as n from t"]), "n\n4\n");
    sandbox.write("cut.csv", "a,b\n50,\"cut\n51,x\n");
    feed(&sandbox, &[], ".import --skip 1 cut.csv t").is(1).says("line 2 has no end");
}

#[test]
fn a_dump_makes_the_same_database() {
    let sandbox = filled();
    let more = "create table k(a integer primary key autoincrement, b as (a*2), c default 'it''s');
        insert into k(c) values(x'00ff'),(char(97,0,98)),(1e300),(-1e999),(0.1);
        insert into k(c) values(9223372036854775807);
        create table w(k text primary key, v) without rowid; insert into w values('ü',1);
        create view v as select * from w; create trigger r after insert on w begin select 1; end;
        create virtual table f using fts5(words); insert into f values('many words here');
        create table \"odd \"\"name\"(\"a b\"); insert into \"odd \"\"name\" values('\n'),('\r\n'); analyze";
    sandbox.ok(&["sql", "s", more]);
    let dump = feed(&sandbox, &[], ".dump").is(0).text();
    sandbox.feed(&["sql", "again"], dump.as_bytes()).is(0);
    let again = sandbox.feed(&["sql", "again"], b".dump").is(0).text();
    assert_eq!(again, dump);
    let asks = [
        "select typeof(c), quote(c), b, length(c) from k",
        "select * from f('words')",
        "select * from v",
        "select seq from sqlite_sequence",
        "pragma integrity_check",
    ];
    for ask in asks {
        assert_eq!(sandbox.ok(&["sql", "again", ask]), sandbox.ok(&["sql", "s", ask]), "{ask}");
    }
    let one = feed(&sandbox, &[], ".dump w").is(0).text();
    assert!(one.contains("'ü'") && one.contains("TRIGGER r") && !one.contains("INDEX i"), "{one}");
}

#[test]
fn nothing_is_written_or_made_for_reading_only() {
    let sandbox = filled();
    let run = sandbox.run(&["sql", "s", "--read-only", "delete from t"]).is(1);
    assert!(run.err.contains("readonly"), "{}", run.err);
    sandbox.run(&["sql", "none", "--read-only", "select 1"]).is(3).says("makes none");
    assert!(!sandbox.path("none").exists());
    sandbox.run(&["sql", "no/folder", "select 1"]).is(3).says("its folder is not there");
    // Another name than a plain one.
    sandbox.ok(&["sql", "a b?c#d%41", "create table t(a)"]);
    assert!(sandbox.path("a b?c#d%41").exists());
}

#[test]
fn plans_are_shown_as_trees() {
    let sandbox = filled();
    let plan =
        sandbox.ok(&["sql", "s", "explain query plan select * from t x join t y on y.b=x.b"]);
    let lines: Vec<&str> = plan.lines().collect();
    assert_eq!(lines[0], "QUERY PLAN");
    assert!(lines[1].starts_with("|--SCAN x") && lines[2].starts_with("`--SEARCH y"), "{plan}");
    let program = sandbox.ok(&["sql", "s", "explain select count(*) from t"]);
    assert!(program.starts_with("addr") && program.contains("Count"), "{program}");
}

const ENDLESS: &str =
    "with recursive x(i) as (values(1) union all select i+1 from x) select count(*) from x";

#[test]
fn a_signal_interrupts_a_statement() {
    let sandbox = filled();
    let sql = format!("delete from t; select 'begun' as x; {ENDLESS}");
    let mut child = sandbox.start(&["sql", "s", "--csv", &sql]);
    let mut begun = [0; 8];
    child.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"x\nbegun\n");
    std::thread::sleep(Duration::from_millis(200));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    drop(child.stdin.take());
    let run = Run::from(child.wait_with_output().unwrap());
    run.is(130).says("interrupted");
    // What was committed before stays.
    assert_eq!(sandbox.ok(&["sql", "s", "--csv", "select count(*) as n from t"]), "n\n0\n");
}

/// Reads from a terminal until a text appears, and forgets what came before.
fn until(terminal: &mut File, seen: &mut String, text: &str) {
    let begun = Instant::now();
    let mut buffer = [0; 4096];
    while !seen.contains(text) {
        let left = Duration::from_secs(60).saturating_sub(begun.elapsed());
        let mut one = [PollFd::new(&*terminal, PollFlags::IN)];
        let ready = poll(&mut one, Some(&left.try_into().unwrap())).unwrap();
        assert!(ready > 0, "\"{text}\" is not in: {seen}");
        let len = terminal.read(&mut buffer).unwrap();
        seen.push_str(&String::from_utf8_lossy(&buffer[..len]));
    }
    seen.drain(..seen.find(text).unwrap() + text.len());
}

/// The side of a new terminal from which its output is read.
fn terminal() -> File {
    let main = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR).unwrap();
    rustix::pty::grantpt(&main).unwrap();
    rustix::pty::unlockpt(&main).unwrap();
    File::from(main)
}

/// The command on the other side of a terminal.
fn typing(sandbox: &Sandbox, terminal: &File) -> Child {
    let name = rustix::pty::ptsname(terminal, Vec::new()).unwrap();
    let name = std::ffi::OsStr::from_bytes(name.to_bytes());
    let side = || Stdio::from(File::options().read(true).write(true).open(name).unwrap());
    Command::new(env!("CARGO_BIN_EXE_hedgerow"))
        .args(["sql", "s"])
        .env("XDG_STATE_HOME", sandbox.path("state"))
        .env("TERM", "xterm")
        .current_dir(sandbox.path(""))
        .stdin(side())
        .stdout(side())
        .stderr(side())
        .spawn()
        .unwrap()
}

#[test]
fn statements_are_typed_with_a_history() {
    let sandbox = filled();
    let mut terminal = terminal();
    let mut child = typing(&sandbox, &terminal);
    let mut seen = String::new();
    until(&mut terminal, &mut seen, "sql> ");
    terminal.write_all(b"select 40 +\r").unwrap();
    until(&mut terminal, &mut seen, "...> ");
    terminal.write_all(b"2;\r").unwrap();
    until(&mut terminal, &mut seen, "42");
    terminal.write_all(b"select wrong;\r").unwrap();
    until(&mut terminal, &mut seen, "no such column: wrong");
    terminal.write_all(b"select 'still '||'there';\r").unwrap();
    until(&mut terminal, &mut seen, "still there");
    until(&mut terminal, &mut seen, "sql> ");
    terminal.write_all(b"select 'forgotten\x03").unwrap();
    // Pasting is told apart from typing as long as a line is edited.
    until(&mut terminal, &mut seen, "\x1b[?2004l");
    until(&mut terminal, &mut seen, "\x1b[?2004h");
    // Several lines at once, as if they were pasted.
    terminal.write_all(b"select 'pasted '||1;\rselect 'pasted '||\r2;\r.quit\r").unwrap();
    until(&mut terminal, &mut seen, "pasted 2");
    assert!(child.wait().unwrap().success());
    let history = std::fs::read_to_string(sandbox.path("state/hedgerow/sql-history")).unwrap();
    assert!(history.contains("select wrong;") && history.contains("40 +"), "{history}");
    assert_eq!(history.matches("pasted").count(), 2, "{history}");
}

/// Ctrl-C ends what is typed or runs; the other signals end the session.
#[test]
fn a_request_to_end_that_is_not_from_the_keyboard_ends_typing() {
    let sandbox = filled();
    for is_running in [false, true] {
        let mut terminal = terminal();
        let before = tcgetattr(&terminal).unwrap().local_modes;
        let mut child = typing(&sandbox, &terminal);
        let mut seen = String::new();
        until(&mut terminal, &mut seen, "sql> ");
        if is_running {
            write!(terminal, "select 'be'||'gun'; {ENDLESS};\r").unwrap();
            until(&mut terminal, &mut seen, "begun");
        } else {
            assert_ne!(tcgetattr(&terminal).unwrap().local_modes, before, "lines are edited");
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        until(&mut terminal, &mut seen, "interrupted");
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let mut rest = Vec::new();
        // Where nobody has the other side any more, this ends with an error.
        let _ = terminal.read_to_end(&mut rest);
        seen.push_str(&String::from_utf8_lossy(&rest));
        assert!(!seen.contains("interrupted"), "it is told twice: {seen}");
        assert_eq!(tcgetattr(&terminal).unwrap().local_modes, before);
    }
}
