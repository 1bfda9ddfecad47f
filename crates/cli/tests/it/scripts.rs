//! The scripts of `testdata`, by the command: a process for each operation.

use std::path::Path;
use std::process::{Command, Stdio};

use scripts::{Ends, Face, Operation, or_none, pair, shown};

#[test]
fn the_command_does_what_the_scripts_say_with_the_tree() {
    let run = scripts::run_all(|folder| Shell::new(folder, "tree"));
    let run = run.unwrap_or_else(|e| panic!("{e}"));
    assert!(run >= 22, "{run} scripts");
}

#[test]
fn the_command_does_what_the_scripts_say_with_the_lsm_engine() {
    let run = scripts::run_all(|folder| Shell::new(folder, "lsm"));
    let run = run.unwrap_or_else(|e| panic!("{e}"));
    assert!(run >= 15, "{run} scripts");
}

struct Shell {
    store: String,
    engine: &'static str,
    table: String,
    /// Pairs that are loaded together before anything else happens, one a line.
    puts: String,
}

type Answer = Result<Vec<String>, String>;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
    digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()
}

/// The lines of pairs that the command prints.
fn pairs(printed: &str) -> Vec<String> {
    let split = |line: &str| line.split_once('\t').map(|(k, v)| pair(&unhex(k), &unhex(v)));
    printed.lines().filter_map(split).collect()
}

fn range((from, to): &Ends) -> Vec<String> {
    let end = |option: &str, end: &Option<Vec<u8>>| {
        end.iter().map(|key| format!("--{option}={}", hex(key))).collect::<Vec<_>>()
    };
    [end("from", from), end("before", to)].concat()
}

impl Shell {
    fn new(folder: &Path, engine: &'static str) -> Self {
        let store = folder.join("store").to_str().unwrap().to_owned();
        let mut face = Self { store, engine, table: "main".into(), puts: String::new() };
        face.command(&["create", "--engine", engine, &face.store.clone()], "").unwrap();
        face.use_table("main", &[]).unwrap();
        face
    }

    /// Runs the command; what it prints, or what is said to be wrong.
    fn command(&mut self, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hedgerow"));
        command.args(arguments).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, input.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        // One says that nothing was found.
        match output.status.code() {
            Some(0 | 1) => Ok(String::from_utf8(output.stdout).unwrap()),
            _ => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Runs a subcommand on the table in use, keys and values in hexadecimal.
    fn on_table(&mut self, name: &str, more: &[String]) -> Result<String, String> {
        self.load()?;
        let (store, table) = (self.store.clone(), self.table.clone());
        let mut arguments = vec![name, "--format", "hex", "--table", &table];
        arguments.extend(more.iter().map(String::as_str).filter(|text| text.starts_with("--")));
        arguments.push(&store);
        arguments.extend(more.iter().map(String::as_str).filter(|text| !text.starts_with("--")));
        self.command(&arguments, "")
    }

    fn load(&mut self) -> Result<(), String> {
        if self.puts.is_empty() {
            return Ok(());
        }
        let (store, table) = (self.store.clone(), self.table.clone());
        let puts = std::mem::take(&mut self.puts);
        let how = ["load", "--as", "lines", "--format", "hex", "--table", &table, &store];
        self.command(&how, &puts).map(drop)
    }

    fn use_table(&mut self, name: &str, options: &[String]) -> Answer {
        self.load()?;
        self.table = name.into();
        let store = self.store.clone();
        // A keyspace of the lsm engine is made with its first entry.
        if self.engine == "tree" {
            let mut arguments = vec!["create", "--table", name];
            for option in options {
                arguments.push(match option.as_str() {
                    "duplicates" => "--duplicates",
                    "reverse" => "--order=reverse",
                    _ => "--order=integer",
                });
            }
            arguments.push(&store);
            if let Err(error) = self.command(&arguments, "") {
                assert!(error.contains("exists"), "{error}");
            }
        }
        Ok(vec![])
    }

    fn scan(&mut self, ends: &Ends, backwards: bool) -> Answer {
        let mut arguments = range(ends);
        arguments.extend(backwards.then(|| "--reverse".to_owned()));
        match self.on_table("scan", &arguments) {
            Ok(printed) => Ok(or_none(pairs(&printed))),
            Err(error) if self.is_missing(&error) => Ok(or_none(vec![])),
            Err(error) => Err(error),
        }
    }

    /// Whether an error is that a keyspace of the lsm engine has no entry yet.
    fn is_missing(&self, error: &str) -> bool {
        self.engine == "lsm" && error.contains(&self.table)
    }

    fn get(&mut self, key: &[u8]) -> Answer {
        let key = hex(key);
        match self.on_table("get", &[key]) {
            Ok(printed) => {
                Ok(or_none(printed.lines().take(1).map(|line| shown(&unhex(line))).collect()))
            }
            Err(error) if self.is_missing(&error) => Ok(or_none(vec![])),
            Err(error) => Err(error),
        }
    }

    fn number(&mut self, name: &str, arguments: &[String]) -> Answer {
        let printed = self.on_table(name, arguments)?;
        Ok(vec![printed.split_whitespace().next().unwrap_or_default().into()])
    }

    fn remove(&mut self, which: &[String]) -> Answer {
        match self.on_table("delete", which) {
            Err(error) if !self.is_missing(&error) => Err(error),
            _ => Ok(vec![]),
        }
    }

    fn check(&mut self) -> Answer {
        self.load()?;
        let store = self.store.clone();
        let printed = self.command(&["check", "--json", &store], "")?;
        let is_sound = printed.contains("\"problems\":[]");
        Ok(vec![if is_sound { "sound".into() } else { printed }])
    }
}

impl Face for Shell {
    fn has(&self, need: &str) -> bool {
        let of_all = ["tables"];
        let of_trees = ["counts", "duplicates", "orders"];
        of_all.contains(&need) || self.engine == "tree" && of_trees.contains(&need)
    }

    fn run(&mut self, operation: &Operation) -> Answer {
        match operation {
            Operation::Table { name, options } => self.use_table(name, options),
            Operation::Put { key, value } => {
                self.puts.push_str(&format!("{}\t{}\n", hex(key), hex(value)));
                Ok(vec![])
            }
            Operation::Delete { key } => self.remove(&[hex(key)]),
            Operation::DeleteRange { ends } => match range(ends) {
                all if all.is_empty() => self.remove(&["--prefix=".into()]),
                some => self.remove(&some),
            },
            Operation::Get { key } => self.get(key),
            Operation::Scan { ends, backwards } => self.scan(ends, *backwards),
            Operation::Count { ends } => self.number("count", &range(ends)),
            Operation::Rank { key } => self.number("rank", &[hex(key)]),
            Operation::Nth { n } => {
                let printed = self.on_table("nth", &[n.to_string()])?;
                Ok(or_none(pairs(&printed)))
            }
            Operation::Check => self.check(),
            // Each operation opens the store anyway.
            Operation::Reopen => self.load().map(|()| vec![]),
            other => panic!("the command does not {other:?}"),
        }
    }
}
