//! Scripts of operations with their expected output, which every face of the library runs: so that
//! the engines, the C interface and the command prove themselves against the same text.
//!
//! The scripts are `testdata/*.txt`. `#` begins a comment. A block is some operations, a line
//! `----`, and what they print, up to an empty line. `needs:` names what not every face has; a face
//! without it leaves the script out.
//!
//! ```text
//! # Keys ascend byte by byte.
//! needs: counts
//!
//! put pear 1
//! put apple 2
//! scan
//! count
//! ----
//! apple 2
//! pear 1
//! 2
//! ```
//!
//! | operation | prints |
//! |---|---|
//! | `table NAME [duplicates] [reverse] [integer]` | goes on in this table, and makes it |
//! | `put KEY VALUE`, `delete KEY`, `delete-range FROM TO` | |
//! | `get KEY` | the first value, or `(none)` |
//! | `scan [FROM TO]`, `scan-back [FROM TO]` | each pair on a line, or `(none)` |
//! | `count [FROM TO]`, `rank KEY` | a number |
//! | `nth N` | a pair, or `(none)` |
//! | `begin`, `commit`, `abort` | the operations between them are one transaction |
//! | `savepoint`, `rollback`, `release` | likewise inside of a transaction, to any depth |
//! | `snapshot`, `old`, `new` | keeps the state; reads are of that state; of the newest again |
//! | `reopen`, `check` | closes and opens the store; `sound` |
//! | `fill PREFIX N VALUE` | puts N keys: the prefix and six digits |
//!
//! An operation that fails prints `error` and a word, such as `error size`. A range has its lower
//! end and not its upper one; `*` is no end. In keys and values `\` and two hexadecimal digits are
//! a byte, `""` is empty, and `a*300` is that repeated.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

mod program;
pub use program::{Check, Program};

/// What runs operations.
pub trait Face {
    /// Whether it has what a script needs.
    fn has(&self, need: &str) -> bool;

    /// Runs an operation on the table that is in use, which is `main` at first.
    ///
    /// # Errors
    /// The word that the script expects.
    fn run(&mut self, operation: &Operation) -> Result<Vec<String>, String>;
}

/// A range of keys: with the first end, without the second one.
pub type Ends = (Option<Vec<u8>>, Option<Vec<u8>>);

/// One line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table above says what each does")]
pub enum Operation {
    Table { name: String, options: Vec<String> },
    Put { key: Vec<u8>, value: Vec<u8> },
    Delete { key: Vec<u8> },
    DeleteRange { ends: Ends },
    Get { key: Vec<u8> },
    Scan { ends: Ends, backwards: bool },
    Count { ends: Ends },
    Rank { key: Vec<u8> },
    Nth { n: u64 },
    Begin,
    Commit,
    Abort,
    Savepoint,
    Rollback,
    Release,
    Snapshot,
    Old,
    New,
    Reopen,
    Check,
}

/// A script that disagrees with what a face printed, or cannot be read.
#[derive(Debug)]
pub struct Failure(String);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Operations, and what they print.
struct Block {
    line: usize,
    operations: Vec<(usize, String)>,
    expected: Vec<String>,
}

struct Script {
    needs: Vec<String>,
    blocks: Vec<Block>,
}

/// Runs all scripts that a face has everything for, each in a store that `make` makes in the folder
/// given; how many there were.
///
/// # Errors
/// The first disagreement of each script.
pub fn run_all<F: Face>(mut make: impl FnMut(&Path) -> F) -> Result<usize, Failure> {
    let (mut run, mut failures) = (0, String::new());
    for path in scripts()? {
        let folder = folder_for(&path)?;
        let result = run_one(&path, || make(&folder));
        let _ = std::fs::remove_dir_all(&folder);
        match result {
            Ok(was_run) => run += usize::from(was_run),
            Err(Failure(text)) => {
                let _ = writeln!(failures, "{}: {text}", path.display());
            }
        }
    }
    if failures.is_empty() { Ok(run) } else { Err(Failure(failures)) }
}

fn fail<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure(text.into()))
}

/// The scripts, by name.
fn scripts() -> Result<Vec<PathBuf>, Failure> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let entries = std::fs::read_dir(&folder).map_err(|e| Failure(e.to_string()))?;
    let is_script = |path: &PathBuf| path.extension().is_some_and(|end| end == "txt");
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut paths: Vec<_> = paths.filter(is_script).collect();
    paths.sort();
    if paths.is_empty() { fail(format!("no scripts in {}", folder.display())) } else { Ok(paths) }
}

/// A folder that no other test uses.
fn folder_for(script: &Path) -> Result<PathBuf, Failure> {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = script.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("hedgerow-script-{}-{number}-{name}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).map_err(|e| Failure(e.to_string()))?;
    Ok(folder)
}

/// Runs a script, if the face has what it needs.
fn run_one<F: Face>(path: &Path, make: impl FnOnce() -> F) -> Result<bool, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure(e.to_string()))?;
    let script = parse(&text)?;
    let mut face = make();
    if !script.needs.iter().all(|need| face.has(need)) {
        return Ok(false);
    }
    for block in &script.blocks {
        let mut printed = Vec::new();
        for (line, operation) in &block.operations {
            for operation in operations(*line, operation)? {
                match face.run(&operation) {
                    Ok(lines) => printed.extend(lines),
                    Err(word) => printed.push(format!("error {word}")),
                }
            }
        }
        if printed != block.expected {
            let (expected, printed) = (block.expected.join("\n"), printed.join("\n"));
            let line = block.line;
            return fail(format!("line {line}: expected\n{expected}\nand not\n{printed}\n"));
        }
    }
    Ok(true)
}

fn parse(text: &str) -> Result<Script, Failure> {
    let mut script = Script { needs: Vec::new(), blocks: Vec::new() };
    let mut block: Option<Block> = None;
    let mut is_output = false;
    for (line, text) in text.lines().enumerate().map(|(n, text)| (n + 1, text.trim_end())) {
        match (&mut block, text) {
            (_, text) if text.starts_with('#') && !is_output => {}
            (None, text) if text.starts_with("needs:") => {
                script.needs.extend(text["needs:".len()..].split_whitespace().map(String::from));
            }
            (None, "") => {}
            (Some(_), "") if !is_output => return fail(format!("line {line}: `----` is missing")),
            (Some(_), "") => {
                script.blocks.extend(block.take());
                is_output = false;
            }
            (Some(_), "----") => is_output = true,
            (Some(block), text) if is_output => block.expected.push(text.into()),
            (Some(block), text) => block.operations.push((line, text.into())),
            (None, text) => {
                let operations = vec![(line, text.into())];
                block = Some(Block { line, operations, expected: Vec::new() });
            }
        }
    }
    script.blocks.extend(block.take());
    if script.blocks.is_empty() { fail("there is nothing in it") } else { Ok(script) }
}

/// The operations of a line: one, or those of `fill`.
fn operations(line: usize, text: &str) -> Result<Vec<Operation>, Failure> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let wrong = || Failure(format!("line {line}: `{text}` is no operation"));
    let number = |word: &str| word.parse::<u64>().map_err(|_| wrong());
    let one = match words.as_slice() {
        ["fill", prefix, n, value] => {
            let (prefix, value) =
                (bytes(prefix).ok_or_else(wrong)?, bytes(value).ok_or_else(wrong)?);
            let key = |n: u64| [&prefix[..], format!("{n:06}").as_bytes()].concat();
            let put = |n| Operation::Put { key: key(n), value: value.clone() };
            return Ok((0..number(n)?).map(put).collect());
        }
        ["table", name, options @ ..] => {
            let options = options.iter().map(|&word| word.into()).collect();
            Operation::Table { name: (*name).into(), options }
        }
        ["put", key, value] => {
            let (key, value) = (bytes(key).ok_or_else(wrong)?, bytes(value).ok_or_else(wrong)?);
            Operation::Put { key, value }
        }
        ["get", key] => Operation::Get { key: bytes(key).ok_or_else(wrong)? },
        ["delete", key] => Operation::Delete { key: bytes(key).ok_or_else(wrong)? },
        ["rank", key] => Operation::Rank { key: bytes(key).ok_or_else(wrong)? },
        ["nth", n] => Operation::Nth { n: number(n)? },
        ["delete-range", from, to] => {
            Operation::DeleteRange { ends: ends(&[from, to]).ok_or_else(wrong)? }
        }
        ["scan", rest @ ..] => {
            Operation::Scan { ends: ends(rest).ok_or_else(wrong)?, backwards: false }
        }
        ["scan-back", rest @ ..] => {
            Operation::Scan { ends: ends(rest).ok_or_else(wrong)?, backwards: true }
        }
        ["count", rest @ ..] => Operation::Count { ends: ends(rest).ok_or_else(wrong)? },
        [word] => alone(word).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    Ok(vec![one])
}

fn alone(word: &str) -> Option<Operation> {
    Some(match word {
        "begin" => Operation::Begin,
        "commit" => Operation::Commit,
        "abort" => Operation::Abort,
        "savepoint" => Operation::Savepoint,
        "rollback" => Operation::Rollback,
        "release" => Operation::Release,
        "snapshot" => Operation::Snapshot,
        "old" => Operation::Old,
        "new" => Operation::New,
        "reopen" => Operation::Reopen,
        "check" => Operation::Check,
        _ => return None,
    })
}

fn ends(words: &[&str]) -> Option<Ends> {
    let end = |word: &str| if word == "*" { Some(None) } else { bytes(word).map(Some) };
    match words {
        [] => Some((None, None)),
        [from, to] => Some((end(from)?, end(to)?)),
        _ => None,
    }
}

/// The bytes that a word of a script stands for.
fn bytes(word: &str) -> Option<Vec<u8>> {
    if word == "\"\"" {
        return Some(Vec::new());
    }
    if let Some((text, times)) = word.rsplit_once('*')
        && let Ok(times) = times.parse()
    {
        return Some(bytes(text)?.repeat(times));
    }
    let (mut out, mut rest) = (Vec::new(), word.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'\\' {
            let (digits, after) = rest.split_at_checked(2)?;
            out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

/// Bytes as a script shows them: long ones of one byte as `a*300`.
pub fn shown(bytes: &[u8]) -> String {
    let Some(&first) = bytes.first() else { return "\"\"".into() };
    if bytes.len() >= 40 && bytes.iter().all(|&byte| byte == first) {
        return format!("{}*{}", shown(&[first]), bytes.len());
    }
    let mut out = String::new();
    for &byte in bytes {
        if byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'*' | b'"' | b'#') {
            out.push(byte.into());
        } else {
            let _ = write!(out, "\\{byte:02x}");
        }
    }
    out
}

/// A pair as a script shows it.
pub fn pair(key: &[u8], value: &[u8]) -> String {
    format!("{} {}", shown(key), shown(value))
}

/// Lines, or `(none)` if there are none.
pub fn or_none(lines: Vec<String>) -> Vec<String> {
    if lines.is_empty() { vec!["(none)".into()] } else { lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A face that knows no operation.
    struct Deaf;

    impl Face for Deaf {
        fn has(&self, need: &str) -> bool {
            need != "hearing"
        }

        fn run(&mut self, _: &Operation) -> Result<Vec<String>, String> {
            Err("deaf".into())
        }
    }

    #[test]
    fn words_are_read_and_shown_alike() {
        for word in ["a", "\"\"", "a\\00b", "\\5c", "x*300"] {
            let read = bytes(word);
            assert_eq!(read.map(|bytes| shown(&bytes)).as_deref(), Some(word));
        }
        assert_eq!((bytes("\\0"), bytes("\\zz")), (None, None));
    }

    #[test]
    fn what_disagrees_is_found() {
        let run = |text: &str| {
            let path = std::env::temp_dir().join(format!("script-{}", std::process::id()));
            std::fs::write(&path, text).map_err(|e| Failure(e.to_string()))?;
            run_one(&path, || Deaf)
        };
        assert!(matches!(run("get a\n----\nerror deaf\n"), Ok(true)));
        assert!(matches!(run("needs: hearing\n\nget a\n----\nb\n"), Ok(false)));
        for wrong in ["get a\n----\nb\n", "get a\n----\n", "get a\n\n", "got a\n----\n", "# no\n"] {
            assert!(run(wrong).is_err(), "{wrong}");
        }
    }
}
