//! How many pages the same entries take in each engine.

use std::fmt::Write as _;
use std::path::Path;

use hedgerow::tree::Store;
use serde_json::{Map, Value, json};

use crate::data::{self, Generator};
use crate::engine::{Cursor, Engine, Error, Pages, Reader, Result, Writer};
use crate::lmdb::Environment;

const TABLE: &str = "table";

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Entries of each set, a multiple of 20
    #[arg(long, default_value_t = 1_000_000, value_parser = entries)]
    entries: u64,
    /// Measure also with a commit after every N entries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batch: Option<u64>,
    /// Measure one engine only
    #[arg(long)]
    engine: Option<Name>,
}

/// Reads a number of entries that makes whole keys with duplicates.
fn entries(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number @ 20..=0xFFFF_FFFF) if number.is_multiple_of(20) => Ok(number),
        _ => Err("it takes a multiple of 20, at least 20 and below 2^32".into()),
    }
}

/// An engine by name.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    Hedgerow,
    Lmdb,
}

/// A set of entries: a name, and whether keys have 20 values each.
#[derive(Clone, Copy)]
struct Set {
    name: &'static str,
    duplicates: bool,
}

const SETS: [Set; 2] =
    [Set { name: "unique", duplicates: false }, Set { name: "duplicates", duplicates: true }];

impl Set {
    fn entry(self, number: u64) -> (Vec<u8>, Vec<u8>) {
        if self.duplicates {
            (data::prefixed_key(number / 20), data::prefixed_value(number))
        } else {
            (data::prefixed_key(number), data::value(number).to_vec())
        }
    }
}

/// One set in both engines.
struct Row {
    set: Set,
    /// Entries between two commits; none: one transaction.
    batch: Option<u64>,
    hedgerow: Option<Pages>,
    lmdb: Option<Pages>,
}

impl Row {
    fn name(&self) -> String {
        format!("{}{}", self.set.name, if self.batch.is_some() { "_batched" } else { "" })
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.hedgerow?.leaf as f64 / self.lmdb?.leaf as f64)
    }
}

/// Loads both sets into both engines and prints their pages.
pub(crate) fn main(options: &Options) -> Result<()> {
    let batches = std::iter::once(None).chain(options.batch.map(Some));
    let mut rows = Vec::new();
    for batch in batches {
        for set in SETS {
            let measure = |name| options.engine.is_none_or(|only| only == name);
            let of = |name, load: fn(Set, u64, Option<u64>) -> Result<Pages>| {
                measure(name).then(|| load(set, options.entries, batch)).transpose()
            };
            let hedgerow = of(Name::Hedgerow, load::<Store>)?;
            let lmdb = of(Name::Lmdb, load::<Environment>)?;
            rows.push(Row { set, batch, hedgerow, lmdb });
        }
    }
    let text = if options.json { to_json(&rows, options) } else { to_table(&rows)? };
    print!("{text}");
    Ok(())
}

/// Loads a set into a new store of one engine, in random order, and verifies it.
fn load<E: Engine>(set: Set, entries: u64, batch: Option<u64>) -> Result<Pages> {
    let folder = tempfile::tempdir()?;
    let store = E::create(folder.path())?;
    let mut order: Vec<u32> = (0..entries).map(|number| number as u32).collect();
    Generator::new(7).shuffle(&mut order);
    let chunk = usize::try_from(batch.unwrap_or(entries))?;
    for numbers in order.chunks(chunk) {
        let mut txn = store.write()?;
        let table = txn.create_table(TABLE, set.duplicates)?;
        for number in numbers {
            let (key, value) = set.entry(u64::from(*number));
            txn.put(table, &key, &value)?;
        }
        txn.commit()?;
    }
    let txn = store.read()?;
    verify(&txn, set, entries).map_err(|error| name_of::<E>(folder.path(), error))
}

fn name_of<E>(folder: &Path, error: Error) -> Error {
    format!("{} in {}: {error}", std::any::type_name::<E>(), folder.display()).into()
}

/// Counts the entries and looks up every thousandth; returns the table's pages.
fn verify<R: Reader>(txn: &R, set: Set, entries: u64) -> Result<Pages> {
    let table = txn.table(TABLE)?;
    let pages = txn.pages(table)?;
    if pages.entries != entries {
        return Err(format!("{} of {entries} {} entries are there", pages.entries, set.name).into());
    }
    let mut cursor = txn.cursor(table)?;
    for number in (0..entries).step_by(1000) {
        let (key, value) = set.entry(number);
        let mut found = false;
        if set.duplicates {
            cursor.each_value(&key, |one| found |= one == value)?;
        } else {
            found = txn.get(table, &key)?.is_some_and(|one| one == value);
        }
        if !found {
            return Err(format!("{} entry {number} is missing or wrong", set.name).into());
        }
    }
    Ok(pages)
}

fn to_json(rows: &[Row], options: &Options) -> String {
    let mut object = Map::new();
    object.insert("entries".into(), json!(options.entries));
    object.insert("page_size".into(), json!(4096));
    object.insert("lmdb_version".into(), json!(crate::lmdb::version()));
    for row in rows {
        let ratio = row.ratio().map(|ratio| (ratio * 1e4).round() / 1e4);
        object.insert(format!("{}_ratio", row.name()), json!(ratio));
        let mut engines = Map::new();
        for (name, pages) in [("hedgerow", row.hedgerow), ("lmdb", row.lmdb)] {
            if let Some(pages) = pages {
                engines.insert(name.into(), pages_to_json(pages));
            }
        }
        if let Some(batch) = row.batch {
            engines.insert("batch".into(), json!(batch));
        }
        object.insert(row.name(), Value::Object(engines));
    }
    format!("{:#}\n", Value::Object(object))
}

fn pages_to_json(pages: Pages) -> Value {
    json!({
        "depth": pages.depth,
        "branch_pages": pages.branch,
        "leaf_pages": pages.leaf,
        "overflow_pages": pages.overflow,
        "entries": pages.entries,
    })
}

fn to_table(rows: &[Row]) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "Pages of 4 KiB; {}", crate::lmdb::version())?;
    writeln!(
        text,
        "{:<20} {:<9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>6}",
        "set", "engine", "entries", "leaf", "branch", "overflow", "depth", "ratio"
    )?;
    for row in rows {
        for (engine, pages) in [("hedgerow", row.hedgerow), ("lmdb", row.lmdb)] {
            let Some(pages) = pages else { continue };
            let Pages { depth, branch, leaf, overflow, entries } = pages;
            let name = row.name();
            write!(text, "{name:<20} {engine:<9} {entries:>9} {leaf:>9} {branch:>9} ")?;
            let ratio = row.ratio().filter(|_| engine == "hedgerow");
            let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"));
            writeln!(text, "{overflow:>9} {depth:>6} {ratio:>6}")?;
        }
    }
    Ok(text)
}
