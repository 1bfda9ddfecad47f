//! The commands that begin with a dot.

use std::path::Path;

use clap::ValueEnum as _;

use super::session::{Place, Session, Then, message};
use super::show::Mode;
use super::{dump, import};
use crate::exit::Failure;

const HELP: &str = "\
.dump [TABLE]             print SQL that makes the database, or a table, anew
.headers on|off           show the names of columns
.help                     this list
.import [--skip N] FILE TABLE
                          put the rows of a CSV file into a table; the first row names the
                          columns of a new one
.mode table|csv|json|line|list
                          how rows are shown
.quit                     end
.read FILE                run the statements and commands of a file
.schema [NAME]            print how tables, indexes, views and triggers were made
.tables [PATTERN]         list tables and views
.timer on|off             say how long statements take
";

/// The deepest chain of files that read each other.
const DEPTH_MAX: usize = 16;

fn refused(message: impl Into<String>) -> Failure {
    Failure::Refused(message.into())
}

/// The words of a command; quotes hold spaces.
fn words(line: &str) -> Result<Vec<String>, Failure> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '\'' | '"' => {
                let found = rest[1..].split_once(first);
                found.ok_or_else(|| refused(format!("{first} has no end: {line}")))?
            }
            _ => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    Ok(words)
}

fn switch(word: &str) -> Result<bool, Failure> {
    match word {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(refused(format!("{word} is neither on nor off"))),
    }
}

/// Runs a command.
pub(super) fn run(session: &mut Session, line: &str) -> Result<Then, Failure> {
    let words = words(line)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [".quit" | ".exit"] => return Ok(Then::Quit),
        [".help"] => write!(session.out, "{HELP}")?,
        [".mode", name] => {
            let mode = Mode::from_str(name, false);
            session.mode = mode.map_err(|_| {
                refused(format!("there is no mode {name}; table, csv, json, line and list are"))
            })?;
        }
        [".headers", word] => session.headers = switch(word)?,
        [".timer", word] => session.timer = switch(word)?,
        [".tables"] => tables(session, "%")?,
        [".tables", pattern] => tables(session, pattern)?,
        [".schema"] => schema(session, "%")?,
        [".schema", name] => schema(session, name)?,
        [".dump"] => dump::run(session, None)?,
        [".dump", table] => dump::run(session, Some(table))?,
        [".import", file, table] => import::run(&session.db, Path::new(file), table, 0)?,
        [".import", "--skip", count, file, table] => {
            let count = count.parse().map_err(|_| refused(format!("{count} is no number")))?;
            import::run(&session.db, Path::new(file), table, count)?;
        }
        [".read", file] => return read(session, file),
        [command, ..] => {
            return Err(refused(format!(
                "{command} is no command, or has other arguments; see .help"
            )));
        }
        [] => {}
    }
    Ok(Then::GoOn)
}

fn read(session: &mut Session, file: &str) -> Result<Then, Failure> {
    if session.depth == DEPTH_MAX {
        return Err(refused(format!("{file} is read by a file that it reads")));
    }
    let text =
        std::fs::read(file).map_err(|error| refused(format!("could not read {file}: {error}")))?;
    session.depth += 1;
    let done = session.script_of(&text, &Place::File(file.to_owned()));
    session.depth -= 1;
    done
}

/// The texts that a query gives.
pub(super) fn texts(session: &Session, sql: &str, argument: &str) -> Result<Vec<String>, Failure> {
    let texts = || -> rusqlite::Result<Vec<String>> {
        let mut statement = session.db.prepare(sql)?;
        statement.query_map([argument], |row| row.get(0))?.collect()
    };
    texts().map_err(|error| refused(message(&error)))
}

fn tables(session: &mut Session, pattern: &str) -> Result<(), Failure> {
    let sql = "SELECT name FROM sqlite_schema WHERE type IN ('table','view')
               AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name LIKE ?1 ORDER BY 1";
    let names = texts(session, sql, pattern)?;
    names.iter().try_for_each(|name| writeln!(session.out, "{name}"))
}

fn schema(session: &mut Session, name: &str) -> Result<(), Failure> {
    let sql = "SELECT sql||';' FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name LIKE ?1
               ORDER BY tbl_name, type DESC, name";
    let statements = texts(session, sql, name)?;
    statements.iter().try_for_each(|statement| writeln!(session.out, "{statement}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        let found = words(".import 'a b.csv'  \"t\" c ").ok().unwrap();
        assert_eq!(found, [".import", "a b.csv", "t", "c"]);
        assert!(words(".read 'a").is_err());
    }
}
