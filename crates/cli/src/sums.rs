//! `--sum`: what went through a dump or a load, in two numbers for each table.

use hedgerow::stream::PairSum;
use serde_json::{Value, json};

use crate::codec::shown;
use crate::tell::tell;

/// Whether the numbers are wanted.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct SumArg {
    /// Say on standard error how many entries of each table went through, and their checksum
    ///
    /// Entries that are the same in the same order have the same checksum, whatever the format and
    /// the engine: so a load can be compared with the dump that it came from.
    #[arg(long)]
    sum: bool,
}

/// A checksum as it is written.
pub(crate) fn written(sum: &PairSum) -> String {
    format!("{:016x}", sum.checksum())
}

/// The tables that went through so far, if their sums are wanted.
#[derive(Debug)]
pub(crate) struct Sums(Option<Vec<(Vec<u8>, PairSum)>>);

impl Sums {
    pub(crate) fn new(wanted: SumArg) -> Self {
        Self(wanted.sum.then(Vec::new))
    }

    /// The entries that follow are of this table.
    pub(crate) fn begin_table(&mut self, name: &[u8]) {
        if let Some(tables) = &mut self.0 {
            tables.push((name.to_vec(), PairSum::new()));
        }
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        if let Some((_, sum)) = self.0.as_mut().and_then(|tables| tables.last_mut()) {
            sum.add(key, value);
        }
    }

    fn each(&self) -> impl Iterator<Item = (String, u64, String)> {
        let tables = self.0.iter().flatten();
        tables.map(|(name, sum)| (shown(name).to_string(), sum.pairs(), written(sum)))
    }

    /// Says them on standard error.
    pub(crate) fn say(&self) {
        for (name, entries, checksum) in self.each() {
            tell!("table {name}: {entries} entries, checksum {checksum}");
        }
    }

    /// The same as JSON, if they are wanted.
    pub(crate) fn to_json(&self) -> Option<Value> {
        let told = |told: (String, u64, String)| {
            let (table, entries, checksum) = told;
            json!({ "table": table, "entries": entries, "checksum": checksum })
        };
        self.0.is_some().then(|| self.each().map(told).collect())
    }
}
