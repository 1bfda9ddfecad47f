//! How many pages the same entries take in each engine.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::data::{self, Generator};
use crate::engine::{Cursor, Engine, Paged, Pages, Promise, Reader, Result, Table, Writer};
use crate::name::Name;

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

/// A set of entries: a name, and whether keys have 20 values each.
#[derive(Clone, Copy)]
pub(crate) struct Set {
    name: &'static str,
    duplicates: bool,
}

const SETS: [Set; 2] =
    [Set { name: "unique", duplicates: false }, Set { name: "duplicates", duplicates: true }];

impl Set {
    fn table(self) -> Table {
        Table { name: "table", duplicates: self.duplicates }
    }

    fn entry(self, number: u64) -> (Vec<u8>, Vec<u8>) {
        if self.duplicates {
            (data::prefixed_key(number / 20), data::prefixed_value(number))
        } else {
            (data::prefixed_key(number), data::value(number).to_vec())
        }
    }
}

/// What is loaded, and how.
#[derive(Clone, Copy)]
pub(crate) struct Loading {
    set: Set,
    entries: u64,
    /// Entries between two commits; none: one transaction.
    batch: Option<u64>,
}

/// One loading in each engine.
struct Row {
    loading: Loading,
    pages: Vec<(Name, Pages)>,
}

impl Row {
    fn name(&self) -> String {
        let batched = if self.loading.batch.is_some() { "_batched" } else { "" };
        format!("{}{batched}", self.loading.set.name)
    }

    /// Leaf pages of Hedgerow divided by those of LMDB, if both were measured.
    fn ratio(&self) -> Option<f64> {
        let leaf = |wanted| {
            let (_, pages) = self.pages.iter().find(|(name, _)| *name == wanted)?;
            Some(pages.leaf as f64)
        };
        Some(leaf(Name::Hedgerow)? / leaf(Name::Lmdb)?)
    }
}

/// Loads both sets into the engines and prints their pages.
pub(crate) fn main(options: &Options) -> Result<()> {
    let batches = std::iter::once(None).chain(options.batch.map(Some));
    let mut rows = Vec::new();
    for batch in batches {
        for set in SETS {
            let loading = Loading { set, entries: options.entries, batch };
            let load = |name: Name| Ok((name, name.load(loading)?));
            let pages =
                Name::wanted(options.engine).into_iter().map(load).collect::<Result<_>>()?;
            rows.push(Row { loading, pages });
        }
    }
    let text = if options.json { to_json(&rows, options.entries) } else { to_table(&rows)? };
    print!("{text}");
    Ok(())
}

/// Loads a set into a new store of one engine, in random order, and verifies it.
pub(crate) fn load<E>(loading: Loading) -> Result<Pages>
where
    E: Engine + 'static,
    for<'e> E::Reader<'e>: Paged,
{
    let Loading { set, entries, batch } = loading;
    let folder = tempfile::tempdir()?;
    let store = E::open(folder.path(), None)?;
    let mut order: Vec<u32> = (0..entries).map(|number| number as u32).collect();
    Generator::new(7).shuffle(&mut order);
    let chunk = usize::try_from(batch.unwrap_or(entries))?;
    for numbers in order.chunks(chunk) {
        store.write(set.table(), Promise::Unsynced, |txn| {
            for number in numbers {
                let (key, value) = set.entry(u64::from(*number));
                txn.put(&key, &value)?;
            }
            Ok(())
        })?;
    }
    let pages = store.read(set.table(), |txn| verify(txn, set, entries));
    pages.map_err(|error| format!("{}: {error}", std::any::type_name::<E>()).into())
}

/// Counts the entries and looks up every thousandth; returns the table's pages.
fn verify<R: Reader + Paged>(txn: &R, set: Set, entries: u64) -> Result<Pages> {
    let pages = txn.pages()?;
    if pages.entries != entries {
        return Err(format!("{} of {entries} {} entries are there", pages.entries, set.name).into());
    }
    let mut cursor = txn.cursor()?;
    for number in (0..entries).step_by(1000) {
        let (key, value) = set.entry(number);
        let mut found = false;
        if set.duplicates {
            cursor.each_value(&key, |one| found |= one == value)?;
        } else {
            found = txn.get(&key, |one| one == value)? == Some(true);
        }
        if !found {
            return Err(format!("{} entry {number} is missing or wrong", set.name).into());
        }
    }
    Ok(pages)
}

fn to_json(rows: &[Row], entries: u64) -> String {
    let mut object = Map::new();
    object.insert("entries".into(), json!(entries));
    object.insert("page_size".into(), json!(4096));
    object.insert("lmdb_version".into(), json!(crate::engines::lmdb::version()));
    for row in rows {
        let ratio = row.ratio().map(|ratio| (ratio * 1e4).round() / 1e4);
        object.insert(format!("{}_ratio", row.name()), json!(ratio));
        let mut engines = Map::new();
        for (name, pages) in &row.pages {
            engines.insert(name.text().into(), pages_to_json(*pages));
        }
        if let Some(batch) = row.loading.batch {
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
    writeln!(text, "Pages of 4 KiB; {}", crate::engines::lmdb::version())?;
    writeln!(
        text,
        "{:<20} {:<9} {:>9} {:>9} {:>9} {:>9} {:>6}",
        "set", "engine", "entries", "leaf", "branch", "overflow", "depth"
    )?;
    for row in rows {
        for (engine, pages) in &row.pages {
            let Pages { depth, branch, leaf, overflow, entries } = pages;
            let (name, engine) = (row.name(), engine.text());
            write!(text, "{name:<20} {engine:<9} {entries:>9} {leaf:>9} {branch:>9} ")?;
            writeln!(text, "{overflow:>9} {depth:>6}")?;
        }
        if let Some(ratio) = row.ratio() {
            writeln!(text, "{:<20} {:<9} {:>9} {ratio:>9.3}", row.name(), "ratio", "")?;
        }
    }
    Ok(text)
}
