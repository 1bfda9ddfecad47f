//! The scripts of `testdata`, through the C interface: a program in C runs the operations.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use scripts::{Ends, Face, Operation, or_none, pair, shown};

use crate::programs::Program;

#[test]
fn the_c_interface_does_what_the_scripts_say() {
    let program = Program::of_file("script");
    let run = scripts::run_all(|folder| C::of(&program, folder));
    let run = run.unwrap_or_else(|e| panic!("{e}"));
    assert!(run >= 30, "{run} scripts");
}

struct C {
    folder: PathBuf,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

type Answer = Result<Vec<String>, String>;

/// A word of the program's: `x` and hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("x".to_owned()).chain(digits).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
    digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()
}

fn range((from, to): &Ends) -> String {
    let end = |end: &Option<Vec<u8>>| end.as_deref().map_or("*".to_owned(), hex);
    format!("{} {}", end(from), end(to))
}

impl C {
    fn of(program: &Program, folder: &Path) -> Self {
        let mut command = program.command();
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::new(output);
        let mut face = Self { folder: folder.into(), child, input, output };
        face.ask("table main").unwrap();
        face
    }

    /// The lines that an operation prints.
    fn ask(&mut self, operation: &str) -> Answer {
        writeln!(self.input, "{operation}").unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it died of {operation:.80}");
            match line.trim_end_matches('\n') {
                "." => return Ok(lines),
                // MDB_BAD_VALSIZE
                "error -30781" => return self.ask_no_more("size"),
                error if error.starts_with("error") => return self.ask_no_more(error),
                line => lines.push(line.to_owned()),
            }
        }
    }

    /// After an error: takes the point.
    fn ask_no_more(&mut self, word: &str) -> Answer {
        self.output.read_line(&mut String::new()).unwrap();
        Err(word.into())
    }

    fn pairs(&mut self, operation: &str) -> Answer {
        let split = |line: String| {
            let (key, value) = line.split_once(' ').unwrap();
            pair(&unhex(key), &unhex(value))
        };
        Ok(or_none(self.ask(operation)?.into_iter().map(split).collect()))
    }

    fn check(&self) -> Answer {
        let store = hedgerow::tree::Store::open(&self.folder).map_err(|e| e.to_string())?;
        let report = store.check(&mut |_, _| {}).map_err(|e| e.to_string())?;
        let is_sound = report.problems.is_empty();
        Ok(if is_sound { vec!["sound".into()] } else { report.problems })
    }
}

impl Drop for C {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Face for C {
    fn has(&self, need: &str) -> bool {
        // Keys have 1 to 511 bytes, as in LMDB.
        !["empty-keys", "long-keys"].contains(&need)
    }

    fn run(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::Table { name, options } => {
                self.ask(&format!("table {name} {}", options.join(" ")))
            }
            Operation::Put { key, value } => self.ask(&format!("put {} {}", hex(key), hex(value))),
            Operation::Delete { key } => self.ask(&format!("delete {}", hex(key))),
            Operation::DeleteRange { ends } => self.ask(&format!("delete-range {}", range(ends))),
            Operation::Get { key } => {
                let lines = self.ask(&format!("get {}", hex(key)))?;
                Ok(or_none(lines.iter().map(|line| shown(&unhex(line))).collect()))
            }
            Operation::Scan { ends, backwards: false } => {
                self.pairs(&format!("scan {}", range(ends)))
            }
            Operation::Scan { ends, .. } => self.pairs(&format!("scan-back {}", range(ends))),
            Operation::Count { ends } => self.ask(&format!("count {}", range(ends))),
            Operation::Rank { key } => self.ask(&format!("rank {}", hex(key))),
            Operation::Nth { n } => self.pairs(&format!("nth {n}")),
            Operation::Check => self.check(),
            alone => self.ask(&format!("{alone:?}").to_lowercase()),
        }
    }
}
