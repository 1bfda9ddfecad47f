//! Writes the scripts of `testdata`: statements from a seed, and what SQLite on a file of its own
//! answers. `slt FOLDER [SEED]`; the same seed gives the same files.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use sqlite as _;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What makes a script of a kind.
type Make = fn(&mut Script) -> Result<()>;

/// The kinds of script.
const KINDS: [(&str, Make); 9] = [
    ("between", between),
    ("commute", commute),
    ("delete", delete),
    ("orderby", order_by),
    ("view", view),
    ("random", random),
    ("in", inside),
    ("aggregates", aggregates),
    ("transactions", transactions),
];
/// Scripts of each kind.
const FILES: u64 = 3;

/// A script that is being written.
struct Script {
    db: Connection,
    text: String,
    state: u64,
}

impl Script {
    /// A number below `n` (SplitMix64).
    fn below(&mut self, n: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ z >> 31) % n
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }

    /// A statement, which may fail: the script says which it does.
    fn statement(&mut self, sql: &str) -> Result<()> {
        let word = if self.db.execute_batch(sql).is_ok() { "ok" } else { "error" };
        writeln!(self.text, "statement {word}\n{sql}\n")?;
        Ok(())
    }

    /// A query; without an order of its own its rows are sorted.
    fn query(&mut self, sql: &str) -> Result<()> {
        let mut statement = self.db.prepare(sql)?;
        let columns = statement.column_count();
        let mut lines = Vec::new();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let cells = (0..columns).map(|column| row.get_ref(column).map(shown));
            lines.push(cells.collect::<rusqlite::Result<Vec<_>>>()?.join(" "));
        }
        let sort = if sql.contains("ORDER BY") { "nosort" } else { "rowsort" };
        if sort == "rowsort" {
            lines.sort();
        }
        writeln!(self.text, "query {} {sort}\n{sql}\n----", "T".repeat(columns))?;
        lines.iter().try_for_each(|line| writeln!(self.text, "{line}"))?;
        writeln!(self.text)?;
        Ok(())
    }

    /// Tables of the same rows with different indexes, as the queries are asked of all of them.
    fn tables(&mut self, rows: u64) -> Result<()> {
        let columns = "pk INTEGER PRIMARY KEY, col0 INTEGER, col1 REAL, col2 TEXT";
        self.statement(&format!("CREATE TABLE tab0({columns})"))?;
        self.statement(&format!("CREATE TABLE tab1({columns})"))?;
        let text = "pk TEXT PRIMARY KEY, col0 INTEGER, col1 REAL, col2 TEXT";
        self.statement(&format!("CREATE TABLE tab2({text}) WITHOUT ROWID"))?;
        for sql in [
            "CREATE INDEX idx0 ON tab1(col0)",
            "CREATE INDEX idx1 ON tab1(col1 DESC, col0)",
            "CREATE INDEX idx2 ON tab1(col2 COLLATE NOCASE)",
            "CREATE UNIQUE INDEX idx3 ON tab2(col0, pk)",
            "CREATE INDEX idx4 ON tab2(col2, col1) WHERE col0 > 100",
        ] {
            self.statement(sql)?;
        }
        for pk in 0..rows {
            let (col0, col1) = (self.number(), self.below(2000));
            let col2 = self.word();
            let sql = format!("INSERT INTO tab0 VALUES({pk},{col0},{col1}.5,{col2})");
            self.statement(&sql)?;
        }
        self.statement("INSERT INTO tab1 SELECT * FROM tab0")?;
        self.statement("INSERT INTO tab2 SELECT 'k'||pk, col0, col1, col2 FROM tab0")
    }

    fn number(&mut self) -> String {
        match self.below(12) {
            0 => "NULL".into(),
            1 => format!("-{}", self.below(500)),
            _ => self.below(1000).to_string(),
        }
    }

    fn word(&mut self) -> String {
        let n = self.below(60);
        match n % 9 {
            0 => "NULL".into(),
            1 => format!("'{}'", self.pick(&["", "A", "a", "Zz"])),
            _ => format!("'{}{n}'", self.pick(&["w", "W", "wo", "x"])),
        }
    }

    fn table(&mut self) -> &'static str {
        self.pick(&["tab0", "tab1", "tab2"])
    }

    /// A condition on a row.
    fn condition(&mut self, depth: u32) -> String {
        let (one, two) = (self.number(), self.number());
        let operator = self.pick(&["=", "<", "<=", ">", ">=", "<>"]);
        let words = (self.word(), self.word());
        match self.below(if depth > 0 { 10 } else { 7 }) {
            0 => format!("col0 BETWEEN {one} AND {two}"),
            1 => format!("col0 {operator} {one}"),
            2 => format!("col1 {operator} {one}"),
            3 => format!("col2 {operator} {}", words.0),
            4 => format!("col0 IN ({one},{two},{})", self.number()),
            5 => format!("col2 {operator} {} COLLATE NOCASE", words.0),
            6 => "col0 IS NULL".into(),
            7 => format!("({} AND {})", self.condition(depth - 1), self.condition(depth - 1)),
            8 => format!("({} OR {})", self.condition(depth - 1), self.condition(depth - 1)),
            _ => format!("NOT ({})", self.condition(depth - 1)),
        }
    }

    /// A question whose answer is short: rows that are few, or a summary of all.
    fn ask(&mut self, condition: &str) -> Result<()> {
        for table in ["tab0", "tab1", "tab2"] {
            self.query(&format!(
                "SELECT COUNT(*), SUM(col0), MIN(col1), MAX(col2) FROM {table} WHERE {condition}"
            ))?;
        }
        Ok(())
    }
}

/// A value as the scripts have it.
fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".into(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => format!("{number:.3}"),
        ValueRef::Text(b"") => "(empty)".into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).replace(' ', "_"),
        ValueRef::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn between(script: &mut Script) -> Result<()> {
    script.tables(120)?;
    for _ in 0..60 {
        let (one, two) = (script.number(), script.number());
        let column = script.pick(&["col0", "col1"]);
        script.ask(&format!("{column} BETWEEN {one} AND {two}"))?;
        script.ask(&format!("NOT {column} BETWEEN {one} AND {two}"))?;
    }
    Ok(())
}

/// Both sides of a comparison, exchanged.
fn commute(script: &mut Script) -> Result<()> {
    script.tables(120)?;
    for _ in 0..60 {
        let value = script.number();
        for (one, other) in [("<", ">"), ("<=", ">="), ("=", "=")] {
            script.ask(&format!("col0 {one} {value}"))?;
            script.ask(&format!("{value} {other} col0"))?;
        }
    }
    Ok(())
}

fn delete(script: &mut Script) -> Result<()> {
    script.tables(200)?;
    for round in 0..40 {
        let (condition, table) = (script.condition(1), script.table());
        script.statement(&format!("DELETE FROM {table} WHERE {condition}"))?;
        script.query(&format!("SELECT COUNT(*), SUM(col0), MAX(col1) FROM {table}"))?;
        let (pk, col0, col2) = (1000 + round, script.number(), script.word());
        for table in ["tab0", "tab1", "tab2"] {
            script.statement(&format!("INSERT INTO {table} VALUES({pk},{col0},{pk}.25,{col2})"))?;
        }
        let other = script.condition(1);
        script.ask(&other)?;
    }
    script.query("PRAGMA integrity_check")
}

fn order_by(script: &mut Script) -> Result<()> {
    script.tables(120)?;
    for _ in 0..120 {
        let (table, condition) = (script.table(), script.condition(1));
        let sort = script.pick(&[
            "col0, pk",
            "col0 DESC, pk",
            "col1, pk DESC",
            "col1 DESC, col0, pk",
            "pk DESC",
            "col2, pk",
            "col2 COLLATE NOCASE, pk",
            "col2 DESC, col1, pk",
            "1, 2, pk",
        ]);
        let (limit, offset) = (script.below(12), script.below(20));
        script.query(&format!(
            "SELECT pk, col0, col2 FROM {table} WHERE {condition} ORDER BY {sort}
LIMIT {limit} OFFSET {offset}"
        ))?;
    }
    Ok(())
}

fn view(script: &mut Script) -> Result<()> {
    script.tables(100)?;
    for number in 0..40 {
        let (condition, table) = (script.condition(1), script.table());
        script.statement(&format!(
            "CREATE VIEW view{number} AS SELECT pk, col0, col1, col2 FROM {table} WHERE {condition}"
        ))?;
        let filter = script.condition(0);
        script.query(&format!("SELECT COUNT(*), SUM(col1) FROM view{number} WHERE {filter}"))?;
        script.query(&format!("SELECT COUNT(*) FROM view{number} JOIN tab1 USING(col0)"))?;
        if number % 4 == 3 {
            script.statement(&format!("DROP VIEW view{}", number - 1))?;
            script.statement(&format!("SELECT * FROM view{}", number - 1))?;
        }
    }
    Ok(())
}

fn random(script: &mut Script) -> Result<()> {
    script.tables(80)?;
    for _ in 0..120 {
        let condition = script.condition(2);
        let (one, other) = (script.table(), script.table());
        let column = script.pick(&["col0", "col0%10", "lower(col2)", "CAST(col1 AS INTEGER)%7"]);
        match script.below(6) {
            0 => script.query(&format!(
                "SELECT {column}, COUNT(*) FROM {one} WHERE {condition} GROUP BY 1 ORDER BY 2 DESC, 1
LIMIT 8"
            ))?,
            1 => script.query(&format!(
                "SELECT COUNT(*) FROM {one} a JOIN {other} b ON a.col0=b.col0 WHERE a.col1>b.col1-500"
            ))?,
            2 => script.query(&format!(
                "SELECT COUNT(*) FROM {one} WHERE {condition} AND col0 IN
(SELECT col0 FROM {other} WHERE col1>700)"
            ))?,
            3 => script.query(&format!("SELECT COUNT(DISTINCT {column}) FROM {one} WHERE {condition}"))?,
            4 => {
                let or = script.pick(&["", " OR IGNORE", " OR REPLACE"]);
                let sql = format!("UPDATE{or} {one} SET col0=col0+7, col2=lower(col2) WHERE {condition}");
                script.statement(&sql)?;
            }
            _ => script.ask(&condition)?,
        }
    }
    script.query("PRAGMA integrity_check")
}

fn inside(script: &mut Script) -> Result<()> {
    script.tables(120)?;
    for _ in 0..60 {
        let count = 1 + script.below(9);
        let list: Vec<String> = (0..count).map(|_| script.number()).collect();
        let not = script.pick(&["", "NOT "]);
        script.ask(&format!("col0 {not}IN ({})", list.join(",")))?;
        let condition = script.condition(0);
        script.ask(&format!("col2 {not}IN (SELECT col2 FROM tab2 WHERE {condition})"))?;
    }
    Ok(())
}

fn aggregates(script: &mut Script) -> Result<()> {
    script.tables(120)?;
    for _ in 0..100 {
        let (table, condition) = (script.table(), script.condition(1));
        let what = script.pick(&[
            "COUNT(*), COUNT(col0), COUNT(DISTINCT col0)",
            "MIN(col0), MAX(col0), MIN(col2), MAX(col2)",
            "SUM(col0), TOTAL(col1), AVG(col0)",
            "SUM(DISTINCT col0), COUNT(col2), MAX(length(col2))",
        ]);
        script.query(&format!("SELECT {what} FROM {table} WHERE {condition}"))?;
        script.query(&format!(
            "SELECT col0%5, {what} FROM {table} GROUP BY 1 HAVING COUNT(*)>2 ORDER BY 1"
        ))?;
    }
    Ok(())
}

fn transactions(script: &mut Script) -> Result<()> {
    script.tables(100)?;
    for round in 0..30 {
        let (first, second) = (script.condition(0), script.condition(0));
        let table = script.table();
        script.statement("BEGIN")?;
        script.statement(&format!("UPDATE {table} SET col0=col0+1 WHERE {first}"))?;
        script.statement("SAVEPOINT one")?;
        script.statement(&format!("DELETE FROM {table} WHERE {second}"))?;
        let pk = if table == "tab2" { "'k5'" } else { "5" };
        script
            .statement(&format!("INSERT INTO {table} VALUES({pk},1,2.0,'x'),({pk},1,2.0,'x')"))?;
        script.query(&format!("SELECT COUNT(*), SUM(col0) FROM {table}"))?;
        if round % 3 > 0 {
            script.statement("ROLLBACK TO one")?;
        }
        script.statement(if round % 5 == 0 { "ROLLBACK" } else { "COMMIT" })?;
        script.ask(&first)?;
    }
    script.query("PRAGMA integrity_check")
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: slt FOLDER [SEED]")?;
    let seed: u64 = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    for (kind, write) in KINDS {
        for number in 0..FILES {
            let state = seed.wrapping_mul(1_000_003) ^ number << 32 ^ kind.len() as u64;
            let state =
                kind.bytes().fold(state, |state, byte| state.rotate_left(7) ^ u64::from(byte));
            let text =
                format!("# {kind}, seed {seed}: what SQLite answers on a file of its own.\n\n");
            let mut script = Script { db: Connection::open_in_memory()?, text, state };
            write(&mut script)?;
            let path = Path::new(&folder).join(format!("{kind}-{number}.slt"));
            std::fs::write(path, script.text.trim_end().to_owned() + "\n")?;
        }
    }
    Ok(())
}
