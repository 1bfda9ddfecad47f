//! Cuts a source of SQLite's as the build of the library does, for `tests/tcl.sh`, whose test
//! program is made of another version's source: `cut SQLITE3.C > HYBRID.C`.

#[path = "../cut.rs"]
mod cut;

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: cut SQLITE3.C");
        return ExitCode::from(2);
    };
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string());
    match text.and_then(|text| cut::cut(&text)) {
        Ok(text) if std::io::stdout().write_all(text.as_bytes()).is_ok() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
