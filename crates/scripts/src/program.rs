//! A face that is another program: it gets an operation a line, and prints what that gives and then
//! a line with a point.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::{Ends, Face, Operation, or_none, pair, shown};

type Answer = Result<Vec<String>, String>;
/// Checks a program's store.
pub type Check = Box<dyn FnMut() -> Answer>;

/// A program that runs operations. Keys and values are `x` and hexadecimal digits, `*` is no end;
/// what the program prints has the digits alone, pairs two words.
pub struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    lacks: &'static [&'static str],
    check: Option<Check>,
}

impl Program {
    /// Starts a program, which does not have what `lacks` says. `check` checks its store, if the
    /// program does not do that itself.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(
        command: &mut Command,
        lacks: &'static [&'static str],
        check: Option<Check>,
    ) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program can be started");
        let input = child.stdin.take().expect("its input is a pipe");
        let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        Self { child, input, output, lacks, check }
    }

    /// The lines that an operation gives.
    fn ask(&mut self, operation: &str) -> Answer {
        let dead = |_| format!("the program died of {operation:.80}");
        writeln!(self.input, "{operation}").map_err(dead)?;
        let (mut lines, mut error) = (Vec::new(), None);
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).map_err(dead)?;
            match line.strip_suffix('\n') {
                None => return Err(format!("the program died of {operation:.80}")),
                Some(".") => return error.map_or(Ok(lines), Err),
                Some(line) => match line.strip_prefix("error ") {
                    Some(word) => error = Some(word.to_owned()),
                    None => lines.push(line.to_owned()),
                },
            }
        }
    }

    fn pairs(&mut self, operation: &str) -> Answer {
        let split = |line: String| {
            let (key, value) = line.split_once(' ').unwrap_or((&line, ""));
            pair(&unhex(key), &unhex(value))
        };
        Ok(or_none(self.ask(operation)?.into_iter().map(split).collect()))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has nothing to say any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("x".to_owned()).chain(digits).collect()
}

/// The bytes of hexadecimal digits, of which a program prints no others.
fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
    text.as_bytes().chunks_exact(2).map(|two| digit(two[0]) << 4 | digit(two[1])).collect()
}

fn range((from, to): &Ends) -> String {
    let end = |end: &Option<Vec<u8>>| end.as_deref().map_or("*".to_owned(), hex);
    format!("{} {}", end(from), end(to))
}

impl Face for Program {
    fn has(&self, need: &str) -> bool {
        !self.lacks.contains(&need)
    }

    fn run(&mut self, operation: &Operation) -> Answer {
        if let (Operation::Check, Some(check)) = (operation, &mut self.check) {
            return check();
        }
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
            alone => self.ask(&format!("{alone:?}").to_lowercase()),
        }
    }
}
