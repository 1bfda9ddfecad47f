//! `sql`: SQL on a store, from arguments, from standard input, or typed. SQLite does it; this
//! opens the file, reads statements and commands, and shows what they give.

mod dot;
mod dump;
mod import;
mod plan;
mod session;
mod show;
mod split;
mod typed;

use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use sqlite as _;

use crate::exit::{Exit, Failure};
use crate::input;
use crate::open::Engine;
use crate::wait;
use session::{Place, Session};
use show::Mode;

/// Run SQL on a store, or type it
///
/// Statements are given as arguments or on standard input; without either they are typed. A file
/// that does not exist becomes a store; a file of SQLite's stays one. A line that begins with a
/// dot is a command: `.help` lists them.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The store, or a file of SQLite's
    pub(super) store: PathBuf,
    /// Statements, run one after the other
    sql: Vec<String>,
    /// How rows are shown
    #[arg(long, value_enum, conflicts_with_all = ["json", "csv"])]
    mode: Option<Mode>,
    /// Show rows as CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Do not make a file, and write nothing
    #[arg(long)]
    read_only: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let mode = match args.mode {
        Some(mode) => mode,
        None if json => Mode::Json,
        None if args.csv => Mode::Csv,
        None => Mode::Table,
    };
    let is_typed = args.sql.is_empty() && std::io::stdin().is_terminal();
    let db = open(&args.store, args.read_only)?;
    let mut session = Session::new(db, mode, is_typed)?;
    if is_typed {
        typed::run(&mut session, &args.store)?;
    } else if args.sql.is_empty() {
        session.script_of(&input::read_stdin()?, &Place::Input)?;
    } else {
        for sql in &args.sql {
            session.script(sql, &Place::Argument)?;
        }
    }
    session.finish()?;
    Ok(Exit::Done)
}

/// Opens the file, which may be made: as a store.
fn open(path: &Path, read_only: bool) -> Result<Connection, Failure> {
    let flags = match read_only {
        true => OpenFlags::SQLITE_OPEN_READ_ONLY,
        false => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
    };
    let flags = flags | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let refused = |reason: &str| {
        let hint = match Engine::of(path) {
            Engine::Lsm => "; SQL needs a store of the engine tree",
            Engine::Tree if path.exists() => "; is it a store, and may you read it?",
            Engine::Tree if path.parent().is_some_and(is_missing) => "; its folder is not there",
            Engine::Tree if read_only => "; it is not there, and --read-only makes none",
            Engine::Tree => "",
        };
        Failure::Other(format!("could not open {}: {reason}{hint}", path.display()))
    };
    let opened = match path.as_os_str() == ":memory:" {
        true => Connection::open_in_memory(),
        false => Connection::open_with_flags(uri(path)?, flags),
    };
    let db = opened.map_err(|error| refused(&session::message(&error)))?;
    if let Some(timeout) = wait::timeout() {
        db.busy_timeout(timeout).map_err(|error| refused(&session::message(&error)))?;
    }
    // The file is looked at only now.
    let looked = db.query_row("PRAGMA schema_version", [], |_| Ok(()));
    looked.map_err(|error| refused(&session::message(&error)))?;
    Ok(db)
}

/// Whether a file's folder is not there; the name of a file in the working folder has none.
fn is_missing(folder: &Path) -> bool {
    !folder.as_os_str().is_empty() && !folder.exists()
}

/// The name of a file as a URI, which asks for a store if the file is new.
fn uri(path: &Path) -> Result<String, Failure> {
    let whole = std::path::absolute(path);
    let whole = whole.map_err(|error| Failure::io("find", path.display(), &error))?;
    let mut uri = "file://".to_owned();
    for byte in whole.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' => {
                uri.push(char::from(*byte));
            }
            other => uri += &format!("%{other:02x}"),
        }
    }
    Ok(uri + "?engine=hedgerow")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_can_be_asked_for() {
        assert_eq!(
            uri(Path::new("/a b?c#d%")).ok().unwrap(),
            "file:///a%20b%3fc%23d%25?engine=hedgerow"
        );
    }
}
