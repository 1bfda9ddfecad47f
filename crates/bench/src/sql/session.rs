//! One run: the same statements on a store and on files of SQLite's, the engines taking turns in
//! each test, every answer compared.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::Settings;
use super::plan::{self, SIZES, Test};
use super::run::{Row, Size};
use crate::engine::Result;
use crate::engines::sql::{Cell, Database, Library};

/// One engine, and its file of this round.
struct Side {
    engine: usize,
    name: &'static str,
    folder: PathBuf,
    database: Option<Database>,
}

/// What a statement answered: a check sum of all its rows, how many there were, and the first ones
/// for a person.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    sum: u64,
    rows: u64,
    shown: String,
}

impl Answer {
    /// Adds a row.
    fn add(&mut self, cells: &[Cell<'_>]) {
        self.rows += 1;
        let is_shown = self.shown.len() < 400;
        for cell in cells {
            match cell {
                Cell::Null => self.mix(0),
                Cell::Integer(number) => self.mix(number.cast_unsigned()),
                Cell::Real(number) => self.mix(number.to_bits()),
                Cell::Text(bytes) | Cell::Blob(bytes) => {
                    bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
                }
            }
            self.mix(0xff);
            if is_shown {
                let _ = match cell {
                    Cell::Text(bytes) => write!(self.shown, "{}|", String::from_utf8_lossy(bytes)),
                    other => write!(self.shown, "{other:?}|"),
                };
            }
        }
    }

    /// A step of FNV-1a, by words.
    fn mix(&mut self, word: u64) {
        self.sum = (self.sum ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(5);
    }
}

/// Nanoseconds that this thread has spent on a processor.
fn processor() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

impl Side {
    /// Opens the file, which is made when something is put into it.
    fn open(&self, synchronous: &str) -> Result<Database> {
        let (library, engine, before) = match self.name {
            "hedgerow" => (Library::Ours, "?engine=hedgerow", String::new()),
            name @ ("wal" | "delete") => {
                (Library::Stock, "", format!("pragma journal_mode={name};"))
            }
            kind => (Library::Ours, "?engine=hedgerow", format!("pragma row_checksum={kind};")),
        };
        let uri = format!("file:{}{engine}", self.folder.join("db").display());
        let database = Database::open(library, &uri)?;
        database.run(&format!("{before} pragma synchronous={synchronous}"), &mut |_| {})?;
        Ok(database)
    }

    /// Milliseconds by the clock and by the processor, and what was answered.
    fn measure(&mut self, test: &Test, settings: &Settings) -> Result<(f64, f64, Answer)> {
        let rows = settings.rows;
        let text = |sql: &str| sql.replace("{n}", &rows.to_string());
        let (clock, before) = (Instant::now(), processor());
        let mut answer = Answer::default();
        if self.database.is_none() {
            self.database = Some(self.open(&settings.synchronous)?);
        }
        let Some(database) = &self.database else { return Err("no connection".into()) };
        let mut add = |cells: &[Cell<'_>]| answer.add(cells);
        database.run(&text(test.before), &mut add)?;
        let mut statements = Vec::new();
        for sql in test.each {
            let uses = ["?1", "?2", "?3", "?4"].map(|parameter| sql.contains(parameter));
            statements.push((database.prepare(&text(sql))?, uses));
        }
        for run in 1..=test.times.of(rows) {
            let (count, number, key) = plan::parameters(run);
            for (statement, uses) in &mut statements {
                for (at, value) in [count, number, number, key].into_iter().enumerate() {
                    match at {
                        _ if !uses[at] => {}
                        2 => statement.bind_text(3, &plan::words(number as u64))?,
                        _ => statement.bind(at + 1, value)?,
                    }
                }
                statement.run(&mut add)?;
            }
        }
        drop(statements);
        database.run(&text(test.after), &mut add)?;
        let spent = processor().saturating_sub(before) as f64 / 1e6;
        let taken = clock.elapsed().as_secs_f64() * 1e3;
        database.run(&text(test.check), &mut |cells| answer.add(cells))?;
        Ok((taken, spent, answer))
    }

    /// Bytes of all its files.
    fn bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        for entry in std::fs::read_dir(&self.folder)? {
            bytes += entry?.metadata()?.len();
        }
        Ok(bytes)
    }
}

/// That all engines have answered the same.
fn agree(test: &str, answers: &[(&str, Answer)]) -> Result<()> {
    let Some((first, wanted)) = answers.first() else { return Ok(()) };
    for (name, answer) in answers {
        if answer != wanted {
            let what = format!(
                "{test}: {first} answers {} rows, {}; {name} answers {} rows, {}",
                wanted.rows, wanted.shown, answer.rows, answer.shown
            );
            return Err(what.into());
        }
    }
    Ok(())
}

/// Runs all tests in all rounds.
pub(super) fn run(settings: &Settings, folder: &Path) -> Result<(Vec<Row>, Vec<Size>)> {
    let (mut rows, mut sizes): (Vec<Row>, Vec<Size>) = (Vec::new(), Vec::new());
    for round in 0..settings.rounds as usize {
        let folder = tempfile::tempdir_in(folder)?;
        let side = |engine: usize| -> Result<Side> {
            let name = settings.engines()[engine];
            let folder = folder.path().join(name);
            std::fs::create_dir(&folder)?;
            Ok(Side { engine, name, folder, database: None })
        };
        let mut sides = (0..settings.engines().len()).map(side).collect::<Result<Vec<_>>>()?;
        for (at, test) in plan::all().enumerate() {
            if rows.len() == at {
                rows.push(Row::new(test.name, settings.engines().len()));
            }
            sides.rotate_left(1);
            one(test, settings, &mut sides, &mut rows[at])?;
            if settings.tells {
                eprintln!("round {}, {}", round + 1, test.name);
            }
            let size = SIZES.iter().find(|(after, _)| *after == test.name);
            if let Some((_, when)) = size.filter(|_| round == 0) {
                let mut bytes = vec![0; sides.len()];
                for side in &sides {
                    bytes[side.engine] = side.bytes()?;
                }
                sizes.push(Size { when: (*when).to_owned(), bytes });
            }
        }
    }
    Ok((rows, sizes))
}

/// One test, the engines one after the other.
fn one(test: &Test, settings: &Settings, sides: &mut [Side], row: &mut Row) -> Result<()> {
    let mut answers = Vec::new();
    for side in sides {
        let (name, engine) = (side.name, side.engine);
        let measured = side.measure(test, settings);
        let (taken, spent, answer) = measured.map_err(|e| format!("{}, {name}: {e}", test.name))?;
        row.ms[engine].push(taken);
        row.processor_ms[engine].push(spent);
        answers.push((name, answer));
    }
    agree(test.name, &answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_different_answer_is_seen() {
        let answer = |cells: &[Cell<'_>]| {
            let mut answer = Answer::default();
            answer.add(cells);
            answer
        };
        let pair = |one, other| [("hedgerow", one), ("wal", other)];
        let one = [Cell::Integer(1), Cell::Text(b"a")];
        assert!(agree("t", &pair(answer(&one), answer(&one))).is_ok());
        let other = [Cell::Integer(1), Cell::Text(b"b")];
        let error = agree("t", &pair(answer(&one), answer(&other))).unwrap_err().to_string();
        assert_eq!(
            error,
            "t: hedgerow answers 1 rows, Integer(1)|a|; wal answers 1 rows, Integer(1)|b|"
        );
    }

    #[test]
    fn all_statements_run_and_all_answers_agree() {
        let folder = tempfile::tempdir().unwrap();
        for row_checksums in [false, true] {
            let synchronous = "off".into();
            let settings =
                Settings { rows: 200, rounds: 1, synchronous, row_checksums, tells: false };
            let (rows, sizes) = run(&settings, folder.path()).unwrap();
            assert_eq!(rows.len(), plan::all().count());
            assert!(rows.iter().all(|row| row.ms.iter().all(|rounds| rounds.len() == 1)));
            assert!(sizes.iter().all(|size| size.bytes.iter().all(|bytes| *bytes > 0)));
        }
    }
}
