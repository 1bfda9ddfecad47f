//! Golden dumps: every kind of page and file that the engines write, byte for byte, beside text
//! files; and stores that were kept as bytes, which still open.
//!
//! The stores are made through the public interface on a simulated disk that draws the same random
//! numbers in every run. What a dump says of the bytes is told by docs/format.md and
//! docs/format-lsm.md, not by the engines: this is a second reader of these pages.

mod dump;
mod kept;
pub(crate) mod lsm;
pub(crate) mod tree;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use hedgerow::os::sim::{Config, SimSystem};

/// Set to `write`, the golden files are written instead of compared.
const RENEW: &str = "HEDGEROW_GOLDEN";

/// A disk on which the same calls make the same files.
fn disk() -> Arc<SimSystem> {
    Arc::new(SimSystem::new(1, Config { repeats: true, ..Config::default() }))
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn renews() -> bool {
    std::env::var(RENEW).is_ok_and(|value| value == "write")
}

/// What to say of the first line in which a dump is not the golden one; `None` if there is none.
fn difference(name: &str, golden: &str, dump: &str) -> Option<String> {
    let lines = golden.lines().count().max(dump.lines().count());
    let at = |text: &'_ str, line: usize| text.lines().nth(line).map(str::to_string);
    let line = (0..lines).find(|line| at(golden, *line) != at(dump, *line))?;
    let heading = dump.lines().take(line + 1).filter(|line| line.starts_with('#')).last();
    let side = |text| at(text, line).unwrap_or_else(|| "(the end)".to_string());
    let place = side(dump);
    let offset = place.split(' ').next().unwrap_or_default();
    let file = path(name);
    let page = heading.unwrap_or_default().trim_start_matches(['#', ' ']);
    Some(format!(
        "\n{}:{}, in \"{page}\", at offset 0x{offset}:\n  golden  {}\n  written {place}\n\
         The format has changed. If it was meant to, describe it in docs/, raise the version or\n\
         take a feature bit, and renew the golden file:\n\
         {RENEW}=write cargo test -p hedgerow --test it golden\n",
        file.display(),
        line + 1,
        side(golden),
    ))
}

/// Compares a dump with the golden file of this name, or writes that.
fn compare(name: &str, dump: &str) {
    if renews() {
        return fs::write(path(name), dump).unwrap();
    }
    let golden = fs::read_to_string(path(name)).unwrap_or_default();
    if let Some(problem) = difference(name, &golden, dump) {
        panic!("{problem}");
    }
}

#[test]
fn a_difference_is_told_with_its_place() {
    let golden = "# page 3\n003000 01 kind\n003001 02 level\n";
    assert_eq!(difference("a.txt", golden, golden), None);
    let told = difference("a.txt", golden, &golden.replace("01 kind", "07 kind")).unwrap();
    let parts = ["a.txt:2", "page 3", "0x003000", "golden  003000 01", "written 003000 07", RENEW];
    assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    assert!(difference("a.txt", golden, "# page 3\n").unwrap().contains("(the end)"));
    assert!(difference("a.txt", "", golden).unwrap().contains("a.txt:1"));
}
